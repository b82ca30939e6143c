/* The status of a running agent as a file of its state directory, JSON: replaced as a whole, never
 * half written; not synced, since it is of the moment. What is read is checked like anything from
 * outside: members of another type or beyond their bounds make it ERR_CORRUPT, unknown ones are
 * skipped, missing ones are 0 or empty, lists are cut at their bounds.
 * Bounds:  STATUS_FILE_MAX bytes. Threads: any, one writer. */
#ifndef PROCFLEET_AGENT_STATUS_STATUS_FILE_H
#define PROCFLEET_AGENT_STATUS_STATUS_FILE_H

#include "agent/status/status.h"
#include "common/base/err.h"

#define STATUS_FILE     "status.json"
#define STATUS_FILE_MAX (64u << 10)

/* Errors: ERR_NOMEM, ERR_FULL (STATUS_FILE_MAX) */
NODISCARD enum err status_file_format(struct buf *out, const struct status *s);

/* Errors: ERR_CORRUPT, ERR_NOMEM */
NODISCARD enum err status_file_parse(struct status *out, const void *p, size_t n);

/* Errors: those of format, ERR_ACCESS, ERR_NOSPACE, ERR_IO and others of the file */
NODISCARD enum err status_file_write(const char *dir, const struct status *s);

/* Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_FULL (too long), those of parse */
NODISCARD enum err status_file_read(struct status *out, const char *dir);

/* Whether an agent holds the lock of this state directory; taken for a moment when nobody does. */
bool status_file_locked(const char *dir);

#endif
