/* What the store has of hosts, given to the engine as it came: batch by batch with the time of its
 * arrival, also where it is sealed. Threads: one owner of view and engine. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_REPLAY_H
#define PROCFLEET_COLLECTOR_RULES_RULES_REPLAY_H

#include "collector/rules/rules_judge.h"
#include "collector/store/read/store_read.h"

#define RULES_REPLAY_CHUNK_NS (300 * CLK_S)

struct rules_replay;

/* The columns that the rules need are read, and no others. view: or NULL, and rules_replay_begin
 * later. Errors: ERR_NOMEM */
NODISCARD enum err rules_replay_create(struct rules_replay **out, const struct rules_conf *rules,
                                       const struct store_view *view);
/* Goes on with another view: batches that were given or noted before are left out. NULL: none. */
void rules_replay_begin(struct rules_replay *r, const struct store_view *view);
void rules_replay_destroy(struct rules_replay *r); /* NULL is allowed */

/* rules_env.info over the view; ctx is the replay. Not every source tells paths: whole asks for
 * them. */
bool rules_replay_info(void *ctx, const struct uuid *host, const struct uuid *boot,
                       struct proc_id id, struct proc_info *out);

/* All batches of the host whose newest stamp, by its own clock, is in [since, until), which came at
 * or before received_max. Errors: ERR_TIMEOUT, ERR_NOMEM, ERR_FULL */
NODISCARD enum err rules_replay_host(struct rules_replay *r, struct rules_judge *j, size_t host,
                                     int64_t since_ns, int64_t until_ns,
                                     const struct deadline *deadline);

/* This batch was judged without the replay. */
void rules_replay_note(struct rules_replay *r, const struct uuid *host, uint64_t stream,
                       uint64_t seq);

/* The newest batch given of a host, for who goes on with what comes: a stream's number. False: it
 * has none. */
bool rules_replay_last(const struct rules_replay *r, const struct uuid *host, uint64_t stream,
                       uint64_t *seq);

#endif
