#include "collector/store/segment/raw.h"

#include <string.h>

#include "collector/store/segment/seg.h"
#include "common/base/mem.h"
#include "tests/collector/store/segment/window_rig.h"
#include "tests/support/t.h"

#define MEMORY (64u << 20)

/* A host's window with several parts, and its values as bytes. */
struct coded {
    struct window_rig r;
    struct arena memory;
    struct host_window hw;
    struct packer *p;
    struct buf rows, columns[METRIC_COLS];
    metric_mask metrics;
    uint64_t values;
};

static void coded_init(struct coded *c, uint64_t seed, size_t batches)
{
    struct buf scratch;

    memset(c, 0, sizeof *c);
    window_rig_init(&c->r, seed);
    for (size_t i = 0; i < batches; i++) {
        struct batch *b = window_rig_add(&c->r, 1 + (i * 7 + seed) % 60);

        b->head.boot.b[0] = (uint8_t)(i * 3 / batches); /* three parts */
    }
    arena_init(&c->memory, MEMORY);
    assert_ok(packer_create(&c->p));
    assert_ok(window_join(&c->hw, &c->memory, c->r.in, c->r.n, "alpha"));
    buf_init(&c->rows, SEG_VALUE_MAX);
    raw_rows_put(c->p, &c->rows, &c->hw);
    assert_ok(c->rows.bad);
    buf_init(&scratch, SEG_VALUE_MAX);
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        buf_init(&c->columns[m], SEG_VALUE_MAX);
        for (size_t i = 0; i < c->hw.parts[0].rows.n_columns; i++) {
            if (c->hw.parts[0].rows.columns[i].metric == m) {
                c->metrics |= METRIC_BIT(m);
                raw_column_put(c->p, &c->columns[m], &scratch, &c->hw, m, &c->values);
                assert_ok(c->columns[m].bad);
            }
        }
    }
    buf_fini(&scratch);
}

static void coded_fini(struct coded *c)
{
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        buf_fini(&c->columns[m]);
    }
    buf_fini(&c->rows);
    packer_destroy(c->p);
    arena_fini(&c->memory);
    window_rig_fini(&c->r);
}

#define PARTS_MAX 8

/* Reads the runs of one process (pid 0: all) and the metrics back. */
static enum err read_back(struct coded *c, struct arena *memory, metric_mask metrics, uint32_t pid,
                          struct window_part **parts, size_t *n_parts)
{
    struct raw_part list[PARTS_MAX];
    enum err e = raw_rows_get(c->p, memory, &c->hw.host, c->rows.p, c->rows.n, parts, n_parts);

    if (e) {
        return e;
    }
    assert_true(*n_parts <= PARTS_MAX);
    for (size_t i = 0; i < *n_parts; i++) {
        struct batch *b = &(*parts)[i].rows;
        struct raw_runs wanted = {0, b->n_runs};

        for (size_t k = 0; pid && k < b->n_runs; k++) {
            wanted.first += b->runs[k].id.pid < pid;
            wanted.n -= b->runs[k].id.pid != pid;
        }
        list[i] = (struct raw_part){&(*parts)[i], wanted,
                                    arena_array(memory, METRIC_COLS, sizeof(struct batch_column))};
        if (!list[i].columns) {
            return arena_refused(memory, METRIC_COLS * sizeof(struct batch_column));
        }
    }
    for (unsigned m = 0; m < METRIC_COLS && !e; m++) {
        if (metrics >> m & 1) {
            e = raw_column_get(c->p, memory, list, *n_parts, m, c->columns[m].p, c->columns[m].n);
        }
    }
    for (size_t i = 0; i < *n_parts; i++) {
        struct batch *b = &(*parts)[i].rows;

        for (size_t k = 0; k < b->n_runs; k++) {
            ((struct batch_run *)b->runs)[k].mask &= metrics; /* the arena's */
        }
        b->runs += list[i].wanted.first;
        b->n_runs = list[i].wanted.n;
        b->columns = list[i].columns;
    }
    return e;
}

