#include "common/lab/run_file.h"

#include <assert.h>
#include <string.h>

/* zstd lets a static library's user bring its own allocator. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/os/os.h"

/* A file is
 *
 *   magic    "PFrun", 1A, CR, LF
 *   u32      version, 1
 *   section  again and again, the last one is the end
 *
 * and a section
 *
 *   u32      which; 0 = end
 *   u32      bytes as packed below; of the end: the number of sections before it
 *   u32      bytes when unpacked
 *   u64      XXH3 of these 12 bytes and of the packed ones
 *   bytes    one zstd frame
 *
 * so a file that is cut anywhere has no end, and nothing may stand behind it. Numbers inside are
 * LEB128, texts a number and bytes, lists a number and records, each behind its length (u32): a
 * later version may add members at the end of a record and whole sections, and this reader skips
 * both. What changes otherwise is another version, and is refused.
 *
 * Each record is described once, by a function that writes a member or reads it (struct pass). What
 * is written is therefore what is read. The reader checks meaning after bytes: run_file_check().
 */

#define MAGIC        "PFrun\x1a\r\n"
#define MAGIC_BYTES  8u
#define VERSION      1u
#define HEAD_BYTES   20u
#define LEVEL        6
#define MEMORY_MAX   ((size_t)256 << 20)
#define SECTIONS_MAX 64u

enum section {
    SECTION_END,
    SECTION_HEAD,
    SECTION_HOSTS,
    SECTION_TABLE, /* from here on: bit of enum RUN_FILE_... */
    SECTION_SERIES,
    SECTION_LIVES,
    SECTION_CRASHES,
    SECTION_NOTICES,
    SECTION_COUNT
};

/* Either way: out is NULL when reading. */
struct pass {
    struct buf *out;
    struct cur in;
    struct run_file *f;
    enum err bad; /* ERR_FULL, ERR_NOMEM, ERR_INVALID: the first */
};

static bool pass_fail(struct pass *p, enum err e)
{
    if (!p->bad) {
        p->bad = e;
    }
    p->in.bad = true;
    return false;
}

/* -- members -- */

static void pass_u64(struct pass *p, uint64_t *v)
{
    if (p->out) {
        buf_put_varint(p->out, *v);
    } else {
        *v = cur_varint(&p->in);
    }
}

static void pass_max(struct pass *p, uint64_t *v, uint64_t max)
{
    pass_u64(p, v);
    if (*v > max) {
        pass_fail(p, p->out ? ERR_INVALID : ERR_CORRUPT);
    }
}

static void pass_u32(struct pass *p, uint32_t *v)
{
    uint64_t wide = *v;

    pass_max(p, &wide, UINT32_MAX);
    *v = (uint32_t)wide;
}

static void pass_u8(struct pass *p, uint8_t *v, uint8_t max)
{
    uint64_t wide = *v;

    pass_max(p, &wide, max);
    *v = (uint8_t)wide;
}

static void pass_bool(struct pass *p, bool *v)
{
    uint8_t byte = *v;

    pass_u8(p, &byte, 1);
    *v = byte != 0;
}

static void pass_i64(struct pass *p, int64_t *v)
{
    if (p->out) {
        buf_put_svarint(p->out, *v);
    } else {
        *v = cur_svarint(&p->in);
    }
}

static void pass_uuid(struct pass *p, struct uuid *v)
{
    if (p->out) {
        buf_put(p->out, v->b, sizeof v->b);
        return;
    }
    const uint8_t *b = cur_bytes(&p->in, sizeof v->b);

    if (b) {
        memcpy(v->b, b, sizeof v->b);
    }
}

/* Read texts point into the unpacked section, which lies in the arena. */
static void pass_text(struct pass *p, struct str *v, size_t max)
{
    uint64_t n = v->n;

    pass_max(p, &n, max);
    if (p->out) {
        buf_put(p->out, v->p, v->n);
    } else {
        v->p = (const char *)cur_bytes(&p->in, (size_t)n);
        v->n = v->p ? (size_t)n : 0;
    }
}

