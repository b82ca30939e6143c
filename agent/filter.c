/* Quotes cannot be trusted (Linux drops them, an apostrophe is a letter), so words are split at
 * blanks only, and quotes merely lengthen what is hidden: a value that begins with a quote, or
 * inside one, is hidden to the closing quote if there is one. Every doubt hides more, not less. */
#include "agent/filter.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"

static const char mask[] = "***";

struct filter {
    enum filter_policy policy;
    size_t n_words;
    char *words[FILTER_WORDS_MAX];
    struct filter_stats stats;
    size_t n; /* used of line */
    bool cut;
    char line[MODEL_COMMAND_LINE_MAX];
};

enum err filter_create(struct filter **out, const struct filter_conf *conf)
{
    struct filter *f;

    if (conf->n_words > FILTER_WORDS_MAX) {
        return ERR_FULL;
    }
    f = mem_zalloc(sizeof *f);
    if (!f) {
        return ERR_NOMEM;
    }
    f->policy = conf->command_line;
    for (size_t i = 0; i < conf->n_words; i++) {
        if (conf->words[i][0] == '\0') {
            filter_destroy(f);
            return ERR_INVALID;
        }
        f->words[i] = mem_strdup(conf->words[i]);
        if (!f->words[i]) {
            filter_destroy(f);
            return ERR_NOMEM;
        }
        f->n_words = i + 1;
    }
    *out = f;
    return ERR_OK;
}

void filter_destroy(struct filter *f)
{
    if (!f) {
        return;
    }
    for (size_t i = 0; i < f->n_words; i++) {
        mem_free(f->words[i]);
    }
    mem_free(f);
}

const struct filter_stats *filter_stats(const struct filter *f)
{
    return &f->stats;
}

enum err filter_policy_parse(enum filter_policy *out, const char *text)
{
    static const char *const names[] = {"none", "exe", "redact", "full"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum filter_policy)i;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static bool same_letters(const char *text, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tolower((unsigned char)text[i]) != tolower((unsigned char)word[i])) {
            return false;
        }
    }
    return true;
}

/* Whether one of the words stands somewhere in `name`. */
static bool is_secret(const struct filter *f, struct str name)
{
    for (size_t w = 0; w < f->n_words; w++) {
        size_t len = strlen(f->words[w]);

        for (size_t i = 0; i + len <= name.n; i++) {
            if (same_letters(name.p + i, f->words[w], len)) {
                return true;
            }
        }
    }
    return false;
}

/* -- output: what does not fit is cut, never inside a character -- */

