/* A collector's ingest listener whose answers a test decides: real sockets, TLS and calls.
 * Failures end the test. */
#ifndef PROCFLEET_TESTS_SUPPORT_INGEST_H
#define PROCFLEET_TESTS_SUPPORT_INGEST_H

#include "common/net/net.h"
#include "common/os/os.h"
#include "common/wire/frame.h"
#include "common/wire/wire_rpc.h"

#define INGEST_UNHEARD 32

/* Beside RPC codes. */
enum ingest_verdict {
    INGEST_ANSWER = 0,  /* taken and answered */
    INGEST_IGNORE = -1, /* neither taken nor answered */
    INGEST_TAKE = -2,   /* taken, not answered */
};

struct ingest {
    struct rpc_server *server;
    struct tls_config *tls;        /* borrowed */
    struct wire_hello_reply hello; /* what it says */
    size_t receive_max;            /* from the next ingest_listen on; 0 = 1 MiB */
    enum rpc_code refuse;          /* the batch that begins with `refuse_first`, */
    char refuse_first;
    unsigned refuse_times;    /* so often */
    uint32_t retry_after_ms;  /* told with refusals; 0 = 10 */
    enum ingest_verdict mute; /* INGEST_IGNORE or INGEST_TAKE: of every push */
    /* Asked first about every push, under the lock: INGEST_* or a code to refuse with. May be NULL.
     */
    int (*decide)(void *ctx, const void *p, size_t n);
    /* Called with every accepted batch, under the lock; may be NULL. */
    void (*on_batch)(void *ctx, const void *p, size_t n);
    void *ctx;
    struct os_mutex *lock; /* guards all below, and refuse_times */
    char got[64];          /* first byte of each accepted batch */
    size_t n_got;
    unsigned silent_hellos; /* so many Hellos are not answered */
    unsigned full;          /* so many Hellos are answered `elsewhere` */
    unsigned clones;        /* so many Hellos are answered that another machine is this host */
    unsigned hellos, beats, connections;
    uint64_t next_seq;               /* of the last heartbeat */
    struct wire_hello said;          /* in the last Hello, */
    struct wire_heartbeat beat;      /* and Heartbeat */
    int64_t refused_ns, answered_ns; /* monotonic: the last refusal; the last push that came */
    struct rpc_call *unheard[INGEST_UNHEARD]; /* pushes not answered; by ingest_stop or _answer */
    size_t n_unheard;
};

struct ingest *ingest_create(struct tls_config *tls);
void ingest_destroy(struct ingest *c);

/* Listens at `address`, after ingest_stop. ingest_create listens at any free port. */
void ingest_listen(struct ingest *c, const char *address);
void ingest_stop(struct ingest *c);
/* Answers an unheard push as if it were stored, the newest first. */
void ingest_answer(struct ingest *c);
void ingest_fail(struct ingest *c); /* as if it were not: UNAVAILABLE */
size_t ingest_unheard(struct ingest *c);
unsigned ingest_port(const struct ingest *c);

#endif
