/* Tables:
 *
 *   token(id, hash, names, again, withdrawn, made_ns, expires_ns, used_ns, used_by)
 *   cert(id, fp, host, name, roles, scope, not_before_ns, not_after_ns, issued_ns, replaced,
 *        revoked_ns, reason)                            by fp, host, name in any case
 *   revocation(id, when_ns, reason, and one of fp, host, name)
 *   meta(revision, imported, imported_bytes)            one row
 *
 * A revocation of a host or a user concerns the certificates that were there before it, where it
 * is entered at once (cert.revoked_ns), and those that the database does not know. Whatever changes
 * who is revoked (ca_db.c) sets meta.revision to another random number, in the transaction. */
#include "collector/ca/ca_rows.h"

#include <assert.h>
#include <sqlite3.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/pki/pki.h"

#define TIDY_ROWS 1000           /* fewer are not worth it */
#define OVER_NS   (3600 * CLK_S) /* a replaced certificate, after its end */
#define KEEP_NS   (CA_ROWS_GRACE_MAX + 86400 * CLK_S)

#define TOKEN_COLUMNS \
    "rowid, id, hash, names, again, withdrawn, made_ns, expires_ns, used_ns, used_by"
#define CERT_COLUMNS                                                                      \
    "id, fp, host, name, roles, scope, not_before_ns, not_after_ns, issued_ns, replaced," \
    " revoked_ns, reason"
#define CERT_OVER "not_after_ns <= CASE WHEN replaced AND revoked_ns = 0 THEN ?1 ELSE ?2 END"

enum statement {
    S_COUNTS,
    S_STATE,
    S_REVISE,
    S_IMPORTED,
    S_TOKEN_GET,
    S_TOKEN_PUT,
    S_TOKENS,
    S_CERT_TOUCH,
    S_CERT_REPLACE,
    S_CERT_ADD,
    S_CERTS,
    S_CERTS_HOST,
    S_CERTS_USER,
    S_CERTS_NAME,
    S_CERTS_RANGE,
    S_REVOKED,
    S_REVOKE,
    S_REVOKE_CERT,
    S_REVOKE_HOST,
    S_REVOKE_USER,
    S_OVER,
    S_TIDY_CERTS,
    S_TIDY_TOKENS,
    N_STATEMENTS
};

