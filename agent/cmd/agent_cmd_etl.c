/* `procfleet-agent etl`: recorded traces looked at on the spot, without a collector. The
 * subcommands are in agent/etl; here is who is called, and what the exit code says. */
#include <errno.h>
#include <stdio.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/etl/etl_job.h"

static const struct {
    const struct opt_command *opts;
    enum err (*run)(struct etl_job *job, struct errmsg *why);
} subcommands[] = {
    {&info_opts, etl_info_run},           {&summary_opts, etl_summary_run},
    {&processes_opts, etl_processes_run}, {&threads_opts, etl_threads_run},
    {&events_opts, etl_events_run},       {&processes_top_opts, etl_processes_top_run},
    {&layouts_opts, etl_layouts_run},
};

#define SUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static const struct opt_command *const subs[SUBCOMMANDS] = {
    &info_opts,   &summary_opts,       &processes_opts, &threads_opts,
    &events_opts, &processes_top_opts, &layouts_opts,
};

static const char examples[] =
    "  procfleet-agent etl info trace.etl\n"
    "  procfleet-agent etl summary trace.etl.xz --format json\n"
    "  procfleet-agent etl top trace.etl --by disk\n"
    "  procfleet-agent etl events trace.etl --provider 'Microsoft-Windows-Kernel-*' --limit 20\n"
    "\nExit codes: 0 ok, 1 a file could not be read, 2 usage, 5 stopped before the end\n";

const struct opt_command cmd_etl_opts = {
    .program = "procfleet-agent",
    .name = "etl",
    .brief = "look at recorded Windows traces (.etl, .etl.xz) right here",
    .operands = "COMMAND FILE...",
    .subs = subs,
    .n_subs = SUBCOMMANDS,
    .examples = examples,
};

/* A reader that went away, as `head` does, is no failure. */
static int judge(struct etl_job *job)
{
    int error;

    if (fflush(job->out) != 0 || !etl_job_out_ok(job)) {
        error = job->out_failed ? job->out_errno : errno;
        if (error == EPIPE) {
            return AGENT_CMD_OK;
        }
        return agent_cmd_fail(ERR_IO, "the output could not be written");
    }
    if (job->failed) {
        return job->failed == ERR_USAGE ? AGENT_CMD_USAGE : AGENT_CMD_FAILED;
    }
    return job->partial ? AGENT_CMD_PARTIAL : AGENT_CMD_OK;
}

static int run(size_t i, int argc, char **argv)
{
    struct etl_job job = {.stopped = agent_cmd_stopped, .no_files = !subcommands[i].opts->operands};
    struct errmsg why = {""};
    struct opt_args *args;
    enum err e;
    int code;

    agent_cmd_parse(&args, &code, subcommands[i].opts, argc, argv);
    if (!args) {
        return code;
    }
    e = etl_job_begin(&job, args, &why);
    if (!e) {
        e = agent_cmd_catch_stop(&why);
    }
    if (!e) {
        e = subcommands[i].run(&job, &why);
    }
    code = e ? agent_cmd_fail(e, why.text) : judge(&job);
    opt_free(args);
    return code;
}

int agent_cmd_etl(int argc, char **argv)
{
    int code = AGENT_CMD_USAGE;
    const struct opt_command *chosen = opt_choose(&cmd_etl_opts, argc, argv, &code);

    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        if (subcommands[i].opts == chosen) {
            return run(i, argc - 1, argv + 1);
        }
    }
    return code;
}
