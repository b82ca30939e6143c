/* A spool's segment against hostile bytes: the input as a whole file, as a header, as a record, and
 * cut into sound records of which one byte is then altered. */
#include <assert.h>

#include "agent/spool/spool_batch.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define SEED   7
#define NUMBER 1 /* of the file */

/* Gives the number of records whose content is sound. */
static size_t walk(const uint8_t *p, size_t n)
{
    static const struct fio memory = {.read = memory_file_read};
    struct fio_file f = {p, n};
    struct spool_segment s = {&memory, &f, n, SEED};
    uint64_t at = SPOOL_HEADER_BYTES, damaged = 0;
    struct spool_record r;
    size_t sound = 0;
    struct buf b;

    buf_init(&b, SPOOL_BATCH_MAX);
    while (spool_segment_next(&s, &at, &r, &damaged) == ERR_OK) {
        assert(spool_segment_end(at, &r) <= n && r.n <= SPOOL_BATCH_MAX);
        sound += spool_segment_read(&s, at, &r, &b) == ERR_OK;
        at = spool_segment_end(at, &r);
    }
    buf_fini(&b);
    return sound;
}

static size_t put_records(struct buf *b, const uint8_t *p, size_t n)
{
    size_t count = 0;

    spool_segment_put_header(
        b, &(struct spool_header){.number = NUMBER, .first_seq = 1, .seed = SEED});
    while (n > 1) {
        size_t len = 1 + p[0] % 64;

        len = len < n ? len : n;
        spool_segment_put_record(b, SEED, count + 1, 0, p, len);
        p += len;
        n -= len;
        count++;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct spool_loss loss = {0};
    struct spool_header h;
    struct spool_record r;
    struct buf b;
    size_t count;

    (void)walk(p, n);
    if (spool_segment_header(&h, NUMBER, p, n) == ERR_OK) {
        assert(n >= h.bytes && h.bytes <= SPOOL_HEADER_BYTES && h.detail <= SPOOL_LEDGER);
    }
    if (spool_segment_record(&r, p, n, SEED) == ERR_OK) {
        assert(r.n <= SPOOL_BATCH_MAX);
    }
    spool_batch_count(&loss, p, n);
    assert(loss.batches == 1);
    buf_init(&b, 4u << 20);
    count = put_records(&b, p, n);
    if (!b.bad && count > 0) {
        size_t at =
            SPOOL_HEADER_BYTES + (size_t)(p[n - 1] * 131 + p[0]) % (b.n - SPOOL_HEADER_BYTES);

        assert(walk(b.p, b.n) == count);
        b.p[at] ^= 1;
        assert(walk(b.p, b.n) == count - 1);
    }
    buf_fini(&b);
    return 0;
}
