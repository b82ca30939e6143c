/* One day's file. Tables:
 *
 *   host(id, uuid)   boot(id, host, uuid, first, last)   text(id, hash, s)   done(number)
 *   inst(boot, pid, start, host, class, begin, …)   by (boot, pid, start)
 *   index inst_time(host, class, begin)
 *
 * Who was alive in [since, until): an interval is not found by an index on its ends, so instances
 * are put in classes by how long they lived: of class k those that began after since - 2^k seconds,
 * of the open class all that began before until. That is some 40 short ranges of one index.
 *
 * Text is stored once a day; it is found by a hash, since an index over the text would store it
 * twice. u64 are kept as the i64 of the same bits. */
#include "collector/store/catalogue/catalogue_db.h"

#include <sqlite3.h>

#include "collector/db/db.h"
#include "collector/store/memtable/head_info.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define FORMAT     2
#define APP_ID     0x70666331 /* "pfc1" */
#define BUSY_MS    10000
#define TEXT_SLOTS 8192u /* texts whose places are remembered */
#define KEPT_TEXTS 256u  /* names and users that were read last */

enum statement {
    S_FACTS,
    S_DONE_ALL,
    S_DONE_ADD,
    S_HOST_GET,
    S_HOST_ADD,
    S_BOOT_GET,
    S_BOOT_ADD,
    S_BOOT_SET,
    S_BOOTS,
    S_BOOTS_ALL,
    S_TEXT_GET,
    S_TEXT_ADD,
    S_TEXT_OF,
    S_INST_GET,
    S_INST_BRIEF,
    S_INST_PUT,
    S_ALIVE,
    S_PID,
    S_RUNNING,
    S_COUNTS_SET,
    S_COUNT
};

#define INST_INFO                                                                           \
    "begin, seen, have, origin, cpu_origin, parent_pid, parent_start, session, exit_code, " \
    "created, exited"

static const char *const sql[S_COUNT] = {
    [S_FACTS] = "SELECT (SELECT min(first) FROM boot WHERE last >= first), "
                "(SELECT max(last) FROM boot WHERE last >= first), instances, running FROM counts",
    [S_DONE_ALL] = "SELECT number FROM done ORDER BY number",
    [S_DONE_ADD] = "INSERT OR IGNORE INTO done VALUES(?1)",
    [S_HOST_GET] = "SELECT id FROM host WHERE uuid = ?1",
    [S_HOST_ADD] = "INSERT INTO host(uuid) VALUES(?1)",
    [S_BOOT_GET] = "SELECT id, first, last FROM boot WHERE host = ?1 AND uuid = ?2",
    [S_BOOT_ADD] = "INSERT INTO boot(host, uuid, first, last) VALUES(?1, ?2, ?3, ?4)",
    [S_BOOT_SET] = "UPDATE boot SET first = ?2, last = ?3 WHERE id = ?1",
    [S_BOOTS] = "SELECT boot.id, boot.uuid, first, last, host.id FROM host JOIN boot "
                "ON boot.host = host.id WHERE host.uuid = ?1 ORDER BY boot.uuid",
    [S_BOOTS_ALL] =
        "SELECT boot.id, boot.uuid, first, last, host.id, host.uuid FROM boot JOIN host "
        "ON boot.host = host.id WHERE last >= first ORDER BY host.id, last",
    [S_TEXT_GET] = "SELECT id FROM text WHERE hash = ?1 AND s = ?2",
    [S_TEXT_ADD] = "INSERT INTO text(hash, s) VALUES(?1, ?2)",
    [S_INST_GET] = "SELECT " INST_INFO ", n.s, i.s, l.s, u.s FROM inst "
                   "LEFT JOIN text n ON n.id = name LEFT JOIN text i ON i.id = image "
                   "LEFT JOIN text l ON l.id = line LEFT JOIN text u ON u.id = user "
                   "WHERE boot = ?1 AND pid = ?2 AND start = ?3",
    [S_TEXT_OF] = "SELECT s FROM text WHERE id = ?1",
    /* names and users repeat: their texts are kept */
    [S_INST_BRIEF] = "SELECT " INST_INFO ", name, user FROM inst "
                     "WHERE boot = ?1 AND pid = ?2 AND start = ?3",
    [S_INST_PUT] =
        "INSERT OR REPLACE INTO inst(boot, pid, start, host, class, " INST_INFO
        ", name, image, line, user) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
        "?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
    [S_ALIVE] = "SELECT boot, pid, start FROM inst WHERE host = ?1 AND class = ?2 AND begin >= ?3 "
                "AND begin < ?4",
    [S_PID] = "SELECT boot, pid, start FROM inst WHERE boot = ?1 AND pid = ?2",
    [S_RUNNING] = "SELECT boot, pid, start FROM inst WHERE boot = ?1 AND class = 63",
    [S_COUNTS_SET] = "UPDATE counts SET instances = ?1, running = ?2",
};

