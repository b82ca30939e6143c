/* Which providers' events the hosts send: how many of each in a range, and what was refused of
 * them; of one provider, what its events are. The collector counts them; what never came is in the
 * loss ledger. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "common/base/buf.h"
#include "common/text/jsonw.h"
#include "common/text/value_text.h"
#include "common/wire/wire_providers.h"

#define FIELDS_TEXT 16384u /* the names of a type's fields */

static const struct opt opts[] = {
    CLI_OPT_HOST,
    CLI_OPTS_RANGE,
    {"provider", 0, "NAME|GUID", "only of this provider; NAME may be a glob", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "providers",
    .brief = "which providers' events the hosts send, how many, and what was refused",
    .operands = "[NAME]",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet providers --since 1h\n"
        "  procfleet providers --host 'lab-*' --format json\n"
        "  procfleet providers Microsoft-Windows-DNS-Client --since 1d\n"
        "\n"
        "With NAME (a name, a GUID or a glob): what its events are, how many came of each from "
        "all\n"
        "hosts, and which fields they have: what events --provider NAME --where can ask for.\n"
        "Hosts send what their settings name (events.providers). What they refused, because\n"
        "it came too often or nothing says what it means, is told for each host.\n",
};

struct providers {
    struct cli *c;
    struct table *table;
    int64_t since_ns, until_ns;
    size_t rows;
    uint64_t left_out; /* events of further providers */
    enum err e;
};

/* -- of all providers: a row for each of a host -- */

enum { HOST, PROVIDER, GUID, EVENTS, RATE, BYTES, REDACTED, LAST, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [HOST] = {"host", "HOST", TABLE_TEXT},
    [PROVIDER] = {"provider", "PROVIDER", TABLE_TEXT},
    [GUID] = {"guid", NULL, TABLE_TEXT},
    [EVENTS] = {"events", "EVENTS", TABLE_COUNT},
    [RATE] = {"rate", "A SECOND", TABLE_REAL},
    [BYTES] = {"value_bytes", "BYTES", TABLE_BYTES},
    [REDACTED] = {"redacted", "REDACTED", TABLE_COUNT},
    [LAST] = {"last_time", "LAST", TABLE_TIME},
};

static const char *rate_text(char *text, size_t size, const struct wire_answer *a, uint64_t events)
{
    double span = (double)(a->until_ns - a->since_ns) / 1e9;

    (void)snprintf(text, size, "%.3g", span > 0 ? (double)events / span : 0.0);
    return text;
}

static enum err provider_row(struct table *t, const struct wire_answer *a,
                             const struct wire_provider_sum *p)
{
    char guid[UUID_TEXT], rate[32];
    struct table_cell cells[COLUMNS];

    (void)value_text_guid(guid, p->type->guid);
    cells[HOST] = table_string(a->hosts[p->host].name);
    cells[PROVIDER] = table_string(p->type->provider.n ? p->type->provider : str_make(guid));
    cells[GUID] = table_string(str_make(guid));
    cells[EVENTS] = table_count(p->events);
    cells[RATE] = table_string(str_make(rate_text(rate, sizeof rate, a, p->events)));
    cells[BYTES] = table_count(p->value_bytes);
    cells[REDACTED] = table_count(p->redacted);
    cells[LAST] = table_number(true, p->last_ns);
    return table_row(t, cells);
}

/* -- of one: a row for each kind of its events -- */

enum {
    KIND_PROVIDER,
    KIND_GUID,
    KIND_ID,
    KIND_VERSION,
    KIND_EVENT,
    KIND_TASK,
    KIND_LEVEL,
    KIND_OPCODE,
    KIND_KEYWORD,
    KIND_EVENTS,
    KIND_RATE,
    KIND_HOSTS,
    KIND_BYTES,
    KIND_REDACTED,
    KIND_CUT,
    KIND_FIRST,
    KIND_LAST,
    KIND_FIELDS,
    KIND_NAMES,
    KIND_COLUMNS
};

static const struct table_column kind_columns[KIND_COLUMNS] = {
    [KIND_PROVIDER] = {"provider", NULL, TABLE_TEXT},
    [KIND_GUID] = {"guid", NULL, TABLE_TEXT},
    [KIND_ID] = {"id", "ID", TABLE_ID},
    [KIND_VERSION] = {"version", NULL, TABLE_ID},
    [KIND_EVENT] = {"event", "EVENT", TABLE_TEXT},
    [KIND_TASK] = {"task", "TASK", TABLE_TEXT},
    [KIND_LEVEL] = {"level", "LEVEL", TABLE_ID},
    [KIND_OPCODE] = {"opcode", NULL, TABLE_ID},
    [KIND_KEYWORD] = {"keyword", NULL, TABLE_HEX},
    [KIND_EVENTS] = {"events", "EVENTS", TABLE_COUNT},
    [KIND_RATE] = {"rate", "A SECOND", TABLE_REAL},
    [KIND_HOSTS] = {"hosts", "HOSTS", TABLE_COUNT},
    [KIND_BYTES] = {"value_bytes", "BYTES", TABLE_BYTES},
    [KIND_REDACTED] = {"redacted", "REDACTED", TABLE_COUNT},
    [KIND_CUT] = {"cut", NULL, TABLE_COUNT},
    [KIND_FIRST] = {"first_time", NULL, TABLE_TIME},
    [KIND_LAST] = {"last_time", "LAST", TABLE_TIME},
    [KIND_FIELDS] = {"fields", NULL, TABLE_JSON},
    [KIND_NAMES] = {NULL, "FIELDS", TABLE_TEXT},
};

/* The names of its fields as a JSON array, and as people read them. */
static void fields_put(struct buf *json, struct buf *names, const struct event_type *t)
{
    struct jsonw j;

    jsonw_init_buf(&j, json);
    j.compact = true;
    jsonw_array(&j, NULL);
    for (size_t i = 0; i < t->n_fields; i++) {
        jsonw_bytes(&j, NULL, t->fields[i]);
        buf_put_str(names, i ? ", " : "");
        buf_put(names, t->fields[i].p, t->fields[i].n);
    }
    jsonw_end(&j);
    buf_put_u8(json, 0); /* not counted below */
}

static enum err kind_row(struct table *t, const struct wire_answer *a,
                         const struct wire_provider_sum *p)
{
    const struct event_type *type = p->type;
    char guid[UUID_TEXT], rate[32];
    struct table_cell cells[KIND_COLUMNS];
    struct buf json, names;
    enum err e;

    buf_init(&json, FIELDS_TEXT);
    buf_init(&names, FIELDS_TEXT);
    fields_put(&json, &names, type);
    (void)value_text_guid(guid, type->guid);
    cells[KIND_PROVIDER] = table_string(type->provider);
    cells[KIND_GUID] = table_string(str_make(guid));
    cells[KIND_ID] = table_number(true, type->id);
    cells[KIND_VERSION] = table_number(true, type->version);
    cells[KIND_EVENT] = table_string(type->name);
    cells[KIND_TASK] = table_string(type->task);
    cells[KIND_LEVEL] = table_number(true, type->level);
    cells[KIND_OPCODE] = table_number(true, type->opcode);
    cells[KIND_KEYWORD] = table_number(type->keyword != 0, (int64_t)type->keyword);
    cells[KIND_EVENTS] = table_count(p->events);
    cells[KIND_RATE] = table_string(str_make(rate_text(rate, sizeof rate, a, p->events)));
    cells[KIND_HOSTS] = table_count(p->hosts);
    cells[KIND_BYTES] = table_count(p->value_bytes);
    cells[KIND_REDACTED] = table_count(p->redacted);
    cells[KIND_CUT] = table_count(p->cut);
    cells[KIND_FIRST] = table_number(true, p->first_ns);
    cells[KIND_LAST] = table_number(true, p->last_ns);
    cells[KIND_FIELDS] =
        table_string((struct str){(const char *)json.p, json.bad ? 0 : json.n - 1});
    cells[KIND_NAMES] = table_string((struct str){(const char *)names.p, names.n});
    e = table_row(t, cells);
    buf_fini(&names);
    buf_fini(&json);
    return e;
}

/* -- the answer -- */

static void take_sums(struct providers *x, const struct wire_answer *a,
                      enum err (*row)(struct table *t, const struct wire_answer *a,
                                      const struct wire_provider_sum *p))
{
    x->since_ns = a->since_ns;
    x->until_ns = a->until_ns;
    for (size_t i = 0; a->providers && i < a->providers->n && !x->e; i++) {
        x->e = row(x->table, a, &a->providers->list[i]);
        x->rows++;
    }
    x->left_out += a->providers ? a->providers->left_out : 0;
}

static void take_providers(void *ctx, const struct wire_answer *a)
{
    take_sums(ctx, a, provider_row);
}

static void take_kinds(void *ctx, const struct wire_answer *a)
{
    take_sums(ctx, a, kind_row);
}

/* What a host refused, as a sentence under the table. */
static void tell_refused(struct providers *x, struct str host, const struct wire_coverage *c)
{
    static const char *const told[] = {"in",        "rate",        "size",   "filtered",
                                       "no_schema", "undecodable", "refused"};
    struct buf text;
    uint64_t refused = 0;

    buf_init(&text, 1024);
    buf_put(&text, host.p, host.n);
    buf_put_str(&text, " met");
    for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
        for (size_t i = 0; i < c->n_stages; i++) {
            const struct wire_stage *s = &c->stages[i];

            if (str_eq(s->stage, str_make("forward")) && str_eq(s->reason, str_make(told[k])) &&
                s->count) {
                refused += k ? s->count : 0;
                buf_printf(&text, k ? ", %s %llu" : " %s%llu", k ? told[k] : "",
                           (unsigned long long)s->count);
            }
        }
    }
    if (refused && !text.bad) {
        table_note(x->table, (struct str){(const char *)text.p, text.n});
    }
    buf_fini(&text);
}

