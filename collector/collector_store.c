/* The store and the feed, opened with what the configuration says, and what the log says of their
 * troubles. */
#include "collector/collector_store.h"

#include <inttypes.h>

#include "collector/store/store.h"
#include "collector/store/wal/wal.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/os_notify.h"

#define PROGRESS_NS (2 * CLK_S)
#define EXTEND_NS   (60 * CLK_S) /* the service manager gives so much more at each progress */
#define QUEUE_BYTES ((size_t)64 << 20)
#define CEILING     8u /* the journal's part of it, and that of runs, at most */
#define RUNS_LEAST  ((uint64_t)4 << 20)

/* What repairs what keeps data_dir from being written; words for a log line. */
static const char *store_remedy(enum err e)
{
    switch (e) {
    case ERR_NOSPACE:
        return "make room on the disk of data_dir";
    case ERR_READONLY:
        return "mount the disk of data_dir writable; the system's log says why it is not";
    case ERR_ACCESS:
        return "let the collector's user write to data_dir and to what is in it";
    case ERR_NOMEM:
        return "give the machine more memory, or set a lower head.max_bytes";
    default:
        return "look for errors of the disk of data_dir, then run 'procfleet-collector store "
               "check'";
    }
}

/* -- the feed -- */

/* At most an eighth of the ceiling. */
static uint64_t ceiling_part(const struct collector_conf *conf, uint64_t wanted, uint64_t least)
{
    struct retain_conf retain = conf->retain;
    uint64_t disk_free, disk_total = 0, part;

    if (os_disk_free(conf->data_dir, &disk_free, &disk_total) != ERR_OK) {
        disk_total = 0;
    }
    retain_defaults(&retain, disk_total);
    part = retain.total_bytes / CEILING;
    part = part < least ? least : part;
    return wanted < part ? wanted : part;
}

uint64_t collector_store_feed_bytes(const struct collector_conf *conf)
{
    return conf->feed_bytes ? ceiling_part(conf, conf->feed_bytes, JOURNAL_LEAST) : 0;
}

uint64_t collector_store_runs_bytes(const struct collector_conf *conf)
{
    return ceiling_part(conf, conf->runs_bytes, RUNS_LEAST);
}

static enum err feed_journal_open(struct collector_feed *f, const struct collector_conf *conf,
                                  struct errmsg *why)
{
    struct journal_conf journal = {.fio = conf->fio,
                                   .max_bytes = collector_store_feed_bytes(conf),
                                   .max_age_ns = conf->feed_age_ns,
                                   .hosts_max = conf->hosts_max};
    struct subscriptions_conf subscriptions = {.fio = conf->fio, .idle_ns = conf->feed_idle_ns};
    char *dir = os_path_join(conf->data_dir, "feed");
    struct journal_stats stats;
    enum err e = ERR_NOMEM;

    if (dir) {
        journal.dir = subscriptions.dir = dir;
        e = journal_open(&f->journal, &journal, why);
    }
    if (!e) {
        subscriptions.journal = f->journal;
        e = subscriptions_open(&f->subscriptions, &subscriptions, why);
    }
    mem_free(dir);
    if (!e) {
        e = feed_serve_create(&f->serve, f->journal, f->subscriptions);
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

static void feed_send(void *ctx, const struct str *list, size_t n)
{
    struct collector_feed *f = ctx;

    f->send(f->ctx, list, n);
}

static unsigned feed_listeners(void *ctx)
{
    struct collector_feed *f = ctx;

    return f->listeners(f->ctx);
}

static bool feed_samples_wanted(void *ctx)
{
    return subscriptions_wants_samples(((struct collector_feed *)ctx)->subscriptions);
}

static void feed_on_lost(void *ctx, const struct journal_record *r)
{
    subscriptions_lost(((struct collector_feed *)ctx)->subscriptions, r);
}

static void feed_on_updates(void *ctx)
{
    feed_serve_wake(((struct collector_feed *)ctx)->serve);
}

static void feed_on_trouble(void *ctx, enum err e)
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
                 err_text(e), store_remedy(e));
    } else {
        log_line(LOG_INFO, "feed", "journal_works", "after=failure");
    }
}

