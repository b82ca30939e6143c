/* Tiers and summaries: rows of cells. A row is one process instance with one cell per metric and
 * bucket; a bucket is a multiple of 10 s, 1 min or 1 h of the host's stamps, or the whole window
 * (a summary). Made while sealing from the window's rows; the hour from its minutes.
 *
 *   host_window ─ tier_make ─> 10 s ─ tier_join ─> 1 min (folded)      1 min of 12 windows ─
 *                                  └─ tier_join ─> summary             tier_join ─> 1 h (folded)
 *
 * A row has a sample at every tick of its part between its first and its last one; where a tick
 * misses the process, or its mask changes, another row begins. So what a cell counts follows from
 * the ticks. Cells of counters begin with the sample before them, except in a row's first bucket.
 *
 * Tiers of a minute and more fold: instances that began and ended inside the data and lived less
 * than a bucket become one row per image name, user and bucket. Only where the batches of the host
 * have no hole. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_H

#include "collector/store/rollup/cell.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg_readahead.h"
#include "collector/store/segment/window.h"

#define TIER_WINDOW_NS 0 /* bucket of a summary: the whole window */
#define TIER_10S_NS    (10 * INT64_C(1000000000))
#define TIER_1MIN_NS   (60 * INT64_C(1000000000))
#define TIER_1H_NS     (3600 * INT64_C(1000000000))

/* The host's ticks in one bucket. In the order of `part`, then of time; those without ticks are
 * left out. */
struct tier_bucket {
    uint32_t part; /* in tier.parts */
    uint32_t ticks;
    int64_t begin_ns; /* multiple of the bucket; summary: of the first tick */
    int64_t first_wall_ns, last_wall_ns;
    int64_t last_mono_ns;
    int64_t span_mono_ns; /* to it from the tick before the bucket, in the part's first bucket from
                             its first tick */
};

/* Ticks of one boot whose stamps rise. */
struct tier_part {
    struct uuid boot;
    uint32_t first_bucket, n_buckets;
};

struct tier_row {
    struct proc_id id; /* of a folded row: 0, 0 */
    uint32_t part;
    uint32_t first_bucket, n_buckets; /* in tier.buckets; folded: one */
    int64_t first_ns, last_ns;        /* its first and its last sample */
    uint32_t first_count, last_count; /* samples in its first and its last bucket */
    uint32_t instances;               /* 0 = one, exactly; else folded, seen in this bucket */
    uint64_t mask;                    /* metrics */
    bool fresh;                       /* began here: its counters began at zero */
    bool ended;
    struct str name, user; /* image name and account as far as the window knows */
};

/* Folded cells: `sum` of a counter is the growth of all instances, from zero for what began in
 * the bucket, min and max are of those growths; first and last are 0. */
struct tier {
    int64_t bucket_ns;
    bool whole; /* no batch is missing inside: may fold */
    size_t n_parts, n_buckets, n_rows;
    const struct tier_part *parts;
    const struct tier_bucket *buckets;
    const struct tier_row *rows; /* by part, pid, start, time; folded ones last, by name */
    uint64_t metrics;            /* which columns are there */
    size_t n_cells[METRIC_COLS];
    const struct cell *columns[METRIC_COLS]; /* n_buckets of each row that has the metric */
};

/* Looks up what is known of an instance; false: nothing. Its text is borrowed for as long as the
 * tier. */
struct tier_names {
    bool (*find)(void *ctx, const struct uuid *boot, struct proc_id id, struct proc_info *out);
    void *ctx;
};

/* Adds up the window. Every bucket can be asked for; when several are wanted, make the one of 10 s
 * and join it. names: asked where the window's own infos say nothing; may be NULL.
 * Everything is in `memory` or borrowed from hw and names.
 * Errors: ERR_FULL (the arena's limit), ERR_NOMEM, ERR_INVALID (hw is not as window.h says) */
NODISCARD enum err tier_make(struct tier *out, struct arena *memory, const struct host_window *hw,
                             int64_t bucket_ns, bool fold, const struct tier_names *names);

/* Coarser buckets of one or more tiers of the same host, e.g. the hour of its twelve windows'
 * minutes; every bucket must be a part of one of bucket_ns. Texts are borrowed from the tiers.
 * Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err tier_join(struct tier *out, struct arena *memory, const struct tier *tiers,
                             size_t n, int64_t bucket_ns, bool fold);

/* As values: parts ROWS and COLUMN, or SUMS and SUM when bucket_ns is TIER_WINDOW_NS; bytes:
 * docs/formats.md. *points grows by the cells inside. */
NODISCARD enum err tier_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                              const struct tier *t, uint64_t *points);

/* Summaries of many hosts, waiting to be added metric by metric, so that all hosts of a metric lie
 * side by side. Bounds: TIER_LATER_MAX bytes (ERR_FULL). */
#define TIER_LATER_MAX ((size_t)1 << 30)
struct tier_later;
NODISCARD enum err tier_later_create(struct tier_later **out);
void tier_later_destroy(struct tier_later *l); /* NULL is allowed */
NODISCARD enum err tier_later_add(struct tier_later *l, struct packer *p, uint32_t host,
                                  uint8_t window, const struct tier *t);
NODISCARD enum err tier_later_write(struct tier_later *l, struct seg_writer *w); /* and empties */

/* Back, with the metrics in `metrics`; without `names` rows have no texts, which is quicker.
 * Errors: ERR_NOTFOUND (nothing of the host there), ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_IO */
struct tier_ask {
    uint32_t host; /* in the segment */
    uint8_t window;
    int64_t bucket_ns;
    uint64_t metrics;
    bool names;
};
NODISCARD enum err tier_read(struct tier *out, const struct seg *s, struct packer *p,
                             struct arena *memory, const struct tier_ask *ask);
/* The same for those who ask for the summaries of one host after the other; what it gives lasts as
 * long as `ahead` too. */
NODISCARD enum err tier_read_ahead(struct tier *out, const struct seg *s, struct packer *p,
                                   struct seg_readahead *ahead, struct arena *memory,
                                   const struct tier_ask *ask);

#endif
