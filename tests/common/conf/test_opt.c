#include "common/conf/opt.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/conf/opt_program.h"
#include "tests/support/t.h"

static const struct opt opts[] = {
    {"host", 0, "NAME", "host, glob or uuid", true},
    {"count", 'n', "N", "rows", false},
    {"watch", 'w', NULL, "go on", false},
};
static const struct opt_command cmd = {.program = "prog",
                                       .name = "top",
                                       .brief = "shows the top",
                                       .operands = "FILE...",
                                       .opts = opts,
                                       .n_opts = COUNT_OF(opts),
                                       .examples = "  prog top\n"};

static void options_operands_and_values_are_told_apart(void **state)
{
    char *argv[] = {"--host", "a", "x.etl", "-n5", "--host=b", "-w", "--", "--odd"};
    struct opt_args *a;
    const char *hosts[4];
    char **operands;

    assert_ok(opt_parse(&a, &cmd, COUNT_OF(argv), argv, NULL));
    assert_int_equal(opt_values(a, "host", hosts, 4), 2);
    assert_string_equal(hosts[0], "a");
    assert_string_equal(hosts[1], "b");
    assert_string_equal(opt_value(a, "count"), "5");
    assert_true(opt_flag(a, "watch"));
    assert_false(opt_flag(a, "help"));
    assert_int_equal(opt_operands(a, &operands), 2);
    assert_string_equal(operands[0], "x.etl");
    assert_string_equal(operands[1], "--odd");
    opt_free(a);
}

static void wrong_options_are_refused_with_a_suggestion(void **state)
{
    static const struct {
        char *word;
        const char *says;
    } table[] = {
        {"--hots", "did you mean --host?"},
        {"--xyzzy", "--help"},
        {"--watch=1", "takes no value"},
        {"--count", "needs a value"},
        {"-n", "needs a value"},
        {"-x", "unknown option -x"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char *argv[] = {table[i].word};
        struct opt_args *a;
        struct errmsg why = {""};

        assert_err(opt_parse(&a, &cmd, 1, argv, &why), ERR_USAGE);
        assert_non_null(strstr(why.text, table[i].says));
    }
}

static const struct opt_command *const subs[] = {&cmd};
static const struct opt_command outer = {
    .program = "prog", .name = "outer", .brief = "b", .subs = subs, .n_subs = 1};
static const struct opt_command *const commands[] = {&outer, &cmd};
static const struct opt_command top = {
    .program = "prog", .brief = "does it", .subs = commands, .n_subs = 2};
static const struct opt_program program = {.top = &top};

static void the_same_table_prints_help_completion_and_manual(void **state)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    opt_print_help(&b, &cmd);
    assert_non_null(strstr(buf_cstr(&b), "-n, --count N"));
    assert_non_null(strstr(buf_cstr(&b), "Examples:\n  prog top\n"));
    buf_reset(&b);
    opt_completion_bash(&b, &program);
    assert_non_null(strstr(buf_cstr(&b), "' top') words='--host --count --watch"));
    buf_reset(&b);
    opt_completion_zsh(&b, &program);
    assert_non_null(strstr(buf_cstr(&b), "'(-n --count)'{-n+,--count=}'[rows]:N: '"));
    buf_reset(&b);
    opt_man_print(&b, &program, &cmd);
    assert_non_null(strstr(buf_cstr(&b), ".It Fl n , Fl \\-count Ar \\&N\nrows\n"));
    buf_fini(&b);
}

static void a_value_of_many_words_is_shown_whole(void **state)
{
    static const char value[] = "table|json|jsonl|csv|folded|speedscope|pprof|html|and|others";
    static const struct opt both[] = {{"format", 'f', value, "how", false},
                                      {"all", 0, NULL, "what", false}};
    static const struct opt_command wide = {
        .program = "prog", .name = "wide", .brief = "b", .opts = both, .n_opts = 2};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 12);
    opt_print_help(&b, &wide);
    assert_non_null(strstr(buf_cstr(&b), "  -f, --format table|json|jsonl|csv|folded|speedscope|"
                                         "pprof|html|and|others\n                            how\n"
                                         "      --all                 what\n"));
    buf_fini(&b);
}

