/* The agent's own provider of events: what it changes, loses and marks stands in whatever trace
 * records it, beside the events that it explains. Provider `procfleet`, whose GUID is the usual
 * hash of its name, so that tools find it as *procfleet; events describe themselves (TraceLogging):
 *
 *   Mark {text, run}   Level {from, to, cause}   Loss {stage, reason, count}   Source {name, text}
 *   Image {ProcessId, ImageBase, ImageSize, TimeDateStamp, GuidSig, Age, PDBFileName, FileName}
 *   Schema {Info}, opcode 32: TRACE_EVENT_INFO; 33: a provider's GUID, then EVENT_MAP_INFO
 *
 * The last two make a recording readable on another machine: what is loaded where, with the
 * identity of its symbols, by the names that Windows has for them, and what events look like.
 * Nothing is made while no session listens. On systems without event tracing there is none.
 * Bounds:  texts of 1,024 bytes, longer ones are cut; OWN_SCHEMA_MAX. Threads: one owner. */
#ifndef PROCFLEET_AGENT_OWN_OWN_H
#define PROCFLEET_AGENT_OWN_OWN_H

#include "agent/source/etw_guid.h"
#include "common/model/ledger.h"

#define OWN_PROVIDER "procfleet"
#define OWN_GUID     ETW_PROVIDER_OWN

#define OWN_SCHEMA_MAX ((size_t)48 << 10)

struct own;

/* A module that is loaded, by its file. */
struct own_image {
    uint32_t pid; /* 0: of the kernel */
    uint64_t base;
    uint32_t size, stamp; /* as its file says */
    uint8_t rsds[16];     /* identity of its symbols, bytes as stored */
    uint32_t age;
    struct str pdb, path;
};

/* Errors: ERR_UNSUPPORTED (this system has no event tracing), ERR_NOMEM, ERR_IO */
NODISCARD enum err own_open(struct own **out);
void own_close(struct own *o); /* NULL is allowed */

/* Some session has it turned on. Of NULL: false; and what follows does nothing. */
bool own_listens(const struct own *o);

void own_mark(struct own *o, struct str text, struct str run); /* run: its id, or empty */
void own_level(struct own *o, unsigned from, unsigned to, const char *cause);
void own_source(struct own *o, const char *name, struct str text);

void own_image(struct own *o, const struct own_image *i);

/* opcode  32 or 33, see above. What is larger than OWN_SCHEMA_MAX is left out. */
void own_schema(struct own *o, uint8_t opcode, const void *p, size_t n);

/* The ledger as it is now: what it lost since the last call, row by row. Always the same rows. */
void own_losses(struct own *o, const struct ledger_row *rows, size_t n);

#endif
