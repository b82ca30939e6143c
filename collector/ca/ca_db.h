/* The authority's book: a SQLite database beside the authority's key, pki.dir/book.db, with
 * one-time tokens, issued certificates and revocations. The command line and the running collector
 * use it at the same time. A book of older versions (pki.dir/book) is imported when it is opened.
 *
 * Threads: any. Two locks: one for the file, held from ca_db_begin to ca_db_end; one for the table
 *          of revocations in memory, which is held across no I/O.
 * Crashes: after ERR_OK of ca_db_end what was written is durable; before, all of it or nothing is
 *          there. */
#ifndef PROCFLEET_COLLECTOR_CA_CA_DB_H
#define PROCFLEET_COLLECTOR_CA_CA_DB_H

#include "collector/ca/ca_rows.h"
#include "common/os/fio.h"

struct ca_db;

/* The file is made when missing. Reads and compares all of it. `fio` makes, renames and removes
 * files when it is made; NULL: fio_os().
 * Errors: ERR_NOTFOUND (no such directory), ERR_ACCESS (others may read it, or we may not),
 * ERR_CORRUPT (why names the file), ERR_EXISTS (an older book beside it that was not imported),
 * ERR_VERSION, ERR_BUSY, ERR_READONLY, ERR_NOSPACE, ERR_IO, ERR_NOMEM */
NODISCARD enum err ca_db_open(struct ca_db **out, const char *dir, const struct fio *fio,
                              struct errmsg *why);
void ca_db_close(struct ca_db *db); /* NULL is allowed */

/* Looks whether other processes changed something, and opens the file again when another one has
 * taken its place. *changed: there are new revocations. What was known stays known on failure.
 * Errors: as ca_db_open */
NODISCARD enum err ca_db_refresh(struct ca_db *db, bool *changed, struct errmsg *why);

/* ca_rows_tidy and ca_rows_count, in a transaction of their own. */
NODISCARD enum err ca_db_tidy(struct ca_db *db, int64_t now_ns, struct errmsg *why);
NODISCARD enum err ca_db_count(struct ca_db *db, struct ca_rows_counts *out, struct errmsg *why);

/* For net_server_conf.judge, with the database as context: NULL, or why this peer must go. */
const char *ca_db_judge(void *db, const struct net_identity *who);

/* Whether the host's newest certificate is revoked. */
bool ca_db_host_revoked(struct ca_db *db, const struct uuid *host);

/* Begins a transaction: until ca_db_end the thread has the rows; CA_DB_WRITE: and no other process
 * writes. Errors: as of the functions of ca_rows.h */
enum ca_db_access { CA_DB_READ, CA_DB_WRITE };
NODISCARD enum err ca_db_begin(struct ca_db *db, struct ca_rows **out, enum ca_db_access access,
                               struct errmsg *why);
/* e = ERR_OK makes what was written durable; with any other nothing is written, and it is returned.
 * Errors: as of the functions of ca_rows.h */
NODISCARD enum err ca_db_end(struct ca_db *db, enum err e, struct errmsg *why);

#endif
