/* The lab's database: data_dir/lab.db, SQLite with a write-ahead log of its own. Its tables are
 * those of the steps in lab_db.c: runs (runs.h), what hosts say of themselves (facts.h), notices
 * (rules_db.h).
 *
 * Versions: each step adds to what the steps before it made; a file of fewer steps is brought up to
 *           date when it is opened. A step never changes after it was released: add one.
 * Threads:  any. One lock, held from lab_db_begin to lab_db_end and across their I/O: a mark waits
 *           for the one before it, no longer.
 * Crashes:  after ERR_OK of lab_db_end of a writer what was written is on the disk; before, all of
 *           it or nothing is there. */
#ifndef PROCFLEET_COLLECTOR_LAB_LAB_DB_H
#define PROCFLEET_COLLECTOR_LAB_LAB_DB_H

#include <stdbool.h>

#include "collector/db/db.h"

struct lab_db;

/* Opens data_dir/lab.db, or makes it. fio makes and renames the file; NULL: fio_os().
 * Errors: ERR_NOTFOUND (no such directory), ERR_ACCESS, ERR_CORRUPT (damaged; why names the file),
 * ERR_VERSION (of a later collector), ERR_BUSY, ERR_READONLY, ERR_NOSPACE, ERR_IO, ERR_NOMEM */
NODISCARD enum err lab_db_open(struct lab_db **out, const char *dir, const struct fio *fio,
                               struct errmsg *why);
void lab_db_close(struct lab_db *l); /* nobody is inside; NULL is allowed */

/* Begins a transaction: until lab_db_end the thread alone has the database. Errors: ERR_BUSY
 * (another program writes), ERR_NOSPACE, ERR_IO, ERR_NOMEM; lab_db_end is not called then. */
enum lab_db_access { LAB_DB_READ, LAB_DB_WRITE };
NODISCARD enum err lab_db_begin(struct lab_db *l, struct db **out, enum lab_db_access access);
/* e = ERR_OK makes what was written durable; with any other nothing is written, and it is returned.
 * Errors: as above */
NODISCARD enum err lab_db_end(struct lab_db *l, enum err e);

/* A statement of this text, reset and without values: prepared once, kept by the text's address,
 * which must be static; at most LAB_DB_STATEMENTS. Between lab_db_begin and lab_db_end. Errors:
 * those of SQLite */
#define LAB_DB_STATEMENTS 96u
NODISCARD enum err lab_db_statement(struct lab_db *l, struct sqlite3_stmt **out, const char *sql);

#endif