static const char *const statements[N_STATEMENTS] = {
    [S_COUNTS] = "SELECT (SELECT count(*) FROM cert), (SELECT count(*) FROM token),"
                 " (SELECT count(*) FROM revocation)",
    [S_STATE] = "SELECT revision, imported, imported_bytes,"
                " (SELECT coalesce(max(id), 0) FROM revocation) FROM meta",
    [S_REVISE] = "UPDATE meta SET revision = random()",
    [S_IMPORTED] = "UPDATE meta SET imported = ?1, imported_bytes = ?2",
    [S_TOKEN_GET] = "SELECT " TOKEN_COLUMNS " FROM token WHERE id = ?1",
    [S_TOKEN_PUT] =
        "INSERT INTO token(id, hash, names, again, withdrawn, made_ns, expires_ns, used_ns, "
        "used_by)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT(id) DO UPDATE SET hash = ?2,"
        " names = ?3, again = ?4, withdrawn = ?5, made_ns = ?6, expires_ns = ?7, used_ns = ?8,"
        " used_by = ?9",
    [S_TOKENS] = "SELECT " TOKEN_COLUMNS " FROM token WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
    [S_CERT_TOUCH] = "UPDATE meta SET revision = random() WHERE"
                     " EXISTS (SELECT 1 FROM revocation WHERE host = ?1)"
                     " OR ?1 IS NULL AND EXISTS (SELECT 1 FROM revocation WHERE name = ?2)"
                     " OR EXISTS (SELECT 1 FROM cert WHERE host = ?1 AND revoked_ns != 0)"
                     " OR EXISTS (SELECT 1 FROM cert WHERE fp = ?3 AND revoked_ns != 0)"
                     " OR EXISTS (SELECT 1 FROM revocation WHERE fp = ?3)",
    [S_CERT_REPLACE] = "UPDATE cert SET replaced = 1 WHERE NOT replaced AND roles = ?3"
                       " AND (host = ?1 OR ?1 IS NULL AND host IS NULL AND name = ?2)",
    [S_CERT_ADD] =
        "INSERT OR REPLACE INTO cert(host, name, fp, roles, scope, not_before_ns, not_after_ns,"
        " issued_ns) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [S_CERTS] = "SELECT " CERT_COLUMNS " FROM cert WHERE id > ?1 ORDER BY id LIMIT ?2",
    [S_CERTS_HOST] = "SELECT " CERT_COLUMNS " FROM cert WHERE host = ?1 ORDER BY id DESC",
    [S_CERTS_USER] = "SELECT " CERT_COLUMNS
                     " FROM cert WHERE name = ?1 COLLATE NOCASE AND name = ?1 COLLATE BINARY"
                     " AND host IS NULL ORDER BY id DESC",
    [S_CERTS_NAME] =
        "SELECT " CERT_COLUMNS " FROM cert WHERE name = ?1 COLLATE NOCASE ORDER BY id DESC",
    [S_CERTS_RANGE] = "SELECT " CERT_COLUMNS " FROM cert WHERE fp BETWEEN ?1 AND ?2 ORDER BY id",
    [S_REVOKED] = "SELECT coalesce((SELECT revoked_ns != 0 FROM cert WHERE fp = ?1),"
                  " EXISTS (SELECT 1 FROM revocation WHERE fp = ?1)"
                  " OR EXISTS (SELECT 1 FROM revocation WHERE host = ?2)"
                  " OR ?2 IS NULL AND EXISTS (SELECT 1 FROM revocation WHERE name = ?3))",
    [S_REVOKE] = "INSERT INTO revocation(when_ns, reason, fp, host, name)"
                 " VALUES(?1, ?2, ?3, ?4, ?5)",
    [S_REVOKE_CERT] =
        "UPDATE cert SET revoked_ns = ?1, reason = ?2 WHERE fp = ?3 AND revoked_ns = 0",
    [S_REVOKE_HOST] =
        "UPDATE cert SET revoked_ns = ?1, reason = ?2 WHERE host = ?4 AND revoked_ns = 0",
    [S_REVOKE_USER] = "UPDATE cert SET revoked_ns = ?1, reason = ?2 WHERE name = ?5 COLLATE NOCASE"
                      " AND name = ?5 COLLATE BINARY AND host IS NULL AND revoked_ns = 0",
    [S_OVER] = "SELECT (SELECT count(*) FROM cert WHERE " CERT_OVER ")"
               " + (SELECT count(*) FROM token WHERE expires_ns <= ?2)",
    [S_TIDY_CERTS] = "DELETE FROM cert WHERE " CERT_OVER,
    [S_TIDY_TOKENS] = "DELETE FROM token WHERE expires_ns <= ?2",
};

const struct db_format ca_rows_format = {
    .app_id = 0x70666361, /* "pfca" */
    .version = 1,
    .schema =
        "CREATE TABLE token(id BLOB NOT NULL UNIQUE, hash BLOB NOT NULL, names TEXT NOT NULL,"
        " again INTEGER NOT NULL, withdrawn INTEGER NOT NULL, made_ns INTEGER NOT NULL,"
        " expires_ns INTEGER NOT NULL, used_ns INTEGER NOT NULL, used_by TEXT NOT NULL) STRICT;"
        "CREATE TABLE cert(id INTEGER PRIMARY KEY, fp BLOB NOT NULL UNIQUE, host BLOB,"
        " name TEXT NOT NULL, roles INTEGER NOT NULL, scope TEXT NOT NULL,"
        " not_before_ns INTEGER NOT NULL, not_after_ns INTEGER NOT NULL,"
        " issued_ns INTEGER NOT NULL, replaced INTEGER NOT NULL DEFAULT 0,"
        " revoked_ns INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '') STRICT;"
        "CREATE INDEX cert_host ON cert(host) WHERE host IS NOT NULL;"
        "CREATE INDEX cert_name ON cert(name COLLATE NOCASE);"
        "CREATE TABLE revocation(id INTEGER PRIMARY KEY, when_ns INTEGER NOT NULL,"
        " reason TEXT NOT NULL, fp BLOB, host BLOB, name TEXT) STRICT;"
        "CREATE INDEX revocation_fp ON revocation(fp) WHERE fp IS NOT NULL;"
        "CREATE INDEX revocation_host ON revocation(host) WHERE host IS NOT NULL;"
        "CREATE INDEX revocation_name ON revocation(name) WHERE name IS NOT NULL;"
        "CREATE TABLE meta(revision INTEGER NOT NULL, imported INTEGER NOT NULL,"
        " imported_bytes INTEGER NOT NULL) STRICT;"
        "INSERT INTO meta VALUES(random(), 0, 0);",
    .settings = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;"
                "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;"
                "PRAGMA cell_size_check = ON;",
    .statements = statements,
    .n_statements = N_STATEMENTS,
};

