#include "agent/spool/dead_letter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

struct kept {
    uint64_t number, stream, seq;
    int64_t when_ns;
    uint64_t bytes;
    enum quarantine_cause cause;
    unsigned tries;
    bool again, due, in_hand, seen; /* again: somebody wants it; due: it is time by itself */
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
static bool may_try(const struct kept *k)
{
    return k->cause == QUARANTINE_BROKEN && k->tries < DEAD_LETTER_TRIES;
}

/* A clock that was set back must not keep it for long. */
static bool is_due(const struct kept *k, int64_t now_ns)
{
    return now_ns < k->when_ns || now_ns - k->when_ns >= 60 * CLK_S << k->tries;
}

/* -- the directory -- */

static struct kept *find(struct dead_letter *q, uint64_t number)
{
    for (size_t i = 0; i < q->n; i++) {
        if (q->files[i].number == number) {
            return &q->files[i];
        }
    }
    return NULL;
}

static enum err add(struct dead_letter *q, const struct kept *k)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? q->cap * 2 : 16;
        struct kept *grown = mem_realloc_array(q->files, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        q->files = grown;
        q->cap = cap;
    }
    q->files[q->n++] = *k;
    q->stats.held_bytes += k->bytes;
    q->next_number = k->number >= q->next_number ? k->number + 1 : q->next_number;
    return ERR_OK;
}

/* What the file says of itself. */
static enum err look_into(struct dead_letter *q, struct kept *k, const char *suffix)
{
    const struct fio *fio = q->conf.fio;
    struct quarantine_batch b;
    uint8_t head[QUARANTINE_HEAD];
    char *path = dead_letter_file_path(q->dir, k->number, suffix);
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
        e = dead_letter_file_head(&b, head, got);
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

static enum err collect(void *ctx, const char *name)
{
    struct dead_letter *q = ctx;
    struct kept k = {.seen = true}, *known;
    enum err e;

