/* Figures of the live stream, its journal and the durable subscriptions. */
#include "collector/metrics/metrics.h"

#include "collector/subscribe/feed.h"
#include "collector/subscribe/journal.h"
#include "collector/subscribe/subscriptions.h"
#include "common/base/clk.h"

static void counter(struct figures *out, const char *name, const char *help, uint64_t value)
{
    metrics_add(out, name, help, METRICS_COUNTER, "", (double)value);
}

static void gauge(struct figures *out, const char *name, const char *help, double value)
{
    metrics_add(out, name, help, METRICS_GAUGE, "", value);
}

static void add_feed(struct figures *out, struct feed *feed)
{
    struct feed_stats s;

    feed_stats(feed, &s);
    counter(out, "procfleet_feed_messages_total", "Messages of the live stream.", s.messages);
    counter(out, "procfleet_feed_message_bytes_total", "Bytes of them.", s.bytes);
    counter(out, "procfleet_feed_updates_total", "Events and rows in them.", s.updates);
    counter(out, "procfleet_feed_left_out_total",
            "Batches that no message was made of: too many waited.", s.left_out);
    counter(out, "procfleet_feed_made_up_total",
            "Batches that came into the journal at the start, after a crash.", s.made_up);
    counter(out, "procfleet_feed_oversize_total", "Messages that would have been too large.",
            s.oversize);
    counter(out, "procfleet_feed_failed_total", "Messages that could not be made or journalled.",
            s.failed);
}

static void add_journal(struct figures *out, struct journal *journal)
{
    struct journal_stats s;

    journal_stats(journal, &s);
    gauge(out, "procfleet_journal_records", "Messages that Fetch and Poll can still read.",
          (double)s.records);
    gauge(out, "procfleet_journal_bytes", "Bytes of the journal.", (double)s.bytes);
    gauge(out, "procfleet_journal_files", "Files of the journal.", (double)s.files);
    counter(out, "procfleet_journal_appended_total", "Messages written to the journal.",
            s.appended);
    counter(out, "procfleet_journal_trimmed_total",
            "Messages dropped from it for their age or for want of room.", s.trimmed);
    counter(out, "procfleet_journal_damaged_bytes_total", "Bytes of it that could not be read.",
            s.damaged_bytes);
    counter(out, "procfleet_journal_damaged_messages_total",
            "Messages in these, which subscribers are told as dropped.", s.damaged_records);
    counter(out, "procfleet_journal_torn_bytes_total", "Bytes cut off its end at the start.",
            s.torn_bytes);
    counter(out, "procfleet_journal_failed_writes_total", "Writes to it that failed.",
            s.failed_writes);
    gauge(out, "procfleet_journal_oldest_timestamp_seconds",
          "When its oldest message was stored, UTC since 1970; 0: there is none.",
          (double)s.oldest_ns / (double)CLK_S);
}

static void add_roster(struct figures *out, struct subscriptions *roster)
{
    struct subscriptions_stats s;

    subscriptions_stats(roster, &s);
    gauge(out, "procfleet_subscriptions", "Durable subscriptions.", (double)s.subscriptions);
    counter(out, "procfleet_subscriptions_polls_total", "Polls of them.", s.polls);
    counter(out, "procfleet_subscriptions_delivered_total", "Events and rows given to them.",
            s.delivered);
    counter(out, "procfleet_subscriptions_dropped_total",
            "Messages dropped before their subscriber came for them.", s.dropped);
}

void metrics_feed(struct figures *out, const struct metrics_env *env)
{
    if (env->feed) {
        add_feed(out, env->feed);
    }
    if (env->journal) {
        add_journal(out, env->journal);
    }
    if (env->roster) {
        add_roster(out, env->roster);
    }
}
