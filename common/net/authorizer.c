#include "common/net/authorizer.h"

#include <stdatomic.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/tls/tls_config.h"

struct authorizer {
    atomic_uint refs;
    struct tls_config *tls;
    struct os_mutex *lock; /* guards what follows, and is held while the owner is asked */
    bool ended;
    const char *(*ask)(void *ctx, const struct net_identity *who);
    void *ctx;
};

enum err authorizer_create(struct authorizer **out, struct tls_config *tls,
                           const char *(*ask)(void *ctx, const struct net_identity *who), void *ctx)
{
    struct authorizer *j = mem_zalloc(sizeof *j);
    enum err e;

    if (!j) {
        return ERR_NOMEM;
    }
    e = os_mutex_create(&j->lock);
    if (e) {
        mem_free(j);
        return e;
    }
    atomic_init(&j->refs, 1);
    j->tls = tls_config_hold(tls);
    j->ask = ask;
    j->ctx = ctx;
    *out = j;
    return ERR_OK;
}

struct authorizer *authorizer_hold(struct authorizer *j)
{
    if (j) {
        atomic_fetch_add(&j->refs, 1);
    }
    return j;
}

void authorizer_release(struct authorizer *j)
{
    if (j && atomic_fetch_sub(&j->refs, 1) == 1) {
        tls_config_free(j->tls);
        os_mutex_destroy(j->lock);
        mem_free(j);
    }
}

const char *authorizer_ask(struct authorizer *j, const struct net_identity *who)
{
    const char *words = NULL;

    if (!j) {
        return NULL;
    }
    if (tls_config_revoked(j->tls, who)) {
        return "on the revocation list";
    }
    os_mutex_lock(j->lock);
    if (j->ended) {
        words = "the listener ends";
    } else if (j->ask) {
        words = j->ask(j->ctx, who);
    }
    os_mutex_unlock(j->lock);
    return words;
}

void authorizer_end(struct authorizer *j)
{
    if (j) {
        os_mutex_lock(j->lock);
        j->ended = true;
        os_mutex_unlock(j->lock);
    }
}
