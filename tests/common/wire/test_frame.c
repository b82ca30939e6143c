#include "common/wire/frame.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

static struct frame_request request(void)
{
    struct frame_request h = {.method = "procfleet.v1.Query/Top",
                              .timeout_ms = 1500,
                              .encoding = FRAME_ZSTD,
                              .raw_bytes = 77,
                              .client = "test/1",
                              .trace_id = UINT64_MAX,
                              .n_metadata = 2,
                              .metadata = {{"k1", "v1"}, {"k2", ""}}};

    memset(h.call_id, 0xab, sizeof h.call_id);
    return h;
}

static struct frame_reply reply(void)
{
    struct frame_reply h = {.code = RPC_RESOURCE_EXHAUSTED,
                            .message = "später",
                            .n_details = 1,
                            .details = {{"queue", "full"}},
                            .retry_after_ms = 250,
                            .more = true,
                            .cursor_n = 3,
                            .cursor = {1, 0, 2},
                            .epoch = 99};

    memset(h.call_id, 0xcd, sizeof h.call_id);
    return h;
}

static void a_request_comes_back_as_it_was(void **state)
{
    struct frame_request in = request(), out;
    const uint8_t *payload;
    size_t n;
    struct buf b;

    buf_init(&b, 65536);
    assert_ok(frame_put_request(&b, &in, "payload", 7));
    assert_int_equal(b.p[0], FRAME_MAGIC);
    assert_int_equal(b.p[1], FRAME_VERSION);
    assert_ok(frame_get_request(&out, &payload, &n, b.p, b.n));
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(n, 7);
    assert_memory_equal(payload, "payload", 7);
    buf_fini(&b);
}

static void a_reply_comes_back_as_it_was(void **state)
{
    struct frame_reply in = reply(), out;
    const uint8_t *payload;
    size_t n;
    struct buf b;

    buf_init(&b, 65536);
    assert_ok(frame_put_reply(&b, &in, NULL, 0));
    assert_ok(frame_get_reply(&out, &payload, &n, b.p, b.n));
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(n, 0);
    buf_fini(&b);
}

static void every_shorter_frame_is_refused_or_has_less_payload(void **state)
{
    struct frame_request in = request(), out;
    const uint8_t *payload;
    size_t n;
    struct buf b;

    buf_init(&b, 65536);
    assert_ok(frame_put_request(&b, &in, "payload", 7));
    for (size_t k = 0; k < b.n - 7; k++) {
        assert_err(frame_get_request(&out, &payload, &n, b.p, k), ERR_CORRUPT);
        assert_int_not_equal(frame_get_reply(&(struct frame_reply){0}, &payload, &n, b.p, k),
                             ERR_OK);
    }
    for (size_t k = b.n - 7; k < b.n; k++) {
        assert_ok(frame_get_request(&out, &payload, &n, b.p, k));
        assert_int_equal(n, k - (b.n - 7));
    }
    buf_fini(&b);
}

static void what_breaks_the_rules_is_refused(void **state)
{
    static const struct {
        uint8_t bytes[24];
        size_t n;
        enum err want;
    } cases[] = {
        {{0xB8, 1, 0, 0}, 4, ERR_CORRUPT},                      /* magic */
        {{0xB7, 2, 0, 0}, 4, ERR_VERSION},                      /* version */
        {{0xB7, 1, 1, 16}, 4, ERR_FULL},                        /* header of 4097 bytes */
        {{0xB7, 1, 4, 0, 0x0a, 2, 'a', 0}, 8, ERR_CORRUPT},     /* NUL in the method */
        {{0xB7, 1, 4, 0, 0x0a, 2, 0xc0, 0x80}, 8, ERR_CORRUPT}, /* overlong UTF-8 */
        {{0xB7, 1, 4, 0, 0x1a, 2, 1, 2}, 8, ERR_CORRUPT},       /* call id of 2 bytes */
        {{0xB7, 1, 3, 0, 0x28, 0x80, 0x02}, 7, ERR_CORRUPT},    /* encoding 256 */
        {{0xB7, 1, 0, 0}, 4, ERR_OK},                           /* everything absent */
        {{0xB7, 1, 3, 0, 0xf8, 0x01, 5}, 7, ERR_OK},            /* an unknown field */
        {{0xB7, 1,    18, 0,    0x4a, 0,    0x4a, 0,    0x4a, 0,    0x4a,
          0,    0x4a, 0,  0x4a, 0,    0x4a, 0,    0x4a, 0,    0x4a, 0},
         22,
         ERR_CORRUPT}, /* nine details */
    };
    struct frame_request out;
    const uint8_t *payload;
    size_t n;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_err(frame_get_request(&out, &payload, &n, cases[i].bytes, cases[i].n),
                   cases[i].want);
    }
}

static void bad_text_is_mended_before_it_leaves(void **state)
{
    struct frame_reply in = {.code = RPC_INTERNAL, .message = "a\xff\xc3\xa4\xed\xa0\x80"}, out;
    const uint8_t *payload;
    size_t n;
    struct buf b;

    buf_init(&b, 65536);
    assert_ok(frame_put_reply(&b, &in, NULL, 0));
    assert_ok(frame_get_reply(&out, &payload, &n, b.p, b.n));
    assert_string_equal(out.message, "a?\xc3\xa4???");
    buf_fini(&b);
}

static void a_failed_put_leaves_the_buffer_as_it_was(void **state)
{
    struct frame_request in = request();
    static const uint8_t big[200];
    long k = 0;
    struct buf b;
    enum err e;

    buf_init(&b, 256);
    buf_put_u8(&b, 'x');
    assert_err(frame_put_request(&b, &in, big, sizeof big), ERR_FULL);
    assert_int_equal(b.n, 1);
    buf_fini(&b);
    do {
        long live = mem_live();

        buf_init(&b, 65536);
        mem_fail_after(k++);
        e = frame_put_request(&b, &in, big, sizeof big);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(b.n == 0, e != ERR_OK);
        buf_fini(&b);
        assert_int_equal(mem_live(), live);
    } while (e);
    assert_true(k > 1);
}

static void codes_have_grpc_names(void **state)
{
    assert_string_equal(frame_code_name(RPC_OK), "OK");
    assert_string_equal(frame_code_name(RPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(frame_code_name((enum rpc_code)17), "UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_comes_back_as_it_was),
        cmocka_unit_test(a_reply_comes_back_as_it_was),
        cmocka_unit_test(every_shorter_frame_is_refused_or_has_less_payload),
        cmocka_unit_test(what_breaks_the_rules_is_refused),
        cmocka_unit_test(bad_text_is_mended_before_it_leaves),
        cmocka_unit_test(a_failed_put_leaves_the_buffer_as_it_was),
        cmocka_unit_test(codes_have_grpc_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
