/* Alertmanager knows alerts that fire and alerts that are resolved; an alert is its labels. A
 * subject that is unknown neither begins nor ends one: it is an alert of its own, whose labels have
 * procfleet_state=unknown, and is resolved by the next notice of the subject. */
#include "collector/notify/notify_body.h"

#include <string.h>

#include "common/base/hash.h"
#include "common/text/jsonw.h"

#define NEVER "0001-01-01T00:00:00Z" /* Alertmanager's word for: it has no end yet */

#define NOTIFY_KEY_TEXT 17u

/* What it is about, for the alert's fingerprint: a hash of rule, host and subject. */
static void notify_body_key(char text[NOTIFY_KEY_TEXT], struct str host, const struct notice *n)
{
    const struct str parts[] = {n->rule, host, n->of, n->subject};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        sum = hash_bytes(parts[i].p, parts[i].n, sum + i + 1);
    }
    for (size_t i = 0; i < NOTIFY_KEY_TEXT - 1; i++) {
        text[i] = "0123456789abcdef"[sum >> 4 * (15 - i) & 15];
    }
    text[NOTIFY_KEY_TEXT - 1] = '\0';
}

static void put_time(struct jsonw *j, const char *key, int64_t ns)
{
    char text[CLK_TEXT];

    jsonw_text(j, key, str_make(clk_format_utc(text, sizeof text, ns, 3)));
}

static void put_some(struct jsonw *j, const char *key, struct str s)
{
    if (s.n) {
        jsonw_text(j, key, s);
    }
}

/* -- procfleet -- */

static void put_use(struct jsonw *j, struct str use)
{
    jsonw_array(j, "use");
    while (use.n) {
        const char *comma = memchr(use.p, ',', use.n);
        size_t n = comma ? (size_t)(comma - use.p) : use.n;

        if (n) {
            jsonw_text(j, NULL, (struct str){use.p, n});
        }
        n += comma != NULL;
        use.p += n;
        use.n -= n;
    }
    jsonw_end(j);
}

static void put_notice(struct jsonw *j, struct str host, const struct notice *n)
{
    char key[NOTIFY_KEY_TEXT];

    notify_body_key(key, host, n);
    jsonw_object(j, NULL);
    jsonw_text(j, "id", str_make(n->id));
    jsonw_text(j, "key", str_make(key));
    jsonw_uint(j, "n", n->n);
    jsonw_text(j, "rule", n->rule);
    put_some(j, "severity", n->severity);
    jsonw_text(j, "of", n->of);
    put_some(j, "host", host);
    put_some(j, "subject", n->subject);
    jsonw_text(j, "state", str_make(notice_state_name(n->state)));
    jsonw_text(j, "before", str_make(notice_state_name(n->before)));
    put_time(j, "time", n->step_ns);
    if (n->since_ns) {
        put_time(j, "since", n->since_ns);
    }
    if (n->has_value) {
        jsonw_real(j, "value", n->value);
    }
    if (n->has_limit) {
        jsonw_real(j, "limit", n->limit);
    }
    put_some(j, "unit", n->unit);
    if (n->has_coverage) {
        jsonw_real(j, "coverage", n->coverage);
    }
    put_some(j, "reason", n->reason);
    put_some(j, "silenced", n->silenced);
    jsonw_uint(j, "skipped", n->skipped);
    put_use(j, n->use);
    jsonw_text(j, "say", n->say);
    jsonw_end(j);
}

/* -- Alertmanager -- */

static void put_labels(struct jsonw *j, const char *key, struct str host, const struct notice *n,
                       bool unknown)
{
    jsonw_object(j, key);
    jsonw_text(j, "alertname", n->rule);
    put_some(j, "severity", n->severity);
    put_some(j, "host", host);
    jsonw_text(j, "of", n->of);
    put_some(j, "subject", n->subject);
    if (unknown) {
        jsonw_text(j, "procfleet_state", str_make("unknown"));
    }
    jsonw_end(j);
}

