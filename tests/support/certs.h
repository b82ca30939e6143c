/* A throw-away PKI for tests: a directory of its own with an authority, and certificates issued on
 * demand. Failures end the test. Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_CERTS_H
#define PROCFLEET_TESTS_SUPPORT_CERTS_H

#include "common/net/net.h"
#include "common/pki/pki_authority.h"

struct certs;

/* A directory below the temporary one, with an authority; removed by certs_destroy. */
struct certs *certs_create(void);
void certs_destroy(struct certs *c); /* NULL is allowed */

const char *certs_dir(const struct certs *c);

/* What a token says of the authority: SHA-256 of its certificate. */
void certs_pin(struct certs *c, uint8_t pin[32]);

/* Issues NAME.pem and NAME.key; valid for an hour from now. */
void certs_issue(struct certs *c, enum pki_use use, const char *name);

/* The same with everything said; `what->now_ns` and `life_ns` of 0 are filled in. */
void certs_issue_as(struct certs *c, const struct pki_issue *what);

/* What servers of certs_load and certs_tls speak from now on; at first both versions. */
void certs_speak(enum tls_versions versions);

/* Loads NAME's certificate, trusting the authority of `trusted` (usually c itself). Clients expect
 * the server name PKI_SERVER_NAME. */
struct tls_config *certs_load(struct certs *c, const char *name, const struct certs *trusted,
                              bool server);

/* Issues and loads in one step, trusting c's authority; a collector's is a server's. Borrowed:
 * certs_destroy releases it. */
struct tls_config *certs_tls(struct certs *c, enum pki_use use, const char *name);

/* Puts a copy of DIR/NAME.pem and the like where `path` says, as a renewal does. */
void certs_copy(struct certs *c, const char *name, const char *ending, const char *path);

struct certs_shown {
    struct certs *from;
    const char *name;
};

/* Writes the certificates one behind the other, up to `n` of them or one without a name. */
void certs_chain(const char *path, const struct certs_shown *shown, size_t n);

/* "DIR/NAME.pem" and the like; valid until the next call but one. */
const char *certs_path(struct certs *c, const char *name, const char *ending);

#endif
