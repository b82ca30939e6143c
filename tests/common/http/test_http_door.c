/* The door of the console, with answers of ours behind it. Linux. */
#include "common/http/http_door.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/os.h"
#include "tests/common/http/http_peer.h"
#include "tests/support/t.h"

#define KEPT_MAX   HTTP_DOOR_QUESTIONS
#define PATIENCE_S 30
#define TOKEN      "0123456789abcdef0123456789abcdef"

/* Answers what it is asked, or keeps it. */
struct desk {
    struct http_door *door;
    struct os_mutex *lock;
    struct os_cond *came;
    bool keeps;
    size_t n;
    struct {
        http_ask_done done;
        void *ctx;
        char query[200], who[64];
    } kept[KEPT_MAX];
    atomic_bool unwanted, slow, asking;
    atomic_int asked;
    char notes[4000];
};

static void say(http_ask_done done, void *ctx, unsigned status, const char *text)
{
    done(ctx, &(struct http_ask_answer){
                  .status = status, .type = str_make("application/json"), .body = str_make(text)});
}

static void on_ask(void *ctx, const struct http_ask_question *q, http_ask_done done, void *done_ctx)
{
    struct desk *d = ctx;
    bool keeps;

    atomic_fetch_add(&d->asked, 1);
    if (atomic_load(&d->slow)) {
        atomic_store(&d->asking, true);
        os_sleep_ns(300 * CLK_MS);
    }
    os_mutex_lock(d->lock);
    keeps = d->keeps;
    if (keeps) {
        assert_true(d->n < KEPT_MAX);
        d->kept[d->n].done = done;
        d->kept[d->n].ctx = done_ctx;
        (void)snprintf(d->kept[d->n].query, sizeof d->kept[0].query, "%.*s", (int)q->query.n,
                       q->query.p);
        (void)snprintf(d->kept[d->n].who, sizeof d->kept[0].who, "%s", q->who->name);
        d->n++;
        os_cond_wake_all(d->came);
    }
    os_mutex_unlock(d->lock);
    atomic_store(&d->asking, false);
    if (!keeps) {
        char text[600];

        (void)snprintf(text, sizeof text, "{\"path\":\"%.*s\",\"query\":\"%.*s\",\"who\":\"%s\"}",
                       (int)q->path.n, q->path.p, (int)q->query.n, q->query.p, q->who->name);
        done(done_ctx,
             &(struct http_ask_answer){.status = 200,
                                       .type = str_make("application/json"),
                                       .etag = q->who->name[0] ? str_make("") : str_make("\"e\""),
                                       .immutable = q->path.n > 2 && q->path.p[2] == '/',
                                       .body = str_make(text)});
    }
}

static void on_note(void *ctx, const struct http_door_note *note)
{
    static const char *const events[] = {"session", "end", "refused", "asked"};
    struct desk *d = ctx;
    size_t n;

    os_mutex_lock(d->lock);
    n = strlen(d->notes);
    (void)snprintf(d->notes + n, sizeof d->notes - n, "%s %s %s %s %s\n", events[note->event],
                   note->who->name, note->who->address, note->reason, note->user);
    os_mutex_unlock(d->lock);
}

static const char *on_keep(void *ctx, const struct net_identity *who)
{
    (void)who;
    return atomic_load(&((struct desk *)ctx)->unwanted) ? "revoked" : NULL;
}

static void desk_open_as(struct desk *d, bool keeps, const char *url)
{
    static const char *const names[] = {"console.lab"};
    const struct http_door_conf conf = {.address = "127.0.0.1:0",
                                        .names = names,
                                        .n_names = 1,
                                        .url = url,
                                        .user_header = "X-User",
                                        .streams = 4,
                                        .ask = on_ask,
                                        .note = on_note,
                                        .keep = on_keep,
                                        .ctx = d};
    struct errmsg why = {""};

    memset(d, 0, sizeof *d);
    d->keeps = keeps;
    assert_ok(os_mutex_create(&d->lock));
    assert_ok(os_cond_create(&d->came, d->lock));
    assert_ok(http_door_start(&d->door, &conf, &why));
    assert_ok(http_door_tokens(d->door, str_make("grafana " TOKEN), true, &why));
}

