/* Any bytes as a relayed web request and as its reply. What is accepted must encode again. */
#include <stdlib.h>

#include "common/wire/wire_web.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct wire_web_request *request;
    struct wire_web_reply *reply;
    struct buf out;

    buf_init(&out, 1u << 20);
    if (!wire_web_request_decode(&request, p, n)) {
        if (wire_web_request_encode(&out, request)) {
            abort();
        }
        wire_web_request_free(request);
    }
    if (!wire_web_reply_decode(&reply, p, n)) {
        if (wire_web_reply_encode(&out, reply)) {
            abort();
        }
        wire_web_reply_free(reply);
    }
    buf_fini(&out);
    return 0;
}
