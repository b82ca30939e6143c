/* A run is a row of `run` and rows of run_host, run_asked and run_label under its number. One
 * transaction writes all of a mark, so that a kill leaves the whole or nothing.
 *
 * A run's state beyond open and closing follows from what ended it: `flags` and exit_code tell, so
 * that a file that is made again changes nothing of it. */
#include "collector/lab/runs.h"

#include <sqlite3.h>
#include <string.h>

#include "collector/lab/runs_trim.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/hash.h"
#include "common/os/uuid.h"

enum row_flag {
    ROW_LATE = 1,     /* marked afterwards */
    ROW_EXPIRED = 2,  /* nobody ended it */
    ROW_STALE = 4,    /* data came after its file was made */
    ROW_IMPORTED = 8, /* its file came from elsewhere */
    ROW_ROOTLESS = 16 /* the process that was told was not seen: the whole host was taken */
};

#define COLUMNS                                                                                   \
    "SELECT r.n, id, r.name, owner, scope, state, began_ns, ended_ns, ttl_ns, exit_code, parent," \
    " boot, root_pid, root_start, r.flags, error_ns, revision, file_bytes, coverage, class,"      \
    " hosts_in, (SELECT count(*) FROM run_host h WHERE h.run = r.n) FROM run r"

enum column {
    C_NUMBER,
    C_ID,
    C_NAME,
    C_OWNER,
    C_SCOPE,
    C_STATE,
    C_BEGAN,
    C_ENDED,
    C_TTL,
    C_EXIT,
    C_PARENT,
    C_BOOT,
    C_ROOT_PID,
    C_ROOT_START,
    C_FLAGS,
    C_ERROR,
    C_REVISION,
    C_BYTES,
    C_COVERAGE,
    C_CLASS,
    C_HOSTS_IN,
    C_HOSTS
};

static const char sql_by_id[] = COLUMNS " WHERE id = ?1";
static const char sql_by_number[] = COLUMNS " WHERE r.n = ?1";
static const char sql_open_of[] =
    COLUMNS " WHERE state = 0 AND r.name = ?1 AND owner = ?2 ORDER BY r.n DESC LIMIT 1";
static const char sql_newest_of[] =
    COLUMNS " WHERE r.name = ?1 AND owner = ?2 ORDER BY r.n DESC LIMIT 1";
static const char sql_open_any[] =
    COLUMNS " WHERE state = 0 AND r.name = ?1 AND ?2 = ?2 ORDER BY r.n DESC LIMIT 1";
/* What a list looks at before it reads all of a run; ?5 and ?6 are what `which` compares. */
#define PAGE(which)                                                                 \
    "SELECT n, id, name, state FROM run WHERE n < ?1 AND " which                    \
    " AND (?2 = 0 OR ended_ns = 0 OR ended_ns >= ?2) AND (?3 = 0 OR began_ns < ?3)" \
    " ORDER BY n DESC"
static const char sql_page[] = PAGE("?5 IS NULL");
static const char sql_page_of_name[] = PAGE("name = ?5");
static const char sql_page_of_id[] = PAGE("id BETWEEN ?5 AND ?6");

static const char sql_labels[] = "SELECT key, value FROM run_label WHERE run = ?1 ORDER BY key";
static const char sql_asked[] = "SELECT pattern FROM run_asked WHERE run = ?1 ORDER BY pattern";
static const char sql_hosts[] =
    "SELECT host, name, flags FROM run_host WHERE run = ?1 ORDER BY name, host LIMIT 4096";
static const char sql_foreign[] = "SELECT name FROM run_host WHERE run = ?1";
static const char sql_value[] = "SELECT value FROM run_label WHERE run = ?1 AND key = ?2";

static const char sql_put[] =
    "INSERT INTO run(id, name, owner, scope, state, began_ns, ended_ns, ttl_ns, exit_code, parent,"
    " boot, root_pid, root_start, flags, error_ns, closed_ns, revision, file_bytes, coverage,"
    " class, hosts_in) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 0,"
    " ?16, ?17, ?18, ?19, ?20)";
static const char sql_put_label[] =
    "INSERT OR REPLACE INTO run_label(run, key, value) VALUES(?1, ?2, ?3)";
static const char sql_put_asked[] = "INSERT OR IGNORE INTO run_asked(run, pattern) VALUES(?1, ?2)";
static const char sql_put_host[] =
    "INSERT OR IGNORE INTO run_host(run, host, name, flags) VALUES(?1, ?2, ?3, ?4)";
static const char sql_end[] =
    "UPDATE run SET state = 1, ended_ns = max(?2, began_ns), exit_code = ?3, closed_ns = ?4,"
    " flags = flags | ?5, error_ns = max(error_ns, ?6) WHERE n = ?1 AND state = 0";
