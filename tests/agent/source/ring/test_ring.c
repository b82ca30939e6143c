#include "tests/support/t.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/ring/ring.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define SEEN_MAX 4096

static const uint8_t class_process[16] = ETW_CLASS_PROCESS;
static const uint8_t class_thread[16] = ETW_CLASS_THREAD;
static const uint8_t class_image[16] = ETW_CLASS_IMAGE;
static const uint8_t class_perf_info[16] = ETW_CLASS_PERF_INFO;
static const uint8_t class_disk_io[16] = ETW_CLASS_DISK_IO;
static const uint8_t class_page_fault[16] = ETW_CLASS_PAGE_FAULT;
static const uint8_t class_tcp_ip[16] = ETW_CLASS_TCP_IP;
static const uint8_t class_file_io[16] = ETW_CLASS_FILE_IO;

enum said { SAID_RAW, SAID_LOST, SAID_TIME };

struct say {
    enum said what;
    int64_t mono_ns;
    uint32_t tid; /* of the raw: the test's running number */
    struct ev_lost lost;
    uint16_t cpu;
};

struct seen {
    struct say all[SEEN_MAX];
    size_t n;
    struct raw_event last;
    uint8_t payload[256], ext[256];
};

static struct say *say(struct seen *s, enum said what, int64_t mono_ns)
{
    assert_true(s->n < SEEN_MAX);
    s->all[s->n] = (struct say){.what = what, .mono_ns = mono_ns};
    return &s->all[s->n++];
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct seen *s = ctx;

    say(s, SAID_RAW, raw->mono_ns)->tid = raw->tid;
    s->last = *raw;
    if (raw->payload_n <= sizeof s->payload && raw->ext_n <= sizeof s->ext) {
        memcpy(s->payload, raw->payload, raw->payload_n);
        memcpy(s->ext, raw->ext_n ? raw->ext : s->payload, raw->ext_n);
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct say *it = say(ctx, SAID_LOST, ev->mono_ns);

    assert_int_equal(ev->kind, EV_LOST);
    it->lost = ev->u.lost;
    it->cpu = ev->cpu;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)wall_ns;
    (void)say(ctx, SAID_TIME, mono_ns);
}

static struct source_sink sink_of(struct seen *s)
{
    return (struct source_sink){.ctx = s, .raw = on_raw, .fact = on_fact, .advance = on_advance};
}

static struct ring *make(size_t bytes)
{
    struct ring_conf conf = {.bytes = bytes};
    struct ring *r;

    assert_ok(ring_create(&r, &conf));
    return r;
}

static uint8_t zeros[RING_BYTES_MIN];

/* A record of a class at a time; tid carries a running number. */
static struct raw_event record(const uint8_t guid[16], uint8_t opcode, int64_t ns, size_t payload_n)
{
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .opcode = opcode,
                            .pointer_size = 8,
                            .tid = (uint32_t)ns,
                            .wall_ns = 1000000 + ns,
                            .mono_ns = ns,
                            .payload = zeros,
                            .payload_n = payload_n};

    memcpy(raw.guid, guid, 16);
    return raw;
}

/* Puts records of the class until one does not fit; gives how many did. */
static size_t fill(struct ring *r, const uint8_t guid[16], uint8_t opcode, int64_t *ns)
{
    for (size_t n = 0;; n++) {
        struct raw_event raw = record(guid, opcode, ++*ns, 24);
        enum err e = ring_put(r, &raw);

        if (e) {
            assert_err(e, ERR_FULL);
            return n;
        }
    }
}

static uint64_t dropped_of(const struct ring_stats *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        n += s->dropped[i];
    }
    return n;
}

static void expect_balance(const struct ring *r, uint64_t held)
{
    struct ring_stats s;

    ring_stats(r, &s);
    assert_int_equal(s.held, held);
    assert_int_equal(s.in, s.out + s.refused + s.held + dropped_of(&s));
}

