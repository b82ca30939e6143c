#include "collector/lab/runs_trim.h"

#include <sqlite3.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/vec.h"

static const char *const sql_drop[] = {
    "DELETE FROM run WHERE n = ?1",
    "DELETE FROM run_host WHERE run = ?1",
    "DELETE FROM run_asked WHERE run = ?1",
    "DELETE FROM run_label WHERE run = ?1",
};
static const char sql_old[] =
    "SELECT n, id FROM run WHERE state > 1 AND ended_ns < ?1 ORDER BY ended_ns, n LIMIT ?2";
static const char sql_all[] = "SELECT count(*), coalesce(sum(file_bytes), 0) FROM run";
static const char sql_owners[] =
    "SELECT owner, count(*), sum(file_bytes) FROM run WHERE state > 1 GROUP BY owner";
static const char sql_oldest_of[] = "SELECT n, id, file_bytes FROM run WHERE owner = ?1 AND"
                                    " state > 1 AND file_bytes >= ?2 ORDER BY ended_ns, n LIMIT 1";

struct owner {
    char *name;
    uint64_t rows, bytes; /* that may go */
};

struct trim {
    struct lab_db *l;
    struct db *d;
    struct runs_gone *gone;
    size_t max, n;
    uint64_t rows, bytes; /* of all runs */
    struct owner *owners; /* read when there is too much */
    size_t n_owners, cap;
};

enum err runs_trim_row(struct lab_db *l, struct db *d, uint64_t number)
{
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < sizeof sql_drop / sizeof *sql_drop; i++) {
        sqlite3_stmt *st;

        e = lab_db_statement(l, &st, sql_drop[i]);
        if (!e) {
            db_bind_number(st, 1, (int64_t)number);
            e = db_change(d, st);
        }
    }
    return e;
}

enum err runs_trim_one(struct lab_db *l, uint64_t number)
{
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    return e ? e : lab_db_end(l, runs_trim_row(l, d, number));
}

/* Of the row that the statement is at: number and id. */
static void gone_put(struct trim *t, sqlite3_stmt *st, enum runs_why why)
{
    struct runs_gone *g = &t->gone[t->n++];

    *g = (struct runs_gone){.number = (uint64_t)sqlite3_column_int64(st, 0), .why = why};
    (void)db_bytes(st, 1, g->id.b, sizeof g->id.b);
}

static enum err trim_old(struct trim *t, int64_t oldest_ns)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(t->l, &st, sql_old);

    if (e) {
        return e;
    }
    db_bind_number(st, 1, oldest_ns);
    db_bind_number(st, 2, (int64_t)t->max);
    while (t->n < t->max && (e = db_row(t->d, st), !e)) {
        gone_put(t, st, RUNS_OLD);
    }
    (void)sqlite3_reset(st);
    e = e == ERR_END ? ERR_OK : e;
    for (size_t i = 0; !e && i < t->n; i++) {
        e = runs_trim_row(t->l, t->d, t->gone[i].number);
    }
    return e;
}

static enum err sums_read(struct trim *t)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(t->l, &st, sql_all);

    e = e ? e : db_row(t->d, st);
    if (!e) {
        t->rows = (uint64_t)sqlite3_column_int64(st, 0);
        t->bytes = (uint64_t)sqlite3_column_int64(st, 1);
        (void)sqlite3_reset(st);
    }
    return e;
}

static enum err owners_read(struct trim *t)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(t->l, &st, sql_owners);

    while (!e && (e = db_row(t->d, st), !e)) {
        struct owner o = {.rows = (uint64_t)sqlite3_column_int64(st, 1),
                          .bytes = (uint64_t)sqlite3_column_int64(st, 2)};
        const char *name = (const char *)sqlite3_column_text(st, 0);

        e = VEC_ROOM(&t->owners, &t->cap, t->n_owners + 1, SIZE_MAX / sizeof o);
        o.name = e ? NULL : mem_strdup(name ? name : "");
        if (!e && !o.name) {
            e = ERR_NOMEM;
        }
        if (!e) {
            t->owners[t->n_owners++] = o;
        }
    }
    return e == ERR_END ? ERR_OK : e;
}

static struct owner *owner_of_most(const struct trim *t, bool bytes)
{
    struct owner *most = &t->owners[0];

    for (size_t i = 1; i < t->n_owners; i++) {
        struct owner *o = &t->owners[i];

        most = (bytes ? o->bytes > most->bytes : o->rows > most->rows) ? o : most;
    }
    return most;
}

/* ERR_END: there is none that may go. */
static enum err trim_of(struct trim *t, enum runs_why why)
{
    struct owner *o = owner_of_most(t, why == RUNS_LARGE);
    uint64_t bytes;
    sqlite3_stmt *st;
    enum err e = lab_db_statement(t->l, &st, sql_oldest_of);

    if (!e) {
        db_bind_text(st, 1, o->name);
        db_bind_number(st, 2, why == RUNS_LARGE); /* one without a file makes no room */
        e = db_row(t->d, st);
    }
    if (e) {
        return e;
    }
    bytes = (uint64_t)sqlite3_column_int64(st, 2);
    gone_put(t, st, why);
    (void)sqlite3_reset(st);
    t->rows--;
    o->rows--;
    t->bytes -= bytes;
    o->bytes -= bytes;
    return runs_trim_row(t->l, t->d, t->gone[t->n - 1].number);
}

static enum err trim_room(struct trim *t, const struct runs_bounds *bounds)
{
    enum err e = sums_read(t);

    if (e || (t->rows <= bounds->max_rows && t->bytes <= bounds->max_bytes)) {
        return e;
    }
    e = owners_read(t);
    while (!e && t->n_owners && t->n < t->max && t->rows > bounds->max_rows) {
        e = trim_of(t, RUNS_MANY);
    }
    while (!e && t->n_owners && t->n < t->max && t->bytes > bounds->max_bytes) {
        e = trim_of(t, RUNS_LARGE);
    }
    return e == ERR_END ? ERR_OK : e;
}

enum err runs_trim(struct lab_db *l, const struct runs_bounds *bounds, struct runs_gone *gone,
                   size_t max, size_t *n)
{
    struct trim t = {.l = l, .gone = gone, .max = max};
    enum err e = lab_db_begin(l, &t.d, LAB_DB_WRITE);

    *n = 0;
    if (e) {
        return e;
    }
    e = trim_old(&t, bounds->oldest_ns);
    if (!e && t.n < max) {
        e = trim_room(&t, bounds);
    }
    for (size_t i = 0; i < t.n_owners; i++) {
        mem_free(t.owners[i].name);
    }
    mem_free(t.owners);
    e = lab_db_end(l, e);
    *n = e ? 0 : t.n;
    return e;
}
