/* The thread and what it decides; seal_write.c makes the files, retain.h and compact.h decide what
 * goes and what is joined. One step at a time, the most urgent first:
 *
 *   1. retention, before anything is written, so that the ceiling on bytes always holds
 *   2. a window that is due, or the oldest one when the head is three quarters full
 *   3. an hour's tier, a join of small segments
 *
 * The head belongs to the writer: it lists windows, gives batches and takes them back, between two
 * commits (store_writer_do). The manifest is changed by this thread alone. */
#include "collector/store/seal/seal.h"

#include <stdatomic.h>
#include <string.h>

#include "collector/store/dedup.h"
#include "collector/store/hosts.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define GRACE_NS  (30 * CLK_S) /* for what is under way when a window ends */
#define LATE_NS   (60 * CLK_S) /* late data waits for more */
#define HOUR_NS   (3600 * CLK_S)
#define SETTLE_NS (10 * 60 * CLK_S) /* an hour is compacted so long after its end */
#define POLL_NS   (1 * CLK_S)
#define FOLLOW_NS (1 * CLK_S)          /* the catalogue imports for so long at a time */
#define OPEN_NS   (10 * CLK_S)         /* between attempts to open it */
#define PAUSE_NS  (5 * CLK_S)          /* after a failure */
#define SHRINK    64u                  /* after too much for the memory there is, so much less */
#define JOB_BYTES ((uint64_t)64 << 20) /* of windows that are sealed together */
/* Log, segments that are being made of it, and room for more: at most half of the ceiling. */
#define HEAD_SHARE 8u

static int64_t clock_ns(const struct seal *x)
{
    return x->s->conf.now_ns ? x->s->conf.now_ns() : os_utc_ns();
}

/* Asked between the steps of long work. */
static bool is_stopping(void *ctx)
{
    struct seal *x = ctx;

    heartbeat_work(&x->moving, os_mono_ns());
    return atomic_load(&x->stop);
}

int64_t seal_keeps(const struct store_conf *conf)
{
    struct retain_conf r = conf->retain;
    int64_t longest_ns = conf->accept_age_ns;

    retain_defaults(&r, 0);
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        longest_ns = r.age_ns[k] > longest_ns ? r.age_ns[k] : longest_ns;
    }
    return longest_ns;
}

int64_t seal_begins(const struct manifest_list *l)
{
    int64_t oldest_ns = INT64_MAX;

    for (size_t i = 0; i < manifest_segments(l); i++) {
        int64_t at_ns = manifest_segment(l, i)->window_ns;

        oldest_ns = at_ns < oldest_ns ? at_ns : oldest_ns;
    }
    return oldest_ns;
}

/* -- what is due -- */

struct listing {
    struct head_window *list;
    size_t n;
    uint64_t head_bytes;
    enum err result;
};

static void list_windows(struct store *s, void *ctx)
{
    struct listing *l = ctx;
    struct head_stats stats;

    head_stats(s->head, &stats);
    l->head_bytes = stats.bytes;
    l->result = head_windows(s->head, &l->list, &l->n);
}

static bool is_due(const struct seal *x, const struct head_window *w, int64_t now_ns)
{
    int64_t end_ns = w->window_ns + WINDOW_NS, from_ns = end_ns + GRACE_NS;

    if (end_ns <= x->until_ns) {
        return true;
    }
    if (w->received_ns > from_ns) { /* late: others may follow */
        from_ns = w->received_ns + LATE_NS;
    }
    return now_ns >= from_ns;
}

/* What is sealed in one go. */
struct pick {
    int64_t windows_ns[SEG_WINDOWS_MAX];
    uint8_t n;
    uint64_t bytes;
    bool early;
};

static int64_t hour_of(int64_t ns)
{
    return ns - ((ns % HOUR_NS) + HOUR_NS) % HOUR_NS;
}

/* The oldest due window and those due of the same hour, as long as they are small. */
static void pick_windows(const struct seal *x, const struct listing *l, int64_t now_ns,
                         struct pick *p)
{
    bool full = l->head_bytes > x->s->conf.head_bytes_max / 4 * 3;

