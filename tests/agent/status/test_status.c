#include "agent/status/status.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

static struct status_keeper *keeper_new(void)
{
    struct status_keeper *k = mem_zalloc(sizeof *k);

    assert_non_null(k);
    return k;
}

static struct status *read_of(const struct status_keeper *k)
{
    struct status *s = mem_zalloc(sizeof *s);

    assert_non_null(s);
    status_keep_read(k, s);
    return s;
}

static void note(struct status_keeper *k, unsigned kind, int64_t wall_ns, const char *text)
{
    struct life_event ev = {.kind = (uint8_t)kind, .wall_ns = wall_ns, .text = str_make(text)};

    status_keep_note(k, &ev);
}

static void the_latest_notes_are_kept_in_order(void **state)
{
    struct status_keeper *k = keeper_new();
    struct status *s;

    for (int i = 0; i < 2 * STATUS_NOTES + 3; i++) {
        note(k, i % 2 ? LIFE_LEVEL : LIFE_SOURCE, i, i % 2 ? "odd" : "even");
        note(k, LIFE_PROCESS_START, i, "of a process");
    }
    s = read_of(k);
    assert_int_equal(k->n_notes, 2 * STATUS_NOTES + 3);
    assert_int_equal(s->n_notes, STATUS_NOTES);
    for (int i = 0; i < STATUS_NOTES; i++) {
        int n = STATUS_NOTES + 3 + i;

        assert_int_equal(s->notes[i].wall_ns, n);
        assert_int_equal(s->notes[i].level, n % 2);
        assert_string_equal(s->notes[i].text, n % 2 ? "odd" : "even");
    }
    mem_free(s);
    mem_free(k);
}

static void a_note_that_is_too_long_is_cut_between_characters(void **state)
{
    struct status_keeper *k = keeper_new();
    char text[STATUS_TEXT + 9];
    struct status *s;

    for (size_t i = 0; i + 2 < sizeof text; i += 2) {
        memcpy(text + i, "\xC3\xA4", 2);
    }
    text[sizeof text - 1] = '\0';
    text[0] = text[1] = 'a'; /* an odd number of bytes is left for the rest */
    note(k, LIFE_SOURCE, 1, text + 1);
    s = read_of(k);
    assert_int_equal(strlen(s->notes[0].text), STATUS_TEXT - 1);
    assert_memory_equal(s->notes[0].text, text + 1, STATUS_TEXT - 1);
    note(k, LIFE_SOURCE, 2, text);
    status_keep_read(k, s);
    assert_int_equal(strlen(s->notes[1].text), STATUS_TEXT - 2);
    mem_free(s);
    mem_free(k);
}

/* One reading of three counters. */
static void reading(struct status_keeper *k, int64_t minute, uint64_t lost, uint64_t late)
{
    const struct ledger_row rows[] = {
        {str_make("source"), str_make("in"), 1000},
        {str_make("source"), str_make("lost_events"), lost},
        {str_make("etw"), str_make("late"), late},
    };

    status_keep_ledger(k, minute * 60 * CLK_S, rows, COUNT_OF(rows));
}

static void the_last_hour_is_told_beside_all_since_the_start(void **state)
{
    struct status_keeper *k = keeper_new();
    struct status *s;

    for (int64_t minute = 0; minute <= 180; minute++) {
        reading(k, minute, minute < 10 ? 5 : minute < 170 ? 7 : 8, 0);
        s = read_of(k);
        assert_int_equal(s->n_losses, 1); /* neither what came in, nor what is 0 */
        assert_string_equal(s->losses[0].reason, "lost_events");
        assert_true(s->losses[0].missing);
        if (minute <= 60) {
            assert_int_equal(status_missing(s, false), minute < 10 ? 5 : 7);
        }
        if (minute >= 80 && minute < 170) {
            assert_int_equal(status_missing(s, false), 0);
        }
        mem_free(s);
    }
    s = read_of(k);
    assert_int_equal(status_lost(s, "source", "lost_events"), 1);
    assert_int_equal(status_lost(s, "source", "lost"), 0);
    assert_int_equal(status_missing(s, true), 8);
    mem_free(s);
    mem_free(k);
}

static void a_cause_is_told_and_no_second_loss(void **state)
{
    struct status_keeper *k = keeper_new();
    struct status *s;

    reading(k, 1, 3, 2);
    s = read_of(k);
    assert_int_equal(s->n_losses, 2);
    assert_false(s->losses[1].missing);
    assert_int_equal(status_lost(s, "etw", "late"), 2);
    assert_int_equal(status_missing(s, true), 3);
    mem_free(s);
    mem_free(k);
}

static void more_rows_than_there_is_room_for_are_left_out(void **state)
{
    static struct ledger_row rows[STATUS_ROWS + 20];
    struct status_keeper *k = keeper_new();
    struct status *s;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i] =
            (struct ledger_row){str_make("a stage whose name is far too long"),
                                str_make("and a reason that is even longer than that one"), 1};
    }
    status_keep_ledger(k, CLK_S, rows, COUNT_OF(rows));
    s = read_of(k);
    assert_int_equal(s->n_losses, STATUS_LOSSES);
    assert_int_equal(strlen(s->losses[0].stage), sizeof s->losses[0].stage - 1);
    mem_free(s);
    mem_free(k);
}

