/* Segments: immutable files, self-contained and checksummed (seg_format.h), and reading them.
 * A segment holds values of one kind for one or more windows; compaction joins several without
 * looking into values, patches beside what they patch, so a window may be in it twice. A value is
 * opaque here; its key says whose it is.
 * Everything read is checked before use: a damaged value is ERR_CORRUPT, never a wrong answer.
 * Threads: a reader may be used by many at once. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_H

#include <stdatomic.h>

#include "collector/store/segment/seg_file.h"
#include "collector/store/segment/seg_format.h"
#include "common/base/arena.h"

void seg_name(char out[SEG_NAME_MAX],
              const struct seg_info *info); /* "raw-20261121T2200Z-17.seg" */
bool seg_name_is(const char *name);         /* whether it looks like one */
const char *seg_kind_name(unsigned kind);   /* "raw", "10s", … */

struct seg;
struct seg_host {
    struct uuid id;
    const char *name;
    const struct seg_span *at; /* one per window of the segment */
};

/* Reads footer, hosts and directory. Errors: ERR_CORRUPT (also: the header is that of a file with
 * another name), ERR_VERSION (newer), ERR_IO,
 * ERR_NOTFOUND, ERR_NOMEM */
NODISCARD enum err seg_open(struct seg **out, const struct fio *fio, const char *dir,
                            const struct seg_info *info, struct errmsg *why);
void seg_close(struct seg *s); /* NULL is allowed */
const struct seg_info *seg_info_of(const struct seg *s);
int64_t seg_window(const struct seg *s, unsigned window); /* its nominal start, UTC */
size_t seg_memory(const struct seg *s);                   /* bytes it holds while open */
size_t seg_hosts(const struct seg *s);
const struct seg_host *seg_host(const struct seg *s, size_t i);
size_t seg_find_host(const struct seg *s, const struct uuid *id); /* seg_hosts: not inside */
/* Every stream's ranges; a result other than ERR_OK ends the walk and is returned. */
NODISCARD enum err seg_each_ranges(const struct seg *s,
                                   enum err (*each)(void *ctx, const struct dedup_stream *st),
                                   void *ctx);

/* The value's bytes, checksum verified, in `memory`. Errors: ERR_NOTFOUND (no such value),
 * ERR_CORRUPT, ERR_IO, ERR_FULL, ERR_NOMEM */
NODISCARD enum err seg_read(const struct seg *s, struct arena *memory, struct seg_key key,
                            const uint8_t **p, size_t *n);

/* Values of several keys (sorted as the directory is) with as few reads as gaps below 16 KiB allow;
 * p[i] = NULL where there is none, and where it is damaged: lengths[i] = SEG_DAMAGED then.
 * Errors: ERR_IO, ERR_FULL (the arena's limit), ERR_NOMEM */
#define SEG_DAMAGED SIZE_MAX
NODISCARD enum err seg_read_many(const struct seg *s, struct arena *memory,
                                 const struct seg_key *keys, size_t n, const uint8_t **p,
                                 size_t *lengths);

/* Every key inside, in order: for compaction, check and export. part = 0: unreadable. */
size_t seg_values(const struct seg *s);
/* Reads the whole directory: no key is unreadable then. Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM */
NODISCARD enum err seg_load_keys(const struct seg *s);
struct seg_key seg_key_at(const struct seg *s, size_t i, uint32_t *length);

/* -- within the folder, check and manifest: an open segment -- */
struct seg_group {
    uint8_t part, metric, window;
    uint32_t count;
    uint32_t first; /* index of its first entry */
    uint64_t sum;
    _Atomic(uint8_t *) entries; /* read when first wanted */
};

struct seg {
    struct seg_head head;
    struct seg_foot foot;
    struct seg_file *file;
    uint64_t end; /* of the values */
    struct seg_host *hosts;
    uint32_t *by_id; /* indices of hosts */
    void *names;     /* and spans: what hosts points into */
    struct seg_group *groups;
    atomic_size_t *memory;
};

/* As seg_open, of a file by name, with open files from the pool (may be NULL). */
NODISCARD enum err seg_open_name(struct seg **out, const struct fio *fio, struct seg_pool *pool,
                                 const char *dir, const char *name, struct errmsg *why);

/* Where a value is; ERR_NOTFOUND, ERR_CORRUPT, ERR_IO, ERR_NOMEM */
struct seg_place {
    uint64_t at;
    uint32_t length;
};
NODISCARD enum err seg_find(const struct seg *s, struct seg_key key, struct seg_place *out);
/* Whether the bytes at p, with the record in front, are the value of this key. */
bool seg_value_is(const struct seg *s, const uint8_t *p, struct seg_key key, uint32_t length);
/* The group of an entry; foot.n_groups: none. */
size_t seg_group_of(const struct seg *s, struct seg_key key);
/* Makes the entries of groups [g, end) readable, as few of them as are missing.
 * Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM */
NODISCARD enum err seg_groups_load(const struct seg *s, size_t g, size_t end);

#endif