static void pass_mask(struct pass *p, metric_mask *v)
{
    uint64_t low = metric_mask_low(*v), high = metric_mask_high(*v);

    pass_u64(p, &low);
    pass_u64(p, &high);
    *v = metric_mask_make(low, high);
}

/* -- lists -- */

/* Room for the n elements that are about to be read; each takes at least `least` bytes of input. */
static void *pass_room(struct pass *p, uint64_t n, size_t size, size_t least)
{
    void *room;

    if (p->in.bad || (least && n > cur_left(&p->in) / least)) {
        pass_fail(p, ERR_CORRUPT);
        return NULL;
    }
    room = arena_array(&p->f->memory, (size_t)n, size);
    if (!room) {
        pass_fail(p, arena_refused(&p->f->memory, (size_t)n * size));
    }
    return room;
}

/* One record behind its length. What a later version has added behind it is skipped. */
static void pass_record(struct pass *p, void *item, void (*each)(struct pass *p, void *item))
{
    if (p->out) {
        size_t at = p->out->n;

        buf_put_u32le(p->out, 0);
        each(p, item);
        for (unsigned i = 0; i < 4 && !p->out->bad; i++) {
            p->out->p[at + i] = (uint8_t)((p->out->n - at - 4) >> 8 * i);
        }
        return;
    }
    size_t n = cur_u32le(&p->in);
    const uint8_t *bytes = cur_bytes(&p->in, n);
    struct cur rest = p->in;

    if (bytes) {
        p->in = cur_make(bytes, n);
        each(p, item);
        rest.bad |= p->in.bad;
        p->in = rest;
    }
}

/* A list of at most `max` records of `size` bytes, at most 512. `items` is the address of a pointer
 * to the first. */
static void pass_list(struct pass *p, void *items, size_t *n, size_t max, size_t size,
                      void (*each)(struct pass *p, void *item))
{
    union {
        max_align_t align;
        uint8_t bytes[512];
    } copy;
    uint64_t count = *n;
    uint8_t *list = NULL;

    assert(size <= sizeof copy);
    pass_max(p, &count, max);
    if (p->bad) {
        return;
    }
    if (p->out) {
        memcpy(&list, items, sizeof list);
    } else {
        list = pass_room(p, count, size, 4);
        memcpy(items, &list, sizeof list);
        *n = list ? (size_t)count : 0;
    }
    for (size_t i = 0; list && i < count && !p->bad && !p->in.bad; i++) {
        if (p->out) {
            memcpy(&copy, list + i * size, size);
            pass_record(p, &copy, each);
        } else {
            pass_record(p, list + i * size, each);
        }
    }
}

/* -- records -- */

static void pass_pair(struct pass *p, void *item)
{
    struct run_pair *v = item;

    pass_text(p, &v->key, 64);
    pass_text(p, &v->value, MODEL_TEXT_MAX);
}

static void pass_head(struct pass *p, void *item)
{
    struct run_head *v = item;

    pass_uuid(p, &v->id);
    pass_uuid(p, &v->parent);
    pass_text(p, &v->name, RUN_FILE_NAME_MAX);
    pass_text(p, &v->owner, MODEL_TEXT_MAX);
    pass_text(p, &v->made_by, MODEL_TEXT_MAX);
    pass_text(p, &v->source, MODEL_TEXT_MAX);
    pass_u8(p, &v->state, RUN_IMPORTED);
    pass_u8(p, &v->origin, RUN_OF_RANGE);
    pass_u32(p, &v->revision);
    pass_i64(p, &v->begin_ns);
    pass_i64(p, &v->end_ns);
    pass_bool(p, &v->has_exit);
    pass_u32(p, &v->exit_code);
    pass_bool(p, &v->has_root);
    pass_uuid(p, &v->boot);
    pass_u32(p, &v->root_pid);
    pass_i64(p, &v->peak_step_ns);
    pass_bool(p, &v->by_class);
    pass_list(p, &v->labels, &v->n_labels, RUN_FILE_LABELS_MAX, sizeof *v->labels, pass_pair);
}

static void pass_span(struct pass *p, void *item)
{
    struct run_span *v = item;

    pass_i64(p, &v->first_ns);
    pass_i64(p, &v->last_ns);
    pass_u64(p, &v->ticks);
    pass_u64(p, &v->events);
    pass_bool(p, &v->at_most);
}

