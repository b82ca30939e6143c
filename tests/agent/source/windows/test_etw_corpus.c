/* Real recordings, delivered through the callbacks of live sessions, come to the same figures as
 * the file read directly: whatever stands between callback and aggregate changes nothing. A live
 * session cannot look ahead, so the direct reading does not either. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor.h"
#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_file.h"
#include "agent/source/windows/etw_live.h"
#include "agent/source/windows/etw_skip.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/seen.h"
#include "tests/agent/source/windows/events_source.h"
#include "tests/support/etwreplay.h"

#define SKIP        77
#define ERROR_TYPE  13           /* a record that could not be logged: no callback gets one */
#define NEAR_NS     (1 * CLK_US) /* rounding of ticks, summed over a process's switches */
#define LARGE_BYTES ((size_t)128 << 20)

static const char *const recordings[] = {"net.4.5.2.x64",    "net.4.5.x86-win7",
                                         "diaghub.kernel.1", "perfview-win81-x86",
                                         "gcevents",         "AMSITrace"};

/* ---- records, whatever their order ---- */

static void mix(uint64_t *h, const void *p, size_t n)
{
    *h = n ? hash_bytes(p, n, *h) : *h + 1;
}

/* Everything that decoders look at, but the clocks. */
static uint64_t digest(const struct raw_event *raw)
{
    uint64_t numbers[] = {raw->form,
                          raw->version,
                          raw->opcode,
                          raw->level,
                          raw->id,
                          raw->task,
                          raw->cpu,
                          raw->pid,
                          raw->tid,
                          raw->keyword,
                          raw->ext_n,
                          raw->pointer_size,
                          (uint64_t)raw->ticks,
                          raw->frequency};
    uint64_t h = 0;

    mix(&h, raw->guid, sizeof raw->guid);
    mix(&h, numbers, sizeof numbers);
    mix(&h, raw->payload, raw->payload_n);
    mix(&h, raw->ext, raw->ext_n);
    return h;
}

/* ---- the file read directly, without looking ahead ---- */

struct direct {
    struct source source;
    struct source *file;
    struct source_sink sink;
    uint64_t marks;
};

static uint64_t digests; /* the sum of what was read last */

static void direct_raw(void *ctx, const struct raw_event *raw)
{
    struct direct *d = ctx;

    if (!raw->early && raw->header != ERROR_TYPE && !etw_skip(raw, false)) {
        digests += digest(raw);
        d->sink.raw(d->sink.ctx, raw);
    }
}

static void direct_fact(void *ctx, const struct event *ev)
{
    struct direct *d = ctx;

    d->marks += ev->kind != EV_GROUPS; /* what is recorded a session says for itself */
}

static void direct_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct direct *d = ctx;

    d->sink.advance(d->sink.ctx, wall_ns, mono_ns);
}

static enum err direct_run(struct source *source)
{
    struct direct *d = (struct direct *)source;

    return d->file->ops->run(d->file);
}

static void direct_stats(const struct source *source, struct source_stats *out)
{
    const struct direct *d = (const struct direct *)source;

    d->file->ops->stats(d->file, out);
}

static void direct_close(struct source *source)
{
    struct direct *d = (struct direct *)source;

    assert_int_equal(d->marks, 0); /* else the replay would have to tell of them too */
    d->file->ops->close(d->file);
    mem_free(d);
}

static enum err open_direct(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    static const struct source_ops ops = {
        .run = direct_run, .stats = direct_stats, .close = direct_close};
    const char *path = ctx;
    struct etl_file_conf conf = {.paths = &path, .n_paths = 1};
    struct direct *d = mem_zalloc(sizeof *d);
    struct source_sink own = {
        .ctx = d, .raw = direct_raw, .fact = direct_fact, .advance = direct_advance};

    assert_non_null(d);
    d->sink = sink;
    assert_ok(etl_file_open(&d->file, &conf, own, why));
    d->source = (struct source){.ops = &ops, .about = d->file->about};
    *out = &d->source;
    return ERR_OK;
}

/* ---- through sessions ---- */

static struct source_sink behind; /* of the source that runs */

static void live_raw(void *ctx, const struct raw_event *raw)
{
    digests += digest(raw);
    behind.raw(ctx, raw);
}

static unsigned level; /* of sessions that open_live opens */

