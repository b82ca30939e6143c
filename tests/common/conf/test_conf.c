#include "common/conf/conf.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/t.h"

static const struct conf_key keys[] = {
    {"data_dir", CONF_TEXT, "/var/lib/x", 0, 0, NULL, "where data lives"},
    {"sampling.rate_hz", CONF_NUMBER, "1", 100, 1000000, NULL, "0.1 to 1000"},
    {"batch.max_bytes", CONF_SIZE, "256KiB", 16 << 10, 768 << 10, NULL, "16 to 768 KiB"},
    {"batch.max_age", CONF_SPAN, "10s", CLK_S / 10, 300 * CLK_S, NULL, "0.1 to 300 s"},
    {"collector.addresses", CONF_LIST, "", 0, 2, NULL, "up to 2"},
    {"privacy.user", CONF_BOOL, "true", 0, 0, NULL, "account names"},
    {"log.level", CONF_CHOICE, "info", 0, 0, "error|warn|info|debug", "lowest level"},
    {"limits.hosts", CONF_INT, "10", 1, 100, NULL, "1 to 100"},
};

static struct conf *fresh(void)
{
    struct conf *c;

    assert_ok(conf_create(&c, keys, COUNT_OF(keys)));
    return c;
}

static void defaults_hold_until_a_file_says_otherwise(void **state)
{
    static const char text[] = "data_dir: /tmp/d\n"
                               "sampling:\n  rate_hz: 0.5\n"
                               "batch:\n  max_bytes: 64 KiB\n  max_age: 500ms\n"
                               "collector:\n  addresses: [a:1, 'b:2']\n"
                               "privacy.user: false\nlimits: {hosts: 7}\n";
    struct conf *c = fresh();
    const char *const *items;

    assert_string_equal(conf_text(c, "data_dir"), "/var/lib/x");
    assert_int_equal(conf_int(c, "batch.max_bytes"), 256 << 10);
    assert_false(conf_is_set(c, "data_dir"));
    assert_ok(conf_load_text(c, text, sizeof text - 1, "t.yaml", NULL));
    assert_string_equal(conf_text(c, "data_dir"), "/tmp/d");
    assert_true(conf_is_set(c, "data_dir"));
    assert_int_equal(conf_int(c, "sampling.rate_hz"), 500);
    assert_int_equal(conf_int(c, "batch.max_bytes"), 64 << 10);
    assert_int_equal(conf_int(c, "batch.max_age"), CLK_S / 2);
    assert_int_equal(conf_list(c, "collector.addresses", &items), 2);
    assert_string_equal(items[1], "b:2");
    assert_false(conf_bool(c, "privacy.user"));
    assert_string_equal(conf_text(c, "log.level"), "info");
    assert_int_equal(conf_int(c, "limits.hosts"), 7);
    conf_destroy(c);
}

static void wrong_files_name_line_key_and_remedy(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } table[] = {
        {"data_dri: x\n", "t.yaml:1: unknown key 'data_dri'; did you mean 'data_dir'?"},
        {"\nsampling:\n  rate_hz: fast\n", "t.yaml:3: sampling.rate_hz: 'fast' is not a number"},
        {"sampling.rate_hz: 5000\n", "out of range (0.1 to 1000)"},
        {"batch.max_bytes: 12 parsecs\n", "is not a size"},
        {"batch.max_age: 1y\n", "is not a time"},
        {"log.level: loud\n", "error|warn|info|debug"},
        {"collector.addresses: [a, b, c]\n", "more than 2 entries"},
        {"data_dir: [a]\n", "not a list"},
        {"data_dir: {a: b}\n", "unknown key"},
        {"- a\n", "a list is not expected"},
        {"data_dir: \"unclosed\n", "t.yaml:"},
        {"data_dir: *alias\n", "alias"},
        {"data_dir: a\n\ndata_dir: b\n", "t.yaml:3: data_dir stands in line 1 already"},
        {"log:\n  level: info\nlog.level: warn\n", "t.yaml:3: log.level stands in line 2"},
        {"collector.addresses: [a]\ncollector: {addresses: [b]}\n", "stands in line 1 already"},
        {"justtext\n", "a map of keys is expected"},
        {"collector.addresses: [a, '']\n", "t.yaml:1: collector.addresses: an entry is empty"},
        {"collector.addresses: a,,b\n", "an entry is empty"},
        {"collector.addresses:\n- 'a, b'\n", "t.yaml:2: collector.addresses: 'a, b' is one entry"},
        {"\ncollector.addresses:\n", "t.yaml:2: collector.addresses has no value"},
        {"data_dir: ~\n", "t.yaml:1: data_dir has no value"},
        {"collector.addresses: [a, ~]\n", "an entry is empty"},
        {"collector.addresses: |\n  a\n  b\n", "'a\\x0ab' has a character that does not show"},
        {"collector.addresses: [\"a\\0b\"]\n", "t.yaml:1: a NUL"},
        {"collector.addresses: !!binary YQ==\n", "t.yaml:1: tags are not supported"},
        {"collector.addresses: [!!binary YQ==]\n", "t.yaml:1: tags are not supported"},
        {"collector.addresses: !!seq [a]\n", "t.yaml:1: tags are not supported"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct conf *c = fresh();
        struct errmsg why = {""};

        assert_int_not_equal(
            conf_load_text(c, table[i].text, strlen(table[i].text), "t.yaml", &why), ERR_OK);
        if (!strstr(why.text, table[i].says)) {
            fail_msg("'%s' lacks '%s'", why.text, table[i].says);
        }
        conf_destroy(c);
    }
}

