/* The hosts a session knows: what their agents' calls tell. Private to collector/session/.
 * Bounds:  `max` hosts; one unheard of for ten minutes and not connected gives place.
 * Threads: the session's lock guards them. */
#ifndef PROCFLEET_COLLECTOR_INGEST_SESSION_HOSTS_H
#define PROCFLEET_COLLECTOR_INGEST_SESSION_HOSTS_H

#include "collector/ingest/clones.h"
#include "collector/ingest/host_clock.h"
#include "collector/ingest/session.h"

struct session_entry {
    struct uuid id;
    unsigned connections;
    struct host_clocks clocks;
    struct clones clones;
    bool ahead;               /* its stamps were of the future: said once until they are not */
    int64_t conflict_ns;      /* monotonic, the last; 0 = never */
    int64_t called_ns;        /* monotonic, last call */
    struct session_host seen; /* but for clock and clones, which session_entry_state fills */
};

/* Valid when zeroed but for max. */
struct session_hosts {
    uint32_t max;
    struct session_entry **at; /* by id */
    uint32_t n, cap;
};

void session_hosts_fini(struct session_hosts *h);

/* NULL: not known. */
struct session_entry *session_hosts_find(const struct session_hosts *h, const struct uuid *id);

/* The host of this certificate, heard of now.
 * Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err session_hosts_get(struct session_hosts *h, struct session_entry **out,
                                     const struct net_identity *who,
                                     const struct clock_moment *now);

void session_entry_state(const struct session_entry *e, const struct clock_moment *now,
                         struct session_host *out);

#endif
