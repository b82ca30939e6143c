/* The HTTP client and servers that answer as they please. Linux. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/http/http_client.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/raw_peer.h"
#include "tests/support/t.h"

#define REQUEST_MAX 65536u

/* Answers each request with the same bytes. */
struct server {
    int fd;
    unsigned port;
    const char *reply;
    size_t n_reply;
    bool silent; /* never answers */
    bool closes; /* after each reply */
    char heard[REQUEST_MAX];
    size_t n_heard;
    atomic_int connections, requests;
    struct os_thread *thread;
};

static bool is_whole(const char *p, size_t n)
{
    const char *end = memmem(p, n, "\r\n\r\n", 4);
    const char *length = end ? memmem(p, n, "Content-Length: ", 16) : NULL;

    return end && (!length || (size_t)(p + n - (end + 4)) >= strtoul(length + 16, NULL, 10));
}

static void serve_connection(struct server *s, int fd)
{
    for (;;) {
        size_t n = 0;

        while (!is_whole(s->heard, n)) {
            ssize_t got = recv(fd, s->heard + n, sizeof s->heard - 1 - n, 0);

            if (got <= 0) {
                return;
            }
            n += (size_t)got;
            s->heard[n] = '\0';
        }
        s->n_heard = n;
        atomic_fetch_add(&s->requests, 1);
        if (s->silent) {
            (void)recv(fd, s->heard, 1, 0); /* until it gives up */
            return;
        }
        if (send(fd, s->reply, s->n_reply, MSG_NOSIGNAL) < 0 || s->closes) {
            return;
        }
    }
}

static void serve(void *arg)
{
    struct server *s = arg;
    int fd;

    while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
        atomic_fetch_add(&s->connections, 1);
        serve_connection(s, fd);
        close(fd);
    }
}

static void server_start(struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;

    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    s->port = ntohs(a.sin_port);
    s->n_reply = s->reply ? (s->n_reply ? s->n_reply : strlen(s->reply)) : 0;
    assert_ok(os_thread_start(&s->thread, "server", serve, s));
}

static void server_stop(struct server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    os_thread_join(s->thread);
    close(s->fd);
}

static struct http_client *client(const struct http_client_conf *conf)
{
    struct http_client *c;
    struct errmsg why = {""};

    assert_ok(http_client_open(&c, conf, &why));
    return c;
}

static const char *url_of(const char *scheme, const char *host, unsigned port, const char *path)
{
    static char url[256];

    (void)snprintf(url, sizeof url, "%s://%s:%u%s", scheme, host, port, path);
    return url;
}

/* One request with a client of its own; *why says what happened. */
static enum err ask_with(const struct http_client_conf *conf, const struct http_client_request *q,
                         struct http_client_reply *r, struct errmsg *why)
{
    struct http_client *c = client(conf);
    enum err e;

    *why = (struct errmsg){""};
    e = http_client_ask(c, q, r, why);
    http_client_close(c);
    return e;
}

static enum err get(unsigned port, size_t reply_max, struct http_client_reply *r,
                    struct errmsg *why)
{
    return ask_with(&(struct http_client_conf){.user = NULL},
                    &(struct http_client_request){.method = "GET",
                                                  .url = url_of("http", "127.0.0.1", port, "/"),
                                                  .timeout_ns = 10 * CLK_S,
                                                  .reply_max = reply_max},
                    r, why);
}

static void a_request_says_what_it_was_told_to_and_no_more(void **state)
{
    struct server s = {.reply =
                           "HTTP/1.1 200 OK\r\nX-Mine:  yes \r\nContent-Length: 5\r\n\r\nhello"};
    struct http_client_header headers[] = {{"Content-Type", "text/plain"}, {"X-Empty", ""}};
    struct http_client_request q = {.method = "POST",
                                    .headers = headers,
                                    .n_headers = 2,
                                    .body = "a\0b",
                                    .n_body = 3,
                                    .reply_max = 5};
    struct http_client_reply r;
    struct errmsg why;
    struct str mine;

    server_start(&s);
    q.url = url_of("http", "127.0.0.1", s.port, "/in?x=1");
    http_client_reply_init(&r);
    assert_ok(ask_with(&(struct http_client_conf){.user = "u", .password = "p:w", .agent = "me/1"},
                       &q, &r, &why));
    assert_int_equal(r.status, 200);
    assert_int_equal(r.body.n, 5);
    assert_memory_equal(r.body.p, "hello", 5);
    mine = http_client_header_of(&r, "x-mine");
    assert_true(str_eq(mine, str_make("yes")));
    assert_int_equal(http_client_header_of(&r, "x-min").n, 0);
    assert_non_null(strstr(s.heard, "POST /in?x=1 HTTP/1.1\r\n"));
    assert_non_null(strstr(s.heard, "\r\nAuthorization: Basic dTpwOnc=\r\n"));
    assert_non_null(strstr(s.heard, "\r\nUser-Agent: me/1\r\n"));
    assert_non_null(strstr(s.heard, "\r\nX-Empty:\r\n"));
    assert_null(strstr(s.heard, "Expect"));
    assert_null(strstr(s.heard, "Accept-Encoding"));
    assert_memory_equal(s.heard + s.n_heard - 7, "\r\n\r\na\0b", 7);
    http_client_reply_fini(&r);
    server_stop(&s);
}

