/* Tiers from hostile bytes: the table of rows, its texts and columns; what can be read is joined,
 * folded, written and read again. */
#include <assert.h>

#include "collector/store/rollup/tier.h"
#include "collector/store/rollup/tier_column.h"
#include "collector/store/rollup/tier_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define MEMORY_MAX ((size_t)64 << 20)

/* Whatever was read can be written, and is then read as the same. */
static void write_and_read(struct arena *memory, const struct tier *t)
{
    struct tier_row *rows;
    struct buf b, scratch;
    struct tier back;
    enum err e;

    buf_init(&b, MEMORY_MAX);
    buf_init(&scratch, (size_t)1 << 30);
    tier_value_put_rows(&b, t);
    e = b.bad ? b.bad : tier_value_get_rows(&back, &rows, memory, b.p, b.n);
    assert(e == ERR_OK || e == ERR_FULL || e == ERR_NOMEM);
    for (unsigned m = 0; !e && m < METRIC_COLS; m++) {
        if (!(t->metrics & METRIC_BIT(m))) {
            continue;
        }
        assert(back.n_cells[m] == t->n_cells[m]);
        buf_reset(&b);
        tier_column_put(&b, &scratch, t, m);
        e = b.bad ? b.bad : tier_column_get(&back, memory, m, b.p, b.n);
        assert(e == ERR_OK || e == ERR_FULL || e == ERR_NOMEM);
        for (size_t i = 0; !e && i < t->n_cells[m]; i++) {
            assert(back.columns[m][i].last == t->columns[m][i].last);
            assert(back.columns[m][i].count == t->columns[m][i].count);
        }
    }
    buf_fini(&b);
    buf_fini(&scratch);
}

static void use(struct arena *memory, struct tier *t)
{
    static const int64_t coarser[] = {TIER_10S_NS, TIER_1MIN_NS, TIER_1H_NS, TIER_WINDOW_NS};
    struct tier pair[2] = {*t, *t}, joined;

    write_and_read(memory, t);
    for (size_t i = 0; i < sizeof coarser / sizeof *coarser; i++) {
        if (coarser[i] && (!t->bucket_ns || coarser[i] < t->bucket_ns)) {
            continue;
        }
        if (tier_join(&joined, memory, pair, 1 + i % 2, coarser[i], true) == ERR_OK) {
            write_and_read(memory, &joined);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t n_rows = n > 2 ? (size_t)(p[0] | p[1] << 8) % (n - 1) : 0;
    size_t n_column = n > 2 ? n - 2 - n_rows : 0;
    struct tier_row *rows;
    struct arena memory;
    struct tier t;

    arena_init(&memory, MEMORY_MAX);
    if (n > 2 && tier_value_get_rows(&t, &rows, &memory, p + 2, n_rows) == ERR_OK) {
        const uint8_t *column = p + 2 + n_rows;
        metric_mask found = 0;

        err_ignore(tier_value_get_texts(rows, t.n_rows, &memory, column, n_column));
        for (unsigned m = 0; m < METRIC_COLS; m++) {
            if ((t.metrics & METRIC_BIT(m)) &&
                tier_column_get(&t, &memory, m, column, n_column) == ERR_OK) {
                found |= METRIC_BIT(m);
            }
        }
        t.metrics = found;
        use(&memory, &t);
    }
    arena_fini(&memory);
    return 0;
}
