/* Who may read a private file on Windows: lists as hosts have them. */
#include "tests/support/t.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_acl_win32.h"
#include "common/os/os_impl_win32.h"
#include "tests/support/support.h"

struct who {
    DWORD n, sub[6]; /* below S-1-5; n = 0: S-1-1-0, everybody */
};

#define EVERYBODY \
    {             \
        0,        \
        {         \
            0     \
        }         \
    }
#define SYSTEM \
    {          \
        1,     \
        {      \
            18 \
        }      \
    }
#define ADMINISTRATORS \
    {                  \
        2,             \
        {              \
            32, 544    \
        }              \
    }
#define USERS       \
    {               \
        2,          \
        {           \
            32, 545 \
        }           \
    }
#define AUTHENTICATED \
    {                 \
        1,            \
        {             \
            11        \
        }             \
    }
#define ALICE                 \
    {                         \
        5,                    \
        {                     \
            21, 1, 2, 3, 1001 \
        }                     \
    }
#define BOB                   \
    {                         \
        5,                    \
        {                     \
            21, 1, 2, 3, 1002 \
        }                     \
    }
#define OUR_SERVICE                                                        \
    {                                                                      \
        6,                                                                 \
        {                                                                  \
            80, 4023477956, 3645670931, 1151848334, 2445372206, 3151096216 \
        }                                                                  \
    }
#define INSTALLER                                                         \
    {                                                                     \
        6,                                                                \
        {                                                                 \
            80, 956008885, 3418522649, 1831038044, 1853292631, 2271478464 \
        }                                                                 \
    }
#define OTHER_SERVICE         \
    {                         \
        6,                    \
        {                     \
            80, 1, 2, 3, 4, 5 \
        }                     \
    }
#define ALL_SERVICES \
    {                \
        2,           \
        {            \
            80, 0    \
        }            \
    }

static void sid_of(BYTE sid[SECURITY_MAX_SID_SIZE], const struct who *w)
{
    static SID_IDENTIFIER_AUTHORITY nt = {SECURITY_NT_AUTHORITY},
                                    world = {SECURITY_WORLD_SID_AUTHORITY};

    assert_true(InitializeSid(sid, w->n ? &nt : &world, (BYTE)(w->n ? w->n : 1)));
    *GetSidSubAuthority(sid, 0) = 0;
    for (DWORD i = 0; i < w->n; i++) {
        *GetSidSubAuthority(sid, i) = w->sub[i];
    }
}

struct entry {
    struct who who;
    DWORD mask;
    BYTE flags;
    bool deny;
};

/* Whose it is; we are Bob. */
static enum err judge_of(const struct who *whose, const struct entry *entries, size_t n,
                         enum os_acl_use use)
{
    static const struct who bob = BOB;
    BYTE list[1024], owner[SECURITY_MAX_SID_SIZE], user[SECURITY_MAX_SID_SIZE];
    BYTE sid[SECURITY_MAX_SID_SIZE];
    ACL *acl = (ACL *)(void *)list;
    SECURITY_DESCRIPTOR sd;

    sid_of(owner, whose);
    sid_of(user, &bob);
    assert_true(InitializeAcl(acl, sizeof list, ACL_REVISION));
    for (size_t i = 0; i < n; i++) {
        sid_of(sid, &entries[i].who);
        assert_true(entries[i].deny ? AddAccessDeniedAce(acl, ACL_REVISION, entries[i].mask, sid)
                                    : AddAccessAllowedAceEx(acl, ACL_REVISION, entries[i].flags,
                                                            entries[i].mask, sid));
    }
    assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
    assert_true(SetSecurityDescriptorOwner(&sd, owner, FALSE));
    assert_true(SetSecurityDescriptorDacl(&sd, TRUE, acl, FALSE));
    return os_acl_judge(&sd, user, use);
}

static enum err judge(const struct entry *entries, size_t n)
{
    static const struct who administrators = ADMINISTRATORS;

    return judge_of(&administrators, entries, n, OS_ACL_SEE);
}

