/* Three lists, each in the order of its key, each read by one query. */
#include "collector/ca/ca_judge.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define FIRST_ROOM 64u

struct ca_judge_cert {
    uint8_t fingerprint[32];
    bool revoked;
};

struct ca_judge_host {
    uint8_t id[16];
    bool whole;  /* certificates of it that the database does not know are revoked */
    bool newest; /* its newest certificate is revoked */
};

struct ca_judge_user { /* certificates of it that the database does not know are revoked */
    char name[64];
};

static const char certs_sql[] =
    "SELECT fp, revoked_ns != 0 FROM cert WHERE revoked_ns != 0"
    " OR host IN (SELECT host FROM revocation WHERE host IS NOT NULL)"
    " OR host IS NULL AND name IN (SELECT name FROM revocation WHERE name IS NOT NULL)"
    " UNION ALL SELECT DISTINCT fp, 1 FROM revocation r WHERE fp IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM cert c WHERE c.fp = r.fp) ORDER BY 1";

static const char hosts_sql[] =
    "SELECT host, max(whole), max(newest) FROM ("
    "SELECT host, 1 AS whole, NOT EXISTS (SELECT 1 FROM cert c WHERE c.host = r.host) AS newest"
    " FROM revocation r WHERE host IS NOT NULL UNION ALL "
    "SELECT host, 0, 1 FROM cert c WHERE host IS NOT NULL AND revoked_ns != 0"
    " AND id = (SELECT max(id) FROM cert d WHERE d.host = c.host)) GROUP BY host ORDER BY 1";

static const char users_sql[] =
    "SELECT DISTINCT name FROM revocation WHERE name IS NOT NULL ORDER BY 1";

/* -- reading -- */

/* Room for one more of `size` bytes in a list of n; it grows at powers of two. */
static enum err list_reserve(void *list, size_t n, size_t size)
{
    void *old, *p;

    if (n & (n - 1) || (n && n < FIRST_ROOM)) {
        return ERR_OK;
    }
    memcpy(&old, list, sizeof old);
    p = mem_realloc_array(old, n ? 2 * n : FIRST_ROOM, size);
    if (!p) {
        return ERR_NOMEM;
    }
    memcpy(list, &p, sizeof p);
    return ERR_OK;
}

static enum err cert_take(struct ca_judge *j, sqlite3_stmt *st)
{
    struct ca_judge_cert *c;
    enum err e = list_reserve(&j->certs, j->n_certs, sizeof *j->certs);

    if (e) {
        return e;
    }
    c = &j->certs[j->n_certs++];
    c->revoked = sqlite3_column_int(st, 1) != 0;
    return db_bytes(st, 0, c->fingerprint, sizeof c->fingerprint) ? ERR_OK : ERR_CORRUPT;
}

static enum err host_take(struct ca_judge *j, sqlite3_stmt *st)
{
    struct ca_judge_host *h;
    enum err e = list_reserve(&j->hosts, j->n_hosts, sizeof *j->hosts);

    if (e) {
        return e;
    }
    h = &j->hosts[j->n_hosts++];
    h->whole = sqlite3_column_int(st, 1) != 0;
    h->newest = sqlite3_column_int(st, 2) != 0;
    return db_bytes(st, 0, h->id, sizeof h->id) ? ERR_OK : ERR_CORRUPT;
}

static enum err user_take(struct ca_judge *j, sqlite3_stmt *st)
{
    enum err e = list_reserve(&j->users, j->n_users, sizeof *j->users);

    if (e) {
        return e;
    }
    return db_text(st, 0, j->users[j->n_users++].name, sizeof j->users->name) ? ERR_OK
                                                                              : ERR_CORRUPT;
}

static enum err list_read(struct ca_judge *j, struct db *d, const char *sql,
                          enum err (*take)(struct ca_judge *j, sqlite3_stmt *st))
{
    sqlite3_stmt *st = NULL;
    enum err e = db_error(d, sqlite3_prepare_v2(d->sqlite, sql, -1, &st, NULL));

    while (!e && (e = db_row(d, st), !e)) {
        e = take(j, st);
    }
    (void)sqlite3_finalize(st);
    return e == ERR_END ? ERR_OK : e;
}

enum err ca_judge_read(struct ca_judge *out, struct db *d)
{
    enum err e = list_read(out, d, certs_sql, cert_take);

    if (!e) {
        e = list_read(out, d, hosts_sql, host_take);
    }
    if (!e) {
        e = list_read(out, d, users_sql, user_take);
    }
    if (e) {
        ca_judge_fini(out);
    }
    return e;
}

void ca_judge_fini(struct ca_judge *j)
{
    mem_free(j->certs);
    mem_free(j->hosts);
    mem_free(j->users);
    *j = (struct ca_judge){.n_certs = 0};
}

/* -- asking -- */

static int cert_order(const void *key, const void *entry)
{
    return memcmp(key, ((const struct ca_judge_cert *)entry)->fingerprint, 32);
}

static int host_order(const void *key, const void *entry)
{
    return memcmp(key, ((const struct ca_judge_host *)entry)->id, 16);
}

static int user_order(const void *key, const void *entry)
{
    return strcmp(key, ((const struct ca_judge_user *)entry)->name);
}

static const void *list_find(const void *key, const void *list, size_t n, size_t size,
                             int (*order)(const void *key, const void *entry))
{
    return n ? bsearch(key, list, n, size, order) : NULL;
}

static const struct ca_judge_host *host_find(const struct ca_judge *j, const struct uuid *host)
{
    return list_find(host->b, j->hosts, j->n_hosts, sizeof *j->hosts, host_order);
}

bool ca_judge_revoked(const struct ca_judge *j, const struct net_identity *who)
{
    const struct ca_judge_cert *c =
        list_find(who->fingerprint, j->certs, j->n_certs, sizeof *j->certs, cert_order);
    const struct ca_judge_host *h;

    if (c) {
        return c->revoked;
    }
    if (who->has_host) {
        h = host_find(j, &who->host);
        return h && h->whole;
    }
    return list_find(who->name, j->users, j->n_users, sizeof *j->users, user_order) != NULL;
}

bool ca_judge_host_revoked(const struct ca_judge *j, const struct uuid *host)
{
    const struct ca_judge_host *h = host_find(j, host);

    return h && h->newest;
}
