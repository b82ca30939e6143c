/* Who is let in and who is not, on both kinds of listener, with one line in the log for each
 * refusal; and whom a client believes. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/raw_peer.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define LONG_NS     (20 * CLK_S)
#define LONG_MS     20000u
#define MESSAGE_MAX 1024
#define REVOKED     44 /* an alert */

static struct certs *pki, *foreign;
static struct tls_config *collector, *agent, *subscriber;
static char log_dir[256], log_path[300];

/* -- the log -- */

static char *log_text(void)
{
    uint8_t *p;
    size_t n;
    enum err e;

    do {
        e = os_read_file(&p, &n, log_path, 1 << 20);
    } while (e == ERR_FULL); /* it grew meanwhile */
    assert_ok(e);
    return (char *)p;
}

/* Lines that contain `what`; the last of them goes to `last`. */
static int log_lines(const char *what, char *last, size_t size)
{
    char *text = log_text();
    int n = 0;

    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (strstr(line, what)) {
            n++;
            snprintf(last, size, "%s", line);
        }
    }
    mem_free(text);
    return n;
}

/* Exactly one refusal was logged since there were `before`, with this reason and an address. */
static void assert_one_line(int before, const char *reason)
{
    char line[1024] = "";
    int64_t until = os_mono_ns() + LONG_NS;

    while (log_lines(" refused ", line, sizeof line) == before && os_mono_ns() < until) {
        os_sleep_ns(CLK_MS);
    }
    os_sleep_ns(20 * CLK_MS); /* time for a second line that must not come */
    if (log_lines(" refused ", line, sizeof line) != before + 1 || !strstr(line, reason) ||
        !strstr(line, "peer=127.0.0.1:")) {
        fail_msg("expected one line about '%s', got: %s", reason, line);
    }
}

/* -- the two listeners -- */

static void echo(void *ctx, struct net_request *r)
{
    size_t n;
    const uint8_t *p = net_server_body(r, &n);

    (void)ctx;
    net_server_reply(r, p, n);
}

struct listeners {
    struct net_server *server;
    struct net_pub *pub;
};

/* The name keeps the log's limit of one test from counting for another. */
static void start(struct listeners *l, const char *name)
{
    struct net_server_conf server = {.name = name,
                                     .address = "127.0.0.1:0",
                                     .tls = collector,
                                     .roles = NET_AGENT,
                                     .receive_max = MESSAGE_MAX,
                                     .contexts = 4,
                                     .reply_timeout_ns = 200 * CLK_MS,
                                     .on_request = echo};
    struct net_pub_conf pub = {.address = "127.0.0.1:0",
                               .tls = collector,
                               .roles = NET_SUBSCRIBE,
                               .refuse_scoped = true,
                               .queue = 10};

    assert_ok(net_server_start(&l->server, &server, NULL));
    assert_ok(net_pub_start(&l->pub, &pub, NULL));
}

static void stop(struct listeners *l)
{
    net_server_stop(l->server);
    net_pub_stop(l->pub);
}

/* The honest agent still gets its answer, the honest subscriber its connection. */
static void assert_honest_ones_go_on(const struct listeners *l)
{
    char address[32];
    struct net_client_conf conf = {.address = address, .tls = agent, .receive_max = MESSAGE_MAX};
    struct net_sub_conf sub_conf = {
        .address = address, .tls = subscriber, .receive_max = MESSAGE_MAX, .topic = ""};
    struct net_client *c;
    struct net_sub *s;
    struct buf reply;

    buf_init(&reply, MESSAGE_MAX);
    snprintf(address, sizeof address, "127.0.0.1:%u", net_server_port(l->server));
    assert_ok(net_client_open(&c, &conf, NULL));
    assert_ok(net_client_call(c, "honest", 6, LONG_NS, &reply));
    assert_string_equal(buf_cstr(&reply), "honest");
    net_client_close(c);
    snprintf(address, sizeof address, "127.0.0.1:%u", net_pub_port(l->pub));
    assert_ok(net_sub_open(&s, &sub_conf, NULL));
    assert_ok(net_sub_wait(s, LONG_NS, NULL));
    while (net_pub_subscribers(l->pub) == 0) {
        os_sleep_ns(CLK_MS);
    }
    net_sub_close(s);
    buf_fini(&reply);
}

