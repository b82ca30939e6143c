#include <stdio.h>
#include <string.h>

#include "common/conf/opt.h"

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
