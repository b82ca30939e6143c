/* Large trace files for benchmarks: a busy machine of 8 CPUs, 200 processes and 2,000 threads, with
 * switches (nine of ten records), samples, ready threads and new threads, and the rundown at the
 * end. The same size gives the same file. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETL_LOAD_H
#define PROCFLEET_TESTS_SUPPORT_ETL_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define ETL_LOAD_CPUS      8
#define ETL_LOAD_PROCESSES 200
#define ETL_LOAD_THREADS   2000

/* Writes about `bytes`, counted unpacked. Gives the number of records; ends the program when the
 * disk is full. */
uint64_t etl_load_make(const char *path, uint64_t bytes, bool compress);

#endif
