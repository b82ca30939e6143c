/* Durable subscriptions: who wants which updates, how far each has come, what it missed. One small
 * file each in data_dir/feed (docs/formats.md), replaced as a whole, so that a kill leaves the old
 * or the new one.
 *
 * A subscription belongs to the name in the certificate that made it; others' are not found. What a
 * Poll gets is bounded by the certificate's scope at that moment. Giving a cursor acknowledges what
 * lies before it. Messages that the journal drops before a subscription came for them are counted,
 * by topic and host; where that is not known any more (after a kill) the count is an upper bound.
 * Bounds:  SUBSCRIPTIONS_MAX subscriptions, SUBSCRIPTIONS_EACH of one owner; one that nobody polled
 * for `idle_ns` is dropped, with a line in the log. Threads: any; one lock, held while a file is
 * written and while subscriptions are listed, not while a poll searches the journal. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_H

#include "collector/subscribe/journal.h"
#include "collector/subscribe/subscriptions_cursor.h"
#include "common/base/arena.h"
#include "common/model/stats.h"
#include "common/wire/wire_feed.h"

#define SUBSCRIPTIONS_MAX  256u
#define SUBSCRIPTIONS_EACH 32u

struct subscriptions;

struct subscriptions_conf {
    const char *dir;
    const struct fio *fio;
    struct journal *journal; /* borrowed */
    int64_t idle_ns;
    int64_t (*now_ns)(void); /* NULL: os_utc_ns */
};

/* Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM, ERR_VERSION; why names the file. A damaged file is put
 * aside with a line in the log. */
NODISCARD enum err subscriptions_open(struct subscriptions **out,
                                      const struct subscriptions_conf *conf, struct errmsg *why);
void subscriptions_close(struct subscriptions *r); /* NULL is allowed */

#define SUBSCRIPTIONS_ITEMS_DEFAULT 1024u /* events and rows of a reply, unless the poll says */
#define SUBSCRIPTIONS_REPLY_BYTES   (3u << 20) /* of a reply, encoded */

/* Who polls, by the certificate; valid during the call. */
struct subscriptions_peer {
    const char *name, *scope;
};

/* Answers a Poll with what there is at this moment; `reply` borrows from `memory`. Nothing and no
 * loss: ERR_END, the reply's cursor is set all the same.
 * seen  all zero at first; of a poll that ended with ERR_END, how far it came: when it is tried
 *       again with that, nothing is acknowledged or read twice
 * Errors: ERR_END, ERR_INVALID (name, cursor: why says), ERR_FULL (subscriptions: why says;
 * memory), ERR_NOTFOUND (it was removed since it was tried first), ERR_BUSY (the journal dropped
 * what it was reading, again and again: why says), ERR_IO, ERR_NOSPACE, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err
subscriptions_poll(struct subscriptions *r, const struct subscriptions_peer *peer,
                   const struct wire_poll *poll, struct subscriptions_cursor *seen,
                   struct wire_poll_reply *reply, struct arena *memory, struct errmsg *why);

/* owner NULL: all. n becomes how many there are. Texts borrow from `memory`. Errors: ERR_NOMEM */
NODISCARD enum err subscriptions_list(struct subscriptions *r, const char *owner,
                                      const struct wire_subscription **out, size_t *n,
                                      struct arena *memory);
/* Errors: ERR_NOTFOUND, ERR_IO */
NODISCARD enum err subscriptions_remove(struct subscriptions *r, const char *owner,
                                        const char *name);

bool subscriptions_wants_samples(void *roster); /* feed_conf.samples_wanted */
void subscriptions_lost(void *roster, const struct journal_record *r); /* feed_conf.on_lost */
void subscriptions_expire(struct subscriptions *r); /* those that are not polled */

#define SUBSCRIPTIONS_STATS(X)                                                   \
    X(GAUGE, subscriptions, "procfleet_subscriptions", "Durable subscriptions.") \
    X(COUNTER, polls, "procfleet_subscriptions_polls_total", "Polls of them.")   \
    X(COUNTER, delivered, "procfleet_subscriptions_delivered_total",             \
      "Events and rows given to them.")                                          \
    X(COUNTER, dropped, "procfleet_subscriptions_dropped_total",                 \
      "Messages dropped before their subscriber came for them.")

struct subscriptions_stats {
    SUBSCRIPTIONS_STATS(STATS_MEMBER)
};
void subscriptions_stats(struct subscriptions *r, struct subscriptions_stats *out);

#endif
