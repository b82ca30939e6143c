/* `etl load`: recordings become run files (.pfr), so that sets of them can be compared: a run is a
 * recording, its host and labels come from the file's name by a pattern, its rows are sums of
 * processes by image and user. What `etl summary` counts of all processes is what the rows add up
 * to. The same recording becomes a run of the same id each time. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_name.h"
#include "agent/etl/etl_processes.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/base/vec.h"
#include "common/lab/ended.h"
#include "common/lab/run_file.h"
#include "common/os/os.h"

#define FILES_MAX 10000u
#define LIMIT_PPM 1000000u

/* Counters that are metrics too. */
static const struct {
    uint8_t metric, tally;
} load_metrics[] = {
    {M_CPU_TIME, COUNTERS_COUNT}, /* counted apart */
    {M_CONTEXT_SWITCHES, COUNTERS_SWITCHES_IN},
    {M_HARD_FAULTS, COUNTERS_HARD_FAULTS},
    {M_DISK_READ_BYTES, COUNTERS_DISK_READ_BYTES},
    {M_DISK_WRITE_BYTES, COUNTERS_DISK_WRITE_BYTES},
    {M_TCP_SEND_BYTES, COUNTERS_TCP_SEND},
    {M_TCP_RECV_BYTES, COUNTERS_TCP_RECV},
    {M_UDP_SEND_BYTES, COUNTERS_UDP_SEND},
    {M_UDP_RECV_BYTES, COUNTERS_UDP_RECV},
    {M_FILE_READ_BYTES, COUNTERS_FILE_READ_BYTES},
    {M_FILE_WRITE_BYTES, COUNTERS_FILE_WRITE_BYTES},
    {M_VIRTUAL_ALLOC_BYTES, COUNTERS_VIRTUAL_ALLOC},
    {M_IMAGE_LOADS, COUNTERS_IMAGE_LOADS},
    {M_THREADS_STARTED, COUNTERS_THREADS_STARTED},
    {M_READY_TIME, COUNTERS_READY},
    {M_WAIT_TIME, COUNTERS_WAIT},
};

#define METRICS (sizeof load_metrics / sizeof *load_metrics)

/* One recording on its way. */
struct load {
    struct etl_job *job;
    const char *path;
    const struct etl_name *name;
    struct etl_walk *walk;
    struct arena memory;
    struct instance **all; /* by image and user */
    size_t n;
    struct run_file file;
    uint8_t metrics[METRICS]; /* that were recorded */
    uint8_t tallies[METRICS];
    size_t n_metrics;
};

struct load_files {
    const char *dir;
    char **list; /* owned */
    size_t n, cap;
};

/* -- what of it is a row -- */

static bool load_value(const struct load *x, const struct instance *p, size_t i, int64_t *v)
{
    if (x->tallies[i] == COUNTERS_COUNT) {
        return etl_processes_value(p, 0, v);
    }
    *v = (int64_t)p->tally.n[x->tallies[i]];
    return true;
}

static int load_order(const void *pa, const void *pb)
{
    const struct proc_info *a = &(*(struct instance *const *)pa)->info;
    const struct proc_info *b = &(*(struct instance *const *)pb)->info;
    const struct str left[] = {a->name, a->user}, right[] = {b->name, b->user};

    for (size_t i = 0; i < 2; i++) {
        size_t n = left[i].n < right[i].n ? left[i].n : right[i].n;
        int d = n ? memcmp(left[i].p, right[i].p, n) : 0;

        d = d ? d : (left[i].n > right[i].n) - (left[i].n < right[i].n);
        if (d) {
            return d;
        }
    }
    return 0;
}

/* Those of which the recording has anything. */
static void load_columns(struct load *x)
{
    for (size_t k = 0; k < METRICS; k++) {
        bool any = false;

        x->metrics[x->n_metrics] = load_metrics[k].metric;
        x->tallies[x->n_metrics] = load_metrics[k].tally;
        for (size_t i = 0; i < x->n && !any; i++) {
            int64_t v;

            any = load_value(x, x->all[i], x->n_metrics, &v) && v != 0;
        }
        x->n_metrics += any;
    }
    for (size_t i = 1; i < x->n_metrics; i++) { /* in a file ids rise */
        for (size_t k = i; k > 0 && x->metrics[k - 1] > x->metrics[k]; k--) {
            uint8_t metric = x->metrics[k], tally = x->tallies[k];

            x->metrics[k] = x->metrics[k - 1];
            x->tallies[k] = x->tallies[k - 1];
            x->metrics[k - 1] = metric;
            x->tallies[k - 1] = tally;
        }
    }
}

