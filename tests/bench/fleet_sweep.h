/* Several sizes of fleet: bench_fleet runs once for each, smallest first, as a process of its own,
 * and the figures come side by side. When a size is not held and a smaller one was, the size
 * halfway between them is tried too. Linux. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_FLEET_SWEEP_H
#define PROCFLEET_TESTS_BENCH_FLEET_SWEEP_H

#include "common/conf/opt.h"

/* What main returns: 1 when a run went wrong. program: how this one was called */
int fleet_sweep(const char *program, const struct opt_args *args);

#endif
