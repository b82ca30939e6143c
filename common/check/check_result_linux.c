#include <sys/timex.h>

#include "common/check/check_result.h"

void check_result_clock_sync(struct findings *to)
{
    struct timex t = {.modes = 0};

    if (adjtimex(&t) < 0) {
        check_result_report(to, "clock.sync", CHECK_RESULT_SKIPPED, "",
                            "the kernel does not say whether the clock is synchronised");
    } else if (t.status & STA_UNSYNC) {
        check_result_report(to, "clock.sync", CHECK_RESULT_WARNING,
                            "run a time service (systemd-timesyncd, chrony, ntpd)",
                            "the clock is not synchronised");
    } else {
        check_result_report(to, "clock.sync", CHECK_RESULT_OK, "", "the clock is synchronised");
    }
}
