#include "collector/store/seal/sealed_seqs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

void sealed_seqs_fini(struct sealed_seqs *x)
{
    mem_free(x->list);
    *x = (struct sealed_seqs){0};
}

struct adding {
    struct sealed_seqs *to;
    int64_t end_ns;
};

static enum err add_stream(void *ctx, const struct seqset_stream *st)
{
    const struct adding *a = ctx;
    struct sealed_seqs *x = a->to;

    enum err e = VEC_ROOM(&x->list, &x->cap, x->n + st->n_ranges, SIZE_MAX); /* of segments */

    if (e) {
        return e;
    }
    for (size_t i = 0; i < st->n_ranges; i++) {
        x->list[x->n++] =
            (struct sealed_seqs_range){st->host, st->stream, st->ranges[i], a->end_ns};
    }
    return ERR_OK;
}

enum err sealed_seqs_add(struct sealed_seqs *x, const struct manifest_list *l, unsigned kind,
                         int64_t since_ns)
{
    size_t n = manifest_segments(l);

    for (size_t i = manifest_lower(l, kind, INT64_MIN); i < n; i++) {
        const struct seg_info *info = manifest_segment(l, i);
        struct adding a = {x, info->window_ns + info->span_ns};
        const struct seg *s;
        enum err e;

        if (info->kind != kind) {
            break;
        }
        if (a.end_ns <= since_ns) {
            continue;
        }
        e = manifest_seg(l, i, &s);
        if (!e) {
            e = seg_each_ranges(s, add_stream, &a);
        }
        if (e == ERR_NOMEM) {
            return e;
        }
        x->unreadable += e != ERR_OK;
    }
    return ERR_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct sealed_seqs_range *x = a, *y = b;
    int c = memcmp(x->host.b, y->host.b, sizeof x->host.b);

    if (c) {
        return c;
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->at.first < y->at.first ? -1 : x->at.first > y->at.first;
}

/* One segment and another tell of the same numbers (tiers beside rows): neighbours are joined, so
 * that the last range that begins at or before a number is the only one that can hold it. */
void sealed_seqs_sort(struct sealed_seqs *x)
{
    size_t k = 0;

    if (x->n == 0) {
        return;
    }
    qsort(x->list, x->n, sizeof *x->list, by_key);
    for (size_t i = 1; i < x->n; i++) {
        struct sealed_seqs_range *last = &x->list[k];
        const struct sealed_seqs_range *next = &x->list[i];

        if (last->stream == next->stream && next->at.first - 1 <= last->at.last &&
            memcmp(last->host.b, next->host.b, sizeof last->host.b) == 0) {
            last->at.last = next->at.last > last->at.last ? next->at.last : last->at.last;
            last->end_ns = next->end_ns > last->end_ns ? next->end_ns : last->end_ns;
        } else {
            x->list[++k] = *next;
        }
    }
    x->n = k + 1;
}

static bool is_of(const struct sealed_seqs_range *r, const struct uuid *host, uint64_t stream)
{
    return r->stream == stream && memcmp(r->host.b, host->b, sizeof host->b) == 0;
}

/* Index of the first range behind those of the stream that begin at or before seq. */
static size_t behind(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                     uint64_t seq)
{
    const struct sealed_seqs_range key = {*host, stream, {seq, seq}, 0};
    size_t i;

    SEARCH_LOWER(i, x->n, by_key(&x->list[i], &key) <= 0);
    return i;
}

bool sealed_seqs_span(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                      uint64_t seq, uint64_t *last)
{
    size_t i = behind(x, host, stream, seq);

    if (i > 0 && is_of(&x->list[i - 1], host, stream) && x->list[i - 1].at.last >= seq) {
        *last = x->list[i - 1].at.last;
        return true;
    }
    *last = i < x->n && is_of(&x->list[i], host, stream) ? x->list[i].at.first - 1 : UINT64_MAX;
    return false;
}

bool sealed_seqs_has(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                     uint64_t seq)
{
    uint64_t last;

    return sealed_seqs_span(x, host, stream, seq, &last);
}

uint64_t sealed_seqs_last(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream)
{
    size_t i = behind(x, host, stream, UINT64_MAX);

    return i > 0 && is_of(&x->list[i - 1], host, stream) ? x->list[i - 1].at.last : 0;
}
