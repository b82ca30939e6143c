#include "agent/spool/dead_letter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/reclog/reclog.h"

/* Version 1 knew no causes: its zeros say DEAD_LETTER_REFUSED. */
#define FILE_VERSION 2u

static const uint8_t file_magic[8] = {'P', 'F', 'Q', 'T', 'N', 0x1a, '\r', '\n'};

/* -- a file's bytes -- */

void dead_letter_file_format(struct buf *out, const struct dead_letter_batch *b)
{
    size_t at = out->n, why_n = strlen(b->why);
    uint64_t body;

    buf_put(out, file_magic, sizeof file_magic);
    buf_put_u32le(out, FILE_VERSION);
    buf_put_u16le(out, (uint16_t)why_n);
    buf_put_u8(out, (uint8_t)b->cause);
    buf_put_u8(out, (uint8_t)b->tries);
    buf_put_u64le(out, b->stream);
    buf_put_u64le(out, b->seq);
    buf_put_u64le(out, (uint64_t)b->when_ns);
    buf_put_u64le(out, b->n);
    body = hash_bytes(b->p, b->n, hash_bytes(b->why, why_n, 0));
    buf_put_u64le(out, body);
    reclog_seal(out, at, 0);
    buf_put(out, b->why, why_n);
    buf_put(out, b->p, b->n);
}

/* *why_n, n: what stands behind the header; *sum: its checksum. */
static enum err file_parse_header(struct dead_letter_batch *out, size_t *why_n, uint64_t *sum,
                                  const void *p, size_t n)
{
    struct cur c = cur_make(p, n < DEAD_LETTER_HEAD ? n : DEAD_LETTER_HEAD);
    const uint8_t *got = cur_bytes(&c, sizeof file_magic);
    uint32_t version = cur_u32le(&c);
    bool sound;

    *why_n = cur_u16le(&c);
    out->cause = cur_u8(&c) == DEAD_LETTER_BROKEN ? DEAD_LETTER_BROKEN : DEAD_LETTER_REFUSED;
    out->tries = cur_u8(&c);
    out->stream = cur_u64le(&c);
    out->seq = cur_u64le(&c);
    out->when_ns = (int64_t)cur_u64le(&c);
    out->n = (size_t)cur_u64le(&c);
    *sum = cur_u64le(&c);
    sound = reclog_is_sealed(&c, p, 0);
    if (!sound || memcmp(got, file_magic, sizeof file_magic) != 0) {
        return ERR_CORRUPT;
    }
    if (version < 1 || version > FILE_VERSION) {
        return ERR_VERSION;
    }
    return *why_n <= DEAD_LETTER_WHY && out->n <= SPOOL_BATCH_MAX ? ERR_OK : ERR_CORRUPT;
}

enum err dead_letter_file_parse(struct dead_letter_batch *out, const void *p, size_t n)
{
    struct dead_letter_batch b = {0};
    const uint8_t *at = p;
    size_t why_n;
    uint64_t sum;
    enum err e = file_parse_header(&b, &why_n, &sum, p, n);

    if (e) {
        return e;
    }
    if (n != DEAD_LETTER_HEAD + why_n + b.n) {
        return ERR_CORRUPT;
    }
    memcpy(b.why, at + DEAD_LETTER_HEAD, why_n);
    b.p = at + DEAD_LETTER_HEAD + why_n;
    if (memchr(b.why, 0, why_n) || sum != hash_bytes(b.p, b.n, hash_bytes(b.why, why_n, 0))) {
        return ERR_CORRUPT;
    }
    *out = b;
    return ERR_OK;
}

/* Of its first DEAD_LETTER_HEAD bytes: all but number, again, why and p. */
static enum err file_head(struct dead_letter_batch *out, const void *p, size_t n)
{
    struct dead_letter_batch b = {0};
    size_t why_n;
    uint64_t sum;
    enum err e = file_parse_header(&b, &why_n, &sum, p, n);

    if (!e) {
        *out = b;
    }
    return e;
}

/* -- names -- */

/* mem_free; NULL: no memory. */
static char *file_path(const char *dir, uint64_t number, const char *suffix)
{
    return fio_name_path(dir, "batch-", number, suffix);
}

/* Whether it is the name of a batch. */
static bool file_name(uint64_t *number, bool *again, const char *name)
{
    *again = fio_name_parse(number, name, "batch-", ".again");
    return *again || fio_name_parse(number, name, "batch-", ".quar");
}

/* -- on spool.dir -- */

struct numbers {
    uint64_t *p;
    size_t n, max;
};

static enum err file_collect_number(void *ctx, const char *name)
{
    struct numbers *found = ctx;
    uint64_t number;
    bool again;

