/* Between the log's own files: wal.c writes, wal_recover.c opens. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_IMPL_H

#include "collector/store/wal/wal.h"
#include "collector/store/wal/wal_index.h"

struct wal_file {
    uint64_t number;
    uint64_t bytes, index_bytes;
    uint64_t held; /* batches in use */
};

struct wal {
    struct wal_conf conf;
    char *dir;
    struct wal_file *files; /* by number; the last one is durable and the newest */
    size_t n_files, cap_files;

    struct fio_file *out; /* the file written to; NULL until the first commit */
    uint64_t out_number;
    uint64_t out_bytes; /* durable length of it */
    uint64_t out_seed;
    int64_t out_window;
    struct wal_index index; /* of it, with what waits; while opening, of the file that is read */

    struct buf commit;    /* what the next write holds */
    bool fresh;           /* it begins a new file: */
    uint64_t next_number; /* its number and seed */
    uint64_t next_seed;
    uint32_t next_ranges; /* records of its checkpoint */
    int64_t next_window;
    struct wal_index next_index;
    bool failed;
    struct wal_stats stats;

    const struct wal_record *replaying; /* while opening: what wal_note is about; NULL: nothing */
    size_t n_sources;                   /* files left open by recovery */
    bool damaged, based;                /* likewise: see wal_trust */
};

char *wal_path(const struct wal *w, uint64_t number, const char *suffix); /* NULL: no memory */
struct wal_file *wal_file_find(const struct wal *w, uint64_t number);
NODISCARD enum err wal_file_add(struct wal *w, uint64_t number);
void wal_file_drop(struct wal *w, size_t i);

/* Writes the index of a file that is finished; without one the next opening takes longer. */
void wal_finish_index(struct wal *w, const struct wal_index *x, uint64_t number);
void wal_remove_index(const struct wal *w, uint64_t number);

/* wal_recover.c */
NODISCARD enum err wal_recover(struct wal *w, struct errmsg *why);

#endif
