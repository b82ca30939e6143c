#include <stdio.h>
#include <string.h>

#include "collector/cli/rows.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/lab/host_class.h"
#include "common/os/os.h"
#include "common/pki/pki.h"
#include "common/text/humanize.h"
#include "common/text/table_kept.h"
#include "common/wire/wire_admin.h"

#define KEYS_MAX      6u /* of --group-by */
#define KEY_TEXT      48u
#define GROUP_COLUMNS 5u
#define GROUP_NAMES   120u
#define GROUPS_MAX    65536u
#define KEPT_MAX      ((size_t)64 << 20)

static const struct opt opts[] = {
    {"group-by", 'g', "KEY,...", "count hosts by what they are: os,cpu_model, class, label.rack",
     0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPT_CLASS,
    {"all", 'a', NULL, "also those that are forgotten", false},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt forget_opts[] = {CLI_OPTS_CONNECTION};

static const struct opt_command forget_usage = {
    .program = "procfleet hosts",
    .name = "forget",
    .brief = "hide a host that is gone for good, until its agent calls again; its data stay",
    .operands = "NAME|UUID",
    .opts = forget_opts,
    .n_opts = sizeof forget_opts / sizeof *forget_opts,
    .examples =
        "  procfleet hosts forget lab-7\n"
        "\n"
        "Needs a certificate of role admin without a scope. The host is left out of lists,\n"
        "counts, coverage and /metrics, and no answer is partial for the lack of its data;\n"
        "'hosts --all' lists it still, and --host with its very name asks for its data. A\n"
        "host that is connected is refused; of several with one name those that are not\n"
        "connected are hidden. A call of its agent shows it again.\n",
};

static const struct opt_command *const subs[] = {&forget_usage};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "hosts",
    .brief = "the hosts of the fleet and their state",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .alone = true,
    .examples = "  procfleet hosts\n"
                "  procfleet hosts --host 'lab-*' --format json\n"
                "  procfleet hosts --wide --label rack=3 --where 'memory < 32GiB'\n"
                "  procfleet hosts --group-by os,cpu,label.rack\n"
                "  procfleet hosts forget lab-7\n"
                "\n"
                "--wide: what agents tell of their machines. A label with ! is the collector's\n"
                "(lab.labels). CLASS stands for what hosts of one class share, by default\n"
                "system, build, CPU, cores and memory; JSON and CSV have it in words.\n",
};

static const struct table_column columns[] = {
    {"host", "HOST", TABLE_TEXT},
    {"state", "STATE", TABLE_STATE},
    {"source", "SOURCE", TABLE_TEXT},
    {"cpus", "CPUS", TABLE_COUNT},
    {"processes", "PROCESSES", TABLE_COUNT},
    {"cpu_percent", "CPU%", TABLE_PERMILLE},
    {"working_set_size", "MEMORY", TABLE_BYTES},
    {"last_time", "NEWEST_DATA", TABLE_TIME},
    {"first_time", NULL, TABLE_TIME},
    {"batches", "BATCHES", TABLE_COUNT},
    {"duplicates", NULL, TABLE_COUNT},
    {"gaps", "GAPS", TABLE_ALARM},
    {"lost_events", "LOST_EVENTS", TABLE_ALARM},
    {"forgotten", NULL, TABLE_FLAG},
    {"revoked", NULL, TABLE_FLAG},
    {"polled", NULL, TABLE_FLAG},
    {"replay", NULL, TABLE_FLAG},
    {"clock_offset_ns", NULL, TABLE_NS},
    {"clock_error_ns", NULL, TABLE_NS},
    {NULL, "CLOCK", TABLE_TEXT},
    {"certificate_end_time", NULL, TABLE_TIME},
    {NULL, "CERT", TABLE_STATE},
    {"clones", "CLONES", TABLE_ALARM},
    {"heard_time", NULL, TABLE_TIME},
    {"agent_version", "AGENT", TABLE_TEXT},
    {"id", "ID", TABLE_TEXT},
    {"boot", NULL, TABLE_TEXT},
};

/* --wide: behind the others. Under the inventory's names, as --where has them. */
static const struct table_column wide_columns[] = {
    {"os", NULL, TABLE_TEXT},
    {"os_name", "OS", TABLE_TEXT},
    {"os_version", NULL, TABLE_TEXT},
    {"os_build", "BUILD", TABLE_TEXT},
    {"kernel", NULL, TABLE_TEXT},
    {"arch", "ARCH", TABLE_TEXT},
    {"vendor", NULL, TABLE_TEXT},
    {"model", NULL, TABLE_TEXT},
    {"hypervisor", NULL, TABLE_TEXT},
    {"governor", NULL, TABLE_TEXT},
    {"zone", NULL, TABLE_TEXT},
    {"cpu_model", "CPU_MODEL", TABLE_TEXT},
    {"cpu_sockets", NULL, TABLE_COUNT},
    {"cpu_cores", "CORES", TABLE_COUNT},
    {"cpu_efficiency_cores", NULL, TABLE_COUNT},
    {"cpu_mhz", NULL, TABLE_COUNT},
    {"memory_bytes", "RAM", TABLE_BYTES},
    {"numa_nodes", NULL, TABLE_COUNT},
    {"page_bytes", NULL, TABLE_BYTES},
    {"boot_time", "BOOTED", TABLE_TIME},
    {"labels", "LABELS", TABLE_TEXT},
    {"class_id", "CLASS", TABLE_TEXT},
    {"class", NULL, TABLE_TEXT},
};

#define N_COLUMNS (sizeof columns / sizeof *columns)
#define N_WIDE    (sizeof wide_columns / sizeof *wide_columns)

static const char *const yields[] = {"ID",     "AGENT",       "CPUS", "BATCHES",   "SOURCE",
                                     "CLONES", "CLOCK",       "CERT", "PROCESSES", "MEMORY",
                                     "CPU%",   "NEWEST_DATA", NULL};

static const char *state_of(const struct wire_host *h)
{
    return h->forgotten                  ? "forgotten"
           : h->revoked && !h->connected ? "revoked"
           : h->ended                    ? "ended"
           : h->connected                ? "connected"
                                         : "silent";
}

static bool knows_offset(const struct wire_host *h)
{
    return h->has_offset || h->offset_ns != 0;
}

static void put_span(struct buf *b, int64_t ns)
{
    humanize_ns(b, ns == INT64_MIN ? INT64_MAX : ns < 0 ? -ns : ns);
}

/* Moves it into the caller's text. */
static struct str text_take(struct buf *b, char *text, size_t size)
{
    (void)snprintf(text, size, "%s", buf_cstr(b));
    buf_fini(b);
    return str_make(text);
}

/* What the host's clock shows too much or too little, "+1.250s ±12ms": the offset turned round,
 * since it is the collector's clock minus the host's. */
static struct str clock_text(const struct wire_host *h, char *text, size_t size)
{
    struct buf b;

    if (!knows_offset(h)) {
        return str_make(NULL);
    }
    buf_init(&b, size);
    buf_put_str(&b, h->offset_ns > 0 ? "-" : "+");
    put_span(&b, h->offset_ns);
    if (h->has_offset) {
        buf_put_str(&b, " \u00b1");
        put_span(&b, h->offset_error_ns);
    }
    return text_take(&b, text, size);
}

/* How long the certificate still holds. */
static struct str certificate_text(const struct wire_host *h, char *text, size_t size)
{
    int64_t left_ns = clk_sub(h->not_after_ns, os_utc_ns());
    struct buf b;

    if (!h->not_after_ns) {
        return str_make(NULL);
    }
    if (left_ns <= 0) {
        return str_make("expired");
    }
    buf_init(&b, size);
    put_span(&b, left_ns);
    return text_take(&b, text, size);
}

/* "rack=3! image=v12": the mark is of those that the collector's settings assign. */
static struct str labels_text(const struct facts *f, char *text, size_t size)
{
    struct buf b;

    buf_init(&b, size - 1);
    for (size_t i = 0; i < f->n_labels; i++) {
        const struct label *l = &f->labels[i];

        buf_printf(&b, "%s%.*s=%.*s%s", i ? " " : "", (int)l->key.n, l->key.p, (int)l->value.n,
                   l->value.p, l->assigned ? "!" : "");
    }
    return text_take(&b, text, size);
}

static struct table_cell inventory_number(uint64_t v)
{
    return table_number(v != 0 && v <= INT64_MAX, (int64_t)v);
}

static void wide_cells(struct table_cell *cells, const struct wire_host *h, char *labels,
                       size_t size, char class[HOST_CLASS_TEXT], char id[8])
{
    static const struct facts none;
    const struct facts *f = h->facts ? h->facts : &none;
    const struct inventory *in = &f->inventory;

    (void)snprintf(class, HOST_CLASS_TEXT, "%.*s", (int)h->class.n, h->class.p ? h->class.p : "");
    id[0] = '\0';
    if (class[0]) {
        (void)snprintf(id, 8, "%04x", host_class_id(class));
    }
    const struct table_cell wide[N_WIDE] = {
        table_string(in->os),
        table_string(in->os_name),
        table_string(in->os_version),
        table_string(in->os_build),
        table_string(in->kernel),
        table_string(in->arch),
        table_string(in->vendor),
        table_string(in->model),
        table_string(in->hypervisor),
        table_string(in->governor),
        table_string(in->zone),
        table_string(in->cpu_model),
        inventory_number(in->cpu_sockets),
        inventory_number(in->cpu_cores),
        inventory_number(in->cpu_efficiency_cores),
        inventory_number(in->cpu_mhz),
        inventory_number(in->memory_bytes),
        inventory_number(in->numa_nodes),
        inventory_number(in->page_bytes),
        table_number(in->boot_time != 0, in->boot_time),
        table_string(labels_text(f, labels, size)),
        table_string(str_make(id)),
        table_string(str_make(class)),
    };

    memcpy(cells, wide, sizeof wide);
}

/* The cells of a host under all columns; their texts stay until the next one. */
static void host_cells(struct table_cell cells[N_COLUMNS + N_WIDE], const struct wire_host *h)
{
    static char id[UUID_TEXT], boot[UUID_TEXT], clock[64], left[32];
    static char labels[2048], class[HOST_CLASS_TEXT], class_id[8];
    const struct table_cell usual[N_COLUMNS] = {
        table_string(h->name),
        table_string(str_make(state_of(h))),
        table_string(h->source),
        table_number(h->cpus != 0, h->cpus),
        table_number(true, h->processes),
        table_number(h->has_cpu, h->cpu_permille),
        table_number(h->has_memory, h->memory),
        table_number(h->last_ns != 0, h->last_ns),
        table_number(h->first_ns != 0, h->first_ns),
        table_count(h->batches),
        table_count(h->duplicates),
        table_count(h->gaps),
        table_count(h->lost_events),
        table_number(true, h->forgotten),
        table_number(true, h->revoked),
        table_number(true, h->polled),
        table_number(true, h->replay),
        table_number(knows_offset(h), h->offset_ns),
        table_number(h->has_offset, h->offset_error_ns),
        table_string(clock_text(h, clock, sizeof clock)),
        table_number(h->not_after_ns != 0, h->not_after_ns),
        table_string(certificate_text(h, left, sizeof left)),
        table_number(true, h->clones),
        table_number(h->heard_ns != 0, h->heard_ns),
        table_string(h->version),
        table_string(str_make(uuid_format(id, &h->id))),
        table_string(str_make(uuid_format(boot, &h->boot))),
    };

    memcpy(cells, usual, sizeof usual);
    wide_cells(cells + N_COLUMNS, h, labels, sizeof labels, class, class_id);
}

static enum err hosts_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct table_cell cells[N_COLUMNS + N_WIDE];
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; !e && i < a->n_hosts; i++) {
        host_cells(cells, &a->hosts[i]);
        e = table_row(t, cells);
    }
    return e;
}

