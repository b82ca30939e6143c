/* procfleet-collector store: what is on disk. */
#include "collector/cmd/collector_cmd_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/ingest/forgotten.h"
#include "collector/store/check/check.h"
#include "collector/store/retention/retain.h"
#include "collector/subscribe/feed_check.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"

/* -- what the commands share -- */

enum err collector_cmd_store_open(struct collector_cmd_store *s, const struct opt_args *a,
                                  struct errmsg *why)
{
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(a, "set", sets, OPT_MANY_MAX);
    struct manifest_conf conf = {.fio = fio_os()};
    enum err e;

    *s = (struct collector_cmd_store){.dir = NULL};
    e = collector_conf_load(&s->conf, opt_value(a, "config"), sets, n_sets, why);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_USAGE; /* also a file that is not there */
    }
    s->dir = os_path_join(s->conf.data_dir, "segments");
    if (!s->dir) {
        return ERR_NOMEM;
    }
    conf.dir = s->dir;
    if (!os_exists(s->dir)) {
        return errmsg_set(why, ERR_NOTFOUND, "there is no store in %s: see --config and --set",
                          s->conf.data_dir);
    }
    e = manifest_open_reader(&s->m, &conf, why);
    if (!e) {
        s->l = manifest_view(s->m);
        e = s->l ? ERR_OK : ERR_NOMEM;
    }
    return e;
}

void collector_cmd_store_close(struct collector_cmd_store *s)
{
    manifest_list_release(s->l);
    manifest_close(s->m);
    mem_free(s->dir);
    collector_conf_fini(&s->conf);
}

/* -- sizes -- */

struct sizes {
    const char *dir;
    uint64_t bytes;
};

/* What goes meanwhile does not count. */
static enum err add_file(void *ctx, const char *name)
{
    struct sizes *s = ctx;
    const struct fio *fio = fio_os();
    char *path = os_path_join(s->dir, name);
    struct fio_file *f;
    uint64_t bytes;

    if (path && fio->open(fio->ctx, &f, path) == ERR_OK) {
        if (fio->size(fio->ctx, f, &bytes) == ERR_OK) {
            s->bytes += bytes;
        }
        fio->close(fio->ctx, f);
    }
    mem_free(path);
    return ERR_OK;
}

uint64_t collector_cmd_store_dir_bytes(const struct collector_cmd_store *s, const char *name)
{
    char *dir = os_path_join(s->conf.data_dir, name);
    struct sizes sizes = {.dir = dir};

    if (dir) {
        err_ignore(os_list_dir(dir, add_file, &sizes));
    }
    mem_free(dir);
    return sizes.bytes;
}

/* -- check: verifies every checksum, and with --repair repairs -- */

/* Exit codes of this command. */
enum { CHECK_EXIT_SOUND, CHECK_EXIT_MENDED, CHECK_EXIT_DAMAGED, CHECK_EXIT_FAILED };

static const struct opt check_opts[] = {
    COLLECTOR_CMD_STORE_CONFIG,
    COLLECTOR_CMD_STORE_SET,
    {"repair", 0, NULL,
     "repair what is damaged: keep what is sound of a file, rebuild the list of segments; the "
     "collector must be stopped",
     false},
    TABLE_OPTS,
    OPT_FORMER("repair", 'r', NULL, false),
};

static int check_run(const struct opt_args *a);

static const struct opt_command check_options = {
    .program = "procfleet-collector store",
    .name = "check",
    .brief = "read all files and verify every checksum; repair what can be",
    .opts = check_opts,
    .n_opts = sizeof check_opts / sizeof *check_opts,
    .sets = cmd_conf_sets,
    .examples =
        "  procfleet-collector store check --config /etc/procfleet/collector.yaml\n"
        "  procfleet-collector store check --repair --set data_dir=/tmp/fleet\n"
        "\n"
        "Exit code: 0 all is sound, 1 something was damaged and is repaired, 2 something is\n"
        "damaged (or wrong usage), 3 the check could not be carried out.\n",
    .action = &(const struct opt_action){.judge = check_run},
};