static const char schema[] =
    "CREATE TABLE host(id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE);"
    "CREATE TABLE boot(id INTEGER PRIMARY KEY, host INTEGER NOT NULL, uuid BLOB NOT NULL,"
    " first INTEGER NOT NULL, last INTEGER NOT NULL, UNIQUE(host, uuid));"
    "CREATE TABLE text(id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, s BLOB NOT NULL);"
    "CREATE INDEX text_hash ON text(hash);"
    "CREATE TABLE inst(boot INTEGER, pid INTEGER, start INTEGER, host INTEGER, class INTEGER,"
    " begin INTEGER, seen INTEGER, have INTEGER, origin INTEGER, cpu_origin INTEGER,"
    " parent_pid INTEGER, parent_start INTEGER, session INTEGER, exit_code INTEGER,"
    " created INTEGER, exited INTEGER, name INTEGER, image INTEGER, line INTEGER, user INTEGER,"
    " PRIMARY KEY(boot, pid, start)) WITHOUT ROWID;"
    "CREATE INDEX inst_time ON inst(host, class, begin);"
    "CREATE TABLE done(number INTEGER PRIMARY KEY);"
    "CREATE TABLE counts(instances INTEGER, running INTEGER);"
    "INSERT INTO counts VALUES(0, 0);"
    "PRAGMA application_id = 1885758257;"
    "PRAGMA user_version = 2;";

struct day_db {
    sqlite3 *db;
    sqlite3_stmt *st[S_COUNT];
    uint64_t
        seed; /* of the hashes in `texts`; secret, so that collisions cannot be made on purpose */
    uint64_t instances, running;
    struct {
        uint64_t hash;
        int64_t id;
    } texts[TEXT_SLOTS];
    struct {
        int64_t id; /* 0: none */
        struct str s;
    } kept[KEPT_TEXTS]; /* by id; a text never changes */
};

static enum err err_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return ERR_OK;
    case SQLITE_NOMEM:
        return ERR_NOMEM;
    case SQLITE_FULL:
        return ERR_NOSPACE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    case SQLITE_CANTOPEN:
        return ERR_NOTFOUND;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return ERR_ACCESS;
    case SQLITE_IOERR:
    case SQLITE_READONLY:
        return ERR_IO;
    default: /* damaged, or no file of ours: tables are missing */
        return ERR_CORRUPT;
    }
}

/* -- opening -- */

static enum err run(struct day_db *d, const char *text)
{
    return err_of(sqlite3_exec(d->db, text, NULL, NULL, NULL));
}

static int pragma(struct day_db *d, const char *text, int64_t *v)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->db, text, -1, &st, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
        *v = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    }
    (void)sqlite3_finalize(st);
    return rc;
}

/* Makes the tables in a new file; sees that an old one has them. */
static enum err check_format(struct day_db *d, bool may_make)
{
    int64_t app = 0, version = 0, tables = 0;
    enum err e = err_of(pragma(d, "PRAGMA application_id", &app));

    if (!e) {
        e = err_of(pragma(d, "PRAGMA user_version", &version));
    }
    if (!e) {
        e = err_of(pragma(d, "SELECT count(*) FROM sqlite_master", &tables));
    }
    if (e || (app == APP_ID && version == FORMAT)) {
        return e;
    }
    if (app || version || tables || !may_make) {
        return ERR_CORRUPT;
    }
    e = run(d, "BEGIN IMMEDIATE");
    return e ? e : run(d, schema) ? ERR_IO : run(d, "COMMIT");
}

