#include "collector/cli/plot/lanes.h"

#include "common/base/clk.h"
#include "tests/support/t.h"

#define N    10 /* columns, of a second */
#define US   INT64_C(1000000)
#define MANY 6

struct life {
    const char *name;
    int64_t start_ms, life_ms; /* or WIRE_LIFE_* */
    int64_t parent, exit_code;
    uint32_t flags;
};

/* An answer of these lives on one host, from 00:00:15 to 00:00:25 on the first of 1970. */
struct scene {
    struct wire_answer a;
    struct wire_lifetimes l;
    struct wire_host host;
    int64_t start_us[MANY], life_us[MANY], parent[MANY], exit_code[MANY], cpu_us[MANY];
    uint32_t zero[MANY], name[MANY], pid[MANY], flags[MANY], starts[N], ends[N], present[N];
    uint64_t start[MANY];
    struct str names[MANY];
};

static void scene_make(struct scene *s, const struct life *lives, size_t n)
{
    *s = (struct scene){.host = {.name = {"lab", 3}}};
    for (size_t i = 0; i < n; i++) {
        s->start_us[i] = lives[i].start_ms * 1000;
        s->life_us[i] = lives[i].life_ms < 0 ? lives[i].life_ms : lives[i].life_ms * 1000;
        s->parent[i] = lives[i].parent;
        s->exit_code[i] = lives[i].exit_code;
        s->flags[i] = lives[i].flags;
        s->names[i] = str_make(lives[i].name);
        s->pid[i] = 100 + (uint32_t)i;
        for (s->name[i] = 0; !str_eq(s->names[s->name[i]], s->names[i]); s->name[i]++) {
        }
    }
    for (unsigned i = 0; i < N; i++) {
        s->present[i] = 1000000;
    }
    s->l = (struct wire_lifetimes){.t0_ns = 15 * CLK_S,
                                   .n = n,
                                   .start_us = s->start_us,
                                   .life_us = s->life_us,
                                   .host = s->zero,
                                   .name = s->name,
                                   .user = s->zero,
                                   .pid = s->pid,
                                   .parent = s->parent,
                                   .start = s->start,
                                   .exit_code = s->exit_code,
                                   .flags = s->flags,
                                   .cpu_us = s->cpu_us,
                                   .n_names = n,
                                   .names = s->names,
                                   .step_ns = CLK_S,
                                   .n_buckets = N,
                                   .starts = s->starts,
                                   .ends = s->ends,
                                   .present = s->present};
    s->a = (struct wire_answer){.n_hosts = 1,
                                .hosts = &s->host,
                                .since_ns = 15 * CLK_S,
                                .until_ns = 25 * CLK_S,
                                .lifetimes = &s->l};
}

static const struct lanes usual = {.columns = 80, .groups = 10, .lanes = 2, .ascii = true};