static void a_connection_is_used_again_and_replies_do_not_mix(void **state)
{
    struct server s = {.reply = "HTTP/1.1 404 No\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno"};
    struct http_client *c = client(&(struct http_client_conf){.user = NULL});
    struct http_client_request q = {.method = "GET", .reply_max = 100};
    struct http_client_reply r;
    struct errmsg why;

    server_start(&s);
    q.url = url_of("http", "127.0.0.1", s.port, "/");
    http_client_reply_init(&r);
    for (int i = 0; i < 3; i++) {
        assert_ok(http_client_ask(c, &q, &r, &why));
        assert_int_equal(r.status, 404);
        assert_int_equal(r.body.n, 2);
        assert_int_equal(r.retry_after_s, 7);
    }
    assert_int_equal(atomic_load(&s.connections), 1);
    assert_int_equal(atomic_load(&s.requests), 3);
    http_client_reply_fini(&r);
    http_client_close(c);
    server_stop(&s);
}

static void a_redirect_is_a_reply_and_is_not_followed(void **state)
{
    struct server elsewhere = {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    struct server s = {.n_reply = 0};
    struct http_client_reply r;
    struct errmsg why;
    char reply[200];

    server_start(&elsewhere);
    (void)snprintf(
        reply, sizeof reply,
        "HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:%u/\r\nContent-Length: 0\r\n\r\n",
        elsewhere.port);
    s.reply = reply;
    server_start(&s);
    http_client_reply_init(&r);
    assert_ok(get(s.port, 100, &r, &why));
    assert_int_equal(r.status, 307);
    assert_int_equal(atomic_load(&elsewhere.connections), 0);
    http_client_reply_fini(&r);
    server_stop(&s);
    server_stop(&elsewhere);
}

static void the_environments_proxy_is_used_only_when_asked_for(void **state)
{
    struct server proxy = {.reply = "HTTP/1.1 203 Mine\r\nContent-Length: 0\r\n\r\n"};
    struct server s = {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    struct http_client_request q = {.method = "GET", .reply_max = 100};
    struct http_client_reply r;
    struct errmsg why;
    char name[64];

    server_start(&proxy);
    server_start(&s);
    (void)snprintf(name, sizeof name, "http://127.0.0.1:%u", proxy.port);
    setenv("http_proxy", name, 1);
    setenv("no_proxy", "elsewhere", 1);
    q.url = url_of("http", "127.0.0.1", s.port, "/");
    http_client_reply_init(&r);
    assert_ok(ask_with(&(struct http_client_conf){.plain = false}, &q, &r, &why));
    assert_int_equal(r.status, 200);
    assert_ok(ask_with(&(struct http_client_conf){.proxy_of_environment = true}, &q, &r, &why));
    assert_int_equal(r.status, 203);
    unsetenv("http_proxy");
    unsetenv("no_proxy");
    http_client_reply_fini(&r);
    server_stop(&s);
    server_stop(&proxy);
}

static void urls_that_may_not_be_asked_are_refused(void **state)
{
    static const struct {
        const char *url;
        bool plain;
        enum err e;
    } rows[] = {
        {"https://example.org/x", false, ERR_OK},
        {"http://127.0.0.1:1/x", false, ERR_OK},
        {"http://[::1]:1/x", false, ERR_OK},
        {"http://localhost/x", false, ERR_OK},
        {"http://example.org/x", false, ERR_INVALID},
        {"http://example.org/x", true, ERR_OK},
        {"http://127.0.0.1.example.org/x", false, ERR_INVALID},
        {"http://127.0.0.1@example.org/x", true, ERR_INVALID},
        {"https://u:p@example.org/x", true, ERR_INVALID},
        {"ftp://example.org/x", true, ERR_INVALID},
        {"file:///etc/passwd", true, ERR_INVALID},
        {"gopher://127.0.0.1/x", true, ERR_INVALID},
        {"example.org", true, ERR_INVALID},
        {"https://", true, ERR_INVALID},
        {"https://a b/", true, ERR_INVALID},
        {"", true, ERR_INVALID},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};
        enum err e = http_client_check_url(rows[i].url, rows[i].plain, &why);

        if (e != rows[i].e) {
            fail_msg("%s: %s (%s)", rows[i].url, err_name(e), why.text);
        }
        assert_true(e == ERR_OK || why.text[0]);
    }
}

static void what_is_no_header_or_method_is_not_sent(void **state)
{
    static const struct {
        const char *method, *name, *value;
    } rows[] = {
        {"GET", "X", "a\r\nEvil: 1"}, {"GET", "X\r\nEvil", "1"},
        {"GET", "X:", "1"},           {"GET", "", "1"},
        {"GET", "a b", "1"},          {"GET /evil", "X", "1"},
        {"TRACE", "X", "1"},          {"", "X", "1"},
    };
    struct http_client_reply r;

    http_client_reply_init(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_client_header h = {rows[i].name, rows[i].value};
        struct http_client_request q = {
            .method = rows[i].method, .url = "http://127.0.0.1:1/", .headers = &h, .n_headers = 1};
        struct errmsg why;

        assert_err(ask_with(&(struct http_client_conf){.plain = false}, &q, &r, &why), ERR_INVALID);
        assert_true(why.text[0]);
    }
    http_client_reply_fini(&r);
}

static void a_reply_beyond_its_bound_ends_the_request(void **state)
{
    struct server s = {.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "4\r\nabcd\r\n4\r\nefgh\r\n0\r\n\r\n"};
    struct http_client_reply r;
    struct errmsg why;
    static char many[HTTP_CLIENT_HEADERS_MAX + 200];
    struct server header = {.reply = many};
    size_t n = (size_t)snprintf(many, sizeof many, "HTTP/1.1 200 OK\r\n");

    server_start(&s);
    http_client_reply_init(&r);
    assert_ok(get(s.port, 8, &r, &why));
    assert_int_equal(r.body.n, 8);
    assert_err(get(s.port, 7, &r, &why), ERR_FULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(why.text, "larger than the 7 bytes"));
    server_stop(&s);

    while (n < HTTP_CLIENT_HEADERS_MAX) {
        n += (size_t)snprintf(many + n, sizeof many - n, "X-%zu: %050d\r\n", n, 0);
    }
    (void)snprintf(many + n, sizeof many - n, "Content-Length: 0\r\n\r\n");
    server_start(&header);
    assert_err(get(header.port, 8, &r, &why), ERR_FULL);
    http_client_reply_fini(&r);
    server_stop(&header);
}

static void what_is_no_whole_reply_is_an_error_with_its_cause(void **state)
{
    static const struct {
        const char *reply;
        enum err e;
    } rows[] = {
        {"SSH-2.0-OpenSSH_9\r\n", ERR_CORRUPT},
        {"<html>no</html>", ERR_CORRUPT},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", ERR_UNREACHABLE},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab", ERR_UNREACHABLE},
        {"", ERR_UNREACHABLE},
        {"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", ERR_CORRUPT},
    };
    struct http_client_reply r;
    struct errmsg why;

    http_client_reply_init(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct server s = {.reply = rows[i].reply, .closes = true};
        enum err e;

        server_start(&s);
        e = get(s.port, 100, &r, &why);
        if (e != rows[i].e) {
            fail_msg("%s: %s (%s)", rows[i].reply, err_name(e), why.text);
        }
        assert_true(why.text[0]);
        server_stop(&s);
        assert_err(get(s.port, 100, &r, &why), ERR_UNREACHABLE); /* nobody listens now */
        assert_non_null(strstr(why.text, "check that the server runs"));
    }
    http_client_reply_fini(&r);
}

