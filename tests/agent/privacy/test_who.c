#include "tests/support/t.h"

#include "agent/privacy/process_filter.h"
#include "common/base/mem.h"

struct process {
    uint32_t pid, parent;
    const char *name, *command_line;
};

static struct proc_info info_of(const struct process *p)
{
    struct proc_info info = {.id = {.pid = p->pid},
                             .have = INFO_PARENT,
                             .parent_pid = p->parent,
                             .name = str_make(p->name),
                             .command_line = str_make(p->command_line)};

    return info;
}

static bool ask(const struct process_filter_conf *conf, const struct process *p)
{
    struct proc_info info = info_of(p);
    struct process_filter *w;
    bool wanted;

    assert_ok(process_filter_create(&w, conf));
    wanted = process_filter_wants(w, &info);
    process_filter_destroy(w);
    return wanted;
}

static const struct process shell = {30, 1, "bash", "bash"};
static const struct process viewer = {44, 30, "Viewer.EXE", "C:\\x\\Viewer.EXE /a"};
static const struct process nameless = {70, 1, "", ""};
static const struct process idle = {0, 0, "", ""};

static void a_pattern_that_fits_no_name_is_refused(void **state)
{
    static const char *const wrong[] = {"", "/usr/bin/vault", "C:\\x\\*.exe"};

    assert_ok(process_filter_check_name("v*.exe"));
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct process_filter_conf conf = {.except = {.names = &wrong[i], .n_names = 1}};
        struct process_filter *w;

        assert_err(process_filter_check_name(wrong[i]), ERR_INVALID);
        assert_err(process_filter_create(&w, &conf), ERR_INVALID);
    }
}

static void lists_say_who_is_wanted(void **state)
{
    static const uint32_t pids[] = {44, 7, 30};
    static const char *const names[] = {"v*.exe", "sh"};
    static const struct {
        struct process_filter_conf conf;
        const struct process *p;
        bool wanted;
    } rows[] = {
        {{.except_system = false}, &shell, true},
        {{.except_system = false}, &nameless, true},
        {{.only = {.pids = pids, .n_pids = 3}}, &shell, true},
        {{.only = {.pids = pids, .n_pids = 2}}, &shell, false},
        {{.only = {.names = names, .n_names = 2}}, &viewer, true},
        {{.only = {.names = names, .n_names = 2}}, &shell, false},
        {{.only = {.names = names, .n_names = 2}}, &nameless, false},
        /* by number or by name */
        {{.only = {.pids = pids, .n_pids = 3, .names = names, .n_names = 2}}, &shell, true},
        {{.except = {.pids = pids, .n_pids = 3}}, &shell, false},
        {{.except = {.pids = pids, .n_pids = 3}}, &nameless, true},
        {{.except = {.names = names, .n_names = 2}}, &viewer, false},
        {{.except = {.names = names, .n_names = 2}}, &shell, true},
        /* whose name is not known could be one of them */
        {{.except = {.names = names, .n_names = 2}}, &nameless, false},
        /* not these is stronger than only these */
        {{.only = {.pids = pids, .n_pids = 3}, .except = {.names = names, .n_names = 1}},
         &viewer,
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (ask(&rows[i].conf, rows[i].p) != rows[i].wanted) {
            fail_msg("row %zu", i);
        }
    }
}

static void a_name_is_taken_without_its_folder_and_in_either_case(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool fits;
    } rows[] = {
        {"bash", "bash", true},
        {"BASH", "bash", true},
        {"bash", "/usr/bin/bash", true},
        {"notepad.exe", "C:\\Windows\\NOTEPAD.EXE", true},
        {"notepad.exe", "\\Device\\HarddiskVolume3\\Windows\\notepad.exe", true},
        {"note*", "notepad.exe", true},
        {"windows*", "C:\\Windows\\notepad.exe", false},
        {"bash", "bash5", false},
        {"b?sh", "bash", true},
        {"bash", "dir/", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct process_filter_conf conf = {.only = {.names = &rows[i].pattern, .n_names = 1}};
        struct process p = {9, 1, rows[i].name, ""};

        if (ask(&conf, &p) != rows[i].fits) {
            fail_msg("%s against %s", rows[i].pattern, rows[i].name);
        }
    }
}

/* The kernel keeps 15 bytes of a name; whose program cannot be seen may have a longer one. */
static void whose_name_may_be_cut_is_held_back_when_its_end_could_say_no(void **state)
{
    static const struct {
        const char *pattern, *name, *image;
        uint32_t parent;
        bool wanted;
    } rows[] = {
        {"my-secret-service-d", "my-secret-servi", "", 1, false},
        {"my-secret-s?rvice*", "MY-SECRET-SERVI", "", 1, false},
        {"my-secret-service-d", "my-secret-servi", "/x/my-secret-servi", 1, true},
        {"my-secret-service-d", "my-secret-serv", "", 1, true},
        {"my-other-service-d", "my-secret-servi", "", 1, true},
        {"my-secret-service-d", "my-secret-servi", "", 2, true}, /* the kernel's own are whole */
        {"*-helper.exe", "WindowsCore.exe", "", 1, true},        /* and so are those of Windows */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct process_filter_conf conf = {.except = {.names = &rows[i].pattern, .n_names = 1}};
        struct process p = {9, rows[i].parent, rows[i].name, ""};
        struct proc_info info = info_of(&p);
        struct process_filter *w;

        info.image = str_make(rows[i].image);
        assert_ok(process_filter_create(&w, &conf));
        if (process_filter_wants(w, &info) != rows[i].wanted) {
            fail_msg("%s against %s", rows[i].pattern, rows[i].name);
        }
        process_filter_destroy(w);
    }
}

/* A program may run under another name than its file's: a tool of busybox, a link. */
static void who_calls_itself_so_is_left_out_too(void **state)
{
    static const struct {
        const char *name, *command_line;
        bool wanted;
    } rows[] = {
        {"busybox", "vault-agent -x", false},
        {"busybox", "/usr/bin/VAULT x", false},
        {"busybox", "-vault", false},
        {"x.exe", "\"C:\\a b\\vault.exe\" /s", false},
        {"cat", "cat vault", true},
        {"cat", "cat /vault/x", true},
        {"cat", "/opt/vault/cat x", true},
        {"cat", "", true},
        {"dash", "/bin/sh ./vault.sh -x", false},
        {"dash", "/bin/sh -eu /opt/vault.sh", false},
        {"python3.11", "/usr/bin/python3 \"/srv/a b/vault.py\" x", false},
        {"bash", "-bash", true},
        {"bash", "bash -c 'cat vault'", true},
        {"bash", "bash work.sh vault", true},
        {"vim", "vim vault.sh", true},
    };
    static const char *const pattern = "vault*";

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct process_filter_conf conf = {.except = {.names = &pattern, .n_names = 1}};
        struct process p = {9, 1, rows[i].name, rows[i].command_line};

        if (ask(&conf, &p) != rows[i].wanted) {
            fail_msg("%s", rows[i].command_line);
        }
    }
}

