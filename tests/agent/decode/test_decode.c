#include "tests/support/t.h"

#include <string.h>

#include "agent/decode/decode.h"
#include "agent/source/etw_guid.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

static const uint8_t process[16] = ETW_CLASS_PROCESS;
static const uint8_t thread[16] = ETW_CLASS_THREAD;
static const uint8_t perf_info[16] = ETW_CLASS_PERF_INFO;

static struct decode *d;

static struct raw_event record(const uint8_t class[16], uint8_t opcode, uint8_t version,
                               unsigned pointer_size, const struct buf *payload)
{
    struct raw_event raw = {
        .form = RAW_CLASSIC,
        .opcode = opcode,
        .version = version,
        .pointer_size = (uint8_t)pointer_size,
        .cpu = 3,
        .pid = 444,
        .tid = 888,
        .wall_ns = 1767225600 * CLK_S,
        .mono_ns = 5 * CLK_S,
        .shift_ns = 7 * CLK_S,
        .payload = payload->p,
        .payload_n = payload->n,
    };

    memcpy(raw.guid, class, 16);
    return raw;
}

static void put_pointer(struct buf *b, unsigned size, uint64_t v)
{
    if (size == 8) {
        buf_put_u64le(b, v);
    } else {
        buf_put_u32le(b, (uint32_t)v);
    }
}

static void put_wide(struct buf *b, const char *ascii)
{
    do {
        buf_put_u16le(b, (uint8_t)*ascii);
    } while (*ascii++);
}

enum sid_form { SID_NONE, SID_TOKEN, SID_NULL_TOKEN };

static void put_sid(struct buf *b, unsigned size, enum sid_form form)
{
    if (form == SID_NONE) {
        buf_put_u32le(b, 0);
        return;
    }
    put_pointer(b, size, form == SID_TOKEN ? 0xffffc00016868 : 0);
    put_pointer(b, size, 0);
    buf_put(b, "\1\1\0\0\0\0\0\5\x12\0\0\0", 12);
}

static void put_process(struct buf *b, unsigned version, unsigned size, enum sid_form sid)
{
    if (version == 0) {
        put_pointer(b, size, 3676);
        put_pointer(b, size, 3508);
    } else {
        put_pointer(b, size, 0xcfb380);
        buf_put_u32le(b, 3676);
        buf_put_u32le(b, 3508);
        buf_put_u32le(b, 1);
        buf_put_u32le(b, 0xc0000005);
    }
    if (version >= 3) {
        put_pointer(b, size, 0x558fb000);
    }
    if (version >= 4) {
        buf_put_u32le(b, 2);
    }
    put_sid(b, size, sid);
    buf_put(b, "Test.exe", 9);
    if (version >= 2) {
        put_wide(b, "Test.exe -v");
    }
    if (version >= 4) {
        put_wide(b, "");
        put_wide(b, "App");
    }
    if (version >= 5) {
        buf_put_u64le(b, clk_to_filetime(1767225000 * CLK_S));
    }
}

