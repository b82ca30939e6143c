/* `procfleet-agent status`: what the agent that runs with these settings says of itself in
 * status.json, and whether that is well. */
#include <stdio.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/status/status_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/humanize.h"
#include "common/text/table.h"

static const struct opt opts[] = {
    AGENT_CMD_CONF_OPTS,
    {"format", 'f', "text|json|csv", "how it is printed; default text", false},
};

static int status_run(const struct opt_args *args);

const struct opt_command cmd_status_opts = {
    .program = "procfleet-agent",
    .name = "status",
    .brief = "say what the running agent does: connected or why not, what waits, what it lost",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-agent status --config /etc/procfleet/agent.yaml\n"
                "  procfleet-agent status -c agent.yaml --format json\n"
                "\nRun it as the agent's user. Exit codes: 0 it runs and the collector takes its "
                "data, 1 it\n"
                "does not run or is silent, 2 usage, 3 the collector is not reached or no batch "
                "gets\n"
                "through, 4 the collector refuses it. 'doctor' says what to do about it.\n",
    .action = &(const struct opt_action){.judge = status_run},
};

static const char *const lives[] = {
    [STATUS_NEVER] = "never",   [STATUS_RUNS] = "runs",   [STATUS_SILENT] = "silent",
    [STATUS_KILLED] = "killed", [STATUS_ENDED] = "ended",
};

static const struct table_column columns[] = {
    {"state", "STATE", TABLE_STATE},
    {"host", "HOST", TABLE_TEXT},
    {"pid", "PID", TABLE_ID},
    {"version", "VERSION", TABLE_TEXT},
    {"started_time", "STARTED", TABLE_TIME},
    {"written_time", "WRITTEN", TABLE_TIME},
    {"uplink", "UPLINK", TABLE_TEXT},
    {"uplink_since_time", "SINCE", TABLE_TIME},
    {"why", "WHY", TABLE_TEXT},
    {"breaks", "BREAKS", TABLE_COUNT},
    {"queued_batches", "QUEUED", TABLE_COUNT},
    {"queued_bytes", "BYTES", TABLE_BYTES},
    {"dropped_batches", "DROPPED", TABLE_COUNT},
    {"aside_batches", "ASIDE", TABLE_COUNT},
    {"aside_broken_batches", "BROKEN", TABLE_COUNT},
    {"lost_hour", "LOST 1H", TABLE_COUNT},
    {"lost", "LOST", TABLE_COUNT},
    {"level", "LEVEL", TABLE_ID},
    {"source", "SOURCE", TABLE_TEXT},
    {"polled", "POLLED", TABLE_FLAG},
    {"certificate_end_time", "CERTIFICATE", TABLE_TIME},
    {"certificate_days", "DAYS", TABLE_ID},
    {"renew_why", "RENEWAL", TABLE_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)

static enum err print_row(const struct status *s, enum status_life life, enum table_format how)
{
    bool told = life != STATUS_NEVER, certified = s->certificate_end_ns != 0;
    const struct table_cell cells[COLUMNS] = {
        table_string(str_make(lives[life])),
        table_string(str_make(s->host)),
        table_number(told, s->pid),
        table_string(str_make(s->version)),
        table_number(told, s->started_ns),
        table_number(told, s->written_ns),
        table_string(str_make(s->uplink)),
        table_number(told, s->uplink_since_ns),
        table_string(str_make(strcmp(s->uplink, "connected") == 0 ? "" : s->why)),
        table_number(told, (int64_t)s->breaks),
        table_number(told, (int64_t)s->queue_held),
        table_number(told, (int64_t)s->queue_bytes),
        table_number(told, (int64_t)s->queue_dropped),
        table_number(told, (int64_t)s->aside_held),
        table_number(told, (int64_t)s->aside_broken),
        table_number(told, (int64_t)status_missing(s, false)),
        table_number(told, (int64_t)status_missing(s, true)),
        table_number(told, s->level),
        table_string(str_make(s->source)),
        table_number(told, s->polled),
        table_number(certified, s->certificate_end_ns),
        table_number(certified, status_days(s, os_utc_ns())),
        table_string(str_make(s->renew_why)),
    };
    struct table *sheet;
    enum err e = table_begin(&sheet, stdout, how, false, columns, COLUMNS);

    if (!e) {
        e = table_row(sheet, cells);
        table_end(sheet);
    }
    return e;
}

static void print_text(const struct status *s, enum status_life life, const char *dir)
{
    char when[CLK_TEXT];
    struct buf text;

    buf_init(&text, 8192);
    (void)clk_format_utc(when, sizeof when, life == STATUS_RUNS ? s->started_ns : s->written_ns, 0);
    switch (life) {
    case STATUS_RUNS:
        buf_printf(&text, "agent     runs since %s, process %u\n", when, (unsigned)s->pid);
        break;
    case STATUS_SILENT:
        buf_printf(&text,
                   "agent     runs, but has told nothing of itself since %s; what it said:\n",
                   when);
        break;
    case STATUS_KILLED:
        buf_printf(&text, "agent     does not run: it did not end in good order, at about %s\n",
                   when);
        break;
    case STATUS_ENDED:
        buf_printf(&text, "agent     does not run: it ended in good order at %s\n", when);
        break;
    default:
        buf_put_str(&text, "agent     none has told of itself in ");
        humanize_text(&text, str_make(dir));
        buf_put_u8(&text, '\n');
        break;
    }
    if (life == STATUS_RUNS || life == STATUS_SILENT) {
        status_print(&text, s);
    }
    fputs(buf_cstr(&text), stdout);
    buf_fini(&text);
}

static int exit_code(const struct status *s, enum status_life life)
{
    if (life != STATUS_RUNS) {
        return AGENT_CMD_FAILED;
    }
    return strcmp(s->uplink, "connected") == 0 ? AGENT_CMD_OK
           : strcmp(s->uplink, "refused") == 0 ? AGENT_CMD_REFUSED
                                               : AGENT_CMD_UNREACHABLE;
}

static int tell(const char *dir, const char *format)
{
    struct status *s = mem_zalloc(sizeof *s);
    enum status_life life = STATUS_NEVER;
    enum err e = s ? status_file_read(s, dir) : ERR_NOMEM;
    int code = AGENT_CMD_FAILED;

    if (e && e != ERR_NOTFOUND) {
        struct errmsg why;

        err_ignore(errmsg_set(&why, e, STATUS_FILE " in %s cannot be read: %s%s", dir, err_text(e),
                              e == ERR_ACCESS ? "; run this as the agent's user" : ""));
        code = agent_cmd_fail(e, why.text);
    } else {
        life = status_life(s, status_file_locked(dir), os_utc_ns());
        code = exit_code(s, life);
        if (!format || strcmp(format, "text") == 0) {
            print_text(s, life, dir);
        } else if (print_row(s, life, strcmp(format, "csv") == 0 ? TABLE_AS_CSV : TABLE_AS_JSON)) {
            code = agent_cmd_fail(ERR_IO, "cannot write");
        }
    }
    mem_free(s);
    return code;
}

static int status_run(const struct opt_args *args)
{
    struct agent_conf conf;
    struct errmsg why = {""};
    enum err e = agent_cmd_settings(&conf, args, &why);
    int code;

    if (e) {
        return agent_cmd_fail(e, why.text);
    }
    code = tell(conf.state_dir, opt_value(args, "format"));
    agent_conf_fini(&conf);
    return code;
}
