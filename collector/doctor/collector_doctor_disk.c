#include "collector/doctor/collector_doctor_disk.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/manifest/manifest.h"
#include "collector/store/retention/retain.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define DAY_NS    (86400 * CLK_S)
#define ROOM_WARN (1ULL << 30)

struct disk_check {
    struct findings *all;
    const struct collector_conf *c;
    int64_t now_ns, connect_ns;
    bool running;
};

/* Its files may be private, and yet others could take them away or put theirs in their place. */
void collector_doctor_disk_folder(struct findings *to, const char *check, const char *dir)
{
    enum err e = os_check_private(dir);

    if (e == ERR_ACCESS) {
        char fix[400];

        (void)snprintf(fix, sizeof fix, "chmod 700 %s", dir);
        check_result_report(to, check, CHECK_RESULT_WARNING, fix,
                            "others can enter %s, and perhaps change what is there", dir);
    } else if (!e) {
        check_result_report(to, check, CHECK_RESULT_OK, "", "others cannot enter %s", dir);
    }
}

/* -- the directory -- */

static bool check_writing(struct disk_check *d)
{
    static const char probe[256u << 10] = {1}; /* one byte finds room where no commit does */
    const char *dir = d->c->data_dir;
    char *path = os_path_join(dir, "doctor.probe");
    enum err e = ERR_NOTFOUND;

    if (path && os_exists(dir)) {
        e = os_write_file(path, probe, sizeof probe, true);
        e = e ? e : os_remove(path);
    }
    mem_free(path);
    if (e == ERR_NOTFOUND) {
        check_result_report(
            d->all, "data.write", CHECK_RESULT_WARNING,
            "make it, owned by the collector's user; a collector that may do so makes it at "
            "its first start",
            "data_dir %s does not exist", dir);
    } else if (e) {
        check_result_report(
            d->all, "data.write", CHECK_RESULT_FAILED,
            e == ERR_NOSPACE    ? "make room on that disk, or set data_dir to a larger one"
            : e == ERR_READONLY ? "mount that disk writable (the system's log says why it is "
                                  "not), or set data_dir to another one"
                                : "run doctor as the collector's user, give that user the "
                                  "directory, or set data_dir to another one",
            "%s cannot be written: %s", dir, err_text(e));
    } else {
        check_result_report(d->all, "data.write", CHECK_RESULT_OK, "", "%s can be written", dir);
    }
    return e != ERR_NOTFOUND;
}

/* -- the collector that runs -- */

/* Its log may find no room where a small file does, by a quota of its user's, say. */
static void check_accepting(struct disk_check *d)
{
    const char *address = conf_text(d->c->source, "listen.http");
    struct errmsg why = {""};
    char text[256];
    unsigned status;
    enum err e;

    if (!d->running || !address[0]) {
        check_result_report(d->all, "store.writes", CHECK_RESULT_SKIPPED, "",
                            d->running ? "listen.http is off: the collector cannot be asked"
                                       : "no collector runs");
        return;
    }
    e = net_probe_get(&status, text, sizeof text, address, "/readyz", d->connect_ns, &why);
    if (e) {
        check_result_report(d->all, "store.writes", CHECK_RESULT_WARNING,
                            "if it reads its log still, wait; else look at its log", "%s",
                            why.text);
    } else if (status == 200) {
        check_result_report(d->all, "store.writes", CHECK_RESULT_OK, "",
                            "the collector takes batches");
    } else {
        check_result_report(
            d->all, "store.writes", CHECK_RESULT_FAILED,
            "make room on the disk of data_dir, or raise the quota of the collector's "
            "user: it goes on by itself; after 'store failed' in its log it must be "
            "restarted",
            "the collector takes no batches: %s", text);
    }
}

/* -- what is kept -- */

struct kept {
    struct manifest *m;
    struct manifest_list *l;
    struct manifest_stats stats;
    struct retain_conf conf;
    struct retain_now now;
    struct retain_plan plan;
};

static const char *name_of(unsigned kind)
{
    return kind == SEG_REST ? "events" : seg_kind_name(kind);
}

static void kept_close(struct kept *k)
{
    mem_free(k->plan.drop);
    manifest_list_release(k->l);
    manifest_close(k->m);
}

