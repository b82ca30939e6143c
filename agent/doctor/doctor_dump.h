/* What the trials of doctor --facts got from the system, as files: answers of tables, records,
 * properties of sessions, so that they become fixtures of tests elsewhere. On request names and
 * accounts in them are covered: what is told to doctor_dump_cover (this user, host and domain),
 * who stands behind "\Users\" in paths, and the part of a SID that is of one domain. Lengths stay.
 *
 *   tables.jsonl, class-N.bin   class, address the answer was written to, bytes
 *   records-N.jsonl             header and payload (hex) of up to DOCTOR_DUMP_RECORDS of a stream
 *   calls.jsonl                 call, code, EVENT_TRACE_PROPERTIES after it (hex)
 *
 * Bounds:  DOCTOR_DUMP_BYTES for each file; what is beyond is counted and said in calls.jsonl.
 * Threads: each stream has one at a time, everything else is the owner's. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_DUMP_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_DUMP_H

#include <stdbool.h>

#include "agent/source/source.h"
#include "common/base/err.h"

#define DOCTOR_DUMP_STREAMS 2
#define DOCTOR_DUMP_RECORDS 10000
#define DOCTOR_DUMP_BYTES   (32u << 20)
#define DOCTOR_DUMP_WORDS   8

struct doctor_dump;

/* Makes the directory. Errors: those of making it, ERR_NOMEM */
NODISCARD enum err doctor_dump_open(struct doctor_dump **out, const char *dir, bool anonymous,
                                    struct errmsg *why);

/* A word that is covered wherever it stands, in either case and as 8-bit or 16-bit text; words of
 * less than three letters, and those beyond DOCTOR_DUMP_WORDS, are not. */
void doctor_dump_cover(struct doctor_dump *d, const char *word);

/* All take NULL for no dump. */
void doctor_dump_table(struct doctor_dump *d, unsigned class, uint64_t base, const void *p,
                       size_t n);
void doctor_dump_record(struct doctor_dump *d, unsigned stream, const struct raw_event *raw);
void doctor_dump_call(struct doctor_dump *d, const char *call, uint32_t code, const void *p,
                      size_t n);

/* Writes what has not been written. Errors: of the first file that failed, ERR_NOMEM */
NODISCARD enum err doctor_dump_close(struct doctor_dump *d, struct errmsg *why);

#endif
