/* What is asked of a monitor, from whichever thread: see monitor.c for how the core thread answers.
 */
#include <string.h>

#include "agent/monitor_impl.h"

enum { FLAG_THREAD = 0x2, FLAG_CSWITCH = 0x10 }; /* EVENT_TRACE_FLAG_… */

static _Thread_local const struct monitor *inside; /* whose core thread this is */

/* -- asking and answering -- */

const struct monitor *monitor_enter(const struct monitor *m)
{
    const struct monitor *before = inside;

    inside = m;
    return before;
}

void monitor_leave(const struct monitor *before)
{
    inside = before;
}

/* The first one that waits; NULL: nobody, and with `last` nobody will. */
static struct monitor_call *take_call(struct monitor *m, bool last)
{
    struct monitor_call *c;

    os_mutex_lock(m->lock);
    c = m->calls;
    if (c) {
        m->calls = c->next;
        if (!m->calls) {
            m->last_call = &m->calls;
        }
    } else {
        atomic_store(&m->called, false);
        m->running = m->running && !last;
    }
    os_mutex_unlock(m->lock);
    return c;
}

void monitor_answer(struct monitor *m, bool last)
{
    struct monitor_call *c;

    while ((c = take_call(m, last)) != NULL) {
        c->run(m, c->arg);
        os_mutex_lock(m->lock);
        c->done = true;
        os_cond_wake_all(m->answered);
        os_mutex_unlock(m->lock);
    }
}

static void call(struct monitor *m, void (*run)(struct monitor *, void *), void *arg)
{
    struct monitor_call c = {.run = run, .arg = arg};
    bool waits = false;

    if (inside != m) {
        os_mutex_lock(m->lock);
        waits = m->running;
        if (waits) {
            *m->last_call = &c;
            m->last_call = &c.next;
            atomic_store(&m->called, true);
        }
        while (waits && !c.done) {
            os_cond_wait(m->answered);
        }
        os_mutex_unlock(m->lock);
    }
    if (!waits) {
        run(m, arg);
    }
}

/* -- processes -- */

struct wanted {
    uint32_t pid;
    const struct proc_id *id; /* NULL: whoever has the number */
    struct monitor_row *out;
    enum err e;
};

static void copy_text(struct monitor_row *out, size_t *used, struct str *s)
{
    size_t room = sizeof out->text - *used;

    s->n = s->n < room ? s->n : room;
    if (s->n > 0) {
        memcpy(out->text + *used, s->p, s->n);
    }
    s->p = out->text + *used;
    *used += s->n;
}

static void copy_row(struct monitor *m, struct ptable_proc *p, struct monitor_row *out)
{
    size_t used = 0;

    aggregate_settle(m->aggregate, p);
    out->info = p->info;
    copy_text(out, &used, &out->info.name);
    copy_text(out, &used, &out->info.image);
    copy_text(out, &used, &out->info.user);
    copy_text(out, &used, &out->info.command_line);
    out->row = (struct sample_row){
        .info = &out->info, .info_version = p->info_version, .mask = p->count.mask};
    for (uint64_t left = out->row.mask; left; left &= left - 1) {
        unsigned id = (unsigned)__builtin_ctzll(left);

        out->row.values[id] = p->count.values[id];
    }
}

static void do_process(struct monitor *m, void *arg)
{
    struct wanted *w = arg;
    struct ptable_proc *p = NULL;

    if (m->source) {
        p = w->id ? ptable_find(m->table, *w->id) : ptable_owner(m->table, w->pid);
    }
    w->e = p ? ERR_OK : ERR_NOTFOUND;
    if (p) {
        copy_row(m, p, w->out);
    }
}

enum err monitor_process(struct monitor *m, uint32_t pid, struct monitor_row *out)
{
    struct wanted w = {.pid = pid, .out = out};

    call(m, do_process, &w);
    return w.e;
}

enum err monitor_process_by_key(struct monitor *m, struct proc_id id, struct monitor_row *out)
{
    struct wanted w = {.id = &id, .out = out};

