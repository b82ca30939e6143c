#include "common/wire/wire_query.h"

#include "common/base/mem.h"
#include "common/wire/wire.h"
#include "common/wire/wire_run.h"
#include "proto/query.pb-c.h"

/* Questions and what a server says of itself; answers and updates are in wire_answer.c. What is
 * decoded keeps the unpacked message beside it, because text points into it: both live in one arena
 * behind the struct. */

#define PACK_BYTES    (1u << 20) /* memory to build a message in */
#define HOST_MAX      256u       /* bytes of a host pattern */
#define ID_BYTES      sizeof(((struct uuid *)NULL)->b)
#define IDS_BYTES_MAX (WIRE_IDS_MAX * ID_BYTES)
#define METHODS_MAX                                     \
    (sizeof((struct wire_server_info *)NULL)->methods / \
     sizeof((struct wire_server_info *)NULL)->methods[0])

struct owned_query {
    struct wire_query q;
    struct wire_arena arena;
};

/* -- questions -- */

/* -- which hosts -- */

static enum err put_words(ProtobufCBinaryData **to, size_t *n_to, const struct str *list, size_t n,
                          size_t max, struct wire_arena *a)
{
    protobuf_c_boolean has;
    enum err e = ERR_OK;

    *to = wire_arena_array(a, n, sizeof **to);
    if (!*to || n > max) {
        return *to ? ERR_INVALID : a->bad;
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = wire_text_put(&has, &(*to)[i], list[i], HOST_MAX, a);
    }
    *n_to = n;
    return e;
}

static enum err get_words(struct str *list, size_t *n_list, const ProtobufCBinaryData *from,
                          size_t n, size_t max)
{
    if (n > max) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (!wire_text_get(&list[i], 1, &from[i], HOST_MAX)) {
            return ERR_CORRUPT;
        }
    }
    *n_list = n;
    return ERR_OK;
}

static enum err put_labels(Procfleet__V1__QueryRequest *m, const struct wire_query *q,
                           struct wire_arena *a)
{
    Procfleet__V1__Label *items;
    enum err e = ERR_OK;

    if (q->n_labels > INVENTORY_LABELS_MAX) {
        return ERR_INVALID;
    }
    items = wire_list(&m->labels, q->n_labels, sizeof *items, a);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < q->n_labels; i++) {
        procfleet__v1__label__init(&items[i]);
        e = WIRE_PUT_TEXT(&items[i], key, q->labels[i].key, LABEL_KEY_MAX, a);
        e = e ? e : WIRE_PUT_TEXT(&items[i], value, q->labels[i].value, HOST_MAX, a);
    }
    m->n_labels = q->n_labels;
    return e;
}

static enum err get_selection(struct wire_query *q, const Procfleet__V1__QueryRequest *m)
{
    enum err e = get_words(q->hosts, &q->n_hosts, m->hosts, m->n_hosts, WIRE_HOSTS_MAX);

    e = e ? e : get_words(q->class_keys, &q->n_class, m->class_, m->n_class_, WIRE_CLASS_MAX);
    if (e || m->n_labels > INVENTORY_LABELS_MAX) {
        return e ? e : ERR_FULL;
    }
    for (size_t i = 0; i < m->n_labels; i++) {
        const Procfleet__V1__Label *l = m->labels[i];

        if (!wire_text_get(&q->labels[i].key, l->has_key, &l->key, LABEL_KEY_MAX) ||
            !wire_text_get(&q->labels[i].value, l->has_value, &l->value, HOST_MAX)) {
            return ERR_CORRUPT;
        }
    }
    q->n_labels = m->n_labels;
    return ERR_OK;
}

static enum err query_texts(Procfleet__V1__QueryRequest *m, const struct wire_query *q,
                            struct wire_arena *a)
{
    enum err e = WIRE_PUT_TEXT(m, host, q->host, HOST_MAX, a);

    if (!e) {
        e = WIRE_PUT_TEXT(m, name, q->name, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, provider, q->events.provider, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, event, q->events.event, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, where, q->events.where, WIRE_WHERE_MAX, a);
    }
    e = e ? e : WIRE_PUT_TEXT(m, run, q->run, WIRE_RUN_SPEC_MAX, a);
    e = e ? e : put_words(&m->hosts, &m->n_hosts, q->hosts, q->n_hosts, WIRE_HOSTS_MAX, a);
    e = e ? e : put_words(&m->class_, &m->n_class_, q->class_keys, q->n_class, WIRE_CLASS_MAX, a);
    e = e ? e : WIRE_PUT_TEXT(m, rules, q->rules, WIRE_RULES_MAX, a);
    WIRE_PUT(m, rules_ask, q->rules_ask);
    e = e ? e : put_labels(m, q, a);
    m->has_cursor = q->cursor.n != 0;
    m->cursor.data = (uint8_t *)(uintptr_t)q->cursor.p;
    m->cursor.len = q->cursor.n;
    m->has_ids = q->ids.n != 0;
    m->ids.data = (uint8_t *)(uintptr_t)q->ids.p;
    m->ids.len = q->ids.n;
    return e;
}

