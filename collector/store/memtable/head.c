/*   head (writer)                      state (published, immutable, counted)
 *     host ─ chunks ─ batches            snap ─ the same chunks, how many batches of each
 *          ─ infos                            ─ snapshot of infos
 *
 * A chunk is filled in place: a published snap knows how many of its batches count, and the writer
 * only puts pointers behind those. Everything shared is reference-counted; the last release frees
 * it. The writer replaces the snaps of hosts that changed and swaps one pointer under `lock`, which
 * guards nothing else. A chunk holds batches of one window: sealing takes and releases whole
 * chunks, and what comes after it was taken goes into another one (below). */
#include "collector/store/memtable/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/model/ledger.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define LOOK_BACK 64u
#define HOSTS_MAX ((size_t)1 << 31) /* the store admits fewer */

struct head_host {
    struct head_seen seen;
    struct dedup_counts *counts;
    struct head_infos *infos;
    uint64_t bytes;                           /* of its batches */
    uint64_t info_bytes, info_gone, info_cut; /* of it, as counted in the head's */
    int64_t made_ns;            /* of the batch that `boot`, `flags` and `last_ns` are from */
    int64_t sealed_first_ns;    /* oldest stamp of what is sealed; INT64_MAX: nothing is */
    struct head_chunk **chunks; /* in the order of their making */
    struct head_chunk *open;    /* reserved for the next batch */
    size_t n, cap;
    struct recent_columns_ring recents;
    bool changed;
    struct head_snap *snap; /* as last built; NULL at first */
};

struct head {
    struct head_conf conf;
    struct head_host **hosts; /* by id */
    struct head_host **named; /* the same by name, then id */
    size_t n, cap;
    bool changed, reorder;
    struct head_stats stats;
    struct recent_columns_total recent;
    struct head_state *next; /* built, not published */
    struct os_mutex *lock;   /* guards `state`, the pointer */
    struct head_state *state;
};

/* Was the batch made after all of the host so far? What came at one moment is told apart by its
 * stamps. */
static bool head_newest(const struct head_host *host, const struct head_batch *b)
{
    return host->seen.batches == 0 ||
           (b->made_ns != host->made_ns ? b->made_ns > host->made_ns
                                        : b->t1_ns >= host->seen.last_ns);
}

/* -- letting go -- */

/* The next state has it anew. */
static void head_touch(struct head *h, struct head_host *host)
{
    host->changed = true;
    h->changed = true;
}

static void host_destroy(struct head *h, struct head_host *host)
{
    if (host) {
        recent_columns_fini(&h->recent, &host->recents);
        for (size_t i = 0; i < host->n; i++) {
            head_view_chunk_unref(host->chunks[i]);
        }
        mem_free(host->chunks);
        head_infos_destroy(host->infos);
        h->stats.info_bytes -= host->info_bytes;
        h->stats.busy -= host->bytes > 0;
        dedup_counts_unref(host->counts);
        head_view_snap_unref(host->snap);
        mem_free(host);
    }
}

void head_destroy(struct head *h)
{
    if (h) {
        for (size_t i = 0; i < h->n; i++) {
            host_destroy(h, h->hosts[i]);
        }
        mem_free(h->hosts);
        mem_free(h->named);
        head_view_release(h->next);
        head_view_release(h->state);
        os_mutex_destroy(h->lock);
        mem_free(h);
    }
}

enum err head_create(struct head **out, const struct head_conf *conf)
{
    struct head *h = mem_zalloc(sizeof *h);
    enum err e = ERR_NOMEM;

    if (!h) {
        return ERR_NOMEM;
    }
    h->conf = *conf;
    h->recent.bytes_max = conf->hot_bytes_max;
    h->state = mem_zalloc(sizeof *h->state);
    if (!h->state) {
        goto fail;
    }
    atomic_init(&h->state->refs, 1);
    e = os_mutex_create(&h->lock);
    if (e) {
        goto fail;
    }
    *out = h;
    return ERR_OK;

fail:
    head_destroy(h);
    return e;
}

/* -- writer: hosts -- */

