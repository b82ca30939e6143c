/* `etl summary`: everything that can be counted in a recording. */
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_figures.h"
#include "agent/etl/etl_processes.h"
#include "agent/etl/etl_range.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define TOP_KINDS     12
#define TOP_PROCESSES 10

struct etl_summary {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_figures *figures;
    const char *name;
    size_t n_files;
    bool complete;
};

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_summary *s = ctx;

    if (!r->meant) {
        return;
    }
    etl_figures_record(s->figures, s->walk, r);
}

/* -- JSON: what is not among the common figures -- */

static void put_decode(struct jsonw *j, const struct etl_summary *s)
{
    struct decode_counts d;
    struct describe_stats schemas = {0};

    etl_walk_decode_stats(s->walk, &d);
    jsonw_object(j, "decode");
    jsonw_uint(j, "records", d.in);
    jsonw_uint(j, "decoded", d.decoded);
    jsonw_uint(j, "of_no_interest", d.ignored);
    jsonw_uint(j, "without_decoder", d.unknown);
    jsonw_uint(j, "corrupt", d.corrupt);
    jsonw_end(j);
    if (s->walk->describe) {
        describe_stats(s->walk->describe, &schemas);
        jsonw_object(j, "schemas");
        jsonw_uint(j, "known", schemas.schemas);
        jsonw_uint(j, "refused", schemas.refused);
        jsonw_uint(j, "damaged", schemas.damaged);
        jsonw_end(j);
    }
}

/* Reached limits: zero unless a recording is larger than the tables. */
static void put_dropped(struct jsonw *j, const struct etl_summary *s)
{
    const struct instances_stats *t = instances_stats(s->walk->table);
    const struct etl_figures *f = s->figures;

    jsonw_object(j, "over_limits");
    jsonw_uint(j, "kinds_of_events", etl_kinds_dropped(f->kinds));
    jsonw_uint(j, "pids", etl_pids_dropped(f->pids));
    jsonw_uint(j, "processes", etl_instances_dropped(f->instances) + t->full);
    jsonw_uint(j, "threads", t->threads_full);
    jsonw_uint(j, "texts", t->text_full);
    jsonw_uint(j, "listed_records", f->dropped);
    jsonw_end(j);
}

/* What kinds of records the recording has: where one is missing, zeros mean "not recorded". */
static void put_coverage(struct jsonw *j, const struct etl_figures *f)
{
    const struct {
        const char *key;
        uint8_t class, first, last; /* opcodes */
    } all[] = {{"process_starts", ETL_KINDS_PROCESS, 1, 1},
               {"processes_at_begin", ETL_KINDS_PROCESS, 3, 3},
               {"processes_at_end", ETL_KINDS_PROCESS, 4, 4},
               {"thread_starts", ETL_KINDS_THREAD, 1, 1},
               {"threads_at_begin", ETL_KINDS_THREAD, 3, 3},
               {"threads_at_end", ETL_KINDS_THREAD, 4, 4},
               {"context_switches", ETL_KINDS_THREAD, 36, 36},
               {"ready_threads", ETL_KINDS_THREAD, 50, 50},
               {"samples", ETL_KINDS_PERF_INFO, 46, 46},
               {"interrupts", ETL_KINDS_PERF_INFO, 66, 69},
               {"images", ETL_KINDS_IMAGE, 2, 10},
               {"disk", ETL_KINDS_DISK_IO, 10, 11},
               {"soft_faults", ETL_KINDS_PAGE_FAULT, 10, 15},
               {"hard_faults", ETL_KINDS_PAGE_FAULT, 32, 32},
               {"files", ETL_KINDS_FILE_IO, 64, 83},
               {"tcp", ETL_KINDS_TCP_IP, 10, 34},
               {"udp", ETL_KINDS_UDP_IP, 10, 34},
               {"stacks", ETL_KINDS_STACK_WALK, 32, 38}};

    jsonw_object(j, "coverage");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t n = 0;

        for (unsigned op = all[i].first; op <= all[i].last; op++) {
            n += f->counts[all[i].class][op];
        }
        jsonw_bool(j, all[i].key, n > 0);
    }
    jsonw_end(j);
}

