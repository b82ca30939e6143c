/* procfleet-collector store export: what is sealed, sample by sample or point by point, to standard
 * output. One host and window is in memory at a time. Rows come window by window, in a window host
 * by host, of a host process by process. */
#include "collector/cmd/collector_cmd_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/rollup/tier.h"
#include "collector/store/segment/raw.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/base/search.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define MEMORY_MAX ((size_t)1 << 30) /* of one host's window, decoded */

static const struct opt opts[] = {
    {"tier", 0, "raw|10s|1min|1h",
     "raw: every sample, one row per process and moment; the others: one row per process, metric "
     "and bucket; default raw",
     false},
    {"host", 0, "GLOB", "only hosts of this name", true},
    {"since", 0, "TIME", "from this moment on: 2026-11-21T09:00:00Z, or 2h for two hours ago",
     false},
    {"until", 0, "TIME", "before this moment", false},
    {"metric", 'm', "METRIC", "only this metric", true},
    {"format", 'f', "csv|jsonl", "how it is printed; default csv", false},
    COLLECTOR_CMD_STORE_CONFIG,
    COLLECTOR_CMD_STORE_SET,
    OPT_FORMER("tier", 't', "raw|10s|1min|1h", false),
    OPT_FORMER("host", 'H', "GLOB", true),
    OPT_FORMER("since", 'S', "TIME", false),
    OPT_FORMER("until", 'U', "TIME", false),
};

static const struct opt_set sets[] = {
    {"METRIC", metric_column_name}, {"KEY=VALUE", collector_cmd_conf_setting}, {NULL, NULL}};

static int run(const struct opt_args *a);

const struct opt_command cmd_store_export_options = {
    .program = "procfleet-collector store",
    .name = "export",
    .brief = "write samples or tier points as CSV or JSON lines",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = sets,
    .examples = "  procfleet-collector store export --since 1h --host 'web-*' >hour.csv\n"
                "  procfleet-collector store export --tier 1h --metric cpu_time --format jsonl\n",
    .action = &(const struct opt_action){.judge = run},
};

struct export
{
    struct collector_cmd_store store;
    enum table_format format;
    unsigned kind; /* enum seg_kind */
    int64_t bucket_ns;
    int64_t since_ns, until_ns;
    const char *hosts[OPT_MANY_MAX];
    size_t n_hosts;
    metric_mask metrics;
    struct packer *packer;
    struct arena memory;
    struct table *sheet;
    struct table_column columns[TABLE_COLUMNS];
    size_t n_columns;
    /* What stands in the row at hand. */
    char host_id[UUID_TEXT];
    struct str host;
    uint64_t rows, gone, damaged; /* written; segments dropped meanwhile; values unreadable */
};

/* -- options -- */

static enum err take_format(struct export *x, const struct opt_args *a, struct errmsg *why)
{
    const char *name = collector_cmd_value_or(a, "format", "csv");

    if (strcmp(name, "csv") != 0 && strcmp(name, "jsonl") != 0) {
        return errmsg_set(why, ERR_USAGE, "--format takes csv or jsonl, not '%s'", name);
    }
    x->format = name[0] == 'c' ? TABLE_AS_CSV : TABLE_AS_JSONL;
    return ERR_OK;
}

static enum err take_tier(struct export *x, const struct opt_args *a, struct errmsg *why)
{
    static const int64_t buckets[SEG_REST] = {0, TIER_WINDOW_NS, TIER_10S_NS, TIER_1MIN_NS,
                                              TIER_1H_NS};
    const char *name = collector_cmd_value_or(a, "tier", "raw");

    for (unsigned k = SEG_RAW; k < SEG_REST; k++) {
        if (strcmp(name, seg_kind_name(k)) == 0) {
            x->kind = k;
            x->bucket_ns = buckets[k];
            return ERR_OK;
        }
    }
    return errmsg_set(why, ERR_USAGE, "--tier takes raw, 10s, 1min or 1h, not '%s'", name);
}

static enum err take_time(int64_t *ns, const struct opt_args *a, const char *option, int64_t now_ns,
                          struct errmsg *why)
{
    const char *text = opt_value(a, option);

    if (text && clk_parse_when(ns, text, now_ns) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE,
                          "--%s takes a moment such as 2026-11-21T09:00:00Z, or 2h, not '%s'",
                          option, text);
    }
    return ERR_OK;
}

static enum err take_metrics(struct export *x, const struct opt_args *a, struct errmsg *why)
{
    const char *names[OPT_MANY_MAX];
    size_t n = opt_values(a, "metric", names, OPT_MANY_MAX);

