/* The scripts that complete a program's commands, options and values in bash and zsh. */
#include <stdio.h>
#include <string.h>

#include "common/conf/opt_program.h"

#define PATH_TEXT     128
#define FUNCTION_TEXT 64

/* Names that are safe in a shell's list of words, of CSV whose first field is a text: a host may be
 * called anything. */
#define SAFE_NAMES "sed -n '2,$s/^\"\\([A-Za-z0-9][A-Za-z0-9._-]*\\)\".*/\\1/p'"

/* The name of a shell function: the program's with "_" for "-". Returns `text`, cut at its size. */
static const char *shell_function(char *text, size_t size, const char *program)
{
    snprintf(text, size, "_%s", program);
    for (char *c = text; *c; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    return text;
}

/* What p->hosts says already, and which hosts are meant, is not among them. */
static bool is_asking(const struct opt_program *p, const struct opt *o)
{
    return o->value && o->help && strcmp(o->value, "HOST") != 0 && !strstr(p->hosts, o->name);
}

/* The options that choose which collector the command that prints hosts asks, as a pattern of the
 * shells' case: "--ca=* | --cert=*" with "=*" behind each, "-c | --ca | --cert" with nothing. */
static void put_asking(struct buf *out, const struct opt_program *p, const char *behind)
{
    const char *between = "";

    for (size_t c = 0; c < p->top->n_subs; c++) {
        const struct opt_command *cmd = p->top->subs[c];
        size_t n = strlen(cmd->name);

        for (size_t i = 0; i < cmd->n_opts && strncmp(p->hosts, cmd->name, n) == 0; i++) {
            const struct opt *o = &cmd->opts[i];

            if (p->hosts[n] != ' ' || !is_asking(p, o)) {
                continue;
            }
            buf_printf(out, "%s--%s%s", between, o->name, behind);
            between = " | ";
            if (o->letter && !*behind) {
                buf_printf(out, " | -%c", o->letter);
            }
        }
    }
}

/* -- bash -- */

/* The script has four tables, each a function with a case over the path of the command (" pki
 * token"): its commands, its options, what an option takes, what its operands are. One function
 * walks the words before the cursor and asks them. bash cuts words at "=" unless set otherwise, so
 * that "--by=cpu" may come as one word or as three. */

/* Calls `each` for every command that has options of its own, or with `groups` for those that have
 * commands. */
struct bash_walk {
    struct buf *out;
    const struct opt_program *p;
    bool groups;
    void (*each)(struct bash_walk *w, const struct opt_command *cmd, const char *path);
};

static void bash_walk(struct bash_walk *w, const struct opt_command *cmd, const char *path)
{
    char below[PATH_TEXT];

    if (w->groups ? cmd->n_subs > 0 : opt_is_leaf(cmd)) {
        w->each(w, cmd, path);
    }
    for (size_t i = 0; i < cmd->n_subs; i++) { /* commands are three deep at most */
        snprintf(below, sizeof below, "%s %s", path, cmd->subs[i]->name);
        bash_walk(w, cmd->subs[i], below);
    }
}

static void bash_table(struct bash_walk *w, const char *comment, const char *name, bool groups,
                       void (*each)(struct bash_walk *w, const struct opt_command *cmd,
                                    const char *path))
{
    char function[FUNCTION_TEXT];

    w->groups = groups;
    w->each = each;
    buf_printf(w->out, "# %s\n%s_%s() {\n    case \"$1\" in\n", comment,
               shell_function(function, sizeof function, w->p->top->program), name);
    bash_walk(w, w->p->top, "");
    buf_put_str(w->out, "    *) return 1 ;;\n    esac\n}\n");
}

static void bash_commands(struct bash_walk *w, const struct opt_command *cmd, const char *path)
{
    buf_printf(w->out, "    '%s') words='", path);
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(w->out, "%s%s", i ? " " : "", cmd->subs[i]->name);
    }
    buf_put_str(w->out, "' ;;\n");
}

static void bash_options(struct bash_walk *w, const struct opt_command *cmd, const char *path)
{
    buf_printf(w->out, "    '%s') words='", path);
    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].help) {
            buf_printf(w->out, "--%s ", cmd->opts[i].name);
        }
    }
    buf_put_str(w->out, "--help' ;;\n");
}

static void bash_elsewhere(struct bash_walk *w, const struct opt_command *cmd, const char *path)
{
    if (cmd->elsewhere) {
        buf_printf(w->out, "    '%s') other='%s' ;;\n", path, cmd->elsewhere);
    }
}

