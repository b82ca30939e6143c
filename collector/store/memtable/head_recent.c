/* Which hot forms are kept, and for how long: those of the host's newest arrivals, in small blocks
 * that come and go as a whole. Readers hold the blocks of their state; a block is freed by whoever
 * lets go of it last. A form is found by the number that its batch has. */
#include <stdlib.h>

#include "collector/store/memtable/head_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define REST_NS (60 * CLK_S) /* silent for so long beyond HEAD_RECENT_NS */

static void recent_unref(struct head_recent *x)
{
    if (atomic_fetch_sub(&x->refs, 1) == 1) {
        for (uint32_t i = 0; i < x->n; i++) {
            recent_columns_destroy(x->at[i]);
        }
        mem_free(x);
    }
}

/* The oldest n blocks go. */
static void drop(struct head *h, struct head_recents *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        r->bytes -= r->at[i]->bytes;
        h->stats.hot_bytes -= r->at[i]->bytes;
        recent_unref(r->at[i]);
    }
    r->n -= n;
    r->first += n * HEAD_RECENT;
    if (r->n) {
        memmove(r->at, r->at + n, r->n * sizeof(struct head_recent *));
    }
}

/* The block that takes the next one; NULL: no memory. */
static struct head_recent *block_get(struct head_recents *r)
{
    struct head_recent *x = r->n ? r->at[r->n - 1] : NULL;

    if (x && x->n < HEAD_RECENT) {
        return x;
    }
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 4;
        struct head_recent **grown = mem_realloc_array(r->at, cap, sizeof(struct head_recent *));

        if (!grown) {
            return NULL;
        }
        r->at = grown;
        r->cap = cap;
    }
    x = mem_zalloc(sizeof *x);
    if (x) {
        atomic_init(&x->refs, 1);
        r->at[r->n++] = x;
    }
    return x;
}

/* The newest arrival. A clock that was set back is followed: nothing else comes so late. */
static int64_t newest_of(int64_t newest_ns, int64_t received_ns)
{
    return received_ns > newest_ns || received_ns < newest_ns - HEAD_RECENT_NS ? received_ns
                                                                               : newest_ns;
}

/* Also what came before the clock was set back. */
static bool is_old(const struct head_recents *r, const struct head_recent *x)
{
    return x->received_ns < r->newest_ns - HEAD_RECENT_NS || x->received_ns > r->newest_ns;
}

/* How many blocks at the beginning are too old or too much; the last one stays. */
static size_t passed(const struct head_recents *r)
{
    size_t bytes = r->bytes, n = 0;

    while (n + 1 < r->n && (bytes > HEAD_RECENT_BYTES || is_old(r, r->at[n]))) {
        bytes -= r->at[n++]->bytes;
    }
    return n;
}

void head_keep_hot(struct head *h, struct head_host *host, struct head_batch *kept,
                   struct recent_columns *hot)
{
    struct head_recents *r = &host->recents;
    size_t bytes = hot ? recent_columns_bytes(hot) : 0;
    bool room = h->stats.hot_bytes + bytes <= h->conf.hot_bytes_max;
    struct head_recent *x = hot && room ? block_get(r) : NULL;

    r->first = r->first ? r->first : 1;
    r->newest_ns = newest_of(r->newest_ns, kept->received_ns);
    h->newest_ns = newest_of(h->newest_ns, kept->received_ns);
    if (x) {
        x->at[x->n++] = hot;
        x->bytes += bytes;
        x->received_ns = kept->received_ns > x->received_ns ? kept->received_ns : x->received_ns;
        r->bytes += bytes;
        h->stats.hot_bytes += bytes;
        kept->hot = r->first + (r->n - 1) * HEAD_RECENT + x->n - 1;
    } else {
        h->stats.hot_left_out += hot != NULL;
        recent_columns_destroy(hot);
    }
    drop(h, r, passed(r));
}

bool head_recents_rest(struct head *h, struct head_host *host)
{
    struct head_recents *r = &host->recents;

    if (r->n == 0 || r->newest_ns >= h->newest_ns - HEAD_RECENT_NS - REST_NS) {
        return false;
    }
    drop(h, r, r->n);
    host->changed = true;
    return true;
}

void head_recents_fini(struct head *h, struct head_host *host)
{
    drop(h, &host->recents, host->recents.n);
    mem_free(host->recents.at);
}

struct head_hots *head_hots_create(const struct head_recents *r)
{
    struct head_hots *hots =
        r->n ? mem_alloc(sizeof *hots + r->n * sizeof(struct head_recent *)) : NULL;

    if (!hots) {
        return NULL;
    }
    hots->first = r->first;
    hots->n = (r->n - 1) * HEAD_RECENT + r->at[r->n - 1]->n;
    hots->n_at = r->n;
    for (size_t i = 0; i < r->n; i++) {
        hots->at[i] = r->at[i];
        atomic_fetch_add_explicit(&r->at[i]->refs, 1, memory_order_relaxed);
    }
    return hots;
}

void head_hots_destroy(struct head_hots *hots)
{
    for (size_t i = 0; hots && i < hots->n_at; i++) {
        recent_unref(hots->at[i]);
    }
    mem_free(hots);
}
