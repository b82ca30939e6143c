/* The HTTP listener and clients that mean it ill: raw sockets, no client's library. Linux. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/http/http_host.h"
#include "common/http/http_server.h"
#include "common/os/os.h"
#include "tests/common/http/http_peer.h"
#include "tests/support/t.h"

#define PATIENCE_S 30
#define PATH_SHOWN 400

/* A server that answers what it is asked for, or keeps it. */
struct desk {
    struct http_server *http;
    struct os_mutex *lock;
    struct os_cond *came;
    bool keeps;
    size_t n;
    struct http_server_call *kept[HTTP_SERVER_CALLS];
};

static void answer(struct http_server_call *call)
{
    char text[PATH_SHOWN + 16];

    (void)snprintf(text, sizeof text, "you asked for %.*s", PATH_SHOWN, http_server_path(call));
    http_server_answer(call, &(struct http_server_reply){.status = 200,
                                                         .type = "text/plain",
                                                         .text = {text, strlen(text)}});
}

static void on_get(void *ctx, struct http_server_call *call)
{
    struct desk *d = ctx;
    bool keeps;

    os_mutex_lock(d->lock);
    keeps = d->keeps;
    if (keeps) {
        d->kept[d->n++] = call;
        os_cond_wake_all(d->came);
    }
    os_mutex_unlock(d->lock);
    if (!keeps) {
        answer(call);
    }
}

static const struct http_server_route routes[] = {{"GET", "/", 0, on_get}};

static void desk_open(struct desk *d, bool keeps)
{
    static const char *const names[] = {"metrics.lab"};
    struct http_server_conf conf = {.address = "127.0.0.1:0",
                                    .names = names,
                                    .n_names = 1,
                                    .routes = routes,
                                    .n_routes = 1,
                                    .ctx = d};
    struct errmsg why = {""};

    *d = (struct desk){.keeps = keeps};
    assert_ok(os_mutex_create(&d->lock));
    assert_ok(os_cond_create(&d->came, d->lock));
    assert_ok(http_server_start(&d->http, &conf, &why));
    assert_true(http_server_port(d->http) > 0);
}

/* Waits until so many are kept. */
static void desk_wait(struct desk *d, size_t n)
{
    int64_t end_ns = os_mono_ns() + PATIENCE_S * CLK_S;

    os_mutex_lock(d->lock);
    while (d->n < n) {
        assert_ok(os_cond_wait_until(d->came, end_ns));
    }
    os_mutex_unlock(d->lock);
}

static void desk_close(struct desk *d)
{
    http_server_stop(d->http);
    os_cond_destroy(d->came);
    os_mutex_destroy(d->lock);
}

/* -- clients -- */

static int dial(const struct desk *d)
{
    return http_peer_dial(http_server_port(d->http));
}

/* What the server says to these bytes. */
static const char *ask(const struct desk *d, const void *p, size_t n)
{
    static char text[4096];
    int fd = dial(d);

    if (http_peer_tell(fd, p, n)) {
        shutdown(fd, SHUT_WR);
    }
    http_peer_hear(fd, text, sizeof text);
    return text;
}

static const char *ask_text(const struct desk *d, const char *request)
{
    return ask(d, request, strlen(request));
}

static const char *get(const struct desk *d, const char *path)
{
    char request[512];

    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    return ask_text(d, request);
}

static void assert_served(const struct desk *d)
{
    const char *said = get(d, "/still");

    if (memcmp(said, "HTTP/1.1 200 OK\r\n", 17) != 0) {
        fail_msg("%s", said);
    }
    assert_non_null(strstr(said, "\r\n\r\nyou asked for /still"));
}

/* -- tests -- */

static void a_get_is_answered_and_its_connection_ends(void **state)
{
    struct http_server_stats stats;
    struct desk d;
    const char *said;

    desk_open(&d, false);
    assert_served(&d);
    said = get(&d, "/a/b?c=d");
    assert_non_null(strstr(said, "Connection: close\r\n"));
    assert_non_null(strstr(said, "Content-Type: text/plain\r\n"));
    assert_non_null(strstr(said, "\r\n\r\nyou asked for /a/b"));
    assert_null(strstr(said, "c=d"));
    assert_non_null(strstr(ask_text(&d, "GET /old HTTP/1.0\r\n\r\n"), "you asked for /old"));
    http_server_stats(d.http, &stats);
    assert_int_equal(stats.requests, 3);
    assert_int_equal(stats.refused, 0);
    desk_close(&d);
}

