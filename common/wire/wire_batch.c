#include "common/wire/wire_batch.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/model/codec.h"
#include "common/model/ledger.h"
#include "common/wire/wire_info.h"

/* A batch on its way out: columns are coded into a scratch buffer, the message around them is built
 * in an arena, packed, compressed, and appended. The way in is wire_batch_decode.c.
 *
 * Nothing in a batch refers to another batch: any two may arrive in any order, or one of them
 * never.
 */

#define ZSTD_LEVEL  1
#define BUILD_BYTES (64u << 20) /* memory to build a message in */

#define COLUMN_BIT(id, name, kind, unit, column, help) | (UINT64_C(column) << (id))
const uint64_t wire_batch_columns = UINT64_C(0) METRIC_LIST(COLUMN_BIT);

struct wire_encoder {
    ZSTD_CCtx *zstd;
    struct buf columns; /* their bytes, one after the other */
    struct buf raw;     /* the packed message */
    struct buf frame;   /* compressed */
};

static void *zstd_alloc(void *ctx, size_t n)
{
    (void)ctx;
    return mem_alloc(n);
}

static void zstd_free(void *ctx, void *p)
{
    (void)ctx;
    mem_free(p);
}

const ZSTD_customMem wire_batch_zstd = {zstd_alloc, zstd_free, NULL};

enum err wire_encoder_create(struct wire_encoder **out)
{
    struct wire_encoder *enc = mem_zalloc(sizeof *enc);

    if (!enc) {
        return ERR_NOMEM;
    }
    buf_init(&enc->columns, 2u * WIRE_VALUES_MAX * sizeof(uint64_t));
    buf_init(&enc->raw, WIRE_BATCH_RAW_MAX);
    buf_init(&enc->frame, ZSTD_COMPRESSBOUND(WIRE_BATCH_RAW_MAX));
    enc->zstd = ZSTD_createCCtx_advanced(wire_batch_zstd);
    if (!enc->zstd) {
        wire_encoder_destroy(enc);
        return ERR_NOMEM;
    }
    ZSTD_CCtx_setParameter(enc->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    ZSTD_CCtx_setParameter(enc->zstd, ZSTD_c_checksumFlag, 1);
    *out = enc;
    return ERR_OK;
}

void wire_encoder_destroy(struct wire_encoder *enc)
{
    if (enc) {
        ZSTD_freeCCtx(enc->zstd);
        buf_fini(&enc->columns);
        buf_fini(&enc->raw);
        buf_fini(&enc->frame);
        mem_free(enc);
    }
}

bool wire_batch_run_fits(const struct batch_run *r, const struct batch_run *before, size_t n_ticks)
{
    if (r->n_ticks == 0 || r->first_tick >= n_ticks || r->n_ticks > n_ticks - r->first_tick) {
        return false;
    }
    if (!before || r->id.pid != before->id.pid) {
        return !before || r->id.pid > before->id.pid;
    }
    if (r->id.start != before->id.start) {
        return r->id.start > before->id.start;
    }
    return r->first_tick >= before->first_tick + before->n_ticks;
}

static bool rising(const int64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (v[i] <= v[i - 1]) {
            return false;
        }
    }
    return true;
}

size_t wire_batch_count(uint32_t *counts, size_t *n_counts, const struct batch_run *runs,
                        size_t n_runs, unsigned metric)
{
    size_t n = 0, k = 0;

    for (size_t i = 0; i < n_runs; i++) {
        if (runs[i].mask >> metric & 1) {
            counts[k++] = runs[i].n_ticks;
            n += runs[i].n_ticks;
        }
    }
    *n_counts = k;
    return n;
}

/* The batch as its header describes it, and within the limits. */
static enum err check_batch(const struct batch *b)
{
    uint64_t masks = 0, columns = 0;

