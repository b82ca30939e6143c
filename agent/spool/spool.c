/* Who does what:
 *
 *   writer --put--> waiting --disk thread--> files --disk thread--> hands --take, done--> reader
 *
 * The disk thread alone touches files (spool_disk.h, quarantine.h). It writes what waits, and keeps
 * batches ready in hands for the reader (spool_hand.c). The lock is held across none of its I/O:
 * what it writes is taken out of the waiting list first, and put back when the disk failed. */
#include "agent/spool/spool.h"

#include <stdio.h>
#include <string.h>

#include "agent/spool/spool_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"

#define SYNC_NS   (250 * CLK_MS)
#define EXPIRE_NS (60 * CLK_S)
/* Between tries of a failed disk; grows when it took a probe but not what waits. */
#define RETRY_MIN_NS (5 * CLK_S)
#define RETRY_MAX_NS (300 * CLK_S)

/* -- what waits -- */

void spool_list_init(struct list *l)
{
    *l = (struct list){.end = &l->first};
}

void spool_list_add(struct list *l, struct waiting *w)
{
    w->next = NULL;
    *l->end = w;
    l->end = &w->next;
    l->n++;
    l->bytes += w->n;
}

struct waiting *spool_list_take(struct list *l)
{
    struct waiting *w = l->first;

    if (w) {
        l->first = w->next;
        l->end = l->first ? l->end : &l->first;
        l->n--;
        l->bytes -= w->n;
    }
    return w;
}

/* All of `from` behind what is in `to`. */
void spool_list_move(struct list *to, struct list *from)
{
    struct waiting *w;

    while ((w = spool_list_take(from)) != NULL) {
        spool_list_add(to, w);
    }
}

void spool_waiting_free(struct waiting *w)
{
    if (w) {
        mem_free(w->p);
        mem_free(w);
    }
}

static void lose(struct spool *s, const void *p, size_t n)
{
    spool_batch_count(&s->stats.unwritten, p, n);
}

/* Gives the batch the next number. False: it cannot be done, the batch is lost. Lock held. */
static bool number(struct spool *s, struct waiting *w)
{
    if (w->stream != s->stream || w->seq != s->next_seq) {
        uint8_t *p = NULL;

        if (spool_batch_renumber(s->encoder, &s->renumbered, w->p, w->n, s->stream, s->next_seq) ==
            ERR_OK) {
            p = mem_dup(s->renumbered.p, s->renumbered.n);
        }
        if (!p) {
            lose(s, w->p, w->n);
            return false;
        }
        mem_free(w->p);
        w->p = p;
        w->n = s->renumbered.n;
        w->stream = s->stream;
        w->seq = s->next_seq;
    }
    s->next_seq++;
    return true;
}

static struct waiting *waiting_new(struct spool *s, uint64_t stream, uint64_t seq, const void *p,
                                   size_t n)
{
    struct waiting *w = mem_zalloc(sizeof *w);
    int64_t since_ns = s->put_ns;

    if (!w) {
        return NULL;
    }
    s->put_ns = os_utc_ns();
    *w = (struct waiting){.stream = stream,
                          .seq = seq,
                          .when_ns = s->put_ns,
                          .since_ns = since_ns,
                          .n = n,
                          .p = mem_dup(p, n)};
    if (!w->p) {
        mem_free(w);
        return NULL;
    }
    return w;
}

static void make_room(struct spool *s, size_t n)
{
    uint64_t in_hand = 0;

    (void)spool_hand_memory(s, &in_hand);
    while (s->waiting.first && s->waiting.bytes + in_hand + n > s->conf.memory_bytes) {
        struct waiting *w = spool_list_take(&s->waiting);

        lose(s, w->p, w->n);
        spool_waiting_free(w);
    }
}

enum err spool_put(struct spool *s, uint64_t stream, uint64_t seq, const void *p, size_t n)
{
    struct waiting *w = waiting_new(s, stream, seq, p, n);

