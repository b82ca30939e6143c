/* Event streams made of a question that is asked again and again: what the answers of
 * /api/v1/updates say, as server-sent events, and what is asked next. An answer is an object with
 * `cursor`, where to go on, `updates`, a list, and `lost`, how many there were before that nobody
 * can have any more.
 *
 *     event: gap          event: update       event: end
 *     data: {"lost":31}   id: CURSOR          data: {"code":"…","message":"…"}
 *                         data: the answer
 *
 * Private to the folder. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_EVENTS_H
#define PROCFLEET_COMMON_HTTP_HTTP_EVENTS_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/str.h"

#define HTTP_EVENTS_CURSOR 512u /* bytes, at most, which can be seen and need no escape in JSON */

struct http_events_answer {
    struct str cursor; /* borrowed from the answer */
    uint64_t lost;
    bool has_updates, more;
};

/* Errors: ERR_CORRUPT (no JSON object, or no cursor that could be asked for) */
NODISCARD enum err http_events_read(struct http_events_answer *out, struct str json);

/* One member that is a text, of an object; false: it has none, or one with escapes. */
bool http_events_member(struct str *out, struct str json, const char *name);

/* The query for what follows the cursor: `query` without the parameters that are given here. */
void http_events_query(struct buf *out, struct str query, struct str cursor, unsigned wait_s,
                       unsigned max);

/* The answer as events; all: also when it has no updates. */
void http_events_write(struct buf *out, const struct http_events_answer *a, struct str json,
                       bool all);
void http_events_end(struct buf *out, const char *code, const char *message);

#endif
