/* The files of a spool, and what is known of them. Private to the folder: spool_disk.c writes to
 * them and hands out what is in them. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_FILES_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_FILES_H

#include "agent/spool/spool_conf.h"
#include "agent/spool/spool_segment.h"
#include "common/reclog/reclog.h"

struct spool_file {
    uint64_t number, stream, first_seq;
    uint64_t last_seq; /* first_seq - 1: none */
    uint64_t bytes;    /* durable */
    uint64_t begin;    /* of its records */
    uint64_t seed;
    int64_t newest_ns; /* UTC, of its newest record */
    enum spool_detail detail;
};

struct spool_cursor {
    uint64_t number; /* of a file; one that is gone means the next */
    uint64_t at;
};

struct spool_range {
    uint64_t stream, first, last;
    uint64_t number; /* of the newest file it is about */
};

struct spool_inflight {
    uint64_t stream, seq;
    bool gone; /* its file is */
};

struct spool_disk {
    struct spool_disk_conf conf;
    char *dir;
    uint64_t segment_bytes;
    struct spool_file *files; /* by number */
    size_t n_files, cap_files;
    uint64_t next_number;

    struct reclog_writer out; /* files[n_files - 1]; not open: the next commit begins one */
    int64_t memory_ns;        /* see spool_disk_memory */
    struct fio_file *mark;    /* NULL: not open */
    struct fio_file *in;      /* read from, */
    uint64_t in_number;       /* this one */

    uint64_t stream, next_seq;
    struct buf commit;
    bool fresh;               /* it begins a file, */
    struct spool_file coming; /* this one, or what it adds to the last one */
    uint64_t commit_n;        /* batches in it, */
    uint64_t commit_bytes;    /* their content */

    struct spool_cursor back, live, newest; /* newest: the first record of the last commit */
    int64_t newest_ns;
    bool live_set, live_turn;
    struct spool_range ranges[SPOOL_RANGES_MAX];
    size_t n_ranges;
    struct spool_inflight inflight[SPOOL_INFLIGHT_MAX];
    size_t n_inflight;

    struct wire_encoder *encoder;
    struct buf scratch, reduced;
    struct spool_disk_stats stats;
};

#define SPOOL_PREFIX    "spool-" /* of a file's name; it ends with */
#define SPOOL_SUFFIX    ".seg"
#define SPOOL_MARK_NAME "mark"

char *spool_files_path(const struct spool_disk *d, uint64_t number, const char *suffix);
NODISCARD enum err spool_files_room(struct spool_disk *d); /* for one file more */
/* The file as it is read. Errors: of the disk, ERR_NOMEM */
NODISCARD enum err spool_files_view(struct spool_disk *d, const struct spool_file *f,
                                    struct spool_segment *out);
void spool_files_unread(struct spool_disk *d); /* before a file is renamed or removed */
bool spool_files_is_done(const struct spool_disk *d, uint64_t stream, uint64_t seq);
/* NULL: not in flight. */
struct spool_inflight *spool_files_inflight(struct spool_disk *d, uint64_t stream, uint64_t seq);
/* Removes a file that came to nothing. */
void spool_files_discard(struct spool_disk *d, const char *path);
/* Takes the file off the disk and out of the list. */
void spool_files_remove(struct spool_disk *d, size_t i);

/* Finds the files of the directory and what is in them. Errors: those of spool_disk_open */
NODISCARD enum err spool_files_recover(struct spool_disk *d, struct errmsg *why);

/* Makes room for a commit of so many bytes, as far as that goes. */
void spool_files_shrink(struct spool_disk *d, uint64_t bytes);
/* Drops the file; what was not done in it is added to *loss. */
void spool_files_drop(struct spool_disk *d, size_t i, struct spool_loss *loss);

#endif
