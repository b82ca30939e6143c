#include "collector/store/manifest/manifest_log.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/reclog/reclog.h"

#define CHECKPOINT 1u /* flag */
#define PATCH      1u /* flags of a segment */
#define IN_HOUR    2u

static const struct reclog_format format = {.magic = {'P', 'F', 'M', 'A', 'N', 0x1a, '\r', '\n'},
                                            .record_magic = "PFMR",
                                            .version = 1,
                                            .twice = 1,
                                            .extra_max = UINT32_MAX,
                                            .words = 1,
                                            .above_0 = -1};

/* -- writing -- */

void manifest_log_header(struct buf *b, uint64_t seed)
{
    reclog_header_put(b, &format, 0, &seed);
}

static void entry_put(struct buf *b, const struct seg_info *s)
{
    buf_put_u64le(b, s->number);
    buf_put_u8(b, s->kind);
    buf_put_u8(b, s->n_windows);
    buf_put_u8(b, (uint8_t)((s->patch ? PATCH : 0) | (s->in_hour ? IN_HOUR : 0)));
    buf_put_u8(b, 0);
    buf_put_u32le(b, 0);
    buf_put_u64le(b, (uint64_t)s->window_ns);
    buf_put_u64le(b, (uint64_t)s->span_ns);
    buf_put_u64le(b, s->bytes);
    buf_put_u64le(b, s->values);
    buf_put_u64le(b, (uint64_t)s->t0_ns);
    buf_put_u64le(b, (uint64_t)s->t1_ns);
}

void manifest_log_record(struct buf *b, const struct manifest_record *r, uint64_t seed)
{
    size_t start = b->n, n;
    uint8_t *again;

    buf_put(b, format.record_magic, RECLOG_MAGIC);
    buf_put_u32le(b, r->checkpoint ? CHECKPOINT : 0);
    buf_put_u32le(b, (uint32_t)r->n_add);
    buf_put_u32le(b, (uint32_t)r->n_drop);
    buf_put_u64le(b, r->seq);
    buf_put_u64le(b, r->next_number);
    buf_put_u64le(b, 0);
    for (size_t i = 0; i < r->n_drop; i++) {
        buf_put_u64le(b, r->drop[i]);
    }
    for (size_t i = 0; i < r->n_add; i++) {
        entry_put(b, &r->add[i]);
    }
    reclog_seal(b, start, seed);
    n = b->n - start;
    again = buf_grow(b, n);
    if (again) {
        memcpy(again, b->p + start, n);
    }
}

/* -- reading -- */

/* A record as it stands in the file. */
struct raw_record {
    uint32_t flags, n_add, n_drop;
    uint64_t seq, next_number;
    const uint8_t *drop, *add;
    size_t bytes;
};

static enum err record_parse(struct raw_record *out, const uint8_t *p, size_t n, uint64_t seed)
{
    struct cur c = cur_make(p, n);
    struct raw_record r = {0};
    const uint8_t *magic = cur_bytes(&c, RECLOG_MAGIC);

    r.flags = cur_u32le(&c);
    r.n_add = cur_u32le(&c);
    r.n_drop = cur_u32le(&c);
    r.seq = cur_u64le(&c);
    r.next_number = cur_u64le(&c);
    cur_skip(&c, 8);
    if (c.bad || memcmp(magic, format.record_magic, RECLOG_MAGIC) != 0 ||
        r.n_add > MANIFEST_SEGMENTS_MAX || r.n_drop > MANIFEST_SEGMENTS_MAX) {
        return ERR_CORRUPT;
    }
    r.drop = cur_bytes(&c, (size_t)r.n_drop * 8);
    r.add = cur_bytes(&c, (size_t)r.n_add * MANIFEST_ENTRY_BYTES);
    if (!reclog_is_sealed(&c, p, seed)) {
        return ERR_CORRUPT;
    }
    r.bytes = (size_t)(c.p - p);
    *out = r;
    return ERR_OK;
}

static enum err entry_parse(struct seg_info *out, const uint8_t *p)
{
    struct cur c = cur_make(p, MANIFEST_ENTRY_BYTES);
    struct seg_info s = {.number = cur_u64le(&c)};
    uint8_t flags;

    s.kind = cur_u8(&c);
    s.n_windows = cur_u8(&c);
    flags = cur_u8(&c);
    cur_skip(&c, 5);
    s.patch = flags & PATCH;
    s.in_hour = flags & IN_HOUR;
    s.window_ns = (int64_t)cur_u64le(&c);
    s.span_ns = (int64_t)cur_u64le(&c);
    s.bytes = cur_u64le(&c);
    s.values = cur_u64le(&c);
    s.t0_ns = (int64_t)cur_u64le(&c);
    s.t1_ns = (int64_t)cur_u64le(&c);
    if (s.kind == 0 || s.kind >= SEG_KINDS || s.n_windows == 0 || s.n_windows > SEG_WINDOWS_MAX) {
        return ERR_CORRUPT;
    }
    *out = s;
    return ERR_OK;
}