static enum err kept_open(struct kept *k, struct disk_check *d, const char *dir, struct errmsg *why)
{
    struct manifest_conf conf = {.dir = dir, .fio = fio_os()};
    enum err e = manifest_open_reader(&k->m, &conf, why);

    if (e) {
        return e;
    }
    k->l = manifest_view(k->m);
    if (!k->l) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    manifest_stats(k->m, &k->stats);
    k->now.now_ns = d->now_ns;
    k->now.other_bytes = k->stats.file_bytes;
    err_ignore(os_disk_free(d->c->data_dir, &k->now.disk_free, &k->now.disk_total));
    k->conf = d->c->retain;
    retain_defaults(&k->conf, k->now.disk_total);
    return retain_plan(&k->plan, &k->conf, k->l, &k->now);
}

static void check_room(struct disk_check *d, const struct kept *k)
{
    const struct retain_now *now = &k->now;
    enum check_result_state state = CHECK_RESULT_OK;
    uint64_t used = 0;

    for (unsigned kind = SEG_RAW; kind < SEG_KINDS; kind++) {
        used += k->stats.bytes[kind];
    }
    if (now->disk_total == 0) {
        check_result_report(d->all, "data.room", CHECK_RESULT_SKIPPED, "",
                            "the room on the disk is unknown");
        return;
    }
    if (now->disk_free < k->conf.disk_free_stop) {
        state = CHECK_RESULT_FAILED;
    } else if (now->disk_free < k->conf.disk_free_min || now->disk_free < ROOM_WARN ||
               k->conf.total_bytes > used + now->disk_free) {
        state = CHECK_RESULT_WARNING;
    }
    check_result_report(
        d->all, "data.room", state,
        state == CHECK_RESULT_OK ? ""
                                 : "make room on the disk of data_dir, or set a lower "
                                   "retention.total_bytes: below 5 % free samples are dropped "
                                   "early, below 2 % batches are refused",
        "%llu of %llu MiB are free; up to %llu MiB may be kept (retention.total_bytes), "
        "%llu are in segments now",
        (unsigned long long)(now->disk_free >> 20), (unsigned long long)(now->disk_total >> 20),
        (unsigned long long)(k->conf.total_bytes >> 20), (unsigned long long)(used >> 20));
}

/* Bytes a day, the mean over what is held of the kind; 0: too little to tell. */
static uint64_t daily(const struct kept *k, unsigned kind)
{
    int64_t span_ns = clk_sub(k->now.now_ns, k->stats.oldest_ns[kind]);

    if (k->stats.files[kind] == 0 || span_ns < DAY_NS / 24) {
        return 0;
    }
    return (uint64_t)((double)k->stats.bytes[kind] / (double)span_ns * (double)DAY_NS);
}

/* Whether the bytes of a kind will bite before its age does. */
static void check_kind(struct disk_check *d, const struct kept *k, unsigned kind)
{
    uint64_t day = daily(k, kind), share = k->conf.share[kind];
    double days = day ? (double)share / (double)day : 0;
    double wanted = (double)k->conf.age_ns[kind] / (double)DAY_NS;
    char check[32];

    if (day == 0) {
        return;
    }
    (void)snprintf(check, sizeof check, "retention.%s", name_of(kind));
    if (wanted > 0 && days < wanted) {
        check_result_report(
            d->all, check, CHECK_RESULT_WARNING,
            "raise its retention.*.bytes or retention.total_bytes, or lower its age",
            "%llu MiB a day: its share of %llu MiB lasts for %.1f days, not for the %.1f "
            "of its age",
            (unsigned long long)(day >> 20), (unsigned long long)(share >> 20), days, wanted);
    } else {
        check_result_report(d->all, check, CHECK_RESULT_OK, "",
                            "%llu MiB a day: its share of %llu MiB lasts for %.0f days",
                            (unsigned long long)(day >> 20), (unsigned long long)(share >> 20),
                            days);
    }
}

