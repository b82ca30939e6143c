/* Looks whether the files of one side's certificates have changed, and reads them again: rotating a
 * certificate or an authority needs no restart. By content, not by time: some
 * tools keep times. The key is not looked at; write it before its certificate. A pair that does not
 * fit, or a file that is half there, leaves what is in use and is tried again at the next poll.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_TLS_CERT_RELOADER_H
#define PROCFLEET_COMMON_TLS_CERT_RELOADER_H

#include "common/tls/tls_config.h"

struct cert_reloader {
    struct tls_config *tls;      /* all borrowed */
    const char *ca, *cert, *crl; /* crl may be NULL */
    uint64_t seen;               /* hash of them as they were read last */
    uint64_t refused;            /* and as they could not be read last */
};

/* What is there now counts as known. */
void cert_reloader_begin(struct cert_reloader *f, struct tls_config *tls, const char *ca,
                         const char *cert, const char *crl);

/* Looks once. *changed: the new files are in use; or, with an error, they fail in a way that was
 * not reported yet. Errors: those of tls_config_load */
NODISCARD enum err cert_reloader_poll(struct cert_reloader *f, bool *changed, struct errmsg *why);

#endif
