#include "agent/source/ring/ring.h"

#include <string.h>

#include "agent/source/ring/ring_impl.h"
#include "common/base/mem.h"

enum err ring_create(struct ring **out, const struct ring_conf *conf)
{
    struct ring *r;
    enum err e;

    if (conf->bytes < RING_BYTES_MIN || conf->bytes > RING_BYTES_MAX) {
        return ERR_RANGE;
    }
    r = mem_zalloc(sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    r->wait = conf->wait;
    for (r->size = RING_BYTES_MIN; r->size < conf->bytes;) {
        r->size *= 2;
    }
    e = ERR_NOMEM;
    r->bytes = mem_alloc(r->size);
    if (!r->bytes) {
        goto fail;
    }
    memset(r->bytes, 0, r->size); /* the callback meets no page fault */
    e = os_mutex_create(&r->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&r->news, r->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&r->room, r->lock);
    if (e) {
        goto fail;
    }
    *out = r;
    return ERR_OK;

fail:
    ring_destroy(r);
    return e;
}

void ring_destroy(struct ring *r)
{
    if (!r) {
        return;
    }
    os_cond_destroy(r->room);
    os_cond_destroy(r->news);
    os_mutex_destroy(r->lock);
    mem_free(r->bytes);
    mem_free(r);
}

void ring_close(struct ring *r)
{
    os_mutex_lock(r->lock);
    atomic_store(&r->closed, true);
    os_cond_wake_all(r->news);
    os_cond_wake_all(r->room);
    os_mutex_unlock(r->lock);
}

/* ---- figures ---- */

size_t ring_bytes(const struct ring *r)
{
    return r->size;
}

unsigned ring_fill_permille(const struct ring *r)
{
    uint64_t head = atomic_load(&r->take.head); /* first, so that it is not ahead of tail */
    uint64_t held = atomic_load(&r->put.tail) - head;

    held = held < r->size ? held : r->size; /* records may have gone through in between */
    return (unsigned)(held * 1000 / r->size);
}

void ring_stats(const struct ring *r, struct ring_stats *out)
{
    uint64_t gone;

    /* `in` last: it is counted first. */
    *out = (struct ring_stats){
        .out = atomic_load(&r->take.out),
        .refused = atomic_load(&r->put.refused),
        .gaps = atomic_load(&r->put.gaps),
        .waits = atomic_load(&r->put.waits),
        .wakes = atomic_load(&r->put.wakes),
    };
    gone = out->out + out->refused;
    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        out->dropped[i] = atomic_load(&r->put.dropped[i]);
        gone += out->dropped[i];
    }
    out->in = atomic_load(&r->put.in);
    out->held = out->in - gone;
}
