/* From the source to the sampler: the stages, how they are connected, and the library of monitor.h.
 *
 * One core thread, that of monitor_run, owns every stage. A call from another thread is queued and
 * waits; the core thread runs it between two things that the source delivers. So no stage is
 * locked, and as long as there is no call it costs one look at a flag. */
#include "agent/monitor.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/monitor_row.h"
#include "agent/pipeline_ledger.h"
#include "agent/source/event_switch.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* Something to be done on the core thread while its caller waits. */
struct monitor_call {
    struct monitor_call *next;
    void (*run)(struct monitor *m, void *arg);
    void *arg;
    bool done;
};

struct monitor {
    struct monitor_conf conf; /* without what it points to */
    struct budget_conf budget_conf;
    struct source *source;
    struct decode *decode;
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    struct sampler *sampler;
    struct process_filter *who;
    uint32_t who_no; /* grows with every other `who`; 0 is none */
    uint64_t facts, table_rows, hidden_events;
    struct monitor_event_sink events;
    struct forward *forward; /* NULL: no providers are chosen */
    struct forward *watch;   /* NULL: nobody listens to events of providers on this host */
    struct monitor_described_sink described;
    struct meant meant;
    uint64_t not_meant; /* records */

    bool governed;
    struct budget budget;
    struct shed shed;
    int64_t look_ns; /* when the next reading is due */
    int64_t due_ns;  /* before, time's going on changes nothing, if only switches come */
    struct {
        uint64_t seen;
        bool come; /* some came between the last two looks */
    } switches;
    struct {
        int64_t bytes, read_ns;
    } resident;       /* own memory, asked for once a second */
    uint32_t own_pid; /* 0: not in the source's tables */

    struct os_thread *thread; /* of monitor_start */
    atomic_bool called;       /* somebody waits for an answer */
    struct os_mutex *lock;    /* guards what is below; held across nothing */
    struct os_cond *answered;
    struct monitor_call *calls, **last_call;
    bool running, stopped;
};

enum { THREADS_MAX = 1 << 17, TEXT_MAX = 16 << 20 };
#define GRACE_NS (10 * CLK_S)

/* -- calls from other threads -- */

static _Thread_local const struct monitor *monitor_inside; /* whose core thread this is */

/* The thread is the core thread of m until monitor_leave, which gets what enter returned. */
static const struct monitor *monitor_enter(const struct monitor *m)
{
    const struct monitor *before = monitor_inside;

    monitor_inside = m;
    return before;
}

static void monitor_leave(const struct monitor *before)
{
    monitor_inside = before;
}

/* The first one that waits; NULL: nobody, and with `last` nobody will. */
static struct monitor_call *monitor_take_call(struct monitor *m, bool last)
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

/* On the core thread: answers who waits. `last`: nobody can wait from now on. */
static void monitor_answer(struct monitor *m, bool last)
{
    struct monitor_call *c;

    while ((c = monitor_take_call(m, last)) != NULL) {
        c->run(m, c->arg);
        os_mutex_lock(m->lock);
        c->done = true;
        os_cond_wake_all(m->answered);
        os_mutex_unlock(m->lock);
    }
}

/* False: there is no core thread that would do it. */
static bool monitor_call_core(struct monitor *m, void (*run)(struct monitor *, void *), void *arg)
{
    struct monitor_call c = {.run = run, .arg = arg};
    bool waits;

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
    return waits;
}

void monitor_call(struct monitor *m, void (*run)(struct monitor *, void *), void *arg)
{
    if (monitor_inside == m || !monitor_call_core(m, run, arg)) {
        run(m, arg);
    }
}

/* -- the budget -- */

/* The source and the sampler follow the level. */
static void monitor_set_pace(struct monitor *m)
{
    struct source_pace *pace = &m->source->pace;

    m->due_ns = INT64_MIN;
    pace->level = m->budget.level;
    pace->tick_ns = budget_tick_ns(m->budget.level, m->conf.period_ns);
    pace->table_ns = budget_table_ns(pace->tick_ns, m->switches.come);
    err_ignore(sampler_set_pace(m->sampler, pace->tick_ns, pace->table_ns)); /* 1 ms to 10 s */
}

