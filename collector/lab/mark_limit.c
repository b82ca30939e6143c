#include "collector/lab/mark_limit.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"

#define DAY_NS (86400 * CLK_S)

static struct mark_limit_owner *owner_get(struct mark_limit *l, const char *name, int64_t now_ns)
{
    size_t oldest = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->owners[i].name, name) == 0) {
            return &l->owners[i];
        }
        oldest = l->owners[i].used_ns < l->owners[oldest].used_ns ? i : oldest;
    }
    if (l->n < MARK_LIMIT_OWNERS) {
        oldest = l->n++;
    }
    l->owners[oldest] = (struct mark_limit_owner){.second_ns = now_ns, .day_ns = now_ns};
    (void)snprintf(l->owners[oldest].name, sizeof l->owners[oldest].name, "%s", name);
    return &l->owners[oldest];
}

/* The time to wait for one of an allowance of `burst` in span_ns. */
static int64_t allowance_wait(int64_t empty_ns, int64_t burst, int64_t span_ns, int64_t now_ns)
{
    int64_t wait_ns = empty_ns - now_ns - (burst - 1) * (span_ns / burst);

    return wait_ns > 0 ? wait_ns : 0;
}

static int64_t allowance_take(int64_t empty_ns, int64_t burst, int64_t span_ns, int64_t now_ns)
{
    return (empty_ns > now_ns ? empty_ns : now_ns) + span_ns / burst;
}

int64_t mark_limit_take(struct mark_limit *l, const char *name, int64_t now_ns)
{
    struct mark_limit_owner *o = owner_get(l, name, now_ns);
    int64_t second_ns = allowance_wait(o->second_ns, MARK_LIMIT_SECOND, CLK_S, now_ns);
    int64_t day_ns = allowance_wait(o->day_ns, MARK_LIMIT_DAY, DAY_NS, now_ns);
    int64_t wait_ns = second_ns > day_ns ? second_ns : day_ns;

    if (!wait_ns) {
        o->second_ns = allowance_take(o->second_ns, MARK_LIMIT_SECOND, CLK_S, now_ns);
        o->day_ns = allowance_take(o->day_ns, MARK_LIMIT_DAY, DAY_NS, now_ns);
    }
    o->used_ns = now_ns;
    return wait_ns;
}
