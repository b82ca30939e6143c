#include "collector/console/api_json.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collector/console/api_lifetimes.h"
#include "collector/console/api_outliers.h"
#include "collector/console/api_value.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "common/text/field.h"
#include "common/text/jsonw.h"
#include "common/wire/wire_overview.h"
#include "common/wire/wire_series.h"

#define FIELDS_MAX 32u

static const char *const tier_names[] = {"head", "raw", "summaries", "10s", "1min", "1h"};

static void json_begin(struct jsonw *j, struct buf *out)
{
    jsonw_init_buf(j, out);
    j->compact = true;
}

/* -- values -- */

/* 0: it is not known. */
static void put_ns_known(struct jsonw *j, const char *key, int64_t ns)
{
    if (ns) {
        api_value_ns(j, key, ns);
    } else {
        jsonw_null(j, key);
    }
}

static void put_text_known(struct jsonw *j, const char *key, struct str text)
{
    if (text.n) {
        jsonw_bytes(j, key, text);
    } else {
        jsonw_null(j, key);
    }
}

static void put_uint_known(struct jsonw *j, const char *key, bool known, uint64_t v)
{
    if (known) {
        jsonw_uint(j, key, v);
    } else {
        jsonw_null(j, key);
    }
}

static void put_figure(struct jsonw *j, const char *key, enum table_unit unit, bool known,
                       int64_t v)
{
    struct table_cell c = table_number(known, v);

    table_put_json(j, key, unit, &c);
}

static void put_uuid(struct jsonw *j, const char *key, const struct uuid *id)
{
    char text[UUID_TEXT];

    jsonw_text(j, key, str_make(uuid_format(text, id)));
}

static void put_hex(struct jsonw *j, const char *key, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    char text[2 * WIRE_CURSOR_MAX + 1] = "";

    assert(n <= WIRE_CURSOR_MAX);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", p[i]);
    }
    jsonw_text(j, key, str_make(text));
}

static enum table_unit metric_unit(uint8_t id)
{
    return table_unit_of(metric_by_id(id));
}

/* -- the envelope -- */

/* What it is known by; in answers of `hosts` alone. */
static void put_facts(struct jsonw *j, const struct wire_host *h)
{
    if (!h->facts) {
        return;
    }
    put_text_known(j, "class", h->class);
    jsonw_object(j, "labels");
    for (size_t i = 0; i < h->facts->n_labels; i++) {
        const struct label *l = &h->facts->labels[i];
        char key[INVENTORY_TEXT_MAX + 1];

        (void)snprintf(key, sizeof key, "%.*s", (int)l->key.n, l->key.p ? l->key.p : "");
        jsonw_bytes(j, key, l->value);
    }
    jsonw_end(j);
}

static void put_host(struct jsonw *j, const struct wire_host *h)
{
    bool offset = h->has_offset || h->offset_ns != 0;

    jsonw_object(j, NULL);
    put_uuid(j, "id", &h->id);
    jsonw_bytes(j, "name", h->name);
    put_text_known(j, "source", h->source);
    put_text_known(j, "version", h->version);
    put_uuid(j, "boot", &h->boot);
    jsonw_bool(j, "connected", h->connected);
    jsonw_bool(j, "polled", h->polled);
    jsonw_bool(j, "replay", h->replay);
    jsonw_bool(j, "ended", h->ended);
    jsonw_bool(j, "revoked", h->revoked);
    jsonw_bool(j, "forgotten", h->forgotten);
    put_uint_known(j, "cpus", h->cpus != 0, h->cpus);
    jsonw_uint(j, "processes", h->processes);
    put_figure(j, "cpu_percent", TABLE_PERMILLE, h->has_cpu, h->cpu_permille);
    put_figure(j, "working_set_size", TABLE_BYTES, h->has_memory, h->memory);
    put_ns_known(j, "first_ns", h->first_ns);
    put_ns_known(j, "last_ns", h->last_ns);
    put_ns_known(j, "heard_ns", h->heard_ns);
    if (offset) {
        api_value_ns(j, "offset_ns", h->offset_ns);
    } else {
        jsonw_null(j, "offset_ns");
    }
    if (h->has_offset) {
        api_value_ns(j, "offset_error_ns", h->offset_error_ns);
    } else {
        jsonw_null(j, "offset_error_ns");
    }
    put_ns_known(j, "not_after_ns", h->not_after_ns);
    jsonw_wide(j, "batches", h->batches);
    jsonw_wide(j, "duplicates", h->duplicates);
    jsonw_wide(j, "gaps", h->gaps);
    jsonw_wide(j, "lost_events", h->lost_events);
    jsonw_uint(j, "clones", h->clones);
    put_facts(j, h);
    jsonw_end(j);
}

