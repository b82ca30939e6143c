#include "agent/service/service_account_win32.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/os/os_acl_win32.h"

#define NAME_UNITS     256
#define RIGHTS_REFUSED ((NTSTATUS)0xC0000022) /* STATUS_ACCESS_DENIED */
#define IS_MEMBER      1378                   /* ERROR_MEMBER_IN_ALIAS */
#define WRITE_TRIES    3
#define IS_NO_MEMBER   1377 /* ERROR_MEMBER_NOT_IN_ALIAS */

static WCHAR right_name[] = L"SeSystemProfilePrivilege";
static LSA_UNICODE_STRING right = {sizeof right_name - sizeof(WCHAR), sizeof right_name,
                                   right_name};

/* Errors: ERR_ACCESS (we are no administrator), ERR_UNSUPPORTED */
static enum err service_account_right(PSID sid, bool grant)
{
    LSA_OBJECT_ATTRIBUTES attributes = {.Length = sizeof attributes};
    LSA_HANDLE policy;
    NTSTATUS status;

    status = LsaOpenPolicy(NULL, &attributes, POLICY_LOOKUP_NAMES | POLICY_CREATE_ACCOUNT, &policy);
    if (status == 0) {
        status = grant ? LsaAddAccountRights(policy, sid, &right, 1)
                       : LsaRemoveAccountRights(policy, sid, FALSE, &right, 1);
        (void)LsaClose(policy);
    }
    return status == 0 ? ERR_OK : status == RIGHTS_REFUSED ? ERR_ACCESS : ERR_UNSUPPORTED;
}

/* As lmaccess.h has it: members by their numbers, level 0. The library is loaded when it is wanted.
 */
typedef DWORD(WINAPI *members_fn)(const WCHAR *server, const WCHAR *group, DWORD level,
                                  BYTE *members, DWORD n);

/* The group goes by its number: its name depends on the language. A member already is fine.
 * Errors: ERR_ACCESS, ERR_NOTFOUND (no such group: a domain controller may lack it), ERR_IO */
static enum err service_account_group(PSID sid, bool grant)
{
    HMODULE module = LoadLibraryExW(L"netapi32.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    FARPROC p = module ? GetProcAddress(module, grant ? "NetLocalGroupAddMembers"
                                                      : "NetLocalGroupDelMembers")
                       : NULL;
    BYTE group[SECURITY_MAX_SID_SIZE];
    WCHAR name[NAME_UNITS], domain[NAME_UNITS];
    DWORD n = sizeof group, name_n = NAME_UNITS, domain_n = NAME_UNITS, code;
    SID_NAME_USE use;
    members_fn change;

    if (!p || !CreateWellKnownSid(WinBuiltinPerfLoggingUsersSid, NULL, group, &n) ||
        !LookupAccountSidW(NULL, group, name, &name_n, domain, &domain_n, &use)) {
        return ERR_NOTFOUND;
    }
    memcpy(&change, &p, sizeof change);
    code = change(NULL, name, 0, (BYTE *)&sid, 1);
    if (code == ERROR_SUCCESS || code == IS_MEMBER || code == IS_NO_MEMBER) {
        return ERR_OK;
    }
    return code == ERROR_ACCESS_DENIED ? ERR_ACCESS : ERR_IO;
}

/* -- access lists -- Windows keeps a list for each provider and session, by GUID, and gives no way
 * to take one entry out: EventAccessRemove drops the whole list, for the kernel's provider with
 * what Windows itself put there. So the list is read, and written again without us: the first entry
 * replaces the list, the others are added. */

#define LIST_MAX        (64u << 10)
#define PROVIDER_RIGHTS (WMIGUID_QUERY | TRACELOG_GUID_ENABLE)
#define SESSION_RIGHTS \
    (WMIGUID_QUERY | TRACELOG_CREATE_REALTIME | TRACELOG_ACCESS_REALTIME | TRACELOG_GUID_ENABLE)

/* SystemTraceControlGuid: the kernel's provider. */
static const GUID kernel = {
    0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}};