/* Whether context switches came since the last look; true: that has changed. */
static bool monitor_switches_changed(struct monitor *m)
{
    uint64_t switches = aggregate_stats(m->aggregate)->sched.switches;
    bool came = m->switches.come;

    m->switches.come = switches > m->switches.seen;
    m->switches.seen = switches;
    return m->switches.come != came;
}

/* Own memory, a second old at most: the system takes longer to tell it than all else here. */
static int64_t monitor_resident(struct monitor *m)
{
    int64_t now_ns = os_mono_ns();

    if (!m->resident.bytes || now_ns - m->resident.read_ns >= CLK_S) {
        m->resident.bytes = os_resident_bytes();
        m->resident.read_ns = now_ns;
    }
    return m->resident.bytes;
}

static void monitor_read_own(struct monitor *m, struct budget_reading *r)
{
    struct source_stats s = {0};
    struct decode_counts d;

    m->source->ops->stats(m->source, &s);
    decode_stats(m->decode, &d);
    r->cpu_ns = os_cpu_ns();
    r->resident_bytes = monitor_resident(m);
    r->events = d.in + m->facts - m->shed.excused;
    r->events -= m->forward ? forward_stats(m->forward)->in : 0; /* they have limits of their own */
    r->lost = s.lost_events + s.lost_buffers - s.lost_at_start;
    r->ring_permille = s.ring_permille;
}

static void monitor_tell_step(struct monitor *m, const struct level_step *step, int64_t wall_ns,
                              int64_t mono_ns)
{
    char text[BUDGET_TEXT];
    struct life_event ev = {.kind = LIFE_LEVEL, .wall_ns = wall_ns, .mono_ns = mono_ns};

    if (m->conf.level) {
        m->conf.level(m->conf.ctx, step);
    }
    budget_step_text(text, step);
    ev.text = str_make(text);
    m->conf.life(m->conf.ctx, &ev);
}

static void monitor_tell_source(struct monitor *m, struct str text, int64_t wall_ns,
                                int64_t mono_ns)
{
    struct life_event ev = {
        .kind = LIFE_SOURCE, .wall_ns = wall_ns, .mono_ns = mono_ns, .text = text};

    m->conf.life(m->conf.ctx, &ev);
}

/* A group of events that is too many by itself goes before a level does. */
static void monitor_shed(struct monitor *m, int64_t wall_ns, int64_t mono_ns)
{
    char text[SHED_TEXT];
    struct shed_step step;

    while (shed_look(&m->shed, mono_ns, aggregate_stats(m->aggregate)->groups, &step)) {
        m->source->pace.shed = m->shed.off;
        shed_text(text, &step);
        monitor_tell_source(m, str_make(text), wall_ns, mono_ns);
    }
}

/* Looks at what the agent costs, a few times a second, and changes the level where it must. */
static void monitor_govern(struct monitor *m, int64_t wall_ns, int64_t mono_ns)
{
    struct budget_reading r;
    struct level_step step;

    if (!m->governed || mono_ns < m->look_ns) {
        return;
    }
    m->look_ns = mono_ns + BUDGET_LOOK_NS;
    if (monitor_switches_changed(m)) {
        monitor_set_pace(m);
    }
    monitor_shed(m, wall_ns, mono_ns);
    monitor_read_own(m, &r);
    if (budget_look(&m->budget, mono_ns, &r, &step)) {
        monitor_set_pace(m);
        monitor_tell_step(m, &step, wall_ns, mono_ns);
    }
}

/* -- the agent's own row -- */

