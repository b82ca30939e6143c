/* Counters at a tick become samples: one row per running process, and one last row per process that
 * has ended since, those included that lived between two ticks only.
 *
 * A source of tables makes the ticks itself: each table is one (sampler_table). Where tables are
 * rarer than ticks (sampler_set_pace) the ticks between two tables are made too (sampler_advance),
 * with rows only for processes whose events moved a counter or which have ended, and without the
 * columns that tables fill, but for cpu_time where switches move it on. A tick between that has no
 * row is not told, but counted. A stream of events is cut by a grid (sampler_advance): it starts at
 * the first record's time, and sampler_finish adds a last tick at the last record's time, so that
 * totals over a recording are exact. Of a gap with no records only the first and the last tick are
 * made, and faster than 10 ticks per second only processes whose counters moved have rows; a
 * table's tick has a row for everybody in the table.
 * Bounds:  processes_max rows in a tick; more are counted as `capped`.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SAMPLE_SAMPLER_H
#define PROCFLEET_AGENT_SAMPLE_SAMPLER_H

#include "agent/account/aggregate.h"
#include "agent/process/instances.h"
#include "common/base/err.h"

struct sampler;

/* Gets a tick; its rows are borrowed during the call. */
typedef void (*sampler_tick_fn)(void *ctx, const struct sample_tick *tick);

struct sampler_conf {
    struct instances *table;     /* borrowed */
    struct aggregate *aggregate; /* borrowed */
    int64_t period_ns;           /* distance of ticks, 1 ms to 10 s */
    bool by_table;               /* ticks are tables; advance makes none */
    size_t processes_max;
    bool (*wants)(void *ctx, struct instance *p); /* who has rows; NULL: everybody */
    sampler_tick_fn tick;
    void *ctx;
};

struct sampler_stats {
    uint64_t ticks, rows;
    uint64_t due;      /* rows that were to be made: told, capped, lost or filtered */
    uint64_t capped;   /* rows over processes_max */
    uint64_t skipped;  /* ticks of gaps without records */
    uint64_t idle;     /* ticks between two tables without a row */
    uint64_t nomem;    /* rows lost for want of memory */
    uint64_t filtered; /* rows nobody wants */
};

/* Errors: ERR_NOMEM, ERR_INVALID (period) */
NODISCARD enum err sampler_create(struct sampler **out, const struct sampler_conf *conf);
void sampler_destroy(struct sampler *s);
const struct sampler_stats *sampler_stats(const struct sampler *s);

/* From now on ticks have this distance, and tables that one: where it is more, ticks are made
 * between them. Until the first call that is so for ticks faster than 10 per second. Errors:
 * ERR_INVALID */
NODISCARD enum err sampler_set_pace(struct sampler *s, int64_t period_ns, int64_t table_ns);

/* A look at everybody who runs, as a tick of that wall time; ticks go on as if it had not been.
 * Errors: ERR_NOMEM */
NODISCARD enum err sampler_collect(struct sampler *s, int64_t wall_ns, sampler_tick_fn tick,
                                   void *ctx);

void sampler_table(struct sampler *s, int64_t wall_ns, int64_t mono_ns);

/* Nothing earlier follows. Makes every tick up to and including this moment, from what was counted
 * before it. */
void sampler_advance(struct sampler *s, int64_t wall_ns, int64_t mono_ns);

/* Until time has come as far as sampler_due_ns, sampler_advance makes no tick, and sampler_reached
 * is enough; a table and a new pace change it. */
int64_t sampler_due_ns(const struct sampler *s);
void sampler_reached(struct sampler *s, int64_t wall_ns, int64_t mono_ns);

/* The end of the stream: the last tick, and every last row that is due. */
void sampler_finish(struct sampler *s);

#endif
