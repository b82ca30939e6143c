/* Names of numbered files, "wal-00000000000000a3.log": prefix, 16 hex digits, suffix. They sort as
 * their numbers do. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_OS_FIO_NAME_H
#define PROCFLEET_COMMON_OS_FIO_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* The file's path in `dir`; mem_free. NULL: no memory. */
char *fio_name_path(const char *dir, const char *prefix, uint64_t number, const char *suffix);

/* False: not such a name; *number is left alone then. */
bool fio_name_parse(uint64_t *number, const char *name, const char *prefix, const char *suffix);

#endif
