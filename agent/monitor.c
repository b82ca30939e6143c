/* One core thread, that of monitor_run, owns every stage. Whoever asks from another thread leaves
 * his question with the monitor and sleeps; the core thread answers between two things that the
 * source delivers. So no stage is locked, and what nobody asks costs one look at a flag. */
#include "agent/monitor.h"

#include <string.h>

#include "agent/monitor_impl.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

enum { THREADS_MAX = 1 << 17, TEXT_MAX = 16 << 20 };
#define GRACE_NS (10 * CLK_S)

/* -- levels -- */

/* The source and the sampler follow the level. */
static void set_pace(struct monitor *m)
{
    struct source_pace *pace = &m->source->pace;

    m->due_ns = INT64_MIN;
    pace->level = m->levels.level;
    pace->tick_ns = levels_tick_ns(m->levels.level, m->conf.period_ns);
    pace->table_ns = levels_table_ns(pace->tick_ns, m->switches.come);
    err_ignore(sampler_set_pace(m->sampler, pace->tick_ns, pace->table_ns)); /* fails out of 1 ms
                                                                               to 10 s only */
}

/* Whether context switches came since the last look; true: that has changed. */
static bool look_at_switches(struct monitor *m)
{
    uint64_t switches = aggregate_stats(m->aggregate)->sched.switches;
    bool came = m->switches.come;

    m->switches.come = switches > m->switches.seen;
    m->switches.seen = switches;
    return m->switches.come != came;
}

int64_t monitor_resident(struct monitor *m)
{
    int64_t now_ns = os_mono_ns();

    if (!m->resident.bytes || now_ns - m->resident.read_ns >= CLK_S) {
        m->resident.bytes = os_resident_bytes();
        m->resident.read_ns = now_ns;
    }
    return m->resident.bytes;
}

static void read_own(struct monitor *m, struct levels_reading *r)
{
    struct source_stats s = {0};
    struct decode_counts d;

    m->source->ops->stats(m->source, &s);
    decode_stats(m->decode, &d);
    r->cpu_ns = os_cpu_ns();
    r->resident_bytes = monitor_resident(m);
    r->events = d.in + m->facts;
    r->lost = s.lost_events + s.lost_buffers;
    r->ring_permille = s.ring_permille;
}

static void tell_step(struct monitor *m, const struct level_step *step, int64_t wall_ns,
                      int64_t mono_ns)
{
    char text[LEVELS_TEXT];
    struct life_event ev = {.kind = LIFE_LEVEL, .wall_ns = wall_ns, .mono_ns = mono_ns};

    if (m->conf.level) {
        m->conf.level(m->conf.ctx, step);
    }
    level_step_text(text, step);
    ev.text = str_make(text);
    m->conf.life(m->conf.ctx, &ev);
}

/* Looks at what the agent costs, a few times a second, and changes the level where it must. */
static void govern(struct monitor *m, int64_t wall_ns, int64_t mono_ns)
{
    struct levels_reading r;
    struct level_step step;

    if (!m->governed || mono_ns < m->look_ns) {
        return;
    }
    m->look_ns = mono_ns + LEVELS_LOOK_NS;
    if (look_at_switches(m)) {
        set_pace(m);
    }
    read_own(m, &r);
    if (levels_look(&m->levels, mono_ns, &r, &step)) {
        set_pace(m);
        tell_step(m, &step, wall_ns, mono_ns);
    }
}

/* -- the agent's own row -- */

static void set_own(struct ptable_proc *p, unsigned id, bool known, uint64_t value)
{
    if (known) {
        p->count.mask |= METRIC_BIT(id);
        p->count.given |= METRIC_BIT(id); /* as if its row in the table had it */
        p->count.values[id] = value < INT64_MAX ? (int64_t)value : INT64_MAX;
    }
}

/* What the agent does stands beside what it costs, in the row of its process. */
static void put_own(struct monitor *m)
{
    struct ptable_proc *p = m->own_pid ? ptable_owner(m->table, m->own_pid) : NULL;
    uint64_t (*sent)(void *ctx) = m->conf.bytes_sent;
    struct source_stats s = {0};
    struct decode_counts d;

    if (!p || ptable_ended(p) || !p->count.in_table) {
        return;
    }
    m->source->ops->stats(m->source, &s);
    decode_stats(m->decode, &d);
    set_own(p, M_AGENT_LEVEL, m->governed, m->levels.level);
    set_own(p, M_AGENT_EVENTS, true, d.in + m->facts);
    set_own(p, M_AGENT_CALLBACK_P99, s.callback_p99_ns > 0, (uint64_t)s.callback_p99_ns);
    set_own(p, M_AGENT_BYTES_SENT, sent != NULL, sent ? sent(m->conf.ctx) : 0);
}

