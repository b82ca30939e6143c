/* The engine over batches that are made here: one host or several, one tick a second, values as the
 * test says. */
#include "collector/rules/rules_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/rules/rules_notice.h"
#include "tests/support/t.h"

#define T0      (INT64_C(1700000000) * CLK_S) /* a step */
#define PROCS   4u
#define HOSTS   12u
#define CHANGES 256u

struct change {
    char text[160];
    int64_t step_ns;
    uint8_t id[RULES_ID_BYTES];
};

struct rig {
    struct rules_conf *conf;
    struct rules_judge *judge;
    size_t n;
    struct change changes[CHANGES];
    int64_t runs_until_ns;  /* one is open */
    int64_t grace_until_ns; /* until then nothing is late */
    /* what the hosts do: */
    unsigned n_procs;
    int64_t memory[PROCS]; /* bytes */
    int64_t cpu_permille[PROCS];
    int64_t cpu_ns[HOSTS][PROCS]; /* so far */
    const char *names[PROCS];
    uint32_t parents[PROCS]; /* pids; 0: none is told */
    bool tells_late;         /* what processes are is in the store alone */
    const char *pool;        /* label of all hosts; NULL: facts are not known */
    const char *class_text;
    uint64_t seq[HOSTS];
    int64_t at_ns[HOSTS]; /* its last tick */
    int64_t offset_ns;
    uint8_t boot;
};

static void on_change(void *ctx, const struct rules_subject *s)
{
    struct rig *r = ctx;
    struct change *c = &r->changes[r->n++];

    assert_true(r->n < CHANGES);
    c->step_ns = s->step_ns;
    rules_notice_id(c->id, s);
    (void)snprintf(c->text, sizeof c->text, "%.*s %s/%s %s %d", (int)s->rule->name.n,
                   s->rule->name.p, s->host, s->key, notice_state_name(s->state),
                   (int)((s->step_ns - T0) / CLK_S));
}

static unsigned on_runs(void *ctx, const struct uuid *host, int64_t when_ns)
{
    (void)host;
    return when_ns < ((struct rig *)ctx)->runs_until_ns;
}

static int64_t on_deadline(void *ctx, int64_t step_ns, int64_t late_ns)
{
    const struct rig *r = ctx;

    return step_ns + late_ns > r->grace_until_ns ? step_ns + late_ns : r->grace_until_ns;
}

static const struct facts *on_facts(void *ctx, const struct uuid *host, const char *name,
                                    struct arena *a)
{
    const struct rig *r = ctx;
    struct facts *f = r->pool ? arena_alloc(a, sizeof *f) : NULL;

    (void)host;
    (void)name;
    if (f) {
        f->n_labels = 1;
        f->labels[0] = (struct label){.key = str_make("pool"), .value = str_make(r->pool)};
    }
    return f;
}

static struct str on_class(void *ctx, const struct facts *f, struct arena *a)
{
    (void)f;
    (void)a;
    return str_make(((struct rig *)ctx)->class_text);
}

static struct proc_info info_of(const struct rig *r, unsigned p)
{
    return (struct proc_info){.id = {100 + p, 7},
                              .name = str_make(r->names[p]),
                              .have = r->parents[p] ? INFO_PARENT : 0,
                              .parent_pid = r->parents[p],
                              .parent_start = 7};
}

static bool on_info(void *ctx, const struct uuid *host, const struct uuid *boot, struct proc_id id,
                    struct proc_info *out)
{
    const struct rig *r = ctx;

    (void)host;
    (void)boot;
    if (id.pid < 100 || id.pid >= 100 + PROCS || id.start != 7) {
        return false;
    }
    *out = info_of(r, id.pid - 100);
    return true;
}

static void rig_open(struct rig *r, const char *yaml)
{
    struct rules_judge_conf conf = {.env = {.change = on_change,
                                            .facts = on_facts,
                                            .host_class = on_class,
                                            .runs = on_runs,
                                            .deadline = on_deadline,
                                            .info = on_info,
                                            .ctx = r}};
    struct rules_where at;
    struct errmsg why = {""};

    memset(r, 0, sizeof *r);
    if (rules_conf_read(&r->conf, yaml, strlen(yaml), &at, &why) != ERR_OK) {
        fail_msg("%zu:%zu: %s", at.line, at.column, why.text);
    }
    conf.rules = r->conf;
    assert_ok(rules_judge_create(&r->judge, &conf));
    r->n_procs = 2;
    r->names[0] = "cc1";
    r->names[1] = "MsMpEng.exe";
    r->names[2] = "cc1";
    r->names[3] = "ld";
    r->class_text = "";
    for (unsigned h = 0; h < HOSTS; h++) {
        r->at_ns[h] = T0;
    }
}

