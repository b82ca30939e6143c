/* A field is read in three steps: how many elements, how long a text or binary is, then the element
 * by its stored type. Structs go onto a stack of frames; a frame knows the struct's first member,
 * the next one to read and how many elements of an array of structs are left. */
#include "agent/decode/schema/payload.h"

#include "common/base/clk.h"
#include "common/base/cur.h"

/* Entries of maps one record may be compared with: a large array with a large map gets numbers for
 * the rest of its elements. */
#define COMPARED_MAX ((size_t)4 << 20)

struct frame {
    uint16_t first, at;
    uint32_t left; /* elements, this one included */
    bool array;
};

struct reader {
    struct cur c;
    struct payload *p;
    const struct schema_event *schema;
    const struct schema *maps;
    const struct raw_event *raw;
    const struct value_sink *sink;
    uint32_t steps;
    size_t compared; /* entries of maps */
    size_t depth;
    struct frame stack[PAYLOAD_DEPTH_MAX];
};

static bool step(struct reader *r)
{
    if (r->steps == PAYLOAD_STEPS_MAX) {
        r->c.bad = true;
    }
    r->steps++;
    return !r->c.bad;
}

static void give(struct reader *r, const struct value *v)
{
    if (!r->c.bad) {
        r->sink->value(r->sink->ctx, v);
    }
}

static void give_text(struct reader *r, struct str name, struct str text)
{
    give(r, &(struct value){.name = name, .kind = VALUE_TEXT, .v.text = text});
}

static void give_bytes(struct reader *r, struct str name, enum value_kind kind, size_t n)
{
    struct value v = {.name = name, .kind = (uint8_t)kind};

    v.v.bytes.p = cur_bytes(&r->c, n);
    v.v.bytes.n = n;
    give(r, &v);
}

/* ---- texts ---- */

static struct str utf16(struct reader *r, const uint8_t *p, size_t n_units)
{
    return p ? decode_text_utf16(&r->p->text, p, n_units, DECODE_TEXT_BYTES, NULL) : str_make("");
}

static struct str bits8(struct reader *r, const char *p, size_t n)
{
    return p ? decode_text_8bit(&r->p->text, p, n, DECODE_TEXT_BYTES) : str_make("");
}

/* Texts of a given length may be padded with NULs. */
static void give_utf16(struct reader *r, struct str name, size_t n_bytes)
{
    const uint8_t *p = cur_bytes(&r->c, n_bytes);
    size_t units = 0;

    while (p && units < n_bytes / 2 && (p[2 * units] | p[2 * units + 1])) {
        units++;
    }
    give_text(r, name, utf16(r, p, units));
}

static void give_8bit(struct reader *r, struct str name, size_t n_bytes)
{
    const uint8_t *p = cur_bytes(&r->c, n_bytes);
    const uint8_t *nul = p && n_bytes ? memchr(p, 0, n_bytes) : NULL;

    give_text(r, name, bits8(r, (const char *)p, nul ? (size_t)(nul - p) : n_bytes));
}

/* Providers with a manifest leave the terminator of a last text away now and then (HTTP.sys does):
 * what is left is the text. */
static bool ends_open(const struct reader *r, const struct schema_field *f)
{
    if (r->schema->origin == SCHEMA_FROM_METADATA || f->next != SCHEMA_NONE || r->depth > 1) {
        return false;
    }
    for (const uint8_t *p = r->c.p; r->c.end - p >= 2; p += 2) {
        if ((p[0] | p[1]) == 0) {
            return false;
        }
    }
    return true;
}

static void give_wide_text(struct reader *r, const struct schema_field *f, struct str name,
                           size_t length)
{
    const uint8_t *p;
    size_t units;

    if (f->length_by != SCHEMA_BY_NOTHING) {
        give_utf16(r, name, 2 * length);
        return;
    }
    if (ends_open(r, f)) {
        give_utf16(r, name, cur_left(&r->c));
        return;
    }
    p = cur_wstr(&r->c, &units);
    give_text(r, name, utf16(r, p, units));
}