static void assert_str(struct str s, const char *expected)
{
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

/* Every prefix of the payload fails, the whole succeeds, and so does more than the whole. */
static void assert_exact(const struct raw_event *whole, struct event *ev)
{
    struct raw_event raw = *whole;
    uint8_t *exact;

    for (size_t n = 0; n < whole->payload_n; n++) {
        exact = mem_dup(whole->payload, n); /* so that a read beyond it is seen */
        raw.payload = exact;
        raw.payload_n = n;
        assert_err(decode_event(d, &raw, ev), ERR_CORRUPT);
        mem_free(exact);
    }
    assert_ok(decode_event(d, whole, ev));
}

static void check_process(unsigned version, unsigned size, enum sid_form sid)
{
    struct buf b;
    struct event ev;
    struct raw_event raw;
    const struct proc_info *info = &ev.u.proc.info;

    buf_init(&b, 4096);
    put_process(&b, version, size, sid);
    raw = record(process, 2, (uint8_t)version, size, &b);
    assert_exact(&raw, &ev);
    assert_int_equal(ev.kind, EV_PROC_STOP);
    assert_int_equal(info->id.pid, 3676);
    assert_int_equal(info->id.start, 0);
    assert_int_equal(info->parent_pid, 3508);
    assert_int_equal(ev.u.proc.key, version ? 0xcfb380 : 0);
    assert_int_equal((info->have & INFO_EXIT_CODE) != 0, version > 0);
    assert_int_equal(info->exit_code, version ? 0xc0000005 : 0);
    assert_int_equal((info->have & INFO_SESSION) != 0, version > 0);
    assert_int_equal(info->exit_ns, raw.wall_ns);
    assert_str(info->name, "Test.exe");
    assert_str(info->user, sid == SID_NONE ? "" : "S-1-5-18");
    assert_str(info->command_line, version >= 2 ? "Test.exe -v" : "");
    assert_int_equal((info->have & INFO_COMMAND_LINE_KNOWN) != 0, version >= 2);
    buf_put(&b, "later versions append", 21);
    raw.payload = b.p;
    raw.payload_n = b.n;
    assert_ok(decode_event(d, &raw, &ev));
    buf_fini(&b);
}

static void every_process_layout_is_decoded_and_no_shorter_one(void **state)
{
    for (unsigned version = 0; version <= 5; version++) {
        for (unsigned size = 4; size <= 8; size += 4) {
            check_process(version, size, SID_NONE);
            check_process(version, size, SID_TOKEN);
        }
    }
}

static void a_null_token_with_an_account_behind_it_is_believed(void **state)
{
    struct buf b;
    struct event ev;
    struct raw_event raw;

    for (unsigned size = 4; size <= 8; size += 4) {
        buf_init(&b, 4096);
        put_process(&b, 3, size, SID_NULL_TOKEN);
        raw = record(process, 1, 3, size, &b);
        assert_ok(decode_event(d, &raw, &ev));
        assert_str(ev.u.proc.info.user, "S-1-5-18");
        assert_str(ev.u.proc.info.name, "Test.exe");
        buf_fini(&b);
    }
}

static void the_kind_of_record_says_what_is_known(void **state)
{
    static const struct {
        uint8_t opcode;
        enum event_kind kind;
        uint8_t origin;
        uint32_t have, have_not;
    } rows[] = {
        {1, EV_PROC_START, ORIGIN_START, INFO_CREATE_TIME, INFO_EXITED | INFO_EXIT_CODE},
        {2, EV_PROC_STOP, ORIGIN_UNKNOWN, INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE,
         INFO_CREATE_TIME},
        {3, EV_PROC_FOUND, ORIGIN_RUNDOWN, 0, INFO_CREATE_TIME | INFO_EXITED | INFO_EXIT_CODE},
        {4, EV_PROC_LAST, ORIGIN_RUNDOWN, 0, INFO_CREATE_TIME | INFO_EXITED | INFO_EXIT_CODE},
        {39, EV_PROC_DEFUNCT, ORIGIN_RUNDOWN, INFO_EXITED | INFO_EXIT_TIME,
         INFO_CREATE_TIME | INFO_EXIT_CODE},
    };
    struct buf b;

    buf_init(&b, 4096);
    put_process(&b, 5, 8, SID_TOKEN);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_event raw = record(process, rows[i].opcode, 5, 8, &b);
        struct event ev;

        raw.early = true;
        assert_ok(decode_event(d, &raw, &ev));
        assert_int_equal(ev.kind, rows[i].kind);
        assert_true(ev.early);
        assert_int_equal(ev.cpu, 3);
        assert_int_equal(ev.pid, 444);
        assert_int_equal(ev.tid, 888);
        assert_int_equal(ev.wall_ns, raw.wall_ns);
        assert_int_equal(ev.mono_ns, raw.mono_ns);
        assert_int_equal(ev.u.proc.info.origin, rows[i].origin);
        assert_int_equal(ev.u.proc.info.have & rows[i].have, rows[i].have);
        assert_int_equal(ev.u.proc.info.have & rows[i].have_not, 0);
        assert_int_equal(ev.u.proc.info.id.start,
                         rows[i].kind == EV_PROC_START ? clk_to_filetime(raw.wall_ns) : 0);
        if (rows[i].kind == EV_PROC_DEFUNCT) { /* a time in the payload moves with the rest */
            assert_int_equal(ev.u.proc.info.exit_ns, 1767225007 * CLK_S);
        }
    }
    buf_fini(&b);
}

static void a_session_of_all_ones_is_none(void **state)
{
    struct buf b;
    struct event ev;
    struct raw_event raw;

    buf_init(&b, 4096);
    put_process(&b, 4, 8, SID_TOKEN);
    memset(b.p + 16, 0xff, 4);
    raw = record(process, 3, 4, 8, &b);
    assert_ok(decode_event(d, &raw, &ev));
    assert_int_equal(ev.u.proc.info.have & INFO_SESSION, 0);
    buf_fini(&b);
}

