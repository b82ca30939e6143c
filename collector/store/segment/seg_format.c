#include "collector/store/segment/seg_format.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"

#define VERSION      1u
#define VERSION_WIDE 2u /* it has columns of page 1: older readers leave it alone */
#define PATCH        1u /* flags */
#define IN_HOUR      2u
#define RECORD_MAGIC 0x5650u /* "PV" */

static const uint8_t head_magic[8] = {'P', 'F', 'S', 'E', 'G', 0x1a, '\r', '\n'};
static const uint8_t foot_magic[8] = {'P', 'F', 'S', 'E', 'G', 'E', 'N', 'D'};

/* -- header -- */

size_t seg_format_head_bytes(unsigned n_windows)
{
    return SEG_HEAD_FIXED + 8u * n_windows + 8u;
}

void seg_format_head_put(struct buf *b, const struct seg_head *h)
{
    const struct seg_info *s = &h->info;
    size_t start = b->n;

    buf_put(b, head_magic, sizeof head_magic);
    buf_put_u32le(b, h->wide ? VERSION_WIDE : VERSION);
    buf_put_u8(b, s->kind);
    buf_put_u8(b, s->n_windows);
    buf_put_u8(b, (uint8_t)((s->patch ? PATCH : 0) | (s->in_hour ? IN_HOUR : 0)));
    buf_put_u8(b, 0);
    buf_put_u64le(b, s->number);
    buf_put_u64le(b, h->seed);
    buf_put_u64le(b, (uint64_t)s->window_ns);
    buf_put_u64le(b, (uint64_t)s->span_ns);
    buf_put_u64le(b, (uint64_t)h->created_ns);
    buf_put_u64le(b, 0);
    for (unsigned i = 0; i < s->n_windows; i++) {
        buf_put_u64le(b, (uint64_t)h->windows[i]);
    }
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
    }
}

enum err seg_format_head_parse(struct seg_head *h, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof head_magic);
    uint32_t version = cur_u32le(&c);
    struct seg_head f = {0};
    uint8_t flags;

    f.info.kind = cur_u8(&c);
    f.info.n_windows = cur_u8(&c);
    flags = cur_u8(&c);
    cur_skip(&c, 1);
    f.info.patch = flags & PATCH;
    f.info.in_hour = flags & IN_HOUR;
    f.info.number = cur_u64le(&c);
    f.seed = cur_u64le(&c);
    f.info.window_ns = (int64_t)cur_u64le(&c);
    f.info.span_ns = (int64_t)cur_u64le(&c);
    f.created_ns = (int64_t)cur_u64le(&c);
    cur_skip(&c, 8);
    if (c.bad || memcmp(magic, head_magic, sizeof head_magic) != 0 ||
        f.info.n_windows > SEG_WINDOWS_MAX) {
        return ERR_CORRUPT;
    }
    for (unsigned i = 0; i < f.info.n_windows; i++) {
        f.windows[i] = (int64_t)cur_u64le(&c);
    }
    if (cur_u64le(&c) !=
            hash_bytes(p, c.bad ? 0 : seg_format_head_bytes(f.info.n_windows) - 8, 0) ||
        c.bad) {
        return ERR_CORRUPT;
    }
    if (version != VERSION && version != VERSION_WIDE) {
        return ERR_VERSION;
    }
    f.wide = version == VERSION_WIDE;
    if (f.info.kind == 0 || f.info.kind >= SEG_KINDS || f.info.n_windows == 0) {
        return ERR_CORRUPT;
    }
    *h = f;
    return ERR_OK;
}

/* -- footer -- */

void seg_format_span(struct seg_info *info, const struct seg_span *spans, size_t n)
{
    info->t0_ns = INT64_MAX;
    info->t1_ns = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].t1_ns >= spans[i].t0_ns) {
            info->t0_ns = spans[i].t0_ns < info->t0_ns ? spans[i].t0_ns : info->t0_ns;
            info->t1_ns = spans[i].t1_ns > info->t1_ns ? spans[i].t1_ns : info->t1_ns;
        }
    }
}