    x->metrics = n ? 0 : METRIC_ALL;
    for (size_t i = 0; i < n; i++) {
        const struct metric *m = metric_by_name(names[i]);

        if (!m || !m->column) {
            const char *meant = m ? NULL : metric_closest(names[i]);

            return errmsg_set(why, ERR_USAGE, "no metric \"%s\" is kept%s%s%s", names[i],
                              meant ? ", did you mean \"" : "", meant ? meant : "",
                              meant ? "\"?" : "");
        }
        x->metrics |= METRIC_BIT(m->id);
    }
    return ERR_OK;
}

static enum err take_options(struct export *x, const struct opt_args *a, struct errmsg *why)
{
    int64_t now_ns = os_utc_ns();
    enum err e = take_format(x, a, why);

    x->since_ns = INT64_MIN;
    x->until_ns = INT64_MAX;
    x->n_hosts = opt_values(a, "host", x->hosts, OPT_MANY_MAX);
    if (!e) {
        e = take_tier(x, a, why);
    }
    if (!e) {
        e = take_metrics(x, a, why);
    }
    if (!e) {
        e = take_time(&x->since_ns, a, "since", now_ns, why);
    }
    return e ? e : take_time(&x->until_ns, a, "until", now_ns, why);
}

/* -- columns -- */

static const struct table_column who_columns[] = {
    {"host", NULL, TABLE_TEXT}, {"host_id", NULL, TABLE_TEXT}, {"time", NULL, TABLE_TIME},
    {"pid", NULL, TABLE_ID},    {"start", NULL, TABLE_WIDE},   {"name", NULL, TABLE_TEXT},
    {"user", NULL, TABLE_TEXT},
};
#define N_WHO (sizeof who_columns / sizeof *who_columns)

static const struct table_column point_columns[] = {
    {"bucket_ns", NULL, TABLE_NS}, {"instances", NULL, TABLE_COUNT}, {"metric", NULL, TABLE_TEXT},
    {"count", NULL, TABLE_ID},     {"first", NULL, TABLE_WIDE},      {"last", NULL, TABLE_WIDE},
    {"sum", NULL, TABLE_WIDE},     {"min", NULL, TABLE_WIDE},        {"max", NULL, TABLE_WIDE},
    {"growth", NULL, TABLE_WIDE},
};
#define N_POINT (sizeof point_columns / sizeof *point_columns)

static void set_columns(struct export *x)
{
    memcpy(x->columns, who_columns, sizeof who_columns);
    x->n_columns = N_WHO;
    if (x->kind != SEG_RAW) {
        memcpy(x->columns + N_WHO, point_columns, sizeof point_columns);
        x->n_columns += N_POINT;
        return;
    }
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && x->metrics & METRIC_BIT(m->id) && x->n_columns < TABLE_COLUMNS) {
            x->columns[x->n_columns++] = (struct table_column){m->name, NULL, table_unit_of(m)};
        }
    }
}

static void set_who(const struct export *x, struct table_cell *cells, int64_t when_ns,
                    struct proc_id id, const struct tier_row *known)
{
    bool one = !known || known->instances == 0;

    cells[0] = table_string(x->host);
    cells[1] = table_string(str_make(x->host_id));
    cells[2] = table_number(true, when_ns);
    cells[3] = table_number(one, id.pid);
    cells[4] = table_number(one && id.start <= INT64_MAX, (int64_t)id.start);
    cells[5] = table_string(known ? known->name : str_make(""));
    cells[6] = table_string(known ? known->user : str_make(""));
}

static bool in_time(const struct export *x, int64_t ns)
{
    return ns >= x->since_ns && ns < x->until_ns;
}

static enum err put(struct export *x, const struct table_cell *cells)
{
    x->rows++;
    return table_row(x->sheet, cells);
}

/* -- tiers -- */

/* Where the cells of each row begin in the columns, row by row. */
struct at {
    size_t column[METRIC_COLS];
};

/* A row and where its cells begin. A process has several rows when its metrics change: they are
 * put one behind the other, by time. */
struct placed {
    const struct tier_row *row;
    const struct uuid *boot;
    struct at at;
};

/* What a counter grew: since the row's first sample, since the process's row before, or since its
 * beginning. */
static int64_t growth(const struct tier_row *row, const struct cell *c, bool first)
{
    if (row->instances > 0) {
        return c->sum;
    }
    return first && row->fresh ? c->last : c->last - c->first;
}

