/* rules.yaml: rules that the collector judges on what hosts send, read and checked.
 *
 *     defaults: {coverage: 99%, late: 30s, severity: warning}
 *     sets: {antivirus: [MsMpEng.exe, clamd]}
 *     rules:
 *       - name: antivirus-cpu
 *         of: image                  # process | tree | image | user | host | class | fleet
 *         where: 'name in antivirus and label.pool == "build"'
 *         when: avg(cpu_percent, 10m) > 25%
 *         for: 5m
 *
 * Functions of `when`, each over a span that ends with the step (of one second tick to the next
 * where a tick is one sample of all processes of a host):
 *
 *     avg min max last peak growth steady    of a gauge or cpu_percent, summed over the subject's
 *                                            processes at each tick
 *     rate growth                            of a counter: per time; how much it grew
 *     avg min last (coverage)                the share of the span that was delivered
 *     starts ends failed crashes (pid)       how many processes did
 *     count(pid)                             the most processes at one tick
 *
 * Bounds:  RULES_FILE_MAX, RULES_MAX and those below; texts are valid UTF-8.
 * Threads: any; a read file is only read. */
#ifndef PROCFLEET_COMMON_LAB_RULES_CONF_H
#define PROCFLEET_COMMON_LAB_RULES_CONF_H

#include "common/base/clk.h"
#include "common/expr/expr_host.h"

#define RULES_FILE_MAX (256u << 10)
#define RULES_MAX      1000u
#define RULES_NAME_MAX 64u  /* bytes */
#define RULES_SAY_MAX  512u /* bytes */
#define RULES_CALLS    6u   /* different functions in one `when` */
#define RULES_PARTS    12u  /* of a window */
#define RULES_STEP_NS  (10 * CLK_S)
#define RULES_SPAN_MAX (24 * 3600 * CLK_S)

enum rules_of {
    RULES_PROCESS,
    RULES_TREE, /* a process and all that descend from it, by the topmost that fits `where` */
    RULES_IMAGE,
    RULES_USER,
    RULES_HOST,
    RULES_CLASS,
    RULES_FLEET,
    RULES_OFS
};

/* How many hosts must hold before the rule does. */
enum rules_many { RULES_ANY, RULES_ALL, RULES_COUNT, RULES_SHARE };

enum rules_source {
    RULES_GAUGE,
    RULES_COUNTER,
    RULES_CPU,      /* cpu_percent, from cpu_time */
    RULES_COVERAGE, /* of the host */
    RULES_STARTS,
    RULES_ENDS,
    RULES_FAILED,
    RULES_CRASHES,
    RULES_PROCESSES, /* how many there are */
};

struct rules_call {
    uint8_t fn;     /* enum expr_fn */
    uint8_t source; /* enum rules_source */
    uint8_t metric; /* of the first three */
    uint8_t n_parts;
    int64_t span_ns, part_ns; /* multiples of RULES_STEP_NS */
    struct expr_dim dim;      /* of what comes out */
};

/* Slots of `when`, behind those of the host. */
#define RULES_SLOT_RUNS EXPR_HOST_END         /* open runs of the host */
#define RULES_SLOT_CALL (RULES_SLOT_RUNS + 1) /* and so on, one a call */

struct rules_rule {
    struct str name, severity, say;
    struct str use;                  /* targets, ',' between them */
    uint8_t of;                      /* enum rules_of */
    uint8_t many;                    /* enum rules_many */
    uint32_t many_n;                 /* hosts, or permille of them */
    const struct expr *where, *when; /* where NULL: everything */
    const struct expr_host_labels *where_labels, *when_labels;
    bool where_process; /* `where` speaks of processes, not of hosts alone */
    bool where_end;     /* and of how they ended: it is judged when they do */
    bool where_unsure;  /* and of path or command line, which not every source knows at once */
    bool runs;          /* `when` asks for runs */
    uint8_t n_calls;
    struct rules_call calls[RULES_CALLS];
    bool has_limit; /* the first comparison is of the first call with a number */
    double limit;
    int64_t for_ns, clear_ns, every_ns, late_ns;
    double coverage;    /* 0 to 1 */
    uint32_t at_most;   /* notices of one host, 0: any number */
    int64_t at_most_ns; /* in so long */
    uint64_t hash;      /* of what it watches and when it holds: texts do not count */
    unsigned line;
};

struct rules_conf;

struct rules_where {
    size_t line, column; /* from 1; 0: of the file as a whole */
};

/* Errors: ERR_INVALID, ERR_RANGE (why: what is wrong, without place; *at: where), ERR_NOMEM */
NODISCARD enum err rules_conf_read(struct rules_conf **out, const char *text, size_t n,
                                   struct rules_where *at, struct errmsg *why);
void rules_conf_free(struct rules_conf *c); /* NULL is allowed */

size_t rules_conf_n(const struct rules_conf *c);
const struct rules_rule *rules_conf_rule(const struct rules_conf *c, size_t i);
const char *rules_conf_of_name(unsigned of);

/* The longest window of any function, and the longest time of for or clear with late. */
int64_t rules_conf_span(const struct rules_conf *c);
int64_t rules_conf_wait(const struct rules_conf *c);

/* "ns", "bytes", "share", "/s", "bytes/s" or "" of a value, and the factor from the value of an
 * expression to it. */
const char *rules_conf_unit(struct expr_dim dim, double *factor);

#endif
