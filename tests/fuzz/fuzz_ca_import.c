/* Any bytes as an older version's book: as the file's rest behind a good first line, or, when the
 * first byte is odd, as texts that are given their checksums. Whatever is imported is listed,
 * judged and revoked without harm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_import.h"
#include "common/base/buf.h"
#include "common/base/hash.h"
#include "tests/support/sqlite_fault.h"
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

static bool judge(void *db, const struct ca_cert *c)
{
    (void)ca_db_judge(db, &c->who);
    return true;
}

static enum err count(void *entries, const struct ca_import_entry *x)
{
    (void)x;
    ++*(unsigned *)entries;
    return ERR_OK;
}

static char dir[256], path[300];

static void clean_up(void)
{
    support_remove_dir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct ca_import_stamp stamp;
    struct ca_cert_meant meant;
    unsigned entries = 0;
    struct ca_db *db;
    struct errmsg why;
    struct buf b;

    if (!dir[0]) {
        sqlite_fault_install();
        support_temp_dir(dir, sizeof dir);
        snprintf(path, sizeof path, "%s/book", dir);
        if (atexit(clean_up) != 0) {
            abort();
        }
    }
    buf_init(&b, 4u << 20);
    make(&b, p, n);
    support_write_file(path, b.p, b.n);
    buf_fini(&b);
    if (ca_import_read(path, count, &entries, &stamp, &why) == ERR_OK && entries > 0 &&
        ca_db_open(&db, dir, sqlite_fault_fio(), &why) == ERR_OK) {
        err_ignore(ca_cert_list(db, judge, db, &why));
        err_ignore(ca_cert_revoke(db, "web-01", "fuzz", 1, &meant, &why));
        err_ignore(ca_db_tidy(db, INT64_MAX / 2, &why));
        ca_db_close(db);
    }
    support_empty_dir(dir);
    return 0;
}
