#include "tests/support/t.h"

#include <stdbool.h>
#include <string.h>

#include "agent/source/windows/right_win32.h"
#include "common/os/win32.h"

/* Whether this process has the right and, if so, whether it is on. */
static bool is_granted(HANDLE token, bool *on)
{
    _Alignas(TOKEN_PRIVILEGES) BYTE bytes[4096];
    TOKEN_PRIVILEGES *all = (TOKEN_PRIVILEGES *)(void *)bytes;
    LUID wanted;
    DWORD n;

    assert_true(LookupPrivilegeValueW(NULL, L"SeSystemProfilePrivilege", &wanted));
    assert_true(GetTokenInformation(token, TokenPrivileges, bytes, sizeof bytes, &n));
    for (DWORD i = 0; i < all->PrivilegeCount; i++) {
        if (memcmp(&all->Privileges[i].Luid, &wanted, sizeof wanted) == 0) {
            *on = (all->Privileges[i].Attributes & SE_PRIVILEGE_ENABLED) != 0;
            return true;
        }
    }
    return false;
}

static void the_right_to_profile_is_on_where_it_is_granted(void **state)
{
    bool on = false, granted;
    HANDLE token;

    assert_true(OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token));
    granted = is_granted(token, &on);
    for (int i = 0; i < 2; i++) {
        assert_err(right_win32_profile(), granted ? ERR_OK : ERR_ACCESS);
        assert_int_equal(is_granted(token, &on), granted);
        assert_int_equal(on, granted);
    }
    CloseHandle(token);
}

/* The last test: it cannot be had back. */
static void without_the_right_it_says_so(void **state)
{
    TOKEN_PRIVILEGES one = {.PrivilegeCount = 1};
    bool on;
    HANDLE token;

    one.Privileges[0].Attributes = SE_PRIVILEGE_REMOVED;
    assert_true(LookupPrivilegeValueW(NULL, L"SeSystemProfilePrivilege", &one.Privileges[0].Luid));
    assert_true(
        OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES, &token));
    assert_true(AdjustTokenPrivileges(token, FALSE, &one, 0, NULL, NULL));
    assert_false(is_granted(token, &on));
    assert_err(right_win32_profile(), ERR_ACCESS);
    CloseHandle(token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_to_profile_is_on_where_it_is_granted),
        cmocka_unit_test(without_the_right_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
