/* The connections of one listener, from the moment they are accepted: those that wait (no peer's
 * yet: in the handshake, or before the greeting) and those that were let in. The engine brings them
 * in, the gate marks those that it admits, the janitor sends away who waits too long. For net*.c
 * only.
 * Bounds:  `waiting_max` places for those that wait, and half as many more while the janitor makes
 *          room: the oldest whose handshake does not go on leave first, so that strangers who hold
 *          all places keep nobody out. At most `same_address_max` from one address (IPv6: from one
 *          /64), those that wait included.
 * Threads: safe from any. Lives as long as anybody holds it: connections outlive their listener. */
#ifndef PROCFLEET_COMMON_NET_NET_CROWD_H
#define PROCFLEET_COMMON_NET_NET_CROWD_H

#include <stdatomic.h>

#include "common/net/net.h"

/* Why somebody was refused or closed. */
enum net_cause {
    NET_HANDSHAKE, /* no TLS, no certificate of ours, no greeting, or not in time */
    NET_ROLE,
    NET_JUDGED,
    NET_EXPIRED,
    NET_CROWDED, /* too many: connections, handshakes, requests under way */
    NET_SILENT,
    NET_LATE_REPLY,
    NET_OVERSIZE,
    NET_CAUSES
};

struct net_crowd;

struct net_crowd_conf {
    unsigned waiting_max;      /* 0: nobody comes in */
    unsigned same_address_max; /* 0 = no limit */
};

NODISCARD enum err net_crowd_create(struct net_crowd **out, const struct net_crowd_conf *conf);
struct net_crowd *net_crowd_hold(struct net_crowd *c); /* NULL is allowed, and given back */
void net_crowd_release(struct net_crowd *c);           /* NULL is allowed */

/* A connection's part in it; starts as zeros, which is outside. */
struct net_crowd_member {
    struct net_crowd *crowd;
    void *stream;
    char place[48]; /* the address that counts */
    int64_t since_ns;
    atomic_llong moved_ns; /* when its handshake went on last */
    atomic_bool in;        /* let in: waits no longer */
    const char *sent_away; /* why; this and all below: guarded by the crowd */
    bool listed;
    struct net_crowd_member *older, *newer;        /* of those that wait */
    struct net_crowd_member *next_near, **at_near; /* of those from the same place */
};

/* `stream` was accepted from `address` ("host:port"); it must stay valid until net_crowd_leave.
 * NULL, or words for the log: it has to go. */
const char *net_crowd_enter(struct net_crowd *c, struct net_crowd_member *m, void *stream,
                            const char *address);

/* With NNG's lock of the connection held is fine for these two; outside they do nothing. */
void net_crowd_moved(struct net_crowd_member *m);
void net_crowd_let_in(struct net_crowd_member *m);

/* Before its memory goes, without NNG's lock of the connection. NULL, or why the janitor sent it
 * away; outside it does nothing. */
const char *net_crowd_leave(struct net_crowd_member *m);

/* -- the janitor's -- */

/* Until `mono_ns`, or until places become short, or net_crowd_wake. */
void net_crowd_wait(struct net_crowd *c, int64_t mono_ns);
void net_crowd_wake(struct net_crowd *c);

/* Closes the connections of those that have waited too long, and of those whose places are needed.
 * lag_ns  how long we ourselves keep a connection waiting that has something to say
 * Gives whether places are still short. */
bool net_crowd_clear(struct net_crowd *c, int64_t now_ns, int64_t lag_ns);

/* -- counters: since the listener began -- */
void net_crowd_count(struct net_crowd *c, enum net_cause cause); /* NULL is allowed */
uint64_t net_crowd_counted(const struct net_crowd *c, enum net_cause cause);

#endif
