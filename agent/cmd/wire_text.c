#include "agent/cmd/wire_text.h"

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/model/event_values.h"
#include "common/model/metric.h"
#include "common/os/uuid.h"
#include "common/text/jsonw.h"
#include "common/text/table.h"
#include "common/text/value_text.h"

/* -- one line -- */

struct line {
    struct jsonw json;
    FILE *to;
    bool as_json;
};

static struct line line_begin(const struct wire_text *w, const char *kind)
{
    struct line l = {.to = w->to, .as_json = w->json};

    jsonw_init(&l.json, w->to, 0);
    if (l.as_json) {
        jsonw_object(&l.json, NULL);
        jsonw_text(&l.json, "type", str_make(kind));
    } else {
        (void)fputs(kind, l.to);
    }
    return l;
}

static void line_end(struct line *l)
{
    if (l->as_json) {
        jsonw_end(&l->json);
    }
    (void)fputc('\n', l->to);
}

static void put_value(struct line *l, const struct metric *m, int64_t v)
{
    if (l->as_json && table_is_wide(table_unit_of(m))) {
        jsonw_wide(&l->json, m->name, (uint64_t)v);
    } else if (l->as_json) {
        jsonw_int(&l->json, m->name, v);
    } else {
        (void)fprintf(l->to, " %s=%lld", m->name, (long long)v);
    }
}

static void put_uint(struct line *l, const char *key, uint64_t v)
{
    if (l->as_json) {
        jsonw_uint(&l->json, key, v);
    } else {
        (void)fprintf(l->to, " %s=%llu", key, (unsigned long long)v);
    }
}

static void put_text(struct line *l, const char *key, struct str v)
{
    if (l->as_json) {
        jsonw_text(&l->json, key, v);
    } else {
        (void)fprintf(l->to, " %s=", key);
        jsonw_text(&l->json, NULL, v); /* in quotes, with nothing in it that steers a terminal */
    }
}

static void put_known(struct line *l, const char *key, struct str v)
{
    if (v.n > 0) {
        put_text(l, key, v);
    }
}

static void put_true(struct line *l, const char *key, bool v)
{
    if (v && l->as_json) {
        jsonw_bool(&l->json, key, true);
    } else if (v) {
        (void)fprintf(l->to, " %s", key);
    }
}

/* JSON has ns, as everywhere; people get a date. */
static void put_time(struct line *l, const char *key, int64_t utc_ns)
{
    char text[CLK_TEXT];

    if (l->as_json) {
        jsonw_wide(&l->json, key, (uint64_t)utc_ns);
    } else {
        (void)fprintf(l->to, " %s=%s", key, clk_format_utc(text, sizeof text, utc_ns, 3));
    }
}

static void put_start(struct line *l, const char *key, uint64_t start)
{
    if (l->as_json) {
        jsonw_wide(&l->json, key, start);
    } else {
        put_uint(l, key, start);
    }
}

static void put_id(struct line *l, struct proc_id id)
{
    put_uint(l, "pid", id.pid);
    put_start(l, "start", id.start);
}

/* -- kinds of lines -- */

static void put_head(struct wire_text *w, const struct batch *b, size_t bytes)
{
    struct line l = line_begin(w, "batch");
    char boot[UUID_TEXT];

    put_uint(&l, "seq", b->head.seq);
    put_uint(&l, "bytes", bytes);
    put_text(&l, "source", b->head.source);
    put_text(&l, "boot", str_make(uuid_format(boot, &b->head.boot)));
    put_uint(&l, "cpus", b->head.cpus);
    put_true(&l, "polled", (b->head.flags & BATCH_POLLED) != 0);
    put_true(&l, "replay", (b->head.flags & BATCH_REPLAY) != 0);
    put_true(&l, "last", (b->head.flags & BATCH_LAST) != 0);
    put_uint(&l, "ticks", b->n_ticks);
    if (b->n_ticks > 0) {
        put_time(&l, "first", b->wall_ns[0]);
        put_time(&l, "last_tick", b->wall_ns[b->n_ticks - 1]);
    }
    line_end(&l);
}

static void put_attributes(struct line *l, const struct proc_info *p)
{
    static const char *const origins[] = {NULL, "start", "rundown", "snapshot", "inferred"};
    static const char *const cpu_origins[] = {NULL, "times", "cswitch", "samples"};

    put_id(l, p->id);
    put_known(l, "name", p->name);
    put_known(l, "image", p->image);
    if (p->have & INFO_COMMAND_LINE_KNOWN) {
        put_text(l, "command_line", p->command_line);
    }
    put_true(l, "command_line_cut", (p->have & INFO_COMMAND_LINE_CUT) != 0);
    put_known(l, "user", p->user);
    if (p->have & INFO_PARENT) {
        put_uint(l, "parent_pid", p->parent_pid);
        put_start(l, "parent_start", p->parent_start);
    }
    if (p->have & INFO_SESSION) {
        put_uint(l, "session_id", p->session_id);
    }
    if (p->have & INFO_CREATE_TIME) {
        put_time(l, "create_time", p->create_ns);
    }
    if (p->have & INFO_EXIT_TIME) {
        put_time(l, "exit_time", p->exit_ns);
    }
    if (p->have & INFO_EXIT_CODE) {
        put_uint(l, "exit_code", p->exit_code);
    }
    put_true(l, "exited", (p->have & INFO_EXITED) != 0);
    put_true(l, "exit_inferred", (p->have & INFO_EXIT_INFERRED) != 0);
    put_true(l, "final_totals", (p->have & INFO_FINAL_TOTALS) != 0);
    put_true(l, "signalled", (p->have & INFO_SIGNALLED) != 0);
    if (p->origin > 0 && p->origin < sizeof origins / sizeof *origins) {
        put_text(l, "origin", str_make(origins[p->origin]));
    }
    if (p->cpu_origin > 0 && p->cpu_origin < sizeof cpu_origins / sizeof *cpu_origins) {
        put_text(l, "cpu_time_origin", str_make(cpu_origins[p->cpu_origin]));
    }
}

