/* What bench_store measures, each part in a file of its name; figures are printed as they are
 * known. Failing ends the program. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_STORE_PARTS_H
#define PROCFLEET_TESTS_BENCH_STORE_PARTS_H

#include <stdint.h>

struct store_sizes {
    unsigned hosts, wide_hosts, wal_mb, readers_s, rounds;
    int64_t span_ns, wide_ns; /* of the hour, of many hosts: whole windows */
};

void store_hour(const struct store_sizes *o);
void store_count(void); /* store_hour.c: bench_count of putting and sealing a window */
void store_wide(const struct store_sizes *o);
void store_live(const struct store_sizes *o);   /* store_wide.c */
void store_second(const struct store_sizes *o); /* store_hour.c */
void store_wal(const struct store_sizes *o);
void store_churn(const struct store_sizes *o);
void store_readers(const struct store_sizes *o);

#endif
