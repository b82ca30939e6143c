/* A condition variable cannot be waited for together with a timer. So who waits for less than
 * OS_WAIT_WIN32_NS stands in a list of the condition, and whoever wakes the condition sets the
 * events of that list, too. The list is entered before the lock is given up: who changes something
 * under the lock and then wakes finds everybody who waits for it. */
#include "common/os/os_wait_win32.h"

#include <stddef.h>

#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 0x00000002
#endif
#define OS_WAIT_SPARE_MS 100 /* should the timer not come */

struct os_wait_win32 {
    HANDLE timer, event;
    struct os_wait_win32 *next;
    bool listed;
};

static INIT_ONCE os_wait_once = INIT_ONCE_STATIC_INIT;
static DWORD os_wait_slot = FLS_OUT_OF_INDEXES;

/* At the end of its thread. */
static VOID WINAPI os_wait_release(PVOID p)
{
    struct os_wait_win32 *w = p;

    if (w) {
        if (w->timer) {
            CloseHandle(w->timer);
        }
        if (w->event) {
            CloseHandle(w->event);
        }
        HeapFree(GetProcessHeap(), 0, w);
    }
}

static BOOL CALLBACK os_wait_prepare(INIT_ONCE *once, PVOID parameter, PVOID *context)
{
    (void)once;
    (void)parameter;
    (void)context;
    os_wait_slot = FlsAlloc(os_wait_release);
    return TRUE;
}

/* NULL: this system has no such timers, or no memory. */
static struct os_wait_win32 *os_wait_own(void)
{
    struct os_wait_win32 *w;

    InitOnceExecuteOnce(&os_wait_once, os_wait_prepare, NULL, NULL);
    if (os_wait_slot == FLS_OUT_OF_INDEXES) {
        return NULL;
    }
    w = FlsGetValue(os_wait_slot);
    if (w) {
        return w->timer && w->event ? w : NULL;
    }
    /* The thread's, as its stack is: nobody who counts what he owns (mem.h) owns it. */
    w = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *w);
    if (!w) {
        return NULL;
    }
    w->timer =
        CreateWaitableTimerExW(NULL, NULL, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, TIMER_ALL_ACCESS);
    w->event = CreateEventW(NULL, FALSE, FALSE, NULL);
    if (!FlsSetValue(os_wait_slot, w)) {
        os_wait_release(w);
        return NULL;
    }
    return w->timer && w->event ? w : NULL;
}

static bool os_wait_set(const struct os_wait_win32 *w, int64_t ns)
{
    LARGE_INTEGER due = {.QuadPart = -((ns + 99) / 100)}; /* relative, 100 ns */

    return SetWaitableTimer(w->timer, &due, 0, NULL, NULL, FALSE);
}

bool os_wait_win32_sleep(int64_t ns)
{
    struct os_wait_win32 *w = ns < OS_WAIT_WIN32_NS ? os_wait_own() : NULL;

    if (!w || !os_wait_set(w, ns)) {
        return false;
    }
    (void)WaitForSingleObject(w->timer, (DWORD)(ns / 1000000) + OS_WAIT_SPARE_MS);
    return true;
}

static void os_wait_leave(struct os_wait_win32_list *list, struct os_wait_win32 *w)
{
    AcquireSRWLockExclusive(&list->lock);
    for (struct os_wait_win32 **at = &list->first; w->listed && *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            w->listed = false;
            break;
        }
    }
    ReleaseSRWLockExclusive(&list->lock);
}

bool os_wait_win32_for(struct os_wait_win32_list *list, SRWLOCK *held, int64_t ns)
{
    struct os_wait_win32 *w = ns < OS_WAIT_WIN32_NS ? os_wait_own() : NULL;
    HANDLE both[2];

    if (!w || !os_wait_set(w, ns)) {
        return false;
    }
    ResetEvent(w->event);
    AcquireSRWLockExclusive(&list->lock);
    w->next = list->first;
    w->listed = true;
    list->first = w;
    ReleaseSRWLockExclusive(&list->lock);
    ReleaseSRWLockExclusive(held);
    both[0] = w->event;
    both[1] = w->timer;
    (void)WaitForMultipleObjects(2, both, FALSE, (DWORD)(ns / 1000000) + OS_WAIT_SPARE_MS);
    (void)CancelWaitableTimer(w->timer);
    AcquireSRWLockExclusive(held);
    os_wait_leave(list, w);
    return true;
}

void os_wait_win32_wake(struct os_wait_win32_list *list)
{
    if (!__atomic_load_n(&list->first, __ATOMIC_SEQ_CST)) {
        return;
    }
    AcquireSRWLockExclusive(&list->lock);
    while (list->first) {
        struct os_wait_win32 *w = list->first;

        list->first = w->next;
        w->listed = false;
        SetEvent(w->event);
    }
    ReleaseSRWLockExclusive(&list->lock);
}