static void take_stages(void *ctx, const struct wire_answer *a)
{
    for (size_t i = 0; i < a->n_coverage; i++) {
        tell_refused(ctx, a->hosts[a->coverage[i].host].name, &a->coverage[i]);
    }
}

static void take_note(void *ctx, struct str text)
{
    struct providers *x = ctx;

    table_note(x->table, text);
}

static void no_note(void *ctx, struct str text)
{
    (void)ctx;
    (void)text;
}

static void note_rows(struct providers *x, const char *name)
{
    char text[96];

    if (x->rows == 0 && name) {
        table_note(x->table, str_make("no host sent events of such a provider in this range; "
                                      "without a name this command lists those that came"));
    } else if (x->rows == 0) {
        table_note(x->table, str_make("no host sent events of providers in this range; hosts send "
                                      "what events.providers of their settings names"));
    }
    if (x->left_out) {
        (void)snprintf(text, sizeof text, "%llu events are of further ones, which are not shown",
                       (unsigned long long)x->left_out);
        table_note(x->table, str_make(text));
    }
}

/* Of all providers, or with a name of that one. */
static int providers_ask(struct providers *x, struct cli_client *l, const char *name)
{
    const char *option = opt_value(x->c->args, "provider");
    struct wire_query q, ledger;
    struct errmsg why = {""};
    int code, more;

    if (cli_query(x->c, &q, UINT32_MAX, &why) != ERR_OK) {
        return cli_fail(x->c, CLI_USAGE, "%s", why.text);
    }
    ledger = q;
    ledger.stages = true;
    q.events.provider = str_make(name ? name : option);
    q.types = name != NULL;
    code = cli_client_ask(l, RPC_QUERY_PROVIDERS, &q, name ? take_kinds : take_providers, take_note,
                          x);
    if (code != CLI_OK && code != CLI_PARTIAL) {
        return code;
    }
    note_rows(x, name ? name : option);
    more = name ? CLI_OK : cli_client_ask(l, RPC_QUERY_COVERAGE, &ledger, take_stages, no_note, x);
    return more == CLI_OK || more == CLI_PARTIAL ? code : more;
}

