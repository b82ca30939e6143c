/* Plots of a history: the rows of every process are gathered as they come, and drawn at the end,
 * one plot a metric. Bounds: HISTORY_PLOT_ROWS rows and HISTORY_PLOT_PROCESSES processes; what is
 * beyond is counted and told. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_PLOT_HISTORY_PLOT_H
#define PROCFLEET_COLLECTOR_CLI_PLOT_HISTORY_PLOT_H

#include "collector/cli/cli.h"

#define HISTORY_PLOT_ROWS      200000u
#define HISTORY_PLOT_PROCESSES 16u
#define HISTORY_PLOT_LEAST     8u /* points from which on a plot is drawn unasked */

enum history_plot_how {
    HISTORY_PLOT_BRAILLE,
    HISTORY_PLOT_SPARK,
    HISTORY_PLOT_NONE,
    HISTORY_PLOT_MAYBE /* braille, when it is one process with enough points */
};

struct history_plot;

/* step_ns: of the question, 0 = every sample; says what counters are counted in. Errors: ERR_NOMEM
 */
NODISCARD enum err history_plot_create(struct history_plot **out, enum history_plot_how how,
                                       int64_t step_ns);
void history_plot_destroy(struct history_plot *h); /* NULL is allowed */

/* A row of the answer; everything is copied. ctx is a struct history_plot. */
void history_plot_row(void *ctx, const struct wire_answer *a, const struct wire_row *row);

/* ascii: without braille and bars. columns: of what it is printed on. Errors: ERR_NOMEM */
NODISCARD enum err history_plot_print(const struct history_plot *h, FILE *to, unsigned columns,
                                      bool ascii);

#endif