static void put_lifecycle(struct jsonw *j, const struct etl_walk *w)
{
    const struct lifecycle_stats *l = lifecycle_stats(w->life);

    jsonw_object(j, "lifecycle");
    jsonw_uint(j, "starts", l->starts);
    jsonw_uint(j, "stops", l->stops);
    jsonw_uint(j, "inferred_starts", l->inferred_starts);
    jsonw_uint(j, "inferred_stops", l->inferred_stops);
    jsonw_uint(j, "defunct", l->defunct);
    jsonw_uint(j, "without_owner", l->no_owner);
    jsonw_end(j);
}

static void put_tally(struct jsonw *j, const struct counters *t)
{
    size_t n;
    const struct etl_processes_key *keys = etl_processes_keys(&n);

    for (size_t i = 1; i <= COUNTERS_COUNT; i++) { /* 0 is cpu_time; sums come behind */
        int64_t v = etl_processes_value_of_tally(t, i);

        if (v && table_is_wide(keys[i].unit)) {
            jsonw_wide(j, keys[i].name, (uint64_t)v);
        } else if (v) {
            jsonw_int(j, keys[i].name, v);
        }
    }
}

static void put_provider_names(struct jsonw *j, const struct etl_figures *f)
{
    char guid[UUID_TEXT];
    size_t n;
    const struct etl_kinds_provider *p = etl_kinds_providers(f->kinds, &n);

    jsonw_object(j, "provider_names");
    for (size_t i = 0; i < n; i++) {
        if (p[i].name[0]) {
            jsonw_text(j, value_text_guid(guid, p[i].guid), str_make(p[i].name));
        }
    }
    jsonw_end(j);
}

static void put_utc(struct jsonw *j, const char *key, int64_t utc_ns)
{
    char text[CLK_TEXT];

    jsonw_text(j, key, str_make(clk_format_utc(text, sizeof text, utc_ns, 6)));
}

static void put_instance(struct jsonw *j, const struct instance *p)
{
    static const char *const origins[] = {"unknown", "start", "rundown", "snapshot", "inferred"};
    int64_t cpu;

    jsonw_object(j, NULL);
    jsonw_uint(j, "pid", p->info.id.pid);
    jsonw_wide(j, "start", p->info.id.start);
    jsonw_text(j, "name", p->info.name);
    jsonw_text(j, "origin",
               str_make(p->info.origin < sizeof origins / sizeof origins[0]
                            ? origins[p->info.origin]
                            : origins[0]));
    if (p->info.have & INFO_CREATE_TIME) {
        put_utc(j, "create_time", p->info.create_ns);
    }
    if (p->info.have & INFO_EXIT_TIME) {
        put_utc(j, "exit_time", p->info.exit_ns);
    }
    if (etl_processes_value(p, 0, &cpu)) {
        jsonw_wide(j, "cpu_time", (uint64_t)cpu);
        jsonw_text(j, "cpu_time_origin", str_make(etl_processes_cpu_origin(p)));
    }
    put_tally(j, &p->tally);
    jsonw_end(j);
}

static enum err put_instances(struct jsonw *j, const struct etl_walk *w)
{
    struct instance **all;
    size_t n;
    enum err e = etl_walk_list(w, &all, &n);

    if (e) {
        return e;
    }
    jsonw_array(j, "instances");
    for (size_t i = 0; i < n; i++) {
        put_instance(j, all[i]);
    }
    jsonw_end(j);
    mem_free(all);
    return ERR_OK;
}

static enum err put_own(struct jsonw *j, const struct etl_summary *s)
{
    enum err e;

    jsonw_object(j, "procfleet");
    jsonw_bool(j, "complete", s->complete);
    put_utc(j, "reached", s->walk->reached_ns);
    jsonw_text(j, "system", str_make(s->walk->source->about.system));
    jsonw_array(j, "files");
    for (size_t i = 0; i < s->n_files; i++) {
        jsonw_text(j, NULL, str_make(s->walk->census[i].path));
    }
    jsonw_end(j);
    etl_figures_json_loss(j, s->walk);
    put_coverage(j, s->figures);
    put_decode(j, s);
    put_lifecycle(j, s->walk);
    put_dropped(j, s);
    put_provider_names(j, s->figures);
    jsonw_object(j, "unattributed");
    put_tally(j, aggregate_unattributed(s->walk->aggregate));
    jsonw_end(j);
    e = put_instances(j, s->walk);
    jsonw_end(j);
    return e;
}

