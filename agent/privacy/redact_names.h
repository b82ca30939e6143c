/* What the names in a command line mean, for redact.c. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_PRIVACY_REDACT_NAMES_H
#define PROCFLEET_AGENT_PRIVACY_REDACT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/model/model.h"

/* Whether a value under this name is one to hide: `words`, lower or upper case alike, are
 * the operator's own. */
bool redact_is_secret(struct str name, const char *const *words, size_t n_words);

/* Whether the name means a secret beyond doubt: others, as key and token, are also names of flags,
 * functions and files. */
bool redact_is_strong(struct str name);

/* Options about secrets that take none: --no-password, --ask-pass, --password-stdin. */
bool redact_is_switch(struct str name);

/* A word without a dash after which the next one is a secret: `git config user.password X`. */
bool redact_is_field(struct str word);

/* As options are written: -x, --word-word, -Word=…, /word. Digits and signs are rather of a secret.
 */
bool redact_is_option(struct str word);

#endif
