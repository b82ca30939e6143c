/* What is taken on trust from a directory on Windows: nothing that is another's, open to others or
 * a link. Under Wine a file's list is its mode; owners are tried by tests/windows/e2e_package.py.
 */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_acl_win32.h"
#include "common/os/os_impl_win32.h"
#include "common/os/os_owner.h"
#include "tests/support/support.h"

/* Everybody may do this with it. */
static void let_all(const char *path, DWORD rights)
{
    static SID_IDENTIFIER_AUTHORITY world = {SECURITY_WORLD_SID_AUTHORITY};
    BYTE list[256], sid[SECURITY_MAX_SID_SIZE];
    ACL *acl = (ACL *)(void *)list;
    SECURITY_DESCRIPTOR sd;
    WCHAR wide[OS_WIN32_PATH_UNITS];

    assert_true(os_win32_wide(wide, OS_WIN32_PATH_UNITS, path));
    assert_true(InitializeSid(sid, &world, 1));
    *GetSidSubAuthority(sid, 0) = 0;
    assert_true(InitializeAcl(acl, sizeof list, ACL_REVISION));
    assert_true(AddAccessAllowedAce(acl, ACL_REVISION, rights, sid));
    assert_true(InitializeSecurityDescriptor(&sd, SECURITY_DESCRIPTOR_REVISION));
    assert_true(SetSecurityDescriptorDacl(&sd, TRUE, acl, FALSE));
    assert_true(SetFileSecurityW(wide, DACL_SECURITY_INFORMATION, &sd));
}

static void open_to_all(const char *path)
{
    let_all(path, FILE_ALL_ACCESS);
}

static void show_to_all(const char *path)
{
    let_all(path, FILE_GENERIC_READ);
}

static char *made(const char *dir, const char *name, bool is_dir)
{
    char *path = os_path_join(dir, name);

    assert_non_null(path);
    if (is_dir) {
        assert_ok(os_mkdirs(path, false));
    } else {
        support_write_file(path, "x", 1);
    }
    return path;
}

static void a_claimed_directory_is_closed_with_all_that_is_in_it(void **state)
{
    char *data = made(*state, "data", true), *tls = made(data, "tls", true);
    char *key = made(tls, "agent.key", false);
    struct errmsg why = {""};

    open_to_all(data);
    show_to_all(key);
    assert_err(os_check_private(key), ERR_ACCESS);
    assert_err(os_owner_check(data, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "can be changed by others"));
    assert_non_null(strstr(why.text, "service prepare --data"));
    assert_ok(os_owner_claim(data, NULL, false, &why));
    assert_ok(os_owner_check(data, &why));
    assert_ok(os_check_private(key));
    open_to_all(key); /* deep in it, too */
    assert_err(os_owner_check(data, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "agent.key"));
    assert_non_null(strstr(why.text, "service prepare --accept --data"));
    mem_free(key);
    mem_free(tls);
    mem_free(data);
}

/* What it holds may be theirs, although it belongs to an administrator. */
static void a_file_that_others_could_change_is_kept_only_when_somebody_has_looked(void **state)
{
    char *data = made(*state, "data", true), *config = made(data, "agent.yaml", false);
    struct errmsg why = {""};

    open_to_all(config);
    assert_err(os_owner_claim(data, NULL, false, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "agent.yaml can be changed by others"));
    assert_non_null(strstr(why.text, "look at what it holds"));
    assert_err(os_owner_claim(data, NULL, false, &why), ERR_ACCESS); /* it is still so */
    assert_ok(os_owner_claim(data, NULL, true, &why));
    assert_ok(os_check_private(config));
    assert_ok(os_owner_claim(data, NULL, false, &why));
    mem_free(config);
    mem_free(data);
}

static void what_others_can_move_is_not_above_what_is_trusted(void **state)
{
    char *a = os_path_join(*state, "a"), *c = os_path_join(*state, "a\\c");
    char *data = os_path_join(*state, "a\\b\\data"), *other = os_path_join(*state, "a\\c\\data");
    struct errmsg why = {""};

    assert_ok(os_owner_check_above(data, &why)); /* nothing of it is there */
    assert_ok(os_owner_claim(data, NULL, false, &why));
    assert_ok(os_owner_check_above(data, &why));
    open_to_all(a);
    assert_ok(os_owner_check(data, &why));
    assert_err(os_owner_check_above(data, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "\\a can be moved or given away by others"));
    assert_non_null(strstr(why.text, "only administrators can move"));
    assert_err(os_owner_claim(data, NULL, true, &why), ERR_ACCESS);
    assert_err(os_owner_claim(other, NULL, true, &why), ERR_ACCESS);
    assert_false(os_exists(c));
    assert_ok(os_owner_check_above(a, &why)); /* itself is for others to judge */
    mem_free(other);
    mem_free(data);
    mem_free(c);
    mem_free(a);
}

