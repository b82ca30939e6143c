#include "agent/etl/etl_spans.h"

#include <stddef.h>

static size_t class_of(int64_t ns)
{
    uint64_t quarters = ns > 1000 ? (uint64_t)ns / 250 : 4; /* of a microsecond */
    unsigned log = 61u - (unsigned)__builtin_clzll(quarters);
    size_t c = 4 * (size_t)log + (quarters >> log & 3);

    return c < ETL_SPANS_CLASSES ? c : ETL_SPANS_CLASSES - 1;
}

void etl_spans_add(struct etl_spans *s, int64_t ns)
{
    s->classes[class_of(ns)]++;
    s->n++;
    s->max_ns = ns > s->max_ns ? ns : s->max_ns;
}

int64_t etl_spans_share(const struct etl_spans *s, unsigned percent)
{
    uint64_t seen = 0;
    int64_t end;
    size_t c = 0;

    while (c < ETL_SPANS_CLASSES - 1 && (seen += s->classes[c]) * 100 < s->n * percent) {
        c++;
    }
    end = (int64_t)((UINT64_C(5) + c % 4) << (c / 4)) * 250;
    return end < s->max_ns ? end : s->max_ns;
}
