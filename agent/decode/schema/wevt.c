/* A PE file's resources are a tree of three levels, type, name and language; offsets are from its
 * begin, those of the data are of the image. The resource, offsets from its begin:
 *
 *   "CRIM", size u32, version u16 × 2, providers u32, then of each: GUID, offset u32
 *   "WEVT", size u32, message u32, parts u32, u32, then of each part: offset u32, u32
 *   "MAPS", size u32, maps u32, then the offset of each u32, or of each but the first, which then
 *     lies behind them:
 *     "VMAP" or "BMAP" (bits), size u32, name u32, flags u32, values u32, then of each: value u32,
 *     message u32; without the flags in older ones
 *   "TTBL", size u32, templates u32, templates one behind the other:
 *     "TEMP", size u32, items u32, items with members of structs u32, offset of the items u32, u32,
 *     GUID, binary XML; members stand behind the others;
 *     an item: flags u32, in type u8, out type u8, u16, map u32, count u16, length u16, name u32;
 *     of a struct first member u16 and members u16 instead of the types
 *     (flags 1 a struct, 2 a length, 4 the length is that of an item, 8 a count, 16 of an item)
 *   "EVNT", size u32, events u32, u32, then of each 48 bytes: id u16, version, channel, level,
 *     opcode u8, task u16, keywords u64, message u32, and offsets u32: template, opcode (its name's
 *     at 8), level, task (its name's at 24), keywords, channel
 *   a text: size u32, UTF-16 with its end
 *
 * Messages: blocks u32, then of each: first and last id u32, offset u32 of the first of its texts,
 * one behind the other: size u16, flags u16 (1 UTF-16), text. */
#include "agent/decode/schema/wevt.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

#define SECTIONS_MAX  96
#define ENTRIES_MAX   4096 /* of a level of resources */
#define PROVIDERS_MAX 1024
#define PARTS_MAX     64
#define ITEMS_MAX     1024
#define MAP_VALUES    1024
#define MESSAGE_STEPS (1u << 20)
#define MESSAGE_TYPE  11 /* of resources */
#define EVENT_BYTES   48
#define ITEM_BYTES    20
#define ELEMENT_BYTES 8 /* less than any takes */

/* -- the PE file -- */

struct pe {
    const struct wevt_input *in;
    uint32_t resources; /* address */
    size_t n;
    struct {
        uint32_t address, size, place;
    } sections[SECTIONS_MAX];
};

static bool pe_read(const struct pe *pe, uint64_t address, void *p, size_t n)
{
    for (size_t i = 0; i < pe->n; i++) {
        uint64_t in = address - pe->sections[i].address;

        if (address >= pe->sections[i].address && in < pe->sections[i].size &&
            n <= pe->sections[i].size - in) {
            return pe->in->read(pe->in->ctx, pe->sections[i].place + in, p, n);
        }
    }
    return false;
}

static bool sections_read(struct pe *pe, uint64_t at, size_t n)
{
    uint8_t head[40];

    for (size_t i = 0; i < n && i < SECTIONS_MAX; i++) {
        if (!pe->in->read(pe->in->ctx, at + i * sizeof head, head, sizeof head)) {
            return false;
        }
        pe->sections[i].address = cur_at32le(head + 12);
        pe->sections[i].size = cur_at32le(head + 16);
        pe->sections[i].place = cur_at32le(head + 20);
        pe->n = i + 1;
    }
    return true;
}

static enum err pe_open(struct pe *pe, const struct wevt_input *in)
{
    uint8_t dos[64], head[24 + 136]; /* up to the third directory */
    uint64_t at;
    size_t optional, tables;

    memset(pe, 0, sizeof *pe);
    pe->in = in;
    if (!in->read(in->ctx, 0, dos, sizeof dos) || dos[0] != 'M' || dos[1] != 'Z') {
        return ERR_CORRUPT;
    }
    at = cur_at32le(dos + 60);
    if (!in->read(in->ctx, at, head, sizeof head) || memcmp(head, "PE\0\0", 4) != 0) {
        return ERR_CORRUPT;
    }
    optional = cur_at16le(head + 20);
    tables = cur_at16le(head + 24) == 0x20B ? 112 : 96;
    if (optional < tables + 24 || cur_at32le(head + 24 + tables - 4) < 3) {
        return ERR_NOTFOUND;
    }
    pe->resources = cur_at32le(head + 24 + tables + 16);
    if (!pe->resources) {
        return ERR_NOTFOUND;
    }
    return sections_read(pe, at + 24 + optional, cur_at16le(head + 6)) ? ERR_OK : ERR_CORRUPT;
}

