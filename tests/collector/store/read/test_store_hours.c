/* Cells in steps of hours: from the sums of hours they say what the windows say. */
#include <string.h>

#include "collector/store/read/store_read.h"
#include "common/base/clk.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define HOUR      (3600 * CLK_S)
#define HOURS     7u
#define STEP      (2 * HOUR)
#define STEPS     4u
#define INSTANCES 1024u

static char dir[256];
static const uint8_t counter = M_CPU_TIME, gauge = M_WORKING_SET_SIZE;

/* One process: where its counter stood last. */
struct stand {
    struct proc_id id;
    int64_t value;
};

struct said {
    int64_t sum[STEPS];    /* of the gauge's samples */
    uint64_t count[STEPS]; /* of them */
    int64_t grew;          /* the counter, of all processes */
    unsigned folded;       /* rows of several */
    size_t n;
    struct stand stands[INSTANCES];
};

static void counter_take(struct said *x, const struct store_cell_row *row, const struct cell *c)
{
    size_t i = 0;

    if (row->instances) {
        x->grew += c->sum;
        return;
    }
    while (i < x->n && memcmp(&x->stands[i].id, &row->id, sizeof row->id) != 0) {
        i++;
    }
    assert_true(i < INSTANCES);
    if (i == x->n) {
        x->stands[x->n++] = (struct stand){row->id, row->fresh ? 0 : c->first};
    }
    x->grew += c->last - x->stands[i].value;
    x->stands[i].value = c->last;
}

static enum err cell_take(void *ctx, const struct store_cell_row *row)
{
    struct said *x = ctx;
    size_t step = (size_t)((row->end_ns - 1) / STEP - FILL_T0 / STEP), n = 0;

    assert_false(row->before);
    assert_true(step < STEPS);
    x->folded += row->instances > 0;
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        if (row->mask & METRIC_BIT(m)) {
            const struct cell *c = &row->cells[n++];

            if (m == counter) {
                counter_take(x, row, c);
            } else {
                x->sum[step] += c->sum;
                x->count[step] += c->count;
            }
        }
    }
    return ERR_OK;
}

static struct store_used ask(const struct store_view *v, bool hours, struct said *out)
{
    struct store_used used = {.damaged = 0};
    const struct store_cells cells = {.since_ns = FILL_T0,
                                      .until_ns = FILL_T0 + HOURS * HOUR,
                                      .step_ns = STEP,
                                      .metrics = METRIC_BIT(counter) | METRIC_BIT(gauge),
                                      .folded = true,
                                      .hours = hours,
                                      .used = &used};

    memset(out, 0, sizeof *out);
    assert_ok(store_cells_scan(v, 0, &cells, cell_take, out, NULL));
    return used;
}

static void steps_of_hours_are_read_from_sums_of_hours_and_say_the_same(void **state)
{
    const struct fill_conf conf = {
        .hosts = 1,
        .host = {.processes = 12, .metrics = 12, .starts_per_hour = 60, .tick_ns = 60 * CLK_S},
        .ticks = 5};
    static struct said windows, hours;
    struct store_conf store = fill_store_conf(dir);
    struct fill *f = fill_create(&conf);
    struct store_used used;
    struct store_view *v;

    store.fio = fio_unsynced();
    fill_open(f, &store);
    for (int64_t at = 300 * CLK_S; at <= HOURS * HOUR; at += 300 * CLK_S) {
        fill_make(f, FILL_T0 + at);
        fill_put(f, SIZE_MAX);
        fill_forget(f);
        fill_seal(f, FILL_T0 + at);
    }
    assert_ok(store_view_open(&v, f->store));
    used = ask(v, false, &windows);
    assert_int_equal(used.windows[STORE_SUMMARY], HOURS * 12);
    assert_int_equal(windows.folded, 0);
    used = ask(v, true, &hours);
    assert_true(used.windows[STORE_1H] >= HOURS - 1); /* the last one may not be made yet */
    assert_int_equal(used.windows[STORE_1H] * 12 + used.windows[STORE_SUMMARY], HOURS * 12);
    assert_true(hours.folded > 0);
    assert_true(windows.grew > 0 && windows.sum[STEPS - 1] > 0);
    assert_int_equal(hours.grew, windows.grew);
    for (unsigned i = 0; i < STEPS; i++) {
        assert_int_equal(hours.count[i], windows.count[i]);
        assert_int_equal(hours.sum[i], windows.sum[i]);
    }
    store_view_close(v);
    fill_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate_setup_teardown(
        steps_of_hours_are_read_from_sums_of_hours_and_say_the_same, support_dir_setup,
        support_dir_teardown, dir)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
