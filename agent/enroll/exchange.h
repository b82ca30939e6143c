/* The two ends of every exchange for a certificate: a new key with its request, and the reply that
 * becomes files. For agent/trust/ only. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_ENROLL_EXCHANGE_H
#define PROCFLEET_AGENT_ENROLL_EXCHANGE_H

#include "agent/enroll/enroll.h"
#include "common/wire/wire_enroll.h"

struct exchange {
    struct pki_key *key;
    uint8_t csr[WIRE_CSR_MAX];
    size_t csr_n;
};

/* Makes key and request; exchange_end releases. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err exchange_begin(struct exchange *x, const char *name, struct errmsg *why);
void exchange_end(struct exchange *x);

/* Makes the reply's certificate the host's. `before`: who we are, which must not change; NULL: a
 * first enrolment, by the authority of `pin`, which replaces the one there. Errors: ERR_CORRUPT (no
 * such reply), ERR_TRUST (of another host or authority, or no agent's), those of trust_files_change
 */
NODISCARD enum err exchange_take(struct enroll_result *out, const struct exchange *x,
                                 const struct buf *reply, const struct net_identity *before,
                                 const uint8_t *pin, const struct trust_files *files,
                                 struct errmsg *why);

#endif
