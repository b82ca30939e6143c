#include "tests/support/t.h"

#include "common/expr/expr.h"

/* -- an environment: fields by name, values beside them -- */

static const char *const ended_words[] = {"running", "exited", "error", "killed", "crash", NULL};

struct thing {
    const char *name;
    enum expr_type type;
    struct expr_dim dim;
    const char *const *words;
    struct expr_value value;
};

#define NUMBER_VALUE(v)                         \
    {                                           \
        .type = EXPR_TYPE_NUMBER, .number = (v) \
    }
#define TEXT_VALUE(s)                                                   \
    {                                                                   \
        .type = EXPR_TYPE_TEXT, .text = {.p = (s), .n = sizeof(s) - 1 } \
    }

static const struct thing things[] = {
    {"exit", EXPR_TYPE_NUMBER, {0}, NULL, NUMBER_VALUE(3)},
    {"life", EXPR_TYPE_NUMBER, {.time = 1}, NULL, NUMBER_VALUE(1.5e9L)},
    {"memory", EXPR_TYPE_NUMBER, {.bytes = 1}, NULL, NUMBER_VALUE(32.0L * 1073741824)},
    {"read_bytes", EXPR_TYPE_NUMBER, {.bytes = 1}, NULL, NUMBER_VALUE(3145728)},
    {"cpu_percent", EXPR_TYPE_NUMBER, {.share = true}, NULL, NUMBER_VALUE(0.251L)},
    {"name", EXPR_TYPE_TEXT, {0}, NULL, TEXT_VALUE("cc1")},
    {"command", EXPR_TYPE_TEXT, {0}, NULL, TEXT_VALUE("make \"build 123\" C:\\x")},
    {"ended", EXPR_TYPE_TEXT, {0}, ended_words, TEXT_VALUE("crash")},
    {"label.rack", EXPR_TYPE_TEXT, {0}, NULL, TEXT_VALUE("3")},
    {"label.a-b", EXPR_TYPE_TEXT, {0}, NULL, TEXT_VALUE("x")},
    {"user", EXPR_TYPE_TEXT, {0}, NULL, {0}},
    {"hidden", EXPR_TYPE_NUMBER, {0}, NULL, {0}},
    {"yes", EXPR_TYPE_BOOL, {0}, NULL, {.type = EXPR_TYPE_BOOL, .number = 1}},
    {"no", EXPR_TYPE_BOOL, {0}, NULL, {.type = EXPR_TYPE_BOOL}},
    {"maybe", EXPR_TYPE_BOOL, {0}, NULL, {0}},
    {"big", EXPR_TYPE_NUMBER, {0}, NULL, NUMBER_VALUE(18446744073709551615.0L)},
    {"any_number", EXPR_TYPE_ANY, {0}, NULL, NUMBER_VALUE(7)},
    {"any_text", EXPR_TYPE_ANY, {0}, NULL, TEXT_VALUE("seven")},
    {"any_flag", EXPR_TYPE_ANY, {0}, NULL, {.type = EXPR_TYPE_BOOL, .number = 1}},
    {"any_gone", EXPR_TYPE_ANY, {0}, NULL, {0}},
    {"Event Name", EXPR_TYPE_TEXT, {0}, NULL, TEXT_VALUE("GC")},
};

#define SLOT_CALL 1000u

static unsigned asked; /* values */

static bool env_field(void *ctx, struct str name, struct expr_field *out)
{
    for (uint32_t i = 0; i < COUNT_OF(things); i++) {
        if (str_eq(str_make(things[i].name), name)) {
            *out = (struct expr_field){i, things[i].type, things[i].dim, things[i].words};
            return true;
        }
    }
    return false;
}

static bool env_set(void *ctx, struct str name, const struct str **items, size_t *n)
{
    static const struct str compilers[] = {{"cc1", 3}, {"ld", 2}};

    *items = compilers;
    *n = COUNT_OF(compilers);
    return str_eq(name, str_make("compilers"));
}

