#include "collector/cli/watch/watch.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/metric.h"
#include "common/wire/wire_overview.h"
#include "tests/support/t.h"

#define NOW (INT64_C(1795356000) * CLK_S) /* 2026-11-22 14:00:00 */

/* Five processes on two hosts, the second silent; names are what hostile names are. */
static const char *const names[] = {"postgres", "\x1b[2Jevil\n", "\u65e5\u672c\u8a9e-server",
                                    "a-name-that-is-much-longer-than-any-column-wants-to-be", "sh"};

#define PROCESSES COUNT_OF(names)

static struct wire_answer *over_the_wire(const struct wire_answer *in)
{
    struct wire_answer *out;
    struct buf b;

    buf_init(&b, 1 << 20);
    assert_ok(wire_answer_encode(&b, in));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    buf_fini(&b);
    return out;
}

static struct proc_info process(size_t i)
{
    struct proc_info p = {.id = {.pid = (uint32_t)(100 + i), .start = 7 + i},
                          .have = INFO_PARENT | INFO_COMMAND_LINE_KNOWN,
                          .parent_pid = i ? 100 + (uint32_t)i - 1 : 1,
                          .name = str_make(names[i]),
                          .user = str_make("root"),
                          .command_line = str_make("/usr/bin/thing --with options")};

    return p;
}

/* The newest of a table: process `first` leads. */
static struct wire_answer *rows_of(const struct watch *w, size_t first, bool history)
{
    struct wire_host hosts[2] = {{.name = str_make("lab-1"), .connected = true},
                                 {.name = str_make("lab-2")}};
    int64_t values[PROCESSES][WATCH_METRICS_MAX];
    struct wire_row rows[PROCESSES];
    struct str note = str_make("coverage 99.97 %, 12 events lost on lab-1 14:02");
    struct wire_answer a = {.n_hosts = 2,
                            .hosts = hosts,
                            .n_metrics = w->ask.n_metrics,
                            .n_rows = PROCESSES,
                            .rows = rows,
                            .n_notes = 1,
                            .notes = &note};

    hosts[0].id.b[0] = 1;
    hosts[1].id.b[0] = 2;
    memcpy(a.metrics, w->ask.metrics, w->ask.n_metrics);
    for (size_t i = 0; i < PROCESSES; i++) {
        size_t who = history ? 0 : (first + i) % PROCESSES;

        for (size_t k = 0; k < WATCH_METRICS_MAX; k++) {
            values[i][k] = (int64_t)(1000 * (PROCESSES - i) + k);
        }
        rows[i] = (struct wire_row){.host = (uint32_t)(who % 2),
                                    .info = process(who),
                                    .when_ns = NOW + (int64_t)i * CLK_S,
                                    .have = (1u << w->ask.n_metrics) - 1,
                                    .values = values[i],
                                    .depth = (uint32_t)i};
        if (w->ask.group_by == WIRE_GROUP_IMAGE) { /* as a collector of one host has it */
            rows[i].host = 0;
            rows[i].info.id = (struct proc_id){0};
        }
    }
    return over_the_wire(&a);
}

static struct wire_answer *tree_of(void)
{
    struct wire_host host = {.name = str_make("lab-1"), .connected = true};
    struct wire_row rows[3];
    static const char *const who[] = {"init", "shell", "postgres"};
    struct wire_answer a = {.n_hosts = 1, .hosts = &host, .n_rows = 3, .rows = rows};

    for (uint32_t i = 0; i < 3; i++) {
        struct proc_info p = process(0);

        p.id.pid = i < 2 ? 1 + i : p.id.pid;
        p.id.start = i < 2 ? 1 : p.id.start;
        p.name = str_make(who[i]);
        rows[i] = (struct wire_row){.info = p, .when_ns = NOW, .depth = i};
    }
    return over_the_wire(&a);
}

static struct wire_answer *events_of(void)
{
    struct wire_host host = {.name = str_make("lab-1"), .connected = true};
    struct wire_event events[3];
    struct wire_answer a = {.n_hosts = 1, .hosts = &host, .n_events = 3, .events = events};