/* -- hostile peers -- */

static struct raw_peer *knock(unsigned port)
{
    struct raw_peer *p = NULL;

    assert_ok(raw_peer_connect(&p, port));
    return p;
}

/* With TLS up, as the holder of a certificate of `pki`. */
static struct raw_peer *enter(unsigned port, const char *name)
{
    char cert[400], key[400];
    struct raw_cert c = {cert, key};
    struct raw_peer *p = knock(port);

    snprintf(cert, sizeof cert, "%s", certs_path(pki, name, ".pem"));
    snprintf(key, sizeof key, "%s", certs_path(pki, name, ".key"));
    assert_ok(raw_peer_tls(p, false, &c));
    return p;
}

static void refused_certificates(struct listeners *l, unsigned port, const char *wrong_role)
{
    const struct {
        struct certs *from;
        const char *name, *reason;
    } rows[] = {
        {NULL, NULL, "no certificate"},  {foreign, "agent", "unknown authority"},
        {pki, wrong_role, "wrong role"}, {pki, "collector", "wrong use"},
        {pki, "old", "expired"},         {pki, "early", "not yet valid"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_peer *p = knock(port);
        char line[1024], cert[400], key[400];
        struct raw_cert c = {NULL, NULL};
        int before = log_lines(" refused ", line, sizeof line);

        if (rows[i].name) {
            snprintf(cert, sizeof cert, "%s", certs_path(rows[i].from, rows[i].name, ".pem"));
            snprintf(key, sizeof key, "%s", certs_path(rows[i].from, rows[i].name, ".key"));
            c.cert = cert;
            c.key = key;
        }
        assert_err(raw_peer_tls(p, false, &c), ERR_REFUSED);
        assert_one_line(before, rows[i].reason);
        raw_peer_close(p);
    }
    assert_honest_ones_go_on(l);
}

/* A flight that comes in pieces: the connection does not end before the peer could hear why. */
static void who_is_refused_hears_why(void **state)
{
    const struct {
        struct certs *from;
        const char *name;
        unsigned alert;
    } rows[] = {
        {foreign, "agent", 48}, {pki, "query", 49}, {pki, "collector", 43}, {pki, "old", 45}};
    struct listeners l;

    start(&l, "s9");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char cert[400], key[400];
        struct raw_cert c = {cert, key};
        struct raw_peer *p = knock(net_server_port(l.server));
        unsigned alert = 0;

        snprintf(cert, sizeof cert, "%s", certs_path(rows[i].from, rows[i].name, ".pem"));
        snprintf(key, sizeof key, "%s", certs_path(rows[i].from, rows[i].name, ".key"));
        assert_ok(raw_peer_hesitate(p, &c, &alert));
        assert_int_equal(alert, rows[i].alert);
        assert_true(raw_peer_is_closed(p, LONG_MS));
        raw_peer_close(p);
    }
    assert_honest_ones_go_on(&l);
    stop(&l);
}

static void wrong_certificates_are_refused_by_servers(void **state)
{
    struct listeners l;

    start(&l, "s1");
    refused_certificates(&l, net_server_port(l.server), "query");
    stop(&l);
}

static void wrong_certificates_are_refused_by_publishers(void **state)
{
    struct listeners l;

    start(&l, "s2");
    refused_certificates(&l, net_pub_port(l.pub), "agent");
    stop(&l);
}

