/* The catalogue of generated hosts over midnight: it can be made anew from segments at any time,
 * a step at a time, beside readers, and after damage. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "collector/store/catalogue/catalogue.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/catalogue/catalogue_rig.h"
#include "tests/support/fleetgen.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define S   INT64_C(1000000000)
#define DAY (86400 * S)
#define T0  (INT64_C(20000) * DAY) /* a midnight */

#define HOSTS 3u

static void seal_fleet(int64_t begin_ns, unsigned windows)
{
    struct wire_encoder *enc;
    struct fleetgen *g[HOSTS];

    assert_ok(wire_batch_encoder_create(&enc));
    for (unsigned h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {
            .seed = h + 1, .metrics = 1, .tick_ns = 10 * S, .begin_ns = begin_ns};

        g[h] = fleetgen_create(&conf);
    }
    for (unsigned w = 0; w < windows; w++) {
        struct batch *b[HOSTS];
        struct window_rest rests[HOSTS];
        struct host_window hw[HOSTS];

        for (unsigned h = 0; h < HOSTS; h++) {
            struct buf bytes;

            buf_init(&bytes, 4u << 20);
            assert_ok(wire_batch_encode(enc, &bytes, fleetgen_batch(g[h], 30)));
            assert_ok(wire_batch_decode(&b[h], bytes.p, bytes.n));
            buf_fini(&bytes);
            rests[h] = (struct window_rest){.batch = *b[h]};
            rests[h].batch.n_runs = rests[h].batch.n_columns = 0;
            hw[h] = (struct host_window){
                .host = b[h]->head.host, .name = "g", .n_rests = 1, .rests = &rests[h]};
        }
        (void)catalogue_rig_seal(window_of(begin_ns) + (int64_t)w * WINDOW_NS, hw, HOSTS);
        for (unsigned h = 0; h < HOSTS; h++) {
            wire_batch_free(b[h]);
        }
    }
    for (unsigned h = 0; h < HOSTS; h++) {
        fleetgen_destroy(g[h]);
    }
    wire_batch_encoder_destroy(enc);
}

static struct uuid fleet_host(unsigned h)
{
    const struct fleetgen_conf conf = {.seed = h + 1};
    struct fleetgen *g = fleetgen_create(&conf);
    struct uuid id = fleetgen_head(g)->host;

    fleetgen_destroy(g);
    return id;
}

/* Everything, in words that can be compared. */
static void dump(struct buf *out)
{
    static const int64_t moments[] = {-3000, -600, -1, 0, 1, 600, 3000};

    buf_reset(out);
    for (unsigned h = 0; h < HOSTS; h++) {
        struct uuid id = fleet_host(h);

        for (size_t k = 0; k <= COUNT_OF(moments); k++) {
            struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
            const struct catalogue_rig_rows *r;

            if (k < COUNT_OF(moments)) {
                ask.since_ns = T0 + moments[k] * S;
                ask.until_ns = ask.since_ns + 1;
            }
            r = catalogue_rig_find(&ask);
            buf_put(out, &r->n, sizeof r->n);
            buf_put(out, r->at, r->n * sizeof r->at[0]);
        }
    }
    assert_ok(out->bad);
}

static void deleted_and_made_anew_it_is_the_same(void **state)
{
    struct catalogue_stats before, after;
    struct buf live, anew;

    buf_init(&live, 64u << 20);
    buf_init(&anew, 64u << 20);
    for (unsigned i = 0; i < 4; i++) { /* follows now and then, as sealing does */
        seal_fleet(T0 - 6 * WINDOW_NS, 3 + 3 * i);
        catalogue_rig_follow();
    }
    dump(&live);
    catalogue_stats(catalogue_rig.c, &before);
    assert_int_equal(before.days, 2);
    assert_true(before.instances > 600 && before.running >= 3 * 140 && before.bytes > 100000);
    assert_int_equal(before.failed + before.damaged + before.refused + before.rebuilt, 0);
    catalogue_close(catalogue_rig.c);
    support_empty_dir(catalogue_rig.cat_dir);
    catalogue_rig_open(true);
    catalogue_rig_follow();
    dump(&anew);
    assert_int_equal(live.n, anew.n);
    assert_memory_equal(live.p, anew.p, live.n);
    catalogue_stats(catalogue_rig.c, &after);
    assert_int_equal(after.imported, before.imported);
    assert_int_equal(after.instances, before.instances);
    buf_fini(&live);
    buf_fini(&anew);
}