static enum err env_call(void *ctx, enum expr_fn fn, const struct expr_field *of, int64_t span_ns,
                         struct expr_field *out, struct errmsg *why)
{
    if (of->type != EXPR_TYPE_NUMBER) {
        return errmsg_set(why, ERR_INVALID, "%s is of numbers", expr_fn_name(fn));
    }
    *out = *of;
    out->slot = SLOT_CALL + (uint32_t)(span_ns / 1000000000);
    out->dim.time = (int8_t)(out->dim.time - (fn == EXPR_RATE));
    return ERR_OK;
}

static const char *env_closest(void *ctx, struct str name)
{
    return name.n && name.p[0] == 'e' ? "exit" : NULL;
}

static const struct expr_env env = {NULL, env_field, env_set, env_call, env_closest};

static void get(void *ctx, uint32_t slot, struct expr_value *out)
{
    asked++;
    if (slot >= SLOT_CALL) { /* as many as the span has seconds */
        *out = expr_number(slot - SLOT_CALL);
    } else {
        *out = things[slot].value;
    }
}

static enum expr_truth judge(const char *text)
{
    struct expr x;
    struct errmsg why;
    size_t column = 0;

    if (expr_compile(&x, str_make(text), &env, &column, &why)) {
        fail_msg("%s: column %zu: %s", text, column, why.text);
    }
    return expr_run(&x, get, NULL);
}

#define T EXPR_TRUE
#define F EXPR_FALSE
#define U EXPR_UNKNOWN

struct verdict {
    const char *text;
    enum expr_truth truth;
};

static void judge_all(const struct verdict *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum expr_truth got = judge(table[i].text);

        if (got != table[i].truth) {
            fail_msg("%s gives %d instead of %d", table[i].text, got, table[i].truth);
        }
    }
}

static void and_or_not_are_kleenes(void **state)
{
    static const char *const words[] = {"no", "yes", "maybe"}; /* F, T, U */
    static const enum expr_truth both[3][3] = {{F, F, F}, {F, T, U}, {F, U, U}};
    static const enum expr_truth either[3][3] = {{F, T, U}, {T, T, T}, {U, T, U}};
    static const enum expr_truth not [3] = {T, F, U};
    char text[64];

    for (size_t a = 0; a < 3; a++) {
        (void)snprintf(text, sizeof text, "not %s", words[a]);
        assert_int_equal(judge(text), not [a]);
        for (size_t b = 0; b < 3; b++) {
            (void)snprintf(text, sizeof text, "%s and %s", words[a], words[b]);
            assert_int_equal(judge(text), both[a][b]);
            (void)snprintf(text, sizeof text, "%s or %s", words[a], words[b]);
            assert_int_equal(judge(text), either[a][b]);
            (void)snprintf(text, sizeof text, "not (%s and not %s)", words[a], words[b]);
            assert_int_equal(judge(text), not [both[a][not [b]]]);
        }
    }
}

