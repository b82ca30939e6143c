/* Records of the class below, classic, by opcode:
 *
 *   32   TRACE_EVENT_INFO, one event, as the platform documents it:
 *          0  GUID provider          52  u32 provider name     100  u32 properties
 *         16  GUID class or task     68  u32 task name         104  u32 of these at the top level
 *         32  u16 id, u8 version     72  u32 opcode name       112  the properties, 24 bytes each
 *         37  u8 opcode              92  u32 event name
 *         48  u32 source of it: 0 a manifest, 1 MOF, 2 WPP, 3 TraceLogging
 *       property: u32 flags, u32 name, then u16 in type, u16 out type, u32 map name, or of a
 *       struct u16 index of the first member, u16 members, u32 of nothing; u16 elements, u16
 * length, u32 of nothing 33   GUID provider, then EVENT_MAP_INFO: u32 name, u32 flags, u32 entries,
 * u32 kind of value; entries of u32 text, u32 value
 *
 * Names are offsets of UTF-16 text with a NUL, from the start of the structure; 0 = none. Message
 * compilers leave a space at the end of them, and "win:" stands before the platform's. Members of
 * structs stand behind whatever holds them, which is required here: then no struct can hold itself.
 *
 * A manifest's event is found by id and version; one that is logged the classic way too, by the
 * GUID of its task and the opcode; MOF knows the latter only. WPP and TraceLogging have their own
 * means. */
#include "agent/decode/schema/describe_metadata.h"

#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define OP_EVENT 32
#define OP_MAP   33

#define NAME_MAX   1024 /* units with the NUL */
#define PROPERTIES 112
#define PROPERTY   24
#define MAP_HEAD   16
#define MAP_ENTRY  8

enum made_from { FROM_MANIFEST, FROM_MOF };

enum property_flag {
    PROPERTY_STRUCT = 1,
    PROPERTY_LENGTH_BY_FIELD = 2,
    PROPERTY_COUNT_BY_FIELD = 4,
    PROPERTY_FIXED_LENGTH = 0x10,
    PROPERTY_FIXED_COUNT = 0x20,
};

enum map_flag { MAP_BITS = 2, MAP_PATTERNS = 4, MAP_MOF_BITS = 0x10 };

struct blob {
    const uint8_t *p;
    size_t n;
    struct decode_text *text;
    bool bad;
};

static uint32_t at32(struct blob *b, size_t offset)
{
    struct cur c = cur_make(b->p, b->n);

    cur_skip(&c, offset);
    return cur_u32le(&c);
}

static struct str name_at(struct blob *b, uint32_t offset)
{
    struct str s = {"", 0};
    const uint8_t *w;
    struct cur c;
    size_t units, left;

    if (offset == 0 || b->bad) {
        return s;
    }
    if (offset >= b->n) {
        b->bad = true;
        return s;
    }
    left = b->n - offset;
    c = cur_make(b->p + offset, left < 2 * NAME_MAX ? left : 2 * NAME_MAX);
    w = cur_wstr(&c, &units);
    if (!w) {
        b->bad = true;
        return s;
    }
    s = decode_text_utf16(b->text, w, units, DECODE_TEXT_BYTES, NULL);
    while (s.n > 0 && s.p[s.n - 1] == ' ') {
        s.n--;
    }
    if (s.n > 4 && memcmp(s.p, "win:", 4) == 0) {
        s = (struct str){s.p + 4, s.n - 4};
    }
    return s;
}

/* Written by our own recorder: the same behind u16 bytes. */
static bool is_own(const struct raw_event *raw)
{
    static const uint8_t own[16] = ETW_PROVIDER_OWN;

    return raw->form == RAW_MANIFEST && memcmp(raw->guid, own, sizeof own) == 0;
}

bool describe_metadata_is(const struct raw_event *raw)
{
    static const uint8_t class[16] = ETW_CONTROL_METADATA;

    return (raw->opcode == OP_EVENT || raw->opcode == OP_MAP) &&
           (raw->form == RAW_CLASSIC ? memcmp(raw->guid, class, sizeof class) == 0 : is_own(raw));
}

const struct layout *describe_metadata_layout(const struct raw_event *raw)
{
    static const struct layout_field event[] = {{"TraceEventInfo", LAYOUT_REST, 0, 0, 0}, {0}};
    static const struct layout_field map[] = {
        {"Provider", LAYOUT_GUID, 0, 0, 0}, {"EventMapInfo", LAYOUT_REST, 0, 0, 0}, {0}};
    static const struct layout layouts[] = {{OP_EVENT, 0, 0, "EventInfo", event},
                                            {OP_MAP, 0, 0, "MapInfo", map}};

    return &layouts[raw->opcode == OP_MAP];
}

/* ---- properties ---- */