enum err wire_query_encode(struct buf *out, const struct wire_query *q)
{
    Procfleet__V1__QueryRequest m = PROCFLEET__V1__QUERY_REQUEST__INIT;
    uint32_t metrics[WIRE_METRICS_MAX];
    struct wire_arena a;
    enum err e;

    if (q->n_metrics > WIRE_METRICS_MAX || q->cursor.n > WIRE_CURSOR_MAX ||
        q->ids.n > IDS_BYTES_MAX || q->ids.n % ID_BYTES || q->last_ns < 0 || q->step_ns < 0 ||
        q->events.where.n > WIRE_WHERE_MAX) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < q->n_metrics; i++) {
        metrics[i] = q->metrics[i];
    }
    wire_arena_init(&a, PACK_BYTES);
    m.n_metrics = q->n_metrics;
    m.metrics = metrics;
    WIRE_PUT(&m, since_ns, q->since_ns);
    WIRE_PUT(&m, until_ns, q->until_ns);
    WIRE_PUT(&m, last_ns, (uint64_t)q->last_ns);
    WIRE_PUT(&m, limit, q->limit);
    WIRE_PUT(&m, idle, q->idle);
    WIRE_PUT(&m, exited, q->exited);
    m.has_pid = q->has_pid;
    m.pid = q->pid;
    WIRE_PUT(&m, start, q->start);
    WIRE_PUT(&m, kinds, q->kinds);
    WIRE_PUT(&m, step_ns, (uint64_t)q->step_ns);
    WIRE_PUT(&m, stages, q->stages);
    WIRE_PUT(&m, by, q->by);
    WIRE_PUT(&m, group_by, q->group_by);
    WIRE_PUT(&m, folded, q->folded);
    WIRE_PUT(&m, at_ns, q->at_ns);
    WIRE_PUT(&m, buckets, q->buckets);
    WIRE_PUT(&m, envelope, q->envelope);
    WIRE_PUT(&m, max, q->max);
    WIRE_PUT(&m, forgotten, q->forgotten);
    WIRE_PUT(&m, ancestors, q->ancestors);
    WIRE_PUT(&m, types, q->types);
    e = query_texts(&m, q, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err read_query(struct wire_query *q, const Procfleet__V1__QueryRequest *m)
{
    enum err e = get_selection(q, m);

    if (e) {
        return e;
    }
    if (!wire_text_get(&q->host, m->has_host, &m->host, HOST_MAX) ||
        !wire_text_get(&q->name, m->has_name, &m->name, MODEL_TEXT_MAX) ||
        !wire_text_get(&q->run, m->has_run, &m->run, WIRE_RUN_SPEC_MAX) ||
        !wire_text_get(&q->rules, m->has_rules, &m->rules, WIRE_RULES_MAX) ||
        !wire_text_get(&q->events.provider, m->has_provider, &m->provider, MODEL_TEXT_MAX) ||
        !wire_text_get(&q->events.event, m->has_event, &m->event, MODEL_TEXT_MAX) ||
        !wire_text_get(&q->events.where, m->has_where, &m->where, WIRE_WHERE_MAX) ||
        m->last_ns > INT64_MAX || m->step_ns > INT64_MAX || m->by > UINT8_MAX ||
        m->group_by > UINT8_MAX || (m->has_ids && m->ids.len % ID_BYTES)) {
        return ERR_CORRUPT;
    }
    if ((m->has_cursor && m->cursor.len > WIRE_CURSOR_MAX) ||
        (m->has_ids && m->ids.len > IDS_BYTES_MAX)) {
        return ERR_FULL;
    }
    if (m->has_ids && m->ids.len) {
        q->ids = (struct str){(const char *)m->ids.data, m->ids.len};
    }
    if (m->has_cursor && m->cursor.len) {
        q->cursor.p = (const char *)m->cursor.data;
        q->cursor.n = m->cursor.len;
    }
    q->since_ns = m->since_ns;
    q->until_ns = m->until_ns;
    q->last_ns = (int64_t)m->last_ns;
    q->limit = m->limit;
    q->rules_ask = m->rules_ask;
    q->idle = m->idle != 0;
    q->exited = m->exited != 0;
    q->has_pid = m->has_pid != 0;
    q->pid = m->pid;
    q->start = m->start;
    q->kinds = m->kinds;
    q->step_ns = (int64_t)m->step_ns;
    q->stages = m->stages != 0;
    q->by = (uint8_t)m->by;
    q->group_by = (uint8_t)m->group_by;
    q->folded = m->folded != 0;
    q->at_ns = m->at_ns;
    q->buckets = m->buckets;
    q->envelope = m->envelope != 0;
    q->max = m->max;
    q->forgotten = m->forgotten != 0;
    q->ancestors = m->ancestors != 0;
    q->types = m->types != 0;
    return wire_get_bytes(q->metrics, &q->n_metrics, WIRE_METRICS_MAX, m->metrics, m->n_metrics);
}

enum err wire_query_decode(struct wire_query **out, const void *p, size_t n)
{
    struct owned_query *o = mem_zalloc(sizeof *o);
    Procfleet__V1__QueryRequest *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack(&m, &o->arena, &procfleet__v1__query_request__descriptor, p, n);
    if (!e) {
        e = read_query(&o->q, m);
    }
    if (e) {
        wire_query_free(&o->q);
        return e;
    }
    *out = &o->q;
    return ERR_OK;
}

void wire_query_free(struct wire_query *q)
{
    struct owned_query *o = (struct owned_query *)q;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

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

static enum err put_methods(Procfleet__V1__ServerInfo *m, const struct wire_server_info *in,
                            struct wire_arena *a)
{
    Procfleet__V1__Method *items = wire_list(&m->methods, in->n_methods, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_methods; i++) {
        procfleet__v1__method__init(&items[i]);
        WIRE_PUT(&items[i], id, in->methods[i].id);
        e = WIRE_PUT_TEXT(&items[i], name, str_make(in->methods[i].name),
                          sizeof in->methods[i].name - 1, a);
    }
    m->n_methods = in->n_methods;
    return e;
}

enum err wire_query_server_info_encode(struct buf *out, const struct wire_server_info *in)
{
    Procfleet__V1__ServerInfo m = PROCFLEET__V1__SERVER_INFO__INIT;
    struct wire_arena a;
    enum err e;

    if (in->n_methods > METHODS_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    wire_uuid_put(&m.has_id, &m.id, &in->id);
    WIRE_PUT(&m, now_ns, in->now_ns);
    WIRE_PUT(&m, epoch, in->epoch);
    WIRE_PUT(&m, max_request, in->max_request);
    WIRE_PUT(&m, max_reply, in->max_reply);
    WIRE_PUT(&m, hosts, in->hosts);
    WIRE_PUT(&m, frame_version_min, in->frame_version_min);
    WIRE_PUT(&m, frame_version_max, in->frame_version_max);
    e = WIRE_PUT_TEXT(&m, version, str_make(in->version), sizeof in->version - 1, &a);
    if (!e) {
        e = put_methods(&m, in, &a);
    }
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err read_server_info(struct wire_server_info *out, const Procfleet__V1__ServerInfo *m)
{
    bool ok = wire_text_copy(out->version, sizeof out->version, m->has_version, &m->version) &&
              wire_uuid_get(&out->id, m->has_id, &m->id) && m->frame_version_min <= UINT8_MAX &&
              m->frame_version_max <= UINT8_MAX;

    if (m->n_methods > METHODS_MAX) {
        return ERR_FULL;
    }
    for (size_t i = 0; ok && i < m->n_methods; i++) {
        const Procfleet__V1__Method *x = m->methods[i];

        ok = wire_text_copy(out->methods[i].name, sizeof out->methods[i].name, x->has_name,
                            &x->name);
        out->methods[i].id = x->id;
    }
    out->now_ns = m->now_ns;
    out->epoch = m->epoch;
    out->max_request = m->max_request;
    out->max_reply = m->max_reply;
    out->hosts = m->hosts;
    out->frame_version_min = (uint8_t)m->frame_version_min;
    out->frame_version_max = (uint8_t)m->frame_version_max;
    out->n_methods = m->n_methods;
    return ok ? ERR_OK : ERR_CORRUPT;
}

enum err wire_query_server_info_decode(struct wire_server_info *out, const void *p, size_t n)
{
    struct wire_server_info v = {0};
    Procfleet__V1__ServerInfo *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__server_info__descriptor, p, n);
    if (!e) {
        e = read_server_info(&v, m);
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}