static void put_infos(struct wire_text *w, const struct batch *b)
{
    for (size_t i = 0; i < b->n_infos; i++) {
        struct line l = line_begin(w, "process");

        put_attributes(&l, &b->infos[i]);
        line_end(&l);
    }
    w->sums.processes += b->n_infos;
}

/* A column has the values of one run after the other; at[c] is where this run's begin. */
static void put_run(struct wire_text *w, const struct batch *b, const struct batch_run *run,
                    const size_t *at)
{
    for (uint32_t t = 0; t < run->n_ticks; t++) {
        struct line l = line_begin(w, "sample");

        put_time(&l, "time", b->wall_ns[run->first_tick + t]);
        put_id(&l, run->id);
        put_true(&l, "fresh", run->fresh && t == 0);
        for (size_t c = 0; c < b->n_columns; c++) {
            const struct metric *m = metric_by_id(b->columns[c].metric);

            if (m && (run->mask & METRIC_BIT(b->columns[c].metric))) {
                put_value(&l, m, b->columns[c].values[at[c] + t]);
                w->sums.values++;
            }
        }
        line_end(&l);
    }
    w->sums.samples += run->n_ticks;
}

static void put_runs(struct wire_text *w, const struct batch *b)
{
    size_t at[METRIC_COLS] = {0};

    for (size_t r = 0; r < b->n_runs && b->n_columns <= METRIC_COLS; r++) {
        put_run(w, b, &b->runs[r], at);
        for (size_t c = 0; c < b->n_columns; c++) {
            if (b->runs[r].mask & METRIC_BIT(b->columns[c].metric)) {
                at[c] += b->runs[r].n_ticks;
            }
        }
    }
    w->sums.ticks += b->n_ticks;
}

static const char *kind_name(unsigned kind)
{
    static const char *const names[] = {
        [LIFE_PROCESS_START] = "process_start",
        [LIFE_PROCESS_STOP] = "process_stop",
        [LIFE_THREAD_START] = "thread_start",
        [LIFE_THREAD_STOP] = "thread_stop",
        [LIFE_IMAGE_LOAD] = "image_load",
        [LIFE_IMAGE_UNLOAD] = "image_unload",
        [LIFE_LEVEL] = "level",
        [LIFE_SOURCE] = "source",
        [LIFE_PROVIDER] = "provider",
    };

    return kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "unknown";
}

/* What an event of a provider says; numbers that are 0 are not told. */
static void put_provider(struct line *l, const struct life_event *ev)
{
    const struct event_type *t = ev->type;
    char guid[UUID_TEXT];
    struct buf text;

    put_known(l, "provider", t->provider);
    put_text(l, "guid", str_make(value_text_guid(guid, t->guid)));
    put_uint(l, "id", t->id);
    put_uint(l, "version", t->version);
    put_uint(l, "level", t->level);
    put_known(l, "task", t->task);
    put_known(l, "event", t->name);
    put_true(l, "cut", ev->value_flags & LIFE_VALUES_CUT);
    put_true(l, "redacted", ev->value_flags & LIFE_VALUES_REDACTED);
    if (l->as_json) {
        struct value_json names;
        struct value_sink sink = value_text_json(&names, &l->json);

        jsonw_object(&l->json, "fields");
        err_ignore(event_values_read(t->fields, t->n_fields, ev->values, &sink)); /* checked */
        jsonw_end(&l->json);
    } else {
        struct value_people people;
        struct value_sink sink = value_text_people(&people, &text);

        buf_init(&text, 16 * EVENT_VALUES_MAX);
        err_ignore(event_values_read(t->fields, t->n_fields, ev->values, &sink));
        (void)fprintf(l->to, " %s", buf_cstr(&text));
        buf_fini(&text);
    }
}

static void put_events(struct wire_text *w, const struct batch *b)
{
    for (size_t i = 0; i < b->n_events; i++) {
        const struct life_event *ev = &b->events[i];
        struct line l = line_begin(w, "event");

        put_text(&l, "kind", str_make(kind_name(ev->kind)));
        put_time(&l, "time", ev->wall_ns);
        if (ev->kind == LIFE_THREAD_START || ev->kind == LIFE_THREAD_STOP || ev->type) {
            put_uint(&l, "tid", ev->tid);
        }
        if (!life_is_of_host(ev->kind)) {
            put_attributes(&l, &ev->info);
        }
        put_known(&l, "text", ev->text);
        if (ev->type) {
            put_provider(&l, ev);
        }
        line_end(&l);
    }
    w->sums.events += b->n_events;
}

static void put_ledger(struct wire_text *w, const struct batch *b)
{
    for (size_t i = 0; i < b->n_ledger; i++) {
        struct line l = line_begin(w, "ledger");

        put_text(&l, "stage", b->ledger[i].stage);
        put_text(&l, "reason", b->ledger[i].reason);
        put_uint(&l, "count", b->ledger[i].count);
        line_end(&l);
    }
}

void wire_text_batch(struct wire_text *w, const struct batch *b, size_t bytes)
{
    put_head(w, b, bytes);
    put_infos(w, b);
    put_runs(w, b);
    put_events(w, b);
    put_ledger(w, b);
    w->sums.batches++;
    w->sums.bytes += bytes;
}