static void the_cost_is_the_mean_of_the_last_minutes(void **state)
{
    struct status_keeper *k = keeper_new();
    struct status *s = read_of(k);

    assert_int_equal(s->cost.span_ns, 0);
    mem_free(s);
    for (int64_t second = 0; second <= 1200; second++) { /* 1 % of a core, then 3 % */
        int64_t cpu_ns = second * CLK_S / 100 + (second > 600 ? (second - 600) * CLK_S / 50 : 0);

        status_keep_cost(k, 7 * CLK_S + second * CLK_S, 5 * CLK_S + cpu_ns, 1000 + second);
        s = read_of(k);
        if (second > 0 && second <= 600) {
            assert_int_equal(s->cost.cpu_ppm, 10000);
            assert_true(s->cost.span_ns == second * CLK_S || s->cost.span_ns >= 300 * CLK_S);
            assert_true(s->cost.span_ns <= 360 * CLK_S);
        } else if (second > 960) {
            assert_int_equal(s->cost.cpu_ppm, 30000);
        }
        assert_int_equal(s->cost.memory, 1000 + second);
        mem_free(s);
    }
    mem_free(k);
}

static void what_is_printed_cannot_steer_a_terminal(void **state)
{
    struct status s = {.source = "li\x1bve",
                       .uplink = "connected",
                       .polled = true,
                       .level = 2,
                       .n_notes = 1,
                       .notes = {{.wall_ns = CLK_S, .text = "lost\x1b[2J"}},
                       .n_losses = 1,
                       .losses = {{.missing = true, .total = 9, .hour = 4}}};
    struct buf text;

    buf_init(&text, 8192);
    status_print(&text, &s);
    assert_string_equal(buf_cstr(&text),
                        "source    li\\x1bve (polled: short lives are missed) since "
                        "1970-01-01T00:00:00Z\n"
                        "level     L2 since 1970-01-01T00:00:00Z\n"
                        "lost      4 in the last hour, 9 since 1970-01-01T00:00:00Z\n"
                        "collector connected since 1970-01-01T00:00:00Z, 0 batches wait\n"
                        "last      1970-01-01T00:00:01Z source: lost\\x1b[2J\n");
    buf_fini(&text);
}

static void what_waits_and_why_is_printed(void **state)
{
    struct status s = {.uplink = "failing",
                       .why = "the\x1b disk",
                       .written_ns = CLK_S,
                       .queue_held = 3,
                       .queue_bytes = 5000,
                       .aside_held = 2,
                       .aside_broken = 1,
                       .certificate_end_ns = 9 * 24 * 3600 * CLK_S};
    struct buf text;

    buf_init(&text, 8192);
    status_print(&text, &s);
    assert_non_null(strstr(buf_cstr(&text), ", 3 batches wait (4 KiB): the\\x1b disk\n"));
    assert_non_null(strstr(buf_cstr(&text), "aside     2 batches, of which 1 tried again by"));
    assert_non_null(strstr(buf_cstr(&text), "until 1970-01-10T00:00:00Z (8 days)"));
    buf_fini(&text);
}

static void the_lock_and_the_file_tell_whether_it_runs(void **state)
{
    static const struct {
        int64_t written_ns;
        bool running, locked;
        enum status_life life;
    } rows[] = {
        {0, false, false, STATUS_NEVER},          {0, false, true, STATUS_NEVER},
        {90 * CLK_S, true, true, STATUS_RUNS},    {69 * CLK_S, true, true, STATUS_SILENT},
        {90 * CLK_S, false, true, STATUS_SILENT}, {90 * CLK_S, true, false, STATUS_KILLED},
        {90 * CLK_S, false, false, STATUS_ENDED}, {200 * CLK_S, true, true, STATUS_RUNS},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct status s = {.written_ns = rows[i].written_ns, .running = rows[i].running};

        assert_int_equal(status_life(&s, rows[i].locked, 99 * CLK_S), rows[i].life);
    }
}

static void one_of_a_thing_is_not_several(void **state)
{
    static const struct {
        uint64_t n;
        const char *waits, *tries;
    } rows[] = {{0, ", 0 batches wait", "; 0 tries failed, the last: "},
                {1, ", 1 batch waits", "; 1 try failed, the last: "},
                {2, ", 2 batches wait", "; 2 tries failed, the last: "}};
    struct buf text;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct status s = {.queue_held = rows[i].n,
                           .certificate_end_ns = CLK_S,
                           .renew_failed = rows[i].n,
                           .renew_why = "refused"};

        buf_init(&text, 8192);
        status_print(&text, &s);
        assert_non_null(strstr(buf_cstr(&text), rows[i].waits));
        assert_non_null(strstr(buf_cstr(&text), rows[i].tries));
        buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_notes_are_kept_in_order),
        cmocka_unit_test(a_note_that_is_too_long_is_cut_between_characters),
        cmocka_unit_test(the_last_hour_is_told_beside_all_since_the_start),
        cmocka_unit_test(a_cause_is_told_and_no_second_loss),
        cmocka_unit_test(more_rows_than_there_is_room_for_are_left_out),
        cmocka_unit_test(the_cost_is_the_mean_of_the_last_minutes),
        cmocka_unit_test(what_is_printed_cannot_steer_a_terminal),
        cmocka_unit_test(what_waits_and_why_is_printed),
        cmocka_unit_test(the_lock_and_the_file_tell_whether_it_runs),
        cmocka_unit_test(one_of_a_thing_is_not_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
