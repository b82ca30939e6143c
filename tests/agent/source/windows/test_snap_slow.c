#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/snap_slow.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define ROWS_MAX 700
#define PERIOD   (60 * CLK_S)
#define SYSTEM   "S-1-5-18"

static const struct snap_slow_conf everything = {.top = 2,
                                                 .period_ns = PERIOD,
                                                 .users = true,
                                                 .command_lines = true,
                                                 .session = 1,
                                                 .processes_max = ROWS_MAX};

/* Tables of processes 8, 9, 10 … that were busier the higher their number. */
struct fixture {
    struct snap_slow *slow;
    struct snap_row rows[ROWS_MAX];
    size_t n;
    int64_t mono_ns;
    bool records;
    struct snap_job jobs[SNAP_SLOW_JOBS]; /* of the last table */
    size_t n_jobs;
};

static struct fixture f;

static void set_up(const struct snap_slow_conf *conf, size_t n)
{
    f = (struct fixture){.n = n, .mono_ns = CLK_S};
    assert_ok(snap_slow_create(&f.slow, conf));
}

static void fill(size_t i)
{
    struct snap_row *row = &f.rows[i];
    int64_t cpu_ns = row->values[M_USER_TIME];

    if (row->info.id.pid == 0) {
        row->info.id = (struct proc_id){(uint32_t)(8 + i), 7};
        row->info.name = str_make("a.exe");
        row->info.session_id = i % 2 == 0;
    }
    row->info.have = INFO_SESSION;
    row->info.user = row->info.image = row->info.command_line = str_make("");
    row->mask = METRIC_BIT(M_HANDLE_COUNT);
    row->values[M_HANDLE_COUNT] = 10;
    row->values[M_USER_TIME] = cpu_ns ? cpu_ns : (int64_t)(i + 1) * CLK_MS;
}

static void table_as_it_is(void)
{
    snap_slow_table(f.slow, f.rows, f.n, f.mono_ns, f.records);
    f.n_jobs = 0;
    while (snap_slow_next(f.slow, &f.jobs[f.n_jobs])) {
        f.n_jobs++;
    }
    f.mono_ns += CLK_S;
}

static void table(void)
{
    for (size_t i = 0; i < f.n; i++) {
        fill(i);
    }
    table_as_it_is();
}

static size_t count_jobs(unsigned what)
{
    size_t n = 0;

    for (size_t i = 0; i < f.n_jobs; i++) {
        n += (f.jobs[i].what & what) != 0;
    }
    return n;
}

static const struct snap_job *job_of(uint32_t pid, unsigned what)
{
    for (size_t i = 0; i < f.n_jobs; i++) {
        if (f.jobs[i].id.pid == pid && (f.jobs[i].what & what)) {
            return &f.jobs[i];
        }
    }
    return NULL;
}

/* Answers every job of the last table. */
static void answer_all(enum err error)
{
    snap_slow_begin(f.slow);
    for (size_t i = 0; i < f.n_jobs; i++) {
        struct snap_answer a = {.job = f.jobs[i], .error = error};
        bool account = a.job.what & SNAP_JOB_ACCOUNT;

        if (!error && (a.job.what & SNAP_JOB_GAUGES)) {
            a.have = 1u << SNAP_SLOW_AFFINITY | 1u << SNAP_SLOW_IO_PRIORITY;
            a.values[SNAP_SLOW_AFFINITY] = 3;
            a.values[SNAP_SLOW_IO_PRIORITY] = 2;
            a.peak_handles = 40;
        }
        if (!error) {
            a.line = str_make(a.job.what & SNAP_JOB_LINE ? "a.exe -x" : "");
            a.image = str_make(a.job.what & SNAP_JOB_IMAGE ? "C:\\a.exe" : "");
            a.user = str_make(account                      ? "NT AUTHORITY\\SYSTEM"
                              : a.job.what & SNAP_JOB_USER ? SYSTEM
                                                           : "");
        }
        snap_slow_answer(f.slow, &a);
    }
}

static int tear_down(void **state)
{
    snap_slow_destroy(f.slow);
    return 0;
}

static void assert_text(struct str got, const char *expected)
{
    assert_int_equal(got.n, strlen(expected));
    assert_memory_equal(got.p, expected, got.n);
}

static bool has(size_t row, unsigned column)
{
    return (f.rows[row].mask & METRIC_BIT(column)) != 0;
}

