/* One identity, several machines: a virtual machine copied after it was enrolled, a key file that
 * was carried along.
 *
 * A machine is known by its boot id; Hello binds a connection to it. A boot id that takes over is a
 * restart, as long as the one before keeps silent: its connections may still count as alive for a
 * while. The evidence of a clone is a call of the *older* boot, CLONES_GRACE_NS or more after the
 * newer one said Hello, when nothing sent before can be under way any more. Then both are alive;
 * the one that came later is refused from then on and has to enrol anew, since it cannot be told
 * from here which of the two is meant, and the older one is what the operator has seen so far. When
 * no other machine has called for CLONES_FORGET_NS, the refused one is taken for the host again.
 *
 * Until then a copy could take numbers that the real machine is about to use, where it brought the
 * spool along. So the batches of a newer boot wait (clones_wait) while the older one still has
 * a connection and has called within CLONES_ALIVE_NS. A restart that says goodbye ends its
 * connection and waits for nothing; one that does not waits until the old connection counts as
 * dead.
 *
 * After a restart of the collector the machine whose data came last is the older one
 * (clones_remember), whichever says Hello first.
 *
 * Copies of a running machine share the boot id and are not told apart here: their batches collide
 * in number with different content, which the session sees (session_host.conflicts).
 *
 * Bounds:  CLONES_MACHINES boots and CLONES_CONNECTIONS connections of a host, the ones heard
 *          longest ago go. Threads: the caller's lock guards it. Plain data, valid when zeroed. */
#ifndef PROCFLEET_COLLECTOR_INGEST_CLONES_H
#define PROCFLEET_COLLECTOR_INGEST_CLONES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/clk.h"
#include "common/model/model.h"

#define CLONES_GRACE_NS    (15 * CLK_S) /* requests are given up after 10 s */
#define CLONES_ALIVE_NS    (90 * CLK_S) /* three heartbeats: then silent connections are closed */
#define CLONES_FORGET_NS   (600 * CLK_S)
#define CLONES_MACHINES    4u
#define CLONES_CONNECTIONS 16u

struct clones_machine {
    struct uuid boot;
    int64_t since_ns, heard_ns; /* monotonic */
    bool refused;
};

struct clones_connection {
    uint32_t id;
    struct uuid boot;
};

struct clones {
    size_t n;
    struct clones_machine machines[CLONES_MACHINES];
    size_t n_connections;
    struct clones_connection connections[CLONES_CONNECTIONS]; /* the newest first */
};

enum clones_verdict {
    CLONES_FINE,
    CLONES_FOUND,   /* the caller shows that another machine, now refused, is a clone */
    CLONES_REFUSED, /* the caller is one */
};

/* The boot whose data was stored last, since_ns ago: before the first Hello. */
void clones_remember(struct clones *c, const struct uuid *boot, int64_t since_ns, int64_t now_ns);

/* A Hello. now_ns: monotonic. */
enum clones_verdict clones_hello(struct clones *c, uint32_t connection, const struct uuid *boot,
                                 int64_t now_ns);

/* Another call; of a connection without a Hello it proves nothing. */
enum clones_verdict clones_call(struct clones *c, uint32_t connection, int64_t now_ns);

/* Whether the caller's batches have to wait: an older machine may be alive. */
bool clones_wait(const struct clones *c, uint32_t connection, int64_t now_ns);

/* The boot a connection said Hello with. False: none. */
bool clones_boot(const struct clones *c, uint32_t connection, struct uuid *boot);

/* The connection has ended. */
void clones_gone(struct clones *c, uint32_t connection);

/* Refused machines heard of within CLONES_FORGET_NS. */
unsigned clones_count(const struct clones *c, int64_t now_ns);

#endif
