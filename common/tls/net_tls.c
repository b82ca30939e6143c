/* Keeps the paths, and the rules of the last reading that went well. Reading again makes new rules
 * and swaps the pointer; nothing that a running handshake uses ever changes. */
#include "common/tls/net_tls.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/tls/net_ticket.h"

struct net_tls {
    atomic_uint refs;
    bool server, lapsed;
    char *ca, *cert, *key; /* NULL with a pin */
    char *crl;             /* NULL: there is none */
    char *server_name;     /* NULL for servers */
    bool pinned;
    uint8_t pin[32];
    struct net_ticket *tickets; /* NULL: there are none */
    struct os_mutex *lock;      /* guards what follows */
    struct net_rules *now;
};

static enum err copy(char **to, const char *from)
{
    *to = from ? mem_strdup(from) : NULL;
    return !from || *to ? ERR_OK : ERR_NOMEM;
}

static enum err copy_conf(struct net_tls *t, const struct net_tls_conf *conf)
{
    enum err e = copy(&t->ca, conf->pin ? NULL : conf->ca);

    if (!e) {
        e = copy(&t->cert, conf->pin ? NULL : conf->cert);
    }
    if (!e) {
        e = copy(&t->key, conf->pin ? NULL : conf->key);
    }
    if (!e) {
        e = copy(&t->crl, t->server ? conf->crl : NULL);
    }
    if (!e) {
        e = copy(&t->server_name, t->server ? NULL : conf->server_name);
    }
    t->lapsed = conf->lapsed;
    if (conf->pin) {
        t->pinned = true;
        memcpy(t->pin, conf->pin, sizeof t->pin);
    }
    return e;
}

/* Whether enough was said to know whom to believe. */
static enum err check_conf(const struct net_tls_conf *conf, bool server, struct errmsg *why)
{
    if (!server && (!conf->server_name || !*conf->server_name)) {
        return errmsg_set(why, ERR_INVALID,
                          "no server name to expect: refusing to connect to "
                          "whoever answers");
    }
    if (conf->pin ? server : !conf->ca || !conf->cert || !conf->key) {
        return errmsg_set(why, ERR_INVALID,
                          "an authority, a certificate and its key are needed for TLS");
    }
    return ERR_OK;
}

enum err net_tls_load(struct net_tls **out, const struct net_tls_conf *conf, bool server,
                      struct errmsg *why)
{
    struct net_tls *t;
    enum err e = check_conf(conf, server, why);

    if (e) {
        return e;
    }
    t = mem_zalloc(sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    atomic_init(&t->refs, 1);
    t->server = server;
    e = copy_conf(t, conf);
    if (!e) {
        e = os_mutex_create(&t->lock);
    }
    if (!e) {
        e = server && conf->tickets ? net_ticket_open(&t->tickets, conf->tickets, os_utc_ns(), why)
                                    : ERR_OK;
    }
    if (!e) {
        e = net_rules_load(&t->now, conf, server, t->tickets, why);
    }
    if (e) {
        net_tls_free(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

enum err net_tls_reload(struct net_tls *t, struct errmsg *why)
{
    struct net_tls_conf conf = {.ca = t->ca,
                                .cert = t->cert,
                                .key = t->key,
                                .crl = t->crl,
                                .server_name = t->server_name,
                                .pin = t->pinned ? t->pin : NULL,
                                .lapsed = t->lapsed};
    struct net_rules *fresh, *old;
    enum err e = net_rules_load(&fresh, &conf, t->server, t->tickets, why);

    if (e) {
        return e;
    }
    os_mutex_lock(t->lock);
    old = t->now;
    t->now = fresh;
    os_mutex_unlock(t->lock);
    net_rules_free(old);
    return ERR_OK;
}

struct net_tls *net_tls_hold(struct net_tls *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void net_tls_free(struct net_tls *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1) {
        return;
    }
    net_rules_free(t->now);
    net_ticket_close(t->tickets);
    os_mutex_destroy(t->lock);
    mem_free(t->server_name);
    mem_free(t->crl);
    mem_free(t->key);
    mem_free(t->cert);
    mem_free(t->ca);
    mem_free(t);
}

struct net_rules *net_tls_rules(struct net_tls *t)
{
    struct net_rules *r;

    os_mutex_lock(t->lock);
    r = net_rules_hold(t->now);
    os_mutex_unlock(t->lock);
    return r;
}

void net_tls_identity(struct net_tls *t, struct net_identity *out)
{
    struct net_rules *r = net_tls_rules(t);

    *out = *net_rules_identity(r);
    net_rules_free(r);
}

bool net_tls_is_server(const struct net_tls *t)
{
    return t->server;
}

const char *net_tls_server_name(const struct net_tls *t)
{
    return t->server_name;
}
