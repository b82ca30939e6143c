/* `etl processes` and `etl top`: the instances of a recording, all of them or those that used most.
 */
#include "agent/etl/etl_processes.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_crashes.h"
#include "agent/etl/etl_range.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/conf/opt.h"

#define UNIT_OF_COUNT TABLE_COUNT
#define UNIT_OF_BYTES TABLE_BYTES
#define UNIT_OF_NS    TABLE_NS

enum {
    KEY_CPU_TIME,
    KEY_TALLY,
    KEY_DISK = KEY_TALLY + COUNTERS_COUNT,
    KEY_NET,
    KEY_FAULTS,
    KEY_COUNT,
};

_Static_assert(KEY_COUNT <= ETL_PROCESSES_KEYS_MAX, "room for every figure");

static const struct etl_processes_key keys[] = {
    {"cpu_time", TABLE_NS, "time on a CPU; its origin is times, cswitch or samples"},
#define ETL_PROCESSES_KEY(id, key, unit, help) {#key, UNIT_OF_##unit, help},
    COUNTERS_LIST(ETL_PROCESSES_KEY)
#undef ETL_PROCESSES_KEY
        {"disk", TABLE_BYTES, "bytes read from and written to disk"},
    {"net", TABLE_BYTES, "bytes sent and received by TCP and UDP"},
    {"faults", TABLE_COUNT, "hard and soft page faults"},
};

const struct etl_processes_key *etl_processes_keys(size_t *n)
{
    *n = KEY_COUNT;
    return keys;
}

enum err etl_processes_key_find(size_t *key, const char *name, struct errmsg *why)
{
    const char *names[KEY_COUNT], *closest;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            *key = i;
            return ERR_OK;
        }
        names[i] = keys[i].name;
    }
    closest = opt_closest(name, names, KEY_COUNT);
    return errmsg_set(why, ERR_USAGE, "there is no figure '%s'%s%s%s; --help lists them", name,
                      closest ? "; did you mean '" : "", closest ? closest : "",
                      closest ? "'?" : "");
}

int64_t etl_processes_value_of_tally(const struct counters *t, size_t key)
{
    const uint64_t *n = t->n;

    if (key >= KEY_TALLY && key < KEY_DISK) {
        return (int64_t)n[key - KEY_TALLY];
    }
    switch (key) {
    case KEY_DISK:
        return (int64_t)(n[COUNTERS_DISK_READ_BYTES] + n[COUNTERS_DISK_WRITE_BYTES]);
    case KEY_NET:
        return (int64_t)(n[COUNTERS_TCP_SEND] + n[COUNTERS_TCP_RECV] + n[COUNTERS_UDP_SEND] +
                         n[COUNTERS_UDP_RECV]);
    case KEY_FAULTS:
        return (int64_t)(n[COUNTERS_HARD_FAULTS] + n[COUNTERS_SOFT_FAULTS]);
    default:
        return 0;
    }
}

bool etl_processes_value(const struct instance *p, size_t key, int64_t *v)
{
    if (key == KEY_CPU_TIME) {
        *v = p->count.values[M_CPU_TIME];
        return (p->count.mask & METRIC_BIT(M_CPU_TIME)) != 0;
    }
    *v = etl_processes_value_of_tally(&p->tally, key);
    return true;
}

uint64_t etl_processes_recorded(const struct etl_walk *w, struct instance *const *all, size_t n)
{
    const struct counters *unattributed = aggregate_unattributed(w->aggregate);
    uint64_t recorded = 0;

    for (size_t k = 0; k < KEY_COUNT; k++) {
        bool any = etl_processes_value_of_tally(unattributed, k) != 0;

        for (size_t i = 0; i < n && !any; i++) {
            int64_t v;

            any = etl_processes_value(all[i], k, &v) && v != 0;
        }
        recorded |= (uint64_t)any << k;
    }
    return recorded;
}

