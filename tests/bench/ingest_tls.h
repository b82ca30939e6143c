/* From the socket to durable: many agents over mutual TLS, call by call, through session, log and
 * head, as in the collector. The agents are a process of their own; CPU is the server's alone. */
#ifndef PROCFLEET_TESTS_BENCH_INGEST_TLS_H
#define PROCFLEET_TESTS_BENCH_INGEST_TLS_H

#include <stddef.h>

struct ingest_tls {
    double values_per_cpu_second; /* millions */
    double batches_per_second, ack_p50_ms, ack_p99_ms, batches_per_commit, resident_mib;
};

/* `per_host` batches of `ticks` ticks of each of `hosts` hosts. Forks: nothing of the network may
 * have been opened before. Failing ends the program. */
struct ingest_tls ingest_tls_run(unsigned hosts, unsigned per_host, size_t ticks);

#endif
