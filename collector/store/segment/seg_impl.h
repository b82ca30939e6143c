/* Between the files of seg: the bytes of a segment (docs/formats.md) and what an open one holds. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_IMPL_H

#include <stdatomic.h>

#include "collector/store/segment/seg.h"
#include "common/base/buf.h"

#define SEG_HEAD_FIXED   64u
#define SEG_HEAD_MAX     (SEG_HEAD_FIXED + 8u * SEG_WINDOWS_MAX + 8u)
#define SEG_RECORD_BYTES 16u /* in front of every value */
#define SEG_ENTRY_BYTES  16u
#define SEG_GROUP_BYTES  16u
#define SEG_FOOT_BYTES   96u
#define SEG_VALUES_MAX   (1u << 26)
#define SEG_TABLE_MAX    (1u << 30) /* bytes of hosts, of ranges, of groups */

/* Parts of the writer's own, so that what a value needs can be read without the end of the file. */
#define SEG_PART_HOST   0xf1u /* id, span of its data in the window, name */
#define SEG_PART_RANGES 0xf2u /* host, stream, ranges */

struct seg_head {
    struct seg_info info; /* without bytes and values */
    uint64_t seed;
    int64_t created_ns;
    int64_t windows[SEG_WINDOWS_MAX];
};

/* Where things are. Each ends where the next begins: values, ranges, directory, hosts, groups, the
 * header's copy, footer. */
struct seg_foot {
    uint64_t ranges_at, ranges_sum;
    uint64_t directory_at; /* sums: per group */
    uint64_t hosts_at, hosts_sum;
    uint64_t groups_at, groups_sum;
    uint64_t values; /* samples */
    uint32_t n_hosts, n_streams, n_groups, n_entries;
};

/* Sets t0_ns and t1_ns from the spans of its hosts. */
void seg_info_span(struct seg_info *info, const struct seg_span *spans, size_t n);

struct seg_record {
    struct seg_key key;
    uint32_t length, check;
};

/* -- seg_format.c -- */
size_t seg_head_bytes(unsigned n_windows);
void seg_head_put(struct buf *b, const struct seg_head *h);
/* Errors: ERR_CORRUPT, ERR_VERSION (sound, of a newer format) */
NODISCARD enum err seg_head_parse(struct seg_head *h, const uint8_t *p, size_t n);
void seg_foot_put(struct buf *b, const struct seg_foot *f);
/* at: of the footer, which is the file's length without it. */
NODISCARD enum err seg_foot_parse(struct seg_foot *f, const uint8_t *p, size_t n, uint64_t at,
                                  unsigned n_windows);
void seg_record_put(uint8_t p[SEG_RECORD_BYTES], struct seg_key key, const void *value, size_t n,
                    uint64_t seed);
bool seg_record_parse(struct seg_record *r, const uint8_t *p, size_t n);
/* Whether the value behind the 16 bytes at p is the one they were written for. */
bool seg_record_sound(const struct seg_record *r, const uint8_t *p, uint64_t seed);

static inline uint64_t seg_key_order(struct seg_key k)
{
    return (uint64_t)k.part << 56 | (uint64_t)k.metric << 48 | (uint64_t)k.window << 40 | k.host;
}

/* -- seg_pool.c: open files, shared by the segments of a manifest -- */
struct seg_pool;
NODISCARD enum err seg_pool_create(struct seg_pool **out, unsigned files_max);
void seg_pool_destroy(struct seg_pool *p); /* its segments are closed; NULL is allowed */

struct seg_file {
    const struct fio *fio;
    struct seg_pool *pool; /* NULL: stays open */
    char *path;
    struct fio_file *f; /* NULL = closed; guarded by the pool's lock, as what follows */
    unsigned users;
    struct seg_file *older, *newer; /* open and without users */
};

NODISCARD enum err seg_file_open(struct seg_file *sf, const struct fio *fio, struct seg_pool *pool,
                                 const char *dir, const char *name);
void seg_file_close(struct seg_file *sf);
/* Exactly n bytes. Errors: ERR_CORRUPT (the file is shorter), ERR_IO, … */
NODISCARD enum err seg_file_read(struct seg_file *sf, uint64_t at, void *p, size_t n);
NODISCARD enum err seg_file_size(struct seg_file *sf, uint64_t *bytes);

/* -- an open segment -- */
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

/* -- seg_scan.c: the values of a file one after another, past damage -- */
struct seg_scan {
    struct seg_file *file;
    uint64_t seed;
    uint64_t at, end; /* at: of the next record */
    uint64_t base;    /* of p[0] */
    uint8_t *p;
    size_t n, cap;
};
void seg_scan_init(struct seg_scan *sc, struct seg_file *file, uint64_t seed, uint64_t begin,
                   uint64_t end);
void seg_scan_fini(struct seg_scan *sc);
/* The record at sc->at; *p is its value, valid until the next call, and sc->at is behind it.
 * Errors: ERR_CORRUPT (not a sound record, or unreadable; sc->at stays), ERR_NOMEM */
NODISCARD enum err seg_scan_record(struct seg_scan *sc, struct seg_record *r, const uint8_t **p);
/* Moves sc->at forward to what may be the next record; ERR_END: none. */
NODISCARD enum err seg_scan_resync(struct seg_scan *sc);

/* -- seg_write.c -- */
/* The file that is written takes the place of one that exists, so a failure leaves that one. */
void seg_writer_replaces(struct seg_writer *w);

#endif
