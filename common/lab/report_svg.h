/* Plots of reports: SVG within HTML, drawn without a script, that print as they stand. Colours and
 * hatching are the page's (report.c). Texts are escaped here. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_REPORT_SVG_H
#define PROCFLEET_COMMON_LAB_REPORT_SVG_H

#include "common/lab/compare_types.h"

/* Text as HTML and SVG take it, in elements and between double quotes; harmless on a terminal. */
void report_svg_text(struct buf *out, struct str text);

/* Changes with their intervals, one line each: those of these rows that are shares. */
void report_svg_changes(struct buf *out, const struct compare_row *rows, size_t n);

/* What each run had, a dot each, a above b. */
void report_svg_runs(struct buf *out, const struct compare_row *row);

/* How a metric of the groups went over time; losses are hatched. False: it is not in the series. */
bool report_svg_series(struct buf *out, const struct run_series *s, unsigned metric);

/* Who lived when: `most` lives at most, in as many rows as it takes. Returns those drawn. */
size_t report_svg_lives(struct buf *out, const struct run_file *f, size_t most);

#endif
