#include "agent/etl/etl_walk.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define LOOK_EVERY  8192 /* records, a power of two */
#define PROGRESS_NS (200 * CLK_MS)
#define GUESS_NS    (2 * CLK_S)
#define GRACE_NS    (10 * CLK_S) /* late records of other CPUs are still a process' own */

/* -- progress -- */

/* What is left, from what it took until now; the first two seconds say little. */
static void show_left(int64_t took_ns, double done)
{
    double left = done > 0 ? (double)took_ns / 1e9 * (1 - done) / done : 0;

    if (took_ns < GUESS_NS || done < 0.01) {
        return;
    }
    if (left < 90) {
        fprintf(stderr, ", %.0f s left", left);
    } else {
        fprintf(stderr, ", %.0f min left", left / 60);
    }
}

static void show_progress(struct etl_walk *w)
{
    const struct source_about *a = &w->source->about;
    int64_t now_ns = os_mono_ns(), span_ns = clk_sub(a->last_wall_ns, a->first_wall_ns);
    int64_t ms = (now_ns - w->begun_mono_ns) / CLK_MS + 1;
    double done;

    if (now_ns - w->shown_mono_ns < PROGRESS_NS) {
        return;
    }
    w->shown_mono_ns = now_ns;
    done = span_ns > 0 ? (double)clk_sub(w->reached_ns, a->first_wall_ns) / (double)span_ns : 1;
    done = done < 0 ? 0 : done > 1 ? 1 : done;
    fprintf(stderr, "\r%3d %%  %llu events (%lld k/s)", (int)(done * 100),
            (unsigned long long)w->records, (long long)w->records / (long long)ms);
    show_left(now_ns - w->begun_mono_ns, done);
    fputs("\033[K", stderr);
    fflush(stderr);
}

static void end_progress(const struct etl_walk *w)
{
    if (w->terminal && w->shown_mono_ns) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

static void look_for_stop(struct etl_walk *w)
{
    if (w->conf.stopped && w->conf.stopped()) {
        w->interrupted = true;
        w->source->ops->stop(w->source);
    }
}

static void look_up(struct etl_walk *w)
{
    look_for_stop(w);
    if (w->terminal) {
        show_progress(w);
    }
}

/* -- what the source delivers -- */

/* False: it is behind the part. */
static bool see_part(struct etl_walk *w, struct etl_walk_record *r)
{
    const struct raw_event *raw = r->raw;
    int64_t late_ns = 0;

    r->meant = !w->behind_part && w->conf.part(w->conf.part_ctx, w, r, &late_ns);
    if (r->meant && !w->in_part) {
        w->in_part = true;
        w->part_from_ns = clk_sub(raw->wall_ns, late_ns);
        aggregate_cut(w->aggregate, clk_sub(raw->mono_ns, late_ns), true);
    } else if (!r->meant && w->in_part && !w->behind_part) {
        w->behind_part = true;
        w->part_until_ns = clk_sub(raw->wall_ns, late_ns);
        aggregate_cut(w->aggregate, clk_sub(raw->mono_ns, late_ns), false);
    }
    return r->meant || !w->in_part;
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct etl_walk *w = ctx;
    struct etl_walk_record r = {.raw = raw};
    struct event ev;

    if (w->describe && raw->early) { /* conf.schemas: all that carry one come early */
        describe_learn(w->describe, raw);
    }
    r.meant = true;
    if (!raw->early) {
        r.since_ns = clk_sub(raw->wall_ns, w->start_ns);
        if (w->conf.part && !see_part(w, &r)) {
            return;
        }
    }
    r.decoded = decode_event(w->decode, raw, &ev);
    if (r.decoded == ERR_OK) {
        r.ev = &ev;
        r.charged = aggregate_event(w->aggregate, &ev);
    }
    if (raw->early) {
        look_for_stop(w); /* they are few */
    } else {
        w->reached_ns = raw->wall_ns;
        w->records++;
        w->conf.record(w->conf.ctx, &r);
        if ((w->records & (LOOK_EVERY - 1)) == 0) {
            look_up(w);
        }
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct etl_walk *w = ctx;

    if (ev->kind == EV_GROUPS) {
        aggregate_groups(w->aggregate, ev->u.groups);
        return;
    }
    (void)aggregate_event(w->aggregate, ev);
    if (w->conf.fact && !ev->early) {
        w->conf.fact(w->conf.ctx, ev);
    }
}

static void on_table(void *ctx, const struct snapshot *snap)
{
    (void)ctx;
    (void)snap;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct etl_walk *w = ctx;

    lifecycle_advance(w->life, wall_ns, mono_ns);
    instances_expire(w->table, mono_ns);
}

/* -- building -- */

static void ignore_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static enum err open_stages(struct etl_walk *w)
{
    struct instances_conf table = {.instances_max = ETL_WALK_INSTANCES_MAX,
                                   .threads_max = ETL_WALK_THREADS_MAX,
                                   .text_max = ETL_WALK_TEXT_MAX,
                                   .grace_ns = GRACE_NS,
                                   .keep = true};
    struct lifecycle_conf life = {.told = ignore_life};
    enum err e = decode_create(&w->decode);

    if (e) {
        return e;
    }
    e = instances_create(&w->table, &table);
    if (e) {
        return e;
    }
    life.table = w->table;
    e = lifecycle_create(&w->life, &life);
    if (e) {
        return e;
    }
    return aggregate_create(&w->aggregate, w->table, w->life);
}

static enum err open_source(struct etl_walk *w, struct errmsg *why)
{
    struct etl_file_conf conf = {
        .paths = w->conf.paths, .n_paths = w->conf.n_paths, .schemas = w->conf.names};
    struct source_sink sink = {
        .ctx = w, .raw = on_raw, .fact = on_fact, .table = on_table, .advance = on_advance};

    return etl_file_open(&w->source, &conf, sink, why);
}

static enum err take_census(struct etl_walk *w)
{
    enum err e = ERR_OK;

    w->census = mem_array(w->conf.n_paths, sizeof *w->census);
    if (!w->census) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < w->conf.n_paths && !e; i++) {
        e = etl_file_census(w->source, i, &w->census[i]);
    }
    return e;
}

/* The earliest start of the files. */
static int64_t first_start(const struct etl_walk *w)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < w->conf.n_paths; i++) {
        first = w->census[i].start_time < first ? w->census[i].start_time : first;
    }
    return clk_from_filetime(first);
}