static void the_systems_own_processes_are_known(void **state)
{
    static const struct {
        struct process p;
        bool system;
    } rows[] = {
        {{0, 0, "", ""}, true},
        {{0, 0, "Idle", ""}, true},
        {{4, 0, "System", ""}, true},
        {{4, 2, "kworker/0:0H", ""}, true},
        {{4, 1, "System.sh", "sh System.sh"}, false},
        {{72, 4, "Secure System", ""}, true},
        {{108, 4, "Registry", ""}, true},
        {{2100, 4, "Memory Compression", ""}, true},
        {{2100, 4, "MemCompression", ""}, true},
        {{300, 4, "smss.exe", "\\SystemRoot\\System32\\smss.exe"}, false},
        {{400, 300, "Registry", "C:\\evil\\Registry"}, false}, /* a name anybody may take */
        {{2, 0, "kthreadd", ""}, true},
        {{17, 2, "ksoftirqd/0", ""}, true},
        {{17, 2, "sleep", "sleep 60"}, false}, /* in a container 2 may be a shell */
        {{2, 1, "sh", "sh"}, false},
        {{1, 0, "systemd", "/sbin/init"}, false},
    };
    struct process_filter_conf conf = {.except_system = true};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (ask(&conf, &rows[i].p) == rows[i].system) {
            fail_msg("%u %s", rows[i].p.pid, rows[i].p.name);
        }
    }
}

static void the_idle_process_has_a_name(void **state)
{
    static const char *const names[] = {"idle"};
    struct process_filter_conf conf = {.except = {.names = names, .n_names = 1}};

    assert_false(ask(&conf, &idle));
    assert_true(ask(&conf, &shell));
}