/* What a find needs; preparing is most of what opening costs. */
#define READING                                                                                  \
    (1u << S_FACTS | 1u << S_BOOTS | 1u << S_BOOTS_ALL | 1u << S_INST_GET | 1u << S_INST_BRIEF | \
     1u << S_TEXT_OF | 1u << S_ALIVE | 1u << S_PID | 1u << S_RUNNING)

static enum err prepare(struct day_db *d, enum day_open how)
{
    for (size_t i = 0; i < S_COUNT; i++) {
        int rc =
            how == DAY_READ && !(READING >> i & 1)
                ? SQLITE_OK
                : sqlite3_prepare_v3(d->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &d->st[i], NULL);

        if (rc != SQLITE_OK) {
            return err_of(rc);
        }
    }
    return ERR_OK;
}

static enum err set_up(struct day_db *d, enum day_open how)
{
    struct day_facts facts;
    enum err e;

    (void)sqlite3_busy_timeout(d->db, BUSY_MS);
    e = run(d,
            how == DAY_WRITE
                ? "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                  "PRAGMA cache_size = -8000; PRAGMA temp_store = MEMORY;"
                  "PRAGMA wal_autocheckpoint = 8192;"
                : "PRAGMA cache_size = -500; PRAGMA temp_store = MEMORY;");
    if (!e) {
        e = check_format(d, how == DAY_WRITE);
    }
    if (!e) {
        e = prepare(d, how);
    }
    if (!e) {
        e = catalogue_db_facts(d, &facts);
    }
    if (!e) {
        d->instances = facts.instances;
        d->running = facts.running;
    }
    return e;
}

enum err catalogue_db_open(struct day_db **out, const char *path, enum day_open how)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    const char *layer = db_layer();
    struct day_db *d = layer ? mem_zalloc(sizeof *d) : NULL;
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    e = os_random(&d->seed, sizeof d->seed);
    if (!e) {
        e = err_of(sqlite3_open_v2(path, &d->db,
                                   flags | (how == DAY_WRITE ? SQLITE_OPEN_CREATE : 0), layer));
    }
    if (!e) {
        e = db_reserve(d->db);
    }
    if (!e) {
        e = set_up(d, how);
    }
    if (e) {
        catalogue_db_close(d);
        return e;
    }
    *out = d;
    return ERR_OK;
}

void catalogue_db_close(struct day_db *d)
{
    if (d) {
        for (size_t i = 0; i < S_COUNT; i++) {
            (void)sqlite3_finalize(d->st[i]);
        }
        (void)sqlite3_close(d->db);
        for (size_t i = 0; i < KEPT_TEXTS; i++) {
            mem_free((void *)(uintptr_t)d->kept[i].s.p);
        }
        mem_free(d);
    }
}

/* -- statements -- */

static void bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u)
{
    (void)sqlite3_bind_blob(st, at, u->b, sizeof u->b, SQLITE_STATIC);
}

static void bind_all(sqlite3_stmt *st, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++) {
        (void)sqlite3_bind_int64(st, i + 1, v[i]);
    }
}

/* Ends a statement; rc is that of its last step. */
static enum err finish(sqlite3_stmt *st, int rc)
{
    (void)sqlite3_reset(st);
    return err_of(rc);
}

static enum err change(sqlite3_stmt *st)
{
    return finish(st, sqlite3_step(st));
}

static bool get_uuid(sqlite3_stmt *st, int at, struct uuid *out)
{
    const void *p = sqlite3_column_blob(st, at);

    if (!p || sqlite3_column_bytes(st, at) != (int)sizeof out->b) {
        return false;
    }
    memcpy(out->b, p, sizeof out->b);
    return true;
}

/* The only row's first column. Errors: ERR_NOTFOUND */
static enum err get_id(sqlite3_stmt *st, int64_t *id)
{
    int rc = sqlite3_step(st);
    enum err e = rc == SQLITE_DONE ? ERR_NOTFOUND : err_of(rc);

    if (!e) {
        *id = sqlite3_column_int64(st, 0);
    }
    (void)sqlite3_reset(st);
    return e;
}

