#include "collector/query/query_ledger.h"
#include "collector/store/batch_time.h"
#include "collector/store/read/store_read.h"
#include "collector/store/segment/window.h"
#include "common/base/mem.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define S       INT64_C(1000000000)
#define BATCHES 180 /* of ten seconds: six windows */

static const struct store_holes none;

static struct {
    struct rig rig;
    struct batch *all[BATCHES]; /* as they were put; NULL: never came */
    uint64_t gaps;
    uint64_t accounts, blocks; /* of the last scan */
} x;

/* What the source, the spool and the agent of batch i have to say. */
static size_t say(struct ledger_row *rows, size_t i)
{
    size_t n = 0;

    rows[n++] = (struct ledger_row){str_make("source"), str_make("out"), 100 + i};
    rows[n++] = (struct ledger_row){str_make("batch"), str_make("held"), i};
    if (i >= 70 && i < 73) {
        rows[n++] = (struct ledger_row){str_make("source"), str_make("lost_events"), 5};
    }
    if (i == 130) {
        rows[n++] = (struct ledger_row){str_make("agent"), str_make("killed"), 30};
    }
    return n;
}

static void put(struct wire_encoder *enc, struct fleetgen *g, size_t i)
{
    struct batch b = *fleetgen_batch(g, 10);
    struct rig_batch put = {.head = b.head, .host_name = "gen-1"};
    struct ledger_row rows[8];
    struct buf bytes;

    if (i == 100 || i == 101 || i == 125) {
        x.gaps++;
        return;
    }
    b.ledger = rows;
    b.n_ledger = say(rows, i);
    buf_init(&bytes, 1u << 20);
    assert_ok(wire_batch_encode(enc, &bytes, &b));
    put.bytes = bytes.p;
    put.n = bytes.n;
    put.received_ns = b.wall_ns[9] + S;
    assert_ok(rig_put(&x.rig, &put));
    assert_ok(wire_batch_decode(&x.all[i], bytes.p, bytes.n));
    buf_fini(&bytes);
}

static int setup(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct wire_encoder *enc;

    assert_ok(wire_batch_encoder_create(&enc));
    rig_init(&x.rig);
    rig_open(&x.rig);
    for (size_t i = 0; i < BATCHES; i++) {
        put(enc, g, i);
        if (i == 150) { /* the rest stays in the head */
            rig_set_now(RIG_T0 + 1501 * S + 30 * S);
            assert_ok(store_seal_now(x.rig.store, INT64_MIN));
        }
    }
    wire_batch_encoder_destroy(enc);
    fleetgen_destroy(g);
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < BATCHES; i++) {
        wire_batch_free(x.all[i]);
    }
    rig_fini(&x.rig);
    return 0;
}

static enum err take_account(void *ctx, const struct loss_sum *a)
{
    x.accounts++;
    query_ledger_account(ctx, a);
    return ERR_OK;
}

static enum err take_block(void *ctx, const struct store_block *b)
{
    x.blocks++;
    assert_int_equal(b->part == STORE_WHOLE, b->batch->n_runs > 0);
    query_ledger_batch(ctx, b->batch);
    return ERR_OK;
}

static void by_accounts(struct query_ledger *l, int64_t since_ns, int64_t until_ns)
{
    struct store_used used = {.damaged = 0};
    const struct store_range range = {
        .since_ns = since_ns, .until_ns = until_ns, .made_since_ns = INT64_MIN, .used = &used};
    struct store_view *v;

    x.accounts = x.blocks = 0;
    query_ledger_init(l, since_ns, until_ns);
    assert_ok(store_view_open(&v, x.rig.store));
    assert_ok(store_accounts_scan(v, 0, &range, take_account, take_block, l));
    store_view_close(v);
    query_ledger_end(l, x.gaps, &none);
    assert_int_equal(used.damaged, 0);
}

static void by_batches(struct query_ledger *l, int64_t since_ns, int64_t until_ns)
{
    query_ledger_init(l, since_ns, until_ns);
    for (size_t i = 0; i < BATCHES; i++) {
        int64_t t0_ns, t1_ns;

        if (x.all[i]) {
            batch_time_span(x.all[i], 0, &t0_ns, &t1_ns);
            if (t0_ns < until_ns && t1_ns >= since_ns) {
                query_ledger_batch(l, x.all[i]);
            }
        }
    }
    query_ledger_end(l, x.gaps, &none);
}

