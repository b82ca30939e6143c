#include "collector/cli/cli.h"
#include "collector/cli/profile.h"
#include "common/text/human.h"

#include "common/text/human.h"
static const struct opt show_opts[] = {
#include "common/text/human.h"
    CLI_OPT_HOST,
#include "common/text/human.h"
    {"events", 0, "HOST[:PORT]",
#include "common/text/human.h"
     "event stream to follow (PROCFLEET_EVENTS; port 7422 of the collector's host)", 0},
#include "common/text/human.h"
    CLI_OPTS_CONNECTION,
#include "common/text/human.h"
};
#include "common/text/human.h"

#include "common/text/human.h"
static const struct opt_command show_usage = {
#include "common/text/human.h"
    .program = "procfleet config",
#include "common/text/human.h"
    .name = "show",
#include "common/text/human.h"
    .brief = "print every setting and where its value is from",
#include "common/text/human.h"
    .opts = show_opts,
#include "common/text/human.h"
    .n_opts = sizeof show_opts / sizeof *show_opts,
#include "common/text/human.h"
    .examples = "  procfleet config show\n"
#include "common/text/human.h"
                "  procfleet config show --profile lab --format json\n",
#include "common/text/human.h"
};
#include "common/text/human.h"

#include "common/text/human.h"
static const struct opt_command sample_usage = {
#include "common/text/human.h"
    .program = "procfleet config",
#include "common/text/human.h"
    .name = "sample",
#include "common/text/human.h"
    .brief = "print a configuration file with every key and its meaning",
#include "common/text/human.h"
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n",
#include "common/text/human.h"
};
#include "common/text/human.h"

#include "common/text/human.h"
static const struct opt_command *const subs[] = {&show_usage, &sample_usage};
#include "common/text/human.h"

#include "common/text/human.h"
const struct opt_command cmd_config_usage = {
#include "common/text/human.h"
    .program = "procfleet",
#include "common/text/human.h"
    .name = "config",
#include "common/text/human.h"
    .brief = "profiles: which collector to ask, and with which certificate",
#include "common/text/human.h"
    .operands = "COMMAND",
#include "common/text/human.h"
    .subs = subs,
#include "common/text/human.h"
    .n_subs = sizeof subs / sizeof *subs,
#include "common/text/human.h"
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n"
#include "common/text/human.h"
                "  procfleet config show --profile lab\n",
#include "common/text/human.h"
};
#include "common/text/human.h"

#include "common/text/human.h"
static const struct sheet_column columns[] = {
#include "common/text/human.h"
    {"setting", "SETTING", SHEET_TEXT},
#include "common/text/human.h"
    {"value", "VALUE", SHEET_TEXT},
#include "common/text/human.h"
    {"from", "FROM", SHEET_TEXT},
#include "common/text/human.h"
};
#include "common/text/human.h"

#include "common/text/human.h"
static int show(struct cli *c)
#include "common/text/human.h"
{
#include "common/text/human.h"
    const struct profile *p = c->profile;
#include "common/text/human.h"
    char from[PROFILE_FROM_TEXT];
#include "common/text/human.h"
    struct sheet *sheet = NULL;
#include "common/text/human.h"
    enum err e = cli_sheet(c, &sheet, false, columns, 3, NULL);
#include "common/text/human.h"

#include "common/text/human.h"
    for (int s = 0; s < PROFILE_SETTINGS && !e; s++) {
#include "common/text/human.h"
        const char *value = profile_value(p, (enum profile_setting)s);
#include "common/text/human.h"
        struct sheet_cell cells[3] = {
#include "common/text/human.h"
            sheet_string(str_make(profile_name((enum profile_setting)s))),
#include "common/text/human.h"
            value ? sheet_string(str_make(value)) : sheet_number(false, 0),
#include "common/text/human.h"
            sheet_string(str_make(profile_from(p, (enum profile_setting)s, from, sizeof from)))};
#include "common/text/human.h"

#include "common/text/human.h"
        e = sheet_row(sheet, cells);
#include "common/text/human.h"
    }
#include "common/text/human.h"
    sheet_end(sheet);
#include "common/text/human.h"
    if (!e && c->format == SHEET_AS_TABLE) {
#include "common/text/human.h"
        human_line(stdout, "profile: %s; file: %s", profile_chosen(p) ? profile_chosen(p) : "none",
#include "common/text/human.h"
                   profile_file(p) ? profile_file(p) : "none");
#include "common/text/human.h"
    }
#include "common/text/human.h"
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
#include "common/text/human.h"
}
#include "common/text/human.h"

#include "common/text/human.h"
/* It reads no settings: it is the remedy when they cannot be read. */
#include "common/text/human.h"
static int sample(int argc, char **argv)
#include "common/text/human.h"
{
#include "common/text/human.h"
    struct cli c = {.cmd = &sample_usage};
#include "common/text/human.h"
    struct errmsg why = {""};
#include "common/text/human.h"
    struct buf out;
#include "common/text/human.h"

#include "common/text/human.h"
    if (opt_parse(&c.args, c.cmd, argc, argv, &why) != ERR_OK) {
#include "common/text/human.h"
        return cli_fail(&c, CLI_USAGE, "%s", why.text);
#include "common/text/human.h"
    }
#include "common/text/human.h"
    buf_init(&out, 1u << 14);
#include "common/text/human.h"
    if (opt_flag(c.args, "help")) {
#include "common/text/human.h"
        opt_print_help(&out, c.cmd);
#include "common/text/human.h"
    } else {
#include "common/text/human.h"
        profile_print_sample(&out);
#include "common/text/human.h"
    }
#include "common/text/human.h"
    opt_free(c.args);
#include "common/text/human.h"
    fputs(buf_cstr(&out), stdout);
#include "common/text/human.h"
    buf_fini(&out);
#include "common/text/human.h"
    return fflush(stdout) == 0 && !ferror(stdout)
#include "common/text/human.h"
               ? CLI_OK
#include "common/text/human.h"
               : cli_fail(&c, CLI_FAILED, "cannot write the answer");
#include "common/text/human.h"
}
#include "common/text/human.h"

#include "common/text/human.h"
int cmd_config(int argc, char **argv)
#include "common/text/human.h"
{
#include "common/text/human.h"
    int code = CLI_USAGE;
#include "common/text/human.h"
    const struct opt_command *chosen = opt_choose(&cmd_config_usage, argc, argv, &code);
#include "common/text/human.h"

#include "common/text/human.h"
    if (!chosen) {
#include "common/text/human.h"
        return code;
#include "common/text/human.h"
    }
#include "common/text/human.h"
    return chosen == &show_usage ? cli_local(chosen, argc - 1, argv + 1, show)
#include "common/text/human.h"
                                 : sample(argc - 1, argv + 1);
#include "common/text/human.h"
}
#include "common/text/human.h"
