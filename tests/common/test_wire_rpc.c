#include "common/wire_rpc.h"

#include <string.h>

#include "common/mem.h"
#include "tests/support/t.h"

/* Each message once, behind one shape, so that every rule is tried on all of them. */

union message {
    struct wire_hello hello;
    struct wire_hello_reply hello_reply;
    struct wire_push_reply push_reply;
    struct wire_heartbeat heartbeat;
    struct wire_heartbeat_reply heartbeat_reply;
};

#define SHAPE(type)                                                       \
    static enum err put_##type(struct buf *out, const union message *m)   \
    {                                                                     \
        return wire_##type##_encode(out, &m->type);                       \
    }                                                                     \
    static enum err get_##type(union message *m, const void *p, size_t n) \
    {                                                                     \
        return wire_##type##_decode(&m->type, p, n);                      \
    }

SHAPE(hello)
SHAPE(hello_reply)
SHAPE(push_reply)
SHAPE(heartbeat)
SHAPE(heartbeat_reply)

static const struct shape {
    enum err (*put)(struct buf *out, const union message *m);
    enum err (*get)(union message *m, const void *p, size_t n);
    union message sample;
} shapes[] = {
    {put_hello,
     get_hello,
     {.hello = {.host = {{1, 2, 3}},
                .boot = {{4, 5, 6}},
                .stream = UINT64_MAX,
                .name = "größe",
                .version = "1.2.3",
                .source = "proc",
                .system = "Linux 6.1",
                .cpus = 8,
                .wall_ns = INT64_MIN,
                .mono_ns = INT64_MAX}}},
    {put_hello_reply,
     get_hello_reply,
     {.hello_reply = {"0.1", 1 << 20, 2, UINT64_MAX, 1700000000000000000, 1700000000000000001}}},
    {put_push_reply, get_push_reply, {.push_reply = {true, 42}}},
    {put_heartbeat, get_heartbeat, {.heartbeat = {7, 8, -9, 10}}},
    {put_heartbeat_reply, get_heartbeat_reply, {.heartbeat_reply = {11, 12}}},
};

static void messages_come_back_as_they_were(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        union message out;
        struct buf b;

        memset(&out, 0, sizeof out);
        buf_init(&b, 4096);
        assert_ok(shapes[i].put(&b, &shapes[i].sample));
        assert_ok(shapes[i].get(&out, b.p, b.n));
        assert_memory_equal(&out, &shapes[i].sample, sizeof out);
        buf_fini(&b);
    }
}

static void messages_of_zeros_come_back_as_they_were(void **state)
{
    static const union message zeros;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        union message out;
        struct buf b;

        memset(&out, 0, sizeof out);
        buf_init(&b, 4096);
        assert_ok(shapes[i].put(&b, &zeros));
        assert_ok(shapes[i].get(&out, b.p, b.n));
        assert_memory_equal(&out, &zeros, sizeof out);
        buf_fini(&b);
    }
}

/* Protobuf cannot tell a message cut between two fields from one without the later fields. */
static void every_shorter_message_is_refused_or_lacks_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        size_t refused = 0;
        union message out;
        struct buf b;

        buf_init(&b, 4096);
        assert_ok(shapes[i].put(&b, &shapes[i].sample));
        for (size_t n = 0; n < b.n; n++) {
            enum err e = shapes[i].get(&out, b.p, n);

            assert_true(e == ERR_OK || e == ERR_CORRUPT);
            refused += e != ERR_OK;
        }
        assert_true(refused > 0);
        buf_fini(&b);
    }
}

static void a_refused_message_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        union message out = shapes[i].sample;

        assert_err(shapes[i].get(&out, "\x0a\xff", 2), ERR_CORRUPT);
        assert_memory_equal(&out, &shapes[i].sample, sizeof out);
    }
}

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

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(wire_hello_decode(&out, bad[i].bytes, bad[i].n), ERR_CORRUPT);
    }
}

static void unknown_fields_meet_the_budget(void **state)
{
    enum { N = 300000 };
    static uint8_t many[3 * N];
    union message out;
    long live = mem_live();

    (void)state;
    for (size_t i = 0; i < N; i++) {
        memcpy(many + 3 * i, "\xf8\x07\x01", 3); /* field 127 = 1 */
    }
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        assert_ok(shapes[i].get(&out, many, 30));
        assert_err(shapes[i].get(&out, many, sizeof many), ERR_FULL);
    }
    assert_int_equal(mem_live(), live);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        long live = mem_live();
        enum err e = ERR_NOMEM;

        for (long k = 0; e; k++) {
            union message out;
            struct buf b;

            buf_init(&b, 4096);
            mem_fail_after(k);
            e = shapes[i].put(&b, &shapes[i].sample);
            if (!e) {
                e = shapes[i].get(&out, b.p, b.n);
            }
            mem_fail_after(-1);
            assert_true(e == ERR_OK || e == ERR_NOMEM);
            buf_fini(&b);
            assert_int_equal(mem_live(), live);
            assert_true(k < 50);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_back_as_they_were),
        cmocka_unit_test(messages_of_zeros_come_back_as_they_were),
        cmocka_unit_test(every_shorter_message_is_refused_or_lacks_fields),
        cmocka_unit_test(a_refused_message_changes_nothing),
        cmocka_unit_test(text_and_ids_obey_the_rules),
        cmocka_unit_test(unknown_fields_meet_the_budget),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
