#include "collector/store/memtable/head_seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/memtable/head_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"

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
            head_chunk_unref(x->chunks[j]);
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
static bool fits(const struct taken_host *x, const struct head_chunk *c, uint64_t memory_max)
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

        if (c->n > 0 && is_of(c->window_ns, windows, n_windows) && fits(x, c, memory_max)) {
            c->closed = true;
            head_chunk_ref(c);
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
    head_chunk_unref(c);
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
            head_chunk_unref(c);
        } else {
            host->chunks[kept++] = c;
        }
    }
    host->n = kept;
    host->open = NULL;
    host->changed = true;
    h->changed = true;
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

static const struct taken_host *find_taken(const struct head_taken *t, const struct uuid *id)
{
    size_t lo = 0, hi = t ? t->n : 0;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = memcmp(t->hosts[mid].shown.id.b, id->b, sizeof id->b);

        if (c == 0) {
            return &t->hosts[mid];
        }
        if (c < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return NULL;
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

enum err head_restore(struct head *h, const struct head_record *r, struct seqset_counts *counts)
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
        seqset_counts_unref(counts);
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
    host->changed = true;
    h->changed = true;
    h->reorder = true;
    return ERR_OK;
}

void head_take_counts(struct head *h, struct seqset_counts *(*of)(void *ctx, const struct uuid *id),
                      void *ctx)
{
    for (size_t i = 0; i < h->n; i++) {
        struct head_host *host = h->hosts[i];

        if (!host->counts) {
            head_host_counts(host, of(ctx, &host->seen.id));
            host->changed = host->changed || host->counts;
            h->changed = h->changed || host->counts;
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
    host->changed = true;
    h->changed = true;
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
            host->changed = true;
            h->changed = true;
        } else if (host->sealed_first_ns < own_ns && own_ns <= host->seen.last_ns) {
            host->sealed_first_ns = own_ns;
            host->changed = true;
            h->changed = true;
        }
    }
}
