/* Lengths of messages within messages are LEB128 in four bytes, whatever they are, so that each is
 * written once, when its content is there. */
#include "collector/forward/otlp.h"

#include <assert.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "common/model/event_values.h"
#include "common/model/metric.h"
#include "common/text/field.h"
#include "common/text/value_text.h"

/* Numbers of fields, as in otlp.proto. */
enum {
    EXPORT_RESOURCE = 1,
    RESOURCE_OF = 1,
    RESOURCE_SCOPES = 2,
    SCOPE_OF = 1,
    SCOPE_ITEMS = 2,
    ATTRIBUTES_OF_RESOURCE = 1,
    SCOPE_NAME = 1,
    SCOPE_VERSION = 2,
    METRIC_NAME = 1,
    METRIC_DESCRIPTION = 2,
    METRIC_UNIT = 3,
    METRIC_OF_GAUGE = 5,
    METRIC_OF_SUM = 7,
    DATA_POINTS = 1,
    SUM_TEMPORALITY = 2,
    SUM_MONOTONIC = 3,
    POINT_START = 2,
    POINT_TIME = 3,
    POINT_AS_INT = 6,
    POINT_ATTRIBUTES = 7,
    LOG_TIME = 1,
    LOG_SEVERITY = 2,
    LOG_SEVERITY_TEXT = 3,
    LOG_BODY = 5,
    LOG_ATTRIBUTES = 6,
    LOG_OBSERVED = 11,
    LOG_EVENT_NAME = 12,
    KEY = 1,
    VALUE = 2,
    VALUE_STRING = 1,
    VALUE_INTEGER = 3,
    REPLY_PARTIAL = 1,
    PARTIAL_REJECTED = 1,
    PARTIAL_MESSAGE = 2,
    STATUS_MESSAGE = 2,

    CUMULATIVE = 2,
    SEVERITY_INFO = 9,
    SEVERITY_WARN = 13,

    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,

    LENGTH_BYTES = 4,
};

#define SCOPE "procfleet"

/* -- pieces -- */

static void put_tag(struct buf *b, unsigned field, unsigned type)
{
    buf_put_varint(b, field << 3 | type);
}

static size_t put_open(struct buf *b, unsigned field)
{
    put_tag(b, field, WIRE_BYTES);
    buf_put_u32le(b, 0);
    return b->n;
}