static void only_self_system_administrators_and_our_service_are_trusted(void **state)
{
    static const struct {
        struct entry entry;
        enum err e;
    } rows[] = {
        {{SYSTEM, FILE_ALL_ACCESS, 0, false}, ERR_OK},
        {{ADMINISTRATORS, FILE_ALL_ACCESS, 0, false}, ERR_OK},
        {{ALICE, FILE_ALL_ACCESS, 0, false}, ERR_ACCESS},
        {{BOB, FILE_GENERIC_READ, 0, false}, ERR_OK},
        {{OUR_SERVICE, FILE_GENERIC_READ, 0, false}, ERR_OK},
        {{OTHER_SERVICE, FILE_GENERIC_READ, 0, false}, ERR_ACCESS},
        {{INSTALLER, FILE_ALL_ACCESS, 0, false}, ERR_OK},
        {{ALL_SERVICES, FILE_GENERIC_READ, 0, false}, ERR_ACCESS},
        {{EVERYBODY, FILE_GENERIC_READ, 0, false}, ERR_ACCESS},
        {{USERS, FILE_GENERIC_READ, 0, false}, ERR_ACCESS},
        {{AUTHENTICATED, FILE_READ_DATA, 0, false}, ERR_ACCESS},
        {{{5, {21, 1, 2, 3, 1003}}, FILE_READ_DATA, 0, false}, ERR_ACCESS},
        {{USERS, FILE_WRITE_DATA, 0, false}, ERR_ACCESS},
        {{USERS, WRITE_DAC, 0, false}, ERR_ACCESS},
        {{USERS, GENERIC_ALL, 0, false}, ERR_ACCESS},
        {{USERS, FILE_READ_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE, 0, false}, ERR_OK},
        {{USERS, FILE_ALL_ACCESS, INHERIT_ONLY_ACE | OBJECT_INHERIT_ACE, false}, ERR_OK},
        {{EVERYBODY, FILE_ALL_ACCESS, 0, true}, ERR_OK},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct entry both[] = {{SYSTEM, FILE_ALL_ACCESS, 0, false}, rows[i].entry};

        if (judge(both, 2) != rows[i].e) {
            fail_msg("row %u", (unsigned)i);
        }
    }
}

/* Windows lets users make files of theirs in C:\ProgramData and at the top of a volume: that moves
 * nothing of ours. At the top of other volumes they may "modify", and nobody can move that. */
static void who_may_make_things_above_may_not_move_ours(void **state)
{
    static const struct who system = SYSTEM, alice = ALICE;
    static const struct {
        DWORD mask;
        enum err move, top;
    } rows[] = {
        {FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY | FILE_WRITE_EA | FILE_WRITE_ATTRIBUTES, ERR_OK,
         ERR_OK},
        {FILE_GENERIC_READ | FILE_GENERIC_WRITE | DELETE, ERR_ACCESS, ERR_OK},
        {FILE_DELETE_CHILD, ERR_ACCESS, ERR_ACCESS},
        {WRITE_DAC, ERR_ACCESS, ERR_ACCESS},
        {WRITE_OWNER, ERR_ACCESS, ERR_ACCESS},
        {GENERIC_ALL, ERR_ACCESS, ERR_ACCESS},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct entry users = {USERS, rows[i].mask, 0, false};

        assert_err(judge_of(&system, &users, 1, OS_ACL_MOVE), rows[i].move);
        assert_err(judge_of(&system, &users, 1, OS_ACL_TOP), rows[i].top);
    }
    assert_err(judge_of(&alice, NULL, 0, OS_ACL_TOP), ERR_ACCESS);
}

/* An entry for objects of a directory service lets whom it names use a file, too, when it names no
 * kind of object. */
static void an_entry_laid_out_otherwise_is_not_passed_over(void **state)
{
    static const struct {
        BYTE type;
        enum err e;
    } rows[] = {{ACCESS_ALLOWED_OBJECT_ACE_TYPE, ERR_ACCESS},
                {ACCESS_ALLOWED_CALLBACK_OBJECT_ACE_TYPE, ERR_ACCESS},
                {ACCESS_ALLOWED_COMPOUND_ACE_TYPE, ERR_ACCESS},
                {ACCESS_DENIED_OBJECT_ACE_TYPE, ERR_OK},
                {ACCESS_DENIED_CALLBACK_ACE_TYPE, ERR_OK}};
    static const struct who system = SYSTEM, alice = ALICE;
    BYTE list[256], owner[SECURITY_MAX_SID_SIZE], sid[SECURITY_MAX_SID_SIZE];
    ACL *acl = (ACL *)(void *)list;

    sid_of(owner, &system);
    sid_of(sid, &alice);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        SECURITY_DESCRIPTOR sd;
        void *ace;

        assert_true(InitializeAcl(acl, sizeof list, ACL_REVISION_DS));
        assert_true(AddAccessAllowedAceEx(acl, ACL_REVISION_DS, 0, FILE_ALL_ACCESS, sid));
        assert_true(GetAce(acl, 0, &ace));
        ((ACE_HEADER *)ace)->AceType = rows[i].type;
        assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
        assert_true(SetSecurityDescriptorOwner(&sd, owner, FALSE));
        assert_true(SetSecurityDescriptorDacl(&sd, TRUE, acl, FALSE));
        if (os_acl_judge(&sd, NULL, OS_ACL_CHANGE) != rows[i].e) {
            fail_msg("row %u", (unsigned)i);
        }
    }
}

