#include "collector/cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static const struct opt opts[] = {
    {"collector", 0, "HOST", "", 0}, {"events", 0, "HOST", "", 0},
    {"ca", 0, "FILE", "", 0},        {"cert", 0, "FILE", "", 0},
    {"key", 0, "FILE", "", 0},       {"server-name", 0, "NAME", "", 0},
    {"timeout", 0, "SPAN", "", 0},   {"format", 0, "NAME", "", 0},
    {"host", 0, "HOST", "", 0},      {"config", 0, "FILE", "", 0},
    {"profile", 0, "NAME", "", 0},
};
static const struct opt_command cmd = {
    .program = "procfleet", .opts = opts, .n_opts = COUNT_OF(opts)};

static char dir[256];
static char *file;

static const char text[] = "default_profile: lab\n"
                           "profiles:\n"
                           "  lab:\n"
                           "    collector: lab.example\n"
                           "    ca: ca.pem\n"
                           "    key: /etc/key.pem\n"
                           "  home: {collector: home.example, timeout: 3s}\n";

static void forget_environment(void)
{
    static const char *const variables[] = {"PROCFLEET_COLLECTOR",
                                            "PROCFLEET_EVENTS",
                                            "PROCFLEET_CA",
                                            "PROCFLEET_CERT",
                                            "PROCFLEET_KEY",
                                            "PROCFLEET_SERVER_NAME",
                                            "PROCFLEET_TIMEOUT",
                                            "PROCFLEET_FORMAT",
                                            "PROCFLEET_HOST",
                                            "PROCFLEET_CONFIG",
                                            "PROCFLEET_PROFILE",
                                            "XDG_CONFIG_HOME",
                                            "APPDATA",
                                            "HOME"};

    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        assert_int_equal(unsetenv(variables[i]), 0);
    }
}

static int setup(void **state)
{
    forget_environment();
    file = os_path_join(support_temp_dir(dir, sizeof dir), "config.yaml");
    assert_non_null(file);
    assert_ok(os_write_file(file, text, sizeof text - 1, false));
    return 0;
}

static int teardown(void **state)
{
    mem_free(file);
    support_remove_dir(dir);
    return 0;
}

/* Opens with these words; the arguments live as long as the profile. */
static enum err open_with(struct profile **p, struct opt_args **a, int n, char **words,
                          struct errmsg *why)
{
    assert_ok(opt_parse(a, &cmd, n, words, NULL));
    return profile_open(p, *a, why);
}

static void options_go_before_environment_before_profile_before_default(void **state)
{
    char option[] = "--collector=here";
    struct opt_args *a;
    struct profile *p;
    char from[PROFILE_FROM_TEXT];

    for (int step = 0; step < 4; step++) {
        static const char *const values[] = {"here", "there", "lab.example", "localhost"};
        static const char *const froms[] = {"--collector", "PROCFLEET_COLLECTOR", ":4: profile lab",
                                            "default"};
        char *words[] = {option};

        assert_int_equal(setenv("PROCFLEET_COLLECTOR", step < 2 ? "there" : "", 1), 0);
        assert_int_equal(setenv("PROCFLEET_CONFIG", step < 3 ? file : "", 1), 0);
        assert_ok(open_with(&p, &a, step < 1 ? 1 : 0, words, NULL));
        assert_string_equal(profile_value(p, PROFILE_COLLECTOR), values[step]);
        assert_non_null(strstr(profile_from(p, PROFILE_COLLECTOR, from, sizeof from), froms[step]));
        profile_close(p);
        opt_free(a);
    }
}

static void a_profile_is_chosen_by_option_environment_or_the_file(void **state)
{
    char option[] = "--profile=home";
    char *words[] = {option};
    struct opt_args *a;
    struct profile *p;

    assert_int_equal(setenv("PROCFLEET_CONFIG", file, 1), 0);
    assert_ok(open_with(&p, &a, 0, words, NULL));
    assert_string_equal(profile_chosen(p), "lab");
    profile_close(p);
    opt_free(a);
    assert_int_equal(setenv("PROCFLEET_PROFILE", "lab", 1), 0);
    assert_ok(open_with(&p, &a, 1, words, NULL));
    assert_string_equal(profile_chosen(p), "home");
    assert_string_equal(profile_value(p, PROFILE_TIMEOUT), "3s");
    assert_null(profile_value(p, PROFILE_CA));
    profile_close(p);
    opt_free(a);
    assert_int_equal(setenv("PROCFLEET_PROFILE", "home", 1), 0);
    assert_ok(open_with(&p, &a, 0, words, NULL));
    assert_string_equal(profile_value(p, PROFILE_COLLECTOR), "home.example");
    profile_close(p);
    opt_free(a);
}

