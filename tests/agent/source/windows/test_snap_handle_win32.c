#include "tests/support/t.h"

#include <string.h>

#include "agent/source/windows/snap_handle_win32.h"
#include "agent/source/windows/snap_rows.h"
#include "common/base/mem.h"
#include "common/base/sid.h"
#include "common/os/os.h"
#include "common/os/win32.h"

static int set_up(void **state)
{
    struct snap_handle *h;

    assert_ok(snap_handle_create(&h));
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    snap_handle_destroy(*state);
    return 0;
}

static uint64_t created_of(HANDLE process)
{
    FILETIME created, exited, kernel, user;

    assert_true(GetProcessTimes(process, &created, &exited, &kernel, &user));
    return (uint64_t)created.dwHighDateTime << 32 | created.dwLowDateTime;
}

static struct proc_id own(void)
{
    return (struct proc_id){os_process_id(), created_of(GetCurrentProcess())};
}

static enum err ask(struct snap_handle *h, unsigned what, struct proc_id id,
                    struct snap_answer *out)
{
    *out = (struct snap_answer){.job = {.what = what, .id = id}};
    snap_handle_read(h, &out->job, out);
    return out->error;
}

static void assert_wide(struct str got, const WCHAR *expected)
{
    char text[MODEL_COMMAND_LINE_MAX + 1];
    int n = WideCharToMultiByte(CP_UTF8, 0, expected, -1, text, sizeof text, NULL, NULL);

    assert_true(n > 1);
    assert_int_equal(got.n, n - 1);
    assert_memory_equal(got.p, text, got.n);
}

static void our_own_process_is_told_as_it_is(void **state)
{
    DWORD_PTR mask, of_system;
    WCHAR path[MAX_PATH];
    struct snap_handle *h = *state;
    struct snap_answer a;

    assert_ok(ask(h, SNAP_JOB_GAUGES | SNAP_JOB_GUI, own(), &a));
    assert_true(GetProcessAffinityMask(GetCurrentProcess(), &mask, &of_system));
    assert_true(a.have & 1u << SNAP_SLOW_AFFINITY);
    assert_true((uint64_t)a.values[SNAP_SLOW_AFFINITY] == mask);
    assert_ok(ask(h, SNAP_JOB_LINE | SNAP_JOB_IMAGE, own(), &a));
    assert_wide(a.line, GetCommandLineW());
    assert_false(a.line_cut);
    assert_true(GetModuleFileNameW(NULL, path, MAX_PATH) > 0);
    assert_wide(a.image, path);
}

static void our_user_has_a_sid_and_a_name(void **state)
{
    WCHAR name[257];
    DWORD n = 257;
    char sid[SID_TEXT_SIZE];
    struct snap_handle *h = *state;
    struct snap_answer a;
    struct snap_job job = {.what = SNAP_JOB_ACCOUNT, .sid = sid};

    assert_ok(ask(h, SNAP_JOB_USER, own(), &a));
    assert_true(a.user.n > 4 && a.user.n < sizeof sid);
    assert_memory_equal(a.user.p, "S-1-", 4);
    memcpy(sid, a.user.p, a.user.n);
    sid[a.user.n] = '\0';
    a = (struct snap_answer){.job = job};
    snap_handle_read(h, &job, &a);
    assert_ok(a.error);
    assert_true(GetUserNameW(name, &n));
    while (a.user.n > 0 && a.user.p[0] != '\\') { /* the domain */
        a.user.p++;
        a.user.n--;
    }
    assert_true(a.user.n > 0);
    assert_wide((struct str){a.user.p + 1, a.user.n - 1}, name);
}

static void a_sid_nobody_has_gives_no_name(void **state)
{
    static const char *const sids[] = {"S-1-5-21-1-2-3-4444", "S-1"};
    struct snap_handle *h = *state;

    for (size_t i = 0; i < COUNT_OF(sids); i++) {
        struct snap_job job = {.what = SNAP_JOB_ACCOUNT, .sid = sids[i]};
        struct snap_answer a = {.job = job};

        snap_handle_read(h, &job, &a);
        assert_int_not_equal(a.error, ERR_OK);
        assert_int_equal(a.user.n, 0);
    }
}

static void a_pid_with_a_new_owner_is_somebody_else(void **state)
{
    struct proc_id id = own();
    struct snap_handle *h = *state;
    struct snap_answer a;

    id.start++;
    assert_err(ask(h, SNAP_JOB_GAUGES | SNAP_JOB_LINE, id, &a), ERR_NOTFOUND);
    assert_int_equal(a.have, 0);
    assert_int_equal(a.line.n, 0);
    id = (struct proc_id){0x7ffffff0, 1};
    assert_err(ask(h, SNAP_JOB_GAUGES, id, &a), ERR_NOTFOUND);
}

/* Ourselves again, with these arguments, up and waiting until its input ends. What a process that
 * is just being created says of its command line is nothing, under Wine. */