static void monitor_set_own(struct instance *p, unsigned id, bool known, uint64_t value)
{
    if (known) {
        p->count.mask |= METRIC_BIT(id);
        p->count.given |= METRIC_BIT(id); /* as if its row in the table had it */
        p->count.values[id] = value < INT64_MAX ? (int64_t)value : INT64_MAX;
    }
}

/* What the agent does stands beside what it costs, in the row of its process. */
static void monitor_put_own(struct monitor *m)
{
    struct instance *p = m->own_pid ? instances_owner(m->table, m->own_pid) : NULL;
    uint64_t (*sent)(void *ctx) = m->conf.bytes_sent;
    struct source_stats s = {0};
    struct decode_counts d;

    if (!p || instances_ended(p) || !p->count.in_table) {
        return;
    }
    m->source->ops->stats(m->source, &s);
    decode_stats(m->decode, &d);
    monitor_set_own(p, M_AGENT_LEVEL, m->governed, m->budget.level);
    monitor_set_own(p, M_AGENT_EVENTS, true, d.in + m->facts);
    monitor_set_own(p, M_AGENT_CALLBACK_P99, s.callback_p99_ns > 0, (uint64_t)s.callback_p99_ns);
    monitor_set_own(p, M_AGENT_BYTES_SENT, sent != NULL, sent ? sent(m->conf.ctx) : 0);
}

/* Whether anything of p comes out. Asked anew only when more, or something else, is known of it;
 * not by the record of its end, whose name may be a shorter one. */
static bool monitor_wants(void *ctx, struct instance *p)
{
    struct monitor *m = ctx;
    bool same = p->who.info_version == p->info_version || instances_ended(p);

    if (p->who.asked != m->who_no || !same) {
        bool hidden = !process_filter_wants(m->who, &p->info);

        if (p->who.hidden && !hidden) {
            p->row.shown = false; /* it comes as a new one, with everything */
        }
        p->who.hidden = hidden;
        p->who.asked = m->who_no;
        p->who.info_version = p->info_version;
    }
    return !p->who.hidden;
}

static void monitor_on_tick(void *ctx, const struct sample_tick *tick)
{
    struct monitor *m = ctx;

    m->conf.tick(m->conf.ctx, tick);
}

static void monitor_on_life(void *ctx, const struct life_event *ev)
{
    struct monitor *m = ctx;
    bool of_host = life_is_of_host(ev->kind);
    struct instance *p = of_host ? NULL : instances_find(m->table, ev->info.id);

    if (of_host || (p ? monitor_wants(m, p) : process_filter_wants(m->who, &ev->info))) {
        m->conf.life(m->conf.ctx, ev);
    } else {
        m->hidden_events++;
    }
}

/* -- what the source delivers -- */

/* Decoded, and charged to whom it concerns. True: it may have been chosen as an event, too. */
static bool monitor_take_event(struct monitor *m, const struct event *ev)
{
    struct instance *p = aggregate_event(m->aggregate, ev);

    m->due_ns = event_only_counts(ev->kind) ? m->due_ns : INT64_MIN;
    if (m->events.event && !ev->early && (!p || monitor_wants(m, p))) {
        m->events.event(m->events.ctx, ev, p ? &p->info : NULL);
    }
    return ev->kind == EV_PRESENT;
}

static void monitor_on_source(struct monitor *m, const struct event *ev)
{
    m->due_ns = INT64_MIN;
    lifecycle_set_polled(m->life, ev->u.source.polled);
    monitor_tell_source(m, ev->u.source.text, ev->wall_ns, ev->mono_ns);
    if (m->events.event) {
        m->events.event(m->events.ctx, ev, NULL);
    }
}

static void monitor_on_fact(void *ctx, const struct event *ev)
{
    struct monitor *m = ctx;

    if (ev->kind == EV_SOURCE) {
        monitor_on_source(m, ev);
        return;
    }
    m->facts += ev->kind != EV_GROUPS; /* of the source itself, too */
    (void)monitor_take_event(m, ev);
}