static void every_moment_has_the_processes_that_ran_then(void **state)
{
    const struct fleetgen_conf conf = {
        .seed = 1, .metrics = 1, .tick_ns = 10 * S, .begin_ns = T0 - 6 * WINDOW_NS};
    struct fleetgen *g = fleetgen_create(&conf);
    struct uuid host = fleetgen_head(g)->host;

    seal_fleet(T0 - 6 * WINDOW_NS, 12);
    catalogue_rig_follow();
    for (unsigned i = 0; i < 360; i++) {
        const struct sample_tick *t = fleetgen_tick(g);
        struct catalogue_ask ask = {
            .host = &host, .since_ns = t->wall_ns, .until_ns = t->wall_ns + 1};
        const struct catalogue_rig_rows *r;

        if (i % 29) {
            continue;
        }
        r = catalogue_rig_find(&ask);
        for (size_t k = 0; k < t->n_rows; k++) {
            bool found = false;

            for (size_t n = 0; n < r->n && !found; n++) {
                found = proc_id_eq(r->at[n].info.id, t->rows[k].info->id);
            }
            assert_true(found);
        }
        assert_true(r->n <= t->n_rows + 3); /* those that ended in this very tick */
    }
    fleetgen_destroy(g);
}

static void opened_again_it_imports_nothing_twice(void **state)
{
    struct catalogue_stats st;

    seal_fleet(T0, 3);
    catalogue_rig_follow();
    catalogue_rig_follow();
    catalogue_stats(catalogue_rig.c, &st);
    assert_int_equal(st.imported, 3);
    catalogue_close(catalogue_rig.c);
    seal_fleet(T0 + 3 * WINDOW_NS, 2);
    catalogue_rig_open(true);
    catalogue_stats(catalogue_rig.c, &st);
    assert_int_equal(st.imported, 2);
}

static void it_can_be_done_a_step_at_a_time(void **state)
{
    struct catalogue_stats st;
    bool more = true;

    seal_fleet(T0, 3);
    for (uint64_t i = 1; more; i++) {
        struct manifest_list *l = manifest_view(catalogue_rig.m);

        assert_ok(catalogue_step(catalogue_rig.c, l, 0, &more));
        manifest_list_release(l);
        catalogue_stats(catalogue_rig.c, &st);
        assert_int_equal(st.imported, i);
        assert_true(st.instances > 0);
    }
    assert_int_equal(st.imported, 3);
}

/* A limit on the size of files stands for it. */
static void a_disk_that_was_full_costs_time_only(void **state)
{
    struct rlimit free, full;
    struct catalogue_stats st;
    struct manifest_list *l;
    bool more = true;

    seal_fleet(T0, 3);
    l = manifest_view(catalogue_rig.m);
    assert_ok(catalogue_step(catalogue_rig.c, l, 0, &more));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &free), 0);
    full = (struct rlimit){4096, free.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    for (int tries = 0; tries < 3; tries++) {
        assert_true(catalogue_step(catalogue_rig.c, l, 0, &more) != ERR_OK);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &free), 0);
    manifest_list_release(l);
    catalogue_rig_follow();
    catalogue_stats(catalogue_rig.c, &st);
    assert_int_equal(st.imported, 3);
    assert_int_equal(st.failed, 3);
    assert_int_equal(st.damaged + st.rebuilt, 0);
}

static void a_damaged_file_is_made_anew(void **state)
{
    static const char *const damage[] = {"empty",  "garbage", "cut",
                                         "header", "middle",  "of format 1"};
    struct catalogue_stats st;
    struct buf live, anew;
    uint64_t rebuilt = 0;

    buf_init(&live, 64u << 20);
    buf_init(&anew, 64u << 20);
    seal_fleet(T0, 3);
    catalogue_rig_follow();
    dump(&live);
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        char path[400];
        uint8_t *p;
        size_t n;

        catalogue_close(catalogue_rig.c);
        (void)snprintf(path, sizeof path, "%s/2024-10-04.db", catalogue_rig.cat_dir);
        assert_ok(os_read_file(&p, &n, path, 64u << 20));
        if (i == 1) {
            memset(p, 'x', n);
        } else if (i == 3) {
            p[70] ^= 0xff;
        } else if (i == 4) {
            memset(p + 4096, 0x55, n - 4096);
        } else if (i == 5) {
            mem_free(p);
            assert_ok(
                os_read_file(&p, &n, "tests/collector/fixtures/catalogue-format1.db", 1 << 20));
        }
        assert_ok(os_write_file(path, p, i == 0 ? 0 : i == 2 ? n / 2 : n, false));
        mem_free(p);
        catalogue_rig_open(true);
        /* What opening does not see, a catalogue_rig_find does; then it is made anew. */
        if (i == 2 || i == 4) {
            struct uuid id = fleet_host(0);
            struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
            static struct catalogue_rig_rows r;

            r.n = 0;
            (void)!catalogue_find(catalogue_rig.c, &ask, catalogue_rig_add, &r);
        }
        catalogue_rig_follow();
        dump(&anew);
        assert_int_equal(live.n, anew.n);
        assert_memory_equal(live.p, anew.p, live.n);
        catalogue_stats(catalogue_rig.c, &st);
        rebuilt += st.rebuilt;
    }
    assert_true(rebuilt >= 5); /* an empty file is a new one */
    buf_fini(&live);
    buf_fini(&anew);
}

