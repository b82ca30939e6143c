/* What the authority decides about certificates: issuing, renewing, revoking. Threads: any.
 * Errors of writing: those of ca_db_begin; all functions return them. Durable before ERR_OK. */
#ifndef PROCFLEET_COLLECTOR_CA_CA_CERT_H
#define PROCFLEET_COLLECTOR_CA_CA_CERT_H

#include "collector/ca/ca_db.h"

NODISCARD enum err ca_cert_issued(struct ca_db *db, const struct net_identity *who, int64_t now_ns,
                                  struct errmsg *why);

/* For lists, in the order in which they were issued; `each` returns false for enough. The database
 * is not held while `each` runs. */
NODISCARD enum err ca_cert_list(struct ca_db *db, bool (*each)(void *ctx, const struct ca_cert *c),
                                void *ctx, struct errmsg *why);

/* How many certificates of the host were issued at or after `since_ns`. */
NODISCARD enum err ca_cert_recent(struct ca_db *db, const struct uuid *host, int64_t since_ns,
                                  size_t *n, struct errmsg *why);

/* Whether any host ever had that name: a token to go on with it (again) is for one. */
NODISCARD enum err ca_cert_had_host(struct ca_db *db, const char *name, bool *had,
                                    struct errmsg *why);

/* In a transaction: the newest certificate that a host of that name, in any case, ever had.
 * Errors: ERR_NOTFOUND */
NODISCARD enum err ca_cert_host_named(struct ca_rows *r, const char *name, struct ca_cert *out,
                                      struct errmsg *why);
/* In a transaction: the newest valid certificate of that name, in any case: of an agent that is not
 * the host `but`, or (NULL) of anybody. Errors: ERR_NOTFOUND */
NODISCARD enum err ca_cert_name_taken(struct ca_rows *r, const char *name, const struct uuid *but,
                                      int64_t now_ns, struct ca_cert *out, struct errmsg *why);

/* Whether the holder of `before`, an agent's, may have another one. Errors: ERR_REFUSED (revoked;
 * or it is over, and another host was given the name; why says it with the remedy) */
NODISCARD enum err ca_cert_may_renew(struct ca_db *db, const struct net_identity *before,
                                     int64_t now_ns, struct errmsg *why);
/* `who` was made in its place; asks once more, in the transaction that writes it.
 * Errors: as ca_cert_may_renew */
NODISCARD enum err ca_cert_renewed(struct ca_db *db, const struct net_identity *before,
                                   const struct net_identity *who, int64_t now_ns,
                                   struct errmsg *why);

/* What a revocation meant. */
struct ca_cert_meant {
    bool one_cert; /* else everything of the host or the user so far */
    struct net_identity who;
    size_t valid; /* certificates that it ends */
};

/* `what`: a host's UUID, a name, or at least 8 digits of a fingerprint; the book need not know a
 * whole UUID or a whole fingerprint. Errors: ERR_NOTFOUND (the book knows none), ERR_EXISTS
 * (revoked already), ERR_INVALID (means several, why lists them; a collector's; reason) */
NODISCARD enum err ca_cert_revoke(struct ca_db *db, const char *what, const char *reason,
                                  int64_t now_ns, struct ca_cert_meant *meant, struct errmsg *why);

#endif
