#include "common/wire/wire_feed.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

#define OUT_MAX (16u << 20)

static void assert_str(struct str a, struct str b)
{
    assert_int_equal(a.n, b.n);
    if (a.n) {
        assert_memory_equal(a.p, b.p, a.n);
    }
}

static struct wire_filter filter(void)
{
    return (struct wire_filter){.n_hosts = 2,
                                .hosts = {str_make("web-*"), str_make("größe")},
                                .program = str_make("*.exe"),
                                .kinds = UINT32_MAX,
                                .no_events = true,
                                .samples = true,
                                .n_metrics = 2,
                                .metrics = {M_CPU_TIME, M_PRIORITY},
                                .min_interval_ns = INT64_MAX};
}

static void assert_filter(const struct wire_filter *a, const struct wire_filter *b)
{
    assert_int_equal(a->n_hosts, b->n_hosts);
    for (size_t i = 0; i < a->n_hosts; i++) {
        assert_str(a->hosts[i], b->hosts[i]);
    }
    assert_str(a->program, b->program);
    assert_int_equal(a->kinds, b->kinds);
    assert_true(a->no_events == b->no_events && a->samples == b->samples);
    assert_int_equal(a->n_metrics, b->n_metrics);
    assert_memory_equal(a->metrics, b->metrics, sizeof a->metrics);
    assert_true(a->min_interval_ns == b->min_interval_ns);
}

static struct wire_poll poll(void)
{
    return (struct wire_poll){.name = str_make("audit.v1_a-b"),
                              .cursor = {"a\0b", 3},
                              .has_filter = true,
                              .filter = filter(),
                              .max = UINT32_MAX,
                              .wait_ms = 30000,
                              .from_oldest = true};
}

static struct wire_fetch_reply fetch_reply(void)
{
    static const struct wire_feed_message messages[] = {{1, {"\0\1", 2}}, {UINT64_MAX, {"", 0}}};

    return (struct wire_fetch_reply){
        .n = 2, .messages = messages, .last_seq = UINT64_MAX, .missing = 7};
}

static struct wire_poll_reply poll_reply(void)
{
    static struct wire_host host;
    static struct wire_event event;
    static struct wire_update updates[2];

    host = (struct wire_host){.name = str_make("web-1")};
    event = (struct wire_event){.event = {.kind = LIFE_PROCESS_STOP,
                                          .wall_ns = 3,
                                          .info = {.id = {7, 8}, .name = {"sh", 2}}}};
    updates[0] = (struct wire_update){
        .name = str_make("web-1"),
        .data = {.n_hosts = 1, .hosts = &host, .n_events = 1, .events = &event}};
    memset(&updates[0].host, 9, sizeof updates[0].host);
    return (struct wire_poll_reply){.n_updates = 2,
                                    .updates = updates,
                                    .cursor = {"\0x", 2},
                                    .more = true,
                                    .dropped = UINT64_MAX,
                                    .dropped_now = 3,
                                    .behind_bytes = 4};
}

static struct wire_subscriptions_reply subscriptions(void)
{
    static struct wire_subscription list[2];

    list[0] = (struct wire_subscription){.name = str_make("a"),
                                         .owner = str_make("ann"),
                                         .scope = str_make("lab-*"),
                                         .filter = filter(),
                                         .created_ns = 1,
                                         .polled_ns = INT64_MIN,
                                         .behind_bytes = 2,
                                         .dropped = 3,
                                         .delivered = UINT64_MAX};
    return (struct wire_subscriptions_reply){2, list};
}

static void fetches_come_back_as_they_were(void **state)
{
    const struct wire_fetch in = {UINT64_MAX, 1, 2, str_make("event/web-1")};
    struct wire_fetch *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_fetch_encode(&b, &in));
    assert_ok(wire_feed_fetch_decode(&out, b.p, b.n));
    assert_true(out->epoch == in.epoch && out->from_seq == 1 && out->to_seq == 2);
    assert_str(in.topic, out->topic);
    wire_feed_fetch_free(out);
    buf_fini(&b);
}

static void fetched_messages_come_back_as_they_were(void **state)
{
    const struct wire_fetch_reply in = fetch_reply();
    struct wire_fetch_reply *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_fetch_reply_encode(&b, &in));
    assert_ok(wire_feed_fetch_reply_decode(&out, b.p, b.n));
    assert_int_equal(out->n, in.n);
    for (size_t i = 0; i < in.n; i++) {
        assert_true(out->messages[i].seq == in.messages[i].seq);
        assert_str(in.messages[i].update, out->messages[i].update);
    }
    assert_true(out->last_seq == in.last_seq && out->missing == in.missing);
    wire_feed_fetch_reply_free(out);
    buf_fini(&b);
}

