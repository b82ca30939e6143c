#include "agent/privacy/redact_word.h"

#include <assert.h>

/* Without the dashes, slashes and dollars in front. */
static struct str bare_name(struct str name)
{
    while (name.n > 0 && (name.p[0] == '-' || name.p[0] == '/' || name.p[0] == '$')) {
        name.p++;
        name.n--;
    }
    return name;
}

static bool contains_one(struct str text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (redact_word_contains(text, list[i])) {
            return true;
        }
    }
    return false;
}

static bool ends_in_one(struct str text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (redact_word_ends_in(text, list[i])) {
            return true;
        }
    }
    return false;
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const also[] = {"passphrase", "pass-phrase", "passcode", "authorization",
                                   "cookie",     "creds",       "bearer",   "sonar.login"};

static const char *list_word(const struct redact_word_list *list, size_t i)
{
    return i < list->n_own ? list->own[i] : also[i - list->n_own];
}

void redact_word_sort(struct redact_word_list *out, const char *const *own, size_t n_own)
{
    assert(n_own + COUNT(also) <= REDACT_WORD_SET_END);
    memset(out, 0, sizeof *out);
    out->own = own;
    out->n_own = n_own;
    for (size_t i = 0; i < n_own + COUNT(also); i++) {
        redact_word_set_add(&out->by_first[redact_word_first(list_word(out, i)[0])], i);
    }
}

static bool contains_listed(struct str text, const struct redact_word_list *list)
{
    for (size_t at = 0; at < text.n; at++) {
        struct redact_word_set likely = list->by_first[redact_word_first(text.p[at])];
        size_t i;

        while ((i = redact_word_set_take(&likely)) < REDACT_WORD_SET_END) {
            if (redact_word_begins(text.p + at, text.n - at, list_word(list, i))) {
                return true;
            }
        }
    }
    return false;
}

bool redact_word_is_secret(struct str name, const struct redact_word_list *list)
{
    static const char *const exact[] = {"pw",  "rp",  "passin", "passout", "sig",
                                        "pin", "otp", "jwt",    "psk"};
    static const char *const ends[] = {"pass", "auth", "psk"};
    struct str bare = bare_name(name);

    for (size_t i = 0; bare.n <= 7 && i < COUNT(exact); i++) {
        if (redact_word_is_same(bare, exact[i])) {
            return true;
        }
    }
    return contains_listed(bare, list) || ends_in_one(bare, ends, COUNT(ends));
}

bool redact_word_is_strong(struct str name)
{
    static const char *const strong[] = {"password", "passwd", "passphrase", "pwd", "credential"};
    static const char *const ends[] = {"pass", "secret"};
    struct str bare = bare_name(name);

    return contains_one(bare, strong, COUNT(strong)) || ends_in_one(bare, ends, COUNT(ends));
}

bool redact_word_is_switch(struct str name)
{
    static const char *const begins[] = {"no-", "no_", "ask-", "prompt", "without-"};
    static const char *const ends[] = {"-stdin", "-prompt"};
    struct str bare = bare_name(name);

    for (size_t i = 0; i < COUNT(begins); i++) {
        size_t n = strlen(begins[i]);

        if (bare.n >= n && redact_word_same_letters(bare.p, begins[i], n)) {
            return true;
        }
    }
    return ends_in_one(bare, ends, COUNT(ends));
}

bool redact_word_is_field(struct str word)
{
    static const char *const ends[] = {"password", "passwd",    "passphrase", "_pwd",
                                       "_token",   "authtoken", "_key",       "apikey",
                                       "_secret",  "_pw",       "_pass"};

    return ends_in_one(word, ends, COUNT(ends));
}

bool redact_word_is_option(struct str word)
{
    size_t i = 0;

    while (i < word.n && (word.p[i] == '-' || word.p[i] == '/')) {
        i++;
    }
    for (size_t from = i; i < word.n; i++) {
        char c = word.p[i];

        if (i > from && (c == '=' || c == ':' || redact_word_is_quote(c))) {
            return true;
        }
        if (!isalpha((unsigned char)c) && c != '-' && c != '_') {
            return false;
        }
    }
    return true;
}
