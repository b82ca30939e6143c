/* Spans of time counted in classes a quarter of a power of two wide, from one microsecond on: their
 * median and other shares, exact to a class. Threads: one owner. Caller's storage, zeroed. */
#ifndef PROCFLEET_AGENT_ETL_ETL_SPANS_H
#define PROCFLEET_AGENT_ETL_ETL_SPANS_H

#include <stdint.h>

#include "common/text/table.h"

#define ETL_SPANS_CLASSES 140 /* the last one begins at 8 hours and has no end */

struct etl_spans {
    uint32_t classes[ETL_SPANS_CLASSES];
    uint64_t n;
    int64_t max_ns;
};

void etl_spans_add(struct etl_spans *s, int64_t ns);

/* The upper end of the class that so many percent do not exceed; absent: there are none. */
struct table_cell etl_spans_share(const struct etl_spans *s, unsigned percent);

#endif
