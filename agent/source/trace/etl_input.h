/* The bytes of a trace file, plain or xz-compressed (recognised by content, not by name).
 * An .xz stream cannot be read from the middle, and a trace is read at many places and twice: it is
 * unpacked into an unlinked temporary file first. Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_INPUT_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

#define ETL_INPUT_UNPACKED_MAX (UINT64_C(64) << 30) /* bytes of temporary file */
#define ETL_INPUT_XZ_MEMORY    (UINT64_C(256) << 20)

struct etl_input;

/* Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_IO, ERR_NOMEM, ERR_CORRUPT (bad .xz), ERR_FULL (unpacks to
 * more than the limit), ERR_NOSPACE, ERR_UNSUPPORTED (.xz, but built without liblzma) */
NODISCARD enum err etl_input_open(struct etl_input **out, const char *path, struct errmsg *why);
void etl_input_close(struct etl_input *in); /* NULL is allowed */

uint64_t etl_input_size(const struct etl_input *in);

/* Reads at most n bytes at `offset`; *got is less only at the end. Errors: ERR_IO */
NODISCARD enum err etl_input_read(struct etl_input *in, uint64_t offset, void *p, size_t n,
                                  size_t *got);

/* Unpacks `packed` from its start into `plain`, both open files. Of etl_input_posix.c, or of
 * etl_input_win32.c where there is no liblzma. Errors: as etl_input_open */
NODISCARD enum err etl_input_unpack(FILE *plain, FILE *packed, const char *path,
                                    struct errmsg *why);

#endif
