/* Fetch, Poll and the subscriptions over the whole way: certificates, sockets, frames, journal. */
#include "collector/subscribe/feed_serve.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/subscribe/feed_rig.h"
#include "tests/support/certs.h"
#include "tests/support/fio_fault.h"
#include "tests/support/t.h"

#define PATIENCE (20 * CLK_S)
#define NAMES    (FEED_WAITING_MAX / FEED_WAITING_EACH + 1)
#define MANY     (NAMES * FEED_WAITING_EACH)

struct set {
    struct certs *pki;
    struct feed_rig rig;
    struct feed_serve *serve;
    struct rpc_server *server;
    struct tls_config *tls, *own; /* own: of the client */
    struct rpc_client *client;
    char address[32];
};

static void dial(struct set *t, const char *who)
{
    struct net_client_conf conf = {.address = t->address, .receive_max = 5u << 20};
    struct errmsg why = {""};

    rpc_client_close(t->client);
    tls_config_free(t->own);
    t->own = certs_load(t->pki, who, t->pki, false);
    conf.tls = t->own;
    assert_ok(rpc_client_open(&t->client, &conf, "test", &why));
}

static void issue(struct set *t)
{
    t->pki = certs_create();
    certs_issue(t->pki, PKI_COLLECTOR, "collector");
    certs_issue(t->pki, PKI_ADMIN, "chief");
    certs_issue(t->pki, PKI_SUBSCRIBE, "ann");
    certs_issue(t->pki, PKI_SUBSCRIBE, "bob");
    certs_issue_as(t->pki,
                   &(struct pki_issue){.use = PKI_QUERY, .name = "guest", .scope = "web-*"});
    certs_issue_as(t->pki,
                   &(struct pki_issue){.use = PKI_SUBSCRIBE, .name = "scoped", .scope = "web-*"});
    t->tls = certs_load(t->pki, "collector", t->pki, true);
}

static int set_up(void **state)
{
    struct set *t = mem_zalloc(sizeof *t);
    struct rpc_method methods[FEED_METHODS];
    struct rpc_server_conf rpc = {.net = {.name = "query",
                                          .address = "127.0.0.1:0",
                                          .roles = NET_QUERY | NET_SUBSCRIBE | NET_ADMIN,
                                          .receive_max = 64 << 10,
                                          .contexts = MANY + 8,
                                          .per_peer = MANY + 8},
                                  .methods = methods,
                                  .n_methods = FEED_METHODS,
                                  .workers = 2,
                                  .queue = MANY + 8,
                                  .raw_max = 64 << 10,
                                  .default_timeout_ns = PATIENCE};
    struct errmsg why = {""};

    assert_non_null(t);
    assert_ok(net_init(&why));
    issue(t);
    feed_rig_init(&t->rig, fio_unsynced());
    assert_ok(feed_serve_create(&t->serve, t->rig.journal, t->rig.roster));
    feed_serve_methods(t->serve, methods);
    rpc.net.tls = t->tls;
    assert_ok(rpc_server_start(&t->server, &rpc, &why));
    snprintf(t->address, sizeof t->address, "127.0.0.1:%u", rpc_server_port(t->server));
    dial(t, "ann");
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct set *t = *state;

    feed_serve_stop(t->serve);
    rpc_server_stop(t->server);
    feed_serve_destroy(t->serve);
    rpc_client_close(t->client);
    tls_config_free(t->own);
    tls_config_free(t->tls);
    feed_rig_fini(&t->rig);
    certs_destroy(t->pki);
    mem_free(t);
    net_fini();
    return 0;
}

/* -- calls -- */

static void nothing(void *ctx)
{
    (void)ctx;
}

static struct rpc_pending *begin_poll(struct set *t, const char *name, uint32_t wait_ms)
{
    const struct wire_poll poll = {.name = str_make(name), .wait_ms = wait_ms, .from_oldest = true};
    struct rpc_pending *p;
    struct buf b;

