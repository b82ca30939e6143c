/* The file is opened for each operation: another process may have put a new one in its place, and
 * four system calls a look are nothing. Readers take no lock. They may see the beginning of a line
 * that is being appended: it is an end without a line break, and is looked at again next time. */
#include "collector/ca/book.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define SUM_LEN      17u /* of a line's checksum and the blank behind it */
#define HEAD_FORMAT  "procfleet-book 1 %016" PRIx64
#define HEAD_NAME    "procfleet-book "
#define HEAD_LEN     (SUM_LEN + 33u + 1u)
#define PIECE        (64u << 10) /* bytes read at once */
#define FILE_MAX     (BOOK_LINES_MAX * (BOOK_LINE_MAX + SUM_LEN + 1))
#define TORN_MAX     (BOOK_LINE_MAX + SUM_LEN + 1)
#define LOCK_WAIT_NS (5 * CLK_S)

struct book {
    const struct fio *fio;
    char *dir, *path, *lock_path;
    struct os_lock *lock;
    uint64_t generation;
    uint64_t offset; /* where the next line begins; 0 = nothing was read yet */
    size_t lines;
    size_t torn;
    char *piece; /* PIECE + 1 bytes */
};

size_t book_lines(const struct book *b)
{
    return b->lines;
}

size_t book_torn(const struct book *b)
{
    return b->torn;
}

/* -- lines -- */

static void put_line(struct buf *out, uint64_t seed, const char *text, size_t n)
{
    buf_printf(out, "%016" PRIx64 " ", hash_bytes(text, n, seed));
    buf_put(out, text, n);
    buf_put_u8(out, '\n');
}

/* Whether the n bytes of a line, its break not counted, carry their checksum. */
static bool sum_ok(uint64_t seed, const char *line, size_t n)
{
    char wanted[SUM_LEN + 1];

    if (n <= SUM_LEN) {
        return false;
    }
    snprintf(wanted, sizeof wanted, "%016" PRIx64 " ",
             hash_bytes(line + SUM_LEN, n - SUM_LEN, seed));
    return memcmp(line, wanted, SUM_LEN) == 0;
}