static void load_add(const struct load *x, struct run_row *row, int64_t *values,
                     const struct instance *p)
{
    enum ended how = ENDED_RUNNING;
    int64_t v;

    row->instances++;
    row->starts += p->info.origin == ORIGIN_START;
    row->ends += instances_ended(p);
    if (instances_ended(p) && ended_how(&p->info, &how)) {
        row->failed += p->info.exit_code != 0;
        row->crashed += how == ENDED_CRASH;
    }
    for (size_t i = 0; i < x->n_metrics; i++) {
        if (load_value(x, p, i, &v) && v >= 0) {
            values[i] = values[i] < INT64_MAX - v ? values[i] + v : INT64_MAX;
            row->have |= METRIC_BIT(x->metrics[i]);
        }
    }
}

static enum err load_rows(struct load *x)
{
    struct run_column *columns = arena_array(&x->memory, x->n_metrics, sizeof *columns);
    struct run_row *rows = arena_array(&x->memory, x->n, sizeof *rows);
    int64_t *values = arena_array(&x->memory, x->n * x->n_metrics, sizeof *values);
    struct run_file *f = &x->file;

    if (!columns || !rows || !values) {
        return ERR_FULL;
    }
    f->columns = columns;
    f->n_columns = x->n_metrics;
    f->n_slots = run_file_layout(columns, x->metrics, x->n_metrics);
    f->rows = rows;
    for (size_t i = 0; i < x->n; i++) {
        if (i == 0 || load_order(&x->all[i - 1], &x->all[i]) != 0) {
            rows[f->n_rows] = (struct run_row){.of = RUN_ROW_CELL,
                                               .image = x->all[i]->info.name,
                                               .user = x->all[i]->info.user,
                                               .values = values + f->n_rows * x->n_metrics};
            f->n_rows++;
        }
        load_add(x, &rows[f->n_rows - 1], values + (f->n_rows - 1) * x->n_metrics, x->all[i]);
    }
    return ERR_OK;
}

/* -- lives -- */

static void load_life(const struct load *x, struct run_life *l, const struct instance *p)
{
    const struct proc_info *in = &p->info;
    int64_t begin_ns = in->have & INFO_CREATE_TIME ? in->create_ns : x->file.head.begin_ns;
    int64_t end_ns = in->have & INFO_EXIT_TIME ? in->exit_ns : x->file.head.end_ns, cpu_ns;

    *l = (struct run_life){.pid = in->id.pid,
                           .parent_pid = in->have & INFO_PARENT ? in->parent_pid : 0,
                           .exit_code = in->exit_code,
                           .start = in->id.start,
                           .begin_ns = begin_ns < end_ns ? begin_ns : end_ns,
                           .end_ns = end_ns,
                           .cpu_ns = etl_processes_value(p, 0, &cpu_ns) ? cpu_ns : -1,
                           .name = in->name,
                           .user = in->user};
    l->flags |= instances_ended(p) ? (uint32_t)RUN_LIFE_ENDED : 0;
    l->flags |= in->have & INFO_EXIT_INFERRED ? (uint32_t)RUN_LIFE_END_INFERRED : 0;
    l->flags |= in->have & INFO_EXIT_CODE ? (uint32_t)RUN_LIFE_EXIT_KNOWN : 0;
}

static bool life_crashed(const struct run_life *l)
{
    const struct proc_info info = ended_life(l);
    enum ended how;

    return (l->flags & RUN_LIFE_ENDED) && ended_how(&info, &how) && how == ENDED_CRASH;
}

static int life_order(const void *pa, const void *pb)
{
    const struct run_life *a = pa, *b = pb;
    int64_t x = clk_sub(a->end_ns, a->begin_ns), y = clk_sub(b->end_ns, b->begin_ns);
    bool crashed = life_crashed(a);

    if (crashed != life_crashed(b)) {
        return crashed ? -1 : 1;
    }
    return x != y ? (x < y ? 1 : -1) : (a->pid > b->pid) - (a->pid < b->pid);
}