/* Plain bytes instead of TLS; half of a greeting; a whole one that is never followed up. */
static void bytes_that_are_no_handshake_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool hang_up;
        const char *reason;
    } rows[] = {
        {"GET / HTTP/1.0\r\n\r\n", 18, false, "garbage instead of TLS"},
        {"\0SP\0\0\x30\0\0", 8, false, "garbage instead of TLS"},
        {"G", 1, true, "garbage instead of TLS"},
        {"\x16\x03\x01\x02\x00\x01", 6, true, "handshake not finished"},
        {"\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9, false, "TLS handshake failed"},
    };
    struct listeners l;

    start(&l, "s3");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_peer *p = knock(net_server_port(l.server));
        char line[1024];
        int before = log_lines(" refused ", line, sizeof line);

        assert_ok(raw_peer_send(p, rows[i].bytes, rows[i].n));
        if (rows[i].hang_up) {
            raw_peer_close(p);
            p = NULL;
        } else {
            assert_true(raw_peer_is_closed(p, LONG_MS));
        }
        assert_one_line(before, rows[i].reason);
        raw_peer_close(p);
    }
    assert_honest_ones_go_on(&l);
    stop(&l);
}

static void a_port_scan_is_no_refusal(void **state)
{
    struct listeners l;
    char line[1024];
    int before = log_lines(" refused ", line, sizeof line);

    start(&l, "s4");
    raw_peer_close(knock(net_server_port(l.server)));
    raw_peer_close(knock(net_pub_port(l.pub)));
    assert_honest_ones_go_on(&l);
    stop(&l);
    assert_int_equal(log_lines(" refused ", line, sizeof line), before);
}

static const char req_greeting[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
static const char sub_greeting[8] = {0, 'S', 'P', 0, 0, 0x21, 0, 0};

/* With a good certificate, but not speaking the protocol. */
static void other_protocols_inside_tls_are_refused(void **state)
{
    static const struct {
        bool pub;
        const char *bytes;
        size_t n;
        const char *reason;
    } rows[] = {
        {false, "GET / HTTP/1.0\r\n", 16, "garbage instead of SP"},
        {false, sub_greeting, 8, "other SP protocol"},
        {true, req_greeting, 8, "other SP protocol"},
        {true, "GET / HTTP/1.0\r\n", 16, "garbage instead of SP"},
    };
    struct listeners l;

    start(&l, "s5");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_peer *p = rows[i].pub ? enter(net_pub_port(l.pub), "subscriber")
                                         : enter(net_server_port(l.server), "agent");
        char line[1024];
        int before = log_lines(" refused ", line, sizeof line);

        assert_ok(raw_peer_send(p, rows[i].bytes, rows[i].n));
        assert_one_line(before, rows[i].reason);
        assert_true(raw_peer_is_closed(p, LONG_MS));
        raw_peer_close(p);
    }
    assert_honest_ones_go_on(&l);
    stop(&l);
}

static void a_peer_that_never_greets_is_told_of(void **state)
{
    struct listeners l;
    char line[1024];
    struct raw_peer *p;
    int before = log_lines(" refused ", line, sizeof line);

    start(&l, "s6");
    p = enter(net_server_port(l.server), "agent");
    raw_peer_close(p);
    assert_one_line(before, "no SP greeting");
    stop(&l);
}

/* A length that no message has, in front of a message that never comes. */
static void declared_lengths_are_believed_up_to_the_limit(void **state)
{
    static const struct {
        bool pub;
        uint8_t length[8];
    } rows[] = {
        {false, {0, 0, 0, 0, 0, 0, 4, 65}}, /* envelope and one byte more */
        {false, {0, 0, 0, 4, 0, 0, 0, 0}},  /* 16 GiB */
        {false, {0x40, 0, 0, 0, 0, 0, 0, 0}},
        {false, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
        {true, {0, 0, 0, 0, 0, 0, 0, 1}}, /* a subscriber says nothing */
        {true, {0x40, 0, 0, 0, 0, 0, 0, 0}},
    };
    struct listeners l;

    start(&l, "s7");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct raw_peer *p = rows[i].pub ? enter(net_pub_port(l.pub), "subscriber")
                                         : enter(net_server_port(l.server), "agent");
        char line[1024], greeting[8];
        int before = log_lines(" refused ", line, sizeof line);

        assert_ok(raw_peer_send(p, rows[i].pub ? sub_greeting : req_greeting, 8));
        assert_ok(raw_peer_read(p, greeting, sizeof greeting, LONG_MS));
        assert_ok(raw_peer_send(p, rows[i].length, 8));
        assert_one_line(before, "message too large");
        assert_true(raw_peer_is_closed(p, LONG_MS));
        raw_peer_close(p);
    }
    assert_honest_ones_go_on(&l);
    stop(&l);
}

