/* `etl processes` and `etl top`: the instances of a recording, all of them or those that used most.
 */
#include <stdio.h>

#include "agent/etl/job.h"
#include "agent/etl/proc_rows.h"
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

static void on_record(void *ctx, const struct walk_record *r)
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
    return (p->info.id.pid != 0 || c->idle || c->by_pid) && procs_value(p, c->by, &v) && v != 0;
}

/* An empty answer has a reason. */
static void note_empty(struct proc_rows *rows, const struct choice *c, const char *name, size_t n,
                       uint64_t recorded)
{
    const struct procs_key *keys = procs_keys(&(size_t){0});
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
    proc_rows_note(rows, text);
}

static enum err put_part(struct job *job, struct proc_rows *rows, const struct choice *c,
                         const char *name, const struct walk *w)
{
    struct ptable_proc **all;
    uint64_t shown = 0, recorded;
    size_t n;
    enum err e = procs_list(w, &all, &n);

    if (e) {
        return e;
    }
    recorded = procs_recorded(w, all, n);
    if (c->sorted) {
        proc_rows_sort(all, n, c->by);
    }
    for (size_t i = 0; i < n && shown < c->limit && !e && job_out_ok(job); i++) {
        if (chosen(c, all[i])) {
            e = proc_rows_put(rows, name, recorded, all[i]);
            shown++;
        }
    }
    if (shown == 0 && c->limit > 0) {
        note_empty(rows, c, name, n, recorded);
    }
    mem_free(all);
    return e;
}

static enum err put_all(struct job *job, const struct choice *c)
{
    struct walk_conf conf = {.progress = true, .record = on_record};
    struct proc_rows *rows;
    enum err e =
        proc_rows_begin(&rows, job, job->format, c->sorted ? PROC_ROWS_TOP : PROC_ROWS_LIST, c->by,
                        job_parts(job) > 1);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < job_parts(job) && !e && !job->partial && job_out_ok(job); i++) {
        struct walk *w;

        if (job_open(job, i, &conf, &w) == ERR_OK) {
            (void)job_walk(job, w);
            e = put_part(job, rows, c, job_part_name(job, i), w);
            walk_close(w);
        }
    }
    proc_rows_end(rows);
    return e;
}

static enum err run(struct job *job, struct choice *c, struct errmsg *why)
{
    enum err e = job_id(job, "pid", &c->by_pid, &c->pid, why);

    if (e) {
        return e;
    }
    c->name = str_make(opt_value(job->args, "name"));
    e = put_all(job, c);
    return e ? errmsg_set(why, e, "cannot list the processes: %s", err_text(e)) : ERR_OK;
}

enum err processes_run(struct job *job, struct errmsg *why)
{
    struct choice c = {.limit = UINT64_MAX};
    enum err e = job_number(job, "limit", UINT64_MAX, &c.limit, why);

    return e ? e : run(job, &c, why);
}

enum err processes_top_run(struct job *job, struct errmsg *why)
{
    struct choice c = {.sorted = true, .idle = opt_flag(job->args, "idle")};
    const char *by = opt_value(job->args, "by");
    enum err e = job_number(job, "limit", TOP_LIMIT, &c.limit, why);

    if (!e) {
        e = procs_key_find(&c.by, by ? by : "cpu_time", why);
    }
    return e ? e : run(job, &c, why);
}

#define OPTS_WHO                                                            \
    {"name", 0, "GLOB", "only processes whose image has this name", false}, \
    {                                                                       \
        "pid", 'p', "PID", "only the processes that had this id", false     \
    }

static const struct opt list_opts[] = {
    OPTS_WHO, {"limit", 'n', "N", "at most so many of each recording", false}, JOB_OPTS};

static const struct opt top_opts[] = {
    {"by", 'b', "FIGURE", "order by this figure (cpu_time)", false},
    {"limit", 'n', "N", "at most so many of each recording (20)", false},
    {"idle", 0, NULL, "with the idle process", false},
    OPTS_WHO,
    JOB_OPTS};

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
    const struct procs_key *keys = procs_keys(&n);

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
