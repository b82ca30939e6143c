/* Named things (tasks, opcodes, templates, strings) are items in a hash table, found by kind and
 * name; opcodes may belong to a task, then the task's name is part of theirs. Events and maps are
 * lists as well. Names are resolved at the end, since a document may define what it uses later. */
#include "agent/decode/schema/etw_manifest.h"

#include <stdlib.h>

#include "common/base/hash.h"
#include "common/os/uuid.h"

enum item_kind { ITEM_TASK, ITEM_OPCODE, ITEM_TEMPLATE, ITEM_STRING, ITEM_EVENT, ITEM_MAP };

struct etw_manifest_item {
    struct etw_manifest_item *next;  /* of the slot */
    struct etw_manifest_item *after; /* of the list */
    uint8_t kind;
    struct str name;
    struct str scope; /* opcodes of a task: its name */
    struct str text;  /* strings: the value; events: the symbol */
    uint32_t number;  /* tasks, opcodes, events: the value */
    uint8_t version;
    bool bits;
    struct str task, opcode, template; /* events: names */
    const struct schema_field *fields; /* templates */
    const struct schema_map_entry *entries;
    size_t n; /* of these */
};

void etw_manifest_init(struct etw_manifest *m)
{
    memset(m->slots, 0, sizeof m->slots);
    arena_init(&m->arena, ETW_MANIFEST_BYTES_MAX);
    m->events = m->events_last = m->maps = m->maps_last = NULL;
    m->task = m->map = m->template = NULL;
    m->provider = str_make("");
    m->n_items = m->depth = m->n_fields = m->structs = 0;
    m->filtered = m->passing = false;
    m->origin = SCHEMA_FROM_EVENTSOURCE;
    m->bad = ERR_OK;
}

void etw_manifest_fini(struct etw_manifest *m)
{
    arena_fini(&m->arena);
}

void etw_manifest_only(struct etw_manifest *m, const uint8_t guid[16])
{
    m->filtered = true;
    memcpy(m->only, guid, sizeof m->only);
}

bool etw_manifest_guid(uint8_t guid[16], const char *text)
{
    static const uint8_t to[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char plain[UUID_TEXT];
    struct uuid u;
    size_t n = strlen(text);

    if (n == UUID_TEXT + 1 && text[0] == '{' && text[n - 1] == '}') {
        text++;
        n -= 2;
    }
    if (n + 1 != sizeof plain) {
        return false;
    }
    memcpy(plain, text, n);
    plain[n] = '\0';
    if (uuid_parse(&u, plain)) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        guid[to[i]] = u.b[i];
    }
    return true;
}

static void fail(struct etw_manifest *m, enum err e)
{
    if (!m->bad) {
        m->bad = e;
    }
}

static enum err no_room(const struct etw_manifest *m)
{
    return m->arena.max_bytes - m->arena.used < (size_t)64 << 10 ? ERR_CORRUPT : ERR_NOMEM;
}

/* ---- attributes ---- */

static const char *attribute(const char *const *attributes, const char *name)
{
    for (; attributes[0]; attributes += 2) {
        if (strcmp(attributes[0], name) == 0) {
            return attributes[1];
        }
    }
    return "";
}

static struct str keep(struct etw_manifest *m, const char *text)
{
    size_t n = strlen(text);
    const char *p = n ? arena_dup(&m->arena, text, n) : "";

    if (!p) {
        fail(m, no_room(m));
        return str_make("");
    }
    return (struct str){p, n};
}

static struct str kept(struct etw_manifest *m, const char *const *attributes, const char *name)
{
    return keep(m, attribute(attributes, name));
}

