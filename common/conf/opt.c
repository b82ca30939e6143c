#include "common/conf/opt.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"

struct given {
    const struct opt *opt; /* NULL for --help */
    const char *value;
};

struct opt_args {
    const struct opt_command *cmd;
    bool help;
    size_t n_given;
    struct given *given;
    size_t n_operands;
    char **operands;
};

/* Edit distance, given up above `limit`. Words longer than 31 bytes are never close. */
static unsigned edit_distance(const char *a, const char *b, unsigned limit)
{
    unsigned row[33];
    size_t n = strlen(b);

    if (strlen(a) > 31 || n > 31) {
        return limit + 1;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; a[i]; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < n; j++) {
            unsigned change = diagonal + (a[i] != b[j]);
            unsigned least = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;

            diagonal = row[j + 1];
            row[j + 1] = change < least ? change : least;
        }
    }
    return row[n];
}

const char *opt_closest(const char *word, const char *const *names, size_t n)
{
    /* Half the word may be wrong, at most three letters: "tpo" means "top", "foo" means nothing. */
    unsigned limit = (unsigned)(strlen(word) + 1) / 2;
    unsigned best_distance = (limit < 3 ? limit : 3) + 1;
    const char *best = NULL;

    for (size_t i = 0; i < n; i++) {
        unsigned d = edit_distance(word, names[i], 3);

        if (strncmp(word, names[i], strlen(word)) == 0 && strlen(word) >= 3) {
            d = 1;
        }
        if (d < best_distance) {
            best_distance = d;
            best = names[i];
        }
    }
    return best;
}

static const struct opt *by_name(const struct opt_command *cmd, const char *name, size_t n)
{
    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (strlen(cmd->opts[i].name) == n && memcmp(cmd->opts[i].name, name, n) == 0) {
            return &cmd->opts[i];
        }
    }
    return NULL;
}

static const struct opt *by_letter(const struct opt_command *cmd, char letter)
{
    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].letter == letter) {
            return &cmd->opts[i];
        }
    }
    return NULL;
}

const char *opt_call(char *text, size_t size, const struct opt_command *cmd)
{
    snprintf(text, size, "%s%s%s", cmd->program, cmd->name ? " " : "", cmd->name ? cmd->name : "");
    return text;
}

static enum err unknown_option(const struct opt_command *cmd, const char *word, size_t n,
                               struct errmsg *why)
{
    const char *names[OPT_MANY_MAX];
    const char *closest;
    char plain[64], text[OPT_CALL_TEXT];
    size_t count = 0;

    for (size_t i = 0; i < cmd->n_opts && count < OPT_MANY_MAX; i++) {
        if (cmd->opts[i].help) {
            names[count++] = cmd->opts[i].name;
        }
    }
    snprintf(plain, sizeof plain, "%.*s", (int)n, word);
    closest = opt_closest(plain, names, count);
    if (closest) {
        return errmsg_set(why, ERR_USAGE, "unknown option --%s; did you mean --%s?", plain,
                          closest);
    }
    return errmsg_set(why, ERR_USAGE, "unknown option --%s; '%s --help' lists the options", plain,
                      opt_call(text, sizeof text, cmd));
}

static enum err given_add(struct opt_args *a, const struct opt_command *cmd, const struct opt *o,
                          const char *value, struct errmsg *why)
{
    struct opt_takes takes;
    char name[64];

    for (size_t i = 0; i < a->n_given && !o->many; i++) {
        if (a->given[i].opt == o && o->value) {
            return errmsg_set(why, ERR_USAGE, "--%s is given twice; it takes one value", o->name);
        }
    }
    a->given[a->n_given].opt = o;
    a->given[a->n_given].value = value;
    a->n_given++;
    if (!o->value || a->help) {
        return ERR_OK;
    }
    snprintf(name, sizeof name, "--%s", o->name);
    opt_takes(&takes, cmd, o->value);
    return opt_takes_check(&takes, name, value, why);
}

static enum err no_value(const struct opt *o, struct errmsg *why)
{
    return errmsg_set(why, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->value);
}

