#include <stdatomic.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/model/codec.h"
#include "common/wire/wire_batch.h"
#include "common/wire/wire_info.h"

/* A batch on its way in: the frame's content size is checked before anything is allocated, the
 * message is unpacked under its budget, every count is checked, then the columns are decoded into
 * one array whose size the run table has told. Text of the result points into the unpacked message;
 * both share one arena. */

struct owned_batch {
    struct batch b;
    atomic_uint refs;
    struct wire_arena arena;
    size_t left_out; /* bytes of the columns that were not asked for */
};

static enum err get_head(struct batch_head *h, const Procfleet__V1__Batch *m)
{
    if (m->format != WIRE_BATCH_FORMAT) {
        return ERR_VERSION;
    }
    if (!m->has_host || !wire_uuid_get(&h->host, m->has_host, &m->host) ||
        !wire_uuid_get(&h->boot, m->has_boot, &m->boot) || m->seq == 0 ||
        !wire_text_get(&h->source, m->has_source, &m->source, WIRE_BATCH_SOURCE_MAX)) {
        return ERR_CORRUPT;
    }
    h->stream = m->stream;
    h->seq = m->seq;
    h->flags = m->flags;
    h->cpus = m->cpus <= WIRE_CPUS_MAX ? m->cpus : 0;
    return ERR_OK;
}

/* Sums up differences; all but the first must be positive, and no sum may overflow. */
static enum err sum_up(const int64_t **out, const int64_t *d, size_t n, struct wire_arena *a)
{
    int64_t *v = wire_arena_alloc(a, n * sizeof *v);

    if (!v) {
        return a->bad;
    }
    for (size_t i = 0; i < n; i++) {
        if (i && (d[i] <= 0 || v[i - 1] > INT64_MAX - d[i])) {
            return ERR_CORRUPT;
        }
        v[i] = i ? v[i - 1] + d[i] : d[i];
    }
    *out = v;
    return ERR_OK;
}

static enum err get_ticks(struct batch *b, const Procfleet__V1__Batch *m, struct wire_arena *a)
{
    enum err e;

    if (m->n_wall_ns != m->n_mono_ns) {
        return ERR_CORRUPT;
    }
    b->n_ticks = m->n_wall_ns;
    e = sum_up(&b->wall_ns, m->wall_ns, m->n_wall_ns, a);
    if (!e) {
        e = sum_up(&b->mono_ns, m->mono_ns, m->n_mono_ns, a);
    }
    return e;
}

static enum err mark_fresh(struct batch_run *runs, size_t n_runs, const Procfleet__V1__Runs *m)
{
    for (size_t i = 0; i < m->n_fresh; i++) {
        if (m->fresh[i] >= n_runs || (i && m->fresh[i] <= m->fresh[i - 1])) {
            return ERR_CORRUPT;
        }
        runs[m->fresh[i]].fresh = true;
    }
    return ERR_OK;
}

static enum err get_runs(struct batch *b, const Procfleet__V1__Runs *m, uint64_t metrics,
                         struct wire_arena *a)
{
    size_t n = m ? m->n_pid : 0;
    struct batch_run *runs = wire_arena_array(a, n, sizeof *runs);

    if (!runs) {
        return a->bad;
    }
    b->runs = runs;
    b->n_runs = n;
    if (!m) {
        return ERR_OK;
    }
    if (m->n_start != n || m->n_first_tick != n || m->n_n_ticks != n || m->n_mask != n) {
        return ERR_CORRUPT;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t pid = (uint64_t)m->pid[i] + (i ? runs[i - 1].id.pid : 0);

        if (pid > UINT32_MAX || m->mask[i] >= m->n_masks) {
            return ERR_CORRUPT;
        }
        runs[i].id.pid = (uint32_t)pid;
        runs[i].id.start = (uint64_t)m->start[i] + (i ? runs[i - 1].id.start : 0);
        runs[i].first_tick = m->first_tick[i];
        runs[i].n_ticks = m->n_ticks[i];
        runs[i].mask = m->masks[m->mask[i]] & metrics;
        if (!wire_batch_run_fits(&runs[i], i ? &runs[i - 1] : NULL, b->n_ticks)) {
            return ERR_CORRUPT;
        }
    }
    return mark_fresh(runs, n, m);
}

