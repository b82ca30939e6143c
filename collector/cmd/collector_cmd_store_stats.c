/* procfleet-collector store stats: how much of what is kept, since when, and what goes next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cmd/collector_cmd_store.h"
#include "collector/store/retention/retain.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"

static const struct opt opts[] = {
    COLLECTOR_CMD_STORE_CONFIG,
    COLLECTOR_CMD_STORE_SET,
    {"hosts", 0, NULL, "by host instead of by tier; reads every segment's directory", false},
    TABLE_OPTS,
    OPT_FORMER("hosts", 'H', NULL, false),
};

const struct opt_command cmd_store_stats_options = {
    .program = "procfleet-collector store",
    .name = "stats",
    .brief = "bytes, values and age of what is kept, and what will be dropped next",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-collector store stats --config /etc/procfleet/collector.yaml\n"
                "  procfleet-collector store stats --set data_dir=/tmp/fleet --hosts\n",
};

/* What there is, and what retention makes of it. */
struct stats {
    struct collector_cmd_store store;
    struct manifest_stats kinds;
    struct retain_conf conf;
    struct retain_now now;
    struct retain_plan plan;
    uint64_t log_bytes, catalogue_bytes;
    struct table *sheet;
};

static enum err gather(struct stats *s, const struct opt_args *a, struct errmsg *why)
{
    enum err e = collector_cmd_store_open(&s->store, a, why);

    if (e) {
        return e;
    }
    manifest_stats(s->store.m, &s->kinds);
    s->log_bytes = collector_cmd_store_dir_bytes(&s->store, "wal");
    s->catalogue_bytes = collector_cmd_store_dir_bytes(&s->store, "catalogue");
    s->now.now_ns = os_utc_ns();
    s->now.other_bytes = s->log_bytes + s->catalogue_bytes + s->kinds.file_bytes;
    err_ignore(os_disk_free(s->store.conf.data_dir, &s->now.disk_free, &s->now.disk_total));
    s->conf = s->store.conf.retain;
    retain_defaults(&s->conf, s->now.disk_total);
    return retain_plan(&s->plan, &s->conf, s->store.l, &s->now);
}

/* -- by tier -- */

static const struct table_column kind_columns[] = {
    {"kind", "KIND", TABLE_TEXT},          {"files", "FILES", TABLE_COUNT},
    {"bytes", "SIZE", TABLE_BYTES},        {"share_bytes", "SHARE", TABLE_BYTES},
    {"values", "VALUES", TABLE_COUNT},     {NULL, "BYTES/VALUE", TABLE_TEXT},
    {"oldest_time", "OLDEST", TABLE_TIME}, {"max_age_ns", "KEPT FOR", TABLE_NS},
};

/* As retention's keys and overview call it. */
static const char *name_of(unsigned kind)
{
    return kind == SEG_REST ? "events" : seg_kind_name(kind);
}

static const char *const kind_yields[] = {"BYTES/VALUE", "FILES", "VALUES", "OLDEST", NULL};

static enum err kind_row(struct stats *s, unsigned kind)
{
    const struct manifest_stats *k = &s->kinds;
    char each[32] = "";

    if (k->values[kind] && kind != SEG_REST) {
        snprintf(each, sizeof each, "%.3f", (double)k->bytes[kind] / (double)k->values[kind]);
    }
    const struct table_cell cells[] = {
        table_string(str_make(name_of(kind))),
        table_number(true, (int64_t)k->files[kind]),
        table_number(true, (int64_t)k->bytes[kind]),
        table_number(true, (int64_t)s->conf.share[kind]),
        table_number(true, (int64_t)k->values[kind]),
        table_string(str_make(each)),
        table_number(k->files[kind] > 0, k->oldest_ns[kind]),
        table_number(s->conf.age_ns[kind] > 0, s->conf.age_ns[kind]),
    };
    return table_row(s->sheet, cells);
}

static enum err other_row(struct stats *s, const char *name, uint64_t bytes, uint64_t ceiling)
{
    const struct table_cell cells[] = {
        table_string(str_make(name)),
        {.state = TABLE_ABSENT},
        table_number(true, (int64_t)bytes),
        table_number(ceiling > 0, (int64_t)ceiling),
        {.state = TABLE_ABSENT},
        {.state = TABLE_ABSENT},
        {.state = TABLE_ABSENT},
        {.state = TABLE_ABSENT},
    };

    return table_row(s->sheet, cells);
}

