/* What a line of the authority's book says, to and from its text: words between single blanks.
 *
 *   issued    TIME CERTIFICATE
 *   enrolled  TIME TOKEN new|again CERTIFICATE
 *   token     TIME TOKEN HASH EXPIRES NAMES new|again
 *   withdrawn TIME TOKEN
 *   revoked   TIME cert|host|user WHICH REASON…
 *
 * CERTIFICATE is FINGERPRINT HOST ROLE FROM UNTIL NAME SCOPE; what is missing is "-". `again`: the
 * host whose name it is continues with a new key, and its certificates from before are revoked.
 * Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_CA_ENTRY_H
#define PROCFLEET_COLLECTOR_CA_ENTRY_H

#include "common/base/buf.h"
#include "common/net/net.h"
#include "common/pki/pki_token.h"

enum entry_kind { ENTRY_ISSUED, ENTRY_ENROLLED, ENTRY_TOKEN, ENTRY_WITHDRAWN, ENTRY_REVOKED };
enum entry_target { ENTRY_CERT, ENTRY_HOST, ENTRY_USER };

#define ENTRY_REASON_MAX 63u
#define ENTRY_NAMES_MAX  127u

struct entry {
    enum entry_kind kind;
    int64_t when_ns;         /* UTC */
    struct net_identity who; /* ISSUED, ENROLLED; REVOKED: the member that `target` says */
    uint8_t token[PKI_TOKEN_ID_BYTES];
    uint8_t hash[PKI_TOKEN_HASH_BYTES]; /* TOKEN: of its secret */
    int64_t expires_ns;                 /* TOKEN */
    char names[ENTRY_NAMES_MAX + 1];    /* TOKEN: glob */
    bool again;                         /* TOKEN, ENROLLED */
    enum entry_target target;           /* REVOKED */
    char reason[ENTRY_REASON_MAX + 1];  /* REVOKED; "" = none given */
};

/* Appends the text, without a line break. Errors: ERR_INVALID (a name or text that cannot be in a
 * line), ERR_NOMEM, ERR_FULL */
NODISCARD enum err entry_put(struct buf *out, const struct entry *e);

/* Errors: ERR_CORRUPT, ERR_VERSION (a kind of a later version) */
NODISCARD enum err entry_get(struct entry *out, const char *text, size_t n);

/* Names of hosts that a token is for: letters, digits, . _ - * and ?. */
bool entry_names_ok(const char *names);

#endif