static void comparisons_judge_as_the_table_says(void **state)
{
    static const struct verdict table[] = {
        {"exit != 0 and life < 1s", F},
        {"exit != 0 and life < 2s", T},
        {"exit == 3", T},
        {"exit >= 4 or exit <= 2", F},
        {"exit == -3", F},
        {"-exit == -3", T},
        {"command ~ \"*build 123*\"", T},
        {"command ~ '*\"build 123\"*'", T},
        {"command ~ \"*\\\"build 123\\\"*\"", T},
        {"command ~ \"*C:\\x\"", T},
        {"command ~ '*C:\\\\x'", T},
        {"command !~ \"*build*\"", F},
        {"name ~ \"CC?\"", T},
        {"name == \"CC1\"", F},
        {"user == \"pg\"", U},
        {"user == \"pg\" or name == \"cc1\"", T},
        {"user == \"pg\" and name == \"ld\"", F},
        {"user in [\"pg\"]", U},
        {"hidden > 5", U},
        {"hidden + 1 > 5", U},
        {"not hidden > 5", U},
        {"ended == crash", T},
        {"crash == ended", T},
        {"ended != killed", T},
        {"ended in [crash, killed]", T},
        {"ended in [\"error\", killed]", F},
        {"ended ~ \"cr*\"", T},
        {"label.rack == \"3\"", T},
        {"label.a-b == \"x\"", T},
        {"`Event Name` == \"GC\"", T},
        {"name in compilers", T},
        {"not name in compilers", F},
        {"user in compilers", U},
        {"exit in [1, 2, 3]", T},
        {"exit in [1, 0x2]", F},
        {"cpu_percent > 25%", T},
        {"cpu_percent > 25.2%", F},
        {"any_number == 7", T},
        {"any_number > 6.5", T},
        {"any_number == \"7\"", U},
        {"any_text == \"seven\"", T},
        {"any_text ~ \"s*\"", T},
        {"any_text > 5", U},
        {"any_number in [\"seven\", \"7\"]", U},
        {"any_text in [\"eight\", \"seven\"]", T},
        {"any_gone == 1", U},
        {"any_flag", T},
        {"any_flag == true", T},
        {"any_flag == 1", T},
        {"any_flag == false", F},
        {"any_number", U},
        {"big == 18446744073709551615", T},
        {"big == 18446744073709551614", F},
        {"big == 0xffffffffffffffff", T},
        {"exit / 0 > 1", U},
        {"exit/hidden > 1", U},
        {"true or maybe", T},
    };

    judge_all(table, COUNT_OF(table));
}

static void units_are_counted_in_each_other(void **state)
{
    static const struct verdict table[] = {
        {"life == 1500ms", T},
        {"life == 1500000us", T},
        {"life == 1500000000ns", T},
        {"life > 0", T},
        {"1m == 60s and 1min == 60s and 1h == 60m and 1d == 24h", T},
        {"2h05m == 125m", T},
        {"1d2h3m4s5ms == 93784005ms", T},
        {"1KiB == 1024B and 1MiB == 1024KiB and 1GiB == 1024MiB and 1TiB == 1024GiB", T},
        {"1kB == 1000B and 1MB == 1000kB and 1GB == 1000MB and 1TB == 1000GB", T},
        {"memory < 33GiB and memory >= 32GiB", T},
        {"1.5KiB == 1536B", T},
        {"50% == 100% / 2", T},
        {"memory * 50% == 16GiB", T},
        {"memory - 2GiB == 30GiB", T},
        {"memory / 2GiB == 16", T},
        {"read_bytes / life == 2MiB/s", T},
        {"read_bytes / life > 120MiB/m", F},
        {"exit / life == 2/s", T},
        {"life * 2MiB/s == 3MiB", T},
        {"1 + 2 * 3 == 7 and (1 + 2) * 3 == 9 and 8 - 2 - 1 == 5 and 8 / 2 / 2 == 2", T},
        {"rate(read_bytes, 10s) > 9B/s", T}, /* the double gives 10 for each ns */
        {"avg(life, 5m) == 300ns", T},
        {"last(life) == 0", T},
    };

    judge_all(table, COUNT_OF(table));
}

