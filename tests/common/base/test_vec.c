#include "tests/support/t.h"

#include "common/base/mem.h"
#include "common/base/vec.h"

struct point {
    uint64_t x, y;
};

struct points {
    struct point *p;
    size_t n, cap;
};

static enum err point_add(struct points *v, uint64_t x, size_t max)
{
    enum err e = VEC_ROOM(&v->p, &v->cap, v->n + 1, max);

    if (e == ERR_OK) {
        v->p[v->n++] = (struct point){x, ~x};
    }
    return e;
}

static void elements_stay_while_the_array_grows_to_its_limit(void **state)
{
    struct points v = {0};

    for (uint64_t i = 0; i < 1000; i++) {
        assert_ok(point_add(&v, i, 1000));
        assert_true(v.cap >= v.n && v.cap <= 1000);
    }
    assert_err(point_add(&v, 1000, 1000), ERR_FULL);
    assert_int_equal(v.n, 1000);
    for (uint64_t i = 0; i < v.n; i++) {
        assert_true(v.p[i].x == i && v.p[i].y == ~i);
    }
    mem_free(v.p);
}

static void what_is_asked_for_at_once_has_room(void **state)
{
    static const struct {
        size_t cap, need, max, then;
    } rows[] = {
        {0, 1, 5, 5},     {0, 1, 100, 8},     {0, 50, 100, 50},  {16, 17, 100, 32},
        {16, 17, 20, 20}, {64, 65, 100, 100}, {16, 40, 100, 40}, {16, 3, 100, 16},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct points v = {.cap = rows[i].cap};

        v.p = v.cap ? mem_array(v.cap, sizeof *v.p) : NULL;
        assert_ok(VEC_ROOM(&v.p, &v.cap, rows[i].need, rows[i].max));
        assert_int_equal(v.cap, rows[i].then);
        mem_free(v.p);
    }
}

static void no_size_overflows(void **state)
{
    struct points v = {0};

    assert_err(VEC_ROOM(&v.p, &v.cap, SIZE_MAX / 8, SIZE_MAX), ERR_NOMEM);
    assert_err(VEC_ROOM(&v.p, &v.cap, SIZE_MAX, SIZE_MAX), ERR_NOMEM);
    v.cap = SIZE_MAX / 2 + 2;
    assert_err(VEC_ROOM(&v.p, &v.cap, v.cap + 1, SIZE_MAX), ERR_NOMEM);
    assert_int_equal(v.cap, SIZE_MAX / 2 + 2);
    assert_null(v.p);
}

static void the_array_survives_every_failing_allocation(void **state)
{
    struct points v = {0};
    long live = mem_live();

    for (uint64_t i = 0; i < 100; i++) {
        mem_fail_after(0);
        if (v.n == v.cap) {
            assert_err(point_add(&v, i, 100), ERR_NOMEM);
            assert_int_equal(v.n, i);
        }
        mem_fail_after(-1);
        assert_ok(point_add(&v, i, 100));
    }
    for (uint64_t i = 0; i < v.n; i++) {
        assert_true(v.p[i].x == i);
    }
    mem_free(v.p);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stay_while_the_array_grows_to_its_limit),
        cmocka_unit_test(what_is_asked_for_at_once_has_room),
        cmocka_unit_test(no_size_overflows),
        cmocka_unit_test(the_array_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
