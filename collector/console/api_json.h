/* Answers of the API as JSON, written straight from the answer into a buffer: the values are those
 * of the command line's JSON (common/text/field.h, table_put_json), what is absent is null. UTC ns
 * and whatever may pass 2^53 are strings, columns of times are milliseconds with a fraction. Text
 * from hosts is repaired and escaped by jsonw. Failures are the buffer's (`bad`), for the caller to
 * look at. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_API_JSON_H
#define PROCFLEET_COLLECTOR_CONSOLE_API_JSON_H

#include "collector/query/query.h"
#include "common/wire/wire_feed.h"

/* rows: flat objects, as the command line prints them, in place of columns; time_ms beside time */
void api_json_answer(struct buf *out, enum query_kind kind, const struct wire_query *q,
                     const struct query_answer *a, bool rows);
void api_json_updates(struct buf *out, const struct wire_poll_reply *reply);

#endif
