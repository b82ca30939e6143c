/* The connections of one listener, from the moment they are accepted: those that wait (no peer's
 * yet: in the handshake, or before the greeting) and those that were let in. The engine brings them
 * in, the gate marks those that it admits, the janitor sends away who waits too long. Private to
 * the folder.
 * Bounds:  `waiting_max` places for those that wait, and half as many more while the janitor makes
 *          room: the oldest whose handshake does not go on leave first, so that strangers who hold
 *          all slots keep no one out. At most `same_address_max` from one address (IPv6: from one
 *          /64), those that wait included.
 * Threads: safe from any. Lives as long as anybody holds it: connections outlive their listener. */
#ifndef PROCFLEET_COMMON_NET_CONN_LIMITS_H
#define PROCFLEET_COMMON_NET_CONN_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* Why a connection was refused or closed. */
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

struct conn_limits;

struct conn_limits_conf {
    unsigned waiting_max;      /* 0 = accept no connections */
    unsigned same_address_max; /* 0 = no limit */
};

NODISCARD enum err conn_limits_create(struct conn_limits **out,
                                      const struct conn_limits_conf *conf);
struct conn_limits *conn_limits_hold(struct conn_limits *c); /* NULL is allowed, and given back */
void conn_limits_release(struct conn_limits *c);             /* NULL is allowed */

/* A connection's part in it; starts as zeros, which is outside. */
struct conn_limits_member {
    struct conn_limits *crowd;
    void *stream;
    char place[48]; /* the address that counts */
    int64_t since_ns;
    atomic_llong moved_ns; /* when its handshake went on last */
    atomic_bool in;        /* let in: waits no longer */
    const char *sent_away; /* why; this and all below: guarded by the crowd */
    bool listed;
    struct conn_limits_member *older, *newer;        /* of those that wait */
    struct conn_limits_member *next_near, **at_near; /* of those from the same place */
};

/* `stream` was accepted from `address` ("host:port"); it must stay valid until conn_limits_leave.
 * NULL, or words for the log: it has to go. */
const char *conn_limits_enter(struct conn_limits *c, struct conn_limits_member *m, void *stream,
                              const char *address);

/* With NNG's lock of the connection held is fine for these two; outside they do nothing. */
void conn_limits_moved(struct conn_limits_member *m);
void conn_limits_let_in(struct conn_limits_member *m);

/* Before its memory goes, without NNG's lock of the connection. NULL, or why the janitor sent it
 * away; outside it does nothing. */
const char *conn_limits_leave(struct conn_limits_member *m);

/* -- the janitor's -- */

/* Until `mono_ns`, or until places become short, or conn_limits_wake. */
void conn_limits_wait(struct conn_limits *c, int64_t mono_ns);
void conn_limits_wake(struct conn_limits *c);

/* Closes the connections of those that have waited too long, and of those whose places are needed.
 * lag_ns  how long we ourselves keep a connection waiting that has something to say
 * Gives whether places are still short. */
bool conn_limits_clear(struct conn_limits *c, int64_t now_ns, int64_t lag_ns);

/* -- counters: since the listener began -- */
void conn_limits_count(struct conn_limits *c, enum net_cause cause); /* NULL is allowed */
uint64_t conn_limits_counted(const struct conn_limits *c, enum net_cause cause);

#endif