static void rig_close(struct rig *r)
{
    rules_judge_destroy(r->judge);
    rules_conf_free(r->conf);
}

/* One batch of so many ticks of 1 s. received: behind its last tick. */
static void feed(struct rig *r, unsigned host, unsigned n_ticks, int64_t delay_ns,
                 const struct life_event *events, size_t n_events)
{
    static int64_t wall[1024], mono[1024], cpu[PROCS * 1024], memory[PROCS * 1024];
    struct batch_run runs[PROCS];
    struct proc_info infos[PROCS];
    const struct batch_column columns[] = {{M_CPU_TIME, r->n_procs * n_ticks, cpu},
                                           {M_PRIVATE_BYTES, r->n_procs * n_ticks, memory}};
    struct batch b = {.head = {.stream = 1, .seq = ++r->seq[host], .boot = {{r->boot}}},
                      .n_ticks = n_ticks,
                      .wall_ns = wall,
                      .mono_ns = mono,
                      .n_runs = n_ticks ? r->n_procs : 0,
                      .runs = runs,
                      .n_columns = 2,
                      .columns = columns,
                      .n_infos = r->tells_late ? 0 : r->n_procs,
                      .infos = infos,
                      .n_events = n_events,
                      .events = events};
    const struct host_offset clock = {.known = true, .offset_ns = r->offset_ns};
    const struct uuid id = {{(uint8_t)(host + 1)}};
    char name[16];
    struct rules_input in = {
        .host = name, .id = &id, .rest = &b, .rows = &b, .n_ticks = n_ticks, .clock = &clock};

    (void)snprintf(name, sizeof name, "lab-%u", host + 1);
    for (unsigned p = 0; p < r->n_procs; p++) {
        runs[p] = (struct batch_run){.id = {100 + p, 7},
                                     .n_ticks = n_ticks,
                                     .mask = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_PRIVATE_BYTES)};
        infos[p] = info_of(r, p);
        for (unsigned k = 0; k < n_ticks; k++) {
            r->cpu_ns[host][p] += r->cpu_permille[p] * CLK_MS;
            cpu[p * n_ticks + k] = r->cpu_ns[host][p];
            memory[p * n_ticks + k] = r->memory[p];
        }
    }
    for (unsigned k = 0; k < n_ticks; k++) {
        r->at_ns[host] += CLK_S;
        wall[k] = r->at_ns[host] - r->offset_ns;
        mono[k] = r->at_ns[host] - T0 + CLK_S;
    }
    in.received_ns = r->at_ns[host] + delay_ns;
    assert_ok(rules_judge_feed(r->judge, &in));
}

static void run_for(struct rig *r, unsigned seconds)
{
    for (unsigned s = 0; s < seconds; s += 10) {
        feed(r, 0, 10, CLK_S, NULL, 0);
    }
}

static void expect(const struct rig *r, size_t i, const char *text)
{
    if (i >= r->n) {
        fail_msg("change %zu is missing: %s", i, text);
    }
    assert_string_equal(r->changes[i].text, text);
}

#define HEAD "defaults: {late: 30s}\nsets: {antivirus: [MsMpEng.exe]}\nrules:\n"

static void a_rule_fires_when_it_held_for_so_long_and_clears_likewise(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: av, of: image, where: name in antivirus,\n"
                      "     when: 'avg(cpu_percent, 1m) > 25%', for: 30s, clear: 20s}\n");
    run_for(&r, 120);
    assert_int_equal(r.n, 0);
    r.cpu_permille[1] = 1000; /* from 120 on: above a quarter from 140 on */
    run_for(&r, 120);
    expect(&r, 0, "av lab-1/MsMpEng.exe firing 170");
    r.cpu_permille[1] = 0; /* from 240 on: a quarter at 290 (15 of 60 s), below */
    run_for(&r, 120);
    expect(&r, 1, "av lab-1/MsMpEng.exe ok 310");
    assert_int_equal(r.n, 2);
    rig_close(&r);
}

