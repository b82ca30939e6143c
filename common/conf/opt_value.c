#include "common/conf/opt_value.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"

static const struct {
    const char *name;
    enum opt_kind kind;
    const char *is; /* what was expected, in an error */
} kinds[] = {
    {"FILE", OPT_FILE, NULL},
    {"DIR", OPT_DIR, NULL},
    {"COMMAND", OPT_COMMAND, NULL},
    {"HOST", OPT_HOST, NULL},
    {"HOST[:PORT]", OPT_HOST, NULL},
    {"HOST:PORT", OPT_HOST, NULL},
    {"KEY=VALUE", OPT_SETTING, NULL},
    {"N", OPT_NUMBER, "a number"},
    {"PID", OPT_NUMBER, NULL},
    {"TID", OPT_NUMBER, NULL},
    {"MS", OPT_DECIMAL, "a number such as 0.5"},
    {"FACTOR", OPT_DECIMAL, NULL},
    {"SPAN", OPT_SPAN, "a time such as 10s or 5min"},
    {"TIME", OPT_TIME, "a span such as 5m or a time such as 2026-11-21T09:00:00Z"},
};

#define KINDS (sizeof kinds / sizeof *kinds)

/* -- reading the table -- */

static bool is_word(const char *part)
{
    return part[strcspn(part, "abcdefghijklmnopqrstuvwxyz0123456789")] != '\0';
}

static void add_kind(struct opt_takes *t, enum opt_kind kind)
{
    assert(t->n_kinds < sizeof t->kind / sizeof *t->kind);
    t->kind[t->n_kinds++] = kind;
}

static void add_word(struct opt_takes *t, const char *word)
{
    assert(t->n_words < OPT_WORDS_MAX);
    t->words[t->n_words++] = word;
}

static void add_name(struct opt_takes *t, const struct opt_command *cmd, const char *name)
{
    enum opt_kind kind = OPT_TEXT;
    bool found = false;

    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            kind = kinds[i].kind;
        }
    }
    for (const struct opt_set *s = cmd->sets; s && s->name; s++) {
        if (strcmp(s->name, name) == 0) {
            found = true;
            for (size_t i = 0; s->word(i); i++) {
                add_word(t, s->word(i));
            }
        }
    }
    if (!found || kind == OPT_SETTING) {
        add_kind(t, kind);
    }
}

/* What is left of brackets around it all, of "..." and ",..." are parts between bars. */
static void bare(struct opt_takes *t, const char *value)
{
    size_t n = strlen(value);
    char *end;

    t->optional = n > 1 && value[0] == '[' && value[n - 1] == ']';
    assert(n < sizeof t->text);
    snprintf(t->text, sizeof t->text, "%.*s", (int)(t->optional ? n - 2 : n),
             value + (t->optional ? 1 : 0));
    end = strstr(t->text, "...");
    if (end && end[3] == '\0') {
        t->list = end > t->text && end[-1] == ',';
        t->many = !t->list;
        end[t->list ? -1 : 0] = '\0';
    }
}

void opt_takes(struct opt_takes *out, const struct opt_command *cmd, const char *value)
{
    memset(out, 0, sizeof *out);
    if (!value) {
        return;
    }
    bare(out, value);
    for (char *part = out->text, *next; part; part = next) {
        next = strchr(part, '|');
        if (next) {
            *next++ = '\0';
        }
        if (is_word(part)) {
            add_word(out, part);
        } else {
            add_name(out, cmd, part);
        }
    }
}

bool opt_takes_kind(const struct opt_takes *t, enum opt_kind kind)
{
    for (size_t i = 0; i < t->n_kinds; i++) {
        if (t->kind[i] == kind) {
            return true;
        }
    }
    return false;
}

/* -- checking -- */

static bool is_decimal(const char *text)
{
    size_t n = strspn(text, "0123456789");

    return n && (text[n] == '\0' ||
                 (text[n] == '.' && text[n + 1 + strspn(text + n + 1, "0123456789")] == '\0'));
}

