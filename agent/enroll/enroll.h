/* How a host gets its certificate, and a new one in place of an expired one: one exchange with the
 * collector's enroll listener, and the files it ends in. The key is made here and never leaves.
 * Crashes: trust_files.h; but a token that the collector has taken is spent, whatever became of its
 * answer. Threads: one caller at a time. */
#ifndef PROCFLEET_AGENT_ENROLL_ENROLL_H
#define PROCFLEET_AGENT_ENROLL_ENROLL_H

#include "agent/enroll/trust_files.h"
#include "common/net/net.h"
#include "common/wire/wire_enroll.h"

struct enroll_ask {
    const char *address; /* of the enroll listener */
    const char *server_name;
    const char *name;  /* host name asked for; NULL with a NULL token */
    const char *token; /* NULL: RenewExpired, with the pair that `files` holds */
    bool force;        /* what is there is kept as NAME.old and replaced */
    const struct trust_files *files;
    int64_t timeout_ns;
    void (*say)(void *ctx, const char *text); /* what is being done, for people; may be NULL */
    void *ctx;
};

struct enroll_result {
    struct net_identity who; /* the new certificate's */
    int64_t clock_ns;        /* the collector's clock less ours */
};

/* Errors: ERR_EXISTS (enrolled already), ERR_INVALID (not a token; a name; an address),
 * ERR_UNREACHABLE, ERR_TIMEOUT, ERR_TRUST (the server is not the one the token was made by, or what
 * it sent does not fit), ERR_REFUSED (why holds what the collector said), and those of
 * trust_files_change. `why` names the remedy. */
NODISCARD enum err enroll_run(struct enroll_result *out, const struct enroll_ask *ask,
                              struct errmsg *why);

/* The two ends of an exchange: a new key with its request, and the reply that becomes files.
 * Threads: any; no state. */
struct enroll_exchange {
    struct pki_key *key;
    uint8_t csr[WIRE_CSR_MAX];
    size_t csr_n;
};

/* Makes key and request; enroll_exchange_end releases. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err enroll_exchange_begin(struct enroll_exchange *x, const char *name,
                                         struct errmsg *why);
void enroll_exchange_end(struct enroll_exchange *x);

/* Makes the reply's certificate the host's. `before`: who we are, which must not change; NULL: a
 * first enrolment, by the authority of `pin`, which replaces the one there. Errors: ERR_CORRUPT (no
 * such reply), ERR_TRUST (of another host or authority, or no agent's), those of trust_files_change
 */
NODISCARD enum err enroll_exchange_take(struct enroll_result *out, const struct enroll_exchange *x,
                                        const struct buf *reply, const struct net_identity *before,
                                        const uint8_t *pin, const struct trust_files *files,
                                        struct errmsg *why);

#endif
