#include "collector/console/api_args.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/model/metric.h"
#include "tests/support/t.h"

#define NOW INT64_C(1790000000000000000)
#define ALL ((uint32_t)((UINT64_C(1) << API_ARGS) - 1))

static struct api_args args;

static enum err read_args(const char *query, uint32_t takes, struct errmsg *why)
{
    return api_args_read(&args, str_make(query), takes, NOW, why);
}

static void read_well(const char *query)
{
    struct errmsg why = {""};

    if (read_args(query, ALL, &why) != ERR_OK) {
        print_error("%s: %s\n", query, why.text);
        fail();
    }
}

static void assert_text(struct str got, const char *expected)
{
    assert_int_equal(got.n, strlen(expected));
    assert_memory_equal(got.p, expected, got.n);
}

static void every_parameter_is_read(void **state)
{
    const struct wire_query *q = &args.q;

    (void)state;
    read_well("host=web-*&run=build%40last&ids=00112233-4455-6677-8899-aabbccddeeff,"
              "ffffffff-ffff-ffff-ffff-ffffffffffff&forgotten=true&until=1m&last=1h30m&at=now&"
              "metric=cpu_time,read_bytes&"
              "limit=7&idle&exited=1&pid=0x10&start=18446744073709551615&name=a%2Ab&"
              "kinds=level,process&provider=Micro*&event=3&where=a%3D1&class=os,cpu_model&step=10s&"
              "buckets=4096&"
              "envelope=false&cursor=00fF&stages=true&"
              "by=avg&group_by=fleet&folded=true&max=500&wait=25s&firing=true&shape=rows");
    assert_text(q->host, "web-*");
    assert_text(q->run, "build@last");
    assert_int_equal(q->ids.n, 32);
    assert_memory_equal(q->ids.p, "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee",
                        15);
    assert_memory_equal(q->ids.p + 15, "\xff\xff", 2);
    assert_true(q->forgotten && q->idle && q->exited && q->stages && q->folded && !q->envelope);
    assert_true(q->until_ns == NOW - 60 * CLK_S && q->last_ns == 5400 * CLK_S && q->at_ns == NOW);
    assert_int_equal(q->n_metrics, 2);
    assert_int_equal(q->metrics[0], M_CPU_TIME);
    assert_int_equal(q->metrics[1], M_READ_BYTES);
    assert_true(q->has_pid && q->pid == 16 && q->start == UINT64_MAX);
    assert_text(q->name, "a*b");
    assert_text(q->events.provider, "Micro*");
    assert_text(q->events.event, "3");
    assert_text(q->events.where, "a=1");
    assert_int_equal(q->n_class, 2);
    assert_text(q->class_keys[0], "os");
    assert_text(q->class_keys[1], "cpu_model");
    assert_int_equal(q->kinds,
                     1u << LIFE_LEVEL | 1u << LIFE_PROCESS_START | 1u << LIFE_PROCESS_STOP);
    assert_true(q->limit == 7 && q->step_ns == 10 * CLK_S && q->buckets == 4096 && q->max == 500);
    assert_int_equal(q->cursor.n, 2);
    assert_memory_equal(q->cursor.p, "\0\xff", 2);
    assert_int_equal(q->by, WIRE_BY_AVG);
    assert_int_equal(q->group_by, WIRE_GROUP_FLEET);
    assert_true(args.wait_ns == 25 * CLK_S && args.rows);
    assert_int_equal(q->rules_ask, WIRE_RULES_FIRING);
    assert_int_equal(args.given, ALL & ~(uint32_t)API_SINCE);
}

static void more_hosts_than_fit_are_refused(void **state)
{
    static const char id[] = "00112233-4455-6677-8899-aabbccddeeff,";
    char query[8 + (WIRE_IDS_MAX + 1) * sizeof id] = "ids=";
    struct errmsg why = {""};

    (void)state;
    for (size_t i = 0; i < WIRE_IDS_MAX; i++) {
        (void)snprintf(query + strlen(query), sizeof query - strlen(query), "%s", id);
    }
    read_well(query);
    assert_int_equal(args.q.ids.n, WIRE_IDS_MAX * 16);
    (void)snprintf(query + strlen(query), sizeof query - strlen(query), "%s", id);
    assert_err(api_args_read(&args, str_make(query), ALL, NOW, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "at most 128"));
}

static void moments_are_spans_times_or_nanoseconds(void **state)
{
    (void)state;
    read_well("since=5m");
    assert_int_equal(args.q.since_ns, NOW - 300 * CLK_S);
    read_well("since=1970-01-01T00:00:01.5Z&until=2026-11-21T09%3A00%3A00Z");
    assert_int_equal(args.q.since_ns, 1500 * CLK_MS);
    read_well("since=1790000000000000001");
    assert_int_equal(args.q.since_ns, NOW + 1);
}

