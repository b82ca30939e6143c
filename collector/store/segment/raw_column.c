#include "collector/store/segment/raw_column.h"

#include <string.h>

#include "collector/store/segment/seg.h"
#include "common/base/cur.h"
#include "common/model/codec.h"
#include "common/model/metric.h"

/* A column is a mode (enum codec_mode) and groups one behind the other, part by part:
 *
 *   runs   LEB128, at least 1: how many of the part's runs with this metric follow
 *   bytes  u32: length of the pack
 *   pack   the codec's column of their values
 *
 * A group ends with its part. Small groups make histories of single processes cheap, large ones
 * compress better. */

#define GROUP_VALUES    4800u
#define VALUES_PER_BYTE (8u * 32768) /* bits in a byte, times the most that zstd makes of one */

/* -- writing -- */

/* The part's values of the metric; NULL when it has none. */
static const int64_t *values_of(const struct batch *b, unsigned metric)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        if (b->columns[i].metric == metric) {
            return b->columns[i].values;
        }
    }
    return NULL;
}

struct writing {
    struct packer *p;
    struct buf *out, *scratch;
    enum codec_mode mode;
};

static void put_group(struct writing *w, const int64_t *values, size_t n_values,
                      const uint32_t *counts, size_t n_runs)
{
    uint8_t *to, *length;
    size_t n, at;

    buf_reset(w->scratch);
    to = buf_grow(w->scratch, codec_bound(n_values, n_runs));
    if (!to) {
        w->out->bad = w->out->bad ? w->out->bad : w->scratch->bad;
        return;
    }
    n = codec_encode(to, values, counts, n_runs, w->mode);
    buf_put_varint(w->out, n_runs);
    at = w->out->n;
    buf_put_u32le(w->out, 0);
    pack_put(w->p, w->out, to, n);
    if (!w->out->bad) {
        length = w->out->p + at;
        n = w->out->n - at - sizeof(uint32_t);
        for (unsigned i = 0; i < sizeof(uint32_t); i++) {
            length[i] = (uint8_t)(n >> 8 * i);
        }
    }
}

static void put_part(struct writing *w, const struct batch *b, unsigned metric, uint32_t *counts,
                     uint64_t *values)
{
    const int64_t *v = values_of(b, metric);
    size_t n_runs = 0, n_values = 0;

    for (size_t i = 0; v && i < b->n_runs; i++) {
        if (b->runs[i].mask >> metric & 1) {
            counts[n_runs++] = b->runs[i].n_ticks;
            n_values += b->runs[i].n_ticks;
        }
        if (n_values >= GROUP_VALUES || (n_runs > 0 && i + 1 == b->n_runs)) {
            put_group(w, v, n_values, counts, n_runs);
            *values += n_values;
            v += n_values;
            n_runs = n_values = 0;
        }
    }
}

void raw_column_put(struct packer *p, struct buf *out, struct buf *scratch,
                    const struct host_window *hw, unsigned metric, uint64_t *values)
{
    const struct metric *m = metric_by_id(metric);
    struct writing w = {p, out, scratch, CODEC_MOVING};
    uint32_t counts[GROUP_VALUES];

    if (m && m->kind == METRIC_COUNTER) {
        w.mode = CODEC_GROWING;
    }
    buf_put_u8(out, (uint8_t)w.mode);
    for (size_t i = 0; i < hw->n_parts; i++) {
        put_part(&w, &hw->parts[i].rows, metric, counts, values);
    }
}

/* -- reading -- */

/* A part while its groups are read: the runs that have the metric. */
struct reading {
    struct packer *p;
    struct arena *memory;
    enum codec_mode mode;
    const uint32_t *counts; /* of those runs */
    size_t n_runs, at;      /* how many; how many have passed */
    size_t first, end;      /* those wanted */
    int64_t *values;        /* where the next wanted run goes */
};

static size_t sum_of(const uint32_t *counts, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += counts[i];
    }
    return sum;
}

