#include "collector/forward/post.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define SECRETS_MAX ((size_t)64 << 10)
#define URL_MAX     4096u
#define QUOTED      600

struct post {
    struct post_conf conf;
    struct http_client *http;
    char *password; /* owned */
    bool failing;
    int64_t failing_ns; /* monotonic, since */
    atomic_uint_fast64_t sent, retried, refused, given_up;
};

/* -- secrets -- */

static enum err secrets_read(char **out, const char *path, struct errmsg *why)
{
    uint8_t *p;
    size_t n;
    enum err e = os_check_private(path);

    if (e == ERR_ACCESS) {
        return errmsg_set(why, e, "%s can be read by others: chmod 600 it", path);
    }
    e = e ? e : os_read_file(&p, &n, path, SECRETS_MAX);
    if (e) {
        return errmsg_set(why, e, "%s cannot be read: %s", path, os_read_text(e));
    }
    *out = (char *)p;
    return ERR_OK;
}

static void secrets_free(char *p)
{
    if (p) {
        memset(p, 0, strlen(p));
        mem_free(p);
    }
}

/* Lines "Name: value" become headers that point into the text. */
static enum err headers_split(char *text, struct http_client_header *list, size_t *n,
                              const char *path, struct errmsg *why)
{
    char *line, *rest = text;

    while ((line = rest) != NULL && *line) {
        char *colon;

        rest = strchr(line, '\n');
        if (rest) {
            *rest++ = '\0';
        }
        line[strcspn(line, "\r")] = '\0';
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        colon = strchr(line, ':');
        if (!colon || colon == line || *n == POST_HEADERS_MAX) {
            return errmsg_set(why, ERR_INVALID, "%s: each line must be \"Name: value\", at most %u",
                              path, POST_HEADERS_MAX - 2);
        }
        *colon++ = '\0';
        list[(*n)++] = (struct http_client_header){line, colon + strspn(colon, " \t")};
    }
    return ERR_OK;
}

/* -- open, close -- */

static enum err post_set_password(struct post *p, struct errmsg *why)
{
    const char *file = p->conf.password_file;
    enum err e = file && file[0] ? secrets_read(&p->password, file, why) : ERR_OK;

    if (!e && p->password) {
        p->password[strcspn(p->password, "\r\n")] = '\0';
    }
    p->conf.http.user = p->conf.user;
    p->conf.http.password = p->password;
    return e;
}

