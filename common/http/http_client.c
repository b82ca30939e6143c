/* Each client has one easy handle in a multi handle of its own. The easy handle alone would do for
 * asking and waiting; the multi handle is there because curl_multi_wakeup is the one thing of
 * libcurl that another thread may call, so that http_client_stop ends a request that waits.
 *
 * curl_global_init is counted by libcurl and, since 7.84, safe on any thread. */
#include "common/http/http_client.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/http/http_host.h"
#include "common/os/os.h"

#define POLL_MS       1000
#define REQUEST_LINE  8192u /* bytes of a header that is sent */
#define PEM_MAX       ((size_t)1 << 20)
#define RETRY_AFTER_S 86400u

struct http_client {
    CURL *easy;
    CURLM *multi;
    bool has_curl;
    char *ca, *cert, *key, *user, *password, *agent;
    bool plain, proxy_of_environment;
    int64_t connect_ns;
    atomic_bool stop;
    char said[CURL_ERROR_SIZE];
};

/* One request under way. */
struct http_client_turn {
    const struct http_client_request *q;
    struct http_client_reply *r;
    CURL *easy;
    size_t n_body;
    enum err bad; /* why it was ended here */
};

/* -- open, close -- */

static enum err client_copy(char **out, const char *text)
{
    if (!text || !text[0]) {
        return ERR_OK;
    }
    *out = mem_strdup(text);
    return *out ? ERR_OK : ERR_NOMEM;
}

/* libcurl would say less, and only when it connects. */
static enum err client_check_file(const char *what, const char *path, struct errmsg *why)
{
    uint8_t *p;
    size_t n;
    enum err e;

    if (!path) {
        return ERR_OK;
    }
    e = os_read_file(&p, &n, path, PEM_MAX);
    if (e) {
        return errmsg_set(why, e == ERR_INVALID || e == ERR_FULL || e == ERR_TIMEOUT ? ERR_IO : e,
                          "%s %s cannot be read: %s", what, path, os_read_text(e));
    }
    e = strstr((char *)p, "-----BEGIN ") ? ERR_OK
                                         : errmsg_set(why, ERR_INVALID,
                                                      "%s %s is no PEM file: it has no line "
                                                      "\"-----BEGIN …\"",
                                                      what, path);
    memset(p, 0, n);
    mem_free(p);
    return e;
}

static enum err client_configure(struct http_client *c, const struct http_client_conf *conf,
                                 struct errmsg *why)
{
    enum err e = client_copy(&c->ca, conf->ca);

    c->plain = conf->plain;
    c->proxy_of_environment = conf->proxy_of_environment;
    c->connect_ns = conf->connect_ns ? conf->connect_ns : HTTP_CLIENT_CONNECT_NS;
    e = e ? e : client_copy(&c->cert, conf->cert);
    e = e ? e : client_copy(&c->key, conf->key);
    e = e ? e : client_copy(&c->user, conf->user);
    e = e ? e : client_copy(&c->password, conf->password);
    e = e ? e
          : client_copy(&c->agent, conf->agent && conf->agent[0] ? conf->agent
                                                                 : "procfleet/" PROCFLEET_VERSION);
    if (!e && !c->cert != !c->key) {
        e = errmsg_set(why, ERR_INVALID, "a client certificate and its key go together: one of %s",
                       "them is missing");
    }
    e = e ? e : client_check_file("the certificate of the authority", c->ca, why);
    e = e ? e : client_check_file("the client certificate", c->cert, why);
    return e ? e : client_check_file("the key of the client certificate", c->key, why);
}