static void an_answer_may_come_later_from_another_thread(void **state)
{
    static char text[4096];
    struct desk d;
    int fd;

    desk_open(&d, true);
    fd = dial(&d);
    assert_true(http_peer_tell(fd, "GET /x HTTP/1.0\r\n\r\n", 19));
    desk_wait(&d, 1);
    answer(d.kept[0]); /* here */
    http_peer_hear(fd, text, sizeof text);
    assert_non_null(strstr(text, "you asked for /x"));
    desk_close(&d);
}

static void other_methods_are_refused(void **state)
{
    static const char *const methods[] = {"POST", "HEAD", "PUT", "get", "DELETE"};
    struct http_server_stats stats;
    struct desk d;

    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        char request[200];
        const char *said;

        (void)snprintf(request, sizeof request,
                       "%s / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nGET ",
                       methods[i]);
        said = ask_text(&d, request);
        assert_non_null(strstr(said, " 405 "));
        assert_non_null(strstr(said, "Allow: GET\r\n"));
        assert_null(strstr(said + 1, "HTTP/1.1")); /* one answer: the body is no request */
    }
    http_server_stats(d.http, &stats);
    assert_int_equal(stats.refused, COUNT_OF(methods));
    desk_close(&d);
}

static void a_request_for_another_name_is_refused(void **state)
{
    static const struct {
        const char *headers, *says;
    } rows[] = {
        {"HTTP/1.1\r\nHost: localhost\r\n", "200"},
        {"HTTP/1.1\r\nHost: LocalHost.:9\r\n", "200"},
        {"HTTP/1.1\r\nHost: 127.0.0.1:7424\r\n", "200"},
        {"HTTP/1.1\r\nHost: [::1]:7424\r\n", "200"},
        {"HTTP/1.1\r\nHost: metrics.lab\r\n", "200"}, /* of its names */
        {"HTTP/1.0\r\n", "200"},
        {"HTTP/1.1\r\nHost: evil.example:7424\r\n", "421"},
        {"HTTP/1.1\r\nHost: localhost.evil.example\r\n", "421"},
        {"HTTP/1.1\r\nHost: 192.0.2.1\r\n", "421"},
        {"HTTP/1.1\r\nHost: localhost:x\r\n", "421"},
        {"HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n", "400"},
        {"HTTP/1.1\r\nHost:\r\n", "421"},
        {"HTTP/1.1\r\n", "400"},
    };
    struct desk d;

    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char request[200];
        const char *said;

        (void)snprintf(request, sizeof request, "GET /x %s\r\n", rows[i].headers);
        said = ask_text(&d, request);
        if (strlen(said) < 12 || memcmp(said + 9, rows[i].says, 3) != 0) {
            fail_msg("%s: %s", request, said);
        }
        assert_true(*rows[i].says == '2' || !strstr(said, "you asked for"));
    }
    desk_close(&d);
}

static void who_may_come_from_elsewhere_may_use_the_number_or_the_machines_name(void **state)
{
    static const struct {
        const char *listened, *host;
        bool ours;
    } rows[] = {
        {"*:7424", "192.0.2.1:7424", true},
        {"*:7424", "[2001:db8::1]:7424", true},
        {"*:7424", "evil.example", false},
        {"192.0.2.7:7424", "192.0.2.7", true},
        {"collector.lab:7424", "Collector.Lab:80", true},
        {"collector.lab:7424", "collector.lab.evil.example", false},
        {"127.0.0.1:7424", "192.0.2.1", false},
        {"[::1]:7424", "[::1]", true},
        {"[::1]:7424", "[::2]", false},
    };
    char machine[256];
    struct http_host h;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        http_host_init(&h, rows[i].listened, NULL, 0);
        assert_int_equal(http_host_is_ours(&h, rows[i].host), rows[i].ours);
    }
    assert_ok(os_host_name(machine, sizeof machine));
    http_host_init(&h, "*:7424", NULL, 0);
    assert_true(http_host_is_ours(&h, machine));
}

