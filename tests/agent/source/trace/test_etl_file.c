#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/event_switch.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/etl_session.h"
#include "tests/support/support.h"

#define GOT_MAX        4096
#define GROUP_PROCESS  3
#define GROUP_THREAD   5
#define GROUP_PERFINFO 15
#define OP_SAMPLE      46
#define T0             1000 /* ticks of the first record, see etl_writer_defaults */
#define TICK_NS        100

static char dir[256];

struct got {
    struct source *stop_me;    /* by the first record that is not early */
    struct source *stop_later; /* as soon as time goes on behind it */
    size_t n, early, advances, switches, runs;
    char tag[GOT_MAX]; /* first payload byte of each record */
    int64_t wall_ns[GOT_MAX];
    uint16_t cpu[GOT_MAX];
    int64_t advanced_ns, mono_ns, shift_ns;
    bool early_after; /* an early record after the others began */
};

static void on_raw(void *ctx, const struct raw_event *ev)
{
    struct got *g = ctx;

    if (ev->early) {
        g->early++;
        g->early_after |= g->n > 0;
        return;
    }
    assert_true(g->n < GOT_MAX);
    assert_int_equal(ev->wall_ns, g->advanced_ns);
    assert_int_equal(ev->mono_ns, g->mono_ns);
    g->tag[g->n] = ev->payload_n ? (char)ev->payload[0] : '-';
    g->wall_ns[g->n] = ev->wall_ns;
    g->cpu[g->n] = ev->cpu;
    g->shift_ns = ev->shift_ns;
    g->n++;
    if (g->stop_me) {
        g->stop_me->ops->stop(g->stop_me);
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct got *g = ctx;

    assert_true(wall_ns > g->advanced_ns);
    assert_true(mono_ns > g->mono_ns);
    g->advanced_ns = wall_ns;
    g->mono_ns = mono_ns;
    g->advances++;
    if (g->stop_later && g->n > 0) {
        g->stop_later->ops->stop(g->stop_later);
    }
}

static struct got *got_new(void)
{
    struct got *g = calloc(1, sizeof *g);

    assert_non_null(g);
    g->advanced_ns = g->mono_ns = INT64_MIN;
    return g;
}

static const char *path_of(const char *name)
{
    static char text[2][512];
    static unsigned turn;

    turn ^= 1;
    (void)snprintf(text[turn], sizeof text[turn], "%s/%s", dir, name);
    return text[turn];
}

static enum err open_path(struct source **src, struct got *g, const char *path)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.ctx = g, .raw = on_raw, .advance = on_advance};

    return etl_file_open(src, &conf, sink, NULL);
}

/* Takes switches as such: their first payload byte is the lowest of a thread's number. */
static void on_switches(void *ctx, const struct event_switch *run, size_t n)
{
    struct got *g = ctx;

    assert_in_range(n, 1, SOURCE_SWITCHES_MAX);
    for (size_t i = 0; i < n; i++) {
        assert_true(run[i].wall_ns >= g->advanced_ns);
        assert_true(run[i].mono_ns >= g->mono_ns);
        assert_int_equal(run[i].cpu >> 16, run[i].new_tid == 'i');
        g->advances += run[i].wall_ns > g->advanced_ns;
        g->advanced_ns = run[i].wall_ns;
        g->mono_ns = run[i].mono_ns;
        g->tag[g->n] = (char)run[i].new_tid;
        g->wall_ns[g->n] = run[i].wall_ns;
        g->cpu[g->n] = (uint16_t)run[i].cpu;
        g->n++;
    }
    g->switches += n;
    g->runs++;
}

/* Runs the file through; the caller frees what is got. */
static struct got *replay(const struct etl_writer *w, struct source_stats *stats)
{
    struct got *g = got_new();
    struct source *src;

    etl_writer_save(w, path_of("a.etl"));
    assert_ok(open_path(&src, g, path_of("a.etl")));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->stats(src, stats);
    assert_int_equal(src->about.first_wall_ns, g->wall_ns[0]);
    src->ops->close(src);
    return g;
}

static void start(struct etl_writer *w)
{
    struct etl_writer_conf conf = etl_writer_defaults();

    etl_writer_init(w, &conf);
    etl_writer_close(w);
}

