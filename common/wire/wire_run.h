/* Marks, runs and pieces of run files, to and from protobuf bytes, under the rules of wire_batch.h.
 * Decoded messages are released with wire_run_free, whatever they are; encoders only read. Threads:
 * any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_RUN_H
#define PROCFLEET_COMMON_WIRE_WIRE_RUN_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define RPC_MARK_RUN_BEGIN "procfleet.v1.Mark/RunBegin"
#define RPC_MARK_RUN_END   "procfleet.v1.Mark/RunEnd"
#define RPC_MARK_RUN_PUT   "procfleet.v1.Mark/RunPut"
#define RPC_QUERY_RUNS     "procfleet.v1.Query/Runs"
#define RPC_QUERY_RUN_GET  "procfleet.v1.Query/RunGet"

#define WIRE_RUN_NAME_MAX    64u
#define WIRE_RUN_SPEC_MAX    128u /* NAME@id */
#define WIRE_RUN_KEY_MAX     256u
#define WIRE_RUN_PATTERNS    64u
#define WIRE_RUN_PATTERN_MAX 256u
#define WIRE_RUN_LABELS      32u
#define WIRE_RUN_HOSTS_MAX   4096u
#define WIRE_RUN_LIST_MAX    1024u
#define WIRE_RUN_NOTES       32u
#define WIRE_RUN_CLASS_MAX   16u
#define WIRE_RUN_PART_MAX    (1u << 20)
#define WIRE_RUN_FILE_MAX    (64u << 20)
#define WIRE_LABEL_KEY_MAX   32u
#define WIRE_LABEL_VALUE_MAX 64u

struct wire_label {
    struct str key, value;
};

/* Ids that are all zero are absent. Times are UTC ns. */
struct wire_run_mark {
    struct uuid id, boot, parent;
    struct str key, name;
    size_t n_hosts, n_labels;
    const struct str *hosts;
    const struct wire_label *labels;
    int64_t when_ns, now_ns; /* the sender's clock: the mark, the sending; 0: absent */
    uint32_t root_pid;
    uint64_t root_start;
    int64_t ttl_ns;
    bool has_exit, late;
    uint32_t exit_code;
};

/* Wire values. */
enum wire_run_state {
    WIRE_RUN_OPEN,
    WIRE_RUN_CLOSING, /* ended; its file is being made */
    WIRE_RUN_READY,
    WIRE_RUN_FAILED,  /* ended with another exit code than 0 */
    WIRE_RUN_EXPIRED, /* nobody ended it */
    WIRE_RUN_IMPORTED,
    WIRE_RUN_STATES
};

struct wire_run_host {
    struct uuid id;
    struct str name;
    bool added;                 /* seen first after the begin */
    int64_t since_ns, until_ns; /* by its own clock; until 0: still open */
};

struct wire_run {
    struct uuid id, parent, boot;
    uint64_t number;
    struct str name, owner;
    struct str scope;           /* of who began it: a glob, "" = every host; not sent */
    uint8_t state;              /* enum wire_run_state */
    int64_t began_ns, ended_ns; /* collector's clock; ended 0: open */
    int64_t ttl_ns, error_ns;
    bool has_exit, late;
    uint32_t exit_code;
    uint32_t root_pid;
    uint64_t root_start;
    size_t n_labels, n_asked, n_hosts, n_notes;
    const struct wire_label *labels;
    const struct str *asked; /* names or globs */
    const struct wire_run_host *hosts;
    uint32_t hosts_asked, hosts_in;
    uint32_t revision; /* of the file; 0: none */
    uint64_t file_bytes;
    uint32_t coverage; /* ppm */
    struct str classes;
    const struct str *notes;
};

struct wire_runs_ask {
    struct str name;
    size_t n_labels;
    const struct wire_label *labels; /* values are globs */
    int64_t since_ns, until_ns;      /* 0: absent */
    uint32_t states;                 /* bit per enum wire_run_state; 0: all */
    uint32_t limit;                  /* 1 to WIRE_RUN_LIST_MAX */
    uint64_t before;                 /* 0: absent */
    bool hosts;
};

struct wire_runs {
    size_t n;
    const struct wire_run *runs;
    uint64_t next; /* 0: these are all */
    size_t n_class;
    const struct str *class_keys; /* of lab.class; none: not told */
};

struct wire_run_get {
    struct str name;
    uint64_t offset;
    uint32_t revision; /* 0: the newest */
    /* Without a name: a range that is no run; no hosts: all. */
    size_t n_hosts;
    const struct str *hosts;
    int64_t since_ns, until_ns;
};

struct wire_run_part {
    struct uuid id;
    struct str name;
    uint64_t offset, total, hash;
    struct str data;
    uint32_t revision;
};

/* What a message is; the struct of each is named beside it. */
enum wire_run_kind {
    WIRE_RUN_MARK,  /* struct wire_run_mark */
    WIRE_RUN_RUN,   /* struct wire_run */
    WIRE_RUN_ASK,   /* struct wire_runs_ask */
    WIRE_RUN_LIST,  /* struct wire_runs */
    WIRE_RUN_FETCH, /* struct wire_run_get */
    WIRE_RUN_PART   /* struct wire_run_part */
};

/* Errors of encoding: ERR_FULL (buf), ERR_INVALID (over a bound), ERR_NOMEM; of decoding:
 * ERR_CORRUPT, ERR_FULL (over a bound), ERR_NOMEM. */
NODISCARD enum err wire_run_encode(struct buf *out, enum wire_run_kind kind, const void *in);
/* *out: the struct of the kind, owned by the caller until wire_run_free; its texts live as long. */
NODISCARD enum err wire_run_decode(void *out, enum wire_run_kind kind, const void *p, size_t n);
void wire_run_free(void *m);

/* Letters, digits, '.', '_', '-', 1 to WIRE_RUN_NAME_MAX bytes. */
bool wire_run_name_ok(struct str name);
/* A key begins with a small letter; values have no control characters. */
bool wire_run_label_ok(const struct wire_label *l);

#endif