static void pass_stage(struct pass *p, void *item)
{
    struct run_stage *v = item;

    pass_text(p, &v->stage, 64);
    pass_text(p, &v->reason, 64);
    pass_u8(p, &v->role, UINT8_MAX);
    pass_u8(p, &v->unit, UINT8_MAX);
    pass_u64(p, &v->count);
}

static void pass_host(struct pass *p, void *item)
{
    struct run_host *v = item;

    pass_uuid(p, &v->id);
    pass_text(p, &v->name, MODEL_HOST_NAME_MAX);
    pass_text(p, &v->agent, MODEL_TEXT_MAX);
    pass_text(p, &v->source, MODEL_TEXT_MAX);
    pass_bool(p, &v->polled);
    pass_bool(p, &v->absent);
    pass_u8(p, &v->cpu_origin, CPU_ORIGIN_SAMPLES);
    pass_i64(p, &v->step_ns);
    pass_i64(p, &v->begin_ns);
    pass_i64(p, &v->end_ns);
    pass_i64(p, &v->clock_error_ns);
    pass_u32(p, &v->ppm);
    pass_bool(p, &v->at_most);
    pass_bool(p, &v->overlapped);
    pass_u64(p, &v->ticks);
    pass_u64(p, &v->lost_ticks);
    pass_u64(p, &v->events);
    pass_u64(p, &v->lost_events);
    pass_list(p, &v->labels, &v->n_labels, RUN_FILE_LABELS_MAX, sizeof *v->labels, pass_pair);
    pass_list(p, &v->facts, &v->n_facts, RUN_FILE_FACTS_MAX, sizeof *v->facts, pass_pair);
    pass_list(p, &v->spans, &v->n_spans, RUN_FILE_SPANS_MAX, sizeof *v->spans, pass_span);
    pass_list(p, &v->stages, &v->n_stages, RUN_FILE_STAGES_MAX, sizeof *v->stages, pass_stage);
}

static void pass_column(struct pass *p, void *item)
{
    struct run_column *v = item;

    pass_u8(p, &v->metric, METRIC_COLS - 1);
    pass_bool(p, &v->gauge);
}

static size_t column_slots(const struct run_column *c)
{
    return c->gauge ? RUN_GAUGE_SLOTS : 1;
}

static void pass_values(struct pass *p, struct run_row *v)
{
    int64_t *to = NULL;

    if (!p->out) {
        to = pass_room(p, p->f->n_slots, sizeof *to, 0);
        if (!to) {
            return;
        }
        v->values = to;
    }
    for (size_t i = 0; i < p->f->n_columns; i++) {
        const struct run_column *c = &p->f->columns[i];

        for (size_t s = c->slot; (v->have & METRIC_BIT(c->metric)) && s < c->slot + column_slots(c);
             s++) {
            uint64_t value = p->out ? (uint64_t)v->values[s] : 0;

            pass_max(p, &value, INT64_MAX);
            if (to) {
                to[s] = (int64_t)value;
            }
        }
    }
}

static void pass_row(struct pass *p, void *item)
{
    struct run_row *v = item;

    pass_u32(p, &v->host);
    pass_u8(p, &v->of, RUN_ROW_USER);
    pass_bool(p, &v->in_tree);
    pass_text(p, &v->image, MODEL_TEXT_MAX);
    pass_text(p, &v->user, MODEL_TEXT_MAX);
    pass_u64(p, &v->instances);
    pass_u64(p, &v->starts);
    pass_u64(p, &v->ends);
    pass_u64(p, &v->failed);
    pass_u64(p, &v->crashed);
    pass_mask(p, &v->have);
    pass_values(p, v);
}

static void pass_name(struct pass *p, void *item)
{
    pass_text(p, item, MODEL_TEXT_MAX);
}

static void pass_metric(struct pass *p, void *item)
{
    pass_u8(p, item, METRIC_COLS - 1);
}

