/* Where events come from. A source delivers through the sink it was opened with and knows nobody
 * else. It may deliver three things: raw ETW records (decode makes facts of them), facts the
 * platform knows already, and bulk process tables at its ticks. Threads: run blocks in the caller's
 * thread and calls the sink from there only; stop comes from any. */
#ifndef PROCFLEET_AGENT_SOURCE_SOURCE_H
#define PROCFLEET_AGENT_SOURCE_SOURCE_H

#include "agent/source/etw_provider.h"
#include "agent/source/event.h"
#include "common/base/err.h"
#include "common/model/model.h"

enum raw_form {
    RAW_CLASSIC,  /* class GUID, opcode, version */
    RAW_MANIFEST, /* provider GUID, id, version */
    RAW_MESSAGE,  /* WPP */
};

/* One ETW record; all pointers are borrowed for the duration of the call. */
struct raw_event {
    uint8_t guid[16]; /* class or provider, bytes as stored */
    uint8_t form;     /* enum raw_form */
    uint8_t version, opcode, level;
    uint8_t pointer_size; /* 4 or 8, of this record */
    bool early;           /* see struct event */
    uint16_t id, task, cpu;
    uint32_t pid, tid; /* EVENT_NO_ID = the header has none */
    uint64_t keyword;
    int64_t wall_ns, mono_ns;
    int64_t shift_ns;   /* wall_ns minus the time as recorded: times in payloads need it too */
    int64_t ticks;      /* the clock's own stamp */
    uint64_t frequency; /* of that clock, Hz; payloads hold stamps of it too; 0 = unknown */
    uint8_t header;     /* files: enum etl_record_type it was stored as; live: 0 */
    uint8_t counters;   /* files: PMC values that stood before the payload */
    uint64_t place;     /* files: where its buffer stands in the file */
    bool has_sequence, has_component; /* RAW_MESSAGE: which of these two it has; a message has
                                         either a GUID or a component */
    uint32_t sequence, component;
    const uint8_t *payload;
    size_t payload_n;
    const uint8_t *ext; /* chain of extended items, or NULL */
    size_t ext_n;
};

/* One process in a bulk table. Values are absolute; see metric.h. */
struct snap_row {
    struct proc_info info;
    uint64_t info_version; /* another one after every change of info; 0 = not counted */
    metric_mask mask;
    int64_t values[METRIC_COLS];
};

struct snapshot {
    int64_t wall_ns, mono_ns; /* of the tick it belongs to */
    const struct snap_row *rows;
    size_t n_rows;
    bool complete; /* every process is in it: who is missing has ended */
};

/* What a source counts about itself; grows only. */
struct source_stats {
    uint64_t in;          /* records that came */
    uint64_t facts;       /* handed on without a record, but for EV_SOURCE, EV_GROUPS */
    uint64_t rows;        /* processes read for tables */
    uint64_t skipped;     /* of the records: nobody decodes them */
    uint64_t ring_full;   /* of the records: told lost here, in lost_events or damaged */
    uint64_t held;        /* of the records: now, on their way */
    uint64_t late;        /* ticks that were left out because the agent was late */
    uint64_t ended;       /* of the rows: processes that ended before the table was done */
    uint64_t lost_events; /* told lost by the platform */
    uint64_t lost_buffers;
    uint64_t lost_at_start; /* of both: while it told who lives, which says nothing of a rate */
    uint64_t damaged;       /* records, buffers or tables that could not be read */
    uint64_t skipped_bytes;
    uint64_t gone;           /* processes that died while being read */
    uint64_t denied;         /* files that could not be read */
    uint64_t capped;         /* processes beyond the limit of a table */
    unsigned ring_permille;  /* now: how full the fullest ring behind a callback is; it may fall */
    int64_t callback_p99_ns; /* now: what 99 % of the latest callbacks took; 0 = not measured */
};

struct event_switch;

#define SOURCE_SWITCHES_MAX 128u

