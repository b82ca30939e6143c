#include "tests/agent/decode/payload.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"

#define BASE     "ProcessID CreateTime ParentProcessID SessionID"
#define PROGRAM  "ImageName ImageChecksum TimeDateStamp PackageFullName PackageRelativeAppId"
#define SEQUENCE "ProcessID ProcessSequenceNumber CreateTime ParentProcessID"
#define TOKEN    "ProcessTokenElevationType ProcessTokenIsElevated MandatoryLabel"
#define V3       SEQUENCE " ParentProcessSequenceNumber SessionID Flags " TOKEN " " PROGRAM
#define TIMES                                                     \
    "CreateTime ExitTime ExitCode TokenElevationType HandleCount" \
    " CommitCharge CommitPeak"
#define IO                                   \
    "ReadOperationCount WriteOperationCount" \
    " ReadTransferKiloBytes WriteTransferKiloBytes"
#define TOTALS "CPUCycleCount " IO " HardFaultCount ImageName"
#define THREAD                                                                        \
    "ProcessID ThreadID StackBase StackLimit UserStackBase UserStackLimit StartAddr " \
    "Win32StartAddr TebBase"
#define IMAGE "ImageBase ImageSize ProcessID ImageCheckSum TimeDateStamp DefaultBase ImageName"

static const struct payload_row rows[] = {
    {1, 0, "4F44w", BASE " ImageName", "ProcessStart", EV_PROC_START},
    {1, 1, "4F444w", BASE " Flags ImageName", "ProcessStart", EV_PROC_START},
    {1, 2, "4F444w44ww", BASE " Flags " PROGRAM, "ProcessStart", EV_PROC_START},
    {1, 3, "48F484444sw44ww", V3, "ProcessStart", EV_PROC_START},
    {1, 4, "48F484444sw44ww4", V3 " Mitigations", "ProcessStart", EV_PROC_START},
    {1, 5, "48F484444sw44ww442", V3 " Mitigations PartitionID ProcessMachine", "ProcessStart",
     EV_PROC_START},
    {15, 0, "4F444w44ww", BASE " Flags " PROGRAM, "ProcessRundown", EV_PROC_FOUND},
    {15, 1, "48F484444sw44ww", V3, "ProcessRundown", EV_PROC_FOUND},
    {15, 2, "48F484444sw44ww4", V3 " Mitigations", "ProcessRundown", EV_PROC_FOUND},
    {15, 3, "48F484444sw44ww442", V3 " Mitigations PartitionID ProcessMachine", "ProcessRundown",
     EV_PROC_FOUND},
    {2, 0, "4FF44488a", "ProcessID " TIMES " ImageName", "ProcessStop", EV_PROC_STOP},
    {2, 1, "4FF44488844444a", "ProcessID " TIMES " " TOTALS, "ProcessStop", EV_PROC_STOP},
    {2, 2, "48FF44488844444a", "ProcessID ProcessSequenceNumber " TIMES " " TOTALS, "ProcessStop",
     EV_PROC_STOP},
    {3, 0, "44PPPPPPP", THREAD, "ThreadStart", EV_THREAD_START},
    {3, 1, "44PPPPPPP4", THREAD " SubProcessTag", "ThreadStart", EV_THREAD_START},
    {4, 0, "44PPPPPPP", THREAD, "ThreadStop", EV_THREAD_STOP},
    {4, 1, "44PPPPPPP48", THREAD " SubProcessTag CycleTime", "ThreadStop", EV_THREAD_STOP},
    {5, 0, "PP444Pw", IMAGE, "ImageLoad", EV_IMAGE_LOAD},
    {6, 0, "PP444Pw", IMAGE, "ImageUnload", EV_IMAGE_UNLOAD},
    {7, 0, "4411", "ProcessID ThreadID OldPriority NewPriority", "CpuBasePriorityChange",
     EV_KIND_COUNT},
    {10, 0, "4411", "ProcessID ThreadID OldPriority NewPriority", "IoPriorityChange",
     EV_KIND_COUNT},
    {11, 0, "4", "FrozenProcessID", "ProcessFreezeStart", EV_KIND_COUNT},
    {12, 1, "4F", "FrozenProcessID CreateTime", "ProcessFreezeStop", EV_KIND_COUNT},
    {13, 0, "G44", "ContainerID JobID StatusCode", "JobStart", EV_KIND_COUNT},
};

static void assert_text(struct str s, const char *text)
{
    assert_int_equal(s.n, strlen(text));
    assert_memory_equal(s.p, text, s.n);
}

static void assert_total(const struct ev_proc *proc, const struct payload *p, unsigned id,
                         const char *name, int64_t unit)
{
    if (!payload_has(p, name)) {
        assert_true(!(proc->totals_mask & METRIC_BIT(id)));
        return;
    }
    assert_true(proc->totals_mask & METRIC_BIT(id));
    assert_true(proc->totals[id] == (int64_t)payload_number(p, name) * unit);
}

