/*   head (writer)                      state (published, immutable, counted)
 *     host ─ chunks ─ batches            snap ─ the same chunks, how many batches of the last
 *          ─ infos                            ─ snapshot of infos
 *
 * A chunk is filled in place: a published snap knows how many of its batches count, and the writer
 * only puts pointers behind those. Everything shared is counted; whoever lets go last frees. The
 * writer replaces the snaps of hosts that changed and swaps one pointer under `lock`, which guards
 * nothing else. Whole chunks leave at once, so that memory is given back as it is counted. */
#include "collector/head.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/ledger.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/uuid.h"

struct chunk {
    atomic_uint refs;
    uint32_t n; /* the writer's; readers use their snap's */
    uint64_t bytes;
    int64_t t0_ns, t1_ns;
    struct head_batch *at[HEAD_CHUNK];
};

struct snap {
    atomic_uint refs;
    struct head_seen seen;
    struct seqset_counts *counts;
    struct head_infos_snap *infos;
    uint32_t last_n; /* batches of the last chunk */
    size_t n;
    struct chunk *chunks[];
};

struct head_state {
    atomic_uint refs;
    size_t n;
    struct snap *snaps[];
};

struct head_host {
    struct head_seen seen;
    struct seqset_counts *counts;
    struct head_infos *infos;
    int64_t newest_ns;     /* of the batch that `boot` and `flags` are from */
    struct chunk **chunks; /* oldest first */
    size_t n, cap;
    bool changed;
    struct snap *snap; /* as last built; NULL at first */
};

struct head {
    struct head_conf conf;
    struct head_host **hosts; /* by id */
    struct head_host **named; /* the same by name, then id */
    size_t n, cap;
    bool changed, reorder;
    struct head_stats stats;
    struct head_state *next; /* built, not published */
    struct os_mutex *lock;   /* guards `state`, the pointer */
    struct head_state *state;
};

enum err head_batch_create(struct head_batch **out, const void *bytes, size_t n)
{
    struct head_batch *b = mem_alloc(sizeof *b + n);

    if (!b) {
        return ERR_NOMEM;
    }
    memset(b, 0, sizeof *b);
    b->n = n;
    memcpy(b->bytes, bytes, n);
    *out = b;
    return ERR_OK;
}

void head_batch_destroy(struct head_batch *b)
{
    mem_free(b);
}

void head_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns)
{
    int64_t t0 = now_ns, t1 = now_ns;

    if (b->n_ticks > 0) {
        t0 = b->wall_ns[0];
        t1 = b->wall_ns[b->n_ticks - 1];
    } else if (b->n_events > 0) {
        t0 = t1 = b->events[0].wall_ns;
    }
    for (size_t i = 0; i < b->n_events; i++) {
        t0 = b->events[i].wall_ns < t0 ? b->events[i].wall_ns : t0;
        t1 = b->events[i].wall_ns > t1 ? b->events[i].wall_ns : t1;
    }
    *t0_ns = t0;
    *t1_ns = t1;
}

/* -- letting go -- */

static void chunk_unref(struct chunk *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        for (uint32_t i = 0; i < c->n; i++) {
            head_batch_destroy(c->at[i]);
        }
        mem_free(c);
    }
}

static void snap_unref(struct snap *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            chunk_unref(s->chunks[i]);
        }
        head_infos_snap_unref(s->infos);
        seqset_counts_unref(s->counts);
        mem_free(s);
    }
}

void head_view_release(struct head_state *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            snap_unref(s->snaps[i]);
        }
        mem_free(s);
    }
}

static void host_destroy(struct head_host *host)
{
    if (host) {
        for (size_t i = 0; i < host->n; i++) {
            chunk_unref(host->chunks[i]);
        }
        mem_free(host->chunks);
        head_infos_destroy(host->infos);
        seqset_counts_unref(host->counts);
        snap_unref(host->snap);
        mem_free(host);
    }
}