const char *etl_processes_cpu_origin(const struct instance *p)
{
    switch (p->info.cpu_origin) {
    case CPU_ORIGIN_TIMES:
        return "times";
    case CPU_ORIGIN_CSWITCH:
        return "cswitch";
    case CPU_ORIGIN_SAMPLES:
        return "samples";
    default:
        return "";
    }
}

enum {
    FILE_NAME,
    PID,
    PARENT,
    NAME,
    SESSION,
    USER,
    CREATED,
    EXITED,
    EXIT_CODE,
    ORIGIN,
    FIGURES, /* those of procs.h follow; then: */
    TAIL_CPU_FROM = 0,
    TAIL_SERVICE,
    TAIL_COMMAND,
    TAIL_COUNT,
};

struct etl_processes_rows {
    struct table *sheet;
    char by_title[32];
    struct table_column columns[FIGURES + KEY_COUNT + TAIL_COUNT];
};

static const struct table_column heads[FIGURES] = {
    [FILE_NAME] = {"file", NULL, TABLE_TEXT},         [PID] = {"pid", "PID", TABLE_ID},
    [PARENT] = {"parent_pid", "PARENT", TABLE_ID},    [NAME] = {"name", "NAME", TABLE_TEXT},
    [SESSION] = {"session_id", "SESSION", TABLE_ID},  [USER] = {"user", NULL, TABLE_TEXT},
    [CREATED] = {"create_time", "START", TABLE_TIME}, [EXITED] = {"exit_time", "END", TABLE_TIME},
    [EXIT_CODE] = {"exit_code", "EXIT", TABLE_EXIT},  [ORIGIN] = {"origin", NULL, TABLE_TEXT},
};

/* What a table of the list shows; one of the top shows these too, and the figure asked for. */
static const char *title_of(const char *key, enum etl_processes_rows_view view)
{
    static const struct {
        const char *key, *title;
        bool list;
    } all[] = {
        {"cpu_time", "CPU", true},
        {"switches_in", "SWITCHES", false},
        {"hard_faults", "HARD_FAULTS", false},
        {"disk", "DISK", false},
        {"net", "NET", false},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].key, key) == 0) {
            return view == ETL_PROCESSES_ROWS_TOP || all[i].list ? all[i].title : NULL;
        }
    }
    return NULL;
}

static const char *upper_case(char *out, size_t n, const char *key)
{
    size_t i = 0;

    for (; key[i] && i + 1 < n; i++) {
        out[i] = (char)(key[i] >= 'a' && key[i] <= 'z' ? key[i] - 'a' + 'A' : key[i]);
    }
    out[i] = '\0';
    return out;
}

static void set_columns(struct etl_processes_rows *r, enum etl_processes_rows_view view, size_t by,
                        bool file)
{
    struct table_column *tail = r->columns + FIGURES + KEY_COUNT;

    memcpy(r->columns, heads, sizeof heads);
    r->columns[FILE_NAME].title = file ? "FILE" : NULL;
    if (view == ETL_PROCESSES_ROWS_TOP) {
        r->columns[PARENT].title = r->columns[SESSION].title = NULL;
        r->columns[CREATED].title = r->columns[EXITED].title = r->columns[EXIT_CODE].title = NULL;
    }
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *title = title_of(keys[i].name, view);

        if (!title && view == ETL_PROCESSES_ROWS_TOP && i == by) {
            title = upper_case(r->by_title, sizeof r->by_title, keys[i].name);
        }
        r->columns[FIGURES + i] = (struct table_column){keys[i].name, title, keys[i].unit};
    }
    tail[TAIL_CPU_FROM] = (struct table_column){"cpu_time_origin", "CPU_FROM", TABLE_TEXT};
    tail[TAIL_SERVICE] = (struct table_column){"service", NULL, TABLE_TEXT};
    tail[TAIL_COMMAND] = (struct table_column){"command_line", "COMMAND", TABLE_TEXT};
}

