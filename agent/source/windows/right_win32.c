#include "agent/source/windows/right_win32.h"

#include "common/os/win32.h"

/* The call succeeds although nothing was turned on: its last error says so. */
static enum err turn_on(HANDLE token, const WCHAR *name)
{
    TOKEN_PRIVILEGES one = {.PrivilegeCount = 1};

    one.Privileges[0].Attributes = SE_PRIVILEGE_ENABLED;
    if (!LookupPrivilegeValueW(NULL, name, &one.Privileges[0].Luid)) {
        return ERR_IO;
    }
    SetLastError(ERROR_SUCCESS);
    if (!AdjustTokenPrivileges(token, FALSE, &one, 0, NULL, NULL)) {
        return ERR_IO;
    }
    return GetLastError() == ERROR_NOT_ALL_ASSIGNED ? ERR_ACCESS : ERR_OK;
}

enum err right_win32_profile(void)
{
    HANDLE token;
    enum err e;

    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES, &token)) {
        return ERR_IO;
    }
    e = turn_on(token, L"SeSystemProfilePrivilege");
    CloseHandle(token);
    return e;
}
