/* Runs from mark to file: rows with a clock of the test's own, and the thread that keeps them over
 * a store whose data lie a quarter of an hour back. */
#include "collector/lab/runs.h"

#include <unistd.h>

#include "collector/lab/lab_keeper.h"
#include "collector/lab/mark_limit.h"
#include "collector/lab/runs_trim.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/lab/run_file.h"
#include "common/os/os.h"
#include "tests/collector/lab.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define TICKS 60u

static char dir[256];
static const struct runs_who who = {"ci", "", false}, boss = {"boss", "", true};

/* A store with hosts 1 and 2, measured for a minute from second `t0` of the lab on. */
struct rig {
    struct lab *l;
    struct lab_db *db;
    struct lab_keeper *k;
    struct arena memory;
    double t0;
};

static void host_measured(struct rig *r, unsigned host, uint64_t seq, double second, uint32_t pid)
{
    int64_t ms[TICKS];

    lab_begin(r->l, host, host, seq);
    for (unsigned t = 0; t < TICKS; t++) {
        lab_tick(r->l, second + t);
        ms[t] = 10 * (int64_t)(t + 1);
    }
    lab_cpu(r->l, pid, true, 0, TICKS, ms);
    lab_name(r->l, pid, "cc1");
    lab_put(r->l);
}

static void rig_open(struct rig *r)
{
    struct errmsg why = {""};

    *r = (struct rig){.l = lab_open(NULL, NULL),
                      .t0 = (double)((os_utc_ns() - LAB_EPOCH_NS) / CLK_S - 900)};
    arena_init(&r->memory, 64u << 20);
    assert_ok(lab_db_open(&r->db, dir, fio_unsynced(), &why));
    host_measured(r, 1, 1, r->t0, 10);
    host_measured(r, 2, 1, r->t0, 10);
}

static void rig_keep(struct rig *r, uint64_t max_bytes)
{
    const struct lab_keeper_conf conf = {.db = r->db,
                                         .store = lab_store(r->l),
                                         .fio = fio_unsynced(),
                                         .data_dir = dir,
                                         .age_ns = 3600 * CLK_S,
                                         .max_bytes = max_bytes,
                                         .samples_age_ns = 3600 * CLK_S,
                                         .wait_ns = 1,
                                         .again_ns = 1,
                                         .poll_ns = CLK_MS};
    struct errmsg why = {""};

    assert_ok(lab_keeper_start(&r->k, &conf, &why));
}

static void rig_close(struct rig *r)
{
    lab_keeper_stop(r->k);
    lab_db_close(r->db);
    arena_fini(&r->memory);
    lab_close(r->l);
}

/* A run of hosts that fit "host-*", those of ids `hosts` being there; seconds behind t0. */
static struct wire_run begun(struct rig *r, const struct runs_who *owner, struct wire_run_mark m,
                             double second, size_t n, const unsigned *hosts)
{
    static const struct str all = {"host-*", 6};
    struct wire_run_host list[4];
    struct runs_mark mark = {.m = &m,
                             .when_ns = LAB_NS(r->t0 + second),
                             .now_ns = LAB_NS(r->t0 + second),
                             .n_hosts = n,
                             .hosts = list};
    struct wire_run run;
    struct errmsg why = {""};

    for (size_t i = 0; i < n; i++) {
        list[i] = (struct wire_run_host){.id = lab_host(hosts[i]),
                                         .name = str_make(hosts[i] == 1 ? "host-1" : "host-2")};
    }
    m.hosts = &all;
    m.n_hosts = 1;
    assert_ok(runs_begin(r->db, owner, &mark, &r->memory, &run, &why));
    return run;
}

static void ended(struct rig *r, const struct runs_who *owner, const struct wire_run *run,
                  double second)
{
    const struct wire_run_mark m = {.id = run->id};
    const struct runs_mark mark = {
        .m = &m, .when_ns = LAB_NS(r->t0 + second), .now_ns = LAB_NS(r->t0 + second)};
    struct wire_run out;
    struct errmsg why = {""};

    assert_ok(runs_end(r->db, owner, &mark, &r->memory, &out, &why));
    assert_int_equal(out.state, WIRE_RUN_CLOSING);
}

static struct wire_run run_now(struct rig *r, const struct wire_run *run)
{
    struct wire_run out;

    assert_ok(runs_read(r->db, run->number, &r->memory, &out));
    return out;
}

