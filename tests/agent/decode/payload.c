#include "tests/agent/decode/payload.h"

#include <stdio.h>

#include "common/base/clk.h"
#include "common/base/mem.h"

uint64_t payload_number(const struct payload *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->names[i], name) == 0) {
            return p->numbers[i];
        }
    }
    fail_msg("no field %s", name);
    return 0;
}

bool payload_has(const struct payload *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

const char *payload_text(const struct payload *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->names[i], name) == 0) {
            return p->texts[i];
        }
    }
    fail_msg("no field %s", name);
    return "";
}

static void put_text(struct payload *p, size_t k, char form)
{
    char *text = p->texts[k];
    size_t n;

    (void)snprintf(text, PAYLOAD_TEXT, "text %zu", k);
    n = strlen(text) + 1;
    if (form == 'a') {
        buf_put(&p->bytes, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        buf_put_u16le(&p->bytes, (uint8_t)text[i]);
    }
    for (; form == 'W' && n < 257; n++) {
        buf_put_u16le(&p->bytes, 'x'); /* behind the end: not text */
    }
}

static void put_block(struct payload *p, size_t k, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_u8(&p->bytes, (uint8_t)(16 * k + i));
    }
}

static void put_sid(struct payload *p, size_t k, char form)
{
    size_t token = form == 'u' ? 2 * p->pointer_size : 0;

    (void)snprintf(p->texts[k], PAYLOAD_TEXT, "S-1-5-%zu", k);
    for (size_t i = 0; i < token; i++) {
        buf_put_u8(&p->bytes, 0xee); /* TOKEN_USER: not read */
    }
    buf_put(&p->bytes, "\1\1\0\0\0\0\0\5", 8);
    buf_put_u32le(&p->bytes, (uint32_t)k);
}

static void put(struct payload *p, size_t k, char form)
{
    uint64_t *v = &p->numbers[k];
    bool wide = strchr("8TF", form) || (form == 'P' && p->pointer_size == 8);

    if (wide) {
        *v = PAYLOAD_BEGIN + k;
        buf_put_u64le(&p->bytes, *v);
    } else if (form == '4' || form == 'P') {
        *v = 0x81020300 + k;
        buf_put_u32le(&p->bytes, (uint32_t)*v);
    } else if (form == '2') {
        *v = 0x0400 + k;
        buf_put_u16le(&p->bytes, (uint16_t)*v);
    } else if (form == 'p') {
        *v = 0x0500 + k;
        buf_put_u8(&p->bytes, 5);
        buf_put_u8(&p->bytes, (uint8_t)k);
    } else if (form == '1') {
        *v = k;
        buf_put_u8(&p->bytes, (uint8_t)k);
    } else if (form == 's' || form == 'u') {
        put_sid(p, k, form);
    } else if (strchr("waWo", form)) {
        put_text(p, k, form);
    } else {
        put_block(p, k, form == 'G' || form == 'I' ? 16 : form == 'H' ? 32 : form == '-' ? 3 : 4);
    }
}

void payload_init(struct payload *p, const struct payload_row *row, unsigned size)
{
    const char *name = row->names;

    memset(p, 0, sizeof *p);
    buf_init(&p->bytes, 1 << 16);
    p->pointer_size = size;
    for (const char *form = row->form; *form; form++) {
        size_t n = strcspn(name, " ");

        if (strchr("oR", *form) && !p->must) {
            p->must = p->bytes.n;
        }
        put(p, p->n, *form);
        if (*form == '-' || *form == '=') {
            continue;
        }
        p->form[p->n] = *form;
        assert_true(n > 0 && n < PAYLOAD_TEXT);
        memcpy(p->names[p->n++], name, n);
        name += n + (name[n] == ' ');
    }
    assert_int_equal(*name, 0);
    if (!p->must) {
        p->must = p->bytes.n;
    }
}

static void on_value(void *ctx, const struct value *v)
{
    struct payload *p = ctx;
    size_t k = p->seen++;

    assert_true(k < p->n);
    assert_int_equal(v->name.n, strlen(p->names[k]));
    assert_memory_equal(v->name.p, p->names[k], v->name.n);
    switch (v->kind) {
    case VALUE_INT:
    case VALUE_UINT:
    case VALUE_HEX:
    case VALUE_FLOAT: /* compared as its bits */
        assert_true((v->v.u ^ p->numbers[k]) << (64 - v->bits) == 0);
        assert_true(strchr(p->form[k] == 'p' ? "p" : "P8421", p->form[k]));
        break;
    case VALUE_TIME:
        assert_true(v->v.i == (p->form[k] == 'T' ? (int64_t)p->numbers[k]
                                                 : clk_from_filetime(p->numbers[k])));
        break;
    case VALUE_TEXT:
    case VALUE_SID:
        assert_true(strchr(v->kind == VALUE_SID ? "su" : "waWo", p->form[k]));
        assert_int_equal(v->v.text.n, strlen(p->texts[k]));
        assert_memory_equal(v->v.text.p, p->texts[k], v->v.text.n);
        break;
    default:
        assert_true(strchr("GHiIR", p->form[k]));
        assert_int_equal(v->v.bytes.n, p->form[k] == 'H' ? 32 : strchr("iR", p->form[k]) ? 4 : 16);
        assert_int_equal(v->v.bytes.p[0], (uint8_t)(16 * k));
        break;
    }
}

