#include "common/os/os.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static int with_dir(void **state)
{
    static char dir[256];

    *state = (void *)(uintptr_t)support_temp_dir(dir, sizeof dir);
    return 0;
}

static int without_dir(void **state)
{
    support_remove_dir(*state);
    assert_false(os_exists(*state));
    return 0;
}

static void a_written_file_is_read_back_and_replaced(void **state)
{
    char *path = os_path_join(*state, "file");
    uint8_t *p;
    size_t n;

    assert_err(os_read_file(&p, &n, path, 100), ERR_NOTFOUND);
    assert_ok(os_write_file(path, "one", 3, true));
    assert_ok(os_write_file(path, "three", 5, true));
    assert_ok(os_check_private(path));
    assert_ok(os_read_file(&p, &n, path, 5));
    assert_int_equal(n, 5);
    assert_string_equal((char *)p, "three");
    mem_free(p);
    assert_err(os_read_file(&p, &n, path, 4), ERR_FULL);
    assert_ok(os_remove(path));
    assert_err(os_remove(path), ERR_NOTFOUND);
    mem_free(path);
}

static void what_cannot_be_a_file_is_told_apart(void **state)
{
    char name[301];
    char *path;
    uint8_t *p;
    size_t n;

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    path = os_path_join(*state, name);
    assert_err(os_read_file(&p, &n, *state, 100), ERR_INVALID);
    assert_err(os_read_file(&p, &n, path, 100), ERR_NOTFOUND);
    assert_string_equal(os_read_text(ERR_INVALID), "it is a directory");
    assert_string_equal(os_read_text(ERR_NOTFOUND), err_text(ERR_NOTFOUND));
    mem_free(path);
}

static void names_of_any_script_are_opened_and_renamed(void **state)
{
    char *path = os_path_join(*state, "K\xc3\xb6ln \xe6\x97\xa5\xe6\x9c\xac.log");
    char *other = os_path_join(*state, "\xd0\xb6.1");
    uint8_t *p;
    size_t n;

    for (int i = 0; i < 2; i++) { /* the second time something is replaced */
        FILE *f = os_fopen(path, "ab");

        assert_non_null(f);
        assert_int_equal(fwrite("line", 1, 4, f), 4);
        assert_int_equal(fclose(f), 0);
        assert_ok(os_rename(path, other));
        assert_false(os_exists(path));
        assert_ok(os_read_file(&p, &n, other, 100));
        assert_int_equal(n, 4);
        mem_free(p);
    }
    assert_err(os_rename(path, other), ERR_NOTFOUND);
    assert_null(os_fopen(path, "rb"));
    mem_free(path);
    mem_free(other);
}

static enum err count_entry(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return ERR_OK;
}

static void directories_are_made_and_listed(void **state)
{
    char *deep = os_path_join(*state, "a/b/c");
    int entries = 0;

    assert_ok(os_mkdirs(deep, true));
    assert_ok(os_mkdirs(deep, true));
    assert_ok(os_list_dir(*state, count_entry, &entries));
    assert_int_equal(entries, 1);
    mem_free(deep);
}

static void a_lock_is_held_once(void **state)
{
    char *path = os_path_join(*state, "lock");
    struct os_lock *first, *second;

    assert_ok(os_lock(&first, path));
    assert_err(os_lock(&second, path), ERR_BUSY);
    os_unlock(first);
    assert_ok(os_lock(&second, path));
    os_unlock(second);
    mem_free(path);
}

struct meeting {
    struct os_mutex *m;
    struct os_cond *c;
    int arrived;
};

static void arrive(void *arg)
{
    struct meeting *w = arg;

    os_mutex_lock(w->m);
    w->arrived++;
    os_cond_wake_all(w->c);
    os_mutex_unlock(w->m);
}

static void threads_meet_at_a_condition(void **state)
{
    struct meeting w = {0};
    struct os_thread *t[4];

    assert_ok(os_mutex_create(&w.m));
    assert_ok(os_cond_create(&w.c, w.m));
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        assert_ok(os_thread_start(&t[i], "meet", arrive, &w));
    }
    os_mutex_lock(w.m);
    while (w.arrived < (int)COUNT_OF(t)) {
        os_cond_wait(w.c);
    }
    assert_err(os_cond_wait_until(w.c, os_mono_ns() + CLK_MS), ERR_TIMEOUT);
    os_mutex_unlock(w.m);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        os_thread_join(t[i]);
    }
    os_cond_destroy(w.c);
    os_mutex_destroy(w.m);
}

struct place {
    bool before, once, twice;
};

static void step_back(void *arg)
{
    struct place *p = arg;

    p->before = os_thread_is_background();
    assert_ok(os_thread_background());
    p->once = os_thread_is_background();
    assert_ok(os_thread_background());
    p->twice = os_thread_is_background();
}

