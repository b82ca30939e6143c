#include "collector/lab/lab_keeper.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/collector/lab.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

struct kept {
    struct lab *lab;
    struct lab_db *db;
    struct lab_keeper *keeper;
};

static double base; /* seconds since LAB_EPOCH_NS: 300 s ago */

/* Hosts 1 and 2 with a tick a second from base + 100 to base + 200. */
static void kept_open(struct kept *k)
{
    struct errmsg why = {""};

    *k = (struct kept){.lab = lab_open(NULL, NULL)};
    base = (double)((os_utc_ns() - LAB_EPOCH_NS) / CLK_S) - 300;
    for (unsigned host = 1; host <= 2; host++) {
        lab_clock(k->lab, (struct host_offset){.known = true});
        lab_begin(k->lab, host, 1, 1);
        for (unsigned i = 0; i < 100; i++) {
            lab_tick(k->lab, base + 100 + i);
        }
        lab_put(k->lab);
    }
    assert_ok(lab_db_open(&k->db, dir, fio_unsynced(), &why));
}

static void keeper_start(struct kept *k, int64_t samples_age_ns)
{
    const struct lab_keeper_conf conf = {.db = k->db,
                                         .store = lab_store(k->lab),
                                         .fio = fio_unsynced(),
                                         .data_dir = dir,
                                         .age_ns = INT64_MAX / 2,
                                         .max_bytes = 1u << 30,
                                         .samples_age_ns = samples_age_ns,
                                         .wait_ns = 1,
                                         .again_ns = 1,
                                         .poll_ns = CLK_MS};
    struct errmsg why = {""};

    assert_ok(lab_keeper_start(&k->keeper, &conf, &why));
}

static void kept_close(struct kept *k)
{
    lab_keeper_stop(k->keeper);
    lab_db_close(k->db);
    lab_close(k->lab);
}

/* A run of host 1 from base + 110 on; asked for: `pattern`. */
static struct wire_run begun(struct kept *k, const char *scope, const char *pattern)
{
    const struct runs_who who = {"ci", scope, false};
    const struct str asked = str_make(pattern);
    const struct wire_run_host host = {.id = lab_host(1), .name = str_make("host-1")};
    const struct wire_run_mark m = {.name = str_make("r"), .n_hosts = 1, .hosts = &asked};
    const struct runs_mark mark = {.m = &m,
                                   .when_ns = LAB_NS(base + 110),
                                   .now_ns = LAB_NS(base + 110),
                                   .n_hosts = 1,
                                   .hosts = &host};
    struct errmsg why = {""};
    struct arena memory;
    struct wire_run run;

    arena_init(&memory, 1u << 20);
    assert_ok(runs_begin(k->db, &who, &mark, &memory, &run, &why));
    arena_fini(&memory);
    return run;
}

static void ended_at(struct kept *k, double second)
{
    const struct runs_who who = {"ci", "", false};
    const struct wire_run_mark m = {.name = str_make("r")};
    const struct runs_mark mark = {
        .m = &m, .when_ns = LAB_NS(base + second), .now_ns = LAB_NS(base + second)};
    struct errmsg why = {""};
    struct arena memory;
    struct wire_run run;

    arena_init(&memory, 1u << 20);
    assert_ok(runs_end(k->db, &who, &mark, &memory, &run, &why));
    arena_fini(&memory);
}

static void ended(struct kept *k)
{
    ended_at(k, 150);
}

static struct wire_run row(struct kept *k, uint64_t number)
{
    struct arena memory;
    struct wire_run run;

    arena_init(&memory, 1u << 20);
    assert_ok(runs_read(k->db, number, &memory, &run));
    arena_fini(&memory);
    return run; /* without its texts and lists */
}

