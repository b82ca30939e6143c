/* The console in a browser of this machine: the collector's page and answers, relayed with the
 * operator's certificate. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cli/cli.h"
#include "collector/cli/cli_client.h"
#include "common/base/mem.h"
#include "common/http/http_door.h"
#include "common/os/os.h"
#include "common/text/jsonw.h"
#include "common/wire/wire_web.h"

/* -- the relay -- */

/* Asks the collector what a browser asks us: requests of the console as calls of Query/Web, with
 * the certificate of the settings. A lost connection is made again by itself; meanwhile everything
 * is answered 503 with the reason.
 *
 * Bounds:  CONSOLE_RELAY_CALLS questions under way at once, as the collector's listener wants it,
 *          and as many of /api/v1/updates, which wait there, on a connection of their own. As many
 *          as http_door.h lets through wait here.
 * Threads: one for each of these calls. */

#define CONSOLE_RELAY_CALLS 4u

#define UPDATES     "/api/v1/updates"
#define WAIT_MAX_NS (25 * CLK_S)   /* of an update */
#define LOST_NS     (500 * CLK_MS) /* for a connection that is made just now */
#define REQUEST_MAX ((size_t)32 << 10)
#define REPLY_MAX   ((size_t)4 << 20)

/* A question that waits for a thread. */
struct asked {
    struct asked *next;
    struct buf request;
    bool api;
    http_ask_done done;
    void *done_ctx;
};

/* A connection, the threads that ask over it, and what waits for them. */
struct line {
    struct console_relay *relay;
    struct cli_client *client;
    int64_t timeout_ns;
    struct asked *first, **last; /* guarded by the relay's lock */
    struct os_thread *threads[CONSOLE_RELAY_CALLS];
};

struct console_relay {
    const struct cli *cli;
    struct os_mutex *lock; /* guards the queues and what follows */
    struct os_cond *wake;
    bool stopping;
    struct line questions, updates;
};

/* -- answers of our own -- */

static void answer_text(const struct asked *a, unsigned status, const char *code,
                        const char *message, uint32_t retry_s)
{
    struct http_ask_answer answer = {.status = status, .retry_after_s = retry_s};
    struct jsonw j;
    struct buf text;

    buf_init(&text, REQUEST_MAX);
    if (a->api) {
        jsonw_init_buf(&j, &text);
        j.compact = true;
        jsonw_object(&j, NULL);
        jsonw_text(&j, "code", str_make(code));
        jsonw_text(&j, "message", str_make(message));
        jsonw_text(&j, "details", str_make(""));
        jsonw_end(&j);
        answer.type = str_make("application/json");
    } else {
        buf_printf(&text, "%s\n", message);
        answer.type = str_make("text/plain; charset=utf-8");
    }
    answer.body = (struct str){(const char *)text.p, text.n};
    a->done(a->done_ctx, &answer);
    buf_fini(&text);
}

/* What the collector, or the way to it, says instead of an answer. */
static unsigned refusal_status(const struct line *line, enum err e, const struct rpc_result *result)
{
    if (cli_client_is_refused(line->client)) {
        return 401;
    }
    if (e == ERR_TIMEOUT) {
        return 504;
    }
    if (e != ERR_REFUSED) {
        return 503;
    }
    switch (result->code) {
    case RPC_INVALID_ARGUMENT:
        return 400;
    case RPC_UNAUTHENTICATED:
        return 401;
    case RPC_PERMISSION_DENIED:
        return 403;
    case RPC_NOT_FOUND:
        return 404;
    case RPC_RESOURCE_EXHAUSTED:
        return 429;
    case RPC_UNIMPLEMENTED:
        return 501;
    case RPC_DEADLINE_EXCEEDED:
        return 504;
    default:
        return 503;
    }
}

static const char *status_code(unsigned status)
{
    switch (status) {
    case 400:
        return "INVALID_ARGUMENT";
    case 401:
        return "UNAUTHENTICATED";
    case 403:
        return "PERMISSION_DENIED";
    case 404:
        return "NOT_FOUND";
    case 429:
        return "RESOURCE_EXHAUSTED";
    case 501:
        return "UNIMPLEMENTED";
    case 504:
        return "DEADLINE_EXCEEDED";
    default:
        return "UNAVAILABLE";
    }
}

