/* The name's existence counts, not whose turn it is: a mutex that nobody waits for needs no thread
 * of its own. But anybody may make an object of that name, and would switch tracing off by it: one
 * counts only when it belongs to an account that is trusted. Ours lets everybody look at its owner,
 * so that one whose owner may not be seen is none of ours. */
#include "agent/source/windows/etw_owner.h"

#include <stdbool.h>
#include <wchar.h>

#include "common/base/mem.h"
#include "common/os/os_acl_win32.h"

#define OWNER_NAME L"Global\\procfleet-agent-sessions"
/* The system and administrators: everything; everybody: see the owner. */
#define OWNER_LIST L"O:%lsD:(A;;GA;;;SY)(A;;GA;;;BA)(A;;RC;;;WD)"
#define OWNER_MAX  1024
#define LIST_UNITS 256

struct etw_owner {
    HANDLE mutex;
};

/* Whether the one that is there is an agent's. */
static bool etw_owner_is_ours(void)
{
    HANDLE mutex = OpenMutexW(READ_CONTROL, FALSE, OWNER_NAME);
    BYTE user[SECURITY_MAX_SID_SIZE], descriptor[OWNER_MAX];
    bool ours = false;
    PSID owner;
    BOOL defaulted;
    DWORD n;

    if (!mutex) {
        return false;
    }
    if (os_acl_user(user) == ERR_OK &&
        GetKernelObjectSecurity(mutex, OWNER_SECURITY_INFORMATION, descriptor, sizeof descriptor,
                                &n) &&
        GetSecurityDescriptorOwner(descriptor, &owner, &defaulted)) {
        ours = os_acl_is_trusted(owner, user);
    }
    CloseHandle(mutex);
    return ours;
}

/* Without an owner of its own it would be whose the account's other things are. */
static HANDLE etw_owner_make(DWORD *code)
{
    SECURITY_ATTRIBUTES attributes = {.nLength = sizeof attributes};
    BYTE owner[SECURITY_MAX_SID_SIZE];
    WCHAR list[LIST_UNITS], *name;
    HANDLE mutex;

    if (os_acl_owner(owner) == ERR_OK && ConvertSidToStringSidW(owner, &name)) {
        (void)_snwprintf(list, LIST_UNITS, OWNER_LIST, name);
        LocalFree(name);
        (void)ConvertStringSecurityDescriptorToSecurityDescriptorW(
            list, SDDL_REVISION_1, &attributes.lpSecurityDescriptor, NULL);
    }
    SetLastError(ERROR_SUCCESS);
    mutex = CreateMutexW(&attributes, FALSE, OWNER_NAME);
    *code = GetLastError();
    LocalFree(attributes.lpSecurityDescriptor);
    return mutex;
}

enum err etw_owner_take(struct etw_owner **out, struct errmsg *why)
{
    struct etw_owner *o = mem_zalloc(sizeof *o);
    bool there;
    DWORD code;

    if (!o) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    o->mutex = etw_owner_make(&code);
    there = code == ERROR_ALREADY_EXISTS || code == ERROR_ACCESS_DENIED ||
            code == ERROR_INVALID_HANDLE; /* an event or a semaphore, which no agent makes */
    if (there && etw_owner_is_ours()) {
        etw_owner_give(o);
        return errmsg_set(why, ERR_BUSY,
                          "another agent on this host holds the trace sessions; stop it, this one "
                          "compares tables meanwhile");
    }
    if (!o->mutex && !there) {
        etw_owner_give(o);
        return errmsg_set(why, ERR_ACCESS, "cannot claim the trace sessions (error %lu)", code);
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