/* -- counted -- */

struct host_key {
    size_t column;    /* of all; with a label none */
    struct str label; /* its key */
};

struct host_group {
    char *key; /* as people read it; owned */
    char names[GROUP_NAMES];
    size_t n;
};

struct host_groups {
    struct host_key keys[KEYS_MAX];
    size_t n_keys;
    struct table_column columns[KEYS_MAX + GROUP_COLUMNS];
    char titles[KEYS_MAX][KEY_TEXT], words[KEYS_MAX][KEY_TEXT];
    struct table_kept *rows; /* in the order of the groups */
    struct host_group *list;
    size_t n, cap;
};

static const struct table_column group_columns[GROUP_COLUMNS] = {
    {"hosts", "HOSTS", TABLE_COUNT}, {"connected", "CONNECTED", TABLE_COUNT},
    {"cpus", "CPUS", TABLE_COUNT},   {"memory_bytes_all", "RAM", TABLE_BYTES},
    {"names", "NAMES", TABLE_TEXT},
};

static size_t column_find(const char *word)
{
    const char *key = host_class_key(str_make(word));

    word = key ? key : word;
    for (size_t i = 0; i < N_COLUMNS + N_WIDE; i++) {
        const struct table_column *c = i < N_COLUMNS ? &columns[i] : &wide_columns[i - N_COLUMNS];

        if (c->key && strcmp(c->key, word) == 0) {
            return i;
        }
    }
    return N_COLUMNS + N_WIDE;
}

