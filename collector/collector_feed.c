#include "collector/collector_feed.h"

#include <inttypes.h>

#include "collector/collector_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define QUEUE_BYTES ((size_t)64 << 20)
#define CEILING     8u /* the journal's part of it, at most */

uint64_t collector_feed_bytes(const struct collector_conf *conf)
{
    struct retain_conf retain = conf->retain;
    uint64_t disk_free, disk_total = 0, part;

    if (conf->feed_bytes == 0) {
        return 0;
    }
    if (os_disk_free(conf->data_dir, &disk_free, &disk_total) != ERR_OK) {
        disk_total = 0;
    }
    retain_defaults(&retain, disk_total);
    part = retain.total_bytes / CEILING;
    part = part < JOURNAL_LEAST ? JOURNAL_LEAST : part;
    return conf->feed_bytes < part ? conf->feed_bytes : part;
}

static enum err journal_make(struct collector_feed *f, const struct collector_conf *conf,
                             struct errmsg *why)
{
    struct journal_conf journal = {.fio = conf->fio,
                                   .max_bytes = collector_feed_bytes(conf),
                                   .max_age_ns = conf->feed_age_ns,
                                   .hosts_max = conf->hosts_max};
    struct subscriptions_conf roster = {.fio = conf->fio, .idle_ns = conf->feed_idle_ns};
    char *dir = os_path_join(conf->data_dir, "feed");
    struct journal_stats stats;
    enum err e = ERR_NOMEM;

    if (dir) {
        journal.dir = roster.dir = dir;
        e = journal_open(&f->journal, &journal, why);
    }
    if (!e) {
        roster.journal = f->journal;
        e = subscriptions_open(&f->roster, &roster, why);
    }
    mem_free(dir);
    if (!e) {
        e = feed_serve_create(&f->serve, f->journal, f->roster);
    }
    if (e) {
        return e;
    }
    journal_stats(f->journal, &stats);
    log_line(stats.damaged_bytes ? LOG_WARN : LOG_INFO, "feed", "open",
             "records=%" PRIu64 " bytes=%" PRIu64 " torn_bytes=%" PRIu64 " damaged_bytes=%" PRIu64
             " damaged_messages=%" PRIu64,
             stats.records, stats.bytes, stats.torn_bytes, stats.damaged_bytes,
             stats.damaged_records);
    return ERR_OK;
}

/* -- what the stages hand to each other -- */

static void send(void *ctx, const struct str *list, size_t n)
{
    struct collector_feed *f = ctx;

    f->send(f->ctx, list, n);
}

static unsigned listeners(void *ctx)
{
    struct collector_feed *f = ctx;

    return f->listeners(f->ctx);
}

static bool samples_wanted(void *ctx)
{
    return subscriptions_wants_samples(((struct collector_feed *)ctx)->roster);
}

static void on_lost(void *ctx, const struct journal_record *r)
{
    subscriptions_lost(((struct collector_feed *)ctx)->roster, r);
}

static void on_updates(void *ctx)
{
    feed_serve_wake(((struct collector_feed *)ctx)->serve);
}

static void on_trouble(void *ctx, enum err e)
{
    (void)ctx;
    if (e == ERR_NOSPACE) {
        log_line(LOG_WARN, "feed", "journal_full", "remedy=%s",
                 "\"subscribers wait, what comes is kept in memory for them: make room on the "
                 "disk of data_dir\"");
    } else if (e) {
        log_line(LOG_WARN, "feed", "journal_failed",
                 "reason=\"%s\" remedy=\"what was stored is safe, but subscribers do not get it, "
                 "now or later; it is tried again with what comes: %s\"",
                 err_text(e), collector_store_remedy(e));
    } else {
        log_line(LOG_INFO, "feed", "journal_works", "after=failure");
    }
}

enum err collector_feed_open(struct collector_feed *f, const struct collector_feed_conf *conf,
                             struct errmsg *why)
{
    struct feed_conf feed = {.queue_bytes = QUEUE_BYTES,
                             .hosts_max = conf->conf->hosts_max,
                             .send = send,
                             .listeners = listeners,
                             .ctx = f};
    enum err e = conf->conf->feed_bytes ? journal_make(f, conf->conf, why) : ERR_OK;

    f->send = conf->send;
    f->listeners = conf->listeners;
    f->ctx = conf->ctx;

    if (e) {
        return e;
    }
    f->epoch = f->journal ? journal_epoch(f->journal) : (uint64_t)os_utc_ns();
    feed.journal = f->journal;
    feed.epoch = f->epoch;
    if (f->journal) {
        feed.samples_wanted = samples_wanted;
        feed.on_updates = on_updates;
        feed.on_lost = on_lost;
        feed.on_trouble = on_trouble;
    }
    e = feed_create(&f->feed, &feed);
    if (e) {
        return errmsg_set(why, e, "cannot start the feed: %s", err_text(e));
    }
    atomic_store(&f->ready, true);
    return ERR_OK;
}

enum err collector_feed_start(struct collector_feed *f, struct store *store, struct errmsg *why)
{
    enum err e = feed_start(f->feed, store);

    return e ? errmsg_set(why, e, "cannot start the feed: %s", err_text(e)) : ERR_OK;
}

void collector_feed_stop_polls(struct collector_feed *f)
{
    if (f->serve) {
        feed_serve_stop(f->serve);
    }
}

void collector_feed_stop(struct collector_feed *f)
{
    if (f->feed) {
        feed_stop(f->feed);
    }
}

void collector_feed_close(struct collector_feed *f)
{
    feed_destroy(f->feed);
    feed_serve_destroy(f->serve);
    subscriptions_close(f->roster);
    journal_close(f->journal);
    f->feed = NULL;
    f->serve = NULL;
    f->roster = NULL;
    f->journal = NULL;
}

void collector_feed_stored(void *ctx, const struct store_stored *stored)
{
    struct collector_feed *f = ctx;

    if (atomic_load(&f->ready)) {
        feed_stored(f->feed, stored);
    }
}

bool collector_feed_keep(void *ctx)
{
    struct collector_feed *f = ctx;

    return atomic_load(&f->ready) && feed_keep(f->feed);
}
