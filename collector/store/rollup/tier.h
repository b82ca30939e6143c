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

#include "collector/store/rollup/tier_shape.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg_readahead.h"
#include "collector/store/segment/seg_write.h"
#include "collector/store/segment/window.h"

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
/* One more value of the segment, which is copied. */
NODISCARD enum err tier_later_put(struct tier_later *l, struct seg_key key, const void *p,
                                  size_t n);
NODISCARD enum err tier_later_write(struct tier_later *l, struct seg_writer *w); /* and empties */

/* Back, with the metrics in `metrics`; without `names` rows have no texts, which is quicker.
 * Errors: ERR_NOTFOUND (nothing of the host there), ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_IO */
struct tier_ask {
    uint32_t host; /* in the segment */
    uint8_t window;
    int64_t bucket_ns;
    metric_mask metrics;
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
