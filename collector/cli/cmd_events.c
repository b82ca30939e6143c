#include "collector/cli/rows.h"

static const struct opt opts[] = {
    {"kind", 'k', "KIND,...",
     "only these kinds; process stands for process_start and process_stop, and so on; "
     "may be repeated (process,level,source)",
     1},
    {"ancestors", 0, NULL, "with the chain of parents", 0},
    CLI_OPTS_PROVIDER,
    {"limit", 'n', "N", "newest events shown (50)", 0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPTS_RANGE,
    CLI_OPTS_PROCESS,
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "events",
    .brief = "what started, ended or was loaded, and what the agents tell of themselves",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = fields_sets,
    .examples =
        "  procfleet events --since 10m\n"
        "  procfleet events --host lab-7 --name 'git*' -n 1000 --format json\n"
        "  procfleet events --kind image --pid 4711\n"
        "  procfleet events --kind level,source --since 1d\n"
        "  procfleet events --kind process_stop --where 'exit != 0 and life < 1s'\n"
        "  procfleet events --where 'ended == crash' --ancestors --since 1d\n"
        "  procfleet events --provider 'Microsoft-Windows-DNS-*' --event 3008 --since 1h\n"
        "  procfleet events --provider MyTool --where 'field.User ~ \"joe*\" and level < 3'\n"
        "\n"
        "Events of providers are those that hosts are set to send (events.providers).\n"
        "EXPR compares fields of processes and hosts and, of providers' events, provider, event,\n"
        "task, id, level, tid and field.NAME by == != < <= > >= ~ (pattern) and in, joined by\n"
        "and, or, not; docs/lab.md has the language.\n",
};

static int events_body(struct cli *c)
{
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};
    bool providers;

    if (cli_query(c, &q, 50, &why) != ERR_OK || fields_kinds_given(&q.kinds, c, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    cli_events(c, &q.events);
    providers = wire_events_named(&q.events) || q.kinds == 1u << LIFE_PROVIDER;
    fields_add(&f, FIELD_TIME, true);
    fields_add(&f, FIELD_HOST, true);
    fields_add(&f, FIELD_KIND, !providers);
    fields_add(&f, FIELD_PID, true);
    fields_add(&f, FIELD_TID, (q.kinds & (1u << LIFE_THREAD_START | 1u << LIFE_THREAD_STOP)) != 0);
    fields_add(&f, FIELD_PARENT_PID, !providers);
    fields_add(&f, FIELD_NAME, true);
    fields_add(&f, FIELD_EXIT_CODE, !providers);
    q.ancestors = opt_flag(c->args, "ancestors");
    if (q.ancestors) {
        fields_add(&f, FIELD_ANCESTORS, true);
    }
    fields_add(&f, FIELD_DETAIL, true);
    fields_add(&f, FIELD_PATH, false);
    fields_add(&f, FIELD_TEXT, false);
    fields_add_provider(&f);
    rows_add_details(&f);
    return rows_ask(c, RPC_QUERY_EVENTS, &q, &f, true,
                    "no such events in this range; --since looks further back", NULL);
}

const struct cli_command cmd_events = {&usage, events_body, CLI_NEEDS_COLLECTOR, NULL};