static const struct uuid *host_id(const void *head, size_t i)
{
    return &((const struct head *)head)->hosts[i]->seen.id;
}

static size_t host_index(const struct head *h, const struct uuid *id)
{
    return uuid_search(id, h->n, host_id, h);
}

/* For one host more. */
static enum err hosts_room(struct head *h)
{
    size_t cap = h->cap;
    enum err e = VEC_ROOM(&h->hosts, &cap, h->n + 1, HOSTS_MAX);

    return e ? e : VEC_ROOM(&h->named, &h->cap, h->n + 1, HOSTS_MAX);
}

static enum err host_create(struct head *h, struct head_host **out, const struct uuid *id)
{
    struct head_host *host;
    size_t at;
    enum err e = hosts_room(h);

    if (e) {
        return e;
    }
    host = mem_zalloc(sizeof *host);
    if (!host) {
        return ERR_NOMEM;
    }
    e = head_infos_create(&host->infos, h->conf.instances_max);
    if (e) {
        mem_free(host);
        return e;
    }
    if (h->conf.info_host_max) {
        head_infos_limit(host->infos, h->conf.info_host_max);
    }
    host->seen.id = *id;
    host->sealed_first_ns = INT64_MAX;
    at = host_index(h, id);
    memmove(h->hosts + at + 1, h->hosts + at, (h->n - at) * sizeof(struct head_host *));
    h->hosts[at] = host;
    h->n++;
    h->changed = true;
    h->reorder = true;
    *out = host;
    return ERR_OK;
}

static struct head_host *head_host_find(const struct head *h, const struct uuid *id)
{
    size_t i = host_index(h, id);

    return i < h->n && memcmp(h->hosts[i]->seen.id.b, id->b, sizeof id->b) == 0 ? h->hosts[i]
                                                                                : NULL;
}

/* Its batches are so many bytes now; the admission of further ones sees it. */
static void head_host_bytes(struct head *h, struct head_host *host, uint64_t bytes)
{
    h->stats.bytes += bytes - host->bytes;
    h->stats.busy += bytes > 0;
    h->stats.busy -= host->bytes > 0;
    host->bytes = bytes;
    if (host->counts) {
        atomic_store(&host->counts->head_bytes, bytes);
    }
}

/* counts: moved. */
static void head_host_counts(struct head_host *host, struct dedup_counts *counts)
{
    dedup_counts_unref(host->counts);
    host->counts = counts;
    if (counts) {
        atomic_store(&counts->head_bytes, host->bytes);
    }
}

static enum err head_host_get(struct head *h, struct head_host **out, const struct uuid *id)
{
    *out = head_host_find(h, id);
    return *out ? ERR_OK : host_create(h, out, id);
}

/* The chunk of the batch's window that has room for it; batches come in order as a rule, so only
 * the latest chunks are looked at. */
static struct head_chunk *chunk_find(const struct head_host *host, const struct head_batch *b)
{
    for (size_t i = host->n; i > 0 && host->n - i < LOOK_BACK; i--) {
        struct head_chunk *c = host->chunks[i - 1];

        if (!c->closed && c->window_ns == b->window_ns && c->n < HEAD_CHUNK &&
            (c->n == 0 || c->memory + b->memory <= HEAD_CHUNK_MEMORY)) {
            return c;
        }
    }
    return NULL;
}

static enum err chunk_room(struct head_host *host, const struct head_batch *b)
{
    struct head_chunk *c;
    enum err e;

    host->open = chunk_find(host, b);
    if (host->open) {
        return ERR_OK;
    }
    e = VEC_ROOM(&host->chunks, &host->cap, host->n + 1, SIZE_MAX);
    if (e) {
        return e;
    }
    c = mem_zalloc(sizeof *c);
    if (!c) {
        return ERR_NOMEM;
    }
    atomic_init(&c->refs, 1);
    c->window_ns = b->window_ns;
    c->t0_ns = INT64_MAX;
    host->chunks[host->n++] = c;
    host->open = c;
    return ERR_OK;
}

