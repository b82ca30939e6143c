/* Process instances as the classic Process records of a recording tell them: which records there
 * were, when it began and ended, who created it. One entry per instance: a Start opens one; a
 * DCStart, End, DCEnd or Defunct record belongs to the pid's latest and opens one only where there
 * is none, a DCStart also where the latest has ended.
 * Bounds: LIVES_MAX instances, LIVES_TEXT_MAX bytes of text; what does not fit is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_LIVES_H
#define PROCFLEET_AGENT_ETL_LIVES_H

#include "agent/etl/walk.h"

#define LIVES_MAX      65536
#define LIVES_TEXT_MAX (16u << 20)
#define LIVES_SEEN_MAX 16

struct lives_row {
    uint32_t pid, parent_pid, session, creator_pid, exit_code;
    uint8_t version; /* of the payload */
    bool started, stopped;
    int64_t start_ns, stop_ns;    /* UTC */
    uint8_t seen[LIVES_SEEN_MAX]; /* opcodes in order of time */
    uint8_t n_seen;
    uint32_t seen_more;                          /* records beyond them */
    const char *image, *cmdline, *sid, *package; /* NULL: the record has none */
    const struct ptable_proc *charged; /* the instance that counters were charged to, or NULL */
    uint32_t order;                    /* of appearance */
};

struct lives;

/* Errors: ERR_NOMEM */
NODISCARD enum err lives_create(struct lives **out);
void lives_destroy(struct lives *l); /* NULL is allowed */

/* A record that is a process event by a classic record; others are ignored. */
void lives_event(struct lives *l, const struct walk_record *r);

uint64_t lives_untold(const struct lives *l); /* instances and texts that had no room */

/* By pid, then start. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err lives_sort(const struct lives *l, const struct lives_row ***out, size_t *n);

#endif
