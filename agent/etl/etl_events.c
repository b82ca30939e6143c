/* `etl events`: records one by one, with their values by name where anything knows them. */
#include <stdlib.h>

#include "agent/decode/schema/etw_manifest.h"
#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_kinds.h"
#include "agent/etl/etl_range.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/plural.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"
#include "common/text/value_text.h"

/* -- which records are shown: by provider, event, process, thread and time -- */

struct filter {
    struct str provider; /* glob; empty: any */
    bool by_guid;        /* `provider` was a GUID */
    uint8_t guid[16];
    struct str event; /* glob; empty: any */
    bool by_number;   /* `event` was an id or opcode */
    uint16_t number;
    bool by_pid, by_tid;
    uint32_t pid, tid;
    struct etl_range range;
};

static bool parse_number(uint16_t *v, const char *text)
{
    uint64_t n;

    if (opt_number(&n, text, UINT16_MAX) != ERR_OK) {
        return false;
    }
    *v = (uint16_t)n;
    return true;
}

static enum err filter_parse(struct filter *p, const struct etl_job *job, struct errmsg *why)
{
    const char *provider = opt_value(job->args, "provider"), *event = opt_value(job->args, "event");
    enum err e;

    *p = (struct filter){.provider = str_make(provider), .event = str_make(event)};
    p->by_guid = provider && etw_manifest_guid(p->guid, provider);
    p->by_number = event && parse_number(&p->number, event);
    e = etl_job_id(job, "pid", &p->by_pid, &p->pid, why);
    if (!e) {
        e = etl_job_id(job, "tid", &p->by_tid, &p->tid, why);
    }
    if (!e) {
        e = etl_range_parse(&p->range, job, why);
    }
    return e;
}

/* Whether names are needed to decide. */
static bool filter_by_name(const struct filter *p)
{
    return (p->provider.n && !p->by_guid) || (p->event.n && !p->by_number);
}

/* Process and thread that a record is about: of the payload where it says so, else of the header;
 * EVENT_NO_ID = unknown. */
static uint32_t filter_pid(const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;

    if (ev) {
        switch (ev->kind) {
        case EV_PROC_START:
        case EV_PROC_STOP:
        case EV_PROC_FOUND:
        case EV_PROC_LAST:
        case EV_PROC_DEFUNCT:
            return ev->u.proc.info.id.pid;
        case EV_THREAD_START:
        case EV_THREAD_STOP:
        case EV_THREAD_FOUND:
        case EV_THREAD_LAST:
        case EV_THREAD_NAME:
            return ev->u.thread.pid;
        case EV_IMAGE_LOAD:
        case EV_IMAGE_UNLOAD:
        case EV_IMAGE_FOUND:
        case EV_IMAGE_LAST:
            return ev->u.image.pid;
        case EV_PROC_COUNTERS:
            return ev->u.counters.pid;
        case EV_NET:
            return ev->u.net.pid;
        case EV_STACK:
            return ev->u.stack.pid;
        default:
            break;
        }
    }
    return r->charged ? r->charged->info.id.pid : r->raw->pid;
}

static uint32_t filter_tid(const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;

    if (ev) {
        switch (ev->kind) {
        case EV_THREAD_START:
        case EV_THREAD_STOP:
        case EV_THREAD_FOUND:
        case EV_THREAD_LAST:
        case EV_THREAD_NAME:
            return ev->u.thread.tid;
        case EV_CPU_SAMPLE:
            return ev->u.sample.tid;
        case EV_CPU_PMC:
            return ev->u.pmc.tid;
        case EV_CSWITCH:
            return ev->u.cswitch.new_tid;
        case EV_READY:
            return ev->u.ready.tid;
        case EV_HARD_FAULT:
            return ev->u.hard_fault.tid;
        case EV_DISK_READ:
        case EV_DISK_WRITE:
            return ev->u.disk.issuer_tid != EVENT_NO_ID ? ev->u.disk.issuer_tid : r->raw->tid;
        case EV_STACK:
            return ev->u.stack.tid;
        default:
            break;
        }
    }
    return r->raw->tid;
}

/* The header's ids count as well as the payload's: of the process that acts and of the one that the
 * record is about. */
static bool filter_matches(const struct filter *p, const struct etl_walk_record *r)
{
    const struct raw_event *raw = r->raw;

    if (p->by_guid && memcmp(p->guid, raw->guid, sizeof p->guid) != 0) {
        return false;
    }
    if (p->by_number && p->number != (raw->form == RAW_CLASSIC ? raw->opcode : raw->id)) {
        return false;
    }
    if (p->by_pid && raw->pid != p->pid && filter_pid(r) != p->pid) {
        return false;
    }
    return !p->by_tid || raw->tid == p->tid || filter_tid(r) == p->tid;
}

