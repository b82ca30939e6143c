#include "agent/monitor.h"

#include <string.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"

enum { THREADS_MAX = 1 << 17, TEXT_MAX = 16 << 20 };
#define GRACE_NS (10 * CLK_S)

struct monitor {
    struct source *source;
    struct decode *decode;
    struct ptable *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    struct sampler *sampler;
    uint64_t facts;

    bool governed;
    struct levels levels;
    int64_t period_ns; /* as configured */
    int64_t look_ns;   /* when the next reading is due */
    void (*level)(void *ctx, const struct level_step *step);
    void *ctx;
};

/* -- levels -- */

/* The source and the sampler follow the level. */
static void set_pace(struct monitor *m)
{
    struct source_pace *pace = &m->source->pace;

    pace->level = m->levels.level;
    pace->tick_ns = levels_tick_ns(m->levels.level, m->period_ns);
    pace->table_ns = levels_table_ns(pace->tick_ns);
    err_ignore(sampler_set_period(m->sampler, pace->tick_ns)); /* fails out of 1 ms to 10 s only */
}

static void read_own(const struct monitor *m, struct levels_reading *r)
{
    struct source_stats s = {0};
    struct decode_counts d;

    m->source->ops->stats(m->source, &s);
    decode_stats(m->decode, &d);
    r->cpu_ns = os_cpu_ns();
    r->resident_bytes = os_resident_bytes();
    r->events = d.in + m->facts;
    r->lost = s.lost_events + s.lost_buffers;
    r->ring_permille = s.ring_permille;
}

/* Looks at what the agent costs, a few times a second, and changes the level where it must. */
static void govern(struct monitor *m, int64_t mono_ns)
{
    struct levels_reading r;
    struct level_step step;

    if (!m->governed || mono_ns < m->look_ns) {
        return;
    }
    m->look_ns = mono_ns + LEVELS_LOOK_NS;
    read_own(m, &r);
    if (levels_look(&m->levels, mono_ns, &r, &step)) {
        set_pace(m);
        if (m->level) {
            m->level(m->ctx, &step);
        }
    }
}

/* -- what the source delivers -- */

static void on_fact(void *ctx, const struct event *ev)
{
    struct monitor *m = ctx;

    m->facts++;
    aggregate_event(m->aggregate, ev);
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct monitor *m = ctx;
    struct event ev;

    if (decode_event(m->decode, raw, &ev) == ERR_OK) { /* else counted there */
        aggregate_event(m->aggregate, &ev);
    }
}

static void on_table(void *ctx, const struct snapshot *snap)
{
    struct monitor *m = ctx;

    aggregate_table(m->aggregate, snap);
    sampler_table(m->sampler, snap->wall_ns, snap->mono_ns);
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct monitor *m = ctx;

    sampler_advance(m->sampler, wall_ns, mono_ns);
    lifecycle_advance(m->life, wall_ns, mono_ns);
    ptable_expire(m->table, mono_ns);
    govern(m, mono_ns);
}

/* -- building -- */

static enum err open_source(struct monitor *m, const struct monitor_conf *conf, struct errmsg *why)
{
    struct source_sink sink = {
        .ctx = m, .raw = on_raw, .fact = on_fact, .table = on_table, .advance = on_advance};

    return conf->open(conf->open_ctx, &m->source, sink, why);
}

static enum err open_stages(struct monitor *m, const struct monitor_conf *conf)
{
    struct ptable_conf table = {.instances_max = conf->processes_max * 2,
                                .threads_max = THREADS_MAX,
                                .text_max = TEXT_MAX,
                                .grace_ns = GRACE_NS};
    struct lifecycle_conf life = {
        .polled = m->source->about.polled, .told = conf->life, .ctx = conf->ctx};
    struct sampler_conf sampler = {.period_ns = conf->period_ns,
                                   .by_table = !m->source->about.replay,
                                   .processes_max = conf->processes_max,
                                   .tick = conf->tick,
                                   .ctx = conf->ctx};
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

static void begin_levels(struct monitor *m, const struct monitor_conf *conf)
{
    struct levels_conf levels;

    if (!conf->levels || m->source->about.replay) {
        return;
    }
    levels = *conf->levels;
    levels.cpus = m->source->about.cpus;
    levels_init(&m->levels, &levels);
    m->governed = true;
    m->period_ns = conf->period_ns;
    m->level = conf->level;
    m->ctx = conf->ctx;
    set_pace(m);
}

enum err monitor_create(struct monitor **out, const struct monitor_conf *conf, struct errmsg *why)
{
    struct monitor *m = mem_zalloc(sizeof *m);
    enum err e;