/* Waits for the thread: until the run's file has this revision. */
static struct wire_run filed(struct rig *r, const struct wire_run *run, uint32_t revision)
{
    int64_t until_ns = os_mono_ns() + 60 * CLK_S;
    struct wire_run now;

    while (now = run_now(r, run), now.revision < revision && os_mono_ns() < until_ns) {
        lab_keeper_wake(r->k);
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(now.revision, revision);
    return now;
}

static struct run_file *file_of(struct rig *r, const struct wire_run *run)
{
    char *path = lab_keeper_path(r->k, &run->id);
    struct run_file *f = NULL;
    struct errmsg why = {""};

    assert_ok(run_file_read(&f, path, RUN_FILE_ALL, &why));
    mem_free(path);
    return f;
}

/* -- tests -- */

static void a_run_that_nobody_ends_expires_at_its_ttl(void **state)
{
    struct rig r;
    uint32_t expired = 9;
    struct wire_run run;

    (void)state;
    rig_open(&r);
    run = begun(&r, &who, (struct wire_run_mark){.name = str_make("r"), .ttl_ns = 50 * CLK_S}, 5, 1,
                (const unsigned[]){1});
    assert_ok(runs_expire(r.db, LAB_NS(r.t0 + 55) - 1, &expired));
    assert_int_equal(expired, 0);
    assert_int_equal(run_now(&r, &run).state, WIRE_RUN_OPEN);
    assert_ok(runs_expire(r.db, LAB_NS(r.t0 + 55), &expired));
    assert_int_equal(expired, 1);
    run = run_now(&r, &run);
    assert_int_equal(run.state, WIRE_RUN_CLOSING);
    assert_int_equal(run.ended_ns - run.began_ns, 50 * CLK_S);
    rig_keep(&r, UINT64_MAX);
    assert_int_equal(filed(&r, &run, 1).state, WIRE_RUN_EXPIRED);
    rig_close(&r);
}

static void runs_of_whole_hosts_that_met_are_marked_in_their_files(void **state)
{
    static const struct wire_label silent = {{"silence", 7}, {"*", 1}};
    static const bool met[] = {true, true, false, false, false};
    struct rig r;
    struct wire_run runs[5], silence;

    (void)state;
    rig_open(&r);
    runs[0] =
        begun(&r, &who, (struct wire_run_mark){.name = str_make("a")}, 1, 1, (const unsigned[]){1});
    runs[1] = begun(&r, &who, (struct wire_run_mark){.name = str_make("b")}, 15, 1,
                    (const unsigned[]){1});
    runs[2] = begun(&r, &who, (struct wire_run_mark){.name = str_make("other-host")}, 1, 1,
                    (const unsigned[]){2});
    runs[3] =
        begun(&r, &who, (struct wire_run_mark){.name = str_make("child"), .parent = runs[2].id}, 1,
              1, (const unsigned[]){2});
    runs[4] = begun(&r, &who, (struct wire_run_mark){.name = str_make("later")}, 40, 1,
                    (const unsigned[]){2});
    silence =
        begun(&r, &boss,
              (struct wire_run_mark){.name = str_make("quiet"), .labels = &silent, .n_labels = 1},
              1, 1, (const unsigned[]){2});
    ended(&r, &who, &runs[0], 20);
    ended(&r, &who, &runs[1], 35);
    ended(&r, &who, &runs[2], 40);
    ended(&r, &who, &runs[3], 30);
    ended(&r, &who, &runs[4], 50);
    ended(&r, &boss, &silence, 50);
    rig_keep(&r, UINT64_MAX);
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        struct run_file *f;

        runs[i] = filed(&r, &runs[i], 1);
        assert_int_equal(runs[i].state, WIRE_RUN_READY);
        f = file_of(&r, &runs[i]);
        assert_int_equal(f->n_hosts, 1);
        if (f->hosts[0].overlapped != met[i]) {
            fail_msg("run %zu: %d", i, f->hosts[0].overlapped);
        }
        run_file_free(f);
    }
    rig_close(&r);
}