static void a_record_comes_out_as_it_went_in(void **state)
{
    struct raw_event in = {.guid = {1, 2, 3},
                           .form = RAW_MANIFEST,
                           .version = 4,
                           .opcode = 5,
                           .level = 6,
                           .pointer_size = 4,
                           .early = false,
                           .id = 700,
                           .task = 800,
                           .cpu = 900,
                           .pid = 1000,
                           .tid = 1100,
                           .keyword = UINT64_C(0x8000000000000010),
                           .wall_ns = INT64_C(1700000000123456789),
                           .mono_ns = -5,
                           .shift_ns = -77,
                           .ticks = 88,
                           .frequency = 10000000,
                           .header = 13,
                           .counters = 3,
                           .place = 65536,
                           .has_sequence = true,
                           .has_component = false,
                           .sequence = 77,
                           .component = 78,
                           .payload = (const uint8_t *)"payload",
                           .payload_n = 7,
                           .ext = (const uint8_t *)"items",
                           .ext_n = 5};
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);

    /* A field that was added must be kept by ring.c and compared here. */
    assert_true(sizeof(void *) != 8 || sizeof in == 152);
    for (int round = 0; round < 3; round++) { /* with and without a context of its own */
        in.early = round == 1;
        in.keyword += round == 2;
        assert_ok(ring_put(r, &in));
        assert_int_equal(ring_drain(r, 10, &sink), 1);
        assert_memory_equal(s->payload, "payload", 7);
        assert_memory_equal(s->ext, "items", 5);
        assert_int_equal((uintptr_t)s->last.payload % 8, 0);
        s->last.payload = in.payload;
        s->last.ext = in.ext;
        assert_memory_equal(s->last.guid, in.guid, 16);
        assert_true(s->last.form == in.form && s->last.version == in.version);
        assert_true(s->last.opcode == in.opcode && s->last.level == in.level);
        assert_true(s->last.pointer_size == in.pointer_size && s->last.early == in.early);
        assert_true(s->last.id == in.id && s->last.task == in.task && s->last.cpu == in.cpu);
        assert_true(s->last.pid == in.pid && s->last.tid == in.tid);
        assert_true(s->last.keyword == in.keyword && s->last.shift_ns == in.shift_ns);
        assert_true(s->last.wall_ns == in.wall_ns && s->last.mono_ns == in.mono_ns);
        assert_true(s->last.ticks == in.ticks && s->last.frequency == in.frequency);
        assert_true(s->last.counters == in.counters && s->last.place == in.place);
        assert_true(s->last.has_sequence && !s->last.has_component);
        assert_true(s->last.sequence == in.sequence && s->last.component == in.component);
        assert_true(s->last.header == in.header && s->last.payload_n == 7 && s->last.ext_n == 5);
    }
    expect_balance(r, 0);
    mem_free(s);
    ring_destroy(r);
}

static void records_keep_their_order_around_the_end(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    int64_t ns = 0;

    for (int round = 0; round < 300; round++) { /* many times the ring's size */
        size_t n = 1 + (size_t)round % 7;

        for (size_t i = 0; i < n; i++) {
            struct raw_event raw = record(class_disk_io, 10, ns + 1, (size_t)(ns * 37 % 5000));

            assert_ok(ring_put(r, &raw));
            ns++;
        }
        s->n = 0;
        assert_int_equal(ring_drain(r, 100, &sink), n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(s->all[2 * i].what, SAID_TIME);
            assert_int_equal(s->all[2 * i + 1].what, SAID_RAW);
            assert_int_equal(s->all[2 * i + 1].tid, ns - (int64_t)n + 1 + (int64_t)i);
        }
    }
    expect_balance(r, 0);
    mem_free(s);
    ring_destroy(r);
}

static void a_drain_ends_at_its_limit(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);

    for (int64_t ns = 1; ns <= 100; ns++) {
        struct raw_event raw = record(class_disk_io, 10, ns, 8);

        assert_ok(ring_put(r, &raw));
    }
    assert_int_equal(ring_drain(r, 70, &sink), 70);
    expect_balance(r, 30);
    assert_int_equal(ring_drain(r, 70, &sink), 30);
    assert_int_equal(ring_drain(r, 70, &sink), 0);
    mem_free(s);
    ring_destroy(r);
}

static void lifecycle_is_shed_last(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    struct ring_stats stats;
    int64_t ns = 0;

    assert_true(fill(r, class_thread, 36, &ns) > 0);
    assert_in_range(ring_fill_permille(r), 860, 875);
    assert_int_equal(fill(r, class_perf_info, 46, &ns), 0);
    assert_int_equal(fill(r, class_file_io, 67, &ns), 0);
    assert_true(fill(r, class_thread, 1, &ns) > 0);
    assert_in_range(ring_fill_permille(r), 930, 938);
    assert_int_equal(fill(r, class_image, 10, &ns), 0);
    assert_true(fill(r, class_process, 1, &ns) > 0);
    assert_in_range(ring_fill_permille(r), 997, 1000);
    ring_stats(r, &stats);
    assert_int_equal(stats.dropped[RING_CSWITCH], 1);
    assert_int_equal(stats.dropped[RING_SAMPLE], 1);
    assert_int_equal(stats.dropped[RING_OTHER], 1);
    assert_int_equal(stats.dropped[RING_THREAD], 1);
    assert_int_equal(stats.dropped[RING_IMAGE], 1);
    assert_int_equal(stats.dropped[RING_PROCESS], 1);
    assert_int_equal(ring_drain(r, 10000, &sink), stats.in - 6);
    expect_balance(r, 0);
    assert_int_equal(ring_fill_permille(r), 0);
    mem_free(s);
    ring_destroy(r);
}