static void check_stop(const struct ev_proc *proc, const struct payload *p)
{
    assert_true(proc->info.exit_ns == clk_from_filetime(payload_number(p, "ExitTime")));
    assert_int_equal(proc->info.exit_code, payload_number(p, "ExitCode"));
    assert_text(proc->info.name, payload_text(p, "ImageName"));
    assert_total(proc, p, M_HANDLE_COUNT, "HandleCount", 1);
    assert_total(proc, p, M_CPU_CYCLES, "CPUCycleCount", 1);
    assert_total(proc, p, M_READ_OPERATIONS, "ReadOperationCount", 1);
    assert_total(proc, p, M_WRITE_OPERATIONS, "WriteOperationCount", 1);
    assert_total(proc, p, M_READ_BYTES, "ReadTransferKiloBytes", 1024);
    assert_total(proc, p, M_WRITE_BYTES, "WriteTransferKiloBytes", 1024);
    assert_total(proc, p, M_HARD_FAULTS, "HardFaultCount", 1);
}

static void check_process(const struct event *ev, const struct payload *p)
{
    const struct ev_proc *proc = &ev->u.proc;

    assert_true(proc->manifest);
    assert_int_equal(proc->info.id.pid, payload_number(p, "ProcessID"));
    assert_true(proc->info.id.start == payload_number(p, "CreateTime"));
    assert_true(proc->info.have & INFO_CREATE_TIME);
    assert_true(
        proc->info.sequence ==
        (payload_has(p, "ProcessSequenceNumber") ? payload_number(p, "ProcessSequenceNumber") : 0));
    if (ev->kind == EV_PROC_STOP) {
        check_stop(proc, p);
        return;
    }
    assert_int_equal(proc->info.parent_pid, payload_number(p, "ParentProcessID"));
    assert_int_equal(proc->info.session_id, payload_number(p, "SessionID"));
    assert_text(proc->info.image, payload_text(p, "ImageName"));
    assert_text(proc->package,
                payload_has(p, "PackageFullName") ? payload_text(p, "PackageFullName") : "");
}

static void check(const struct event *ev, const struct payload *p)
{
    if (ev->kind <= EV_PROC_DEFUNCT) {
        check_process(ev, p);
    } else if (ev->kind <= EV_THREAD_LAST) {
        assert_true(ev->u.thread.manifest);
        assert_int_equal(ev->u.thread.pid, payload_number(p, "ProcessID"));
        assert_int_equal(ev->u.thread.tid, payload_number(p, "ThreadID"));
    } else {
        assert_true(ev->u.image.manifest);
        assert_true(ev->u.image.base == payload_number(p, "ImageBase"));
        assert_true(ev->u.image.size == payload_number(p, "ImageSize"));
        assert_int_equal(ev->u.image.pid, payload_number(p, "ProcessID"));
        assert_int_equal(ev->u.image.checksum, payload_number(p, "ImageCheckSum"));
        assert_int_equal(ev->u.image.time_stamp, payload_number(p, "TimeDateStamp"));
        assert_text(ev->u.image.path, payload_text(p, "ImageName"));
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_kernel_process_class, rows, COUNT_OF(rows), check);
}

static struct event start_of(struct decode *d, uint64_t created, const char *path, int64_t shift_ns)
{
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .guid = ETW_PROVIDER_KERNEL_PROCESS,
                            .id = 1,
                            .opcode = 1,
                            .pointer_size = 8,
                            .shift_ns = shift_ns};
    struct event ev;
    struct buf b;

    buf_init(&b, 4096);
    buf_put_u32le(&b, 4);
    buf_put_u64le(&b, created);
    buf_put_u32le(&b, 0);
    buf_put_u32le(&b, UINT32_MAX);
    do {
        buf_put_u16le(&b, (uint8_t)*path);
    } while (*path++);
    raw.payload = b.p;
    raw.payload_n = b.n;
    assert_ok(decode_event(d, &raw, &ev));
    buf_fini(&b);
    return ev;
}

static void starts_name_the_file_and_move_with_the_replay(void **state)
{
    const uint64_t created = 132000000000000000;
    struct decode *d;
    struct event ev;

    assert_ok(decode_create(&d));
    ev = start_of(d, created, "\\Device\\HarddiskVolume2\\Windows\\a.exe", 0);
    assert_text(ev.u.proc.info.name, "a.exe");
    assert_true(ev.u.proc.info.id.start == created);
    assert_false(ev.u.proc.info.have & INFO_SESSION);
    ev = start_of(d, created, "a.exe", 3 * CLK_S);
    assert_text(ev.u.proc.info.name, "a.exe");
    assert_true(ev.u.proc.info.id.start == created + 30000000);
    assert_true(ev.u.proc.info.create_ns == clk_from_filetime(created) + 3 * CLK_S);
    decode_destroy(d);
}

static void a_start_without_time_has_no_creation_time(void **state)
{
    static const uint64_t none[] = {0, 1, UINT64_MAX, INT64_MAX};
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        struct event ev = start_of(d, none[i], "System", CLK_S);

        assert_true(ev.u.proc.info.id.start == 0);
        assert_false(ev.u.proc.info.have & INFO_CREATE_TIME);
    }
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(starts_name_the_file_and_move_with_the_replay),
        cmocka_unit_test(a_start_without_time_has_no_creation_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