enum err collector_store_feed_open(struct collector_feed *f, const struct collector_feed_conf *conf,
                                   struct errmsg *why)
{
    struct feed_conf feed = {.queue_bytes = QUEUE_BYTES,
                             .hosts_max = conf->conf->hosts_max,
                             .send = feed_send,
                             .listeners = feed_listeners,
                             .ctx = f};
    enum err e = conf->conf->feed_bytes ? feed_journal_open(f, conf->conf, why) : ERR_OK;

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
        feed.samples_wanted = feed_samples_wanted;
        feed.on_updates = feed_on_updates;
        feed.on_lost = feed_on_lost;
        feed.on_trouble = feed_on_trouble;
    }
    e = feed_create(&f->feed, &feed);
    if (e) {
        return errmsg_set(why, e, "cannot start the feed: %s", err_text(e));
    }
    atomic_store(&f->ready, true);
    return ERR_OK;
}

enum err collector_store_feed_start(struct collector_feed *f, struct store *store,
                                    struct errmsg *why)
{
    enum err e = feed_start(f->feed, store);

    return e ? errmsg_set(why, e, "cannot start the feed: %s", err_text(e)) : ERR_OK;
}

void collector_store_feed_stop_polls(struct collector_feed *f)
{
    if (f->serve) {
        feed_serve_stop(f->serve);
    }
}

void collector_store_feed_stop(struct collector_feed *f)
{
    if (f->feed) {
        feed_stop(f->feed);
    }
}

void collector_store_feed_close(struct collector_feed *f)
{
    feed_destroy(f->feed);
    feed_serve_destroy(f->serve);
    subscriptions_close(f->subscriptions);
    journal_close(f->journal);
    f->feed = NULL;
    f->serve = NULL;
    f->subscriptions = NULL;
    f->journal = NULL;
}

void collector_store_feed_stored(void *ctx, const struct store_stored *stored)
{
    struct collector_feed *f = ctx;

    if (atomic_load(&f->ready)) {
        feed_stored(f->feed, stored);
    }
}

bool collector_store_feed_keep(void *ctx)
{
    struct collector_feed *f = ctx;

    return atomic_load(&f->ready) && feed_keep(f->feed);
}

/* -- the store -- */

static void store_on_stored(void *ctx, const struct store_stored *stored)
{
    struct collector_store *s = ctx;

    struct lab_service *lab = atomic_load(&s->lab);
    struct rules_live *rules = atomic_load(&s->rules);

    pulse_stored(s->pulse, stored);
    if (lab) {
        lab_service_stored(lab, stored->batch, stored->received_ns);
    }
    if (s->sink) {
        ch_sink_stored(s->sink, stored);
    }
    if (rules) {
        rules_live_stored(rules, stored);
    }
    collector_store_feed_stored(&s->feed, stored);
}

static bool store_before_forget(void *ctx)
{
    struct collector_store *s = ctx;
    bool sent = !s->sink || ch_sink_keep(s->sink);

    return (!s->conf->feed_bytes || collector_store_feed_keep(&s->feed)) && sent;
}

static void store_on_failed(void *ctx, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    log_line(LOG_ERROR, "store", "failed", "reason=%s remedy=%s",
             log_str(quoted, sizeof quoted, why->text),
             "\"repair the disk of data_dir, then restart the collector\"");
}

static void store_on_no_space(void *ctx, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    if (why) {
        log_line(LOG_ERROR, "store", "no_space", "reason=%s remedy=%s",
                 log_str(quoted, sizeof quoted, why->text),
                 "\"batches are refused, agents keep them and wait: make room on the disk of "
                 "data_dir, or raise the quota; it is tried again all the time\"");
    } else {
        log_line(LOG_INFO, "store", "space_again", "after=no_space");
    }
}

static void store_on_trouble(void *ctx, enum err e, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    if (e) {
        log_line(LOG_WARN, "store", "sealing_failed",
                 "reason=%s remedy=\"it is tried again; when memory is full, agents wait: %s\"",
                 log_str(quoted, sizeof quoted, why->text), store_remedy(e));
    } else {
        log_line(LOG_INFO, "store", "sealing_works", "after=failure");
    }
}

static void store_on_refusing(void *ctx, bool refusing, uint64_t disk_free)
{
    (void)ctx;
    if (refusing) {
        log_line(LOG_WARN, "store", "disk_full", "free=%" PRIu64 " remedy=%s", disk_free,
                 "\"batches are refused, agents keep them and wait: make room on the disk of "
                 "data_dir\"");
    } else {
        log_line(LOG_INFO, "store", "disk_works", "free=%" PRIu64, disk_free);
    }
}

