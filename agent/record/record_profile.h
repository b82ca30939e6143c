/* What a recording is to hold: profiles by name, several together. Portable; read-only. */
#ifndef PROCFLEET_AGENT_RECORD_RECORD_PROFILE_H
#define PROCFLEET_AGENT_RECORD_RECORD_PROFILE_H

#include "agent/source/etw_provider.h"

#define RECORD_STACKS    16
#define RECORD_PROVIDERS 8

/* A kind of the kernel's events whose stack is recorded. */
struct record_stack {
    const char *name;
    uint8_t guid[16];
    uint8_t opcode;
};

struct record_plan {
    uint32_t flags;                            /* of the kernel: EVENT_TRACE_FLAG_… */
    struct record_stack stacks[RECORD_STACKS]; /* with --stacks */
    size_t n_stacks;
    struct source_provider providers[RECORD_PROVIDERS];
    size_t n_providers;
    bool clr_rundown; /* where compiled methods lie is asked for at the end */
};

#define RECORD_CLR_RUNDOWN \
    ETW_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18)
#define RECORD_CLR_RUNDOWN_KEYWORDS UINT64_C(0x118) /* Loader, Jit, EndEnumeration */

/* Adds the profile that is called by these n bytes. Errors: ERR_NOTFOUND */
NODISCARD enum err record_profile_add(struct record_plan *plan, const char *name, size_t n);

#endif