/* Errors: ERR_UNSUPPORTED (the system has none; Wine's end the program) */
static enum err service_account_access_load(struct service_account_api *out)
{
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
        {"EventAccessControl", &out->control},
        {"EventAccessQuery", &out->query},
        {"EventAccessRemove", &out->remove},
    };
    HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");
    HMODULE module = LoadLibraryExW(L"advapi32.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);

    if (!module || (ntdll && GetProcAddress(ntdll, "wine_get_version"))) {
        return ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FARPROC p = GetProcAddress(module, rows[i].name);

        if (!p) {
            return ERR_UNSUPPORTED;
        }
        memcpy(rows[i].slot, &p, sizeof p);
    }
    return ERR_OK;
}

static enum err service_account_access_error(ULONG code)
{
    return code == ERROR_SUCCESS ? ERR_OK : code == ERROR_ACCESS_DENIED ? ERR_ACCESS : ERR_IO;
}

enum err service_account_access_grant(const struct service_account_api *api, PSID account,
                                      const uint8_t (*sessions)[16], size_t n)
{
    GUID guid = kernel;
    enum err e = service_account_access_error(
        api->control(&guid, EventSecurityAddDACL, account, PROVIDER_RIGHTS, TRUE));

    for (size_t i = 0; !e && i < n; i++) {
        memcpy(&guid, sessions[i], sizeof guid);
        e = service_account_access_error(
            api->control(&guid, EventSecurityAddDACL, account, SESSION_RIGHTS, TRUE));
    }
    return e;
}

/* mem_free. */
static enum err service_account_access_read(const struct service_account_api *api, void **out,
                                            ACL **list)
{
    GUID guid = kernel;
    ULONG n = LIST_MAX;
    BOOL present = FALSE, defaulted;
    void *descriptor = mem_alloc(n);
    enum err e =
        descriptor ? service_account_access_error(api->query(&guid, descriptor, &n)) : ERR_NOMEM;

    *list = NULL;
    if (!e && !GetSecurityDescriptorDacl(descriptor, &present, list, &defaulted)) {
        e = ERR_IO;
    }
    if (e) {
        mem_free(descriptor);
        return e;
    }
    *list = present ? *list : NULL;
    *out = descriptor;
    return ERR_OK;
}

/* An allowed and a denied entry are laid out alike; others are none that this interface makes. */
static const ACCESS_ALLOWED_ACE *service_account_access_entry(ACL *list, DWORD i)
{
    void *at;

    if (!GetAce(list, i, &at)) {
        return NULL;
    }
    return ((ACE_HEADER *)at)->AceType == ACCESS_ALLOWED_ACE_TYPE ||
                   ((ACE_HEADER *)at)->AceType == ACCESS_DENIED_ACE_TYPE
               ? at
               : NULL;
}

static bool service_account_access_is_of(const ACCESS_ALLOWED_ACE *ace, PSID account)
{
    return ace && EqualSid((PSID)(void *)&ace->SidStart, account);
}

/* The others must all be such that they can be written again. */
static bool service_account_access_can_drop(ACL *list, PSID account)
{
    DWORD ours = 0;

    for (DWORD i = 0; i < list->AceCount; i++) {
        const ACCESS_ALLOWED_ACE *ace = service_account_access_entry(list, i);

        if (!ace) {
            return false;
        }
        ours += service_account_access_is_of(ace, account);
    }
    return ours > 0 && ours < list->AceCount;
}

static enum err service_account_access_write(const struct service_account_api *api,
                                             const ACCESS_ALLOWED_ACE *ace, ULONG how)
{
    GUID guid = kernel;
    enum err e = ERR_IO;

    for (int i = 0; e && i < WRITE_TRIES; i++) {
        e = service_account_access_error(
            api->control(&guid, how, (PSID)(void *)&ace->SidStart, ace->Mask,
                         ace->Header.AceType == ACCESS_ALLOWED_ACE_TYPE));
    }
    return e;
}

