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
