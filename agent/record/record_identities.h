/* What makes a recording readable on another machine, written into it by our own provider (own.h):
 * what is loaded where with the identity of its symbols, and what events of the recorded providers
 * look like. Chosen by the build; for the recorder. Threads: the owner's. */
#ifndef PROCFLEET_AGENT_RECORD_RECORD_IDENTITIES_H
#define PROCFLEET_AGENT_RECORD_RECORD_IDENTITIES_H

#include "agent/record/record_profile.h"

struct record_identities {
    uint64_t images, schemas; /* written */
};

/* Nothing is written unless the session of the recording has turned the provider on. */
void record_identities_write(const struct record_plan *plan, struct record_identities *out);

#endif