/* One word that begins with "--"; *i moves when the value is the next word. */
static enum err parse_long(struct opt_args *a, const struct opt_command *cmd, int argc, char **argv,
                           int *i, struct errmsg *why)
{
    const char *word = argv[*i] + 2;
    size_t n = strcspn(word, "=");
    const struct opt *o = by_name(cmd, word, n);
    const char *value = word[n] == '=' ? word + n + 1 : NULL;

    if (n == 4 && memcmp(word, "help", 4) == 0) {
        a->help = true;
        return ERR_OK;
    }
    if (!o) {
        return unknown_option(cmd, word, n, why);
    }
    if (!o->value && value) {
        return errmsg_set(why, ERR_USAGE, "--%s takes no value", o->name);
    }
    if (o->value && !value) {
        if (*i + 1 >= argc) {
            return no_value(o, why);
        }
        value = argv[++*i];
    }
    return given_add(a, cmd, o, value, why);
}

/* One word that begins with a single dash: one letter, its value behind it or in the next word. */
static enum err parse_short(struct opt_args *a, const struct opt_command *cmd, int argc,
                            char **argv, int *i, struct errmsg *why)
{
    const char *word = argv[*i];
    const struct opt *o = by_letter(cmd, word[1]);

    if (word[1] == 'h' && !o) {
        a->help = true;
        return ERR_OK;
    }
    if (!o || (!o->value && word[2])) {
        return errmsg_set(why, ERR_USAGE, "unknown option %s; --help lists the options", word);
    }
    if (!o->value) {
        return given_add(a, cmd, o, NULL, why);
    }
    if (word[2]) {
        return given_add(a, cmd, o, word + 2, why);
    }
    if (*i + 1 >= argc) {
        return no_value(o, why);
    }
    return given_add(a, cmd, o, argv[++*i], why);
}

/* Whether the operands are those that the table asks for; what they name is looked for later. */
static enum err check_operands(const struct opt_args *a, const struct opt_command *cmd,
                               struct errmsg *why)
{
    struct opt_takes takes;
    enum err e = ERR_OK;

    opt_takes(&takes, cmd, cmd->operands);
    if (a->n_operands > (!cmd->operands ? 0u : takes.many ? SIZE_MAX : 1u)) {
        return errmsg_set(why, ERR_USAGE, "unexpected argument '%s'",
                          a->operands[cmd->operands ? 1 : 0]);
    }
    if (cmd->operands && !takes.optional && a->n_operands == 0) {
        return errmsg_set(why, ERR_USAGE, "%s is needed; --help shows an example", cmd->operands);
    }
    for (size_t i = 0; i < a->n_operands && !e; i++) {
        e = opt_takes_check(&takes, "argument", a->operands[i], why);
    }
    return e;
}

static enum err parse_words(struct opt_args *a, const struct opt_command *cmd, int argc,
                            char **argv, struct errmsg *why)
{
    bool options = true;

    for (int i = 0; i < argc; i++) {
        enum err e = ERR_OK;

        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && strncmp(argv[i], "--", 2) == 0) {
            e = parse_long(a, cmd, argc, argv, &i, why);
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            e = parse_short(a, cmd, argc, argv, &i, why);
        } else {
            a->operands[a->n_operands++] = argv[i];
        }
        if (e) {
            return e;
        }
    }
    return a->help ? ERR_OK : check_operands(a, cmd, why);
}

enum err opt_parse(struct opt_args **out, const struct opt_command *cmd, int argc, char **argv,
                   struct errmsg *why)
{
    struct opt_args *a = mem_zalloc(sizeof *a);
    enum err e = ERR_NOMEM;

    if (!a) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    a->cmd = cmd;
    a->given = mem_array((size_t)argc + 1, sizeof *a->given);
    a->operands = mem_array((size_t)argc + 1, sizeof *a->operands);
    if (a->given && a->operands) {
        e = parse_words(a, cmd, argc, argv, why);
    }
    if (e) {
        opt_free(a);
        return e;
    }
    *out = a;
    return ERR_OK;
}

void opt_free(struct opt_args *a)
{
    if (a) {
        mem_free(a->given);
        mem_free(a->operands);
        mem_free(a);
    }
}

const struct opt_command *opt_command_of(const struct opt_args *a)
{
    return a->cmd;
}

bool opt_flag(const struct opt_args *a, const char *name)
{
    if (strcmp(name, "help") == 0) {
        return a->help;
    }
    for (size_t i = 0; i < a->n_given; i++) {
        if (strcmp(a->given[i].opt->name, name) == 0) {
            return true;
        }
    }
    return false;
}

const char *opt_value(const struct opt_args *a, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < a->n_given; i++) {
        if (strcmp(a->given[i].opt->name, name) == 0) {
            value = a->given[i].value;
        }
    }
    return value;
}