static void desk_open(struct desk *d, bool keeps)
{
    desk_open_as(d, keeps, "");
}

static void desk_wait(struct desk *d, size_t n)
{
    int64_t end_ns = os_mono_ns() + PATIENCE_S * CLK_S;

    os_mutex_lock(d->lock);
    while (d->n < n) {
        assert_ok(os_cond_wait_until(d->came, end_ns));
    }
    os_mutex_unlock(d->lock);
}

/* Each is answered once, */
static void say_kept(struct desk *d, size_t i, unsigned status, const char *text)
{
    http_ask_done done;

    os_mutex_lock(d->lock);
    done = d->kept[i].done;
    d->kept[i].done = NULL;
    os_mutex_unlock(d->lock);
    if (done) {
        say(done, d->kept[i].ctx, status, text);
    }
}

/* some of them when the door has stopped. */
static void desk_close(struct desk *d)
{
    http_door_stop(d->door);
    for (size_t i = 0; i < d->n; i++) {
        say_kept(d, i, 200, "{}");
    }
    os_cond_destroy(d->came);
    os_mutex_destroy(d->lock);
}

/* -- browsers -- */

static int begin(const struct desk *d, const char *method, const char *path, const char *headers,
                 const char *body)
{
    int fd = http_peer_dial(http_door_port(d->door));
    char request[4000];

    (void)snprintf(request, sizeof request,
                   "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
                   headers);
    if (body) {
        size_t n = strlen(request);

        (void)snprintf(request + n, sizeof request - n, "Content-Length: %zu\r\n", strlen(body));
    }
    assert_true(http_peer_tell(fd, request, strlen(request)));
    assert_true(http_peer_tell(fd, "\r\n", 2));
    if (body) {
        (void)http_peer_tell(fd, body, strlen(body));
    }
    return fd;
}

static const char *end(int fd)
{
    static char text[65536];

    http_peer_hear(fd, text, sizeof text);
    return text;
}

static const char *ask(const struct desk *d, const char *method, const char *path,
                       const char *headers, const char *body)
{
    return end(begin(d, method, path, headers, body));
}

static void assert_says(const char *said, const char *what)
{
    if (!strstr(said, what)) {
        fail_msg("not '%s' in: %s", what, said);
    }
}

static const char *post_ticket(const struct desk *d, const char *ticket)
{
    char body[100];

    (void)snprintf(body, sizeof body, "{\"ticket\":\"%s\"}", ticket);
    return ask(d, "POST", "/api/v1/session", "Content-Type: application/json\r\nX-User: ann\r\n",
               body);
}

/* Both halves as headers. */
static void log_in(const struct desk *d, char headers[300])
{
    struct net_identity who = {.name = "oper\"ator", .roles = NET_QUERY};
    char ticket[HTTP_SESSION_TEXT];
    const char *said, *cookie, *key;

    assert_ok(http_door_ticket(d->door, &who, ticket));
    said = post_ticket(d, ticket);
    assert_says(said, " 200 ");
    assert_says(said, "\"name\":\"oper\\\"ator\"}");
    cookie = strstr(said, "Set-Cookie: ");
    key = strstr(said, "\"key\":\"");
    assert_non_null(cookie);
    assert_non_null(key);
    assert_says(cookie, "; HttpOnly; SameSite=Strict; Path=/\r\n");
    (void)snprintf(headers, 300, "Cookie: other=1; %.*s; z=2\r\nX-Procfleet-Key: %.32s\r\n",
                   (int)strcspn(cookie + 12, ";"), cookie + 12, key + 7);
}

