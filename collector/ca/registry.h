/* The authority's book, kept beside its key in pki.dir: one-time tokens, issued certificates,
 * revocations. The command line and the running collector write it at the same time (book.h has the
 * file, entry.h its lines).
 *
 * Bounds:  BOOK_LINES_MAX lines; registry_tidy takes out what is long over.
 * Threads: any. Two locks: one for whoever reads or writes the file, one for the tables in memory,
 *          which is held across no I/O.
 * Crashes: after ERR_OK what was written is durable.
 * Errors of writing: ERR_IO (why says what is wrong with the book), ERR_NOSPACE, ERR_FULL,
 * ERR_NOMEM. */
#ifndef PROCFLEET_COLLECTOR_CA_REGISTRY_H
#define PROCFLEET_COLLECTOR_CA_REGISTRY_H

#include "common/net/net.h"
#include "common/os/fio.h"
#include "common/pki/pki_token.h"

#define REGISTRY_REASON_MAX 63u
#define REGISTRY_GRACE_MAX  (30 * 86400 * INT64_C(1000000000)) /* of RenewExpired: tidying waits */

struct registry;

/* The book is made when missing. `fio` is what it is written through; NULL: fio_os().
 * Errors: ERR_NOTFOUND (no such directory), ERR_ACCESS (others may read it, or we may not),
 * ERR_CORRUPT (names file and line), ERR_VERSION, ERR_BUSY, ERR_IO, ERR_NOMEM */
NODISCARD enum err registry_open(struct registry **out, const char *dir, const struct fio *fio,
                                 struct errmsg *why);
void registry_close(struct registry *r); /* NULL is allowed */

/* Reads what other processes appended since. *changed: revocations are among it. Four system calls
 * when nothing was. What was known stays known on failure.
 * Errors: ERR_IO, ERR_ACCESS, ERR_NOTFOUND, ERR_CORRUPT, ERR_VERSION, ERR_NOMEM */
NODISCARD enum err registry_refresh(struct registry *r, bool *changed, struct errmsg *why);

/* Writes the book anew without what is over for longer than any grace, when that is half of it.
 * Errors: as registry_refresh, and those of writing */
NODISCARD enum err registry_tidy(struct registry *r, int64_t now_ns, struct errmsg *why);

struct registry_stats {
    size_t lines, torn_bytes; /* torn: cut off the end since opening */
    size_t certs, tokens, revocations;
};
void registry_stats(struct registry *r, struct registry_stats *out);

/* -- tokens -- */

struct registry_token {
    uint8_t id[PKI_TOKEN_ID_BYTES];       /* shown to people as hex */
    char names[128];                      /* glob the host's name must fit, "" = any */
    bool again;                           /* the host of that name goes on with a new key */
    int64_t made_ns, expires_ns, used_ns; /* UTC; used 0 = not yet */
    char used_by[64];                     /* host name */
    bool withdrawn;
};

/* Makes a token for one enrolment, of what->names, again, made_ns and expires_ns; `text` is what
 * the operator carries to the host: it names the authority (pin) and proves the right, and is
 * written nowhere else (format: pki_token.h). Errors: ERR_INVALID (names), those of writing */
NODISCARD enum err registry_token_make(struct registry *r, const struct registry_token *what,
                                       const uint8_t pin[PKI_PIN_BYTES], char text[PKI_TOKEN_TEXT],
                                       struct errmsg *why);

/* Whether any host ever had that name: a token to go on with it (again) is for one. */
bool registry_had_host(struct registry *r, const char *name);

/* What a token that may be used gives. */
struct registry_grant {
    bool chosen;   /* the token is for this very name, not for a pattern */
    bool has_host; /* again: this one; else the host gets an identity of its own */
    struct uuid host;
};

/* Whether it may be used for `name`; writes nothing.
 * Errors: ERR_NOTFOUND (no such token), ERR_EXISTS (used), ERR_TIMEOUT (expired), ERR_CLOSED
 * (withdrawn), ERR_REFUSED (name does not fit), ERR_ACCESS (another host has the name); why says it
 * with the remedy */
NODISCARD enum err registry_token_check(struct registry *r, struct registry_grant *grant,
                                        const struct pki_token *t, const char *name, int64_t now_ns,
                                        struct errmsg *why);

/* Takes it for a certificate that was made for it: one line, durable before ERR_OK, says both, so
 * that it works once, whatever crashes. Errors: as registry_token_check; ERR_BUSY (the grant has
 * changed meanwhile: begin anew); those of writing */
NODISCARD enum err registry_enroll(struct registry *r, const struct pki_token *t,
                                   const struct net_identity *who, int64_t now_ns,
                                   struct errmsg *why);

/* `id`: as it is shown. Errors: ERR_INVALID, ERR_NOTFOUND, ERR_EXISTS (used), those of writing */
NODISCARD enum err registry_token_withdraw(struct registry *r, const char *id, int64_t now_ns,
                                           struct errmsg *why);

/* For lists, oldest first; `each` returns false for enough. Must not call the registry. */
void registry_tokens(struct registry *r, bool (*each)(void *ctx, const struct registry_token *t),
                     void *ctx);

/* -- certificates -- */

struct registry_cert {
    struct net_identity who; /* address stays empty; roles 0: a collector's */
    int64_t issued_ns;
    bool replaced;      /* by a newer one of the same holder and role */
    int64_t revoked_ns; /* 0 = not */
    char reason[REGISTRY_REASON_MAX + 1];
};

/* Durable before ERR_OK. Errors: those of writing */
NODISCARD enum err registry_issued(struct registry *r, const struct net_identity *who,
                                   int64_t now_ns, struct errmsg *why);
void registry_certs(struct registry *r, bool (*each)(void *ctx, const struct registry_cert *c),
                    void *ctx);

/* Certificates of the host issued at or after `since_ns`. */
size_t registry_recent(struct registry *r, const struct uuid *host, int64_t since_ns);

/* Whether the host's newest certificate is revoked. */
bool registry_host_revoked(struct registry *r, const struct uuid *host);

/* Whether the holder of `before`, an agent's, may have another one. Errors: ERR_REFUSED (revoked;
 * or it is over, and another host was given the name); why says it with the remedy */
NODISCARD enum err registry_may_renew(struct registry *r, const struct net_identity *before,
                                      int64_t now_ns, struct errmsg *why);
/* `who` was made in its place; asks once more, with all that others wrote before. Durable before
 * ERR_OK. Errors: as registry_may_renew, those of writing */
NODISCARD enum err registry_renewed(struct registry *r, const struct net_identity *before,
                                    const struct net_identity *who, int64_t now_ns,
                                    struct errmsg *why);

/* What a revocation meant. */
struct registry_meant {
    bool one_cert; /* else everything of the host or the user so far */
    struct net_identity who;
    size_t valid; /* certificates that it ends */
};

/* `what`: a host's UUID, a name, or at least 8 digits of a fingerprint; the book need not know a
 * whole UUID or a whole fingerprint. Errors: ERR_NOTFOUND (the book knows none), ERR_EXISTS
 * (revoked already), ERR_INVALID (means several, why lists them; a collector's; reason), those of
 * writing */
NODISCARD enum err registry_revoke(struct registry *r, const char *what, const char *reason,
                                   int64_t now_ns, struct registry_meant *meant,
                                   struct errmsg *why);

/* For net_server_conf.judge, with the registry as context. */
const char *registry_judge(void *registry, const struct net_identity *who);

#endif