/* The wanted columns, their lengths taken from the runs; every bit of a mask must have its column.
 */
static enum err list_columns(struct batch_column *out, size_t *n_out, size_t *n_values,
                             const Procfleet__V1__Batch *m, const struct batch *b, uint64_t metrics,
                             uint32_t *counts)
{
    uint64_t masks = 0, columns = 0;
    size_t n = 0;

    *n_values = 0;
    for (size_t i = 0; i < m->n_columns; i++) {
        uint32_t id = m->columns[i]->metric;
        size_t n_counts;

        if (i && id <= m->columns[i - 1]->metric) {
            return ERR_CORRUPT;
        }
        if (id >= METRIC_COLS || !(metrics >> id & 1)) {
            continue;
        }
        out[n].metric = (uint8_t)id;
        out[n].n_values = wire_batch_count(counts, &n_counts, b->runs, b->n_runs, id);
        *n_values += out[n++].n_values;
        columns |= METRIC_BIT(id);
        if (*n_values > WIRE_VALUES_MAX) {
            return ERR_FULL;
        }
    }
    for (size_t i = 0; i < b->n_runs; i++) {
        masks |= b->runs[i].mask;
    }
    *n_out = n;
    return masks & ~columns ? ERR_CORRUPT : ERR_OK;
}

/* Decodes the listed columns into one array. */
static enum err fill_columns(struct batch_column *columns, int64_t *values,
                             const Procfleet__V1__Batch *m, const struct batch *b, uint32_t *counts)
{
    enum err e = ERR_OK;
    size_t k = 0;

    for (size_t i = 0; !e && i < m->n_columns && k < b->n_columns; i++) {
        const Procfleet__V1__Column *c = m->columns[i];
        size_t n_counts;

        if (c->metric != columns[k].metric) {
            continue;
        }
        wire_batch_count(counts, &n_counts, b->runs, b->n_runs, c->metric);
        e = codec_decode(values, counts, n_counts, c->zigzag ? CODEC_MOVING : CODEC_GROWING,
                         c->data.data, c->data.len);
        columns[k].values = values;
        values += columns[k++].n_values;
    }
    return e;
}

static enum err get_columns(struct batch *b, const Procfleet__V1__Batch *m, uint64_t metrics,
                            struct wire_arena *a)
{
    struct batch_column *columns;
    size_t n_values;
    uint32_t *counts;
    int64_t *values;
    enum err e;

    if (m->n_columns > 4 * METRIC_COLS) {
        return ERR_FULL;
    }
    columns = wire_arena_array(a, METRIC_COLS, sizeof *columns);
    counts = wire_arena_alloc(a, b->n_runs * sizeof *counts);
    if (!columns || !counts) {
        return a->bad;
    }
    e = list_columns(columns, &b->n_columns, &n_values, m, b, metrics, counts);
    if (e) {
        return e;
    }
    b->columns = columns;
    values = wire_arena_alloc(a, n_values * sizeof *values);
    return values ? fill_columns(columns, values, m, b, counts) : a->bad;
}

static enum err get_infos(struct batch *b, const Procfleet__V1__Batch *m, struct wire_arena *a)
{
    struct proc_info *infos = wire_arena_alloc(a, m->n_infos * sizeof *infos);
    enum err e = infos ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_infos; i++) {
        e = wire_info_get(&infos[i], m->infos[i]);
    }
    b->infos = infos;
    b->n_infos = m->n_infos;
    return e;
}