/* A record with a letter for its payload. */
static void put(struct etl_writer *w, int64_t ticks, char tag)
{
    etl_writer_perfinfo(w, GROUP_PERFINFO, OP_SAMPLE, 2, T0 + ticks, &tag, 1);
}

/* The tags without the log-file header's, as text. */
static void assert_tags(const struct got *g, const char *expected)
{
    assert_int_equal(g->n, strlen(expected) + 1);
    assert_memory_equal(g->tag + 1, expected, strlen(expected));
}

static void records_of_all_cpus_come_in_order_of_time(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    etl_writer_buffer(&w, 1, 0);
    put(&w, 20, 'b');
    put(&w, 40, 'd');
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 10, 'a');
    put(&w, 30, 'c');
    etl_writer_close(&w);
    etl_writer_buffer(&w, 1, 0);
    put(&w, 60, 'f');
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 50, 'e');
    etl_writer_close(&w);
    g = replay(&w, &stats);
    assert_tags(g, "abcdef");
    assert_int_equal(g->cpu[1], 0);
    assert_int_equal(g->cpu[2], 1);
    assert_int_equal(g->wall_ns[6] - g->wall_ns[1], 50 * TICK_NS);
    assert_int_equal(g->advances, 7);
    assert_int_equal(stats.in, 7);
    assert_int_equal(stats.damaged, 0);
    etl_writer_fini(&w);
    free(g);
}

/* On two CPUs, among others; one is older than the record before it, one stands behind a gap, one
 * is of a version that nobody knows. */
static void put_switches(struct etl_writer *w)
{
    static const struct {
        int64_t ticks;
        char tag;
        uint8_t op, version;
    } rows[2][5] = {
        {{10, 'a', 36, 4}, {20, 'B', 46, 4}, {40, 'c', 36, 4}, {35, 'd', 36, 4}, {60, 'E', 36, 0}},
        {{30, 'f', 36, 4}, {50, 'g', 36, 4}, {60, 'h', 36, 4}, {70, 'i', 50, 2}, {80, 'j', 36, 1}},
    };

    start(w);
    for (uint16_t cpu = 0; cpu < 2; cpu++) {
        etl_writer_buffer(w, cpu, cpu ? 2 : 0); /* events lost */
        for (size_t i = 0; i < COUNT_OF(rows[cpu]); i++) {
            char payload[24] = {rows[cpu][i].tag};

            etl_writer_perfinfo(w, rows[cpu][i].op == 46 ? GROUP_PERFINFO : GROUP_THREAD,
                                rows[cpu][i].op, rows[cpu][i].version, T0 + rows[cpu][i].ticks,
                                payload, sizeof payload);
        }
        etl_writer_close(w);
    }
}

static struct got *replay_switches(struct source_stats *stats, bool whole)
{
    struct got *g = got_new();
    const char *path = path_of("a.etl");
    struct etl_file_conf conf = {.paths = &path, .n_paths = 1};
    struct source_sink sink = {
        .ctx = g, .raw = on_raw, .switches = on_switches, .advance = on_advance};
    struct source *src;

    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    src->pace.whole = whole;
    assert_err(src->ops->run(src), ERR_END);
    src->ops->stats(src, stats);
    src->ops->close(src);
    return g;
}

static void switches_come_in_runs_where_they_are_wanted(void **state)
{
    struct got *got[2], *whole;
    struct source_stats stats[3];
    struct etl_writer w;

    put_switches(&w);
    whole = replay(&w, &stats[2]);
    for (size_t i = 0; i < 2; i++) {
        struct got *g = replay_switches(&stats[i], i == 1);

        got[i] = g;
        assert_int_equal(g->n, 11);
        assert_int_equal(g->n, whole->n);
        assert_memory_equal(g->tag, whole->tag, sizeof whole->tag);
        assert_memory_equal(g->wall_ns, whole->wall_ns, sizeof whole->wall_ns);
        assert_memory_equal(g->cpu, whole->cpu, sizeof whole->cpu);
        assert_int_equal(g->advances, whole->advances);
        assert_int_equal(stats[i].in, stats[2].in);
        assert_int_equal(stats[i].lost_events, stats[2].lost_events);
        assert_int_equal(stats[i].damaged, 0);
    }
    assert_int_equal(got[0]->switches, 7); /* not the one behind the gap, nor the unknown one */
    assert_int_equal(got[0]->runs, 3);
    assert_int_equal(got[1]->switches, 0);
    etl_writer_fini(&w);
    free(got[0]);
    free(got[1]);
    free(whole);
}

