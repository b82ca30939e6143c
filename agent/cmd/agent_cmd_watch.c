/* `procfleet-agent watch`: this machine's processes as they are, without a collector. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/cmd/threads.h"
#include "agent/monitor.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/table.h"

#define ETL_PIDS_MAX   64
#define NAMES_MAX      64
#define WATCH_ROWS     20
#define REMEMBERED_MAX (MODEL_PROCESSES_MAX + 2 * THREADS_MAX)
#define INTERVAL_LEAST (100 * CLK_MS)
#define INTERVAL_MOST  (10 * CLK_S)

static const struct opt opts[] = {
    {"pid", 'p', "PID", "only this process; may be repeated", true},
    {"name", 0, "GLOB", "only processes of this name, such as 'post*'; may be repeated", true},
    {"threads", 'H', NULL, "with a row for each thread of the chosen processes", false},
    {"interval", 0, "SPAN", "distance of samples, 100ms to 10s, default 1s", false},
    {"for", 0, "SPAN", "end after so long; default: until Ctrl-C", false},
    {"limit", 'n', "N", "rows of a sample, most CPU time first; default 20 in a table, else all",
     false},
    {"format", 'f', "table|jsonl|csv", "how it is printed; default table", false},
    TABLE_OPT_WIDE,
    OPT_FORMER("interval", 'i', "SPAN", false),
    AGENT_CMD_CONF_OPTS,
};

static enum err watch_run(const struct opt_args *args, struct errmsg *why);

const struct opt_command cmd_watch_opts = {
    .program = "procfleet-agent",
    .name = "watch",
    .brief = "show the processes of this machine as they run, without a collector",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-agent watch\n"
                "  procfleet-agent watch --name 'post*' --interval 500ms\n"
                "  procfleet-agent watch --pid 4711 --threads\n"
                "  procfleet-agent watch --pid 4711 --for 60s --format csv > usage.csv\n",
    .action = &(const struct opt_action){.run = watch_run},
};

/* -- columns -- */

enum { COL_TIME, COL_PID, COL_TID, COL_NAME, COL_CPU, COL_METRICS };

static const unsigned metrics[] = {M_CPU_TIME,     M_WORKING_SET_SIZE, M_PRIVATE_BYTES,
                                   M_THREAD_COUNT, M_HANDLE_COUNT,     M_READ_BYTES,
                                   M_WRITE_BYTES};

#define METRICS     (sizeof metrics / sizeof *metrics)
#define COL_CYCLES  (COL_METRICS + METRICS)
#define COL_ENDED   (COL_CYCLES + 1)
#define COL_COMMAND (COL_ENDED + 1)
#define COLUMNS     (COL_COMMAND + 1)

/* Those of threads are not there unless asked for. */
static struct table_column columns[COLUMNS] = {
    {"time", "TIME", TABLE_TIME},
    {"pid", "PID", TABLE_ID},
    {NULL, NULL, TABLE_ID},
    {"name", "NAME", TABLE_TEXT},
    {"cpu_percent", "CPU", TABLE_PERMILLE},
    {"cpu_time", "CPU TIME", TABLE_NS},
    {"working_set_size", "MEMORY", TABLE_BYTES},
    {"private_bytes", "PRIVATE", TABLE_BYTES},
    {"thread_count", "THR", TABLE_COUNT},
    {"handle_count", "HANDLES", TABLE_COUNT},
    {"read_bytes", "READ", TABLE_BYTES},
    {"write_bytes", "WRITTEN", TABLE_BYTES},
    {NULL, NULL, TABLE_COUNT},
    {"exited", "ENDED", TABLE_FLAG},
    {"command_line", NULL, TABLE_TEXT},
};

static const char *const yields[] = {"ENDED", "HANDLES", "CYCLES",  "PRIVATE",
                                     "THR",   "READ",    "WRITTEN", NULL};

/* -- state -- */

/* What a process had used at the last sample. */
struct before {
    struct proc_id id;
    int64_t cpu_ns, mono_ns;
};

struct shown {
    const struct sample_row *row;
    int64_t permille; /* of one CPU; -1 = no predecessor */
};

