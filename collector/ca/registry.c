/* Whoever writes takes the file's lock, reads what others wrote, decides, appends and reads again:
 * its own line comes back to it like everybody else's. */
#include "collector/ca/registry.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/registry_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define TIDY_LINES 1000u          /* fewer are not worth it */
#define OVER_NS    (3600 * CLK_S) /* a replaced certificate, after its end */
#define KEEP_NS    (REGISTRY_GRACE_MAX + 86400 * CLK_S)

/* -- reading -- */

static enum err on_begin(void *ctx)
{
    struct registry *r = ctx;

    roll_fini(&r->fresh);
    r->building = true;
    return ERR_OK;
}

static enum err on_line(void *ctx, const char *text, size_t n)
{
    struct registry *r = ctx;
    struct entry entry;
    enum err e = entry_get(&entry, text, n);

    if (e) {
        return e;
    }
    if (r->building) {
        return roll_add(&r->fresh, &entry);
    }
    os_mutex_lock(r->lock);
    e = roll_add(&r->roll, &entry);
    os_mutex_unlock(r->lock);
    return e;
}

/* `file` is held. Whoever reads, what it finds is news until registry_refresh has told it. */
static enum err read_rest(struct registry *r, struct errmsg *why)
{
    const struct book_reader to = {on_begin, on_line, r};
    size_t revoked = r->roll.n_revoked; /* written under `file` only */
    enum err e = book_read(r->book, &to, why);

    if (!e && r->building) {
        struct roll old;

        os_mutex_lock(r->lock);
        old = r->roll;
        r->roll = r->fresh;
        os_mutex_unlock(r->lock);
        r->fresh = (struct roll){0};
        r->building = false;
        roll_fini(&old);
        revoked = SIZE_MAX;
    }
    r->news = r->news || r->roll.n_revoked != revoked;
    return e;
}

enum err registry_refresh(struct registry *r, bool *changed, struct errmsg *why)
{
    enum err e;

    os_mutex_lock(r->file);
    e = read_rest(r, why);
    *changed = r->news;
    r->news = false;
    os_mutex_unlock(r->file);
    return e;
}

/* -- writing -- */

static enum err append(struct registry *r, const struct entry *entry, struct errmsg *why)
{
    struct buf text;
    enum err e;

    buf_init(&text, BOOK_LINE_MAX);
    e = entry_put(&text, entry);
    if (e) {
        errmsg_set(why, e, "this cannot be written into the book: %s", err_text(e));
    } else {
        e = book_append(r->book, (const char *)text.p, text.n, why);
    }
    buf_fini(&text);
    return e;
}

/* What goes wrong with the file is one kind of failure to whoever writes: `decide` has the others.
 */
static enum err of_file(enum err e)
{
    switch (e) {
    case ERR_OK:
    case ERR_NOMEM:
    case ERR_NOSPACE:
    case ERR_FULL:
        return e;
    default:
        return ERR_IO;
    }
}

static enum err decide_and_append(struct registry *r, registry_decide decide, void *ctx,
                                  struct errmsg *why)
{
    struct entry entry = {.when_ns = 0};
    enum err e = of_file(read_rest(r, why));

    if (e) {
        return e;
    }
    os_mutex_lock(r->lock);
    e = decide(r, &entry, ctx, why);
    os_mutex_unlock(r->lock);
    if (e) {
        return e;
    }
    e = append(r, &entry, why);
    if (!e) {
        e = read_rest(r, why);
    }
    return of_file(e);
}

enum err registry_catch_up(struct registry *r, struct errmsg *why)
{
    enum err e;

    os_mutex_lock(r->file);
    e = of_file(read_rest(r, why));
    os_mutex_unlock(r->file);
    return e;
}

enum err registry_write(struct registry *r, registry_decide decide, void *ctx, struct errmsg *why)
{
    enum err e;

    os_mutex_lock(r->file);
    e = of_file(book_lock(r->book, why));
    if (!e) {
        e = decide_and_append(r, decide, ctx, why);
        book_unlock(r->book);
    }
    os_mutex_unlock(r->file);
    return e;
}

/* -- tidying -- */