static const struct table_column check_columns[] = {
    {"kind", "KIND", TABLE_TEXT},
    {"files", "FILES", TABLE_COUNT},
    {"bytes", "SIZE", TABLE_BYTES},
    {"values", "VALUES", TABLE_COUNT},
    {"damaged_files", "DAMAGED FILES", TABLE_COUNT},
    {"damaged", "DAMAGED VALUES", TABLE_COUNT},
    {"lost", "LOST", TABLE_COUNT},
};

static const char *const check_yields[] = {"FILES", "VALUES", "SIZE", NULL};

struct check_run {
    struct table *sheet;
    bool terminal; /* standard error is one: progress is shown there */
    bool shown;
    int64_t told_ns;
};

/* -- on the way -- */

static void check_progress_clear(struct check_run *r)
{
    if (r->shown) {
        fputs("\r\033[K", stderr);
        r->shown = false;
    }
}

static void check_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct check_run *r = ctx;
    int64_t now_ns = os_mono_ns();
    struct buf b;

    if (!r->terminal || now_ns - r->told_ns < 200 * CLK_MS) {
        return;
    }
    r->told_ns = now_ns;
    buf_init(&b, 256);
    buf_put_str(&b, "\rchecked ");
    humanize_bytes(&b, (int64_t)done_bytes);
    if (total_bytes >= done_bytes && total_bytes > 0) {
        buf_put_str(&b, " of ");
        humanize_bytes(&b, (int64_t)total_bytes);
    }
    buf_put_str(&b, "\033[K");
    fputs(buf_cstr(&b), stderr);
    fflush(stderr);
    r->shown = true;
    buf_fini(&b);
}

static void check_note_file(void *ctx, const struct check_file *f)
{
    static const char *const states[] = {
        [CHECK_SOUND] = "sound",
        [CHECK_DAMAGED] = "damaged",
        [CHECK_MENDED] = "repaired",
        [CHECK_ASIDE] = "unreadable, put aside as .bad",
        [CHECK_KEPT] = "unreadable, put aside by the collector; remove it when it is not "
                       "needed any more",
        [CHECK_MISSING] = "files that it names are missing",
    };
    struct check_run *r = ctx;
    struct buf b;

    check_progress_clear(r);
    buf_init(&b, 512);
    buf_printf(&b, "%s: %s", f->name, states[f->state]);
    if (f->values >= f->damaged) {
        buf_printf(&b, "; %llu of %llu unreadable", (unsigned long long)f->damaged,
                   (unsigned long long)f->values);
    }
    if (f->lost > 0) {
        buf_printf(&b, ", %llu lost", (unsigned long long)f->lost);
    }
    table_note(r->sheet, str_make(buf_cstr(&b)));
    buf_fini(&b);
}

/* -- the feed's files -- */

struct feed_run {
    struct check_run *run;
    struct check_count journal, subscriptions, forgotten;
};

static void check_note_feed(void *ctx, const struct feed_check_file *f)
{
    struct feed_run *x = ctx;
    struct check_count *count = f->journal ? &x->journal : &x->subscriptions;
    char name[96];
    const struct check_file file = {
        .name = name, .state = CHECK_DAMAGED, .values = f->records, .damaged = f->damaged};

    count->files++;
    count->bytes += f->bytes;
    count->values += f->records;
    count->damaged_files += f->damaged > 0;
    count->damaged += f->damaged;
    if (f->damaged) {
        (void)snprintf(name, sizeof name, "feed/%s", f->name);
        check_note_file(x->run, &file);
    }
}

/* Only read: the collector cuts out by itself what is damaged in them when it starts. */
static enum err check_feed_files(struct feed_run *x, const struct check_conf *conf,
                                 struct errmsg *why)
{
    char *dir = os_path_join(conf->data_dir, "feed");
    enum err e = dir ? feed_check(conf->fio, dir, check_note_feed, x) : ERR_NOMEM;

