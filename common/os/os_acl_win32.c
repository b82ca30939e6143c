#include "common/os/os_acl_win32.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/mem.h"

#define DESCRIPTOR_MAX (64u << 10)
#define TOKEN_BYTES    (sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE)
#define SERVICE_RID    80 /* S-1-5-80-…: accounts of services, one each */

/* Whatever shows the content, or would let one change it or the list itself. */
#define ANY_USE                                                                      \
    (FILE_READ_DATA | FILE_WRITE_DATA | FILE_APPEND_DATA | WRITE_DAC | WRITE_OWNER | \
     GENERIC_READ | GENERIC_WRITE | GENERIC_ALL)

static enum err own_user(BYTE sid[SECURITY_MAX_SID_SIZE])
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

/* One service's own account; "all services" has but one number behind the 80. */
static bool is_service(PSID sid)
{
    static const SID_IDENTIFIER_AUTHORITY nt = {SECURITY_NT_AUTHORITY};

    return memcmp(GetSidIdentifierAuthority(sid), &nt, sizeof nt) == 0 &&
           *GetSidSubAuthorityCount(sid) > 2 && *GetSidSubAuthority(sid, 0) == SERVICE_RID;
}

static bool is_trusted(PSID sid, PSID owner, PSID user)
{
    static const WELL_KNOWN_SID_TYPE known[] = {WinLocalSystemSid, WinBuiltinAdministratorsSid,
                                                WinCreatorOwnerSid, WinCreatorOwnerRightsSid};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (IsWellKnownSid(sid, known[i])) {
            return true;
        }
    }
    return (owner && EqualSid(sid, owner)) || (user && EqualSid(sid, user)) || is_service(sid);
}

static bool lets_others(const ACCESS_ALLOWED_ACE *ace, PSID owner, PSID user)
{
    BYTE type = ace->Header.AceType;

    return (type == ACCESS_ALLOWED_ACE_TYPE || type == ACCESS_ALLOWED_CALLBACK_ACE_TYPE) &&
           !(ace->Header.AceFlags & INHERIT_ONLY_ACE) && (ace->Mask & ANY_USE) &&
           !is_trusted((PSID)(void *)&ace->SidStart, owner, user);
}

enum err os_acl_judge(void *descriptor, void *user)
{
    BOOL present, defaulted;
    PSID owner = NULL;
    ACL *acl = NULL;
    void *ace;

    if (!GetSecurityDescriptorDacl(descriptor, &present, &acl, &defaulted) ||
        !GetSecurityDescriptorOwner(descriptor, &owner, &defaulted)) {
        return ERR_INVALID;
    }
    if (!present || !acl) {
        return ERR_ACCESS;
    }
    for (DWORD i = 0; i < acl->AceCount; i++) {
        if (!GetAce(acl, i, &ace) || lets_others(ace, owner, user)) {
            return ERR_ACCESS;
        }
    }
    return ERR_OK;
}

enum err os_acl_check(const WCHAR *path)
{
    const SECURITY_INFORMATION wanted = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    BYTE user[SECURITY_MAX_SID_SIZE];
    void *descriptor;
    DWORD n = 0, code;
    enum err e;

    if (GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES) {
        code = GetLastError();
        return code == ERROR_ACCESS_DENIED ? ERR_ACCESS : ERR_NOTFOUND;
    }
    (void)GetFileSecurityW(path, wanted, NULL, 0, &n);
    if (n == 0 || n > DESCRIPTOR_MAX) {
        return GetLastError() == ERROR_ACCESS_DENIED ? ERR_ACCESS : ERR_IO;
    }
    e = own_user(user);
    if (e) {
        return e;
    }
    descriptor = mem_zalloc(n);
    if (!descriptor) {
        return ERR_NOMEM;
    }
    e = GetFileSecurityW(path, wanted, descriptor, n, &n) ? os_acl_judge(descriptor, user) : ERR_IO;
    mem_free(descriptor);
    return e;
}

enum err os_acl_private(struct os_acl *out)
{
    static const WELL_KNOWN_SID_TYPE known[] = {WinLocalSystemSid, WinBuiltinAdministratorsSid};
    const DWORD down = OBJECT_INHERIT_ACE | CONTAINER_INHERIT_ACE;
    ACL *list = (ACL *)(void *)out->list;
    BYTE sid[SECURITY_MAX_SID_SIZE];
    enum err e = own_user(out->user);

    if (e || !InitializeAcl(list, sizeof out->list, ACL_REVISION) ||
        !AddAccessAllowedAceEx(list, ACL_REVISION, down, FILE_ALL_ACCESS, out->user)) {
        return ERR_IO;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        DWORD n = sizeof sid;

        if (!CreateWellKnownSid(known[i], NULL, sid, &n) ||
            !AddAccessAllowedAceEx(list, ACL_REVISION, down, FILE_ALL_ACCESS, sid)) {
            return ERR_IO;
        }
    }
    if (!InitializeSecurityDescriptor(&out->descriptor, SECURITY_DESCRIPTOR_REVISION) ||
        !SetSecurityDescriptorDacl(&out->descriptor, TRUE, list, FALSE) ||
        !SetSecurityDescriptorControl(&out->descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED)) {
        return ERR_IO;
    }
    out->attributes = (SECURITY_ATTRIBUTES){.nLength = sizeof out->attributes,
                                            .lpSecurityDescriptor = &out->descriptor};
    return ERR_OK;
}