static void a_command_of_commands_completes_them_first(void **state)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    opt_completion_bash(&b, &program);
    assert_non_null(strstr(buf_cstr(&b), "'') words='outer top'"));
    assert_non_null(strstr(buf_cstr(&b), "' outer') words='top'"));
    assert_non_null(strstr(buf_cstr(&b), "' outer top') words='--host --count --watch"));
    buf_fini(&b);
}

static const char *colour(size_t i)
{
    static const char *const colours[] = {"red", "green", NULL};

    return colours[i];
}

static void values_are_checked_by_what_the_table_says(void **state)
{
    static const struct opt_set sets[] = {{"COLOUR", colour}, {NULL, NULL}};
    const struct opt_command painter = {.program = "prog", .sets = sets};
    static const struct {
        const char *value, *text, *says; /* NULL: it is fine */
    } table[] = {
        {"table|json", "json", NULL},
        {"table|json", "jsno", "'jsno' is not table or json; did you mean 'json'?"},
        {"N", "12", NULL},
        {"N", "0x1f", NULL},
        {"N", "-1", "is not a number"},
        {"N", "", "is not a number"},
        {"N|all", "all", NULL},
        {"N|all", "al", "is not a number or all"},
        {"FACTOR|max", "0.5", NULL},
        {"FACTOR|max", "0,5", "is not a number such as 0.5 or max"},
        {"SPAN", "5min", NULL},
        {"SPAN", "soon", "is not a time such as 10s"},
        {"TIME", "5m", NULL},
        {"TIME", "2026-11-21T09:00:00Z", NULL},
        {"TIME", "yesterday", "a time such as 2026-11-21T09:00:00Z"},
        {"COLOUR", "red", NULL},
        {"COLOUR", "gren", "did you mean 'green'?"},
        {"COLOUR,...", "red,green", NULL},
        {"COLOUR,...", "red,gren", "'gren' is not red or green"},
        {"L0|L1", "L1", NULL},
        {"L0|L1", "L7", "is not L0 or L1"},
        {"FILE", "no such file", NULL},
        {"HOST[:PORT]", "anything", NULL},
        {"[bash|zsh]", "fish", "is not bash or zsh"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct opt_takes takes;
        struct errmsg why = {""};
        enum err e;

        opt_takes(&takes, &painter, table[i].value);
        e = opt_takes_check(&takes, "--it", table[i].text, &why);
        assert_err(e, table[i].says ? ERR_USAGE : ERR_OK);
        if (table[i].says) {
            assert_non_null(strstr(why.text, "--it: "));
            assert_non_null(strstr(why.text, table[i].says));
        }
    }
}

static void numbers_are_decimal_or_hexadecimal(void **state)
{
    static const struct {
        const char *text;
        uint64_t max, is;
        enum err e;
    } table[] = {
        {"0", 0, 0, ERR_OK},
        {"010", 100, 10, ERR_OK}, /* not eight */
        {"0x10", 100, 16, ERR_OK},
        {"0XfF", 255, 255, ERR_OK},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, ERR_OK},
        {"0xffffffffffffffff", UINT64_MAX, UINT64_MAX, ERR_OK},
        {"18446744073709551616", UINT64_MAX, 0, ERR_INVALID},
        {"0x10000000000000000", UINT64_MAX, 0, ERR_INVALID},
        {"1", 0, 0, ERR_INVALID},
        {"256", 255, 0, ERR_INVALID},
        {"", 9, 0, ERR_INVALID},
        {"0x", 9, 0, ERR_INVALID},
        {"x1", 9, 0, ERR_INVALID},
        {"1f", 99, 0, ERR_INVALID},
        {"-1", 99, 0, ERR_INVALID},
        {"+1", 99, 0, ERR_INVALID},
        {" 1", 99, 0, ERR_INVALID},
        {"1 ", 99, 0, ERR_INVALID},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint64_t n = 77;

        assert_err(opt_number(&n, table[i].text, table[i].max), table[i].e);
        assert_int_equal(n, table[i].e ? 77 : table[i].is);
    }
}

