#include "collector/cli/cli.h"
#include "collector/cli/profile.h"

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

const struct opt_command cmd_config_usage = {
    .program = "procfleet",
    .name = "config",
    .brief = "profiles: which collector to ask, and with which certificate",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet config sample > ~/.config/procfleet/config.yaml\n"
                "  procfleet config show --profile lab\n",
};

static const struct sheet_column columns[] = {
    {"setting", "SETTING", SHEET_TEXT},
    {"value", "VALUE", SHEET_TEXT},
    {"from", "FROM", SHEET_TEXT},
};

static int show(struct cli *c)
{
    const struct profile *p = c->profile;
    char from[PROFILE_FROM_TEXT];
    struct sheet *sheet = NULL;
    enum err e = cli_sheet(c, &sheet, false, columns, 3, NULL);

    for (int s = 0; s < PROFILE_SETTINGS && !e; s++) {
        const char *value = profile_value(p, (enum profile_setting)s);
        struct sheet_cell cells[3] = {
            sheet_string(str_make(profile_name((enum profile_setting)s))),
            value ? sheet_string(str_make(value)) : sheet_number(false, 0),
            sheet_string(str_make(profile_from(p, (enum profile_setting)s, from, sizeof from)))};

        e = sheet_row(sheet, cells);
    }
    sheet_end(sheet);
    if (!e && c->format == SHEET_AS_TABLE) {
        printf("profile: %s; file: %s\n", profile_chosen(p) ? profile_chosen(p) : "none",
               profile_file(p) ? profile_file(p) : "none");
    }
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
}

/* It reads no settings: it is the remedy when they cannot be read. */
static int sample(int argc, char **argv)
{
    struct cli c = {.cmd = &sample_usage};
    struct errmsg why = {""};
    struct buf out;

    if (opt_parse(&c.args, c.cmd, argc, argv, &why) != ERR_OK) {
        return cli_fail(&c, CLI_USAGE, "%s", why.text);
    }
    buf_init(&out, 1u << 14);
    if (opt_flag(c.args, "help")) {
        opt_print_help(&out, c.cmd);
    } else {
        profile_print_sample(&out);
    }
    opt_free(c.args);
    fputs(buf_cstr(&out), stdout);
    buf_fini(&out);
    return fflush(stdout) == 0 && !ferror(stdout)
               ? CLI_OK
               : cli_fail(&c, CLI_FAILED, "cannot write the answer");
}

int cmd_config(int argc, char **argv)
{
    int code = CLI_USAGE;
    const struct opt_command *chosen = opt_choose(&cmd_config_usage, argc, argv, &code);

    if (!chosen) {
        return code;
    }
    return chosen == &show_usage ? cli_local(chosen, argc - 1, argv + 1, show)
                                 : sample(argc - 1, argv + 1);
}
