#include "agent/source/trace/etl_file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/event_switch.h"
#include "agent/source/trace/etl_census.h"
#include "agent/source/trace/etl_merge.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"

/* A recording is replayed in two passes. The first hands over, marked `early`, every record that
 * tells who lives: a process or thread that lived all along may only be named in the rundown at the
 * very end; with `schemas` also those that describe others. The second hands over everything in
 * order of time.
 *
 * Times: every file says its start in UTC and counts ticks of its own clock from there. Rebasing
 * adds one shift to all files, so that their distances stay. Monotonic time is time since the
 * recorded host's boot. Damage can make a record older than the one before it: its time is then
 * that of the record before it, so that no clock ever goes back. */

#define FILES_MAX     64
#define SPEED_MAX     100000000 /* permille */
#define PAUSE_STEP_NS (20 * CLK_MS)
#define PUBLISH_EVERY 256 /* records */

struct counts {
    atomic_uint_fast64_t in, facts, lost_events, lost_buffers, damaged, skipped_bytes;
};

struct etl_file {
    struct source base; /* first: struct source * is cast to us */
    struct source_sink sink;
    struct etl_part *parts; /* by start time */
    size_t n_parts;
    struct etl_merge *merge;
    int64_t shift_ns;          /* recorded time to delivered time */
    int64_t boot_ns;           /* delivered time of monotonic zero */
    int64_t first_ns, last_ns; /* delivered */
    int64_t speed_permille;
    bool schemas;
    int64_t started_mono_ns;
    int64_t now_ns;                               /* delivered time of the latest record */
    struct source_stats local;                    /* of the running thread */
    struct counts counts;                         /* what others see */
    struct event_switch run[SOURCE_SWITCHES_MAX]; /* come, but not handed on */
    struct event_switch *run_end;
    uint64_t index_damaged, index_skipped;
    atomic_bool stopping;
};

static struct etl_file *self(struct source *s)
{
    return (struct etl_file *)s;
}

static void publish(struct etl_file *f)
{
    struct etl_damage d = etl_merge_damage(f->merge);

    atomic_store(&f->counts.in, f->local.in);
    atomic_store(&f->counts.facts, f->local.facts);
    atomic_store(&f->counts.lost_events, f->local.lost_events);
    atomic_store(&f->counts.lost_buffers, f->local.lost_buffers);
    atomic_store(&f->counts.damaged, f->local.damaged + d.damaged);
    atomic_store(&f->counts.skipped_bytes, f->local.skipped_bytes + d.skipped_bytes);
}

static bool stopping(struct etl_file *f)
{
    return atomic_load_explicit(&f->stopping, memory_order_relaxed);
}

/* Waits until the moment of replay at which `wall_ns` is due, and lets time pass meanwhile. */
static void pause_until(struct etl_file *f, int64_t wall_ns)
{
    while (!stopping(f)) {
        int64_t elapsed = os_mono_ns() - f->started_mono_ns;
        int64_t due = clk_add(f->first_ns, elapsed / 1000 * f->speed_permille);
        int64_t left;

        if (due >= wall_ns) {
            return;
        }
        if (due > f->now_ns) {
            f->now_ns = due;
            f->sink.advance(f->sink.ctx, due, due - f->boot_ns);
        }
        left = (wall_ns - due) / f->speed_permille * 1000 + 1;
        os_sleep_ns(left < PAUSE_STEP_NS ? left : PAUSE_STEP_NS);
    }
}

/* ERROR records and those of the lost-event class tell that something is missing. */
static void count_loss(struct etl_file *f, const struct raw_event *ev, uint8_t type)
{
    static const uint8_t lost[16] = ETW_CLASS_LOST_EVENT;

    if (type == ETL_ERROR) {
        f->local.lost_events++;
    } else if (ev->form == RAW_CLASSIC && memcmp(ev->guid, lost, sizeof lost) == 0) {
        f->local.lost_events += ev->opcode == 32;
        f->local.lost_buffers += ev->opcode == 33 || ev->opcode == 34; /* 34: a file of them */
    }
}

/* Everything of the record, its times included. False: it is damaged and counted. */
static bool complete(struct etl_file *f, const struct etl_stream *at, struct raw_event *ev)
{
    if (etl_record_read(ev, &at->peek, at->p)) {
        f->local.damaged++;
        f->local.skipped_bytes += at->peek.size;
        return false;
    }
    ev->cpu = etl_stream_cpu(at);
    ev->place = etl_stream_place(at);
    ev->frequency = at->part->index.log.frequency;
    ev->shift_ns = f->shift_ns;
    ev->wall_ns = clk_add(at->wall_ns, f->shift_ns);
    ev->mono_ns = clk_add(ev->wall_ns, -f->boot_ns); /* a record without time has the least one */
    return true;
}

