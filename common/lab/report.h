/* A report: runs, and what they differ in, as one HTML file that asks nobody for anything, reads
 * and prints without a script, and is for people who have no collector. Threads: one. */
#ifndef PROCFLEET_COMMON_LAB_REPORT_H
#define PROCFLEET_COMMON_LAB_REPORT_H

#include "common/lab/compare_types.h"

#define REPORT_MAX (2u << 20) /* bytes */

struct report {
    const struct run_file *const *runs; /* all sections; by time */
    size_t n_runs;
    const struct compare *compare; /* of these runs, as b, with others; or NULL */
    const char *names, *against;   /* as they were asked for */
    const char *made_by;           /* program and version */
    const char *command;           /* that makes it again */
    const char *const *class_keys; /* as of host_class_text; NULL: host_class_default */
};

/* Appends the file. What does not fit is left out, lives first, and it says so. out's limit is at
 * least REPORT_MAX. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err report_write(struct buf *out, const struct report *r);

#endif
