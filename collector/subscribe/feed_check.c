#include "collector/subscribe/feed_check.h"

#include "collector/subscribe/journal_format.h"
#include "collector/subscribe/subscriptions_file.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"

#define SUB_PREFIX "sub-"
#define SUB_SUFFIX ".state"

struct checking {
    const struct fio *fio;
    const char *dir;
    void (*each)(void *ctx, const struct feed_check_file *f);
    void *ctx;
    bool any; /* journal files */
    uint64_t newest;
};

static enum err find_newest(void *ctx, const char *name)
{
    struct checking *c = ctx;
    uint64_t number;

    if (fio_name_parse(&number, name, JOURNAL_PREFIX, JOURNAL_SUFFIX)) {
        c->newest = c->any && c->newest > number ? c->newest : number;
        c->any = true;
    }
    return ERR_OK;
}

struct counting {
    struct feed_check_file *f;
    bool topics;
};

static enum err count_record(void *ctx, const struct journal_found *found)
{
    struct counting *x = ctx;

    x->f->records++;
    x->topics =
        x->topics || found->part->kind == JOURNAL_TOPICS || found->part->kind == JOURNAL_TOPICS3;
    return ERR_OK;
}

static enum err check_journal(struct checking *c, uint64_t number, struct feed_check_file *out)
{
    char *path = fio_name_path(c->dir, JOURNAL_PREFIX, number, JOURNAL_SUFFIX);
    struct counting x = {.f = out};
    struct journal_scan job = {.fio = c->fio, .each = count_record, .ctx = &x};
    struct journal_scanned done = {.end = 0};
    bool newest = number == c->newest;
    enum err e = path ? c->fio->open(c->fio->ctx, &job.f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    e = c->fio->size(c->fio->ctx, job.f, &job.size);
    e = e ? e : journal_format_scan(&done, &job);
    c->fio->close(c->fio->ctx, job.f);
    out->bytes = job.size;
    if (e == ERR_CORRUPT) { /* its header; one that is being begun is short */
        out->damaged = !newest || job.size >= JOURNAL_HEADER_BYTES;
        return ERR_OK;
    }
    if (!e) {
        out->damaged = done.damaged > 0 || done.header.damaged || done.header.number != number ||
                       (!newest && (done.end < job.size || !x.topics));
    }
    return e;
}

static enum err check_subscription(struct checking *c, uint64_t number, struct feed_check_file *out)
{
    struct subscriptions_state s;
    enum err e = subscriptions_file_read(&s, c->fio, c->dir, number);

    if (!e) {
        subscriptions_file_fini(&s);
    }
    out->damaged = e == ERR_CORRUPT;
    out->records = !e;
    return e == ERR_CORRUPT ? ERR_OK : e;
}

static enum err check_one(void *ctx, const char *name)
{
    struct checking *c = ctx;
    struct feed_check_file f = {.name = name};
    uint64_t number;
    enum err e;

    if (fio_name_parse(&number, name, JOURNAL_PREFIX, JOURNAL_SUFFIX)) {
        f.journal = true;
        e = check_journal(c, number, &f);
    } else if (fio_name_parse(&number, name, SUB_PREFIX, SUB_SUFFIX)) {
        e = check_subscription(c, number, &f);
    } else {
        return ERR_OK;
    }
    if (e == ERR_NOTFOUND) { /* it went meanwhile */
        return ERR_OK;
    }
    if (!e) {
        c->each(c->ctx, &f);
    }
    return e;
}

enum err feed_check(const struct fio *fio, const char *dir,
                    void (*each)(void *ctx, const struct feed_check_file *f), void *ctx)
{
    struct checking c = {.fio = fio, .dir = dir, .each = each, .ctx = ctx};
    enum err e;

    if (!os_exists(dir)) {
        return ERR_OK;
    }
    e = os_list_dir(dir, find_newest, &c);
    return e ? e : os_list_dir(dir, check_one, &c);
}
