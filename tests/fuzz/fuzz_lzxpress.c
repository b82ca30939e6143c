/* Any bytes as a compressed stream, unpacked to sizes the input picks: whatever the size, what
 * comes out is the same as far as both go, and a reader that wants less gets all of it. */
#include <stdlib.h>
#include <string.h>

#include "agent/source/trace/lzxpress.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define WHOLE 65536

static void check_prefix(const uint8_t *whole, size_t got, size_t want, const uint8_t *p, size_t n)
{
    uint8_t *part = malloc(want ? want : 1); /* exact, so that a write beyond it is seen */

    if (!part || lzxpress_decode(part, want, p, n) != want || memcmp(part, whole, want) != 0 ||
        want > got) {
        abort();
    }
    free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static uint8_t whole[WHOLE];
    size_t got = lzxpress_decode(whole, sizeof whole, p, n);
    size_t pick = n >= 2 ? p[n - 1] * 251u + p[n - 2] : 0;

    if (got > sizeof whole) {
        abort();
    }
    check_prefix(whole, got, got, p, n); /* the end of the stream is the end of the room */
    check_prefix(whole, got, got ? pick % got : 0, p, n);
    check_prefix(whole, got, got ? got - pick % 24 % got : 0, p,
                 n); /* within a fast copy's reach */
    return 0;
}