/* -- tests -- */

static void a_link_gives_a_session_that_asks_and_logs_out(void **state)
{
    char headers[300];
    const char *said;
    struct desk d;

    (void)state;
    desk_open(&d, false);
    assert_says(ask(&d, "GET", "/api/v1/hosts", "", NULL), " 401 ");
    log_in(&d, headers);
    said = ask(&d, "GET", "/api/v1/top?name=a+b%2F&x", headers, NULL);
    assert_says(said, " 200 ");
    assert_says(said, "{\"path\":\"/api/v1/top\",\"query\":\"name=a+b%2F&x\"");
    assert_says(said, "Cache-Control: no-store\r\n");
    said = ask(&d, "HEAD", "/api/v1/top", headers, NULL);
    assert_says(said, " 200 ");
    assert_null(strstr(said, "{"));
    assert_says(ask(&d, "GET", "/api/v1/top", "Authorization: Bearer " TOKEN "\r\n", NULL),
                "\"who\":\"grafana\"");
    assert_says(ask(&d, "GET", "/api/v1/top", "Authorization: bEARER  " TOKEN "\r\n", NULL),
                "\"who\":\"grafana\"");
    assert_says(ask(&d, "DELETE", "/api/v1/session", headers, NULL), " 204 ");
    said = ask(&d, "GET", "/api/v1/top", headers, NULL);
    assert_says(said, " 401 ");
    assert_says(said, "\r\n\r\n{\"code\":\"UNAUTHENTICATED\",\"message\":\"");
    assert_says(d.notes, "session oper\"ator 127.0.0.1 login ann\n");
    assert_says(d.notes, "asked oper\"ator 127.0.0.1 /api/v1/top?name=a+b%2F&x \n");
    assert_says(d.notes, "end oper\"ator  logout \n");
    assert_says(d.notes, "refused  127.0.0.1 there is no session");
    desk_close(&d);
}

static void every_reply_tells_browsers_what_they_may_not(void **state)
{
    static const char *const paths[] = {"/", "/a/x", "/nothing", "/api/v1/hosts"};
    static const char *const headers[] = {
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src "
        "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'\r\n",
        "X-Content-Type-Options: nosniff\r\n",
        "Referrer-Policy: no-referrer\r\n",
        "Cross-Origin-Opener-Policy: same-origin\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n",
    };
    const char *said;
    struct desk d;

    (void)state;
    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        said = ask(&d, "GET", paths[i], "", NULL);
        for (size_t k = 0; k < COUNT_OF(headers); k++) {
            assert_says(said, headers[k]);
        }
        assert_null(strstr(said, "Access-Control"));
    }
    assert_says(ask(&d, "GET", "/", "", NULL), "Cache-Control: no-cache\r\n");
    assert_says(ask(&d, "GET", "/a/x", "", NULL), "immutable\r\n");
    assert_says(ask(&d, "GET", "/nothing", "", NULL), " 404 ");
    assert_says(ask(&d, "PUT", "/api/v1/hosts", "", NULL), " 405 ");
    assert_says(ask(&d, "POST", "/api/v1/hosts", "", "x"), " 405 ");
    desk_close(&d);
}