static const char sql_count_open[] = "SELECT count(*), sum(owner = ?1) FROM run WHERE state = 0";
static const char sql_expire[] =
    "UPDATE run SET state = 1, ended_ns = began_ns + ttl_ns, closed_ns = ?1, flags = flags | 2"
    " WHERE state = 0 AND began_ns + ttl_ns <= ?1";
static const char sql_in_state[] = "SELECT n FROM run WHERE state = ?1 ORDER BY n LIMIT ?2";
static const char sql_stale[] =
    "SELECT n FROM run WHERE state > 1 AND (flags & 12) = 4 ORDER BY n LIMIT ?2";
static const char sql_ended[] =
    "SELECT n FROM run WHERE state > 1 AND (flags & 8) = 0 AND ended_ns >= ?1"
    " ORDER BY ended_ns DESC LIMIT ?2";
static const char sql_imported[] = /* state: WIRE_RUN_IMPORTED */
    "SELECT n FROM run WHERE state = 5 AND n > ?1 ORDER BY n LIMIT ?2";
/* By time, then by host: run_host has no index of hosts, and few runs are at one time. */
static const char sql_overlaps[] =
    "SELECT count(*) FROM run r WHERE r.n IN (SELECT n FROM run WHERE ended_ns = 0 UNION ALL"
    " SELECT n FROM run WHERE ended_ns > ?3) AND r.n != ?2"
    " AND r.root_pid = 0 AND (r.flags & 8) = 0 AND r.began_ns < ?4"
    " AND r.id IS NOT ?5 AND r.parent IS NOT ?6"
    " AND EXISTS (SELECT 1 FROM run_host h WHERE h.run = r.n AND h.host = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM run_label l WHERE l.run = r.n AND l.key = 'silence')";
static const char sql_known[] = "SELECT count(*) FROM run WHERE id = ?1";
static const char sql_make_stale[] = "UPDATE run SET flags = flags | 4 WHERE n = ?1";
static const char sql_filed[] =
    "UPDATE run SET state = CASE WHEN flags & 2 THEN 4 WHEN coalesce(exit_code, 0) != 0 THEN 3"
    " ELSE 2 END, revision = ?2, file_bytes = ?3, coverage = ?4, class = ?5, hosts_in = ?6,"
    " flags = (flags & ~20) | ?7 WHERE n = ?1 AND state != 0";

/* The statement, its first value the number. */
static enum err runs_statement(struct lab_db *l, sqlite3_stmt **out, const char *sql,
                               uint64_t number)
{
    enum err e = lab_db_statement(l, out, sql);

    if (!e) {
        db_bind_number(*out, 1, (int64_t)number);
    }
    return e;
}

/* -- rows -- */

/* Until the statement goes on. */
static struct str column_there(sqlite3_stmt *st, int at)
{
    const char *p = (const char *)sqlite3_column_text(st, at);

    return (struct str){p ? p : "", p ? (size_t)sqlite3_column_bytes(st, at) : 0};
}

static struct str column_text(sqlite3_stmt *st, int at, struct arena *memory)
{
    struct str there = column_there(st, at);
    char *copy = arena_dup(memory, there.p, there.n);

    return (struct str){copy, copy ? there.n : 0};
}

static struct uuid column_id(sqlite3_stmt *st, int at)
{
    struct uuid id = {{0}};

    (void)db_bytes(st, at, id.b, sizeof id.b);
    return id;
}

static const char rootless[] =
    "its process was not seen on the host: it ran in a container, or the "
    "agent did not run; the whole host is counted";

/* The row that the statement is at, without lists. */
static enum err row_take(sqlite3_stmt *st, struct arena *memory, struct wire_run *out)
{
    unsigned flags = (unsigned)sqlite3_column_int(st, C_FLAGS);
    struct str *note = arena_alloc(memory, sizeof *note);

    *out = (struct wire_run){
        .id = column_id(st, C_ID),
        .parent = column_id(st, C_PARENT),
        .boot = column_id(st, C_BOOT),
        .number = (uint64_t)sqlite3_column_int64(st, C_NUMBER),
        .name = column_text(st, C_NAME, memory),
        .owner = column_text(st, C_OWNER, memory),
        .scope = column_text(st, C_SCOPE, memory),
        .classes = column_text(st, C_CLASS, memory),
        .state = (uint8_t)sqlite3_column_int(st, C_STATE),
        .began_ns = sqlite3_column_int64(st, C_BEGAN),
        .ended_ns = sqlite3_column_int64(st, C_ENDED),
        .ttl_ns = sqlite3_column_int64(st, C_TTL),
        .error_ns = sqlite3_column_int64(st, C_ERROR),
        .has_exit = sqlite3_column_type(st, C_EXIT) != SQLITE_NULL,
        .exit_code = (uint32_t)sqlite3_column_int64(st, C_EXIT),
        .late = (flags & ROW_LATE) != 0,
        .root_pid = (uint32_t)sqlite3_column_int64(st, C_ROOT_PID),
        .root_start = (uint64_t)sqlite3_column_int64(st, C_ROOT_START),
        .revision = (uint32_t)sqlite3_column_int64(st, C_REVISION),
        .file_bytes = (uint64_t)sqlite3_column_int64(st, C_BYTES),
        .coverage = (uint32_t)sqlite3_column_int64(st, C_COVERAGE),
        .hosts_in = (uint32_t)sqlite3_column_int64(st, C_HOSTS_IN),
        .hosts_asked = (uint32_t)sqlite3_column_int64(st, C_HOSTS),
    };
    if (!out->name.p || !out->owner.p || !out->scope.p || !out->classes.p || !note) {
        return ERR_FULL;
    }
    if (out->state >= WIRE_RUN_STATES) {
        return ERR_CORRUPT;
    }
    *note = str_make(flags & ROW_ROOTLESS ? rootless : "");
    out->notes = note;
    out->n_notes = note->n > 0;
    return ERR_OK;
}

