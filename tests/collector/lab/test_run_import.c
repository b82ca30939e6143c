/* Files that came from elsewhere: whenever the collector is killed, a run and its file are there
 * both or neither, and what was answered is there. */
#include "collector/lab/lab_keeper.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static const struct uuid run_id = {{7, 7, 7}};
static const char *const contents[] = {"the first file", "the second, which takes its place"};

static char dir[256];

struct place {
    struct lab_db *db;
    struct lab_keeper *k;
    struct arena memory;
};

static enum err place_open(struct place *p)
{
    struct lab_keeper_conf conf = {.fio = sqlite_fault_fio(),
                                   .data_dir = dir,
                                   .age_ns = INT64_MAX / 2,
                                   .max_bytes = 1u << 20,
                                   .samples_age_ns = CLK_S,
                                   .poll_ns = 3600 * CLK_S};
    struct errmsg why = {""};
    enum err e;

    *p = (struct place){.k = NULL};
    arena_init(&p->memory, 1u << 20);
    e = lab_db_open(&p->db, dir, sqlite_fault_fio(), &why);
    conf.db = p->db;
    return e ? e : lab_keeper_start(&p->k, &conf, &why);
}

static void place_close(struct place *p)
{
    lab_keeper_stop(p->k);
    lab_db_close(p->db);
    arena_fini(&p->memory);
}

static enum err imported(struct place *p, unsigned which)
{
    const struct uuid transfer = {{9, (uint8_t)which}};
    const struct wire_run row = {.id = run_id,
                                 .name = str_make("theirs"),
                                 .owner = str_make("boss"),
                                 .began_ns = os_utc_ns() - CLK_S,
                                 .ended_ns = os_utc_ns(),
                                 .revision = 1,
                                 .file_bytes = strlen(contents[which])};
    struct errmsg why = {""};
    struct wire_run out;

    return lab_keeper_import(p->k, &transfer, &row, contents[which], strlen(contents[which]),
                             &p->memory, &out, &why);
}

static bool is_known(struct place *p)
{
    bool known = false;

    assert_ok(runs_known(p->db, &run_id, &known));
    return known;
}

/* Which content the run's file has; -1: it is not there. */
static int content_of(struct place *p)
{
    char *path = lab_keeper_path(p->k, &run_id);
    uint8_t *bytes = NULL;
    size_t n = 0;
    enum err e = os_read_file(&bytes, &n, path, 1u << 16);
    int which = -1;

    for (int i = 0; !e && i < 2; i++) {
        which = n == strlen(contents[i]) && memcmp(bytes, contents[i], n) == 0 ? i : which;
    }
    assert_true(e == ERR_NOTFOUND || which >= 0);
    mem_free(path);
    mem_free(bytes);
    return which;
}

static enum err count_one(void *ctx, const char *name)
{
    unsigned *n = ctx;

    (void)name;
    ++*n;
    return ERR_OK;
}

static unsigned files(void)
{
    unsigned n = 0;
    char path[300];

    (void)snprintf(path, sizeof path, "%s/runs", dir);
    assert_ok(os_list_dir(path, count_one, &n));
    return n;
}

/* A child imports both, tells of each, and dies at the k-th change of a file. */
static bool child_dies(long k, unsigned *told)
{
    int ends[2], status;
    char byte;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct place p;

        sqlite_fault_arm(SQLITE_FAULT_KILL, k);
        if (place_open(&p) != ERR_OK) {
            _exit(3);
        }
        for (unsigned i = 0; i < 2; i++) {
            if (imported(&p, i) != ERR_OK || write(ends[1], "x", 1) != 1) {
                _exit(4);
            }
        }
        place_close(&p);
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

/* What the thread repairs at its start has been repaired. */
static void wait_for_start(struct place *p)
{
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;

    while (files() != is_known(p) && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(files(), is_known(p));
}

static void a_run_and_its_file_are_both_there_or_neither_whenever_it_is_killed(void **state)
{
    unsigned told, kills = 0;
    bool died = true;

    (void)state;
    for (long k = 0; died; k++) {
        struct place p;

        support_empty_dir(dir);
        died = child_dies(k, &told);
        kills += died;
        assert_ok(place_open(&p));
        wait_for_start(&p);
        assert_int_equal(content_of(&p) >= 0, is_known(&p));
        assert_true(told < 1 || content_of(&p) >= 0);
        assert_true(told < 2 || content_of(&p) == 1);
        assert_ok(imported(&p, 0)); /* the sender tries again */
        assert_int_equal(content_of(&p), 0);
        place_close(&p);
    }
    assert_int_equal(told, 2);
    assert_true(kills > 20);
}

/* As a collector of before left it. */
static void a_row_whose_file_is_gone_goes_at_the_next_start(void **state)
{
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;
    struct place p;
    char *path;

    (void)state;
    assert_ok(place_open(&p));
    assert_ok(imported(&p, 0));
    path = lab_keeper_path(p.k, &run_id);
    assert_ok(os_remove(path));
    mem_free(path);
    place_close(&p);
    assert_ok(place_open(&p));
    while (is_known(&p) && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
    }
    assert_false(is_known(&p));
    place_close(&p);
}

static void a_piece_is_read_alone(void **state)
{
    char bytes[8] = "";
    size_t n = sizeof bytes;
    uint64_t total = 0;
    struct place p;

    (void)state;
    assert_ok(place_open(&p));
    assert_ok(imported(&p, 0));
    assert_ok(lab_keeper_read(p.k, &run_id, 4, bytes, &n, &total));
    assert_int_equal(total, strlen(contents[0]));
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(bytes, contents[0] + 4, sizeof bytes);
    assert_ok(lab_keeper_read(p.k, &run_id, 10, bytes, &n, &total));
    assert_int_equal(n, strlen(contents[0]) - 10); /* the end of it */
    n = sizeof bytes;
    assert_err(lab_keeper_read(p.k, &(struct uuid){{8}}, 0, bytes, &n, &total), ERR_NOTFOUND);
    place_close(&p);
}

#define IN_DIR(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(a_run_and_its_file_are_both_there_or_neither_whenever_it_is_killed),
        IN_DIR(a_row_whose_file_is_gone_goes_at_the_next_start),
        IN_DIR(a_piece_is_read_alone),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
