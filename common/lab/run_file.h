/* Run files (.pfr): what a run was, extracted once and complete in itself. The collector writes one
 * when a run ends; comparisons, reports and exports read nothing else. Version 1; docs/formats.md
 * has the bytes.
 *
 * All of it is plain data: who writes fills the struct with borrowed memory, who reads gets one
 * whose texts and arrays lie in one arena and live until run_file_free.
 * Bounds: RUN_FILE_MAX packed and unpacked, and the limits beside the members. Threads: any, one at
 * a time for each file. */
#ifndef PROCFLEET_COMMON_LAB_RUN_FILE_H
#define PROCFLEET_COMMON_LAB_RUN_FILE_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/model/model.h"

#define RUN_FILE_MAX         (64u << 20) /* bytes */
#define RUN_FILE_NAME_MAX    64u         /* [A-Za-z0-9._-] */
#define RUN_FILE_LABELS_MAX  32u         /* of a run or a host */
#define RUN_FILE_FACTS_MAX   64u
#define RUN_FILE_HOSTS_MAX   16384u
#define RUN_FILE_SPANS_MAX   64u
#define RUN_FILE_STAGES_MAX  256u
#define RUN_FILE_ROWS_MAX    1000000u
#define RUN_FILE_GROUPS_MAX  12u
#define RUN_FILE_BUCKETS_MAX 240u
#define RUN_FILE_LIVES_MAX   5000u
#define RUN_FILE_ENDED_MAX   1000u /* crashes */
#define RUN_FILE_NOTICES_MAX 1000u

/* Values on disk. */
enum run_state { RUN_OPEN, RUN_CLOSING, RUN_READY, RUN_FAILED, RUN_EXPIRED, RUN_IMPORTED };
enum run_origin { RUN_OF_STORE, RUN_OF_RECORDING, RUN_OF_RANGE };

struct run_pair {
    struct str key, value;
};

struct run_head {
    struct uuid id, parent;   /* parent: zero = none */
    struct str name, owner;   /* owner: the certificate's name */
    struct str made_by;       /* program and version that wrote the file */
    struct str source;        /* of an imported run: whose file; of a recording: its name */
    uint8_t state;            /* enum run_state */
    uint8_t origin;           /* enum run_origin */
    uint32_t revision;        /* 1, and one more each time it was extracted again */
    int64_t begin_ns, end_ns; /* UTC, the collector's clock */
    bool has_exit;
    uint32_t exit_code;   /* 0: it did what it should */
    bool has_root;        /* one process tree: rows in_tree are it */
    struct uuid boot;     /* of the root */
    uint32_t root_pid;    /* 0: the tree was asked for and not found; the whole host was taken */
    int64_t peak_step_ns; /* the step at which sums were looked at for their peaks */
    bool by_class;        /* too many hosts: rows are of an image on all hosts of a class */
    size_t n_labels;
    const struct run_pair *labels;
};

struct run_span {              /* of loss */
    int64_t first_ns, last_ns; /* UTC */
    uint64_t ticks, events;
    bool at_most; /* an unknown number of events is missing there */
};

struct run_stage { /* sum of a row of the loss ledger in the window */
    struct str stage, reason;
    uint8_t role, unit; /* enum ledger_role, ledger_unit */
    uint64_t count;
};

struct run_host {
    struct uuid id;
    struct str name;
    struct str agent;         /* version */
    struct str source;        /* of its events: "proc", "etw", "etl" ... */
    bool polled;              /* processes are found by looking, not told by events */
    bool absent;              /* it was asked for and nothing came from it */
    uint8_t cpu_origin;       /* enum cpu_origin */
    int64_t step_ns;          /* between samples; 0 = unknown */
    int64_t begin_ns, end_ns; /* its window, by its own clock */
    int64_t clock_error_ns;   /* of these */
    uint32_t ppm;             /* delivered: the lower of ticks and events */
    bool at_most;             /* events are missing and it is not known how many */
    bool overlapped;          /* another run that is no relative met it here */
    uint64_t ticks, lost_ticks, events, lost_events;
    size_t n_labels, n_facts, n_spans, n_stages;
    const struct run_pair *labels;
    const struct run_pair *facts; /* the inventory: os_name, os_version, os_build, kernel, arch,
                                     cpu_model, cpu_sockets, cpu_cores, cpu_threads,
                                     efficiency_cores, memory_bytes, machine, power, boot_ns, zone;
                                     numbers as digits; what is not known is not there */
    const struct run_span *spans;
    const struct run_stage *stages;
};

