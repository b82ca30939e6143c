/* procfleet admin: a command of commands, each one call of the Admin service. */
#include <stdio.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/rows.h"
#include "common/wire/wire_admin.h"

#define REPLY_MAX (4u << 20)

static const struct opt opts[] = {CLI_OPTS_CONNECTION};

#define ADMIN_OPTS .opts = opts, .n_opts = sizeof opts / sizeof *opts

static const struct opt_command status_usage = {
    .program = "procfleet admin",
    .name = "status",
    .brief = "what the collector counts of itself: the figures of its /metrics",
    ADMIN_OPTS,
    .examples = "  procfleet admin status\n"
                "  procfleet admin status --format json\n",
};

static const struct opt_command disconnect_usage = {
    .program = "procfleet admin",
    .name = "disconnect",
    .brief = "end the connections of a certificate's name; they may come again",
    .operands = "NAME",
    ADMIN_OPTS,
    .examples = "  procfleet admin disconnect web-01\n",
};

static const struct opt_command log_level_usage = {
    .program = "procfleet admin",
    .name = "log-level",
    .brief = "set the collector's log level until its next start",
    .operands = "error|warn|info|debug",
    ADMIN_OPTS,
    .examples = "  procfleet admin log-level debug\n",
};

static const struct opt_command *const subs[] = {&status_usage, &disconnect_usage,
                                                 &log_level_usage};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "admin",
    .brief = "look after the collector; needs a certificate of role admin",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet admin status\n"
                "  procfleet admin disconnect web-01\n"
                "  procfleet admin log-level debug\n",
};

/* -- status -- */

static const struct table_column status_columns[] = {
    {"figure", "FIGURE", TABLE_WORD},
    {"labels", "OF", TABLE_TEXT},
    {"value", "VALUE", TABLE_REAL},
    {"help", "MEANING", TABLE_TEXT},
};

static const char *const yields[] = {"MEANING", NULL};

static enum err status_print(const struct cli *c, const struct wire_status_reply *m)
{
    struct table *s = NULL;
    enum err e = cli_table(c, &s, false, status_columns,
                           sizeof status_columns / sizeof *status_columns, yields);

    for (size_t i = 0; !e && i < m->n; i++) {
        const struct wire_figure *f = &m->figures[i];
        bool whole = f->value > -1e15 && f->value < 1e15 && f->value == (double)(int64_t)f->value;
        char real[40];
        int n = snprintf(real, sizeof real, "%.15g", f->value);
        const struct table_cell cells[] = {
            table_string(f->name),
            table_string(f->labels),
            whole ? table_number(true, (int64_t)f->value)
                  : table_string((struct str){real, (size_t)n}),
            table_string(f->help),
        };

        e = table_row(s, cells);
    }
    table_end(s);
    return e;
}

static int status_body(struct cli *c)
{
    struct wire_status_reply *m;
    struct buf request, reply;
    int code;

    buf_init(&request, 1);
    buf_init(&reply, REPLY_MAX);
    code = cli_client_once(c, RPC_ADMIN_STATUS, &request, &reply);
    if (code == CLI_OK) {
        enum err e = wire_admin_status_reply_decode(&m, reply.p, reply.n);

        if (!e) {
            e = status_print(c, m);
            wire_admin_status_reply_free(m);
        }
        code = e ? cli_fail(c, CLI_FAILED, "the collector's answer: %s", err_text(e)) : CLI_OK;
    }
    buf_fini(&request);
    buf_fini(&reply);
    return code;
}

/* -- disconnect -- */

static enum err disconnect_encode(struct buf *out, const char *name)
{
    struct wire_disconnect m;

    (void)snprintf(m.host, sizeof m.host, "%s", name);
    return wire_admin_disconnect_encode(out, &m);
}

static enum err disconnect_decode(struct table_cell *value, char *text, const struct buf *reply)
{
    struct wire_disconnect_reply m = {0};
    enum err e = wire_admin_disconnect_reply_decode(&m, reply->p, reply->n);

    (void)text;
    *value = table_number(true, m.connections);
    return e;
}

static int disconnect_body(struct cli *c)
{
    static const struct rows_call x = {
        RPC_ADMIN_DISCONNECT,
        "certificate",
        {{"name", "NAME", TABLE_TEXT}, {"connections", "CONNECTIONS", TABLE_COUNT}},
        disconnect_encode,
        disconnect_decode};

    return rows_call(c, &x);
}

/* -- log-level -- */

static enum err log_level_encode(struct buf *out, const char *level)
{
    struct wire_log_level m;

    (void)snprintf(m.level, sizeof m.level, "%s", level);
    return wire_admin_log_level_encode(out, &m);
}

static enum err log_level_decode(struct table_cell *value, char *text, const struct buf *reply)
{
    struct wire_log_level_reply m = {""};
    enum err e = wire_admin_log_level_reply_decode(&m, reply->p, reply->n);

    (void)snprintf(text, ROWS_CALL_TEXT, "%s", m.before);
    *value = table_string(str_make(text));
    return e;
}

static int log_level_body(struct cli *c)
{
    static const struct rows_call x = {
        RPC_ADMIN_SET_LOG_LEVEL,
        NULL,
        {{"level", "LEVEL", TABLE_TEXT}, {"before", "BEFORE", TABLE_TEXT}},
        log_level_encode,
        log_level_decode};

    return rows_call(c, &x);
}

/* -- the command of commands -- */

static const struct cli_command commands[] = {
    {&status_usage, status_body, CLI_NEEDS_COLLECTOR, NULL},
    {&disconnect_usage, disconnect_body, CLI_NEEDS_COLLECTOR, NULL},
    {&log_level_usage, log_level_body, CLI_NEEDS_COLLECTOR, NULL},
};

const struct cli_command cmd_admin = {&usage, NULL, CLI_NEEDS_NOTHING, commands};