static void note_next(struct stats *s)
{
    const struct retain_plan *p = &s->plan;
    char when[CLK_TEXT];
    struct buf b;

    buf_init(&b, 512);
    if (p->n > 0) {
        buf_printf(&b, "%zu %s with the collector's next round: ", p->n,
                   plural(p->n, "file goes", "files go"));
        humanize_bytes(&b, (int64_t)p->bytes);
    } else if (p->next_kind) {
        buf_printf(&b, "next to go: %s of %s, in about ", name_of(p->next_kind),
                   clk_format_utc(when, sizeof when, p->next_window_ns, 0));
        humanize_ns(&b, p->next_in_ns);
    } else {
        buf_put_str(&b, "nothing will go as far as can be seen");
    }
    if (p->stop) {
        buf_put_str(&b, "; batches are refused until there is room");
    }
    table_note(s->sheet, str_make(buf_cstr(&b)));
    buf_fini(&b);
}

static enum err print_kinds(struct stats *s)
{
    uint64_t all = s->log_bytes + s->catalogue_bytes;
    enum err e = ERR_OK;

    for (unsigned k = SEG_RAW; k < SEG_KINDS && !e; k++) {
        all += s->kinds.bytes[k];
        e = kind_row(s, k);
    }
    if (!e) {
        e = other_row(s, "log", s->log_bytes, 0);
    }
    if (!e) {
        e = other_row(s, "catalogue", s->catalogue_bytes, 0);
    }
    if (!e) {
        e = other_row(s, "all", all, s->conf.total_bytes);
    }
    note_next(s);
    return e;
}

/* -- by host -- */

static const struct table_column host_columns[] = {
    {"host", "HOST", TABLE_TEXT},          {"id", NULL, TABLE_TEXT},
    {"bytes", "SIZE", TABLE_BYTES},        {"raw_bytes", "RAW", TABLE_BYTES},
    {"10s_bytes", "10S", TABLE_BYTES},     {"1min_bytes", "1MIN", TABLE_BYTES},
    {"1h_bytes", "1H", TABLE_BYTES},       {"events_bytes", "EVENTS", TABLE_BYTES},
    {"oldest_time", "OLDEST", TABLE_TIME}, {"newest_time", "NEWEST", TABLE_TIME},
};

static const char *const host_yields[] = {"1H", "1MIN", "10S", "EVENTS", "OLDEST", "RAW", NULL};

struct host_row {
    struct uuid id;
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t bytes[SEG_KINDS]; /* [0]: of all kinds */
    int64_t oldest_ns, newest_ns;
};

struct host_rows {
    struct host_row *p; /* by id */
    size_t n, cap;
    uint64_t gone, unreadable; /* segments */
};

