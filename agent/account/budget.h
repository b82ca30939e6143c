/* How much the agent collects at the moment: five levels, each with a fastest tick. The agent goes
 * down one when it costs too much or too much happens, and up one when a minute was quiet. Pure:
 * readings and the time come in, steps come out.
 *
 *   L0  lifecycle, exit totals, tables     1 Hz
 *   L1  the same, faster                  10 Hz
 *   L2  hard faults, disk                100 Hz
 *   L3  context switches               1,000 Hz
 *   L4  CPU samples                    1,000 Hz
 *
 * Down:    events lost within the last 10 s · mean CPU of 5 s above its budget · memory above its
 *          budget · ring above 75 % throughout 1 s · mean event rate of 5 s above its budget. After
 *          any step what came before it no longer counts, and a step down comes BUDGET_SETTLE_NS
 *          after the last step at the earliest.
 * Up:      BUDGET_QUIET_NS since the last step and the last cause, up to `max`. Means of CPU or
 *          events above three quarters of their limits count as a cause here. A level that is shed
 *          within BUDGET_FLAP_NS of climbing to it doubles the quiet time before the next climb, up
 *          to BUDGET_PATIENCE_NS; one that is held for as long lets it be short again.
 * Request: another level for a time, also above `max`; it is taken at once and shed like any other.
 *          When the time is over, what is above `max` ends.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ACCOUNT_BUDGET_H
#define PROCFLEET_AGENT_ACCOUNT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clk.h"

#define BUDGET_COUNT       5
#define BUDGET_LOSS_NS     (10 * CLK_S)
#define BUDGET_MEAN_NS     (5 * CLK_S)
#define BUDGET_RING_NS     CLK_S
#define BUDGET_RING_LIMIT  750 /* permille */
#define BUDGET_SETTLE_NS   (5 * CLK_S)
#define BUDGET_QUIET_NS    (60 * CLK_S)
#define BUDGET_ROOM        750 /* permille of a limit that a mean may take before a climb */
#define BUDGET_FLAP_NS     (600 * CLK_S)
#define BUDGET_PATIENCE_NS (64 * BUDGET_QUIET_NS)
#define BUDGET_LOOK_NS     (250 * CLK_MS) /* a reading is wanted so often at most */

enum level_cause {
    LEVEL_CAUSE_NONE,
    LEVEL_CAUSE_LOSS,
    LEVEL_CAUSE_CPU,
    LEVEL_CAUSE_MEMORY,
    LEVEL_CAUSE_RING,
    LEVEL_CAUSE_EVENTS,
    LEVEL_CAUSE_QUIET,   /* up */
    LEVEL_CAUSE_REQUEST, /* up or down */
    LEVEL_CAUSE_REQUEST_OVER,
    LEVEL_CAUSE_COUNT,
};

struct budget_conf {
    unsigned max;            /* 0 to 4 */
    unsigned cpus;           /* of the machine; 0 counts as 1 */
    int64_t cpu_permille;    /* of the machine */
    int64_t memory_bytes;    /* resident */
    int64_t events_per_s;    /* 0 in any of these three: no such limit */
    unsigned request;        /* this level from the first reading on, */
    int64_t request_span_ns; /* for so long; 0 = no request */
};

/* Totals since the start; they never go back. ring_permille is of this moment. */
struct budget_reading {
    int64_t cpu_ns; /* of this process */
    int64_t resident_bytes;
    uint64_t events;
    uint64_t lost;
    unsigned ring_permille;
};

struct level_step {
    unsigned from, to;
    enum level_cause cause;
    int64_t value, limit; /* of the cause, in its unit (permille, bytes, per s, ns); else 0 */
};

#define BUDGET_MARKS 8

struct budget {
    struct budget_conf conf;
    unsigned level;
    uint64_t steps[LEVEL_CAUSE_COUNT]; /* steps taken, by cause */
    bool begun;
    unsigned asked;         /* request in force */
    int64_t asked_until_ns; /* 0 = none */
    int64_t stepped_ns;     /* the last step */
    int64_t climbed_ns;     /* the last one up by itself; 0 = that is forgiven, or there was none */
    int64_t quiet_ns;       /* before the next one */
    int64_t caused_ns;      /* the last moment a cause stood */
    int64_t lost_ns;        /* the last moment something was lost, */
    uint64_t lost, lost_new; /* of that many, so many since the last step */
    int64_t ring_since_ns;   /* above the limit since; -1 = it is not */
    unsigned n_marks;
    struct {
        int64_t at_ns, cpu_ns;
        uint64_t events;
    } marks[BUDGET_MARKS]; /* a second apart, oldest first */
};

void budget_init(struct budget *l, const struct budget_conf *conf);

/* A reading of this moment; true: the level has changed, *step says how. */
bool budget_look(struct budget *l, int64_t now_ns, const struct budget_reading *r,
                 struct level_step *step);

/* Level `level` (0 to 4) until now_ns + span_ns; true as above. A new request replaces the old. */
bool budget_request(struct budget *l, int64_t now_ns, unsigned level, int64_t span_ns,
                    struct level_step *step);

/* The distance of ticks at this level when wanted_ns was configured, and of tables: with every
 * tick, but twice a second at most where context switches tell of the time between two tables, and
 * for ticks faster than 10 a second. */
int64_t budget_tick_ns(unsigned level, int64_t wanted_ns);
int64_t budget_table_ns(int64_t tick_ns, bool switches);

const char *budget_cause_name(enum level_cause cause); /* "cpu" */

#define BUDGET_TEXT 160

/* One sentence for people: from and to which level, the cause, its value and limit. */
void budget_step_text(char text[BUDGET_TEXT], const struct level_step *step);

#endif
