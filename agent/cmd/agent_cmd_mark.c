/* `procfleet-agent mark`: a moment with a name, in the recordings that are made of this host. */
#include <stdio.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/own/own.h"

static const struct opt opts[] = {
    {"run", 0, "ID", "the run that it belongs to", false},
};

static int mark(const struct opt_args *args);

const struct opt_command cmd_mark_opts = {
    .program = "procfleet-agent",
    .name = "mark",
    .brief = "mark a moment in the Windows traces that are being recorded here",
    .operands = "TEXT",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-agent mark 'before the upgrade'\n"
        "\nAs an event of the provider *procfleet, which 'procfleet-agent record' turns on; "
        "'procfleet-etl marks' and --since mark:TEXT read it. Exit codes: 0 marked, 1 "
        "nobody records it, 2 usage\n",
    .action = &(const struct opt_action){.judge = mark},
};

static int mark(const struct opt_args *args)
{
    struct own *own = NULL;
    char **words;
    enum err e;
    bool heard;

    (void)opt_operands(args, &words);
    e = own_open(&own);
    if (e) {
        return agent_cmd_fail(e, e == ERR_UNSUPPORTED
                                     ? "this system has no event tracing; 'procfleet run begin' "
                                       "marks the begin of a run at the collector"
                                     : err_text(e));
    }
    heard = own_listens(own);
    own_mark(own, str_make(words[0]), str_make(opt_value(args, "run")));
    own_close(own);
    if (!heard) {
        fprintf(stderr, "procfleet-agent: no session has turned on the provider *procfleet "
                        "(41bfdbd9-b56f-5500-9ad4-a4d50184f7d5)\n");
    }
    return heard ? AGENT_CMD_OK : AGENT_CMD_FAILED;
}
