#include "common/text/field.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/lab/ended.h"
#include "common/model/event_values.h"
#include "common/text/value_text.h"
#include "common/wire/wire_series.h"

static const struct table_column field_columns[FIELD_COUNT] = {
    [FIELD_TIME] = {"time", "TIME", TABLE_TIME},
    [FIELD_HOST] = {"host", "HOST", TABLE_TEXT},
    [FIELD_KIND] = {"kind", "EVENT", TABLE_WORD},
    [FIELD_PID] = {"pid", "PID", TABLE_ID},
    [FIELD_TID] = {"tid", "TID", TABLE_ID},
    [FIELD_START] = {"start", "START", TABLE_WIDE},
    [FIELD_NAME] = {"name", "NAME", TABLE_TEXT},
    [FIELD_PARENT_PID] = {"parent_pid", "PPID", TABLE_ID},
    [FIELD_SESSION_ID] = {"session_id", "SESSION", TABLE_ID},
    [FIELD_USER] = {"user", "USER", TABLE_USER},
    [FIELD_CREATE_TIME] = {"create_time", "STARTED", TABLE_TIME},
    [FIELD_EXIT_TIME] = {"exit_time", "ENDED", TABLE_TIME},
    [FIELD_EXIT_CODE] = {"exit_code", "EXIT", TABLE_EXIT},
    [FIELD_EXIT_INFERRED] = {"exit_inferred", "INFERRED", TABLE_FLAG},
    [FIELD_FINAL_TOTALS] = {"final_totals", "FINAL", TABLE_FLAG},
    [FIELD_ORIGIN] = {"origin", "ORIGIN", TABLE_TEXT},
    [FIELD_CPU_TIME_ORIGIN] = {"cpu_time_origin", "CPU_FROM", TABLE_TEXT},
    [FIELD_IMAGE] = {"image", "IMAGE", TABLE_TEXT},
    [FIELD_COMMAND_LINE] = {"command_line", "COMMAND", TABLE_TEXT},
    [FIELD_COMMAND_LINE_CUT] = {"command_line_cut", "CUT", TABLE_FLAG},
    [FIELD_PATH] = {"path", "PATH", TABLE_TEXT},
    [FIELD_TEXT] = {"text", "TEXT", TABLE_TEXT},
    [FIELD_INSTANCES] = {"processes", "PROCESSES", TABLE_COUNT},
    [FIELD_HOSTS] = {"hosts", "HOSTS", TABLE_COUNT},
    [FIELD_DEPTH] = {"depth", "DEPTH", TABLE_COUNT},
    [FIELD_PROVIDER] = {"provider", "PROVIDER", TABLE_TEXT},
    [FIELD_GUID] = {"guid", "GUID", TABLE_TEXT},
    [FIELD_EVENT_ID] = {"id", "ID", TABLE_ID},
    [FIELD_VERSION] = {"version", "VERSION", TABLE_ID},
    [FIELD_LEVEL] = {"level", "LEVEL", TABLE_ID},
    [FIELD_TASK] = {"task", "TASK", TABLE_TEXT},
    [FIELD_EVENT] = {"event", "NAME OF EVENT", TABLE_TEXT},
    [FIELD_VALUES] = {"fields", "FIELDS", TABLE_JSON},
    [FIELD_CUT] = {"cut", "CUT", TABLE_FLAG},
    [FIELD_REDACTED] = {"redacted", "REDACTED", TABLE_FLAG},
    [FIELD_PER_HOUR] = {"per_hour", "PER_HOUR", TABLE_COUNT},
    [FIELD_STEADY] = {"steady", "STEADY", TABLE_PERMILLE},
    [FIELD_ENDED] = {"ended_by", "ENDED", TABLE_WORD},
    [FIELD_KIND_OF_END] = {"ended", NULL, TABLE_WORD},
    [FIELD_LIVED] = {"lived", "LIVED", TABLE_NS},
    [FIELD_ANCESTORS] = {"ancestors", "ANCESTORS", TABLE_TEXT},
    [FIELD_DETAIL] = {NULL, "DETAIL", TABLE_TEXT},
};

