#include "agent/account/shed.h"

#include <inttypes.h>
#include <stdio.h>

void shed_init(struct shed *s, int64_t events_per_s)
{
    *s = (struct shed){.events_per_s = events_per_s > 0 ? (uint64_t)events_per_s : 0};
}

/* Events a second since the look before. */
static uint64_t shed_rate(uint64_t events, int64_t took_ns)
{
    return took_ns > 0 ? (uint64_t)((double)events * (double)CLK_S / (double)took_ns) : 0;
}

static bool shed_group(struct shed *s, enum source_shed g, int64_t mono_ns, struct shed_step *out)
{
    bool off = (s->off >> g & 1) != 0;

    if (off && mono_ns >= s->groups[g].until_ns) {
        s->off &= ~(1u << g);
        *out = (struct shed_step){.group = g};
        return true;
    }
    if (!off && s->groups[g].above_ns && mono_ns - s->groups[g].above_ns >= SHED_AFTER_NS) {
        s->off |= 1u << g;
        s->groups[g].above_ns = 0;
        s->groups[g].until_ns = mono_ns + SHED_FOR_NS;
        *out = (struct shed_step){
            .group = g, .off = true, .per_s = s->groups[g].per_s, .limit = s->events_per_s / 2};
        return true;
    }
    return false;
}

bool shed_look(struct shed *s, int64_t mono_ns, const uint64_t counts[SOURCE_SHED_COUNT],
               struct shed_step *out)
{
    int64_t before_ns = s->looked_ns, took_ns = mono_ns - before_ns;
    bool first = before_ns == 0;

    for (unsigned g = 0; g < SOURCE_SHED_COUNT && (first || took_ns > 0); g++) {
        uint64_t events = counts[g] - s->groups[g].seen;
        uint64_t per_s = first ? 0 : shed_rate(events, took_ns);
        bool above = s->events_per_s && per_s > s->events_per_s / 2;

        s->groups[g].per_s = per_s;
        s->groups[g].seen = counts[g];
        s->groups[g].above_ns = !above                  ? 0
                                : s->groups[g].above_ns ? s->groups[g].above_ns
                                                        : before_ns;
        s->excused += above ? events : 0;
    }
    s->looked_ns = mono_ns;
    for (unsigned g = 0; g < SOURCE_SHED_COUNT; g++) {
        if (shed_group(s, (enum source_shed)g, mono_ns, out)) {
            return true;
        }
    }
    return false;
}

void shed_text(char text[SHED_TEXT], const struct shed_step *step)
{
    static const char *const names[] = {
        [SOURCE_SHED_NETWORK] = "network",   [SOURCE_SHED_FILE] = "file",
        [SOURCE_SHED_REGISTRY] = "registry", [SOURCE_SHED_VIRTUAL] = "address space",
        [SOURCE_SHED_CLR] = ".NET",
    };

    if (step->off) {
        (void)snprintf(text, SHED_TEXT,
                       "%s events came %" PRIu64 " times a second, more than half of "
                       "budget.events; they are left out for 10 minutes",
                       names[step->group], step->per_s);
    } else {
        (void)snprintf(text, SHED_TEXT, "%s events are collected again", names[step->group]);
    }
}