static void polls_come_back_as_they_were(void **state)
{
    const struct wire_poll in[] = {poll(), {.max = 0}, {.has_filter = true}};

    for (size_t i = 0; i < COUNT_OF(in); i++) {
        struct wire_poll *out;
        struct buf b;

        buf_init(&b, OUT_MAX);
        assert_ok(wire_feed_poll_encode(&b, &in[i]));
        assert_ok(wire_feed_poll_decode(&out, b.p, b.n));
        assert_str(in[i].name, out->name);
        assert_str(in[i].cursor, out->cursor);
        assert_int_equal(in[i].has_filter, out->has_filter);
        assert_filter(&in[i].filter, &out->filter);
        assert_true(in[i].max == out->max && in[i].wait_ms == out->wait_ms);
        assert_int_equal(in[i].from_oldest, out->from_oldest);
        wire_feed_poll_free(out);
        buf_fini(&b);
    }
}

static void polled_updates_come_back_as_they_were(void **state)
{
    const struct wire_poll_reply in = poll_reply();
    const struct wire_answer *data;
    struct wire_poll_reply *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_poll_reply_encode(&b, &in));
    assert_ok(wire_feed_poll_reply_decode(&out, b.p, b.n));
    assert_int_equal(out->n_updates, 2);
    assert_memory_equal(&out->updates[0].host, &in.updates[0].host, sizeof in.updates[0].host);
    assert_str(in.updates[0].name, out->updates[0].name);
    data = &out->updates[0].data;
    assert_int_equal(data->n_events, 1);
    assert_str(data->hosts[0].name, str_make("web-1"));
    assert_int_equal(data->events[0].event.info.id.pid, 7);
    assert_str(data->events[0].event.info.name, str_make("sh"));
    assert_str(in.cursor, out->cursor);
    assert_true(out->more && out->dropped == in.dropped && out->dropped_now == 3);
    assert_int_equal(out->behind_bytes, 4);
    wire_feed_poll_reply_free(out);
    buf_fini(&b);
}

static void subscriptions_come_back_as_they_were(void **state)
{
    const struct wire_subscriptions_reply in = subscriptions();
    struct wire_subscriptions_reply *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_subscriptions_reply_encode(&b, &in));
    assert_ok(wire_feed_subscriptions_reply_decode(&out, b.p, b.n));
    assert_int_equal(out->n, in.n);
    for (size_t i = 0; i < in.n; i++) {
        const struct wire_subscription *x = &in.subscriptions[i], *y = &out->subscriptions[i];

        assert_str(x->name, y->name);
        assert_str(x->owner, y->owner);
        assert_str(x->scope, y->scope);
        assert_filter(&x->filter, &y->filter);
        assert_true(x->created_ns == y->created_ns && x->polled_ns == y->polled_ns);
        assert_true(x->behind_bytes == y->behind_bytes && x->dropped == y->dropped);
        assert_true(x->delivered == y->delivered);
    }
    wire_feed_subscriptions_reply_free(out);
    buf_fini(&b);
}

static void unsubscribing_comes_back_as_it_was(void **state)
{
    const struct wire_unsubscribe in = {str_make("a"), str_make("ann")};
    struct wire_unsubscribe *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_unsubscribe_encode(&b, &in));
    assert_ok(wire_feed_unsubscribe_decode(&out, b.p, b.n));
    assert_str(in.name, out->name);
    assert_str(in.owner, out->owner);
    wire_feed_unsubscribe_free(out);
    buf_fini(&b);
}

/* -- bounds -- */

static void what_is_over_its_bound_is_not_encoded(void **state)
{
    static char long_cursor[WIRE_CURSOR_MAX + 1];
    struct wire_poll request = poll();
    struct wire_poll_reply reply = poll_reply();
    struct wire_fetch_reply fetched = fetch_reply();
    struct wire_subscriptions_reply list = subscriptions();
    struct buf b;

    buf_init(&b, OUT_MAX);
    request.cursor = (struct str){long_cursor, sizeof long_cursor};
    assert_err(wire_feed_poll_encode(&b, &request), ERR_INVALID);
    request = poll();
    request.filter.n_hosts = WIRE_FEED_HOSTS_MAX + 1;
    assert_err(wire_feed_poll_encode(&b, &request), ERR_INVALID);
    request = poll();
    request.filter.min_interval_ns = -1;
    assert_err(wire_feed_poll_encode(&b, &request), ERR_INVALID);
    reply.n_updates = WIRE_UPDATES_MAX + 1;
    assert_err(wire_feed_poll_reply_encode(&b, &reply), ERR_INVALID);
    fetched.n = WIRE_FETCH_MAX + 1;
    assert_err(wire_feed_fetch_reply_encode(&b, &fetched), ERR_INVALID);
    list.n = WIRE_SUBSCRIPTIONS_MAX + 1;
    assert_err(wire_feed_subscriptions_reply_encode(&b, &list), ERR_INVALID);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
}