/* Opens a group of n_runs runs, some of which are wanted. */
static enum err open_group(struct reading *r, size_t n_runs, const uint8_t *bytes, size_t n)
{
    const uint32_t *counts = r->counts + r->at;
    size_t first = r->first > r->at ? r->first - r->at : 0;
    size_t end = r->end - r->at < n_runs ? r->end - r->at : n_runs;
    const uint8_t *raw;
    size_t raw_n;
    enum err e = pack_open(r->p, r->memory, &raw, &raw_n, bytes, n,
                           codec_bound(sum_of(counts, n_runs), n_runs));

    if (e) {
        return e;
    }
    if (end - first == n_runs) {
        e = codec_decode(r->values, counts, n_runs, r->mode, raw, raw_n);
    } else {
        struct codec_range range = {first, end - first};

        e = codec_decode_range(r->values, counts, n_runs, range, r->mode, raw, raw_n);
    }
    r->values += sum_of(counts + first, end - first);
    return e;
}

static enum err get_groups(struct reading *r, struct cur *c)
{
    enum err e = ERR_OK;

    while (r->at < r->n_runs && !e) {
        uint64_t n_runs = cur_varint(c);
        uint32_t n = cur_u32le(c);
        const uint8_t *bytes = cur_bytes(c, n);

        if (c->bad || n_runs == 0 || n_runs > r->n_runs - r->at) {
            return ERR_CORRUPT;
        }
        if (r->first < r->end && r->at < r->end && r->at + n_runs > r->first) {
            e = open_group(r, (size_t)n_runs, bytes, n);
        }
        r->at += (size_t)n_runs;
    }
    return e;
}

/* Lists the lengths of the part's runs that have the metric, and which of them are wanted. */
static enum err list_counts(struct reading *r, const struct raw_part *part, unsigned metric)
{
    const struct batch *b = &part->part->rows;
    uint32_t *counts = arena_array(r->memory, b->n_runs, sizeof *counts);
    size_t until = part->wanted.first + part->wanted.n;

    if (!counts) {
        return arena_refused(r->memory, b->n_runs * sizeof *counts);
    }
    r->n_runs = r->at = r->first = r->end = 0;
    for (size_t i = 0; i < b->n_runs; i++) {
        if (b->runs[i].mask >> metric & 1) {
            r->first += i < part->wanted.first;
            r->end += i < until;
            counts[r->n_runs++] = b->runs[i].n_ticks;
        }
    }
    r->counts = counts;
    return ERR_OK;
}

static enum err get_part(struct reading *r, const struct raw_part *part, unsigned metric,
                         struct cur *c)
{
    struct batch *b = &part->part->rows;
    size_t n_values;
    int64_t *values;
    enum err e = list_counts(r, part, metric);

    if (e) {
        return e;
    }
    n_values = sum_of(r->counts + r->first, r->end - r->first);
    if (n_values / VALUES_PER_BYTE > cur_left(c)) {
        return ERR_CORRUPT;
    }
    values = arena_array(r->memory, n_values, sizeof *values);
    if (!values) {
        return arena_refused(r->memory, n_values * sizeof *values);
    }
    r->values = values;
    e = get_groups(r, c);
    if (!e && n_values > 0) {
        part->columns[b->n_columns++] = (struct batch_column){(uint8_t)metric, n_values, values};
    }
    return e;
}

enum err raw_column_get(struct packer *p, struct arena *memory, struct raw_part *parts,
                        size_t n_parts, unsigned metric, const void *bytes, size_t n)
{
    struct reading r = {.p = p, .memory = memory};
    struct cur c = cur_make(bytes, n);
    uint8_t mode = cur_u8(&c);
    enum err e = mode > CODEC_MOVING ? ERR_CORRUPT : ERR_OK;

    r.mode = mode == CODEC_MOVING ? CODEC_MOVING : CODEC_GROWING;
    for (size_t i = 0; i < n_parts && !e; i++) {
        e = get_part(&r, &parts[i], metric, &c);
    }
    if (!e && (c.bad || cur_left(&c) > 0)) {
        e = ERR_CORRUPT;
    }
    return e;
}