static bool is_wevt(const struct pe *pe, uint32_t name)
{
    static const char word[] = "WEVT_TEMPLATE";
    uint8_t text[2 + 2 * (sizeof word - 1)];

    if (!(name >> 31) ||
        !pe_read(pe, (uint64_t)pe->resources + (name & 0x7FFFFFFF), text, sizeof text) ||
        cur_at16le(text) != sizeof word - 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof word - 1; i++) {
        if (cur_at16le(text + 2 + 2 * i) != (uint16_t)word[i]) {
            return false;
        }
    }
    return true;
}

/* The entry that is wanted in a level at `at`, of others the first. */
static enum err level_find(const struct pe *pe, uint32_t at, const enum wevt_kind *kind,
                           uint32_t *out)
{
    uint8_t head[16], entry[8];
    size_t n;

    if (!pe_read(pe, (uint64_t)pe->resources + at, head, sizeof head)) {
        return ERR_CORRUPT;
    }
    n = (size_t)cur_at16le(head + 12) + cur_at16le(head + 14);
    for (size_t i = 0; i < n && i < ENTRIES_MAX; i++) {
        if (!pe_read(pe, (uint64_t)pe->resources + at + 16 + 8 * i, entry, sizeof entry)) {
            return ERR_CORRUPT;
        }
        if (!kind || (*kind == WEVT_MESSAGES ? cur_at32le(entry) == MESSAGE_TYPE
                                             : is_wevt(pe, cur_at32le(entry)))) {
            *out = cur_at32le(entry + 4);
            return ERR_OK;
        }
    }
    return ERR_NOTFOUND;
}

enum err wevt_resource(const struct wevt_input *in, enum wevt_kind kind, uint8_t **out, size_t *n)
{
    struct pe pe;
    uint32_t at = 0;
    uint8_t data[8], *p;
    enum err e = pe_open(&pe, in);

    for (unsigned level = 0; level < 3 && !e; level++) {
        e = level_find(&pe, at, level == 0 ? &kind : NULL, &at);
        if (!e && (level < 2) != (at >> 31 != 0)) {
            e = ERR_CORRUPT; /* levels end with the third */
        }
        at &= 0x7FFFFFFF;
    }
    if (e) {
        return e;
    }
    if (!pe_read(&pe, (uint64_t)pe.resources + at, data, sizeof data)) {
        return ERR_CORRUPT;
    }
    *n = cur_at32le(data + 4);
    if (*n > WEVT_MAX) {
        return ERR_FULL;
    }
    p = mem_alloc(*n);
    if (!p) {
        return ERR_NOMEM;
    }
    if (!pe_read(&pe, cur_at32le(data), p, *n)) {
        mem_free(p);
        return ERR_CORRUPT;
    }
    *out = p;
    return ERR_OK;
}

/* -- the resource -- */

struct wevt {
    const uint8_t *p;
    size_t n;
    const struct wevt_sink *sink;
    size_t room; /* elements that it can have: parts may be referred to again and again */
    const uint8_t *messages;
    size_t n_messages, steps; /* that searches for messages may still take */
    struct buf text;
};

/* n bytes at an offset; NULL: they are not there. */
static const uint8_t *at(const struct wevt *w, uint64_t offset, size_t n)
{
    return offset <= w->n && n <= w->n - offset ? w->p + offset : NULL;
}

/* A part by its offset, if it is of that kind and has n bytes. */
static const uint8_t *part_at(const struct wevt *w, uint64_t offset, const char *kind, size_t n)
{
    const uint8_t *p = at(w, offset, n);

    return p && memcmp(p, kind, 4) == 0 ? p : NULL;
}

