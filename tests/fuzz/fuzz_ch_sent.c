/* The state of what is sent to ClickHouse: the input as a whole file, and as the middle of one with
 * a sound checksum. */
#include <assert.h>

#include "collector/clickhouse/ch_sent.h"
#include "collector/store/dedup.h"
#include "common/base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void state_try(const uint8_t *p, size_t n)
{
    struct ch_sent_from from;
    struct dedup *d;

    assert(dedup_create(&d, 100, INT64_MAX / 2) == ERR_OK);
    if (ch_sent_decode(d, "a", &from, p, n) == ERR_OK) {
        struct buf b;

        buf_init(&b, CH_SENT_BYTES_MAX);
        assert(ch_sent_encode(&b, d, "a", &from) == ERR_OK);
        buf_fini(&b);
    }
    dedup_destroy(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct buf b;

    state_try(p, n);
    buf_init(&b, 1u << 20);
    buf_put_str(&b, "PFclick\n");
    buf_put_u32le(&b, 1);
    buf_put(&b, p, n);
    if (!b.bad) {
        buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
        state_try(b.p, b.n);
    }
    buf_fini(&b);
    return 0;
}
