/* Any bytes as each message of the Admin service. What is accepted must be encoded and accepted
 * once more. */
#include "common/wire/wire_admin.h"
#include "tests/fuzz/again.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

AGAIN(disconnect, admin_disconnect)
AGAIN(disconnect_reply, admin_disconnect_reply)
AGAIN(log_level, admin_log_level)
AGAIN(log_level_reply, admin_log_level_reply)

static void try_status(const uint8_t *p, size_t n)
{
    struct wire_status_reply *m, *again;
    struct buf b;

    if (wire_admin_status_reply_decode(&m, p, n)) {
        return;
    }
    buf_init(&b, 1u << 20);
    if (wire_admin_status_reply_encode(&b, m) || wire_admin_status_reply_decode(&again, b.p, b.n)) {
        abort();
    }
    wire_admin_status_reply_free(again);
    wire_admin_status_reply_free(m);
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    try_disconnect(p, n);
    try_disconnect_reply(p, n);
    try_log_level(p, n);
    try_log_level_reply(p, n);
    try_status(p, n);
    return 0;
}