    *p = (struct pick){.n = 0};
    for (size_t i = 0; i < l->n && p->n < SEG_WINDOWS_MAX; i++) {
        const struct head_window *w = &l->list[i];
        bool due = is_due(x, w, now_ns);

        if (!due && !(full && p->n == 0)) {
            continue;
        }
        if (p->n > 0 && (hour_of(w->window_ns) != hour_of(p->windows_ns[0]) ||
                         p->bytes + w->bytes > JOB_BYTES)) {
            break;
        }
        p->early = !due;
        p->windows_ns[p->n++] = w->window_ns;
        p->bytes += w->bytes;
        if (p->early) {
            break;
        }
    }
}

/* -- one sealing -- */

struct sealing {
    const struct pick *pick;
    uint64_t memory_max; /* of one host and window, decoded */
    struct head_record *hosts;
    size_t n_hosts;
    struct seal_change change;
    enum err result;
};

/* When the log has failed, or waits for room, the head may hold what is not durable. */
static void take(struct store *s, void *ctx)
{
    struct sealing *j = ctx;

    j->result = s->stats.failed     ? ERR_IO
                : s->stats.no_space ? ERR_NOSPACE
                                    : head_take(s->head, &j->change.taken, j->pick->windows_ns,
                                                j->pick->n, j->memory_max);
}

static void record_hosts(struct store *s, void *ctx)
{
    struct sealing *j = ctx;

    j->result = head_records(s->head, j->change.taken, &j->hosts, &j->n_hosts);
}

/* Segments in, batches out, at once. When the log has failed the head may hold what is not durable
 * and stays as it is; the next opening finds what is in both. */
void seal_publish(struct store *s, void *ctx)
{
    struct seal_change *c = ctx;
    struct wal_stats log;

    if (s->stats.failed) {
        c->result = ERR_IO;
        return;
    }
    if (c->taken) {
        head_release(s->head, c->taken);
    }
    c->result = store_writer_prepare(s);
    if (c->result) {
        store_writer_fail(s);
        return;
    }
    os_mutex_lock(s->view_lock);
    head_publish(s->head);
    if (c->listed) {
        manifest_publish(s->manifest);
    }
    os_mutex_unlock(s->view_lock);
    os_mutex_lock(s->lock);
    for (size_t i = 0; i < c->n_lost; i++) { /* they are missing: coverage shows it */
        const struct seal_lost *x = &c->lost[i];

        dedup_remove(s->seen, &x->host, x->stream, (struct seq_range){x->seq, x->seq});
    }
    s->stats.lost_batches += c->n_lost;
    os_mutex_unlock(s->lock);
    if (c->n_lost > 0) {
        store_writer_keep_lost(s);
    }
    wal_trim(s->wal);
    wal_stats(s->wal, &log);
    c->log_newest = log.newest;
    os_mutex_lock(s->lock);
    store_writer_refresh_stats(s);
    os_mutex_unlock(s->lock);
}

static bool is_patch(const struct seal *x, const struct pick *p)
{
    struct manifest_list *l = manifest_view(x->s->manifest);
    bool patch = false;

    for (size_t i = l ? manifest_lower(l, SEG_REST, INT64_MIN) : 0;
         l && i < manifest_segments(l) && !patch; i++) {
        const struct seg_info *info = manifest_segment(l, i);

        for (size_t k = 0; k < p->n && info->kind == SEG_REST; k++) {
            patch = patch || (info->window_ns <= p->windows_ns[k] &&
                              p->windows_ns[k] < info->window_ns + info->span_ns);
        }
    }
    manifest_list_release(l);
    return patch;
}

/* The new segments are written: the manifest takes them over, durably. */
static enum err adopt(struct seal *x, struct sealing *j, const struct seal_made *made,
                      struct errmsg *why)
{
    struct store *s = x->s;
    enum err e;

    store_writer_do(s, record_hosts, j);
    e = j->result;
    if (!e) {
        e = hosts_write(s->conf.fio, s->conf.dir, made->info[0].number, j->hosts, j->n_hosts);
    }
    if (e) {
        return errmsg_set(why, e, "cannot write the hosts in %s: %s", s->conf.dir, err_text(e));
    }
    e = manifest_change(s->manifest, made->info, made->n, NULL, 0, why);
    j->change.listed = e == ERR_OK;
    return e;
}

