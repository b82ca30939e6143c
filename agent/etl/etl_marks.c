/* `etl marks`: what whoever recorded has marked: the times that --since mark:NAME takes. */
#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_range.h"
#include "common/base/clk.h"
#include "common/text/jsonw.h"

enum { FILE_NAME, MS, TIME, PID, PROCESS, TEXT, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},     [MS] = {"ms", "MS", TABLE_TEXT},
    [TIME] = {"time", "TIME", TABLE_TIME},          [PID] = {"pid", "PID", TABLE_ID},
    [PROCESS] = {"process", "PROCESS", TABLE_TEXT}, [TEXT] = {"text", "TEXT", TABLE_TEXT},
};

struct etl_marks {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct table *sheet;
    const char *file;
    uint64_t shown;
    enum err e;
};

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_marks *m = ctx;
    struct table_cell cells[COLUMNS];
    char ms[JSONW_MS_TEXT];
    const struct instance *p = r->charged;
    struct str text;

    if (!etl_range_takes(&m->range, m->walk, r) || !etl_range_mark(m->walk, r->raw, &text) ||
        !etl_range_process(&m->range, r->raw->pid, p)) {
        return;
    }
    if (!p && r->raw->pid != EVENT_NO_ID) {
        p = instances_owner(m->walk->table, r->raw->pid);
    }
    cells[FILE_NAME] = table_string(str_make(m->file));
    cells[MS] = table_string(str_make(jsonw_ms(ms, clk_sub(r->since_ns, m->range.zero_ns), 6)));
    cells[TIME] = table_number(true, r->raw->wall_ns);
    cells[PID] = table_number(r->raw->pid != EVENT_NO_ID, r->raw->pid);
    cells[PROCESS] = table_string(p ? p->info.name : str_make(""));
    cells[TEXT] = table_string(text);
    m->e = table_row(m->sheet, cells);
    m->shown++;
    if (m->e || !etl_job_out_ok(m->job)) {
        etl_walk_stop(m->walk);
    }
}

static enum err marks_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_marks *m = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = m};

    m->sheet = sheet;
    m->file = etl_job_part_name(job, part);
    m->shown = 0;
    etl_range_begin(&m->range);
    if (etl_job_open(job, part, &conf, &m->walk) == ERR_OK) {
        (void)etl_job_walk(job, m->walk);
        if (m->shown == 0) {
            etl_job_note(sheet, m->file, "no marks are recorded");
        }
        etl_walk_close(m->walk);
    }
    return m->e;
}

static enum err marks_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"TIME", "FILE", NULL};
    struct etl_marks m = {.job = job};
    const struct etl_job_list list = {columns, COLUMNS, yields, "the marks", marks_part, &m};
    enum err e = etl_range_parse(&m.range, job, why);

    return e ? e : etl_job_rows(job, &list, why);
}

static const struct opt opts[] = {ETL_RANGE_OPTS, ETL_JOB_OPT_LIMIT, ETL_JOB_OPTS};

static const struct opt_command marks_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "marks",
    .brief = "list the marks of a recording: times with a name, for --since mark:NAME",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl marks trace.etl\n"
                "  procfleet-etl events trace.etl --since mark:begin --until 'mark:end*'\n",
};

const struct etl_command etl_marks_command = {&marks_opts, NULL, marks_run};
