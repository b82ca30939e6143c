#include "agent/spool/dead_letter_file.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/fio_name.h"
#include "common/os/os.h"

/* Version 1 knew no causes: its zeros say QUARANTINE_REFUSED. */
#define VERSION 2u

static const uint8_t magic[8] = {'P', 'F', 'Q', 'T', 'N', 0x1a, '\r', '\n'};

/* -- a file's bytes -- */

void dead_letter_file_format(struct buf *out, const struct quarantine_batch *b)
{
    size_t at = out->n, why_n = strlen(b->why);
    uint64_t body;

    buf_put(out, magic, sizeof magic);
    buf_put_u32le(out, VERSION);
    buf_put_u16le(out, (uint16_t)why_n);
    buf_put_u8(out, (uint8_t)b->cause);
    buf_put_u8(out, (uint8_t)b->tries);
    buf_put_u64le(out, b->stream);
    buf_put_u64le(out, b->seq);
    buf_put_u64le(out, (uint64_t)b->when_ns);
    buf_put_u64le(out, b->n);
    body = hash_bytes(b->p, b->n, hash_bytes(b->why, why_n, 0));
    buf_put_u64le(out, body);
    buf_put_u64le(out, out->bad ? 0 : hash_bytes(out->p + at, QUARANTINE_HEAD - 8, 0));
    buf_put(out, b->why, why_n);
    buf_put(out, b->p, b->n);
}

/* *why_n, n: what stands behind the header; *sum: its checksum. */
static enum err parse_header(struct quarantine_batch *out, size_t *why_n, uint64_t *sum,
                             const void *p, size_t n)
{
    struct cur c = cur_make(p, n < QUARANTINE_HEAD ? n : QUARANTINE_HEAD);
    const uint8_t *got = cur_bytes(&c, sizeof magic);
    uint32_t version = cur_u32le(&c);
    uint64_t head;

    *why_n = cur_u16le(&c);
    out->cause = cur_u8(&c) == QUARANTINE_BROKEN ? QUARANTINE_BROKEN : QUARANTINE_REFUSED;
    out->tries = cur_u8(&c);
    out->stream = cur_u64le(&c);
    out->seq = cur_u64le(&c);
    out->when_ns = (int64_t)cur_u64le(&c);
    out->n = (size_t)cur_u64le(&c);
    *sum = cur_u64le(&c);
    head = cur_u64le(&c);
    if (c.bad || memcmp(got, magic, sizeof magic) != 0 ||
        head != hash_bytes(p, QUARANTINE_HEAD - 8, 0)) {
        return ERR_CORRUPT;
    }
    if (version < 1 || version > VERSION) {
        return ERR_VERSION;
    }
    return *why_n <= QUARANTINE_WHY && out->n <= SPOOL_BATCH_MAX ? ERR_OK : ERR_CORRUPT;
}

enum err dead_letter_file_parse(struct quarantine_batch *out, const void *p, size_t n)
{
    struct quarantine_batch b = {0};
    const uint8_t *at = p;
    size_t why_n;
    uint64_t sum;
    enum err e = parse_header(&b, &why_n, &sum, p, n);

    if (e) {
        return e;
    }
    if (n != QUARANTINE_HEAD + why_n + b.n) {
        return ERR_CORRUPT;
    }
    memcpy(b.why, at + QUARANTINE_HEAD, why_n);
    b.p = at + QUARANTINE_HEAD + why_n;
    if (memchr(b.why, 0, why_n) || sum != hash_bytes(b.p, b.n, hash_bytes(b.why, why_n, 0))) {
        return ERR_CORRUPT;
    }
    *out = b;
    return ERR_OK;
}

enum err dead_letter_file_head(struct quarantine_batch *out, const void *p, size_t n)
{
    struct quarantine_batch b = {0};
    size_t why_n;
    uint64_t sum;
    enum err e = parse_header(&b, &why_n, &sum, p, n);