/* Of a provider only what is meant: the kernel's tell of everybody, whatever they were asked. */
__attribute__((noinline)) static bool monitor_means(struct monitor *m, const struct raw_event *raw,
                                                    const struct source_provider **only)
{
    const struct source_provider *p = *only = meant_of(&m->meant, raw->guid);
    const struct instance *i =
        p && p->exe[0] && raw->pid != EVENT_NO_ID ? instances_owner(m->table, raw->pid) : NULL;

    return !p || etw_provider_means(p, raw->id, raw->pid, i ? i->info.name.p : "",
                                    i ? i->info.name.n : 0);
}

/* What is no fact may be an event of a chosen provider; whose it is by its header. */
__attribute__((noinline)) static void
monitor_forward(struct monitor *m, const struct raw_event *raw, const struct source_provider *only)
{
    struct proc_info info = {.id = {.pid = raw->pid != EVENT_NO_ID ? raw->pid : 0}};
    struct instance *p = raw->pid != EVENT_NO_ID ? instances_owner(m->table, raw->pid) : NULL;
    struct life_event ev;
    enum err e;

    forward_give_held(m->forward, m->conf.life, m->conf.ctx);
    if (p) {
        info.id = p->info.id;
        info.name = p->info.name;
    }
    if (m->watch && forward_takes(m->watch, raw) && !forward_describe(m->watch, raw, &ev)) {
        ev.info = info;
        m->described.event(m->described.ctx, &ev, p ? &p->info : NULL);
    }
    if (!m->forward || !forward_takes(m->forward, raw)) {
        return;
    }
    if (!(p ? monitor_wants(m, p) : process_filter_wants(m->who, &info))) {
        forward_hide(m->forward);
        return;
    }
    e = forward_event(m->forward, raw, only, &ev);
    if (e == ERR_OK) {
        ev.info = info;
        m->conf.life(m->conf.ctx, &ev);
    } else if (e == ERR_BUSY) {
        forward_hold(m->forward, raw, only, &info);
    }
}

static void monitor_on_raw(void *ctx, const struct raw_event *raw)
{
    const struct source_provider *only = NULL;
    struct monitor *m = ctx;
    struct event ev;

    if (m->meant.n && raw->form == RAW_MANIFEST && !monitor_means(m, raw, &only)) {
        m->not_meant++; /* what fails below is counted there */
    } else if ((decode_event(m->decode, raw, &ev) != ERR_OK || monitor_take_event(m, &ev)) &&
               (m->forward || m->watch)) {
        monitor_forward(m, raw, only);
    }
}

static void monitor_on_table(void *ctx, const struct snapshot *snap)
{
    struct monitor *m = ctx;

    m->due_ns = INT64_MIN;
    m->table_rows += snap->n_rows;
    aggregate_table(m->aggregate, snap);
    monitor_put_own(m);
    sampler_table(m->sampler, snap->wall_ns, snap->mono_ns);
}

/* Nothing that grows old is due before. */
static int64_t monitor_next_due_ns(const struct monitor *m)
{
    int64_t due_ns = sampler_due_ns(m->sampler), life_ns = lifecycle_due_ns(m->life);
    int64_t table_ns = instances_due_ns(m->table);

    due_ns = life_ns < due_ns ? life_ns : due_ns;
    due_ns = table_ns < due_ns ? table_ns : due_ns;
    return m->governed && m->look_ns < due_ns ? m->look_ns : due_ns;
}

__attribute__((noinline)) static void monitor_advance(struct monitor *m, int64_t wall_ns,
                                                      int64_t mono_ns)
{
    forward_give_held(m->forward, m->conf.life, m->conf.ctx);
    sampler_advance(m->sampler, wall_ns, mono_ns);
    lifecycle_advance(m->life, wall_ns, mono_ns);
    instances_expire(m->table, mono_ns);
    monitor_govern(m, wall_ns, mono_ns);
    m->due_ns = monitor_next_due_ns(m);
}

