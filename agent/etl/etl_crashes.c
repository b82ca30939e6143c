/* The rules. A process crashed when its exit code is one that an unhandled exception leaves: of the
 * severity "error" (0xc0000000 on), an exception of the CLR or of C++ (0xe…), a breakpoint, or a
 * failure of the CLR's engine; ends by Ctrl-C and at logging off are none. Or when Windows Error
 * Reporting was started for it: WerFault.exe or WerFaultSecure.exe with `-p PID` while it lived. */
#include "agent/etl/etl_crashes.h"

#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_instances.h"
#include "agent/etl/etl_range.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/lab/ended.h"

enum { FILE_NAME, PID, NAME, EXIT, STATUS, REPORT, STARTED, ENDED, COMMAND, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [PID] = {"pid", "PID", TABLE_ID},
    [NAME] = {"name", "NAME", TABLE_TEXT},
    [EXIT] = {"exit_code", "EXIT", TABLE_EXIT},
    [STATUS] = {"status", "STATUS", TABLE_WORD},
    [REPORT] = {"reported_by", "REPORT", TABLE_ID},
    [STARTED] = {"start_time", "START", TABLE_TIME},
    [ENDED] = {"end_time", "END", TABLE_TIME},
    [COMMAND] = {"command_line", "COMMAND", TABLE_TEXT},
};

/* Of "… -p 1234 …"; false: there is none. */
static bool reported_pid(const struct proc_info *i, uint32_t *pid)
{
    char text[512];
    const char *at;
    uint64_t v = 0;
    size_t n = i->command_line.n < sizeof text - 1 ? i->command_line.n : sizeof text - 1;

    if (!glob_match(str_make("WerFault*.exe"), i->name)) {
        return false;
    }
    memcpy(text, i->command_line.p ? i->command_line.p : "", n);
    text[n] = '\0';
    at = strstr(text, " -p ");
    if (!at) {
        return false;
    }
    for (at += 4; *at >= '0' && *at <= '9' && v <= UINT32_MAX; at++) {
        v = 10 * v + (uint64_t)(*at - '0');
    }
    *pid = (uint32_t)v;
    return v != 0 && v <= UINT32_MAX;
}

static int64_t begin_of(const struct instance *p)
{
    return p->info.have & INFO_CREATE_TIME ? p->info.create_ns : p->life.first_wall_ns;
}

struct report {
    uint32_t about; /* a process id */
    const struct instance *by;
};

static int by_about_and_begin(const void *pa, const void *pb)
{
    const struct report *a = pa, *b = pb;

    if (a->about != b->about) {
        return a->about < b->about ? -1 : 1;
    }
    return (begin_of(a->by) > begin_of(b->by)) - (begin_of(a->by) < begin_of(b->by));
}

/* What each process reported, sorted. NULL: no memory. */
static struct report *reports_list(struct instance *const *all, size_t n, size_t *n_reports)
{
    struct report *list = mem_array(n + 1, sizeof *list);

    *n_reports = 0;
    for (size_t i = 0; i < n && list; i++) {
        if (reported_pid(&all[i]->info, &list[*n_reports].about)) {
            list[(*n_reports)++].by = all[i];
        }
    }
    if (list && *n_reports) {
        qsort(list, *n_reports, sizeof *list, by_about_and_begin);
    }
    return list;
}

/* The first report about the process while it lived, or NULL. */
static const struct instance *report_of(const struct report *list, size_t n,
                                        const struct instance *p)
{
    const struct report first = {p->info.id.pid, p};
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (by_about_and_begin(&list[mid], &first) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == n || list[low].about != first.about ||
        ((p->info.have & INFO_EXITED) && begin_of(list[low].by) > p->info.exit_ns)) {
        return NULL;
    }
    return list[low].by;
}

static enum err put_row(struct table *sheet, const char *file, const struct instance *p,
                        const struct instance *report)
{
    const struct proc_info *i = &p->info;
    bool exited = i->have & INFO_EXIT_CODE;
    struct table_cell cells[COLUMNS];

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(true, i->id.pid);
    cells[NAME] = table_string(i->name);
    cells[EXIT] = table_number(exited, i->exit_code);
    cells[STATUS] = table_string(str_make(exited ? ended_name(i->exit_code, false) : NULL));
    cells[REPORT] = table_number(report != NULL, report ? report->info.id.pid : 0);
    cells[STARTED] = table_number(i->have & INFO_CREATE_TIME, i->create_ns);
    cells[ENDED] = table_number(i->have & INFO_EXITED, i->exit_ns);
    cells[COMMAND] = table_string(i->command_line);
    return table_row(sheet, cells);
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    (void)ctx;
    (void)r;
}

static enum err crashes_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_range *range = ctx;
    struct etl_walk_conf conf = {.progress = true, .record = on_record, .ctx = range};
    const char *file = etl_job_part_name(job, part);
    struct instance **all = NULL;
    struct report *reports = NULL;
    size_t n = 0, n_reports = 0, shown = 0;
    struct etl_walk *w;
    enum err e;

    etl_range_limit(range, &conf);
    if (etl_job_open(job, part, &conf, &w) != ERR_OK) {
        return ERR_OK; /* the job knows */
    }
    (void)etl_job_walk(job, w);
    e = etl_walk_list(w, &all, &n);
    if (!e) {
        reports = reports_list(all, n, &n_reports);
        e = reports ? ERR_OK : ERR_NOMEM;
    }
    for (size_t i = 0; i < n && !e && etl_job_out_ok(job); i++) {
        const struct instance *report = report_of(reports, n_reports, all[i]);
        bool fault = (all[i]->info.have & INFO_EXIT_CODE) &&
                     ended_by_code(all[i]->info.exit_code, false) == ENDED_CRASH;

        if ((fault || report) && etl_range_process(range, all[i]->info.id.pid, all[i]) &&
            etl_range_lived(range, w, all[i])) {
            e = put_row(sheet, file, all[i], report);
            shown++;
        }
    }
    if (!e && n == 0) {
        etl_job_note(sheet, file, "no processes are recorded" ETL_JOB_PROVIDERS);
    } else if (!e && shown == 0) {
        etl_job_note(sheet, file, "no process ended by a fault, as far as %zu processes say", n);
    }
    mem_free(reports);
    mem_free(all);
    etl_walk_close(w);
    return e;
}

enum err etl_crashes_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"START", "REPORT", "FILE", NULL};
    struct etl_range range = {.by_pid = false};
    const struct etl_job_list list = {columns,         COLUMNS,      yields,
                                      "the processes", crashes_part, &range};
    enum err e = etl_range_parse(&range, job, why);

    return e ? e : etl_job_rows(job, &list, why);
}