static enum err service_account_access_lacks(const ACCESS_ALLOWED_ACE *ace, enum err e,
                                             struct errmsg *why)
{
    WCHAR *text = NULL;

    (void)ConvertSidToStringSidW((PSID)(void *)&ace->SidStart, &text);
    (void)errmsg_set(why, e,
                     "the access list of the kernel's trace provider could not be written back "
                     "whole (%s): the entry of %ls with rights %#lx is missing",
                     err_text(e), text ? text : L"an account", ace->Mask);
    LocalFree(text);
    return e;
}

/* The list is written entry by entry, the first in place of all. So one that is in it anyway is
 * added before: where that fails, all stays. What fails afterwards costs no other entry. */
static enum err service_account_access_rewrite(const struct service_account_api *api, ACL *list,
                                               PSID account, struct errmsg *why)
{
    bool begun = false;
    enum err failed = ERR_OK;

    for (DWORD i = 0; i < list->AceCount; i++) {
        const ACCESS_ALLOWED_ACE *ace = service_account_access_entry(list, i);
        enum err e;

        if (service_account_access_is_of(ace, account)) {
            continue;
        }
        e = service_account_access_write(api, ace, EventSecurityAddDACL);
        e = e || begun ? e : service_account_access_write(api, ace, EventSecuritySetDACL);
        if (e && !begun) {
            return errmsg_set(why, e,
                              "the account stays in the access list of the kernel's trace "
                              "provider: %s",
                              err_text(e));
        }
        begun = true;
        failed = e ? service_account_access_lacks(ace, e, why) : failed;
    }
    return failed;
}

enum err service_account_access_revoke(const struct service_account_api *api, PSID account,
                                       const uint8_t (*sessions)[16], size_t n, struct errmsg *why)
{
    void *descriptor;
    ACL *list;
    enum err e = service_account_access_read(api, &descriptor, &list);

    if (!e) {
        if (list && service_account_access_can_drop(list, account)) {
            e = service_account_access_rewrite(api, list, account, why);
        }
        mem_free(descriptor);
    }
    for (size_t i = 0; i < n; i++) {
        GUID guid;

        memcpy(&guid, sessions[i], sizeof guid);
        (void)api->remove(&guid); /* there may be none */
    }
    return e;
}

/* -- all of it -- */

bool service_account_grant(const WCHAR *account, const uint8_t (*sessions)[16], size_t n,
                           struct buf *notes)
{
    BYTE sid[SECURITY_MAX_SID_SIZE];
    struct service_account_api api;
    enum err found = os_acl_account(sid, account);
    enum err right_e = found ? found : service_account_right(sid, true);
    enum err group_e = found ? found : service_account_group(sid, true);
    enum err access_e = found ? found : service_account_access_load(&api);
    const struct {
        enum err e;
        const char *what;
    } rows[] = {{right_e, "the right to profile the system"},
                {group_e, "its place among Performance Log Users"},
                {access_e ? access_e : service_account_access_grant(&api, sid, sessions, n),
                 "its place in the access lists of event tracing"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].e) {
            buf_printf(notes,
                       "the account did not get %s (%s): trace sessions will be refused, tables "
                       "compared instead\n",
                       rows[i].what, err_text(rows[i].e));
        }
    }
    return right_e == ERR_OK;
}

void service_account_revoke(const WCHAR *account, const uint8_t (*sessions)[16], size_t n,
                            struct errmsg *why)
{
    static const WCHAR own[] = L"NT SERVICE\\";
    BYTE sid[SECURITY_MAX_SID_SIZE];
    struct service_account_api api;

    if (_wcsnicmp(account, own, sizeof own / sizeof *own - 1) != 0 ||
        os_acl_account(sid, account)) {
        return;
    }
    err_ignore(service_account_right(sid, false));
    err_ignore(service_account_group(sid, false));
    if (service_account_access_load(&api) == ERR_OK) {
        err_ignore(service_account_access_revoke(&api, sid, sessions, n, why));
    }
}
