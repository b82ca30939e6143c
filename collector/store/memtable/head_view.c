/* The readers' side of the head. */
#include <stdlib.h>
#include <string.h>

#include "collector/store/memtable/head_impl.h"
#include "common/base/mem.h"
#include "common/os/os.h"

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

static int name_order(const struct head_seen *seen, const char *name, const struct uuid *id)
{
    int c = strcmp(seen->name, name);

    return c ? c : memcmp(seen->id.b, id->b, sizeof id->b);
}

size_t head_view_find(const struct head_state *s, const char *name, const struct uuid *id)
{
    size_t lo = 0, hi = s->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = name_order(&s->snaps[mid]->seen, name, id);

        if (c == 0) {
            return mid;
        }
        if (c < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return s->n;
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
    const struct head_hots *hots = s->snaps[host]->hots;
    uint64_t i = hots ? b->hot - hots->first : 0;

    return hots && b->hot && i < hots->n ? hots->at[i / HEAD_RECENT]->at[i % HEAD_RECENT] : NULL;
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