static void sums_are_of_all_processes_of_the_subject(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: img, of: image, when: last(private_bytes) > 150B}\n"
                      "  - {name: one, of: process, when: last(private_bytes) > 150B}\n"
                      "  - {name: all, of: host, when: last(private_bytes) > 290B}\n");
    r.n_procs = 3; /* cc1 is there twice */
    r.memory[0] = r.memory[1] = r.memory[2] = 100;
    run_for(&r, 60);
    assert_int_equal(r.n, 2);
    expect(&r, 0, "img lab-1/cc1 firing 30");
    expect(&r, 1, "all lab-1/ firing 30");
    rig_close(&r);
}

static void a_silent_host_is_unknown_and_the_rule_of_silence_fires(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: silent, when: 'avg(coverage, 1m) == 0'}\n"
                      "  - {name: mem, when: 'avg(private_bytes, 1m) > 5B', for: 20s}\n");
    run_for(&r, 120);
    assert_int_equal(r.n, 0);
    rules_judge_time(r.judge, T0 + 400 * CLK_S);
    expect(&r, 0, "mem lab-1/ unknown 160");
    expect(&r, 1, "silent lab-1/ firing 180");
    assert_int_equal(r.n, 2);
    r.at_ns[0] = T0 + 395 * CLK_S;
    run_for(&r, 300);
    expect(&r, 2, "silent lab-1/ ok 400");
    expect(&r, 3, "mem lab-1/ ok 460");
    assert_int_equal(r.n, 4);
    rig_close(&r);
}

static void unknown_neither_begins_nor_ends_an_alert(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'min(private_bytes, 30s) > 5B', for: 60s}\n");
    r.memory[0] = 10;
    run_for(&r, 120);
    expect(&r, 0, "mem lab-1/ firing 90");
    r.at_ns[0] += 40 * CLK_S; /* a hole: too short for a notice */
    r.memory[0] = 0;
    run_for(&r, 20); /* false from 180 on would be seen at once, but the window has the hole */
    assert_int_equal(r.n, 1);
    run_for(&r, 30);
    expect(&r, 1, "mem lab-1/ ok 190");
    rig_close(&r);
}

static void late_data_are_counted_and_left_out(void **state)
{
    struct rules_counts counts;
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'max(private_bytes, 1m) > 5B'}\n");
    run_for(&r, 100);
    r.memory[0] = 10;
    feed(&r, 0, 10, 200 * CLK_S, NULL, 0); /* ten ticks, three minutes late */
    r.memory[0] = 0;
    rules_judge_counts(r.judge, &counts);
    assert_int_equal(counts.late_ticks, 10);
    assert_int_equal(r.n, 1); /* unknown, when nothing had come */
    expect(&r, 0, "mem lab-1/ unknown 120");
    rig_close(&r);
}

static void what_waits_for_the_collector_is_not_late(void **state)
{
    struct rules_counts counts;
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'max(private_bytes, 1m) > 5B'}\n");
    run_for(&r, 100);
    r.grace_until_ns = T0 + 400 * CLK_S;
    r.memory[0] = 10;
    feed(&r, 0, 10, 200 * CLK_S, NULL, 0);
    r.memory[0] = 0;
    feed(&r, 0, 100, 120 * CLK_S, NULL, 0);
    rules_judge_counts(r.judge, &counts);
    assert_int_equal(counts.late_ticks, 0);
    expect(&r, 0, "mem lab-1/ firing 110");
    expect(&r, 1, "mem lab-1/ ok 170");
    rig_close(&r);
}

static void a_clock_that_is_off_is_corrected_by_whole_steps(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'last(private_bytes) > 5B'}\n");
    r.offset_ns = -3600 * CLK_S; /* the host's is an hour ahead */
    run_for(&r, 60);
    r.memory[0] = 10;
    run_for(&r, 20);
    expect(&r, 0, "mem lab-1/ firing 70");
    r.offset_ns = 0; /* it jumps back, and the offset with it */
    r.memory[0] = 0;
    run_for(&r, 60);
    expect(&r, 1, "mem lab-1/ ok 90");
    assert_int_equal(r.n, 2);
    rig_close(&r);
}

