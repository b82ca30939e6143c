/* Words are split at blanks only. Quotes cannot be trusted (an apostrophe is a letter too), so they
 * merely lengthen what is hidden: a value that begins with a quote, or stands inside one, is hidden
 * to the closing quote if there is one. Every doubt hides more, not less. */
#include "agent/privacy/redact.h"

#include "agent/privacy/redact_rules.h"
#include "agent/privacy/redact_word.h"

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

/* -- programs and their options -- */

struct scan {
    const char *p;
    size_t n, at;
    char quote;                    /* the one that `at` stands inside of, or 0 */
    bool open_end;                 /* the line goes on behind n, unseen */
    unsigned hide_in;              /* the value so many words ahead is hidden; 0 = none */
    unsigned hide_more;            /* and so many after it */
    bool hide_colon;               /* only behind its ':' */
    bool hide_flags;               /* also when it looks like an option */
    bool named;                    /* the word before was a secret's name alone */
    bool named_ever;               /* some word before was */
    bool net;                      /* `net use` */
    bool piped;                    /* somebody reads a secret from a pipe: echo X | sudo -S */
    bool assigned, slash;          /* see redact_rules.h */
    struct redact_word_set active; /* rules whose program has been seen */
};

static bool is_secret(const struct redact *r, struct str name)
{
    return redact_word_is_secret(name, &r->index.words);
}

static bool is_one_of(struct str name, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, "|");

        if (n == name.n && redact_word_same_letters(name.p, list, n)) {
            return true;
        }
        list += n + (list[n] == '|');
    }
    return false;
}

static struct str base_name(struct str word)
{
    word = redact_word_unquoted(word);
    for (size_t i = word.n; i > 0; i--) {
        if (strchr("/\\(=;|&`", word.p[i - 1])) {
            word.p += i;
            word.n -= i;
            break;
        }
    }
    if (redact_word_ends_in(word, ".exe")) {
        word.n -= 4;
    }
    return word;
}

static void plan(struct scan *s, unsigned ahead, unsigned more)
{
    s->hide_in = ahead;
    s->hide_more = more;
    s->hide_colon = s->hide_flags = false;
}

/* So that a word is compared with few programs, few marks and few names of secrets. */
static void make_index(struct redact *r)
{
    struct redact_index *x = &r->index;

    redact_word_sort(&x->words, r->words, r->n_words);
    for (size_t i = 0; i < redact_n_rules; i++) {
        for (const char *p = redact_rules[i].program; p; p = strchr(p, '|')) {
            p += *p == '|';
            redact_word_set_add(&x->programs[redact_word_first(*p)], i);
        }
    }
    for (size_t i = 0; i < redact_n_marks; i++) {
        const char *mark = redact_marks[i];

        redact_word_set_add(&x->tokens[redact_word_first(mark[mark[0] == '?'])], i);
    }
    x->made = true;
}

