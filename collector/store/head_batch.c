/* One batch of the head. */
#include <string.h>

#include "collector/store/head.h"
#include "common/mem.h"

enum err head_batch_create(struct head_batch **out, const void *bytes, size_t n)
{
    struct head_batch *b = mem_alloc(sizeof *b + n);

    if (!b) {
        return ERR_NOMEM;
    }
    memset(b, 0, sizeof *b);
    b->n = n;
    memcpy(b->bytes, bytes, n);
    *out = b;
    return ERR_OK;
}

void head_batch_destroy(struct head_batch *b)
{
    if (b) {
        mem_free(b->told);
        mem_free(b);
    }
}

enum err head_batch_decode(const struct head_batch *b, struct wire_decoder *dec, uint64_t metrics,
                           struct batch **out)
{
    return dec ? wire_decoder_batch(dec, out, metrics, b->bytes, b->n)
               : wire_batch_decode_part(out, metrics, b->bytes, b->n);
}
