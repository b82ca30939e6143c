/* What a batch becomes in the tables: rows of `cell`, `sample` (when wanted), `event`, `process`,
 * `host`, and its row in the ledger `batch`. All but the ledger row follow from the batch alone, so
 * that a batch sent twice, from wherever it is read, makes the same rows.
 *
 * A cell is one run of the batch inside one multiple of 10 s of the host's stamps.
 * Bounds: a batch of more cells, samples or days than below is refused: no agent makes such, a few
 *         bytes of a hostile one would be 64 Mi cells, and a block of > 100 partitions is refused.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_ROWS_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_ROWS_H

#include "collector/clickhouse/ch_native.h"
#include "collector/store/host_offset.h"
#include "common/wire/wire_batch.h"

#define CH_ROWS_SPAN_NS     INT64_C(10000000000) /* no cell crosses a multiple of it */
#define CH_ROWS_CELLS_MAX   (192u << 10)
#define CH_ROWS_SAMPLES_MAX (512u << 10)
#define CH_ROWS_DAYS_MAX    32u

/* One batch. Of a sealed one, `rows` is what its window holds of many batches, of which
 * [first_tick, first_tick + rest->n_ticks) are this one's; else it is `rest` itself. */
struct ch_rows_batch {
    const struct batch *rest; /* head, ticks, infos, events, ledger */
    const struct batch *rows; /* NULL: there are none any more */
    size_t first_tick;
    const struct host_offset *clock;
    int64_t received_ns;
    const char *host_name;
    bool samples;
};

struct ch_rows;
/* collector: name in the ledger. Errors: ERR_NOMEM */
NODISCARD enum err ch_rows_create(struct ch_rows **out, const char *collector);
void ch_rows_destroy(struct ch_rows *r); /* NULL is allowed */
void ch_rows_reset(struct ch_rows *r);

/* Errors: ERR_INVALID (not as batches are), ERR_FULL (over the bounds), ERR_NOMEM; nothing is added
 * then */
NODISCARD enum err ch_rows_add(struct ch_rows *r, const struct ch_rows_batch *b);
/* Of such a batch: its ledger row alone, as given up, so that nobody waits for it. Errors: as above
 */
NODISCARD enum err ch_rows_leave_out(struct ch_rows *r, const struct ch_rows_batch *b);

/* An instance as the store knows it, of a batch whose infos were left out; seen_ns: as of when. */
void ch_rows_process(struct ch_rows *r, const struct uuid *host, const struct uuid *boot,
                     const struct proc_info *info, int64_t seen_ns);

/* The block of CH_CELL, CH_SAMPLE, CH_EVENT, CH_PROCESS, CH_HOST or CH_BATCH. */
struct ch_block *ch_rows_block(struct ch_rows *r, enum ch_table t);

size_t ch_rows_batches(const struct ch_rows *r);
size_t ch_rows_days(const struct ch_rows *r); /* of the stamps inside, the hosts' clocks; about */
size_t ch_rows_bytes(const struct ch_rows *r);
uint64_t ch_rows_values(const struct ch_rows *r); /* samples × metrics inside */

/* Makes all ledger rows of this kind, with or without `again`; for those of batches whose rows are
 * gone CH_STORED becomes CH_GIVEN_UP. */
void ch_rows_announce(struct ch_rows *r, enum ch_kind kind, bool again);
size_t ch_rows_given_up(const struct ch_rows *r); /* such batches */

#endif