static int crash_order(const void *pa, const void *pb)
{
    const struct run_life *a = pa, *b = pb;

    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static enum err load_lives(struct load *x)
{
    struct run_life *lives = arena_array(&x->memory, x->n, sizeof *lives);
    struct run_life *crashes = arena_array(&x->memory, RUN_FILE_ENDED_MAX, sizeof *crashes);
    struct run_file *f = &x->file;

    if (!lives || !crashes) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < x->n; i++) {
        load_life(x, &lives[i], x->all[i]);
    }
    if (x->n) {
        qsort(lives, x->n, sizeof *lives, life_order);
    }
    f->n_lives = x->n < RUN_FILE_LIVES_MAX ? x->n : RUN_FILE_LIVES_MAX;
    f->lives_left_out = x->n - f->n_lives;
    while (f->n_crashes < RUN_FILE_ENDED_MAX && f->n_crashes < f->n_lives &&
           life_crashed(&lives[f->n_crashes])) {
        crashes[f->n_crashes] = lives[f->n_crashes];
        f->n_crashes++;
    }
    if (f->n_crashes) {
        qsort(crashes, f->n_crashes, sizeof *crashes, crash_order);
    }
    f->lives = lives;
    f->crashes = crashes;
    return ERR_OK;
}

/* -- head and host -- */

static struct uuid id_of(uint64_t seed, const void *p, size_t n)
{
    uint64_t h[2] = {hash_bytes(p, n, seed), hash_bytes(p, n, seed + 1)};
    struct uuid id;

    memcpy(id.b, h, sizeof id.b);
    return id;
}

static void load_fact(struct run_pair *facts, size_t *n, const char *key, struct str value)
{
    if (value.n) {
        facts[(*n)++] = (struct run_pair){str_make(key), value};
    }
}

static struct str load_number(struct load *x, uint64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    char *copy = v ? arena_dup(&x->memory, text, (size_t)n) : NULL;

    return (struct str){copy, copy ? (size_t)n : 0};
}

/* "Windows 10.0.19045.4291 (10 Pro)": the third and fourth number are the build. */
static struct str load_build(const char *system)
{
    const char *p = strchr(system, ' ');

    for (unsigned dots = 0; p && dots < 2; dots++) {
        p = strchr(p + 1, '.');
    }
    return p ? (struct str){p + 1, strspn(p + 1, "0123456789.")} : str_make("");
}

static enum err load_host(struct load *x)
{
    const struct source_about *about = &x->walk->source->about;
    const struct etl_census *c = &x->walk->census[0];
    struct run_host *h = arena_alloc(&x->memory, sizeof *h);
    struct run_pair *facts = arena_array(&x->memory, 8, sizeof *facts);
    struct source_stats s;
    uint64_t lost;

    if (!h || !facts) {
        return ERR_FULL;
    }
    etl_walk_source_stats(x->walk, &s);
    lost = s.lost_events;
    h->name = x->name->host.n ? x->name->host : str_make("recording");
    h->id = id_of(7, h->name.p, h->name.n);
    h->agent = str_make(PROCFLEET_VERSION);
    h->source = str_make("etl");
    h->begin_ns = x->file.head.begin_ns;
    h->end_ns = x->file.head.end_ns;
    h->events = x->walk->records;
    h->lost_events = lost;
    h->at_most = s.lost_buffers > 0 || s.damaged > 0;
    h->ppm = (uint32_t)((double)LIMIT_PPM * (double)h->events /
                        (double)(h->events + lost ? h->events + lost : 1));
    for (size_t i = 0; i < x->n; i++) {
        uint8_t origin = x->all[i]->info.cpu_origin;

        h->cpu_origin = origin > h->cpu_origin ? origin : h->cpu_origin;
    }
    load_fact(facts, &h->n_facts, "os", str_make("windows"));
    load_fact(facts, &h->n_facts, "os_name", str_make("Windows"));
    load_fact(facts, &h->n_facts, "os_build", load_build(about->system));
    load_fact(facts, &h->n_facts, "os_version", str_make(about->system));
    load_fact(facts, &h->n_facts, "cpus", load_number(x, about->cpus));
    load_fact(facts, &h->n_facts, "cpu_mhz", load_number(x, c->cpu_mhz));
    h->facts = facts;
    x->file.hosts = h;
    x->file.n_hosts = 1;
    return ERR_OK;
}

static void load_head(struct load *x)
{
    const struct source_about *about = &x->walk->source->about;
    struct run_head *h = &x->file.head;
    uint64_t of[3] = {(uint64_t)about->first_wall_ns, x->walk->records,
                      x->walk->census[0].file_bytes};

    h->id = id_of(1, of, sizeof of);
    h->name = x->name->run;
    h->made_by = str_make("procfleet-etl " PROCFLEET_VERSION);
    h->source = str_make(etl_name_base(x->path));
    h->state = RUN_READY;
    h->origin = RUN_OF_RECORDING;
    h->revision = 1;
    h->begin_ns = about->first_wall_ns > 0 ? about->first_wall_ns : 0;
    h->end_ns = x->walk->reached_ns > h->begin_ns ? x->walk->reached_ns : h->begin_ns;
    h->labels = x->name->labels;
    h->n_labels = x->name->n_labels;
}

