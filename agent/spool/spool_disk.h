/* The spool's files: append, take, forget, shrink (format: docs/formats.md).
 *
 *   add … commit     one write and one sync make everything added durable
 *   next … done      what is to be sent, several at a time, and that it need not be sent again
 *
 * Order. Two cursors walk over the records: `back` from the oldest on, `live` over those of this
 * moment. While both have something to give they take turns, so that after an outage what happens
 * now is not behind hours of what happened then; without a backlog they stand at the same record
 * and everything leaves in order. What `live` has sent is remembered as ranges of numbers, a
 * handful at most: when there is no room for a further one, `live` goes on where it is.
 *
 * Bounds. Above max_bytes, segment by segment from the oldest on: first all lose their samples,
 * then all their events, then the oldest goes. What is left of a batch tells its loss (see
 * spool_batch.h); only what goes whole is counted here, and not what is in flight: that is still
 * sent. While a segment is rewritten the smaller copy stands beside it. Older than max_age: gone,
 * counted.
 *
 * Crashes. A commit that was answered survives loss of power. Of one that was not, nothing, a part
 * or all does. A segment is rewritten beside itself and renamed. What was done is not written down:
 * a segment goes when all of it is done, and what is sent again is known to the collector by its
 * number.
 *
 * Errors of the disk end a commit; nothing is ever appended to that file again. The caller numbers
 * what comes after under a new stream (spool_disk_renew), because what was not made durable under
 * the old one may be sent from memory, and its numbers must not come twice.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_DISK_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_DISK_H

#include "agent/spool/spool_conf.h"
#include "common/base/buf.h"
#include "common/model/model.h"

struct spool_disk;

struct spool_taken {
    uint64_t stream, seq;
    const void *p; /* in the caller's buffer */
    size_t n;
};

/* Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM, ERR_VERSION (a file of a newer format) */
NODISCARD enum err spool_disk_open(struct spool_disk **out, const struct spool_disk_conf *conf,
                                   struct errmsg *why);
/* Before anything is added: drops, counted, what was spooled under another identity, which the
 * collector would not take from this one: the host was enrolled anew, or its disk is a copy.
 * Errors: those of os_random */
NODISCARD enum err spool_disk_keep(struct spool_disk *d, const struct uuid *host);
void spool_disk_close(struct spool_disk *d); /* what was added but not committed is lost */

/* Which numbers come next. */
uint64_t spool_disk_stream(const struct spool_disk *d);
uint64_t spool_disk_next_seq(const struct spool_disk *d);
/* From here on batches are of this stream, and the next one has this number. */
void spool_disk_renew(struct spool_disk *d, uint64_t stream, uint64_t seq);
/* While the next commits are made somebody holds, in memory alone, what happened since then (UTC;
 * 0: nobody does). After a kill stats.newest_ns is no later. */
void spool_disk_memory(struct spool_disk *d, int64_t since_ns);

/* Adds the batch with the next number to the commit under way.
 * Errors: ERR_NOMEM, ERR_INVALID (larger than SPOOL_BATCH_MAX) */
NODISCARD enum err spool_disk_add(struct spool_disk *d, int64_t when_ns, const void *p, size_t n);
size_t spool_disk_waiting(const struct spool_disk *d); /* bytes of the commit under way */
/* Errors: of the disk; the commit is gone then, and the next number that of its first batch */
NODISCARD enum err spool_disk_commit(struct spool_disk *d);
/* Whether the disk would take so many bytes now. */
NODISCARD enum err spool_disk_probe(struct spool_disk *d, uint64_t bytes);

/* The next one to be sent that is not in flight; in flight until it is done or back.
 * Errors: ERR_END (none but those in flight), ERR_FULL (SPOOL_INFLIGHT_MAX are in flight),
 * ERR_NOMEM */
NODISCARD enum err spool_disk_next(struct spool_disk *d, struct buf *content,
                                   struct spool_taken *out);
void spool_disk_ack(struct spool_disk *d, const struct spool_taken *t);
/* It will be given again. When its file has gone meanwhile it is lost: counted as dropped. */
void spool_disk_return(struct spool_disk *d, const struct spool_taken *t);
/* All of the stream up to this number are done, none of which is in flight; gives how many. */
size_t spool_disk_ack_upto(struct spool_disk *d, uint64_t stream, uint64_t last_seq);

/* Before an orderly end: when everything is done, only stream and number stay on disk, so that
 * nothing is sent again. */
void spool_disk_tidy(struct spool_disk *d);

void spool_disk_expire(struct spool_disk *d, int64_t now_ns); /* UTC */
void spool_disk_stats(const struct spool_disk *d, struct spool_disk_stats *out);

#endif