/* What is known of the host's instances has changed. */
static void count_infos(struct head *h, struct head_host *host)
{
    uint64_t bytes = head_infos_bytes(host->infos);
    uint64_t gone = head_infos_evicted(host->infos);
    uint64_t cut = head_infos_too_long(host->infos);

    h->stats.info_bytes += bytes - host->info_bytes;
    h->stats.info_gone += gone - host->info_gone;
    h->stats.info_cut += cut - host->info_cut;
    host->info_bytes = bytes;
    host->info_gone = gone;
    host->info_cut = cut;
}

static struct head_host *largest_infos(const struct head *h)
{
    struct head_host *largest = h->hosts[0];

    for (size_t i = 1; i < h->n; i++) {
        largest = h->hosts[i]->info_bytes > largest->info_bytes ? h->hosts[i] : largest;
    }
    return largest;
}

/* The host with the most text loses half of it, so that a wordy host costs no other its names. */
static enum err bound_infos(struct head *h)
{
    enum err e = ERR_OK;

    while (!e && h->conf.info_max && h->stats.info_bytes > h->conf.info_max) {
        struct head_host *host = largest_infos(h);
        uint64_t before = host->info_bytes;

        e = head_infos_shrink(host->infos, before / 2);
        count_infos(h, host);
        head_touch(h, host);
        if (host->info_bytes >= before) {
            break; /* they are as many small ones as that */
        }
    }
    return e;
}

enum err head_reserve(struct head *h, struct head_host **host, const char *host_name,
                      const struct batch *b, struct dedup_counts *counts,
                      const struct head_batch *kept)
{
    struct head_host *found;
    enum err e = head_host_get(h, &found, &b->head.host);

    if (!e) {
        e = chunk_room(found, kept);
    }
    if (!e) {
        e = head_infos_merge_batch(found->infos, b, kept->t1_ns);
        count_infos(h, found);
    }
    if (!e) {
        e = bound_infos(h);
    }
    if (e) {
        return e;
    }
    if (strcmp(found->seen.name, host_name) != 0) {
        snprintf(found->seen.name, sizeof found->seen.name, "%s", host_name);
        h->reorder = true;
    }
    head_host_counts(found, counts);
    *host = found;
    return ERR_OK;
}

static uint64_t head_losses(const struct batch *b)
{
    const struct ledger_kind *kind = NULL;
    uint64_t lost = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        kind = ledger_kind_after(kind, &b->ledger[i]);
        lost = kind->loss ? ledger_add(lost, b->ledger[i].count) : lost;
    }
    return lost;
}

void head_append(struct head *h, struct head_host *host, const struct batch *b,
                 struct head_batch *kept)
{
    struct head_chunk *c = host->open;
    uint64_t bytes = head_batch_held(kept), lost = head_losses(b);
    struct head_seen *seen = &host->seen;

    c->t0_ns = kept->t0_ns < c->t0_ns ? kept->t0_ns : c->t0_ns;
    c->received_ns = c->n == 0 ? kept->received_ns : c->received_ns;
    c->at[c->n++] = kept;
    c->bytes += bytes;
    c->memory += kept->memory;
    c->lost = ledger_add(c->lost, lost);
    h->stats.batches++;
    head_host_bytes(h, host, host->bytes + bytes);
    if (head_newest(host, kept)) {
        host->made_ns = kept->made_ns;
        seen->last_ns = kept->t1_ns;
        seen->has_alive = b->n_ticks > 0 && b->wall_ns[b->n_ticks - 1] == kept->t1_ns;
        seen->alive = seen->has_alive ? kept->alive : 0;
        seen->clock = kept->clock;
        seen->boot = b->head.boot;
        seen->flags = b->head.flags;
        seen->cpus = b->head.cpus;
        snprintf(seen->source, sizeof seen->source, "%.*s", (int)b->head.source.n,
                 b->head.source.p);
    }
    seen->received_ns =
        kept->received_ns > seen->received_ns ? kept->received_ns : seen->received_ns;
    seen->batches++;
    seen->held++;
    seen->lost_events = ledger_add(seen->lost_events, lost);
    head_touch(h, host);
}

void head_keep_hot(struct head *h, struct head_host *host, struct head_batch *kept,
                   struct recent_columns *hot)
{
    kept->hot = recent_columns_keep(&h->recent, &host->recents, hot, kept->received_ns);
}