/* Asks and asks, and never reads an answer. */
static void a_peer_that_never_reads_is_cut(void **state)
{
    static const uint8_t head[12] = {0, 0, 0, 0, 0, 0, 4, 4, 0x80, 0, 0, 1};
    uint8_t message[8 + 4 + MESSAGE_MAX] = {0};
    struct listeners l;
    struct raw_peer *p;
    char line[1024];
    int before = log_lines(" refused ", line, sizeof line);
    enum err e = ERR_OK;

    start(&l, "s8");
    p = enter(net_server_port(l.server), "agent");
    memcpy(message, head, sizeof head);
    assert_ok(raw_peer_send(p, req_greeting, 8));
    for (int i = 0; i < 200000 && !e; i++) {
        e = raw_peer_send(p, message, sizeof message);
    }
    assert_err(e, ERR_CLOSED);
    assert_one_line(before, "does not read its replies");
    raw_peer_close(p);
    assert_honest_ones_go_on(&l);
    stop(&l);
}

/* -- whom a client believes -- */

struct impostor {
    const char *cert, *key; /* NULL: closes instead of TLS */
    _Atomic unsigned port;
};

static void ready(void *ctx, unsigned port)
{
    atomic_store(&((struct impostor *)ctx)->port, port);
}

static void pose_as_collector(void *arg)
{
    struct impostor *i = arg;
    struct raw_cert c = {i->cert, i->key};
    struct raw_peer *p = NULL;

    if (raw_peer_accept(&p, ready, i) != ERR_OK) {
        return;
    }
    if (!i->cert) {
        err_ignore(raw_peer_send(p, "220 mail.example ESMTP\r\n", 24));
        raw_peer_is_closed(p, LONG_MS); /* closing first could take the words back */
    } else {
        err_ignore(raw_peer_tls(p, true, &c));
    }
    raw_peer_close(p);
}