enum err etl_walk_open(struct etl_walk **out, const struct etl_walk_conf *conf, struct errmsg *why)
{
    struct describe_conf describe = {.tmf_dir = conf->tmf_dir,
                                     .more = conf->schemas ? etl_schemas_more : NULL,
                                     .more_ctx = conf->schemas};
    struct etl_walk *w = mem_zalloc(sizeof *w);
    enum err e;

    if (!w) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    w->conf = *conf;
    w->terminal = conf->progress && os_is_terminal(2);
    e = open_source(w, why);
    if (e) {
        goto fail;
    }
    e = take_census(w);
    if (!e) {
        e = open_stages(w);
    }
    if (e) {
        e = errmsg_set(why, e, "cannot set up the reading of %s: %s", conf->paths[0], err_text(e));
        goto fail;
    }
    if (conf->names) {
        e = describe_create(&w->describe, &describe, why);
        if (e) {
            goto fail;
        }
    }
    w->start_ns = first_start(w);
    w->reached_ns = w->start_ns;
    *out = w;
    return ERR_OK;

fail:
    etl_walk_close(w);
    return e;
}

void etl_walk_close(struct etl_walk *w)
{
    if (!w) {
        return;
    }
    if (w->source) {
        w->source->ops->close(w->source);
    }
    describe_destroy(w->describe);
    aggregate_destroy(w->aggregate);
    lifecycle_destroy(w->life);
    instances_destroy(w->table);
    decode_destroy(w->decode);
    mem_free(w->census);
    mem_free(w);
}

enum err etl_walk_run(struct etl_walk *w, struct errmsg *why)
{
    enum err e;

    w->begun_mono_ns = os_mono_ns();
    e = w->source->ops->run(w->source);
    if (w->conf.part && !w->in_part) { /* nothing is meant */
        aggregate_cut(w->aggregate, 0, true);
    }
    end_progress(w);
    if (w->interrupted) {
        return errmsg_set(why, ERR_CLOSED, "stopped before the end");
    }
    if (e && e != ERR_END) {
        return errmsg_set(why, e, "%s could not be read to its end: %s", w->conf.paths[0],
                          err_text(e));
    }
    return ERR_OK;
}

void etl_walk_stop(struct etl_walk *w)
{
    w->source->ops->stop(w->source);
}

/* -- what it has -- */

void etl_walk_source_stats(const struct etl_walk *w, struct source_stats *out)
{
    w->source->ops->stats(w->source, out);
}

void etl_walk_decode_stats(const struct etl_walk *w, struct decode_counts *out)
{
    decode_stats(w->decode, out);
}

/* -- all instances -- */

static int by_pid_and_start(const void *pa, const void *pb)
{
    const struct instance *a = *(struct instance *const *)pa;
    const struct instance *b = *(struct instance *const *)pb;

    if (a->info.id.pid != b->info.id.pid) {
        return a->info.id.pid < b->info.id.pid ? -1 : 1;
    }
    return (a->info.id.start > b->info.id.start) - (a->info.id.start < b->info.id.start);
}

enum err etl_walk_list(const struct etl_walk *w, struct instance ***out, size_t *n)
{
    const struct instances_stats *s = instances_stats(w->table);
    struct instance *const heads[] = {instances_first_running(w->table),
                                      instances_first_ended(w->table)};
    struct instance **all = mem_array(s->running + s->ended + 1, sizeof *all);
    size_t at = 0;

    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t h = 0; h < 2; h++) {
        for (struct instance *p = heads[h]; p && at < s->running + s->ended; p = p->next) {
            aggregate_settle(w->aggregate, p);
            all[at++] = p;
        }
    }
    qsort(all, at, sizeof *all, by_pid_and_start);
    *out = all;
    *n = at;
    return ERR_OK;
}
