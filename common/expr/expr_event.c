#include "common/expr/expr_event.h"

#include <string.h>

#include "common/model/event_values.h"
#include "common/text/value_text.h"

enum slot {
    SLOT_KIND,
    SLOT_PROVIDER,
    SLOT_EVENT,
    SLOT_TASK,
    SLOT_NAME,
    SLOT_HOST,
    SLOT_ID,
    SLOT_LEVEL,
    SLOT_PID,
    SLOT_TID,
    SLOT_VALUES, /* and those behind it */
};

static const struct {
    const char *name;
    enum expr_type type;
} plain[SLOT_VALUES] = {
    [SLOT_KIND] = {"kind", EXPR_TYPE_TEXT},   [SLOT_PROVIDER] = {"provider", EXPR_TYPE_TEXT},
    [SLOT_EVENT] = {"event", EXPR_TYPE_TEXT}, [SLOT_TASK] = {"task", EXPR_TYPE_TEXT},
    [SLOT_NAME] = {"name", EXPR_TYPE_TEXT},   [SLOT_HOST] = {"host", EXPR_TYPE_TEXT},
    [SLOT_ID] = {"id", EXPR_TYPE_NUMBER},     [SLOT_LEVEL] = {"level", EXPR_TYPE_NUMBER},
    [SLOT_PID] = {"pid", EXPR_TYPE_NUMBER},   [SLOT_TID] = {"tid", EXPR_TYPE_NUMBER},
};

/* The same name is one field. */
static bool values_field(struct expr_event_values *x, struct str name, struct expr_field *out)
{
    size_t i = 0;

    while (i < x->n && !str_eq(name, x->names[i])) {
        i++;
    }
    if (i == EXPR_EVENT_VALUES) {
        return false;
    }
    if (i == x->n) {
        x->names[x->n++] = name;
    }
    *out = (struct expr_field){.slot = (uint32_t)(EXPR_EVENT + SLOT_VALUES + i),
                               .type = EXPR_TYPE_ANY};
    return true;
}

bool expr_event_field(struct str name, struct expr_event_values *values, struct expr_field *out)
{
    static const char prefix[] = "field.";
    const size_t n = sizeof prefix - 1;

    for (uint32_t i = 0; i < SLOT_VALUES; i++) {
        if (str_eq(name, str_make(plain[i].name))) {
            *out = (struct expr_field){.slot = EXPR_EVENT + i, .type = plain[i].type};
            return true;
        }
    }
    return name.n > n && memcmp(name.p, prefix, n) == 0 &&
           values_field(values, (struct str){name.p + n, name.n - n}, out);
}

static bool event_field(void *ctx, struct str name, struct expr_field *out)
{
    return expr_event_field(name, ctx, out);
}

enum err expr_event_compile(struct expr_event *out, struct str text, struct errmsg *why)
{
    const struct expr_env env = {.ctx = &out->values, .field = event_field};
    struct errmsg wrong = {""};
    size_t column = 0;
    enum err e;

    out->values.n = 0;
    e = expr_compile(&out->expr, text, &env, &column, &wrong);
    return e ? errmsg_set(why, e, "column %zu: %s", column, wrong.text) : ERR_OK;
}

/* -- values -- */

#define TEXT_ROOM 2048 /* of a value that is no text yet: 1,024 bytes in hex */

static struct expr_value value_of(const struct value *v, struct buf *room)
{
    char guid[UUID_TEXT];

    switch (v->kind) {
    case VALUE_INT:
    case VALUE_TIME:
        return expr_number((long double)v->v.i);
    case VALUE_UINT:
    case VALUE_HEX:
        return expr_number((long double)v->v.u);
    case VALUE_FLOAT:
        return expr_number((long double)v->v.f);
    case VALUE_BOOL:
        return expr_bool(v->v.u != 0);
    case VALUE_TEXT:
    case VALUE_SID:
        return expr_text(v->v.text);
    case VALUE_GUID:
        buf_put_str(room, value_text_guid(guid, v->v.bytes.p));
        break;
    case VALUE_ADDRESS:
        value_text_address(room, v->v.bytes.p, v->v.bytes.n);
        break;
    default:
        value_text_hex(room, v->v.bytes.p, v->v.bytes.n);
        break;
    }
    return expr_text((struct str){(const char *)room->p, room->n});
}

static void value_of_name(struct expr_event_look *l, uint32_t i, struct expr_value *out)
{
    const struct life_event *ev = l->event;
    struct value v;

    if (ev->type && event_values_find(&v, ev->type, ev->values, l->values->names[i])) {
        buf_reset(&l->rooms[i]);
        *out = value_of(&v, &l->rooms[i]);
    }
}

static void value_of_type(const struct event_type *t, uint32_t slot, struct expr_value *out)
{
    *out = slot == SLOT_PROVIDER ? expr_text(t->provider)
           : slot == SLOT_EVENT  ? expr_text(t->name)
           : slot == SLOT_TASK   ? expr_text(t->task)
           : slot == SLOT_ID     ? expr_number(t->id)
                                 : expr_number(t->level);
}

void expr_event_value(struct expr_event_look *l, uint32_t slot, struct expr_value *out)
{
    const struct life_event *ev = l->event;

    slot -= EXPR_EVENT;
    switch (slot) {
    case SLOT_KIND:
        *out = expr_text(l->kind);
        return;
    case SLOT_HOST:
        *out = expr_text(l->host);
        return;
    case SLOT_NAME:
        *out = ev->info.name.n ? expr_text(ev->info.name) : *out;
        return;
    case SLOT_PID:
        *out = life_is_of_host(ev->kind) ? *out : expr_number(ev->info.id.pid);
        return;
    case SLOT_TID:
        *out = ev->tid ? expr_number(ev->tid) : *out;
        return;
    case SLOT_PROVIDER:
    case SLOT_EVENT:
    case SLOT_TASK:
    case SLOT_ID:
    case SLOT_LEVEL:
        if (ev->type) {
            value_of_type(ev->type, slot, out);
        }
        return;
    default:
        value_of_name(l, slot - SLOT_VALUES, out);
    }
}

void expr_event_look_init(struct expr_event_look *l, const struct expr_event_values *values,
                          const struct life_event *ev, struct str host, struct str kind)
{
    l->values = values;
    l->event = ev;
    l->host = host;
    l->kind = kind;
    for (size_t i = 0; i < values->n; i++) {
        buf_init(&l->rooms[i], TEXT_ROOM);
    }
}

void expr_event_look_fini(struct expr_event_look *l)
{
    for (size_t i = 0; i < l->values->n; i++) {
        buf_fini(&l->rooms[i]);
    }
}

static void event_value(void *ctx, uint32_t slot, struct expr_value *out)
{
    expr_event_value(ctx, slot, out);
}

enum expr_truth expr_event_run(const struct expr_event *x, const struct life_event *ev,
                               struct str host, struct str kind)
{
    struct expr_event_look l;
    enum expr_truth t;

    expr_event_look_init(&l, &x->values, ev, host, kind);
    t = expr_run(&x->expr, event_value, &l);
    expr_event_look_fini(&l);
    return t;
}