static enum err open_live(void *ctx, struct source **out, struct source_sink sink,
                          struct errmsg *why)
{
    static struct events_source source; /* one at a time */
    const struct etw_live_conf *conf = ctx;
    struct live_events *events;
    enum err e;

    behind = sink;
    sink.raw = live_raw;
    e = etw_live_open(&events, conf, sink, why);
    if (!e) {
        events->ops->level(events, level);
        *out = events_source_make(&source, events);
        (*out)->about.replay = true; /* ticks come by the records' time, there are no tables */
    }
    return e;
}

/* The first session tells who lives, the other the rest, as on a host. */
static bool wants(const char *session, const struct raw_event *raw)
{
    static const uint8_t classes[][16] = {ETW_CLASS_PROCESS, ETW_CLASS_THREAD, ETW_CLASS_IMAGE};
    bool life = false;

    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        life = life || (memcmp(raw->guid, classes[i], 16) == 0 && raw->opcode <= 10);
    }
    return life == (strcmp(session, "procfleet") == 0);
}

/* Three: providers apart, and what comes at high rates. Each gets the file's header, so that each
 * has something to pause at. */
static bool wants_of_three(const char *session, const struct raw_event *raw)
{
    static const uint8_t header[16] = ETW_CLASS_EVENT_TRACE;
    bool is_kp = strcmp(session, "procfleet-kp") == 0;

    if (memcmp(raw->guid, header, sizeof header) == 0) {
        return true;
    }
    if (raw->form != RAW_CLASSIC || is_kp) {
        return is_kp && raw->form != RAW_CLASSIC;
    }
    return wants(session, raw);
}

/* ---- both, and the comparison ---- */

struct outcome {
    struct seen seen;
    struct monitor_stats stats;
    uint64_t digests;
};

static struct monitor *monitor_for(struct outcome *o, void *ctx,
                                   enum err (*open)(void *, struct source **, struct source_sink,
                                                    struct errmsg *))
{
    struct monitor_conf conf = {.open = open,
                                .open_ctx = ctx,
                                .period_ns = CLK_S,
                                .processes_max = 4096,
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = &o->seen};
    struct errmsg why = {""};
    struct monitor *m;

    assert_ok(monitor_create(&m, &conf, &why));
    return m;
}

static void read_directly(struct outcome *o, char *path)
{
    struct monitor *m = monitor_for(o, path, open_direct);

    digests = 0;
    assert_err(monitor_run(m), ERR_END);
    monitor_stats(m, &o->stats);
    o->digests = digests;
    monitor_destroy(m);
}

static void run(void *arg)
{
    assert_ok(monitor_run(arg));
}

static void finish_live(struct outcome *o, struct monitor *m, struct os_thread *thread)
{
    monitor_stop(m);
    os_thread_join(thread);
    o->digests = digests;
    monitor_stats(m, &o->stats);
    assert_int_equal(o->stats.source.in, etwreplay_told());
    assert_int_equal(o->stats.source.lost_events, 0);
    monitor_destroy(m);
}

static void read_live(struct outcome *o, const char *path, size_t sessions)
{
    struct etwreplay_script script = {.path = path, .wants = sessions > 1 ? wants : NULL};
    struct etw_live_conf conf;
    struct os_thread *thread;
    struct monitor *m;

    etw_live_conf_defaults(&conf);
    conf.n_sessions = sessions;
    conf.ring_bytes = LARGE_BYTES;
    conf.api = etwreplay_begin(&script);
    m = monitor_for(o, &conf, open_live);
    digests = 0;
    assert_ok(os_thread_start(&thread, "monitor", run, m));
    assert_true(etwreplay_wait_told((unsigned)sessions));
    finish_live(o, m, thread);
}

/* As an agent at L3 has them; nothing comes until all three are there. */
static void read_by_level(struct outcome *o, const char *path)
{
    static const struct etw_conf settings = {
        .session_name = "procfleet",
        .buffers = {64, 4, 64},
        .hi = {256, 64, 128},
        .pool_mib = 64,
        .flush_s = 1,
        .flags = 0x251f,
        .providers = {{.guid = ETW_PROVIDER_KERNEL_PROCESS, .level = 4, .any = 0x10}},
        .n_providers = 1,
        .ring_bytes = LARGE_BYTES,
        .batch_events = 10000};
    struct etwreplay_script script = {.path = path, .wants = wants_of_three, .pause_after = 1};
    struct etw_live_conf conf;
    struct os_thread *thread;
    struct monitor *m;

    etw_live_conf_make(&conf, &settings, false);
    conf.api = etwreplay_begin(&script);
    level = 3;
    m = monitor_for(o, &conf, open_live);
    digests = 0;
    assert_ok(os_thread_start(&thread, "monitor", run, m));
    assert_true(etwreplay_wait_told(3));
    etwreplay_resume();
    assert_true(etwreplay_wait_told(6));
    finish_live(o, m, thread);
    level = 0;
}

