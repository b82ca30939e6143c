/* A server that echoes and remembers who asked and how many came and went, and clients that call
 * it: what the tests of common/net* have in common. Failures end the test. Threads: the callbacks
 * run on the network's; all else has one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_NET_RIG_H
#define PROCFLEET_TESTS_SUPPORT_NET_RIG_H

#include <stdatomic.h>

#include "common/base/clk.h"
#include "common/net/net.h"
#include "tests/support/certs.h"

/* Longer than anything lasts that goes well. */
#define NET_RIG_LONG_NS (30 * CLK_S)

/* What a program of tests has once: the network, and authorities that know nothing of each other
 * (NULL: not needed). net_rig_end releases them; it can be the group's last word to cmocka. */
void net_rig_begin(struct certs **pki, struct certs **foreign);
int net_rig_end(void **state);

/* A test that adds to it puts it first: `ctx` of the callbacks is both then. */
struct net_rig {
    struct net_server *server;
    char address[32];         /* 127.0.0.1:PORT, the same for every net_rig_up */
    atomic_int joined, left;  /* peers */
    struct os_mutex *lock;    /* guards `last` */
    struct net_identity last; /* who asked last */
};

/* Starts on a free port. What `conf` leaves out is filled in: the name, four contexts, messages of
 * 1024 bytes, and the two callbacks below with `g` as their ctx; the address is always ours. */
void net_rig_start(struct net_rig *g, const struct net_server_conf *conf);
void net_rig_stop(struct net_rig *g);

/* A server that ends and comes back on its port, between start and stop. */
void net_rig_down(struct net_rig *g);
void net_rig_up(struct net_rig *g, const struct net_server_conf *conf);

/* Answers with what came. */
void net_rig_echo(void *ctx, struct net_request *r);
void net_rig_on_peer(void *ctx, const struct net_identity *who, bool connected);

struct net_identity net_rig_last(struct net_rig *g);
struct net_server_stats net_rig_stats(const struct net_rig *g);

/* Waits until the number, which others count up, is there. */
void net_rig_await(const atomic_int *n, int at_least);

/* A client that tries again within 50 ms. */
struct net_client *net_rig_dial(const char *address, struct tls_config *tls);

/* One call; on ERR_OK it was answered with what it sent. Errors: those of net_client_call */
NODISCARD enum err net_rig_ask(struct net_client *c, int64_t timeout_ns);

/* The same, of a server that came back. Waited out: that the client has not seen the end of its old
 * connection, under which the call is lost. */
NODISCARD enum err net_rig_ask_again(struct net_client *c);

/* The client is refused for good, in these words. Waited out: that it has not seen the end of its
 * old connection, that the server is not there yet, that a connection is lost before the words
 * come. */
void net_rig_refused(struct net_client *c, const char *words);

#endif