static void late_data_make_the_file_again(void **state)
{
    struct rig r;
    struct run_file *f;
    struct wire_run run;
    uint64_t before;

    (void)state;
    rig_open(&r);
    run =
        begun(&r, &who, (struct wire_run_mark){.name = str_make("r")}, 5, 1, (const unsigned[]){1});
    ended(&r, &who, &run, 300);
    rig_keep(&r, UINT64_MAX);
    run = filed(&r, &run, 1);
    f = file_of(&r, &run);
    before = f->n_lives;
    run_file_free(f);
    host_measured(&r, 1, 2, r.t0 + 100, 11);
    lab_keeper_stored(r.k, &(struct uuid){{0xcc}}, LAB_NS(r.t0 + 100), LAB_NS(r.t0 + 160));
    lab_keeper_stored(r.k, &run.hosts[0].id, LAB_NS(r.t0 + 301), LAB_NS(r.t0 + 310));
    os_sleep_ns(20 * CLK_MS); /* it looks every millisecond */
    assert_int_equal(run_now(&r, &run).revision, 1);
    lab_keeper_stored(r.k, &run.hosts[0].id, LAB_NS(r.t0 + 100), LAB_NS(r.t0 + 160));
    run = filed(&r, &run, 2);
    assert_int_equal(run.state, WIRE_RUN_READY);
    f = file_of(&r, &run);
    assert_int_equal(f->head.revision, 2);
    assert_int_equal(f->n_lives, before + 1);
    run_file_free(f);
    rig_close(&r);
}

static void files_above_max_bytes_go_the_oldest_first(void **state)
{
    int64_t until_ns = os_mono_ns() + 60 * CLK_S;
    struct wire_run runs[3], open, out;
    uint64_t bytes = 0;
    struct rig r;
    char *path;

    (void)state;
    rig_open(&r);
    open = begun(&r, &who, (struct wire_run_mark){.name = str_make("open")}, 0, 1,
                 (const unsigned[]){1});
    for (unsigned i = 0; i < 3; i++) { /* the oldest is not the first in the table */
        const double ends[] = {30, 20, 40};

        runs[i] = begun(&r, &who, (struct wire_run_mark){.name = str_make("r")}, 1, 1,
                        (const unsigned[]){1});
        ended(&r, &who, &runs[i], ends[i]);
    }
    rig_keep(&r, UINT64_MAX);
    for (unsigned i = 0; i < 3; i++) {
        runs[i] = filed(&r, &runs[i], 1);
        bytes += runs[i].file_bytes;
    }
    path = lab_keeper_path(r.k, &runs[1].id);
    lab_keeper_stop(r.k);
    rig_keep(&r, bytes - 1);
    while (runs_read(r.db, runs[1].number, &r.memory, &out) == ERR_OK && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
    }
    lab_keeper_stop(r.k); /* it has done all that it would */
    r.k = NULL;
    assert_err(runs_read(r.db, runs[1].number, &r.memory, &out), ERR_NOTFOUND);
    assert_int_equal(run_now(&r, &runs[0]).state, WIRE_RUN_READY);
    assert_int_equal(run_now(&r, &runs[2]).state, WIRE_RUN_READY);
    assert_int_equal(run_now(&r, &open).state, WIRE_RUN_OPEN);
    assert_int_not_equal(access(path, F_OK), 0);
    mem_free(path);
    rig_close(&r);
}

/* Rows of their own, in one transaction: number i has the label build=i, host 1, and 10 bytes. */
static void rows_put(struct lab_db *l, const char *owner, unsigned first, unsigned n)
{
    static const char *const lists[] = {
        "INSERT INTO run_label SELECT n, 'build', 'b' || n FROM run WHERE n NOT IN"
        " (SELECT run FROM run_label)",
        "INSERT INTO run_host SELECT n, x'01', 'host-1', 0 FROM run WHERE n NOT IN"
        " (SELECT run FROM run_host)",
    };
    char sql[900];
    struct db *d;

    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE c(i) AS (SELECT %u UNION ALL SELECT i + 1 FROM c LIMIT %u)"
                   " INSERT INTO run SELECT i, CAST(printf('%%016x', i * 2654435761) AS BLOB),"
                   " 'r' || (i %% 100), '%s', '', 2, i, i + 1000, 1, NULL, NULL, NULL, 0, 0, 0, 0,"
                   " 0, 1, 10, 1000000, '', 1 FROM c",
                   first, n, owner);
    assert_ok(lab_db_begin(l, &d, LAB_DB_WRITE));
    assert_ok(db_run(d, sql));
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        assert_ok(db_run(d, lists[i]));
    }
    assert_ok(lab_db_end(l, ERR_OK));
}