size_t opt_values(const struct opt_args *a, const char *name, const char **values, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n_given && n < max; i++) {
        if (strcmp(a->given[i].opt->name, name) == 0) {
            values[n++] = a->given[i].value;
        }
    }
    return n;
}

size_t opt_word(const struct opt_args *a, const struct opt_command *cmd, const char *name,
                size_t def)
{
    const char *value = opt_value(a, name);
    const struct opt *o = by_name(cmd, name, strlen(name));
    struct opt_takes takes;

    if (!value) {
        return def;
    }
    opt_takes(&takes, cmd, o->value);
    for (size_t i = 0; i < takes.n_words; i++) {
        if (strcmp(takes.words[i], value) == 0) {
            return i;
        }
    }
    return def;
}

static unsigned digit_of(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                  : 16;
}

enum err opt_number(uint64_t *out, const char *text, uint64_t max)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    unsigned base = hex ? 16 : 10;
    uint64_t v = 0;

    text += hex ? 2 : 0;
    do {
        unsigned digit = digit_of(*text);

        if (digit >= base || digit > max || v > (max - digit) / base) {
            return ERR_INVALID;
        }
        v = v * base + digit;
    } while (*++text);
    *out = v;
    return ERR_OK;
}

size_t opt_operands(const struct opt_args *a, char ***operands)
{
    *operands = a->operands;
    return a->n_operands;
}

/* -- commands of commands -- */

static int no_such(const struct opt_command *cmd, const char *word)
{
    const char *names[OPT_MANY_MAX], *meant;
    char call[OPT_CALL_TEXT];
    struct errmsg why;

    for (size_t i = 0; i < cmd->n_subs && i < OPT_MANY_MAX; i++) {
        names[i] = cmd->subs[i]->name;
    }
    opt_call(call, sizeof call, cmd);
    meant = opt_closest(word, names, cmd->n_subs < OPT_MANY_MAX ? cmd->n_subs : OPT_MANY_MAX);
    if (meant) {
        errmsg_set(&why, ERR_USAGE, "there is no command '%s'; did you mean '%s'?", word, meant);
    } else {
        errmsg_set(&why, ERR_USAGE, "there is no command '%s'; '%s --help' lists them", word, call);
    }
    fprintf(stderr, "%s: %s\n", call, why.text); /* the word cannot steer a terminal there */
    return 2;
}

static int show_help(const struct opt_command *cmd, FILE *to)
{
    struct buf out;

    buf_init(&out, 1u << 17);
    opt_print_help(&out, cmd);
    fputs(buf_cstr(&out), to);
    buf_fini(&out);
    return to == stdout ? 0 : 2;
}

const struct opt_command *opt_choose(const struct opt_command *cmd, int argc, char **argv,
                                     int *code)
{
    const char *word = argc > 0 ? argv[0] : NULL;

    if (cmd->alone &&
        (!word || (word[0] == '-' && strcmp(word, "-h") != 0 && strcmp(word, "--help") != 0))) {
        return cmd;
    }
    if (!word) {
        *code = show_help(cmd, stderr);
        return NULL;
    }
    for (size_t i = 0; i < cmd->n_subs; i++) {
        if (strcmp(word, cmd->subs[i]->name) == 0) {
            return cmd->subs[i];
        }
    }
    *code = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0
                ? show_help(cmd, stdout)
                : no_such(cmd, word);
    return NULL;
}

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
static void value_bare(struct opt_takes *t, const char *value)
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
    value_bare(out, value);
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

static bool kind_fits(enum opt_kind kind, const char *text)
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