struct watch {
    struct agent_conf conf;
    const char *names[NAMES_MAX];
    uint32_t pids[ETL_PIDS_MAX];
    struct process_filter_list who; /* of the two above */
    size_t limit;
    bool threads; /* theirs too */
    bool wide;
    int64_t interval_ns, for_ns, end_ns;
    enum table_format format;
    struct monitor *monitor;
    struct privacy *filter;
    struct table *sheet;
    struct before *before; /* by pid, then start */
    struct before *now;
    size_t n_before, n_now;
    struct shown *shown;
    struct thread_use *thread;
    enum err failed;
    bool seen; /* something was shown */
    bool done; /* the tick that ends a stream, at the same moment as the last, is not shown */
};

static int by_id(const void *a, const void *b)
{
    const struct before *x = a, *y = b;

    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    return x->id.start < y->id.start ? -1 : x->id.start > y->id.start;
}

static int by_use(const void *a, const void *b)
{
    const struct shown *x = a, *y = b;

    if (x->permille != y->permille) {
        return x->permille > y->permille ? -1 : 1;
    }
    return x->row->info->id.pid < y->row->info->id.pid ? -1 : 1;
}

/* A thread is remembered beside the processes, under a start that no process has. */
static struct proc_id thread_id(uint32_t pid, uint32_t tid)
{
    return (struct proc_id){tid, UINT64_MAX - pid};
}

static int64_t share(const struct watch *w, struct proc_id id, int64_t cpu_ns, int64_t mono_ns)
{
    struct before key = {.id = id};
    const struct before *b =
        w->n_before > 0 ? bsearch(&key, w->before, w->n_before, sizeof key, by_id) : NULL;

    if (!b || mono_ns <= b->mono_ns || cpu_ns < b->cpu_ns) {
        return -1;
    }
    return (cpu_ns - b->cpu_ns) * 1000 / (mono_ns - b->mono_ns);
}

static void remember(struct watch *w, struct proc_id id, int64_t cpu_ns, int64_t mono_ns)
{
    if (w->n_now < REMEMBERED_MAX) {
        w->now[w->n_now++] = (struct before){id, cpu_ns, mono_ns};
    }
}

/* What was remembered of this sample is what the next one looks at. */
static void turn_over(struct watch *w)
{
    struct before *swap = w->before;

    qsort(w->now, w->n_now, sizeof *w->now, by_id);
    w->before = w->now;
    w->n_before = w->n_now;
    w->now = swap;
    w->n_now = 0;
}

/* -- a sample -- */

static enum err put_row(struct watch *w, const struct shown *s, int64_t wall_ns)
{
    struct table_cell cells[COLUMNS];
    struct proc_info info;

    privacy_info(w->filter, s->row->info, &info);
    cells[COL_TIME] = table_number(true, wall_ns);
    cells[COL_PID] = table_number(true, info.id.pid);
    cells[COL_TID] = table_number(false, 0);
    cells[COL_NAME] = table_string(info.name);
    cells[COL_CPU] = table_number(s->permille >= 0, s->permille);
    for (size_t i = 0; i < METRICS; i++) {
        cells[COL_METRICS + i] =
            table_number((s->row->mask & METRIC_BIT(metrics[i])) != 0, s->row->values[metrics[i]]);
    }
    cells[COL_CYCLES] = table_number(false, 0);
    cells[COL_ENDED] = table_number((info.have & INFO_EXITED) != 0, 1);
    cells[COL_COMMAND] = table_string(info.command_line);
    return table_row(w->sheet, cells);
}

static enum err put_thread(struct watch *w, uint32_t pid, const struct thread_use *t,
                           const struct sample_tick *tick)
{
    int64_t permille = t->has_cpu ? share(w, thread_id(pid, t->tid), t->cpu_ns, tick->mono_ns) : -1;
    struct table_cell cells[COLUMNS];

    for (size_t i = 0; i < COLUMNS; i++) {
        cells[i] = table_number(false, 0);
    }
    cells[COL_TIME] = table_number(true, tick->wall_ns);
    cells[COL_PID] = table_number(true, pid);
    cells[COL_TID] = table_number(true, t->tid);
    cells[COL_NAME] = table_string(str_make(t->name));
    cells[COL_CPU] = table_number(permille >= 0, permille);
    cells[COL_METRICS] = table_number(t->has_cpu, t->cpu_ns); /* the first is cpu_time */
    cells[COL_CYCLES] = table_number(t->has_cycles, (int64_t)t->cycles);
    if (t->has_cpu) {
        remember(w, thread_id(pid, t->tid), t->cpu_ns, tick->mono_ns);
    }
    return table_row(w->sheet, cells);
}

