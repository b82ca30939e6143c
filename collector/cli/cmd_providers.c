/* Which providers' events the hosts send: how many of each in a range, and what was refused of
 * them. Counted here, from the events themselves; what never came is in the loss ledger. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/text/value_text.h"

#define PROVIDERS_MAX 65536u /* of all hosts; further ones are not told */
#define NAME_BYTES    128u   /* of a provider, cut */

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
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet providers --since 1h\n"
        "  procfleet providers --host 'lab-*' --format json\n"
        "\n"
        "Hosts send what their settings name (events.providers). What they refused, because\n"
        "it came too often or nothing says what it means, is told for each host.\n",
};

struct provider {
    char host[MODEL_HOST_NAME_MAX + 1], name[NAME_BYTES];
    uint8_t guid[16];
    uint64_t events, bytes, redacted;
    int64_t last_ns;
};

struct providers {
    struct cli *c;
    struct table *table;
    struct provider *list; /* grows */
    size_t n, cap;
    struct map by_key;
    int64_t since_ns, until_ns;
    uint64_t left_out; /* events of further providers */
    enum err e;
};

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

static void copy_name(char *to, size_t size, struct str s)
{
    s.n = s.n < size ? s.n : size - 1;
    if (s.n) {
        memcpy(to, s.p, s.n);
    }
    to[s.n] = '\0';
}

/* The row of a host's provider; NULL: no room. */
static struct provider *provider_of(struct providers *x, struct str host,
                                    const struct event_type *t)
{
    uint64_t place, key = hash_bytes(t->guid, sizeof t->guid, hash_bytes(host.p, host.n, 0));
    struct provider *p;

    for (; (place = map_get(&x->by_key, key)) != 0; key++) {
        p = &x->list[place - 1];
        if (memcmp(p->guid, t->guid, sizeof p->guid) == 0 && str_eq(str_make(p->host), host)) {
            return p;
        }
    }
    if (map_reserve(&x->by_key) || VEC_ROOM(&x->list, &x->cap, x->n + 1, PROVIDERS_MAX)) {
        return NULL;
    }
    p = &x->list[x->n++];
    *p = (struct provider){.events = 0};
    copy_name(p->host, sizeof p->host, host);
    copy_name(p->name, sizeof p->name, t->provider);
    memcpy(p->guid, t->guid, sizeof p->guid);
    map_put(&x->by_key, key, x->n);
    return p;
}

static void take_events(void *ctx, const struct wire_answer *a)
{
    struct providers *x = ctx;

    x->since_ns = a->since_ns;
    x->until_ns = a->until_ns;
    for (size_t i = 0; i < a->n_events; i++) {
        const struct life_event *ev = &a->events[i].event;
        struct provider *p =
            ev->type ? provider_of(x, a->hosts[a->events[i].host].name, ev->type) : NULL;

        if (!p) {
            x->left_out++;
            continue;
        }
        p->events++;
        p->bytes += ev->values.n;
        p->redacted += (ev->value_flags & LIFE_VALUES_REDACTED) != 0;
        p->last_ns = ev->wall_ns > p->last_ns ? ev->wall_ns : p->last_ns;
    }
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

static int by_host(const void *a, const void *b)
{
    const struct provider *x = a, *y = b;
    int d = strcmp(x->host, y->host);

    if (!d && x->events != y->events) {
        d = x->events > y->events ? -1 : 1;
    }
    return d ? d : memcmp(x->guid, y->guid, sizeof x->guid);
}

static void print_rows(struct providers *x)
{
    double span = (double)(x->until_ns - x->since_ns) / 1e9;

    if (x->n) {
        qsort(x->list, x->n, sizeof *x->list, by_host);
    }
    for (size_t i = 0; i < x->n && !x->e; i++) {
        const struct provider *p = &x->list[i];
        char guid[UUID_TEXT], rate[32];
        struct table_cell cells[COLUMNS];

        (void)value_text_guid(guid, p->guid);
        (void)snprintf(rate, sizeof rate, "%.3g", span > 0 ? (double)p->events / span : 0.0);
        cells[HOST] = table_string(str_make(p->host));
        cells[PROVIDER] = table_string(str_make(p->name[0] ? p->name : guid));
        cells[GUID] = table_string(str_make(guid));
        cells[EVENTS] = table_count(p->events);
        cells[RATE] = table_string(str_make(rate));
        cells[BYTES] = table_count(p->bytes);
        cells[REDACTED] = table_count(p->redacted);
        cells[LAST] = table_number(true, p->last_ns);
        x->e = table_row(x->table, cells);
    }
    if (x->n == 0) {
        table_note(x->table, str_make("no host sent events of providers in this range; hosts send "
                                      "what events.providers of their settings names"));
    }
}

static int providers_ask(struct providers *x, struct cli_client *l)
{
    struct wire_query q, ledger;
    struct errmsg why = {""};
    int code, more;

    if (cli_query(x->c, &q, UINT32_MAX, &why) != ERR_OK) {
        return cli_fail(x->c, CLI_USAGE, "%s", why.text);
    }
    ledger = q;
    ledger.stages = true;
    q.kinds = 1u << LIFE_PROVIDER;
    q.events.provider = str_make(opt_value(x->c->args, "provider"));
    code = cli_client_ask(l, RPC_QUERY_EVENTS, &q, take_events, take_note, x);
    if (code != CLI_OK && code != CLI_PARTIAL) {
        return code;
    }
    print_rows(x);
    more = cli_client_ask(l, RPC_QUERY_COVERAGE, &ledger, take_stages, no_note, x);
    if (x->left_out) {
        table_note(x->table, str_make("there are more providers than are told"));
    }
    return more == CLI_OK || more == CLI_PARTIAL ? code : more;
}

static int providers_body(struct cli *c)
{
    static const char *const yields[] = {"REDACTED", "BYTES", "LAST", NULL};
    struct providers x = {.c = c};
    struct cli_client *l;
    int code = CLI_FAILED;

    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    x.e = cli_table(c, &x.table, false, columns, COLUMNS, yields);
    code = x.e ? CLI_FAILED : providers_ask(&x, l);
    if (!x.e) {
        cli_table_range(c, x.table, x.since_ns, x.until_ns, false);
        table_answer(x.table, &(struct table_answer){.since_ns = x.since_ns,
                                                     .until_ns = x.until_ns,
                                                     .partial = code == CLI_PARTIAL});
    }
    table_end(x.table);
    cli_client_close(l);
    map_fini(&x.by_key);
    mem_free(x.list);
    return x.e ? cli_table_failed(c, x.e) : code;
}

const struct cli_command cmd_providers = {&usage, providers_body, CLI_NEEDS_COLLECTOR, NULL};