/* -- errors -- */

enum err ca_rows_explain(const struct ca_rows *r, enum err e, struct errmsg *why)
{
    struct fio_file *f;

    if (e == ERR_READONLY || e == ERR_ACCESS) { /* SQLite does not say which; opening it does */
        enum err opened = r->fio->open(r->fio->ctx, &f, r->path);

        if (!opened) {
            r->fio->close(r->fio->ctx, f);
        } else if (opened == ERR_READONLY || opened == ERR_ACCESS) {
            e = opened;
        }
    }
    switch (e) {
    case ERR_OK:
        return ERR_OK;
    case ERR_ACCESS:
        return errmsg_set(
            why, e, "no right to use %s: run this as the user that the collector runs as", r->path);
    case ERR_READONLY:
        return errmsg_set(why, e, "cannot write %s: the disk is read-only; mount it writable",
                          r->path);
    case ERR_CORRUPT:
        return errmsg_set(
            why, e,
            "%s is damaged: bring it back from a copy, with the collector stopped and "
            "without the -journal beside it",
            r->path);
    case ERR_VERSION:
        return errmsg_set(why, e, "%s was written by a later version", r->path);
    case ERR_BUSY:
        return errmsg_set(why, e, "another program has used %s for seconds: try again", r->path);
    default:
        return errmsg_set(why, e, "cannot use %s: %s", r->path, err_text(e));
    }
}

enum err ca_rows_failed(const struct ca_rows *r, enum err e, struct errmsg *why)
{
    switch (e) {
    case ERR_OK:
        return ERR_OK;
    case ERR_NOMEM:
    case ERR_NOSPACE:
    case ERR_FULL:
        return ca_rows_explain(r, e, why);
    default:
        err_ignore(ca_rows_explain(r, e, why));
        return ERR_IO;
    }
}

static sqlite3_stmt *rows_st(struct ca_rows *r, enum statement which)
{
    assert(r->in_transaction);
    return r->db.st[which];
}

static bool is_of(const char *text, size_t max, const char *others)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!plain && !strchr(others, c)) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

static enum err rows_count(struct ca_rows *r, struct ca_rows_counts *out)
{
    sqlite3_stmt *st = rows_st(r, S_COUNTS);
    enum err e = db_row(&r->db, st);

    if (!e) {
        *out = (struct ca_rows_counts){.certs = (size_t)sqlite3_column_int64(st, 0),
                                       .tokens = (size_t)sqlite3_column_int64(st, 1),
                                       .revocations = (size_t)sqlite3_column_int64(st, 2)};
        out->rows = out->certs + out->tokens + out->revocations;
        (void)sqlite3_reset(st);
    }
    return e;
}

/* Whether one more row fits. */
static enum err rows_room(struct ca_rows *r, struct errmsg *why)
{
    struct ca_rows_counts s;
    enum err e = rows_count(r, &s);

    if (!e && s.rows >= CA_ROWS_MAX) {
        return errmsg_set(why, ERR_FULL, "%s has %zu rows: no more fit", r->path, s.rows);
    }
    return ca_rows_failed(r, e, why);
}

enum err ca_rows_count(struct ca_rows *r, struct ca_rows_counts *out, struct errmsg *why)
{
    return ca_rows_failed(r, rows_count(r, out), why);
}

enum err ca_rows_state(struct ca_rows *r, struct ca_rows_state *out)
{
    sqlite3_stmt *st = r->db.st[S_STATE];
    enum err e = db_row(&r->db, st);

    if (!e) {
        *out = (struct ca_rows_state){.revision = sqlite3_column_int64(st, 0),
                                      .imported = (uint64_t)sqlite3_column_int64(st, 1),
                                      .imported_bytes = (uint64_t)sqlite3_column_int64(st, 2),
                                      .revocation = sqlite3_column_int64(st, 3)};
        (void)sqlite3_reset(st);
    }
    return e == ERR_END ? ERR_CORRUPT : e;
}

enum err ca_rows_imported(struct ca_rows *r, uint64_t generation, uint64_t bytes)
{
    sqlite3_stmt *st = rows_st(r, S_IMPORTED);

    db_bind_number(st, 1, (int64_t)generation);
    db_bind_number(st, 2, (int64_t)bytes);
    return db_change(&r->db, st);
}

/* -- tokens -- */