static HANDLE start(PROCESS_INFORMATION *info, const WCHAR *arguments, HANDLE *hold)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    STARTUPINFOW with = {.cb = sizeof with, .dwFlags = STARTF_USESTDHANDLES};
    static WCHAR line[32000];
    HANDLE input, output, up;
    char c;
    DWORD n;

    assert_true(CreatePipe(&input, hold, &inherited, 0));
    assert_true(SetHandleInformation(*hold, HANDLE_FLAG_INHERIT, 0));
    assert_true(CreatePipe(&up, &output, &inherited, 0));
    assert_true(SetHandleInformation(up, HANDLE_FLAG_INHERIT, 0));
    line[0] = L'"';
    n = GetModuleFileNameW(NULL, line + 1, MAX_PATH);
    line[n + 1] = L'"';
    line[n + 2] = L' ';
    wcscpy_s(line + n + 3, sizeof line / sizeof *line - n - 3, arguments);
    with.hStdInput = input;
    with.hStdOutput = output;
    with.hStdError = INVALID_HANDLE_VALUE;
    assert_true(CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &with, info));
    CloseHandle(input);
    CloseHandle(output);
    CloseHandle(info->hThread);
    assert_true(ReadFile(up, &c, 1, &n, NULL));
    CloseHandle(up);
    return info->hProcess;
}

static void finish(HANDLE process, HANDLE hold)
{
    CloseHandle(hold);
    assert_int_equal(WaitForSingleObject(process, 20000), WAIT_OBJECT_0);
    CloseHandle(process);
}

static void another_process_is_told_too_whatever_its_command_line(void **state)
{
    static WCHAR longest[9000];
    const WCHAR *const lines[] = {L"wait", L"wait --name k\u00f6ln \u20ac \U0001f600", longest};
    struct snap_handle *h = *state;

    wcscpy_s(longest, 9000, L"wait ");
    for (size_t i = 5; i < 8990; i++) {
        longest[i] = L'x';
    }
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        PROCESS_INFORMATION info;
        struct snap_answer a;
        struct proc_id id;
        HANDLE hold, child = start(&info, lines[i], &hold);
        char end[64];

        id = (struct proc_id){info.dwProcessId, created_of(child)};
        assert_true(SetProcessAffinityMask(child, 1));
        assert_ok(ask(h, SNAP_JOB_GAUGES | SNAP_JOB_LINE | SNAP_JOB_IMAGE | SNAP_JOB_USER, id, &a));
        assert_int_equal(a.values[SNAP_SLOW_AFFINITY], 1);
        assert_true(a.user.n > 0 && a.image.n > 0);
        if (i == 2) {
            assert_int_equal(a.line.n, MODEL_COMMAND_LINE_MAX);
            assert_true(a.line_cut);
        } else {
            int n = WideCharToMultiByte(CP_UTF8, 0, lines[i], -1, end, sizeof end, NULL, NULL) - 1;

            assert_false(a.line_cut);
            assert_true(a.line.n > (size_t)n);
            assert_memory_equal(a.line.p + a.line.n - n, end, (size_t)n);
        }
        finish(child, hold);
    }
}

/* As the bulk table says: GetProcessHandleCount answers 0 under Wine. */
static int64_t open_handles(void)
{
    ULONG n = 4 << 20;
    uint8_t *answer = mem_alloc(n);
    struct snap_walk w;
    struct snap_row row;

    assert_non_null(answer);
    assert_int_equal(NtQuerySystemInformation(SystemProcessInformation, answer, n, &n), 0);
    snap_rows_init(&w, answer, n, (uintptr_t)answer, false);
    do {
        assert_ok(snap_rows_next(&w, &row));
    } while (row.info.id.pid != os_process_id());
    mem_free(answer);
    return row.values[M_HANDLE_COUNT];
}

static void no_handle_stays_open(void **state)
{
    struct snap_handle *h = *state;
    struct snap_answer a;
    int64_t before;

    assert_ok(ask(h, UINT_MAX & ~(unsigned)SNAP_JOB_ACCOUNT, own(), &a));
    before = open_handles();
    assert_true(before > 0);
    for (int i = 0; i < 200; i++) {
        assert_ok(ask(h, UINT_MAX & ~(unsigned)SNAP_JOB_ACCOUNT, own(), &a));
    }
    assert_int_equal(open_handles(), before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(our_own_process_is_told_as_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(our_user_has_a_sid_and_a_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sid_nobody_has_gives_no_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pid_with_a_new_owner_is_somebody_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_process_is_told_too_whatever_its_command_line,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_handle_stays_open, set_up, tear_down),
    };

    if (argc > 1 && strncmp(argv[1], "wait", 4) == 0) {
        (void)putchar('.');
        (void)fflush(stdout);
        while (getchar() != EOF) {
        }
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
