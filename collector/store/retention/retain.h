/* What goes when: per kind an age and a share of bytes, a ceiling over everything in data_dir, and
 * the disk's own floor. Whole segments and whole catalogue days are dropped, the oldest of the kind
 * that is most over its share first. Pure decisions; the sealing thread carries them out.
 * Minutes that are not in their hour's tier yet may grow as old as that. */
#ifndef PROCFLEET_COLLECTOR_STORE_RETENTION_RETAIN_H
#define PROCFLEET_COLLECTOR_STORE_RETENTION_RETAIN_H

#include "collector/store/manifest/manifest.h"

struct retain_conf {
    int64_t age_ns[SEG_KINDS]; /* 0 = no limit */
    uint64_t share[SEG_KINDS]; /* bytes */
    uint64_t total_bytes;      /* ceiling over log, segments, manifest and catalogue */
    uint64_t disk_free_min;    /* below it raw goes, then events of providers; */
    uint64_t disk_free_stop;   /* below it batches are refused (with a pause to try again) */
};

struct retain_now {
    int64_t now_ns;
    uint64_t other_bytes; /* log, manifest, catalogue, dropped files that readers still hold, room
                             of others in data_dir */
    /* What will be written before the next plan, at most, while all that is there now stays: the
     * ceiling holds at every moment. */
    uint64_t coming_bytes;
    /* Room that optional work (compaction) would like below the ceiling: what is old makes place
     * for it, but it is no reason to refuse batches, or to drop anything for the disk's sake; more
     * than a quarter of the ceiling is not worth it. */
    uint64_t wanted_bytes;
    uint64_t disk_free, disk_total; /* total 0 = unknown: no rule of the disk's */
};

struct retain_plan {
    size_t n;
    uint64_t *drop; /* segment numbers; the caller's (mem_free); NULL when n is 0 */
    uint64_t bytes; /* of them */
    /* Files of each kind, by the rule that took them: age; share and ceiling; the disk's floor. */
    uint64_t by_age[SEG_KINDS], by_bytes[SEG_KINDS], by_disk[SEG_KINDS];
    int64_t catalogue_before_ns; /* the days before this one (its midnight, UTC) go */
    bool stop;                   /* refuse batches */
    /* What the next drop will be, for `store stats`: by the mean growth so far. */
    uint8_t next_kind; /* 0 = none in sight */
    int64_t next_window_ns, next_in_ns;
};

/* Defaults for what is 0 in *conf, from the size of the file system: shares not given divide what
 * those given leave of the total. */
void retain_defaults(struct retain_conf *conf, uint64_t disk_total);
/* Errors: ERR_NOMEM */
NODISCARD enum err retain_plan(struct retain_plan *out, const struct retain_conf *conf,
                               const struct manifest_list *l, const struct retain_now *now);

/* Bytes that may be written now for a while without dropping anything, and without filling the disk
 * so far that batches were refused: what optional work asks before it begins. coming_bytes stays
 * reserved. */
uint64_t retain_spare(const struct retain_conf *conf, const struct manifest_list *l,
                      const struct retain_now *now);

#endif
