/* What a running agent knows of itself, for whoever asks on its host: status_file.h writes and
 * reads it, `doctor` and `service status` tell it. The keeper remembers what it takes: the latest
 * events of the agent itself, and the loss ledger over the last hour.
 * Bounds:  STATUS_NOTES events, STATUS_ROWS counters, one mark each STATUS_MARK_NS, of its cost
 * each STATUS_COST_NS. Threads: none of its own; whoever shares a keeper locks. */
#ifndef PROCFLEET_AGENT_STATUS_STATUS_H
#define PROCFLEET_AGENT_STATUS_STATUS_H

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/model/model.h"

#define STATUS_TEXT    512
#define STATUS_NOTES   8
#define STATUS_LOSSES  96 /* rows told */
#define STATUS_ROWS    192
#define STATUS_MARKS   13
#define STATUS_MARK_NS (300 * CLK_S) /* so the last hour is one of 60 to 65 minutes */
#define STATUS_COSTS   6
#define STATUS_COST_NS (60 * CLK_S) /* so the mean is one of five to six minutes */

/* LIFE_LEVEL or LIFE_SOURCE. */
struct status_note {
    int64_t wall_ns;
    bool level; /* else of the source */
    char text[STATUS_TEXT];
};

/* What the agent takes of its host, and what it may take; 0 = not told. */
struct status_cost {
    int64_t span_ns;        /* the mean is of so long; 0 = there is none yet */
    uint64_t cpu_ppm;       /* of one core, mean */
    unsigned cpus;          /* of the machine */
    unsigned cpu_permille;  /* budget.cpu, of the machine */
    uint64_t memory, limit; /* resident, budget.mem */
};

/* A row of the ledger that is not 0. */
struct status_loss {
    char stage[24], reason[40];
    bool missing; /* data that answers lack; else it says why (ledger.h) */
    uint64_t total, hour;
};

struct status {
    bool running; /* or it ended otherwise than in good order */
    uint32_t pid;
    char version[32], host[MODEL_HOST_NAME_MAX + 1];
    int64_t started_ns, written_ns;       /* UTC, as all below */
    char source[32], detail[STATUS_TEXT]; /* struct source_about's */
    bool polled;
    int64_t source_since_ns;
    unsigned level;
    int64_t level_since_ns;
    struct status_cost cost;
    char uplink[16]; /* "connecting", "connected", "unreachable", "refused", "failing" */
    char why[STATUS_TEXT];
    int64_t uplink_since_ns;
    uint64_t processes;
    uint64_t reported, filtered; /* rows since the start: that came out, that a filter hid */
    uint64_t acknowledged, quarantined, bytes_sent;
    uint64_t queue_held, queue_bytes, queue_dropped;
    uint64_t aside_held, aside_bytes;     /* in the spool's quarantine, now; */
    uint64_t aside_broken;                /* of them, tried again by themselves */
    uint64_t breaks;                      /* connections that broke in the last ten minutes */
    int64_t certificate_end_ns, renew_ns; /* renew: when the next try is due, 0 = never */
    uint64_t renewed, renew_failed;
    char renew_why[256]; /* of the last failure, "" when the last try worked */
    size_t n_notes;
    struct status_note notes[STATUS_NOTES]; /* newest last */
    size_t n_losses;
    struct status_loss losses[STATUS_LOSSES];
};

struct status_keeper {
    size_t n_notes; /* ever */
    struct status_note notes[STATUS_NOTES];
    size_t n_rows;
    struct ledger_row rows[STATUS_ROWS]; /* totals; texts are borrowed for good */
    size_t n_marks;
    struct {
        int64_t mono_ns;
        uint64_t counts[STATUS_ROWS];
    } marks[STATUS_MARKS]; /* oldest first */
    size_t n_costs;
    struct {
        int64_t mono_ns, cpu_ns;
    } costs[STATUS_COSTS]; /* oldest first */
    struct status_cost cost;
};

/* Other kinds are ignored. */
void status_keep_note(struct status_keeper *k, const struct life_event *ev);

/* The counters since the start as of this moment: always the same rows, whose texts stay. */
void status_keep_ledger(struct status_keeper *k, int64_t mono_ns, const struct ledger_row *rows,
                        size_t n);

/* Takes at this moment, since the start: CPU of the program, and what it has of memory. */
void status_keep_cost(struct status_keeper *k, int64_t mono_ns, int64_t cpu_ns, int64_t resident);

/* Fills notes, losses and of the cost what was measured. */
void status_keep_read(const struct status_keeper *k, struct status *out);

/* The row's count in the last hour; 0 when it has none. */
uint64_t status_lost(const struct status *s, const char *stage, const char *reason);

/* All that is missing, in the last hour or ever. */
uint64_t status_missing(const struct status *s, bool ever);

/* Steps down of the level in the last hour. */
uint64_t status_falls(const struct status *s);

/* Whether it runs, by what the file says and by the lock of its state directory. */
enum status_life {
    STATUS_NEVER,  /* no file, or none that can be read */
    STATUS_RUNS,   /* and what the file says is of now */
    STATUS_SILENT, /* somebody holds the lock, and has told nothing of itself for STATUS_STALE_NS */
    STATUS_KILLED, /* nobody does, and the last one did not end in good order */
    STATUS_ENDED,
};
#define STATUS_STALE_NS (30 * CLK_S)
enum status_life status_life(const struct status *s, bool locked, int64_t now_ns); /* UTC */

/* Whole days that the certificate has left at this moment, UTC. */
int64_t status_days(const struct status *s, int64_t now_ns);

/* A few lines for people, each with its end. */
void status_print(struct buf *out, const struct status *s);

#endif
