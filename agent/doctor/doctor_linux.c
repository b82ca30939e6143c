#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "agent/doctor/doctor_host.h"
#include "common/mem.h"
#include "common/os.h"

#define STATUS_MAX     (64u << 10)
#define CAP_NET_ADMIN  12 /* numbers of the kernel's interface */
#define CAP_SYS_PTRACE 19

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
    bool events = have >> CAP_NET_ADMIN & 1, others = have >> CAP_SYS_PTRACE & 1;

    if (events) {
        doctor_say(d, "rights.events", DOCTOR_OK, "",
                   "CAP_NET_ADMIN is there: the kernel may tell of starts, ends and exact totals");
    } else {
        doctor_say(
            d, "rights.events", DOCTOR_WARNING,
            "run the agent as root, or give its service "
            "AmbientCapabilities=CAP_NET_ADMIN CAP_SYS_PTRACE",
            "user %u has no CAP_NET_ADMIN: no exact totals of what ended, and before Linux 6.6 "
            "no starts and ends but by comparison",
            (unsigned)geteuid());
    }
    doctor_say(d, "rights.counters", others ? DOCTOR_OK : DOCTOR_WARNING,
               others ? ""
                      : "run the agent as root, or give its service "
                        "AmbientCapabilities=CAP_NET_ADMIN CAP_SYS_PTRACE",
               others ? "CAP_SYS_PTRACE is there: I/O of all processes can be read"
                      : "without CAP_SYS_PTRACE the I/O of other users' processes is not read");
}

/* The mount option hidepid hides others' processes altogether. */
static void check_procfs(struct doctor *d)
{
    uint8_t *text;
    size_t n;
    enum err e = os_read_file(&text, &n, "/proc/1/stat", STATUS_MAX);

    if (!e) {
        mem_free(text);
        doctor_say(d, "source.procfs", DOCTOR_OK, "", "/proc shows other users' processes");
    } else {
        doctor_say(d, "source.procfs",
                   os_exists("/proc/self/stat") ? DOCTOR_WARNING : DOCTOR_FAILED,
                   "mount procfs without hidepid, run the agent as root, or put its user into the "
                   "group that the mount option gid= names",
                   "/proc does not show other users' processes: %s", err_text(e));
    }
}

static void check_sync(struct doctor *d)
{
    struct timex t = {.modes = 0};

    if (adjtimex(&t) < 0) {
        doctor_say(d, "clock.sync", DOCTOR_SKIPPED, "",
                   "the kernel does not say whether the clock is synchronised");
    } else if (t.status & STA_UNSYNC) {
        doctor_say(d, "clock.sync", DOCTOR_WARNING,
                   "run a time service (systemd-timesyncd, chrony, ntpd)",
                   "the clock is not synchronised");
    } else {
        doctor_say(d, "clock.sync", DOCTOR_OK, "", "the clock is synchronised");
    }
}

void doctor_host(struct doctor *d)
{
    check_rights(d);
    check_procfs(d);
    check_sync(d);
}

void doctor_host_facts(struct doctor *d)
{
    if (d->conf->facts) {
        doctor_say(d, "facts", DOCTOR_SKIPPED, "", "nothing on this system is unverified");
    }
}
