#include "agent/etl/etl_spans.h"

#include <stddef.h>

static size_t class_of(int64_t ns)
{
    uint64_t quarters = ns > 0 ? (uint64_t)ns / 250 : 0; /* of a microsecond */
    unsigned log = quarters >= 4 ? 61u - (unsigned)__builtin_clzll(quarters) : 0;
    size_t c = quarters >= 4 ? 4 * (size_t)log + (quarters >> log & 3) : 0;

    return c < ETL_SPANS_CLASSES ? c : ETL_SPANS_CLASSES - 1;
}

void etl_spans_add(struct etl_spans *s, int64_t ns)
{
    s->classes[class_of(ns)]++;
    s->n++;
    s->max_ns = ns > s->max_ns ? ns : s->max_ns;
}

struct table_cell etl_spans_share(const struct etl_spans *s, unsigned percent)
{
    uint64_t seen = 0;
    int64_t ns;
    size_t c = 0;

    while (c < ETL_SPANS_CLASSES - 1 && (seen += s->classes[c]) * 100 < s->n * percent) {
        c++;
    }
    ns = (int64_t)((UINT64_C(5) + c % 4) << (c / 4)) * 250;
    return table_number(s->n > 0, c < ETL_SPANS_CLASSES - 1 && ns < s->max_ns ? ns : s->max_ns);
}
