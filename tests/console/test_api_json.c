#include "collector/console/api_json.h"

#include <jansson.h>
#include <string.h>

#include "collector/console/api.h"
#include "common/base/mem.h"
#include "common/wire/wire_lifetimes.h"
#include "common/wire/wire_outliers.h"
#include "common/wire/wire_overview.h"
#include "common/wire/wire_series.h"
#include "tests/support/t.h"

#define OUT_MAX (1u << 20)
#define HOSTILE "<b>\x01\n\"\\ \xe2\x80\xae\x9b\xff"

static json_t *parse(const struct buf *out)
{
    json_error_t error;
    json_t *j;

    assert_int_equal(out->bad, ERR_OK);
    for (size_t i = 0; i < out->n; i++) { /* nothing that steers a terminal or a reader */
        assert_true(out->p[i] >= 0x20 && out->p[i] != 0x7f);
    }
    for (size_t i = 0; i + 3 <= out->n; i++) {
        assert_memory_not_equal(out->p + i, "\xe2\x80\xae", 3); /* right to left from here on */
    }
    j = json_loadb((const char *)out->p, out->n, 0, &error);
    if (!j) {
        print_error("%s at %d\n", error.text, error.position);
    }
    assert_non_null(j);
    return j;
}

static const char *text_at(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));

    assert_non_null(text);
    return text;
}

static json_t *at(json_t *list, size_t i)
{
    json_t *v = json_array_get(list, i);

    assert_non_null(v);
    return v;
}

static json_t *column(json_t *answer, const char *metric)
{
    return json_object_get(json_object_get(json_object_get(answer, "rows"), "values"), metric);
}

/* -- an answer with two rows of one process and one of another -- */

static int64_t values[3][3] = {{INT64_C(9007199254740993), 1234, 5}, {7, 1, 6}, {8, 0, 0}};
static struct wire_host hosts[2];
static struct wire_row rows[3];
static struct query_answer answer;

static int set_up(void **state)
{
    static const struct str note = {"lost " HOSTILE, sizeof "lost " HOSTILE - 1};

    (void)state;
    memset(hosts, 0, sizeof hosts);
    memset(rows, 0, sizeof rows);
    hosts[0] = (struct wire_host){.name = str_make("web-1"), .batches = UINT64_MAX};
    hosts[1] = (struct wire_host){
        .name = {HOSTILE, sizeof HOSTILE - 1}, .cpus = 8, .has_offset = true, .offset_ns = -5};
    for (size_t i = 0; i < 3; i++) {
        rows[i].host = i < 2 ? 1 : 0;
        rows[i].info.id = (struct proc_id){i < 2 ? 11u : 12u, INT64_C(1795406489890762082)};
        rows[i].info.name = (struct str){HOSTILE, sizeof HOSTILE - 1};
        rows[i].when_ns = INT64_C(1790000000123456789);
        rows[i].values = values[i];
        rows[i].have = i == 2 ? 1 : 7;
    }
    rows[2].info.have = INFO_EXIT_CODE | INFO_PARENT;
    rows[2].info.exit_code = 3221225477u;
    answer = (struct query_answer){
        .data = {.n_hosts = 2,
                 .hosts = hosts,
                 .n_metrics = 3,
                 .metrics = {M_CPU_TIME, M_CPU_PERCENT, M_THREAD_COUNT},
                 .n_rows = 3,
                 .rows = rows,
                 .since_ns = 1,
                 .until_ns = INT64_MAX,
                 .n_notes = 1,
                 .notes = &note,
                 .sum = {true, true, 999700, 0, 12}},
        .more = true,
        .cursor_n = 2,
        .cursor = {0, 0xff},
    };
    return 0;
}

static json_t *ask_json(enum query_kind kind, const struct wire_query *q, bool flat)
{
    struct buf out;
    json_t *j;

    buf_init(&out, OUT_MAX);
    api_json_answer(&out, kind, q, &answer, flat);
    j = parse(&out);
    buf_fini(&out);
    return j;
}