/* "Start", "Process/Start": with and without the task. */
static bool event_matches(struct str pattern, const struct described *is)
{
    char both[256];
    size_t task = is->task.n < 120 ? is->task.n : 120, name = is->name.n < 120 ? is->name.n : 120;

    if (glob_match(pattern, is->name) || (is->task.n && glob_match(pattern, is->task))) {
        return true;
    }
    if (!is->task.n || !is->name.n) {
        return false;
    }
    memcpy(both, is->task.p, task);
    both[task] = '/';
    memcpy(both + task + 1, is->name.p, name);
    return glob_match(pattern, (struct str){both, task + 1 + name});
}

static bool filter_matches_name(const struct filter *p, const struct described *is)
{
    if (p->provider.n && !p->by_guid && !glob_match(p->provider, is->provider)) {
        return false;
    }
    return !p->event.n || p->by_number || event_matches(p->event, is);
}

#define LINE_MAX     (4u << 20) /* values of one record as text; what is longer is not shown */
#define PAYLOAD_SHOW 64         /* bytes of an unknown payload in text */

enum {
    FILE_NAME,
    TIME,
    MS,
    CPU,
    PID,
    TID,
    PROCESS,
    PROVIDER,
    GUID,
    KIND,
    ID,
    OPCODE,
    VERSION,
    LEVEL,
    TASK,
    EVENT,
    FIELDS,
    PAYLOAD,
    COLUMNS,
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [TIME] = {"time", "TIME", TABLE_TEXT},
    [MS] = {"ms", "MS", TABLE_TEXT},
    [CPU] = {"cpu", "CPU", TABLE_ID},
    [PID] = {"pid", "PID", TABLE_ID},
    [TID] = {"tid", "TID", TABLE_ID},
    [PROCESS] = {"process", "PROCESS", TABLE_TEXT},
    [PROVIDER] = {"provider", "PROVIDER", TABLE_TEXT},
    [GUID] = {"guid", "GUID", TABLE_TEXT},
    [KIND] = {"kind", "KIND", TABLE_TEXT},
    [ID] = {"id", "ID", TABLE_ID},
    [OPCODE] = {"opcode", "OPCODE", TABLE_ID},
    [VERSION] = {"version", "VERSION", TABLE_ID},
    [LEVEL] = {"level", "LEVEL", TABLE_ID},
    [TASK] = {"task", "TASK", TABLE_TEXT},
    [EVENT] = {"event", "EVENT", TABLE_TEXT},
    [FIELDS] = {"fields", "FIELDS", TABLE_TEXT},
    [PAYLOAD] = {"payload", "PAYLOAD", TABLE_TEXT},
};

struct etl_events {
    struct etl_job *job;
    struct etl_walk *walk;
    struct filter pick;
    uint64_t left; /* still to be shown */
    uint64_t read, shown;
    const char *name;
    bool several;
    struct jsonw json;
    struct table *csv;
    struct buf line, hex;
    enum err e; /* of printing; ends the walk */
};

/* -- what all formats show -- */

static struct str process_name(const struct etl_events *s, uint32_t pid)
{
    const struct instance *p = NULL;
    struct str none = {"", 0};

    if (pid != EVENT_NO_ID) {
        p = instances_owner(s->walk->table, pid);
    }
    return p ? p->info.name : none;
}

static bool numbered(const struct raw_event *raw)
{
    return raw->form != RAW_CLASSIC;
}

/* -- text -- */

static void put_id(struct buf *b, const char *what, uint32_t id)
{
    if (id == EVENT_NO_ID) {
        buf_printf(b, " %s -", what);
    } else {
        buf_printf(b, " %s %u", what, id);
    }
}

static void text_head(struct etl_events *s, const struct etl_walk_record *r)
{
    char ms[JSONW_MS_TEXT];
    uint32_t pid = filter_pid(r);
    struct str process = process_name(s, pid);

    if (s->several) {
        humanize_text(&s->line, str_make(s->name));
        buf_put_str(&s->line, ": ");
    }
    buf_printf(&s->line, "%14s cpu %u",
               jsonw_ms(ms, clk_sub(r->since_ns, s->pick.range.zero_ns), 6), r->raw->cpu);
    put_id(&s->line, "pid", pid);
    if (process.n) {
        buf_put_str(&s->line, " (");
        humanize_text(&s->line, process);
        buf_put_str(&s->line, ")");
    }
    put_id(&s->line, "tid", filter_tid(r));
}