static void what_was_written_is_read(void **state)
{
    for (uint64_t seed = 1; seed < 12; seed++) {
        struct samples before, after;
        struct window_part *parts;
        struct arena memory;
        struct coded c;
        size_t n;

        coded_init(&c, seed, 3 + seed * 2);
        assert_int_equal(c.hw.n_parts, 3);
        arena_init(&memory, MEMORY);
        assert_ok(read_back(&c, &memory, c.metrics, 0, &parts, &n));
        assert_int_equal(n, c.hw.n_parts);
        for (size_t i = 0; i < n; i++) {
            const struct window_part *a = &c.hw.parts[i], *b = &parts[i];

            assert_memory_equal(&a->rows.head.boot, &b->rows.head.boot, sizeof(struct uuid));
            assert_memory_equal(&a->rows.head.host, &b->rows.head.host, sizeof(struct uuid));
            assert_int_equal(a->rows.head.flags, b->rows.head.flags);
            assert_int_equal(a->rows.head.cpus, b->rows.head.cpus);
            assert_true(str_eq(a->rows.head.source, b->rows.head.source));
            assert_int_equal(a->received_ns, b->received_ns);
            assert_int_equal(a->rows.n_ticks, b->rows.n_ticks);
            assert_int_equal(a->rows.n_runs, b->rows.n_runs);
        }
        samples_of_batches(&before, c.r.in, c.r.n);
        samples_of_parts(&after, parts, n);
        samples_same(&before, &after);
        arena_fini(&memory);
        coded_fini(&c);
    }
}

static void the_clock_comes_back(void **state)
{
    static const struct host_offset clocks[] = {
        {false, false, 0, 0},
        {true, false, -77, 0},
        {true, true, INT64_MAX, 123456789},
        {true, true, INT64_MIN, INT64_MAX},
    };

    for (size_t i = 0; i < COUNT_OF(clocks); i++) {
        struct window_part *parts;
        struct arena memory;
        struct coded c;
        size_t n;

        coded_init(&c, 4, 3);
        c.hw.parts[0].clock = clocks[i];
        buf_reset(&c.rows);
        raw_rows_put(c.p, &c.rows, &c.hw);
        arena_init(&memory, MEMORY);
        assert_ok(raw_rows_get(c.p, &memory, &c.hw.host, c.rows.p, c.rows.n, &parts, &n));
        assert_int_equal(parts[0].clock.known, clocks[i].known);
        assert_int_equal(parts[0].clock.bounded, clocks[i].bounded);
        assert_int_equal(parts[0].clock.offset_ns, clocks[i].offset_ns);
        assert_int_equal(parts[0].clock.error_ns, clocks[i].error_ns);
        arena_fini(&memory);
        coded_fini(&c);
    }
}

static void one_process_and_some_metrics_are_read_alone(void **state)
{
    struct coded c;

    coded_init(&c, 21, 40);
    for (size_t i = 0; i < c.hw.parts[0].rows.n_runs; i++) {
        uint32_t pid = c.hw.parts[0].rows.runs[i].id.pid;
        metric_mask metrics = i % 3 ? c.metrics & (c.metrics - 1) : METRIC_BIT(M_CPU_TIME);
        struct samples before, after;
        struct window_part *parts;
        struct arena memory;
        size_t n;

        arena_init(&memory, MEMORY);
        assert_ok(read_back(&c, &memory, metrics & c.metrics, pid, &parts, &n));
        samples_of_batches(&before, c.r.in, c.r.n);
        samples_keep(&before, metrics, true, pid);
        samples_of_parts(&after, parts, n);
        samples_same(&before, &after);
        arena_fini(&memory);
    }
    coded_fini(&c);
}

/* Values that need all 64 bits, and a run as long as a group: nothing is lost. */
static void extreme_values_survive(void **state)
{
    enum { TICKS = 9000, RUNS = 3 };
    static int64_t wall[TICKS], mono[TICKS], values[TICKS + 2];
    static struct batch_run runs[RUNS] = {
        {{1, 0}, 0, 1, true, METRIC_BIT(M_CPU_TIME)},
        {{1, 5}, 0, TICKS, false, METRIC_BIT(M_CPU_TIME)},
        {{UINT32_MAX, UINT64_MAX}, TICKS - 1, 1, false, METRIC_BIT(M_CPU_TIME)},
    };
    struct batch_column column = {M_CPU_TIME, TICKS + 2, values};
    struct window_part part = {.rows = {.n_ticks = TICKS,
                                        .wall_ns = wall,
                                        .mono_ns = mono,
                                        .n_runs = RUNS,
                                        .runs = runs,
                                        .n_columns = 1,
                                        .columns = &column}},
                       *back;
    struct host_window hw = {.n_parts = 1, .parts = &part};
    struct batch_column room;
    struct raw_part list = {.wanted = {0, RUNS}, .columns = &room};
    struct buf rows, out, scratch;
    struct arena memory;
    struct packer *p;
    uint64_t n_values = 0;
    size_t n;

    for (int64_t i = 0; i < TICKS; i++) {
        wall[i] = i < 2 ? (i ? 0 : INT64_MIN) : i * i * i * 1000;
        mono[i] = i == TICKS - 1 ? INT64_MAX : i;
    }
    for (int64_t i = 0; i < TICKS + 2; i++) {
        values[i] = i % 3 ? INT64_MAX - i : INT64_MIN + i * i;
    }
    assert_ok(packer_create(&p));
    arena_init(&memory, MEMORY);
    buf_init(&rows, SEG_VALUE_MAX);
    buf_init(&out, SEG_VALUE_MAX);
    buf_init(&scratch, SEG_VALUE_MAX);
    raw_rows_put(p, &rows, &hw);
    raw_column_put(p, &out, &scratch, &hw, M_CPU_TIME, &n_values);
    assert_int_equal(n_values, TICKS + 2);
    assert_ok(raw_rows_get(p, &memory, &hw.host, rows.p, rows.n, &back, &n));
    assert_int_equal(n, 1);
    assert_memory_equal(back->rows.wall_ns, wall, sizeof wall);
    assert_memory_equal(back->rows.mono_ns, mono, sizeof mono);
    list.part = back;
    assert_ok(raw_column_get(p, &memory, &list, 1, M_CPU_TIME, out.p, out.n));
    assert_int_equal(room.n_values, TICKS + 2);
    assert_memory_equal(room.values, values, sizeof values);
    buf_fini(&rows);
    buf_fini(&out);
    buf_fini(&scratch);
    arena_fini(&memory);
    packer_destroy(p);
}