static void give_narrow_text(struct reader *r, const struct schema_field *f, struct str name,
                             size_t length)
{
    const char *p;
    size_t n;

    if (f->length_by != SCHEMA_BY_NOTHING) {
        give_8bit(r, name, length);
        return;
    }
    p = cur_cstr(&r->c, &n);
    give_text(r, name, bits8(r, p, n));
}

/* ---- numbers ---- */

struct number {
    uint64_t u; /* signed ones extended */
    uint8_t bits;
    uint8_t show; /* enum value_kind */
};

static struct number number_read(struct reader *r, unsigned in)
{
    struct cur *c = &r->c;
    unsigned pointer = r->raw->pointer_size;

    switch (in) {
    case SCHEMA_I8:
        return (struct number){(uint64_t)(int8_t)cur_u8(c), 8, VALUE_INT};
    case SCHEMA_U8:
    case SCHEMA_CHAR8:
        return (struct number){cur_u8(c), 8, VALUE_UINT};
    case SCHEMA_I16:
        return (struct number){(uint64_t)(int16_t)cur_u16le(c), 16, VALUE_INT};
    case SCHEMA_U16:
    case SCHEMA_CHAR16:
        return (struct number){cur_u16le(c), 16, VALUE_UINT};
    case SCHEMA_I32:
        return (struct number){(uint64_t)(int32_t)cur_u32le(c), 32, VALUE_INT};
    case SCHEMA_U32:
        return (struct number){cur_u32le(c), 32, VALUE_UINT};
    case SCHEMA_I64:
        return (struct number){cur_u64le(c), 64, VALUE_INT};
    case SCHEMA_U64:
        return (struct number){cur_u64le(c), 64, VALUE_UINT};
    case SCHEMA_HEX32:
        return (struct number){cur_u32le(c), 32, VALUE_HEX};
    case SCHEMA_HEX64:
        return (struct number){cur_u64le(c), 64, VALUE_HEX};
    case SCHEMA_BOOL32:
        return (struct number){cur_u32le(c), 32, VALUE_BOOL};
    case SCHEMA_SIZE_T:
        return (struct number){cur_uptr(c, pointer), (uint8_t)(8 * pointer), VALUE_UINT};
    case SCHEMA_POINTER:
        return (struct number){cur_uptr(c, pointer), (uint8_t)(8 * pointer), VALUE_HEX};
    default:
        return (struct number){0, 0, VALUE_UINT};
    }
}

static uint64_t cut_to(uint64_t u, unsigned bits)
{
    return bits < 64 ? u & ((UINT64_C(1) << bits) - 1) : u;
}

static int64_t extend(uint64_t u, unsigned bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);

    return (int64_t)((cut_to(u, bits) ^ sign) - sign);
}

/* Moved with the recording; the number as stored where ns since 1970 cannot hold it. */
static void give_filetime(struct reader *r, struct str name, uint64_t filetime)
{
    int64_t utc_ns = clk_from_filetime(filetime);
    struct value v = {.name = name, .kind = VALUE_TIME, .bits = 64};

    v.v.i = clk_add(utc_ns, r->raw->shift_ns);
    if (filetime == 0 || clk_to_filetime(utc_ns) != filetime) {
        v.kind = VALUE_UINT;
        v.v.u = filetime;
    }
    give(r, &v);
}

/* Bits of which every one has a name, "A|B"; the rest as a number behind them. */
static struct str bits_text(struct reader *r, const struct schema_map *map, uint64_t u)
{
    struct decode_text *t = &r->p->text;
    struct str out = {t->p + t->n, 0};