    buf_init(&b, 4096);
    assert_ok(wire_feed_poll_encode(&b, &poll));
    assert_ok(rpc_client_begin(&p, t->client, RPC_QUERY_POLL, FRAME_RAW, b.p, b.n, PATIENCE,
                               nothing, NULL));
    buf_fini(&b);
    return p;
}

/* Gives the number of updates. */
static size_t updates_in(const struct buf *b)
{
    struct wire_poll_reply *reply;
    size_t n;

    assert_ok(wire_feed_poll_reply_decode(&reply, b->p, b->n));
    assert_true(reply->cursor.n > 0);
    n = reply->n_updates;
    wire_feed_poll_reply_free(reply);
    return n;
}

static size_t end_poll(struct rpc_pending *p)
{
    struct rpc_result result;
    struct buf b;
    size_t n;
    enum err e;

    buf_init(&b, 5u << 20);
    e = rpc_client_finish(p, &b, &result, NULL);
    if (e) {
        fail_msg("%s: %s", err_name(e), result.message);
    }
    n = updates_in(&b);
    buf_fini(&b);
    return n;
}

/* A call that must fail with this code. */
static void refused(struct set *t, const char *method, const struct buf *request,
                    enum rpc_code code)
{
    struct rpc_result result;
    struct buf reply;

    buf_init(&reply, 5u << 20);
    assert_err(rpc_client_call(t->client, method, FRAME_RAW, request->p, request->n, PATIENCE,
                               &reply, &result),
               ERR_REFUSED);
    assert_int_equal(result.code, code);
    assert_true(result.message[0]);
    buf_fini(&reply);
}

static struct wire_fetch_reply *fetch(struct set *t, const char *topic, uint64_t from, uint64_t to,
                                      bool *more)
{
    const struct wire_fetch q = {journal_epoch(t->rig.journal), from, to, str_make(topic)};
    struct wire_fetch_reply *out;
    struct rpc_result result;
    struct buf request, reply;

    buf_init(&request, 4096);
    buf_init(&reply, 5u << 20);
    assert_ok(wire_feed_fetch_encode(&request, &q));
    assert_ok(rpc_client_call(t->client, RPC_QUERY_FETCH, FRAME_RAW, request.p, request.n, PATIENCE,
                              &reply, &result));
    assert_ok(wire_feed_fetch_reply_decode(&out, reply.p, reply.n));
    *more = result.more;
    buf_fini(&request);
    buf_fini(&reply);
    return out;
}

static void fetch_refused(struct set *t, uint64_t epoch, const char *topic, uint64_t to,
                          enum rpc_code code)
{
    const struct wire_fetch q = {epoch, 1, to, str_make(topic)};
    struct buf b;

    buf_init(&b, 4096);
    assert_ok(wire_feed_fetch_encode(&b, &q));
    refused(t, RPC_QUERY_FETCH, &b, code);
    buf_fini(&b);
}

/* -- Poll -- */

static void a_poll_waits_for_the_first_update(void **state)
{
    struct set *t = *state;
    struct rpc_pending *p = begin_poll(t, "a", 15000);

    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    feed_serve_wake(t->serve);
    assert_int_equal(end_poll(p), 1);
}

static void a_poll_with_something_to_say_does_not_wait(void **state)
{
    struct set *t = *state;

    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    assert_int_equal(end_poll(begin_poll(t, "a", 30000)), 1);
}

static void a_poll_ends_when_its_time_is_over(void **state)
{
    assert_int_equal(end_poll(begin_poll(*state, "a", 50)), 0);
    assert_int_equal(end_poll(begin_poll(*state, "", 50)), 0);
    assert_int_equal(end_poll(begin_poll(*state, "", 0)), 0);
}

/* How a poll that did not wait, or waited for an update, ended. */
struct ends {
    size_t refusals, updates;
};

