/* A file layer that fails: short writes, errors, a full disk, and loss of everything that was not
 * synced. It keeps what was written in memory until the sync of the file, and new, removed and
 * renamed new names until the sync of their directory: when the process dies, the power has failed.
 * Real files hold only what would have survived (new ones under NAME.unsynced until then).
 * Threads: any, one lock. */
#ifndef PROCFLEET_TESTS_SUPPORT_FIO_FAULT_H
#define PROCFLEET_TESTS_SUPPORT_FIO_FAULT_H

#include <stdbool.h>

#include "common/os/fio.h"

enum fio_fault_op {
    FIO_CREATE = 1 << 0,
    FIO_OPEN = 1 << 1,
    FIO_READ = 1 << 2,
    FIO_WRITE = 1 << 3,
    FIO_SYNC = 1 << 4,
    FIO_TRUNCATE = 1 << 5,
    FIO_RENAME = 1 << 6,
    FIO_REMOVE = 1 << 7,
    FIO_SYNC_DIR = 1 << 8,
    FIO_ALL = (1 << 9) - 1,
};

/* What becomes of unsynced bytes when the power fails. */
enum fio_fault_keep {
    FIO_KEEP_NOTHING,
    FIO_KEEP_PREFIX,  /* a random part from the start of each unsynced write */
    FIO_KEEP_SECTORS, /* random 512-byte sectors, the others hold garbage */
};

struct fio_fault;

NODISCARD enum err fio_fault_create(struct fio_fault **out);
void fio_fault_destroy(struct fio_fault *f); /* all its files are closed; NULL is allowed */
const struct fio *fio_fault_fio(struct fio_fault *f);

/* The (after + 1)-th operation of these kinds from now on fails with e, and all later ones too when
 * `for_good`. A failing write writes a part of its bytes. after < 0: nothing fails. */
void fio_fault_fail(struct fio_fault *f, unsigned ops, long after, enum err e, bool for_good);

/* Writes that would make files longer by more than this in all are cut short with ERR_NOSPACE. */
void fio_fault_disk_full(struct fio_fault *f, uint64_t bytes_left);

/* The power fails: unsynced things are lost as `keep` says, every later operation is ERR_IO. */
void fio_fault_power_cut(struct fio_fault *f, enum fio_fault_keep keep, uint64_t seed);

/* The real layer without waiting for the disk: for tests that open thousands of files and in which
 * no power fails. */
const struct fio *fio_unsynced(void);

/* Operations of these kinds so far. */
long fio_fault_count(const struct fio_fault *f, unsigned ops);

#endif
