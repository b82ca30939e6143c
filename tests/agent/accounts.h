/* The agent's stages from a monitor to a queue, for tests of what the loss ledger says of them:
 * at rest everything that came in is accounted for, at every stage. */
#ifndef PROCFLEET_TESTS_AGENT_ACCOUNTS_H
#define PROCFLEET_TESTS_AGENT_ACCOUNTS_H

#include <stdatomic.h>

#include "agent/agent_store.h"
#include "agent/batch/batch.h"
#include "agent/monitor.h"
#include "agent/privacy/privacy.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "tests/support/t.h"

struct accounts {
    struct monitor *monitor;
    struct privacy *filter;
    struct batch_builder *batch;
    struct queue *queue;
    atomic_bool ended;
    size_t n;
    struct ledger_row rows[BATCH_LEDGER_MAX];
};

static inline void accounts_tick(void *ctx, const struct sample_tick *tick)
{
    struct accounts *a = ctx;

    err_ignore(batch_tick(a->batch, tick)); /* fails when the queue is closed */
}

static inline void accounts_life(void *ctx, const struct life_event *ev)
{
    struct accounts *a = ctx;

    err_ignore(batch_event(a->batch, ev));
}

static inline enum err accounts_put(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct accounts *a = ctx;
    enum err e = queue_put(a->queue, seq, bytes, n, false);

    return e == ERR_CLOSED ? e : ERR_OK;
}

static inline void accounts_ended(void *ctx, enum err result)
{
    struct accounts *a = ctx;

    (void)result;
    err_ignore(batch_finish(a->batch));
    atomic_store(&a->ended, true);
}

/* conf: of the monitor; what it hands on goes to `a`. */
static inline void accounts_open(struct accounts *a, struct monitor_conf conf, size_t queue_bytes)
{
    struct privacy_conf filter = {.command_line = PRIVACY_FULL};
    struct batch_conf batch = {.samples = 2,
                               .max_bytes = 256 << 10,
                               .max_age_ns = 10 * CLK_S,
                               .out = accounts_put,
                               .ctx = a};
    struct errmsg why = {""};

    *a = (struct accounts){.monitor = NULL};
    assert_ok(privacy_create(&a->filter, &filter));
    batch.filter = a->filter;
    assert_ok(batch_create(&a->batch, &batch));
    assert_ok(queue_create(&a->queue, queue_bytes));
    conf.tick = accounts_tick;
    conf.life = accounts_life;
    conf.ended = accounts_ended;
    conf.ctx = a;
    assert_ok(monitor_create(&a->monitor, &conf, &why));
}

static inline void accounts_read(struct accounts *a)
{
    struct agent_store store = {.queue = a->queue};

    a->n = monitor_ledger(a->monitor, a->rows, COUNT_OF(a->rows));
    a->n += batch_ledger(a->batch, a->rows + a->n, COUNT_OF(a->rows) - a->n);
    a->n += agent_store_ledger(&store, a->rows + a->n, COUNT_OF(a->rows) - a->n);
    assert_true(a->n < COUNT_OF(a->rows));
}

static inline uint64_t accounts_count(const struct accounts *a, const char *stage,
                                      const char *reason)
{
    for (size_t i = 0; i < a->n; i++) {
        if (str_eq(a->rows[i].stage, str_make(stage)) &&
            str_eq(a->rows[i].reason, str_make(reason))) {
            return a->rows[i].count;
        }
    }
    fail_msg("no row %s %s", stage, reason);
    return 0;
}

static inline void accounts_check(struct accounts *a)
{
    static const char *const stages[] = {"source",    "table",   "decode", "aggregate",
                                         "instances", "sampler", "batch",  "queue"};

    accounts_read(a);
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        int64_t open = ledger_balance(a->rows, a->n, stages[i]);

        if (open != 0) {
            fail_msg("%s: in %llu, and %lld are not accounted for", stages[i],
                     (unsigned long long)accounts_count(a, stages[i], "in"), (long long)open);
        }
    }
    for (size_t i = 0; i < a->n; i++) { /* nothing is told that the table does not know */
        if (ledger_kind(&a->rows[i])->stage.n == 0) {
            fail_msg("%s %s is in no table", a->rows[i].stage.p, a->rows[i].reason.p);
        }
    }
}

static inline void accounts_close(struct accounts *a)
{
    monitor_destroy(a->monitor);
    batch_destroy(a->batch);
    queue_destroy(a->queue);
    privacy_destroy(a->filter);
}

#endif