/* kind=... words=... for what `value` takes. */
static void bash_takes(struct bash_walk *w, const struct opt_command *cmd, const char *value)
{
    struct opt_takes t;
    const char *kind = "text";

    opt_takes(&t, cmd, value);
    kind = opt_takes_kind(&t, OPT_FILE) ? "file" : kind;
    kind = opt_takes_kind(&t, OPT_DIR) ? "directory" : kind;
    kind = opt_takes_kind(&t, OPT_HOST) ? "host" : kind;
    kind = w->p->hosts && strcmp(value, "HOST") == 0 ? "fleet" : kind;
    kind = opt_takes_kind(&t, OPT_SETTING) ? "setting" : kind;
    kind = t.list ? "list" : kind;
    buf_printf(w->out, "kind=%s", kind);
    if (opt_takes_kind(&t, OPT_COMMAND)) {
        for (size_t i = 0; i < w->p->top->n_subs; i++) {
            t.words[t.n_words++] = w->p->top->subs[i]->name;
        }
    }
    for (size_t i = 0; i < t.n_words; i++) {
        buf_printf(w->out, "%s%s", i ? " " : " words='", t.words[i]);
    }
    buf_put_str(w->out, t.n_words ? "' ;;\n" : " ;;\n");
}

static void bash_values(struct bash_walk *w, const struct opt_command *cmd, const char *path)
{
    for (size_t i = 0; i < cmd->n_opts; i++) {
        const struct opt *o = &cmd->opts[i];

        if (o->value && o->help) {
            buf_printf(w->out, "    '%s --%s'", path, o->name);
            if (o->letter) {
                buf_printf(w->out, " | '%s -%c'", path, o->letter);
            }
            buf_put_str(w->out, ") ");
            bash_takes(w, cmd, o->value);
        }
    }
}

static void bash_operands(struct bash_walk *w, const struct opt_command *cmd, const char *path)
{
    if (cmd->operands) {
        buf_printf(w->out, "    '%s') ", path);
        bash_takes(w, cmd, cmd->operands);
    }
}

/* The hosts of the collector that stands on the line, else of the one that is set. Words that bash
 * cut at "=" and ":" are put together again. */
static void bash_hosts(struct buf *out, const struct opt_program *p, const char *function)
{
    buf_printf(out, "%s_hosts() {\n", function);
    if (!p->hosts) {
        buf_put_str(out, "    :\n}\n");
        return;
    }
    buf_put_str(out, "    local -a typed=() given=()\n    local i word joins=\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n        word=${COMP_WORDS[i]}\n"
                     "        if [[ -n $joins || -z ${word//[=:]/} ]] && ((${#typed[@]})); then\n"
                     "            typed[${#typed[@]}-1]+=$word\n"
                     "        else\n            typed+=(\"$word\")\n        fi\n"
                     "        [[ -n ${word//[=:]/} ]] && joins= || joins=1\n    done\n"
                     "    for ((i = 0; i < ${#typed[@]}; i++)); do\n        case ${typed[i]} in\n"
                     "        ");
    put_asking(out, p, "=*");
    buf_put_str(out, ") given+=(\"${typed[i]/=\\~\\//=$HOME/}\") ;;\n        ");
    put_asking(out, p, "");
    buf_printf(out,
               ") given+=(\"${typed[i]}\" \"${typed[++i]/#\\~\\//$HOME/}\") ;;\n"
               "        esac\n    done\n"
               "    \"${COMP_WORDS[0]}\" %s \"${given[@]}\" </dev/null 2>/dev/null | " SAFE_NAMES
               "\n}\n",
               p->hosts);
}

/* F stands for the program's function. */
static const char bash_script[] =
    "F() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} path= option= kind= words= head= word other "
    "i\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ -n $option ]]; then\n"
    "            [[ $word == = ]] || option=\n"
    "        elif [[ $word == -* ]]; then\n"
    "            F_value \"$path $word\" && option=$word\n"
    "        elif F_commands \"$path\" && [[ \" $words \" == *\" $word \"* ]]; then\n"
    "            path+=\" $word\"\n"
    "            if F_elsewhere \"$path\"; then\n"
    "                COMP_CWORD=$((COMP_CWORD - i))\n"
    "                [[ $other == *' '* ]] && COMP_CWORD=$((COMP_CWORD + 1))\n"
    "                COMP_WORDS=($other \"${COMP_WORDS[@]:i+1}\")\n"
    "                other=${other%% *} other=_${other//-/_}\n"
    "                type $other &>/dev/null || _comp_load ${COMP_WORDS[0]} &>/dev/null ||\n"
    "                    _completion_loader ${COMP_WORDS[0]} &>/dev/null\n"
    "                type $other &>/dev/null && $other\n"
    "                return\n"
    "            fi\n"
    "        fi\n"
    "    done\n"
    "    kind= words=\n"
    "    if [[ -n $option && $current == = ]]; then\n"
    "        current=\n"
    "    elif [[ -z $option && $current == --*=* ]]; then\n"
    "        option=${current%%=*} head=$option=\n"
    "    fi\n"
    "    if [[ -n $option ]]; then\n"
    "        F_value \"$path $option\"\n"
    "    elif [[ $current == -* ]]; then\n"
    "        F_options \"$path\" || words=--help\n"
    "    elif ! F_commands \"$path\" && ! F_operands \"$path\"; then\n"
    "        F_options \"$path\"\n"
    "    fi\n"
    "    if [[ $kind == list && $current == *,* ]]; then\n"
    "        head=${current%,*},\n"
    "    fi\n"
    "    current=${current#\"$head\"}\n"
    "    case $kind in\n"
    "    file) compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -f -P \"$head\" -- \"$current\") ;;\n"
    "    directory) compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -d -P \"$head\" -- \"$current\") ;;\n"
    "    host) mapfile -t COMPREPLY < <(compgen -A hostname -P \"$head\" -- \"$current\") ;;\n"
    "    fleet) words=$(F_hosts) ;;\n"
    "    setting) compopt -o nospace 2>/dev/null\n"
    "        words=\"${words// /= }${words:+=}\" ;;\n"
    "    esac\n"
    "    if [[ -n $words ]]; then\n"
    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P \"$head\" -W \"$words\" -- "
    "\"$current\")\n"
    "    fi\n"
    "}\n"
    "complete -F F P\n";

