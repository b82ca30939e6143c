#include "common/expr/expr_event.h"

#include <string.h>

#include "common/base/buf.h"
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
    SLOT_FIELDS, /* and those behind it */
};

static const struct {
    const char *name;
    enum expr_type type;
} plain[SLOT_FIELDS] = {
    [SLOT_KIND] = {"kind", EXPR_TYPE_TEXT},   [SLOT_PROVIDER] = {"provider", EXPR_TYPE_TEXT},
    [SLOT_EVENT] = {"event", EXPR_TYPE_TEXT}, [SLOT_TASK] = {"task", EXPR_TYPE_TEXT},
    [SLOT_NAME] = {"name", EXPR_TYPE_TEXT},   [SLOT_HOST] = {"host", EXPR_TYPE_TEXT},
    [SLOT_ID] = {"id", EXPR_TYPE_NUMBER},     [SLOT_LEVEL] = {"level", EXPR_TYPE_NUMBER},
    [SLOT_PID] = {"pid", EXPR_TYPE_NUMBER},   [SLOT_TID] = {"tid", EXPR_TYPE_NUMBER},
};

/* The same name is one field. */
static bool field_of_values(struct expr_event *x, struct str name, struct expr_field *out)
{
    size_t i = 0;

    while (i < x->n_fields &&
           !str_eq(name, (struct str){x->text + x->fields[i].at, x->fields[i].n})) {
        i++;
    }
    if (i == EXPR_EVENT_FIELDS) {
        return false;
    }
    if (i == x->n_fields) { /* names lie in the text: it is what is compiled */
        x->fields[i].at = (uint16_t)(name.p - x->text);
        x->fields[i].n = (uint16_t)name.n;
        x->n_fields++;
    }
    *out = (struct expr_field){.slot = (uint32_t)(SLOT_FIELDS + i), .type = EXPR_TYPE_ANY};
    return true;
}

static bool event_field(void *ctx, struct str name, struct expr_field *out)
{
    static const char prefix[] = "field.";
    const size_t n = sizeof prefix - 1;

    for (uint32_t i = 0; i < SLOT_FIELDS; i++) {
        if (str_eq(name, str_make(plain[i].name))) {
            *out = (struct expr_field){.slot = i, .type = plain[i].type};
            return true;
        }
    }
    return name.n > n && memcmp(name.p, prefix, n) == 0 &&
           field_of_values(ctx, (struct str){name.p + n, name.n - n}, out);
}

enum err expr_event_compile(struct expr_event *out, struct str text, struct errmsg *why)
{
    const struct expr_env env = {.ctx = out, .field = event_field};
    struct errmsg wrong = {""};
    size_t column = 0;
    enum err e;

    out->n_fields = 0;
    if (text.n > sizeof out->text) {
        return errmsg_set(why, ERR_RANGE, "an expression has at most %d bytes", EXPR_TEXT_MAX);
    }
    if (text.n) {
        memcpy(out->text, text.p, text.n);
    }
    e = expr_compile(&out->expr, (struct str){out->text, text.n}, &env, &column, &wrong);
    return e ? errmsg_set(why, e, "column %zu: %s", column, wrong.text) : ERR_OK;
}

/* -- values -- */

#define TEXT_ROOM 2048 /* of a value that is no text yet: 1,024 bytes in hex */

struct asked {
    const struct expr_event *x;
    const struct life_event *ev;
    struct str host, kind;
    struct buf rooms[EXPR_EVENT_FIELDS]; /* a value may be asked for while another is in use */
};

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

static void value_of_field(struct asked *a, uint32_t i, struct expr_value *out)
{
    const struct str name = {a->x->text + a->x->fields[i].at, a->x->fields[i].n};
    const struct life_event *ev = a->ev;
    struct value v;

    if (ev->type && event_values_find(&v, ev->type, ev->values, name)) {
        buf_reset(&a->rooms[i]);
        *out = value_of(&v, &a->rooms[i]);
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

static void event_value(void *ctx, uint32_t slot, struct expr_value *out)
{
    struct asked *a = ctx;
    const struct life_event *ev = a->ev;

    switch (slot) {
    case SLOT_KIND:
        *out = expr_text(a->kind);
        return;
    case SLOT_HOST:
        *out = expr_text(a->host);
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
        value_of_field(a, slot - SLOT_FIELDS, out);
    }
}

enum expr_truth expr_event_run(const struct expr_event *x, const struct life_event *ev,
                               struct str host, struct str kind)
{
    struct asked a = {.x = x, .ev = ev, .host = host, .kind = kind};
    enum expr_truth t;

    for (size_t i = 0; i < x->n_fields; i++) {
        buf_init(&a.rooms[i], TEXT_ROOM);
    }
    t = expr_run(&x->expr, event_value, &a);
    for (size_t i = 0; i < x->n_fields; i++) {
        buf_fini(&a.rooms[i]);
    }
    return t;
}
