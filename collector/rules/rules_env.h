/* What the engine of rules (rules_judge.h) tells and asks: subjects with their states, what it
 * wants to know of hosts, its bounds and counts. Plain data. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_ENV_H
#define PROCFLEET_COLLECTOR_RULES_RULES_ENV_H

#include "common/base/arena.h"
#include "common/lab/notice.h"
#include "common/lab/rules_conf.h"

#define RULES_SUBJECTS_MAX 100000u
#define RULES_MEMORY_MAX   ((size_t)64 << 20)
#define RULES_KEY_MAX      128u

enum rules_reason {
    RULES_NO_REASON,
    RULES_FILLING,  /* the host was not there for the whole window */
    RULES_COVERED,  /* too little of it was delivered */
    RULES_ABSENT,   /* an input is absent */
    RULES_TOO_MANY, /* subjects */
    RULES_REASONS
};

/* A rule and what it is about. */
struct rules_subject {
    const struct rules_rule *rule;
    const char *host; /* NOTICE_NO_HOST: of no single host */
    const struct uuid *id;
    const char *key; /* "MsMpEng.exe", "cc1 4711"; "" */
    uint64_t start;  /* of a process, tells apart those of one pid */
    const char *class_text;
    uint8_t state, before; /* enum notice_state */
    uint8_t truth;         /* enum expr_truth, as last judged */
    uint8_t reason;        /* enum rules_reason, of unknown */
    bool pending;          /* true, and not yet for long enough */
    int64_t since_ns;      /* of the state; of ok after firing: since when it fired */
    int64_t step_ns;       /* of this verdict */
    int64_t changed_ns;    /* the step at which the state began; 0: there was no other */
    bool has_value;
    double value, coverage; /* value in the unit of rules_conf_unit */
    struct expr_dim dim;
};

struct rules_env {
    /* A subject's state is another now: it has been for the rule's for or clear. */
    void (*change)(void *ctx, const struct rules_subject *s);
    /* What the host is known by, its class and its open runs at that moment; each may be NULL. */
    const struct facts *(*facts)(void *ctx, const struct uuid *host, const char *name,
                                 struct arena *a);
    struct str (*host_class)(void *ctx, const struct facts *f, struct arena *a);
    unsigned (*runs)(void *ctx, const struct uuid *host, int64_t when_ns);
    /* Until when data for the step count, collector's clock; NULL: late behind it. */
    int64_t (*deadline)(void *ctx, int64_t step_ns, int64_t late_ns);
    /* What is known of an instance that no batch told of; NULL: nothing. */
    bool (*info)(void *ctx, const struct uuid *host, const struct uuid *boot, struct proc_id id,
                 struct proc_info *out);
    void *ctx;
};

struct rules_judge_conf {
    const struct rules_conf *rules; /* borrowed until rules_judge_destroy */
    struct rules_env env;
    int64_t since_ns;     /* steps before only fill windows */
    const int64_t *since; /* of each rule, borrowed likewise; NULL: since_ns of all */
    size_t memory_max;    /* 0: RULES_MEMORY_MAX */
    bool all_refs;        /* processes are counted for rules of events, too */
    bool only_cross;      /* judge rules over several hosts alone, */
    bool no_cross;        /* or all others */
};

struct rules_counts {
    uint64_t hosts, instances, subjects, bytes;
    uint64_t firing, unknown; /* subjects at this moment */
    uint64_t steps;           /* of hosts, judged */
    uint64_t late_ticks;      /* and events, that came after their step was judged */
    uint64_t refused;         /* subjects left out for want of room */
    uint64_t changes;
};

#endif
