/* Which sealed windows have sums by group that hold: the window before is the one they were made
 * with, and nothing else lies between or beside, sealed late or not yet sealed. What is older than
 * the rows that are left has none, since the sums go with the rows. */
#include "collector/store/read/store_view.h"
#include "collector/store/read/store_windows.h"
#include "collector/store/segment/seg_readahead.h"
#include "common/base/mem.h"

#define LIST_MEMORY_MAX ((size_t)64 << 20)

/* The oldest stamp of what is not sealed; INT64_MAX: all is. */
static enum err groups_head(const struct store_view *v, size_t host, int64_t since_ns,
                            int64_t until_ns, int64_t *t0_ns)
{
    const struct head_batch **list;
    size_t n;
    enum err e = head_view_batches(v->head, host, since_ns, until_ns, &list, &n);

    *t0_ns = INT64_MAX;
    if (e) {
        return e;
    }
    for (size_t i = 0; i < n; i++) {
        *t0_ns = list[i]->t0_ns < *t0_ns ? list[i]->t0_ns : *t0_ns;
    }
    mem_free(list);
    return ERR_OK;
}

static enum err groups_read(const struct store_view *v, const struct store_window *w,
                            metric_mask metrics, struct arena *memory, struct store_groups *out)
{
    const struct seg_key key = {SEG_PART_GROUPS, 0, w->window, w->host};
    const uint8_t *p;
    size_t n;
    enum err e = seg_readahead_read(store_view_ahead(v), w->seg, memory, &key, 1, &p, &n);

    *out = (struct store_groups){.t0_ns = w->t0_ns, .t1_ns = w->t1_ns};
    if (!e && p) {
        e = group_sums_get(&out->sums, memory, metrics, p, n);
        out->holds = !e;
        out->t0_ns = e ? w->t0_ns : out->sums.t0_ns;
        out->t1_ns = e ? w->t1_ns : out->sums.t1_ns;
    }
    return e == ERR_NOMEM ? e : ERR_OK; /* without them the summaries say it */
}

enum err store_groups_local(const struct store_view *v, size_t host, int64_t since_ns,
                            int64_t until_ns, metric_mask metrics, struct arena *memory,
                            struct store_groups **list, size_t *n)
{
    struct store_used used = {.damaged = 0};
    int64_t head_ns, newest_ns = INT64_MIN;
    struct store_window *windows;
    struct store_groups *out;
    struct arena found;
    size_t all = 0;
    enum err e = groups_head(v, host, since_ns, until_ns, &head_ns);

    *n = 0;
    *list = NULL;
    if (e || (metrics & ~GROUP_SUMS_METRICS)) {
        return e;
    }
    arena_init(&found, LIST_MEMORY_MAX);
    e = store_windows(&windows, &all, &found, v, host, SEG_RAW, since_ns, until_ns, &used);
    out = e || used.damaged ? NULL : arena_array_unset(memory, all + 1, sizeof *out);
    for (size_t i = 0; out && !e && i < all; i++) {
        struct store_groups *g = &out[i];

        e = groups_read(v, &windows[i], metrics, memory, g);
        g->holds = g->holds && i > 0 && g->sums.before_t0_ns == windows[i - 1].t0_ns &&
                   g->sums.before_t1_ns == windows[i - 1].t1_ns && newest_ns < g->t0_ns &&
                   g->t1_ns < head_ns;
        if (i > 0 && g->t0_ns <= g[-1].t1_ns) {
            g[-1].holds = false;
        }
        newest_ns = g->t1_ns > newest_ns ? g->t1_ns : newest_ns;
    }
    arena_fini(&found);
    if (!out || e) {
        return e;
    }
    if (head_ns != INT64_MAX) {
        out[all++] = (struct store_groups){.t0_ns = head_ns, .t1_ns = INT64_MAX};
    }
    *list = out;
    *n = all;
    return ERR_OK;
}
