/* Events or samples as they arrive: from the live stream, or from a durable subscription. */
#include <string.h>

#include "collector/cli/tail.h"
#include "common/base/clk.h"
#include "common/os/os.h"

static const struct opt opts[] = {
    {"samples", 0, NULL, "the newest samples instead of events", 0},
    {"kind", 'k', "KIND,...", "as for 'procfleet events' (process,level,source)", 1},
    CLI_OPT_HOST,
    CLI_OPTS_PROCESS,
    {"limit", 'n', "N", "end after so many lines (never)", 0},
    {"for", 0, "SPAN", "end after so long (never)", 0},
    {"durable", 0, "NAME", "from a subscription that the collector keeps: goes on where it was", 0},
    {"from-oldest", 0, NULL, "a new durable subscription begins with the oldest event kept", 0},
    {"events", 0, "HOST[:PORT]",
     "event stream to follow (PROCFLEET_EVENTS; port 7422 of the collector's host)", 0},
    CLI_OPTS_CONNECTION,
    OPT_FORMER("samples", 's', NULL, false),
};

const struct opt_command cmd_tail_usage = {
    .program = "procfleet",
    .name = "tail",
    .brief = "follows events, or samples, as they arrive",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cli_sets,
    .examples =
        "  procfleet tail\n"
        "  procfleet tail --host 'lab-*' --name 'powershell*'\n"
        "  procfleet tail --samples --format json -n 1000\n"
        "  procfleet tail --durable audit --from-oldest --format json >> audit.jsonl\n"
        "\n"
        "With a certificate of role subscribe and no scope it follows the live stream; with "
        "another of role\n"
        "subscribe, query or admin it asks the query port for what that may see, unless "
        "--events is given.\n"
        "--durable takes role subscribe or admin.\n"
        "JSON is one object a line. What was missed is asked for again; exit code 5 when "
        "it did not come.\n",
};

static atomic_bool stopped; /* set by the signal thread, which outlives every function */

static void on_stop(void *arg)
{
    (void)arg;
    atomic_store(&stopped, true);
}

static enum err read_options(struct tail *t, struct errmsg *why)
{
    const char *span = opt_value(t->c->args, "for");
    int64_t ns;
    enum err e = cli_query(t->c, &t->q, UINT32_MAX, why);

    if (!e) {
        e = fields_kinds_given(&t->q.kinds, t->c, why);
    }
    if (!e && span) {
        if (clk_parse_span(&ns, span) != ERR_OK) {
            return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time such as 30s", span);
        }
        t->end_ns = os_mono_ns() + ns;
    }
    t->left = t->q.limit == UINT32_MAX ? UINT64_MAX : t->q.limit;
    t->samples = opt_flag(t->c->args, "samples");
    if (!e && opt_flag(t->c->args, "from-oldest") && !opt_value(t->c->args, "durable")) {
        return errmsg_set(why, ERR_USAGE, "--from-oldest is for --durable NAME");
    }
    return e;
}

/* Whether the certificate may see something, but not the whole stream: a wrong one is refused
 * there. *code: not CLI_OK when it cannot be read. */
static bool must_poll(const struct tail *t, int *code)
{
    struct tls_config *tls = NULL;
    struct net_identity own;

    *code = CLI_OK;
    if (opt_value(t->c->args, "events") || cli_client_tls(&tls, t->c, code) != ERR_OK) {
        return false;
    }
    tls_config_identity(tls, &own);
    tls_config_free(tls);
    return own.roles & NET_SUBSCRIBE ? own.scope[0] != '\0'
                                     : (own.roles & (NET_QUERY | NET_ADMIN)) != 0;
}

static int follow(struct tail *t)
{
    const char *durable = opt_value(t->c->args, "durable");
    int code = CLI_OK;

    if (durable || must_poll(t, &code)) {
        return tail_poll(t, durable, opt_flag(t->c->args, "from-oldest"));
    }
    return code == CLI_OK ? tail_live(t) : code;
}

static int body(struct cli *c)
{
    struct tail t = {.c = c, .stop = &stopped};
    struct errmsg why = {""};
    int code;

    if (read_options(&t, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    tail_fields(&t);
    if (os_stop_install(on_stop, NULL) != ERR_OK ||
        fields_sheet(&t.fields, c, &t.sheet, true) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    code = follow(&t);
    table_end(t.sheet);
    return code;
}

int cmd_tail(int argc, char **argv)
{
    return cli_main(&cmd_tail_usage, argc, argv, body);
}
