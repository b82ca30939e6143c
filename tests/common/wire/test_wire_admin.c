#include "common/wire/wire_admin.h"

#include <string.h>

#include "tests/common/wire/wire_shape.h"

WIRE_SHAPE(disconnect, admin_disconnect, {"web-01"})
WIRE_SHAPE(disconnect_reply, admin_disconnect_reply, {7})
WIRE_SHAPE(log_level, admin_log_level, {"debug"})
WIRE_SHAPE(log_level_reply, admin_log_level_reply, {"info"})
WIRE_SHAPE(forget, admin_forget, {"web-01"})
WIRE_SHAPE(forget_reply, admin_forget_reply, {3})

static const struct wire_shape shapes[] = {
    WIRE_SHAPE_ROW(disconnect),
    WIRE_SHAPE_ROW(log_level),
    WIRE_SHAPE_ROW(log_level_reply),
    WIRE_SHAPE_ROW(forget),
};

static struct wire_shapes all = {shapes, COUNT_OF(shapes)};

static const struct wire_shape reply = WIRE_SHAPE_ROW(disconnect_reply);
static const struct wire_shape forgotten = WIRE_SHAPE_ROW(forget_reply);

static void the_number_of_connections_comes_back(void **state)
{
    wire_shape_assert_same(&reply, &sample_disconnect_reply);
    wire_shape_assert_same(&forgotten, &sample_forget_reply);
}

static const struct wire_figure figures[] = {
    {{"a_total", 7}, {"x=\"1\"", 5}, {"One.", 4}, 1.5},
    {{"b", 1}, {"", 0}, {"", 0}, -1e300},
};

static const struct wire_status_reply status = {{"0.1", 3}, 1, INT64_MAX, 2, figures};

static void assert_str(struct str a, struct str b)
{
    assert_int_equal(a.n, b.n);
    assert_true(a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static void figures_come_back_as_they_were(void **state)
{
    struct wire_status_reply *out;
    struct buf b;

    buf_init(&b, 4096);
    assert_ok(wire_admin_status_reply_encode(&b, &status));
    assert_ok(wire_admin_status_reply_decode(&out, b.p, b.n));
    assert_true(out->started_ns == 1 && out->now_ns == INT64_MAX);
    assert_str(out->version, status.version);
    assert_int_equal(out->n, 2);
    for (size_t i = 0; i < out->n; i++) {
        assert_str(out->figures[i].name, figures[i].name);
        assert_str(out->figures[i].labels, figures[i].labels);
        assert_str(out->figures[i].help, figures[i].help);
        assert_true(out->figures[i].value == figures[i].value);
    }
    wire_admin_status_reply_free(out);
    buf_fini(&b);
}

static void every_shorter_status_is_refused_or_lacks_fields(void **state)
{
    size_t refused = 0;
    struct buf b;

    buf_init(&b, 4096);
    assert_ok(wire_admin_status_reply_encode(&b, &status));
    for (size_t n = 0; n < b.n; n++) {
        struct wire_status_reply *out;
        enum err e = wire_admin_status_reply_decode(&out, b.p, n);

        assert_true(e == ERR_OK || e == ERR_CORRUPT);
        if (e) {
            refused++;
        } else {
            wire_admin_status_reply_free(out);
        }
    }
    assert_true(refused > 0);
    buf_fini(&b);
}

static void too_many_figures_are_refused(void **state)
{
    static struct wire_figure many[WIRE_FIGURES_MAX + 1];
    struct wire_status_reply in = {.n = WIRE_FIGURES_MAX, .figures = many}, *out;
    struct buf b;

    buf_init(&b, 1 << 20);
    assert_ok(wire_admin_status_reply_encode(&b, &in));
    assert_ok(wire_admin_status_reply_decode(&out, b.p, b.n));
    wire_admin_status_reply_free(out);
    buf_put(&b, "\x22\x00", 2); /* one more, empty */
    assert_err(wire_admin_status_reply_decode(&out, b.p, b.n), ERR_FULL);
    in.n++;
    assert_err(wire_admin_status_reply_encode(&b, &in), ERR_INVALID);
    buf_fini(&b);
}

static void text_that_is_no_utf_8_is_refused(void **state)
{
    struct wire_status_reply *out;
    struct wire_disconnect d;

    assert_err(wire_admin_status_reply_decode(&out, "\x22\x04\x0a\x02\xc3\x28", 6), ERR_CORRUPT);
    assert_err(wire_admin_disconnect_decode(&d, "\x0a\x02\xc3\x28", 4), ERR_CORRUPT);
}

static void a_status_survives_every_failed_allocation(void **state)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long k = 0; e; k++) {
        struct wire_status_reply *out;
        struct buf b;

        buf_init(&b, 4096);
        mem_fail_after(k);
        e = wire_admin_status_reply_encode(&b, &status);
        e = e ? e : wire_admin_status_reply_decode(&out, b.p, b.n);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        if (!e) {
            wire_admin_status_reply_free(out);
        }
        buf_fini(&b);
        assert_int_equal(mem_live(), live);
        assert_true(k < 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_SHAPE_TESTS(all),
        cmocka_unit_test(the_number_of_connections_comes_back),
        cmocka_unit_test(figures_come_back_as_they_were),
        cmocka_unit_test(every_shorter_status_is_refused_or_lacks_fields),
        cmocka_unit_test(too_many_figures_are_refused),
        cmocka_unit_test(text_that_is_no_utf_8_is_refused),
        cmocka_unit_test(a_status_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
