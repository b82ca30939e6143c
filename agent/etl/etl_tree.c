/* `etl tree`: the processes of a recording under the one that started them. A parent is the
 * latest process of that id that began before its child; one that is not recorded makes its
 * children roots. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_instances.h"
#include "agent/etl/etl_processes.h"
#include "agent/etl/etl_range.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define DEPTH_SHOW 40 /* levels that are indented */
#define NONE       SIZE_MAX

struct node {
    const struct instance *p;
    size_t parent, first, next, last; /* indices, or NONE */
};

struct etl_tree {
    struct etl_job *job;
    struct etl_range range;
    bool at_given;
    size_t cpu_key; /* of etl_processes_keys */
    struct etl_range_time at;
};

static int64_t begin_of(const struct instance *p)
{
    return p->info.have & INFO_CREATE_TIME ? p->info.create_ns : p->life.first_wall_ns;
}

static int by_pid_begin(const void *pa, const void *pb)
{
    const struct node *a = pa, *b = pb;

    if (a->p->info.id.pid != b->p->info.id.pid) {
        return a->p->info.id.pid < b->p->info.id.pid ? -1 : 1;
    }
    return (begin_of(a->p) > begin_of(b->p)) - (begin_of(a->p) < begin_of(b->p));
}

/* The latest node of the pid that does not begin after `when`. */
static size_t node_before(const struct node *nodes, size_t n, uint32_t pid, int64_t when)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct instance *p = nodes[mid].p;

        if (p->info.id.pid < pid || (p->info.id.pid == pid && begin_of(p) <= when)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low > 0 && nodes[low - 1].p->info.id.pid == pid ? low - 1 : NONE;
}

/* A child never begins before its parent; of two that began at once the order of the list says
 * who can be whose parent, so that there is no circle. */
static void link_nodes(struct node *nodes, size_t n, size_t *roots)
{
    size_t last_root = NONE;

    *roots = NONE;
    for (size_t i = 0; i < n; i++) {
        const struct instance *p = nodes[i].p;
        size_t parent = p->info.have & INFO_PARENT
                            ? node_before(nodes, n, p->info.parent_pid, begin_of(p))
                            : NONE;
        size_t *list, *last;

        if (parent != NONE &&
            (parent == i || (begin_of(nodes[parent].p) == begin_of(p) && parent > i))) {
            parent = NONE;
        }
        nodes[i].parent = parent;
        list = parent == NONE ? roots : &nodes[parent].first;
        last = parent == NONE ? &last_root : &nodes[parent].last;
        if (*list == NONE) {
            *list = i;
        } else {
            nodes[*last].next = i;
        }
        *last = i;
    }
}

/* -- printing -- */

enum { FILE_NAME, PID, PARENT, DEPTH, NAME, INDENTED, STARTED, ENDED, EXIT, CPU, COMMAND, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [PID] = {"pid", "PID", TABLE_ID},
    [PARENT] = {"parent_pid", NULL, TABLE_ID},
    [DEPTH] = {"depth", NULL, TABLE_ID},
    [NAME] = {"name", NULL, TABLE_TEXT},
    [INDENTED] = {NULL, "NAME", TABLE_TEXT},
    [STARTED] = {"start_time", "START", TABLE_TIME},
    [ENDED] = {"end_time", "END", TABLE_TIME},
    [EXIT] = {"exit_code", "EXIT", TABLE_EXIT},
    [CPU] = {"cpu_time", "CPU", TABLE_NS},
    [COMMAND] = {"command_line", "COMMAND", TABLE_TEXT},
};

static enum err put_node(const struct etl_tree *t, struct table *sheet, const char *file,
                         const struct node *n, size_t depth)
{
    const struct proc_info *i = &n->p->info;
    char name[2 * DEPTH_SHOW + 264];
    size_t indent = 2 * (depth < DEPTH_SHOW ? depth : DEPTH_SHOW);
    struct table_cell cells[COLUMNS];
    int64_t cpu_ns = 0;
    bool known;

    memset(name, ' ', indent);
    memcpy(name + indent, i->name.p ? i->name.p : "", i->name.n < 256 ? i->name.n : 256);
    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(true, i->id.pid);
    cells[PARENT] = table_number(i->have & INFO_PARENT, i->parent_pid);
    cells[DEPTH] = table_number(true, (int64_t)depth);
    cells[NAME] = table_string(i->name);
    cells[INDENTED] = table_string(
        (struct str){name, i->name.n ? indent + (i->name.n < 256 ? i->name.n : 256) : 0});
    cells[STARTED] = table_number(i->have & INFO_CREATE_TIME, i->create_ns);
    cells[ENDED] = table_number(i->have & INFO_EXITED, i->exit_ns);
    cells[EXIT] = table_number(i->have & INFO_EXIT_CODE, i->exit_code);
    known = etl_processes_value(n->p, t->cpu_key, &cpu_ns);
    cells[CPU] = table_number(known, cpu_ns);
    cells[COMMAND] = table_string(i->command_line);
    return table_row(sheet, cells);
}

