#include "collector/store/dedup.h"
#include "collector/store/read/store_read.h"

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/draw.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

/* Exactly once, as a property: batches of a few hosts and streams come in any order within a span
 * that agents keep to, many of them again and again, while the store is closed and opened, its log
 * changes files, data is sealed, and old data is dropped. A plain table says what was acknowledged.
 */

enum { HOSTS = 3, STREAMS = 3, NUMBERS = 200, AHEAD = 40, STEPS = 400, ROUNDS = 6 };

struct world {
    struct rig rig;
    uint64_t rng;
    int64_t now_ns;
    struct fleetgen *gen[HOSTS];
    bool taken[HOSTS][STREAMS][NUMBERS + 1];
    unsigned first_missing[HOSTS][STREAMS];
    uint64_t dropped; /* batches that retention dropped */
};

static void open_all(struct world *w, uint64_t seed)
{
    *w = (struct world){.rng = seed};
    rig_init(&w->rig);
    w->rig.conf.accept_age_ns = 6000 * CLK_S;
    w->rig.conf.retain.age_ns[SEG_REST] = 600 * CLK_S;
    w->rig.conf.retain.age_ns[SEG_RAW] = 600 * CLK_S;
    rig_open(&w->rig);
    for (unsigned h = 0; h < HOSTS; h++) {
        w->gen[h] = rig_host(h + 1);
        for (unsigned s = 0; s < STREAMS; s++) {
            w->first_missing[h][s] = 1;
        }
    }
}

static void close_all(struct world *w)
{
    for (unsigned h = 0; h < HOSTS; h++) {
        fleetgen_destroy(w->gen[h]);
    }
    rig_fini(&w->rig);
}

/* The numbers up to AHEAD behind the first one missing are under way, as is anything before. */
static unsigned pick(struct world *w, unsigned h, unsigned s)
{
    unsigned last = w->first_missing[h][s] + AHEAD;

    last = last < NUMBERS ? last : NUMBERS;
    return 1 + (draw(&w->rng, 3) ? last - 1 - draw(&w->rng, last < AHEAD ? last : AHEAD)
                                 : draw(&w->rng, last));
}

static void put_one(struct world *w)
{
    unsigned h = draw(&w->rng, HOSTS), s = draw(&w->rng, STREAMS), seq = pick(w, h, s);
    bool *taken = &w->taken[h][s][seq];
    struct rig_batch b;

    rig_batch_as(&b, w->gen[h], 1, 70 + s, seq);
    w->now_ns = b.received_ns > w->now_ns ? b.received_ns : w->now_ns;
    b.clock = (struct host_offset){true, false, w->now_ns - b.received_ns, 0};
    b.received_ns = w->now_ns;
    assert_err(rig_put(&w->rig, &b), *taken ? ERR_EXISTS : ERR_OK);
    if (draw(&w->rng, 8) == 0) { /* a repeat may have left the answers by its age */
        size_t n = rig_count(&w->rig, &b.head);

        assert_true(n == 1 || (n == 0 && *taken));
    }
    *taken = true;
    while (w->first_missing[h][s] <= NUMBERS && w->taken[h][s][w->first_missing[h][s]]) {
        w->first_missing[h][s]++;
    }
    assert_int_equal(store_last_seq(w->rig.store, &b.head.host, b.head.stream),
                     w->first_missing[h][s] - 1);
    rig_batch_fini(&b);
}

static void count_dropped(struct world *w)
{
    struct store_stats stats;

    store_stats(w->rig.store, &stats);
    assert_int_equal(stats.closed_holes, 0);
    w->dropped += stats.dropped_batches;
}

/* Every number missing below the highest of its stream is shown as a gap. */
static void check_gaps(struct world *w)
{
    struct store_view *v;

    assert_ok(store_view_open(&v, w->rig.store));
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        const struct store_host *at = store_view_host(v, i);
        uint64_t gaps = 0;

        for (unsigned h = 0; h < HOSTS; h++) {
            for (unsigned s = 0; s < STREAMS; s++) {
                uint64_t missing = 0;

                for (unsigned seq = 1; seq <= NUMBERS; seq++) {
                    bool is = w->taken[h][s][seq];

                    gaps += is && memcmp(at->id.b, fleetgen_head(w->gen[h])->host.b, 16) == 0
                                ? missing
                                : 0;
                    missing = is ? 0 : missing + 1;
                }
            }
        }
        assert_int_equal(at->gaps, gaps);
    }
    store_view_close(v);
}

static void whatever_was_acknowledged_is_a_duplicate_for_ever(void **state)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct world w;

        open_all(&w, seed);
        for (int i = 0; i < STEPS; i++) {
            put_one(&w);
            switch (draw(&w.rng, 25)) {
            case 0:
                count_dropped(&w);
                rig_close(&w.rig);
                rig_open(&w.rig);
                break;
            case 1:
                w.now_ns += 100 * CLK_S;
                break;
            case 2:
            case 3:
                rig_set_now(w.now_ns);
                assert_ok(store_seal_now(w.rig.store, draw(&w.rng, 2) ? INT64_MAX : w.now_ns));
                break;
            default:
                break;
            }
        }
        check_gaps(&w);
        count_dropped(&w);
        assert_true(w.dropped > 0);
        close_all(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_was_acknowledged_is_a_duplicate_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