static void what_is_wrong_is_said_with_its_column(void **state)
{
    static const struct {
        const char *text;
        size_t column;
        const char *says;
    } table[] = {
        {"", 1, "empty"},
        {"  ", 3, "empty"},
        {"exit !=", 8, "too early"},
        {"exit = 3", 6, "=="},
        {"exit", 1, "condition"},
        {"exit and yes", 1, "condition"},
        {"yes and exit", 9, "condition"},
        {"not exit", 5, "condition"},
        {"life > 2GiB", 8, "life is a time, as 10s, and 2GiB is bytes"},
        {"life > 5", 8, "without a unit"},
        {"exit > 5s", 8, "a time"},
        {"cpu_percent > 25", 15, "a share"},
        {"life + memory > 0", 8, "bytes"},
        {"name > \"a\"", 1, "a number"},
        {"name == 3", 9, "a text"},
        {"name ~ 3", 8, "a text"},
        {"exit ~ \"3\"", 1, "a text"},
        {"exot == 3", 1, "exit meant?"},
        {"name == cc1", 9, "quotes"},
        {"ended == crush", 10, "running exited error killed crash"},
        {"ended in [crash, \"dead\"]", 10, "running exited"},
        {"name in \"a\"", 9, "a list"},
        {"name in linkers", 9, "no set linkers"},
        {"name in [1]", 9, "numbers"},
        {"name in [\"a\", 1]", 15, "one kind"},
        {"life in [1s, 2B]", 14, "one kind"},
        {"exit in [1s]", 9, "a time"},
        {"name == [\"a\"]", 9, "`in`"},
        {"name in [\"a\"", 13, "[VALUE, VALUE]"},
        {"name in []", 10, "numbers or texts"},
        {"1 < exit < 3", 10, "and"},
        {"exit == not yes", 9, "parentheses"},
        {"(yes", 1, "not closed"},
        {"yes)", 4, "nothing is open"},
        {"()", 2, "missing"},
        {"yes no", 5, "operator is missing"},
        {"yes not no", 5, "operator is missing"},
        {"exit == 5x", 9, "5x is no number"},
        {"exit == 0x1ffffffffffffffff", 9, "no number"},
        {"exit == 3m7", 9, "no number"},
        {"name == \"a", 9, "must end"},
        {"exit == 3 ; yes", 11, "; means nothing"},
        {"user == \"\xc3\xa9\" and exot == 1", 17, "exot"},
        {"avg(name, 5m) > 3", 1, "of numbers"},
        {"avg(exit, 5) > 3", 11, "a span"},
        {"avg(exit, 401d) > 3", 11, "a span"},
        {"avg(3) > 3", 5, "needs a field"},
        {"avg(exot, 5m) > 3", 5, "exit meant?"},
        {"avg(exit, 5m > 3", 14, "ends with )"},
        {"life * life * life * life * life * life * life * life * life > 0", 1, "of no use"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct expr x;
        struct errmsg why = {0};
        size_t column = 0;
        enum err e = expr_compile(&x, str_make(table[i].text), &env, &column, &why);

        if (e != ERR_INVALID || column != table[i].column || !strstr(why.text, table[i].says)) {
            fail_msg("%s: %s, column %zu: %s", table[i].text, err_name(e), column, why.text);
        }
    }
}

static void without_functions_sets_and_advice_it_still_compiles(void **state)
{
    static const struct expr_env bare = {NULL, env_field, NULL, NULL, NULL};
    struct expr x;
    struct errmsg why;

    assert_ok(expr_compile(&x, str_make("exit == 3"), &bare, NULL, &why));
    assert_err(expr_compile(&x, str_make("avg(exit, 5m) == 3"), &bare, NULL, &why), ERR_INVALID);
    assert_err(expr_compile(&x, str_make("name in compilers"), &bare, NULL, NULL), ERR_INVALID);
    assert_err(expr_compile(&x, str_make("exot == 3"), &bare, NULL, &why), ERR_INVALID);
}

/* "exit==1 and exit==1 and ...": n comparisons have 4n - 1 nodes. */
static void fill(char *text, size_t size, size_t n, const char *with, const char *between)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? between : "", with);
    }
}

static void the_limits_hold(void **state)
{
    char text[EXPR_TEXT_MAX + 2];
    struct expr x;
    struct errmsg why;
    size_t column;

    fill(text, sizeof text, 16, "exit==1", " and ");
    assert_ok(expr_compile(&x, str_make(text), &env, NULL, &why)); /* 63 */
    fill(text, sizeof text, 17, "exit==1", " and ");
    assert_err(expr_compile(&x, str_make(text), &env, &column, &why), ERR_RANGE);
    assert_int_equal(column, 16 * 12 + 1); /* the 65th */

    memset(text, '(', 17);
    (void)snprintf(text + 16, sizeof text - 16, "yes))))))))))))))))");
    assert_ok(expr_compile(&x, str_make(text), &env, NULL, &why));
    (void)snprintf(text + 16, sizeof text - 16, "(yes)))))))))))))))))");
    assert_err(expr_compile(&x, str_make(text), &env, &column, &why), ERR_RANGE);
    assert_int_equal(column, 17);

    memset(text, ' ', sizeof text);
    memcpy(text, "yes", 3);
    text[EXPR_TEXT_MAX + 1] = '\0';
    assert_err(expr_compile(&x, str_make(text), &env, &column, &why), ERR_RANGE);
    text[EXPR_TEXT_MAX] = '\0';
    assert_ok(expr_compile(&x, str_make(text), &env, NULL, &why));

    fill(text, sizeof text, 60, "not", " ");
    (void)snprintf(text + strlen(text), 8, " yes");
    assert_ok(expr_compile(&x, str_make(text), &env, NULL, &why));
    assert_int_equal(expr_run(&x, get, NULL), EXPR_TRUE);
}