    os_mutex_lock(s->lock);
    if (s->ended) {
        os_mutex_unlock(s->lock);
        spool_waiting_free(w);
        return ERR_CLOSED;
    }
    s->stats.in++;
    if (!w) {
        lose(s, p, n);
    } else if (n > SPOOL_BATCH_MAX || !number(s, w)) {
        if (n > SPOOL_BATCH_MAX) {
            lose(s, p, n);
        }
        spool_waiting_free(w);
    } else {
        make_room(s, w->n);
        spool_list_add(&s->waiting, w);
        os_cond_wake_all(s->work);
    }
    os_mutex_unlock(s->lock);
    return ERR_OK;
}

void spool_next(struct spool *s, uint64_t *stream, uint64_t *seq)
{
    os_mutex_lock(s->lock);
    *stream = s->stream;
    *seq = s->next_seq;
    os_mutex_unlock(s->lock);
}

void spool_ring(struct spool *s)
{
    s->woken = true;
    os_cond_wake_all(s->news);
}

/* -- the disk thread -- */

/* What a failure means, lock held: a new stream for everything that waits. */
static void fail(struct spool *s, enum err e)
{
    struct list old;
    struct waiting *w;
    uint64_t stream = 0;

    spool_list_init(&old);
    s->failing = true;
    s->stats.failures++;
    (void)snprintf(s->stats.why, sizeof s->stats.why, "cannot write to %s: %s", s->conf.disk.dir,
                   err_text(e));
    if (os_random(&stream, sizeof stream)) {
        stream = s->stream + 1;
    }
    s->stream = stream;
    s->next_seq = 1;
    spool_list_move(&old, &s->waiting);
    while ((w = spool_list_take(&old)) != NULL) {
        if (number(s, w)) {
            spool_list_add(&s->waiting, w);
        } else {
            spool_waiting_free(w);
        }
    }
}

/* Makes `job` durable and frees it; what could not be stays in it. Lock not held. */
static enum err write_all(struct spool *s, struct list *job)
{
    enum err e = ERR_OK;

    for (struct waiting *w = job->first, *after; w && !e; w = after) {
        after = w->next;
        if (spool_disk_stream(s->disk) != w->stream || spool_disk_next_seq(s->disk) != w->seq) {
            e = spool_disk_commit(s->disk);
            if (!e) {
                spool_disk_renew(s->disk, w->stream, w->seq);
            }
        }
        if (!e) {
            e = spool_disk_add(s->disk, w->when_ns, w->p, w->n);
        }
        if (!e && (!after || spool_disk_waiting(s->disk) >= SPOOL_COMMIT_MAX)) {
            e = spool_disk_commit(s->disk);
        }
        while (!e && spool_disk_waiting(s->disk) == 0 && job->first != after) {
            spool_waiting_free(spool_list_take(job));
        }
    }
    return e;
}

/* Writes what waits. Lock held, and given up meanwhile. */
static void write_waiting(struct spool *s)
{
    bool was_failing = s->failing;
    struct list job;
    enum err e = ERR_OK;

    spool_list_init(&job);
    spool_list_move(&job, &s->waiting);
    spool_disk_memory(s->disk, spool_hand_since(s));
    os_mutex_unlock(s->lock);
    if (was_failing) {
        e = spool_disk_probe(s->disk, job.bytes);
        s->retry_ns = os_mono_ns() + s->retry_pause_ns;
    }
    s->tried = !e;
    if (!e) {
        e = write_all(s, &job);
    }
    s->synced_ns = os_mono_ns();
    os_mutex_lock(s->lock);
    if (!e) {
        s->failing = false;
        return;
    }
    spool_list_move(&job, &s->waiting); /* what has come since goes behind it */
    spool_list_move(&s->waiting, &job);
    if (s->tried) {
        s->retry_pause_ns = was_failing ? s->retry_pause_ns * 2 : RETRY_MIN_NS;
        s->retry_pause_ns = s->retry_pause_ns < RETRY_MAX_NS ? s->retry_pause_ns : RETRY_MAX_NS;
        s->retry_ns = s->synced_ns + s->retry_pause_ns;
        fail(s, e);
    }
}

static bool may_write(const struct spool *s)
{
    int64_t now_ns = os_mono_ns();

    if (!s->waiting.first) {
        return false;
    }
    return s->stopping || now_ns >= (s->failing ? s->retry_ns : s->synced_ns + SYNC_NS);
}