    for (size_t i = 0; i < 3; i++) {
        events[i] = (struct wire_event){.event = {.kind = LIFE_PROCESS_START,
                                                  .wall_ns = NOW + (int64_t)i * CLK_S,
                                                  .info = process(i)}};
    }
    return over_the_wire(&a);
}

static struct wire_answer *overview_of(void)
{
    struct wire_overview o = {
        .now_ns = NOW, .connected = 1, .silent = 1, .processes = 5, .cpus = 4};
    struct wire_answer a = {.overview = &o};

    return over_the_wire(&a);
}

static struct watch_answer *answer_to(const struct watch *w, size_t first)
{
    struct watch_answer *a = mem_zalloc(sizeof *a);

    assert_non_null(a);
    a->question = w->ask;
    a->when_ns = NOW;
    if (w->ask.page == WATCH_EVENTS) {
        a->rows = events_of();
    } else {
        a->rows = rows_of(w, first, w->ask.page == WATCH_DETAILS);
        a->tree = w->ask.page == WATCH_DETAILS ? tree_of() : NULL;
    }
    a->overview = overview_of();
    return a;
}

/* A group's answer: lab-1 lives, lab-2 is a recording that ended, lab-3 was heard an hour ago. */
static struct wire_answer *loads_of(void)
{
    struct wire_host hosts[3] = {
        {.name = str_make("lab-1"), .connected = true, .cpus = 4, .last_ns = NOW},
        {.name = str_make("lab-2"), .replay = true, .ended = true, .cpus = 26, .last_ns = NOW},
        {.name = str_make("lab-3"), .cpus = 8, .last_ns = NOW - 3600 * CLK_S}};
    const int64_t busy[] = {500, 20000, 8000};
    struct wire_row rows[3];
    struct wire_answer a = {.n_hosts = 3,
                            .hosts = hosts,
                            .n_metrics = 1,
                            .metrics = {M_CPU_PERCENT},
                            .n_rows = 3,
                            .rows = rows};

    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = (struct wire_row){.host = i, .have = 1, .values = &busy[i]};
        hosts[i].id.b[0] = (uint8_t)(i + 1);
    }
    return over_the_wire(&a);
}

static void lose(struct watch *w, const char *problem)
{
    struct watch_answer *a = mem_zalloc(sizeof *a);

    assert_non_null(a);
    a->question = w->ask;
    memcpy(a->problem, problem, strlen(problem) + 1);
    watch_take(w, a);
}

static void begin(struct watch *w)
{
    watch_init(w, "localhost:7421");
    watch_take(w, answer_to(w, 0));
}

static unsigned press(struct watch *w, enum key_kind kind, uint32_t ch)
{
    struct key k = {.kind = kind, .ch = ch};

    return watch_key(w, &k);
}

static unsigned type(struct watch *w, const char *text, bool pasted)
{
    unsigned wish = 0;

    for (; *text; text++) {
        struct key k = {.kind = KEY_CHAR, .ch = (uint32_t)*text, .pasted = pasted};

        wish |= watch_key(w, &k);
    }
    return wish;
}

static const char *picture(struct watch *w, unsigned rows, unsigned columns, struct buf *b)
{
    struct screen *s;

    assert_ok(screen_create(&s, false));
    assert_ok(screen_reset(s, rows, columns));
    watch_fit(w, rows, columns);
    watch_draw(w, s, NOW + CLK_S);
    buf_reset(b);
    screen_text(b, s);
    screen_destroy(s);
    return buf_cstr(b);
}

static void expect(struct watch *w, unsigned rows, unsigned columns, const char *expected)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    assert_string_equal(picture(w, rows, columns, &b), expected);
    buf_fini(&b);
}

static bool shows(struct watch *w, unsigned rows, unsigned columns, const char *text)
{
    struct buf b;
    bool there;

    buf_init(&b, 1 << 20);
    there = strstr(picture(w, rows, columns, &b), text) != NULL;
    buf_fini(&b);
    return there;
}

static void the_dead_have_no_part_in_the_fleets_cpu(void **state)
{
    struct watch w;
    struct watch_answer *a;

    watch_init(&w, "localhost:7421");
    a = answer_to(&w, 0);
    a->hosts = loads_of();
    watch_take(&w, a);
    assert_true(shows(&w, 12, 120, "cpu 12.5% of 4"));
    watch_fini(&w);
}

