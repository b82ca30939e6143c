#include "collector/cli/run_show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cli/lab.h"
#include "collector/cli/run_dir.h"
#include "collector/cli/run_fetch.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/lab/ended.h"
#include "common/lab/run_file.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"
#include "common/wire/wire_run.h"

#define PUT_MAX      (48u << 10) /* a question has 64 KiB */
#define LIST_LIMIT   50u
#define PAGE         256u
#define LABELS_TEXT  4096u
#define SHOW_CRASHES 5u

static const char *operand(const struct cli *c)
{
    char **operands;

    return opt_operands(c->args, &operands) == 1 ? operands[0] : NULL;
}

/* -- the list -- */

static const char *const states[] = {"open", "closing", "ready", "failed", "expired", "imported"};

static const struct table_column list_columns[] = {
    {"name", "NAME", TABLE_TEXT},
    {"state", "STATE", TABLE_STATE},
    {"began_time", "BEGAN", TABLE_TIME},
    {"took_ns", "TOOK", TABLE_NS},
    {"hosts_text", "HOSTS", TABLE_TEXT},
    {"class", "CLASS", TABLE_TEXT},
    {"coverage", "COVERAGE", TABLE_PERMILLE},
    {"labels", "LABELS", TABLE_TEXT},
    {"id", NULL, TABLE_TEXT},
    {"owner", "OWNER", TABLE_TEXT},
    {"exit_code", NULL, TABLE_EXIT},
    {"parent", NULL, TABLE_TEXT},
    {"ended_time", NULL, TABLE_TIME},
    {"hosts", NULL, TABLE_COUNT},
    {"hosts_in", NULL, TABLE_COUNT},
    {"revision", NULL, TABLE_ID},
    {"file_bytes", NULL, TABLE_BYTES},
    {"clock_error_ns", NULL, TABLE_NS},
    {"late", NULL, TABLE_FLAG},
};

#define LIST_COLUMNS (sizeof list_columns / sizeof *list_columns)

static const char *const list_yields[] = {"OWNER", "CLASS", "COVERAGE", "LABELS", NULL};

static bool id_is_set(const struct uuid *id)
{
    static const struct uuid none;

    return memcmp(id->b, none.b, sizeof none.b) != 0;
}

/* "build=4711; lab-07 silent" */
static void labels_put(struct buf *b, const struct wire_run *r)
{
    for (size_t i = 0; i < r->n_labels; i++) {
        buf_printf(b, "%s%.*s=%.*s", i ? " " : "", (int)r->labels[i].key.n, r->labels[i].key.p,
                   (int)r->labels[i].value.n, r->labels[i].value.p);
    }
    for (size_t i = 0; i < r->n_notes; i++) {
        buf_printf(b, "%s%.*s", r->n_labels || i ? "; " : "", (int)r->notes[i].n, r->notes[i].p);
    }
}

static enum err list_row(struct table *t, const struct wire_run *r)
{
    struct table_cell cells[LIST_COLUMNS];
    char hosts[32], id[UUID_TEXT], parent[UUID_TEXT];
    bool filed = r->revision > 0;
    struct buf labels;
    enum err e;

    buf_init(&labels, LABELS_TEXT);
    labels_put(&labels, r);
    if (filed && r->hosts_in < r->hosts_asked) {
        (void)snprintf(hosts, sizeof hosts, "%u/%u", (unsigned)r->hosts_in,
                       (unsigned)r->hosts_asked);
    } else {
        (void)snprintf(hosts, sizeof hosts, "%u", (unsigned)r->hosts_asked);
    }
    cells[0] = table_string(r->name);
    cells[1] = table_string(str_make(states[r->state]));
    cells[2] = table_number(true, r->began_ns);
    cells[3] = table_number(r->ended_ns != 0, r->ended_ns - r->began_ns);
    cells[4] = table_string(str_make(hosts));
    cells[5] = table_string(r->classes);
    cells[6] = table_number(filed, r->coverage / 1000);
    cells[7] = table_string((struct str){(const char *)labels.p, labels.n});
    cells[8] = table_string(str_make(uuid_format(id, &r->id)));
    cells[9] = table_string(r->owner);
    cells[10] = table_number(r->has_exit, r->exit_code);
    cells[11] =
        table_string(str_make(id_is_set(&r->parent) ? uuid_format(parent, &r->parent) : ""));
    cells[12] = table_number(r->ended_ns != 0, r->ended_ns);
    cells[13] = table_count(r->hosts_asked);
    cells[14] = table_number(filed, r->hosts_in);
    cells[15] = table_number(filed, r->revision);
    cells[16] = table_number(filed, (int64_t)r->file_bytes);
    cells[17] = table_number(true, r->error_ns);
    cells[18] = table_number(true, r->late);
    e = labels.bad ? labels.bad : table_row(t, cells);
    buf_fini(&labels);
    return e;
}