static void equal_times_keep_the_order_of_the_file(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    for (uint16_t i = 0; i < 5; i++) {
        etl_writer_buffer(&w, 4 - i, 0);
        put(&w, 10, (char)('a' + 2 * i));
        put(&w, 10, (char)('b' + 2 * i));
        etl_writer_close(&w);
    }
    g = replay(&w, &stats);
    assert_tags(g, "abcdefghij");
    assert_int_equal(g->advances, 2);
    etl_writer_fini(&w);
    free(g);
}

static void who_lives_is_told_before_everything_else(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 10, 'a');
    etl_writer_system(&w, GROUP_PROCESS, 4, 4, T0 + 20, "P", 1);
    etl_writer_system(&w, GROUP_PROCESS, 32, 2, T0 + 30, "x", 1);
    etl_writer_close(&w);
    g = replay(&w, &stats);
    assert_int_equal(g->early, 1);
    assert_false(g->early_after);
    assert_tags(g, "aPx");
    etl_writer_fini(&w);
    free(g);
}

static void compressed_buffers_read_like_plain_ones(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    for (uint16_t i = 0; i < 6; i++) {
        etl_writer_buffer(&w, i % 2, 0);
        for (int64_t k = 0; k < 26; k++) {
            put(&w, 1000 * i + k, (char)('a' + k));
        }
        etl_writer_close_compressed(&w);
    }
    g = replay(&w, &stats);
    assert_int_equal(g->n, 1 + 6 * 26);
    for (size_t i = 1; i < g->n; i++) {
        assert_int_equal(g->tag[i], 'a' + (int)((i - 1) % 26));
    }
    assert_int_equal(stats.damaged, 0);
    etl_writer_fini(&w);
    free(g);
}

static void a_wrapped_circular_file_comes_in_order(void **state)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    conf.mode = 2;
    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    for (int i = 0; i < 6; i++) {
        etl_writer_buffer(&w, 0, 0);
        put(&w, 10 * ((i + 3) % 6) + 1, (char)('a' + (i + 3) % 6));
        etl_writer_close(&w);
    }
    g = replay(&w, &stats);
    assert_tags(g, "abcdef");
    etl_writer_fini(&w);
    free(g);
}

static void damage_inside_a_buffer_costs_its_rest_only(void **state)
{
    static const uint8_t garbage[32] = {1, 2, 99, 0xc0, 5, 6, 7, 8};
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 10, 'a');
    etl_writer_bytes(&w, garbage, sizeof garbage);
    put(&w, 20, 'x');
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 30, 'b');
    etl_writer_close(&w);
    g = replay(&w, &stats);
    assert_tags(g, "ab");
    assert_int_equal(stats.damaged, 1);
    assert_int_equal(stats.skipped_bytes, sizeof garbage + 24);
    etl_writer_fini(&w);
    free(g);
}

static void a_broken_buffer_header_is_searched_past(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    for (int i = 0; i < 4; i++) {
        etl_writer_buffer(&w, 0, 0);
        put(&w, 10 * i, (char)('a' + i));
        etl_writer_close(&w);
    }
    memset(w.file.p + 2 * 4096, 0xee, 32); /* the size of the third buffer, which holds 'b' */
    g = replay(&w, &stats);
    assert_tags(g, "acd");
    assert_int_equal(stats.damaged, 1);
    assert_int_equal(stats.skipped_bytes, 4096);
    etl_writer_fini(&w);
    free(g);
}

static void unbelievable_stamps_cost_their_record_only(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 10, 'a');
    put(&w, INT64_MAX / 4, 'x');
    put(&w, -400000000000, 'y');
    put(&w, 20, 'b');
    etl_writer_close(&w);
    g = replay(&w, &stats);
    assert_tags(g, "ab");
    assert_int_equal(stats.damaged, 2);
    assert_int_equal(stats.skipped_bytes, 2 * 17);
    etl_writer_fini(&w);
    free(g);
}

