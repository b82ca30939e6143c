/* One block on its way into ClickHouse: rows of batches are gathered, then sent table by table, in
 * the order of ch_sink.h, each until it is in.
 * Bounds:  CH_SEND_CELLS cells, CH_SEND_SAMPLES samples, CH_SEND_BYTES or eight days, and what the
 *          last batch adds: ch_send_is_full.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SEND_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SEND_H

#include "collector/clickhouse/ch_http.h"
#include "collector/clickhouse/ch_rows.h"

#define CH_SEND_CELLS   ((size_t)64 << 10)
#define CH_SEND_SAMPLES ((size_t)256 << 10)
#define CH_SEND_BYTES   ((size_t)48 << 20)

struct ch_send_key {
    struct uuid host;
    uint64_t stream, seq;
};

/* A block that is in. */
struct ch_send_done {
    const struct ch_send_key *keys; /* of its batches */
    size_t n_keys;
    size_t given_up; /* of them: their rows are gone, or were left out */
    uint64_t cells, samples, values;
};

struct ch_send_conf {
    struct ch_http *http; /* borrowed, as all of this */
    const char *collector;
    int64_t started_ns; /* of this process, UTC */
    const char *const *samples;
    size_t n_samples;
    unsigned quorum;
    /* What came of an attempt to insert; ERR_OK: it is in. */
    void (*tell)(void *ctx, enum err e, const char *what, const struct errmsg *why);
    /* Before the next attempt. False: there shall be none. */
    bool (*wait)(void *ctx, int64_t ns);
    void (*done)(void *ctx, const struct ch_send_done *done);
    void *ctx;
};

struct ch_send;
/* Errors: ERR_NOMEM */
NODISCARD enum err ch_send_create(struct ch_send **out, const struct ch_send_conf *conf);
void ch_send_destroy(struct ch_send *s); /* NULL is allowed */

/* One that no agent makes (ch_rows.h) is logged, and its ledger row is all that is sent of it.
 * Errors: ERR_NOMEM */
NODISCARD enum err ch_send_add(struct ch_send *s, const struct ch_rows_batch *b);
void ch_send_process(struct ch_send *s, const struct uuid *host, const struct uuid *boot,
                     const struct proc_info *info, int64_t seen_ns);
bool ch_send_is_empty(struct ch_send *s);
bool ch_send_is_full(struct ch_send *s);

/* Sends what was gathered; it is empty then, also after an error. again: rows of it may be there
 * already. Errors: ERR_CLOSED (`wait` ended it), others: the block cannot be encoded */
NODISCARD enum err ch_send_block(struct ch_send *s, bool again);
void ch_send_reset(struct ch_send *s);            /* drops what was gathered */
uint64_t ch_send_blocks(const struct ch_send *s); /* how many were tried */

/* Buffers to encode something else with, between blocks. */
void ch_send_buffers(struct ch_send *s, struct buf **sql, struct buf **body);

#endif
