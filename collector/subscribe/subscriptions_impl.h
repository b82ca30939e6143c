/* Between the roster's own files. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_IMPL_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_IMPL_H

#include <stdatomic.h>

#include "collector/subscribe/subscriptions.h"
#include "collector/subscribe/subscriptions_file.h"
#include "common/os/os.h"

struct subscriptions_sub {
    struct subscriptions_state s;
    uint64_t told;      /* of s.lost, what a reply has told */
    uint64_t counted;   /* position: what is missing before it is in s.dropped */
    int64_t written_ns; /* polled_ns in the file */
    bool dirty;         /* counters are ahead of the file */
    bool new_epoch;     /* its loss is counted, and no cursor of this epoch was given yet */
};

struct subscriptions {
    struct subscriptions_conf conf;
    char *dir;
    uint64_t epoch;
    int64_t opened_ns;
    _Atomic(int64_t) samples_until_ns; /* somebody without a name polls for samples */
    atomic_bool samples;               /* a subscription wants them */

    struct os_mutex *lock; /* guards what follows */
    size_t n;
    struct subscriptions_sub *subs[SUBSCRIPTIONS_MAX];
    uint64_t next_number;
    struct subscriptions_stats stats;
};

int64_t subscriptions_now(const struct subscriptions *r);

/* Puts the texts into `memory`. False: no room. */
bool subscriptions_filter_keep(struct wire_filter *f, struct arena *memory);

/* Under the lock, all of them. NULL: there is none. */
struct subscriptions_sub *subscriptions_find(struct subscriptions *r, const char *owner,
                                             struct str name);
/* Writes the state's file and makes it the subscription's; `state` may borrow. Errors: those of
 * subscriptions_file_write */
NODISCARD enum err subscriptions_put(struct subscriptions *r, struct subscriptions_sub *sub,
                                     const struct subscriptions_state *state);
/* Errors: ERR_FULL (why says), those of subscriptions_put */
NODISCARD enum err subscriptions_add(struct subscriptions *r, struct subscriptions_sub **out,
                                     const struct subscriptions_state *state, struct errmsg *why);

#endif
