#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doctor/doctor.h"
#include "agent/doctor/doctor_host.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define STATUS_MAX (64u << 10)
/* Numbers of the kernel's interface. */
#define CAP_DAC_READ_SEARCH 2
#define CAP_NET_ADMIN       12
#define CAP_SYS_PTRACE      19

#define GRANT                                     \
    "run the agent as root, or give its service " \
    "AmbientCapabilities=CAP_NET_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"

/* The effective capabilities of this program; 0 when unknown. */
static uint64_t capabilities(void)
{
    static const char word[] = "\nCapEff:";
    uint8_t *text;
    const char *at;
    uint64_t mask;
    size_t n;

    if (os_read_file(&text, &n, "/proc/self/status", STATUS_MAX)) {
        return 0;
    }
    at = strstr((const char *)text, word);
    mask = at ? strtoull(at + sizeof word - 1, NULL, 16) : 0;
    mem_free(text);
    return mask;
}

static void check_rights(struct doctor *d)
{
    uint64_t have = capabilities();
    bool events = have >> CAP_NET_ADMIN & 1;
    bool others = (have >> CAP_SYS_PTRACE & 1) && (have >> CAP_DAC_READ_SEARCH & 1);

    if (events) {
        check_result_report(
            d->all, "rights.events", CHECK_RESULT_OK, "",
            "CAP_NET_ADMIN is there: the kernel may tell of starts, ends and exact totals");
    } else {
        check_result_report(
            d->all, "rights.events", CHECK_RESULT_WARNING, GRANT,
            "user %u has no CAP_NET_ADMIN: no exact totals of what ended, and before Linux 6.6 "
            "no starts and ends but by comparison",
            (unsigned)geteuid());
    }
    check_result_report(
        d->all, "rights.counters", others ? CHECK_RESULT_OK : CHECK_RESULT_WARNING,
        others ? "" : GRANT,
        others ? "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH are there: I/O of all processes "
                 "can be read"
               : "without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH the I/O of other users' "
                 "processes is not read while they run");
}

/* The mount option hidepid hides others' processes altogether. */
static void check_procfs(struct doctor *d)
{
    uint8_t *text;
    size_t n;
    enum err e = os_read_file(&text, &n, "/proc/1/stat", STATUS_MAX);

    if (!e) {
        mem_free(text);
        check_result_report(d->all, "source.procfs", CHECK_RESULT_OK, "",
                            "/proc shows other users' processes");
    } else {
        check_result_report(
            d->all, "source.procfs",
            os_exists("/proc/self/stat") ? CHECK_RESULT_WARNING : CHECK_RESULT_FAILED,
            "mount procfs without hidepid, run the agent as root, or put its user into the "
            "group that the mount option gid= names",
            "/proc does not show other users' processes: %s", err_text(e));
    }
}

/* Waits for disk and memory are measured where somebody asked for it. */
static void check_delays(struct doctor *d)
{
    uint8_t *text;
    size_t n;
    bool on;

    if (os_read_file(&text, &n, "/proc/sys/kernel/task_delayacct", 64)) {
        check_result_report(d->all, "source.delays", CHECK_RESULT_SKIPPED, "",
                            "this kernel measures no waits for disk and memory");
        return;
    }
    on = n > 0 && text[0] == '1';
    mem_free(text);
    check_result_report(d->all, "source.delays", CHECK_RESULT_OK, "",
                        on ? "kernel.task_delayacct is 1: io_wait_time and memory_wait_time are "
                             "measured, of threads that began since"
                           : "kernel.task_delayacct is 0: io_wait_time and memory_wait_time are "
                             "absent; sysctl kernel.task_delayacct=1 turns them on");
}

void doctor_host(struct doctor *d)
{
    check_rights(d);
    check_procfs(d);
    check_delays(d);
    check_result_clock_sync(d->all);
}

void doctor_host_facts(struct doctor *d)
{
    if (d->facts) {
        check_result_report(d->all, "facts", CHECK_RESULT_SKIPPED, "",
                            "nothing on this system is unverified");
    }
}

enum err doctor_orphans(struct doctor_orphans *out, const struct etw_conf *conf, bool stop,
                        struct errmsg *why)
{
    (void)out;
    (void)conf;
    (void)stop;
    return errmsg_set(why, ERR_UNSUPPORTED, "there are no trace sessions on this system");
}

size_t doctor_sessions(uint8_t guids[DOCTOR_SESSIONS][16], const struct etw_conf *conf)
{
    (void)guids;
    (void)conf;
    return 0;
}