    if (!m) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = open_source(m, conf, why);
    if (e) {
        goto fail;
    }
    e = open_stages(m, conf);
    if (e) {
        e = errmsg_set(why, e, "cannot set up the agent's stages: %s", err_text(e));
        goto fail;
    }
    begin_levels(m, conf);
    *out = m;
    return ERR_OK;

fail:
    monitor_destroy(m);
    return e;
}

void monitor_destroy(struct monitor *m)
{
    if (!m) {
        return;
    }
    if (m->source) {
        m->source->ops->close(m->source);
    }
    sampler_destroy(m->sampler);
    aggregate_destroy(m->aggregate);
    lifecycle_destroy(m->life);
    ptable_destroy(m->table);
    decode_destroy(m->decode);
    mem_free(m);
}

const struct source_about *monitor_about(const struct monitor *m)
{
    return &m->source->about;
}

enum err monitor_run(struct monitor *m)
{
    enum err e = m->source->ops->run(m->source);

    if (e == ERR_OK || e == ERR_END) {
        lifecycle_finish(m->life);
        sampler_finish(m->sampler);
    }
    return e;
}

void monitor_stop(struct monitor *m)
{
    m->source->ops->stop(m->source);
}

/* -- one process -- */

static enum err tell_process(struct monitor *m, struct ptable_proc *p, struct sample_row *out)
{
    if (!p) {
        return ERR_NOTFOUND;
    }
    aggregate_settle(m->aggregate, p);
    *out = (struct sample_row){
        .info = &p->info, .info_version = p->info_version, .mask = p->count.mask};
    for (uint64_t left = out->mask; left; left &= left - 1) {
        unsigned id = (unsigned)__builtin_ctzll(left);

        out->values[id] = p->count.values[id];
    }
    return ERR_OK;
}

enum err monitor_process(struct monitor *m, uint32_t pid, struct sample_row *out)
{
    return tell_process(m, ptable_owner(m->table, pid), out);
}

enum err monitor_process_by_key(struct monitor *m, struct proc_id id, struct sample_row *out)
{
    return tell_process(m, ptable_find(m->table, id), out);
}

/* -- counters -- */

void monitor_stats(const struct monitor *m, struct monitor_stats *out)
{
    m->source->ops->stats(m->source, &out->source);
    decode_stats(m->decode, &out->decode);
    out->ptable = *ptable_stats(m->table);
    out->lifecycle = *lifecycle_stats(m->life);
    out->aggregate = *aggregate_stats(m->aggregate);
    out->sampler = *sampler_stats(m->sampler);
    out->level = m->levels.level;
    memcpy(out->level_steps, m->levels.steps, sizeof out->level_steps);
}

/* What the platform denied, or what died while being read, is absent from its row and no loss. */
size_t monitor_ledger(const struct monitor *m, struct ledger_row *rows, size_t max)
{
    struct monitor_stats s;

    monitor_stats(m, &s);
    const struct {
        const char *stage, *reason;
        uint64_t count;
    } all[] = {
        {"source", "in", s.source.in},
        {"source", "lost_events", s.source.lost_events},
        {"source", "lost_buffers", s.source.lost_buffers},
        {"source", "damaged", s.source.damaged},
        {"source", "capped", s.source.capped},
        {"decode", "in", s.decode.in},
        {"decode", "out", s.decode.decoded},
        {"decode", "unknown", s.decode.unknown},
        {"decode", "filtered", s.decode.ignored},
        {"decode", "short", s.decode.corrupt},
        {"ptable", "unattributed", s.lifecycle.no_owner},
        {"ptable", "full", s.ptable.full},
        {"ptable", "threads_full", s.ptable.threads_full},
        {"ptable", "text_full", s.ptable.text_full},
        {"ptable", "no_memory", s.ptable.nomem},
        {"lifecycle", "unpaired", s.lifecycle.unpaired},
        {"aggregate", "in", s.aggregate.events},
        {"aggregate", "lost_marks", s.aggregate.lost_marks},
        {"aggregate", "disk_unmatched", s.aggregate.disk_unmatched},
        {"sampler", "out", s.sampler.rows},
        {"sampler", "capped", s.sampler.capped},
        {"sampler", "no_memory", s.sampler.nomem},
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
    return n;
}
