/* Who holds the trace sessions of this host, and who only says so. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/source/windows/etw_owner.h"
#include "common/os/win32.h"

#define NAME L"Global\\procfleet-agent-sessions"

static HANDLE squat(const WCHAR *list)
{
    SECURITY_ATTRIBUTES attributes = {.nLength = sizeof attributes};
    HANDLE mutex;

    assert_true(ConvertStringSecurityDescriptorToSecurityDescriptorW(
        list, SDDL_REVISION_1, &attributes.lpSecurityDescriptor, NULL));
    mutex = CreateMutexW(&attributes, FALSE, NAME);
    assert_non_null(mutex);
    LocalFree(attributes.lpSecurityDescriptor);
    return mutex;
}

static void one_agent_holds_them(void **state)
{
    struct etw_owner *first = NULL, *second = NULL;
    struct errmsg why = {""};

    assert_ok(etw_owner_take(&first, &why));
    assert_err(etw_owner_take(&second, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, "another agent"));
    etw_owner_give(first);
    assert_ok(etw_owner_take(&second, &why));
    etw_owner_give(second);
    etw_owner_give(NULL);
}

static void a_name_taken_by_a_stranger_does_not_count(void **state)
{
    static const struct {
        const WCHAR *list;
        enum err e;
    } rows[] = {
        {L"O:S-1-5-21-1-2-3-1002D:(A;;GA;;;WD)", ERR_OK},
        {L"O:S-1-5-21-1-2-3-1002D:(D;;GA;;;WD)", ERR_OK}, /* not even to be looked at */
        {L"O:S-1-5-80-1-2-3-4-5D:(A;;GA;;;WD)", ERR_OK},  /* another service */
        {L"O:SYD:(A;;GA;;;SY)(A;;RC;;;WD)", ERR_BUSY},
        {L"O:BAD:(A;;GA;;;WD)", ERR_BUSY},
        {L"O:S-1-5-80-4023477956-3645670931-1151848334-2445372206-3151096216D:(A;;GA;;;WD)",
         ERR_BUSY},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        HANDLE there = squat(rows[i].list);
        struct etw_owner *o = NULL;
        struct errmsg why = {""};
        enum err e = etw_owner_take(&o, &why);

        if (e != rows[i].e) {
            fail_msg("row %u: %s, %s", (unsigned)i, err_name(e), why.text);
        }
        etw_owner_give(o);
        CloseHandle(there);
    }
}

/* Names are shared with events, semaphores, jobs and timers. */
static void an_object_of_another_kind_does_not_count(void **state)
{
    HANDLE there = CreateEventW(NULL, TRUE, FALSE, NAME);
    struct etw_owner *o = NULL;
    struct errmsg why = {""};

    assert_non_null(there);
    assert_ok(etw_owner_take(&o, &why));
    etw_owner_give(o);
    CloseHandle(there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_agent_holds_them),
        cmocka_unit_test(a_name_taken_by_a_stranger_does_not_count),
        cmocka_unit_test(an_object_of_another_kind_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
