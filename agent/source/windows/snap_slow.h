/* What bulk tables do not tell and a handle does: CPUs allowed, priority of I/O, GDI and USER
 * objects, most handles so far, for the busiest processes once per period; command line, image and
 * account of processes whose start nobody recorded. Pure: it says what to ask (jobs), takes the
 * answers and completes tables with them; who asks is snap_ask.h, so no handle is opened between
 * two rows.
 *
 * Never asked: what belongs to the system's security (LSASS, the session manager, services of
 * virus protection), and what turned out to be protected. Every refusal is counted by reason.
 * Bounds:  SNAP_SLOW_TOP_MAX processes a period, SNAP_SLOW_JOBS jobs waiting, SNAP_SLOW_ACCOUNTS
 *          accounts known (those beyond stay SIDs), one entry per process of a table.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_SLOW_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_SLOW_H

#include "agent/source/source.h"

#define SNAP_SLOW_TOP_MAX  256
#define SNAP_SLOW_JOBS     512
#define SNAP_SLOW_ACCOUNTS 256

enum {
    SNAP_JOB_GAUGES = 1 << 0,
    SNAP_JOB_GUI = 1 << 1, /* with GAUGES: GDI and USER objects too, they are of our session */
    SNAP_JOB_LINE = 1 << 2,
    SNAP_JOB_IMAGE = 1 << 3,
    SNAP_JOB_USER = 1 << 4,
    SNAP_JOB_ACCOUNT = 1 << 5, /* the name of `sid`; alone */
};

struct snap_job {
    unsigned what;
    struct proc_id id;
    uint32_t round;  /* GAUGES: of which period */
    const char *sid; /* borrowed while the slow lane lives */
};

enum { SNAP_SLOW_AFFINITY, SNAP_SLOW_IO_PRIORITY, SNAP_SLOW_GDI, SNAP_SLOW_USER, SNAP_SLOW_GAUGES };

struct snap_answer {
    struct snap_job job;
    /* Of all of it: ERR_OK (as much as was obtainable), ERR_ACCESS, ERR_NOTFOUND (it has ended),
     * ERR_UNSUPPORTED (protected), ERR_TIMEOUT (not asked: the period's time was used up), ERR_IO
     */
    enum err error;
    unsigned have; /* 1 << gauge */
    int64_t values[SNAP_SLOW_GAUGES];
    int64_t peak_handles; /* 0 = unknown */
    bool line_cut;
    struct str line, image;
    struct str user; /* USER: SID; ACCOUNT: name */
};

struct snap_slow_conf {
    size_t top;        /* processes a period, 0 = none */
    int64_t period_ns; /* of gauges */
    bool users, command_lines;
    uint32_t session; /* our own */
    size_t processes_max;
};

/* Grows only. */
struct snap_slow_stats {
    uint64_t asked;
    uint64_t denied;    /* no right to open it */
    uint64_t protected; /* found to be protected, closed at once, never asked again */
    uint64_t gone;      /* ended before it was asked */
    uint64_t failed;
    uint64_t late;          /* the period's time was used up */
    uint64_t elsewhere;     /* not asked for objects: of another session */
    uint64_t accounts_full; /* users that stay SIDs */
};

struct snap_slow;

/* Errors: ERR_NOMEM, ERR_RANGE (top) */
NODISCARD enum err snap_slow_create(struct snap_slow **out, const struct snap_slow_conf *conf);
void snap_slow_destroy(struct snap_slow *s);
const struct snap_slow_stats *snap_slow_stats(const struct snap_slow *s);

/* Once per table: begin (texts of the last table's rows go), answers, table. `records`: starts are
 * recorded, command lines included; only processes that were there before are asked for theirs. */
void snap_slow_begin(struct snap_slow *s);
void snap_slow_answer(struct snap_slow *s, const struct snap_answer *a); /* copied */
void snap_slow_table(struct snap_slow *s, struct snap_row *rows, size_t n, int64_t mono_ns,
                     bool records);

/* The next job to hand out; false: none waits. */
bool snap_slow_next(struct snap_slow *s, struct snap_job *out);

#endif
