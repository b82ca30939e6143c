#include "common/http/http_door.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/http/http_events.h"
#include "common/http/http_host.h"
#include "common/http/http_question.h"
#include "common/os/os.h"

#define BODY_MAX     4096u
#define NAMES_MAX    32u
#define TOKENS_BYTES ((size_t)64 << 10)
#define TICK_NS      (200 * CLK_MS)
#define SWEEP_NS     CLK_S
#define COOKIE       "procfleet_session"
#define JSON_TYPE    "application/json"

static const struct http_server_pair safety[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};

struct http_door {
    struct http_door_conf conf;
    const char *names[NAMES_MAX + 1];
    char url_host[256];
    char cookie[64]; /* its name */
    struct http_server *server;
    struct os_thread *thread;
    struct http_question_desk *desk;
    struct http_question_shared *shared; /* the desk's; its lock guards what follows */
    uint64_t refusals[HTTP_DOOR_REFUSALS];
};

static struct http_session_now door_now(void)
{
    return (struct http_session_now){os_mono_ns(), os_utc_ns()};
}

/* -- notes and refusals -- */

static void door_note(struct http_door *d, enum http_door_event event,
                      const struct net_identity *who, const char *reason, const char *user)
{
    const struct http_door_note note = {event, who, reason, user ? user : ""};

    if (d->conf.note) {
        d->conf.note(d->conf.ctx, &note);
    }
}

/* Only until the handler returns. */
static const char *call_user(const struct http_door *d, const struct http_server_call *call)
{
    return d->conf.user_header && d->conf.user_header[0]
               ? http_server_header(call, d->conf.user_header)
               : NULL;
}

/* Noted, and answered. */
static void refuse(struct http_door *d, struct http_server_call *call,
                   enum http_door_refusal refusal, const char *user)
{
    static const struct {
        unsigned status;
        const char *code, *message;
    } refusals[HTTP_DOOR_REFUSALS] = {
        [HTTP_DOOR_NO_SESSION] = {401, "UNAUTHENTICATED",
                                  "there is no session, or it has ended: open a new link of "
                                  "'procfleet console'"},
        [HTTP_DOOR_OTHER_SITE] = {403, "PERMISSION_DENIED", "another site sent this request"},
        [HTTP_DOOR_WRONG_TICKET] = {401, "UNAUTHENTICATED",
                                    "the link is used up, older than a minute, or mistyped: open a "
                                    "new one of 'procfleet console'"},
        [HTTP_DOOR_TOO_MANY] = {429, "RESOURCE_EXHAUSTED", "too many at a time: ask more slowly"},
    };
    struct net_identity who = {.name = ""};

    (void)snprintf(who.address, sizeof who.address, "%s", http_server_address(call));
    door_note(d, HTTP_DOOR_REFUSED, &who, refusals[refusal].message, user);
    os_mutex_lock(d->shared->lock);
    d->refusals[refusal]++;
    os_mutex_unlock(d->shared->lock);
    http_question_error(call, refusals[refusal].status, refusals[refusal].code,
                        refusals[refusal].message, refusals[refusal].status == 429);
}

/* -- whose request it is -- */

/* An origin is ours when the page would be: its host and port are those that were asked. */
static bool origin_is_ours(const struct http_door *d, const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");

    if (d->conf.url && d->conf.url[0] && http_host_same(origin, d->conf.url)) {
        return true;
    }
    return rest && (strncmp(origin, "http://", 7) == 0 || strncmp(origin, "https://", 8) == 0) &&
           host && http_host_same(rest + 3, host);
}

static bool header_is(const struct http_server_call *call, const char *name, const char *value)
{
    const char *text = http_server_header(call, name);

    return text && strcmp(text, value) == 0;
}

/* A link to the page may stand anywhere: the page itself says nothing. */
static bool is_link(const struct http_server_call *call)
{
    return strcmp(http_server_path(call), "/") == 0 &&
           header_is(call, "Sec-Fetch-Mode", "navigate") &&
           header_is(call, "Sec-Fetch-Dest", "document");
}