static void answer_refusal(const struct line *line, const struct asked *a, enum err e,
                           const struct rpc_result *result, const struct errmsg *why)
{
    unsigned status = refusal_status(line, e, result);

    answer_text(a, status, status_code(status), why->text[0] ? why->text : err_text(e),
                status == 429 || status == 503 ? 1 + result->retry_after_ms / 1000 : 0);
}

static void answer_reply(const struct asked *a, const struct buf *reply)
{
    struct wire_web_reply *web;
    enum err e = wire_web_reply_decode(&web, reply->p, reply->n);

    if (e) {
        answer_text(a, 503, "UNAVAILABLE", "the collector's answer cannot be read", 0);
        return;
    }
    a->done(a->done_ctx, &(struct http_ask_answer){.status = web->status,
                                                   .type = web->type,
                                                   .encoding = web->encoding,
                                                   .etag = web->etag,
                                                   .body = web->body,
                                                   .immutable = web->immutable,
                                                   .retry_after_s = web->retry_after_s});
    wire_web_reply_free(web);
}

/* -- threads -- */

static void relay_ask(struct line *line, const struct asked *a)
{
    const struct cli_client_request q = {RPC_QUERY_WEB, a->request.p, a->request.n,
                                         line->timeout_ns, NULL};
    struct rpc_result result = {.code = RPC_OK};
    struct errmsg why = {""};
    struct buf reply;
    enum err e = cli_client_ready(line->client, LOST_NS, &why);

    buf_init(&reply, REPLY_MAX);
    if (!e) {
        e = cli_client_call(line->client, &q, &reply, &result, &why);
    } else if (e == ERR_TIMEOUT) {
        e = ERR_UNREACHABLE;
    }
    if (e) {
        answer_refusal(line, a, e, &result, &why);
    } else {
        answer_reply(a, &reply);
    }
    buf_fini(&reply);
}

static struct asked *line_next(struct line *line)
{
    struct console_relay *r = line->relay;
    struct asked *a;

    os_mutex_lock(r->lock);
    while (!line->first && !r->stopping) {
        os_cond_wait(r->wake);
    }
    a = line->first;
    if (a) {
        line->first = a->next;
        line->last = line->first ? line->last : &line->first;
    }
    os_mutex_unlock(r->lock);
    return a;
}

static void line_work(void *arg)
{
    struct line *line = arg;
    struct asked *a;

    while ((a = line_next(line)) != NULL) {
        relay_ask(line, a); /* at once and in vain when we stop */
        buf_fini(&a->request);
        mem_free(a);
    }
}

/* `ask` and `keep` of http_door_conf, with the relay as ctx. */
static void console_relay_ask(void *ctx, const struct http_ask_question *q, http_ask_done done,
                              void *done_ctx)
{
    const struct wire_web_request web = {.path = q->path,
                                         .query = q->query,
                                         .accept = q->accept,
                                         .accept_encoding = q->accept_encoding,
                                         .if_none_match = q->if_none_match};
    struct console_relay *r = ctx;
    struct line *line = str_eq(q->path, str_make(UPDATES)) ? &r->updates : &r->questions;
    struct asked *a = mem_zalloc(sizeof *a), none = {.done = done, .done_ctx = done_ctx};
    enum err e = a ? ERR_OK : ERR_NOMEM;

    none.api = q->path.n > 5 && memcmp(q->path.p, "/api/", 5) == 0;
    if (!e) {
        *a = none;
        buf_init(&a->request, REQUEST_MAX);
        e = wire_web_request_encode(&a->request, &web);
    }
    if (e) {
        if (a) {
            buf_fini(&a->request);
            mem_free(a);
        }
        answer_text(&none, 503, "UNAVAILABLE", err_text(e), 1);
        return;
    }
    os_mutex_lock(r->lock);
    *line->last = a;
    line->last = &a->next;
    os_cond_wake_all(r->wake);
    os_mutex_unlock(r->lock);
}

