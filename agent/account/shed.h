/* Which groups of events are too many by themselves: one that alone makes more than half of the
 * budgeted rate for SHED_AFTER_NS is left out for SHED_FOR_NS, before a whole level is given up for
 * it. Pure: counts and the time come in, changes come out. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ACCOUNT_SHED_H
#define PROCFLEET_AGENT_ACCOUNT_SHED_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/source/source_shed.h"
#include "common/base/clk.h"

#define SHED_AFTER_NS (5 * CLK_S)
#define SHED_FOR_NS   (600 * CLK_S)
#define SHED_TEXT     160

struct shed {
    uint64_t events_per_s; /* the budget; 0 = none: nothing is left out */
    int64_t looked_ns;     /* 0 = not yet */
    unsigned off;          /* groups that are left out: 1 << enum source_shed */
    uint64_t excused;      /* events of groups above half of the budget: no reason to step down */
    struct {
        uint64_t seen, per_s; /* at the last look */
        int64_t above_ns;     /* since when it is too many; 0 = it is not */
        int64_t until_ns;     /* left out */
    } groups[SOURCE_SHED_COUNT];
};

/* One change of `off`. */
struct shed_step {
    enum source_shed group;
    bool off;
    uint64_t per_s, limit; /* of the group, when it goes off */
};

void shed_init(struct shed *s, int64_t events_per_s);

/* counts: events of each group since the start. True: one group changes; another call at the same
 * moment tells of the next. */
bool shed_look(struct shed *s, int64_t mono_ns, const uint64_t counts[SOURCE_SHED_COUNT],
               struct shed_step *out);

/* The step as a sentence. */
void shed_text(char text[SHED_TEXT], const struct shed_step *step);

#endif
