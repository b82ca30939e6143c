/* Looks whether the files of one side's certificates have changed, and has them read again: so that
 * whoever rotates a certificate or an authority restarts nothing. By content, not by time: some
 * tools keep times. The key is not looked at; write it before its certificate. A pair that does not
 * fit, or a file that is half there, leaves what is in use and is tried again at the next look.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_TLS_CERT_RELOADER_H
#define PROCFLEET_COMMON_TLS_CERT_RELOADER_H

#include "common/net/net.h"

struct cert_reloader {
    struct tls_config *tls;      /* all borrowed */
    const char *ca, *cert, *crl; /* crl may be NULL */
    uint64_t seen;               /* hash of them as they were read last */
    uint64_t refused;            /* and as they could not be read last */
};

/* What is there now counts as known. */
void cert_reloader_begin(struct cert_reloader *f, struct tls_config *tls, const char *ca,
                         const char *cert, const char *crl);

/* One look. *news: the files are in use since now; or, with an error, they fail in a way that was
 * not told yet. Errors: those of tls_config_load */
NODISCARD enum err cert_reloader_look(struct cert_reloader *f, bool *news, struct errmsg *why);

#endif
