/* Sums of groups: what they say, where there are none, and their bytes. */
#include "collector/store/rollup/group_sums.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

#define S    INT64_C(1000000000)
#define ROWS 4u

static const struct uuid boots[] = {{{1}}, {{2}}};

/* A window's summary of up to ROWS processes: CPU time, memory. */
struct window {
    struct tier t;
    struct tier_part part;
    struct tier_bucket bucket;
    struct tier_row rows[ROWS];
    struct cell cpu[ROWS], memory[ROWS];
};

static void row(struct window *w, uint32_t pid, const char *name, const char *user, bool fresh,
                int64_t cpu, uint64_t samples, int64_t memory)
{
    size_t i = w->t.n_rows++;

    w->rows[i] = (struct tier_row){.id = {pid, pid * 7},
                                   .n_buckets = 1,
                                   .mask = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE),
                                   .fresh = fresh,
                                   .name = str_make(name),
                                   .user = str_make(user)};
    w->cpu[i] = (struct cell){.count = samples, .last = cpu};
    w->memory[i] = (struct cell){.count = samples, .sum = memory};
}

static void window(struct window *w, int64_t begin_s)
{
    memset(w, 0, sizeof *w);
    w->part = (struct tier_part){.boot = boots[0], .n_buckets = 1};
    w->bucket = (struct tier_bucket){
        .ticks = 30, .first_wall_ns = begin_s * S, .last_wall_ns = (begin_s + 290) * S};
    w->t = (struct tier){.n_parts = 1,
                         .n_buckets = 1,
                         .parts = &w->part,
                         .buckets = &w->bucket,
                         .rows = w->rows,
                         .metrics = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE)};
    w->t.columns[M_CPU_TIME] = w->cpu;
    w->t.columns[M_WORKING_SET_SIZE] = w->memory;
}

/* Two windows: 0 is idle, 1 and 3 are "a", 2 ends, 4 begins. */
static void windows(struct window *before, struct window *now)
{
    window(before, 300);
    row(before, 0, "idle", "", false, 1000, 30, 0);
    row(before, 1, "a", "root", false, 100, 30, 300);
    row(before, 2, "b", "eve", false, 50, 10, 100);
    row(before, 3, "a", "root", false, 10, 30, 60);
    window(now, 600);
    row(now, 0, "idle", "", false, 5000, 30, 0);
    row(now, 1, "a", "root", false, 130, 30, 330);
    row(now, 3, "a", "root", false, 10, 29, 90);
    row(now, 4, "b", "eve", true, 7, 20, 40);
}

static enum err make(struct group_sums *s, struct arena *memory, const struct window *before,
                     const struct window *now)
{
    return group_sums_make(s, memory, &now->t, &before->t, (int64_t[]){299 * S, 590 * S});
}

static void expect(const struct group_sums *s)
{
    const struct group_sums_part *cpu = s->parts[M_CPU_TIME], *mem = s->parts[M_WORKING_SET_SIZE];

    assert_int_equal(s->t0_ns, 600 * S);
    assert_int_equal(s->t1_ns, 890 * S);
    assert_int_equal(s->before_t0_ns, 299 * S);
    assert_int_equal(s->before_t1_ns, 590 * S);
    assert_int_equal(s->n, 2);
    assert_true(str_eq(s->groups[0].name, str_make("a")));
    assert_true(str_eq(s->groups[0].user, str_make("root")));
    assert_true(str_eq(s->groups[1].name, str_make("b")));
    assert_int_equal(cpu[0].sum, 30);
    assert_int_equal(cpu[0].count, 2);
    assert_int_equal(cpu[0].n_new, 0);
    assert_int_equal(cpu[1].sum, 7); /* from zero */
    assert_int_equal(cpu[1].n_new, 1);
    assert_int_equal(mem[0].sum, 420);
    assert_int_equal(mem[0].count, 59);
    assert_int_equal(mem[1].sum, 40);
    assert_int_equal(s->ticks[M_CPU_TIME], 30);
    assert_int_equal(s->most[M_CPU_TIME].pid, 1); /* the idle one is left out */
}

