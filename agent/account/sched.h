/* Who had which CPU, and since when: run time exact from context switches, and how long threads
 * waited and stood ready. Charged to the tallies of their processes.
 *
 * Run     The time between two switches of one CPU belongs to the thread that was put on at the
 *         first; its process is the one that had the thread then. Who ran before a CPU's first
 *         switch and after its last is not counted: nothing says since or until when.
 * Lost    From the last switch before a loss mark to the first one after it, what happened is
 *         uncertain: run_lost, before the mark of the thread that had been put on, after it of the
 *         one the next switch takes off. A switch that takes off another thread than was put on
 *         loses the time between the two as well, of the one that had been put on. So for every
 *         CPU, run and run_lost of all (unattributed included) make up the time from its first
 *         switch to its last switch or loss mark, to the ns: stamps are rounded once, when they
 *         become ns; a span is the difference of two stamps.
 * Waits   A thread taken off in the state Waiting waits until a ReadyThread event names it, or, in
 *         recordings without these, until it is put on again; one taken off ready, or named by
 *         ReadyThread, is ready until it is put on. What was going on when a loss mark came is not
 *         counted, whichever CPU was hit: the missing event may have been on any.
 *
 * Bounds:  SCHED_CPUS_MAX; switches of CPUs above are counted, and nothing else is done with them.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ACCOUNT_SCHED_H
#define PROCFLEET_AGENT_ACCOUNT_SCHED_H

#include "agent/process/counters.h"
#include "agent/process/instances.h"
#include "agent/process/lifecycle.h"
#include "agent/source/event.h"

#define SCHED_CPUS_MAX  2048
#define SCHED_SILENT_NS INT64_C(1000000000)

struct sched;
struct event_switch;

struct sched_stats {
    uint64_t switches;
    uint64_t unowned;  /* of them: the thread put on is nobody's */
    uint64_t readied;  /* EV_READY of runs, */
    uint64_t unready;  /* and of them: the thread is nobody's, or the idle process's */
    uint64_t gaps;     /* switches that took off another thread than had been put on */
    uint64_t cpus_max; /* switches of CPUs beyond the limit */
};

/* All but out are borrowed; unattributed gets what nobody owns. Errors: ERR_NOMEM */
NODISCARD enum err sched_create(struct sched **out, struct lifecycle *life,
                                const struct instances *table, struct counters *unattributed,
                                struct sched_stats *stats);
void sched_destroy(struct sched *s); /* NULL is allowed */

/* EV_CSWITCH and EV_READY. Give the instance of the thread put on, or made ready; NULL: unknown. */
struct instance *sched_switch(struct sched *s, const struct event *ev);
struct instance *sched_ready(struct sched *s, const struct event *ev);
void sched_switches(struct sched *s, const struct event_switch *run, size_t n); /* runs of both */

/* Who has a CPU is charged up to the newest switch of any CPU, before it goes off: times at this
 * moment, now_ns, are compared with those of others. When no CPU has switched for SCHED_SILENT_NS
 * switches are not recorded any more, and who had the CPUs is forgotten. */
void sched_settle(struct sched *s, int64_t now_ns);

/* Who has a CPU, waits or stands ready does so from now on; until now it is counted, or is not. */
void sched_cut(struct sched *s, int64_t now_ns, bool count);

/* EV_LOST. */
void sched_lost(struct sched *s, const struct event *ev);

/* Whose thread has the CPU, as switches say; NULL: they do not, or its owner is unknown. */
struct instance *sched_running(const struct sched *s, uint16_t cpu);

#endif