static void the_envelope_says_what_arrived(void **state)
{
    const struct wire_query q = {.limit = 0};
    json_t *j = ask_json(QUERY_TOP, &q, false), *c = json_object_get(j, "coverage"), *h;

    (void)state;
    assert_string_equal(text_at(j, "since_ns"), "1");
    assert_string_equal(text_at(j, "until_ns"), "9223372036854775807");
    assert_int_equal(json_integer_value(json_object_get(c, "ppm")), 999700);
    assert_true(json_is_true(json_object_get(c, "at_most")));
    assert_int_equal(json_integer_value(json_object_get(c, "lost_events")), 12);
    assert_string_equal(text_at(j, "cursor"), "00ff");
    h = at(json_object_get(j, "hosts"), 0);
    assert_string_equal(text_at(h, "batches"), "18446744073709551615");
    assert_true(json_is_null(json_object_get(h, "cpus")));
    assert_true(json_is_null(json_object_get(h, "offset_ns")));
    assert_true(json_is_null(json_object_get(h, "last_ns")));
    assert_string_equal(text_at(at(json_object_get(j, "hosts"), 1), "offset_ns"), "-5");
    json_decref(j);
}

static void outliers_have_their_classes_in_either_shape(void **state)
{
    static const struct wire_outlier_class classes[] = {
        {.name = {"some", 4}, .hosts = 9, .not_judged = 1, .median = 4000000, .spread_ppm = 50000},
        {.name = {"", 0}, .not_judged = 2},
    };
    static const struct wire_outlier found[] = {
        {.times_milli = 3300, .z_milli = -9800, .parts = 6, .most = {"cc1", 3}, .most_value = 7},
        {.times_milli = 500, .z_milli = 4000, .parts = 4, .differs = {"label a=b", 9}},
        {.times_milli = 500, .z_milli = 4000, .parts = 4},
    };
    static const struct wire_outliers all = {2, classes, found};
    const struct wire_query q = {.limit = 0};
    json_t *j, *r, *c;

    (void)state;
    answer.data.outliers = &all;
    answer.data.n_metrics = 1;
    j = ask_json(QUERY_OUTLIERS, &q, false);
    r = json_object_get(j, "rows");
    c = json_object_get(j, "classes");
    assert_int_equal(json_integer_value(json_object_get(r, "n")), 3);
    assert_int_equal(json_integer_value(at(json_object_get(r, "host"), 0)), 1);
    assert_true(json_real_value(at(json_object_get(r, "z"), 0)) == -9.8);
    assert_true(json_is_null(at(json_object_get(r, "most_value"), 1)));
    assert_int_equal(json_array_size(c), 2);
    assert_string_equal(text_at(at(c, 0), "name"), "some");
    assert_true(json_is_null(json_object_get(at(c, 1), "median")));
    json_decref(j);
    j = ask_json(QUERY_OUTLIERS, &q, true);
    r = at(json_object_get(j, "rows"), 2);
    assert_string_equal(text_at(r, "host"), "web-1");
    assert_string_equal(text_at(r, "class"), "some");
    assert_true(json_real_value(json_object_get(r, "times_median")) == 0.5);
    json_decref(j);
}

