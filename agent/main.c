#include <stdio.h>
#include <string.h>

#include "agent/cmd/cmd.h"
#include "common/net.h"
#include "common/os.h"

static int cmd_config_sample(int argc, char **argv);
static int cmd_completion(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct opt_command config_sample_opts = {
    .program = "procfleet-agent",
    .name = "config-sample",
    .brief = "print every setting with its default and meaning",
    .examples = "  procfleet-agent config-sample > agent.yaml\n",
};
static const struct opt_command completion_opts = {
    .program = "procfleet-agent",
    .name = "completion",
    .brief = "print the completion for bash",
    .examples = "  source <(procfleet-agent completion)\n",
};
static const struct opt_command version_opts = {
    .program = "procfleet-agent",
    .name = "version",
    .brief = "print the version",
};

static const struct {
    const struct opt_command *opts;
    int (*run)(int argc, char **argv);
} commands[] = {
    {&cmd_run_opts, cmd_run},           {&cmd_replay_opts, cmd_replay},
    {&cmd_etl_opts, cmd_etl},           {&cmd_watch_opts, cmd_watch},
    {&cmd_doctor_opts, cmd_doctor},     {&cmd_enroll_opts, cmd_enroll},
    {&cmd_service_opts, cmd_service},   {&cmd_show_wire_opts, cmd_show_wire},
    {&cmd_spool_opts, cmd_spool},       {&config_sample_opts, cmd_config_sample},
    {&completion_opts, cmd_completion}, {&version_opts, cmd_version},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static const char examples[] =
    "  procfleet-agent run --config /etc/procfleet/agent.yaml\n"
    "  procfleet-agent enroll --collector collector.example --token-file token.txt\n"
    "  procfleet-agent replay trace.etl.xz --config replay.yaml\n"
    "  procfleet-agent etl summary trace.etl.xz\n"
    "  procfleet-agent watch --name 'post*'\n"
    "\nExit codes: 0 ok, 1 failed, 2 usage, 3 collector unreachable, 4 refused, 5 stopped early\n";

static void all_commands(const struct opt_command *all[COMMANDS])
{
    for (size_t i = 0; i < COMMANDS; i++) {
        all[i] = commands[i].opts;
    }
}

/* Writes the page and releases it. */
static int print_page(struct buf *page)
{
    int code = page->bad ? CMD_FAILED : CMD_OK;

    fputs(buf_cstr(page), stdout);
    buf_fini(page);
    return code;
}

static int cmd_config_sample(int argc, char **argv)
{
    struct opt_args *args;
    const struct conf_key *keys;
    struct buf page;
    size_t n;
    int code;

    cmd_parse(&args, &code, &config_sample_opts, argc, argv);
    if (!args) {
        return code;
    }
    opt_free(args);
    buf_init(&page, 1u << 20);
    keys = agent_conf_keys(&n);
    conf_print_sample(&page, keys, n, "procfleet-agent");
    return print_page(&page);
}

static int cmd_completion(int argc, char **argv)
{
    const struct opt_command *all[COMMANDS];
    struct opt_args *args;
    struct buf page;
    int code;

    cmd_parse(&args, &code, &completion_opts, argc, argv);
    if (!args) {
        return code;
    }
    opt_free(args);
    buf_init(&page, 1u << 20);
    all_commands(all);
    opt_print_bash_completion(&page, "procfleet-agent", all, COMMANDS);
    return print_page(&page);
}

static int cmd_version(int argc, char **argv)
{
    struct opt_args *args;
    int code;

    cmd_parse(&args, &code, &version_opts, argc, argv);
    if (!args) {
        return code;
    }
    opt_free(args);
    puts("procfleet-agent " PROCFLEET_VERSION);
    return CMD_OK;
}

static int print_help(void)
{
    const struct opt_command *all[COMMANDS];
    struct buf page;

    buf_init(&page, 1u << 20);
    all_commands(all);
    opt_print_commands(&page, "procfleet-agent",
                       "watches the processes of a host and reports them to the collector", all,
                       COMMANDS, examples);
    return print_page(&page);
}

static int unknown_command(const char *word)
{
    const char *names[COMMANDS], *closest;
    struct errmsg why;

    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].opts->name;
    }
    closest = opt_closest(word, names, COMMANDS);
    return cmd_fail(errmsg_set(&why, ERR_USAGE, "unknown command '%s'%s%s%s; --help lists them",
                               word, closest ? "; did you mean '" : "", closest ? closest : "",
                               closest ? "'?" : ""),
                    why.text);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return argc < 2 ? (print_help(), CMD_USAGE) : print_help();
    }
    if (strcmp(argv[1], "--version") == 0) {
        return cmd_version(argc - 2, argv + 2);
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].opts->name) == 0) {
            return commands[i].run(argc - 2, argv + 2);
        }
    }
    return unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    struct errmsg why = {""};
    enum err e = os_args(&argc, &argv);
    int code;

    if (!e) {
        e = net_init(&why);
    }
    if (e) {
        return cmd_fail(e, why.text);
    }
    code = dispatch(argc, argv);
    net_fini();
    log_close();
    return code;
}