/* What other columns say too, or is seldom asked for, goes first. */
static const char *const yields[] = {"CPU_FROM",    "SESSION",  "END",   "PARENT", "EXIT",
                                     "HARD_FAULTS", "SWITCHES", "START", "FILE",   NULL};

enum err etl_processes_rows_begin(struct etl_processes_rows **out, const struct etl_job *job,
                                  enum table_format format, enum etl_processes_rows_view view,
                                  size_t by, bool file)
{
    struct etl_processes_rows *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    set_columns(r, view, by, file);
    e = etl_job_table(job, &r->sheet, format, r->columns, FIGURES + KEY_COUNT + TAIL_COUNT, yields);
    if (e) {
        mem_free(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

/* Of svchost.exe the service it was started for, which stands behind -s; empty: none or several. */
static struct str service_of(const struct proc_info *i)
{
    struct str line = i->command_line, name = str_make("");

    if (!glob_match(str_make("svchost.exe"), i->name)) {
        return name;
    }
    for (size_t k = 0; k + 4 < line.n && !name.n; k++) {
        if (memcmp(line.p + k, " -s ", 4) == 0) {
            name = (struct str){line.p + k + 4, 0};
            while (k + 4 + name.n < line.n && name.p[name.n] != ' ') {
                name.n++;
            }
        }
    }
    return name;
}

enum err etl_processes_rows_put(struct etl_processes_rows *r, const char *file, uint64_t recorded,
                                const struct instance *p)
{
    static const char *const origins[] = {"", "start", "rundown", "snapshot", "inferred"};
    struct table_cell cells[FIGURES + KEY_COUNT + TAIL_COUNT];
    struct table_cell *tail = cells + FIGURES + KEY_COUNT;
    const struct proc_info *i = &p->info;

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(true, i->id.pid);
    cells[PARENT] = table_number((i->have & INFO_PARENT) != 0, i->parent_pid);
    cells[NAME] = table_string(i->name);
    cells[SESSION] = table_number((i->have & INFO_SESSION) != 0, i->session_id);
    cells[USER] = table_string(i->user);
    cells[CREATED] = table_number((i->have & INFO_CREATE_TIME) != 0, i->create_ns);
    cells[EXITED] = table_number((i->have & INFO_EXIT_TIME) != 0, i->exit_ns);
    cells[EXIT_CODE] = table_number((i->have & INFO_EXIT_CODE) != 0, i->exit_code);
    cells[ORIGIN] = table_string(
        str_make(i->origin < sizeof origins / sizeof origins[0] ? origins[i->origin] : ""));
    for (size_t k = 0; k < KEY_COUNT; k++) {
        int64_t v;
        bool known = etl_processes_value(p, k, &v) && recorded >> k & 1;

        cells[FIGURES + k] = table_number(known, v);
    }
    tail[TAIL_CPU_FROM] = table_string(str_make(etl_processes_cpu_origin(p)));
    tail[TAIL_SERVICE] = table_string(service_of(i));
    tail[TAIL_COMMAND] = table_string(i->command_line);
    return table_row(r->sheet, cells);
}

static void etl_processes_rows_note(struct etl_processes_rows *r, const char *text)
{
    table_note(r->sheet, str_make(text));
}

void etl_processes_rows_end(struct etl_processes_rows *r)
{
    if (r) {
        table_end(r->sheet);
        mem_free(r);
    }
}

/* -- order: qsort takes no context, so the value stands before the pointer -- */

struct valued {
    int64_t v;
    bool known;
    struct instance *p;
};

static int by_value(const void *pa, const void *pb)
{
    const struct valued *a = pa, *b = pb;

    if (a->known != b->known) {
        return a->known ? -1 : 1;
    }
    if (a->v != b->v) {
        return a->v < b->v ? 1 : -1;
    }
    return (a->p->info.id.pid > b->p->info.id.pid) - (a->p->info.id.pid < b->p->info.id.pid);
}

void etl_processes_rows_sort(struct instance **all, size_t n, size_t by)
{
    struct valued *v = mem_array(n + 1, sizeof *v);

    if (!v) {
        return; /* in order of pid, as they were */
    }
    for (size_t i = 0; i < n; i++) {
        v[i].p = all[i];
        v[i].known = etl_processes_value(all[i], by, &v[i].v);
    }
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < n; i++) {
        all[i] = v[i].p;
    }
    mem_free(v);
}

#define TOP_LIMIT 20

struct choice {
    struct etl_range *range;
    bool idle;
    bool sorted;
    size_t by;
    uint64_t limit; /* of each part */
};

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    (void)ctx;
    (void)r; /* everything is in the process table */
}

static bool choice_fits(const struct choice *c, const struct etl_walk *w, const struct instance *p)
{
    int64_t v;

    if (!etl_range_process(c->range, p->info.id.pid, p) || !etl_range_lived(c->range, w, p)) {
        return false;
    }
    if (!c->sorted) {
        return true;
    }
    return (p->info.id.pid != 0 || c->idle || c->range->by_pid) &&
           etl_processes_value(p, c->by, &v) && v != 0;
}

/* An empty answer has a reason. */
static void note_empty(struct etl_processes_rows *rows, const struct choice *c, const char *name,
                       size_t n, uint64_t recorded)
{
    char text[600];
    size_t at;

    if (n == 0) {
        (void)snprintf(text, sizeof text, "%.200s: no processes are recorded" ETL_JOB_PROVIDERS,
                       name);
    } else if (c->sorted && !(recorded >> c->by & 1)) {
        at = (size_t)snprintf(text, sizeof text, "%.200s: nothing is recorded about %s; --by", name,
                              keys[c->by].name);
        for (size_t i = 0; i < KEY_COUNT; i++) { /* those that would show something */
            if (recorded >> i & 1 && at + strlen(keys[i].name) + 2 < sizeof text) {
                at += (size_t)snprintf(text + at, sizeof text - at, " %s", keys[i].name);
            }
        }
    } else {
        (void)snprintf(text, sizeof text, "%.200s: none of %zu %s matches", name, n,
                       plural(n, "process", "processes"));
    }
    etl_processes_rows_note(rows, text);
}

static enum err put_part(struct etl_job *job, struct etl_processes_rows *rows,
                         const struct choice *c, const char *name, const struct etl_walk *w)
{
    struct instance **all;
    uint64_t shown = 0, more = 0, recorded;
    char text[300];
    size_t n;
    enum err e = etl_walk_list(w, &all, &n);

    if (e) {
        return e;
    }
    recorded = etl_processes_recorded(w, all, n);
    if (c->sorted) {
        etl_processes_rows_sort(all, n, c->by);
    }
    for (size_t i = 0; i < n && !e && etl_job_out_ok(job); i++) {
        if (choice_fits(c, w, all[i])) {
            more += shown == c->limit;
            e = shown < c->limit ? etl_processes_rows_put(rows, name, recorded, all[i]) : ERR_OK;
            shown += shown < c->limit;
        }
    }
    if (more && !c->sorted) {
        (void)snprintf(text, sizeof text, "%.200s: %llu further rows (--limit)", name,
                       (unsigned long long)more);
        etl_processes_rows_note(rows, text);
    }
    if (shown == 0 && c->limit > 0) {
        note_empty(rows, c, name, n, recorded);
    }
    mem_free(all);
    return e;
}

static enum err put_all(struct etl_job *job, const struct choice *c)
{
    struct etl_walk_conf conf = {.progress = true, .record = on_record};
    struct etl_processes_rows *rows;
    enum err e = etl_processes_rows_begin(
        &rows, job, job->format, c->sorted ? ETL_PROCESSES_ROWS_TOP : ETL_PROCESSES_ROWS_LIST,
        c->by, etl_job_parts(job) > 1);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < etl_job_parts(job) && !e && !job->partial && etl_job_out_ok(job); i++) {
        struct etl_walk *w;

        etl_range_limit(c->range, &conf);
        if (etl_job_open(job, i, &conf, &w) == ERR_OK) {
            (void)etl_job_walk(job, w);
            e = put_part(job, rows, c, etl_job_part_name(job, i), w);
            etl_walk_close(w);
        }
    }
    etl_processes_rows_end(rows);
    return e;
}