    if (b->n_ticks > WIRE_TICKS_MAX || b->n_runs > WIRE_RUNS_MAX || b->n_infos > WIRE_RUNS_MAX ||
        b->n_events > WIRE_EVENTS_MAX || b->n_ledger > WIRE_LEDGER_MAX) {
        return ERR_FULL;
    }
    if (b->head.seq == 0 || !rising(b->wall_ns, b->n_ticks) || !rising(b->mono_ns, b->n_ticks)) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < b->n_runs; i++) {
        if (!wire_batch_run_fits(&b->runs[i], i ? &b->runs[i - 1] : NULL, b->n_ticks)) {
            return ERR_INVALID;
        }
        masks |= b->runs[i].mask;
    }
    for (size_t i = 0; i < b->n_columns; i++) {
        unsigned m = b->columns[i].metric;

        if (m >= METRIC_COLS || (i && m <= b->columns[i - 1].metric)) {
            return ERR_INVALID;
        }
        columns |= METRIC_BIT(m);
    }
    return masks & ~(columns & wire_batch_columns) ? ERR_INVALID : ERR_OK;
}

/* First value, then differences. */
static int64_t *differences(const int64_t *v, size_t n, struct wire_arena *a)
{
    int64_t *d = wire_arena_alloc(a, n * sizeof *d);

    for (size_t i = 0; d && i < n; i++) {
        d[i] = i ? (int64_t)((uint64_t)v[i] - (uint64_t)v[i - 1]) : v[i];
    }
    return d;
}

static enum err put_ticks(Procfleet__V1__Batch *m, const struct batch *b, struct wire_arena *a)
{
    m->wall_ns = differences(b->wall_ns, b->n_ticks, a);
    m->mono_ns = differences(b->mono_ns, b->n_ticks, a);
    m->n_wall_ns = m->n_mono_ns = b->n_ticks;
    return m->wall_ns && m->mono_ns ? ERR_OK : a->bad;
}

/* Index of the mask in the list, added when it is new: few runs differ in it. */
static uint32_t mask_index(Procfleet__V1__Runs *m, uint64_t mask)
{
    size_t i = m->n_masks;

    while (i > 0 && m->masks[i - 1] != mask) {
        i--;
    }
    if (i == 0) {
        m->masks[m->n_masks++] = mask;
        i = m->n_masks;
    }
    return (uint32_t)(i - 1);
}

static enum err put_runs(Procfleet__V1__Runs *m, const struct batch *b, struct wire_arena *a)
{
    size_t n = b->n_runs;

    procfleet__v1__runs__init(m);
    m->pid = wire_arena_alloc(a, n * sizeof *m->pid);
    m->start = wire_arena_alloc(a, n * sizeof *m->start);
    m->first_tick = wire_arena_alloc(a, n * sizeof *m->first_tick);
    m->n_ticks = wire_arena_alloc(a, n * sizeof *m->n_ticks);
    m->mask = wire_arena_alloc(a, n * sizeof *m->mask);
    m->masks = wire_arena_alloc(a, n * sizeof *m->masks);
    m->fresh = wire_arena_alloc(a, n * sizeof *m->fresh);
    if (!m->pid || !m->start || !m->first_tick || !m->n_ticks || !m->mask || !m->masks ||
        !m->fresh) {
        return a->bad;
    }
    for (size_t i = 0; i < n; i++) {
        const struct batch_run *r = &b->runs[i];

        m->pid[i] = r->id.pid - (i ? r[-1].id.pid : 0);
        m->start[i] = (int64_t)(r->id.start - (i ? r[-1].id.start : 0));
        m->first_tick[i] = r->first_tick;
        m->n_ticks[i] = r->n_ticks;
        m->mask[i] = mask_index(m, r->mask);
        if (r->fresh) {
            m->fresh[m->n_fresh++] = (uint32_t)i;
        }
    }
    m->n_pid = m->n_start = m->n_first_tick = m->n_n_ticks = m->n_mask = n;
    return ERR_OK;
}

/* Makes room for all columns at once, so that their bytes do not move while the message refers to
 * them. */
static enum err reserve_columns(struct buf *scratch, const struct batch *b, uint32_t *counts)
{
    size_t n_values = 0, bound = 0;

    for (size_t i = 0; i < b->n_columns; i++) {
        const struct batch_column *c = &b->columns[i];
        size_t n_counts;

        if (wire_batch_count(counts, &n_counts, b->runs, b->n_runs, c->metric) != c->n_values) {
            return ERR_INVALID;
        }
        n_values += c->n_values;
        bound += codec_bound(c->n_values, n_counts);
        if (n_values > WIRE_VALUES_MAX) {
            return ERR_FULL;
        }
    }
    buf_reset(scratch);
    if (!buf_grow(scratch, bound ? bound : 1)) {
        return scratch->bad;
    }
    return ERR_OK;
}

