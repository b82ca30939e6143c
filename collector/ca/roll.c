#include "collector/ca/roll.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

#define FIRST_ROOM 64u

void roll_fini(struct roll *r)
{
    for (size_t i = 0; i < r->n_certs; i++) {
        mem_free(r->certs[i].scope);
        mem_free(r->certs[i].reason);
    }
    mem_free(r->certs);
    mem_free(r->tokens);
    mem_free(r->revoked);
    chain_fini(&r->by_fingerprint);
    chain_fini(&r->by_holder);
    chain_fini(&r->by_name);
    chain_fini(&r->by_token);
    *r = (struct roll){0};
}

/* Room for one more of `size` bytes. */
static enum err reserve(void *list, size_t *max, size_t n, size_t size)
{
    void *old, *p;
    size_t more = *max ? 2 * *max : FIRST_ROOM;

    if (n < *max) {
        return ERR_OK;
    }
    memcpy(&old, list, sizeof old);
    p = mem_realloc_array(old, more, size);
    if (!p) {
        return ERR_NOMEM;
    }
    memcpy(list, &p, sizeof p);
    *max = more;
    return ERR_OK;
}

/* -- keys -- */

static uint64_t bytes_key(const void *p, size_t n)
{
    return hash_bytes(p, n, 0);
}

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static uint64_t holder_key(bool has_host, const struct uuid *host, const char *name)
{
    return has_host ? bytes_key(host->b, sizeof host->b) : bytes_key(name, strlen(name));
}

static bool same_holder(const struct roll_cert *c, bool has_host, const struct uuid *host,
                        const char *name)
{
    return c->has_host == has_host &&
           (has_host ? memcmp(&c->host, host, sizeof *host) == 0 : strcmp(c->name, name) == 0);
}

/* -- looking things up -- */

struct roll_token *roll_token(const struct roll *r, const uint8_t id[PKI_TOKEN_ID_BYTES])
{
    uint32_t i = chain_get(&r->by_token, bytes_key(id, PKI_TOKEN_ID_BYTES));

    while (i && memcmp(r->tokens[i - 1].id, id, PKI_TOKEN_ID_BYTES) != 0) {
        i = r->tokens[i - 1].before;
    }
    return i ? &r->tokens[i - 1] : NULL;
}

static struct roll_cert *find_cert(const struct roll *r, const uint8_t fingerprint[32])
{
    uint32_t i = chain_get(&r->by_fingerprint, bytes_key(fingerprint, 32));

    while (i && memcmp(r->certs[i - 1].fingerprint, fingerprint, 32) != 0) {
        i = r->certs[i - 1].before_fingerprint;
    }
    return i ? &r->certs[i - 1] : NULL;
}

const struct roll_cert *roll_cert(const struct roll *r, const uint8_t fingerprint[32])
{
    return find_cert(r, fingerprint);
}

/* From number + 1 `i` on, the first of that holder. */
static struct roll_cert *first_of(const struct roll *r, uint32_t i, bool has_host,
                                  const struct uuid *host, const char *name)
{
    while (i && !same_holder(&r->certs[i - 1], has_host, host, name)) {
        i = r->certs[i - 1].before_holder;
    }
    return i ? &r->certs[i - 1] : NULL;
}

static struct roll_cert *newest_of(const struct roll *r, bool has_host, const struct uuid *host,
                                   const char *name)
{
    return first_of(r, chain_get(&r->by_holder, holder_key(has_host, host, name)), has_host, host,
                    name);
}

static struct roll_cert *older_of(const struct roll *r, const struct roll_cert *c)
{
    return first_of(r, c->before_holder, c->has_host, &c->host, c->name);
}

const struct roll_cert *roll_holder(const struct roll *r, const struct net_identity *who)
{
    return newest_of(r, who->has_host, &who->host, who->name);
}

const struct roll_cert *roll_before(const struct roll *r, const struct roll_cert *c)
{
    return older_of(r, c);
}

/* Names that differ in case alone are in one chain. */
static uint64_t name_key(const char *name)
{
    char folded[MODEL_HOST_NAME_MAX + 1];
    size_t n = 0;

    for (; name[n] && n < MODEL_HOST_NAME_MAX; n++) {
        folded[n] = fold(name[n]);
    }
    return bytes_key(folded, n);
}

