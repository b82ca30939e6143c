/* A program as a whole: its commands, and what its manual says beside them. From it come the pages
 * that every program of ours has: help, completions, manual. Threads: one. */
#ifndef PROCFLEET_COMMON_CONF_OPT_PROGRAM_H
#define PROCFLEET_COMMON_CONF_OPT_PROGRAM_H

#include "common/conf/conf.h"
#include "common/conf/opt.h"

#define OPT_EXIT_PARTIAL 5 /* in every program of ours: done in part */

struct opt_fact {
    const char *name; /* NULL ends the list */
    const char *text;
};

struct opt_program {
    const struct opt_command *top; /* name NULL; its commands, the standard ones among them */
    const struct opt_fact *environment, *files, *exits;
    const char *hosts; /* arguments that make it print hosts as CSV, for completion; or NULL */
    const struct opt_fact *see_also;           /* name of a page of section 1; text is not used */
    const struct conf_key *(*keys)(size_t *n); /* its settings, for config-sample; or NULL */
    /* Reports what failed ("": err_text says enough); returns the exit code. */
    int (*fail)(const struct opt_command *cmd, enum err e, const char *text);
};

/* The commands that every program has, and one of those with settings; opt_program_begin runs
 * them. */
#define OPT_CONFIG_SAMPLE(of, file)                                  \
    {                                                                \
        .program = of, .name = "config-sample",                      \
        .brief = "print every setting with its default and meaning", \
        .examples = "  " of " config-sample > " file "\n",           \
    }
#define OPT_COMPLETION(of)                                                                  \
    {                                                                                       \
        .program = of, .name = "completion",                                                \
        .brief = "print the completion for a shell, bash or zsh", .operands = "[bash|zsh]", \
        .examples = "  source <(" of " completion)\n"                                       \
                    "  " of " completion zsh > ~/.zsh/_" of "\n"                            \
    }
#define OPT_MAN(of)                                                                      \
    {                                                                                    \
        .program = of, .name = "man", .brief = "print the manual, or that of a command", \
        .operands = "[COMMAND]", .opts = opt_man_opts, .n_opts = OPT_MAN_OPTS,           \
        .examples = "  " of " man | man -l -\n"                                          \
                    "  " of " man --dir /usr/local/share/man/man1\n"                     \
    }
#define OPT_VERSION(of)                                                 \
    {                                                                   \
        .program = of, .name = "version", .brief = "print the version", \
    }
#define OPT_MAN_OPTS 1
extern const struct opt opt_man_opts[OPT_MAN_OPTS];

/* The command that argv[1] names, to be run by the caller with what follows; "help COMMAND" is made
 * "COMMAND --help" in argv. NULL: it was answered here, be it help,
 * version, completion, manual or a word that is no command; *code is the exit code (0, 1 when
 * something could not be written, 2 for wrong usage). */
const struct opt_command *opt_program_begin(const struct opt_program *p, int argc, char **argv,
                                            int *code);

/* All that main does, where every command has an action: begins, parses, runs, ends. */
int opt_program_main(const struct opt_program *p, int argc, char **argv);

/* What main returns, called once before it does: writes out what is left of standard output.
 * `code`, or 1 after a word on standard error when some of it could not be written (a full disk)
 * and `code` is not worse already. A reader that closes the pipe, as `head` does, is no failure. */
int opt_program_end(const struct opt_program *p, int code);

/* Scripts that complete the program's commands, options and their values. */
void opt_completion_bash(struct buf *out, const struct opt_program *p);
void opt_completion_zsh(struct buf *out, const struct opt_program *p);

/* The manual in mdoc: of one command of `p->top` with those below it, or with NULL of the program.
 */
void opt_man_print(struct buf *out, const struct opt_program *p, const struct opt_command *cmd);

#endif