/* n times field 1, a message whose field 2 has some bytes: empty ones are refused for the memory.
 */
static void many(struct buf *b, size_t n)
{
    enum { BYTES = 60 };
    uint8_t message[4 + BYTES] = {0x0a, 2 + BYTES, 0x12, BYTES};

    memset(message + 4, 'x', BYTES);
    buf_reset(b);
    for (size_t i = 0; i < n; i++) {
        buf_put(b, message, sizeof message);
    }
}

static void counts_from_outside_are_checked(void **state)
{
    struct wire_fetch_reply *fetched;
    struct wire_poll_reply *reply;
    struct wire_subscriptions_reply *list;
    struct buf b;

    buf_init(&b, OUT_MAX);
    many(&b, WIRE_FETCH_MAX);
    assert_ok(wire_feed_fetch_reply_decode(&fetched, b.p, b.n));
    wire_feed_fetch_reply_free(fetched);
    many(&b, WIRE_FETCH_MAX + 1);
    assert_err(wire_feed_fetch_reply_decode(&fetched, b.p, b.n), ERR_FULL);
    many(&b, WIRE_UPDATES_MAX);
    assert_ok(wire_feed_poll_reply_decode(&reply, b.p, b.n));
    wire_feed_poll_reply_free(reply);
    many(&b, WIRE_UPDATES_MAX + 1);
    assert_err(wire_feed_poll_reply_decode(&reply, b.p, b.n), ERR_FULL);
    many(&b, WIRE_SUBSCRIPTIONS_MAX);
    assert_ok(wire_feed_subscriptions_reply_decode(&list, b.p, b.n));
    wire_feed_subscriptions_reply_free(list);
    many(&b, WIRE_SUBSCRIPTIONS_MAX + 1);
    assert_err(wire_feed_subscriptions_reply_decode(&list, b.p, b.n), ERR_FULL);
    buf_fini(&b);
}

/* Updates whose answers together have more rows than one reply may, each of them few. */
static void rows_of_all_updates_together_are_bounded(void **state)
{
    enum { EACH = 3, N = WIRE_UPDATES_MAX / EACH + 1 };
    struct wire_host host = {.name = str_make("a")};
    struct wire_row rows[EACH] = {{.host = 0}};
    struct wire_update *updates = mem_array(N, sizeof *updates);
    struct wire_poll_reply in = {.n_updates = N - 1, .updates = updates}, *out;
    struct buf b;

    assert_non_null(updates);
    for (size_t i = 0; i < N; i++) {
        updates[i].data =
            (struct wire_answer){.n_hosts = 1, .hosts = &host, .n_rows = EACH, .rows = rows};
    }
    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_poll_reply_encode(&b, &in));
    assert_ok(wire_feed_poll_reply_decode(&out, b.p, b.n));
    wire_feed_poll_reply_free(out);
    in.n_updates = N;
    buf_reset(&b);
    assert_ok(wire_feed_poll_reply_encode(&b, &in));
    assert_err(wire_feed_poll_reply_decode(&out, b.p, b.n), ERR_FULL);
    buf_fini(&b);
    mem_free(updates);
}

static void the_largest_reply_of_events_is_decoded(void **state)
{
    struct wire_host host = {.name = str_make("a")};
    struct wire_event event = {
        .event = {.kind = LIFE_PROCESS_START, .info = {.name = str_make("x")}}};
    struct wire_update *updates = mem_array(WIRE_UPDATES_MAX, sizeof *updates);
    struct wire_poll_reply in = {.n_updates = WIRE_UPDATES_MAX, .updates = updates}, *out;
    struct buf b;

    assert_non_null(updates);
    for (size_t i = 0; i < WIRE_UPDATES_MAX; i++) {
        updates[i].data =
            (struct wire_answer){.n_hosts = 1, .hosts = &host, .n_events = 1, .events = &event};
    }
    buf_init(&b, OUT_MAX);
    assert_ok(wire_feed_poll_reply_encode(&b, &in));
    assert_ok(wire_feed_poll_reply_decode(&out, b.p, b.n));
    assert_int_equal(out->n_updates, WIRE_UPDATES_MAX);
    wire_feed_poll_reply_free(out);
    buf_fini(&b);
    mem_free(updates);
}

