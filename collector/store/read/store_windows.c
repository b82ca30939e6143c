#include "collector/store/read/store_windows.h"

#include <stdlib.h>

#include "collector/store/read/store_unread.h"
#include "collector/store/read/store_view.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

struct finding {
    struct arena *memory;
    const struct uuid *id;
    unsigned kind;
    int64_t since_ns, until_ns;
    struct store_window *list;
    size_t n, cap;
};

static enum err window_add(struct finding *f, const struct store_window *w)
{
    if (f->n == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 32;
        struct store_window *more = arena_array_unset(f->memory, cap, sizeof *more);

        if (!more) {
            return arena_refused(f->memory, cap * sizeof *more);
        }
        if (f->n) {
            memcpy(more, f->list, f->n * sizeof *more);
        }
        f->list = more;
        f->cap = cap;
    }
    f->list[f->n++] = *w;
    return ERR_OK;
}

/* The host's windows in one segment. */
static enum err look_into(struct finding *f, const struct seg *seg)
{
    const struct seg_info *info = seg_info_of(seg);
    size_t host = seg_find_host(seg, f->id);
    const struct seg_host *h = host < seg_hosts(seg) ? seg_host(seg, host) : NULL;
    enum err e = ERR_OK;

    for (uint8_t i = 0; h && !e && i < info->n_windows; i++) {
        const struct seg_span *at = &h->at[i];

        if (at->t1_ns >= at->t0_ns && at->t0_ns < f->until_ns && at->t1_ns >= f->since_ns) {
            struct store_window w = {.seg = seg,
                                     .kind = (uint8_t)f->kind,
                                     .window = i,
                                     .host = (uint32_t)host,
                                     .number = info->number,
                                     .window_ns = seg_window(seg, i),
                                     .t0_ns = at->t0_ns,
                                     .t1_ns = at->t1_ns};

            e = window_add(f, &w);
        }
    }
    return e;
}