/* -- transactions -- */

enum err catalogue_db_begin(struct day_db *d)
{
    return run(d, "BEGIN IMMEDIATE");
}

enum err catalogue_db_read_begin(struct day_db *d)
{
    return run(d, "BEGIN");
}

void catalogue_db_read_end(struct day_db *d)
{
    if (d && !sqlite3_get_autocommit(d->db)) {
        err_ignore(run(d, "COMMIT"));
    }
}

void catalogue_db_rollback(struct day_db *d)
{
    struct day_facts facts;

    err_ignore(run(d, "ROLLBACK"));
    memset(d->texts, 0, sizeof d->texts); /* some of them are gone */
    if (catalogue_db_facts(d, &facts) == ERR_OK) {
        d->instances = facts.instances;
        d->running = facts.running;
    }
}

enum err catalogue_db_commit(struct day_db *d)
{
    const int64_t counts[] = {(int64_t)d->instances, (int64_t)d->running};
    enum err e;

    bind_all(d->st[S_COUNTS_SET], counts, 2);
    e = change(d->st[S_COUNTS_SET]);
    if (!e) {
        e = run(d, "COMMIT");
    }
    if (e) {
        catalogue_db_rollback(d);
        return e;
    }
    return ERR_OK;
}

void catalogue_db_settle(struct day_db *d)
{
    err_ignore(run(d, "PRAGMA wal_checkpoint(TRUNCATE)"));
}

enum err catalogue_db_facts(struct day_db *d, struct day_facts *out)
{
    sqlite3_stmt *st = d->st[S_FACTS];
    int rc = sqlite3_step(st);

    if (rc == SQLITE_ROW) {
        *out = (struct day_facts){
            .first_ns = sqlite3_column_int64(st, 0),
            .last_ns = sqlite3_column_int64(st, 1),
            .instances = (uint64_t)sqlite3_column_int64(st, 2),
            .running = (uint64_t)sqlite3_column_int64(st, 3),
        };
    }
    return finish(st, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc);
}

enum err catalogue_db_each_done(struct day_db *d, enum err (*each)(void *ctx, uint64_t number),
                                void *ctx)
{
    sqlite3_stmt *st = d->st[S_DONE_ALL];
    enum err e = ERR_OK;
    int rc;

    while (rc = sqlite3_step(st), rc == SQLITE_ROW && !e) {
        e = each(ctx, (uint64_t)sqlite3_column_int64(st, 0));
    }
    (void)sqlite3_reset(st);
    return e ? e : err_of(rc);
}

enum err catalogue_db_done(struct day_db *d, uint64_t number)
{
    (void)sqlite3_bind_int64(d->st[S_DONE_ADD], 1, (int64_t)number);
    return change(d->st[S_DONE_ADD]);
}

/* -- hosts, boots, texts -- */

enum err catalogue_db_host(struct day_db *d, const struct uuid *host, int64_t *id)
{
    enum err e;

    bind_uuid(d->st[S_HOST_GET], 1, host);
    e = get_id(d->st[S_HOST_GET], id);
    if (e != ERR_NOTFOUND) {
        return e;
    }
    bind_uuid(d->st[S_HOST_ADD], 1, host);
    e = change(d->st[S_HOST_ADD]);
    *id = sqlite3_last_insert_rowid(d->db);
    return e;
}

static enum err boot_widen(struct day_db *d, const struct day_boot *b, int64_t first_ns,
                           int64_t last_ns)
{
    bool none = b->last_ns < b->first_ns;
    const int64_t v[] = {b->id, none || first_ns < b->first_ns ? first_ns : b->first_ns,
                         none || last_ns > b->last_ns ? last_ns : b->last_ns};

    if (last_ns < first_ns) {
        return ERR_OK;
    }
    bind_all(d->st[S_BOOT_SET], v, 3);
    return change(d->st[S_BOOT_SET]);
}

