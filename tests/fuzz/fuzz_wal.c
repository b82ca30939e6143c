/* The write-ahead log against hostile files: the input as a whole file, as a single record, as
 * sequence ranges, and cut into sound records of which one byte is then altered. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/dedup.h"
#include "collector/store/wal/wal_source.h"
#include "common/base/buf.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define SEED 7

static enum err count_record(void *ctx, const struct wal_record *r)
{
    size_t *n = ctx;

    assert(r->host_name.n <= MODEL_HOST_NAME_MAX && r->n <= WAL_BYTES_MAX);
    (*n)++;
    return ERR_OK;
}

/* Gives the number of records delivered. */
static size_t replay(const uint8_t *p, size_t n)
{
    static const struct fio memory = {.read = memory_file_read};
    struct fio_file f = {p, n};
    size_t count = 0;
    struct wal_header header;
    struct wal_replay job = {&memory, &f, n, &header, count_record, &count};
    struct wal_replayed done = {0};
    enum err e = wal_source_header_parse(&header, 1, p, n);
    bool any;

    if (wal_source_any(&any, &memory, &f, n)) {
        abort();
    }
    if (e) {
        assert(e == ERR_CORRUPT || e == ERR_VERSION);
        return 0;
    }
    e = wal_source_replay(&done, &job);
    assert(e == ERR_OK && done.end <= n && (any || count == 0));
    return count;
}

static size_t put_records(struct buf *b, const uint8_t *p, size_t n)
{
    size_t count = 0;

    wal_source_header_put(b, 1, SEED, 0);
    while (n > 1) {
        size_t len = 1 + p[0] % 64;
        struct wal_record r = {.kind = WAL_BATCH, .seq = count, .host_name = str_make("h")};

        r.clock = (struct host_offset){p[0] % 3 > 0, p[0] % 3 > 1, p[0] - 128, p[0]};

        len = len < n ? len : n;
        r.bytes = p;
        r.n = len;
        wal_record_put(b, &r, SEED);
        p += len;
        n -= len;
        count++;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct seq_range ranges[DEDUP_RANGES_MAX];
    struct wal_record r;
    struct buf b;
    size_t used, count;

    (void)replay(p, n);
    for (uint32_t version = 1; version <= WAL_VERSION; version++) {
        if (wal_record_parse(&r, &used, p, n, SEED, version) == ERR_OK) {
            assert(used <= n);
        }
    }
    if (dedup_decode(ranges, &used, p, n) == ERR_OK) {
        assert(used == n / 16);
    }
    buf_init(&b, 1u << 20);
    count = put_records(&b, p, n);
    if (!b.bad && count > 0) {
        size_t at = WAL_HEADER_BYTES + (size_t)(p[n - 1] * 131 + p[0]) % (b.n - WAL_HEADER_BYTES);

        assert(replay(b.p, b.n) == count);
        b.p[at] ^= 1;
        assert(replay(b.p, b.n) == count - 1);
        b.p[at] ^= 1;
        b.p[at % WAL_HEADER_BYTES] ^= 1;
        assert(replay(b.p, b.n) == count);
    }
    buf_fini(&b);
    return 0;
}