enum err http_client_open(struct http_client **out, const struct http_client_conf *conf,
                          struct errmsg *why)
{
    struct http_client *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    e = client_configure(c, conf, why);
    if (!e) {
        c->has_curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
        c->easy = c->has_curl ? curl_easy_init() : NULL;
        c->multi = c->easy ? curl_multi_init() : NULL;
        e = c->multi ? ERR_OK : ERR_NOMEM;
    }
    if (e) {
        http_client_close(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

static void client_forget(char *secret)
{
    if (secret) {
        memset(secret, 0, strlen(secret));
        mem_free(secret);
    }
}

void http_client_close(struct http_client *c)
{
    if (!c) {
        return;
    }
    curl_easy_cleanup(c->easy);
    curl_multi_cleanup(c->multi);
    if (c->has_curl) {
        curl_global_cleanup();
    }
    mem_free(c->ca);
    mem_free(c->cert);
    mem_free(c->key);
    mem_free(c->user);
    client_forget(c->password);
    mem_free(c->agent);
    mem_free(c);
}

void http_client_stop(struct http_client *c)
{
    atomic_store(&c->stop, true);
    curl_multi_wakeup(c->multi);
}

/* -- where requests may go -- */

/* Scheme, host and port: what follows them is often a secret. */
static int client_origin(const char *url)
{
    const char *host = strstr(url, "://");
    size_t before = host ? (size_t)(host + 3 - url) : 0;

    return (int)(before + strcspn(url + before, "/?#"));
}

static enum err client_check_parts(const char *scheme, const char *host, const char *user,
                                   bool plain, const char *url, struct errmsg *why)
{
    if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
        return errmsg_set(why, ERR_INVALID, "%.*s: only http:// and https:// are possible",
                          client_origin(url), url);
    }
    if (user) {
        return errmsg_set(why, ERR_INVALID,
                          "a URL must not have a user or a password in it: they have settings of "
                          "their own");
    }
    if (strcmp(scheme, "http") == 0 && !plain) {
        char local[HTTP_HOST_MAX + 8];

        snprintf(local, sizeof local, "%s:1", host);
        if (!http_host_is_loopback(local)) {
            return errmsg_set(why, ERR_INVALID,
                              "%.*s: plain http is for this machine only, anybody on the way "
                              "can read and change it; use https://",
                              client_origin(url), url);
        }
    }
    return ERR_OK;
}

enum err http_client_check_url(const char *url, bool plain, struct errmsg *why)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *user = NULL;
    enum err e = ERR_OK;

    if (!u) {
        return ERR_NOMEM;
    }
    if (strlen(url) > REQUEST_LINE ||
        curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK || !host[0]) {
        e = errmsg_set(why, ERR_INVALID, "%.*s… is no URL such as https://host:port/path",
                       client_origin(url) < 200 ? client_origin(url) : 200, url);
    } else {
        (void)curl_url_get(u, CURLUPART_USER, &user, 0);
        e = client_check_parts(scheme, host, user, plain, url, why);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    curl_url_cleanup(u);
    return e;
}

/* -- what comes -- */

void http_client_reply_init(struct http_client_reply *r)
{
    *r = (struct http_client_reply){.status = 0};
    buf_init(&r->body, 0);
    buf_init(&r->headers, HTTP_CLIENT_HEADERS_MAX);
}

void http_client_reply_fini(struct http_client_reply *r)
{
    buf_fini(&r->body);
    buf_fini(&r->headers);
}

static size_t client_body(char *p, size_t one, size_t n, void *ctx)
{
    struct http_client_turn *t = ctx;
    long status = 0;

    (void)one; /* 1, says libcurl */
    if (n > t->q->reply_max - t->n_body) {
        t->bad = ERR_FULL;
        return 0;
    }
    t->n_body += n;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (t->q->take && status >= 200 && status < 300) {
        t->bad = t->q->take(t->q->take_ctx, p, n);
    } else {
        buf_put(&t->r->body, p, n);
        t->bad = t->r->body.bad;
    }
    return t->bad ? 0 : n;
}

static size_t client_header(char *p, size_t one, size_t n, void *ctx)
{
    struct http_client_turn *t = ctx;

    (void)one;
    if (n >= 5 && memcmp(p, "HTTP/", 5) == 0) { /* a new reply, behind a 100 */
        buf_reset(&t->r->headers);
        return n;
    }
    buf_put(&t->r->headers, p, n);
    t->bad = t->r->headers.bad;
    return t->bad ? 0 : n;
}

struct str http_client_header_of(const struct http_client_reply *r, const char *name)
{
    const char *p = (const char *)r->headers.p, *end = p ? p + r->headers.n : p;
    size_t n = strlen(name);

    while (p && p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        const char *to = line_end ? line_end : end;

        if ((size_t)(to - p) > n && p[n] == ':' && strncasecmp(p, name, n) == 0) {
            struct str s = {p + n + 1, (size_t)(to - p) - n - 1};

            while (s.n && (s.p[s.n - 1] == '\r' || s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) {
                s.n--;
            }
            while (s.n && (*s.p == ' ' || *s.p == '\t')) {
                s.p++;
                s.n--;
            }
            return s;
        }
        p = to + 1;
    }
    return (struct str){"", 0};
}

/* -- asking -- */

static bool client_is_token(const char *s)
{
    for (const char *p = s; *p; p++) {
        if (!(*p > ' ' && *p < 0x7f) || strchr("()<>@,;:\\\"/[]?={}", *p)) {
            return false;
        }
    }
    return s[0] != '\0';
}

static enum err client_headers(struct curl_slist **out, const struct http_client_request *q,
                               struct errmsg *why)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"); /* no waiting for a 100 */
    enum err e = list ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !e && i < q->n_headers; i++) {
        const struct http_client_header *h = &q->headers[i];
        struct curl_slist *more;
        char *line;
        size_t n;

        if (!client_is_token(h->name) || h->value[strcspn(h->value, "\r\n")] ||
            strlen(h->name) + strlen(h->value) > REQUEST_LINE) {
            e = errmsg_set(why, ERR_INVALID, "\"%.64s\" is no header that could be sent", h->name);
            break;
        }
        n = strlen(h->name) + strlen(h->value) + 3;
        line = mem_alloc(n);
        if (!line) {
            e = ERR_NOMEM;
            break;
        }
        /* with nothing behind it a header would be taken away: ';' sends it empty */
        snprintf(line, n, h->value[0] ? "%s: %s" : "%s;", h->name, h->value);
        more = curl_slist_append(list, line);
        memset(line, 0, n); /* it may be a secret */
        mem_free(line);
        e = more ? ERR_OK : ERR_NOMEM;
    }
    if (e) {
        curl_slist_free_all(list);
        return e;
    }
    *out = list;
    return ERR_OK;
}

static enum err client_set_method(CURL *h, const struct http_client_request *q, struct errmsg *why)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "HEAD"};
    bool body = strcmp(q->method, "POST") == 0 || strcmp(q->method, "PUT") == 0;
    bool known = false;

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        known = known || strcmp(q->method, methods[i]) == 0;
    }
    if (!known || (!body && q->n_body)) {
        return errmsg_set(why, ERR_INVALID, "%.16s is no method for this request", q->method);
    }
    if (body) {
        curl_easy_setopt(h, CURLOPT_POST, 1L);
        curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->n_body);
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, q->n_body ? q->body : "");
    } else if (strcmp(q->method, "HEAD") == 0) {
        curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
    }
    return curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, q->method) ? ERR_NOMEM : ERR_OK;
}

