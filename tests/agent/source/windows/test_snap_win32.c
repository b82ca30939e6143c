#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/snap_win32.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/win32.h"

#define CHILDREN     200
#define AT_ONCE      20
#define STARTS_TRIED 5

static const struct snap_win32_conf with_lane = {
    .processes_max = 4096,
    .slow = {.top = 32, .period_ns = 10 * CLK_S, .users = true, .command_lines = true}};

static struct live_tables *open_tables(const struct snap_win32_conf *conf)
{
    struct errmsg why = {""};
    struct live_tables *t;

    assert_ok(snap_win32_open(&t, conf, &why));
    return t;
}

static void take(struct live_tables *t, struct snapshot *out)
{
    enum err e;

    do {
        e = t->ops->take(t, out);
    } while (e == ERR_BUSY);
    assert_ok(e);
}

/* NULL: it is not in it. */
static const struct snap_row *row_of(const struct snapshot *s, struct proc_id id)
{
    const struct snap_row *row = NULL;

    for (size_t i = 0; i < s->n_rows; i++) {
        if (s->rows[i].info.id.pid == id.pid &&
            (id.start == 0 || s->rows[i].info.id.start == id.start)) {
            assert_null(row); /* once */
            row = &s->rows[i];
        }
    }
    return row;
}

static const struct snap_row *own_row(const struct snapshot *s)
{
    const struct snap_row *row = row_of(s, (struct proc_id){os_process_id(), 0});

    assert_non_null(row);
    return row;
}

static bool has(const struct snap_row *row, unsigned column)
{
    return (row->mask & METRIC_BIT(column)) != 0;
}

static uint64_t created_of(HANDLE process)
{
    FILETIME created, exited, kernel, user;

    assert_true(GetProcessTimes(process, &created, &exited, &kernel, &user));
    return (uint64_t)created.dwHighDateTime << 32 | created.dwLowDateTime;
}

static void our_own_row_is_true(void **state)
{
    struct live_tables *t = open_tables(&with_lane);
    const struct snap_row *row;
    struct snapshot s;
    DWORD session;

    take(t, &s);
    assert_true(s.complete);
    row = own_row(&s);
    assert_int_equal(row->info.id.start, created_of(GetCurrentProcess()));
    assert_memory_equal(row->info.name.p, "test_snap_win32.exe", row->info.name.n);
    assert_true(ProcessIdToSessionId(os_process_id(), &session));
    assert_true(row->info.have & INFO_SESSION);
    assert_int_equal(row->info.session_id, session);
    assert_true(has(row, M_THREAD_COUNT) && row->values[M_THREAD_COUNT] >= 2); /* the slow lane's */
    assert_true(has(row, M_WORKING_SET_SIZE) && has(row, M_VIRTUAL_BYTES));
    assert_true(row->values[M_WORKING_SET_SIZE] > 100 << 10);
    assert_true(row->values[M_VIRTUAL_BYTES] > row->values[M_WORKING_SET_SIZE]);
    assert_true(has(row, M_HANDLE_COUNT) && row->values[M_HANDLE_COUNT] > 0);
    assert_true(has(row, M_PEAK_HANDLE_COUNT));
    assert_true(row->values[M_PEAK_HANDLE_COUNT] >= row->values[M_HANDLE_COUNT]);
    assert_false(has(row, M_ACTIVE_THREADS)); /* no interval yet */
    t->ops->close(t);
}

static void the_system_has_the_name_people_know(void **state)
{
    static const struct {
        struct snap_win32_version v;
        const char *name;
    } rows[] = {
        {{10, 0, 19045, 4291, "Windows 10 Pro", "Client"}, "Windows 10.0.19045.4291 (10 Pro)"},
        {{10, 0, 22631, 3447, "Windows 10 Pro", "Client"}, "Windows 10.0.22631.3447 (11 Pro)"},
        {{10, 0, 20348, 2340, "Windows Server 2022 Datacenter", "Server Core"},
         "Windows 10.0.20348.2340 (Server 2022 Datacenter, Core)"},
        {{10, 0, 26100, 1, "Windows Server 2025 Datacenter: Azure Edition", "Server Core"},
         "Windows 10.0.26100.1 (Server 2025 Datacenter: Azure Edition, C)"},
        {{6, 3, 9600, 0, "", ""}, "Windows 6.3.9600"},
    };
    char text[64];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snap_win32_name(text, sizeof text, &rows[i].v);
        assert_string_equal(text, rows[i].name);
    }
}

