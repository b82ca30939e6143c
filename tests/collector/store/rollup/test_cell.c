#include "collector/store/rollup/cell.h"

#include "tests/support/t.h"

struct sample {
    int64_t when_ns, value;
};

static struct cell make(bool counter, const struct sample *s, size_t n)
{
    struct cell c = {0};

    for (size_t i = 0; i < n; i++) {
        cell_add(&c, counter, s[i].when_ns, s[i].value);
    }
    return c;
}

static void assert_same(const struct cell *a, const struct cell *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->first_ns, b->first_ns);
    assert_int_equal(a->last_ns, b->last_ns);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->last, b->last);
    assert_int_equal(a->sum, b->sum);
    assert_int_equal(a->min, b->min);
    assert_int_equal(a->max, b->max);
}

static const struct sample samples[] = {{10, 5}, {20, 9}, {30, 9}, {40, 4}, {50, 100}, {60, 101}};

static void a_cell_cut_anywhere_and_joined_is_the_same(void **state)
{
    for (int counter = 0; counter < 2; counter++) {
        struct cell whole = make(counter, samples, COUNT_OF(samples));

        for (size_t cut = 0; cut <= COUNT_OF(samples); cut++) {
            struct cell a = make(counter, samples, cut);
            struct cell b = make(counter, samples + cut, COUNT_OF(samples) - cut);
            struct cell ab = a, ba = b;

            cell_join(&ab, counter, &b);
            cell_join(&ba, counter, &a);
            assert_same(&ab, &whole);
            assert_same(&ba, &whole);
        }
    }
}

static void a_counter_has_growth_and_a_gauge_has_values(void **state)
{
    struct cell c = make(true, samples, COUNT_OF(samples));
    struct cell g = make(false, samples, COUNT_OF(samples));
    struct cell one = make(true, samples, 1);

    assert_int_equal(c.last - c.first, 96);
    assert_int_equal(c.min, -5);
    assert_int_equal(c.max, 96);
    assert_int_equal(g.sum, 228);
    assert_int_equal(g.min, 4);
    assert_int_equal(g.max, 101);
    assert_true(cell_grew(&c));
    assert_false(cell_grew(&one));
}

static void cells_that_share_a_sample_have_nothing_between_them(void **state)
{
    struct cell a = make(true, samples, 2), b = make(true, samples + 4, 2), between = a;
    struct cell whole = make(true, samples, 2);

    cell_add(&whole, true, 50, 100);
    cell_add(&whole, true, 60, 101);
    cell_follow(&b, &a);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.first_ns, 20);
    assert_int_equal(b.last - b.first, 92);
    assert_int_equal(b.max, 91);
    assert_int_equal(b.min, 1);
    cell_join(&between, true, &b);
    assert_same(&between, &whole);
    cell_follow(&b, &a); /* again: it begins there already */
    assert_int_equal(b.first_ns, 20);
}

static void a_later_base_takes_the_place_of_an_older_one(void **state)
{
    struct cell old = make(true, samples, 1), late = make(true, samples + 1, 2);
    struct cell c = make(true, samples + 4, 2);

    cell_follow(&c, &old);
    assert_int_equal(c.last - c.first, 96);
    cell_follow(&c, &late);
    assert_int_equal(c.last - c.first, 92);
    assert_int_equal(c.first_ns, 30);
    cell_follow(&c, &c); /* not older */
    assert_int_equal(c.first_ns, 30);
}

static void values_side_by_side_make_the_same_cell(void **state)
{
    static const int64_t odd[] = {5, 9, 9, 4, 100, 101, INT64_MAX, 7, INT64_MIN, INT64_MIN, 3};

    for (int counter = 0; counter < 2; counter++) {
        for (size_t from = 0; from < COUNT_OF(odd); from++) {
            for (size_t n = 1; from + n <= COUNT_OF(odd); n++) {
                bool base = counter && from > 0;
                struct cell c = {.count = n}, want = {0}, before = {0};

                for (size_t i = from; i < from + n; i++) {
                    cell_add(&want, counter, (int64_t)i, odd[i]);
                }
                if (base) {
                    cell_add(&before, true, (int64_t)from - 1, odd[from - 1]);
                    cell_follow(&want, &before);
                }
                c.first_ns = (int64_t)from - base;
                c.last_ns = (int64_t)(from + n) - 1;
                cell_values(&c, counter, odd + from, n, base);
                assert_same(&c, &want);
            }
        }
    }
}

/* Stamps of so few values that cells meet, overlap, lie apart, are out of order and empty. */
static void a_list_joins_as_its_cells_do_one_by_one(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        bool counter = round & 1;
        struct cell list[5], one_by_one = {0}, all = {0};

        for (size_t i = 0; i < COUNT_OF(list); i++) {
            int64_t x[6];

            for (size_t k = 0; k < COUNT_OF(x); k++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                x[k] = (int64_t)(random >> 33) % 8;
            }
            list[i] = (struct cell){.count = (uint64_t)x[0] / 2};
            if (list[i].count) {
                list[i] = (struct cell){list[i].count,
                                        (int64_t)i * 3 + x[1],
                                        (int64_t)i * 3 + x[1] + x[2] / 2,
                                        counter ? x[3] : 0,
                                        x[4],
                                        counter ? 0 : x[5] << 60,
                                        x[3],
                                        x[5]};
            }
            cell_join(&one_by_one, counter, &list[i]);
        }
        cell_join_list(&all, counter, list, COUNT_OF(list));
        assert_same(&all, &one_by_one);
    }
}

static void sums_stop_at_the_ends(void **state)
{
    static const struct sample huge[] = {{1, INT64_MAX}, {2, INT64_MAX}, {3, INT64_MAX}};
    static const struct sample deep[] = {{1, INT64_MIN}, {2, INT64_MIN}, {3, INT64_MAX}};

    assert_int_equal(make(false, huge, 3).sum, INT64_MAX);
    assert_int_equal(make(false, deep, 2).sum, INT64_MIN);
    assert_int_equal(make(true, deep, 3).max, INT64_MAX);
}

static void an_empty_cell_changes_nothing(void **state)
{
    struct cell none = {0}, c = make(true, samples, 3), d = c;

    cell_join(&c, true, &none);
    cell_follow(&c, &none);
    assert_same(&c, &d);
    cell_join(&none, true, &d);
    assert_same(&none, &d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_cut_anywhere_and_joined_is_the_same),
        cmocka_unit_test(a_counter_has_growth_and_a_gauge_has_values),
        cmocka_unit_test(cells_that_share_a_sample_have_nothing_between_them),
        cmocka_unit_test(a_later_base_takes_the_place_of_an_older_one),
        cmocka_unit_test(values_side_by_side_make_the_same_cell),
        cmocka_unit_test(a_list_joins_as_its_cells_do_one_by_one),
        cmocka_unit_test(sums_stop_at_the_ends),
        cmocka_unit_test(an_empty_cell_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
