#include <stdio.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/doctor/doctor.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/check/check_result.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define CONNECT_NS  (5 * CLK_S)
#define SENDING_MAX (1u << 20)

static const struct opt opts[] = {
    AGENT_CMD_CONF_OPTS,
    {"fix", 0, NULL, "stop trace sessions that a killed agent of ours has left behind (Windows)",
     false},
    {"facts", 0, NULL,
     "also try what only a real Windows machine can confirm: starts trace sessions of its own and "
     "some thousand processes, takes some minutes; ends with a block to send",
     false},
    {"dump", 0, "DIR", "with --facts: write the tables, records and calls of the trials there",
     false},
    {"anonymous", 0, NULL,
     "with --facts: cover this user, host and domain, homes and domains' SIDs in what is written",
     false},
    {"format", 'f', "text|json|csv", "how it is printed; default text", false},
};

static int cmd_doctor(const struct opt_args *args);

const struct opt_command cmd_doctor_opts = {
    .program = "procfleet-agent",
    .name = "doctor",
    .brief = "check what the agent needs on this host, and say how to mend what is missing",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-agent doctor --config /etc/procfleet/agent.yaml\n"
                "  procfleet-agent doctor -c agent.yaml --format json\n"
                "  procfleet-agent doctor --facts --dump facts --anonymous\n"
                "\nExit codes: 0 nothing failed (there may be warnings), 1 something failed, 2 "
                "usage,\n3 only the collector failed: not reached, 4 only the collector failed: "
                "refused\n",
    .action = &(const struct opt_action){.judge = cmd_doctor},
};

static int exit_code(enum err e)
{
    switch (e) {
    case ERR_OK:
        return AGENT_CMD_OK;
    case ERR_UNREACHABLE:
        return AGENT_CMD_UNREACHABLE;
    case ERR_TRUST:
        return AGENT_CMD_REFUSED;
    default:
        return AGENT_CMD_FAILED;
    }
}

/* What is printed, and once more in short, to be sent. */
struct sending {
    struct check_result_print *report;
    struct buf lines; /* empty: nothing is to be sent */
    bool wanted;
};

static void on_found(void *ctx, const struct check_result *f)
{
    struct sending *s = ctx;

    check_result_print_found(s->report, f);
    if (s->wanted && strncmp(f->check, "fact", 4) == 0) {
        buf_printf(&s->lines, "%s %s: ", f->check, check_result_state_text(f->state));
        humanize_text(&s->lines, str_make(f->detail));
        buf_put_str(&s->lines, "\n");
    }
}

static void print_block(FILE *to, struct sending *s)
{
    fprintf(to,
            "\n----- send this (look it over first: --anonymous covers names) -----\n"
            "procfleet-agent %s\n%s----- end -----\n",
            PROCFLEET_VERSION, buf_cstr(&s->lines));
}

static int examine(const struct doctor_conf *what, struct check_result_print *report)
{
    struct sending sending = {.report = report, .wanted = what->facts};
    struct findings all = {.found = on_found, .ctx = &sending};
    bool people = report->sheet == NULL;
    enum err e, written;

    buf_init(&sending.lines, SENDING_MAX);
    e = doctor_run(&all, what);
    written = check_result_print_end(report, &all);
    if (sending.wanted && people && !written) {
        print_block(stdout, &sending);
        written = fflush(stdout) ? ERR_IO : ERR_OK;
    }
    buf_fini(&sending.lines);
    return written ? agent_cmd_fail(ERR_IO, "cannot write the report") : exit_code(e);
}

static enum err open_report(struct check_result_print *report, const char *name, struct errmsg *why)
{
    enum table_format format = TABLE_AS_TABLE;

    if (name && strcmp(name, "csv") == 0) {
        format = TABLE_AS_CSV;
    } else if (name && strcmp(name, "json") == 0) {
        format = TABLE_AS_JSON;
    } else if (name && strcmp(name, "text") != 0) {
        return errmsg_set(why, ERR_USAGE, "--format %s: expected text, json or csv", name);
    }
    return check_result_print_begin(report, format) ? errmsg_set(why, ERR_NOMEM, "out of memory")
                                                    : ERR_OK;
}

static int cmd_doctor(const struct opt_args *args)
{
    struct agent_conf conf;
    struct check_result_print report = {.sheet = NULL};
    struct doctor_conf what = {.conf = &conf, .now_ns = os_utc_ns(), .connect_ns = CONNECT_NS};
    struct errmsg why = {""};
    enum err e;
    int code;

    e = open_report(&report, opt_value(args, "format"), &why);
    if (!e) {
        e = agent_cmd_settings(&conf, args, &why);
    }
    what.fix = opt_flag(args, "fix");
    what.facts = opt_flag(args, "facts");
    what.dump = opt_value(args, "dump");
    what.anonymous = opt_flag(args, "anonymous");
    if (!e && !what.facts && (what.dump || what.anonymous)) {
        e = errmsg_set(&why, ERR_USAGE, "--dump and --anonymous belong to --facts");
        agent_conf_fini(&conf);
    }
    if (e) {
        table_end(report.sheet);
        return agent_cmd_fail(e, why.text);
    }
    code = examine(&what, &report);
    agent_conf_fini(&conf);
    return code;
}