    for (size_t i = 0; i < map->n_entries && u; i++) {
        const struct schema_map_entry *e = &map->entries[i];

        if (!e->value || (u & e->value) != e->value || e->text.n + 1 > sizeof t->p - t->n) {
            continue;
        }
        if (out.n) {
            t->p[t->n++] = '|';
            out.n++;
        }
        memcpy(t->p + t->n, e->text.p, e->text.n);
        t->n += e->text.n;
        out.n += e->text.n;
        u &= ~(uint64_t)e->value;
    }
    return u ? str_make("") : out;
}

/* Empty when the map has no name for it. */
static struct str map_text(struct reader *r, const struct schema_field *f, uint64_t u)
{
    const struct schema_map *map =
        f->map.n && r->maps ? schema_find_map(r->maps, r->schema->owner, f->map) : NULL;

    if (!map || r->compared > COMPARED_MAX) {
        return str_make("");
    }
    r->compared += map->n_entries;
    if (map->bits && u) {
        return bits_text(r, map, u);
    }
    for (size_t i = 0; i < map->n_entries; i++) {
        if (map->entries[i].value == u) {
            return map->entries[i].text;
        }
    }
    return str_make("");
}

static uint64_t swapped16(uint64_t u)
{
    return (u & 0xff) << 8 | (u >> 8 & 0xff);
}

/* How a number is to be shown; false: it was given already, as something else. */
static bool reshape(struct reader *r, const struct schema_field *f, struct str name,
                    struct number *n)
{
    switch (f->out) {
    case SCHEMA_AS_BOOL:
        n->show = VALUE_BOOL;
        return true;
    case SCHEMA_AS_HEX:
        n->show = VALUE_HEX;
        return true;
    case SCHEMA_AS_SIGNED:
        n->show = VALUE_INT;
        return true;
    case SCHEMA_AS_UNSIGNED:
        n->show = VALUE_UINT;
        return true;
    case SCHEMA_AS_PORT:
        n->u = n->bits == 16 ? swapped16(n->u) : n->u;
        n->show = VALUE_UINT;
        return true;
    case SCHEMA_AS_TIME:
        if (n->bits == 64) {
            give_filetime(r, name, n->u);
            return false;
        }
        return true;
    default:
        return true;
    }
}

static void give_char(struct reader *r, struct str name, uint64_t u, unsigned bits)
{
    uint8_t stored[2] = {(uint8_t)u, (uint8_t)(u >> 8)};

    give_text(r, name, bits == 16 ? utf16(r, stored, u ? 1 : 0) : bits8(r, (char *)stored, u != 0));
}

static bool is_char(const struct schema_field *f)
{
    return f->in == SCHEMA_CHAR8 || f->in == SCHEMA_CHAR16 ||
           ((f->out == SCHEMA_AS_TEXT || f->out == SCHEMA_AS_UTF8) &&
            (f->in == SCHEMA_I8 || f->in == SCHEMA_U8 || f->in == SCHEMA_U16));
}

static void give_number(struct reader *r, const struct schema_field *f, struct str name)
{
    const uint8_t *stored = r->c.p;
    struct number n = number_read(r, f->in);
    struct value v = {.name = name, .bits = n.bits};
    struct str text;

    if (r->c.bad) {
        return;
    }
    r->p->numbers[f - r->schema->fields] = n.u > UINT32_MAX ? UINT32_MAX : (uint32_t)n.u;
    if (is_char(f)) {
        give_char(r, name, n.u, n.bits);
        return;
    }
    if (f->out == SCHEMA_AS_IP4 && n.bits == 32) {
        v = (struct value){.name = name, .kind = VALUE_ADDRESS};
        v.v.bytes.p = stored;
        v.v.bytes.n = 4;
        give(r, &v);
        return;
    }
    text = map_text(r, f, cut_to(n.u, n.bits));
    if (text.n) {
        give_text(r, name, text);
        return;
    }
    if (!reshape(r, f, name, &n)) {
        return;
    }
    v.kind = n.show;
    if (n.show == VALUE_INT) {
        v.v.i = extend(n.u, n.bits);
    } else {
        v.v.u = n.show == VALUE_BOOL ? cut_to(n.u, n.bits) != 0 : cut_to(n.u, n.bits);
    }
    give(r, &v);
}

