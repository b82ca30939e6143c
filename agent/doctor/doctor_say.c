#include "agent/doctor/doctor_say.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_say(struct doctor *d, const char *check, enum doctor_state state, const char *fix,
                const char *fmt, ...)
{
    char detail[700];
    struct doctor_finding f = {.check = check, .state = state, .detail = detail, .fix = fix};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    d->result.count[state]++;
    d->conf->found(d->conf->ctx, &f);
}
