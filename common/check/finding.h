/* What a doctor found: one check, how it stands, and what to do about it. The programs' doctors
 * (agent/doctor, collector/doctor) look; here is how they say it and how it is printed.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_CHECK_FINDING_H
#define PROCFLEET_COMMON_CHECK_FINDING_H

#include <stdint.h>

#include "common/base/err.h"

enum finding_state {
    FINDING_OK,
    FINDING_WARNING, /* it works, but not as well as it could, or not for long */
    FINDING_FAILED,
    FINDING_SKIPPED, /* not applicable here, or cannot be tried before something else is mended */
};

struct finding {
    const char *check; /* stable identifier: "state.lock" */
    enum finding_state state;
    const char *detail; /* one sentence */
    const char *fix;    /* what to do about it; "" when nothing is to be done */
};

struct findings {
    void (*found)(void *ctx, const struct finding *f); /* texts are borrowed */
    void *ctx;
    unsigned count[FINDING_SKIPPED + 1]; /* by state */
};

/* "ok", "warning", "failed", "skipped" */
const char *finding_state_text(enum finding_state s);

/* Counts one finding and hands it on. */
void finding_say(struct findings *to, const char *check, enum finding_state state, const char *fix,
                 const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Whether the owner of `dir` can read what is in it; a start as root by mistake leaves other files.
 */
void finding_owner(struct findings *to, const char *check, const char *dir);
/* "clock.time": whether the clock can be right. */
void finding_clock(struct findings *to, int64_t now_ns);
/* "clock.sync": whether something keeps it right. On Linux only. */
void finding_clock_sync(struct findings *to);

#endif
