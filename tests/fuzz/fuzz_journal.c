/* The journal of updates against hostile files: the input as a whole file, as a single record, as a
 * checkpoint, and cut into sound records of which one byte is then altered. */
#include <assert.h>

#include "collector/subscribe/journal_format.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define SEED 7

static void try_part(const struct journal_part *part)
{
    struct buf b;

    assert(part->about.n <= JOURNAL_PAYLOAD_MAX && part->about.topic < FEED_TOPICS);
    assert(memchr(part->about.name, 0, sizeof part->about.name));
    buf_init(&b, JOURNAL_PAYLOAD_MAX);
    assert(journal_format_unpack(&b, part) != ERR_OK || b.n == part->about.n);
    buf_fini(&b);
}

static enum err count_record(void *ctx, const struct journal_found *found)
{
    size_t *n = ctx;

    try_part(found->part);
    (*n)++;
    return ERR_OK;
}

/* Gives the number of records found. */
static size_t scan(const uint8_t *p, size_t n)
{
    static const struct fio memory = {.read = memory_file_read};
    struct fio_file f = {p, n};
    size_t count = 0;
    struct journal_scan job = {&memory, &f, n, count_record, &count};
    struct journal_scanned done = {.end = 0};
    enum err e = journal_format_scan(&done, &job);

    assert(e == ERR_OK || e == ERR_VERSION || e == ERR_CORRUPT);
    assert(done.end <= n);
    return count;
}

static size_t put_records(struct buf *b, const uint8_t *p, size_t n)
{
    const struct journal_header h = {.number = 1, .epoch = 2, .seed = SEED, .position = 1};
    size_t count = 0;

    journal_format_put_header(b, &h);
    while (n > 1) {
        size_t len = 1 + p[0] % 64;
        struct journal_part part = {.kind = JOURNAL_MESSAGE};

        len = len < n ? len : n;
        part.about.position = ++count;
        part.about.name[0] = 'h';
        part.about.batch = p[0];
        part.about.last_batch = p[0] + 1u;
        part.about.n = len;
        part.content = p;
        part.content_n = len;
        journal_format_put_part(b, &part, SEED);
        p += len;
        n -= len;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct journal_topic topic;
    struct journal_part part;
    const uint8_t *at = p;
    size_t left = n, used, count;
    struct buf b;

    (void)scan(p, n);
    if (journal_format_part(&part, &used, p, n, SEED) == ERR_OK) {
        assert(used <= n);
        try_part(&part);
    }
    part = (struct journal_part){.packed = true, .content = p, .content_n = n};
    part.about.n = n > 0 ? p[0] * 16u : 0;
    try_part(&part);
    for (enum journal_kind kind = JOURNAL_TOPICS; kind <= JOURNAL_TOPICS3; kind++) {
        at = p;
        left = n;
        while (journal_format_topic(&topic, kind, &at, &left) == ERR_OK) {
            assert(at + left == p + n && topic.name.n <= MODEL_HOST_NAME_MAX);
        }
    }
    buf_init(&b, 1u << 20);
    count = put_records(&b, p, n);
    if (!b.bad && count > 0) {
        size_t flip =
            JOURNAL_HEADER_BYTES + (size_t)(p[n - 1] * 131 + p[0]) % (b.n - JOURNAL_HEADER_BYTES);

        assert(scan(b.p, b.n) == count);
        b.p[flip] ^= 1;
        assert(scan(b.p, b.n) == count - 1);
    }
    buf_fini(&b);
    return 0;
}