    if (file_name(&number, &again, name) && found->n < found->max) {
        found->p[found->n++] = number;
    }
    return ERR_OK;
}

enum err dead_letter_file_list(const char *spool_dir, uint64_t *numbers, size_t max, size_t *n)
{
    struct numbers found = {.p = numbers, .max = max};
    char *dir = os_path_join(spool_dir, DEAD_LETTER_DIR);
    enum err e = dir ? os_list_dir(dir, file_collect_number, &found) : ERR_NOMEM;

    mem_free(dir);
    if (e && e != ERR_NOTFOUND) {
        return e;
    }
    if (found.n > 0) {
        qsort(numbers, found.n, sizeof *numbers, reclog_by_number);
    }
    *n = found.n;
    return ERR_OK;
}

/* The path with whichever suffix is there. */
static enum err file_locate(char **out, bool *again, const char *spool_dir, uint64_t number)
{
    char *dir = os_path_join(spool_dir, DEAD_LETTER_DIR);
    char *quar = dir ? file_path(dir, number, ".quar") : NULL;
    char *asked = dir ? file_path(dir, number, ".again") : NULL;
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

enum err dead_letter_file_read(struct dead_letter_batch *out, uint8_t **bytes,
                               const char *spool_dir, uint64_t number)
{
    struct dead_letter_batch b;
    uint8_t *p = NULL;
    char *path;
    size_t n;
    bool again;
    enum err e = file_locate(&path, &again, spool_dir, number);

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
    enum err e = file_locate(&path, &again, spool_dir, number);

    if (e || again) {
        if (!e) {
            mem_free(path);
        }
        return e;
    }
    dir = os_path_join(spool_dir, DEAD_LETTER_DIR);
    to = dir ? file_path(dir, number, ".again") : NULL;
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
    enum err e = file_locate(&path, &again, spool_dir, number);

    if (!e) {
        e = os_remove(path);
        mem_free(path);
    }
    return e;
}

/* -- what is kept -- */

struct kept {
    uint64_t number, stream, seq;
    int64_t when_ns;
    uint64_t bytes;
    enum dead_letter_cause cause;
    unsigned tries;
    bool again, due, in_flight, seen; /* again: somebody wants it; due: it is time by itself */
};

struct dead_letter {
    struct dead_letter_conf conf;
    char *dir;
    struct kept *files; /* by number */
    size_t n, cap;
    uint64_t next_number;
    struct buf scratch;
    struct dead_letter_stats stats;
};

/* Whether it is given out again by itself, some time. */
static bool kept_may_try(const struct kept *k)
{
    return k->cause == DEAD_LETTER_BROKEN && k->tries < DEAD_LETTER_TRIES;
}

/* A clock that was set back must not keep it for long. */
static bool kept_is_due(const struct kept *k, int64_t now_ns)
{
    return now_ns < k->when_ns || now_ns - k->when_ns >= 60 * CLK_S << k->tries;
}

/* -- the directory -- */

static struct kept *kept_find(struct dead_letter *q, uint64_t number)
{
    for (size_t i = 0; i < q->n; i++) {
        if (q->files[i].number == number) {
            return &q->files[i];
        }
    }
    return NULL;
}

static enum err kept_add(struct dead_letter *q, const struct kept *k)
{
    enum err e = VEC_ROOM(&q->files, &q->cap, q->n + 1, SIZE_MAX); /* max_bytes bounds them */

    if (e) {
        return e;
    }
    q->files[q->n++] = *k;
    q->stats.held_bytes += k->bytes;
    q->next_number = k->number >= q->next_number ? k->number + 1 : q->next_number;
    return ERR_OK;
}

/* What the file says of itself. */
static enum err scan_read(struct dead_letter *q, struct kept *k, const char *suffix)
{
    const struct fio *fio = q->conf.fio;
    struct dead_letter_batch b;
    uint8_t head[DEAD_LETTER_HEAD];
    char *path = file_path(q->dir, k->number, suffix);
    struct fio_file *f;
    size_t got = 0;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, f, &k->bytes);
    if (!e) {
        e = fio->read(fio->ctx, f, 0, head, sizeof head, &got);
    }
    fio->close(fio->ctx, f);
    if (!e) {
        e = file_head(&b, head, got);
    }
    if (!e) {
        k->stream = b.stream;
        k->seq = b.seq;
        k->when_ns = b.when_ns;
        k->cause = b.cause;
        k->tries = b.tries;
    }
    return e;
}

static enum err scan_one(void *ctx, const char *name)
{
    struct dead_letter *q = ctx;
    struct kept k = {.seen = true}, *known;
    enum err e;

