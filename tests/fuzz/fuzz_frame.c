/* Any bytes as a request and as a reply. What is accepted must come back the same once more. */
#include <stdlib.h>
#include <string.h>

#include "common/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void request_again(const struct frame_request *h, const uint8_t *payload, size_t n)
{
    struct frame_request again;
    const uint8_t *rest;
    size_t rest_n;
    struct buf b;

    buf_init(&b, 1u << 20);
    if (frame_put_request(&b, h, payload, n) ||
        frame_get_request(&again, &rest, &rest_n, b.p, b.n) || rest_n != n ||
        memcmp(h, &again, sizeof again) != 0) {
        abort();
    }
    buf_fini(&b);
}

static void reply_again(const struct frame_reply *h, const uint8_t *payload, size_t n)
{
    struct frame_reply again;
    const uint8_t *rest;
    size_t rest_n;
    struct buf b;

    buf_init(&b, 1u << 20);
    if (frame_put_reply(&b, h, payload, n) || frame_get_reply(&again, &rest, &rest_n, b.p, b.n) ||
        rest_n != n || again.code != h->code || strcmp(again.message, h->message) != 0) {
        abort();
    }
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct frame_request request;
    struct frame_reply reply;
    const uint8_t *payload;
    size_t payload_n;

    if (!frame_get_request(&request, &payload, &payload_n, p, n)) {
        request_again(&request, payload, payload_n);
    }
    if (!frame_get_reply(&reply, &payload, &payload_n, p, n)) {
        reply_again(&reply, payload, payload_n);
    }
    return 0;
}