static enum err keys_read(struct host_groups *g, const char *list, struct errmsg *why)
{
    for (size_t n; *list; list += n + (list[n] == ',')) {
        char *word = g->words[g->n_keys], *title = g->titles[g->n_keys];
        struct host_key *k = &g->keys[g->n_keys];

        n = strcspn(list, ",");
        if (g->n_keys == KEYS_MAX || n >= KEY_TEXT) {
            return errmsg_set(why, ERR_USAGE, "--group-by: at most %u keys of %u bytes", KEYS_MAX,
                              KEY_TEXT - 1);
        }
        (void)snprintf(word, KEY_TEXT, "%.*s", (int)n, list);
        for (size_t i = 0; i <= n; i++) {
            title[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 32) : word[i];
        }
        k->label = strncmp(word, "label.", 6) == 0 ? str_make(word + 6) : (struct str){NULL, 0};
        k->column = k->label.n ? 0 : column_find(word);
        if (k->column == N_COLUMNS + N_WIDE) {
            return errmsg_set(why, ERR_USAGE,
                              "--group-by: a host has no '%s'; os, os_name, os_build, cpu_model, "
                              "cpu_cores, memory_bytes, class, agent_version, state, label.KEY and "
                              "the other keys of --format json",
                              word);
        }
        g->columns[g->n_keys++] = (struct table_column){
            word, title,
            k->label.n              ? TABLE_TEXT
            : k->column < N_COLUMNS ? columns[k->column].unit
                                    : wide_columns[k->column - N_COLUMNS].unit};
    }
    memcpy(g->columns + g->n_keys, group_columns, sizeof group_columns);
    return ERR_OK;
}

