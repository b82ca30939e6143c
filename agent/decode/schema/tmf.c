/* A file has sections of lines:
 *
 *   01234567-89ab-cdef-0123-456789abcdef component // SRC=file.c MJ= MN=
 *   #typev file_c120 10 "%0%!FUNC! read %10!d! of %11!s!" //   LEVEL=ERROR FLAGS=IO FUNC=Read
 *   {
 *   length, ItemLong -- 10
 *   GetName(a, b), ItemWString -- 11
 *   }
 *
 * Names are expressions of C and may hold commas: lines of arguments are taken apart from the end.
 * Lines that begin with // are remarks; what nobody knows is passed over and counted. */
#include "agent/decode/schema/tmf.h"

#include <string.h>

#include "common/base/arena.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define SLOTS    65536
#define LINE_MAX 65536

struct node {
    struct node *next;
    struct tmf_message message;
};

struct tmf {
    struct arena arena;
    struct node *slots[SLOTS];
    uint64_t messages, damaged;
};

/* Reading one file. */
struct reading {
    struct tmf *t;
    uint8_t guid[16];
    bool have_guid, full;
    struct str component, source;
    struct node *message; /* the one whose arguments follow */
    bool in_items;
    struct tmf_item items[TMF_ITEMS_MAX];
    size_t n_items;
};

enum err tmf_create(struct tmf **out)
{
    struct tmf *t = mem_zalloc(sizeof *t);

    if (!t) {
        return ERR_NOMEM;
    }
    arena_init(&t->arena, TMF_BYTES_MAX);
    *out = t;
    return ERR_OK;
}

void tmf_destroy(struct tmf *t)
{
    if (!t) {
        return;
    }
    arena_fini(&t->arena);
    mem_free(t);
}

static size_t slot_of(const uint8_t guid[16], uint16_t number)
{
    return (size_t)hash_bytes(guid, 16, number) & (SLOTS - 1);
}

const struct tmf_message *tmf_find(const struct tmf *t, const uint8_t guid[16], uint16_t number)
{
    const struct node *n = t->slots[slot_of(guid, number)];

    while (n && (n->message.number != number || memcmp(n->message.guid, guid, 16) != 0)) {
        n = n->next;
    }
    return n ? &n->message : NULL;
}

void tmf_counts(const struct tmf *t, uint64_t *messages, uint64_t *damaged)
{
    *messages = t->messages;
    *damaged = t->damaged;
}

/* ---- text ---- */

static struct str trim(struct str s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r')) {
        s.n--;
    }
    return s;
}

static struct str from(struct str s, size_t at)
{
    return (struct str){s.p + at, s.n - at};
}

static bool starts(struct str s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && memcmp(s.p, with, n) == 0;
}