    call(m, do_process, &w);
    return w.e;
}

struct collecting {
    int64_t now_ns;
    const struct monitor_sink *sink;
    enum err e;
};

static void do_collect(struct monitor *m, void *arg)
{
    struct collecting *c = arg;

    c->e = m->source ? sampler_collect(m->sampler, c->now_ns, c->sink->tick, c->sink->ctx)
                     : ERR_NOTFOUND;
}

enum err monitor_collect(struct monitor *m, int64_t now_ns, const struct monitor_sink *sink)
{
    struct collecting c = {.now_ns = now_ns, .sink = sink};

    call(m, do_collect, &c);
    return c.e;
}

/* -- what comes out -- */

static void do_filter(struct monitor *m, void *arg)
{
    struct process_filter *who = arg;

    process_filter_destroy(m->who);
    m->who = who;
    m->who_no += m->who_no == UINT32_MAX ? 2 : 1;
}

enum err monitor_set_filter(struct monitor *m, const struct process_filter_conf *filter)
{
    struct process_filter *who;
    enum err e = process_filter_create(&who, filter);

    if (!e) {
        call(m, do_filter, who);
    }
    return e;
}

static void do_on_event(struct monitor *m, void *arg)
{
    const struct monitor_event_sink *sink = arg;

    m->events = sink ? *sink : (struct monitor_event_sink){.event = NULL};
}

void monitor_on_event(struct monitor *m, const struct monitor_event_sink *sink)
{
    struct monitor_event_sink copy = sink ? *sink : (struct monitor_event_sink){.event = NULL};

    call(m, do_on_event, &copy);
}

/* -- what is collected -- */

struct source_name {
    const char *name;
    struct errmsg *why;
};

static void do_source(struct monitor *m, void *arg)
{
    struct source_name *s = arg;

    s->name = m->source ? m->source->about.name : "";
    err_ignore(errmsg_set(s->why, ERR_OK, "%s", m->source ? m->source->about.detail : ""));
}

const char *monitor_source(struct monitor *m, struct errmsg *why)
{
    struct source_name s = {.why = why};

    call(m, do_source, &s);
    return s.name;
}

static enum err ask(struct monitor *m, const struct source_ask *wish, const char *what,
                    struct errmsg *why)
{
    if (!m->source) {
        return errmsg_set(why, ERR_UNSUPPORTED, "the monitor has no source yet");
    }
    if (!m->source->ask) {
        return errmsg_set(why, ERR_UNSUPPORTED,
                          "the source %s has no %s; a live one on Windows has (source: live)",
                          m->source->about.name, what);
    }
    return m->source->ask(m->source, wish, why);
}

enum err monitor_set_flags(struct monitor *m, uint32_t flags, struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_FLAGS, .flags = flags};

    if (flags & FLAG_CSWITCH) {
        wish.flags |= FLAG_THREAD;
    }
    return ask(m, &wish, "flags of the kernel", why);
}

enum err monitor_set_stacks(struct monitor *m, bool on, struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_STACKS, .on = on};

    return ask(m, &wish, "stacks", why);
}

enum err monitor_add_provider(struct monitor *m, const struct source_provider *provider,
                              struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_PROVIDER, .provider = *provider};

    return ask(m, &wish, "providers", why);
}

/* -- counters -- */

static void read_stats(struct monitor *m, struct monitor_stats *out)
{
    *out = (struct monitor_stats){.cpu_ns = os_cpu_ns(), .resident_bytes = monitor_resident(m)};
    if (!m->source) {
        return;
    }
    m->source->ops->stats(m->source, &out->source);
    decode_stats(m->decode, &out->decode);
    out->ptable = *ptable_stats(m->table);
    out->lifecycle = *lifecycle_stats(m->life);
    out->aggregate = *aggregate_stats(m->aggregate);
    out->sampler = *sampler_stats(m->sampler);
    out->events = out->decode.in + m->facts;
    out->table_rows = m->table_rows;
    out->filtered = out->sampler.filtered + m->hidden_events;
    out->level = m->levels.level;
    memcpy(out->level_steps, m->levels.steps, sizeof out->level_steps);
}