static void end_all(struct ends *out, struct rpc_pending **all, size_t n)
{
    *out = (struct ends){0, 0};
    for (size_t i = 0; i < n; i++) {
        struct rpc_result result;
        struct buf b;
        enum err e;

        buf_init(&b, 1u << 20);
        e = rpc_client_finish(all[i], &b, &result, NULL);
        assert_true(e == ERR_OK || e == ERR_REFUSED);
        if (e) {
            assert_int_equal(result.code, RPC_RESOURCE_EXHAUSTED);
            assert_true(result.retry_after_ms > 0);
        }
        out->refusals += e != ERR_OK;
        out->updates += e ? 0 : updates_in(&b);
        buf_fini(&b);
    }
}

/* Until so many were answered; other calls are, meanwhile. */
static void wait_for_ends(struct set *t, struct rpc_pending **all, size_t n, size_t wanted)
{
    size_t ended = 0;
    bool more;

    while (ended < wanted) {
        ended = 0;
        for (size_t i = 0; i < n; i++) {
            ended += rpc_client_ended(all[i]);
        }
        wire_feed_fetch_reply_free(fetch(t, "event/none", 1, 0, &more));
    }
}

static void a_certificate_has_only_some_of_the_places(void **state)
{
    enum { OWN = FEED_WAITING_EACH + 5, ALL = OWN + 1 };
    struct set *t = *state;
    struct rpc_client *ann = t->client;
    struct tls_config *ann_tls = t->own;
    struct rpc_pending *all[ALL];
    struct ends ends;

    for (size_t i = 0; i < OWN; i++) {
        all[i] = begin_poll(t, "", 15000);
    }
    wait_for_ends(t, all, OWN, OWN - FEED_WAITING_EACH);
    t->client = NULL;
    t->own = NULL;
    dial(t, "bob");
    all[OWN] = begin_poll(t, "", 15000);
    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    feed_serve_wake(t->serve);
    end_all(&ends, all, ALL);
    assert_int_equal(ends.refusals, OWN - FEED_WAITING_EACH);
    assert_int_equal(ends.updates, FEED_WAITING_EACH + 1);
    rpc_client_close(ann);
    tls_config_free(ann_tls);
}

/* Other calls are answered while as many wait as may. */
static void waiting_polls_keep_nobody_waiting(void **state)
{
    struct set *t = *state;
    struct rpc_client *clients[NAMES];
    struct tls_config *tls[NAMES];
    struct rpc_pending *all[MANY];
    struct ends ends;

    for (size_t i = 0; i < NAMES; i++) {
        char name[16];

        snprintf(name, sizeof name, "sub-%zu", i);
        certs_issue(t->pki, PKI_SUBSCRIBE, name);
        clients[i] = t->client;
        tls[i] = t->own;
        t->client = NULL;
        t->own = NULL;
        dial(t, name);
        for (size_t k = 0; k < FEED_WAITING_EACH; k++) {
            all[i * FEED_WAITING_EACH + k] = begin_poll(t, "", 15000);
        }
    }
    wait_for_ends(t, all, MANY, MANY - FEED_WAITING_MAX);
    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    feed_serve_wake(t->serve);
    end_all(&ends, all, MANY);
    assert_int_equal(ends.refusals, MANY - FEED_WAITING_MAX);
    assert_int_equal(ends.updates, FEED_WAITING_MAX);
    for (size_t i = 0; i < NAMES; i++) {
        rpc_client_close(clients[i]);
        tls_config_free(tls[i]);
    }
}

static void polling_the_same_again_ends_the_first(void **state)
{
    struct set *t = *state;
    struct rpc_pending *first = begin_poll(t, "a", 5000), *second = NULL;
    unsigned n = 0;

    while (!rpc_client_ended(first)) { /* whichever of the two came first ends */
        struct rpc_pending *next = begin_poll(t, "a", 5000);

        if (second) {
            assert_int_equal(end_poll(second), 0);
        }
        second = next;
        os_sleep_ns(CLK_MS);
        assert_true(++n < 20000);
    }
    assert_int_equal(end_poll(first), 0);
    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    feed_serve_wake(t->serve);
    if (second) {
        assert_true(end_poll(second) <= 1);
    }
}

