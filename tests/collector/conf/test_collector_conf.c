#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "collector/collector_store.h"
#include "collector/conf/collector_conf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"

static void defaults_are_those_of_the_documents(void **state)
{
    struct collector_conf c;
    struct errmsg why = {""};

    assert_ok(collector_conf_load(&c, NULL, NULL, 0, &why));
    assert_string_equal(c.data_dir, "/var/lib/procfleet-collector");
    assert_string_equal(c.ingest, "*:7420");
    assert_string_equal(c.query, "*:7421");
    assert_string_equal(c.events, "*:7422");
    assert_string_equal(c.ca, "/var/lib/procfleet-collector/tls/ca.pem");
    assert_string_equal(c.log_file, "");
    assert_int_equal(c.hosts_max, 10000);
    assert_int_equal(c.processes_max, 4096);
    assert_int_equal(c.process_bytes_host, 16u << 20);
    assert_true(c.process_bytes >= 64u << 20);
    assert_int_equal(c.batch_bytes_max, 1u << 20);
    assert_int_equal(c.accept_age_ns, 8 * 24 * 3600 * CLK_S);
    assert_true(c.head_bytes_max >= 128u << 20 && c.head_bytes_max <= (uint64_t)8 << 30);
    assert_int_equal(c.retain.age_ns[SEG_RAW], 48 * 3600 * CLK_S);
    assert_int_equal(c.retain.age_ns[SEG_1H], 90 * 24 * 3600 * CLK_S);
    assert_int_equal(c.retain.age_ns[SEG_REST], 0); /* retain_defaults knows */
    assert_int_equal(c.retain.total_bytes, 0);
    assert_int_equal(c.feed_bytes, 1u << 30);
    assert_int_equal(c.feed_age_ns, 24 * 3600 * CLK_S);
    assert_int_equal(c.feed_idle_ns, 7 * 24 * 3600 * CLK_S);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_int_equal(c.log_format, LOG_TEXT);
    collector_conf_fini(&c);
}

static void settings_override_and_relative_paths_start_at_data_dir(void **state)
{
    static const char *const sets[] = {"data_dir=/d",         "tls.key=/abs/key", "log.file=c.log",
                                       "listen.events=",      "log.level=debug",  "log.format=json",
                                       "head.max_bytes=1GiB", "limits.hosts=3",   "tls.cert=c.pem"};
    struct collector_conf c;
    struct errmsg why = {""};

    assert_ok(collector_conf_load(&c, NULL, sets, COUNT_OF(sets), &why));
    assert_string_equal(c.key, "/abs/key");
    assert_string_equal(c.cert, "/d/c.pem");
    assert_string_equal(c.log_file, "/d/c.log");
    assert_string_equal(c.events, "");
    assert_int_equal(c.hosts_max, 3);
    assert_int_equal(c.head_bytes_max, 1u << 30);
    assert_int_equal(c.log_level, LOG_DEBUG);
    assert_int_equal(c.log_format, LOG_JSON);
    collector_conf_fini(&c);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *set, *says;
    } table[] = {
        {"data_dir=relative", "absolute"},
        {"data_dri=/x", "data_dir"},
        {"nonsense", "key=value"},
        {"limits.hosts=0", "limits.hosts"},
        {"retention.raw.age=soon", "retention.raw.age"},
        {"retention.10s.age=47h", "retention.10s.age"},
        {"retention.raw.bytes=1MiB", "16 MiB"},
        {"retention.total_bytes=100MiB", "256 MiB"},
        {"head.max_bytes=1MiB", "16 MiB"},
        {"accept_age=1s", "accept_age"},
        {"feed.max_bytes=3MiB", "4 MiB"},
        {"feed.max_age=59s", "feed.max_age"},
        {"feed.idle=59s", "feed.idle"},
        {"listen.ingest=", "listen.ingest"},
        {"log.level=loud", "log.level"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct collector_conf c;
        struct errmsg why = {""};
        enum err e = collector_conf_load(&c, NULL, &table[i].set, 1, &why);

        if (!e || !strstr(why.text, table[i].says)) {
            fail_msg("\"%s\" gives %s: \"%s\"", table[i].set, err_name(e), why.text);
        }
        collector_conf_fini(&c);
    }
}

/* The sample with every line made active says what the defaults say. */
static void the_sample_file_is_valid_and_equal_to_the_defaults(void **state)
{
    struct collector_conf c;
    struct errmsg why = {""};
    char dir[256], path[300];
    struct buf sample;
    size_t n;
    const struct conf_key *keys = collector_conf_keys(&n);

    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/sample.yaml", dir);
    buf_init(&sample, 1u << 20);
    conf_print_sample(&sample, keys, n, "sample");
    for (size_t i = 0; i + 1 < sample.n; i++) {
        if (sample.p[i] == '#' && sample.p[i + 1] != ' ' && (!i || sample.p[i - 1] == '\n')) {
            sample.p[i] = ' '; /* one key a line, all at the same depth */
        }
    }
    assert_ok(os_write_file(path, sample.p, sample.n, false));
    if (collector_conf_load(&c, path, NULL, 0, &why)) {
        fail_msg("%s", why.text);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(conf_is_set(c.source, keys[i].key));
    }
    assert_string_equal(c.ingest, "*:7420");
    assert_int_equal(c.accept_age_ns, 8 * 24 * 3600 * CLK_S);
    collector_conf_fini(&c);
    buf_fini(&sample);
    support_remove_dir(dir);
}

static void the_journal_takes_what_is_set_and_at_most_an_eighth_of_the_ceiling(void **state)
{
    static const struct {
        const char *sets[2];
        uint64_t bytes;
    } table[] = {
        {{"retention.total_bytes=16GiB", "feed.max_bytes=1GiB"}, (uint64_t)1 << 30},
        {{"retention.total_bytes=4GiB", "feed.max_bytes=1GiB"}, (uint64_t)512 << 20},
        {{"retention.total_bytes=256MiB", "feed.max_bytes=4MiB"}, 4u << 20},
        {{"retention.total_bytes=256MiB", "feed.max_bytes=0"}, 0},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct collector_conf c;
        struct errmsg why = {""};

        assert_ok(collector_conf_load(&c, NULL, table[i].sets, 2, &why));
        assert_int_equal(collector_store_feed_bytes(&c), table[i].bytes);
        collector_conf_fini(&c);
    }
}

static void loading_survives_every_failing_allocation(void **state)
{
    static const char *const sets[] = {"data_dir=/d", "log.file=x"};
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct collector_conf c;
        struct errmsg why;
        long live = mem_live();

        mem_fail_after(n);
        e = collector_conf_load(&c, NULL, sets, COUNT_OF(sets), &why);
        mem_fail_after(-1);
        collector_conf_fini(&c);
        assert_int_equal(mem_live(), live);
        assert_true(n < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_documents),
        cmocka_unit_test(settings_override_and_relative_paths_start_at_data_dir),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(the_sample_file_is_valid_and_equal_to_the_defaults),
        cmocka_unit_test(the_journal_takes_what_is_set_and_at_most_an_eighth_of_the_ceiling),
        cmocka_unit_test(loading_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
