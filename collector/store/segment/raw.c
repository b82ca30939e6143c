#include "collector/store/segment/raw.h"

#include <string.h>

#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/cur.h"
#include "common/model/codec.h"
#include "common/model/metric.h"
#include "common/wire/wire_batch.h"

/* Fields of all runs stand column by column, and everything that changes little as a difference:
 * what is alike stands side by side, so that the compressor sees it. Ticks are nearly periodic, so
 * of wall clocks the change of the interval is written, and of the monotonic clock by how much its
 * interval differs from that. Differences are taken modulo 2^64. */

#define BOOT_BYTES 16u
#define SOURCE_MAX 255u
#define KNOWN      1u
#define BOUNDED    2u
#define PART_LEAST (BOOT_BYTES + 9u) /* bytes of a part without ticks and runs */
#define TICK_LEAST 2u
#define RUN_LEAST  6u
#define ROWS_WIDE  0u /* before the number of parts, which is never 0: masks have a second half */

static int64_t rows_minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t rows_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* -- writing -- */

static void put_ticks(struct buf *b, const struct batch *rows)
{
    const int64_t *wall = rows->wall_ns, *mono = rows->mono_ns;
    int64_t step = 0;

    buf_put_varint(b, rows->n_ticks);
    for (size_t i = 0; i < rows->n_ticks; i++) {
        int64_t now = i ? rows_minus(wall[i], wall[i - 1]) : wall[0];

        buf_put_svarint(b, i > 1 ? rows_minus(now, step) : now);
        step = now;
    }
    for (size_t i = 0; i < rows->n_ticks; i++) {
        buf_put_svarint(
            b, i ? rows_minus(rows_minus(mono[i], mono[i - 1]), rows_minus(wall[i], wall[i - 1]))
                 : mono[0]);
    }
}

static void put_masks(struct buf *b, const struct batch_run *r, size_t n, bool high)
{
    uint64_t before = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t mask = high ? metric_mask_high(r[i].mask) : metric_mask_low(r[i].mask);

        buf_put_varint(b, mask ^ before);
        before = mask;
    }
}

static void put_runs(struct buf *b, const struct batch *rows, bool wide)
{
    const struct batch_run *r = rows->runs;
    size_t n = rows->n_runs;

    buf_put_varint(b, n);
    for (size_t i = 0; i < n; i++) {
        buf_put_varint(b, r[i].id.pid - (i ? r[i - 1].id.pid : 0));
    }
    for (size_t i = 0; i < n; i++) {
        buf_put_svarint(b, (int64_t)(r[i].id.start - (i ? r[i - 1].id.start : 0)));
    }
    for (size_t i = 0; i < n; i++) {
        buf_put_varint(b, r[i].first_tick);
    }
    for (size_t i = 0; i < n; i++) {
        buf_put_varint(b, r[i].n_ticks);
    }
    put_masks(b, r, n, false);
    if (wide) {
        put_masks(b, r, n, true);
    }
    for (size_t i = 0; i < n; i++) {
        buf_put_u8(b, r[i].fresh);
    }
}

static void rows_put_part(struct buf *b, const struct window_part *p, bool wide)
{
    const struct batch_head *h = &p->rows.head;
    size_t source = h->source.n < SOURCE_MAX ? h->source.n : SOURCE_MAX;

    buf_put(b, h->boot.b, BOOT_BYTES);
    buf_put_varint(b, h->flags);
    buf_put_varint(b, h->cpus);
    buf_put_u8(b, (uint8_t)source);
    buf_put(b, h->source.p, source);
    buf_put_u8(b, (uint8_t)((p->clock.known ? KNOWN : 0) | (p->clock.bounded ? BOUNDED : 0)));
    buf_put_svarint(b, p->clock.offset_ns);
    buf_put_svarint(b, p->clock.error_ns);
    buf_put_svarint(b, p->received_ns);
    put_ticks(b, &p->rows);
    put_runs(b, &p->rows, wide);
}

/* Metrics that any run of the parts has. */
static metric_mask metrics_in(const struct window_part *parts, size_t n)
{
    metric_mask metrics = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < parts[i].rows.n_runs; k++) {
            metrics |= parts[i].rows.runs[k].mask;
        }
    }
    return metrics;
}

void raw_rows_put(struct packer *p, struct buf *out, const struct host_window *hw)
{
    bool wide = metric_mask_high(metrics_in(hw->parts, hw->n_parts)) != 0;
    struct buf b;

    buf_init(&b, SEG_VALUE_MAX / 2);
    if (wide) {
        buf_put_varint(&b, ROWS_WIDE);
    }
    buf_put_varint(&b, hw->n_parts);
    for (size_t i = 0; i < hw->n_parts; i++) {
        rows_put_part(&b, &hw->parts[i], wide);
    }
    if (b.bad) {
        out->bad = out->bad ? out->bad : b.bad;
    } else {
        pack_put(p, out, b.p, b.n);
    }
    buf_fini(&b);
}

