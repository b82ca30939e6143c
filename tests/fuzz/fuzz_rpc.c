/* Any bytes as each message of the ingest calls and as the server's information. What is accepted
 * must be encoded and accepted once more. */
#include "common/wire/wire_query.h"
#include "common/wire/wire_rpc.h"
#include "tests/fuzz/again.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

AGAIN(hello, rpc_hello)
AGAIN(hello_reply, rpc_hello_reply)
AGAIN(push_reply, rpc_push_reply)
AGAIN(heartbeat, rpc_heartbeat)
AGAIN(heartbeat_reply, rpc_heartbeat_reply)
AGAIN(server_info, query_server_info)

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
