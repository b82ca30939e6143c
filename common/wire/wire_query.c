#include "common/wire/wire_query.h"

#include "common/wire/wire_run.h"
#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

/* Questions and what a server says of itself; answers and updates are in wire_answer.c. */

#define PACK_BYTES    (1u << 20) /* memory to build a message in */
#define HOST_MAX      256u       /* bytes of a host pattern */
#define ID_BYTES      sizeof(((struct uuid *)NULL)->b)
#define IDS_BYTES_MAX (WIRE_IDS_MAX * ID_BYTES)

/* -- questions -- */

#define OF struct label, Procfleet__V1__Label
static const struct wire_field label_fields[] = {
    WIRE_TEXT(key, LABEL_KEY_MAX),
    WIRE_TEXT(value, HOST_MAX), /* a glob */
    WIRE_BY_HAND(assigned),     /* whoever assigned it */
    WIRE_END,
};
#undef OF
static const struct wire_table label_table = WIRE_TABLE(label, label, label_fields);

static bool query_is_sound(const void *ours)
{
    const struct wire_query *q = ours;

    return q->ids.n <= IDS_BYTES_MAX && q->ids.n % ID_BYTES == 0 && q->last_ns >= 0 &&
           q->step_ns >= 0 && q->events.where.n <= WIRE_WHERE_MAX;
}

static enum err query_get(void *ours, const void *message, struct wire_arena *a)
{
    const struct wire_query *q = ours;

    (void)message;
    (void)a;
    return q->ids.n > IDS_BYTES_MAX && q->ids.n % ID_BYTES == 0 ? ERR_FULL : ERR_OK;
}

#define OF struct wire_query, Procfleet__V1__QueryRequest
static const struct wire_field query_fields[] = {
    WIRE_TEXT(host, HOST_MAX),
    WIRE_NUM(since_ns),
    WIRE_NUM(until_ns),
    WIRE_NUM(last_ns),
    WIRE_METRICS(metrics, n_metrics),
    WIRE_NUM(limit),
    WIRE_NUM(idle),
    WIRE_NUM(exited),
    WIRE_NUM_IF(pid, has_pid),
    WIRE_NUM(start),
    WIRE_TEXT(name, MODEL_TEXT_MAX),
    WIRE_NUM(kinds),
    WIRE_NUM(step_ns),
    WIRE_BYTES(cursor, WIRE_CURSOR_MAX),
    WIRE_NUM(stages),
    WIRE_NUM(by),
    WIRE_NUM(group_by),
    WIRE_NUM(folded),
    WIRE_NUM(at_ns),
    WIRE_TEXTS_IN(hosts, n_hosts, hosts, HOST_MAX),
    WIRE_LIST_IN(labels, n_labels, &label_table),
    WIRE_TEXT_AS(events.where, where, WIRE_WHERE_MAX),
    WIRE_NUM(ancestors),
    WIRE_TEXTS_IN(class_keys, n_class, class_, HOST_MAX),
    WIRE_TEXT(run, WIRE_RUN_SPEC_MAX),
    WIRE_NUM(forgotten),
    WIRE_NUM(buckets),
    WIRE_NUM(envelope),
    WIRE_TEXT_AS(events.provider, provider, MODEL_TEXT_MAX),
    WIRE_TEXT_AS(events.event, event, MODEL_TEXT_MAX),
    WIRE_NUM(max),
    WIRE_BYTES(ids, UINT32_MAX), /* whole ones, at most WIRE_IDS_MAX */
    WIRE_TEXT(rules, WIRE_RULES_MAX),
    WIRE_NUM(types),
    WIRE_NUM(rules_ask),
    WIRE_END,
};
#undef OF
const struct wire_table wire_query_table =
    WIRE_TABLE(wire_query, query_request, query_fields, .sound = query_is_sound, .get = query_get);

const char *wire_query_unknown(const struct wire_query *q, uint32_t knows)
{
    const struct {
        uint32_t field;
        bool asked;
        const char *what;
    } narrows[] = {
        {20, q->n_hosts > 0, "several hosts (--host)"},
        {21, q->n_labels > 0, "labels (--label)"},
        {22, q->events.where.n > 0, "conditions (--where)"},
        {23, q->run.n > 0, "runs (--run)"},
        {26, q->events.provider.n > 0 || (q->kinds & 1u << LIFE_PROVIDER) != 0,
         "events of providers (--provider)"},
        {27, q->events.event.n > 0, "events of providers (--event)"},
        {33, q->ids.n > 0, "hosts by their ids"},
    };

    for (size_t i = 0; i < sizeof narrows / sizeof narrows[0]; i++) {
        if (narrows[i].asked && narrows[i].field > knows) {
            return narrows[i].what;
        }
    }
    return NULL;
}

/* -- server info -- */

#define OF struct wire_method, Procfleet__V1__Method
static const struct wire_field method_fields[] = {WIRE_CHARS(name), WIRE_NUM(id), WIRE_END};
#undef OF
static const struct wire_table method_table = WIRE_TABLE(wire_method, method, method_fields);

#define OF struct wire_server_info, Procfleet__V1__ServerInfo
static const struct wire_field server_info_fields[] = {
    WIRE_CHARS(version),
    WIRE_NUM(now_ns),
    WIRE_NUM(epoch),
    WIRE_NUM(max_request),
    WIRE_NUM(max_reply),
    WIRE_NUM(hosts),
    WIRE_NUM(frame_version_min),
    WIRE_NUM(frame_version_max),
    WIRE_LIST_IN(methods, n_methods, &method_table),
    WIRE_UUID(id),
    WIRE_END,
};
#undef OF
const struct wire_table wire_query_server_info_table =
    WIRE_TABLE(wire_server_info, server_info, server_info_fields);

WIRE_TABLE_OWNED(wire_query, wire_query, wire_query_table, PACK_BYTES, 0, 0)
WIRE_TABLE_PLAIN(wire_query_server_info, wire_server_info, wire_query_server_info_table, PACK_BYTES)
