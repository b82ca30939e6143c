/* A store in a directory of its own, filled from tables: what query, serve and feed are tried on.
 * One batch is made at a time: lab_begin, then ticks, runs, infos, events, then lab_put. Times are
 * in seconds since LAB_EPOCH_NS. Failures end the test. */
#ifndef PROCFLEET_TESTS_COLLECTOR_LAB_H
#define PROCFLEET_TESTS_COLLECTOR_LAB_H

#include "collector/store/read/store_read.h"
#include "collector/store/store.h"

#define LAB_EPOCH_NS INT64_C(1700000000000000000)
#define LAB_NS(s)    (LAB_EPOCH_NS + (int64_t)((s)*1e9))
#define LAB_MAX      4096 /* ticks, runs, values of a run, infos, events of one batch */

struct lab;

struct lab *lab_open(void (*on_stored)(void *, const struct store_stored *), void *ctx);
void lab_close(struct lab *l);
/* What all labs take for the time: that at which windows and hours are over. 0 at first, so that
 * nothing ever is; whoever says otherwise says 0 in the end. */
void lab_now(int64_t now_ns);
struct store *lab_store(struct lab *l);
struct store_view *lab_view(struct lab *l); /* a new one each time; closed with the lab */

struct uuid lab_host(unsigned host); /* id of host number `host`, named "host-<n>" */

void lab_begin(struct lab *l, unsigned host, uint64_t stream, uint64_t seq);
void lab_flags(struct lab *l, uint32_t flags);
void lab_boot(struct lab *l, uint8_t boot);
/* How far the host's clock is off, kept with this batch and later ones. */
void lab_clock(struct lab *l, struct host_offset clock);
void lab_tick(struct lab *l, double second);
void lab_tick_at(struct lab *l, double second, double mono_second); /* the clocks go apart */
/* n values each for n_metrics metrics, metric by metric; runs in order of pid and start. */
void lab_run(struct lab *l, uint32_t pid, uint64_t start, unsigned first_tick, unsigned n,
             bool fresh, unsigned n_metrics, const uint8_t *metrics, const int64_t *values);
void lab_cpu(struct lab *l, uint32_t pid, bool fresh, unsigned first_tick, unsigned n,
             const int64_t *cpu_ms); /* start = pid */
void lab_info(struct lab *l, const struct proc_info *info);
void lab_name(struct lab *l, uint32_t pid, const char *name); /* start = pid */
void lab_event(struct lab *l, const struct life_event *ev);
void lab_life(struct lab *l, uint8_t kind, double second, uint32_t pid, const char *name);
void lab_ledger(struct lab *l, const char *stage, const char *reason, uint64_t count);
void lab_received(struct lab *l, double second); /* when this batch and later ones arrive; 0 */
void lab_put(struct lab *l);                     /* returns when it is durable */

/* From now on every batch is sealed at once, as a segment of its own: a group's setup, so that the
 * same questions are asked of segments. */
int lab_seal_all(void **state);

#endif