static void what_cannot_matter_is_not_asked_for(void **state)
{
    struct expr x, y;
    struct errmsg why;

    assert_ok(expr_compile(&x, str_make("no and (exit == 1 or life > 1s)"), &env, NULL, &why));
    y = x; /* plain data */
    memset(&x, 0xff, sizeof x);
    asked = 0;
    assert_int_equal(expr_run(&y, get, NULL), EXPR_FALSE);
    assert_int_equal(asked, 1);
    assert_ok(expr_compile(&x, str_make("yes or exit == 1"), &env, NULL, &why));
    asked = 0;
    assert_int_equal(expr_run(&x, get, NULL), EXPR_TRUE);
    assert_int_equal(asked, 1);
    asked = 0;
    assert_int_equal(judge("maybe and no and exit == 1"), EXPR_FALSE);
    assert_int_equal(asked, 2);
}

static void a_failure_writes_nothing(void **state)
{
    struct expr x;
    struct errmsg why;

    assert_ok(expr_compile(&x, str_make("exit == 3"), &env, NULL, &why));
    assert_err(expr_compile(&x, str_make("exit == \"a\""), &env, NULL, &why), ERR_INVALID);
    assert_int_equal(expr_run(&x, get, NULL), EXPR_TRUE);
}

static void a_quantity_stands_at_the_beginning(void **state)
{
    static const struct {
        const char *text;
        size_t used;
        double number;
        struct expr_dim dim;
    } table[] = {
        {"5%", 2, 0.05, {.share = true}},
        {"10", 2, 10, {0}},
        {"2GiB, more", 4, 2147483648., {.bytes = 1}},
        {"3m20s", 5, 200e9, {.time = 1}},
        {"1.25h", 5, 4500e9, {.time = 1}},
        {"0x10", 4, 16, {0}},
        {"100/s", 5, 1e-7, {.time = -1}},
        {"5/x", 1, 5, {0}},
        {"5 %", 1, 5, {0}},
        {"5s/s", 2, 5e9, {.time = 1}},
        {"x", 0, 0, {0}},
        {"5q", 0, 0, {0}},
        {"0x10s", 0, 0, {0}},
        {"1s2B", 0, 0, {0}},
        {"", 0, 0, {0}},
        {"5.", 1, 5, {0}},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        long double number;
        struct expr_dim dim;
        size_t used = expr_quantity(&number, &dim, table[i].text, strlen(table[i].text));

        if (used != table[i].used ||
            (used && ((double)number != table[i].number || dim.time != table[i].dim.time ||
                      dim.bytes != table[i].dim.bytes || dim.share != table[i].dim.share))) {
            fail_msg("%s: %zu bytes, %g, time %d, bytes %d", table[i].text, used, (double)number,
                     dim.time, dim.bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(and_or_not_are_kleenes),
        cmocka_unit_test(comparisons_judge_as_the_table_says),
        cmocka_unit_test(units_are_counted_in_each_other),
        cmocka_unit_test(what_is_wrong_is_said_with_its_column),
        cmocka_unit_test(without_functions_sets_and_advice_it_still_compiles),
        cmocka_unit_test(the_limits_hold),
        cmocka_unit_test(what_cannot_matter_is_not_asked_for),
        cmocka_unit_test(a_failure_writes_nothing),
        cmocka_unit_test(a_quantity_stands_at_the_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