/* Decimal or 0x…; anything else is 0 and false. */
static bool number(uint32_t *out, const char *text)
{
    char *end;
    unsigned long long v;

    *out = 0;
    if (*text < '0' || *text > '9') {
        return false;
    }
    v = strtoull(text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
    if (*end || v > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

static uint32_t number_of(const char *const *attributes, const char *name)
{
    uint32_t v;

    (void)number(&v, attribute(attributes, name));
    return v;
}

/* ---- items ---- */

static struct etw_manifest_item **slot_of(struct etw_manifest *m, enum item_kind kind,
                                          struct str scope, struct str name)
{
    uint64_t h = hash_bytes(name.p, name.n, (uint64_t)(uintptr_t)m ^ kind);

    h = scope.n ? hash_bytes(scope.p, scope.n, h) : h;
    return &m->slots[h & (ETW_MANIFEST_SLOTS - 1)];
}

static struct etw_manifest_item *item_find(struct etw_manifest *m, enum item_kind kind,
                                           struct str scope, struct str name)
{
    struct etw_manifest_item *it = *slot_of(m, kind, scope, name);

    while (it && (it->kind != kind || !str_eq(it->name, name) || !str_eq(it->scope, scope))) {
        it = it->next;
    }
    return it;
}

/* NULL (and bad) when there is no room. */
static struct etw_manifest_item *item_add(struct etw_manifest *m, enum item_kind kind,
                                          struct str scope, struct str name)
{
    struct etw_manifest_item **slot, *it;

    if (m->n_items == ETW_MANIFEST_ITEMS_MAX) {
        fail(m, ERR_CORRUPT);
        return NULL;
    }
    it = arena_alloc(&m->arena, sizeof *it);
    if (!it) {
        fail(m, no_room(m));
        return NULL;
    }
    it->kind = (uint8_t)kind;
    it->scope = scope;
    it->name = name;
    it->text = it->task = it->opcode = it->template = str_make("");
    slot = slot_of(m, kind, scope, name);
    it->next = *slot;
    *slot = it;
    m->n_items++;
    return it;
}

static void append(struct etw_manifest_item **first, struct etw_manifest_item **last,
                   struct etw_manifest_item *it)
{
    if (*last) {
        (*last)->after = it;
    } else {
        *first = it;
    }
    *last = it;
}

/* ---- types ---- */

struct type_name {
    const char *name;
    uint16_t type;
};

/* Names without the prefix (win:, xs:, trace:), in lower case. */
static const struct type_name in_types[] = {
    {"unicodestring", SCHEMA_UTF16},
    {"ansistring", SCHEMA_8BIT},
    {"int8", SCHEMA_I8},
    {"uint8", SCHEMA_U8},
    {"int16", SCHEMA_I16},
    {"uint16", SCHEMA_U16},
    {"int32", SCHEMA_I32},
    {"uint32", SCHEMA_U32},
    {"int64", SCHEMA_I64},
    {"uint64", SCHEMA_U64},
    {"float", SCHEMA_F32},
    {"double", SCHEMA_F64},
    {"boolean", SCHEMA_BOOL32},
    {"binary", SCHEMA_BINARY},
    {"guid", SCHEMA_GUID},
    {"pointer", SCHEMA_POINTER},
    {"filetime", SCHEMA_FILETIME},
    {"systemtime", SCHEMA_SYSTEMTIME},
    {"sid", SCHEMA_SID},
    {"hexint32", SCHEMA_HEX32},
    {"hexint64", SCHEMA_HEX64},
    {"countedunicodestring", SCHEMA_COUNTED_UTF16},
    {"countedansistring", SCHEMA_COUNTED_8BIT},
    {"countedbinary", SCHEMA_COUNTED_BINARY},
    {"unicodechar", SCHEMA_CHAR16},
    {"ansichar", SCHEMA_CHAR8},
    {"sizet", SCHEMA_SIZE_T},
    {"hexdump", SCHEMA_HEX_DUMP},
    {"wbemsid", SCHEMA_MOF_SID},
};

static const struct type_name out_types[] = {
    {"string", SCHEMA_AS_TEXT},
    {"boolean", SCHEMA_AS_BOOL},
    {"byte", SCHEMA_AS_SIGNED},
    {"unsignedbyte", SCHEMA_AS_UNSIGNED},
    {"short", SCHEMA_AS_SIGNED},
    {"unsignedshort", SCHEMA_AS_UNSIGNED},
    {"int", SCHEMA_AS_SIGNED},
    {"unsignedint", SCHEMA_AS_UNSIGNED},
    {"long", SCHEMA_AS_SIGNED},
    {"unsignedlong", SCHEMA_AS_UNSIGNED},
    {"guid", SCHEMA_AS_GUID},
    {"hexint8", SCHEMA_AS_HEX},
    {"hexint16", SCHEMA_AS_HEX},
    {"hexint32", SCHEMA_AS_HEX},
    {"hexint64", SCHEMA_AS_HEX},
    {"pid", SCHEMA_AS_UNSIGNED},
    {"tid", SCHEMA_AS_UNSIGNED},
    {"port", SCHEMA_AS_PORT},
    {"ipv4", SCHEMA_AS_IP4},
    {"ipv6", SCHEMA_AS_IP6},
    {"socketaddress", SCHEMA_AS_SOCKADDR},
    {"errorcode", SCHEMA_AS_HEX},
    {"win32error", SCHEMA_AS_UNSIGNED},
    {"ntstatus", SCHEMA_AS_HEX},
    {"hresult", SCHEMA_AS_HEX},
    {"xml", SCHEMA_AS_UTF8},
    {"json", SCHEMA_AS_UTF8},
    {"utf8", SCHEMA_AS_UTF8},
    {"codepointer", SCHEMA_AS_HEX},
    {"datetimeutc", SCHEMA_AS_TIME},
};

static const char *behind_prefix(const char *name)
{
    const char *colon = strchr(name, ':');

    return colon ? colon + 1 : name;
}

static bool same_folded(const char *a, const char *lower)
{
    for (; *a && *lower; a++, lower++) {
        char c = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;

        if (c != *lower) {
            return false;
        }
    }
    return *a == *lower;
}

/* The type, or 0. */
static uint16_t type_of(const struct type_name *rows, size_t n, const char *name)
{
    name = behind_prefix(name);
    for (size_t i = 0; i < n; i++) {
        if (same_folded(name, rows[i].name)) {
            return rows[i].type;
        }
    }
    return 0;
}

/* ---- templates ---- */

/* A count or length: a number, or the name of a field before this one. */
static void reference(struct etw_manifest *m, const char *text, uint8_t *by, uint16_t *n)
{
    uint32_t v;

    if (!*text) {
        return;
    }
    if (number(&v, text)) {
        *by = SCHEMA_BY_CONST;
        *n = (uint16_t)v;
        if (v > UINT16_MAX) {
            fail(m, ERR_CORRUPT);
        }
        return;
    }
    for (size_t i = m->n_fields; i-- > 0;) {
        if (str_eq(m->fields[i].name, str_make(text))) {
            *by = SCHEMA_BY_FIELD;
            *n = (uint16_t)i;
            return;
        }
    }
    fail(m, ERR_CORRUPT);
}

/* Behind the last field of the innermost open struct, or of the template. */
static void link_field(struct etw_manifest *m, uint16_t index)
{
    size_t level = m->structs;

    if (m->last[level] != SCHEMA_NONE) {
        m->fields[m->last[level]].next = index;
    } else if (level > 0) {
        m->fields[m->owner[level]].first = index;
    }
    m->last[level] = index;
}

static void field_begin(struct etw_manifest *m, const char *const *attributes, bool is_struct)
{
    struct schema_field f = {.map = {"", 0}, .first = SCHEMA_NONE, .next = SCHEMA_NONE};
    uint16_t index = (uint16_t)m->n_fields;

    if (!m->template || m->n_fields == SCHEMA_FIELDS_MAX ||
        m->structs + 1 >= ETW_MANIFEST_DEPTH_MAX) {
        fail(m, ERR_CORRUPT);
        return;
    }
    f.name = kept(m, attributes, "name");
    f.in = SCHEMA_STRUCT;
    reference(m, attribute(attributes, "count"), &f.count_by, &f.count);
    if (!is_struct) {
        f.in = type_of(in_types, sizeof in_types / sizeof in_types[0],
                       attribute(attributes, "inType"));
        f.out = (uint8_t)type_of(out_types, sizeof out_types / sizeof out_types[0],
                                 attribute(attributes, "outType"));
        f.map = kept(m, attributes, "map");
        reference(m, attribute(attributes, "length"), &f.length_by, &f.length);
        if (f.in == SCHEMA_NULL) {
            fail(m, ERR_CORRUPT);
        }
    }
    m->fields[index] = f;
    link_field(m, index);
    m->n_fields++;
    if (is_struct) {
        m->structs++;
        m->owner[m->structs] = index;
        m->last[m->structs] = SCHEMA_NONE;
    }
}

static void template_begin(struct etw_manifest *m, const char *const *attributes)
{
    m->template = item_add(m, ITEM_TEMPLATE, str_make(""), kept(m, attributes, "tid"));
    m->n_fields = m->structs = 0;
    m->last[0] = SCHEMA_NONE;
}

static void template_end(struct etw_manifest *m)
{
    if (m->template) {
        m->template->fields = arena_dup(&m->arena, m->fields, m->n_fields * sizeof m->fields[0]);
        m->template->n = m->n_fields;
        if (!m->template->fields) {
            fail(m, no_room(m));
        }
    }
    m->template = NULL;
}

/* ---- maps ---- */

static void map_begin(struct etw_manifest *m, const char *const *attributes, bool bits)
{
    m->map = item_add(m, ITEM_MAP, str_make(""), kept(m, attributes, "name"));
    if (m->map) {
        m->map->bits = bits;
        append(&m->maps, &m->maps_last, m->map);
    }
}

static void map_entry(struct etw_manifest *m, const char *const *attributes)
{
    if (!m->map || m->map->n == SCHEMA_MAP_MAX) {
        fail(m, ERR_CORRUPT);
        return;
    }
    m->entries[m->map->n].value = number_of(attributes, "value");
    m->entries[m->map->n].text = kept(m, attributes, "message");
    m->map->n++;
}

static void map_end(struct etw_manifest *m)
{
    if (m->map) {
        m->map->entries = arena_dup(&m->arena, m->entries, m->map->n * sizeof m->entries[0]);
        if (!m->map->entries) {
            fail(m, no_room(m));
        }
    }
    m->map = NULL;
}

/* ---- the other elements ---- */

static void event_begin(struct etw_manifest *m, const char *const *attributes)
{
    struct etw_manifest_item *it = item_add(m, ITEM_EVENT, str_make(""), str_make(""));

    if (!it) {
        return;
    }
    it->number = number_of(attributes, "value");
    it->version = (uint8_t)number_of(attributes, "version");
    it->text = kept(m, attributes, "symbol");
    it->task = kept(m, attributes, "task");
    it->opcode = kept(m, attributes, "opcode");
    it->template = kept(m, attributes, "template");
    append(&m->events, &m->events_last, it);
}

static void task_begin(struct etw_manifest *m, const char *const *attributes)
{
    m->task = item_add(m, ITEM_TASK, str_make(""), kept(m, attributes, "name"));
}

static void opcode_begin(struct etw_manifest *m, const char *const *attributes)
{
    struct etw_manifest_item *it = item_add(m, ITEM_OPCODE, m->task ? m->task->name : str_make(""),
                                            kept(m, attributes, "name"));

    if (it) {
        it->number = number_of(attributes, "value");
    }
}

static void string_begin(struct etw_manifest *m, const char *const *attributes)
{
    struct etw_manifest_item *it;
    struct str id = kept(m, attributes, "id");

    if (item_find(m, ITEM_STRING, str_make(""), id)) {
        return; /* of another language: the first one counts */
    }
    it = item_add(m, ITEM_STRING, str_make(""), id);
    if (it) {
        it->text = kept(m, attributes, "value");
    }
}

static void provider_begin(struct etw_manifest *m, const char *const *attributes)
{
    uint8_t guid[16];

    m->passing = m->filtered && (!etw_manifest_guid(guid, attribute(attributes, "guid")) ||
                                 memcmp(guid, m->only, sizeof guid) != 0);
    if (!m->passing && m->provider.n == 0) {
        m->provider = kept(m, attributes, "name");
    }
}

void etw_manifest_begin(struct etw_manifest *m, const char *name, const char *const *attributes)
{
    if (m->bad) {
        return;
    }
    if (m->depth++ == ETW_MANIFEST_DEPTH_MAX) {
        fail(m, ERR_CORRUPT);
        return;
    }
    if (m->passing) {
        return;
    }
    if (strcmp(name, "provider") == 0) {
        provider_begin(m, attributes);
    } else if (strcmp(name, "event") == 0) {
        event_begin(m, attributes);
    } else if (strcmp(name, "task") == 0) {
        task_begin(m, attributes);
    } else if (strcmp(name, "opcode") == 0) {
        opcode_begin(m, attributes);
    } else if (strcmp(name, "template") == 0) {
        template_begin(m, attributes);
    } else if (strcmp(name, "data") == 0 && m->template) {
        field_begin(m, attributes, false);
    } else if (strcmp(name, "struct") == 0 && m->template) {
        field_begin(m, attributes, true);
    } else if (strcmp(name, "valueMap") == 0 || strcmp(name, "bitMap") == 0) {
        map_begin(m, attributes, name[0] == 'b');
    } else if (strcmp(name, "map") == 0 && m->map) {
        map_entry(m, attributes);
    } else if (strcmp(name, "string") == 0) {
        string_begin(m, attributes);
    }
}

void etw_manifest_end(struct etw_manifest *m, const char *name)
{
    if (m->bad) {
        return;
    }
    m->depth--;
    if (strcmp(name, "provider") == 0) {
        m->passing = false;
    } else if (m->passing) {
        return;
    } else if (strcmp(name, "task") == 0) {
        m->task = NULL;
    } else if (strcmp(name, "template") == 0) {
        template_end(m);
    } else if (strcmp(name, "struct") == 0 && m->template && m->structs > 0) {
        m->structs--;
    } else if (strcmp(name, "valueMap") == 0 || strcmp(name, "bitMap") == 0) {
        map_end(m);
    }
}

/* ---- what comes of it ---- */

/* "$(string.ID)" is the text of the table; other text stands for itself. */
static struct str message(struct etw_manifest *m, struct str text)
{
    static const char open[] = "$(string.";
    const size_t n = sizeof open - 1;
    const struct etw_manifest_item *it;

    if (text.n <= n || memcmp(text.p, open, n) != 0 || text.p[text.n - 1] != ')') {
        return text;
    }
    it = item_find(m, ITEM_STRING, str_make(""), (struct str){text.p + n, text.n - n - 1});
    return it ? it->text : text;
}

static enum err put_maps(struct etw_manifest *m, const uint8_t guid[16], struct schema *s)
{
    for (const struct etw_manifest_item *it = m->maps; it; it = it->after) {
        struct schema_map map = {.name = it->name, .bits = it->bits, .n_entries = it->n};
        enum err e;

        if (it->n > 0 && !it->entries) {
            return ERR_CORRUPT; /* its end did not come */
        }
        for (size_t i = 0; i < it->n; i++) {
            m->entries[i].value = it->entries[i].value;
            m->entries[i].text = message(m, it->entries[i].text);
        }
        map.entries = m->entries;
        memcpy(map.guid, guid, sizeof map.guid);
        e = schema_put_map(s, &map);
        if (e && e != ERR_EXISTS) {
            return e;
        }
    }
    return ERR_OK;
}

/* Opcodes of the platform are only referred to, as "win:Start". */
static struct str opcode_name(struct str name)
{
    static const char win[] = "win:";

    if (name.n > 4 && memcmp(name.p, win, 4) == 0) {
        name = (struct str){name.p + 4, name.n - 4};
    }
    return str_eq(name, str_make("Info")) ? str_make("") : name;
}

static enum err put_event(struct etw_manifest *m, const struct etw_manifest_item *it,
                          const uint8_t guid[16], struct schema *s)
{
    struct schema_event ev = {.origin = m->origin,
                              .form = RAW_MANIFEST,
                              .version = it->version,
                              .number = (uint16_t)it->number,
                              .provider = m->provider,
                              .task = it->task,
                              .name = opcode_name(it->opcode)};
    const struct etw_manifest_item *template = NULL;

    if (it->template.n > 0) {
        template = item_find(m, ITEM_TEMPLATE, str_make(""), it->template);
        if (!template || !template->fields) {
            return ERR_CORRUPT;
        }
        ev.fields = template->fields;
        ev.n_fields = template->n;
    }
    if (ev.name.n == 0 && !str_eq(it->text, it->task)) {
        ev.name = it->text;
    }
    memcpy(ev.guid, guid, sizeof ev.guid);
    memcpy(ev.owner, guid, sizeof ev.owner);
    return schema_put_event(s, &ev);
}

enum err etw_manifest_finish(struct etw_manifest *m, const uint8_t guid[16], struct schema *s,
                             uint64_t *events)
{
    enum err e = m->bad;

    *events = 0;
    if (!e && m->provider.n > 0) {
        e = schema_put_provider(s, guid, m->provider);
        e = e == ERR_EXISTS ? ERR_OK : e;
    }
    if (!e) {
        e = put_maps(m, guid, s);
    }
    for (const struct etw_manifest_item *it = m->events; it && !e; it = it->after) {
        e = put_event(m, it, guid, s);
        *events += e == ERR_OK;
        e = e == ERR_EXISTS ? ERR_OK : e;
    }
    return e;
}

/* ---- a document in memory ---- */

struct document {
    struct etw_manifest *m;
    const char *p;
    size_t n;
};

static size_t document_read(void *ctx, void *p, size_t n)
{
    struct document *d = ctx;

    n = n < d->n ? n : d->n;
    if (n == 0) {
        return 0;
    }
    memcpy(p, d->p, n);
    d->p += n;
    d->n -= n;
    return n;
}

static void document_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct document *d = ctx;

    etw_manifest_begin(d->m, name, attributes);
}

static void document_end(void *ctx, const char *name)
{
    struct document *d = ctx;

    etw_manifest_end(d->m, name);
}

static enum err document_stopped(void *ctx)
{
    const struct document *d = ctx;

    return d->m->bad;
}

void etw_manifest_parse(struct etw_manifest *m, const char *xml, size_t n)
{
    struct document d = {.m = m, .p = xml, .n = n};
    const struct etw_manifest_sink sink = {.ctx = &d,
                                           .utf8 = true,
                                           .read = document_read,
                                           .begin = document_begin,
                                           .end = document_end,
                                           .stopped = document_stopped};
    enum err e = n > ETW_MANIFEST_XML_MAX ? ERR_CORRUPT : etw_manifest_stream(&sink);

    m->bad = m->bad ? m->bad : e;
}
