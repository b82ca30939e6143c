/* Outliers of an answer as JSON: one by one, in columns or flat as the command line prints them,
 * and the classes they were found in; as api_json.h says. Threads: any; no state. Private to
 * collector/console. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_API_OUTLIERS_H
#define PROCFLEET_COLLECTOR_CONSOLE_API_OUTLIERS_H

#include "common/text/jsonw.h"
#include "common/wire/wire_outliers.h"
#include "common/wire/wire_query.h"

void api_outliers_json(struct jsonw *j, const struct wire_answer *a, bool rows);

#endif
