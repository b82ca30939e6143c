/* A log in a directory of its own and batches to put into it: what the tests of the log and of its
 * indexes share. Failing to set up ends the test. Threads: one. */
#ifndef PROCFLEET_TESTS_COLLECTOR_STORE_WAL_WAL_RIG_H
#define PROCFLEET_TESTS_COLLECTOR_STORE_WAL_WAL_RIG_H

#include "collector/store/wal/wal.h"

/* A test need not look at its state. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define WAL_RIG_WINDOW 1000 /* ns: a file holds what came in one of these */

/* What a replay saw, and how it answers. */
struct wal_rig_seen {
    size_t batches, ranges;
    uint64_t seqs[512];
    bool hold;
    enum err answer; /* of every batch */
};

extern char wal_rig_dir[256]; /* of this test */

/* Files of at most 4,096 bytes, each begun by one record of ranges, so that checkpoints can be told
 * from batches; files that do not wait for the disk. Replay is left to the test. */
struct wal_conf wal_rig_conf(void);
struct wal *wal_rig_open(const struct wal_conf *conf);
struct wal_record wal_rig_batch(uint64_t seq, const char *bytes);
/* With a replay that notes what it saw. */
struct wal_conf wal_rig_seeing(struct wal_rig_seen *seen);
struct wal *wal_rig_reopen(struct wal_rig_seen *seen);
/* Adds and commits; gives the number of the file that holds it. */
uint64_t wal_rig_commit(struct wal *w, const struct wal_record *r, int64_t now_ns);
/* The same of a batch that does not matter. */
uint64_t wal_rig_commit_one(struct wal *w, uint64_t seq, int64_t now_ns);
struct wal_stats wal_rig_stats(const struct wal *w);
/* The file of this number with this ending; valid until the next call. */
const char *wal_rig_path(uint64_t number, const char *ending);
int wal_rig_setup(void **state);
int wal_rig_teardown(void **state);

#endif
