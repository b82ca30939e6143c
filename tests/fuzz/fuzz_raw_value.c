/* Rows of a sealed window from hostile bytes: the table, then one column for all metrics. What can
 * be read keeps the rules of struct batch, and is the same after it was written and read again.
 * Input: u16 length of the table, the table unpacked, the column (with packs in it as they are). */
#include <stdlib.h>
#include <string.h>

#include "collector/store/segment/raw.h"
#include "collector/store/segment/seg.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define MEMORY_MAX ((size_t)16 << 20)
#define PARTS_MAX  16u

static struct packer *packer;
static const struct uuid host = {{1}};

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void sound(const struct batch *b)
{
    for (size_t i = 1; i < b->n_ticks; i++) {
        must(b->wall_ns[i] > b->wall_ns[i - 1] && b->mono_ns[i] > b->mono_ns[i - 1]);
    }
    for (size_t i = 0; i < b->n_runs; i++) {
        const struct batch_run *r = &b->runs[i], *last = i ? r - 1 : r;

        must(r->n_ticks > 0 && r->first_tick < b->n_ticks &&
             r->n_ticks <= b->n_ticks - r->first_tick && last->id.pid <= r->id.pid);
        must(i == 0 || !proc_id_eq(last->id, r->id) ||
             last->first_tick + last->n_ticks <= r->first_tick);
    }
}

static enum err get_column(struct arena *memory, struct window_part *parts, size_t n_parts,
                           struct batch_column *columns, unsigned metric, size_t cut,
                           const uint8_t *p, size_t n)
{
    struct raw_part list[PARTS_MAX];

    for (size_t i = 0; i < n_parts; i++) {
        size_t first = parts[i].rows.n_runs * cut / 4;

        parts[i].rows.n_columns = 0;
        parts[i].rows.columns = &columns[i];
        list[i] = (struct raw_part){&parts[i], {first, parts[i].rows.n_runs - first}, &columns[i]};
    }
    return raw_column_get(packer, memory, list, n_parts, metric, p, n);
}

static void same_column(const struct window_part *a, const struct window_part *b, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        const struct batch_column *x = a[i].rows.columns, *y = b[i].rows.columns;

        must(a[i].rows.n_columns == b[i].rows.n_columns);
        must(a[i].rows.n_columns == 0 ||
             (x->n_values == y->n_values &&
              memcmp(x->values, y->values, x->n_values * sizeof *x->values) == 0));
    }
}

/* Reads the column of one metric whole and in part; writes it and reads it again. */
static void try_column(struct arena *memory, struct window_part *parts, size_t n_parts,
                       unsigned metric, const uint8_t *p, size_t n)
{
    struct batch_column columns[PARTS_MAX], again[PARTS_MAX];
    struct window_part copy[PARTS_MAX];
    struct host_window hw = {.n_parts = n_parts, .parts = parts};
    struct buf out, scratch;
    uint64_t values = 0;

    for (size_t cut = 1; cut < 4; cut++) {
        err_ignore(get_column(memory, parts, n_parts, columns, metric, cut, p, n));
    }
    if (get_column(memory, parts, n_parts, columns, metric, 0, p, n)) {
        return;
    }
    buf_init(&out, MEMORY_MAX);
    buf_init(&scratch, MEMORY_MAX);
    raw_column_put(packer, &out, &scratch, &hw, metric, &values);
    memcpy(copy, parts, n_parts * sizeof *copy);
    if (!out.bad) {
        enum err e = get_column(memory, copy, n_parts, again, metric, 0, out.p, out.n);

        must(e == ERR_OK || e == ERR_FULL);
        if (!e) {
            same_column(parts, copy, n_parts);
        }
    }
    buf_fini(&out);
    buf_fini(&scratch);
}

static void try_rows(struct arena *memory, const struct window_part *parts, size_t n_parts)
{
    struct host_window hw = {.n_parts = n_parts, .parts = (struct window_part *)parts};
    struct window_part *back;
    struct buf out;
    size_t n = 0;
    enum err e;

    buf_init(&out, MEMORY_MAX);
    raw_rows_put(packer, &out, &hw);
    must(!out.bad);
    e = raw_rows_get(packer, memory, &host, out.p, out.n, &back, &n);
    must(e == ERR_FULL || (e == ERR_OK && n == n_parts));
    for (size_t i = 0; i < n; i++) {
        const struct batch *a = &parts[i].rows, *b = &back[i].rows;

        sound(b);
        must(a->n_ticks == b->n_ticks && a->n_runs == b->n_runs);
        must(memcmp(a->wall_ns, b->wall_ns, a->n_ticks * sizeof *a->wall_ns) == 0);
        must(memcmp(a->mono_ns, b->mono_ns, a->n_ticks * sizeof *a->mono_ns) == 0);
        for (size_t k = 0; k < a->n_runs; k++) {
            must(proc_id_eq(a->runs[k].id, b->runs[k].id) && a->runs[k].mask == b->runs[k].mask &&
                 a->runs[k].fresh == b->runs[k].fresh);
        }
    }
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t n_rows = n > 2 ? (size_t)(p[0] | p[1] << 8) % (n - 1) : 0, n_parts;
    struct window_part *parts;
    struct arena memory;
    struct buf table;

    if (n <= 2 || (!packer && packer_create(&packer))) {
        return 0;
    }
    arena_init(&memory, MEMORY_MAX);
    buf_init(&table, MEMORY_MAX);
    buf_put_varint(&table, (uint64_t)n_rows << 1); /* a pack of bytes as they are */
    buf_put(&table, p + 2, n_rows);
    if (!raw_rows_get(packer, &memory, &host, table.p, table.n, &parts, &n_parts) &&
        n_parts <= PARTS_MAX) {
        metric_mask metrics = 0;
        struct metric_mask_walk each;

        for (size_t i = 0; i < n_parts; i++) {
            sound(&parts[i].rows);
            for (size_t k = 0; k < parts[i].rows.n_runs; k++) {
                metrics |= parts[i].rows.runs[k].mask;
            }
        }
        try_rows(&memory, parts, n_parts);
        each = metric_mask_walk(metrics);
        for (unsigned tried = 0; tried < 3 && metric_mask_walk_next(&each); tried++) {
            try_column(&memory, parts, n_parts, each.id, p + 2 + n_rows, n - 2 - n_rows);
        }
    }
    buf_fini(&table);
    arena_fini(&memory);
    return 0;
}
