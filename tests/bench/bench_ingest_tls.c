/* Mutual TLS to durable (ingest_tls.h): long batches and short ones, many hosts and one. */
#include "tests/bench/bench.h"
#include "tests/bench/ingest_tls.h"

int main(int argc, char **argv)
{
    struct ingest_tls r;

    bench_begin(argc, argv, "bench_ingest_tls", "mutual TLS to durable");
    r = ingest_tls_run(20, bench_quick() ? 6 : 60, 10);
    bench_figure("ingest_tls_20_hosts_10s_values_per_cpu_second", r.values_per_cpu_second, "M", 100,
                 BENCH_MORE);
    bench_figure("ingest_tls_20_hosts_10s_batches_per_second", r.batches_per_second, "1/s", 0,
                 BENCH_MORE);
    /* Of senders that never pause; the goals for agents that do are bench_ingest's. */
    bench_figure("ingest_tls_20_hosts_10s_ack_p50", r.ack_p50_ms, "ms", 0, BENCH_LESS);
    bench_figure("ingest_tls_20_hosts_10s_ack_p99", r.ack_p99_ms, "ms", 0, BENCH_LESS);
    bench_figure("ingest_tls_20_hosts_10s_batches_per_commit", r.batches_per_commit, "", 0,
                 BENCH_MORE);
    /* No queries run here, so the goal of 200 MiB with queries is not judged. */
    bench_figure("ingest_tls_20_hosts_10s_resident", r.resident_mib, "MiB", 0, BENCH_LESS);
    r = ingest_tls_run(20, bench_quick() ? 30 : 300, 1);
    bench_figure("ingest_tls_20_hosts_1s_values_per_cpu_second", r.values_per_cpu_second, "M", 10,
                 BENCH_MORE);
    bench_figure("ingest_tls_20_hosts_1s_ack_p50", r.ack_p50_ms, "ms", 0, BENCH_LESS);
    /* Alone, a host waits out the commit's gathering with every batch: caches are cold each time.
     */
    r = ingest_tls_run(1, bench_quick() ? 30 : 200, 1);
    bench_figure("ingest_tls_1_host_1s_values_per_cpu_second", r.values_per_cpu_second, "M", 0,
                 BENCH_MORE);
    return bench_end();
}