static bool names_ok(const char *names)
{
    return is_of(names, CA_ROWS_NAMES_MAX, "._-*?") && strcmp(names, "-") != 0;
}

static bool token_take(struct ca_token *out, sqlite3_stmt *st)
{
    *out = (struct ca_token){.again = sqlite3_column_int(st, 4) != 0,
                             .withdrawn = sqlite3_column_int(st, 5) != 0,
                             .made_ns = sqlite3_column_int64(st, 6),
                             .expires_ns = sqlite3_column_int64(st, 7),
                             .used_ns = sqlite3_column_int64(st, 8)};
    return db_bytes(st, 1, out->id, sizeof out->id) &&
           db_bytes(st, 2, out->hash, sizeof out->hash) &&
           db_text(st, 3, out->names, sizeof out->names) &&
           db_text(st, 9, out->used_by, sizeof out->used_by);
}

enum err ca_rows_token_get(struct ca_rows *r, const uint8_t id[PKI_TOKEN_ID_BYTES],
                           struct ca_token *out, struct errmsg *why)
{
    sqlite3_stmt *st = rows_st(r, S_TOKEN_GET);
    enum err e;

    db_bind_bytes(st, 1, id, PKI_TOKEN_ID_BYTES);
    e = db_row(&r->db, st);
    if (e == ERR_END) {
        return ERR_NOTFOUND;
    }
    if (!e) {
        e = token_take(out, st) ? ERR_OK : ERR_CORRUPT;
        (void)sqlite3_reset(st);
    }
    return ca_rows_failed(r, e, why);
}

enum err ca_rows_token_put(struct ca_rows *r, const struct ca_token *t, struct errmsg *why)
{
    sqlite3_stmt *st = rows_st(r, S_TOKEN_PUT);
    enum err e = rows_room(r, why);

    if (e) {
        return e;
    }
    if (t->names[0] && !names_ok(t->names)) {
        return errmsg_set(why, ERR_INVALID,
                          "names of hosts are a name or glob of letters, digits, '.', '_', '-', "
                          "'*' and '?'");
    }
    db_bind_bytes(st, 1, t->id, sizeof t->id);
    db_bind_bytes(st, 2, t->hash, sizeof t->hash);
    db_bind_text(st, 3, t->names);
    db_bind_number(st, 4, t->again);
    db_bind_number(st, 5, t->withdrawn);
    db_bind_number(st, 6, t->made_ns);
    db_bind_number(st, 7, t->expires_ns);
    db_bind_number(st, 8, t->used_ns);
    db_bind_text(st, 9, t->used_by);
    return ca_rows_failed(r, db_change(&r->db, st), why);
}

/* Up to `max` rows behind *after, each of `size` bytes, in the order of their numbers. */
static enum err rows_page(struct ca_rows *r, sqlite3_stmt *st,
                          bool (*take)(void *out, sqlite3_stmt *st), int64_t *after, void *out,
                          size_t size, size_t max, size_t *n, struct errmsg *why)
{
    enum err e;

    *n = 0;
    db_bind_number(st, 1, *after);
    db_bind_number(st, 2, (int64_t)max);
    while (e = db_row(&r->db, st), !e) {
        assert(*n < max);
        *after = sqlite3_column_int64(st, 0);
        if (!take((char *)out + (*n)++ * size, st)) {
            (void)sqlite3_reset(st);
            return ca_rows_failed(r, ERR_CORRUPT, why);
        }
    }
    return e == ERR_END ? ERR_OK : ca_rows_failed(r, e, why);
}

static bool token_take_row(void *out, sqlite3_stmt *st)
{
    return token_take(out, st);
}

enum err ca_rows_tokens(struct ca_rows *r, int64_t *after, struct ca_token *out, size_t max,
                        size_t *n, struct errmsg *why)
{
    return rows_page(r, rows_st(r, S_TOKENS), token_take_row, after, out, sizeof *out, max, n, why);
}

/* -- certificates -- */

static void bind_host(sqlite3_stmt *st, int at, const struct net_identity *who)
{
    if (who->has_host) {
        db_bind_bytes(st, at, who->host.b, sizeof who->host.b);
    } else {
        (void)sqlite3_bind_null(st, at);
    }
}

static bool cert_ok(const struct net_identity *who)
{
    unsigned main_role = who->roles & ~(unsigned)NET_MARK;

    return (main_role & (main_role - 1)) == 0 && main_role <= NET_ADMIN && pki_name_ok(who->name) &&
           (!who->scope[0] ||
            (is_of(who->scope, sizeof who->scope - 1, "._-*?[]") && strcmp(who->scope, "-") != 0));
}

