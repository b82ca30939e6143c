#include "collector/subscribe/feed_filter.h"

#include <string.h>

#include "common/base/glob.h"
#include "common/expr/expr_event.h"
#include "common/model/event_values.h"
#include "common/text/field.h"

#define UPDATE_BYTES 400u /* of an update and its host, without texts */
#define EVENT_BYTES  250u
#define ROW_BYTES    150u
#define VALUE_BYTES  10u

/* Whether records of the topic are wanted at all. */
static bool topic_wanted(const struct wire_filter *f, enum feed_topic topic)
{
    switch (topic) {
    case FEED_RULE:
        return f->rules || (f->kinds >> LIFE_RULE & 1);
    case FEED_SAMPLE:
        return f->samples;
    default:
        return !f->no_events;
    }
}

bool feed_filter_record(const struct wire_filter *f, const char *scope,
                        const struct journal_record *r)
{
    struct str name = str_make(r->name);

    if (name.n == 0) {
        return true; /* it is damaged: its host is unknown */
    }
    if (!topic_wanted(f, r->topic)) {
        return false;
    }
    if (scope[0] && !glob_match(str_make(scope), name)) {
        return false;
    }
    for (size_t i = 0; i < f->n_hosts; i++) {
        if (glob_match(f->hosts[i], name)) {
            return true;
        }
    }
    return f->n_hosts == 0;
}

bool feed_filter_same(const struct wire_filter *a, const struct wire_filter *b)
{
    bool same = a->n_hosts == b->n_hosts && str_eq(a->program, b->program) &&
                a->kinds == b->kinds && a->no_events == b->no_events && a->samples == b->samples &&
                a->rules == b->rules && a->n_metrics == b->n_metrics &&
                a->min_interval_ns == b->min_interval_ns &&
                memcmp(a->metrics, b->metrics, a->n_metrics) == 0 &&
                str_eq(a->providers.provider, b->providers.provider) &&
                str_eq(a->providers.event, b->providers.event) &&
                str_eq(a->providers.where, b->providers.where);

    for (size_t i = 0; same && i < a->n_hosts; i++) {
        same = str_eq(a->hosts[i], b->hosts[i]);
    }
    return same;
}

/* -- one item -- */

static bool event_wanted(const struct wire_filter *f, const struct expr_event *where,
                         struct str host, const struct wire_event *x)
{
    const struct life_event *ev = &x->event;
    uint32_t kinds = f->kinds ? f->kinds : LIFE_KINDS_DEFAULT;

    if (ev->kind == LIFE_RULE) {
        return topic_wanted(f, FEED_RULE) && !wire_events_named(&f->providers) &&
               (!where || expr_event_run(where, ev, host, str_make("rule")) == EXPR_TRUE);
    }
    if (wire_events_named(&f->providers)) {
        kinds = 1u << LIFE_PROVIDER;
    }
    if (x->host != 0 || ev->kind >= 32 || !(kinds >> ev->kind & 1)) {
        return false;
    }
    if (ev->kind == LIFE_PROVIDER &&
        (!ev->type || !event_values_is(ev->type, f->providers.provider, f->providers.event))) {
        return false;
    }
    if (f->program.n && (life_is_of_host(ev->kind) || !glob_match(f->program, ev->info.name))) {
        return false;
    }
    return !where ||
           expr_event_run(where, ev, host, str_make(field_kind_name(ev->kind))) == EXPR_TRUE;
}

/* Which of an update's metrics are wanted: the index that each has among them. */
struct columns {
    uint64_t mask, mask_high; /* of the update's */
    uint8_t n;
    uint8_t from[WIRE_COLUMNS_MAX]; /* by wanted index */
};

static void columns_choose(struct columns *c, const struct wire_answer *in,
                           const struct wire_filter *f)
{
    *c = (struct columns){0};
    for (uint8_t i = 0; i < in->n_metrics; i++) {
        if (f->n_metrics == 0 || memchr(f->metrics, in->metrics[i], f->n_metrics)) {
            c->mask |= i < 64 ? UINT64_C(1) << i : 0;
            c->mask_high |= i < 64 ? 0 : UINT64_C(1) << (i - 64);
            c->from[c->n++] = i;
        }
    }
}

static bool row_wanted(const struct wire_filter *f, const struct columns *c,
                       const struct wire_row *row)
{
    return row->host == 0 && !wire_events_named(&f->providers) &&
           (f->n_metrics == 0 || (row->have & c->mask) || (row->have_high & c->mask_high)) &&
           (f->program.n == 0 || glob_match(f->program, row->info.name));
}

static size_t info_bytes(const struct proc_info *p)
{
    return p->name.n + p->image.n + p->command_line.n + p->user.n;
}

/* -- first pass: how far it goes, and how much that is -- */

struct cut {
    struct str host;
    const struct expr_event *where; /* NULL: none */
    const struct wire_answer *in;
    const struct wire_filter *filter;
    struct columns columns;
    size_t from, to; /* items looked at */
    size_t n_events, n_rows;
};

static bool item_wanted(const struct cut *c, size_t i)
{
    return i < c->in->n_events
               ? event_wanted(c->filter, c->where, c->host, &c->in->events[i])
               : row_wanted(c->filter, &c->columns, &c->in->rows[i - c->in->n_events]);
}