static void store_on_unread(void *ctx, const struct store_unread_what *what)
{
    static const char *const names[STORE_UNREAD_KINDS] = {
        [STORE_UNREAD_LOG] = "log",
        [STORE_UNREAD_SEGMENT] = "segment",
        [STORE_UNREAD_CATALOGUE] = "catalogue",
    };
    char first[CLK_TEXT], last[CLK_TEXT], host[160];

    (void)ctx;
    log_line(LOG_WARN, "store", "unread", "what=%s host=%s first=%s last=%s reason=%s remedy=%s",
             names[what->kind], log_str(host, sizeof host, what->host),
             what->first_ns ? clk_format_utc(first, CLK_TEXT, what->first_ns, 0) : "-",
             what->last_ns ? clk_format_utc(last, CLK_TEXT, what->last_ns, 0) : "-",
             err_name(what->error),
             "\"answers leave it out and say so: look for errors of the disk, then run "
             "'procfleet-collector store check'\"");
}

static void store_on_damaged_log(void *ctx, const struct wal_damage *d)
{
    (void)ctx;
    if (d->aside) {
        log_line(LOG_WARN, "store", "log_aside", "file=%s remedy=%s", d->name,
                 "\"nothing in it can be read; it is kept: look for errors of the disk, remove it "
                 "when it is not needed any more\"");
    } else {
        log_line(LOG_WARN, "store", "log_damaged", "file=%s places=%" PRIu64 " remedy=%s", d->name,
                 d->spans,
                 "\"what is sound in it is kept, 'procfleet coverage' tells of lost batches: look "
                 "for errors of the disk\"");
    }
}

static void store_on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct collector_store *s = ctx;
    int64_t now = os_mono_ns();
    int percent = total ? (int)((double)done * 100 / (double)total) : 100;
    bool due = now - s->progress_ns >= PROGRESS_NS;

    if (due || percent != s->percent) {
        s->percent = percent;
        os_notify("STATUS=reading the log, %d %%\nEXTEND_TIMEOUT_USEC=%lld", percent,
                  (long long)(EXTEND_NS / CLK_US));
    }
    if (due) {
        s->progress_ns = now;
        log_line(LOG_INFO, "store", "recovering", "bytes=%" PRIu64 " of=%" PRIu64 " percent=%d",
                 done, total, percent);
    }
}

static void recovery_log(const struct collector_store *s)
{
    struct store_stats stats;

    store_stats(s->store, &stats);
    log_line(stats.bad_records ? LOG_WARN : LOG_INFO, "store", "open",
             "hosts=%" PRIu64 " batches=%" PRIu64 " bytes=%" PRIu64 " torn_bytes=%" PRIu64
             " bad_records=%" PRIu64 " lost_batches=%" PRIu64,
             stats.hosts, stats.recovered_batches, stats.recovered_bytes, stats.torn_bytes,
             stats.bad_records, stats.lost_batches);
}

enum err collector_store_open(struct collector_store *s, struct errmsg *why)
{
    const struct store_conf conf = {
        .dir = s->conf->data_dir,
        .fio = s->conf->fio,
        .head_bytes_max = s->conf->head_bytes_max,
        .accept_age_ns = s->conf->accept_age_ns,
        .retain = s->conf->retain,
        .beside_bytes = collector_store_feed_bytes(s->conf) + collector_store_runs_bytes(s->conf),
        .hosts_max = s->conf->hosts_max,
        .instances_max = s->conf->processes_max * 4,
        .info_host_max = s->conf->process_bytes_host,
        .info_max = s->conf->process_bytes,
        .commit_gather_ns = 20 * CLK_MS,
        .commit_bytes = 1u << 20,
        .on_stored = store_on_stored,
        .before_forget = s->conf->feed_bytes || s->sink ? store_before_forget : NULL,
        .on_failed = store_on_failed,
        .on_no_space = store_on_no_space,
        .on_trouble = store_on_trouble,
        .on_refusing = store_on_refusing,
        .on_unread = store_on_unread,
        .on_damaged_log = store_on_damaged_log,
        .ctx = s,
        .on_progress = store_on_progress,
    };
    enum err e = pulse_create(&s->pulse, s->conf->hosts_max);

    s->progress_ns = os_mono_ns();
    e = e ? e : store_open(&s->store, &conf, why);

    if (!e) {
        recovery_log(s);
        e = pulse_refill(s->pulse, s->store, os_utc_ns());
    }
    return e;
}
