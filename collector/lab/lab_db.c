/* The file is made under another name and renamed, so that it is there as a whole or not at all.
 * synchronous = FULL syncs the write-ahead log at each commit: a mark that was answered survives
 * power loss. The connection is one, under a lock: marks come ten a second, and a commit takes
 * milliseconds; a second connection would only wait for the first in the kernel. */
#include "collector/lab/lab_db.h"

#include <assert.h>
#include <sqlite3.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define APP_ID 0x70666c62u /* "pflb" */

/* steps[v] turns version v into v + 1. Times are UTC in ns by the collector's clock, ids 16 bytes.
 */
static const char *const steps[] = {
    /* What a run is: runs.h. `n` counts them as they came. */
    "CREATE TABLE run(n INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE,"
    " name TEXT NOT NULL, owner TEXT NOT NULL, scope TEXT NOT NULL, state INTEGER NOT NULL,"
    " began_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, ttl_ns INTEGER NOT NULL,"
    " exit_code INTEGER, parent BLOB, boot BLOB, root_pid INTEGER NOT NULL,"
    " root_start INTEGER NOT NULL, flags INTEGER NOT NULL, error_ns INTEGER NOT NULL, closed_ns "
    "INTEGER NOT NULL,"
    " revision INTEGER NOT NULL, file_bytes INTEGER NOT NULL, coverage INTEGER NOT NULL,"
    " class TEXT NOT NULL, hosts_in INTEGER NOT NULL);"
    "CREATE INDEX run_by_name ON run(name, began_ns);"
    "CREATE INDEX run_by_state ON run(state, ended_ns);"
    "CREATE INDEX run_by_end ON run(ended_ns);"
    "CREATE TABLE run_host(run INTEGER NOT NULL, host BLOB NOT NULL, name TEXT NOT NULL,"
    " flags INTEGER NOT NULL, PRIMARY KEY(run, host)) WITHOUT ROWID;"
    "CREATE TABLE run_asked(run INTEGER NOT NULL, pattern TEXT NOT NULL,"
    " PRIMARY KEY(run, pattern)) WITHOUT ROWID;"
    "CREATE TABLE run_label(run INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY(run, key)) WITHOUT ROWID;",
    /* What hosts are known by: facts.h. */
    "CREATE TABLE host_fact(host BLOB NOT NULL, since_ns INTEGER NOT NULL, content BLOB NOT NULL,"
    " PRIMARY KEY(host, since_ns)) WITHOUT ROWID;",
    /* Rules: collector/rules/rules_db.h. A notice without n was held back. */
    "CREATE TABLE notice(row INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER UNIQUE,"
    " id BLOB NOT NULL UNIQUE, rule TEXT NOT NULL, host BLOB NOT NULL, name TEXT NOT NULL,"
    " class TEXT NOT NULL, subject TEXT NOT NULL, start INTEGER NOT NULL, state INTEGER NOT NULL,"
    " before INTEGER NOT NULL, step_ns INTEGER NOT NULL, since_ns INTEGER NOT NULL,"
    " event BLOB NOT NULL);"
    "CREATE INDEX notice_by_step ON notice(step_ns);"
    "CREATE INDEX notice_by_rule ON notice(rule, host, step_ns);"
    "CREATE TABLE alert(rule TEXT NOT NULL, host BLOB NOT NULL, name TEXT NOT NULL,"
    " class TEXT NOT NULL, subject TEXT NOT NULL, start INTEGER NOT NULL, state INTEGER NOT NULL,"
    " before INTEGER NOT NULL, step_ns INTEGER NOT NULL, since_ns INTEGER NOT NULL,"
    " PRIMARY KEY(rule, host, class, subject, start)) WITHOUT ROWID;"
    "CREATE TABLE rule(name TEXT PRIMARY KEY, hash INTEGER NOT NULL, since_ns INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE rule_up(since_ns INTEGER PRIMARY KEY, until_ns INTEGER NOT NULL,"
    " judged_ns INTEGER NOT NULL, sent INTEGER NOT NULL);"
    "CREATE TABLE rule_file(one INTEGER PRIMARY KEY, content BLOB NOT NULL);",
    /* For 100,000 runs: those of a name by number, what each owner has (runs_trim.h), whose data
     * came late. */
    "DROP INDEX run_by_name;"
    "CREATE INDEX run_by_name ON run(name);"
    "CREATE INDEX run_by_owner ON run(owner, ended_ns, state, file_bytes);"
    "CREATE INDEX run_stale ON run(n) WHERE (flags & 12) = 4;"
    /* When systems started: boots.h. */
    "CREATE TABLE boot(host BLOB NOT NULL, id BLOB NOT NULL, booted_ns INTEGER NOT NULL,"
    " first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, good_bye INTEGER NOT NULL,"
    " PRIMARY KEY(host, id)) WITHOUT ROWID;",
};