static void put_annotations(struct jsonw *j, const char *key, const struct notice *n)
{
    char number[40];

    jsonw_object(j, key);
    jsonw_text(j, "summary", n->say);
    if (n->has_value) {
        (void)snprintf(number, sizeof number, "%.15g %.*s", n->value,
                       (int)(n->unit.n < 16 ? n->unit.n : 16), n->unit.n ? n->unit.p : "");
        jsonw_text(j, "value", str_make(number));
    }
    if (n->has_coverage) {
        (void)snprintf(number, sizeof number, "%.2f %%", n->coverage * 100);
        jsonw_text(j, "coverage", str_make(number));
    }
    put_some(j, "reason", n->reason);
    jsonw_text(j, "id", str_make(n->id));
    jsonw_end(j);
}

/* ends_ns: of one that fires; 0: the webhook's word for never, and what else only that has. */
static void put_alert(struct jsonw *j, struct str host, const struct notice *n, bool unknown,
                      bool firing, int64_t ends_ns)
{
    bool whole = ends_ns == 0;
    char key[NOTIFY_KEY_TEXT];
    int64_t begin_ns = !unknown && n->since_ns ? n->since_ns : n->step_ns;

    notify_body_key(key, host, n);
    if (unknown) {
        key[0] = key[0] == '0' ? '1' : '0'; /* another alert */
    }
    jsonw_object(j, NULL);
    if (whole) {
        jsonw_text(j, "status", str_make(firing ? "firing" : "resolved"));
    }
    put_labels(j, "labels", host, n, unknown);
    put_annotations(j, "annotations", n);
    put_time(j, "startsAt", begin_ns);
    if (!firing) {
        put_time(j, "endsAt", n->step_ns);
    } else if (whole) {
        jsonw_text(j, "endsAt", str_make(NEVER));
    } else {
        put_time(j, "endsAt", ends_ns);
    }
    jsonw_text(j, "generatorURL", str_make(""));
    if (whole) {
        jsonw_text(j, "fingerprint", str_make(key));
    }
    jsonw_end(j);
}

/* What was unknown is so no more; then what the notice says. */
static void put_alerts(struct jsonw *j, struct str host, const struct notice *n, int64_t ends_ns)
{
    if (n->before == NOTICE_UNKNOWN && n->state != NOTICE_UNKNOWN) {
        put_alert(j, host, n, true, false, ends_ns);
    }
    put_alert(j, host, n, n->state == NOTICE_UNKNOWN, n->state != NOTICE_OK, ends_ns);
}

static void put_webhook(struct jsonw *j, struct str host, const struct notice *n,
                        const char *target)
{
    struct buf group;

    buf_init(&group, 4096);
    buf_printf(&group, "{}:{alertname=\"%.*s\"}", (int)n->rule.n, n->rule.p);
    jsonw_object(j, NULL);
    jsonw_text(j, "version", str_make("4"));
    jsonw_text(j, "groupKey", str_make(buf_cstr(&group)));
    jsonw_uint(j, "truncatedAlerts", 0);
    jsonw_text(j, "status", str_make(n->state == NOTICE_OK ? "resolved" : "firing"));
    jsonw_text(j, "receiver", str_make(target));
    jsonw_object(j, "groupLabels");
    jsonw_text(j, "alertname", n->rule);
    jsonw_end(j);
    put_labels(j, "commonLabels", host, n, false);
    put_annotations(j, "commonAnnotations", n);
    jsonw_text(j, "externalURL", str_make(""));
    jsonw_array(j, "alerts");
    put_alerts(j, host, n, 0);
    jsonw_end(j);
    jsonw_end(j);
    buf_fini(&group);
}

void notify_body(struct buf *out, enum notify_format format, struct str host,
                 const struct notice *n, const char *target, int64_t ends_ns)
{
    struct jsonw j;

    jsonw_init_buf(&j, out);
    switch (format) {
    case NOTIFY_PROCFLEET:
        put_notice(&j, host, n);
        return;
    case NOTIFY_ALERTMANAGER:
        put_webhook(&j, host, n, target);
        return;
    case NOTIFY_ALERTMANAGER_API:
        jsonw_array(&j, NULL);
        put_alerts(&j, host, n, ends_ns);
        jsonw_end(&j);
        return;
    }
}

void notify_body_alerts(struct buf *out, const struct notify_told *list, size_t n, int64_t ends_ns)
{
    struct jsonw j;

    jsonw_init_buf(&j, out);
    jsonw_array(&j, NULL);
    for (size_t i = 0; i < n; i++) {
        put_alerts(&j, list[i].host, &list[i].notice, ends_ns);
    }
    jsonw_end(&j);
}