static void stamps_of_the_future_are_taken_as_of_now(void **state)
{
    struct rules_counts counts;
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'last(private_bytes) > 5B'}\n");
    run_for(&r, 60);
    feed(&r, 0, 10, -1000 * CLK_S, NULL, 0); /* arrived long before its stamps */
    rules_judge_counts(r.judge, &counts);
    assert_true(rules_judge_step(r.judge) <= T0 + 80 * CLK_S);
    rig_close(&r);
}

static void events_are_counted_in_their_step(void **state)
{
    struct life_event crash[3];
    struct rig r;

    rig_open(&r, HEAD "  - {name: burst, of: image, when: 'crashes(pid, 1m) >= 2'}\n"
                      "  - {name: loop, of: image, where: life < 5s, when: 'ends(pid, 1m) > 2'}\n");
    run_for(&r, 60);
    for (unsigned i = 0; i < 3; i++) {
        crash[i] =
            (struct life_event){.kind = LIFE_PROCESS_STOP,
                                .wall_ns = r.at_ns[0] + (i + 1) * CLK_S,
                                .info = {.id = {500 + i, 1},
                                         .name = str_make("render"),
                                         .have = INFO_EXITED | INFO_EXIT_CODE | INFO_EXIT_TIME |
                                                 INFO_CREATE_TIME | INFO_SIGNALLED,
                                         .exit_code = 128 + 11,
                                         .create_ns = r.at_ns[0],
                                         .exit_ns = r.at_ns[0] + CLK_S * (i == 2 ? 9 : 1)}};
    }
    feed(&r, 0, 10, CLK_S, crash, 3);
    run_for(&r, 100);
    expect(&r, 0, "burst lab-1/render firing 70");
    expect(&r, 1, "burst lab-1/render ok 130");
    assert_int_equal(r.n, 2); /* two of three lived under five seconds */
    rig_close(&r);
}

static void hosts_are_counted_three_ways(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: many, of: host, when: 'last(private_bytes) > 5B', hosts: 20%}\n"
                      "  - {name: img, of: image, when: 'last(private_bytes) > 5B', hosts: 3}\n");
    for (unsigned s = 0; s < 60; s += 10) {
        for (unsigned h = 0; h < 10; h++) {
            r.memory[0] = s >= 30 && h < 3 ? 10 : 0; /* three of ten */
            feed(&r, h, 10, CLK_S, NULL, 0);
        }
    }
    rules_judge_time(r.judge, T0 + 60 * CLK_S);
    expect(&r, 0, "many */ firing 40");
    expect(&r, 1, "img */cc1 firing 40");
    /* One of ten holds, five are silent: it may hold and it may not. */
    for (unsigned s = 0; s < 200; s += 10) {
        for (unsigned h = 0; h < 5; h++) {
            r.memory[0] = h < 1 ? 10 : 0;
            feed(&r, h, 10, CLK_S, NULL, 0);
        }
        rules_judge_time(r.judge, r.at_ns[0]);
    }
    assert_true(r.n >= 4);
    expect(&r, 2, "many */ unknown 80");
    expect(&r, 3, "img */cc1 unknown 80");
    rig_close(&r);
}

static void runs_and_sums_over_the_fleet(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: idle, when: 'last(private_bytes) > 5B and runs == 0'}\n"
                      "  - {name: sum, of: fleet, when: 'last(private_bytes) > 35B'}\n");
    r.memory[0] = 10;
    r.runs_until_ns = T0 + 55 * CLK_S;
    for (unsigned s = 0; s < 100; s += 10) {
        for (unsigned h = 0; h < 4; h++) {
            feed(&r, h, 10, CLK_S, NULL, 0);
        }
    }
    rules_judge_time(r.judge, T0 + 100 * CLK_S);
    expect(&r, 0, "sum */ firing 30");
    expect(&r, 1, "idle lab-1/ firing 60");
    rig_close(&r);
}

