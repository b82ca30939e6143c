#include "collector/query/query_where.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/expr/expr.h"
#include "common/expr/expr_event.h"
#include "common/text/field.h"

enum slot { SLOT_KIND = EXPR_EVENT_END, SLOT_UP, SLOT_CONNECTED };

struct query_where {
    struct query *q;
    struct expr expr;
    bool metrics; /* rows have values */
    bool process; /* it asks for more of an event's process than its pid */
    uint8_t n_metrics;
    uint8_t ids[EXPR_NODES_MAX];
    struct expr_host_labels labels;
    struct expr_event_values values;
};

/* -- the fields -- */

static bool field_is(struct expr_field *out, uint32_t slot, enum expr_type type,
                     struct expr_dim dim, const char *const *words)
{
    *out = (struct expr_field){slot, type, dim, words};
    return true;
}

static bool field_of_process(struct query_where *w, struct str name, struct expr_field *out)
{
    const struct metric *m;

    static const uint32_t kinds = 1u << QUERY_TOP | 1u << QUERY_PROCESSES | 1u << QUERY_HISTORY |
                                  1u << QUERY_EVENTS | 1u << QUERY_TREE | 1u << QUERY_SERIES;

    if (!(kinds >> w->q->kind & 1) || !expr_process_field(name, out)) {
        return false;
    }
    m = expr_process_metric(out->slot);
    if (m && !w->metrics) {
        return false;
    }
    if (m && !memchr(w->ids, m->id, w->n_metrics)) {
        w->ids[w->n_metrics++] = m->id; /* no more than there are nodes */
    }
    w->process = w->process || !str_eq(name, str_make("pid"));
    w->q->where_is_long =
        w->q->where_is_long || str_eq(name, str_make("command")) || str_eq(name, str_make("image"));
    return true;
}

static bool field_of_host(struct query_where *w, struct str name, struct expr_field *out)
{
    if (str_eq(name, str_make("up"))) {
        return field_is(out, SLOT_UP, EXPR_TYPE_NUMBER, EXPR_TIME, NULL);
    }
    if (str_eq(name, str_make("connected"))) {
        return field_is(out, SLOT_CONNECTED, EXPR_TYPE_BOOL, EXPR_PLAIN, NULL);
    }
    return expr_host_field(name, &w->labels, out);
}

static bool where_field(void *ctx, struct str name, struct expr_field *out)
{
    struct query_where *w = ctx;

    if (field_of_process(w, name, out) || field_of_host(w, name, out)) {
        return true;
    }
    if (w->q->kind != QUERY_EVENTS) {
        return false;
    }
    if (str_eq(name, str_make("kind"))) {
        return field_is(out, SLOT_KIND, EXPR_TYPE_TEXT, EXPR_PLAIN, field_kind_names);
    }
    return expr_event_field(name, &w->values, out);
}

static const char *where_closest(void *ctx, struct str name)
{
    (void)ctx;
    return expr_process_closest(name);
}

enum err query_where_make(struct query *q, bool metrics)
{
    struct query_where *w;
    struct expr_env env = {.field = where_field, .closest = where_closest};
    struct errmsg wrong = {""};
    size_t column = 0;
    enum err e;

    if (!q->ask->events.where.n) {
        return ERR_OK;
    }
    w = arena_alloc(&q->out->memory, sizeof *w);
    if (!w) {
        return ERR_NOMEM;
    }
    w->q = q;
    w->metrics = metrics;
    env.ctx = w;
    e = expr_compile(&w->expr, q->ask->events.where, &env, &column, &wrong);
    if (e) {
        return errmsg_set(q->why, ERR_INVALID, "--where, column %zu: %s", column, wrong.text);
    }
    q->where = w;
    return ERR_OK;
}

bool query_where_process(const struct query *q)
{
    return q->where && q->where->process;
}

uint8_t query_where_metric(const struct query *q, unsigned i)
{
    return q->where && i < q->where->n_metrics ? q->where->ids[i] : 0;
}

/* -- values -- */

struct judged {
    const struct query_where *where;
    struct query *q;
    struct query_where_row row;
    struct expr_event_look *look; /* at row.event; NULL: of a host there is none */
};

static void value_of_metric(const struct judged *j, const struct metric *m, struct expr_value *out)
{
    const struct wire_answer *a = &j->q->out->data;
    const uint8_t *at = memchr(a->metrics, m->id, a->n_metrics);
    int64_t v;

    if (j->row.value && at && j->row.value(&j->row, (unsigned)(at - a->metrics), &v)) {
        *out = expr_process_number(m, v);
    }
}

static void value_of_up(const struct judged *j, struct expr_value *out)
{
    const struct facts *f = query_facts(j->q, j->row.span);

    if (f && f->inventory.boot_time) {
        *out = expr_number(clk_sub(j->row.span->about->last_ns, f->inventory.boot_time));
    }
}

static void value_of_event(const struct judged *j, uint32_t slot, struct expr_value *out)
{
    if (!j->look) {
        return;
    }
    if (slot == SLOT_KIND) {
        *out = expr_text(j->look->kind);
    } else {
        expr_event_value(j->look, slot, out);
    }
}

static void where_value(void *ctx, uint32_t slot, struct expr_value *out)
{
    const struct judged *j = ctx;
    const struct query_span *s = j->row.span;
    const struct metric *m = expr_process_metric(slot);
    struct proc_info bare = {.have = INFO_EXITED}; /* whether and how is not known either */

    if (m) {
        value_of_metric(j, m, out);
    } else if (slot < EXPR_PROCESS_METRIC) {
        bare.id = j->row.id ? *j->row.id : bare.id;
        expr_process_value(slot, j->row.info || !j->row.id ? j->row.info : &bare, s->until_ns, out);
    } else if (slot == SLOT_KIND || (slot >= EXPR_EVENT && slot < EXPR_EVENT_END)) {
        value_of_event(j, slot, out);
    } else if (slot == SLOT_CONNECTED) {
        *out = expr_bool(query_host_state_of(j->q, s->about).connected);
    } else if (slot == SLOT_UP) {
        value_of_up(j, out);
    } else {
        expr_host_value(slot, &j->where->labels, str_make(s->about->name), query_facts(j->q, s),
                        out);
    }
}

bool query_where_host(struct query *q, const struct query_span *s)
{
    struct judged j = {q->where, q, {.span = s}, NULL};

    return !q->where || expr_run(&q->where->expr, where_value, &j) != EXPR_FALSE;
}

static enum expr_truth where_event(struct judged *j)
{
    const struct life_event *ev = j->row.event;
    struct expr_event_look look;
    enum expr_truth t;

    expr_event_look_init(&look, &j->where->values, ev, str_make(j->row.span->about->name),
                         str_make(field_kind_name(ev->kind)));
    j->look = &look;
    t = expr_run(&j->where->expr, where_value, j);
    expr_event_look_fini(&look);
    return t;
}

bool query_where_fits(struct query *q, const struct query_where_row *row)
{
    struct judged j = {q->where, q, *row, NULL};
    enum expr_truth t;

    if (!q->where) {
        return true;
    }
    t = row->event ? where_event(&j) : expr_run(&q->where->expr, where_value, &j);
    q->where_unknown += t == EXPR_UNKNOWN;
    return t == EXPR_TRUE;
}

void query_where_note(const struct query *q, char *text, size_t size)
{
    uint64_t n = q->where_unknown;

    text[0] = '\0';
    if (n) {
        (void)snprintf(text, size,
                       "left out: %" PRIu64 " %s of which it is not known whether --where is true",
                       n, plural(n, "row", "rows"));
    }
}