/* The segments so far, by number. */
static size_t apply_place(const struct manifest_loaded *m, uint64_t number)
{
    size_t i = m->n;

    if (i > 0 && m->segments[i - 1].number >= number) { /* as a rule numbers rise */
        SEARCH_LOWER(i, m->n, m->segments[i].number < number);
    }
    return i;
}

static enum err apply_drop(struct manifest_loaded *m, uint64_t number)
{
    size_t i = apply_place(m, number);

    if (i == m->n || m->segments[i].number != number) {
        return ERR_CORRUPT;
    }
    m->n--;
    memmove(m->segments + i, m->segments + i + 1, (m->n - i) * sizeof *m->segments);
    return ERR_OK;
}

static enum err apply_add(struct manifest_loaded *m, const struct seg_info *s)
{
    size_t i = apply_place(m, s->number);
    enum err e;

    if (i < m->n && m->segments[i].number == s->number) {
        return ERR_CORRUPT;
    }
    e = VEC_ROOM(&m->segments, &m->cap, m->n + 1, MANIFEST_SEGMENTS_MAX);
    if (e) {
        return e;
    }
    memmove(m->segments + i + 1, m->segments + i, (m->n - i) * sizeof *m->segments);
    m->segments[i] = *s;
    m->n++;
    return ERR_OK;
}

static enum err apply_record(struct manifest_loaded *m, const struct raw_record *r)
{
    struct seg_info s;
    enum err e = ERR_OK;

    for (uint32_t i = 0; i < r->n_drop && !e; i++) {
        e = apply_drop(m, cur_at64le(r->drop + (size_t)i * 8));
    }
    for (uint32_t i = 0; i < r->n_add && !e; i++) {
        e = entry_parse(&s, r->add + (size_t)i * MANIFEST_ENTRY_BYTES);
        if (!e) {
            e = apply_add(m, &s);
        }
        if (!e && s.number >= r->next_number) {
            e = ERR_CORRUPT;
        }
    }
    m->seq = r->seq;
    m->next_number = r->next_number;
    return e;
}

static bool read_complete(const struct raw_record *r,
                          bool (*there)(void *ctx, const struct seg_info *info), void *ctx)
{
    struct seg_info s;

    for (uint32_t i = 0; there && !(r->flags & CHECKPOINT) && i < r->n_add; i++) {
        if (entry_parse(&s, r->add + (size_t)i * MANIFEST_ENTRY_BYTES) == ERR_OK &&
            !there(ctx, &s)) {
            return false;
        }
    }
    return true;
}

/* One record is held back until the next is seen: what is known of the last one differs. */
struct reading {
    struct manifest_loaded *m;
    struct raw_record held, found;
    bool has_held, first_copy; /* of the held one: only one copy was seen */
};

static enum err read_take(struct reading *rd, const struct raw_record *r)
{
    struct manifest_loaded *m = rd->m;
    enum err e;

    if (!rd->has_held) {
        if (!(r->flags & CHECKPOINT)) {
            return ERR_CORRUPT;
        }
    } else if (r->seq == rd->held.seq) {
        rd->first_copy = false;
        return ERR_OK;
    } else if (r->seq != rd->held.seq + 1 || r->flags & CHECKPOINT) {
        return ERR_CORRUPT;
    } else {
        e = apply_record(m, &rd->held);
        if (e) {
            return e;
        }
        m->damaged += rd->first_copy;
    }
    rd->held = *r;
    rd->has_held = true;
    rd->first_copy = true;
    return ERR_OK;
}

static enum err read_parse(void *ctx, const uint8_t *p, size_t n, uint64_t left, size_t *used)
{
    struct reading *rd = ctx;
    enum err e = record_parse(&rd->found, p, n, rd->m->seed);

    (void)left;
    *used = e ? 0 : rd->found.bytes;
    return e;
}

static enum err read_records(struct reading *rd, const uint8_t *p, size_t n)
{
    struct reclog_reader reader = {
        .format = &format, .size = n, .parse = read_parse, .ctx = rd, .p = p, .n = n};
    uint64_t at = MANIFEST_HEADER_BYTES;
    size_t used;

    while (reclog_next(&reader, &at, &used) == ERR_OK) {
        enum err e = read_take(rd, &rd->found);

        if (e) {
            return e;
        }
        at += used;
        rd->m->end = at;
    }
    return rd->has_held ? ERR_OK : ERR_CORRUPT;
}

enum err manifest_log_read(struct manifest_loaded *out, const uint8_t *p, size_t n,
                           bool (*there)(void *ctx, const struct seg_info *info), void *ctx)
{
    struct manifest_loaded m = {0};
    struct reading rd = {.m = &m};
    struct reclog_header h;
    enum err e = reclog_header_parse(&h, &format, NULL, p, n);

    if (!e) {
        m.seed = h.words[0];
        m.damaged = h.damaged;
        e = read_records(&rd, p, n);
    }
    m.single = rd.first_copy;
    if (!e && read_complete(&rd.held, there, ctx)) {
        e = apply_record(&m, &rd.held);
    } else if (!e) {
        m.undone = true;
    }
    if (e) {
        mem_free(m.segments);
        return e;
    }
    *out = m;
    return ERR_OK;
}
