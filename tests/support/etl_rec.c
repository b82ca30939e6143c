#include "tests/support/etl_rec.h"

#include <stdio.h>
#include <stdlib.h>

#define FLAG_HEADER  0xc0
#define FLAG_MESSAGE 0x90
#define HAS_ITEMS    1
#define PEBS_BIT     0x80
#define PADDING      0xaa

struct etl_rec etl_rec_system(uint8_t group, uint8_t opcode, uint8_t version, int64_t ticks,
                              const void *payload, size_t n)
{
    return (struct etl_rec){.type = ETL_SYSTEM64,
                            .ticks = ticks,
                            .tid = 8,
                            .pid = 4,
                            .group = group,
                            .opcode = opcode,
                            .version = version,
                            .payload = payload,
                            .n = n};
}

struct etl_rec etl_rec_perfinfo(uint8_t group, uint8_t opcode, uint8_t version, int64_t ticks,
                                const void *payload, size_t n)
{
    struct etl_rec r = etl_rec_system(group, opcode, version, ticks, payload, n);

    r.type = ETL_PERFINFO64;
    return r;
}

static void put_guid(struct buf *out, const uint8_t *guid)
{
    static const uint8_t none[16];

    buf_put(out, guid ? guid : none, 16);
}

/* u16 version, u8 type, u8 flags, u16 size, u8 opcode, u8 group; SYSTEM and COMPACT: u32 thread,
 * u32 process; i64 time; SYSTEM: u32 × 2 processor times. */
static void put_kernel(struct buf *out, const struct etl_rec *r)
{
    bool perfinfo = r->type == ETL_PERFINFO32 || r->type == ETL_PERFINFO64;
    uint8_t above = (uint8_t)(perfinfo ? r->counters | (r->pebs ? PEBS_BIT : 0) : 0);

    buf_put_u8(out, r->version);
    buf_put_u8(out, above);
    buf_put_u8(out, (uint8_t)r->type);
    buf_put_u8(out, FLAG_HEADER);
    buf_put_u16le(out, 0); /* size: later */
    buf_put_u8(out, r->opcode);
    buf_put_u8(out, r->group);
    if (!perfinfo) {
        buf_put_u32le(out, r->tid);
        buf_put_u32le(out, r->pid);
    }
    buf_put_u64le(out, (uint64_t)r->ticks);
    if (r->type == ETL_SYSTEM32 || r->type == ETL_SYSTEM64) {
        buf_put_u64le(out, 0);
    }
    for (unsigned i = 0; perfinfo && i < r->counters + (r->pebs ? 1u : 0u); i++) {
        buf_put_u64le(out, UINT64_C(0x1111111111111111) * (i + 1));
    }
}

/* u16 size, u8 type, u8 flags, u8 opcode, u8 level, u16 version, u32 thread, u32 process, i64 time,
 * GUID, u32 × 2 processor times; INSTANCE: u32 its number, u32 its parent's, GUID of the parent. */
static void put_full(struct buf *out, const struct etl_rec *r)
{
    buf_put_u16le(out, 0);
    buf_put_u8(out, (uint8_t)r->type);
    buf_put_u8(out, FLAG_HEADER);
    buf_put_u8(out, r->opcode);
    buf_put_u8(out, r->level);
    buf_put_u16le(out, r->version);
    buf_put_u32le(out, r->tid);
    buf_put_u32le(out, r->pid);
    buf_put_u64le(out, (uint64_t)r->ticks);
    put_guid(out, r->guid);
    buf_put_u64le(out, 0);
    if (r->type == ETL_INSTANCE32 || r->type == ETL_INSTANCE64) {
        buf_put_u32le(out, r->instance);
        buf_put_u32le(out, r->parent);
        put_guid(out, r->guid);
    }
}

/* u16 whole size, u16 type, u16 whether another follows, u16 data size, data, padding. */
static void put_items(struct buf *out, const struct etl_rec *r)
{
    for (size_t i = 0; i < r->n_items; i++) {
        const struct etl_rec_item *item = &r->items[i];
        size_t padding = (8 - item->n % 8u) % 8;

        buf_put_u16le(out, (uint16_t)(8 + item->n + padding));
        buf_put_u16le(out, item->type);
        buf_put_u16le(out, i + 1 < r->n_items);
        buf_put_u16le(out, item->n);
        buf_put(out, item->p, item->n);
        while (padding-- > 0) {
            buf_put_u8(out, PADDING);
        }
    }
}

static void put_event(struct buf *out, const struct etl_rec *r)
{
    buf_put_u16le(out, 0);
    buf_put_u8(out, (uint8_t)r->type);
    buf_put_u8(out, FLAG_HEADER);
    buf_put_u16le(out, (uint16_t)(r->flags | (r->n_items ? HAS_ITEMS : 0)));
    buf_put_u16le(out, 0); /* property */
    buf_put_u32le(out, r->tid);
    buf_put_u32le(out, r->pid);
    buf_put_u64le(out, (uint64_t)r->ticks);
    put_guid(out, r->guid);
    buf_put_u16le(out, r->id);
    buf_put_u8(out, r->version);
    buf_put_u8(out, r->channel);
    buf_put_u8(out, r->level);
    buf_put_u8(out, r->opcode);
    buf_put_u16le(out, r->task);
    buf_put_u64le(out, r->keyword);
    buf_put_u64le(out, 0); /* processor time */
    put_guid(out, NULL);   /* activity */
    put_items(out, r);
}

static void put_message(struct buf *out, const struct etl_rec *r)
{
    buf_put_u16le(out, 0);
    buf_put_u8(out, 0);
    buf_put_u8(out, FLAG_MESSAGE);
    buf_put_u16le(out, r->id);
    buf_put_u16le(out, r->options);
    if (r->options & ETL_REC_SEQUENCE) {
        buf_put_u32le(out, r->sequence);
    }
    if (r->options & ETL_REC_GUID) {
        put_guid(out, r->guid);
    } else if (r->options & ETL_REC_COMPONENT) {
        buf_put_u32le(out, r->component);
    }
    if (r->options & ETL_REC_TIME) {
        buf_put_u64le(out, (uint64_t)r->ticks);
    }
    if (r->options & ETL_REC_IDS) {
        buf_put_u32le(out, r->tid);
        buf_put_u32le(out, r->pid);
    }
}

/* Gives where the size stands. */
static size_t put_header(struct buf *out, const struct etl_rec *r)
{
    switch (r->type) {
    case ETL_SYSTEM32:
    case ETL_SYSTEM64:
    case ETL_COMPACT32:
    case ETL_COMPACT64:
    case ETL_PERFINFO32:
    case ETL_PERFINFO64:
        put_kernel(out, r);
        return 4;
    case ETL_EVENT32:
    case ETL_EVENT64:
        put_event(out, r);
        return 0;
    case ETL_MESSAGE:
        put_message(out, r);
        return 0;
    default:
        put_full(out, r);
        return 0;
    }
}

void etl_rec_put(struct buf *out, const struct etl_rec *r)
{
    size_t at = out->n, size_at = put_header(out, r), size;

    buf_put(out, r->payload, r->n);
    size = out->n - at;
    if (out->bad || size > UINT16_MAX) {
        fprintf(stderr, "etl_rec: a record of %zu bytes is impossible (%s)\n", size,
                err_text(out->bad));
        exit(1);
    }
    out->p[at + size_at] = (uint8_t)size;
    out->p[at + size_at + 1] = (uint8_t)(size >> 8);
    while ((out->n - at) % 8) {
        buf_put_u8(out, PADDING);
    }
}
