#include "agent/etl/etl_spans.h"

#include <stddef.h>

static size_t class_of(int64_t ns)
{
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    unsigned log = us ? 63u - (unsigned)__builtin_clzll(us) : 0;
    uint64_t quarter = log >= 2 ? us >> (log - 2) & 3 : 0;
    size_t c = 4 * (size_t)log + quarter;

    return c < ETL_SPANS_CLASSES ? c : ETL_SPANS_CLASSES - 1;
}

void etl_spans_add(struct etl_spans *s, int64_t ns)
{
    s->classes[class_of(ns)]++;
    s->n++;
    s->max_ns = ns > s->max_ns ? ns : s->max_ns;
}

bool etl_spans_share(const struct etl_spans *s, unsigned percent, int64_t *ns)
{
    uint64_t seen = 0;
    size_t c = 0;

    while (c < ETL_SPANS_CLASSES - 1 && (seen += s->classes[c]) * 100 < s->n * percent) {
        c++;
    }
    *ns = (int64_t)((UINT64_C(5) + c % 4) << (c / 4)) * 250;
    *ns = *ns < s->max_ns ? *ns : s->max_ns;
    return s->n > 0;
}