/* -- lists of a run -- */

static enum err labels_take(struct lab_db *l, struct db *d, struct arena *memory,
                            struct wire_run *run)
{
    struct wire_label *list = arena_array(memory, WIRE_RUN_LABELS, sizeof *list);
    sqlite3_stmt *st;
    enum err e = list ? runs_statement(l, &st, sql_labels, run->number) : ERR_FULL;

    if (e) {
        return e;
    }
    while (run->n_labels < WIRE_RUN_LABELS && (e = db_row(d, st), !e)) {
        list[run->n_labels].key = column_text(st, 0, memory);
        list[run->n_labels++].value = column_text(st, 1, memory);
    }
    run->labels = list;
    return e == ERR_END ? ERR_OK : e;
}

static enum err asked_take(struct lab_db *l, struct db *d, struct arena *memory,
                           struct wire_run *run)
{
    struct str *list = arena_array(memory, WIRE_RUN_PATTERNS, sizeof *list);
    sqlite3_stmt *st;
    enum err e = list ? runs_statement(l, &st, sql_asked, run->number) : ERR_FULL;

    if (e) {
        return e;
    }
    while (run->n_asked < WIRE_RUN_PATTERNS && (e = db_row(d, st), !e)) {
        list[run->n_asked++] = column_text(st, 0, memory);
    }
    run->asked = list;
    return e == ERR_END ? ERR_OK : e;
}

static enum err hosts_take(struct lab_db *l, struct db *d, struct arena *memory,
                           struct wire_run *run)
{
    size_t max = run->hosts_asked < WIRE_RUN_HOSTS_MAX ? run->hosts_asked : WIRE_RUN_HOSTS_MAX;
    struct wire_run_host *list = arena_array(memory, max, sizeof *list);
    sqlite3_stmt *st;
    enum err e = list ? runs_statement(l, &st, sql_hosts, run->number) : ERR_FULL;

    if (e) {
        return e;
    }
    while (run->n_hosts < max && (e = db_row(d, st), !e)) {
        list[run->n_hosts].id = column_id(st, 0);
        list[run->n_hosts].name = column_text(st, 1, memory);
        list[run->n_hosts++].added = sqlite3_column_int(st, 2) != 0;
    }
    run->hosts = list;
    return e == ERR_END ? ERR_OK : e;
}

static enum err run_lists(struct lab_db *l, struct db *d, bool hosts, struct arena *memory,
                          struct wire_run *run)
{
    enum err e = labels_take(l, d, memory, run);

    e = e ? e : asked_take(l, d, memory, run);
    return !e && hosts ? hosts_take(l, d, memory, run) : e;
}

/* One run by a statement whose values are bound. ERR_NOTFOUND: none. */
static enum err run_one(struct lab_db *l, struct db *d, sqlite3_stmt *st, struct arena *memory,
                        struct wire_run *out)
{
    enum err e = db_row(d, st);

    if (e) {
        return e == ERR_END ? ERR_NOTFOUND : e;
    }
    e = row_take(st, memory, out);
    (void)sqlite3_reset(st);
    return e ? e : run_lists(l, d, true, memory, out);
}

static enum err run_by_id(struct lab_db *l, struct db *d, const struct uuid *id,
                          struct arena *memory, struct wire_run *out)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(l, &st, sql_by_id);

    if (e) {
        return e;
    }
    db_bind_bytes(st, 1, id->b, sizeof id->b);
    return run_one(l, d, st, memory, out);
}

static enum err run_by_number(struct lab_db *l, struct db *d, uint64_t number, struct arena *memory,
                              struct wire_run *out)
{
    sqlite3_stmt *st;
    enum err e = runs_statement(l, &st, sql_by_number, number);

    return e ? e : run_one(l, d, st, memory, out);
}

/* -- marks -- */

static bool id_is_set(const struct uuid *id)
{
    static const struct uuid none;

    return memcmp(id->b, none.b, sizeof none.b) != 0;
}

/* Of the sender's own choice; else of owner and key; else all zero. */
static struct uuid mark_id(const struct runs_who *who, const struct wire_run_mark *m)
{
    struct uuid id = m->id;
    uint64_t a, b;

