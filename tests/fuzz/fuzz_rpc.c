/* Any bytes as each message of the ingest calls and as the server's information. What is accepted
 * must be encoded and accepted once more. */
#include <stdlib.h>

#include "common/wire_query.h"
#include "common/wire_rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define TRY(kind)                                                                     \
    static void try_##kind(const uint8_t *p, size_t n)                                \
    {                                                                                 \
        struct wire_##kind m, again;                                                  \
        struct buf b;                                                                 \
                                                                                      \
        if (wire_##kind##_decode(&m, p, n)) {                                         \
            return;                                                                   \
        }                                                                             \
        buf_init(&b, 1u << 20);                                                       \
        if (wire_##kind##_encode(&b, &m) || wire_##kind##_decode(&again, b.p, b.n)) { \
            abort();                                                                  \
        }                                                                             \
        buf_fini(&b);                                                                 \
    }

TRY(hello)
TRY(hello_reply)
TRY(push_reply)
TRY(heartbeat)
TRY(heartbeat_reply)
TRY(server_info)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    try_hello(p, n);
    try_hello_reply(p, n);
    try_push_reply(p, n);
    try_heartbeat(p, n);
    try_heartbeat_reply(p, n);
    try_server_info(p, n);
    return 0;
}
