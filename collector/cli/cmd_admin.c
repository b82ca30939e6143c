/* procfleet admin: a command of commands, each one call of the Admin service; and hosts forget. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "common/wire/wire_admin.h"

#define REQUEST_MAX 512u
#define REPLY_MAX   (4u << 20)

static const struct opt opts[] = {CLI_OPTS_CONNECTION};

#define ADMIN_OPTS .opts = opts, .n_opts = sizeof opts / sizeof *opts

const struct opt_command cmd_admin_status_usage = {
    .program = "procfleet admin",
    .name = "status",
    .brief = "what the collector counts of itself: the figures of its /metrics",
    ADMIN_OPTS,
    .examples = "  procfleet admin status\n"
                "  procfleet admin status --format json\n",
};

const struct opt_command cmd_admin_disconnect_usage = {
    .program = "procfleet admin",
    .name = "disconnect",
    .brief = "end the connections of a certificate's name; they may come again",
    .operands = "NAME",
    ADMIN_OPTS,
    .examples = "  procfleet admin disconnect web-01\n",
};

const struct opt_command cmd_admin_log_level_usage = {
    .program = "procfleet admin",
    .name = "log-level",
    .brief = "set the collector's log level until its next start",
    .operands = "error|warn|info|debug",
    ADMIN_OPTS,
    .examples = "  procfleet admin log-level debug\n",
};

static const struct opt_command *const subs[] = {
    &cmd_admin_status_usage, &cmd_admin_disconnect_usage, &cmd_admin_log_level_usage};

const struct opt_command cmd_admin_usage = {
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

/* One request, one reply. Gives the exit code; a failure has been printed. */
static int call(const struct cli *c, const char *method, const struct buf *request,
                struct buf *reply)
{
    const struct cli_client_request q = {method, request->p, request->n, c->settings.timeout_ns,
                                         NULL};
    struct rpc_result result;
    struct errmsg why = {""};
    struct cli_client *l;
    int code = CLI_FAILED;
    enum err e;

    if (request->bad) {
        return cli_fail(c, CLI_FAILED, "%s", err_text(request->bad));
    }
    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    e = cli_client_call(l, &q, reply, &result, &why);
    cli_client_close(l);
    return e ? cli_fail(c, cli_client_call_exit(e, &result), "%s",
                        why.text[0] ? why.text : err_text(e))
             : CLI_OK;
}

/* The one operand, which parsing has looked at. */
static const char *operand(const struct cli *c)
{
    char **operands;

    return opt_operands(c->args, &operands) == 1 ? operands[0] : "";
}

/* A sheet of one row. */
static int print_row(const struct cli *c, const struct table_column *columns, size_t n,
                     const struct table_cell *cells)
{
    struct table *s = NULL;
    enum err e = cli_table(c, &s, false, columns, n, NULL);

    if (!e) {
        e = table_row(s, cells);
    }
    table_end(s);
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
}

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

    buf_init(&request, REQUEST_MAX);
    buf_init(&reply, REPLY_MAX);
    code = call(c, RPC_ADMIN_STATUS, &request, &reply);
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

static int disconnect_body(struct cli *c)
{
    static const struct table_column columns[] = {{"name", "NAME", TABLE_TEXT},
                                                  {"connections", "CONNECTIONS", TABLE_COUNT}};
    const char *name = operand(c);
    struct wire_disconnect ask = {""};
    struct wire_disconnect_reply m = {0};
    struct buf request, reply;
    int code;

    if (!name[0] || strlen(name) >= sizeof ask.host) {
        return cli_fail(c, CLI_USAGE, "'%.20s' is no name of a certificate: it has 1 to 63 bytes",
                        name);
    }
    memcpy(ask.host, name, strlen(name));
    buf_init(&request, REQUEST_MAX);
    buf_init(&reply, REPLY_MAX);
    err_ignore(wire_admin_disconnect_encode(&request, &ask)); /* latches */
    code = call(c, RPC_ADMIN_DISCONNECT, &request, &reply);
    if (code == CLI_OK && wire_admin_disconnect_reply_decode(&m, reply.p, reply.n) != ERR_OK) {
        code = cli_fail(c, CLI_FAILED, "the collector's answer cannot be read");
    }
    if (code == CLI_OK) {
        const struct table_cell cells[] = {table_string(str_make(name)),
                                           table_number(true, m.connections)};

        code = print_row(c, columns, sizeof columns / sizeof *columns, cells);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return code;
}

/* -- hosts forget -- */

static int forget_body(struct cli *c)
{
    static const struct table_column columns[] = {{"name", "NAME", TABLE_TEXT},
                                                  {"forgotten", "FORGOTTEN", TABLE_COUNT}};
    const char *name = operand(c);
    struct wire_forget ask = {""};
    struct wire_forget_reply m = {0};
    struct buf request, reply;
    int code;

    if (!name[0] || strlen(name) >= sizeof ask.host) {
        return cli_fail(c, CLI_USAGE, "'%.20s' is no name of a host: it has 1 to 63 bytes", name);
    }
    memcpy(ask.host, name, strlen(name));
    buf_init(&request, REQUEST_MAX);
    buf_init(&reply, REPLY_MAX);
    err_ignore(wire_admin_forget_encode(&request, &ask)); /* latches */
    code = call(c, RPC_ADMIN_FORGET_HOST, &request, &reply);
    if (code == CLI_OK && wire_admin_forget_reply_decode(&m, reply.p, reply.n) != ERR_OK) {
        code = cli_fail(c, CLI_FAILED, "the collector's answer cannot be read");
    }
    if (code == CLI_OK) {
        const struct table_cell cells[] = {table_string(str_make(name)),
                                           table_number(true, m.hosts)};

        code = print_row(c, columns, sizeof columns / sizeof *columns, cells);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return code;
}

int cmd_hosts_forget(int argc, char **argv)
{
    return cli_main(&cmd_hosts_forget_usage, argc, argv, forget_body);
}

/* -- log-level -- */

static int log_level_body(struct cli *c)
{
    static const struct table_column columns[] = {{"level", "LEVEL", TABLE_TEXT},
                                                  {"before", "BEFORE", TABLE_TEXT}};
    const char *level = operand(c);
    struct wire_log_level ask = {""};
    struct wire_log_level_reply m = {""};
    struct buf request, reply;
    int code;

    (void)snprintf(ask.level, sizeof ask.level, "%s", level);
    buf_init(&request, REQUEST_MAX);
    buf_init(&reply, REPLY_MAX);
    err_ignore(wire_admin_log_level_encode(&request, &ask));
    code = call(c, RPC_ADMIN_SET_LOG_LEVEL, &request, &reply);
    if (code == CLI_OK && wire_admin_log_level_reply_decode(&m, reply.p, reply.n) != ERR_OK) {
        code = cli_fail(c, CLI_FAILED, "the collector's answer cannot be read");
    }
    if (code == CLI_OK) {
        const struct table_cell cells[] = {table_string(str_make(level)),
                                           table_string(str_make(m.before))};

        code = print_row(c, columns, sizeof columns / sizeof *columns, cells);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return code;
}

/* -- the command of commands -- */

int cmd_admin(int argc, char **argv)
{
    static int (*const bodies[])(struct cli *) = {status_body, disconnect_body, log_level_body};
    int code;
    const struct opt_command *chosen = opt_choose(&cmd_admin_usage, argc, argv, &code);

    for (size_t i = 0; chosen && i < sizeof subs / sizeof *subs; i++) {
        if (chosen == subs[i]) {
            return cli_main(chosen, argc - 1, argv + 1, bodies[i]);
        }
    }
    return code;
}