/* -- one recording -- */

static enum err load_make(struct load *x)
{
    enum err e = etl_walk_list(x->walk, &x->all, &x->n);

    if (e) {
        return e;
    }
    if (x->n) {
        qsort(x->all, x->n, sizeof(struct instance *), load_order);
    }
    load_columns(x);
    load_head(x);
    e = load_host(x);
    e = e ? e : load_rows(x);
    return e ? e : load_lives(x);
}

static enum err load_write(const struct load *x, const char *path, struct errmsg *why)
{
    struct buf b;
    enum err e;

    buf_init(&b, RUN_FILE_MAX);
    e = run_file_encode(&b, &x->file);
    e = e ? e : os_write_file(path, b.p, b.n, false);
    buf_fini(&b);
    return errmsg_set(why, e, "%s: %s", path, err_text(e));
}

/* "lib/NAME.pfr" of the recording's own name, "lib/NAME-2.pfr" of the second such one: directories
 * may have files of one name. */
static char *load_target(const struct etl_job *job, size_t part, const char *dir)
{
    struct str stem = etl_name_stem(etl_name_base(job->files[part]));
    char name[300];
    size_t before = 0;

    for (size_t i = 0; i < part; i++) {
        before += str_eq(etl_name_stem(etl_name_base(job->files[i])), stem);
    }
    if (before) {
        (void)snprintf(name, sizeof name, "%.*s-%zu.pfr", (int)stem.n, stem.p, before + 1);
    } else {
        (void)snprintf(name, sizeof name, "%.*s.pfr", (int)stem.n, stem.p);
    }
    return os_path_join(dir, name);
}

static enum err load_row(struct table *t, const struct load *x, const char *target)
{
    const struct run_host *h = x->file.hosts;
    struct buf labels;
    enum err e;

    buf_init(&labels, 8192);
    for (size_t i = 0; i < x->file.head.n_labels; i++) {
        const struct run_pair *l = &x->file.head.labels[i];

        buf_printf(&labels, "%s%.*s=%.*s", i ? " " : "", (int)l->key.n, l->key.p, (int)l->value.n,
                   l->value.p);
    }
    const struct table_cell cells[] = {
        table_string(str_make(x->path)),
        table_string(x->file.head.name),
        table_string(h->name),
        table_number(true, clk_sub(x->file.head.end_ns, x->file.head.begin_ns)),
        table_count(x->n),
        table_count(h->events),
        table_count(h->lost_events),
        table_string((struct str){(const char *)labels.p, labels.n}),
        table_string(str_make(target)),
    };

    e = labels.bad ? labels.bad : table_row(t, cells);
    buf_fini(&labels);
    return e;
}

static void load_record(void *ctx, const struct etl_walk_record *r)
{
    (void)ctx;
    (void)r; /* the walk counts */
}

static enum err load_one(struct etl_job *job, size_t part, const char *dir, struct table *t,
                         struct errmsg *why)
{
    const char *pattern = opt_value(job->args, "name");
    struct etl_walk_conf conf = {.progress = true, .record = load_record};
    struct etl_name name;
    struct load x = {.job = job, .path = job->files[part], .name = &name};
    char *target = load_target(job, part, dir);
    enum err e = target ? ERR_OK : ERR_NOMEM;

    arena_init(&x.memory, RUN_FILE_MAX);
    if (!e && !etl_name_match(&name, pattern, etl_name_base(x.path))) {
        fprintf(stderr, ETL_JOB_PROGRAM ": %s: its name does not fit '%s', left out\n", x.path,
                pattern);
        job->failed = job->failed ? job->failed : ERR_NOTFOUND;
    } else if (!e && etl_job_open(job, part, &conf, &x.walk) == ERR_OK) {
        if (etl_job_walk(job, x.walk)) { /* a half would be taken for all of it */
            e = load_make(&x);
            e = e ? errmsg_set(why, e, "%s: %s", x.path, err_text(e)) : load_write(&x, target, why);
            e = e ? e : load_row(t, &x, target);
        }
    }
    mem_free(x.all);
    mem_free(target);
    etl_walk_close(x.walk);
    arena_fini(&x.memory);
    return e;
}

/* -- the command -- */

static enum err load_file_add(void *ctx, const char *name)
{
    struct load_files *f = ctx;
    char *path = etl_name_is_recording(name) ? os_path_join(f->dir, name) : NULL;
    enum err e;