/* -- writer: the next state -- */

static bool is_empty(const struct head_host *host)
{
    for (size_t i = 0; i < host->n; i++) {
        if (host->chunks[i]->n > 0) {
            return false;
        }
    }
    return host->sealed_first_ns == INT64_MAX;
}

/* Hosts of which nothing is held go. */
static void drop_empty_hosts(struct head *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->n; i++) {
        struct head_host *x = h->hosts[i];

        if (!is_empty(x)) {
            h->hosts[kept++] = x;
            if (recent_columns_rest(&h->recent, &x->recents)) {
                head_touch(h, x);
            }
        } else {
            host_destroy(h, x);
            h->changed = true;
            h->reorder = true;
        }
    }
    h->n = kept;
}

static enum err build_snap(struct head_host *host)
{
    struct head_snap *s = mem_zalloc(sizeof *s + host->n * sizeof s->parts[0]);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    e = head_infos_snapshot(host->infos, &s->infos);
    if (e) {
        mem_free(s);
        return e;
    }
    atomic_init(&s->refs, 1);
    s->seen = host->seen;
    s->seen.first_ns = host->sealed_first_ns;
    s->n = host->n;
    for (size_t i = 0; i < host->n; i++) {
        struct head_chunk *c = host->chunks[i];

        s->parts[i] = (struct head_part){c, c->n}; /* none where it is only reserved */
        head_view_chunk_ref(c);
        s->seen.first_ns = c->t0_ns < s->seen.first_ns ? c->t0_ns : s->seen.first_ns;
    }
    s->hots = recent_columns_view_create(&host->recents);
    s->counts = host->counts;
    if (s->counts) {
        atomic_fetch_add_explicit(&s->counts->refs, 1, memory_order_relaxed);
    }
    s->seen.counts = s->counts;
    s->seen.infos = s->infos;
    head_view_snap_unref(host->snap);
    host->snap = s;
    host->changed = false;
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct head_host *const *x = a, *const *y = b;
    int c = strcmp((*x)->seen.name, (*y)->seen.name);

    return c ? c : memcmp((*x)->seen.id.b, (*y)->seen.id.b, sizeof(*x)->seen.id.b);
}

static void order_hosts(struct head *h)
{
    if (h->n > 0) {
        memcpy(h->named, h->hosts, h->n * sizeof(struct head_host *));
        qsort(h->named, h->n, sizeof(struct head_host *), by_name);
    }
    h->reorder = false;
}

enum err head_prepare(struct head *h)
{
    struct head_state *s;
    enum err e;

    drop_empty_hosts(h);
    if (!h->changed) {
        return ERR_OK;
    }
    for (size_t i = 0; i < h->n; i++) {
        e = h->hosts[i]->changed ? build_snap(h->hosts[i]) : ERR_OK;
        if (e) {
            return e;
        }
    }
    s = mem_alloc(sizeof *s + h->n * sizeof(struct head_snap *));
    if (!s) {
        return ERR_NOMEM;
    }
    if (h->reorder) {
        order_hosts(h);
    }
    atomic_init(&s->refs, 1);
    s->n = h->n;
    for (size_t i = 0; i < h->n; i++) {
        s->snaps[i] = h->named[i]->snap;
        atomic_fetch_add_explicit(&s->snaps[i]->refs, 1, memory_order_relaxed);
    }
    head_view_release(h->next);
    h->next = s;
    h->changed = false;
    return ERR_OK;
}

void head_publish(struct head *h)
{
    struct head_state *old;

    if (!h->next) {
        return;
    }
    os_mutex_lock(h->lock);
    old = h->state;
    h->state = h->next;
    os_mutex_unlock(h->lock);
    h->next = NULL;
    head_view_release(old);
}

void head_stats(const struct head *h, struct head_stats *out)
{
    *out = h->stats;
    out->hosts = h->n;
    out->hot_bytes = h->recent.bytes;
    out->hot_left_out = h->recent.left_out;
}

struct head_state *head_view(struct head *h)
{
    struct head_state *s;

