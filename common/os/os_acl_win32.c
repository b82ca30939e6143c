#include "common/os/os_acl_win32.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/os/os_impl_win32.h"

#define DESCRIPTOR_MAX (64u << 10)
#define TOKEN_BYTES    (sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE)
#define WANTED         (OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION)
#define AGENT_ACCOUNT  L"NT SERVICE\\procfleet-agent"
#define SYSTEM_ACCOUNT L"LocalSystem" /* the service manager's word: nobody else knows it */
#define MODIFY         (FILE_GENERIC_READ | FILE_GENERIC_WRITE | FILE_GENERIC_EXECUTE | DELETE)

/* Whatever would let one change it, put another in its place, make it a link, or change the list.
 */
#define ANY_CHANGE                                                                \
    (FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_WRITE_EA | FILE_WRITE_ATTRIBUTES | \
     FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL)
/* Or shows the content. */
#define ANY_USE (ANY_CHANGE | FILE_READ_DATA | GENERIC_READ)
/* Others may make things of theirs above what is ours. */
#define ANY_TOP  (FILE_DELETE_CHILD | WRITE_DAC | WRITE_OWNER | GENERIC_ALL)
#define ANY_MOVE (ANY_TOP | DELETE)

static const DWORD acl_uses[] = {[OS_ACL_SEE] = ANY_USE,
                                 [OS_ACL_CHANGE] = ANY_CHANGE,
                                 [OS_ACL_MOVE] = ANY_MOVE,
                                 [OS_ACL_TOP] = ANY_TOP};

/* S-1-5-80-…: the account of one service, whose numbers are the SHA-1 of its name in capitals. */
#define SERVICE_SID_PARTS 6
static const DWORD agent_sid[SERVICE_SID_PARTS] = {80,         4023477956, 3645670931,
                                                   1151848334, 2445372206, 3151096216};
static const DWORD installer_sid[SERVICE_SID_PARTS] = {80,         956008885,  3418522649,
                                                       1831038044, 1853292631, 2271478464};

enum err os_acl_user(BYTE sid[SECURITY_MAX_SID_SIZE])
{
    union {
        TOKEN_USER user;
        BYTE bytes[TOKEN_BYTES];
    } token_user;
    enum err e = ERR_IO;
    HANDLE token;
    DWORD n;

    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) {
        return ERR_IO;
    }
    if (GetTokenInformation(token, TokenUser, &token_user, sizeof token_user, &n) &&
        CopySid(SECURITY_MAX_SID_SIZE, sid, token_user.user.User.Sid)) {
        e = ERR_OK;
    }
    CloseHandle(token);
    return e;
}

static bool acl_is_service(PSID sid, const DWORD parts[SERVICE_SID_PARTS])
{
    static const SID_IDENTIFIER_AUTHORITY nt = {SECURITY_NT_AUTHORITY};

    if (memcmp(GetSidIdentifierAuthority(sid), &nt, sizeof nt) != 0 ||
        *GetSidSubAuthorityCount(sid) != SERVICE_SID_PARTS) {
        return false;
    }
    for (DWORD i = 0; i < SERVICE_SID_PARTS; i++) {
        if (*GetSidSubAuthority(sid, i) != parts[i]) {
            return false;
        }
    }
    return true;
}

enum err os_acl_account(BYTE sid[SECURITY_MAX_SID_SIZE], const WCHAR *name)
{
    SID_IDENTIFIER_AUTHORITY nt = {SECURITY_NT_AUTHORITY};
    DWORD n = SECURITY_MAX_SID_SIZE, domain_n = 256;
    WCHAR domain[256];
    SID_NAME_USE use;

    if (_wcsicmp(name, SYSTEM_ACCOUNT) == 0) {
        return CreateWellKnownSid(WinLocalSystemSid, NULL, sid, &n) ? ERR_OK : ERR_NOTFOUND;
    }
    if (_wcsicmp(name, AGENT_ACCOUNT) == 0) {
        (void)InitializeSid(sid, &nt, SERVICE_SID_PARTS);
        for (DWORD i = 0; i < SERVICE_SID_PARTS; i++) {
            *GetSidSubAuthority(sid, i) = agent_sid[i];
        }
        return ERR_OK;
    }
    return LookupAccountNameW(NULL, name, sid, &n, domain, &domain_n, &use) ? ERR_OK : ERR_NOTFOUND;
}

