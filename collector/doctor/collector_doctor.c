#include "collector/doctor/collector_doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "collector/clickhouse/ch_check.h"
#include "collector/doctor/collector_doctor_disk.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"
#include "common/text/humanize.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_web.h"

#define DAY_NS (86400 * CLK_S)

#define DESCRIPTORS_FREE 1024u /* for everything but agents, as the collector reckons */
#define THREADS_NEEDED   256u
#define BACKLOG_NEEDED   128u /* what NNG asks for */
#define TEXT_MAX         8192u
#define EARLY_NS         (600 * CLK_S)

#define DAYS_WARN 30
#define DAYS_FAIL 7
#define NAMES_MAX 5 /* hosts named in one sentence */
#define BOOK_HELP                                                                          \
    "run doctor as the collector's user or as root; chmod 600 the book; a damaged one is " \
    "brought back from a backup"
#define ISSUE_HELP \
    "issue one: procfleet-collector pki issue --role collector --name NAME --output DIR"

#define REPLY_MAX       (4u << 20)
#define PAGES_MAX       1000
#define OFFSET_NS       CLK_S /* from here on ordering across hosts is worth a word */
#define FLEET_NAMES_MAX 5u

struct collector_doctor {
    const struct collector_doctor_conf *conf;
    const struct collector_conf *c; /* the same's */
    struct findings *all;
    bool running; /* a collector holds data_dir */
};

/* Whole days until then, rounded down; below 0 when it is over. */
static int64_t days_until(const struct collector_doctor *d, int64_t until_ns)
{
    int64_t left_ns = clk_sub(until_ns, d->conf->now_ns);

    return (left_ns < 0 ? left_ns - DAY_NS + 1 : left_ns) / DAY_NS;
}

/* -- is there one already -- */

static void check_running(struct collector_doctor *d)
{
    char *path = os_path_join(d->c->data_dir, "lock");
    struct os_lock *lock = NULL;
    enum err e = path && os_exists(path) ? os_lock(&lock, path) : ERR_NOTFOUND;

    os_unlock(lock);
    mem_free(path);
    d->running = e == ERR_BUSY;
    if (d->running) {
        check_result_report(d->all, "collector", CHECK_RESULT_OK, "", "a collector runs with %s",
                            d->c->data_dir);
    } else if (e && e != ERR_NOTFOUND) {
        check_result_report(d->all, "collector", CHECK_RESULT_WARNING,
                            "run doctor as the collector's user (runuser -u procfleet -- ...)",
                            "the lock of %s cannot be looked at: %s", d->c->data_dir, err_text(e));
    } else {
        check_result_report(d->all, "collector", CHECK_RESULT_SKIPPED, "",
                            "no collector runs with %s", d->c->data_dir);
    }
}

/* -- listeners -- */

static bool is_any_port(const char *address)
{
    size_t n = strlen(address);

    return n > 1 && strcmp(address + n - 2, ":0") == 0;
}

static void say_taken(struct collector_doctor *d, const char *key, const char *address)
{
    if (d->running) {
        check_result_report(d->all, key, CHECK_RESULT_OK, "",
                            "%s is in use, as it is when a collector runs", address);
    } else {
        check_result_report(
            d->all, key, CHECK_RESULT_FAILED,
            "'ss -ltnp' as root shows by whom: end that program, or set another port",
            "%s is in use, but not by a collector with this data_dir", address);
    }
}

static void check_listener(struct collector_doctor *d, const char *key)
{
    const char *address = conf_text(d->c->source, key);
    struct errmsg why = {""};
    enum err e;

    if (!address[0]) {
        check_result_report(d->all, key, CHECK_RESULT_SKIPPED, "", "off");
        return;
    }
    if (is_any_port(address)) {
        check_result_report(d->all, key, CHECK_RESULT_SKIPPED, "", "%s is any free port", address);
        return;
    }
    e = net_probe_listen(address, &why);
    if (e == ERR_BUSY) {
        say_taken(d, key, address);
    } else if (e) {
        check_result_report(d->all, key, CHECK_RESULT_FAILED,
                            e == ERR_ACCESS
                                ? "set a port from 1024 on"
                                : "set it to host:port, with an address of this machine or *",
                            "%s", why.text);
    } else if (d->running) {
        check_result_report(
            d->all, key, CHECK_RESULT_WARNING,
            "if it reads its log still, wait; else it runs with other settings: restart it",
            "a collector runs, but nothing listens at %s", address);
    } else {
        check_result_report(d->all, key, CHECK_RESULT_OK, "", "%s is free", address);
    }
}

