/* Between the manifest's own files. */
#ifndef PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_IMPL_H

#include <stdatomic.h>

#include "collector/store/manifest/manifest.h"
#include "collector/store/segment/seg.h"
#include "common/base/buf.h"
#include "common/os/os.h"

#define MANIFEST_FILE "manifest"

/* A segment's file, shared by every list that names it. */
struct manifest_file {
    struct manifest *m;
    atomic_uint refs;
    atomic_bool dropped; /* removed from disk with the last reference */
    struct seg_info info;

    struct seg *seg;                     /* NULL = closed; this and below: the manifest's lock */
    unsigned pins;                       /* lists that use it */
    size_t counted;                      /* of its memory in open_bytes */
    struct manifest_file *older, *newer; /* open and in no use */
};

struct manifest_item {
    struct seg_info info;
    struct manifest_file *file;
};

/* What there is at a moment; never changes. */
struct manifest_set {
    atomic_uint refs;
    size_t n;
    struct manifest_item items[]; /* by kind, window, number */
};

struct manifest_list {
    atomic_uint refs;
    struct manifest *m;
    struct manifest_set *set;
    atomic_bool *pinned; /* of the set's items: their segments stay open; behind this struct */
};

/* The file on disk. */
struct manifest_disk {
    struct fio_file *f;
    uint64_t bytes;   /* durable length of its records */
    uint64_t room;    /* and with the zeros behind them */
    uint64_t compact; /* length when it was new */
    uint64_t seed, seq;
    bool rewrite; /* something was torn or failed: nothing is added to this file any more */
};

struct manifest {
    struct manifest_conf conf;
    char *dir;
    bool read_only;
    struct os_mutex *lock;     /* guards set, stats and open segments; no I/O under it */
    struct manifest_set *set;  /* current */
    struct manifest_set *next; /* durable, not yet published */
    _Atomic uint64_t next_number;
    struct manifest_disk disk; /* the writer's */
    _Atomic uint64_t held_bytes, file_bytes;
    struct manifest_stats stats;

    struct seg_pool *pool;
    uint64_t open_bytes_max;
    struct manifest_file *oldest, *newest; /* open and in no use */
};

/* -- manifest_disk.c -- */

/* Reads the file and the directory: what there is, in *segments (by number; mem_free). Creates the
 * file in a directory that has no segments. Removes leftovers. */
NODISCARD enum err manifest_disk_open(struct manifest *m, struct seg_info **segments, size_t *n,
                                      struct errmsg *why);
void manifest_disk_close(struct manifest *m);
/* Makes the change durable. before: all there is without it. */
NODISCARD enum err manifest_disk_change(struct manifest *m, const struct manifest_set *before,
                                        const struct seg_info *add, size_t n_add,
                                        const uint64_t *drop, size_t n_drop, struct errmsg *why);
/* A new file with these segments in place of the one there is. */
NODISCARD enum err manifest_disk_replace(struct manifest *m, const struct seg_info *all, size_t n,
                                         struct errmsg *why);

#endif