    if (!etl_name_is_recording(name)) {
        return ERR_OK;
    }
    e = path ? VEC_ROOM(&f->list, &f->cap, f->n + 1, FILES_MAX) : ERR_NOMEM;
    if (e) {
        mem_free(path);
        return e;
    }
    f->list[f->n++] = path;
    return ERR_OK;
}

static int path_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum err load_find(struct load_files *f, const struct etl_job *job, struct errmsg *why)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < job->n_files && !e; i++) {
        f->dir = job->files[i];
        if (os_is_file(job->files[i])) {
            char *copy = mem_strdup(job->files[i]);

            e = copy ? VEC_ROOM(&f->list, &f->cap, f->n + 1, FILES_MAX) : ERR_NOMEM;
            if (e) {
                mem_free(copy);
            } else {
                f->list[f->n++] = copy;
            }
        } else {
            e = os_list_dir(job->files[i], load_file_add, f);
        }
        e = e ? errmsg_set(why, e, "%s: %s", job->files[i], err_text(e)) : e;
    }
    if (!e && f->n == 0) {
        e = errmsg_set(why, ERR_NOTFOUND, "there is no recording (*.etl, *.etl.xz)");
    }
    if (f->n) {
        qsort(f->list, f->n, sizeof *f->list, path_order);
    }
    return e;
}

static enum err load_all(struct etl_job *job, const char *dir, struct errmsg *why)
{
    static const struct table_column columns[] = {{"file", "FILE", TABLE_TEXT},
                                                  {"name", "NAME", TABLE_TEXT},
                                                  {"host", "HOST", TABLE_TEXT},
                                                  {"took_ns", "TOOK", TABLE_NS},
                                                  {"processes", "PROCESSES", TABLE_COUNT},
                                                  {"events", "EVENTS", TABLE_COUNT},
                                                  {"lost_events", "LOST", TABLE_ALARM},
                                                  {"labels", "LABELS", TABLE_TEXT},
                                                  {"run_file", NULL, TABLE_TEXT}};
    static const char *const yields[] = {"EVENTS", "LABELS", "PROCESSES", NULL};
    struct table *t;
    enum err e =
        etl_job_table(job, &t, job->format, columns, sizeof columns / sizeof *columns, yields);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < job->n_files && !e && !job->stopped(); i++) {
        e = load_one(job, i, dir, t, why);
    }
    table_end(t);
    return e;
}

static enum err load_run(struct etl_job *job, struct errmsg *why)
{
    const char *dir = opt_value(job->args, "output"), *pattern = opt_value(job->args, "name");
    struct load_files files = {.n = 0};
    enum err e = dir ? ERR_OK : errmsg_set(why, ERR_USAGE, "--output is missing: a directory");

    e = e || !pattern ? e : etl_name_check(pattern, why);
    e = e ? e : load_find(&files, job, why);
    if (!e) {
        e = os_mkdirs(dir, false);
        e = e ? errmsg_set(why, e, "%s: %s", dir, err_text(e)) : e;
    }
    if (!e) {
        job->files = (const char *const *)files.list;
        job->n_files = files.n;
        e = load_all(job, dir, why);
        job->n_files = 0;
    }
    for (size_t i = 0; i < files.n; i++) {
        mem_free(files.list[i]);
    }
    mem_free(files.list);
    return e;
}

static const struct opt opts[] = {
    {"output", 'o', "DIR", "where the run files go", false},
    {"name", 0, "PATTERN",
     "what a file's name says, without .etl: {case}, {host}, and {LABEL} for anything else", false},
    {"format", 'f', "table|json|jsonl|csv", "how it is printed; default table", false},
    TABLE_OPT_WIDE,
};

static const struct opt_command load_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "load",
    .brief = "make run files of recordings, which procfleet compares and reports",
    .operands = "DIR|FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-etl load DIR -o lib/\n"
        "  procfleet-etl load DIR --name '{case}_{ms}ms{host}.{time}' -o lib/\n"
        "  procfleet run list --runs lib/\n"
        "  procfleet gate 'after-*' --against 'before-*' --runs lib/ --fail-on 'cpu_time > 5%'\n"
        "\n"
        "{case} is the run's name, {host} its host; every other name becomes a label, with the\n"
        "text that stands in its place ({ms} and {time} are digits and what separates them). A\n"
        "file that does not fit is told and left out. Without --name the run has the file's "
        "name.\n",
};

const struct etl_command etl_load_command = {&load_opts, NULL, load_run};