static void text_name(struct etl_events *s, const struct raw_event *raw, const struct described *is)
{
    char guid[UUID_TEXT];

    buf_put_str(&s->line, "  ");
    humanize_text(&s->line,
                  is->provider.n ? is->provider : str_make(value_text_guid(guid, raw->guid)));
    buf_reset(&s->hex);
    etl_kinds_title(&s->hex, is);
    if (s->hex.n) {
        buf_put_u8(&s->line, '/');
        humanize_text(&s->line, (struct str){(const char *)s->hex.p, s->hex.n});
    }
    if (numbered(raw)) {
        buf_printf(&s->line, " id %u v%u", raw->id, raw->version);
    } else {
        buf_printf(&s->line, " op %u v%u", raw->opcode, raw->version);
    }
}

static void text_payload(struct buf *b, const struct raw_event *raw)
{
    size_t n = raw->payload_n < PAYLOAD_SHOW ? raw->payload_n : PAYLOAD_SHOW;

    if (n) {
        buf_put_str(b, "payload=");
        value_text_hex(b, raw->payload, n);
        if (n < raw->payload_n) {
            buf_printf(b, "... (%zu bytes)", raw->payload_n);
        }
    }
}

/* What no field covers. Of a schema that says less than was written, all of it: no value may be
 * taken for another. */
static void text_rest(struct buf *b, const struct raw_event *raw, const struct described *is)
{
    size_t n = is->left < PAYLOAD_SHOW ? is->left : PAYLOAD_SHOW;

    if (is->by != DESCRIBE_FILE && is->by != DESCRIBE_TABLE) {
        buf_printf(b, " (%zu more %s)", is->left, plural(is->left, "byte", "bytes"));
        return;
    }
    buf_put_str(b, " _rest=0x");
    value_text_hex(b, raw->payload + raw->payload_n - is->left, n);
    if (n < is->left) {
        buf_printf(b, "... (%zu bytes)", is->left);
    }
}

static void print_text(struct etl_events *s, const struct etl_walk_record *r, struct described *is)
{
    struct value_people people;
    struct value_sink sink = value_text_people(&people, &s->line);
    enum err e;

    buf_reset(&s->line);
    text_head(s, r);
    text_name(s, r->raw, is);
    buf_put_str(&s->line, "  ");
    e = describe_values(s->walk->describe, r->raw, &sink, is);
    if (e == ERR_CORRUPT) {
        buf_put_str(&s->line, " (the payload ends too early) ");
    } else if (e == ERR_OK && is->left) {
        text_rest(&s->line, r->raw, is);
    }
    if (e) {
        text_payload(&s->line, r->raw);
    }
    if (s->line.bad) { /* names that a recording repeats for each of very many members */
        buf_reset(&s->line);
        text_head(s, r);
        text_name(s, r->raw, is);
        buf_put_str(&s->line, "  (too long to be shown) ");
        text_payload(&s->line, r->raw);
    }
    fprintf(s->job->out, "%s\n", buf_cstr(&s->line));
}

/* -- JSON -- */

static void json_id(struct jsonw *j, const char *key, uint32_t id)
{
    if (id != EVENT_NO_ID) {
        jsonw_uint(j, key, id);
    }
}

static void json_text(struct jsonw *j, const char *key, struct str v)
{
    if (v.n) {
        jsonw_text(j, key, v);
    }
}

static void json_head(struct etl_events *s, const struct etl_walk_record *r,
                      const struct described *is)
{
    const struct raw_event *raw = r->raw;
    struct jsonw *j = &s->json;
    char time[CLK_TEXT], ms[JSONW_MS_TEXT], guid[UUID_TEXT];
    uint32_t pid = filter_pid(r), tid = filter_tid(r);

    jsonw_text(j, "file", str_make(s->name));
    jsonw_text(j, "time", str_make(clk_format_utc(time, sizeof time, raw->wall_ns, 9)));
    jsonw_raw(j, "ms", jsonw_ms(ms, clk_sub(r->since_ns, s->pick.range.zero_ns), 6));
    jsonw_uint(j, "cpu", raw->cpu);
    json_id(j, "pid", pid);
    json_id(j, "tid", tid);
    if (raw->pid != pid || raw->tid != tid) { /* the context it was logged in */
        json_id(j, "header_pid", raw->pid);
        json_id(j, "header_tid", raw->tid);
    }
    json_text(j, "process", process_name(s, pid));
    json_text(j, "provider", is->provider);
    jsonw_text(j, "guid", str_make(value_text_guid(guid, raw->guid)));
    jsonw_text(j, "kind", str_make(etl_kinds_form(raw->form)));
    if (numbered(raw)) {
        jsonw_uint(j, "id", raw->id);
    }
    jsonw_uint(j, "opcode", raw->opcode);
    jsonw_uint(j, "version", raw->version);
    jsonw_uint(j, "level", raw->level);
    json_text(j, "task", is->task);
    json_text(j, "event", is->name);
}