/* Whatever pieces the same data come in, the same changes come out. */
static void verdicts_are_a_function_of_the_data(void **state)
{
    static const char yaml[] =
        HEAD "  - {name: a, of: process, when: 'avg(cpu_percent, 1m) > 30%', for: 20s}\n"
             "  - {name: b, of: image, when: 'growth(private_bytes, 2m) > 50B and "
             "steady(private_bytes, 2m) > 50%'}\n"
             "  - {name: c, when: 'rate(cpu_time, 30s) > 60% or max(private_bytes, 1m) > 400B'}\n";
    struct rig *x = malloc(sizeof *x), *y = malloc(sizeof *y);
    struct rig *both[] = {x, y};

    for (size_t i = 0; i < 2; i++) {
        struct rig *r = both[i];
        unsigned seed = 5;

        rig_open(r, yaml);
        for (unsigned second = 0; second < 1800;) {
            unsigned n = i == 0 ? 1 : 1 + (seed >> 8) % 9;
            unsigned until = second - second % 30 + 30; /* values change every 30 s */

            n = second + n > until ? until - second : n;
            if (second % 30 == 0) {
                for (unsigned p = 0; p < 2; p++) {
                    seed = seed * 1103515245 + 12345;
                    r->cpu_permille[p] = seed >> 16 & 511;
                    r->memory[p] = seed >> 20 & 255;
                }
            }
            feed(r, 0, n, CLK_S, NULL, 0);
            second += n;
        }
    }
    assert_true(x->n > 10);
    assert_int_equal(x->n, y->n);
    for (size_t i = 0; i < x->n; i++) {
        assert_string_equal(x->changes[i].text, y->changes[i].text);
        assert_memory_equal(x->changes[i].id, y->changes[i].id, RULES_ID_BYTES);
    }
    rig_close(x);
    rig_close(y);
    free(x);
    free(y);
}

static void a_restored_alert_goes_on(void **state)
{
    const struct uuid id = {{1}};
    struct rules_subject s = {.host = "lab-1",
                              .id = &id,
                              .key = "",
                              .class_text = "",
                              .state = NOTICE_FIRING,
                              .since_ns = T0 - 100 * CLK_S};
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'last(private_bytes) > 5B', clear: 20s}\n");
    assert_ok(rules_judge_restore(r.judge, &s, str_make("mem")));
    assert_err(rules_judge_restore(r.judge, &s, str_make("gone")), ERR_NOTFOUND);
    r.memory[0] = 10;
    run_for(&r, 60);
    assert_int_equal(r.n, 0); /* it fires already */
    r.memory[0] = 0;
    run_for(&r, 60);
    expect(&r, 0, "mem lab-1/ ok 90");
    rig_close(&r);
}

static void subjects_beyond_the_bound_are_left_out_and_counted(void **state)
{
    struct rules_judge_conf conf = {.env = {.change = on_change}, .memory_max = 4096};
    struct rules_counts counts;
    struct rules_judge *j;
    struct rig r;

    rig_open(&r, HEAD "  - {name: p, of: process, when: 'avg(private_bytes, 1m) > 5B'}\n");
    conf.rules = r.conf;
    conf.env.ctx = &r;
    assert_ok(rules_judge_create(&j, &conf));
    rules_judge_destroy(r.judge);
    r.judge = j;
    r.n_procs = 4;
    for (unsigned h = 0; h < HOSTS; h++) {
        feed(&r, h, 10, CLK_S, NULL, 0);
    }
    rules_judge_counts(r.judge, &counts);
    assert_true(counts.bytes <= 4096);
    assert_true(counts.refused > 0 && counts.subjects > 0);
    rig_close(&r);
}

/* make starts sh, sh starts cc1; told from the youngest to the oldest. */
static void a_tree_rig(struct rig *r)
{
    rig_open(r, HEAD "  - {name: t, of: tree, where: 'name in [\"make\", \"sh\", \"cc1\"]',\n"
                     "     when: last(private_bytes) > 25B}\n");
    r->n_procs = 4;
    r->names[0] = "cc1";
    r->names[1] = "sh";
    r->names[2] = "make";
    r->names[3] = "other";
    r->parents[0] = 101;
    r->parents[1] = 102;
    r->parents[3] = 102; /* of the tree, whatever its name is */
    r->memory[0] = r->memory[1] = r->memory[2] = 10;
    r->memory[3] = 1;
}

