/* The fleet in one glance: for people some lines and a table of what is kept, for programs one row.
 */
#include <inttypes.h>
#include <string.h>

#include "collector/cli/rows.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/text/humanize.h"
#include "common/text/table.h"
#include "common/wire/wire_overview.h"

static const struct opt opts[] = {
    CLI_OPT_HOST, CLI_OPT_LABEL, CLI_OPTS_RANGE, CLI_OPT_ENVELOPE, CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "overview",
    .brief = "the fleet in one glance, and what the collector keeps of it",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet overview\n"
                "  procfleet overview --host 'lab-*' --since 24h --format json\n"
                "\n"
                "The range, by default the last 15 minutes, is that of the coverage in the last "
                "line.\n",
};

struct overview {
    struct cli *c;
    bool printed; /* the first page's is the answer */
};

/* -- one row for programs -- */

#define TIER_COLUMNS 7u

static const struct table_column plain_columns[] = {
    {"time", NULL, TABLE_TIME},
    {"hosts", NULL, TABLE_COUNT},
    {"connected", NULL, TABLE_COUNT},
    {"silent", NULL, TABLE_COUNT},
    {"ended", NULL, TABLE_COUNT},
    {"revoked", NULL, TABLE_COUNT},
    {"clones", NULL, TABLE_COUNT},
    {"processes", NULL, TABLE_COUNT},
    {"cpus", NULL, TABLE_COUNT},
    {"batches", NULL, TABLE_COUNT},
    {"gaps", NULL, TABLE_COUNT},
    {"lost_events", NULL, TABLE_COUNT},
    {"first_time", NULL, TABLE_TIME},
    {"last_time", NULL, TABLE_TIME},
    {"head_bytes", NULL, TABLE_BYTES},
    {"log_bytes", NULL, TABLE_BYTES},
    {"catalogue_bytes", NULL, TABLE_BYTES},
    {"total_bytes", NULL, TABLE_BYTES},
    {"ceiling_bytes", NULL, TABLE_BYTES},
    {"disk_free_bytes", NULL, TABLE_BYTES},
    {"disk_total_bytes", NULL, TABLE_BYTES},
    {"refusing", NULL, TABLE_FLAG},
    {"sealed_windows", NULL, TABLE_COUNT},
    {"patches", NULL, TABLE_COUNT},
    {"seal_failures", NULL, TABLE_COUNT},
    {"sealed_time", NULL, TABLE_TIME},
    {"next_tier", NULL, TABLE_TEXT},
    {"next_window_time", NULL, TABLE_TIME},
    {"next_in_ns", NULL, TABLE_NS},
    {"raw_files", NULL, TABLE_COUNT},
    {"raw_bytes", NULL, TABLE_BYTES},
    {"raw_values", NULL, TABLE_COUNT},
    {"raw_oldest_time", NULL, TABLE_TIME},
    {"raw_share_bytes", NULL, TABLE_BYTES},
    {"raw_age_ns", NULL, TABLE_NS},
    {"raw_dropped", NULL, TABLE_COUNT},
    {"10s_files", NULL, TABLE_COUNT},
    {"10s_bytes", NULL, TABLE_BYTES},
    {"10s_values", NULL, TABLE_COUNT},
    {"10s_oldest_time", NULL, TABLE_TIME},
    {"10s_share_bytes", NULL, TABLE_BYTES},
    {"10s_age_ns", NULL, TABLE_NS},
    {"10s_dropped", NULL, TABLE_COUNT},
    {"1min_files", NULL, TABLE_COUNT},
    {"1min_bytes", NULL, TABLE_BYTES},
    {"1min_values", NULL, TABLE_COUNT},
    {"1min_oldest_time", NULL, TABLE_TIME},
    {"1min_share_bytes", NULL, TABLE_BYTES},
    {"1min_age_ns", NULL, TABLE_NS},
    {"1min_dropped", NULL, TABLE_COUNT},
    {"1h_files", NULL, TABLE_COUNT},
    {"1h_bytes", NULL, TABLE_BYTES},
    {"1h_values", NULL, TABLE_COUNT},
    {"1h_oldest_time", NULL, TABLE_TIME},
    {"1h_share_bytes", NULL, TABLE_BYTES},
    {"1h_age_ns", NULL, TABLE_NS},
    {"1h_dropped", NULL, TABLE_COUNT},
    {"events_files", NULL, TABLE_COUNT},
    {"events_bytes", NULL, TABLE_BYTES},
    {"events_values", NULL, TABLE_COUNT},
    {"events_oldest_time", NULL, TABLE_TIME},
    {"events_share_bytes", NULL, TABLE_BYTES},
    {"events_age_ns", NULL, TABLE_NS},
    {"events_dropped", NULL, TABLE_COUNT},
};

#define PLAIN_COLUMNS (sizeof plain_columns / sizeof *plain_columns)
#define TIERS_AT      29u

