/* The ledger of the agent's stages, over a trace that is made up to go wrong everywhere. */
#include "tests/agent/accounts.h"

#include <stdio.h>

#include "agent/source/etw_guid.h"
#include "tests/agent/feed.h"

enum { PROCESSES = 6, TABLES = 5, RECORDS = 40 };

struct script {
    struct source base;
    struct source_sink sink;
    struct source_stats stats;
};

/* Of three: one nobody knows, one too short to be what it says, one that is decoded. */
static void give_record(struct script *p, int64_t ms, unsigned i)
{
    static const uint8_t process[16] = ETW_CLASS_PROCESS, sample[16] = ETW_CLASS_PERF_INFO;
    static const uint8_t payload[16] = {0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0};
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .version = 2,
                            .opcode = i % 3 == 1 ? 46 : 1,
                            .pointer_size = 8,
                            .pid = EVENT_NO_ID,
                            .tid = EVENT_NO_ID,
                            .wall_ns = WALL0 + ms * CLK_MS,
                            .mono_ns = ms * CLK_MS,
                            .payload = payload,
                            .payload_n = i % 3 == 2 ? 1 : sizeof payload};

    memcpy(raw.guid, i % 3 == 1 ? sample : process, sizeof raw.guid);
    raw.guid[15] ^= i % 3 == 0;
    p->stats.in++;
    p->sink.raw(p->sink.ctx, &raw);
}

static void give_fact(struct script *p, struct event ev)
{
    p->stats.facts++;
    p->sink.fact(p->sink.ctx, &ev);
}

static void give_table(struct script *p, int64_t ms, unsigned first)
{
    struct snap_row rows[PROCESSES];
    struct snapshot table = feed_table(ms, rows, PROCESSES);

    for (unsigned i = 0; i < PROCESSES; i++) {
        rows[i] = feed_row(first + i, first + i, ms - 500);
        rows[i].mask = METRIC_BIT(M_THREAD_COUNT);
        rows[i].values[M_THREAD_COUNT] = 3;
    }
    p->stats.rows += PROCESSES;
    p->sink.table(p->sink.ctx, &table);
}

static enum err run(struct source *s)
{
    struct script *p = (struct script *)s;
    int64_t ms = 0;

    for (unsigned t = 0; t < TABLES; t++) {
        for (unsigned i = 0; i < RECORDS; i++) {
            ms += 25;
            p->sink.advance(p->sink.ctx, WALL0 + ms * CLK_MS, ms * CLK_MS);
            give_record(p, ms, i);
        }
        give_fact(p, feed_proc(EV_PROC_START, ms, 1000 + t, 1000 + t));
        give_fact(p, feed_thread(EV_THREAD_START, ms, 4711, 7)); /* of nobody known */
        give_fact(p, feed_proc(EV_PROC_STOP, ms, 1000 + t, 1000 + t));
        give_table(p, ms, 100 * (t + 1)); /* others than before: those have ended */
    }
    p->stats.in += 5; /* that a ring had no room for, */
    p->stats.ring_full = 5;
    p->stats.in += 2; /* and of no use */
    p->stats.skipped = 2;
    p->stats.lost_events = 5;
    return ERR_END;
}

static void stop(struct source *s)
{
    (void)s;
}

static void stats(const struct source *s, struct source_stats *out)
{
    *out = ((const struct script *)s)->stats;
}

static const struct source_ops ops = {.run = run, .stop = stop, .stats = stats, .close = stop};

static enum err open_script(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct script *p = ctx;

    (void)why;
    p->base.ops = &ops;
    p->base.about.name = "script";
    p->sink = sink;
    *out = &p->base;
    return ERR_OK;
}

static struct monitor_conf conf_of(struct script *p, const char *const *hidden, size_t n)
{
    return (struct monitor_conf){.open = open_script,
                                 .open_ctx = p,
                                 .period_ns = CLK_S,
                                 .processes_max = PROCESSES - 2,
                                 .who = {.except = {.names = hidden, .n_names = n}}};
}

static void at_rest_every_stage_has_accounted_for_what_came_in(void **state)
{
    struct script p = {.stats = {0}};
    struct accounts a;

    accounts_open(&a, conf_of(&p, NULL, 0), 1u << 20);
    assert_err(monitor_run(a.monitor), ERR_END);
    accounts_check(&a);
    /* each way out was taken */
    assert_int_equal(accounts_count(&a, "source", "ring_full"), 5);
    assert_int_equal(accounts_count(&a, "source", "skipped"), 2);
    assert_int_equal(accounts_count(&a, "table", "out"), TABLES * PROCESSES);
    assert_true(accounts_count(&a, "decode", "out") > 0);
    assert_true(accounts_count(&a, "decode", "unknown") > 0);
    assert_true(accounts_count(&a, "decode", "short") > 0);
    assert_true(accounts_count(&a, "aggregate", "out") > 0);
    assert_true(accounts_count(&a, "aggregate", "no_process") > 0);
    assert_true(accounts_count(&a, "sampler", "capped") > 0);
    assert_true(accounts_count(&a, "batch", "out") > 0);
    assert_int_equal(accounts_count(&a, "batch", "held"), 0);
    assert_true(accounts_count(&a, "queue", "held") > 0);
    accounts_close(&a);
}

static void what_a_filter_hides_is_accounted_for_too(void **state)
{
    static const char *const everybody[] = {"*"};
    struct script p = {.stats = {0}};
    struct accounts a;

    accounts_open(&a, conf_of(&p, everybody, 1), 1u << 20);
    assert_err(monitor_run(a.monitor), ERR_END);
    accounts_check(&a);
    assert_int_equal(accounts_count(&a, "sampler", "out"), 0);
    assert_true(accounts_count(&a, "sampler", "filtered") > 0);
    accounts_close(&a);
}

static void a_full_or_closed_queue_is_accounted_for(void **state)
{
    struct script p = {.stats = {0}}, q = {.stats = {0}};
    struct accounts a;

    accounts_open(&a, conf_of(&p, NULL, 0), 600);
    assert_err(monitor_run(a.monitor), ERR_END);
    accounts_check(&a);
    assert_true(
        accounts_count(&a, "queue", "oldest_dropped") + accounts_count(&a, "queue", "refused") > 0);
    accounts_close(&a);

    accounts_open(&a, conf_of(&q, NULL, 0), 1u << 20);
    queue_close(a.queue);
    assert_err(monitor_run(a.monitor), ERR_END);
    accounts_check(&a);
    assert_int_equal(accounts_count(&a, "batch", "out"), 0);
    assert_true(accounts_count(&a, "batch", "unsent") > 0);
    accounts_close(&a);
}

static void want_of_memory_anywhere_is_accounted_for(void **state)
{
    for (int n = 1; n < 400; n++) {
        struct script p = {.stats = {0}};
        struct accounts a;
        enum err e;

        accounts_open(&a, conf_of(&p, NULL, 0), 1u << 20);
        assert_ok(monitor_open(a.monitor, NULL));
        mem_fail_after(n);
        e = monitor_run(a.monitor);
        mem_fail_after(-1);
        assert_err(e, ERR_END);
        accounts_check(&a);
        accounts_close(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_rest_every_stage_has_accounted_for_what_came_in),
        cmocka_unit_test(what_a_filter_hides_is_accounted_for_too),
        cmocka_unit_test(a_full_or_closed_queue_is_accounted_for),
        cmocka_unit_test(want_of_memory_anywhere_is_accounted_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
