/* The file `mark`: which stream and number were the last to become durable, and since when memory
 * alone holds something older. Written after each commit and never synced: a kill leaves it in the
 * page cache, and what loss of power takes of it makes it say less, never more. When it says more
 * than the segments do, these have lost records that had been durable, and that may be stored by
 * the collector. Were their numbers given again, new batches would be taken for old ones and be
 * lost: so a new stream begins. Without a usable mark a torn end alone is taken for such a loss. */
#include "agent/spool/spool_disk_impl.h"

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/fio_name.h"
#include "common/os/os.h"

#define MARK_BYTES 40u /* magic, version, stream, last_seq, memory_ns, checksum of these */
#define VERSION    1u

static const char magic[4] = {'P', 'F', 'S', 'M'};

static enum err open_file(struct spool_disk *d)
{
    const struct fio *fio = d->conf.fio;
    char *path = os_path_join(d->dir, SPOOL_MARK_NAME);
    enum err e = path ? fio->open(fio->ctx, &d->mark, path) : ERR_NOMEM;

    if (e == ERR_NOTFOUND) {
        e = fio->create(fio->ctx, &d->mark, path);
    }
    mem_free(path);
    if (e) {
        d->mark = NULL;
    }
    return e;
}

void spool_mark_close(struct spool_disk *d)
{
    if (d->mark) {
        d->conf.fio->close(d->conf.fio->ctx, d->mark);
        d->mark = NULL;
    }
}

void spool_mark_write(struct spool_disk *d)
{
    const struct fio *fio = d->conf.fio;
    struct buf b;

    if (!d->mark && open_file(d)) {
        return;
    }
    buf_init(&b, MARK_BYTES);
    buf_put(&b, magic, sizeof magic);
    buf_put_u32le(&b, VERSION);
    buf_put_u64le(&b, d->stream);
    buf_put_u64le(&b, d->next_seq - 1);
    buf_put_u64le(&b, (uint64_t)d->memory_ns);
    buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
    if (b.bad || fio->write(fio->ctx, d->mark, 0, b.p, b.n)) {
        spool_mark_close(d);
    }
    buf_fini(&b);
}

/* False: there is none, or none that can be believed. */
static bool mark_read(struct spool_disk *d, uint64_t *stream, uint64_t *last_seq,
                      int64_t *memory_ns)
{
    uint8_t bytes[MARK_BYTES];
    struct cur c = cur_make(bytes, sizeof bytes);
    size_t got = 0;
    bool known;

    if (open_file(d) ||
        d->conf.fio->read(d->conf.fio->ctx, d->mark, 0, bytes, sizeof bytes, &got) ||
        got < sizeof bytes || memcmp(bytes, magic, sizeof magic) != 0) {
        return false;
    }
    cur_skip(&c, sizeof magic);
    known = cur_u32le(&c) == VERSION;
    *stream = cur_u64le(&c);
    *last_seq = cur_u64le(&c);
    *memory_ns = (int64_t)cur_u64le(&c);
    return known && cur_u64le(&c) == hash_bytes(bytes, MARK_BYTES - 8, 0);
}

enum err spool_mark_check(struct spool_disk *d)
{
    uint64_t stream, last_seq;
    int64_t memory_ns;
    bool reused;

    if (mark_read(d, &stream, &last_seq, &memory_ns)) {
        if (memory_ns && memory_ns < d->stats.newest_ns) {
            d->stats.newest_ns = memory_ns;
        }
        reused = stream != d->stream || last_seq >= d->next_seq;
        d->stats.forgotten += stream == d->stream && reused ? last_seq - d->next_seq + 1 : 0;
    } else {
        reused = d->stats.torn_bytes > 0;
    }
    if (!reused) {
        return ERR_OK;
    }
    d->next_seq = 1;
    return os_random(&d->stream, sizeof d->stream);
}
