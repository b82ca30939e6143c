/* Plots of values over time, as text: a graph of dots with axes, or one line of bars. Gaps in the
 * data are gaps in the plot: neighbours are joined only when they are about as far apart as most
 * are. Pure; any thread. */
#ifndef PROCFLEET_COLLECTOR_CLI_PLOT_PLOT_H
#define PROCFLEET_COLLECTOR_CLI_PLOT_PLOT_H

#include "common/base/buf.h"
#include "common/text/table.h"

struct plot_point {
    int64_t when_ns;
    int64_t value;
    bool have; /* false: there was a sample, without this value */
};

struct plot {
    const char *title;
    enum table_unit unit;
    const struct plot_point *points; /* borrowed, oldest first */
    size_t n;
    int64_t first_ns, last_ns; /* what the axis spans; 0, 0: what the points do */
    unsigned columns;          /* of the whole, axis included; at least 20, at most PLOT_COLUMNS */
    unsigned rows;             /* of the graph alone, 1 to PLOT_ROWS */
    bool ascii;
};

#define PLOT_COLUMNS 400u
#define PLOT_ROWS    50u

/* Title with least, largest and last value; the graph; the time axis. Lines that end in a line
 * break. Without a value only the title, which says so. Errors: ERR_NOMEM */
NODISCARD enum err plot_graph(struct buf *out, const struct plot *p);

/* The title and `columns` characters of bars in one line. Errors: ERR_NOMEM */
NODISCARD enum err plot_spark(struct buf *out, const struct plot *p);

/* Only the bars, `columns` of them. Errors: ERR_NOMEM */
NODISCARD enum err plot_bars(struct buf *out, const struct plot *p);

/* Least, largest and last value there is; false when there is none. */
bool plot_range(const struct plot *p, int64_t *least, int64_t *most, int64_t *last);

#endif