/* Numbers of one kind behind each other; *numbers is allocated when they are read. */
static void pass_numbers(struct pass *p, const int64_t **numbers, size_t n)
{
    int64_t *to = p->out ? NULL : pass_room(p, n, sizeof *to, 1);

    if (!p->out) {
        *numbers = to;
    }
    for (size_t i = 0; (p->out || to) && i < n; i++) {
        int64_t v = p->out ? (*numbers)[i] : 0;

        pass_i64(p, &v);
        if (to) {
            to[i] = v;
        }
    }
}

static void pass_present(struct pass *p, const uint32_t **numbers, size_t n)
{
    uint32_t *to = p->out ? NULL : pass_room(p, n, sizeof *to, 1);

    if (!p->out) {
        *numbers = to;
    }
    for (size_t i = 0; (p->out || to) && i < n; i++) {
        uint32_t v = p->out ? (*numbers)[i] : 0;

        pass_u32(p, &v);
        if (to) {
            to[i] = v;
        }
    }
}

static void pass_life(struct pass *p, void *item)
{
    struct run_life *v = item;

    pass_u32(p, &v->host);
    pass_u32(p, &v->pid);
    pass_u32(p, &v->parent_pid);
    pass_u32(p, &v->exit_code);
    pass_u32(p, &v->flags);
    pass_u64(p, &v->start);
    pass_i64(p, &v->begin_ns);
    pass_i64(p, &v->end_ns);
    pass_i64(p, &v->cpu_ns);
    pass_text(p, &v->name, MODEL_TEXT_MAX);
    pass_text(p, &v->user, MODEL_TEXT_MAX);
    pass_text(p, &v->parent_name, MODEL_TEXT_MAX);
    pass_text(p, &v->command, MODEL_COMMAND_LINE_MAX);
}

static void pass_notice(struct pass *p, void *item)
{
    struct run_notice *v = item;

    pass_i64(p, &v->when_ns);
    pass_text(p, &v->rule, MODEL_TEXT_MAX);
    pass_text(p, &v->subject, MODEL_TEXT_MAX);
    pass_text(p, &v->state, MODEL_TEXT_MAX);
    pass_text(p, &v->text, MODEL_TEXT_MAX);
}

/* -- sections -- */

static size_t slots_of(struct run_column *columns, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        columns[i].slot = (uint16_t)at;
        at += column_slots(&columns[i]);
    }
    return at;
}

static void pass_table(struct pass *p)
{
    struct run_file *f = p->f;

    pass_list(p, &f->columns, &f->n_columns, METRIC_COLS, sizeof *f->columns, pass_column);
    if (!p->out && f->n_columns) {
        struct run_column *columns;

        memcpy(&columns, &f->columns, sizeof columns); /* they are the arena's */
        f->n_slots = slots_of(columns, f->n_columns);
    }
    pass_list(p, &f->rows, &f->n_rows, RUN_FILE_ROWS_MAX, sizeof *f->rows, pass_row);
}

static void pass_series(struct pass *p)
{
    struct run_series *s = &p->f->series;

    pass_i64(p, &s->t0_ns);
    pass_i64(p, &s->step_ns);
    pass_u32(p, &s->n_buckets);
    if (s->n_buckets > RUN_FILE_BUCKETS_MAX) {
        pass_fail(p, p->out ? ERR_INVALID : ERR_CORRUPT);
        return;
    }
    pass_list(p, &s->groups, &s->n_groups, RUN_FILE_GROUPS_MAX + 1, sizeof *s->groups, pass_name);
    pass_list(p, &s->metrics, &s->n_metrics, METRIC_COLS, sizeof *s->metrics, pass_metric);
    if (!p->bad) {
        pass_present(p, &s->present, s->n_buckets);
        pass_numbers(p, &s->values, s->n_groups * s->n_metrics * s->n_buckets);
    }
}

