/* Between compact's own files. */
#ifndef PROCFLEET_COLLECTOR_STORE_COMPACT_COMPACT_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_COMPACT_COMPACT_IMPL_H

#include "collector/store/compact/compact.h"
#include "collector/store/segment/pack.h"

#define COMPACT_H_NS (3600 * INT64_C(1000000000))

/* One job at work. */
struct compact_run {
    const struct compact_conf *conf;
    const struct compact_job *job;
    const struct manifest_list *l;
    struct packer *packer;
    const struct seg *segs[COMPACT_SEGMENTS_MAX]; /* of job->at, all open */
    struct errmsg *why;
    uint64_t damaged; /* number of the segment that could not be read; 0 = none */
};

int64_t compact_hour_of(int64_t ns);
static inline bool compact_stopping(const struct compact_run *r)
{
    return r->conf->stopping && r->conf->stopping(r->conf->ctx);
}

/* Remembers that segs[i] is to blame when e says so; returns e. */
NODISCARD enum err compact_blame(struct compact_run *r, size_t i, enum err e);

/* Gives the writer the union of all ranges of the job's segments. Errors: ERR_NOMEM, … */
NODISCARD enum err compact_ranges(struct compact_run *r, struct seg_writer *w);

/* Write one segment. *n = 0 when there is nothing to write. Nothing is left after an error. */
NODISCARD enum err compact_join(struct compact_run *r, struct seg_info *out);
NODISCARD enum err compact_make_hour(struct compact_run *r, bool patch, struct seg_info *out,
                                     size_t *n);

#endif
