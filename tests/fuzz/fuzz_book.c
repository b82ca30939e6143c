/* Any bytes as the authority's book: as the file's rest behind a good first line, or, when the
 * first byte is odd, as texts that are given their checksums. Whatever is read is listed, judged,
 * revoked and enrolled upon without harm. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/ca/registry.h"
#include "common/base/buf.h"
#include "common/base/hash.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

#define GENERATION 0x1122334455667788ull
#define HEAD       "procfleet-book 1 1122334455667788"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void put_line(struct buf *out, uint64_t seed, const char *text, size_t n)
{
    buf_printf(out, "%016llx ", (unsigned long long)hash_bytes(text, n, seed));
    buf_put(out, text, n);
    buf_put_u8(out, '\n');
}

static void make(struct buf *out, const uint8_t *p, size_t n)
{
    put_line(out, 0, HEAD, strlen(HEAD));
    if (n == 0 || p[0] % 2 == 0) {
        buf_put(out, p, n);
        return;
    }
    for (size_t at = 1; at < n;) {
        const char *text = (const char *)p + at;
        const char *end = memchr(text, '\n', n - at);
        size_t len = end ? (size_t)(end - text) : n - at;

        put_line(out, GENERATION, text, len);
        at += len + 1;
    }
}

static void write_book(const char *path, const struct buf *b)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, b->p, b->n) != (ssize_t)b->n || close(fd) != 0) {
        abort();
    }
}

static bool judge(void *ctx, const struct registry_cert *c)
{
    size_t *revoked = ctx;

    *revoked += c->revoked_ns != 0;
    return true;
}

static bool see(void *ctx, const struct registry_token *t)
{
    *(size_t *)ctx += t->used_ns != 0;
    return true;
}

static void use(struct registry *r)
{
    static const char *const whats[] = {"web-01", "alice", "01234567-89ab-cdef-0123-456789abcdef",
                                        "aaaaaaaa"};
    struct net_identity who = {.has_host = true, .roles = NET_AGENT, .name = "web-01"};
    struct registry_meant meant;
    struct registry_stats stats;
    struct errmsg why;
    size_t n = 0;

    registry_certs(r, judge, &n);
    registry_tokens(r, see, &n);
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++) {
        err_ignore(registry_revoke(r, whats[i], "fuzz", 1, &meant, &why));
    }
    err_ignore(registry_issued(r, &who, 1, &why));
    (void)registry_judge(r, &who);
    err_ignore(registry_tidy(r, INT64_MAX / 2, &why));
    registry_stats(r, &stats);
}

static char dir[256], path[300];

static void clean_up(void)
{
    support_remove_dir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct registry *r;
    struct errmsg why;
    struct buf b;

    if (!dir[0]) {
        support_temp_dir(dir, sizeof dir);
        snprintf(path, sizeof path, "%s/book", dir);
        if (atexit(clean_up) != 0) {
            abort();
        }
    }
    buf_init(&b, 4u << 20);
    make(&b, p, n);
    write_book(path, &b);
    buf_fini(&b);
    if (registry_open(&r, dir, fio_unsynced(), &why) == ERR_OK) {
        use(r);
        registry_close(r);
    }
    return 0;
}