static enum err processes_run(struct etl_job *job, struct choice *c, struct errmsg *why)
{
    struct etl_range range = {.by_pid = false};
    enum err e = etl_range_parse(&range, job, why);

    if (e) {
        return e;
    }
    c->range = &range;
    e = put_all(job, c);
    return e ? errmsg_set(why, e, "cannot list the processes: %s", err_text(e)) : ERR_OK;
}

static enum err processes_list_run(struct etl_job *job, struct errmsg *why)
{
    struct choice c = {.limit = UINT64_MAX};
    enum err e;

    if (opt_flag(job->args, "crashed")) {
        return etl_crashes_run(job, why);
    }
    e = etl_job_number(job, "limit", UINT64_MAX, &c.limit, why);

    return e ? e : processes_run(job, &c, why);
}

static enum err processes_top_run(struct etl_job *job, struct errmsg *why)
{
    struct choice c = {.sorted = true, .idle = opt_flag(job->args, "idle")};
    const char *by = opt_value(job->args, "by");
    enum err e = etl_job_number(job, "limit", TOP_LIMIT, &c.limit, why);

    if (!e) {
        e = etl_processes_key_find(&c.by, by ? by : "cpu_time", why);
    }
    return e ? e : processes_run(job, &c, why);
}

static const struct opt list_opts[] = {
    {"crashed", 0, NULL, "only those that ended by a fault, with its name", false},
    ETL_RANGE_OPTS,
    {"limit", 'n', "N", "at most so many of each recording", false},
    ETL_JOB_OPTS};

