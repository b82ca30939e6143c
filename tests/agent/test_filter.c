#include "tests/support/t.h"

#include "agent/privacy/filter.h"
#include "common/base/mem.h"

static const char *const words[] = {"password", "passwd", "pwd",       "secret",
                                    "token",    "key",    "credential"};

static struct filter *filter_of(enum filter_policy policy)
{
    struct filter_conf conf = {.command_line = policy, .words = words, .n_words = COUNT_OF(words)};
    struct filter *f;

    assert_ok(filter_create(&f, &conf));
    return f;
}

static void check(struct filter *f, const char *in, const char *want)
{
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN, .command_line = str_make(in)}, out;
    char got[MODEL_COMMAND_LINE_MAX + 1];

    filter_info(f, &info, &out);
    memcpy(got, out.command_line.p, out.command_line.n);
    got[out.command_line.n] = '\0';
    assert_string_equal(got, want);
}

static void redact_hides_values_of_secret_names_and_nothing_else(void **state)
{
    static const struct {
        const char *in, *want;
    } rows[] = {
        {"make -j2 all", "make -j2 all"},
        {"app --password=hunter2 --user=x", "app --password=*** --user=x"},
        {"app --password hunter2 --user x", "app --password *** --user x"},
        {"app --DB-Password hunter2", "app --DB-Password ***"},
        {"app -token abc def", "app -token *** def"},
        {"app /token:abc", "app /token:***"},
        {"app /password abc", "app /password ***"},
        {"app --keyring --verbose", "app --keyring --verbose"},
        {"env PGPASSWORD=s psql", "env PGPASSWORD=*** psql"},
        {"app --password=\"my pass\" x", "app --password=*** x"},
        {"app --password \"my pass\" x", "app --password *** x"},
        {"app \"Server=s;Password=a b;X=1\" y", "app \"Server=s;Password=***\" y"},
        {"cmd /c \"mysql --password foo bar\" y", "cmd /c \"mysql --password ***\" y"},
        {"sh -c it's --password foo", "sh -c it's --password ***"},
        {"curl https://joe:pw@host/x?a=1", "curl https://joe:***@host/x?a=1"},
        {"curl https://joe:pw@host/x?token=1&b=2", "curl https://joe:***@host/x?token=***"},
        {"curl https://host:80/x", "curl https://host:80/x"},
        {"curl https://joe:p@w@host", "curl https://joe:***@host"},
        {"/usr/bin/gnome-keyring-daemon start", "/usr/bin/gnome-keyring-daemon start"},
        {"cat /etc/keys/list x", "cat /etc/keys/list x"},
        {"app --password", "app --password"},
        {"app --password=", "app --password=***"},
        {"  app  ", "  app  "},
    };
    struct filter *f = filter_of(FILTER_REDACT);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check(f, rows[i].in, rows[i].want);
    }
    assert_true(filter_stats(f)->redacted > 0);
    filter_destroy(f);
}

static void exe_keeps_the_first_argument(void **state)
{
    struct filter *f = filter_of(FILTER_EXE);

    (void)state;
    check(f, "app --password x", "app");
    check(f, "\"C:\\Program Files\\a.exe\" x", "\"C:\\Program Files\\a.exe\"");
    filter_destroy(f);
}

static void none_leaves_nothing_and_full_leaves_all(void **state)
{
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN | INFO_PARENT,
                             .command_line = str_make("app --password x")};
    struct filter *none = filter_of(FILTER_NONE), *full = filter_of(FILTER_FULL);
    struct proc_info out;

    (void)state;
    filter_info(none, &info, &out);
    assert_int_equal(out.command_line.n, 0);
    assert_int_equal(out.have, INFO_PARENT);
    check(full, "app --password x", "app --password x");
    filter_destroy(none);
    filter_destroy(full);
}

static void a_line_that_grows_over_the_limit_is_cut_and_flagged(void **state)
{
    static char line[MODEL_COMMAND_LINE_MAX];
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN, .command_line = {line, sizeof line}};
    struct filter *f = filter_of(FILTER_REDACT);
    struct proc_info out;

    (void)state;
    memset(line, 'a', sizeof line);
    memcpy(line, "app --key x ", 12);
    filter_info(f, &info, &out);
    assert_true(out.command_line.n <= MODEL_COMMAND_LINE_MAX);
    assert_true(out.have & INFO_COMMAND_LINE_CUT);
    filter_destroy(f);
}

static void the_rest_of_a_secret_in_a_cut_line_is_hidden(void **state)
{
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT,
                             .command_line = str_make("app \"--password=my pa")},
                     out;
    struct filter *f = filter_of(FILTER_REDACT);

    (void)state;
    filter_info(f, &info, &out);
    assert_true(str_eq(out.command_line, str_make("app \"--password=***")));
    info = (struct proc_info){.command_line = str_make("sh -c it's --password my pw")};
    filter_info(f, &info, &out);
    assert_true(str_eq(out.command_line, str_make("sh -c it's --password *** pw")));
    filter_destroy(f);
    f = filter_of(FILTER_EXE);
    check(f, "\"C:\\Program Files\\a.exe --password x", "\"C:\\Program");
    filter_destroy(f);
}

static void a_word_that_fits_no_name_is_refused(void **state)
{
    static const char *const word = "--zebra";
    struct filter_conf conf = {.words = &word, .n_words = 1};
    struct filter *f;

    (void)state;
    assert_err(filter_create(&f, &conf), ERR_INVALID);
}

static void whose_a_process_is_may_be_hidden(void **state)
{
    struct filter_conf conf = {.command_line = FILTER_FULL};
    struct proc_info info = {.command_line = str_make("x"), .user = str_make("joe")}, out;

    (void)state;
    for (int hide = 0; hide < 2; hide++) {
        struct filter *f;

        conf.hide_user = hide;
        assert_ok(filter_create(&f, &conf));
        filter_info(f, &info, &out);
        assert_int_equal(out.user.n, hide ? 0 : 3);
        assert_int_equal(out.command_line.n, 1);
        filter_destroy(f);
    }
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct filter_conf conf = {.words = words, .n_words = COUNT_OF(words)};
    struct filter *f = NULL;
    long before = mem_live(), n = 0;

    (void)state;
    for (mem_fail_after(n); filter_create(&f, &conf); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_int_equal(n, 1 + (long)COUNT_OF(words));
    filter_destroy(f);
}

static void policies_have_names(void **state)
{
    enum filter_policy p;

    (void)state;
    assert_ok(filter_policy_parse(&p, "exe"));
    assert_int_equal(p, FILTER_EXE);
    assert_err(filter_policy_parse(&p, "all"), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redact_hides_values_of_secret_names_and_nothing_else),
        cmocka_unit_test(exe_keeps_the_first_argument),
        cmocka_unit_test(none_leaves_nothing_and_full_leaves_all),
        cmocka_unit_test(a_line_that_grows_over_the_limit_is_cut_and_flagged),
        cmocka_unit_test(the_rest_of_a_secret_in_a_cut_line_is_hidden),
        cmocka_unit_test(a_word_that_fits_no_name_is_refused),
        cmocka_unit_test(whose_a_process_is_may_be_hidden),
        cmocka_unit_test(creation_survives_every_failing_allocation),
        cmocka_unit_test(policies_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
