#include "collector/cli/cli.h"
#include "collector/cli/profile.h"
#include "common/text/humanize.h"

#include "common/text/humanize.h"
static const struct opt show_opts[] = {
#include "common/text/humanize.h"
    CLI_OPT_HOST,
#include "common/text/humanize.h"
    {"events", 0, "HOST[:PORT]",
#include "common/text/humanize.h"
     "event stream to follow (PROCFLEET_EVENTS; port 7422 of the collector's host)", 0},
#include "common/text/humanize.h"
    CLI_OPTS_CONNECTION,
#include "common/text/humanize.h"
};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
static const struct opt_command show_usage = {
#include "common/text/humanize.h"
    .program = "procfleet config",
#include "common/text/humanize.h"
    .name = "show",
#include "common/text/humanize.h"
    .brief = "print every setting and where its value is from",
#include "common/text/humanize.h"
    .opts = show_opts,
#include "common/text/humanize.h"
    .n_opts = sizeof show_opts / sizeof *show_opts,
#include "common/text/humanize.h"
    .examples = "  procfleet config show\n"
#include "common/text/humanize.h"
                "  procfleet config show --profile lab --format json\n",
#include "common/text/humanize.h"
};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
static const struct opt_command sample_usage = {
#include "common/text/humanize.h"
    .program = "procfleet config",
#include "common/text/humanize.h"
    .name = "sample",
#include "common/text/humanize.h"
    .brief = "print a configuration file with every key and its meaning",
#include "common/text/humanize.h"
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n",
#include "common/text/humanize.h"
};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
static const struct opt_command *const subs[] = {&show_usage, &sample_usage};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
const struct opt_command cmd_config_usage = {
#include "common/text/humanize.h"
    .program = "procfleet",
#include "common/text/humanize.h"
    .name = "config",
#include "common/text/humanize.h"
    .brief = "profiles: which collector to ask, and with which certificate",
#include "common/text/humanize.h"
    .operands = "COMMAND",
#include "common/text/humanize.h"
    .subs = subs,
#include "common/text/humanize.h"
    .n_subs = sizeof subs / sizeof *subs,
#include "common/text/humanize.h"
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n"
#include "common/text/humanize.h"
                "  procfleet config show --profile lab\n",
#include "common/text/humanize.h"
};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
static const struct table_column columns[] = {
#include "common/text/humanize.h"
    {"setting", "SETTING", TABLE_TEXT},
#include "common/text/humanize.h"
    {"value", "VALUE", TABLE_TEXT},
#include "common/text/humanize.h"
    {"from", "FROM", TABLE_TEXT},
#include "common/text/humanize.h"
};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
static int show(struct cli *c)
#include "common/text/humanize.h"
{
#include "common/text/humanize.h"
    const struct profile *p = c->profile;
#include "common/text/humanize.h"
    char from[PROFILE_FROM_TEXT];
#include "common/text/humanize.h"
    struct table *sheet = NULL;
#include "common/text/humanize.h"
    enum err e = cli_table(c, &sheet, false, columns, 3, NULL);
#include "common/text/humanize.h"

#include "common/text/humanize.h"
    for (int s = 0; s < PROFILE_SETTINGS && !e; s++) {
#include "common/text/humanize.h"
        const char *value = profile_value(p, (enum profile_setting)s);
#include "common/text/humanize.h"
        struct table_cell cells[3] = {
#include "common/text/humanize.h"
            table_string(str_make(profile_name((enum profile_setting)s))),
#include "common/text/humanize.h"
            value ? table_string(str_make(value)) : table_number(false, 0),
#include "common/text/humanize.h"
            table_string(str_make(profile_from(p, (enum profile_setting)s, from, sizeof from)))};
#include "common/text/humanize.h"

#include "common/text/humanize.h"
        e = table_row(sheet, cells);
#include "common/text/humanize.h"
    }
#include "common/text/humanize.h"
    table_end(sheet);
#include "common/text/humanize.h"
    if (!e && c->format == TABLE_AS_TABLE) {
#include "common/text/humanize.h"
        humanize_line(stdout, "profile: %s; file: %s",
                      profile_chosen(p) ? profile_chosen(p) : "none",
#include "common/text/humanize.h"
                      profile_file(p) ? profile_file(p) : "none");
#include "common/text/humanize.h"
    }
#include "common/text/humanize.h"
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
#include "common/text/humanize.h"
}
#include "common/text/humanize.h"

#include "common/text/humanize.h"
/* It reads no settings: it is the remedy when they cannot be read. */
#include "common/text/humanize.h"
static int sample(int argc, char **argv)
#include "common/text/humanize.h"
{
#include "common/text/humanize.h"
    struct cli c = {.cmd = &sample_usage};
#include "common/text/humanize.h"
    struct errmsg why = {""};
#include "common/text/humanize.h"
    struct buf out;
#include "common/text/humanize.h"

#include "common/text/humanize.h"
    if (opt_parse(&c.args, c.cmd, argc, argv, &why) != ERR_OK) {
#include "common/text/humanize.h"
        return cli_fail(&c, CLI_USAGE, "%s", why.text);
#include "common/text/humanize.h"
    }
#include "common/text/humanize.h"
    buf_init(&out, 1u << 14);
#include "common/text/humanize.h"
    if (opt_flag(c.args, "help")) {
#include "common/text/humanize.h"
        opt_print_help(&out, c.cmd);
#include "common/text/humanize.h"
    } else {
#include "common/text/humanize.h"
        profile_print_sample(&out);
#include "common/text/humanize.h"
    }
#include "common/text/humanize.h"
    opt_free(c.args);
#include "common/text/humanize.h"
    fputs(buf_cstr(&out), stdout);
#include "common/text/humanize.h"
    buf_fini(&out);
#include "common/text/humanize.h"
    return fflush(stdout) == 0 && !ferror(stdout)
#include "common/text/humanize.h"
               ? CLI_OK
#include "common/text/humanize.h"
               : cli_fail(&c, CLI_FAILED, "cannot write the answer");
#include "common/text/humanize.h"
}
#include "common/text/humanize.h"

#include "common/text/humanize.h"
int cmd_config(int argc, char **argv)
#include "common/text/humanize.h"
{
#include "common/text/humanize.h"
    int code = CLI_USAGE;
#include "common/text/humanize.h"
    const struct opt_command *chosen = opt_choose(&cmd_config_usage, argc, argv, &code);
#include "common/text/humanize.h"

#include "common/text/humanize.h"
    if (!chosen) {
#include "common/text/humanize.h"
        return code;
#include "common/text/humanize.h"
    }
#include "common/text/humanize.h"
    return chosen == &show_usage ? cli_local(chosen, argc - 1, argv + 1, show)
#include "common/text/humanize.h"
                                 : sample(argc - 1, argv + 1);
#include "common/text/humanize.h"
}
#include "common/text/humanize.h"
