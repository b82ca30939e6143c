/* What differs between runs, and what of it can be chance. */
#include <math.h>
#include <string.h>

#include "collector/cli/lab.h"
#include "common/model/metric.h"

static const struct opt opts[] = {
    {"a", 0, "RANGE", "'host=NAME since=TIME until=TIME' instead of the first run", 0},
    {"b", 0, "RANGE", "likewise, instead of the second", 0},
    {"group-by", 'g', "image|user|tree|host", "rows for each of these, below the totals", 0},
    {"metric", 'm', "QUANTITY,...",
     "what is compared (duration, cpu_time, peak(private_bytes), read_bytes, write_bytes)", true},
    {"limit", 'n', "SHARE", "what is shown to be smaller than that, such as 2%, is the same", 0},
    CLI_OPTS_LAB,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "diff",
    .brief = "what differs between runs, with intervals and what of it can be chance",
    .operands = "[RUN...]",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet diff --runs lib 'main-*' 'pr-812-*' --group-by image\n"
        "  procfleet diff --runs lib main-7 pr-812-7 -m cpu_time -m 'peak(private_bytes)'\n"
        "  procfleet diff --a 'host=lab-1 since=30m until=20m' --b 'host=lab-1 since=10m'\n"
        "\n"
        "RUN is a name, a glob, NAME@3 (the third newest of the name) or NAME@ID. A quantity is\n"
        "duration, processes, starts, ends, failed, crashes, a counter such as cpu_time, or of a\n"
        "gauge peak(private_bytes), avg() or max(), the peak of one process.\n"
        "  more, less  it differs, at a share of 5 % of false ones among all such words\n"
        "  ~           a difference is not shown; this is not the same as none\n"
        "  same        shown to be smaller than --limit\n"
        "  not tested  so few runs carry no more tests: the largest groups come first\n"
        "  refused     see the sentences below the table\n"
        "Exit code 5: nothing could be judged.\n",
};

static enum err metrics_read(struct lab *x, struct cli *c, struct errmsg *why)
{
    const char *values[OPT_MANY_MAX];
    size_t n = opt_values(c->args, "metric", values, OPT_MANY_MAX);
    enum err e = ERR_OK;

    for (size_t i = 0; i < n && !e; i++) {
        const char *at = values[i];

        while (*at && !e) {
            size_t len = strcspn(at, ",");

            if (x->ask.n_metrics == COMPARE_METRICS_MAX) {
                return errmsg_set(why, ERR_USAGE, "--metric: at most %u", COMPARE_METRICS_MAX);
            }
            e = quantity_parse(&x->metrics[x->ask.n_metrics], (struct str){at, len}, why);
            x->ask.n_metrics += !e;
            at += len + (at[len] == ',');
        }
    }
    x->ask.metrics = x->metrics;
    return e;
}

static enum err limit_read(struct lab *x, struct cli *c, struct errmsg *why)
{
    const char *text = opt_value(c->args, "limit");
    struct quantity_limit limit;
    char line[64];

    if (!text) {
        return ERR_OK;
    }
    (void)snprintf(line, sizeof line, "duration > %s", text);
    if (strlen(text) > 32 || quantity_limit_parse(&limit, str_make(line), NULL) != ERR_OK ||
        !limit.relative || !(limit.value > 0)) {
        return errmsg_set(why, ERR_USAGE, "--limit: '%s' is no share such as 2%%", text);
    }
    x->ask.same = limit.value;
    return ERR_OK;
}

static int print_table(struct lab *x, struct cli *c)
{
    static const char *const yields[] = {"q", NULL};
    struct table *t;
    struct buf b;
    enum err e;

    buf_init(&b, 1u << 20);
    if (c->format == TABLE_AS_TABLE) {
        compare_print_head(&b, &x->print);
        fputs(buf_cstr(&b), stdout);
    }
    e = cli_table(c, &t, false, compare_print_columns, COMPARE_PRINT_COLUMNS, yields);
    if (!e) {
        e = compare_print_rows(t, &x->print);
        table_end(t);
    }
    buf_reset(&b);
    compare_print_notes(&b, &x->print);
    fputs(buf_cstr(&b), c->format == TABLE_AS_TABLE ? stdout : stderr);
    buf_fini(&b);
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
}

/* Nothing was judged: 5. */
static int diff_exit(const struct compare *answer)
{
    for (size_t i = 0; i < answer->n_rows; i++) {
        if (answer->rows[i].says != COMPARE_SAYS_NOTHING &&
            answer->rows[i].says != COMPARE_NOT_TESTED) {
            return CLI_OK;
        }
    }
    return CLI_PARTIAL;
}

static int diff_answer(struct lab *x, struct cli *c)
{
    int code = CLI_OK;

    if (lab_open(x, c, 0, RUN_FILE_TABLE, &code) != ERR_OK || lab_compare(x, c, &code) != ERR_OK) {
        return code;
    }
    x->print.same = x->ask.same;
    if (c->format == TABLE_AS_JSON) {
        compare_print_json(stdout, &x->print);
    } else {
        code = print_table(x, c);
    }
    return code ? code : diff_exit(x->answer);
}

static int diff_body(struct cli *c)
{
    struct lab x = {0};
    struct errmsg why = {""};
    char **operands;
    size_t n;
    int code;

    n = opt_operands(c->args, &operands);
    x.a.range = opt_value(c->args, "a");
    x.b.range = opt_value(c->args, "b");
    x.a.n_patterns = !x.a.range;
    x.b.n_patterns = !x.b.range;
    if (n != x.a.n_patterns + x.b.n_patterns) {
        return cli_fail(c, CLI_USAGE, "two are expected: the runs before, and those after");
    }
    if ((x.a.range || x.b.range) && opt_value(c->args, "runs")) {
        return cli_fail(c, CLI_USAGE, "--a and --b are ranges of a collector, not of --runs");
    }
    x.a.patterns[0] = x.a.range ? NULL : operands[0];
    x.b.patterns[0] = x.b.range ? NULL : operands[n - 1];
    x.ask.group_by = opt_value(c->args, "group-by")
                         ? (uint8_t)(COMPARE_BY_IMAGE + cli_word(c, "group-by", 0))
                         : COMPARE_TOTALS;
    if (metrics_read(&x, c, &why) != ERR_OK || limit_read(&x, c, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    code = diff_answer(&x, c);
    lab_close(&x);
    return code;
}

static int diff_run(struct cli *c)
{
    return lab_run(c, diff_body);
}

const struct cli_command cmd_diff = {&usage, diff_run, CLI_NEEDS_SETTINGS, NULL};