/* As text_rest. */
static void json_rest(struct etl_events *s, const struct raw_event *raw, const struct described *is)
{
    if (is->by == DESCRIBE_FILE || is->by == DESCRIBE_TABLE) {
        buf_reset(&s->hex);
        value_text_hex(&s->hex, raw->payload + raw->payload_n - is->left, is->left);
        jsonw_text(&s->json, "_rest", str_make(buf_cstr(&s->hex)));
    }
}

static void print_json(struct etl_events *s, const struct etl_walk_record *r, struct described *is)
{
    struct jsonw *j = &s->json;
    enum err e = ERR_NOTFOUND;

    jsonw_object(j, NULL);
    json_head(s, r, is);
    if (is->by != DESCRIBE_NOTHING) {
        struct value_json names;
        struct value_sink sink = value_text_json(&names, j);

        jsonw_object(j, "fields");
        e = describe_values(s->walk->describe, r->raw, &sink, is);
        jsonw_end(j);
        if (e == ERR_OK && is->left) {
            jsonw_uint(j, "left", is->left);
            json_rest(s, r->raw, is);
        } else if (e == ERR_CORRUPT) {
            jsonw_bool(j, "damaged", true);
        }
    }
    if (e) {
        buf_reset(&s->hex);
        value_text_hex(&s->hex, r->raw->payload, r->raw->payload_n);
        jsonw_text(j, "payload", str_make(buf_cstr(&s->hex)));
    }
    jsonw_end(j);
    if (j->depth == 0) {
        fputs("\n", s->job->out);
    }
}

/* -- CSV -- */

static void print_csv(struct etl_events *s, const struct etl_walk_record *r, struct described *is)
{
    const struct raw_event *raw = r->raw;
    struct value_people people;
    struct value_sink sink = value_text_people(&people, &s->line);
    char time[CLK_TEXT], ms[JSONW_MS_TEXT], guid[UUID_TEXT];
    uint32_t pid = filter_pid(r), tid = filter_tid(r);
    struct table_cell cells[COLUMNS];

    buf_reset(&s->line);
    buf_reset(&s->hex);
    if (describe_values(s->walk->describe, raw, &sink, is) || s->line.bad) {
        if (s->line.bad) {
            buf_reset(&s->line);
        }
        value_text_hex(&s->hex, raw->payload, raw->payload_n);
    }
    cells[FILE_NAME] = table_string(str_make(s->name));
    cells[TIME] = table_string(str_make(clk_format_utc(time, sizeof time, raw->wall_ns, 9)));
    cells[MS] =
        table_string(str_make(jsonw_ms(ms, clk_sub(r->since_ns, s->pick.range.zero_ns), 6)));
    cells[CPU] = table_number(true, raw->cpu);
    cells[PID] = table_number(pid != EVENT_NO_ID, pid);
    cells[TID] = table_number(tid != EVENT_NO_ID, tid);
    cells[PROCESS] = table_string(process_name(s, pid));
    cells[PROVIDER] = table_string(is->provider);
    cells[GUID] = table_string(str_make(value_text_guid(guid, raw->guid)));
    cells[KIND] = table_string(str_make(etl_kinds_form(raw->form)));
    cells[ID] = table_number(numbered(raw), raw->id);
    cells[OPCODE] = table_number(true, raw->opcode);
    cells[VERSION] = table_number(true, raw->version);
    cells[LEVEL] = table_number(true, raw->level);
    cells[TASK] = table_string(is->task);
    cells[EVENT] = table_string(is->name);
    cells[FIELDS] = table_string((struct str){buf_cstr(&s->line), s->line.n});
    cells[PAYLOAD] = table_string((struct str){buf_cstr(&s->hex), s->hex.n});
    s->e = table_row(s->csv, cells);
}

/* -- the walk -- */