    if (e) {
        errmsg_set(why, e, "cannot check %s: %s", dir ? dir : "the feed", err_text(e));
    }
    mem_free(dir);
    return e;
}

/* -- the hosts that are forgotten -- */

/* Only read: the collector sets a damaged one aside when it starts. */
static enum err check_forgotten_file(struct feed_run *x, const struct check_conf *conf,
                                     struct errmsg *why)
{
    const struct check_file file = {
        .name = "forgotten", .state = CHECK_DAMAGED, .values = 1, .damaged = 1};
    uint64_t bytes;
    size_t n;
    enum err e = forgotten_check(conf->fio, conf->data_dir, &bytes, &n);

    if (e && e != ERR_CORRUPT) {
        return errmsg_set(why, e, "cannot check the hosts that are forgotten: %s", err_text(e));
    }
    x->forgotten = (struct check_count){.files = bytes > 0 || e,
                                        .bytes = bytes,
                                        .values = n,
                                        .damaged_files = e == ERR_CORRUPT,
                                        .damaged = e == ERR_CORRUPT};
    if (e) {
        check_note_file(x->run, &file);
    }
    return ERR_OK;
}

/* -- the table -- */

static enum err check_row(struct check_run *r, const char *name, const struct check_count *c)
{
    const struct table_cell cells[] = {
        table_string(str_make(name)),
        table_number(true, (int64_t)c->files),
        table_number(c->bytes > 0, (int64_t)c->bytes),
        table_number(true, (int64_t)c->values),
        table_number(true, (int64_t)c->damaged_files),
        table_number(true, (int64_t)c->damaged),
        table_number(true, (int64_t)c->lost),
    };

    return table_row(r->sheet, cells);
}

