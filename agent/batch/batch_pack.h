/* The inside of batch.c: what a batch has collected so far, and how a part of it becomes the
 * columns of a struct batch. Nobody else includes this. Threads: one owner. */
#ifndef PROCFLEET_AGENT_BATCH_BATCH_PACK_H
#define PROCFLEET_AGENT_BATCH_BATCH_PACK_H

#include "common/base/err.h"
#include "common/wire/wire_batch.h"

#define BATCH_NO_ROW UINT32_MAX

struct batch_row {
    uint64_t mask;
    uint32_t next; /* row of the same instance at a later tick */
    uint32_t tick;
    uint32_t value_at; /* its values, lowest metric first */
    bool fresh;
};

struct batch_instance {
    struct proc_id id;
    uint32_t first_row, last_row;
    bool announce; /* info is to travel */
    struct proc_info info;
};

struct batch_life {
    struct life_event ev;
    uint32_t order; /* of arrival */
};

/* Everything of one batch. Arrays grow and are kept from batch to batch. */
struct batch_held {
    int64_t *wall_ns, *mono_ns;
    uint32_t n_ticks, cap_ticks;
    struct batch_row *rows;
    uint32_t n_rows, cap_rows;
    int64_t *values;
    uint32_t n_values, cap_values;
    struct batch_instance *instances;
    uint32_t n_instances, cap_instances;
    struct batch_life *events;
    uint32_t n_events, cap_events;
};

/* Ranges of ticks, instances and events. */
struct batch_part {
    uint32_t tick0, tick1;
    uint32_t instance0, instance1;
    uint32_t event0, event1;
    bool infos; /* the instances' attributes travel in this part */
};

struct batch_packer {
    struct batch_run *runs;
    uint32_t n_runs, cap_runs;
    int64_t *values;
    uint32_t cap_values;
    struct proc_info *infos;
    uint32_t cap_infos;
    struct life_event *events;
    uint32_t cap_events;
    struct batch_column columns[METRIC_COLS];
};

void batch_held_fini(struct batch_held *h);
void batch_packer_fini(struct batch_packer *k);

/* Room for `n` elements of `size` in *array. Errors: ERR_NOMEM (the array stays) */
NODISCARD enum err batch_room(void *array, uint32_t *cap, uint32_t n, size_t size);

/* Puts instances in order of identity and events in order of time; rows keep their places. */
void batch_held_sort(struct batch_held *h);

/* Fills ticks, runs, columns, infos and events of *out; the rest is left alone. Valid until the
 * next call. Errors: ERR_NOMEM */
NODISCARD enum err batch_pack(struct batch_packer *k, const struct batch_held *h,
                              const struct batch_part *part, struct batch *out);

/* Cuts *part in two, the earlier half staying in it: by ticks, else by instances, else by events.
 * False when nothing is left to cut. */
bool batch_part_split(struct batch_part *part, struct batch_part *rest);

#endif
