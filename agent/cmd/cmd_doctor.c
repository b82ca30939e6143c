#include <stdio.h>
#include <string.h>

#include "agent/cmd/cmd.h"
#include "agent/doctor/doctor.h"
#include "common/clk.h"
#include "common/human.h"
#include "common/os.h"
#include "common/sheet.h"

#define CONNECT_NS (5 * CLK_S)

static const struct opt opts[] = {
    CMD_CONF_OPTS,
    {"fix", 0, NULL, "stop trace sessions that a killed agent of ours has left behind (Windows)",
     false},
    {"facts", 0, NULL,
     "also try what only a real Windows machine can confirm: starts trace sessions of its own and "
     "some processes, takes half a minute",
     false},
    {"format", 'f', "FORMAT", "text (default), json or csv", false},
};

const struct opt_command cmd_doctor_opts = {
    .program = "procfleet-agent",
    .name = "doctor",
    .brief = "check what the agent needs on this host, and say how to mend what is missing",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-agent doctor --config /etc/procfleet/agent.yaml\n"
                "  procfleet-agent doctor -c agent.yaml --format json\n"
                "\nExit codes: 0 nothing failed (there may be warnings), 1 something failed, 2 "
                "usage,\n3 only the collector failed: not reached, 4 only the collector failed: "
                "refused\n",
};

static const struct sheet_column columns[] = {
    {"check", "CHECK", SHEET_TEXT},
    {"state", "STATE", SHEET_TEXT},
    {"detail", "DETAIL", SHEET_TEXT},
    {"fix", "FIX", SHEET_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)

struct report {
    struct sheet *sheet; /* NULL: text */
    enum err e;
};

static void put_text(const char *label, const char *text)
{
    struct buf line;

    buf_init(&line, 8u << 10);
    human_text(&line, str_make(text));
    printf("%s%s\n", label, buf_cstr(&line));
    buf_fini(&line);
}

static void on_found(void *ctx, const struct doctor_finding *f)
{
    struct report *r = ctx;
    char label[64];

    if (r->sheet) {
        struct sheet_cell cells[COLUMNS] = {
            sheet_string(str_make(f->check)), sheet_string(str_make(doctor_state_text(f->state))),
            sheet_string(str_make(f->detail)), sheet_string(str_make(f->fix))};

        r->e = r->e ? r->e : sheet_row(r->sheet, cells);
        return;
    }
    (void)snprintf(label, sizeof label, "%-8s %-16s ", doctor_state_text(f->state), f->check);
    put_text(label, f->detail);
    if (f->fix[0]) {
        (void)snprintf(label, sizeof label, "%-8s %-16s fix: ", "", "");
        put_text(label, f->fix);
    }
    (void)fflush(stdout); /* the next check may take seconds */
}

static int exit_code(const struct report *r, const struct doctor_result *result)
{
    if (r->e || ferror(stdout) || fflush(stdout)) {
        return cmd_fail(ERR_IO, "cannot write the report");
    }
    switch (result->e) {
    case ERR_OK:
        return CMD_OK;
    case ERR_UNREACHABLE:
        return CMD_UNREACHABLE;
    case ERR_TRUST:
        return CMD_REFUSED;
    default:
        return CMD_FAILED;
    }
}

static int examine(struct doctor_conf what, struct report *r)
{
    struct doctor_result result;

    doctor_run(&result, &what);
    if (r->sheet) {
        sheet_end(r->sheet);
    } else {
        printf("\n%u ok, %u warnings, %u failed, %u skipped\n", result.count[DOCTOR_OK],
               result.count[DOCTOR_WARNING], result.count[DOCTOR_FAILED],
               result.count[DOCTOR_SKIPPED]);
    }
    return exit_code(r, &result);
}

static enum err open_report(struct report *r, const char *format, struct errmsg *why)
{
    enum sheet_format how = SHEET_AS_JSON;
    enum err e;

    if (!format || strcmp(format, "text") == 0) {
        return ERR_OK;
    }
    if (strcmp(format, "csv") == 0) {
        how = SHEET_AS_CSV;
    } else if (strcmp(format, "json") != 0) {
        return errmsg_set(why, ERR_USAGE, "--format %s: expected text, json or csv", format);
    }
    e = sheet_begin(&r->sheet, stdout, how, false, columns, COLUMNS);
    return e ? errmsg_set(why, e, "out of memory") : ERR_OK;
}

int cmd_doctor(int argc, char **argv)
{
    struct opt_args *args;
    struct agent_conf conf;
    struct report report = {0};
    struct doctor_conf what = {.conf = &conf,
                               .now_ns = os_utc_ns(),
                               .connect_ns = CONNECT_NS,
                               .found = on_found,
                               .ctx = &report};
    struct errmsg why = {""};
    enum err e;
    int code;

    cmd_parse(&args, &code, &cmd_doctor_opts, argc, argv);
    if (!args) {
        return code;
    }
    e = open_report(&report, opt_value(args, "format"), &why);
    if (!e) {
        e = cmd_settings(&conf, args, &why);
    }
    what.fix = opt_flag(args, "fix");
    what.facts = opt_flag(args, "facts");
    opt_free(args);
    if (e) {
        sheet_end(report.sheet);
        return cmd_fail(e, why.text);
    }
    code = examine(what, &report);
    agent_conf_fini(&conf);
    return code;
}