static void give_float(struct reader *r, struct str name, unsigned bits)
{
    struct value v = {.name = name, .kind = VALUE_FLOAT, .bits = (uint8_t)bits};
    uint64_t u = bits == 64 ? cur_u64le(&r->c) : cur_u32le(&r->c);
    uint32_t u32 = (uint32_t)u;
    float f;

    if (bits == 64) {
        memcpy(&v.v.f, &u, sizeof v.v.f);
    } else {
        memcpy(&f, &u32, sizeof f);
        v.v.f = (double)f;
    }
    give(r, &v);
}

/* ---- the other types ---- */

/* Days since 1970 of a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t of_era = y % 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return y / 400 * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Eight u16: year, month, day of the week, day, hour, minute, second, ms. */
static void give_systemtime(struct reader *r, struct str name)
{
    struct value v = {.name = name, .kind = VALUE_TIME};
    const uint8_t *stored = r->c.p;
    int64_t part[8];

    for (size_t i = 0; i < 8; i++) {
        part[i] = cur_u16le(&r->c);
    }
    if (part[0] < 1700 || part[0] > 2200 || part[1] < 1 || part[1] > 12 || part[3] < 1 ||
        part[3] > 31 || part[4] > 23 || part[5] > 59 || part[6] > 60 || part[7] > 999) {
        v.kind = VALUE_BYTES;
        v.v.bytes.p = stored;
        v.v.bytes.n = 16;
    } else {
        v.v.i = days_of(part[0], part[1], part[3]) * 86400 * CLK_S;
        v.v.i += (part[4] * 3600 + part[5] * 60 + part[6]) * CLK_S + part[7] * CLK_MS;
        v.v.i = clk_add(v.v.i, r->raw->shift_ns);
    }
    give(r, &v);
}

static void give_sid(struct reader *r, const struct schema_field *f, struct str name)
{
    struct value v = {.name = name, .kind = VALUE_SID};

    v.v.text = f->in == SCHEMA_MOF_SID
                   ? decode_text_user_at(&r->p->text, &r->c, r->raw->pointer_size)
                   : decode_text_sid_at(&r->p->text, &r->c);
    give(r, &v);
}

/* SOCKADDR: u16 family, u16 port and the address, big-endian; for IPv6 u32 flow before it. */
static void give_socket_address(struct reader *r, struct str name, size_t n)
{
    const uint8_t *p = cur_bytes(&r->c, n);
    struct value port = {.name = str_make("port"), .kind = VALUE_UINT, .bits = 16};
    struct value address = {.name = str_make("address"), .kind = VALUE_ADDRESS};
    struct value whole = {.name = name, .kind = VALUE_BYTES};
    unsigned family = p && n >= 8 ? (unsigned)(p[0] | p[1] << 8) : 0;
    bool ip4 = family == 2, ip6 = family == 23 && n >= 24;

    whole.v.bytes.p = p;
    whole.v.bytes.n = n;
    if (!p || (!ip4 && !ip6)) {
        give(r, &whole);
        return;
    }
    port.v.u = (uint64_t)(p[2] << 8 | p[3]);
    address.v.bytes.p = p + (ip4 ? 4 : 8);
    address.v.bytes.n = ip4 ? 4 : 16;
    r->sink->begin(r->sink->ctx, name, VALUE_STRUCT);
    give(r, &address);
    give(r, &port);
    r->sink->end(r->sink->ctx);
}

static void give_binary(struct reader *r, const struct schema_field *f, struct str name, size_t n)
{
    if (f->out == SCHEMA_AS_SOCKADDR) {
        give_socket_address(r, name, n);
    } else if ((f->out == SCHEMA_AS_IP6 && n == 16) || (f->out == SCHEMA_AS_IP4 && n == 4)) {
        give_bytes(r, name, VALUE_ADDRESS, n);
    } else if (f->out == SCHEMA_AS_GUID && n == 16) {
        give_bytes(r, name, VALUE_GUID, n);
    } else if (f->out == SCHEMA_AS_TEXT || f->out == SCHEMA_AS_UTF8) {
        give_8bit(r, name, n);
    } else {
        give_bytes(r, name, VALUE_BYTES, n);
    }
}

