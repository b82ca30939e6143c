#include "collector/store/segment/raw_rows.h"

#include <string.h>

#include "collector/store/segment/seg.h"
#include "common/base/cur.h"
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

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
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
        int64_t now = i ? minus(wall[i], wall[i - 1]) : wall[0];

        buf_put_svarint(b, i > 1 ? minus(now, step) : now);
        step = now;
    }
    for (size_t i = 0; i < rows->n_ticks; i++) {
        buf_put_svarint(b, i ? minus(minus(mono[i], mono[i - 1]), minus(wall[i], wall[i - 1]))
                             : mono[0]);
    }
}

static void put_runs(struct buf *b, const struct batch *rows)
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
    for (size_t i = 0; i < n; i++) {
        buf_put_varint(b, r[i].mask ^ (i ? r[i - 1].mask : 0));
    }
    for (size_t i = 0; i < n; i++) {
        buf_put_u8(b, r[i].fresh);
    }
}

static void put_part(struct buf *b, const struct window_part *p)
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
    put_runs(b, &p->rows);
}

void raw_rows_put(struct packer *p, struct buf *out, const struct host_window *hw)
{
    struct buf b;

    buf_init(&b, SEG_VALUE_MAX / 2);
    buf_put_varint(&b, hw->n_parts);
    for (size_t i = 0; i < hw->n_parts; i++) {
        put_part(&b, &hw->parts[i]);
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

        step = i > 1 ? plus(step, d) : d;
        wall[i] = i ? plus(wall[i - 1], step) : d;
        c->bad = c->bad || (i && wall[i] <= wall[i - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        int64_t d = cur_svarint(c);

        mono[i] = i ? plus(mono[i - 1], plus(d, minus(wall[i], wall[i - 1]))) : d;
        c->bad = c->bad || (i && mono[i] <= mono[i - 1]);
    }
    rows->wall_ns = wall;
    rows->mono_ns = mono;
    rows->n_ticks = n;
    return c->bad ? ERR_CORRUPT : ERR_OK;
}

static void get_fields(struct batch_run *r, size_t n, struct cur *c)
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
    for (size_t i = 0; i < n; i++) {
        r[i].mask = cur_varint(c) ^ (i ? r[i - 1].mask : 0);
    }
    for (size_t i = 0; i < n; i++) {
        r[i].fresh = cur_u8(c) != 0;
    }
}

static enum err get_runs(struct batch *rows, struct arena *memory, struct cur *c)
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
    get_fields(r, n, c);
    for (size_t i = 0; i < n && !c->bad; i++) {
        c->bad = !wire_batch_run_fits(&r[i], i ? &r[i - 1] : NULL, rows->n_ticks);
    }
    rows->runs = r;
    rows->n_runs = n;
    return c->bad ? ERR_CORRUPT : ERR_OK;
}

static enum err get_part(struct window_part *p, struct arena *memory, struct cur *c)
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
    return e ? e : get_runs(&p->rows, memory, c);
}

enum err raw_rows_get(struct packer *p, struct arena *memory, const struct uuid *host,
                      const void *bytes, size_t n, struct window_part **parts, size_t *n_parts)
{
    struct window_part *list;
    const uint8_t *raw;
    struct cur c;
    size_t raw_n, count;
    enum err e = pack_open(p, memory, &raw, &raw_n, bytes, n, SEG_VALUE_MAX / 2);

    if (e) {
        return e;
    }
    c = cur_make(raw, raw_n);
    count = get_count(&c, PART_LEAST);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    list = arena_array(memory, count, sizeof *list);
    if (!list) {
        return arena_refused(memory, count * sizeof *list);
    }
    for (size_t i = 0; i < count && !e; i++) {
        list[i].rows.head.host = *host;
        e = get_part(&list[i], memory, &c);
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
