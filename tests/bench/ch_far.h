/* The same questions to a collector's store and to a ClickHouse that has the same batches. */
#ifndef PROCFLEET_TESTS_BENCH_CH_FAR_H
#define PROCFLEET_TESTS_BENCH_CH_FAR_H

/* Prints figures: far : local, medians. Fills and drops a database of its own. Failing ends the
 * program. */
void ch_far_figures(const char *url);

#endif
