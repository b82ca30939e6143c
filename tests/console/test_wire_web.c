#include "common/wire/wire_web.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

static const struct wire_web_request request = {
    .path = {"/api/v1/top", 11},
    .query = {"name=a%20b&last=15m", 19},
    .accept = {"*/*", 3},
    .accept_encoding = {"gzip, zstd", 10},
    .if_none_match = {"\"a\"", 3},
};

static const struct wire_web_reply reply = {
    .status = 429,
    .type = {"application/json", 16},
    .encoding = {"zstd", 4},
    .etag = {"\"b\"", 3},
    .body = {"\x28\xb5\0\xff", 4},
    .retry_after_s = 1,
    .immutable = true,
};

static void assert_str(struct str a, struct str b)
{
    assert_int_equal(a.n, b.n);
    assert_true(a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static void requests_come_back_as_they_were(void **state)
{
    struct wire_web_request *out;
    struct buf b;

    (void)state;
    buf_init(&b, 4096);
    assert_ok(wire_web_request_encode(&b, &request));
    assert_ok(wire_web_request_decode(&out, b.p, b.n));
    assert_str(out->path, request.path);
    assert_str(out->query, request.query);
    assert_str(out->accept, request.accept);
    assert_str(out->accept_encoding, request.accept_encoding);
    assert_str(out->if_none_match, request.if_none_match);
    wire_web_request_free(out);
    buf_fini(&b);
}

static void replies_come_back_as_they_were(void **state)
{
    struct wire_web_reply *out;
    struct buf b;

    (void)state;
    buf_init(&b, 4096);
    assert_ok(wire_web_reply_encode(&b, &reply));
    assert_ok(wire_web_reply_decode(&out, b.p, b.n));
    assert_int_equal(out->status, 429);
    assert_str(out->type, reply.type);
    assert_str(out->encoding, reply.encoding);
    assert_str(out->etag, reply.etag);
    assert_str(out->body, reply.body);
    assert_int_equal(out->retry_after_s, 1);
    assert_true(out->immutable);
    wire_web_reply_free(out);
    buf_fini(&b);
}

static void a_path_begins_with_a_slash_and_is_text(void **state)
{
    static const struct {
        const char *p;
        size_t n;
    } bad[] = {{"", 0}, {"\x0a\x01x", 3}, {"\x0a\x02/\0", 4}, {"\x0a\x02/\xff", 4}};
    struct wire_web_request *out;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(wire_web_request_decode(&out, bad[i].p, bad[i].n), ERR_CORRUPT);
    }
}

static void the_largest_body_passes_and_no_larger_one(void **state)
{
    struct wire_web_reply in = {.status = 200}, *out;
    char *body = mem_zalloc(WIRE_WEB_BODY_MAX + 1);
    struct buf b;

    (void)state;
    assert_non_null(body);
    buf_init(&b, 4u << 20);
    in.body = (struct str){body, WIRE_WEB_BODY_MAX};
    assert_ok(wire_web_reply_encode(&b, &in));
    assert_ok(wire_web_reply_decode(&out, b.p, b.n));
    assert_int_equal(out->body.n, WIRE_WEB_BODY_MAX);
    wire_web_reply_free(out);
    in.body.n++;
    assert_err(wire_web_reply_encode(&b, &in), ERR_INVALID);
    buf_fini(&b);
    mem_free(body);
}

static void a_status_is_one_of_http(void **state)
{
    struct wire_web_reply in = {.status = 99}, *out;
    struct buf b;

    (void)state;
    buf_init(&b, 64);
    assert_err(wire_web_reply_encode(&b, &in), ERR_INVALID);
    assert_err(wire_web_reply_decode(&out, "\x08\xd8\x04", 3), ERR_CORRUPT); /* 600 */
    assert_err(wire_web_reply_decode(&out, "", 0), ERR_CORRUPT);
    buf_fini(&b);
}

/* Protobuf cannot tell a message cut between two fields from one without the later fields. */
static void every_shorter_message_is_refused_or_lacks_fields(void **state)
{
    size_t refused = 0;
    struct buf a, b;

    (void)state;
    buf_init(&a, 4096);
    buf_init(&b, 4096);
    assert_ok(wire_web_request_encode(&a, &request));
    assert_ok(wire_web_reply_encode(&b, &reply));
    for (size_t n = 0; n < a.n || n < b.n; n++) {
        struct wire_web_request *x = NULL;
        struct wire_web_reply *y = NULL;
        enum err e = wire_web_request_decode(&x, a.p, n < a.n ? n : a.n);
        enum err f = wire_web_reply_decode(&y, b.p, n < b.n ? n : b.n);

        assert_true((e == ERR_OK || e == ERR_CORRUPT) && (f == ERR_OK || f == ERR_CORRUPT));
        refused += (e ? 1u : 0u) + (f ? 1u : 0u);
        wire_web_request_free(x);
        wire_web_reply_free(y);
    }
    assert_true(refused >= b.n / 2);
    buf_fini(&a);
    buf_fini(&b);
}

static void every_failed_allocation_is_survived(void **state)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    (void)state;
    for (long k = 0; e; k++) {
        struct wire_web_request *x = NULL;
        struct wire_web_reply *y = NULL;
        struct buf a, b;

        buf_init(&a, 4096);
        buf_init(&b, 4096);
        mem_fail_after(k);
        e = wire_web_request_encode(&a, &request);
        e = e ? e : wire_web_request_decode(&x, a.p, a.n);
        e = e ? e : wire_web_reply_encode(&b, &reply);
        e = e ? e : wire_web_reply_decode(&y, b.p, b.n);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        wire_web_request_free(x);
        wire_web_reply_free(y);
        buf_fini(&a);
        buf_fini(&b);
        assert_int_equal(mem_live(), live);
        assert_true(k < 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_back_as_they_were),
        cmocka_unit_test(replies_come_back_as_they_were),
        cmocka_unit_test(a_path_begins_with_a_slash_and_is_text),
        cmocka_unit_test(the_largest_body_passes_and_no_larger_one),
        cmocka_unit_test(a_status_is_one_of_http),
        cmocka_unit_test(every_shorter_message_is_refused_or_lacks_fields),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
