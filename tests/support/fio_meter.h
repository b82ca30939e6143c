/* A file layer that knows at every moment how many bytes its files take together, and what the most
 * was. Threads: any. Bounds: FIO_METER_FILES names at a time; more end the test. */
#ifndef PROCFLEET_TESTS_SUPPORT_FIO_METER_H
#define PROCFLEET_TESTS_SUPPORT_FIO_METER_H

#include "common/os/fio.h"

#define FIO_METER_FILES 4096u

struct fio_meter;

/* Over another layer. */
NODISCARD enum err fio_meter_create(struct fio_meter **out, const struct fio *below);
void fio_meter_destroy(struct fio_meter *m); /* all its files are closed; NULL is allowed */
const struct fio *fio_meter_fio(struct fio_meter *m);

uint64_t fio_meter_bytes(struct fio_meter *m); /* of what has been created or opened through it */
uint64_t fio_meter_most(struct fio_meter *m);  /* since it was asked last */

#endif
