/* Outliers over a store: a fleet of 200 hosts, some of which are unlike the others. */
#include "tests/support/t.h"

#include <math.h>

#include "collector/query/query.h"
#include "common/base/clk.h"
#include "common/wire/wire_outliers.h"
#include "tests/collector/query/ask.h"

#define FLEET 200u
#define TICKS 25u /* 120 s, five apart */
#define MS    INT64_C(1000000)

static uint64_t seed;
static unsigned odd_host; /* that has another image label */

static double random_between(double least, double most)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return least + (most - least) * (double)(seed >> 11) * 0x1p-53;
}

/* Two processes: cc1 and, with a tenth of it, sshd. `times`: what cc1 uses of the usual. */
static void host_put(struct lab *l, unsigned host, double times, unsigned ticks)
{
    static const uint8_t both[] = {M_CPU_TIME, M_PRIVATE_BYTES};
    double own = random_between(80, 120) * times;
    int64_t v[2][2 * TICKS] = {{0}};

    lab_begin(l, host, 7, 1);
    for (unsigned i = 0; i < ticks; i++) {
        lab_tick(l, 100 + 5 * i);
        for (unsigned p = 0; p < 2; p++) {
            double by = (p ? 10 : own) * random_between(0.7, 1.3);

            v[p][i] = (i ? v[p][i - 1] : 0) + (int64_t)(by * (double)MS);
            v[p][ticks + i] = (int64_t)(by * 1e6);
        }
    }
    for (uint32_t pid = 1; pid <= 2; pid++) {
        lab_run(l, pid, pid, 0, ticks, false, 2, both, v[pid - 1]);
    }
    lab_name(l, 1, "cc1");
    lab_name(l, 2, "sshd");
    lab_put(l);
}

static const struct facts *facts_of(void *ctx, const struct uuid *host, const char *name,
                                    struct arena *a)
{
    static struct facts facts[2] = {{.n_labels = 1, .labels = {{{"image", 5}, {"v12", 3}, false}}},
                                    {.n_labels = 1, .labels = {{{"image", 5}, {"v11", 3}, false}}}};

    (void)ctx;
    (void)host;
    (void)a;
    facts[0].inventory.os_name = facts[1].inventory.os_name = str_make("Some Linux 12");
    return &facts[(unsigned)strtoul(name + 5, NULL, 10) == odd_host];
}

/* Hosts above 190 are of a class of their own, those above 195 of none. */
static const struct facts *facts_of_few(void *ctx, const struct uuid *host, const char *name,
                                        struct arena *a)
{
    static struct facts few = {.inventory = {.os_name = {"Other", 5}}};
    unsigned long number = strtoul(name + 5, NULL, 10);

    return number > 195 ? NULL : number > 190 ? &few : facts_of(ctx, host, name, a);
}

static struct str class_of(void *ctx, const struct facts *f, const char *const *keys,
                           struct arena *a)
{
    (void)ctx;
    (void)a;
    return keys ? str_make("asked") : f->inventory.os_name;
}

