/* Rules: whether a file is sound and what it would watch, what it would have told, and what the
 * collector's rules say now. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/rows.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/lab/notice.h"
#include "common/lab/rules_conf.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define TEST_TIMEOUT_NS (120 * CLK_S) /* unless --timeout says otherwise */
#define ROWS_DEFAULT    1000u

/* -- cells -- */

/* A value in its unit, as people read it. */
static struct table_cell value_cell(char room[64], bool has, double value, struct str unit)
{
    struct buf b;
    const char *end = "";

    if (!has) {
        return table_string((struct str){NULL, 0});
    }
    buf_init(&b, 48);
    if (str_eq(unit, str_make("share"))) {
        buf_printf(&b, "%.4g%%", value * 100);
    } else if (str_eq(unit, str_make("ns"))) {
        humanize_ns(&b, (int64_t)value);
    } else if (unit.n >= 5 && memcmp(unit.p, "bytes", 5) == 0) {
        humanize_bytes(&b, (int64_t)value);
        end = unit.n > 5 ? "/s" : "";
    } else {
        buf_printf(&b, "%.6g", value);
        end = unit.n ? "/s" : "";
    }
    (void)snprintf(room, 64, "%s%s", buf_cstr(&b), end);
    buf_fini(&b);
    return table_string(str_make(room));
}

static struct table_cell coverage_cell(char room[64], const struct notice *n)
{
    return value_cell(room, n->has_coverage, n->coverage, str_make("share"));
}

/* -- the file -- */

struct rules_file {
    char *text;
    size_t n, rules;
};

/* Reads and checks it; a fault is printed with its place. *code is the exit code then. */
static enum err file_open(struct rules_file *f, const struct cli *c, int *code)
{
    struct rules_conf *conf;
    struct rules_where at;
    struct errmsg why = {""};
    uint8_t *bytes = NULL;
    char **operands;
    enum err e;

    *f = (struct rules_file){0};
    if (opt_operands(c->args, &operands) == 0) {
        return ERR_OK;
    }
    e = os_read_file(&bytes, &f->n, operands[0], RULES_FILE_MAX);
    if (e) {
        *code = cli_fail(c, CLI_USAGE, "cannot read %s: %s", operands[0], os_read_text(e));
        return e;
    }
    f->text = (char *)bytes;
    e = rules_conf_read(&conf, f->text, f->n, &at, &why);
    if (e) {
        humanize_line(stderr, "%s:%zu:%zu: %s", operands[0], at.line ? at.line : 1,
                      at.column ? at.column : 1, why.text[0] ? why.text : err_text(e));
        *code = CLI_USAGE;
        return e;
    }
    f->rules = rules_conf_n(conf);
    rules_conf_free(conf);
    return ERR_OK;
}

/* -- check -- */

static const struct opt check_opts[] = {
    {"offline", 0, NULL, "the file alone: no collector is asked what the rules would watch", 0},
    CLI_OPT_HOST,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command check_usage = {
    .program = "procfleet rules",
    .name = "check",
    .brief = "whether a file of rules is sound, and how much each rule would watch now",
    .operands = "FILE",
    .opts = check_opts,
    .n_opts = sizeof check_opts / sizeof *check_opts,
    .examples = "  procfleet rules check rules.yaml\n"
                "  procfleet rules check --offline rules.yaml && cp rules.yaml /etc/procfleet/\n"
                "\n"
                "A fault is printed as FILE:LINE:COLUMN: what is wrong, and the exit code is 2.\n",
};

static const struct table_column check_columns[] = {
    {"rule", "RULE", TABLE_TEXT},
    {"of", "OF", TABLE_TEXT},
    {"severity", "SEVERITY", TABLE_TEXT},
    {"hosts", "HOSTS", TABLE_COUNT},
    {"processes", "PROCESSES", TABLE_COUNT},
    {"subjects", "SUBJECTS", TABLE_COUNT},
};

static enum err check_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; !e && i < a->n_events; i++) {
        struct notice n;

        if (notice_read(&n, &a->events[i].event) == ERR_OK) {
            const struct table_cell cells[] = {table_string(n.rule),     table_string(n.of),
                                               table_string(n.severity), table_count(n.hosts),
                                               table_count(n.processes), table_count(n.subjects)};

            e = table_row(t, cells);
        }
    }
    return e;
}

