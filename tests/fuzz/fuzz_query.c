/* Any bytes as one of the messages of Query, Ingest and the event stream: byte 0 picks which.
 * Accepted answers must encode again. */
#include <stdlib.h>

#include "common/wire/wire_query.h"
#include "common/wire/wire_rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(enum err e)
{
    if (e) {
        abort();
    }
}

static void try_query(const uint8_t *p, size_t n, struct buf *out)
{
    struct wire_query *m;

    if (!wire_query_decode(&m, p, n)) {
        check(wire_query_encode(out, m));
        wire_query_free(m);
    }
}

static void try_answer(const uint8_t *p, size_t n, struct buf *out)
{
    struct wire_answer *m;

    if (!wire_answer_decode(&m, p, n)) {
        check(wire_answer_encode(out, m));
        wire_answer_free(m);
    }
}

static void try_update(const uint8_t *p, size_t n, struct buf *out)
{
    struct wire_update *m;

    if (!wire_update_decode(&m, p, n)) {
        check(wire_update_encode(out, m));
        wire_update_free(m);
    }
}

#define PLAIN(type, code)                                               \
    static void try_##type(const uint8_t *p, size_t n, struct buf *out) \
    {                                                                   \
        struct wire_##type m;                                           \
                                                                        \
        if (!wire_##code##_decode(&m, p, n)) {                          \
            check(wire_##code##_encode(out, &m));                       \
        }                                                               \
    }

PLAIN(server_info, query_server_info)
PLAIN(hello, rpc_hello)
PLAIN(hello_reply, rpc_hello_reply)
PLAIN(push_reply, rpc_push_reply)
PLAIN(heartbeat, rpc_heartbeat)
PLAIN(heartbeat_reply, rpc_heartbeat_reply)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static void (*const tries[])(const uint8_t *p, size_t n, struct buf *out) = {
        try_query,       try_answer,     try_update,    try_server_info,     try_hello,
        try_hello_reply, try_push_reply, try_heartbeat, try_heartbeat_reply,
    };
    struct buf out;

    if (n > 0) {
        buf_init(&out, 64u << 20);
        tries[p[0] % (sizeof tries / sizeof *tries)](p + 1, n - 1, &out);
        buf_fini(&out);
    }
    return 0;
}
