/* What session.c and session_push.c share. */
#ifndef PROCFLEET_COLLECTOR_INGEST_SESSION_IMPL_H
#define PROCFLEET_COLLECTOR_INGEST_SESSION_IMPL_H

#include "collector/ingest/session_hosts.h"
#include "common/os/os.h"
#include "common/wire/wire_rpc.h"

#define SESSION_DECODERS 16u /* kept for the next push; as many as pushes come at once are made */

struct session {
    struct session_conf conf;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *idle;
    struct session_hosts hosts;
    unsigned under_way;
    unsigned n_decoders;
    struct wire_decoder *decoders[SESSION_DECODERS]; /* at rest */
    struct session_stats stats;
};

struct clock_moment session_now(const struct session *s);

/* What a call tells besides that it came. */
struct session_greeting {
    const struct wire_hello *hello;
    const struct wire_heartbeat *beat;
    bool stored; /* with hello: the store has data of the host, */
    struct uuid stored_boot;
    int64_t stored_ns; /* and when the newest came, UTC */
};

/* Notes that the caller was heard, and what it told. False: answered already. */
bool session_greet(struct session *s, struct rpc_call *call, const struct session_greeting *g);

/* Counts in the session, and as refused by the host. */
void session_count(struct session *s, uint64_t *counter, const struct uuid *refused);

/* Answers that refuse. */
void session_refuse_spoof(struct session *s, struct rpc_call *call, const char *claims);
void session_refuse_anonymous(struct session *s, struct rpc_call *call);

/* Sends what was encoded, and gives its memory back. */
void session_answer(struct rpc_call *call, struct buf *reply, enum err e);

/* The method Push. */
void session_push(void *session, struct rpc_call *call);

#endif
