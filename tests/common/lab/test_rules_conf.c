#include "common/lab/rules_conf.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/t.h"

static void a_file_is_read_with_all_it_says(void **state)
{
    static const char text[] =
        "defaults: {coverage: 95%, late: 45s, severity: info, every: 20s}\n"
        "sets:\n"
        "  antivirus: [MsMpEng.exe, clamd]\n"
        "rules:\n"
        "  - name: av\n"
        "    of: image\n"
        "    where: 'name in antivirus and label.pool == \"build\"'\n"
        "    when: avg(cpu_percent, 10m) > 25% and last(coverage) > 0%\n"
        "    for: 5m\n"
        "    clear: 10m\n"
        "    hosts: 20%\n"
        "    at_most: 6/1h\n"
        "    say: '{name} takes {value} on {host}'\n"
        "    use: [lab-hook, mail]\n"
        "  - {name: io, when: 'rate(write_bytes, 45s) > 10MiB/s', severity: critical, every: 1m}\n";
    const struct rules_rule *r;
    struct rules_conf *c;
    struct rules_where at;
    struct errmsg why;

    assert_ok(rules_conf_read(&c, text, strlen(text), &at, &why));
    assert_int_equal(rules_conf_n(c), 2);
    r = rules_conf_rule(c, 0);
    assert_int_equal(r->of, RULES_IMAGE);
    assert_int_equal(r->many, RULES_SHARE);
    assert_int_equal(r->many_n, 200);
    assert_int_equal(r->for_ns, 300 * CLK_S);
    assert_int_equal(r->clear_ns, 600 * CLK_S);
    assert_int_equal(r->at_most, 6);
    assert_int_equal(r->at_most_ns, 3600 * CLK_S);
    assert_true(str_eq(r->use, str_make("lab-hook,mail")));
    assert_true(r->where_process && !r->where_end && r->has_limit && r->limit == 0.25);
    assert_int_equal(r->n_calls, 2);
    assert_int_equal(r->calls[0].source, RULES_CPU);
    assert_int_equal(r->calls[0].part_ns, 50 * CLK_S);
    assert_int_equal(r->calls[0].n_parts, 12);
    assert_int_equal(r->calls[1].source, RULES_COVERAGE);
    assert_true(r->coverage == 0.95);
    assert_int_equal(r->late_ns, 45 * CLK_S);
    assert_int_equal(r->every_ns, 20 * CLK_S);
    assert_int_equal(r->line, 5);
    r = rules_conf_rule(c, 1);
    assert_int_equal(r->of, RULES_HOST);
    assert_true(str_eq(r->severity, str_make("critical")));
    assert_int_equal(r->calls[0].span_ns, 50 * CLK_S); /* whole steps */
    assert_true(r->limit > 10485759 && r->limit < 10485761);
    assert_int_equal(rules_conf_span(c), 600 * CLK_S);
    rules_conf_free(c);
}

