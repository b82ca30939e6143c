/* The agent's own provider of events: what it changes, loses and marks stands in whatever trace
 * records it, beside the events that it explains. Provider `procfleet`, whose GUID is the usual
 * hash of its name, so that tools find it as *procfleet; events describe themselves (TraceLogging):
 *
 *   Mark {text, run}   Level {from, to, cause}   Loss {stage, reason, count}   Source {name, text}
 *
 * Nothing is made while no session listens. On systems without event tracing there is none.
 * Bounds:  texts of 1,024 bytes, longer ones are cut. Threads: one owner. */
#ifndef PROCFLEET_AGENT_OWN_OWN_H
#define PROCFLEET_AGENT_OWN_OWN_H

#include "common/model/ledger.h"

#define OWN_PROVIDER "procfleet"
#define OWN_GUID                                                                                  \
    {                                                                                             \
        0xd9, 0xdb, 0xbf, 0x41, 0x6f, 0xb5, 0x00, 0x55, 0x9a, 0xd4, 0xa4, 0xd5, 0x01, 0x84, 0xf7, \
            0xd5                                                                                  \
    } /* 41bfdbd9-b56f-5500-9ad4-a4d50184f7d5 */

struct own;

/* Errors: ERR_UNSUPPORTED (this system has no event tracing), ERR_NOMEM, ERR_IO */
NODISCARD enum err own_open(struct own **out);
void own_close(struct own *o); /* NULL is allowed */

/* Some session has it turned on. Of NULL: false; and what follows does nothing. */
bool own_listens(const struct own *o);

void own_mark(struct own *o, struct str text, struct str run); /* run: its id, or empty */
void own_level(struct own *o, unsigned from, unsigned to, const char *cause);
void own_source(struct own *o, const char *name, struct str text);

/* The ledger as it is now: what it lost since the last call, row by row. Always the same rows. */
void own_losses(struct own *o, const struct ledger_row *rows, size_t n);

#endif