static bool same_site(const struct http_door *d, const struct http_server_call *call)
{
    const char *origin = http_server_header(call, "Origin");
    const char *site = http_server_header(call, "Sec-Fetch-Site");

    if (origin && !origin_is_ours(d, origin, http_server_header(call, "Host"))) {
        return false;
    }
    return !site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0 || is_link(call);
}

/* The value of our cookie, of those in the header. */
static struct str cookie_value(const struct http_door *d, const char *cookies)
{
    size_t n = strlen(d->cookie);

    while (cookies) {
        cookies += strspn(cookies, "; ");
        if (strncmp(cookies, d->cookie, n) == 0 && cookies[n] == '=') {
            return (struct str){cookies + n + 1, strcspn(cookies + n + 1, "; ")};
        }
        cookies = strchr(cookies, ';');
    }
    return (struct str){"", 0};
}

/* The scheme in whatever case: RFC 9110, 11.1. */
static bool is_bearer(const char *authorization)
{
    static const char scheme[] = "bearer ";
    size_t i = 0;

    while (scheme[i] && (scheme[i] == ' ' ? ' ' : authorization[i] | 0x20) == scheme[i] &&
           (scheme[i] != ' ' || authorization[i] == ' ')) {
        i++;
    }
    return !scheme[i];
}

static struct http_session_proof call_proof(const struct http_door *d,
                                            const struct http_server_call *call)
{
    const char *bearer = http_server_header(call, "Authorization");
    struct http_session_proof proof = {
        .cookie = cookie_value(d, http_server_header(call, "Cookie")),
        .key = str_make(http_server_header(call, "X-Procfleet-Key"))};

    if (bearer && is_bearer(bearer)) {
        proof.bearer = str_make(bearer + 7 + strspn(bearer + 7, " "));
    }
    return proof;
}

static void on_page(void *ctx, struct http_server_call *call)
{
    struct http_door *d = ctx;

    if (!same_site(d, call)) {
        refuse(d, call, HTTP_DOOR_OTHER_SITE, call_user(d, call));
    } else {
        http_question_begin(d->desk, call, 0, NULL);
    }
}

/* The session of a request that is of ours; else it has been answered. */
static bool call_enter(struct http_door *d, struct http_server_call *call, uint64_t *session,
                       struct net_identity *who)
{
    const struct http_session_proof proof = call_proof(d, call);
    const struct net_identity *holder;
    enum err e;

    if (!same_site(d, call)) {
        refuse(d, call, HTTP_DOOR_OTHER_SITE, call_user(d, call));
        return false;
    }
    os_mutex_lock(d->shared->lock);
    e = http_session_enter(d->shared->sessions, &proof, door_now(), session, &holder);
    if (!e) {
        *who = *holder;
    }
    os_mutex_unlock(d->shared->lock);
    if (e) {
        refuse(d, call, e == ERR_FULL ? HTTP_DOOR_TOO_MANY : HTTP_DOOR_NO_SESSION,
               call_user(d, call));
    }
    return e == ERR_OK;
}

static void on_question(void *ctx, struct http_server_call *call)
{
    struct http_door *d = ctx;
    struct net_identity who;
    uint64_t session;

    if (call_enter(d, call, &session, &who)) {
        http_question_begin(d->desk, call, session, &who);
    }
}

/* The inside of a text of JSON. */
static void json_text(char *out, size_t size, const char *text)
{
    char quoted[2 * sizeof((struct net_identity *)0)->name];
    size_t n = 0;

    for (; *text && n + 2 < sizeof quoted; text++) {
        if (*text == '"' || *text == '\\') {
            quoted[n++] = '\\';
        }
        quoted[n++] = *text;
    }
    (void)utf8_clean_json(out, size, quoted, n);
}