static bool fits(enum opt_kind kind, const char *text)
{
    uint64_t n;
    int64_t ns;

    switch (kind) {
    case OPT_NOTHING:
        return false;
    case OPT_NUMBER:
        return opt_number(&n, text, UINT64_MAX) == ERR_OK;
    case OPT_DECIMAL:
        return is_decimal(text);
    case OPT_SPAN:
        return clk_parse_span(&ns, text) == ERR_OK;
    case OPT_TIME:
        return clk_parse_when(&ns, text, 0) == ERR_OK;
    default:
        return true; /* what it names is looked for later */
    }
}

static bool fits_one(const struct opt_takes *t, const char *text)
{
    for (size_t i = 0; i < t->n_words; i++) {
        if (strcmp(t->words[i], text) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < t->n_kinds; i++) {
        if (fits(t->kind[i], text)) {
            return true;
        }
    }
    return false;
}

/* "table, json or csv"; a long list is left to --help. */
static void put_expected(struct buf *out, const struct opt_takes *t)
{
    const char *parts[OPT_WORDS_MAX + 4];
    size_t n = 0;

    for (size_t i = 0; i < t->n_kinds; i++) {
        for (size_t k = 0; k < KINDS; k++) {
            if (kinds[k].kind == t->kind[i] && kinds[k].is) {
                parts[n++] = kinds[k].is;
            }
        }
    }
    for (size_t i = 0; i < t->n_words && t->n_words <= 16; i++) {
        parts[n++] = t->words[i];
    }
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", parts[i]);
    }
    if (n == 0) {
        buf_put_str(out, "one of the words that --help lists");
    }
}

/* What people call it, where another program calls it so: the word that it may be here. */
static const char *meant(const struct opt_takes *t, const char *text)
{
    static const struct {
        const char *said, *word;
    } table[] = {
        {"cpu", "cpu_percent"},       {"cpu%", "cpu_percent"},
        {"mem", "working_set_size"},  {"memory", "working_set_size"},
        {"rss", "working_set_size"},  {"ram", "working_set_size"},
        {"io", "read_bytes"},         {"read", "read_bytes"},
        {"write", "write_bytes"},     {"disk", "disk_read_bytes"},
        {"vsz", "virtual_bytes"},     {"virt", "virtual_bytes"},
        {"private", "private_bytes"}, {"threads", "thread_count"},
        {"handles", "handle_count"},  {"fds", "handle_count"},
        {"faults", "page_faults"},    {"switches", "context_switches"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (size_t k = 0; k < t->n_words && strcmp(table[i].said, text) == 0; k++) {
            if (strcmp(t->words[k], table[i].word) == 0) {
                return t->words[k];
            }
        }
    }
    return opt_closest(text, t->words, t->n_words);
}

static enum err wrong(const struct opt_takes *t, const char *what, const char *text,
                      struct errmsg *why)
{
    const char *closest = meant(t, text);
    struct buf expected;
    enum err e;

    buf_init(&expected, 4096);
    put_expected(&expected, t);
    e = errmsg_set(why, ERR_USAGE, "%s: '%s' is not %s%s%s%s", what, text, buf_cstr(&expected),
                   closest ? "; did you mean '" : "", closest ? closest : "", closest ? "'?" : "");
    buf_fini(&expected);
    return e;
}

enum err opt_takes_check(const struct opt_takes *t, const char *what, const char *text,
                         struct errmsg *why)
{
    char one[128];

    if (!t->list) {
        return fits_one(t, text) ? ERR_OK : wrong(t, what, text, why);
    }
    do {
        size_t n = strcspn(text, ",");

        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), text);
        if (!fits_one(t, one)) {
            return wrong(t, what, one, why);
        }
        text += n + (text[n] == ',');
    } while (*text);
    return ERR_OK;
}