static void pass_section(struct pass *p, enum section which)
{
    struct run_file *f = p->f;

    switch (which) {
    case SECTION_HEAD:
        pass_record(p, &f->head, pass_head);
        break;
    case SECTION_HOSTS:
        pass_list(p, &f->hosts, &f->n_hosts, RUN_FILE_HOSTS_MAX, sizeof *f->hosts, pass_host);
        break;
    case SECTION_TABLE:
        pass_table(p);
        break;
    case SECTION_SERIES:
        pass_series(p);
        break;
    case SECTION_LIVES:
        pass_u64(p, &f->lives_left_out);
        pass_list(p, &f->lives, &f->n_lives, RUN_FILE_LIVES_MAX, sizeof *f->lives, pass_life);
        break;
    case SECTION_CRASHES:
        pass_list(p, &f->crashes, &f->n_crashes, RUN_FILE_ENDED_MAX, sizeof *f->crashes, pass_life);
        break;
    case SECTION_NOTICES:
        pass_list(p, &f->notices, &f->n_notices, RUN_FILE_NOTICES_MAX, sizeof *f->notices,
                  pass_notice);
        break;
    case SECTION_END:
    case SECTION_COUNT:
        break;
    }
}

/* -- meaning -- */

static bool is_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-')) {
            return false;
        }
    }
    return name.n > 0;
}

static bool lives_fit(const struct run_file *f, const struct run_life *lives, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lives[i].host >= f->n_hosts || lives[i].begin_ns > lives[i].end_ns) {
            return false;
        }
    }
    return true;
}

/* Whether indexes and numbers are within what they speak of. */
static bool run_file_check(const struct run_file *f)
{
    const struct run_head *h = &f->head;

    if (f->n_hosts > RUN_FILE_HOSTS_MAX || f->n_columns > METRIC_COLS ||
        f->n_rows > RUN_FILE_ROWS_MAX || f->n_lives > RUN_FILE_LIVES_MAX ||
        f->n_crashes > RUN_FILE_ENDED_MAX) {
        return false;
    }
    if (!is_name(h->name) || h->begin_ns < 0 || h->begin_ns > h->end_ns || h->peak_step_ns < 0) {
        return false;
    }
    for (size_t i = 0; i < f->n_hosts; i++) {
        const struct run_host *host = &f->hosts[i];

        if (host->name.n == 0 || host->ppm > 1000000 || host->begin_ns > host->end_ns ||
            host->begin_ns < 0 || host->step_ns < 0 || host->clock_error_ns < 0) {
            return false;
        }
        for (size_t k = 0; k < host->n_spans; k++) {
            if (host->spans[k].first_ns > host->spans[k].last_ns) {
                return false;
            }
        }
    }
    for (size_t i = 0; i < f->n_columns; i++) {
        if (i > 0 && f->columns[i].metric <= f->columns[i - 1].metric) {
            return false;
        }
    }
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].host >= f->n_hosts) {
            return false;
        }
    }
    return lives_fit(f, f->lives, f->n_lives) && lives_fit(f, f->crashes, f->n_crashes) &&
           f->series.step_ns >= 0 && f->series.t0_ns >= 0;
}

/* -- packing -- */

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

static const ZSTD_customMem memory_of_zstd = {zstd_alloc, zstd_free, NULL};

static uint64_t section_hash(const uint8_t *head, const uint8_t *packed, size_t n)
{
    return hash_bytes(packed, n, hash_bytes(head, HEAD_BYTES - 8, 0));
}

static void put_number(uint8_t *at, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(v >> 8 * i);
    }
}

static void section_close(struct buf *out, size_t at, uint32_t which, size_t packed, size_t plain)
{
    uint8_t *head = out->p + at;

    put_number(head, which, 4);
    put_number(head + 4, packed, 4);
    put_number(head + 8, plain, 4);
    put_number(head + 12, section_hash(head, head + HEAD_BYTES, out->n - at - HEAD_BYTES), 8);
}

static enum err section_put(struct buf *out, ZSTD_CCtx *z, uint32_t which, const struct buf *plain)
{
    size_t at = out->n, bound = ZSTD_compressBound(plain->n), packed;
    uint8_t *to = buf_grow(out, HEAD_BYTES + bound);

    if (!to) {
        return out->bad;
    }
    packed = ZSTD_compress2(z, to + HEAD_BYTES, bound, plain->p, plain->n);
    if (ZSTD_isError(packed)) {
        return ERR_NOMEM;
    }
    out->n = at + HEAD_BYTES + packed;
    section_close(out, at, which, packed, plain->n);
    return ERR_OK;
}