    if (id_is_set(&id) || !m->key.n) {
        return id;
    }
    a = hash_bytes(m->key.p, m->key.n, hash_bytes(who->name, strlen(who->name), 1));
    b = hash_bytes(m->key.p, m->key.n, hash_bytes(who->name, strlen(who->name), 2));
    for (unsigned i = 0; i < 8; i++) {
        id.b[i] = (uint8_t)(a >> 8 * i);
        id.b[8 + i] = (uint8_t)(b >> 8 * i);
    }
    id.b[6] = (uint8_t)((id.b[6] & 0x0f) | 0x80); /* version 8: of whoever made it */
    id.b[8] = (uint8_t)((id.b[8] & 0x3f) | 0x80);
    return id;
}

static enum err mark_check(const struct runs_who *who, const struct wire_run_mark *m,
                           struct errmsg *why)
{
    if (m->ttl_ns < 0 || m->ttl_ns > RUNS_TTL_MAX_NS) {
        return errmsg_set(why, ERR_INVALID, "the longest ttl is 30 days");
    }
    for (size_t i = 0; i < m->n_labels; i++) {
        const struct wire_label *x = &m->labels[i];

        if (!wire_run_label_ok(x)) {
            return errmsg_set(why, ERR_INVALID,
                              "label '%.*s': a key is 1 to 32 of a-z 0-9 _ . -, the first a "
                              "letter; a value has at most 64 bytes and no control characters",
                              (int)x->key.n, x->key.p);
        }
        if (str_eq(x->key, str_make("silence")) && !who->admin) {
            return errmsg_set(why, ERR_ACCESS, "the label silence takes role admin");
        }
        for (size_t k = 0; k < i; k++) {
            if (str_eq(x->key, m->labels[k].key)) {
                return errmsg_set(why, ERR_INVALID, "label '%.*s' is given twice", (int)x->key.n,
                                  x->key.p);
            }
        }
    }
    return ERR_OK;
}

static enum err label_put(struct lab_db *l, struct db *d, uint64_t number,
                          const struct wire_label *x)
{
    sqlite3_stmt *st;
    enum err e = runs_statement(l, &st, sql_put_label, number);

    if (e) {
        return e;
    }
    (void)sqlite3_bind_text(st, 2, x->key.p, (int)x->key.n, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, x->value.p, (int)x->value.n, SQLITE_STATIC);
    return db_change(d, st);
}

static enum err asked_put(struct lab_db *l, struct db *d, uint64_t number, struct str pattern)
{
    sqlite3_stmt *st;
    enum err e = runs_statement(l, &st, sql_put_asked, number);

    if (e) {
        return e;
    }
    (void)sqlite3_bind_text(st, 2, pattern.p, (int)pattern.n, SQLITE_STATIC);
    return db_change(d, st);
}

static enum err host_put(struct lab_db *l, struct db *d, uint64_t number,
                         const struct wire_run_host *h)
{
    sqlite3_stmt *st;
    enum err e = runs_statement(l, &st, sql_put_host, number);

    if (e) {
        return e;
    }
    db_bind_bytes(st, 2, h->id.b, sizeof h->id.b);
    (void)sqlite3_bind_text(st, 3, h->name.p, (int)h->name.n, SQLITE_STATIC);
    db_bind_number(st, 4, h->added);
    return db_change(d, st);
}

static void bind_id(sqlite3_stmt *st, int at, const struct uuid *id)
{
    if (id_is_set(id)) {
        db_bind_bytes(st, at, id->b, sizeof id->b);
    } else {
        (void)sqlite3_bind_null(st, at);
    }
}

static void bind_exit(sqlite3_stmt *st, int at, bool has, uint32_t code)
{
    if (has) {
        db_bind_number(st, at, code);
    } else {
        (void)sqlite3_bind_null(st, at);
    }
}

/* The row and its lists; run->number is set. */
static enum err run_put(struct lab_db *l, struct db *d, struct wire_run *run, const char *scope,
                        unsigned flags)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(l, &st, sql_put);

    if (e) {
        return e;
    }
    db_bind_bytes(st, 1, run->id.b, sizeof run->id.b);
    (void)sqlite3_bind_text(st, 2, run->name.p, (int)run->name.n, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, run->owner.p, (int)run->owner.n, SQLITE_STATIC);
    db_bind_text(st, 4, scope);
    db_bind_number(st, 5, run->state);
    db_bind_number(st, 6, run->began_ns);
    db_bind_number(st, 7, run->ended_ns);
    db_bind_number(st, 8, run->ttl_ns);
    bind_exit(st, 9, run->has_exit, run->exit_code);
    bind_id(st, 10, &run->parent);
    bind_id(st, 11, &run->boot);
    db_bind_number(st, 12, run->root_pid);
    db_bind_number(st, 13, (int64_t)run->root_start);
    db_bind_number(st, 14, flags);
    db_bind_number(st, 15, run->error_ns);
    db_bind_number(st, 16, run->revision);
    db_bind_number(st, 17, (int64_t)run->file_bytes);
    db_bind_number(st, 18, run->coverage);
    (void)sqlite3_bind_text(st, 19, run->classes.p ? run->classes.p : "", (int)run->classes.n,
                            SQLITE_STATIC);
    db_bind_number(st, 20, run->hosts_in);
    e = db_change(d, st);
    run->number = (uint64_t)sqlite3_last_insert_rowid(d->sqlite);
    for (size_t i = 0; !e && i < run->n_labels; i++) {
        e = label_put(l, d, run->number, &run->labels[i]);
    }
    for (size_t i = 0; !e && i < run->n_asked; i++) {
        e = asked_put(l, d, run->number, run->asked[i]);
    }
    for (size_t i = 0; !e && i < run->n_hosts; i++) {
        e = host_put(l, d, run->number, &run->hosts[i]);
    }
    return e;
}