/* -- pictures -- */

static void a_wide_screen_has_all_columns(void **state)
{
    struct watch w;

    begin(&w);
    expect(
        &w, 12, 130,
        "procfleet localhost:7421  14:00:00Z connected\n"
        "hosts 1 connected 1 silent  processes 5  coverage 99.97 %, 12 events lost on lab-1 14:02\n"
        "by cpu_percent  group process  last 30s  every 2s\n"
        "    PID HOST   NAME                            CPU%    MEMORY    READ/s WRITTEN/s THREADS "
        "CPU TIME USER   COMMAND\n"
        "    100 lab-1  postgres                      500.0%    4.9KiB      166B      166B    5004 "
        "     5us root   /usr/bin/thing --with o…\n"
        "    101 lab-2  \\x1b[2Jevil\\x0a               400.0%    3.9KiB      133B      133B    "
        "4004      4us root   /usr/bin/thing --with o…\n"
        "    102 lab-1  日本語-server                 300.0%    2.9KiB      100B      100B    3004 "
        "     3us root   /usr/bin/thing --with o…\n"
        "    103 lab-2  a-name-that-is-much-longer-…  200.0%    2.0KiB       66B       66B    2004 "
        "     2us root   /usr/bin/thing --with o…\n"
        "    104 lab-1  sh                            100.0%     1001B       33B       33B    1004 "
        "     1us root   /usr/bin/thing --with o…\n"
        "\n"
        "\n"
        "1/5  ? help  q quit  Enter details  e events  g group  / name  h host\n");
    watch_fini(&w);
}

static void a_narrow_screen_keeps_what_matters(void **state)
{
    struct watch w;

    begin(&w);
    expect(&w, 5, 20,
           "14:00:00Z connected\n"
           "NAME            CPU%\n"
           "postgres      500.0%\n"
           "\\x1b[2Jevil…  400.0%\n"
           "1/5  ? help  q quit…\n");
    expect(&w, 8, 46,
           "14:00:00Z connected\n"
           "hosts 1 connected 1 silent  processes 5  cove…\n"
           "    PID HOST   NAME             CPU%    MEMORY\n"
           "    100 lab-1  postgres       500.0%    4.9KiB\n"
           "    101 lab-2  \\x1b[2Jevil\\…  400.0%    3.9KiB\n"
           "    102 lab-1  日本語-server  300.0%    2.9KiB\n"
           "    103 lab-2  a-name-that-…  200.0%    2.0KiB\n"
           "1/5  ? help  q quit  Enter details  e events …\n");
    expect(&w, 1, 1, "\u2026\n");
    watch_fini(&w);
}

static void details_show_parents_and_history(void **state)
{
    struct watch w;

    begin(&w);
    assert_int_equal(press(&w, KEY_ENTER, 0), WATCH_AGAIN);
    assert_int_equal(w.ask.page, WATCH_DETAILS);
    assert_int_equal(w.ask.who.pid, 100);
    assert_true(shows(&w, 20, 80, "asking"));
    watch_take(&w, answer_to(&w, 0));
    expect(&w, 20, 80,
           "procfleet localhost:7421  14:00:00Z connected\n"
           "hosts 1 connected 1 silent  processes 5  coverage 99.97 %, 12 events lost on la…\n"
           "by cpu_percent  group process  last 30s  every 2s\n"
           "postgres on lab-1\n"
           "pid 100  parent 1  user root\n"
           "parents  init 1 > shell 2 > postgres 100\n"
           "command  /usr/bin/thing --with options\n"
           "\n"
           "cpu_percent       ███▇▇▇▇▇▇▆▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂ 100.0%  max 500.0%\n"
           "working_set_size  ███▇▇▇▇▇▇▆▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂ 1001B  max 4.9KiB\n"
           "read_bytes        ███▇▇▇▇▇▇▆▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂ 1002B  max 4.9KiB\n"
           "write_bytes       ███▇▇▇▇▇▇▆▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂ 1003B  max 4.9KiB\n"
           "thread_count      ███▇▇▇▇▇▇▆▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂ 1004  max 5004\n"
           "cpu_time          ███▇▇▇▇▇▇▆▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂ 1us  max 5us\n"
           "\n"
           "\n"
           "\n"
           "\n"
           "\n"
           "Esc back  ? help  q quit  [ ] window  space pause\n");
    assert_int_equal(press(&w, KEY_ESC, 0), WATCH_AGAIN);
    assert_int_equal(w.ask.page, WATCH_TABLE);
    watch_fini(&w);
}

