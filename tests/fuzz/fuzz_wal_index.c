/* The index of a file of the log against hostile files: the input as a whole index, as the records
 * behind a sound header, as the content of a sound record, and as the note in one. */
#include <assert.h>

#include "collector/store/memtable/head_batch.h"
#include "collector/store/wal/wal_index.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define SEED      7
#define LOG_BYTES 4096
#define MEMORY    ((size_t)16 << 20)

/* A layer with two files: the log's, of which nothing is read, and the index. */
static struct fio_file log_file, index_file;
static struct buf written;

static enum err open_index(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    (void)path;
    *out = &index_file;
    return ERR_OK;
}

static enum err index_size(void *ctx, struct fio_file *f, uint64_t *bytes)
{
    (void)ctx;
    *bytes = f->n;
    return ERR_OK;
}

static enum err write_index(void *ctx, struct fio_file *f, uint64_t offset, const void *p, size_t n)
{
    (void)ctx;
    (void)f;
    assert(offset == written.n);
    buf_put(&written, p, n);
    return written.bad;
}

static enum err remove_index(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return ERR_NOTFOUND;
}

static void close_file(void *ctx, struct fio_file *f)
{
    (void)ctx;
    (void)f;
}

static const struct fio memory = {.create = open_index,
                                  .open = open_index,
                                  .size = index_size,
                                  .read = memory_file_read,
                                  .write = write_index,
                                  .close = close_file,
                                  .remove = remove_index};

static void recall(const void *note, size_t n)
{
    static const struct uuid host = {{1}};
    struct arena a;
    struct head_batch_note r;

    arena_init(&a, MEMORY);
    if (head_batch_note_get(&r, &a, &host, note, n) == ERR_OK) {
        assert(r.batch->n_runs == 0 && r.batch->head.seq > 0);
        assert(n >= r.batch->n_infos + r.batch->n_events + r.batch->n_ticks);
    }
    arena_fini(&a);
}

static enum err take(void *ctx, const struct wal_record *r)
{
    size_t *count = ctx;

    (*count)++;
    assert(r->kind == WAL_RANGES || r->kind == WAL_BATCH);
    if (r->kind == WAL_BATCH) {
        assert(!r->bytes && r->from && r->note);
        assert(r->at <= LOG_BYTES && r->size <= LOG_BYTES - r->at && r->n < r->size);
        recall(r->note, r->note_n);
    }
    return ERR_OK;
}

/* Gives the number of records delivered. */
static size_t replay(struct wal_source *log, const uint8_t *p, size_t n)
{
    size_t count = 0;
    uint64_t bytes;
    struct wal_index_job job = {.fio = &memory,
                                .path = "i",
                                .number = 1,
                                .log_bytes = LOG_BYTES,
                                .log = log,
                                .each = take,
                                .ctx = &count};
    enum err e;

    index_file = (struct fio_file){p, n};
    e = wal_index_replay(&job, &bytes);
    assert(e == ERR_OK || (e == ERR_NOTFOUND && count == 0));
    return count;
}

static size_t write_and_replay(struct wal_source *log, const struct wal_index *x)
{
    buf_reset(&written);
    return wal_index_write(x, &memory, "i", 1, LOG_BYTES) == ERR_OK
               ? replay(log, written.p, written.n)
               : 0;
}

static void try_all(struct wal_source *log, const uint8_t *p, size_t n)
{
    struct wal_record r = {.host_name = str_make("h"), .seq = 1, .bytes = p, .n = n};
    struct wal_index x;

    (void)replay(log, p, n);
    wal_index_init(&x);
    wal_index_begin(&x, SEED, WAL_VERSION);
    buf_put(&x.records, p, n);
    (void)write_and_replay(log, &x);

    for (uint16_t kind = WAL_BATCH; kind <= WAL_PLACE + 1; kind++) {
        wal_index_begin(&x, SEED, WAL_VERSION);
        r.kind = kind;
        wal_record_put(&x.records, &r, SEED);
        (void)write_and_replay(log, &x);
    }

    wal_index_begin(&x, SEED, WAL_VERSION);
    r = (struct wal_record){.kind = WAL_BATCH,
                            .host_name = str_make("h"),
                            .n = 100,
                            .at = 40,
                            .size = WAL_RECORD_FIXED + 1 + 100 + 8,
                            .note = p,
                            .note_n = n};
    wal_index_add(&x, &r);
    r.kind = WAL_RANGES;
    r.bytes = p;
    r.n = n;
    wal_index_add(&x, &r);
    assert(write_and_replay(log, &x) == 2);
    if (n > 0) { /* one altered byte and nothing of it is taken */
        written.p[p[0] * 131u % written.n] ^= 1;
        assert(replay(log, written.p, written.n) == 0);
    }
    wal_index_fini(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    const struct wal_header header = wal_source_header_of(1, SEED, WAL_VERSION);
    struct wal_source *log;

    if (n > WAL_BYTES_MAX / 2) {
        return 0;
    }
    buf_init(&written, WAL_INDEX_MAX);
    if (wal_source_create(&log, &memory, &log_file, &header) == ERR_OK) {
        try_all(log, n ? p : (const uint8_t *)"", n);
        wal_source_unref(log);
    }
    buf_fini(&written);
    return 0;
}
