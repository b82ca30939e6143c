/* The three files of an identity: authority, certificate, key. Key and certificate change together,
 * although no system renames two files at once: the new ones are written beside the old (NAME.new),
 * the certificate last. From then on the change counts, and whoever finds NAME.new of a certificate
 * finishes it; without one, what else is new is left over and goes. So at every moment the next
 * start has the whole old pair or the whole new one. Threads: one caller at a time. */
#ifndef PROCFLEET_AGENT_ENROLL_TRUST_FILES_H
#define PROCFLEET_AGENT_ENROLL_TRUST_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "common/pki/pki_key.h"

struct trust_files {
    const char *ca, *cert, *key; /* borrowed paths */
};

/* Whether a certificate or a key is there. */
bool trust_files_exist(const struct trust_files *f);

/* Makes the directories and tries whether they can be written: better known before a token is
 * spent. Errors: ERR_IO, ERR_NOSPACE, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err trust_files_prepare(const struct trust_files *f, struct errmsg *why);

/* Copies what is there to NAME.old. Errors: as trust_files_prepare */
NODISCARD enum err trust_files_keep(const struct trust_files *f, struct errmsg *why);

/* Finishes or undoes a change that was cut. Before the first use of the files in a run.
 * Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err trust_files_mend(const struct trust_files *f, struct errmsg *why);

struct trust_change {
    const struct pki_key *key;
    const void *certificate; /* DER, as the next */
    size_t certificate_n;
    const void *authority;
    size_t authority_n;
    /* The authority replaces those there; else it joins them, if the certificate needs it. */
    bool replace;
};

/* New key and certificate in place of those there, after they were seen to fit each other and the
 * authority. Mends first. Errors: ERR_TRUST (they do not fit), ERR_IO, ERR_NOSPACE, ERR_ACCESS,
 * ERR_NOMEM; the old pair stays then, or `why` says that trust_files_mend has something to finish.
 */
NODISCARD enum err trust_files_change(const struct trust_files *f, const struct trust_change *c,
                                      struct errmsg *why);

#endif
