/* Rules at work: a thread of its own takes what the store has made durable, judges it, writes the
 * changes of state into lab.db and hands the notices to the feed.
 *
 *   store's writer -> rules_live_stored -> [queue] -> judge -> lab.db -> feed: topic rule/<host>
 *
 * A start judges what the store has since the last time: notices that were written are found by
 * their ids and stay, those that a kill prevented come now, and what the journal lacks of the
 * written ones is given to it again. So each transition is there once, whoever is killed when. A
 * file that changed is read within FILE_NS and judged from then on; a faulty one is logged, and the
 * rules stay as they were, also over a start.
 *
 * Bounds:  RULES_LIVE_QUEUE bytes of batches wait; beyond that they are left out of the queue,
 *          counted, and read from the store later: receiving never waits. RULES_LIVE_UNSENT notices
 *          are on their way into the journal; more wait in lab.db.
 * Threads: rules_live_stored from the store's writer; all else from any. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_LIVE_H
#define PROCFLEET_COLLECTOR_RULES_RULES_LIVE_H

#include "collector/rules/rules_db.h"
#include "collector/rules/rules_judge.h"
#include "collector/store/store.h"
#include "collector/subscribe/feed.h"

#define RULES_LIVE_QUEUE  ((size_t)64 << 20)
#define RULES_LIVE_UNSENT 1024u

struct rules_live;

struct rules_live_conf {
    struct store *store; /* borrowed, as all below, until rules_live_stop */
    struct lab_db *db;
    struct feed *feed; /* NULL: notices are only in lab.db */
    const char *file;  /* rules.yaml; "": there are no rules */
    const struct facts *(*facts)(void *ctx, const struct uuid *host, const char *name,
                                 struct arena *a);
    struct str (*host_class)(void *ctx, const struct facts *f, const char *const *keys,
                             struct arena *a);
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    void *ctx;
    size_t queue_max; /* bytes; 0: RULES_LIVE_QUEUE */
};

/* Errors: ERR_NOMEM, those of threads. A faulty file is none: it is logged. */
NODISCARD enum err rules_live_start(struct rules_live **out, const struct rules_live_conf *conf);
void rules_live_stop(struct rules_live *l); /* before feed and store stop; NULL is allowed */

/* Holds the batch and returns. */
void rules_live_stored(struct rules_live *l, const struct store_stored *s);

/* Calls f with the engine and its rules while both stay; waits for the thread's moment. False:
 * there are no rules: *why says. *whole: they have been judged up to now; else they are being read,
 * or filled from the store. */
bool rules_live_with(struct rules_live *l,
                     void (*f)(void *ctx, struct rules_judge *j, const struct rules_conf *c),
                     void *ctx, bool *whole, struct errmsg *why);

/* The text of the rules in use, to be released by mem_free; NULL: there are none. */
char *rules_live_text(struct rules_live *l, size_t *n);

/* What is wrong with the file, "" if nothing. */
void rules_live_fault(struct rules_live *l, char *out, size_t size);

/* How long its thread has not come round. */
int64_t rules_live_stuck_ns(const struct rules_live *l, int64_t now_ns);

#define RULES_STATS(X)                                                                          \
    X(GAUGE, rules, "procfleet_rules", "Rules that are judged.")                                \
    X(GAUGE, hosts, "procfleet_rules_hosts", "Hosts that are judged.")                          \
    X(GAUGE, subjects, "procfleet_rules_subjects", "Subjects of rules: 100,000 at most.")       \
    X(GAUGE, bytes, "procfleet_rules_bytes", "Memory of their windows: 64 MiB at most.")        \
    X(GAUGE, firing, "procfleet_rules_firing", "Subjects whose rule fires.")                    \
    X(GAUGE, unknown, "procfleet_rules_unknown",                                                \
      "Subjects of which it is not known whether their rule holds.")                            \
    X(GAUGE, faulty, "procfleet_rules_file_faulty",                                             \
      "1: the file of rules cannot be used; the rules are those of before.")                    \
    X(COUNTER, steps, "procfleet_rules_steps_total", "Steps of hosts that were judged.")        \
    X(COUNTER, late_ticks, "procfleet_rules_late_ticks_total",                                  \
      "Ticks and events that came after their step had been judged, and were left out.")        \
    X(COUNTER, refused, "procfleet_rules_refused_total", "Subjects left out for want of room.") \
    X(COUNTER, notices, "procfleet_rules_notices_total", "Notices that were written.")          \
    X(COUNTER, held, "procfleet_rules_held_total", "Notices that at_most held back.")           \
    X(COUNTER, left_out, "procfleet_rules_left_out_total",                                      \
      "Batches that found the queue full, and were read from the store.")                       \
    X(GAUGE, behind, "procfleet_rules_behind",                                                  \
      "1: such batches have not been read back yet; what rules say is of before.")              \
    X(COUNTER, failed, "procfleet_rules_failed_total",                                          \
      "Batches that could not be judged, and writes that failed.")

struct rules_stats {
    RULES_STATS(STATS_MEMBER)
};
void rules_live_stats(struct rules_live *l, struct rules_stats *out);

#endif