/* Asked of the system now; of who has ended meanwhile, or is denied, there are none. */
static enum err put_threads(struct watch *w, uint32_t pid, const struct sample_tick *tick)
{
    size_t n = 0;
    bool cut;
    enum err e = ERR_OK;

    if (threads_read(w->thread, THREADS_MAX, pid, &n, &cut)) {
        return ERR_OK;
    }
    for (size_t i = 0; i < n && !e; i++) {
        e = put_thread(w, pid, &w->thread[i], tick);
    }
    if (!e && cut) {
        table_note(w->sheet, str_make("a process has more threads than are shown"));
    }
    return e;
}

static void show(struct watch *w, size_t n, const struct sample_tick *tick)
{
    qsort(w->shown, n, sizeof *w->shown, by_use);
    for (size_t i = 0; i < n && i < w->limit && !w->failed; i++) {
        const struct proc_info *info = w->shown[i].row->info;

        w->failed = put_row(w, &w->shown[i], tick->wall_ns);
        w->seen = true;
        if (!w->failed && w->threads && !(info->have & INFO_EXITED)) {
            w->failed = put_threads(w, info->id.pid, tick);
        }
    }
    if (!w->failed && ferror(stdout)) {
        w->failed = errno == EPIPE ? ERR_END : ERR_IO; /* who went away, as `head`, is no failure */
    }
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct watch *w = ctx;

    if (w->done) {
        return;
    }
    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];
        bool known = (row->mask & METRIC_BIT(M_CPU_TIME)) != 0;
        int64_t cpu_ns = known ? row->values[M_CPU_TIME] : 0;

        w->shown[i] =
            (struct shown){row, known ? share(w, row->info->id, cpu_ns, tick->mono_ns) : -1};
        if (known) {
            remember(w, row->info->id, cpu_ns, tick->mono_ns);
        }
    }
    show(w, tick->n_rows, tick);
    turn_over(w);
    if (w->failed || agent_cmd_stopped() || (w->for_ns > 0 && os_mono_ns() >= w->end_ns)) {
        w->done = true;
        monitor_stop(w->monitor);
    }
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

/* -- options -- */

static enum err read_span(int64_t *out, const struct opt_args *args, const char *name,
                          struct errmsg *why)
{
    const char *text = opt_value(args, name);

    if (text && (clk_parse_span(out, text) || *out <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--%s: '%s' is not a time such as 500ms or 60s", name,
                          text);
    }
    return ERR_OK;
}

static enum err read_format(struct watch *w, const char *text, struct errmsg *why)
{
    if (!text || strcmp(text, "table") == 0) {
        w->format = TABLE_AS_TABLE;
    } else if (strcmp(text, "jsonl") == 0) {
        w->format = TABLE_AS_JSONL;
    } else if (strcmp(text, "csv") == 0) {
        w->format = TABLE_AS_CSV;
    } else {
        return errmsg_set(why, ERR_USAGE, "--format: '%s' is not table, jsonl or csv", text);
    }
    return ERR_OK;
}

static enum err read_pids(struct watch *w, const struct opt_args *args, struct errmsg *why)
{
    const char *pids[ETL_PIDS_MAX];
    size_t n = opt_values(args, "pid", pids, ETL_PIDS_MAX);

    for (size_t i = 0; i < n; i++) {
        if (process_filter_parse_pid(&w->pids[i], pids[i])) {
            return errmsg_set(why, ERR_USAGE, "--pid: '%s' is not the number of a process",
                              pids[i]);
        }
    }
    w->who = (struct process_filter_list){w->pids, n, w->names,
                                          opt_values(args, "name", w->names, NAMES_MAX)};
    for (size_t i = 0; i < w->who.n_names; i++) {
        if (process_filter_check_name(w->names[i])) {
            return errmsg_set(why, ERR_USAGE,
                              "--name: '%s' would fit no process: write the name without its "
                              "folder; '*' is every process",
                              w->names[i]);
        }
    }
    return ERR_OK;
}

