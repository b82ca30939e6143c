#include "common/rpc/rpc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/deadline.h"
#include "common/os/os.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_rpc.h"
#include "tests/support/net_rig.h"
#include "tests/support/t.h"

#define LONG_NS (20 * CLK_S)
#define RAW_MAX 2000

static struct certs *pki;
static struct tls_config *collector, *query, *subscriber;

/* -- methods -- */

/* Answers with what came, behind the caller's name. */
static void echo(void *ctx, struct rpc_call *c)
{
    char out[4096];
    size_t n, head;
    const uint8_t *p = rpc_call_payload(c, &n);

    (void)ctx;
    head = (size_t)snprintf(out, sizeof out, "%s:", rpc_call_peer(c)->name);
    memcpy(out + head, p, n);
    rpc_answer(c, out, head + n, &(struct rpc_answer_opt){true, "next", 4});
}

static void refuse(void *ctx, struct rpc_call *c)
{
    (void)ctx;
    rpc_fail(c, RPC_NOT_FOUND, 70, "no host is called %s", "x");
}

static void refuse_for_weeks(void *ctx, struct rpc_call *c)
{
    (void)ctx;
    rpc_fail(c, RPC_UNAVAILABLE, UINT32_MAX, "come again");
}

/* Keeps the call for the test to answer. */
static void keep(void *ctx, struct rpc_call *c)
{
    struct rpc_call *_Atomic *kept = ctx;

    atomic_store(kept, c);
}

struct gate {
    atomic_bool open;
    atomic_int inside;
};

static void wait_at_gate(void *ctx, struct rpc_call *c)
{
    struct gate *g = ctx;

    atomic_fetch_add(&g->inside, 1);
    while (!atomic_load(&g->open)) {
        os_sleep_ns(CLK_MS);
    }
    rpc_answer(c, "through", 7, NULL);
}

static void work_until_told(void *ctx, struct rpc_call *c)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
    while (!deadline_passed(rpc_call_deadline(c))) {
        os_sleep_ns(CLK_MS);
    }
    rpc_fail(c, RPC_DEADLINE_EXCEEDED, 0, "it takes too long");
}

static void tell_place(void *ctx, struct rpc_call *c)
{
    const char *place = os_thread_is_background() ? "behind" : "beside";

    (void)ctx;
    rpc_answer(c, place, strlen(place), NULL);
}

/* How many were let through the gate before. */
static void tell_turn(void *ctx, struct rpc_call *c)
{
    struct gate *g = ctx;
    char text[16];
    int n = snprintf(text, sizeof text, "%d", atomic_load(&g->inside));

    rpc_answer(c, text, (size_t)n, NULL);
}

static struct rpc_call *_Atomic kept;
static atomic_int at_work;
static struct gate gate;

static const struct rpc_method methods[] = {
    {RPC_QUERY_TOP, NET_QUERY, echo, NULL},
    {RPC_QUERY_HOSTS, NET_QUERY | NET_SUBSCRIBE, refuse, NULL},
    {RPC_QUERY_EVENTS, NET_QUERY, keep, (void *)&kept},
    {RPC_QUERY_HISTORY, NET_QUERY, wait_at_gate, &gate},
    {RPC_QUERY_OVERVIEW, NET_QUERY, tell_turn, &gate},
    {RPC_QUERY_COVERAGE, NET_QUERY, work_until_told, &at_work},
    {RPC_QUERY_TREE, NET_QUERY, refuse_for_weeks, NULL},
    {RPC_QUERY_SERVER_INFO, NET_QUERY, tell_place, NULL},
    {RPC_INGEST_PUSH, NET_QUERY, echo, NULL},
};

static struct rpc_server_conf conf_of(unsigned workers, unsigned queue)
{
    struct rpc_server_conf conf = {.net = {.name = "query",
                                           .address = "127.0.0.1:0",
                                           .tls = collector,
                                           .roles = NET_QUERY | NET_SUBSCRIBE,
                                           .receive_max = 64 << 10,
                                           .contexts = 16,
                                           .per_peer = 16},
                                   .methods = methods,
                                   .n_methods = COUNT_OF(methods),
                                   .workers = workers,
                                   .queue = queue,
                                   .raw_max = RAW_MAX,
                                   .default_timeout_ns = LONG_NS};

    return conf;
}

