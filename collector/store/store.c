/* One writer thread takes what waits, in groups:
 *
 *   store_put (any thread) ─ queue ─ writer: reserve in the head, add to the log   (may fail: that
 *                                            prepare the head's next state          batch only)
 *                                            commit the log: one write, one sync   (may
 *                                            fail: fatal, but for want of room)
 *                                            publish the head, remember the numbers
 *                                            on_stored, done
 *
 * Whatever needs memory happens before the commit, so what is durable is always shown and
 * acknowledged. A batch is found in `seen` once durable and in the queue or group before, so
 * a repeat is never written twice. `lock` guards everything that store_put and the writer share; it
 * is held across no I/O and no callback, and no other lock is taken under it.
 *
 * The sealing thread (seal.c) asks the writer to take batches out of the head and to let them go,
 * between two commits: so the head and the log keep their one owner.
 */
#include "collector/store/store.h"

#include "collector/store/batch_time.h"
#include "collector/store/dedup.h"
#include "collector/store/memtable/head_batch.h"
#include "collector/store/meta/loss_sum.h"
#include "collector/store/seal/seal.h"
#include "collector/store/segment/window.h"
#include "collector/store/store_state.h"
#include "collector/store/wal/wal.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

static struct head *store_head(struct store *s)
{
    return s->head;
}

struct catalogue *store_catalogue(struct store *s)
{
    return s->catalogue;
}

enum err store_state(struct store *s, struct head_state **head, struct manifest_list **segments)
{
    os_mutex_lock(s->view_lock);
    *segments = manifest_view(s->manifest);
    if (*segments) {
        *head = head_view(s->head);
    }
    os_mutex_unlock(s->view_lock);
    return *segments ? ERR_OK : ERR_NOMEM;
}

void store_item_destroy(struct store_item *i)
{
    if (i) {
        head_batch_destroy(i->kept);
        recent_columns_destroy(i->hot);
        wire_batch_free(i->batch);
        buf_fini(&i->note);
        mem_free(i);
    }
}

/* -- accepting -- */

/* Sums with spans of it never wrap either. */
static bool mono_is_sound(const struct batch *b)
{
    return b->n_ticks == 0 ||
           (b->mono_ns[0] >= -WINDOW_MONO_MAX && b->mono_ns[b->n_ticks - 1] <= WINDOW_MONO_MAX);
}

static enum err item_create(struct store_item **out, const struct store_put *put)
{
    const struct batch_head *h = &put->batch->head;
    struct store_item *i;
    enum err e;

    if (put->n > WAL_BYTES_MAX || strlen(put->host_name) > MODEL_HOST_NAME_MAX || h->seq == 0) {
        return ERR_INVALID;
    }
    i = mem_zalloc(sizeof *i);
    if (!i) {
        return ERR_NOMEM;
    }
    buf_init(&i->note, WAL_BYTES_MAX);
    e = head_batch_create(&i->kept, put->bytes, put->n);
    if (e) {
        store_item_destroy(i);
        return e;
    }
    i->kept->stream = h->stream;
    i->kept->seq = h->seq;
    i->kept->received_ns = put->received_ns;
    i->kept->clock = put->clock;
    batch_time_span(put->batch, put->received_ns, &i->kept->t0_ns, &i->kept->t1_ns);
    i->kept->made_ns = batch_time_made(i->kept->t1_ns, &put->clock, put->received_ns);
    i->kept->window_ns = window_of(i->kept->made_ns);
    head_batch_describe(i->kept, put->batch);
    e = i->kept->t0_ns < 0 || i->kept->t1_ns > WINDOW_STAMP_MAX || !mono_is_sound(put->batch)
            ? ERR_INVALID
            : loss_sum_told_make(&i->kept->told, &i->kept->told_n, put->batch);
    if (!e) {
        e = head_batch_note_put(&i->note, put->batch, i->kept);
    }
    if (e) {
        store_item_destroy(i);
        return e;
    }
    if (clk_sub(put->received_ns, i->kept->made_ns) < RECENT_COLUMNS_NS) { /* not what comes late */
        i->hot = recent_columns_create(put->batch);
    }
    snprintf(i->host_name, sizeof i->host_name, "%s", put->host_name);
    i->weight = put->n + i->kept->memory + i->note.n + (i->hot ? recent_columns_bytes(i->hot) : 0);
    i->head_bytes = head_batch_held(i->kept);
    i->done = put->done;
    i->ctx = put->ctx;
    *out = i;
    return ERR_OK;
}

static bool same_key(const struct store_item *i, const struct batch_head *h)
{
    const struct batch_head *x = &i->batch->head;

    return x->seq == h->seq && x->stream == h->stream &&
           memcmp(x->host.b, h->host.b, sizeof h->host.b) == 0;
}