static enum err read_who(struct watch *w, const struct opt_args *args, struct errmsg *why)
{
    const char *limit = opt_value(args, "limit");
    uint32_t number = WATCH_ROWS;
    enum err e = read_pids(w, args, why);

    if (!e && limit && process_filter_parse_pid(&number, limit)) {
        e = errmsg_set(why, ERR_USAGE, "--limit: '%s' is not a number", limit);
    }
    w->limit = limit || w->format == TABLE_AS_TABLE ? number : SIZE_MAX;
    w->threads = opt_flag(args, "threads");
    w->wide = opt_flag(args, "wide");
    if (!e && w->threads && w->who.n_pids + w->who.n_names == 0) {
        e = errmsg_set(why, ERR_USAGE, "--threads: of which processes? Add --pid or --name");
    }
    if (w->threads) {
        columns[COL_TID] = (struct table_column){"tid", "TID", TABLE_ID};
        columns[COL_CYCLES] = (struct table_column){"thread_cpu_cycles", "CYCLES", TABLE_WIDE};
    }
    return e;
}

static enum err read_options(struct watch *w, const struct opt_args *args, struct errmsg *why)
{
    enum err e = read_format(w, opt_value(args, "format"), why);

    w->interval_ns = CLK_S;
    if (!e) {
        e = read_who(w, args, why);
    }
    if (!e) {
        e = read_span(&w->interval_ns, args, "interval", why);
    }
    if (!e) {
        e = read_span(&w->for_ns, args, "for", why);
    }
    if (!e && (w->interval_ns < INTERVAL_LEAST || w->interval_ns > INTERVAL_MOST)) {
        e = errmsg_set(why, ERR_USAGE, "--interval: 100ms to 10s");
    }
    return e;
}

/* -- running -- */

static enum err open_parts(struct watch *w, struct errmsg *why)
{
    struct monitor_conf conf = {.open = agent_cmd_open_source,
                                .open_ctx = &w->conf,
                                .period_ns = w->interval_ns,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .who = {.only = w->who},
                                .tick = on_tick,
                                .life = on_life,
                                .ctx = w};
    enum err e = privacy_create(&w->filter, &w->conf.filter);

    w->before = mem_array(REMEMBERED_MAX, sizeof *w->before);
    w->now = mem_array(REMEMBERED_MAX, sizeof *w->now);
    w->shown = mem_array(MODEL_PROCESSES_MAX, sizeof *w->shown);
    w->thread = w->threads ? mem_array(THREADS_MAX, sizeof *w->thread) : NULL;
    if (!e && (!w->before || !w->now || !w->shown || (w->threads && !w->thread))) {
        e = ERR_NOMEM;
    }
    if (!e) {
        e = table_begin(&w->sheet, stdout, w->format, true, columns, COLUMNS);
    }
    if (!e) {
        table_fit(w->sheet, yields, w->wide);
        e = monitor_create(&w->monitor, &conf, why);
        return e ? e : monitor_open(w->monitor, why);
    }
    return errmsg_set(why, e, "out of memory");
}

static enum err run(struct watch *w, struct errmsg *why)
{
    enum err e = open_parts(w, why);

    if (!e) {
        e = agent_cmd_catch_stop(why);
    }
    if (!e) {
        w->end_ns = clk_add(os_mono_ns(), w->for_ns);
        e = monitor_run(w->monitor);
    }
    if (!e && w->failed && w->failed != ERR_END) {
        e = errmsg_set(why, w->failed, "the output could not be written");
    }
    if (!e && !w->seen && !w->failed && w->who.n_pids + w->who.n_names > 0) {
        fputs("procfleet-agent: no process of these numbers and names ran\n", stderr);
    }
    monitor_destroy(w->monitor);
    table_end(w->sheet);
    privacy_destroy(w->filter);
    mem_free(w->before);
    mem_free(w->now);
    mem_free(w->shown);
    mem_free(w->thread);
    return e;
}

static enum err watch_run(const struct opt_args *args, struct errmsg *why)
{
    struct watch w = {.failed = ERR_OK};
    enum err e;

    e = read_options(&w, args, why);
    if (!e) {
        e = agent_cmd_settings(&w.conf, args, why);
    }
    if (!e) {
        w.conf.period_ns = w.interval_ns;
        e = run(&w, why);
        agent_conf_fini(&w.conf);
    }
    return e;
}
