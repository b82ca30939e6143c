/* Filling a store window by window, and what that costs: for the parts of bench_store. Failing ends
 * the program. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_STORE_COST_H
#define PROCFLEET_TESTS_BENCH_STORE_COST_H

#include "common/base/clk.h"
#include "tests/bench/store_sqlite.h"
#include "tests/support/store_fill.h"

#define STORE_COST_WINDOW (300 * CLK_S)

/* Of the whole process; bytes are those of write calls. */
struct store_cost {
    int64_t cpu_ns, wall_ns;
    uint64_t written;
};

struct store_cost store_cost_now(void);
void store_cost_add(struct store_cost *sum, const struct store_cost *since);

/* Of putting and sealing, and of SQLite with the same. */
struct store_costs {
    struct store_cost put, seal, sql_put, sql_window;
};

struct fill *store_cost_fill(unsigned hosts, size_t ticks, unsigned starts_per_hour);
/* Window by window; y may be NULL. */
struct store_costs store_cost_windows(struct fill *f, int64_t span_ns, struct store_sqlite *y);
/* The hour's end and what follows: its tier, small segments joined. */
void store_cost_settle(struct fill *f, struct store_cost *sum);

/* Figures called name_…; goal: M values per CPU second. */
void store_cost_tell(const char *name, const struct fill *f, const struct store_costs *c,
                     double goal);
/* Bytes of every kind; gives those of the rows. */
uint64_t store_cost_tell_bytes(struct fill *f, const char *name, bool goals);

double store_cost_per_cpu(uint64_t values, int64_t cpu_ns); /* M per second */

#endif
