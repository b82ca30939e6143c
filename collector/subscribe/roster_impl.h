/* Between the roster's own files. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_ROSTER_IMPL_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_ROSTER_IMPL_H

#include <stdatomic.h>

#include "collector/subscribe/roster.h"
#include "collector/subscribe/roster_file.h"
#include "common/os/os.h"

struct roster_sub {
    struct roster_state s;
    uint64_t told;      /* of s.lost, what a reply has told */
    uint64_t counted;   /* position: what is missing before it is in s.dropped */
    int64_t written_ns; /* polled_ns in the file */
    bool dirty;         /* counters are ahead of the file */
    bool new_epoch;     /* its loss is counted, and no cursor of this epoch was given yet */
};

struct roster {
    struct roster_conf conf;
    char *dir;
    uint64_t epoch;
    int64_t opened_ns;
    _Atomic(int64_t) samples_until_ns; /* somebody without a name polls for samples */
    atomic_bool samples;               /* a subscription wants them */

    struct os_mutex *lock; /* guards what follows */
    size_t n;
    struct roster_sub *subs[ROSTER_MAX];
    uint64_t next_number;
    struct roster_stats stats;
};

int64_t roster_now(const struct roster *r);

/* Puts the texts into `memory`. False: no room. */
bool roster_filter_keep(struct wire_filter *f, struct arena *memory);

/* Under the lock, all of them. NULL: there is none. */
struct roster_sub *roster_find(struct roster *r, const char *owner, struct str name);
/* Writes the state's file and makes it the subscription's; `state` may borrow. Errors: those of
 * roster_file_write */
NODISCARD enum err roster_put(struct roster *r, struct roster_sub *sub,
                              const struct roster_state *state);
/* Errors: ERR_FULL (why says), those of roster_put */
NODISCARD enum err roster_add(struct roster *r, struct roster_sub **out,
                              const struct roster_state *state, struct errmsg *why);

#endif
