/* The name's existence counts, not whose turn it is: a mutex that nobody waits for needs no thread
 * of its own. Whoever may not open it has been told enough, namely that it is there. */
#include "agent/source/windows/etw_owner.h"

#include "common/base/mem.h"
#include "common/os/win32.h"

#define OWNER_NAME L"Global\\procfleet-agent-sessions"

struct etw_owner {
    HANDLE mutex;
};

static enum err refused(struct errmsg *why, DWORD code)
{
    if (code == ERROR_ALREADY_EXISTS || code == ERROR_ACCESS_DENIED) {
        return errmsg_set(why, ERR_BUSY,
                          "another agent on this host holds the trace sessions; stop it, this one "
                          "compares tables meanwhile");
    }
    return errmsg_set(why, ERR_ACCESS, "cannot claim the trace sessions (error %lu)", code);
}

enum err etw_owner_take(struct etw_owner **out, struct errmsg *why)
{
    struct etw_owner *o = mem_zalloc(sizeof *o);
    DWORD code;

    if (!o) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    SetLastError(ERROR_SUCCESS);
    o->mutex = CreateMutexW(NULL, FALSE, OWNER_NAME);
    code = GetLastError();
    if (!o->mutex || code == ERROR_ALREADY_EXISTS) {
        etw_owner_give(o);
        return refused(why, code);
    }
    *out = o;
    return ERR_OK;
}

void etw_owner_give(struct etw_owner *o)
{
    if (o) {
        if (o->mutex) {
            CloseHandle(o->mutex);
        }
        mem_free(o);
    }
}
