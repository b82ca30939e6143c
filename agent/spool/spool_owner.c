/* Whose batches a spool holds. Its files are of one identity each, since every start begins a new
 * one: the first sound batch of a file tells. */
#include "agent/spool/spool_disk_impl.h"

#include <string.h>

#include "common/os/os.h"

/* The host of the file's first sound batch; false: there is none, or it cannot be read. */
static bool read_host(struct spool_disk *d, const struct spool_file *f, struct uuid *out)
{
    uint64_t at = SPOOL_HEADER_BYTES, damaged = 0;
    struct spool_segment view;
    struct spool_record r;
    enum err e = spool_disk_view(d, f, &view);

    while (!e) {
        struct batch *b;

        e = spool_segment_next(&view, &at, &r, &damaged);
        if (!e && spool_segment_read(&view, at, &r, &d->scratch) == ERR_OK &&
            wire_batch_decode(&b, d->scratch.p, r.n) == ERR_OK) {
            *out = b->head.host;
            wire_batch_free(b);
            return true;
        }
        at = e ? at : spool_record_end(at, &r);
    }
    return false;
}

enum err spool_disk_keep(struct spool_disk *d, const struct uuid *host)
{
    uint64_t newest = d->n_files > 0 ? d->files[d->n_files - 1].number : 0, stream;
    size_t before = d->n_files;
    enum err e;

    for (size_t i = 0; i < d->n_files;) {
        struct uuid of;

        if (read_host(d, &d->files[i], &of) && memcmp(&of, host, sizeof of) != 0) {
            spool_shrink_drop(d, i, &d->stats.other_host);
        } else {
            i++;
        }
    }
    if (d->n_files == before || (d->n_files > 0 && d->files[d->n_files - 1].number == newest)) {
        return ERR_OK;
    }
    e = os_random(&stream, sizeof stream); /* the other one's goes on elsewhere, perhaps */
    if (!e) {
        spool_disk_renew(d, stream, 1);
    }
    return e;
}