static void one_that_is_not_there_is_made_private(void **state)
{
    char *dir = os_path_join(*state, "a\\b\\data");
    struct errmsg why = {""};

    assert_ok(os_owner_check(dir, &why));
    assert_ok(os_owner_claim(dir, "NT SERVICE\\procfleet-agent", false, &why));
    assert_ok(os_owner_claim(dir, NULL, false, &why));
    assert_ok(os_check_private(dir));
    mem_free(dir);
}

static void what_is_no_agents_directory_is_left_alone(void **state)
{
    static const char *const roots[] = {"C:\\", "C:", "\\", "C:\\windows", "C:\\windows\\"};
    char *data = made(*state, "data", true), *file = made(data, "letters.txt", false);
    struct errmsg why = {""};

    for (size_t i = 0; i < COUNT_OF(roots); i++) {
        assert_err(os_owner_claim(roots[i], NULL, false, &why), ERR_INVALID);
    }
    open_to_all(file);
    assert_err(os_owner_claim(data, NULL, false, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "not an agent's"));
    assert_err(os_check_private(file), ERR_ACCESS);
    assert_err(os_owner_claim(data, "no such account", false, &why), ERR_NOTFOUND);
    mem_free(file);
    mem_free(data);
}

static void a_file_is_trusted_with_its_directory_alone(void **state)
{
    char *dir = made(*state, "etc", true), *file = made(dir, "agent.yaml", false);
    struct errmsg why = {""};

    assert_ok(os_owner_check_file(file, &why));
    open_to_all(file);
    assert_err(os_owner_check_file(file, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "agent.yaml can be changed by others"));
    assert_ok(os_remove(file));
    assert_ok(os_owner_check_file(file, &why)); /* its reader says that it is missing */
    support_write_file(file, "x", 1);
    open_to_all(dir);
    assert_err(os_owner_check_file(file, &why), ERR_ACCESS);
    mem_free(file);
    mem_free(dir);
}

/* A program loads what lies beside it. */
static void a_library_of_others_beside_programs_is_refused(void **state)
{
    char *dir = made(*state, "programs", true), *library = made(dir, "bcrypt.dll", false);
    struct errmsg why = {""};

    assert_ok(os_owner_check_programs(dir, &why));
    open_to_all(library);
    assert_err(os_owner_check_programs(dir, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "bcrypt.dll can be changed by others"));
    assert_non_null(strstr(why.text, "in a directory that only administrators can change"));
    mem_free(library);
    mem_free(dir);
}

/* A file of two names: the other one may be anywhere. */
static void what_is_a_link_is_refused(void **state)
{
    char *data = made(*state, "data", true), *link = made(data, "lock", false);
    char *other = os_path_join(*state, "other");
    struct errmsg why = {""};
    WCHAR from[OS_WIN32_PATH_UNITS], to[OS_WIN32_PATH_UNITS];

    assert_true(os_win32_wide(from, OS_WIN32_PATH_UNITS, link));
    assert_true(os_win32_wide(to, OS_WIN32_PATH_UNITS, other));
    assert_true(CreateHardLinkW(to, from, NULL));
    assert_err(os_owner_check(data, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "is a link to another place"));
    assert_err(os_owner_claim(data, NULL, false, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "nothing in it is trusted"));
    assert_err(os_check_private(link), ERR_ACCESS);
    mem_free(other);
    mem_free(link);
    mem_free(data);
}

/* On the drive that Wine has for itself: what is above others is this machine's, not Windows'. */
static int make_dir(void **state)
{
    uint64_t id;

    assert_ok(os_random(&id, sizeof id));
    (void)snprintf(*state, 256, "C:\\procfleet-%016llx", (unsigned long long)id);
    return os_mkdirs(*state, true);
}

#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, make_dir, support_dir_teardown, dir)

int main(void)
{
    static char dir[256];
    const struct CMUnitTest tests[] = {
        TEST(a_claimed_directory_is_closed_with_all_that_is_in_it),
        TEST(a_file_that_others_could_change_is_kept_only_when_somebody_has_looked),
        TEST(what_others_can_move_is_not_above_what_is_trusted),
        TEST(one_that_is_not_there_is_made_private),
        TEST(what_is_no_agents_directory_is_left_alone),
        TEST(a_file_is_trusted_with_its_directory_alone),
        TEST(a_library_of_others_beside_programs_is_refused),
        TEST(what_is_a_link_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