static void assert_same(const struct query_ledger *a, const struct query_ledger *b)
{
    assert_int_equal(a->batches, b->batches);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->ticks, b->ticks);
    assert_int_equal(a->events, b->events);
    assert_int_equal(a->lost, b->lost);
    assert_int_equal(a->lost_ticks, b->lost_ticks);
    assert_int_equal(a->lost_events, b->lost_events);
    assert_int_equal(a->lost_rows, b->lost_rows);
    assert_int_equal(a->missing_batches, b->missing_batches);
    assert_int_equal(a->at_most, b->at_most);
    assert_int_equal(a->newest_ns, b->newest_ns);
    assert_int_equal(a->period_ns, b->period_ns);
    assert_int_equal(a->n_ranges, b->n_ranges);
    assert_int_equal(a->n_spans, b->n_spans);
    assert_int_equal(a->n_counts, b->n_counts);
    for (size_t i = 0; i < a->n_spans; i++) {
        assert_int_equal(a->spans[i].first_ns, b->spans[i].first_ns);
        assert_int_equal(a->spans[i].last_ns, b->spans[i].last_ns);
        assert_int_equal(a->spans[i].ticks, b->spans[i].ticks);
        assert_int_equal(a->spans[i].events, b->spans[i].events);
    }
    for (size_t i = 0; i < a->n_counts; i++) {
        assert_string_equal(a->counts[i].stage, b->counts[i].stage);
        assert_string_equal(a->counts[i].reason, b->counts[i].reason);
        assert_int_equal(a->counts[i].n, b->counts[i].n);
        assert_int_equal(a->counts[i].first_ns, b->counts[i].first_ns);
        assert_int_equal(a->counts[i].last_ns, b->counts[i].last_ns);
    }
}

/* Three batches never came: 100, 101 and one outside the window. */
static void what_came_and_cannot_be_read_is_not_missing(void **state)
{
    static const struct {
        size_t first, last; /* unreadable */
        uint64_t missing;
    } rows[] = {{40, 40, 2}, {40, 42, 2}, {119, 119, 2}, {99, 99, 3 /* nobody knows */}};

    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        struct store_holes unread = {0};
        struct query_ledger l;

        query_ledger_init(&l, RIG_T0, RIG_T0 + 1200 * S);
        for (size_t i = 0; i < 120; i++) {
            int64_t t0_ns, t1_ns;

            if (!x.all[i]) {
                continue;
            }
            batch_time_span(x.all[i], 0, &t0_ns, &t1_ns);
            if (i >= rows[r].first && i <= rows[r].last) {
                store_used_hole_add(&unread, t0_ns, t1_ns);
            } else {
                query_ledger_batch(&l, x.all[i]);
            }
        }
        query_ledger_end(&l, x.gaps, &unread);
        assert_int_equal(l.missing_batches, rows[r].missing);
    }
}

static void sums_of_windows_say_what_all_batches_say(void **state)
{
    uint64_t rng = 88172645463325252u;
    struct query_ledger a, b;

    for (int i = 0; i < 300; i++) {
        int64_t since_ns, until_ns;

        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        since_ns = RIG_T0 + (int64_t)(rng % 1900) * S - 50 * S;
        until_ns = since_ns + 1 + (int64_t)((rng >> 32) % 2000) * S;
        by_accounts(&a, since_ns, until_ns);
        by_batches(&b, since_ns, until_ns);
        assert_same(&a, &b);
    }
}

static void windows_without_losses_are_taken_whole(void **state)
{
    struct query_ledger l;

    by_accounts(&l, 0, INT64_MAX);
    assert_int_equal(l.ticks, (BATCHES - 3) * 10);
    /* five are sealed, two of them tell of losses; the sixth is in memory */
    assert_int_equal(x.accounts, 3 + 30);
    assert_int_equal(x.blocks, 2 * 30 - 1); /* a number never came in one of them */
    by_accounts(&l, RIG_T0 + 600 * S, RIG_T0 + 900 * S);
    assert_int_equal(x.accounts, 0);
}

static enum err enough(void *ctx, const struct loss_sum *a)
{
    (void)ctx;
    (void)a;
    return ERR_END;
}

static enum err never(void *ctx, const struct store_block *b)
{
    (void)ctx;
    (void)b;
    fail();
    return ERR_OK;
}

static void a_caller_who_has_enough_ends_the_scan(void **state)
{
    const struct store_range range = {
        .since_ns = 0, .until_ns = INT64_MAX, .made_since_ns = INT64_MIN};
    struct store_view *v;

    assert_ok(store_view_open(&v, x.rig.store));
    assert_err(store_accounts_scan(v, 0, &range, enough, never, NULL), ERR_END);
    store_view_close(v);
}

static void what_was_made_before_is_left_out(void **state)
{
    struct store_range range = {.since_ns = 0, .until_ns = INT64_MAX};
    struct query_ledger l;
    struct store_view *v;

    range.made_since_ns = RIG_T0 + 1395 * S;
    query_ledger_init(&l, 0, INT64_MAX);
    assert_ok(store_view_open(&v, x.rig.store));
    assert_ok(store_accounts_scan(v, 0, &range, take_account, take_block, &l));
    store_view_close(v);
    assert_true(l.ticks >= 400 && l.ticks <= 420);
    assert_true(x.blocks > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_and_cannot_be_read_is_not_missing),
        cmocka_unit_test(sums_of_windows_say_what_all_batches_say),
        cmocka_unit_test(windows_without_losses_are_taken_whole),
        cmocka_unit_test(a_caller_who_has_enough_ends_the_scan),
        cmocka_unit_test(what_was_made_before_is_left_out),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