static void check_listeners(struct collector_doctor *d)
{
    static const char prefix[] = "listen.";
    size_t n;
    const struct conf_key *keys = collector_conf_keys(&n);

    for (size_t i = 0; i < n; i++) {
        if (strncmp(keys[i].key, prefix, sizeof prefix - 1) == 0 && keys[i].type == CONF_TEXT) {
            check_listener(d, keys[i].key);
        }
    }
}

/* -- limits: descriptors, threads, memory, queue of connections -- */

/* The file's text; mem_free. NULL: it cannot be read. */
static char *limits_text(const char *path)
{
    uint8_t *text;
    size_t n;

    return os_read_file(&text, &n, path, TEXT_MAX) ? NULL : (char *)text;
}

/* A number that begins the file; `otherwise` when it cannot be read. */
static uint64_t limits_number(const char *path, uint64_t otherwise)
{
    char *text = limits_text(path);
    uint64_t n = text ? strtoull(text, NULL, 10) : otherwise;

    mem_free(text);
    return n;
}

static void check_files(struct collector_doctor *d)
{
    uint64_t may = os_open_files_max(), wanted = (uint64_t)d->c->hosts_max + DESCRIPTORS_FREE;

    if (may == 0) {
        check_result_report(d->all, "limits.files", CHECK_RESULT_SKIPPED, "",
                            "the limit is unknown");
        return;
    }
    check_result_report(
        d->all, "limits.files", may < wanted ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        may < wanted ? "raise it (systemd: LimitNOFILE=, a shell: ulimit -n), or set "
                       "limits.hosts to what there will be"
                     : "",
        "%llu descriptors may be open here, limits.hosts and the store take up to %llu",
        (unsigned long long)may, (unsigned long long)wanted);
}

/* "Max processes  63442  63442  processes": threads count as processes. */
static uint64_t processes_max(void)
{
    static const char word[] = "Max processes";
    char *text = limits_text("/proc/self/limits");
    const char *at = text ? strstr(text, word) : NULL;
    uint64_t n = at ? strtoull(at + sizeof word - 1, NULL, 10) : 0; /* 0: "unlimited" too */

    mem_free(text);
    return n ? n : UINT64_MAX;
}

static void check_threads(struct collector_doctor *d)
{
    uint64_t own = processes_max(), all = limits_number("/proc/sys/kernel/threads-max", UINT64_MAX);
    uint64_t may = own < all ? own : all;
    bool few = may < THREADS_NEEDED;

    check_result_report(d->all, "limits.threads", few ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
                        few ? "raise it (systemd: LimitNPROC= and TasksMax=, a shell: ulimit -u)"
                            : "",
                        few ? "the collector's user may have fewer than %u threads"
                            : "the collector's user may have %u threads and more",
                        THREADS_NEEDED);
}

static void check_memory(struct collector_doctor *d)
{
    uint64_t machine = os_memory_bytes(), head = d->c->head_bytes_max;
    bool tight = machine > 0 && head > machine / 2;

    if (machine == 0) {
        check_result_report(d->all, "limits.memory", CHECK_RESULT_SKIPPED, "",
                            "the memory is unknown");
        return;
    }
    check_result_report(
        d->all, "limits.memory", tight ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        tight ? "set head.max_bytes to half of the memory at most: sealing and queries need "
                "theirs"
              : "",
        "the machine has %llu MiB, batches not sealed yet take up to %llu (head.max_bytes)",
        (unsigned long long)(machine >> 20), (unsigned long long)(head >> 20));
}

