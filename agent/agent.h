/* The whole agent: monitor → batch → store → uplink, its threads and the order of their start and
 * stop.
 *
 *   core thread    source, decode, aggregate, sampler, batch; puts into the store
 *   spool thread   makes batches durable (live; a replay's store is a queue in memory)
 *   uplink thread  takes from the store, speaks to the collector
 *   renew thread   keeps the certificate alive
 *
 * Start: configuration → lock → certificate → source → store → uplink thread → renewal → core
 * thread.
 * Stop:  source → last tick → last batch → store ended → renewal ends → uplink drains → threads
 * joined → released. Threads: agent_stop, agent_status and agent_tell from any; the rest from the
 * one that started it.
 */
#ifndef PROCFLEET_AGENT_AGENT_H
#define PROCFLEET_AGENT_AGENT_H

#include "agent/conf/agent_conf.h"
#include "agent/source/source.h"
#include "agent/spool/queue.h"
#include "agent/status/status.h"
#include "agent/uplink/uplink.h"

struct agent;

struct agent_opts {
    const struct agent_conf *conf; /* borrowed until agent_destroy */
    const char *name;              /* the certificate must be of this name; NULL: any */
    const char *const *files;      /* recordings to replay; none: this machine, live */
    size_t n_files;
    int64_t speed_permille; /* of a replay; see etl_file.h */
    bool rebase;
    unsigned level;        /* live: collect at this level from the start */
    int64_t level_span_ns; /* for so long; 0 = begin at the lowest */
};

/* What has happened so far. Counts are those of the last tick. */
struct agent_status {
    bool ended;      /* the core thread is through; result says how */
    enum err result; /* ERR_END recording played, ERR_OK stopped, else the source failed */
    uint64_t events, processes, starts, stops, unattributed, lost;
    uint64_t ticks, batches;
    uint64_t reported, filtered; /* rows that came out; that process_filter hid */
    unsigned level;
    uint64_t notes;           /* events of the agent itself */
    int permille;             /* of a recording */
    struct queue_stats queue; /* or the spool's */
    struct uplink_status uplink;
};

/* Errors: ERR_BUSY (another agent uses state_dir), ERR_USAGE (no collector's address, or the
 * certificate is of another name), those of tls_config_load, the source's open, uplink_start */
NODISCARD enum err agent_start(struct agent **out, const struct agent_opts *opts,
                               struct errmsg *why);

const struct source_about *agent_about(const struct agent *a);
const char *agent_name(const struct agent *a); /* the certificate's */

/* Waits until the core thread is through. Errors: ERR_TIMEOUT */
NODISCARD enum err agent_wait(struct agent *a, int64_t timeout_ns);
void agent_status(struct agent *a, struct agent_status *out);
void agent_tell(struct agent *a, struct status *out); /* the same and more, for people */
void agent_stop(struct agent *a);                     /* idempotent, never blocks */

/* Stops what still runs, lets the uplink drain until the monotonic moment, releases. NULL is
 * allowed. */
void agent_destroy(struct agent *a, int64_t until_ns);

#endif
