/* Command lines: one table per command drives parsing, --help, man pages and shell completion.
 * `--name value`, `--name=value`, `-n value`; "--" ends options; a wrong option or word suggests
 * the closest. */
#ifndef PROCFLEET_COMMON_CONF_OPT_H
#define PROCFLEET_COMMON_CONF_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

/* What an option takes is said once, in the text that help shows. A part of it between bars that
 * has a lower-case letter or a digit is a word: "table|json|csv" is one of three. The others are
 * names: those that enum opt_kind lists (FILE, N, SPAN, TIME ...) are checked and completed as
 * such, those of the command's sets are one of the set's words, any other is any text: "N|max".
 * With ",..." at its end it is a list with commas. Operands are written alike. */
struct opt {
    const char *name;  /* without dashes */
    char letter;       /* 0 = none */
    const char *value; /* NULL = a flag */
    const char *help;  /* NULL: a former spelling, accepted and shown nowhere */
    bool many;         /* may be repeated */
};

/* The former spelling of an option: its name with another letter, or a name of its own. */
#define OPT_FORMER(name, letter, value, many) \
    {                                         \
        name, letter, value, NULL, many       \
    }

/* The words that a name stands for, from a table kept elsewhere: metrics, settings. */
struct opt_set {
    const char *name;              /* "METRIC"; NULL ends the list of sets */
    const char *(*word)(size_t i); /* of static storage; NULL after the last */
};

struct opt_command {
    const char *program;  /* "procfleet", or "procfleet-collector pki" of a command's command */
    const char *name;     /* "top"; NULL = the program itself */
    const char *brief;    /* one line */
    const char *operands; /* "FILE...", or NULL when none are taken */
    const struct opt *opts;
    size_t n_opts;
    const struct opt_set *sets;            /* or NULL */
    const char *examples;                  /* lines, then perhaps an empty one and notes; or NULL */
    const struct opt_command *const *subs; /* its first operand is one of these, or NULL */
    size_t n_subs;
    bool alone; /* without one of its commands it does something itself, with its options */
    /* Another program of ours does it, or a command of it ("procfleet-etl session"): its
     * options are that one's; or NULL. */
    const char *elsewhere;
    const struct opt_action *action; /* for opt_program_main; not of one with commands */
};

/* Whether its own options count: it has no commands, or does something itself. */
static inline bool opt_is_leaf(const struct opt_command *cmd)
{
    return cmd->n_subs == 0 || cmd->alone;
}

#define OPT_MANY_MAX 64

struct opt_args; /* parsed */

/* What a command does: one of the first three. */
struct opt_action {
    enum err (*run)(const struct opt_args *a, struct errmsg *why); /* opt_program.fail reports */
    int (*judge)(
        const struct opt_args *a); /* reports what there is itself, returns the exit code */
    int (*raw)(char **argv);       /* likewise, with what follows its name as it stands */
    bool shows_settings;           /* opt_program.keys, in its help */
};

/* Errors: ERR_USAGE (why names the option and suggests), ERR_NOMEM. -h/--help is always known: see
 * opt_flag(a, "help"). */
NODISCARD enum err opt_parse(struct opt_args **out, const struct opt_command *cmd, int argc,
                             char **argv, struct errmsg *why);
void opt_free(struct opt_args *a);
const struct opt_command *opt_command_of(const struct opt_args *a); /* that was parsed for */
bool opt_flag(const struct opt_args *a, const char *name);
const char *opt_value(const struct opt_args *a, const char *name); /* the last; NULL when absent */
size_t opt_values(const struct opt_args *a, const char *name, const char **values, size_t max);
size_t opt_operands(const struct opt_args *a, char ***operands);

/* Which word of its text in the table the option was given: 0 for the first; `def` when absent. */
size_t opt_word(const struct opt_args *a, const struct opt_command *cmd, const char *name,
                size_t def);

/* A number as every N is written: decimal, or 0x and hexadecimal; never octal. Errors: ERR_INVALID
 * (it is not, or above max) */
NODISCARD enum err opt_number(uint64_t *out, const char *text, uint64_t max);

/* The one of a command's commands that argv[0] names; the command itself where it does something
 * alone and no word is given. Help of the command, or a word that is none of them, is answered
 * here: NULL, and *code is the exit code (0, or 2 for wrong usage). */
const struct opt_command *opt_choose(const struct opt_command *cmd, int argc, char **argv,
                                     int *code);

/* "procfleet-collector pki token": the words that call it. Returns `text`, cut at its size. */
#define OPT_CALL_TEXT 128
const char *opt_call(char *text, size_t size, const struct opt_command *cmd);

/* The closest of n names to `word` (half of it may be wrong, at most three letters), or NULL. */
const char *opt_closest(const char *word, const char *const *names, size_t n);

/* -- what an option takes, read from its text in the table -- */

enum opt_kind {
    OPT_NOTHING, /* but the words */
    OPT_TEXT,    /* anything */
    OPT_FILE,    /* FILE */
    OPT_DIR,     /* DIR */
    OPT_COMMAND, /* COMMAND: of the program */
    OPT_HOST,    /* HOST, HOST[:PORT], HOST:PORT */
    OPT_SETTING, /* KEY=VALUE: the words are the keys */
    OPT_NUMBER,  /* N, PID, TID: decimal, or 0x and hexadecimal */
    OPT_DECIMAL, /* MS, FACTOR: 1500, 2733.175 */
    OPT_SPAN,    /* SPAN: 10s */
    OPT_TIME,    /* TIME: 5m (before now), or 2026-11-21T09:00:00Z */
};

#define OPT_WORDS_MAX 224

struct opt_takes {
    enum opt_kind kind[4]; /* n_kinds of them: it is one of the words or of these */
    size_t n_kinds;
    bool list;     /* several with commas */
    bool many;     /* operands: several words */
    bool optional; /* operands: may be missing */
    size_t n_words;
    const char *words[OPT_WORDS_MAX]; /* static, or in text */
    char text[256];
};

/* `value` as in the table, NULL takes nothing. Tables are ours: too much in one is an assert. */
void opt_takes(struct opt_takes *out, const struct opt_command *cmd, const char *value);
bool opt_takes_kind(const struct opt_takes *t, enum opt_kind kind);

/* Whether `text` is what it may be; `what` names it in the error: "--limit". Errors: ERR_USAGE */
NODISCARD enum err opt_takes_check(const struct opt_takes *t, const char *what, const char *text,
                                   struct errmsg *why);

/* -- pages -- */

/* Help text, cut into lines of at most 78 columns that begin at `column`; the first is there
 * already. Ends with a line break. */
void opt_put_wrapped(struct buf *out, const char *text, size_t column);

/* A command's page; of one that has commands, the list of them with their briefs. */
void opt_print_help(struct buf *out, const struct opt_command *cmd);

/* Whether the pages list the set's words: an option takes them, and they are not settings, which
 * have pages of their own. */
bool opt_set_is_shown(const struct opt_command *cmd, const struct opt_set *set);

/* Where the examples end and the notes begin: both are in cmd->examples. NULL: no notes. */
const char *opt_notes(const struct opt_command *cmd);

#endif