/* -- reading -- */

/* How many there are of things of at least `least` bytes each. */
static size_t get_count(struct cur *c, size_t least)
{
    uint64_t n = cur_varint(c);

    if (n > cur_left(c) / least) {
        c->bad = true;
        return 0;
    }
    return (size_t)n;
}

static uint32_t get_u32(struct cur *c)
{
    uint64_t v = cur_varint(c);

    c->bad = c->bad || v > UINT32_MAX;
    return (uint32_t)v;
}

/* Sums must rise strictly, and stay what a stamp can be. */
static enum err get_ticks(struct batch *rows, struct arena *memory, struct cur *c)
{
    size_t n = get_count(c, TICK_LEAST);
    int64_t *wall, *mono, step = 0;

    if (c->bad || n > RAW_TICKS_MAX) {
        return ERR_CORRUPT;
    }
    wall = arena_array(memory, n, 2 * sizeof *wall);
    if (!wall) {
        return arena_refused(memory, n * 2 * sizeof *wall);
    }
    mono = wall + n;
    for (size_t i = 0; i < n; i++) {
        int64_t d = cur_svarint(c);

        step = i > 1 ? rows_plus(step, d) : d;
        wall[i] = i ? rows_plus(wall[i - 1], step) : d;
        c->bad = c->bad || (i && wall[i] <= wall[i - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        int64_t d = cur_svarint(c);

        mono[i] = i ? rows_plus(mono[i - 1], rows_plus(d, rows_minus(wall[i], wall[i - 1]))) : d;
        c->bad = c->bad || (i && mono[i] <= mono[i - 1]);
    }
    rows->wall_ns = wall;
    rows->mono_ns = mono;
    rows->n_ticks = n;
    return c->bad ? ERR_CORRUPT : ERR_OK;
}

static void get_masks(struct batch_run *r, size_t n, struct cur *c, bool high)
{
    uint64_t mask = 0;

    for (size_t i = 0; i < n; i++) {
        mask ^= cur_varint(c);
        r[i].mask |= high ? metric_mask_make(0, mask) : mask;
    }
}

static void get_fields(struct batch_run *r, size_t n, struct cur *c, bool wide)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t pid = cur_varint(c), last = i ? r[i - 1].id.pid : 0;

        c->bad = c->bad || pid > UINT32_MAX - last;
        r[i].id.pid = (uint32_t)(last + pid);
    }
    for (size_t i = 0; i < n; i++) {
        r[i].id.start = (uint64_t)cur_svarint(c) + (i ? r[i - 1].id.start : 0);
    }
    for (size_t i = 0; i < n; i++) {
        r[i].first_tick = get_u32(c);
    }
    for (size_t i = 0; i < n; i++) {
        r[i].n_ticks = get_u32(c);
    }
    get_masks(r, n, c, false);
    if (wide) {
        get_masks(r, n, c, true);
    }
    for (size_t i = 0; i < n; i++) {
        r[i].fresh = cur_u8(c) != 0;
    }
}

static enum err get_runs(struct batch *rows, struct arena *memory, struct cur *c, bool wide)
{
    size_t n = get_count(c, RUN_LEAST);
    struct batch_run *r;

    if (c->bad) {
        return ERR_CORRUPT;
    }
    r = arena_array(memory, n, sizeof *r);
    if (!r) {
        return arena_refused(memory, n * sizeof *r);
    }
    get_fields(r, n, c, wide);
    for (size_t i = 0; i < n && !c->bad; i++) {
        c->bad = !wire_batch_run_fits(&r[i], i ? &r[i - 1] : NULL, rows->n_ticks);
    }
    rows->runs = r;
    rows->n_runs = n;
    return c->bad ? ERR_CORRUPT : ERR_OK;
}

static enum err rows_get_part(struct window_part *p, struct arena *memory, struct cur *c, bool wide)
{
    struct batch_head *h = &p->rows.head;
    const uint8_t *boot = cur_bytes(c, BOOT_BYTES);
    enum err e;
    uint8_t clock;

    if (boot) {
        memcpy(h->boot.b, boot, BOOT_BYTES);
    }
    h->flags = get_u32(c);
    h->cpus = get_u32(c);
    h->source.n = cur_u8(c);
    h->source.p = (const char *)cur_bytes(c, h->source.n);
    clock = cur_u8(c);
    p->clock.known = clock & KNOWN;
    p->clock.bounded = clock & BOUNDED;
    p->clock.offset_ns = cur_svarint(c);
    p->clock.error_ns = cur_svarint(c);
    p->received_ns = cur_svarint(c);
    if (c->bad || p->clock.error_ns < 0) {
        return ERR_CORRUPT;
    }
    e = get_ticks(&p->rows, memory, c);
    return e ? e : get_runs(&p->rows, memory, c, wide);
}