static BYTE also_sid[SECURITY_MAX_SID_SIZE];
static bool also; /* also_sid is one */

enum err os_acl_also_trust(const WCHAR *account)
{
    enum err e = os_acl_account(also_sid, account);

    also = !e;
    return e;
}

/* Whom the installed service runs as; only administrators can change that. Looked up for those who
 * are not trusted otherwise: names of a domain may take a while. */
static bool acl_is_service_account(PSID sid)
{
    static const WCHAR key[] = L"SYSTEM\\CurrentControlSet\\Services\\procfleet-agent";
    BYTE account[SECURITY_MAX_SID_SIZE];
    WCHAR name[256];
    DWORD n = sizeof name;

    return RegGetValueW(HKEY_LOCAL_MACHINE, key, L"ObjectName", RRF_RT_REG_SZ, NULL, name, &n) ==
               ERROR_SUCCESS &&
           os_acl_account(account, name) == ERR_OK && EqualSid(sid, account);
}

static bool acl_is_known(PSID sid, PSID user)
{
    return sid && IsValidSid(sid) &&
           (IsWellKnownSid(sid, WinLocalSystemSid) ||
            IsWellKnownSid(sid, WinBuiltinAdministratorsSid) || acl_is_service(sid, agent_sid) ||
            acl_is_service(sid, installer_sid) || (user && EqualSid(sid, user)) ||
            (also && EqualSid(sid, (PSID)also_sid)));
}

bool os_acl_is_trusted(PSID sid, PSID user)
{
    return acl_is_known(sid, user) || (sid && IsValidSid(sid) && acl_is_service_account(sid));
}

static bool acl_denies(BYTE type)
{
    return type == ACCESS_DENIED_ACE_TYPE || type == ACCESS_DENIED_OBJECT_ACE_TYPE ||
           type == ACCESS_DENIED_CALLBACK_ACE_TYPE ||
           type == ACCESS_DENIED_CALLBACK_OBJECT_ACE_TYPE;
}

/* The owner is trusted already, and so is who makes something and owns it then. An entry laid out
 * otherwise, as for objects of a directory service, may let anybody: no file needs one. */
static bool acl_lets_others(const ACCESS_ALLOWED_ACE *ace, PSID user, DWORD uses)
{
    PSID sid = (PSID)(void *)&ace->SidStart;
    BYTE type = ace->Header.AceType;

    if (acl_denies(type) || (ace->Header.AceFlags & INHERIT_ONLY_ACE) || !(ace->Mask & uses)) {
        return false;
    }
    return (type != ACCESS_ALLOWED_ACE_TYPE && type != ACCESS_ALLOWED_CALLBACK_ACE_TYPE) ||
           (!os_acl_is_trusted(sid, user) && !IsWellKnownSid(sid, WinCreatorOwnerSid) &&
            !IsWellKnownSid(sid, WinCreatorOwnerRightsSid));
}

enum err os_acl_judge(void *descriptor, void *user, enum os_acl_use use)
{
    BOOL present, defaulted;
    PSID owner = NULL;
    ACL *acl = NULL;
    void *ace;

    if (!GetSecurityDescriptorDacl(descriptor, &present, &acl, &defaulted) ||
        !GetSecurityDescriptorOwner(descriptor, &owner, &defaulted)) {
        return ERR_INVALID;
    }
    if (!present || !acl || !os_acl_is_trusted(owner, user)) {
        return ERR_ACCESS;
    }
    for (DWORD i = 0; i < acl->AceCount; i++) {
        if (!GetAce(acl, i, &ace) || acl_lets_others(ace, user, acl_uses[use])) {
            return ERR_ACCESS;
        }
    }
    return ERR_OK;
}

static enum err acl_read_security(struct os_acl_object *o)
{
    BOOL defaulted;
    DWORD n = 0;

    (void)GetKernelObjectSecurity(o->handle, WANTED, NULL, 0, &n);
    if (n == 0 || n > DESCRIPTOR_MAX) {
        return ERR_IO;
    }
    o->security = mem_zalloc(n);
    if (!o->security) {
        return ERR_NOMEM;
    }
    return GetKernelObjectSecurity(o->handle, WANTED, o->security, n, &n) &&
                   GetSecurityDescriptorOwner(o->security, &o->owner, &defaulted)
               ? ERR_OK
               : ERR_IO;
}

