/* Ranges as somebody asks for them: hosts by name, a time by the collector's clock.
 * Threads: any. */
#ifndef PROCFLEET_COLLECTOR_LAB_EXTRACT_RANGE_H
#define PROCFLEET_COLLECTOR_LAB_EXTRACT_RANGE_H

#include "collector/lab/extract.h"

/* Hosts and range as somebody asks for them. */
struct extract_range {
    size_t n_hosts;
    const struct str *hosts;    /* names, globs or ids; none: every host */
    int64_t since_ns, until_ns; /* UTC, the collector's clock */
};

/* The hosts of the view that are in the scope and fit, each with the range by its own clock at that
 * time. Errors: ERR_FULL, those of store_blocks_scan */
NODISCARD enum err extract_range_hosts(struct query_run *out, const struct query_env *env,
                                       const struct extract_range *range, struct arena *memory);

/* How far the host's clock was from the collector's at that moment, by the batch nearest to it. */
NODISCARD enum err extract_range_clock(struct host_offset *out, const struct store_view *view,
                                       size_t host, int64_t when_ns);

/* The host's first tick at that moment of its own clock or later, 60 s at most; INT64_MAX: there is
 * none yet. What a process used in all comes with the tick after its end. */
NODISCARD enum err extract_range_tick(int64_t *out, const struct store_view *view, size_t host,
                                      int64_t when_ns);

/* extract_run of a range that is no run: two of them can be compared without files.
 * name  of the file's head */
NODISCARD enum err extract_range(struct run_file **out, const struct query_env *env,
                                 const struct extract_range *range, struct str name,
                                 struct errmsg *why);

#endif
