/* Sealing: one thread turns the head's batches of a window that has ended into segments of every
 * kind, makes them current and lets the batches go, in one step for readers.
 *
 *   window's end + grace, or head over its limit (the oldest window first, then the open one)
 *     for each host: decode ─ window_join ─ raw values, summaries, 10 s, 1 min, rest  (seal_write)
 *     hosts file ─ manifest_change ─ publish manifest and head together ─ catalogue
 *   then what is due: retention (retain.h), 1 h from its minutes and compaction (compact.h)
 *
 * What arrives when its window's time is over waits a minute for more and becomes, together with
 * the other such windows of the same hour, one more segment (a patch, where the window is sealed
 * already). A failure (disk full, I/O) leaves everything as it was and is tried again after a
 * pause; meanwhile the head fills and the agents are told to wait. Threads: its own. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEAL_SEAL_H
#define PROCFLEET_COLLECTOR_STORE_SEAL_SEAL_H

#include "collector/store/compact/compact.h"
#include "collector/store/store.h"

struct seal;

struct seal_stats {
    uint64_t windows, patches, early; /* sealed; of them late data; before their end */
    uint64_t batches, values, failures, bad;
    int64_t sealed_ns; /* end of the newest sealed window */
    int64_t cpu_ns;
};

/* Errors: ERR_NOMEM */
NODISCARD enum err seal_start(struct seal **out, struct store *s);
/* Gives up what is under way; the log still has it. NULL is allowed. */
void seal_stop(struct seal *x);

void seal_stats(struct seal *x, struct seal_stats *out);
int64_t seal_busy_ns(const struct seal *x, int64_t now_ns); /* as store_busy_ns */

/* How long numbers of a silent host are remembered: as long as anything of it may be held. */
int64_t seal_keeps(const struct store_conf *conf);

#endif