struct stopper {
    struct http_client *c;
    struct server *s;
};

static void stop_when_asked(void *arg)
{
    struct stopper *p = arg;

    while (atomic_load(&p->s->requests) < 2) {
        os_sleep_ns(CLK_MS);
    }
    http_client_stop(p->c);
}

static void waiting_ends_with_its_timeout_or_when_it_is_stopped(void **state)
{
    struct server s = {.silent = true};
    struct http_client *c = client(&(struct http_client_conf){.plain = false});
    struct http_client_request q = {.method = "GET", .reply_max = 9, .timeout_ns = 50 * CLK_MS};
    struct stopper stopper = {c, &s};
    struct http_client_reply r;
    struct os_thread *t;
    struct errmsg why;
    int64_t begin;

    server_start(&s);
    q.url = url_of("http", "127.0.0.1", s.port, "/secret?secret=1");
    http_client_reply_init(&r);
    assert_err(http_client_ask(c, &q, &r, &why), ERR_TIMEOUT);
    assert_null(strstr(why.text, "secret"));
    assert_ok(os_thread_start(&t, "stop", stop_when_asked, &stopper));
    q.timeout_ns = 60 * CLK_S;
    begin = os_mono_ns();
    assert_err(http_client_ask(c, &q, &r, &why), ERR_CLOSED);
    assert_true(os_mono_ns() - begin < 30 * CLK_S);
    assert_err(http_client_ask(c, &q, &r, &why), ERR_CLOSED);
    os_thread_join(t);
    http_client_reply_fini(&r);
    http_client_close(c);
    server_stop(&s);
}