/* Format 1, byte by byte, as docs/formats.md has it: what was written once is read for ever. */
static const uint8_t table_1[] = {
    53 * 2, /* a pack of bytes as they are */
    1,      /* parts */
    1,      2,    3,    4,    5,    6,   7,   8, 9, 10, 11, 12, 13, 14, 15, 16, /* boot */
    1,      4,    4,    'p',  'r',  'o', 'c', /* flags, CPUs, source */
    3,      9,    14,   0xd0, 0x0f,           /* clock, offset, error, arrival */
    3,      0xd0, 0x0f, 20,   1,              /* ticks: 1000, 1010, 1019 */
    100,    2,    0,                          /* 50, 61, 70 */
    2,                                        /* runs */
    7,      1,                                /* pids 7, 8 */
    12,     1,                                /* starts 6, 5 */
    0,      1,                                /* first ticks */
    3,      2,                                /* ticks */
    0x80,   0x84, 0x08, 0x80, 0x04,           /* masks */
    1,      0,                                /* fresh */
};
static const uint8_t column_1[] = {
    1,                 /* CODEC_MOVING */
    2,     8, 0, 0, 0, /* two runs, a pack of eight bytes */
    7 * 2,             /* as they are */
    50,    4, 8,       /* scale, bases 2 and 4 */
    2,     1,          /* the third of the first differs, the second of the second */
    2,     9,          /* by 1, by -5 */
};

static void the_bytes_are_those_of_the_format(void **state)
{
    struct window_part *parts;
    struct batch_column column;
    struct raw_part list = {.wanted = {0, 2}, .columns = &column};
    static const int64_t wall[] = {1000, 1010, 1019}, mono[] = {50, 61, 70};
    static const struct batch_run runs[] = {{{7, 6}, 0, 3, true, METRIC_BIT(9) | METRIC_BIT(17)},
                                            {{8, 5}, 1, 2, false, METRIC_BIT(17)}};
    static const int64_t values[] = {100, 100, 150, 200, -50};
    const struct uuid host = {{9}};
    struct host_window hw = {.n_parts = 1};
    struct buf out, scratch;
    struct arena memory;
    uint64_t n_values = 0;
    struct packer *p;
    size_t n;

    assert_ok(packer_create(&p));
    arena_init(&memory, MEMORY);
    buf_init(&out, SEG_VALUE_MAX);
    assert_ok(raw_rows_get(p, &memory, &host, table_1, sizeof table_1, &parts, &n));
    assert_int_equal(n, 1);
    assert_memory_equal(parts->rows.wall_ns, wall, sizeof wall);
    assert_memory_equal(parts->rows.mono_ns, mono, sizeof mono);
    assert_int_equal(parts->rows.n_runs, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct batch_run *r = &parts->rows.runs[i];

        assert_true(proc_id_eq(r->id, runs[i].id) && r->first_tick == runs[i].first_tick &&
                    r->n_ticks == runs[i].n_ticks && r->mask == runs[i].mask &&
                    r->fresh == runs[i].fresh);
    }
    assert_int_equal(parts->clock.offset_ns, -5);
    assert_int_equal(parts->clock.error_ns, 7);
    assert_int_equal(parts->received_ns, 1000);
    hw.parts = parts;
    raw_rows_put(p, &out, &hw);
    assert_int_equal(out.n, sizeof table_1);
    assert_memory_equal(out.p, table_1, sizeof table_1);
    list.part = parts;
    assert_ok(raw_column_get(p, &memory, &list, 1, 17, column_1, sizeof column_1));
    assert_int_equal(column.n_values, COUNT_OF(values));
    assert_memory_equal(column.values, values, sizeof values);
    parts->rows.columns = &column;
    buf_reset(&out);
    buf_init(&scratch, SEG_VALUE_MAX);
    raw_column_put(p, &out, &scratch, &hw, 17, &n_values);
    assert_int_equal(out.n, sizeof column_1);
    assert_memory_equal(out.p, column_1, sizeof column_1);
    buf_fini(&scratch);
    buf_fini(&out);
    arena_fini(&memory);
    packer_destroy(p);
}