/* The collector refuses the certificate that we ask with: nobody may ask here any more. */
static const char *console_relay_keep(void *ctx, const struct net_identity *who)
{
    const struct console_relay *r = ctx;

    (void)who;
    return cli_client_is_refused(r->questions.client) ? "the collector refuses the certificate"
                                                      : NULL;
}

static void console_relay_identity(const struct console_relay *r, struct net_identity *out)
{
    cli_client_identity(r->questions.client, out);
}

/* -- start and stop -- */

static enum err line_start(struct line *line, struct console_relay *r, int64_t timeout_ns,
                           int *code)
{
    enum err e;

    line->relay = r;
    line->timeout_ns = timeout_ns < RPC_TIMEOUT_MAX_NS ? timeout_ns : RPC_TIMEOUT_MAX_NS;
    line->last = &line->first;
    e = cli_client_open(&line->client, r->cli, code);
    for (size_t i = 0; i < CONSOLE_RELAY_CALLS && !e; i++) {
        e = os_thread_start(&line->threads[i], "relay", line_work, line);
        if (e) {
            *code = cli_fail(r->cli, CLI_FAILED, "%s", err_text(e));
        }
    }
    return e;
}

static void line_stop(struct line *line)
{
    if (line->client) {
        cli_client_hang_up(line->client);
    }
    for (size_t i = 0; i < CONSOLE_RELAY_CALLS; i++) {
        os_thread_join(line->threads[i]);
    }
    cli_client_close(line->client);
}

/* What waits is answered 503. After the door has stopped. NULL is allowed. */
static void console_relay_stop(struct console_relay *r)
{
    if (!r) {
        return;
    }
    if (r->wake) {
        os_mutex_lock(r->lock);
        r->stopping = true;
        os_cond_wake_all(r->wake);
        os_mutex_unlock(r->lock);
        line_stop(&r->questions);
        line_stop(&r->updates);
    }
    os_cond_destroy(r->wake);
    os_mutex_destroy(r->lock);
    mem_free(r);
}

/* Connects. On failure *code is the exit code and the reason has been printed. c: borrowed until
 * console_relay_stop. */
static enum err console_relay_start(struct console_relay **out, const struct cli *c, int *code)
{
    struct console_relay *r = mem_zalloc(sizeof *r);
    enum err e = r ? os_mutex_create(&r->lock) : ERR_NOMEM;