static void an_empty_list_is_private_and_none_is_not(void **state)
{
    SECURITY_DESCRIPTOR sd;
    BYTE user[SECURITY_MAX_SID_SIZE];
    static const struct who bob = BOB;

    assert_ok(judge(NULL, 0));
    sid_of(user, &bob);
    assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
    assert_err(os_acl_judge(&sd, user, OS_ACL_SEE), ERR_ACCESS);
    assert_true(SetSecurityDescriptorDacl(&sd, TRUE, NULL, FALSE));
    assert_err(os_acl_judge(&sd, user, OS_ACL_SEE), ERR_ACCESS);
}

static void what_is_made_private_is_found_private_by_whoever_is_trusted(void **state)
{
    struct os_acl acl;
    BYTE user[SECURITY_MAX_SID_SIZE];
    static const struct who stranger = {5, {21, 9, 9, 9, 9}};

    assert_ok(os_acl_private(&acl, NULL));
    assert_ok(os_acl_judge(&acl.descriptor, acl.owner, OS_ACL_SEE));
    /* The tests' user is an administrator under Wine: for the service, who is another, the list
     * must not name the person who installed it. */
    sid_of(user, &stranger);
    assert_ok(os_acl_judge(&acl.descriptor, user, OS_ACL_SEE));
    assert_ok(os_acl_private(&acl, user));
    assert_err(os_acl_judge(&acl.descriptor, acl.owner, OS_ACL_CHANGE), ERR_ACCESS);
}

static void to_read_is_not_to_change(void **state)
{
    static const struct who administrators = ADMINISTRATORS;
    static const struct {
        DWORD mask;
        enum err e;
    } rows[] = {
        {FILE_GENERIC_READ | FILE_GENERIC_EXECUTE, ERR_OK},
        {FILE_WRITE_DATA, ERR_ACCESS},
        {FILE_APPEND_DATA, ERR_ACCESS},
        {FILE_DELETE_CHILD, ERR_ACCESS},
        {DELETE, ERR_ACCESS},
        {FILE_WRITE_ATTRIBUTES, ERR_ACCESS}, /* makes an empty directory a junction */
        {WRITE_OWNER, ERR_ACCESS},
        {WRITE_DAC, ERR_ACCESS},
        {GENERIC_WRITE, ERR_ACCESS},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct entry users = {USERS, rows[i].mask, 0, false};

        if (judge_of(&administrators, &users, 1, OS_ACL_CHANGE) != rows[i].e) {
            fail_msg("mask %#lx", rows[i].mask);
        }
    }
}

static void an_owner_who_is_not_trusted_spoils_everything(void **state)
{
    static const struct who owners[] = {ALICE, BOB, SYSTEM, INSTALLER, OUR_SERVICE, OTHER_SERVICE};
    static const enum err expected[] = {ERR_ACCESS, ERR_OK, ERR_OK, ERR_OK, ERR_OK, ERR_ACCESS};
    struct entry fine = {SYSTEM, FILE_ALL_ACCESS, 0, false};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        assert_int_equal(judge_of(&owners[i], &fine, 1, OS_ACL_SEE), expected[i]);
        assert_int_equal(judge_of(&owners[i], &fine, 1, OS_ACL_CHANGE), expected[i]);
    }
}

/* Under Wine few names have a number; that of everybody serves. */
static void whom_the_service_runs_as_is_trusted(void **state)
{
    static const WCHAR key[] = L"SYSTEM\\CurrentControlSet\\Services\\procfleet-agent";
    static const WCHAR name[] = L"Everyone";
    struct entry theirs = {EVERYBODY, FILE_ALL_ACCESS, 0, false};

    assert_err(judge(&theirs, 1), ERR_ACCESS);
    if (RegSetKeyValueW(HKEY_LOCAL_MACHINE, key, L"ObjectName", REG_SZ, name, sizeof name)) {
        return; /* a system that is somebody's: we may not write there */
    }
    assert_ok(judge(&theirs, 1));
    assert_int_equal(RegDeleteTreeW(HKEY_LOCAL_MACHINE, key), 0);
    assert_err(judge(&theirs, 1), ERR_ACCESS);
    assert_ok(os_acl_also_trust(name));
    assert_ok(judge(&theirs, 1));
    assert_err(os_acl_also_trust(L"no such account"), ERR_NOTFOUND);
    assert_err(judge(&theirs, 1), ERR_ACCESS);
}

