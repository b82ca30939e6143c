/* `procfleet-agent etl`: readers of recordings do not belong into a service, so they are a program
 * of their own beside this one, which is started in its place with the same arguments. */
#include <stdio.h>

#include "agent/cmd/agent_cmd.h"
#include "common/os/os_program.h"

#define PROGRAM "procfleet-etl"

static int etl_run(char **argv)
{
    struct errmsg why = {""};
    int code = AGENT_CMD_FAILED;
    enum err e = os_program_run(PROGRAM, argv, &code, &why);

    if (e == ERR_NOTFOUND) {
        fprintf(stderr,
                "procfleet-agent: %s; it comes with the agent: install the package again, or put "
                "it beside procfleet-agent\n",
                why.text);
        return AGENT_CMD_FAILED;
    }
    return e ? agent_cmd_fail(e, why.text) : code;
}

/* With the command's own name, too. */
static int etl_run_named(char **argv)
{
    return etl_run(argv - 1);
}

const struct opt_command cmd_etl_opts = {
    .program = "procfleet-agent",
    .name = "etl",
    .brief = "look at recorded Windows traces (.etl, .etl.xz) right here",
    .operands = "ARGUMENT...",
    .examples = "  procfleet-agent etl summary trace.etl.xz\n"
                "\nIt starts procfleet-etl, which lies beside it, with the same arguments; "
                "'procfleet-etl --help' lists the commands\n",
    .elsewhere = PROGRAM,
    .action = &(const struct opt_action){.raw = etl_run},
};

const struct opt_command cmd_session_opts = {
    .program = "procfleet-agent",
    .name = "session",
    .brief = "what trace sessions there are, and what the agent here collects",
    .operands = "ARGUMENT...",
    .examples = "  procfleet-agent session list\n"
                "  procfleet-agent session level L3 --for 5min\n"
                "\nIt starts 'procfleet-etl session', which lies beside it, with the same "
                "arguments\n",
    .elsewhere = PROGRAM " session",
    .action = &(const struct opt_action){.raw = etl_run_named},
};

const struct opt_command cmd_record_opts = {
    .program = "procfleet-agent",
    .name = "record",
    .brief = "record a Windows trace of this host into files",
    .operands = "ARGUMENT...",
    .examples = "  procfleet-agent record -o slow --profile cpu,disk --for 30s --stacks\n"
                "\nIt starts 'procfleet-etl record', which lies beside it, with the same "
                "arguments\n",
    .elsewhere = PROGRAM " record",
    .action = &(const struct opt_action){.raw = etl_run_named},
};
