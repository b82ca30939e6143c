/* Which sealed windows hold something of a host. Private to the store's readers.
 * Threads: those of the view. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_WINDOWS_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_WINDOWS_H

#include "collector/store/read/store_view.h"
#include "common/base/arena.h"

/* A host in one window of one segment; valid as long as the view. */
struct store_window {
    const struct seg *seg;
    uint8_t kind;         /* enum seg_kind */
    uint8_t window;       /* in the segment */
    bool in_hour;         /* SEG_1MIN: see seg.h */
    uint32_t host;        /* in the segment */
    uint64_t number;      /* of the segment */
    int64_t window_ns;    /* nominal, UTC */
    int64_t t0_ns, t1_ns; /* the host's stamps inside */
};

/* All of one kind whose stamps meet [since, until), by t0_ns, then t1_ns, window and number; in
 * `memory`. What cannot be opened is counted in `used` (may be NULL) and left out.
 * Errors: ERR_NOMEM, ERR_FULL */
NODISCARD enum err store_windows(struct store_window **list, size_t *n, struct arena *memory,
                                 const struct store_view *v, size_t host, unsigned kind,
                                 int64_t since_ns, int64_t until_ns, struct store_used *used);

/* The nominal windows of which there are rows, as far as is known without opening what the range
 * does not need; sorted. */
struct store_covered {
    int64_t *windows;
    size_t n;
    bool pass; /* tiers of them are not opened */
};
NODISCARD enum err store_windows_covered(struct store_covered *out, struct arena *memory,
                                         const struct store_view *v, int64_t since_ns,
                                         int64_t until_ns);

/* A segment that cannot be opened. */
struct store_broken {
    unsigned kind;
    int64_t window_ns, end_ns; /* nominal: its first window, behind its last one */
};

/* What is known beside the list; the lists of one scan share it. */
struct store_beside {
    const struct store_covered *covered;      /* NULL: nothing is */
    int64_t window_since_ns, window_until_ns; /* nominal windows that meet it; equal: all */
    bool passed;                              /* there were segments that were not opened */
    size_t n_broken, cap_broken;
    struct store_broken *broken; /* in the list's memory; without those of before the host's time */
};

/* Whether a window, or several, are of those. */
bool store_windows_meet(int64_t window_ns, int64_t span_ns, int64_t since_ns, int64_t until_ns);

/* As store_windows, but segments all of whose windows are covered need not be there: those to pass
 * are not opened, and of those that cannot be opened nothing is missing. */
NODISCARD enum err store_windows_beside(struct store_window **list, size_t *n, struct arena *memory,
                                        const struct store_view *v, size_t host, unsigned kind,
                                        const int64_t range_ns[2], struct store_beside *beside,
                                        struct store_used *used);

/* Whether the nominal window is not cut by what is asked for: then its ticks are not as a rule,
 * though events reach out of it, which are told with a later batch than they happened. w: NULL: no
 */
bool store_windows_whole(const struct store_window *w, const struct store_cells *ask);

/* As qsort, of lists that are as a rule in order: looking costs less than sorting what is. */
void store_windows_sort(void *list, size_t n, size_t size,
                        int (*order)(const void *, const void *));

#endif