static bool is_alive(const struct instance *p, int64_t when)
{
    bool ended = p->info.have & INFO_EXITED;

    return begin_of(p) <= when && (!ended || p->info.exit_ns >= when);
}

/* Depth first; a node that is not shown leaves its children where they are. */
static enum err put_tree(struct etl_tree *t, struct table *sheet, const char *file,
                         const struct etl_walk *w, struct node *nodes, size_t at, int64_t when)
{
    size_t depth = 0, shown = 0;
    bool any = at != NONE;
    enum err e = ERR_OK;

    while (at != NONE && !e && etl_job_out_ok(t->job)) {
        const struct instance *p = nodes[at].p;

        if (etl_range_process(&t->range, p->info.id.pid, p) && etl_range_lived(&t->range, w, p) &&
            (!t->at_given || is_alive(p, when))) {
            e = put_node(t, sheet, file, &nodes[at], depth);
            shown++;
        }
        if (nodes[at].first != NONE) {
            at = nodes[at].first;
            depth++;
            continue;
        }
        while (at != NONE && nodes[at].next == NONE) {
            at = nodes[at].parent;
            depth -= at != NONE;
        }
        at = at == NONE ? NONE : nodes[at].next;
    }
    if (shown == 0) {
        etl_job_note(sheet, file, "%s",
                     any ? "no process matches" : "no processes are recorded" ETL_JOB_PROVIDERS);
    }
    return e;
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    (void)ctx;
    (void)r;
}

static enum err build(struct etl_tree *t, struct table *sheet, const char *file,
                      const struct etl_walk *w)
{
    int64_t when = t->at.relative ? clk_add(w->start_ns, t->at.ns) : t->at.ns;
    struct instance **all;
    struct node *nodes;
    size_t n, roots;
    enum err e = etl_walk_list(w, &all, &n);

    if (e) {
        return e;
    }
    nodes = mem_array(n ? n : 1, sizeof *nodes);
    if (!nodes) {
        mem_free(all);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        nodes[i] = (struct node){all[i], NONE, NONE, NONE, NONE};
    }
    if (n) {
        qsort(nodes, n, sizeof *nodes, by_pid_begin);
    }
    link_nodes(nodes, n, &roots);
    e = put_tree(t, sheet, file, w, nodes, roots, when);
    mem_free(nodes);
    mem_free(all);
    return e;
}

static enum err tree_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_tree *t = ctx;
    struct etl_walk_conf conf = {.progress = true, .record = on_record, .ctx = t};
    struct etl_walk *w;
    enum err e = ERR_OK;

    etl_range_limit(&t->range, &conf);
    if (etl_job_open(job, part, &conf, &w) == ERR_OK) {
        (void)etl_job_walk(job, w);
        e = build(t, sheet, etl_job_part_name(job, part), w);
        etl_walk_close(w);
    }
    return e;
}

static enum err tree_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"END", "START", "CPU", "FILE", NULL};
    struct etl_tree t = {.job = job};
    const struct etl_job_list list = {columns, COLUMNS, yields, "the tree", tree_part, &t};
    enum err e = etl_range_parse(&t.range, job, why);

    if (!e) {
        e = etl_processes_key_find(&t.cpu_key, "cpu_time", why);
    }
    if (!e) {
        e = etl_range_moment(&t.at, job, "at", why);
        t.at_given = t.at.given;
    }
    if (!e && t.at.mark.n) {
        e = errmsg_set(why, ERR_USAGE, "--at takes no mark; 'marks' lists their times");
    }
    return e ? e : etl_job_rows(job, &list, why);
}

static const struct opt opts[] = {
    {"at", 0, "MS|TIME", "only what lived at that moment: ms since the start, a span, or UTC",
     false},
    ETL_RANGE_OPTS,
    ETL_JOB_OPT_LIMIT,
    ETL_JOB_OPTS};

static const struct opt_command tree_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "tree",
    .brief = "the processes of a recording as a tree: who started whom",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl tree trace.etl\n"
                "  procfleet-etl tree trace.etl --at 2500\n"
                "  procfleet-etl tree trace.etl --format json\n",
};

const struct etl_command etl_tree_command = {&tree_opts, NULL, tree_run};