/* -- who comes out -- */

/* Asked anew only when more, or something else, is known of the process; not by the record of its
 * end, whose name may be a shorter one. */
bool monitor_wants(void *ctx, struct ptable_proc *p)
{
    struct monitor *m = ctx;
    bool same = p->who.info_version == p->info_version || ptable_ended(p);

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

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct monitor *m = ctx;

    m->conf.tick(m->conf.ctx, tick);
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct monitor *m = ctx;
    bool of_host = life_is_of_host(ev->kind);
    struct ptable_proc *p = of_host ? NULL : ptable_find(m->table, ev->info.id);

    if (of_host || (p ? monitor_wants(m, p) : process_filter_wants(m->who, &ev->info))) {
        m->conf.life(m->conf.ctx, ev);
    } else {
        m->hidden_events++;
    }
}

/* -- what the source delivers -- */

/* Of one kind there are many, and it moves nothing but counters. */
static inline bool may_be_due(const struct event *ev)
{
    return ev->kind != EV_CSWITCH && ev->kind != EV_READY;
}

/* Decoded, and charged to whom it concerns. */
static void take_event(struct monitor *m, const struct event *ev)
{
    struct ptable_proc *p = aggregate_event(m->aggregate, ev);

    m->due_ns = may_be_due(ev) ? INT64_MIN : m->due_ns;
    if (m->events.event && !ev->early && (!p || monitor_wants(m, p))) {
        m->events.event(m->events.ctx, ev, p ? &p->info : NULL);
    }
}