static void each_record_has_its_kind(void **state)
{
    static const struct {
        const uint8_t *guid;
        uint8_t opcode;
        enum ring_kind kind;
    } rows[] = {
        {class_process, 1, RING_PROCESS},   {class_process, 39, RING_PROCESS},
        {class_thread, 1, RING_THREAD},     {class_thread, 4, RING_THREAD},
        {class_thread, 72, RING_THREAD},    {class_thread, 36, RING_CSWITCH},
        {class_thread, 50, RING_CSWITCH},   {class_thread, 41, RING_OTHER},
        {class_image, 10, RING_IMAGE},      {class_image, 2, RING_IMAGE},
        {class_perf_info, 46, RING_SAMPLE}, {class_perf_info, 47, RING_SAMPLE},
        {class_perf_info, 73, RING_OTHER},  {class_perf_info, 51, RING_OTHER},
        {class_disk_io, 10, RING_DISK},     {class_page_fault, 32, RING_FAULT},
        {class_tcp_ip, 10, RING_NET},       {class_file_io, 64, RING_OTHER},
    };
    static const uint8_t kernel_process[16] =
        ETW_GUID(0x22fb2cd6, 0x0e7b, 0x422b, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16);
    static const enum ring_kind by_id[] = {RING_OTHER,  RING_PROCESS, RING_PROCESS, RING_THREAD,
                                           RING_THREAD, RING_IMAGE,   RING_IMAGE,   RING_OTHER};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_event raw = record(rows[i].guid, rows[i].opcode, 0, 0);

        assert_int_equal(ring_kind_of(&raw), rows[i].kind);
        raw.form = RAW_MANIFEST; /* the GUID is a provider's then */
        assert_int_equal(ring_kind_of(&raw), RING_OTHER);
    }
    for (uint16_t id = 0; id < COUNT_OF(by_id); id++) {
        struct raw_event raw = record(kernel_process, 0, 0, 0);

        raw.form = RAW_MANIFEST;
        raw.id = id;
        assert_int_equal(ring_kind_of(&raw), by_id[id]);
    }
}

/* Drains all; gives the first EV_LOST behind `from`, which must come before the next record. */
static const struct say *lost_before_next(const struct seen *s, size_t from)
{
    for (size_t i = from; i < s->n; i++) {
        assert_int_not_equal(s->all[i].what, SAID_RAW);
        if (s->all[i].what == SAID_LOST) {
            return &s->all[i];
        }
    }
    fail_msg("no loss was told");
    return NULL;
}

static void loss_is_told_before_the_next_record(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    int64_t ns = 0, first_lost;
    struct raw_event raw;
    const struct say *lost;
    size_t held, at;

    held = fill(r, class_thread, 36, &ns); /* one is lost on CPU 0 */
    first_lost = ns;
    for (int i = 0; i < 3; i++) {
        raw = record(class_thread, 36, ++ns, 24);
        raw.cpu = 3;
        assert_err(ring_put(r, &raw), ERR_FULL);
    }
    assert_int_equal(ring_drain(r, 10000, &sink), held);
    at = s->n;
    raw = record(class_thread, 36, ++ns, 24);
    assert_ok(ring_put(r, &raw));
    assert_int_equal(ring_drain(r, 10000, &sink), 1);

    lost = lost_before_next(s, at);
    assert_int_equal(lost->mono_ns, first_lost);
    assert_int_equal(lost->cpu, 0);
    assert_false(lost->lost.all_cpus);
    assert_int_equal(lost->lost.events, 1);
    lost = lost_before_next(s, (size_t)(lost - s->all) + 1);
    assert_int_equal(lost->mono_ns, first_lost + 1);
    assert_int_equal(lost->cpu, 3);
    assert_int_equal(lost->lost.events, 3);
    assert_int_equal(s->all[s->n - 1].what, SAID_RAW);
    assert_int_equal(s->all[s->n - 1].tid, ns);
    for (size_t i = 1; i < s->n; i++) {
        assert_true(s->all[i].mono_ns >= s->all[i - 1].mono_ns);
    }
    mem_free(s);
    ring_destroy(r);
}

