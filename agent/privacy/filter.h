/* What of a process may leave the host: its account, and the policy for command lines. Applied
 * before anything is queued or logged.
 *   none    no command line at all
 *   exe     its first argument
 *   redact  all of it, but secret values are hidden (***): see agent/privacy/redact.h
 *   full    as it is
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_PRIVACY_FILTER_H
#define PROCFLEET_AGENT_PRIVACY_FILTER_H

#include "common/base/err.h"
#include "common/model/model.h"

#define FILTER_WORDS_MAX 64
#define FILTER_WORDS     "password,passwd,pwd,secret,token,key,credential"

enum filter_policy { FILTER_NONE, FILTER_EXE, FILTER_REDACT, FILTER_FULL };

struct filter;

struct filter_conf {
    enum filter_policy command_line;
    const char *const *words; /* copied; compared without case */
    size_t n_words;
    bool hide_user;
};

struct filter_stats {
    uint64_t redacted; /* values hidden */
    uint64_t withheld; /* command lines left out or cut to their first argument */
};

/* Whether a word could be part of the name of an argument: see redact_check_word. Errors:
 * ERR_INVALID */
NODISCARD enum err filter_check_word(const char *word);

/* Errors: ERR_NOMEM, ERR_FULL (more than FILTER_WORDS_MAX words), ERR_INVALID (a word that is none)
 */
NODISCARD enum err filter_create(struct filter **out, const struct filter_conf *conf);
void filter_destroy(struct filter *f);
const struct filter_stats *filter_stats(const struct filter *f);

/* "none", "exe", "redact", "full". Errors: ERR_INVALID */
NODISCARD enum err filter_policy_parse(enum filter_policy *out, const char *text);

/* *out is *in as it may leave the host; its command line is valid until the next call. */
void filter_info(struct filter *f, const struct proc_info *in, struct proc_info *out);

#endif