/* libcurl copies texts: what fails is memory. */
static enum err client_set(struct http_client *c, struct http_client_turn *t,
                           struct curl_slist *headers)
{
    const struct http_client_request *q = t->q;
    CURL *h = c->easy;
    int64_t timeout_ns = q->timeout_ns ? q->timeout_ns : HTTP_CLIENT_TIMEOUT_NS;
    int64_t connect_ns = c->connect_ns < timeout_ns ? c->connect_ns : timeout_ns;
    CURLcode bad = CURLE_OK;

#define SET(option, value) bad = bad ? bad : curl_easy_setopt(h, option, value)
    SET(CURLOPT_ERRORBUFFER, c->said);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* of the thread that asks for a name */
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_URL, q->url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, c->agent);
    SET(CURLOPT_TIMEOUT_MS, (long)(timeout_ns / CLK_MS > 0 ? timeout_ns / CLK_MS : 1));
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / CLK_MS > 0 ? connect_ns / CLK_MS : 1));
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (!c->proxy_of_environment) {
        SET(CURLOPT_PROXY, "");
    }
    if (c->ca) {
        SET(CURLOPT_CAINFO, c->ca);
        SET(CURLOPT_CAPATH, NULL);
    }
    if (c->cert) {
        SET(CURLOPT_SSLCERT, c->cert);
        SET(CURLOPT_SSLKEY, c->key);
    }
    if (c->user) {
        SET(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        SET(CURLOPT_USERNAME, c->user);
        SET(CURLOPT_PASSWORD, c->password ? c->password : "");
    }
    SET(CURLOPT_WRITEFUNCTION, client_body);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_HEADERFUNCTION, client_header);
    SET(CURLOPT_HEADERDATA, t);
#undef SET
    return bad ? ERR_NOMEM : ERR_OK;
}

/* -- what went wrong -- */

static const struct {
    CURLcode code;
    enum err e;
    const char *remedy;
} client_causes[] = {
    {CURLE_COULDNT_RESOLVE_HOST, ERR_UNREACHABLE,
     "check the name in the URL and this machine's DNS"},
    {CURLE_COULDNT_RESOLVE_PROXY, ERR_UNREACHABLE, "check the name of the proxy"},
    {CURLE_COULDNT_CONNECT, ERR_UNREACHABLE, "check that the server runs, its port, and firewalls"},
    {CURLE_SEND_ERROR, ERR_UNREACHABLE, "the connection broke while it was asked"},
    {CURLE_RECV_ERROR, ERR_UNREACHABLE, "the connection broke before its reply"},
    {CURLE_GOT_NOTHING, ERR_UNREACHABLE, "the server closed the connection without a reply"},
    {CURLE_PARTIAL_FILE, ERR_UNREACHABLE, "the connection broke within its reply"},
    {CURLE_OPERATION_TIMEDOUT, ERR_TIMEOUT, "check the server's load, or set a longer timeout"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_TRUST,
     "name the authority that issued the server's "
     "certificate, and the server as that has it"},
    {CURLE_SSL_CACERT_BADFILE, ERR_TRUST,
     "the file of the authority has no certificate that can be read"},
    {CURLE_SSL_CERTPROBLEM, ERR_TRUST, "check the client certificate and that its key fits"},
    {CURLE_SSL_CONNECT_ERROR, ERR_TRUST,
     "check that the server speaks TLS "
     "on this port and takes our certificate"},
    {CURLE_WEIRD_SERVER_REPLY, ERR_CORRUPT, "what answers there is no HTTP server"},
    {CURLE_UNSUPPORTED_PROTOCOL, ERR_CORRUPT, "what answers there is no HTTP/1.1 server"},
    {CURLE_URL_MALFORMAT, ERR_INVALID, "it must be such as https://host:port/path"},
    {CURLE_OUT_OF_MEMORY, ERR_NOMEM, "free some memory"},
};

