#include "common/wire/wire_batch.h"

/* zstd lets a static library's user bring its own allocator. */
#define ZSTD_STATIC_LINKING_ONLY
#include <stdatomic.h>
#include <string.h>

#include <zstd.h>

#include "common/base/mem.h"
#include "common/model/codec.h"
#include "common/model/ledger.h"
#include "common/wire/wire_info.h"

/* A batch on its way out: columns are coded into a scratch buffer, the message around them is built
 * in an arena, packed, compressed, and appended. The way in is the second half.
 *
 * Nothing in a batch refers to another batch: any two may arrive in any order, or one of them never
 * arrives. */

#define BATCH_FORMAT     1u
#define BATCH_SOURCE_MAX 31u        /* bytes */
#define BATCH_UNPACK_MAX (8u << 20) /* memory to unpack the message in */
#define ZSTD_LEVEL       1
#define BUILD_BYTES      (64u << 20) /* memory to build a message in */
#define OWN_UNPACK_MAX \
    (96u << 20) /* and to unpack one that was packed here: whatever a batch has */

#define COLUMNS_MAX 256u /* of one message, known ones or not */

#define COLUMN_BIT(id, name, kind, unit, column, help) | ((metric_mask)(column) << (id))
/* Bit m: metric m is a column. */
static const metric_mask batch_columns = (metric_mask)0 METRIC_LIST(COLUMN_BIT);

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

static const ZSTD_customMem batch_zstd = {zstd_alloc, zstd_free, NULL};

enum err wire_batch_encoder_create(struct wire_encoder **out)
{
    struct wire_encoder *enc = mem_zalloc(sizeof *enc);

