/* What a doctor found: one check, how it stands, and what to do about it. The programs' doctors
 * (agent/doctor, collector/doctor) look; here is how they report it and how it is printed.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_CHECK_CHECK_RESULT_H
#define PROCFLEET_COMMON_CHECK_CHECK_RESULT_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/text/table.h"

enum check_result_state {
    CHECK_RESULT_OK,
    CHECK_RESULT_WARNING, /* it works, but not as well as it could, or not for long */
    CHECK_RESULT_FAILED,
    CHECK_RESULT_SKIPPED, /* does not apply here, or something else comes first */
};

struct check_result {
    const char *check; /* stable identifier: "state.lock" */
    enum check_result_state state;
    const char *detail; /* one sentence */
    const char *fix;    /* what to do about it; "" when nothing is to be done */
};

struct findings {
    void (*found)(void *ctx, const struct check_result *f); /* texts are borrowed */
    void *ctx;
    unsigned count[CHECK_RESULT_SKIPPED + 1]; /* by state */
};

/* "ok", "warning", "failed", "skipped" */
const char *check_result_state_text(enum check_result_state s);

/* Counts one finding and hands it on. */
void check_result_report(struct findings *to, const char *check, enum check_result_state state,
                         const char *fix, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Whether the owner of `dir` can read what is in it; a start as root by mistake leaves other files.
 */
void check_result_owner(struct findings *to, const char *check, const char *dir);
/* "clock.time": whether the clock can be right. */
void check_result_clock(struct findings *to, int64_t now_ns);
/* "clock.sync": whether something keeps it right. On Linux only. */
void check_result_clock_sync(struct findings *to);

/* -- on standard output: lines for people as they are found, or JSON or CSV at the end -- */

struct check_result_print {
    struct table *sheet; /* NULL: lines for people */
    enum err e;
};

/* TABLE_AS_TABLE: lines. Errors: ERR_NOMEM */
NODISCARD enum err check_result_print_begin(struct check_result_print *p, enum table_format format);
void check_result_print_found(void *ctx, const struct check_result *f); /* struct findings' found */
/* Ends what was begun, for lines with the counts. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err check_result_print_end(struct check_result_print *p, const struct findings *all);

#endif
