/* Process instances as the classic Process records of a recording tell them: which records there
 * were, when it began and ended, what created it. One entry per instance: a Start opens one; a
 * DCStart, End, DCEnd or Defunct record belongs to the pid's latest and opens one only where there
 * is none, a DCStart also where the latest has ended.
 * Bounds: ETL_INSTANCES_MAX instances, ETL_INSTANCES_TEXT_MAX bytes of text; what does not fit is
 * counted. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_INSTANCES_H
#define PROCFLEET_AGENT_ETL_ETL_INSTANCES_H

#include "agent/etl/etl_walk.h"

#define ETL_INSTANCES_MAX      65536
#define ETL_INSTANCES_TEXT_MAX (16u << 20)
#define ETL_INSTANCES_SEEN_MAX 16

struct etl_instances_row {
    uint32_t pid, parent_pid, session, creator_pid, exit_code;
    uint8_t version; /* of the payload */
    bool started, stopped;
    int64_t start_ns, stop_ns;            /* UTC */
    uint8_t seen[ETL_INSTANCES_SEEN_MAX]; /* opcodes in order of time */
    uint8_t n_seen;
    uint32_t seen_more;                          /* records beyond them */
    const char *image, *cmdline, *sid, *package; /* NULL: the record has none */
    const struct instance *charged; /* the instance that counters were charged to, or NULL */
    uint32_t order;                 /* of appearance */
};

struct etl_instances;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_instances_create(struct etl_instances **out);
void etl_instances_destroy(struct etl_instances *l); /* NULL is allowed */

/* A record that is a process event by a classic record; others are ignored. */
void etl_instances_event(struct etl_instances *l, const struct etl_walk_record *r);

uint64_t
etl_instances_dropped(const struct etl_instances *l); /* instances and texts that had no room */

/* By pid, then start. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err etl_instances_sort(const struct etl_instances *l,
                                      const struct etl_instances_row ***out, size_t *n);

#endif
