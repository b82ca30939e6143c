/* What client and server of RPC share: the numbers of methods, and payloads that travel as one zstd
 * frame. The server is not here: who only calls does not link it, nor the services' descriptors. */
#include "common/rpc/rpc.h"

#include <zstd.h>

uint32_t rpc_method_id(const char *name)
{
    uint32_t h = 2166136261u;

    for (const char *c = name; *c; c++) {
        h = (h ^ (uint8_t)*c) * 16777619u;
    }
    return h ? h : 1;
}

/* -- payloads that travel as one zstd frame -- */

uint64_t rpc_zstd_size(const void *p, size_t n)
{
    unsigned long long size = ZSTD_getFrameContentSize(p, n);

    return size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ? 0 : size;
}

enum err rpc_zstd_decode(struct buf *out, const void *p, size_t n)
{
    unsigned long long size = ZSTD_getFrameContentSize(p, n);
    size_t before = out->n;
    uint8_t *to;

    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
        return ERR_CORRUPT;
    }
    if (size > out->max - out->n) {
        return ERR_FULL;
    }
    to = buf_grow(out, (size_t)size);
    if (!to) {
        return out->bad;
    }
    /* A second frame behind the first finds no room and is an error too. */
    if (ZSTD_decompress(to, (size_t)size, p, n) != (size_t)size) {
        out->n = before;
        return ERR_CORRUPT;
    }
    return ERR_OK;
}
