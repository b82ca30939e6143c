/* Keeps the paths, and the rules of the last reading that went well. Reading again makes new rules
 * and swaps the pointer; nothing that a running handshake uses ever changes. */
#include "common/tls/tls_config.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/tls/tls_context.h"
#include "common/tls/tls_ticket.h"

struct tls_config {
    atomic_uint refs;
    bool server, lapsed;
    char *ca, *cert, *key; /* NULL with a pin */
    char *crl;             /* NULL: there is none */
    char *server_name;     /* NULL for servers */
    bool pinned;
    uint8_t pin[32];
    struct tls_ticket *tickets; /* NULL: there are none */
    struct os_mutex *lock;      /* guards what follows */
    struct tls_context *now;
};

static enum err config_copy(char **to, const char *from)
{
    *to = from ? mem_strdup(from) : NULL;
    return !from || *to ? ERR_OK : ERR_NOMEM;
}

static enum err config_copy_all(struct tls_config *t, const struct net_tls_conf *conf)
{
    enum err e = config_copy(&t->ca, conf->pin ? NULL : conf->ca);

    if (!e) {
        e = config_copy(&t->cert, conf->pin ? NULL : conf->cert);
    }
    if (!e) {
        e = config_copy(&t->key, conf->pin ? NULL : conf->key);
    }
    if (!e) {
        e = config_copy(&t->crl, t->server ? conf->crl : NULL);
    }
    if (!e) {
        e = config_copy(&t->server_name, t->server ? NULL : conf->server_name);
    }
    t->lapsed = conf->lapsed;
    if (conf->pin) {
        t->pinned = true;
        memcpy(t->pin, conf->pin, sizeof t->pin);
    }
    return e;
}

/* Whether enough was said to know whom to believe. */
static enum err config_check(const struct net_tls_conf *conf, bool server, struct errmsg *why)
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

enum err tls_config_load(struct tls_config **out, const struct net_tls_conf *conf, bool server,
                         struct errmsg *why)
{
    struct tls_config *t;
    enum err e = config_check(conf, server, why);

    if (e) {
        return e;
    }
    t = mem_zalloc(sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    atomic_init(&t->refs, 1);
    t->server = server;
    e = config_copy_all(t, conf);
    if (!e) {
        e = os_mutex_create(&t->lock);
    }
    if (!e) {
        e = server && conf->tickets ? tls_ticket_open(&t->tickets, conf->tickets, os_utc_ns(), why)
                                    : ERR_OK;
    }
    if (!e) {
        e = tls_context_load(&t->now, conf, server, t->tickets, why);
    }
    if (e) {
        tls_config_free(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

enum err tls_config_reload(struct tls_config *t, struct errmsg *why)
{
    struct net_tls_conf conf = {.ca = t->ca,
                                .cert = t->cert,
                                .key = t->key,
                                .crl = t->crl,
                                .server_name = t->server_name,
                                .pin = t->pinned ? t->pin : NULL,
                                .lapsed = t->lapsed};
    struct tls_context *fresh, *old;
    enum err e = tls_context_load(&fresh, &conf, t->server, t->tickets, why);

    if (e) {
        return e;
    }
    os_mutex_lock(t->lock);
    old = t->now;
    t->now = fresh;
    os_mutex_unlock(t->lock);
    tls_context_free(old);
    return ERR_OK;
}

struct tls_config *tls_config_hold(struct tls_config *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void tls_config_free(struct tls_config *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1) {
        return;
    }
    tls_context_free(t->now);
    tls_ticket_close(t->tickets);
    os_mutex_destroy(t->lock);
    mem_free(t->server_name);
    mem_free(t->crl);
    mem_free(t->key);
    mem_free(t->cert);
    mem_free(t->ca);
    mem_free(t);
}

struct tls_context *tls_config_rules(struct tls_config *t)
{
    struct tls_context *r;

    os_mutex_lock(t->lock);
    r = tls_context_hold(t->now);
    os_mutex_unlock(t->lock);
    return r;
}

void tls_config_identity(struct tls_config *t, struct net_identity *out)
{
    struct tls_context *r = tls_config_rules(t);

    *out = *tls_context_identity(r);
    tls_context_free(r);
}

bool tls_config_revoked(struct tls_config *t, const struct net_identity *who)
{
    struct tls_context *r = tls_config_rules(t);
    bool revoked = tls_context_revoked(r, who);

    tls_context_free(r);
    return revoked;
}

bool tls_config_is_server(const struct tls_config *t)
{
    return t->server;
}

const char *tls_config_server_name(const struct tls_config *t)
{
    return t->server_name;
}