/* A text; "" when there is none. */
static void text_at(struct wevt *w, uint32_t offset, char out[WEVT_TEXT])
{
    const uint8_t *p = offset ? at(w, offset, 4) : NULL;
    size_t n = p ? cur_at32le(p) : 0, units = 0;

    out[0] = '\0';
    p = n > 4 ? at(w, offset, n) : NULL;
    if (!p) {
        return;
    }
    while (units < (n - 4) / 2 && units < WEVT_TEXT / 4 && cur_at16le(p + 4 + 2 * units)) {
        units++;
    }
    buf_reset(&w->text);
    buf_put_utf16le(&w->text, p + 4, units);
    (void)snprintf(out, WEVT_TEXT, "%s", buf_cstr(&w->text));
}

/* Whether n more elements are in the resource's bounds. */
static bool takes(struct wevt *w, size_t n)
{
    bool ok = n <= w->room;

    w->room = ok ? w->room - n : 0;
    return ok;
}

static void element(const struct wevt *w, const char *name, const char *const *attributes)
{
    w->sink->begin(w->sink->ctx, name, attributes);
    w->sink->end(w->sink->ctx, name);
}

static const char *in_type(uint8_t type)
{
    static const char *const types[] = {
        "",        "UnicodeString", "AnsiString", "Int8",  "UInt8",    "Int16",   "UInt16", "Int32",
        "UInt32",  "Int64",         "UInt64",     "Float", "Double",   "Boolean", "Binary", "GUID",
        "Pointer", "FILETIME",      "SYSTEMTIME", "SID",   "HexInt32", "HexInt64"};

    return type < sizeof types / sizeof *types ? types[type] : "";
}

static const char *out_type(uint8_t type)
{
    static const char *const types[] = {"",
                                        "string",
                                        "dateTime",
                                        "byte",
                                        "unsignedByte",
                                        "short",
                                        "unsignedShort",
                                        "int",
                                        "unsignedInt",
                                        "long",
                                        "unsignedLong",
                                        "float",
                                        "double",
                                        "boolean",
                                        "GUID",
                                        "hexBinary",
                                        "HexInt8",
                                        "HexInt16",
                                        "HexInt32",
                                        "HexInt64",
                                        "PID",
                                        "TID",
                                        "Port",
                                        "IPv4",
                                        "IPv6",
                                        "SocketAddress",
                                        "CIMDateTime",
                                        "ETWTIME",
                                        "Xml",
                                        "ErrorCode",
                                        "Win32Error",
                                        "NTSTATUS",
                                        "HResult"};

    return type < sizeof types / sizeof *types ? types[type] : "";
}

/* -- messages and maps -- */

/* The text of a message of a block, whose first is at `at`; "" when there is none. */
static void block_text(struct wevt *w, uint64_t at_offset, uint32_t nth, char out[WEVT_TEXT])
{
    struct cur c = cur_make(w->messages, w->n_messages);
    size_t size = 0, units = 0;
    uint16_t flags = 0;
    const uint8_t *p = NULL;

    out[0] = '\0';
    if (at_offset > w->n_messages) {
        return;
    }
    cur_skip(&c, (size_t)at_offset);
    for (uint64_t i = 0; i <= nth && w->steps; i++, w->steps--) {
        size = cur_u16le(&c);
        flags = cur_u16le(&c);
        p = cur_bytes(&c, size < 4 ? SIZE_MAX : size - 4);
        if (!p) {
            return;
        }
    }
    buf_reset(&w->text);
    if (p && w->steps && (flags & 1)) {
        while (units < (size - 4) / 2 && units < WEVT_TEXT / 4 && cur_at16le(p + 2 * units)) {
            units++;
        }
        buf_put_utf16le(&w->text, p, units);
    }
    for (; w->text.n && (unsigned char)w->text.p[w->text.n - 1] <= ' '; w->text.n--) {
    }
    (void)snprintf(out, WEVT_TEXT, "%.*s", (int)w->text.n, (const char *)w->text.p);
}

static void message_text(struct wevt *w, uint32_t id, char out[WEVT_TEXT])
{
    size_t blocks = w->n_messages >= 4 ? cur_at32le(w->messages) : 0;

    out[0] = '\0';
    for (size_t i = 0; i < blocks && 4 + 12 * (i + 1) <= w->n_messages && w->steps; i++) {
        const uint8_t *b = w->messages + 4 + 12 * i;

        w->steps--;
        if (id >= cur_at32le(b) && id <= cur_at32le(b + 4)) {
            block_text(w, cur_at32le(b + 8), id - cur_at32le(b), out);
            return;
        }
    }
}