/* What is inside a pack, shorter and changed in every place. */
static void shorter_and_damaged_bytes_are_refused_or_sound(void **state)
{
    struct coded c, other;
    struct arena memory;
    const uint8_t *raw;
    size_t raw_n;

    coded_init(&c, 31, 6);
    arena_init(&memory, MEMORY);
    other = c;
    assert_ok(pack_open(c.p, &memory, &raw, &raw_n, c.rows.p, c.rows.n, SEG_VALUE_MAX));
    for (size_t i = 0; i < 2 * raw_n; i++) {
        struct window_part *parts;
        struct arena room;
        uint8_t *copy = mem_dup(raw, raw_n);
        size_t n;
        enum err e;

        assert_non_null(copy);
        copy[i % raw_n] ^= (uint8_t)(1u << i % 8);
        buf_init(&other.rows, SEG_VALUE_MAX);
        pack_put(c.p, &other.rows, copy, i < raw_n ? i : raw_n);
        arena_init(&room, 4u << 20);
        e = read_back(&other, &room, c.metrics, 0, &parts, &n);
        assert_true(i >= raw_n || e == ERR_CORRUPT);
        assert_true(e == ERR_OK || e == ERR_CORRUPT || e == ERR_FULL);
        for (size_t k = 0; !e && k < n; k++) {
            rows_sound(&parts[k].rows);
        }
        arena_fini(&room);
        buf_fini(&other.rows);
        mem_free(copy);
    }
    arena_fini(&memory);
    coded_fini(&c);
}

static void every_shorter_column_is_refused(void **state)
{
    struct coded c, other;
    unsigned m;

    coded_init(&c, 33, 6);
    m = (unsigned)__builtin_ctzll(metric_mask_low(c.metrics));
    for (size_t n = 0; n < c.columns[m].n; n++) {
        struct window_part *parts;
        struct arena room;
        size_t n_parts;

        other = c;
        other.columns[m].p = mem_dup(c.columns[m].p, n ? n : 1);
        other.columns[m].n = n;
        assert_non_null(other.columns[m].p);
        arena_init(&room, MEMORY);
        assert_err(read_back(&other, &room, METRIC_BIT(m), 0, &parts, &n_parts), ERR_CORRUPT);
        arena_fini(&room);
        mem_free(other.columns[m].p);
    }
    coded_fini(&c);
}

static void running_out_of_memory_is_survived(void **state)
{
    struct coded c;
    long n = 0;
    enum err e;

    coded_init(&c, 35, 30);
    do {
        struct window_part *parts;
        struct arena room;
        size_t n_parts;

        arena_init(&room, MEMORY);
        mem_fail_after(n++);
        e = read_back(&c, &room, c.metrics, 0, &parts, &n_parts);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        arena_fini(&room);
    } while (e);
    assert_true(n > 1);
    n = 0;
    do {
        struct buf out, scratch;
        uint64_t values = 0;

        buf_init(&out, SEG_VALUE_MAX);
        buf_init(&scratch, SEG_VALUE_MAX);
        mem_fail_after(n++);
        raw_rows_put(c.p, &out, &c.hw);
        raw_column_put(c.p, &out, &scratch, &c.hw, M_CPU_TIME, &values);
        mem_fail_after(-1);
        e = out.bad;
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        buf_fini(&out);
        buf_fini(&scratch);
    } while (e);
    assert_true(n > 3);
    coded_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(the_clock_comes_back),
        cmocka_unit_test(one_process_and_some_metrics_are_read_alone),
        cmocka_unit_test(extreme_values_survive),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(shorter_and_damaged_bytes_are_refused_or_sound),
        cmocka_unit_test(every_shorter_column_is_refused),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
