/* Any bytes as a packed payload: never more than the limit comes out, and nothing on failure. */
#include <stdlib.h>

#include "common/rpc/rpc.h"

#define LIMIT (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct buf out;
    enum err e;

    buf_init(&out, LIMIT);
    e = rpc_zstd_decode(&out, p, n);
    if (out.n > LIMIT || (e && out.n > 0) || (!e && out.n != rpc_zstd_size(p, n))) {
        abort();
    }
    buf_fini(&out);
    return 0;
}
