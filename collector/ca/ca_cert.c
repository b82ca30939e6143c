#include "collector/ca/ca_cert.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/uuid.h"

#define DIGITS_MIN 8u
#define DIGITS_MAX 64u
#define PAGE_ROWS  64u /* of a list */

/* -- issuing -- */

enum err ca_cert_issued(struct ca_db *db, const struct net_identity *who, int64_t now_ns,
                        struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_WRITE, why);

    return e ? e : ca_db_end(db, ca_rows_cert_add(r, who, now_ns, why), why);
}

enum err ca_cert_list(struct ca_db *db, bool (*each)(void *ctx, const struct ca_cert *c), void *ctx,
                      struct errmsg *why)
{
    struct ca_rows *r;
    struct ca_cert *page = mem_array(PAGE_ROWS, sizeof *page);
    enum err e = page ? ERR_OK : ERR_NOMEM;
    size_t n = PAGE_ROWS;
    int64_t after = 0;
    bool go_on = true;

    while (!e && go_on && n == PAGE_ROWS) {
        e = ca_db_begin(db, &r, CA_DB_READ, why);
        e = e ? e : ca_db_end(db, ca_rows_certs(r, &after, page, PAGE_ROWS, &n, why), why);
        for (size_t i = 0; !e && go_on && i < n; i++) {
            go_on = each(ctx, &page[i]);
        }
    }
    mem_free(page);
    return e;
}

struct recent {
    int64_t since_ns;
    size_t n;
};

static bool recent_count(void *ctx, const struct ca_cert *c)
{
    struct recent *x = ctx;

    x->n += c->issued_ns >= x->since_ns;
    return c->issued_ns >= x->since_ns;
}

enum err ca_cert_recent(struct ca_db *db, const struct uuid *host, int64_t since_ns, size_t *n,
                        struct errmsg *why)
{
    const struct net_identity who = {.has_host = true, .host = *host};
    struct recent x = {since_ns, 0};
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_READ, why);

    if (!e) {
        e = ca_db_end(db, ca_rows_find(r, CA_ROWS_BY_HOLDER, &who, 0, recent_count, &x, why), why);
    }
    *n = x.n;
    return e;
}

/* -- who has a name -- */

struct named {
    const struct uuid *but;
    int64_t now_ns;
    bool valid; /* only those, and of anybody; else hosts */
    bool found;
    struct ca_cert *out;
};

static bool named_take(void *ctx, const struct ca_cert *c)
{
    struct named *x = ctx;
    bool other = !x->but || (c->who.has_host && memcmp(&c->who.host, x->but, sizeof *x->but) != 0);

    if (x->valid ? ca_rows_valid(c, x->now_ns) && other : c->who.has_host) {
        *x->out = *c;
        x->found = true;
    }
    return !x->found;
}

static enum err named_find(struct ca_rows *r, const char *name, struct named *x, struct errmsg *why)
{
    struct net_identity key = {.has_host = false};
    size_t n = strlen(name);
    enum err e;

    if (n >= sizeof key.name) {
        return ERR_NOTFOUND;
    }
    memcpy(key.name, name, n + 1);
    e = ca_rows_find(r, CA_ROWS_BY_NAME, &key, 0, named_take, x, why);
    return e || x->found ? e : ERR_NOTFOUND;
}

enum err ca_cert_host_named(struct ca_rows *r, const char *name, struct ca_cert *out,
                            struct errmsg *why)
{
    struct named x = {.out = out};

    return named_find(r, name, &x, why);
}

enum err ca_cert_name_taken(struct ca_rows *r, const char *name, const struct uuid *but,
                            int64_t now_ns, struct ca_cert *out, struct errmsg *why)
{
    struct named x = {.but = but, .now_ns = now_ns, .valid = true, .out = out};

    return named_find(r, name, &x, why);
}

enum err ca_cert_had_host(struct ca_db *db, const char *name, bool *had, struct errmsg *why)
{
    struct ca_cert c;
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_READ, why);

    if (!e) {
        e = ca_db_end(db, ca_cert_host_named(r, name, &c, why), why);
    }
    *had = e == ERR_OK;
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- renewing -- */

static enum err renewal_check(struct ca_rows *r, const struct net_identity *before, int64_t now_ns,
                              struct errmsg *why)
{
    struct ca_cert other;
    bool revoked = false;
    enum err e = ca_rows_revoked(r, before, &revoked, why);

    if (revoked) {
        return errmsg_set(why, ERR_REFUSED,
                          "the certificate is revoked: enrol this host anew, with a token of "
                          "'procfleet-collector pki token create'");
    }
    if (e || now_ns <= before->not_after_ns) {
        return e;
    }
    e = ca_cert_name_taken(r, before->name, &before->host, now_ns, &other, why);
    if (!e) {
        return errmsg_set(why, ERR_REFUSED,
                          "another host was given the name %s meanwhile: enrol this one anew, "
                          "under another name",
                          before->name);
    }
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

enum err ca_cert_may_renew(struct ca_db *db, const struct net_identity *before, int64_t now_ns,
                           struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_READ, why);

