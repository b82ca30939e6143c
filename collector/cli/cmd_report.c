/* Runs as one HTML file, to hand over. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/lab.h"
#include "common/lab/report.h"
#include "common/os/os.h"

static const struct opt opts[] = {
    {"against", 0, "RUN", "runs to compare with; may be repeated", true},
    {"group-by", 'g', "image|user|tree|host", "rows of the changes (image)", 0},
    {"output", 'o', "FILE", "where it goes; default standard output", 0},
    CLI_OPTS_LAB,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "report",
    .brief = "runs, and what they differ in, as one HTML file",
    .operands = "RUN...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet report nightly-412 -o r.html\n"
        "  procfleet report 'pr-812-*' --against 'main-*' --runs lib -o r.html\n"
        "\n"
        "The file asks nobody for anything, reads and prints without a script, and is at most\n"
        "2 MB. The newest of the runs is in it in full: hosts, losses, images, series, lives,\n"
        "crashes.\n",
};

static void command_text(struct buf *out, const struct lab *x, const struct cli *c)
{
    buf_put_str(out, "procfleet report");
    for (size_t i = 0; i < x->b.n_patterns; i++) {
        buf_printf(out, " '%s'", x->b.patterns[i]);
    }
    for (size_t i = 0; i < x->a.n_patterns; i++) {
        buf_printf(out, " --against '%s'", x->a.patterns[i]);
    }
    if (opt_value(c->args, "runs")) {
        buf_printf(out, " --runs '%s'", opt_value(c->args, "runs"));
    }
}

static int report_put(struct lab *x, struct cli *c)
{
    const char *path = opt_value(c->args, "output");
    struct report r = {.runs = x->b.runs,
                       .n_runs = x->b.n_runs,
                       .compare = x->answer,
                       .names = x->b.text,
                       .against = x->a.text,
                       .made_by = "procfleet " PROCFLEET_VERSION,
                       .class_keys = x->ask.class_keys};
    struct buf out, command;
    int code = CLI_OK;
    enum err e;

    buf_init(&out, 2 * REPORT_MAX);
    buf_init(&command, 1u << 16);
    command_text(&command, x, c);
    r.command = buf_cstr(&command);
    e = report_write(&out, &r);
    if (!e && path) {
        e = os_write_file(path, out.p, out.n, false);
    } else if (!e && fwrite(out.p, 1, out.n, stdout) != out.n) {
        e = ERR_IO;
    }
    if (e) {
        code = cli_fail(c, CLI_FAILED, "%s%s%s", path ? path : "", path ? ": " : "", err_text(e));
    }
    buf_fini(&command);
    buf_fini(&out);
    return code;
}

static int report_body(struct cli *c)
{
    struct lab x = {0};
    char **operands;
    int code = CLI_OK;

    x.b.n_patterns = opt_operands(c->args, &operands);
    x.a.n_patterns = opt_values(c->args, "against", x.a.patterns, LAB_PATTERNS_MAX);
    if (x.b.n_patterns == 0 || x.b.n_patterns > LAB_PATTERNS_MAX) {
        return cli_fail(c, CLI_USAGE, "1 to %u runs are expected", LAB_PATTERNS_MAX);
    }
    memcpy(x.b.patterns, operands, x.b.n_patterns * sizeof *operands);
    x.ask.group_by = (uint8_t)(COMPARE_BY_IMAGE + cli_word(c, "group-by", 0));
    if (lab_open(&x, c, 0, RUN_FILE_ALL, &code) == ERR_OK) {
        if (x.b.n_runs == 0) {
            code = cli_fail(c, CLI_FAILED, "no run is called %s", x.b.text);
        } else if (x.a.n_patterns == 0 || lab_compare(&x, c, &code) == ERR_OK) {
            code = report_put(&x, c);
        }
    }
    lab_close(&x);
    return code;
}

static int report_run(struct cli *c)
{
    return lab_run(c, report_body);
}

const struct cli_command cmd_report = {&usage, report_run, CLI_NEEDS_SETTINGS, NULL};
