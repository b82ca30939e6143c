/* Extended item 11 of a record is the schema of its payload, item 12 the traits of its provider.
 *
 *   schema  u16 size of it all, tag, name, fields to the end
 *   field   name, u8 in, [u8 out, [tag]], [u16 count], [u16 size, bytes]
 *     in    bits 0-4 the type; bits 5-6 one value, a constant count (u16 in the schema), a variable
 *           one (u16 in the payload), or a type of its own (described by bytes in the schema; u16
 *           size and bytes in the payload); bit 7: `out` follows
 *     out   bits 0-6 how to show it; of a struct: the number of fields that are its members; bit 7:
 *           a tag follows
 *   traits  u16 size of it all, provider's name, then u16 size, u8 type, data; type 1: the group
 *
 * Names are UTF-8 with a NUL, tags bytes of which all but the last have bit 7. Members of a struct
 * follow it, a struct among them counts as one. */
#include "agent/decode/schema/describe_tracelogging.h"

#include "common/base/cur.h"

#define ITEM_SCHEMA 11
#define ITEM_TRAITS 12
#define TRAIT_GROUP 1

#define IN_TYPE   0x1f
#define IN_COUNT  0x60
#define COUNT_FIX 0x20
#define COUNT_VAR 0x40
#define MORE      0x80
#define DEPTH_MAX 16

/* Where the next field goes to: members still expected, and the last field of the same struct. */
struct level {
    size_t left;
    uint16_t last, owner;
};

struct builder {
    struct cur c;
    struct tracelogging *t;
    size_t depth;
    struct level stack[DEPTH_MAX + 1];
};

/* Data of the extended item of a type; the chain was checked when the record was read, live ones
 * are checked here. */
static bool item_find(const struct raw_event *raw, unsigned type, struct cur *out)
{
    struct cur c = cur_make(raw->ext, raw->ext_n);

    while (raw->ext && cur_left(&c) >= 8) {
        const uint8_t *start = c.p;
        size_t size = cur_u16le(&c), n;
        unsigned is = cur_u16le(&c);

        cur_skip(&c, 2);
        n = cur_u16le(&c);
        if (size < 8 || n > size - 8 || size - 8 > cur_left(&c)) {
            return false;
        }
        if (is == type) {
            *out = cur_make(start + 8, n);
            return true;
        }
        cur_skip(&c, size - 8);
    }
    return false;
}

/* Narrows the cursor to what the u16 before it says. */
static void narrow(struct cur *c)
{
    const uint8_t *start = c->p;
    size_t size = cur_u16le(c);

    if (c->bad || size < 2 || size - 2 > cur_left(c)) {
        c->bad = true;
        return;
    }
    c->end = start + size;
}

static void skip_tag(struct cur *c)
{
    while (cur_u8(c) & MORE) {
    }
}

static struct str text(struct cur *c)
{
    size_t n;
    const char *p = cur_cstr(c, &n);

    return (struct str){p ? p : "", n};
}

/* Numbers of `out`; those from 35 on are the platform's. */
static uint8_t shown_as(unsigned out)
{
    static const uint8_t shows[] = {
        [2] = SCHEMA_AS_TEXT,     [3] = SCHEMA_AS_BOOL,      [4] = SCHEMA_AS_HEX,
        [5] = SCHEMA_AS_UNSIGNED, [6] = SCHEMA_AS_UNSIGNED,  [7] = SCHEMA_AS_PORT,
        [8] = SCHEMA_AS_IP4,      [9] = SCHEMA_AS_IP6,       [10] = SCHEMA_AS_SOCKADDR,
        [11] = SCHEMA_AS_UTF8,    [12] = SCHEMA_AS_UTF8,     [13] = SCHEMA_AS_UNSIGNED,
        [14] = SCHEMA_AS_HEX,     [15] = SCHEMA_AS_HEX,      [16] = SCHEMA_AS_TIME,
        [17] = SCHEMA_AS_SIGNED,  [18] = SCHEMA_AS_UNSIGNED,
    };

    return out < sizeof shows ? shows[out] : schema_out_of_tdh(out);
}

static void count_read(struct schema_field *f, struct cur *c, unsigned in)
{
    switch (in & IN_COUNT) {
    case COUNT_FIX:
        f->count_by = SCHEMA_BY_CONST;
        f->count = cur_u16le(c);
        break;
    case COUNT_VAR:
        f->count_by = SCHEMA_BY_U16;
        break;
    case IN_COUNT:
        cur_skip(c, cur_u16le(c));
        f->in = SCHEMA_COUNTED_BINARY;
        break;
    default:
        break;
    }
}

