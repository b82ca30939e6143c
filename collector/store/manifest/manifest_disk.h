/* The manifest's file and the directory of segments it speaks of. Private to the folder.
 * Threads: the manifest's writer. */
#ifndef PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_DISK_H
#define PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_DISK_H

#include "collector/store/manifest/manifest_log.h"
#include "common/os/fio.h"

struct manifest_disk {
    const struct fio *fio;
    char *dir; /* of the manifest and the segments; the owner's */
    bool read_only;

    struct fio_file *f;
    uint64_t bytes;   /* durable length of its records */
    uint64_t room;    /* and with the zeros behind them */
    uint64_t compact; /* length when it was new */
    uint64_t seed, seq;
    bool rewrite; /* something was torn or failed: nothing is added to this file any more */
    struct {
        uint64_t leftovers, torn_bytes, missing, damaged_records;
    } found; /* at opening */
};

/* Reads the file and the directory: what there is, in *segments (by number; mem_free), and the next
 * number that no segment has. Creates the file in a directory that has no segments. Removes
 * leftovers. Errors: those of manifest_open */
NODISCARD enum err manifest_disk_open(struct manifest_disk *d, struct seg_info **segments,
                                      size_t *n, uint64_t *next_number, struct errmsg *why);
void manifest_disk_close(struct manifest_disk *d);
/* The file is to be written anew with the next change: manifest_disk_change needs `all`. */
bool manifest_disk_is_long(const struct manifest_disk *d);
/* Makes the change durable and sets its seq. all: the n segments there are without it; may be NULL
 * unless the file is long: ERR_NOMEM when it must be written anew. */
NODISCARD enum err manifest_disk_change(struct manifest_disk *d, const struct seg_info *all,
                                        size_t n, struct manifest_record *change,
                                        struct errmsg *why);
/* A new file with these segments in place of the one there is. */
NODISCARD enum err manifest_disk_replace(struct manifest_disk *d, const struct seg_info *all,
                                         size_t n, uint64_t next_number, struct errmsg *why);

#endif