static void check_next(struct disk_check *d, const struct kept *k)
{
    const struct retain_plan *p = &k->plan;
    char when[CLK_TEXT];
    struct buf in;

    if (p->stop) {
        check_result_report(d->all, "retention.next", CHECK_RESULT_FAILED,
                            "make room on the disk of data_dir",
                            "batches are refused until there is room");
    } else if (p->n > 0) {
        check_result_report(d->all, "retention.next", CHECK_RESULT_OK, "",
                            "%zu %s, %llu MiB, %s with the collector's next round", p->n,
                            plural(p->n, "file", "files"), (unsigned long long)(p->bytes >> 20),
                            plural(p->n, "goes", "go"));
    } else if (p->next_kind) {
        buf_init(&in, 64);
        humanize_ns(&in, p->next_in_ns);
        check_result_report(d->all, "retention.next", CHECK_RESULT_OK, "",
                            "next to go: %s of %s, in about %s", name_of(p->next_kind),
                            clk_format_utc(when, sizeof when, p->next_window_ns, 0), buf_cstr(&in));
        buf_fini(&in);
    } else {
        check_result_report(d->all, "retention.next", CHECK_RESULT_OK, "",
                            "nothing will go as far as can be seen");
    }
}

static void check_damage(struct disk_check *d, const struct kept *k)
{
    const struct manifest_stats *s = &k->stats;
    uint64_t bad = s->missing + s->unreadable + s->damaged_records;

    check_result_report(
        d->all, "store.segments", bad ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        bad ? "'procfleet-collector store check' tells more; with --repair, and the "
              "collector stopped, it saves what is sound"
            : "",
        "%llu %s missing, %llu cannot be read, %llu %s "
        "damaged ('store check' verifies every byte)",
        (unsigned long long)s->missing, plural(s->missing, "segment is", "segments are"),
        (unsigned long long)s->unreadable, (unsigned long long)s->damaged_records,
        plural(s->damaged_records, "record of the list is", "records of the list are"));
}

static void check_store(struct disk_check *d, const char *dir)
{
    struct kept k = {.m = NULL};
    struct errmsg why = {""};
    enum err e = kept_open(&k, d, dir, &why);

    if (e) {
        check_result_report(d->all, "store.segments", CHECK_RESULT_FAILED,
                            e == ERR_CORRUPT
                                ? "stop the collector and run 'procfleet-collector store check "
                                  "--repair'"
                                : "run doctor as the collector's user or as root",
                            "%s", why.text[0] ? why.text : err_text(e));
    } else {
        check_room(d, &k);
        check_damage(d, &k);
        for (unsigned kind = SEG_RAW; kind < SEG_KINDS; kind++) {
            check_kind(d, &k, kind);
        }
        check_next(d, &k);
    }
    kept_close(&k);
}

/* -- the log -- */

static enum err count_aside(void *ctx, const char *name)
{
    size_t n = strlen(name);

    *(uint64_t *)ctx += n > 4 && strncmp(name, "wal-", 4) == 0 && strcmp(name + n - 4, ".bad") == 0;
    return ERR_OK;
}

static void check_log(struct disk_check *d)
{
    char *dir = os_path_join(d->c->data_dir, "wal");
    uint64_t aside = 0;

    if (dir && os_exists(dir) && os_list_dir(dir, count_aside, &aside) == ERR_OK) {
        check_result_report(
            d->all, "store.log", aside ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
            aside ? "look for errors of the disk, then remove wal/*.bad in data_dir; "
                    "'procfleet coverage' tells what is missing"
                  : "",
            "%llu %s of the log could not be read and %s set aside", (unsigned long long)aside,
            plural(aside, "file", "files"), plural(aside, "was", "were"));
    }
    mem_free(dir);
}

void collector_doctor_disk(struct findings *to, const struct collector_conf *c, int64_t now_ns,
                           int64_t connect_ns, bool running)
{
    struct disk_check check = {to, c, now_ns, connect_ns, running}, *d = &check;
    char *dir = os_path_join(d->c->data_dir, "segments");

    check_accepting(d);
    check_result_owner(d->all, "data.owner", d->c->data_dir);
    collector_doctor_disk_folder(d->all, "data.folder", d->c->data_dir);
    if (check_writing(d) && dir && os_exists(dir)) {
        check_store(d, dir);
        check_log(d);
    } else {
        check_result_report(d->all, "store.segments", CHECK_RESULT_SKIPPED, "",
                            "nothing is stored in %s yet", d->c->data_dir);
    }
    mem_free(dir);
}