static enum err ask_read(struct cli *c, struct wire_runs_ask *ask, struct wire_label *labels,
                         uint32_t *limit, struct errmsg *why)
{
    const char *values[OPT_MANY_MAX];
    size_t n = opt_values(c->args, "label", values, OPT_MANY_MAX);
    const char *state = opt_value(c->args, "state");
    int64_t now_ns = os_utc_ns();
    enum err e;

    *ask = (struct wire_runs_ask){.name = str_make(operand(c)), .labels = labels};
    for (size_t i = 0; i < n && i < WIRE_RUN_LABELS; i++) {
        const char *equals = strchr(values[i], '=');

        if (!equals) {
            return errmsg_set(why, ERR_USAGE, "--label: '%s' is not KEY=GLOB", values[i]);
        }
        labels[ask->n_labels++] =
            (struct wire_label){{values[i], (size_t)(equals - values[i])}, str_make(equals + 1)};
    }
    if (state) {
        ask->states = 1u << cli_word(c, "state", 0);
    }
    e = cli_moment(c, "since", now_ns, &ask->since_ns, why);
    e = e ? e : cli_moment(c, "until", now_ns, &ask->until_ns, why);
    return e ? e : cli_number(c, "limit", LIST_LIMIT, 1000000, limit, why);
}

static int list_pages(struct cli *c, struct cli_client *l, struct wire_runs_ask *ask,
                      uint32_t limit, struct table *t, uint32_t *shown)
{
    struct run_fetch f = {.c = c, .client = l};
    int code = CLI_OK;

    do {
        struct wire_runs *runs = NULL;
        enum err e;

        ask->limit = limit - *shown < PAGE ? limit - *shown : PAGE;
        e = run_fetch_call(&f, RPC_QUERY_RUNS, WIRE_RUN_ASK, ask, WIRE_RUN_LIST, &runs);
        if (e) {
            return run_fetch_fail(&f, e);
        }
        for (size_t i = 0; !e && i < runs->n; i++) {
            e = list_row(t, &runs->runs[i]);
            ++*shown;
        }
        if (e) {
            code = cli_fail(c, CLI_FAILED, "%s", err_text(e));
        }
        ask->before = code == CLI_OK ? runs->next : 0;
        wire_run_free(runs);
    } while (code == CLI_OK && ask->before && *shown < limit);
    return code;
}

struct list_dir {
    struct table *table;
    uint32_t shown;
};

static enum err list_dir_row(void *ctx, const struct wire_run *run)
{
    struct list_dir *to = ctx;

    to->shown++;
    return list_row(to->table, run);
}