enum err post_open(struct post **out, const struct post_conf *conf, struct errmsg *why)
{
    struct post *p = mem_zalloc(sizeof *p);
    char *headers = NULL;
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    p->conf = *conf;
    e = http_client_check_url(conf->url, conf->http.plain, why);
    e = e ? e : post_set_password(p, why);
    if (!e && conf->headers_file && conf->headers_file[0]) {
        struct http_client_header list[POST_HEADERS_MAX];
        size_t n = 2; /* as when it is sent */

        e = secrets_read(&headers, conf->headers_file, why);
        e = e ? e : headers_split(headers, list, &n, conf->headers_file, why);
        secrets_free(headers);
    }
    e = e ? e : http_client_open(&p->http, &p->conf.http, why);
    if (e) {
        post_close(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void post_close(struct post *p)
{
    if (p) {
        http_client_close(p->http);
        secrets_free(p->password);
        mem_free(p);
    }
}

void post_stop(struct post *p)
{
    http_client_stop(p->http);
}

void post_stats(const struct post *p, struct post_stats *out)
{
    *out = (struct post_stats){atomic_load(&p->sent), atomic_load(&p->retried),
                               atomic_load(&p->refused), atomic_load(&p->given_up)};
}

/* -- one attempt -- */

static enum err post_once(struct post *p, const struct post_body *body,
                          struct http_client_reply *reply, struct errmsg *why)
{
    struct http_client_header headers[POST_HEADERS_MAX];
    struct http_client_request q = {.method = "POST",
                                    .headers = headers,
                                    .body = body->p,
                                    .n_body = body->n,
                                    .timeout_ns = p->conf.timeout_ns,
                                    .reply_max = POST_REPLY_MAX};
    char url[URL_MAX], *text = NULL;
    enum err e = ERR_OK;

    if (snprintf(url, sizeof url, "%s%s", p->conf.url, body->path) >= (int)sizeof url) {
        return errmsg_set(why, ERR_INVALID, "the URL is too long");
    }
    q.url = url;
    headers[q.n_headers++] = (struct http_client_header){"Content-Type", body->type};
    if (body->key) {
        headers[q.n_headers++] = (struct http_client_header){"Idempotency-Key", body->key};
    }
    if (p->conf.headers_file && p->conf.headers_file[0]) {
        e = secrets_read(&text, p->conf.headers_file, why);
        e = e ? e : headers_split(text, headers, &q.n_headers, p->conf.headers_file, why);
    }
    e = e ? e : http_client_ask(p->http, &q, reply, why);
    secrets_free(text);
    if (e == ERR_FULL && reply->status) {
        e = ERR_OK; /* whatever it says at such length */
    }
    return e;
}

/* A login page, or the server's pages for people. */
static bool reply_is_page(const struct http_client_reply *reply)
{
    static const char html[] = "text/html";
    struct str type = http_client_header_of(reply, "Content-Type");

    return type.n >= sizeof html - 1 && strncasecmp(type.p, html, sizeof html - 1) == 0;
}

static bool status_is_of_settings(unsigned status)
{
    return status < 400 || (status >= 401 && status <= 405) || status == 407;
}

static enum post_outcome reply_outcome(const struct post *p, const struct http_client_reply *reply,
                                       bool *again)
{
    unsigned status = reply->status;
    bool taken = status >= 200 && status <= 299;

    *again = taken ? p->conf.holds && reply_is_page(reply)
                   : status == 408 || status == 429 || status >= 500 ||
                         (p->conf.holds && status_is_of_settings(status));
    return taken ? POST_TAKEN : POST_REFUSED;
}

static const char *reply_hint(const struct http_client_reply *reply)
{
    unsigned status = reply->status;

    return status == 401 || status == 403 || status == 407
               ? ": it does not take what we show: headers_file, user, cert"
           : status < 300 ? ": it is a web page: check the url"
           : status < 400 ? ": it is elsewhere, redirects are not followed: check the url"
           : status == 404 || status == 405 ? ": nothing takes it there: check the url"
                                            : "";
}

/* Said once, until it is taken again. */
static void post_failed(struct post *p, enum err e, const struct http_client_reply *reply,
                        const struct errmsg *why)
{
    char quoted[QUOTED], text[300];

    atomic_fetch_add(&p->retried, 1);
    if (p->failing) {
        return;
    }
    p->failing = true;
    p->failing_ns = os_mono_ns();
    if (e) {
        (void)snprintf(text, sizeof text, "%s", why->text[0] ? why->text : err_text(e));
    } else {
        (void)snprintf(text, sizeof text, "status %u%s", reply->status, reply_hint(reply));
    }
    log_line(LOG_WARN, "post", "failing", "target=%s trying_again=yes reason=%s", p->conf.name,
             log_str(quoted, sizeof quoted, text));
}

static void post_recovered(struct post *p)
{
    if (p->failing) {
        p->failing = false;
        log_line(LOG_INFO, "post", "taken again", "target=%s after_s=%" PRId64, p->conf.name,
                 (int64_t)((os_mono_ns() - p->failing_ns) / CLK_S));
    }
}

enum err post_send(struct post *p, struct consumer *c, const struct post_body *body,
                   struct consumer_retry *retry, enum post_outcome *outcome,
                   struct http_client_reply *reply)
{
    for (;;) {
        struct errmsg why = {""};
        enum err e = post_once(p, body, reply, &why);

        if (e == ERR_CLOSED || e == ERR_NOMEM) {
            return e;
        }
        if (e && consumer_is_stopped(c)) {
            return ERR_CLOSED;
        }
        if (!e) {
            bool again;

            *outcome = reply_outcome(p, reply, &again);
            if (!again) {
                post_recovered(p);
                atomic_fetch_add(*outcome == POST_TAKEN ? &p->sent : &p->refused, 1);
                return ERR_OK;
            }
        }
        post_failed(p, e, reply, &why);
        if (!consumer_again(c, retry, e ? 0 : reply->retry_after_s)) {
            if (consumer_is_stopped(c)) {
                return ERR_CLOSED;
            }
            atomic_fetch_add(&p->given_up, 1);
            *outcome = POST_GIVEN_UP;
            return ERR_OK;
        }
    }
}
