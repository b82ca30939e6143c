/* Keeps the agent's certificate alive: from two thirds of its life on it asks for a new one, with a
 * new key, over the connection there is (Ingest/Renew); after expiry, on the enroll listener
 * (RenewExpired). The moment is scattered over a twelfth of the life, so that a fleet enrolled in
 * one hour does not come back in one. Tries again with growing, scattered pauses of at most an
 * eighth of what is left. Warns at 30, 7 and 1 days left, once each, if a try has failed: a
 * certificate that is renewed in time is nobody's business. A success reloads the sockets'
 * certificates, and so does a change of their files by somebody else. Threads: one of its own;
 * functions from any. */
#ifndef PROCFLEET_AGENT_ENROLL_RENEW_H
#define PROCFLEET_AGENT_ENROLL_RENEW_H

#include "agent/enroll/enroll.h"
#include "common/rpc/rpc.h"

struct renew;

struct renew_conf {
    struct tls_config *tls; /* borrowed until renew_stop */
    struct trust_files files;
    const char *enroll_address, *server_name; /* borrowed; the address may be NULL: not known */
    /* A call to the collector in use (uplink_call). */
    enum err (*call)(void *ctx, const char *method, const void *p, size_t n, int64_t timeout_ns,
                     struct buf *reply, struct rpc_result *result);
    /* Another certificate is in use: connections had better begin anew (uplink_refresh). May be
     * NULL. */
    void (*renewed)(void *ctx);
    void *ctx;
    int64_t (*utc_ns)(void); /* NULL: os_utc_ns */
};

/* Errors: ERR_NOMEM */
NODISCARD enum err renew_start(struct renew **out, const struct renew_conf *conf);
void renew_end(struct renew *r); /* no further try begins; never blocks, NULL is allowed */
/* Ends it and waits for a call under way: at most some seconds. NULL is allowed. */
void renew_stop(struct renew *r);

struct renew_status {
    int64_t not_after_ns; /* UTC, of the certificate in use */
    int64_t next_ns;      /* UTC, of the next try */
    uint64_t renewed, failed;
    char why[256]; /* of the last failure; "" when the last try worked */
};
void renew_status(struct renew *r, struct renew_status *out);

/* When the first try is due: after two thirds of the life, and `part` of 1024 parts of a twelfth.
 */
int64_t renew_due_ns(const struct net_identity *who, unsigned part);

/* How long at most after a try that failed for e, with so much life left; the next one is twice as
 * long, up to an eighth of what is left. Once nothing is left: up to ten minutes, but half a one
 * while nobody answers. `grown_ns` holds it, a second at first. */
int64_t renew_pause_ns(int64_t *grown_ns, int64_t left_ns, enum err e);

#endif