    if (!file_name(&k.number, &k.again, name)) {
        return ERR_OK;
    }
    known = kept_find(q, k.number);
    if (known) {
        known->again = k.again;
        known->seen = true;
        return ERR_OK;
    }
    if (q->n >= DEAD_LETTER_FILES) {
        return ERR_OK;
    }
    e = scan_read(q, &k, k.again ? ".again" : ".quar");
    if (e == ERR_NOMEM) {
        return e;
    }
    if (e) {
        q->stats.unreadable++;
        q->next_number = k.number >= q->next_number ? k.number + 1 : q->next_number;
        return ERR_OK;
    }
    return kept_add(q, &k);
}

/* The list becomes what is on disk; what is in flight stays until it is let go. */
static enum err scan_dir(struct dead_letter *q)
{
    size_t kept = 0;
    enum err e;

    for (size_t i = 0; i < q->n; i++) {
        q->files[i].seen = false;
    }
    q->stats.unreadable = 0;
    e = os_list_dir(q->dir, scan_one, q);
    if (e && e != ERR_NOTFOUND) {
        return e;
    }
    for (size_t i = 0; i < q->n; i++) {
        if (q->files[i].seen || q->files[i].in_flight) {
            q->files[kept++] = q->files[i];
        } else {
            q->stats.held_bytes -= q->files[i].bytes;
        }
    }
    q->n = kept;
    if (q->n > 0) {
        qsort(q->files, q->n, sizeof *q->files, reclog_by_number);
    }
    return ERR_OK;
}

/* Takes the file off the disk and out of the list. */
static void kept_remove(struct dead_letter *q, struct kept *k)
{
    static const char *const suffixes[] = {".quar", ".again"};
    const struct fio *fio = q->conf.fio;

    for (size_t i = 0; i < 2; i++) {
        char *path = file_path(q->dir, k->number, suffixes[i]);

        if (path) {
            err_ignore(fio->remove(fio->ctx, path)); /* one of the two is there */
        }
        mem_free(path);
    }
    q->stats.held_bytes -= k->bytes;
    q->n--;
    memmove(k, k + 1, (size_t)(q->files + q->n - k) * sizeof *k);
}

/* The oldest that is not in flight; NULL: none. */
static struct kept *kept_oldest(struct dead_letter *q)
{
    for (size_t i = 0; i < q->n; i++) {
        if (!q->files[i].in_flight) {
            return &q->files[i];
        }
    }
    return NULL;
}

static void kept_make_room(struct dead_letter *q, uint64_t bytes)
{
    struct kept *k;

    while ((q->n >= DEAD_LETTER_FILES || q->stats.held_bytes + bytes > q->conf.max_bytes) &&
           (k = kept_oldest(q)) != NULL) {
        kept_remove(q, k);
        q->stats.dropped++;
    }
}

/* -- open, close -- */

enum err dead_letter_open(struct dead_letter **out, const struct dead_letter_conf *conf)
{
    struct dead_letter *q = mem_zalloc(sizeof *q);
    enum err e = ERR_NOMEM;

    if (!q) {
        return ERR_NOMEM;
    }
    q->conf = *conf;
    q->next_number = 1;
    buf_init(&q->scratch, DEAD_LETTER_FILE_MAX);
    q->dir = os_path_join(conf->spool_dir, DEAD_LETTER_DIR);
    if (q->dir) {
        e = scan_dir(q);
    }
    if (e) {
        dead_letter_close(q);
        return e;
    }
    *out = q;
    return ERR_OK;
}

void dead_letter_close(struct dead_letter *q)
{
    if (q) {
        buf_fini(&q->scratch);
        mem_free(q->files);
        mem_free(q->dir);
        mem_free(q);
    }
}

void dead_letter_stats(const struct dead_letter *q, struct dead_letter_stats *out)
{
    *out = q->stats;
    out->held = q->n;
    out->held_broken = 0;
    for (size_t i = 0; i < q->n; i++) {
        out->held_broken += kept_may_try(&q->files[i]);
    }
}

/* -- keeping -- */

/* The file's name becomes `suffix`'s, durably. */
static enum err write_rename(struct dead_letter *q, uint64_t number, const char *from,
                             const char *to)
{
    const struct fio *fio = q->conf.fio;
    char *old = file_path(q->dir, number, from), *new = file_path(q->dir, number, to);
    enum err e = old && new ? fio->rename(fio->ctx, old, new) : ERR_NOMEM;

    mem_free(old);
    mem_free(new);
    return e ? e : fio->sync_dir(fio->ctx, q->dir);
}

static void write_discard(struct dead_letter *q, const char *path)
{
    const struct fio *fio = q->conf.fio;

    err_ignore(fio->sync_dir(fio->ctx, q->dir));
    err_ignore(fio->remove(fio->ctx, path));
    err_ignore(fio->sync_dir(fio->ctx, q->dir));
}