struct taken {
    size_t n;
    enum err e;
};

static enum err take(void *ctx, const void *p, size_t n)
{
    struct taken *t = ctx;

    t->n += n;
    return t->e;
}

static void a_reply_can_be_taken_as_it_comes_and_only_a_good_one(void **state)
{
    struct server good = {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"};
    struct server bad = {.reply = "HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nwhy"};
    struct taken t = {0, ERR_OK};
    struct http_client_request q = {.method = "GET", .reply_max = 9, .take = take, .take_ctx = &t};
    struct http_client_conf conf = {.plain = false};
    struct http_client_reply r;
    struct errmsg why;

    server_start(&good);
    server_start(&bad);
    http_client_reply_init(&r);
    q.url = url_of("http", "127.0.0.1", good.port, "/");
    assert_ok(ask_with(&conf, &q, &r, &why));
    assert_int_equal(t.n, 3);
    assert_int_equal(r.body.n, 0);
    t.e = ERR_CORRUPT;
    assert_err(ask_with(&conf, &q, &r, &why), ERR_CORRUPT);
    t = (struct taken){0, ERR_OK};
    q.url = url_of("http", "127.0.0.1", bad.port, "/");
    assert_ok(ask_with(&conf, &q, &r, &why));
    assert_int_equal(t.n, 0);
    assert_int_equal(r.body.n, 3);
    http_client_reply_fini(&r);
    server_stop(&good);
    server_stop(&bad);
}

/* -- TLS -- */

struct tls_server {
    struct certs *pki;
    unsigned port;
    atomic_bool ready;
    bool served;
};

static void tls_ready(void *ctx, unsigned port)
{
    struct tls_server *s = ctx;

    s->port = port;
    atomic_store(&s->ready, true);
}

static void tls_serve(void *arg)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct tls_server *s = arg;
    struct raw_cert cert = {certs_path(s->pki, "server", ".pem"),
                            certs_path(s->pki, "server", ".key")};
    struct raw_peer *p;
    char c;

    if (raw_peer_accept(&p, tls_ready, s) == ERR_OK) {
        if (raw_peer_tls(p, true, &cert) == ERR_OK && raw_peer_read(p, &c, 1, 10000) == ERR_OK) {
            s->served = raw_peer_send(p, reply, sizeof reply - 1) == ERR_OK;
            (void)raw_peer_is_closed(p, 10000);
        }
        raw_peer_close(p);
    }
}