static void a_wrong_value_leaves_the_old_one(void **state)
{
    struct conf *c = fresh();

    assert_err(conf_set(c, "limits.hosts", "1000", NULL), ERR_RANGE);
    assert_int_equal(conf_int(c, "limits.hosts"), 10);
    assert_ok(conf_set(c, "limits.hosts", "0x0b", NULL));
    assert_int_equal(conf_int(c, "limits.hosts"), 11);
    assert_ok(conf_set(c, "limits.hosts", "010", NULL)); /* not eight */
    assert_int_equal(conf_int(c, "limits.hosts"), 10);
    assert_ok(conf_set(c, "limits.hosts", "11", NULL));
    assert_int_equal(conf_int(c, "limits.hosts"), 11);
    conf_destroy(c);
}

static void lists_are_read_without_the_blanks_around_their_entries(void **state)
{
    static const char *const texts[] = {"a.exe,b.exe", "a.exe, b.exe", " a.exe ,\tb.exe ",
                                        "a.exe,\xc2\xa0"
                                        "b.exe\xe3\x80\x80"};
    static const char yaml[] = "collector.addresses: [' a.exe', 'b.exe ']\n";
    const char *const *items;
    struct conf *c = fresh();

    for (size_t i = 0; i <= COUNT_OF(texts); i++) {
        if (i < COUNT_OF(texts)) {
            assert_ok(conf_set(c, "collector.addresses", texts[i], NULL));
        } else {
            assert_ok(conf_load_text(c, yaml, sizeof yaml - 1, "t.yaml", NULL));
        }
        assert_int_equal(conf_list(c, "collector.addresses", &items), 2);
        assert_string_equal(items[0], "a.exe");
        assert_string_equal(items[1], "b.exe");
    }
    assert_ok(conf_set(c, "collector.addresses", " ", NULL));
    assert_int_equal(conf_list(c, "collector.addresses", &items), 0);
    conf_destroy(c);
}

static void what_looks_like_a_list_of_yaml_is_not_taken_for_its_entries(void **state)
{
    static const char *const wrong[] = {"[a*, b]",
                                        "[a*]",
                                        "{a,b}",
                                        "[]",
                                        "\"a\",b",
                                        "a,'b'",
                                        "a,b]",
                                        "[a",
                                        "a,",
                                        ",a",
                                        "a,,b",
                                        "a, ,b",
                                        "a,b # both",
                                        "a\nb",
                                        "a,\xe2\x80\x8b"
                                        "b",
                                        "a\xff"};
    static const char *const right[] = {"[::1]",    "[::1]:2", "[::1],[fe80::1]:7420",
                                        "a(1).exe", "a#1",     "\xc3\xa4.exe"};
    struct conf *c = fresh();
    const char *const *items;

    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_ok(conf_set(c, "collector.addresses", right[i], NULL));
    }
    assert_ok(conf_set(c, "collector.addresses", "kept", NULL));
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct errmsg why = {""};

        assert_err(conf_set(c, "collector.addresses", wrong[i], &why), ERR_INVALID);
        assert_non_null(strstr(why.text, "collector.addresses: "));
        assert_int_equal(conf_list(c, "collector.addresses", &items), 1);
    }
    conf_destroy(c);
}

static void the_sample_file_loads(void **state)
{
    struct conf *c = fresh();
    struct buf b;

    buf_init(&b, 1 << 16);
    conf_print_sample(&b, keys, COUNT_OF(keys), "sample");
    assert_ok(conf_load_text(c, buf_cstr(&b), b.n, "sample", NULL));
    for (size_t i = 0; i + 1 < b.n;
         i++) { /* every default, without its '#', is a valid value too */
        if (b.p[i] == '#' && b.p[i + 1] != ' ') {
            b.p[i] = ' ';
        }
    }
    assert_ok(conf_load_text(c, buf_cstr(&b), b.n, "defaults", NULL));
    assert_int_equal(conf_int(c, "batch.max_age"), 10 * CLK_S);
    buf_fini(&b);
    conf_destroy(c);
}

static void ranges_are_written_as_they_would_be_typed(void **state)
{
    static const char *const texts[COUNT_OF(keys)] = {"",
                                                      "0.1 to 1000",
                                                      "16 KiB to 768 KiB",
                                                      "100ms to 5min",
                                                      "at most 2 entries",
                                                      "true or false",
                                                      "error|warn|info|debug",
                                                      "1 to 100"};
    char text[CONF_RANGE_TEXT];

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        assert_string_equal(conf_range(text, sizeof text, &keys[i]), texts[i]);
    }
}

