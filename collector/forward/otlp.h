/* OTLP's export requests for metrics and logs as protobuf bytes, and its replies; the messages are
 * in otlp.proto. Threads: any; a request has one owner. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_OTLP_H
#define PROCFLEET_COLLECTOR_FORWARD_OTLP_H

#include <stdbool.h>

#include "collector/forward/program_sums.h"
#include "common/base/buf.h"
#include "common/wire/wire_query.h"

#define OTLP_REQUEST_MAX ((size_t)64 << 20) /* bytes */
#define OTLP_ID_TEXT     33u

/* -- requests: caller's buffers, whose `bad` is looked at once at the end -- */

/* Adds what a host's update has of events as one ResourceLogs. Returns how many. */
size_t otlp_logs(struct buf *out, const struct wire_update *u, int64_t now_ns);

/* Adds rows [from, to) of a tick of a host as one ResourceMetrics: for each metric
 * procfleet.program.NAME, a point for each program, and procfleet.host.NAME of row 0; and how many
 * processes there are. Returns how many points. OTLP_ROWS of them are less than 8 MiB. */
#define OTLP_ROWS 512u
size_t otlp_metrics(struct buf *out, const struct program_sums_tick *t, size_t from, size_t to,
                    const uint8_t *metrics, size_t n_metrics);

/* What tells the event from all others: hash of its host and of all that it says, in hex. */
void otlp_event_id(char text[OTLP_ID_TEXT], const struct uuid *host, const struct life_event *ev);

/* -- replies: from outside -- */

struct otlp_reply {
    uint64_t rejected;  /* data points or records that the server did not take */
    struct str message; /* borrowed from the bytes; made of whole UTF-8 */
};

/* The reply to an export, with 2xx. Errors: ERR_CORRUPT (no such message) */
NODISCARD enum err otlp_reply_read(struct otlp_reply *out, const void *p, size_t n);

/* What a refusal says, of a Status; empty when it is none. */
struct str otlp_status_message(const void *p, size_t n);

#endif