    os_mutex_lock(h->lock);
    s = h->state;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    os_mutex_unlock(h->lock);
    return s;
}

/* -- windows -- */

static int by_window(const void *a, const void *b)
{
    const struct head_window *x = a, *y = b;

    return x->window_ns < y->window_ns ? -1 : x->window_ns > y->window_ns;
}

static size_t count_chunks(const struct head *h)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n; i++) {
        n += h->hosts[i]->n;
    }
    return n;
}

/* Neighbours of one window become one. */
static size_t merge_windows(struct head_window *list, size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        struct head_window *last = k ? &list[k - 1] : NULL;

        if (last && last->window_ns == list[i].window_ns) {
            last->bytes += list[i].bytes;
            last->batches += list[i].batches;
            last->received_ns =
                list[i].received_ns < last->received_ns ? list[i].received_ns : last->received_ns;
        } else {
            list[k++] = list[i];
        }
    }
    return k;
}

enum err head_windows(const struct head *h, struct head_window **list, size_t *n)
{
    struct head_window *found = mem_array(count_chunks(h), sizeof *found);
    size_t k = 0;

    if (!found) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < h->n; i++) {
        for (size_t j = 0; j < h->hosts[i]->n; j++) {
            const struct head_chunk *c = h->hosts[i]->chunks[j];

            if (c->n > 0) {
                found[k++] = (struct head_window){c->window_ns, c->received_ns, c->bytes, c->n};
            }
        }
    }
    if (k > 0) {
        qsort(found, k, sizeof *found, by_window);
    }
    *n = merge_windows(found, k);
    *list = found;
    return ERR_OK;
}

/* -- taking -- */

struct taken_host {
    struct head_taken_host shown;
    size_t n;
    struct head_chunk **chunks; /* in the order of the host's */
};

struct head_taken {
    size_t n;
    struct taken_host hosts[];
};

void head_taken_destroy(struct head_taken *t)
{
    if (!t) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        struct taken_host *x = &t->hosts[i];

        for (size_t j = 0; j < x->n; j++) {
            head_view_chunk_unref(x->chunks[j]);
        }
        head_infos_snap_unref(x->shown.infos);
        mem_free(x->chunks);
        mem_free(x->shown.batches);
    }
    mem_free(t);
}

size_t head_taken_hosts(const struct head_taken *t)
{
    return t->n;
}

const struct head_taken_host *head_taken_host(const struct head_taken *t, size_t i)
{
    return &t->hosts[i].shown;
}

static int by_place(const void *a, const void *b)
{
    const struct head_batch *x = *(const struct head_batch *const *)a;
    const struct head_batch *y = *(const struct head_batch *const *)b;

    if (x->window_ns != y->window_ns) {
        return x->window_ns < y->window_ns ? -1 : 1;
    }
    if (x->t0_ns != y->t0_ns) {
        return x->t0_ns < y->t0_ns ? -1 : 1;
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* What is taken of one window of the host may have memory_max; the first chunk always goes. */
static bool seal_fits(const struct taken_host *x, const struct head_chunk *c, uint64_t memory_max)
{
    uint64_t memory = c->memory;
    bool first = true;

    for (size_t i = 0; i < x->n; i++) {
        if (x->chunks[i]->window_ns == c->window_ns) {
            memory += x->chunks[i]->memory;
            first = false;
        }
    }
    return first || memory <= memory_max;
}

static bool is_of(int64_t window_ns, const int64_t *windows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (windows[i] == window_ns) {
            return true;
        }
    }
    return false;
}

static enum err list_batches(struct taken_host *x)
{
    size_t n = 0;

    for (size_t i = 0; i < x->n; i++) {
        n += x->chunks[i]->n;
    }
    x->shown.batches = mem_array(n, sizeof *x->shown.batches);
    if (!x->shown.batches) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < x->n; i++) {
        for (uint32_t j = 0; j < x->chunks[i]->n; j++) {
            x->shown.batches[x->shown.n++] = x->chunks[i]->at[j];
        }
    }
    qsort(x->shown.batches, n, sizeof *x->shown.batches, by_place);
    return ERR_OK;
}

