/* One function for each command: its options and operands as _arguments takes them, or, where there
 * are commands below it, the list of them and a call of theirs. Text of the tables stands in single
 * quotes, with a backslash before what _arguments would take for its own. */
#include <stdio.h>
#include <string.h>

#include "common/conf/opt_program.h"
#include "common/conf/opt_value.h"

#define PATH_TEXT 128

struct made {
    struct buf *out;
    const struct opt_program *p;
};

/* Inside single quotes, and inside a message of _arguments or _describe. */
static void put_text(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'') {
            buf_put_str(out, "'\\''");
        } else {
            buf_printf(out, "%s%c", strchr("[]:\\", *c) ? "\\" : "", *c);
        }
    }
}

static void put_words(struct buf *out, const struct opt_takes *t)
{
    for (size_t i = 0; i < t->n_words; i++) {
        buf_printf(out, "%s%s", i ? " " : "", t->words[i]);
    }
}

/* ":METRIC:(cpu_time user_time)": what is taken, and what offers it. */
static void put_takes(const struct made *m, const struct opt_command *cmd, const char *value)
{
    struct buf *out = m->out;
    char function[OPT_FUNCTION_TEXT];
    struct opt_takes t;

    opt_takes(&t, cmd, value);
    buf_put_str(out, ":");
    put_text(out, value);
    buf_put_str(out, ":");
    if (opt_takes_kind(&t, OPT_SETTING)) {
        buf_put_str(out, "{compadd -q -S= -- ");
        put_words(out, &t);
        buf_put_str(out, "}");
    } else if (opt_takes_kind(&t, OPT_COMMAND)) {
        buf_put_str(out, "(");
        for (size_t i = 0; i < m->p->top->n_subs; i++) {
            buf_printf(out, "%s%s", i ? " " : "", m->p->top->subs[i]->name);
        }
        buf_put_str(out, ")");
    } else if (t.list) {
        buf_put_str(out, "{_values -s , word ");
        put_words(out, &t);
        buf_put_str(out, "}");
    } else if (t.n_words) {
        buf_put_str(out, "(");
        put_words(out, &t);
        buf_put_str(out, ")");
    } else if (m->p->hosts && strcmp(value, "HOST") == 0) {
        buf_printf(out, "%s__hosts", opt_function(function, sizeof function, m->p->top->program));
    } else {
        buf_put_str(out, opt_takes_kind(&t, OPT_FILE)   ? "_files"
                         : opt_takes_kind(&t, OPT_DIR)  ? "_files -/"
                         : opt_takes_kind(&t, OPT_HOST) ? "_hosts"
                                                        : " ");
    }
}

static void put_option(const struct made *m, const struct opt_command *cmd, const struct opt *o)
{
    struct buf *out = m->out;
    const char *many = o->many ? "*" : "";

    buf_put_str(out, "        ");
    if (o->letter && !o->many) {
        buf_printf(out, "'(-%c --%s)'", o->letter, o->name);
    } else if (o->letter) {
        buf_put_str(out, "'*'");
    }
    if (o->letter) {
        buf_printf(out, o->value ? "{-%c+,--%s=}'[" : "{-%c,--%s}'[", o->letter, o->name);
    } else {
        buf_printf(out, "'%s--%s%s[", many, o->name, o->value ? "=" : "");
    }
    put_text(out, o->help);
    buf_put_str(out, "]");
    if (o->value) {
        put_takes(m, cmd, o->value);
    }
    buf_put_str(out, "' \\\n");
}

static void put_options(const struct made *m, const struct opt_command *cmd)
{
    bool h = false;

    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].help) {
            put_option(m, cmd, &cmd->opts[i]);
        }
        h = h || cmd->opts[i].letter == 'h';
    }
    buf_put_str(m->out, h ? "        '(- *)--help[show this page]'"
                          : "        '(- *)'{-h,--help}'[show this page]'");
}

static void put_leaf(const struct made *m, const struct opt_command *cmd, const char *function)
{
    struct opt_takes t;

    buf_printf(m->out, "%s() {\n    _arguments -s -S \\\n", function);
    put_options(m, cmd);
    if (cmd->operands) {
        opt_takes(&t, cmd, cmd->operands);
        buf_put_str(m->out, t.many       ? " \\\n        '*"
                            : t.optional ? " \\\n        ':"
                                         : " \\\n        '1");
        put_takes(m, cmd, cmd->operands);
        buf_put_str(m->out, "'");
    }
    buf_put_str(m->out, "\n}\n\n");
}

static void put_group(const struct made *m, const struct opt_command *cmd, const char *function)
{
    buf_printf(m->out,
               "%s() {\n    local context curcontext=$curcontext state line\n"
               "    local -A opt_args\n    local -a commands=(\n",
               function);
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(m->out, "        '%s:", cmd->subs[i]->name);
        put_text(m->out, cmd->subs[i]->brief);
        buf_put_str(m->out, "'\n");
    }
    buf_put_str(m->out, "    )\n    _arguments -C \\\n");
    put_options(m, cmd); /* none but help, unless it does something alone */
    buf_put_str(m->out,
                " \\\n        '1:command:->command' '*::argument:->argument'\n"
                "    case $state in\n    command) _describe command commands ;;\n    argument)\n"
                "        case $words[1] in\n");
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(m->out, "        %s) %s_%s ;;\n", cmd->subs[i]->name, function,
                   cmd->subs[i]->name);
    }
    buf_put_str(m->out, "        esac ;;\n    esac\n}\n\n");
}

/* Commands are three deep at most. */
static void put_command(const struct made *m, const struct opt_command *cmd, const char *function)
{
    char below[PATH_TEXT];

    for (size_t i = 0; i < cmd->n_subs; i++) {
        snprintf(below, sizeof below, "%s_%s", function, cmd->subs[i]->name);
        put_command(m, cmd->subs[i], below);
    }
    if (cmd->n_subs) {
        put_group(m, cmd, function);
    } else {
        put_leaf(m, cmd, function);
    }
}

/* The hosts of the collector that stands on the line, else of the one that is set. */
static void put_hosts(struct buf *out, const struct opt_program *p, const char *function)
{
    buf_printf(out,
               "%s__hosts() {\n    local -a given\n    local i\n"
               "    for ((i = 1; i < CURRENT; i++)); do\n        case $words[i] in\n        ",
               function);
    opt_put_asking(out, p, "=*");
    buf_put_str(out, ") given+=(\"${${(Q)words[i]}/=\\~\\//=$HOME/}\") ;;\n        ");
    opt_put_asking(out, p, "");
    buf_printf(out,
               ") given+=($words[i] \"${${(Q)words[++i]}/#\\~\\//$HOME/}\") ;;\n"
               "        esac\n    done\n"
               "    compadd -- ${(f)\"$(%s %s $given </dev/null 2>/dev/null | " OPT_SAFE_NAMES
               ")\"}\n}\n\n",
               p->top->program, p->hosts);
}

void opt_zsh_print(struct buf *out, const struct opt_program *p)
{
    const struct made m = {.out = out, .p = p};
    const char *program = p->top->program;
    char function[OPT_FUNCTION_TEXT];

    opt_function(function, sizeof function, program);
    buf_printf(out, "#compdef %s\n# zsh completion of %s\n\n", program, program);
    if (p->hosts) {
        put_hosts(out, p, function);
    }
    put_command(&m, p->top, function);
    buf_printf(out,
               "if [[ $funcstack[1] == %s ]]; then\n    %s \"$@\"\nelse\n    compdef %s %s\nfi\n",
               function, function, function, program);
}