const struct table_column *field_column(enum field what)
{
    return &field_columns[what];
}

/* -- cells -- */

static const struct {
    unsigned kind;
    const char *name;
} kinds[] = {
    {LIFE_PROCESS_START, "process_start"},
    {LIFE_PROCESS_STOP, "process_stop"},
    {LIFE_THREAD_START, "thread_start"},
    {LIFE_THREAD_STOP, "thread_stop"},
    {LIFE_IMAGE_LOAD, "image_load"},
    {LIFE_IMAGE_UNLOAD, "image_unload"},
    {LIFE_LEVEL, "level"},
    {LIFE_SOURCE, "source"},
    {LIFE_PROVIDER, "provider"},
    {LIFE_RULE, "rule"},
};

#define KIND_COUNT (sizeof kinds / sizeof *kinds)

const char *const field_kind_names[] = {
    "process_start", "process_stop", "thread_start", "thread_stop", "image_load", "image_unload",
    "level",         "source",       "provider",     "rule",        NULL};

const char *field_kind_name(unsigned life_kind)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].kind == life_kind) {
            return kinds[i].name;
        }
    }
    return NULL;
}

static unsigned kind_by_name(const char *name)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    return 0;
}

static struct table_cell word_cell(const char *const *words, size_t n, unsigned i)
{
    return table_string(str_make(i < n ? words[i] : NULL));
}

/* What is known of the process itself. */
static struct table_cell info_cell(int what, const struct proc_info *p)
{
    static const char *const origins[] = {NULL, "start", "rundown", "snapshot", "inferred"};
    static const char *const cpu_origins[] = {NULL, "times", "cswitch", "samples"};

    switch (what) {
    case FIELD_PID:
        return table_number(true, p->id.pid);
    case FIELD_START:
        return table_number(p->id.start != 0 && p->id.start <= INT64_MAX, (int64_t)p->id.start);
    case FIELD_NAME:
        return table_string(p->name);
    case FIELD_PARENT_PID:
        return table_number(p->have & INFO_PARENT, p->parent_pid);
    case FIELD_SESSION_ID:
        return table_number(p->have & INFO_SESSION, p->session_id);
    case FIELD_USER:
        return table_string(p->user);
    case FIELD_CREATE_TIME:
        return table_number(p->have & INFO_CREATE_TIME, p->create_ns);
    case FIELD_EXIT_TIME:
        return table_number(p->have & INFO_EXIT_TIME, p->exit_ns);
    case FIELD_EXIT_CODE:
        return table_number(p->have & INFO_EXIT_CODE, p->exit_code);
    case FIELD_EXIT_INFERRED:
        return table_number(p->have & INFO_EXIT_INFERRED, 1);
    case FIELD_FINAL_TOTALS:
        return table_number(p->have & INFO_FINAL_TOTALS, 1);
    case FIELD_ORIGIN:
        return word_cell(origins, sizeof origins / sizeof *origins, p->origin);
    case FIELD_CPU_TIME_ORIGIN:
        return word_cell(cpu_origins, sizeof cpu_origins / sizeof *cpu_origins, p->cpu_origin);
    case FIELD_IMAGE:
        return table_string(p->image);
    case FIELD_COMMAND_LINE: {
        struct table_cell c = table_string(p->command_line);

        if (p->have & INFO_COMMAND_LINE_KNOWN) {
            c.state = TABLE_STRING;
        }
        return c;
    }
    case FIELD_KIND_OF_END: {
        enum ended how;

        return table_string(str_make(ended_how(p, &how) ? ended_words[how] : NULL));
    }
    case FIELD_LIVED:
        return table_number((p->have & INFO_EXIT_TIME) && (p->have & INFO_CREATE_TIME),
                            clk_sub(p->exit_ns, p->create_ns));
    case FIELD_COMMAND_LINE_CUT:
        return table_number(p->have & INFO_COMMAND_LINE_CUT, 1);
    default:
        return table_number(false, 0);
    }
}

static struct table_cell host_cell(const struct wire_answer *a, uint32_t host)
{
    return table_string(host < a->n_hosts ? a->hosts[host].name : str_make(NULL));
}

