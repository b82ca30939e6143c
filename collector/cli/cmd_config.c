#include "collector/cli/cli.h"
#include "collector/cli/profile.h"
#include "common/text/humanize.h"

static const struct opt show_opts[] = {
    CLI_OPT_HOST,
    {"events", 0, "HOST[:PORT]",
     "event stream to follow (PROCFLEET_EVENTS; port 7422 of the collector's host)", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command show_usage = {
    .program = "procfleet config",
    .name = "show",
    .brief = "print every setting and where its value is from",
    .opts = show_opts,
    .n_opts = sizeof show_opts / sizeof *show_opts,
    .examples = "  procfleet config show\n"
                "  procfleet config show --profile lab --format json\n",
};

static const struct opt_command sample_usage = {
    .program = "procfleet config",
    .name = "sample",
    .brief = "print a configuration file with every key and its meaning",
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n",
};

static const struct opt_command *const subs[] = {&show_usage, &sample_usage};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "config",
    .brief = "profiles: which collector to ask, and with which certificate",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n"
                "  procfleet config show --profile lab\n",
};

static const struct table_column columns[] = {
    {"setting", "SETTING", TABLE_TEXT},
    {"value", "VALUE", TABLE_TEXT},
    {"from", "FROM", TABLE_TEXT},
};

static int config_show(struct cli *c)
{
    const struct profile *p = c->profile;
    char from[PROFILE_FROM_TEXT];
    struct table *sheet = NULL;
    enum err e = cli_table(c, &sheet, false, columns, 3, NULL);

    for (int s = 0; s < PROFILE_SETTINGS && !e; s++) {
        const char *value = profile_value(p, (enum profile_setting)s);
        struct table_cell cells[3] = {
            table_string(str_make(profile_name((enum profile_setting)s))),
            value ? table_string(str_make(value)) : table_number(false, 0),
            table_string(str_make(profile_from(p, (enum profile_setting)s, from, sizeof from)))};

        e = table_row(sheet, cells);
    }
    table_end(sheet);
    if (!e && c->format == TABLE_AS_TABLE) {
        humanize_line(stdout, "profile: %s; file: %s",
                      profile_chosen(p) ? profile_chosen(p) : "none",
                      profile_file(p) ? profile_file(p) : "none");
    }
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
}

/* Needs no settings: it is what helps when they cannot be read. */
static int config_sample(struct cli *c)
{
    struct buf out;

    (void)c;
    buf_init(&out, 1u << 14);
    profile_print_sample(&out);
    fputs(buf_cstr(&out), stdout);
    buf_fini(&out);
    return CLI_OK;
}

static const struct cli_command commands[] = {
    {&show_usage, config_show, CLI_NEEDS_SETTINGS, NULL},
    {&sample_usage, config_sample, CLI_NEEDS_NOTHING, NULL}};

const struct cli_command cmd_config = {&usage, NULL, CLI_NEEDS_NOTHING, commands};
