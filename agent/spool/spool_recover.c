/* What is found when the spool is opened. Files are taken in order of their numbers; the newest one
 * says which stream goes on and with which number. Damage inside a file costs the records it is in.
 * The newest file may end in a commit that was cut off: what stands behind its last sound record
 * goes, and the rest is synced, since a killed process leaves in the page cache what is not durable
 * yet, and nothing leaves this host before it is. Nothing is appended to any of these files. */
#include "agent/spool/spool_disk_impl.h"

#include <stdlib.h>
#include <string.h>

#include "agent/spool/dead_letter.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"

static enum err collect_name(void *ctx, const char *name)
{
    struct spool_disk *d = ctx;
    uint64_t number;
    enum err e;

    if (fio_name_parse(&number, name, SPOOL_PREFIX, ".tmp")) {
        char *path = spool_disk_path(d, number, ".tmp");

        if (path) {
            err_ignore(d->conf.fio->remove(d->conf.fio->ctx, path));
        }
        mem_free(path);
        return ERR_OK;
    }
    if (!fio_name_parse(&number, name, SPOOL_PREFIX, SPOOL_SUFFIX)) {
        d->stats.foreign += strcmp(name, "lock") != 0 && strcmp(name, "run") != 0 &&
                            strcmp(name, SPOOL_MARK_NAME) != 0 &&
                            strcmp(name, DEAD_LETTER_DIR) != 0;
        return ERR_OK;
    }
    e = spool_disk_room(d);
    if (!e) {
        d->files[d->n_files++] = (struct spool_file){.number = number};
    }
    return e;
}

/* Out of the way but kept. */
static enum err set_aside(struct spool_disk *d, uint64_t number)
{
    char *from = spool_disk_path(d, number, SPOOL_SUFFIX), *to = spool_disk_path(d, number, ".bad");
    enum err e = ERR_NOMEM;

    spool_disk_unread(d);
    if (from && to) {
        e = d->conf.fio->rename(d->conf.fio->ctx, from, to);
    }
    mem_free(from);
    mem_free(to);
    return e;
}

/* Takes note of the file's records. `last`: *end is where the last sound one ends. */
static enum err scan(struct spool_disk *d, struct spool_file *f, bool last, uint64_t *end)
{
    uint64_t at = f->begin;
    struct spool_segment view;
    struct spool_record r;
    enum err e = spool_disk_view(d, f, &view);

    *end = f->begin;
    f->newest_ns = INT64_MAX; /* an empty one keeps stream and number */
    while (!e) {
        uint64_t damaged = 0;

        e = spool_segment_next(&view, &at, &r, &damaged);
        if (e) {
            break;
        }
        if (last) {
            e = spool_segment_read(&view, at, &r, &d->scratch);
        }
        at = spool_record_end(at, &r);
        if (e == ERR_CORRUPT) {
            e = ERR_OK; /* counted when it is reached, unless it is part of the torn end */
            continue;
        }
        f->last_seq = r.seq;
        f->newest_ns = r.when_ns;
        *end = at;
        d->stats.held++;
        d->stats.held_bytes += r.n;
    }
    return e == ERR_END ? ERR_OK : e;
}

static enum err read_header(struct spool_disk *d, struct spool_file *f)
{
    uint8_t bytes[SPOOL_HEADER_BYTES];
    const struct fio *fio = d->conf.fio;
    struct spool_segment view;
    struct spool_header h;
    size_t got;
    enum err e = spool_disk_view(d, f, &view);

    if (!e) {
        e = fio->size(fio->ctx, view.f, &f->bytes);
    }
    if (!e) {
        e = fio->read(fio->ctx, view.f, 0, bytes, sizeof bytes, &got);
    }
    if (!e) {
        e = spool_header_parse(&h, f->number, bytes, got);
    }
    if (!e) {
        f->stream = h.stream;
        f->first_seq = h.first_seq;
        f->last_seq = h.first_seq - 1;
        f->seed = h.seed;
        f->begin = h.bytes;
        d->stats.damaged_headers += h.damaged;
        f->detail = (enum spool_detail)h.detail;
    }
    return e;
}

/* The newest file ends where its sound records end, durably. */
static enum err repair(struct spool_disk *d, struct spool_file *f, uint64_t end)
{
    uint64_t size = f->bytes;

    if (end < size) {
        d->stats.torn_bytes += size - end;
        f->bytes = end;
    }
    return reclog_cut(d->conf.fio, d->in, d->dir, size, end);
}

/* *gone: it holds nothing and is no part of the spool any more. */
static enum err recover_file(struct spool_disk *d, size_t i, bool *gone)
{
    struct spool_file *f = &d->files[i];
    bool last = i + 1 == d->n_files;
    uint64_t end;
    enum err e = read_header(d, f);

    *gone = false;
    if (e == ERR_CORRUPT) {
        *gone = true;
        if (last && f->bytes < SPOOL_HEADER_BYTES) { /* its very first commit was cut off */
            d->stats.torn_bytes += f->bytes;
            return ERR_OK;
        }
        d->stats.unreadable++;
        return set_aside(d, f->number);
    }
    if (!e) {
        e = scan(d, f, last, &end);
    }
    if (!e && last) {
        e = repair(d, f, end);
    }
    return e;
}

static enum err recover_all(struct spool_disk *d, struct errmsg *why)
{
    for (size_t i = 0; i < d->n_files;) {
        uint64_t number = d->files[i].number;
        bool gone;
        enum err e = recover_file(d, i, &gone);

        if (e == ERR_VERSION) {
            return errmsg_set(why, e,
                              "the spool in %s was written by a newer version of the agent: use "
                              "that one, or set spool.dir to another directory",
                              d->dir);
        }
        if (e) {
            return errmsg_set(why, e, "cannot recover the spool in %s: %s", d->dir, err_text(e));
        }
        d->next_number = number + 1;
        if (!gone) {
            i++;
            continue;
        }
        spool_disk_unread(d);
        spool_disk_remove(d, i);
    }
    return ERR_OK;
}

enum err spool_recover(struct spool_disk *d, struct errmsg *why)
{
    enum err e = os_list_dir(d->dir, collect_name, d);

    d->next_number = 1;
    if (e) {
        return errmsg_set(why, e, "cannot list %s: %s", d->dir, err_text(e));
    }
    if (d->n_files > 0) {
        qsort(d->files, d->n_files, sizeof *d->files, reclog_by_number);
    }
    e = recover_all(d, why);
    for (size_t i = 0; i < d->n_files; i++) {
        int64_t ns = d->files[i].newest_ns; /* INT64_MAX: it is empty */

        d->stats.newest_ns = ns != INT64_MAX && ns > d->stats.newest_ns ? ns : d->stats.newest_ns;
    }
    if (!e && d->n_files > 0) {
        const struct spool_file *f = &d->files[d->n_files - 1];

        d->stream = f->stream;
        d->next_seq = f->last_seq + 1;
    }
    return e;
}