static bool section_is_empty(const struct run_file *f, enum section which)
{
    return (which == SECTION_TABLE && f->n_rows == 0 && f->n_columns == 0) ||
           (which == SECTION_SERIES && f->series.n_groups == 0) ||
           (which == SECTION_LIVES && f->n_lives == 0) ||
           (which == SECTION_CRASHES && f->n_crashes == 0) ||
           (which == SECTION_NOTICES && f->n_notices == 0);
}

static enum err encode_sections(struct buf *out, struct buf *plain, ZSTD_CCtx *z,
                                struct run_file *f)
{
    uint32_t count = 0;
    uint64_t total = 0;
    enum err e = ERR_OK;

    for (unsigned which = SECTION_HEAD; which < SECTION_COUNT && !e; which++) {
        struct pass p = {.out = plain, .f = f};

        if (section_is_empty(f, (enum section)which)) {
            continue;
        }
        buf_reset(plain);
        pass_section(&p, (enum section)which);
        e = p.bad ? p.bad : plain->bad;
        total += plain->n;
        if (!e) {
            e = total > RUN_FILE_MAX ? ERR_FULL : section_put(out, z, which, plain);
        }
        count++;
    }
    if (!e && buf_grow(out, HEAD_BYTES)) {
        section_close(out, out->n - HEAD_BYTES, SECTION_END, count, 0);
    }
    return e ? e : out->bad;
}

enum err run_file_encode(struct buf *out, const struct run_file *f)
{
    ZSTD_CCtx *z = ZSTD_createCCtx_advanced(memory_of_zstd);
    struct run_file copy = *f; /* the members are only read */
    size_t before = out->n;
    struct buf plain;
    enum err e;

    if (!z) {
        return ERR_NOMEM;
    }
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 0);
    buf_init(&plain, RUN_FILE_MAX);
    buf_put(out, MAGIC, MAGIC_BYTES);
    buf_put_u32le(out, VERSION);
    e = run_file_check(f) ? encode_sections(out, &plain, z, &copy) : ERR_INVALID;
    if (!e && out->n - before > RUN_FILE_MAX) {
        e = ERR_FULL;
    }
    if (e) {
        out->n = before;
        out->bad = ERR_OK;
    }
    buf_fini(&plain);
    ZSTD_freeCCtx(z);
    return e;
}

/* -- reading -- */

struct reader {
    struct cur c;
    ZSTD_DCtx *z;
    struct run_file *f;
    uint32_t count;
    uint64_t seen;  /* a bit for each section that is known */
    uint64_t plain; /* bytes so far */
};

static enum err section_unpack(struct reader *r, uint8_t **out, const uint8_t *packed, size_t n,
                               size_t plain)
{
    size_t got;

    r->plain += plain;
    if (r->plain > RUN_FILE_MAX) {
        return ERR_FULL;
    }
    *out = arena_alloc(&r->f->memory, plain ? plain : 1);
    if (!*out) {
        return arena_refused(&r->f->memory, plain);
    }
    got = ZSTD_decompressDCtx(r->z, *out, plain, packed, n);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) {
        return ERR_NOMEM;
    }
    return ZSTD_isError(got) || got != plain ? ERR_CORRUPT : ERR_OK;
}

static enum err section_read(struct reader *r, enum section which, const uint8_t *packed, size_t n,
                             size_t plain)
{
    struct pass p = {.f = r->f};
    uint8_t *bytes = NULL;
    enum err e = section_unpack(r, &bytes, packed, n, plain);

    if (e) {
        return e;
    }
    p.in = cur_make(bytes, plain);
    pass_section(&p, which);
    return p.bad ? p.bad : p.in.bad ? ERR_CORRUPT : ERR_OK;
}

/* The next section: checked, and read when it is asked for. ERR_END: it was the end. */
static enum err section_next(struct reader *r, unsigned sections)
{
    const uint8_t *head = r->c.p, *packed;
    uint32_t which = cur_u32le(&r->c), n = cur_u32le(&r->c), plain = cur_u32le(&r->c);
    uint64_t hash = cur_u64le(&r->c), bit;

