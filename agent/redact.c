/* Words are split at blanks only. Quotes cannot be trusted (an apostrophe is a letter too), so they
 * merely lengthen what is hidden: a value that begins with a quote, or stands inside one, is hidden
 * to the closing quote if there is one. Every doubt hides more, not less. */
#include "agent/redact.h"

#include <ctype.h>

static const char mask[] = "***";

/* -- output -- */

void redact_put(struct redact *r, const char *p, size_t n)
{
    size_t room = r->room - r->n;

    if (r->cut) {
        return;
    }
    if (n > room) {
        r->cut = true;
        n = room;
        while (n > 0 && ((unsigned char)p[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    memcpy(r->out + r->n, p, n);
    r->n += n;
}

static void put_mask(struct redact *r)
{
    r->hidden++;
    redact_put(r, mask, sizeof mask - 1);
}

/* -- characters and names -- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '/' || c == '$';
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

static bool is_same(struct str text, const char *word)
{
    return text.n == strlen(word) && same_letters(text.p, word, text.n);
}

static bool ends_in(struct str text, const char *word)
{
    size_t n = strlen(word);

    return text.n >= n && same_letters(text.p + text.n - n, word, n);
}

static bool contains(struct str text, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= text.n; i++) {
        if (same_letters(text.p + i, word, n)) {
            return true;
        }
    }
    return false;
}

static struct str unquoted(struct str s)
{
    while (s.n > 0 && (is_quote(s.p[0]) || s.p[0] == '\\' || s.p[0] == '{' || s.p[0] == ',')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (is_quote(s.p[s.n - 1]) || s.p[s.n - 1] == '\\')) {
        s.n--;
    }
    return s;
}

/* Whether a value under this name is one to hide. */
static bool is_secret(const struct redact *r, struct str name)
{
    static const char *const also[] = {"passphrase", "authorization"};
    static const char *const exact[] = {"pw", "rp", "passin", "passout", "sig", "bearer"};
    struct str bare = name;

    while (bare.n > 0 && (bare.p[0] == '-' || bare.p[0] == '/' || bare.p[0] == '$')) {
        bare.p++;
        bare.n--;
    }
    for (size_t i = 0; i < r->n_words; i++) {
        if (contains(bare, r->words[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        if (contains(bare, also[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        if (is_same(bare, exact[i])) {
            return true;
        }
    }
    return ends_in(bare, "pass") || ends_in(bare, "auth");
}

/* -- programs and their options -- */

enum take {
    TAKE_REST = 1 << 0,   /* the rest of the option's own word is the secret */
    TAKE_NEXT = 1 << 1,   /* or the next word, */
    TAKE_SECOND = 1 << 2, /* or the one after it, */
    TAKE_THIRD = 1 << 3,  /* or the one after that */
    TAKE_COLON = 1 << 4,  /* only what follows a ':' or '%' in the rest or the next word */
    ANY_CASE = 1 << 5,
};

/* `program`: base names, without .exe, that make `option` one with a secret from here on. An option
 * of NULL is the program's own word. */
static const struct rule {
    const char *program, *option;
    unsigned take;
} rules[] = {
    {"mysql|mysqldump|mysqladmin|mysqlimport|mysqlshow|mariadb|mariadb-dump", "-p", TAKE_REST},
    {"sshpass", "-p", TAKE_REST | TAKE_NEXT},
    {"7z|7za|7zz|rar|unrar|winrar", "-p", TAKE_REST},
    {"rar|winrar", "-hp", TAKE_REST},
    {"zip|unzip|sqlcmd|osql|isql|bcp|tsql", "-P", TAKE_REST | TAKE_NEXT},
    {"ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd", "-w", TAKE_REST | TAKE_NEXT},
    {"redis-cli", "-a", TAKE_NEXT},
    {"psexec|psexec64|pskill|pslist|psservice|psshutdown|mongo|mongosh|mongodump|mongorestore|"
     "login|"
     "certutil",
     "-p", TAKE_NEXT},
    {"signtool", "/p", TAKE_NEXT},
    {"openssl", "-k", TAKE_NEXT | ANY_CASE},
    {"smbclient|rpcclient|smbmap", "-U", TAKE_REST | TAKE_NEXT | TAKE_COLON},
    {"curl|wget|http|https", "-u", TAKE_REST | TAKE_NEXT | TAKE_COLON | ANY_CASE},
    {"curl|wget", "--user", TAKE_NEXT | TAKE_REST | TAKE_COLON},
    {"curl|wget", "--proxy-user", TAKE_NEXT | TAKE_REST | TAKE_COLON},
    {"htpasswd", "-b", TAKE_THIRD},
    {"htpasswd", "-bc", TAKE_THIRD},
    {"htpasswd", "-cb", TAKE_THIRD},
    {"net|net1", "user", TAKE_SECOND | ANY_CASE},
    {"powershell|pwsh", "-e", TAKE_NEXT | ANY_CASE},
    {"powershell|pwsh", "-ec", TAKE_NEXT | ANY_CASE},
    {"powershell|pwsh", "-enc", TAKE_NEXT | ANY_CASE},
    {"powershell|pwsh", "-encodedcommand", TAKE_NEXT | ANY_CASE},
    {"convertto-securestring", NULL, TAKE_NEXT | ANY_CASE},
};

#define RULES (sizeof rules / sizeof *rules)

struct scan {
    const char *p;
    size_t n, at;
    char quote;         /* the one that `at` stands inside of, or 0 */
    unsigned hide_in;   /* the value so many words ahead is hidden; 0 = none */
    bool hide_colon;    /* only behind its ':' */
    bool hide_flags;    /* also when it looks like an option */
    bool named;         /* the word before was a secret's name alone */
    bool net;           /* `net use` */
    bool active[RULES]; /* their program has been seen */
};

static bool is_one_of(struct str name, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, "|");

        if (n == name.n && same_letters(name.p, list, n)) {
            return true;
        }
        list += n + (list[n] == '|');
    }
    return false;
}

static struct str base_name(struct str word)
{
    word = unquoted(word);
    for (size_t i = word.n; i > 0; i--) {
        if (word.p[i - 1] == '/' || word.p[i - 1] == '\\' || word.p[i - 1] == '(') {
            word.p += i;
            word.n -= i;
            break;
        }
    }
    if (ends_in(word, ".exe")) {
        word.n -= 4;
    }
    return word;
}

static void meet_program(struct scan *s, struct str word)
{
    struct str name = base_name(word);

    for (size_t i = 0; i < RULES; i++) {
        if (is_one_of(name, rules[i].program)) {
            s->active[i] = true;
            if (!rules[i].option) {
                s->hide_in = 1;
            }
        }
    }
    s->net = s->net || is_one_of(name, "net|net1");
}

/* -- reading -- */

/* Whether the quote at i closes: an odd number of backslashes before it says no. */
static bool is_escaped(const struct scan *s, size_t i)
{
    size_t n = 0;

    while (n < i && s->p[i - 1 - n] == '\\') {
        n++;
    }
    return s->p[i] == '"' && n % 2 == 1;
}

static void copy_to(struct redact *r, struct scan *s, size_t end)
{
    size_t from = s->at;

    for (; s->at < end; s->at++) {
        char c = s->p[s->at];

        if (!is_quote(c) || is_escaped(s, s->at)) {
            continue;
        }
        if (s->quote == c) {
            s->quote = 0;
        } else if (!s->quote) {
            s->quote = c;
        }
    }
    redact_put(r, s->p + from, end - from);
}

static size_t skip_blanks(const struct scan *s, size_t i)
{
    while (i < s->n && is_blank(s->p[i])) {
        i++;
    }
    return i;
}

static size_t word_end(const struct scan *s, size_t i)
{
    while (i < s->n && !is_blank(s->p[i])) {
        i++;
    }
    return i;
}

/* The closing quote at or behind i; s->n when there is none. */
static size_t closing(const struct scan *s, size_t i, char quote)
{
    while (i < s->n && (s->p[i] != quote || is_escaped(s, i))) {
        i++;
    }
    return i;
}

/* Where the value that begins at s->at ends. */
static size_t value_end(const struct scan *s)
{
    size_t from = s->at, end = s->n, inner;
    bool opens = from < s->n && is_quote(s->p[from]);

    if (s->quote) {
        end = closing(s, from, s->quote);
        if (opens && s->p[from] != s->quote) {
            inner = closing(s, from + 1, s->p[from]);
            return inner < end ? inner + 1 : end < s->n ? end : word_end(s, from);
        }
        return end < s->n ? end : word_end(s, from);
    }
    if (opens) {
        end = closing(s, from + 1, s->p[from]);
    }
    return end < s->n ? word_end(s, end + 1) : word_end(s, from);
}

static void hide_value(struct redact *r, struct scan *s)
{
    size_t end = value_end(s);

    put_mask(r);
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

/* The name before the '=' or ':' at i, quotes around it left out. */
static struct str name_before(const struct scan *s, size_t i)
{
    size_t end = i, from;

    while (end > s->at && (is_quote(s->p[end - 1]) || s->p[end - 1] == '\\')) {
        end--;
    }
    for (from = end; from > s->at && in_name(s->p[from - 1]); from--) {
    }
    return (struct str){s->p + from, end - from};
}

/* The '=' or ':' behind a name that calls for hiding, within the word; `end` when there is none. */
static size_t find_named(const struct redact *r, const struct scan *s, size_t end)
{
    for (size_t i = s->at; i < end; i++) {
        if ((s->p[i] == '=' || s->p[i] == ':') && is_secret(r, name_before(s, i))) {
            return i;
        }
    }
    return end;
}

/* Where in the word a token begins that shows by its first letters; `end` when none does. */
static size_t find_token(const struct scan *s, size_t end)
{
    static const char *const marks[] = {"ghp_",  "gho_",  "ghs_", "github_pat_", "glpat-", "xoxb-",
                                        "xoxp-", "xapp-", "AKIA", "ASIA",        "eyJ",    "sk-",
                                        "SG.",   "AIza",  "npm_", "hvs."};

    for (size_t i = s->at; i + 16 <= end; i++) {
        if (i > s->at && (isalnum((unsigned char)s->p[i - 1]) || s->p[i - 1] == '-')) {
            continue;
        }
        for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
            if (memcmp(s->p + i, marks[m], strlen(marks[m])) == 0) {
                return i;
            }
        }
    }
    return end;
}

static size_t token_end(const struct scan *s, size_t i)
{
    while (i < s->n && (isalnum((unsigned char)s->p[i]) || strchr("_-.=+/", s->p[i]))) {
        i++;
    }
    return i;
}

/* -- options -- */

/* Whether the word is an option whose value is the next word. */
static bool announces(const struct redact *r, const struct scan *s, size_t end)
{
    struct str word = unquoted((struct str){s->p + s->at, end - s->at});

    if (word.n < 2 || (word.p[0] != '-' && word.p[0] != '/')) {
        return false;
    }
    if (word.p[0] == '/' && memchr(word.p + 1, '/', word.n - 1)) {
        return false; /* a path */
    }
    return find_named(r, s, end) == end && is_secret(r, word); /* else it has its value already */
}

/* Length of the option at the word's beginning, quotes included, when the rule is about it. */
static size_t rule_fits(const struct rule *rule, struct str word)
{
    size_t n = strlen(rule->option), lead = 0;

    while (lead < word.n && is_quote(word.p[lead])) {
        lead++;
    }
    if (word.n - lead < n ||
        (rule->take & ANY_CASE ? !same_letters(word.p + lead, rule->option, n)
                               : memcmp(word.p + lead, rule->option, n) != 0)) {
        return 0;
    }
    if (word.n - lead - n > 0 && !is_quote(word.p[lead + n]) && !(rule->take & TAKE_REST)) {
        return 0;
    }
    return lead + n;
}

/* Hides a secret glued to its option; false: it has none. Otherwise plans for the words ahead. */
static bool hide_rest(struct redact *r, struct scan *s, size_t end, const struct rule *rule,
                      size_t n)
{
    char around = s->quote ? s->quote : is_quote(s->p[s->at]) ? s->p[s->at] : '\0';
    const char *colon;

    if (s->at + n >= end || s->p[s->at + n] == around) {
        s->hide_in = rule->take & TAKE_NEXT     ? 1
                     : rule->take & TAKE_SECOND ? 2
                     : rule->take & TAKE_THIRD  ? 3
                                                : 0;
        s->hide_colon = (rule->take & TAKE_COLON) != 0;
        s->hide_flags = false;
        return false;
    }
    if (rule->take & TAKE_COLON) {
        colon = memchr(s->p + s->at + n, ':', end - s->at - n);
        n = colon ? (size_t)(colon - s->p) + 1 - s->at : end - s->at;
    }
    if (s->at + n >= end) {
        return false;
    }
    copy_to(r, s, s->at + n);
    hide_value(r, s);
    return true;
}

static bool follow_rules(struct redact *r, struct scan *s, size_t end)
{
    struct str word = {s->p + s->at, end - s->at};

    for (size_t i = 0; i < RULES; i++) {
        size_t n = s->active[i] && rules[i].option ? rule_fits(&rules[i], word) : 0;

        if (n > 0) {
            return hide_rest(r, s, end, &rules[i], n);
        }
    }
    if (s->net && word.n > 2 && memcmp(word.p, "\\\\", 2) == 0) {
        s->hide_in = 1; /* net use \\server\share PASSWORD */
    }
    return false;
}

/* -- words -- */

static bool is_scheme(struct str word)
{
    return is_one_of(unquoted(word), "bearer|basic|token|digest|negotiate");
}

/* A word that stands for itself: passwords in URLs, values behind names, tokens. */
static void redact_word(struct redact *r, struct scan *s, size_t end)
{
    size_t colon, at, named, token;

    if (find_password(s, end, &colon, &at)) {
        copy_to(r, s, colon + 1);
        put_mask(r);
        s->at = at;
    }
    named = find_named(r, s, end);
    if (named < end) {
        bool bare = named + 1 == end && s->p[named] == ':' && !s->quote;

        copy_to(r, s, named + 1);
        if (bare && !s->quote && s->at < s->n) {
            s->hide_in = 1; /* Name: value */
            s->hide_flags = true;
            return;
        }
        hide_value(r, s);
        return;
    }
    token = find_token(s, end);
    if (token < end) {
        copy_to(r, s, token);
        put_mask(r);
        s->at = token_end(s, token);
    }
    copy_to(r, s, end > s->at ? end : s->at);
}

/* The word is one to hide; gives whether the next one is too. */
static void hide_word(struct redact *r, struct scan *s, size_t end)
{
    struct str word = {s->p + s->at, end - s->at};
    size_t i = s->at;

    if (s->hide_colon) {
        while (i < end && s->p[i] != ':' && s->p[i] != '%') {
            i++;
        }
        copy_to(r, s, i < end ? i + 1 : end);
        if (i + 1 < end) {
            hide_value(r, s);
        }
        return;
    }
    if (is_scheme(word)) {
        copy_to(r, s, end);
        s->hide_in = 1;
        return;
    }
    hide_value(r, s);
}

static bool is_separator(struct str word)
{
    return (word.n == 1 && (word.p[0] == ':' || word.p[0] == '=')) ||
           (word.n == 2 && memcmp(word.p, ":=", 2) == 0);
}

static void take_word(struct redact *r, struct scan *s, size_t end, bool first)
{
    struct str word = {s->p + s->at, end - s->at};
    bool announced = !first && announces(r, s, end);
    bool name_alone = word.n > 0 && is_secret(r, unquoted(word)) && !strchr("-/", word.p[0]);

    if (s->named && is_separator(word)) {
        copy_to(r, s, end);
        s->named = false;
        s->hide_in = 1;
        s->hide_flags = true;
        return;
    }
    meet_program(s, word);
    s->named = name_alone;
    if (follow_rules(r, s, end)) {
        return;
    }
    if (announced) {
        s->hide_in = 1;
        s->hide_colon = s->hide_flags = false;
    }
    redact_word(r, s, end);
}

void redact_line(struct redact *r, struct str line)
{
    struct scan s = {.p = line.p, .n = line.n};
    bool first = true;

    while (s.at < s.n) {
        size_t end;
        bool due;

        copy_to(r, &s, skip_blanks(&s, s.at));
        end = word_end(&s, s.at);
        if (s.at == end) {
            break;
        }
        due =
            s.hide_in == 1 && (s.hide_flags || (s.p[s.at] != '-' && !(s.net && s.p[s.at] == '/')));
        s.hide_in -= s.hide_in > 0;
        if (due) {
            hide_word(r, &s, end);
        } else {
            take_word(r, &s, end, first);
        }
        first = false;
    }
}

size_t redact_first(struct str line)
{
    struct scan s = {.p = line.p, .n = line.n};

    return value_end(&s);
}