void head_destroy(struct head *h)
{
    if (h) {
        for (size_t i = 0; i < h->n; i++) {
            host_destroy(h->hosts[i]);
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

static enum err hosts_room(struct head *h)
{
    size_t cap = h->cap ? h->cap * 2 : 16;
    struct head_host **grown;

    if (h->n < h->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(h->hosts, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    h->hosts = grown;
    grown = mem_realloc_array(h->named, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    h->named = grown;
    h->cap = cap;
    return ERR_OK;
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
    host->seen.id = *id;
    at = host_index(h, id);
    memmove(h->hosts + at + 1, h->hosts + at, (h->n - at) * sizeof(struct head_host *));
    h->hosts[at] = host;
    h->n++;
    h->changed = true;
    h->reorder = true;
    *out = host;
    return ERR_OK;
}

static enum err host_get(struct head *h, struct head_host **out, const struct uuid *id)
{
    size_t i = host_index(h, id);

    if (i < h->n && memcmp(h->hosts[i]->seen.id.b, id->b, sizeof id->b) == 0) {
        *out = h->hosts[i];
        return ERR_OK;
    }
    return host_create(h, out, id);
}

/* Room for one batch more at the end. */
static enum err chunk_room(struct head_host *host)
{
    struct chunk *c;

    if (host->n > 0 && host->chunks[host->n - 1]->n < HEAD_CHUNK) {
        return ERR_OK;
    }
    if (host->n == host->cap) {
        size_t cap = host->cap ? host->cap * 2 : 8;
        struct chunk **grown = mem_realloc_array(host->chunks, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        host->chunks = grown;
        host->cap = cap;
    }
    c = mem_zalloc(sizeof *c);
    if (!c) {
        return ERR_NOMEM;
    }
    atomic_init(&c->refs, 1);
    host->chunks[host->n++] = c;
    return ERR_OK;
}

static enum err merge_infos(struct head_host *host, const struct batch *b, int64_t t1_ns)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < b->n_infos && !e; i++) {
        e = head_infos_merge(host->infos, &b->head.boot, &b->infos[i], t1_ns);
    }
    for (size_t i = 0; i < b->n_events && !e; i++) {
        e = head_infos_merge(host->infos, &b->head.boot, &b->events[i].info, t1_ns);
    }
    return e;
}

enum err head_reserve(struct head *h, struct head_host **host, const char *host_name,
                      const struct batch *b, struct seqset_counts *counts, int64_t t1_ns)
{
    struct head_host *found;
    enum err e = host_get(h, &found, &b->head.host);

    if (!e) {
        e = chunk_room(found);
    }
    if (!e) {
        e = merge_infos(found, b, t1_ns);
    }
    if (e) {
        return e;
    }
    if (strcmp(found->seen.name, host_name) != 0) {
        snprintf(found->seen.name, sizeof found->seen.name, "%s", host_name);
        h->reorder = true;
    }
    seqset_counts_unref(found->counts);
    found->counts = counts;
    *host = found;
    return ERR_OK;
}

static uint64_t losses(const struct batch *b)
{
    uint64_t lost = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        lost += ledger_is_loss(b->ledger[i].reason) ? b->ledger[i].count : 0;
    }
    return lost;
}

void head_append(struct head *h, struct head_host *host, const struct batch *b,
                 struct head_batch *kept)
{
    struct chunk *c = host->chunks[host->n - 1];
    uint64_t bytes = sizeof *kept + kept->n;
    struct head_seen *seen = &host->seen;

    c->t0_ns = c->n == 0 || kept->t0_ns < c->t0_ns ? kept->t0_ns : c->t0_ns;
    c->t1_ns = c->n == 0 || kept->t1_ns > c->t1_ns ? kept->t1_ns : c->t1_ns;
    c->at[c->n++] = kept;
    c->bytes += bytes;
    h->stats.bytes += bytes;
    h->stats.batches++;
    if (seen->batches == 0 || kept->t1_ns >= host->newest_ns) {
        host->newest_ns = kept->t1_ns;
        seen->boot = b->head.boot;
        seen->flags = b->head.flags;
        seen->cpus = b->head.cpus;
        snprintf(seen->source, sizeof seen->source, "%.*s", (int)b->head.source.n,
                 b->head.source.p);
    }
    seen->received_ns =
        kept->received_ns > seen->received_ns ? kept->received_ns : seen->received_ns;
    seen->batches++;
    seen->lost_events += losses(b);
    host->changed = true;
    h->changed = true;
}

/* -- writer: limits -- */

static void drop_chunk(struct head *h, struct head_host *host)
{
    struct chunk *c = host->chunks[0];

    for (uint32_t i = 0; i < c->n; i++) {
        h->conf.on_drop(h->conf.ctx, c->at[i]->file);
    }
    h->stats.bytes -= c->bytes;
    h->stats.batches -= c->n;
    h->stats.dropped_batches += c->n;
    host->n--;
    memmove(host->chunks, host->chunks + 1, host->n * sizeof(struct chunk *));
    chunk_unref(c);
    host->changed = true;
    h->changed = true;
}

static struct head_host *oldest_host(const struct head *h)
{
    struct head_host *oldest = NULL;

    for (size_t i = 0; i < h->n; i++) {
        struct head_host *x = h->hosts[i];

        if (x->n > 0 && (!oldest || x->chunks[0]->t1_ns < oldest->chunks[0]->t1_ns)) {
            oldest = x;
        }
    }
    return oldest;
}

void head_retain(struct head *h, int64_t now_ns)
{
    for (size_t i = 0; i < h->n; i++) {
        struct head_host *x = h->hosts[i];

        while (x->n > 0 && x->chunks[0]->n > 0 &&
               x->chunks[0]->t1_ns < now_ns - h->conf.age_max_ns) {
            drop_chunk(h, x);
        }
    }
    while (h->stats.bytes > h->conf.bytes_max) {
        drop_chunk(h, oldest_host(h));
    }
}

/* Hosts without batches go. */
static void drop_empty_hosts(struct head *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->n; i++) {
        struct head_host *x = h->hosts[i];

        if (x->n > 0 && x->chunks[0]->n > 0) {
            h->hosts[kept++] = x;
        } else {
            host_destroy(x);
            h->changed = true;
            h->reorder = true;
        }
    }
    h->n = kept;
}

/* -- writer: the next state -- */

static enum err build_snap(struct head_host *host)
{
    struct snap *s = mem_zalloc(sizeof *s + host->n * sizeof(struct chunk *));
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
    s->seen.first_ns = host->chunks[0]->t0_ns;
    s->seen.last_ns = host->chunks[0]->t1_ns;
    s->n = host->n;
    for (size_t i = 0; i < host->n; i++) {
        struct chunk *c = host->chunks[i];

        s->chunks[i] = c;
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
        if (c->n > 0) { /* the last one may only be reserved */
            s->seen.first_ns = c->t0_ns < s->seen.first_ns ? c->t0_ns : s->seen.first_ns;
            s->seen.last_ns = c->t1_ns > s->seen.last_ns ? c->t1_ns : s->seen.last_ns;
        }
    }
    s->last_n = host->chunks[host->n - 1]->n;
    atomic_fetch_add_explicit(&host->counts->refs, 1, memory_order_relaxed);
    s->counts = host->counts;
    s->seen.counts = s->counts;
    s->seen.infos = s->infos;
    snap_unref(host->snap);
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

enum err head_prepare(struct head *h, int64_t now_ns)
{
    struct head_state *s;
    enum err e;

    head_retain(h, now_ns);
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
    s = mem_alloc(sizeof *s + h->n * sizeof(struct snap *));
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
}

/* -- readers -- */

struct head_state *head_view(struct head *h)
{
    struct head_state *s;

    os_mutex_lock(h->lock);
    s = h->state;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    os_mutex_unlock(h->lock);
    return s;
}

size_t head_view_hosts(const struct head_state *s)
{
    return s->n;
}

const struct head_seen *head_view_host(const struct head_state *s, size_t i)
{
    return &s->snaps[i]->seen;
}

static int by_time(const void *a, const void *b)
{
    const struct head_batch *const *x = a, *const *y = b;

    if ((*x)->t0_ns != (*y)->t0_ns) {
        return (*x)->t0_ns < (*y)->t0_ns ? -1 : 1;
    }
    return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

enum err head_view_batches(const struct head_state *s, size_t host, int64_t since_ns,
                           int64_t until_ns, const struct head_batch ***list, size_t *n)
{
    const struct snap *snap = s->snaps[host];
    const struct head_batch **found = mem_array(snap->n * HEAD_CHUNK, sizeof *found);
    size_t k = 0;

    if (!found) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < snap->n; i++) {
        const struct chunk *c = snap->chunks[i];
        uint32_t count = i + 1 == snap->n ? snap->last_n : HEAD_CHUNK;

        for (uint32_t j = 0; j < count; j++) {
            if (c->at[j]->t0_ns < until_ns && c->at[j]->t1_ns >= since_ns) {
                found[k++] = c->at[j];
            }
        }
    }
    qsort(found, k, sizeof *found, by_time);
    *list = found;
    *n = k;
    return ERR_OK;
}
