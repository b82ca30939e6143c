#include "common/wire/wire_enroll.h"

#include <string.h>

#include "tests/common/wire/wire_shape.h"

WIRE_SHAPE(enroll, enroll,
           {.token = "pf1-0123", .name = "web-01", .version = "1.2", .csr = {1, 0, 2}, 3})
WIRE_SHAPE(renew, enroll_renew, {{3, 4}, 2})
WIRE_SHAPE(renew_expired, enroll_renew_expired, {{5}, 1, {6, 7}, 2, {8, 9, 10}, 3})
WIRE_SHAPE(certificate, enroll_certificate, {{11}, 1, {12, 13}, 2, INT64_MIN})

static const struct wire_shape shapes[] = {
    WIRE_SHAPE_ROW(enroll),
    WIRE_SHAPE_ROW(renew),
    WIRE_SHAPE_ROW(renew_expired),
    WIRE_SHAPE_ROW(certificate),
};

static struct wire_shapes all = {shapes, COUNT_OF(shapes)};

static void full_arrays_fit_and_fuller_ones_are_refused(void **state)
{
    struct wire_renew_expired m = {
        .csr_n = WIRE_CSR_MAX, .certificate_n = WIRE_CERT_MAX, .signature_n = WIRE_SIGNATURE_MAX};
    static const struct {
        uint8_t tag;
        size_t n;
    } rows[] = {{0x0a, WIRE_CSR_MAX}, {0x12, WIRE_CERT_MAX}, {0x1a, WIRE_SIGNATURE_MAX}};
    struct wire_renew_expired out;
    struct buf b;

    buf_init(&b, 8192);
    assert_ok(wire_enroll_renew_expired_encode(&b, &m));
    assert_ok(wire_enroll_renew_expired_decode(&out, b.p, b.n));
    assert_int_equal(out.certificate_n, WIRE_CERT_MAX);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        buf_reset(&b);
        buf_put_u8(&b, rows[i].tag);
        buf_put_varint(&b, rows[i].n + 1);
        memset(buf_grow(&b, rows[i].n + 1), 7, rows[i].n + 1);
        assert_err(wire_enroll_renew_expired_decode(&out, b.p, b.n), ERR_CORRUPT);
    }
    buf_fini(&b);
}

static void text_obeys_the_rules(void **state)
{
    static const char *const bad[] = {
        "\x1a\x02\xc3\x28", /* no UTF-8 in the name */
        "\x22\x20"
        "0123456789abcdef0123456789abcdef", /* version without room for its NUL */
    };
    struct wire_enroll out;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(wire_enroll_decode(&out, bad[i], strlen(bad[i])), ERR_CORRUPT);
    }
    assert_err(wire_enroll_decode(&out,
                                  "\x1a\x02"
                                  "a\0",
                                  4),
               ERR_CORRUPT); /* NUL in the name */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_SHAPE_TESTS(all),
        cmocka_unit_test(full_arrays_fit_and_fuller_ones_are_refused),
        cmocka_unit_test(text_obeys_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