static int64_t cpu_of(const struct seen *s, uint32_t pid)
{
    int64_t sum = 0;

    for (size_t i = 0; i < s->n_totals; i++) {
        sum += s->totals[i].id.pid == pid ? s->totals[i].cpu_ns : 0;
    }
    return sum;
}

static void compare(const struct outcome *a, const struct outcome *b)
{
    assert_true(a->digests == b->digests);
    assert_memory_equal(&a->stats.decode, &b->stats.decode, sizeof a->stats.decode);
    assert_memory_equal(&a->stats.lifecycle, &b->stats.lifecycle, sizeof a->stats.lifecycle);
    assert_int_equal(a->stats.aggregate.events, b->stats.aggregate.events);
    assert_int_equal(a->stats.aggregate.samples, b->stats.aggregate.samples);
    assert_int_equal(a->stats.aggregate.samples_interrupt, b->stats.aggregate.samples_interrupt);
    assert_int_equal(a->stats.aggregate.unattributed, b->stats.aggregate.unattributed);
    assert_int_equal(a->stats.aggregate.lost_marks, b->stats.aggregate.lost_marks);
    assert_int_equal(a->seen.n_starts, b->seen.n_starts);
    assert_int_equal(a->seen.n_stops, b->seen.n_stops);
    assert_int_equal(a->seen.n_images, b->seen.n_images);
    assert_int_equal(a->seen.n_events, b->seen.n_events);
    for (size_t i = 0; i < a->seen.n_events; i++) {
        assert_int_equal(a->seen.events[i].kind, b->seen.events[i].kind);
        assert_int_equal(a->seen.events[i].info.id.pid, b->seen.events[i].info.id.pid);
        assert_string_equal(a->seen.names[i], b->seen.names[i]);
    }
    assert_int_equal(a->seen.n_totals, b->seen.n_totals);
    for (size_t i = 0; i < a->seen.n_totals; i++) {
        uint32_t pid = a->seen.totals[i].id.pid;

        assert_in_range(cpu_of(&a->seen, pid) - cpu_of(&b->seen, pid) + NEAR_NS, 0, 2 * NEAR_NS);
    }
}

static size_t compared;

static void check(const char *name, size_t sessions)
{
    const char *from = getenv("PROCFLEET_PLAIN");
    struct outcome *direct = mem_zalloc(sizeof *direct), *live = mem_zalloc(sizeof *live);
    char path[1024];

    assert_non_null(direct);
    assert_non_null(live);
    (void)snprintf(path, sizeof path, "%s/%s.etl", from ? from : ".", name);
    if (os_exists(path)) {
        read_directly(direct, path);
        if (sessions == 3) {
            read_by_level(live, path);
        } else {
            read_live(live, path, sessions);
        }
        assert_true(direct->stats.decode.in > 0);
        compare(direct, live);
        compared++;
    }
    mem_free(direct);
    mem_free(live);
}

static void one_session_comes_to_the_figures_of_the_file(void **state)
{
    for (size_t i = 0; i < COUNT_OF(recordings); i++) {
        check(recordings[i], 1);
    }
}

static void two_sessions_merged_come_to_the_figures_of_the_file(void **state)
{
    for (size_t i = 0; i < COUNT_OF(recordings); i++) {
        check(recordings[i], 2);
    }
}

static void three_sessions_by_level_come_to_the_figures_of_the_file(void **state)
{
    for (size_t i = 0; i < COUNT_OF(recordings); i++) {
        check(recordings[i], 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_session_comes_to_the_figures_of_the_file),
        cmocka_unit_test(two_sessions_merged_come_to_the_figures_of_the_file),
        cmocka_unit_test(three_sessions_by_level_come_to_the_figures_of_the_file),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed || compared ? failed : SKIP;
}