static struct table_cell label_cell(const struct wire_host *h, struct str key)
{
    for (size_t i = 0; h->facts && i < h->facts->n_labels; i++) {
        if (str_eq(h->facts->labels[i].key, key)) {
            return table_string(h->facts->labels[i].value);
        }
    }
    return table_number(false, 0);
}

/* The group of these keys; NULL: no room. */
static struct host_group *group_of(struct host_groups *g, const struct table_cell *keys)
{
    struct table_cell row[KEYS_MAX + GROUP_COLUMNS] = {{TABLE_ABSENT, 0, {NULL, 0}}};
    struct host_group *found = NULL;
    struct buf text;

    buf_init(&text, 64u << 10);
    for (size_t i = 0; i < g->n_keys; i++) {
        table_put_cell(&text, g->columns[i].unit, &keys[i]);
        buf_put_u8(&text, '\n');
        row[i] = keys[i];
    }
    for (size_t i = 0; i < g->n && !found; i++) {
        found = strcmp(g->list[i].key, buf_cstr(&text)) == 0 ? &g->list[i] : NULL;
    }
    if (!found && VEC_ROOM(&g->list, &g->cap, g->n + 1, GROUPS_MAX) == ERR_OK &&
        table_kept_add(g->rows, row) == ERR_OK) {
        found = &g->list[g->n];
        *found = (struct host_group){.key = mem_strdup(buf_cstr(&text))};
        g->n += found->key != NULL;
        found = found->key ? found : NULL;
    }
    buf_fini(&text);
    return found;
}

static void group_add(struct host_groups *g, struct host_group *to, const struct wire_host *h)
{
    struct table_cell *cells = table_kept_row(g->rows, (size_t)(to - g->list)) + g->n_keys;
    uint64_t memory = h->facts ? h->facts->inventory.memory_bytes : 0;
    size_t at = strlen(to->names);

    to->n++;
    cells[0] = table_count(to->n);
    cells[1] = table_number(true, cells[1].number + h->connected);
    cells[2] = table_number(true, cells[2].number + h->cpus);
    cells[3] = table_number(cells[3].number || memory, clk_add(cells[3].number, (int64_t)memory));
    if (at + h->name.n + 8 < sizeof to->names) {
        (void)snprintf(to->names + at, sizeof to->names - at, "%s%.*s", at ? " " : "",
                       (int)h->name.n, h->name.p);
    } else if (at && strcmp(to->names + at - 3, "\u2026") != 0) {
        (void)snprintf(to->names + at, sizeof to->names - at, " \u2026");
    }
}

