/* The hosts a session knows: what their agents' calls tell. Private to session.c.
 * Bounds:  `max` hosts; one unheard of for ten minutes and not connected gives place, or standby.
 * Threads: the session's lock guards them. */
#ifndef PROCFLEET_COLLECTOR_INGEST_SESSION_HOSTS_H
#define PROCFLEET_COLLECTOR_INGEST_SESSION_HOSTS_H

#include "collector/ingest/clones.h"
#include "collector/ingest/host_clock.h"
#include "common/net/net.h"

/* What the store does not know of a host. */
struct session_host {
    bool connected;
    struct host_offset clock; /* the host's as it is now */
    int64_t heard_ns;         /* UTC of its last call */
    int64_t not_before_ns;    /* UTC, life of the certificate it came with last */
    int64_t not_after_ns;
    unsigned clones;  /* further machines that claimed to be it in the last 10 min */
    char name[64];    /* from the certificate */
    char version[32]; /* of the agent; this and the next from its last Hello */
    char system[64];
    uint64_t stored, duplicates, refused; /* batches */
    uint64_t conflicts;                   /* of the refused: their numbers are taken by others, */
    uint64_t corrupt, spoofed, too_old;   /* and why others were */
};

struct session_entry {
    struct uuid id;
    unsigned connections;
    bool standby; /* it has connected, but not called */
    struct host_clocks clocks;
    struct clones clones;
    bool ahead;               /* its stamps were of the future: said once until they are not */
    int64_t conflict_ns;      /* monotonic, the last; 0 = never */
    int64_t called_ns;        /* monotonic, last call */
    struct session_host seen; /* but for clock and clones, which session_hosts_state fills */
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

void session_hosts_state(const struct session_entry *e, const struct clock_moment *now,
                         struct session_host *out);

#endif
