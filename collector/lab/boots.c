#include "collector/lab/boots.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

static const char sql_put[] =
    "INSERT INTO boot(host, id, booted_ns, first_ns, last_ns, good_bye)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(host, id) DO UPDATE SET"
    " booted_ns = CASE WHEN booted_ns THEN booted_ns ELSE excluded.booted_ns END,"
    " first_ns = min(first_ns, excluded.first_ns),"
    " good_bye = CASE WHEN excluded.last_ns >= last_ns THEN excluded.good_bye ELSE good_bye END,"
    " last_ns = max(last_ns, excluded.last_ns)";
static const char sql_trim[] =
    "DELETE FROM boot WHERE host = ?1 AND first_ns < (SELECT first_ns FROM boot WHERE host = ?1"
    " ORDER BY first_ns DESC LIMIT 1 OFFSET ?2)";
static const char sql_each[] =
    "SELECT id, booted_ns, first_ns, last_ns, good_bye FROM boot WHERE host = ?1 AND last_ns >= ?2"
    " AND first_ns < ?3 ORDER BY first_ns, id";

struct noted {
    struct boots_note n;
    bool urgent; /* a new boot, or a good-bye */
};

struct boots_book {
    struct lab_db *db;
    struct os_mutex *lock; /* guards what follows */
    size_t n, cap;
    struct noted *list; /* since the last flush of all */
    struct map at;      /* by host and boot */
    bool urgent;        /* one of them is */
};

enum err boots_create(struct boots_book **out, struct lab_db *db)
{
    struct boots_book *b = mem_zalloc(sizeof *b);
    enum err e = b ? os_mutex_create(&b->lock) : ERR_NOMEM;

    if (e) {
        mem_free(b);
        return e;
    }
    b->db = db;
    *out = b;
    return ERR_OK;
}

void boots_destroy(struct boots_book *b)
{
    if (!b) {
        return;
    }
    os_mutex_destroy(b->lock);
    map_fini(&b->at);
    mem_free(b->list);
    mem_free(b);
}

static bool is_of(const struct boots_note *x, const struct boots_note *y)
{
    return memcmp(x->host.b, y->host.b, sizeof x->host.b) == 0 &&
           memcmp(x->boot.b, y->boot.b, sizeof x->boot.b) == 0;
}

/* What both say together; the later one's word about the end counts. */
static void note_join(struct boots_note *to, const struct boots_note *from)
{
    to->booted_ns = to->booted_ns ? to->booted_ns : from->booted_ns;
    to->first_ns = from->first_ns < to->first_ns ? from->first_ns : to->first_ns;
    to->good_bye = from->last_ns >= to->last_ns ? from->good_bye : to->good_bye;
    to->last_ns = from->last_ns > to->last_ns ? from->last_ns : to->last_ns;
}

static enum err note_add(struct boots_book *b, const struct boots_note *note)
{
    uint64_t place, key = hash_bytes(note->boot.b, sizeof note->boot.b,
                                     hash_bytes(note->host.b, sizeof note->host.b, 0));
    enum err e;

    for (; (place = map_get(&b->at, key)) != 0; key++) {
        if (is_of(&b->list[place - 1].n, note)) {
            struct noted *x = &b->list[place - 1];
            bool good_bye = x->n.good_bye;

            note_join(&x->n, note);
            x->urgent = x->urgent || x->n.good_bye != good_bye;
            b->urgent = b->urgent || x->urgent;
            return ERR_OK;
        }
    }
    e = map_reserve(&b->at);
    e = e ? e : VEC_ROOM(&b->list, &b->cap, b->n + 1, BOOTS_NOTED);
    if (!e) {
        b->list[b->n++] = (struct noted){*note, true};
        (void)map_put(&b->at, key, b->n);
        b->urgent = true;
    }
    return e;
}

void boots_stored(struct boots_book *b, const struct boots_note *note)
{
    os_mutex_lock(b->lock);
    err_ignore(note_add(b, note)); /* its next batch says it again */
    os_mutex_unlock(b->lock);
}

static enum err note_save(struct boots_book *b, struct db *d, const struct boots_note *x)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(b->db, &st, sql_put);

    if (!e) {
        db_bind_bytes(st, 1, x->host.b, sizeof x->host.b);
        db_bind_bytes(st, 2, x->boot.b, sizeof x->boot.b);
        db_bind_number(st, 3, x->booted_ns);
        db_bind_number(st, 4, x->first_ns);
        db_bind_number(st, 5, x->last_ns);
        db_bind_number(st, 6, x->good_bye);
        e = db_change(d, st);
    }
    e = e ? e : lab_db_statement(b->db, &st, sql_trim);
    if (!e) {
        db_bind_bytes(st, 1, x->host.b, sizeof x->host.b);
        db_bind_number(st, 2, BOOTS_OF_HOST - 1);
        e = db_change(d, st);
    }
    return e;
}

static enum err notes_save(struct boots_book *b, const struct noted *list, size_t n)
{
    struct db *d;
    enum err e = lab_db_begin(b->db, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = note_save(b, d, &list[i].n);
    }
    return lab_db_end(b->db, e);
}

/* What is to be written, taken out of the book when it is all of it. */
static enum err notes_take(struct boots_book *b, bool all, struct noted **out, size_t *n)
{
    enum err e = ERR_OK;

    os_mutex_lock(b->lock);
    *n = 0;
    *out = b->n && (all || b->urgent) ? mem_array(b->n, sizeof **out) : NULL;
    if (!*out && b->n && (all || b->urgent)) {
        e = ERR_NOMEM;
    }
    for (size_t i = 0; *out && i < b->n; i++) {
        if (all || b->list[i].urgent) {
            (*out)[(*n)++] = b->list[i];
            b->list[i].urgent = false;
        }
    }
    if (!e) {
        b->urgent = false;
        b->n = all ? 0 : b->n;
    }
    if (!e && all) {
        map_clear(&b->at);
    }
    os_mutex_unlock(b->lock);
    return e;
}

enum err boots_flush(struct boots_book *b, bool all)
{
    struct noted *list;
    size_t n;
    enum err e = notes_take(b, all, &list, &n);

    if (e || n == 0) {
        mem_free(list);
        return e;
    }
    e = notes_save(b, list, n);
    for (size_t i = 0; e && i < n; i++) {
        boots_stored(b, &list[i].n);
    }
    mem_free(list);
    return e;
}

enum err boots_each(struct boots_book *b, const struct uuid *host, int64_t since_ns,
                    int64_t until_ns, query_boot_each each, void *to)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(b->db, &d, LAB_DB_READ);

    if (e) {
        return e;
    }
    e = lab_db_statement(b->db, &st, sql_each);
    if (!e) {
        db_bind_bytes(st, 1, host->b, sizeof host->b);
        db_bind_number(st, 2, since_ns);
        db_bind_number(st, 3, until_ns);
    }
    while (!e && (e = db_row(d, st), !e)) {
        struct query_boot x = {.booted_ns = sqlite3_column_int64(st, 1),
                               .first_ns = sqlite3_column_int64(st, 2),
                               .last_ns = sqlite3_column_int64(st, 3),
                               .good_bye = sqlite3_column_int(st, 4) != 0};

        (void)db_bytes(st, 0, x.boot.b, sizeof x.boot.b);
        e = each(to, &x);
    }
    return lab_db_end(b->db, e == ERR_END ? ERR_OK : e);
}