static void give_early(struct etl_file *f, const struct etl_stream *at)
{
    struct source_stats before = f->local;
    struct raw_event ev;

    if (complete(f, at, &ev)) {
        ev.early = true;
        f->sink.raw(f->sink.ctx, &ev);
    }
    f->local = before; /* the second pass counts */
}

/* What is open on this CPU has no known end. A gap that no flag tells, damage, may hold anything.
 */
static void give_gap(struct etl_file *f, uint16_t cpu, const struct etl_gap *gap)
{
    struct event ev = {.kind = EV_LOST, .cpu = cpu, .pid = EVENT_NO_ID, .tid = EVENT_NO_ID};

    if (!f->sink.fact || f->now_ns == INT64_MIN || stopping(f)) {
        return;
    }
    ev.wall_ns = f->now_ns;
    ev.mono_ns = f->now_ns - f->boot_ns;
    ev.u.lost = (struct ev_lost){.events = gap->events, .buffers = gap->buffers};
    f->local.facts++;
    f->sink.fact(f->sink.ctx, &ev);
}

/* Time has come as far as a record's. One that is older gets the time that it has come to. */
static inline void come_to(struct etl_file *f, int64_t *wall_ns, int64_t *mono_ns)
{
    if (*wall_ns > f->now_ns) {
        f->now_ns = *wall_ns;
        f->sink.advance(f->sink.ctx, *wall_ns, *mono_ns);
    } else if (*wall_ns < f->now_ns) {
        *wall_ns = f->now_ns;
        *mono_ns = f->now_ns - f->boot_ns;
    }
}

static void give_run(struct etl_file *f)
{
    size_t n = (size_t)(f->run_end - f->run);

    f->run_end = f->run;
    if (n == 0 || stopping(f)) {
        return;
    }
    f->sink.switches(f->sink.ctx, f->run, n);
    f->local.in += n;
    if (f->local.in % PUBLISH_EVERY < n) {
        publish(f);
    }
}

static inline bool read_switch(struct event_switch *out, const struct etl_stream *at, uint32_t hook)
{
    size_t header = etl_record_shapes[at->peek.type].header, n = at->peek.size - header;
    const uint8_t *payload = at->p + header;
    uint16_t cpu = etl_stream_cpu(at);

    return hook == ETL_HOOK_SWITCH ? event_switch_read(out, cpu, payload, n, at->p[0])
                                   : event_ready_read(out, cpu, payload, n, at->p[0]);
}

/* A switch before which nothing else is to be said: it joins the run. False: give it whole. */
static bool take_switch(struct etl_file *f, const struct etl_stream *at, uint32_t hook)
{
    struct event_switch *sw = f->run_end;

    if (at->gap.open || f->speed_permille || f->base.pace.whole || !read_switch(sw, at, hook)) {
        return false;
    }
    sw->wall_ns = clk_add(at->wall_ns, f->shift_ns);
    if (sw->wall_ns < f->now_ns) { /* as come_to has it */
        sw->wall_ns = f->now_ns;
    }
    f->now_ns = sw->wall_ns;
    sw->mono_ns = clk_add(sw->wall_ns, -f->boot_ns);
    if (++f->run_end == f->run + SOURCE_SWITCHES_MAX) {
        give_run(f);
    }
    return true;
}

static void give(struct etl_file *f, const struct etl_stream *at)
{
    static const struct etl_gap error = {.open = true, .events = 1};
    uint32_t hook = f->sink.switches ? etl_record_switch(&at->peek, at->p) : 0;
    struct raw_event ev;

    if (hook && take_switch(f, at, hook)) {
        return;
    }
    if (f->run_end != f->run) {
        give_run(f);
    }
    if (at->peek.type == ETL_NOTHING) {
        give_gap(f, etl_stream_cpu(at), &at->gap);
        return;
    }
    if (!complete(f, at, &ev)) {
        give_gap(f, etl_stream_cpu(at), &at->gap);
        return;
    }
    if (f->speed_permille) {
        pause_until(f, ev.wall_ns);
        if (stopping(f)) {
            return; /* its time has not come */
        }
    }
    come_to(f, &ev.wall_ns, &ev.mono_ns);
    if (at->gap.open) {
        give_gap(f, etl_stream_cpu(at), &at->gap);
    }
    if (at->peek.type == ETL_ERROR) {
        give_gap(f, etl_stream_cpu(at), &error);
    }
    f->local.in++;
    count_loss(f, &ev, at->peek.type);
    if (!stopping(f)) {
        f->sink.raw(f->sink.ctx, &ev);
    }
    if (f->local.in % PUBLISH_EVERY == 0) {
        publish(f);
    }
}