static enum err put_columns(Procfleet__V1__Batch *m, const struct batch *b, struct buf *scratch,
                            struct wire_arena *a)
{
    Procfleet__V1__Column *items = wire_arena_array(a, b->n_columns, sizeof *items);
    uint32_t *counts = wire_arena_alloc(a, b->n_runs * sizeof *counts);
    enum err e;
    uint8_t *at;

    m->columns = wire_arena_array(a, b->n_columns, sizeof *m->columns);
    if (!items || !counts || !m->columns) {
        return a->bad;
    }
    e = reserve_columns(scratch, b, counts);
    if (e) {
        return e;
    }
    at = scratch->p;
    for (size_t i = 0; i < b->n_columns; i++) {
        const struct batch_column *c = &b->columns[i];
        bool moving = metric_by_id(c->metric) && metric_by_id(c->metric)->kind != METRIC_COUNTER;
        Procfleet__V1__Column *to = &items[m->n_columns];
        size_t n_counts;

        if (wire_batch_count(counts, &n_counts, b->runs, b->n_runs, c->metric) == 0) {
            continue;
        }
        procfleet__v1__column__init(to);
        to->has_metric = to->has_data = 1;
        to->metric = c->metric;
        to->has_zigzag = to->zigzag = moving;
        to->data.data = at;
        to->data.len =
            codec_encode(at, c->values, counts, n_counts, moving ? CODEC_MOVING : CODEC_GROWING);
        at += to->data.len;
        m->columns[m->n_columns++] = to;
    }
    return ERR_OK;
}

static enum err put_infos(Procfleet__V1__Batch *m, const struct batch *b, struct wire_arena *a)
{
    Procfleet__V1__ProcInfo *items = wire_arena_array(a, b->n_infos, sizeof *items);
    enum err e = ERR_OK;

    m->infos = wire_arena_array(a, b->n_infos, sizeof *m->infos);
    if (!items || !m->infos) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < b->n_infos; i++) {
        m->infos[i] = &items[i];
        e = wire_info_put(&items[i], &b->infos[i], a);
    }
    m->n_infos = b->n_infos;
    return e;
}

static enum err put_events(Procfleet__V1__Batch *m, const struct batch *b, struct wire_arena *a)
{
    Procfleet__V1__LifeEvent *items = wire_arena_array(a, b->n_events, sizeof *items);
    enum err e = ERR_OK;

    m->events = wire_arena_array(a, b->n_events, sizeof *m->events);
    if (!items || !m->events) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < b->n_events; i++) {
        m->events[i] = &items[i];
        e = wire_event_put(&items[i], &b->events[i], a);
    }
    m->n_events = b->n_events;
    return e;
}

static enum err put_ledger(Procfleet__V1__Batch *m, const struct batch *b, struct wire_arena *a)
{
    Procfleet__V1__Ledger *items = wire_arena_array(a, b->n_ledger, sizeof *items);
    enum err e = ERR_OK;

    m->ledger = wire_arena_array(a, b->n_ledger, sizeof *m->ledger);
    if (!items || !m->ledger) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < b->n_ledger; i++) {
        const struct ledger_row *r = &b->ledger[i];

        procfleet__v1__ledger__init(&items[i]);
        m->ledger[i] = &items[i];
        items[i].has_count = 1;
        items[i].count = r->count;
        e = wire_text_put(&items[i].has_stage, &items[i].stage, r->stage, MODEL_TEXT_MAX, a);
        if (!e) {
            e = wire_text_put(&items[i].has_reason, &items[i].reason, r->reason, MODEL_TEXT_MAX, a);
        }
    }
    m->n_ledger = b->n_ledger;
    return e;
}

static enum err put_head(Procfleet__V1__Batch *m, const struct batch_head *h, struct wire_arena *a)
{
    m->has_format = m->has_stream = m->has_seq = 1;
    m->format = WIRE_BATCH_FORMAT;
    m->stream = h->stream;
    m->seq = h->seq;
    m->has_flags = h->flags != 0;
    m->flags = h->flags;
    m->has_cpus = h->cpus != 0;
    m->cpus = h->cpus;
    wire_uuid_put(&m->has_host, &m->host, &h->host);
    wire_uuid_put(&m->has_boot, &m->boot, &h->boot);
    return wire_text_put(&m->has_source, &m->source, h->source, WIRE_BATCH_SOURCE_MAX, a);
}