enum err catalogue_db_boot(struct day_db *d, int64_t host, const struct uuid *boot,
                           int64_t first_ns, int64_t last_ns, int64_t *id)
{
    sqlite3_stmt *get = d->st[S_BOOT_GET], *add = d->st[S_BOOT_ADD];
    struct day_boot known = {0};
    enum err e;
    int rc;

    (void)sqlite3_bind_int64(get, 1, host);
    bind_uuid(get, 2, boot);
    rc = sqlite3_step(get);
    if (rc == SQLITE_ROW) {
        known = (struct day_boot){.id = sqlite3_column_int64(get, 0),
                                  .first_ns = sqlite3_column_int64(get, 1),
                                  .last_ns = sqlite3_column_int64(get, 2)};
    }
    e = finish(get, rc);
    if (e || rc == SQLITE_ROW) {
        *id = known.id;
        return e ? e : boot_widen(d, &known, first_ns, last_ns);
    }
    (void)sqlite3_bind_int64(add, 1, host);
    bind_uuid(add, 2, boot);
    (void)sqlite3_bind_int64(add, 3, first_ns);
    (void)sqlite3_bind_int64(add, 4, last_ns);
    e = change(add);
    *id = sqlite3_last_insert_rowid(d->db);
    return e;
}

static enum err text_find(struct day_db *d, struct str s, int64_t *id)
{
    int64_t hash = (int64_t)hash_bytes(s.p, s.n, 0);
    sqlite3_stmt *st = d->st[S_TEXT_GET];
    enum err e;

    (void)sqlite3_bind_int64(st, 1, hash);
    (void)sqlite3_bind_blob(st, 2, s.p, (int)s.n, SQLITE_STATIC);
    e = get_id(st, id);
    if (e != ERR_NOTFOUND) {
        return e;
    }
    st = d->st[S_TEXT_ADD];
    (void)sqlite3_bind_int64(st, 1, hash);
    (void)sqlite3_bind_blob(st, 2, s.p, (int)s.n, SQLITE_STATIC);
    e = change(st);
    *id = sqlite3_last_insert_rowid(d->db);
    return e;
}

/* Its place; 0 for no text. */
static enum err text_id(struct day_db *d, struct str s, int64_t *id)
{
    uint64_t hash;
    enum err e;

    *id = 0;
    if (!s.n) {
        return ERR_OK;
    }
    hash = hash_bytes(s.p, s.n, d->seed);
    if (d->texts[hash % TEXT_SLOTS].id && d->texts[hash % TEXT_SLOTS].hash == hash) {
        *id = d->texts[hash % TEXT_SLOTS].id;
        return ERR_OK;
    }
    e = text_find(d, s, id);
    if (!e) {
        d->texts[hash % TEXT_SLOTS].hash = hash;
        d->texts[hash % TEXT_SLOTS].id = *id;
    }
    return e;
}

/* -- instances -- */

static int class_of(const struct day_inst *i)
{
    int64_t lived_s = clk_sub(i->info.exit_ns, i->begin_ns) / CLK_S;
    int k = 0;

    if (!(i->info.have & INFO_EXITED) || !i->info.exit_ns) {
        return CATALOGUE_OPEN;
    }
    while (k < CATALOGUE_CLASSES - 1 && lived_s >> k > 0) {
        k++;
    }
    return k;
}

static struct str column_text(sqlite3_stmt *st, int at)
{
    struct str s = {sqlite3_column_blob(st, at), 0};

    s.n = s.p ? (size_t)sqlite3_column_bytes(st, at) : 0;
    s.p = s.p ? s.p : "";
    return s;
}

/* All but its texts. */
static void get_facts(sqlite3_stmt *st, const struct day_key *k, struct day_inst *out)
{
    struct proc_info *i = &out->info;

    memset(out, 0, sizeof *out);
    i->id = k->id;
    out->begin_ns = sqlite3_column_int64(st, 0);
    out->seen_ns = sqlite3_column_int64(st, 1);
    i->have = (uint32_t)sqlite3_column_int64(st, 2);
    i->origin = (uint8_t)sqlite3_column_int64(st, 3);
    i->cpu_origin = (uint8_t)sqlite3_column_int64(st, 4);
    i->parent_pid = (uint32_t)sqlite3_column_int64(st, 5);
    i->parent_start = (uint64_t)sqlite3_column_int64(st, 6);
    i->session_id = (uint32_t)sqlite3_column_int64(st, 7);
    i->exit_code = (uint32_t)sqlite3_column_int64(st, 8);
    i->create_ns = sqlite3_column_int64(st, 9);
    i->exit_ns = sqlite3_column_int64(st, 10);
}