void seg_format_foot_put(struct buf *b, const struct seg_foot *f)
{
    size_t start = b->n;

    buf_put(b, foot_magic, sizeof foot_magic);
    buf_put_u32le(b, f->n_hosts);
    buf_put_u32le(b, f->n_streams);
    buf_put_u32le(b, f->n_groups);
    buf_put_u32le(b, f->n_entries);
    buf_put_u64le(b, f->ranges_at);
    buf_put_u64le(b, f->ranges_sum);
    buf_put_u64le(b, f->directory_at);
    buf_put_u64le(b, f->hosts_at);
    buf_put_u64le(b, f->hosts_sum);
    buf_put_u64le(b, f->groups_at);
    buf_put_u64le(b, f->groups_sum);
    buf_put_u64le(b, f->values);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
    }
}

/* Everything lies in its order and is as long as its count says. */
static bool foot_fits(const struct seg_foot *f, uint64_t at, unsigned n_windows)
{
    size_t head = seg_format_head_bytes(n_windows);

    return at >= head && f->ranges_at >= head && f->directory_at >= f->ranges_at &&
           f->hosts_at >= f->directory_at && f->groups_at >= f->hosts_at && f->groups_at <= at &&
           f->n_entries <= SEG_VALUES_MAX && f->n_hosts <= SEG_HOSTS_MAX &&
           f->n_groups <= f->n_entries && f->directory_at - f->ranges_at <= SEG_TABLE_MAX &&
           f->hosts_at - f->directory_at == (uint64_t)f->n_entries * SEG_ENTRY_BYTES &&
           f->groups_at - f->hosts_at <= SEG_TABLE_MAX &&
           f->groups_at - f->hosts_at >= (uint64_t)f->n_hosts * (17u + 16u * n_windows) &&
           at - f->groups_at == (uint64_t)f->n_groups * SEG_GROUP_BYTES + head;
}

enum err seg_format_foot_parse(struct seg_foot *out, const uint8_t *p, size_t n, uint64_t at,
                               unsigned n_windows)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof foot_magic);
    struct seg_foot f = {0};

    f.n_hosts = cur_u32le(&c);
    f.n_streams = cur_u32le(&c);
    f.n_groups = cur_u32le(&c);
    f.n_entries = cur_u32le(&c);
    f.ranges_at = cur_u64le(&c);
    f.ranges_sum = cur_u64le(&c);
    f.directory_at = cur_u64le(&c);
    f.hosts_at = cur_u64le(&c);
    f.hosts_sum = cur_u64le(&c);
    f.groups_at = cur_u64le(&c);
    f.groups_sum = cur_u64le(&c);
    f.values = cur_u64le(&c);
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : SEG_FOOT_BYTES - 8, 0) || c.bad ||
        memcmp(magic, foot_magic, sizeof foot_magic) != 0 || !foot_fits(&f, at, n_windows)) {
        return ERR_CORRUPT;
    }
    *out = f;
    return ERR_OK;
}

/* -- what stands before a value -- */

static uint32_t check_of(const uint8_t *p, const void *value, size_t n, uint64_t seed)
{
    return (uint32_t)hash_bytes(value, n, hash_bytes(p, SEG_RECORD_BYTES - 4, seed));
}

static void put32(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

void seg_format_record_put(uint8_t p[SEG_RECORD_BYTES], struct seg_key key, const void *value,
                           size_t n, uint64_t seed)
{
    p[0] = RECORD_MAGIC & 0xff;
    p[1] = RECORD_MAGIC >> 8;
    p[2] = key.part;
    p[3] = key.metric;
    put32(p + 4, key.host << 8 | key.window);
    put32(p + 8, (uint32_t)n);
    put32(p + 12, check_of(p, value, n, seed));
}

bool seg_format_record_parse(struct seg_record *r, const uint8_t *p, size_t n)
{
    if (n < SEG_RECORD_BYTES || cur_at16le(p) != RECORD_MAGIC) {
        return false;
    }
    r->key = (struct seg_key){p[2], p[3], p[4], cur_at32le(p + 4) >> 8};
    r->length = cur_at32le(p + 8);
    r->check = cur_at32le(p + 12);
    return r->length <= SEG_VALUE_MAX;
}

bool seg_format_record_sound(const struct seg_record *r, const uint8_t *p, uint64_t seed)
{
    return r->check == check_of(p, p + SEG_RECORD_BYTES, r->length, seed);
}
