/* A published state of the head, reference-counted: the last release frees it. */
#include "collector/store/memtable/head_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/search.h"

/* -- letting go -- */

void head_view_chunk_ref(struct head_chunk *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void head_view_chunk_unref(struct head_chunk *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        for (uint32_t i = 0; i < c->n; i++) {
            head_batch_destroy(c->at[i]);
        }
        mem_free(c);
    }
}

void head_view_snap_unref(struct head_snap *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            head_view_chunk_unref(s->parts[i].chunk);
        }
        head_infos_snap_unref(s->infos);
        recent_columns_view_destroy(s->hots);
        dedup_counts_unref(s->counts);
        mem_free(s);
    }
}

void head_view_release(struct head_state *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            head_view_snap_unref(s->snaps[i]);
        }
        mem_free(s);
    }
}

/* -- reading -- */

size_t head_view_hosts(const struct head_state *s)
{
    return s->n;
}

const struct head_seen *head_view_host(const struct head_state *s, size_t i)
{
    return &s->snaps[i]->seen;
}

static int name_order(const struct head_seen *seen, const char *name, const struct uuid *id)
{
    int c = strcmp(seen->name, name);

    return c ? c : memcmp(seen->id.b, id->b, sizeof id->b);
}

size_t head_view_find(const struct head_state *s, const char *name, const struct uuid *id)
{
    size_t i;

    SEARCH_LOWER(i, s->n, name_order(&s->snaps[i]->seen, name, id) < 0);
    return i < s->n && name_order(&s->snaps[i]->seen, name, id) == 0 ? i : s->n;
}

const struct head_batch *head_view_batch(const struct head_state *s, size_t host, uint64_t stream,
                                         uint64_t seq)
{
    const struct head_snap *snap = s->snaps[host];

    for (size_t i = snap->n; i > 0; i--) {
        const struct head_chunk *c = snap->parts[i - 1].chunk;

        for (uint32_t j = snap->parts[i - 1].n; j > 0; j--) {
            if (c->at[j - 1]->seq == seq && c->at[j - 1]->stream == stream) {
                return c->at[j - 1];
            }
        }
    }
    return NULL;
}

const struct recent_columns *head_view_hot(const struct head_state *s, size_t host,
                                           const struct head_batch *b)
{
    return recent_columns_view_at(s->snaps[host]->hots, b->hot);
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
    const struct head_snap *snap = s->snaps[host];
    const struct head_batch **found = mem_array(snap->n * HEAD_CHUNK, sizeof *found);
    size_t k = 0;

    if (!found) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < snap->n; i++) {
        const struct head_chunk *c = snap->parts[i].chunk;

        for (uint32_t j = 0; j < snap->parts[i].n; j++) {
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