static void processes_of_a_group_are_added_up(void **state)
{
    struct window before, now;
    struct group_sums s, back;
    struct arena memory;
    struct buf b;

    arena_init(&memory, 1u << 20);
    windows(&before, &now);
    assert_ok(make(&s, &memory, &before, &now));
    expect(&s);
    buf_init(&b, 1u << 20);
    group_sums_put(&b, &s);
    assert_ok(b.bad);
    assert_ok(group_sums_get(&back, &memory, METRIC_ALL, b.p, b.n));
    expect(&back);
    assert_ok(group_sums_get(&back, &memory, METRIC_BIT(M_CPU_TIME), b.p, b.n));
    assert_true(back.metrics == METRIC_BIT(M_CPU_TIME));
    assert_null(back.parts[M_WORKING_SET_SIZE]);
    for (size_t n = 0; n < b.n; n++) {
        enum err e = group_sums_get(&back, &memory, METRIC_ALL, b.p, n);

        /* Where a column ends the bytes are those of fewer metrics. */
        assert_true(e == ERR_CORRUPT || (e == ERR_OK && back.metrics != s.metrics));
    }
    b.p[0] = 2;
    assert_err(group_sums_get(&back, &memory, METRIC_ALL, b.p, b.n), ERR_VERSION);
    buf_fini(&b);
    arena_fini(&memory);
}

static void reboot(struct window *before, struct window *now)
{
    now->part.boot = boots[1];
}

static void appear(struct window *before, struct window *now)
{
    now->rows[3].fresh = false;
}

static void begin_again(struct window *before, struct window *now)
{
    now->rows[1].fresh = true;
}

static void step_back(struct window *before, struct window *now)
{
    now->cpu[1].last = 99;
}

static void grow_too_much(struct window *before, struct window *now)
{
    before->cpu[1].last = INT64_MIN;
    now->cpu[1].last = INT64_MAX;
}

static void rename_one(struct window *before, struct window *now)
{
    now->rows[2].name = str_make("c");
}

static void have_no_name(struct window *before, struct window *now)
{
    now->rows[3].name = (struct str){0};
}

static void change_user(struct window *before, struct window *now)
{
    now->rows[2].user = str_make("eve");
}

static void have_less(struct window *before, struct window *now)
{
    now->rows[2].mask = now->rows[3].mask = METRIC_BIT(M_CPU_TIME);
}

static void be_there_twice(struct window *before, struct window *now)
{
    now->rows[2].id = now->rows[1].id;
}

static void be_folded(struct window *before, struct window *now)
{
    now->rows[3].instances = 1;
}

static void overlap(struct window *before, struct window *now)
{
    before->bucket.last_wall_ns = now->bucket.first_wall_ns;
}

static void have_two_parts(struct window *before, struct window *now)
{
    before->t.n_parts = 2;
}

static void where_single_processes_matter_there_are_no_sums(void **state)
{
    void (*const changes[])(struct window *, struct window *) = {
        reboot,     appear,       begin_again,   step_back, grow_too_much,
        rename_one, have_no_name, change_user,   have_less, be_there_twice,
        be_folded,  overlap,      have_two_parts};

    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct window before, now;
        struct group_sums s;
        struct arena memory;

        arena_init(&memory, 1u << 20);
        windows(&before, &now);
        changes[i](&before, &now);
        if (make(&s, &memory, &before, &now) != ERR_NOTFOUND) {
            fail_msg("change %zu is not seen", i);
        }
        arena_fini(&memory);
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    struct window before, now;
    struct group_sums s;
    enum err e = ERR_FULL;

    windows(&before, &now);
    for (size_t bytes = 0; e == ERR_FULL; bytes += 16) {
        struct arena memory;

        arena_init(&memory, bytes);
        e = make(&s, &memory, &before, &now);
        assert_true(e == ERR_FULL || e == ERR_OK);
        arena_fini(&memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_of_a_group_are_added_up),
        cmocka_unit_test(where_single_processes_matter_there_are_no_sums),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