#define STEPS (sizeof steps / sizeof *steps)

struct lab_db {
    struct os_mutex *lock; /* guards all below */
    struct db db;
    enum lab_db_access access; /* of the transaction that is open */
    size_t n_statements;
    struct {
        const char *sql;
        sqlite3_stmt *st;
    } statements[LAB_DB_STATEMENTS];
};

static const struct db_format format = {
    .app_id = APP_ID,
    .version = STEPS,
    .schema = "",
    .steps = steps,
    .settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                "PRAGMA temp_store = MEMORY",
};

/* -- opening -- */

static enum err lab_db_make(const char *path, const char *dir, const struct fio *fio)
{
    struct db d = {.sqlite = NULL};
    char *made = mem_array(strlen(path) + sizeof ".new", 1);
    enum err e = made ? ERR_OK : ERR_NOMEM;

    if (!e) {
        memcpy(made, path, strlen(path));
        memcpy(made + strlen(path), ".new", sizeof ".new");
        e = fio->remove(fio->ctx, made); /* of a start that was interrupted */
        e = e == ERR_NOTFOUND ? ERR_OK : e;
    }
    if (!e) {
        e = db_make(&d, made, fio, &format);
        db_close(&d); /* the last connection: its write-ahead log goes into the file */
    }
    if (!e) {
        e = fio->rename(fio->ctx, made, path);
    }
    mem_free(made);
    return e ? e : fio->sync_dir(fio->ctx, dir);
}

static enum err lab_db_connect(struct lab_db *l, const char *path, const char *dir,
                               const struct fio *fio)
{
    enum err e = db_open(&l->db, path, &format);

    if (e == ERR_NOTFOUND) {
        db_close(&l->db);
        e = lab_db_make(path, dir, fio);
        e = e ? e : db_open(&l->db, path, &format);
    }
    return e;
}

enum err lab_db_open(struct lab_db **out, const char *dir, const struct fio *fio,
                     struct errmsg *why)
{
    struct lab_db *l = mem_zalloc(sizeof *l);
    char *path = os_path_join(dir, "lab.db");
    enum err e = l && path ? os_mutex_create(&l->lock) : ERR_NOMEM;

    if (!e) {
        e = lab_db_connect(l, path, dir, fio ? fio : fio_os());
    }
    if (e) {
        e = errmsg_set(why, e, "the lab's database %s: %s", path ? path : "lab.db",
                       e == ERR_VERSION   ? "a later version of the collector wrote it"
                       : e == ERR_CORRUPT ? "it is damaged; restore a copy, or move it away: runs "
                                            "and labels begin anew, all else stays"
                                          : err_text(e));
        lab_db_close(l);
    } else {
        *out = l;
    }
    mem_free(path);
    return e;
}

void lab_db_close(struct lab_db *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->n_statements; i++) {
        (void)sqlite3_finalize(l->statements[i].st);
    }
    db_close(&l->db);
    os_mutex_destroy(l->lock);
    mem_free(l);
}

/* -- transactions -- */

enum err lab_db_begin(struct lab_db *l, struct db **out, enum lab_db_access access)
{
    enum err e;

    os_mutex_lock(l->lock);
    e = db_run(&l->db, access == LAB_DB_WRITE ? "BEGIN IMMEDIATE" : "BEGIN");
    if (e) {
        os_mutex_unlock(l->lock);
        return e;
    }
    l->access = access;
    *out = &l->db;
    return ERR_OK;
}

enum err lab_db_end(struct lab_db *l, enum err e)
{
    bool keep = !e && l->access == LAB_DB_WRITE;

    for (size_t i = 0; i < l->n_statements; i++) { /* one under way would keep it open */
        (void)sqlite3_reset(l->statements[i].st);
    }
    if (keep) {
        e = db_run(&l->db, "COMMIT");
    }
    if (!keep || e) {
        enum err undone = db_run(&l->db, "ROLLBACK");

        e = e ? e : undone;
    }
    os_mutex_unlock(l->lock);
    return e;
}

enum err lab_db_statement(struct lab_db *l, sqlite3_stmt **out, const char *sql)
{
    size_t i = 0;
    int rc;

    while (i < l->n_statements && l->statements[i].sql != sql) {
        i++;
    }
    if (i == l->n_statements) {
        assert(i < LAB_DB_STATEMENTS);
        rc = sqlite3_prepare_v3(l->db.sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                &l->statements[i].st, NULL);
        if (rc != SQLITE_OK) {
            return db_error(&l->db, rc);
        }
        l->statements[i].sql = sql;
        l->n_statements++;
    }
    *out = l->statements[i].st;
    (void)sqlite3_reset(*out);
    (void)sqlite3_clear_bindings(*out);
    return ERR_OK;
}
