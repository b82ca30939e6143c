/* The hosts that an operator has said are not coming back: hidden from lists, counts and coverage
 * until they call again. Their data stay.
 *
 * Kept in one small checksummed file, `data_dir`/forgotten, written anew at each change. A file
 * that cannot be read hides no host, is logged and set aside.
 * Bounds:  FORGOTTEN_MAX hosts.
 * Threads: any; asking takes no lock while no host is forgotten, and never waits for the disk.
 * Crashes: after ERR_OK of forgotten_add the host stays hidden. One whose return could not be
 *          written is hidden again after a crash, until its next call. */
#ifndef PROCFLEET_COLLECTOR_INGEST_FORGOTTEN_H
#define PROCFLEET_COLLECTOR_INGEST_FORGOTTEN_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/model/model.h"
#include "common/os/fio.h"

#define FORGOTTEN_MAX 1000000u

struct forgotten;

/* Errors: ERR_VERSION (of a newer version: left alone), ERR_IO, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err forgotten_open(struct forgotten **out, const struct fio *fio, const char *dir,
                                  struct errmsg *why);
void forgotten_close(struct forgotten *f); /* NULL is allowed */

/* Looks at the file without changing anything, also beside a collector: *n hosts in *bytes, both 0
 * without a file. Errors: ERR_CORRUPT (*bytes is set), ERR_VERSION, ERR_IO, ERR_ACCESS, ERR_NOMEM
 */
NODISCARD enum err forgotten_check(const struct fio *fio, const char *dir, uint64_t *bytes,
                                   size_t *n);

bool forgotten_has(struct forgotten *f, const struct uuid *host);

/* Durable before ERR_OK; one that is there already is fine.
 * Errors: ERR_FULL, ERR_NOSPACE, ERR_IO, ERR_NOMEM; it is shown then, but for after a restart,
 * perhaps */
NODISCARD enum err forgotten_add(struct forgotten *f, const struct uuid *host);

/* It called: true when it was forgotten and is not any more. */
bool forgotten_heard(struct forgotten *f, const struct uuid *host);

#endif
