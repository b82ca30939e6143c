/* The engine of rules: what hosts sent goes in, changes of state come out. It reads no clock and no
 * file: a verdict is a function of the data, of when they came and of what the environment answers,
 * so live judging and the back-test (rules_test.h) are this one code.
 *
 * Steps are multiples of RULES_STEP_NS by the host's clock, corrected to whole steps. A host is
 * judged for a step as soon as a tick behind it has come, or at the step's deadline with what is
 * there; data that come later are counted and left out. A batch is given once, in the order of its
 * stream. Rules over several hosts are judged when every host has been.
 *
 * Unknown: an input is absent, less than the rule's `coverage` of its longest span was delivered,
 * the window is not full yet, or there are too many subjects. It neither begins nor ends an alert.
 * What a counter grew by while nothing came is of the time that is missing: the first tick behind a
 * gap has its share of it.
 *
 * Bounds:  RULES_SUBJECTS_MAX subjects, `memory_max` bytes; beyond them subjects are left out and
 *          counted, and rules over several hosts are unknown on that host.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_JUDGE_H
#define PROCFLEET_COLLECTOR_RULES_RULES_JUDGE_H

#include "collector/rules/rules_env.h"
#include "collector/store/host_offset.h"
#include "common/wire/wire_batch.h"

struct rules_judge;

/* Errors: ERR_NOMEM */
NODISCARD enum err rules_judge_create(struct rules_judge **out,
                                      const struct rules_judge_conf *conf);
void rules_judge_destroy(struct rules_judge *j); /* NULL is allowed */

/* What came of a host. */
struct rules_input {
    const char *host;
    const struct uuid *id;
    const struct batch *rest; /* infos, events, ledger; may be NULL */
    const struct batch *rows; /* ticks and runs; may be NULL */
    size_t tick, n_ticks;     /* those of `rows` that came with it */
    const struct host_offset *clock;
    int64_t received_ns;
};

/* The same in two halves, for who reads rests and rows apart: first the rest, with a tag of its own
 * above 0, then its ticks. Errors: as rules_judge_feed */
struct rules_rest {
    int64_t shift_ns; /* of its stamps */
    double lost;      /* share of it that did not come */
};
NODISCARD enum err rules_judge_rest(struct rules_judge *j, const struct rules_input *in,
                                    uint32_t tag, struct rules_rest *out);
NODISCARD enum err rules_judge_rows(struct rules_judge *j, const struct rules_input *in,
                                    uint32_t tag, const struct rules_rest *rest);
/* Rules over several hosts: steps that all hosts have come to. */
void rules_judge_close(struct rules_judge *j);

/* A batch as it came: rest and rows are it, tick 0, all of its ticks. Errors: ERR_NOMEM, ERR_FULL:
 * something is left out, and the host's windows lack it */
NODISCARD enum err rules_judge_feed(struct rules_judge *j, const struct rules_input *in);

/* Nothing more comes that arrived before now_ns: steps whose deadline has passed are judged. */
void rules_judge_time(struct rules_judge *j, int64_t now_ns);

/* A host that was there before what will be given: since first_ns, judged from step_ns on, however
 * little there is of it. One that is known already stays as it is. Errors: ERR_NOMEM */
NODISCARD enum err rules_judge_begin(struct rules_judge *j, const char *name, const struct uuid *id,
                                     int64_t step_ns, int64_t first_ns);

/* The host is not coming back: its alerts end, and it is not judged until it sends again. now_ns:
 * for alerts of a host that was not judged since the engine was made. */
void rules_judge_forget(struct rules_judge *j, const struct uuid *id, int64_t now_ns);

/* A subject that is in this state since then, from an earlier run: before anything is fed. The key
 * is copied. Errors: ERR_NOMEM, ERR_FULL, ERR_NOTFOUND (no such rule) */
NODISCARD enum err rules_judge_restore(struct rules_judge *j, const struct rules_subject *s,
                                       struct str rule);

/* All subjects, for lists; texts are valid during the call. False ends it. */
void rules_judge_each(struct rules_judge *j, bool (*each)(void *ctx, const struct rules_subject *s),
                      void *ctx);

/* How far all hosts have been judged; INT64_MAX: there are none. And one host; 0: unknown. */
int64_t rules_judge_step(const struct rules_judge *j);
int64_t rules_judge_host_step(const struct rules_judge *j, const struct uuid *id);

/* How many hosts and processes each rule watches now. */
struct rules_watch {
    uint64_t hosts, processes, subjects;
};
void rules_judge_watch(const struct rules_judge *j, size_t rule, struct rules_watch *out);

void rules_judge_counts(const struct rules_judge *j, struct rules_counts *out);

#endif