static bool same_word(const char *a, const char *b)
{
    while (*a && fold(*a) == fold(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

/* From number + 1 `i` on, the first of that name; any_case: or of one that differs in case. */
static const struct roll_cert *first_named(const struct roll *r, uint32_t i, const char *name,
                                           bool any_case)
{
    while (i && (any_case ? !same_word(r->certs[i - 1].name, name)
                          : strcmp(r->certs[i - 1].name, name) != 0)) {
        i = r->certs[i - 1].before_same_name;
    }
    return i ? &r->certs[i - 1] : NULL;
}

const struct roll_cert *roll_same_name(const struct roll *r, const char *name)
{
    return first_named(r, chain_get(&r->by_name, name_key(name)), name, false);
}

const struct roll_cert *roll_before_name(const struct roll *r, const struct roll_cert *c)
{
    return first_named(r, c->before_same_name, c->name, false);
}

static bool takes(const struct roll_cert *c, const struct uuid *but, int64_t now_ns)
{
    return roll_cert_valid(c, now_ns) &&
           (!but || (c->has_host && memcmp(&c->host, but, sizeof *but) != 0));
}

const struct roll_cert *roll_name_taken(const struct roll *r, const char *name,
                                        const struct uuid *but, int64_t now_ns)
{
    const struct roll_cert *c = first_named(r, chain_get(&r->by_name, name_key(name)), name, true);

    while (c && !takes(c, but, now_ns)) {
        c = first_named(r, c->before_same_name, name, true);
    }
    return c;
}

const struct roll_cert *roll_host_named(const struct roll *r, const char *name)
{
    const struct roll_cert *c = first_named(r, chain_get(&r->by_name, name_key(name)), name, true);

    while (c && !c->has_host) {
        c = first_named(r, c->before_same_name, name, true);
    }
    return c;
}

static bool concerns(const struct entry *e, const struct net_identity *who)
{
    switch (e->target) {
    case ENTRY_CERT:
        return memcmp(e->who.fingerprint, who->fingerprint, sizeof who->fingerprint) == 0;
    case ENTRY_HOST:
        return who->has_host && memcmp(&e->who.host, &who->host, sizeof who->host) == 0;
    default:
        return !who->has_host && strcmp(e->who.name, who->name) == 0;
    }
}

bool roll_revoked(const struct roll *r, const struct net_identity *who)
{
    const struct roll_cert *c = find_cert(r, who->fingerprint);

    if (c) {
        return c->revoked_ns != 0;
    }
    for (size_t i = 0; i < r->n_revoked; i++) {
        if (concerns(&r->revoked[i], who)) {
            return true;
        }
    }
    return false;
}

/* -- taking entries -- */

static void revoke(struct roll_cert *c, const struct entry *e)
{
    if (c->revoked_ns == 0) {
        c->revoked_ns = e->when_ns;
        c->reason = e->reason[0] ? mem_strdup(e->reason) : NULL; /* words for people only */
    }
}

static enum err add_revoked(struct roll *r, const struct entry *e)
{
    struct roll_cert *c;
    enum err err = reserve(&r->revoked, &r->revoked_max, r->n_revoked, sizeof *r->revoked);

    if (err) {
        return err;
    }
    r->revoked[r->n_revoked++] = *e;
    if (e->target == ENTRY_CERT) {
        c = find_cert(r, e->who.fingerprint);
        if (c) {
            revoke(c, e);
        }
        return ERR_OK;
    }
    for (c = newest_of(r, e->target == ENTRY_HOST, &e->who.host, e->who.name); c;
         c = older_of(r, c)) {
        revoke(c, e);
    }
    return ERR_OK;
}

static enum err reserve_cert(struct roll *r)
{
    enum err e = reserve(&r->certs, &r->certs_max, r->n_certs, sizeof *r->certs);

    if (!e) {
        e = chain_reserve(&r->by_fingerprint);
    }
    if (!e) {
        e = chain_reserve(&r->by_holder);
    }
    return e ? e : chain_reserve(&r->by_name);
}

static void mark_replaced(struct roll *r, const struct net_identity *who)
{
    struct roll_cert *c = newest_of(r, who->has_host, &who->host, who->name);

    while (c && !(c->roles == who->roles && c->replaced)) {
        c->replaced = c->replaced || c->roles == who->roles;
        c = older_of(r, c);
    }
}

static enum err add_cert(struct roll *r, const struct entry *e)
{
    const struct net_identity *who = &e->who;
    uint32_t number = (uint32_t)r->n_certs;
    struct roll_cert *c;
    enum err err = reserve_cert(r);
    char *scope = NULL;

    if (!err && who->scope[0]) {
        scope = mem_strdup(who->scope);
        err = scope ? ERR_OK : ERR_NOMEM;
    }
    if (err) {
        return err;
    }
    mark_replaced(r, who);
    c = &r->certs[r->n_certs++];
    *c = (struct roll_cert){.has_host = who->has_host,
                            .roles = (uint8_t)who->roles,
                            .host = who->host,
                            .issued_ns = e->when_ns,
                            .not_before_ns = who->not_before_ns,
                            .not_after_ns = who->not_after_ns,
                            .scope = scope};
    memcpy(c->fingerprint, who->fingerprint, sizeof c->fingerprint);
    snprintf(c->name, sizeof c->name, "%s", who->name);
    c->before_fingerprint = chain_put(&r->by_fingerprint, bytes_key(c->fingerprint, 32), number);
    c->before_holder = chain_put(&r->by_holder, holder_key(c->has_host, &c->host, c->name), number);
    c->before_same_name = chain_put(&r->by_name, name_key(c->name), number);
    return ERR_OK;
}

static enum err add_enrolled(struct roll *r, const struct entry *e)
{
    struct entry before = {.kind = ENTRY_REVOKED,
                           .when_ns = e->when_ns,
                           .who = e->who,
                           .target = ENTRY_HOST,
                           .reason = "enrolled again"};
    struct roll_token *t = roll_token(r, e->token);
    struct roll_cert *c;
    enum err err = e->again ? add_revoked(r, &before) : ERR_OK;

    if (!err) {
        err = add_cert(r, e); /* when it fails, the revocation comes twice: no harm */
    }
    if (err) {
        return err;
    }
    c = &r->certs[r->n_certs - 1];
    c->again = e->again;
    c->token = t ? (uint32_t)(t - r->tokens) + 1 : 0;
    if (t && t->used_ns == 0) {
        t->used_ns = e->when_ns;
        snprintf(t->used_by, sizeof t->used_by, "%s", e->who.name);
    }
    return ERR_OK;
}

static enum err add_token(struct roll *r, const struct entry *e)
{
    enum err err = reserve(&r->tokens, &r->tokens_max, r->n_tokens, sizeof *r->tokens);
    struct roll_token *t;

    if (!err) {
        err = chain_reserve(&r->by_token);
    }
    if (err) {
        return err;
    }
    t = &r->tokens[r->n_tokens];
    *t = (struct roll_token){.made_ns = e->when_ns, .expires_ns = e->expires_ns, .again = e->again};
    memcpy(t->id, e->token, sizeof t->id);
    memcpy(t->hash, e->hash, sizeof t->hash);
    snprintf(t->names, sizeof t->names, "%s", e->names);
    t->before = chain_put(&r->by_token, bytes_key(t->id, sizeof t->id), (uint32_t)r->n_tokens);
    r->n_tokens++;
    return ERR_OK;
}

enum err roll_add(struct roll *r, const struct entry *e)
{
    struct roll_token *t;

    switch (e->kind) {
    case ENTRY_ISSUED:
        return add_cert(r, e);
    case ENTRY_ENROLLED:
        return add_enrolled(r, e);
    case ENTRY_TOKEN:
        return add_token(r, e);
    case ENTRY_REVOKED:
        return add_revoked(r, e);
    default:
        t = roll_token(r, e->token);
        if (t) {
            t->withdrawn = true;
        }
        return ERR_OK;
    }
}
