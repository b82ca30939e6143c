/* Readers beside the writer and the sealing thread: views opened all the time while windows are
 * filled and sealed. What was acknowledged before a view was opened is in it, each batch once and
 * whole, in the head or sealed; rows are of the same ticks as the batches. */
#include <stdatomic.h>
#include <string.h>

#include "collector/query/query.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define HOSTS     3u
#define TICKS     10u
#define WINDOWS   6u
#define SEQ_MAX   512u
#define READERS   4u
#define WINDOW    (300 * CLK_S)
#define SEAL_POLL (2 * CLK_MS)

static struct fill *fill;
static _Atomic bool ended;
static _Atomic unsigned looks, missed, doubled, torn, failed;

struct look {
    uint8_t seen[SEQ_MAX + 1];
    uint64_t rest_ticks, row_ticks;
    bool torn;
};

static enum err look_block(void *ctx, const struct store_block *b)
{
    struct look *l = ctx;
    const struct batch *x = b->batch;
    uint64_t run_ticks = 0;

    if (b->part != STORE_ROWS) {
        l->torn = l->torn || x->n_ticks != TICKS || x->head.seq == 0 || x->head.seq > SEQ_MAX;
        if (!l->torn && l->seen[x->head.seq] < 2) {
            l->seen[x->head.seq]++;
        }
    }
    if (b->part == STORE_REST) {
        l->rest_ticks += x->n_ticks;
        return ERR_OK;
    }
    l->row_ticks += b->part == STORE_ROWS ? x->n_ticks : 0;
    for (size_t r = 0; r < x->n_runs; r++) {
        run_ticks += x->runs[r].mask & METRIC_BIT(M_CPU_TIME) ? x->runs[r].n_ticks : 0;
    }
    for (size_t c = 0; c < x->n_columns; c++) {
        l->torn =
            l->torn || (x->columns[c].metric == M_CPU_TIME && x->columns[c].n_values != run_ticks);
    }
    return ERR_OK;
}

static void judge(const struct look *l, uint64_t acked)
{
    for (uint64_t seq = 1; seq <= acked; seq++) {
        atomic_fetch_add(&missed, l->seen[seq] == 0);
    }
    for (uint64_t seq = 1; seq <= SEQ_MAX; seq++) {
        atomic_fetch_add(&doubled, l->seen[seq] > 1);
    }
    atomic_fetch_add(&torn, l->torn || l->row_ticks != l->rest_ticks);
}

static size_t find_host(const struct store_view *v, unsigned host)
{
    size_t i = 0;

    while (i < store_view_hosts(v) &&
           strcmp(store_view_host(v, i)->name, fleetgen_host_name(fill->hosts[host])) != 0) {
        i++;
    }
    return i;
}

static void look_at(unsigned host)
{
    struct store_range all = {.since_ns = FILL_T0,
                              .until_ns = INT64_MAX,
                              .made_since_ns = INT64_MIN,
                              .metrics = METRIC_BIT(M_CPU_TIME)};
    uint64_t acked = atomic_load(&fill->acked[host]); /* before the view */
    struct look l = {.torn = false};
    struct store_view *v;
    size_t i;

    if (store_view_open(&v, fill->store)) {
        atomic_fetch_add(&failed, 1);
        return;
    }
    i = find_host(v, host);
    if (i < store_view_hosts(v)) {
        atomic_fetch_add(&failed, store_blocks_scan(v, i, &all, look_block, &l) != ERR_OK);
    }
    judge(&l, acked);
    store_view_close(v);
}

static void ask_top(void)
{
    struct wire_query q = {
        .n_metrics = 1, .metrics = {M_CPU_TIME}, .limit = 10, .last_ns = 900 * CLK_S};
    struct query_env env = {.now_ns = fill_now()};
    struct query_answer a;
    struct store_view *v;

    if (store_view_open(&v, fill->store)) {
        atomic_fetch_add(&failed, 1);
        return;
    }
    env.view = v;
    atomic_fetch_add(&failed, query_run(&a, QUERY_TOP, &env, &q, NULL) != ERR_OK);
    query_answer_fini(&a);
    store_view_close(v);
}

static void read_on(void *arg)
{
    for (unsigned i = (unsigned)(uintptr_t)arg; !atomic_load(&ended); i++) {
        look_at(i % HOSTS);
        ask_top();
        atomic_fetch_add(&looks, 1);
    }
}

static void views_hold_every_acknowledged_batch_once_and_whole(void **state)
{
    struct fill_conf conf = {.hosts = HOSTS, .ticks = TICKS, .host = {.processes = 20}};
    struct os_thread *threads[READERS];
    struct store_conf store;
    struct store_room room;
    char dir[256];

    store = fill_store_conf(support_temp_dir(dir, sizeof dir));
    store.seal_poll_ns = SEAL_POLL;
    store.commit_gather_ns = CLK_MS;
    fill = fill_create(&conf);
    fill_make(fill, FILL_T0 + WINDOWS * WINDOW);
    fill_open(fill, &store);
    for (unsigned i = 0; i < READERS; i++) {
        assert_ok(os_thread_start(&threads[i], "reader", read_on, (void *)(uintptr_t)i));
    }
    for (size_t i = 0; i < fill->n_batches; i++) {
        fill_set_now(fill->batches[i].made_ns + CLK_S);
        fill_put_next(fill);
        if (i % 20 == 19) {
            fill_wait(fill); /* commits in between, so that readers see many states */
        }
    }
    fill_wait(fill);
    fill_seal(fill, fill->until_ns);
    look_at(0);
    atomic_store(&ended, true);
    for (unsigned i = 0; i < READERS; i++) {
        os_thread_join(threads[i]);
    }
    store_room(fill->store, &room);
    print_message("%u looks, %llu windows sealed\n", atomic_load(&looks),
                  (unsigned long long)room.sealed_windows);
    assert_int_equal(atomic_load(&failed), 0);
    assert_int_equal(atomic_load(&missed), 0);
    assert_int_equal(atomic_load(&doubled), 0);
    assert_int_equal(atomic_load(&torn), 0);
    assert_true(room.sealed_windows >= WINDOWS && atomic_load(&looks) > 0);
    fill_destroy(fill);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_hold_every_acknowledged_batch_once_and_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
