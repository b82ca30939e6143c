/* `etl events`: records one by one, with their values by name where anything knows them. */
#include "agent/etl/job.h"
#include "agent/etl/kinds.h"
#include "agent/etl/pick.h"
#include "agent/etl/value_text.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/text/human.h"

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

static const struct sheet_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", SHEET_TEXT},
    [TIME] = {"time", "TIME", SHEET_TEXT},
    [MS] = {"ms", "MS", SHEET_TEXT},
    [CPU] = {"cpu", "CPU", SHEET_ID},
    [PID] = {"pid", "PID", SHEET_ID},
    [TID] = {"tid", "TID", SHEET_ID},
    [PROCESS] = {"process", "PROCESS", SHEET_TEXT},
    [PROVIDER] = {"provider", "PROVIDER", SHEET_TEXT},
    [GUID] = {"guid", "GUID", SHEET_TEXT},
    [KIND] = {"kind", "KIND", SHEET_TEXT},
    [ID] = {"id", "ID", SHEET_ID},
    [OPCODE] = {"opcode", "OPCODE", SHEET_ID},
    [VERSION] = {"version", "VERSION", SHEET_ID},
    [LEVEL] = {"level", "LEVEL", SHEET_ID},
    [TASK] = {"task", "TASK", SHEET_TEXT},
    [EVENT] = {"event", "EVENT", SHEET_TEXT},
    [FIELDS] = {"fields", "FIELDS", SHEET_TEXT},
    [PAYLOAD] = {"payload", "PAYLOAD", SHEET_TEXT},
};

struct events {
    struct job *job;
    struct walk *walk;
    struct pick pick;
    uint64_t left; /* still to be shown */
    uint64_t read, shown;
    const char *name;
    bool several;
    struct jsonw json;
    struct sheet *csv;
    struct buf line, hex;
    enum err e; /* of printing; ends the walk */
};

/* -- what all formats show -- */

static struct str process_name(const struct events *s, uint32_t pid)
{
    const struct ptable_proc *p = NULL;
    struct str none = {"", 0};

