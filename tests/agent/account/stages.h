/* The stages from facts to counters, joined for a test. */
#ifndef PROCFLEET_TESTS_AGENT_ACCOUNT_STAGES_H
#define PROCFLEET_TESTS_AGENT_ACCOUNT_STAGES_H

#include "agent/account/aggregate.h"
#include "tests/agent/feed.h"
#include "tests/support/t.h"

struct stages {
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *agg;
};

static inline void stages_ignore(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static inline struct stages stages_new(int64_t grace_ns)
{
    const struct instances_conf table_conf = {
        .instances_max = 4096, .threads_max = 1 << 16, .text_max = 1 << 20, .grace_ns = grace_ns};
    struct lifecycle_conf conf = {.told = stages_ignore};
    struct stages s;

    assert_ok(instances_create(&s.table, &table_conf));
    conf.table = s.table;
    assert_ok(lifecycle_create(&s.life, &conf));
    assert_ok(aggregate_create(&s.agg, s.table, s.life));
    return s;
}

static inline void stages_free(struct stages *s)
{
    aggregate_destroy(s->agg);
    lifecycle_destroy(s->life);
    instances_destroy(s->table);
}

static inline struct instance *stages_feed(struct stages *s, struct event ev)
{
    return aggregate_event(s->agg, &ev);
}

/* Processes 8 and 12 with threads 80, 84 and 120, all there from the beginning. */
static inline void stages_populate(struct stages *s)
{
    (void)stages_feed(s, feed_early(feed_proc(EV_PROC_FOUND, 0, 8, 0)));
    (void)stages_feed(s, feed_early(feed_thread(EV_THREAD_FOUND, 0, 8, 80)));
    (void)stages_feed(s, feed_early(feed_thread(EV_THREAD_FOUND, 0, 8, 84)));
    (void)stages_feed(s, feed_early(feed_proc(EV_PROC_FOUND, 0, 12, 0)));
    (void)stages_feed(s, feed_early(feed_thread(EV_THREAD_FOUND, 0, 12, 120)));
}

/* A counter of the pid's newest instance; of EVENT_NO_ID: what nobody owns. */
static inline uint64_t stages_tally(const struct stages *s, uint32_t pid, enum counters_id id)
{
    const struct instance *p;

    if (pid == EVENT_NO_ID) {
        return aggregate_unattributed(s->agg)->n[id];
    }
    p = instances_owner(s->table, pid);
    return p ? p->tally.n[id] : 0;
}

#endif
