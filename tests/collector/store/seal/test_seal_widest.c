/* Sealing of the widest batches there can be: a program of its own, since it takes over a gigabyte
 * under a sanitizer. */
#include "collector/store/seal/seal.h"

#include <stdio.h>

#include "collector/store/read/store_view.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

/* As many rows as a batch may have, each of an instance of its own: the most memory it can take. */
static void widest_batch(struct rig_batch *out, struct fleetgen *g, unsigned nth)
{
    enum { RUNS = 65000, METRICS = 30 };
    struct batch b = *fleetgen_batch(g, 1);
    struct batch_run *runs = mem_array(RUNS, sizeof *runs);
    int64_t *values = mem_zalloc(RUNS * sizeof *values);
    struct batch_column columns[METRICS];
    metric_mask mask = 0;
    struct wire_encoder *enc;
    struct buf bytes;
    size_t n = 0;

    assert_true(runs && values);
    for (uint8_t id = 1; n < METRICS && id < METRIC_COLS; id++) {
        const struct metric *m = metric_by_id(id);

        if (m && m->column) {
            columns[n++] = (struct batch_column){id, RUNS, values};
            mask |= METRIC_BIT(id);
        }
    }
    for (uint32_t i = 0; i < RUNS; i++) {
        runs[i] = (struct batch_run){.id = {nth * RUNS + i + 1, 7}, .n_ticks = 1, .mask = mask};
    }
    b.n_runs = RUNS;
    b.runs = runs;
    b.n_columns = n;
    b.columns = columns;
    b.n_infos = b.n_events = 0;
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, &b));
    wire_batch_encoder_destroy(enc);
    *out = (struct rig_batch){
        .head = b.head, .bytes = bytes.p, .n = bytes.n, .received_ns = b.wall_ns[0] + CLK_S};
    out->head.source = str_make("proc");
    (void)snprintf(out->host_name, sizeof out->host_name, "%s", fleetgen_host_name(g));
    mem_free(runs);
    mem_free(values);
}

/* Otherwise one host could keep every other one's data from being sealed. */
static void the_widest_batches_of_a_host_are_sealed(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct store_stats stats;
    struct rig rig;

    rig_init(&rig);
    rig_open(&rig);
    for (unsigned i = 0; i < 4; i++) {
        struct rig_batch b;

        widest_batch(&b, g, i);
        assert_ok(rig_put(&rig, &b));
        rig_batch_fini(&b);
    }
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    store_stats(rig.store, &stats);
    assert_int_equal(stats.head_batches, 0);
    assert_int_equal(rig_count_all(&rig), 4);
    fleetgen_destroy(g);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_widest_batches_of_a_host_are_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