static const uint8_t *map_at(const struct wevt *w, uint64_t offset)
{
    const uint8_t *p = part_at(w, offset, "VMAP", 20);

    return p ? p : part_at(w, offset, "BMAP", 20);
}

/* The name of the map at an offset; "" when there is none. */
static void map_name(struct wevt *w, uint32_t offset, char out[WEVT_TEXT])
{
    const uint8_t *p = offset ? map_at(w, offset) : NULL;

    text_at(w, p ? cur_at32le(p + 8) : 0, out);
}

static bool put_map(struct wevt *w, uint64_t offset)
{
    const uint8_t *head = map_at(w, offset), *values;
    char name[WEVT_TEXT], value[16], text[WEVT_TEXT];
    const char *const map[] = {"name", name, NULL};
    const char *const entry[] = {"value", value, "message", text, NULL};
    const char *kind = head && head[0] == 'B' ? "bitMap" : "valueMap";
    uint64_t n = head ? cur_at32le(head + 16) : 0, skip = 20;

    if (head && cur_at32le(head + 4) != 20 + 8 * n) { /* older ones have no flags */
        n = cur_at32le(head + 12);
        skip = 16;
    }
    values = head && n <= MAP_VALUES ? at(w, offset + skip, (size_t)n * 8) : NULL;
    if (!values || !n) {
        return true; /* its values are shown as numbers */
    }
    if (!takes(w, (size_t)n)) {
        return false;
    }
    text_at(w, cur_at32le(head + 8), name);
    w->sink->begin(w->sink->ctx, kind, map);
    for (size_t i = 0; i < n; i++) {
        message_text(w, cur_at32le(values + 8 * i + 4), text);
        (void)snprintf(value, sizeof value, "%u", (unsigned)cur_at32le(values + 8 * i));
        if (text[0]) {
            element(w, "map", entry);
        }
    }
    w->sink->end(w->sink->ctx, kind);
    return true;
}

static bool put_maps(struct wevt *w, uint32_t offset)
{
    const uint8_t *head = part_at(w, offset, "MAPS", 12), *p;
    size_t n = cur_at32le(head + 8);
    uint64_t first = (uint64_t)offset + 12 + 4 * (uint64_t)(n ? n - 1 : 0);
    bool implied = n && map_at(w, first), ok = !implied || put_map(w, first);

    for (size_t i = 0; i + implied < n && ok && !w->sink->stopped(w->sink->ctx); i++) {
        p = at(w, (uint64_t)offset + 12 + 4 * (uint64_t)i, 4);
        ok = p && takes(w, 1) && put_map(w, cur_at32le(p));
    }
    return ok;
}

/* -- templates -- */

enum { ITEM_STRUCT = 1, ITEM_LENGTH = 2, ITEM_LENGTH_OF = 4, ITEM_COUNT = 8, ITEM_COUNT_OF = 16 };

struct template_items {
    const uint8_t *items;
    size_t n, all;  /* of the template itself; with members of structs */
    size_t members; /* of all structs: they may have some in common */
};

/* How many or how long: a number, the name of another item, or nothing. */
static const char *measure(struct wevt *w, const struct template_items *t, bool by_item, bool fixed,
                           uint16_t value, char out[WEVT_TEXT])
{
    out[0] = '\0';
    if (by_item && value < t->all) {
        text_at(w, cur_at32le(t->items + ITEM_BYTES * (size_t)value + 16), out);
    } else if (fixed) {
        (void)snprintf(out, WEVT_TEXT, "%u", (unsigned)value);
    }
    return out;
}

static bool is_plain(const uint8_t *item)
{
    return !(cur_at32le(item) & ITEM_STRUCT) && in_type(item[4])[0];
}

