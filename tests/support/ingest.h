/* A collector's ingest listener whose answers a test decides: real sockets, TLS and calls.
 * Failures end the test. */
#ifndef PROCFLEET_TESTS_SUPPORT_INGEST_H
#define PROCFLEET_TESTS_SUPPORT_INGEST_H

#include "common/frame.h"
#include "common/net.h"
#include "common/os.h"
#include "common/wire_rpc.h"

struct ingest {
    struct rpc_server *server;
    struct net_tls *tls;           /* borrowed */
    struct wire_hello_reply hello; /* what it says */
    size_t receive_max;            /* from the next ingest_listen on; 0 = 1 MiB */
    enum rpc_code refuse;          /* the batch that begins with `refuse_first`, */
    char refuse_first;
    unsigned refuse_times; /* so often */
    /* Called with every accepted batch, under the lock; may be NULL. */
    void (*on_batch)(void *ctx, const void *p, size_t n);
    void *ctx;
    struct os_mutex *lock; /* guards all below, and refuse_times */
    char got[64];          /* first byte of each accepted batch */
    size_t n_got;
    unsigned hellos, beats;
    uint64_t next_seq;        /* of the last heartbeat */
    bool mute;                /* the next push is not answered, */
    struct rpc_call *unheard; /* this is it; answered by ingest_stop */
};

struct ingest *ingest_create(struct net_tls *tls);
void ingest_destroy(struct ingest *c);

/* Listens at `address`, after ingest_stop. ingest_create listens at any free port. */
void ingest_listen(struct ingest *c, const char *address);
void ingest_stop(struct ingest *c);
unsigned ingest_port(const struct ingest *c);

#endif