/* The answer rests on nothing but what is known of the process: asked again in any order, among any
 * others, it is the same. */
static void the_same_process_gets_the_same_answer(void **state)
{
    static const char *const names[] = {"a*", "?b", "c"};
    static const uint32_t pids[] = {3, 5, 8};
    static const char *const pool[] = {"", "a", "ab", "b", "c", "cc", "System", "Registry"};
    struct process_filter_conf conf = {
        .only = {.names = names, .n_names = 3, .pids = pids, .n_pids = 3},
        .except = {.names = &pool[2], .n_names = 1},
        .except_system = true};
    bool first[10][COUNT_OF(pool)] = {{false}};
    uint32_t dice = 12345;
    struct process_filter *w;

    assert_ok(process_filter_create(&w, &conf));
    for (int round = 0; round < 20000; round++) {
        uint32_t pid, name;
        struct proc_info info;
        bool wanted;

        dice = dice * 1664525u + 1013904223u;
        pid = round < 80 ? (uint32_t)round % 10 : (dice >> 8) % 10;
        name = round < 80 ? (uint32_t)round / 10 : (dice >> 16) % COUNT_OF(pool);
        info = info_of(&(struct process){pid, 1, pool[name], ""});
        wanted = process_filter_wants(w, &info);
        if (round < 80) {
            first[pid][name] = wanted;
        }
        assert_int_equal(wanted, first[pid][name]);
    }
    assert_true(first[3][1]);
    assert_false(first[3][2]);
    assert_true(first[9][4]);
    assert_false(first[9][5]);
    process_filter_destroy(w);
}

static void too_many_and_empty_ones_are_refused(void **state)
{
    static uint32_t pids[PROCESS_FILTER_PIDS_MAX + 1];
    static const char *names[PROCESS_FILTER_NAMES_MAX + 1];
    struct process_filter_conf conf = {.only = {.pids = pids, .n_pids = PROCESS_FILTER_PIDS_MAX}};
    struct process_filter *w;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        names[i] = "x";
    }
    assert_ok(process_filter_create(&w, &conf));
    process_filter_destroy(w);
    conf.only.n_pids++;
    assert_err(process_filter_create(&w, &conf), ERR_FULL);
    conf = (struct process_filter_conf){
        .except = {.names = names, .n_names = PROCESS_FILTER_NAMES_MAX}};
    assert_ok(process_filter_create(&w, &conf));
    process_filter_destroy(w);
    conf.except.n_names++;
    assert_err(process_filter_create(&w, &conf), ERR_FULL);
    names[1] = "";
    conf.except.n_names = 2;
    assert_err(process_filter_create(&w, &conf), ERR_INVALID);
}

static void numbers_are_read_strictly(void **state)
{
    static const char *const bad[] = {
        "", "x", "-1", "+1", " 1", "1 ", "1x", "4294967296", "99999999999999999999"};
    uint32_t pid = 7;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(process_filter_parse_pid(&pid, bad[i]), ERR_INVALID);
    }
    assert_int_equal(pid, 7);
    assert_ok(process_filter_parse_pid(&pid, "4294967295"));
    assert_int_equal(pid, UINT32_MAX);
    assert_ok(process_filter_parse_pid(&pid, "0"));
    assert_int_equal(pid, 0);
}

static void creation_survives_every_failing_allocation(void **state)
{
    static const char *const names[] = {"a", "b"};
    struct process_filter_conf conf = {.only = {.names = names, .n_names = 2},
                                       .except = {.names = names, .n_names = 2}};
    long before = mem_live(), n = 0;
    struct process_filter *w;

    for (mem_fail_after(n); process_filter_create(&w, &conf); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_int_equal(n, 5);
    process_filter_destroy(w);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_that_fits_no_name_is_refused),
        cmocka_unit_test(lists_say_who_is_wanted),
        cmocka_unit_test(a_name_is_taken_without_its_folder_and_in_either_case),
        cmocka_unit_test(whose_name_may_be_cut_is_held_back_when_its_end_could_say_no),
        cmocka_unit_test(who_calls_itself_so_is_left_out_too),
        cmocka_unit_test(the_systems_own_processes_are_known),
        cmocka_unit_test(the_idle_process_has_a_name),
        cmocka_unit_test(the_same_process_gets_the_same_answer),
        cmocka_unit_test(too_many_and_empty_ones_are_refused),
        cmocka_unit_test(numbers_are_read_strictly),
        cmocka_unit_test(creation_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