static enum err client_failed(const struct http_client *c, const struct http_client_turn *t,
                              CURLcode code, struct errmsg *why)
{
    const char *url = t->q->url;
    int n = client_origin(url);
    const char *said = c->said[0] ? c->said : curl_easy_strerror(code);

    if (t->bad == ERR_FULL) {
        return errmsg_set(why, ERR_FULL,
                          "%.*s: its reply is larger than the %zu bytes that are read", n, url,
                          t->r->headers.bad ? HTTP_CLIENT_HEADERS_MAX : t->q->reply_max);
    }
    if (t->bad) {
        return t->bad;
    }
    for (size_t i = 0; i < sizeof client_causes / sizeof *client_causes; i++) {
        if (client_causes[i].code == code) {
            return errmsg_set(why, client_causes[i].e, "%.*s: %s; %s", n, url, said,
                              client_causes[i].remedy);
        }
    }
    return errmsg_set(why, ERR_UNREACHABLE, "%.*s: %s", n, url, said);
}

static void client_retry_after(struct http_client_reply *r, CURL *h)
{
    curl_off_t wait = 0;

    if (curl_easy_getinfo(h, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0) {
        r->retry_after_s = wait < (curl_off_t)RETRY_AFTER_S ? (uint32_t)wait : RETRY_AFTER_S;
    }
}

/* Drives the transfer to its end. */
static CURLcode client_drive(struct http_client *c, bool *stopped)
{
    int running = 1;
    CURLMcode m = curl_multi_add_handle(c->multi, c->easy);

    while (!m && running && !atomic_load(&c->stop)) {
        m = curl_multi_perform(c->multi, &running);
        if (!m && running) {
            m = curl_multi_poll(c->multi, NULL, 0, POLL_MS, NULL);
        }
    }
    *stopped = running && atomic_load(&c->stop);
    if (!m && !running) {
        int left;
        CURLMsg *msg = curl_multi_info_read(c->multi, &left);

        return msg && msg->msg == CURLMSG_DONE ? msg->data.result : CURLE_RECV_ERROR;
    }
    return m ? CURLE_OUT_OF_MEMORY : CURLE_ABORTED_BY_CALLBACK;
}

static enum err client_run(struct http_client *c, struct http_client_turn *t, struct errmsg *why)
{
    bool stopped = false;
    long status = 0;
    CURLcode code;

    c->said[0] = '\0';
    code = client_drive(c, &stopped);
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    client_retry_after(t->r, c->easy);
    curl_multi_remove_handle(c->multi, c->easy);
    if (stopped) {
        return errmsg_set(why, ERR_CLOSED, "stopped");
    }
    if (code) {
        t->r->status = t->bad == ERR_FULL && status >= 200 && status <= 599 ? (unsigned)status : 0;
        return client_failed(c, t, code, why);
    }
    if (status < 200 || status > 599) {
        return errmsg_set(why, ERR_CORRUPT,
                          "%.*s: its reply has the status %ld, which is none of HTTP's",
                          client_origin(t->q->url), t->q->url, status);
    }
    t->r->status = (unsigned)status;
    return ERR_OK;
}

enum err http_client_ask(struct http_client *c, const struct http_client_request *q,
                         struct http_client_reply *r, struct errmsg *why)
{
    struct http_client_turn t = {.q = q, .r = r, .easy = c->easy};
    struct curl_slist *headers;
    enum err e = http_client_check_url(q->url, c->plain, why);

    r->status = 0;
    r->retry_after_s = 0;
    r->body.max = q->reply_max;
    buf_reset(&r->body);
    buf_reset(&r->headers);
    if (e) {
        return e;
    }
    e = client_headers(&headers, q, why);
    if (e) {
        return e;
    }
    curl_easy_reset(c->easy); /* keeps connections, sessions and names */
    e = client_set_method(c->easy, q, why);
    e = e ? e : client_set(c, &t, headers);
    e = e ? e : client_run(c, &t, why);
    curl_easy_reset(c->easy); /* what is borrowed ends here */
    curl_slist_free_all(headers);
    return e;
}