void opt_completion_bash(struct buf *out, const struct opt_program *p)
{
    struct bash_walk w = {.out = out, .p = p};
    char function[FUNCTION_TEXT];

    shell_function(function, sizeof function, p->top->program);
    buf_printf(out, "# bash completion of %s\n", p->top->program);
    bash_table(&w, "the commands of a program or command", "commands", true, bash_commands);
    bash_table(&w, "the options of a command", "options", false, bash_options);
    bash_table(&w, "what an option takes; a flag takes nothing", "value", false, bash_values);
    bash_table(&w, "what stands behind the options", "operands", false, bash_operands);
    bash_table(&w, "the program that does what a command says", "elsewhere", false, bash_elsewhere);
    bash_hosts(out, p, function);
    for (const char *c = bash_script; *c; c++) {
        if (*c == 'F' && c[1] != 'i' && (c == bash_script || strchr(" !\n(", c[-1]))) {
            buf_put_str(out, function);
        } else if (*c == 'P' && c[-1] == ' ' && c[1] == '\n') {
            buf_put_str(out, p->top->program);
        } else {
            buf_put_u8(out, (uint8_t)*c);
        }
    }
}

/* -- zsh -- */

/* One function for each command: its options and operands as _arguments takes them, or, where there
 * are commands below it, the list of them and a call of theirs. Text of the tables stands in single
 * quotes, with a backslash before what _arguments would take for its own. */

struct zsh_script {
    struct buf *out;
    const struct opt_program *p;
};

/* Inside single quotes, and inside a message of _arguments or _describe. */
static void zsh_text(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'') {
            buf_put_str(out, "'\\''");
        } else {
            buf_printf(out, "%s%c", strchr("[]:\\", *c) ? "\\" : "", *c);
        }
    }
}

static void zsh_words(struct buf *out, const struct opt_takes *t)
{
    for (size_t i = 0; i < t->n_words; i++) {
        buf_printf(out, "%s%s", i ? " " : "", t->words[i]);
    }
}

/* ":METRIC:(cpu_time user_time)": what is taken, and what offers it. */
static void zsh_takes(const struct zsh_script *m, const struct opt_command *cmd, const char *value)
{
    struct buf *out = m->out;
    char function[FUNCTION_TEXT];
    struct opt_takes t;

    opt_takes(&t, cmd, value);
    buf_put_str(out, ":");
    zsh_text(out, value);
    buf_put_str(out, ":");
    if (opt_takes_kind(&t, OPT_SETTING)) {
        buf_put_str(out, "{compadd -q -S= -- ");
        zsh_words(out, &t);
        buf_put_str(out, "}");
    } else if (opt_takes_kind(&t, OPT_COMMAND)) {
        buf_put_str(out, "(");
        for (size_t i = 0; i < m->p->top->n_subs; i++) {
            buf_printf(out, "%s%s", i ? " " : "", m->p->top->subs[i]->name);
        }
        buf_put_str(out, ")");
    } else if (t.list) {
        buf_put_str(out, "{_values -s , word ");
        zsh_words(out, &t);
        buf_put_str(out, "}");
    } else if (t.n_words) {
        buf_put_str(out, "(");
        zsh_words(out, &t);
        buf_put_str(out, ")");
    } else if (m->p->hosts && strcmp(value, "HOST") == 0) {
        buf_printf(out, "%s__hosts", shell_function(function, sizeof function, m->p->top->program));
    } else {
        buf_put_str(out, opt_takes_kind(&t, OPT_FILE)   ? "_files"
                         : opt_takes_kind(&t, OPT_DIR)  ? "_files -/"
                         : opt_takes_kind(&t, OPT_HOST) ? "_hosts"
                                                        : " ");
    }
}