static void put_loss_span(struct jsonw *j, const struct wire_loss_span *s)
{
    jsonw_object(j, NULL);
    api_value_ns(j, "first_ns", s->first_ns);
    api_value_ns(j, "last_ns", s->last_ns);
    jsonw_uint(j, "ticks", s->ticks);
    jsonw_uint(j, "events", s->events);
    jsonw_end(j);
}

static void put_stage(struct jsonw *j, const struct wire_stage *s)
{
    jsonw_object(j, NULL);
    jsonw_bytes(j, "stage", s->stage);
    jsonw_bytes(j, "reason", s->reason);
    jsonw_wide(j, "count", s->count);
    jsonw_text(j, "role", str_make(ledger_role_name(s->role)));
    jsonw_text(j, "unit", str_make(ledger_unit_name(s->unit)));
    jsonw_bool(j, "loss", s->loss);
    put_ns_known(j, "first_ns", s->first_ns);
    put_ns_known(j, "last_ns", s->last_ns);
    jsonw_end(j);
}

static void put_coverage_host(struct jsonw *j, const struct wire_coverage *c)
{
    jsonw_object(j, NULL);
    jsonw_uint(j, "host", c->host);
    api_value_ns(j, "since_ns", c->since_ns);
    api_value_ns(j, "until_ns", c->until_ns);
    jsonw_uint(j, "ppm", c->ppm);
    put_uint_known(j, "ticks_ppm", c->has_ticks, c->ticks_ppm);
    put_uint_known(j, "events_ppm", c->has_events, c->events_ppm);
    jsonw_bool(j, "at_most", c->at_most);
    jsonw_bool(j, "missing", c->missing);
    jsonw_uint(j, "ticks", c->ticks);
    jsonw_uint(j, "lost_ticks", c->lost_ticks);
    jsonw_uint(j, "events", c->events);
    jsonw_uint(j, "lost_events", c->lost_events);
    jsonw_uint(j, "lost_rows", c->lost_rows);
    jsonw_uint(j, "missing_batches", c->missing_batches);
    jsonw_array(j, "spans");
    for (size_t i = 0; i < c->n_spans; i++) {
        put_loss_span(j, &c->spans[i]);
    }
    jsonw_end(j);
    jsonw_array(j, "stages");
    for (size_t i = 0; i < c->n_stages; i++) {
        put_stage(j, &c->stages[i]);
    }
    jsonw_end(j);
    jsonw_end(j);
}

