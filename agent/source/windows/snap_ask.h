/* A thread that asks processes by handle, so that whoever takes tables never waits for one: jobs
 * go in, answers come out later, in the same order.
 * Bounds:  SNAP_ASK_MAX jobs and answers together; a period's gauges take budget_ns of its time,
 *          the rest of them is answered ERR_TIMEOUT unasked.
 * Threads: one owner; `read` is called from the thread inside. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_ASK_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_ASK_H

#include "agent/source/windows/snap_slow.h"

#define SNAP_ASK_MAX 64

struct snap_ask;

struct snap_ask_conf {
    /* Fills *out, which is zeroed but for the job; texts are borrowed until the next call. */
    void (*read)(void *ctx, const struct snap_job *job, struct snap_answer *out);
    /* Nothing is called with ctx any more; may be NULL. Called from snap_ask_close, or from the
     * thread inside where that gave up waiting. */
    void (*release)(void *ctx);
    void *ctx;
    int64_t budget_ns;
    int64_t patience_ns; /* of closing: a look-up of an account may take very long */
};

/* Errors: ERR_NOMEM and those of starting a thread; ctx is not released */
NODISCARD enum err snap_ask_open(struct snap_ask **out, const struct snap_ask_conf *conf);

/* Drops what waits. A call under way is given patience_ns, then left to end by itself. */
void snap_ask_close(struct snap_ask *a);

bool snap_ask_has_room(struct snap_ask *a);
void snap_ask_put(struct snap_ask *a, const struct snap_job *job); /* there is room */

/* The next answer with texts of its own, for mem_free; NULL: there is none yet. */
struct snap_answer *snap_ask_take(struct snap_ask *a);

/* Waits until no job is under way. */
void snap_ask_wait(struct snap_ask *a);

#endif