/* One certificate does not keep all others from marking. */
static enum err open_room(struct lab_db *l, struct db *d, const struct runs_who *who,
                          struct errmsg *why)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(l, &st, sql_count_open);
    bool own;

    if (!e) {
        (void)sqlite3_bind_text(st, 1, who->name, -1, SQLITE_STATIC);
        e = db_row(d, st);
    }
    own = !e && !who->admin && sqlite3_column_int64(st, 1) >= RUNS_OPEN_SHARE;
    return own || (!e && sqlite3_column_int64(st, 0) >= RUNS_OPEN_MAX)
               ? errmsg_set(why, ERR_FULL, "%u runs%s are open: end some, or give a shorter --ttl",
                            own ? RUNS_OPEN_SHARE : RUNS_OPEN_MAX, own ? " of one owner" : "")
               : e;
}

static enum err begin_write(struct lab_db *l, struct db *d, const struct runs_who *who,
                            const struct runs_mark *mark, struct wire_run *run, struct errmsg *why)
{
    const struct wire_run_mark *m = mark->m;
    enum err e = open_room(l, d, who, why);

    if (!e && !id_is_set(&run->id)) {
        e = uuid_random(&run->id);
    }
    if (e) {
        return e;
    }
    run->parent = m->parent;
    run->boot = m->boot;
    run->name = m->name;
    run->owner = str_make(who->name);
    run->state = WIRE_RUN_OPEN;
    run->began_ns = mark->when_ns;
    run->error_ns = mark->error_ns;
    run->ttl_ns = m->ttl_ns ? m->ttl_ns : RUNS_TTL_NS;
    run->late = m->late;
    run->root_pid = m->root_pid;
    run->root_start = m->root_start;
    run->n_labels = m->n_labels;
    run->labels = m->labels;
    run->n_asked = m->n_hosts;
    run->asked = m->hosts;
    run->n_hosts = mark->n_hosts;
    run->hosts = mark->hosts;
    return run_put(l, d, run, who->scope, m->late ? ROW_LATE : 0);
}

enum err runs_begin(struct lab_db *l, const struct runs_who *who, const struct runs_mark *mark,
                    struct arena *memory, struct wire_run *out, struct errmsg *why)
{
    struct wire_run run = {.id = mark_id(who, mark->m)};
    struct db *d;
    enum err e = mark_check(who, mark->m, why);

    if (!e && !wire_run_name_ok(mark->m->name)) {
        e = errmsg_set(why, ERR_INVALID, "a name is 1 to 64 letters, digits, '.', '_' and '-'");
    }
    if (!e && mark->m->id.b[6] >> 4 == 8) { /* nobody takes another's in advance */
        e = errmsg_set(why, ERR_INVALID, "an id of version 8 is that of a key");
    }
    e = e ? e : lab_db_begin(l, &d, LAB_DB_WRITE);
    if (e) {
        return e;
    }
    e = id_is_set(&run.id) ? run_by_id(l, d, &run.id, memory, out) : ERR_NOTFOUND;
    if (e == ERR_NOTFOUND) {
        e = begin_write(l, d, who, mark, &run, why);
        e = e ? e : run_by_number(l, d, run.number, memory, out);
    } else if (!e && !str_eq(out->owner, str_make(who->name))) {
        e = errmsg_set(why, ERR_ACCESS, "a run of another owner has this id");
    }
    return lab_db_end(l, e);
}

/* The run that a mark of an end means. */
static enum err end_find(struct lab_db *l, struct db *d, const struct runs_who *who,
                         const struct wire_run_mark *m, struct arena *memory, struct wire_run *out)
{
    const char *const ways[] = {sql_open_of, who->admin ? sql_open_any : sql_newest_of,
                                sql_newest_of};
    struct uuid id = mark_id(who, m);
    enum err e = ERR_NOTFOUND;

    if (id_is_set(&id)) {
        return run_by_id(l, d, &id, memory, out);
    }
    for (size_t i = 0; e == ERR_NOTFOUND && i < sizeof ways / sizeof *ways; i++) {
        sqlite3_stmt *st;

        e = lab_db_statement(l, &st, ways[i]);
        if (!e) {
            (void)sqlite3_bind_text(st, 1, m->name.p, (int)m->name.n, SQLITE_STATIC);
            db_bind_text(st, 2, who->name);
            e = run_one(l, d, st, memory, out);
        }
    }
    return e;
}

