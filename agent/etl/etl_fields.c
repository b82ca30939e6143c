#include "agent/etl/etl_fields.h"

#include <string.h>

static struct str keep(struct etl_fields *f, const void *p, size_t n)
{
    struct str out = {f->text + f->used, n};

    if (n > sizeof f->text - f->used) {
        return (struct str){f->text, 0};
    }
    if (n) {
        memcpy(f->text + f->used, p, n);
    }
    f->used += n;
    return out;
}

static struct etl_fields_one *add(struct etl_fields *f, struct str name)
{
    struct etl_fields_one *one;

    if (f->n == ETL_FIELDS_MAX) {
        return NULL;
    }
    one = &f->all[f->n++];
    memset(one, 0, sizeof *one);
    one->name = keep(f, name.p, name.n);
    one->text = (struct str){f->text, 0};
    return one;
}

static void set_address(struct etl_fields_address *a, const struct value *v)
{
    if (v->v.bytes.n == 4 || v->v.bytes.n == 16) {
        a->n = (uint8_t)v->v.bytes.n;
        memcpy(a->b, v->v.bytes.p, v->v.bytes.n);
    }
}

/* Within a struct that holds an address and its port the two are the struct's own value. */
static void member(struct etl_fields *f, const struct value *v)
{
    struct etl_fields_one *last = f->n ? &f->all[f->n - 1] : NULL;

    if (!last || f->depth > 1) {
        return;
    }
    if (v->kind == VALUE_ADDRESS) {
        set_address(&last->address, v);
    } else if (v->kind == VALUE_UINT && str_eq(v->name, str_make("port"))) {
        last->address.port = (uint16_t)v->v.u;
    }
}

static void on_value(void *ctx, const struct value *v)
{
    struct etl_fields *f = ctx;
    struct etl_fields_one *one;

    if (f->depth) {
        member(f, v);
        return;
    }
    one = add(f, v->name);
    if (!one) {
        return;
    }
    one->kind = v->kind;
    switch (v->kind) {
    case VALUE_TEXT:
    case VALUE_SID:
        one->text = keep(f, v->v.text.p, v->v.text.n);
        break;
    case VALUE_ADDRESS:
        set_address(&one->address, v);
        break;
    case VALUE_GUID:
    case VALUE_BYTES:
        one->text = keep(f, v->v.bytes.p, v->v.bytes.n);
        break;
    case VALUE_FLOAT:
        break;
    default:
        one->u = v->kind == VALUE_INT || v->kind == VALUE_TIME ? (uint64_t)v->v.i : v->v.u;
        break;
    }
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct etl_fields *f = ctx;

    (void)group;
    if (f->depth++ == 0) {
        (void)add(f, name);
    }
}

static void on_end(void *ctx)
{
    struct etl_fields *f = ctx;

    f->depth--;
}

enum err etl_fields_read(struct etl_fields *f, struct etl_walk *w, const struct raw_event *raw)
{
    const struct value_sink sink = {.ctx = f, .value = on_value, .begin = on_begin, .end = on_end};
    struct described is;

    f->n = f->used = f->depth = 0;
    return describe_values(w->describe, raw, &sink, &is);
}

const struct etl_fields_one *etl_fields_get(const struct etl_fields *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++) {
        if (str_eq(f->all[i].name, str_make(name))) {
            return &f->all[i];
        }
    }
    return NULL;
}

uint64_t etl_fields_uint(const struct etl_fields *f, const char *name, uint64_t none)
{
    const struct etl_fields_one *one = etl_fields_get(f, name);

    return one ? one->u : none;
}

struct str etl_fields_text(const struct etl_fields *f, const char *name)
{
    const struct etl_fields_one *one = etl_fields_get(f, name);

    return one ? one->text : str_make("");
}
