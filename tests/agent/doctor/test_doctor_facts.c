/* What follows from what was measured on a Windows host; and the size of its tables, from any
 * bytes. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor_facts.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

struct found {
    char text[40][300]; /* "check state detail" */
    size_t n;
};

static void on_found(void *ctx, const struct check_result *f)
{
    struct found *all = ctx;

    assert_true(all->n < COUNT_OF(all->text));
    (void)snprintf(all->text[all->n++], sizeof all->text[0], "%s %s %s", f->check,
                   check_result_state_text(f->state), f->detail);
    assert_true(f->state != CHECK_RESULT_WARNING || f->fix[0]);
}

static void judge(struct found *out, const struct doctor_seen *seen)
{
    struct findings to = {.found = on_found, .ctx = out};
    struct doctor d = {.all = &to};

    memset(out, 0, sizeof *out);
    doctor_facts_tell(&d, seen);
}

static bool says(const struct found *all, const char *begin)
{
    for (size_t i = 0; i < all->n; i++) {
        if (strncmp(all->text[i], begin, strlen(begin)) == 0) {
            return true;
        }
    }
    return false;
}

/* A host as the documentation has it. */
static struct doctor_seen sound(void)
{
    struct doctor_seen s = {
        .reads = true,
        .loggers = 64,
        .living = 300,
        .told_once = 0,
        .told = 298,
        .masks = 8,
        .kp_start = 3,
        .kp_stop = 2,
        .forced = true,
        .counted_events = 500,
        .told_events = 9,
        .delays = {{0, 8, 8, 100 * CLK_US, 500 * CLK_MS, 900 * CLK_MS},
                   {20, 8, 8, 100 * CLK_US, 9 * CLK_MS, 20 * CLK_MS},
                   {5, 8, 8, 100 * CLK_US, 3 * CLK_MS, 6 * CLK_MS}},
        .records = 1000,
        .switches = 200000,
        .switches_ns = 2 * CLK_S,
        .children = 100,
        .children_seen = 100,
        .children_lines = 100,
        .end_told = 12345,
        .end_known = 12345,
        .keys = 298,
        .tick_ns = 15625 * CLK_US,
        .cycles = 8000000000,
        .cycles_ns = CLK_S,
        .cpus = 4,
        .handles_known = true,
        .interval_before = 10000,
        .interval_after = 10000,
        .path_tried = true,
        .path_works = true,
    };

    return s;
}

static void a_host_as_documented_confirms_all(void **state)
{
    struct doctor_seen s = sound();
    struct found all;

    judge(&all, &s);
    for (size_t i = 0; i < all.n; i++) {
        assert_null(strstr(all.text[i], " warning "));
    }
    assert_true(says(&all, "fact.rundown ok 298 processes were told when the flags were set to "
                           "none first, 0 without; the table has 300"));
    assert_true(says(&all, "fact.masks ok group masks of 32 bytes"));
    assert_true(says(&all, "fact.switches ok 100000 records a second"));
    assert_true(says(&all, "fact.cycles ok all processes and idle: 8000000000 cycles in 1000000 us "
                           "on 4 CPUs, 1999 MHz each"));
    assert_true(says(&all, "fact.delay ok flushed each 20 ms: 8 of 8 starts told, after 100 to "
                           "20000 us, median 9000"));
    assert_true(says(&all, "fact.service skipped"));
}

static void each_thing_that_differs_is_told(void **state)
{
    struct doctor_seen rows[12];
    static const char *const begins[] = {
        "fact.rundown warning 0 processes",
        "fact.masks warning group masks of no bytes",
        "fact.versions warning Kernel-Process: start of version -1",
        "fact.loss warning under an overload on purpose the session counted 500 events",
        "fact.loss skipped no event was lost",
        "fact.delay warning flushed each 20 ms: 7 of 8",
        "fact.order warning 3 of 1000",
        "fact.children warning of 100 children that lived for a moment 100 starts were told, 99",
        "fact.totals warning a child's end told 12000 cycles, its handle 12345",
        "fact.handles warning 1 handle of another process was held",
        "fact.interval warning CPU samples of this machine: each 1000 us before, each 122 us after",
        "fact.names warning",
    };
    struct found all;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i] = sound();
    }
    rows[0].told = 0;
    rows[1].masks = 0;
    rows[2].kp_start = -1;
    rows[3].told_events = 0;
    rows[4].told_events = rows[4].counted_events = 0;
    rows[5].delays[1].seen = 7;
    rows[6].backwards = 3;
    rows[7].children_lines = 99;
    rows[8].end_told = 12000;
    rows[9].handles = 1;
    rows[10].interval_after = 1221;
    rows[11].path_works = false;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        judge(&all, &rows[i]);
        if (!says(&all, begins[i])) {
            fail_msg("nothing begins with '%s'", begins[i]);
        }
    }
}

static void without_a_session_the_rest_is_told_all_the_same(void **state)
{
    struct doctor_seen s = {.tick_ns = 10 * CLK_MS, .handles_known = true};
    struct found all;

    (void)snprintf(s.why.text, sizeof s.why.text, "access denied");
    judge(&all, &s);
    assert_true(says(&all, "fact.sessions skipped not applicable here"));
    assert_false(says(&all, "fact.rundown"));
    assert_true(says(&all, "fact.ticks ok CPU times in the table are multiples of 10000 us"));
    assert_true(says(&all, "fact.cycles skipped"));
    assert_true(says(&all, "fact.handles ok"));
}

/* Two rows with a thread behind the first. */
static size_t two_rows(uint8_t p[0x300])
{
    memset(p, 0, 0x300);
    p[0x01] = 0x02; /* next: 0x200 */
    p[0x18] = 0x10; /* cycles */
    p[0x28] = 100;  /* user */
    p[0x30] = 250;  /* kernel */
    p[0x218] = 0x20;
    p[0x228] = 75;
    return 0x300;
}

static void a_table_is_read(void **state)
{
    struct doctor_table t;
    uint8_t p[0x300];

    assert_ok(doctor_facts_table(&t, p, two_rows(p)));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.cycles, 0x30);
    assert_int_equal(t.tick, 25);
}

static void every_shorter_table_and_hostile_offsets_are_refused(void **state)
{
    struct doctor_table t;
    uint8_t p[0x300];

    for (size_t n = 0, full = two_rows(p); n < full; n++) {
        uint8_t *exact = mem_dup(p, n ? n : 1);

        assert_err(doctor_facts_table(&t, exact, n), ERR_CORRUPT);
        mem_free(exact);
    }
    for (unsigned next = 1; next < 0x100; next++) { /* within itself */
        p[0] = (uint8_t)next;
        p[1] = 0;
        assert_err(doctor_facts_table(&t, p, sizeof p), ERR_CORRUPT);
    }
    memset(p, 0xff, 4);
    assert_err(doctor_facts_table(&t, p, sizeof p), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_as_documented_confirms_all),
        cmocka_unit_test(each_thing_that_differs_is_told),
        cmocka_unit_test(without_a_session_the_rest_is_told_all_the_same),
        cmocka_unit_test(a_table_is_read),
        cmocka_unit_test(every_shorter_table_and_hostile_offsets_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