static enum err end_write(struct lab_db *l, struct db *d, const struct runs_mark *mark,
                          uint64_t number)
{
    const struct wire_run_mark *m = mark->m;
    sqlite3_stmt *st;
    enum err e = runs_statement(l, &st, sql_end, number);

    if (e) {
        return e;
    }
    db_bind_number(st, 2, mark->when_ns);
    bind_exit(st, 3, m->has_exit, m->exit_code);
    db_bind_number(st, 4, mark->now_ns);
    db_bind_number(st, 5, m->late ? ROW_LATE : 0);
    db_bind_number(st, 6, mark->error_ns);
    e = db_change(d, st);
    for (size_t i = 0; !e && i < m->n_labels; i++) {
        e = label_put(l, d, number, &m->labels[i]);
    }
    return e;
}

enum err runs_end(struct lab_db *l, const struct runs_who *who, const struct runs_mark *mark,
                  struct arena *memory, struct wire_run *out, struct errmsg *why)
{
    struct db *d;
    enum err e = mark_check(who, mark->m, why);

    e = e ? e : lab_db_begin(l, &d, LAB_DB_WRITE);
    if (e) {
        return e;
    }
    e = end_find(l, d, who, mark->m, memory, out);
    if (e == ERR_NOTFOUND) {
        e = errmsg_set(why, e, "there is no such run of %s", who->name);
    } else if (!e && !who->admin && !str_eq(out->owner, str_make(who->name))) {
        e = errmsg_set(why, ERR_ACCESS, "the run is another's: role admin may end it");
    } else if (!e && out->state == WIRE_RUN_OPEN) {
        e = end_write(l, d, mark, out->number);
        e = e ? e : run_by_number(l, d, out->number, memory, out);
    }
    return lab_db_end(l, e);
}

/* -- finding -- */

struct find {
    struct lab_db *l;
    struct db *d;
    const struct runs_who *who;
    const struct wire_runs_ask *ask;
    struct str name; /* name or glob, without what follows @; "": all */
    uint64_t nth;    /* 0: all */
    bool by_id;      /* the id lies between these two */
    struct uuid id_low, id_high;
    struct arena *memory;
    struct wire_run *runs;
    size_t n, max;
    uint64_t met; /* that fit name, labels and scope */
};

/* The ids that begin with these digits, dashes between them. False: it is no such beginning. */
static bool find_ids(struct find *f, struct str text)
{
    size_t n = 0;

    memset(f->id_low.b, 0, sizeof f->id_low.b);
    memset(f->id_high.b, 0xff, sizeof f->id_high.b);
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool letter = c >= 'a' && c <= 'f';
        uint8_t v = (uint8_t)(letter ? c - 'a' + 10 : c - '0');
        unsigned shift = n % 2 ? 0 : 4;

        if (c == '-' && (i == 8 || i == 13 || i == 18 || i == 23)) {
            continue;
        }
        if (!(letter || (c >= '0' && c <= '9')) || n == 2 * sizeof f->id_low.b) {
            return false;
        }
        f->id_low.b[n / 2] |= (uint8_t)(v << shift);
        f->id_high.b[n / 2] &= (uint8_t) ~((0xfu & ~v) << shift);
        n++;
    }
    f->by_id = n >= 4;
    return f->by_id;
}

/* NAME, NAME@3, NAME@8f14… */
static enum err find_spec(struct find *f, struct errmsg *why)
{
    struct str spec = f->ask->name, behind = {"", 0};
    const char *at = spec.n ? memchr(spec.p, '@', spec.n) : NULL;
    uint64_t n = 0;
    bool digits;

    f->name = spec;
    if (!at) {
        return ERR_OK;
    }
    f->name.n = (size_t)(at - spec.p);
    behind = (struct str){at + 1, spec.n - f->name.n - 1};
    digits = behind.n >= 1 && behind.n <= 6;
    for (size_t i = 0; i < behind.n; i++) {
        char c = behind.p[i];

        digits = digits && c >= '0' && c <= '9';
        n = digits ? n * 10 + (uint64_t)(c - '0') : 0;
    }
    if (digits && n > 0) {
        f->nth = n;
        return ERR_OK;
    }
    if (!find_ids(f, behind)) {
        return errmsg_set(why, ERR_INVALID,
                          "'%.*s': behind @ stands which of them, counted from the newest, or at "
                          "least four letters of its id",
                          (int)spec.n, spec.p);
    }
    return ERR_OK;
}