static void another_site_is_refused(void **state)
{
    static const struct {
        const char *path, *headers, *says;
    } rows[] = {
        {"/api/v1/top", "", " 200 "},
        {"/api/v1/top", "Sec-Fetch-Site: same-origin\r\n", " 200 "},
        {"/api/v1/top", "Sec-Fetch-Site: none\r\n", " 200 "},
        {"/api/v1/top", "Sec-Fetch-Site: cross-site\r\n", " 403 "},
        {"/api/v1/top", "Sec-Fetch-Site: same-site\r\n", " 403 "}, /* another port */
        {"/api/v1/top",
         "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
         " 403 "},
        {"/",
         "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
         " 200 "},
        {"/",
         "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n",
         " 403 "},
        {"/a/x", "Sec-Fetch-Site: cross-site\r\n", " 403 "},
        {"/api/v1/top", "Origin: http://localhost\r\n", " 200 "},
        {"/api/v1/top", "Origin: https://LOCALHOST\r\n", " 200 "},
        {"/api/v1/top", "Origin: https://console.lab\r\n", " 200 "}, /* its url */
        {"/api/v1/top", "Origin: http://localhost:3000\r\n", " 403 "},
        {"/api/v1/top", "Origin: http://evil.example\r\n", " 403 "},
        {"/api/v1/top", "Origin: null\r\n", " 403 "},
        {"/api/v1/top", "Origin: https://console.lab evil\r\n", " 403 "},
        {"/api/v1/top", "Origin: ftp://localhost\r\n", " 403 "},
    };
    struct http_door_stats stats;
    struct desk d;

    (void)state;
    desk_open_as(&d, false, "https://console.lab\0evil"); /* what lies behind it is not read */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char headers[400];

        (void)snprintf(headers, sizeof headers, "Authorization: Bearer " TOKEN "\r\n%s",
                       rows[i].headers);
        assert_says(ask(&d, "GET", rows[i].path, headers, NULL), rows[i].says);
    }
    http_door_stats(d.door, &stats);
    assert_int_equal(stats.refusals[HTTP_DOOR_OTHER_SITE], 10);
    desk_close(&d);
}

static void behind_a_proxy_the_cookie_is_for_its_name_and_tls(void **state)
{
    struct net_identity who = {.name = "operator"};
    char ticket[HTTP_SESSION_TEXT];
    struct desk d;

    (void)state;
    desk_open_as(&d, false, "https://console.lab");
    assert_ok(http_door_ticket(d.door, &who, ticket));
    assert_says(post_ticket(&d, ticket), "Set-Cookie: __Host-procfleet_session=");
    assert_ok(http_door_ticket(d.door, &who, ticket));
    assert_says(post_ticket(&d, ticket), "; HttpOnly; SameSite=Strict; Path=/; Secure\r\n");
    desk_close(&d);
}

static void a_login_is_one_json_object_and_short(void **state)
{
    static const char *const wrong[] = {"",
                                        "x",
                                        "[]",
                                        "{\"ticket\":1}",
                                        "{\"ticket\":\"a",
                                        "{\"ticket\":\"a\\u0041\"}",
                                        "{\"a\":{\"ticket\":\"x\"}}"};
    static char large[5000];
    struct desk d;

    (void)state;
    desk_open(&d, false);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_says(
            ask(&d, "POST", "/api/v1/session", "Content-Type: application/json\r\n", wrong[i]),
            " 400 ");
    }
    assert_says(ask(&d, "POST", "/api/v1/session", "Content-Type: text/plain\r\n",
                    "{\"ticket\":\"" TOKEN "\"}"),
                " 400 ");
    memset(large, ' ', sizeof large - 1);
    assert_says(ask(&d, "POST", "/api/v1/session", "Content-Type: application/json\r\n", large),
                " 413 ");
    for (unsigned i = 0; i <= HTTP_SESSION_LOGINS; i++) {
        assert_says(post_ticket(&d, TOKEN), i < HTTP_SESSION_LOGINS ? " 401 " : " 429 ");
    }
    desk_close(&d);
}

static void a_session_that_makes_room_for_another_is_noted(void **state)
{
    char headers[300];
    struct desk d;

    (void)state;
    desk_open(&d, false);
    for (unsigned i = 0; i < HTTP_SESSION_SAME; i++) {
        log_in(&d, headers);
    }
    assert_null(strstr(d.notes, "end "));
    log_in(&d, headers);
    assert_says(d.notes, "end oper\"ator  a newer session took its place \n");
    desk_close(&d);
}