static void columns_have_each_process_once_and_null_for_absent(void **state)
{
    const struct wire_query q = {.limit = 0};
    json_t *j = ask_json(QUERY_TOP, &q, false), *r = json_object_get(j, "rows"), *v;

    (void)state;
    assert_int_equal(json_array_size(json_object_get(j, "infos")), 2);
    assert_int_equal(json_integer_value(json_object_get(r, "n")), 3);
    assert_int_equal(json_integer_value(at(json_object_get(r, "info"), 1)), 0);
    assert_int_equal(json_integer_value(at(json_object_get(r, "info"), 2)), 1);
    assert_true(json_real_value(at(json_object_get(r, "time_ms"), 0)) == 1790000000123.457);
    v = column(j, "cpu_time");
    assert_string_equal(json_string_value(at(v, 0)), "9007199254740993");
    v = column(j, "cpu_percent");
    assert_true(json_real_value(at(v, 0)) == 123.4);
    assert_true(json_is_null(at(v, 2)));
    v = at(json_object_get(j, "infos"), 0);
    assert_string_equal(text_at(v, "start"), "1795406489890762082");
    assert_true(json_is_null(json_object_get(v, "exit_code")));
    assert_true(json_is_null(json_object_get(v, "start_ns")));
    v = at(json_object_get(j, "infos"), 1);
    assert_int_equal(json_integer_value(json_object_get(v, "exit_code")), 3221225477);
    assert_int_equal(json_integer_value(json_object_get(v, "parent")), 0);
    json_decref(j);
}

static void names_of_hosts_and_processes_are_only_text(void **state)
{
    const struct wire_query q = {.group_by = WIRE_GROUP_IMAGE};
    json_t *j;

    (void)state;
    for (unsigned flat = 0; flat < 2; flat++) {
        j = ask_json(QUERY_TOP, &q, flat != 0); /* parse looks at every byte */
        json_decref(j);
    }
    j = ask_json(QUERY_TOP, &(struct wire_query){.limit = 0}, false);
    assert_non_null(strstr(text_at(at(json_object_get(j, "infos"), 0), "name"), "<b>"));
    assert_non_null(strstr(text_at(at(json_object_get(j, "infos"), 0), "name"), "\\xff"));
    json_decref(j);
}

static void rows_are_flat_and_lack_what_is_absent(void **state)
{
    const struct wire_query q = {.limit = 0};
    json_t *j = ask_json(QUERY_PROCESSES, &q, true), *r = at(json_object_get(j, "rows"), 2);

    (void)state;
    assert_int_equal(json_integer_value(json_object_get(r, "pid")), 12);
    assert_string_equal(text_at(r, "host"), "web-1");
    assert_string_equal(text_at(r, "cpu_time"), "8");
    assert_null(json_object_get(r, "cpu_percent"));
    assert_null(json_object_get(r, "create_time"));
    json_decref(j);
}

/* -- series, lifetimes, overview, coverage, events -- */

static void series_have_null_where_nothing_was_measured(void **state)
{
    static uint8_t have[] = {1};
    static int64_t avg[2] = {-15, 99}, low[2] = {-20, 0}, high[2] = {1, 0};
    static const uint32_t present[] = {1000000, 0}, in[] = {2, 0};
    struct wire_series_column columns[2] = {{have, avg, low, high}, {have, avg, NULL, NULL}};
    struct wire_series s = {.t0_ns = INT64_C(1790000000000000000),
                            .step_ns = INT64_C(10000000000),
                            .n_buckets = 2,
                            .hosts_asked = 2,
                            .present = present,
                            .hosts_in = in,
                            .n_groups = 2,
                            .columns = columns};
    const struct wire_query q = {.group_by = WIRE_GROUP_HOST};
    json_t *j, *g, *c;

    (void)state;
    answer.data.n_rows = answer.data.n_metrics = 1;
    answer.data.metrics[0] = M_CPU_PERCENT;
    answer.data.series = &s;
    j = ask_json(QUERY_SERIES, &q, false);
    g = json_object_get(json_object_get(j, "series"), "groups");
    assert_string_equal(
        text_at(at(g, 0), "label"),
        json_string_value(at(json_object_get(json_object_get(j, "rows"), "label"), 0)));
    assert_true(json_is_null(json_object_get(at(g, 1), "label")));
    c = json_object_get(json_object_get(at(g, 0), "columns"), "cpu_percent");
    assert_true(json_real_value(at(json_object_get(c, "avg"), 0)) == -1.5);
    assert_true(json_is_null(at(json_object_get(c, "max"), 1)));
    c = json_object_get(json_object_get(at(g, 1), "columns"), "cpu_percent");
    assert_null(json_object_get(c, "min"));
    json_decref(j);
    j = ask_json(QUERY_SERIES, &q, true);
    assert_int_equal(json_array_size(json_object_get(j, "rows")), 4);
    assert_null(json_object_get(at(json_object_get(j, "rows"), 1), "cpu_percent"));
    json_decref(j);
}