static void a_path_that_ends_in_an_escape_is_only_a_path(void **state)
{
    char path[400] = "/";
    struct desk d;

    desk_open(&d, false);
    for (size_t i = 0; i < 100; i++) {
        memcpy(path + 1 + 3 * i, "%41", 4); /* with its NUL */
        assert_non_null(strstr(get(&d, path), " 200 OK"));
    }
    assert_non_null(strstr(get(&d, "/%"), " 200 OK"));
    assert_non_null(strstr(get(&d, "/%4"), " 200 OK"));
    assert_non_null(strstr(get(&d, "/%00"), " 200 OK"));
    desk_close(&d);
}

static void what_is_no_request_ends_its_connection(void **state)
{
    static const char *const requests[] = {
        "",
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", /* no host */
        "GET relative HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n\x01\r\n\r\n",
        "GET / HTTP/1.1\rHost: h\n\n",
        "GET /half",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };
    struct desk d;

    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        assert_null(strstr(ask_text(&d, requests[i]), " 200 "));
    }
    assert_served(&d);
    desk_close(&d);
}

static void a_request_over_its_bound_ends_its_connection(void **state)
{
    static char line[1 << 16];
    static char text[4096];
    struct desk d;
    int fd;

    desk_open(&d, false);
    memset(line, 'a', sizeof line);
    memcpy(line, "GET /", 5);
    assert_null(strstr(ask(&d, line, sizeof line), " 200 ")); /* one long line */
    fd = dial(&d);
    assert_true(http_peer_tell(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n", 25));
    for (size_t i = 0; i < 100000 && http_peer_tell(fd, "X-Name: value\r\n", 15); i++) {
        /* a client that always has one header more */
    }
    http_peer_hear(fd, text,
                   sizeof text); /* 431, if the end of the connection did not overtake it */
    assert_null(strstr(text, " 200 "));
    assert_served(&d);
    desk_close(&d);
}

static void of_too_many_connections_the_oldest_goes(void **state)
{
    int fds[2 * HTTP_SERVER_CONNS];
    char text[64];
    struct desk d;

    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = dial(&d);
        (void)http_peer_tell(fds[i], "GET /", 5);
    }
    assert_served(&d);
    for (size_t i = 0; i < COUNT_OF(fds) - HTTP_SERVER_CONNS; i++) {
        assert_int_equal(http_peer_hear(fds[i], text, sizeof text), 0);
    }
    for (size_t i = COUNT_OF(fds) - HTTP_SERVER_CONNS; i < COUNT_OF(fds); i++) {
        close(fds[i]);
    }
    desk_close(&d);
}

static void of_too_many_requests_the_last_is_told_to_come_again(void **state)
{
    int fds[HTTP_SERVER_CALLS];
    char text[512];
    struct desk d;

    desk_open(&d, true);
    for (size_t i = 0; i < HTTP_SERVER_CALLS; i++) {
        fds[i] = dial(&d);
        assert_true(http_peer_tell(fds[i], "GET /x HTTP/1.0\r\n\r\n", 19));
        desk_wait(&d, i + 1);
    }
    assert_non_null(strstr(get(&d, "/y"), " 503 "));
    for (size_t i = 0; i < HTTP_SERVER_CALLS; i++) {
        answer(d.kept[i]);
        http_peer_hear(fds[i], text, sizeof text);
        assert_non_null(strstr(text, "you asked for /x"));
    }
    desk_close(&d);
}

static void clients_that_go_before_their_answer_do_no_harm(void **state)
{
    struct desk d;

    desk_open(&d, true);
    for (size_t i = 0; i < 20; i++) {
        int fd = dial(&d);

        assert_true(http_peer_tell(fd, "GET /x HTTP/1.0\r\n\r\n", 19));
        desk_wait(&d, i + 1);
        close(fd);
    }
    for (size_t i = 0; i < 20; i++) {
        answer(d.kept[i]);
    }
    desk_close(&d);
}

static void connections_that_wait_do_not_keep_it_from_stopping(void **state)
{
    struct desk d;
    int fds[8];

    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = dial(&d);
        (void)http_peer_tell(fds[i], "GET / HT", i);
    }
    assert_served(&d);
    desk_close(&d);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        close(fds[i]);
    }
}