static enum err put_point(struct export *x, struct table_cell *cells, const struct tier_row *row,
                          const struct metric *m, const struct cell *point,
                          const struct cell *before)
{
    struct table_cell *p = cells + N_WHO;
    bool counter = m->kind == METRIC_COUNTER, folded = row->instances > 0;
    struct cell joined = *point;
    const struct cell *c = &joined;

    if (counter && !folded && before) {
        cell_follow(&joined, before);
    }

    p[0] = table_number(true, x->bucket_ns);
    p[1] = table_number(folded, row->instances);
    p[2] = table_string(str_make(m->name));
    p[3] = table_number(true, (int64_t)c->count);
    p[4] = table_number(!folded && counter, c->first);
    p[5] = table_number(!folded, c->last);
    p[6] = table_number(!counter, c->sum);
    p[7] = table_number(!counter || folded || cell_grew(c), c->min);
    p[8] = table_number(!counter || folded || cell_grew(c), c->max);
    p[9] = table_number(counter, growth(row, c, !before));
    return put(x, cells);
}

/* newest: the process's newest cells so far. */
static enum err put_bucket(struct export *x, const struct tier *t, const struct placed *at,
                           uint32_t bucket, const struct cell *newest[METRIC_COLS])
{
    const struct tier_row *row = at->row;
    struct table_cell cells[N_WHO + N_POINT];
    int64_t when_ns = t->buckets[row->first_bucket + bucket].begin_ns;
    bool wanted = in_time(x, when_ns);
    enum err e = ERR_OK;

    set_who(x, cells, when_ns, row->id, row);
    for (unsigned m = 0; m < METRIC_COLS && !e; m++) {
        const struct metric *metric = metric_by_id(m);

        if (row->mask & t->metrics & METRIC_BIT(m) && metric) {
            const struct cell *c = &t->columns[m][at->at.column[m] + bucket];

            if (c->count) {
                e = wanted ? put_point(x, cells, row, metric, c, newest[m]) : ERR_OK;
                newest[m] = c;
            }
        }
    }
    return e;
}

static int compare_process(const struct placed *a, const struct placed *b)
{
    int c = memcmp(a->boot, b->boot, sizeof *a->boot);

    if (c == 0) {
        c = (a->row->instances > 0) - (b->row->instances > 0);
    }
    if (c == 0 && a->row->id.pid != b->row->id.pid) {
        c = a->row->id.pid < b->row->id.pid ? -1 : 1;
    }
    if (c == 0 && a->row->id.start != b->row->id.start) {
        c = a->row->id.start < b->row->id.start ? -1 : 1;
    }
    return c;
}

static int by_process(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    int c = compare_process(x, y);

    if (c == 0 && x->row->first_ns != y->row->first_ns) {
        c = x->row->first_ns < y->row->first_ns ? -1 : 1;
    }
    return c ? c : (x->row > y->row) - (x->row < y->row);
}

static struct placed *place_rows(struct export *x, const struct tier *t)
{
    struct placed *rows = arena_array(&x->memory, t->n_rows, sizeof *rows);
    struct at at = {{0}};

    for (size_t i = 0; rows && i < t->n_rows; i++) {
        const struct tier_row *row = &t->rows[i];

        rows[i] = (struct placed){row, &t->parts[row->part].boot, at};
        for (unsigned m = 0; m < METRIC_COLS; m++) {
            at.column[m] += row->mask & t->metrics & METRIC_BIT(m) ? row->n_buckets : 0;
        }
    }
    if (rows && t->n_rows > 1) {
        qsort(rows, t->n_rows, sizeof *rows, by_process);
    }
    return rows;
}

static enum err put_tier(struct export *x, const struct seg *s, uint32_t host, uint8_t window)
{
    struct tier_ask ask = {host, window, x->bucket_ns, x->metrics, true};
    const struct cell *newest[METRIC_COLS];
    struct placed *rows = NULL;
    struct tier t;
    enum err e = tier_read(&t, s, x->packer, &x->memory, &ask);

    if (!e && t.n_rows > 0) {
        rows = place_rows(x, &t);
        e = rows ? ERR_OK : ERR_FULL;
    }
    for (size_t i = 0; !e && i < t.n_rows; i++) {
        if (i == 0 || rows[i].row->instances > 0 || compare_process(&rows[i - 1], &rows[i]) != 0) {
            memset(newest, 0, sizeof newest);
        }
        for (uint32_t b = 0; b < rows[i].row->n_buckets && !e; b++) {
            e = put_bucket(x, &t, &rows[i], b, newest);
        }
    }
    return e;
}

/* -- samples -- */

