#include "agent/decode/schema/schema.h"

#include <string.h>

#include "common/base/arena.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define SLOTS 16384 /* a power of two above SCHEMA_ITEMS_MAX */

enum item_kind { ITEM_EVENT, ITEM_MAP, ITEM_PROVIDER, ITEM_SEEN };

struct item {
    uint8_t guid[16];
    uint8_t kind;
    uint64_t number; /* events: form, version, number; seen: the hash */
    struct str name; /* maps */
    union {
        struct schema_event event;
        struct schema_map map;
        struct str provider;
    } u;
};

struct schema {
    struct arena arena;
    size_t n_items;
    uint64_t seed;             /* secret: recordings choose what is entered here */
    struct item *slots[SLOTS]; /* open addressing */
};

enum err schema_create(struct schema **out, size_t max_bytes)
{
    struct schema *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    err_ignore(os_random(&s->seed, sizeof s->seed)); /* without it only slower */
    arena_init(&s->arena, max_bytes);
    *out = s;
    return ERR_OK;
}

void schema_destroy(struct schema *s)
{
    if (!s) {
        return;
    }
    arena_fini(&s->arena);
    mem_free(s);
}

static bool same_key(const struct item *a, const struct item *b)
{
    return a->kind == b->kind && a->number == b->number &&
           memcmp(a->guid, b->guid, sizeof a->guid) == 0 && str_eq(a->name, b->name);
}

/* The slot of the item with the key, or the free one where it would stand. */
static size_t slot_of(const struct schema *s, const struct item *key)
{
    uint64_t number = key->number ^ (uint64_t)key->kind << 60;
    uint64_t h = hash_bytes(key->guid, sizeof key->guid, s->seed + number);
    size_t at;

    h = key->name.n ? hash_bytes(key->name.p, key->name.n, h) : h;
    at = (size_t)h & (SLOTS - 1);
    while (s->slots[at] && !same_key(s->slots[at], key)) {
        at = (at + 1) & (SLOTS - 1);
    }
    return at;
}

static struct item key_make(enum item_kind kind, const uint8_t guid[16])
{
    struct item key = {.kind = (uint8_t)kind};

    memcpy(key.guid, guid, sizeof key.guid);
    return key;
}

static uint64_t event_number(unsigned form, unsigned version, unsigned number)
{
    return (uint64_t)form << 24 | (uint64_t)version << 16 | number;
}

/* Over the limit or out of memory: which of both, the arena does not tell. */
static enum err no_room(const struct schema *s, size_t bytes)
{
    return bytes > s->arena.max_bytes - s->arena.used ? ERR_FULL : ERR_NOMEM;
}

/* False: no room. */
static bool copy_text(struct arena *a, struct str *text)
{
    const char *p = text->n ? arena_dup(a, text->p, text->n) : "";

    text->p = p;
    return p != NULL;
}

static bool copy_fields(struct arena *a, struct schema_event *ev)
{
    struct schema_field *fields = arena_array(a, ev->n_fields, sizeof *fields);

    if (!fields) {
        return false;
    }
    for (size_t i = 0; i < ev->n_fields; i++) {
        fields[i] = ev->fields[i];
        if (!copy_text(a, &fields[i].name) || !copy_text(a, &fields[i].map)) {
            return false;
        }
    }
    ev->fields = fields;
    return copy_text(a, &ev->provider) && copy_text(a, &ev->task) && copy_text(a, &ev->name);
}

static bool copy_entries(struct arena *a, struct schema_map *map)
{
    struct schema_map_entry *entries = arena_array(a, map->n_entries, sizeof *entries);

    if (!entries) {
        return false;
    }
    for (size_t i = 0; i < map->n_entries; i++) {
        entries[i] = map->entries[i];
        if (!copy_text(a, &entries[i].text)) {
            return false;
        }
    }
    map->entries = entries;
    return copy_text(a, &map->name);
}

/* Copies the item into the arena and enters it; a copy that does not fit leaves only dead bytes. */
static enum err put(struct schema *s, const struct item *it)
{
    size_t at = slot_of(s, it);
    struct item *copy;
    bool ok = true;

    if (s->slots[at]) {
        return ERR_EXISTS;
    }
    if (s->n_items == SCHEMA_ITEMS_MAX) {
        return ERR_FULL;
    }
    copy = arena_dup(&s->arena, it, sizeof *it);
    if (!copy) {
        return no_room(s, sizeof *it);
    }
    if (it->kind == ITEM_EVENT) {
        ok = copy_fields(&s->arena, &copy->u.event);
    } else if (it->kind == ITEM_MAP) {
        ok = copy_entries(&s->arena, &copy->u.map);
        copy->name = copy->u.map.name;
    } else if (it->kind == ITEM_PROVIDER) {
        ok = copy_text(&s->arena, &copy->u.provider);
    }
    if (!ok) {
        return no_room(s, SCHEMA_FIELDS_MAX * sizeof(struct schema_field));
    }
    s->slots[at] = copy;
    s->n_items++;
    return ERR_OK;
}

