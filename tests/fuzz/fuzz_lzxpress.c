/* Any bytes as a compressed stream, unpacked to several sizes; a prefix must equal the whole. */
#include <stdlib.h>
#include <string.h>

#include "agent/source/lzxpress.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static uint8_t whole[65536];
    size_t got = lzxpress_decode(whole, sizeof whole, p, n);

    for (size_t want = 1; want <= got; want *= 3) {
        uint8_t *part = malloc(want); /* exact, so that a write beyond it is seen */

        if (!part || lzxpress_decode(part, want, p, n) != want || memcmp(part, whole, want) != 0) {
            abort();
        }
        free(part);
    }
    return 0;
}
