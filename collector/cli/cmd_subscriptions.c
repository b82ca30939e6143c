/* Durable subscriptions: those of the own certificate's name, or with role admin those of all. */
#include <string.h>

#include "collector/cli/cli_client.h"
#include "common/wire/wire_feed.h"

#define REPLY_MAX (4u << 20)

static const struct opt opts[] = {
    {"remove", 0, "NAME", "end this one", 0},
    {"owner", 0, "NAME", "with --remove: another's (role admin)", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "subscriptions",
    .brief = "durable subscriptions: how far each is behind, and what it missed",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet subscriptions\n"
        "  procfleet subscriptions --remove audit\n"
        "\n"
        "Needs a certificate of role subscribe, query or admin; role admin sees all. They are\n"
        "made by 'procfleet tail --durable NAME' and other clients, and end by themselves when\n"
        "they were not polled for long (feed.idle of the collector).\n",
};

static const struct table_column columns[] = {
    {"name", "NAME", TABLE_TEXT},
    {"owner", "OWNER", TABLE_TEXT},
    {"scope", NULL, TABLE_TEXT},
    {"hosts", "HOSTS", TABLE_TEXT},
    {"program", "PROGRAM", TABLE_TEXT},
    {"samples", "SAMPLES", TABLE_FLAG},
    {"created_time", NULL, TABLE_TIME},
    {"polled_time", "POLLED", TABLE_TIME},
    {"behind_bytes", "BEHIND", TABLE_BYTES},
    {"delivered", "DELIVERED", TABLE_COUNT},
    {"dropped", "DROPPED", TABLE_COUNT},
};

#define COLUMNS (sizeof columns / sizeof *columns)

static const char *const yields[] = {"SAMPLES", "PROGRAM", "DELIVERED", "POLLED", NULL};

static enum err print_one(struct table *sheet, const struct wire_subscription *s)
{
    struct table_cell cells[COLUMNS];
    struct buf hosts;
    enum err e;

    buf_init(&hosts, 1u << 16);
    for (size_t i = 0; i < s->filter.n_hosts; i++) {
        buf_put_str(&hosts, i ? "," : "");
        buf_put(&hosts, s->filter.hosts[i].p, s->filter.hosts[i].n);
    }
    cells[0] = table_string(s->name);
    cells[1] = table_string(s->owner);
    cells[2] = table_string(s->scope);
    cells[3] = table_string((struct str){(const char *)hosts.p, hosts.n});
    cells[4] = table_string(s->filter.program);
    cells[5] = table_number(true, s->filter.samples);
    cells[6] = table_number(true, s->created_ns > 0 ? s->created_ns : 0);
    cells[7] = table_number(true, s->polled_ns > 0 ? s->polled_ns : 0);
    cells[8] = table_count(s->behind_bytes);
    cells[9] = table_count(s->delivered);
    cells[10] = table_count(s->dropped);
    e = hosts.bad ? hosts.bad : table_row(sheet, cells);
    buf_fini(&hosts);
    return e;
}

static enum err print_all(const struct cli *c, const struct cli_client *l,
                          const struct wire_subscriptions_reply *list)
{
    static const char none_of_yours[] =
        "none of yours; 'procfleet tail --durable NAME' makes one, a certificate of role admin "
        "sees all";
    static const char none[] = "there is none; 'procfleet tail --durable NAME' makes one";
    struct table *sheet;
    enum err e = cli_table(c, &sheet, false, columns, COLUMNS, yields);

    for (size_t i = 0; !e && i < list->n; i++) {
        e = print_one(sheet, &list->subscriptions[i]);
    }
    if (!e && list->n == 0) {
        table_note(sheet, str_make(cli_client_is_admin(l) ? none : none_of_yours));
    }
    table_end(sheet);
    return e;
}

static int list_all(const struct cli *c)
{
    struct cli_client *l;
    struct wire_subscriptions_reply *list;
    struct rpc_result result = {.code = RPC_OK};
    struct errmsg why = {""};
    struct buf reply;
    int code = CLI_OK;
    enum err e;

    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    buf_init(&reply, REPLY_MAX);
    e = cli_client_call(l,
                        &(struct cli_client_request){RPC_QUERY_SUBSCRIPTIONS, NULL, 0,
                                                     c->settings.timeout_ns, NULL},
                        &reply, &result, &why);
    if (!e) {
        e = wire_feed_subscriptions_reply_decode(&list, reply.p, reply.n);
    }
    if (!e) {
        e = print_all(c, l, list);
        wire_feed_subscriptions_reply_free(list);
    }
    if (e) {
        code = cli_fail(c, cli_client_call_exit(e, &result), "%s",
                        why.text[0] ? why.text : err_text(e));
    }
    buf_fini(&reply);
    cli_client_close(l);
    return code;
}

static int remove_one(const struct cli *c, const char *name)
{
    const struct wire_unsubscribe q = {str_make(name), str_make(opt_value(c->args, "owner"))};
    struct buf request, reply;
    int code;

    buf_init(&request, 4096);
    buf_init(&reply, 4096);
    err_ignore(wire_feed_unsubscribe_encode(&request, &q)); /* latches */
    code = cli_client_once(c, RPC_QUERY_UNSUBSCRIBE, &request, &reply);
    buf_fini(&request);
    buf_fini(&reply);
    return code;
}

static int subscriptions_body(struct cli *c)
{
    const char *name = opt_value(c->args, "remove");

    if (opt_value(c->args, "owner") && !name) {
        return cli_fail(c, CLI_USAGE, "--owner is for --remove NAME");
    }
    return name ? remove_one(c, name) : list_all(c);
}

const struct cli_command cmd_subscriptions = {&usage, subscriptions_body, CLI_NEEDS_COLLECTOR,
                                              NULL};
