/* u8 version 1, u64 epoch, u64 position, u32 offset, u32 of the XXH3-64 of all before. */
#include "collector/subscribe/subscriptions_cursor.h"

#include "common/base/cur.h"
#include "common/base/hash.h"

#define VERSION   1u
#define SUM_BYTES 4u
#define SUMMED    (SUBSCRIPTIONS_CURSOR_BYTES - SUM_BYTES)

static void put(uint8_t **at, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *(*at)++ = (uint8_t)(v >> 8 * i);
    }
}

void subscriptions_cursor_put(uint8_t out[SUBSCRIPTIONS_CURSOR_BYTES],
                              const struct subscriptions_cursor *c)
{
    uint8_t *at = out;

    put(&at, VERSION, 1);
    put(&at, c->epoch, 8);
    put(&at, c->position, 8);
    put(&at, c->offset, 4);
    put(&at, hash_bytes(out, SUMMED, 0), SUM_BYTES);
}

enum err subscriptions_cursor_get(struct subscriptions_cursor *out, struct str bytes)
{
    struct cur c = cur_make(bytes.p, bytes.n);
    uint8_t version = cur_u8(&c);
    struct subscriptions_cursor v;
    uint32_t sum;

    v.epoch = cur_u64le(&c);
    v.position = cur_u64le(&c);
    v.offset = cur_u32le(&c);
    sum = cur_u32le(&c);
    if (c.bad || cur_left(&c) > 0 || version != VERSION ||
        sum != (uint32_t)hash_bytes(bytes.p, SUMMED, 0)) {
        return ERR_INVALID;
    }
    *out = v;
    return ERR_OK;
}

bool subscriptions_cursor_same(const struct subscriptions_cursor *a,
                               const struct subscriptions_cursor *b)
{
    return a->epoch == b->epoch && a->position == b->position && a->offset == b->offset;
}
