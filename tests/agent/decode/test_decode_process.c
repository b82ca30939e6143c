#include "tests/agent/decode/payload.h"

#include <string.h>

#define IDS   "ProcessId ParentId SessionId ExitStatus"
#define TEXTS " UserSID ImageFileName CommandLine"
#define V1    "PageDirectoryBase " IDS " UserSID ImageFileName"
#define V2    "UniqueProcessKey " IDS TEXTS
#define V3    "UniqueProcessKey " IDS " DirectoryTableBase" TEXTS
#define V4 \
    "UniqueProcessKey " IDS " DirectoryTableBase Flags" TEXTS " PackageFullName ApplicationId"
#define SIZES                                                                                  \
    "PeakVirtualSize PeakWorkingSetSize PeakPagefileUsage QuotaPeakPagedPoolUsage "            \
    "QuotaPeakNonPagedPoolUsage VirtualSize WorkingSetSize PagefileUsage QuotaPagedPoolUsage " \
    "QuotaNonPagedPoolUsage PrivatePageCount"
#define COUNTERS "ProcessId PageFaultCount HandleCount Reserved " SIZES

static const struct payload_row rows[] = {
    {1, 0, "PPua", "ProcessId ParentId UserSID ImageFileName", "Start", EV_PROC_START},
    {2, 1, "P4444ua", V1, "End", EV_PROC_STOP},
    {3, 2, "P4444uaw", V2, "DCStart", EV_PROC_FOUND},
    {4, 3, "P4444Puaw", V3, "DCEnd", EV_PROC_LAST},
    {1, 4, "P4444P4uawww", V4, "Start", EV_PROC_START},
    {2, 4, "P4444P4uawww", V4, "End", EV_PROC_STOP},
    {39, 5, "P4444P4uawwwF", V4 " ExitTime", "Defunct", EV_PROC_DEFUNCT},
    {11, 2, "4", "ProcessId", "Terminate", EV_KIND_COUNT},
    {32, 2, "4444PPPPPPPPPPP", COUNTERS, "PerfCtr", EV_PROC_COUNTERS},
    {33, 2, "4444PPPPPPPPPPP", COUNTERS, "PerfCtrRundown", EV_PROC_COUNTERS},
};

static void assert_text(struct str s, const struct payload *p, const char *name)
{
    const char *text = payload_has(p, name) ? payload_text(p, name) : "";

    assert_int_equal(s.n, strlen(text));
    assert_memory_equal(s.p, text, s.n);
}

static void check_counters(const struct ev_proc_counters *c, const struct payload *p)
{
    static const struct {
        unsigned metric;
        const char *field;
    } columns[] = {
        {M_PAGE_FAULTS, "PageFaultCount"},
        {M_HANDLE_COUNT, "HandleCount"},
        {M_PEAK_WORKING_SET, "PeakWorkingSetSize"},
        {M_VIRTUAL_BYTES, "VirtualSize"},
        {M_WORKING_SET_SIZE, "WorkingSetSize"},
        {M_PAGED_POOL, "QuotaPagedPoolUsage"},
        {M_NON_PAGED_POOL, "QuotaNonPagedPoolUsage"},
        {M_PRIVATE_BYTES, "PrivatePageCount"},
    };
    metric_mask all = 0;

    assert_int_equal(c->pid, (uint32_t)payload_number(p, "ProcessId"));
    for (size_t i = 0; i < COUNT_OF(columns); i++) {
        all |= METRIC_BIT(columns[i].metric);
        if (c->mask & METRIC_BIT(columns[i].metric)) {
            assert_int_equal(c->values[columns[i].metric], payload_number(p, columns[i].field));
        }
    }
    assert_true(c->mask == all || c->mask == METRIC_BIT(M_PEAK_WORKING_SET)); /* at an end */
}

static void check(const struct event *ev, const struct payload *p)
{
    const struct proc_info *info = &ev->u.proc.info;

    if (ev->kind == EV_PROC_COUNTERS) {
        check_counters(&ev->u.counters, p);
        return;
    }
    assert_false(ev->u.proc.manifest);
    assert_int_equal(info->id.pid, (uint32_t)payload_number(p, "ProcessId"));
    assert_int_equal(info->parent_pid, (uint32_t)payload_number(p, "ParentId"));
    assert_text(info->user, p, "UserSID");
    assert_text(info->name, p, "ImageFileName");
    assert_text(info->command_line, p, "CommandLine");
    assert_text(ev->u.proc.package, p, "PackageFullName");
    if (payload_has(p, "SessionId")) {
        assert_int_equal(info->session_id, payload_number(p, "SessionId"));
    }
    if (ev->kind == EV_PROC_STOP) {
        assert_int_equal(info->exit_code, payload_number(p, "ExitStatus"));
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_process_class, rows, COUNT_OF(rows), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
