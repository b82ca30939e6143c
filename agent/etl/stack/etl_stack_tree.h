/* Call stacks as a tree: a node is a frame under its caller, with what was counted there. Frames
 * are kept as places (an image and an offset, a method, an address, a text), each once; they get
 * their names at the end (etl_stack_tree_rename).
 * Bounds:  nodes_max nodes, ETL_STACK_NODES at most, and ETL_STACK_FRAMES frames; a path without
 *          room goes on as one frame `more` of its last caller, and is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_STACK_ETL_STACK_TREE_H
#define PROCFLEET_AGENT_ETL_STACK_ETL_STACK_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define ETL_STACK_NODES  ((size_t)400000)
#define ETL_STACK_FRAMES ((size_t)1 << 17)

enum etl_stack_kind {
    ETL_STACK_TEXT,    /* value: whatever the user numbers */
    ETL_STACK_IMAGE,   /* index: of the image; value: offset in it */
    ETL_STACK_METHOD,  /* value: index of the method */
    ETL_STACK_ADDRESS, /* value: the address, of no known image */
};

struct etl_stack_frame {
    uint32_t kind : 2; /* enum etl_stack_kind */
    uint32_t index : 30;
    uint32_t next; /* private */
    uint64_t value;
};

struct etl_stack_node {
    uint32_t parent, frame;
    uint64_t weight; /* of what ends here */
    uint32_t count;  /* records that end here */
    uint32_t next;   /* private */
};

struct etl_stack_tree {
    struct etl_stack_node *nodes; /* 0 is the root; a caller stands before its callees */
    struct etl_stack_frame *frames;
    size_t n, cap, n_frames, cap_frames;
    uint32_t *node_heads, *frame_heads; /* index + 1 */
    unsigned node_bits, frame_bits;
    uint64_t seed;
    uint32_t more;      /* the frame of what had no room */
    uint64_t truncated; /* paths that had no room */
    size_t nodes_max;   /* ETL_STACK_NODES, or less, set by the user before there are more */
};

/* Caller's storage. Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_tree_init(struct etl_stack_tree *t, uint64_t seed);
void etl_stack_tree_fini(struct etl_stack_tree *t); /* zeroed or failed is allowed */

/* The frame's number; `more` when there is no room. */
uint32_t etl_stack_tree_frame(struct etl_stack_tree *t, enum etl_stack_kind kind, uint32_t index,
                              uint64_t value);

/* The node of the frame under `parent`; with no room `parent` or its `more`. */
uint32_t etl_stack_tree_child(struct etl_stack_tree *t, uint32_t parent, uint32_t frame);

static inline void etl_stack_tree_add(struct etl_stack_tree *t, uint32_t node, uint64_t weight,
                                      uint32_t count)
{
    t->nodes[node].weight += weight;
    t->nodes[node].count += count;
}

/* Gives each frame another number, names[frame] (below n_names): nodes that become alike under one
 * caller become one. Frames are gone then. Errors: ERR_NOMEM, the tree is as it was */
NODISCARD enum err etl_stack_tree_rename(struct etl_stack_tree *t, const uint32_t *names);

/* Below each node: its own and all of its callees' weight. mem_free. NULL: no memory */
uint64_t *etl_stack_tree_totals(const struct etl_stack_tree *t);

#endif
