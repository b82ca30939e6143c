#include "tests/bench/store_sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collector/store/read/store_view.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define COMMIT_BYTES (1u << 20)
#define FETCH_MAX    ((size_t)1 << 30)
#define KEYS_MAX     20000u
#define NOTHING      SQLITE_STATIC

struct store_sqlite {
    char path[300];
    sqlite3 *db;
    sqlite3_stmt *put_batch, *put_chunk, *sums, *column;
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "store_sqlite: %s failed\n", what);
        exit(1);
    }
}

static void run(struct store_sqlite *y, const char *sql)
{
    char *why = NULL;

    if (sqlite3_exec(y->db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fprintf(stderr, "store_sqlite: %s: %s\n", sql, why ? why : "?");
        exit(1);
    }
}

static sqlite3_stmt *prepare(struct store_sqlite *y, const char *sql)
{
    sqlite3_stmt *st;

    check(sqlite3_prepare_v2(y->db, sql, -1, &st, NULL) == SQLITE_OK, sql);
    return st;
}

struct store_sqlite *store_sqlite_open(const char *dir)
{
    struct store_sqlite *y = mem_zalloc(sizeof *y);

    check(y != NULL, "memory");
    (void)snprintf(y->path, sizeof y->path, "%s/chunks.db", dir);
    check(sqlite3_open(y->path, &y->db) == SQLITE_OK, "open");
    run(y, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
           "CREATE TABLE IF NOT EXISTS batch(id INTEGER PRIMARY KEY, host INTEGER, data BLOB);"
           "CREATE TABLE IF NOT EXISTS chunk(part INTEGER, metric INTEGER, window INTEGER,"
           " host INTEGER, data BLOB, PRIMARY KEY(part, metric, window, host))");
    y->put_batch = prepare(y, "INSERT INTO batch(host, data) VALUES(?1, ?2)");
    y->put_chunk = prepare(y, "INSERT INTO chunk VALUES(?1, ?2, ?3, ?4, ?5)");
    y->sums = prepare(y, "SELECT data FROM chunk WHERE part = ?1 AND metric = ?2");
    y->column = prepare(y, "SELECT data FROM chunk WHERE part = ?1 AND metric = ?2 AND"
                           " window IN (SELECT DISTINCT window FROM chunk WHERE part = 1 AND"
                           " metric = 0) AND host = ?3");
    return y;
}

void store_sqlite_close(struct store_sqlite *y)
{
    if (y) {
        sqlite3_finalize(y->put_batch);
        sqlite3_finalize(y->put_chunk);
        sqlite3_finalize(y->sums);
        sqlite3_finalize(y->column);
        sqlite3_close(y->db);
        mem_free(y);
    }
}

void store_sqlite_batches(struct store_sqlite *y, const struct fill *f)
{
    size_t waiting = 0;

    run(y, "BEGIN");
    for (size_t i = 0; i < f->n_batches; i++) {
        const struct fill_batch *b = &f->batches[i];

        sqlite3_bind_int64(y->put_batch, 1, b->host);
        sqlite3_bind_blob(y->put_batch, 2, b->p, (int)b->n, NOTHING);
        check(sqlite3_step(y->put_batch) == SQLITE_DONE, "insert");
        sqlite3_reset(y->put_batch);
        waiting += b->n;
        if (waiting >= COMMIT_BYTES) {
            run(y, "COMMIT; BEGIN");
            waiting = 0;
        }
    }
    run(y, "COMMIT");
}

static void put_values(struct store_sqlite *y, const struct seg *s, int64_t window_ns)
{
    struct arena memory;

    arena_init(&memory, FETCH_MAX);
    check(seg_load_keys(s) == ERR_OK, "directory");
    for (size_t i = 0; i < seg_values(s); i++) {
        uint32_t length;
        struct seg_key k = seg_key_at(s, i, &length);
        const uint8_t *p;
        size_t n;

        arena_reset(&memory);
        check(seg_read(s, &memory, k, &p, &n) == ERR_OK, "read");
        sqlite3_bind_int64(y->put_chunk, 1, k.part);
        sqlite3_bind_int64(y->put_chunk, 2, k.metric);
        sqlite3_bind_int64(y->put_chunk, 3, window_ns);
        sqlite3_bind_int64(y->put_chunk, 4, k.host);
        sqlite3_bind_blob(y->put_chunk, 5, p, (int)n, NOTHING);
        check(sqlite3_step(y->put_chunk) == SQLITE_DONE, "insert");
        sqlite3_reset(y->put_chunk);
    }
    arena_fini(&memory);
}

void store_sqlite_window(struct store_sqlite *y, struct store *s, int64_t window_ns)
{
    struct store_view *v;

    check(store_view_open(&v, s) == ERR_OK, "view");
    run(y, "BEGIN");
    for (size_t i = 0; i < manifest_segments(v->segments); i++) {
        const struct seg_info *info = manifest_segment(v->segments, i);
        const struct seg *seg;

        if (info->kind == SEG_RAW && info->window_ns == window_ns) {
            check(manifest_seg(v->segments, i, &seg) == ERR_OK, "segment");
            put_values(y, seg, window_ns);
        }
    }
    run(y, "DELETE FROM batch; COMMIT");
    store_view_close(v);
}

/* -- fetching -- */

static uint64_t fetch(sqlite3_stmt *st, unsigned part, unsigned metric, unsigned host)
{
    uint64_t bytes = 0;

    sqlite3_bind_int64(st, 1, part);
    sqlite3_bind_int64(st, 2, metric);
    sqlite3_bind_int64(st, 3, host);
    while (sqlite3_step(st) == SQLITE_ROW) {
        bytes += sqlite3_column_blob(st, 0) ? (uint64_t)sqlite3_column_bytes(st, 0) : 0;
    }
    sqlite3_reset(st);
    return bytes;
}

double store_sqlite_sums_ms(struct store_sqlite *y, unsigned metric, uint64_t *bytes)
{
    int64_t began_ns = os_mono_ns();

    *bytes = fetch(y->sums, SEG_PART_SUMS, 0, 0) + fetch(y->sums, SEG_PART_SUM, metric, 0);
    return (double)(os_mono_ns() - began_ns) / 1e6;
}

double store_sqlite_column_ms(struct store_sqlite *y, unsigned metric, unsigned host,
                              uint64_t *bytes)
{
    int64_t began_ns = os_mono_ns();

    *bytes =
        fetch(y->column, SEG_PART_ROWS, 0, host) + fetch(y->column, SEG_PART_COLUMN, metric, host);
    return (double)(os_mono_ns() - began_ns) / 1e6;
}

/* Hosts [first, end) of all windows. */
static uint64_t read_values(const struct seg *s, struct arena *memory, uint8_t part, uint8_t metric,
                            uint32_t first, uint32_t end)
{
    static struct seg_key keys[KEYS_MAX];
    static const uint8_t *p[KEYS_MAX];
    static size_t lengths[KEYS_MAX];
    uint64_t bytes = 0;
    size_t n = 0;

    for (uint8_t w = 0; w < seg_info_of(s)->n_windows; w++) {
        for (uint32_t h = first; h < end && n < KEYS_MAX; h++) {
            keys[n++] = (struct seg_key){part, metric, w, h};
        }
    }
    arena_reset(memory);
    check(seg_read_many(s, memory, keys, n, p, lengths) == ERR_OK, "read");
    for (size_t i = 0; i < n; i++) {
        bytes += p[i] ? lengths[i] : 0;
    }
    return bytes;
}

static double read_own(struct store *s, uint8_t table, uint8_t part, unsigned metric,
                       const uint32_t *host, uint64_t *bytes)
{
    int64_t began_ns = os_mono_ns();
    struct store_view *v;
    struct arena memory;

    arena_init(&memory, FETCH_MAX);
    check(store_view_open(&v, s) == ERR_OK, "view");
    *bytes = 0;
    for (size_t i = 0; i < manifest_segments(v->segments); i++) {
        const struct seg *seg;

        if (manifest_segment(v->segments, i)->kind == SEG_RAW) {
            uint32_t first, end;

            check(manifest_seg(v->segments, i, &seg) == ERR_OK, "segment");
            first = host ? *host : 0;
            end = host ? *host + 1 : (uint32_t)seg_hosts(seg);
            *bytes += read_values(seg, &memory, table, 0, first, end);
            *bytes += read_values(seg, &memory, part, (uint8_t)metric, first, end);
        }
    }
    store_view_close(v);
    arena_fini(&memory);
    return (double)(os_mono_ns() - began_ns) / 1e6;
}

double store_own_sums_ms(struct store *s, unsigned metric, uint64_t *bytes)
{
    return read_own(s, SEG_PART_SUMS, SEG_PART_SUM, metric, NULL, bytes);
}

double store_own_column_ms(struct store *s, unsigned metric, unsigned host, uint64_t *bytes)
{
    uint32_t h = host;

    return read_own(s, SEG_PART_ROWS, SEG_PART_COLUMN, metric, &h, bytes);
}

/* -- giving back -- */

double store_sqlite_drop_ms(struct store_sqlite *y)
{
    int64_t began_ns = os_mono_ns();

    run(y, "DELETE FROM chunk; PRAGMA wal_checkpoint(TRUNCATE)");
    return (double)(os_mono_ns() - began_ns) / 1e6;
}

uint64_t store_sqlite_bytes(struct store_sqlite *y)
{
    struct stat st;

    run(y, "PRAGMA wal_checkpoint(TRUNCATE)");
    check(stat(y->path, &st) == 0, "stat");
    return (uint64_t)st.st_size;
}
