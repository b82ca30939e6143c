#include "collector/store/segment/pack.h"

#include <string.h>

/* zstd lets a static library's user bring its own allocator. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/cur.h"
#include "common/base/mem.h"

/* A pack is
 *
 *   head    LEB128: the bytes' number times two, plus one when they are compressed
 *   bytes   as they are; or one zstd frame without content size and checksum: the head says the
 *           size, and the owner of packs has a checksum over them
 */

#define LEVEL 1

struct packer {
    ZSTD_CCtx *in;
    ZSTD_DCtx *out;
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

static const ZSTD_customMem memory_of_zstd = {zstd_alloc, zstd_free, NULL};

enum err packer_create(struct packer **out)
{
    struct packer *p = mem_zalloc(sizeof *p);

    if (!p) {
        return ERR_NOMEM;
    }
    p->in = ZSTD_createCCtx_advanced(memory_of_zstd);
    p->out = ZSTD_createDCtx_advanced(memory_of_zstd);
    if (!p->in || !p->out) {
        packer_destroy(p);
        return ERR_NOMEM;
    }
    ZSTD_CCtx_setParameter(p->in, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(p->in, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(p->in, ZSTD_c_checksumFlag, 0);
    *out = p;
    return ERR_OK;
}

void packer_destroy(struct packer *p)
{
    if (p) {
        ZSTD_freeCCtx(p->in);
        ZSTD_freeDCtx(p->out);
        mem_free(p);
    }
}

void pack_put(struct packer *p, struct buf *out, const void *bytes, size_t n)
{
    size_t before = out->n, head, packed;
    uint8_t *to;

    buf_put_varint(out, (uint64_t)n << 1 | 1);
    head = out->n;
    to = buf_grow(out, n ? n : 1); /* what needs more is not worth it */
    if (!to) {
        return;
    }
    packed = ZSTD_compress2(p->in, to, n, bytes, n);
    if (!ZSTD_isError(packed) && packed < n) {
        out->n = head + packed;
        return;
    }
    out->n = before;
    if (ZSTD_isError(packed) && ZSTD_getErrorCode(packed) == ZSTD_error_memory_allocation) {
        out->bad = ERR_NOMEM;
        return;
    }
    buf_put_varint(out, (uint64_t)n << 1);
    buf_put(out, bytes, n);
}

/* Fills exactly n bytes. */
static enum err inflate(struct packer *p, uint8_t *to, size_t n, const struct cur *c)
{
    size_t got = ZSTD_decompressDCtx(p->out, to, n, c->p, cur_left(c));

    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) {
        return ERR_NOMEM;
    }
    return ZSTD_isError(got) || got != n ? ERR_CORRUPT : ERR_OK;
}

enum err pack_open(struct packer *p, struct arena *memory, const uint8_t **out, size_t *out_n,
                   const void *bytes, size_t n, size_t max)
{
    struct cur c = cur_make(bytes, n);
    uint64_t head = cur_varint(&c), size = head >> 1;
    enum err e = ERR_OK;
    uint8_t *to;

    if (c.bad || (!(head & 1) && cur_left(&c) != size)) {
        return ERR_CORRUPT;
    }
    if (size > max) {
        return ERR_FULL;
    }
    to = arena_alloc(memory, (size_t)size);
    if (!to) {
        return arena_refused(memory, (size_t)size);
    }
    if (head & 1) {
        e = inflate(p, to, (size_t)size, &c);
    } else if (size) {
        memcpy(to, c.p, (size_t)size);
    }
    if (!e) {
        *out = to;
        *out_n = (size_t)size;
    }
    return e;
}
