/* Any bytes behind a right greeting. The verdict must not depend on how they are cut. */
#include <stdlib.h>
#include <string.h>

#include "common/net/sp_framing.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const uint8_t greeting[8] = {0, 'S', 'P', 0, 0, SP_FRAMING_REQ, 0, 0};

static const char *feed(const uint8_t *p, size_t n, uint64_t max, size_t piece)
{
    struct sp_framing m = {.have = 0};
    const char *words = sp_framing_feed(&m, SP_FRAMING_REQ, max, greeting, sizeof greeting);

    for (size_t at = 0; at < n && !words; at += piece) {
        words = sp_framing_feed(&m, SP_FRAMING_REQ, max, p + at, n - at < piece ? n - at : piece);
    }
    return words;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t piece;
    uint64_t max;

    if (n < 2) {
        return 0;
    }
    piece = 1 + p[0] % 32u;
    max = p[1];
    if (feed(p + 2, n - 2, max, piece) != feed(p + 2, n - 2, max, n)) {
        abort();
    }
    return 0;
}