static void changed_requests_are_answered_or_not_and_nothing_breaks(void **state)
{
    static const char whole[] = "GET /metrics%41?x HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n"
                                "Content-Length: 3\r\nAccept: */*\r\n\r\nabc";
    uint32_t seed = 7;
    struct desk d;

    desk_open(&d, false);
    for (unsigned i = 0; i < 300; i++) {
        char request[sizeof whole];

        memcpy(request, whole, sizeof whole);
        for (unsigned k = 0; k < 1 + i % 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            request[(seed >> 8) % (sizeof whole - 1)] = (char)(seed >> 24);
        }
        (void)ask(&d, request, sizeof request - 1);
    }
    assert_served(&d);
    desk_close(&d);
}

static void what_two_readers_could_take_for_different_requests_is_refused(void **state)
{
    static const char *const heads[] = {
        "Host: localhost\nContent-Length: 0\r\n",
        "Host: localhost\r\nX: a\rb\r\n",
        "Host: localhost\r\nX: a\r\n b\r\n",
        "Host: localhost\r\n X: a\r\n",
        "Host: localhost\r\nX : a\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nContent-Length: 4\r\nContent-Length: 4\r\n",
        "Host: localhost\r\ncontent-length: 0\r\nContent-Length: 4\r\n",
        "Host: localhost\r\nContent-Length: 4, 4\r\n",
        "Host: localhost\r\nContent-Length: +4\r\n",
        "Host: localhost\r\nContent-Length: -4\r\n",
        "Host: localhost\r\nContent-Length: 0x4\r\n",
        "Host: localhost\r\nTransfer-Encoding: chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: x\r\nContent-Length: 4\r\n",
        "Host: localhost\r\ntransfer-encoding: identity\r\n",
    };
    static const char with_nul[] = "GET /a HTTP/1.1\r\nHost: localhost\0evil\r\n\r\n";
    struct desk d;

    (void)state;
    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        char request[300];
        const char *said;

        (void)snprintf(request, sizeof request,
                       "GET /a HTTP/1.1\r\n%s\r\nGET /b HTTP/1.1\r\nHost: localhost\r\n\r\n",
                       heads[i]);
        said = ask_text(&d, request);
        if (memcmp(said, "HTTP/1.1 400 ", 13) != 0 || strstr(said, " 200 ")) {
            fail_msg("%s: %s", heads[i], said);
        }
    }
    assert_non_null(strstr(ask(&d, with_nul, sizeof with_nul - 1), " 400 "));
    assert_non_null(strstr(ask_text(&d, "GET /a HTTP/1.1\nHost: localhost\n\n"), " 400 "));
    assert_served(&d);
    desk_close(&d);
}

static void a_request_has_so_many_headers(void **state)
{
    struct desk d;

    (void)state;
    desk_open(&d, false);
    for (unsigned n = HTTP_SERVER_HEADERS; n <= HTTP_SERVER_HEADERS + 1; n++) {
        char request[2000] = "GET / HTTP/1.1\r\nHost: localhost\r\n";
        size_t at = strlen(request);

        for (unsigned i = 1; i < n; i++) {
            at += (size_t)snprintf(request + at, sizeof request - at, "X-%u: y\r\n", i);
        }
        (void)snprintf(request + at, sizeof request - at, "\r\n");
        assert_non_null(
            strstr(ask_text(&d, request), n == HTTP_SERVER_HEADERS ? " 200 " : " 431 "));
    }
    desk_close(&d);
}

static void who_waits_when_it_stops_is_answered_and_the_call_may_be_answered_later(void **state)
{
    static char text[4096];
    struct desk d;
    int fds[3];

    (void)state;
    desk_open(&d, true);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = dial(&d);
        assert_true(http_peer_tell(fds[i], "GET /x HTTP/1.0\r\n\r\n", 19));
        desk_wait(&d, i + 1);
    }
    http_server_stop(d.http);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        http_peer_hear(fds[i], text, sizeof text);
        assert_memory_equal(text, "HTTP/1.1 503 ", 13);
        assert_string_equal(http_server_path(d.kept[i]), "/x");
        answer(d.kept[i]);
    }
    os_cond_destroy(d.came);
    os_mutex_destroy(d.lock);
}

