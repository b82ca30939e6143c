/* Real recordings through the ring: with two threads and a producer that waits, the whole agent
 * comes to the same results as without it; with a tiny ring that is emptied too rarely, every
 * record is handed on or counted, and told lost. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/monitor.h"
#include "agent/source/ring/ring.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/agent/seen.h"
#include "tests/support/corpus.h"
#include "tests/support/ring_pump.h"

static const char *const recordings[] = {"net.4.5.2.x64", "net.4.5.x86-win7", "diaghub.kernel.1"};

/* ---- a source behind a ring ---- */

struct ringed {
    struct source source;
    struct source *file;
    struct ring *ring;
    struct source_sink sink;
};

static void put_raw(void *ctx, const struct raw_event *raw)
{
    struct ringed *s = ctx;

    assert_ok(ring_put(s->ring, raw));
}

static void put_fact(void *ctx, const struct event *ev)
{
    struct ringed *s = ctx;

    ring_lost(s->ring, ev);
}

static void put_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct ringed *s = ctx;

    ring_advance(s->ring, wall_ns, mono_ns);
}

static enum err ringed_run(struct source *source)
{
    struct ringed *s = (struct ringed *)source;
    struct ring_pump p = {.ring = s->ring, .sink = s->sink, .batch = RING_PUMP_BATCH};
    enum err e;

    assert_ok(ring_pump_start(&p));
    e = s->file->ops->run(s->file);
    ring_pump_stop(&p);
    return e;
}

static void ringed_stats(const struct source *source, struct source_stats *out)
{
    const struct ringed *s = (const struct ringed *)source;

    s->file->ops->stats(s->file, out);
}

static void ringed_close(struct source *source)
{
    struct ringed *s = (struct ringed *)source;
    struct ring_stats stats;

    ring_stats(s->ring, &stats);
    assert_int_equal(stats.in, stats.out);
    s->file->ops->close(s->file);
    ring_destroy(s->ring);
    mem_free(s);
}

static enum err open_file(void *ctx, struct source **out, struct source_sink sink,
                          struct errmsg *why)
{
    const char *path = ctx;
    struct etl_file_conf conf = {
        .paths = &path, .n_paths = 1, .rebase = true, .now_ns = 1800000000 * CLK_S};

    return etl_file_open(out, &conf, sink, why);
}

static enum err open_ringed(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    static const struct source_ops ops = {
        .run = ringed_run, .stats = ringed_stats, .close = ringed_close};
    struct ring_conf conf = {.bytes = RING_BYTES, .wait = true};
    struct ringed *s = mem_zalloc(sizeof *s);
    struct source_sink put = {.ctx = s, .raw = put_raw, .fact = put_fact, .advance = put_advance};

    assert_non_null(s);
    s->sink = sink;
    assert_ok(ring_create(&s->ring, &conf));
    assert_ok(open_file(ctx, &s->file, put, why));
    s->source = (struct source){.ops = &ops, .about = s->file->about};
    *out = &s->source;
    return ERR_OK;
}

static void replay(const char *name, struct seen *s, struct monitor_stats *stats, bool ringed)
{
    char path[1024];
    struct errmsg why = {""};
    struct monitor_conf conf = {.open = ringed ? open_ringed : open_file,
                                .open_ctx = path,
                                .period_ns = CLK_S,
                                .processes_max = 4096,
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = s};
    struct monitor *m;

    (void)corpus_recording(path, sizeof path, name);
    assert_ok(monitor_create(&m, &conf, &why));
    assert_err(monitor_run(m), ERR_END);
    monitor_stats(m, stats);
    monitor_destroy(m);
}

static void same_seen(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->n_totals, b->n_totals);
    for (size_t i = 0; i < a->n_totals; i++) {
        assert_true(proc_id_eq(a->totals[i].id, b->totals[i].id));
        assert_int_equal(a->totals[i].cpu_ns, b->totals[i].cpu_ns);
        assert_int_equal(a->totals[i].origin, b->totals[i].origin);
    }
    assert_int_equal(a->n_events, b->n_events);
    for (size_t i = 0; i < a->n_events; i++) {
        assert_int_equal(a->events[i].kind, b->events[i].kind);
        assert_int_equal(a->events[i].wall_ns, b->events[i].wall_ns);
        assert_string_equal(a->names[i], b->names[i]);
    }
    assert_int_equal(a->n_images, b->n_images);
    assert_int_equal(a->n_ticks, b->n_ticks);
}

/* Every counter of every stage; bytes between two members may differ. */
static void same_stats(const struct monitor_stats *a, const struct monitor_stats *b)
{
    assert_memory_equal(&a->source, &b->source, offsetof(struct source_stats, ring_permille));
    assert_int_equal(a->source.ring_permille, b->source.ring_permille);
    assert_memory_equal(&a->decode, &b->decode,
                        offsetof(struct monitor_stats, level) -
                            offsetof(struct monitor_stats, decode));
    assert_int_equal(a->level, b->level);
    assert_memory_equal(a->level_steps, b->level_steps, sizeof a->level_steps);
}