static void clients_believe_only_a_collector(void **state)
{
    const struct {
        struct certs *from;
        const char *name;
        enum err e;
        const char *words;
    } rows[] = {
        {pki, "agent", ERR_TRUST, "wrong use"},
        {foreign, "collector", ERR_TRUST, "unknown authority"},
        {pki, "old", ERR_TRUST, "expired"},
        {NULL, NULL, ERR_UNREACHABLE, "does not speak TLS"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char cert[400], key[400], address[32];
        struct impostor impostor = {.port = 0};
        struct net_client_conf conf = {
            .address = address, .tls = agent, .receive_max = MESSAGE_MAX};
        struct net_client *c;
        struct os_thread *thread;
        struct errmsg why;

        if (rows[i].name) {
            snprintf(cert, sizeof cert, "%s", certs_path(rows[i].from, rows[i].name, ".pem"));
            snprintf(key, sizeof key, "%s", certs_path(rows[i].from, rows[i].name, ".key"));
            impostor.cert = cert;
            impostor.key = key;
        }
        assert_ok(os_thread_start(&thread, "impostor", pose_as_collector, &impostor));
        while (atomic_load(&impostor.port) == 0) {
            os_sleep_ns(CLK_MS);
        }
        snprintf(address, sizeof address, "127.0.0.1:%u", atomic_load(&impostor.port));
        assert_ok(net_client_open(&c, &conf, NULL));
        assert_err(net_client_wait(c, LONG_NS, &why), rows[i].e);
        if (!strstr(why.text, rows[i].words)) {
            fail_msg("expected '%s' in: %s", rows[i].words, why.text);
        }
        net_client_close(c);
        os_thread_join(thread);
    }
}

/* -- a server that ends the handshake when it has seen our certificate -- */

struct breaker {
    char cert[400], key[400];
    unsigned refusals; /* with a reason, before it breaks */
    unsigned times;
    _Atomic unsigned port;
};

static void breaker_ready(void *ctx, unsigned port)
{
    atomic_store(&((struct breaker *)ctx)->port, port);
}

static void break_handshakes(void *arg)
{
    struct breaker *b = arg;
    struct raw_cert c = {b->cert, b->key};
    struct raw_peer *p = NULL;
    enum err e = raw_peer_accept(&p, breaker_ready, b);

    for (unsigned i = 0; !e && i < b->times; i++) {
        e = i < b->refusals ? raw_peer_refuse_tls(p, &c, REVOKED) : raw_peer_break_tls(p, &c);
        if (!e && i + 1 < b->times) {
            e = raw_peer_accept_next(p);
        }
    }
    raw_peer_close(p);
}

/* A crash looks like a refusal whose reason was lost; but it does not happen twice in a row. */
static void one_broken_handshake_is_no_refusal_and_two_are(void **state)
{
    static const struct {
        unsigned times;
        enum err e;
        const char *words;
    } rows[] = {{1, ERR_UNREACHABLE, ""}, /* nobody listens, or it hung up: which is seen first */
                {2, ERR_TRUST, "its log says why"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct breaker b = {.times = rows[i].times};
        char address[32];
        struct net_client_conf conf = {.address = address,
                                       .tls = agent,
                                       .receive_max = MESSAGE_MAX,
                                       .reconnect_min_ns = 20 * CLK_MS,
                                       .reconnect_max_ns = 50 * CLK_MS};
        struct net_client *c;
        struct os_thread *thread;
        struct errmsg why = {""};
        enum err e;

        snprintf(b.cert, sizeof b.cert, "%s", certs_path(pki, "collector", ".pem"));
        snprintf(b.key, sizeof b.key, "%s", certs_path(pki, "collector", ".key"));
        assert_ok(os_thread_start(&thread, "breaker", break_handshakes, &b));
        while (atomic_load(&b.port) == 0) {
            os_sleep_ns(CLK_MS);
        }
        snprintf(address, sizeof address, "127.0.0.1:%u", atomic_load(&b.port));
        assert_ok(net_client_open(&c, &conf, NULL));
        e = net_client_wait(c, LONG_NS, &why);
        if (e != rows[i].e || !strstr(why.text, rows[i].words)) {
            fail_msg("expected %s, '%s', got %s: %s", err_name(rows[i].e), rows[i].words,
                     err_name(e), why.text);
        }
        net_client_close(c);
        os_thread_join(thread);
    }
}

static void count(void *ctx)
{
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

/* The reason was told once: an end without one does not take it back. */
static void a_refusal_is_not_forgotten_when_its_reason_is_lost(void **state)
{
    struct breaker b = {.refusals = 1, .times = 3};
    char address[32];
    struct net_client_conf conf = {.address = address,
                                   .tls = agent,
                                   .receive_max = MESSAGE_MAX,
                                   .reconnect_min_ns = 20 * CLK_MS,
                                   .reconnect_max_ns = 50 * CLK_MS};
    struct net_client *c;
    struct os_thread *thread;
    struct errmsg why = {""};
    int64_t until_ns = os_mono_ns() + LONG_NS;
    atomic_uint faults;
    unsigned seen = 0;

    atomic_init(&faults, 0);
    snprintf(b.cert, sizeof b.cert, "%s", certs_path(pki, "collector", ".pem"));
    snprintf(b.key, sizeof b.key, "%s", certs_path(pki, "collector", ".key"));
    assert_ok(os_thread_start(&thread, "breaker", break_handshakes, &b));
    while (atomic_load(&b.port) == 0) {
        os_sleep_ns(CLK_MS);
    }
    snprintf(address, sizeof address, "127.0.0.1:%u", atomic_load(&b.port));
    assert_ok(net_client_open(&c, &conf, NULL));
    net_client_watch(c, count, &faults);
    while (seen < b.times && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
        seen = atomic_load(&faults);
        if (seen > 0) {
            assert_err(net_client_fault(c, &why), ERR_TRUST);
            assert_non_null(strstr(why.text, "our certificate is revoked"));
        }
    }
    assert_int_equal(seen, b.times);
    net_client_close(c);
    os_thread_join(thread);
}

/* -- loading -- */

static void certificates_that_would_be_refused_are_not_loaded(void **state)
{
    char ca[400], cert[400], key[400];
    struct net_tls_conf conf = {.ca = ca, .cert = cert, .key = key, .server_name = PKI_SERVER_NAME};
    const struct {
        struct certs *ca;
        const char *cert, *key;
        enum err e;
    } rows[] = {
        {pki, "missing", "agent", ERR_NOTFOUND}, {pki, "agent", "missing", ERR_NOTFOUND},
        {pki, "agent", "query", ERR_TRUST},      {foreign, "agent", "agent", ERR_TRUST},
        {pki, "old", "old", ERR_TRUST},          {pki, "collector", "collector", ERR_TRUST},
    };
    struct tls_config *t;
    struct errmsg why;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(ca, sizeof ca, "%s", certs_path(rows[i].ca, "ca", ".pem"));
        snprintf(cert, sizeof cert, "%s", certs_path(pki, rows[i].cert, ".pem"));
        snprintf(key, sizeof key, "%s", certs_path(pki, rows[i].key, ".key"));
        why.text[0] = '\0';
        assert_err(tls_config_load(&t, &conf, false, &why), rows[i].e);
        assert_true(why.text[0] != '\0');
    }
}

static void an_expired_certificate_loads_for_who_renews_it(void **state)
{
    static const struct {
        const char *cert;
        bool of_us;
        enum err e;
    } rows[] = {{"old", true, ERR_OK},
                {"early", true, ERR_OK},
                {"old", false, ERR_TRUST},
                {"collector", true, ERR_TRUST}};
    char ca[400], cert[400], key[400];
    struct net_tls_conf conf = {
        .ca = ca, .cert = cert, .key = key, .server_name = PKI_SERVER_NAME, .lapsed = true};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tls_config *t = NULL;
        struct errmsg why;

        snprintf(ca, sizeof ca, "%s", certs_path(rows[i].of_us ? pki : foreign, "ca", ".pem"));
        snprintf(cert, sizeof cert, "%s", certs_path(pki, rows[i].cert, ".pem"));
        snprintf(key, sizeof key, "%s", certs_path(pki, rows[i].cert, ".key"));
        assert_err(tls_config_load(&t, &conf, false, &why), rows[i].e);
        tls_config_free(t);
    }
}

static void a_key_that_others_can_read_is_refused(void **state)
{
    char ca[400], cert[400], key[400];
    struct net_tls_conf conf = {.ca = ca, .cert = cert, .key = key, .server_name = PKI_SERVER_NAME};
    struct tls_config *t;
    struct errmsg why;
    uint8_t *p;
    size_t n;

    snprintf(ca, sizeof ca, "%s", certs_path(pki, "ca", ".pem"));
    snprintf(cert, sizeof cert, "%s", certs_path(pki, "agent", ".pem"));
    assert_ok(os_read_file(&p, &n, certs_path(pki, "agent", ".key"), 1 << 16));
    snprintf(key, sizeof key, "%s", certs_path(pki, "open", ".key"));
    assert_ok(os_write_file(key, p, n, false));
    assert_err(tls_config_load(&t, &conf, false, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "chmod"));
    mem_free(p);
}

static void running_out_of_memory_while_loading_leaves_nothing(void **state)
{
    char ca[400], cert[400], key[400];
    struct net_tls_conf conf = {.ca = ca, .cert = cert, .key = key, .server_name = PKI_SERVER_NAME};
    struct tls_config *t = NULL;
    enum err e = ERR_NOMEM;
    long live;

    snprintf(ca, sizeof ca, "%s", certs_path(pki, "ca", ".pem"));
    snprintf(cert, sizeof cert, "%s", certs_path(pki, "agent", ".pem"));
    snprintf(key, sizeof key, "%s", certs_path(pki, "agent", ".key"));
    live = mem_live();
    for (long i = 0; e; i++) {
        assert_true(i < 100);
        mem_fail_after(i);
        e = tls_config_load(&t, &conf, false, NULL);
        mem_fail_after(-1);
        assert_true(!e || (e == ERR_NOMEM && mem_live() == live));
    }
    tls_config_free(t);
    assert_int_equal(mem_live(), live);
}

static void issue_all(void)
{
    struct pki_issue old = {.use = PKI_AGENT,
                            .name = "old",
                            .now_ns = os_utc_ns() - 7200 * CLK_S,
                            .life_ns = 3600 * CLK_S};
    struct pki_issue early = {.use = PKI_AGENT,
                              .name = "early",
                              .now_ns = os_utc_ns() + 7200 * CLK_S,
                              .life_ns = 3600 * CLK_S};

    pki = certs_create();
    foreign = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "agent");
    certs_issue(pki, PKI_QUERY, "query");
    certs_issue(pki, PKI_SUBSCRIBE, "subscriber");
    certs_issue_as(pki, &old);
    certs_issue_as(pki, &early);
    certs_issue(foreign, PKI_AGENT, "agent");
    certs_issue(foreign, PKI_COLLECTOR, "collector");
}