/* Nothing of a run that does not fit is copied: a list may pass over all there are. */
static enum err find_fits_labels(const struct find *f, uint64_t number, bool *fits)
{
    *fits = true;
    for (size_t i = 0; *fits && i < f->ask->n_labels; i++) {
        const struct wire_label *x = &f->ask->labels[i];
        sqlite3_stmt *st;
        enum err e = runs_statement(f->l, &st, sql_value, number);

        if (!e) {
            (void)sqlite3_bind_text(st, 2, x->key.p, (int)x->key.n, SQLITE_STATIC);
            e = db_row(f->d, st);
        }
        if (e && e != ERR_END) {
            return e;
        }
        *fits = !e && glob_match(x->value, column_there(st, 0));
        (void)sqlite3_reset(st);
    }
    return ERR_OK;
}

/* All its hosts lie in the scope of who asks. */
static enum err find_in_scope(const struct find *f, uint64_t number, bool *in)
{
    sqlite3_stmt *st;
    enum err e = ERR_OK;
    bool any = false;

    *in = true;
    if (!f->who->scope[0]) {
        return ERR_OK;
    }
    e = runs_statement(f->l, &st, sql_foreign, number);
    if (e) {
        return e;
    }
    while (*in && (e = db_row(f->d, st), !e)) {
        any = true;
        *in = glob_match(str_make(f->who->scope), column_there(st, 0));
    }
    *in = *in && any;
    (void)sqlite3_reset(st);
    return e == ERR_END ? ERR_OK : e;
}

/* The row that the page is at. */
static enum err find_row(struct find *f, sqlite3_stmt *page)
{
    uint64_t number = (uint64_t)sqlite3_column_int64(page, 0);
    bool fits = true;
    sqlite3_stmt *st;
    enum err e = ERR_OK;

    if ((f->name.n && !glob_match(f->name, column_there(page, 2))) ||
        (f->ask->states && !(f->ask->states >> sqlite3_column_int(page, 3) & 1))) {
        return ERR_OK;
    }
    e = find_fits_labels(f, number, &fits);
    if (!e && fits) {
        e = find_in_scope(f, number, &fits);
    }
    if (e || !fits || ++f->met < f->nth) {
        return e;
    }
    e = runs_statement(f->l, &st, sql_by_number, number);
    e = e ? e : db_row(f->d, st);
    if (!e) {
        e = row_take(st, f->memory, &f->runs[f->n]);
        (void)sqlite3_reset(st);
    }
    e = e ? e : run_lists(f->l, f->d, f->ask->hosts, f->memory, &f->runs[f->n]);
    f->n += !e;
    return e;
}

static enum err find_rows(struct find *f, uint64_t *next)
{
    bool named = f->name.n && !glob_is_pattern(f->name);
    uint64_t last = 0;
    sqlite3_stmt *st;
    enum err e = lab_db_statement(f->l, &st,
                                  f->by_id ? sql_page_of_id
                                  : named  ? sql_page_of_name
                                           : sql_page);

    if (e) {
        return e;
    }
    db_bind_number(st, 1, f->ask->before ? (int64_t)f->ask->before : INT64_MAX);
    db_bind_number(st, 2, f->ask->since_ns);
    db_bind_number(st, 3, f->ask->until_ns);
    if (f->by_id) {
        db_bind_bytes(st, 5, f->id_low.b, sizeof f->id_low.b);
        db_bind_bytes(st, 6, f->id_high.b, sizeof f->id_high.b);
    } else if (named) {
        (void)sqlite3_bind_text(st, 5, f->name.p, (int)f->name.n, SQLITE_STATIC);
    }
    while (!e && (e = db_row(f->d, st), !e)) {
        if (f->n == f->max || (f->nth && f->met == f->nth)) {
            *next = f->nth ? 0 : last;
            break;
        }
        last = (uint64_t)sqlite3_column_int64(st, 0);
        e = find_row(f, st);
    }
    (void)sqlite3_reset(st);
    return e == ERR_END ? ERR_OK : e;
}

enum err runs_find(struct lab_db *l, const struct runs_who *who, const struct wire_runs_ask *ask,
                   struct arena *memory, struct wire_runs *out, struct errmsg *why)
{
    struct find f = {.l = l, .who = who, .ask = ask, .memory = memory};
    uint64_t next = 0;
    enum err e = find_spec(&f, why);

    if (e) {
        return e;
    }
    f.max = ask->limit && ask->limit < WIRE_RUN_LIST_MAX ? ask->limit : WIRE_RUN_LIST_MAX;
    f.runs = arena_array(memory, f.max + 1, sizeof *f.runs);
    if (!f.runs) {
        return ERR_FULL;
    }
    e = lab_db_begin(l, &f.d, LAB_DB_READ);
    if (e) {
        return e;
    }
    e = lab_db_end(l, find_rows(&f, &next));
    *out = (struct wire_runs){.n = f.n, .runs = f.runs, .next = next};
    return e;
}