/* Whether all of it can be told: what cannot has no layout, rather than a wrong one. */
static bool template_fits(struct template_items *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const uint8_t *item = t->items + ITEM_BYTES * i;
        size_t first = cur_at16le(item + 4), n = cur_at16le(item + 6);

        if (is_plain(item)) {
            continue;
        }
        if (!(cur_at32le(item) & ITEM_STRUCT) || n == 0 || first < t->n || first + n > t->all) {
            return false;
        }
        for (size_t k = 0; k < n; k++) {
            if (!is_plain(t->items + ITEM_BYTES * (first + k))) {
                return false;
            }
        }
        t->members += n;
    }
    return true;
}

static void put_item(struct wevt *w, const struct template_items *t, size_t i)
{
    char name[WEVT_TEXT], count[WEVT_TEXT], length[WEVT_TEXT], map[WEVT_TEXT];
    const uint8_t *item = t->items + ITEM_BYTES * i;
    uint32_t flags = cur_at32le(item);
    const char *const data[] = {
        "name",
        name,
        "inType",
        in_type(item[4]),
        "outType",
        out_type(item[5]),
        "map",
        map,
        "count",
        measure(w, t, flags & ITEM_COUNT_OF, flags & ITEM_COUNT, cur_at16le(item + 12), count),
        "length",
        measure(w, t, flags & ITEM_LENGTH_OF, flags & ITEM_LENGTH, cur_at16le(item + 14), length),
        NULL};

    map_name(w, cur_at32le(item + 8), map);
    text_at(w, cur_at32le(item + 16), name);
    element(w, "data", data);
}

static void put_struct(struct wevt *w, const struct template_items *t, size_t i)
{
    char name[WEVT_TEXT], count[WEVT_TEXT];
    const uint8_t *item = t->items + ITEM_BYTES * i;
    uint32_t flags = cur_at32le(item);
    const char *const attributes[] = {
        "name", name, "count",
        measure(w, t, flags & ITEM_COUNT_OF, flags & ITEM_COUNT, cur_at16le(item + 12), count),
        NULL};

    text_at(w, cur_at32le(item + 16), name);
    w->sink->begin(w->sink->ctx, "struct", attributes);
    for (size_t k = 0; k < cur_at16le(item + 6); k++) {
        put_item(w, t, (size_t)cur_at16le(item + 4) + k);
    }
    w->sink->end(w->sink->ctx, "struct");
}

static void put_template(struct wevt *w, uint32_t offset, const uint8_t *head)
{
    struct template_items t = {.n = cur_at32le(head + 8), .all = cur_at32le(head + 12)};
    char tid[16];
    const char *const id[] = {"tid", tid, NULL};

    t.all = t.all < t.n ? t.n : t.all;
    t.items = t.all && t.all <= ITEMS_MAX ? at(w, cur_at32le(head + 16), t.all * ITEM_BYTES) : head;
    if (t.all > ITEMS_MAX || !t.items || !template_fits(&t) || !takes(w, t.members)) {
        return;
    }
    (void)snprintf(tid, sizeof tid, "t%x", (unsigned)offset);
    w->sink->begin(w->sink->ctx, "template", id);
    for (size_t i = 0; i < t.n; i++) {
        if (cur_at32le(t.items + ITEM_BYTES * i) & ITEM_STRUCT) {
            put_struct(w, &t, i);
        } else {
            put_item(w, &t, i);
        }
    }
    w->sink->end(w->sink->ctx, "template");
}

static bool put_templates(struct wevt *w, uint32_t offset)
{
    const uint8_t *head = part_at(w, offset, "TTBL", 12), *p;
    uint64_t next = (uint64_t)offset + 12;

    for (uint32_t i = 0, n = cur_at32le(head + 8); i < n; i++) {
        p = part_at(w, next, "TEMP", 40);
        if (!p || cur_at32le(p + 4) < 40 || !takes(w, (size_t)cur_at32le(p + 8) + 1)) {
            return false;
        }
        put_template(w, (uint32_t)next, p);
        next += cur_at32le(p + 4);
        if (w->sink->stopped(w->sink->ctx)) {
            return true;
        }
    }
    return true;
}