struct broom {
    const struct roll *roll;
    int64_t now_ns;
};

static bool keep_token(const struct broom *b, const struct roll_token *t)
{
    return clk_sub(b->now_ns, t->expires_ns) < KEEP_NS;
}

/* The line of an enrolment says more than the certificate: that the token is used, and that what
 * the host had before is revoked, which somebody may still have. */
static bool keep_cert(const struct broom *b, const struct roll_cert *c)
{
    int64_t over_ns = clk_sub(b->now_ns, c->not_after_ns);

    return c->again || (c->token && keep_token(b, &b->roll->tokens[c->token - 1])) ||
           over_ns < (c->replaced && c->revoked_ns == 0 ? OVER_NS : KEEP_NS);
}

static bool keep_line(void *ctx, const char *text, size_t n)
{
    const struct broom *b = ctx;
    const struct roll_token *t;
    const struct roll_cert *c;
    struct entry e;

    if (entry_get(&e, text, n) != ERR_OK) {
        return true;
    }
    switch (e.kind) {
    case ENTRY_ISSUED:
    case ENTRY_ENROLLED:
        c = roll_cert(b->roll, e.who.fingerprint);
        return !c || keep_cert(b, c);
    case ENTRY_TOKEN:
    case ENTRY_WITHDRAWN:
        t = roll_token(b->roll, e.token);
        return t && keep_token(b, t);
    default:
        return true; /* somebody may still have what it revoked */
    }
}

static size_t over(const struct roll *r, int64_t now_ns)
{
    struct broom b = {r, now_ns};
    size_t n = 0;

    for (size_t i = 0; i < r->n_certs; i++) {
        n += !keep_cert(&b, &r->certs[i]);
    }
    for (size_t i = 0; i < r->n_tokens; i++) {
        n += !keep_token(&b, &r->tokens[i]);
    }
    return n;
}

/* Everything was read and nobody else writes. */
static enum err tidy(struct registry *r, int64_t now_ns, struct errmsg *why)
{
    struct broom b = {&r->roll, now_ns};
    size_t lines = book_lines(r->book);
    enum err e;

    if (lines < TIDY_LINES || over(&r->roll, now_ns) < lines / 2) {
        return ERR_OK;
    }
    e = book_tidy(r->book, keep_line, &b, why);
    return e ? e : read_rest(r, why);
}

enum err registry_tidy(struct registry *r, int64_t now_ns, struct errmsg *why)
{
    enum err e;

    os_mutex_lock(r->file);
    e = book_lock(r->book, why);
    if (!e) {
        e = read_rest(r, why);
        if (!e) {
            e = tidy(r, now_ns, why);
        }
        book_unlock(r->book);
    }
    os_mutex_unlock(r->file);
    return e;
}

/* -- opening -- */

static enum err open_parts(struct registry *r, const char *dir, const struct fio *fio,
                           struct errmsg *why)
{
    bool changed;
    enum err e = os_mutex_create(&r->file);

    if (!e) {
        e = os_mutex_create(&r->lock);
    }
    if (!e) {
        e = book_open(&r->book, dir, fio ? fio : fio_os(), why);
    }
    return e ? e : registry_refresh(r, &changed, why);
}

enum err registry_open(struct registry **out, const char *dir, const struct fio *fio,
                       struct errmsg *why)
{
    struct registry *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    e = open_parts(r, dir, fio, why);
    if (e) {
        registry_close(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

void registry_close(struct registry *r)
{
    if (r) {
        book_close(r->book);
        roll_fini(&r->roll);
        roll_fini(&r->fresh);
        os_mutex_destroy(r->lock);
        os_mutex_destroy(r->file);
        mem_free(r);
    }
}

void registry_stats(struct registry *r, struct registry_stats *out)
{
    os_mutex_lock(r->file);
    *out = (struct registry_stats){.lines = book_lines(r->book),
                                   .torn_bytes = book_torn(r->book),
                                   .certs = r->roll.n_certs,
                                   .tokens = r->roll.n_tokens,
                                   .revocations = r->roll.n_revoked};
    os_mutex_unlock(r->file);
}