    *code = CLI_FAILED;
    if (!e) {
        r->cli = c;
        e = os_cond_create(&r->wake, r->lock);
    }
    if (e) {
        *code = cli_fail(c, CLI_FAILED, "%s", err_text(e));
    }
    if (!e) {
        e = line_start(&r->questions, r, c->settings.timeout_ns, code);
    }
    if (!e) {
        e = line_start(&r->updates, r, c->settings.timeout_ns + WAIT_MAX_NS, code);
    }
    if (e) {
        console_relay_stop(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

/* -- the command -- */

#define LISTEN          "127.0.0.1:7426"
#define LIFE_MIN_NS     CLK_S
#define LIFE_MAX_NS     (7 * 24 * 60 * 60 * CLK_S)
#define LOOK_NS         (100 * CLK_MS)
#define TOKENS_NS       CLK_S /* how often the file of tokens is looked at */
#define STREAMS         CONSOLE_RELAY_CALLS
#define LINK_MAX        400u
#define OPENED_NS       (5 * CLK_S) /* until a browser has read what it was opened with */
#define LINK_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.-_#=[]"

static const struct opt opts[] = {
    {"listen", 0, "ADDRESS:PORT", "where the browser finds it, on this machine (" LISTEN ")", 0},
    {"no-open", 0, NULL, "print the link only", 0},
    {"direct", 0, NULL, "a link to the collector's own console (listen.console), and no relay", 0},
    {"for", 0, "SPAN", "longest time that a login lasts (12h)", 0},
    {"token-file", 0, "FILE", "tokens of programs that may ask: lines of 'NAME TOKEN'", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "console",
    .brief = "the fleet in a browser of this machine",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet console\n"
        "  procfleet console --no-open --listen 127.0.0.1:0\n"
        "\n"
        "It relays the collector's own page with the certificate of the command line, until "
        "Ctrl-C. The link\n"
        "works once, within a minute; Enter makes another. Programs ask /api/v1 with "
        "'Authorization: Bearer TOKEN'.\n",
};

struct console {
    struct cli *c;
    struct console_relay *relay;
    struct http_door *door;
    char address[300];    /* of the page */
    char *link_file;      /* what the browser was opened with; NULL: nothing */
    uint64_t tokens_seen; /* hash of the file as it was read last, or of why it could not be */
};

static atomic_bool stop_asked;
static atomic_uint links_asked;
static struct os_thread *reader; /* neither joined nor left: nothing ends a read of a terminal */

static void on_stop(void *arg)
{
    (void)arg;
    atomic_store(&stop_asked, true);
}

/* Enter, until there is no more input. */
static void read_enters(void *arg)
{
    char text[256];
    size_t n;

    (void)arg;
    while ((n = os_read_input(text, sizeof text)) > 0) {
        if (memchr(text, '\n', n)) {
            atomic_fetch_add(&links_asked, 1);
        }
    }
}

/* -- links -- */

static void link_file_remove(struct console *s)
{
    if (s->link_file) {
        err_ignore(os_remove(s->link_file));
        mem_free(s->link_file);
        s->link_file = NULL;
    }
}

/* The link in a file that nobody else can read: others see the command lines of browsers. */
static enum err link_file_write(struct console *s, const char *link)
{
    static const char *const places[] = {"XDG_RUNTIME_DIR", "TMPDIR", "TEMP"};
    const char *dir = NULL;
    char name[64], page[LINK_MAX + 200];
    uint64_t random;
    enum err e = os_random(&random, sizeof random);

    for (size_t i = 0; i < sizeof places / sizeof *places && (!dir || !dir[0]); i++) {
        dir = getenv(places[i]);
    }
    (void)snprintf(name, sizeof name, "procfleet-%016llx.html", (unsigned long long)random);
    (void)snprintf(page, sizeof page,
                   "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">", link);
    if (!e) {
        s->link_file = os_path_join(dir && dir[0] ? dir : "/tmp", name);
        e = s->link_file ? os_write_file(s->link_file, page, strlen(page), true) : ERR_NOMEM;
    }
    return e;
}

static void link_open(struct console *s, const char *link)
{
    link_file_remove(s);
    if (link_file_write(s, link) != ERR_OK || os_open_in_browser(s->link_file) != ERR_OK) {
        cli_tell(s->c, "no browser can be opened here: open the link yourself");
        link_file_remove(s);
    }
}

static enum err link_make(struct console *s)
{
    struct net_identity who;
    char ticket[HTTP_SESSION_TEXT], link[LINK_MAX];
    const char *refused;
    enum err e;

    console_relay_identity(s->relay, &who);
    refused = console_relay_keep(s->relay, &who);
    e = refused ? ERR_ACCESS : http_door_ticket(s->door, &who, ticket);
    if (e) {
        cli_tell(s->c, "no link: %s", refused ? refused : err_text(e));
        return e;
    }
    (void)snprintf(link, sizeof link, "%s/#ticket=%s", s->address, ticket);
    printf("%s\n", link);
    fflush(stdout);
    if (!opt_flag(s->c->args, "no-open")) {
        link_open(s, link);
    }
    return ERR_OK;
}

/* The link to the collector's own door. */
static int link_direct(struct console *s)
{
    const struct wire_web_request ask = {.path = str_make("/")};
    struct wire_web_reply *web = NULL;
    char link[LINK_MAX] = "";
    struct buf request, reply;
    int code;

    buf_init(&request, 1024);
    buf_init(&reply, 4096);
    err_ignore(wire_web_request_encode(&request, &ask)); /* request.bad tells */
    code = cli_client_once(s->c, RPC_QUERY_CONSOLE_TICKET, &request, &reply);
    if (code == CLI_OK && wire_web_reply_decode(&web, reply.p, reply.n) == ERR_OK) {
        (void)snprintf(link, sizeof link, "%.*s", (int)web->body.n, web->body.p);
    }
    wire_web_reply_free(web);
    buf_fini(&request);
    buf_fini(&reply);
    if (code == CLI_OK && strspn(link, LINK_CHARACTERS) != strlen(link)) {
        return cli_fail(s->c, CLI_FAILED, "the collector's answer is no link");
    }
    if (code == CLI_OK) {
        printf("%s\n", link);
        fflush(stdout);
        if (!opt_flag(s->c->args, "no-open")) {
            link_open(s, link);
            os_sleep_ns(OPENED_NS);
            link_file_remove(s);
        }
    }
    return code;
}

/* -- the door -- */

static enum err read_tokens(struct console *s, bool *changed, struct errmsg *why)
{
    const char *path = opt_value(s->c->args, "token-file");

    *changed = false;
    return path ? http_door_token_file(s->door, path, false, &s->tokens_seen, changed, why)
                : ERR_OK;
}

/* Whoever took a token out of the file wants it to end now. */
static void tokens_again(struct console *s)
{
    struct errmsg why = {""};
    bool changed;
    enum err e = read_tokens(s, &changed, &why);

    if (changed && e) {
        cli_tell(s->c, "the tokens in use stay: %s", why.text);
    } else if (changed) {
        cli_tell(s->c, "the tokens were read again");
    }
}

static enum err read_life(const struct cli *c, int64_t *life_ns, struct errmsg *why)
{
    const char *text = opt_value(c->args, "for");

    *life_ns = HTTP_SESSION_LIFE_NS;
    if (text && (clk_parse_span(life_ns, text) != ERR_OK || *life_ns < LIFE_MIN_NS ||
                 *life_ns > LIFE_MAX_NS)) {
        return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time from 1s to 7d", text);
    }
    return ERR_OK;
}

static enum err door_open(struct console *s, int64_t life_ns, struct errmsg *why)
{
    const char *listen = opt_value(s->c->args, "listen");
    const struct http_door_conf conf = {.address = listen ? listen : LISTEN,
                                        .life_ns = life_ns,
                                        .streams = STREAMS,
                                        .ask = console_relay_ask,
                                        .keep = console_relay_keep,
                                        .ctx = s->relay};
    enum err e = http_door_start(&s->door, &conf, why);
    bool changed;

    if (!e) {
        (void)snprintf(s->address, sizeof s->address, "http://%.*s:%u",
                       (int)(strrchr(conf.address, ':') - conf.address), conf.address,
                       http_door_port(s->door));
        e = read_tokens(s, &changed, why);
    }
    return e;
}

static void console_serve(struct console *s)
{
    unsigned made = atomic_load(&links_asked);
    int64_t look_ns = os_mono_ns() + TOKENS_NS;

    while (!atomic_load(&stop_asked)) {
        if (atomic_load(&links_asked) != made) {
            made = atomic_load(&links_asked);
            err_ignore(link_make(s));
        }
        if (os_mono_ns() >= look_ns) {
            look_ns = os_mono_ns() + TOKENS_NS;
            tokens_again(s);
        }
        os_sleep_ns(LOOK_NS);
    }
}

static int console_body(struct cli *c)
{
    struct console s = {.c = c};
    struct errmsg why = {""};
    int64_t life_ns;
    int code;
    enum err e = read_life(c, &life_ns, &why);

    if (e) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (opt_flag(c->args, "direct")) {
        return link_direct(&s);
    }
    if (os_stop_install(on_stop, NULL) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    if (console_relay_start(&s.relay, c, &code) != ERR_OK) {
        return code;
    }
    code = CLI_OK;
    e = door_open(&s, life_ns, &why);
    if (e) {
        code = cli_fail(c, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "%s",
                        why.text[0] ? why.text : err_text(e));
    } else if (link_make(&s) != ERR_OK) {
        code = CLI_FAILED;
    } else {
        cli_tell(c, "the link works once, within a minute; Enter makes another, Ctrl-C ends");
        err_ignore(os_thread_start(&reader, "enter", read_enters, NULL));
        console_serve(&s);
    }
    http_door_stop(s.door); /* asks the relay no more; what that still has is released there */
    console_relay_stop(s.relay);
    link_file_remove(&s);
    return code;
}

const struct cli_command cmd_console = {&usage, console_body, CLI_NEEDS_COLLECTOR, NULL};
