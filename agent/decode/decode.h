/* Raw ETW records to facts: (class or provider, opcode or id, version) picks a decoder; one file
 * decode_*.c per class holds the layouts. Pointer size is that of each record.
 * Payloads are hostile: longer ones are accepted (newer systems append), shorter ones are refused
 * and counted, unknown records are counted by kind in a bounded table. No allocation per event.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_DECODE_H
#define PROCFLEET_AGENT_DECODE_DECODE_H

#include "agent/source/event.h"
#include "agent/source/source.h"
#include "common/base/err.h"

#define DECODE_UNKNOWN_MAX 192 /* kinds told apart; further ones are counted together */

struct decode;

/* Grows only. Early records are not counted: they come again. in = decoded + ignored + unknown +
 * corrupt. */
struct decode_counts {
    uint64_t in;
    uint64_t decoded;
    uint64_t ignored;        /* known, but of no interest (another sampling source's interval) */
    uint64_t unknown;        /* no decoder for the kind or its version */
    uint64_t corrupt;        /* payload shorter than its version, or of impossible value */
    uint64_t unknown_untold; /* of `unknown`: beyond DECODE_UNKNOWN_MAX kinds */
};

/* A kind of record without a decoder. */
struct decode_unknown {
    uint8_t guid[16];
    uint8_t form, version; /* form: enum raw_form */
    uint16_t id;           /* opcode of RAW_CLASSIC */
    uint64_t count;
};

/* Errors: ERR_NOMEM */
NODISCARD enum err decode_create(struct decode **out);
void decode_destroy(struct decode *d); /* NULL is allowed */

/* Text in `out` is borrowed from `raw` or from `d`: valid until the next call and while raw is.
 * Errors: ERR_NOTFOUND (nothing to decode here), ERR_CORRUPT; both counted, neither unusual */
NODISCARD enum err decode_event(struct decode *d, const struct raw_event *raw, struct event *out);

/* So many records that a source has read itself (event_switch.h) are counted as decoded. */
void decode_switches(struct decode *d, size_t n);

void decode_stats(const struct decode *d, struct decode_counts *out);

/* Copies up to `max` kinds in no order; gives how many. */
size_t decode_unknown_kinds(const struct decode *d, struct decode_unknown *out, size_t max);

#endif
