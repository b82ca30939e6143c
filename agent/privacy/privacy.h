/* What of a process may leave the host: its account, the policy for command lines, and what of the
 * values of events. Applied before anything is queued or logged.
 *   none    no command line at all
 *   exe     its first argument
 *   redact  all of it, but secret values are hidden (***): see agent/privacy/redact.h
 *   full    as it is
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_PRIVACY_PRIVACY_H
#define PROCFLEET_AGENT_PRIVACY_PRIVACY_H

#include "common/base/err.h"
#include "common/model/model.h"
#include "common/model/value.h"

#define PRIVACY_WORDS_MAX 64
#define PRIVACY_WORDS     "password,passwd,pwd,secret,token,key,credential"

enum privacy_policy { PRIVACY_NONE, PRIVACY_EXE, PRIVACY_REDACT, PRIVACY_FULL };

struct privacy;

struct privacy_conf {
    enum privacy_policy command_line;
    const char *const *words; /* copied; compared without case */
    size_t n_words;
    bool hide_user;
};

struct privacy_stats {
    uint64_t redacted; /* values hidden */
    uint64_t withheld; /* command lines left out or cut to their first argument */
};

/* Whether a word could be part of a name: letters, digits, '.', '_', '-', '/', '$' and what is not
 * ASCII, not beginning with '-', '/' or '$', which are no part of it. Errors: ERR_INVALID */
NODISCARD enum err privacy_check_word(const char *word);

/* Errors: ERR_NOMEM, ERR_FULL (more than PRIVACY_WORDS_MAX words), ERR_INVALID (a word that is
 * none)
 */
NODISCARD enum err privacy_create(struct privacy **out, const struct privacy_conf *conf);
void privacy_destroy(struct privacy *f);
const struct privacy_stats *privacy_stats(const struct privacy *f);

/* "none", "exe", "redact", "full". Errors: ERR_INVALID */
NODISCARD enum err privacy_policy_parse(enum privacy_policy *out, const char *text);

/* *out is *in as it may leave the host; its command line is valid until the next call. */
void privacy_info(struct privacy *f, const struct proc_info *in, struct proc_info *out);

enum privacy_value {
    PRIVACY_VALUE_AS_IT_IS,
    PRIVACY_VALUE_CHANGED,  /* *text is without its secrets; valid until the next call */
    PRIVACY_VALUE_HIDDEN,   /* its name means a secret: nothing of it may leave */
    PRIVACY_VALUE_LEFT_OUT, /* an account, or a command line, of which none may leave */
};

/* What of an event's value may leave the host: `name` of its field, `kind` (enum value_kind), text
 * where it is one, and bytes. Texts are redacted whatever the policy for command lines; bytes that
 * hold a secret are hidden whole, numbers under names that cannot mean anything else. Where
 * accounts are hidden, so are SIDs within texts. f NULL: everything. */
enum privacy_value privacy_value(struct privacy *f, struct str name, unsigned kind,
                                 struct str *text);

/* Whether a value of this kind under this name is one to hide. f NULL: none. */
bool privacy_hides(struct privacy *f, struct str name, unsigned kind);

/* Whether the text is a word that names a secret, as "password" or "--api-key": what follows it may
 * be the secret. */
bool privacy_is_name(struct privacy *f, struct str text);

/* Whether a field of this name tells the name of something, as KeyName; the value of it. */
bool privacy_field_names(struct str field);
bool privacy_field_is_value(struct str field);

#endif
