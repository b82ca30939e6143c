/* OpenMetrics text, as Prometheus reads it: https://prometheus.io/docs/specs/om/open_metrics_spec/
 * A family is one header and then all its samples; the text ends with om_end. Everything is
 * appended to a buf, whose failure latches. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_METRICS_OM_H
#define PROCFLEET_COLLECTOR_METRICS_OM_H

#include "collector/metrics/metrics.h"
#include "common/base/buf.h"
#include "common/model/model.h"

#define OM_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* HELP, TYPE and, where the name ends in one, UNIT. A counter's name ends with _total; a gauge
 * whose name ends with _info becomes an info. */
void om_family(struct buf *out, const char *name, enum metrics_kind kind, const char *help);

/* labels: pairs with commas between them, escaped already, or "". */
void om_sample(struct buf *out, const char *name, const char *labels, double value);

/* Appends name="value" to pairs of labels; what is no UTF-8 in the value becomes '?'. */
void om_label(struct buf *labels, const char *name, struct str value);

/* Families of all metrics; those of one name must lie side by side. */
void om_metrics(struct buf *out, const struct metrics *f);

void om_end(struct buf *out);

#endif
