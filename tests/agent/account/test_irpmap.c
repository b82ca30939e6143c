#include "tests/support/t.h"

#include "agent/account/irpmap.h"
#include "common/base/mem.h"

static void a_request_is_taken_once_by_its_address(void **state)
{
    struct instance p = {.generation = 3}, *got = NULL;
    uint64_t dropped = 0;
    struct irpmap *m;

    assert_ok(irpmap_create(&m, &dropped));
    assert_false(irpmap_take(m, 0, &got));
    irpmap_put(m, 0xfffffa8000001000, &p);
    irpmap_put(m, 0, NULL);
    assert_true(irpmap_take(m, 0xfffffa8000001000, &got));
    assert_ptr_equal(got, &p);
    assert_false(irpmap_take(m, 0xfffffa8000001000, &got));
    assert_true(irpmap_take(m, 0, &got));
    assert_null(got);
    irpmap_put(m, 5, &p);
    irpmap_clear(m);
    assert_false(irpmap_take(m, 5, &got));
    irpmap_put(m, 5, &p);
    assert_true(irpmap_take(m, 5, &got));
    irpmap_clear(m);
    assert_false(irpmap_take(m, 5, &got));
    irpmap_destroy(m);
}

static void a_later_request_at_an_address_replaces_the_former(void **state)
{
    struct instance p = {.generation = 1}, q = {.generation = 1}, *got = NULL;
    uint64_t dropped = 0;
    struct irpmap *m;

    assert_ok(irpmap_create(&m, &dropped));
    irpmap_put(m, 64, &p);
    irpmap_put(m, 64, &q);
    assert_true(irpmap_take(m, 64, &got));
    assert_ptr_equal(got, &q);
    assert_false(irpmap_take(m, 64, &got));
    assert_int_equal(dropped, 0);
    irpmap_destroy(m);
}

static void what_was_cleared_leaves_its_room(void **state)
{
    struct instance p = {.generation = 1}, *got;
    uint64_t dropped = 0;
    struct irpmap *m;

    assert_ok(irpmap_create(&m, &dropped));
    for (uint64_t i = 0; i < 4 * IRPMAP_MAX; i++) {
        irpmap_put(m, i * 0x190, &p);
    }
    irpmap_clear(m);
    dropped = 0;
    irpmap_put(m, 0x190, &p);
    irpmap_put(m, 0x320, &p);
    assert_int_equal(dropped, 0);
    assert_true(irpmap_take(m, 0x190, &got));
    assert_true(irpmap_take(m, 0x320, &got));
    assert_false(irpmap_take(m, 0x4b0, &got));
    irpmap_destroy(m);
}

static void an_issuer_that_is_gone_is_nobody(void **state)
{
    struct instance p = {.generation = 1}, *got = &p;
    uint64_t dropped = 0;
    struct irpmap *m;

    assert_ok(irpmap_create(&m, &dropped));
    irpmap_put(m, 64, &p);
    p.generation++;
    assert_true(irpmap_take(m, 64, &got));
    assert_null(got);
    irpmap_destroy(m);
}

static void beyond_the_limit_older_requests_go_and_are_counted(void **state)
{
    struct instance p = {.generation = 1}, *got;
    uint64_t dropped = 0, found = 0, n = 4 * IRPMAP_MAX;
    struct irpmap *m;

    assert_ok(irpmap_create(&m, &dropped));
    for (uint64_t i = 0; i < n; i++) {
        irpmap_put(m, i * 0x190, &p);
    }
    for (uint64_t i = 0; i < n; i++) {
        found += irpmap_take(m, i * 0x190, &got);
    }
    assert_int_equal(found + dropped, n);
    assert_true(found > IRPMAP_MAX / 2 && found <= IRPMAP_MAX);
    irpmap_destroy(m);
}

static void creation_survives_a_failing_allocation(void **state)
{
    uint64_t dropped;
    struct irpmap *m;

    mem_fail_after(0);
    assert_err(irpmap_create(&m, &dropped), ERR_NOMEM);
    mem_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_taken_once_by_its_address),
        cmocka_unit_test(a_later_request_at_an_address_replaces_the_former),
        cmocka_unit_test(what_was_cleared_leaves_its_room),
        cmocka_unit_test(an_issuer_that_is_gone_is_nobody),
        cmocka_unit_test(beyond_the_limit_older_requests_go_and_are_counted),
        cmocka_unit_test(creation_survives_a_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