/* It is worked out with the first page; later ones have null. */
static void put_coverage(struct jsonw *j, const struct query_answer *a)
{
    if (!a->data.sum.known) {
        jsonw_null(j, "coverage");
        return;
    }
    jsonw_object(j, "coverage");
    jsonw_uint(j, "ppm", a->data.sum.ppm);
    jsonw_bool(j, "at_most", a->data.sum.at_most);
    jsonw_uint(j, "lost_ticks", a->data.sum.lost_ticks);
    jsonw_uint(j, "lost_events", a->data.sum.lost_events);
    jsonw_array(j, "hosts");
    for (size_t i = 0; i < a->data.n_coverage; i++) {
        put_coverage_host(j, &a->data.coverage[i]);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void put_envelope(struct jsonw *j, const struct query_answer *x)
{
    const struct wire_answer *a = &x->data;

    api_value_ns(j, "since_ns", a->since_ns);
    api_value_ns(j, "until_ns", a->until_ns);
    jsonw_bool(j, "partial", a->partial);
    jsonw_array(j, "notes");
    for (size_t i = 0; i < a->n_notes; i++) {
        jsonw_bytes(j, NULL, a->notes[i]);
    }
    jsonw_end(j);
    put_coverage(j, x);
    jsonw_object(j, "used");
    for (size_t i = 0; i < sizeof tier_names / sizeof *tier_names; i++) {
        jsonw_uint(j, tier_names[i], i < a->n_used ? a->used[i] : 0);
    }
    jsonw_end(j);
    jsonw_uint(j, "damaged", a->damaged);
    jsonw_array(j, "hosts");
    for (size_t i = 0; i < a->n_hosts; i++) {
        put_host(j, &a->hosts[i]);
    }
    jsonw_end(j);
    jsonw_array(j, "metrics");
    for (size_t i = 0; i < a->n_metrics; i++) {
        jsonw_text(j, NULL, str_make(metric_by_id(a->metrics[i])->name));
    }
    jsonw_end(j);
    jsonw_bool(j, "more", x->more);
    if (x->more) {
        put_hex(j, "cursor", x->cursor, x->cursor_n);
    } else {
        jsonw_null(j, "cursor");
    }
}

/* -- rows as columns -- */

/* Fields of a process under the API's keys. */
static const struct {
    const char *key;
    enum field what;
} info_fields[] = {
    {"pid", FIELD_PID},
    {"parent", FIELD_PARENT_PID},
    {"start", FIELD_START},
    {"start_ns", FIELD_CREATE_TIME},
    {"end_ns", FIELD_EXIT_TIME},
    {"exit_code", FIELD_EXIT_CODE},
    {"name", FIELD_NAME},
    {"path", FIELD_IMAGE},
    {"command", FIELD_COMMAND_LINE},
    {"command_line_cut", FIELD_COMMAND_LINE_CUT},
    {"user", FIELD_USER},
    {"session_id", FIELD_SESSION_ID},
    {"exit_inferred", FIELD_EXIT_INFERRED},
    {"final_totals", FIELD_FINAL_TOTALS},
    {"origin", FIELD_ORIGIN},
    {"cpu_time_origin", FIELD_CPU_TIME_ORIGIN},
};

#define INFO_FIELDS (sizeof info_fields / sizeof *info_fields)

static void put_info(struct jsonw *j, const struct wire_answer *a, const struct wire_row *row)
{
    jsonw_object(j, NULL);
    for (size_t i = 0; i < INFO_FIELDS; i++) {
        struct table_cell c = field_of_row((int)info_fields[i].what, a, row);

        table_put_json(j, info_fields[i].key, field_column(info_fields[i].what)->unit, &c);
    }
    jsonw_end(j);
}

static bool infos_are_same(const struct wire_row *x, const struct wire_row *y)
{
    return x->host == y->host && proc_id_eq(x->info.id, y->info.id) &&
           x->info.have == y->info.have && x->info.exit_ns == y->info.exit_ns &&
           str_eq(x->info.name, y->info.name) && str_eq(x->info.user, y->info.user);
}

/* Each info once: writes them and the place of each row's into `place`. */
static enum err put_infos(struct jsonw *j, const struct wire_answer *a, uint32_t *place)
{
    struct map by_hash = {0};
    uint32_t *first = mem_array(a->n_rows, sizeof *first), n = 0;
    enum err e = first ? ERR_OK : ERR_NOMEM;

    jsonw_array(j, "infos");
    for (size_t i = 0; !e && i < a->n_rows; i++) {
        const struct wire_row *r = &a->rows[i];
        uint64_t key = hash_bytes(r->info.name.p, r->info.name.n,
                                  r->info.id.start ^ ((uint64_t)r->info.id.pid << 32 | r->host));
        uint64_t at;

        while ((at = map_get(&by_hash, key)) != 0 && !infos_are_same(&a->rows[first[at - 1]], r)) {
            key++;
        }
        if (!at) {
            e = map_reserve(&by_hash);
            if (e) {
                break;
            }
            first[n++] = (uint32_t)i;
            at = n;
            (void)map_put(&by_hash, key, at);
            put_info(j, a, r);
        }
        place[i] = (uint32_t)at - 1;
    }
    jsonw_end(j);
    map_fini(&by_hash);
    mem_free(first);
    return e;
}

static struct str row_label(const struct wire_answer *a, const struct wire_row *r,
                            unsigned group_by)
{
    switch (group_by) {
    case WIRE_GROUP_USER:
        return r->info.user;
    case WIRE_GROUP_HOST:
        return a->hosts[r->host].name;
    case WIRE_GROUP_FLEET:
        return str_make("fleet");
    default:
        return r->info.name;
    }
}

static void put_metric_columns(struct jsonw *j, const struct wire_answer *a)
{
    jsonw_object(j, "values");
    for (size_t m = 0; m < a->n_metrics; m++) {
        enum table_unit unit = metric_unit(a->metrics[m]);

        jsonw_array(j, metric_by_id(a->metrics[m])->name);
        for (size_t i = 0; i < a->n_rows; i++) {
            struct table_cell c = table_number(wire_row_has(&a->rows[i], m),
                                               a->rows[i].values ? a->rows[i].values[m] : 0);

            table_put_json(j, NULL, unit, &c);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_column(struct jsonw *j, const char *key, const struct wire_answer *a,
                       void (*put)(struct jsonw *j, const struct wire_row *r))
{
    jsonw_array(j, key);
    for (size_t i = 0; i < a->n_rows; i++) {
        put(j, &a->rows[i]);
    }
    jsonw_end(j);
}

static void put_row_host(struct jsonw *j, const struct wire_row *r)
{
    jsonw_uint(j, NULL, r->host);
}

static void put_row_time(struct jsonw *j, const struct wire_row *r)
{
    api_value_ms(j, NULL, r->when_ns);
}

static void put_row_instances(struct jsonw *j, const struct wire_row *r)
{
    jsonw_uint(j, NULL, r->instances ? r->instances : 1);
}

static void put_row_hosts(struct jsonw *j, const struct wire_row *r)
{
    put_uint_known(j, NULL, r->hosts != 0, r->hosts);
}

static void put_row_depth(struct jsonw *j, const struct wire_row *r)
{
    jsonw_uint(j, NULL, r->depth);
}

static enum err put_columns(struct jsonw *j, enum query_kind kind, unsigned group_by,
                            const struct wire_answer *a)
{
    uint32_t *place = mem_array(a->n_rows, sizeof *place);
    enum err e = place ? put_infos(j, a, place) : ERR_NOMEM;

    if (e) {
        mem_free(place);
        return e;
    }
    jsonw_object(j, "rows");
    jsonw_uint(j, "n", a->n_rows);
    put_column(j, "host", a, put_row_host);
    api_value_u32s(j, "info", place, a->n_rows);
    put_column(j, "time_ms", a, put_row_time);
    put_column(j, "instances", a, put_row_instances);
    put_column(j, "hosts", a, put_row_hosts);
    if (kind == QUERY_TREE) {
        put_column(j, "depth", a, put_row_depth);
    }
    if (a->series) {
        jsonw_array(j, "label");
        for (size_t i = 0; i < a->n_rows; i++) {
            jsonw_bytes(j, NULL, row_label(a, &a->rows[i], group_by));
        }
        jsonw_end(j);
    }
    put_metric_columns(j, a);
    jsonw_end(j);
    mem_free(place);
    return ERR_OK;
}

/* -- rows as the command line prints them -- */

struct fields_list {
    size_t n;
    enum field what[FIELDS_MAX];
};

static void list_add(struct fields_list *l, enum field what)
{
    assert(l->n < FIELDS_MAX);
    l->what[l->n++] = what;
}

static void list_add_process(struct fields_list *l)
{
    list_add(l, FIELD_HOST);
    for (size_t i = 0; i < INFO_FIELDS; i++) {
        list_add(l, info_fields[i].what);
    }
}

static void list_top(struct fields_list *l, const struct wire_query *q)
{
    unsigned by = q->group_by;

    if (by == WIRE_GROUP_NONE || by == WIRE_GROUP_TREE) {
        list_add_process(l);
    } else if (by == WIRE_GROUP_IMAGE) {
        list_add(l, FIELD_NAME);
    } else if (by == WIRE_GROUP_USER) {
        list_add(l, FIELD_USER);
    } else if (by == WIRE_GROUP_HOST) {
        list_add(l, FIELD_HOST);
    } else if (by == WIRE_GROUP_IMAGE_USER) {
        list_add(l, FIELD_NAME);
        list_add(l, FIELD_USER);
    }
    if (by == WIRE_GROUP_IMAGE || by == WIRE_GROUP_USER || by == WIRE_GROUP_FLEET ||
        by == WIRE_GROUP_IMAGE_USER) {
        list_add(l, FIELD_HOSTS);
    }
    if (by != WIRE_GROUP_NONE || q->folded) {
        list_add(l, FIELD_INSTANCES);
    }
}

static void list_make(struct fields_list *l, enum query_kind kind, const struct wire_query *q)
{
    static const enum field of_history[] = {FIELD_HOST, FIELD_PID, FIELD_NAME, FIELD_START,
                                            FIELD_CPU_TIME_ORIGIN};

    l->n = 0;
    if (kind != QUERY_TOP) {
        list_add(l, FIELD_TIME);
    }
    if (kind == QUERY_TOP) {
        list_top(l, q);
    } else if (kind == QUERY_HISTORY) {
        for (size_t i = 0; i < sizeof of_history / sizeof *of_history; i++) {
            list_add(l, of_history[i]);
        }
        if (q->folded) {
            list_add(l, FIELD_INSTANCES);
        }
    } else {
        list_add_process(l);
    }
    if (kind == QUERY_TREE) {
        list_add(l, FIELD_DEPTH);
    } else if (kind == QUERY_EVENTS) {
        list_add(l, FIELD_KIND);
        list_add(l, FIELD_TID);
        list_add(l, FIELD_PATH);
        list_add(l, FIELD_TEXT);
        for (enum field what = FIELD_PROVIDER; what <= FIELD_REDACTED; what++) {
            list_add(l, what);
        }
    }
}

/* Beside a row's time stands the same in milliseconds, for those who cannot read ns. */
static void put_cell(struct jsonw *j, const struct table_column *column,
                     const struct table_cell *cell)
{
    if (cell->state != TABLE_ABSENT) {
        table_put_json(j, column->key, column->unit, cell);
    }
    if (cell->state == TABLE_NUMBER && column == field_column(FIELD_TIME)) {
        api_value_ms(j, "time_ms", cell->number);
    }
}

static void put_row_flat(struct jsonw *j, const struct fields_list *l, const struct wire_answer *a,
                         const struct wire_row *row)
{
    jsonw_object(j, NULL);
    for (size_t i = 0; i < l->n; i++) {
        struct table_cell c = field_of_row((int)l->what[i], a, row);

        put_cell(j, field_column(l->what[i]), &c);
    }
    for (size_t i = 0; i < a->n_metrics; i++) {
        struct table_cell c = field_of_row(FIELD_METRIC + a->metrics[i], a, row);
        struct table_column column = {metric_by_id(a->metrics[i])->name, NULL,
                                      metric_unit(a->metrics[i])};

        put_cell(j, &column, &c);
    }
    jsonw_end(j);
}

static void put_flat(struct jsonw *j, enum query_kind kind, const struct wire_query *q,
                     const struct wire_answer *a)
{
    struct field_room room;
    struct fields_list l;

    field_room_init(&room);
    list_make(&l, kind, q);
    jsonw_array(j, "rows");
    for (size_t i = 0; i < a->n_rows; i++) {
        put_row_flat(j, &l, a, &a->rows[i]);
    }
    for (size_t i = 0; i < a->n_events; i++) {
        jsonw_object(j, NULL);
        for (size_t k = 0; k < l.n; k++) {
            struct table_cell c = field_of_event((int)l.what[k], a, &a->events[i], &room);

            put_cell(j, field_column(l.what[k]), &c);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
    field_room_fini(&room);
}

/* -- events -- */

/* Of a provider: what it says. */
static void put_provider(struct jsonw *j, const struct wire_answer *a, const struct wire_event *ev,
                         struct field_room *room)
{
    for (enum field what = FIELD_PROVIDER; what <= FIELD_REDACTED; what++) {
        struct table_cell c = field_of_event((int)what, a, ev, room);

        put_cell(j, field_column(what), &c);
    }
}

static void put_event(struct jsonw *j, const struct wire_answer *a, const struct wire_event *ev,
                      struct field_room *room)
{
    static const struct {
        const char *key;
        enum field what;
    } more[] = {{"kind", FIELD_KIND}, {"tid", FIELD_TID}, {"text", FIELD_TEXT}};
    bool of_image = ev->event.kind == LIFE_IMAGE_LOAD || ev->event.kind == LIFE_IMAGE_UNLOAD;

    jsonw_object(j, NULL);
    jsonw_uint(j, "host", ev->host);
    api_value_ns(j, "time_ns", ev->event.wall_ns);
    api_value_ms(j, "time_ms", ev->event.wall_ns);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        struct table_cell c = field_of_event((int)more[i].what, a, ev, room);

        table_put_json(j, more[i].key, field_column(more[i].what)->unit, &c);
    }
    for (size_t i = 0; i < INFO_FIELDS; i++) {
        enum field what =
            of_image && info_fields[i].what == FIELD_IMAGE ? FIELD_PATH : info_fields[i].what;
        struct table_cell c = field_of_event((int)what, a, ev, room);

        table_put_json(j, info_fields[i].key, field_column(what)->unit, &c);
    }
    if (ev->event.type) {
        put_provider(j, a, ev, room);
    }
    jsonw_end(j);
}

static void put_events(struct jsonw *j, const struct wire_answer *a)
{
    struct field_room room;

    field_room_init(&room);
    jsonw_array(j, "events");
    for (size_t i = 0; i < a->n_events; i++) {
        put_event(j, a, &a->events[i], &room);
    }
    jsonw_end(j);
    field_room_fini(&room);
}

/* -- series -- */

static void put_buckets(struct jsonw *j, const char *key, const struct wire_series_column *c,
                        const int64_t *values, uint32_t n, enum table_unit unit)
{
    jsonw_array(j, key);
    for (uint32_t b = 0; b < n; b++) {
        struct table_cell cell = table_number(wire_series_has(c, b), values[b]);

        table_put_json(j, NULL, unit, &cell);
    }
    jsonw_end(j);
}

/* WIRE_SERIES_NONE is null. */
static void put_pulse(struct jsonw *j, const char *key, const uint32_t *v, uint32_t n)
{
    jsonw_array(j, key);
    for (uint32_t b = 0; b < n; b++) {
        put_uint_known(j, NULL, v[b] != WIRE_SERIES_NONE, v[b]);
    }
    jsonw_end(j);
}

static void put_series_group(struct jsonw *j, unsigned group_by, const struct wire_answer *a,
                             size_t g)
{
    const struct wire_series *s = a->series;

    jsonw_object(j, NULL);
    if (g < a->n_rows) {
        jsonw_bytes(j, "label", row_label(a, &a->rows[g], group_by));
    } else {
        jsonw_null(j, "label");
    }
    jsonw_object(j, "columns");
    for (unsigned i = 0; i < a->n_metrics; i++) {
        const struct wire_series_column *c = &s->columns[g * a->n_metrics + i];
        enum table_unit unit = metric_unit(a->metrics[i]);

        jsonw_object(j, metric_by_id(a->metrics[i])->name);
        put_buckets(j, "avg", c, c->avg, s->n_buckets, unit);
        if (c->min) {
            put_buckets(j, "min", c, c->min, s->n_buckets, unit);
            put_buckets(j, "max", c, c->max, s->n_buckets, unit);
        }
        jsonw_end(j);
    }
    if (s->group_processes) {
        jsonw_object(j, "processes");
        put_pulse(j, "avg", s->group_processes + g * s->n_buckets, s->n_buckets);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void put_series(struct jsonw *j, unsigned group_by, const struct wire_answer *a)
{
    const struct wire_series *s = a->series;

    jsonw_object(j, "series");
    api_value_ns(j, "t0_ns", s->t0_ns);
    api_value_ms(j, "t0_ms", s->t0_ns);
    jsonw_int(j, "step_ns", s->step_ns);
    jsonw_uint(j, "n", s->n_buckets);
    jsonw_uint(j, "hosts_asked", s->hosts_asked);
    api_value_u32s(j, "present", s->present, s->n_buckets);
    api_value_u32s(j, "hosts_in", s->hosts_in, s->n_buckets);
    if (s->reaches) {
        api_value_u32s(j, "reaches", s->reaches, s->n_buckets);
    }
    jsonw_array(j, "groups");
    for (size_t g = 0; g < s->n_groups; g++) {
        put_series_group(j, group_by, a, g);
    }
    jsonw_end(j);
    if (s->group_present) {
        jsonw_array(j, "present_by_host");
        for (size_t g = 0; g < s->n_groups; g++) {
            put_pulse(j, NULL, s->group_present + g * s->n_buckets, s->n_buckets);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* A row for each group and bucket. */
static void put_series_row(struct jsonw *j, const struct fields_list *heads,
                           const struct wire_answer *a, size_t g, uint32_t b)
{
    const struct wire_series *s = a->series;
    struct table_cell time = table_number(true, clk_add(s->t0_ns, (int64_t)b * s->step_ns));

    jsonw_object(j, NULL);
    put_cell(j, field_column(FIELD_TIME), &time);
    for (size_t i = 0; g < a->n_rows && i < heads->n; i++) {
        struct table_cell c = field_of_row((int)heads->what[i], a, &a->rows[g]);

        put_cell(j, field_column(heads->what[i]), &c);
    }
    jsonw_bool(j, "others", g >= a->n_rows);
    for (unsigned i = 0; i < a->n_metrics; i++) {
        const struct wire_series_column *c = &s->columns[g * a->n_metrics + i];
        struct table_column column = {metric_by_id(a->metrics[i])->name, NULL,
                                      metric_unit(a->metrics[i])};
        struct table_cell cell = table_number(wire_series_has(c, b), c->avg[b]);

        put_cell(j, &column, &cell);
    }
    jsonw_uint(j, "present_ppm", s->present[b]);
    jsonw_uint(j, "hosts_in", s->hosts_in[b]);
    put_uint_known(j, "reaches", s->reaches != NULL, s->reaches ? s->reaches[b] : 0);
    jsonw_end(j);
}

static void put_series_flat(struct jsonw *j, const struct wire_query *q,
                            const struct wire_answer *a)
{
    struct fields_list heads = {0};

    if (q->group_by == WIRE_GROUP_NONE || q->group_by == WIRE_GROUP_HOST) {
        list_add(&heads, FIELD_HOST);
    }
    if (q->group_by == WIRE_GROUP_NONE) {
        list_add(&heads, FIELD_PID);
        list_add(&heads, FIELD_START);
    }
    if (q->group_by == WIRE_GROUP_NONE || q->group_by == WIRE_GROUP_IMAGE) {
        list_add(&heads, FIELD_NAME);
    } else if (q->group_by == WIRE_GROUP_USER) {
        list_add(&heads, FIELD_USER);
    }
    jsonw_array(j, "rows");
    for (size_t g = 0; g < a->series->n_groups; g++) {
        for (uint32_t b = 0; b < a->series->n_buckets; b++) {
            put_series_row(j, &heads, a, g, b);
        }
    }
    jsonw_end(j);
}

/* -- overview -- */

static void put_tier(struct jsonw *j, const struct wire_tier_room *t)
{
    jsonw_object(j, NULL);
    jsonw_bytes(j, "name", t->name);
    jsonw_uint(j, "files", t->files);
    jsonw_uint(j, "bytes", t->bytes);
    jsonw_uint(j, "values", t->values);
    put_uint_known(j, "share_bytes", t->share_bytes != 0, t->share_bytes);
    put_ns_known(j, "age_ns", t->age_ns);
    put_ns_known(j, "oldest_ns", t->oldest_ns);
    jsonw_uint(j, "dropped_age", t->dropped_age);
    jsonw_uint(j, "dropped_bytes", t->dropped_bytes);
    jsonw_end(j);
}

/* The store is told to who may see all hosts; to others not a zero, but nothing. */
static void put_overview_store(struct jsonw *j, const struct wire_overview *o)
{
    bool told = o->disk_total > 0;
    const struct {
        const char *key;
        uint64_t v;
    } all[] = {
        {"head_bytes", o->head_bytes},
        {"log_bytes", o->log_bytes},
        {"catalogue_bytes", o->catalogue_bytes},
        {"total_bytes", o->total_bytes},
        {"ceiling_bytes", o->ceiling_bytes},
        {"disk_free", o->disk_free},
        {"disk_total", o->disk_total},
        {"sealed_windows", o->sealed_windows},
        {"patches", o->patches},
        {"seal_failures", o->seal_failures},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        put_uint_known(j, all[i].key, told, all[i].v);
    }
    if (told) {
        jsonw_bool(j, "refusing", o->refusing);
    } else {
        jsonw_null(j, "refusing");
    }
    put_ns_known(j, "sealed_ns", o->sealed_ns);
    put_uint_known(j, "next_tier", o->next_tier != 0, o->next_tier ? o->next_tier - 1 : 0);
    put_ns_known(j, "next_window_ns", o->next_window_ns);
    if (o->next_tier) {
        api_value_ns(j, "next_in_ns", o->next_in_ns);
    } else {
        jsonw_null(j, "next_in_ns");
    }
    jsonw_array(j, "tiers");
    for (size_t i = 0; i < o->n_tiers; i++) {
        put_tier(j, &o->tiers[i]);
    }
    jsonw_end(j);
}

static void put_overview(struct jsonw *j, const struct wire_overview *o)
{
    jsonw_object(j, "overview");
    put_ns_known(j, "now_ns", o->now_ns);
    jsonw_uint(j, "hosts", o->hosts);
    jsonw_uint(j, "connected", o->connected);
    jsonw_uint(j, "silent", o->silent);
    jsonw_uint(j, "ended", o->ended);
    jsonw_uint(j, "revoked", o->revoked);
    jsonw_uint(j, "clones", o->clones);
    jsonw_uint(j, "processes", o->processes);
    jsonw_uint(j, "cpus", o->cpus);
    jsonw_uint(j, "batches", o->batches);
    jsonw_uint(j, "gaps", o->gaps);
    jsonw_uint(j, "lost_events", o->lost_events);
    put_ns_known(j, "first_ns", o->first_ns);
    put_ns_known(j, "last_ns", o->last_ns);
    put_overview_store(j, o);
    jsonw_end(j);
}

/* -- the answer -- */

void api_json_answer(struct buf *out, enum query_kind kind, const struct wire_query *q,
                     const struct query_answer *x, bool rows)
{
    const struct wire_answer *a = &x->data;
    unsigned group_by = kind == QUERY_PULSE ? WIRE_GROUP_HOST : q->group_by;
    enum err e = ERR_OK;
    struct jsonw j;

    json_begin(&j, out);
    jsonw_object(&j, NULL);
    put_envelope(&j, x);
    if (a->overview) {
        put_overview(&j, a->overview);
    } else if (a->lifetimes) {
        api_lifetimes_json(&j, a->lifetimes);
    } else if (a->outliers) {
        api_outliers_json(&j, a, rows);
    } else if (a->series && rows) {
        put_series_flat(&j, q, a);
    } else if (kind == QUERY_EVENTS && !rows) {
        put_events(&j, a);
    } else if (rows) {
        put_flat(&j, kind, q, a);
    } else if (kind != QUERY_HOSTS && kind != QUERY_COVERAGE) {
        e = put_columns(&j, kind, group_by, a);
    }
    if (a->series && !rows) {
        put_series(&j, group_by, a);
    }
    jsonw_end(&j);
    if (e && !out->bad) {
        out->bad = e;
    }
}

/* -- updates -- */

static void put_update(struct jsonw *j, const struct wire_update *u)
{
    int64_t newest_ns = 0;

    jsonw_object(j, NULL);
    put_uuid(j, "host", &u->host);
    jsonw_bytes(j, "name", u->name);
    put_events(j, &u->data);
    for (size_t i = 0; i < u->data.n_events; i++) {
        int64_t ns = u->data.events[i].event.wall_ns;

        newest_ns = ns > newest_ns ? ns : newest_ns;
    }
    put_ns_known(j, "time_ns", newest_ns);
    jsonw_end(j);
}

void api_json_updates(struct buf *out, const struct wire_poll_reply *reply)
{
    struct jsonw j;

    json_begin(&j, out);
    jsonw_object(&j, NULL);
    jsonw_array(&j, "updates");
    for (size_t i = 0; i < reply->n_updates; i++) {
        put_update(&j, &reply->updates[i]);
    }
    jsonw_end(&j);
    put_hex(&j, "cursor", reply->cursor.p, reply->cursor.n);
    jsonw_bool(&j, "more", reply->more);
    jsonw_uint(&j, "lost", reply->dropped_now);
    jsonw_end(&j);
}
