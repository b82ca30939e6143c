#include "agent/agent_identity.h"

#include <stdio.h>
#include <string.h>

static struct trust_files files_of(const struct agent_conf *c)
{
    return (struct trust_files){.ca = c->ca, .cert = c->cert, .key = c->key};
}

static enum err load(struct agent_identity *i, const struct agent_conf *c, struct errmsg *why)
{
    struct net_tls_conf tls = {
        .ca = c->ca, .cert = c->cert, .key = c->key, .server_name = c->server_name, .lapsed = true};
    struct errmsg inner = {""};
    enum err e = tls_config_load(&i->tls, &tls, false, &inner);

    if (e) {
        return errmsg_set(why, e, "%s%s", inner.text[0] ? inner.text : err_text(e),
                          e == ERR_NOTFOUND
                              ? "; get one with 'procfleet-agent enroll --collector HOST "
                                "--token-file FILE', with the token that 'procfleet-collector pki "
                                "token create' prints"
                          : e == ERR_TRUST ? "; mend tls.ca, tls.cert and tls.key, or enrol anew "
                                             "with 'procfleet-agent enroll --force'"
                                           : "");
    }
    tls_config_identity(i->tls, &i->own);
    return ERR_OK;
}

enum err agent_identity_open(struct agent_identity *i, const struct agent_conf *conf,
                             const char *name, struct errmsg *why)
{
    struct trust_files files = files_of(conf);
    enum err e = trust_files_mend(&files, why);

    if (!e) {
        e = load(i, conf, why);
    }
    if (e) {
        return e;
    }
    if (!i->own.has_host || !(i->own.roles & NET_AGENT)) {
        return errmsg_set(why, ERR_TRUST,
                          "%s is not an agent's certificate; get one with 'procfleet-agent enroll'",
                          conf->cert);
    }
    if (name && strcmp(name, i->own.name) != 0) {
        return errmsg_set(why, ERR_USAGE,
                          "--name %s, but the certificate %s is of host %s; the collector believes "
                          "the certificate: leave --name out or get one for %s",
                          name, conf->cert, i->own.name, name);
    }
    return ERR_OK;
}

static enum err call(void *ctx, const char *method, const void *p, size_t n, int64_t timeout_ns,
                     struct buf *reply, struct rpc_result *result)
{
    return uplink_call(ctx, method, p, n, timeout_ns, reply, result);
}

static void renewed(void *ctx)
{
    uplink_refresh(ctx);
}

enum err agent_identity_keep(struct agent_identity *i, const struct agent_conf *conf,
                             struct uplink *uplink)
{
    struct renew_conf renew = {.tls = i->tls,
                               .files = files_of(conf),
                               .enroll_address = conf->enroll_address,
                               .server_name = conf->server_name,
                               .call = call,
                               .renewed = renewed,
                               .ctx = uplink};

    return renew_start(&i->renew, &renew);
}

void agent_identity_rest(struct agent_identity *i)
{
    renew_stop(i->renew);
    i->renew = NULL;
}

void agent_identity_close(struct agent_identity *i)
{
    agent_identity_rest(i);
    tls_config_free(i->tls);
    i->tls = NULL;
}

static void ask(const struct agent_identity *i, struct renew_status *s)
{
    memset(s, 0, sizeof *s);
    s->not_after_ns = i->own.not_after_ns;
    if (i->renew) {
        renew_status(i->renew, s);
    }
}

size_t agent_identity_ledger(const struct agent_identity *i, struct ledger_row *rows, size_t max)
{
    struct renew_status s;
    size_t n = 0;

    ask(i, &s);
    if (n < max) {
        rows[n++] = (struct ledger_row){str_make("trust"), str_make("renewed"), s.renewed};
    }
    if (n < max) {
        rows[n++] = (struct ledger_row){str_make("trust"), str_make("renew_failed"), s.failed};
    }
    return n;
}

void agent_identity_tell(const struct agent_identity *i, struct status *out)
{
    struct renew_status s;

    ask(i, &s);
    out->certificate_end_ns = s.not_after_ns;
    out->renew_ns = s.next_ns;
    out->renewed = s.renewed;
    out->renew_failed = s.failed;
    (void)snprintf(out->renew_why, sizeof out->renew_why, "%s", s.why);
}
