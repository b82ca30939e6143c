/* The pages of a day's file (catalogue_db.c), each with a checksum. Threads: any. */
#ifndef PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_FILE_H
#define PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_FILE_H

#include "common/base/err.h"
#include "common/os/fio.h"

/* Name of the SQLite file layer that writes and compares them; NULL: there is no memory. */
const char *catalogue_layer(void);

/* A new file's pages get room for them: before anything else is done with it. Errors: ERR_IO */
struct sqlite3;
NODISCARD enum err catalogue_reserve(struct sqlite3 *db);

/* Reads the whole file and compares every page's; one of an older format has none. Also beside a
 * collector. Errors: ERR_NOTFOUND, ERR_IO, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err catalogue_file_check(const struct fio *fio, const char *path, uint64_t *pages,
                                        uint64_t *damaged);

#endif