    packed = cur_bytes(&r->c, which == SECTION_END ? 0 : n);
    if (r->c.bad || section_hash(head, packed, which == SECTION_END ? 0 : n) != hash) {
        return ERR_CORRUPT;
    }
    if (which == SECTION_END) {
        return n == r->count && plain == 0 && cur_left(&r->c) == 0 ? ERR_END : ERR_CORRUPT;
    }
    r->count++;
    if (r->count > SECTIONS_MAX) {
        return ERR_FULL;
    }
    if (which >= SECTION_COUNT) {
        return ERR_OK;
    }
    bit = UINT64_C(1) << which;
    if (r->seen & bit) {
        return ERR_CORRUPT;
    }
    r->seen |= bit;
    if (which >= SECTION_TABLE && !(sections >> (which - SECTION_TABLE) & 1)) {
        return ERR_OK;
    }
    return section_read(r, (enum section)which, packed, n, plain);
}

static enum err decode_sections(struct reader *r, unsigned sections)
{
    uint64_t needed = 1u << SECTION_HEAD | 1u << SECTION_HOSTS;
    enum err e = ERR_OK;

    while (!e) {
        e = section_next(r, sections);
    }
    if (e != ERR_END) {
        return e;
    }
    return (r->seen & needed) == needed && run_file_check(r->f) ? ERR_OK : ERR_CORRUPT;
}

static enum err decode_head(struct cur *c, struct errmsg *why)
{
    const uint8_t *magic = cur_bytes(c, MAGIC_BYTES);
    uint32_t version = cur_u32le(c);

    if (!magic || memcmp(magic, MAGIC, MAGIC_BYTES) != 0) {
        return errmsg_set(why, ERR_CORRUPT, "it is no run file");
    }
    if (c->bad) {
        return errmsg_set(why, ERR_CORRUPT, "the file is damaged");
    }
    if (version != VERSION) {
        return errmsg_set(why, ERR_VERSION, "run files of version %u are not known here",
                          (unsigned)version);
    }
    return ERR_OK;
}

enum err run_file_decode(struct run_file **out, const void *p, size_t n, unsigned sections,
                         struct errmsg *why)
{
    struct reader r = {.c = cur_make(p, n)};
    enum err e = n > RUN_FILE_MAX ? errmsg_set(why, ERR_FULL, "larger than a run file may be")
                                  : decode_head(&r.c, why);

    if (e) {
        return e;
    }
    e = ERR_NOMEM;
    r.z = ZSTD_createDCtx_advanced(memory_of_zstd);
    r.f = mem_zalloc(sizeof *r.f);
    if (r.z && r.f) {
        arena_init(&r.f->memory, MEMORY_MAX);
        e = decode_sections(&r, sections);
    }
    ZSTD_freeDCtx(r.z);
    if (e) {
        run_file_free(r.f);
        return errmsg_set(why, e, "%s",
                          e == ERR_CORRUPT ? "the file is damaged"
                          : e == ERR_FULL  ? "it holds more than a run file may"
                                           : err_text(e));
    }
    *out = r.f;
    return ERR_OK;
}

enum err run_file_read(struct run_file **out, const char *path, unsigned sections,
                       struct errmsg *why)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum err e = os_read_file(&p, &n, path, RUN_FILE_MAX);

    if (e) {
        return errmsg_set(why, e, "%s", os_read_text(e));
    }
    e = run_file_decode(out, p, n, sections, why);
    mem_free(p);
    return e;
}

void run_file_free(struct run_file *f)
{
    if (f) {
        arena_fini(&f->memory);
        mem_free(f);
    }
}

size_t run_file_layout(struct run_column *columns, const uint8_t *metrics, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct metric *m = metric_by_id(metrics[i]);

        columns[i] =
            (struct run_column){.metric = metrics[i], .gauge = m && m->kind == METRIC_GAUGE};
    }
    return slots_of(columns, n);
}

const struct run_column *run_file_column(const struct run_file *f, unsigned metric)
{
    size_t i;

    SEARCH_LOWER(i, f->n_columns, f->columns[i].metric < metric);
    return i < f->n_columns && f->columns[i].metric == metric ? &f->columns[i] : NULL;
}