/* -- all of them -- */

enum { KINDS = 6 };

static enum err encode_nth(struct buf *b, unsigned which)
{
    const struct wire_fetch fetch = {1, 2, 3, str_make("event/a")};
    const struct wire_fetch_reply fetched = fetch_reply();
    const struct wire_poll request = poll();
    const struct wire_poll_reply reply = poll_reply();
    const struct wire_subscriptions_reply list = subscriptions();
    const struct wire_unsubscribe leave = {str_make("a"), str_make("ann")};

    switch (which) {
    case 0:
        return wire_feed_fetch_encode(b, &fetch);
    case 1:
        return wire_feed_fetch_reply_encode(b, &fetched);
    case 2:
        return wire_feed_poll_encode(b, &request);
    case 3:
        return wire_feed_poll_reply_encode(b, &reply);
    case 4:
        return wire_feed_subscriptions_reply_encode(b, &list);
    default:
        return wire_feed_unsubscribe_encode(b, &leave);
    }
}

static enum err decode_nth(const void *p, size_t n, unsigned which)
{
    struct wire_fetch *fetch = NULL;
    struct wire_fetch_reply *fetched = NULL;
    struct wire_poll *request = NULL;
    struct wire_poll_reply *reply = NULL;
    struct wire_subscriptions_reply *list = NULL;
    struct wire_unsubscribe *leave = NULL;
    enum err e;

    e = which == 0   ? wire_feed_fetch_decode(&fetch, p, n)
        : which == 1 ? wire_feed_fetch_reply_decode(&fetched, p, n)
        : which == 2 ? wire_feed_poll_decode(&request, p, n)
        : which == 3 ? wire_feed_poll_reply_decode(&reply, p, n)
        : which == 4 ? wire_feed_subscriptions_reply_decode(&list, p, n)
                     : wire_feed_unsubscribe_decode(&leave, p, n);
    wire_feed_fetch_free(fetch);
    wire_feed_fetch_reply_free(fetched);
    wire_feed_poll_free(request);
    wire_feed_poll_reply_free(reply);
    wire_feed_subscriptions_reply_free(list);
    wire_feed_unsubscribe_free(leave);
    return e;
}

/* Protobuf cannot tell a message cut between two fields from one without the later fields. */
static void every_shorter_message_is_refused_or_lacks_fields(void **state)
{
    for (unsigned which = 0; which < KINDS; which++) {
        size_t refused = 0;
        struct buf b;

        buf_init(&b, OUT_MAX);
        assert_ok(encode_nth(&b, which));
        for (size_t n = 0; n < b.n; n++) {
            enum err e = decode_nth(b.p, n, which);

            assert_true(e == ERR_OK || e == ERR_CORRUPT);
            refused += e != ERR_OK;
        }
        assert_true(refused >= b.n / 2);
        buf_fini(&b);
    }
}

static void every_failed_allocation_is_survived(void **state)
{
    for (unsigned which = 0; which < KINDS; which++) {
        long live = mem_live();
        enum err e = ERR_NOMEM;

        for (long k = 0; e; k++) {
            struct buf b;

            buf_init(&b, OUT_MAX);
            mem_fail_after(k);
            e = encode_nth(&b, which);
            if (!e) {
                e = decode_nth(b.p, b.n, which);
            }
            mem_fail_after(-1);
            assert_true(e == ERR_OK || e == ERR_NOMEM);
            buf_fini(&b);
            assert_int_equal(mem_live(), live);
            assert_true(k < 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fetches_come_back_as_they_were),
        cmocka_unit_test(fetched_messages_come_back_as_they_were),
        cmocka_unit_test(polls_come_back_as_they_were),
        cmocka_unit_test(polled_updates_come_back_as_they_were),
        cmocka_unit_test(subscriptions_come_back_as_they_were),
        cmocka_unit_test(unsubscribing_comes_back_as_it_was),
        cmocka_unit_test(what_is_over_its_bound_is_not_encoded),
        cmocka_unit_test(counts_from_outside_are_checked),
        cmocka_unit_test(rows_of_all_updates_together_are_bounded),
        cmocka_unit_test(the_largest_reply_of_events_is_decoded),
        cmocka_unit_test(every_shorter_message_is_refused_or_lacks_fields),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
