#include "tests/support/t.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "common/os/os.h"

static const struct ledger_kind *kind_of(const char *stage, const char *reason)
{
    struct ledger_row row = {str_make(stage), str_make(reason), 1};

    return ledger_kind(&row);
}

static bool is_loss(const char *stage, const char *reason)
{
    struct ledger_row row = {str_make(stage), str_make(reason), 1};

    return ledger_is_loss(&row);
}

static void what_went_through_is_no_loss_and_an_unknown_reason_is_one(void **state)
{
    assert_false(is_loss("decode", "in"));
    assert_false(is_loss("decode", "unknown_class"));
    assert_true(is_loss("decode", "inner_ring_full"));
    assert_true(is_loss("batch", "out_of_paper")); /* no kind of "out" */
    assert_true(is_loss("source", "events_lost"));
    assert_true(is_loss("source", ""));
    assert_true(is_loss("", "full"));
    assert_false(is_loss("etw", "full_thread"));
    assert_false(is_loss("level", "down_cpu"));
    assert_false(is_loss("snap", "denied"));
    assert_true(is_loss("levels", "down_cpu"));
    assert_int_equal(kind_of("level", "down_cpu")->role, LEDGER_WHY);
    assert_int_equal(kind_of("nobody", "knows")->unit, LEDGER_EVENTS);
}

static void sums_end_where_nobody_believes_them(void **state)
{
    static const struct {
        uint64_t sum, count, add, sub;
    } rows[] = {
        {0, 0, 0, 0},
        {5, 3, 8, 2},
        {3, 5, 8, 0},
        {0, LEDGER_ROW_MAX, LEDGER_ROW_MAX, 0},
        {1, LEDGER_ROW_MAX + 1, LEDGER_MAX, 0},
        {12, UINT64_MAX - 11, LEDGER_MAX, 0},
        {LEDGER_MAX - 1, 1, LEDGER_MAX, LEDGER_MAX - 2},
        {LEDGER_MAX, 1, LEDGER_MAX, LEDGER_MAX},
        {UINT64_MAX, 1, LEDGER_MAX, LEDGER_MAX},
    };
    const struct ledger_row wraps[] = {{str_make("uplink"), str_make("in"), 7},
                                       {str_make("uplink"), str_make("out"), UINT64_MAX},
                                       {str_make("uplink"), str_make("held"), 8}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(ledger_add(rows[i].sum, rows[i].count) == rows[i].add);
        assert_true(ledger_sub(rows[i].sum, rows[i].count) == rows[i].sub);
    }
    assert_true(ledger_is_believed(LEDGER_MAX - 1) && !ledger_is_believed(LEDGER_MAX));
    assert_true(ledger_balance(wraps, COUNT_OF(wraps), "uplink") < 0);
}

/* A stage with an account has it in one unit, and whatever is dropped from it had come in. */
static void every_account_is_in_one_unit(void **state)
{
    const struct ledger_kind *all;
    size_t n = ledger_kinds(&all);

    for (size_t i = 0; i < n; i++) {
        const struct ledger_kind *in = NULL;

        for (size_t k = 0; k < n && !in; k++) {
            in = str_eq(all[k].stage, all[i].stage) && all[k].role == LEDGER_IN ? &all[k] : NULL;
        }
        if (all[i].role <= LEDGER_DROPPED && (!in || in->unit != all[i].unit)) {
            fail_msg("%s %s is in another unit than what came in", all[i].stage.p, all[i].reason.p);
        }
    }
}

static void every_row_stands_once_and_is_found(void **state)
{
    const struct ledger_kind *all;
    size_t n = ledger_kinds(&all);

    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(kind_of(all[i].stage.p, all[i].reason.p), &all[i]);
        assert_int_equal(ledger_place(&all[i]), i);
        assert_true(ledger_role_name(all[i].role)[0] != '\0');
        assert_true(ledger_unit_name(all[i].unit)[0] != '\0');
        assert_true(!all[i].loss || all[i].role == LEDGER_DROPPED || all[i].role == LEDGER_LOST);
        assert_true(!all[i].at_most || all[i].loss);
    }
    assert_int_equal(ledger_place(kind_of("nobody", "knows")), n);
    assert_string_equal(ledger_role_name(99), "");
    assert_string_equal(ledger_unit_name(99), "");
}

static void looking_behind_the_last_kind_finds_the_same(void **state)
{
    const struct ledger_kind *all;
    size_t n = ledger_kinds(&all);

    for (size_t i = 0; i < n; i++) {
        struct ledger_row row = {all[i].stage, all[i].reason, 1};

        for (size_t k = 0; k < n; k++) {
            assert_ptr_equal(ledger_kind_after(&all[k], &row), &all[i]);
        }
        assert_ptr_equal(ledger_kind_after(NULL, &row), &all[i]);
        row.reason = str_make("unheard");
        assert_ptr_equal(ledger_kind_after(&all[i], &row), ledger_kind(&row));
        assert_ptr_equal(ledger_kind_after(ledger_kind(&row), &row), ledger_kind(&row));
    }
}

static void an_account_balances_when_all_that_came_in_is_accounted_for(void **state)
{
    struct ledger_row rows[] = {
        {str_make("spool"), str_make("in"), 10},
        {str_make("spool"), str_make("recovered"), 2},
        {str_make("spool"), str_make("out"), 7},
        {str_make("spool"), str_make("held"), 3},
        {str_make("spool"), str_make("dropped"), 2},
        {str_make("spool"), str_make("events_dropped"), 90},
        {str_make("uplink"), str_make("out"), 5},
    };

    assert_int_equal(ledger_balance(rows, COUNT_OF(rows), "spool"), 0);
    rows[2].count = 6;
    assert_int_equal(ledger_balance(rows, COUNT_OF(rows), "spool"), 1);
    assert_int_equal(ledger_balance(rows, COUNT_OF(rows), "uplink"), -5);
    assert_int_equal(ledger_balance(rows, COUNT_OF(rows), "batch"), 0);
}

static void the_document_has_every_row(void **state)
{
    const struct ledger_kind *all;
    size_t n = ledger_kinds(&all), size;
    uint8_t *doc;

    assert_ok(os_read_file(&doc, &size, "docs/ledger.md", 1 << 20));
    for (size_t i = 0; i < n; i++) {
        const struct ledger_kind *k = &all[i];
        const char *quote = k->reason.n ? "`" : "";
        char row[160];

        (void)snprintf(row, sizeof row, "| `%s` | %s%s%s | %s | %s | %s%s |", k->stage.p, quote,
                       k->reason.n ? k->reason.p : "any", quote, ledger_role_name(k->role),
                       ledger_unit_name(k->unit), k->loss ? "LOSS" : "",
                       k->at_most ? " \xe2\x89\xa4" : "");
        if (!strstr((const char *)doc, row)) {
            fail_msg("docs/ledger.md lacks: %s", row);
        }
    }
    mem_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_went_through_is_no_loss_and_an_unknown_reason_is_one),
        cmocka_unit_test(every_account_is_in_one_unit),
        cmocka_unit_test(sums_end_where_nobody_believes_them),
        cmocka_unit_test(every_row_stands_once_and_is_found),
        cmocka_unit_test(looking_behind_the_last_kind_finds_the_same),
        cmocka_unit_test(an_account_balances_when_all_that_came_in_is_accounted_for),
        cmocka_unit_test(the_document_has_every_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
