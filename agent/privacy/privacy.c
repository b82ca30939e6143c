#include "agent/privacy/privacy.h"

#include <string.h>

#include "agent/privacy/redact.h"
#include "agent/privacy/redact_word.h"
#include "common/base/mem.h"

#define PRIVACY_BYTES 4096 /* looked at, of binary values */
#define NAME_MOST     64   /* bytes of a word that may be a secret's name */

struct privacy {
    enum privacy_policy policy;
    bool hide_user;
    size_t n_words;
    char *words[PRIVACY_WORDS_MAX];
    struct privacy_stats stats;
    struct redact redact;
    char line[MODEL_COMMAND_LINE_MAX];
};

enum err privacy_check_word(const char *word)
{
    size_t n = 0;

    while (word[n] && redact_word_in_name(word[n])) {
        n++;
    }
    return n > 0 && !word[n] && !strchr("-/$", word[0]) ? ERR_OK : ERR_INVALID;
}

enum err privacy_create(struct privacy **out, const struct privacy_conf *conf)
{
    struct privacy *f;

    if (conf->n_words > PRIVACY_WORDS_MAX) {
        return ERR_FULL;
    }
    f = mem_zalloc(sizeof *f);
    if (!f) {
        return ERR_NOMEM;
    }
    f->policy = conf->command_line;
    f->hide_user = conf->hide_user;
    for (size_t i = 0; i < conf->n_words; i++) {
        if (privacy_check_word(conf->words[i])) {
            privacy_destroy(f);
            return ERR_INVALID;
        }
        f->words[i] = mem_strdup(conf->words[i]);
        if (!f->words[i]) {
            privacy_destroy(f);
            return ERR_NOMEM;
        }
        f->n_words = i + 1;
    }
    f->redact = (struct redact){.words = (const char *const *)f->words,
                                .n_words = f->n_words,
                                .out = f->line,
                                .room = sizeof f->line};
    *out = f;
    return ERR_OK;
}

void privacy_destroy(struct privacy *f)
{
    if (!f) {
        return;
    }
    for (size_t i = 0; i < f->n_words; i++) {
        mem_free(f->words[i]);
    }
    mem_free(f);
}

const struct privacy_stats *privacy_stats(const struct privacy *f)
{
    return &f->stats;
}

enum err privacy_policy_parse(enum privacy_policy *out, const char *text)
{
    static const char *const names[] = {"none", "exe", "redact", "full"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum privacy_policy)i;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

/* "key" and "token" are also words for what is no secret: of numbers they hide none. */
bool privacy_hides(struct privacy *f, struct str name, unsigned kind)
{
    bool bytes = kind == VALUE_TEXT || kind == VALUE_BYTES || kind == VALUE_GUID;

    return f && redact_is_secret(&f->redact, name) &&
           (bytes || redact_word_is_strong(name) ||
            !(redact_word_contains(name, "key") || redact_word_contains(name, "token")));
}

bool privacy_is_name(struct privacy *f, struct str text)
{
    size_t n = 0;

    while (n < text.n && n < NAME_MOST && redact_word_in_name(text.p[n])) {
        n++;
    }
    return n == text.n && n > 0 && privacy_hides(f, text, VALUE_TEXT);
}

bool privacy_field_names(struct str field)
{
    return redact_word_ends_in(field, "name") || redact_word_ends_in(field, "key");
}

bool privacy_field_is_value(struct str field)
{
    return redact_word_ends_in(field, "value");
}

static bool privacy_is_command_line(struct str name)
{
    return redact_word_contains(name, "commandline") ||
           redact_word_contains(name, "command_line") || redact_word_contains(name, "cmdline");
}

/* A line without its secrets, in f->line. */
static void privacy_redact(struct privacy *f, struct str line)
{
    f->redact.n = 0;
    f->redact.cut = f->redact.open_end = false;
    redact_line(&f->redact, line);
    f->stats.redacted = f->redact.hidden;
}

/* How long the SID is that begins there, of an account at least: "S-1-5-21-…"; 0: there is none. */
static size_t privacy_sid(const char *p, size_t n)
{
    size_t i = 4, dashes = 0;

    if (n < i || (p[0] | 0x20) != 's' || memcmp(p + 1, "-1-", 3) != 0) {
        return 0;
    }
    while (i < n && ((p[i] >= '0' && p[i] <= '9') || p[i] == '-')) {
        dashes += p[i++] == '-';
    }
    return dashes >= 2 ? i : 0;
}

/* In f->line: what is hidden is shorter than what was there. */
static void privacy_hide_sids(struct privacy *f)
{
    static const char hidden[] = "S-1-***";
    size_t to = 0;

    for (size_t from = 0; from < f->redact.n;) {
        size_t n = privacy_sid(f->line + from, f->redact.n - from);

        if (n < sizeof hidden - 1) {
            f->line[to++] = f->line[from++];
            continue;
        }
        memcpy(f->line + to, hidden, sizeof hidden - 1);
        to += sizeof hidden - 1;
        from += n;
        f->stats.redacted = ++f->redact.hidden;
    }
    f->redact.n = to;
}

/* Whether bytes hold a text, in characters of one byte or two, with a secret in it. */
static bool privacy_bytes_hide(struct privacy *f, struct str bytes)
{
    char text[PRIVACY_BYTES];
    uint64_t before = f->redact.hidden;
    size_t n = 0;

    for (size_t i = 0; i < bytes.n && n < sizeof text; i++) {
        unsigned char c = (unsigned char)bytes.p[i];

        if (c) { /* of two bytes one is none */
            text[n++] = (char)(c >= ' ' && c < 0x7f ? c : ' ');
        }
    }
    privacy_redact(f, (struct str){text, n});
    if (f->hide_user) {
        privacy_hide_sids(f);
    }
    return f->redact.hidden > before;
}

enum privacy_value privacy_value(struct privacy *f, struct str name, unsigned kind,
                                 struct str *text)
{
    struct str line;

