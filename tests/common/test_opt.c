#include "common/opt.h"

#include <string.h>

#include "common/mem.h"
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

    (void)state;
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

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char *argv[] = {table[i].word};
        struct opt_args *a;
        struct errmsg why = {""};

        assert_err(opt_parse(&a, &cmd, 1, argv, &why), ERR_USAGE);
        assert_non_null(strstr(why.text, table[i].says));
    }
}

static void the_same_table_prints_help_and_completion(void **state)
{
    const struct opt_command *all[] = {&cmd};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 16);
    opt_print_help(&b, &cmd);
    assert_non_null(strstr(buf_cstr(&b), "-n, --count N"));
    assert_non_null(strstr(buf_cstr(&b), "Examples:\n  prog top\n"));
    buf_reset(&b);
    opt_print_bash_completion(&b, "prog", all, 1);
    assert_non_null(strstr(buf_cstr(&b), "--help --host --count --watch"));
    buf_fini(&b);
}

static void a_command_of_commands_completes_them_first(void **state)
{
    static const struct opt_command *const subs[] = {&cmd};
    static const struct opt_command outer = {
        .program = "prog", .name = "outer", .brief = "b", .subs = subs, .n_subs = 1};
    const struct opt_command *all[] = {&outer};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 16);
    opt_print_bash_completion(&b, "prog", all, 1);
    assert_non_null(strstr(buf_cstr(&b),
                           "\"$COMP_CWORD\" -eq 2 ]; then\n                words=\"--help top\""));
    assert_non_null(strstr(buf_cstr(&b), "top) words=\"--help --host --count --watch"));
    buf_fini(&b);
}

static void only_likely_names_are_suggested(void **state)
{
    static const char *const names[] = {"set", "top", "host", "cpu_time"};
    static const struct {
        const char *word;
        const char *closest;
    } table[] = {
        {"tpo", "top"}, {"hots", "host"}, {"cpu_tiem", "cpu_time"}, {"abc", NULL}, {"x", NULL}};

    (void)state;
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

    (void)state;
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
        cmocka_unit_test(the_same_table_prints_help_and_completion),
        cmocka_unit_test(a_command_of_commands_completes_them_first),
        cmocka_unit_test(only_likely_names_are_suggested),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
