#include "tests/agent/decode/payload.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/event_switch.h"

#define IDS      "ProcessId TThreadId"
#define STACKS   " StackBase StackLimit UserStackBase UserStackLimit"
#define SINCE_2  IDS STACKS " StartAddr Win32StartAddr TebBase SubProcessTag"
#define SINCE_3  IDS STACKS " Affinity Win32StartAddr TebBase SubProcessTag" PRIORITY
#define PRIORITY " BasePriority PagePriority IoPriority ThreadFlags ThreadName"
#define BEGIN_1  IDS STACKS " StartAddr Win32StartAddr WaitMode"
#define TIDS     "NewThreadId OldThreadId NewThreadPriority OldThreadPriority"
#define OLD                                  \
    " OldThreadWaitReason OldThreadWaitMode" \
    " OldThreadState OldThreadWaitIdealProcessor"
#define OLD_4     " OldThreadWaitReason ThreadFlags OldThreadState OldThreadWaitIdealProcessor"
#define SPARE     " PreviousCState SpareByte"
#define NEW       " NewThreadWaitTime Reserved"
#define CHANGE    "ThreadId OldPriority NewPriority Reserved"
#define SWITCH    "441111111144"
#define THREAD_V3 "44PPPPPPP41111o"

static const struct payload_row rows[] = {
    {1, 0, "44", "TThreadId ProcessId", "Start", EV_THREAD_START},
    {4, 0, "44", "TThreadId ProcessId", "DCEnd", EV_THREAD_LAST},
    {1, 1, "44PPPPPP1", BEGIN_1, "Start", EV_THREAD_START},
    {2, 1, "44", IDS, "End", EV_THREAD_STOP},
    {3, 1, "44PPPPPP1", BEGIN_1, "DCStart", EV_THREAD_FOUND},
    {4, 1, "44PPPPPP1", BEGIN_1, "DCEnd", EV_THREAD_LAST},
    {1, 2, "44PPPPPPP4", SINCE_2, "Start", EV_THREAD_START},
    {2, 2, "44PPPPPPP4", SINCE_2, "End", EV_THREAD_STOP},
    {3, 2, "44PPPPPPP4", SINCE_2, "DCStart", EV_THREAD_FOUND},
    {4, 2, "44PPPPPPP4", SINCE_2, "DCEnd", EV_THREAD_LAST},
    {1, 3, THREAD_V3, SINCE_3, "Start", EV_THREAD_START},
    {2, 3, THREAD_V3, SINCE_3, "End", EV_THREAD_STOP},
    {3, 4, THREAD_V3, SINCE_3, "DCStart", EV_THREAD_FOUND},
    {4, 4, THREAD_V3, SINCE_3, "DCEnd", EV_THREAD_LAST},
    {36, 1, "4411111111", TIDS " NewThreadQuantum OldThreadQuantum" OLD, "CSwitch", EV_CSWITCH},
    {36, 2, SWITCH, TIDS SPARE OLD NEW, "CSwitch", EV_CSWITCH},
    {36, 3, SWITCH, TIDS SPARE OLD NEW, "CSwitch", EV_CSWITCH},
    {36, 4, SWITCH, TIDS SPARE OLD_4 NEW, "CSwitch", EV_CSWITCH},
    {36, 5, SWITCH, TIDS SPARE OLD_4 NEW, "CSwitch", EV_CSWITCH},
    {48, 3, "4112", CHANGE, "SetPriority", EV_KIND_COUNT},
    {49, 3, "4112", CHANGE, "SetBasePriority", EV_KIND_COUNT},
    {50, 2, "41111", "TThreadId AdjustReason AdjustIncrement Flag Reserved", "ReadyThread",
     EV_READY},
    {51, 3, "4112", CHANGE, "SetPagePriority", EV_KIND_COUNT},
    {52, 3, "4112", CHANGE, "SetIoPriority", EV_KIND_COUNT},
    {53, 2, "P422", "Affinity ThreadId Group Reserved", "ThreadAffinity", EV_KIND_COUNT},
    {57, 2, "48P", "TThreadId StartTime ThreadRoutine", "WorkerThread", EV_KIND_COUNT},
    {60, 2, "4211", "ThreadId ProcessorIndex Priority Reserved", "AntiStarvationBoost",
     EV_KIND_COUNT},
    {62, 2, "P4", "Entry ThreadId", "KernelQueueEnqueue", EV_KIND_COUNT},
    {64, 2, "P", "CallbackRoutine", "WorkerThreadStart", EV_KIND_COUNT},
    {65, 2, "P", "CallbackRoutine", "WorkerThreadEnd", EV_KIND_COUNT},
    {66, 2, "P41111", "Lock ThreadId NewCpuPriorityFloor OldCpuPriority IoPriorities BoostFlags",
     "AutoBoostSetFloor", EV_KIND_COUNT},
    {67, 2, "P422", "LockAddress ThreadId BoostBitmap Reserved", "AutoBoostClearFloor",
     EV_KIND_COUNT},
    {69, 2, "44", "OldTag NewTag", "SubProcessTagChanged", EV_KIND_COUNT},
    {72, 2, "44w", "ProcessId TThreadId ThreadName", "SetName", EV_THREAD_NAME},
};

