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

/* Whether the text begins with the word, of either case. */
static inline bool redact_word_begins(const char *text, size_t n, const char *word)
{
    size_t i = 0;

    while (i < n && word[i] && redact_word_lower(text[i]) == redact_word_lower(word[i])) {
        i++;
    }
    return !word[i];
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
    for (size_t i = 0; i < text.n; i++) {
        if (redact_word_begins(text.p + i, text.n - i, word)) {
            return true;
        }
    }
    return false;
}

/* ---- sets ---- */

/* Of numbers below 128. */
struct redact_word_set {
    uint64_t bits[2];
};
#define REDACT_WORD_SET_END 128

static inline void redact_word_set_add(struct redact_word_set *set, size_t i)
{
    set->bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* Takes the first number out of the set; REDACT_WORD_SET_END when it is empty. */
static inline size_t redact_word_set_take(struct redact_word_set *set)
{
    for (size_t k = 0; k < 2; k++) {
        if (set->bits[k]) {
            size_t i = (size_t)__builtin_ctzll(set->bits[k]);

            set->bits[k] &= set->bits[k] - 1;
            return 64 * k + i;
        }
    }
    return REDACT_WORD_SET_END;
}

/* The set for words that begin with this letter, of either case. */
static inline size_t redact_word_first(char c)
{
    return redact_word_lower(c) & 0x7F;
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

/* The operator's own words, lower or upper case alike, 64 at most, and ours, by their first letter:
 * most letters of a name begin none. */
struct redact_word_list {
    const char *const *own; /* borrowed */
    size_t n_own;
    struct redact_word_set by_first[128];
};
void redact_word_sort(struct redact_word_list *out, const char *const *own, size_t n_own);

/* Whether a value under this name is one to hide. */
bool redact_word_is_secret(struct str name, const struct redact_word_list *list);

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