static struct rpc_server *start(unsigned workers, unsigned queue)
{
    struct rpc_server_conf conf = conf_of(workers, queue);
    struct rpc_server *s = NULL;
    struct errmsg why = {""};

    if (rpc_server_start(&s, &conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return s;
}

static struct net_client_conf dial_conf(char address[32], unsigned port, struct tls_config *tls)
{
    struct net_client_conf conf = {.address = address, .tls = tls, .receive_max = 1 << 20};

    snprintf(address, 32, "127.0.0.1:%u", port);
    return conf;
}

static struct rpc_client *dial(const struct rpc_server *s, struct tls_config *tls)
{
    char address[32];
    struct net_client_conf conf = dial_conf(address, rpc_server_port(s), tls);
    struct rpc_client *c = NULL;
    struct errmsg why = {""};

    assert_ok(rpc_client_open(&c, &conf, "test/1", NULL));
    if (rpc_client_wait(c, LONG_NS, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return c;
}

static enum err call(struct rpc_client *c, const char *method, struct rpc_result *result)
{
    struct buf reply;
    enum err e;

    buf_init(&reply, 1 << 20);
    e = rpc_client_call(c, method, FRAME_RAW, "x", 1, LONG_NS, &reply, result);
    buf_fini(&reply);
    return e;
}

static void assert_refused(struct rpc_client *c, const char *method, enum rpc_code code)
{
    struct rpc_result result;

    assert_err(call(c, method, &result), ERR_REFUSED);
    assert_string_equal(frame_code_name(result.code), frame_code_name(code));
}

/* -- the frame's journey -- */

static void a_call_is_answered_with_payload_and_cursor(void **state)
{
    struct rpc_server *s = start(2, 8);
    struct rpc_client *c = dial(s, query);
    struct rpc_result result;
    struct buf reply;

    buf_init(&reply, 1 << 20);
    assert_ok(rpc_client_call(c, RPC_QUERY_TOP, FRAME_RAW, "hello", 5, LONG_NS, &reply, &result));
    assert_string_equal(buf_cstr(&reply), "query:hello");
    assert_true(result.more);
    assert_int_equal(result.cursor_n, 4);
    assert_memory_equal(result.cursor, "next", 4);
    assert_true(result.epoch != 0);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void a_refusal_carries_code_words_and_pause(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct rpc_result result;

    assert_err(call(c, RPC_QUERY_HOSTS, &result), ERR_REFUSED);
    assert_int_equal(result.code, RPC_NOT_FOUND);
    assert_string_equal(result.message, "no host is called x");
    assert_int_equal(result.retry_after_ms, 70);
    assert_err(call(c, RPC_QUERY_TREE, &result), ERR_REFUSED);
    assert_int_equal(result.retry_after_ms, RPC_RETRY_AFTER_MAX_MS);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void a_method_is_for_its_roles_and_must_exist(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, subscriber);

    assert_refused(c, RPC_QUERY_HOSTS, RPC_NOT_FOUND);
    assert_refused(c, RPC_QUERY_TOP, RPC_PERMISSION_DENIED);
    assert_refused(c, "procfleet.v1.Query/Nothing", RPC_UNIMPLEMENTED);
    assert_refused(c, RPC_QUERY_PROCESSES, RPC_UNIMPLEMENTED); /* exists, not offered here */
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void an_answer_may_come_later_from_another_thread(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct rpc_call *late;
    struct rpc_result result;
    struct buf reply;

    buf_init(&reply, 100);
    atomic_store(&kept, NULL);
    assert_err(rpc_client_call(c, RPC_QUERY_EVENTS, FRAME_RAW, "x", 1, CLK_S, &reply, &result),
               ERR_TIMEOUT);
    while ((late = atomic_load(&kept)) == NULL) {
        os_sleep_ns(CLK_MS);
    }
    rpc_answer(late, "late", 4, NULL); /* its caller is gone */
    assert_refused(c, RPC_QUERY_HOSTS, RPC_NOT_FOUND);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void a_call_outlives_its_server(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct rpc_call *late;
    struct buf reply;
    size_t n;

    buf_init(&reply, 100);
    atomic_store(&kept, NULL);
    assert_err(rpc_client_call(c, RPC_QUERY_EVENTS, FRAME_RAW, "x", 1, CLK_S, &reply, NULL),
               ERR_TIMEOUT);
    while ((late = atomic_load(&kept)) == NULL) {
        os_sleep_ns(CLK_MS);
    }
    rpc_server_stop(s);
    assert_int_equal(rpc_call_payload(late, &n)[0], 'x');
    assert_string_equal(rpc_call_peer(late)->name, "query");
    rpc_answer(late, "late", 4, NULL);
    buf_fini(&reply);
    rpc_client_close(c);
}

struct caller {
    struct rpc_client *c;
    atomic_int *finished;
    enum err e;
    struct rpc_result result;
};

static void call_coverage_for_long(void *arg)
{
    struct caller *k = arg;
    struct buf reply;

    buf_init(&reply, 100);
    k->e = rpc_client_call(k->c, RPC_QUERY_COVERAGE, FRAME_RAW, "x", 1, 2 * LONG_NS, &reply,
                           &k->result);
    buf_fini(&reply);
}

static void work_ends_with_its_callers_patience(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct rpc_result result = {0};
    struct buf reply;

    buf_init(&reply, 100);
    assert_true(rpc_client_call(c, RPC_QUERY_COVERAGE, FRAME_RAW, "x", 1, 200 * CLK_MS, &reply,
                                &result) != ERR_OK);
    assert_refused(c, RPC_QUERY_HOSTS, RPC_NOT_FOUND); /* the only worker is free again */
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

/* The connection may be gone before the answer is. */
static void a_stop_does_not_wait_for_work(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct caller k = {.c = c};
    struct os_thread *caller;
    int64_t begin_ns;

    atomic_store(&at_work, 0);
    assert_ok(os_thread_start(&caller, "caller", call_coverage_for_long, &k));
    while (atomic_load(&at_work) == 0) {
        os_sleep_ns(CLK_MS);
    }
    begin_ns = os_mono_ns();
    rpc_server_stop(s);
    assert_true(os_mono_ns() - begin_ns < LONG_NS);
    os_thread_join(caller);
    rpc_client_close(c);
    assert_true(k.e != ERR_OK);
    if (k.e == ERR_REFUSED) {
        assert_int_equal(k.result.code, RPC_UNAVAILABLE);
        assert_string_equal(k.result.message, "the server is stopping");
    }
}

/* -- bounds -- */

static void call_history(void *arg)
{
    struct caller *k = arg;

    k->e = call(k->c, RPC_QUERY_HISTORY, &k->result);
    atomic_fetch_add(k->finished, 1);
}

static void a_full_queue_asks_callers_to_come_back(void **state)
{
    enum { CALLERS = 6, SERVED = 3 };
    struct rpc_server *s = start(1, SERVED - 1); /* one at work, the others wait */
    struct rpc_client *c = dial(s, query);
    atomic_int finished = 0;
    struct caller k[CALLERS];
    struct os_thread *threads[CALLERS];
    int through = 0, busy = 0;

    atomic_store(&gate.open, false);
    atomic_store(&gate.inside, 0);
    for (size_t i = 0; i < CALLERS; i++) {
        k[i] = (struct caller){.c = c, .finished = &finished};
        assert_ok(os_thread_start(&threads[i], "caller", call_history, &k[i]));
        while (i == 0 && atomic_load(&gate.inside) == 0) {
            os_sleep_ns(CLK_MS);
        }
    }
    while (atomic_load(&finished) < CALLERS - SERVED) {
        os_sleep_ns(CLK_MS);
    }
    atomic_store(&gate.open, true);
    for (size_t i = 0; i < CALLERS; i++) {
        os_thread_join(threads[i]);
        through += k[i].e == ERR_OK;
        busy += k[i].e == ERR_REFUSED && k[i].result.code == RPC_RESOURCE_EXHAUSTED &&
                k[i].result.retry_after_ms > 0;
    }
    assert_int_equal(through, SERVED);
    assert_int_equal(busy, CALLERS - SERVED);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void call_for_a_turn(void *arg)
{
    struct caller *k = arg;
    struct buf reply;

    buf_init(&reply, 16);
    k->e =
        rpc_client_call(k->c, RPC_QUERY_OVERVIEW, FRAME_RAW, "x", 1, LONG_NS, &reply, &k->result);
    if (!k->e) {
        assert_string_equal(buf_cstr(&reply), "1"); /* next behind the one at work */
    }
    buf_fini(&reply);
    atomic_fetch_add(k->finished, 1);
}

/* Who asks more than can be served leaves a quarter of the queue to others, and these need not wait
 * for all of it. Five calls of one: one at work, three wait, one is refused; two of another: one
 * fills the queue. */
static void one_holder_keeps_no_other_waiting(void **state)
{
    struct rpc_server *s = start(1, 4);
    struct rpc_client *many = dial(s, query), *one = dial(s, certs_tls(pki, PKI_QUERY, "other"));
    struct os_thread *threads[7];
    struct caller k[COUNT_OF(threads)];
    atomic_int finished = 0;
    int through[2] = {0, 0};

    atomic_store(&gate.open, false);
    atomic_store(&gate.inside, 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        k[i] = (struct caller){.c = i < 5 ? many : one, .finished = &finished};
        while (i == 5 && atomic_load(&finished) == 0) {
            os_sleep_ns(CLK_MS);
        }
        assert_ok(
            os_thread_start(&threads[i], "caller", i < 5 ? call_history : call_for_a_turn, &k[i]));
        while (i == 0 && atomic_load(&gate.inside) == 0) {
            os_sleep_ns(CLK_MS);
        }
    }
    while (atomic_load(&finished) < 2) {
        os_sleep_ns(CLK_MS);
    }
    atomic_store(&gate.open, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        os_thread_join(threads[i]);
        through[i < 5 ? 0 : 1] += k[i].e == ERR_OK;
        assert_true(k[i].e == ERR_OK || k[i].result.code == RPC_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(through[0], 4);
    assert_int_equal(through[1], 1);
    rpc_client_close(many);
    rpc_client_close(one);
    rpc_server_stop(s);
}

static void call_events_for_an_hour(void *arg)
{
    struct caller *k = arg;
    struct buf reply;

    buf_init(&reply, 100);
    k->e = rpc_client_call(k->c, RPC_QUERY_EVENTS, FRAME_RAW, "x", 1, 3600 * CLK_S, &reply, NULL);
    buf_fini(&reply);
}

static void nobody_is_worked_for_longer_than_the_limit(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct caller k = {.c = c};
    struct os_thread *caller;
    struct rpc_call *late;
    int64_t left_ns;

    atomic_store(&kept, NULL);
    assert_ok(os_thread_start(&caller, "caller", call_events_for_an_hour, &k));
    while ((late = atomic_load(&kept)) == NULL) {
        os_sleep_ns(CLK_MS);
    }
    left_ns = rpc_call_deadline_ns(late) - os_mono_ns();
    rpc_answer(late, "y", 1, NULL);
    os_thread_join(caller);
    assert_ok(k.e);
    assert_true(left_ns <= RPC_TIMEOUT_MAX_NS);
    assert_true(left_ns > RPC_TIMEOUT_MAX_NS / 2);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void work_whose_time_is_gone_is_not_begun(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    atomic_int finished = 0;
    struct caller k = {.c = c, .finished = &finished};
    struct os_thread *first;
    struct buf reply;

    buf_init(&reply, 100);
    atomic_store(&gate.open, false);
    atomic_store(&gate.inside, 0);
    assert_ok(os_thread_start(&first, "caller", call_history, &k));
    while (atomic_load(&gate.inside) == 0) {
        os_sleep_ns(CLK_MS);
    }
    assert_err(rpc_client_call(c, RPC_QUERY_HISTORY, FRAME_RAW, "x", 1, 100 * CLK_MS, &reply, NULL),
               ERR_TIMEOUT);
    os_sleep_ns(CLK_S); /* the server's clock began when the request arrived, a while ago */
    atomic_store(&gate.open, true);
    os_thread_join(first);
    assert_ok(k.e);
    assert_refused(c, RPC_QUERY_HOSTS, RPC_NOT_FOUND); /* the queue is empty behind it */
    assert_int_equal(atomic_load(&gate.inside), 1);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

/* -- payloads -- */

static void packed_payloads_are_undone_up_to_the_limit(void **state)
{
    static const struct {
        size_t raw;
        enum rpc_code code;
    } rows[] = {
        {1, RPC_OK},
        {RAW_MAX, RPC_OK},
        {RAW_MAX + 1, RPC_INVALID_ARGUMENT},
        {8 << 20, RPC_INVALID_ARGUMENT},
    };
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t bound = ZSTD_compressBound(rows[i].raw);
        uint8_t *raw = mem_zalloc(rows[i].raw), *packed = mem_alloc(bound);
        struct rpc_result result = {.code = RPC_OK};
        struct buf reply;
        size_t n = ZSTD_compress(packed, bound, raw, rows[i].raw, 1);

        buf_init(&reply, 1 << 20);
        assert_err(
            rpc_client_call(c, RPC_QUERY_TOP, FRAME_ZSTD, packed, n, LONG_NS, &reply, &result),
            rows[i].code == RPC_OK ? ERR_OK : ERR_REFUSED);
        assert_int_equal(result.code, rows[i].code);
        assert_int_equal(reply.n, rows[i].code == RPC_OK ? rows[i].raw + 6 : 0);
        buf_fini(&reply);
        mem_free(raw);
        mem_free(packed);
    }
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void payloads_that_are_not_what_they_say_are_refused(void **state)
{
    /* A zstd frame without a content size, made by hand: magic, descriptor 0, window 1 KiB, one
     * last raw block with one byte. */
    static const uint8_t unsized[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00, 0x09, 0x00, 0x00, 'x'};
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct rpc_result result;
    struct buf reply;

    buf_init(&reply, 1 << 20);
    assert_err(rpc_client_call(c, RPC_QUERY_TOP, FRAME_ZSTD, unsized, sizeof unsized, LONG_NS,
                               &reply, &result),
               ERR_REFUSED);
    assert_int_equal(result.code, RPC_INVALID_ARGUMENT);
    assert_err(
        rpc_client_call(c, RPC_QUERY_TOP, FRAME_ZSTD, "garbage", 7, LONG_NS, &reply, &result),
        ERR_REFUSED);
    assert_int_equal(result.code, RPC_INVALID_ARGUMENT);
    assert_err(
        rpc_client_call(c, RPC_QUERY_TOP, (enum frame_encoding)7, "x", 1, LONG_NS, &reply, &result),
        ERR_REFUSED);
    assert_int_equal(result.code, RPC_INVALID_ARGUMENT);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void a_batch_goes_on_as_it_stands(void **state)
{
    struct rpc_server *s = start(1, 8);
    struct rpc_client *c = dial(s, query);
    struct buf reply;

    buf_init(&reply, 1 << 20);
    assert_ok(rpc_client_call(c, RPC_INGEST_PUSH, FRAME_ZSTD, "opaque", 6, LONG_NS, &reply, NULL));
    assert_string_equal(buf_cstr(&reply), "query:opaque");
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

/* -- frames that are none, straight into the socket -- */

static enum err raw_call(struct net_client *c, const void *p, size_t n, int64_t timeout_ns,
                         struct frame_reply *h)
{
    struct buf reply;
    const uint8_t *payload;
    size_t payload_n;
    enum err e;

    buf_init(&reply, 1 << 20);
    e = net_client_call(c, p, n, timeout_ns, &reply);
    if (!e) {
        e = frame_get_reply(h, &payload, &payload_n, reply.p, reply.n);
    }
    buf_fini(&reply);
    return e;
}

static void foreign_frames_are_told_or_dropped(void **state)
{
    static const uint8_t other_version[] = {FRAME_MAGIC, FRAME_VERSION + 1, 0, 0};
    struct rpc_server *s = start(1, 8);
    char address[32];
    struct net_client_conf conf = dial_conf(address, rpc_server_port(s), query);
    struct net_client *c;
    struct rpc_client *honest = dial(s, query);
    struct frame_reply h;

    assert_ok(net_client_open(&c, &conf, NULL));
    assert_ok(raw_call(c, other_version, sizeof other_version, LONG_NS, &h));
    assert_int_equal(h.code, RPC_FAILED_PRECONDITION);
    assert_non_null(strstr(h.message, "1 to 1"));
    assert_err(raw_call(c, "garbage", 7, 200 * CLK_MS, &h), ERR_TIMEOUT);
    assert_err(raw_call(c, "", 0, 200 * CLK_MS, &h), ERR_TIMEOUT);
    assert_refused(honest, RPC_QUERY_HOSTS, RPC_NOT_FOUND);
    net_client_close(c);
    rpc_client_close(honest);
    rpc_server_stop(s);
}

static void a_method_is_found_by_its_number_too(void **state)
{
    struct rpc_server *s = start(1, 8);
    char address[32];
    struct net_client_conf conf = dial_conf(address, rpc_server_port(s), query);
    struct frame_request request = {.method_id = rpc_method_id(RPC_QUERY_HOSTS)};
    struct net_client *c;
    struct frame_reply h;
    struct buf frame;

    buf_init(&frame, 1000);
    assert_ok(frame_put_request(&frame, &request, NULL, 0));
    assert_ok(net_client_open(&c, &conf, NULL));
    assert_ok(raw_call(c, frame.p, frame.n, LONG_NS, &h));
    assert_int_equal(h.code, RPC_NOT_FOUND);
    buf_fini(&frame);
    net_client_close(c);
    rpc_server_stop(s);
}

/* -- start -- */

static void only_methods_of_the_protocol_can_be_offered(void **state)
{
    static const struct rpc_method bad[] = {{"procfleet.v1.Query/Invented", NET_QUERY, echo, NULL}};
    struct rpc_server_conf conf = conf_of(1, 8);
    struct rpc_server *s;
    struct errmsg why;

    conf.methods = bad;
    conf.n_methods = 1;
    assert_err(rpc_server_start(&s, &conf, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "Invented"));
    assert_true(rpc_method_exists(RPC_INGEST_HELLO));
    assert_true(rpc_method_exists(RPC_QUERY_SERVER_INFO));
    assert_false(rpc_method_exists("procfleet.v1.Query"));
    assert_false(rpc_method_exists("procfleet.v1.Quer/Top"));
    assert_false(rpc_method_exists(""));
}

static void method_numbers_are_fixed_and_distinct(void **state)
{
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(rpc_method_id(methods[i].name), rpc_method_id(methods[k].name));
        }
    }
    assert_int_equal(rpc_method_id(""), 2166136261u); /* FNV-1a's published values */
    assert_int_equal(rpc_method_id("a"), 0xe40c292cu);
    assert_int_equal(rpc_method_id("foobar"), 0xbf9cf968u);
}

static void a_server_that_cannot_start_leaves_nothing(void **state)
{
    struct rpc_server_conf conf = conf_of(2, 8);
    struct rpc_server *s = NULL;
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        assert_true(n < 200);
        mem_fail_after(n);
        e = rpc_server_start(&s, &conf, NULL);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
    }
    rpc_server_stop(s);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    query = certs_tls(pki, PKI_QUERY, "query");
    subscriber = certs_tls(pki, PKI_SUBSCRIBE, "subscriber");
    return 0;
}

/* -- whose work comes first -- */

static void assert_workers_are(bool background, const char *place)
{
    struct rpc_server_conf conf = conf_of(1, 8);
    struct rpc_server *s;
    struct rpc_client *c;
    struct buf reply;

    conf.background = background;
    assert_ok(rpc_server_start(&s, &conf, NULL));
    c = dial(s, query);
    buf_init(&reply, 1 << 10);
    assert_ok(rpc_client_call(c, RPC_QUERY_SERVER_INFO, FRAME_RAW, "x", 1, LONG_NS, &reply, NULL));
    assert_string_equal(buf_cstr(&reply), place);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void workers_give_way_where_that_is_asked_for(void **state)
{
    assert_workers_are(true, "behind");
    assert_workers_are(false, "beside");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_answered_with_payload_and_cursor),
        cmocka_unit_test(a_refusal_carries_code_words_and_pause),
        cmocka_unit_test(a_method_is_for_its_roles_and_must_exist),
        cmocka_unit_test(an_answer_may_come_later_from_another_thread),
        cmocka_unit_test(a_call_outlives_its_server),
        cmocka_unit_test(work_ends_with_its_callers_patience),
        cmocka_unit_test(a_stop_does_not_wait_for_work),
        cmocka_unit_test(a_full_queue_asks_callers_to_come_back),
        cmocka_unit_test(one_holder_keeps_no_other_waiting),
        cmocka_unit_test(nobody_is_worked_for_longer_than_the_limit),
        cmocka_unit_test(work_whose_time_is_gone_is_not_begun),
        cmocka_unit_test(packed_payloads_are_undone_up_to_the_limit),
        cmocka_unit_test(payloads_that_are_not_what_they_say_are_refused),
        cmocka_unit_test(a_batch_goes_on_as_it_stands),
        cmocka_unit_test(foreign_frames_are_told_or_dropped),
        cmocka_unit_test(a_method_is_found_by_its_number_too),
        cmocka_unit_test(only_methods_of_the_protocol_can_be_offered),
        cmocka_unit_test(method_numbers_are_fixed_and_distinct),
        cmocka_unit_test(workers_give_way_where_that_is_asked_for),
        cmocka_unit_test(a_server_that_cannot_start_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
