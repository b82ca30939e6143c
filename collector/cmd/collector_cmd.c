#include "collector/cmd/collector_cmd.h"

#include <stdio.h>
#include <string.h>

#include "collector/conf/collector_conf.h"
#include "common/base/clk.h"

const char *collector_cmd_conf_setting(size_t i)
{
    size_t n;
    const struct conf_key *keys = collector_conf_keys(&n);

    return i < n ? keys[i].key : NULL;
}

const struct opt_set cmd_conf_sets[] = {{"KEY=VALUE", collector_cmd_conf_setting}, {NULL, NULL}};

int collector_cmd_complain(const struct opt_command *cmd, enum err e, const char *text)
{
    fprintf(stderr, "procfleet-collector: %s\n", text[0] ? text : err_text(e));
    if (e == ERR_USAGE) {
        fprintf(stderr, "'%s %s --help' shows options and examples.\n", cmd->program, cmd->name);
    }
    return e == ERR_USAGE || e == ERR_INVALID ? COLLECTOR_CMD_USAGE : COLLECTOR_CMD_FAILED;
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
    return COLLECTOR_CMD_DONE;
}

const char *collector_cmd_value_or(const struct opt_args *a, const char *name,
                                   const char *otherwise)
{
    const char *v = opt_value(a, name);

    return v ? v : otherwise;
}

enum err collector_cmd_span(int64_t *ns, const char *option, const char *text, int64_t min_ns,
                            int64_t max_ns, const char *range, struct errmsg *why)
{
    int64_t v;

    if (clk_parse_span(&v, text) != ERR_OK || v < min_ns || v > max_ns) {
        return errmsg_set(why, ERR_USAGE, "--%s takes a span%s such as 90s, 1h or 30d, not '%s'",
                          option, range, text);
    }
    *ns = v;
    return ERR_OK;
}

enum err collector_cmd_format(enum table_format *format, const struct opt_args *a,
                              struct errmsg *why)
{
    static const struct {
        const char *name;
        enum table_format format;
    } formats[] = {
        {"table", TABLE_AS_TABLE},
        {"json", TABLE_AS_JSON},
        {"csv", TABLE_AS_CSV},
    };
    const char *name = collector_cmd_value_or(a, "format", "table");

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            *format = formats[i].format;
            return ERR_OK;
        }
    }
    return errmsg_set(why, ERR_USAGE, "--format takes table, json or csv, not '%s'", name);
}

enum err collector_cmd_table(struct table **out, const struct opt_args *a,
                             const struct table_column *columns, size_t n,
                             const char *const *yields, struct errmsg *why)
{
    enum table_format format;
    enum err e = collector_cmd_format(&format, a, why);

    if (!e) {
        e = table_begin(out, stdout, format, false, columns, n);
    }
    if (!e) {
        table_fit(*out, yields, opt_flag(a, "wide"));
    }
    return e;
}

int collector_cmd_with_options(const struct opt_command *cmd, int argc, char **argv,
                               int (*run)(const struct opt_args *a))
{
    struct opt_args *a;
    struct errmsg why = {""};
    enum err e = opt_parse(&a, cmd, argc, argv, &why);
    int code;

    if (e) {
        return collector_cmd_complain(cmd, e, why.text);
    }
    code = opt_flag(a, "help") ? help(cmd) : run(a);
    opt_free(a);
    return code;
}

/* -- commands of commands -- */

int collector_cmd_group_run(const struct collector_cmd_group *g, int argc, char **argv)
{
    int code = COLLECTOR_CMD_USAGE;
    const struct opt_command *chosen = opt_choose(g->options, argc - 1, argv + 1, &code);

    for (size_t i = 0; i < g->options->n_subs; i++) {
        if (g->options->subs[i] == chosen) {
            return g->mains[i](argc - 1, argv + 1);
        }
    }
    return code;
}