static void the_busiest_are_asked_once_a_period(void **state)
{
    set_up(&everything, 5);
    table();
    assert_int_equal(count_jobs(SNAP_JOB_GAUGES), 2);
    assert_non_null(job_of(12, SNAP_JOB_GAUGES));
    assert_non_null(job_of(11, SNAP_JOB_GAUGES));
    for (int i = 0; i < 59; i++) {
        answer_all(ERR_OK);
        table();
        assert_int_equal(count_jobs(SNAP_JOB_GAUGES), 0);
    }
    f.rows[0].values[M_USER_TIME] += CLK_S; /* the only ones to run since */
    f.rows[4].values[M_USER_TIME] += 2 * CLK_S;
    answer_all(ERR_OK);
    table();
    assert_int_equal(count_jobs(SNAP_JOB_GAUGES), 2);
    assert_non_null(job_of(8, SNAP_JOB_GAUGES));
    assert_non_null(job_of(12, SNAP_JOB_GAUGES));
}

static void gauges_stay_until_another_is_chosen(void **state)
{
    set_up(&everything, 3);
    table();
    assert_false(has(2, M_AFFINITY_MASK));
    for (int i = 0; i < 60; i++) {
        answer_all(ERR_OK);
        table();
        assert_true(has(2, M_AFFINITY_MASK) && has(2, M_IO_PRIORITY));
        assert_int_equal(f.rows[2].values[M_AFFINITY_MASK], 3);
        assert_int_equal(f.rows[2].values[M_IO_PRIORITY], 2);
        assert_false(has(2, M_GDI_OBJECTS));
        assert_false(has(0, M_AFFINITY_MASK));
        f.rows[0].values[M_USER_TIME] += CLK_MS;
        f.rows[1].values[M_USER_TIME] += CLK_MS;
    }
    answer_all(ERR_OK);
    table();
    assert_true(has(0, M_AFFINITY_MASK));
    assert_false(has(2, M_AFFINITY_MASK));
}

static void a_refusal_leaves_gauges_out_and_is_counted(void **state)
{
    static const struct {
        enum err error;
        size_t counter;
    } cases[] = {
        {ERR_ACCESS, offsetof(struct snap_slow_stats, denied)},
        {ERR_UNSUPPORTED, offsetof(struct snap_slow_stats, protected)},
        {ERR_NOTFOUND, offsetof(struct snap_slow_stats, gone)},
        {ERR_TIMEOUT, offsetof(struct snap_slow_stats, late)},
        {ERR_IO, offsetof(struct snap_slow_stats, failed)},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct snap_slow_conf conf = everything;
        uint64_t n;

        conf.users = false;
        set_up(&conf, 2);
        table();
        answer_all(ERR_OK);
        f.mono_ns += PERIOD;
        table();
        assert_true(has(1, M_AFFINITY_MASK));
        assert_int_equal(f.n_jobs, 2);
        answer_all(cases[i].error);
        table();
        assert_false(has(1, M_AFFINITY_MASK));
        memcpy(&n, (const char *)snap_slow_stats(f.slow) + cases[i].counter, sizeof n);
        assert_int_equal(n, 2);
        (void)tear_down(NULL);
    }
}

static void who_is_protected_is_never_asked_again(void **state)
{
    set_up(&everything, 2);
    table();
    assert_int_equal(count_jobs(SNAP_JOB_GAUGES), 2);
    answer_all(ERR_UNSUPPORTED);
    f.mono_ns += PERIOD;
    table();
    assert_int_equal(f.n_jobs, 0);
}

static void what_belongs_to_security_is_never_asked(void **state)
{
    static const char *const names[] = {"lsass.exe",         "LSASS.EXE",   "LsaIso.exe",
                                        "csrss.exe",         "MsMpEng.exe", "Registry",
                                        "Memory Compression"};

    set_up(&everything, COUNT_OF(names) + 3);
    for (size_t i = 0; i < f.n; i++) {
        fill(i);
        f.rows[i].info.name = str_make(i < COUNT_OF(names) ? names[i] : "lsass.exe.exe");
        f.rows[i].info.user = str_make(SYSTEM); /* the table says so */
    }
    f.rows[f.n - 1].info.id = (struct proc_id){4, 1};
    f.rows[f.n - 2].info.id = (struct proc_id){0, 0};
    table_as_it_is();
    for (size_t i = 0; i < f.n_jobs; i++) {
        assert_true((f.jobs[i].what & SNAP_JOB_ACCOUNT) ||
                    f.jobs[i].id.pid == f.rows[COUNT_OF(names)].info.id.pid);
    }
    assert_int_equal(count_jobs(SNAP_JOB_GAUGES), 1);
    assert_int_equal(count_jobs(SNAP_JOB_LINE), 1);
}

static void objects_are_asked_for_in_our_session_only(void **state)
{
    set_up(&everything, 2);
    table();
    assert_int_equal(count_jobs(SNAP_JOB_GUI), 1);
    assert_int_equal(snap_slow_stats(f.slow)->elsewhere, 1);
    assert_non_null(job_of(8, SNAP_JOB_GUI)); /* row 0 is of session 1, row 1 of session 0 */
}

