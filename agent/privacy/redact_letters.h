/* Letters and words of a command line, for redact*.c. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_PRIVACY_REDACT_LETTERS_H
#define PROCFLEET_AGENT_PRIVACY_REDACT_LETTERS_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/model/model.h"

static inline bool redact_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool redact_is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* What is not ASCII may be a letter. */
static inline bool redact_in_name(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80 || c == '_' || c == '-' ||
           c == '.' || c == '/' || c == '$';
}

/* ASCII letters; others stay. */
static inline char redact_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static inline bool redact_same_letters(const char *text, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (redact_lower(text[i]) != redact_lower(word[i])) {
            return false;
        }
    }
    return true;
}

static inline bool redact_is_same(struct str text, const char *word)
{
    return text.n == strlen(word) && redact_same_letters(text.p, word, text.n);
}

static inline bool redact_ends_in(struct str text, const char *word)
{
    size_t n = strlen(word);

    return text.n >= n && redact_same_letters(text.p + text.n - n, word, n);
}

static inline bool redact_contains(struct str text, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= text.n; i++) {
        if (redact_same_letters(text.p + i, word, n)) {
            return true;
        }
    }
    return false;
}

static inline struct str redact_unquoted(struct str s)
{
    while (s.n > 0 &&
           (redact_is_quote(s.p[0]) || s.p[0] == '\\' || s.p[0] == '{' || s.p[0] == ',')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (redact_is_quote(s.p[s.n - 1]) || s.p[s.n - 1] == '\\')) {
        s.n--;
    }
    return s;
}

#endif
