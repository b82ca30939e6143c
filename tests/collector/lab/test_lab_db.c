#include "collector/lab/lab_db.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

static struct lab_db *lab_open(void)
{
    struct errmsg why = {""};
    struct lab_db *l = NULL;

    assert_ok(lab_db_open(&l, dir, sqlite_fault_fio(), &why));
    return l;
}

static enum err label_put(struct lab_db *l, int64_t run, enum err end)
{
    static const char sql[] = "INSERT INTO run_label(run, key, value) VALUES(?1, 'k', 'v')";
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql);
    if (!e) {
        db_bind_number(st, 1, run);
        e = db_change(d, st);
    }
    return lab_db_end(l, e ? e : end);
}

static int64_t labels(struct lab_db *l)
{
    static const char sql[] = "SELECT count(*) FROM run_label";
    sqlite3_stmt *st;
    struct db *d;
    int64_t n = -1;

    assert_ok(lab_db_begin(l, &d, LAB_DB_READ));
    assert_ok(lab_db_statement(l, &st, sql));
    assert_ok(lab_db_end(l, db_number(d, st, &n)));
    return n;
}

static void sql_run(const char *sql)
{
    struct db_format any = {
        .app_id = 0x70666c62u, .version = 1, .settings = "PRAGMA synchronous = OFF"};
    char path[300];
    struct db d;

    snprintf(path, sizeof path, "%s/lab.db", dir);
    err_ignore(db_open(&d, path, &any)); /* whatever its version */
    assert_ok(db_run(&d, sql));
    db_close(&d);
}

/* -- tests -- */

static void what_ended_well_is_there_after_opening_again(void **state)
{
    struct lab_db *l = lab_open();

    (void)state;
    assert_ok(label_put(l, 1, ERR_OK));
    assert_ok(label_put(l, 2, ERR_OK));
    lab_db_close(l);
    l = lab_open();
    assert_int_equal(labels(l), 2);
    lab_db_close(l);
}

static void what_failed_is_not_there(void **state)
{
    struct lab_db *l = lab_open();

    (void)state;
    assert_ok(label_put(l, 1, ERR_OK));
    assert_err(label_put(l, 2, ERR_FULL), ERR_FULL);
    assert_err(label_put(l, 1, ERR_OK), ERR_CORRUPT); /* there already */
    assert_int_equal(labels(l), 1);
    lab_db_close(l);
}

/* A child writes rows, tells of each that ended well, and dies at the k-th change of a file. */
static bool child_dies(long k, unsigned *told)
{
    int ends[2], status;
    char byte;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct errmsg why;
        struct lab_db *l;

        sqlite_fault_arm(SQLITE_FAULT_KILL, k);
        if (lab_db_open(&l, dir, sqlite_fault_fio(), &why) != ERR_OK) {
            _exit(3);
        }
        for (int64_t i = 0; i < 8; i++) {
            if (label_put(l, i, ERR_OK) != ERR_OK || write(ends[1], "x", 1) != 1) {
                _exit(4);
            }
        }
        lab_db_close(l);
        _exit(0);
    }
    close(ends[1]);
    *told = 0;
    while (read(ends[0], &byte, 1) == 1) {
        ++*told;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || (WEXITSTATUS(status) != 3 && WEXITSTATUS(status) != 4));
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void what_was_told_is_there_whenever_it_is_killed(void **state)
{
    unsigned told, kills = 0;
    bool died = true;

    (void)state;
    for (long k = 0; died; k++) {
        struct lab_db *l;

        support_empty_dir(dir);
        died = child_dies(k, &told);
        kills += died;
        l = lab_open();
        assert_in_range(labels(l), told, told + 1);
        assert_ok(label_put(l, 100, ERR_OK));
        lab_db_close(l);
    }
    assert_int_equal(told, 8);
    assert_true(kills > 20);
}

static void a_file_of_fewer_steps_is_brought_up_to_date(void **state)
{
    struct lab_db *l = lab_open();

    (void)state;
    lab_db_close(l);
    sql_run("PRAGMA writable_schema = 1; DELETE FROM sqlite_schema; PRAGMA writable_schema = 0;"
            "VACUUM; PRAGMA user_version = 0;");
    l = lab_open();
    assert_ok(label_put(l, 1, ERR_OK));
    lab_db_close(l);
}

static void a_file_of_a_later_version_is_refused(void **state)
{
    struct errmsg why;
    struct lab_db *l = lab_open();

    (void)state;
    lab_db_close(l);
    sql_run("PRAGMA user_version = 1000");
    assert_err(lab_db_open(&l, dir, sqlite_fault_fio(), &why), ERR_VERSION);
    assert_non_null(strstr(why.text, "later version"));
}

static void a_damaged_file_is_refused_and_left_alone(void **state)
{
    static const char text[] = "no database";
    struct errmsg why;
    struct lab_db *l;
    char path[300];

    (void)state;
    snprintf(path, sizeof path, "%s/lab.db", dir);
    support_write_file(path, text, sizeof text);
    assert_err(lab_db_open(&l, dir, sqlite_fault_fio(), &why), ERR_CORRUPT);
    assert_non_null(strstr(why.text, path));
    assert_int_equal(access(path, F_OK), 0);
}

#define LAB_TEST(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(what_ended_well_is_there_after_opening_again),
        LAB_TEST(what_failed_is_not_there),
        LAB_TEST(what_was_told_is_there_whenever_it_is_killed),
        LAB_TEST(a_file_of_fewer_steps_is_brought_up_to_date),
        LAB_TEST(a_file_of_a_later_version_is_refused),
        LAB_TEST(a_damaged_file_is_refused_and_left_alone),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