static void check_backlog(struct collector_doctor *d)
{
    uint64_t most = limits_number("/proc/sys/net/core/somaxconn", 0);

    if (most == 0) {
        check_result_report(d->all, "limits.backlog", CHECK_RESULT_SKIPPED, "",
                            "somaxconn is unknown");
        return;
    }
    check_result_report(
        d->all, "limits.backlog", most < BACKLOG_NEEDED ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        most < BACKLOG_NEEDED ? "sysctl net.core.somaxconn=4096" : "",
        "%llu connections may wait to be accepted (net.core.somaxconn)", (unsigned long long)most);
}

static void check_uptime(struct collector_doctor *d)
{
    int64_t up_ns = (int64_t)(limits_number("/proc/uptime", 0) * (uint64_t)CLK_S);
    struct buf text;

    if (up_ns == 0) {
        return;
    }
    buf_init(&text, 64);
    humanize_ns(&text, up_ns);
    check_result_report(d->all, "uptime", CHECK_RESULT_OK, "", "this machine was started %s ago%s",
                        buf_cstr(&text),
                        up_ns < EARLY_NS ? ": agents may still be on their way back" : "");
    buf_fini(&text);
}

static void check_limits(struct collector_doctor *d)
{
    check_files(d);
    check_threads(d);
    check_memory(d);
    check_backlog(d);
    check_uptime(d);
}

/* -- own certificate -- */

static enum err check_key(struct collector_doctor *d)
{
    enum err e = os_check_private(d->c->key);

    if (e == ERR_NOTFOUND) {
        check_result_report(d->all, "tls.key", CHECK_RESULT_FAILED,
                            ISSUE_HELP "; or set tls.ca, tls.cert and tls.key to where they are",
                            "there is no key %s", d->c->key);
    } else if (e == ERR_ACCESS) {
        check_result_report(
            d->all, "tls.key", CHECK_RESULT_FAILED,
            "chmod 600 it and give it to the collector's user; if others may have read it, "
            "issue another certificate. Run doctor as the collector's user or as root",
            "others can read the key %s, or we cannot", d->c->key);
    } else if (e) {
        check_result_report(d->all, "tls.key", CHECK_RESULT_FAILED, "see that the file can be read",
                            "the key %s: %s", d->c->key, err_text(e));
    } else {
        check_result_report(d->all, "tls.key", CHECK_RESULT_OK, "", "others cannot read the key %s",
                            d->c->key);
    }
    return e;
}

static void say_end(struct collector_doctor *d, const char *check, const char *what, int64_t end_ns,
                    const char *fix)
{
    int64_t days = days_until(d, end_ns);
    enum check_result_state state = days < DAYS_FAIL   ? CHECK_RESULT_FAILED
                                    : days < DAYS_WARN ? CHECK_RESULT_WARNING
                                                       : CHECK_RESULT_OK;
    char until[CLK_TEXT];

    (void)clk_format_utc(until, sizeof until, end_ns, 0);
    if (days < 0) {
        check_result_report(d->all, check, state, fix, "%s ended at %s", what, until);
    } else {
        check_result_report(d->all, check, state, state == CHECK_RESULT_OK ? "" : fix,
                            "%s is good for %lld more %s, until %s", what, (long long)days,
                            plural((uint64_t)days, "day", "days"), until);
    }
}

static void check_certificate(struct collector_doctor *d)
{
    struct net_tls_conf conf = {
        .ca = d->c->ca, .cert = d->c->cert, .key = d->c->key, .crl = d->c->crl};
    struct tls_config *tls;
    struct net_identity own;
    struct errmsg why = {""};
    enum err e = tls_config_load(&tls, &conf, true, &why);

    if (e) {
        check_result_report(d->all, "tls.certificate", CHECK_RESULT_FAILED,
                            e == ERR_TRUST
                                ? "see that tls.ca is the authority that signed it and that it "
                                  "has not ended; or " ISSUE_HELP
                                : ISSUE_HELP "; or set tls.ca, tls.cert, tls.key and tls.crl to "
                                             "where they are",
                            "%s", why.text[0] ? why.text : err_text(e));
        return;
    }
    tls_config_identity(tls, &own);
    tls_config_free(tls);
    check_result_report(d->all, "tls.certificate", CHECK_RESULT_OK, "",
                        "%s is signed by %s, its key fits%s", d->c->cert, d->c->ca,
                        d->c->crl ? ", the revocation list can be read" : "");
    say_end(d, "tls.expiry", "the certificate", own.not_after_ns,
            ISSUE_HELP " and put key and certificate over the old ones: they are read within "
                       "seconds");
}

