/* A real procfleet-collector as a process of its own, for programs that simulate a fleet against
 * it: started, killed, started again on the same ports, watched, asked. Linux.
 * Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_FLEET_COLLECTOR_H
#define PROCFLEET_TESTS_SUPPORT_FLEET_COLLECTOR_H

#include "common/rpc/rpc.h"
#include "common/wire/wire_query.h"
#include "tests/support/fleet_pki.h"

struct fleet_collector;

struct fleet_collector_conf {
    const char *program; /* NULL: beside this program, or one directory up, or $PROCFLEET_BIN */
    const char *dir;     /* data, log and ports file go there */
    const struct fleet_keys *keys;
    const char *const *sets; /* further settings "key=value" */
    size_t n_sets;
    bool events; /* also listens for subscribers */
};

/* Starts it on free ports below those that outgoing connections are given, so that nobody else sits
 * there while it is down, and waits until it listens. Errors: ERR_NOTFOUND (no program), ERR_IO (it
 * ended; its log says why), ERR_TIMEOUT */
NODISCARD enum err fleet_collector_start(struct fleet_collector **out,
                                         const struct fleet_collector_conf *conf,
                                         struct errmsg *why);
/* Sends the signal and waits for the end. */
void fleet_collector_end(struct fleet_collector *c, int signal);
/* After fleet_collector_end, on the same ports and data. Errors: as start */
NODISCARD enum err fleet_collector_again(struct fleet_collector *c, struct errmsg *why);
/* What it kept of TLS sessions is gone: everybody makes a full handshake. */
void fleet_collector_forget_tickets(struct fleet_collector *c);
void fleet_collector_close(struct fleet_collector *c); /* kills; NULL is allowed */

const char *fleet_collector_ingest(const struct fleet_collector *c); /* "127.0.0.1:port" */
const char *fleet_collector_query(const struct fleet_collector *c);
const char *fleet_collector_events(const struct fleet_collector *c); /* "": not asked for */

struct fleet_usage {
    int64_t cpu_ns; /* of the process since its start, user and kernel */
    int64_t resident_bytes, peak_bytes;
    int64_t written_bytes; /* to disks, since its start */
    unsigned threads, files;
};
/* All zero when it does not run. pid 0: this process. */
void fleet_usage(struct fleet_usage *out, int pid);
/* Another program of the same directory. Errors: ERR_NOTFOUND, ERR_RANGE (the path is too long) */
NODISCARD enum err fleet_collector_beside(const struct fleet_collector *c, const char *program,
                                          char *path, size_t size);
int fleet_collector_pid(const struct fleet_collector *c);

/* Asks a collector's query port for all its hosts, page by page.
 * Errors: ERR_UNREACHABLE, ERR_REFUSED, ERR_TIMEOUT, … */
NODISCARD enum err fleet_ask_hosts(const char *address, const struct fleet_keys *keys,
                                   void (*each)(void *ctx, const struct wire_host *host), void *ctx,
                                   struct errmsg *why);

#endif
