/* `etl info`: what a trace file is: its header, clock, buffers, loss and providers. */
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_figures.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/text/humanize.h"

#define MODE_CIRCULAR   0x00000002u
#define MODE_PRIVATE    0x00000800u
#define MODE_COMPRESSED 0x04000000u

struct etl_info {
    struct etl_kinds *kinds;
    struct etl_walk *walk;
    uint64_t records;
    bool counted;
};

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_info *i = ctx;

    (void)etl_kinds_count(i->kinds, i->walk->describe, r->raw);
    i->records++;
}

/* -- words -- */

static const char *clock_name(uint32_t clock)
{
    switch (clock) {
    case 1:
        return "performance counter";
    case 2:
        return "system time";
    case 3:
        return "CPU cycles";
    default:
        return "unknown";
    }
}

static void put_bytes(struct buf *b, uint64_t bytes)
{
    humanize_bytes(b, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static void put_modes(struct buf *b, uint32_t mode)
{
    buf_printf(b, "0x%x", mode);
    buf_put_str(b, mode & MODE_CIRCULAR ? ", circular" : "");
    buf_put_str(b, mode & MODE_PRIVATE ? ", private to a process" : "");
    buf_put_str(b, mode & MODE_COMPRESSED ? ", compressed" : "");
}

/* -- for people -- */

static void print_line(FILE *to, const char *what, struct buf *b)
{
    struct buf safe;

    buf_init(&safe, 64u << 10);
    humanize_text(&safe, (struct str){(const char *)b->p, b->n});
    fprintf(to, "%-10s%s\n", what, buf_cstr(&safe));
    buf_fini(&safe);
    buf_reset(b);
}

/* The bias is what local time lacks to UTC. */
static void put_zone(struct buf *b, int32_t bias_min)
{
    uint32_t min = bias_min < 0 ? 0u - (uint32_t)bias_min : (uint32_t)bias_min;

    buf_printf(b, ", time zone UTC%c%02u:%02u", bias_min > 0 ? '-' : '+', min / 60, min % 60);
}

static void print_times(FILE *to, struct buf *b, const struct etl_census *c)
{
    char text[CLK_TEXT];

    buf_put_str(b, clk_format_utc(text, sizeof text, clk_from_filetime(c->start_time), 6));
    if (c->end_time >= c->start_time) {
        buf_printf(b, " to %s, ",
                   clk_format_utc(text, sizeof text, clk_from_filetime(c->end_time), 6));
        humanize_ns(b, clk_sub(clk_from_filetime(c->end_time), clk_from_filetime(c->start_time)));
    } else {
        buf_put_str(b, ", not closed properly: its end is not in the header");
    }
    print_line(to, "time", b);
    if (c->boot_time) {
        buf_put_str(b, clk_format_utc(text, sizeof text, clk_from_filetime(c->boot_time), 3));
        put_zone(b, c->time_zone_bias);
        print_line(to, "boot", b);
    }
    buf_printf(b, "%s, %llu ticks a second, timer %llu us", clock_name(c->clock),
               (unsigned long long)c->frequency, (unsigned long long)c->timer_resolution / 10);
    print_line(to, "clock", b);
}

static void print_session(FILE *to, struct buf *b, const struct etl_census *c)
{
    buf_printf(b, "Windows %u.%u.%u, CPUs: %u of %u MHz, %u-bit log", c->version[0], c->version[1],
               c->provider_version, c->cpus, c->cpu_mhz, c->header_bits);
    print_line(to, "system", b);
    buf_printf(b, "\"%s\", written to %s", c->session_name, c->log_file_name);
    print_line(to, "session", b);
    buf_put_str(b, "mode ");
    put_modes(b, c->mode);
    print_line(to, "logging", b);
}

static void print_buffers(FILE *to, struct buf *b, const struct etl_census *c)
{
    unsigned cpus = 0;

    for (unsigned i = 0; i < ETL_CENSUS_CPUS; i++) {
        cpus += c->cpus_seen[i / 8] >> (i % 8) & 1;
    }
    buf_printf(b, "%llu of ", (unsigned long long)c->buffers);
    put_bytes(b, c->buffer_size);
    buf_printf(b, ", %llu compressed; the header says %u were written; CPUs seen: %u",
               (unsigned long long)c->compressed, c->buffers_written, cpus);
    print_line(to, "buffers", b);
}

static void print_loss(FILE *to, struct buf *b, const struct etl_walk *w,
                       const struct etl_census *c)
{
    struct source_stats s;

    etl_walk_source_stats(w, &s);
    etl_figures_loss(b, w);
    if (c->events_lost != s.lost_events || c->buffers_lost != s.lost_buffers) {
        buf_printf(b, "; the header says %u %s, %u %s", c->events_lost,
                   plural(c->events_lost, "event", "events"), c->buffers_lost,
                   plural(c->buffers_lost, "buffer", "buffers"));
    }
    print_line(to, "loss", b);
}

static enum err print_providers(const struct etl_job *job, const struct etl_info *i)
{
    static const struct table_column columns[] = {{"count", "RECORDS", TABLE_COUNT},
                                                  {"guid", "GUID", TABLE_TEXT},
                                                  {"provider", "PROVIDER", TABLE_TEXT}};
    static const char *const yields[] = {"GUID", NULL};
    const struct etl_kinds_provider **all;
    char guid[UUID_TEXT];
    struct table *sheet;
    size_t n;
    enum err e = etl_kinds_sort_providers(i->kinds, &all, &n);

    if (e) {
        return e;
    }
    e = etl_job_table(job, &sheet, TABLE_AS_TABLE, columns, 3, yields);
    if (!e) {
        for (size_t k = 0; k < n && !e; k++) {
            const struct table_cell cells[] = {
                table_number(true, (int64_t)all[k]->count),
                table_string(str_make(value_text_guid(guid, all[k]->guid))),
                table_string(str_make(all[k]->name))};

            e = table_row(sheet, cells);
        }
        table_end(sheet);
    }
    mem_free(all);
    return e;
}

static enum err print_people(const struct etl_job *job, const struct etl_info *i, size_t n_files)
{
    FILE *to = job->out;
    struct buf b;

    buf_init(&b, 16u << 10);
    for (size_t k = 0; k < n_files; k++) {
        const struct etl_census *c = &i->walk->census[k];

        buf_printf(&b, "%s, ", c->path);
        put_bytes(&b, c->file_bytes);
        print_line(to, "file", &b);
        print_session(to, &b, c);
        print_times(to, &b, c);
        print_buffers(to, &b, c);
        print_loss(to, &b, i->walk, c);
    }
    buf_fini(&b);
    if (!i->counted) {
        return ERR_OK;
    }
    fprintf(to, "%-10s%llu\n\n", "records", (unsigned long long)i->records);
    return print_providers(job, i);
}

/* -- JSON -- */

static enum err put_providers(struct jsonw *j, const struct etl_info *i)
{
    const struct etl_kinds_provider **all;
    char guid[UUID_TEXT];
    size_t n;
    enum err e = etl_kinds_sort_providers(i->kinds, &all, &n);

    if (e) {
        return e;
    }
    jsonw_array(j, "providers");
    for (size_t k = 0; k < n; k++) {
        jsonw_object(j, NULL);
        jsonw_text(j, "guid", str_make(value_text_guid(guid, all[k]->guid)));
        if (all[k]->name[0]) {
            jsonw_text(j, "name", str_make(all[k]->name));
        }
        jsonw_uint(j, "records", all[k]->count);
        jsonw_end(j);
    }
    jsonw_end(j);
    mem_free(all);
    return ERR_OK;
}

static enum err print_json(struct jsonw *j, const struct etl_info *i, size_t n_files)
{
    enum err e = ERR_OK;

    jsonw_object(j, NULL);
    jsonw_array(j, "files");
    for (size_t k = 0; k < n_files; k++) {
        const struct etl_census *c = &i->walk->census[k];

        jsonw_object(j, NULL);
        jsonw_text(j, "path", str_make(c->path));
        jsonw_uint(j, "bytes", c->file_bytes);
        etl_figures_json_header(j, c);
        jsonw_end(j);
    }
    jsonw_end(j);
    etl_figures_json_loss(j, i->walk);
    if (i->counted) {
        jsonw_uint(j, "records", i->records);
        e = put_providers(j, i);
    }
    jsonw_end(j);
    return e;
}

/* -- the command -- */

static enum err inform(struct etl_job *job, size_t part, struct jsonw *j)
{
    struct etl_info i = {.counted = !opt_flag(job->args, "header")};
    struct etl_walk_conf conf = {
        .names = i.counted, .progress = true, .record = on_record, .ctx = &i};
    enum err e = etl_kinds_create(&i.kinds);

    if (e) {
        return e;
    }
    if (etl_job_open(job, part, &conf, &i.walk) == ERR_OK) {
        size_t n_files = job->merge ? job->n_files : 1;

        if (i.counted) {
            (void)etl_job_walk(job, i.walk);
        }
        if (job->format == TABLE_AS_TABLE) {
            e = print_people(job, &i, n_files);
        } else {
            e = print_json(j, &i, n_files);
            fputs(j->depth == 0 && !j->leaves ? "\n" : "", job->out);
        }
        etl_walk_close(i.walk);
    }
    etl_kinds_destroy(i.kinds);
    return e;
}

static enum err info_run(struct etl_job *job, struct errmsg *why)
{
    return etl_job_objects(job, "the overview", 3, inform, why);
}

static const struct opt opts[] = {
    {"header", 0, NULL, "only what headers say: no record is read, the largest file takes a moment",
     false},
    ETL_JOB_OPTS};

static const struct opt_command info_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "info",
    .brief = "what a trace file is: system, session, clock, buffers, loss, providers",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl info trace.etl\n"
                "  procfleet-etl info --header *.etl\n"
                "  procfleet-etl info trace.etl.xz --format json\n",
};

const struct etl_command etl_info_command = {&info_opts, NULL, info_run};