static size_t item_bytes(const struct cut *c, size_t i)
{
    const struct wire_answer *a = c->in;

    if (i < a->n_events) {
        const struct life_event *ev = &a->events[i].event;

        return EVENT_BYTES + info_bytes(&ev->info) + ev->text.n + ev->values.n +
               (ev->type ? event_values_type_bytes(ev->type) : 0);
    }
    return ROW_BYTES + info_bytes(&a->rows[i - a->n_events].info) + VALUE_BYTES * c->columns.n;
}

static void measure(struct cut *c, struct feed_filter_room *room)
{
    size_t total = c->in->n_events + c->in->n_rows;
    bool any = false;

    for (c->to = c->from; c->to < total; c->to++) {
        size_t bytes;

        if (!item_wanted(c, c->to)) {
            continue;
        }
        bytes = item_bytes(c, c->to) + (any ? 0 : UPDATE_BYTES);
        if (room->items == 0 || room->bytes < bytes) {
            room->items = 0; /* the reply is full */
            return;
        }
        any = true;
        room->items--;
        room->bytes -= bytes;
        c->n_events += c->to < c->in->n_events;
        c->n_rows += c->to >= c->in->n_events;
    }
}

/* -- second pass -- */

static bool keep_text(struct str *s, struct arena *memory)
{
    s->p = s->n ? arena_dup(memory, s->p, s->n) : "";
    return s->p != NULL;
}

static bool keep_info(struct proc_info *p, struct arena *memory)
{
    return keep_text(&p->name, memory) && keep_text(&p->image, memory) &&
           keep_text(&p->command_line, memory) && keep_text(&p->user, memory);
}

/* Events of one type in a row share it, as they do where they come from. */
static bool keep_values(struct life_event *ev, struct arena *memory, const struct life_event *last,
                        const struct life_event *from)
{
    void *room;

    if (!from->type) {
        return true;
    }
    if (last && last->type && event_values_same_type(last->type, from->type)) {
        ev->type = last->type;
    } else {
        room = arena_alloc(memory, event_values_type_bytes(from->type));
        if (!room) {
            return false;
        }
        ev->type = event_values_copy_type(room, from->type);
    }
    return keep_text(&ev->values, memory);
}

static bool keep_row(struct wire_row *row, const struct columns *c, struct arena *memory)
{
    int64_t *values = arena_array(memory, c->n, sizeof *values);
    metric_mask have = 0;

    for (size_t i = 0; values && i < c->n; i++) {
        have |= wire_row_has(row, c->from[i]) ? METRIC_BIT(i) : 0;
        values[i] = row->values[c->from[i]];
    }
    row->have = metric_mask_low(have);
    row->have_high = metric_mask_high(have);
    row->values = values;
    return values && keep_info(&row->info, memory);
}

static bool keep_items(struct wire_answer *out, const struct cut *c, struct arena *memory)
{
    struct wire_event *events = arena_array(memory, c->n_events, sizeof *events);
    struct wire_row *rows = arena_array(memory, c->n_rows, sizeof *rows);
    bool ok = events && rows;

    for (size_t i = c->from; ok && i < c->to; i++) {
        if (!item_wanted(c, i)) {
            continue;
        }
        if (i < c->in->n_events) {
            struct wire_event *to = &events[out->n_events++];

            *to = c->in->events[i];
            ok = keep_info(&to->event.info, memory) && keep_text(&to->event.text, memory) &&
                 keep_values(&to->event, memory, out->n_events > 1 ? &to[-1].event : NULL,
                             &c->in->events[i].event);
        } else {
            struct wire_row *to = &rows[out->n_rows++];

            *to = c->in->rows[i - c->in->n_events];
            ok = keep_row(to, &c->columns, memory);
        }
    }
    out->events = events;
    out->rows = rows;
    return ok;
}

static bool keep_host(struct wire_answer *out, const struct wire_answer *in, struct arena *memory)
{
    struct wire_host *host = in->n_hosts ? arena_dup(memory, in->hosts, sizeof *host) : NULL;

    out->hosts = host;
    out->n_hosts = 1;
    return host && keep_text(&host->name, memory) && keep_text(&host->source, memory) &&
           keep_text(&host->version, memory);
}

enum err feed_filter_cut(struct wire_update *out, const struct wire_update *in,
                         const struct wire_filter *f, uint32_t *from, struct feed_filter_room *room,
                         struct arena *memory)
{
    struct cut c = {.host = in->name, .in = &in->data, .filter = f, .from = *from};
    struct expr_event where;

    if (f->providers.where.n) {
        enum err e = expr_event_compile(&where, f->providers.where, NULL); /* checked by Poll */

        if (e) {
            return e;
        }
        c.where = &where;
    }

    *out = (struct wire_update){.host = in->host, .name = in->name};
    columns_choose(&c.columns, &in->data, f);
    measure(&c, room);
    *from = c.to < in->data.n_events + in->data.n_rows ? (uint32_t)c.to : UINT32_MAX;
    if (c.n_events + c.n_rows == 0) {
        return ERR_OK;
    }
    if (c.n_rows) {
        out->data.n_metrics = c.columns.n;
        for (size_t i = 0; i < c.columns.n; i++) {
            out->data.metrics[i] = in->data.metrics[c.columns.from[i]];
        }
    }
    out->data.since_ns = in->data.since_ns;
    out->data.until_ns = in->data.until_ns;
    if (!keep_text(&out->name, memory) || !keep_host(&out->data, &in->data, memory) ||
        !keep_items(&out->data, &c, memory)) {
        return arena_refused(memory, 1);
    }
    return ERR_OK;
}
