/* The monitor as somebody's library, over this machine. */
#include "tests/support/t.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/monitor.h"
#include "agent/source/linux/proc_linux.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/agent/accounts.h"

static enum err open_proc(void *ctx, struct source **out, struct source_sink sink,
                          struct errmsg *why)
{
    struct proc_linux_conf conf = {
        .period_ns = 100 * CLK_MS, .processes_max = MODEL_PROCESSES_MAX, .events = true};

    (void)ctx;
    return proc_linux_open(out, &conf, sink, why);
}

struct out {
    atomic_uint ticks, rows, facts, ended;
    atomic_uint others; /* rows of anybody but ourselves */
};

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct out *o = ctx;
    unsigned others = 0;

    for (size_t i = 0; i < tick->n_rows; i++) {
        others += tick->rows[i].info->id.pid != os_listed_id();
    }
    atomic_store(&o->others, others);
    atomic_store(&o->rows, (unsigned)tick->n_rows);
    atomic_fetch_add(&o->ticks, 1);
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void on_ended(void *ctx, enum err result)
{
    struct out *o = ctx;

    assert_int_equal(result, ERR_OK);
    atomic_fetch_add(&o->ended, 1);
}

static void on_event(void *ctx, const struct event *ev, const struct proc_info *of)
{
    struct out *o = ctx;

    (void)of;
    if (ev->kind == EV_PROC_START || ev->kind == EV_PROC_STOP) {
        atomic_fetch_add(&o->facts, 1);
    }
}

static struct monitor *start(struct out *o)
{
    struct monitor_conf conf = {.open = open_proc,
                                .period_ns = 100 * CLK_MS,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .tick = on_tick,
                                .life = on_life,
                                .ended = on_ended,
                                .ctx = o};
    struct errmsg why = {""};
    struct monitor *m;

    *o = (struct out){.ticks = 0};
    assert_ok(monitor_create(&m, &conf, &why));
    if (monitor_start(m, &why)) {
        fail_msg("%s", why.text);
    }
    assert_true(why.text[0] != '\0'); /* which means are in use */
    return m;
}

/* The count of ticks after one more than now. */
static void next_tick(struct monitor *m)
{
    struct monitor_stats stats;
    uint64_t seen;

    monitor_stats(m, &stats);
    seen = stats.sampler.ticks;
    while (stats.sampler.ticks <= seen) {
        monitor_stats(m, &stats);
    }
}

static void our_own_process_can_be_asked_for(void **state)
{
    static struct monitor_row row, again;
    struct errmsg why;
    struct out o;
    struct monitor *m = start(&o);

    next_tick(m);
    assert_ok(monitor_process(m, os_listed_id(), &row));
    assert_true(row.row.mask & METRIC_BIT(M_CPU_TIME));
    assert_true(row.row.values[M_WORKING_SET_SIZE] > 0);
    assert_int_equal(row.info.parent_pid, getppid());
    assert_ok(monitor_process_by_key(m, row.info.id, &again));
    assert_err(monitor_process(m, UINT32_MAX - 1, &again), ERR_NOTFOUND);
    assert_string_equal(monitor_source(m, &why), "proc");
    assert_true(why.text[0] != '\0');
    monitor_destroy(m);
    assert_int_equal(o.ended, 1);
}

static void a_filter_is_changed_while_it_runs(void **state)
{
    const uint32_t own = os_listed_id();
    struct process_filter_conf us = {.only = {.pids = &own, .n_pids = 1}};
    struct process_filter_conf everybody = {.except_system = false};
    struct monitor_stats stats;
    struct out o;
    struct monitor *m = start(&o);

    next_tick(m);
    assert_true(o.others > 0);
    assert_ok(monitor_set_filter(m, &us));
    next_tick(m);
    assert_int_equal(o.rows, 1);
    assert_int_equal(o.others, 0);
    monitor_stats(m, &stats);
    assert_true(stats.filtered > 0);
    assert_ok(monitor_set_filter(m, &everybody));
    next_tick(m);
    assert_true(o.others > 0);
    monitor_destroy(m);
}

static void what_linux_cannot_do_is_said(void **state)
{
    struct source_provider provider = {.level = 4};
    struct errmsg why = {""};
    struct out o;
    struct monitor *m = start(&o);

    assert_err(monitor_set_flags(m, 0x10, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "the source proc has no"));
    assert_err(monitor_set_stacks(m, true, &why), ERR_UNSUPPORTED);
    assert_err(monitor_add_provider(m, &provider, &why), ERR_UNSUPPORTED);
    assert_err(monitor_read_etl(m, "x.etl", &why), ERR_EXISTS);
    monitor_destroy(m);
}

/* Only where the kernel tells of starts, which takes a right. */
static void starts_and_ends_come_as_events(void **state)
{
    struct out o;
    struct monitor *m = start(&o);
    struct monitor_event_sink sink = {on_event, &o};
    pid_t child;

    next_tick(m);
    monitor_on_event(m, &sink);
    child = fork();
    if (child == 0) {
        _exit(3);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 30 && !monitor_about(m)->polled && atomic_load(&o.facts) == 0; i++) {
        next_tick(m);
    }
    if (monitor_about(m)->polled) {
        print_message("skipped: the process connector needs CAP_NET_ADMIN\n");
    } else {
        assert_true(o.facts > 0);
    }
    monitor_destroy(m);
}

static void at_rest_every_stage_has_accounted_for_what_came_in(void **state)
{
    struct monitor_conf conf = {
        .open = open_proc, .period_ns = 100 * CLK_MS, .processes_max = MODEL_PROCESSES_MAX};
    struct accounts a;
    struct errmsg why = {""};

    accounts_open(&a, conf, 8u << 20);
    assert_ok(monitor_start(a.monitor, &why));
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();

        if (child == 0) {
            _exit(3);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        next_tick(a.monitor);
    }
    monitor_stop(a.monitor);
    while (!atomic_load(&a.ended)) { /* its last batch is out */
        os_sleep_ns(CLK_MS);
    }
    accounts_check(&a);
    assert_true(accounts_count(&a, "table", "in") > 0);
    assert_true(accounts_count(&a, "batch", "out") > 0);
    accounts_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_process_can_be_asked_for),
        cmocka_unit_test(a_filter_is_changed_while_it_runs),
        cmocka_unit_test(what_linux_cannot_do_is_said),
        cmocka_unit_test(starts_and_ends_come_as_events),
        cmocka_unit_test(at_rest_every_stage_has_accounted_for_what_came_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