static void a_pulse_has_a_group_for_each_host(void **state)
{
    static uint8_t have[] = {0};
    static int64_t avg[2];
    static const uint32_t all[] = {1000000, 1000000}, alive[] = {7, WIRE_SERIES_NONE};
    struct wire_series_column column = {have, avg, NULL, NULL};
    struct wire_series s = {.step_ns = INT64_C(30000000000),
                            .n_buckets = 2,
                            .present = all,
                            .hosts_in = all,
                            .n_groups = 1,
                            .columns = &column,
                            .group_present = alive,
                            .group_processes = alive};
    const struct wire_query q = {.limit = 0};
    json_t *j, *series, *group, *list;

    (void)state;
    answer.data.n_rows = answer.data.n_metrics = 1;
    rows[0].host = 0;
    answer.data.series = &s;
    j = ask_json(QUERY_PULSE, &q, false);
    series = json_object_get(j, "series");
    group = at(json_object_get(series, "groups"), 0);
    assert_string_equal(text_at(group, "label"), "web-1");
    list = json_object_get(json_object_get(json_object_get(group, "columns"), "processes"), "avg");
    assert_int_equal(json_integer_value(at(list, 0)), 7);
    assert_true(json_is_null(at(list, 1)));
    list = at(json_object_get(series, "present_by_host"), 0);
    assert_true(json_is_null(at(list, 1)));
    json_decref(j);
}

static void lifetimes_are_columns(void **state)
{
    static const int64_t start[] = {-1500, 2000}, life[] = {WIRE_LIFE_LIVES, 20001};
    static const int64_t parent[] = {-9, 1}, code[] = {WIRE_LIFE_NOT_KNOWN, 137};
    static const int64_t cpu[] = {WIRE_LIFE_NOT_KNOWN, 0};
    static const uint32_t zero[] = {0, 0}, pid[] = {1, 2};
    const struct str names[] = {{HOSTILE, sizeof HOSTILE - 1}};
    const struct wire_lifetimes l = {.n = 2,
                                     .start_us = start,
                                     .life_us = life,
                                     .host = zero,
                                     .name = zero,
                                     .user = zero,
                                     .pid = pid,
                                     .parent = parent,
                                     .exit_code = code,
                                     .flags = zero,
                                     .cpu_us = cpu,
                                     .n_names = 1,
                                     .names = names,
                                     .left_out = 3,
                                     .step_ns = 1000000,
                                     .n_buckets = 2,
                                     .starts = pid,
                                     .ends = zero,
                                     .present = zero};
    const struct wire_query q = {.limit = 0};
    json_t *j;

    (void)state;
    answer.data.n_rows = 0;
    answer.data.lifetimes = &l;
    j = ask_json(QUERY_LIFETIMES, &q, false);
    assert_true(json_real_value(
                    at(json_object_get(json_object_get(j, "lifetimes"), "start_ms"), 0)) == -1.5);
    assert_int_equal(
        json_integer_value(at(json_object_get(json_object_get(j, "lifetimes"), "life_ms"), 0)), -1);
    assert_true(json_real_value(
                    at(json_object_get(json_object_get(j, "lifetimes"), "life_ms"), 1)) == 20.001);
    assert_true(json_is_null(at(json_object_get(json_object_get(j, "lifetimes"), "exit_code"), 0)));
    assert_int_equal(
        json_integer_value(at(json_object_get(json_object_get(j, "lifetimes"), "cpu_ms"), 1)), 0);
    json_decref(j);
}

