#include "tests/support/t.h"

#include <string.h>

#include "agent/conf/agent_conf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

static enum err load(struct agent_conf *c, const char *set, struct errmsg *why)
{
    return agent_conf_load(c, NULL, &set, set ? 1 : 0, why);
}

/* Relative paths are below state_dir, however this system joins the two. */
static void assert_below(const char *path, const char *dir, const char *name)
{
    char *want = os_path_join(dir, name);

    assert_non_null(want);
    assert_string_equal(path, want);
    mem_free(want);
}

static void defaults_are_those_of_the_table(void **state)
{
    struct agent_conf c;

    assert_ok(load(&c, NULL, NULL));
    assert_int_equal(c.period_ns, CLK_S);
    assert_int_equal(c.batch_samples, 10);
    assert_int_equal(c.batch_bytes, 256 << 10);
    assert_int_equal(c.batch_age_ns, 10 * CLK_S);
    assert_int_equal(c.queue_bytes, 64 << 20);
    assert_int_equal(c.n_addresses, 0);
    assert_string_equal(c.server_name, "procfleet-collector");
    assert_below(c.cert, c.state_dir, "tls/agent.pem");
    assert_int_equal(c.filter.command_line, PRIVACY_REDACT);
    assert_int_equal(c.filter.n_words, 7);
    assert_false(c.filter.hide_user);
    assert_int_equal(c.slow_top, 32);
    assert_int_equal(c.slow_period_ns, 60 * CLK_S);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_null(c.name);
    assert_null(c.enroll_address);
    agent_conf_fini(&c);
}

static void settings_take_effect(void **state)
{
    struct agent_conf c;

    assert_ok(load(&c, "sampling.rate_hz=0.5", NULL));
    assert_int_equal(c.period_ns, 2 * CLK_S);
    assert_int_equal(c.budget.max, 2);
    assert_int_equal(c.budget.cpu_permille, 20);
    assert_int_equal(c.budget.memory_bytes, 50 << 20);
    assert_int_equal(c.budget.events_per_s, 10000);
    agent_conf_fini(&c);
    assert_ok(load(&c, "collector.addresses=a,b:1,[::1],[::1]:2", NULL));
    assert_int_equal(c.n_addresses, 4);
    assert_string_equal(c.addresses[0], "a:7420");
    assert_string_equal(c.addresses[1], "b:1");
    assert_string_equal(c.addresses[2], "[::1]:7420");
    assert_string_equal(c.addresses[3], "[::1]:2");
    assert_string_equal(c.enroll_address, "a:7423");
    agent_conf_fini(&c);
    assert_ok(load(&c, "collector.enroll_address=b", NULL));
    assert_string_equal(c.enroll_address, "b:7423");
    agent_conf_fini(&c);
    assert_ok(load(&c, "collector.addresses=[::1]:2", NULL));
    assert_string_equal(c.enroll_address, "[::1]:7423");
    agent_conf_fini(&c);
    assert_ok(load(&c, "privacy.user=false", NULL));
    assert_true(c.filter.hide_user);
    agent_conf_fini(&c);
    assert_ok(load(&c, "slow.top=0", NULL));
    assert_int_equal(c.slow_top, 0);
    agent_conf_fini(&c);
    assert_ok(load(&c, "process_filter.target_processes=4711,0,7", NULL));
    assert_int_equal(c.who.only.n_pids, 3);
    assert_int_equal(c.who.only.pids[0], 4711);
    assert_int_equal(c.who.except.n_pids, 0);
    agent_conf_fini(&c);
    assert_ok(load(&c, "process_filter.exclude_names=System,sql*", NULL));
    assert_int_equal(c.who.except.n_names, 2);
    assert_string_equal(c.who.except.names[1], "sql*");
    assert_false(c.who.except_system);
    agent_conf_fini(&c);
    assert_ok(load(&c, "process_filter.exclude_names=a.exe, b.exe", NULL));
    assert_string_equal(c.who.except.names[1], "b.exe");
    agent_conf_fini(&c);
    assert_ok(load(&c, "privacy.redact_names=password, zebra", NULL));
    assert_string_equal(c.filter.words[1], "zebra");
    agent_conf_fini(&c);
    assert_ok(load(&c, "state_dir=/x", NULL));
    assert_string_equal(c.state_dir, "/x");
    assert_below(c.key, "/x", "tls/agent.key");
    agent_conf_fini(&c);
    assert_ok(load(&c, "tls.ca=/y/ca.pem", NULL)); /* absolute: taken as it is */
    assert_below(c.ca, c.state_dir, "/y/ca.pem");
    agent_conf_fini(&c);
}