static enum err print_json(struct jsonw *j, const struct etl_summary *s)
{
    enum err e;

    jsonw_object(j, NULL);
    e = etl_figures_json(j, s->figures, s->walk, s->n_files);
    if (!e) {
        e = put_own(j, s);
    }
    jsonw_end(j);
    return e;
}

/* -- for people -- */

static void print_span(FILE *to, const struct etl_summary *s)
{
    const struct source_about *a = &s->walk->source->about;
    int64_t first_ns = s->walk->in_part ? s->walk->part_from_ns : a->first_wall_ns;
    char from[CLK_TEXT], until[CLK_TEXT];
    struct buf b;

    buf_init(&b, 256);
    humanize_ns(&b, clk_sub(s->walk->reached_ns, first_ns));
    fprintf(to, "time      %s to %s, %s\n", clk_format_utc(from, sizeof from, first_ns, 3),
            clk_format_utc(until, sizeof until, s->walk->reached_ns, 3), buf_cstr(&b));
    buf_fini(&b);
}

static void print_head(FILE *to, const struct etl_summary *s)
{
    const struct etl_figures *f = s->figures;
    const struct instances_stats *t = instances_stats(s->walk->table);
    const struct lifecycle_stats *l = lifecycle_stats(s->walk->life);
    struct buf line;

    buf_init(&line, 64u << 10);
    humanize_text(&line, str_make(s->name));
    fprintf(to, "file      %s", buf_cstr(&line));
    if (s->n_files > 1) {
        fprintf(to, " and %zu more", s->n_files - 1);
    }
    fprintf(to, "\nsystem    %s, CPUs: %u\n", s->walk->source->about.system,
            s->walk->source->about.cpus);
    print_span(to, s);
    fprintf(to, "records   %llu\n", (unsigned long long)f->records);
    buf_reset(&line);
    etl_figures_loss(&line, s->walk);
    fprintf(to, "loss      %s\n", buf_cstr(&line));
    buf_fini(&line);
    if (t->running + t->ended == 0) {
        fputs("processes not recorded\n", to);
        return;
    }
    fprintf(to, "processes %llu started, %llu ended, %zu known\n", (unsigned long long)l->starts,
            (unsigned long long)l->stops, t->running + t->ended);
}

/* The next of the kinds by falling count: few are shown, so the list is not sorted. */
static const struct etl_kinds_event *next_kind(const struct etl_kinds_event *all, size_t n,
                                               const struct etl_kinds_event *last)
{
    const struct etl_kinds_event *best = NULL;

    for (size_t i = 0; i < n; i++) {
        bool below =
            !last || all[i].count < last->count || (all[i].count == last->count && &all[i] > last);

        if (below && (!best || all[i].count > best->count)) {
            best = &all[i];
        }
    }
    return best;
}

static enum err print_kinds(const struct etl_summary *s)
{
    static const struct table_column columns[] = {{"count", "RECORDS", TABLE_COUNT},
                                                  {"provider", "PROVIDER", TABLE_TEXT},
                                                  {"id", "ID", TABLE_ID},
                                                  {"opcode", "OPCODE", TABLE_ID},
                                                  {"version", "VERSION", TABLE_ID},
                                                  {"name", "NAME", TABLE_TEXT}};
    static const char *const yields[] = {"VERSION", "OPCODE", NULL};
    const struct etl_kinds_event *last = NULL;
    const struct etl_kinds_provider *providers;
    char guid[UUID_TEXT];
    struct table *sheet;
    size_t n, n_providers;
    const struct etl_kinds_event *all = etl_kinds_events(s->figures->kinds, &n);
    enum err e = etl_job_table(s->job, &sheet, TABLE_AS_TABLE, columns, 6, yields);

    if (e) {
        return e;
    }
    providers = etl_kinds_providers(s->figures->kinds, &n_providers);
    for (size_t i = 0; i < TOP_KINDS && !e; i++) {
        const struct etl_kinds_event *k = next_kind(all, n, last);
        const struct etl_kinds_provider *p = k ? &providers[k->provider] : NULL;
        struct table_cell cells[6];

        if (!k) {
            break;
        }
        cells[0] = table_number(true, (int64_t)k->count);
        cells[1] = table_string(str_make(p->name[0] ? p->name : value_text_guid(guid, p->guid)));
        cells[2] = table_number(k->form != RAW_CLASSIC, k->id);
        cells[3] = table_number(k->form != RAW_MESSAGE, k->opcode);
        cells[4] = table_number(k->form != RAW_MESSAGE, k->version);
        cells[5] = table_string(str_make(k->name));
        e = table_row(sheet, cells);
        last = k;
    }
    table_end(sheet);
    return e;
}