static struct wire_runs found(struct lab_db *l, struct arena *memory, const char *name,
                              const char *build, const char *scope)
{
    const struct runs_who asks = {"reader", scope, false};
    const struct wire_label label = {str_make("build"), str_make(build)};
    const struct wire_runs_ask ask = {.name = str_make(name),
                                      .n_labels = build[0] != '\0',
                                      .labels = &label,
                                      .limit = WIRE_RUN_LIST_MAX};
    struct errmsg why = {""};
    struct wire_runs out;

    assert_ok(runs_find(l, &asks, &ask, memory, &out, &why));
    return out;
}

/* What is passed over takes no memory: a list that looked at 100,000 runs did not fit before. */
static void a_list_may_pass_over_all_runs_there_are(void **state)
{
    static const struct {
        const char *name, *build, *scope;
        size_t n;
        uint64_t first;
    } table[] = {
        {"", "b17", "", 1, 17},       {"", "b1?", "host-*", 10, 19},
        {"", "b17", "other-*", 0, 0}, {"r17", "", "", 1000, 99917},
        {"r17@2", "", "", 1, 99817},  {"*7@1000", "", "", 1, 90007},
        {"none", "", "", 0, 0},       {"r17@30303030303030613831616631346331", "", "", 1, 17},
    };
    struct errmsg why = {""};
    struct lab_db *l;

    (void)state;
    assert_ok(lab_db_open(&l, dir, fio_unsynced(), &why));
    rows_put(l, "ci", 1, RUNS_MAX);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_runs out;
        struct arena memory;

        arena_init(&memory, 16u << 20);
        out = found(l, &memory, table[i].name, table[i].build, table[i].scope);
        if (out.n != table[i].n || (out.n && out.runs[0].number != table[i].first)) {
            fail_msg("%zu: %zu, %u", i, out.n, out.n ? (unsigned)out.runs[0].number : 0);
        }
        arena_fini(&memory);
    }
    lab_db_close(l);
}

static unsigned rows_of(struct lab_db *l, const char *sql)
{
    struct sqlite3_stmt *st;
    int64_t n = -1;
    struct db *d;

    assert_ok(lab_db_begin(l, &d, LAB_DB_READ));
    assert_ok(lab_db_statement(l, &st, sql));
    assert_ok(db_number(d, st, &n));
    assert_ok(lab_db_end(l, ERR_OK));
    return (unsigned)n;
}

static void who_has_most_loses_the_oldest_when_there_are_too_many(void **state)
{
    static const char sql_busy[] = "SELECT count(*) FROM run WHERE owner = 'busy'";
    static const char sql_few[] = "SELECT count(*) FROM run WHERE owner != 'busy'";
    static const char sql_first[] = "SELECT min(n) FROM run WHERE owner = 'busy'";
    static const char sql_lists[] =
        "SELECT (SELECT count(*) FROM run_host) + (SELECT count(*) FROM run_label)";
    struct runs_bounds bounds = {0, 50, 1000};
    struct runs_gone gone[64];
    struct errmsg why = {""};
    struct lab_db *l;
    size_t n;

    (void)state;
    assert_ok(lab_db_open(&l, dir, fio_unsynced(), &why));
    rows_put(l, "first", 1, 5); /* older than all that follow */
    rows_put(l, "busy", 6, 60);
    rows_put(l, "last", 66, 1);
    assert_ok(runs_trim(l, &bounds, gone, COUNT_OF(gone), &n));
    assert_int_equal(n, 16);
    assert_true(gone[0].number == 6 && gone[15].number == 21 && gone[0].why == RUNS_MANY);
    assert_int_equal(rows_of(l, sql_busy), 44);
    assert_int_equal(rows_of(l, sql_first), 22);
    assert_int_equal(rows_of(l, sql_few), 6);
    assert_int_equal(rows_of(l, sql_lists), 100);
    bounds.max_bytes = 300; /* thirty of ten each */
    assert_ok(runs_trim(l, &bounds, gone, COUNT_OF(gone), &n));
    assert_int_equal(n, 20);
    assert_int_equal(gone[0].why, RUNS_LARGE);
    assert_int_equal(rows_of(l, sql_few), 6);
    bounds = (struct runs_bounds){1004, 50, 300}; /* runs end at 1000 + n */
    assert_ok(runs_trim(l, &bounds, gone, 2, &n));
    assert_int_equal(n, 2); /* as many as fit; there is one more */
    assert_ok(runs_trim(l, &bounds, gone, 2, &n));
    assert_int_equal(n, 1);
    assert_true(gone[0].number == 3 && gone[0].why == RUNS_OLD);
    assert_int_equal(rows_of(l, sql_few), 3);
    lab_db_close(l);
}