static size_t counted(struct reader *r)
{
    return cur_u16le(&r->c);
}

/* Types whose length is told by a count before the bytes, or by the payload's end. False: none. */
static bool give_counted(struct reader *r, const struct schema_field *f, struct str name)
{
    switch (f->in) {
    case SCHEMA_COUNTED_UTF16:
    case SCHEMA_MOF_COUNTED_UTF16:
        give_utf16(r, name, counted(r));
        return true;
    case SCHEMA_COUNTED_8BIT:
    case SCHEMA_MOF_COUNTED_8BIT:
        give_8bit(r, name, counted(r));
        return true;
    case SCHEMA_REVERSED_UTF16:
        give_utf16(r, name, cur_u16be(&r->c));
        return true;
    case SCHEMA_REVERSED_8BIT:
        give_8bit(r, name, cur_u16be(&r->c));
        return true;
    case SCHEMA_REST_UTF16:
        give_utf16(r, name, cur_left(&r->c));
        return true;
    case SCHEMA_REST_8BIT:
        give_8bit(r, name, cur_left(&r->c));
        return true;
    case SCHEMA_COUNTED_BINARY:
        give_binary(r, f, name, counted(r));
        return true;
    case SCHEMA_HEX_DUMP:
        give_binary(r, f, name, cur_u32le(&r->c));
        return true;
    default:
        return false;
    }
}

static void give_element(struct reader *r, const struct schema_field *f, struct str name,
                         size_t length)
{
    decode_text_reset(&r->p->text);
    switch (f->in) {
    case SCHEMA_NULL:
        give_text(r, name, str_make(""));
        return;
    case SCHEMA_UTF16:
        give_wide_text(r, f, name, length);
        return;
    case SCHEMA_8BIT:
        give_narrow_text(r, f, name, length);
        return;
    case SCHEMA_F32:
        give_float(r, name, 32);
        return;
    case SCHEMA_F64:
        give_float(r, name, 64);
        return;
    case SCHEMA_BINARY:
        give_binary(r, f, name, length);
        return;
    case SCHEMA_GUID:
        give_bytes(r, name, VALUE_GUID, 16);
        return;
    case SCHEMA_FILETIME:
        give_filetime(r, name, cur_u64le(&r->c));
        return;
    case SCHEMA_SYSTEMTIME:
        give_systemtime(r, name);
        return;
    case SCHEMA_SID:
    case SCHEMA_MOF_SID:
        give_sid(r, f, name);
        return;
    default:
        break;
    }
    if (!give_counted(r, f, name)) {
        give_number(r, f, name);
    }
}

/* ---- the walk ---- */

/* A count or length; fields it refers to stand earlier (whoever made the schema has checked it). */
static size_t told(struct reader *r, unsigned by, uint16_t n)
{
    switch (by) {
    case SCHEMA_BY_CONST:
        return n;
    case SCHEMA_BY_FIELD:
        return r->p->numbers[n];
    case SCHEMA_BY_U16:
        return cur_u16le(&r->c);
    default:
        return 0;
    }
}

static size_t length_of(struct reader *r, const struct schema_field *f)
{
    if (f->length_by == SCHEMA_BY_NOTHING && f->in == SCHEMA_BINARY) {
        return f->out == SCHEMA_AS_IP6 ? 16 : 0;
    }
    return told(r, f->length_by, f->length);
}

