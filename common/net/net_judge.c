#include "common/net/net_judge.h"

#include <stdatomic.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/tls/net_tls.h"

struct net_judge {
    atomic_uint refs;
    struct net_tls *tls;
    struct os_mutex *lock; /* guards what follows, and is held while the owner is asked */
    bool ended;
    const char *(*ask)(void *ctx, const struct net_identity *who);
    void *ctx;
};

enum err net_judge_create(struct net_judge **out, struct net_tls *tls,
                          const char *(*ask)(void *ctx, const struct net_identity *who), void *ctx)
{
    struct net_judge *j = mem_zalloc(sizeof *j);
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
    j->tls = net_tls_hold(tls);
    j->ask = ask;
    j->ctx = ctx;
    *out = j;
    return ERR_OK;
}

struct net_judge *net_judge_hold(struct net_judge *j)
{
    if (j) {
        atomic_fetch_add(&j->refs, 1);
    }
    return j;
}

void net_judge_release(struct net_judge *j)
{
    if (j && atomic_fetch_sub(&j->refs, 1) == 1) {
        net_tls_free(j->tls);
        os_mutex_destroy(j->lock);
        mem_free(j);
    }
}

static bool is_on_the_list(struct net_judge *j, const struct net_identity *who)
{
    struct net_rules *rules = net_tls_rules(j->tls);
    bool revoked = net_rules_revoked(rules, who);

    net_rules_free(rules);
    return revoked;
}

const char *net_judge_ask(struct net_judge *j, const struct net_identity *who)
{
    const char *words = NULL;

    if (!j) {
        return NULL;
    }
    if (is_on_the_list(j, who)) {
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

void net_judge_end(struct net_judge *j)
{
    if (j) {
        os_mutex_lock(j->lock);
        j->ended = true;
        os_mutex_unlock(j->lock);
    }
}
