/* Compaction of hours that are over, one job at a time:
 *   hour  the 1 h tier, from minutes that are not in it yet; of late ones as a patch of it
 *   join  small segments of one kind become one file: values are copied as they are and directories
 *         merged, so it costs no decoding; patches lie beside what they patch
 * A file takes part in a join only when it is at most COMPACT_GROWTH times as large as all smaller
 * ones together, so that a few late batches do not copy an hour again and again; and large files
 * never do. A segment with a damaged value stays as it is, for `store check`.
 * Crashes: a job is one change of the manifest; before it, its files are leftovers.
 * Threads: one owner, the one that changes the manifest. */
#ifndef PROCFLEET_COLLECTOR_STORE_COMPACT_COMPACT_H
#define PROCFLEET_COLLECTOR_STORE_COMPACT_COMPACT_H

#include "collector/store/manifest/manifest.h"

/* Bytes: larger segments are not joined. Raw and 10 s segments are removed sooner and are most of
 * all bytes, so theirs is the smaller limit. */
#define COMPACT_SMALL        (32u << 20)
#define COMPACT_SMALL_FINE   (4u << 20)
#define COMPACT_GROWTH       4u
#define COMPACT_SEGMENTS_MAX 64u
#define COMPACT_SKIPS_MAX    64u

struct compact_job {
    bool hour;
    unsigned kind; /* of the segments */
    int64_t hour_ns;
    uint64_t bytes; /* what its result takes at most, while all else stays */
    size_t n;
    size_t at[COMPACT_SEGMENTS_MAX]; /* in the list */
};

/* Segments not to touch until the next opening. The newest are kept. */
struct compact_skips {
    uint64_t numbers[COMPACT_SKIPS_MAX];
    uint64_t n; /* ever added */
};

/* The next worth doing, of hours whose end is older than settle_ns. False: none. */
bool compact_next(struct compact_job *out, const struct manifest_list *l, int64_t now_ns,
                  int64_t settle_ns, const struct compact_skips *skips);

struct compact_conf {
    struct manifest *manifest;
    const struct fio *fio;
    const char *dir; /* of the segments; borrowed */
    int64_t settle_ns;
    bool (*stopping)(void *ctx); /* asked now and then; may be NULL */
    void *ctx;
};

struct compact_stats {
    uint64_t hours, joins;  /* jobs done */
    uint64_t read, written; /* bytes of files */
    uint64_t skipped;       /* segments left alone: damaged, or over a limit */
    uint64_t postponed;     /* jobs that had no room */
};

struct compact;
NODISCARD enum err compact_create(struct compact **out, const struct compact_conf *conf);
void compact_destroy(struct compact *c); /* NULL is allowed */
/* Tells of each join, from compact_step, before others can see it: `add` is in the place of the n
 * segments of these numbers. */
void compact_on_join(struct compact *c,
                     void (*joined)(void *ctx, const uint64_t *old, size_t n,
                                    const struct seg_info *add),
                     void *ctx);

/* Bytes that the next job takes while what it is made of is still there; 0: there is none. */
uint64_t compact_wants(const struct compact *c, int64_t now_ns);
/* Does the next job, if there is one and it takes at most spare_bytes (retain_spare), and publishes
 * it. *worked: whether one was done; call again then. Errors: ERR_CLOSED (stopping), ERR_IO,
 * ERR_NOSPACE, ERR_NOMEM: nothing changed, try again later */
NODISCARD enum err compact_step(struct compact *c, int64_t now_ns, uint64_t spare_bytes,
                                bool *worked, struct errmsg *why);
void compact_stats(const struct compact *c, struct compact_stats *out);

#endif