static void zsh_option(const struct zsh_script *m, const struct opt_command *cmd,
                       const struct opt *o)
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
    zsh_text(out, o->help);
    buf_put_str(out, "]");
    if (o->value) {
        zsh_takes(m, cmd, o->value);
    }
    buf_put_str(out, "' \\\n");
}

static void zsh_options(const struct zsh_script *m, const struct opt_command *cmd)
{
    bool h = false;

    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].help) {
            zsh_option(m, cmd, &cmd->opts[i]);
        }
        h = h || cmd->opts[i].letter == 'h';
    }
    buf_put_str(m->out, h ? "        '(- *)--help[show this page]'"
                          : "        '(- *)'{-h,--help}'[show this page]'");
}

static void zsh_leaf(const struct zsh_script *m, const struct opt_command *cmd,
                     const char *function)
{
    struct opt_takes t;

    if (cmd->elsewhere) {
        buf_printf(m->out,
                   "%s() {\n    words[1]=(%s) service=%.*s CURRENT=$((CURRENT + %d))\n"
                   "    _normal\n}\n\n",
                   function, cmd->elsewhere, (int)strcspn(cmd->elsewhere, " "), cmd->elsewhere,
                   strchr(cmd->elsewhere, ' ') != NULL);
        return;
    }
    buf_printf(m->out, "%s() {\n    _arguments -s -S \\\n", function);
    zsh_options(m, cmd);
    if (cmd->operands) {
        opt_takes(&t, cmd, cmd->operands);
        buf_put_str(m->out, t.many       ? " \\\n        '*"
                            : t.optional ? " \\\n        ':"
                                         : " \\\n        '1");
        zsh_takes(m, cmd, cmd->operands);
        buf_put_str(m->out, "'");
    }
    buf_put_str(m->out, "\n}\n\n");
}

static void zsh_group(const struct zsh_script *m, const struct opt_command *cmd,
                      const char *function)
{
    buf_printf(m->out,
               "%s() {\n    local context curcontext=$curcontext state line\n"
               "    local -A opt_args\n    local -a commands=(\n",
               function);
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(m->out, "        '%s:", cmd->subs[i]->name);
        zsh_text(m->out, cmd->subs[i]->brief);
        buf_put_str(m->out, "'\n");
    }
    buf_put_str(m->out, "    )\n    _arguments -C \\\n");
    zsh_options(m, cmd); /* none but help, unless it does something alone */
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
static void zsh_command(const struct zsh_script *m, const struct opt_command *cmd,
                        const char *function)
{
    char below[PATH_TEXT];

    for (size_t i = 0; i < cmd->n_subs; i++) {
        snprintf(below, sizeof below, "%s_%s", function, cmd->subs[i]->name);
        zsh_command(m, cmd->subs[i], below);
    }
    if (cmd->n_subs) {
        zsh_group(m, cmd, function);
    } else {
        zsh_leaf(m, cmd, function);
    }
}

/* The hosts of the collector that stands on the line, else of the one that is set. */
static void zsh_hosts(struct buf *out, const struct opt_program *p, const char *function)
{
    buf_printf(out,
               "%s__hosts() {\n    local -a given\n    local i\n"
               "    for ((i = 1; i < CURRENT; i++)); do\n        case $words[i] in\n        ",
               function);
    put_asking(out, p, "=*");
    buf_put_str(out, ") given+=(\"${${(Q)words[i]}/=\\~\\//=$HOME/}\") ;;\n        ");
    put_asking(out, p, "");
    buf_printf(out,
               ") given+=($words[i] \"${${(Q)words[++i]}/#\\~\\//$HOME/}\") ;;\n"
               "        esac\n    done\n"
               "    compadd -- ${(f)\"$(%s %s $given </dev/null 2>/dev/null | " SAFE_NAMES
               ")\"}\n}\n\n",
               p->top->program, p->hosts);
}

void opt_completion_zsh(struct buf *out, const struct opt_program *p)
{
    const struct zsh_script m = {.out = out, .p = p};
    const char *program = p->top->program;
    char function[FUNCTION_TEXT];

    shell_function(function, sizeof function, program);
    buf_printf(out, "#compdef %s\n# zsh completion of %s\n\n", program, program);
    if (p->hosts) {
        zsh_hosts(out, p, function);
    }
    zsh_command(&m, p->top, function);
    buf_printf(out,
               "if [[ $funcstack[1] == %s ]]; then\n    %s \"$@\"\nelse\n    compdef %s %s\nfi\n",
               function, function, function, program);
}
