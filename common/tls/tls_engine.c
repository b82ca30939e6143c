/* NNG 1.5.2's own engine tells only whether a peer was verified. Ours tells who it is, enforces our
 * rules, and says why it refused (net_conn.c).
 *
 * Identity: to hand it over, tls_engine_identity asks NNG for the pipe's option TLS_VERIFIED; NNG
 * runs the connection's `verified` on the calling thread, which copies the identity to where a
 * thread-local pointer says. No private symbol is used, and nothing is matched by address.
 *
 * Configuration: NNG allocates ours and calls config_init; what to put in comes through another
 * thread-local pointer, set around nng_tls_config_alloc. The configurations that NNG makes for
 * itself (every listener and dialer starts with one) stay empty, and an empty one refuses all
 * connections: forgetting to set ours cannot open a door. */
#include "common/tls/tls_engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>

#include "common/net/net_conn.h"

#define NNG_KNOWN "1.5.2"

/* What config_init gets from the calling thread, see above. */
static _Thread_local struct {
    struct tls_config *tls;
    const struct net_policy *policy;
} call;

/* Every dialer, listener and connection holds one from its first moment to its last. */
static atomic_uint live;

unsigned tls_engine_live(void)
{
    return atomic_load(&live);
}

static int config_init(nng_tls_engine_config *cfg, nng_tls_mode mode)
{
    if (call.tls && mode == NNG_TLS_MODE_CLIENT && tls_session_create(&cfg->session) != ERR_OK) {
        return NNG_ENOMEM;
    }
    if (call.tls) {
        cfg->tls = tls_config_hold(call.tls);
        cfg->policy = *call.policy;
        cfg->policy.crowd = conn_limits_hold(call.policy->crowd);
        cfg->policy.judge = authorizer_hold(call.policy->judge);
        snprintf(cfg->name, sizeof cfg->name, "%s", call.policy->name ? call.policy->name : "");
        cfg->policy.name = cfg->name;
    }
    atomic_fetch_add(&live, 1);
    return 0;
}

static void config_fini(nng_tls_engine_config *cfg)
{
    tls_session_destroy(cfg->session);
    tls_config_free(cfg->tls);
    conn_limits_release(cfg->policy.crowd);
    authorizer_release(cfg->policy.judge);
    if (cfg->policy.release) {
        cfg->policy.release(cfg->policy.ctx);
    }
    atomic_fetch_sub(&live, 1);
}

/* NNG calls these two on the configurations it makes for itself; our rules come from elsewhere. */
static int config_server(nng_tls_engine_config *cfg, const char *name)
{
    (void)cfg;
    (void)name;
    return 0;
}

static int config_auth(nng_tls_engine_config *cfg, nng_tls_auth_mode mode)
{
    (void)cfg;
    (void)mode;
    return 0;
}

static int config_ca_chain(nng_tls_engine_config *cfg, const char *certs, const char *crl)
{
    (void)cfg;
    (void)certs;
    (void)crl;
    return NNG_ENOTSUP;
}

static int config_own_cert(nng_tls_engine_config *cfg, const char *cert, const char *key,
                           const char *pass)
{
    (void)cfg;
    (void)cert;
    (void)key;
    (void)pass;
    return NNG_ENOTSUP;
}

static int config_version(nng_tls_engine_config *cfg, nng_tls_version min, nng_tls_version max)
{
    (void)cfg;
    (void)min;
    (void)max;
    return NNG_ENOTSUP;
}

static nng_tls_engine_config_ops config_ops = {
    .size = sizeof(nng_tls_engine_config),
    .init = config_init,
    .fini = config_fini,
    .server = config_server,
    .auth = config_auth,
    .ca_chain = config_ca_chain,
    .own_cert = config_own_cert,
    .version = config_version,
};

static const nng_tls_engine engine = {
    .version = NNG_TLS_ENGINE_VERSION,
    .config_ops = &config_ops,
    .conn_ops = &net_conn_ops,
    .name = "procfleet",
    .description = "identity per connection, over mbedTLS",
};

enum err tls_engine_register(struct errmsg *why)
{
    /* The engine's interface changed later without a new number of its own. */
    if (strcmp(nng_version(), NNG_KNOWN) != 0) {
        return errmsg_set(why, ERR_VERSION,
                          "this program works with NNG " NNG_KNOWN " only and was linked with %s",
                          nng_version());
    }
    return nng_tls_engine_register(&engine) == 0
               ? ERR_OK
               : errmsg_set(why, ERR_VERSION, "NNG does not take our TLS engine");
}

enum err tls_engine_config(struct nng_tls_config **out, struct tls_config *tls,
                           const struct net_policy *policy)
{
    int rv;

    call.tls = tls;
    call.policy = policy;
    rv = nng_tls_config_alloc(out, tls_config_is_server(tls) ? NNG_TLS_MODE_SERVER
                                                             : NNG_TLS_MODE_CLIENT);
    call.tls = NULL;
    call.policy = NULL;
    return rv == 0 ? ERR_OK : ERR_NOMEM;
}

enum err tls_engine_identity(struct net_identity *out, uint32_t pipe_id)
{
    nng_pipe pipe = {.id = pipe_id};
    struct net_identity who = {.has_host = false};
    bool verified = false;
    int rv;

    net_conn_ask(&who);
    rv = nng_pipe_get_bool(pipe, NNG_OPT_TLS_VERIFIED, &verified);
    net_conn_ask(NULL);
    if (rv != 0 || !verified) {
        return ERR_CLOSED;
    }
    *out = who;
    return ERR_OK;
}
