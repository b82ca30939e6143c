/* What the engine's files share (rules_judge.h). Private. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_TYPES_H
#define PROCFLEET_COLLECTOR_RULES_RULES_TYPES_H

#include "collector/rules/rules_env.h"
#include "collector/rules/rules_window.h"
#include "common/base/map.h"
#include "common/wire/wire_batch.h"

#define RULES_NONE        UINT32_MAX
#define RULES_NO_WINDOW   UINT8_MAX
#define RULES_METRICS_MAX 64u /* different ones of all rules */

/* A subject of one host, or of many. */
struct rules_sub {
    uint32_t rule, host; /* host RULES_NONE: of many */
    uint32_t next;       /* of the same rule and host; of the free ones */
    uint32_t refs;       /* instances that add to it */
    uint64_t hash, start;
    char *key;
    char *class_text;             /* of subjects of many hosts; else NULL */
    struct rules_window *windows; /* n_windows; NULL of subjects of many hosts */
    uint32_t whole;               /* processes that were there at all ticks of the slice */
    uint64_t slice;               /* its values are in the scratch, at: */
    size_t scratch;
    bool of_host; /* stays as long as the host */
    uint8_t state, under, before, truth, reason;
    bool has_value;
    double value, coverage;
    int64_t since_ns, true_ns, false_ns, unknown_ns; /* 0: it is not */
    int64_t step_ns, changed_ns;                     /* of the verdict; of the state */
};

struct rules_inst {
    uint64_t start, info_hash;
    uint32_t pid, n_refs;
    uint32_t parent_pid;
    uint64_t parent_start;
    uint32_t *refs; /* subjects */
    int64_t seen_ns;
    uint64_t have; /* counters that have a last value */
};

/* An event that counts for a step that is not judged yet. */
struct rules_pending {
    int64_t step_ns;
    uint32_t sub;
    uint8_t call;
    uint32_t tag; /* of the rest it came with; 0: that has come */
};

struct rules_host {
    struct uuid id, boot;
    uint32_t index;
    char name[MODEL_HOST_NAME_MAX + 1];
    int64_t first_ns, step_ns; /* of its first tick; judged up to */
    int64_t tick_ns, mono_ns;  /* the last one */
    int64_t expected_ns, gap_ns;
    int64_t open_ticks, open_missing_ns; /* of the step that is not judged yet */
    int64_t facts_ns;                    /* when it was asked */
    struct arena memory;                 /* facts and class */
    const struct facts *facts;
    const char *class_text;
    bool has_boot, sweep;
    struct rules_time *times; /* one for each span */
    uint32_t *heads;          /* subjects of each rule */
    uint8_t *applies;         /* rules */
    int64_t *refused_ns;      /* of each rule: the step at which a subject was left out last */
    struct map by_id;         /* instances */
    size_t n_insts, cap_insts;
    struct rules_inst *insts;
    size_t cap_last;
    int64_t *last;     /* of each instance, its counters */
    struct map by_key; /* subjects */
    size_t n_pending, cap_pending;
    struct rules_pending *pending;
};

struct rules_metric {
    uint8_t id;
    bool counter, total; /* total: some rule wants the sum over the host */
    uint8_t place;       /* among the counters */
};

/* How often a subject of many hosts holds, at one step. */
struct rules_tally {
    uint64_t hash;
    uint32_t rule;
    uint64_t start;
    const char *key, *class_text; /* the step's; key NULL: the group as a whole */
    uint32_t n_true, n_unknown, n_filling, n_hosts;
    uint32_t n_values; /* hosts that gave values */
    long double values[RULES_CALLS];
    double coverage;
};

struct rules_open {
    int64_t step_ns;
    struct arena memory;
    struct map by_hash;
    size_t n, cap;
    struct rules_tally *tallies;
};

struct rules_judge {
    struct rules_judge_conf conf;
    size_t n_rules;
    int64_t late_ns;
    size_t n_spans;
    struct {
        int64_t span_ns, part_ns;
        uint8_t n_parts;
    } * spans;
    uint16_t (*call_span)[RULES_CALLS]; /* by rule */
    uint16_t *rule_span;                /* the longest one: of data, if there is any */
    bool *rule_data;                    /* there is */
    uint8_t (*call_metric)[RULES_CALLS];
    uint8_t (*call_window)[RULES_CALLS]; /* of the subject's; RULES_NO_WINDOW: of the host's time */
    bool (*call_first)[RULES_CALLS];     /* no call before it sees the same window */
    uint8_t *n_windows;                  /* of a subject of the rule */
    bool *rule_samples;                  /* some call is of samples, not of events alone */
    bool *rule_there;                    /* it matters at which ticks a subject was there */
    size_t n_metrics, n_counters;
    struct rules_metric metrics[RULES_METRICS_MAX];
    bool any_cross, any_tree;

    size_t n_hosts, cap_hosts;
    struct rules_host **hosts;
    struct map by_host;

    size_t n_subs, cap_subs;
    struct rules_sub *subs;
    uint32_t free_sub;
    struct map cross; /* subjects of many hosts */
    uint32_t *cross_heads;
    size_t n_open, cap_open;
    struct rules_open **open; /* by step */
    int64_t closed_ns;

    size_t bytes;
    uint64_t n_living; /* subjects */
    uint64_t slice;
    struct arena scratch; /* of a batch */
    size_t cap_acc, n_acc;
    int64_t *acc;
    size_t n_touched, cap_touched;
    uint32_t *touched;
    struct rules_counts counts;
};

static inline const struct rules_rule *rules_types_rule(const struct rules_judge *j, uint32_t i)
{
    return rules_conf_rule(j->conf.rules, i);
}

/* From which step on the rule is judged: those before only fill windows. */
static inline int64_t rules_types_since(const struct rules_judge *j, uint32_t r)
{
    return j->conf.since ? j->conf.since[r] : j->conf.since_ns;
}

/* Judged by how many hosts hold, or by sums over hosts. */
static inline bool rules_types_cross(const struct rules_rule *r)
{
    return r->many != RULES_ANY || r->of >= RULES_CLASS;
}

/* The host itself, all of its processes. */
static inline bool rules_types_total(const struct rules_rule *r)
{
    return r->of >= RULES_HOST && !r->where_process;
}

#endif
