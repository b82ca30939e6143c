/* Which images were loaded where and when: by process, address and time, with the identity of
 * their symbols. Filled by one pass over a recording, asked by the next.
 * Bounds:  ETL_IMAGES_MAX loads, ETL_IMAGES_TEXT bytes of paths; what has no room is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_SYMBOL_ETL_IMAGES_H
#define PROCFLEET_AGENT_ETL_SYMBOL_ETL_IMAGES_H

#include "agent/source/event.h"
#include "common/base/err.h"

#define ETL_IMAGES_MAX  65536
#define ETL_IMAGES_TEXT ((size_t)4 << 20)

struct etl_images_module { /* a file, wherever it is loaded */
    struct str name;       /* without folders */
    bool has_symbols;
    uint8_t guid[16]; /* of its symbols, as stored */
    uint32_t age;
    struct str pdb; /* as the image names it */
};

struct etl_images_one {
    uint64_t base, end;
    int64_t from_ns, to_ns; /* INT64_MIN, INT64_MAX: before the begin, behind the end */
    uint32_t pid, module;
};

struct etl_images;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_images_create(struct etl_images **out);
void etl_images_destroy(struct etl_images *m); /* NULL is allowed */

/* EV_IMAGE_…; others are ignored. */
void etl_images_event(struct etl_images *m, const struct event *ev);
/* The identity of the symbols of what is loaded there. */
void etl_images_symbols(struct etl_images *m, uint32_t pid, uint64_t base, const uint8_t guid[16],
                        uint32_t age, struct str pdb);

/* After the last event: makes it ready to be asked. */
void etl_images_done(struct etl_images *m);

/* What was there then; NULL: nothing that is known. Addresses of the kernel are process 0's. */
const struct etl_images_one *etl_images_find(const struct etl_images *m, uint32_t pid,
                                             uint64_t address, int64_t wall_ns);
uint64_t etl_images_kernel_base(const struct etl_images *m); /* the lowest; UINT64_MAX: none */

const struct etl_images_module *etl_images_module(const struct etl_images *m, uint32_t module);
uint64_t etl_images_no_room(const struct etl_images *m);
size_t etl_images_bytes(const struct etl_images *m); /* of memory, about */

#endif
