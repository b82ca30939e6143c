/* The script has four tables, each a function with a case over the path of the command (" pki
 * token"): its commands, its options, what an option takes, what its operands are. One function
 * walks the words before the cursor and asks them. bash cuts words at "=" unless told otherwise, so
 * that "--by=cpu" may come as one word or as three. */
#include <stdio.h>
#include <string.h>

#include "common/conf/opt_program.h"
#include "common/conf/opt_value.h"

#define PATH_TEXT 128

/* Calls `each` for every command that has options of its own, or with `groups` for those that have
 * commands. */
struct walk {
    struct buf *out;
    const struct opt_program *p;
    bool groups;
    void (*each)(struct walk *w, const struct opt_command *cmd, const char *path);
};

static void walk(struct walk *w, const struct opt_command *cmd, const char *path)
{
    char below[PATH_TEXT];

    if (w->groups ? cmd->n_subs > 0 : opt_is_leaf(cmd)) {
        w->each(w, cmd, path);
    }
    for (size_t i = 0; i < cmd->n_subs; i++) { /* commands are three deep at most */
        snprintf(below, sizeof below, "%s %s", path, cmd->subs[i]->name);
        walk(w, cmd->subs[i], below);
    }
}

static void put_table(struct walk *w, const char *comment, const char *name, bool groups,
                      void (*each)(struct walk *w, const struct opt_command *cmd, const char *path))
{
    char function[OPT_FUNCTION_TEXT];

    w->groups = groups;
    w->each = each;
    buf_printf(w->out, "# %s\n%s_%s() {\n    case \"$1\" in\n", comment,
               opt_function(function, sizeof function, w->p->top->program), name);
    walk(w, w->p->top, "");
    buf_put_str(w->out, "    *) return 1 ;;\n    esac\n}\n");
}

static void put_commands(struct walk *w, const struct opt_command *cmd, const char *path)
{
    buf_printf(w->out, "    '%s') words='", path);
    for (size_t i = 0; i < cmd->n_subs; i++) {
        buf_printf(w->out, "%s%s", i ? " " : "", cmd->subs[i]->name);
    }
    buf_put_str(w->out, "' ;;\n");
}

static void put_options(struct walk *w, const struct opt_command *cmd, const char *path)
{
    buf_printf(w->out, "    '%s') words='", path);
    for (size_t i = 0; i < cmd->n_opts; i++) {
        if (cmd->opts[i].help) {
            buf_printf(w->out, "--%s ", cmd->opts[i].name);
        }
    }
    buf_put_str(w->out, "--help' ;;\n");
}

/* kind=... words=... for what `value` takes. */
static void put_takes(struct walk *w, const struct opt_command *cmd, const char *value)
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

static void put_values(struct walk *w, const struct opt_command *cmd, const char *path)
{
    for (size_t i = 0; i < cmd->n_opts; i++) {
        const struct opt *o = &cmd->opts[i];

        if (o->value && o->help) {
            buf_printf(w->out, "    '%s --%s'", path, o->name);
            if (o->letter) {
                buf_printf(w->out, " | '%s -%c'", path, o->letter);
            }
            buf_put_str(w->out, ") ");
            put_takes(w, cmd, o->value);
        }
    }
}

static void put_operands(struct walk *w, const struct opt_command *cmd, const char *path)
{
    if (cmd->operands) {
        buf_printf(w->out, "    '%s') ", path);
        put_takes(w, cmd, cmd->operands);
    }
}

/* The hosts of the collector that stands on the line, else of the one that is set. Words that bash
 * cut at "=" and ":" are put together again. */
static void put_hosts(struct buf *out, const struct opt_program *p, const char *function)
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
    opt_put_asking(out, p, "=*");
    buf_put_str(out, ") given+=(\"${typed[i]/=\\~\\//=$HOME/}\") ;;\n        ");
    opt_put_asking(out, p, "");
    buf_printf(
        out,
        ") given+=(\"${typed[i]}\" \"${typed[++i]/#\\~\\//$HOME/}\") ;;\n"
        "        esac\n    done\n"
        "    \"${COMP_WORDS[0]}\" %s \"${given[@]}\" </dev/null 2>/dev/null | " OPT_SAFE_NAMES
        "\n}\n",
        p->hosts);
}

/* F stands for the program's function. */
static const char script[] =
    "F() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} path= option= kind= words= head= word i\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ -n $option ]]; then\n"
    "            [[ $word == = ]] || option=\n"
    "        elif [[ $word == -* ]]; then\n"
    "            F_value \"$path $word\" && option=$word\n"
    "        elif F_commands \"$path\" && [[ \" $words \" == *\" $word \"* ]]; then\n"
    "            path+=\" $word\"\n"
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

void opt_bash_print(struct buf *out, const struct opt_program *p)
{
    struct walk w = {.out = out, .p = p};
    char function[OPT_FUNCTION_TEXT];

    opt_function(function, sizeof function, p->top->program);
    buf_printf(out, "# bash completion of %s\n", p->top->program);
    put_table(&w, "the commands of a program or command", "commands", true, put_commands);
    put_table(&w, "the options of a command", "options", false, put_options);
    put_table(&w, "what an option takes; a flag takes nothing", "value", false, put_values);
    put_table(&w, "what stands behind the options", "operands", false, put_operands);
    put_hosts(out, p, function);
    for (const char *c = script; *c; c++) {
        if (*c == 'F' && c[1] != 'i' && (c == script || strchr(" !\n(", c[-1]))) {
            buf_put_str(out, function);
        } else if (*c == 'P' && c[-1] == ' ' && c[1] == '\n') {
            buf_put_str(out, p->top->program);
        } else {
            buf_put_u8(out, (uint8_t)*c);
        }
    }
}