static enum err pass(struct etl_file *f, enum etl_want want,
                     void (*each)(struct etl_file *, const struct etl_stream *))
{
    const struct etl_stream *at;
    enum err e = ERR_OK;

    etl_merge_rewind(f->merge, want);
    while (!e && !stopping(f)) {
        e = etl_merge_next(f->merge, &at);
        if (!e) {
            each(f, at);
        }
    }
    return e == ERR_END ? ERR_OK : e;
}

/* A group is recorded when any of its records is in the files: who has none of them has zero. */
static void give_groups(struct etl_file *f)
{
    struct event ev = {.kind = EV_GROUPS, .early = true, .pid = EVENT_NO_ID, .tid = EVENT_NO_ID};

    if (f->sink.fact) {
        ev.wall_ns = f->first_ns;
        ev.mono_ns = f->first_ns - f->boot_ns;
        ev.u.groups = etl_merge_groups(f->merge);
        f->sink.fact(f->sink.ctx, &ev);
    }
}

static enum err etl_file_run(struct source *s)
{
    struct etl_file *f = self(s);
    enum err e = pass(f, f->schemas ? ETL_WANT_SCHEMAS : ETL_WANT_LIFE, give_early);

    if (!e && !stopping(f)) {
        give_groups(f);
        f->started_mono_ns = os_mono_ns();
        f->now_ns = INT64_MIN;
        e = pass(f, ETL_WANT_ALL, give);
        give_run(f);
        publish(f);
    }
    if (e) {
        return e;
    }
    return stopping(f) ? ERR_OK : ERR_END;
}

static void etl_file_stop(struct source *s)
{
    atomic_store(&self(s)->stopping, true);
}

static void etl_file_stats(const struct source *s, struct source_stats *out)
{
    const struct etl_file *f = (const struct etl_file *)s;
    struct source_stats v = {
        .in = atomic_load(&f->counts.in),
        .facts = atomic_load(&f->counts.facts),
        .lost_events = atomic_load(&f->counts.lost_events),
        .lost_buffers = atomic_load(&f->counts.lost_buffers),
        .damaged = f->index_damaged + atomic_load(&f->counts.damaged),
        .skipped_bytes = f->index_skipped + atomic_load(&f->counts.skipped_bytes),
    };

    *out = v;
}

static void etl_file_close(struct source *s)
{
    struct etl_file *f = self(s);

    if (!f) {
        return;
    }
    etl_merge_close(f->merge);
    for (size_t i = 0; i < f->n_parts; i++) {
        etl_index_fini(&f->parts[i].index);
        etl_input_close(f->parts[i].in);
    }
    mem_free(f->parts);
    mem_free(f);
}

enum err etl_file_census(const struct source *s, size_t i, struct etl_census *out)
{
    const struct etl_file *f = (const struct etl_file *)s;

    for (size_t k = 0; k < f->n_parts; k++) {
        const struct etl_index *x = &f->parts[k].index;

        if (f->parts[k].nth == i) {
            *out = x->census;
            out->damaged = x->damaged;
            out->skipped_bytes = x->skipped_bytes;
            return ERR_OK;
        }
    }
    return ERR_NOTFOUND;
}

static const struct source_ops ops = {
    .run = etl_file_run, .stop = etl_file_stop, .stats = etl_file_stats, .close = etl_file_close};

static enum err open_part(struct etl_part *p, const char *path, struct errmsg *why)
{
    enum err e = etl_input_open(&p->in, path, why);

    return e ? e : etl_index_init(&p->index, p->in, path, why);
}

static int by_start(const void *pa, const void *pb)
{
    const struct etl_part *a = pa, *b = pb;

    return (a->index.log.start_ns > b->index.log.start_ns) -
           (a->index.log.start_ns < b->index.log.start_ns);
}

static enum err open_parts(struct etl_file *f, const struct etl_file_conf *conf, struct errmsg *why)
{
    enum err e;

    if (conf->speed_permille < 0) {
        return errmsg_set(why, ERR_INVALID, "the speed of a replay cannot be negative");
    }
    if (conf->n_paths == 0 || conf->n_paths > FILES_MAX) {
        return errmsg_set(why, ERR_INVALID, "a replay takes 1 to %d trace files", FILES_MAX);
    }
    f->parts = mem_array(conf->n_paths, sizeof *f->parts);
    if (!f->parts) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < conf->n_paths; i++) {
        f->n_parts++;
        f->parts[i].nth = i;
        e = open_part(&f->parts[i], conf->paths[i], why);
        if (e) {
            return e;
        }
    }
    qsort(f->parts, f->n_parts, sizeof *f->parts, by_start);
    return ERR_OK;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What sessions said they lost; each flagged buffer shows that at least one event or buffer is
 * missing. */
