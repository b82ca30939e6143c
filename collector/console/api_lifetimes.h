/* Lifetimes of an answer as JSON, in columns; as api_json.h says. Threads: any; no state.
 * Private to collector/console. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_API_LIFETIMES_H
#define PROCFLEET_COLLECTOR_CONSOLE_API_LIFETIMES_H

#include "common/text/jsonw.h"
#include "common/wire/wire_lifetimes.h"

void api_lifetimes_json(struct jsonw *j, const struct wire_lifetimes *l);

#endif
