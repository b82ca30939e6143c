/* The manifest of segments against hostile files: the input as a whole file; and as changes that
 * are written, one copy of something then altered, and read back. */
#include <assert.h>
#include <string.h>

#include "collector/store/manifest/manifest_log.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define SEED 7

static bool some(void *ctx, const struct seg_info *info)
{
    (void)ctx;
    return info->number % 2;
}

static void load(const uint8_t *p, size_t n)
{
    for (unsigned i = 0; i < 2; i++) {
        struct manifest_loaded m;

        if (manifest_log_read(&m, p, n, i ? some : NULL, NULL) == ERR_OK) {
            assert(m.end <= n && (m.n == 0 || m.segments[m.n - 1].number < m.next_number));
            for (size_t k = 1; k < m.n; k++) {
                assert(m.segments[k - 1].number < m.segments[k].number);
            }
            mem_free(m.segments);
        }
    }
}

/* Adds and drops as the input says; gives how many segments there are in the end. */
static size_t put_changes(struct buf *b, const uint8_t *p, size_t n)
{
    uint64_t there[64];
    size_t count = 0;
    struct manifest_record r = {.checkpoint = true, .next_number = 1};

    manifest_log_header(b, SEED);
    manifest_log_record(b, &r, SEED);
    r.checkpoint = false;
    for (size_t i = 0; i < n && i < 64; i++) {
        struct seg_info s = {.number = i + 1,
                             .kind = (uint8_t)(1 + p[i] % (SEG_KINDS - 1)),
                             .n_windows = (uint8_t)(1 + p[i] % SEG_WINDOWS_MAX)};

        r.seq++;
        r.next_number = i + 2;
        r.add = &s;
        r.n_add = p[i] % 3 > 0;
        r.n_drop = p[i] % 5 == 0 && count > 0;
        r.drop = &there[count ? count - 1 : 0];
        manifest_log_record(b, &r, SEED);
        count -= r.n_drop;
        if (r.n_add) {
            there[count++] = s.number;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct manifest_loaded m;
    struct buf b;
    size_t count;

    load(p, n);
    buf_init(&b, 1u << 20);
    count = put_changes(&b, p, n);
    assert(!b.bad);
    assert(manifest_log_read(&m, b.p, b.n, NULL, NULL) == ERR_OK);
    assert(m.n == count && m.end == b.n && m.damaged == 0);
    mem_free(m.segments);
    if (n > 1) {
        size_t at = (size_t)(p[0] * 251 + p[n - 1]) % b.n;

        b.p[at] ^= p[1] | 1;
        assert(manifest_log_read(&m, b.p, b.n, NULL, NULL) == ERR_OK && m.n == count);
        mem_free(m.segments);
        load(b.p, b.n - at);
    }
    buf_fini(&b);
    return 0;
}