static bool is_waiting(const struct store *s, const struct batch_head *h)
{
    for (const struct store_item *i = s->queue; i; i = i->next) {
        if (same_key(i, h)) {
            return true;
        }
    }
    for (const struct store_item *i = s->group; i; i = i->next) {
        if (same_key(i, h)) {
            return true;
        }
    }
    return false;
}

void store_count_duplicate(struct store *s, const struct uuid *host)
{
    struct dedup_counts *counts = dedup_counts_ref(s->seen, host);

    s->stats.duplicates++;
    if (counts) {
        atomic_fetch_add(&counts->duplicates, 1);
        dedup_counts_unref(counts);
    }
}

/* From seven eighths on the head has no more room for a host that holds more than one and a half
 * times what hosts hold in the mean: one alone cannot make all others wait. Sealing goes on by
 * then, and makes room.
 */
static bool has_its_share(struct store *s, const struct uuid *host, uint64_t coming)
{
    struct dedup_counts *counts;
    uint64_t own;

    if (coming <= s->conf.head_bytes_max - s->conf.head_bytes_max / 8 || s->stats.head_hosts < 2) {
        return false;
    }
    counts = dedup_counts_ref(s->seen, host);
    own = counts ? atomic_load(&counts->head_bytes) : 0;
    dedup_counts_unref(counts);
    return own / 3 > s->stats.head_bytes / s->stats.head_hosts / 2;
}

/* Under the lock: whether the batch may join the queue. */
static enum err admit(struct store *s, const struct batch_head *h, const struct store_item *i)
{
    uint64_t coming = s->stats.head_bytes + s->coming_bytes + i->head_bytes;

    if (s->stats.failed) {
        return ERR_IO;
    }
    if (s->stopping) {
        return ERR_CLOSED;
    }
    if (dedup_has(s->seen, &h->host, h->stream, h->seq)) {
        store_count_duplicate(s, &h->host);
        return ERR_EXISTS;
    }
    if (s->stats.no_space) {
        s->stats.refused++;
        return ERR_NOSPACE;
    }
    if (is_waiting(s, h)) {
        return ERR_BUSY;
    }
    if (i->kept->made_ns < i->kept->received_ns - s->conf.accept_age_ns) {
        s->stats.too_old++;
        return ERR_RANGE;
    }
    if (s->waiting_batches >= STORE_WAITING_BATCHES ||
        s->waiting_bytes + i->weight > STORE_WAITING_MAX) {
        return ERR_FULL;
    }
    if (s->refusing || coming > s->conf.head_bytes_max || has_its_share(s, &h->host, coming)) {
        s->stats.refused++;
        return ERR_FULL;
    }
    return dedup_open(s->seen, &h->host, h->stream, i->kept->received_ns);
}

enum err store_put(struct store *s, const struct store_put *put)
{
    struct store_item *i;
    enum err e = item_create(&i, put);

    if (e) {
        wire_batch_free(put->batch);
        return e;
    }
    os_mutex_lock(s->lock);
    e = admit(s, &put->batch->head, i);
    i->batch = put->batch;
    if (!e) {
        *s->queue_end = i;
        s->queue_end = &i->next;
        s->waiting_batches++;
        s->waiting_bytes += i->weight;
        s->queued_bytes += i->kept->n;
        s->coming_bytes += i->head_bytes;
        os_cond_wake(s->work);
    }
    os_mutex_unlock(s->lock);
    if (e) {
        store_item_destroy(i);
    }
    return e;
}

uint64_t store_last_seq(struct store *s, const struct uuid *host, uint64_t stream)
{
    uint64_t last;

    os_mutex_lock(s->lock);
    last = dedup_last(s->seen, host, stream);
    os_mutex_unlock(s->lock);
    return last;
}

/* -- opening and closing -- */

static enum err lock_dir(struct store *s, struct errmsg *why)
{
    char *path = os_path_join(s->conf.dir, "lock");
    enum err e = path ? os_lock(&s->dir_lock, path) : ERR_NOMEM;

    if (e == ERR_BUSY) {
        errmsg_set(why, e, "%s is in use by another collector: stop it or choose another data_dir",
                   s->conf.dir);
    } else if (e) {
        errmsg_set(why, e, "cannot lock %s: %s", s->conf.dir, err_text(e));
    }
    mem_free(path);
    return e;
}

static enum err open_parts(struct store *s, struct errmsg *why)
{
    struct head_conf head = {.instances_max = s->conf.instances_max,
                             .info_host_max = s->conf.info_host_max,
                             .info_max = s->conf.info_max,
                             .hot_bytes_max = s->conf.head_bytes_max / STORE_HOT_SHARE,
                             .on_release = store_writer_release_file,
                             .ctx = s};
    enum err e = os_mkdirs(s->conf.dir, true);

