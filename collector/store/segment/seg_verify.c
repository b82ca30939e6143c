#include <stdlib.h>

#include "collector/store/segment/seg_impl.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

struct known {
    uint64_t at;
    uint64_t order; /* of its key */
};

static int by_at(const void *a, const void *b)
{
    const struct known *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

/* What the directory says, by place; groups that cannot be read are counted as damaged. */
static enum err collect(const struct seg *s, struct known *known, size_t *n, uint64_t *damaged)
{
    for (uint32_t i = 0; i < s->foot.n_groups; i++) {
        const struct seg_group *g = &s->groups[i];
        enum err e = seg_groups_load(s, i, i + 1u);
        const uint8_t *p = atomic_load(&g->entries);

        if (e == ERR_NOMEM) {
            return e;
        }
        if (!p) {
            *damaged += g->count;
            continue;
        }
        for (uint32_t k = 0; k < g->count; k++, p += SEG_ENTRY_BYTES) {
            struct seg_key key = {g->part, g->metric, g->window, cur_at32le(p)};

            known[(*n)++] = (struct known){cur_at64le(p + 8), seg_key_order(key)};
        }
    }
    if (*n > 1) {
        qsort(known, *n, sizeof *known, by_at);
    }
    return ERR_OK;
}

/* Goes through the file record by record; what the directory knows is looked for in its place. */
static enum err scan(const struct seg *s, const struct known *known, size_t n, uint64_t *damaged)
{
    struct seg_scan sc;
    size_t i = 0;
    enum err e = ERR_OK;

    seg_scan_init(&sc, s->file, s->head.seed, seg_head_bytes(s->head.info.n_windows), s->end);
    while (sc.at < sc.end && e != ERR_NOMEM) {
        struct seg_record r;
        uint64_t at = sc.at;
        const uint8_t *p;

        e = seg_scan_record(&sc, &r, &p);
        while (i < n && known[i].at < at) { /* inside another */
            i++;
            (*damaged)++;
        }
        if (e || (i < n && known[i].at == at && known[i].order != seg_key_order(r.key))) {
            (*damaged)++;
        }
        i += i < n && known[i].at == at;
        if (e) {
            sc.at = i < n ? known[i].at : sc.end;
        }
    }
    seg_scan_fini(&sc);
    return e == ERR_NOMEM ? e : ERR_OK;
}

static enum err nothing(void *ctx, const struct seqset_stream *st)
{
    (void)ctx;
    (void)st;
    return ERR_OK;
}

enum err seg_verify(const struct seg *s, uint64_t *values, uint64_t *damaged)
{
    struct known *known = mem_array(s->foot.n_entries, sizeof *known);
    uint64_t bad = 0;
    size_t n = 0;
    enum err e = known ? collect(s, known, &n, &bad) : ERR_NOMEM;

    if (!e) {
        e = scan(s, known, n, &bad);
    }
    mem_free(known);
    if (!e) {
        e = seg_each_ranges(s, nothing, NULL);
        bad += e && e != ERR_NOMEM;
        e = e == ERR_NOMEM ? e : ERR_OK;
    }
    if (!e) {
        *values = s->foot.n_entries;
        *damaged = bad;
    }
    return e;
}