    if (!dead_letter_file_name(&k.number, &k.again, name)) {
        return ERR_OK;
    }
    known = find(q, k.number);
    if (known) {
        known->again = k.again;
        known->seen = true;
        return ERR_OK;
    }
    if (q->n >= QUARANTINE_FILES) {
        return ERR_OK;
    }
    e = look_into(q, &k, k.again ? ".again" : ".quar");
    if (e == ERR_NOMEM) {
        return e;
    }
    if (e) {
        q->stats.unreadable++;
        q->next_number = k.number >= q->next_number ? k.number + 1 : q->next_number;
        return ERR_OK;
    }
    return add(q, &k);
}

static int by_number(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* The list becomes what is on disk; what is in hand stays until it is let go. */
static enum err scan(struct dead_letter *q)
{
    size_t kept = 0;
    enum err e;

    for (size_t i = 0; i < q->n; i++) {
        q->files[i].seen = false;
    }
    q->stats.unreadable = 0;
    e = os_list_dir(q->dir, collect, q);
    if (e && e != ERR_NOTFOUND) {
        return e;
    }
    for (size_t i = 0; i < q->n; i++) {
        if (q->files[i].seen || q->files[i].in_hand) {
            q->files[kept++] = q->files[i];
        } else {
            q->stats.held_bytes -= q->files[i].bytes;
        }
    }
    q->n = kept;
    if (q->n > 0) {
        qsort(q->files, q->n, sizeof *q->files, by_number);
    }
    return ERR_OK;
}

/* Takes the file off the disk and out of the list. */
static void remove_file(struct dead_letter *q, struct kept *k)
{
    static const char *const suffixes[] = {".quar", ".again"};
    const struct fio *fio = q->conf.fio;

    for (size_t i = 0; i < 2; i++) {
        char *path = dead_letter_file_path(q->dir, k->number, suffixes[i]);

        if (path) {
            err_ignore(fio->remove(fio->ctx, path)); /* one of the two is there */
        }
        mem_free(path);
    }
    q->stats.held_bytes -= k->bytes;
    q->n--;
    memmove(k, k + 1, (size_t)(q->files + q->n - k) * sizeof *k);
}

/* The oldest that is not in hand; NULL: none. */
static struct kept *oldest(struct dead_letter *q)
{
    for (size_t i = 0; i < q->n; i++) {
        if (!q->files[i].in_hand) {
            return &q->files[i];
        }
    }
    return NULL;
}

static void make_room(struct dead_letter *q, uint64_t bytes)
{
    struct kept *k;

    while ((q->n >= QUARANTINE_FILES || q->stats.held_bytes + bytes > q->conf.max_bytes) &&
           (k = oldest(q)) != NULL) {
        remove_file(q, k);
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
    q->dir = os_path_join(conf->spool_dir, QUARANTINE_DIR);
    if (q->dir) {
        e = scan(q);
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
        out->held_broken += may_try(&q->files[i]);
    }
}

/* -- keeping -- */

/* The file's name becomes `suffix`'s, durably. */
static enum err rename_file(struct dead_letter *q, uint64_t number, const char *from,
                            const char *to)
{
    const struct fio *fio = q->conf.fio;
    char *old = dead_letter_file_path(q->dir, number, from),
         *new = dead_letter_file_path(q->dir, number, to);
    enum err e = old && new ? fio->rename(fio->ctx, old, new) : ERR_NOMEM;

    mem_free(old);
    mem_free(new);
    return e ? e : fio->sync_dir(fio->ctx, q->dir);
}

static void discard(struct dead_letter *q, const char *path)
{
    const struct fio *fio = q->conf.fio;

    err_ignore(fio->sync_dir(fio->ctx, q->dir));
    err_ignore(fio->remove(fio->ctx, path));
    err_ignore(fio->sync_dir(fio->ctx, q->dir));
}

static enum err write_file(struct dead_letter *q, uint64_t number)
{
    const struct fio *fio = q->conf.fio;
    char *tmp = dead_letter_file_path(q->dir, number, ".tmp");
    struct fio_file *f = NULL;
    enum err e = tmp ? os_mkdirs(q->dir, true) : ERR_NOMEM;

    if (!e) {
        e = fio->create(fio->ctx, &f, tmp);
    }
    if (e == ERR_EXISTS) { /* of a crash */
        discard(q, tmp);
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
            e = rename_file(q, number, ".tmp", ".quar");
        }
        if (e) {
            discard(q, tmp);
        }
    }
    mem_free(tmp);
    return e;
}

static enum err keep(struct dead_letter *q, const struct quarantine_batch *b)
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
    make_room(q, k.bytes);
    e = write_file(q, k.number);
    return e ? e : add(q, &k);
}

void dead_letter_put(struct dead_letter *q, const struct quarantine_batch *b)
{
    for (size_t i = 0; i < q->n; i++) {
        struct kept *k = &q->files[i];

        if (k->stream == b->stream && k->seq == b->seq && !k->in_hand) {
            remove_file(q, k); /* it was set aside before a crash */
            break;
        }
    }
    spool_batch_count(&q->stats.put, b->p, b->n);
    if (keep(q, b)) {
        q->stats.unkept++;
    }
}

void dead_letter_tidy(struct dead_letter *q, int64_t now_ns)
{
    err_ignore(scan(q)); /* the next minute comes */
    for (size_t i = 0; i < q->n;) {
        struct kept *k = &q->files[i];

        k->due = may_try(k) && is_due(k, now_ns);
        if (k->in_hand || k->again || k->due || k->when_ns >= now_ns - q->conf.max_age_ns) {
            i++;
            continue;
        }
        remove_file(q, k);
        q->stats.dropped++;
    }
}

/* -- sending again -- */

enum err dead_letter_next(struct dead_letter *q, struct buf *content, struct quarantine_batch *out)
{
    for (size_t i = 0; i < q->n; i++) {
        struct kept *k = &q->files[i];
        uint8_t *bytes;
        enum err e;

        if (!(k->again || k->due) || k->in_hand) {
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
            k->in_hand = true;
            return ERR_OK;
        }
        k->again = k->due =
            false; /* cannot be read now; the next look at the directory finds it again */
    }
    return ERR_END;
}

void dead_letter_done(struct dead_letter *q, const struct quarantine_batch *b)
{
    struct kept *k = find(q, b->number);

    spool_batch_count(&q->stats.again, b->p, b->n);
    if (k) {
        remove_file(q, k);
    }
}

void dead_letter_keep(struct dead_letter *q, const struct quarantine_batch *b)
{
    struct quarantine_batch anew = *b;
    struct kept *k = find(q, b->number);
    enum err e;

    anew.tries = k && k->tries < UINT8_MAX ? k->tries + 1 : UINT8_MAX;
    e = keep(q, &anew);
    k = find(q, b->number);
    if (k && !e) {
        remove_file(q, k);
    } else if (k) { /* under its old name, with its old reason; asked for, but not at once */
        k->in_hand = k->again = k->due = false;
    }
}

void dead_letter_back(struct dead_letter *q, uint64_t number)
{
    struct kept *k = find(q, number);

    if (k) {
        k->in_hand = false;
    }
}
