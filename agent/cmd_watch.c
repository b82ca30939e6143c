/* `procfleet-agent watch`: this machine's processes as they are, without a collector. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_source.h"
#include "agent/cmd.h"
#include "agent/monitor.h"
#include "common/clk.h"
#include "common/glob.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/sheet.h"

#define PIDS_MAX       64
#define NAMES_MAX      64
#define TABLE_ROWS     20
#define INTERVAL_LEAST (100 * CLK_MS)
#define INTERVAL_MOST  (10 * CLK_S)

static const struct opt opts[] = {
    {"pid", 'p', "PID", "only this process; may be repeated", true},
    {"name", 'n', "GLOB", "only processes of this name, such as 'post*'; may be repeated", true},
    {"interval", 'i', "SPAN", "distance of samples, 100ms to 10s, default 1s", false},
    {"for", 0, "SPAN", "end after so long; default: until Ctrl-C", false},
    {"limit", 'l', "N", "rows of a sample, most CPU time first; default 20 in a table, else all",
     false},
    {"format", 'f', "FORMAT", "table (default), jsonl or csv", false},
    CMD_CONF_OPTS,
};

const struct opt_command cmd_watch_opts = {
    .program = "procfleet-agent",
    .name = "watch",
    .brief = "show the processes of this machine as they run, without a collector",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-agent watch\n"
                "  procfleet-agent watch --name 'post*' --interval 500ms\n"
                "  procfleet-agent watch --pid 4711 --for 60s --format csv > usage.csv\n",
};

/* -- columns -- */

enum { COL_TIME, COL_PID, COL_NAME, COL_CPU, COL_METRICS };

static const unsigned metrics[] = {M_CPU_TIME,     M_WORKING_SET_SIZE, M_PRIVATE_BYTES,
                                   M_THREAD_COUNT, M_HANDLE_COUNT,     M_READ_BYTES,
                                   M_WRITE_BYTES};

#define METRICS     (sizeof metrics / sizeof *metrics)
#define COL_ENDED   (COL_METRICS + METRICS)
#define COL_COMMAND (COL_ENDED + 1)
#define COLUMNS     (COL_COMMAND + 1)

static const struct sheet_column columns[COLUMNS] = {
    {"time", "TIME", SHEET_TIME},
    {"pid", "PID", SHEET_ID},
    {"name", "NAME", SHEET_TEXT},
    {"cpu_percent", "CPU", SHEET_PERMILLE},
    {"cpu_time", "CPU TIME", SHEET_NS},
    {"working_set_size", "MEMORY", SHEET_BYTES},
    {"private_bytes", "PRIVATE", SHEET_BYTES},
    {"thread_count", "THR", SHEET_COUNT},
    {"handle_count", "HANDLES", SHEET_COUNT},
    {"read_bytes", "READ", SHEET_BYTES},
    {"write_bytes", "WRITTEN", SHEET_BYTES},
    {"exited", "ENDED", SHEET_FLAG},
    {"command_line", NULL, SHEET_TEXT},
};

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
    uint32_t pids[PIDS_MAX];
    size_t n_names, n_pids, limit;
    int64_t interval_ns, for_ns, end_ns;
    enum sheet_format format;
    struct monitor *monitor;
    struct filter *filter;
    struct sheet *sheet;
    struct before *before; /* by pid, then start */
    struct before *now;
    size_t n_before;
    struct shown *shown;
    enum err failed;
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

static bool is_wanted(const struct watch *w, const struct proc_info *info)
{
    bool wanted = w->n_pids + w->n_names == 0;

    for (size_t i = 0; i < w->n_pids; i++) {
        wanted = wanted || w->pids[i] == info->id.pid;
    }
    for (size_t i = 0; i < w->n_names; i++) {
        wanted = wanted || glob_match(str_make(w->names[i]), info->name);
    }
    return wanted;
}

static int64_t share(const struct watch *w, const struct sample_row *row, int64_t mono_ns)
{
    struct before key = {.id = row->info->id};
    const struct before *b = NULL;

    if (w->n_before > 0 && (row->mask & METRIC_BIT(M_CPU_TIME))) {
        b = bsearch(&key, w->before, w->n_before, sizeof key, by_id);
    }
    if (!b || mono_ns <= b->mono_ns) {
        return -1;
    }
    return (row->values[M_CPU_TIME] - b->cpu_ns) * 1000 / (mono_ns - b->mono_ns);
}

/* -- a sample -- */

static enum err put_row(struct watch *w, const struct shown *s, int64_t wall_ns)
{
    struct sheet_cell cells[COLUMNS];
    struct proc_info info;

    filter_info(w->filter, s->row->info, &info);
    cells[COL_TIME] = sheet_number(true, wall_ns);
    cells[COL_PID] = sheet_number(true, info.id.pid);
    cells[COL_NAME] = sheet_string(info.name);
    cells[COL_CPU] = sheet_number(s->permille >= 0, s->permille);
    for (size_t i = 0; i < METRICS; i++) {
        cells[COL_METRICS + i] =
            sheet_number((s->row->mask & METRIC_BIT(metrics[i])) != 0, s->row->values[metrics[i]]);
    }
    cells[COL_ENDED] = sheet_number((info.have & INFO_EXITED) != 0, 1);
    cells[COL_COMMAND] = sheet_string(info.command_line);
    return sheet_row(w->sheet, cells);
}