/* The figure to sort by: CPU time, or the first thing that is recorded; false: nothing is. */
static bool telling(uint64_t recorded, size_t *by)
{
    static const char *const order[] = {"cpu_time", "disk", "net", "faults", "image_loads"};
    struct errmsg why;

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (etl_processes_key_find(by, order[i], &why) == ERR_OK && recorded >> *by & 1) {
            return true;
        }
    }
    return false;
}

static enum err put_top(const struct etl_job *job, struct instance **all, size_t n,
                        uint64_t recorded, size_t by)
{
    struct etl_processes_rows *rows;
    enum err e =
        etl_processes_rows_begin(&rows, job, TABLE_AS_TABLE, ETL_PROCESSES_ROWS_TOP, by, false);
    size_t shown = 0;
    int64_t v;

    if (e) {
        return e;
    }
    etl_processes_rows_sort(all, n, by);
    for (size_t i = 0; i < n && shown < TOP_PROCESSES && !e; i++) {
        /* not the idle process */
        if (all[i]->info.id.pid != 0 && etl_processes_value(all[i], by, &v) && v != 0) {
            e = etl_processes_rows_put(rows, "", recorded, all[i]);
            shown++;
        }
    }
    etl_processes_rows_end(rows);
    return e;
}

/* The processes that used most, where that is recorded. */
static enum err print_top(const struct etl_job *job, const struct etl_walk *w)
{
    struct instance **all;
    uint64_t recorded;
    size_t n, by;
    enum err e = etl_walk_list(w, &all, &n);

    if (e) {
        return e;
    }
    recorded = etl_processes_recorded(w, all, n);
    if (telling(recorded, &by)) {
        fputs("\n", job->out);
        e = put_top(job, all, n, recorded, by);
    }
    mem_free(all);
    return e;
}

static enum err print_people(FILE *to, const struct etl_summary *s)
{
    enum err e;

    print_head(to, s);
    fputs("\n", to);
    e = print_kinds(s);
    return e ? e : print_top(s->job, s->walk);
}

/* -- the command -- */

static enum err summarize(struct etl_job *job, size_t part, struct jsonw *j)
{
    struct etl_summary s = {
        .job = job, .name = etl_job_part_name(job, part), .n_files = job->merge ? job->n_files : 1};
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = &s};
    struct etl_range range = {.by_pid = false};
    struct errmsg none;
    enum err e = etl_range_parse(&range, job, &none); /* that it can be is known */

    e = e ? e : etl_figures_create(&s.figures);
    if (e) {
        return e;
    }
    etl_range_limit(&range, &conf);
    if (etl_job_open(job, part, &conf, &s.walk) == ERR_OK) {
        s.complete = etl_job_walk(job, s.walk);
        e = job->format == TABLE_AS_TABLE ? print_people(job->out, &s) : print_json(j, &s);
        if (j->depth == 0 && !j->leaves && job->format != TABLE_AS_TABLE) {
            fputs("\n", job->out);
        }
    }
    etl_figures_destroy(s.figures);
    etl_walk_close(s.walk);
    return e;
}

static enum err summary_run(struct etl_job *job, struct errmsg *why)
{
    struct etl_range range;
    enum err e = etl_range_parse(&range, job, why);

    return e ? e : etl_job_objects(job, "the summary", 2, summarize, why);
}

static const struct opt opts[] = {ETL_RANGE_OPT_TIMES, ETL_JOB_OPTS};

static const struct opt_command summary_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "summary",
    .brief = "count everything in a recording: records, processes, CPU, disk, network",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl summary trace.etl\n"
                "  procfleet-etl summary trace.etl.xz --format json | jq .processes\n"
                "  procfleet-etl summary --merge kernel.etl user.etl\n",
};

const struct etl_command etl_summary_command = {&summary_opts, NULL, summary_run};
