/* The book in memory: what its entries amount to, taken in their order. A revocation of a host or a
 * user concerns the certificates that stand before it, and those that the book does not know.
 * Bounds:  as many things as the book has lines. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CA_ROLL_H
#define PROCFLEET_COLLECTOR_CA_ROLL_H

#include "collector/ca/chain.h"
#include "collector/ca/entry.h"

struct roll_cert {
    uint8_t fingerprint[32];
    bool has_host, replaced; /* a newer one of the same holder and role exists */
    uint8_t roles;
    struct uuid host;
    int64_t issued_ns, not_before_ns, not_after_ns;
    int64_t revoked_ns; /* 0 = not */
    char name[MODEL_HOST_NAME_MAX + 1];
    char *scope, *reason;                     /* NULL = none; owned */
    uint32_t before_fingerprint;              /* number + 1 of the one before in its chain */
    uint32_t before_holder, before_same_name; /* likewise */
    uint32_t token;                           /* number + 1 of the one it was enrolled with */
    bool again;                               /* its line revokes what the host had before */
};

struct roll_token {
    uint8_t id[PKI_TOKEN_ID_BYTES];
    uint8_t hash[PKI_TOKEN_HASH_BYTES];
    int64_t made_ns, expires_ns, used_ns;
    char names[ENTRY_NAMES_MAX + 1];
    char used_by[MODEL_HOST_NAME_MAX + 1];
    bool again, withdrawn;
    uint32_t before; /* in its chain */
};

struct roll {
    struct roll_cert *certs;
    struct roll_token *tokens;
    struct entry *revoked; /* every revocation, for certificates that are not known */
    size_t n_certs, n_tokens, n_revoked;
    size_t certs_max, tokens_max, revoked_max; /* allocated */
    struct chain by_fingerprint, by_holder, by_name, by_token;
};

void roll_fini(struct roll *r); /* of a zeroed one too */

/* Takes the next entry; all of it or nothing. Errors: ERR_NOMEM */
NODISCARD enum err roll_add(struct roll *r, const struct entry *e);

/* All borrowed until the next roll_add; NULL when there is none. */
struct roll_token *roll_token(const struct roll *r, const uint8_t id[PKI_TOKEN_ID_BYTES]);
const struct roll_cert *roll_cert(const struct roll *r, const uint8_t fingerprint[32]);
/* The newest of the holder: of the host, or of the user of that name. */
const struct roll_cert *roll_holder(const struct roll *r, const struct net_identity *who);
/* The one before it, of the same holder. */
const struct roll_cert *roll_before(const struct roll *r, const struct roll_cert *c);
/* The newest valid certificate of that name, in any case: of an agent that is not this host, or
 * (NULL) of anybody. */
const struct roll_cert *roll_name_taken(const struct roll *r, const char *name,
                                        const struct uuid *but, int64_t now_ns);
/* The newest that a host of that name, in any case, ever had. */
const struct roll_cert *roll_host_named(const struct roll *r, const char *name);

/* The newest of that very name, of anybody, and the one before it of the same name. */
const struct roll_cert *roll_same_name(const struct roll *r, const char *name);
const struct roll_cert *roll_before_name(const struct roll *r, const struct roll_cert *c);

bool roll_revoked(const struct roll *r, const struct net_identity *who);

static inline bool roll_cert_valid(const struct roll_cert *c, int64_t now_ns)
{
    return c->revoked_ns == 0 && c->not_after_ns > now_ns;
}

#endif
