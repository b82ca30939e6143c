/* The journal is a rollback journal, not a write-ahead log: between two transactions the file alone
 * is everything, so it can be copied and moved as one file, and read with read permission alone.
 * What is written is a few pages when a host enrols, renews or is revoked. synchronous = EXTRA is
 * FULL, and the directory is synced after the journal is removed: otherwise the journal could come
 * back after a power cut and undo the use of a token.
 *
 * The file is made, with the rows of an older book (ca_import.h), under another name and renamed,
 * so it is there as a whole or not at all. */
#include "collector/ca/ca_db.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "collector/ca/ca_import.h"
#include "collector/db/db.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"

#define LOCK_WAIT_NS (5 * CLK_S)

/* -- who is revoked -- */

/* In memory: what every connection asks, without touching the disk. Three lists, each in the order
 * of its key, each read by one query: certificates that are revoked, those that are not though
 * their holder was revoked once, and the hosts and users of revocations; all others are not
 * revoked. Bounds: the rows of the database. Threads: one owner writes; any number may ask while
 * nobody does. */
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

struct ca_judge {
    struct ca_judge_cert *certs;
    struct ca_judge_host *hosts;
    struct ca_judge_user *users;
    size_t n_certs, n_hosts, n_users;
    size_t cap_certs, cap_hosts, cap_users;
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

/* of a zeroed one, too */
static void ca_judge_fini(struct ca_judge *j)
{
    mem_free(j->certs);
    mem_free(j->hosts);
    mem_free(j->users);
    *j = (struct ca_judge){.n_certs = 0};
}

static enum err cert_take(struct ca_judge *j, sqlite3_stmt *st)
{
    struct ca_judge_cert *c;
    enum err e = VEC_ROOM(&j->certs, &j->cap_certs, j->n_certs + 1, SIZE_MAX);

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
    enum err e = VEC_ROOM(&j->hosts, &j->cap_hosts, j->n_hosts + 1, SIZE_MAX);

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
    enum err e = VEC_ROOM(&j->users, &j->cap_users, j->n_users + 1, SIZE_MAX);

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

/* Reads a zeroed one from the database, in a transaction. Errors: those of db_row, ERR_NOMEM */
static enum err ca_judge_read(struct ca_judge *out, struct db *d)
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

static bool ca_judge_revoked(const struct ca_judge *j, const struct net_identity *who)
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

static bool ca_judge_host_revoked(const struct ca_judge *j, const struct uuid *host)
{
    const struct ca_judge_host *h = host_find(j, host);

    return h && h->newest;
}

/* -- the database -- */

struct ca_db {
    const struct fio *fio;
    char *dir, *path, *journal, *new_path, *new_journal, *lock_path, *old_path, *imported_path;
    bool opened; /* from then on a missing file is an error, not the beginning of a new one */

    struct os_mutex *lock; /* guards all down to `asking`, and is taken before it */
    struct ca_rows rows;
    bool known; /* `state` and `judge` are of the file that is open */
    struct ca_rows_state state;
    bool news; /* revocations that ca_db_refresh has not reported */

    struct os_mutex *asking; /* guards what follows */
    struct ca_judge judge;
};

/* -- asking -- */

const char *ca_db_judge(void *ctx, const struct net_identity *who)
{
    struct ca_db *db = ctx;
    bool revoked;

    os_mutex_lock(db->asking);
    revoked = ca_judge_revoked(&db->judge, who);
    os_mutex_unlock(db->asking);
    return revoked ? "revoked" : NULL;
}

bool ca_db_host_revoked(struct ca_db *db, const struct uuid *host)
{
    bool revoked;

    os_mutex_lock(db->asking);
    revoked = ca_judge_host_revoked(&db->judge, host);
    os_mutex_unlock(db->asking);
    return revoked;
}

/* What is read before a transaction ends, and becomes true when it has ended. */
struct change {
    bool any;
    struct ca_rows_state state;
    struct ca_judge judge;
};

static enum err change_read(struct change *c, struct ca_db *db)
{
    enum err e = ca_rows_state(&db->rows, &c->state);