struct source_sink {
    void *ctx;
    void (*raw)(void *ctx, const struct raw_event *ev);
    /* Recordings: context switches, and threads made ready, in the kernel's own form (class Thread,
     * opcodes 36 and 50), of which there are most, instead of raw: at least one, at most
     * SOURCE_SWITCHES_MAX, nothing between them. Their times take the place of calls of advance;
     * none goes back. May be NULL, and is not called while the pace asks for whole ones. */
    void (*switches)(void *ctx, const struct event_switch *run, size_t n);
    void (*fact)(void *ctx, const struct event *ev); /* recordings: EV_LOST of flagged
                                                             buffers, EV_GROUPS before all else */
    void (*table)(void *ctx, const struct snapshot *snap);
    /* Time has come this far: nothing earlier follows. Recordings call it at every new record's
     * time, live sources with every table and at every tick between two. */
    void (*advance)(void *ctx, int64_t wall_ns, int64_t mono_ns);
};

/* What the host and the recording are, known after open. */
struct source_about {
    const char *name; /* "proc", "snapshot", "etl" */
    struct uuid boot;
    uint32_t cpus;
    bool polled; /* starts and exits come by comparison only */
    bool replay;
    char system[64];  /* "Linux 6.1.0", "Windows 10.0.19045.4291 (10 Pro)" */
    char detail[512]; /* one sentence for the log: which means are in use and why */
    /* Recordings: times of the first and the last record after rebasing; live: 0. */
    int64_t first_wall_ns, last_wall_ns;
};

struct source;

#define SOURCE_LEDGER_ROWS 48

/* Everything that differs between event sources. Order: open (of the source's own header), run,
 * stop (any thread), close. */
struct source_ops {
    /* Blocks until stop (ERR_OK), the end of input (ERR_END), or failure. */
    enum err (*run)(struct source *s);
    void (*stop)(struct source *s); /* idempotent, never blocks */
    /* While run is under way: only from its thread, that is from a call of the sink. */
    void (*stats)(const struct source *s, struct source_stats *out);
    /* May be NULL. What it counts beyond its stats, for the loss ledger: always the same rows in
     * the same order, SOURCE_LEDGER_ROWS at most; texts are literals. Their stage is "etw" or
     * "snap": what they tell is why, and no second account of what stats calls lost. Called as
     * stats is. */
    size_t (*ledger)(const struct source *s, struct ledger_row *rows, size_t max);
    void (*close)(struct source *s); /* NULL is allowed; run must have returned */
};

/* How much is wanted at the moment, written by the receiver from within a call of the sink. Live
 * sources look at it before they wait. Members that are 0 change nothing. */
struct source_pace {
    int64_t tick_ns;  /* distance of calls of advance, */
    int64_t table_ns; /* and of tables */
    unsigned level;   /* see budget.h: what more than the lifecycle is wanted */
    unsigned shed;    /* but not these groups: 1 << enum source_shed, always meant */
    bool whole;       /* recordings: instead of runs of switches raw records; always meant */
};

/* A wish about what is collected, for sources that can follow one while they run. */
struct source_ask {
    enum {
        SOURCE_ASK_FLAGS,    /* collect these of the kernel's kinds of events, as far as the level
                                permits, instead of the configured ones */
        SOURCE_ASK_STACKS,   /* with the stack of whoever caused them, or without */
        SOURCE_ASK_PROVIDER, /* also this one */
        SOURCE_ASK_NO_PROVIDER, /* this one (guid) no more */
        SOURCE_ASK_BUFFERS,     /* of each session as many at most; not of the one of high rates */
    } what;
    uint32_t flags; /* EVENT_TRACE_FLAG_… */
    bool on;
    uint32_t max_buffers;
    struct source_provider provider;
};

/* First member of every source's own struct. */
struct source {
    const struct source_ops *ops;
    struct source_about about;
    struct source_pace pace;

    /* NULL where nothing can be asked. From any thread while the source is open; waits until the
     * system has answered. Errors: ERR_UNSUPPORTED (this wish, at present or ever), ERR_PROVIDER
     * (refused), ERR_FULL, ERR_ACCESS, ERR_LOST, ERR_IO */
    enum err (*ask)(struct source *s, const struct source_ask *ask, struct errmsg *why);
};

#endif