/* With nearly every record: mostly time goes on and nothing is due. */
static void monitor_on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct monitor *m = ctx;

    if (mono_ns < m->due_ns) {
        sampler_reached(m->sampler, wall_ns, mono_ns);
    } else {
        monitor_advance(m, wall_ns, mono_ns);
    }
    if (atomic_load_explicit(&m->called, memory_order_relaxed)) {
        monitor_answer(m, false);
    }
}

/* Stretch by stretch, each up to the next one whose time makes something due. */
static void monitor_on_switches(void *ctx, const struct event_switch *run, size_t n)
{
    struct monitor *m = ctx;

    for (size_t i = 0, end; i < n; i = end) {
        monitor_on_advance(m, run[i].wall_ns, run[i].mono_ns);
        end = run[n - 1].mono_ns < m->due_ns ? n : i + 1;
        while (end < n && run[end].mono_ns < m->due_ns) {
            end++;
        }
        decode_switches(m->decode, end - i);
        aggregate_switches(m->aggregate, run + i, end - i);
    }
    sampler_reached(m->sampler, run[n - 1].wall_ns, run[n - 1].mono_ns);
}

/* -- building -- */

enum err monitor_create(struct monitor **out, const struct monitor_conf *conf, struct errmsg *why)
{
    enum err e = monitor_conf_check(conf, why);
    struct monitor *m = e ? NULL : mem_zalloc(sizeof *m);

    if (!m) {
        return e ? e : errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    m->conf = *conf;
    m->conf.who = (struct process_filter_conf){.except_system = false};
    m->conf.events = NULL;
    if (conf->budget) {
        m->budget_conf = *conf->budget;
        m->conf.budget = &m->budget_conf;
    }
    m->who_no = 1;
    m->due_ns = INT64_MIN;
    m->last_call = &m->calls;
    atomic_init(&m->called, false);
    e = process_filter_create(&m->who, &conf->who);
    meant_init(&m->meant, conf->providers, conf->n_providers);
    if (!e && conf->events && conf->events->n_providers) {
        e = forward_create(&m->forward, conf->events, why);
    }
    if (!e) {
        e = os_mutex_create(&m->lock);
    }
    if (!e) {
        e = os_cond_create(&m->answered, m->lock);
    }
    if (e) {
        monitor_destroy(m);
        return errmsg_set(why, e, "cannot set up the monitor: %s", err_text(e));
    }
    *out = m;
    return ERR_OK;
}

static enum err monitor_open_stages(struct monitor *m)
{
    struct instances_conf table = {.instances_max = m->conf.processes_max * 2,
                                   .threads_max = THREADS_MAX,
                                   .text_max = TEXT_MAX,
                                   .grace_ns = GRACE_NS};
    struct lifecycle_conf life = {
        .polled = m->source->about.polled, .told = monitor_on_life, .ctx = m};
    struct sampler_conf sampler = {.period_ns = m->conf.period_ns,
                                   .by_table = !m->source->about.replay,
                                   .processes_max = m->conf.processes_max,
                                   .wants = monitor_wants,
                                   .tick = monitor_on_tick,
                                   .ctx = m};
    enum err e = decode_create(&m->decode);