static enum err host_place(struct host_rows *rows, const struct seg_host *h, size_t *at)
{
    size_t lo = 0, hi = rows->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (memcmp(rows->p[mid].id.b, h->id.b, sizeof h->id.b) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    *at = lo;
    if (lo < rows->n && memcmp(rows->p[lo].id.b, h->id.b, sizeof h->id.b) == 0) {
        return ERR_OK;
    }
    if (rows->n == rows->cap) {
        size_t cap = rows->cap ? rows->cap * 2 : 64;
        struct host_row *grown = mem_realloc_array(rows->p, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        rows->p = grown;
        rows->cap = cap;
    }
    memmove(rows->p + lo + 1, rows->p + lo, (rows->n++ - lo) * sizeof *rows->p);
    rows->p[lo] = (struct host_row){.id = h->id, .oldest_ns = INT64_MAX, .newest_ns = INT64_MIN};
    return ERR_OK;
}

static enum err add_hosts(struct host_rows *rows, const struct seg *s, const uint64_t *bytes)
{
    const struct seg_info *info = seg_info_of(s);
    enum err e = ERR_OK;

    for (size_t i = 0; i < seg_hosts(s) && !e; i++) {
        const struct seg_host *h = seg_host(s, i);
        struct host_row *row;
        size_t at;

        e = host_place(rows, h, &at);
        if (e) {
            break;
        }
        row = &rows->p[at];
        snprintf(row->name, sizeof row->name, "%s", h->name);
        row->bytes[0] += bytes[i];
        row->bytes[info->kind] += bytes[i];
        for (unsigned w = 0; w < info->n_windows; w++) {
            if (h->at[w].t1_ns >= h->at[w].t0_ns) {
                row->oldest_ns = h->at[w].t0_ns < row->oldest_ns ? h->at[w].t0_ns : row->oldest_ns;
                row->newest_ns = h->at[w].t1_ns > row->newest_ns ? h->at[w].t1_ns : row->newest_ns;
            }
        }
    }
    return e;
}

static enum err add_segment(struct host_rows *rows, const struct seg *s)
{
    size_t n = seg_hosts(s);
    uint64_t *bytes = mem_array(n + 1, sizeof *bytes);
    enum err e = bytes ? seg_load_keys(s) : ERR_NOMEM;

    for (size_t i = 0; i < seg_values(s) && !e; i++) {
        uint32_t length;
        struct seg_key key = seg_key_at(s, i, &length);

        bytes[key.host < n ? key.host : n] += length;
    }
    if (!e) {
        e = add_hosts(rows, s, bytes);
    }
    mem_free(bytes);
    return e;
}

/* One list per segment: what was read of one can go before the next. */
static enum err gather_hosts(struct host_rows *rows, struct collector_cmd_store *store,
                             struct errmsg *why)
{
    const struct fio *fio = fio_os();
    enum err e = ERR_OK;

    for (size_t i = 0; i < manifest_segments(store->l) && !e; i++) {
        struct seg *s = NULL;

        e = seg_open(&s, fio, store->dir, manifest_segment(store->l, i), why);
        if (!e) {
            e = add_segment(rows, s);
            seg_close(s);
        }
        if (e == ERR_NOTFOUND) { /* the collector has dropped it meanwhile */
            rows->gone++;
            e = ERR_OK;
        } else if (e == ERR_CORRUPT || e == ERR_VERSION) {
            rows->unreadable++;
            e = ERR_OK;
        }
    }
    return e;
}

static int by_bytes(const void *a, const void *b)
{
    const struct host_row *x = a, *y = b;

    if (x->bytes[0] != y->bytes[0]) {
        return x->bytes[0] > y->bytes[0] ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static enum err print_host(struct table *sheet, const struct host_row *r)
{
    char id[UUID_TEXT];
    bool any = r->newest_ns >= r->oldest_ns;
    struct table_cell cells[10] = {
        table_string(str_make(r->name)),
        table_string(str_make(uuid_format(id, &r->id))),
        [8] = table_number(any, r->oldest_ns),
        [9] = table_number(any, r->newest_ns),
    };

    for (unsigned k = 0; k < SEG_KINDS; k++) {
        cells[2 + k] = table_number(true, (int64_t)r->bytes[k]);
    }
    return table_row(sheet, cells);
}

static enum err print_hosts(struct stats *s, struct errmsg *why)
{
    struct host_rows rows = {.p = NULL};
    char note[128];
    enum err e = gather_hosts(&rows, &s->store, why);

    if (rows.n > 1) {
        qsort(rows.p, rows.n, sizeof *rows.p, by_bytes);
    }
    for (size_t i = 0; i < rows.n && !e; i++) {
        e = print_host(s->sheet, &rows.p[i]);
    }
    if (rows.gone + rows.unreadable > 0) {
        snprintf(note, sizeof note, "%llu %s dropped meanwhile, %llu cannot be read",
                 (unsigned long long)rows.gone, plural(rows.gone, "segment was", "segments were"),
                 (unsigned long long)rows.unreadable);
        table_note(s->sheet, str_make(note));
    }
    if (s->log_bytes > 0) {
        struct buf text;

        buf_init(&text, sizeof note);
        buf_printf(&text, "not sealed yet, and not counted here: a log of ");
        humanize_bytes(&text, (int64_t)s->log_bytes);
        table_note(s->sheet, str_make(buf_cstr(&text)));
        buf_fini(&text);
    }
    mem_free(rows.p);
    return e;
}

/* -- the command -- */

static enum err print(struct stats *s, const struct opt_args *a, struct errmsg *why)
{
    bool hosts = opt_flag(a, "hosts");
    enum err e = gather(s, a, why);

    if (!e) {
        e = hosts
                ? collector_cmd_table(&s->sheet, a, host_columns,
                                      sizeof host_columns / sizeof *host_columns, host_yields, why)
                : collector_cmd_table(&s->sheet, a, kind_columns,
                                      sizeof kind_columns / sizeof *kind_columns, kind_yields, why);
    }
    if (!e) {
        e = hosts ? print_hosts(s, why) : print_kinds(s);
    }
    table_end(s->sheet);
    return e;
}

static int run(const struct opt_args *a)
{
    struct stats s = {.sheet = NULL};
    struct errmsg why = {""};
    enum err e = print(&s, a, &why);

    mem_free(s.plan.drop);
    collector_cmd_store_close(&s.store);
    return e ? collector_cmd_complain(&cmd_store_stats_options, e, why.text) : COLLECTOR_CMD_DONE;
}

int collector_cmd_store_stats(int argc, char **argv)
{
    return collector_cmd_with_options(&cmd_store_stats_options, argc - 1, argv + 1, run);
}