static enum err check_print(struct check_run *r, const struct check_result *result,
                            const struct feed_run *feed)
{
    bool damaged = result->damaged || feed->journal.damaged || feed->subscriptions.damaged ||
                   feed->forgotten.damaged;
    const struct {
        const char *name;
        const struct check_count *count;
    } others[] = {{"manifest", &result->manifest},         {"log", &result->log},
                  {"indexes", &result->indexes},           {"hosts", &result->hosts},
                  {"catalogue", &result->catalogue},       {"journal", &feed->journal},
                  {"subscriptions", &feed->subscriptions}, {"forgotten", &feed->forgotten}};
    enum err e = ERR_OK;

    for (unsigned k = SEG_RAW; k < SEG_KINDS && !e; k++) {
        e = check_row(r, seg_kind_name(k), &result->kinds[k]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && !e; i++) {
        e = check_row(r, others[i].name, others[i].count);
    }
    if (damaged) {
        table_note(r->sheet, str_make("damaged: stop the collector and run this with --repair; "
                                      "of the log nothing can be repaired, its files go when "
                                      "their batches are sealed; of the feed's files the "
                                      "collector takes out by itself what is damaged, and a "
                                      "list of forgotten hosts it sets aside"));
    } else {
        table_note(r->sheet, str_make(result->mended ? "repaired" : "all is sound"));
    }
    return e;
}

static int check_fail(enum err e, const char *text)
{
    return collector_cmd_complain(&check_options, e, text) == COLLECTOR_CMD_USAGE
               ? CHECK_EXIT_DAMAGED
               : CHECK_EXIT_FAILED;
}

static int check_all(const struct check_conf *conf, struct check_run *r)
{
    struct check_result result = {.damaged = false};
    struct feed_run feed = {.run = r};
    struct errmsg why = {""};
    enum err e = check_store(&result, conf, &why);

    e = e ? e : check_feed_files(&feed, conf, &why);
    e = e ? e : check_forgotten_file(&feed, conf, &why);
    check_progress_clear(r);
    if (!e) {
        e = check_print(r, &result, &feed);
        result.damaged |=
            feed.journal.damaged || feed.subscriptions.damaged || feed.forgotten.damaged;
    }
    table_end(r->sheet);
    if (e) {
        return check_fail(e, why.text);
    }
    return result.damaged  ? CHECK_EXIT_DAMAGED
           : result.mended ? CHECK_EXIT_MENDED
                           : CHECK_EXIT_SOUND;
}

static int check_run(const struct opt_args *a)
{
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(a, "set", sets, OPT_MANY_MAX);
    struct collector_conf settings;
    struct check_conf conf = {.fio = fio_os(), .repair = opt_flag(a, "repair")};
    struct check_run r = {.terminal = os_is_terminal(2)};
    struct errmsg why = {""};
    enum err e = collector_conf_load(&settings, opt_value(a, "config"), sets, n_sets, &why);
    int code;

    if (!e) {
        e = collector_cmd_table(&r.sheet, a, check_columns,
                                sizeof check_columns / sizeof *check_columns, check_yields, &why);
    } else if (e != ERR_NOMEM) {
        e = ERR_USAGE; /* also a file that is not there */
    }
    if (!e && conf.repair) {
        e = os_owner_check(settings.data_dir, &why);
    }
    if (e) {
        code = check_fail(e, why.text);
    } else {
        conf.data_dir = settings.data_dir;
        conf.on_file = check_note_file;
        conf.on_progress = check_progress;
        conf.ctx = &r;
        code = check_all(&conf, &r);
    }
    collector_conf_fini(&settings);
    return code;
}

/* -- stats: how much of what is kept, since when, and what goes next -- */

static const struct opt stats_opts[] = {
    COLLECTOR_CMD_STORE_CONFIG,
    COLLECTOR_CMD_STORE_SET,
    {"hosts", 0, NULL, "by host instead of by tier; reads every segment's directory", false},
    TABLE_OPTS,
    OPT_FORMER("hosts", 'H', NULL, false),
};

static enum err stats_run(const struct opt_args *a, struct errmsg *why);

static const struct opt_command stats_options = {
    .program = "procfleet-collector store",
    .name = "stats",
    .brief = "bytes, values and age of what is kept, and what will be dropped next",
    .opts = stats_opts,
    .n_opts = sizeof stats_opts / sizeof *stats_opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-collector store stats --config /etc/procfleet/collector.yaml\n"
                "  procfleet-collector store stats --set data_dir=/tmp/fleet --hosts\n",
    .action = &(const struct opt_action){.run = stats_run},
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

static enum err stats_gather(struct stats *s, const struct opt_args *a, struct errmsg *why)
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
static const char *stats_kind_name(unsigned kind)
{
    return kind == SEG_REST ? "events" : seg_kind_name(kind);
}

static const char *const kind_yields[] = {"BYTES/VALUE", "FILES", "VALUES", "OLDEST", NULL};

static enum err stats_kind_row(struct stats *s, unsigned kind)
{
    const struct manifest_stats *k = &s->kinds;
    char each[32] = "";

    if (k->values[kind] && kind != SEG_REST) {
        snprintf(each, sizeof each, "%.3f", (double)k->bytes[kind] / (double)k->values[kind]);
    }
    const struct table_cell cells[] = {
        table_string(str_make(stats_kind_name(kind))),
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

static enum err stats_other_row(struct stats *s, const char *name, uint64_t bytes, uint64_t ceiling)
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

static void stats_note_next(struct stats *s)
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
        buf_printf(&b, "next to go: %s of %s, in about ", stats_kind_name(p->next_kind),
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

static enum err stats_print_kinds(struct stats *s)
{
    uint64_t all = s->log_bytes + s->catalogue_bytes;
    enum err e = ERR_OK;

    for (unsigned k = SEG_RAW; k < SEG_KINDS && !e; k++) {
        all += s->kinds.bytes[k];
        e = stats_kind_row(s, k);
    }
    if (!e) {
        e = stats_other_row(s, "log", s->log_bytes, 0);
    }
    if (!e) {
        e = stats_other_row(s, "catalogue", s->catalogue_bytes, 0);
    }
    if (!e) {
        e = stats_other_row(s, "all", all, s->conf.total_bytes);
    }
    stats_note_next(s);
    return e;
}

/* -- by host -- */

static const struct table_column host_columns[] = {
    {"host", "HOST", TABLE_TEXT},
    {"id", NULL, TABLE_TEXT},
    {"bytes", "SIZE", TABLE_BYTES},
    {"raw_bytes", "RAW", TABLE_BYTES},
    {"10s_bytes", "10S", TABLE_BYTES},
    {"1min_bytes", "1MIN", TABLE_BYTES},
    {"1h_bytes", "1H", TABLE_BYTES},
    {"events_bytes", "EVENTS", TABLE_BYTES},
    {"provider_bytes", "PROVIDER", TABLE_BYTES},
    {"oldest_time", "OLDEST", TABLE_TIME},
    {"newest_time", "NEWEST", TABLE_TIME},
    {"sums_bytes", "SUMS", TABLE_BYTES},
    {"sums_windows", NULL, TABLE_COUNT},
};

static const char *const host_yields[] = {"SUMS",   "PROVIDER", "1H",  "1MIN", "10S",
                                          "EVENTS", "OLDEST",   "RAW", NULL};

struct host_row {
    struct uuid id;
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t bytes[SEG_KINDS]; /* [0]: of all kinds */
    uint64_t sums, sums_n;     /* of raw: bytes of sums by image and user, and windows with them */
    int64_t oldest_ns, newest_ns;
};

struct host_rows {
    struct host_row *p; /* by id */
    size_t n, cap;
    uint64_t gone, unreadable; /* segments */
};

static enum err host_rows_place(struct host_rows *rows, const struct seg_host *h, size_t *at)
{
    size_t i;
    enum err e;

    SEARCH_LOWER(i, rows->n, memcmp(rows->p[i].id.b, h->id.b, sizeof h->id.b) < 0);
    *at = i;
    if (i < rows->n && memcmp(rows->p[i].id.b, h->id.b, sizeof h->id.b) == 0) {
        return ERR_OK;
    }
    e = VEC_ROOM(&rows->p, &rows->cap, rows->n + 1, SIZE_MAX);
    if (e) {
        return e;
    }
    memmove(rows->p + i + 1, rows->p + i, (rows->n++ - i) * sizeof *rows->p);
    rows->p[i] = (struct host_row){.id = h->id, .oldest_ns = INT64_MAX, .newest_ns = INT64_MIN};
    return ERR_OK;
}

/* What one host has of a segment. */
struct host_bytes {
    uint64_t all, sums, sums_n;
};

static enum err host_rows_add(struct host_rows *rows, const struct seg *s,
                              const struct host_bytes *bytes)
{
    const struct seg_info *info = seg_info_of(s);
    enum err e = ERR_OK;

    for (size_t i = 0; i < seg_hosts(s) && !e; i++) {
        const struct seg_host *h = seg_host(s, i);
        struct host_row *row;
        size_t at;

        e = host_rows_place(rows, h, &at);
        if (e) {
            break;
        }
        row = &rows->p[at];
        snprintf(row->name, sizeof row->name, "%s", h->name);
        row->bytes[0] += bytes[i].all;
        row->bytes[info->kind] += bytes[i].all;
        row->sums += bytes[i].sums;
        row->sums_n += bytes[i].sums_n;
        for (unsigned w = 0; w < info->n_windows; w++) {
            if (h->at[w].t1_ns >= h->at[w].t0_ns) {
                row->oldest_ns = h->at[w].t0_ns < row->oldest_ns ? h->at[w].t0_ns : row->oldest_ns;
                row->newest_ns = h->at[w].t1_ns > row->newest_ns ? h->at[w].t1_ns : row->newest_ns;
            }
        }
    }
    return e;
}

static enum err host_rows_add_segment(struct host_rows *rows, const struct seg *s)
{
    size_t n = seg_hosts(s);
    struct host_bytes *bytes = mem_array(n + 1, sizeof *bytes);
    enum err e = bytes ? seg_load_keys(s) : ERR_NOMEM;

    for (size_t i = 0; i < seg_values(s) && !e; i++) {
        uint32_t length;
        struct seg_key key = seg_key_at(s, i, &length);
        struct host_bytes *b = &bytes[key.host < n ? key.host : n];

        b->all += length;
        if (key.part == SEG_PART_GROUPS) {
            b->sums += length;
            b->sums_n++;
        }
    }
    if (!e) {
        e = host_rows_add(rows, s, bytes);
    }
    mem_free(bytes);
    return e;
}

/* One list per segment: what was read of one can go before the next. */
static enum err host_rows_gather(struct host_rows *rows, struct collector_cmd_store *store,
                                 struct errmsg *why)
{
    const struct fio *fio = fio_os();
    enum err e = ERR_OK;

    for (size_t i = 0; i < manifest_segments(store->l) && !e; i++) {
        struct seg *s = NULL;

        e = seg_open(&s, fio, store->dir, manifest_segment(store->l, i), why);
        if (!e) {
            e = host_rows_add_segment(rows, s);
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

static int host_row_by_bytes(const void *a, const void *b)
{
    const struct host_row *x = a, *y = b;

    if (x->bytes[0] != y->bytes[0]) {
        return x->bytes[0] > y->bytes[0] ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static enum err stats_print_host(struct table *sheet, const struct host_row *r)
{
    char id[UUID_TEXT];
    bool any = r->newest_ns >= r->oldest_ns;
    struct table_cell cells[] = {
        table_string(str_make(r->name)),
        table_string(str_make(uuid_format(id, &r->id))),
        [2 + SEG_KINDS] = table_number(any, r->oldest_ns),
        [3 + SEG_KINDS] = table_number(any, r->newest_ns),
        [4 + SEG_KINDS] = table_count(r->sums),
        [5 + SEG_KINDS] = table_count(r->sums_n),
    };

    for (unsigned k = 0; k < SEG_KINDS; k++) {
        cells[2 + k] = table_number(true, (int64_t)r->bytes[k]);
    }
    return table_row(sheet, cells);
}

static enum err stats_print_hosts(struct stats *s, struct errmsg *why)
{
    struct host_rows rows = {.p = NULL};
    char note[128];
    enum err e = host_rows_gather(&rows, &s->store, why);

    if (rows.n > 1) {
        qsort(rows.p, rows.n, sizeof *rows.p, host_row_by_bytes);
    }
    for (size_t i = 0; i < rows.n && !e; i++) {
        e = stats_print_host(s->sheet, &rows.p[i]);
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

static enum err stats_print(struct stats *s, const struct opt_args *a, struct errmsg *why)
{
    bool hosts = opt_flag(a, "hosts");
    enum err e = stats_gather(s, a, why);

    if (!e) {
        e = hosts
                ? collector_cmd_table(&s->sheet, a, host_columns,
                                      sizeof host_columns / sizeof *host_columns, host_yields, why)
                : collector_cmd_table(&s->sheet, a, kind_columns,
                                      sizeof kind_columns / sizeof *kind_columns, kind_yields, why);
    }
    if (!e) {
        e = hosts ? stats_print_hosts(s, why) : stats_print_kinds(s);
    }
    table_end(s->sheet);
    return e;
}

static enum err stats_run(const struct opt_args *a, struct errmsg *why)
{
    struct stats s = {.sheet = NULL};
    enum err e = stats_print(&s, a, why);

    mem_free(s.plan.drop);
    collector_cmd_store_close(&s.store);
    return e;
}

/* -- the command of commands -- */

static const struct opt_command *const subs[] = {&stats_options, &check_options,
                                                 &cmd_store_export_options};

const struct opt_command cmd_store_options = {
    .program = "procfleet-collector",
    .name = "store",
    .brief = "look at the store on disk, also while the collector runs; check and repair it",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet-collector store stats --config /etc/procfleet/collector.yaml\n"
                "  procfleet-collector store check --config /etc/procfleet/collector.yaml\n",
};