static void meet_program(const struct redact *r, struct scan *s, struct str word)
{
    struct str name = base_name(word);
    struct redact_word_set likely;

    if (name.n == 0) {
        return;
    }
    likely = r->index.programs[redact_word_first(name.p[0])];
    for (size_t i; (i = redact_word_set_take(&likely)) < redact_n_rules;) {
        const struct redact_rule *rule = &redact_rules[i];

        if (!is_one_of(name, rule->program)) {
            continue;
        }
        redact_word_set_add(&s->active, i);
        if (!rule->option && rule->ahead) {
            plan(s, rule->ahead, rule->more);
        }
        s->slash = s->slash || (!rule->option && (rule->take & REDACT_SLASH));
    }
    s->net = s->net || is_one_of(name, "net|net1");
    if (s->piped && is_one_of(name, "echo|printf")) {
        plan(s, 1, 0);
    }
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

        if (!redact_word_is_quote(c) || is_escaped(s, s->at)) {
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
    while (i < s->n && redact_word_is_blank(s->p[i])) {
        i++;
    }
    return i;
}

static size_t word_end(const struct scan *s, size_t i)
{
    while (i < s->n && !redact_word_is_blank(s->p[i])) {
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

/* Where a value ends whose closing quote is missing; ' may be a letter. */
static size_t unclosed_end(const struct scan *s, size_t from, char quote)
{
    return s->open_end || quote == '"' ? s->n : word_end(s, from);
}

/* Behind a word of plain and quoted pieces: a"b c"'d e'. */
static size_t pieces_end(const struct scan *s, size_t from)
{
    size_t i = from;

    while (i < s->n && !redact_word_is_blank(s->p[i])) {
        bool plain = is_escaped(s, i) || (i > from && memcmp(s->p + i - 1, "\\'", 2) == 0);

        if (redact_word_is_quote(s->p[i]) && !plain) {
            size_t end = closing(s, i + 1, s->p[i]);

            if (end == s->n) {
                return i == from ? s->n : unclosed_end(s, i, s->p[i]);
            }
            i = end;
        } else if (s->p[i] == '\\' && i + 1 < s->n && redact_word_is_blank(s->p[i + 1])) {
            i++; /* a shell's blank */
        }
        i++;
    }
    return i;
}

/* \"…\" outside of quotes; 0 when it is none. */
static size_t escaped_end(const struct scan *s, size_t from)
{
    if (from + 1 >= s->n || memcmp(s->p + from, "\\\"", 2) != 0) {
        return 0;
    }
    for (size_t i = from + 2; i + 1 < s->n; i++) {
        if (memcmp(s->p + i, "\\\"", 2) == 0) {
            return word_end(s, i);
        }
    }
    return 0;
}

/* Where the value that begins at s->at ends. */
static size_t value_end(const struct scan *s)
{
    size_t from = s->at, end, inner;
    bool opens = from < s->n && redact_word_is_quote(s->p[from]);

    if (s->quote && opens && from + 1 < s->n && s->p[from + 1] == s->quote) {
        for (inner = from + 2; inner + 1 < s->n; inner++) { /* ""…"" within quotes */
            if (s->p[inner] == s->quote && s->p[inner + 1] == s->quote) {
                return inner + 2;
            }
        }
    }
    if (s->quote) {
        end = closing(s, from, s->quote);
        if (opens && s->p[from] != s->quote) {
            inner = closing(s, from + 1, s->p[from]);
            return inner < end ? inner + 1 : end < s->n ? end : unclosed_end(s, from, s->quote);
        }
        return end < s->n ? end : unclosed_end(s, from, s->quote);
    }
    end = escaped_end(s, from);
    return end ? end : pieces_end(s, from);
}

static void hide_value(struct redact *r, struct scan *s)
{
    size_t end = value_end(s);

    put_mask(r);
    s->at = end;
}

/* Where the secret of "//user:secret@" within the word begins, and its '@'. By http a user alone is
 * one too: that is how tokens are given. */
static bool find_password(const struct scan *s, size_t end, size_t *from, size_t *at)
{
    size_t i = s->at, user;
    bool web;

    while (i + 2 < end && memcmp(s->p + i, "://", 3) != 0) {
        i++;
    }
    if (i + 2 >= end) {
        return false;
    }
    web = redact_word_ends_in((struct str){s->p + s->at, i - s->at}, "http") ||
          redact_word_ends_in((struct str){s->p + s->at, i - s->at}, "https");
    user = i + 3;
    *from = *at = 0;
    for (i = user; i < end && s->p[i] != '/' && !redact_word_is_quote(s->p[i]); i++) {
        if (s->p[i] == ':' && !*from) {
            *from = i + 1;
        }
        if (s->p[i] == '@') {
            *at = i;
        }
    }
    if (web && (!*from || *from > *at)) {
        *from = user;
    }
    if (!*at && i == s->n && s->open_end) { /* the '@' was cut off */
        *at = i;
    }
    return *from && *at > *from;
}

/* The name before the '=' or ':' at i, without quotes around it, the bracket of user[name] and what
 * belongs to += and ?=. */
static struct str name_before(const struct scan *s, size_t i)
{
    size_t end = i, from;

    while (end > s->at && strchr("\"'\\]+?", s->p[end - 1])) {
        end--;
    }
    if (end >= s->at + 3 && redact_word_same_letters(s->p + end - 3, "%5D", 3)) { /* ']' in a URL */
        end -= 3;
    }
    for (from = end; from > s->at && redact_word_in_name(s->p[from - 1]); from--) {
    }
    return (struct str){s->p + from, end - from};
}

/* The '=' or ':' behind a name that calls for hiding, or the '>' of <name>, or the '(' of a call,
 * within the word; `end` when there is none. */
static size_t find_named(const struct redact *r, const struct scan *s, size_t end)
{
    for (size_t i = s->at; i < end; i++) {
        char c = s->p[i];
        struct str name;

        if (c != '=' && c != ':' && c != '>' && c != '(') {
            continue;
        }
        name = name_before(s, i);
        if ((c == '>' && (name.p == s->p + s->at || name.p[-1] != '<' || name.p[0] == '/')) ||
            (c == '(' && !redact_word_is_strong(name) &&
             !redact_word_ends_in(name, "FromBase64String"))) {
            continue;
        }
        if (c == '(' || is_secret(r, name)) {
            return i;
        }
    }
    return end;
}

/* Where what began at s->at ends: at its ')' or '<', or where the quote around it does. */
static size_t end_at(const struct scan *s, char last)
{
    size_t i = s->at;

    while (i < s->n && s->p[i] != last && (!s->quote || s->p[i] != s->quote)) {
        i++;
    }
    return i;
}

static bool has_digit(const struct scan *s, size_t from, size_t end)
{
    while (from < end && !isdigit((unsigned char)s->p[from])) {
        from++;
    }
    return from < end;
}

/* Where in the word a token begins that shows by its first letters; `end` when none does. */
static size_t find_token(const struct redact *r, const struct scan *s, size_t end)
{
    bool cut = s->open_end && end == s->n;

    for (size_t i = s->at; i + (cut ? 1 : 16) <= end; i++) {
        struct redact_word_set likely;

        if (i > s->at && (isalnum((unsigned char)s->p[i - 1]) || s->p[i - 1] == '-')) {
            continue;
        }
        likely = r->index.tokens[redact_word_first(s->p[i])];
        for (size_t m; (m = redact_word_set_take(&likely)) < redact_n_marks;) {
            bool wordlike = redact_marks[m][0] == '?';
            const char *mark = redact_marks[m] + wordlike;

            if (end - i >= strlen(mark) && memcmp(s->p + i, mark, strlen(mark)) == 0 &&
                (!wordlike || has_digit(s, i, end))) {
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
    struct str word = redact_word_unquoted((struct str){s->p + s->at, end - s->at});

    if (word.n < 2 || (word.p[0] != '-' && word.p[0] != '/')) {
        return false;
    }
    if (word.p[0] == '/' && memchr(word.p + 1, '/', word.n - 1)) {
        return false; /* a path */
    }
    return find_named(r, s, end) == end && is_secret(r, word); /* else it has its value already */
}

static bool is_prefix(struct str word, const char *option)
{
    return word.n >= 2 && (word.p[0] == '-' || word.p[0] == '/') && word.n <= strlen(option) &&
           redact_word_same_letters(word.p + 1, option + 1, word.n - 1);
}

/* -sSu for -u */
static bool is_cluster(struct str word, char last, bool any_case)
{
    if (word.n < 3 || word.p[0] != '-' || !isalpha((unsigned char)word.p[1]) ||
        (any_case ? tolower((unsigned char)word.p[word.n - 1]) != last
                  : word.p[word.n - 1] != last)) {
        return false;
    }
    for (size_t i = 1; i < word.n; i++) {
        if (!isalpha((unsigned char)word.p[i])) {
            return false;
        }
    }
    return true;
}

/* Length of this option at the beginning of the word, 0 when it is another. */
static size_t option_fits(const struct redact_rule *rule, const char *option, size_t n,
                          struct str word)
{
    bool any_case = (rule->take & REDACT_ANY_CASE) != 0;

    if (((rule->take & REDACT_PREFIX) && is_prefix(word, option)) ||
        ((rule->take & REDACT_CLUSTER) && is_cluster(word, option[n - 1], any_case))) {
        return word.n;
    }
    if (word.n < n ||
        !(any_case ? redact_word_same_letters(word.p, option, n) : !memcmp(word.p, option, n))) {
        return 0;
    }
    return word.n == n || redact_word_is_quote(word.p[n]) || (rule->take & REDACT_REST) ? n : 0;
}

/* Length of the option at the word's beginning, quotes included, when the rule is about it. */
static size_t rule_fits(const struct redact_rule *rule, struct str word)
{
    const char *option = rule->option;
    size_t lead = 0;

    while (lead < word.n && redact_word_is_quote(word.p[lead])) {
        lead++;
    }
    word.p += lead;
    word.n -= lead;
    while (*option) {
        size_t n = strcspn(option, "|"), fits = option_fits(rule, option, n, word);

        if (fits) {
            return lead + fits;
        }
        option += n + (option[n] == '|');
    }
    return 0;
}

/* Hides a secret glued to its option; false: it has none. Otherwise plans for the words ahead. */
static bool hide_rest(struct redact *r, struct scan *s, size_t end, const struct redact_rule *rule,
                      size_t n)
{
    char around = s->quote ? s->quote : redact_word_is_quote(s->p[s->at]) ? s->p[s->at] : '\0';
    const char *colon;

    if (s->at + n >= end || s->p[s->at + n] == around) {
        plan(s, rule->ahead, rule->more);
        s->hide_colon = (rule->take & REDACT_COLON) != 0;
        s->assigned = s->assigned || (rule->take & REDACT_ASSIGNED);
        return false;
    }
    if (rule->take & REDACT_COLON) {
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

/* user/SECRET@where, userid=user/SECRET */
static bool hide_behind_slash(struct redact *r, struct scan *s, size_t end)
{
    size_t i = s->at, at;

    if (end - i > 7 && redact_word_same_letters(s->p + i, "userid=", 7)) {
        i += 7;
    }
    for (at = i; at < end && (isalnum((unsigned char)s->p[at]) || strchr("_$#\"'", s->p[at]));
         at++) {
    }
    if (at == i || at + 1 >= end || s->p[at] != '/') {
        return false;
    }
    copy_to(r, s, at + 1);
    for (at++; at < end && s->p[at] != '@'; at++) {
    }
    put_mask(r);
    s->at = at;
    copy_to(r, s, end);
    return true;
}

/* NAME=SECRET */
static bool hide_assigned(struct redact *r, struct scan *s, size_t end)
{
    const char *is = memchr(s->p + s->at, '=', end - s->at);

    if (!is || s->p[s->at] == '-') {
        return false;
    }
    copy_to(r, s, (size_t)(is - s->p) + 1);
    hide_value(r, s);
    return true;
}

/* The rule about the word; NULL: none. *n is the length of the option it names. */
static const struct redact_rule *rule_of(const struct scan *s, struct str word, size_t *n)
{
    struct redact_word_set active = s->active;

    for (size_t i; (i = redact_word_set_take(&active)) < redact_n_rules;) {
        const struct redact_rule *rule = &redact_rules[i];

        *n = rule->option ? rule_fits(rule, word) : 0;
        if (*n > 0 && (!(rule->take & REDACT_NAMED) || s->named_ever)) {
            return rule;
        }
    }
    return NULL;
}

static bool follow_rules(struct redact *r, struct scan *s, size_t end)
{
    struct str word = {s->p + s->at, end - s->at};
    size_t n;
    const struct redact_rule *rule = rule_of(s, word, &n);

    if (rule) {
        return hide_rest(r, s, end, rule, n);
    }
    if (s->net && word.n > 2 &&
        (memcmp(word.p, "\\\\", 2) == 0 || redact_word_contains(word, "://"))) {
        plan(s, 1, 0); /* net use \\server\share PASSWORD */
    }
    return (s->slash && hide_behind_slash(r, s, end)) || (s->assigned && hide_assigned(r, s, end));
}

/* -- words -- */

static bool is_scheme(struct str word)
{
    return is_one_of(redact_word_unquoted(word), "bearer|basic|token|digest|negotiate");
}

/* A word that stands for itself: passwords in URLs, values behind names, tokens. */
static void redact_word(struct redact *r, struct scan *s, size_t end)
{
    size_t from, at, named, token;

    if (find_password(s, end, &from, &at)) {
        copy_to(r, s, from);
        put_mask(r);
        s->at = at;
    }
    named = find_named(r, s, end);
    if (named < end) {
        bool colon = s->p[named] == ':', bare = named + 1 == end && (colon || s->p[named] == '=');

        bare = bare && !s->quote && skip_blanks(s, end) < s->n;
        copy_to(r, s, named + 1);
        if (bare && !s->quote) {
            plan(s, 1, 0); /* Name: value, or name= value */
            s->hide_flags = colon;
        } else if (s->p[named] == '(' || s->p[named] == '>') {
            put_mask(r);
            s->at = end_at(s, s->p[named] == '(' ? ')' : '<');
        } else {
            hide_value(r, s);
        }
        return;
    }
    token = find_token(r, s, end);
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
    s->hide_in = s->hide_more > 0;
    s->hide_more -= s->hide_more > 0;
    hide_value(r, s);
}

static bool is_separator(struct str word)
{
    return (word.n == 1 && (word.p[0] == ':' || word.p[0] == '=')) ||
           (word.n == 2 && (memcmp(word.p, ":=", 2) == 0 || memcmp(word.p, "=>", 2) == 0));
}

/* What the word says about the next ones. */
static void look_ahead(const struct redact *r, struct scan *s, size_t end, bool first)
{
    struct str word = {s->p + s->at, end - s->at}, bare = redact_word_unquoted(word);
    bool path = bare.n > 1 && bare.p[0] == '/' && bare.p[1] != '/';
    bool alone = bare.n > 0 && bare.p[0] != '-' && !path &&
                 (is_secret(r, bare) || redact_word_is_field(bare));

    bool announced = announces(r, s, end);

    s->named = alone || announced;
    if (!first && s->hide_in == 0 &&
        (announced || (alone && redact_word_is_field(bare) && find_named(r, s, end) == end))) {
        plan(s, 1, 0);
    }
    s->named_ever = s->named_ever || alone;
}

static void take_word(struct redact *r, struct scan *s, size_t end, bool first)
{
    struct str word = {s->p + s->at, end - s->at};

    if (s->named && is_separator(word)) {
        copy_to(r, s, end);
        s->named = false;
        plan(s, 1, 0);
        s->hide_flags = true;
        return;
    }
    meet_program(r, s, word);
    if (follow_rules(r, s, end)) {
        return;
    }
    look_ahead(r, s, end, first);
    redact_word(r, s, end);
}

/* Whether the word at hand, which is the one to hide, is: an option in its place means that the
 * secret was left out. */
static bool is_due(const struct redact *r, const struct scan *s, size_t end, struct str last)
{
    struct str word = {s->p + s->at, end - s->at};
    bool opt = word.p[0] == '-' || (word.p[0] == '/' && !s->hide_colon);
    size_t n;

    if (s->hide_flags || !opt) {
        return !(s->named && is_separator(word));
    }
    if (word.p[0] == '/') {
        return !s->net && !redact_word_is_option(word);
    }
    if (announces(r, s, end) || rule_of(s, word, &n) || find_named(r, s, end) < end) {
        return false;
    }
    return !redact_word_is_option(word) ||
           (redact_word_is_strong(last) && !redact_word_is_switch(last));
}

/* A key in its armour: everything from here on, or to where it ends. */
static bool hide_armour(struct redact *r, struct scan *s)
{
    static const char begin[] = "-----BEGIN ", tail[] = "-----END ";
    struct str rest = {s->p + s->at, s->n - s->at};
    size_t i = 0;

    while (i < rest.n && redact_word_is_quote(rest.p[i])) {
        i++;
    }
    rest.p += i;
    rest.n -= i;
    if (rest.n < sizeof begin + sizeof "PRIVATE" || memcmp(rest.p, begin, sizeof begin - 1) != 0 ||
        !redact_word_contains((struct str){rest.p, rest.n < 40 ? rest.n : 40}, "PRIVATE")) {
        return false;
    }
    copy_to(r, s, s->at + i);
    put_mask(r);
    for (i = s->at;
         i < s->n && !(s->n - i >= sizeof tail - 1 && memcmp(s->p + i, tail, sizeof tail - 1) == 0);
         i++) {
    }
    s->at = i;
    return true;
}

bool redact_is_secret(struct redact *r, struct str name)
{
    if (!r->index.made) {
        make_index(r);
    }
    return is_secret(r, name);
}

void redact_line(struct redact *r, struct str line)
{
    struct scan s = {.p = line.p, .n = line.n, .open_end = r->open_end};
    struct str last = {line.p, 0};
    bool first = true;

    if (!r->index.made) {
        make_index(r);
    }
    s.piped = redact_word_contains(line, "sudo -S") || redact_word_contains(line, "chpasswd") ||
              redact_word_contains(line, "-stdin");
    while (s.at < s.n) {
        struct str word;
        size_t end;
        bool due;

        copy_to(r, &s, skip_blanks(&s, s.at));
        end = word_end(&s, s.at);
        if (s.at == end) {
            break;
        }
        if (hide_armour(r, &s)) {
            continue;
        }
        word = redact_word_unquoted((struct str){s.p + s.at, end - s.at});
        due = s.hide_in == 1 && is_due(r, &s, end, last);
        s.hide_in -= s.hide_in > 0 && !(s.net && s.p[s.at] == '/');
        if (due) {
            hide_word(r, &s, end);
        } else {
            take_word(r, &s, end, first);
        }
        last = word;
        first = false;
    }
}

size_t redact_first(struct str line)
{
    const struct scan s = {.p = line.p, .n = line.n};
    size_t end = line.n;

    if (line.n > 0 && redact_word_is_quote(line.p[0])) {
        end = closing(&s, 1, line.p[0]);
    }
    return word_end(&s, end < line.n ? end + 1 : 0);
}