static void the_most_handles_are_what_was_seen_or_what_the_system_says(void **state)
{
    set_up(&everything, 2);
    table();
    assert_true(has(0, M_PEAK_HANDLE_COUNT));
    assert_int_equal(f.rows[0].values[M_PEAK_HANDLE_COUNT], 10);
    snap_slow_begin(f.slow);
    for (size_t i = 0; i < f.n; i++) {
        fill(i);
        f.rows[i].values[M_HANDLE_COUNT] = 25;
    }
    table_as_it_is();
    assert_int_equal(f.rows[0].values[M_PEAK_HANDLE_COUNT], 25);
    f.mono_ns += PERIOD;
    table();
    answer_all(ERR_OK);
    table();
    assert_int_equal(f.rows[0].values[M_PEAK_HANDLE_COUNT], 40);
    answer_all(ERR_OK);
    for (size_t i = 0; i < f.n; i++) {
        fill(i);
        f.rows[i].mask = 0; /* the system tells of no handles */
    }
    table_as_it_is();
    assert_int_equal(f.rows[0].values[M_PEAK_HANDLE_COUNT], 40);
}

static void what_lived_before_is_asked_who_it_is(void **state)
{
    set_up(&everything, 2);
    f.records = true;
    table();
    assert_int_equal(count_jobs(SNAP_JOB_LINE), 2);
    assert_int_equal(count_jobs(SNAP_JOB_IMAGE), 2);
    assert_int_equal(count_jobs(SNAP_JOB_USER), 2);
    answer_all(ERR_OK);
    table();
    assert_text(f.rows[0].info.command_line, "a.exe -x");
    assert_text(f.rows[0].info.image, "C:\\a.exe");
    assert_int_equal(f.rows[0].info.have & (INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT),
                     INFO_COMMAND_LINE_KNOWN);
    assert_int_equal(count_jobs(SNAP_JOB_ACCOUNT), 1); /* one account, two processes */
    answer_all(ERR_OK);
    table();
    assert_text(f.rows[0].info.user, "NT AUTHORITY\\SYSTEM");
    assert_text(f.rows[1].info.user, "NT AUTHORITY\\SYSTEM");
    assert_text(f.rows[0].info.command_line, ""); /* said once */
    f.n = 3;
    answer_all(ERR_OK);
    table();
    assert_int_equal(f.n_jobs, 0); /* its record says it all */
}

static void without_records_everybody_is_asked(void **state)
{
    set_up(&everything, 2);
    table();
    answer_all(ERR_OK);
    f.n = 3;
    table();
    assert_non_null(job_of(10, SNAP_JOB_LINE));
    f.rows[0].info.id.start++; /* a pid used again */
    answer_all(ERR_OK);
    table();
    assert_non_null(job_of(8, SNAP_JOB_LINE));
    assert_null(job_of(9, SNAP_JOB_LINE));
}

static void a_cut_line_is_flagged(void **state)
{
    struct snap_answer a = {.line = str_make("long"), .line_cut = true};

    set_up(&everything, 1);
    table();
    snap_slow_begin(f.slow);
    a.job = *job_of(8, SNAP_JOB_LINE);
    snap_slow_answer(f.slow, &a);
    table();
    assert_true(f.rows[0].info.have & INFO_COMMAND_LINE_CUT);
}

static void what_the_table_says_is_not_asked(void **state)
{
    set_up(&everything, 1);
    fill(0);
    f.rows[0].info.user = str_make(SYSTEM);
    f.rows[0].info.image = str_make("\\Device\\a.exe");
    table_as_it_is();
    assert_non_null(job_of(8, SNAP_JOB_LINE));
    assert_int_equal(count_jobs(SNAP_JOB_IMAGE | SNAP_JOB_USER), 0);
    assert_text(f.rows[0].info.user, ""); /* its name is on the way */
    answer_all(ERR_OK);
    fill(0);
    f.rows[0].info.user = str_make(SYSTEM);
    f.rows[0].info.image = str_make("\\Device\\a.exe");
    table_as_it_is();
    assert_text(f.rows[0].info.user, "NT AUTHORITY\\SYSTEM");
    assert_text(f.rows[0].info.image, "\\Device\\a.exe");
}

static void an_account_without_a_name_stays_a_sid(void **state)
{
    set_up(&everything, 1);
    fill(0);
    f.rows[0].info.user = str_make("S-1-5-21-1-2-3");
    table_as_it_is();
    answer_all(ERR_NOTFOUND);
    fill(0);
    f.rows[0].info.user = str_make("S-1-5-21-1-2-3");
    table_as_it_is();
    assert_text(f.rows[0].info.user, "S-1-5-21-1-2-3");
}

