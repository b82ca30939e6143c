/* The access lists of event tracing, kept by a double of the system's three functions. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/service/service_account_win32.h"

#define LISTS 8

/* Lists as the system keeps them: by GUID, an ACL each. */
static struct {
    struct kept {
        GUID guid;
        BYTE acl[512];
        bool used;
    } lists[LISTS];
    ULONG fail;                            /* what the next calls of control give */
    unsigned set;                          /* calls that replaced a list */
    unsigned calls, fail_from, fail_times; /* of control; these fail */
} sys;

static const GUID kernel = {
    0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}};
static const uint8_t sessions[][16] = {{1}, {2}, {3}};

static struct kept *list_of(const GUID *guid, bool make)
{
    for (size_t i = 0; i < LISTS; i++) {
        if (sys.lists[i].used && IsEqualGUID(&sys.lists[i].guid, guid)) {
            return &sys.lists[i];
        }
    }
    for (size_t i = 0; make && i < LISTS; i++) {
        if (!sys.lists[i].used) {
            sys.lists[i] = (struct kept){.guid = *guid, .used = true};
            assert_true(InitializeAcl((ACL *)(void *)sys.lists[i].acl, 512, ACL_REVISION));
            return &sys.lists[i];
        }
    }
    return NULL;
}

static ULONG WINAPI control(GUID *guid, ULONG how, PSID sid, ULONG rights, BOOLEAN allow)
{
    unsigned call = sys.calls++;
    struct kept *k = sys.fail ? NULL : list_of(guid, true);
    ACL *acl;

    if (!k || (call >= sys.fail_from && call < sys.fail_from + sys.fail_times)) {
        return sys.fail ? sys.fail : ERROR_INVALID_PARAMETER;
    }
    acl = (ACL *)(void *)k->acl;
    if (how == EventSecuritySetDACL) {
        sys.set++;
        assert_true(InitializeAcl(acl, sizeof k->acl, ACL_REVISION));
    } else {
        assert_int_equal(how, EventSecurityAddDACL);
    }
    assert_true(allow ? AddAccessAllowedAce(acl, ACL_REVISION, rights, sid)
                      : AddAccessDeniedAce(acl, ACL_REVISION, rights, sid));
    return ERROR_SUCCESS;
}

static ULONG WINAPI query(GUID *guid, void *out, ULONG *n)
{
    struct kept *k = list_of(guid, false);
    SECURITY_DESCRIPTOR sd;
    DWORD size = *n;

    if (!k) {
        return ERROR_FILE_NOT_FOUND;
    }
    assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
    assert_true(SetSecurityDescriptorDacl(&sd, TRUE, (ACL *)(void *)k->acl, FALSE));
    assert_true(MakeSelfRelativeSD(&sd, out, &size));
    *n = size;
    return ERROR_SUCCESS;
}

static ULONG WINAPI drop(GUID *guid)
{
    struct kept *k = list_of(guid, false);

    assert_false(IsEqualGUID(guid, &kernel)); /* Windows' own would go with ours */
    if (!k) {
        return ERROR_FILE_NOT_FOUND;
    }
    k->used = false;
    return ERROR_SUCCESS;
}

static const struct service_account_api api = {control, query, drop};

static void sid_of(BYTE sid[SECURITY_MAX_SID_SIZE], DWORD rid)
{
    static SID_IDENTIFIER_AUTHORITY nt = {SECURITY_NT_AUTHORITY};

    assert_true(InitializeSid(sid, &nt, 1));
    *GetSidSubAuthority(sid, 0) = rid;
}

static DWORD rights_of(const GUID *guid, PSID sid)
{
    struct kept *k = list_of(guid, false);
    ACL *acl = k ? (ACL *)(void *)k->acl : NULL;
    DWORD rights = 0;
    void *at;

    for (DWORD i = 0; acl && i < acl->AceCount; i++) {
        assert_true(GetAce(acl, i, &at));
        if (EqualSid((PSID)(void *)&((ACCESS_ALLOWED_ACE *)at)->SidStart, sid)) {
            rights |= ((ACCESS_ALLOWED_ACE *)at)->Mask;
        }
    }
    return rights;
}

static int begin(void **state)
{
    BYTE system[SECURITY_MAX_SID_SIZE], guests[SECURITY_MAX_SID_SIZE];
    GUID guid = kernel;

    memset(&sys, 0, sizeof sys);
    sid_of(system, 18);
    sid_of(guests, 7);
    assert_int_equal(control(&guid, EventSecurityAddDACL, guests, 0x10, FALSE), 0);
    assert_int_equal(control(&guid, EventSecurityAddDACL, system, 0x1fff, TRUE), 0);
    return 0;
}