static void answer_login(struct http_door *d, struct http_server_call *call,
                         const struct http_session_login *login)
{
    bool https = d->conf.url && strncmp(d->conf.url, "https://", 8) == 0;
    char cookie[200], name[6 * sizeof login->who.name], text[800];
    const struct http_server_pair header = {"Set-Cookie", cookie};

    (void)snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/%s", d->cookie,
                   login->cookie, https ? "; Secure" : "");
    json_text(name, sizeof name, login->who.name);
    (void)snprintf(text, sizeof text,
                   "{\"key\":\"%s\",\"until_ns\":\"%" PRId64 "\",\"name\":\"%s\"}", login->key,
                   login->until_ns, name);
    http_server_answer(call, &(struct http_server_reply){.status = 200,
                                                         .type = JSON_TYPE,
                                                         .headers = &header,
                                                         .n_headers = 1,
                                                         .text = {text, strlen(text)}});
}

static void session_ended(void *ctx, const struct net_identity *who, const char *reason)
{
    door_note(ctx, HTTP_DOOR_END, who, reason, NULL);
}

static void on_login(void *ctx, struct http_server_call *call)
{
    struct http_door *d = ctx;
    const char *type = http_server_header(call, "Content-Type");
    struct http_session_login login;
    struct str ticket = {"", 0};
    enum err e;

    if (!same_site(d, call)) {
        refuse(d, call, HTTP_DOOR_OTHER_SITE, call_user(d, call));
        return;
    }
    if (!type || strncmp(type, JSON_TYPE, strlen(JSON_TYPE)) != 0 ||
        !http_events_member(&ticket, http_server_body(call), "ticket")) {
        http_question_error(call, 400, "INVALID_ARGUMENT",
                            "send a JSON object with the ticket, as application/json", 0);
        return;
    }
    os_mutex_lock(d->shared->lock);
    e = http_session_login(d->shared->sessions, ticket, http_server_address(call), door_now(),
                           &login);
    os_mutex_unlock(d->shared->lock);
    if (e == ERR_ACCESS || e == ERR_FULL) {
        refuse(d, call, e == ERR_FULL ? HTTP_DOOR_TOO_MANY : HTTP_DOOR_WRONG_TICKET,
               call_user(d, call));
        return;
    }
    if (e) {
        http_question_error(call, 503, "UNAVAILABLE", "no memory: ask again", 1);
        return;
    }
    (void)snprintf(login.who.address, sizeof login.who.address, "%s", http_server_address(call));
    if (login.replaces) {
        session_ended(d, &login.replaced, "a newer session took its place");
    }
    door_note(d, HTTP_DOOR_SESSION, &login.who, "login", call_user(d, call));
    answer_login(d, call, &login);
}

static const char *session_kept(void *ctx, const struct net_identity *who)
{
    struct http_door *d = ctx;

    return d->conf.keep ? d->conf.keep(d->conf.ctx, who) : NULL;
}

static void on_logout(void *ctx, struct http_server_call *call)
{
    struct http_door *d = ctx;
    struct net_identity who;
    char cookie[200];
    const struct http_server_pair header = {"Set-Cookie", cookie};
    uint64_t session;

    if (!call_enter(d, call, &session, &who)) {
        return;
    }
    os_mutex_lock(d->shared->lock);
    http_session_logout(d->shared->sessions, session, session_ended, d);
    os_cond_wake_all(d->shared->wake);
    os_mutex_unlock(d->shared->lock);
    (void)snprintf(cookie, sizeof cookie, "%s=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0%s",
                   d->cookie, strncmp(d->cookie, "__Host-", 7) == 0 ? "; Secure" : "");
    http_server_answer(
        call, &(struct http_server_reply){.status = 204, .headers = &header, .n_headers = 1});
}

static void on_root(void *ctx, struct http_server_call *call)
{
    if (strcmp(http_server_path(call), "/") == 0) {
        on_page(ctx, call);
    } else {
        http_question_error(call, 404, "NOT_FOUND", "there is / and /api/v1/", 0);
    }
}

