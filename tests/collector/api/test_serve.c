/* The Query service over the whole way: certificates, sockets, frames, store. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "collector/api/serve.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/collector/lab.h"
#include "tests/support/certs.h"

#define PATIENCE (20 * CLK_S)

struct set {
    struct certs *pki;
    struct lab *lab;
    struct serve *serve;
    struct rpc_server *server;
    struct tls_config *tls;
};

/* Host 2 is connected and 5 ns behind; nobody else has been heard of. */
static bool host_state(void *ctx, const struct uuid *host, struct query_host_state *out)
{
    struct uuid two = lab_host(2);

    (void)ctx;
    if (memcmp(host->b, two.b, sizeof two.b) != 0) {
        return false;
    }
    *out = (struct query_host_state){.connected = true,
                                     .clock = {true, true, 5, 3},
                                     .heard_ns = 6,
                                     .not_after_ns = 7,
                                     .clones = 2,
                                     .version = "9.8.7"};
    return true;
}

static void put_hosts(struct lab *l, unsigned n)
{
    for (unsigned h = 1; h <= n; h++) {
        lab_begin(l, h, 7, 1);
        lab_tick(l, 100);
        lab_tick(l, 101);
        for (uint32_t pid = 1; pid <= 5; pid++) {
            lab_cpu(l, pid, false, 0, 2, (int64_t[]){0, pid});
            lab_name(l, pid, "worker");
        }
        lab_life(l, LIFE_PROCESS_START, 100.5, 9, "late");
        lab_put(l);
    }
}

static int set_up(void **state)
{
    struct set *t = mem_zalloc(sizeof *t);
    struct serve_conf conf = {.event_epoch = 42, .request_max = 64 << 10};
    struct rpc_server_conf rpc = {.net = {.name = "query",
                                          .address = "127.0.0.1:0",
                                          .roles = NET_QUERY | NET_SUBSCRIBE | NET_ADMIN,
                                          .receive_max = 64 << 10,
                                          .contexts = 8},
                                  .workers = 2,
                                  .queue = 8,
                                  .raw_max = 64 << 10,
                                  .default_timeout_ns = PATIENCE};
    struct errmsg why = {""};

    assert_non_null(t);
    assert_ok(net_init(&why));
    t->pki = certs_create();
    certs_issue(t->pki, PKI_COLLECTOR, "collector");
    certs_issue(t->pki, PKI_QUERY, "operator");
    certs_issue(t->pki, PKI_SUBSCRIBE, "subscriber");
    certs_issue_as(t->pki, &(struct pki_issue){.use = PKI_QUERY, .name = "two", .scope = "*-2"});
    t->tls = certs_load(t->pki, "collector", t->pki, true);
    t->lab = lab_open(NULL, NULL);
    put_hosts(t->lab, 3);
    conf.store = lab_store(t->lab);
    conf.host_state = host_state;
    assert_ok(serve_create(&t->serve, &conf));
    rpc.net.tls = t->tls;
    rpc.methods = serve_methods(t->serve, &rpc.n_methods);
    assert_ok(rpc_server_start(&t->server, &rpc, &why));
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct set *t = *state;

    rpc_server_stop(t->server);
    serve_destroy(t->serve);
    lab_close(t->lab);
    tls_config_free(t->tls);
    certs_destroy(t->pki);
    mem_free(t);
    net_fini();
    return 0;
}

/* One call by somebody; the reply's payload is appended. */
static enum err call_raw(struct set *t, const char *who, const char *method, const void *p,
                         size_t n, struct buf *reply, struct rpc_result *result)
{
    char address[32];
    struct tls_config *tls = certs_load(t->pki, who, t->pki, false);
    struct net_client_conf conf = {.address = address,
                                   .tls = tls,
                                   .receive_max = 5u << 20,
                                   .reconnect_min_ns = 10 * CLK_MS,
                                   .reconnect_max_ns = CLK_S};
    struct rpc_client *c;
    struct errmsg why = {""};
    enum err e;

    (void)snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(t->server));
    assert_ok(rpc_client_open(&c, &conf, "test", &why));
    e = rpc_client_call(c, method, FRAME_RAW, p, n, PATIENCE, reply, result);
    rpc_client_close(c);
    tls_config_free(tls);
    return e;
}