/* Text is valid until the statement goes on. */
static void get_inst(sqlite3_stmt *st, const struct day_key *k, struct day_inst *out)
{
    struct proc_info *i = &out->info;

    get_facts(st, k, out);
    i->name = column_text(st, 11);
    i->image = column_text(st, 12);
    i->command_line = column_text(st, 13);
    i->user = column_text(st, 14);
}

/* Steps to the row; ERR_NOTFOUND: there is none. The caller resets. */
static enum err find_inst(sqlite3_stmt *st, const struct day_key *k)
{
    const int64_t key[] = {k->boot, k->id.pid, (int64_t)k->id.start};
    int rc;

    bind_all(st, key, 3);
    rc = sqlite3_step(st);
    return rc == SQLITE_DONE ? ERR_NOTFOUND : err_of(rc);
}

static enum err put_inst(struct day_db *d, int64_t host, int64_t boot, const struct day_inst *x)
{
    const struct proc_info *i = &x->info;
    const struct str texts[CATALOGUE_TEXTS] = {i->name, i->image, i->command_line, i->user};
    int64_t v[20] = {
        boot,          i->id.pid,     (int64_t)i->id.start, host,
        class_of(x),   x->begin_ns,   x->seen_ns,           i->have,
        i->origin,     i->cpu_origin, i->parent_pid,        (int64_t)i->parent_start,
        i->session_id, i->exit_code,  i->create_ns,         i->exit_ns,
    };
    enum err e = ERR_OK;

    for (size_t k = 0; !e && k < CATALOGUE_TEXTS; k++) {
        e = text_id(d, texts[k], &v[16 + k]);
    }
    if (e) {
        return e;
    }
    bind_all(d->st[S_INST_PUT], v, 20);
    return change(d->st[S_INST_PUT]);
}

/* Begin: the moment of creation once that is known, else the earliest that was told. */
static void join_inst(struct day_inst *known, const struct day_inst *told)
{
    bool newer = told->seen_ns >= known->seen_ns;

    known->begin_ns = told->begin_ns < known->begin_ns ? told->begin_ns : known->begin_ns;
    known->seen_ns = newer ? told->seen_ns : known->seen_ns;
    head_info_join(&known->info, &told->info, newer);
    if ((known->info.have & INFO_CREATE_TIME) && known->info.create_ns > 0) {
        known->begin_ns = known->info.create_ns;
    }
}

static bool same_inst(const struct day_inst *a, const struct day_inst *b)
{
    return a->begin_ns == b->begin_ns && a->seen_ns == b->seen_ns &&
           head_info_same(&a->info, &b->info);
}

enum err catalogue_db_tell(struct day_db *d, int64_t host, int64_t boot,
                           const struct day_inst *told)
{
    const struct day_key key = {boot, told->info.id};
    sqlite3_stmt *st = d->st[S_INST_GET];
    struct day_inst known, before;
    enum err e = find_inst(st, &key);
    bool is_new = e == ERR_NOTFOUND, ran = false, same = false;

    if (!e) {
        get_inst(st, &key, &known);
        ran = class_of(&known) == CATALOGUE_OPEN;
        before = known;
        join_inst(&known, told);
        same = same_inst(&before, &known);
    } else if (is_new) {
        known = *told;
        join_inst(&known, told);
        e = d->instances >= CATALOGUE_INSTANCES_MAX ? ERR_FULL : ERR_OK;
    }
    if (!e && !same) {
        e = put_inst(d, host, boot, &known); /* text of the old row is valid until here */
    }
    (void)sqlite3_reset(st);
    if (!e) {
        d->instances += is_new;
        d->running += class_of(&known) == CATALOGUE_OPEN;
        d->running -= ran;
    }
    return e;
}

/* -- reading -- */