static void an_error_has_line_and_column(void **state)
{
    static const struct {
        const char *text;
        size_t line, column;
        const char *why; /* a part of it */
    } cases[] = {
        {"rules:\n  - {name: a, when: 'avg(cpu_time, 5m) > 1'}\n", 2, 22, "counter"},
        {"rules:\n  - {name: a, when: 'avg(cpu_percent, 5m) > 2GiB'}\n", 2, 45, "bytes"},
        {"rules:\n  - name: a\n    when: last(private_bytes) > 1B and nonsense\n", 3, 40, "field"},
        {"rules:\n  - name: a\n    when: avg(cpu_percent, 5m) > 25%\n    fro: 5m\n", 4, 5,
         "no key"},
        {"rules:\n  - name: a\n    when: avg(private_bytes) > 1\n", 3, 11, "span"},
        {"rules:\n  - name: a\n    when: avg(private_bytes, 5m) > cpu_percent\n", 3, 0, ""},
        {"rules:\n  - {name: a b, when: 'last(coverage) > 1%'}\n", 2, 12, "letters"},
        {"rules:\n  - {name: a}\n", 2, 5, "needs name and when"},
        {"rules:\n  - {name: a, when: 'last(coverage) > 1%', for: 5x}\n", 2, 49, "time"},
        {"rules:\n  - {name: a, when: 'last(coverage) > 1%', hosts: 0}\n", 2, 51, "hosts"},
        {"rules:\n  - {name: a, when: 'last(coverage) > 1%', say: '{nothing}'}\n", 2, 49, "say"},
        {"rules:\n  - {name: a, when: 'last(coverage) > 1%'}\n"
         "  - {name: a, when: 'last(coverage) > 1%'}\n",
         3, 5, "two rules a, the other in line 2"},
        {"rules:\n  - {name: a, name: b, when: 'last(coverage) > 1%'}\n", 2, 15, "twice"},
        {"rules: 5\n", 1, 8, "list"},
        {"other: 5\n", 1, 1, "defaults, sets and rules"},
        {"rules:\n  - {name: a, when: 'last(coverage) > 1%', of: class, hosts: 3}\n", 2, 5,
         "counts hosts"},
        {"rules:\n  - {name: a, where: 'cpu_time > 1s', when: 'last(coverage) > 1%'}\n", 2, 23,
         "field"},
        {"rules:\n  - {name: a, of: class, when: 'avg(cpu_percent, 5m) > 80% * cores'}\n", 2, 5,
         "a field of a host"},
        {"rules: [\n", 2, 1, ""},
        {"sets: {name: [a]}\n", 1, 8, "is a field"},
        {"rules:\n  - {name: a, when: '1 < 2'}\n", 2, 5, "function over time"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct rules_conf *c;
        struct rules_where at;
        struct errmsg why = {""};
        enum err e = rules_conf_read(&c, cases[i].text, strlen(cases[i].text), &at, &why);

        if (e == ERR_OK || at.line != cases[i].line ||
            (cases[i].column && at.column != cases[i].column) ||
            (cases[i].why[0] && strcmp(cases[i].why, "say") != 0 &&
             !strstr(why.text, cases[i].why))) {
            fail_msg("case %zu: %zu:%zu: %s", i, at.line, at.column, why.text);
        }
    }
}

static void an_empty_file_has_no_rules_and_a_large_one_is_refused(void **state)
{
    static char large[RULES_FILE_MAX + 2];
    struct rules_conf *c;
    struct rules_where at;
    struct errmsg why;

    assert_ok(rules_conf_read(&c, "", 0, &at, &why));
    assert_int_equal(rules_conf_n(c), 0);
    rules_conf_free(c);
    assert_ok(rules_conf_read(&c, "# nothing\n", 10, &at, &why));
    rules_conf_free(c);
    memset(large, '#', sizeof large);
    assert_err(rules_conf_read(&c, large, sizeof large, &at, &why), ERR_RANGE);
    assert_err(rules_conf_read(&c, "a: \xff", 4, &at, &why), ERR_INVALID);
}

static void texts_change_no_hash_and_conditions_do(void **state)
{
    static const char *const texts[] = {
        "rules: [{name: a, when: 'last(coverage) > 1%', say: x}]",
        "rules: [{name: b, when: 'last(coverage) > 1%', severity: info, for: 1m}]",
        "rules: [{name: a, when: 'last(coverage) > 2%', say: x}]",
        "rules: [{name: a, when: 'last(coverage) > 1%', where: host == \"x\"}]",
        "sets: {s: [x]}\nrules: [{name: a, when: 'last(coverage) > 1%', where: host in s}]",
        "sets: {s: [y]}\nrules: [{name: a, when: 'last(coverage) > 1%', where: host in s}]",
    };
    uint64_t hash[COUNT_OF(texts)];

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct rules_conf *c;
        struct rules_where at;
        struct errmsg why = {""};

        if (rules_conf_read(&c, texts[i], strlen(texts[i]), &at, &why)) {
            fail_msg("%s", why.text);
        }
        hash[i] = rules_conf_rule(c, 0)->hash;
        rules_conf_free(c);
    }
    assert_true(hash[0] == hash[1]);
    for (size_t i = 2; i < COUNT_OF(texts); i++) {
        for (size_t k = 1; k < i; k++) {
            assert_true(hash[i] != hash[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_with_all_it_says),
        cmocka_unit_test(an_error_has_line_and_column),
        cmocka_unit_test(an_empty_file_has_no_rules_and_a_large_one_is_refused),
        cmocka_unit_test(texts_change_no_hash_and_conditions_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
