#include "tests/support/t.h"

#include "agent/privacy/privacy.h"
#include "common/base/mem.h"

static const char *const words[] = {"password", "passwd", "pwd",       "secret",
                                    "token",    "key",    "credential"};

static struct privacy *filter_of(enum privacy_policy policy)
{
    struct privacy_conf conf = {.command_line = policy, .words = words, .n_words = COUNT_OF(words)};
    struct privacy *f;

    assert_ok(privacy_create(&f, &conf));
    return f;
}

static void check(struct privacy *f, const char *in, const char *want)
{
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN, .command_line = str_make(in)}, out;
    char got[MODEL_COMMAND_LINE_MAX + 1];

    privacy_info(f, &info, &out);
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
    struct privacy *f = filter_of(PRIVACY_REDACT);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check(f, rows[i].in, rows[i].want);
    }
    assert_true(privacy_stats(f)->redacted > 0);
    privacy_destroy(f);
}

static void exe_keeps_the_first_argument(void **state)
{
    struct privacy *f = filter_of(PRIVACY_EXE);

    check(f, "app --password x", "app");
    check(f, "\"C:\\Program Files\\a.exe\" x", "\"C:\\Program Files\\a.exe\"");
    privacy_destroy(f);
}

static void none_leaves_nothing_and_full_leaves_all(void **state)
{
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN | INFO_PARENT,
                             .command_line = str_make("app --password x")};
    struct privacy *none = filter_of(PRIVACY_NONE), *full = filter_of(PRIVACY_FULL);
    struct proc_info out;

    privacy_info(none, &info, &out);
    assert_int_equal(out.command_line.n, 0);
    assert_int_equal(out.have, INFO_PARENT);
    check(full, "app --password x", "app --password x");
    privacy_destroy(none);
    privacy_destroy(full);
}

static void a_line_that_grows_over_the_limit_is_cut_and_flagged(void **state)
{
    static char line[MODEL_COMMAND_LINE_MAX];
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN, .command_line = {line, sizeof line}};
    struct privacy *f = filter_of(PRIVACY_REDACT);
    struct proc_info out;

    memset(line, 'a', sizeof line);
    memcpy(line, "app --key x ", 12);
    privacy_info(f, &info, &out);
    assert_true(out.command_line.n <= MODEL_COMMAND_LINE_MAX);
    assert_true(out.have & INFO_COMMAND_LINE_CUT);
    privacy_destroy(f);
}

static void the_rest_of_a_secret_in_a_cut_line_is_hidden(void **state)
{
    struct proc_info info = {.have = INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT,
                             .command_line = str_make("app \"--password=my pa")},
                     out;
    struct privacy *f = filter_of(PRIVACY_REDACT);

    privacy_info(f, &info, &out);
    assert_true(str_eq(out.command_line, str_make("app \"--password=***")));
    info = (struct proc_info){.command_line = str_make("sh -c it's --password my pw")};
    privacy_info(f, &info, &out);
    assert_true(str_eq(out.command_line, str_make("sh -c it's --password *** pw")));
    privacy_destroy(f);
    f = filter_of(PRIVACY_EXE);
    check(f, "\"C:\\Program Files\\a.exe --password x", "\"C:\\Program");
    privacy_destroy(f);
}

static void a_word_that_fits_no_name_is_refused(void **state)
{
    static const char *const word = "--zebra";
    struct privacy_conf conf = {.words = &word, .n_words = 1};
    struct privacy *f;

    assert_err(privacy_create(&f, &conf), ERR_INVALID);
}

static void whose_a_process_is_may_be_hidden(void **state)
{
    struct privacy_conf conf = {.command_line = PRIVACY_FULL};
    struct proc_info info = {.command_line = str_make("x"), .user = str_make("joe")}, out;

    for (int hide = 0; hide < 2; hide++) {
        struct privacy *f;

        conf.hide_user = hide;
        assert_ok(privacy_create(&f, &conf));
        privacy_info(f, &info, &out);
        assert_int_equal(out.user.n, hide ? 0 : 3);
        assert_int_equal(out.command_line.n, 1);
        privacy_destroy(f);
    }
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct privacy_conf conf = {.words = words, .n_words = COUNT_OF(words)};
    struct privacy *f = NULL;
    long before = mem_live(), n = 0;

    for (mem_fail_after(n); privacy_create(&f, &conf); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_int_equal(n, 1 + (long)COUNT_OF(words));
    privacy_destroy(f);
}

static void policies_have_names(void **state)
{
    enum privacy_policy p;

    assert_ok(privacy_policy_parse(&p, "exe"));
    assert_int_equal(p, PRIVACY_EXE);
    assert_err(privacy_policy_parse(&p, "all"), ERR_INVALID);
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
