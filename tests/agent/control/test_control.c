/* What an administrator asks of the agent on its host: lines of anybody, and conversations. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/control/control.h"
#include "agent/control/session_list.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"

static enum err read_text(struct control_wish *out, const char *line, struct errmsg *why)
{
    return control_read(out, line, strlen(line), why);
}

static void each_wish_is_read(void **state)
{
    struct control_wish w;

    assert_ok(read_text(&w, "{\"do\":\"state\"}", NULL));
    assert_int_equal(w.what, CONTROL_STATE);
    assert_ok(read_text(&w, "{\"do\":\"flags\",\"on\":65536,\"off\":\"16\"}", NULL));
    assert_int_equal(w.flags_on, 65536);
    assert_int_equal(w.flags_off, 16);
    assert_ok(read_text(&w, "{\"do\":\"stacks\",\"on\":true}", NULL));
    assert_true(w.what == CONTROL_STACKS && w.on);
    assert_ok(read_text(&w, "{\"do\":\"add\",\"provider\":\"a:4#1\"}", NULL));
    assert_true(w.what == CONTROL_ADD && strcmp(w.provider, "a:4#1") == 0);
    assert_ok(read_text(&w, "{\"do\":\"remove\",\"provider\":\"b\"}", NULL));
    assert_int_equal(w.what, CONTROL_REMOVE);
    assert_ok(read_text(&w, "{\"do\":\"level\",\"level\":4,\"for_ns\":\"300000000000\"}", NULL));
    assert_true(w.what == CONTROL_LEVEL && w.level == 4 && w.span_ns == INT64_C(300000000000));
}

static void what_is_no_wish_is_refused_with_a_sentence(void **state)
{
    static const char *const lines[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"do\":7}",
        "{\"do\":\"shell\"}",
        "{\"do\":\"state\",\"do\":\"state\"}",
        "{\"do\":\"flags\",\"on\":1}",
        "{\"do\":\"flags\",\"on\":1,\"off\":1}",
        "{\"do\":\"flags\",\"on\":-1,\"off\":0}",
        "{\"do\":\"flags\",\"on\":4294967296,\"off\":0}",
        "{\"do\":\"flags\",\"on\":\"1x\",\"off\":0}",
        "{\"do\":\"stacks\",\"on\":1}",
        "{\"do\":\"add\"}",
        "{\"do\":\"add\",\"provider\":\"\"}",
        "{\"do\":\"add\",\"provider\":\"a\\u0000b\"}",
        "{\"do\":\"level\",\"level\":5,\"for_ns\":1}",
        "{\"do\":\"level\",\"level\":1,\"for_ns\":0}",
        "{\"do\":\"level\",\"level\":1,\"for_ns\":\"99999999999999999999\"}",
        "{\"do\":\"state\"} x",
    };
    static const char whole[] = "{\"do\":\"level\",\"level\":3,\"for_ns\":1000}";
    struct control_wish w = {.what = CONTROL_REMOVE};
    char line[CONTROL_LINE + 64];

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct errmsg why = {""};

        if (read_text(&w, lines[i], &why) != ERR_INVALID || !why.text[0]) {
            fail_msg("%s", lines[i]);
        }
        assert_int_equal(w.what, CONTROL_REMOVE); /* as it was */
    }
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        assert_err(control_read(&w, whole, n, NULL), ERR_INVALID);
    }
    (void)snprintf(line, sizeof line, "{\"do\":\"state\"}%*s", (int)CONTROL_LINE, "");
    assert_err(read_text(&w, line, NULL), ERR_INVALID);
    (void)snprintf(line, sizeof line, "{\"do\":\"add\",\"provider\":\"%0*d\"}", CONTROL_PROVIDER,
                   1);
    assert_err(read_text(&w, line, NULL), ERR_INVALID);
}

static void flags_have_names(void **state)
{
    static const struct {
        const char *text;
        uint32_t flags;
    } rows[] = {{"network", 0x10000}, {"thread+cswitch", 0x12}, {"0x80000+disk", 0x80100}};
    static const char *const wrong[] = {"",   "+",   "net",         "network+",
                                        "0x", "0x0", "0x1ffffffff", "16"};
    struct errmsg why = {""};
    struct buf text;
    uint32_t flags;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        flags = 0;
        assert_ok(control_flags(&flags, rows[i].text, strlen(rows[i].text), NULL));
        assert_int_equal(flags, rows[i].flags);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_err(control_flags(&flags, wrong[i], strlen(wrong[i]), &why), ERR_INVALID);
        assert_non_null(strstr(why.text, "hard_faults"));
    }
    buf_init(&text, 256);
    control_flags_text(&text, 0x80012);
    assert_string_equal(buf_cstr(&text), "thread,cswitch,0x80000");
    buf_reset(&text);
    control_flags_text(&text, 0);
    assert_string_equal(buf_cstr(&text), "none");
    buf_fini(&text);
}

/* -- conversations -- */

