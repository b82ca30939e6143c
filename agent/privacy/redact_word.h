/* The letters and words of a command line, and what its names mean. For redact.c. Threads: any; no
 * state. */
#ifndef PROCFLEET_AGENT_PRIVACY_REDACT_WORD_H
#define PROCFLEET_AGENT_PRIVACY_REDACT_WORD_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/model/model.h"

static inline bool redact_word_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool redact_word_is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* What is not ASCII may be a letter. */
static inline bool redact_word_in_name(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80 || c == '_' || c == '-' ||
           c == '.' || c == '/' || c == '$';
}

/* ASCII letters; others stay. */
static inline char redact_word_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static inline bool redact_word_same_letters(const char *text, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (redact_word_lower(text[i]) != redact_word_lower(word[i])) {
            return false;
        }
    }
    return true;
}

static inline bool redact_word_is_same(struct str text, const char *word)
{
    return text.n == strlen(word) && redact_word_same_letters(text.p, word, text.n);
}

static inline bool redact_word_ends_in(struct str text, const char *word)
{
    size_t n = strlen(word);

    return text.n >= n && redact_word_same_letters(text.p + text.n - n, word, n);
}

static inline bool redact_word_contains(struct str text, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= text.n; i++) {
        if (redact_word_same_letters(text.p + i, word, n)) {
            return true;
        }
    }
    return false;
}

static inline struct str redact_word_unquoted(struct str s)
{
    while (s.n > 0 &&
           (redact_word_is_quote(s.p[0]) || s.p[0] == '\\' || s.p[0] == '{' || s.p[0] == ',')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (redact_word_is_quote(s.p[s.n - 1]) || s.p[s.n - 1] == '\\')) {
        s.n--;
    }
    return s;
}

/* ---- names ---- */

/* Whether a value under this name is one to hide: `words`, lower or upper case alike, are
 * the operator's own. */
bool redact_word_is_secret(struct str name, const char *const *words, size_t n_words);

/* Whether the name means a secret beyond doubt: others, as key and token, are also names of flags,
 * functions and files. */
bool redact_word_is_strong(struct str name);

/* Options about secrets that take none: --no-password, --ask-pass, --password-stdin. */
bool redact_word_is_switch(struct str name);

/* A word without a dash after which the next one is a secret: `git config user.password X`. */
bool redact_word_is_field(struct str word);

/* As options are written: -x, --word-word, -Word=…, /word. Digits and signs are rather of a secret.
 */
bool redact_word_is_option(struct str word);

#endif