    if (!e) {
        *out = b;
    }
    return e;
}

/* -- names -- */

char *dead_letter_file_path(const char *dir, uint64_t number, const char *suffix)
{
    return fio_name_path(dir, "batch-", number, suffix);
}

bool dead_letter_file_name(uint64_t *number, bool *again, const char *name)
{
    *again = fio_name_parse(number, name, "batch-", ".again");
    return *again || fio_name_parse(number, name, "batch-", ".quar");
}

/* -- on spool.dir -- */

struct numbers {
    uint64_t *p;
    size_t n, max;
};

static enum err collect_number(void *ctx, const char *name)
{
    struct numbers *found = ctx;
    uint64_t number;
    bool again;

    if (dead_letter_file_name(&number, &again, name) && found->n < found->max) {
        found->p[found->n++] = number;
    }
    return ERR_OK;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

enum err dead_letter_file_list(const char *spool_dir, uint64_t *numbers, size_t max, size_t *n)
{
    struct numbers found = {.p = numbers, .max = max};
    char *dir = os_path_join(spool_dir, QUARANTINE_DIR);
    enum err e = dir ? os_list_dir(dir, collect_number, &found) : ERR_NOMEM;

    mem_free(dir);
    if (e && e != ERR_NOTFOUND) {
        return e;
    }
    if (found.n > 0) {
        qsort(numbers, found.n, sizeof *numbers, compare);
    }
    *n = found.n;
    return ERR_OK;
}

/* The path with whichever suffix is there. */
static enum err locate(char **out, bool *again, const char *spool_dir, uint64_t number)
{
    char *dir = os_path_join(spool_dir, QUARANTINE_DIR);
    char *quar = dir ? dead_letter_file_path(dir, number, ".quar") : NULL;
    char *asked = dir ? dead_letter_file_path(dir, number, ".again") : NULL;
    enum err e = ERR_NOMEM;

    if (quar && asked) {
        *again = os_exists(asked);
        e = *again || os_exists(quar) ? ERR_OK : ERR_NOTFOUND;
    }
    if (!e) {
        *out = *again ? asked : quar;
        mem_free(*again ? quar : asked);
    } else {
        mem_free(quar);
        mem_free(asked);
    }
    mem_free(dir);
    return e;
}

enum err dead_letter_file_read(struct quarantine_batch *out, uint8_t **bytes, const char *spool_dir,
                               uint64_t number)
{
    struct quarantine_batch b;
    uint8_t *p = NULL;
    char *path;
    size_t n;
    bool again;
    enum err e = locate(&path, &again, spool_dir, number);

    if (e) {
        return e;
    }
    e = os_read_file(&p, &n, path, DEAD_LETTER_FILE_MAX);
    mem_free(path);
    if (!e) {
        e = dead_letter_file_parse(&b, p, n);
    }
    if (e) {
        mem_free(p);
        return e;
    }
    b.number = number;
    b.again = again;
    *out = b;
    *bytes = p;
    return ERR_OK;
}

enum err dead_letter_file_retry(const char *spool_dir, uint64_t number)
{
    char *path, *dir, *to;
    bool again;
    enum err e = locate(&path, &again, spool_dir, number);

    if (e || again) {
        if (!e) {
            mem_free(path);
        }
        return e;
    }
    dir = os_path_join(spool_dir, QUARANTINE_DIR);
    to = dir ? dead_letter_file_path(dir, number, ".again") : NULL;
    e = to ? os_rename(path, to) : ERR_NOMEM;
    mem_free(to);
    mem_free(dir);
    mem_free(path);
    return e;
}

enum err dead_letter_file_drop(const char *spool_dir, uint64_t number)
{
    char *path;
    bool again;
    enum err e = locate(&path, &again, spool_dir, number);

    if (!e) {
        e = os_remove(path);
        mem_free(path);
    }
    return e;
}