struct did {
    unsigned calls;
    struct control_wish last;
};

static enum err on_wish(void *ctx, const struct control_wish *wish, struct buf *text,
                        struct errmsg *why)
{
    struct did *d = ctx;

    d->calls++;
    d->last = *wish;
    buf_printf(text, "said %u, \"%s\"\nand so", d->calls, wish->provider);
    return wish->what == CONTROL_STACKS ? errmsg_set(why, ERR_PROVIDER, "no stacks \"here\"")
                                        : ERR_OK;
}

static void assert_said(const char *dir, const struct control_wish *wish, enum err expected,
                        const char *words)
{
    struct errmsg why = {""};
    struct buf text;
    enum err e;

    buf_init(&text, CONTROL_LINE);
    e = control_ask(dir, wish, &text, &why);
    if (e != expected || !strstr(e ? why.text : buf_cstr(&text), words)) {
        fail_msg("%s: %s %s", err_name(e), why.text, buf_cstr(&text));
    }
    buf_fini(&text);
}

static void a_wish_reaches_the_agent_and_its_answer_comes_back(void **state)
{
    struct control_wish w = {.what = CONTROL_LEVEL, .level = 3, .span_ns = INT64_C(1) << 44};
    struct did did = {0};
    struct control *c;
    struct errmsg why = {""};

    assert_said(*state, &w, ERR_NOTFOUND, "is it running");
    assert_ok(control_open(&c, *state, on_wish, &did, &why));
    assert_said(*state, &w, ERR_OK, "said 1, \"\"\nand so");
    assert_true(did.last.what == CONTROL_LEVEL && did.last.level == 3);
    assert_true(did.last.span_ns == INT64_C(1) << 44);
    w = (struct control_wish){.what = CONTROL_FLAGS, .flags_on = 0x10000, .flags_off = 0x10};
    assert_said(*state, &w, ERR_OK, "said 2");
    assert_true(did.last.flags_on == 0x10000 && did.last.flags_off == 0x10);
    w = (struct control_wish){.what = CONTROL_STACKS, .on = true};
    assert_said(*state, &w, ERR_REFUSED, "no stacks \"here\"");
    w = (struct control_wish){.what = CONTROL_ADD, .provider = "{e13c0d23}:4#1+2 \"x\""};
    assert_said(*state, &w, ERR_OK, "said 4, \"{e13c0d23}:4#1+2 \"x\"\"");
    w = (struct control_wish){.what = CONTROL_ADD,
                              .provider = "a\x1b[2Jb\x7f\xc2\x9b"
                                          "2J\xc3\xa9"};
    assert_said(*state, &w, ERR_OK, "said 5, \"a?[2Jb??2J\xc3\xa9\"\nand so");
    control_close(c);
    assert_said(*state, &w, ERR_NOTFOUND, "is it running");
    control_close(NULL);
    assert_int_equal(did.calls, 5);
}

/* A killed agent leaves its socket; on Windows the first one of a host has the pipe. */
static void another_one_of_the_same_directory_takes_what_is_left(void **state)
{
    struct control_wish w = {.what = CONTROL_STATE};
    struct did first = {0}, second = {0};
    struct control *c, *d = NULL;
    enum err e;

    assert_ok(control_open(&c, *state, on_wish, &first, NULL));
    e = control_open(&d, *state, on_wish, &second, NULL);
    assert_true(e == ERR_OK || e == ERR_BUSY);
    assert_said(*state, &w, ERR_OK, "said 1");
    assert_int_equal(e ? first.calls : second.calls, 1);
    control_close(d);
    control_close(c);
}

static void opening_survives_every_failing_allocation(void **state)
{
    struct did did = {0};
    struct control *c = NULL;
    enum err e = ERR_NOMEM;

    for (long n = 0; e == ERR_NOMEM; n++) {
        mem_fail_after(n);
        e = control_open(&c, *state, on_wish, &did, NULL);
        mem_fail_after(-1);
    }
    assert_ok(e);
    control_close(c);
}

static void count_row(void *ctx, const struct session_list_row *r)
{
    unsigned *n = ctx;

    *n += r->name[0] != '\0';
}

static void a_system_without_sessions_says_so(void **state)
{
    struct errmsg why = {""};
    unsigned n = 0;
    enum err e = session_list(count_row, &n, &why);

    assert_true(e == ERR_OK || why.text[0]);
    assert_true(e != ERR_UNSUPPORTED || strstr(why.text, "no trace sessions"));
}

#define TEST(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    static char dir[256];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wish_is_read),
        cmocka_unit_test(what_is_no_wish_is_refused_with_a_sentence),
        cmocka_unit_test(flags_have_names),
        TEST(a_wish_reaches_the_agent_and_its_answer_comes_back),
        TEST(another_one_of_the_same_directory_takes_what_is_left),
        TEST(opening_survives_every_failing_allocation),
        cmocka_unit_test(a_system_without_sessions_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