enum err raw_rows_get(struct packer *p, struct arena *memory, const struct uuid *host,
                      const void *bytes, size_t n, struct window_part **parts, size_t *n_parts)
{
    struct window_part *list;
    const uint8_t *raw;
    struct cur c;
    size_t raw_n, count;
    bool wide;
    enum err e = pack_open(p, memory, &raw, &raw_n, bytes, n, SEG_VALUE_MAX / 2);

    if (e) {
        return e;
    }
    c = cur_make(raw, raw_n);
    count = get_count(&c, PART_LEAST);
    wide = count == ROWS_WIDE && cur_left(&c) > 0;
    if (wide) {
        count = get_count(&c, PART_LEAST);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    list = arena_array(memory, count, sizeof *list);
    if (!list) {
        return arena_refused(memory, count * sizeof *list);
    }
    for (size_t i = 0; i < count && !e; i++) {
        list[i].rows.head.host = *host;
        e = rows_get_part(&list[i], memory, &c, wide);
    }
    if (!e && cur_left(&c) > 0) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *parts = list;
        *n_parts = count;
    }
    return e;
}

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

static void column_put_part(struct writing *w, const struct batch *b, unsigned metric,
                            uint32_t *counts, uint64_t *values)
{
    const int64_t *v = values_of(b, metric);
    metric_mask bit = METRIC_BIT(metric);
    size_t n_runs = 0, n_values = 0;

    for (size_t i = 0; v && i < b->n_runs; i++) {
        if (b->runs[i].mask & bit) {
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
        column_put_part(&w, &hw->parts[i].rows, metric, counts, values);
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
    metric_mask bit = METRIC_BIT(metric);

    if (!counts) {
        return arena_refused(r->memory, b->n_runs * sizeof *counts);
    }
    r->n_runs = r->at = r->first = r->end = 0;
    for (size_t i = 0; i < b->n_runs; i++) {
        if (b->runs[i].mask & bit) {
            r->first += i < part->wanted.first;
            r->end += i < until;
            counts[r->n_runs++] = b->runs[i].n_ticks;
        }
    }
    r->counts = counts;
    return ERR_OK;
}

static enum err column_get_part(struct reading *r, const struct raw_part *part, unsigned metric,
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
    values = arena_array_unset(r->memory, n_values, sizeof *values);
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
        e = column_get_part(&r, &parts[i], metric, &c);
    }
    if (!e && (c.bad || cur_left(&c) > 0)) {
        e = ERR_CORRUPT;
    }
    return e;
}

/* -- writing -- */

static enum err add_value(struct seg_writer *w, const struct seg_key *key, const struct buf *value)
{
    return value->bad ? value->bad : seg_writer_add(w, *key, value->p, value->n);
}

enum err raw_value_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                         const struct host_window *hw, uint64_t *values)
{
    struct seg_key key = {.part = SEG_PART_ROWS, .window = window, .host = host};
    metric_mask metrics = 0;
    uint64_t n_values = 0;
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
    for (struct metric_mask_walk each = metric_mask_walk(metrics);
         !e && metric_mask_walk_next(&each);) {
        key.metric = (uint8_t)each.id;
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
                            struct seg_key key, metric_mask metrics)
{
    struct seg_key keys[METRIC_COLS + 1];
    const uint8_t *p[METRIC_COLS + 1];
    size_t lengths[METRIC_COLS + 1], n = 0;
    enum err e;

    key.part = SEG_PART_ROWS;
    keys[n++] = key;
    key.part = SEG_PART_COLUMN;
    for (struct metric_mask_walk each = metric_mask_walk(metrics); metric_mask_walk_next(&each);) {
        key.metric = (uint8_t)each.id;
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
    size_t columns = metric_mask_count(want->metrics);

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
static void end_part(struct raw_part *p, metric_mask metrics)
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

static enum err get_columns(struct packer *p, struct arena *memory, struct raw_part *parts,
                            size_t n, metric_mask metrics, metric_mask present,
                            const struct piece *pieces)
{
    enum err e = ERR_OK;

    for (struct metric_mask_walk each = metric_mask_walk(metrics);
         !e && metric_mask_walk_next(&each); pieces++) {
        if (present & METRIC_BIT(each.id)) {
            e = pieces->p ? raw_column_get(p, memory, parts, n, each.id, pieces->p, pieces->n)
                          : ERR_CORRUPT;
        }
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
