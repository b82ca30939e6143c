/* An instrumentation manifest as it is read, element by element: events with their templates, tasks
 * and opcodes, maps, string table. Whatever reads the XML calls begin and end; finish resolves
 * references by name and hands events and maps to the store.
 * Bounds:  MANIFEST_DEPTH_MAX, MANIFEST_ITEMS_MAX, MANIFEST_BYTES_MAX of text and structures; over
 *          them a manifest is damaged. Threads: one owner. Caller's storage. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_MANIFEST_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_MANIFEST_H

#include "agent/decode/schema/schema.h"
#include "common/base/arena.h"

#define MANIFEST_XML_MAX   ((size_t)4 << 20)
#define MANIFEST_BYTES_MAX ((size_t)16 << 20)
#define MANIFEST_ITEMS_MAX 65536
#define MANIFEST_DEPTH_MAX 32
#define MANIFEST_SLOTS     4096

struct manifest_item;

struct manifest {
    struct arena arena;
    struct manifest_item *slots[MANIFEST_SLOTS]; /* named things, by kind and name */
    struct manifest_item *events, *events_last;
    struct manifest_item *maps, *maps_last;
    struct manifest_item *task, *map, *template; /* the ones whose elements are open */
    struct str provider;
    size_t n_items, depth;
    size_t n_fields;                    /* of the open template */
    uint16_t owner[MANIFEST_DEPTH_MAX]; /* open structs */
    uint16_t last[MANIFEST_DEPTH_MAX];  /* last field of each of them */
    size_t structs;                     /* open ones */
    struct schema_field fields[SCHEMA_FIELDS_MAX];
    struct schema_map_entry entries[SCHEMA_MAP_MAX];
    enum err bad; /* the first failure; later calls do nothing */
};

void manifest_init(struct manifest *m);
void manifest_fini(struct manifest *m);

/* An element begins: its name without prefix; attributes as name, value, …, NULL. */
void manifest_begin(struct manifest *m, const char *name, const char *const *attributes);
void manifest_end(struct manifest *m, const char *name);

/* Puts all events and maps under the provider's GUID; *events = those that were not known.
 * Errors: ERR_CORRUPT (also of begin and end), ERR_FULL, ERR_NOMEM */
NODISCARD enum err manifest_finish(struct manifest *m, const uint8_t guid[16], struct schema *s,
                                   uint64_t *events);

/* Reads a document into `m`, which is initialised; the result is in m->bad. Document types are
 * refused, so there is nothing to expand. ERR_UNSUPPORTED: built without expat. */
void manifest_parse(struct manifest *m, const char *xml, size_t n);

#endif