static int providers_body(struct cli *c)
{
    static const char *const yields[] = {"REDACTED", "BYTES", "LAST", NULL};
    static const char *const kind_yields[] = {"REDACTED", "BYTES", "A SECOND",
                                              "LAST",     "TASK",  NULL};
    struct providers x = {.c = c};
    struct cli_client *l;
    char **operands;
    const char *name = opt_operands(c->args, &operands) ? operands[0] : NULL;
    int code = CLI_FAILED;

    if (name && opt_value(c->args, "provider")) {
        return cli_fail(c, CLI_USAGE, "--provider: NAME says it already");
    }
    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    x.e = name ? cli_table(c, &x.table, false, kind_columns, KIND_COLUMNS, kind_yields)
               : cli_table(c, &x.table, false, columns, COLUMNS, yields);
    code = x.e ? CLI_FAILED : providers_ask(&x, l, name);
    if (!x.e) {
        cli_table_range(c, x.table, x.since_ns, x.until_ns, false);
        table_answer(x.table, &(struct table_answer){.since_ns = x.since_ns,
                                                     .until_ns = x.until_ns,
                                                     .partial = code == CLI_PARTIAL});
    }
    table_end(x.table);
    cli_client_close(l);
    return x.e ? cli_table_failed(c, x.e) : code;
}

const struct cli_command cmd_providers = {&usage, providers_body, CLI_NEEDS_COLLECTOR, NULL};
