/* A gate for a build: whether its runs are slower than those of the builds before. */
#include <string.h>

#include "collector/cli/lab.h"
#include "common/base/clk.h"

static const struct opt opts[] = {
    {"against", 0, "RUN", "the runs to compare with; may be repeated", true},
    {"fail-on", 0, "LIMIT", "'QUANTITY [of \"GROUP\"] > LIMIT'; may be repeated", true},
    {"group-by", 'g', "image|user", "what a GROUP is (image)", 0},
    {"wait", 0, "SPAN", "longest wait for runs that have not ended or are not there yet (0s)", 0},
    {"looks", 0, "N", "how often this is asked while more runs come: each look is stricter (1)", 0},
    CLI_OPTS_LAB,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "gate",
    .brief = "fail a build whose runs got worse by more than a limit",
    .operands = "RUN...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet gate 'pr-812-*' --against 'main-*' --fail-on 'cpu_time > 5%'\n"
        "  procfleet gate pr --against main --fail-on 'peak(private_bytes) of \"cc1\" > 10%' \\\n"
        "      --fail-on 'starts > 10' --fail-on 'duration > 30s' --runs lib --wait 5m\n"
        "\n"
        "One line for each limit:\n"
        "  regression  it rose by at least the limit, and that is not chance          exit code 6\n"
        "  ok          shown to be below the limit                                    exit code 0\n"
        "  undecided   neither; it says how many more runs would decide               exit code 5\n"
        "  refused     no verdict: data were lost, hosts or measurement differ, too few runs, or\n"
        "              drift cannot be told from change; the sentences below say why  exit code 5\n"
        "A regression counts before all others. At least four runs on each side, by turns:\n"
        "for i in 1 2 3 4 5; do A; B; done.\n",
};

static enum err limits_read(struct lab *x, struct cli *c, struct errmsg *why)
{
    const char *values[OPT_MANY_MAX];
    size_t n = opt_values(c->args, "fail-on", values, OPT_MANY_MAX);
    struct errmsg inner = {""};

    if (n == 0 || n > COMPARE_LIMITS_MAX) {
        return errmsg_set(why, ERR_USAGE, "--fail-on: 1 to %u limits are expected, such as '%s'",
                          COMPARE_LIMITS_MAX, "cpu_time > 5%");
    }
    for (size_t i = 0; i < n; i++) {
        if (quantity_limit_parse(&x->limits[i], str_make(values[i]), &inner) != ERR_OK) {
            return errmsg_set(why, ERR_USAGE, "--fail-on: %s", inner.text);
        }
    }
    x->ask.limits = x->limits;
    x->ask.n_limits = n;
    return ERR_OK;
}

static enum err options_read(struct lab *x, struct cli *c, int64_t *wait_ns, struct errmsg *why)
{
    const char *wait = opt_value(c->args, "wait");
    char **operands;
    enum err e;

    x->b.n_patterns = opt_operands(c->args, &operands);
    x->a.n_patterns = opt_values(c->args, "against", x->a.patterns, LAB_PATTERNS_MAX);
    if (x->b.n_patterns == 0 || x->b.n_patterns > LAB_PATTERNS_MAX) {
        return errmsg_set(why, ERR_USAGE, "1 to %u runs are expected", LAB_PATTERNS_MAX);
    }
    if (x->a.n_patterns == 0) {
        return errmsg_set(why, ERR_USAGE, "--against is missing: the runs to compare with");
    }
    memcpy(x->b.patterns, operands, x->b.n_patterns * sizeof *operands);
    if (wait && clk_parse_span(wait_ns, wait) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "--wait: '%s' is no span such as 5m", wait);
    }
    x->ask.group_by = cli_word(c, "group-by", 0) ? COMPARE_BY_USER : COMPARE_BY_IMAGE;
    e = cli_number(c, "looks", 1, 100, &x->ask.looks, why);
    return e ? e : limits_read(x, c, why);
}

static int gate_print(struct lab *x, struct cli *c)
{
    struct table *t;
    struct buf b;
    enum err e = ERR_OK;

    x->print.gate = true;
    buf_init(&b, 1u << 20);
    if (c->format == TABLE_AS_JSON) {
        compare_print_json(stdout, &x->print);
    } else if (c->format == TABLE_AS_TABLE) {
        compare_print_head(&b, &x->print);
        compare_print_notes(&b, &x->print);
        fputs(buf_cstr(&b), stdout);
    } else {
        e = cli_table(c, &t, false, compare_print_columns, COMPARE_PRINT_COLUMNS, NULL);
        if (!e) {
            e = compare_print_rows(t, &x->print);
            table_end(t);
        }
    }
    buf_fini(&b);
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : compare_exit(x->answer);
}

static int gate_body(struct cli *c)
{
    struct lab x = {0};
    struct errmsg why = {""};
    int64_t wait_ns = 0;
    int code = CLI_OK;

    if (options_read(&x, c, &wait_ns, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (lab_open(&x, c, wait_ns, RUN_FILE_TABLE, &code) == ERR_OK &&
        lab_compare(&x, c, &code) == ERR_OK) {
        code = gate_print(&x, c);
    }
    lab_close(&x);
    return code;
}

static int gate_run(struct cli *c)
{
    return lab_run(c, gate_body);
}

const struct cli_command cmd_gate = {&usage, gate_run, CLI_NEEDS_SETTINGS, NULL};
