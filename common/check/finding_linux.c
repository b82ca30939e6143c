#include <sys/timex.h>

#include "common/check/finding.h"

void finding_clock_sync(struct findings *to)
{
    struct timex t = {.modes = 0};

    if (adjtimex(&t) < 0) {
        finding_say(to, "clock.sync", FINDING_SKIPPED, "",
                    "the kernel does not say whether the clock is synchronised");
    } else if (t.status & STA_UNSYNC) {
        finding_say(to, "clock.sync", FINDING_WARNING,
                    "run a time service (systemd-timesyncd, chrony, ntpd)",
                    "the clock is not synchronised");
    } else {
        finding_say(to, "clock.sync", FINDING_OK, "", "the clock is synchronised");
    }
}
