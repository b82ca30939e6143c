#include "tests/agent/decode/payload.h"

#include "common/base/clk.h"

#define SOFT   "PP", "VirtualAddress ProgramCounter"
#define REGION "PP44", "BaseAddress RegionSize ProcessId Flags"
#define FOUND  "PP44P", "BaseAddress RegionSize ProcessId Flags CommitSizeInBytes"
#define HARD   "T8PP44", "InitialTime ReadOffset VirtualAddress FileObject TThreadId ByteCount"

static const struct payload_row rows[] = {
    {10, 2, SOFT, "TransitionFault", EV_SOFT_FAULT},
    {11, 2, SOFT, "DemandZeroFault", EV_SOFT_FAULT},
    {12, 2, SOFT, "CopyOnWrite", EV_SOFT_FAULT},
    {13, 1, SOFT, "GuardPageFault", EV_SOFT_FAULT},
    {14, 0, SOFT, "HardPageFault", EV_SOFT_FAULT},
    {15, 2, SOFT, "AccessViolation", EV_SOFT_FAULT},
    {32, 0, HARD, "HardFault", EV_HARD_FAULT},
    {32, 1, HARD, "HardFault", EV_HARD_FAULT},
    {32, 2, HARD, "HardFault", EV_HARD_FAULT},
    {98, 2, REGION, "VirtualAlloc", EV_VIRTUAL_ALLOC},
    {99, 2, REGION, "VirtualFree", EV_VIRTUAL_FREE},
    {128, 3, FOUND, "VirtualAllocDCStart", EV_KIND_COUNT},
    {129, 3, FOUND, "VirtualAllocDCEnd", EV_KIND_COUNT},
    {101, 2, "PP4", "HeapHandle FirstRangeSize HRCreateFlags", "HRCreate", EV_KIND_COUNT},
    {102, 2, "PPP", "HeapHandle HRAddress HRSize", "HRReserve", EV_KIND_COUNT},
    {103, 2, "PPP", "HeapHandle HRAddress HRSize", "HRRelease", EV_KIND_COUNT},
    {104, 2, "P", "HeapHandle", "HRDestroy", EV_KIND_COUNT},
    {105, 2, "P422", "FileObject DeviceChar FileChar LoadFlags", "ImageLoadBacked", EV_KIND_COUNT},
};

static void check(const struct event *ev, const struct payload *p)
{
    if (ev->kind == EV_SOFT_FAULT) {
        assert_true(ev->u.soft_fault.address == payload_number(p, "VirtualAddress"));
        assert_true(ev->u.soft_fault.ip == payload_number(p, "ProgramCounter"));
    } else if (ev->kind == EV_HARD_FAULT) {
        assert_true(ev->u.hard_fault.took_ns ==
                    PAYLOAD_TICKS - (int64_t)payload_number(p, "InitialTime"));
        assert_true(ev->u.hard_fault.offset == payload_number(p, "ReadOffset"));
        assert_true(ev->u.hard_fault.address == payload_number(p, "VirtualAddress"));
        assert_true(ev->u.hard_fault.file == payload_number(p, "FileObject"));
        assert_int_equal(ev->u.hard_fault.tid, payload_number(p, "TThreadId"));
        assert_int_equal(ev->u.hard_fault.bytes, payload_number(p, "ByteCount"));
    } else {
        assert_true(ev->u.vm.base == payload_number(p, "BaseAddress"));
        assert_true(ev->u.vm.size == payload_number(p, "RegionSize"));
        assert_int_equal(ev->u.vm.pid, payload_number(p, "ProcessId"));
        assert_int_equal(ev->u.vm.flags, payload_number(p, "Flags"));
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_page_fault_class, rows, COUNT_OF(rows), check);
}

static struct event decode_one(struct decode *d, uint8_t opcode, const uint8_t *p, size_t n,
                               int64_t ticks)
{
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .version = 2,
                            .opcode = opcode,
                            .pointer_size = 4,
                            .ticks = ticks,
                            .frequency = 1000,
                            .payload = p,
                            .payload_n = n};
    struct event ev;

    memcpy(raw.guid, decode_page_fault_class.guid, sizeof raw.guid);
    assert_ok(decode_event(d, &raw, &ev));
    return ev;
}

static void soft_faults_keep_their_kinds(void **state)
{
    static const uint8_t payload[8];
    struct decode *d;

    assert_ok(decode_create(&d));
    for (uint8_t i = 0; i < FAULT_COUNT; i++) {
        struct event ev = decode_one(d, (uint8_t)(10 + i), payload, sizeof payload, 0);

        assert_int_equal(ev.u.soft_fault.what, i);
    }
    decode_destroy(d);
}

static void a_hard_fault_that_began_never_or_later_took_no_time(void **state)
{
    uint8_t payload[32] = {0};
    struct decode *d;

    assert_ok(decode_create(&d));
    assert_int_equal(decode_one(d, 32, payload, sizeof payload, 500).u.hard_fault.took_ns, 0);
    payload[0] = 250;
    assert_int_equal(decode_one(d, 32, payload, sizeof payload, 500).u.hard_fault.took_ns,
                     250 * CLK_MS);
    assert_int_equal(decode_one(d, 32, payload, sizeof payload, 249).u.hard_fault.took_ns, 0);
    assert_int_equal(decode_one(d, 32, payload, sizeof payload, -1).u.hard_fault.took_ns, 0);
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(soft_faults_keep_their_kinds),
        cmocka_unit_test(a_hard_fault_that_began_never_or_later_took_no_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