    if (e || (db->known && c->state.revision == db->state.revision)) {
        return e;
    }
    e = ca_judge_read(&c->judge, &db->rows.db);
    c->any = !e;
    return e;
}

static void change_take(struct ca_db *db, struct change *c)
{
    struct ca_judge old;

    if (!c->any) {
        return;
    }
    os_mutex_lock(db->asking);
    old = db->judge;
    db->judge = c->judge;
    os_mutex_unlock(db->asking);
    ca_judge_fini(&old);
    db->news = db->news || !db->known || c->state.revocation != db->state.revocation;
    db->state = c->state;
    db->known = true;
}

/* -- making and opening the file -- */

static enum err ca_db_lock_files(struct os_lock **lock, const struct ca_db *db, struct errmsg *why)
{
    int64_t until = os_mono_ns() + LOCK_WAIT_NS;
    enum err e;

    while ((e = os_lock(lock, db->lock_path)) == ERR_BUSY && os_mono_ns() < until) {
        os_sleep_ns(2 * CLK_MS);
    }
    return e ? errmsg_set(why, e, "cannot lock %s: %s", db->lock_path, err_text(e)) : ERR_OK;
}

static enum err ca_db_remove(const struct ca_db *db, const char *path)
{
    enum err e = db->fio->remove(db->fio->ctx, path);

    return e == ERR_NOTFOUND ? ERR_OK : e;
}

static enum err ca_db_rename(const struct ca_db *db, const char *from, const char *to)
{
    enum err e = db->fio->rename(db->fio->ctx, from, to);

    return e ? e : db->fio->sync_dir(db->fio->ctx, db->dir);
}

static enum err import_token(struct ca_rows *r, const struct ca_import_entry *x)
{
    struct ca_token t = {.made_ns = x->when_ns, .expires_ns = x->expires_ns, .again = x->again};

    memcpy(t.id, x->token, sizeof t.id);
    memcpy(t.hash, x->hash, sizeof t.hash);
    memcpy(t.names, x->names, sizeof t.names);
    return ca_rows_token_put(r, &t, NULL);
}

/* A token was used or withdrawn. */
static enum err import_token_end(struct ca_rows *r, const struct ca_import_entry *x)
{
    struct ca_token t;
    enum err e = ca_rows_token_get(r, x->token, &t, NULL);

    if (e) {
        return e == ERR_NOTFOUND ? ERR_OK : e; /* the book was tidied */
    }
    if (x->kind == CA_IMPORT_WITHDRAWN) {
        t.withdrawn = true;
    } else if (t.used_ns == 0) {
        t.used_ns = x->when_ns;
        memcpy(t.used_by, x->who.name, sizeof t.used_by);
    }
    return ca_rows_token_put(r, &t, NULL);
}

static enum err import_entry(void *ctx, const struct ca_import_entry *x)
{
    struct ca_rows *r = ctx;
    enum err e = ERR_OK;

    switch (x->kind) {
    case CA_IMPORT_ISSUED:
        return ca_rows_cert_add(r, &x->who, x->when_ns, NULL);
    case CA_IMPORT_REVOKED:
        return ca_rows_revoke(r, (enum ca_rows_target)x->target, &x->who, x->reason, x->when_ns,
                              NULL);
    case CA_IMPORT_TOKEN:
        return import_token(r, x);
    case CA_IMPORT_WITHDRAWN:
        return import_token_end(r, x);
    default:
        break;
    }
    if (x->again) {
        e = ca_rows_revoke(r, CA_ROWS_HOST, &x->who, CA_ROWS_REASON_AGAIN, x->when_ns, NULL);
    }
    if (!e) {
        e = ca_rows_cert_add(r, &x->who, x->when_ns, NULL);
    }
    return e ? e : import_token_end(r, x);
}

/* All of an older book, in one transaction. */
static enum err ca_db_import(struct ca_db *db, struct errmsg *why)
{
    struct ca_rows *r = &db->rows;
    struct ca_import_stamp stamp;
    enum err e = db_run(&r->db, "BEGIN IMMEDIATE");

    if (e) {
        return ca_rows_explain(r, e, why);
    }
    r->in_transaction = true;
    e = ca_import_read(db->old_path, import_entry, r, &stamp, why);
    if (!e) {
        e = ca_rows_imported(r, stamp.generation, stamp.bytes);
        e = ca_rows_explain(r, e ? e : db_run(&r->db, "COMMIT"), why);
    }
    r->in_transaction = false;
    return e;
}

/* The files are locked, and there is none. */
static enum err ca_db_make_file(struct ca_db *db, struct errmsg *why)
{
    bool imported = false;
    enum err e = ca_db_remove(db, db->new_path); /* of a start that was interrupted */