static void files_are_looked_for_beside_the_file_that_names_them(void **state)
{
    char *beside = os_path_join(dir, "ca.pem");
    struct opt_args *a;
    struct profile *p;

    assert_int_equal(setenv("PROCFLEET_CONFIG", file, 1), 0);
    assert_ok(open_with(&p, &a, 0, NULL, NULL));
    assert_string_equal(profile_value(p, PROFILE_CA), beside);
    assert_string_equal(profile_value(p, PROFILE_KEY), "/etc/key.pem");
    profile_close(p);
    opt_free(a);
    mem_free(beside);
}

static void the_usual_file_may_be_missing(void **state)
{
    struct opt_args *a;
    struct profile *p;
    char *room = os_path_join(dir, "procfleet");
    char *usual = os_path_join(room, "config.yaml");

    assert_int_equal(setenv("XDG_CONFIG_HOME", dir, 1), 0);
    assert_ok(open_with(&p, &a, 0, NULL, NULL));
    assert_null(profile_file(p));
    profile_close(p);
    opt_free(a);
    assert_ok(os_mkdirs(room, false));
    assert_ok(os_write_file(usual, text, sizeof text - 1, false));
    assert_ok(open_with(&p, &a, 0, NULL, NULL));
    assert_string_equal(profile_file(p), usual);
    assert_string_equal(profile_chosen(p), "lab");
    profile_close(p);
    opt_free(a);
    mem_free(usual);
    mem_free(room);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *config, *profile; /* the environment's */
        const char *file;             /* what is in it; NULL: there is none */
        const char *says;
    } table[] = {
        {"nosuch.yaml", "", NULL, "nosuch.yaml"},
        {"", "lab", NULL, "there is no configuration file"},
        {"wrong.yaml", "lba", "profiles: {lab: {host: x}}\n", "did you mean 'lab'?"},
        {"wrong.yaml", "", "profiles:\n  lab: {tiemout: 3s}\n",
         "wrong.yaml:2: unknown key 'profiles.lab.tiemout'; did you mean 'profiles.lab.timeout'?"},
        {"wrong.yaml", "", "profiles:\n\n  lab: {format: xml}\n", "wrong.yaml:3: "},
        {"wrong.yaml", "", "default_profile: x\n", "there is no profile 'x'"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char *path = *table[i].config ? os_path_join(dir, table[i].config) : NULL;
        struct errmsg why = {""};
        struct opt_args *a;
        struct profile *p;

        if (table[i].file) {
            assert_ok(os_write_file(path, table[i].file, strlen(table[i].file), false));
        }
        assert_int_equal(setenv("PROCFLEET_CONFIG", path ? path : "", 1), 0);
        assert_int_equal(setenv("PROCFLEET_PROFILE", table[i].profile, 1), 0);
        assert_err(open_with(&p, &a, 0, NULL, &why), ERR_USAGE);
        if (!strstr(why.text, table[i].says)) {
            fail_msg("expected '%s' in '%s'", table[i].says, why.text);
        }
        opt_free(a);
        mem_free(path);
    }
}

static void the_sample_is_a_file_that_can_be_used(void **state)
{
    struct opt_args *a;
    struct profile *p;
    struct buf b;

    buf_init(&b, 1 << 16);
    profile_print_sample(&b);
    assert_ok(os_write_file(file, b.p, b.n, false));
    assert_int_equal(setenv("PROCFLEET_CONFIG", file, 1), 0);
    assert_ok(open_with(&p, &a, 0, NULL, NULL));
    assert_string_equal(profile_chosen(p), "lab");
    assert_string_equal(profile_value(p, PROFILE_COLLECTOR), "collector.example:7421");
    profile_close(p);
    opt_free(a);
    buf_fini(&b);
}

static void every_failing_allocation_is_survived(void **state)
{
    long live;

    assert_int_equal(setenv("PROCFLEET_CONFIG", file, 1), 0);
    live = mem_live();
    for (long n = 0;; n++) {
        struct opt_args *a;
        struct profile *p = NULL;
        enum err e;

        assert_ok(opt_parse(&a, &cmd, 0, NULL, NULL));
        mem_fail_after(n);
        e = profile_open(&p, a, NULL);
        mem_fail_after(-1);
        profile_close(p);
        opt_free(a);
        assert_int_equal(mem_live(), live);
        if (e == ERR_OK) {
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
}

#define PROFILE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROFILE_TEST(options_go_before_environment_before_profile_before_default),
        PROFILE_TEST(a_profile_is_chosen_by_option_environment_or_the_file),
        PROFILE_TEST(files_are_looked_for_beside_the_file_that_names_them),
        PROFILE_TEST(the_usual_file_may_be_missing),
        PROFILE_TEST(mistakes_are_named),
        PROFILE_TEST(the_sample_is_a_file_that_can_be_used),
        PROFILE_TEST(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