    return e ? e : ca_db_end(db, renewal_check(r, before, now_ns, why), why);
}

enum err ca_cert_renewed(struct ca_db *db, const struct net_identity *before,
                         const struct net_identity *who, int64_t now_ns, struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_WRITE, why);

    if (e) {
        return e;
    }
    e = renewal_check(r, before, now_ns, why);
    return ca_db_end(db, e ? e : ca_rows_cert_add(r, who, now_ns, why), why);
}

/* -- revoking: finding out what is meant -- */

struct revocation {
    const char *what;
    int64_t now_ns;
    enum ca_rows_target target;
    struct ca_cert_meant meant;
};

static bool same_holder(const struct net_identity *a, const struct net_identity *b)
{
    return a->has_host == b->has_host && (!a->has_host || memcmp(&a->host, &b->host, 16) == 0);
}

/* Those who have exactly that name. */
struct holders {
    const char *name;
    struct ca_cert first; /* the newest that is not revoked */
    bool any, found, several;
    struct buf list; /* of those, for people */
};

static void holders_list(struct buf *out, const struct ca_cert *c)
{
    char text[UUID_TEXT];

    if (c->revoked_ns || c->replaced || out->n >= 200) {
        return;
    }
    if (c->who.has_host) {
        buf_printf(out, " host %s,", uuid_format(text, &c->who.host));
    } else {
        buf_printf(out, " a user (fingerprint %02x%02x%02x%02x…),", c->who.fingerprint[0],
                   c->who.fingerprint[1], c->who.fingerprint[2], c->who.fingerprint[3]);
    }
}

static bool holders_take(void *ctx, const struct ca_cert *c)
{
    struct holders *h = ctx;

    if (strcmp(c->who.name, h->name) != 0) {
        return true;
    }
    h->any = true;
    holders_list(&h->list, c);
    if (c->revoked_ns) {
        return true;
    }
    h->several = h->several || (h->found && !same_holder(&h->first.who, &c->who));
    if (!h->found) {
        h->first = *c;
        h->found = true;
    }
    return true;
}

/* The one holder of that name who has something that is not revoked. Errors: ERR_NOTFOUND (nobody
 * has the name), ERR_INVALID, ERR_EXISTS */
static enum err revocation_by_name(struct ca_rows *r, struct ca_cert *out, const char *name,
                                   struct errmsg *why)
{
    struct net_identity key = {.has_host = false};
    struct holders h = {.name = name};
    enum err e;

    if (strlen(name) >= sizeof key.name) {
        return ERR_NOTFOUND;
    }
    memcpy(key.name, name, strlen(name) + 1);
    buf_init(&h.list, 300);
    e = ca_rows_find(r, CA_ROWS_BY_NAME, &key, 0, holders_take, &h, why);
    if (!e && h.several) {
        e = errmsg_set(why, ERR_INVALID, "%s means several:%s name one by its UUID or fingerprint",
                       name, buf_cstr(&h.list));
    } else if (!e && h.any && !h.found) {
        e = errmsg_set(why, ERR_EXISTS, "everything of %s is revoked already", name);
    }
    buf_fini(&h.list);
    *out = h.first;
    return e || h.any ? e : ERR_NOTFOUND;
}

/* Digits of a fingerprint; false: something else. */
static bool parse_digits(uint8_t bytes[32], size_t *n, const char *text)
{
    size_t len = strlen(text);

    if (len < DIGITS_MIN || len > DIGITS_MAX) {
        return false;
    }
    memset(bytes, 0, 32);
    for (size_t i = 0; i < len; i++) {
        char c = (char)(text[i] | 0x20);
        int v = text[i] >= '0' && text[i] <= '9' ? text[i] - '0'
                : c >= 'a' && c <= 'f'           ? c - 'a' + 10
                                                 : -1;

        if (v < 0) {
            return false;
        }
        bytes[i / 2] = (uint8_t)(bytes[i / 2] | v << (i % 2 ? 0 : 4));
    }
    *n = len;
    return true;
}

/* Those whose fingerprint begins so. */
struct begins {
    const struct net_identity *but; /* not of this holder; NULL: of anybody */
    struct ca_cert first;
    size_t n;
};

static bool begins_take(void *ctx, const struct ca_cert *c)
{
    struct begins *b = ctx;

    if (b->but && same_holder(b->but, &c->who) &&
        (c->who.has_host || strcmp(b->but->name, c->who.name) == 0)) {
        return true;
    }
    if (b->n++ == 0) {
        b->first = *c;
    }
    return b->n < 2;
}

static enum err begins_find(struct ca_rows *r, struct begins *b, const uint8_t digits[32], size_t n,
                            struct errmsg *why)
{
    struct net_identity key = {.has_host = false};

