/* `etl layouts`: what the decoder knows: of each class or provider and each opcode or id, by
 * version, the fields with their types and widths. It is read from the tables that decode, so it
 * cannot differ from what they do: those of kernel records, and the schemas of providers that the
 * program brings along. */
#include <stdlib.h>
#include <string.h>

#include "agent/decode/layout_more.h"
#include "agent/decode/schema/known_schemas.h"
#include "agent/decode/schema/schema.h"
#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_kinds.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define VERSIONS     256
#define FIELDS_TEXT  (64u << 10)
#define SCHEMA_BYTES (8u << 20) /* of one provider */

enum { WIDTH_POINTER = -1, WIDTH_STRING = -2, WIDTH_SID = -3, WIDTH_REST = -4 };
enum { WIDTH_UNITS = -5, WIDTH_COUNTED = -6 }; /* of 16 bits; as a field or number says */

/* Of each type: how it is called, and its bytes. */
static const struct {
    const char *name;
    int width;
    bool optional;
} types[] = {
    [LAYOUT_U8] = {"u8", 1, false},
    [LAYOUT_I8] = {"i8", 1, false},
    [LAYOUT_U16] = {"u16", 2, false},
    [LAYOUT_I16] = {"i16", 2, false},
    [LAYOUT_U32] = {"u32", 4, false},
    [LAYOUT_I32] = {"i32", 4, false},
    [LAYOUT_U64] = {"u64", 8, false},
    [LAYOUT_I64] = {"i64", 8, false},
    [LAYOUT_HEX32] = {"hex32", 4, false},
    [LAYOUT_HEX64] = {"hex64", 8, false},
    [LAYOUT_BOOL32] = {"bool32", 4, false},
    [LAYOUT_BOOL8] = {"bool8", 1, false},
    [LAYOUT_PTR] = {"pointer", WIDTH_POINTER, false},
    [LAYOUT_SIZE] = {"size", WIDTH_POINTER, false},
    [LAYOUT_U32_OPT] = {"u32", 4, true},
    [LAYOUT_W] = {"wstring", WIDTH_STRING, false},
    [LAYOUT_W_OPT] = {"wstring", WIDTH_STRING, true},
    [LAYOUT_W_FIXED] = {"wchar", WIDTH_UNITS, false},
    [LAYOUT_W_REST] = {"wstring[]", WIDTH_REST, false},
    [LAYOUT_A] = {"astring", WIDTH_STRING, false},
    [LAYOUT_A_REST] = {"astring", WIDTH_STRING, false},
    [LAYOUT_USER] = {"user-sid", WIDTH_SID, false},
    [LAYOUT_SID] = {"sid", WIDTH_SID, false},
    [LAYOUT_GUID] = {"guid", 16, false},
    [LAYOUT_FILETIME] = {"filetime", 8, false},
    [LAYOUT_TICKS] = {"ticks", 8, false},
    [LAYOUT_SYSTEMTIME] = {"systemtime", 16, false},
    [LAYOUT_IP4] = {"ip4", 4, false},
    [LAYOUT_IP6] = {"ip6", 16, false},
    [LAYOUT_PORT] = {"port", 2, false},
    [LAYOUT_F64] = {"f64", 8, false},
    [LAYOUT_BEGIN] = {"begin", 0, false},
    [LAYOUT_END] = {"end", 0, false},
    [LAYOUT_BYTES] = {"bytes", 1, false},
    [LAYOUT_REST] = {"bytes", WIDTH_REST, false},
    [LAYOUT_PTR_REST] = {"pointer[]", WIDTH_REST, false},
    [LAYOUT_SKIP] = {"skip", 1, false},
    [LAYOUT_ALIGN8] = {"align8", 0, false},
    [LAYOUT_ALIGN] = {"align", 0, false},
};

/* Versions first to last of one layout, whose fields are the same in all of them. */
struct etl_layouts_row {
    const struct decode_class *class;
    const struct layout *layout;
    unsigned first, last;
    bool event; /* decode.c makes a fact of it */
};

struct etl_layouts {
    struct etl_job *job;
    struct table *sheet; /* or NULL: JSON */
    struct jsonw json;
    struct str class, name; /* patterns; empty: all */
    struct buf text;
    uint64_t shown, more, limit;
};

/* -- one row -- */

static bool field_of(const struct layout_field *f, unsigned version)
{
    return version >= f->first && (f->last == 0 || version <= f->last);
}

static bool fields_same(const struct layout *l, unsigned a, unsigned b)
{
    for (const struct layout_field *f = l->fields; f->name; f++) {
        if (field_of(f, a) != field_of(f, b)) {
            return false;
        }
    }
    return true;
}

