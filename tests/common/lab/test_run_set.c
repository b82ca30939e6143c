#include "common/lab/run_set.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/common/lab/run_made.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct run_made made;
static char dir[256];

static void put(const char *file, const char *name, int64_t at_s, uint8_t id, uint32_t revision)
{
    char path[400];
    struct buf b;

    run_made_init(&made, name, at_s, 2, 1);
    made.f.head.id.b[0] = id;
    made.f.head.id.b[1] = made.f.head.id.b[2] = made.f.head.id.b[3] = 0;
    made.f.head.revision = revision;
    buf_init(&b, RUN_FILE_MAX);
    assert_ok(run_file_encode(&b, &made.f));
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_ok(os_write_file(path, b.p, b.n, false));
    buf_fini(&b);
}

static int open_dir(void **state)
{
    support_temp_dir(dir, sizeof dir);
    put("a.pfr", "cc-base", 100, 0xa1, 1);
    put("b.pfr", "cc-base", 300, 0xa2, 1);
    put("c.pfr", "cc-base", 200, 0xa3, 1);
    put("d.pfr", "cc-new", 50, 0xb1, 1);
    put("e.pfr", "cc-new", 60, 0xb1, 2); /* the same run, extracted again */
    put("not.txt", "cc-text", 1, 0xc1, 1);
    return 0;
}

static int close_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

/* The first bytes of the ids found, in their order. */
static void found(const char *const *patterns, size_t n, bool any_nth, const char *ids)
{
    const struct run_file *out[16];
    const struct run_file *const *all;
    struct run_set *s;
    struct errmsg why;
    char text[64] = "";
    size_t count;

    assert_ok(run_set_create(&s));
    assert_ok(run_set_add_dir(s, dir, &why));
    assert_int_equal(run_set_list(s, &all), 4);
    assert_ok(run_set_find(s, patterns, n, any_nth, RUN_FILE_TABLE, out, &count, &why));
    for (size_t i = 0; i < count; i++) {
        size_t at = strlen(text);

        (void)snprintf(text + at, sizeof text - at, "%s%02x", i ? " " : "", out[i]->head.id.b[0]);
        assert_true(out[i]->n_rows > 0);
    }
    assert_string_equal(text, ids);
    run_set_destroy(s);
}

static void runs_are_found_by_name(void **state)
{
    static const struct {
        const char *pattern, *ids;
    } rows[] = {
        {"cc-base", "a1 a3 a2"},   {"cc-*", "b1 a1 a3 a2"},
        {"cc-base@1", "a2"},       {"cc-base@2", "a3"},
        {"cc-base@3", "a1"},       {"cc-base@4", ""},
        {"cc-base@0", ""},         {"cc-*@a30", "a3"},
        {"cc-base@a", "a1 a3 a2"}, {"cc-base@", ""},
        {"CC-BASE", ""},           {"cc-text", ""},
        {"cc-new@1", "b1"},        {"", ""},
    };
    static const char *const two[] = {"cc-base@1", "cc-new"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        found(&rows[i].pattern, 1, false, rows[i].ids);
    }
    found(two, 2, false, "b1 a2");
    found(two, 2, true, "b1 a1 a3 a2");
}

static void the_latest_revision_of_a_run_counts(void **state)
{
    const char *const name[] = {"cc-new"};
    const struct run_file *out[16];
    struct run_set *s;
    struct errmsg why;
    size_t n;

    assert_ok(run_set_create(&s));
    assert_ok(run_set_add_dir(s, dir, &why));
    assert_ok(run_set_find(s, name, 1, false, 0, out, &n, &why));
    assert_int_equal(n, 1);
    assert_int_equal(out[0]->head.revision, 2);
    run_set_destroy(s);
}

static void a_damaged_file_is_named(void **state)
{
    char path[300];
    struct run_set *s;
    struct errmsg why;

    (void)snprintf(path, sizeof path, "%s/bad.pfr", dir);
    assert_ok(os_write_file(path, "PFrun", 5, false));
    assert_ok(run_set_create(&s));
    assert_err(run_set_add_dir(s, dir, &why), ERR_CORRUPT);
    assert_non_null(strstr(why.text, "bad.pfr"));
    run_set_destroy(s);
    assert_ok(os_remove(path));
    assert_ok(run_set_create(&s));
    assert_err(run_set_add_dir(s, path, &why), ERR_NOTFOUND);
    run_set_destroy(s);
}

static void running_out_of_memory_is_survived(void **state)
{
    const char *const names[] = {"cc-*"};
    const struct run_file *out[16];
    long before = mem_live();
    enum err e = ERR_NOMEM;
    struct errmsg why;
    size_t n;

    for (long i = 0; e; i++) {
        struct run_set *s = NULL;

        mem_fail_after(i);
        e = run_set_create(&s);
        if (!e) {
            e = run_set_add_dir(s, dir, &why);
        }
        if (!e) {
            e = run_set_find(s, names, 1, false, RUN_FILE_ALL, out, &n, &why);
        }
        mem_fail_after(-1);
        assert_true(e == ERR_NOMEM || (e == ERR_OK && i > 10));
        run_set_destroy(s);
        assert_int_equal(mem_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_found_by_name),
        cmocka_unit_test(the_latest_revision_of_a_run_counts),
        cmocka_unit_test(a_damaged_file_is_named),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