static const struct opt top_opts[] = {
    {"by", 'b', "FIGURE", "order by this figure (cpu_time)", false},
    {"limit", 'n', "N", "at most so many of each recording (20)", false},
    {"idle", 0, NULL, "with the idle process", false},
    ETL_RANGE_OPTS,
    ETL_JOB_OPTS};

static const struct opt_command processes_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "processes",
    .brief = "list every process of a recording, with its figures",
    .operands = "FILE...",
    .opts = list_opts,
    .n_opts = sizeof list_opts / sizeof *list_opts,
    .examples = "  procfleet-etl processes trace.etl\n"
                "  procfleet-etl processes trace.etl --name 'svchost*' --format csv\n"
                "  procfleet-etl processes trace.etl --pid 3676 --format json\n"
                "  procfleet-etl processes trace.etl --crashed\n",
};

const struct etl_command etl_processes_command = {&processes_opts, NULL, processes_list_run};

static const char *figure_name(size_t i)
{
    return i < KEY_COUNT ? keys[i].name : NULL;
}

static const struct opt_set top_sets[] = {{"FIGURE", figure_name}, {NULL, NULL}};

static const struct opt_command processes_top_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "top",
    .brief = "the processes that used most of something",
    .operands = "FILE...",
    .opts = top_opts,
    .n_opts = sizeof top_opts / sizeof *top_opts,
    .sets = top_sets,
    .examples = "  procfleet-etl top trace.etl\n"
                "  procfleet-etl top trace.etl --by disk -n 5\n"
                "  procfleet-etl top trace.etl --since 2s --until 2500\n"
                "  procfleet-etl top *.etl --by net --format json\n",
};

const struct etl_command etl_processes_top_command = {&processes_top_opts, NULL, processes_top_run};