static void wait_filed(struct kept *k, uint64_t number, uint32_t revision)
{
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;

    while (row(k, number).revision < revision && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(row(k, number).revision, revision);
}

static void wait_fresh(struct kept *k)
{
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;
    uint64_t number;
    size_t n = 1;

    while (n && os_mono_ns() < until_ns) {
        assert_ok(runs_list(k->db, RUNS_STALE, 0, &number, 1, &n));
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(n, 0);
}

/* -- tests -- */

static void late_data_make_no_file_again_whose_samples_are_gone(void **state)
{
    struct kept k;
    uint64_t number;

    (void)state;
    kept_open(&k);
    number = begun(&k, "", "host-1").number;
    ended(&k);
    keeper_start(&k, INT64_MAX / 2);
    wait_filed(&k, number, 1);
    assert_ok(runs_stale(k.db, number));
    wait_filed(&k, number, 2);
    lab_keeper_stop(k.keeper);

    assert_ok(runs_stale(k.db, number));
    keeper_start(&k, CLK_S);
    wait_fresh(&k);
    assert_int_equal(row(&k, number).revision, 2);
    assert_int_equal(row(&k, number).state, WIRE_RUN_READY);
    kept_close(&k);
}

static void what_a_host_did_after_its_last_data_is_not_covered(void **state)
{
    struct kept k;
    uint64_t number;

    (void)state;
    kept_open(&k);
    number = begun(&k, "", "host-1").number;
    ended_at(&k, 290);
    keeper_start(&k, INT64_MAX / 2);
    wait_filed(&k, number, 1);
    assert_in_range(row(&k, number).coverage, 480000, 500000); /* 89 of 180 s */
    kept_close(&k);
}

static void hosts_that_come_later_are_in_the_scope(void **state)
{
    static const struct {
        const char *scope;
        uint32_t hosts;
    } tries[] = {{"", 2}, {"host-*", 2}, {"*-1", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct kept k;
        uint64_t number;
        int64_t until_ns;

        kept_open(&k);
        number = begun(&k, tries[i].scope, "*").number;
        keeper_start(&k, INT64_MAX / 2);
        until_ns = os_mono_ns() + (tries[i].hosts == 2 ? 20 * CLK_S : 50 * CLK_MS);
        while (row(&k, number).hosts_asked < 2 && os_mono_ns() < until_ns) {
            os_sleep_ns(CLK_MS);
        }
        assert_int_equal(row(&k, number).hosts_asked, tries[i].hosts);
        ended(&k);
        kept_close(&k);
    }
}

static void an_id_of_a_key_is_taken_by_its_key_alone(void **state)
{
    const struct runs_who who = {"ci", "", false}, other = {"other", "", false};
    struct wire_run_mark m = {.name = str_make("r"), .key = str_make("job-1")};
    const struct runs_mark mark = {.m = &m, .when_ns = 1, .now_ns = 1};
    struct errmsg why = {""};
    struct arena memory;
    struct wire_run run;
    struct kept k;

    (void)state;
    kept_open(&k);
    arena_init(&memory, 1u << 20);
    assert_ok(runs_begin(k.db, &who, &mark, &memory, &run, &why));
    assert_ok(runs_begin(k.db, &who, &mark, &memory, &run, &why));
    m.id = run.id;
    m.id.b[0] ^= 1;
    assert_int_equal(runs_begin(k.db, &other, &mark, &memory, &run, &why), ERR_INVALID);
    arena_fini(&memory);
    kept_close(&k);
}

/* One that begins before 1970, which no file says. */
static void a_run_that_fits_no_file_is_over_without_one(void **state)
{
    const struct runs_who who = {"ci", "", false};
    const struct str asked = str_make("host-1");
    const struct wire_run_host host = {.id = lab_host(1), .name = str_make("host-1")};
    const struct wire_run_mark m = {.name = str_make("r"), .n_hosts = 1, .hosts = &asked};
    const struct runs_mark mark = {
        .m = &m, .when_ns = -5, .now_ns = LAB_NS(base), .n_hosts = 1, .hosts = &host};
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;
    struct errmsg why = {""};
    struct arena memory;
    struct wire_run run;
    struct kept k;

    (void)state;
    kept_open(&k);
    arena_init(&memory, 1u << 20);
    assert_ok(runs_begin(k.db, &who, &mark, &memory, &run, &why));
    ended(&k);
    keeper_start(&k, INT64_MAX / 2);
    while (row(&k, run.number).state == WIRE_RUN_CLOSING && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(row(&k, run.number).state, WIRE_RUN_READY);
    assert_int_equal(row(&k, run.number).revision, 0);
    arena_fini(&memory);
    kept_close(&k);
}

#define KEPT(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(late_data_make_no_file_again_whose_samples_are_gone),
        KEPT(what_a_host_did_after_its_last_data_is_not_covered),
        KEPT(hosts_that_come_later_are_in_the_scope),
        KEPT(an_id_of_a_key_is_taken_by_its_key_alone),
        KEPT(a_run_that_fits_no_file_is_over_without_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
