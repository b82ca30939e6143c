#include "common/opt.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"

struct given {
    const struct opt *opt; /* NULL for --help */
    const char *value;
};

struct opt_args {
    bool help;
    size_t n_given;
    struct given *given;
    size_t n_operands;
    char **operands;
};

/* Edit distance, given up above `limit`. Words longer than 31 bytes are never close. */
static unsigned distance(const char *a, const char *b, unsigned limit)
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
        unsigned d = distance(word, names[i], 3);

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

static const char *command_text(char *text, size_t size, const struct opt_command *cmd)
{
    snprintf(text, size, "%s%s%s", cmd->program, cmd->name ? " " : "", cmd->name ? cmd->name : "");
    return text;
}

static enum err unknown(const struct opt_command *cmd, const char *word, size_t n,
                        struct errmsg *why)
{
    const char *names[OPT_MANY_MAX];
    const char *closest;
    char plain[64], text[128];
    size_t count = 0;

    for (; count < cmd->n_opts && count < OPT_MANY_MAX; count++) {
        names[count] = cmd->opts[count].name;
    }
    snprintf(plain, sizeof plain, "%.*s", (int)n, word);
    closest = opt_closest(plain, names, count);
    if (closest) {
        return errmsg_set(why, ERR_USAGE, "unknown option --%s; did you mean --%s?", plain,
                          closest);
    }
    return errmsg_set(why, ERR_USAGE, "unknown option --%s; '%s --help' lists the options", plain,
                      command_text(text, sizeof text, cmd));
}

static enum err give(struct opt_args *a, const struct opt *o, const char *value, struct errmsg *why)
{
    if (!o->many) {
        for (size_t i = 0; i < a->n_given; i++) {
            if (a->given[i].opt == o && o->value) {
                return errmsg_set(why, ERR_USAGE, "--%s is given twice", o->name);
            }
        }
    }
    a->given[a->n_given].opt = o;
    a->given[a->n_given].value = value;
    a->n_given++;
    return ERR_OK;
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
        return unknown(cmd, word, n, why);
    }
    if (!o->value && value) {
        return errmsg_set(why, ERR_USAGE, "--%s takes no value", o->name);
    }
    if (o->value && !value) {
        if (*i + 1 >= argc) {
            return errmsg_set(why, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name,
                              o->value);
        }
        value = argv[++*i];
    }
    return give(a, o, value, why);
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
        return give(a, o, NULL, why);
    }
    if (word[2]) {
        return give(a, o, word + 2, why);
    }
    if (*i + 1 >= argc) {
        return errmsg_set(why, ERR_USAGE, "-%c needs a value: -%c %s", o->letter, o->letter,
                          o->value);
    }
    return give(a, o, argv[++*i], why);
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
    if (a->n_operands && !cmd->operands && !a->help) {
        return errmsg_set(why, ERR_USAGE, "unexpected argument '%s'", a->operands[0]);
    }
    return ERR_OK;
}

enum err opt_parse(struct opt_args **out, const struct opt_command *cmd, int argc, char **argv,
                   struct errmsg *why)
{
    struct opt_args *a = mem_zalloc(sizeof *a);
    enum err e = ERR_NOMEM;

    if (!a) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
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

size_t opt_operands(const struct opt_args *a, char ***operands)
{
    *operands = a->operands;
    return a->n_operands;
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
    char left[64], dash[8] = "    ";

    if (letter) {
        snprintf(dash, sizeof dash, "-%c, ", letter);
    }
    snprintf(left, sizeof left, "  %s--%s%s%s", dash, name, value ? " " : "", value ? value : "");
    if (strlen(left) > 26) {
        buf_printf(out, "%s\n%28s", left, "");
    } else {
        buf_printf(out, "%-28s", left);
    }
    opt_put_wrapped(out, help, 28);
}

void opt_print_help(struct buf *out, const struct opt_command *cmd)
{
    char text[128];

    buf_printf(out, "%s: %s\n\nUsage: %s [OPTION]...%s%s\n\nOptions:\n",
               command_text(text, sizeof text, cmd), cmd->brief, text, cmd->operands ? " " : "",
               cmd->operands ? cmd->operands : "");
    for (size_t i = 0; i < cmd->n_opts; i++) {
        put_option(out, cmd->opts[i].letter, cmd->opts[i].name, cmd->opts[i].value,
                   cmd->opts[i].help);
    }
    put_option(out, by_letter(cmd, 'h') ? 0 : 'h', "help", NULL, "show this page");
    if (cmd->examples && *cmd->examples) {
        buf_printf(out, "\nExamples:\n%s", cmd->examples);
    }
}

void opt_print_commands(struct buf *out, const char *program, const char *about,
                        const struct opt_command *const *cmds, size_t n, const char *examples)
{
    buf_printf(out, "%s: %s\n\nUsage: %s COMMAND [OPTION]...\n\nCommands:\n", program, about,
               program);
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "  %-14s ", cmds[i]->name);
        opt_put_wrapped(out, cmds[i]->brief, 17);
    }
    buf_printf(out, "\n'%s COMMAND --help' shows a command's options and examples.\n", program);
    if (examples && *examples) {
        buf_printf(out, "\nExamples:\n%s", examples);
    }
}

/* One branch of a case: the options of a command. */
static void put_words(struct buf *out, int indent, const struct opt_command *cmd)
{
    buf_printf(out, "%*s%s) words=\"--help", indent, "", cmd->name);
    for (size_t k = 0; k < cmd->n_opts; k++) {
        buf_printf(out, " --%s", cmd->opts[k].name);
    }
    buf_put_str(out, "\" ;;\n");
}

/* The branch of a command that has commands of its own. */
static void put_subs(struct buf *out, const struct opt_command *cmd)
{
    buf_printf(out, "        %s)\n            if [ \"$COMP_CWORD\" -eq 2 ]; then\n", cmd->name);
    buf_put_str(out, "                words=\"--help");
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(out, " %s", cmd->subs[i]->name);
    }
    buf_put_str(out, "\"\n            else\n                case ${COMP_WORDS[2]} in\n");
    for (size_t i = 0; i < cmd->n_subs; i++) {
        put_words(out, 16, cmd->subs[i]);
    }
    buf_put_str(out, "                esac\n            fi ;;\n");
}

void opt_print_bash_completion(struct buf *out, const char *program,
                               const struct opt_command *const *cmds, size_t n)
{
    char function[64];
    size_t i = 0;

    for (; program[i] && i + 1 < sizeof function; i++) {
        function[i] = program[i] == '-' ? '_' : program[i];
    }
    function[i] = '\0';
    buf_printf(out,
               "_%s() {\n    local word=${COMP_WORDS[COMP_CWORD]} words=\n    if [ \"$COMP_CWORD\" "
               "-eq 1 ]; then\n"
               "        words=\"--help",
               function);
    for (i = 0; i < n; i++) {
        buf_printf(out, " %s", cmds[i]->name);
    }
    buf_put_str(out, "\"\n    else\n        case ${COMP_WORDS[1]} in\n");
    for (i = 0; i < n; i++) {
        if (cmds[i]->n_subs) {
            put_subs(out, cmds[i]);
        } else {
            put_words(out, 8, cmds[i]);
        }
    }
    buf_printf(out,
               "        esac\n    fi\n    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
               "\"$word\")\n}\n"
               "complete -o default -F _%s %s\n",
               function, program);
}