    e = e ? e : ca_db_remove(db, db->new_journal);
    e = e ? e : db_make(&db->rows.db, db->new_path, db->fio, &ca_rows_format);
    if (e) {
        err_ignore(ca_rows_explain(&db->rows, e, why));
    } else if (os_exists(db->old_path)) {
        e = ca_db_import(db, why);
        imported = !e;
    }
    db_close(&db->rows.db);
    if (e) {
        err_ignore(ca_db_remove(db, db->new_path));
        return e;
    }
    /* The journal of a file that is gone would be rolled back into the new one. */
    e = ca_db_remove(db, db->journal);
    e = e ? e : ca_db_rename(db, db->new_path, db->path);
    e = e || !imported ? e : ca_db_rename(db, db->old_path, db->imported_path);
    return ca_rows_explain(&db->rows, e, why);
}

static enum err ca_db_make(struct ca_db *db, struct errmsg *why)
{
    struct os_lock *lock = NULL;
    enum err e = os_owner_check(db->dir, why); /* before the lock, which would be root's */

    e = e ? e : ca_db_lock_files(&lock, db, why);
    if (!e && !os_exists(db->path)) { /* no other process has made it meanwhile */
        e = ca_db_make_file(db, why);
    }
    os_unlock(lock);
    return e;
}

/* An older book that lies beside it: its import may have been interrupted a step before the end. */
static enum err ca_db_put_old_aside(struct ca_db *db, struct errmsg *why)
{
    struct ca_rows_state state;
    struct ca_import_stamp stamp;
    enum err e = ca_import_stamp(db->old_path, &stamp, why);

    if (e) {
        return e == ERR_NOTFOUND ? ERR_OK : e; /* another program has just done it */
    }
    e = ca_rows_state(&db->rows, &state);
    if (e) {
        return ca_rows_explain(&db->rows, e, why);
    }
    if (state.imported != stamp.generation || state.imported_bytes != stamp.bytes) {
        return errmsg_set(why, ERR_EXISTS,
                          "%s is an older book that was not imported into %s: take away the one "
                          "that does not belong there",
                          db->old_path, db->path);
    }
    e = ca_db_rename(db, db->old_path, db->imported_path);
    return e == ERR_NOTFOUND ? ERR_OK : ca_rows_explain(&db->rows, e, why);
}

static enum err ca_db_open_file(struct ca_db *db, struct errmsg *why)
{
    enum err e = ERR_OK;

    if (!os_exists(db->path)) {
        e = db->opened
                ? errmsg_set(why, ERR_NOTFOUND, "%s is gone: bring it back from a copy", db->path)
                : ca_db_make(db, why);
    }
    if (e) {
        return e;
    }
    e = os_check_private(db->path);
    if (e == ERR_ACCESS) {
        return errmsg_set(why, e, "others can read %s: chmod 600 it", db->path);
    }
    db->known = false;
    e = e ? e : db_open(&db->rows.db, db->path, &ca_rows_format);
    e = e ? e : db_check(&db->rows.db);
    e = ca_rows_explain(&db->rows, e, why);
    if (!e && os_exists(db->old_path)) {
        e = ca_db_put_old_aside(db, why);
    }
    if (e) {
        db_close(&db->rows.db);
    }
    return e;
}

/* Opens it again when another file has taken its place. */
static enum err ca_db_ready(struct ca_db *db, struct errmsg *why)
{
    if (db->rows.db.sqlite && !db_moved(&db->rows.db)) {
        return ERR_OK;
    }
    db_close(&db->rows.db);
    return ca_db_open_file(db, why);
}

/* -- transactions -- */

enum err ca_db_begin(struct ca_db *db, struct ca_rows **out, enum ca_db_access access,
                     struct errmsg *why)
{
    enum err e;

    os_mutex_lock(db->lock);
    assert(!db->rows.in_transaction);
    e = ca_db_ready(db, why);
    if (!e) {
        e = db_run(&db->rows.db, access == CA_DB_WRITE ? "BEGIN IMMEDIATE" : "BEGIN");
        e = ca_rows_failed(&db->rows, e, why);
    }
    if (e) {
        os_mutex_unlock(db->lock);
        return e == ERR_NOMEM || e == ERR_NOSPACE ? e : ERR_IO;
    }
    db->rows.in_transaction = true;
    *out = &db->rows;
    return ERR_OK;
}

enum err ca_db_end(struct ca_db *db, enum err e, struct errmsg *why)
{
    struct change change = {.any = false};