static void events_of_a_host_are_listed_newest_last(void **state)
{
    struct watch w;

    begin(&w);
    type(&w, "e", false);
    watch_take(&w, answer_to(&w, 0));
    expect(&w, 9, 80,
           "procfleet localhost:7421  14:00:00Z connected\n"
           "hosts 1 connected 1 silent  processes 5  coverage 99.97 %, 12 events lost on la…\n"
           "Events of lab-1 in the last 15min  (3)\n"
           "14:00:00.000 process_start 100     postgres                       /usr/bin/thin…\n"
           "14:00:01.000 process_start 101     \\x1b[2Jevil\\x0a                /usr/bin/thin…\n"
           "14:00:02.000 process_start 102     日本語-server                  /usr/bin/thin…\n"
           "\n"
           "\n"
           "Esc back  ? help  q quit  [ ] window  space pause\n");
    press(&w, KEY_UP, 0);
    assert_true(shows(&w, 5, 80, "14:00:01.000"));
    assert_false(shows(&w, 5, 80, "14:00:02.000"));
    watch_fini(&w);
}

/* -- questions -- */

static void keys_change_the_order(void **state)
{
    static const struct {
        char key;
        uint8_t metric;
    } table[] = {{'m', M_WORKING_SET_SIZE}, {'r', M_READ_BYTES},  {'w', M_WRITE_BYTES},
                 {'t', M_THREAD_COUNT},     {'>', M_CPU_TIME},    {'>', M_CPU_PERCENT},
                 {'<', M_CPU_TIME},         {'c', M_CPU_PERCENT}, {'>', M_WORKING_SET_SIZE}};
    struct watch w;

    begin(&w);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        unsigned number = w.ask.number;

        assert_int_equal(type(&w, (char[]){table[i].key, '\0'}, false), WATCH_AGAIN);
        assert_int_equal(w.ask.metrics[0], table[i].metric);
        assert_int_equal(w.ask.n_metrics, 6);
        assert_int_not_equal(w.ask.number, number);
    }
    watch_fini(&w);
}

static void an_order_of_ones_own_is_a_column(void **state)
{
    struct watch w;

    watch_init(&w, "x");
    watch_order(&w, M_PAGE_FAULTS);
    assert_int_equal(w.ask.metrics[0], M_PAGE_FAULTS);
    assert_int_equal(w.ask.n_metrics, 7);
    watch_take(&w, answer_to(&w, 0));
    assert_true(shows(&w, 12, 100, "page_faul"));
    watch_fini(&w);
}

static void groups_go_round_and_lead_to_their_processes(void **state)
{
    static const uint8_t order[] = {WIRE_GROUP_IMAGE, WIRE_GROUP_USER, WIRE_GROUP_HOST,
                                    WIRE_GROUP_TREE,  WIRE_GROUP_NONE, WIRE_GROUP_IMAGE};
    struct watch w;

    begin(&w);
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        assert_int_equal(type(&w, "g", false), WATCH_AGAIN);
        assert_int_equal(w.ask.group_by, order[i]);
    }
    for (uint8_t by = WIRE_GROUP_FLEET; by <= WIRE_GROUP_IMAGE_USER; by++) { /* by option only */
        w.ask.group_by = by;
        assert_int_equal(type(&w, "gg", false), WATCH_AGAIN);
        assert_int_equal(w.ask.group_by, WIRE_GROUP_IMAGE);
    }
    watch_take(&w, answer_to(&w, 0));
    assert_int_equal(press(&w, KEY_ENTER, 0), WATCH_AGAIN);
    assert_int_equal(w.ask.group_by, WIRE_GROUP_NONE);
    assert_string_equal(w.ask.name, "postgres");
    watch_fini(&w);
}

static void the_cursor_stays_with_its_group(void **state)
{
    struct watch w;

    begin(&w);
    type(&w, "g", false);
    watch_take(&w, answer_to(&w, 0));
    press(&w, KEY_DOWN, 0);
    press(&w, KEY_DOWN, 0);
    watch_take(&w, answer_to(&w, 4));
    assert_int_equal(w.selected, 3);
    watch_fini(&w);
}