enum err runs_read(struct lab_db *l, uint64_t number, struct arena *memory, struct wire_run *out)
{
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    return e ? e : lab_db_end(l, run_by_number(l, d, number, memory, out));
}

/* -- keeping -- */

enum err runs_expire(struct lab_db *l, int64_t now_ns, uint32_t *ended)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_expire);
    if (!e) {
        db_bind_number(st, 1, now_ns);
        e = db_change(d, st);
    }
    *ended = e ? 0 : (uint32_t)sqlite3_changes(d->sqlite);
    return lab_db_end(l, e);
}

enum err runs_list(struct lab_db *l, enum runs_which which, int64_t since, uint64_t *numbers,
                   size_t max, size_t *n)
{
    const struct {
        const char *sql;
        int64_t value;
    } ways[] = {[RUNS_OPEN] = {sql_in_state, WIRE_RUN_OPEN},
                [RUNS_CLOSING] = {sql_in_state, WIRE_RUN_CLOSING},
                [RUNS_STALE] = {sql_stale, 0},
                [RUNS_ENDED] = {sql_ended, since},
                [RUNS_IMPORTED] = {sql_imported, since}};
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    *n = 0;
    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, ways[which].sql);
    if (!e) {
        db_bind_number(st, 1, ways[which].value);
        db_bind_number(st, 2, (int64_t)max);
        while (*n < max && (e = db_row(d, st), !e)) {
            numbers[(*n)++] = (uint64_t)sqlite3_column_int64(st, 0);
        }
    }
    return lab_db_end(l, e == ERR_END ? ERR_OK : e);
}

enum err runs_overlaps(struct lab_db *l, const struct wire_run *run, const struct uuid *host,
                       bool *overlaps)
{
    sqlite3_stmt *st;
    struct db *d;
    int64_t n = 0;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    *overlaps = false;
    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_overlaps);
    if (!e && !run->root_pid) {
        db_bind_bytes(st, 1, host->b, sizeof host->b);
        db_bind_number(st, 2, (int64_t)run->number);
        db_bind_number(st, 3, run->began_ns);
        db_bind_number(st, 4, run->ended_ns ? run->ended_ns : INT64_MAX);
        bind_id(st, 5, &run->parent);
        bind_id(st, 6, &run->id);
        e = db_number(d, st, &n);
    }
    *overlaps = n > 0;
    return lab_db_end(l, e);
}

enum err runs_known(struct lab_db *l, const struct uuid *id, bool *known)
{
    sqlite3_stmt *st;
    struct db *d;
    int64_t n = 0;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    if (e) {
        return e;
    }
    if ((e = lab_db_statement(l, &st, sql_known)) == ERR_OK) {
        db_bind_bytes(st, 1, id->b, sizeof id->b);
        e = db_number(d, st, &n);
    }
    *known = n > 0;
    return lab_db_end(l, e);
}

enum err runs_host_add(struct lab_db *l, uint64_t number, const struct uuid *host, struct str name)
{
    const struct wire_run_host h = {.id = *host, .name = name, .added = true};
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    return e ? e : lab_db_end(l, host_put(l, d, number, &h));
}

enum err runs_stale(struct lab_db *l, uint64_t number)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = runs_statement(l, &st, sql_make_stale, number);
    return lab_db_end(l, e ? e : db_change(d, st));
}

enum err runs_filed(struct lab_db *l, const struct wire_run *run, bool root_found)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = runs_statement(l, &st, sql_filed, run->number);
    if (!e) {
        db_bind_number(st, 2, run->revision);
        db_bind_number(st, 3, (int64_t)run->file_bytes);
        db_bind_number(st, 4, run->coverage);
        (void)sqlite3_bind_text(st, 5, run->classes.p ? run->classes.p : "", (int)run->classes.n,
                                SQLITE_STATIC);
        db_bind_number(st, 6, run->hosts_in);
        db_bind_number(st, 7, root_found ? 0 : ROW_ROOTLESS);
        e = db_change(d, st);
    }
    return lab_db_end(l, e);
}

enum err runs_import(struct lab_db *l, const struct wire_run *run, struct arena *memory,
                     struct wire_run *out, enum err (*place)(void *ctx), void *ctx,
                     struct errmsg *why)
{
    struct wire_run copy = *run;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    copy.state = WIRE_RUN_IMPORTED;
    e = run_by_id(l, d, &run->id, memory, out);
    if (!e) {
        e = out->state == WIRE_RUN_IMPORTED
                ? runs_trim_row(l, d, out->number)
                : errmsg_set(why, ERR_EXISTS, "the collector has this run itself");
    } else if (e == ERR_NOTFOUND) {
        e = ERR_OK;
    }
    e = e ? e : run_put(l, d, &copy, "", ROW_IMPORTED);
    e = e ? e : run_by_number(l, d, copy.number, memory, out);
    e = e ? e : place(ctx);
    return lab_db_end(l, e);
}