static void a_tree_is_of_all_that_descend_from_its_top(void **state)
{
    struct rig r;

    a_tree_rig(&r);
    run_for(&r, 60);
    expect(&r, 0, "t lab-1/make 102 firing 30");
    assert_int_equal(r.n, 1);
    r.memory[0] = 0;
    run_for(&r, 60);
    expect(&r, 1, "t lab-1/make 102 ok 70");
    rig_close(&r);
}

/* As after a start: the store knows what processes are, no batch tells of it. */
static void a_tree_is_found_from_what_is_stored(void **state)
{
    struct rig r;

    a_tree_rig(&r);
    r.tells_late = true;
    run_for(&r, 60);
    expect(&r, 0, "t lab-1/make 102 firing 30");
    assert_int_equal(r.n, 1);
    rig_close(&r);
}

static void two_trees_are_two_subjects(void **state)
{
    struct rig r;

    a_tree_rig(&r);
    r.parents[1] = 0; /* sh is a top of its own, with cc1 */
    r.memory[2] = 30; /* make, with other */
    r.memory[3] = 1;
    run_for(&r, 60);
    expect(&r, 0, "t lab-1/make 102 firing 30");
    assert_int_equal(r.n, 1); /* 20 of sh and cc1 are not enough */
    rig_close(&r);
}

static void classes_are_judged_by_themselves(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: c, of: class, when: 'last(private_bytes) > 15B'}\n");
    r.pool = "build";
    for (unsigned s = 0; s < 60; s += 10) {
        for (unsigned h = 0; h < 4; h++) { /* hosts tell their class as they come */
            r.class_text = h < 2 ? "small" : "large";
            r.memory[0] = h < 2 ? 5 : 10;
            feed(&r, h, 10, CLK_S, NULL, 0);
        }
    }
    rules_judge_time(r.judge, T0 + 60 * CLK_S);
    assert_int_equal(r.n, 1); /* 2 x 10 of the large ones; 2 x 5 are not enough */
    expect(&r, 0, "c */ firing 30");
    rig_close(&r);
}

static void a_class_that_no_host_has_any_more_does_not_fire(void **state)
{
    struct rules_counts counts;
    struct rig r;

    rig_open(&r, HEAD "  - {name: c, of: class, when: 'last(private_bytes) > 5B'}\n");
    r.pool = "build";
    r.class_text = "build 1";
    r.memory[0] = 10;
    run_for(&r, 60);
    expect(&r, 0, "c */ firing 30");
    r.class_text = "build 2"; /* an update of the system */
    run_for(&r, 120);
    assert_int_equal(r.n, 3);
    assert_true(strcmp(r.changes[1].text, r.changes[2].text) != 0);
    rules_judge_counts(r.judge, &counts);
    assert_int_equal(counts.firing, 1);
    assert_int_equal(counts.subjects, 2); /* the host's, and the new class's */
    rig_close(&r);
}

static void what_was_told_of_several_hosts_is_not_judged_before_its_time(void **state)
{
    const struct rules_subject s = {.host = NOTICE_NO_HOST,
                                    .key = "",
                                    .class_text = "",
                                    .state = NOTICE_FIRING,
                                    .since_ns = T0 - 100 * CLK_S};
    struct rules_judge_conf conf = {.env = {.change = on_change}, .since_ns = T0 + 60 * CLK_S};
    struct rules_judge *j;
    struct rig r;

    rig_open(&r, HEAD "  - {name: any, when: 'last(private_bytes) > 5B', hosts: 1}\n");
    conf.rules = r.conf;
    conf.env.ctx = &r;
    assert_ok(rules_judge_create(&j, &conf));
    rules_judge_destroy(r.judge);
    r.judge = j;
    assert_ok(rules_judge_restore(r.judge, &s, str_make("any")));
    r.memory[0] = 10;
    run_for(&r, 120); /* the first minute fills windows */
    assert_int_equal(r.n, 0);
    rig_close(&r);
}