static void prompts_set_filters(void **state)
{
    struct watch w;

    begin(&w);
    assert_int_equal(type(&w, "/", false), 0);
    assert_int_equal(type(&w, "pq", false), 0); /* letters are text here */
    assert_int_equal(press(&w, KEY_BACKSPACE, 0), 0);
    assert_int_equal(type(&w, "ost", true), 0); /* and so is a paste */
    assert_true(shows(&w, 6, 60, "all): post"));
    assert_int_equal(press(&w, KEY_ENTER, 0), WATCH_AGAIN);
    assert_string_equal(w.ask.name, "*post*");

    type(&w, "h", false);
    type(&w, "lab-?", false);
    assert_int_equal(press(&w, KEY_ENTER, 0), WATCH_AGAIN);
    assert_string_equal(w.ask.host, "lab-?");

    type(&w, "h", false);
    assert_int_equal(press(&w, KEY_CTRL, 'u'), 0);
    type(&w, "other", false);
    assert_int_equal(press(&w, KEY_ESC, 0), 0);
    assert_string_equal(w.ask.host, "lab-?");
    watch_fini(&w);
}

static void a_prompt_takes_no_more_than_its_room(void **state)
{
    struct watch w;

    begin(&w);
    type(&w, "/", false);
    for (int i = 0; i < 2 * WATCH_TEXT; i++) {
        press(&w, KEY_CHAR, 0x65E5);
    }
    assert_true(w.typed_n < WATCH_TEXT);
    assert_int_equal(w.typed_n % 3, 0);
    assert_true(shows(&w, 6, 60, "\u65e5\n"));
    press(&w, KEY_BACKSPACE, 0);
    assert_int_equal(w.typed_n % 3, 0);
    press(&w, KEY_ENTER, 0);
    assert_true(strlen(w.ask.name) < WATCH_TEXT);
    watch_fini(&w);
}

static void a_paste_outside_of_a_prompt_does_nothing(void **state)
{
    struct watch w;
    unsigned number;

    begin(&w);
    number = w.ask.number;
    assert_int_equal(type(&w, "qgm/e", true), 0);
    assert_int_equal(w.ask.number, number);
    assert_int_equal(w.prompt, WATCH_NO_PROMPT);
    watch_fini(&w);
}

static void keys_of_the_program_are_wishes(void **state)
{
    struct watch w;

    begin(&w);
    assert_int_equal(type(&w, "q", false), WATCH_QUIT);
    assert_int_equal(press(&w, KEY_CTRL, 'c'), WATCH_QUIT);
    assert_int_equal(press(&w, KEY_CTRL, 'z'), WATCH_SUSPEND);
    assert_int_equal(press(&w, KEY_CTRL, 'l'), WATCH_REDRAW);
    assert_int_equal(type(&w, " ", false), 0);
    assert_true(w.paused);
    assert_true(shows(&w, 6, 100, "paused"));
    assert_int_equal(type(&w, " ", false), WATCH_AGAIN);
    type(&w, "+", false);
    assert_int_equal(w.every_ns, 5 * CLK_S);
    type(&w, "----", false);
    assert_int_equal(w.every_ns, CLK_S / 2);
    assert_int_equal(type(&w, "]", false), WATCH_AGAIN);
    assert_int_equal(w.ask.window_ns, 60 * CLK_S);
    type(&w, "?", false);
    assert_true(shows(&w, 24, 80, "page up"));
    assert_int_equal(type(&w, "g", false), 0); /* any key goes back */
    assert_false(shows(&w, 24, 80, "page up"));
    watch_fini(&w);
}

/* -- the cursor -- */

static void the_cursor_stays_with_its_process(void **state)
{
    struct watch w;

    begin(&w);
    press(&w, KEY_DOWN, 0);
    press(&w, KEY_DOWN, 0);
    assert_int_equal(w.selected, 2);
    watch_take(&w, answer_to(&w, 1)); /* everybody is one higher */
    assert_int_equal(w.selected, 1);
    press(&w, KEY_UP, 0);
    watch_take(&w, answer_to(&w, 2));
    assert_int_equal(w.selected, 0); /* the first place is whoever is first */
    watch_fini(&w);
}