static enum err get_events(struct batch *b, const Procfleet__V1__Batch *m, struct wire_arena *a)
{
    struct life_event *events = wire_arena_alloc(a, m->n_events * sizeof *events);
    enum err e = events ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_events; i++) {
        e = wire_event_get(&events[i], m->events[i]);
    }
    b->events = events;
    b->n_events = m->n_events;
    return e;
}

static enum err get_ledger(struct batch *b, const Procfleet__V1__Batch *m, struct wire_arena *a)
{
    struct ledger_row *rows = wire_arena_alloc(a, m->n_ledger * sizeof *rows);

    if (!rows) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_ledger; i++) {
        const Procfleet__V1__Ledger *r = m->ledger[i];

        rows[i].count = r->count;
        if (!wire_text_get(&rows[i].stage, r->has_stage, &r->stage, MODEL_TEXT_MAX) ||
            !wire_text_get(&rows[i].reason, r->has_reason, &r->reason, MODEL_TEXT_MAX)) {
            return ERR_CORRUPT;
        }
    }
    b->ledger = rows;
    b->n_ledger = m->n_ledger;
    return ERR_OK;
}

/* Bytes of the decoded batch: all counts are within their limits here, so this is bounded. */
static size_t result_bytes(const Procfleet__V1__Batch *m)
{
    size_t runs = m->runs ? m->runs->n_pid : 0;

    return 65536 + m->n_wall_ns * 2 * sizeof(int64_t) +
           runs * (sizeof(struct batch_run) + sizeof(uint32_t)) +
           WIRE_VALUES_MAX * sizeof(int64_t) + m->n_infos * sizeof(struct proc_info) +
           m->n_events * sizeof(struct life_event) + m->n_ledger * sizeof(struct ledger_row);
}

static enum err read_batch(struct batch *b, const Procfleet__V1__Batch *m, uint64_t metrics,
                           struct wire_arena *a)
{
    enum err e = get_head(&b->head, m);

    if (e) {
        return e;
    }
    if (m->n_wall_ns > WIRE_TICKS_MAX ||
        (m->runs && (m->runs->n_pid > WIRE_RUNS_MAX || m->runs->n_masks > WIRE_RUNS_MAX)) ||
        m->n_infos > WIRE_RUNS_MAX || m->n_events > WIRE_EVENTS_MAX ||
        m->n_ledger > WIRE_LEDGER_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, result_bytes(m));
    e = get_ticks(b, m, a);
    if (!e) {
        e = get_runs(b, m->runs, metrics, a);
    }
    if (!e) {
        e = get_columns(b, m, metrics, a);
    }
    if (!e) {
        e = get_infos(b, m, a);
    }
    if (!e) {
        e = get_events(b, m, a);
    }
    if (!e) {
        e = get_ledger(b, m, a);
    }
    return e;
}

struct wire_decoder {
    ZSTD_DCtx *zstd;
};

enum err wire_decoder_create(struct wire_decoder **out)
{
    struct wire_decoder *dec = mem_zalloc(sizeof *dec);

    if (!dec) {
        return ERR_NOMEM;
    }
    dec->zstd = ZSTD_createDCtx_advanced(wire_batch_zstd);
    if (!dec->zstd) {
        wire_decoder_destroy(dec);
        return ERR_NOMEM;
    }
    *out = dec;
    return ERR_OK;
}

void wire_decoder_destroy(struct wire_decoder *dec)
{
    if (dec) {
        ZSTD_freeDCtx(dec->zstd);
        mem_free(dec);
    }
}