static void put(struct filter *f, const char *p, size_t n)
{
    size_t room = sizeof f->line - f->n;

    if (f->cut) {
        return;
    }
    if (n > room) {
        f->cut = true;
        n = room;
        while (n > 0 && ((unsigned char)p[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    memcpy(f->line + f->n, p, n);
    f->n += n;
}

static void put_mask(struct filter *f)
{
    f->stats.redacted++;
    put(f, mask, sizeof mask - 1);
}

/* -- reading -- */

struct scan {
    const char *p;
    size_t n, at;
    char quote; /* the one that `at` stands inside of, or 0 */
};

static void copy_to(struct filter *f, struct scan *s, size_t end)
{
    size_t from = s->at;

    for (; s->at < end; s->at++) {
        char c = s->p[s->at];

        if (s->quote == c) {
            s->quote = 0;
        } else if (!s->quote && is_quote(c)) {
            s->quote = c;
        }
    }
    put(f, s->p + from, end - from);
}

static size_t word_end(const struct scan *s)
{
    size_t i = s->at;

    while (i < s->n && !is_blank(s->p[i])) {
        i++;
    }
    return i;
}

/* Where the value that begins at s->at ends. */
static size_t value_end(const struct scan *s)
{
    char quote = s->quote;
    size_t from = s->at;

    if (!quote && from < s->n && is_quote(s->p[from])) {
        quote = s->p[from++];
    }
    if (quote) {
        const char *close = memchr(s->p + from, quote, s->n - from);

        if (close) {
            return (size_t)(close - s->p) + (s->quote ? 0 : 1);
        }
    }
    return word_end(s);
}

static void hide_value(struct filter *f, struct scan *s)
{
    size_t end = value_end(s);

    put_mask(f);
    s->at = end;
}

/* The ':' of "//user:password@" within the word, and its '@'. */
static bool find_password(const struct scan *s, size_t end, size_t *colon, size_t *at)
{
    size_t i = s->at;

    while (i + 2 < end && memcmp(s->p + i, "://", 3) != 0) {
        i++;
    }
    if (i + 2 >= end) {
        return false;
    }
    *colon = *at = 0;
    for (i += 3; i < end && s->p[i] != '/' && !is_quote(s->p[i]); i++) {
        if (s->p[i] == ':' && !*colon) {
            *colon = i;
        }
        if (s->p[i] == '@') {
            *at = i;
        }
    }
    return *colon && *at > *colon;
}

static bool ends_name(char c)
{
    return c == ';' || c == '&' || c == '?' || c == ',' || is_quote(c);
}

/* The '=' or ':' behind a name that calls for hiding, within the word; `end` when there is none. */
static size_t find_named(const struct filter *f, const struct scan *s, size_t end)
{
    size_t from = s->at;

    for (size_t i = s->at; i < end; i++) {
        char c = s->p[i];

        if (ends_name(c)) {
            from = i + 1;
        } else if ((c == '=' || c == ':') && is_secret(f, (struct str){s->p + from, i - from})) {
            return i;
        }
    }
    return end;
}

/* Whether the word is an option whose value is the next word. */
static bool announces(const struct filter *f, const struct scan *s, size_t end)
{
    struct str word = {s->p + s->at, end - s->at};

    while (word.n > 0 && is_quote(word.p[0])) {
        word.p++;
        word.n--;
    }
    if (word.n < 2 || (word.p[0] != '-' && word.p[0] != '/')) {
        return false;
    }
    if (word.p[0] == '/' && memchr(word.p + 1, '/', word.n - 1)) {
        return false; /* a path */
    }
    return find_named(f, s, end) == end && is_secret(f, word); /* else it has its value already */
}

static void redact_word(struct filter *f, struct scan *s, size_t end)
{
    size_t colon, at, named;

    if (find_password(s, end, &colon, &at)) {
        copy_to(f, s, colon + 1);
        put_mask(f);
        s->at = at;
    }
    named = find_named(f, s, end);
    if (named < end) {
        copy_to(f, s, named + 1);
        hide_value(f, s);
    } else {
        copy_to(f, s, end);
    }
}

static void redact(struct filter *f, struct str line)
{
    struct scan s = {.p = line.p, .n = line.n};
    bool first = true, hide = false;

    while (s.at < s.n) {
        size_t end = s.at;

        while (end < s.n && is_blank(s.p[end])) {
            end++;
        }
        copy_to(f, &s, end);
        end = word_end(&s);
        if (s.at == end) {
            break;
        }
        if (hide && s.p[s.at] != '-') {
            hide_value(f, &s);
            hide = false;
            continue;
        }
        hide = !first && announces(f, &s, end);
        redact_word(f, &s, end);
        first = false;
    }
}

static size_t first_argument(struct str line)
{
    struct scan s = {.p = line.p, .n = line.n};

    return value_end(&s);
}

void filter_info(struct filter *f, const struct proc_info *in, struct proc_info *out)
{
    static const uint32_t about_line = INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT;

    *out = *in;
    if (f->policy == FILTER_FULL || in->command_line.n == 0) {
        return;
    }
    f->n = 0;
    f->cut = false;
    switch (f->policy) {
    case FILTER_NONE:
        out->have &= ~about_line;
        f->stats.withheld++;
        break;
    case FILTER_EXE:
        put(f, in->command_line.p, first_argument(in->command_line));
        f->stats.withheld++;
        break;
    default:
        redact(f, in->command_line);
        break;
    }
    if (f->cut) {
        out->have |= INFO_COMMAND_LINE_CUT;
    }
    out->command_line = (struct str){f->line, f->n};
}
