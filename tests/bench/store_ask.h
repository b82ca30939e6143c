/* Questions to a store, timed, with files in the page cache and without. Failing ends the program.
 * Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_STORE_ASK_H
#define PROCFLEET_TESTS_BENCH_STORE_ASK_H

#include "collector/query/query.h"
#include "tests/support/store_fill.h"

/* The process that a history is asked of. */
struct store_ask_process {
    char host[64];
    struct proc_id id;
};

struct wire_query store_ask_top(int64_t since_ns, int64_t until_ns);
/* metrics: how many, at most 24 */
struct wire_query store_ask_history(const struct store_ask_process *p, unsigned metrics,
                                    int64_t since_ns, int64_t until_ns);

/* The process of the first row of an answer. */
void store_ask_first(struct store *s, const struct wire_query *top, struct store_ask_process *out);

/* From opening a view to the answer, ms; *rows may be NULL. Any thread. */
double store_ask_ms(struct store *s, enum query_kind kind, const struct wire_query *q,
                    size_t *rows);

/* Every file below dir is synced and put out of the page cache. */
void store_ask_forget(const char *dir);

/* Medians of n rounds each. Cold: the store is opened anew, its files out of the page cache. */
struct store_ask_times {
    double cold_ms, warm_ms, warm_cpu_ms; /* CPU: mean, of the thread that asks */
    size_t rows;
};
struct store_ask_times store_ask_both(struct fill *f, const struct store_conf *conf,
                                      enum query_kind kind, const struct wire_query *q, unsigned n);

/* store_ask_both as figures called name_cold, name_warm and name_warm_cpu. Goals: ms, 0 = none. */
struct store_ask_figures {
    const char *name;
    enum query_kind kind;
    const struct wire_query *q;
    double cold, warm;
};
struct store_ask_times store_ask_tell(struct fill *f, const struct store_conf *conf,
                                      const struct store_ask_figures *q, unsigned n);

/* CPU of questions about the last minute, medians of n rounds: the default `top` of the busiest
 * processes, and programs by CPU and memory as /metrics asks for them. */
struct store_ask_cpu {
    double top_us, images_us;
};
struct store_ask_cpu store_ask_live(struct store *s, unsigned n);

#endif