static void say(struct spool *s, bool was_failing)
{
    char quoted[300];

    if (s->failing && !was_failing) {
        log_line(LOG_WARN, "spool", "failed", "why=%s next=%s",
                 log_str(quoted, sizeof quoted, s->stats.why),
                 "\"going on from memory, the disk is tried again every few seconds: mend what "
                 "why says, or set spool.dir\"");
    } else if (!s->failing && was_failing) {
        log_line(LOG_INFO, "spool", "recovered", "waiting=%llu", (unsigned long long)s->waiting.n);
    }
}

static void say_damage(struct spool *s)
{
    const struct spool_disk_stats *d = &s->stats.disk;
    uint64_t damage = d->unreadable + d->damaged_headers;

    if (damage > s->told_damage) {
        s->told_damage = damage;
        log_line(
            LOG_WARN, "spool", "damaged", "unreadable=%llu headers=%llu why=%s",
            (unsigned long long)d->unreadable, (unsigned long long)d->damaged_headers,
            "\"the disk of spool.dir returns other bytes than were written; the rest is sent\"");
    }
}

static void publish(struct spool *s)
{
    spool_disk_stats(s->disk, &s->stats.disk);
    dead_letter_stats(s->quarantine, &s->stats.quarantine);
    s->stats.failing = s->failing;
    say_damage(s);
}

static int64_t next_look_ns(const struct spool *s)
{
    int64_t at_ns = s->expired_ns + EXPIRE_NS;
    int64_t write_ns = s->failing ? s->retry_ns : s->synced_ns + SYNC_NS;

    return s->waiting.first && write_ns < at_ns ? write_ns : at_ns;
}

static void expire(struct spool *s)
{
    s->expired_ns = os_mono_ns();
    os_mutex_unlock(s->lock);
    spool_disk_expire(s->disk, os_utc_ns());
    dead_letter_tidy(s->quarantine, os_utc_ns());
    os_mutex_lock(s->lock);
}

static void spool_run(void *arg)
{
    struct spool *s = arg;

    os_mutex_lock(s->lock);
    while (!s->stopping) {
        bool was_failing = s->failing, more;

        spool_hand_back(s);
        spool_hand_stored(s);
        if (may_write(s)) {
            write_waiting(s);
            say(s, was_failing);
        }
        if (os_mono_ns() - s->expired_ns >= EXPIRE_NS) {
            expire(s);
        }
        more = spool_hand_out(s);
        publish(s);
        if (!s->stopping && !more && !spool_hand_waits(s) && !may_write(s)) {
            (void)os_cond_wait_until(s->work, next_look_ns(s));
        }
    }
    spool_hand_back(s);
    spool_hand_end(s);
    if (may_write(s)) {
        write_waiting(s);
    }
    if (!s->failing) {
        spool_disk_tidy(s->disk); /* the lock does no harm: nobody waits for it any more */
    }
    publish(s);
    spool_ring(s);
    os_mutex_unlock(s->lock);
}

/* -- ends and figures -- */

void spool_end(struct spool *s)
{
    os_mutex_lock(s->lock);
    s->ended = true;
    os_cond_wake_all(s->work);
    os_mutex_unlock(s->lock);
}

void spool_stats(struct spool *s, struct spool_stats *out)
{
    os_mutex_lock(s->lock);
    *out = s->stats;
    out->waiting_bytes = s->waiting.bytes;
    out->waiting = s->waiting.n + spool_hand_memory(s, &out->waiting_bytes);
    os_mutex_unlock(s->lock);
}

/* -- open, close -- */

static enum err lock_dir(struct spool *s, const char *dir, struct errmsg *why)
{
    enum err e = os_mkdirs(dir, true);
    char *path;

    if (e) {
        return errmsg_set(why, e, "cannot make the spool's directory %s: %s; set spool.dir", dir,
                          err_text(e));
    }
    path = os_path_join(dir, "lock");
    if (!path) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = os_lock(&s->dir_lock, path);
    mem_free(path);
    if (e == ERR_BUSY) {
        return errmsg_set(why, e,
                          "another agent uses the spool in %s; stop it or set spool.dir to "
                          "another directory",
                          dir);
    }
    return e ? errmsg_set(why, e, "cannot lock the spool in %s: %s", dir, err_text(e)) : ERR_OK;
}

