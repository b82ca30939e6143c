/* The rows of the authority's database: tokens, certificates, revocations. Storage only: ca_token.h
 * and ca_cert.h decide what is written, ca_db.h opens the file and begins and ends transactions.
 *
 * Bounds:  CA_ROWS_MAX rows. Threads: one owner, in a transaction (ca_db_begin).
 * Errors:  of every function, ERR_NOMEM, ERR_NOSPACE and ERR_IO (all else that is wrong with the
 *          file): why says it. Others stand beside it. After an error the transaction must not be
 *          committed, but for ERR_NOTFOUND and ERR_INVALID. */
#ifndef PROCFLEET_COLLECTOR_CA_CA_ROWS_H
#define PROCFLEET_COLLECTOR_CA_CA_ROWS_H

#include "collector/db/db.h"
#include "common/net/net.h"
#include "common/pki/pki_token.h"

#define CA_ROWS_MAX          200000u
#define CA_ROWS_REASON_MAX   63u
#define CA_ROWS_REASON_AGAIN "enrolled again"
#define CA_ROWS_NAMES_MAX    127u
#define CA_ROWS_GRACE_MAX    (30 * 86400 * INT64_C(1000000000)) /* of RenewExpired: tidying waits */

struct ca_rows {
    struct db db;
    const struct fio *fio;
    const char *path; /* borrowed */
    bool in_transaction;
};

extern const struct db_format ca_rows_format;

/* Says in a sentence what is wrong with the file; returns e, or what it is more exactly. */
NODISCARD enum err ca_rows_explain(const struct ca_rows *r, enum err e, struct errmsg *why);

/* The same, as the error of a transaction: ERR_NOMEM, ERR_NOSPACE, ERR_FULL, else ERR_IO. */
NODISCARD enum err ca_rows_failed(const struct ca_rows *r, enum err e, struct errmsg *why);

struct ca_rows_counts {
    size_t rows, certs, tokens, revocations;
};
NODISCARD enum err ca_rows_count(struct ca_rows *r, struct ca_rows_counts *out, struct errmsg *why);

/* Removes what is over for longer than any grace, when that is half of the rows and at least some
 * hundred. */
NODISCARD enum err ca_rows_tidy(struct ca_rows *r, int64_t now_ns, struct errmsg *why);

/* -- of the whole database; errors as db_row gives them -- */

struct ca_rows_state {
    int64_t revision;                  /* another one: who is revoked has changed */
    int64_t revocation;                /* number of the last one */
    uint64_t imported, imported_bytes; /* the older book that it was made from */
};
NODISCARD enum err ca_rows_state(struct ca_rows *r, struct ca_rows_state *out);
NODISCARD enum err ca_rows_imported(struct ca_rows *r, uint64_t generation, uint64_t bytes);

/* -- tokens -- */

struct ca_token {
    uint8_t id[PKI_TOKEN_ID_BYTES];     /* shown to people as hex */
    uint8_t hash[PKI_TOKEN_HASH_BYTES]; /* of its secret */
    char names[CA_ROWS_NAMES_MAX + 1];  /* glob the host's name must fit, "" = any */
    bool again;                         /* the host of that name goes on with a new key */
    bool withdrawn;
    int64_t made_ns, expires_ns, used_ns; /* UTC; used 0 = not yet */
    char used_by[64];                     /* host name */
};

/* Errors: ERR_NOTFOUND */
NODISCARD enum err ca_rows_token_get(struct ca_rows *r, const uint8_t id[PKI_TOKEN_ID_BYTES],
                                     struct ca_token *out, struct errmsg *why);
/* Adds it, or replaces the one of the same id. Errors: ERR_INVALID (names), ERR_FULL */
NODISCARD enum err ca_rows_token_put(struct ca_rows *r, const struct ca_token *t,
                                     struct errmsg *why);
/* Up to `max` of those made after the one with row number *after (0: all), oldest first. *after
 * becomes the last one's. */
NODISCARD enum err ca_rows_tokens(struct ca_rows *r, int64_t *after, struct ca_token *out,
                                  size_t max, size_t *n, struct errmsg *why);

/* -- certificates and revocations -- */

struct ca_cert {
    struct net_identity who; /* address stays empty; roles 0: a collector's */
    int64_t issued_ns;
    bool replaced;      /* by a newer one of the same holder and role */
    int64_t revoked_ns; /* 0 = not */
    char reason[CA_ROWS_REASON_MAX + 1];
};

static inline bool ca_rows_valid(const struct ca_cert *c, int64_t now_ns)
{
    return c->revoked_ns == 0 && c->who.not_after_ns > now_ns;
}

/* Errors: ERR_INVALID (name, scope or roles), ERR_FULL */
NODISCARD enum err ca_rows_cert_add(struct ca_rows *r, const struct net_identity *who,
                                    int64_t now_ns, struct errmsg *why);
/* As ca_rows_tokens, in the order in which they were issued. */
NODISCARD enum err ca_rows_certs(struct ca_rows *r, int64_t *after, struct ca_cert *out, size_t max,
                                 size_t *n, struct errmsg *why);

enum ca_rows_by {
    CA_ROWS_BY_HOLDER,      /* key->host when it has one, else the user key->name; newest first */
    CA_ROWS_BY_NAME,        /* key->name in any case, of anybody; newest first */
    CA_ROWS_BY_FINGERPRINT, /* the first `digits` hexadecimal digits of key->fingerprint */
};
/* Calls `each` until it returns false. It must not use the rows. */
NODISCARD enum err ca_rows_find(struct ca_rows *r, enum ca_rows_by by,
                                const struct net_identity *key, size_t digits,
                                bool (*each)(void *ctx, const struct ca_cert *c), void *ctx,
                                struct errmsg *why);

/* What a revocation concerns: certificates of before it, and those that the database does not know.
 */
enum ca_rows_target { CA_ROWS_CERT, CA_ROWS_HOST, CA_ROWS_USER };
/* `who`: the fingerprint, host or name that `target` says. Errors: ERR_INVALID (reason, name),
 * ERR_FULL */
NODISCARD enum err ca_rows_revoke(struct ca_rows *r, enum ca_rows_target target,
                                  const struct net_identity *who, const char *reason,
                                  int64_t now_ns, struct errmsg *why);
NODISCARD enum err ca_rows_revoked(struct ca_rows *r, const struct net_identity *who, bool *revoked,
                                   struct errmsg *why);

#endif