static void time_never_goes_back(void **state)
{
    struct source_stats stats;
    struct etl_writer w;
    struct got *g;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 30, 'a');
    put(&w, 10, 'b');
    put(&w, 40, 'c');
    etl_writer_close(&w);
    g = replay(&w, &stats);
    assert_tags(g, "abc");
    assert_int_equal(g->wall_ns[2], g->wall_ns[1]);
    assert_int_equal(g->wall_ns[3] - g->wall_ns[1], 10 * TICK_NS);
    etl_writer_fini(&w);
    free(g);
}

static void a_file_cut_anywhere_gives_its_first_part(void **state)
{
    struct etl_writer w, cut;
    size_t whole, before = 0;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 10, 'a');
    put(&w, 20, 'b');
    etl_writer_close_compressed(&w);
    etl_writer_buffer(&w, 1, 0);
    put(&w, 15, 'c');
    put(&w, 25, 'd');
    etl_writer_close(&w);
    whole = w.file.n;
    for (size_t n = 0; n <= whole; n = n < 4000 ? n + 97 : n + 1) {
        struct got *g = got_new();
        struct source *src;

        cut = w;
        cut.file.n = n;
        etl_writer_save(&cut, path_of("cut.etl"));
        if (open_path(&src, g, path_of("cut.etl"))) {
            assert_true(n < 0x48 + 0x20 + 0x118 + 8);
        } else {
            assert_err(src->ops->run(src), ERR_END);
            assert_true(g->n >= before);
            before = g->n;
            src->ops->close(src);
        }
        free(g);
    }
    assert_int_equal(before, 5);
    etl_writer_fini(&w);
}

static void loss_is_told_by_header_flags_and_records(void **state)
{
    static const uint8_t lost[16] = ETW_CLASS_LOST_EVENT;
    struct etl_writer_conf conf = etl_writer_defaults();
    struct source_stats stats;
    struct etl_writer w;

    conf.events_lost = 5;
    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 2 | 4); /* events lost, buffer lost */
    etl_writer_full(&w, 20, lost, 32, T0 + 10, "", 0);
    etl_writer_full(&w, 20, lost, 33, T0 + 20, "", 0);
    etl_writer_full(&w, 20, lost, 34, T0 + 25, "", 0);
    etl_writer_full(&w, 13, lost, 0, T0 + 30, "", 0); /* an ERROR record */
    etl_writer_close(&w);
    free(replay(&w, &stats));
    assert_int_equal(stats.lost_events, 5 + 1 + 1);
    assert_int_equal(stats.lost_buffers, 1 + 1 + 1);
    assert_int_equal(stats.in, 5);
    etl_writer_fini(&w);
}

static void save_pair(void)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_writer w;

    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 100, 'a');
    put(&w, 300, 'c');
    etl_writer_close(&w);
    etl_writer_save(&w, path_of("first.etl"));
    etl_writer_fini(&w);

    conf.start += 150;
    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 50, 'b');
    put(&w, 250, 'd');
    etl_writer_close(&w);
    etl_writer_save(&w, path_of("second.etl"));
    etl_writer_fini(&w);
}

static void several_files_are_merged_and_rebased_together(void **state)
{
    char first[512], second[512];
    const char *paths[2] = {second, first};
    struct etl_file_conf conf = {
        .paths = paths, .n_paths = 2, .rebase = true, .now_ns = 1800000000 * CLK_S};
    struct got *g = got_new();
    struct source_sink sink = {.ctx = g, .raw = on_raw, .advance = on_advance};
    struct source *src;

    save_pair();
    (void)snprintf(first, sizeof first, "%s", path_of("first.etl"));
    (void)snprintf(second, sizeof second, "%s", path_of("second.etl"));
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_true(src->about.replay);
    assert_int_equal(src->about.first_wall_ns, conf.now_ns - 400 * TICK_NS);
    assert_string_equal(src->about.system, "Windows 10.0.19045");
    assert_err(src->ops->run(src), ERR_END);
    src->ops->close(src);
    assert_int_equal(g->n, 6);
    assert_int_equal(g->tag[1], 'a');
    assert_int_equal(g->tag[3], 'b'); /* behind the second file's header record */
    assert_int_equal(g->tag[4], 'c');
    assert_int_equal(g->tag[5], 'd');
    assert_int_equal(g->wall_ns[5], conf.now_ns);
    assert_int_equal(g->wall_ns[0] - g->shift_ns, clk_from_filetime(etl_writer_defaults().start));
    free(g);
}