static struct table_cell some_cell(int64_t v)
{
    return table_number(v != 0, v);
}

/* The store is told to who may see all hosts; to others not a zero, but nothing. */
static bool tells_store(const struct wire_overview *o)
{
    return o->disk_total > 0;
}

static struct table_cell store_cell(const struct wire_overview *o, uint64_t v)
{
    return table_number(tells_store(o), table_count(v).number);
}

/* The tier whose columns begin with this name. */
static const struct wire_tier_room *tier_find(const struct wire_overview *o, const char *key)
{
    struct str name = {key, strcspn(key, "_")};

    for (size_t i = 0; i < o->n_tiers; i++) {
        if (str_eq(o->tiers[i].name, name)) {
            return &o->tiers[i];
        }
    }
    return NULL;
}

static enum err put_plain(struct table *t, const struct wire_overview *o)
{
    struct str next = o->next_tier ? o->tiers[o->next_tier - 1].name : str_make(NULL);
    struct table_cell cells[PLAIN_COLUMNS] = {
        some_cell(o->now_ns),
        table_count(o->hosts),
        table_count(o->connected),
        table_count(o->silent),
        table_count(o->ended),
        table_count(o->revoked),
        table_count(o->clones),
        table_count(o->processes),
        table_count(o->cpus),
        table_count(o->batches),
        table_count(o->gaps),
        table_count(o->lost_events),
        some_cell(o->first_ns),
        some_cell(o->last_ns),
        store_cell(o, o->head_bytes),
        store_cell(o, o->log_bytes),
        store_cell(o, o->catalogue_bytes),
        store_cell(o, o->total_bytes),
        store_cell(o, o->ceiling_bytes),
        store_cell(o, o->disk_free),
        store_cell(o, o->disk_total),
        table_number(tells_store(o), o->refusing),
        store_cell(o, o->sealed_windows),
        store_cell(o, o->patches),
        store_cell(o, o->seal_failures),
        some_cell(o->sealed_ns),
        table_string(next),
        some_cell(o->next_window_ns),
        table_number(o->next_tier != 0, o->next_in_ns),
    };

    for (size_t i = TIERS_AT; i < PLAIN_COLUMNS; i += TIER_COLUMNS) {
        const struct wire_tier_room *r = tier_find(o, plain_columns[i].key);

        if (r) {
            cells[i] = table_count(r->files);
            cells[i + 1] = table_count(r->bytes);
            cells[i + 2] = table_count(r->values);
            cells[i + 3] = some_cell(r->oldest_ns);
            cells[i + 4] = table_number(r->share_bytes != 0, table_count(r->share_bytes).number);
            cells[i + 5] = some_cell(r->age_ns);
            cells[i + 6] = table_count(r->dropped_age + r->dropped_bytes);
        }
    }
    return table_row(t, cells);
}

/* -- for people -- */

static void put_bytes(struct buf *b, uint64_t n)
{
    humanize_bytes(b, n < INT64_MAX ? (int64_t)n : INT64_MAX);
}

static void put_time(struct buf *b, int64_t ns)
{
    char text[CLK_TEXT];

    buf_put_str(b, clk_format_utc(text, CLK_TEXT, ns, 0));
}

static void put_fleet(struct buf *b, const struct wire_overview *o)
{
    buf_printf(
        b, "hosts      %" PRIu32 ": %" PRIu32 " connected, %" PRIu32 " silent, %" PRIu32 " ended",
        o->hosts, o->connected, o->silent, o->ended);
    if (o->revoked) {
        buf_printf(b, ", %" PRIu32 " revoked", o->revoked);
    }
    if (o->clones) {
        buf_printf(b, "; %" PRIu32 " %s", o->clones, plural(o->clones, "clone", "clones"));
    }
    buf_printf(b, "\nprocesses  %" PRIu64 " on %" PRIu64 " %s\n", o->processes, o->cpus,
               plural(o->cpus, "CPU", "CPUs"));
    if (o->hosts) {
        buf_put_str(b, "data       ");
        put_time(b, o->first_ns);
        buf_put_str(b, " to ");
        put_time(b, o->last_ns);
        buf_put_str(b, "\n");
    }
    buf_printf(b, "received   %" PRIu64 " %s, %" PRIu64 " missing, %" PRIu64 " %s lost\n",
               o->batches, plural(o->batches, "batch", "batches"), o->gaps, o->lost_events,
               plural(o->lost_events, "event", "events"));
}

static void put_next(struct buf *b, const struct wire_overview *o)
{
    buf_put_str(b, "next to go ");
    if (o->next_tier) {
        humanize_text(b, o->tiers[o->next_tier - 1].name);
        buf_put_str(b, " of ");
        put_time(b, o->next_window_ns);
        buf_put_str(b, o->next_in_ns > 0 ? " in " : " now");
        if (o->next_in_ns > 0) {
            humanize_ns(b, o->next_in_ns);
        }
    } else {
        buf_put_str(b, "nothing, as far as can be seen");
    }
    buf_put_str(b, "\n");
}