struct property {
    uint32_t flags, name, map;
    uint16_t in, out; /* of a struct: first member, members */
    uint16_t count, length;
};

static struct property property_at(struct blob *b, size_t index)
{
    struct cur c = cur_make(b->p, b->n);
    struct property p;

    cur_skip(&c, PROPERTIES + PROPERTY * index);
    p.flags = cur_u32le(&c);
    p.name = cur_u32le(&c);
    p.in = cur_u16le(&c);
    p.out = cur_u16le(&c);
    p.map = cur_u32le(&c);
    p.count = cur_u16le(&c);
    p.length = cur_u16le(&c);
    b->bad |= c.bad;
    return p;
}

static bool has_length(unsigned in)
{
    return in == SCHEMA_UTF16 || in == SCHEMA_8BIT || in == SCHEMA_BINARY;
}

static void count_set(struct schema_field *f, const struct property *p)
{
    if (p->flags & PROPERTY_COUNT_BY_FIELD) {
        f->count_by = SCHEMA_BY_FIELD;
        f->count = p->count;
    } else if (p->flags & PROPERTY_FIXED_COUNT || p->count > 1) {
        f->count_by = SCHEMA_BY_CONST;
        f->count = p->count;
    }
}

static void length_set(struct schema_field *f, const struct property *p)
{
    if (p->flags & PROPERTY_LENGTH_BY_FIELD) {
        f->length_by = SCHEMA_BY_FIELD;
        f->length = p->length;
    } else if (has_length(f->in) && (p->flags & PROPERTY_FIXED_LENGTH || p->length > 0)) {
        f->length_by = SCHEMA_BY_CONST;
        f->length = p->length;
    }
}

/* MOF has truth values of one byte under the type that has four in manifests. */
static void type_set(struct blob *b, struct schema_field *f, const struct property *p)
{
    f->in = p->in;
    f->out = schema_out_of_tdh(p->out);
    f->map = name_at(b, p->map);
    if (p->in == SCHEMA_BOOL32 && p->length == 1) {
        f->in = SCHEMA_U8;
        f->out = SCHEMA_AS_BOOL;
    }
    b->bad |= p->in == SCHEMA_STRUCT || p->in > SCHEMA_MOF_SID ||
              (p->in > SCHEMA_COUNTED_BINARY && p->in < SCHEMA_MOF_COUNTED_UTF16);
}

/* Fields first to first + n - 1 follow each other. */
static void chain(struct schema_field *fields, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        fields[i].next = i + 1 < first + n ? (uint16_t)(i + 1) : SCHEMA_NONE;
    }
}

static void struct_set(struct blob *b, struct metadata *m, size_t index, size_t n_fields,
                       const struct property *p)
{
    struct schema_field *f = &m->fields[index];

    f->in = SCHEMA_STRUCT;
    f->first = p->out > 0 ? p->in : SCHEMA_NONE;
    if (p->out > 0 && (p->in <= index || p->in + (size_t)p->out > n_fields)) {
        b->bad = true;
        return;
    }
    chain(m->fields, p->in, p->out);
}

static void properties_read(struct blob *b, struct metadata *m, size_t n, size_t n_top)
{
    if (n > SCHEMA_FIELDS_MAX || n_top > n || (n > 0 && n_top == 0) ||
        b->n < PROPERTIES + PROPERTY * n) {
        b->bad = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        m->fields[i] = (struct schema_field){.first = SCHEMA_NONE, .next = SCHEMA_NONE};
    }
    chain(m->fields, 0, n_top);
    for (size_t i = 0; i < n && !b->bad; i++) {
        struct property p = property_at(b, i);
        struct schema_field *f = &m->fields[i];

        f->name = name_at(b, p.name);
        f->map = str_make("");
        if (p.flags & PROPERTY_STRUCT) {
            struct_set(b, m, i, n, &p);
        } else {
            type_set(b, f, &p);
            length_set(f, &p);
        }
        count_set(f, &p);
        b->bad |= (f->count_by == SCHEMA_BY_FIELD && f->count >= n) ||
                  (f->length_by == SCHEMA_BY_FIELD && f->length >= n);
    }
}

/* The runtime's stack events claim two frames and log FrameCount of them. */
static void mend_frames(struct schema_field *fields, size_t n)
{
    struct schema_field *count, *stack;

    if (n < 2) {
        return;
    }
    count = &fields[n - 2];
    stack = &fields[n - 1];
    if (stack->count_by == SCHEMA_BY_CONST && stack->in == SCHEMA_POINTER &&
        count->in == SCHEMA_U32 && str_eq(count->name, str_make("FrameCount")) &&
        str_eq(stack->name, str_make("Stack"))) {
        stack->count_by = SCHEMA_BY_FIELD;
        stack->count = (uint16_t)(n - 2);
    }
}