static void a_replay_keeps_its_pace_and_ends_at_its_end(void **state)
{
    const char *paths[1];
    struct etl_file_conf conf = {
        .paths = paths, .n_paths = 1, .rebase = true, .speed_permille = 2000};
    struct got *g = got_new();
    struct source_sink sink = {.ctx = g, .raw = on_raw, .advance = on_advance};
    struct source *src;
    struct etl_writer w;
    int64_t began;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 1200000, 'a'); /* 120 ms, 60 at double speed */
    etl_writer_close(&w);
    etl_writer_save(&w, path_of("slow.etl"));
    etl_writer_fini(&w);
    paths[0] = path_of("slow.etl");
    conf.now_ns = os_utc_ns();
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    began = os_mono_ns();
    assert_err(src->ops->run(src), ERR_END);
    assert_true(os_mono_ns() - began >= 60 * CLK_MS);
    assert_int_equal(g->wall_ns[1], conf.now_ns + 60 * CLK_MS);
    assert_true(g->advances > 2); /* time went on between the records */
    src->ops->close(src);
    free(g);
}

static void stop_ends_a_run_at_once(void **state)
{
    struct got *g = got_new();
    struct source *src;
    struct etl_writer w;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 10, 'a');
    put(&w, 20, 'b');
    etl_writer_close(&w);
    etl_writer_save(&w, path_of("a.etl"));
    etl_writer_fini(&w);
    assert_ok(open_path(&src, g, path_of("a.etl")));
    g->stop_me = src;
    assert_ok(src->ops->run(src));
    assert_int_equal(g->n, 1);
    src->ops->stop(src);
    src->ops->close(src);
    free(g);
}

static void a_stop_between_two_records_leaves_time_where_it_was(void **state)
{
    const char *paths[1];
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .speed_permille = 1000};
    struct got *g = got_new();
    struct source_sink sink = {.ctx = g, .raw = on_raw, .advance = on_advance};
    struct source_stats stats;
    struct source *src;
    struct etl_writer w;

    start(&w);
    etl_writer_buffer(&w, 0, 0);
    put(&w, 600000000, 'a'); /* a minute later */
    etl_writer_close(&w);
    etl_writer_save(&w, path_of("slow.etl"));
    etl_writer_fini(&w);
    paths[0] = path_of("slow.etl");
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    g->stop_later = src;
    assert_ok(src->ops->run(src));
    src->ops->stats(src, &stats);
    assert_int_equal(g->n, 1);
    assert_int_equal(stats.in, 1);
    assert_true(g->advanced_ns < src->about.first_wall_ns + 30 * CLK_S);
    src->ops->close(src);
    free(g);
}

static void the_same_times_are_the_same_boot(void **state)
{
    struct got *g = got_new();
    struct source *src[2];
    const char *paths[1];
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .rebase = true, .now_ns = CLK_S};
    struct source_sink sink = {.ctx = g, .raw = on_raw, .advance = on_advance};
    struct uuid boot;

    save_pair();
    paths[0] = path_of("first.etl");
    assert_ok(open_path(&src[0], g, paths[0]));
    assert_ok(open_path(&src[1], g, paths[0]));
    boot = src[0]->about.boot;
    assert_memory_equal(&boot, &src[1]->about.boot, sizeof boot);
    src[0]->ops->close(src[0]);
    src[1]->ops->close(src[1]);
    assert_ok(etl_file_open(&src[0], &conf, sink, NULL));
    assert_memory_not_equal(&boot, &src[0]->about.boot, sizeof boot);
    src[0]->ops->close(src[0]);
    free(g);
}

