/* The authority: ECDSA P-256 certificates, signed here, from validated values only. Nothing of a
 * request but its public key gets into a certificate. Files: PEM; private ones 0600. Names and uses
 * as PROTOCOL.md's trust section says. Threads: any; no shared state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_AUTHORITY_H
#define PROCFLEET_COMMON_PKI_PKI_AUTHORITY_H

#include "common/model/model.h"
#include "common/os/uuid.h"
#include "common/pki/pki.h"

#define PKI_SERVER_NAME "procfleet-collector"

/* Creates the authority in `dir`: ca.pem, ca.key. Errors: ERR_EXISTS, ERR_IO, ERR_ACCESS, … */
NODISCARD enum err pki_authority_init(const char *dir, const char *common_name, int64_t now_ns,
                                      int64_t life_ns, struct errmsg *why);

enum pki_use { PKI_COLLECTOR, PKI_AGENT, PKI_QUERY, PKI_SUBSCRIBE, PKI_ADMIN, PKI_MARK };

/* "agent", "query", "subscribe", "admin", "mark", "collector". Errors: ERR_INVALID */
NODISCARD enum err pki_authority_use(enum pki_use *use, const char *text);

struct pki_issue {
    enum pki_use use;
    const char *name;       /* CN: host's or user's name, 1 to 63 of A-Z a-z 0-9 . _ - */
    const char *const *dns; /* collector: further DNS names or IP addresses */
    size_t n_dns;
    bool mark;         /* query, subscribe, admin: may also mark runs */
    const char *scope; /* query, subscribe, mark: host glob, NULL = everything */
    bool has_host;
    struct uuid host; /* agent: its identity; random when has_host is false */
    int64_t now_ns, life_ns;
    /* Called with the certificate, DER, before it is written; what it fails with ends the issue.
     * May be NULL. */
    enum err (*record)(void *ctx, const void *der, size_t n, struct errmsg *why);
    void *record_ctx;
};

/* Makes a key and a certificate signed by the authority in `ca_dir`; writes `cert_path` and
 * `key_path` (0600). Errors: ERR_NOTFOUND (no authority), ERR_INVALID (a name), ERR_EXISTS (a file
 * is there already), ERR_IO, … */
NODISCARD enum err pki_authority_issue(const char *ca_dir, const struct pki_issue *what,
                                       const char *cert_path, const char *key_path,
                                       struct errmsg *why);

struct pki_authority; /* certificate and key, loaded */
/* Errors: ERR_NOTFOUND (no authority there), ERR_ACCESS, ERR_CORRUPT, ERR_NOMEM */
NODISCARD enum err pki_authority_open(struct pki_authority **out, const char *dir,
                                      struct errmsg *why);
void pki_authority_close(struct pki_authority *a); /* NULL is allowed */
const void *pki_authority_der(const struct pki_authority *a, size_t *n);
void pki_authority_pin(const struct pki_authority *a, uint8_t pin[PKI_PIN_BYTES]);
const char *pki_authority_name(const struct pki_authority *a);     /* its common name */
int64_t pki_authority_not_after_ns(const struct pki_authority *a); /* nothing it signs lives on */

/* Appends a certificate, DER, of what `what` says for the request's key, after the request's own
 * signature was checked. Errors: ERR_CORRUPT (not a request, or not signed by its key),
 * ERR_INVALID (another kind of key than P-256, or `what`), ERR_TRUST (the authority itself has
 * ended), ERR_NOMEM */
NODISCARD enum err pki_authority_sign(struct buf *der, const struct pki_authority *a,
                                      const struct pki_issue *what, const void *csr, size_t n,
                                      struct errmsg *why);

/* Whether `signature` over `csr` was made by the key of `certificate` (DER), and this authority
 * signed that one, whatever its validity: the identity inside is then the holder's
 * (tls_cert_parse). Errors: ERR_CORRUPT, ERR_TRUST */
NODISCARD enum err pki_authority_check_proof(const struct pki_authority *a, const void *certificate,
                                             size_t certificate_n, const void *csr, size_t n,
                                             const void *signature, size_t signature_n);

#endif