static void a_server_is_trusted_by_its_authority_and_its_name(void **state)
{
    static const char *const dns[] = {"127.0.0.1"};
    struct certs *pki = certs_create(), *other = certs_create();
    struct pki_issue issue = {.use = PKI_COLLECTOR, .name = "server", .dns = dns, .n_dns = 1};
    static const struct {
        const char *host;
        bool other, system;
        enum err e;
    } rows[] = {{"127.0.0.1", false, false, ERR_OK},
                {"127.0.0.1", true, false, ERR_TRUST},
                {"127.0.0.1", false, true, ERR_TRUST},
                {"localhost", false, false, ERR_TRUST}};

    certs_issue_as(pki, &issue);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tls_server s = {.pki = pki};
        char ca[512] = "";
        struct http_client_conf conf = {.ca = ca};
        struct http_client_request q = {.method = "GET", .reply_max = 9};
        struct http_client_reply r;
        struct os_thread *t;
        struct errmsg why;
        enum err e;

        if (!rows[i].system) {
            (void)snprintf(ca, sizeof ca, "%s",
                           certs_path(rows[i].other ? other : pki, "ca", ".pem"));
        }
        assert_ok(os_thread_start(&t, "tls", tls_serve, &s));
        while (!atomic_load(&s.ready)) {
            os_sleep_ns(CLK_MS);
        }
        q.url = url_of("https", rows[i].host, s.port, "/");
        http_client_reply_init(&r);
        e = ask_with(&conf, &q, &r, &why);
        os_thread_join(t);
        if (e != rows[i].e || s.served != (e == ERR_OK)) {
            fail_msg("row %zu: %s (%s)", i, err_name(e), why.text);
        }
        http_client_reply_fini(&r);
    }
    certs_destroy(pki);
    certs_destroy(other);
}

static void files_that_cannot_be_used_are_said_when_it_opens(void **state)
{
    struct certs *pki = certs_create();
    const char *ca = certs_path(pki, "ca", ".pem");
    const struct {
        struct http_client_conf conf;
        enum err e;
    } rows[] = {
        {{.ca = "/nowhere/ca.pem"}, ERR_NOTFOUND},
        {{.ca = "/dev/null"}, ERR_INVALID},
        {{.ca = "/tmp"}, ERR_IO},
        {{.cert = ca}, ERR_INVALID},
        {{.cert = ca, .key = "/nowhere/key"}, ERR_NOTFOUND},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_client *c;
        struct errmsg why = {""};

        assert_err(http_client_open(&c, &rows[i].conf, &why), rows[i].e);
        assert_true(why.text[0]);
    }
    certs_destroy(pki);
}

static void every_failing_allocation_of_ours_is_survived(void **state)
{
    struct server s = {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"};
    struct http_client_header h = {"X-Some", "thing"};
    struct http_client_request q = {.method = "GET", .headers = &h, .n_headers = 1, .reply_max = 9};
    bool done = false;
    long live = mem_live();

    server_start(&s);
    q.url = url_of("http", "127.0.0.1", s.port, "/");
    for (long n = 0; !done; n++) {
        struct http_client *c = NULL;
        struct http_client_reply r;
        struct errmsg why;
        enum err e;

        http_client_reply_init(&r);
        mem_fail_after(n);
        e = http_client_open(&c, &(struct http_client_conf){.user = "u", .password = "p"}, &why);
        e = e ? e : http_client_ask(c, &q, &r, &why);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        done = e == ERR_OK;
        http_client_close(c);
        http_client_reply_fini(&r);
        assert_true(n < 1000);
    }
    server_stop(&s);
    assert_int_equal(mem_live(), live + 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_says_what_it_was_told_to_and_no_more),
        cmocka_unit_test(a_connection_is_used_again_and_replies_do_not_mix),
        cmocka_unit_test(a_redirect_is_a_reply_and_is_not_followed),
        cmocka_unit_test(the_environments_proxy_is_used_only_when_asked_for),
        cmocka_unit_test(urls_that_may_not_be_asked_are_refused),
        cmocka_unit_test(what_is_no_header_or_method_is_not_sent),
        cmocka_unit_test(a_reply_beyond_its_bound_ends_the_request),
        cmocka_unit_test(what_is_no_whole_reply_is_an_error_with_its_cause),
        cmocka_unit_test(waiting_ends_with_its_timeout_or_when_it_is_stopped),
        cmocka_unit_test(a_reply_can_be_taken_as_it_comes_and_only_a_good_one),
        cmocka_unit_test(a_server_is_trusted_by_its_authority_and_its_name),
        cmocka_unit_test(files_that_cannot_be_used_are_said_when_it_opens),
        cmocka_unit_test(every_failing_allocation_of_ours_is_survived),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
