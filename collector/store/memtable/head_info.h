/* What is known of every process instance of one host: struct proc_info, merged from all batches in
 * whatever order they arrive. Readers hold immutable snapshots.
 * Bounds:  `max` instances; beyond, an eighth of them goes: those that ended, longest ago first,
 *          then those not heard of for longest. Counted. Some 40 bytes each, and their texts, which
 *          are kept once per host (head_text.h); a third more while texts change.
 *          Bytes, when head_infos_limit says so: beyond, the ended ones go; when none is left, long
 *          command lines and paths are cut, to a quarter again and again; then others
 *          go. All of it is on disk whole. For a moment, and while readers hold an old snapshot,
 *          it is twice as much.
 * Threads: merge and snapshot by one owner; snapshots by any. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_INFO_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_INFO_H

#include "common/base/err.h"
#include "common/model/model.h"
#include "common/wire/wire_batch.h"

struct head_infos;
struct head_infos_snap;

/* max  at least 8. Errors: ERR_NOMEM */
NODISCARD enum err head_infos_create(struct head_infos **out, uint32_t max);
void head_infos_destroy(struct head_infos *t); /* snapshots live on; NULL is allowed */

/* Adds what `info` says; seen_ns is the time of the batch that says it.
 * Errors: ERR_NOMEM (nothing changed but perhaps old instances gone) */
NODISCARD enum err head_infos_merge(struct head_infos *t, const struct uuid *boot,
                                    const struct proc_info *info, int64_t seen_ns);

/* All that a batch says of instances, in the order of time (see head_info_is_last); t1_ns: its
 * newest stamp. Errors: those of head_infos_merge */
NODISCARD enum err head_infos_merge_batch(struct head_infos *t, const struct batch *b,
                                          int64_t t1_ns);

/* At most so many bytes from now on; at first there is no limit. */
void head_infos_limit(struct head_infos *t, uint64_t bytes_max);

/* Now, if it can be done: some KiB stay. Errors: ERR_NOMEM (perhaps some are gone) */
NODISCARD enum err head_infos_shrink(struct head_infos *t, uint64_t bytes_max);

uint64_t head_infos_bytes(const struct head_infos *t);    /* what it takes, but for snapshots */
uint64_t head_infos_too_long(const struct head_infos *t); /* times that texts were cut to less */

size_t head_infos_count(const struct head_infos *t);
uint64_t head_infos_evicted(const struct head_infos *t);

/* The instances as they are now, with a reference for the caller. Errors: ERR_NOMEM */
NODISCARD enum err head_infos_snapshot(struct head_infos *t, struct head_infos_snap **out);
struct head_infos_snap *head_infos_snap_ref(struct head_infos_snap *s);
void head_infos_snap_unref(struct head_infos_snap *s); /* NULL is allowed */

/* start 0: the latest instance of that pid in that boot. false: unknown. Text in *out is the
 * snapshot's. */
bool head_infos_find(const struct head_infos_snap *s, const struct uuid *boot, struct proc_id id,
                     struct proc_info *out);

/* Goes through all of them, by boot, pid and start: the one at *at, which may have to move to a
 * further page; at->i++ goes on. false: there are no more. Begins with {0}. */
struct head_infos_place {
    size_t page;
    uint32_t i;
};
bool head_infos_peek(const struct head_infos_snap *s, struct head_infos_place *at,
                     const struct uuid **boot, struct proc_info *out);

/* A batch tells of an instance in the order of time: what ran when something happened to it, then
 * by its infos what ran in its newest row, then what had run at its end. An event is as old as its
 * stamp, everything else as the batch: t1. A start is often told late, and names the program of
 * before an exec. */
bool head_info_is_last(const struct life_event *ev); /* an end: behind the infos */
int64_t head_info_when(const struct life_event *ev, int64_t t1_ns);

/* Adds to *known what `news` says. `newer`: news is from a later batch than everything in *known,
 * and its text replaces. Text stays borrowed. */
void head_info_join(struct proc_info *known, const struct proc_info *news, bool newer);

/* Whether both say the same. */
bool head_info_same(const struct proc_info *a, const struct proc_info *b);

#endif