static void check_switch(const struct ev_cswitch *c, const struct payload *p)
{
    assert_int_equal(c->new_tid, payload_number(p, "NewThreadId"));
    assert_int_equal(c->old_tid, payload_number(p, "OldThreadId"));
    assert_int_equal(c->new_priority, payload_number(p, "NewThreadPriority"));
    assert_int_equal(c->old_priority, payload_number(p, "OldThreadPriority"));
    assert_int_equal(c->old_wait_reason, payload_number(p, "OldThreadWaitReason"));
    assert_int_equal(c->old_state, payload_number(p, "OldThreadState"));
    assert_int_equal(
        c->old_wait_mode,
        payload_number(p, payload_has(p, "ThreadFlags") ? "ThreadFlags" : "OldThreadWaitMode"));
    assert_int_equal(c->new_wait_time, payload_has(p, "NewThreadWaitTime")
                                           ? payload_number(p, "NewThreadWaitTime")
                                           : 0);
}

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_thread *t = &ev->u.thread;
    const char *name = payload_has(p, "ThreadName") ? payload_text(p, "ThreadName") : "";

    if (ev->kind == EV_CSWITCH) {
        check_switch(&ev->u.cswitch, p);
        return;
    }
    if (ev->kind == EV_READY) {
        assert_int_equal(ev->u.ready.tid, payload_number(p, "TThreadId"));
        return;
    }
    assert_int_equal(t->pid, payload_number(p, "ProcessId"));
    assert_int_equal(t->tid, payload_number(p, "TThreadId"));
    assert_false(t->manifest);
    assert_int_equal(t->name.n, strlen(name));
    assert_memory_equal(t->name.p, name, t->name.n);
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_thread_class, rows, COUNT_OF(rows), check);
}

/* What is read by itself of a switch, or of a thread made ready, is what decode_event says. */
static void a_switch_by_itself_is_the_same_switch(void **state)
{
    static const uint8_t thread[16] = ETW_CLASS_THREAD, opcodes[2] = {36, 50};
    uint8_t payload[26];
    struct event whole;
    struct event_switch sw;
    struct decode *d;

    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)(0xf1 + 7 * i);
    }
    assert_ok(decode_create(&d));
    for (size_t i = 0; i < 2 * 7 * (sizeof payload + 1); i++) {
        size_t size = i / 14;
        struct raw_event raw = {.opcode = opcodes[i % 2],
                                .version = (uint8_t)(i / 2 % 7),
                                .pointer_size = 8,
                                .cpu = 3,
                                .pid = EVENT_NO_ID,
                                .tid = EVENT_NO_ID,
                                .payload = payload,
                                .payload_n = size};
        bool known;

        memcpy(raw.guid, thread, sizeof thread);
        known = decode_event(d, &raw, &whole) == ERR_OK;
        if (raw.opcode == 36) {
            assert_int_equal(event_switch_read(&sw, 3, payload, size, raw.version), known);
        } else {
            assert_int_equal(event_ready_read(&sw, 3, payload, size, raw.version), known);
        }
        if (known && raw.opcode == 36) {
            assert_int_equal(sw.cpu, 3);
            assert_int_equal(sw.new_tid, whole.u.cswitch.new_tid);
            assert_int_equal(sw.old_tid, whole.u.cswitch.old_tid);
            assert_int_equal(sw.old_state, whole.u.cswitch.old_state);
        } else if (known) {
            assert_int_equal(sw.cpu, 3 | EVENT_SWITCH_READY);
            assert_int_equal(sw.new_tid, whole.u.ready.tid);
        }
    }
    decode_destroy(d);
}

static void switches_a_source_has_read_count_as_decoded(void **state)
{
    struct decode_counts counts;
    struct decode *d;

    assert_ok(decode_create(&d));
    decode_switches(d, 7);
    decode_stats(d, &counts);
    assert_int_equal(counts.in, 7);
    assert_int_equal(counts.decoded, 7);
    decode_destroy(d);
}

static void switches_of_systems_before_xp_are_unknown(void **state)
{
    const struct decode_class *k = &decode_thread_class;

    assert_null(layout_find(k->layouts, k->n_layouts, 36, 0));
    assert_null(layout_find(k->layouts, k->n_layouts, 50, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(a_switch_by_itself_is_the_same_switch),
        cmocka_unit_test(switches_a_source_has_read_count_as_decoded),
        cmocka_unit_test(switches_of_systems_before_xp_are_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
