#include "common/wire/wire_feed.h"

#include "common/wire/wire_table.h"
#include "common/wire/wire_update.h"

#define PACK_BYTES  (64u << 20) /* memory to build a message in */
#define POLL_BYTES  (24u << 20) /* memory to unpack a reply of many small updates */
#define EXTRA_BYTES (4u << 20)  /* lists of the largest reply that the counts allow */
#define GLOB_MAX    256u        /* bytes of a host pattern */
#define TOPIC_MAX   (8u + MODEL_HOST_NAME_MAX)
#define OWNER_MAX   63u
#define SCOPE_MAX   127u

/* -- Fetch -- */

#define OF struct wire_fetch, Procfleet__V1__FetchRequest
static const struct wire_field fetch_fields[] = {
    WIRE_NUM(epoch), WIRE_TEXT(topic, TOPIC_MAX), WIRE_NUM(from_seq), WIRE_NUM(to_seq), WIRE_END,
};
#undef OF
const struct wire_table wire_feed_fetch_table = WIRE_TABLE(wire_fetch, fetch_request, fetch_fields);

#define OF struct wire_feed_message, Procfleet__V1__FeedMessage
static const struct wire_field message_fields[] = {
    WIRE_NUM(seq),
    WIRE_BYTES(update, WIRE_FEED_UPDATE_MAX),
    WIRE_END,
};
#undef OF
static const struct wire_table message_table =
    WIRE_TABLE(wire_feed_message, feed_message, message_fields);

#define OF struct wire_fetch_reply, Procfleet__V1__FetchReply
static const struct wire_field fetch_reply_fields[] = {
    WIRE_LIST(messages, n, WIRE_FETCH_MAX, &message_table),
    WIRE_NUM(last_seq),
    WIRE_NUM(missing),
    WIRE_END,
};
#undef OF
const struct wire_table wire_feed_fetch_reply_table =
    WIRE_TABLE(wire_fetch_reply, fetch_reply, fetch_reply_fields);

/* -- Poll -- */

static bool filter_is_sound(const void *ours)
{
    const struct wire_filter *f = ours;

    return f->min_interval_ns >= 0;
}

#define OF struct wire_filter, Procfleet__V1__FeedFilter
static const struct wire_field filter_fields[] = {
    WIRE_TEXTS_IN(hosts, n_hosts, hosts, GLOB_MAX),
    WIRE_TEXT(program, MODEL_TEXT_MAX),
    WIRE_NUM(kinds),
    WIRE_NUM(no_events),
    WIRE_NUM(samples),
    WIRE_METRICS(metrics, n_metrics),
    WIRE_NUM(min_interval_ns),
    WIRE_TEXT_AS(providers.provider, provider, MODEL_TEXT_MAX),
    WIRE_TEXT_AS(providers.event, event, MODEL_TEXT_MAX),
    WIRE_TEXT_AS(providers.where, where, WIRE_WHERE_MAX),
    WIRE_NUM(rules),
    WIRE_END,
};
#undef OF
static const struct wire_table filter_table =
    WIRE_TABLE(wire_filter, feed_filter, filter_fields, .sound = filter_is_sound);

#define OF struct wire_poll, Procfleet__V1__PollRequest
static const struct wire_field poll_fields[] = {
    WIRE_TEXT(name, WIRE_FEED_NAME_MAX),
    WIRE_BYTES(cursor, WIRE_CURSOR_MAX),
    WIRE_PART_IF(filter, has_filter, filter, &filter_table),
    WIRE_NUM(max),
    WIRE_NUM(wait_ms),
    WIRE_NUM(from_oldest),
    WIRE_END,
};
#undef OF
const struct wire_table wire_feed_poll_table = WIRE_TABLE(wire_poll, poll_request, poll_fields);

static enum err poll_reply_put(void *message, const void *ours, struct wire_arena *a)
{
    Procfleet__V1__PollReply *m = message;
    const struct wire_poll_reply *in = ours;
    Procfleet__V1__Update *items;
    enum err e;