static void loss_on_many_cpus_is_loss_on_all(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    int64_t ns = 0;
    uint64_t events = 0;
    size_t marks = 0;

    (void)fill(r, class_disk_io, 10, &ns); /* one is lost on CPU 0 */
    for (uint16_t cpu = 0; cpu < 40; cpu++) {
        struct raw_event raw = record(class_thread, 36, ++ns, 24);

        raw.cpu = cpu;
        assert_err(ring_put(r, &raw), ERR_FULL);
    }
    ring_close(r); /* the last stretch has no next record */
    (void)ring_drain(r, 10000, &sink);
    for (size_t i = 0; i < s->n; i++) {
        if (s->all[i].what == SAID_LOST) {
            marks++;
            events += s->all[i].lost.events;
            assert_int_equal(s->all[i].lost.all_cpus, i + 1 == s->n);
        }
    }
    assert_int_equal(marks, 16);
    assert_int_equal(events, 41);
    mem_free(s);
    ring_destroy(r);
}

static void loss_the_platform_tells_keeps_its_place(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    struct event ev = {.kind = EV_LOST, .cpu = 2, .mono_ns = 15, .u.lost = {.events = 4}};
    struct event all = {.kind = EV_LOST, .mono_ns = 16, .u.lost = {true, 0, 1}};
    struct raw_event before = record(class_disk_io, 10, 10, 8);
    struct raw_event behind = record(class_disk_io, 10, 20, 8);
    struct ring_stats stats;

    assert_ok(ring_put(r, &before));
    ring_lost(r, &ev);
    ring_lost(r, &all);
    ev.kind = EV_NET;
    ring_lost(r, &ev); /* no loss */
    assert_ok(ring_put(r, &behind));
    assert_int_equal(ring_drain(r, 10, &sink), 2);
    assert_int_equal(s->n, 8); /* each behind its time */
    assert_int_equal(s->all[3].what, SAID_LOST);
    assert_int_equal(s->all[3].mono_ns, 15);
    assert_int_equal(s->all[3].cpu, 2);
    assert_int_equal(s->all[3].lost.events, 4);
    assert_int_equal(s->all[5].what, SAID_LOST);
    assert_int_equal(s->all[5].mono_ns, 16);
    assert_true(s->all[5].lost.all_cpus);
    assert_int_equal(s->all[5].lost.buffers, 1);
    ring_stats(r, &stats);
    assert_int_equal(dropped_of(&stats), 0);
    assert_int_equal(stats.gaps, 1);
    mem_free(s);
    ring_destroy(r);
}

static void early_records_have_no_time_of_their_own(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    struct raw_event raw = record(class_process, 3, 1000000, 8);
    int64_t ns = 0;

    raw.early = true;
    assert_ok(ring_put(r, &raw));
    assert_int_equal(ring_drain(r, 10, &sink), 1);
    assert_int_equal(s->n, 1); /* no advance */
    (void)fill(r, class_process, 1, &ns);
    assert_err(ring_put(r, &raw), ERR_FULL); /* counted, but nothing of the stream is missing */
    ring_close(r);
    s->n = 0;
    (void)ring_drain(r, 10000, &sink);
    assert_int_equal(s->all[s->n - 1].what, SAID_LOST);
    assert_int_equal(s->all[s->n - 1].lost.events, 1);
    expect_balance(r, 0);
    mem_free(s);
    ring_destroy(r);
}

static void time_alone_advances_and_carries_loss(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    struct event ev = {.kind = EV_LOST, .mono_ns = 15, .u.lost = {.events = 4}};

    ring_lost(r, &ev);
    ring_advance(r, 0, 1000);     /* not worth an entry */
    ring_advance(r, 0, 20000000); /* 20 ms */
    ring_advance(r, 0, 10000000); /* goes back */
    ring_advance(r, 0, 60000000);
    assert_int_equal(ring_drain(r, 10, &sink), 0);
    assert_int_equal(s->n, 4);
    assert_int_equal(s->all[1].what, SAID_LOST);
    assert_int_equal(s->all[2].mono_ns, 20000000);
    assert_int_equal(s->all[3].mono_ns, 60000000);
    mem_free(s);
    ring_destroy(r);
}