enum err ca_rows_cert_add(struct ca_rows *r, const struct net_identity *who, int64_t now_ns,
                          struct errmsg *why)
{
    static const enum statement steps[] = {S_CERT_TOUCH, S_CERT_REPLACE, S_CERT_ADD};
    enum err e = rows_room(r, why);

    if (!e && !cert_ok(who)) {
        return errmsg_set(why, ERR_INVALID, "this cannot be written into the book: %s",
                          err_text(ERR_INVALID));
    }
    for (size_t i = 0; !e && i < sizeof steps / sizeof *steps; i++) {
        sqlite3_stmt *st = rows_st(r, steps[i]);

        bind_host(st, 1, who);
        db_bind_text(st, 2, who->name);
        if (steps[i] == S_CERT_REPLACE) {
            db_bind_number(st, 3, who->roles);
        } else {
            db_bind_bytes(st, 3, who->fingerprint, sizeof who->fingerprint);
        }
        if (steps[i] == S_CERT_ADD) {
            db_bind_number(st, 4, who->roles);
            db_bind_text(st, 5, who->scope);
            db_bind_number(st, 6, who->not_before_ns);
            db_bind_number(st, 7, who->not_after_ns);
            db_bind_number(st, 8, now_ns);
        }
        e = ca_rows_failed(r, db_change(&r->db, st), why);
    }
    return e;
}

static bool cert_take(void *cert, sqlite3_stmt *st)
{
    struct ca_cert *out = cert;
    struct net_identity *who = &out->who;

    *out = (struct ca_cert){.issued_ns = sqlite3_column_int64(st, 8),
                            .replaced = sqlite3_column_int(st, 9) != 0,
                            .revoked_ns = sqlite3_column_int64(st, 10)};
    who->has_host = sqlite3_column_type(st, 2) != SQLITE_NULL;
    who->roles = (unsigned)sqlite3_column_int(st, 4);
    who->not_before_ns = sqlite3_column_int64(st, 6);
    who->not_after_ns = sqlite3_column_int64(st, 7);
    return db_bytes(st, 1, who->fingerprint, sizeof who->fingerprint) &&
           (!who->has_host || db_bytes(st, 2, who->host.b, sizeof who->host.b)) &&
           db_text(st, 3, who->name, sizeof who->name) &&
           db_text(st, 5, who->scope, sizeof who->scope) &&
           db_text(st, 11, out->reason, sizeof out->reason);
}

enum err ca_rows_certs(struct ca_rows *r, int64_t *after, struct ca_cert *out, size_t max,
                       size_t *n, struct errmsg *why)
{
    return rows_page(r, rows_st(r, S_CERTS), cert_take, after, out, sizeof *out, max, n, why);
}

/* The fingerprints that begin with the first `digits` digits. */
static void fingerprint_range(uint8_t first[32], uint8_t last[32], const uint8_t *fingerprint,
                              size_t digits)
{
    memset(first, 0, 32);
    memset(last, 0xff, 32);
    memcpy(first, fingerprint, digits / 2);
    memcpy(last, fingerprint, digits / 2);
    if (digits % 2) {
        first[digits / 2] = fingerprint[digits / 2] & 0xf0;
        last[digits / 2] = fingerprint[digits / 2] | 0x0f;
    }
}

enum err ca_rows_find(struct ca_rows *r, enum ca_rows_by by, const struct net_identity *key,
                      size_t digits, bool (*each)(void *ctx, const struct ca_cert *c), void *ctx,
                      struct errmsg *why)
{
    enum statement which = by == CA_ROWS_BY_NAME          ? S_CERTS_NAME
                           : by == CA_ROWS_BY_FINGERPRINT ? S_CERTS_RANGE
                           : key->has_host                ? S_CERTS_HOST
                                                          : S_CERTS_USER;
    sqlite3_stmt *st = rows_st(r, which);
    uint8_t first[32], last[32];
    bool go_on = true;
    enum err e = ERR_OK;