static void count_sealed(struct seal *x, const struct pick *p, const struct seal_made *made,
                         bool patch)
{
    int64_t end_ns = p->windows_ns[p->n - 1] + WINDOW_NS;

    os_mutex_lock(x->lock);
    x->stats.windows += p->n;
    x->stats.patches += patch ? p->n : 0;
    x->stats.early += p->early;
    x->stats.batches += made->batches;
    x->stats.values += made->values;
    x->stats.bad += made->n_lost;
    x->stats.sealed_ns = end_ns > x->stats.sealed_ns ? end_ns : x->stats.sealed_ns;
    os_mutex_unlock(x->lock);
}

bool seal_follow(struct store *s)
{
    struct manifest_list *l = s->catalogue ? manifest_view(s->manifest) : NULL;
    bool left = false;

    if (l) {
        err_ignore(catalogue_step(s->catalogue, l, os_mono_ns() + FOLLOW_NS, &left));
    }
    manifest_list_release(l);
    return left;
}

static uint64_t made_bytes(const struct seal_made *made)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < made->n; i++) {
        bytes += made->info[i].bytes;
    }
    return bytes;
}

/* Files, manifest, head; then nothing can fail that matters. */
static enum err seal_taken(struct seal *x, struct sealing *j, struct errmsg *why)
{
    struct store *s = x->s;
    struct seal_job job = {.taken = j->change.taken,
                           .windows_ns = j->pick->windows_ns,
                           .n_windows = j->pick->n,
                           .patch = is_patch(x, j->pick)};
    uint64_t catalogue = s->catalogue ? catalogue_bytes(s->catalogue) : 0, after;
    bool behind;
    struct seal_made made;
    enum err e = seal_write(x->writer, &made, &job, why);

    if (e) {
        return e;
    }
    if (s->conf.before_forget && !s->conf.before_forget(s->conf.ctx)) {
        seal_write_discard(x->writer, &made);
        return ERR_CLOSED;
    }
    e = made.n > 0 ? adopt(x, j, &made, why) : ERR_OK;
    if (e) {
        seal_write_discard(x->writer, &made);
        return e;
    }
    j->change.lost = made.lost;
    j->change.n_lost = made.n_lost;
    store_writer_do(s, seal_publish, &j->change);
    e = j->change.result;
    if (e) {
        return errmsg_set(why, e, "cannot show what is sealed: %s", err_text(e));
    }
    seal_write_keep(x->writer);
    seal_retain_mark(x, j->change.log_newest);
    err_ignore(hosts_adopt(s->conf.fio, s->conf.dir)); /* the next opening does it otherwise */
    behind = x->unlisted;
    x->unlisted = seal_follow(s);
    after = s->catalogue ? catalogue_bytes(s->catalogue) : 0;
    behind = behind || x->unlisted || after < catalogue; /* it grew by other windows, too */
    seal_retain_learn(x, j->pick->bytes, made_bytes(&made) + (behind ? 0 : after - catalogue));
    count_sealed(x, j->pick, &made, job.patch);
    return ERR_OK;
}

static enum err seal_part(struct seal *x, const struct pick *p, uint64_t memory_max,
                          struct errmsg *why)
{
    struct sealing j = {.pick = p, .memory_max = memory_max};
    enum err e;

    store_writer_do(x->s, take, &j);
    e = j.result;
    if (!e) {
        e = seal_taken(x, &j, why);
    }
    head_taken_destroy(j.change.taken);
    mem_free(j.hosts);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* Rows of single samples take a multiple of their memory in tiers: where that is too much, fewer of
 * them go, and the rest follows as patches. */
static enum err seal_windows(struct seal *x, const struct pick *p, struct errmsg *why)
{
    uint64_t memory_max = SEAL_MEMORY_TAKEN;
    enum err e = seal_part(x, p, memory_max, why);

    while (e == ERR_FULL && memory_max > 0) {
        memory_max /= SHRINK;
        e = seal_part(x, p, memory_max, why);
    }
    return e;
}

/* -- the thread -- */

static void tell_joined(void *ctx, const uint64_t *old, size_t n, const struct seg_info *add)
{
    if (add->kind == SEG_REST) {
        catalogue_replaced(ctx, old, n, add);
    }
}

/* It could not be opened, on a full disk say. */
static void open_catalogue(struct seal *x)
{
    struct store *s = x->s;
    int64_t now_ns = os_mono_ns();
    struct manifest_list *l;

    if (s->catalogue || (x->until_ns == INT64_MIN && now_ns - x->opened_ns < OPEN_NS)) {
        return;
    }
    x->opened_ns = now_ns;
    l = manifest_view(s->manifest);
    if (l) {
        store_recover_catalogue(s, l);
    }
    manifest_list_release(l);
    if (s->catalogue) {
        compact_on_join(x->compact, tell_joined, s->catalogue);
        x->unlisted = true;
    }
}

/* The log has failed, or waits for room. */
static enum err log_state(struct store *s)
{
    enum err e;