static void what_is_too_long_or_too_late_is_refused(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    struct raw_event raw = record(class_process, 1, 1, RING_BYTES_MIN / 8 + 1);
    struct ring_stats stats;

    assert_err(ring_put(r, &raw), ERR_INVALID);
    raw.payload_n = SIZE_MAX;
    assert_err(ring_put(r, &raw), ERR_INVALID);
    raw.payload_n = 8;
    raw.ext = zeros;
    raw.ext_n = SIZE_MAX;
    assert_err(ring_put(r, &raw), ERR_INVALID);
    raw.ext_n = 0;
    raw.payload_n = RING_BYTES_MIN / 8;
    for (int i = 0; i < 100; i++) { /* the longest fits at every place of an empty ring */
        assert_ok(ring_put(r, &raw));
        assert_int_equal(ring_drain(r, 10, &sink), 1);
    }
    assert_int_equal(s->all[1].what, SAID_LOST);
    assert_int_equal(s->all[1].lost.events, 3);
    ring_close(r);
    assert_err(ring_put(r, &raw), ERR_CLOSED);
    ring_stats(r, &stats);
    assert_int_equal(stats.refused, 4);
    expect_balance(r, 0);
    mem_free(s);
    ring_destroy(r);
}

static void waiting_ends_with_news_time_or_the_end(void **state)
{
    struct ring *r = make(RING_BYTES_MIN);
    struct seen *s = mem_zalloc(sizeof *s);
    struct source_sink sink = sink_of(s);
    struct raw_event raw = record(class_disk_io, 10, 1, 24);
    int64_t ns = 0;

    assert_err(ring_wait(r, 1, os_mono_ns()), ERR_TIMEOUT);
    assert_ok(ring_put(r, &raw));
    assert_ok(ring_wait(r, 1, os_mono_ns()));
    assert_err(ring_wait(r, SIZE_MAX, os_mono_ns()), ERR_TIMEOUT); /* a quarter at most */
    (void)fill(r, class_disk_io, 10, &ns);
    assert_ok(ring_wait(r, SIZE_MAX, os_mono_ns()));
    ring_close(r);
    assert_ok(ring_wait(r, 1, os_mono_ns()));
    (void)ring_drain(r, 10000, &sink);
    assert_err(ring_wait(r, 1, os_mono_ns()), ERR_END);
    mem_free(s);
    ring_destroy(r);
}

static void sizes_have_limits(void **state)
{
    static const struct {
        size_t bytes, got;
    } rows[] = {{0, 0},
                {RING_BYTES_MIN - 1, 0},
                {RING_BYTES_MIN, RING_BYTES_MIN},
                {RING_BYTES_MIN + 1, 2 * RING_BYTES_MIN},
                {RING_BYTES, RING_BYTES},
                {RING_BYTES_MAX + 1, 0}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ring_conf conf = {.bytes = rows[i].bytes};
        struct ring *r;
        enum err e = ring_create(&r, &conf);

        assert_err(e, rows[i].got ? ERR_OK : ERR_RANGE);
        if (!e) {
            assert_int_equal(ring_bytes(r), rows[i].got);
            ring_destroy(r);
        }
    }
    ring_destroy(NULL);
}

static void every_failing_allocation_is_survived(void **state)
{
    struct ring_conf conf = {.bytes = RING_BYTES_MIN};
    long before = mem_live();
    struct ring *r;
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        assert_true(n < 100);
        mem_fail_after(n);
        e = ring_create(&r, &conf);
        mem_fail_after(-1);
        if (e) {
            assert_err(e, ERR_NOMEM);
            assert_int_equal(mem_live(), before);
        }
    }
    ring_destroy(r);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_out_as_it_went_in),
        cmocka_unit_test(records_keep_their_order_around_the_end),
        cmocka_unit_test(a_drain_ends_at_its_limit),
        cmocka_unit_test(lifecycle_is_shed_last),
        cmocka_unit_test(each_record_has_its_kind),
        cmocka_unit_test(loss_is_told_before_the_next_record),
        cmocka_unit_test(loss_on_many_cpus_is_loss_on_all),
        cmocka_unit_test(loss_the_platform_tells_keeps_its_place),
        cmocka_unit_test(early_records_have_no_time_of_their_own),
        cmocka_unit_test(time_alone_advances_and_carries_loss),
        cmocka_unit_test(what_is_too_long_or_too_late_is_refused),
        cmocka_unit_test(waiting_ends_with_news_time_or_the_end),
        cmocka_unit_test(sizes_have_limits),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
