/* The collector's part of the trust: the authority's book, the services that issue certificates,
 * and a thread that follows the book (a revocation counts within a quarter of a second), reads the
 * collector's certificate, authority and revocation list anew when these files change, tidies once
 * an hour, and says each day when the own certificate or the authority nears its end (30, 7 and 1
 * days).
 * Threads: one of its own; functions from one thread but for what goes into the listeners. */
#ifndef PROCFLEET_COLLECTOR_CA_TRUST_H
#define PROCFLEET_COLLECTOR_CA_TRUST_H

#include "collector/ca/ca_db.h"
#include "collector/ca/enroll_service.h"

struct trust;

struct trust_conf {
    const char *dir;           /* of the authority; "" = none: no enrolment, no revocation */
    bool required;             /* a directory that is missing is an error; else it is as none */
    int64_t life_ns, grace_ns; /* see enroll_service_conf */
    struct tls_config *tls;    /* the collector's own; borrowed until trust_close */
    const char *ca, *cert;     /* its files */
    const char *crl;           /* a revocation list besides; NULL: there is none */
};

/* Errors: those of ca_db_open and enroll_service_create */
NODISCARD enum err trust_open(struct trust **out, const struct trust_conf *conf,
                              struct errmsg *why);

/* For the listeners' judge; NULL: there is no database, no one is refused. */
struct ca_db *trust_ca_db(struct trust *t);

/* Why the holder of a certificate is not wanted any more, by the database or the revocation list:
 * words, or NULL. For what no listener asks about. ctx: the trust. Any thread. */
const char *trust_judge(void *ctx, const struct net_identity *who);

/* NULL: there is no key of an authority here: no enrolment, no renewal. */
struct enroll_service *trust_enroll(struct trust *t);

/* `on_revoked` is called on the thread when a certificate was revoked: the database or a file says
 * so. Errors: ERR_NOMEM */
NODISCARD enum err trust_follow(struct trust *t, void (*on_revoked)(void *ctx), void *ctx);

/* How long the thread has not come round; 0 when there is none. Any thread. */
int64_t trust_stuck_ns(const struct trust *t, int64_t now_ns);

/* Ends the thread. */
void trust_unfollow(struct trust *t);

void trust_close(struct trust *t); /* no listener asks any more; NULL is allowed */

#endif
