/* Names of the frames of stacks, each once: of a method as the runtime says it, `module!function`
 * where symbols are found, else `module+0x1234`, else the address; or modules alone.
 * Bounds:  ETL_STACK_NAMES_MAX names of ETL_STACK_NAMES_TEXT bytes; what has no room is called
 *          "(more)" and counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_STACK_NAMES_H
#define PROCFLEET_AGENT_ETL_ETL_STACK_NAMES_H

#include "agent/etl/stack/etl_stack_tree.h"
#include "agent/etl/symbol/etl_images.h"
#include "agent/etl/symbol/etl_methods.h"

#define ETL_STACK_NAMES_MAX  (ETL_STACK_FRAMES + 8192)
#define ETL_STACK_NAMES_TEXT ((size_t)8 << 20)

struct etl_stack_names_how {
    struct etl_stack_tree *tree;
    const struct etl_images *images;
    const struct etl_methods *methods;
    const char *const *dirs; /* of symbols */
    size_t n_dirs;
    bool only_modules;
};

struct etl_stack_names_stats {
    uint64_t no_room;
    uint64_t named, not_named, others, unreadable; /* images by what became of their symbols */
};

struct etl_stack_names;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_names_create(struct etl_stack_names **out, uint64_t seed);
void etl_stack_names_destroy(struct etl_stack_names *n); /* NULL is allowed */

/* The number of a text, which is kept as utf8_clean makes it. Frames of ETL_STACK_TEXT have it as
 * their value. */
uint32_t etl_stack_names_put(struct etl_stack_names *n, struct str text);

/* Frames of the tree become names. Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_names_apply(struct etl_stack_names *n,
                                         const struct etl_stack_names_how *how);

const struct str *etl_stack_names_all(const struct etl_stack_names *n, size_t *count);
const struct etl_stack_names_stats *etl_stack_names_stats(const struct etl_stack_names *n);

#endif