static bool makes_event(const struct decode_class *class, uint16_t number, unsigned version)
{
    for (size_t i = 0; i < class->n_ops; i++) {
        if (class->ops[i].opcode == number && version >= class->ops[i].first_version) {
            return true;
        }
    }
    return false;
}

/* "wchar[32]", "hex64[]" */
static void put_type(struct buf *b, const struct layout_field *f)
{
    buf_put_str(b, types[f->type].name);
    if (f->n == LAYOUT_TO_END) {
        buf_put_str(b, "[]");
    } else if (f->n) {
        buf_printf(b, "[%u]", (unsigned)f->n);
    }
}

static void width_json(struct jsonw *j, int width)
{
    static const char *const words[] = {"", "pointer", "string", "sid", "rest", "", "counted"};

    if (width >= 0) {
        jsonw_uint(j, "width", (uint64_t)width);
    } else {
        jsonw_text(j, "width", str_make(words[-width]));
    }
}

static void put_width(struct jsonw *j, const struct layout_field *f)
{
    int width = types[f->type].width, n = f->n ? f->n : 1;

    width_json(j, f->n == LAYOUT_TO_END  ? WIDTH_REST
                  : width == WIDTH_UNITS ? 2 * n
                  : width > 0            ? width * n
                                         : width);
}

static void field_json(struct etl_layouts *l, const struct layout_field *f)
{
    struct jsonw *j = &l->json;

    buf_reset(&l->text);
    put_type(&l->text, f);
    jsonw_object(j, NULL);
    jsonw_text(j, "name", str_make(f->name));
    jsonw_text(j, "type", (struct str){(const char *)l->text.p, l->text.n});
    put_width(j, f);
    if (types[f->type].optional) {
        jsonw_bool(j, "optional", true);
    }
    jsonw_end(j);
}

/* What a row says beside its fields. */
struct head {
    struct str class, name;
    const uint8_t *guid;
    bool manifest, counted;
    uint16_t number;
    unsigned first, last;
};

static struct head head_of(const struct etl_layouts_row *r)
{
    return (struct head){.class = str_make(r->class->name),
                         .name = str_make(r->layout->name),
                         .guid = r->class->guid,
                         .manifest = r->class->form == RAW_MANIFEST,
                         .counted = r->event,
                         .number = r->layout->opcode,
                         .first = r->first,
                         .last = r->last};
}

static void head_json(struct etl_layouts *l, const struct head *h)
{
    struct jsonw *j = &l->json;
    char guid[UUID_TEXT];

    jsonw_object(j, NULL);
    jsonw_text(j, h->manifest ? "provider" : "class", h->class);
    jsonw_text(j, "guid", str_make(value_text_guid(guid, h->guid)));
    jsonw_uint(j, h->manifest ? "id" : "opcode", h->number);
    jsonw_uint(j, "first_version", h->first);
    if (h->last < VERSIONS - 1) {
        jsonw_uint(j, "last_version", h->last);
    } else {
        jsonw_null(j, "last_version");
    }
    jsonw_text(j, "name", h->name);
    jsonw_bool(j, "counted", h->counted);
    jsonw_array(j, "fields");
}

static void json_end(struct etl_layouts *l)
{
    jsonw_end(&l->json);
    jsonw_end(&l->json);
    if (l->job->format == TABLE_AS_JSONL) {
        fputs("\n", l->job->out);
    }
}

/* Whether one more row is shown; the others are counted. */
static bool takes_row(struct etl_layouts *l)
{
    bool takes = l->shown < l->limit;

    l->shown += takes;
    l->more += !takes;
    return takes;
}

static void row_json(struct etl_layouts *l, const struct etl_layouts_row *r)
{
    struct head head = head_of(r);

    head_json(l, &head);
    for (const struct layout_field *f = r->layout->fields; f->name; f++) {
        if (field_of(f, r->first)) {
            field_json(l, f);
        }
    }
    json_end(l);
}

/* "ProcessId u32, ImageFileName astring" */
static void put_fields(struct buf *b, const struct layout *layout, unsigned version)
{
    for (const struct layout_field *f = layout->fields; f->name; f++) {
        if (!field_of(f, version) || f->type == LAYOUT_END) {
            continue;
        }
        buf_put_str(b, b->n ? ", " : "");
        buf_put_str(b, f->name);
        buf_put_str(b, *f->name ? " " : "");
        put_type(b, f);
        buf_put_str(b, types[f->type].optional ? "?" : "");
    }
}