/* Names come from the summaries beside the samples. */
struct names {
    const struct tier_row **p; /* by part's boot and instance */
    size_t n;
    struct tier t;
};

static int compare_name(const struct names *n, const struct tier_row *row, const struct uuid *boot,
                        struct proc_id id)
{
    int c = memcmp(n->t.parts[row->part].boot.b, boot->b, sizeof boot->b);

    if (c == 0 && row->id.pid != id.pid) {
        c = row->id.pid < id.pid ? -1 : 1;
    }
    if (c == 0 && row->id.start != id.start) {
        c = row->id.start < id.start ? -1 : 1;
    }
    return c;
}

static int by_name(const void *a, const void *b, void *ctx)
{
    const struct tier_row *x = *(const struct tier_row *const *)a;
    const struct tier_row *y = *(const struct tier_row *const *)b;
    const struct names *n = ctx;

    return compare_name(n, x, &n->t.parts[y->part].boot, y->id);
}

static enum err read_names(struct export *x, struct names *n, const struct seg *s, uint32_t host,
                           uint8_t window)
{
    struct tier_ask ask = {host, window, TIER_WINDOW_NS, 0, true};
    enum err e = tier_read(&n->t, s, x->packer, &x->memory, &ask);

    n->n = 0;
    if (e) {
        return e == ERR_NOTFOUND ? ERR_OK : e;
    }
    n->p = arena_array(&x->memory, n->t.n_rows, sizeof *n->p);
    if (!n->p) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < n->t.n_rows; i++) {
        n->p[n->n++] = &n->t.rows[i];
    }
    if (n->n > 1) {
        qsort_r(n->p, n->n, sizeof *n->p, by_name, n);
    }
    return ERR_OK;
}

static const struct tier_row *find_name(const struct names *n, const struct uuid *boot,
                                        struct proc_id id)
{
    size_t i;

    SEARCH_LOWER(i, n->n, compare_name(n, n->p[i], boot, id) < 0);
    return i < n->n && compare_name(n, n->p[i], boot, id) == 0 ? n->p[i] : NULL;
}

/* One process at one moment. at: where the run's values begin in each of the batch's columns. */
static enum err put_sample(struct export *x, struct table_cell *cells, const struct batch *b,
                           const struct batch_run *run, uint32_t tick, const struct at *at)
{
    size_t i = N_WHO, c = 0;

    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (!m->column || !(x->metrics & METRIC_BIT(m->id)) || i == x->n_columns) {
            continue;
        }
        while (c < b->n_columns && b->columns[c].metric < m->id) {
            c++;
        }
        cells[i++] =
            run->mask & METRIC_BIT(m->id) && c < b->n_columns && b->columns[c].metric == m->id
                ? table_number(true, b->columns[c].values[at->column[m->id] + tick])
                : table_number(false, 0);
    }
    return put(x, cells);
}

static enum err put_part(struct export *x, const struct batch *b, const struct names *names)
{
    struct table_cell cells[TABLE_COLUMNS];
    struct at at = {{0}};
    enum err e = ERR_OK;

    for (size_t i = 0; i < b->n_runs && !e; i++) {
        const struct batch_run *run = &b->runs[i];
        const struct tier_row *known = find_name(names, &b->head.boot, run->id);

        for (uint32_t k = 0; k < run->n_ticks && !e; k++) {
            int64_t when_ns = b->wall_ns[run->first_tick + k];

            if (in_time(x, when_ns)) {
                set_who(x, cells, when_ns, run->id, known);
                e = put_sample(x, cells, b, run, k, &at);
            }
        }
        for (unsigned m = 0; m < METRIC_COLS; m++) {
            at.column[m] += run->mask & METRIC_BIT(m) ? run->n_ticks : 0;
        }
    }
    return e;
}

static enum err put_rows(struct export *x, const struct seg *s, uint32_t host, uint8_t window)
{
    struct raw_want want = {.metrics = x->metrics};
    struct window_part *parts;
    struct names names;
    size_t n;
    enum err e = raw_value_read(s, x->packer, &x->memory, host, window, &want, &parts, &n);

    if (!e) {
        e = read_names(x, &names, s, host, window);
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = put_part(x, &parts[i].rows, &names);
    }
    return e;
}

/* -- walking -- */

static bool wants_host(struct export *x, const struct seg_host *h)
{
    bool wanted = x->n_hosts == 0;

    x->host = str_make(h->name);
    for (size_t i = 0; i < x->n_hosts && !wanted; i++) {
        wanted = glob_match(str_make(x->hosts[i]), x->host);
    }
    if (wanted) {
        uuid_format(x->host_id, &h->id);
    }
    return wanted;
}