static void check_authority(struct collector_doctor *d)
{
    int64_t end_ns;
    enum err e = tls_cert_authority_end(&end_ns, d->c->ca);

    if (e) {
        check_result_report(d->all, "tls.authority", CHECK_RESULT_FAILED,
                            "set tls.ca to the ca.pem of the authority", "the authority %s: %s",
                            d->c->ca, err_text(e));
        return;
    }
    say_end(d, "tls.authority", "the authority", end_ns,
            "make a new authority before the old one ends: docs/security.md tells how");
}

/* -- the book -- */

struct ending {
    const struct collector_doctor *d;
    unsigned agents, soon, named;
    char names[NAMES_MAX * 68];
};

/* An agent renews at two thirds of its certificate's life: one with less than a quarter left has
 * not. */
static bool count_ending(void *ctx, const struct ca_cert *c)
{
    struct ending *x = ctx;
    int64_t left_ns = clk_sub(c->who.not_after_ns, x->d->conf->now_ns);
    int64_t life_ns = c->who.not_after_ns - c->who.not_before_ns;
    size_t used = strlen(x->names);

    if (!(c->who.roles & NET_AGENT) || c->replaced || c->revoked_ns ||
        left_ns < -x->d->c->renew_grace_ns) { /* gone for good, or forgotten */
        return true;
    }
    x->agents++;
    if (left_ns < life_ns / 4) {
        x->soon++;
        if (x->named++ < NAMES_MAX) {
            (void)snprintf(x->names + used, sizeof x->names - used, "%s%s", used ? ", " : "",
                           c->who.name);
        }
    }
    return true;
}

static void say_ending(struct collector_doctor *d, const struct ending *x)
{
    if (x->soon == 0) {
        check_result_report(d->all, "pki.agents", CHECK_RESULT_OK, "",
                            "of %u %s none is overdue for renewal", x->agents,
                            plural(x->agents, "agent's certificate", "agents' certificates"));
        return;
    }
    check_result_report(
        d->all, "pki.agents", CHECK_RESULT_WARNING,
        "see that these agents run and reach the ingest or enroll listener ('procfleet "
        "hosts', 'procfleet-agent doctor' there), or revoke those that are gone",
        "%u of %u %s should have renewed their certificates: %s%s", x->soon, x->agents,
        plural(x->agents, "agent", "agents"), x->names, x->named > NAMES_MAX ? ", …" : "");
}

static void check_book(struct collector_doctor *d)
{
    struct ending x = {.d = d};
    struct ca_db *book;
    struct errmsg why = {""};
    enum err e = ca_db_open(&book, d->c->pki_dir, NULL, &why);

    if (e) {
        check_result_report(d->all, "pki.book", CHECK_RESULT_FAILED, BOOK_HELP, "%s",
                            why.text[0] ? why.text : err_text(e));
        return;
    }
    check_result_report(d->all, "pki.book", CHECK_RESULT_OK, "",
                        "the book in %s can be read, and every checksum in it is right",
                        d->c->pki_dir);
    e = ca_cert_list(book, count_ending, &x, &why);
    ca_db_close(book);
    if (e) {
        check_result_report(d->all, "pki.agents", CHECK_RESULT_FAILED, BOOK_HELP, "%s", why.text);
        return;
    }
    say_ending(d, &x);
}

static void check_authority_key(struct collector_doctor *d)
{
    char *path = os_path_join(d->c->pki_dir, "ca.key");
    enum err e = path ? os_check_private(path) : ERR_NOMEM;

    if (e == ERR_NOTFOUND) {
        check_result_report(d->all, "pki.key", CHECK_RESULT_WARNING,
                            "put ca.key there if hosts are to enrol and renew here",
                            "%s has no ca.key: no host can enrol or renew here", d->c->pki_dir);
    } else if (e) {
        check_result_report(
            d->all, "pki.key", CHECK_RESULT_FAILED,
            "chmod 600 it and give it to the collector's user; if others may have read it, "
            "make a new authority",
            "others can read %s, or we cannot", path ? path : "ca.key");
    } else {
        check_result_report(d->all, "pki.key", CHECK_RESULT_OK, "", "others cannot read %s", path);
    }
    mem_free(path);
}