static enum err groups_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct table_cell all[N_COLUMNS + N_WIDE], keys[KEYS_MAX];
    struct host_groups *g = ctx;

    (void)t;
    for (size_t i = 0; i < a->n_hosts; i++) {
        struct host_group *to;

        host_cells(all, &a->hosts[i]);
        for (size_t k = 0; k < g->n_keys; k++) {
            keys[k] = g->keys[k].label.n ? label_cell(&a->hosts[i], g->keys[k].label)
                                         : all[g->keys[k].column];
        }
        to = group_of(g, keys);
        if (!to) {
            return ERR_FULL;
        }
        group_add(g, to, &a->hosts[i]);
    }
    return ERR_OK;
}

static enum err groups_end(void *ctx, struct table *t)
{
    struct host_groups *g = ctx;
    enum err e;

    for (size_t i = 0; i < g->n; i++) {
        table_kept_row(g->rows, i)[g->n_keys + 4] = table_string(str_make(g->list[i].names));
    }
    e = table_kept_sort(g->rows, "-hosts", g->columns, NULL);
    for (size_t i = 0; !e && i < g->n; i++) {
        e = table_row(t, table_kept_row(g->rows, i));
    }
    return e;
}

static int groups_ask(struct cli *c, struct wire_query *q)
{
    struct host_groups g = {.n_keys = 0};
    struct rows_table t = {.page = groups_page, .end = groups_end, .ctx = &g, .timeless = true};
    struct errmsg why = {""};
    int code;

    if (keys_read(&g, opt_value(c->args, "group-by"), &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    t.columns = g.columns;
    t.n = g.n_keys + GROUP_COLUMNS;
    q->forgotten = opt_flag(c->args, "all");
    if (table_kept_create(&g.rows, t.n, KEPT_MAX) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    code = rows_table(c, RPC_QUERY_HOSTS, q, &t);
    for (size_t i = 0; i < g.n; i++) {
        mem_free(g.list[i].key);
    }
    mem_free(g.list);
    table_kept_destroy(g.rows);
    return code;
}

static int hosts_body(struct cli *c)
{
    struct table_column all[N_COLUMNS + N_WIDE];
    struct rows_table t = {.columns = all,
                           .n = N_COLUMNS,
                           .yields = yields,
                           .page = hosts_page,
                           .counted = true,
                           .timeless = true};
    struct wire_query q;
    struct errmsg why = {""};

    if (opt_flag(c->args, "wide")) {
        t.n = N_COLUMNS + N_WIDE;
    }

    memcpy(all, columns, sizeof columns);
    memcpy(all + N_COLUMNS, wide_columns, sizeof wide_columns);
    if (cli_query(c, &q, WIRE_ROWS_MAX, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (opt_value(c->args, "group-by")) {
        return groups_ask(c, &q);
    }
    q.forgotten = opt_flag(c->args, "all");
    if (!q.host.n) {
        t.none = q.forgotten
                     ? "no host has called yet; 'procfleet-collector pki token create' lets "
                       "one enrol"
                     : "no host has called yet, or each is forgotten (--all); "
                       "'procfleet-collector pki token create' lets one enrol";
    }
    return rows_table(c, RPC_QUERY_HOSTS, &q, &t);
}

/* -- hosts forget -- */

static enum err forget_encode(struct buf *out, const char *name)
{
    struct wire_forget m;

    (void)snprintf(m.host, sizeof m.host, "%s", name);
    return wire_admin_forget_encode(out, &m);
}

static enum err forget_decode(struct table_cell *value, char *text, const struct buf *reply)
{
    struct wire_forget_reply m = {0};
    enum err e = wire_admin_forget_reply_decode(&m, reply->p, reply->n);

    (void)text;
    *value = table_number(true, m.hosts);
    return e;
}

static int forget_body(struct cli *c)
{
    static const struct rows_call x = {
        RPC_ADMIN_FORGET_HOST,
        "host",
        {{"name", "NAME", TABLE_TEXT}, {"forgotten", "FORGOTTEN", TABLE_COUNT}},
        forget_encode,
        forget_decode};

    return rows_call(c, &x);
}

static const struct cli_command forget = {&forget_usage, forget_body, CLI_NEEDS_COLLECTOR, NULL};

const struct cli_command cmd_hosts = {&usage, hosts_body, CLI_NEEDS_COLLECTOR, &forget};