static enum err take_host(struct taken_host *x, struct head_host *host, const int64_t *windows,
                          size_t n_windows, uint64_t memory_max)
{
    enum err e;

    x->chunks = mem_array(host->n, sizeof *x->chunks);
    if (!x->chunks) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < host->n; i++) {
        struct head_chunk *c = host->chunks[i];

        if (c->n > 0 && is_of(c->window_ns, windows, n_windows) && seal_fits(x, c, memory_max)) {
            c->closed = true;
            head_view_chunk_ref(c);
            x->chunks[x->n++] = c;
        }
    }
    if (x->n == 0) {
        return ERR_OK;
    }
    e = list_batches(x);
    if (!e) {
        e = head_infos_snapshot(host->infos, &x->shown.infos);
    }
    x->shown.id = host->seen.id;
    memcpy(x->shown.name, host->seen.name, sizeof x->shown.name);
    return e;
}

enum err head_take(struct head *h, struct head_taken **out, const int64_t *windows,
                   size_t n_windows, uint64_t memory_max)
{
    struct head_taken *t = mem_zalloc(sizeof *t + h->n * sizeof t->hosts[0]);
    enum err e = t ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; i < h->n && !e; i++) {
        struct taken_host *x = &t->hosts[t->n];

        t->n++;
        e = take_host(x, h->hosts[i], windows, n_windows, memory_max);
        if (!e && x->n == 0) {
            t->n--;
            mem_free(x->chunks);
            *x = (struct taken_host){0};
        }
    }
    if (!e && t->n == 0) {
        e = ERR_NOTFOUND;
    }
    if (e) {
        head_taken_destroy(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

/* -- releasing -- */

static void release_chunk(struct head *h, struct head_host *host, struct head_chunk *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        h->conf.on_release(h->conf.ctx, c->at[i]->file);
    }
    h->stats.batches -= c->n;
    head_host_bytes(h, host, host->bytes - c->bytes);
    host->sealed_first_ns = c->t0_ns < host->sealed_first_ns ? c->t0_ns : host->sealed_first_ns;
    head_view_chunk_unref(c);
}

/* Both lists have the same order. Chunks that were only reserved go too. */
static void release_host(struct head *h, struct head_host *host, const struct taken_host *x)
{
    size_t kept = 0, k = 0;

    for (size_t i = 0; i < host->n; i++) {
        struct head_chunk *c = host->chunks[i];

        if (k < x->n && x->chunks[k] == c) {
            release_chunk(h, host, c);
            k++;
        } else if (c->n == 0) {
            head_view_chunk_unref(c);
        } else {
            host->chunks[kept++] = c;
        }
    }
    host->n = kept;
    host->open = NULL;
    head_touch(h, host);
}

void head_release(struct head *h, const struct head_taken *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct head_host *host = head_host_find(h, &t->hosts[i].shown.id);

        if (host) {
            release_host(h, host, &t->hosts[i]);
        }
    }
}

/* -- what outlives the batches -- */

static const struct uuid *taken_id(const void *taken, size_t i)
{
    return &((const struct head_taken *)taken)->hosts[i].shown.id;
}

static const struct taken_host *find_taken(const struct head_taken *t, const struct uuid *id)
{
    size_t i = t ? uuid_search(id, t->n, taken_id, t) : 0;

    bool found = t && i < t->n && memcmp(t->hosts[i].shown.id.b, id->b, sizeof id->b) == 0;

    return found ? &t->hosts[i] : NULL;
}