static bool has_file(const struct collector_doctor *d, const char *name)
{
    char *path = os_path_join(d->c->pki_dir, name);
    bool there = path && os_exists(path);

    mem_free(path);
    return there;
}

static void check_pki(struct collector_doctor *d)
{
    if (has_file(d, "book.db")) {
        check_book(d);
        check_authority_key(d);
        collector_doctor_disk_folder(d->all, "pki.folder", d->c->pki_dir);
        return;
    }
    if (has_file(d, "book")) {
        check_result_report(d->all, "pki.book", CHECK_RESULT_OK, "",
                            "the book in %s is of an older version: it is imported when the "
                            "collector starts",
                            d->c->pki_dir);
        check_authority_key(d);
        return;
    }
    check_result_report(
        d->all, "pki.book", d->c->pki_required ? CHECK_RESULT_FAILED : CHECK_RESULT_SKIPPED,
        d->c->pki_required ? "'procfleet-collector pki init' makes one; or set pki.dir to "
                             "where it is, empty for none"
                           : "",
        "there is no book in '%s': no host can enrol, no certificate can be revoked",
        d->c->pki_dir);
}

static void check_trust(struct collector_doctor *d)
{
    if (check_key(d) == ERR_ACCESS) {
        check_result_report(d->all, "tls.certificate", CHECK_RESULT_SKIPPED, "",
                            "cannot be tried with such a key");
    } else {
        check_certificate(d);
    }
    check_authority(d);
    check_pki(d);
}

/* -- the fleet, as the running collector knows it -- */

/* Hosts of which one thing is true; the first of them by name. */
struct some {
    unsigned n;
    char names[FLEET_NAMES_MAX * 68];
};

struct fleet {
    const struct collector_doctor *d;
    unsigned hosts, connected;
    struct some skewed, cloned, silent;
    uint32_t page_status; /* of the console's page; 0: it did not come */
    size_t page_bytes;
};

static void some_add(struct some *s, struct str name)
{
    size_t used = strlen(s->names);

    if (s->n++ < FLEET_NAMES_MAX) {
        (void)snprintf(s->names + used, sizeof s->names - used, "%s%.*s", used ? ", " : "",
                       (int)(name.n < 64 ? name.n : 64), name.p);
    }
}

static void fleet_look_at(struct fleet *f, const struct wire_host *h)
{
    int64_t off_ns = h->offset_ns < 0 ? clk_sub(0, h->offset_ns) : h->offset_ns;

    f->hosts++;
    f->connected += h->connected;
    if (h->has_offset && off_ns - h->offset_error_ns >= OFFSET_NS) {
        some_add(&f->skewed, h->name);
    }
    if (h->clones > 0) {
        some_add(&f->cloned, h->name);
    }
    if (!h->connected && !h->ended && !h->revoked) {
        some_add(&f->silent, h->name);
    }
}

/* One page. *result says whether there are more. */
static enum err fleet_ask_page(struct fleet *f, struct rpc_client *client,
                               struct rpc_result *result)
{
    struct wire_query q = {.limit = WIRE_ROWS_MAX,
                           .cursor = {(const char *)result->cursor, result->cursor_n}};
    struct wire_answer *a = NULL;
    struct buf request, reply;
    enum err e;

    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_query_encode(&request, &q);
    if (!e) {
        e = rpc_client_call(client, RPC_QUERY_HOSTS, FRAME_RAW, request.p, request.n,
                            f->d->conf->connect_ns, &reply, result);
    }
    if (!e) {
        e = wire_answer_decode(&a, reply.p, reply.n);
    }
    for (size_t i = 0; !e && i < a->n_hosts; i++) {
        fleet_look_at(f, &a->hosts[i]);
    }
    wire_answer_free(a);
    buf_fini(&reply);
    buf_fini(&request);
    return e;
}