static void of_a_session_four_are_asked_and_the_others_wait(void **state)
{
    int fds[HTTP_DOOR_WAITING + HTTP_SESSION_AT_ONCE];
    char headers[300];
    struct desk d;

    (void)state;
    desk_open(&d, true);
    log_in(&d, headers);
    for (size_t i = 0; i < 10; i++) {
        char path[40];

        (void)snprintf(path, sizeof path, "/api/v1/top?%zu", i);
        fds[i] = begin(&d, "GET", path, headers, NULL);
        if (i < HTTP_SESSION_AT_ONCE) {
            desk_wait(&d, i + 1);
        }
    }
    /* Another's question passes those that wait. */
    fds[10] = begin(&d, "GET", "/api/v1/top?x", "Authorization: Bearer " TOKEN "\r\n", NULL);
    desk_wait(&d, HTTP_SESSION_AT_ONCE + 1);
    assert_string_equal(d.kept[HTTP_SESSION_AT_ONCE].who, "grafana");
    for (size_t i = 0; i < 11; i++) {
        desk_wait(&d, i + 1);
        assert_true(d.n <= i + HTTP_SESSION_AT_ONCE + 1);
        say_kept(&d, i, 200, "{}");
    }
    for (size_t i = 0; i < 11; i++) {
        assert_says(end(fds[i]), " 200 ");
    }
    desk_close(&d);
}

static void a_session_that_is_not_wanted_any_more_ends_within_a_second(void **state)
{
    char headers[300];
    struct desk d;
    int fd;

    (void)state;
    desk_open(&d, true);
    log_in(&d, headers);
    fd = begin(&d, "GET", "/api/v1/top", headers, NULL);
    desk_wait(&d, 1);
    atomic_store(&d.unwanted, true);
    http_door_review(d.door);
    assert_says(ask(&d, "GET", "/api/v1/top", headers, NULL), " 401 ");
    say_kept(&d, 0, 200, "{\"secret\":1}"); /* too late */
    assert_says(end(fd), " 401 ");
    assert_says(d.notes, "end oper\"ator  revoked \n");
    desk_close(&d);
}

/* -- streams -- */

#define EVENTS "Accept: text/event-stream\r\nAuthorization: Bearer " TOKEN "\r\n"

/* What has come until `what` has. */
static const char *hear_until(int fd, const char *what)
{
    static char text[1 << 20];
    int64_t end_ns = os_mono_ns() + PATIENCE_S * CLK_S;
    size_t n = 0;

    do {
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);

        assert_true(got > 0 && os_mono_ns() < end_ns);
        n += (size_t)got;
        text[n] = '\0';
    } while (!strstr(text, what));
    return text;
}

static void answer(struct desk *d, size_t i, unsigned status, const char *text)
{
    desk_wait(d, i + 1);
    say_kept(d, i, status, text);
}

static void a_stream_is_a_question_asked_again_with_the_cursor(void **state)
{
    const char *said;
    struct desk d;
    int fd;

    (void)state;
    desk_open(&d, true);
    fd = begin(&d, "GET", "/api/v1/updates?kinds=end&wait=3s&cursor=old", EVENTS, NULL);
    desk_wait(&d, 1);
    assert_string_equal(d.kept[0].query, "wait=0s&max=200&kinds=end&cursor=old");
    answer(&d, 0, 200, "{\"updates\":[],\"cursor\":\"a/1\",\"more\":false,\"lost\":0}");
    said = hear_until(fd, "}\n\n");
    assert_says(said, "Content-Type: text/event-stream\r\n");
    assert_says(said, "event: update\nid: a/1\ndata: {\"updates\":[],");
    desk_wait(&d, 2);
    assert_string_equal(d.kept[1].query, "wait=20s&max=200&cursor=a%2F1&kinds=end");
    answer(&d, 1, 200, "{\n\"updates\":[{\"x\":\"]}\\\"\"}],\"lost\":3,\"cursor\":\"b\"}");
    said = hear_until(fd, "cursor");
    assert_says(said,
                "event: gap\ndata: {\"lost\":3}\n\nevent: update\nid: b\ndata: {\ndata: \"up");
    answer(&d, 2, 403, "{\"code\":\"PERMISSION_DENIED\",\"message\":\"not yours\"}");
    assert_says(end(fd),
                "event: end\ndata: {\"code\":\"PERMISSION_DENIED\",\"message\":\"not yours\"");
    desk_close(&d);
}