void payload_on_begin(void *ctx, struct str name, enum value_group group)
{
    (void)ctx;
    (void)name;
    (void)group;
    fail_msg("no groups here");
}

void payload_on_end(void *ctx)
{
    (void)ctx;
}

static void ignore(void *ctx, const struct value *v)
{
    (void)ctx;
    (void)v;
}

/* Whether a layout takes what follows its last named field: padding, or what newer systems add. */
static bool takes_more(const struct layout *l)
{
    const struct layout_field *f = l->fields;

    while (f[1].name) {
        f++;
    }
    return f->type == LAYOUT_ALIGN8 || f->type == LAYOUT_REST || strcmp(l->name, "Read") == 0 ||
           strcmp(l->name, "Write") == 0;
}

/* The whole, every shorter one (never with a byte behind it to read by mistake), a longer one. */
static void check_layout(struct payload *p, const struct layout *l, struct raw_event raw)
{
    struct value_sink sink = {p, ignore, payload_on_begin, payload_on_end};
    struct decode_text text;
    size_t left, whole = raw.payload_n;
    uint8_t *part;

    for (size_t n = 0; n < whole; n++) {
        part = mem_dup(p->bytes.p, n);
        raw.payload = part;
        raw.payload_n = n;
        assert_err(layout_read(l, &raw, &sink, &text, &left), n < p->must ? ERR_CORRUPT : ERR_OK);
        mem_free(part);
    }
    buf_put(&p->bytes, "\1\0\2\0\3", 5);
    raw.payload = p->bytes.p;
    raw.payload_n = p->bytes.n;
    if (!takes_more(l)) {
        assert_ok(layout_read(l, &raw, &sink, &text, &left));
        assert_int_equal(left, 5);
    }
    raw.payload_n = whole;
    sink.value = on_value;
    assert_ok(layout_read(l, &raw, &sink, &text, &left));
    assert_int_equal(left, 0);
    assert_int_equal(p->seen, p->n);
}

static void check_fact(struct payload *p, struct decode *d, struct raw_event raw,
                       enum event_kind kind, struct event *ev)
{
    size_t whole = raw.payload_n;
    uint8_t *part;

    for (size_t n = 0; n < whole; n++) {
        part = mem_dup(p->bytes.p, n);
        raw.payload = part;
        raw.payload_n = n;
        assert_err(decode_event(d, &raw, ev), kind == EV_KIND_COUNT ? ERR_NOTFOUND
                                              : n < p->must         ? ERR_CORRUPT
                                                                    : ERR_OK);
        mem_free(part);
    }
    raw.payload = p->bytes.p;
    raw.payload_n = whole;
    if (kind == EV_KIND_COUNT) {
        assert_err(decode_event(d, &raw, ev), ERR_NOTFOUND);
        return;
    }
    assert_ok(decode_event(d, &raw, ev));
    assert_int_equal(ev->kind, kind);
}

void payload_check(const struct decode_class *class, const struct payload_row *rows, size_t n,
                   void (*fact)(const struct event *, const struct payload *))
{
    struct decode_counts counts;
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < n; i++) {
        for (unsigned size = 4; size <= 8; size += 4) {
            struct payload p;
            struct event ev;
            struct raw_event raw = {.form = class->form,
                                    .version = rows[i].version,
                                    .opcode = rows[i].opcode,
                                    .id = rows[i].opcode,
                                    .pointer_size = (uint8_t)size,
                                    .pid = 444,
                                    .tid = 888,
                                    .wall_ns = PAYLOAD_TICKS,
                                    .ticks = PAYLOAD_TICKS,
                                    .frequency = PAYLOAD_HZ};
            const struct layout *l =
                layout_find(class->layouts, class->n_layouts, rows[i].opcode, rows[i].version);

            payload_init(&p, &rows[i], size);
            memcpy(raw.guid, class->guid, sizeof raw.guid);
            raw.payload = p.bytes.p;
            raw.payload_n = p.bytes.n;
            assert_non_null(l);
            assert_string_equal(l->name, rows[i].op);
            check_fact(&p, d, raw, rows[i].kind, &ev);
            if (rows[i].kind != EV_KIND_COUNT) {
                fact(&ev, &p);
            }
            check_layout(&p, l, raw);
            buf_fini(&p.bytes);
        }
    }
    decode_stats(d, &counts);
    assert_int_equal(counts.unknown, 0);
    decode_destroy(d);
}