enum err schema_put_event(struct schema *s, const struct schema_event *ev)
{
    struct item it = key_make(ITEM_EVENT, ev->guid);

    it.number = event_number(ev->form, ev->version, ev->number);
    it.u.event = *ev;
    return put(s, &it);
}

enum err schema_put_map(struct schema *s, const struct schema_map *map)
{
    struct item it = key_make(ITEM_MAP, map->guid);

    it.name = map->name;
    it.u.map = *map;
    return put(s, &it);
}

enum err schema_put_provider(struct schema *s, const uint8_t guid[16], struct str name)
{
    struct item it = key_make(ITEM_PROVIDER, guid);

    it.u.provider = name;
    return put(s, &it);
}

enum err schema_put_seen(struct schema *s, const uint8_t guid[16], uint64_t hash)
{
    struct item it = key_make(ITEM_SEEN, guid);

    it.number = hash;
    return put(s, &it);
}

enum err schema_absorb(struct schema *s, const struct schema *from, uint64_t *events)
{
    enum err first = ERR_OK;

    *events = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        const struct item *it = from->slots[i];
        enum err e = it && it->kind != ITEM_SEEN ? put(s, it) : ERR_EXISTS;

        *events += e == ERR_OK && it->kind == ITEM_EVENT;
        first = first || e == ERR_EXISTS ? first : e;
    }
    return first;
}

const struct schema_event *schema_find_event(const struct schema *s, const struct raw_event *raw)
{
    struct item key = key_make(ITEM_EVENT, raw->guid);
    const struct item *it;

    key.number =
        event_number(raw->form, raw->version, raw->form == RAW_CLASSIC ? raw->opcode : raw->id);
    it = s->slots[slot_of(s, &key)];
    return it ? &it->u.event : NULL;
}

void schema_each_event(const struct schema *s,
                       void (*each)(void *ctx, const struct schema_event *ev), void *ctx)
{
    for (size_t i = 0; i < SLOTS; i++) {
        const struct item *it = s->slots[i];

        if (it && it->kind == ITEM_EVENT) {
            each(ctx, &it->u.event);
        }
    }
}

const struct schema_map *schema_find_map(const struct schema *s, const uint8_t guid[16],
                                         struct str name)
{
    struct item key = key_make(ITEM_MAP, guid);
    const struct item *it;

    key.name = name;
    it = s->slots[slot_of(s, &key)];
    return it ? &it->u.map : NULL;
}

struct str schema_find_provider(const struct schema *s, const uint8_t guid[16])
{
    struct item key = key_make(ITEM_PROVIDER, guid);
    const struct item *it = s->slots[slot_of(s, &key)];

    return it ? it->u.provider : str_make("");
}

uint8_t schema_out_of_tdh(unsigned type)
{
    static const uint8_t shows[] = {
        [1] = SCHEMA_AS_TEXT,      [3] = SCHEMA_AS_SIGNED,    [4] = SCHEMA_AS_UNSIGNED,
        [5] = SCHEMA_AS_SIGNED,    [6] = SCHEMA_AS_UNSIGNED,  [7] = SCHEMA_AS_SIGNED,
        [8] = SCHEMA_AS_UNSIGNED,  [9] = SCHEMA_AS_SIGNED,    [10] = SCHEMA_AS_UNSIGNED,
        [13] = SCHEMA_AS_BOOL,     [14] = SCHEMA_AS_GUID,     [16] = SCHEMA_AS_HEX,
        [17] = SCHEMA_AS_HEX,      [18] = SCHEMA_AS_HEX,      [19] = SCHEMA_AS_HEX,
        [20] = SCHEMA_AS_UNSIGNED, [21] = SCHEMA_AS_UNSIGNED, [22] = SCHEMA_AS_PORT,
        [23] = SCHEMA_AS_IP4,      [24] = SCHEMA_AS_IP6,      [25] = SCHEMA_AS_SOCKADDR,
        [28] = SCHEMA_AS_UTF8,     [29] = SCHEMA_AS_HEX,      [30] = SCHEMA_AS_UNSIGNED,
        [31] = SCHEMA_AS_HEX,      [32] = SCHEMA_AS_HEX,      [34] = SCHEMA_AS_UTF8,
        [35] = SCHEMA_AS_UTF8,     [37] = SCHEMA_AS_HEX,      [38] = SCHEMA_AS_TIME,
    };

    return type < sizeof shows ? shows[type] : SCHEMA_AS_STORED;
}
