/* A PE file's resources are a tree of three levels, type, name and language; offsets are from its
 * begin, those of the data are of the image. The resource, offsets from its begin:
 *
 *   "CRIM", size u32, version u16 × 2, providers u32, then of each: GUID, offset u32
 *   "WEVT", size u32, message u32, parts u32, u32, then of each part: offset u32, u32
 *   "TTBL", size u32, templates u32, templates one behind the other:
 *     "TEMP", size u32, items u32, names u32, offset of the items u32, u32, GUID, binary XML;
 *     an item: flags u32, in type u8, out type u8, u16, u32, count u16, length u16, name u32
 *     (flags 1 a struct, 2 the length and 4 the count is the number of another item)
 *   "EVNT", size u32, events u32, u32, then of each 48 bytes: id u16, version, channel, level,
 *     opcode u8, task u16, keywords u64, message u32, and offsets u32: template, opcode (its name's
 *     at 8), level, task (its name's at 24), keywords, channel
 *   a text: size u32, UTF-16 with its end */
#include "agent/etl/schema/etl_wevt.h"

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
#define EVENT_BYTES   48
#define ITEM_BYTES    20
#define ELEMENT_BYTES 8 /* less than any takes */

/* -- the PE file -- */

struct pe {
    const struct etl_wevt_input *in;
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

static enum err pe_open(struct pe *pe, const struct etl_wevt_input *in)
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
static enum err level_find(const struct pe *pe, uint32_t at, bool by_name, uint32_t *out)
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
        if (!by_name || is_wevt(pe, cur_at32le(entry))) {
            *out = cur_at32le(entry + 4);
            return ERR_OK;
        }
    }
    return ERR_NOTFOUND;
}

enum err etl_wevt_resource(const struct etl_wevt_input *in, uint8_t **out, size_t *n)
{
    struct pe pe;
    uint32_t at = 0;
    uint8_t data[8], *p;
    enum err e = pe_open(&pe, in);

    for (unsigned level = 0; level < 3 && !e; level++) {
        e = level_find(&pe, at, level == 0, &at);
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
    if (*n > ETL_WEVT_MAX) {
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
    const struct etl_wevt_sink *sink;
    size_t room; /* elements that it can have: parts may be referred to again and again */
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
static void text_at(struct wevt *w, uint32_t offset, char out[ETL_WEVT_TEXT])
{
    const uint8_t *p = offset ? at(w, offset, 4) : NULL;
    size_t n = p ? cur_at32le(p) : 0, units = 0;

    out[0] = '\0';
    p = n > 4 ? at(w, offset, n) : NULL;
    if (!p) {
        return;
    }
    while (units < (n - 4) / 2 && units < ETL_WEVT_TEXT / 4 && cur_at16le(p + 4 + 2 * units)) {
        units++;
    }
    buf_reset(&w->text);
    buf_put_utf16le(&w->text, p + 4, units);
    (void)snprintf(out, ETL_WEVT_TEXT, "%s", buf_cstr(&w->text));
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

/* How many or how long: a number, the name of another item, or nothing. */
static const char *measure(struct wevt *w, const uint8_t *items, size_t item, bool by_item,
                           uint16_t value, uint16_t none, char out[ETL_WEVT_TEXT])
{
    if (by_item && value < item) {
        text_at(w, cur_at32le(items + ITEM_BYTES * (size_t)value + 16), out);
    } else if (!by_item && value > none) {
        (void)snprintf(out, ETL_WEVT_TEXT, "%u", (unsigned)value);
    } else {
        out[0] = '\0';
    }
    return out;
}

static void put_template(struct wevt *w, uint32_t offset, const uint8_t *head)
{
    char tid[16], name[ETL_WEVT_TEXT], count[ETL_WEVT_TEXT], length[ETL_WEVT_TEXT];
    const char *const id[] = {"tid", tid, NULL};
    size_t n = cur_at32le(head + 8);
    const uint8_t *items = n ? at(w, cur_at32le(head + 16), n * ITEM_BYTES) : head;

    if (n > ITEMS_MAX || !items) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if ((cur_at32le(items + ITEM_BYTES * i) & 1) || !in_type(items[ITEM_BYTES * i + 4])[0]) {
            return; /* its events have no layout */
        }
    }
    (void)snprintf(tid, sizeof tid, "t%x", (unsigned)offset);
    w->sink->begin(w->sink->ctx, "template", id);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *item = items + ITEM_BYTES * i;
        uint32_t flags = cur_at32le(item);
        const char *const data[] = {
            "name",    name,
            "inType",  in_type(item[4]),
            "outType", out_type(item[5]),
            "count",   measure(w, items, i, flags & 4, cur_at16le(item + 12), 1, count),
            "length",  measure(w, items, i, flags & 2, cur_at16le(item + 14), 0, length),
            NULL};

        text_at(w, cur_at32le(item + 16), name);
        element(w, "data", data);
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
    char id[8], version[8], tid[16] = "", task[ETL_WEVT_TEXT], opcode[ETL_WEVT_TEXT];
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

/* Templates first, since events refer to them. */
static bool put_parts(struct wevt *w, uint32_t offset)
{
    const uint8_t *head = part_at(w, offset, "WEVT", 20);
    size_t n = head ? cur_at32le(head + 12) : 0;
    const uint8_t *parts = head && n <= PARTS_MAX ? at(w, (uint64_t)offset + 20, 8 * n) : NULL;
    bool ok = parts != NULL;

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

enum err etl_wevt_elements(const uint8_t *p, size_t n, const struct etl_wevt_sink *sink)
{
    static const char *const none[] = {NULL};
    struct wevt w = {.p = p, .n = n, .sink = sink, .room = n / ELEMENT_BYTES};
    const uint8_t *head = part_at(&w, 0, "CRIM", 16);
    size_t providers = head ? cur_at32le(head + 12) : 0;
    bool ok = head && providers <= PROVIDERS_MAX && at(&w, 16, 20 * providers);
    enum err e = ERR_OK;

    buf_init(&w.text, ETL_WEVT_TEXT);
    sink->begin(sink->ctx, "instrumentationManifest", none);
    for (size_t i = 0; i < providers && ok && !e; i++) {
        ok = put_provider(&w, p + 16 + 20 * i);
        e = sink->stopped(sink->ctx);
    }
    sink->end(sink->ctx, "instrumentationManifest");
    buf_fini(&w.text);
    return e ? e : ok ? ERR_OK : ERR_CORRUPT;
}