static void one_thread_steps_back_and_no_other(void **state)
{
    struct os_thread *t;
    struct place p;

    assert_ok(os_thread_start(&t, "place", step_back, &p));
    os_thread_join(t);
    assert_false(p.before);
    assert_true(p.once);
    assert_true(p.twice);
    assert_false(os_thread_is_background());
}

static void the_host_is_known(void **state)
{
    char name[256];
    uint8_t one[16], two[16], random[16] = {0}, zero[16] = {0};
    int64_t before = os_mono_ns();

    assert_ok(os_host_name(name, sizeof name));
    assert_true(name[0] != '\0');
    assert_ok(os_boot_id(one));
    assert_ok(os_boot_id(two));
    assert_memory_equal(one, two, 16);
    assert_ok(os_random(random, sizeof random));
    assert_memory_not_equal(random, zero, 16);
    assert_true(os_cpu_count() >= 1);
    assert_true(os_memory_bytes() >= 64u << 20);
    assert_true(os_mono_ns() >= before);
    assert_true(os_utc_ns() > INT64_C(1700000000) * CLK_S);
}

static void resident_memory_follows_what_is_touched(void **state)
{
    size_t n = 24u << 20;
    volatile uint8_t *p = mem_alloc(n);

    assert_non_null((void *)(uintptr_t)p);
    os_prefer_large_pages((void *)(uintptr_t)p, n);
    for (size_t i = 0; i < n; i += 1024) {
        p[i] = 1;
    }
    assert_true(os_resident_bytes() > (int64_t)n);
    assert_true(os_resident_peak() >= (int64_t)n);
    mem_free((void *)(uintptr_t)p);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GIVES_BACK true
#else
#define GIVES_BACK false /* the sanitizers' heap keeps what is freed, and Windows' may */
#endif

/* Holes between what is still used are what a heap keeps for ever. */
static void a_trimmed_heap_gives_back_what_was_freed(void **state)
{
    enum { N = 4096, BYTES = 16384 };
    static void *all[N];
    int64_t full, left;

    for (size_t i = 0; i < N; i++) {
        all[i] = mem_alloc(BYTES);
        assert_non_null(all[i]);
        memset(all[i], 1, BYTES);
    }
    full = os_resident_bytes();
    for (size_t i = 0; i < N; i++) {
        if (i % 16 != 15) {
            mem_free(all[i]);
        }
    }
    os_heap_trim();
    left = os_resident_bytes();
    for (size_t i = 15; i < N; i += 16) {
        mem_free(all[i]);
    }
    if (GIVES_BACK) {
        assert_true(left < full - N * BYTES / 2);
    } else {
        print_message("[  NOTE  ] resident memory is not judged: this heap may keep it\n");
    }
}

/* Also when one that was larger came and went, and small ones were made meanwhile. */
static void a_steady_heap_gives_large_blocks_back_at_once(void **state)
{
    enum { N = 64, BYTES = 512 << 10 };
    static void *large[N], *small[N];
    void *larger = mem_alloc(16 << 20);
    int64_t full, left;

    assert_non_null(larger);
    os_steady_heap();
    mem_free(larger);
    for (size_t i = 0; i < N; i++) {
        large[i] = mem_alloc(BYTES);
        small[i] = mem_alloc(64);
        assert_non_null(large[i]);
        assert_non_null(small[i]);
        memset(large[i], 1, BYTES);
    }
    full = os_resident_bytes();
    for (size_t i = 0; i < N; i++) {
        mem_free(large[i]);
    }
    left = os_resident_bytes();
    for (size_t i = 0; i < N; i++) {
        mem_free(small[i]);
    }
    if (GIVES_BACK) {
        assert_true(left < full - N * BYTES / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_written_file_is_read_back_and_replaced, with_dir,
                                        without_dir),
        cmocka_unit_test_setup_teardown(what_cannot_be_a_file_is_told_apart, with_dir, without_dir),
        cmocka_unit_test_setup_teardown(names_of_any_script_are_opened_and_renamed, with_dir,
                                        without_dir),
        cmocka_unit_test_setup_teardown(directories_are_made_and_listed, with_dir, without_dir),
        cmocka_unit_test_setup_teardown(a_lock_is_held_once, with_dir, without_dir),
        cmocka_unit_test(threads_meet_at_a_condition),
        cmocka_unit_test(one_thread_steps_back_and_no_other),
        cmocka_unit_test(resident_memory_follows_what_is_touched),
        cmocka_unit_test(a_trimmed_heap_gives_back_what_was_freed),
        cmocka_unit_test(a_steady_heap_gives_large_blocks_back_at_once),
        cmocka_unit_test(the_host_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