    memcpy(key.fingerprint, digits, sizeof key.fingerprint);
    return ca_rows_find(r, CA_ROWS_BY_FINGERPRINT, &key, n, begins_take, b, why);
}

/* No other fingerprint begins with that name. */
static enum err revocation_only_name(struct ca_rows *r, const struct ca_cert *named,
                                     const char *what, struct errmsg *why)
{
    struct begins b = {.but = &named->who};
    uint8_t digits[32];
    size_t n;
    enum err e = ERR_OK;

    if (parse_digits(digits, &n, what)) {
        e = begins_find(r, &b, digits, n, why);
    }
    if (e || b.n == 0) {
        return e;
    }
    return errmsg_set(why, ERR_INVALID,
                      "%s is a name, and the beginning of a fingerprint of %s: name one by its "
                      "UUID or by more digits",
                      what, b.first.who.name);
}

struct valid {
    int64_t now_ns;
    size_t n;
};

static bool valid_count(void *ctx, const struct ca_cert *c)
{
    struct valid *v = ctx;

    v->n += ca_rows_valid(c, v->now_ns);
    return true;
}

/* Everything of the host or the user x->meant.who. */
static enum err revocation_of_holder(struct ca_rows *r, struct revocation *x, struct errmsg *why)
{
    struct valid v = {x->now_ns, 0};
    enum err e = ca_rows_find(r, CA_ROWS_BY_HOLDER, &x->meant.who, 0, valid_count, &v, why);

    x->target = x->meant.who.has_host ? CA_ROWS_HOST : CA_ROWS_USER;
    x->meant.valid = v.n;
    return e;
}

static enum err revocation_no_collector(const struct ca_cert *c, struct errmsg *why)
{
    if (c->who.has_host || c->who.roles) {
        return ERR_OK;
    }
    return errmsg_set(
        why, ERR_INVALID,
        "%s is a collector, and agents ask nobody whether it is revoked: when its key "
        "was stolen, make a new authority",
        c->who.name);
}

static bool newest_take(void *ctx, const struct ca_cert *c)
{
    *(struct net_identity *)ctx = c->who;
    return false;
}

static enum err revocation_by_digits(struct ca_rows *r, struct revocation *x, struct errmsg *why)
{
    struct begins b = {.but = NULL};
    uint8_t digits[32];
    size_t n = 0;
    enum err e = ERR_OK;

    if (parse_digits(digits, &n, x->what)) {
        e = begins_find(r, &b, digits, n, why);
    }
    if (e) {
        return e;
    }
    if (b.n > 1) {
        return errmsg_set(why, ERR_INVALID, "several fingerprints begin with %s: give more digits",
                          x->what);
    }
    if (b.n == 0 && n < DIGITS_MAX) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "the book knows no host, name or fingerprint %s: 'pki list --all' shows "
                          "them",
                          x->what);
    }
    x->target = CA_ROWS_CERT;
    x->meant.one_cert = true;
    if (b.n == 0) {
        memcpy(x->meant.who.fingerprint, digits, sizeof digits);
        return ERR_OK;
    }
    x->meant.who = b.first.who;
    x->meant.valid = ca_rows_valid(&b.first, x->now_ns);
    if (b.first.revoked_ns) {
        e = errmsg_set(why, ERR_EXISTS, "%s is revoked already", x->what);
    }
    return revocation_no_collector(&b.first, why) ? ERR_INVALID : e;
}

static enum err revocation_find(struct ca_rows *r, struct revocation *x, struct errmsg *why)
{
    struct ca_cert c;
    enum err e;

    if (uuid_parse(&x->meant.who.host, x->what) == ERR_OK) {
        x->meant.who.has_host = true;
        e = ca_rows_find(r, CA_ROWS_BY_HOLDER, &x->meant.who, 0, newest_take, &x->meant.who, why);
        return e ? e : revocation_of_holder(r, x, why);
    }
    e = revocation_by_name(r, &c, x->what, why);
    if (e == ERR_NOTFOUND) {
        return revocation_by_digits(r, x, why);
    }
    if (!e) {
        e = revocation_only_name(r, &c, x->what, why);
    }
    if (!e) {
        x->meant.who = c.who;
        e = revocation_of_holder(r, x, why);
    }
    return e ? e : revocation_no_collector(&c, why);
}

enum err ca_cert_revoke(struct ca_db *db, const char *what, const char *reason, int64_t now_ns,
                        struct ca_cert_meant *meant, struct errmsg *why)
{
    struct revocation x = {.what = what, .now_ns = now_ns};
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_WRITE, why);

    if (e) {
        return e;
    }
    e = revocation_find(r, &x, why);
    if (!e) {
        e = ca_rows_revoke(r, x.target, &x.meant.who, reason ? reason : "", now_ns, why);
    }
    e = ca_db_end(db, e, why);
    if (!e) {
        *meant = x.meant;
    }
    return e;
}
