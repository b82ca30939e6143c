/* The journal of updates: what Fetch and Poll read back. Files feed-<number>.log of records, each
 * with a checksum (docs/formats.md), appended by one thread; the oldest files go when all of them
 * are over `max_bytes` or `max_age_ns`. Positions are numbers of records, from 1, growing and never
 * given twice, with holes after failures; a topic's sequence goes on after a restart, so its epoch
 * is that of the journal: new when its counters could not be read.
 * Bounds:  max_bytes on disk, what waits included; an index of about 30 bytes a record in memory;
 *          a record's payload at most JOURNAL_PAYLOAD_MAX.
 * Threads: append, skip, sync and trim from the publisher alone; everything else from any.
 * Crashes: what was synced is there, once; a torn tail is cut off. Readers see no record before it
 *          is synced. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_H

#include "collector/subscribe/journal_record.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/stats.h"
#include "common/os/fio.h"

#define JOURNAL_LEAST (4u << 20)

struct journal;

struct journal_conf {
    const char *dir; /* data_dir/feed, made when it is not there */
    const struct fio *fio;
    uint64_t max_bytes; /* of all files, at least JOURNAL_LEAST */
    int64_t max_age_ns; /* 0: any */
    uint32_t hosts_max; /* two topics each */
};

/* Errors: ERR_IO, ERR_NOSPACE, ERR_ACCESS, ERR_NOMEM, ERR_VERSION; why names the file. Damage costs
 * the records it is in, which are counted: journal_next gives ERR_CORRUPT in their places. */
NODISCARD enum err journal_open(struct journal **out, const struct journal_conf *conf,
                                struct errmsg *why);
void journal_close(struct journal *j); /* syncs; NULL is allowed */
uint64_t journal_epoch(const struct journal *j);

/* Fills position and seq of `r`. The record waits for journal_sync; those of one batch must all be
 * appended before. Errors: ERR_FULL (hosts_max, or too much waits), ERR_INVALID (a bound),
 * ERR_NOMEM, ERR_IO: not written; the number of the topic is used up all the same */
NODISCARD enum err journal_append(struct journal *j, struct journal_record *r, const void *payload);
size_t journal_waiting(const struct journal *j); /* bytes to be synced */
/* Everything appended is durable, and seen by readers. Errors: ERR_NOSPACE: it waits still, for the
 * next sync or journal_drop; ERR_IO, ERR_ACCESS, ERR_NOMEM: nothing that waited is there, its
 * numbers are used up; the next sync may work */
NODISCARD enum err journal_sync(struct journal *j);
void journal_drop(struct journal *j); /* what waits is not there, its numbers are used up */
struct journal_batch {
    uint64_t stream, seq;
    int64_t since_ns; /* records before the newest one stored earlier than this are not looked at */
    uint64_t before;  /* nor are those from this position on; 0: all are */
};
/* Whether the journal has all that this batch has for the topic; reads the heads of the topic's
 * records, the newest first. From the publisher or before it starts: what waits is not looked at.
 */
bool journal_has(struct journal *j, enum feed_topic topic, const char *name,
                 const struct journal_batch *b);

/* Positions kept: [first, next); equal when there is none. */
void journal_range(struct journal *j, uint64_t *first, uint64_t *next);

/* The first record at or behind `from` that `want` takes (it sees position, seq, topic, name and n;
 * NULL: any; called without a lock), its payload appended to `payload` when that is not NULL. *from
 * becomes the position behind it, or `next` of journal_range. Errors: ERR_END (none), ERR_CORRUPT
 * (it cannot be read: `r` has what `want` saw, an empty name when its host is unknown; *from
 * is behind it), ERR_IO, ERR_FULL (payload),
 * ERR_NOMEM */
NODISCARD enum err journal_next(struct journal *j, uint64_t *from,
                                bool (*want)(void *ctx, const struct journal_record *r), void *ctx,
                                struct journal_record *r, struct buf *payload);

/* The record of a topic with the smallest number of at least `seq`. last: the topic's newest number
 * (0: no such topic), set whatever the result. Errors: as journal_next */
NODISCARD enum err journal_find(struct journal *j, enum feed_topic topic, const char *name,
                                uint64_t seq, struct journal_record *r, struct buf *payload,
                                uint64_t *last);

/* Drops what is over the bounds, whole files; before journal_sync, so that they hold with what
 * waits. Before each record goes `lost` sees it as `want` does (may be NULL), in the order of
 * positions, without a lock, and while it can still be read: whoever counts it for a reader moves
 * the reader's cursor behind it, so that nothing is both delivered and lost. It may be told the
 * same again when a file could not be removed. */
void journal_trim(struct journal *j, int64_t now_ns,
                  void (*lost)(void *ctx, const struct journal_record *r), void *ctx);

#define JOURNAL_STATS(X)                                                                           \
    X(GAUGE, records, "procfleet_journal_records", "Messages that Fetch and Poll can still read.") \
    X(GAUGE, bytes, "procfleet_journal_bytes", "Bytes of the journal.")                            \
    X(GAUGE, files, "procfleet_journal_files", "Files of the journal.")                            \
    X(COUNTER, appended, "procfleet_journal_appended_total", "Messages written to the journal.")   \
    X(COUNTER, trimmed, "procfleet_journal_trimmed_total",                                         \
      "Messages dropped from it for their age or for want of room.")                               \
    X(COUNTER, damaged_bytes, "procfleet_journal_damaged_bytes_total",                             \
      "Bytes of it that could not be read.")                                                       \
    X(COUNTER, damaged_records, "procfleet_journal_damaged_messages_total",                        \
      "Messages in these, which subscribers are told as dropped.")                                 \
    X(COUNTER, torn_bytes, "procfleet_journal_torn_bytes_total",                                   \
      "Bytes cut off its end at the start.")                                                       \
    X(COUNTER, failed_writes, "procfleet_journal_failed_writes_total", "Writes to it that failed.")

struct journal_stats {
    JOURNAL_STATS(STATS_MEMBER)
    int64_t oldest_ns, newest_ns; /* stored_ns of the oldest and the newest; 0 = none */
};
void journal_stats(struct journal *j, struct journal_stats *out);

#endif