/* The packed message inside a frame; *raw is released by mem_free. */
static enum err decompress(ZSTD_DCtx *zstd, uint8_t **raw, size_t *raw_n, const void *p, size_t n)
{
    unsigned long long size = ZSTD_getFrameContentSize(p, n);
    uint8_t *to;
    size_t got;

    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
        return ERR_CORRUPT;
    }
    if (size > WIRE_BATCH_RAW_MAX) {
        return ERR_FULL;
    }
    to = mem_alloc((size_t)size);
    if (!to) {
        return ERR_NOMEM;
    }
    got = ZSTD_decompressDCtx(zstd, to, (size_t)size, p, n);
    if (ZSTD_isError(got) || got != size) {
        mem_free(to);
        return ERR_CORRUPT;
    }
    *raw = to;
    *raw_n = got;
    return ERR_OK;
}

/* Bytes of the values that runs have in other columns than these. */
static size_t values_left_out(const Procfleet__V1__Runs *m, uint64_t metrics)
{
    size_t n = 0;

    for (size_t i = 0; m && i < m->n_pid; i++) {
        uint64_t mask = m->masks[m->mask[i]] & wire_batch_columns & ~metrics;

        for (; mask; mask &= mask - 1) {
            n += m->n_ticks[i];
        }
    }
    return n * sizeof(int64_t);
}

/* Unpacks and checks; o stays the caller's. */
static enum err decode_into(struct owned_batch *o, struct wire_decoder *dec, uint64_t metrics,
                            const void *p, size_t n)
{
    Procfleet__V1__Batch *m;
    uint8_t *raw;
    size_t raw_n;
    enum err e = decompress(dec->zstd, &raw, &raw_n, p, n);

    if (e) {
        return e;
    }
    /* A share of raw_n would bound nothing: padding is compressed away. */
    e = wire_unpack_within(&m, &o->arena, &procfleet__v1__batch__descriptor, raw, raw_n,
                           WIRE_BATCH_UNPACK_MAX);
    mem_free(raw);
    if (!e) {
        e = read_batch(&o->b, m, metrics & wire_batch_columns, &o->arena);
    }
    if (!e) {
        o->left_out = values_left_out(m->runs, metrics);
    }
    return e;
}

enum err wire_decoder_batch(struct wire_decoder *dec, struct batch **out, uint64_t metrics,
                            const void *p, size_t n)
{
    struct owned_batch *o;
    enum err e;

    if (n > WIRE_BATCH_BYTES_MAX) {
        return ERR_FULL;
    }
    o = mem_zalloc(sizeof *o);
    if (!o) {
        return ERR_NOMEM;
    }
    atomic_init(&o->refs, 1);
    wire_arena_init(&o->arena, 0);
    e = decode_into(o, dec, metrics, p, n);
    if (e) {
        wire_batch_free(&o->b);
        return e;
    }
    *out = &o->b;
    return ERR_OK;
}

enum err wire_batch_decode_part(struct batch **out, uint64_t metrics, const void *p, size_t n)
{
    struct wire_decoder *dec;
    enum err e;

    if (n > WIRE_BATCH_BYTES_MAX) {
        return ERR_FULL;
    }
    e = wire_decoder_create(&dec);
    if (e) {
        return e;
    }
    e = wire_decoder_batch(dec, out, metrics, p, n);
    wire_decoder_destroy(dec);
    return e;
}

enum err wire_batch_decode(struct batch **out, const void *p, size_t n)
{
    return wire_batch_decode_part(out, UINT64_MAX, p, n);
}

void wire_batch_free(struct batch *b)
{
    struct owned_batch *o = (struct owned_batch *)b;

    if (o && atomic_fetch_sub(&o->refs, 1) == 1) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

struct batch *wire_batch_hold(struct batch *b)
{
    atomic_fetch_add(&((struct owned_batch *)b)->refs, 1);
    return b;
}

size_t wire_batch_memory(const struct batch *b)
{
    const struct owned_batch *o = (const struct owned_batch *)b;

    return sizeof *o + o->arena.used + o->left_out;
}

size_t wire_batch_room(const struct batch *b)
{
    const struct owned_batch *o = (const struct owned_batch *)b;

    return sizeof *o + o->arena.used + (size_t)(o->arena.end - o->arena.at);
}