    if (e) {
        return e;
    }
    e = instances_create(&m->table, &table);
    if (e) {
        return e;
    }
    life.table = m->table;
    e = lifecycle_create(&m->life, &life);
    if (e) {
        return e;
    }
    e = aggregate_create(&m->aggregate, m->table, m->life);
    if (e) {
        return e;
    }
    sampler.table = m->table;
    sampler.aggregate = m->aggregate;
    return sampler_create(&m->sampler, &sampler);
}

static void monitor_begin_budget(struct monitor *m)
{
    if (!m->conf.budget || m->source->about.replay) {
        return;
    }
    m->budget_conf.cpus = m->source->about.cpus;
    budget_init(&m->budget, &m->budget_conf);
    shed_init(&m->shed, m->budget_conf.events_per_s);
    m->governed = true;
    monitor_set_pace(m);
}

static void monitor_close_stages(struct monitor *m)
{
    struct source *source = m->source;

    if (source) {
        os_mutex_lock(m->lock);
        m->source = NULL;
        os_mutex_unlock(m->lock);
        source->ops->close(source);
    }
    sampler_destroy(m->sampler);
    aggregate_destroy(m->aggregate);
    lifecycle_destroy(m->life);
    instances_destroy(m->table);
    decode_destroy(m->decode);
    m->sampler = NULL;
    m->aggregate = NULL;
    m->life = NULL;
    m->table = NULL;
    m->decode = NULL;
}

enum err monitor_open(struct monitor *m, struct errmsg *why)
{
    struct source_sink sink = {.ctx = m,
                               .raw = monitor_on_raw,
                               .switches = monitor_on_switches,
                               .fact = monitor_on_fact,
                               .table = monitor_on_table,
                               .advance = monitor_on_advance};
    struct source *source;
    enum err e;

    if (m->source) {
        return ERR_OK;
    }
    if (!m->conf.open) {
        return errmsg_set(why, ERR_INVALID, "the monitor has no source to open");
    }
    e = m->conf.open(m->conf.open_ctx, &source, sink, why);
    if (e) {
        return e;
    }
    os_mutex_lock(m->lock); /* monitor_stop may look at it */
    m->source = source;
    os_mutex_unlock(m->lock);
    e = monitor_open_stages(m);
    if (e) {
        monitor_close_stages(m);
        return errmsg_set(why, e, "cannot set up the agent's stages: %s", err_text(e));
    }
    m->source->pace.whole = m->events.event != NULL;
    m->own_pid = m->source->about.replay ? 0 : os_listed_id();
    monitor_begin_budget(m);
    return ERR_OK;
}

void monitor_destroy(struct monitor *m)
{
    if (!m) {
        return;
    }
    if (m->thread) {
        monitor_stop(m);
        os_thread_join(m->thread);
    }
    monitor_close_stages(m);
    forward_destroy(m->watch);
    forward_destroy(m->forward);
    process_filter_destroy(m->who);
    os_cond_destroy(m->answered);
    os_mutex_destroy(m->lock);
    mem_free(m);
}

const struct source_about *monitor_about(const struct monitor *m)
{
    return &m->source->about;
}

/* -- running -- */

static enum err monitor_run_core(struct monitor *m)
{
    const struct monitor *before = monitor_enter(m);
    enum err e = m->source->ops->run(m->source);

    if (e == ERR_OK || e == ERR_END) {
        lifecycle_finish(m->life);
        sampler_finish(m->sampler);
    }
    forward_finish(m->forward);
    if (m->conf.ended) {
        m->conf.ended(m->conf.ctx, e);
    }
    monitor_answer(m, true);
    monitor_leave(before);
    return e;
}

/* From now on the core thread owns the stages. */
static bool monitor_begin_run(struct monitor *m)
{
    bool stopped;

    os_mutex_lock(m->lock);
    stopped = m->stopped;
    m->running = true;
    os_mutex_unlock(m->lock);
    return !stopped;
}

enum err monitor_run(struct monitor *m)
{
    enum err e = monitor_open(m, NULL);

    if (e) {
        return e;
    }
    if (!monitor_begin_run(m)) {
        m->source->ops->stop(m->source); /* before it began: its run returns at once */
    }
    return monitor_run_core(m);
}

static void monitor_run_thread(void *arg)
{
    err_ignore(monitor_run_core(arg)); /* conf.ended has been told */
}

enum err monitor_start(struct monitor *m, struct errmsg *why)
{
    enum err e;

