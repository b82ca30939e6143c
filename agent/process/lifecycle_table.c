/* Process tables, compared with what is known: what is new has started and what is missing has
 * ended, unnoticed; where events exist, only after they had LIFECYCLE_WAIT_NS to come. */
#include "agent/process/lifecycle_impl.h"
#include "common/base/clk.h"

void lifecycle_table_begin(struct lifecycle *l, const struct snapshot *snap)
{
    if (l->table_seq++ == 0) {
        l->first_table_wall_ns = snap->wall_ns;
    }
}

static void wait_until(struct lifecycle *l, int64_t *due_ns, int64_t mono_ns)
{
    *due_ns = mono_ns + LIFECYCLE_WAIT_NS;
    if (*due_ns < l->due_ns) {
        l->due_ns = *due_ns;
    }
}

/* A row nobody announced. */
static struct ptable_proc *add_row(struct lifecycle *l, const struct snapshot *snap,
                                   const struct proc_info *info)
{
    bool old =
        l->table_seq == 1 || ((info->have & INFO_CREATE_TIME) &&
                              info->create_ns < l->first_table_wall_ns - LIFECYCLE_CREATE_SLACK_NS);
    struct ptable_proc *p = lifecycle_add(l, info, old ? ORIGIN_SNAPSHOT : ORIGIN_INFERRED,
                                          snap->wall_ns, snap->mono_ns);

    if (!p || old) {
        return p;
    }
    if (l->conf.polled) {
        lifecycle_tell_inferred(l, p, snap->wall_ns, snap->mono_ns);
    } else {
        wait_until(l, &p->life.start_due_ns, snap->mono_ns);
    }
    return p;
}

/* Comparing texts costs more than all the rest of a row that says what the last one said. A text
 * that had no room is tried again. */
static bool row_has_news(const struct ptable_proc *p, const struct snap_row *row)
{
    return row->info_version == 0 || row->info_version != p->life.row_version ||
           row->info.name.n != p->info.name.n || row->info.image.n != p->info.image.n ||
           row->info.command_line.n != p->info.command_line.n || row->info.user.n != p->info.user.n;
}

struct ptable_proc *lifecycle_row(struct lifecycle *l, const struct snapshot *snap,
                                  const struct snap_row *row)
{
    struct ptable_proc *p = lifecycle_find(l, row->info.id);

    if (!p) {
        p = lifecycle_of_row(l, &row->info);
        if (!p) {
            return add_row(l, snap, &row->info);
        }
        if (!ptable_ended(p) || (p->info.have & INFO_EXIT_INFERRED)) {
            lifecycle_adopt(l, p, &row->info);
        }
    }
    if (ptable_ended(p)) {
        if (!(p->info.have & INFO_EXIT_INFERRED)) {
            return NULL; /* the table was read while it ended */
        }
        l->stats.revived++;
        ptable_revive(l->conf.table, p);
    }
    if (row_has_news(p, row)) {
        ptable_update(l->conf.table, p, &row->info);
        p->life.row_version = row->info_version;
    }
    p->life.table_seq = l->table_seq;
    p->life.stop_due_ns = 0;
    return p;
}

void lifecycle_table_end(struct lifecycle *l, const struct snapshot *snap)
{
    struct ptable_proc *p, *next;

    if (!snap->complete) {
        return;
    }
    for (p = ptable_first_running(l->conf.table); p; p = next) {
        next = p->next;
        if (p->life.table_seq == l->table_seq || p->life.stop_due_ns) {
            continue;
        }
        if (l->conf.polled) {
            lifecycle_infer_stop(l, p, snap->wall_ns, snap->mono_ns);
        } else {
            p->life.stop_wall_ns = snap->wall_ns;
            wait_until(l, &p->life.stop_due_ns, snap->mono_ns);
        }
    }
}

int64_t lifecycle_due_ns(const struct lifecycle *l)
{
    int64_t held_ns = lifecycle_hold_next(l);
    int64_t due_ns = held_ns < LIFECYCLE_NEVER - LIFECYCLE_WAIT_NS ? held_ns + LIFECYCLE_WAIT_NS
                                                                   : LIFECYCLE_NEVER;

    return due_ns < l->due_ns ? due_ns : l->due_ns;
}

void lifecycle_advance(struct lifecycle *l, int64_t wall_ns, int64_t mono_ns)
{
    struct ptable_proc *p, *next;

    if (l->hold.n > 0) {
        lifecycle_hold_until(l, clk_sub(mono_ns, LIFECYCLE_WAIT_NS));
    }
    if (mono_ns < l->due_ns) {
        return;
    }
    l->due_ns = LIFECYCLE_NEVER;
    for (p = ptable_first_running(l->conf.table); p; p = next) {
        next = p->next;
        if (p->life.start_due_ns && p->life.start_due_ns <= mono_ns) {
            lifecycle_tell_inferred(l, p, wall_ns, mono_ns);
        }
        if (p->life.stop_due_ns && p->life.stop_due_ns <= mono_ns) {
            lifecycle_infer_stop(l, p, p->life.stop_wall_ns,
                                 p->life.stop_due_ns - LIFECYCLE_WAIT_NS);
            continue;
        }
        if (p->life.start_due_ns && p->life.start_due_ns < l->due_ns) {
            l->due_ns = p->life.start_due_ns;
        }
        if (p->life.stop_due_ns && p->life.stop_due_ns < l->due_ns) {
            l->due_ns = p->life.stop_due_ns;
        }
    }
}