static void what_is_no_trace_is_refused_with_a_reason(void **state)
{
    static const struct {
        const char *name;
        const char *content;
        enum err e;
    } rows[] = {
        {"missing.etl", NULL, ERR_NOTFOUND},
        {"empty.etl", "", ERR_CORRUPT},
        {"text.etl",
         "time level module event and so on, long enough to hold a buffer header in "
         "its bytes, and then some more of them",
         ERR_CORRUPT},
    };
    struct source_sink sink = {.raw = on_raw, .advance = on_advance};
    struct source *src;
    const char *paths[1];
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};

        paths[0] = path_of(rows[i].name);
        if (rows[i].content) {
            assert_ok(os_write_file(paths[0], rows[i].content, strlen(rows[i].content), false));
        }
        assert_err(etl_file_open(&src, &conf, sink, &why), rows[i].e);
        assert_non_null(strstr(why.text, rows[i].name));
    }
    conf.n_paths = 0;
    assert_err(etl_file_open(&src, &conf, sink, NULL), ERR_INVALID);
    conf.n_paths = 1;
    conf.speed_permille = -1;
    assert_err(etl_file_open(&src, &conf, sink, NULL), ERR_INVALID);
}

static void running_out_of_memory_at_any_point_leaks_nothing(void **state)
{
    long live = mem_live(), n = 0;
    enum err e = ERR_NOMEM;
    struct source *src;

    save_pair();
    for (; e == ERR_NOMEM; n++) {
        struct got *g = got_new();

        mem_fail_after(n);
        e = open_path(&src, g, path_of("first.etl"));
        if (!e) {
            e = src->ops->run(src);
            src->ops->close(src);
        }
        mem_fail_after(-1);
        assert_int_equal(mem_live(), live);
        free(g);
    }
    assert_err(e, ERR_END);
    assert_true(n > 6);
}

static void no_allocation_of_reading_compressed_buffers_is_forgotten(void **state)
{
    struct etl_session_conf conf = etl_session_defaults();
    long live = mem_live(), n = 0;
    enum err e = ERR_NOMEM;
    struct etl_session s;
    struct source *src;

    conf.file.buffer_size = 2048;
    conf.compress = true;
    etl_session_begin(&s, &conf, path_of("packed.etl"));
    for (int64_t i = 0; i < 200; i++) {
        etl_session_switch(&s, (uint16_t)(i % 2), T0 + i, 8, 12);
    }
    etl_session_end(&s, T0 + 200);
    for (; e == ERR_NOMEM; n++) {
        struct got *g = got_new();

        mem_fail_after(n);
        e = open_path(&src, g, path_of("packed.etl"));
        if (!e) {
            e = src->ops->run(src);
            src->ops->close(src);
        }
        mem_fail_after(-1);
        assert_int_equal(mem_live(), live);
        assert_true(e == ERR_NOMEM || g->n == 201);
        free(g);
    }
    assert_err(e, ERR_END);
    assert_true(n > 10);
}

static int make_dir(void **state)
{
    support_temp_dir(dir, sizeof dir);
    return 0;
}

static int remove_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_all_cpus_come_in_order_of_time),
        cmocka_unit_test(switches_come_in_runs_where_they_are_wanted),
        cmocka_unit_test(equal_times_keep_the_order_of_the_file),
        cmocka_unit_test(who_lives_is_told_before_everything_else),
        cmocka_unit_test(compressed_buffers_read_like_plain_ones),
        cmocka_unit_test(a_wrapped_circular_file_comes_in_order),
        cmocka_unit_test(damage_inside_a_buffer_costs_its_rest_only),
        cmocka_unit_test(a_broken_buffer_header_is_searched_past),
        cmocka_unit_test(unbelievable_stamps_cost_their_record_only),
        cmocka_unit_test(time_never_goes_back),
        cmocka_unit_test(a_file_cut_anywhere_gives_its_first_part),
        cmocka_unit_test(loss_is_told_by_header_flags_and_records),
        cmocka_unit_test(several_files_are_merged_and_rebased_together),
        cmocka_unit_test(a_replay_keeps_its_pace_and_ends_at_its_end),
        cmocka_unit_test(stop_ends_a_run_at_once),
        cmocka_unit_test(a_stop_between_two_records_leaves_time_where_it_was),
        cmocka_unit_test(the_same_times_are_the_same_boot),
        cmocka_unit_test(what_is_no_trace_is_refused_with_a_reason),
        cmocka_unit_test(running_out_of_memory_at_any_point_leaks_nothing),
        cmocka_unit_test(no_allocation_of_reading_compressed_buffers_is_forgotten),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