static void the_room_for_an_answer_grows(void **state)
{
    struct snap_win32_conf conf = with_lane;
    struct snapshot s;
    struct live_tables *t;

    conf.answer_bytes = 1;
    t = open_tables(&conf);
    take(t, &s);
    assert_true(s.complete);
    (void)own_row(&s);
    t->ops->close(t);
}

static void work_shows_as_the_difference_of_two_tables(void **state)
{
    struct live_tables *t = open_tables(&with_lane);
    int64_t cpu_ns, began_ns, worked_ns;
    struct snapshot s;

    take(t, &s);
    cpu_ns = own_row(&s)->values[M_USER_TIME] + own_row(&s)->values[M_KERNEL_TIME];
    began_ns = s.mono_ns;
    worked_ns = os_cpu_ns() + 300 * CLK_MS;
    while (os_cpu_ns() < worked_ns) {
    }
    take(t, &s);
    cpu_ns = own_row(&s)->values[M_USER_TIME] + own_row(&s)->values[M_KERNEL_TIME] - cpu_ns;
    assert_true(cpu_ns >= 250 * CLK_MS);
    assert_true(cpu_ns <= (s.mono_ns - began_ns) * os_cpu_count() + 50 * CLK_MS);
    assert_true(has(own_row(&s), M_ACTIVE_THREADS));
    assert_true(own_row(&s)->values[M_ACTIVE_THREADS] >= 1);
    t->ops->close(t);
}

/* The slow lane answers between two tables; it is given 20 s. */
static void what_a_handle_tells_comes_with_a_later_table(void **state)
{
    struct live_tables *t = open_tables(&with_lane);
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;
    bool line = false, user = false, mask = false;
    struct source_stats stats;
    struct snapshot s;

    while (!(line && user && mask) && os_mono_ns() < until_ns) {
        const struct snap_row *row;
        DWORD_PTR own, of_system;

        take(t, &s);
        row = own_row(&s);
        if (row->info.command_line.n > 0) {
            assert_false(line); /* once */
            assert_true(row->info.have & INFO_COMMAND_LINE_KNOWN);
            assert_true(row->info.image.n > sizeof "test_snap_win32.exe");
            line = true;
        }
        user |= row->info.user.n > 0;
        if (has(row, M_AFFINITY_MASK)) {
            assert_true(GetProcessAffinityMask(GetCurrentProcess(), &own, &of_system));
            assert_true((uint64_t)row->values[M_AFFINITY_MASK] == own);
            mask = true;
        }
    }
    assert_true(line && user && mask);
    t->ops->stats(t, &stats);
    assert_true(stats.rows > 0);
    t->ops->close(t);
}

static void without_the_wish_nobody_is_opened(void **state)
{
    struct live_tables *t;
    struct ledger_row rows[SOURCE_LEDGER_ROWS];
    struct snap_win32_conf conf = with_lane;
    struct snapshot s;
    size_t n;

    conf.slow = (struct snap_slow_conf){.top = 0};
    t = open_tables(&conf);
    for (int i = 0; i < 20; i++) {
        take(t, &s);
        assert_int_equal(own_row(&s)->info.command_line.n, 0);
        assert_int_equal(own_row(&s)->info.user.n, 0);
    }
    n = t->ops->ledger(t, rows, COUNT_OF(rows));
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows[i].count, 0); /* nobody was asked anything */
    }
    t->ops->close(t);
}

static void a_full_table_says_so(void **state)
{
    struct snap_win32_conf conf = with_lane;
    struct source_stats stats;
    struct live_tables *t;
    struct snapshot s;

    conf.processes_max = 1;
    t = open_tables(&conf);
    take(t, &s);
    assert_int_equal(s.n_rows, 1);
    assert_false(s.complete);
    t->ops->stats(t, &stats);
    assert_true(stats.capped > 0);
    t->ops->close(t);
}

