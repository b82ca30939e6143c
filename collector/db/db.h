/* SQLite databases: opening, a checksum in every page, errors as `enum err`, statements.
 *
 * SQLite has no checksums of its own: a flipped bit in a name is another name. So a database is
 * read and written through SQLite's own file layer with one thing more: the last eight bytes of a
 * page, which SQLite leaves free when the file was made so, are the XXH3-64 of the
 * others, seeded with the file's name (without the ending ".new") and the page's number. A page
 * whose checksum is wrong is ERR_CORRUPT, whatever it was read for.
 *
 * Bounds:  none of its own. Threads: one at a time uses a database; any number of databases.
 * Who calls sqlite3_* on a statement includes <sqlite3.h> and translates with db_error. */
#ifndef PROCFLEET_COLLECTOR_DB_DB_H
#define PROCFLEET_COLLECTOR_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/os/fio.h"

struct sqlite3;
struct sqlite3_stmt;

/* -- the file layer -- */

/* Name of the SQLite file layer that writes and compares checksums; NULL: out of memory. */
const char *db_layer(void);

/* Keeps room for checksums in the pages of a new file: before anything else is done with it.
 * Errors: ERR_IO */
NODISCARD enum err db_reserve(struct sqlite3 *db);

/* Reads a whole file and compares the checksum of every page, without changing anything, also
 * beside a program that writes it. A file of `user_version` unsummed (0: there is none such) has no
 * checksums: *pages is 0. Errors: ERR_NOTFOUND, ERR_IO, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err db_file_check(const struct fio *fio, const char *path, uint8_t unsummed,
                                 uint64_t *pages, uint64_t *damaged);

/* -- databases -- */

struct db_format {
    uint32_t app_id, version;
    const char *schema;            /* makes the tables; one transaction */
    const char *const *steps;      /* NULL, or `version` of them, in place of a schema: steps[v]
                                      turns version v into v + 1, in one transaction */
    const char *settings;          /* pragmas of every connection */
    const char *const *statements; /* prepared when it is opened */
    size_t n_statements;
};

struct db {
    struct sqlite3 *sqlite; /* NULL: not open */
    struct sqlite3_stmt **st;
    size_t n_st;
};

/* Makes `path`, a new file that only its owner may read under any umask, with the tables of an
 * empty database, and opens it. Errors: ERR_EXISTS, those of db_open */
NODISCARD enum err db_make(struct db *out, const char *path, const struct fio *fio,
                           const struct db_format *format);

/* Opens a database, finishing or undoing what a crash interrupted. db_close it also after a
 * failure. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_CORRUPT (damaged, or not of this format),
 * ERR_VERSION (of a later one), ERR_BUSY, ERR_READONLY, ERR_NOSPACE, ERR_IO, ERR_NOMEM */
NODISCARD enum err db_open(struct db *out, const char *path, const struct db_format *format);
void db_close(struct db *d); /* of a zeroed one, too */

/* Reads everything and compares it: pages, tables, indexes. Errors: ERR_CORRUPT, ERR_IO, … */
NODISCARD enum err db_check(struct db *d);

/* Whether another file has taken the place of the one that is open, or it was removed. */
bool db_moved(struct db *d);

/* -- statements -- */

/* What a result of SQLite means; ERR_OK for a row and for the end, too. */
NODISCARD enum err db_error(struct db *d, int rc);

NODISCARD enum err db_run(struct db *d, const char *sql);

/* The next row. Errors: ERR_END (there is none), those of SQLite; both reset the statement */
NODISCARD enum err db_row(struct db *d, struct sqlite3_stmt *st);

/* Runs a statement that returns no rows, and resets it. */
NODISCARD enum err db_change(struct db *d, struct sqlite3_stmt *st);

/* The first column of the only row. Errors: ERR_END */
NODISCARD enum err db_number(struct db *d, struct sqlite3_stmt *st, int64_t *v);

/* Copies a column into a text of `size` bytes, or exactly n bytes. False: it does not fit. */
bool db_text(struct sqlite3_stmt *st, int column, char *out, size_t size);
bool db_bytes(struct sqlite3_stmt *st, int column, void *out, size_t n);

void db_bind_text(struct sqlite3_stmt *st, int at, const char *text); /* borrowed until reset */
void db_bind_bytes(struct sqlite3_stmt *st, int at, const void *p, size_t n);
void db_bind_number(struct sqlite3_stmt *st, int at, int64_t v);

#endif
