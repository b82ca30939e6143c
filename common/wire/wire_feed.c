#include "common/wire/wire_feed.h"

#include "common/base/mem.h"
#include "common/wire/wire_update.h"

/* What is decoded lives behind its arena, as the unpacked message does that text points into. One
 * pair of functions does that for all of them; the rest is a `put` and a `get` for each message. */

#define PACK_BYTES  (64u << 20) /* memory to build a message in */
#define POLL_BYTES  (24u << 20) /* memory to unpack a reply of many small updates */
#define EXTRA_BYTES (4u << 20)  /* lists of the largest reply that the counts allow */
#define GLOB_MAX    256u        /* bytes of a host pattern */
#define TOPIC_MAX   (8u + MODEL_HOST_NAME_MAX)
#define OWNER_MAX   63u
#define SCOPE_MAX   127u

#define GET_TEXT(out, m, field, max) wire_text_get(out, (m)->has_##field, &(m)->field, max)

/* -- memory of decoded messages -- */

struct owned {
    struct wire_arena arena;
    _Alignas(16) uint8_t message[];
};

typedef enum err (*get_fn)(void *out, const void *m, struct wire_arena *a);

static void owned_free(void *message)
{
    struct owned *o;

    if (message) {
        o = (struct owned *)(void *)((uint8_t *)message - offsetof(struct owned, message));
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

/* budget 0: wire_unpack's */
static enum err owned_decode(void **out, size_t size, const ProtobufCMessageDescriptor *type,
                             get_fn get, size_t budget, const void *p, size_t n)
{
    struct owned *o = mem_zalloc(sizeof *o + size);
    ProtobufCMessage *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = budget ? wire_unpack_within(&m, &o->arena, type, p, n, budget)
               : wire_unpack(&m, &o->arena, type, p, n);
    if (!e) {
        wire_arena_allow(&o->arena, EXTRA_BYTES);
        e = get(o->message, m, &o->arena);
    }
    if (e) {
        owned_free(o->message);
        return e;
    }
    *out = o->message;
    return ERR_OK;
}

/* Defines wire_feed_KIND_decode and wire_feed_KIND_free by get_KIND. */
#define DECODED(kind, type, budget)                                                       \
    enum err wire_feed_##kind##_decode(struct wire_##kind **out, const void *p, size_t n) \
    {                                                                                     \
        void *m = NULL;                                                                   \
        enum err e = owned_decode(&m, sizeof **out, &(type), get_##kind, budget, p, n);   \
                                                                                          \
        if (!e) {                                                                         \
            *out = m;                                                                     \
        }                                                                                 \
        return e;                                                                         \
    }                                                                                     \
    void wire_feed_##kind##_free(struct wire_##kind *m)                                   \
    {                                                                                     \
        owned_free(m);                                                                    \
    }

static bool bytes_get(struct str *out, protobuf_c_boolean has, const ProtobufCBinaryData *t,
                      size_t max)
{
    *out = has && t->len ? (struct str){(const char *)t->data, t->len} : (struct str){"", 0};
    return out->n <= max;
}

static void bytes_put(protobuf_c_boolean *has, ProtobufCBinaryData *t, struct str s)
{
    *has = s.n != 0;
    t->data = (uint8_t *)(uintptr_t)s.p;
    t->len = s.n;
}

/* -- Fetch -- */

enum err wire_feed_fetch_encode(struct buf *out, const struct wire_fetch *in)
{
    Procfleet__V1__FetchRequest m = PROCFLEET__V1__FETCH_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    WIRE_PUT(&m, epoch, in->epoch);
    WIRE_PUT(&m, from_seq, in->from_seq);
    WIRE_PUT(&m, to_seq, in->to_seq);
    e = WIRE_PUT_TEXT(&m, topic, in->topic, TOPIC_MAX, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err get_fetch(void *to, const void *from, struct wire_arena *a)
{
    const Procfleet__V1__FetchRequest *m = from;
    struct wire_fetch *out = to;

    (void)a;
    out->epoch = m->epoch;
    out->from_seq = m->from_seq;
    out->to_seq = m->to_seq;
    return GET_TEXT(&out->topic, m, topic, TOPIC_MAX) ? ERR_OK : ERR_CORRUPT;
}

DECODED(fetch, procfleet__v1__fetch_request__descriptor, 0)

enum err wire_feed_fetch_reply_encode(struct buf *out, const struct wire_fetch_reply *in)
{
    Procfleet__V1__FetchReply m = PROCFLEET__V1__FETCH_REPLY__INIT;
    Procfleet__V1__FeedMessage *items;
    struct wire_arena a;
    enum err e;

    if (in->n > WIRE_FETCH_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    items = wire_list(&m.messages, in->n, sizeof *items, &a);
    for (size_t i = 0; items && i < in->n; i++) {
        procfleet__v1__feed_message__init(&items[i]);
        WIRE_PUT(&items[i], seq, in->messages[i].seq);
        bytes_put(&items[i].has_update, &items[i].update, in->messages[i].update);
    }
    m.n_messages = in->n;
    WIRE_PUT(&m, last_seq, in->last_seq);
    WIRE_PUT(&m, missing, in->missing);
    e = items ? wire_pack(out, &m) : a.bad;
    wire_arena_fini(&a);
    return e;
}

static enum err get_fetch_reply(void *to, const void *from, struct wire_arena *a)
{
    const Procfleet__V1__FetchReply *m = from;
    struct wire_fetch_reply *out = to;
    struct wire_feed_message *items;

    if (m->n_messages > WIRE_FETCH_MAX) {
        return ERR_FULL;
    }
    items = wire_arena_array(a, m->n_messages, sizeof *items);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_messages; i++) {
        const Procfleet__V1__FeedMessage *x = m->messages[i];

        items[i].seq = x->seq;
        if (!bytes_get(&items[i].update, x->has_update, &x->update, WIRE_FEED_UPDATE_MAX)) {
            return ERR_FULL;
        }
    }
    out->messages = items;
    out->n = m->n_messages;
    out->last_seq = m->last_seq;
    out->missing = m->missing;
    return ERR_OK;
}

DECODED(fetch_reply, procfleet__v1__fetch_reply__descriptor, 0)

/* -- filters -- */

static enum err put_filter(Procfleet__V1__FeedFilter *m, const struct wire_filter *f,
                           struct wire_arena *a)
{
    enum err e;

    if (f->n_hosts > WIRE_FEED_HOSTS_MAX || f->n_metrics > WIRE_METRICS_MAX ||
        f->min_interval_ns < 0) {
        return ERR_INVALID;
    }
    procfleet__v1__feed_filter__init(m);
    m->hosts = wire_arena_array(a, f->n_hosts, sizeof *m->hosts);
    m->metrics = wire_arena_array(a, f->n_metrics, sizeof *m->metrics);
    if (!m->hosts || !m->metrics) {
        return a->bad;
    }
    for (size_t i = 0; i < f->n_metrics; i++) {
        m->metrics[i] = f->metrics[i];
    }
    m->n_metrics = f->n_metrics;
    WIRE_PUT(m, kinds, f->kinds);
    WIRE_PUT(m, no_events, f->no_events);
    WIRE_PUT(m, samples, f->samples);
    WIRE_PUT(m, rules, f->rules);
    WIRE_PUT(m, min_interval_ns, (uint64_t)f->min_interval_ns);
    e = WIRE_PUT_TEXT(m, program, f->program, MODEL_TEXT_MAX, a);
    if (!e) {
        e = WIRE_PUT_TEXT(m, provider, f->providers.provider, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, event, f->providers.event, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, where, f->providers.where, WIRE_WHERE_MAX, a);
    }
    for (size_t i = 0; !e && i < f->n_hosts; i++) {
        protobuf_c_boolean has;

        e = wire_text_put(&has, &m->hosts[i], f->hosts[i], GLOB_MAX, a);
    }
    m->n_hosts = f->n_hosts;
    return e;
}

static enum err get_filter(struct wire_filter *f, const Procfleet__V1__FeedFilter *m)
{
    if (m->n_hosts > WIRE_FEED_HOSTS_MAX) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < m->n_hosts; i++) {
        if (!wire_text_get(&f->hosts[i], 1, &m->hosts[i], GLOB_MAX)) {
            return ERR_CORRUPT;
        }
    }
    if (!GET_TEXT(&f->program, m, program, MODEL_TEXT_MAX) ||
        !GET_TEXT(&f->providers.provider, m, provider, MODEL_TEXT_MAX) ||
        !GET_TEXT(&f->providers.event, m, event, MODEL_TEXT_MAX) ||
        !GET_TEXT(&f->providers.where, m, where, WIRE_WHERE_MAX) ||
        m->min_interval_ns > INT64_MAX) {
        return ERR_CORRUPT;
    }
    f->n_hosts = m->n_hosts;
    f->kinds = m->kinds;
    f->no_events = m->no_events != 0;
    f->samples = m->samples != 0;
    f->rules = m->rules != 0;
    f->min_interval_ns = (int64_t)m->min_interval_ns;
    return wire_get_bytes(f->metrics, &f->n_metrics, WIRE_METRICS_MAX, m->metrics, m->n_metrics);
}

/* -- Poll -- */

enum err wire_feed_poll_encode(struct buf *out, const struct wire_poll *in)
{
    Procfleet__V1__PollRequest m = PROCFLEET__V1__POLL_REQUEST__INIT;
    Procfleet__V1__FeedFilter filter;
    struct wire_arena a;
    enum err e;

    if (in->cursor.n > WIRE_CURSOR_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    bytes_put(&m.has_cursor, &m.cursor, in->cursor);
    WIRE_PUT(&m, max, in->max);
    WIRE_PUT(&m, wait_ms, in->wait_ms);
    WIRE_PUT(&m, from_oldest, in->from_oldest);
    e = WIRE_PUT_TEXT(&m, name, in->name, WIRE_FEED_NAME_MAX, &a);
    if (!e && in->has_filter) {
        e = put_filter(&filter, &in->filter, &a);
        m.filter = &filter;
    }
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err get_poll(void *to, const void *from, struct wire_arena *a)
{
    const Procfleet__V1__PollRequest *m = from;
    struct wire_poll *out = to;

    (void)a;
    if (!GET_TEXT(&out->name, m, name, WIRE_FEED_NAME_MAX)) {
        return ERR_CORRUPT;
    }
    if (!bytes_get(&out->cursor, m->has_cursor, &m->cursor, WIRE_CURSOR_MAX)) {
        return ERR_FULL;
    }
    out->max = m->max;
    out->wait_ms = m->wait_ms;
    out->from_oldest = m->from_oldest != 0;
    out->has_filter = m->filter != NULL;
    return m->filter ? get_filter(&out->filter, m->filter) : ERR_OK;
}

DECODED(poll, procfleet__v1__poll_request__descriptor, 0)

enum err wire_feed_poll_reply_encode(struct buf *out, const struct wire_poll_reply *in)
{
    Procfleet__V1__PollReply m = PROCFLEET__V1__POLL_REPLY__INIT;
    Procfleet__V1__Update *items;
    struct wire_arena a;
    enum err e;

    if (in->n_updates > WIRE_UPDATES_MAX || in->cursor.n > WIRE_CURSOR_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    items = wire_list(&m.updates, in->n_updates, sizeof *items, &a);
    e = items ? ERR_OK : a.bad;
    for (size_t i = 0; !e && i < in->n_updates; i++) {
        e = wire_update_put(&items[i], &in->updates[i], &a);
    }
    m.n_updates = in->n_updates;
    bytes_put(&m.has_cursor, &m.cursor, in->cursor);
    WIRE_PUT(&m, more, in->more);
    WIRE_PUT(&m, dropped, in->dropped);
    WIRE_PUT(&m, dropped_now, in->dropped_now);
    WIRE_PUT(&m, behind_bytes, in->behind_bytes);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

/* Each update may have as much as a whole answer: they are bounded together, before any is read. */
static bool few_enough(const Procfleet__V1__PollReply *m)
{
    size_t rows = 0, hosts = 0;

    for (size_t i = 0; i < m->n_updates; i++) {
        const Procfleet__V1__Answer *a = m->updates[i]->data;

        if (a && (a->overview || a->n_coverage || a->n_notes)) {
            return false;
        }
        rows += a ? a->n_rows + a->n_events : 0;
        hosts += a ? a->n_hosts : 0;
    }
    return m->n_updates <= WIRE_UPDATES_MAX && rows <= WIRE_UPDATES_MAX && hosts <= WIRE_ROWS_MAX;
}

static enum err get_poll_reply(void *to, const void *from, struct wire_arena *a)
{
    const Procfleet__V1__PollReply *m = from;
    struct wire_poll_reply *out = to;
    struct wire_update *items;
    enum err e = ERR_OK;

    if (!few_enough(m) || !bytes_get(&out->cursor, m->has_cursor, &m->cursor, WIRE_CURSOR_MAX)) {
        return ERR_FULL;
    }
    items = wire_arena_array(a, m->n_updates, sizeof *items);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < m->n_updates; i++) {
        e = wire_update_get(&items[i], m->updates[i], a);
    }
    out->updates = items;
    out->n_updates = m->n_updates;
    out->more = m->more != 0;
    out->dropped = m->dropped;
    out->dropped_now = m->dropped_now;
    out->behind_bytes = m->behind_bytes;
    return e;
}

DECODED(poll_reply, procfleet__v1__poll_reply__descriptor, POLL_BYTES)

/* -- Subscriptions, Unsubscribe -- */

static enum err put_subscription(Procfleet__V1__Subscription *m, const struct wire_subscription *s,
                                 struct wire_arena *a)
{
    enum err e;

    procfleet__v1__subscription__init(m);
    WIRE_PUT(m, created_ns, s->created_ns);
    WIRE_PUT(m, polled_ns, s->polled_ns);
    WIRE_PUT(m, behind_bytes, s->behind_bytes);
    WIRE_PUT(m, dropped, s->dropped);
    WIRE_PUT(m, delivered, s->delivered);
    m->filter = wire_arena_array(a, 1, sizeof *m->filter);
    e = m->filter ? put_filter(m->filter, &s->filter, a) : a->bad;
    if (!e) {
        e = WIRE_PUT_TEXT(m, name, s->name, WIRE_FEED_NAME_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, owner, s->owner, OWNER_MAX, a);
    }
    return e ? e : WIRE_PUT_TEXT(m, scope, s->scope, SCOPE_MAX, a);
}

enum err wire_feed_subscriptions_reply_encode(struct buf *out,
                                              const struct wire_subscriptions_reply *in)
{
    Procfleet__V1__SubscriptionsReply m = PROCFLEET__V1__SUBSCRIPTIONS_REPLY__INIT;
    Procfleet__V1__Subscription *items;
    struct wire_arena a;
    enum err e;

    if (in->n > WIRE_SUBSCRIPTIONS_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    items = wire_list(&m.subscriptions, in->n, sizeof *items, &a);
    e = items ? ERR_OK : a.bad;
    for (size_t i = 0; !e && i < in->n; i++) {
        e = put_subscription(&items[i], &in->subscriptions[i], &a);
    }
    m.n_subscriptions = in->n;
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err get_subscription(struct wire_subscription *s, const Procfleet__V1__Subscription *m)
{
    if (!GET_TEXT(&s->name, m, name, WIRE_FEED_NAME_MAX) ||
        !GET_TEXT(&s->owner, m, owner, OWNER_MAX) || !GET_TEXT(&s->scope, m, scope, SCOPE_MAX)) {
        return ERR_CORRUPT;
    }
    s->created_ns = m->created_ns;
    s->polled_ns = m->polled_ns;
    s->behind_bytes = m->behind_bytes;
    s->dropped = m->dropped;
    s->delivered = m->delivered;
    return m->filter ? get_filter(&s->filter, m->filter) : ERR_OK;
}

static enum err get_subscriptions_reply(void *to, const void *from, struct wire_arena *a)
{
    const Procfleet__V1__SubscriptionsReply *m = from;
    struct wire_subscriptions_reply *out = to;
    struct wire_subscription *items;
    enum err e = ERR_OK;

    if (m->n_subscriptions > WIRE_SUBSCRIPTIONS_MAX) {
        return ERR_FULL;
    }
    items = wire_arena_array(a, m->n_subscriptions, sizeof *items);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < m->n_subscriptions; i++) {
        e = get_subscription(&items[i], m->subscriptions[i]);
    }
    out->subscriptions = items;
    out->n = m->n_subscriptions;
    return e;
}

DECODED(subscriptions_reply, procfleet__v1__subscriptions_reply__descriptor, 0)

enum err wire_feed_unsubscribe_encode(struct buf *out, const struct wire_unsubscribe *in)
{
    Procfleet__V1__UnsubscribeRequest m = PROCFLEET__V1__UNSUBSCRIBE_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = WIRE_PUT_TEXT(&m, name, in->name, WIRE_FEED_NAME_MAX, &a);
    if (!e) {
        e = WIRE_PUT_TEXT(&m, owner, in->owner, OWNER_MAX, &a);
    }
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err get_unsubscribe(void *to, const void *from, struct wire_arena *a)
{
    const Procfleet__V1__UnsubscribeRequest *m = from;
    struct wire_unsubscribe *out = to;

    (void)a;
    return GET_TEXT(&out->name, m, name, WIRE_FEED_NAME_MAX) &&
                   GET_TEXT(&out->owner, m, owner, OWNER_MAX)
               ? ERR_OK
               : ERR_CORRUPT;
}

DECODED(unsubscribe, procfleet__v1__unsubscribe_request__descriptor, 0)