static int set_up(void **state)
{
    support_temp_dir(log_dir, sizeof log_dir);
    snprintf(log_path, sizeof log_path, "%s/log", log_dir);
    assert_ok(log_open(LOG_WARN, LOG_TEXT, log_path));
    assert_ok(net_init(NULL));
    issue_all();
    collector = certs_load(pki, "collector", pki, true);
    agent = certs_load(pki, "agent", pki, false);
    subscriber = certs_load(pki, "subscriber", pki, false);
    return 0;
}

static int tear_down(void **state)
{
    tls_config_free(collector);
    tls_config_free(agent);
    tls_config_free(subscriber);
    certs_destroy(pki);
    certs_destroy(foreign);
    net_fini();
    log_close();
    support_remove_dir(log_dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_refused_hears_why),
        cmocka_unit_test(wrong_certificates_are_refused_by_servers),
        cmocka_unit_test(wrong_certificates_are_refused_by_publishers),
        cmocka_unit_test(bytes_that_are_no_handshake_are_refused),
        cmocka_unit_test(a_port_scan_is_no_refusal),
        cmocka_unit_test(other_protocols_inside_tls_are_refused),
        cmocka_unit_test(a_peer_that_never_greets_is_told_of),
        cmocka_unit_test(declared_lengths_are_believed_up_to_the_limit),
        cmocka_unit_test(a_peer_that_never_reads_is_cut),
        cmocka_unit_test(clients_believe_only_a_collector),
        cmocka_unit_test(one_broken_handshake_is_no_refusal_and_two_are),
        cmocka_unit_test(a_refusal_is_not_forgotten_when_its_reason_is_lost),
        cmocka_unit_test(certificates_that_would_be_refused_are_not_loaded),
        cmocka_unit_test(an_expired_certificate_loads_for_who_renews_it),
        cmocka_unit_test(a_key_that_others_can_read_is_refused),
        cmocka_unit_test(running_out_of_memory_while_loading_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
