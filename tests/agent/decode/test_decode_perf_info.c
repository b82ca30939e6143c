#include "tests/agent/decode/payload.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"

#define INTERVAL "Source NewInterval OldInterval"
#define ENDED    "InitialTime Routine"
#define ISR      ENDED " ReturnValue Vector Reserved"
#define TIMER    "DueTime MaximumDueTime Period Timer Callback CallbackContext TimerFlags"
#define DISABLED "Timer DisableCallback DisableContext"

static const struct payload_row rows[] = {
    {46, 2, "P422", "InstructionPointer ThreadId Count Reserved", "SampleProf", EV_CPU_SAMPLE},
    {47, 2, "P422", "InstructionPointer ThreadId ProfileSource Reserved", "PmcCounterProf",
     EV_CPU_PMC},
    {50, 2, "TP1214", ISR " MessageNumber", "ISR-MSI", EV_ISR},
    {51, 2, "P", "SysCallAddress", "SysClEnter", EV_SYSCALL_ENTER},
    {52, 2, "4", "SysCallNtStatus", "SysClExit", EV_SYSCALL_EXIT},
    {66, 2, "TP", ENDED, "ThreadedDPC", EV_DPC},
    {67, 2, "TP121", ISR, "ISR", EV_ISR},
    {68, 2, "TP", ENDED, "DPC", EV_DPC},
    {69, 2, "TP", ENDED, "TimerDPC", EV_DPC},
    {70, 2, "TP", ENDED, "IOTimer", EV_KIND_COUNT},
    {92, 2, "2", "Vector", "ISR-Unexpected", EV_KIND_COUNT},
    {93, 2, "PP", "DeviceObject TimerRoutine", "IoStartTimer", EV_KIND_COUNT},
    {94, 2, "PP", "DeviceObject TimerRoutine", "IoStopTimer", EV_KIND_COUNT},
    {95, 2, "TP121", ISR, "ISR-Passive", EV_KIND_COUNT},
    {96, 2, "P", "Routine", "WdfISR", EV_KIND_COUNT},
    {97, 2, "P", "Routine", "WdfPassiveISR", EV_KIND_COUNT},
    {98, 2, "P", "Routine", "WdfDPC", EV_KIND_COUNT},
    {103, 2, "P", "Routine", "WdfWorkItem", EV_KIND_COUNT},
    {104, 2, "888PPP1", TIMER, "SetKTimer2", EV_KIND_COUNT},
    {105, 2, "888PPP1", TIMER, "ExpireKTimer2", EV_KIND_COUNT},
    {106, 2, "P", "Timer", "CancelKTimer2", EV_KIND_COUNT},
    {107, 2, "PPP1", DISABLED " TimerFlags", "DisableKTimer2", EV_KIND_COUNT},
    {108, 2, "PPP", DISABLED, "FinalizeKTimer2", EV_KIND_COUNT},
    {114, 2, "411", "CallCode IsFast IsNested", "KernelHypercall", EV_KIND_COUNT},
};

static void check(const struct event *ev, const struct payload *p)
{
    switch (ev->kind) {
    case EV_CPU_SAMPLE:
        assert_true(ev->u.sample.ip == payload_number(p, "InstructionPointer"));
        assert_int_equal(ev->u.sample.tid, payload_number(p, "ThreadId"));
        assert_int_equal(ev->u.sample.interrupt, (payload_number(p, "Reserved") & 3) != 0);
        break;
    case EV_CPU_PMC:
        assert_true(ev->u.pmc.ip == payload_number(p, "InstructionPointer"));
        assert_int_equal(ev->u.pmc.tid, payload_number(p, "ThreadId"));
        assert_int_equal(ev->u.pmc.source, payload_number(p, "ProfileSource"));
        break;
    case EV_SYSCALL_ENTER:
        assert_true(ev->u.syscall.address == payload_number(p, "SysCallAddress"));
        break;
    case EV_SYSCALL_EXIT:
        assert_int_equal(ev->u.syscall.status, payload_number(p, "SysCallNtStatus"));
        break;
    default:
        assert_true(ev->u.interrupt.routine == payload_number(p, "Routine"));
        assert_true(ev->u.interrupt.took_ns ==
                    (int64_t)(PAYLOAD_TICKS - payload_number(p, "InitialTime")));
        break;
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_perf_info_class, rows, COUNT_OF(rows), check);
}

