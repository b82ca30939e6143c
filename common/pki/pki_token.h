/* An enrolment token as text: what an operator carries from the authority to the host. It names the
 * authority by its pin, so that the host knows whom to speak to, and proves the right to enrol
 * once. Text: "pf1-" and hexadecimal digits: id, secret, pin, and a checksum against typing errors.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_TOKEN_H
#define PROCFLEET_COMMON_PKI_PKI_TOKEN_H

#include "common/pki/pki_key.h"

#define PKI_TOKEN_ID_BYTES     8u
#define PKI_TOKEN_SECRET_BYTES 16u
#define PKI_TOKEN_BYTES        (PKI_TOKEN_ID_BYTES + PKI_TOKEN_SECRET_BYTES + PKI_PIN_BYTES)
#define PKI_TOKEN_HASH_BYTES   32u
#define PKI_TOKEN_TEXT         (4u + 2u * (PKI_TOKEN_BYTES + 4u) + 1u) /* with NUL */

struct pki_token {
    uint8_t id[PKI_TOKEN_ID_BYTES];         /* no secret: shown in lists */
    uint8_t secret[PKI_TOKEN_SECRET_BYTES]; /* only its hash is kept by the authority */
    uint8_t pin[PKI_PIN_BYTES];
};

/* What the authority keeps of it: SHA-256 of id and secret. Errors: ERR_NOMEM */
NODISCARD enum err pki_token_hash(uint8_t hash[PKI_TOKEN_HASH_BYTES], const struct pki_token *t);

/* SHA-256 of any other secret, for those who keep no more of it. Errors: ERR_NOMEM */
NODISCARD enum err pki_token_digest(uint8_t hash[PKI_TOKEN_HASH_BYTES], const void *p, size_t n);

/* Gives `text`. */
const char *pki_token_format(char text[PKI_TOKEN_TEXT], const struct pki_token *t);

/* In either case; nothing before and nothing behind. Errors: ERR_INVALID (not a token, or mistyped)
 */
NODISCARD enum err pki_token_parse(struct pki_token *out, const char *text);

#endif
