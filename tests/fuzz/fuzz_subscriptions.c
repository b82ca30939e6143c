/* A subscription's file: the input as a whole file, and as the middle of one whose checksum is
 * right; and the input as a cursor. What is read is written again the same. */
#include <assert.h>
#include <string.h>

#include "collector/subscribe/subscriptions_file.h"
#include "common/base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void try_file(const uint8_t *p, size_t n)
{
    struct subscriptions_state s, again;
    struct buf b, c;

    if (subscriptions_file_decode(&s, p, n) != ERR_OK) {
        return;
    }
    buf_init(&b, SUBSCRIPTIONS_FILE_MAX);
    buf_init(&c, SUBSCRIPTIONS_FILE_MAX);
    subscriptions_file_encode(&b, &s);
    assert(!b.bad && subscriptions_file_decode(&again, b.p, b.n) == ERR_OK);
    subscriptions_file_encode(&c, &again);
    assert(b.n == c.n && memcmp(b.p, c.p, b.n) == 0);
    subscriptions_file_fini(&again);
    subscriptions_file_fini(&s);
    buf_fini(&c);
    buf_fini(&b);
}

static void try_cursor(const uint8_t *p, size_t n)
{
    uint8_t again[SUBSCRIPTIONS_CURSOR_BYTES];
    struct subscriptions_cursor c;

    if (subscriptions_cursor_get(&c, (struct str){(const char *)p, n}) == ERR_OK) {
        subscriptions_cursor_put(again, &c);
        assert(n == sizeof again && memcmp(again, p, n) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct buf b;

    try_file(p, n);
    try_cursor(p, n);
    buf_init(&b, 1u << 20);
    buf_put_str(&b, "PFsubsc\n");
    buf_put_u32le(&b, 1);
    buf_put(&b, p, n);
    if (!b.bad) {
        buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
        try_file(b.p, b.n);
    }
    buf_fini(&b);
    return 0;
}