static struct table_cell metric_cell(const struct wire_answer *a, const struct wire_row *row,
                                     unsigned id)
{
    for (size_t i = 0; i < a->n_metrics; i++) {
        if (a->metrics[i] == id) {
            return table_number(wire_row_has(row, i), row->values[i]);
        }
    }
    return table_number(false, 0);
}

struct table_cell field_of_row(int what, const struct wire_answer *a, const struct wire_row *row)
{
    if (what >= FIELD_METRIC) {
        return metric_cell(a, row, (unsigned)what - FIELD_METRIC);
    }
    switch (what) {
    case FIELD_HOST:
        return host_cell(a, row->host);
    case FIELD_TIME:
        return table_number(true, row->when_ns);
    case FIELD_INSTANCES:
        return table_number(true, row->instances ? row->instances : 1);
    case FIELD_HOSTS:
        return table_number(row->hosts != 0, row->hosts);
    case FIELD_DEPTH:
        return table_number(true, row->depth);
    case FIELD_PER_HOUR:
        return table_number(a->trends != NULL, a->trends ? a->trends[row - a->rows].per_hour : 0);
    case FIELD_STEADY:
        return table_number(a->trends != NULL,
                            a->trends ? a->trends[row - a->rows].steady_permille : 0);
    default:
        return info_cell(what, &row->info);
    }
}

/* -- events of providers -- */

#define FIELD_ROOM (1u << 20) /* bytes of values as text; names may be repeated */

void field_room_init(struct field_room *r)
{
    buf_init(&r->values, FIELD_ROOM);
    buf_init(&r->detail, FIELD_ROOM);
}

void field_room_fini(struct field_room *r)
{
    buf_fini(&r->values);
    buf_fini(&r->detail);
}

static struct table_cell values_cell(const struct life_event *ev, struct buf *out)
{
    const struct event_type *t = ev->type;
    struct value_json names;
    struct value_sink sink;
    struct jsonw j;

    buf_reset(out);
    jsonw_init_buf(&j, out);
    jsonw_object(&j, NULL);
    sink = value_text_json(&names, &j);
    err_ignore(event_values_read(t->fields, t->n_fields, ev->values, &sink)); /* checked */
    jsonw_end(&j);
    return out->bad ? table_string(str_make(NULL)) : table_string(str_make(buf_cstr(out)));
}

/* "provider/event  name=value name=value" */
static struct table_cell detail_cell(const struct life_event *ev, struct buf *out, char *guid)
{
    const struct event_type *t = ev->type;
    struct value_people people;
    struct value_sink sink;

    buf_reset(out);
    if (t->provider.n) {
        buf_put(out, t->provider.p, t->provider.n);
    } else {
        buf_put_str(out, value_text_guid(guid, t->guid));
    }
    buf_put_u8(out, '/');
    if (t->name.n || t->task.n) {
        struct str name = t->name.n ? t->name : t->task;

        buf_put(out, name.p, name.n);
    } else {
        buf_printf(out, "%u", t->id);
    }
    buf_put_str(out, t->n_fields ? "  " : "");
    sink = value_text_people(&people, out);
    err_ignore(event_values_read(t->fields, t->n_fields, ev->values, &sink)); /* checked */
    return out->bad ? table_string(str_make(NULL))
                    : table_string((struct str){(const char *)out->p, out->n});
}

static struct table_cell provider_cell(int what, const struct life_event *ev,
                                       struct field_room *room)
{
    const struct event_type *t = ev->type;

    switch (what) {
    case FIELD_PROVIDER:
        return table_string(t->provider);
    case FIELD_GUID:
        return table_string(str_make(value_text_guid(room->guid, t->guid)));
    case FIELD_EVENT_ID:
        return table_number(true, t->id);
    case FIELD_VERSION:
        return table_number(true, t->version);
    case FIELD_LEVEL:
        return table_number(true, t->level);
    case FIELD_TASK:
        return table_string(t->task);
    case FIELD_EVENT:
        return table_string(t->name);
    case FIELD_VALUES:
        return values_cell(ev, &room->values);
    case FIELD_CUT:
        return table_number(ev->value_flags & LIFE_VALUES_CUT, 1);
    case FIELD_REDACTED:
        return table_number(ev->value_flags & LIFE_VALUES_REDACTED, 1);
    default:
        return detail_cell(ev, &room->detail, room->guid);
    }
}

