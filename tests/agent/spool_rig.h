/* Small batches with samples and events, for the tests of the spool. */
#ifndef PROCFLEET_TESTS_AGENT_SPOOL_RIG_H
#define PROCFLEET_TESTS_AGENT_SPOOL_RIG_H

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/wire/wire.h"
#include "tests/support/t.h"

enum { RIG_TICKS = 4, RIG_RUNS = 3, RIG_EVENTS = 2 };
#define RIG_ROWS (RIG_TICKS * RIG_RUNS)

/* An encoded batch of RIG_ROWS rows and RIG_EVENTS events, the same for the same numbers. */
static inline void rig_batch(struct buf *out, uint64_t stream, uint64_t seq)
{
    int64_t wall_ns[RIG_TICKS], mono_ns[RIG_TICKS], values[RIG_TICKS * RIG_RUNS];
    struct batch_run runs[RIG_RUNS] = {{{0}, 0, 0, 0, false}};
    struct life_event events[RIG_EVENTS] = {{0}};
    struct ledger_row ledger = {str_make("source"), str_make("in"), 7};
    struct batch_column column = {M_KERNEL_TIME, RIG_TICKS * RIG_RUNS, values};
    struct batch b = {.n_ticks = RIG_TICKS,
                      .wall_ns = wall_ns,
                      .mono_ns = mono_ns,
                      .n_runs = RIG_RUNS,
                      .runs = runs,
                      .n_columns = 1,
                      .columns = &column,
                      .n_events = RIG_EVENTS,
                      .events = events,
                      .n_ledger = 1,
                      .ledger = &ledger};
    struct wire_encoder *enc;
    char name[32];

    b.head.stream = stream;
    b.head.seq = seq;
    (void)snprintf(name, sizeof name, "process-%llu", (unsigned long long)seq);
    for (unsigned i = 0; i < RIG_TICKS; i++) {
        wall_ns[i] = 1700000000000000000 + (int64_t)(seq * 100 + i) * 1000000000;
        mono_ns[i] = (int64_t)(seq * 100 + i) * 1000000000;
    }
    for (unsigned i = 0; i < RIG_RUNS; i++) {
        runs[i] = (struct batch_run){
            .id = {i + 1, i + 1}, .n_ticks = RIG_TICKS, .mask = 1ull << M_KERNEL_TIME};
    }
    for (unsigned i = 0; i < RIG_TICKS * RIG_RUNS; i++) {
        values[i] = (int64_t)(seq * 7919 + i * 104729);
    }
    for (unsigned i = 0; i < RIG_EVENTS; i++) {
        events[i].kind = LIFE_PROCESS_START;
        events[i].wall_ns = wall_ns[i];
        events[i].mono_ns = mono_ns[i];
        events[i].info.id = (struct proc_id){i + 1, i + 1};
        events[i].info.name = str_make(name);
    }
    assert_ok(wire_encoder_create(&enc));
    buf_reset(out);
    assert_ok(wire_batch_encode(enc, out, &b));
    wire_encoder_destroy(enc);
}

/* Of one reason of stage "spool" in a decoded batch. */
static inline uint64_t rig_told(const struct batch *b, const char *reason)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        if (str_eq(b->ledger[i].stage, str_make("spool")) &&
            str_eq(b->ledger[i].reason, str_make(reason))) {
            n += b->ledger[i].count;
        }
    }
    return n;
}

#endif
