/* What the commands that compare runs share: where the runs come from, which they are, and the
 * options that say how they are compared. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_LAB_H
#define PROCFLEET_COLLECTOR_CLI_LAB_H

#include "collector/cli/cli.h"
#include "common/lab/compare.h"
#include "common/lab/compare_print.h"
#include "common/lab/host_class.h"
#include "common/lab/run_set.h"

#define LAB_PATTERNS_MAX 64u

#define CLI_OPTS_LAB                                                                               \
    {"runs", 0, "DIR", "run files (*.pfr) of this directory instead of a collector's", 0},         \
        CLI_OPT_CLASS,                                                                             \
        {"pair", 0, "host|class",                                                                  \
         "runs on single hosts: compared on the same host, or on one of its class (host)", 0},     \
        {"replicate", 0, "run|host", "what is repeated: runs, or the hosts of few runs (run)", 0}, \
        {"overlap", 0, NULL, "judge hosts where other runs were at the same time, too", 0},        \
        {"assume-stable", 0, NULL,                                                                 \
         "believe that nothing drifted, where neither order nor earlier runs show it", 0},         \
    {                                                                                              \
        "all", 'a', NULL, "runs that failed, too", 0                                               \
    }

struct lab_side {
    const char *patterns[LAB_PATTERNS_MAX];
    size_t n_patterns;
    const struct run_file **runs;
    size_t n_runs;
    const char *range; /* 'host=H since=T until=T' instead of patterns; NULL: none */
    char text[256];    /* the patterns, or the range */
};

struct lab {
    struct run_set *set;
    struct lab_side a, b;
    const char *class_keys[HOST_CLASS_KEYS + 1]; /* none: host_class_default */
    const struct run_file **history;
    size_t n_history;
    struct compare_ask ask;
    struct compare *answer;
    struct compare_print print;
    struct quantity_limit limits[COMPARE_LIMITS_MAX];
    struct quantity metrics[COMPARE_METRICS_MAX];
};

/* Finds the runs of both sides, in --runs or at the collector, waiting wait_ns for those that are
 * missing or open; reads the options of comparisons into x->ask. *code is the exit code of a
 * failure, which has been printed. x is zeroed but for the patterns; released by lab_close in any
 * case. */
NODISCARD enum err lab_open(struct lab *x, struct cli *c, int64_t wait_ns, unsigned sections,
                            int *code);
void lab_close(struct lab *x);

/* Runs the body: with a directory as it is, else as what asks a collector. */
int lab_run(struct cli *c, int (*body)(struct cli *c));

/* Compares. As lab_open. */
NODISCARD enum err lab_compare(struct lab *x, struct cli *c, int *code);

#endif
