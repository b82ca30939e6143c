/* Where the agent's batches wait for the collector: the spool on disk while it watches this
 * machine, a queue in memory while it plays recordings. For agent.c alone.
 * Threads: as queue.h and agent/spool/spool.h say; open and close from the one that owns it. */
#ifndef PROCFLEET_AGENT_AGENT_STORE_H
#define PROCFLEET_AGENT_AGENT_STORE_H

#include "agent/agent_run.h"
#include "agent/conf/agent_conf.h"
#include "agent/spool/outbox.h"
#include "agent/spool/queue.h"
#include "agent/spool/spool.h"
#include "common/model/model.h"

struct agent_store {
    struct queue *queue; /* one of these two */
    struct spool *spool;
    struct agent_run run;
    uint64_t stream; /* of the last batch that was numbered */
};

/* A zeroed store is filled. host: whose batches it is for; NULL: anybody's. Errors: those of
 * spool_open, ERR_NOMEM */
NODISCARD enum err agent_store_open(struct agent_store *s, const struct agent_conf *conf,
                                    const struct uuid *host, bool replay, struct errmsg *why);
/* From now on a kill can be told at the next start; that of the last run, if it was one, stands in
 * the ledger. Live agents only. */
void agent_store_mark(struct agent_store *s, const struct agent_conf *conf,
                      const struct uuid *boot);
void agent_store_close(struct agent_store *s);
struct outbox agent_store_outbox(struct agent_store *s);

/* For struct batch_conf. */
void agent_store_number(struct agent_store *s, uint64_t *stream, uint64_t *seq);
/* A full queue makes a replay wait; a live agent never does. Errors: ERR_CLOSED */
NODISCARD enum err agent_store_put(struct agent_store *s, uint64_t seq, const void *p, size_t n);
void agent_store_end(struct agent_store *s); /* no further puts; a store never opened is fine */

/* The same figures of both; what a spool dropped, expired or could not write is overflow. */
void agent_store_stats(struct agent_store *s, struct queue_stats *out);
/* Losses that no batch tells of. Gives how many rows. */
size_t agent_store_ledger(struct agent_store *s, struct ledger_row *rows, size_t max);

#endif
