/* The console in a browser of this machine: the collector's page and answers, relayed with the
 * operator's certificate. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/console_relay.h"
#include "common/base/mem.h"
#include "common/http/http_door.h"
#include "common/os/os.h"
#include "common/wire/wire_web.h"

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