static void an_address_in_use_is_told(void **state)
{
    struct http_server_conf conf = {.routes = routes, .n_routes = 1};
    struct http_server *second = NULL;
    struct errmsg why = {""};
    struct desk d;
    char address[32];

    desk_open(&d, false);
    /* Not "localhost", which may be ::1, where the port is free. */
    (void)snprintf(address, sizeof address, "0.0.0.0:%u", http_server_port(d.http));
    conf.address = address;
    assert_err(http_server_start(&second, &conf, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, address));
    conf.address = "nowhere";
    assert_err(http_server_start(&second, &conf, &why), ERR_INVALID);
    desk_close(&d);
}

/* -- what the console needs: routes, bodies, parameters, streams, several requests -- */

static void on_echo(void *ctx, struct http_server_call *call)
{
    struct http_server_param params[2];
    struct str body = http_server_body(call);
    const char *color = http_server_header(call, "x-color");
    const struct http_server_pair header = {"X-Seen", color ? color : "none"};
    size_t n = http_server_params(call, params, COUNT_OF(params));
    struct buf b;

    (void)ctx;
    buf_init(&b, 1000);
    buf_put(&b, body.p, body.n);
    for (size_t i = 0; i < n && i < COUNT_OF(params); i++) {
        buf_put(&b, params[i].name, strlen(params[i].name));
        buf_put(&b, params[i].value ? params[i].value : "-",
                strlen(params[i].value ? params[i].value : "-"));
    }
    http_server_answer(
        call,
        &(struct http_server_reply){
            .status = 201, .type = "text/plain", .headers = &header, .n_headers = 1, .moved = &b});
    assert_int_equal(b.n, 0);
    buf_fini(&b);
}

/* Says "tick " whenever it is woken, three times. */
struct ticker {
    atomic_int due, said;
    atomic_bool closed;
    _Atomic(struct http_server_call *) call;
};

static enum err tick(void *ctx, void *p, size_t n, size_t *got)
{
    struct ticker *k = ctx;

    assert_true(n >= 5);
    if (atomic_load(&k->said) == 3) {
        return ERR_CLOSED;
    }
    *got = atomic_load(&k->said) < atomic_load(&k->due) ? 5 : 0;
    memcpy(p, "tick ", 5);
    atomic_fetch_add(&k->said, *got > 0);
    return ERR_OK;
}

static void tick_close(void *ctx)
{
    atomic_store(&((struct ticker *)ctx)->closed, true);
}

static void on_stream(void *ctx, struct http_server_call *call)
{
    const struct http_server_stream stream = {tick, tick_close, ctx};

    http_server_answer(
        call, &(struct http_server_reply){.status = 200, .type = "text/plain", .stream = &stream});
    atomic_store(&((struct ticker *)ctx)->call, call);
}

static const struct http_server_route console_routes[] = {
    {"POST", "/echo", 10, on_echo},
    {"GET", "/echo", 0, on_echo},
    {"GET", "/stream", 0, on_stream},
};

static void console_open(struct desk *d, struct ticker *k)
{
    struct http_server_conf conf = {.address = "127.0.0.1:0",
                                    .routes = console_routes,
                                    .n_routes = COUNT_OF(console_routes),
                                    .ctx = k,
                                    .keep_alive = true};

    *d = (struct desk){.n = 0};
    assert_ok(http_server_start(&d->http, &conf, NULL));
}

static void a_route_gives_method_path_parameters_headers_and_body(void **state)
{
    static const struct {
        const char *request, *status, *says;
    } rows[] = {
        {"GET /echo?a=%41&b HTTP/1.0\r\nX-Color: red\r\n\r\n", "201", "\r\n\r\na%41b-"},
        {"GET /echo HTTP/1.0\r\nX-Color: red\r\n\r\n", "201", "X-Seen: red\r\n"},
        {"POST /echo HTTP/1.0\r\nContent-Length: 10\r\n\r\n0123456789", "201", "0123456789"},
        {"POST /echo HTTP/1.0\r\nContent-Length: 11\r\n\r\n0123456789a", "413", "longer"},
        {"PUT /echo HTTP/1.0\r\n\r\n", "405", "Allow: POST, GET\r\n"},
        {"GET /echo/ HTTP/1.0\r\n\r\n", "404", "nothing here"},
        {"GET / HTTP/1.0\r\n\r\n", "404", "nothing here"},
    };
    struct ticker k = {.due = 0};
    struct desk d;

    console_open(&d, &k);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *said = ask_text(&d, rows[i].request);

        if (strlen(said) < 12 || memcmp(said + 9, rows[i].status, 3) != 0 ||
            !strstr(said, rows[i].says)) {
            fail_msg("%s: %s", rows[i].request, said);
        }
    }
    desk_close(&d);
}

