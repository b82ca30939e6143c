/* procfleet-collector: one subcommand each in cmd_*.c. */
#include <stdio.h>
#include <string.h>

#include "collector/cmd.h"
#include "collector/collector_conf.h"

static int cmd_config_sample(int argc, char **argv);
static int cmd_version(int argc, char **argv);
static int cmd_completion(int argc, char **argv);

/* Those without a table of options of their own. */
static const struct opt_command config_sample = {
    .program = "procfleet-collector",
    .name = "config-sample",
    .brief = "print a configuration file with every key, its default and its meaning",
    .examples = "  procfleet-collector config-sample >collector.yaml\n",
};
static const struct opt_command version = {
    .program = "procfleet-collector",
    .name = "version",
    .brief = "print the version",
};
static const struct opt_command completion = {
    .program = "procfleet-collector",
    .name = "completion",
    .brief = "print bash completion",
    .examples = "  . <(procfleet-collector completion)\n",
};

static const struct opt_command *const commands[] = {
    &cmd_run_options, &cmd_pki_options, &cmd_store_options, &cmd_doctor_options,
    &config_sample,   &version,         &completion};

static int (*const mains[])(int, char **) = {
    cmd_run, cmd_pki, cmd_store, cmd_doctor, cmd_config_sample, cmd_version, cmd_completion};

#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print(struct buf *out)
{
    fputs(buf_cstr(out), stdout);
    buf_fini(out);
}

/* Parses a command that takes nothing; true: go on, else *code is the result. */
static bool nothing_else(const struct opt_command *cmd, int argc, char **argv, int *code)
{
    struct opt_args *args = NULL;
    struct errmsg why = {""};
    struct buf out;
    bool go_on = false;

    *code = 0;
    if (opt_parse(&args, cmd, argc - 1, argv + 1, &why)) {
        fprintf(stderr, "procfleet-collector %s: %s\n", cmd->name, why.text);
        *code = 2;
    } else if (opt_flag(args, "help")) {
        buf_init(&out, 1u << 20);
        opt_print_help(&out, cmd);
        print(&out);
    } else {
        go_on = true;
    }
    opt_free(args);
    return go_on;
}

static int cmd_config_sample(int argc, char **argv)
{
    struct buf out;
    size_t n;
    const struct conf_key *keys = collector_conf_keys(&n);
    int code;

    if (nothing_else(&config_sample, argc, argv, &code)) {
        buf_init(&out, 1u << 20);
        conf_print_sample(&out, keys, n, "procfleet-collector");
        print(&out);
    }
    return code;
}

static int cmd_version(int argc, char **argv)
{
    int code;

    if (nothing_else(&version, argc, argv, &code)) {
        printf("procfleet-collector %s\n", PROCFLEET_VERSION);
    }
    return code;
}

static int cmd_completion(int argc, char **argv)
{
    struct buf out;
    int code;

    if (nothing_else(&completion, argc, argv, &code)) {
        buf_init(&out, 1u << 20);
        opt_print_bash_completion(&out, "procfleet-collector", commands, N_COMMANDS);
        print(&out);
    }
    return code;
}

static void help(void)
{
    struct buf out;

    buf_init(&out, 1u << 20);
    opt_print_commands(
        &out, "procfleet-collector",
        "Collects what the agents of a fleet report, keeps it, and answers questions.", commands,
        N_COMMANDS,
        "  procfleet-collector pki init --dir /etc/procfleet/pki\n"
        "  procfleet-collector run --config /etc/procfleet/collector.yaml\n");
    print(&out);
}

int main(int argc, char **argv)
{
    const char *names[N_COMMANDS];
    const char *meant;

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        help();
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        return cmd_version(argc - 1, argv + 1);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (strcmp(argv[1], names[i]) == 0) {
            return mains[i](argc - 1, argv + 1);
        }
    }
    meant = opt_closest(argv[1], names, N_COMMANDS);
    fprintf(stderr, "procfleet-collector: no command \"%s\"%s%s%s; --help lists the commands\n",
            argv[1], meant ? ", did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
    return 2;
}