/* A question that must be answered. */
static struct wire_answer *ask(struct set *t, const char *who, const char *method,
                               const struct wire_query *q, struct rpc_result *result)
{
    struct wire_answer *a = NULL;
    struct buf request, reply;
    enum err e;

    buf_init(&request, 1u << 16);
    buf_init(&reply, 5u << 20);
    assert_ok(wire_query_encode(&request, q));
    e = call_raw(t, who, method, request.p, request.n, &reply, result);
    if (e) {
        fail_msg("%s: %s (%s)", method, err_name(e), result->message);
    }
    assert_ok(wire_answer_decode(&a, reply.p, reply.n));
    buf_fini(&request);
    buf_fini(&reply);
    return a;
}

static void every_method_answers_an_operator(void **state)
{
    static const struct {
        const char *method;
        size_t hosts, rows, events;
    } table[] = {
        {RPC_QUERY_HOSTS, 3, 0, 0},    {RPC_QUERY_TOP, 3, 10, 0},   {RPC_QUERY_PROCESSES, 3, 18, 0},
        {RPC_QUERY_HISTORY, 3, 30, 0}, {RPC_QUERY_EVENTS, 3, 0, 3},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct rpc_result result = {0};
        struct wire_answer *a =
            ask(*state, "operator", table[i].method, &(struct wire_query){.limit = 0}, &result);

        if (a->n_hosts != table[i].hosts || a->n_rows != table[i].rows ||
            a->n_events != table[i].events || result.more) {
            fail_msg("%s: %zu hosts, %zu rows, %zu events", table[i].method, a->n_hosts, a->n_rows,
                     a->n_events);
        }
        wire_answer_free(a);
    }
}

static void the_certificates_scope_limits_every_method(void **state)
{
    static const char *const methods[] = {RPC_QUERY_HOSTS, RPC_QUERY_TOP, RPC_QUERY_PROCESSES,
                                          RPC_QUERY_HISTORY, RPC_QUERY_EVENTS};

    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        struct rpc_result result = {0};
        struct wire_query q = {.limit = 0};
        struct wire_answer *a = ask(*state, "two", methods[i], &q, &result);

        assert_int_equal(a->n_hosts, 1);
        assert_true(str_eq(a->hosts[0].name, str_make("host-2")));
        wire_answer_free(a);
        q.host = str_make("host-1*");
        a = ask(*state, "two", methods[i], &q, &result);
        assert_int_equal(a->n_hosts + a->n_rows + a->n_events, 0);
        assert_true(a->partial);
        wire_answer_free(a);
    }
}

static void the_sessions_part_of_a_host_is_told(void **state)
{
    struct rpc_result result = {0};
    struct wire_answer *a =
        ask(*state, "operator", RPC_QUERY_HOSTS, &(struct wire_query){.limit = 0}, &result);

    assert_false(a->hosts[0].connected);
    assert_true(a->hosts[1].connected);
    assert_int_equal(a->hosts[1].offset_ns, 5);
    assert_true(a->hosts[1].has_offset);
    assert_int_equal(a->hosts[1].offset_error_ns, 3);
    assert_int_equal(a->hosts[1].heard_ns, 6);
    assert_int_equal(a->hosts[1].not_after_ns, 7);
    assert_int_equal(a->hosts[1].clones, 2);
    assert_true(str_eq(a->hosts[1].version, str_make("9.8.7")));
    wire_answer_free(a);
}

static void pages_go_on_where_the_cursor_says(void **state)
{
    struct rpc_result result = {0};
    struct wire_query q = {.limit = 7};
    uint8_t cursor[255];
    size_t rows = 0;

    for (unsigned page = 0; page == 0 || result.more; page++) {
        struct wire_answer *a;

        assert_true(page < 10);
        a = ask(*state, "operator", RPC_QUERY_HISTORY, &q, &result);
        rows += a->n_rows;
        wire_answer_free(a);
        memcpy(cursor, result.cursor, result.cursor_n);
        q.cursor = (struct str){(const char *)cursor, result.cursor_n};
    }
    assert_int_equal(rows, 30);
}