static const struct http_server_route door_routes[] = {
    {"POST", "/api/v1/session", BODY_MAX, on_login},
    {"DELETE", "/api/v1/session", 0, on_logout},
    {"GET", "/api/v1/", 0, on_question},
    {"HEAD", "/api/v1/", 0, on_question},
    {"GET", "/a/", 0, on_page},
    {"HEAD", "/a/", 0, on_page},
    {"GET", "/", 0, on_root},
    {"HEAD", "/", 0, on_root},
};

/* -- our thread: what time does -- */

static void door_tick(void *arg)
{
    struct http_door *d = arg;
    int64_t sweep_ns = 0;

    os_mutex_lock(d->shared->lock);
    while (!d->shared->stopping) {
        struct http_session_now now = door_now();

        if (d->conf.each_second && now.mono_ns - sweep_ns >= SWEEP_NS) {
            os_mutex_unlock(d->shared->lock);
            d->conf.each_second(d->conf.ctx);
            os_mutex_lock(d->shared->lock);
        }
        if (now.mono_ns - sweep_ns >= SWEEP_NS) {
            http_session_sweep(d->shared->sessions, now, session_kept, session_ended, d);
            sweep_ns = now.mono_ns;
        }
        http_question_tick(d->desk, now);
        os_mutex_unlock(d->shared->lock);
        http_question_dispatch(d->desk);
        os_mutex_lock(d->shared->lock);
        if (!d->shared->stopping) {
            err_ignore(os_cond_wait_until(d->shared->wake, os_mono_ns() + TICK_NS));
        }
    }
    os_mutex_unlock(d->shared->lock);
}

/* -- start and stop -- */

/* The host of `url` is one of ours. */
static enum err door_names(struct http_door *d, struct errmsg *why)
{
    const char *host = d->conf.url ? strstr(d->conf.url, "://") : NULL;
    size_t n = host ? strcspn(host + 3, ":/") : 0;

    if (d->conf.n_names > NAMES_MAX || n >= sizeof d->url_host) {
        return errmsg_set(why, ERR_INVALID, "the console has at most %u names", NAMES_MAX);
    }
    for (size_t i = 0; i < d->conf.n_names; i++) {
        d->names[i] = d->conf.names[i];
    }
    if (n > 0) {
        memcpy(d->url_host, host + 3, n);
        d->names[d->conf.n_names++] = d->url_host;
    }
    return ERR_OK;
}

static void question_asked(void *ctx, const struct net_identity *who, const char *path_and_query)
{
    door_note(ctx, HTTP_DOOR_ASKED, who, path_and_query, NULL);
}

static enum err door_open(struct http_door *d, struct errmsg *why)
{
    const struct http_server_conf server = {.address = d->conf.address,
                                            .names = d->names,
                                            .n_names = d->conf.n_names,
                                            .routes = door_routes,
                                            .n_routes = sizeof door_routes / sizeof *door_routes,
                                            .headers = safety,
                                            .n_headers = sizeof safety / sizeof *safety,
                                            .ctx = d,
                                            .keep_alive = true,
                                            .connections = HTTP_DOOR_CONNS,
                                            .per_address = HTTP_DOOR_SAME,
                                            .calls = HTTP_DOOR_QUESTIONS + HTTP_DOOR_SAME};
    const struct http_question_conf desk = {.streams = d->conf.streams,
                                            .life_ns = d->conf.life_ns,
                                            .ask = d->conf.ask,
                                            .asked = question_asked,
                                            .ask_ctx = d->conf.ctx,
                                            .ctx = d};
    bool https = d->conf.url && strncmp(d->conf.url, "https://", 8) == 0;
    enum err e = http_question_open(&d->desk, &desk);

    if (e) {
        return e;
    }
    d->shared = http_question_shared(d->desk);
    e = http_server_start(&d->server, &server, why);
    if (e) {
        return e;
    }
    /* Cookies go to all ports of a host: two doors on it are not to take each other's away. */
    if (https) {
        (void)snprintf(d->cookie, sizeof d->cookie, "__Host-" COOKIE);
    } else {
        (void)snprintf(d->cookie, sizeof d->cookie, COOKIE "_%u", http_server_port(d->server));
    }
    return os_thread_start(&d->thread, "http-door", door_tick, d);
}