/* What a browser would get first, as `procfleet console` asks for it. */
static void fleet_ask_console(struct fleet *f, struct rpc_client *client)
{
    const struct wire_web_request ask = {.path = str_make("/")};
    struct wire_web_reply *page = NULL;
    struct rpc_result result;
    struct buf request, reply;
    enum err e;

    buf_init(&request, 1024);
    buf_init(&reply, REPLY_MAX);
    e = wire_web_request_encode(&request, &ask);
    e = e ? e
          : rpc_client_call(client, RPC_QUERY_WEB, FRAME_RAW, request.p, request.n,
                            f->d->conf->connect_ns, &reply, &result);
    e = e ? e : wire_web_reply_decode(&page, reply.p, reply.n);
    if (!e) {
        f->page_status = page->status;
        f->page_bytes = page->body.n;
    }
    wire_web_reply_free(page);
    buf_fini(&reply);
    buf_fini(&request);
}

static enum err fleet_ask(struct fleet *f, struct rpc_client *client, struct errmsg *why)
{
    struct rpc_result result = {.more = true};
    enum err e = rpc_client_wait(client, f->d->conf->connect_ns, why);

    for (int i = 0; !e && result.more && i < PAGES_MAX; i++) {
        e = fleet_ask_page(f, client, &result);
        if (e == ERR_REFUSED) {
            return errmsg_set(why, e, "the collector answers %s: %s", frame_code_name(result.code),
                              result.message);
        }
    }
    if (!e) {
        fleet_ask_console(f, client);
    }
    return e;
}

static enum err fleet_talk(struct fleet *f, const char *address, struct errmsg *why)
{
    const struct collector_doctor_conf *c = f->d->conf;
    struct net_tls_conf tls_conf = {.ca = c->ca ? c->ca : c->conf->ca,
                                    .cert = c->cert,
                                    .key = c->key,
                                    .server_name = "procfleet-collector"};
    struct net_client_conf conf = {.address = address, .receive_max = REPLY_MAX + (64u << 10)};
    struct tls_config *tls = NULL;
    struct rpc_client *client = NULL;
    enum err e = tls_config_load(&tls, &tls_conf, false, why);

    conf.tls = tls;
    e = e ? e : rpc_client_open(&client, &conf, "procfleet-collector doctor", why);
    e = e ? e : fleet_ask(f, client, why);
    rpc_client_close(client);
    tls_config_free(tls);
    return e;
}

/* What is said of so many hosts. */
struct words {
    const char *check, *none, *one, *many, *fix;
};

static void say_some(struct collector_doctor *d, const struct some *s, const struct words *w)
{
    if (s->n == 0) {
        check_result_report(d->all, w->check, CHECK_RESULT_OK, "", "%s", w->none);
    } else {
        check_result_report(d->all, w->check, CHECK_RESULT_WARNING, w->fix, "%u %s: %s%s", s->n,
                            plural(s->n, w->one, w->many), s->names,
                            s->n > FLEET_NAMES_MAX ? ", …" : "");
    }
}

static void say_fleet(struct collector_doctor *d, const struct fleet *f)
{
    static const struct words silent = {
        "fleet.silent", "no host is silent", "host is silent", "hosts are silent",
        "answers lack their data: see on them 'systemctl status procfleet-agent' and "
        "'procfleet-agent doctor'; of those that are gone for good tell 'procfleet hosts forget "
        "NAME'"};
    static const struct words clocks = {
        "fleet.clocks", "no clock is off by a second or more",
        "host's clock is off by a second or more", "hosts' clocks are off by a second or more",
        "run a time service there; 'procfleet hosts' shows by how much"};
    static const struct words clones = {
        "fleet.clones", "no identity is used twice", "identity is used by more than one machine",
        "identities are used by more than one machine",
        "enrol the copy anew: procfleet-agent enroll --force (docs/operating.md, Clones)"};

    check_result_report(d->all, "fleet.answers", CHECK_RESULT_OK, "",
                        "the collector answers: %u %s, %u of them connected", f->hosts,
                        plural(f->hosts, "host", "hosts"), f->connected);
    say_some(d, &f->silent, &silent);
    say_some(d, &f->skewed, &clocks);
    say_some(d, &f->cloned, &clones);
    if (f->page_status == 200) {
        check_result_report(d->all, "fleet.console", CHECK_RESULT_OK, "",
                            "the console's page is answered: %zu bytes, packed", f->page_bytes);
    } else {
        check_result_report(d->all, "fleet.console", CHECK_RESULT_WARNING,
                            "see the collector's log, and procfleet_console_requests_total of "
                            "'procfleet admin status'; a collector of an older version has no page",
                            "the console's page does not come: %u", f->page_status);
    }
}