static void a_long_command_line_is_cut_and_says_so(void **state)
{
    struct buf b;
    struct event ev;
    struct raw_event raw;
    const struct proc_info *info = &ev.u.proc.info;

    buf_init(&b, 1 << 20);
    put_pointer(&b, 8, 0);
    buf_put(&b, "\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x", 22);
    for (int i = 0; i < MODEL_COMMAND_LINE_MAX + 1; i++) {
        buf_put_u16le(&b, 'y');
    }
    buf_put_u16le(&b, 0);
    raw = record(process, 1, 2, 8, &b);
    assert_ok(decode_event(d, &raw, &ev));
    assert_str(info->name, "x");
    assert_int_equal(info->command_line.n, MODEL_COMMAND_LINE_MAX);
    assert_true(info->have & INFO_COMMAND_LINE_CUT);
    buf_fini(&b);
}

static void every_thread_layout_is_decoded_and_no_shorter_one(void **state)
{
    static const struct {
        uint8_t version, opcode;
        enum event_kind kind;
        size_t pointers, more;
    } rows[] = {
        {0, 1, EV_THREAD_START, 0, 0}, {1, 1, EV_THREAD_START, 6, 1}, {1, 2, EV_THREAD_STOP, 0, 0},
        {2, 3, EV_THREAD_FOUND, 7, 4}, {3, 4, EV_THREAD_LAST, 7, 8},  {3, 1, EV_THREAD_START, 7, 8},
    };
    struct event ev;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned size = 4; size <= 8; size += 4) {
            struct raw_event raw;
            struct buf b;

            buf_init(&b, 4096);
            buf_put_u32le(&b, rows[i].version ? 100 : 200);
            buf_put_u32le(&b, rows[i].version ? 200 : 100);
            memset(buf_grow(&b, rows[i].pointers * size + rows[i].more + 1), 0xee,
                   rows[i].pointers * size + rows[i].more);
            b.n -= 1;
            raw = record(thread, rows[i].opcode, rows[i].version, size, &b);
            assert_exact(&raw, &ev);
            assert_int_equal(ev.kind, rows[i].kind);
            assert_int_equal(ev.u.thread.pid, 100);
            assert_int_equal(ev.u.thread.tid, 200);
            assert_int_equal(ev.u.thread.name.n, 0);
            if (rows[i].version == 3) { /* the same version with a name behind it */
                put_wide(&b, ".NET GC");
                raw.payload = b.p;
                raw.payload_n = b.n;
                assert_ok(decode_event(d, &raw, &ev));
                assert_str(ev.u.thread.name, ".NET GC");
                raw.payload_n -= 2; /* without its end it is no name */
                assert_ok(decode_event(d, &raw, &ev));
                assert_int_equal(ev.u.thread.name.n, 0);
            }
            buf_fini(&b);
        }
    }
}

static void samples_tell_thread_and_interrupts(void **state)
{
    static const uint8_t flags[][2] = {
        {0, false}, {1, true}, {2, true}, {0x40, false}, {0x43, true}};
    struct event ev;

    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        for (unsigned size = 4; size <= 8; size += 4) {
            struct raw_event raw;
            struct buf b;

            buf_init(&b, 64);
            put_pointer(&b, size, 0xfff0);
            buf_put_u32le(&b, 3512);
            buf_put_u16le(&b, 1);
            buf_put_u8(&b, flags[i][0]);
            buf_put_u8(&b, 0);
            raw = record(perf_info, 46, 2, size, &b);
            assert_exact(&raw, &ev);
            assert_int_equal(ev.kind, EV_CPU_SAMPLE);
            assert_int_equal(ev.u.sample.ip, 0xfff0);
            assert_int_equal(ev.u.sample.tid, 3512);
            assert_int_equal(ev.u.sample.interrupt, flags[i][1]);
            buf_fini(&b);
        }
    }
}

static void only_the_timer_sets_the_sampling_interval(void **state)
{
    struct event ev;
    struct raw_event raw;
    struct decode_counts before, after;
    struct buf b;

    buf_init(&b, 64);
    buf_put_u32le(&b, 0);
    buf_put_u32le(&b, 10000);
    buf_put_u32le(&b, 5000);
    raw = record(perf_info, 73, 2, 8, &b);
    assert_exact(&raw, &ev);
    assert_int_equal(ev.kind, EV_CPU_SAMPLE_INTERVAL);
    assert_int_equal(ev.u.interval_ns, CLK_MS);
    b.p[0] = 19;
    decode_stats(d, &before);
    assert_err(decode_event(d, &raw, &ev), ERR_NOTFOUND);
    decode_stats(d, &after);
    assert_int_equal(after.ignored, before.ignored + 1);
    assert_int_equal(after.unknown, before.unknown);
    buf_fini(&b);
}

