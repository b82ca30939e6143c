/* Command lines: one table per command drives parsing, --help and shell completion.
 * `--name value`, `--name=value`, `-n value`; "--" ends options; a wrong option suggests the
 * closest. */
#ifndef PROCFLEET_COMMON_OPT_H
#define PROCFLEET_COMMON_OPT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

struct opt {
    const char *name;  /* without dashes */
    char letter;       /* 0 = none */
    const char *value; /* what it takes, for help ("TIME"); NULL = a flag */
    const char *help;
    bool many; /* may be repeated */
};

struct opt_command {
    const char *program;  /* "procfleet" */
    const char *name;     /* "top"; NULL = the program itself */
    const char *brief;    /* one line */
    const char *operands; /* "FILE…", or NULL when none are taken */
    const struct opt *opts;
    size_t n_opts;
    const char *examples;                  /* lines, "" or NULL = none */
    const struct opt_command *const *subs; /* its first operand is one of these, or NULL */
    size_t n_subs;
};

#define OPT_MANY_MAX 64

struct opt_args; /* parsed */
/* Errors: ERR_USAGE (why says what and suggests), ERR_NOMEM. -h/--help is always known: see
 * opt_flag(a, "help"). */
NODISCARD enum err opt_parse(struct opt_args **out, const struct opt_command *cmd, int argc,
                             char **argv, struct errmsg *why);
void opt_free(struct opt_args *a);
bool opt_flag(const struct opt_args *a, const char *name);
const char *opt_value(const struct opt_args *a, const char *name); /* the last; NULL when absent */
size_t opt_values(const struct opt_args *a, const char *name, const char **values, size_t max);
size_t opt_operands(const struct opt_args *a, char ***operands);

/* Help text, cut into lines of at most 78 columns that begin at `column`; the first is there
 * already. Ends with a line break. */
void opt_put_wrapped(struct buf *out, const char *text, size_t column);

void opt_print_help(struct buf *out, const struct opt_command *cmd);
/* The program's own page: its commands with their briefs. */
void opt_print_commands(struct buf *out, const char *program, const char *about,
                        const struct opt_command *const *cmds, size_t n, const char *examples);
void opt_print_bash_completion(struct buf *out, const char *program,
                               const struct opt_command *const *cmds, size_t n);

/* The closest of n names to `word` (half of it may be wrong, at most three letters), or NULL. */
const char *opt_closest(const char *word, const char *const *names, size_t n);

#endif