static void a_state_directory_of_this_system_is_the_default(void **state)
{
    struct agent_conf c;

    assert_ok(load(&c, NULL, NULL));
    assert_true(strchr(c.state_dir, '/') || strchr(c.state_dir, '\\'));
    assert_null(strchr(c.state_dir, '%')); /* a variable was filled in */
    assert_true(c.state_dir[0] == '/' || c.state_dir[1] == ':');
    agent_conf_fini(&c);
}

static void wrong_settings_are_named(void **state)
{
    static const struct {
        const char *set, *says;
    } rows[] = {
        {"sampling.rate_hz=0", "sampling.rate_hz"},
        {"sampler.level_max=L5", "sampler.level_max"},
        {"budget.cpu=60", "budget.cpu"},
        {"budget.mem=1MiB", "budget.mem"},
        {"budget.events=1", "budget.events"},
        {"batch.samples=0", "batch.samples"},
        {"batch.max_bytes=1 MiB", "batch.max_bytes"},
        {"source=magic", "source"},
        {"privacy.command_line=some", "privacy.command_line"},
        {"collector.server_name=", "collector.server_name"},
        {"state_dir=", "state_dir"},
        {"colector.addresses=a", "collector.addresses"}, /* the suggestion */
        {"process_filter.exclude_pids=4,x", "'x' is not the number of a process"},
        {"process_filter.target_process_names=[a*, b]", "no part of an entry"},
        {"process_filter.exclude_names=/usr/bin/vault", "without its folder"},
        {"process_filter.exclude_names=C:\\x\\*.exe", "without its folder"},
        {"process_filter.target_processes=-1", "process_filter.target_processes"},
        {"process_filter.exclude_system_processes=maybe", "exclude_system_processes"},
        {"slow.top=257", "slow.top"},
        {"slow.period=5s", "slow.period"},
        {"privacy.user=maybe", "privacy.user"},
        {"privacy.redact_names=password,--zebra", "'--zebra' would fit no name"},
        {"privacy.redact_names=*zebra*", "'*zebra*' would fit no name"},
        {"privacy.redact_names=password zebra", "would fit no name"},
        {"privacy.redact_names=zebra=", "would fit no name"},
        {"nonsense", "key=value"},
        {"collector.addresses=1,2,3,4,5,6,7,8,9", "collector.addresses"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};
        struct agent_conf c;

        assert_int_not_equal(load(&c, rows[i].set, &why), ERR_OK);
        assert_non_null(strstr(why.text, rows[i].says));
    }
}

/* The sample with every '#' before a key taken away says what the table says. */
static void every_line_of_the_sample_can_be_used(void **state)
{
    size_t n;
    const struct conf_key *keys = agent_conf_keys(&n);
    struct conf *c, *fresh;
    struct errmsg why = {""};
    struct buf b;

    buf_init(&b, 1 << 16);
    conf_print_sample(&b, keys, n, "sample");
    (void)buf_cstr(&b);
    for (size_t i = 0; i + 1 < b.n; i++) {
        if (b.p[i] == '#' && b.p[i + 1] != ' ') {
            b.p[i] = ' ';
        }
    }
    assert_ok(conf_create(&c, keys, n));
    assert_ok(conf_create(&fresh, keys, n));
    if (conf_load_text(c, (const char *)b.p, b.n, "sample", &why)) {
        fail_msg("%s", why.text);
    }
    for (size_t i = 0; i < n; i++) {
        const char *const *items;

        assert_true(conf_is_set(c, keys[i].key));
        if (keys[i].type == CONF_LIST) {
            size_t have = conf_list(c, keys[i].key, &items);

            assert_int_equal(have, conf_list(fresh, keys[i].key, &items));
        } else if (keys[i].type == CONF_TEXT || keys[i].type == CONF_CHOICE) {
            assert_string_equal(conf_text(c, keys[i].key), conf_text(fresh, keys[i].key));
        } else {
            assert_int_equal(conf_int(c, keys[i].key), conf_int(fresh, keys[i].key));
        }
    }
    conf_destroy(c);
    conf_destroy(fresh);
    buf_fini(&b);
}

static void loading_survives_every_failing_allocation(void **state)
{
    const char *set = "collector.addresses=a,b";
    long before = mem_live(), n = 0;
    struct agent_conf c;

    for (mem_fail_after(n); agent_conf_load(&c, NULL, &set, 1, NULL); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
        assert_true(n < 1000);
    }
    mem_fail_after(-1);
    assert_true(n > 10);
    agent_conf_fini(&c);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(settings_take_effect),
        cmocka_unit_test(a_state_directory_of_this_system_is_the_default),
        cmocka_unit_test(wrong_settings_are_named),
        cmocka_unit_test(every_line_of_the_sample_can_be_used),
        cmocka_unit_test(loading_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