static void a_connection_may_have_several_requests(void **state)
{
    static const char two[] = "GET /echo?first HTTP/1.1\r\nHost: localhost\r\n\r\n"
                              "GET /echo?second HTTP/1.1\r\nHost: localhost\r\n"
                              "Connection: close\r\n\r\n";
    struct ticker k = {.due = 0};
    static char said[4096];
    struct desk d;
    int fd;

    console_open(&d, &k);
    fd = dial(&d);
    assert_true(http_peer_tell(fd, two, sizeof two - 1));
    http_peer_hear(fd, said, sizeof said);
    assert_non_null(strstr(said, "first-"));
    assert_non_null(strstr(said, "second-"));
    desk_close(&d);
}

static int stream_begin(struct desk *d, struct ticker *k)
{
    int fd;

    console_open(d, k);
    fd = dial(d);
    assert_true(http_peer_tell(fd, "GET /stream HTTP/1.0\r\n\r\n", 24));
    while (!atomic_load(&k->call)) {
        os_sleep_ns(CLK_MS);
    }
    return fd;
}

static void a_stream_sleeps_until_it_is_woken(void **state)
{
    static char text[4096];
    struct ticker k = {.due = 0};
    struct desk d;
    int fd;

    fd = stream_begin(&d, &k);
    for (int i = 1; i <= 3; i++) {
        atomic_store(&k.due, i);
        http_server_wake(atomic_load(&k.call));
        while (atomic_load(&k.said) < i) {
            os_sleep_ns(CLK_MS);
        }
    }
    http_peer_hear(fd, text, sizeof text);
    assert_non_null(strstr(text, "tick tick tick "));
    desk_close(&d);
    assert_true(atomic_load(&k.closed));
}

static void a_stream_that_sleeps_does_not_keep_it_from_stopping(void **state)
{
    struct ticker k = {.due = 0};
    struct desk d;
    int fd;

    fd = stream_begin(&d, &k);
    desk_close(&d);
    assert_true(atomic_load(&k.closed));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_is_answered_and_its_connection_ends),
        cmocka_unit_test(an_answer_may_come_later_from_another_thread),
        cmocka_unit_test(other_methods_are_refused),
        cmocka_unit_test(a_request_for_another_name_is_refused),
        cmocka_unit_test(who_may_come_from_elsewhere_may_use_the_number_or_the_machines_name),
        cmocka_unit_test(a_path_that_ends_in_an_escape_is_only_a_path),
        cmocka_unit_test(what_is_no_request_ends_its_connection),
        cmocka_unit_test(a_request_over_its_bound_ends_its_connection),
        cmocka_unit_test(of_too_many_connections_the_oldest_goes),
        cmocka_unit_test(of_too_many_requests_the_last_is_told_to_come_again),
        cmocka_unit_test(clients_that_go_before_their_answer_do_no_harm),
        cmocka_unit_test(connections_that_wait_do_not_keep_it_from_stopping),
        cmocka_unit_test(changed_requests_are_answered_or_not_and_nothing_breaks),
        cmocka_unit_test(what_two_readers_could_take_for_different_requests_is_refused),
        cmocka_unit_test(a_request_has_so_many_headers),
        cmocka_unit_test(who_waits_when_it_stops_is_answered_and_the_call_may_be_answered_later),
        cmocka_unit_test(an_address_in_use_is_told),
        cmocka_unit_test(a_route_gives_method_path_parameters_headers_and_body),
        cmocka_unit_test(a_connection_may_have_several_requests),
        cmocka_unit_test(a_stream_sleeps_until_it_is_woken),
        cmocka_unit_test(a_stream_that_sleeps_does_not_keep_it_from_stopping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