static void the_cursor_stays_in_sight(void **state)
{
    struct watch w;

    begin(&w);
    watch_fit(&w, 5, 40);
    assert_int_equal(watch_draw_table_rows(&w), 2);
    press(&w, KEY_END, 0);
    assert_int_equal(w.selected, PROCESSES - 1);
    assert_int_equal(w.first, PROCESSES - 2);
    watch_fit(&w, 24, 40);
    assert_int_equal(w.first, 0);
    press(&w, KEY_HOME, 0);
    assert_int_equal(w.selected, 0);
    press(&w, KEY_UP, 0);
    assert_int_equal(w.selected, 0);
    watch_fini(&w);
}

static void more_rows_are_asked_for_at_the_end(void **state)
{
    struct watch w;

    watch_init(&w, "x");
    w.ask.limit = PROCESSES;
    watch_take(&w, answer_to(&w, 0));
    press(&w, KEY_END, 0);
    assert_int_equal(w.ask.limit, PROCESSES + WATCH_ROWS);
    watch_fini(&w);
}

/* -- answers -- */

static void a_late_answer_is_dropped(void **state)
{
    struct watch w;
    struct watch_answer *late;

    begin(&w);
    late = answer_to(&w, 3);
    type(&w, "m", false);
    watch_take(&w, late);
    assert_int_equal(w.table->rows->rows[0].info.id.pid, 100);
    watch_fini(&w);
}

static void a_lost_collector_is_told_and_the_rows_stay(void **state)
{
    struct watch w;

    begin(&w);
    lose(&w, "collector: connection refused");
    assert_true(shows(&w, 12, 100, "connection refused"));
    assert_true(shows(&w, 12, 100, "postgres"));
    watch_take(&w, answer_to(&w, 0));
    assert_false(shows(&w, 12, 100, "connection refused"));
    watch_fini(&w);
}

/* Any keys at any size, answers in between: it draws. */
static void no_keys_lead_astray(void **state)
{
    static const char letters[] = "cmrwt<>ghi/e+-[] ?xA*";
    struct watch w;
    uint32_t random = 1;

    begin(&w);
    for (int i = 0; i < 800; i++) {
        struct buf b;

        random = random * 1664525u + 1013904223u;
        if (random >> 30) {
            press(&w, KEY_CHAR, (uint32_t)letters[(random >> 16) % (sizeof letters - 1)]);
        } else {
            press(&w, KEY_ENTER + (random >> 16) % (KEY_END - KEY_ENTER + 1), 0);
        }
        if (random >> 8 & 1) {
            watch_take(&w, answer_to(&w, random >> 9 & 3));
        }
        buf_init(&b, 1 << 20);
        picture(&w, 1 + (random >> 10 & 31), 1 + (random >> 15 & 127), &b);
        buf_fini(&b);
    }
    watch_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_have_no_part_in_the_fleets_cpu),
        cmocka_unit_test(a_wide_screen_has_all_columns),
        cmocka_unit_test(a_narrow_screen_keeps_what_matters),
        cmocka_unit_test(details_show_parents_and_history),
        cmocka_unit_test(events_of_a_host_are_listed_newest_last),
        cmocka_unit_test(keys_change_the_order),
        cmocka_unit_test(an_order_of_ones_own_is_a_column),
        cmocka_unit_test(groups_go_round_and_lead_to_their_processes),
        cmocka_unit_test(the_cursor_stays_with_its_group),
        cmocka_unit_test(prompts_set_filters),
        cmocka_unit_test(a_prompt_takes_no_more_than_its_room),
        cmocka_unit_test(a_paste_outside_of_a_prompt_does_nothing),
        cmocka_unit_test(keys_of_the_program_are_wishes),
        cmocka_unit_test(the_cursor_stays_with_its_process),
        cmocka_unit_test(the_cursor_stays_in_sight),
        cmocka_unit_test(more_rows_are_asked_for_at_the_end),
        cmocka_unit_test(a_late_answer_is_dropped),
        cmocka_unit_test(a_lost_collector_is_told_and_the_rows_stay),
        cmocka_unit_test(no_keys_lead_astray),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