static void on_source(struct monitor *m, const struct event *ev)
{
    struct life_event out = {.kind = LIFE_SOURCE,
                             .wall_ns = ev->wall_ns,
                             .mono_ns = ev->mono_ns,
                             .text = ev->u.source.text};

    m->due_ns = INT64_MIN;
    lifecycle_set_polled(m->life, ev->u.source.polled);
    m->conf.life(m->conf.ctx, &out);
    if (m->events.event) {
        m->events.event(m->events.ctx, ev, NULL);
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct monitor *m = ctx;

    if (ev->kind == EV_SOURCE) {
        on_source(m, ev);
        return;
    }
    m->facts++;
    take_event(m, ev);
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct monitor *m = ctx;
    struct event ev;

    if (decode_event(m->decode, raw, &ev) == ERR_OK) { /* else counted there */
        take_event(m, &ev);
    }
}

static void answer(struct monitor *m)
{
    if (atomic_load_explicit(&m->called, memory_order_relaxed)) {
        monitor_answer(m, false);
    }
}

static void on_table(void *ctx, const struct snapshot *snap)
{
    struct monitor *m = ctx;

    m->due_ns = INT64_MIN;
    m->table_rows += snap->n_rows;
    aggregate_table(m->aggregate, snap);
    put_own(m);
    sampler_table(m->sampler, snap->wall_ns, snap->mono_ns);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Nothing that grows old is due before. */
static int64_t next_due_ns(const struct monitor *m)
{
    int64_t due_ns = earlier(sampler_due_ns(m->sampler), lifecycle_due_ns(m->life));

    due_ns = earlier(due_ns, ptable_due_ns(m->table));
    return m->governed ? earlier(due_ns, m->look_ns) : due_ns;
}

/* With nearly every record: mostly time goes on and nothing is due. */
static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct monitor *m = ctx;

    if (mono_ns < m->due_ns) {
        sampler_reached(m->sampler, wall_ns, mono_ns);
        answer(m);
        return;
    }
    sampler_advance(m->sampler, wall_ns, mono_ns);
    lifecycle_advance(m->life, wall_ns, mono_ns);
    ptable_expire(m->table, mono_ns);
    govern(m, wall_ns, mono_ns);
    m->due_ns = next_due_ns(m);
    answer(m);
}

/* -- building -- */

static enum err check_conf(const struct monitor_conf *conf, struct errmsg *why)
{
    if (conf->period_ns < CLK_MS || conf->period_ns > 10 * CLK_S) {
        return errmsg_set(why, ERR_RANGE, "samples are made every 1 ms to 10 s");
    }
    if (conf->processes_max == 0 || !conf->tick || !conf->life) {
        return errmsg_set(why, ERR_INVALID, "the monitor needs room and somebody who listens");
    }
    return ERR_OK;
}

enum err monitor_create(struct monitor **out, const struct monitor_conf *conf, struct errmsg *why)
{
    enum err e = check_conf(conf, why);
    struct monitor *m = e ? NULL : mem_zalloc(sizeof *m);

    if (!m) {
        return e ? e : errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    m->conf = *conf;
    m->conf.who = (struct process_filter_conf){.except_system = false};
    if (conf->levels) {
        m->levels_conf = *conf->levels;
        m->conf.levels = &m->levels_conf;
    }
    m->who_no = 1;
    m->due_ns = INT64_MIN;
    m->last_call = &m->calls;
    atomic_init(&m->called, false);
    e = process_filter_create(&m->who, &conf->who);
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

static enum err open_stages(struct monitor *m)
{
    struct ptable_conf table = {.instances_max = m->conf.processes_max * 2,
                                .threads_max = THREADS_MAX,
                                .text_max = TEXT_MAX,
                                .grace_ns = GRACE_NS};
    struct lifecycle_conf life = {.polled = m->source->about.polled, .told = on_life, .ctx = m};
    struct sampler_conf sampler = {.period_ns = m->conf.period_ns,
                                   .by_table = !m->source->about.replay,
                                   .processes_max = m->conf.processes_max,
                                   .wants = monitor_wants,
                                   .tick = on_tick,
                                   .ctx = m};
    enum err e = decode_create(&m->decode);

    if (e) {
        return e;
    }
    e = ptable_create(&m->table, &table);
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

static void begin_levels(struct monitor *m)
{
    if (!m->conf.levels || m->source->about.replay) {
        return;
    }
    m->levels_conf.cpus = m->source->about.cpus;
    levels_init(&m->levels, &m->levels_conf);
    m->governed = true;
    set_pace(m);
}

static void close_stages(struct monitor *m)
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
    ptable_destroy(m->table);
    decode_destroy(m->decode);
    m->sampler = NULL;
    m->aggregate = NULL;
    m->life = NULL;
    m->table = NULL;
    m->decode = NULL;
}

enum err monitor_open(struct monitor *m, struct errmsg *why)
{
    struct source_sink sink = {
        .ctx = m, .raw = on_raw, .fact = on_fact, .table = on_table, .advance = on_advance};
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
    e = open_stages(m);
    if (e) {
        close_stages(m);
        return errmsg_set(why, e, "cannot set up the agent's stages: %s", err_text(e));
    }
    m->own_pid = m->source->about.replay ? 0 : os_listed_id();
    begin_levels(m);
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
    close_stages(m);
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

static enum err run(struct monitor *m)
{
    const struct monitor *before = monitor_enter(m);
    enum err e = m->source->ops->run(m->source);

    if (e == ERR_OK || e == ERR_END) {
        lifecycle_finish(m->life);
        sampler_finish(m->sampler);
    }
    if (m->conf.ended) {
        m->conf.ended(m->conf.ctx, e);
    }
    monitor_answer(m, true);
    monitor_leave(before);
    return e;
}

/* From now on the core thread owns the stages. */
static bool begin_run(struct monitor *m)
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
    if (!begin_run(m)) {
        m->source->ops->stop(m->source); /* before it began: its run returns at once */
    }
    return run(m);
}

static void run_thread(void *arg)
{
    err_ignore(run(arg)); /* conf.ended has been told */
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
    if (!begin_run(m)) {
        m->source->ops->stop(m->source);
    }
    e = os_thread_start(&m->thread, "core", run_thread, m);
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

struct recording {
    const char *path;
};

static enum err open_recording(void *ctx, struct source **out, struct source_sink sink,
                               struct errmsg *why)
{
    const struct recording *r = ctx;
    struct etl_file_conf conf = {.paths = &r->path, .n_paths = 1};

    return etl_file_open(out, &conf, sink, why);
}

enum err monitor_read_etl(struct monitor *m, const char *path, struct errmsg *why)
{
    struct recording r = {path};
    enum err e;

    if (m->source) {
        return errmsg_set(why, ERR_EXISTS, "the monitor has a source already: %s",
                          m->source->about.name);
    }
    m->conf.open = open_recording;
    m->conf.open_ctx = &r;
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