static void what_fires_on_a_host_ends_when_the_rule_leaves_it(void **state)
{
    struct rules_counts counts;
    struct rig r;

    rig_open(&r, HEAD "  - {name: h, where: 'label.pool == \"build\"',\n"
                      "     when: 'last(private_bytes) > 5B'}\n"
                      "  - {name: i, of: image, where: 'label.pool == \"build\"',\n"
                      "     when: 'last(private_bytes) > 5B'}\n");
    r.pool = "build";
    r.memory[0] = 10;
    run_for(&r, 60);
    expect(&r, 0, "h lab-1/ firing 30");
    expect(&r, 1, "i lab-1/cc1 firing 30");
    r.pool = "test";
    run_for(&r, 120);
    assert_int_equal(r.n, 4);
    expect(&r, 2, "h lab-1/ ok 60");
    expect(&r, 3, "i lab-1/cc1 ok 60");
    rules_judge_counts(r.judge, &counts);
    assert_int_equal(counts.firing, 0);
    r.pool = "build";
    run_for(&r, 120);
    assert_int_equal(r.n, 6); /* and begin again */
    rig_close(&r);
}

static void what_a_counter_grew_by_unseen_is_of_the_gap(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: rate, when: 'rate(cpu_time, 1m) > 60%'}\n"
                      "  - {name: grown, of: process, when: 'growth(cpu_time, 1m) > 40s'}\n");
    r.cpu_permille[0] = 200;
    run_for(&r, 120);
    r.at_ns[0] += 3600 * CLK_S; /* an hour without its agent, in which it took a fifth of a CPU */
    r.cpu_ns[0][0] += 720 * CLK_S;
    run_for(&r, 120);
    for (size_t i = 0; i < r.n; i++) {
        assert_null(strstr(r.changes[i].text, "firing"));
    }
    rig_close(&r);
}

static void unknown_steps_do_not_count_as_held(void **state)
{
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'min(private_bytes, 10s) > 5B', for: 60s}\n");
    run_for(&r, 60);
    r.memory[0] = 10;
    run_for(&r, 30);
    r.at_ns[0] += 40 * CLK_S; /* a hole: true before, true behind */
    run_for(&r, 60);
    assert_int_equal(r.n, 0);
    run_for(&r, 60);
    expect(&r, 0, "mem lab-1/ firing 200"); /* 60 s behind the first that is known again: 140 */
    rig_close(&r);
}

/* Whether the loop came round between an event's step and its batch makes no difference. */
static void late_events_are_left_out_whoever_looked_first(void **state)
{
    for (int looked = 0; looked < 2; looked++) {
        struct life_event crash = {.kind = LIFE_PROCESS_STOP,
                                   .info = {.id = {500, 1},
                                            .name = str_make("render"),
                                            .have = INFO_EXITED | INFO_EXIT_CODE | INFO_SIGNALLED,
                                            .exit_code = 128 + 11}};
        struct rules_counts counts;
        struct rig r;

        rig_open(&r, HEAD "  - {name: crash, of: image, when: 'crashes(pid, 1m) > 0'}\n");
        run_for(&r, 60);
        crash.wall_ns = r.at_ns[0] + 5 * CLK_S;
        if (looked) {
            rules_judge_time(r.judge, T0 + 170 * CLK_S);
        }
        feed(&r, 0, 10, 100 * CLK_S, &crash, 1);
        r.at_ns[0] = T0 + 170 * CLK_S;
        run_for(&r, 200);
        rules_judge_counts(r.judge, &counts);
        assert_int_equal(r.n, 0);
        assert_int_equal(counts.late_ticks, 11); /* its ticks, and the event */
        rig_close(&r);
    }
}

static void a_host_that_is_forgotten_before_it_was_judged_ends_its_alerts(void **state)
{
    const struct uuid id = {{1}};
    struct rules_subject s = {.host = "lab-1",
                              .id = &id,
                              .key = "",
                              .class_text = "",
                              .state = NOTICE_FIRING,
                              .since_ns = T0 - 100 * CLK_S};
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'last(private_bytes) > 5B'}\n");
    assert_ok(rules_judge_restore(r.judge, &s, str_make("mem")));
    rules_judge_forget(r.judge, &id, T0 + 5 * CLK_S);
    expect(&r, 0, "mem lab-1/ ok 0");
    rules_judge_forget(r.judge, &id, T0 + 65 * CLK_S);
    assert_int_equal(r.n, 1);
    rig_close(&r);
}

