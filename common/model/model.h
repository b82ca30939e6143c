/* Plain types that agent, wire, store and command line share. No behaviour. */
#ifndef PROCFLEET_COMMON_MODEL_MODEL_H
#define PROCFLEET_COMMON_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/str.h"
#include "common/model/metric.h"
#include "common/os/uuid.h"

#define MODEL_HOST_NAME_MAX    63   /* bytes */
#define MODEL_COMMAND_LINE_MAX 4096 /* bytes; longer ones are cut and flagged */
#define MODEL_TEXT_MAX         1024 /* bytes of any other text */
#define MODEL_PROCESSES_MAX    4096 /* of one host at one moment */

/* Many programs keep JSON's numbers as doubles, which hold whole numbers up to this and not all
 * beyond: larger ones are strings of digits in all our JSON. */
#define MODEL_JSON_EXACT (INT64_C(1) << 53)

/* A process instance within one boot of one host. `start` is the source's raw creation time
 * (Windows FILETIME, Linux clock ticks since boot), 0 when a trace never says; the pid alone is no
 * identity. */
struct proc_id {
    uint32_t pid;
    uint64_t start;
};

/* The same over all boots of a host. */
struct proc_key {
    struct proc_id id;
    struct uuid boot;
};

/* How an instance became known, and where its CPU time comes from. Wire values. */
enum proc_origin { ORIGIN_UNKNOWN, ORIGIN_START, ORIGIN_RUNDOWN, ORIGIN_SNAPSHOT, ORIGIN_INFERRED };
enum cpu_origin { CPU_ORIGIN_NONE, CPU_ORIGIN_TIMES, CPU_ORIGIN_CSWITCH, CPU_ORIGIN_SAMPLES };

/* Which members of struct proc_info are known: absent is not zero. */
enum info_have {
    INFO_PARENT = 1 << 0,
    INFO_SESSION = 1 << 1,
    INFO_CREATE_TIME = 1 << 2,
    INFO_EXIT_TIME = 1 << 3,
    INFO_EXIT_CODE = 1 << 4,
    INFO_COMMAND_LINE_CUT = 1 << 5,   /* the command line was longer */
    INFO_COMMAND_LINE_KNOWN = 1 << 6, /* known, possibly empty */
    INFO_EXITED = 1 << 7,
    INFO_EXIT_INFERRED = 1 << 8, /* exit time is an upper bound, seen by comparison */
    INFO_FINAL_TOTALS = 1 << 9,  /* last values are exact totals at exit, not the last sample */
    INFO_SIGNALLED = 1 << 10,    /* the exit code is 128 and the signal's number (Linux) */
};

struct proc_info {
    struct proc_id id;
    uint32_t have;      /* INFO_* */
    uint8_t origin;     /* enum proc_origin */
    uint8_t cpu_origin; /* enum cpu_origin */
    uint32_t parent_pid;
    uint64_t parent_start; /* 0 = unknown */
    uint64_t sequence;     /* number of its start on this boot, stays on the host; 0 = unknown */
    uint32_t session_id;
    uint32_t exit_code;
    int64_t create_ns; /* UTC */
    int64_t exit_ns;   /* UTC */
    struct str name;   /* file name of the image */
    struct str image;  /* full path where known */
    struct str command_line;
    struct str user; /* account: SID text or user name */
};

/* Lifecycle events as they travel. Wire values. */
enum life_kind {
    LIFE_PROCESS_START = 1,
    LIFE_PROCESS_STOP = 2,
    LIFE_THREAD_START = 3,
    LIFE_THREAD_STOP = 4,
    LIFE_IMAGE_LOAD = 5,
    LIFE_IMAGE_UNLOAD = 6,
    LIFE_LEVEL = 7,    /* the agent collects more or less than before */
    LIFE_SOURCE = 8,   /* its events come from elsewhere, or part of them was lost or refused */
    LIFE_PROVIDER = 9, /* an event of a chosen provider: type and values say what it is */
    LIFE_RULE = 10,    /* the collector's own: a rule changed its state (lab/notice.h) */
};

/* Those that are asked for when no kinds are named: few, and each of them worth a look. */
#define LIFE_KINDS_DEFAULT \
    (1u << LIFE_PROCESS_START | 1u << LIFE_PROCESS_STOP | 1u << LIFE_LEVEL | 1u << LIFE_SOURCE)

/* Whether it is about the host and not a process: its info is empty then. */
static inline bool life_is_of_host(unsigned kind)
{
    return kind == LIFE_LEVEL || kind == LIFE_SOURCE || kind == LIFE_RULE;
}

/* Whether its type and values say what it is. */
static inline bool life_has_values(unsigned kind)
{
    return kind == LIFE_PROVIDER || kind == LIFE_RULE;
}

/* What events of one kind of a provider look like. `keyword` 0: none. */
struct event_type {
    uint8_t guid[16]; /* of the provider, bytes as Windows stores them */
    uint16_t id;      /* classic events: the opcode */
    uint8_t version, opcode, level;
    uint64_t keyword;
    struct str provider, task, name; /* each may be empty */
    size_t n_fields;
    const struct str *fields; /* names of the values, in their order */
};

enum life_values {
    LIFE_VALUES_CUT = 1 << 0,      /* something of the event had no room */
    LIFE_VALUES_REDACTED = 1 << 1, /* a value was hidden or left out on its host */
};

struct life_event {
    uint8_t kind;        /* enum life_kind */
    uint8_t value_flags; /* LIFE_PROVIDER: enum life_values */
    int64_t wall_ns;
    int64_t mono_ns;
    uint32_t tid;          /* thread and provider events */
    struct proc_info info; /* process events: everything known; thread, image and provider events:
                              id and name; LIFE_LEVEL, LIFE_SOURCE: empty */
    struct str text; /* image events: path; LIFE_LEVEL, LIFE_SOURCE, LIFE_RULE: one sentence */
    const struct event_type *type; /* LIFE_PROVIDER, LIFE_RULE; NULL: its maker tells no types */
    struct str values;             /* LIFE_PROVIDER, LIFE_RULE: see event_values.h */
};

/* One process at one tick. values[m] is defined where bit m of mask is set. */
struct sample_row {
    const struct proc_info *info; /* borrowed during the call */
    uint32_t info_version;        /* grows when *info changes within the instance */
    bool fresh; /* the instance's first row, and its counters began at zero: the first value is
                   itself a difference */
    metric_mask mask;
    int64_t values[METRIC_COLS];
};

struct sample_tick {
    int64_t wall_ns;
    int64_t mono_ns;
    const struct sample_row *rows;
    size_t n_rows;
};

/* One line of the loss ledger: a stage's counter over the interval of a batch. */
struct ledger_row {
    struct str stage;  /* "source", "decode", "instances", "batch", "queue", … */
    struct str reason; /* "in", "out", or why something was dropped */
    uint64_t count;    /* since the previous batch */
};

static inline bool proc_id_eq(struct proc_id a, struct proc_id b)
{
    return a.pid == b.pid && a.start == b.start;
}

#endif