static enum err open_thread(struct spool *s)
{
    enum err e = os_mutex_create(&s->lock);

    if (!e) {
        e = os_cond_create(&s->work, s->lock);
    }
    if (!e) {
        e = os_cond_create(&s->news, s->lock);
    }
    if (!e) {
        e = wire_encoder_create(&s->encoder);
    }
    if (!e) {
        e = os_thread_start(&s->thread, "spool", spool_run, s);
    }
    return e;
}

static enum err keep_own(struct spool *s, struct errmsg *why)
{
    struct spool_disk_stats found;
    enum err e = s->conf.host ? spool_disk_keep(s->disk, s->conf.host) : ERR_OK;

    s->conf.host = NULL;
    spool_disk_stats(s->disk, &found);
    if (found.other_host.batches > 0) {
        log_line(LOG_WARN, "spool", "other_host", "batches=%llu rows=%llu events=%llu why=%s",
                 (unsigned long long)found.other_host.batches,
                 (unsigned long long)found.other_host.rows,
                 (unsigned long long)found.other_host.events,
                 "\"spooled under another identity; the collector would not take them from this "
                 "one\"");
    }
    return e ? errmsg_set(why, e, "cannot begin a stream: %s", err_text(e)) : ERR_OK;
}

enum err spool_open(struct spool **out, const struct spool_conf *conf, struct errmsg *why)
{
    struct spool *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    s->conf = *conf;
    spool_list_init(&s->waiting);
    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        buf_init(&s->hands[i].content, SPOOL_BATCH_MAX);
    }
    buf_init(&s->renumbered, SPOOL_BATCH_MAX);
    s->expired_ns = os_mono_ns() - EXPIRE_NS;
    s->synced_ns = s->expired_ns;
    e = lock_dir(s, conf->disk.dir, why);
    if (e) {
        goto fail;
    }
    e = spool_disk_open(&s->disk, &conf->disk, why);
    if (e) {
        goto fail;
    }
    e = dead_letter_open(&s->quarantine, &(struct dead_letter_conf){.spool_dir = conf->disk.dir,
                                                                    .fio = conf->disk.fio,
                                                                    .max_bytes = DEAD_LETTER_BYTES,
                                                                    .max_age_ns = DEAD_LETTER_AGE});
    if (e) {
        e = errmsg_set(why, e, "cannot look into the spool's quarantine in %s: %s", conf->disk.dir,
                       err_text(e));
        goto fail;
    }
    publish(s);
    s->stats.recovered = s->stats.disk.held;
    e = keep_own(s, why);
    if (e) {
        goto fail;
    }
    s->stream = spool_disk_stream(s->disk);
    s->next_seq = spool_disk_next_seq(s->disk);
    s->put_ns = os_utc_ns();
    publish(s);
    e = open_thread(s);
    if (e) {
        e = errmsg_set(why, e, "cannot start the spool: %s", err_text(e));
        goto fail;
    }
    *out = s;
    return ERR_OK;

fail:
    spool_close(s);
    return e;
}

/* Whether a batch in hand is on no disk. */
static bool holds_memory(const struct spool *s)
{
    bool holds = false;

    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        holds = holds || s->hands[i].from_memory;
    }
    return holds;
}

bool spool_stop(struct spool *s)
{
    if (s->thread) {
        os_mutex_lock(s->lock);
        s->ended = s->stopping = true;
        os_cond_wake_all(s->work);
        os_mutex_unlock(s->lock);
        os_thread_join(s->thread);
        s->thread = NULL;
    }
    return !s->waiting.first && !holds_memory(s);
}

void spool_close(struct spool *s)
{
    if (!s) {
        return;
    }
    (void)spool_stop(s);
    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        spool_waiting_free(s->hands[i].from_memory);
        buf_fini(&s->hands[i].content);
    }
    while (s->waiting.first) {
        spool_waiting_free(spool_list_take(&s->waiting));
    }
    dead_letter_close(s->quarantine);
    spool_disk_close(s->disk);
    os_unlock(s->dir_lock);
    wire_encoder_destroy(s->encoder);
    buf_fini(&s->renumbered);
    os_cond_destroy(s->news);
    os_cond_destroy(s->work);
    os_mutex_destroy(s->lock);
    mem_free(s);
}
