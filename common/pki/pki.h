/* Keys and certificates: ECDSA P-256, made and signed here, from validated values only.
 * Files: PEM; private ones 0600. Names and uses as PROTOCOL.md's trust section says.
 * Threads: any; no shared state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_H
#define PROCFLEET_COMMON_PKI_PKI_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/model/model.h"
#include "common/os/uuid.h"

#define PKI_SERVER_NAME "procfleet-collector"

/* Creates the authority in `dir`: ca.pem, ca.key. Errors: ERR_EXISTS, ERR_IO, ERR_ACCESS, … */
NODISCARD enum err pki_init(const char *dir, const char *common_name, int64_t now_ns,
                            int64_t life_ns, struct errmsg *why);

enum pki_use { PKI_COLLECTOR, PKI_AGENT, PKI_QUERY, PKI_SUBSCRIBE, PKI_ADMIN };

struct pki_issue {
    enum pki_use use;
    const char *name;       /* CN: host's or user's name, 1 to 63 of A-Z a-z 0-9 . _ - */
    const char *const *dns; /* collector: further DNS names or IP addresses */
    size_t n_dns;
    const char *scope; /* query, subscribe: host glob, NULL = everything */
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
NODISCARD enum err pki_issue(const char *ca_dir, const struct pki_issue *what,
                             const char *cert_path, const char *key_path, struct errmsg *why);

NODISCARD enum err
pki_use_parse(enum pki_use *use,
              const char *text);    /* "agent", "query", "subscribe", "admin", "collector" */
bool pki_name_ok(const char *name); /* of any certificate */
/* What stands against a name for somebody new, or NULL. Stricter: 'pki revoke' takes names, UUIDs
 * and fingerprints in one place, and names become files. chosen: an operator wrote this very name,
 * not the host; it may look like the digits of a fingerprint then. */
const char *pki_name_wrong(const char *name, bool chosen);

#endif