    assert(digits <= 2 * sizeof first);
    if (which == S_CERTS_RANGE) {
        fingerprint_range(first, last, key->fingerprint, digits);
        db_bind_bytes(st, 1, first, sizeof first);
        db_bind_bytes(st, 2, last, sizeof last);
    } else if (which == S_CERTS_HOST) {
        bind_host(st, 1, key);
    } else {
        db_bind_text(st, 1, key->name);
    }
    while (go_on && (e = db_row(&r->db, st), !e)) {
        struct ca_cert c;

        if (!cert_take(&c, st)) {
            e = ERR_CORRUPT;
            break;
        }
        go_on = each(ctx, &c);
    }
    (void)sqlite3_reset(st);
    return ca_rows_failed(r, e == ERR_END ? ERR_OK : e, why);
}

/* -- revocations -- */

static bool reason_ok(const char *reason)
{
    for (const char *c = reason; *c; c++) {
        if (*c < 0x20 || *c > 0x7e) {
            return false;
        }
    }
    return strlen(reason) <= CA_ROWS_REASON_MAX && strcmp(reason, "-") != 0;
}

enum err ca_rows_revoke(struct ca_rows *r, enum ca_rows_target target,
                        const struct net_identity *who, const char *reason, int64_t now_ns,
                        struct errmsg *why)
{
    static const enum statement of_target[] = {[CA_ROWS_CERT] = S_REVOKE_CERT,
                                               [CA_ROWS_HOST] = S_REVOKE_HOST,
                                               [CA_ROWS_USER] = S_REVOKE_USER};
    const enum statement steps[] = {of_target[target], S_REVOKE};
    enum err e = rows_room(r, why);

    if (!e && !reason_ok(reason)) {
        return errmsg_set(why, ERR_INVALID, "a reason has at most %u printable ASCII characters",
                          CA_ROWS_REASON_MAX);
    }
    if (!e && target == CA_ROWS_USER && !pki_name_ok(who->name)) {
        return errmsg_set(why, ERR_INVALID, "this cannot be written into the book: %s",
                          err_text(ERR_INVALID));
    }
    for (size_t i = 0; !e && i < sizeof steps / sizeof *steps; i++) {
        sqlite3_stmt *st = rows_st(r, steps[i]);

        (void)sqlite3_clear_bindings(st);
        db_bind_number(st, 1, now_ns);
        db_bind_text(st, 2, reason);
        if (target == CA_ROWS_CERT) {
            db_bind_bytes(st, 3, who->fingerprint, sizeof who->fingerprint);
        } else if (target == CA_ROWS_HOST) {
            db_bind_bytes(st, 4, who->host.b, sizeof who->host.b);
        } else {
            db_bind_text(st, 5, who->name);
        }
        e = ca_rows_failed(r, db_change(&r->db, st), why);
    }
    return e ? e : ca_rows_failed(r, db_change(&r->db, rows_st(r, S_REVISE)), why);
}

enum err ca_rows_revoked(struct ca_rows *r, const struct net_identity *who, bool *revoked,
                         struct errmsg *why)
{
    sqlite3_stmt *st = rows_st(r, S_REVOKED);
    int64_t v = 0;
    enum err e;

    db_bind_bytes(st, 1, who->fingerprint, sizeof who->fingerprint);
    bind_host(st, 2, who);
    db_bind_text(st, 3, who->name);
    e = db_number(&r->db, st, &v);
    *revoked = v != 0;
    return ca_rows_failed(r, e == ERR_END ? ERR_CORRUPT : e, why);
}

/* -- tidying -- */

enum err ca_rows_tidy(struct ca_rows *r, int64_t now_ns, struct errmsg *why)
{
    static const enum statement steps[] = {S_TIDY_CERTS, S_TIDY_TOKENS, S_REVISE};
    sqlite3_stmt *st = rows_st(r, S_OVER);
    struct ca_rows_counts s = {.rows = 0};
    int64_t over = 0;
    enum err e = rows_count(r, &s);

    if (!e && s.rows >= TIDY_ROWS) {
        db_bind_number(st, 1, clk_sub(now_ns, OVER_NS));
        db_bind_number(st, 2, clk_sub(now_ns, KEEP_NS));
        e = db_number(&r->db, st, &over);
    }
    if (e || s.rows < TIDY_ROWS || over < (int64_t)s.rows / 2) {
        return ca_rows_failed(r, e, why);
    }
    for (size_t i = 0; !e && i < sizeof steps / sizeof *steps; i++) {
        st = rows_st(r, steps[i]);
        if (steps[i] != S_REVISE) {
            db_bind_number(st, 1, clk_sub(now_ns, OVER_NS));
            db_bind_number(st, 2, clk_sub(now_ns, KEEP_NS));
        }
        e = db_change(&r->db, st);
    }
    return ca_rows_failed(r, e, why);
}