    if (!enc) {
        return ERR_NOMEM;
    }
    buf_init(&enc->columns, 2u * WIRE_VALUES_MAX * sizeof(uint64_t));
    buf_init(&enc->raw, WIRE_BATCH_RAW_MAX);
    buf_init(&enc->frame, ZSTD_COMPRESSBOUND(WIRE_BATCH_RAW_MAX));
    enc->zstd = ZSTD_createCCtx_advanced(batch_zstd);
    if (!enc->zstd) {
        wire_batch_encoder_destroy(enc);
        return ERR_NOMEM;
    }
    ZSTD_CCtx_setParameter(enc->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    ZSTD_CCtx_setParameter(enc->zstd, ZSTD_c_checksumFlag, 1);
    *out = enc;
    return ERR_OK;
}

void wire_batch_encoder_destroy(struct wire_encoder *enc)
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

/* How many values column `metric` has by the runs' masks; counts gets the lengths of those runs. */
static size_t runs_count_values(uint32_t *counts, size_t *n_counts, const struct batch_run *runs,
                                size_t n_runs, unsigned metric)
{
    bool high = metric >= METRIC_PAGE;
    uint64_t bit = UINT64_C(1) << metric % METRIC_PAGE;
    size_t n = 0, k = 0;

    for (size_t i = 0; i < n_runs; i++) {
        if ((high ? metric_mask_high(runs[i].mask) : metric_mask_low(runs[i].mask)) & bit) {
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
    metric_mask masks = 0, columns = 0;

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
    return masks & ~(columns & batch_columns) ? ERR_INVALID : ERR_OK;
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
static uint32_t mask_index(Procfleet__V1__Runs *m, metric_mask mask)
{
    uint64_t low = metric_mask_low(mask), high = metric_mask_high(mask);
    size_t i = m->n_masks;

    while (i > 0 && (m->masks[i - 1] != low || m->masks_high[i - 1] != high)) {
        i--;
    }
    if (i == 0) {
        m->masks[m->n_masks] = low;
        m->masks_high[m->n_masks++] = high;
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
    m->masks_high = wire_arena_alloc(a, n * sizeof *m->masks_high);
    m->fresh = wire_arena_alloc(a, n * sizeof *m->fresh);
    if (!m->pid || !m->start || !m->first_tick || !m->n_ticks || !m->mask || !m->masks ||
        !m->masks_high || !m->fresh) {
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
    for (size_t i = 0; i < m->n_masks && !m->n_masks_high; i++) {
        m->n_masks_high = m->masks_high[i] ? m->n_masks : 0; /* absent when there is none */
    }
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

        if (runs_count_values(counts, &n_counts, b->runs, b->n_runs, c->metric) != c->n_values) {
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

        if (runs_count_values(counts, &n_counts, b->runs, b->n_runs, c->metric) == 0) {
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
    struct wire_info_types types = {.max = WIRE_TYPES_MAX};
    enum err e = ERR_OK;

    m->events = wire_arena_array(a, b->n_events, sizeof *m->events);
    if (!items || !m->events) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < b->n_events; i++) {
        m->events[i] = &items[i];
        e = wire_info_event_put(&items[i], &b->events[i], &types, a);
    }
    m->n_events = b->n_events;
    return e ? e : wire_info_types_put(&m->event_types, &m->n_event_types, &types, a);
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
    m->format = BATCH_FORMAT;
    m->stream = h->stream;
    m->seq = h->seq;
    m->has_flags = h->flags != 0;
    m->flags = h->flags;
    m->has_cpus = h->cpus != 0;
    m->cpus = h->cpus;
    wire_uuid_put(&m->has_host, &m->host, &h->host);
    wire_uuid_put(&m->has_boot, &m->boot, &h->boot);
    return wire_text_put(&m->has_source, &m->source, h->source, BATCH_SOURCE_MAX, a);
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

/* At least what a receiver needs to unpack the message (wire.c): a struct for each part, its
 * place in the tables that protobuf-c makes while it reads (doubled as they grow), the pointer to
 * it, and everything rounded up. */
static size_t unpack_bound(const Procfleet__V1__Batch *m, size_t packed_n)
{
    size_t fields = 0;
    enum { TEXT = 16, MEMBER = 64 + 8 + 16, INFO = sizeof(Procfleet__V1__ProcInfo) + 4 * TEXT };

    for (size_t i = 0; i < m->n_event_types; i++) {
        fields += m->event_types[i]->n_fields;
    }
    return 8192 + packed_n + 16 * m->n_wall_ns + 48 * m->runs->n_pid +
           m->n_columns * (MEMBER + sizeof(Procfleet__V1__Column) + TEXT) +
           m->n_infos * (MEMBER + INFO) +
           m->n_events * (MEMBER + sizeof(Procfleet__V1__LifeEvent) + INFO + 3 * TEXT) +
           m->n_event_types * (MEMBER + sizeof(Procfleet__V1__EventType) + 5 * TEXT) +
           fields * (MEMBER + sizeof(ProtobufCBinaryData) + TEXT) +
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

static enum err pack_within(struct wire_encoder *enc, struct buf *out, const struct batch *b,
                            size_t unpack_max)
{
    Procfleet__V1__Batch m = PROCFLEET__V1__BATCH__INIT;
    size_t start = out->n;
    Procfleet__V1__Runs runs;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, BUILD_BYTES);
    e = build(&m, &runs, b, enc, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    if (!e && unpack_bound(&m, out->n - start) > unpack_max) {
        out->n = start;
        e = ERR_FULL;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_batch_pack(struct wire_encoder *enc, struct buf *out, const struct batch *b)
{
    return pack_within(enc, out, b, OWN_UNPACK_MAX);
}

enum err wire_batch_encode(struct wire_encoder *enc, struct buf *out, const struct batch *b)
{
    enum err e;

    buf_reset(&enc->raw);
    e = pack_within(enc, &enc->raw, b, BATCH_UNPACK_MAX);
    return e ? e : compress(out, enc);
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

/* -- decoding -- */

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
    if (m->format != BATCH_FORMAT) {
        return ERR_VERSION;
    }
    if (!m->has_host || !wire_uuid_get(&h->host, m->has_host, &m->host) ||
        !wire_uuid_get(&h->boot, m->has_boot, &m->boot) || m->seq == 0 ||
        !wire_text_get(&h->source, m->has_source, &m->source, BATCH_SOURCE_MAX)) {
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

/* The i-th of the masks. */
static metric_mask runs_mask(const Procfleet__V1__Runs *m, uint32_t i)
{
    return metric_mask_make(m->masks[i], m->n_masks_high ? m->masks_high[i] : 0);
}

static enum err get_runs(struct batch *b, const Procfleet__V1__Runs *m, metric_mask metrics,
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
    if (m->n_start != n || m->n_first_tick != n || m->n_n_ticks != n || m->n_mask != n ||
        (m->n_masks_high && m->n_masks_high != m->n_masks)) {
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
        runs[i].mask = runs_mask(m, m->mask[i]) & metrics;
        if (!wire_batch_run_fits(&runs[i], i ? &runs[i - 1] : NULL, b->n_ticks)) {
            return ERR_CORRUPT;
        }
    }
    return mark_fresh(runs, n, m);
}

/* The wanted columns, their lengths taken from the runs; every bit of a mask must have its column.
 */
static enum err list_columns(struct batch_column *out, size_t *n_out, size_t *n_values,
                             const Procfleet__V1__Batch *m, const struct batch *b,
                             metric_mask metrics, uint32_t *counts)
{
    metric_mask masks = 0, columns = 0;
    size_t n = 0;

    *n_values = 0;
    for (size_t i = 0; i < m->n_columns; i++) {
        uint32_t id = m->columns[i]->metric;
        size_t n_counts;

        if (i && id <= m->columns[i - 1]->metric) {
            return ERR_CORRUPT;
        }
        if (id >= METRIC_COLS || !(metrics & METRIC_BIT(id))) {
            continue;
        }
        out[n].metric = (uint8_t)id;
        out[n].n_values = runs_count_values(counts, &n_counts, b->runs, b->n_runs, id);
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
        runs_count_values(counts, &n_counts, b->runs, b->n_runs, c->metric);
        e = codec_decode(values, counts, n_counts, c->zigzag ? CODEC_MOVING : CODEC_GROWING,
                         c->data.data, c->data.len);
        columns[k].values = values;
        values += columns[k++].n_values;
    }
    return e;
}

static enum err get_columns(struct batch *b, const Procfleet__V1__Batch *m, metric_mask metrics,
                            struct wire_arena *a)
{
    struct batch_column *columns;
    size_t n_values;
    uint32_t *counts;
    int64_t *values;
    enum err e;

    if (m->n_columns > COLUMNS_MAX) {
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
    struct wire_info_types types = {.max = WIRE_TYPES_MAX};
    enum err e = events ? ERR_OK : a->bad;

    if (!e) {
        e = wire_info_types_get(&types, m->event_types, m->n_event_types, a);
    }
    for (size_t i = 0; !e && i < m->n_events; i++) {
        e = wire_info_event_get(&events[i], m->events[i], &types);
        if (!e && events[i].kind == LIFE_RULE) { /* notices are the collector's alone */
            e = ERR_CORRUPT;
        }
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
           m->n_events * sizeof(struct life_event) + m->n_ledger * sizeof(struct ledger_row) +
           wire_info_types_bytes(m->event_types, m->n_event_types);
}

static enum err read_batch(struct batch *b, const Procfleet__V1__Batch *m, metric_mask metrics,
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

enum err wire_batch_decoder_create(struct wire_decoder **out)
{
    struct wire_decoder *dec = mem_zalloc(sizeof *dec);

    if (!dec) {
        return ERR_NOMEM;
    }
    dec->zstd = ZSTD_createDCtx_advanced(batch_zstd);
    if (!dec->zstd) {
        wire_batch_decoder_destroy(dec);
        return ERR_NOMEM;
    }
    *out = dec;
    return ERR_OK;
}

void wire_batch_decoder_destroy(struct wire_decoder *dec)
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
static size_t values_left_out(const Procfleet__V1__Runs *m, metric_mask metrics)
{
    size_t n = 0;

    for (size_t i = 0; m && i < m->n_pid; i++) {
        metric_mask mask = runs_mask(m, m->mask[i]) & batch_columns & ~metrics;

        n += (size_t)metric_mask_count(mask) * m->n_ticks[i];
    }
    return n * sizeof(int64_t);
}

/* Unpacks and checks the message; o stays the caller's. */
static enum err unpack_into(struct owned_batch *o, metric_mask metrics, const void *raw,
                            size_t raw_n, size_t max)
{
    Procfleet__V1__Batch *m;
    /* A share of raw_n would bound nothing: padding is compressed away. */
    enum err e =
        wire_unpack_within(&m, &o->arena, &procfleet__v1__batch__descriptor, raw, raw_n, max);

    if (!e) {
        e = read_batch(&o->b, m, metrics & batch_columns, &o->arena);
    }
    if (!e) {
        o->left_out = values_left_out(m->runs, metrics);
    }
    return e;
}

static enum err decode_into(struct owned_batch *o, struct wire_decoder *dec, metric_mask metrics,
                            const void *p, size_t n)
{
    uint8_t *raw;
    size_t raw_n;
    enum err e = decompress(dec->zstd, &raw, &raw_n, p, n);

    if (!e) {
        e = unpack_into(o, metrics, raw, raw_n, BATCH_UNPACK_MAX);
        mem_free(raw);
    }
    return e;
}

static struct owned_batch *owned_make(void)
{
    struct owned_batch *o = mem_zalloc(sizeof *o);

    if (o) {
        atomic_init(&o->refs, 1);
        wire_arena_init(&o->arena, 0);
    }
    return o;
}

enum err wire_batch_unpack(struct batch **out, const void *p, size_t n)
{
    struct owned_batch *o;
    enum err e;

    if (n > WIRE_BATCH_OWN_MAX) {
        return ERR_FULL;
    }
    o = owned_make();
    if (!o) {
        return ERR_NOMEM;
    }
    e = unpack_into(o, METRIC_ALL, p, n, OWN_UNPACK_MAX);
    if (e) {
        wire_batch_free(&o->b);
        return e;
    }
    *out = &o->b;
    return ERR_OK;
}

enum err wire_batch_decode_next(struct wire_decoder *dec, struct batch **out, metric_mask metrics,
                                const void *p, size_t n)
{
    struct owned_batch *o;
    enum err e;

    if (n > WIRE_BATCH_BYTES_MAX) {
        return ERR_FULL;
    }
    o = owned_make();
    if (!o) {
        return ERR_NOMEM;
    }
    e = decode_into(o, dec, metrics, p, n);
    if (e) {
        wire_batch_free(&o->b);
        return e;
    }
    *out = &o->b;
    return ERR_OK;
}

enum err wire_batch_decode_part(struct batch **out, metric_mask metrics, const void *p, size_t n)
{
    struct wire_decoder *dec;
    enum err e;

    if (n > WIRE_BATCH_BYTES_MAX) {
        return ERR_FULL;
    }
    e = wire_batch_decoder_create(&dec);
    if (e) {
        return e;
    }
    e = wire_batch_decode_next(dec, out, metrics, p, n);
    wire_batch_decoder_destroy(dec);
    return e;
}

enum err wire_batch_decode(struct batch **out, const void *p, size_t n)
{
    return wire_batch_decode_part(out, METRIC_ALL, p, n);
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