static bool is_text(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)p[i] < 0x20 || (unsigned char)p[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

/* -- the file -- */

static enum err open_file(struct book *b, struct fio_file **f, struct errmsg *why)
{
    enum err e = b->fio->open(b->fio->ctx, f, b->path);

    if (e == ERR_ACCESS) {
        return errmsg_set(
            why, e, "no right to use %s: run this as the user that the collector runs as", b->path);
    }
    if (e == ERR_READONLY) {
        return errmsg_set(why, e, "cannot open %s: the disk is read-only; mount it writable",
                          b->path);
    }
    return e ? errmsg_set(why, e, "cannot open %s: %s", b->path, err_text(e)) : ERR_OK;
}

static enum err io_failed(const struct book *b, enum err e, const char *what, struct errmsg *why)
{
    return errmsg_set(why, e, "cannot %s %s: %s", what, b->path, err_text(e));
}

/* Reads the first line: the generation. */
static enum err read_head(struct book *b, struct fio_file *f, uint64_t *generation,
                          struct errmsg *why)
{
    char head[HEAD_LEN + 1], wanted[HEAD_LEN + 1];
    size_t got = 0;
    enum err e = b->fio->read(b->fio->ctx, f, 0, head, HEAD_LEN, &got);

    if (e) {
        return io_failed(b, e, "read", why);
    }
    head[got] = '\0';
    if (got < HEAD_LEN || head[HEAD_LEN - 1] != '\n' || !sum_ok(0, head, HEAD_LEN - 1) ||
        strncmp(head + SUM_LEN, HEAD_NAME, strlen(HEAD_NAME)) != 0) {
        return errmsg_set(why, ERR_CORRUPT,
                          "%s:1: not the first line of a book: bring it back from a copy", b->path);
    }
    if (sscanf(head + SUM_LEN, HEAD_NAME "1 %16" SCNx64, generation) != 1) {
        return errmsg_set(why, ERR_VERSION, "%s was written by a later version", b->path);
    }
    snprintf(wanted, sizeof wanted, HEAD_FORMAT "\n", *generation);
    return strcmp(wanted, head + SUM_LEN) == 0
               ? ERR_OK
               : errmsg_set(why, ERR_VERSION, "%s was written by a later version", b->path);
}

/* The whole file: its first line, and `texts` behind it. */
static enum err write_anew(struct book *b, const struct buf *texts, struct errmsg *why)
{
    char head[HEAD_LEN];
    uint64_t generation;
    struct buf all;
    size_t at = 0;
    enum err e = os_random(&generation, sizeof generation);

    if (e) {
        return errmsg_set(why, e, "no random numbers: %s", err_text(e));
    }
    buf_init(&all, FILE_MAX + HEAD_LEN);
    snprintf(head, sizeof head, HEAD_FORMAT, generation);
    put_line(&all, 0, head, strlen(head));
    while (texts && at < texts->n) {
        const char *text = (const char *)texts->p + at;
        const char *end = memchr(text, '\n', texts->n - at);

        put_line(&all, generation, text, (size_t)(end - text));
        at += (size_t)(end - text) + 1;
    }
    e = all.bad ? all.bad : os_write_file(b->path, all.p, all.n, true);
    buf_fini(&all);
    return e ? io_failed(b, e, "write", why) : ERR_OK;
}

/* -- reading -- */

/* Whether one flipped bit makes a good line of what is not one. */
static bool is_one_bit_off(const struct book *b, const char *p, size_t n)
{
    char line[TORN_MAX];

    memcpy(line, p, n);
    for (size_t bit = 0; bit < n * 8; bit++) {
        const char *end;

        line[bit / 8] ^= (char)(1 << bit % 8);
        end = memchr(line, '\n', n);
        if (end && sum_ok(b->generation, line, (size_t)(end - line))) {
            return true;
        }
        line[bit / 8] ^= (char)(1 << bit % 8);
    }
    return false;
}

/* Whether the n bytes at the file's end are what a cut write leaves: no more than one line, some of
 * it no text, and nothing good in it: neither a line behind nor one whose break or any other bit
 * has changed. */
static bool is_torn(const struct book *b, const char *p, size_t n)
{
    bool text = true;

    if (n > TORN_MAX) {
        return false;
    }
    for (size_t len = SUM_LEN + 1; len < n; len++) {
        if (sum_ok(b->generation, p, len)) {
            return false;
        }
    }
    for (size_t at = 0; at < n;) {
        const char *end = memchr(p + at, '\n', n - at);
        size_t len = end ? (size_t)(end - (p + at)) : n - at;

        if (end && sum_ok(b->generation, p + at, len)) {
            return false;
        }
        text = text && is_text(p + at, len);
        at += len + 1;
    }
    return !text && !is_one_bit_off(b, p, n);
}

static enum err damaged(const struct book *b, struct errmsg *why)
{
    return errmsg_set(why, ERR_CORRUPT,
                      "%s:%zu: this line was damaged: bring the file back from a copy, or take the "
                      "line out and check with 'pki list --all' what it meant",
                      b->path, b->lines + 2);
}

/* The complete lines of a piece. *used: their bytes. ERR_END: a torn one. */
static enum err take_lines(struct book *b, size_t got, bool at_end, const struct book_reader *to,
                           size_t *used, struct errmsg *why)
{
    size_t at = 0;
    enum err e = ERR_OK;

    while (!e) {
        char *line = b->piece + at, *end = memchr(line, '\n', got - at);
        size_t n = end ? (size_t)(end - line) : 0;

        if (!end) {
            break;
        }
        if (!sum_ok(b->generation, line, n)) {
            e = at_end && is_torn(b, line, got - at) ? ERR_END : damaged(b, why);
            break;
        }
        *end = '\0';
        e = to->line(to->ctx, line + SUM_LEN, n - SUM_LEN);
        if (e == ERR_CORRUPT || e == ERR_VERSION) {
            errmsg_set(why, e, "%s:%zu: %s", b->path, b->lines + 2,
                       e == ERR_VERSION ? "written by a later version" : "no entry of a book");
        }
        if (!e) {
            at += n + 1;
            b->lines++;
        }
    }
    *used = at;
    return e;
}

static enum err read_lines(struct book *b, struct fio_file *f, uint64_t size,
                           const struct book_reader *to, struct errmsg *why)
{
    enum err e = ERR_OK;

    while (!e && b->offset < size) {
        size_t got = 0, used = 0;

        e = b->fio->read(b->fio->ctx, f, b->offset, b->piece, PIECE, &got);
        if (e) {
            return io_failed(b, e, "read", why);
        }
        e = take_lines(b, got, b->offset + got >= size, to, &used, why);
        b->offset += used;
        if (!e && used == 0) {
            return got < TORN_MAX ? ERR_OK : damaged(b, why);
        }
    }
    return e == ERR_END ? ERR_OK : e;
}

static enum err begin(struct book *b, uint64_t generation, const struct book_reader *to)
{
    enum err e = to->begin(to->ctx);

    if (!e) {
        b->generation = generation;
        b->offset = HEAD_LEN;
        b->lines = 0;
    }
    return e;
}

enum err book_read(struct book *b, const struct book_reader *to, struct errmsg *why)
{
    struct fio_file *f;
    uint64_t size = 0, generation = 0;
    enum err e = open_file(b, &f, why);

    if (e) {
        return e;
    }
    e = b->fio->size(b->fio->ctx, f, &size);
    if (e) {
        io_failed(b, e, "read", why);
    } else {
        e = read_head(b, f, &generation, why);
    }
    if (!e && (b->offset == 0 || generation != b->generation)) {
        e = begin(b, generation, to);
    }
    if (!e && size < b->offset) {
        e = errmsg_set(why, ERR_CORRUPT, "%s was cut: bring it back from a copy", b->path);
    }
    if (!e) {
        e = read_lines(b, f, size, to, why);
    }
    b->fio->close(b->fio->ctx, f);
    return e;
}

/* -- writing -- */

enum err book_lock(struct book *b, struct errmsg *why)
{
    int64_t until = os_mono_ns() + LOCK_WAIT_NS;
    enum err e;

    while ((e = os_lock(&b->lock, b->lock_path)) == ERR_BUSY && os_mono_ns() < until) {
        os_sleep_ns(2 * CLK_MS);
    }
    if (e == ERR_BUSY) {
        return errmsg_set(why, e, "another program has held %s for seconds: try again",
                          b->lock_path);
    }
    return e ? errmsg_set(why, e, "cannot lock %s: %s", b->lock_path, err_text(e)) : ERR_OK;
}

void book_unlock(struct book *b)
{
    os_unlock(b->lock);
    b->lock = NULL;
}

/* Behind the last good line, in place of a torn end. */
static enum err append_line(struct book *b, struct fio_file *f, const struct buf *line)
{
    const struct fio *fio = b->fio;
    uint64_t size = 0;
    enum err e = fio->size(fio->ctx, f, &size);

    if (!e && size > b->offset) {
        e = fio->truncate(fio->ctx, f, b->offset);
        b->torn += e ? 0 : (size_t)(size - b->offset);
    }
    if (e) {
        return e;
    }
    e = fio->write(fio->ctx, f, b->offset, line->p, line->n);
    if (!e) {
        e = fio->sync(fio->ctx, f);
    }
    if (e) {
        err_ignore(fio->truncate(fio->ctx, f, b->offset));
    }
    return e;
}

enum err book_append(struct book *b, const char *text, size_t n, struct errmsg *why)
{
    struct fio_file *f;
    struct buf line;
    enum err e;

    if (n == 0 || n > BOOK_LINE_MAX || !is_text(text, n)) {
        return errmsg_set(why, ERR_INVALID, "this is no entry of a book");
    }
    if (b->lines >= BOOK_LINES_MAX) {
        return errmsg_set(why, ERR_FULL, "%s has %zu lines: no more fit", b->path, b->lines);
    }
    buf_init(&line, BOOK_LINE_MAX + SUM_LEN + 1);
    put_line(&line, b->generation, text, n);
    e = line.bad ? line.bad : open_file(b, &f, why);
    if (!e) {
        e = append_line(b, f, &line);
        b->fio->close(b->fio->ctx, f);
        if (e) {
            io_failed(b, e, "write", why);
        }
    }
    buf_fini(&line);
    return e;
}

/* -- tidying -- */

struct sieve {
    bool (*keep)(void *ctx, const char *text, size_t n);
    void *ctx;
    struct buf kept;
};

static enum err sieve_begin(void *ctx)
{
    (void)ctx;
    return ERR_OK;
}

static enum err sieve_line(void *ctx, const char *text, size_t n)
{
    struct sieve *s = ctx;

    if (s->keep(s->ctx, text, n)) {
        buf_put(&s->kept, text, n);
        buf_put_u8(&s->kept, '\n');
    }
    return s->kept.bad;
}

enum err book_tidy(struct book *b, bool (*keep)(void *ctx, const char *text, size_t n), void *ctx,
                   struct errmsg *why)
{
    struct sieve s = {.keep = keep, .ctx = ctx};
    const struct book_reader to = {sieve_begin, sieve_line, &s};
    enum err e;

    buf_init(&s.kept, FILE_MAX);
    b->offset = 0; /* all of it once more */
    e = book_read(b, &to, why);
    if (!e) {
        e = write_anew(b, &s.kept, why);
    }
    b->offset = 0;
    buf_fini(&s.kept);
    return e;
}

/* -- opening -- */

static enum err make_missing(struct book *b, struct errmsg *why)
{
    enum err e;

    if (os_exists(b->path)) {
        return ERR_OK;
    }
    e = book_lock(b, why);
    if (e) {
        return e;
    }
    if (!os_exists(b->path)) {
        e = write_anew(b, NULL, why);
    }
    book_unlock(b);
    return e;
}

static enum err prepare(struct book *b, const char *dir, struct errmsg *why)
{
    enum err e;

    b->dir = mem_strdup(dir);
    b->path = os_path_join(dir, "book");
    b->lock_path = os_path_join(dir, "book.lock");
    b->piece = mem_alloc(PIECE + 1);
    if (!b->dir || !b->path || !b->lock_path || !b->piece) {
        return ERR_NOMEM;
    }
    if (!os_exists(dir)) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "no authority in %s: make one with 'procfleet-collector pki init --dir "
                          "%s'",
                          dir, dir);
    }
    e = make_missing(b, why);
    if (e) {
        return e;
    }
    e = os_check_private(b->path);
    return e ? errmsg_set(why, e, "others can read %s: chmod 600 it", b->path) : ERR_OK;
}

enum err book_open(struct book **out, const char *dir, const struct fio *fio, struct errmsg *why)
{
    struct book *b = mem_zalloc(sizeof *b);
    enum err e;

    if (!b) {
        return ERR_NOMEM;
    }
    b->fio = fio;
    e = prepare(b, dir, why);
    if (e) {
        book_close(b);
        return e;
    }
    *out = b;
    return ERR_OK;
}

void book_close(struct book *b)
{
    if (b) {
        book_unlock(b);
        mem_free(b->dir);
        mem_free(b->path);
        mem_free(b->lock_path);
        mem_free(b->piece);
        mem_free(b);
    }
}