static enum err write_durably(struct dead_letter *q, uint64_t number)
{
    const struct fio *fio = q->conf.fio;
    char *tmp = file_path(q->dir, number, ".tmp");
    struct fio_file *f = NULL;
    enum err e = tmp ? os_mkdirs(q->dir, true) : ERR_NOMEM;

    if (!e) {
        e = fio->create(fio->ctx, &f, tmp);
    }
    if (e == ERR_EXISTS) { /* of a crash */
        write_discard(q, tmp);
        e = fio->create(fio->ctx, &f, tmp);
    }
    if (!e) {
        e = fio->write(fio->ctx, f, 0, q->scratch.p, q->scratch.n);
        if (!e) {
            e = fio->sync(fio->ctx, f);
        }
        fio->close(fio->ctx, f);
        if (!e) {
            e = fio->sync_dir(fio->ctx, q->dir);
        }
        if (!e) {
            e = write_rename(q, number, ".tmp", ".quar");
        }
        if (e) {
            write_discard(q, tmp);
        }
    }
    mem_free(tmp);
    return e;
}

static enum err kept_write(struct dead_letter *q, const struct dead_letter_batch *b)
{
    struct kept k = {.number = q->next_number,
                     .stream = b->stream,
                     .seq = b->seq,
                     .when_ns = b->when_ns,
                     .cause = b->cause,
                     .tries = b->tries};
    enum err e;

    buf_reset(&q->scratch);
    dead_letter_file_format(&q->scratch, b);
    if (q->scratch.bad) {
        return q->scratch.bad;
    }
    k.bytes = q->scratch.n;
    kept_make_room(q, k.bytes);
    e = write_durably(q, k.number);
    return e ? e : kept_add(q, &k);
}

void dead_letter_put(struct dead_letter *q, const struct dead_letter_batch *b)
{
    for (size_t i = 0; i < q->n; i++) {
        struct kept *k = &q->files[i];

        if (k->stream == b->stream && k->seq == b->seq && !k->in_flight) {
            kept_remove(q, k); /* it was set aside before a crash */
            break;
        }
    }
    spool_batch_count(&q->stats.put, b->p, b->n);
    if (kept_write(q, b)) {
        q->stats.unkept++;
    }
}

void dead_letter_tidy(struct dead_letter *q, int64_t now_ns)
{
    err_ignore(scan_dir(q)); /* the next minute comes */
    for (size_t i = 0; i < q->n;) {
        struct kept *k = &q->files[i];

        k->due = kept_may_try(k) && kept_is_due(k, now_ns);
        if (k->in_flight || k->again || k->due || k->when_ns >= now_ns - q->conf.max_age_ns) {
            i++;
            continue;
        }
        kept_remove(q, k);
        q->stats.dropped++;
    }
}

/* -- sending again -- */

enum err dead_letter_next(struct dead_letter *q, struct buf *content, struct dead_letter_batch *out)
{
    for (size_t i = 0; i < q->n; i++) {
        struct kept *k = &q->files[i];
        uint8_t *bytes;
        enum err e;

        if (!(k->again || k->due) || k->in_flight) {
            continue;
        }
        e = dead_letter_file_read(out, &bytes, q->conf.spool_dir, k->number);
        if (!e) {
            buf_reset(content);
            buf_put(content, out->p, out->n);
            e = content->bad;
            out->p = content->p;
            mem_free(bytes);
        }
        if (!e) {
            k->in_flight = true;
            return ERR_OK;
        }
        k->again = k->due =
            false; /* cannot be read now; the next look at the directory finds it again */
    }
    return ERR_END;
}

void dead_letter_ack(struct dead_letter *q, const struct dead_letter_batch *b)
{
    struct kept *k = kept_find(q, b->number);

    spool_batch_count(&q->stats.again, b->p, b->n);
    if (k) {
        kept_remove(q, k);
    }
}

void dead_letter_reject(struct dead_letter *q, const struct dead_letter_batch *b)
{
    struct dead_letter_batch anew = *b;
    struct kept *k = kept_find(q, b->number);
    enum err e;

    anew.tries = k && k->tries < UINT8_MAX ? k->tries + 1 : UINT8_MAX;
    e = kept_write(q, &anew);
    k = kept_find(q, b->number);
    if (k && !e) {
        kept_remove(q, k);
    } else if (k) { /* under its old name, with its old reason; asked for, but not at once */
        k->in_flight = k->again = k->due = false;
    }
}

void dead_letter_return(struct dead_letter *q, uint64_t number)
{
    struct kept *k = kept_find(q, number);

    if (k) {
        k->in_flight = false;
    }
}