/* Position of the first or last `what`, SIZE_MAX where there is none. */
static size_t find_first(struct str s, const char *what)
{
    for (size_t i = 0; i < s.n; i++) {
        if (starts(from(s, i), what)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static size_t find_last(struct str s, const char *what)
{
    for (size_t i = s.n; i-- > 0;) {
        if (starts(from(s, i), what)) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Up to the next blank; `rest` begins behind it. */
static struct str word(struct str *rest)
{
    struct str s = trim(*rest);
    size_t n = 0;

    while (n < s.n && s.p[n] != ' ' && s.p[n] != '\t') {
        n++;
    }
    *rest = trim(from(s, n));
    return (struct str){s.p, n};
}

static bool number(struct str s, uint32_t *out)
{
    unsigned base = 10;

    *out = 0;
    if (starts(s, "0x") || starts(s, "0X")) {
        base = 16;
        s = from(s, 2);
    }
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 99;

        if (digit >= base || *out > (UINT32_MAX - digit) / base) {
            return false;
        }
        *out = *out * base + digit;
    }
    return s.n > 0;
}

/* The word behind "NAME=" in a remark. */
static struct str remark(struct str s, const char *name)
{
    size_t at = find_first(s, name);

    if (at == SIZE_MAX) {
        return str_make("");
    }
    s = from(s, at + strlen(name));
    return s.n > 0 && s.p[0] == ' ' ? str_make("") : word(&s);
}

/* False: out of memory, or full. */
static bool keep(struct reading *r, struct str *s)
{
    const char *p = s->n ? arena_dup(&r->t->arena, s->p, s->n) : "";

    if (!p) {
        r->full = true;
        return false;
    }
    s->p = p;
    return true;
}

static bool guid_read(uint8_t out[16], struct str s)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t at = 0;

    if (s.n != 36) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        uint32_t byte;

        if (i == 4 || i == 6 || i == 8 || i == 10) {
            if (s.p[at++] != '-') {
                return false;
            }
        }
        if (s.p[at + 1] == 'x' ||
            !number((struct str){(char[]){'0', 'x', s.p[at], s.p[at + 1]}, 4}, &byte)) {
            return false;
        }
        out[order[i]] = (uint8_t)byte;
        at += 2;
    }
    return true;
}

/* ---- arguments ---- */

static const struct {
    const char *name;
    uint8_t type;
} types[] = {
    {"Char", TMF_I8},           {"CharSign", TMF_I8},        {"UChar", TMF_U8},
    {"CharHidden", TMF_U8},     {"CharShort", TMF_I8},       {"Short", TMF_I16},
    {"UShort", TMF_U16},        {"Long", TMF_I32},           {"ULong", TMF_U32},
    {"ULongX", TMF_HEX32},      {"LongLong", TMF_I64},       {"ULongLong", TMF_U64},
    {"LongLongX", TMF_HEX64},   {"LongLongXX", TMF_HEX64},   {"LongLongO", TMF_U64},
    {"Float", TMF_F32},         {"Double", TMF_F64},         {"Ptr", TMF_PTR},
    {"Pointer", TMF_PTR},       {"String", TMF_TEXT8},       {"RString", TMF_TEXT8},
    {"WString", TMF_TEXT16},    {"RWString", TMF_TEXT16},    {"PString", TMF_COUNTED8},
    {"DSString", TMF_COUNTED8}, {"PWString", TMF_COUNTED16}, {"DSWString", TMF_COUNTED16},
    {"HEXDump", TMF_HEX_DUMP},  {"HexDump", TMF_HEX_DUMP},   {"Sid", TMF_SID},
    {"Guid", TMF_GUID},         {"GUID", TMF_GUID},          {"CLSID", TMF_GUID},
    {"LIBID", TMF_GUID},        {"IID", TMF_GUID},           {"IPAddr", TMF_IP4},
    {"IPV6Addr", TMF_IP6},      {"MACAddr", TMF_MAC},        {"Port", TMF_PORT},
    {"NTSTATUS", TMF_STATUS},   {"HRESULT", TMF_STATUS},     {"NDIS_STATUS", TMF_STATUS},
    {"NETEVENT", TMF_STATUS},   {"NDIS_OID", TMF_STATUS},    {"FlagsEnum", TMF_STATUS},
    {"WINERROR", TMF_ERROR},    {"Enum", TMF_U32},           {"Timestamp", TMF_TIME},
    {"TimeStamp", TMF_TIME},    {"TimeDelta", TMF_DELTA},    {"WaitTime", TMF_DELTA},
    {"Char4", TMF_CHAR4},       {"ListByte", TMF_LIST8},     {"ListShort", TMF_LIST16},
    {"ListLong", TMF_LIST32},   {"SetByte", TMF_SET8},       {"SetShort", TMF_SET16},
    {"SetLong", TMF_SET32},
};

static uint8_t type_of(struct str name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (str_eq(name, str_make(types[i].name))) {
            return types[i].type;
        }
    }
    return TMF_UNKNOWN;
}

/* "name, ItemType(list) -- number" */
static bool item_read(struct tmf_item *it, struct str line)
{
    size_t dashes = find_last(line, "--"), item, open;
    struct str type;
    uint32_t n;

    if (dashes == SIZE_MAX || !number(trim(from(line, dashes + 2)), &n) || n > UINT16_MAX) {
        return false;
    }
    line = trim((struct str){line.p, dashes});
    item = find_last(line, ", Item");
    if (item == SIZE_MAX) {
        return false;
    }
    *it = (struct tmf_item){.name = trim((struct str){line.p, item}), .number = (uint16_t)n};
    type = from(line, item + 6);
    open = find_first(type, "(");
    if (open != SIZE_MAX && type.p[type.n - 1] == ')') {
        it->list = (struct str){type.p + open + 1, type.n - open - 2};
        type = trim((struct str){type.p, open});
    } else {
        it->list = str_make("");
    }
    it->type = type_of(type);
    return true;
}

/* ---- messages ---- */

/* #typev NAME NUMBER "TEXT" // REMARKS; the text ends at the first quote with nothing, or only a
 * remark, behind it. */
static bool message_read(struct tmf_message *m, struct str line)
{
    struct str rest = from(line, strlen("#typev"));
    uint32_t n;

    m->name = word(&rest);
    if (m->name.n == 0 || !number(word(&rest), &n) || n > UINT16_MAX || !starts(rest, "\"")) {
        return false;
    }
    m->number = (uint16_t)n;
    for (size_t i = 1; i < rest.n; i++) {
        struct str behind = from(rest, i + 1);

        if (rest.p[i] != '"') {
            continue;
        }
        behind = trim(behind);
        if (behind.n == 0 || starts(behind, "//")) {
            m->text = (struct str){rest.p + 1, i - 1};
            m->function = remark(behind, "FUNC=");
            m->level = remark(behind, "LEVEL=");
            m->flags = remark(behind, "FLAGS=");
            return true;
        }
    }
    return false;
}

static bool message_keep(struct reading *r, struct tmf_message *m)
{
    return keep(r, &m->name) && keep(r, &m->text) && keep(r, &m->function) && keep(r, &m->level) &&
           keep(r, &m->flags);
}

static void message_line(struct reading *r, struct str line)
{
    struct tmf_message m = {.component = r->component, .source = r->source};

    r->message = NULL;
    if (!r->have_guid || !message_read(&m, line)) {
        r->t->damaged++;
        return;
    }
    memcpy(m.guid, r->guid, sizeof m.guid);
    if (tmf_find(r->t, m.guid, m.number)) {
        return;
    }
    if (r->t->messages == TMF_MESSAGES_MAX || !message_keep(r, &m)) {
        r->t->damaged++;
        return;
    }
    r->message = arena_alloc(&r->t->arena, sizeof *r->message);
    if (!r->message) {
        r->full = true;
        r->t->damaged++;
        return;
    }
    r->message->message = m;
}

/* With its arguments, if it has any, a message can be found. */
static void message_end(struct reading *r)
{
    struct node *n = r->message;
    struct tmf_item *items;

    r->message = NULL;
    if (!n) {
        return;
    }
    items = arena_dup(&r->t->arena, r->items, r->n_items * sizeof items[0]);
    for (size_t i = 0; items && i < r->n_items; i++) {
        if (!keep(r, &items[i].name) || !keep(r, &items[i].list)) {
            items = NULL;
        }
    }
    if (!items) {
        r->full = true;
        r->t->damaged++;
        return;
    }
    n->message.items = items;
    n->message.n_items = r->n_items;
    n->next = r->t->slots[slot_of(n->message.guid, n->message.number)];
    r->t->slots[slot_of(n->message.guid, n->message.number)] = n;
    r->t->messages++;
}

static void item_line(struct reading *r, struct str line)
{
    if (line.p[0] == '}') {
        message_end(r);
        r->in_items = false;
        return;
    }
    if (!r->message) {
        return;
    }
    if (r->n_items == TMF_ITEMS_MAX || !item_read(&r->items[r->n_items], line)) {
        r->message = NULL;
        r->t->damaged++;
        return;
    }
    r->n_items++;
}

static void section_line(struct reading *r, struct str line)
{
    struct str rest = line;

    r->have_guid = guid_read(r->guid, word(&rest));
    if (!r->have_guid) {
        r->t->damaged++;
        return;
    }
    r->component = word(&rest);
    r->source = remark(rest, "SRC=");
    if (!keep(r, &r->component) || !keep(r, &r->source)) {
        r->have_guid = false;
    }
}

static void line_read(struct reading *r, struct str line)
{
    if (line.n == 0 || starts(line, "//")) {
        return;
    }
    if (line.n > LINE_MAX) {
        r->t->damaged++;
        return;
    }
    if (r->in_items) {
        item_line(r, line);
    } else if (line.p[0] == '{') {
        r->in_items = true;
        r->n_items = 0;
    } else if (starts(line, "#typev")) {
        r->n_items = 0;
        message_end(r); /* the one before had no arguments */
        message_line(r, line);
    } else if (line.p[0] == '#') {
        r->t->damaged++;
    } else {
        r->n_items = 0;
        message_end(r);
        section_line(r, line);
    }
}

enum err tmf_read(struct tmf *t, const char *text, size_t n)
{
    struct reading *r = mem_zalloc(sizeof *r);
    bool full;

    if (!r) {
        return ERR_NOMEM;
    }
    r->t = t;
    while (n > 0 && !r->full) {
        const char *nl = memchr(text, '\n', n);
        size_t line = nl ? (size_t)(nl - text) : n;

        line_read(r, trim((struct str){text, line}));
        line += nl != NULL;
        text += line;
        n -= line;
    }
    if (!r->in_items) {
        r->n_items = 0;
        message_end(r);
    }
    full = r->full;
    mem_free(r);
    return full && t->arena.used < t->arena.max_bytes / 2 ? ERR_NOMEM : ERR_OK;
}

struct dir {
    struct tmf *t;
    const char *path;
};

static bool is_tmf(const char *name)
{
    size_t n = strlen(name);

    return n > 4 && name[n - 4] == '.' && (name[n - 3] | 0x20) == 't' &&
           (name[n - 2] | 0x20) == 'm' && (name[n - 1] | 0x20) == 'f';
}

/* A file that cannot be read is damage of the directory's, not its end. */
static enum err read_one(void *ctx, const char *name)
{
    struct dir *d = ctx;
    char *path;
    uint8_t *p;
    size_t n;
    enum err e;

    if (!is_tmf(name)) {
        return ERR_OK;
    }
    path = os_path_join(d->path, name);
    if (!path) {
        return ERR_NOMEM;
    }
    e = os_read_file(&p, &n, path, TMF_FILE_MAX);
    mem_free(path);
    if (e) {
        d->t->damaged++;
        return e == ERR_NOMEM ? e : ERR_OK;
    }
    e = tmf_read(d->t, (const char *)p, n);
    mem_free(p);
    return e;
}

enum err tmf_read_dir(struct tmf *t, const char *dir, struct errmsg *why)
{
    struct dir d = {t, dir};
    enum err e = os_list_dir(dir, read_one, &d);

    return e ? errmsg_set(why, e, "message files in %s: %s", dir, err_text(e)) : ERR_OK;
}

struct str tmf_list_name(struct str list, uint64_t index)
{
    uint64_t at = 0;

    while (list.n > 0) {
        size_t comma = find_first(list, ","), equal;
        struct str one = comma == SIZE_MAX ? list : (struct str){list.p, comma};
        uint32_t given;

        list = comma == SIZE_MAX ? str_make("") : from(list, comma + 1);
        one = trim(one);
        equal = find_last(one, "=");
        if (equal != SIZE_MAX && number(trim(from(one, equal + 1)), &given)) {
            at = given;
            one = trim((struct str){one.p, equal});
        }
        if (at++ == index) {
            return one;
        }
    }
    return str_make("");
}
