/* The way of every batch into ClickHouse: what has become durable here is gathered, sent, and
 * counted as sent when its ledger row is there. The store is the buffer: what the queue has no room
 * for, and what came before a start, is read back from it (ch_backlog.h).
 *
 * Order of a block: [ledger rows `coming`, when rows of it may be there already,] cell, sample,
 * event, process, host, then the ledger rows `stored`. An outcome that is not known means the same
 * block again, to the next replica, for ever; the ledger says `again` then.
 *
 * Bounds: CH_SINK_QUEUE_BYTES of batches that wait; a block: ch_send.h.
 * Threads: one of its own. stored, keep, stats and the rest from any. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SINK_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SINK_H

#include "collector/clickhouse/ch_http.h"
#include "collector/clickhouse/ch_tell.h"
#include "collector/store/store_conf.h"

#define CH_SINK_QUEUE_BYTES ((size_t)64 << 20)

struct ch_sink;

struct ch_sink_conf {
    const struct fio *fio;
    const char *data_dir;
    const char *name; /* collector.name */
    struct ch_http_conf server;
    struct ch_keep keep;
    const char *const *samples; /* patterns of hosts whose samples are sent, too */
    size_t n_samples;
    int64_t gather_ns;
    unsigned quorum; /* replicas that must have a block; 0: all of them */
    uint32_t hosts_max;
    int64_t forget_ns; /* longer than the store keeps anything of a host */
    /* False: nothing is heard of it here. May be NULL. */
    bool (*host_state)(void *ctx, const struct uuid *host, struct ch_host_state *out);
    void *ctx;
};

/* Reads the state; before the store opens. Errors: those of ch_http_open and ch_sent_open */
NODISCARD enum err ch_sink_open(struct ch_sink **out, const struct ch_sink_conf *conf,
                                struct errmsg *why);
/* Begins to send. Errors: ERR_NOMEM, ERR_IO */
NODISCARD enum err ch_sink_start(struct ch_sink *s, struct store *store);
/* Sends what the queue has when ClickHouse takes it, for five seconds at most; before the store
 * closes. */
void ch_sink_stop(struct ch_sink *s);
void ch_sink_close(struct ch_sink *s); /* after it; NULL is allowed */

/* The store's on_stored and before_forget; that is false until the head was looked through. */
void ch_sink_stored(struct ch_sink *s, const struct store_stored *stored);
bool ch_sink_keep(struct ch_sink *s);

/* kind, member, name, help of what is counted; each is a uint64_t. */
#define CH_SINK_STATS(X)                                                                          \
    X(COUNTER, batches, "procfleet_clickhouse_batches_total",                                     \
      "Batches whose ledger row is in ClickHouse.")                                               \
    X(COUNTER, cells, "procfleet_clickhouse_cells_total", "Rows of cell that were sent.")         \
    X(COUNTER, samples, "procfleet_clickhouse_samples_total", "Rows of sample that were sent.")   \
    X(COUNTER, values, "procfleet_clickhouse_values_total", "Values of processes in them.")       \
    X(COUNTER, blocks, "procfleet_clickhouse_blocks_total", "Blocks that are in.")                \
    X(COUNTER, bytes, "procfleet_clickhouse_bytes_total", "Bytes of inserts as they travelled.")  \
    X(COUNTER, retries, "procfleet_clickhouse_retries_total",                                     \
      "Inserts that failed, or whose outcome was not known, and were sent again.")                \
    X(COUNTER, overflowed, "procfleet_clickhouse_overflowed_total",                               \
      "Batches that found the queue full and are read from the store.")                           \
    X(COUNTER, given_up, "procfleet_clickhouse_given_up_total",                                   \
      "Batches whose rows are not there: dropped by retention before, or left out.")              \
    X(GAUGE, queue_batches, "procfleet_clickhouse_queue_batches", "Batches that wait in memory.") \
    X(GAUGE, queue_bytes, "procfleet_clickhouse_queue_bytes", "Memory of them.")

#define CH_SINK_MEMBER(kind, member, name, help) uint64_t member;
struct ch_sink_stats {
    CH_SINK_STATS(CH_SINK_MEMBER)
    bool working;      /* nothing is wrong */
    int64_t lag_ns;    /* since the oldest batch that is not sent arrived; 0: there is none */
    int64_t cpu_ns;    /* of its thread */
    char trouble[400]; /* why nothing goes in; "": it does */
    char version[64];  /* of the server */
};
#undef CH_SINK_MEMBER
void ch_sink_stats(struct ch_sink *s, struct ch_sink_stats *out);

#endif
