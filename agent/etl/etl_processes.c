/* `etl processes` and `etl top`: the instances of a recording, all of them or those that used most.
 */
#include <stdio.h>

#include "agent/etl/etl_job.h"
#include "agent/etl/etl_process_rows.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/plural.h"

#define TOP_LIMIT 20

struct choice {
    struct str name; /* glob; empty: all */
    bool by_pid;
    uint32_t pid;
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

static bool chosen(const struct choice *c, const struct ptable_proc *p)
{
    int64_t v;

    if (c->name.n && !glob_match(c->name, p->info.name)) {
        return false;
    }
    if (c->by_pid && p->info.id.pid != c->pid) {
        return false;
    }
    if (!c->sorted) {
        return true;
    }
    return (p->info.id.pid != 0 || c->idle || c->by_pid) && etl_columns_value(p, c->by, &v) &&
           v != 0;
}

/* An empty answer has a reason. */
static void note_empty(struct etl_process_rows *rows, const struct choice *c, const char *name,
                       size_t n, uint64_t recorded)
{
    const struct etl_columns_key *keys = etl_columns_keys(&(size_t){0});
    char text[300];

    if (n == 0) {
        (void)snprintf(text, sizeof text, "%.200s: no processes are recorded", name);
    } else if (c->sorted && !(recorded >> c->by & 1)) {
        (void)snprintf(text, sizeof text, "%.200s: nothing is recorded about %s", name,
                       keys[c->by].name);
    } else {
        (void)snprintf(text, sizeof text, "%.200s: none of %zu %s matches", name, n,
                       plural(n, "process", "processes"));
    }
    etl_process_rows_note(rows, text);
}

static enum err put_part(struct etl_job *job, struct etl_process_rows *rows, const struct choice *c,
                         const char *name, const struct etl_walk *w)
{
    struct ptable_proc **all;
    uint64_t shown = 0, recorded;
    size_t n;
    enum err e = etl_columns_list(w, &all, &n);

    if (e) {
        return e;
    }
    recorded = etl_columns_recorded(w, all, n);
    if (c->sorted) {
        etl_process_rows_sort(all, n, c->by);
    }
    for (size_t i = 0; i < n && shown < c->limit && !e && etl_job_out_ok(job); i++) {
        if (chosen(c, all[i])) {
            e = etl_process_rows_put(rows, name, recorded, all[i]);
            shown++;
        }
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
    struct etl_process_rows *rows;
    enum err e = etl_process_rows_begin(&rows, job, job->format,
                                        c->sorted ? ETL_PROCESS_ROWS_TOP : ETL_PROCESS_ROWS_LIST,
                                        c->by, etl_job_parts(job) > 1);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < etl_job_parts(job) && !e && !job->partial && etl_job_out_ok(job); i++) {
        struct etl_walk *w;

        if (etl_job_open(job, i, &conf, &w) == ERR_OK) {
            (void)etl_job_walk(job, w);
            e = put_part(job, rows, c, etl_job_part_name(job, i), w);
            etl_walk_close(w);
        }
    }
    etl_process_rows_end(rows);
    return e;
}

static enum err run(struct etl_job *job, struct choice *c, struct errmsg *why)
{
    enum err e = etl_job_id(job, "pid", &c->by_pid, &c->pid, why);

    if (e) {
        return e;
    }
    c->name = str_make(opt_value(job->args, "name"));
    e = put_all(job, c);
    return e ? errmsg_set(why, e, "cannot list the processes: %s", err_text(e)) : ERR_OK;
}

enum err etl_processes_run(struct etl_job *job, struct errmsg *why)
{
    struct choice c = {.limit = UINT64_MAX};
    enum err e = etl_job_number(job, "limit", UINT64_MAX, &c.limit, why);

    return e ? e : run(job, &c, why);
}

enum err etl_processes_top_run(struct etl_job *job, struct errmsg *why)
{
    struct choice c = {.sorted = true, .idle = opt_flag(job->args, "idle")};
    const char *by = opt_value(job->args, "by");
    enum err e = etl_job_number(job, "limit", TOP_LIMIT, &c.limit, why);

    if (!e) {
        e = etl_columns_key_find(&c.by, by ? by : "cpu_time", why);
    }
    return e ? e : run(job, &c, why);
}

#define OPTS_WHO                                                            \
    {"name", 0, "GLOB", "only processes whose image has this name", false}, \
    {                                                                       \
        "pid", 'p', "PID", "only the processes that had this id", false     \
    }

static const struct opt list_opts[] = {
    OPTS_WHO, {"limit", 'n', "N", "at most so many of each recording", false}, ETL_JOB_OPTS};

static const struct opt top_opts[] = {
    {"by", 'b', "FIGURE", "order by this figure (cpu_time)", false},
    {"limit", 'n', "N", "at most so many of each recording (20)", false},
    {"idle", 0, NULL, "with the idle process", false},
    OPTS_WHO,
    ETL_JOB_OPTS};

const struct opt_command processes_opts = {
    .program = "procfleet-agent etl",
    .name = "processes",
    .brief = "list every process of a recording, with its figures",
    .operands = "FILE...",
    .opts = list_opts,
    .n_opts = sizeof list_opts / sizeof *list_opts,
    .examples = "  procfleet-agent etl processes trace.etl\n"
                "  procfleet-agent etl processes trace.etl --name 'svchost*' --format csv\n"
                "  procfleet-agent etl processes trace.etl --pid 3676 --format json\n",
};

static const char *figure(size_t i)
{
    size_t n;
    const struct etl_columns_key *keys = etl_columns_keys(&n);

    return i < n ? keys[i].name : NULL;
}

static const struct opt_set top_sets[] = {{"FIGURE", figure}, {NULL, NULL}};

const struct opt_command processes_top_opts = {
    .program = "procfleet-agent etl",
    .name = "top",
    .brief = "the processes that used most of something",
    .operands = "FILE...",
    .opts = top_opts,
    .n_opts = sizeof top_opts / sizeof *top_opts,
    .sets = top_sets,
    .examples = "  procfleet-agent etl top trace.etl\n"
                "  procfleet-agent etl top trace.etl --by disk -n 5\n"
                "  procfleet-agent etl top *.etl --by net --format json\n",
};