static void a_stream_whose_first_answer_is_a_refusal_does_not_begin(void **state)
{
    struct desk d;
    int fd;

    (void)state;
    desk_open(&d, true);
    fd = begin(&d, "GET", "/api/v1/updates?x", EVENTS, NULL);
    answer(&d, 0, 400, "{\"code\":\"INVALID_ARGUMENT\"}");
    assert_says(end(fd), " 400 ");
    desk_close(&d);
}

static void an_answer_that_is_too_large_for_a_stream_is_asked_for_in_parts(void **state)
{
    static char large[HTTP_DOOR_EVENTS + 1000];
    struct desk d;
    int fd;

    (void)state;
    memset(large, ' ', sizeof large - 1);
    memcpy(large, "{\"updates\":[1],\"cursor\":\"a\",", 28);
    memcpy(large + sizeof large - 8, "\"x\":1}", 7);
    desk_open(&d, true);
    fd = begin(&d, "GET", "/api/v1/updates", EVENTS, NULL);
    answer(&d, 0, 200, large);
    desk_wait(&d, 2);
    assert_string_equal(d.kept[1].query, "wait=20s&max=100");
    answer(&d, 1, 200, "{\"updates\":[1],\"cursor\":\"b\"}");
    assert_says(hear_until(fd, "\"b\"}"), " 200 ");
    close(fd);
    desk_close(&d);
}

static void streams_have_a_bound_and_end_with_the_door(void **state)
{
    struct http_door_stats stats;
    int fds[4];
    struct desk d;

    (void)state;
    desk_open(&d, true);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = begin(&d, "GET", "/api/v1/updates", EVENTS, NULL);
        desk_wait(&d, i + 1);
    }
    assert_says(ask(&d, "GET", "/api/v1/updates", EVENTS, NULL), " 503 ");
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        answer(&d, i, 200, "{\"updates\":[],\"cursor\":\"a\"}");
        (void)hear_until(fds[i], "cursor");
    }
    http_door_stats(d.door, &stats);
    assert_int_equal(stats.streams, COUNT_OF(fds));
    desk_wait(&d, 2 * COUNT_OF(fds));
    http_door_stop(d.door);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        assert_says(end(fds[i]), "event: end\ndata: {\"code\":\"UNAVAILABLE\"");
        say_kept(&d, COUNT_OF(fds) + i, 200, "{}");
    }
    os_cond_destroy(d.came);
    os_mutex_destroy(d.lock);
}

static void a_stream_of_a_peer_that_has_gone_is_over(void **state)
{
    struct http_door_stats stats;
    struct desk d;
    int fd;

    (void)state;
    desk_open(&d, true);
    fd = begin(&d, "GET", "/api/v1/updates", EVENTS, NULL);
    answer(&d, 0, 200, "{\"updates\":[],\"cursor\":\"a\"}");
    (void)hear_until(fd, "cursor");
    desk_wait(&d, 2);
    close(fd);
    for (size_t i = 1; i < KEPT_MAX; i++) { /* the first may still be taken by the socket */
        answer(&d, i, 200, "{\"updates\":[1],\"cursor\":\"b\"}");
        http_door_stats(d.door, &stats);
        if (stats.streams == 0) {
            break;
        }
        os_sleep_ns(10 * CLK_MS);
        http_door_stats(d.door, &stats);
        if (stats.streams == 0) {
            break;
        }
    }
    assert_int_equal(stats.streams, 0);
    desk_close(&d);
}