static void a_record_of_no_class_at_all_is_unknown(void **state)
{
    static const uint8_t zeros[16];
    struct buf b;
    struct raw_event raw;
    struct event ev;
    struct decode *mine;

    buf_init(&b, 64);
    assert_ok(decode_create(&mine));
    raw = record(zeros, 0, 0, 8, &b);
    for (uint8_t form = RAW_CLASSIC; form <= RAW_MESSAGE; form++) {
        raw.form = form;
        assert_err(decode_event(mine, &raw, &ev), ERR_NOTFOUND);
    }
    decode_destroy(mine);
    buf_fini(&b);
}

static void unknown_kinds_are_counted_by_kind_up_to_a_limit(void **state)
{
    static struct decode_unknown kinds[DECODE_UNKNOWN_MAX + 10];
    struct buf b;
    struct raw_event raw;
    struct event ev;
    struct decode_counts c;
    struct decode *mine;

    buf_init(&b, 64);
    assert_ok(decode_create(&mine));
    raw = record(thread, 99, 2, 8, &b);
    for (int i = 0; i < 5; i++) {
        assert_err(decode_event(mine, &raw, &ev), ERR_NOTFOUND);
    }
    raw.early = true; /* comes again */
    assert_err(decode_event(mine, &raw, &ev), ERR_NOTFOUND);
    assert_int_equal(decode_unknown_kinds(mine, kinds, COUNT_OF(kinds)), 1);
    assert_int_equal(kinds[0].count, 5);
    assert_int_equal(kinds[0].id, 99);
    assert_int_equal(kinds[0].version, 2);
    assert_memory_equal(kinds[0].guid, thread, 16);

    raw.early = false;
    raw.form = RAW_MANIFEST;
    for (uint16_t i = 0; i < 1000; i++) {
        raw.id = i;
        assert_err(decode_event(mine, &raw, &ev), ERR_NOTFOUND);
    }
    decode_stats(mine, &c);
    assert_int_equal(c.in, 1005);
    assert_int_equal(c.unknown, 1005);
    assert_int_equal(c.unknown_untold, 1005 - 5 - (DECODE_UNKNOWN_MAX - 1));
    assert_int_equal(decode_unknown_kinds(mine, kinds, COUNT_OF(kinds)), DECODE_UNKNOWN_MAX);
    decode_destroy(mine);
    buf_fini(&b);
}

static void versions_older_than_a_layout_are_unknown(void **state)
{
    struct buf b;
    struct raw_event raw;
    struct event ev;

    buf_init(&b, 64);
    memset(buf_grow(&b, 32), 0, 32);
    raw = record(perf_info, 46, 1, 8, &b);
    assert_err(decode_event(d, &raw, &ev), ERR_NOTFOUND);
    raw.version = 7;
    assert_ok(decode_event(d, &raw, &ev));
    buf_fini(&b);
}

static void running_out_of_memory_creates_nothing(void **state)
{
    struct decode *mine;

    mem_fail_after(0);
    assert_err(decode_create(&mine), ERR_NOMEM);
    mem_fail_after(-1);
    decode_destroy(NULL);
}

static int create(void **state)
{
    return decode_create(&d) ? -1 : 0;
}

static int destroy(void **state)
{
    decode_destroy(d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_layout_is_decoded_and_no_shorter_one),
        cmocka_unit_test(a_null_token_with_an_account_behind_it_is_believed),
        cmocka_unit_test(the_kind_of_record_says_what_is_known),
        cmocka_unit_test(a_session_of_all_ones_is_none),
        cmocka_unit_test(a_long_command_line_is_cut_and_says_so),
        cmocka_unit_test(every_thread_layout_is_decoded_and_no_shorter_one),
        cmocka_unit_test(samples_tell_thread_and_interrupts),
        cmocka_unit_test(only_the_timer_sets_the_sampling_interval),
        cmocka_unit_test(a_record_of_no_class_at_all_is_unknown),
        cmocka_unit_test(unknown_kinds_are_counted_by_kind_up_to_a_limit),
        cmocka_unit_test(versions_older_than_a_layout_are_unknown),
        cmocka_unit_test(running_out_of_memory_creates_nothing),
    };

    return cmocka_run_group_tests(tests, create, destroy);
}