/* Where what listens at `address` answers on this machine. */
static void own_address(char *out, size_t size, const char *address)
{
    static const char *const all[] = {"*", "0.0.0.0", "[::]"};
    const char *port = strrchr(address, ':');
    size_t n = port ? (size_t)(port - address) : 0;
    bool any = false;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        any = any || (strlen(all[i]) == n && memcmp(address, all[i], n) == 0);
    }
    (void)snprintf(out, size, "%s%s", any ? "127.0.0.1" : "", any ? port : address);
}

static void check_fleet(struct collector_doctor *d)
{
    struct fleet f = {.d = d};
    struct errmsg why = {""};
    char address[300];
    enum err e;

    if (!d->conf->cert || (!d->running && !d->conf->address)) {
        check_result_report(d->all, "fleet.answers", CHECK_RESULT_SKIPPED, "",
                            d->conf->cert
                                ? "no collector runs here"
                                : "needs a certificate of role query or admin: --cert and --key");
        return;
    }
    own_address(address, sizeof address, d->c->query);
    e = fleet_talk(&f, d->conf->address ? d->conf->address : address, &why);
    if (e) {
        check_result_report(
            d->all, "fleet.answers", CHECK_RESULT_FAILED,
            e == ERR_TRUST || e == ERR_REFUSED || e == ERR_ACCESS
                ? "give a certificate of role query or admin of the collector's authority "
                  "with --cert and --key"
                : "see the collector's log; --collector HOST:PORT says where it answers",
            "%s", why.text[0] ? why.text : err_text(e));
        return;
    }
    say_fleet(d, &f);
}

/* -- the console of listen.console -- */

static void check_console(struct collector_doctor *d)
{
    const char *path = d->c->console_tokens;
    enum err e;

    if (!d->c->console[0] || !path || !path[0]) {
        check_result_report(d->all, "console.tokens", CHECK_RESULT_SKIPPED, "", "%s",
                            d->c->console[0] ? "no tokens" : "listen.console is off");
        return;
    }
    e = os_check_private(path);
    if (e) {
        check_result_report(
            d->all, "console.tokens", CHECK_RESULT_FAILED,
            e == ERR_ACCESS ? "chmod 600 it and give it to the collector's user; if others may "
                              "have read it, make new tokens"
                            : "make it (docs/console.md), or set console.tokens to where it is",
            e == ERR_ACCESS ? "others can read %s, or we cannot" : "%s cannot be looked at", path);
    } else {
        check_result_report(d->all, "console.tokens", CHECK_RESULT_OK, "", "others cannot read %s",
                            path);
    }
}

/* -- all of it -- */

/* Only where it is wanted: otherwise there is no word of it. */
static void check_clickhouse(struct collector_doctor *d)
{
    struct errmsg why = {""};
    struct ch_conf ch;

    if (ch_conf_read(&ch, d->c->source, d->c->data_dir, &why)) {
        check_result_report(d->all, "clickhouse", CHECK_RESULT_FAILED, "correct the setting", "%s",
                            why.text);
    } else if (ch.on) {
        ch_check_run(d->all, &ch, d->c->data_dir, d->conf->now_ns);
    }
    ch_conf_fini(&ch);
}

void collector_doctor_run(struct findings *to, const struct collector_doctor_conf *conf)
{
    struct collector_doctor d = {.conf = conf, .c = conf->conf, .all = to};

    check_result_report(to, "config", CHECK_RESULT_OK, "", "the settings are sound");
    check_result_clock(to, conf->now_ns);
    check_result_clock_sync(to);
    check_running(&d);
    check_listeners(&d);
    check_trust(&d);
    check_console(&d);
    check_clickhouse(&d);
    collector_doctor_disk(to, conf->conf, conf->now_ns, conf->connect_ns, d.running);
    check_limits(&d);
    check_fleet(&d);
}