static void limits_can_be_typed_in(void **state)
{
    struct conf *c = fresh();

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char text[CONF_RANGE_TEXT];
        char *to;

        to = strstr(conf_range(text, sizeof text, &keys[i]), " to ");
        if (to) {
            *to = '\0';
            assert_ok(conf_set(c, keys[i].key, text, NULL));
            assert_int_equal(conf_int(c, keys[i].key), keys[i].min);
            assert_ok(conf_set(c, keys[i].key, to + 4, NULL));
            assert_int_equal(conf_int(c, keys[i].key), keys[i].max);
        }
    }
    conf_destroy(c);
}

static void help_names_key_default_range_and_meaning(void **state)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    conf_print_help(&b, keys, COUNT_OF(keys));
    assert_non_null(
        strstr(buf_cstr(&b), "  batch.max_bytes (256KiB; 16 KiB to 768 KiB)\n      16 to"));
    assert_non_null(strstr(buf_cstr(&b), "  collector.addresses (none; at most 2 entries)\n"));
    buf_fini(&b);
}

static void every_failing_allocation_is_survived(void **state)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e == ERR_NOMEM; n++) {
        struct conf *c = NULL;

        mem_fail_after(n);
        e = conf_create(&c, keys, COUNT_OF(keys));
        mem_fail_after(-1);
        if (e == ERR_OK) {
            conf_destroy(c);
        }
        assert_int_equal(mem_live(), live);
    }
}

static const struct conf_key named[] = {
    {"default", CONF_TEXT, "", 0, 0, NULL, "which one"},
    {"labs.*.host", CONF_TEXT, "nobody", 0, 0, NULL, "where"},
    {"labs.*.wait", CONF_SPAN, "10s", 0, 3600 * CLK_S, NULL, "how long"},
    {"labs.*.who", CONF_LIST, "", 0, 2, NULL, "whom"},
};

static void of_named_keys_the_chosen_one_is_kept(void **state)
{
    static const char text[] =
        "default: b\nlabs:\n  a: {host: one, wait: 1s}\n  b:\n    host: two\n"
        "    who: [x]\n  c: {who: [y, z]}\n  d: {who: u}\n";
    const char *const *names, *const *who;
    struct conf *c;

    assert_ok(conf_create(&c, named, COUNT_OF(named)));
    conf_choose(c, "b");
    assert_ok(conf_load_text(c, text, sizeof text - 1, "t.yaml", NULL));
    assert_string_equal(conf_text(c, "labs.*.host"), "two");
    assert_int_equal(conf_line(c, "labs.*.host"), 5);
    assert_false(conf_is_set(c, "labs.*.wait"));
    assert_int_equal(conf_int(c, "labs.*.wait"), 10 * CLK_S);
    assert_int_equal(conf_list(c, "labs.*.who", &who), 1);
    assert_string_equal(who[0], "x");
    assert_int_equal(conf_names(c, &names), 4);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    conf_destroy(c);
}

static void mistakes_in_keys_of_other_names_are_found_too(void **state)
{
    static const struct {
        const char *text, *says;
    } table[] = {
        {"labs:\n  a:\n    hots: x\n",
         "t.yaml:3: unknown key 'labs.a.hots'; did you mean 'labs.a.host'?"},
        {"labs:\n  a:\n    wait: soon\n", "t.yaml:3: labs.*.wait: 'soon' is not a time"},
        {"labs:\n  b: {host: x}\n  b: {host: y}\n",
         "t.yaml:3: labs.b.host stands in line 2 already"},
        {"labs:\n  a: {who: [{x: y}]}\n", "t.yaml:2: a map is not expected here"},
        {"labs:\n  host: x\n", "unknown key 'labs.host'"},
        {"labs.a.b.host: x\n", "unknown key 'labs.a.b.host'"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct errmsg why = {""};
        struct conf *c;

        assert_ok(conf_create(&c, named, COUNT_OF(named)));
        conf_choose(c, "b");
        assert_err(conf_load_text(c, table[i].text, strlen(table[i].text), "t.yaml", &why),
                   ERR_INVALID);
        if (!strstr(why.text, table[i].says)) {
            fail_msg("expected '%s' in '%s'", table[i].says, why.text);
        }
        conf_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold_until_a_file_says_otherwise),
        cmocka_unit_test(wrong_files_name_line_key_and_remedy),
        cmocka_unit_test(a_wrong_value_leaves_the_old_one),
        cmocka_unit_test(lists_are_read_without_the_blanks_around_their_entries),
        cmocka_unit_test(what_looks_like_a_list_of_yaml_is_not_taken_for_its_entries),
        cmocka_unit_test(the_sample_file_loads),
        cmocka_unit_test(ranges_are_written_as_they_would_be_typed),
        cmocka_unit_test(limits_can_be_typed_in),
        cmocka_unit_test(help_names_key_default_range_and_meaning),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(of_named_keys_the_chosen_one_is_kept),
        cmocka_unit_test(mistakes_in_keys_of_other_names_are_found_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