static void put_disk(struct buf *b, const struct wire_overview *o)
{
    if (!tells_store(o)) {
        return;
    }
    buf_put_str(b, "in memory  ");
    put_bytes(b, o->head_bytes);
    buf_put_str(b, ", log ");
    put_bytes(b, o->log_bytes);
    buf_put_str(b, "\non disk    ");
    put_bytes(b, o->total_bytes);
    if (o->ceiling_bytes) {
        buf_put_str(b, " of at most ");
        put_bytes(b, o->ceiling_bytes);
    }
    buf_put_str(b, ", free ");
    put_bytes(b, o->disk_free);
    buf_put_str(b, " of ");
    put_bytes(b, o->disk_total);
    if (o->hosts) {
        buf_put_str(b, ", for each host ");
        put_bytes(b, o->total_bytes / o->hosts);
    }
    buf_put_str(b, "\n");
    if (o->sealed_ns) {
        buf_put_str(b, "sealed     to ");
        put_time(b, o->sealed_ns);
        buf_printf(b, ", %" PRIu64 " %s, %" PRIu64 " %s, %" PRIu64 " %s\n", o->sealed_windows,
                   plural(o->sealed_windows, "window", "windows"), o->patches,
                   plural(o->patches, "patch", "patches"), o->seal_failures,
                   plural(o->seal_failures, "failure", "failures"));
    }
    put_next(b, o);
    if (o->refusing) {
        buf_put_str(b, "the disk is all but full: agents are told to wait\n");
    }
}

static const struct table_column tier_columns[] = {
    {NULL, "KEPT", TABLE_TEXT},        {NULL, "FILES", TABLE_COUNT},
    {NULL, "BYTES", TABLE_BYTES},      {NULL, "VALUES", TABLE_COUNT},
    {NULL, "BYTES/VALUE", TABLE_TEXT}, {NULL, "BYTES/HOST", TABLE_BYTES},
    {NULL, "OLDEST", TABLE_TIME},      {NULL, "SHARE", TABLE_BYTES},
    {NULL, "AGE", TABLE_NS},           {NULL, "DROPPED", TABLE_COUNT},
};

static const char *const yields[] = {"DROPPED", "BYTES/HOST", "AGE", "SHARE", "BYTES/VALUE", NULL};

static enum err put_tier(struct table *s, const struct wire_tier_room *t, uint32_t hosts)
{
    char each[24] = "";

    if (t->values) {
        (void)snprintf(each, sizeof each, "%.3f", (double)t->bytes / (double)t->values);
    }
    const struct table_cell cells[] = {
        table_string(t->name),
        table_count(t->files),
        table_count(t->bytes),
        table_count(t->values),
        table_string(str_make(each)),
        table_number(hosts != 0, hosts ? table_count(t->bytes / hosts).number : 0),
        some_cell(t->oldest_ns),
        table_number(t->share_bytes != 0, table_count(t->share_bytes).number),
        some_cell(t->age_ns),
        table_count(t->dropped_age + t->dropped_bytes),
    };

    return table_row(s, cells);
}

static enum err put_table(struct table *t, const struct wire_overview *o)
{
    enum err e = ERR_OK;
    struct buf b;

    buf_init(&b, 1 << 14);
    put_fleet(&b, o);
    put_disk(&b, o);
    fputs(buf_cstr(&b), stdout);
    buf_fini(&b);
    if (o->n_tiers) {
        fputc('\n', stdout);
    }
    for (size_t i = 0; i < o->n_tiers && !e; i++) {
        e = put_tier(t, &o->tiers[i], o->hosts);
    }
    return e;
}

/* -- asking -- */

static enum err overview_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct overview *v = ctx;

    if (!a->overview || v->printed) {
        return ERR_OK;
    }
    v->printed = true;
    return v->c->format == TABLE_AS_TABLE ? put_table(t, a->overview) : put_plain(t, a->overview);
}

static int overview_body(struct cli *c)
{
    struct overview v = {.c = c};
    struct rows_table t = {.columns = plain_columns,
                           .n = PLAIN_COLUMNS,
                           .yields = yields,
                           .page = overview_page,
                           .timeless = true,
                           .ctx = &v};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, WIRE_ROWS_MAX, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (c->format == TABLE_AS_TABLE) {
        t.columns = tier_columns;
        t.n = sizeof tier_columns / sizeof *tier_columns;
    }
    return rows_table(c, RPC_QUERY_OVERVIEW, &q, &t);
}

const struct cli_command cmd_overview = {&usage, overview_body, CLI_NEEDS_COLLECTOR, NULL};