static void one_certificate_does_not_take_all_open_runs(void **state)
{
    static const struct runs_who other = {"other", "", false};
    struct wire_run_mark m = {.name = str_make("many"), .hosts = NULL};
    struct runs_mark mark = {.m = &m, .now_ns = os_utc_ns()};
    struct errmsg why = {""};
    struct wire_run run;
    struct rig r;

    (void)state;
    rig_open(&r);
    mark.when_ns = mark.now_ns;
    for (unsigned i = 0; i < RUNS_OPEN_SHARE; i++) {
        assert_ok(runs_begin(r.db, &who, &mark, &r.memory, &run, &why));
    }
    assert_err(runs_begin(r.db, &who, &mark, &r.memory, &run, &why), ERR_FULL);
    assert_non_null(strstr(why.text, "of one owner"));
    assert_ok(runs_begin(r.db, &other, &mark, &r.memory, &run, &why));
    for (unsigned i = RUNS_OPEN_SHARE + 1; i < RUNS_OPEN_MAX; i++) {
        assert_ok(runs_begin(r.db, &boss, &mark, &r.memory, &run, &why));
    }
    assert_err(runs_begin(r.db, &boss, &mark, &r.memory, &run, &why), ERR_FULL);
    rig_close(&r);
}

static void a_host_that_comes_later_is_added_and_marked(void **state)
{
    int64_t until_ns = os_mono_ns() + 60 * CLK_S;
    struct wire_run run;
    struct rig r;

    (void)state;
    rig_open(&r);
    run = begun(&r, &who, (struct wire_run_mark){.name = str_make("r")}, 30, 1,
                (const unsigned[]){1});
    rig_keep(&r, UINT64_MAX);
    while (run.n_hosts < 2 && os_mono_ns() < until_ns) { /* host 2, measured up to second 60 */
        os_sleep_ns(CLK_MS);
        run = run_now(&r, &run);
    }
    assert_int_equal(run.n_hosts, 2);
    assert_false(run.hosts[0].added);
    assert_true(run.hosts[1].added);
    assert_true(str_eq(run.hosts[1].name, str_make("host-2")));
    ended(&r, &who, &run, 50);
    assert_int_equal(filed(&r, &run, 1).hosts_in, 2);
    rig_close(&r);
}

static void marks_have_an_allowance_of_a_second_and_of_a_day(void **state)
{
    static struct mark_limit l;
    int64_t now_ns = 1000 * CLK_S, wait_ns;
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < MARK_LIMIT_SECOND; i++) {
        assert_int_equal(mark_limit_take(&l, "a", now_ns), 0);
    }
    assert_int_equal(mark_limit_take(&l, "a", now_ns), CLK_S / MARK_LIMIT_SECOND);
    assert_int_equal(mark_limit_take(&l, "b", now_ns), 0); /* another certificate */
    now_ns += CLK_S / MARK_LIMIT_SECOND;
    assert_int_equal(mark_limit_take(&l, "a", now_ns), 0);
    assert_true(mark_limit_take(&l, "a", now_ns) > 0);
    do {
        now_ns += CLK_S / MARK_LIMIT_SECOND;
        n++;
        wait_ns = mark_limit_take(&l, "a", now_ns);
    } while (!wait_ns && n < 2 * MARK_LIMIT_DAY);
    assert_in_range(n, MARK_LIMIT_DAY - 20, MARK_LIMIT_DAY + 120); /* some flow back meanwhile */
    assert_in_range(wait_ns, 1, 86400 * CLK_S / MARK_LIMIT_DAY);
    assert_int_equal(mark_limit_take(&l, "b", now_ns), 0);
}

#define IN_DIR(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(a_run_that_nobody_ends_expires_at_its_ttl),
        IN_DIR(runs_of_whole_hosts_that_met_are_marked_in_their_files),
        IN_DIR(late_data_make_the_file_again),
        IN_DIR(files_above_max_bytes_go_the_oldest_first),
        IN_DIR(a_list_may_pass_over_all_runs_there_are),
        IN_DIR(who_has_most_loses_the_oldest_when_there_are_too_many),
        IN_DIR(one_certificate_does_not_take_all_open_runs),
        IN_DIR(a_host_that_comes_later_is_added_and_marked),
        cmocka_unit_test(marks_have_an_allowance_of_a_second_and_of_a_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