    if (e) {
        return errmsg_set(why, e, "cannot make %s: %s", s->conf.dir, err_text(e));
    }
    e = lock_dir(s, why);
    if (e) {
        return e;
    }
    e = os_mutex_create(&s->view_lock);
    if (!e) {
        e = os_mutex_create(&s->lock);
    }
    if (!e) {
        e = os_cond_create(&s->work, s->lock);
    }
    if (!e) {
        e = os_cond_create(&s->task_done, s->lock);
    }
    if (!e) {
        e = dedup_create(&s->seen, UINT32_MAX, seal_keeps(&s->conf));
    }
    if (!e) {
        e = head_create(&s->head, &head);
    }
    return e ? errmsg_set(why, e, "cannot open the store: %s", err_text(e)) : ERR_OK;
}

enum err store_open(struct store **out, const struct store_conf *conf, struct errmsg *why)
{
    struct store *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    s->conf = *conf;
    s->queue_end = &s->queue;
    e = open_parts(s, why);
    if (e) {
        goto fail;
    }
    e = store_recover(s, why);
    if (e) {
        goto fail;
    }
    dedup_limit(s->seen, s->conf.hosts_max); /* what was acknowledged stays under a lower one */
    if (s->stats.lost_batches > 0) {
        store_writer_keep_lost(s);
    }
    store_writer_refresh_stats(s);
    e = os_thread_start(&s->thread, "store", store_writer_main, s);
    if (e) {
        errmsg_set(why, e, "cannot start a thread");
        goto fail;
    }
    e = seal_start(&s->seal, s);
    if (e) {
        errmsg_set(why, e, "cannot start sealing: %s", err_text(e));
        goto fail;
    }
    *out = s;
    return ERR_OK;

fail:
    store_close(s);
    return e;
}

void store_close(struct store *s)
{
    if (!s) {
        return;
    }
    seal_stop(s->seal);
    if (s->thread) {
        os_mutex_lock(s->lock);
        s->stopping = true;
        os_cond_wake_all(s->work);
        os_mutex_unlock(s->lock);
        os_thread_join(s->thread);
    }
    wal_close(s->wal);
    head_destroy(s->head);
    catalogue_close(s->catalogue);
    manifest_close(s->manifest);
    dedup_destroy(s->seen);
    os_cond_destroy(s->task_done);
    os_cond_destroy(s->work);
    os_mutex_destroy(s->lock);
    os_mutex_destroy(s->view_lock);
    mem_free(s->segments_dir);
    os_unlock(s->dir_lock);
    mem_free(s);
}

bool store_differs(struct store *s, const char *host_name, const struct batch_head *key,
                   const void *bytes, size_t n)
{
    struct head_state *state = head_view(store_head(s));
    size_t host = head_view_find(state, host_name, &key->host);
    const struct head_batch *kept =
        host < head_view_hosts(state) ? head_view_batch(state, host, key->stream, key->seq) : NULL;
    bool same = !kept || kept->n == n;

    if (kept && same) {
        struct buf room;
        const void *held;

        buf_init(&room, WAL_RECORD_MAX);
        same = head_batch_bytes(kept, &room, &held) || memcmp(held, bytes, n) == 0;
        buf_fini(&room);
    }
    head_view_release(state);
    return !same;
}

bool store_last_boot(struct store *s, const char *host_name, const struct uuid *host,
                     struct uuid *boot, int64_t *received_ns)
{
    struct head_state *state = head_view(store_head(s));
    size_t i = head_view_find(state, host_name, host);
    bool found = i < head_view_hosts(state);

    if (found) {
        *boot = head_view_host(state, i)->boot;
        *received_ns = head_view_host(state, i)->received_ns;
    }
    head_view_release(state);
    return found;
}

enum err store_seal_now(struct store *s, int64_t until_ns)
{
    return seal_now(s->seal, until_ns);
}

void store_room(struct store *s, struct store_room *out)
{
    seal_room(s->seal, out);
}

void store_stats(struct store *s, struct store_stats *out)
{
    os_mutex_lock(s->lock);
    *out = s->stats;
    os_mutex_unlock(s->lock);
    out->unread_batches = atomic_load(&s->reading.unread[STORE_UNREAD_LOG]);
    out->unread_values = atomic_load(&s->reading.unread[STORE_UNREAD_SEGMENT]);
    out->unread_names = atomic_load(&s->reading.unread[STORE_UNREAD_CATALOGUE]);
}

int64_t store_busy_ns(struct store *s, int64_t now_ns)
{
    int64_t writing_ns = heartbeat_busy_ns(&s->writing, now_ns);
    int64_t sealing_ns = seal_busy_ns(s->seal, now_ns);

    return writing_ns > sealing_ns ? writing_ns : sealing_ns;
}
