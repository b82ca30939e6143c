#include "common/wire/wire_rpc.h"

#include <string.h>

#include "tests/common/wire/wire_shape.h"

WIRE_SHAPE(hello, rpc_hello,
           {.host = {{1, 2, 3}},
            .boot = {{4, 5, 6}},
            .stream = UINT64_MAX,
            .name = "größe",
            .version = "1.2.3",
            .source = "proc",
            .system = "Linux 6.1",
            .cpus = 8,
            .wall_ns = INT64_MIN,
            .mono_ns = INT64_MAX,
            .last_mono_ns = INT64_MAX - 1,
            .last_rtt_ns = 13})
WIRE_SHAPE(hello_reply, rpc_hello_reply,
           {"0.1", 1 << 20, 2, UINT64_MAX, 1700000000000000000, 1700000000000000001, true})
WIRE_SHAPE(push_reply, rpc_push_reply, {true, 42})
WIRE_SHAPE(heartbeat, rpc_heartbeat,
           {.stream = 7,
            .next_seq = 8,
            .wall_ns = -9,
            .mono_ns = 10,
            .last_mono_ns = 14,
            .last_rtt_ns = 15})
WIRE_SHAPE(heartbeat_reply, rpc_heartbeat_reply, {11, 12})

static const struct wire_shape shapes[] = {
    WIRE_SHAPE_ROW(hello),     WIRE_SHAPE_ROW(hello_reply),     WIRE_SHAPE_ROW(push_reply),
    WIRE_SHAPE_ROW(heartbeat), WIRE_SHAPE_ROW(heartbeat_reply),
};

static struct wire_shapes all = {shapes, COUNT_OF(shapes)};

static void text_and_ids_obey_the_rules(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x0a\x03xyz", 5}, /* host of 3 bytes */
        {"\x12\x11"
         "01234567890123456",
         19}, /* boot of 17 bytes */
        {"\x22\x02"
         "a\0",
         4},                     /* NUL in the name */
        {"\x22\x02\xc3\x28", 4}, /* no UTF-8 in the name */
        {"\x2a\x20"
         "0123456789abcdef0123456789abcdef",
         34}, /* version without room for its NUL */
    };
    struct wire_hello out;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(wire_rpc_hello_decode(&out, bad[i].bytes, bad[i].n), ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_SHAPE_TESTS(all),
        cmocka_unit_test(text_and_ids_obey_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
