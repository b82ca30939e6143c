/* Segment files, format 1 (bytes: docs/formats.md): immutable, self-contained, checksummed.
 *
 *   header     magic, format version, kind, window, created
 *   values     each with a header of its own (key, length, XXH3), so that the directory can be
 * rebuilt hosts      who is inside: id, name, oldest and newest stamp; the sequence ranges of the
 * batches directory  key, offset, length, checksum; sorted by key footer     where hosts and
 * directory are, their checksums, magic
 *
 * A segment holds values of one kind for one or more windows; compaction joins several without
 * looking into values, patches beside what they patch, so a window may be in it twice. A value is
 * opaque here; its key says whose it is.
 * Bounds: SEG_*; everything read is checked before use: a damaged value is ERR_CORRUPT, never a
 * wrong answer. Threads: a writer has one owner; a reader may be used by many at once. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_H

#include "collector/store/segment/seqset.h"
#include "common/base/arena.h"
#include "common/model/model.h"
#include "common/os/fio.h"

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
    SEG_REST = 5, /* lifecycle events, process infos, ledgers, keys of the batches */
};
#define SEG_KINDS 6 /* one more than the last */

/* What a value is; on disk. What is inside: raw_value.h, tier.h, rest_value.h. */
enum seg_part {
    SEG_PART_ROWS = 1,   /* ticks and runs of a host: of raw; of tiers the rows' table */
    SEG_PART_COLUMN = 2, /* one metric of it */
    SEG_PART_SUMS = 3,   /* summaries: the rows' table */
    SEG_PART_SUM = 4,    /* summary of one metric */
    SEG_PART_REST = 5,
    SEG_PART_ACCOUNT = 6, /* sums of its ledgers */
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

void seg_name(char out[SEG_NAME_MAX],
              const struct seg_info *info); /* "raw-20261121T2200Z-17.seg" */
bool seg_name_is(const char *name);         /* whether it looks like one */
const char *seg_kind_name(unsigned kind);   /* "raw", "10s", … */

/* -- writing: <name>.tmp, then renamed -- */
struct seg_writer;
NODISCARD enum err seg_writer_create(struct seg_writer **out, const struct fio *fio,
                                     const char *dir, const struct seg_info *info,
                                     const int64_t *windows_ns, struct errmsg *why);
/* A host that is in it. t0, t1: oldest and newest stamp of its data in window w, by its clock.
 * Call again for each further window of the host; further spans of the same window are joined.
 * *index = the host's. Errors of this and the next two: ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_FULL,
 * after which only abort or finish remain; ERR_INVALID (no such window, host or part) */
NODISCARD enum err seg_writer_host(struct seg_writer *w, uint32_t *index, const struct uuid *host,
                                   const char *name, uint8_t window, int64_t t0_ns, int64_t t1_ns);
/* Numbers of the batches inside. */
NODISCARD enum err seg_writer_ranges(struct seg_writer *w, const struct uuid *host, uint64_t stream,
                                     const struct seq_range *ranges, size_t n);
NODISCARD enum err seg_writer_add(struct seg_writer *w, struct seg_key key, const void *p,
                                  size_t n);
/* Writes directory and footer, syncs, renames, syncs the directory. *info gets bytes; w is gone,
 * also after an error (then nothing is left of the file). Errors: ERR_IO, ERR_NOSPACE, ERR_NOMEM */
NODISCARD enum err seg_writer_finish(struct seg_writer *w, uint64_t values, struct seg_info *info,
                                     struct errmsg *why);
void seg_writer_abort(struct seg_writer *w); /* NULL is allowed */

/* -- reading -- */
struct seg;
struct seg_span {
    int64_t t0_ns, t1_ns; /* t1 < t0: nothing in that window */
};
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
                                   enum err (*each)(void *ctx, const struct seqset_stream *st),
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

/* Reads the whole file and verifies every checksum. values: how many are inside; damaged: how many
 * of them, and of what is written among them for salvage, are not sound. Errors: ERR_NOMEM */
NODISCARD enum err seg_verify(const struct seg *s, uint64_t *values, uint64_t *damaged);
/* What a file should be called by its header. Errors: ERR_CORRUPT (none can be read), ERR_VERSION,
 * ERR_IO, ERR_NOTFOUND, ERR_NOMEM */
NODISCARD enum err seg_name_own(char out[SEG_NAME_MAX], const struct fio *fio, const char *dir,
                                const char *file);
/* Makes a new file out of the sound values of one whose header, footer or directory is lost or some
 * of whose values are damaged, and puts it in its place. info: gets what the new file says; its
 * values count where the old footer is lost. kept: values; lost: values, or where the directory is
 * lost too, gaps between them. Of a value that the directory knows and that is lost an empty one is
 * left: no reader takes it for sound, so that answers stay without it and marked. Errors:
 * ERR_CORRUPT (no header can be read, it is of a file with another name, or nothing is sound),
 * ERR_VERSION, ERR_IO, ERR_NOSPACE, ERR_NOMEM: the old file is still there */
NODISCARD enum err seg_salvage(const struct fio *fio, const char *dir, const char *file,
                               struct seg_info *info, uint64_t *kept, uint64_t *lost,
                               struct errmsg *why);

#endif
