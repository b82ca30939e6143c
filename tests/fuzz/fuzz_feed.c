/* Any bytes as one of the messages of Fetch, Poll and durable subscriptions: byte 0 picks which.
 * What is accepted must encode again. */
#include <stdlib.h>

#include "common/wire/wire_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define TRY(kind)                                                       \
    static void try_##kind(const uint8_t *p, size_t n, struct buf *out) \
    {                                                                   \
        struct wire_##kind *m;                                          \
                                                                        \
        if (!wire_feed_##kind##_decode(&m, p, n)) {                     \
            if (wire_feed_##kind##_encode(out, m)) {                    \
                abort();                                                \
            }                                                           \
            wire_feed_##kind##_free(m);                                 \
        }                                                               \
    }

TRY(fetch)
TRY(fetch_reply)
TRY(poll)
TRY(poll_reply)
TRY(subscriptions_reply)
TRY(unsubscribe)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static void (*const tries[])(const uint8_t *p, size_t n, struct buf *out) = {
        try_fetch,      try_fetch_reply,         try_poll,
        try_poll_reply, try_subscriptions_reply, try_unsubscribe,
    };
    struct buf out;

    if (n > 0) {
        buf_init(&out, 64u << 20);
        tries[p[0] % (sizeof tries / sizeof *tries)](p + 1, n - 1, &out);
        buf_fini(&out);
    }
    return 0;
}
