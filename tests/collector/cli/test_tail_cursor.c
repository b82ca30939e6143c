#include "collector/cli/tail_cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

static int begin(void **state)
{
    support_temp_dir(dir, sizeof dir);
    return setenv("XDG_STATE_HOME", dir, 1);
}

static int end(void **state)
{
    support_remove_dir(dir);
    return 0;
}

static enum err open_it(struct tail_cursor *c, const char *collector, const char *name)
{
    struct errmsg why = {""};
    enum err e = tail_cursor_open(c, collector, "ann", name, &why);

    if (e) {
        assert_true(strlen(why.text) > 10);
    }
    return e;
}

static void a_cursor_is_kept_for_each_collector_and_name(void **state)
{
    struct tail_cursor c;

    assert_ok(open_it(&c, "one:1", "a"));
    assert_int_equal(c.n, 0);
    c.n = 3;
    memcpy(c.bytes, "\0\xff\x10", 3);
    c.lines = UINT64_MAX;
    assert_ok(tail_cursor_write(&c, NULL));
    tail_cursor_close(&c);

    assert_ok(open_it(&c, "one:1", "a"));
    assert_int_equal(c.n, 3);
    assert_memory_equal(c.bytes, "\0\xff\x10", 3);
    assert_true(c.lines == UINT64_MAX);
    tail_cursor_close(&c);
    assert_ok(open_it(&c, "two:1", "a"));
    assert_int_equal(c.n, 0);
    tail_cursor_close(&c);
    assert_ok(open_it(&c, "one:1", "b"));
    assert_int_equal(c.n, 0);
    tail_cursor_close(&c);
}

static void two_cannot_follow_the_same(void **state)
{
    struct tail_cursor c, d;

    assert_ok(open_it(&c, "one:1", "a"));
    assert_err(open_it(&d, "one:1", "a"), ERR_BUSY);
    tail_cursor_close(&d);
    tail_cursor_close(&c);
    assert_ok(open_it(&d, "one:1", "a"));
    tail_cursor_close(&d);
}

static void names_that_are_no_names_are_refused(void **state)
{
    static const char *const bad[] = {"", "a/b", "..\\a", "a b", "\303\274"};
    char longest[WIRE_FEED_NAME_MAX + 2] = {0};
    struct tail_cursor c;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(open_it(&c, "one:1", bad[i]), ERR_USAGE);
        tail_cursor_close(&c);
    }
    memset(longest, 'a', WIRE_FEED_NAME_MAX + 1);
    assert_err(open_it(&c, "one:1", longest), ERR_USAGE);
    tail_cursor_close(&c);
    longest[WIRE_FEED_NAME_MAX] = '\0';
    assert_ok(open_it(&c, "one:1", longest));
    tail_cursor_close(&c);
}

static void a_damaged_file_is_told(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "procfleet-cursor 1 ",
        "procfleet-cursor 1 5",
        "procfleet-cursor 1 5 \n",
        "procfleet-cursor 1 5 0\n",
        "procfleet-cursor 1 5 00",
        "procfleet-cursor 1 5 0g\n",
        "procfleet-cursor 2 5 00\n",
        "procfleet-cursor 1 5 00\n\n",
    };
    struct tail_cursor c;
    char path[512];

    assert_ok(open_it(&c, "one:1", "a"));
    snprintf(path, sizeof path, "%s", c.path);
    tail_cursor_close(&c);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_ok(os_write_file(path, bad[i], strlen(bad[i]), true));
        assert_err(open_it(&c, "one:1", "a"), ERR_CORRUPT);
        tail_cursor_close(&c);
    }
    assert_ok(os_write_file(path, "procfleet-cursor 1 5 00\n", 24, true));
    assert_ok(open_it(&c, "one:1", "a"));
    assert_int_equal(c.lines, 5);
    tail_cursor_close(&c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_cursor_is_kept_for_each_collector_and_name),
        T(two_cannot_follow_the_same),
        T(names_that_are_no_names_are_refused),
        T(a_damaged_file_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
