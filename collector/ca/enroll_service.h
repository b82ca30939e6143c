/* Certificates for agents: the Enroll service (strangers with a token; holders of an expired
 * certificate), and Ingest/Renew (agents with a valid one). Each answer that gives a certificate
 * was written into the authority's book first.
 *
 *   OK                   the certificate
 *   INVALID_ARGUMENT     not a request, another kind of key, a name that cannot be, not a token
 *   UNAUTHENTICATED      token unknown, or of another authority; proof not made by the expired
 *                        certificate's key
 *   PERMISSION_DENIED    token used, expired, withdrawn or for other names; the name is another
 *                        host's; certificate revoked, expired for longer than the grace, or not an
 *                        agent's; the message says which, and what to do
 *   RESOURCE_EXHAUSTED   too many attempts: retry_after
 *   UNAVAILABLE          the book cannot be written, or the authority itself has ended
 *
 * Each certificate and each refusal is one line in the log. Threads: any. */
#ifndef PROCFLEET_COLLECTOR_CA_ENROLL_SERVICE_H
#define PROCFLEET_COLLECTOR_CA_ENROLL_SERVICE_H

#include "collector/ca/ca_db.h"
#include "common/rpc/rpc.h"

struct enroll_service;

struct enroll_service_conf {
    struct ca_db *db;         /* borrowed until enroll_service_destroy */
    const char *dir;          /* of the authority */
    int64_t life_ns;          /* of a certificate: pki.cert_life */
    int64_t grace_ns;         /* after expiry: pki.renew_grace */
    int64_t (*utc_ns)(void);  /* the clock; NULL: os_utc_ns */
    int64_t (*mono_ns)(void); /* of the rate limits; NULL: os_mono_ns */
};

/* Errors: those of pki_authority_open */
NODISCARD enum err enroll_service_create(struct enroll_service **out,
                                         const struct enroll_service_conf *conf,
                                         struct errmsg *why);
/* No call may come any more; NULL is allowed. */
void enroll_service_destroy(struct enroll_service *e);

int64_t enroll_service_authority_end_ns(const struct enroll_service *e);

/* Enroll, RenewExpired: for the listener of strangers. */
#define ENROLL_SERVICE_METHODS 2
void enroll_service_methods(struct enroll_service *e,
                            struct rpc_method methods[ENROLL_SERVICE_METHODS]);

/* Renew: one more method of the ingest listener. */
void enroll_service_renew_method(struct enroll_service *e, struct rpc_method *method);

struct enroll_service_stats {
    uint64_t enrolled, renewed, renewed_expired, refused;
};
void enroll_service_stats(struct enroll_service *e, struct enroll_service_stats *out);

#endif
