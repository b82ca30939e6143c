/* Joins events with their call stacks, which are records of their own: by the event's time and
 * thread. A stack comes in a kernel's and a user's half, with addresses or with a key whose
 * addresses are told once, later.
 *
 * What is counted here: an event waits until the user's half came, or ETL_STACK_WAITING newer ones;
 * then for the addresses of its keys. The addresses of a key are those of its first definition at
 * or after the reference; a key that is defined is another one from then on.
 * The weight of an event may be told later (etl_stack_join_later): how long what it began took.
 * Bounds:  ETL_STACK_WAITING events, ETL_STACK_KEYS open keys, ETL_STACK_HELD different things
 *          that wait for them; what has no room is counted without that half.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_STACK_ETL_STACK_JOIN_H
#define PROCFLEET_AGENT_ETL_STACK_ETL_STACK_JOIN_H

#include "agent/etl/stack/etl_stack_tree.h"

#define ETL_STACK_WAITING 16384
#define ETL_STACK_KEYS    32768
#define ETL_STACK_HELD    65536
#define ETL_STACK_LATER   262144 /* weights that are not told yet */
#define ETL_STACK_DEPTH   512    /* frames of a half; further ones are left out and counted */

struct etl_stack_event {
    int64_t ticks, wall_ns;
    uint32_t pid, tid, cpu;
    uint32_t base; /* the node it is counted under */
    uint64_t ip;   /* where it was, the innermost frame; 0 = not known */
    uint64_t weight;
    uint32_t later; /* of etl_stack_join_later, which gives the weight then; or 0 */
};

/* Addresses as they stand in a record, the innermost first. */
struct etl_stack_part {
    const uint8_t *p;
    size_t n; /* addresses */
    uint8_t pointer_size;
};

struct etl_stack_join_conf {
    struct etl_stack_tree *tree;
    /* The frame of an address in a process at a moment. */
    uint32_t (*frame)(void *ctx, uint32_t pid, uint64_t address, int64_t wall_ns);
    bool (*is_kernel)(void *ctx, uint64_t address, uint8_t pointer_size);
    void *ctx;
    uint32_t no_stack, not_recorded; /* frames for what is missing */
};

struct etl_stack_join_stats {
    uint64_t events, joined; /* joined: with at least one half */
    uint64_t parts;          /* halves that belong to an event here */
    uint64_t surplus;        /* halves for an event that has them already */
    uint64_t undefined;      /* events whose key was never defined */
    uint64_t no_room, cut;   /* halves; stacks deeper than ETL_STACK_DEPTH */
};

struct etl_stack_join;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_join_create(struct etl_stack_join **out,
                                         const struct etl_stack_join_conf *conf);
void etl_stack_join_destroy(struct etl_stack_join *j); /* NULL is allowed */

void etl_stack_join_event(struct etl_stack_join *j, const struct etl_stack_event *ev);

/* A weight for one event that is told bit by bit, held by the caller until it is released by all
 * who keep it. An event without weight then is not counted. 0: no room. */
uint32_t etl_stack_join_later(struct etl_stack_join *j);
void etl_stack_join_keep(struct etl_stack_join *j, uint32_t later);
void etl_stack_join_weigh(struct etl_stack_join *j, uint32_t later, uint64_t weight);
void etl_stack_join_release(struct etl_stack_join *j, uint32_t later);

/* A stack for the event of that time and thread, of thread 0 also of that CPU. */
void etl_stack_join_part(struct etl_stack_join *j, int64_t ticks, uint32_t tid, uint32_t cpu,
                         const struct etl_stack_part *part);
void etl_stack_join_key(struct etl_stack_join *j, int64_t ticks, uint32_t tid, uint32_t cpu,
                        uint64_t key, bool user);
/* A user's half for the latest event of that thread, if that is one of the last 64 and waits. */
void etl_stack_join_latest(struct etl_stack_join *j, uint32_t tid,
                           const struct etl_stack_part *part);

void etl_stack_join_define(struct etl_stack_join *j, uint64_t key, int64_t wall_ns,
                           const struct etl_stack_part *part);

/* The end of the recording: all that waits is counted. */
void etl_stack_join_end(struct etl_stack_join *j);

const struct etl_stack_join_stats *etl_stack_join_stats(const struct etl_stack_join *j);

#endif