enum { CLASS, GUID, NUMBER, FIRST, LAST, NAME, COUNTED, FIELDS, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [CLASS] = {"class", "CLASS", TABLE_TEXT},       [GUID] = {"guid", NULL, TABLE_TEXT},
    [NUMBER] = {"number", "OPCODE/ID", TABLE_ID},   [FIRST] = {"first_version", "FROM", TABLE_ID},
    [LAST] = {"last_version", "TO", TABLE_ID},      [NAME] = {"name", "NAME", TABLE_TEXT},
    [COUNTED] = {"counted", "COUNTED", TABLE_FLAG}, [FIELDS] = {"fields", "FIELDS", TABLE_TEXT},
};

/* The fields are in l->text. */
static enum err head_table(struct etl_layouts *l, const struct head *h)
{
    struct table_cell cells[COLUMNS];
    char guid[UUID_TEXT];

    cells[CLASS] = table_string(h->class);
    cells[GUID] = table_string(str_make(value_text_guid(guid, h->guid)));
    cells[NUMBER] = table_number(true, h->number);
    cells[FIRST] = table_number(true, h->first);
    cells[LAST] = table_number(h->last < VERSIONS - 1, h->last);
    cells[NAME] = table_string(h->name);
    cells[COUNTED] = table_number(h->counted, h->counted);
    cells[FIELDS] = table_string((struct str){(const char *)l->text.p, l->text.n});
    return table_row(l->sheet, cells);
}

static enum err row_table(struct etl_layouts *l, const struct etl_layouts_row *r)
{
    struct head head = head_of(r);

    buf_reset(&l->text);
    put_fields(&l->text, r->layout, r->first);
    return head_table(l, &head);
}

/* -- schemas -- */

/* Of each way a field is stored: how it is called, and its bytes. */
static const struct {
    const char *name;
    int width;
} stored[] = {
    [SCHEMA_NULL] = {"nothing", 0},
    [SCHEMA_UTF16] = {"wstring", WIDTH_STRING},
    [SCHEMA_8BIT] = {"astring", WIDTH_STRING},
    [SCHEMA_I8] = {"i8", 1},
    [SCHEMA_U8] = {"u8", 1},
    [SCHEMA_I16] = {"i16", 2},
    [SCHEMA_U16] = {"u16", 2},
    [SCHEMA_I32] = {"i32", 4},
    [SCHEMA_U32] = {"u32", 4},
    [SCHEMA_I64] = {"i64", 8},
    [SCHEMA_U64] = {"u64", 8},
    [SCHEMA_F32] = {"f32", 4},
    [SCHEMA_F64] = {"f64", 8},
    [SCHEMA_BOOL32] = {"bool32", 4},
    [SCHEMA_BINARY] = {"binary", WIDTH_COUNTED},
    [SCHEMA_GUID] = {"guid", 16},
    [SCHEMA_POINTER] = {"pointer", WIDTH_POINTER},
    [SCHEMA_FILETIME] = {"filetime", 8},
    [SCHEMA_SYSTEMTIME] = {"systemtime", 16},
    [SCHEMA_SID] = {"sid", WIDTH_SID},
    [SCHEMA_HEX32] = {"hex32", 4},
    [SCHEMA_HEX64] = {"hex64", 8},
    [SCHEMA_COUNTED_UTF16] = {"wstring", WIDTH_COUNTED},
    [SCHEMA_COUNTED_8BIT] = {"astring", WIDTH_COUNTED},
    [SCHEMA_STRUCT] = {"struct", WIDTH_REST},
    [SCHEMA_COUNTED_BINARY] = {"binary", WIDTH_COUNTED},
};

#define STORED (sizeof stored / sizeof *stored)

static const char *stored_name(const struct schema_field *f)
{
    switch (f->out) {
    case SCHEMA_AS_PORT:
        return "port";
    case SCHEMA_AS_IP4:
        return "ip4";
    case SCHEMA_AS_IP6:
        return "ip6";
    default:
        break;
    }
    return f->in == SCHEMA_SIZE_T ? "size" : f->in < STORED ? stored[f->in].name : "binary";
}

static int stored_width(const struct schema_field *f)
{
    if (f->count_by != SCHEMA_BY_NOTHING) {
        return WIDTH_COUNTED;
    }
    if (f->out == SCHEMA_AS_IP6) {
        return 16;
    }
    if (f->length_by != SCHEMA_BY_NOTHING) {
        return WIDTH_COUNTED;
    }
    return f->in == SCHEMA_SIZE_T ? WIDTH_POINTER
           : f->in < STORED       ? stored[f->in].width
                                  : WIDTH_COUNTED;
}