static void put_close(struct buf *b, size_t at)
{
    size_t n = b->n - at;

    if (b->bad) {
        return;
    }
    assert(at >= LENGTH_BYTES && n <= OTLP_REQUEST_MAX);
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        b->p[at - LENGTH_BYTES + i] =
            (uint8_t)((n >> 7 * i & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
    }
}

/* UTF-8 always, as the format wants it. */
static void put_text(struct buf *b, unsigned field, struct str s)
{
    size_t n = s.n ? utf8_whole(s.p, s.n) : 0;

    put_tag(b, field, WIRE_BYTES);
    buf_put_varint(b, n);
    buf_put(b, s.p, n);
}

static void put_fixed64(struct buf *b, unsigned field, int64_t v)
{
    put_tag(b, field, WIRE_FIXED64);
    buf_put_u64le(b, (uint64_t)v);
}

static void put_number(struct buf *b, unsigned field, uint64_t v)
{
    put_tag(b, field, WIRE_VARINT);
    buf_put_varint(b, v);
}

static void put_attribute(struct buf *b, unsigned field, const char *key, struct str value)
{
    size_t at, value_at;

    if (value.n == 0) {
        return;
    }
    at = put_open(b, field);
    put_text(b, KEY, str_make(key));
    value_at = put_open(b, VALUE);
    put_text(b, VALUE_STRING, value);
    put_close(b, value_at);
    put_close(b, at);
}

static void put_attribute_int(struct buf *b, unsigned field, const char *key, int64_t value)
{
    size_t at = put_open(b, field), value_at;

    put_text(b, KEY, str_make(key));
    value_at = put_open(b, VALUE);
    put_number(b, VALUE_INTEGER, (uint64_t)value);
    put_close(b, value_at);
    put_close(b, at);
}

/* -- the host, and what begins a request's part of it -- */

struct part {
    size_t resource, scope;
};

static struct part part_open(struct buf *b, const struct uuid *host, struct str name)
{
    struct part p = {.resource = put_open(b, EXPORT_RESOURCE)};
    char id[UUID_TEXT];
    size_t at = put_open(b, RESOURCE_OF);

    put_attribute(b, ATTRIBUTES_OF_RESOURCE, "service.name", str_make(SCOPE));
    put_attribute(b, ATTRIBUTES_OF_RESOURCE, "host.name", name);
    put_attribute(b, ATTRIBUTES_OF_RESOURCE, "host.id", str_make(uuid_format(id, host)));
    put_close(b, at);
    p.scope = put_open(b, RESOURCE_SCOPES);
    at = put_open(b, SCOPE_OF);
    put_text(b, SCOPE_NAME, str_make(SCOPE));
    put_text(b, SCOPE_VERSION, str_make(PROCFLEET_VERSION));
    put_close(b, at);
    return p;
}

static void part_close(struct buf *b, const struct part *p)
{
    put_close(b, p->scope);
    put_close(b, p->resource);
}

/* -- logs -- */

/* Each text with its length, so that two never run into one. */
static void id_put_text(struct buf *b, struct str s)
{
    buf_put_varint(b, s.n);
    buf_put(b, s.p, s.n);
}

void otlp_event_id(char text[OTLP_ID_TEXT], const struct uuid *host, const struct life_event *ev)
{
    static const char hex[] = "0123456789abcdef";
    const struct proc_info *p = &ev->info;
    uint64_t sums[2] = {0, 0};
    struct buf b;

    buf_init(&b, 1u << 20);
    buf_put(&b, host, sizeof *host);
    buf_put_u8(&b, ev->kind);
    buf_put_svarint(&b, ev->wall_ns);
    buf_put_svarint(&b, ev->mono_ns);
    buf_put_varint(&b, ev->tid);
    buf_put_varint(&b, p->id.pid);
    buf_put_varint(&b, p->id.start);
    buf_put_varint(&b, p->have & INFO_EXIT_CODE ? p->exit_code + UINT64_C(1) : 0);
    id_put_text(&b, p->name);
    id_put_text(&b, ev->text);
    id_put_text(&b, ev->values);
    if (ev->type) {
        buf_put(&b, ev->type->guid, sizeof ev->type->guid);
        buf_put_varint(&b, ev->type->id);
    }
    sums[0] = hash_bytes(b.p, b.n, 1);
    sums[1] = hash_bytes(b.p, b.n, 2);
    for (size_t i = 0; i < OTLP_ID_TEXT - 1; i++) {
        text[i] = hex[sums[i / 16] >> 4 * (15 - i % 16) & 15];
    }
    text[OTLP_ID_TEXT - 1] = '\0';
    buf_fini(&b);
}

static void log_process(struct buf *b, const struct life_event *ev)
{
    const struct proc_info *p = &ev->info;

    put_attribute_int(b, LOG_ATTRIBUTES, "process.pid", p->id.pid);
    if (p->have & INFO_PARENT) {
        put_attribute_int(b, LOG_ATTRIBUTES, "process.parent_pid", p->parent_pid);
    }
    put_attribute(b, LOG_ATTRIBUTES, "process.executable.name", p->name);
    put_attribute(b, LOG_ATTRIBUTES, "process.executable.path", p->image);
    put_attribute(b, LOG_ATTRIBUTES, "process.command_line", p->command_line);
    put_attribute(b, LOG_ATTRIBUTES, "process.owner", p->user);
    if (ev->kind == LIFE_PROCESS_STOP && (p->have & INFO_EXIT_CODE)) {
        put_attribute_int(b, LOG_ATTRIBUTES, "process.exit.code", p->exit_code);
    }
    if (ev->tid) {
        put_attribute_int(b, LOG_ATTRIBUTES, "thread.id", ev->tid);
    }
}

/* The values of an event with a type, as people read them. */
static void log_values(struct buf *b, const struct life_event *ev)
{
    struct value_people people;
    struct value_sink sink;
    struct buf text;

    if (!ev->type) {
        return;
    }
    buf_init(&text, 64u << 10);
    sink = value_text_people(&people, &text);
    if (event_values_read(ev->type->fields, ev->type->n_fields, ev->values, &sink) == ERR_OK &&
        !text.bad) {
        put_attribute(b, LOG_ATTRIBUTES, "procfleet.event.values",
                      (struct str){(const char *)text.p, text.n});
    }
    buf_fini(&text);
    put_attribute(b, LOG_ATTRIBUTES, "procfleet.provider", ev->type->provider);
    put_attribute(b, LOG_ATTRIBUTES, "procfleet.provider.event", ev->type->name);
    put_attribute_int(b, LOG_ATTRIBUTES, "procfleet.provider.event_id", ev->type->id);
}

static void log_body(struct buf *b, const struct life_event *ev, const char *kind)
{
    struct str what = ev->text.n                ? ev->text
                      : ev->info.command_line.n ? ev->info.command_line
                                                : ev->info.name;
    size_t at = put_open(b, LOG_BODY);
    char line[256];
    int n = snprintf(line, sizeof line, "%s %.*s", kind, (int)(what.n < 200 ? what.n : 200),
                     what.n ? what.p : "");

    put_text(b, VALUE_STRING, (struct str){line, n > 0 ? utf8_whole(line, strlen(line)) : 0});
    put_close(b, at);
}

static void log_record(struct buf *b, const struct uuid *host, const struct life_event *ev,
                       int64_t now_ns)
{
    const char *kind = field_kind_name(ev->kind);
    bool warn = ev->kind == LIFE_LEVEL || ev->kind == LIFE_SOURCE || ev->kind == LIFE_RULE;
    size_t at = put_open(b, SCOPE_ITEMS);
    char id[OTLP_ID_TEXT], name[64];

    kind = kind ? kind : "unknown";
    (void)snprintf(name, sizeof name, "procfleet.%s", kind);
    otlp_event_id(id, host, ev);
    put_fixed64(b, LOG_TIME, ev->wall_ns);
    put_fixed64(b, LOG_OBSERVED, now_ns);
    put_number(b, LOG_SEVERITY, warn ? SEVERITY_WARN : SEVERITY_INFO);
    put_text(b, LOG_SEVERITY_TEXT, str_make(warn ? "WARN" : "INFO"));
    log_body(b, ev, kind);
    put_attribute(b, LOG_ATTRIBUTES, "log.record.uid", str_make(id));
    if (!life_is_of_host(ev->kind)) {
        log_process(b, ev);
    }
    put_attribute(b, LOG_ATTRIBUTES, "procfleet.text", ev->text);
    if (life_has_values(ev->kind)) {
        log_values(b, ev);
    }
    put_text(b, LOG_EVENT_NAME, str_make(name));
    put_close(b, at);
}

size_t otlp_logs(struct buf *out, const struct wire_update *u, int64_t now_ns)
{
    struct part part;

    if (u->data.n_events == 0) {
        return 0;
    }
    part = part_open(out, &u->host, u->name);
    for (size_t i = 0; i < u->data.n_events; i++) {
        log_record(out, &u->host, &u->data.events[i].event, now_ns);
    }
    part_close(out, &part);
    return u->data.n_events;
}

/* -- metrics -- */

static const char *unit_of(const struct metric *m)
{
    switch (m->unit) {
    case UNIT_NS:
        return "ns";
    case UNIT_BYTES:
        return "By";
    default:
        return "1";
    }
}

static void point(struct buf *b, const struct program_sums_tick *t,
                  const struct program_sums_row *row, bool sum, int64_t value)
{
    size_t at = put_open(b, DATA_POINTS);

    if (sum) {
        put_fixed64(b, POINT_START, row->start_ns);
    }
    put_fixed64(b, POINT_TIME, t->when_ns);
    put_fixed64(b, POINT_AS_INT, value);
    put_attribute(b, POINT_ATTRIBUTES, "process.executable.name", row->name);
    put_close(b, at);
}

struct series {
    const char *of, *name, *unit, *help;
    bool sum;
    size_t column; /* SIZE_MAX: the number of processes */
};

static bool series_value(const struct series *s, const struct program_sums_row *row, int64_t *v)
{
    if (s->column == SIZE_MAX) {
        *v = row->processes;
        return true;
    }
    *v = row->values[s->column];
    return (row->have >> s->column & 1) && (s->sum || row->processes > 0);
}

/* Rows [from, to). A metric that no row has is no metric. */
static size_t series_put(struct buf *b, const struct program_sums_tick *t, const struct series *s,
                         size_t from, size_t to)
{
    size_t begin = b->n, at = put_open(b, SCOPE_ITEMS), data_at, n = 0;
    char name[96];
    int64_t v;

    (void)snprintf(name, sizeof name, SCOPE ".%s.%s", s->of, s->name);
    put_text(b, METRIC_NAME, str_make(name));
    put_text(b, METRIC_DESCRIPTION, str_make(s->help));
    put_text(b, METRIC_UNIT, str_make(s->unit));
    data_at = put_open(b, s->sum ? METRIC_OF_SUM : METRIC_OF_GAUGE);
    for (size_t i = from; i < to; i++) {
        if (series_value(s, &t->rows[i], &v)) {
            point(b, t, &t->rows[i], s->sum, v);
            n++;
        }
    }
    if (s->sum) {
        put_number(b, SUM_TEMPORALITY, CUMULATIVE);
        put_number(b, SUM_MONOTONIC, 1);
    }
    put_close(b, data_at);
    put_close(b, at);
    b->n = n || b->bad ? b->n : begin;
    return n;
}

/* Row 0 is the host's. */
static size_t series_both(struct buf *b, const struct program_sums_tick *t, size_t from, size_t to,
                          struct series s)
{
    size_t n = 0;

    if (from == 0 && to > 0) {
        s.of = "host";
        n = series_put(b, t, &s, 0, 1);
        from = 1;
    }
    s.of = "program";
    return n + series_put(b, t, &s, from, to);
}

size_t otlp_metrics(struct buf *out, const struct program_sums_tick *t, size_t from, size_t to,
                    const uint8_t *metrics, size_t n_metrics)
{
    struct part part = part_open(out, &t->host, t->name);
    size_t n = series_both(out, t, from, to,
                           (struct series){.name = "processes",
                                           .unit = "1",
                                           .help = "processes that are there",
                                           .column = SIZE_MAX});

    for (size_t i = 0; i < n_metrics; i++) {
        const struct metric *m = metric_by_id(metrics[i]);

        n += series_both(out, t, from, to,
                         (struct series){.name = m->name,
                                         .unit = unit_of(m),
                                         .help = m->help,
                                         .sum = m->kind == METRIC_COUNTER,
                                         .column = i});
    }
    part_close(out, &part);
    return n;
}

/* -- replies -- */

/* One field: a number, or bytes. False: the end, or what is no field (c->bad). */
static bool reply_field(struct cur *c, unsigned *field, uint64_t *number, struct str *bytes)
{
    uint64_t tag;

    if (c->bad || cur_left(c) == 0) {
        return false;
    }
    tag = cur_varint(c);
    *number = 0;
    *bytes = (struct str){"", 0};
    switch (tag & 7) {
    case WIRE_VARINT:
        *number = cur_varint(c);
        break;
    case WIRE_FIXED64:
        cur_skip(c, 8);
        break;
    case WIRE_FIXED32:
        cur_skip(c, 4);
        break;
    case WIRE_BYTES: {
        uint64_t n = cur_varint(c);
        const uint8_t *p = n <= cur_left(c) ? cur_bytes(c, (size_t)n) : NULL;

        c->bad = c->bad || !p;
        *bytes = p ? (struct str){(const char *)p, (size_t)n} : *bytes;
        break;
    }
    default: /* groups, which nobody sends any more */
        c->bad = true;
    }
    c->bad = c->bad || tag >> 3 == 0 || tag >> 3 > 0x1fffffff;
    *field = (unsigned)(tag >> 3 & 0x1fffffff);
    return !c->bad && (tag & 7) <= WIRE_FIXED32;
}

static struct str reply_text(struct str s)
{
    return (struct str){s.p, s.n ? utf8_whole(s.p, s.n) : 0};
}

static bool partial_read(struct otlp_reply *out, struct str bytes)
{
    struct cur c = cur_make(bytes.p, bytes.n);
    uint64_t number;
    unsigned field;
    struct str s;

    while (reply_field(&c, &field, &number, &s)) {
        if (field == PARTIAL_REJECTED) {
            out->rejected = number <= INT64_MAX ? number : 0; /* signed, and never below 0 */
        } else if (field == PARTIAL_MESSAGE) {
            out->message = reply_text(s);
        }
    }
    return !c.bad;
}

enum err otlp_reply_read(struct otlp_reply *out, const void *p, size_t n)
{
    struct cur c = cur_make(p, n);
    struct otlp_reply r = {.rejected = 0, .message = {"", 0}};
    uint64_t number;
    unsigned field;
    struct str s;

    while (reply_field(&c, &field, &number, &s)) {
        if (field == REPLY_PARTIAL && !partial_read(&r, s)) {
            return ERR_CORRUPT;
        }
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    *out = r;
    return ERR_OK;
}

struct str otlp_status_message(const void *p, size_t n)
{
    struct cur c = cur_make(p, n);
    struct str s, message = {"", 0};
    uint64_t number;
    unsigned field;

    while (reply_field(&c, &field, &number, &s)) {
        if (field == STATUS_MESSAGE) {
            message = reply_text(s);
        }
    }
    return c.bad ? (struct str){"", 0} : message;
}