    os_mutex_lock(s->lock);
    e = s->stats.failed ? ERR_IO : s->stats.no_space ? ERR_NOSPACE : ERR_OK;
    os_mutex_unlock(s->lock);
    return e;
}

/* The most urgent thing. *worked: there may be more. */
static enum err step(struct seal *x, bool *worked, struct errmsg *why)
{
    struct listing l = {.n = 0};
    struct pick p;
    int64_t now_ns = clock_ns(x);
    enum err e;

    open_catalogue(x);
    store_writer_do(x->s, list_windows, &l);
    if (l.result) {
        return l.result;
    }
    pick_windows(x, &l, now_ns, &p);
    mem_free(l.list);
    e = seal_retain(x, l.head_bytes, now_ns, why);
    e = e ? e : log_state(x->s);
    if (e) {
        return e;
    }
    if (p.n > 0) {
        *worked = true;
        x->usual_bytes = l.head_bytes;
        return seal_windows(x, &p, why);
    }
    if (x->unlisted) {
        x->unlisted = seal_follow(x->s);
        *worked = true;
        return ERR_OK;
    }
    return seal_retain_compact(x, l.head_bytes, now_ns, worked, why);
}

static void tell_trouble(struct seal *x, enum err e, struct errmsg *why)
{
    const struct store_conf *conf = &x->s->conf;

    if (e == ERR_CLOSED || (e != ERR_OK) == x->troubled || log_state(x->s)) {
        return;
    }
    x->troubled = e != ERR_OK;
    if (e && !why->text[0]) {
        errmsg_set(why, e, "%s", err_text(e));
    }
    if (conf->on_trouble) {
        conf->on_trouble(conf->ctx, e, e ? why : NULL);
    }
}

/* Until nothing is to be done, or something fails. */
static enum err work(struct seal *x)
{
    struct errmsg why = {""};
    bool worked = true;
    enum err e = ERR_OK;

    while (worked && !e && !is_stopping(x)) {
        worked = false;
        e = log_state(x->s) == ERR_IO ? ERR_IO : step(x, &worked, &why);
    }
    tell_trouble(x, e, &why);
    os_mutex_lock(x->lock);
    x->stats.failures += e != ERR_OK && e != ERR_CLOSED;
    x->stats.cpu_ns = os_thread_cpu_ns();
    os_mutex_unlock(x->lock);
    return e;
}

static void seal_main(void *arg)
{
    struct seal *x = arg;
    int64_t poll_ns = x->s->conf.seal_poll_ns ? x->s->conf.seal_poll_ns : POLL_NS;
    int64_t next_ns = os_mono_ns();

    os_mutex_lock(x->lock);
    while (!atomic_load(&x->stop)) {
        enum err e;

        if (x->ticket == x->asked && os_cond_wait_until(x->wake, next_ns) != ERR_TIMEOUT) {
            continue;
        }
        x->asked = x->ticket;
        x->until_ns = x->asked > x->finished ? x->asked_until_ns : INT64_MIN;
        os_mutex_unlock(x->lock);
        e = work(x);
        heartbeat_rest(&x->moving);
        os_mutex_lock(x->lock);
        x->result = e;
        x->finished = x->asked;
        os_cond_wake_all(x->done);
        next_ns = os_mono_ns() + (e ? PAUSE_NS : poll_ns);
    }
    x->stopped = true;
    os_cond_wake_all(x->done);
    os_mutex_unlock(x->lock);
}

enum err seal_now(struct seal *x, int64_t until_ns)
{
    uint64_t mine;
    enum err e;

