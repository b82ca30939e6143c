#include "agent/service/service_rights_win32.h"

#include <stdbool.h>
#include <string.h>

#define DOMAIN_UNITS 256
#define REFUSED      ((NTSTATUS)0xC0000022) /* STATUS_ACCESS_DENIED */

static WCHAR right_name[] = L"SeSystemProfilePrivilege";
static LSA_UNICODE_STRING right = {sizeof right_name - sizeof(WCHAR), sizeof right_name,
                                   right_name};

static bool find_account(BYTE sid[SECURITY_MAX_SID_SIZE], const WCHAR *account)
{
    DWORD n = SECURITY_MAX_SID_SIZE, domain_n = DOMAIN_UNITS;
    WCHAR domain[DOMAIN_UNITS];
    SID_NAME_USE use;

    return LookupAccountNameW(NULL, account, sid, &n, domain, &domain_n, &use) != 0;
}

static enum err change(const WCHAR *account, bool grant)
{
    LSA_OBJECT_ATTRIBUTES attributes = {.Length = sizeof attributes};
    BYTE sid[SECURITY_MAX_SID_SIZE];
    LSA_HANDLE policy;
    NTSTATUS status;

    if (!find_account(sid, account)) {
        return ERR_NOTFOUND;
    }
    status = LsaOpenPolicy(NULL, &attributes, POLICY_LOOKUP_NAMES | POLICY_CREATE_ACCOUNT, &policy);
    if (status == 0) {
        status = grant ? LsaAddAccountRights(policy, sid, &right, 1)
                       : LsaRemoveAccountRights(policy, sid, FALSE, &right, 1);
        (void)LsaClose(policy);
    }
    return status == 0 ? ERR_OK : status == REFUSED ? ERR_ACCESS : ERR_UNSUPPORTED;
}

enum err service_rights_grant(const WCHAR *account)
{
    return change(account, true);
}

void service_rights_revoke(const WCHAR *account)
{
    static const WCHAR own[] = L"NT SERVICE\\";

    if (_wcsnicmp(account, own, sizeof own / sizeof *own - 1) == 0) {
        err_ignore(change(account, false));
    }
}