#define OPERATOR_EVENTS "Accept: text/event-stream\r\n%s"

static void a_stream_does_not_begin_for_a_session_that_has_ended(void **state)
{
    char headers[300], with[400];
    struct desk d;
    int fd;

    (void)state;
    desk_open(&d, true);
    log_in(&d, headers);
    (void)snprintf(with, sizeof with, OPERATOR_EVENTS, headers);
    fd = begin(&d, "GET", "/api/v1/updates", with, NULL);
    desk_wait(&d, 1);
    atomic_store(&d.unwanted, true);
    http_door_review(d.door);
    answer(&d, 0, 200, "{\"updates\":[1],\"cursor\":\"secret\"}");
    assert_says(end(fd), " 401 ");
    desk_close(&d);
}

/* What is answered at that moment may come before the server's thread has sent the end. */
static void nothing_follows_the_end_of_a_stream_whose_session_has_ended(void **state)
{
    char headers[300], with[400];

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        const char *said;
        struct desk d;
        int fd;

        desk_open(&d, true);
        log_in(&d, headers);
        (void)snprintf(with, sizeof with, OPERATOR_EVENTS, headers);
        fd = begin(&d, "GET", "/api/v1/updates", with, NULL);
        answer(&d, 0, 200, "{\"updates\":[],\"cursor\":\"a\"}");
        desk_wait(&d, 2);
        atomic_store(&d.unwanted, true);
        http_door_review(d.door);
        answer(&d, 1, 200, "{\"updates\":[1],\"cursor\":\"secret\"}");
        said = end(fd);
        assert_says(said, "event: end\ndata: {\"code\":\"UNAUTHENTICATED\"");
        assert_null(strstr(said, "secret"));
        desk_close(&d);
    }
}

/* -- stop -- */

static void *answer_first(void *arg)
{
    answer(arg, 0, 200, "{}");
    return NULL;
}

static void a_door_that_has_stopped_asks_nothing(void **state)
{
    int fds[HTTP_SESSION_AT_ONCE + 1];
    pthread_t thread;
    struct desk d;

    (void)state;
    desk_open(&d, true);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = begin(&d, "GET", "/api/v1/top", "Authorization: Bearer " TOKEN "\r\n", NULL);
    }
    desk_wait(&d, HTTP_SESSION_AT_ONCE);
    os_sleep_ns(100 * CLK_MS); /* the last waits for a place */
    atomic_store(&d.slow, true);
    assert_int_equal(pthread_create(&thread, NULL, answer_first, &d), 0);
    while (!atomic_load(&d.asking)) { /* on that thread */
        os_sleep_ns(CLK_MS);
    }
    http_door_stop(d.door);
    assert_false(atomic_load(&d.asking));
    pthread_join(thread, NULL);
    for (size_t i = 1; i < COUNT_OF(fds); i++) {
        answer(&d, i, 200, "{}");
    }
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        assert_says(end(fds[i]), i == 0 ? " 200 " : " 503 ");
    }
    os_cond_destroy(d.came);
    os_mutex_destroy(d.lock);
}

struct load {
    struct desk *desk;
    atomic_bool stop;
};

static void *load_run(void *arg)
{
    struct load *l = arg;
    static _Thread_local char text[65536];

    while (!atomic_load(&l->stop)) {
        int fd = begin(l->desk, "GET", "/api/v1/top", "Authorization: Bearer " TOKEN "\r\n", NULL);

        http_peer_hear(fd, text, sizeof text);
    }
    return NULL;
}

/* Answers what was kept, later and from a thread of its own, also when the door has stopped. */
static void *late_run(void *arg)
{
    struct load *l = arg;

    for (size_t i = 0; !atomic_load(&l->stop);) {
        bool there;

        os_mutex_lock(l->desk->lock);
        there = i < l->desk->n;
        os_mutex_unlock(l->desk->lock);
        if (there) {
            say_kept(l->desk, i, 200, "{}");
            i++;
        } else {
            os_sleep_ns(CLK_MS);
        }
    }
    return NULL;
}