static int list_body(struct cli *c)
{
    static const char none[] = "no run fits; 'procfleet run exec NAME -- COMMAND' makes one";
    struct wire_label labels[WIRE_RUN_LABELS];
    struct wire_runs_ask ask;
    struct errmsg why = {""};
    struct cli_client *l = NULL;
    struct table *t = NULL;
    const char *dir = opt_value(c->args, "runs");
    uint32_t limit = 0, shown = 0;
    bool more = false;
    int code = CLI_OK;
    enum err e;

    if (ask_read(c, &ask, labels, &limit, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (!dir && cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    e = cli_table(c, &t, false, list_columns, LIST_COLUMNS, list_yields);
    code = e ? cli_table_failed(c, e) : code;
    if (code == CLI_OK && dir) {
        struct list_dir to = {t, 0};

        code = run_dir_list(c, dir, &ask, limit, list_dir_row, &to, &more);
        shown = to.shown;
    } else if (code == CLI_OK) {
        code = list_pages(c, l, &ask, limit, t, &shown);
        more = code == CLI_OK && ask.before;
    }
    if (code == CLI_OK && shown == 0) {
        table_note(t, str_make(none));
    } else if (code == CLI_OK && more) {
        table_note(t, str_make("there are more; --limit shows more"));
    }
    if (code == CLI_OK) {
        table_answer(t, &(struct table_answer){.cut = more});
    }
    table_end(t);
    cli_client_close(l);
    return code;
}

int run_show_list_body(struct cli *c)
{
    return lab_run(c, list_body);
}

#define RUN_OPT_RUNS                                                                        \
    {                                                                                       \
        "runs", 0, "DIR", "run files (*.pfr) of this directory instead of a collector's", 0 \
    }

static const struct opt list_opts[] = {
    {"label", 0, "KEY=GLOB", "only runs with such a label; may be repeated", 1},
    {"state", 0, "open|closing|ready|failed|expired|imported", "only these", 0},
    {"since", 0, "TIME", "only those that ended then or later: 30d, or 2026-11-21T09:00:00Z", 0},
    {"until", 0, "TIME", "only those that began before; as since", 0},
    {"limit", 'n', "N", "runs shown, the newest first (50)", 0},
    RUN_OPT_RUNS,
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

const struct opt_command run_show_list = {
    .program = "procfleet run",
    .name = "list",
    .brief = "the runs that the collector keeps, the newest first",
    .operands = "[NAME]",
    .opts = list_opts,
    .n_opts = sizeof list_opts / sizeof *list_opts,
    .examples = "  procfleet run list\n"
                "  procfleet run list --runs lib/ --label ms=31\\*\n"
                "  procfleet run list 'nightly-*' --label build=4711\n"
                "  procfleet run list --since 30d --state failed --format json\n"
                "\n"
                "Of a name or glob NAME, NAME@3 is the third newest, and NAME@8f14 the run whose\n"
                "id begins so.\n",
};

/* -- a run's file -- */

/* Returns the exit code. */
static int file_fetch(struct cli *c, const char *name, struct buf *bytes)
{
    struct run_fetch f = {.c = c};
    int code = CLI_OK;
    enum err e;

    if (cli_client_open(&f.client, c, &code) != ERR_OK) {
        return code;
    }
    e = run_fetch_file(&f, str_make(name), bytes);
    cli_client_close(f.client);
    return e ? run_fetch_fail(&f, e) : CLI_OK;
}

/* -- show -- */

enum show_by { SHOW_IMAGE, SHOW_USER, SHOW_TREE, SHOW_HOST };

/* Sums of rows under one name; peaks of groups over several rows are those of the rows that have
 * them, added over hosts: hosts have their peaks at moments of their own. */
struct show_group {
    struct str name;
    uint64_t instances, failed;
    int64_t cpu_ns, memory, read, written;
    bool has_cpu, has_memory, has_read, has_written;
};

struct show {
    const struct run_file *f;
    enum show_by by;
    bool tree; /* rows in the tree only */
    size_t n;
    struct show_group *groups;
    struct show_group all;
    struct map sums; /* keys of what has a row over several cells */
};

static struct str show_name(const struct show *s, const struct run_row *r)
{
    switch (s->by) {
    case SHOW_IMAGE:
        return r->image;
    case SHOW_USER:
        return r->user;
    case SHOW_HOST:
        return s->f->hosts[r->host].name;
    default:
        return str_make(r->in_tree ? "the run's tree" : "all others");
    }
}

static struct show_group *show_group(struct show *s, struct str name)
{
    size_t i = 0;

    while (i < s->n && !str_eq(s->groups[i].name, name)) {
        i++;
    }
    if (i == s->n) {
        s->groups[s->n++] = (struct show_group){.name = name};
    }
    return &s->groups[i];
}

static void show_value(const struct run_file *f, const struct run_row *r, unsigned metric,
                       unsigned slot, bool *has, int64_t *sum)
{
    const struct run_column *c = run_file_column(f, metric);

    if (c && (r->have & METRIC_BIT(metric))) {
        *sum = clk_add(*sum, r->values[c->slot + slot]); /* a file may say anything */
        *has = true;
    }
}

static void show_sums(const struct run_file *f, const struct run_row *r, struct show_group *g)
{
    g->instances += r->instances;
    g->failed += r->failed;
    show_value(f, r, M_CPU_TIME, 0, &g->has_cpu, &g->cpu_ns);
    show_value(f, r, M_READ_BYTES, 0, &g->has_read, &g->read);
    show_value(f, r, M_WRITE_BYTES, 0, &g->has_written, &g->written);
}

static void show_peak(const struct run_file *f, const struct run_row *r, struct show_group *g)
{
    show_value(f, r, M_PRIVATE_BYTES, RUN_PEAK_SUM, &g->has_memory, &g->memory);
}

/* Of a name on a host. */
static uint64_t show_key(const struct show *s, const struct run_row *r)
{
    struct str name = s->by == SHOW_HOST ? str_make("") : show_name(s, r);

    return hash_bytes(name.p, name.n, r->host);
}

/* Finds the rows that stand over several cells for a name on a host. */
static enum err show_find_sums(struct show *s)
{
    uint8_t of = s->by == SHOW_IMAGE  ? RUN_ROW_IMAGE
                 : s->by == SHOW_USER ? RUN_ROW_USER
                                      : RUN_ROW_HOST;
    enum err e = ERR_OK;

    for (size_t i = 0; i < s->f->n_rows && !e; i++) {
        const struct run_row *r = &s->f->rows[i];

        if (r->of == of && r->in_tree == s->tree) {
            e = map_reserve(&s->sums);
            if (!e) {
                (void)map_put(&s->sums, show_key(s, r), 1);
            }
        }
    }
    return e;
}

static void show_add(struct show *s, const struct run_row *r)
{
    bool wanted = s->by == SHOW_TREE || r->in_tree == s->tree || !s->tree;

    if (r->of == RUN_ROW_CELL && wanted) {
        show_sums(s->f, r, show_group(s, show_name(s, r)));
        if (!s->tree || r->in_tree) {
            show_sums(s->f, r, &s->all);
        }
        if (s->by != SHOW_TREE && !map_get(&s->sums, show_key(s, r))) {
            show_peak(s->f, r, show_group(s, show_name(s, r)));
        }
        return;
    }
    if (r->in_tree != s->tree) {
        return;
    }
    if (r->of == RUN_ROW_HOST) {
        show_peak(s->f, r, &s->all);
    }
    if ((r->of == RUN_ROW_HOST && s->by == SHOW_HOST) ||
        (r->of == RUN_ROW_IMAGE && s->by == SHOW_IMAGE) ||
        (r->of == RUN_ROW_USER && s->by == SHOW_USER)) {
        show_peak(s->f, r, show_group(s, show_name(s, r)));
    }
}

static int show_order(const void *a, const void *b)
{
    const struct show_group *x = a, *y = b;

    if (x->cpu_ns != y->cpu_ns) {
        return x->cpu_ns > y->cpu_ns ? -1 : 1;
    }
    return x->instances > y->instances ? -1 : x->instances < y->instances;
}

static const struct table_column show_columns[] = {
    {"group", "GROUP", TABLE_TEXT},      {"processes", "PROC", TABLE_COUNT},
    {"cpu_time", "CPU TIME", TABLE_NS},  {"peak_private_bytes", "PEAK MEMORY (SUM)", TABLE_BYTES},
    {"read_bytes", "READ", TABLE_BYTES}, {"write_bytes", "WRITTEN", TABLE_BYTES},
    {"failed", "FAILED", TABLE_ALARM},
};

#define SHOW_COLUMNS (sizeof show_columns / sizeof *show_columns)

static enum err show_row(struct table *t, const struct show_group *g, struct str name)
{
    const struct table_cell cells[SHOW_COLUMNS] = {
        table_string(name),
        table_count(g->instances),
        table_number(g->has_cpu, g->cpu_ns),
        table_number(g->has_memory, g->memory),
        table_number(g->has_read, g->read),
        table_number(g->has_written, g->written),
        table_count(g->failed),
    };

    return table_row(t, cells);
}

/* "nightly-412: 20 hosts, 10m12s, 1,204 processes, 3 failed, 0 crashed; …" */
static void show_head(struct table *t, const struct show *s)
{
    const struct run_file *f = s->f;
    uint64_t crashed = 0;
    int64_t error_ns = 0, step_ns = 0;
    size_t absent = 0;
    struct buf b;

    buf_init(&b, 4096);
    for (size_t i = 0; i < f->n_hosts; i++) {
        absent += f->hosts[i].absent;
        error_ns = f->hosts[i].clock_error_ns > error_ns ? f->hosts[i].clock_error_ns : error_ns;
        step_ns = f->hosts[i].step_ns > step_ns ? f->hosts[i].step_ns : step_ns;
    }
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct run_row *r = &f->rows[i];

        crashed += r->of == RUN_ROW_HOST && r->in_tree == s->tree ? r->crashed : 0;
    }
    buf_printf(&b, "%.*s: %zu %s, ", (int)f->head.name.n, f->head.name.p, f->n_hosts,
               plural(f->n_hosts, "host", "hosts"));
    if (absent) {
        buf_printf(&b, "%zu without data, ", absent);
    }
    humanize_ns(&b, f->head.end_ns - f->head.begin_ns);
    buf_printf(
        &b, ", %" PRIu64 " %s, %" PRIu64 " failed, %" PRIu64 " crashed; clock error at most ",
        s->all.instances, plural(s->all.instances, "process", "processes"), s->all.failed, crashed);
    humanize_ns(&b, error_ns);
    if (step_ns) {
        buf_put_str(&b, "; sampled every ");
        humanize_ns(&b, (step_ns + CLK_MS / 2) / CLK_MS * CLK_MS);
    }
    if (f->head.has_root && !f->head.root_pid) {
        buf_put_str(&b, "; its process was not seen: the whole host is counted");
    } else if (s->tree) {
        buf_put_str(&b, "; one process tree");
    }
    table_note(t, str_make(buf_cstr(&b)));
    buf_fini(&b);
}

/* "crashed: render.exe 4120 on lab-7, ACCESS_VIOLATION 0xc0000005, …" */
static void show_crashes(struct table *t, const struct show *s)
{
    struct buf b;
    size_t n = 0;

    buf_init(&b, 8192);
    for (size_t i = 0; i < s->f->n_crashes; i++) {
        const struct run_life *l = &s->f->crashes[i];
        const struct proc_info info = ended_life(l);
        const struct str host = s->f->hosts[l->host].name;
        char text[ENDED_TEXT];

        if (s->tree && !(l->flags & RUN_LIFE_IN_TREE)) {
            continue;
        }
        if (n++ < SHOW_CRASHES) {
            buf_printf(&b, "%s%.*s %" PRIu32 " on %.*s: %s",
                       n > 1 ? "; " : "crashed: ", (int)l->name.n, l->name.p, l->pid, (int)host.n,
                       host.p, ended_text(text, &info));
        }
    }
    if (n > SHOW_CRASHES) {
        buf_printf(&b, "; and %zu more", n - SHOW_CRASHES);
    }
    if (n) {
        table_note(t, str_make(buf_cstr(&b)));
    }
    buf_fini(&b);
}

static void show_losses(struct table *t, const struct run_file *f)
{
    for (size_t i = 0; i < f->n_hosts; i++) {
        const struct run_host *h = &f->hosts[i];
        struct buf b;

        if (h->ppm == 1000000 && !h->at_most && !h->overlapped) {
            continue;
        }
        buf_init(&b, 1024);
        buf_printf(&b, "%.*s: coverage %s%u.%02u %%", (int)h->name.n, h->name.p,
                   h->at_most ? "\xe2\x89\xa4 " : "", h->ppm / 10000, h->ppm / 100 % 100);
        if (h->lost_events || h->lost_ticks) {
            buf_printf(&b, ", %" PRIu64 " events and %" PRIu64 " ticks lost", h->lost_events,
                       h->lost_ticks);
        }
        if (h->overlapped) {
            buf_put_str(&b, ", another run met it there");
        }
        table_note(t, str_make(buf_cstr(&b)));
        buf_fini(&b);
    }
}

static int show_print(struct cli *c, const struct run_file *f)
{
    struct show s = {.f = f, .by = (enum show_by)cli_word(c, "group-by", SHOW_IMAGE)};
    struct table *t = NULL;
    uint32_t limit = 0;
    struct errmsg why = {""};
    enum err e = cli_number(c, "limit", 20, 1000000, &limit, &why);

    if (e) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    s.tree = f->head.has_root && f->head.root_pid;
    s.groups = mem_array(f->n_rows, sizeof *s.groups);
    e = s.groups ? cli_table(c, &t, false, show_columns, SHOW_COLUMNS, NULL) : ERR_NOMEM;
    e = e ? e : show_find_sums(&s);
    for (size_t i = 0; !e && i < f->n_rows; i++) {
        show_add(&s, &f->rows[i]);
    }
    if (!e && s.n) {
        qsort(s.groups, s.n, sizeof *s.groups, show_order);
    }
    for (size_t i = 0; !e && i < s.n && i < limit; i++) {
        e = show_row(t, &s.groups[i],
                     s.groups[i].name.n ? s.groups[i].name : str_make("(unknown)"));
    }
    e = e ? e : show_row(t, &s.all, str_make("(all)"));
    if (!e) {
        show_head(t, &s);
        show_crashes(t, &s);
        show_losses(t, f);
    }
    table_end(t);
    map_fini(&s.sums);
    mem_free(s.groups);
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
}

static int show_body(struct cli *c)
{
    const char *name = operand(c), *dir = opt_value(c->args, "runs");
    struct run_file *f = NULL;
    struct errmsg why = {""};
    struct buf bytes;
    int code;

    if (!name) {
        return cli_fail(c, CLI_USAGE, "one run is needed: NAME, NAME@3 or NAME@ID");
    }
    if (dir) {
        return run_dir_show(c, dir, name, show_print);
    }
    buf_init(&bytes, RUN_FILE_MAX);
    code = file_fetch(c, name, &bytes);
    if (code == CLI_OK &&
        run_file_decode(&f, bytes.p, bytes.n, RUN_FILE_TABLE | RUN_FILE_CRASHES, &why) != ERR_OK) {
        code = cli_fail(c, CLI_FAILED, "the run's file: %s", why.text);
    }
    code = code == CLI_OK ? show_print(c, f) : code;
    run_file_free(f);
    buf_fini(&bytes);
    return code;
}

int run_show_body(struct cli *c)
{
    return lab_run(c, show_body);
}

static const struct opt show_opts[] = {
    {"group-by", 'g', "image|user|tree|host", "add up what belongs together (image)", 0},
    {"limit", 'n', "N", "groups shown, by CPU time (20)", 0},
    RUN_OPT_RUNS,
    CLI_OPTS_CONNECTION,
};

const struct opt_command run_show_usage = {
    .program = "procfleet run",
    .name = "show",
    .brief = "what a run used, out of its file",
    .operands = "NAME",
    .opts = show_opts,
    .n_opts = sizeof show_opts / sizeof *show_opts,
    .examples = "  procfleet run show nightly-412\n"
                "  procfleet run show cc-base@2 --group-by host\n"
                "\n"
                "The file is there when every host's data have passed the run's end, or 3 minutes\n"
                "later. 'procfleet top --run NAME' asks the samples themselves, also of an open\n"
                "run.\n",
};

/* -- export, import -- */

/* Names are taken from hashes, so that one host or user has one name in every file and two never
 * share one: such files can be compared. A host's is of its id, a user's of the hosts' ids, too:
 * users' names could be guessed, ids of 16 random bytes cannot. */
struct redact {
    struct run_file *f;
    bool hosts, users;
    enum err e;
    uint64_t salt; /* of the host with the least id */
    size_t n_users;
    struct str *users_seen;
    struct str *users_as;
};

static struct str redact_name(struct redact *r, const char *what, uint64_t hash)
{
    char text[32];
    char *copy;

    (void)snprintf(text, sizeof text, "%s-%08x", what, (unsigned)(hash >> 32));
    copy = arena_dup(&r->f->memory, text, strlen(text));
    r->e = copy ? r->e : ERR_NOMEM;
    return (struct str){copy ? copy : "", copy ? strlen(text) : 0};
}

static void redact_salt(struct redact *r)
{
    const struct uuid *least = NULL;

    for (size_t i = 0; i < r->f->n_hosts; i++) {
        const struct uuid *id = &r->f->hosts[i].id;

        least = !least || memcmp(id->b, least->b, sizeof id->b) < 0 ? id : least;
    }
    r->salt = least ? hash_bytes(least->b, sizeof least->b, 3) : 0;
}

/* The same user is the same everywhere. */
static struct str redact_user(struct redact *r, struct str user)
{
    size_t i = 0;

    if (!r->users || !user.n) {
        return user;
    }
    while (i < r->n_users && !str_eq(r->users_seen[i], user)) {
        i++;
    }
    if (i == r->n_users) {
        r->users_seen[i] = user;
        r->users_as[i] = redact_name(r, "user", hash_bytes(user.p, user.n, r->salt));
        r->n_users++;
    }
    return r->users_as[i];
}

static void redact_hosts(struct redact *r)
{
    struct run_host *hosts = (struct run_host *)(uintptr_t)r->f->hosts;

    for (size_t i = 0; i < r->f->n_hosts; i++) {
        const struct uuid id = hosts[i].id;
        const uint64_t hash[2] = {hash_bytes(id.b, sizeof id.b, 1),
                                  hash_bytes(id.b, sizeof id.b, 2)};

        memcpy(hosts[i].id.b, hash, sizeof hash);
        hosts[i].name = redact_name(r, "host", hash[0]);
        hosts[i].n_labels = 0;
    }
    r->f->n_notices = 0; /* their texts have names in them */
}

static void redact_lives(struct redact *r, const struct run_life *lives, size_t n)
{
    struct run_life *all = (struct run_life *)(uintptr_t)lives;

    for (size_t i = 0; i < n; i++) {
        all[i].user = redact_user(r, all[i].user);
        all[i].command = (struct str){"", 0};
    }
}

/* The file's bytes anew, under names that say nothing. */
static enum err redact(struct buf *bytes, const char *what, struct errmsg *why)
{
    struct redact r = {.hosts = strstr(what, "hosts") != NULL,
                       .users = strstr(what, "users") != NULL};
    enum err e = run_file_decode(&r.f, bytes->p, bytes->n, RUN_FILE_ALL, why);
    struct run_row *rows;
    size_t most;

    if (e) {
        return e;
    }
    redact_salt(&r);
    most = r.f->n_rows + r.f->n_lives + r.f->n_crashes + 1;
    r.users_seen = mem_array(most, sizeof *r.users_seen);
    r.users_as = mem_array(most, sizeof *r.users_as);
    r.e = r.users_seen && r.users_as ? ERR_OK : ERR_NOMEM;
    rows = (struct run_row *)(uintptr_t)r.f->rows;
    for (size_t i = 0; !r.e && i < r.f->n_rows; i++) {
        rows[i].user = redact_user(&r, rows[i].user);
    }
    if (!r.e) {
        redact_lives(&r, r.f->lives, r.f->n_lives);
        redact_lives(&r, r.f->crashes, r.f->n_crashes);
    }
    if (!r.e && r.hosts) {
        redact_hosts(&r);
    }
    r.f->head.owner = (struct str){"", 0};
    if (!r.e) {
        buf_reset(bytes);
        r.e = run_file_encode(bytes, r.f);
    }
    e = r.e;
    mem_free(r.users_seen);
    mem_free(r.users_as);
    run_file_free(r.f);
    return e;
}

int run_show_export_body(struct cli *c)
{
    const char *name = operand(c), *out = opt_value(c->args, "output");
    const char *what = opt_value(c->args, "redact");
    struct errmsg why = {""};
    struct buf bytes;
    int code;
    enum err e = ERR_OK;

    if (!name || !out) {
        return cli_fail(c, CLI_USAGE, "one run and -o FILE are needed");
    }
    buf_init(&bytes, RUN_FILE_MAX);
    code = file_fetch(c, name, &bytes);
    if (code == CLI_OK && what) {
        e = redact(&bytes, what, &why);
    }
    if (code == CLI_OK && !e) {
        e = os_write_file(out, bytes.p, bytes.n, false);
    }
    if (e) {
        code = cli_fail(c, CLI_FAILED, "%s: %s", out, why.text[0] ? why.text : err_text(e));
    }
    buf_fini(&bytes);
    return code;
}

static const struct opt export_opts[] = {
    {"output", 'o', "FILE", "where it goes", 0},
    {"redact", 0, "hosts|users,...", "under names that say nothing, the same in each file", 0},
    CLI_OPTS_CONNECTION,
};

const struct opt_command run_show_export = {
    .program = "procfleet run",
    .name = "export",
    .brief = "a run's file, to hand over or to keep",
    .operands = "NAME",
    .opts = export_opts,
    .n_opts = sizeof export_opts / sizeof *export_opts,
    .examples = "  procfleet run export nightly-412 -o n412.pfr\n"
                "  procfleet run export nightly-412 -o n412.pfr --redact hosts,users\n",
};

static int import_send(struct cli *c, const uint8_t *p, size_t n, const char *name)
{
    struct wire_run_part part = {.name = str_make(name), .total = n, .hash = hash_bytes(p, n, 0)};
    struct run_fetch f = {.c = c};
    char id[UUID_TEXT];
    enum err e = ERR_OK;
    int code = CLI_OK;

    if (uuid_random(&part.id) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "no random number");
    }
    if (cli_client_open(&f.client, c, &code) != ERR_OK) {
        return code;
    }
    while (!e && part.offset < n) {
        size_t left = n - (size_t)part.offset;
        struct wire_run *run;

        part.data = (struct str){(const char *)p + part.offset, left < PUT_MAX ? left : PUT_MAX};
        e = run_fetch_call(&f, RPC_MARK_RUN_PUT, WIRE_RUN_PART, &part, WIRE_RUN_RUN, &run);
        part.offset += part.data.n;
        if (!e && part.offset == n) {
            humanize_line(stdout, "%s", uuid_format(id, &run->id));
        }
        if (!e) {
            wire_run_free(run);
        }
    }
    cli_client_close(f.client);
    return e ? run_fetch_fail(&f, e) : CLI_OK;
}

int run_show_import_body(struct cli *c)
{
    const char *path = operand(c), *name = opt_value(c->args, "name");
    struct run_file *f = NULL;
    struct errmsg why = {""};
    uint8_t *p = NULL;
    size_t n = 0;
    int code;
    enum err e;

    if (!path) {
        return cli_fail(c, CLI_USAGE, "one FILE is needed");
    }
    if (name && !wire_run_name_ok(str_make(name))) {
        return cli_fail(c, CLI_USAGE, "--name: 1 to 64 letters, digits, '.', '_', '-'");
    }
    e = run_file_read(&f, path, RUN_FILE_ALL, &why);
    e = e ? e : os_read_file(&p, &n, path, WIRE_RUN_FILE_MAX);
    code = e ? cli_fail(c, CLI_FAILED, "%s: %s", path, why.text[0] ? why.text : os_read_text(e))
             : import_send(c, p, n, name);
    run_file_free(f);
    mem_free(p);
    return code;
}

static const struct opt import_opts[] = {
    {"name", 0, "NAME", "the run's name here; the file's own is the default", 0},
    CLI_OPTS_CONNECTION,
};

const struct opt_command run_show_import = {
    .program = "procfleet run",
    .name = "import",
    .brief = "a run's file from elsewhere, as a run of this collector (role admin)",
    .operands = "FILE",
    .opts = import_opts,
    .n_opts = sizeof import_opts / sizeof *import_opts,
    .examples = "  procfleet run import n412.pfr --name theirs-412\n",
};