static void a_restricted_overview_has_null_for_the_store(void **state)
{
    const struct wire_overview o = {.hosts = 2, .processes = UINT64_MAX};
    const struct wire_query q = {.limit = 0};
    json_t *j, *whole;

    (void)state;
    answer.data.overview = &o;
    whole = ask_json(QUERY_OVERVIEW, &q, false);
    j = json_object_get(whole, "overview");
    assert_true(json_is_null(json_object_get(j, "total_bytes")));
    assert_true(json_is_null(json_object_get(j, "refusing")));
    assert_string_equal(text_at(j, "processes"), "18446744073709551615");
    json_decref(whole);
}

static void events_of_images_name_their_file(void **state)
{
    struct wire_event ev[2] = {
        {.host = 0,
         .event = {.kind = LIFE_IMAGE_LOAD, .wall_ns = 5, .text = str_make("/lib/x.so")}},
        {.host = 1, .event = {.kind = LIFE_LEVEL, .wall_ns = 6, .text = str_make("level 0")}},
    };
    const struct wire_query q = {.limit = 0};
    json_t *j, *e;

    (void)state;
    ev[0].event.info.name = str_make("cc1");
    answer.data.n_rows = 0;
    answer.data.events = ev;
    answer.data.n_events = 2;
    j = ask_json(QUERY_EVENTS, &q, false);
    e = at(json_object_get(j, "events"), 0);
    assert_string_equal(text_at(e, "path"), "/lib/x.so");
    assert_true(json_is_null(json_object_get(e, "text")));
    e = at(json_object_get(j, "events"), 1);
    assert_string_equal(text_at(e, "text"), "level 0");
    assert_true(json_is_null(json_object_get(e, "pid")));
    json_decref(j);
}

static void a_failed_allocation_is_the_buffers(void **state)
{
    const struct wire_query q = {.limit = 0};
    long live = mem_live();
    enum err e = ERR_NOMEM;

    (void)state;
    for (long k = 0; e; k++) {
        struct buf out;

        buf_init(&out, OUT_MAX);
        mem_fail_after(k);
        api_json_answer(&out, QUERY_TOP, &q, &answer, false);
        mem_fail_after(-1);
        e = out.bad;
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        buf_fini(&out);
        assert_int_equal(mem_live(), live);
        assert_true(k < 100);
    }
}

static void errors_carry_any_sentence(void **state)
{
    static struct api_answer x;
    json_t *j;

    (void)state;
    api_init(&x, OUT_MAX);
    api_fail(&x, RPC_RESOURCE_EXHAUSTED, 1001, HOSTILE);
    assert_true(x.status == 429 && x.retry_after_s == 2);
    j = parse(&x.body);
    assert_string_equal(text_at(j, "code"), "RESOURCE_EXHAUSTED");
    json_decref(j);
    api_fini(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_envelope_says_what_arrived, set_up),
        cmocka_unit_test_setup(outliers_have_their_classes_in_either_shape, set_up),
        cmocka_unit_test_setup(columns_have_each_process_once_and_null_for_absent, set_up),
        cmocka_unit_test_setup(names_of_hosts_and_processes_are_only_text, set_up),
        cmocka_unit_test_setup(rows_are_flat_and_lack_what_is_absent, set_up),
        cmocka_unit_test_setup(series_have_null_where_nothing_was_measured, set_up),
        cmocka_unit_test_setup(a_pulse_has_a_group_for_each_host, set_up),
        cmocka_unit_test_setup(lifetimes_are_columns, set_up),
        cmocka_unit_test_setup(a_restricted_overview_has_null_for_the_store, set_up),
        cmocka_unit_test_setup(events_of_images_name_their_file, set_up),
        cmocka_unit_test_setup(a_failed_allocation_is_the_buffers, set_up),
        cmocka_unit_test(errors_carry_any_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