enum err catalogue_db_boots(struct day_db *d, struct arena *memory, const struct uuid *host,
                            int64_t *host_id, struct day_boot **out, size_t *n)
{
    sqlite3_stmt *st = d->st[S_BOOTS];
    struct day_boot *boots = NULL;
    size_t count = 0, cap = 0;
    enum err e = ERR_OK;
    int rc;

    bind_uuid(st, 1, host);
    while (rc = sqlite3_step(st), rc == SQLITE_ROW && !e) {
        if (count == cap) {
            struct day_boot *more = arena_array(memory, cap ? cap * 2 : 4, sizeof *more);

            e = more ? ERR_OK : ERR_FULL;
            if (more && count) {
                memcpy(more, boots, count * sizeof *more);
            }
            boots = more;
            cap = cap ? cap * 2 : 4;
        }
        if (!e) {
            struct day_boot *b = &boots[count++];

            b->id = sqlite3_column_int64(st, 0);
            e = get_uuid(st, 1, &b->uuid) ? ERR_OK : ERR_CORRUPT;
            b->first_ns = sqlite3_column_int64(st, 2);
            b->last_ns = sqlite3_column_int64(st, 3);
            *host_id = sqlite3_column_int64(st, 4);
        }
    }
    (void)sqlite3_reset(st);
    *out = boots;
    *n = count;
    return e ? e : err_of(rc);
}

/* Every (boot, pid, start) that the statement gives. */
static enum err each_key(sqlite3_stmt *st, enum err (*each)(void *ctx, const struct day_key *k),
                         void *ctx)
{
    enum err e = ERR_OK;
    int rc;

    while (rc = sqlite3_step(st), rc == SQLITE_ROW && !e) {
        const struct day_key k = {
            sqlite3_column_int64(st, 0),
            {(uint32_t)sqlite3_column_int64(st, 1), (uint64_t)sqlite3_column_int64(st, 2)}};

        e = each(ctx, &k);
    }
    (void)sqlite3_reset(st);
    return e ? e : err_of(rc);
}

enum err catalogue_db_alive(struct day_db *d, int64_t host, int64_t since_ns, int64_t until_ns,
                            enum err (*each)(void *ctx, const struct day_key *k), void *ctx)
{
    sqlite3_stmt *st = d->st[S_ALIVE];
    int64_t longest_ns = CLK_S; /* of the class */
    enum err e = ERR_OK;

    for (int k = 0; !e && k < CATALOGUE_CLASSES; k++) {
        const int64_t v[] = {host, k,
                             k == CATALOGUE_CLASSES - 1 ? INT64_MIN : clk_sub(since_ns, longest_ns),
                             until_ns};

        bind_all(st, v, 4);
        e = each_key(st, each, ctx);
        longest_ns = longest_ns < INT64_MAX / 2 ? longest_ns * 2 : INT64_MAX;
    }
    if (!e) {
        const int64_t v[] = {host, CATALOGUE_OPEN, INT64_MIN, until_ns};

        bind_all(st, v, 4);
        e = each_key(st, each, ctx);
    }
    return e;
}

struct one_start {
    uint64_t start;
    enum err (*each)(void *ctx, const struct day_key *k);
    void *ctx;
};

static enum err if_start(void *ctx, const struct day_key *k)
{
    const struct one_start *o = ctx;

    return o->start && o->start != k->id.start ? ERR_OK : o->each(o->ctx, k);
}

enum err catalogue_db_of_pid(struct day_db *d, int64_t boot, uint32_t pid, uint64_t start,
                             enum err (*each)(void *ctx, const struct day_key *k), void *ctx)
{
    struct one_start o = {start, each, ctx};
    const int64_t v[] = {boot, pid};

    bind_all(d->st[S_PID], v, 2);
    return each_key(d->st[S_PID], if_start, &o);
}

/* Reads the text into its place among the kept. */
static enum err text_keep(struct day_db *d, int64_t id, struct str *kept)
{
    sqlite3_stmt *st = d->st[S_TEXT_OF];
    struct str s = {"", 0};
    enum err e;
    char *p;
    int rc;