/* As the system makes it: SHA-1 of the name in capitals, UTF-16. */
static void the_account_of_our_service_is_known_before_there_is_one(void **state)
{
    static const WCHAR *const names[] = {L"PROCFLEET-AGENT", L"TRUSTEDINSTALLER"};
    static const struct who known[] = {OUR_SERVICE, INSTALLER};
    BYTE sid[SECURITY_MAX_SID_SIZE], wanted[SECURITY_MAX_SID_SIZE];
    BCRYPT_ALG_HANDLE sha1;
    DWORD sum[5];

    assert_int_equal(BCryptOpenAlgorithmProvider(&sha1, BCRYPT_SHA1_ALGORITHM, NULL, 0), 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        BCRYPT_HASH_HANDLE hash;

        assert_int_equal(BCryptCreateHash(sha1, &hash, NULL, 0, NULL, 0, 0), 0);
        assert_int_equal(
            BCryptHashData(hash, (BYTE *)names[i], (ULONG)(wcslen(names[i]) * sizeof *names[i]), 0),
            0);
        assert_int_equal(BCryptFinishHash(hash, (BYTE *)sum, sizeof sum, 0), 0);
        BCryptDestroyHash(hash);
        for (size_t k = 0; k < COUNT_OF(sum); k++) {
            assert_int_equal(sum[k], known[i].sub[k + 1]);
        }
    }
    BCryptCloseAlgorithmProvider(sha1, 0);
    sid_of(wanted, &known[0]);
    assert_ok(os_acl_account(sid, L"nt service\\procfleet-agent"));
    assert_true(EqualSid(sid, wanted));
    assert_err(os_acl_account(sid, L"no such account"), ERR_NOTFOUND);
    assert_ok(os_acl_account(sid, L"LocalSystem")); /* which no lookup knows */
    assert_true(IsWellKnownSid(sid, WinLocalSystemSid));
}

static void a_key_opened_to_others_is_refused(void **state)
{
    char dir[256], *path;
    WCHAR wide[512];
    BYTE list[256], sid[SECURITY_MAX_SID_SIZE];
    ACL *acl = (ACL *)(void *)list;
    static const struct who everybody = EVERYBODY;
    SECURITY_DESCRIPTOR sd;

    path = os_path_join(support_temp_dir(dir, sizeof dir), "key");
    assert_err(os_check_private(path), ERR_NOTFOUND);
    assert_ok(os_write_file(path, "x", 1, true));
    assert_ok(os_check_private(path));
    assert_true(MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 512));
    sid_of(sid, &everybody);
    assert_true(InitializeAcl(acl, sizeof list, ACL_REVISION));
    assert_true(AddAccessAllowedAce(acl, ACL_REVISION, FILE_ALL_ACCESS, sid));
    assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
    assert_true(SetSecurityDescriptorDacl(&sd, TRUE, acl, FALSE));
    assert_true(SetFileSecurityW(wide, DACL_SECURITY_INFORMATION, &sd));
    assert_err(os_check_private(path), ERR_ACCESS);
    mem_free(path);
    support_remove_dir(dir);
}

static void a_read_only_disk_is_no_matter_of_rights(void **state)
{
    SetLastError(ERROR_WRITE_PROTECT);
    assert_string_equal(err_text(os_win32_last_error()), "the disk is read-only");
    SetLastError(ERROR_ACCESS_DENIED);
    assert_err(os_win32_last_error(), ERR_ACCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_self_system_administrators_and_our_service_are_trusted),
        cmocka_unit_test(who_may_make_things_above_may_not_move_ours),
        cmocka_unit_test(an_entry_laid_out_otherwise_is_not_passed_over),
        cmocka_unit_test(an_empty_list_is_private_and_none_is_not),
        cmocka_unit_test(what_is_made_private_is_found_private_by_whoever_is_trusted),
        cmocka_unit_test(to_read_is_not_to_change),
        cmocka_unit_test(an_owner_who_is_not_trusted_spoils_everything),
        cmocka_unit_test(whom_the_service_runs_as_is_trusted),
        cmocka_unit_test(the_account_of_our_service_is_known_before_there_is_one),
        cmocka_unit_test(a_key_opened_to_others_is_refused),
        cmocka_unit_test(a_read_only_disk_is_no_matter_of_rights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