static void schema_by(struct jsonw *j, const char *key, const struct schema_event *ev, unsigned by,
                      unsigned n)
{
    if (by == SCHEMA_BY_FIELD && n < ev->n_fields) {
        jsonw_text(j, key, ev->fields[n].name);
    } else if (by == SCHEMA_BY_CONST) {
        jsonw_uint(j, key, n);
    }
}

static void schema_field_begin(struct jsonw *j, const struct schema_event *ev,
                               const struct schema_field *f)
{
    jsonw_object(j, NULL);
    jsonw_text(j, "name", f->name);
    jsonw_text(j, "type", str_make(stored_name(f)));
    width_json(j, stored_width(f));
    schema_by(j, "count", ev, f->count_by, f->count);
    schema_by(j, "length", ev, f->length_by, f->length);
}

/* The members of a struct stand in it; of one within it, only that it is there. */
static void schema_field_json(struct jsonw *j, const struct schema_event *ev,
                              const struct schema_field *f)
{
    schema_field_begin(j, ev, f);
    if (f->in == SCHEMA_STRUCT) {
        jsonw_array(j, "fields");
        for (uint16_t i = f->first; i < ev->n_fields; i = ev->fields[i].next) {
            schema_field_begin(j, ev, &ev->fields[i]);
            jsonw_end(j);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void schema_field_text(struct buf *b, const struct schema_field *f)
{
    buf_put_str(b, b->n ? ", " : "");
    buf_put(b, f->name.p, f->name.n);
    buf_printf(b, " %s%s", stored_name(f), f->count_by != SCHEMA_BY_NOTHING ? "[]" : "");
}

struct events { /* of one provider */
    const struct schema_event **all;
    size_t n, cap;
    enum err failed;
};

static void events_add(void *ctx, const struct schema_event *ev)
{
    struct events *e = ctx;

    if (VEC_ROOM(&e->all, &e->cap, e->n + 1, SCHEMA_ITEMS_MAX) != ERR_OK) {
        e->failed = ERR_NOMEM;
        return;
    }
    e->all[e->n++] = ev;
}

static int events_by_number(const void *pa, const void *pb)
{
    const struct schema_event *a = *(const struct schema_event *const *)pa;
    const struct schema_event *b = *(const struct schema_event *const *)pb;

    return a->number != b->number ? (a->number > b->number) - (a->number < b->number)
                                  : (a->version > b->version) - (a->version < b->version);
}

static enum err schema_row(struct etl_layouts *l, const struct schema_event *ev)
{
    struct head head = {.class = ev->provider,
                        .name = ev->name,
                        .guid = ev->guid,
                        .manifest = ev->form == RAW_MANIFEST,
                        .number = ev->number,
                        .first = ev->version,
                        .last = ev->version};

    if ((l->class.n && !glob_match(l->class, ev->provider)) ||
        (l->name.n && !glob_match(l->name, ev->name))) {
        return ERR_OK;
    }
    if (!takes_row(l)) {
        return ERR_OK;
    }
    buf_reset(&l->text);
    if (!l->sheet) {
        head_json(l, &head);
    }
    for (uint16_t i = 0; i < ev->n_fields; i = ev->fields[i].next) {
        if (l->sheet) {
            schema_field_text(&l->text, &ev->fields[i]);
        } else {
            schema_field_json(&l->json, ev, &ev->fields[i]);
        }
    }
    if (l->sheet) {
        return head_table(l, &head);
    }
    json_end(l);
    return ERR_OK;
}

static enum err rows_provider(struct etl_layouts *l, const uint8_t guid[16])
{
    struct events events = {.failed = ERR_OK};
    struct schema *s;
    enum err e = schema_create(&s, SCHEMA_BYTES);

    if (e) {
        return e;
    }
    e = known_schemas_put(s, guid);
    if (!e) {
        schema_each_event(s, events_add, &events);
        e = events.failed;
    }
    if (!e && events.n) {
        qsort(events.all, events.n, sizeof *events.all, events_by_number);
    }
    for (size_t i = 0; i < events.n && !e && etl_job_out_ok(l->job); i++) {
        e = schema_row(l, events.all[i]);
    }
    mem_free(events.all);
    schema_destroy(s);
    return e;
}

/* -- all rows -- */

static bool wanted(const struct etl_layouts *l, const struct decode_class *class,
                   const struct layout *layout)
{
    return (l->class.n == 0 || glob_match(l->class, str_make(class->name))) &&
           (l->name.n == 0 || glob_match(l->name, str_make(layout->name)));
}

/* The versions that this layout is for, in ranges of equal fields. */
static enum err rows_of(struct etl_layouts *l, const struct decode_class *class,
                        const struct layout *layout)
{
    struct etl_layouts_row row = {.class = class, .layout = layout};
    bool open = false;
    enum err e = ERR_OK;

    for (unsigned v = 0; v <= VERSIONS && !e; v++) {
        bool mine = v < VERSIONS && layout_find(class->layouts, class->n_layouts, layout->opcode,
                                                (uint8_t)v) == layout;
        bool event = mine && makes_event(class, layout->opcode, v);

        if (open && !(mine && event == row.event && fields_same(layout, row.first, v))) {
            open = false;
            if (!takes_row(l)) {
                /* it is counted */
            } else if (l->sheet) {
                e = row_table(l, &row);
            } else {
                row_json(l, &row);
            }
        }
        if (mine && !open) {
            open = true;
            row.first = v;
            row.event = event;
        }
        row.last = mine ? v : row.last;
    }
    return e;
}

static enum err rows_class(struct etl_layouts *l, const struct decode_class *class)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < class->n_layouts && !e && etl_job_out_ok(l->job); i++) {
        if (wanted(l, class, &class->layouts[i])) {
            e = rows_of(l, class, &class->layouts[i]);
        }
    }
    return e;
}

static enum err rows_all(struct etl_layouts *l)
{
    uint8_t guid[16];
    enum err e = ERR_OK;

    for (size_t i = 0; i < decode_classes_n && !e; i++) {
        e = rows_class(l, decode_classes[i]);
    }
    for (size_t i = 0; layout_more_class(i) && !e; i++) {
        e = rows_class(l, layout_more_class(i));
    }
    for (size_t i = 0; known_schemas_provider(i, guid) && !e; i++) {
        e = rows_provider(l, guid);
    }
    return e;
}

static enum err list_json(struct etl_layouts *l)
{
    bool array = l->job->format == TABLE_AS_JSON;
    enum err e;

    jsonw_init(&l->json, l->job->out, array ? 1 : 0);
    if (array) {
        jsonw_array(&l->json, NULL);
    }
    e = rows_all(l);
    if (array) {
        jsonw_end(&l->json);
        fputs("\n", l->job->out);
    }
    return e;
}

static enum err list_table(struct etl_layouts *l)
{
    static const char *const yields[] = {"COUNTED", NULL};
    enum err e = etl_job_table(l->job, &l->sheet, l->job->format, columns, COLUMNS, yields);

    if (!e) {
        e = rows_all(l);
        if (l->shown + l->more == 0) {
            table_note(l->sheet, str_make("no layout matches"));
        }
        if (l->more) {
            char text[64];

            (void)snprintf(text, sizeof text, "%llu further rows (--limit)",
                           (unsigned long long)l->more);
            table_note(l->sheet, str_make(text));
        }
        table_end(l->sheet);
    }
    return e;
}

static enum err layouts_run(struct etl_job *job, struct errmsg *why)
{
    bool json = job->format == TABLE_AS_JSON || job->format == TABLE_AS_JSONL;
    const char *class = opt_value(job->args, "provider"), *name = opt_value(job->args, "event");
    struct etl_layouts l = {
        .job = job, .class = str_make(class ? class : ""), .name = str_make(name ? name : "")};
    enum err e = etl_job_number(job, "limit", UINT64_MAX, &l.limit, why);

    if (e) {
        return e;
    }
    buf_init(&l.text, FIELDS_TEXT);
    e = json ? list_json(&l) : list_table(&l);
    buf_fini(&l.text);
    return e ? errmsg_set(why, e, "cannot list the layouts: %s", err_text(e)) : ERR_OK;
}

static const struct opt opts[] = {
    {"provider", 0, "NAME", "only of classes and providers of this name; * and ? are patterns", 0},
    {"event", 'e', "NAME", "only of events of this name; * and ? are patterns", 0},
    {"limit", 'n', "N", "at most so many rows", 0},
    {"format", 'f', "table|json|jsonl|csv", "how it is printed; default table", 0},
    TABLE_OPT_WIDE,
};

static const struct opt_command layouts_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "layouts",
    .brief = "list the records that are read by tables: class, opcode or id, version, fields",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-etl layouts --provider Process\n"
        "  procfleet-etl layouts --format json > layouts.json\n"
        "\nCOUNTED: figures are made of it; other records are only shown. Of a class without\n"
        "a row here nothing but the header and the raw bytes is known.\n",
};

const struct etl_command etl_layouts_command = {&layouts_opts, NULL, layouts_run};
