/* Any bytes as the parameters of a request: read or refused with a sentence, within bounds. */
#include <stdlib.h>

#include "collector/console/api_args.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct api_args args;
    struct errmsg why = {""};
    uint32_t takes = n ? p[0] * 0x01010101u & (UINT32_MAX >> (32 - API_ARGS)) : 0;
    enum err e =
        api_args_read(&args, (struct str){(const char *)p, n}, takes, INT64_C(1) << 60, &why);

    if (e ? !why.text[0] : args.q.limit > WIRE_ROWS_MAX || args.given & ~takes) {
        abort();
    }
    return 0;
}
