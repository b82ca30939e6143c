/* Run files: the input as a whole file, and as the content of each section of a file that is sound
 * otherwise. What is read is written again, and read again the same. */
#include <assert.h>
#include <string.h>

#include <zstd.h>

#include "common/base/hash.h"
#include "common/lab/run_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void try_file(const uint8_t *p, size_t n)
{
    struct run_file *f, *again;
    struct buf b, c;

    if (run_file_decode(&f, p, n, RUN_FILE_ALL, NULL) != ERR_OK) {
        return;
    }
    buf_init(&b, RUN_FILE_MAX);
    buf_init(&c, RUN_FILE_MAX);
    assert(run_file_encode(&b, f) == ERR_OK);
    assert(run_file_decode(&again, b.p, b.n, RUN_FILE_ALL, NULL) == ERR_OK);
    assert(run_file_encode(&c, again) == ERR_OK);
    assert(b.n == c.n && memcmp(b.p, c.p, b.n) == 0);
    run_file_free(again);
    run_file_free(f);
    buf_fini(&c);
    buf_fini(&b);
}

static void put_section(struct buf *b, uint32_t which, const void *p, size_t n)
{
    static uint8_t packed[1 << 16];
    size_t got = which ? ZSTD_compress(packed, sizeof packed, p, n, 1) : 0;
    size_t at = b->n;

    if (ZSTD_isError(got)) {
        return;
    }
    buf_put_u32le(b, which);
    buf_put_u32le(b, which ? (uint32_t)got : (uint32_t)n);
    buf_put_u32le(b, which ? (uint32_t)n : 0);
    buf_put_u64le(b, hash_bytes(packed, got, hash_bytes(b->p + at, 12, 0)));
    buf_put(b, packed, got);
}

/* The smallest sound head and host. */
static void put_begin(struct buf *b, uint32_t instead, const uint8_t *p, size_t n)
{
    static const char name[] = "\1r";
    uint8_t head[4 + 70] = {66}, hosts[1 + 4 + 80] = {1, 60};

    memcpy(head + 4 + 32, name, 2);
    memcpy(hosts + 5 + 16, "\1h", 2);
    buf_put_str(b, "PFrun\x1a\r\n");
    buf_put_u32le(b, 1);
    put_section(b, 1, instead == 1 ? p : head, instead == 1 ? n : sizeof head - 4);
    put_section(b, 2, instead == 2 ? p : hosts, instead == 2 ? n : 1 + 4 + 60);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct buf b;

    try_file(p, n);
    buf_init(&b, 1u << 20);
    for (uint32_t which = 1; n > 0 && which <= 7; which++) {
        buf_reset(&b);
        put_begin(&b, which, p, n);
        if (which > 2) {
            put_section(&b, which, p, n);
        }
        put_section(&b, 0, NULL, which > 2 ? 3 : 2);
        try_file(b.p, b.n);
    }
    buf_fini(&b);
    return 0;
}