static void put_event(struct wevt *w, const uint8_t *p)
{
    char id[8], version[8], tid[16] = "", task[WEVT_TEXT], opcode[WEVT_TEXT];
    const char *const event[] = {"value",  id,     "version",  version, "task", task,
                                 "opcode", opcode, "template", tid,     NULL};
    const uint8_t *name;

    (void)snprintf(id, sizeof id, "%u", (unsigned)cur_at16le(p));
    (void)snprintf(version, sizeof version, "%u", (unsigned)p[2]);
    if (cur_at32le(p + 20)) {
        (void)snprintf(tid, sizeof tid, "t%x", (unsigned)cur_at32le(p + 20));
    }
    name = cur_at32le(p + 32) ? at(w, cur_at32le(p + 32), 28) : NULL;
    text_at(w, name ? cur_at32le(name + 24) : 0, task);
    name = cur_at32le(p + 24) ? at(w, cur_at32le(p + 24), 12) : NULL;
    text_at(w, name ? cur_at32le(name + 8) : 0, opcode);
    element(w, "event", event);
}

static bool put_events(struct wevt *w, uint32_t offset)
{
    const uint8_t *head = part_at(w, offset, "EVNT", 16), *p;

    for (uint64_t i = 0, n = cur_at32le(head + 8); i < n; i++) {
        p = at(w, offset + 16 + i * EVENT_BYTES, EVENT_BYTES);
        if (!p || !takes(w, 1)) {
            return false;
        }
        put_event(w, p);
        if (w->sink->stopped(w->sink->ctx)) {
            return true;
        }
    }
    return true;
}

/* What is referred to first: maps, templates, events. */
static bool put_parts(struct wevt *w, uint32_t offset)
{
    const uint8_t *head = part_at(w, offset, "WEVT", 20);
    size_t n = head ? cur_at32le(head + 12) : 0;
    const uint8_t *parts = head && n <= PARTS_MAX ? at(w, (uint64_t)offset + 20, 8 * n) : NULL;
    bool ok = parts != NULL;

    for (size_t i = 0; i < n && ok; i++) {
        if (part_at(w, cur_at32le(parts + 8 * i), "MAPS", 12)) {
            ok = put_maps(w, cur_at32le(parts + 8 * i));
        }
    }
    for (size_t i = 0; i < n && ok; i++) {
        if (part_at(w, cur_at32le(parts + 8 * i), "TTBL", 12)) {
            ok = put_templates(w, cur_at32le(parts + 8 * i));
        }
    }
    for (size_t i = 0; i < n && ok; i++) {
        if (part_at(w, cur_at32le(parts + 8 * i), "EVNT", 16)) {
            ok = put_events(w, cur_at32le(parts + 8 * i));
        }
    }
    return ok;
}

static bool put_provider(struct wevt *w, const uint8_t *descriptor)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char guid[40];
    const char *const attributes[] = {"guid", guid, NULL};
    size_t used = 0;
    bool ok;

    for (size_t i = 0; i < 16; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;

        used += (size_t)snprintf(guid + used, sizeof guid - used, "%s%02x", dash ? "-" : "",
                                 (unsigned)descriptor[order[i]]);
    }
    w->sink->begin(w->sink->ctx, "provider", attributes);
    ok = put_parts(w, cur_at32le(descriptor + 16));
    w->sink->end(w->sink->ctx, "provider");
    return ok;
}

enum err wevt_elements(const uint8_t *p, size_t n, const uint8_t *messages, size_t n_messages,
                       const struct wevt_sink *sink)
{
    static const char *const none[] = {NULL};
    struct wevt w = {.p = p,
                     .n = n,
                     .sink = sink,
                     .room = n / ELEMENT_BYTES,
                     .messages = messages,
                     .n_messages = messages ? n_messages : 0,
                     .steps = MESSAGE_STEPS};
    const uint8_t *head = part_at(&w, 0, "CRIM", 16);
    size_t providers = head ? cur_at32le(head + 12) : 0;
    bool ok = head && providers <= PROVIDERS_MAX && at(&w, 16, 20 * providers);
    enum err e = ERR_OK;

    buf_init(&w.text, WEVT_TEXT);
    sink->begin(sink->ctx, "instrumentationManifest", none);
    for (size_t i = 0; i < providers && ok && !e; i++) {
        ok = put_provider(&w, p + 16 + 20 * i);
        e = sink->stopped(sink->ctx);
    }
    sink->end(sink->ctx, "instrumentationManifest");
    buf_fini(&w.text);
    return e ? e : ok ? ERR_OK : ERR_CORRUPT;
}