static bool value_fits(const struct opt_takes *t, const char *text)
{
    for (size_t i = 0; i < t->n_words; i++) {
        if (strcmp(t->words[i], text) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < t->n_kinds; i++) {
        if (kind_fits(t->kind[i], text)) {
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
static const char *word_meant(const struct opt_takes *t, const char *text)
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

static enum err value_error(const struct opt_takes *t, const char *what, const char *text,
                            struct errmsg *why)
{
    const char *closest = word_meant(t, text);
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
        return value_fits(t, text) ? ERR_OK : value_error(t, what, text, why);
    }
    do {
        size_t n = strcspn(text, ",");

        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), text);
        if (!value_fits(t, one)) {
            return value_error(t, what, one, why);
        }
        text += n + (text[n] == ',');
    } while (*text);
    return ERR_OK;
}

void opt_put_wrapped(struct buf *out, const char *text, size_t column)
{
    size_t at = column;

    while (*text) {
        size_t n = strcspn(text, " ");

        if (at > column && at + 1 + n > 78) {
            buf_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            buf_put_u8(out, ' ');
            at++;
        }
        buf_put(out, text, n);
        at += n;
        text += n + (text[n] == ' ');
    }
    buf_put_u8(out, '\n');
}

static void put_option(struct buf *out, char letter, const char *name, const char *value,
                       const char *help)
{
    size_t from = out->n, width;

    if (letter) {
        buf_printf(out, "  -%c, ", letter);
    } else {
        buf_put_str(out, "      ");
    }
    buf_printf(out, "--%s%s%s", name, value ? " " : "", value ? value : "");
    width = out->n - from;
    if (width > 26) { /* the text begins on the next line */
        buf_printf(out, "\n%28s", "");
    } else {
        buf_printf(out, "%*s", (int)(28 - width), "");
    }
    opt_put_wrapped(out, help, 28);
}

static const struct opt *with_letter(const struct opt_command *cmd, char letter)
{
    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].letter == letter) {
            return &cmd->opts[i];
        }
    }
    return NULL;
}

const char *opt_notes(const struct opt_command *cmd)
{
    const char *text = cmd->examples;

    while (text && *text == ' ') { /* a line of an example, perhaps continued on the next */
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    if (text && *text == '\n') {
        text++;
    }
    return text && *text ? text : NULL;
}

bool opt_set_is_shown(const struct opt_command *cmd, const struct opt_set *set)
{
    for (size_t i = 0; i < cmd->n_opts; i++) {
        const char *value = cmd->opts[i].value;

        if (value && strstr(value, set->name) && !strchr(set->name, '=')) {
            return true;
        }
    }
    return false;
}

static void put_sets(struct buf *out, const struct opt_command *cmd)
{
    for (const struct opt_set *s = cmd->sets; s && s->name; s++) {
        struct buf words;

        if (!opt_set_is_shown(cmd, s)) {
            continue;
        }
        buf_init(&words, 1u << 14);
        for (size_t i = 0; s->word(i); i++) {
            buf_printf(&words, "%s%s", i ? ", " : "", s->word(i));
        }
        buf_printf(out, "\n%s is one of:\n  ", s->name);
        opt_put_wrapped(out, buf_cstr(&words), 2);
        buf_fini(&words);
    }
}

static void put_examples(struct buf *out, const struct opt_command *cmd)
{
    if (cmd->examples && *cmd->examples) {
        buf_printf(out, "\n%s%s", *cmd->examples == ' ' ? "Examples:\n" : "", cmd->examples);
    }
}

static void put_list(struct buf *out, const struct opt_command *cmd)
{
    buf_put_str(out, cmd->n_subs ? "\nCommands:\n" : "");
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(out, "  %-14s ", cmd->subs[i]->name);
        opt_put_wrapped(out, cmd->subs[i]->brief, 17);
    }
}

static void put_commands(struct buf *out, const struct opt_command *cmd)
{
    char call[OPT_CALL_TEXT];

    opt_call(call, sizeof call, cmd);
    buf_printf(out, "%s: %s\n\nUsage: %s COMMAND [OPTION]...\n", call, cmd->brief, call);
    put_list(out, cmd);
    buf_printf(out, "\n'%s COMMAND --help' shows a command's options and examples.\n", call);
}

void opt_print_help(struct buf *out, const struct opt_command *cmd)
{
    char call[OPT_CALL_TEXT];

    if (!opt_is_leaf(cmd)) {
        put_commands(out, cmd);
        put_examples(out, cmd);
        return;
    }
    opt_call(call, sizeof call, cmd);
    buf_printf(out, "%s: %s\n\nUsage: %s [OPTION]...%s%s\n", call, cmd->brief, call,
               cmd->operands ? " " : "", cmd->operands ? cmd->operands : "");
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(out, "       %s %s [OPTION]... %s\n", call, cmd->subs[i]->name,
                   cmd->subs[i]->operands ? cmd->subs[i]->operands : "");
    }
    put_list(out, cmd);
    buf_put_str(out, "\nOptions:\n");
    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].help) {
            put_option(out, cmd->opts[i].letter, cmd->opts[i].name, cmd->opts[i].value,
                       cmd->opts[i].help);
        }
    }
    put_option(out, with_letter(cmd, 'h') ? 0 : 'h', "help", NULL, "show this page");
    put_sets(out, cmd);
    put_examples(out, cmd);
}