/* 12 bytes, and a name in version 3; what the first two numbers mean test_decode tells. */
static void intervals_have_their_sources_name_since_version_3(void **state)
{
    static const uint8_t opcodes[] = {72, 73, 74};

    for (size_t i = 0; i < COUNT_OF(opcodes); i++) {
        const struct layout *l = layout_find(decode_perf_info_class.layouts,
                                             decode_perf_info_class.n_layouts, opcodes[i], 3);

        assert_non_null(l);
        assert_string_equal(l->fields[3].name, "SourceName");
        assert_int_equal(l->fields[3].first, 3);
    }
}

static void an_interval_is_at_most_a_second(void **state)
{
    static const struct {
        uint8_t units[4]; /* of 100 ns */
        enum err e;
        int64_t ns;
    } cases[] = {
        {{0, 0, 0, 0}, ERR_CORRUPT, 0},          {{1, 0, 0, 0}, ERR_OK, 100},
        {{0x10, 0x27, 0, 0}, ERR_OK, CLK_MS},    {{0x80, 0x96, 0x98, 0}, ERR_OK, CLK_S},
        {{0x81, 0x96, 0x98, 0}, ERR_CORRUPT, 0}, {{0xff, 0xff, 0xff, 0xff}, ERR_CORRUPT, 0},
    };
    struct decode *d;
    struct event ev;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t payload[12] = {0};
        struct raw_event raw = {.form = RAW_CLASSIC,
                                .guid = ETW_CLASS_PERF_INFO,
                                .opcode = 73,
                                .version = 2,
                                .pointer_size = 8,
                                .payload = payload,
                                .payload_n = sizeof payload};

        memcpy(payload + 4, cases[i].units, 4);
        assert_err(decode_event(d, &raw, &ev), cases[i].e);
        if (cases[i].e == ERR_OK) {
            assert_int_equal(ev.u.interval_ns, cases[i].ns);
        }
    }
    decode_destroy(d);
}

static int64_t took(struct decode *d, uint64_t begin, int64_t end, uint64_t frequency)
{
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .guid = ETW_CLASS_PERF_INFO,
                            .opcode = 68,
                            .version = 2,
                            .pointer_size = 8,
                            .ticks = end,
                            .frequency = frequency};
    struct event ev;
    struct buf b;

    buf_init(&b, 64);
    buf_put_u64le(&b, begin);
    buf_put_u64le(&b, 0xfffff80000000000);
    raw.payload = b.p;
    raw.payload_n = b.n;
    assert_ok(decode_event(d, &raw, &ev));
    buf_fini(&b);
    return ev.u.interrupt.took_ns;
}

static void nonsense_takes_no_time(void **state)
{
    struct decode *d;

    assert_ok(decode_create(&d));
    assert_int_equal(took(d, 1000, 1250, 10000000), 25000);
    assert_int_equal(took(d, 1000, 1003, 2338525), 1282);
    assert_int_equal(took(d, 1000, 999, 10000000), 0);          /* began after its end */
    assert_int_equal(took(d, 0, 1000, 10000000), 0);            /* no begin */
    assert_int_equal(took(d, UINT64_MAX, 1000, 10000000), 0);   /* no stamp */
    assert_int_equal(took(d, 1000, 1250, 0), 0);                /* no clock */
    assert_int_equal(took(d, 1, 70LL * 10000000, 10000000), 0); /* more than a minute */
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(intervals_have_their_sources_name_since_version_3),
        cmocka_unit_test(an_interval_is_at_most_a_second),
        cmocka_unit_test(nonsense_takes_no_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