static void server_info_names_epoch_limits_and_methods(void **state)
{
    static const char *const who[] = {"operator", "subscriber"};

    for (size_t i = 0; i < COUNT_OF(who); i++) {
        struct wire_server_info info;
        struct rpc_result result = {0};
        struct buf reply;

        buf_init(&reply, 1u << 16);
        assert_ok(call_raw(*state, who[i], RPC_QUERY_SERVER_INFO, "", 0, &reply, &result));
        assert_ok(wire_query_server_info_decode(&info, reply.p, reply.n));
        assert_string_equal(info.version, PROCFLEET_VERSION);
        assert_int_equal(info.epoch, 42);
        assert_int_equal(info.hosts, 3);
        assert_int_equal(info.max_request, 64 << 10);
        assert_int_equal(info.max_reply, QUERY_REPLY_MAX);
        assert_int_equal(info.n_methods, 1 + QUERY_KINDS);
        for (size_t m = 0; m < info.n_methods; m++) {
            assert_int_equal(info.methods[m].id, rpc_method_id(info.methods[m].name));
        }
        buf_fini(&reply);
    }
}

static void wrong_calls_are_refused_with_their_code(void **state)
{
    static const struct {
        const char *who, *method;
        struct wire_query q;
        const char *bytes; /* instead of the question */
        enum rpc_code code;
    } table[] = {
        {"subscriber", RPC_QUERY_TOP, {.limit = 1}, NULL, RPC_PERMISSION_DENIED},
        {"subscriber", RPC_QUERY_EVENTS, {.limit = 1}, NULL, RPC_PERMISSION_DENIED},
        {"two", RPC_QUERY_TOP, {.limit = 1, .host = {"host-1", 6}}, NULL, RPC_PERMISSION_DENIED},
        {"two", RPC_QUERY_HOSTS, {.limit = 1, .host = {"none", 4}}, NULL, RPC_PERMISSION_DENIED},
        {"operator", "procfleet.v1.Query/Nothing", {.limit = 1}, NULL, RPC_UNIMPLEMENTED},
        {"operator", RPC_QUERY_TOP, {.limit = 1}, "\xff\xff\xff", RPC_INVALID_ARGUMENT},
        {"operator", RPC_QUERY_TOP, {.n_metrics = 1, .metrics = {1}}, NULL, RPC_INVALID_ARGUMENT},
        {"operator", RPC_QUERY_TOP, {.cursor = {"x", 1}}, NULL, RPC_INVALID_ARGUMENT},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct rpc_result result = {0};
        struct buf request, reply;
        enum err e;

        buf_init(&request, 1u << 16);
        buf_init(&reply, 1u << 16);
        if (table[i].bytes) {
            buf_put_str(&request, table[i].bytes);
        } else {
            assert_ok(wire_query_encode(&request, &table[i].q));
        }
        e = call_raw(*state, table[i].who, table[i].method, request.p, request.n, &reply, &result);
        if (e != ERR_REFUSED || result.code != table[i].code || !result.message[0]) {
            fail_msg("row %zu: %s, %s \"%s\"", i, err_name(e), frame_code_name(result.code),
                     result.message);
        }
        buf_fini(&request);
        buf_fini(&reply);
    }
}

static void creating_survives_a_failing_allocation(void **state)
{
    struct set *t = *state;
    struct serve_conf conf = {.store = lab_store(t->lab)};
    struct serve *s;

    mem_fail_after(0);
    assert_err(serve_create(&s, &conf), ERR_NOMEM);
    mem_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_answers_an_operator),
        cmocka_unit_test(the_certificates_scope_limits_every_method),
        cmocka_unit_test(the_sessions_part_of_a_host_is_told),
        cmocka_unit_test(pages_go_on_where_the_cursor_says),
        cmocka_unit_test(server_info_names_epoch_limits_and_methods),
        cmocka_unit_test(wrong_calls_are_refused_with_their_code),
        cmocka_unit_test(creating_survives_a_failing_allocation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
