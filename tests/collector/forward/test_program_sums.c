/* Sums of programs from rows, and their state saved and loaded between any two updates. */
#include <string.h>

#include "collector/forward/otlp.h"
#include "common/base/mem.h"
#include "common/model/metric.h"
#include "tests/support/t.h"

#define T0 (INT64_C(1700000000) * CLK_S)

static const struct program_sums_conf conf = {.n_metrics = 2,
                                              .metrics = {M_CPU_TIME, M_WORKING_SET_SIZE},
                                              .interval_ns = CLK_S,
                                              .hosts_max = 2,
                                              .processes_max = 5};

/* One row as the table has it; the metrics come in another order than they were chosen. */
struct line {
    int second;
    uint32_t pid;
    const char *name;
    int64_t cpu, memory; /* -1: absent */
    int born;            /* second; -1: not known */
};

static enum err take_lines(struct program_sums *s, const struct line *lines, size_t n,
                           const struct program_sums_sink *sink)
{
    struct wire_row rows[16];
    int64_t values[16][2];
    struct wire_update u = {.host = {{1}}, .name = str_make("web-1")};

    assert_true(n <= COUNT_OF(rows));
    for (size_t i = 0; i < n; i++) {
        const struct line *l = &lines[i];

        values[i][0] = l->memory;
        values[i][1] = l->cpu;
        rows[i] = (struct wire_row){.info = {.id = {.pid = l->pid, .start = 7},
                                             .name = str_make(l->name),
                                             .have = l->born >= 0 ? INFO_CREATE_TIME : 0,
                                             .create_ns = T0 + l->born * CLK_S},
                                    .when_ns = T0 + l->second * CLK_S,
                                    .have = (l->memory >= 0 ? 1u : 0) | (l->cpu >= 0 ? 2u : 0),
                                    .values = values[i]};
    }
    u.data = (struct wire_answer){
        .n_metrics = 2, .metrics = {M_WORKING_SET_SIZE, M_CPU_TIME}, .n_rows = n, .rows = rows};
    return program_sums_take(s, &u, sink);
}

struct seen {
    char text[4096];
    size_t n;
};

static enum err see(void *ctx, const struct program_sums_tick *t)
{
    struct seen *out = ctx;

    for (size_t i = 0; i < t->n; i++) {
        const struct program_sums_row *r = &t->rows[i];

        out->n += (size_t)snprintf(
            out->text + out->n, sizeof out->text - out->n,
            "%lld %.*s*%u since %lld:", (long long)((t->when_ns - T0) / CLK_S), (int)r->name.n,
            r->name.n ? r->name.p : "", r->processes, (long long)((r->start_ns - T0) / CLK_S));
        for (size_t k = 0; k < 2; k++) {
            out->n += (size_t)snprintf(out->text + out->n, sizeof out->text - out->n,
                                       r->have >> k & 1 ? " %lld" : " -", (long long)r->values[k]);
        }
        out->n += (size_t)snprintf(out->text + out->n, sizeof out->text - out->n, "\n");
    }
    return ERR_OK;
}

static const struct line life[] = {
    {1, 4, "sh", 100, 10, -1},   {1, 5, "sh", 50, 20, -1}, /* both were there before */
    {2, 4, "sh", 130, 11, -1},   {2, 5, "sh", -1, 20, -1}, /* a value is absent once */
    {2, 6, "cc", 5, 40, 2},                                /* it began since: counts whole */
    {3, 4, "sh", 131, 11, -1},   {3, 5, "sh", 60, -1, -1}, /* no memory: not in that sum */
    {3, 6, "cc", 9, 41, 2},      {3, 7, "ld", 3, 1, -1},   /* when it began is not known */
    {4, 4, "cc", 141, 11, -1},   {4, 7, "ld", 2, 1, -1},   /* another name; a counter that fell */
    {5, 0, "idle", 9999, 1, -1},                           /* pid 0 is none */
};

static const char life_sums[] = "1 *2 since 1: 0 30\n"
                                "1 sh*2 since 1: 0 30\n"
                                "2 *3 since 1: 35 71\n"
                                "2 sh*2 since 1: 30 31\n"
                                "2 cc*1 since 1: 5 40\n"
                                "3 *4 since 1: 50 53\n"
                                "3 sh*2 since 1: 41 11\n"
                                "3 cc*1 since 1: 9 41\n"
                                "3 ld*1 since 2: 0 1\n"
                                "4 *2 since 1: 60 12\n"
                                "4 sh*0 since 1: 41 0\n"
                                "4 cc*1 since 1: 19 11\n"
                                "4 ld*1 since 2: 0 1\n";