static void expect(const struct scene *s, const struct lanes *how, const char *want)
{
    struct buf b;

    buf_init(&b, 1u << 20);
    assert_ok(lanes_draw(&b, how, &s->a));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

/* Everything but the two lines of the density and what stands below the lanes. */
static void expect_lanes(const struct scene *s, const struct lanes *how, const char *want)
{
    const char *from, *to;
    struct buf b;

    buf_init(&b, 1u << 20);
    assert_ok(lanes_draw(&b, how, &s->a));
    from = strchr(strchr(buf_cstr(&b), '\n') + 1, '\n') + 1;
    to = strchr(buf_cstr(&b), '|');
    while (to > from && to[-1] != '\n') {
        to--;
    }
    assert_int_equal(to - from, strlen(want));
    assert_memory_equal(from, want, strlen(want));
    buf_fini(&b);
}

/* Nothing ran there, so nothing could be seen; what was lost is another matter. */
static void where_no_agent_ran_is_dotted(void **state)
{
    static const struct life lives[] = {{"sh", -5000, WIRE_LIFE_LIVES, 0, -1, 0},
                                        {"cc1", 1000, 500, 0, 0, 0},
                                        {"cc1", 8000, 500, 0, 0, 0}};
    static const struct wire_loss_span lost = {.first_ns = 21 * CLK_S, .last_ns = 22 * CLK_S - 1};
    static const struct wire_coverage coverage = {.n_spans = 1, .spans = &lost};
    uint32_t hosts_in[N] = {1, 1, 1, 0, 0, 0, 0, 1, 1, 1};
    struct scene s;

    (void)state;
    scene_make(&s, lives, 3);
    for (unsigned i = 3; i < 7; i++) {
        s.present[i] = 0;
    }
    expect_lanes(&s, &usual,
                 "cc1 x2                 o //// o \n"
                 "+1 image unchanged    :::////:::\n");
    s.l.hosts_in = hosts_in;
    s.a.n_coverage = 1;
    s.a.coverage = &coverage;
    expect_lanes(&s, &usual,
                 "cc1 x2                 o .../ o \n"
                 "+1 image unchanged    :::.../:::\n");
}

static void a_picture_has_density_lanes_axis_and_its_signs(void **state)
{
    static const struct life lives[] = {{"sh", -5000, WIRE_LIFE_LIVES, 0, -1, 0},
                                        {"cc1", 1000, 3500, 0, 0, 0},
                                        {"cc1", 6200, 20, 0, 0, 0}};
    struct scene s;

    (void)state;
    scene_make(&s, lives, 3);
    s.starts[1] = 4;
    s.starts[6] = 1;
    expect(&s, &usual,
           "starts 5               #    :   \n"
           "ends 0                          \n"
           "cc1 x2                 [==] o   \n"
           "+1 image unchanged    ::::::::::\n"
           "                      |00:00:15 \n"
           "1970-01-01, a column is 1.000s, : lived throughout, o shorter than a column\n");
}

static void every_end_has_its_sign(void **state)
{
    static const struct life lives[] = {{"failed", 0, 3000, 0, 137, 0},
                                        {"failed", 5000, 1, 0, 1, 0},
                                        {"guessed", 1000, 3000, 0, -1, WIRE_LIFE_END_INFERRED},
                                        {"lost", 1000, 3000, 0, -1, WIRE_LIFE_END_UNKNOWN},
                                        {"found", 2000, -1, 0, -1, WIRE_LIFE_START_UNKNOWN},
                                        {"gone", 7000, -2, 0, -1, WIRE_LIFE_END_UNKNOWN}};
    struct scene s;

    (void)state;
    scene_make(&s, lives, 6);
    expect_lanes(&s, &usual,
                 "failed x2             [=X  X    \n"
                 "guessed                [=~      \n"
                 "lost                   [=-      \n"
                 "found                   -=======\n"
                 "gone                         -  \n");
}

static void those_at_once_lie_side_by_side_and_the_others_are_counted(void **state)
{
    static const struct life lives[] = {{"a", 1000, 4000, 0, 0, 0}, {"a", 1000, 2000, 0, 0, 0},
                                        {"a", 2000, 2000, 0, 0, 0}, {"a", 3000, 1000, 0, 0, 0},
                                        {"a", 4000, 1000, 0, 9, 0}, {"a", 6000, 1000, 0, 0, 0}};
    struct scene s;

    (void)state;
    scene_make(&s, lives, 6);
    expect_lanes(&s, &usual,
                 "a x6                   [==] o   \n"
                 "                       []oX     \n"
                 "  +1                    ##      \n");
}

static void a_tree_has_children_below_their_parents(void **state)
{
    static const struct life lives[] = {
        {"init", -9000, -1, 0, -1, 0}, {"idle", -9000, -1, 1, -1, 0}, {"make", 1000, 5000, 1, 2, 0},
        {"cc1", 2000, 2000, 3, 0, 0},  {"sh", 3000, 1000, 1, 0, 0},   {"as", 4000, 1000, 4, 0, 0}};
    struct lanes how = usual;
    struct scene s;

    (void)state;
    how.group = LANES_TREE;
    scene_make(&s, lives, 6);
    expect_lanes(&s, &how,
                 "init 100              ::::::::::\n"
                 " make 102              [===X    \n"
                 "  cc1 103               []      \n"
                 "   as 105                 o     \n"
                 " sh 104                  o      \n");
    how.groups = 2;
    expect_lanes(&s, &how,
                 "init 100              ::::::::::\n"
                 " make 102              [===X    \n"
                 "+3                      =#=     \n");
}

static void what_is_missing_is_hatched_and_never_drawn_over(void **state)
{
    static const struct life lives[] = {{"a", -1000, WIRE_LIFE_LIVES, 0, -1, 0},
                                        {"a", 4000, 4000, 0, 0, 0}};
    struct scene s;

    (void)state;
    scene_make(&s, lives, 2);
    s.present[3] = 999999;
    s.present[5] = 0;
    s.host.first_ns = 17 * CLK_S;
    expect_lanes(&s, &usual,
                 "a                     .. /[==]  \n"
                 "  1 throughout        ..:::/::::\n");
}

static void names_steer_no_terminal(void **state)
{
    static const struct life lives[] = {{"\x1b[2J", 1000, 2000, 0, 0, 0}};
    struct scene s;
    struct buf b;

    (void)state;
    scene_make(&s, lives, 1);
    buf_init(&b, 1u << 20);
    assert_ok(lanes_draw(&b, &usual, &s.a));
    assert_null(strchr(buf_cstr(&b), 0x1b));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_no_agent_ran_is_dotted),
        cmocka_unit_test(a_picture_has_density_lanes_axis_and_its_signs),
        cmocka_unit_test(every_end_has_its_sign),
        cmocka_unit_test(those_at_once_lie_side_by_side_and_the_others_are_counted),
        cmocka_unit_test(a_tree_has_children_below_their_parents),
        cmocka_unit_test(what_is_missing_is_hatched_and_never_drawn_over),
        cmocka_unit_test(names_steer_no_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