    if (in->n_updates > WIRE_UPDATES_MAX) {
        return ERR_INVALID;
    }
    items = wire_list(&m->updates, in->n_updates, sizeof *items, a);
    e = items ? ERR_OK : a->bad;
    for (size_t i = 0; !e && i < in->n_updates; i++) {
        e = wire_update_put(&items[i], &in->updates[i], a);
    }
    m->n_updates = in->n_updates;
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

static enum err poll_reply_get(void *ours, const void *message, struct wire_arena *a)
{
    const Procfleet__V1__PollReply *m = message;
    struct wire_poll_reply *out = ours;
    struct wire_update *items;
    enum err e = ERR_OK;

    if (!few_enough(m)) {
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
    return e;
}

#define OF struct wire_poll_reply, Procfleet__V1__PollReply
static const struct wire_field poll_reply_fields[] = {
    WIRE_BY_HAND(updates), /* wire_update.c */
    WIRE_BYTES(cursor, WIRE_CURSOR_MAX),
    WIRE_NUM(more),
    WIRE_NUM(dropped),
    WIRE_NUM(dropped_now),
    WIRE_NUM(behind_bytes),
    WIRE_END,
};
#undef OF
const struct wire_table wire_feed_poll_reply_table = WIRE_TABLE(
    wire_poll_reply, poll_reply, poll_reply_fields, .put = poll_reply_put, .get = poll_reply_get);

/* -- Subscriptions, Unsubscribe -- */

#define OF struct wire_subscription, Procfleet__V1__Subscription
static const struct wire_field subscription_fields[] = {
    WIRE_TEXT(name, WIRE_FEED_NAME_MAX),
    WIRE_TEXT(owner, OWNER_MAX),
    WIRE_TEXT(scope, SCOPE_MAX),
    WIRE_PART(filter, &filter_table),
    WIRE_NUM(created_ns),
    WIRE_NUM(polled_ns),
    WIRE_NUM(behind_bytes),
    WIRE_NUM(dropped),
    WIRE_NUM(delivered),
    WIRE_END,
};
#undef OF
static const struct wire_table subscription_table =
    WIRE_TABLE(wire_subscription, subscription, subscription_fields);

#define OF struct wire_subscriptions_reply, Procfleet__V1__SubscriptionsReply
static const struct wire_field subscriptions_fields[] = {
    WIRE_LIST(subscriptions, n, WIRE_SUBSCRIPTIONS_MAX, &subscription_table),
    WIRE_END,
};
#undef OF
const struct wire_table wire_feed_subscriptions_table =
    WIRE_TABLE(wire_subscriptions_reply, subscriptions_reply, subscriptions_fields);

#define OF struct wire_unsubscribe, Procfleet__V1__UnsubscribeRequest
static const struct wire_field unsubscribe_fields[] = {
    WIRE_TEXT(name, WIRE_FEED_NAME_MAX),
    WIRE_TEXT(owner, OWNER_MAX),
    WIRE_END,
};
#undef OF
const struct wire_table wire_feed_unsubscribe_table =
    WIRE_TABLE(wire_unsubscribe, unsubscribe_request, unsubscribe_fields);

/* Defines encode, decode and free of a kind. */
#define FEED(kind, table, budget) \
    WIRE_TABLE_OWNED(wire_feed_##kind, wire_##kind, table, PACK_BYTES, budget, EXTRA_BYTES)

FEED(fetch, wire_feed_fetch_table, 0)
FEED(fetch_reply, wire_feed_fetch_reply_table, 0)
FEED(poll, wire_feed_poll_table, 0)
FEED(poll_reply, wire_feed_poll_reply_table, POLL_BYTES)
FEED(subscriptions_reply, wire_feed_subscriptions_table, 0)
FEED(unsubscribe, wire_feed_unsubscribe_table, 0)
