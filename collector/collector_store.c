/* The collector's store: opened with what the configuration says, its stored batches handed to the
 * feed, its troubles and the progress of its recovery told. */
#include "collector/collector_impl.h"

#include <inttypes.h>

#include "collector/store/wal/wal.h"
#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/os_notify.h"

#define PROGRESS_NS (2 * CLK_S)
#define EXTEND_NS   (60 * CLK_S) /* the service manager gives so much more at each progress */

static void on_stored(void *ctx, const struct store_stored *stored)
{
    collector_feed_stored(&((struct collector *)ctx)->feed, stored);
}

static bool before_forget(void *ctx)
{
    return collector_feed_keep(&((struct collector *)ctx)->feed);
}

static void on_failed(void *ctx, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    log_line(LOG_ERROR, "store", "failed", "reason=%s remedy=%s",
             log_str(quoted, sizeof quoted, why->text),
             "\"repair the disk of data_dir, then restart the collector\"");
}

static void on_no_space(void *ctx, const struct errmsg *why)
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

const char *collector_store_remedy(enum err e)
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

static void on_trouble(void *ctx, enum err e, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    if (e) {
        log_line(LOG_WARN, "store", "sealing_failed",
                 "reason=%s remedy=\"it is tried again; when memory is full, agents wait: %s\"",
                 log_str(quoted, sizeof quoted, why->text), collector_store_remedy(e));
    } else {
        log_line(LOG_INFO, "store", "sealing_works", "after=failure");
    }
}

static void on_refusing(void *ctx, bool refusing, uint64_t disk_free)
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

static void on_unread(void *ctx, const struct store_unread_what *what)
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

static void on_damaged_log(void *ctx, const struct wal_damage *d)
{
    (void)ctx;
    if (d->aside) {
        log_line(LOG_WARN, "store", "log_aside", "file=%s remedy=%s", d->name,
                 "\"nothing in it can be read; it is kept: look for errors of the disk, remove it "
                 "when nobody wants to look into it any more\"");
    } else {
        log_line(LOG_WARN, "store", "log_damaged", "file=%s places=%" PRIu64 " remedy=%s", d->name,
                 d->spans,
                 "\"what is sound in it is kept, 'procfleet coverage' tells of lost batches: look "
                 "for errors of the disk\"");
    }
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct collector *c = ctx;
    int64_t now = os_mono_ns();
    int percent = total ? (int)((double)done * 100 / (double)total) : 100;
    bool due = now - c->progress_ns >= PROGRESS_NS;

    if (due || percent != c->percent) {
        c->percent = percent;
        os_notify("STATUS=reading the log, %d %%\nEXTEND_TIMEOUT_USEC=%lld", percent,
                  (long long)(EXTEND_NS / CLK_US));
    }
    if (due) {
        c->progress_ns = now;
        log_line(LOG_INFO, "store", "recovering", "bytes=%" PRIu64 " of=%" PRIu64 " percent=%d",
                 done, total, percent);
    }
}

static void recovery_log(struct collector *c)
{
    struct store_stats s;

    store_stats(c->store, &s);
    log_line(s.bad_records ? LOG_WARN : LOG_INFO, "store", "open",
             "hosts=%" PRIu64 " batches=%" PRIu64 " bytes=%" PRIu64 " torn_bytes=%" PRIu64
             " bad_records=%" PRIu64 " lost_batches=%" PRIu64,
             s.hosts, s.recovered_batches, s.recovered_bytes, s.torn_bytes, s.bad_records,
             s.lost_batches);
}

enum err collector_store_open(struct collector *c, struct errmsg *why)
{
    const struct store_conf conf = {
        .dir = c->conf->data_dir,
        .fio = c->conf->fio,
        .head_bytes_max = c->conf->head_bytes_max,
        .accept_age_ns = c->conf->accept_age_ns,
        .retain = c->conf->retain,
        .beside_bytes = collector_feed_bytes(c->conf),
        .hosts_max = c->conf->hosts_max,
        .instances_max = c->conf->processes_max * 4,
        .info_host_max = c->conf->process_bytes_host,
        .info_max = c->conf->process_bytes,
        .commit_gather_ns = 20 * CLK_MS,
        .commit_bytes = 1u << 20,
        .on_stored = on_stored,
        .before_forget = c->conf->feed_bytes ? before_forget : NULL,
        .on_failed = on_failed,
        .on_no_space = on_no_space,
        .on_trouble = on_trouble,
        .on_refusing = on_refusing,
        .on_unread = on_unread,
        .on_damaged_log = on_damaged_log,
        .ctx = c,
        .on_progress = on_progress,
    };
    enum err e = store_open(&c->store, &conf, why);

    if (!e) {
        recovery_log(c);
    }
    return e;
}