static void nothing_is_left_of_the_question_before(void **state)
{
    (void)state;
    read_well("host=a&limit=3&pid=1&shape=rows&wait=1s&metric=cpu_time");
    read_well("");
    assert_int_equal(args.given, 0);
    assert_true(!args.q.host.n && !args.q.limit && !args.q.has_pid && !args.q.n_metrics);
    assert_true(!args.rows && !args.wait_ns);
}

static void wrong_values_are_named(void **state)
{
    static const struct {
        const char *query, *says;
    } bad[] = {
        {"limit=0", "limit: '0' is not a number from 1 to 4096"},
        {"limit=4097", "from 1 to 4096"},
        {"limit=", "limit: ''"},
        {"pid=4294967296", "pid:"},
        {"pid=1&start=0", "start:"},
        {"start=5", "start goes with pid"},
        {"since=yesterday", "since: 'yesterday' is not a span"},
        {"since=-1", "since:"},
        {"since=99999999999999999999999", "since:"},
        {"last=0", "last:"},
        {"last=5", "last:"},
        {"wait=26s", "at most 25s"},
        {"metric=cpu_tme", "did you mean 'cpu_time'?"},
        {"metric=name", "not a number"},
        {"metric=", "a list of metrics"},
        {"kinds=", "a list of kinds"},
        {"class=", "a list of names of the inventory"},
        {"kinds=starts", "kinds: 'starts' is not"},
        {"by=median", "usual, sum, rate, max or avg"},
        {"group_by=color", "process, image, user, host, tree, fleet or image-user"},
        {"idle=maybe", "true or false"},
        {"shape=cube", "columns or rows"},
        {"cursor=0", "cursor:"},
        {"cursor=0g", "cursor:"},
        {"ids=", "a list of ids"},
        {"ids=web-1", "a list of ids"},
        {"ids=00112233-4455-6677-8899-aabbccddeeff00", "a list of ids"},
        {"ids=00112233-4455-6677-8899-aabbccddeeff,,", "a list of ids"},
        {"since=1m&until=5m", "since lies behind until"},
        {"since=1m&last=5m", "leave one of them away"},
        {"limit=1&limit=1", "'limit' is given twice"},
        {"limt=1", "did you mean 'limit'?"},
        {"Host=a", "did you mean 'host'?"},
        {"xyzzy=1", "openapi.json lists"},
        {"host=%", "%XX"},
        {"host=%4", "%XX"},
        {"host=%gg", "%XX"},
        {"host=%00", "%XX"},
        {"host=%ff", "%XX"},
        {"%c0%af=1", "%XX"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct errmsg why = {""};

        if (read_args(bad[i].query, ALL, &why) != ERR_INVALID || !strstr(why.text, bad[i].says)) {
            print_error("%s: %s\n", bad[i].query, why.text);
            fail();
        }
    }
}

static void only_what_the_path_takes_is_known(void **state)
{
    struct errmsg why = {""};

    (void)state;
    assert_ok(read_args("host=a", API_HOST, &why));
    assert_err(read_args("limit=1", API_HOST, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "no parameter 'limit' here"));
    assert_err(read_args("host=a", 0, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "takes none"));
}

static void names_and_values_are_decoded(void **state)
{
    (void)state;
    read_well("&&ho%73t=b+%C3%BC%26%3D&&");
    assert_text(args.q.host, "b \u00fc&=");
    read_well("name=");
    assert_true(args.q.name.n == 0 && args.given == API_NAME);
}

static void the_longest_query_is_read_and_no_longer_one(void **state)
{
    static char query[WIRE_WEB_QUERY_MAX + 2];
    struct errmsg why = {""};

    (void)state;
    memset(query, '&', WIRE_WEB_QUERY_MAX);
    assert_ok(read_args(query, ALL, &why));
    memset(query, '=', WIRE_WEB_QUERY_MAX);
    assert_err(read_args(query, ALL, &why), ERR_INVALID);
    query[WIRE_WEB_QUERY_MAX] = '&';
    assert_err(read_args(query, ALL, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "more than 8192 bytes"));
    memset(query, 'a', 5 + 257);
    memcpy(query, "host=", 5);
    query[5 + 257] = '\0';
    assert_err(read_args(query, ALL, &why), ERR_INVALID);
    query[5 + 256] = '\0';
    assert_ok(read_args(query, ALL, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_read),
        cmocka_unit_test(more_hosts_than_fit_are_refused),
        cmocka_unit_test(moments_are_spans_times_or_nanoseconds),
        cmocka_unit_test(nothing_is_left_of_the_question_before),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(only_what_the_path_takes_is_known),
        cmocka_unit_test(names_and_values_are_decoded),
        cmocka_unit_test(the_longest_query_is_read_and_no_longer_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