static void it_stops_while_questions_come_and_are_answered(void **state)
{
    pthread_t late;
    struct load l;
    struct desk d;

    (void)state;
    for (int round = 0; round < 5; round++) {
        int fds[40];

        desk_open(&d, true);
        l.desk = &d;
        atomic_store(&l.stop, false);
        for (size_t i = 0; i < COUNT_OF(fds); i++) {
            fds[i] = begin(&d, "GET", i % 2 ? "/" : "/api/v1/top",
                           "Authorization: Bearer " TOKEN "\r\n", NULL);
        }
        desk_wait(&d, 4);
        assert_int_equal(pthread_create(&late, NULL, late_run, &l), 0);
        os_sleep_ns(round * CLK_MS);
        http_door_stop(d.door);
        for (size_t i = 0; i < COUNT_OF(fds); i++) {
            (void)end(fds[i]);
        }
        os_sleep_ns(20 * CLK_MS); /* the rest is answered */
        atomic_store(&l.stop, true);
        pthread_join(late, NULL);
        os_cond_destroy(d.came);
        os_mutex_destroy(d.lock);
    }
}

static void many_connections_are_served_at_once(void **state)
{
    pthread_t threads[8];
    struct load l;
    struct desk d;

    (void)state;
    desk_open(&d, false);
    l.desk = &d;
    atomic_store(&l.stop, false);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, load_run, &l), 0);
    }
    while (atomic_load(&d.asked) < 20) { /* a second's */
        os_sleep_ns(CLK_MS);
    }
    atomic_store(&l.stop, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    desk_close(&d);
}

static void only_this_machine_may_be_listened_to(void **state)
{
    static const char *const addresses[] = {"*:0", "0.0.0.0:0", "192.0.2.1:0", "[::]:0",
                                            "example.org:0"};
    struct desk d = {.n = 0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        const struct http_door_conf conf = {.address = addresses[i], .ask = on_ask, .ctx = &d};
        struct errmsg why = {""};

        assert_err(http_door_start(&d.door, &conf, &why), ERR_INVALID);
        assert_says(why.text, "this machine");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_gives_a_session_that_asks_and_logs_out),
        cmocka_unit_test(every_reply_tells_browsers_what_they_may_not),
        cmocka_unit_test(another_site_is_refused),
        cmocka_unit_test(behind_a_proxy_the_cookie_is_for_its_name_and_tls),
        cmocka_unit_test(a_login_is_one_json_object_and_short),
        cmocka_unit_test(a_session_that_makes_room_for_another_is_noted),
        cmocka_unit_test(of_a_session_four_are_asked_and_the_others_wait),
        cmocka_unit_test(a_session_that_is_not_wanted_any_more_ends_within_a_second),
        cmocka_unit_test(a_stream_is_a_question_asked_again_with_the_cursor),
        cmocka_unit_test(a_stream_whose_first_answer_is_a_refusal_does_not_begin),
        cmocka_unit_test(an_answer_that_is_too_large_for_a_stream_is_asked_for_in_parts),
        cmocka_unit_test(streams_have_a_bound_and_end_with_the_door),
        cmocka_unit_test(a_stream_of_a_peer_that_has_gone_is_over),
        cmocka_unit_test(a_stream_does_not_begin_for_a_session_that_has_ended),
        cmocka_unit_test(nothing_follows_the_end_of_a_stream_whose_session_has_ended),
        cmocka_unit_test(a_door_that_has_stopped_asks_nothing),
        cmocka_unit_test(it_stops_while_questions_come_and_are_answered),
        cmocka_unit_test(many_connections_are_served_at_once),
        cmocka_unit_test(only_this_machine_may_be_listened_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
