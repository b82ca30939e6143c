#include "common/check/check_result.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/base/clk.h"
#include "common/os/owner.h"

#define CLOCK_OLDEST_S 1767225600LL /* 2026-01-01: nothing of this version ran before */

const char *check_result_state_text(enum check_result_state s)
{
    static const char *const texts[] = {"ok", "warning", "failed", "skipped"};

    return texts[s];
}

void check_result_report(struct findings *to, const char *check, enum check_result_state state,
                         const char *fix, const char *fmt, ...)
{
    char detail[700];
    struct check_result f = {.check = check, .state = state, .detail = detail, .fix = fix};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    to->count[state]++;
    to->found(to->ctx, &f);
}

void check_result_clock(struct findings *to, int64_t now_ns)
{
    bool old = now_ns < CLOCK_OLDEST_S * CLK_S;
    char now[CLK_TEXT];

    (void)clk_format_utc(now, sizeof now, now_ns, 0);
    check_result_report(to, "clock.time", old ? CHECK_RESULT_FAILED : CHECK_RESULT_OK,
                        old ? "set the clock: certificates and the times of all data depend on it"
                            : "",
                        "the clock says %s", now);
}

void check_result_owner(struct findings *to, const char *check, const char *dir)
{
    struct owner_foreign f;
    char fix[700];

    if (!owner_find_foreign(&f, dir)) {
        check_result_report(to, check, CHECK_RESULT_OK, "",
                            "the owner of %s can read what is in it", dir);
        return;
    }
    (void)snprintf(fix, sizeof fix, "as root: chown -R %s: %s", f.user, dir);
    check_result_report(
        to, check, CHECK_RESULT_FAILED, fix,
        "%s belongs to %s and user %s cannot read it, as after a start as %s by mistake", f.path,
        f.of, f.user, f.of);
}
