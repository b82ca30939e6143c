/* Durable subscriptions: who wants which updates, how far each has come, what it missed. One small
 * file each in data_dir/feed (docs/formats.md), replaced as a whole, so that a kill leaves the old
 * or the new one.
 *
 * A subscription belongs to the name in the certificate that made it; others' are not found. What a
 * Poll gets is bounded by the certificate's scope at that moment. Giving a cursor acknowledges what
 * lies before it. Messages that the journal drops before a subscription came for them are counted,
 * by topic and host; where that is not known any more (after a kill) the count is an upper bound.
 * Bounds:  ROSTER_MAX subscriptions, ROSTER_EACH of one owner; one that nobody polled for
 *          `idle_ns` is dropped, with a line in the log.
 * Threads: any; one lock, held while a file is written and while subscriptions are listed, not
 * while a poll searches the journal. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_ROSTER_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_ROSTER_H

#include "collector/subscribe/journal.h"
#include "collector/subscribe/roster_cursor.h"
#include "common/base/arena.h"
#include "common/wire/wire_feed.h"

#define ROSTER_MAX  256u
#define ROSTER_EACH 32u

struct roster;

struct roster_conf {
    const char *dir;
    const struct fio *fio;
    struct journal *journal; /* borrowed */
    int64_t idle_ns;
    int64_t (*now_ns)(void); /* NULL: os_utc_ns */
};

/* Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM, ERR_VERSION; why names the file. A damaged file is put
 * aside with a line in the log. */
NODISCARD enum err roster_open(struct roster **out, const struct roster_conf *conf,
                               struct errmsg *why);
void roster_close(struct roster *r); /* NULL is allowed */

#define ROSTER_ITEMS_DEFAULT 1024u      /* events and rows of a reply, unless the poll says */
#define ROSTER_REPLY_BYTES   (3u << 20) /* of a reply, encoded */

/* Who polls, by the certificate; valid during the call. */
struct roster_peer {
    const char *name, *scope;
};

/* Answers a Poll with what there is at this moment; `reply` borrows from `memory`. Nothing and no
 * loss: ERR_END, the reply's cursor is set all the same.
 * seen  all zero at first; of a poll that ended with ERR_END, how far it came: when it is tried
 *       again with that, nothing is acknowledged or read twice
 * Errors: ERR_END, ERR_INVALID (name, cursor: why says), ERR_FULL (subscriptions: why says;
 * memory), ERR_NOTFOUND (it was removed since it was tried first), ERR_BUSY (the journal dropped
 * what it was reading, again and again: why says), ERR_IO, ERR_NOSPACE, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err roster_poll(struct roster *r, const struct roster_peer *peer,
                               const struct wire_poll *poll, struct roster_cursor *seen,
                               struct wire_poll_reply *reply, struct arena *memory,
                               struct errmsg *why);

/* owner NULL: all. n becomes how many there are. Texts borrow from `memory`. Errors: ERR_NOMEM */
NODISCARD enum err roster_list(struct roster *r, const char *owner,
                               const struct wire_subscription **out, size_t *n,
                               struct arena *memory);
/* Errors: ERR_NOTFOUND, ERR_IO */
NODISCARD enum err roster_remove(struct roster *r, const char *owner, const char *name);

bool roster_wants_samples(void *roster);                        /* feed_conf.samples_wanted */
void roster_lost(void *roster, const struct journal_record *r); /* feed_conf.on_lost */
void roster_expire(struct roster *r);                           /* those nobody polls */

struct roster_stats {
    uint64_t subscriptions, polls, delivered, dropped;
};
void roster_stats(struct roster *r, struct roster_stats *out);

#endif
