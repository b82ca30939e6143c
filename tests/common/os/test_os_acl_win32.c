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
#define OUR_SERVICE           \
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

/* Owner: Alice; we are Bob. */
static enum err judge(const struct entry *entries, size_t n)
{
    static const struct who alice = ALICE, bob = BOB;
    BYTE list[1024], owner[SECURITY_MAX_SID_SIZE], user[SECURITY_MAX_SID_SIZE];
    BYTE sid[SECURITY_MAX_SID_SIZE];
    ACL *acl = (ACL *)(void *)list;
    SECURITY_DESCRIPTOR sd;

    sid_of(owner, &alice);
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
    return os_acl_judge(&sd, user);
}

static void only_owner_self_system_administrators_and_services_are_trusted(void **state)
{
    static const struct {
        struct entry entry;
        enum err e;
    } rows[] = {
        {{SYSTEM, FILE_ALL_ACCESS, 0, false}, ERR_OK},
        {{ADMINISTRATORS, FILE_ALL_ACCESS, 0, false}, ERR_OK},
        {{ALICE, FILE_ALL_ACCESS, 0, false}, ERR_OK},
        {{BOB, FILE_GENERIC_READ, 0, false}, ERR_OK},
        {{OUR_SERVICE, FILE_GENERIC_READ, 0, false}, ERR_OK},
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

static void an_empty_list_is_private_and_none_is_not(void **state)
{
    SECURITY_DESCRIPTOR sd;
    BYTE user[SECURITY_MAX_SID_SIZE];
    static const struct who bob = BOB;

    assert_ok(judge(NULL, 0));
    sid_of(user, &bob);
    assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
    assert_err(os_acl_judge(&sd, user), ERR_ACCESS);
    assert_true(SetSecurityDescriptorDacl(&sd, TRUE, NULL, FALSE));
    assert_err(os_acl_judge(&sd, user), ERR_ACCESS);
}

static void what_is_made_private_is_found_private(void **state)
{
    struct os_acl acl;
    BYTE user[SECURITY_MAX_SID_SIZE];
    static const struct who stranger = {5, {21, 9, 9, 9, 9}};

    assert_ok(os_acl_private(&acl));
    sid_of(user, &stranger); /* the list names whom we run as */
    assert_err(os_acl_judge(&acl.descriptor, user), ERR_ACCESS);
    assert_ok(os_acl_judge(&acl.descriptor, acl.user));
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
        cmocka_unit_test(only_owner_self_system_administrators_and_services_are_trusted),
        cmocka_unit_test(an_empty_list_is_private_and_none_is_not),
        cmocka_unit_test(what_is_made_private_is_found_private),
        cmocka_unit_test(a_key_opened_to_others_is_refused),
        cmocka_unit_test(a_read_only_disk_is_no_matter_of_rights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