static void a_word_is_known_by_its_place_in_the_table(void **state)
{
    static const struct opt list[] = {{"as", 'a', "usual|sum|rate|N", "how", 0},
                                      {"group", 0, "image|user", "what", 0}};
    const struct opt_command order = {.program = "prog", .opts = list, .n_opts = COUNT_OF(list)};
    char *argv[] = {"--as", "rate"}, *number[] = {"-a", "7"};
    struct opt_args *a;

    assert_ok(opt_parse(&a, &order, COUNT_OF(argv), argv, NULL));
    assert_int_equal(opt_word(a, &order, "as", 0), 2);
    assert_int_equal(opt_word(a, &order, "group", 9), 9); /* not given */
    opt_free(a);
    assert_ok(opt_parse(&a, &order, COUNT_OF(number), number, NULL));
    assert_int_equal(opt_word(a, &order, "as", 5), 5); /* no word */
    opt_free(a);
}

static void operands_are_counted_and_checked(void **state)
{
    static const struct {
        const char *operands;
        int n;
        bool fine;
    } table[] = {{NULL, 0, true},      {NULL, 1, false},     {"FILE", 0, false},
                 {"FILE", 1, true},    {"FILE", 2, false},   {"[FILE]", 0, true},
                 {"[FILE]", 2, false}, {"FILE...", 2, true}, {"N|all...", 2, false}};
    char *argv[] = {"a", "b"};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct opt_command c = {.program = "prog", .operands = table[i].operands};
        struct opt_args *a = NULL;
        enum err e = opt_parse(&a, &c, table[i].n, argv, NULL);

        assert_err(e, table[i].fine ? ERR_OK : ERR_USAGE);
        opt_free(a);
    }
}

static void notes_are_what_follows_the_examples(void **state)
{
    static const struct {
        const char *text, *notes;
    } table[] = {{NULL, NULL},
                 {"  prog top\n", NULL},
                 {"  prog top \\\n      -n 5\n", NULL},
                 {"  prog top\n\nMore.\n", "More.\n"},
                 {"\nMore.\n", "More.\n"}};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct opt_command c = {.examples = table[i].text};

        if (table[i].notes) {
            assert_string_equal(opt_notes(&c), table[i].notes);
        } else {
            assert_null(opt_notes(&c));
        }
    }
}

static void only_likely_names_are_suggested(void **state)
{
    static const char *const names[] = {"set", "top", "host", "cpu_time"};
    static const struct {
        const char *word;
        const char *closest;
    } table[] = {
        {"tpo", "top"}, {"hots", "host"}, {"cpu_tiem", "cpu_time"}, {"abc", NULL}, {"x", NULL}};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const char *closest = opt_closest(table[i].word, names, COUNT_OF(names));

        if (table[i].closest) {
            assert_non_null(closest);
            assert_string_equal(closest, table[i].closest);
        } else {
            assert_null(closest);
        }
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    char *argv[] = {"--host", "a", "b"};
    long live = mem_live();

    for (long n = 0; n < 3; n++) {
        struct opt_args *a;

        mem_fail_after(n);
        assert_err(opt_parse(&a, &cmd, COUNT_OF(argv), argv, NULL), ERR_NOMEM);
        mem_fail_after(-1);
    }
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_operands_and_values_are_told_apart),
        cmocka_unit_test(wrong_options_are_refused_with_a_suggestion),
        cmocka_unit_test(the_same_table_prints_help_completion_and_manual),
        cmocka_unit_test(a_value_of_many_words_is_shown_whole),
        cmocka_unit_test(a_command_of_commands_completes_them_first),
        cmocka_unit_test(values_are_checked_by_what_the_table_says),
        cmocka_unit_test(numbers_are_decimal_or_hexadecimal),
        cmocka_unit_test(a_word_is_known_by_its_place_in_the_table),
        cmocka_unit_test(operands_are_counted_and_checked),
        cmocka_unit_test(notes_are_what_follows_the_examples),
        cmocka_unit_test(only_likely_names_are_suggested),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