/* False: all of it is still in the log. */
static bool record_of(struct head_record *r, const struct head_host *host,
                      const struct taken_host *taken)
{
    const struct head_seen *seen = &host->seen;
    size_t k = 0;

    *r = (struct head_record){
        .id = seen->id,
        .boot = seen->boot,
        .flags = seen->flags,
        .cpus = seen->cpus,
        .first_ns = host->sealed_first_ns,
        .last_ns = seen->last_ns,
        .made_ns = host->made_ns,
        .received_ns = seen->received_ns,
        .clock = seen->clock,
        .batches = seen->batches,
        .lost_events = seen->lost_events,
        .held = seen->held,
        .too_old = seen->too_old,
        .no_room = seen->no_room,
    };
    memcpy(r->name, seen->name, sizeof r->name);
    memcpy(r->source, seen->source, sizeof r->source);
    for (size_t i = 0; i < host->n; i++) {
        const struct head_chunk *c = host->chunks[i];

        if (taken && k < taken->n && taken->chunks[k] == c) {
            r->first_ns = c->t0_ns < r->first_ns ? c->t0_ns : r->first_ns;
            k++;
        } else {
            r->batches -= c->n;
            r->held -= c->n;
            r->lost_events = ledger_sub(r->lost_events, c->lost);
        }
    }
    return r->first_ns != INT64_MAX;
}

enum err head_records(const struct head *h, const struct head_taken *taken,
                      struct head_record **list, size_t *n)
{
    struct head_record *all = mem_array(h->n, sizeof *all);
    size_t k = 0;

    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < h->n; i++) {
        const struct head_host *host = h->hosts[i];

        k += record_of(&all[k], host, find_taken(taken, &host->seen.id));
    }
    *list = all;
    *n = k;
    return ERR_OK;
}

enum err head_restore(struct head *h, const struct head_record *r, struct dedup_counts *counts)
{
    struct head_host *host;
    struct head_seen *seen;
    enum err e = head_host_get(h, &host, &r->id);

    if (e) {
        return e;
    }
    seen = &host->seen;
    host->sealed_first_ns =
        r->first_ns < host->sealed_first_ns ? r->first_ns : host->sealed_first_ns;
    if (r->made_ns < host->made_ns) {
        dedup_counts_unref(counts);
        return ERR_OK;
    }
    seen->boot = r->boot;
    seen->flags = r->flags;
    seen->cpus = r->cpus;
    seen->last_ns = r->last_ns;
    seen->has_alive = false;
    seen->received_ns = r->received_ns;
    seen->clock = r->clock;
    seen->batches = r->batches;
    seen->lost_events = r->lost_events < LEDGER_MAX ? r->lost_events : LEDGER_MAX;
    seen->held = r->held;
    seen->too_old = r->too_old;
    seen->no_room = r->no_room;
    snprintf(seen->name, sizeof seen->name, "%s", r->name);
    snprintf(seen->source, sizeof seen->source, "%s", r->source);
    host->made_ns = r->made_ns;
    head_host_counts(host, counts);
    head_touch(h, host);
    h->reorder = true;
    return ERR_OK;
}

void head_take_counts(struct head *h, struct dedup_counts *(*of)(void *ctx, const struct uuid *id),
                      void *ctx)
{
    for (size_t i = 0; i < h->n; i++) {
        struct head_host *host = h->hosts[i];

        if (!host->counts) {
            head_host_counts(host, of(ctx, &host->seen.id));
            if (host->counts) {
                head_touch(h, host);
            }
        }
    }
}

/* -- retention -- */

uint64_t head_dropped(struct head *h, const struct uuid *id, uint64_t batches, bool by_age)
{
    struct head_host *host = head_host_find(h, id);
    uint64_t n;

    if (!host) {
        return 0;
    }
    n = batches < host->seen.held ? batches : host->seen.held;
    host->seen.held -= n;
    *(by_age ? &host->seen.too_old : &host->seen.no_room) += n;
    head_touch(h, host);
    return n;
}

void head_begins(struct head *h, int64_t from_ns)
{
    for (size_t i = 0; i < h->n; i++) {
        struct head_host *host = h->hosts[i];
        int64_t own_ns = clk_sub(from_ns, host->seen.clock.known ? host->seen.clock.offset_ns : 0);

        if (host->sealed_first_ns == INT64_MAX) {
            continue;
        }
        if (host->made_ns < from_ns) {
            host->sealed_first_ns = INT64_MAX; /* the newest of it is gone */
            head_touch(h, host);
        } else if (host->sealed_first_ns < own_ns && own_ns <= host->seen.last_ns) {
            host->sealed_first_ns = own_ns;
            head_touch(h, host);
        }
    }
}