/* A column is a metric. A counter has one slot in a row, its total; a gauge has three. */
enum run_gauge { RUN_PEAK_SUM, RUN_MEAN_SUM, RUN_PEAK_ONE, RUN_GAUGE_SLOTS };

struct run_column {
    uint8_t metric; /* ids rise */
    bool gauge;
    uint16_t slot; /* the first */
};

/* What a row sums. Cells are disjoint and give everything by adding, except the peaks of gauges: a
 * sum has its peak at a moment of its own. The other rows are there for these alone. */
enum run_row_of {
    RUN_ROW_CELL,  /* host, image, user, in_tree */
    RUN_ROW_HOST,  /* everything on the host; with in_tree the tree */
    RUN_ROW_IMAGE, /* an image of several users, or in the tree and out of it */
    RUN_ROW_USER,  /* a user of several images */
};

struct run_row {
    uint32_t host; /* index */
    uint8_t of;    /* enum run_row_of */
    bool in_tree;
    struct str image, user;
    uint64_t instances, starts, ends, failed, crashed; /* failed: exit code not 0 */
    metric_mask have;      /* metrics that were measured; only these slots are defined */
    const int64_t *values; /* n_slots, none negative */
};

struct run_series { /* of the whole run; the last group is the rest */
    int64_t t0_ns, step_ns;
    uint32_t n_buckets;
    const uint32_t *present; /* n_buckets: delivered, ppm */
    size_t n_groups, n_metrics;
    const struct str *groups; /* images */
    const uint8_t *metrics;
    const int64_t *values; /* group by group, metric by metric: growth of a counter, mean of a
                              gauge's sum; -1 = not measured */
};

enum run_life_flag {
    RUN_LIFE_IN_TREE = 1 << 0,
    RUN_LIFE_ENDED = 1 << 1,
    RUN_LIFE_SIGNALLED = 1 << 2,    /* exit_code is a signal's number */
    RUN_LIFE_END_INFERRED = 1 << 3, /* end_ns is an upper bound */
    RUN_LIFE_EXIT_KNOWN = 1 << 4,
};

struct run_life {
    uint32_t host, pid, parent_pid, exit_code;
    uint32_t flags;           /* enum run_life_flag */
    uint64_t start;           /* raw: with pid the identity */
    int64_t begin_ns, end_ns; /* UTC; end_ns of one that lives on: the window's */
    int64_t cpu_ns;           /* in the window; -1 = unknown */
    struct str name, user, parent_name;
    struct str command; /* only with --command-lines */
};

struct run_notice {
    int64_t when_ns;
    struct str rule, subject, state, text;
};

struct run_file {
    struct run_head head;
    size_t n_hosts, n_columns, n_slots, n_rows, n_lives, n_crashes, n_notices;
    uint64_t lives_left_out;
    const struct run_host *hosts;
    const struct run_column *columns;
    const struct run_row *rows;
    struct run_series series;       /* n_groups 0: none */
    const struct run_life *lives;   /* crashed and longest first */
    const struct run_life *crashes; /* by time */
    const struct run_notice *notices;
    struct arena memory; /* of a file that was read */
};

/* Sections, for run_file_decode; head and hosts are always read. */
enum {
    RUN_FILE_TABLE = 1 << 0,
    RUN_FILE_SERIES = 1 << 1,
    RUN_FILE_LIVES = 1 << 2,
    RUN_FILE_CRASHES = 1 << 3,
    RUN_FILE_NOTICES = 1 << 4,
    RUN_FILE_ALL = 31,
};

/* Columns for these metrics, whose ids rise: kinds and slots. Returns the slots of a row. */
size_t run_file_layout(struct run_column *columns, const uint8_t *metrics, size_t n);
/* The column of a metric, NULL: it has none. */
const struct run_column *run_file_column(const struct run_file *f, unsigned metric);

/* Appends the file's bytes. Errors: ERR_INVALID (over a limit, an index or a value out of range),
 * ERR_FULL (above RUN_FILE_MAX, or out's), ERR_NOMEM; out is as it was then */
NODISCARD enum err run_file_encode(struct buf *out, const struct run_file *f);

/* Everything is checked before it counts; sections that are not known or not asked for are skipped,
 * a wrong checksum anywhere refuses the file. p is not needed afterwards. why may be NULL.
 * Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (over a limit), ERR_NOMEM */
NODISCARD enum err run_file_decode(struct run_file **out, const void *p, size_t n,
                                   unsigned sections, struct errmsg *why);
/* The same of a file on disk. Errors: also those of os_read_file */
NODISCARD enum err run_file_read(struct run_file **out, const char *path, unsigned sections,
                                 struct errmsg *why);
void run_file_free(struct run_file *f); /* of the two above; NULL is allowed */

#endif