    if (!f) {
        return PRIVACY_VALUE_AS_IT_IS;
    }
    if (kind == VALUE_SID && f->hide_user) {
        return PRIVACY_VALUE_LEFT_OUT;
    }
    if (privacy_hides(f, name, kind)) {
        f->stats.redacted = ++f->redact.hidden;
        return PRIVACY_VALUE_HIDDEN;
    }
    if (kind == VALUE_BYTES && privacy_bytes_hide(f, *text)) {
        return PRIVACY_VALUE_HIDDEN;
    }
    if (kind != VALUE_TEXT) {
        return PRIVACY_VALUE_AS_IT_IS;
    }
    line = *text;
    if (privacy_is_command_line(name) && f->policy <= PRIVACY_EXE) {
        f->stats.withheld++;
        if (f->policy == PRIVACY_NONE) {
            return PRIVACY_VALUE_LEFT_OUT;
        }
        line.n = redact_first(line);
    }
    privacy_redact(f, line);
    if (f->hide_user) {
        privacy_hide_sids(f);
    }
    if (!f->redact.cut && f->redact.n == text->n &&
        memcmp(f->line, text->n ? text->p : "", text->n) == 0) {
        return PRIVACY_VALUE_AS_IT_IS;
    }
    *text = (struct str){f->line, f->redact.n};
    return PRIVACY_VALUE_CHANGED;
}

void privacy_info(struct privacy *f, const struct proc_info *in, struct proc_info *out)
{
    static const uint32_t about_line = INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT;

    *out = *in;
    if (f->hide_user) {
        out->user = str_make("");
    }
    if (f->policy == PRIVACY_FULL || in->command_line.n == 0) {
        return;
    }
    f->redact.n = 0;
    f->redact.cut = false;
    f->redact.open_end = (in->have & INFO_COMMAND_LINE_CUT) != 0;
    switch (f->policy) {
    case PRIVACY_NONE:
        out->have &= ~about_line;
        f->stats.withheld++;
        break;
    case PRIVACY_EXE:
        redact_put(&f->redact, in->command_line.p, redact_first(in->command_line));
        f->stats.withheld++;
        break;
    default:
        redact_line(&f->redact, in->command_line);
        f->stats.redacted = f->redact.hidden;
        break;
    }
    if (f->redact.cut) {
        out->have |= INFO_COMMAND_LINE_CUT;
    }
    out->command_line = (struct str){f->line, f->redact.n};
}