static int check_ask(struct cli *c)
{
    const struct rows_table t = {.columns = check_columns,
                                 .n = sizeof check_columns / sizeof *check_columns,
                                 .page = check_page,
                                 .none = "the file has no rules"};
    struct rules_file f;
    struct wire_query q;
    struct errmsg why = {""};
    int code = CLI_FAILED;

    if (cli_query(c, &q, RULES_MAX, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (file_open(&f, c, &code) == ERR_OK) {
        q.rules = (struct str){f.text, f.n};
        q.rules_ask = WIRE_RULES_CHECK;
        code = rows_table(c, RPC_QUERY_RULES_TEST, &q, &t);
    }
    mem_free(f.text);
    return code;
}

static int check_body(struct cli *c)
{
    struct rules_file f;
    char **operands;
    int code = CLI_OK;

    if (opt_operands(c->args, &operands) == 0) {
        return cli_fail(c, CLI_USAGE, "which file?");
    }
    if (file_open(&f, c, &code) == ERR_OK) {
        if (opt_flag(c->args, "offline")) {
            printf("%s: sound, %zu rules\n", operands[0], f.rules);
        } else {
            code = cli_connected(c, check_ask);
        }
    }
    mem_free(f.text);
    return code;
}

/* -- test -- */

static const struct opt test_opts[] = {
    CLI_OPT_HOST,
    {"rule", 0, "GLOB", "only notices of these rules", 0},
    {"since", 0, "WHEN", "from then on, as for 'procfleet events' (1d)", 0},
    {"until", 0, "WHEN", "up to then; as since", 0},
    {"limit", 'n', "N", "notices shown (1000)", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command test_usage = {
    .program = "procfleet rules",
    .name = "test",
    .brief = "what rules would have told: the collector's engine over what it has stored",
    .operands = "[FILE]",
    .opts = test_opts,
    .n_opts = sizeof test_opts / sizeof *test_opts,
    .examples = "  procfleet rules test rules.yaml --since 7d\n"
                "  procfleet rules test --since 1h --rule 'antivirus-*' --format json\n"
                "\n"
                "Without a file the collector's own rules are tried. Samples are needed: beyond\n"
                "their age in the store (retention) there is nothing to judge. It may take long:\n"
                "--timeout is 2m unless given.\n",
};

static const struct table_column notice_columns[] = {
    {"time", "TIME", TABLE_TIME},   {"rule", "RULE", TABLE_TEXT},
    {"host", "HOST", TABLE_TEXT},   {"subject", "SUBJECT", TABLE_TEXT},
    {"state", "STATE", TABLE_TEXT}, {"before", NULL, TABLE_TEXT},
    {"since", NULL, TABLE_TIME},    {"value", "VALUE", TABLE_TEXT},
    {"limit", "LIMIT", TABLE_TEXT}, {"coverage", "COVERAGE", TABLE_TEXT},
    {"silenced", NULL, TABLE_TEXT}, {"reason", NULL, TABLE_TEXT},
    {"severity", NULL, TABLE_TEXT}, {"id", NULL, TABLE_TEXT},
    {"text", "SAYS", TABLE_TEXT},
};

static const char *const notice_yields[] = {"COVERAGE", "LIMIT", "SAYS", NULL};

static struct table_cell text_cell(struct str s)
{
    return table_string(s.n ? s : (struct str){NULL, 0});
}

static enum err notice_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; !e && i < a->n_events; i++) {
        char value[64], limit[64], coverage[64];
        struct notice n;

        if (notice_read(&n, &a->events[i].event) == ERR_OK) {
            const struct table_cell cells[] = {table_number(true, n.step_ns),
                                               table_string(n.rule),
                                               table_string(a->hosts[a->events[i].host].name),
                                               text_cell(n.subject),
                                               table_string(str_make(notice_state_name(n.state))),
                                               table_string(str_make(notice_state_name(n.before))),
                                               table_number(n.since_ns != 0, n.since_ns),
                                               value_cell(value, n.has_value, n.value, n.unit),
                                               value_cell(limit, n.has_limit, n.limit, n.unit),
                                               coverage_cell(coverage, &n),
                                               text_cell(n.silenced),
                                               text_cell(n.reason),
                                               text_cell(n.severity),
                                               table_string(str_make(n.id)),
                                               text_cell(n.say)};

            e = table_row(t, cells);
        }
    }
    return e;
}

static int test_body(struct cli *c)
{
    const struct rows_table t = {.columns = notice_columns,
                                 .n = sizeof notice_columns / sizeof *notice_columns,
                                 .yields = notice_yields,
                                 .page = notice_page,
                                 .none = "nothing would have been told in this range"};
    struct rules_file f;
    struct wire_query q;
    struct errmsg why = {""};
    int code = CLI_FAILED;

    if (cli_query(c, &q, ROWS_DEFAULT, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (!opt_value(c->args, "timeout")) {
        c->settings.timeout_ns = TEST_TIMEOUT_NS;
    }
    q.name = str_make(opt_value(c->args, "rule"));
    if (file_open(&f, c, &code) == ERR_OK) {
        q.rules = (struct str){f.text ? f.text : "", f.n};
        code = rows_table(c, RPC_QUERY_RULES_TEST, &q, &t);
    }
    mem_free(f.text);
    return code;
}

/* -- status -- */

static const struct opt status_opts[] = {
    {"firing", 0, NULL, "only those that fire", 0},
    {"rule", 0, "GLOB", "only these rules", 0},
    CLI_OPT_HOST,
    {"limit", 'n', "N", "subjects shown (1000): first those that fire, then unknown ones", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command status_usage = {
    .program = "procfleet rules",
    .name = "status",
    .brief = "what the collector's rules say now",
    .opts = status_opts,
    .n_opts = sizeof status_opts / sizeof *status_opts,
    .examples = "  procfleet rules status --firing\n"
                "  procfleet rules status --rule 'memory-*' --host lab-9\n",
};

static const struct table_column status_columns[] = {
    {"rule", "RULE", TABLE_TEXT},       {"host", "HOST", TABLE_TEXT},
    {"subject", "SUBJECT", TABLE_TEXT}, {"state", "STATE", TABLE_TEXT},
    {"since", "SINCE", TABLE_TIME},     {"value", "VALUE", TABLE_TEXT},
    {"limit", "LIMIT", TABLE_TEXT},     {"coverage", "COVERAGE", TABLE_TEXT},
    {"silenced", NULL, TABLE_TEXT},     {"severity", NULL, TABLE_TEXT},
    {"judged", NULL, TABLE_TIME},       {"remark", "REMARK", TABLE_TEXT},
};

static const char *const status_yields[] = {"LIMIT", "SINCE", "REMARK", NULL};

static enum err status_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; !e && i < a->n_events; i++) {
        char value[64], limit[64], coverage[64], remark[160];
        struct notice n;

        if (notice_read(&n, &a->events[i].event) == ERR_OK) {
            const struct table_cell cells[] = {table_string(n.rule),
                                               table_string(a->hosts[a->events[i].host].name),
                                               text_cell(n.subject),
                                               table_string(str_make(notice_state_name(n.state))),
                                               table_number(n.since_ns != 0, n.since_ns),
                                               value_cell(value, n.has_value, n.value, n.unit),
                                               value_cell(limit, n.has_limit, n.limit, n.unit),
                                               coverage_cell(coverage, &n),
                                               text_cell(n.silenced),
                                               text_cell(n.severity),
                                               table_number(true, n.step_ns),
                                               n.silenced.n || n.reason.n
                                                   ? table_string(str_make(remark))
                                                   : table_string((struct str){NULL, 0})};

            (void)snprintf(remark, sizeof remark, "%s%.*s%s%.*s",
                           n.silenced.n ? "silenced by " : "", (int)n.silenced.n, n.silenced.p,
                           n.silenced.n && n.reason.n ? "; " : "", (int)n.reason.n, n.reason.p);
            e = table_row(t, cells);
        }
    }
    return e;
}

static int status_body(struct cli *c)
{
    const struct rows_table t = {.columns = status_columns,
                                 .n = sizeof status_columns / sizeof *status_columns,
                                 .yields = status_yields,
                                 .page = status_page,
                                 .none = "no such subjects of rules"};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, ROWS_DEFAULT, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.name = str_make(opt_value(c->args, "rule"));
    q.rules_ask = opt_flag(c->args, "firing") ? WIRE_RULES_FIRING : 0;
    return rows_table(c, RPC_QUERY_RULES, &q, &t);
}

/* -- all of them -- */

static const struct opt_command *const subs[] = {&check_usage, &test_usage, &status_usage};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "rules",
    .brief = "rules: check a file, try it on what is stored, see what fires",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet rules check rules.yaml\n"
                "  procfleet rules test rules.yaml --since 7d\n"
                "  procfleet rules status --firing\n",
};

static const struct cli_command commands[] = {
    {&check_usage, check_body, CLI_NEEDS_SETTINGS, NULL},
    {&test_usage, test_body, CLI_NEEDS_COLLECTOR, NULL},
    {&status_usage, status_body, CLI_NEEDS_COLLECTOR, NULL},
};

const struct cli_command cmd_rules = {&usage, NULL, CLI_NEEDS_NOTHING, commands};
