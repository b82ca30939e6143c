/* Lives of processes from what the kernel reports as it happens: fork, exec, end, and the record of
 * every ended thread become one start and one stop per process.
 *
 *   fork ──► waiting ──exec, or 100 ms without──► alive ──last thread ends──► dying ──► (forgotten)
 *              │                start reported        ▲        records may still come, ≤ 100 ms│
 *              └──ends first: both are reported ───────┘                         stop reported ◄─┘
 *
 * A start is reported late because a process bears its parent's name until exec; an exec after that
 * is reported as a second start of the same instance, which updates it.
 * Threads: one owner. No sockets here: the caller hands decoded messages in. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_LIFE_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_LIFE_H

#include "agent/source/linux/proc_inst.h"
#include "agent/source/linux/proc_net.h"
#include "agent/source/source.h"

struct proc_life {
    struct proc_table *table;
    struct source_sink sink;
    bool records; /* taskstats is there: stops wait for it and bear exact totals */
    struct proc_inst_queue waiting, dying;
    int64_t now_ns;       /* monotonic; set by the caller before it hands messages in */
    int64_t last_mono_ns; /* of the last fact or table; they never go back */
    int64_t until_ns;     /* no fact is later: the time of the table that is read, else INT64_MAX */
};

void proc_life_init(struct proc_life *l, struct proc_table *t, struct source_sink sink,
                    bool records);

void proc_life_event(struct proc_life *l, const struct proc_net_event *ev);
/* The record of a process's last thread waits for its end, unless this is final: an exec that it
 * would overtake decides the name. PROC_TOOK_NOT: nothing was done. */
enum proc_took proc_life_task(struct proc_life *l, const struct proc_net_task *task, bool final);

/* A process that a list shows before its fork was handed in: as if it had been.
 * Errors: ERR_FULL, ERR_NOTFOUND (gone), ERR_END (ended) */
NODISCARD enum err proc_life_met(struct proc_life *l, uint32_t pid, int64_t now_ns,
                                 struct proc_inst **out);

/* Tells what is due; after every round of messages. */
void proc_life_due(struct proc_life *l, int64_t now_ns);

/* The next moment at which something will be due, INT64_MAX when nothing waits. */
int64_t proc_life_deadline(const struct proc_life *l);

/* A process is gone from the list although its end was not seen (or not completely): reported if it
 * was, then forgotten. */
void proc_life_vanished(struct proc_life *l, struct proc_inst *p, int64_t now_ns);

#endif