static void record_print(struct etl_events *s, const struct etl_walk_record *r,
                         struct described *is)
{
    switch (s->job->format) {
    case TABLE_AS_TABLE:
        print_text(s, r, is);
        break;
    case TABLE_AS_CSV:
        print_csv(s, r, is);
        break;
    default:
        print_json(s, r, is);
        break;
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_events *s = ctx;
    struct described is = {0};

    if (s->left == 0) {
        etl_walk_stop(s->walk);
        return;
    }
    s->read++;
    if (!etl_range_takes(&s->pick.range, s->walk, r) || !filter_matches(&s->pick, r) ||
        (s->pick.range.name.n && !glob_match(s->pick.range.name, process_name(s, filter_pid(r))))) {
        return;
    }
    describe_name(s->walk->describe, r->raw, &is);
    if (filter_by_name(&s->pick) && !filter_matches_name(&s->pick, &is)) {
        return;
    }
    record_print(s, r, &is);
    s->shown++;
    s->left--;
    if (s->left == 0 || s->e || !etl_job_out_ok(s->job)) {
        etl_walk_stop(s->walk);
    }
}

static void walk_parts(struct etl_events *s)
{
    struct etl_job *job = s->job;
    struct etl_walk_conf conf = {.names = true,
                                 .tmf_dir = opt_value(job->args, "tmf"),
                                 .progress = !job->out_terminal,
                                 .record = on_record,
                                 .ctx = s};

    for (size_t i = 0;
         i < etl_job_parts(job) && !s->e && s->left && !job->partial && etl_job_out_ok(job); i++) {
        s->name = etl_job_part_name(job, i);
        etl_range_begin(&s->pick.range);
        if (etl_job_open(job, i, &conf, &s->walk) == ERR_OK) {
            (void)etl_job_walk(job, s->walk);
            etl_walk_close(s->walk);
        }
    }
}

/* An empty answer has a reason. */
static void note_nothing(const struct etl_events *s)
{
    if (s->shown == 0 && s->left > 0 && !s->job->failed && !s->job->partial) {
        fprintf(stderr, "procfleet-etl: none of %llu %s matches%s\n", (unsigned long long)s->read,
                plural(s->read, "record", "records"),
                opt_value(s->job->args, "provider") || opt_value(s->job->args, "event")
                    ? "; 'providers' lists what is recorded"
                    : "");
    }
}

static enum err events_run(struct etl_job *job, struct errmsg *why)
{
    struct etl_events s = {.job = job, .several = etl_job_parts(job) > 1};
    enum err e = filter_parse(&s.pick, job, why);

    if (!e) {
        e = etl_job_number(job, "limit", UINT64_MAX, &s.left, why);
    }
    if (!e && job->format == TABLE_AS_CSV) {
        e = table_begin(&s.csv, job->out, TABLE_AS_CSV, false, columns, COLUMNS);
    }
    if (e) {
        return e;
    }
    buf_init(&s.line, LINE_MAX);
    buf_init(&s.hex, LINE_MAX);
    jsonw_init(&s.json, job->out, job->format == TABLE_AS_JSON ? 1 : 0);
    if (job->format == TABLE_AS_JSON) {
        jsonw_array(&s.json, NULL);
    }
    walk_parts(&s);
    if (job->format == TABLE_AS_JSON) {
        jsonw_end(&s.json);
        fputs("\n", job->out);
    }
    table_end(s.csv);
    note_nothing(&s);
    buf_fini(&s.hex);
    buf_fini(&s.line);
    return s.e ? errmsg_set(why, s.e, "cannot print the events: %s", err_text(s.e)) : ERR_OK;
}

static const struct opt opts[] = {
    {"provider", 0, "NAME|GUID", "only of this provider or class; NAME may be a glob", false},
    {"event", 'e', "NAME|NUMBER",
     "only this event: a name (glob, with or without its task: 'Process/Start'), or the id, of "
     "classic events the opcode",
     false},
    {"pid", 'p', "PID", "only of or about this process", false},
    {"tid", 't', "TID", "only of or about this thread", false},
    {"name", 0, "GLOB", "only of processes whose image has this name", false},
    ETL_RANGE_OPT_TIMES,
    {"limit", 'n', "N", "at most so many, over all files", false},
    {"tmf", 0, "DIR", "message files (*.tmf) that give WPP messages their text", false},
    ETL_JOB_OPTS};

static const struct opt_command events_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "events",
    .brief = "print events with their values by name",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl events trace.etl --limit 20\n"
                "  procfleet-etl events trace.etl --provider Process --event Start\n"
                "  procfleet-etl events trace.etl --provider 'Microsoft-Windows-*' --pid 3676\n"
                "  procfleet-etl events trace.etl --since 2s --until 2500 --format jsonl\n"
                "  procfleet-etl events driver.etl --tmf ./tmf\n",
};

const struct etl_command etl_events_command = {&events_opts, NULL, events_run};