static void an_account_may_set_flags_and_run_the_sessions(void **state)
{
    BYTE us[SECURITY_MAX_SID_SIZE];
    GUID guid;

    sid_of(us, 1234);
    assert_ok(service_account_access_grant(&api, us, sessions, COUNT_OF(sessions)));
    assert_int_equal(rights_of(&kernel, us), 0x81); /* query, enable */
    for (size_t i = 0; i < COUNT_OF(sessions); i++) {
        memcpy(&guid, sessions[i], sizeof guid);
        assert_int_equal(rights_of(&guid, us), 0x4a1); /* and start, read */
    }
}

static void what_is_given_is_taken_and_nothing_else(void **state)
{
    BYTE us[SECURITY_MAX_SID_SIZE], system[SECURITY_MAX_SID_SIZE], guests[SECURITY_MAX_SID_SIZE];
    GUID guid;

    sid_of(us, 1234);
    sid_of(system, 18);
    sid_of(guests, 7);
    assert_ok(service_account_access_grant(&api, us, sessions, COUNT_OF(sessions)));
    assert_ok(service_account_access_revoke(&api, us, sessions, COUNT_OF(sessions), NULL));
    assert_int_equal(rights_of(&kernel, us), 0);
    assert_int_equal(rights_of(&kernel, system), 0x1fff);
    assert_int_equal(rights_of(&kernel, guests), 0x10);
    assert_int_equal(sys.set, 1);
    for (size_t i = 0; i < COUNT_OF(sessions); i++) {
        memcpy(&guid, sessions[i], sizeof guid);
        assert_null(list_of(&guid, false));
    }
    assert_ok(service_account_access_revoke(&api, us, sessions, COUNT_OF(sessions), NULL));
    assert_int_equal(sys.set, 1); /* a list without us is not written */
}

/* An empty list would shut everybody out. */
static void a_list_of_us_alone_stays(void **state)
{
    BYTE us[SECURITY_MAX_SID_SIZE];
    GUID guid = kernel;

    sid_of(us, 1234);
    assert_int_equal(control(&guid, EventSecuritySetDACL, us, 0x81, TRUE), 0);
    sys.set = 0;
    assert_ok(service_account_access_revoke(&api, us, sessions, COUNT_OF(sessions), NULL));
    assert_int_equal(sys.set, 0);
    assert_int_equal(rights_of(&kernel, us), 0x81);
}

/* One call or all from any of them on: an entry of Windows' own is there, or is said to be missing.
 */
static void taking_fails_halfway_and_costs_no_entry_in_silence(void **state)
{
    BYTE us[SECURITY_MAX_SID_SIZE], system[SECURITY_MAX_SID_SIZE], guests[SECURITY_MAX_SID_SIZE];

    sid_of(us, 1234);
    sid_of(system, 18);
    sid_of(guests, 7);
    for (unsigned i = 0; i < 12; i++) {
        struct errmsg why = {""};
        int lost;
        enum err e;

        begin(state);
        assert_ok(service_account_access_grant(&api, us, sessions, COUNT_OF(sessions)));
        sys.calls = 0;
        sys.fail_from = i % 6;
        sys.fail_times = i < 6 ? 1 : 100;
        e = service_account_access_revoke(&api, us, sessions, COUNT_OF(sessions), &why);
        lost = !rights_of(&kernel, system) + !rights_of(&kernel, guests);
        assert_int_equal(e != ERR_OK, why.text[0] != '\0');
        assert_true(lost == 0 || (lost == 1 && strstr(why.text, "entry of S-1-5-18")));
        assert_true(i >= 6 || e == ERR_OK); /* it is tried again */
    }
}

static void a_refusal_is_reported(void **state)
{
    BYTE us[SECURITY_MAX_SID_SIZE];

    sid_of(us, 1234);
    sys.fail = ERROR_ACCESS_DENIED;
    assert_err(service_account_access_grant(&api, us, sessions, COUNT_OF(sessions)), ERR_ACCESS);
    sys.fail = ERROR_INVALID_PARAMETER;
    assert_err(service_account_access_grant(&api, us, sessions, COUNT_OF(sessions)), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_account_may_set_flags_and_run_the_sessions, begin),
        cmocka_unit_test_setup(what_is_given_is_taken_and_nothing_else, begin),
        cmocka_unit_test_setup(a_list_of_us_alone_stays, begin),
        cmocka_unit_test_setup(taking_fails_halfway_and_costs_no_entry_in_silence, begin),
        cmocka_unit_test_setup(a_refusal_is_reported, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