enum err http_door_start(struct http_door **out, const struct http_door_conf *conf,
                         struct errmsg *why)
{
    struct http_door *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    d->conf = *conf;
    d->conf.life_ns = conf->life_ns ? conf->life_ns : HTTP_SESSION_LIFE_NS;
    d->conf.streams = conf->streams ? conf->streams : HTTP_DOOR_STREAMS;
    e = http_host_is_loopback(conf->address)
            ? door_names(d, why)
            : errmsg_set(why, ERR_INVALID,
                         "the console listens for this machine alone, at 127.0.0.1, [::1] or "
                         "localhost, not at '%s': where others look on, a proxy with TLS stands "
                         "in front of it",
                         conf->address);
    if (!e) {
        e = door_open(d, why);
    }
    if (e) {
        http_door_stop(d);
        return e;
    }
    *out = d;
    return ERR_OK;
}

void http_door_stop(struct http_door *d)
{
    if (!d) {
        return;
    }
    if (d->server) {
        http_question_stop(d->desk);
        os_thread_join(d->thread);
        http_server_stop(d->server);
    }
    http_question_close(d->desk);
    mem_free(d);
}

unsigned http_door_port(const struct http_door *d)
{
    return http_server_port(d->server);
}

enum err http_door_ticket(struct http_door *d, const struct net_identity *who,
                          char text[HTTP_SESSION_TEXT])
{
    enum err e;

    os_mutex_lock(d->shared->lock);
    e = http_session_ticket(d->shared->sessions, who, door_now(), text);
    os_mutex_unlock(d->shared->lock);
    return e;
}

enum err http_door_tokens(struct http_door *d, struct str text, bool scopes, struct errmsg *why)
{
    enum err e;

    os_mutex_lock(d->shared->lock);
    e = http_session_tokens(d->shared->sessions, text, scopes, why);
    os_mutex_unlock(d->shared->lock);
    return e;
}

enum err http_door_token_file(struct http_door *d, const char *path, bool scopes, uint64_t *seen,
                              bool *changed, struct errmsg *why)
{
    struct errmsg reason = {""};
    uint8_t *p = NULL;
    size_t n = 0;
    enum err e = os_check_private(path);
    bool others = e == ERR_ACCESS;
    uint64_t now;

    if (!e) {
        e = os_read_file(&p, &n, path, TOKENS_BYTES);
    }
    now = hash_bytes(e ? "" : (const char *)p, e ? 0 : n, (uint64_t)e + 1);
    *changed = now != *seen;
    *seen = now;
    if (others) {
        return errmsg_set(why, e, "others can read %s: chmod 600 makes it private", path);
    }
    if (e) {
        return errmsg_set(why, e, "cannot read %s: %s", path, os_read_text(e));
    }
    if (*changed) {
        e = http_door_tokens(d, (struct str){(const char *)p, n}, scopes, &reason);
    }
    mem_free(p);
    return e ? errmsg_set(why, e, "%s, %s", path, reason.text[0] ? reason.text : err_text(e))
             : ERR_OK;
}

void http_door_review(struct http_door *d)
{
    struct http_session_now now = door_now();

    os_mutex_lock(d->shared->lock);
    http_session_sweep(d->shared->sessions, now, session_kept, session_ended, d);
    http_question_tick(d->desk, now);
    os_mutex_unlock(d->shared->lock);
}

void http_door_stats(struct http_door *d, struct http_door_stats *out)
{
    struct http_server_stats server;

    http_server_stats(d->server, &server);
    os_mutex_lock(d->shared->lock);
    *out = (struct http_door_stats){.requests = server.requests, .refused = server.refused};
    memcpy(out->refusals, d->refusals, sizeof out->refusals);
    http_question_count(d->desk, &out->streams, &out->asked);
    out->sessions = http_session_count(d->shared->sessions);
    os_mutex_unlock(d->shared->lock);
}
