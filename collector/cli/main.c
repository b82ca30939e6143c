/* procfleet, the operator's command line. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/cli.h"
#include "common/buf.h"
#include "common/os.h"

static const struct {
    const struct opt_command *usage;
    int (*run)(int argc, char **argv);
} commands[] = {
    {&cmd_hosts_usage, cmd_hosts},
    {&cmd_top_usage, cmd_top},
    {&cmd_ps_usage, cmd_ps},
    {&cmd_history_usage, cmd_history},
    {&cmd_events_usage, cmd_events},
    {&cmd_tail_usage, cmd_tail},
    {&cmd_tree_usage, cmd_tree},
    {&cmd_overview_usage, cmd_overview},
    {&cmd_coverage_usage, cmd_coverage},
};

#define COUNT (sizeof commands / sizeof *commands)

static void usages(const struct opt_command **out)
{
    for (size_t i = 0; i < COUNT; i++) {
        out[i] = commands[i].usage;
    }
}

static int print(void (*make)(struct buf *out), FILE *to, int code)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    make(&out);
    fputs(buf_cstr(&out), to);
    buf_fini(&out);
    return code;
}

static void help(struct buf *out)
{
    const struct opt_command *all[COUNT];

    usages(all);
    opt_print_commands(
        out, "procfleet", "what every process of the fleet does", all, COUNT,
        "  procfleet hosts\n"
        "  procfleet top --by cpu_time --since 1h\n"
        "  procfleet events --host 'lab-*' --since 10m\n"
        "\n"
        "Settings come from options or from PROCFLEET_COLLECTOR, PROCFLEET_EVENTS, PROCFLEET_CA,\n"
        "PROCFLEET_CERT, PROCFLEET_KEY and PROCFLEET_SERVER_NAME.\n"
        "Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable, 4 refused, 5 partial answer.\n"
        "'procfleet completion' prints bash completion; 'procfleet version' the version.\n");
}

static void completion(struct buf *out)
{
    const struct opt_command *all[COUNT];

    usages(all);
    opt_print_bash_completion(out, "procfleet", all, COUNT);
}

static int unknown(const char *word)
{
    const char *names[COUNT];
    const char *closest;

    for (size_t i = 0; i < COUNT; i++) {
        names[i] = commands[i].usage->name;
    }
    closest = opt_closest(word, names, COUNT);
    fprintf(stderr, "procfleet: there is no command '%s'%s%s%s\n", word,
            closest ? "; did you mean '" : "",
            closest ? closest : "; 'procfleet --help' lists them", closest ? "'?" : "");
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    enum err e = os_args(&argc, &argv);
    const char *word = argc > 1 ? argv[1] : NULL;

    if (e) {
        fprintf(stderr, "procfleet: %s\n", err_text(e));
        return CLI_FAILED;
    }
    if (!word) {
        return print(help, stderr, CLI_USAGE);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        return print(help, stdout, CLI_OK);
    }
    if (strcmp(word, "completion") == 0) {
        return print(completion, stdout, CLI_OK);
    }
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
        puts("procfleet " PROCFLEET_VERSION);
        return CLI_OK;
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(word, commands[i].usage->name) == 0) {
            return commands[i].run(argc - 2, argv + 2);
        }
    }
    return unknown(word);
}