    bind_all(st, &id, 1);
    rc = sqlite3_step(st);
    e = err_of(rc);
    if (rc == SQLITE_ROW) {
        s = column_text(st, 0);
        e = s.n > MODEL_COMMAND_LINE_MAX ? ERR_CORRUPT : ERR_OK;
    }
    p = e ? NULL : mem_alloc(s.n + 1);
    if (p) {
        memcpy(p, s.p, s.n);
        mem_free((void *)(uintptr_t)kept->p);
        *kept = (struct str){p, s.n};
    }
    (void)sqlite3_reset(st);
    return e ? e : p ? ERR_OK : ERR_NOMEM;
}

/* Valid until another text is asked for. id 0: it has none */
static enum err text_of(struct day_db *d, int64_t id, struct str *out)
{
    size_t at = (uint64_t)id % KEPT_TEXTS;
    enum err e = ERR_OK;

    *out = (struct str){"", 0};
    if (!id) {
        return ERR_OK;
    }
    if (d->kept[at].id != id) {
        d->kept[at].id = 0;
        e = text_keep(d, id, &d->kept[at].s);
        d->kept[at].id = e ? 0 : id;
    }
    if (!e) {
        *out = d->kept[at].s;
    }
    return e;
}

static enum err get_brief(struct day_db *d, struct arena *memory, const struct day_key *k,
                          struct day_inst *out)
{
    sqlite3_stmt *st = d->st[S_INST_BRIEF];
    struct str *texts[] = {&out->info.name, &out->info.user};
    enum err e = find_inst(st, k);

    if (!e) {
        get_facts(st, k, out);
        out->info.image = out->info.command_line = (struct str){"", 0};
    }
    for (int i = 0; !e && i < 2; i++) {
        e = text_of(d, sqlite3_column_int64(st, 11 + i), texts[i]);
        texts[i]->p = e ? "" : arena_dup(memory, texts[i]->p, texts[i]->n);
        e = texts[i]->p ? e : arena_refused(memory, texts[i]->n);
    }
    (void)sqlite3_reset(st);
    return e;
}

enum err catalogue_db_get(struct day_db *d, struct arena *memory, const struct day_key *k,
                          bool brief, struct day_inst *out)
{
    sqlite3_stmt *st = d->st[S_INST_GET];
    struct str *texts[] = {&out->info.name, &out->info.image, &out->info.command_line,
                           &out->info.user};
    enum err e;

    if (brief) {
        return get_brief(d, memory, k, out);
    }
    e = find_inst(st, k);
    if (!e) {
        get_inst(st, k, out);
        for (size_t i = 0; !e && i < CATALOGUE_TEXTS; i++) {
            e = texts[i]->n > MODEL_COMMAND_LINE_MAX ? ERR_CORRUPT : ERR_OK;
            texts[i]->p = e ? "" : arena_dup(memory, texts[i]->p, texts[i]->n);
            e = texts[i]->p ? e : arena_refused(memory, texts[i]->n);
        }
    }
    (void)sqlite3_reset(st);
    return e;
}

enum err catalogue_db_each_boot(struct day_db *d,
                                enum err (*each)(void *ctx, int64_t host_id,
                                                 const struct uuid *host, const struct day_boot *b),
                                void *ctx)
{
    sqlite3_stmt *st = d->st[S_BOOTS_ALL];
    enum err e = ERR_OK;
    int rc;

    while (rc = sqlite3_step(st), rc == SQLITE_ROW && !e) {
        struct day_boot b = {.id = sqlite3_column_int64(st, 0),
                             .first_ns = sqlite3_column_int64(st, 2),
                             .last_ns = sqlite3_column_int64(st, 3)};
        struct uuid host;

        e = get_uuid(st, 1, &b.uuid) && get_uuid(st, 5, &host) ? ERR_OK : ERR_CORRUPT;
        if (!e) {
            e = each(ctx, sqlite3_column_int64(st, 4), &host, &b);
        }
    }
    (void)sqlite3_reset(st);
    return e ? e : err_of(rc);
}

enum err catalogue_db_running(struct day_db *d, int64_t boot,
                              enum err (*each)(void *ctx, const struct day_key *k), void *ctx)
{
    (void)sqlite3_bind_int64(d->st[S_RUNNING], 1, boot);
    return each_key(d->st[S_RUNNING], each, ctx);
}