static void accounts_beyond_the_limit_stay_sids_and_are_counted(void **state)
{
    static char sids[SNAP_SLOW_ACCOUNTS + 1][32];
    size_t named = 0;

    set_up(&everything, COUNT_OF(sids));
    f.records = true;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < f.n; i++) {
            fill(i);
            (void)snprintf(sids[i], sizeof sids[i], "S-1-5-21-%zu", i);
            f.rows[i].info.user = str_make(sids[i]);
        }
        table_as_it_is();
        named += count_jobs(SNAP_JOB_ACCOUNT);
        if (round == 0) {
            assert_text(f.rows[f.n - 1].info.user, sids[f.n - 1]);
            answer_all(ERR_OK);
        }
    }
    assert_int_equal(named, SNAP_SLOW_ACCOUNTS);
    assert_int_equal(snap_slow_stats(f.slow)->accounts_full, 1);
}

static void without_the_wish_nobody_is_asked(void **state)
{
    struct snap_slow_conf conf = everything;

    conf.users = conf.command_lines = false;
    conf.top = 0;
    set_up(&conf, 2);
    for (size_t i = 0; i < f.n; i++) {
        fill(i);
        f.rows[i].info.user = str_make(SYSTEM);
        f.rows[i].info.image = str_make("\\Device\\a.exe");
    }
    table_as_it_is();
    assert_int_equal(f.n_jobs, 0);
    assert_text(f.rows[0].info.user, ""); /* not even the SID */
    assert_int_equal(f.rows[0].values[M_PEAK_HANDLE_COUNT], 10);
}

static void all_are_asked_in_the_end_when_they_are_many(void **state)
{
    size_t asked = 0;

    set_up(&everything, ROWS_MAX);
    for (int i = 0; i < 10; i++) {
        table();
        assert_true(f.n_jobs <= SNAP_SLOW_JOBS);
        asked += count_jobs(SNAP_JOB_LINE);
        snap_slow_begin(f.slow);
    }
    assert_int_equal(asked, ROWS_MAX);
}

static void an_answer_about_the_dead_is_ignored(void **state)
{
    set_up(&everything, 2);
    table();
    f.n = 1;
    answer_all(ERR_OK);
    table();
    answer_all(ERR_OK);
    table();
    assert_true(has(0, M_AFFINITY_MASK));
}

static void opening_survives_any_failing_allocation(void **state)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        f = (struct fixture){.n = 2};
        mem_fail_after(n);
        e = snap_slow_create(&f.slow, &everything);
        mem_fail_after(-1);
        if (e) {
            assert_int_equal(e, ERR_NOMEM);
        }
    }
    for (long n = 0; n < 12; n++) { /* and whatever is missing later */
        mem_fail_after(n);
        table();
        answer_all(ERR_OK);
        mem_fail_after(-1);
    }
    (void)tear_down(NULL);
    assert_int_equal(mem_live(), live);
}

static void more_than_the_limit_is_refused(void **state)
{
    struct snap_slow_conf conf = everything;
    struct snap_slow *s;

    conf.top = SNAP_SLOW_TOP_MAX + 1;
    assert_err(snap_slow_create(&s, &conf), ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_busiest_are_asked_once_a_period, tear_down),
        cmocka_unit_test_teardown(gauges_stay_until_another_is_chosen, tear_down),
        cmocka_unit_test(a_refusal_leaves_gauges_out_and_is_counted),
        cmocka_unit_test_teardown(who_is_protected_is_never_asked_again, tear_down),
        cmocka_unit_test_teardown(what_belongs_to_security_is_never_asked, tear_down),
        cmocka_unit_test_teardown(objects_are_asked_for_in_our_session_only, tear_down),
        cmocka_unit_test_teardown(the_most_handles_are_what_was_seen_or_what_the_system_says,
                                  tear_down),
        cmocka_unit_test_teardown(what_lived_before_is_asked_who_it_is, tear_down),
        cmocka_unit_test_teardown(without_records_everybody_is_asked, tear_down),
        cmocka_unit_test_teardown(a_cut_line_is_flagged, tear_down),
        cmocka_unit_test_teardown(what_the_table_says_is_not_asked, tear_down),
        cmocka_unit_test_teardown(an_account_without_a_name_stays_a_sid, tear_down),
        cmocka_unit_test_teardown(accounts_beyond_the_limit_stay_sids_and_are_counted, tear_down),
        cmocka_unit_test_teardown(without_the_wish_nobody_is_asked, tear_down),
        cmocka_unit_test_teardown(all_are_asked_in_the_end_when_they_are_many, tear_down),
        cmocka_unit_test_teardown(an_answer_about_the_dead_is_ignored, tear_down),
        cmocka_unit_test(opening_survives_any_failing_allocation),
        cmocka_unit_test(more_than_the_limit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