static void a_day_that_is_being_made_anew_says_so(void **state)
{
    const struct uuid id = fleet_host(0);
    const struct catalogue_ask ask = {.host = &id, .since_ns = T0, .until_ns = T0 + S};
    static struct catalogue_rig_rows r;
    struct manifest_list *l;
    bool more = true;

    seal_fleet(T0, 3);
    catalogue_rig_follow();
    assert_true(catalogue_rig_find(&ask)->n > 0);
    catalogue_bad(catalogue_rig.c, T0 - T0 % DAY);
    l = manifest_view(catalogue_rig.m);
    for (unsigned i = 0; more; i++) {
        assert_ok(catalogue_step(catalogue_rig.c, l, 0, &more)); /* one segment */
        r.n = 0;
        assert_err(catalogue_find(catalogue_rig.c, &ask, catalogue_rig_add, &r),
                   more ? ERR_BUSY : ERR_OK);
        assert_true(i < 3 && r.n > 0);
    }
    manifest_list_release(l);
}

/* -- readers beside the writer -- */

struct reader {
    struct os_thread *thread;
    int finds;
    enum err bad;
};

static enum err count_row(void *ctx, const struct uuid *boot, const struct proc_info *info,
                          int64_t seen_ns)
{
    (void)boot;
    (void)seen_ns;
    *(size_t *)ctx += info->name.n > 0;
    return ERR_OK;
}

static void read_on(void *arg)
{
    struct reader *r = arg;
    struct uuid id = fleet_host(0);
    size_t last = 0;

    for (int i = 0; i < r->finds && !r->bad; i++) {
        struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
        size_t n = 0;

        r->bad = catalogue_find(catalogue_rig.c, &ask, count_row, &n);
        if (n < last) {
            r->bad = ERR_LOST;
        }
        last = n;
    }
}

static void readers_see_whole_segments_while_the_writer_writes(void **state)
{
    struct reader r[3] = {{.finds = 30}, {.finds = 30}, {.finds = 30}};

    seal_fleet(T0 - 3 * WINDOW_NS, 1);
    catalogue_rig_follow();
    for (size_t i = 0; i < COUNT_OF(r); i++) {
        assert_ok(os_thread_start(&r[i].thread, "reader", read_on, &r[i]));
    }
    seal_fleet(T0 - 3 * WINDOW_NS, 6);
    for (int i = 0; i < 5; i++) {
        catalogue_rig_follow();
    }
    for (size_t i = 0; i < COUNT_OF(r); i++) {
        os_thread_join(r[i].thread);
        assert_ok(r[i].bad);
    }
}

static void opening_survives_every_allocation_failing(void **state)
{
    struct catalogue_conf conf = {.dir = catalogue_rig.cat_dir};
    struct manifest_list *l;
    const struct seg *seg;
    enum err e = ERR_NOMEM;
    long before;

    seal_fleet(T0, 1);
    catalogue_close(catalogue_rig.c);
    catalogue_rig.c = NULL;
    support_empty_dir(catalogue_rig.cat_dir);
    l = manifest_view(catalogue_rig.m);
    assert_ok(manifest_seg(l, 0, &seg)); /* stays open */
    assert_ok(catalogue_open(&catalogue_rig.c, &conf, l, NULL));
    catalogue_close(catalogue_rig.c);
    catalogue_rig.c = NULL;
    support_empty_dir(catalogue_rig.cat_dir);
    before = mem_live();
    for (long i = 0; e || i < 400; i++) {
        mem_fail_after(i);
        e = catalogue_open(&catalogue_rig.c, &conf, l, NULL);
        mem_fail_after(-1);
        if (!e) {
            catalogue_close(catalogue_rig.c);
            catalogue_rig.c = NULL;
        }
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(mem_live(), before);
    }
    manifest_list_release(l);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, catalogue_rig_setup, catalogue_rig_teardown)
    const struct CMUnitTest tests[] = {
        T(deleted_and_made_anew_it_is_the_same),
        T(every_moment_has_the_processes_that_ran_then),
        T(opened_again_it_imports_nothing_twice),
        T(it_can_be_done_a_step_at_a_time),
        T(a_disk_that_was_full_costs_time_only),
        T(a_damaged_file_is_made_anew),
        T(a_day_that_is_being_made_anew_says_so),
        T(readers_see_whole_segments_while_the_writer_writes),
        T(opening_survives_every_allocation_failing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
