/*   head (writer)                      state (published, immutable, counted)
 *     host ─ chunks ─ batches            snap ─ the same chunks, how many batches of each
 *          ─ infos                            ─ snapshot of infos
 *
 * A chunk is filled in place: a published snap knows how many of its batches count, and the writer
 * only puts pointers behind those. Everything shared is counted; whoever lets go last frees. The
 * writer replaces the snaps of hosts that changed and swaps one pointer under `lock`, which guards
 * nothing else. A chunk holds batches of one window: sealing takes and releases whole chunks, and
 * what comes after it was taken goes into another one (head_seal.c). */
#include "collector/store/memtable/head.h"

#include <stdio.h>
#include <stdlib.h>

#include "collector/store/memtable/head_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define LOOK_BACK 64u

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

int64_t head_made(int64_t t1_ns, const struct host_offset *clock, int64_t received_ns)
{
    int64_t made_ns = clock->known ? clk_add(t1_ns, clock->offset_ns) : t1_ns;

    return made_ns < received_ns ? made_ns : received_ns;
}

/* Was the batch made after all of the host so far? What came at one moment is told apart by its
 * stamps. */
static bool newest(const struct head_host *host, const struct head_batch *b)
{
    return host->seen.batches == 0 ||
           (b->made_ns != host->made_ns ? b->made_ns > host->made_ns
                                        : b->t1_ns >= host->seen.last_ns);
}

/* -- letting go -- */

void head_chunk_ref(struct head_chunk *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void head_chunk_unref(struct head_chunk *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        for (uint32_t i = 0; i < c->n; i++) {
            head_batch_destroy(c->at[i]);
        }
        mem_free(c);
    }
}

static void snap_unref(struct head_snap *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            head_chunk_unref(s->parts[i].chunk);
        }
        head_infos_snap_unref(s->infos);
        head_hots_destroy(s->hots);
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

static void host_destroy(struct head *h, struct head_host *host)
{
    if (host) {
        head_recents_fini(h, host);
        for (size_t i = 0; i < host->n; i++) {
            head_chunk_unref(host->chunks[i]);
        }
        mem_free(host->chunks);
        head_infos_destroy(host->infos);
        h->stats.info_bytes -= host->info_bytes;
        h->stats.busy -= host->bytes > 0;
        seqset_counts_unref(host->counts);
        snap_unref(host->snap);
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

struct head_host *head_host_find(const struct head *h, const struct uuid *id)
{
    size_t i = host_index(h, id);

    return i < h->n && memcmp(h->hosts[i]->seen.id.b, id->b, sizeof id->b) == 0 ? h->hosts[i]
                                                                                : NULL;
}

void head_host_bytes(struct head *h, struct head_host *host, uint64_t bytes)
{
    h->stats.bytes += bytes - host->bytes;
    h->stats.busy += bytes > 0;
    h->stats.busy -= host->bytes > 0;
    host->bytes = bytes;
    if (host->counts) {
        atomic_store(&host->counts->head_bytes, bytes);
    }
}

void head_host_counts(struct head_host *host, struct seqset_counts *counts)
{
    seqset_counts_unref(host->counts);
    host->counts = counts;
    if (counts) {
        atomic_store(&counts->head_bytes, host->bytes);
    }
}

enum err head_host_get(struct head *h, struct head_host **out, const struct uuid *id)
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

    host->open = chunk_find(host, b);
    if (host->open) {
        return ERR_OK;
    }
    if (host->n == host->cap) {
        size_t cap = host->cap ? host->cap * 2 : 8;
        struct head_chunk **grown = mem_realloc_array(host->chunks, cap, sizeof *grown);

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

/* Whoever has most gives way, a half each time, so that a wordy host costs no other its names. */
static enum err bound_infos(struct head *h)
{
    enum err e = ERR_OK;

    while (!e && h->conf.info_max && h->stats.info_bytes > h->conf.info_max) {
        struct head_host *host = largest_infos(h);
        uint64_t before = host->info_bytes;

        e = head_infos_shrink(host->infos, before / 2);
        count_infos(h, host);
        host->changed = true;
        h->changed = true;
        if (host->info_bytes >= before) {
            break; /* they are as many small ones as that */
        }
    }
    return e;
}

static enum err merge_events(struct head_host *host, const struct batch *b, int64_t t1_ns,
                             bool last)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < b->n_events && !e; i++) {
        const struct life_event *ev = &b->events[i];

        if (!life_is_of_host(ev->kind) && head_info_is_last(ev) == last) {
            e = head_infos_merge(host->infos, &b->head.boot, &ev->info, head_info_when(ev, t1_ns));
        }
    }
    return e;
}

/* In the order of time (head_info.h). */
static enum err merge_infos(struct head_host *host, const struct batch *b, int64_t t1_ns)
{
    enum err e = merge_events(host, b, t1_ns, false);

    for (size_t i = 0; i < b->n_infos && !e; i++) {
        e = head_infos_merge(host->infos, &b->head.boot, &b->infos[i], t1_ns);
    }
    return e ? e : merge_events(host, b, t1_ns, true);
}

enum err head_reserve(struct head *h, struct head_host **host, const char *host_name,
                      const struct batch *b, struct seqset_counts *counts,
                      const struct head_batch *kept)
{
    struct head_host *found;
    enum err e = head_host_get(h, &found, &b->head.host);

    if (!e) {
        e = chunk_room(found, kept);
    }
    if (!e) {
        e = merge_infos(found, b, kept->t1_ns);
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

static uint64_t losses(const struct batch *b)
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
    uint64_t bytes = head_batch_held(kept), lost = losses(b);
    struct head_seen *seen = &host->seen;

    c->t0_ns = kept->t0_ns < c->t0_ns ? kept->t0_ns : c->t0_ns;
    c->received_ns = c->n == 0 ? kept->received_ns : c->received_ns;
    c->at[c->n++] = kept;
    c->bytes += bytes;
    c->memory += kept->memory;
    c->lost = ledger_add(c->lost, lost);
    h->stats.batches++;
    head_host_bytes(h, host, host->bytes + bytes);
    if (newest(host, kept)) {
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
    host->changed = true;
    h->changed = true;
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
            h->changed |= head_recents_rest(h, x);
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
        head_chunk_ref(c);
        s->seen.first_ns = c->t0_ns < s->seen.first_ns ? c->t0_ns : s->seen.first_ns;
    }
    s->hots = head_hots_create(&host->recents);
    s->counts = host->counts;
    if (s->counts) {
        atomic_fetch_add_explicit(&s->counts->refs, 1, memory_order_relaxed);
    }
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
}
