/* SQLite's own file layer with faults, and without waiting for the disk: for tests of databases.
 * Installed once at the begin of a program, before any database is opened. It counts what changes
 * files, its own operations and those of `sqlite_fault_fio`, in one row. Threads: one arms it. */
#ifndef PROCFLEET_TESTS_SUPPORT_SQLITE_FAULT_H
#define PROCFLEET_TESTS_SUPPORT_SQLITE_FAULT_H

#include "common/os/fio.h"

void sqlite_fault_install(void);

enum sqlite_fault {
    SQLITE_FAULT_EIO,  /* the operation fails, and all later ones */
    SQLITE_FAULT_FULL, /* writes fail for want of room */
    SQLITE_FAULT_KILL, /* the process ends, as after kill -9 */
};

/* The (after + 1)-th change from now on; after < 0: none. */
void sqlite_fault_arm(enum sqlite_fault fault, long after);

/* The operating system's files without waiting for the disk, their changes counted likewise. */
const struct fio *sqlite_fault_fio(void);

#endif