static void a_ring_that_waits_changes_no_result(void **state)
{
    struct seen *plain = mem_zalloc(sizeof *plain);
    struct seen *ringed = mem_zalloc(sizeof *ringed);

    assert_true(plain && ringed);
    for (size_t i = 0; i < COUNT_OF(recordings); i++) {
        struct monitor_stats a, b;

        memset(plain, 0, sizeof *plain);
        memset(ringed, 0, sizeof *ringed);
        replay(recordings[i], plain, &a, false);
        replay(recordings[i], ringed, &b, true);
        assert_true(a.decode.in > 1000 && plain->n_ticks > 0);
        same_stats(&a, &b);
        same_seen(plain, ringed);
    }
    mem_free(ringed);
    mem_free(plain);
}

/* ---- a ring that is too small ---- */

struct narrow {
    struct ring *ring;
    struct decode *decode;
    uint64_t puts, early;   /* records given, early ones among them */
    uint64_t kept, lost_ok; /* not early: handed on; early and dropped */
    uint64_t told;          /* by EV_LOST */
    int64_t now_ns;
    struct source_sink sink; /* of the consumer */
};

static void narrow_put(void *ctx, const struct raw_event *raw)
{
    struct narrow *n = ctx;
    enum err e = ring_put(n->ring, raw);

    n->puts++;
    n->early += raw->early;
    n->lost_ok += e && raw->early;
    if (n->puts % 3000 == 0) {
        (void)ring_drain(n->ring, 100000, &n->sink);
    }
}

static void narrow_fact(void *ctx, const struct event *ev)
{
    struct narrow *n = ctx;

    ring_lost(n->ring, ev);
}

static void narrow_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct narrow *n = ctx;

    ring_advance(n->ring, wall_ns, mono_ns);
}

static void kept_raw(void *ctx, const struct raw_event *raw)
{
    struct narrow *n = ctx;
    struct event ev;

    n->kept += !raw->early;
    assert_true(raw->early || raw->mono_ns == n->now_ns);
    err_ignore(decode_event(n->decode, raw, &ev));
}

static void kept_fact(void *ctx, const struct event *ev)
{
    struct narrow *n = ctx;

    assert_int_equal(ev->kind, EV_LOST);
    assert_true(ev->mono_ns <= n->now_ns);
    n->told += ev->u.lost.events;
}

static void kept_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct narrow *n = ctx;

    (void)wall_ns;
    assert_true(n->now_ns < mono_ns);
    n->now_ns = mono_ns;
}

static void check_narrow(const char *name)
{
    char path[1024];
    struct ring_conf conf = {.bytes = RING_BYTES_MIN};
    struct narrow n = {.now_ns = INT64_MIN};
    struct source_sink put = {
        .ctx = &n, .raw = narrow_put, .fact = narrow_fact, .advance = narrow_advance};
    struct decode_counts counts;
    struct source_stats file;
    struct ring_stats stats;
    struct source *source;
    uint64_t dropped;

    n.sink = (struct source_sink){
        .ctx = &n, .raw = kept_raw, .fact = kept_fact, .advance = kept_advance};
    (void)corpus_recording(path, sizeof path, name);
    assert_ok(ring_create(&n.ring, &conf));
    assert_ok(decode_create(&n.decode));
    assert_ok(open_file(path, &source, put, NULL));
    assert_err(source->ops->run(source), ERR_END);
    source->ops->stats(source, &file);
    source->ops->close(source);
    ring_close(n.ring);
    (void)ring_drain(n.ring, 100000, &n.sink);

    ring_stats(n.ring, &stats);
    dropped = stats.refused; /* recordings hold records longer than this ring takes */
    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        dropped += stats.dropped[i];
    }
    assert_int_equal(stats.in, n.puts);
    assert_int_equal(stats.in, stats.out + dropped);
    assert_true(dropped > 0 && stats.out > 0);
    decode_stats(n.decode, &counts);
    assert_int_equal(counts.in, n.kept);
    /* What is not early was handed on or told lost, with what the file itself lost. */
    assert_int_equal(n.puts - n.early, n.kept + dropped - n.lost_ok);
    assert_in_range(n.told, dropped - n.lost_ok, dropped - n.lost_ok + file.lost_events);
    decode_destroy(n.decode);
    ring_destroy(n.ring);
}

static void a_ring_too_small_counts_all_it_drops(void **state)
{
    for (size_t i = 0; i < COUNT_OF(recordings); i++) {
        check_narrow(recordings[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_that_waits_changes_no_result),
        cmocka_unit_test(a_ring_too_small_counts_all_it_drops),
    };

    return corpus_dir() ? cmocka_run_group_tests(tests, NULL, NULL) : CORPUS_SKIP;
}