    os_mutex_lock(x->lock);
    mine = ++x->ticket;
    x->asked_until_ns = until_ns;
    os_cond_wake(x->wake);
    while (x->finished < mine && !x->stopped) {
        os_cond_wait(x->done);
    }
    e = x->finished < mine ? ERR_CLOSED : x->result;
    os_mutex_unlock(x->lock);
    return e;
}

static enum err open_parts(struct seal *x)
{
    struct store *s = x->s;
    struct seal_writer_conf writer = {s->manifest, s->conf.fio, s->segments_dir, is_stopping, x};
    struct compact_conf compact = {s->manifest, s->conf.fio, s->segments_dir,
                                   SETTLE_NS,   is_stopping, x};
    enum err e = os_mutex_create(&x->lock);

    if (!e) {
        e = os_cond_create(&x->wake, x->lock);
    }
    if (!e) {
        e = os_cond_create(&x->done, x->lock);
    }
    if (!e) {
        e = seal_writer_create(&x->writer, &writer);
    }
    if (!e) {
        e = compact_create(&x->compact, &compact);
    }
    if (!e && s->catalogue) {
        compact_on_join(x->compact, tell_joined, s->catalogue);
    }
    return e;
}

enum err seal_start(struct seal **out, struct store *s)
{
    struct seal *x = mem_zalloc(sizeof *x);
    uint64_t disk_free, disk_total = 0;
    enum err e;

    if (!x) {
        return ERR_NOMEM;
    }
    x->s = s;
    x->until_ns = INT64_MIN;
    x->opened_ns = os_mono_ns();
    x->unlisted = s->catalogue != NULL;
    x->times = SEAL_TIMES_FIRST;
    x->retain = s->conf.retain;
    err_ignore(os_disk_free(s->conf.dir, &disk_free, &disk_total));
    retain_defaults(&x->retain, disk_total);
    if (s->conf.head_bytes_max > x->retain.total_bytes / HEAD_SHARE) {
        s->conf.head_bytes_max = x->retain.total_bytes / HEAD_SHARE;
    }
    e = open_parts(x);
    if (!e) {
        struct wal_stats log;

        wal_stats(s->wal, &log);
        seal_retain_mark(x, log.newest);
        e = os_thread_start(&x->thread, "seal", seal_main, x);
    }
    if (e) {
        seal_stop(x);
        return e;
    }
    *out = x;
    return ERR_OK;
}

void seal_stop(struct seal *x)
{
    if (!x) {
        return;
    }
    if (x->thread) {
        os_mutex_lock(x->lock);
        atomic_store(&x->stop, true);
        os_cond_wake_all(x->wake);
        os_mutex_unlock(x->lock);
        os_thread_join(x->thread);
    }
    mem_free(x->marks);
    compact_destroy(x->compact);
    seal_writer_destroy(x->writer);
    os_cond_destroy(x->done);
    os_cond_destroy(x->wake);
    os_mutex_destroy(x->lock);
    mem_free(x);
}

void seal_stats(struct seal *x, struct seal_stats *out)
{
    os_mutex_lock(x->lock);
    *out = x->stats;
    os_mutex_unlock(x->lock);
}

int64_t seal_busy_ns(const struct seal *x, int64_t now_ns)
{
    return heartbeat_busy_ns(&x->moving, now_ns);
}

void seal_room(struct seal *x, struct store_room *out)
{
    struct store *s = x->s;
    struct manifest_stats m;

    manifest_stats(s->manifest, &m);
    os_mutex_lock(x->lock);
    *out = x->room;
    out->sealed_windows = x->stats.windows;
    out->patches = x->stats.patches;
    out->seal_failures = x->stats.failures;
    out->unreadable_batches = x->stats.bad;
    out->sealed_ns = x->stats.sealed_ns;
    os_mutex_unlock(x->lock);
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        out->kind[k].files = m.files[k];
        out->kind[k].bytes = m.bytes[k];
        out->kind[k].values = m.values[k];
        out->kind[k].oldest_ns = m.oldest_ns[k];
        out->total_bytes += m.bytes[k];
    }
    os_mutex_lock(s->lock);
    out->log_bytes = s->stats.log_bytes;
    os_mutex_unlock(s->lock);
    out->catalogue_bytes = s->catalogue ? catalogue_bytes(s->catalogue) : 0;
    out->total_bytes += out->log_bytes + out->catalogue_bytes + m.held_bytes + m.file_bytes;
}