    assert(db->rows.in_transaction);
    if (!e) {
        e = change_read(&change, db);
        e = ca_rows_failed(&db->rows, e ? e : db_run(&db->rows.db, "COMMIT"), why);
    }
    if (e) {
        err_ignore(db_run(&db->rows.db, "ROLLBACK"));
        ca_judge_fini(&change.judge);
    } else {
        change_take(db, &change);
    }
    db->rows.in_transaction = false;
    os_mutex_unlock(db->lock);
    return e;
}

static enum err ca_db_look(struct ca_db *db, struct errmsg *why)
{
    struct change change = {.any = false};
    enum err e = ca_db_ready(db, why);

    if (e) {
        return e;
    }
    (void)sqlite3_db_release_memory(db->rows.db.sqlite); /* a copy over it must be seen */
    e = db_run(&db->rows.db, "BEGIN");
    e = e ? e : change_read(&change, db);
    e = e ? e : db_run(&db->rows.db, "COMMIT");
    if (e) {
        err_ignore(db_run(&db->rows.db, "ROLLBACK"));
        ca_judge_fini(&change.judge);
        return ca_rows_explain(&db->rows, e, why);
    }
    change_take(db, &change);
    return ERR_OK;
}

enum err ca_db_refresh(struct ca_db *db, bool *changed, struct errmsg *why)
{
    enum err e;

    os_mutex_lock(db->lock);
    e = ca_db_look(db, why);
    *changed = db->news;
    db->news = false;
    os_mutex_unlock(db->lock);
    return e;
}

enum err ca_db_tidy(struct ca_db *db, int64_t now_ns, struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_WRITE, why);

    return e ? e : ca_db_end(db, ca_rows_tidy(r, now_ns, why), why);
}

enum err ca_db_count(struct ca_db *db, struct ca_rows_counts *out, struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_READ, why);

    return e ? e : ca_db_end(db, ca_rows_count(r, out, why), why);
}

/* -- opening -- */

static enum err ca_db_paths(struct ca_db *db, const char *dir)
{
    const struct {
        char **path;
        const char *name;
    } names[] = {{&db->path, "book.db"},
                 {&db->journal, "book.db-journal"},
                 {&db->new_path, "book.db.new"},
                 {&db->new_journal, "book.db.new-journal"},
                 {&db->lock_path, "book.lock"},
                 {&db->old_path, "book"},
                 {&db->imported_path, "book.imported"}};

    db->dir = mem_strdup(dir);
    for (size_t i = 0; i < sizeof names / sizeof *names && db->dir; i++) {
        *names[i].path = os_path_join(dir, names[i].name);
        if (!*names[i].path) {
            return ERR_NOMEM;
        }
    }
    return db->dir ? ERR_OK : ERR_NOMEM;
}

enum err ca_db_open(struct ca_db **out, const char *dir, const struct fio *fio, struct errmsg *why)
{
    struct ca_db *db = mem_zalloc(sizeof *db);
    bool changed;
    enum err e;

    if (!db) {
        return ERR_NOMEM;
    }
    db->fio = fio ? fio : fio_os();
    e = ca_db_paths(db, dir);
    db->rows = (struct ca_rows){.fio = db->fio, .path = db->path};
    if (!e) {
        e = os_mutex_create(&db->lock);
    }
    if (!e) {
        e = os_mutex_create(&db->asking);
    }
    if (!e && !os_exists(dir)) {
        e = errmsg_set(why, ERR_NOTFOUND,
                       "no authority in %s: make one with 'procfleet-collector pki init --dir %s'",
                       dir, dir);
    }
    if (!e) {
        e = ca_db_refresh(db, &changed, why);
    }
    if (e) {
        ca_db_close(db);
        return e;
    }
    db->opened = true;
    *out = db;
    return ERR_OK;
}

void ca_db_close(struct ca_db *db)
{
    if (db) {
        char *paths[] = {db->dir,         db->path,      db->journal,  db->new_path,
                         db->new_journal, db->lock_path, db->old_path, db->imported_path};

        db_close(&db->rows.db);
        ca_judge_fini(&db->judge);
        os_mutex_destroy(db->asking);
        os_mutex_destroy(db->lock);
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            mem_free(paths[i]);
        }
        mem_free(db);
    }
}
