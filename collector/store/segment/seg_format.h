/* Segment files, formats 1 and 2: kinds, keys and the bytes of header, values and footer
 * (docs/formats.md).
 *
 *   header     magic, format version, kind, window, created
 *   values     each with a header of its own (key, length, XXH3), from which the directory can be
 *              rebuilt
 *   ranges     the sequence ranges of the batches
 *   directory  key, offset, length, checksum; sorted by key
 *   hosts      who is inside: id, name, oldest and newest stamp
 *   groups     parts of the directory; then a copy of the header
 *   footer     where all that is, checksums, magic
 *
 * Bounds: SEG_*. No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_FORMAT_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_FORMAT_H

#include "collector/store/dedup.h"
#include "common/base/buf.h"
#include "common/model/model.h"

#define SEG_VALUE_MAX   (64u << 20)
#define SEG_HOSTS_MAX   1000000u
#define SEG_WINDOWS_MAX 64u
#define SEG_NAME_MAX    96u /* of a file */

/* On disk. One file per kind, so that each has a retention of its own. */
enum seg_kind {
    SEG_RAW = 1, /* rows of every tick, and their summaries (tier SEG_SUMMARY) */
    SEG_10S = 2, /* tiers */
    SEG_1MIN = 3,
    SEG_1H = 4,
    SEG_REST = 5,     /* lifecycle events, process infos, ledgers, keys of the batches */
    SEG_PROVIDER = 6, /* events of chosen providers; where there are none, there is no file */
};
#define SEG_KINDS 7 /* one more than the last */

/* What a value is; on disk. What is inside: raw.h, tier.h, meta.h, prov_value.h. */
enum seg_part {
    SEG_PART_ROWS = 1,   /* ticks and runs of a host: of raw; of tiers the rows' table */
    SEG_PART_COLUMN = 2, /* one metric of it */
    SEG_PART_SUMS = 3,   /* summaries: the rows' table */
    SEG_PART_SUM = 4,    /* summary of one metric */
    SEG_PART_REST = 5,
    SEG_PART_ACCOUNT = 6, /* sums of its ledgers */
    SEG_PART_PROVIDER = 7,
    SEG_PART_GROUPS = 8, /* of raw: sums of images and users (group_sums.h) */
};

/* In the order of the directory: values of one (part, metric, window) lie side by side for all
 * hosts where the writer added them so: summaries do, columns lie host by host. */
struct seg_key {
    uint8_t part;   /* enum seg_part */
    uint8_t metric; /* 0 where it is of none */
    uint8_t window; /* index of the window in the segment: seg_window */
    uint32_t host;  /* index of the host in the segment */
};

/* What the manifest knows of a segment. */
struct seg_info {
    uint64_t number; /* unique in the store, rising; part of the file's name */
    uint8_t kind;    /* enum seg_kind */
    uint8_t n_windows;
    bool patch;           /* holds late data of a window that was sealed before */
    bool in_hour;         /* SEG_1MIN: what it holds is in a 1 h segment already (compact.h) */
    int64_t window_ns;    /* start of the first window, UTC */
    int64_t span_ns;      /* from its start to the end of the last */
    int64_t t0_ns, t1_ns; /* oldest and newest stamp inside, by the hosts' clocks; set by
                             seg_writer_finish; t1 < t0: no host */
    uint64_t bytes;       /* of the file */
    uint64_t values;      /* samples or points inside: what bytes per value are of */
};

struct seg_span {
    int64_t t0_ns, t1_ns; /* t1 < t0: nothing in that window */
};

/* -- bytes -- */

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
    bool wide;            /* format 2: it has columns of page 1 (metric_mask.h), and tables whose
                             masks have two halves */
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
void seg_format_span(struct seg_info *info, const struct seg_span *spans, size_t n);

struct seg_record {
    struct seg_key key;
    uint32_t length, check;
};

size_t seg_format_head_bytes(unsigned n_windows);
void seg_format_head_put(struct buf *b, const struct seg_head *h);
/* Errors: ERR_CORRUPT, ERR_VERSION (sound, of a newer format) */
NODISCARD enum err seg_format_head_parse(struct seg_head *h, const uint8_t *p, size_t n);
void seg_format_foot_put(struct buf *b, const struct seg_foot *f);
/* at: of the footer, which is the file's length without it. */
NODISCARD enum err seg_format_foot_parse(struct seg_foot *f, const uint8_t *p, size_t n,
                                         uint64_t at, unsigned n_windows);
void seg_format_record_put(uint8_t p[SEG_RECORD_BYTES], struct seg_key key, const void *value,
                           size_t n, uint64_t seed);
bool seg_format_record_parse(struct seg_record *r, const uint8_t *p, size_t n);
/* Whether the value behind the 16 bytes at p is the one they were written for. */
bool seg_format_record_sound(const struct seg_record *r, const uint8_t *p, uint64_t seed);

static inline uint64_t seg_key_order(struct seg_key k)
{
    return (uint64_t)k.part << 56 | (uint64_t)k.metric << 48 | (uint64_t)k.window << 40 | k.host;
}

#endif