struct table_cell field_of_event(int what, const struct wire_answer *a,
                                 const struct wire_event *event, struct field_room *room)
{
    const struct life_event *ev = &event->event;
    bool of_thread =
        ev->kind == LIFE_THREAD_START || ev->kind == LIFE_THREAD_STOP || ev->kind == LIFE_PROVIDER;
    bool of_image = ev->kind == LIFE_IMAGE_LOAD || ev->kind == LIFE_IMAGE_UNLOAD;
    bool of_host = life_is_of_host(ev->kind);
    struct str none = {NULL, 0};

    if (what >= FIELD_PROVIDER && what <= FIELD_DETAIL && ev->type &&
        !(what == FIELD_DETAIL && ev->kind == LIFE_RULE)) { /* a notice has a sentence */
        return provider_cell(what, ev, room);
    }
    switch (what) {
    case FIELD_HOST:
        return host_cell(a, event->host);
    case FIELD_TIME:
        return table_number(true, ev->wall_ns);
    case FIELD_KIND:
        return table_string(str_make(field_kind_name(ev->kind)));
    case FIELD_TID:
        return table_number(of_thread, ev->tid);
    case FIELD_PATH:
        return table_string(of_image ? ev->text : none);
    case FIELD_TEXT:
        return table_string(of_image ? none : ev->text);
    case FIELD_DETAIL:
        return table_string(ev->text.n ? ev->text : ev->info.command_line);
    default:
        return of_host ? table_string(none) : info_cell(what, &ev->info);
    }
}

/* -- words of questions -- */

/* One word of a list: a kind, or the beginning of several. */
static uint32_t kind_bits(const char *word)
{
    unsigned kind = kind_by_name(word);
    uint32_t bits = kind ? 1u << kind : 0;
    size_t n = strlen(word);

    for (size_t i = 0; i < KIND_COUNT && !kind; i++) {
        bool all = strcmp(word, "all") == 0;
        bool family = strncmp(kinds[i].name, word, n) == 0 && kinds[i].name[n] == '_';

        if (all || family) {
            bits |= 1u << kinds[i].kind;
        }
    }
    return bits;
}

const char *field_kind_word(size_t i)
{
    static const char *const families[] = {"all", "process", "thread", "image"};
    size_t n = sizeof families / sizeof *families;

    if (i < n) {
        return families[i];
    }
    return i - n < KIND_COUNT ? kinds[i - n].name : NULL;
}

enum err field_kinds(uint32_t *bits, const char *list, struct errmsg *why)
{
    *bits = 0;
    while (*list) {
        size_t n = strcspn(list, ",");
        char word_text[32] = "";
        uint32_t more;

        memcpy(word_text, list, n < sizeof word_text ? n : sizeof word_text - 1);
        more = kind_bits(word_text);
        if (!more) {
            return errmsg_set(why, ERR_USAGE,
                              "'%s' is not process, thread, image, level, source, provider, rule, "
                              "all, or one such as "
                              "process_start",
                              word_text);
        }
        *bits |= more;
        list += n + (list[n] == ',');
    }
    return ERR_OK;
}

enum err field_metric(uint8_t *id, const char *name, struct errmsg *why)
{
    const struct metric *m = metric_by_name(name);
    const char *closest;

    if (m && (m->column || m->id == M_CPU_PERCENT)) {
        *id = m->id;
        return ERR_OK;
    }
    if (m) {
        return errmsg_set(why, ERR_USAGE, "'%s' is not a number to order or plot by", name);
    }
    closest = metric_closest(name);
    if (closest) {
        return errmsg_set(why, ERR_USAGE, "there is no metric '%s'; did you mean '%s'?", name,
                          closest);
    }
    return errmsg_set(why, ERR_USAGE, "there is no metric '%s'; 'procfleet top --help' names them",
                      name);
}
