#include "agent/process/lifecycle_impl.h"

static void tell(struct lifecycle *l, enum life_kind kind, struct ptable_proc *p, int64_t wall_ns,
                 int64_t mono_ns)
{
    struct life_event ev = {.kind = (uint8_t)kind, .wall_ns = wall_ns, .mono_ns = mono_ns};

    ev.info = p->info;
    if (kind == LIFE_PROCESS_START) {
        ev.info.have &= ~LIFECYCLE_EXIT_BITS; /* it may have ended while its start was held */
    }
    p->life.named = true;
    l->conf.told(l->conf.ctx, &ev);
}

void lifecycle_tell_start(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                          int64_t mono_ns)
{
    p->life.start_due_ns = 0;
    p->life.start_held = false;
    l->stats.starts++;
    if (p->info.origin == ORIGIN_INFERRED) {
        l->stats.inferred_starts++;
    }
    tell(l, LIFE_PROCESS_START, p, wall_ns, mono_ns);
}

void lifecycle_tell_end(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                        int64_t mono_ns)
{
    p->life.stop_held = false;
    l->stats.stops++;
    if (p->info.have & INFO_EXIT_INFERRED) {
        l->stats.inferred_stops++;
    }
    tell(l, LIFE_PROCESS_STOP, p, wall_ns, mono_ns);
}

void lifecycle_tell_inferred(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                             int64_t mono_ns)
{
    int64_t back_ns = 0;

    /* Longer ago, the clock was set, or the table was late: what is sure is now. */
    if ((p->info.have & INFO_CREATE_TIME) && p->info.create_ns < wall_ns &&
        p->info.create_ns >= wall_ns - 10 * CLK_S) {
        back_ns = wall_ns - p->info.create_ns;
    }
    lifecycle_tell_start(l, p, wall_ns - back_ns, mono_ns - back_ns);
}
