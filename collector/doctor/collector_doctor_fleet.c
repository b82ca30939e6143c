#include <stdio.h>
#include <string.h>

#include "collector/doctor/collector_doctor_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/net/net.h"
#include "common/rpc/rpc.h"
#include "common/wire/wire_query.h"

#define REPLY_MAX (4u << 20)
#define PAGES_MAX 1000
#define OFFSET_NS CLK_S /* from here on ordering across hosts is worth a word */
#define NAMES_MAX 5u

/* Hosts of which one thing is true; the first of them by name. */
struct some {
    unsigned n;
    char names[NAMES_MAX * 68];
};

struct fleet {
    const struct collector_doctor *d;
    unsigned hosts, connected;
    struct some skewed, cloned, silent;
};

static void add(struct some *s, struct str name)
{
    size_t used = strlen(s->names);

    if (s->n++ < NAMES_MAX) {
        (void)snprintf(s->names + used, sizeof s->names - used, "%s%.*s", used ? ", " : "",
                       (int)(name.n < 64 ? name.n : 64), name.p);
    }
}

static void look_at(struct fleet *f, const struct wire_host *h)
{
    int64_t off_ns = h->offset_ns < 0 ? clk_sub(0, h->offset_ns) : h->offset_ns;

    f->hosts++;
    f->connected += h->connected;
    if (h->has_offset && off_ns - h->offset_error_ns >= OFFSET_NS) {
        add(&f->skewed, h->name);
    }
    if (h->clones > 0) {
        add(&f->cloned, h->name);
    }
    if (!h->connected && !h->ended && !h->revoked) {
        add(&f->silent, h->name);
    }
}

/* One page. *result says whether there are more. */
static enum err ask_page(struct fleet *f, struct rpc_client *client, struct rpc_result *result)
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
        look_at(f, &a->hosts[i]);
    }
    wire_answer_free(a);
    buf_fini(&reply);
    buf_fini(&request);
    return e;
}

static enum err ask(struct fleet *f, struct rpc_client *client, struct errmsg *why)
{
    struct rpc_result result = {.more = true};
    enum err e = rpc_client_wait(client, f->d->conf->connect_ns, why);

    for (int i = 0; !e && result.more && i < PAGES_MAX; i++) {
        e = ask_page(f, client, &result);
        if (e == ERR_REFUSED) {
            return errmsg_set(why, e, "the collector answers %s: %s", frame_code_name(result.code),
                              result.message);
        }
    }
    return e;
}

static enum err talk(struct fleet *f, const char *address, struct errmsg *why)
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
    e = e ? e : ask(f, client, why);
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
                            plural(s->n, w->one, w->many), s->names, s->n > NAMES_MAX ? ", …" : "");
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

void collector_doctor_fleet(struct collector_doctor *d)
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
    e = talk(&f, d->conf->address ? d->conf->address : address, &why);
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