    if (pid != EVENT_NO_ID) {
        p = ptable_owner(walk_table(s->walk), pid);
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

static void text_head(struct events *s, const struct walk_record *r)
{
    char ms[JSONW_MS_TEXT];
    uint32_t pid = pick_pid(r);
    struct str process = process_name(s, pid);

    if (s->several) {
        human_text(&s->line, str_make(s->name));
        buf_put_str(&s->line, ": ");
    }
    buf_printf(&s->line, "%14s cpu %u", jsonw_ms(ms, r->since_ns, 6), r->raw->cpu);
    put_id(&s->line, "pid", pid);
    if (process.n) {
        buf_put_str(&s->line, " (");
        human_text(&s->line, process);
        buf_put_str(&s->line, ")");
    }
    put_id(&s->line, "tid", pick_tid(r));
}

static void text_name(struct events *s, const struct raw_event *raw, const struct described *is)
{
    char guid[UUID_TEXT];

    buf_put_str(&s->line, "  ");
    human_text(&s->line, is->provider.n ? is->provider : str_make(kinds_guid(guid, raw->guid)));
    buf_reset(&s->hex);
    kinds_title(&s->hex, is);
    if (s->hex.n) {
        buf_put_u8(&s->line, '/');
        human_text(&s->line, (struct str){(const char *)s->hex.p, s->hex.n});
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

static void print_text(struct events *s, const struct walk_record *r, struct described *is)
{
    struct value_people people;
    struct value_sink sink = value_text_people(&people, &s->line);
    enum err e;

    buf_reset(&s->line);
    text_head(s, r);
    text_name(s, r->raw, is);
    buf_put_str(&s->line, "  ");
    e = describe_values(walk_describe(s->walk), r->raw, &sink, is);
    if (e == ERR_CORRUPT) {
        buf_put_str(&s->line, " (the payload ends too early) ");
    } else if (e == ERR_OK && is->left) {
        buf_printf(&s->line, " (%zu more %s)", is->left, plural(is->left, "byte", "bytes"));
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

static void json_head(struct events *s, const struct walk_record *r, const struct described *is)
{
    const struct raw_event *raw = r->raw;
    struct jsonw *j = &s->json;
    char time[CLK_TEXT], ms[JSONW_MS_TEXT], guid[UUID_TEXT];
    uint32_t pid = pick_pid(r), tid = pick_tid(r);

    jsonw_text(j, "file", str_make(s->name));
    jsonw_text(j, "time", str_make(clk_format_utc(time, sizeof time, raw->wall_ns, 9)));
    jsonw_raw(j, "ms", jsonw_ms(ms, r->since_ns, 6));
    jsonw_uint(j, "cpu", raw->cpu);
    json_id(j, "pid", pid);
    json_id(j, "tid", tid);
    if (raw->pid != pid || raw->tid != tid) { /* the context it was logged in */
        json_id(j, "header_pid", raw->pid);
        json_id(j, "header_tid", raw->tid);
    }
    json_text(j, "process", process_name(s, pid));
    json_text(j, "provider", is->provider);
    jsonw_text(j, "guid", str_make(kinds_guid(guid, raw->guid)));
    jsonw_text(j, "kind", str_make(kinds_form(raw->form)));
    if (numbered(raw)) {
        jsonw_uint(j, "id", raw->id);
    }
    jsonw_uint(j, "opcode", raw->opcode);
    jsonw_uint(j, "version", raw->version);
    jsonw_uint(j, "level", raw->level);
    json_text(j, "task", is->task);
    json_text(j, "event", is->name);
}

static void print_json(struct events *s, const struct walk_record *r, struct described *is)
{
    struct jsonw *j = &s->json;
    enum err e = ERR_NOTFOUND;

    jsonw_object(j, NULL);
    json_head(s, r, is);
    if (is->by != DESCRIBE_NOTHING) {
        struct value_json names;
        struct value_sink sink = value_text_json(&names, j);

        jsonw_object(j, "fields");
        e = describe_values(walk_describe(s->walk), r->raw, &sink, is);
        jsonw_end(j);
        if (e == ERR_OK && is->left) {
            jsonw_uint(j, "left", is->left);
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

static void print_csv(struct events *s, const struct walk_record *r, struct described *is)
{
    const struct raw_event *raw = r->raw;
    struct value_people people;
    struct value_sink sink = value_text_people(&people, &s->line);
    char time[CLK_TEXT], ms[JSONW_MS_TEXT], guid[UUID_TEXT];
    uint32_t pid = pick_pid(r), tid = pick_tid(r);
    struct sheet_cell cells[COLUMNS];

    buf_reset(&s->line);
    buf_reset(&s->hex);
    if (describe_values(walk_describe(s->walk), raw, &sink, is) || s->line.bad) {
        if (s->line.bad) {
            buf_reset(&s->line);
        }
        value_text_hex(&s->hex, raw->payload, raw->payload_n);
    }
    cells[FILE_NAME] = sheet_string(str_make(s->name));
    cells[TIME] = sheet_string(str_make(clk_format_utc(time, sizeof time, raw->wall_ns, 9)));
    cells[MS] = sheet_string(str_make(jsonw_ms(ms, r->since_ns, 6)));
    cells[CPU] = sheet_number(true, raw->cpu);
    cells[PID] = sheet_number(pid != EVENT_NO_ID, pid);
    cells[TID] = sheet_number(tid != EVENT_NO_ID, tid);
    cells[PROCESS] = sheet_string(process_name(s, pid));
    cells[PROVIDER] = sheet_string(is->provider);
    cells[GUID] = sheet_string(str_make(kinds_guid(guid, raw->guid)));
    cells[KIND] = sheet_string(str_make(kinds_form(raw->form)));
    cells[ID] = sheet_number(numbered(raw), raw->id);
    cells[OPCODE] = sheet_number(true, raw->opcode);
    cells[VERSION] = sheet_number(true, raw->version);
    cells[LEVEL] = sheet_number(true, raw->level);
    cells[TASK] = sheet_string(is->task);
    cells[EVENT] = sheet_string(is->name);
    cells[FIELDS] = sheet_string((struct str){buf_cstr(&s->line), s->line.n});
    cells[PAYLOAD] = sheet_string((struct str){buf_cstr(&s->hex), s->hex.n});
    s->e = sheet_row(s->csv, cells);
}

/* -- the walk -- */

static void print(struct events *s, const struct walk_record *r, struct described *is)
{
    switch (s->job->format) {
    case SHEET_AS_TABLE:
        print_text(s, r, is);
        break;
    case SHEET_AS_CSV:
        print_csv(s, r, is);
        break;
    default:
        print_json(s, r, is);
        break;
    }
}

static void on_record(void *ctx, const struct walk_record *r)
{
    struct events *s = ctx;
    struct described is = {0};

    if (pick_over(&s->pick, r) || s->left == 0) {
        walk_stop(s->walk);
        return;
    }
    s->read++;
    if (!pick_matches(&s->pick, r)) {
        return;
    }
    describe_name(walk_describe(s->walk), r->raw, &is);
    if (pick_by_name(&s->pick) && !pick_matches_name(&s->pick, &is)) {
        return;
    }
    print(s, r, &is);
    s->shown++;
    s->left--;
    if (s->left == 0 || s->e || !job_out_ok(s->job)) {
        walk_stop(s->walk);
    }
}

static void walk_parts(struct events *s)
{
    struct job *job = s->job;
    struct walk_conf conf = {.names = true,
                             .tmf_dir = opt_value(job->args, "tmf"),
                             .progress = !job->out_terminal,
                             .record = on_record,
                             .ctx = s};

    for (size_t i = 0; i < job_parts(job) && !s->e && s->left && !job->partial && job_out_ok(job);
         i++) {
        s->name = job_part_name(job, i);
        if (job_open(job, i, &conf, &s->walk) == ERR_OK) {
            (void)job_walk(job, s->walk);
            walk_close(s->walk);
        }
    }
}

/* An empty answer has a reason. */
static void note_nothing(const struct events *s)
{
    if (s->shown == 0 && s->left > 0 && !s->job->failed && !s->job->partial) {
        fprintf(stderr, "procfleet-agent: none of %llu %s matches%s\n", (unsigned long long)s->read,
                plural(s->read, "record", "records"),
                opt_value(s->job->args, "provider") ? "; 'etl info' lists the providers" : "");
    }
}

enum err events_run(struct job *job, struct errmsg *why)
{
    struct events s = {.job = job, .several = job_parts(job) > 1};
    enum err e = pick_parse(&s.pick, job, why);

    if (!e) {
        e = job_number(job, "limit", UINT64_MAX, &s.left, why);
    }
    if (!e && job->format == SHEET_AS_CSV) {
        e = sheet_begin(&s.csv, job->out, SHEET_AS_CSV, false, columns, COLUMNS);
    }
    if (e) {
        return e;
    }
    buf_init(&s.line, LINE_MAX);
    buf_init(&s.hex, LINE_MAX);
    jsonw_init(&s.json, job->out, job->format == SHEET_AS_JSON ? 1 : 0);
    if (job->format == SHEET_AS_JSON) {
        jsonw_array(&s.json, NULL);
    }
    walk_parts(&s);
    if (job->format == SHEET_AS_JSON) {
        jsonw_end(&s.json);
        fputs("\n", job->out);
    }
    sheet_end(s.csv);
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
    {"since", 0, "MS|TIME",
     "from then on: ms since the start (1500), a span (2s), or 2026-11-21T09:00:00Z", false},
    {"until", 0, "MS|TIME", "up to then; as since", false},
    {"limit", 'n', "N", "at most so many, over all files", false},
    {"tmf", 0, "DIR", "message files (*.tmf) that give WPP messages their text", false},
    JOB_OPTS};

const struct opt_command events_opts = {
    .program = "procfleet-agent etl",
    .name = "events",
    .brief = "print events with their values by name",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-agent etl events trace.etl --limit 20\n"
        "  procfleet-agent etl events trace.etl --provider Process --event Start\n"
        "  procfleet-agent etl events trace.etl --provider 'Microsoft-Windows-*' --pid 3676\n"
        "  procfleet-agent etl events trace.etl --since 2s --until 2500 --format jsonl\n"
        "  procfleet-agent etl events driver.etl --tmf ./tmf\n",
};