static void counters_sum_what_grew_and_gauges_what_is_there(void **state)
{
    struct seen seen = {.n = 0};
    struct program_sums_sink sink = {see, &seen};
    struct program_sums *s;

    assert_ok(program_sums_create(&s, &conf));
    assert_ok(take_lines(s, life, COUNT_OF(life), &sink));
    /* a program without processes keeps its sum; its gauge has no meaning then */
    for (char *p = seen.text; (p = strstr(p, "sh*0 since 1: 41 -")) != NULL;) {
        p[17] = '0';
    }
    assert_string_equal(seen.text, life_sums);
    program_sums_destroy(s);
}

static void the_state_can_be_saved_and_loaded_anywhere(void **state)
{
    struct seen whole = {.n = 0};
    struct program_sums_sink sink = {see, &whole};
    struct program_sums *s;

    assert_ok(program_sums_create(&s, &conf));
    assert_ok(take_lines(s, life, COUNT_OF(life), &sink));
    program_sums_destroy(s);
    for (size_t cut = 0; cut <= COUNT_OF(life); cut++) {
        struct seen parts = {.n = 0};
        struct program_sums *after;
        struct buf saved;

        sink.ctx = &parts;
        buf_init(&saved, 1u << 20);
        assert_ok(program_sums_create(&s, &conf));
        assert_ok(program_sums_create(&after, &conf));
        assert_ok(take_lines(s, life, cut, &sink));
        program_sums_save(s, &saved);
        program_sums_destroy(s);
        assert_ok(program_sums_load(after, saved.p, saved.n));
        assert_ok(take_lines(after, life + cut, COUNT_OF(life) - cut, &sink));
        assert_string_equal(parts.text, whole.text);
        for (size_t n = 1; n < saved.n; n++) {
            assert_err(program_sums_load(after, saved.p, n), ERR_CORRUPT);
        }
        program_sums_destroy(after);
        buf_fini(&saved);
    }
}

static void what_is_gone_for_long_is_forgotten_and_begins_anew(void **state)
{
    static const struct line lines[] = {{1, 4, "sh", 100, 10, -1},   {1, 5, "cc", 1, 1, -1},
                                        {2, 4, "sh", 110, 10, -1},   {2, 5, "cc", 3, 1, -1},
                                        {702, 5, "cc", 4, 1, -1},    {703, 5, "cc", 4, 1, -1},
                                        {703, 4, "sh", 200, 9, 701}, {704, 5, "cc", 4, 1, -1}};
    struct seen seen = {.n = 0};
    struct program_sums_sink sink = {see, &seen};
    struct program_sums *s;

    assert_ok(program_sums_create(&s, &conf));
    assert_ok(take_lines(s, lines, COUNT_OF(lines), &sink));
    assert_non_null(strstr(seen.text, "703 sh*1 since 702: 200 9\n"));
    assert_non_null(strstr(seen.text, "703 cc*1 since 1: 3 1\n"));
    program_sums_destroy(s);
}

static void what_is_beyond_the_bounds_is_counted(void **state)
{
    struct seen seen = {.n = 0};
    struct program_sums_sink sink = {see, &seen};
    struct line lines[7];
    struct wire_row row = {.when_ns = T0};
    struct wire_update u = {.name = str_make("x"), .data = {.n_rows = 1, .rows = &row}};
    struct program_sums *s;

    for (uint32_t i = 0; i < COUNT_OF(lines); i++) {
        lines[i] = (struct line){1, i + 1, "sh", 1, 1, -1};
    }
    assert_ok(program_sums_create(&s, &conf));
    assert_ok(take_lines(s, lines, COUNT_OF(lines), &sink));
    assert_int_equal(program_sums_left_out(s), 2);
    for (uint8_t i = 2; i < 5; i++) {
        u.host.b[0] = i;
        assert_ok(program_sums_take(s, &u, &sink));
    }
    assert_int_equal(program_sums_left_out(s), 4);
    program_sums_destroy(s);
}

