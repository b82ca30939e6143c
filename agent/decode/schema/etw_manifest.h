/* An instrumentation manifest as it is read, element by element: events with their templates, tasks
 * and opcodes, maps, string table. Whatever reads the XML calls begin and end; finish resolves
 * references by name and hands events and maps to the store.
 * A document may hold several providers; with etw_manifest_only those of others are passed over.
 * Bounds:  ETW_MANIFEST_DEPTH_MAX, ETW_MANIFEST_ITEMS_MAX, ETW_MANIFEST_BYTES_MAX of text and
 * structures; over them a manifest is damaged. Threads: one owner. Caller's storage. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_ETW_MANIFEST_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_ETW_MANIFEST_H

#include "agent/decode/schema/schema.h"
#include "common/base/arena.h"

#define ETW_MANIFEST_XML_MAX   ((size_t)4 << 20)  /* in a stream */
#define ETW_MANIFEST_FILE_MAX  ((size_t)16 << 20) /* a file */
#define ETW_MANIFEST_BYTES_MAX ((size_t)16 << 20)
#define ETW_MANIFEST_ITEMS_MAX 65536
#define ETW_MANIFEST_DEPTH_MAX 32
#define ETW_MANIFEST_SLOTS     4096

struct etw_manifest_item;

struct etw_manifest {
    struct arena arena;
    struct etw_manifest_item *slots[ETW_MANIFEST_SLOTS]; /* named things, by kind and name */
    struct etw_manifest_item *events, *events_last;
    struct etw_manifest_item *maps, *maps_last;
    struct etw_manifest_item *task, *map, *template; /* the ones whose elements are open */
    struct str provider;
    bool filtered, passing; /* only one provider counts; the open one is another */
    uint8_t only[16];
    uint8_t origin; /* enum schema_origin, of the events */
    size_t n_items, depth;
    size_t n_fields;                        /* of the open template */
    uint16_t owner[ETW_MANIFEST_DEPTH_MAX]; /* open structs */
    uint16_t last[ETW_MANIFEST_DEPTH_MAX];  /* last field of each of them */
    size_t structs;                         /* open ones */
    struct schema_field fields[SCHEMA_FIELDS_MAX];
    struct schema_map_entry entries[SCHEMA_MAP_MAX];
    enum err bad; /* the first failure; later calls do nothing */
};

void etw_manifest_init(struct etw_manifest *m);
void etw_manifest_fini(struct etw_manifest *m);

/* Only the provider with this GUID counts, and the texts that belong to none. */
void etw_manifest_only(struct etw_manifest *m, const uint8_t guid[16]);

/* A GUID of an attribute, with or without braces, as records store it; false: it is none. */
bool etw_manifest_guid(uint8_t guid[16], const char *text);

/* An element begins: its name without prefix; attributes as name, value, …, NULL. */
void etw_manifest_begin(struct etw_manifest *m, const char *name, const char *const *attributes);
void etw_manifest_end(struct etw_manifest *m, const char *name);

/* Puts all events and maps under the provider's GUID; *events = those that were not known.
 * Errors: ERR_CORRUPT (also of begin and end), ERR_FULL, ERR_NOMEM */
NODISCARD enum err etw_manifest_finish(struct etw_manifest *m, const uint8_t guid[16],
                                       struct schema *s, uint64_t *events);

/* Reads a document into `m`, which is initialised; the result is in m->bad. Document types are
 * refused, so there is nothing to expand. ERR_UNSUPPORTED: a Windows without a reader of XML. */
void etw_manifest_parse(struct etw_manifest *m, const char *xml, size_t n);

/* The elements of a document that `read` gives piece by piece: up to `n` bytes, 0 at its end. It is
 * UTF-8 or what its declaration or byte order mark says. Errors: ERR_CORRUPT (not XML, or beyond
 * ETW_MANIFEST_FILE_MAX), ERR_NOMEM, ERR_UNSUPPORTED, and what `stopped` returns after an element
 */
struct etw_manifest_sink {
    void *ctx;
    bool utf8; /* whatever the document says of itself */
    size_t (*read)(void *ctx, void *p, size_t n);
    void (*begin)(void *ctx, const char *name, const char *const *attributes);
    void (*end)(void *ctx, const char *name);
    enum err (*stopped)(void *ctx); /* ERR_OK: go on */
};
NODISCARD enum err etw_manifest_stream(const struct etw_manifest_sink *sink);

#endif