/* Gives the number of members when it is a struct. */
static size_t field_read(struct schema_field *f, struct cur *c)
{
    size_t members = 0;
    unsigned in, out = 0;

    *f = (struct schema_field){.name = text(c), .first = SCHEMA_NONE, .next = SCHEMA_NONE};
    in = cur_u8(c);
    if (in & MORE) {
        out = cur_u8(c);
        if (out & MORE) {
            skip_tag(c);
        }
    }
    f->in = in & IN_TYPE;
    if (f->in == SCHEMA_BINARY) {
        f->in = SCHEMA_COUNTED_BINARY;
    }
    if (f->in > SCHEMA_COUNTED_BINARY) {
        c->bad = true;
    }
    count_read(f, c, in);
    if (f->in == SCHEMA_STRUCT) {
        members = out & ~(unsigned)MORE;
    } else {
        f->out = shown_as(out & ~(unsigned)MORE);
    }
    return members;
}

static void link_field(struct builder *b, uint16_t index)
{
    struct level *top = &b->stack[b->depth];
    struct schema_field *fields = b->t->fields;

    if (top->last != SCHEMA_NONE) {
        fields[top->last].next = index;
    } else if (top->owner != SCHEMA_NONE) {
        fields[top->owner].first = index;
    }
    top->last = index;
    if (b->depth > 0) {
        top->left--;
    }
}

static void fields_read(struct builder *b)
{
    struct tracelogging *t = b->t;

    b->stack[0] = (struct level){.last = SCHEMA_NONE, .owner = SCHEMA_NONE};
    while (!b->c.bad && cur_left(&b->c) > 0) {
        uint16_t index = (uint16_t)t->event.n_fields;
        size_t members;

        if (index == SCHEMA_FIELDS_MAX) {
            b->c.bad = true;
            return;
        }
        while (b->depth > 0 && b->stack[b->depth].left == 0) {
            b->depth--;
        }
        members = field_read(&t->fields[index], &b->c);
        link_field(b, index);
        t->event.n_fields++;
        if (members > 0 && b->depth == DEPTH_MAX) {
            b->c.bad = true;
        } else if (members > 0) {
            b->stack[++b->depth] =
                (struct level){.left = members, .last = SCHEMA_NONE, .owner = index};
        }
    }
    while (b->depth > 0 && b->stack[b->depth].left == 0) {
        b->depth--;
    }
    b->c.bad |= b->depth > 0; /* members are missing */
}

bool describe_tracelogging_is(const struct raw_event *raw)
{
    struct cur c;

    return raw->form == RAW_MANIFEST && item_find(raw, ITEM_SCHEMA, &c);
}

static void traits_read(struct tracelogging *t, const struct raw_event *raw)
{
    struct cur c;

    if (!item_find(raw, ITEM_TRAITS, &c)) {
        return;
    }
    narrow(&c);
    t->event.provider = text(&c);
    while (!c.bad && cur_left(&c) > 0) {
        size_t size = cur_u16le(&c);
        unsigned type = cur_u8(&c);
        const uint8_t *data;

        if (size < 3) {
            return;
        }
        data = cur_bytes(&c, size - 3);
        if (data && type == TRAIT_GROUP && size - 3 == 16) {
            t->group = data;
        }
    }
}

/* Leaves the cursor at the first field. */
static struct cur head_read(struct tracelogging *t, const struct raw_event *raw)
{
    struct cur c = {.bad = true};

    t->event = (struct schema_event){.form = raw->form,
                                     .version = raw->version,
                                     .number = raw->id,
                                     .provider = {"", 0},
                                     .task = {"", 0},
                                     .name = {"", 0},
                                     .fields = t->fields};
    t->group = NULL;
    memcpy(t->event.guid, raw->guid, sizeof raw->guid);
    traits_read(t, raw);
    if (item_find(raw, ITEM_SCHEMA, &c)) {
        narrow(&c);
        skip_tag(&c);
        t->event.name = text(&c);
    }
    return c;
}

void describe_tracelogging_name(struct tracelogging *t, const struct raw_event *raw)
{
    (void)head_read(t, raw);
}

enum err describe_tracelogging_read(struct tracelogging *t, const struct raw_event *raw)
{
    struct builder b = {.c = head_read(t, raw), .t = t};

    if (!b.c.bad) {
        fields_read(&b);
    }
    return b.c.bad ? ERR_CORRUPT : ERR_OK;
}
