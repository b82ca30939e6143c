/* A notice as JSON, in the formats that targets take. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_BODY_H
#define PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_BODY_H

#include "common/base/buf.h"
#include "common/lab/notice.h"

#define NOTIFY_BODY_MAX ((size_t)256 << 10)

/* In the order of the words of targets.*.format. */
enum notify_format {
    NOTIFY_PROCFLEET,        /* one object: what the notice says, by its own names */
    NOTIFY_ALERTMANAGER,     /* what Alertmanager sends to webhooks, version 4 */
    NOTIFY_ALERTMANAGER_API, /* what it takes at /api/v2/alerts: the list of alerts alone */
};

/* What it is about, for the alert's fingerprint: a hash of rule, host and subject. */
#define NOTIFY_KEY_TEXT 17u
void notify_body_key(char text[NOTIFY_KEY_TEXT], struct str host, const struct notice *n);

/* host: of the update it came in; empty: of no single one. target: its name in the settings.
 * Errors are the buffer's. */
void notify_body(struct buf *out, enum notify_format format, struct str host,
                 const struct notice *n, const char *target);

#endif