static void stamps_may_be_anything(void **state)
{
    static const int64_t stamps[] = {INT64_MIN, INT64_MAX, -1, INT64_MIN + 1, INT64_MAX, 0};
    struct seen seen = {.n = 0};
    struct program_sums_sink sink = {see, &seen};
    struct wire_row row = {.info = {.id = {.pid = 1, .start = 1}, .name = str_make("sh")}};
    struct wire_update u = {.name = str_make("x"), .data = {.n_rows = 1, .rows = &row}};
    struct program_sums *s, *again;
    struct buf saved;

    buf_init(&saved, 1u << 20);
    assert_ok(program_sums_create(&s, &conf));
    assert_ok(program_sums_create(&again, &conf));
    for (size_t i = 0; i < COUNT_OF(stamps); i++) {
        row.when_ns = stamps[i];
        seen.n = 0;
        assert_ok(program_sums_take(s, &u, &sink));
        buf_reset(&saved);
        program_sums_save(s, &saved);
        assert_ok(program_sums_load(again, saved.p, saved.n));
    }
    program_sums_destroy(s);
    program_sums_destroy(again);
    buf_fini(&saved);
}

#define FILLED 9000u /* programs, more than a host may have */

struct requests {
    size_t n, points, largest;
};

static enum err measure(void *ctx, const struct program_sums_tick *t)
{
    struct requests *r = ctx;

    for (size_t from = 0, to; from < t->n; from = to) {
        struct buf b;

        to = t->n - from < OTLP_ROWS ? t->n : from + OTLP_ROWS;
        buf_init(&b, OTLP_REQUEST_MAX);
        r->points += otlp_metrics(&b, t, from, to, conf.metrics, conf.n_metrics);
        assert_ok(b.bad);
        r->largest = b.n > r->largest ? b.n : r->largest;
        r->n++;
        buf_fini(&b);
    }
    return ERR_OK;
}

/* A host that makes up names must not make a request that cannot be sent, nor take all the room. */
static void a_host_of_thousands_of_long_names_stays_within_bounds(void **state)
{
    static char names[FILLED][1024];
    static int64_t values[2] = {1, 1};
    struct requests seen = {0};
    struct program_sums_sink sink = {measure, &seen};
    struct program_sums_conf many = conf;
    struct wire_update u = {.name = str_make("x")};
    struct wire_row *rows = mem_array(FILLED + 1, sizeof *rows);
    struct program_sums *s;

    assert_non_null(rows);
    many.processes_max = 100000;
    for (uint32_t i = 0; i <= FILLED; i++) {
        uint32_t k = i % FILLED;

        memset(names[k], 'x', sizeof names[k]);
        for (size_t c = 0, left = k; c < 4; c++, left /= 10) {
            names[k][c] = (char)('0' + left % 10);
        }
        rows[i] = (struct wire_row){
            .info = {.id = {.pid = k + 1, .start = 1}, .name = {names[k], sizeof names[k]}},
            .when_ns = T0 + (i == FILLED ? CLK_S : 0),
            .have = 3,
            .values = values};
    }
    u.data = (struct wire_answer){.n_metrics = 2,
                                  .metrics = {M_WORKING_SET_SIZE, M_CPU_TIME},
                                  .n_rows = FILLED + 1,
                                  .rows = rows};
    assert_ok(program_sums_create(&s, &many));
    assert_ok(program_sums_take(s, &u, &sink));
    assert_int_equal(seen.n, 8192 / OTLP_ROWS);
    assert_int_equal(seen.points, 8192 * 3);
    assert_true(seen.largest < (size_t)1 << 20); /* of three points of each of them */
    assert_int_equal(program_sums_left_out(s), FILLED - 8191);
    program_sums_destroy(s);
    mem_free(rows);
}

static void every_failing_allocation_is_survived(void **state)
{
    struct seen seen = {.n = 0};
    struct program_sums_sink sink = {see, &seen};
    long live = mem_live();
    bool done = false;

    for (long n = 0; !done; n++) {
        struct program_sums *s = NULL;
        enum err e;

        seen.n = 0;
        mem_fail_after(n);
        e = program_sums_create(&s, &conf);
        e = e ? e : take_lines(s, life, COUNT_OF(life), &sink);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        done = e == ERR_OK;
        program_sums_destroy(s);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_sum_what_grew_and_gauges_what_is_there),
        cmocka_unit_test(the_state_can_be_saved_and_loaded_anywhere),
        cmocka_unit_test(what_is_gone_for_long_is_forgotten_and_begins_anew),
        cmocka_unit_test(what_is_beyond_the_bounds_is_counted),
        cmocka_unit_test(stamps_may_be_anything),
        cmocka_unit_test(a_host_of_thousands_of_long_names_stays_within_bounds),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
