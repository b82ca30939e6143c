/* Any bytes from a client that was refused. When it is over must not depend on how they are cut. */
#include <stdlib.h>

#include "common/tls/tls_flight.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static bool feed(const uint8_t *p, size_t n, size_t piece)
{
    struct tls_flight parting = {.n_head = 0};
    bool over = false;

    for (size_t at = 0; at < n && !over; at += piece) {
        over = tls_flight_feed(&parting, p + at, n - at < piece ? n - at : piece);
    }
    return over;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t piece;

    if (n < 1 || n > TLS_FLIGHT_MAX) { /* the bound counts what was given, not what was looked at */
        return 0;
    }
    piece = 1 + p[0] % 32u;
    if (feed(p + 1, n - 1, piece) != feed(p + 1, n - 1, n)) {
        abort();
    }
    return 0;
}
