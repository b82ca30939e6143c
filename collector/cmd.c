#include "collector/cmd.h"

#include <stdio.h>
#include <string.h>

#include "common/clk.h"

int cmd_complain(const struct opt_command *cmd, enum err e, const char *text)
{
    fprintf(stderr, "procfleet-collector: %s\n", text[0] ? text : err_text(e));
    if (e == ERR_USAGE) {
        fprintf(stderr, "'%s %s --help' shows options and examples.\n", cmd->program, cmd->name);
    }
    return e == ERR_USAGE || e == ERR_INVALID ? CMD_USAGE : CMD_FAILED;
}

static void print(struct buf *out)
{
    fputs(buf_cstr(out), stdout);
    buf_fini(out);
}

static int help(const struct opt_command *cmd)
{
    struct buf out;

    buf_init(&out, 16 << 10);
    opt_print_help(&out, cmd);
    print(&out);
    return CMD_DONE;
}

const char *cmd_value_or(const struct opt_args *a, const char *name, const char *otherwise)
{
    const char *v = opt_value(a, name);

    return v ? v : otherwise;
}

enum err cmd_span(int64_t *ns, const char *option, const char *text, int64_t min_ns, int64_t max_ns,
                  const char *range, struct errmsg *why)
{
    int64_t v;

    if (clk_parse_span(&v, text) != ERR_OK || v < min_ns || v > max_ns) {
        return errmsg_set(why, ERR_USAGE, "--%s takes a span%s such as 90s, 1h or 30d, not '%s'",
                          option, range, text);
    }
    *ns = v;
    return ERR_OK;
}

enum err cmd_format(enum sheet_format *format, const struct opt_args *a, struct errmsg *why)
{
    static const struct {
        const char *name;
        enum sheet_format format;
    } formats[] = {
        {"table", SHEET_AS_TABLE},
        {"json", SHEET_AS_JSON},
        {"csv", SHEET_AS_CSV},
    };
    const char *name = cmd_value_or(a, "format", "table");

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            *format = formats[i].format;
            return ERR_OK;
        }
    }
    return errmsg_set(why, ERR_USAGE, "--format takes table, json or csv, not '%s'", name);
}

int cmd_with_options(const struct opt_command *cmd, int argc, char **argv,
                     int (*run)(const struct opt_args *a))
{
    struct opt_args *a;
    struct errmsg why = {""};
    enum err e = opt_parse(&a, cmd, argc, argv, &why);
    int code;

    if (e) {
        return cmd_complain(cmd, e, why.text);
    }
    code = opt_flag(a, "help") ? help(cmd) : run(a);
    opt_free(a);
    return code;
}

/* -- commands of commands -- */

static int overview(const struct cmd_group *g)
{
    char program[64];
    struct buf out;

    snprintf(program, sizeof program, "%s %s", g->options->program, g->options->name);
    buf_init(&out, 16 << 10);
    opt_print_commands(&out, program, g->about, g->options->subs, g->options->n_subs,
                       g->options->examples);
    print(&out);
    return CMD_DONE;
}

int cmd_group_run(const struct cmd_group *g, int argc, char **argv)
{
    const char *names[CMD_SUBS_MAX], *meant;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        return overview(g);
    }
    for (size_t i = 0; i < g->options->n_subs; i++) {
        names[i] = g->options->subs[i]->name;
        if (argc > 1 && strcmp(argv[1], names[i]) == 0) {
            return g->mains[i](argc - 1, argv + 1);
        }
    }
    meant = argc > 1 ? opt_closest(argv[1], names, g->options->n_subs) : NULL;
    fprintf(stderr, "%s: %s needs a command%s%s%s: '%s %s --help' lists them\n",
            g->options->program, g->options->name, meant ? " (did you mean \"" : "",
            meant ? meant : "", meant ? "\"?)" : "", g->options->program, g->options->name);
    return CMD_USAGE;
}
