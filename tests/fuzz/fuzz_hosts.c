/* The collector's hosts file: the input as a whole file, and as the middle of one whose checksum is
 * right. What is read is written again and read the same. */
#include <assert.h>
#include <string.h>

#include "collector/store/hosts.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void try_file(const uint8_t *p, size_t n)
{
    struct head_record *list, *again;
    uint64_t number = 0, number_again = 0;
    size_t hosts = 0, hosts_again = 0;
    struct buf b, c;

    if (hosts_decode(p, n, &number, &list, &hosts) != ERR_OK) {
        return;
    }
    buf_init(&b, HOSTS_BYTES_MAX);
    hosts_encode(&b, number, list, hosts);
    assert(!b.bad);
    assert(hosts_decode(b.p, b.n, &number_again, &again, &hosts_again) == ERR_OK);
    assert(number_again == number && hosts_again == hosts);
    buf_init(&c, HOSTS_BYTES_MAX);
    hosts_encode(&c, number, again, hosts);
    assert(b.n == c.n && memcmp(b.p, c.p, b.n) == 0);
    buf_fini(&c);
    buf_fini(&b);
    mem_free(again);
    mem_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct buf b;

    try_file(p, n);
    buf_init(&b, 1u << 20);
    buf_put_str(&b, "PFhosts\n");
    buf_put_u32le(&b, 1);
    buf_put(&b, p, n);
    if (!b.bad) {
        buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
        try_file(b.p, b.n);
    }
    buf_fini(&b);
    return 0;
}