static void remember(struct watch *w, const struct sample_tick *tick)
{
    struct before *swap = w->before;
    size_t n = 0;

    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];

        if (row->mask & METRIC_BIT(M_CPU_TIME)) {
            w->now[n++] = (struct before){row->info->id, row->values[M_CPU_TIME], tick->mono_ns};
        }
    }
    qsort(w->now, n, sizeof *w->now, by_id);
    w->before = w->now;
    w->now = swap;
    w->n_before = n;
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct watch *w = ctx;
    size_t n = 0;

    if (w->done) {
        return;
    }
    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];

        if (is_wanted(w, row->info)) {
            w->shown[n++] = (struct shown){row, share(w, row, tick->mono_ns)};
        }
    }
    qsort(w->shown, n, sizeof *w->shown, by_use);
    for (size_t i = 0; i < n && i < w->limit && !w->failed; i++) {
        w->failed = put_row(w, &w->shown[i], tick->wall_ns);
    }
    if (!w->failed && ferror(stdout)) {
        w->failed = errno == EPIPE ? ERR_END : ERR_IO; /* who went away, as `head`, is no failure */
    }
    remember(w, tick);
    if (w->failed || cmd_stopped() || (w->for_ns > 0 && os_mono_ns() >= w->end_ns)) {
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

static enum err read_number(unsigned long *out, const char *name, const char *text,
                            struct errmsg *why)
{
    char *end;

    *out = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || *out > UINT32_MAX) {
        return errmsg_set(why, ERR_USAGE, "--%s: '%s' is not a number", name, text);
    }
    return ERR_OK;
}

static enum err read_format(struct watch *w, const char *text, struct errmsg *why)
{
    if (!text || strcmp(text, "table") == 0) {
        w->format = SHEET_AS_TABLE;
    } else if (strcmp(text, "jsonl") == 0) {
        w->format = SHEET_AS_JSONL;
    } else if (strcmp(text, "csv") == 0) {
        w->format = SHEET_AS_CSV;
    } else {
        return errmsg_set(why, ERR_USAGE, "--format: '%s' is not table, jsonl or csv", text);
    }
    return ERR_OK;
}

static enum err read_who(struct watch *w, const struct opt_args *args, struct errmsg *why)
{
    const char *pids[PIDS_MAX], *limit = opt_value(args, "limit");
    unsigned long number;
    enum err e = ERR_OK;

    w->n_names = opt_values(args, "name", w->names, NAMES_MAX);
    w->n_pids = opt_values(args, "pid", pids, PIDS_MAX);
    for (size_t i = 0; i < w->n_pids && !e; i++) {
        e = read_number(&number, "pid", pids[i], why);
        w->pids[i] = (uint32_t)number;
    }
    w->limit = w->format == SHEET_AS_TABLE ? TABLE_ROWS : SIZE_MAX;
    if (!e && limit) {
        e = read_number(&number, "limit", limit, why);
        w->limit = number;
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

static enum err open_source(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct watch *w = ctx;
    struct agent_source_conf live = {
        .name = w->conf.source, .period_ns = w->interval_ns, .processes_max = MODEL_PROCESSES_MAX};

    return agent_source_open_live(out, &live, sink, why);
}

static enum err open_parts(struct watch *w, struct errmsg *why)
{
    struct monitor_conf conf = {.open = open_source,
                                .open_ctx = w,
                                .period_ns = w->interval_ns,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .tick = on_tick,
                                .life = on_life,
                                .ctx = w};
    enum err e = filter_create(&w->filter, &w->conf.filter);

    w->before = mem_array(MODEL_PROCESSES_MAX, sizeof *w->before);
    w->now = mem_array(MODEL_PROCESSES_MAX, sizeof *w->now);
    w->shown = mem_array(MODEL_PROCESSES_MAX, sizeof *w->shown);
    if (!e && (!w->before || !w->now || !w->shown)) {
        e = ERR_NOMEM;
    }
    if (!e) {
        e = sheet_begin(&w->sheet, stdout, w->format, true, columns, COLUMNS);
    }
    return e ? errmsg_set(why, e, "out of memory") : monitor_create(&w->monitor, &conf, why);
}

static enum err run(struct watch *w, struct errmsg *why)
{
    enum err e = open_parts(w, why);

    if (!e) {
        e = cmd_catch_stop(why);
    }
    if (!e) {
        w->end_ns = clk_add(os_mono_ns(), w->for_ns);
        e = monitor_run(w->monitor);
    }
    if (!e && w->failed && w->failed != ERR_END) {
        e = errmsg_set(why, w->failed, "the output could not be written");
    }
    monitor_destroy(w->monitor);
    sheet_end(w->sheet);
    filter_destroy(w->filter);
    mem_free(w->before);
    mem_free(w->now);
    mem_free(w->shown);
    return e;
}

int cmd_watch(int argc, char **argv)
{
    struct watch w = {.n_pids = 0};
    struct opt_args *args;
    struct errmsg why = {""};
    enum err e;
    int code;

    cmd_parse(&args, &code, &cmd_watch_opts, argc, argv);
    if (!args) {
        return code;
    }
    e = read_options(&w, args, &why);
    if (!e) {
        e = cmd_settings(&w.conf, args, &why);
    }
    if (!e) {
        e = run(&w, &why);
        agent_conf_fini(&w.conf);
    }
    opt_free(args);
    return e ? cmd_fail(e, why.text) : CMD_OK;
}