static int by_stamps(const void *a, const void *b)
{
    const struct store_window *x = a, *y = b;

    if (x->t0_ns != y->t0_ns) {
        return x->t0_ns < y->t0_ns ? -1 : 1;
    }
    if (x->t1_ns != y->t1_ns) {
        return x->t1_ns < y->t1_ns ? -1 : 1;
    }
    if (x->window_ns != y->window_ns) {
        return x->window_ns < y->window_ns ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

/* -- what need not be opened -- */

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

void store_windows_sort(void *list, size_t n, size_t size, int (*order)(const void *, const void *))
{
    const char *at = list;

    for (size_t i = 1; i < n; i++, at += size) {
        if (order(at, at + size) > 0) {
            qsort(list, n, size, order);
            return;
        }
    }
}

static bool may_hold(const struct seg_info *info, int64_t since_ns, int64_t until_ns)
{
    return info->t0_ns < until_ns && info->t1_ns >= since_ns;
}

enum err store_windows_covered(struct store_covered *out, struct arena *memory,
                               const struct store_view *v, int64_t since_ns, int64_t until_ns)
{
    size_t end = v->segments ? manifest_lower(v->segments, SEG_RAW + 1, INT64_MIN) : 0;
    size_t begin = v->segments ? manifest_lower(v->segments, SEG_RAW, INT64_MIN) : 0, room = 0;
    enum err e = ERR_OK;

    for (size_t i = begin; i < end; i++) {
        room += manifest_segment(v->segments, i)->n_windows;
    }
    *out = (struct store_covered){.windows = arena_array(memory, room, sizeof *out->windows)};
    if (!out->windows) {
        return ERR_FULL;
    }
    for (size_t i = begin; i < end && !e; i++) {
        const struct seg_info *info = manifest_segment(v->segments, i);
        const struct seg *seg;

        if (may_hold(info, since_ns, until_ns)) {
            e = manifest_seg(v->segments, i, &seg); /* the caller opens it anyway */
            for (unsigned k = 0; !e && !info->patch && k < info->n_windows; k++) {
                out->windows[out->n++] = seg_window(seg, k);
            }
            e = store_unread_is(e) ? ERR_OK : e;
        } else if (info->n_windows == 1 && !info->patch) {
            out->windows[out->n++] = info->window_ns;
        }
    }
    store_windows_sort(out->windows, out->n, sizeof *out->windows, by_number);
    return e;
}

static bool is_covered(const struct store_covered *c, const struct seg_info *info)
{
    if (!c || !c->n || info->patch || info->span_ns <= 0 ||
        info->span_ns > SEG_WINDOWS_MAX * WINDOW_NS) {
        return false;
    }
    for (int64_t at = 0; at < info->span_ns; at += WINDOW_NS) {
        int64_t window = info->window_ns + at;

        if (!bsearch(&window, c->windows, c->n, sizeof window, by_number)) {
            return false;
        }
    }
    return true;
}

static enum err broken_add(struct store_beside *b, struct arena *memory,
                           const struct seg_info *info)
{
    if (b->n_broken == b->cap_broken) {
        size_t cap = b->cap_broken ? b->cap_broken * 2 : 8;
        struct store_broken *more = arena_array(memory, cap, sizeof *more);

        if (!more) {
            return arena_refused(memory, cap * sizeof *more);
        }
        if (b->n_broken) {
            memcpy(more, b->broken, b->n_broken * sizeof *more);
        }
        b->broken = more;
        b->cap_broken = cap;
    }
    b->broken[b->n_broken++] =
        (struct store_broken){info->kind, info->window_ns, clk_add(info->window_ns, info->span_ns)};
    return ERR_OK;
}

/* A segment cannot be opened. Nothing of it is missing when rows hold the same, or when it is from
 * before the host's first batch. */
static enum err left_out(const struct store_view *v, size_t host, struct store_used *used,
                         const struct seg_info *info, struct store_beside *beside,
                         struct arena *memory, enum err why)
{
    int64_t first_ns = v->hosts[host].first_ns;
    bool before = info->t1_ns < first_ns;

    used = before || is_covered(beside->covered, info) ? NULL : used;
    store_view_unread(v, host, used, STORE_UNREAD_SEGMENT,
                      used && first_ns > info->t0_ns ? first_ns : info->t0_ns, info->t1_ns, why);
    return before ? ERR_OK : broken_add(beside, memory, info);
}

bool store_windows_meet(int64_t window_ns, int64_t span_ns, int64_t since_ns, int64_t until_ns)
{
    return since_ns == until_ns || (window_ns < until_ns && clk_add(window_ns, span_ns) > since_ns);
}

int64_t store_view_made(const struct store_view *v, int64_t from_ns)
{
    static const unsigned kinds[] = {SEG_RAW, SEG_REST, SEG_PROVIDER};
    int64_t first_ns = INT64_MAX;

    for (size_t k = 0; v->segments && k < sizeof kinds / sizeof *kinds; k++) {
        size_t end = manifest_lower(v->segments, kinds[k] + 1, INT64_MIN);

        for (size_t i = manifest_lower(v->segments, kinds[k], INT64_MIN); i < end; i++) {
            const struct seg_info *info = manifest_segment(v->segments, i);

            if (clk_add(info->window_ns, info->span_ns) > from_ns && info->window_ns < first_ns) {
                first_ns = info->window_ns;
            }
        }
    }
    for (size_t host = 0; first_ns > from_ns && host < store_view_hosts(v); host++) {
        const struct head_batch **list;
        size_t n;

        if (head_view_batches(v->head, host, INT64_MIN, INT64_MAX, &list, &n)) {
            return from_ns;
        }
        for (size_t i = 0; i < n; i++) {
            if (list[i]->made_ns >= from_ns && list[i]->made_ns < first_ns) {
                first_ns = list[i]->made_ns;
            }
        }
        mem_free(list);
    }
    return first_ns > from_ns ? first_ns : from_ns;
}

enum err store_windows(struct store_window **list, size_t *n, struct arena *memory,
                       const struct store_view *v, size_t host, unsigned kind, int64_t since_ns,
                       int64_t until_ns, struct store_used *used)
{
    const int64_t range_ns[2] = {since_ns, until_ns};
    struct store_beside beside = {.covered = NULL};

    return store_windows_beside(list, n, memory, v, host, kind, range_ns, &beside, used);
}

enum err store_windows_beside(struct store_window **list, size_t *n, struct arena *memory,
                              const struct store_view *v, size_t host, unsigned kind,
                              const int64_t range_ns[2], struct store_beside *beside,
                              struct store_used *used)
{
    struct finding f = {.memory = memory,
                        .id = &v->hosts[host].id,
                        .kind = kind,
                        .since_ns = range_ns[0],
                        .until_ns = range_ns[1]};
    size_t i = v->segments ? manifest_lower(v->segments, kind, INT64_MIN) : 0;
    size_t end = v->segments ? manifest_lower(v->segments, kind + 1, INT64_MIN) : 0;
    enum err e = ERR_OK;

    for (; !e && i < end; i++) {
        const struct seg_info *info = manifest_segment(v->segments, i);
        size_t before = f.n;
        const struct seg *seg;

        if (!may_hold(info, f.since_ns, f.until_ns) ||
            !store_windows_meet(info->window_ns, info->span_ns, beside->window_since_ns,
                                beside->window_until_ns)) {
            continue;
        }
        if (beside->covered && beside->covered->pass && is_covered(beside->covered, info)) {
            beside->passed = true;
            continue;
        }
        e = manifest_seg(v->segments, i, &seg);
        if (store_unread_is(e)) {
            e = left_out(v, host, used, info, beside, memory, e);
            continue;
        }
        e = e ? e : look_into(&f, seg);
        for (; !e && before < f.n; before++) { /* the manifest's word is newer than the file's */
            f.list[before].in_hour = info->in_hour;
        }
    }
    if (!e) {
        store_windows_sort(f.list, f.n, sizeof *f.list, by_stamps);
    }
    if (!e) {
        *list = f.list;
        *n = f.n;
    }
    return e;
}

bool store_windows_whole(const struct store_window *w, const struct store_cells *ask)
{
    int64_t end_ns = w ? clk_add(w->window_ns, WINDOW_NS) : 0;

    if (!w || w->window_ns >= ask->until_ns || end_ns <= ask->since_ns) {
        return w;
    }
    return ask->since_ns <= w->window_ns && ask->until_ns >= end_ns &&
           (!ask->step_ns || w->window_ns / ask->step_ns == (end_ns - 1) / ask->step_ns);
}
