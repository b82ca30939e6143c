#include "collector/store/manifest/manifest_log.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

#define VERSION      1u
#define RECORD_MAGIC 0x524d4650u /* "PFMR" */
#define RECORD_FIXED 40u
#define CHECKPOINT   1u /* flag */
#define PATCH        1u /* flags of a segment */
#define IN_HOUR      2u

static const uint8_t file_magic[8] = {'P', 'F', 'M', 'A', 'N', 0x1a, '\r', '\n'};
static const uint8_t record_magic[4] = {'P', 'F', 'M', 'R'};

/* -- writing -- */

static void again(struct buf *b, size_t start)
{
    size_t n = b->n - start;
    uint8_t *to = buf_grow(b, n);

    if (to) {
        memcpy(to, b->p + start, n);
    }
}

void manifest_header_put(struct buf *b, uint64_t seed)
{
    size_t start = b->n;

    buf_put(b, file_magic, sizeof file_magic);
    buf_put_u32le(b, VERSION);
    buf_put_u32le(b, 0);
    buf_put_u64le(b, seed);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
        again(b, start);
    }
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

void manifest_record_put(struct buf *b, const struct manifest_record *r, uint64_t seed)
{
    size_t start = b->n;

    buf_put_u32le(b, RECORD_MAGIC);
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
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, seed));
        again(b, start);
    }
}

/* -- reading -- */

static enum err header_parse(uint64_t *seed, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof file_magic);
    uint32_t version = cur_u32le(&c);
    uint64_t found;

    cur_skip(&c, 4);
    found = cur_u64le(&c);
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : MANIFEST_HEADER_BYTES / 2 - 8, 0) || c.bad ||
        memcmp(magic, file_magic, sizeof file_magic) != 0) {
        return ERR_CORRUPT;
    }
    if (version != VERSION) {
        return ERR_VERSION;
    }
    *seed = found;
    return ERR_OK;
}

static enum err headers_parse(struct manifest_loaded *m, const uint8_t *p, size_t n)
{
    size_t half = MANIFEST_HEADER_BYTES / 2;
    uint64_t seed = 0, again = 0;
    enum err e = header_parse(&seed, p, n);
    enum err copy = header_parse(&again, p + (n > half ? half : n), n > half ? n - half : 0);

    if (e && copy) {
        return e == ERR_VERSION ? e : copy;
    }
    m->damaged += e || copy;
    m->seed = e ? again : seed;
    return ERR_OK;
}

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
    uint32_t magic = cur_u32le(&c);
    size_t covered;

    r.flags = cur_u32le(&c);
    r.n_add = cur_u32le(&c);
    r.n_drop = cur_u32le(&c);
    r.seq = cur_u64le(&c);
    r.next_number = cur_u64le(&c);
    cur_skip(&c, 8);
    if (c.bad || magic != RECORD_MAGIC || r.n_add > MANIFEST_SEGMENTS_MAX ||
        r.n_drop > MANIFEST_SEGMENTS_MAX) {
        return ERR_CORRUPT;
    }
    r.drop = cur_bytes(&c, (size_t)r.n_drop * 8);
    r.add = cur_bytes(&c, (size_t)r.n_add * MANIFEST_ENTRY_BYTES);
    covered = RECORD_FIXED + (size_t)r.n_drop * 8 + (size_t)r.n_add * MANIFEST_ENTRY_BYTES;
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : covered, seed) || c.bad) {
        return ERR_CORRUPT;
    }
    r.bytes = covered + 8;
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
static size_t place_of(const struct manifest_loaded *m, uint64_t number)
{
    size_t i = m->n;

    if (i > 0 && m->segments[i - 1].number >= number) { /* as a rule numbers rise */
        SEARCH_LOWER(i, m->n, m->segments[i].number < number);
    }
    return i;
}

static enum err drop_one(struct manifest_loaded *m, uint64_t number)
{
    size_t i = place_of(m, number);

    if (i == m->n || m->segments[i].number != number) {
        return ERR_CORRUPT;
    }
    m->n--;
    memmove(m->segments + i, m->segments + i + 1, (m->n - i) * sizeof *m->segments);
    return ERR_OK;
}

static enum err add_one(struct manifest_loaded *m, const struct seg_info *s)
{
    size_t i = place_of(m, s->number);
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

static enum err apply(struct manifest_loaded *m, const struct raw_record *r)
{
    struct seg_info s;
    enum err e = ERR_OK;

    for (uint32_t i = 0; i < r->n_drop && !e; i++) {
        e = drop_one(m, cur_at64le(r->drop + (size_t)i * 8));
    }
    for (uint32_t i = 0; i < r->n_add && !e; i++) {
        e = entry_parse(&s, r->add + (size_t)i * MANIFEST_ENTRY_BYTES);
        if (!e) {
            e = add_one(m, &s);
        }
        if (!e && s.number >= r->next_number) {
            e = ERR_CORRUPT;
        }
    }
    m->seq = r->seq;
    m->next_number = r->next_number;
    return e;
}

/* The next sound record from *at on, which is *at when nothing is damaged. */
static enum err next_record(struct raw_record *r, size_t *at, const uint8_t *p, size_t n,
                            uint64_t seed)
{
    while (*at < n) {
        const uint8_t *hit;

        if (record_parse(r, p + *at, n - *at, seed) == ERR_OK) {
            return ERR_OK;
        }
        hit = memmem(p + *at + 1, n - *at - 1, record_magic, sizeof record_magic);
        *at = hit ? (size_t)(hit - p) : n;
    }
    return ERR_END;
}

static bool complete(const struct raw_record *r,
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
    struct raw_record held;
    bool has_held, first_copy; /* of the held one: only one copy was seen */
};

static enum err take(struct reading *rd, const struct raw_record *r)
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
        e = apply(m, &rd->held);
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

static enum err read_records(struct reading *rd, const uint8_t *p, size_t n)
{
    size_t at = MANIFEST_HEADER_BYTES;
    struct raw_record r;

    while (next_record(&r, &at, p, n, rd->m->seed) == ERR_OK) {
        enum err e = take(rd, &r);

        if (e) {
            return e;
        }
        at += r.bytes;
        rd->m->end = at;
    }
    return rd->has_held ? ERR_OK : ERR_CORRUPT;
}

enum err manifest_load(struct manifest_loaded *out, const uint8_t *p, size_t n,
                       bool (*there)(void *ctx, const struct seg_info *info), void *ctx)
{
    struct manifest_loaded m = {0};
    struct reading rd = {.m = &m};
    enum err e = headers_parse(&m, p, n);

    if (!e) {
        e = read_records(&rd, p, n);
    }
    m.single = rd.first_copy;
    if (!e && complete(&rd.held, there, ctx)) {
        e = apply(&m, &rd.held);
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