static void count_told_loss(struct etl_file *f)
{
    for (size_t i = 0; i < f->n_parts; i++) {
        const struct etl_index *x = &f->parts[i].index;

        f->local.lost_events += larger(x->log.events_lost, x->flagged_events_lost);
        f->local.lost_buffers += larger(x->log.buffers_lost, x->flagged_buffers_lost);
        f->index_damaged += x->damaged;
        f->index_skipped += x->skipped_bytes;
    }
}

static enum err set_times(struct etl_file *f, const struct etl_file_conf *conf, struct errmsg *why)
{
    const struct etl_log_header *log = &f->parts[0].index.log;
    int64_t end_ns = conf->now_ns;
    enum err e = etl_merge_span(f->merge, &f->first_ns, &f->last_ns);

    if (e) {
        return errmsg_set(why, e == ERR_END ? ERR_CORRUPT : e, "no record can be read from %s",
                          conf->paths[0]);
    }
    if (conf->rebase) {
        if (conf->speed_permille) {
            end_ns = clk_add(end_ns, (f->last_ns - f->first_ns) / conf->speed_permille * 1000);
        }
        f->shift_ns = end_ns - f->last_ns;
    }
    f->boot_ns = log->boot_ns > 0 && log->boot_ns <= f->first_ns ? log->boot_ns : f->first_ns;
    f->boot_ns = clk_add(f->boot_ns, f->shift_ns);
    f->first_ns = clk_add(f->first_ns, f->shift_ns);
    f->last_ns = clk_add(f->last_ns, f->shift_ns);
    return ERR_OK;
}

static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The same recording at the same times is the same boot; replayed at other times it is another. */
static struct uuid boot_id(const struct etl_file *f)
{
    uint64_t half[2] = {scramble((uint64_t)f->boot_ns), scramble((uint64_t)f->boot_ns + 1)};
    struct uuid u;

    memcpy(u.b, half, sizeof u.b);
    u.b[6] = (uint8_t)((u.b[6] & 0x0f) | 0x80); /* version 8, our own scheme */
    u.b[8] = (uint8_t)((u.b[8] & 0x3f) | 0x80);
    return u;
}

static void set_about(struct etl_file *f)
{
    const struct etl_log_header *log = &f->parts[0].index.log;
    struct source_about *a = &f->base.about;
    uint64_t buffers = 0, compressed = 0;
    char from[CLK_TEXT];

    for (size_t i = 0; i < f->n_parts; i++) {
        buffers += f->parts[i].index.n_slots;
        compressed += f->parts[i].index.compressed;
    }
    a->name = "etl";
    a->boot = boot_id(f);
    a->cpus = log->cpus;
    a->replay = true;
    a->first_wall_ns = f->first_ns;
    a->last_wall_ns = f->last_ns;
    (void)snprintf(a->system, sizeof a->system, "Windows %u.%u.%u", log->major, log->minor,
                   log->build);
    (void)snprintf(
        a->detail, sizeof a->detail,
        "%zu %s of %llu %s (%llu compressed) from %s, %lld ms, shifted by "
        "%lld s",
        f->n_parts, plural(f->n_parts, "recording", "recordings"), (unsigned long long)buffers,
        plural(buffers, "buffer", "buffers"), (unsigned long long)compressed,
        clk_format_utc(from, sizeof from, f->first_ns - f->shift_ns, 3),
        (long long)((f->last_ns - f->first_ns) / CLK_MS), (long long)(f->shift_ns / CLK_S));
}

enum err etl_file_open(struct source **out, const struct etl_file_conf *conf,
                       struct source_sink sink, struct errmsg *why)
{
    struct etl_file *f = mem_zalloc(sizeof *f);
    enum err e;

    if (!f) {
        return errmsg_set(why, ERR_NOMEM, "out of memory opening the trace");
    }
    f->base.ops = &ops;
    f->sink = sink;
    f->run_end = f->run;
    f->schemas = conf->schemas;
    f->speed_permille = conf->speed_permille > SPEED_MAX ? SPEED_MAX : conf->speed_permille;
    e = open_parts(f, conf, why);
    if (e) {
        goto fail;
    }
    e = etl_merge_open(&f->merge, f->parts, f->n_parts);
    if (e) {
        e = errmsg_set(why, e, "cannot merge the CPUs of the trace: %s", err_text(e));
        goto fail;
    }
    e = set_times(f, conf, why);
    if (e) {
        goto fail;
    }
    count_told_loss(f);
    publish(f);
    set_about(f);
    *out = &f->base;
    return ERR_OK;

fail:
    etl_file_close(&f->base);
    return e;
}

enum err etl_file_open_conf(void *conf, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    return etl_file_open(out, conf, sink, why);
}