    if (m->thread) {
        return ERR_OK;
    }
    e = monitor_open(m, why);
    if (e) {
        return e;
    }
    if (!monitor_begin_run(m)) {
        m->source->ops->stop(m->source);
    }
    e = os_thread_start(&m->thread, "core", monitor_run_thread, m);
    if (e) {
        monitor_answer(m, true);
        return errmsg_set(why, e, "cannot start a thread: %s", err_text(e));
    }
    return errmsg_set(why, ERR_OK, "%s", m->source->about.detail);
}

void monitor_stop(struct monitor *m)
{
    os_mutex_lock(m->lock);
    m->stopped = true;
    if (m->source) {
        m->source->ops->stop(m->source); /* inside the lock, so that it is not closed meanwhile */
    }
    os_mutex_unlock(m->lock);
}

/* -- a recording -- */

enum err monitor_read_etl(struct monitor *m, const char *path, struct errmsg *why)
{
    struct etl_file_conf conf = {.paths = &path, .n_paths = 1, .schemas = m->forward || m->watch};
    enum err e;

    if (m->source) {
        return errmsg_set(why, ERR_EXISTS, "the monitor has a source already: %s",
                          m->source->about.name);
    }
    m->conf.open = etl_file_open_conf;
    m->conf.open_ctx = &conf;
    e = monitor_open(m, why);
    m->conf.open_ctx = NULL;
    if (e) {
        return e;
    }
    e = monitor_run(m);
    if (e && e != ERR_END) {
        return errmsg_set(why, e, "%s: %s", path, err_text(e));
    }
    return ERR_OK;
}

/* -- processes -- */

struct monitor_wanted {
    uint32_t pid;
    const struct proc_id *id; /* NULL: whoever has the number */
    struct monitor_row *out;
    enum err e;
};

static void monitor_do_process(struct monitor *m, void *arg)
{
    struct monitor_wanted *w = arg;
    struct instance *p = NULL;

    if (m->source) {
        p = w->id ? instances_find(m->table, *w->id) : instances_owner(m->table, w->pid);
    }
    w->e = p ? ERR_OK : ERR_NOTFOUND;
    if (p) {
        aggregate_settle(m->aggregate, p);
        monitor_row_copy(w->out, p);
    }
}

enum err monitor_process(struct monitor *m, uint32_t pid, struct monitor_row *out)
{
    struct monitor_wanted w = {.pid = pid, .out = out};

    monitor_call(m, monitor_do_process, &w);
    return w.e;
}

enum err monitor_process_by_key(struct monitor *m, struct proc_id id, struct monitor_row *out)
{
    struct monitor_wanted w = {.id = &id, .out = out};

    monitor_call(m, monitor_do_process, &w);
    return w.e;
}

struct collecting {
    int64_t now_ns;
    const struct monitor_sink *sink;
    enum err e;
};

static void monitor_do_collect(struct monitor *m, void *arg)
{
    struct collecting *c = arg;

    c->e = m->source ? sampler_collect(m->sampler, c->now_ns, c->sink->tick, c->sink->ctx)
                     : ERR_NOTFOUND;
}

enum err monitor_collect(struct monitor *m, int64_t now_ns, const struct monitor_sink *sink)
{
    struct collecting c = {.now_ns = now_ns, .sink = sink};

    monitor_call(m, monitor_do_collect, &c);
    return c.e;
}

/* -- what comes out -- */

static void monitor_do_filter(struct monitor *m, void *arg)
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
        monitor_call(m, monitor_do_filter, who);
    }
    return e;
}

static void monitor_do_on_event(struct monitor *m, void *arg)
{
    m->events = *(const struct monitor_event_sink *)arg;
    if (m->source) {
        m->source->pace.whole = m->events.event != NULL;
    }
}

void monitor_on_event(struct monitor *m, const struct monitor_event_sink *sink)
{
    struct monitor_event_sink copy = sink ? *sink : (struct monitor_event_sink){.event = NULL};

    monitor_call(m, monitor_do_on_event, &copy);
}

struct monitor_watch {
    struct forward *watch;
    struct monitor_described_sink sink;
};