static void do_stats(struct monitor *m, void *arg)
{
    read_stats(m, arg);
}

void monitor_stats(struct monitor *m, struct monitor_stats *out)
{
    call(m, do_stats, out);
}

/* What the platform denied, or what died while being read, is absent from its row and no loss. */
size_t monitor_ledger(struct monitor *m, struct ledger_row *rows, size_t max)
{
    struct monitor_stats s;

    read_stats(m, &s);
    const struct {
        const char *stage, *reason;
        uint64_t count;
    } all[] = {
        {"source", "in", s.source.in + s.source.facts},
        {"source", "out", s.events},
        {"source", "held", s.source.held},
        {"source", "skipped", s.source.skipped},
        {"source", "ring_full", s.source.ring_full},
        {"source", "lost_events", s.source.lost_events},
        {"source", "lost_buffers", s.source.lost_buffers},
        {"source", "damaged", s.source.damaged},
        {"table", "in", s.source.rows},
        {"table", "out", s.table_rows},
        {"table", "ended", s.source.ended},
        {"table", "capped", s.source.capped},
        {"table", "late", s.source.late},
        {"decode", "in", s.decode.in},
        {"decode", "out", s.decode.decoded},
        {"decode", "unknown", s.decode.unknown},
        {"decode", "filtered", s.decode.ignored},
        {"decode", "short", s.decode.corrupt},
        {"aggregate", "in", s.aggregate.events},
        {"aggregate", "out", s.aggregate.charged},
        {"aggregate", "no_process", s.aggregate.events - s.aggregate.charged},
        {"aggregate", "lost_marks", s.aggregate.lost_marks},
        {"aggregate", "disk_unmatched", s.aggregate.disk_unmatched},
        {"ptable", "in", s.ptable.instances},
        {"ptable", "out", s.ptable.forgotten},
        {"ptable", "held", s.ptable.running + s.ptable.ended},
        {"ptable", "unattributed", s.lifecycle.no_owner},
        {"ptable", "full", s.ptable.full},
        {"ptable", "threads_full", s.ptable.threads_full},
        {"ptable", "text_full", s.ptable.text_full},
        {"ptable", "no_memory", s.ptable.nomem},
        {"lifecycle", "unpaired", s.lifecycle.unpaired},
        {"sampler", "in", s.sampler.due},
        {"sampler", "out", s.sampler.rows},
        {"sampler", "filtered", s.sampler.filtered},
        {"sampler", "capped", s.sampler.capped},
        {"sampler", "no_memory", s.sampler.nomem},
        {"filter", "filtered", s.filtered},
        {"level", "up_quiet", s.level_steps[LEVEL_CAUSE_QUIET]},
        {"level", "down_loss", s.level_steps[LEVEL_CAUSE_LOSS]},
        {"level", "down_cpu", s.level_steps[LEVEL_CAUSE_CPU]},
        {"level", "down_memory", s.level_steps[LEVEL_CAUSE_MEMORY]},
        {"level", "down_ring", s.level_steps[LEVEL_CAUSE_RING]},
        {"level", "down_events", s.level_steps[LEVEL_CAUSE_EVENTS]},
        {"level", "request", s.level_steps[LEVEL_CAUSE_REQUEST]},
        {"level", "request_over", s.level_steps[LEVEL_CAUSE_REQUEST_OVER]},
    };
    size_t n = sizeof all / sizeof *all;

    n = n < max ? n : max;
    for (size_t i = 0; i < n; i++) {
        rows[i] =
            (struct ledger_row){str_make(all[i].stage), str_make(all[i].reason), all[i].count};
    }
    return n + (m->source->ops->ledger ? m->source->ops->ledger(m->source, rows + n, max - n) : 0);
}
