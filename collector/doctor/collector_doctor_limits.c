#include <stdlib.h>
#include <string.h>

#include "collector/doctor/collector_doctor_impl.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define DESCRIPTORS_FREE 1024u /* for everything but agents, as the collector reckons */
#define THREADS_NEEDED   256u
#define BACKLOG_NEEDED   128u /* what NNG asks for */
#define TEXT_MAX         8192u
#define EARLY_NS         (600 * CLK_S)

/* The file's text; mem_free. NULL: it cannot be read. */
static char *text_of(const char *path)
{
    uint8_t *text;
    size_t n;

    return os_read_file(&text, &n, path, TEXT_MAX) ? NULL : (char *)text;
}

/* A number that begins the file; `otherwise` when it cannot be read. */
static uint64_t number_in(const char *path, uint64_t otherwise)
{
    char *text = text_of(path);
    uint64_t n = text ? strtoull(text, NULL, 10) : otherwise;

    mem_free(text);
    return n;
}

static void check_files(struct collector_doctor *d)
{
    uint64_t may = os_open_files_max(), wanted = (uint64_t)d->c->hosts_max + DESCRIPTORS_FREE;

    if (may == 0) {
        check_result_report(d->all, "limits.files", CHECK_RESULT_SKIPPED, "",
                            "the limit is unknown");
        return;
    }
    check_result_report(
        d->all, "limits.files", may < wanted ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        may < wanted ? "raise it (systemd: LimitNOFILE=, a shell: ulimit -n), or set "
                       "limits.hosts to what there will be"
                     : "",
        "%llu descriptors may be open here, limits.hosts and the store take up to %llu",
        (unsigned long long)may, (unsigned long long)wanted);
}

/* "Max processes  63442  63442  processes": threads count as processes. */
static uint64_t processes_max(void)
{
    static const char word[] = "Max processes";
    char *text = text_of("/proc/self/limits");
    const char *at = text ? strstr(text, word) : NULL;
    uint64_t n = at ? strtoull(at + sizeof word - 1, NULL, 10) : 0; /* 0: "unlimited" too */

    mem_free(text);
    return n ? n : UINT64_MAX;
}

static void check_threads(struct collector_doctor *d)
{
    uint64_t own = processes_max(), all = number_in("/proc/sys/kernel/threads-max", UINT64_MAX);
    uint64_t may = own < all ? own : all;
    bool few = may < THREADS_NEEDED;

    check_result_report(d->all, "limits.threads", few ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
                        few ? "raise it (systemd: LimitNPROC= and TasksMax=, a shell: ulimit -u)"
                            : "",
                        few ? "the collector's user may have fewer than %u threads"
                            : "the collector's user may have %u threads and more",
                        THREADS_NEEDED);
}

static void check_memory(struct collector_doctor *d)
{
    uint64_t machine = os_memory_bytes(), head = d->c->head_bytes_max;
    bool tight = machine > 0 && head > machine / 2;

    if (machine == 0) {
        check_result_report(d->all, "limits.memory", CHECK_RESULT_SKIPPED, "",
                            "the memory is unknown");
        return;
    }
    check_result_report(
        d->all, "limits.memory", tight ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        tight ? "set head.max_bytes to half of the memory at most: sealing and queries need "
                "theirs"
              : "",
        "the machine has %llu MiB, batches not sealed yet take up to %llu (head.max_bytes)",
        (unsigned long long)(machine >> 20), (unsigned long long)(head >> 20));
}

static void check_backlog(struct collector_doctor *d)
{
    uint64_t most = number_in("/proc/sys/net/core/somaxconn", 0);

    if (most == 0) {
        check_result_report(d->all, "limits.backlog", CHECK_RESULT_SKIPPED, "",
                            "somaxconn is unknown");
        return;
    }
    check_result_report(
        d->all, "limits.backlog", most < BACKLOG_NEEDED ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        most < BACKLOG_NEEDED ? "sysctl net.core.somaxconn=4096" : "",
        "%llu connections may wait to be accepted (net.core.somaxconn)", (unsigned long long)most);
}

static void check_uptime(struct collector_doctor *d)
{
    int64_t up_ns = (int64_t)(number_in("/proc/uptime", 0) * (uint64_t)CLK_S);
    struct buf text;

    if (up_ns == 0) {
        return;
    }
    buf_init(&text, 64);
    humanize_ns(&text, up_ns);
    check_result_report(d->all, "uptime", CHECK_RESULT_OK, "", "this machine was started %s ago%s",
                        buf_cstr(&text),
                        up_ns < EARLY_NS ? ": agents may still be on their way back" : "");
    buf_fini(&text);
}

void collector_doctor_limits(struct collector_doctor *d)
{
    check_files(d);
    check_threads(d);
    check_memory(d);
    check_backlog(d);
    check_uptime(d);
}