/* Characters in a row are one text. */
static bool char_array(struct reader *r, const struct schema_field *f, size_t count)
{
    if (!is_char(f)) {
        return false;
    }
    decode_text_reset(&r->p->text);
    if (f->in == SCHEMA_CHAR16 || f->in == SCHEMA_U16) {
        give_utf16(r, f->name, 2 * count);
    } else {
        give_8bit(r, f->name, count);
    }
    return true;
}

static void read_array(struct reader *r, const struct schema_field *f, size_t count)
{
    if (r->c.bad || char_array(r, f, count)) {
        return;
    }
    r->sink->begin(r->sink->ctx, f->name, VALUE_ARRAY);
    for (size_t i = 0; i < count && step(r); i++) {
        give_element(r, f, str_make(""), length_of(r, f));
    }
    r->sink->end(r->sink->ctx);
}

static void enter_struct(struct reader *r, const struct schema_field *f, bool array, size_t count)
{
    if (r->c.bad || r->depth == PAYLOAD_DEPTH_MAX) {
        r->c.bad = true;
        return;
    }
    if (array) {
        r->sink->begin(r->sink->ctx, f->name, VALUE_ARRAY);
    }
    if (count == 0) {
        r->sink->end(r->sink->ctx);
        return;
    }
    r->sink->begin(r->sink->ctx, array ? str_make("") : f->name, VALUE_STRUCT);
    r->stack[r->depth++] = (struct frame){f->first, f->first, (uint32_t)count, array};
}

/* A manifest made from a running system has lost the length of such bytes: what follows cannot be
 * found. */
static bool is_lossy(const struct schema_field *f)
{
    return f->in == SCHEMA_BINARY && f->length_by == SCHEMA_BY_NOTHING && f->out != SCHEMA_AS_IP6;
}

static void read_field(struct reader *r, const struct schema_field *f)
{
    bool array = f->count_by != SCHEMA_BY_NOTHING;
    size_t count = array ? told(r, f->count_by, f->count) : 1;

    if (f->in == SCHEMA_STRUCT) {
        enter_struct(r, f, array, count);
    } else if (array) {
        read_array(r, f, count);
    } else {
        give_element(r, f, f->name, length_of(r, f));
    }
}

/* The struct's last member was read. */
static void next_element(struct reader *r)
{
    struct frame *top = &r->stack[r->depth - 1];

    r->sink->end(r->sink->ctx);
    if (--top->left > 0) {
        r->sink->begin(r->sink->ctx, str_make(""), VALUE_STRUCT);
        top->at = top->first;
        return;
    }
    if (top->array) {
        r->sink->end(r->sink->ctx);
    }
    r->depth--;
}

static void walk(struct reader *r)
{
    r->stack[r->depth++] = (struct frame){.at = r->schema->n_fields ? 0 : SCHEMA_NONE};
    while (step(r)) {
        struct frame *top = &r->stack[r->depth - 1];

        if (top->at != SCHEMA_NONE) {
            const struct schema_field *f = &r->schema->fields[top->at];

            if (is_lossy(f) && r->schema->origin != SCHEMA_FROM_METADATA) {
                break;
            }

            top->at = f->next;
            read_field(r, f);
        } else if (r->depth > 1) {
            next_element(r);
        } else {
            return;
        }
    }
    for (; r->depth > 1; r->depth--) {
        r->sink->end(r->sink->ctx);
        if (r->stack[r->depth - 1].array) {
            r->sink->end(r->sink->ctx);
        }
    }
}

enum err payload_read(struct payload *p, const struct schema_event *schema,
                      const struct schema *maps, const struct raw_event *raw,
                      const struct value_sink *sink, size_t *left)
{
    struct reader r = {.c = cur_make(raw->payload, raw->payload_n),
                       .p = p,
                       .schema = schema,
                       .maps = maps,
                       .raw = raw,
                       .sink = sink};

    memset(p->numbers, 0, schema->n_fields * sizeof p->numbers[0]);
    walk(&r);
    if (r.c.bad) {
        return ERR_CORRUPT;
    }
    *left = cur_left(&r.c);
    return ERR_OK;
}