/* ---- events ---- */

/* Whoever comes first stays; the second is no error. */
static enum err put_event(struct schema *s, const struct schema_event *ev, uint64_t *events)
{
    enum err e = schema_put_event(s, ev);

    *events += e == ERR_OK;
    return e == ERR_EXISTS ? ERR_OK : e;
}

static bool is_null(const uint8_t guid[16])
{
    static const uint8_t null[16];

    return memcmp(guid, null, sizeof null) == 0;
}

static struct schema_event event_read(struct blob *b, struct metadata *m)
{
    struct schema_event ev = {.form = RAW_MANIFEST, .fields = m->fields};
    bool mof = at32(b, 48) == FROM_MOF;

    memcpy(ev.guid, b->p, sizeof ev.guid);
    memcpy(ev.owner, b->p, sizeof ev.owner);
    ev.number = (uint16_t)at32(b, 32);
    ev.version = b->p[34];
    ev.provider = name_at(b, at32(b, 52));
    ev.task = name_at(b, at32(b, 68));
    ev.name = name_at(b, at32(b, 72));
    if (!mof && (ev.name.n == 0 || b->p[37] == 0)) {
        ev.name = name_at(b, at32(b, 92));
    }
    ev.n_fields = at32(b, 100);
    properties_read(b, m, ev.n_fields, at32(b, 104));
    if (!b->bad) {
        mend_frames(m->fields, ev.n_fields);
    }
    return ev;
}

static enum err learn_event(struct blob *b, struct metadata *m, struct schema *s, uint64_t *events)
{
    struct schema_event ev;
    uint32_t source;
    uint8_t opcode;
    enum err e = ERR_OK;

    if (b->n < PROPERTIES) {
        return ERR_CORRUPT;
    }
    source = at32(b, 48);
    opcode = b->p[37];
    if (source != FROM_MANIFEST && source != FROM_MOF) {
        return ERR_OK;
    }
    ev = event_read(b, m);
    if (b->bad) {
        return ERR_CORRUPT;
    }
    if (source == FROM_MANIFEST) {
        e = put_event(s, &ev, events);
    }
    if (!e && (source == FROM_MOF || !is_null(b->p + 16))) {
        memcpy(ev.guid, is_null(b->p + 16) ? b->p : b->p + 16, sizeof ev.guid);
        ev.form = RAW_CLASSIC;
        ev.number = opcode;
        e = put_event(s, &ev, events);
    }
    if (!e && ev.provider.n > 0) {
        e = schema_put_provider(s, ev.owner, ev.provider);
    }
    return e == ERR_EXISTS ? ERR_OK : e;
}

/* ---- maps ---- */

/* Patterns and maps of texts have no numbers to be named. */
static enum err learn_map(struct blob *b, const uint8_t guid[16], struct metadata *m,
                          struct schema *s)
{
    struct schema_map map = {.entries = m->entries};
    uint32_t flags = at32(b, 4);
    enum err e;

    map.n_entries = at32(b, 8);
    if (b->n < MAP_HEAD || map.n_entries > SCHEMA_MAP_MAX ||
        b->n - MAP_HEAD < MAP_ENTRY * map.n_entries) {
        return ERR_CORRUPT;
    }
    if (flags & MAP_PATTERNS || (at32(b, 12) & 0xff) != 0) {
        return ERR_OK;
    }
    memcpy(map.guid, guid, sizeof map.guid);
    map.bits = (flags & (MAP_BITS | MAP_MOF_BITS)) != 0;
    map.name = name_at(b, at32(b, 0));
    for (size_t i = 0; i < map.n_entries; i++) {
        m->entries[i].text = name_at(b, at32(b, MAP_HEAD + MAP_ENTRY * i));
        m->entries[i].value = at32(b, MAP_HEAD + MAP_ENTRY * i + 4);
    }
    if (b->bad) {
        return ERR_CORRUPT;
    }
    e = schema_put_map(s, &map);
    return e == ERR_EXISTS ? ERR_OK : e;
}

enum err describe_metadata_learn(struct metadata *m, struct schema *s, const struct raw_event *raw,
                                 uint64_t *events)
{
    struct blob b = {.p = raw->payload, .n = raw->payload_n, .text = &m->text};

    *events = 0;
    decode_text_reset(&m->text);
    if (is_own(raw)) {
        if (b.n < 2 || b.n - 2 < cur_at16le(b.p)) {
            return ERR_CORRUPT;
        }
        b.n = cur_at16le(b.p);
        b.p += 2;
    }
    if (raw->opcode == OP_EVENT) {
        return learn_event(&b, m, s, events);
    }
    if (b.n < 16) {
        return ERR_CORRUPT;
    }
    b.p += 16;
    b.n -= 16;
    return learn_map(&b, b.p - 16, m, s);
}
