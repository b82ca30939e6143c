/* How benchmarks report: a readable table, or with --json one line per figure:
 * {"name":…,"value":…,"unit":…,"goal":…,"better":"less"|"more"}. A figure without a goal has
 * "goal":null. Threads: the main thread only. */
#ifndef PROCFLEET_TESTS_BENCH_BENCH_H
#define PROCFLEET_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/conf/opt.h"

enum bench_better { BENCH_LESS, BENCH_MORE };

/* Reads --json, --quick, --count and --help (prints and exits); `about` is the table's first
 * line. */
void bench_begin(int argc, char **argv, const char *name, const char *about);

/* Parses, answers --help and ends then; ends with a sentence and 2 when the words are wrong.
 * Released by opt_free. */
struct opt_args *bench_options(const struct opt_command *command, int argc, char **argv);

/* The number that --name gives, `preset` without it; ends the program with a sentence when it is
 * none or not from `least` to `most`. */
double bench_number(const struct opt_args *args, const char *name, double least, double most,
                    double preset);

/* Whether --quick was given: a run of about a second, for trying the program out. */
bool bench_quick(void);

/* Whether --count was given: the program does nothing but the passes given to bench_count, which
 * scripts/bench runs under callgrind. */
bool bench_counts(void);

/* Calls pass(arg), and prints on a line of its own what callgrind needs to know of it: the figure,
 * how many units it did, what a unit is, and at most how many instructions each should take (0 =
 * no goal). Callgrind counts from entering bench_counted to leaving it, all threads. */
void bench_count(const char *name, double units, const char *unit, double goal,
                 void (*pass)(void *), void *arg);

/* One figure; goal: what it should reach, at most (BENCH_LESS) or at least (BENCH_MORE); 0 = none.
 */
void bench_figure(const char *name, double value, const char *unit, double goal,
                  enum bench_better better);

double bench_ms(int64_t ns); /* the unit of many a figure */

/* Median of n values; sorts them. */
double bench_median(double *values, size_t n);

/* Ends the program with this sentence and 2. */
_Noreturn void bench_fail(const char *what);
/* The same when e is an error, with its text; what may be NULL. */
void bench_check(enum err e, const char *what);

/* Prints what is left to say; what main returns (0 also when goals are missed: benchmarks report,
 * they do not judge). */
int bench_end(void);

#endif