static void ask(struct query_answer *out, struct lab *l, struct wire_query *q, bool few)
{
    struct query_env env = {.view = lab_view(l),
                            .now_ns = LAB_NS(220),
                            .facts = few ? facts_of_few : facts_of,
                            .host_class = class_of};
    struct errmsg why = {""};

    q->since_ns = LAB_NS(100);
    q->until_ns = LAB_NS(220);
    if (query_run(out, QUERY_OUTLIERS, &env, q, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
}

static unsigned host_number(const struct query_answer *a, size_t row)
{
    return (unsigned)strtoul(a->data.hosts[a->data.rows[row].host].name.p + 5, NULL, 10);
}

static void one_bad_host_of_200_is_found_in_each_fleet_and_none_in_equal_ones(void **state)
{
    unsigned false_ones = 0;

    for (unsigned s = 1; s <= 20; s++) {
        struct wire_query q = {.limit = 0};
        struct query_answer a;
        struct lab *l = lab_open(NULL, NULL);

        seed = s;
        odd_host = 3;
        for (unsigned h = 1; h < FLEET; h++) {
            host_put(l, h, 1, TICKS);
        }
        ask(&a, l, &q, false);
        false_ones += a.data.n_rows > 0;
        query_answer_fini(&a);
        host_put(l, FLEET, s % 2 ? 3 : 1 / 3.0, TICKS);
        ask(&a, l, &q, false);
        assert_true(a.data.n_rows >= 1);
        assert_int_equal(host_number(&a, 0), FLEET);
        assert_true(s % 2 ? a.data.outliers->rows[0].z_milli > 3000
                          : a.data.outliers->rows[0].z_milli < -3000);
        query_answer_fini(&a);
        lab_close(l);
    }
    assert_true(false_ones <= 1);
}

static struct lab *small_fleet(double times)
{
    struct lab *l = lab_open(NULL, NULL);

    seed = 11;
    for (unsigned h = 1; h <= 20; h++) {
        host_put(l, h, h == 5 ? times : 1, h == 9 ? TICKS / 2 : TICKS);
    }
    odd_host = 5;
    return l;
}

static void an_outlier_says_what_of_and_in_what_it_differs(void **state)
{
    struct lab *l = small_fleet(4);
    struct wire_query q = {.limit = 0};
    const struct wire_outlier *o;
    struct query_answer a;

    ask(&a, l, &q, false);
    assert_int_equal(a.data.n_rows, 1);
    assert_int_equal(host_number(&a, 0), 5);
    o = &a.data.outliers->rows[0];
    assert_true(o->times_milli > 2500 && o->times_milli < 5000);
    assert_true(o->parts >= 4);
    assert_true(str_eq(o->most, str_make("cc1")));
    assert_true(o->most_value < a.data.rows[0].values[0] &&
                o->most_value > a.data.rows[0].values[0] / 2);
    assert_true(str_eq(o->differs, str_make("label image=v11 (others v12)")));
    assert_int_equal(a.data.outliers->n_classes, 1);
    assert_int_equal(a.data.outliers->classes[0].hosts, 19);
    assert_int_equal(a.data.outliers->classes[0].not_judged, 1); /* half of host 9 is missing */
    assert_true(str_eq(a.data.outliers->classes[0].name, str_make("Some Linux 12")));
    query_answer_fini(&a);
    q.metrics[0] = M_PRIVATE_BYTES; /* a gauge: the mean of all processes together */
    q.n_metrics = 1;
    q.n_class = 1;
    q.class_keys[0] = str_make("os_name");
    ask(&a, l, &q, false);
    assert_int_equal(a.data.n_rows, 1);
    assert_true(a.data.rows[0].values[0] > 300000000 && a.data.rows[0].values[0] < 500000000);
    assert_true(a.data.outliers->classes[0].median > 90000000);
    assert_true(a.data.outliers->classes[0].median < 130000000);
    assert_true(str_eq(a.data.outliers->classes[0].name, str_make("asked")));
    query_answer_fini(&a);
    lab_close(l);
}

static void images_are_judged_one_by_one(void **state)
{
    struct lab *l = small_fleet(4);
    struct wire_query q = {.group_by = WIRE_GROUP_IMAGE};
    struct query_answer a;

    ask(&a, l, &q, false);
    assert_int_equal(a.data.n_rows, 1);
    assert_true(str_eq(a.data.rows[0].info.name, str_make("cc1")));
    assert_int_equal(host_number(&a, 0), 5);
    assert_true(str_eq(a.data.outliers->classes[0].image, str_make("cc1")));
    query_answer_fini(&a);
    lab_close(l);
}

static void hosts_of_small_classes_and_of_none_are_not_judged(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 0};
    struct query_answer a;

    seed = 2;
    for (unsigned h = 181; h <= FLEET; h++) {
        host_put(l, h, h > 190 && h % 2 ? 20 : 1, TICKS);
    }
    ask(&a, l, &q, true);
    assert_int_equal(a.data.n_rows, 0);
    assert_int_equal(a.data.outliers->n_classes, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct wire_outlier_class *c = &a.data.outliers->classes[i];
        bool big = str_eq(c->name, str_make("Some Linux 12"));

        assert_int_equal(c->hosts, big ? 10 : 0);
        assert_int_equal(c->not_judged, big ? 0 : 5);
    }
    query_answer_fini(&a);
    lab_close(l);
}

static void what_it_cannot_answer_is_refused(void **state)
{
    static const struct {
        uint8_t metric, group;
        const char *where, *class, *says;
    } table[] = {{M_CPU_PERCENT, 0, "", "os_name", "cpu_percent is a rate"},
                 {M_CPU_TIME, WIRE_GROUP_USER, "", "os_name", "hosts, or images"},
                 {M_CPU_TIME, 0, "pid == 1", "os_name", "there is no field pid"},
                 {M_CPU_TIME, 0, "", "nothing", "class: 'nothing'"}};
    struct lab *l = small_fleet(1);

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(220)};
        struct wire_query q = {.n_metrics = 1,
                               .metrics = {table[i].metric},
                               .group_by = table[i].group,
                               .events.where = str_make(table[i].where),
                               .n_class = 1,
                               .class_keys = {str_make(table[i].class)}};
        struct errmsg why = {""};
        struct query_answer a;

        assert_err(query_run(&a, QUERY_OUTLIERS, &env, &q, &why), ERR_INVALID);
        if (!strstr(why.text, table[i].says)) {
            fail_msg("%s", why.text);
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bad_host_of_200_is_found_in_each_fleet_and_none_in_equal_ones),
        cmocka_unit_test(an_outlier_says_what_of_and_in_what_it_differs),
        cmocka_unit_test(images_are_judged_one_by_one),
        cmocka_unit_test(hosts_of_small_classes_and_of_none_are_not_judged),
        cmocka_unit_test(what_it_cannot_answer_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