enum err os_acl_open(struct os_acl_object *out, const WCHAR *path, DWORD rights)
{
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    const DWORD as_it_is = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    struct os_acl_object o = {.handle =
                                  CreateFileW(path, READ_CONTROL | FILE_READ_ATTRIBUTES | rights,
                                              share, NULL, OPEN_EXISTING, as_it_is, NULL)};
    BY_HANDLE_FILE_INFORMATION info;
    DWORD by_name;
    enum err e;

    if (o.handle == INVALID_HANDLE_VALUE) {
        return os_win32_last_error();
    }
    by_name = GetFileAttributesW(path); /* Wine tells of a link only here */
    e = GetFileInformationByHandle(o.handle, &info) ? acl_read_security(&o) : ERR_IO;
    if (e) {
        os_acl_close(&o);
        return e;
    }
    o.attributes = info.dwFileAttributes;
    if (by_name != INVALID_FILE_ATTRIBUTES) {
        o.attributes |= by_name & FILE_ATTRIBUTE_REPARSE_POINT;
    }
    o.is_link = (o.attributes & FILE_ATTRIBUTE_REPARSE_POINT) ||
                (!(o.attributes & FILE_ATTRIBUTE_DIRECTORY) && info.nNumberOfLinks > 1);
    *out = o;
    return ERR_OK;
}

void os_acl_close(struct os_acl_object *o)
{
    CloseHandle(o->handle);
    mem_free(o->security);
}

enum err os_acl_check(const WCHAR *path)
{
    BYTE user[SECURITY_MAX_SID_SIZE];
    struct os_acl_object o;
    enum err e = os_acl_open(&o, path, 0);

    if (e) {
        return e;
    }
    e = os_acl_user(user);
    if (!e) {
        e = o.is_link ? ERR_ACCESS : os_acl_judge(o.security, user, OS_ACL_SEE);
    }
    os_acl_close(&o);
    return e;
}

static bool acl_add(ACL *list, PSID sid, DWORD rights)
{
    const DWORD down = OBJECT_INHERIT_ACE | CONTAINER_INHERIT_ACE;

    return AddAccessAllowedAceEx(list, ACL_REVISION, down, rights, sid) != 0;
}

enum err os_acl_owner(BYTE sid[SECURITY_MAX_SID_SIZE])
{
    DWORD n = SECURITY_MAX_SID_SIZE;
    BOOL is_admin = FALSE;

    if (!CreateWellKnownSid(WinBuiltinAdministratorsSid, NULL, sid, &n) ||
        !CheckTokenMembership(NULL, sid, &is_admin)) {
        return ERR_IO;
    }
    return is_admin ? ERR_OK : os_acl_user(sid);
}

enum err os_acl_private(struct os_acl *out, PSID more)
{
    ACL *list = (ACL *)(void *)out->list;
    BYTE system[SECURITY_MAX_SID_SIZE];
    DWORD n = sizeof system, m = sizeof out->administrators;

    if (os_acl_owner(out->owner) || !CreateWellKnownSid(WinLocalSystemSid, NULL, system, &n) ||
        !CreateWellKnownSid(WinBuiltinAdministratorsSid, NULL, out->administrators, &m) ||
        !InitializeAcl(list, sizeof out->list, ACL_REVISION) ||
        !acl_add(list, system, FILE_ALL_ACCESS) ||
        !acl_add(list, out->administrators, FILE_ALL_ACCESS) ||
        (!EqualSid(out->owner, out->administrators) &&
         !acl_add(list, out->owner, FILE_ALL_ACCESS)) ||
        (more && !acl_add(list, more, MODIFY))) {
        return ERR_IO;
    }
    if (!InitializeSecurityDescriptor(&out->descriptor, SECURITY_DESCRIPTOR_REVISION) ||
        !SetSecurityDescriptorOwner(&out->descriptor, out->owner, FALSE) ||
        !SetSecurityDescriptorDacl(&out->descriptor, TRUE, list, FALSE) ||
        !SetSecurityDescriptorControl(&out->descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED)) {
        return ERR_IO;
    }
    out->attributes = (SECURITY_ATTRIBUTES){.nLength = sizeof out->attributes,
                                            .lpSecurityDescriptor = &out->descriptor};
    return ERR_OK;
}
