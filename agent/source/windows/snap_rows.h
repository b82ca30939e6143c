/* The bulk answers of NtQuerySystemInformation, classes 5 (SystemProcessInformation) and 148
 * (SystemFullProcessInformation), x64, as rows of a table. Pure: bytes and their length go in,
 * nothing of Windows is called; the layout and its offsets stand in snap_rows.c.
 * The bytes are taken for hostile: entries out of order, names outside, counts that do not fit.
 * Bounds:  one row at a time, names of SNAP_NAME_MAX bytes; longer ones are cut.
 * Threads: one owner per walk. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_ROWS_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_ROWS_H

#include "agent/source/source.h"
#include "common/base/sid.h"

#define SNAP_NAME_MAX  255
#define SNAP_IMAGE_MAX MODEL_TEXT_MAX

/* Columns whose source counts in 32 bits and wraps: snap_wide.h widens them. */
#define SNAP_U32_COLUMNS (METRIC_BIT(M_PAGE_FAULTS) | METRIC_BIT(M_HARD_FAULTS))

struct snap_walk {
    const uint8_t *p; /* borrowed while walking */
    size_t n;
    uint64_t base; /* address the answer was written to: names are given by address */
    bool full;     /* class 148: larger thread records, images with their path */
    bool end;
    size_t at;              /* of the next entry */
    const uint8_t *threads; /* of the entry last given; see snap_rows_thread */
    size_t n_threads, thread_bytes;
    char name[SNAP_NAME_MAX + 1];
    char image[SNAP_IMAGE_MAX + 1];
    char user[SID_TEXT_SIZE]; /* SID */
};

/* One thread as read; see snap_threads.h. */
struct snap_thread {
    uint32_t tid;
    uint64_t created; /* FILETIME */
    uint64_t time;    /* on a CPU, 100 ns */
    uint32_t switches;
};

void snap_rows_init(struct snap_walk *w, const void *p, size_t n, uint64_t base, bool full);

/* The next process. Texts in *out are borrowed from w until the next call. Process 0 is named
 * "Idle" and has no creation time. Columns of the extension (context switches, disk bytes) are
 * there only where the answer has room for it. All columns are as read: see snap_rows_unfit.
 * info.sequence is what stands where current systems have it: on older ones, whose extension is
 * shorter, that may be something else, see snap_win32.c.
 * Errors: ERR_END (no more), ERR_CORRUPT (this and everything behind it cannot be read) */
NODISCARD enum err snap_rows_next(struct snap_walk *w, struct snap_row *out);

/* Thread i, below w->n_threads, of the process last given. */
void snap_rows_thread(const struct snap_walk *w, size_t i, struct snap_thread *out);

/* UTF-16LE as UTF-8, as many whole characters as there is room for; a lone surrogate becomes
 * U+FFFD. Not NUL-terminated. */
struct str snap_rows_text(char *out, size_t size, const uint8_t *p, size_t units, bool *cut);

/* The column probe: what of `own`, the row of the asking process itself, cannot be true, so that
 * the system does not fill it. Says nothing about which system that is.
 * base_priority  that of the process's own priority class
 * Gives the mask of columns to leave out of every row. */
metric_mask snap_rows_unfit(const struct snap_row *own, int64_t base_priority);

#endif
