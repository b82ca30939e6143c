/* What events of .NET's runtimes mean together: which collection is a new one, which suspension a
 * pause, how long a method was compiled and a lock was waited for. One event goes in, and out comes
 * what it ends; who is charged, and with how much, is the caller's business.
 *
 *   collections   one for each number of a runtime: .NET Framework 4.5 to 4.8 write the start of
 *                 each twice, in two versions
 *   pauses        from the suspension of all managed threads to their restart, in one runtime;
 *                 suspended for a collection: reason 1 or 6
 *   compilations  from the start to the load of the same method by the same thread; they nest
 *   contention    from start to stop by the same thread
 *
 * A pid and the number of a runtime within the process name a runtime. What is open when something
 * is lost has no known end: it is dropped, never guessed.
 * Bounds:  the limits below. The runtime not heard of for longest, or the oldest that is open,
 *          makes room and is counted; nothing is allocated per event.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_CLR_CLR_H
#define PROCFLEET_AGENT_CLR_CLR_H

#include "agent/source/event.h"
#include "common/base/err.h"

#define CLR_RUNTIMES_MAX 4096  /* in all, */
#define CLR_OF_PROCESS   8     /* and in one process */
#define CLR_OPEN_MAX     16384 /* compilations and contentions that have not ended */
#define CLR_NESTED_MAX   16    /* compilations by one thread */

#define CLR_REASON_STARVED 6 /* of an adjustment of the thread pool */

struct clr;

struct clr_step {
    bool repeated; /* the start of a collection that is known */
    bool ended;    /* what began at began_ns ends here */
    bool unpaired; /* this ends something whose begin is not known */
    bool replaced; /* this begins something again that had not ended */
    int64_t began_ns, took_ns;
    uint32_t reason, count; /* of the suspension that ended */
    uint64_t heap_bytes;    /* of all runtimes of the process, after CLR_HEAP */
};

struct clr_stats {
    uint64_t runtimes_full; /* forgotten to make room */
    uint64_t open_full;     /* likewise, open ones */
    uint64_t too_deep;      /* compilations beyond CLR_NESTED_MAX */
    uint64_t abandoned;     /* compilations inside one that ended */
    uint64_t lost;          /* dropped because events were lost */
};

/* Errors: ERR_NOMEM */
NODISCARD enum err clr_create(struct clr **out);
void clr_destroy(struct clr *c); /* NULL is allowed */

/* Takes an EV_CLR. `out` is cleared first. */
void clr_event(struct clr *c, const struct event *ev, struct clr_step *out);

/* Whether a suspension with that reason is one for a collection. */
bool clr_is_gc(uint32_t reason);

/* The process has ended, or another one has its number. */
void clr_forget(struct clr *c, uint32_t pid);

/* Something was lost. */
void clr_lost(struct clr *c);

const struct clr_stats *clr_stats(const struct clr *c);

#endif
