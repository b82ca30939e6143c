/* The list of all threads of the system, and a handle of each of this process with no other right
 * than to ask for its times and cycles. */
#include <stdlib.h>

#include "agent/cmd/threads.h"
#include "common/os/win32.h"

static int by_tid(const void *a, const void *b)
{
    const struct thread_use *x = a, *y = b;

    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int64_t ns_of(const FILETIME *t)
{
    return (int64_t)(((uint64_t)t->dwHighDateTime << 32 | t->dwLowDateTime) * 100);
}

/* What is refused stays absent. */
static void read_thread(struct thread_use *out, DWORD tid)
{
    FILETIME created, ended, kernel, user;
    struct thread_use t = {.tid = tid};
    ULONG64 cycles = 0;
    HANDLE h = OpenThread(THREAD_QUERY_LIMITED_INFORMATION, FALSE, tid);

    if (h) {
        t.has_cpu = GetThreadTimes(h, &created, &ended, &kernel, &user) != 0;
        t.cpu_ns = t.has_cpu ? ns_of(&kernel) + ns_of(&user) : 0;
        t.has_cycles = QueryThreadCycleTime(h, &cycles) != 0 && cycles > 0;
        t.cycles = cycles;
        CloseHandle(h);
    }
    *out = t;
}

enum err threads_read(struct thread_use *out, size_t max, uint32_t pid, size_t *n, bool *cut)
{
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    THREADENTRY32 entry = {.dwSize = sizeof entry};
    size_t have = 0;
    BOOL more;

    if (all == INVALID_HANDLE_VALUE) {
        return ERR_IO;
    }
    *cut = false;
    for (more = Thread32First(all, &entry); more; more = Thread32Next(all, &entry)) {
        if (entry.th32OwnerProcessID == pid && have < max) {
            read_thread(&out[have++], entry.th32ThreadID);
        } else if (entry.th32OwnerProcessID == pid) {
            *cut = true;
        }
    }
    CloseHandle(all);
    qsort(out, have, sizeof *out, by_tid);
    *n = have;
    return have > 0 ? ERR_OK : ERR_NOTFOUND;
}