/* The message for the batch; it borrows from `b`, the scratch buffer and the arena. */
static enum err build(Procfleet__V1__Batch *m, Procfleet__V1__Runs *runs, const struct batch *b,
                      struct wire_encoder *enc, struct wire_arena *a)
{
    enum err e = check_batch(b);

    if (!e) {
        e = put_head(m, &b->head, a);
    }
    if (!e) {
        e = put_ticks(m, b, a);
    }
    if (!e) {
        m->runs = runs;
        e = put_runs(runs, b, a);
    }
    if (!e) {
        e = put_columns(m, b, &enc->columns, a);
    }
    if (!e) {
        e = put_infos(m, b, a);
    }
    if (!e) {
        e = put_events(m, b, a);
    }
    if (!e) {
        e = put_ledger(m, b, a);
    }
    return e;
}

/* At least what a receiver needs to unpack the message (wire_mem.c): a struct for each part, its
 * place in the tables that protobuf-c makes while it reads (doubled as they grow), the pointer to
 * it, and everything rounded up. */
static size_t unpack_bound(const Procfleet__V1__Batch *m, size_t packed_n)
{
    enum { TEXT = 16, MEMBER = 64 + 8 + 16, INFO = sizeof(Procfleet__V1__ProcInfo) + 4 * TEXT };

    return 8192 + packed_n + 16 * m->n_wall_ns + 48 * m->runs->n_pid +
           m->n_columns * (MEMBER + sizeof(Procfleet__V1__Column) + TEXT) +
           m->n_infos * (MEMBER + INFO) +
           m->n_events * (MEMBER + sizeof(Procfleet__V1__LifeEvent) + INFO + 2 * TEXT) +
           m->n_ledger * (MEMBER + sizeof(Procfleet__V1__Ledger) + 2 * TEXT);
}

/* The packed message in enc->raw to a frame at the end of `out`. */
static enum err compress(struct buf *out, struct wire_encoder *enc)
{
    uint8_t *to;
    size_t n;

    buf_reset(&enc->frame);
    to = buf_grow(&enc->frame, ZSTD_compressBound(enc->raw.n));
    if (!to) {
        return enc->frame.bad;
    }
    n = ZSTD_compress2(enc->zstd, to, enc->frame.n, enc->raw.p, enc->raw.n);
    if (ZSTD_isError(n)) {
        return ERR_NOMEM;
    }
    if (n > WIRE_BATCH_BYTES_MAX) {
        return ERR_FULL;
    }
    buf_put(out, to, n);
    return out->bad;
}

enum err wire_batch_encode(struct wire_encoder *enc, struct buf *out, const struct batch *b)
{
    Procfleet__V1__Batch m = PROCFLEET__V1__BATCH__INIT;
    Procfleet__V1__Runs runs;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, BUILD_BYTES);
    e = build(&m, &runs, b, enc, &a);
    if (!e) {
        buf_reset(&enc->raw);
        e = wire_pack(&enc->raw, &m);
    }
    if (!e && unpack_bound(&m, enc->raw.n) > WIRE_BATCH_UNPACK_MAX) {
        e = ERR_FULL;
    }
    wire_arena_fini(&a);
    if (!e) {
        e = compress(out, enc);
    }
    return e;
}

void wire_batch_at_stake(const struct batch *b, uint64_t *rows, uint64_t *events)
{
    *rows = 0;
    *events = b->n_events;
    for (size_t i = 0; i < b->n_runs; i++) {
        *rows += b->runs[i].n_ticks;
    }
    for (size_t i = 0; i < b->n_ledger; i++) {
        const struct ledger_kind *kind = ledger_kind(&b->ledger[i]);

        *rows += kind->loss && kind->unit == LEDGER_ROWS ? b->ledger[i].count : 0;
        *events += kind->loss && kind->unit == LEDGER_EVENTS ? b->ledger[i].count : 0;
    }
}