static void a_host_with_too_many_subjects_is_known_again_when_it_has_fewer(void **state)
{
    struct rules_judge_conf conf = {
        .env = {.change = on_change, .facts = on_facts, .host_class = on_class},
        .memory_max = 2300};
    struct rules_counts counts;
    struct rules_judge *j;
    struct rig r;

    rig_open(&r,
             HEAD "  - {name: p, of: process, hosts: 1, when: 'avg(private_bytes, 1m) > 5B'}\n");
    conf.rules = r.conf;
    conf.env.ctx = &r;
    assert_ok(rules_judge_create(&j, &conf));
    rules_judge_destroy(r.judge);
    r.judge = j;
    r.n_procs = 1;
    r.memory[0] = 10;
    run_for(&r, 120);
    expect(&r, 0, "p */cc1 100 firing 60");
    r.n_procs = 4;
    r.memory[0] = 0;
    run_for(&r, 120);
    rules_judge_counts(r.judge, &counts);
    assert_true(counts.refused > 0);
    expect(&r, 1, "p */cc1 100 unknown 160");
    r.n_procs = 1;
    run_for(&r, 900);
    expect(&r, 2, "p */cc1 100 ok 830");
    assert_int_equal(r.n, 3);
    rig_close(&r);
}

static void the_id_of_a_state_is_that_of_its_notice(void **state)
{
    struct rules_subject told = {.changed_ns = T0};
    char text[NOTICE_ID_TEXT], sent[NOTICE_ID_TEXT];
    struct rig r;

    rig_open(&r, HEAD "  - {name: mem, when: 'last(private_bytes) > 5B'}\n");
    r.memory[0] = 10;
    run_for(&r, 120);
    told.rule = rules_conf_rule(r.conf, 0);
    told.id = &(struct uuid){{1}};
    told.key = told.class_text = "";
    told.state = NOTICE_FIRING;
    told.changed_ns = r.changes[0].step_ns;
    told.step_ns = told.changed_ns + 60 * CLK_S;
    rules_notice_id_text(text, &told);
    for (size_t i = 0; i < RULES_ID_BYTES; i++) {
        (void)snprintf(sent + 2 * i, 3, "%02x", r.changes[0].id[i]);
    }
    assert_string_equal(text, sent);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_fires_when_it_held_for_so_long_and_clears_likewise),
        cmocka_unit_test(sums_are_of_all_processes_of_the_subject),
        cmocka_unit_test(a_silent_host_is_unknown_and_the_rule_of_silence_fires),
        cmocka_unit_test(unknown_neither_begins_nor_ends_an_alert),
        cmocka_unit_test(late_data_are_counted_and_left_out),
        cmocka_unit_test(what_waits_for_the_collector_is_not_late),
        cmocka_unit_test(a_clock_that_is_off_is_corrected_by_whole_steps),
        cmocka_unit_test(stamps_of_the_future_are_taken_as_of_now),
        cmocka_unit_test(events_are_counted_in_their_step),
        cmocka_unit_test(hosts_are_counted_three_ways),
        cmocka_unit_test(runs_and_sums_over_the_fleet),
        cmocka_unit_test(verdicts_are_a_function_of_the_data),
        cmocka_unit_test(a_restored_alert_goes_on),
        cmocka_unit_test(subjects_beyond_the_bound_are_left_out_and_counted),
        cmocka_unit_test(a_tree_is_of_all_that_descend_from_its_top),
        cmocka_unit_test(a_tree_is_found_from_what_is_stored),
        cmocka_unit_test(two_trees_are_two_subjects),
        cmocka_unit_test(classes_are_judged_by_themselves),
        cmocka_unit_test(a_class_that_no_host_has_any_more_does_not_fire),
        cmocka_unit_test(what_was_told_of_several_hosts_is_not_judged_before_its_time),
        cmocka_unit_test(what_fires_on_a_host_ends_when_the_rule_leaves_it),
        cmocka_unit_test(what_a_counter_grew_by_unseen_is_of_the_gap),
        cmocka_unit_test(unknown_steps_do_not_count_as_held),
        cmocka_unit_test(late_events_are_left_out_whoever_looked_first),
        cmocka_unit_test(a_host_that_is_forgotten_before_it_was_judged_ends_its_alerts),
        cmocka_unit_test(a_host_with_too_many_subjects_is_known_again_when_it_has_fewer),
        cmocka_unit_test(the_id_of_a_state_is_that_of_its_notice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