static bool meets(const struct export *x, int64_t t0_ns, int64_t t1_ns)
{
    /* A bucket stands at its beginning, which may lie before what is in it. */
    return t1_ns >= t0_ns && t1_ns >= x->since_ns && clk_sub(t0_ns, x->bucket_ns) < x->until_ns;
}

static enum err put_window(struct export *x, const struct seg *s, size_t host, unsigned window)
{
    enum err e;

    arena_reset(&x->memory);
    e = x->kind == SEG_RAW ? put_rows(x, s, (uint32_t)host, (uint8_t)window)
                           : put_tier(x, s, (uint32_t)host, (uint8_t)window);
    x->damaged += e == ERR_CORRUPT;
    return e == ERR_CORRUPT || e == ERR_NOTFOUND ? ERR_OK : e;
}

static enum err put_segment(struct export *x, const struct seg *s)
{
    enum err e = ERR_OK;

    for (unsigned w = 0; w < seg_info_of(s)->n_windows && !e; w++) {
        for (size_t i = 0; i < seg_hosts(s) && !e; i++) {
            const struct seg_host *h = seg_host(s, i);

            if (meets(x, h->at[w].t0_ns, h->at[w].t1_ns) && wants_host(x, h)) {
                e = put_window(x, s, i, w);
            }
            if (!e && ferror(stdout)) {
                e = ERR_IO;
            }
        }
    }
    return e;
}

static enum err put_all(struct export *x)
{
    const struct manifest_list *l = x->store.l;
    size_t end = manifest_lower(l, x->kind + 1, INT64_MIN);
    enum err e = ERR_OK;

    for (size_t i = manifest_lower(l, x->kind, INT64_MIN); i < end && !e; i++) {
        const struct seg_info *info = manifest_segment(l, i);
        const struct seg *s;

        if (!meets(x, info->t0_ns, info->t1_ns)) {
            continue;
        }
        e = manifest_seg(l, i, &s);
        if (e == ERR_NOTFOUND || e == ERR_CORRUPT) { /* dropped by the collector meanwhile, or */
            x->gone += e == ERR_NOTFOUND;
            x->damaged += e == ERR_CORRUPT;
            e = ERR_OK;
            continue;
        }
        if (!e) {
            e = put_segment(x, s);
            manifest_seg_done(l, i);
        }
    }
    return e;
}

/* -- the command -- */

static void tell(const struct export *x)
{
    uint64_t log = collector_cmd_store_dir_bytes(&x->store, "wal");

    fprintf(stderr, "%llu %s\n", (unsigned long long)x->rows, plural(x->rows, "row", "rows"));
    if (log > 0) {
        fprintf(stderr, "not sealed yet, and not here: a log of %llu bytes\n",
                (unsigned long long)log);
    }
    if (x->gone > 0) {
        fprintf(stderr, "%llu %s dropped by age or size meanwhile\n", (unsigned long long)x->gone,
                plural(x->gone, "segment was", "segments were"));
    }
    if (x->damaged > 0) {
        fprintf(stderr, "%llu %s damaged and left out: see 'procfleet-collector store check'\n",
                (unsigned long long)x->damaged, plural(x->damaged, "value is", "values are"));
    }
}

static enum err export_all(struct export *x, struct errmsg *why)
{
    enum err e = packer_create(&x->packer);

    arena_init(&x->memory, MEMORY_MAX);
    set_columns(x);
    if (!e) {
        e = table_begin(&x->sheet, stdout, x->format, false, x->columns, x->n_columns);
    }
    if (!e) {
        e = put_all(x);
        table_end(x->sheet);
    }
    if (!e && fflush(stdout) != 0) {
        e = ERR_IO;
    }
    if (ferror(stdout)) {
        errmsg_set(why, e, "cannot write to standard output");
    }
    packer_destroy(x->packer);
    arena_fini(&x->memory);
    return e;
}

static int run(const struct opt_args *a)
{
    struct export x = {.format = TABLE_AS_CSV};
    struct errmsg why = {""};
    enum err e = take_options(&x, a, &why);
    int code;

    if (!e) {
        e = collector_cmd_store_open(&x.store, a, &why);
    }
    if (!e) {
        e = export_all(&x, &why);
    }
    if (!e) {
        tell(&x);
    }
    code = e           ? collector_cmd_complain(&cmd_store_export_options, e, why.text)
           : x.damaged ? COLLECTOR_CMD_FAILED
                       : COLLECTOR_CMD_DONE;
    collector_cmd_store_close(&x.store);
    return code;
}
