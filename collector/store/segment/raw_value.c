#include "collector/store/segment/raw_value.h"

#include <string.h>

#include "collector/store/segment/raw_column.h"
#include "collector/store/segment/raw_rows.h"

/* -- writing -- */

static enum err add_value(struct seg_writer *w, const struct seg_key *key, const struct buf *value)
{
    return value->bad ? value->bad : seg_writer_add(w, *key, value->p, value->n);
}

enum err raw_value_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                         const struct host_window *hw, uint64_t *values)
{
    struct seg_key key = {.part = SEG_PART_ROWS, .window = window, .host = host};
    uint64_t metrics = 0, n_values = 0;
    struct buf out, scratch;
    enum err e;

    if (hw->n_parts == 0) {
        return ERR_OK;
    }
    buf_init(&out, SEG_VALUE_MAX);
    buf_init(&scratch, 2u * SEG_VALUE_MAX);
    raw_rows_put(p, &out, hw);
    e = add_value(w, &key, &out);
    for (size_t i = 0; i < hw->n_parts; i++) {
        for (size_t k = 0; k < hw->parts[i].rows.n_columns; k++) {
            metrics |= METRIC_BIT(hw->parts[i].rows.columns[k].metric);
        }
    }
    key.part = SEG_PART_COLUMN;
    for (; metrics && !e; metrics &= metrics - 1) {
        key.metric = (uint8_t)__builtin_ctzll(metrics);
        buf_reset(&out);
        raw_column_put(p, &out, &scratch, hw, key.metric, &n_values);
        e = add_value(w, &key, &out);
    }
    buf_fini(&out);
    buf_fini(&scratch);
    if (!e) {
        *values += n_values;
    }
    return e;
}

/* -- reading -- */

/* A value read, or NULL. */
struct piece {
    const uint8_t *p;
    size_t n;
};

/* The table's value and those of the metrics, in that order, by one look-up. */
static enum err read_pieces(struct piece *out, const struct seg *s, struct arena *memory,
                            struct seg_key key, uint64_t metrics)
{
    struct seg_key keys[METRIC_COLS + 1];
    const uint8_t *p[METRIC_COLS + 1];
    size_t lengths[METRIC_COLS + 1], n = 0;
    enum err e;

    key.part = SEG_PART_ROWS;
    keys[n++] = key;
    key.part = SEG_PART_COLUMN;
    for (; metrics; metrics &= metrics - 1) {
        key.metric = (uint8_t)__builtin_ctzll(metrics);
        keys[n++] = key;
    }
    e = seg_read_many(s, memory, keys, n, p, lengths);
    for (size_t i = 0; i < n && !e; i++) {
        out[i] = (struct piece){p[i], lengths[i]};
    }
    return e;
}

/* Which runs of the part are of the process: they stand side by side. */
static struct raw_runs runs_of(const struct batch *b, const struct raw_want *want)
{
    struct raw_runs r = {0, b->n_runs};

    if (want->has_pid) {
        while (r.first < b->n_runs && b->runs[r.first].id.pid < want->pid) {
            r.first++;
        }
        r.n = 0;
        while (r.first + r.n < b->n_runs && b->runs[r.first + r.n].id.pid == want->pid) {
            r.n++;
        }
    }
    return r;
}

static enum err begin_parts(struct raw_part **out, struct arena *memory, struct window_part *parts,
                            size_t n, const struct raw_want *want)
{
    struct raw_part *list = arena_array(memory, n, sizeof *list);
    size_t columns = (size_t)__builtin_popcountll(want->metrics);

    if (!list) {
        return arena_refused(memory, n * sizeof *list);
    }
    for (size_t i = 0; i < n; i++) {
        list[i].part = &parts[i];
        list[i].wanted = runs_of(&parts[i].rows, want);
        list[i].columns = arena_array(memory, columns, sizeof *list[i].columns);
        if (!list[i].columns) {
            return arena_refused(memory, columns * sizeof *list[i].columns);
        }
    }
    *out = list;
    return ERR_OK;
}

/* Cuts the runs to what was wanted of them. */
static void end_part(struct raw_part *p, uint64_t metrics)
{
    struct batch *b = &p->part->rows;
    struct batch_run *runs = (struct batch_run *)b->runs + p->wanted.first; /* the arena's */

    for (size_t i = 0; i < p->wanted.n; i++) {
        runs[i].mask &= metrics;
    }
    b->runs = runs;
    b->n_runs = p->wanted.n;
    b->columns = p->columns;
}

/* Metrics that any run of the parts has. */
static uint64_t metrics_in(const struct window_part *parts, size_t n)
{
    uint64_t metrics = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < parts[i].rows.n_runs; k++) {
            metrics |= parts[i].rows.runs[k].mask;
        }
    }
    return metrics;
}

static enum err get_columns(struct packer *p, struct arena *memory, struct raw_part *parts,
                            size_t n, uint64_t metrics, uint64_t present,
                            const struct piece *pieces)
{
    enum err e = ERR_OK;

    for (; metrics && !e; metrics &= metrics - 1, pieces++) {
        unsigned metric = (unsigned)__builtin_ctzll(metrics);

        if (!(present >> metric & 1)) {
            continue;
        }
        e = pieces->p ? raw_column_get(p, memory, parts, n, metric, pieces->p, pieces->n)
                      : ERR_CORRUPT;
    }
    return e;
}

enum err raw_value_read(const struct seg *s, struct packer *p, struct arena *memory, uint32_t host,
                        uint8_t window, const struct raw_want *want, struct window_part **parts,
                        size_t *n_parts)
{
    struct seg_key key = {.window = window, .host = host};
    struct piece pieces[METRIC_COLS + 1];
    struct window_part *list = NULL;
    struct raw_part *reading = NULL;
    size_t n = 0;
    enum err e;

    if (host >= seg_hosts(s)) {
        return ERR_NOTFOUND;
    }
    e = read_pieces(pieces, s, memory, key, want->metrics);
    if (!e && !pieces[0].p) {
        e = pieces[0].n == SEG_DAMAGED ? ERR_CORRUPT : ERR_NOTFOUND;
    }
    if (!e) {
        e = raw_rows_get(p, memory, &seg_host(s, host)->id, pieces[0].p, pieces[0].n, &list, &n);
    }
    if (!e) {
        e = begin_parts(&reading, memory, list, n, want);
    }
    if (!e) {
        e = get_columns(p, memory, reading, n, want->metrics, metrics_in(list, n), pieces + 1);
    }
    if (e) {
        return e;
    }
    for (size_t i = 0; i < n; i++) {
        end_part(&reading[i], want->metrics);
    }
    *parts = list;
    *n_parts = n;
    return ERR_OK;
}