static void monitor_do_on_described(struct monitor *m, void *arg)
{
    struct monitor_watch *w = arg;

    forward_destroy(m->watch);
    m->watch = w->watch;
    m->described = w->sink;
}

enum err monitor_on_described(struct monitor *m, const struct monitor_described_sink *sink,
                              struct errmsg *why)
{
    static const char *const any[] = {"*"};
    const struct forward_conf all = {.providers = any, .n_providers = 1};
    struct monitor_watch w = {.watch = NULL};
    enum err e = ERR_OK;

    if (sink) {
        struct forward_conf conf = {.providers = sink->providers, .n_providers = sink->n_providers};

        w.sink = *sink;
        e = forward_create(&w.watch, sink->n_providers ? &conf : &all, why);
    }
    if (!e) {
        monitor_call(m, monitor_do_on_described, &w);
    }
    return e;
}

/* -- what is collected -- */

struct monitor_level {
    unsigned level;
    int64_t span_ns;
};

static void monitor_do_level(struct monitor *m, void *arg)
{
    const struct monitor_level *l = arg;
    struct level_step step;
    int64_t now_ns = os_mono_ns();

    if (budget_request(&m->budget, now_ns, l->level, l->span_ns, &step)) {
        monitor_set_pace(m);
        monitor_tell_step(m, &step, os_utc_ns(), now_ns);
    }
}

static void monitor_do_note(struct monitor *m, void *arg)
{
    monitor_tell_source(m, str_make(arg), os_utc_ns(), os_mono_ns());
}

enum err monitor_set_level(struct monitor *m, unsigned level, int64_t span_ns, struct errmsg *why)
{
    struct monitor_level l = {level, span_ns};

    if (!m->governed) {
        return errmsg_set(why, ERR_UNSUPPORTED, "what is collected here has no levels");
    }
    return monitor_call_core(m, monitor_do_level, &l)
               ? ERR_OK
               : errmsg_set(why, ERR_CLOSED, "nothing is collected at present");
}

enum err monitor_note(struct monitor *m, char *text)
{
    return monitor_call_core(m, monitor_do_note, text) ? ERR_OK : ERR_CLOSED;
}

/* -- counters -- */

static void monitor_read_stats(struct monitor *m, struct monitor_stats *out)
{
    *out = (struct monitor_stats){.cpu_ns = os_cpu_ns(), .resident_bytes = monitor_resident(m)};
    if (!m->source) {
        return;
    }
    m->source->ops->stats(m->source, &out->source);
    decode_stats(m->decode, &out->decode);
    out->decode.in += m->not_meant;
    out->decode.ignored += m->not_meant;
    out->instances = *instances_stats(m->table);
    out->lifecycle = *lifecycle_stats(m->life);
    out->aggregate = *aggregate_stats(m->aggregate);
    if (m->forward) {
        out->forward = *forward_stats(m->forward);
    }
    out->sampler = *sampler_stats(m->sampler);
    out->events = out->decode.in + m->facts;
    out->table_rows = m->table_rows;
    out->filtered = out->sampler.filtered + m->hidden_events;
    out->level = m->budget.level;
    memcpy(out->level_steps, m->budget.steps, sizeof out->level_steps);
}

static void monitor_do_stats(struct monitor *m, void *arg)
{
    monitor_read_stats(m, arg);
}

void monitor_stats(struct monitor *m, struct monitor_stats *out)
{
    monitor_call(m, monitor_do_stats, out);
}

size_t monitor_ledger(struct monitor *m, struct ledger_row *rows, size_t max)
{
    struct monitor_stats s;
    size_t n;

    monitor_read_stats(m, &s);
    n = pipeline_ledger(&s, rows, max);
    return n + (m->source->ops->ledger ? m->source->ops->ledger(m->source, rows + n, max - n) : 0);
}

struct source *monitor_opened(struct monitor *m)
{
    return m->source;
}

struct meant *monitor_meant(struct monitor *m)
{
    return &m->meant;
}
