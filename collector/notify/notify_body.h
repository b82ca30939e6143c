/* A notice as JSON, in the formats that targets take. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_BODY_H
#define PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_BODY_H

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/lab/notice.h"

#define NOTIFY_BODY_MAX ((size_t)256 << 10)

/* In the order of the words of targets.*.format. */
enum notify_format {
    NOTIFY_PROCFLEET,        /* one object: what the notice says, by its own names */
    NOTIFY_ALERTMANAGER,     /* what Alertmanager sends to webhooks, version 4 */
    NOTIFY_ALERTMANAGER_API, /* what it takes at /api/v2/alerts: the list of alerts alone */
};

/* NOTIFY_ALERTMANAGER_API: what fires ends at ends_ns unless it is told again before: what is told
 * of no end, Alertmanager ends after its resolve_timeout. */
#define NOTIFY_ENDS_NS (900 * CLK_S)

/* host: of the update it came in; empty: of no single one. target: its name in the settings.
 * Errors are the buffer's. */
void notify_body(struct buf *out, enum notify_format format, struct str host,
                 const struct notice *n, const char *target, int64_t ends_ns);

/* Several as one list of alerts, for NOTIFY_ALERTMANAGER_API. */
struct notify_told {
    struct str host;
    struct notice notice;
};
void notify_body_alerts(struct buf *out, const struct notify_told *list, size_t n, int64_t ends_ns);

#endif