static void stopping_answers_those_that_wait(void **state)
{
    struct set *t = *state;
    struct rpc_pending *p = begin_poll(t, "a", 15000);
    struct rpc_result result;
    struct buf b;

    buf_init(&b, 4096);
    feed_serve_stop(t->serve);
    assert_err(rpc_client_finish(p, &b, &result, NULL), ERR_REFUSED);
    assert_int_equal(result.code, RPC_UNAVAILABLE);
    buf_fini(&b);
}

/* The bytes of the reply, as they came. */
static bool holds(const struct buf *b, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i + n <= b->n; i++) {
        if (memcmp(b->p + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static void no_byte_of_another_host_reaches_a_scoped_subscriber(void **state)
{
    struct set *t = *state;
    const struct wire_poll poll = {.from_oldest = true};
    struct rpc_result result;
    struct buf request, reply;

    feed_rig_events(&t->rig, "web-1", 1, 2, "program-of-web");
    feed_rig_events(&t->rig, "db-secret", 5, 2, "program-of-db");
    feed_rig_events(&t->rig, "web-2", 9, 2, "program-of-web");
    dial(t, "scoped");
    buf_init(&request, 4096);
    buf_init(&reply, 5u << 20);
    assert_ok(wire_feed_poll_encode(&request, &poll));
    assert_ok(rpc_client_call(t->client, RPC_QUERY_POLL, FRAME_RAW, request.p, request.n, PATIENCE,
                              &reply, &result));
    assert_true(holds(&reply, "web-1") && holds(&reply, "web-2"));
    assert_true(holds(&reply, "program-of-web"));
    assert_false(holds(&reply, "secret"));
    assert_false(holds(&reply, "program-of-db"));
    buf_fini(&request);
    buf_fini(&reply);
    fetch_refused(t, journal_epoch(t->rig.journal), "event/db-secret", 0, RPC_PERMISSION_DENIED);
    fetch_refused(t, journal_epoch(t->rig.journal), "event/no-such", 0, RPC_PERMISSION_DENIED);
}

static void what_is_no_poll_is_refused(void **state)
{
    struct wire_poll poll = {.name = str_make("a b")};
    struct buf b;

    buf_init(&b, 4096);
    assert_ok(wire_feed_poll_encode(&b, &poll));
    refused(*state, RPC_QUERY_POLL, &b, RPC_INVALID_ARGUMENT);
    buf_reset(&b);
    poll = (struct wire_poll){.cursor = str_make("no cursor")};
    assert_ok(wire_feed_poll_encode(&b, &poll));
    refused(*state, RPC_QUERY_POLL, &b, RPC_INVALID_ARGUMENT);
    buf_reset(&b);
    buf_put_u8(&b, 0xff);
    refused(*state, RPC_QUERY_POLL, &b, RPC_INVALID_ARGUMENT);
    refused(*state, RPC_QUERY_FETCH, &b, RPC_INVALID_ARGUMENT);
    refused(*state, RPC_QUERY_UNSUBSCRIBE, &b, RPC_INVALID_ARGUMENT);
    buf_fini(&b);
}

/* -- Fetch -- */

static void messages_come_again_word_for_word(void **state)
{
    struct set *t = *state;
    struct wire_fetch_reply *got;
    struct journal_record r;
    struct buf payload;
    uint64_t last;
    bool more;

    for (uint32_t i = 1; i <= 4; i++) {
        feed_rig_events(&t->rig, "web-1", i, 1, "x");
        feed_rig_events(&t->rig, "web-10", i, 1, "x");
    }
    got = fetch(t, "event/web-1", 2, 3, &more);
    assert_int_equal(got->n, 2);
    assert_false(more);
    assert_int_equal(got->last_seq, 4);
    assert_int_equal(got->missing, 0);
    buf_init(&payload, 1u << 20);
    for (size_t i = 0; i < got->n; i++) {
        const struct wire_feed_message *m = &got->messages[i];

        assert_int_equal(m->seq, i + 2);
        buf_reset(&payload);
        assert_ok(journal_find(t->rig.journal, FEED_EVENT, "web-1", m->seq, &r, &payload, &last));
        assert_int_equal(m->update.n, payload.n);
        assert_memory_equal(m->update.p, payload.p, payload.n);
    }
    buf_fini(&payload);
    wire_feed_fetch_reply_free(got);
}

static void holes_are_counted_as_missing(void **state)
{
    struct set *t = *state;
    struct wire_fetch_reply *got;
    bool more;

    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    feed_rig_gap(&t->rig, "web-1", 5);
    feed_rig_gap(&t->rig, "web-1", 5);
    feed_rig_events(&t->rig, "web-1", 4, 1, "x");
    got = fetch(t, "event/web-1", 1, 0, &more);
    assert_int_equal(got->n, 2);
    assert_int_equal(got->missing, 2);
    wire_feed_fetch_reply_free(got);
    got = fetch(t, "event/web-1", 2, 3, &more);
    assert_int_equal(got->n, 0);
    assert_int_equal(got->missing, 2);
    wire_feed_fetch_reply_free(got);
    got = fetch(t, "event/web-1", 5, 0, &more); /* nothing newer */
    assert_int_equal(got->n + got->missing, 0);
    assert_int_equal(got->last_seq, 4);
    wire_feed_fetch_reply_free(got);
    got = fetch(t, "event/web-9", 1, 0, &more);
    assert_int_equal(got->n + got->missing + got->last_seq, 0);
    wire_feed_fetch_reply_free(got);
}

static void many_messages_come_in_several_replies(void **state)
{
    struct set *t = *state;
    uint64_t next = 1, replies = 0;
    bool more = true;

    for (uint32_t i = 1; i <= WIRE_FETCH_MAX + 5; i++) {
        feed_rig_events(&t->rig, "web-1", i, 1, "x");
    }
    while (more) {
        struct wire_fetch_reply *got = fetch(t, "event/web-1", next, 0, &more);

        assert_int_equal(got->messages[0].seq, next);
        assert_int_equal(got->missing, 0);
        next = got->messages[got->n - 1].seq + 1;
        replies++;
        wire_feed_fetch_reply_free(got);
    }
    assert_int_equal(next, WIRE_FETCH_MAX + 6);
    assert_int_equal(replies, 2);
}

static void what_is_kept_no_longer_is_out_of_range(void **state)
{
    struct set *t = *state;
    uint64_t epoch = journal_epoch(t->rig.journal);
    struct wire_fetch_reply *got;
    bool more;

    feed_rig_events(&t->rig, "web-1", 1, 1, "x");
    fetch_refused(t, epoch + 1, "event/web-1", 1, RPC_OUT_OF_RANGE);
    fetch_refused(t, epoch, "web-1", 1, RPC_INVALID_ARGUMENT);
    feed_rig_flood(&t->rig);
    fetch_refused(t, epoch, "event/web-1", 1, RPC_OUT_OF_RANGE);
    feed_rig_events(&t->rig, "web-1", 2, 1, "x");
    fetch_refused(t, epoch, "event/web-1", 1, RPC_OUT_OF_RANGE);
    got = fetch(t, "event/web-1", 1, 2, &more); /* what is left, and that one is missing */
    assert_int_equal(got->n, 1);
    assert_int_equal(got->missing, 1);
    wire_feed_fetch_reply_free(got);
}

/* -- Subscriptions, Unsubscribe -- */

static size_t count_subscriptions(struct set *t)
{
    struct wire_subscriptions_reply *list;
    struct rpc_result result;
    struct buf reply;
    size_t n;

    buf_init(&reply, 5u << 20);
    assert_ok(rpc_client_call(t->client, RPC_QUERY_SUBSCRIPTIONS, FRAME_RAW, "", 0, PATIENCE,
                              &reply, &result));
    assert_ok(wire_feed_subscriptions_reply_decode(&list, reply.p, reply.n));
    n = list->n;
    wire_feed_subscriptions_reply_free(list);
    buf_fini(&reply);
    return n;
}

static enum rpc_code unsubscribe(struct set *t, const char *name, const char *owner)
{
    const struct wire_unsubscribe q = {str_make(name), str_make(owner)};
    struct rpc_result result = {.code = RPC_OK};
    struct buf request, reply;

    buf_init(&request, 4096);
    buf_init(&reply, 4096);
    assert_ok(wire_feed_unsubscribe_encode(&request, &q));
    err_ignore(rpc_client_call(t->client, RPC_QUERY_UNSUBSCRIBE, FRAME_RAW, request.p, request.n,
                               PATIENCE, &reply, &result));
    buf_fini(&request);
    buf_fini(&reply);
    return result.code;
}

static void subscriptions_are_their_owners_and_the_admins(void **state)
{
    struct set *t = *state;

    assert_int_equal(end_poll(begin_poll(t, "a", 0)), 0);
    assert_int_equal(end_poll(begin_poll(t, "b", 0)), 0);
    dial(t, "bob");
    assert_int_equal(end_poll(begin_poll(t, "a", 0)), 0);
    assert_int_equal(count_subscriptions(t), 1);
    assert_int_equal(unsubscribe(t, "b", ""), RPC_NOT_FOUND);
    assert_int_equal(unsubscribe(t, "b", "ann"), RPC_PERMISSION_DENIED);
    assert_int_equal(unsubscribe(t, "a", "bob"), RPC_OK);
    assert_int_equal(count_subscriptions(t), 0);
    dial(t, "chief");
    assert_int_equal(count_subscriptions(t), 2);
    assert_int_equal(unsubscribe(t, "b", "ann"), RPC_OK);
    assert_int_equal(count_subscriptions(t), 1);
}

/* Who asks may look at the feed inside the scope, and leaves nothing behind in the collector. */
static void role_query_polls_and_fetches_without_a_name(void **state)
{
    struct set *t = *state;
    const struct wire_poll poll = {.from_oldest = true};
    struct wire_poll named = {.name = str_make("audit")};
    struct wire_fetch_reply *again;
    struct rpc_result result;
    struct buf request, reply;
    bool more;

    feed_rig_events(&t->rig, "web-1", 1, 2, "program-of-web");
    feed_rig_events(&t->rig, "db-secret", 5, 2, "program-of-db");
    dial(t, "guest");
    buf_init(&request, 4096);
    buf_init(&reply, 5u << 20);
    assert_ok(wire_feed_poll_encode(&request, &poll));
    assert_ok(rpc_client_call(t->client, RPC_QUERY_POLL, FRAME_RAW, request.p, request.n, PATIENCE,
                              &reply, &result));
    assert_true(holds(&reply, "program-of-web"));
    assert_false(holds(&reply, "secret") || holds(&reply, "program-of-db"));
    again = fetch(t, "event/web-1", 1, 0, &more);
    assert_true(again->n > 0);
    wire_feed_fetch_reply_free(again);
    fetch_refused(t, journal_epoch(t->rig.journal), "event/db-secret", 0, RPC_PERMISSION_DENIED);
    buf_reset(&request);
    assert_ok(wire_feed_poll_encode(&request, &named));
    refused(t, RPC_QUERY_POLL, &request, RPC_PERMISSION_DENIED);
    dial(t, "chief");
    assert_int_equal(count_subscriptions(t), 0);
    assert_int_equal(end_poll(begin_poll(t, "of-the-chief", 0)), 2);
    buf_fini(&request);
    buf_fini(&reply);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_poll_waits_for_the_first_update),
        T(a_poll_with_something_to_say_does_not_wait),
        T(a_poll_ends_when_its_time_is_over),
        T(a_certificate_has_only_some_of_the_places),
        T(waiting_polls_keep_nobody_waiting),
        T(polling_the_same_again_ends_the_first),
        T(stopping_answers_those_that_wait),
        T(no_byte_of_another_host_reaches_a_scoped_subscriber),
        T(role_query_polls_and_fetches_without_a_name),
        T(what_is_no_poll_is_refused),
        T(messages_come_again_word_for_word),
        T(holes_are_counted_as_missing),
        T(many_messages_come_in_several_replies),
        T(what_is_kept_no_longer_is_out_of_range),
        T(subscriptions_are_their_owners_and_the_admins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
