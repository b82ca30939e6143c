/* One simulated agent: everything behind the sampler is real, what is sampled is made up.
 *
 *   fleetgen's ticks and events → filter → batch → queue or spool → uplink → TLS → collector
 *
 * Many of them share a process: each has a certificate, a connection and the uplink's thread of its
 * own; whoever drives them calls fleet_agent_tick. The journal hears of every tick and event before
 * it is handed on, the meter of every batch made and acknowledged.
 *
 * Clock: the stamps are the system's plus the agent's own error, which may change at any time.
 * Bounds: the queue's or the spool's, as configured.
 * Threads: one owner; fleet_agent_offset and fleet_agent_stats from any. Callbacks: journal and
 * made on the owner's thread, the others on the uplink's. Out of memory ends the program. */
#ifndef PROCFLEET_TESTS_SUPPORT_FLEET_AGENT_H
#define PROCFLEET_TESTS_SUPPORT_FLEET_AGENT_H

#include "agent/agent_store.h"
#include "agent/batch/batch.h"
#include "agent/uplink/uplink.h"

#define FLEET_AGENT_BATCHES 256u /* whose times are remembered; older ones are not measured */

/* What became of one batch. */
struct fleet_ack {
    int64_t made_ns, sent_ns, acked_ns; /* monotonic; sent: first handed to the uplink */
    uint64_t values;
};

struct fleet_agent_conf {
    uint64_t seed;               /* which host: its name is "gen-SEED" */
    unsigned processes, metrics; /* as fleetgen's */
    unsigned starts_per_hour;
    int64_t tick_ns;
    int64_t offset_ns; /* its clock's error at first */
    unsigned samples;  /* of one batch */
    int64_t batch_age_ns;
    const char *ca, *cert, *key;
    const char *const *addresses;
    size_t n_addresses;
    const char *spool_dir; /* NULL: batches wait in memory */
    uint64_t spool_bytes;
    size_t queue_bytes;
    int64_t heartbeat_ns;

    /* The tick about to be taken, its stamps as they will travel; events come with the tick behind
     * them. May be NULL. */
    void (*journal)(void *ctx, const struct sample_tick *tick, const struct life_event *events,
                    size_t n_events);
    void (*acked)(void *ctx, const struct fleet_ack *ack); /* may be NULL */
    void (*greeted)(void *ctx);                            /* Hello was answered; may be NULL */
    void *ctx;
};

struct fleet_agent_stats {
    uint64_t ticks, events, rows, values; /* made */
    struct batch_stats batch;
    struct queue_stats store; /* overflow: lost on the way */
    struct uplink_status uplink;
    int64_t greeted_ns, acked_ns; /* monotonic, the last time; 0 = never */
};

struct fleet_agent;

/* Everything but the connection. Errors: those of tls_config_load, spool_open, uplink_start */
NODISCARD enum err fleet_agent_create(struct fleet_agent **out, const struct fleet_agent_conf *conf,
                                      struct errmsg *why);
/* Begins to connect. */
NODISCARD enum err fleet_agent_start(struct fleet_agent *a, struct errmsg *why);

/* One tick of the host, now, or the next of those made before. Errors: those of batch_tick and
 * batch_event */
NODISCARD enum err fleet_agent_tick(struct fleet_agent *a);

/* Makes the next `ticks` ticks, stamped as if the first were taken at that (monotonic) moment and
 * each further one a period later, and keeps the batches that they close: so that making them costs
 * nothing while others are measured. fleet_agent_tick then hands on what its tick closed, and
 * fleet_agent_finish the rest. Not with a spool; once, before the first tick. Errors: as
 * fleet_agent_tick */
NODISCARD enum err fleet_agent_premake(struct fleet_agent *a, int64_t first_ns, unsigned ticks);

void fleet_agent_offset(struct fleet_agent *a, int64_t offset_ns);
/* The batch figures are those of the last tick. */
void fleet_agent_stats(struct fleet_agent *a, struct fleet_agent_stats *out);

/* Hands on what is held, the stream's last batch; no further ticks. */
void fleet_agent_finish(struct fleet_agent *a);
/* Waits for what is under way until then, hangs up, releases; NULL is allowed. */
void fleet_agent_destroy(struct fleet_agent *a, int64_t until_ns);

/* Of the host that a seed stands for. */
void fleet_agent_host(uint64_t seed, struct uuid *host, char *name, size_t size);

#endif