struct child {
    HANDLE process, hold;
    struct proc_id id;
};

/* Wine refuses a start now and then while many programs run; here only the tables are on trial. */
static bool create(WCHAR *line, STARTUPINFOW *with, PROCESS_INFORMATION *info)
{
    for (int tries = 0; tries < STARTS_TRIED; tries++) {
        if (CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, with, info)) {
            return true;
        }
        print_message("the system refuses to start a process: error %lu\n", GetLastError());
    }
    return false;
}

/* Ourselves again: ends with its input. */
static void start(struct child *c)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    STARTUPINFOW with = {.cb = sizeof with, .dwFlags = STARTF_USESTDHANDLES};
    PROCESS_INFORMATION info;
    WCHAR line[MAX_PATH + 16] = L"\"";
    HANDLE input;
    DWORD n;

    assert_true(CreatePipe(&input, &c->hold, &inherited, 0));
    assert_true(SetHandleInformation(c->hold, HANDLE_FLAG_INHERIT, 0));
    n = GetModuleFileNameW(NULL, line + 1, MAX_PATH);
    wcscpy_s(line + n + 1, 15, L"\" wait");
    with.hStdInput = input;
    with.hStdOutput = with.hStdError = INVALID_HANDLE_VALUE;
    assert_true(create(line, &with, &info));
    CloseHandle(input);
    CloseHandle(info.hThread);
    c->process = info.hProcess;
    c->id = (struct proc_id){info.dwProcessId, created_of(info.hProcess)};
}

static void finish(struct child *c)
{
    CloseHandle(c->hold);
    assert_int_equal(WaitForSingleObject(c->process, 20000), WAIT_OBJECT_0);
    CloseHandle(c->process);
}

/* Many starts and ends, pids used again: every living child is in each table once, with its own
 * time of creation; the ended are gone; nobody's counters step back. */
static void a_storm_of_processes_mixes_nothing_up(void **state)
{
    struct live_tables *t = open_tables(&with_lane);
    struct child children[AT_ONCE];
    struct snapshot s;

    for (int round = 0; round < CHILDREN / AT_ONCE; round++) {
        int64_t cpu_ns[AT_ONCE];

        for (size_t i = 0; i < AT_ONCE; i++) {
            start(&children[i]);
        }
        for (int look = 0; look < 3; look++) {
            take(t, &s);
            for (size_t i = 0; i < AT_ONCE; i++) {
                const struct snap_row *row = row_of(&s, children[i].id);
                int64_t now_ns;

                assert_non_null(row);
                now_ns = row->values[M_USER_TIME] + row->values[M_KERNEL_TIME];
                assert_true(look == 0 || now_ns >= cpu_ns[i]);
                assert_int_equal(row->info.parent_pid, os_process_id());
                cpu_ns[i] = now_ns;
            }
        }
        for (size_t i = 0; i < AT_ONCE; i++) {
            finish(&children[i]);
        }
        take(t, &s);
        for (size_t i = 0; i < AT_ONCE; i++) {
            assert_null(row_of(&s, children[i].id));
        }
    }
    t->ops->close(t);
}

static void opening_survives_any_failing_allocation(void **state)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct errmsg why = {""};
        struct live_tables *t;

        mem_fail_after(n);
        e = snap_win32_open(&t, &with_lane, &why);
        mem_fail_after(-1);
        if (e) {
            assert_int_equal(e, ERR_NOMEM);
        } else {
            t->ops->close(t);
        }
    }
    assert_int_equal(mem_live(), live);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_row_is_true),
        cmocka_unit_test(the_system_has_the_name_people_know),
        cmocka_unit_test(the_room_for_an_answer_grows),
        cmocka_unit_test(work_shows_as_the_difference_of_two_tables),
        cmocka_unit_test(what_a_handle_tells_comes_with_a_later_table),
        cmocka_unit_test(without_the_wish_nobody_is_opened),
        cmocka_unit_test(a_full_table_says_so),
        cmocka_unit_test(a_storm_of_processes_mixes_nothing_up),
        cmocka_unit_test(opening_survives_any_failing_allocation),
    };

    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        while (getchar() != EOF) {
        }
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
