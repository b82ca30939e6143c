/* The settings etw.*: what event sessions of Windows collect, with which buffers. Portable; on
 * other systems they are read, checked, and without effect. enable_* (or kernel_flags in their
 * place) is permission; the level of collection (budget.h) decides what of it is on. Threads:
 * read-only after reading. */
#ifndef PROCFLEET_AGENT_CONF_ETW_CONF_H
#define PROCFLEET_AGENT_CONF_ETW_CONF_H

#include "agent/source/etw_provider.h"
#include "common/conf/conf.h"

#define ETW_CONF_PROVIDERS 16
#define ETW_CONF_NAME_MAX  1000 /* bytes of session_name; the suffixes fit behind it */
#define ETW_CONF_CLR_ONLY  16   /* names */
#define ETW_CONF_PRESENTS  2    /* DXGI, D3D9 */

/* EVENT_TRACE_FLAG_… that have a meaning of their own here. */
enum {
    ETW_FLAG_PROCESS = 0x1,
    ETW_FLAG_THREAD = 0x2,
    ETW_FLAG_IMAGE = 0x4,
    ETW_FLAG_PROCESS_COUNTERS = 0x8,
    ETW_FLAG_CSWITCH = 0x10,
    ETW_FLAG_DPC = 0x20,
    ETW_FLAG_INTERRUPT = 0x40,
    ETW_FLAG_SYSTEMCALL = 0x80,
    ETW_FLAG_DISK_IO = 0x100,
    ETW_FLAG_DISK_INIT = 0x400,
    ETW_FLAG_DISPATCHER = 0x800,
    ETW_FLAG_ALL_FAULTS = 0x1000, /* too many to be worth it: refused */
    ETW_FLAG_HARD_FAULTS = 0x2000,
    ETW_FLAG_VIRTUAL_ALLOC = 0x4000,
    ETW_FLAG_NETWORK = 0x10000,
    ETW_FLAG_REGISTRY = 0x20000,
    ETW_FLAG_PROFILE = 0x01000000,
    ETW_FLAG_FILE_IO = 0x02000000,
    ETW_FLAG_FILE_IO_INIT = 0x04000000,
};

/* etw.clr */
enum etw_clr { ETW_CLR_OFF, ETW_CLR_GC, ETW_CLR_FULL };

struct etw_buffers {
    uint32_t kb, min, max;
};

struct etw_conf {
    const char *session_name; /* borrowed from the settings */
    struct etw_buffers buffers, hi;
    uint32_t pool_mib; /* of each session */
    uint32_t flush_s, flush_ms;
    uint32_t flags;                                       /* permitted, whatever the level */
    struct source_provider providers[ETW_CONF_PROVIDERS]; /* Kernel-Process first, where it is on */
    size_t n_providers;
    enum etw_clr clr; /* OFF too where the provider is among `providers` */
    char clr_only[SOURCE_PROVIDER_EXE];
    bool presents; /* false too where one of its providers is among `providers` */
    uint32_t samples_per_s;
    bool stacks;
    size_t ring_bytes, batch_events;
    unsigned retry_fast;
    int64_t retry_pause_ns;
};

/* `c` has the agent's table of keys. Errors: ERR_INVALID; `why` names the key, and file and line
 * where there is one */
NODISCARD enum err etw_conf_read(struct etw_conf *out, const struct conf *c, struct errmsg *why);

/* What of the permitted flags the session of starts and ends asks for, and what the one of high
 * rates at this level: 0 = it is not needed. */
uint32_t etw_conf_lifecycle_flags(uint32_t permitted);
uint32_t etw_conf_high_flags(uint32_t permitted, unsigned level);

/* The flags of these groups (1 << enum source_shed). */
uint32_t etw_conf_shed_flags(unsigned groups);

/* What of etw.clr is wanted at this level without these groups (1 << enum source_shed), and the
 * provider that tells it; `only` as clr_only. */
enum etw_clr etw_conf_clr(enum etw_clr permitted, unsigned level, unsigned shed);
void etw_conf_clr_provider(struct source_provider *out, enum etw_clr clr, const char *only);

/* Who tells of frames: for i below ETW_CONF_PRESENTS. */
void etw_conf_present_provider(struct source_provider *out, size_t i);

/* Which groups (enum event_group) are recorded with these flags; with this of .NET. */
uint32_t etw_conf_groups(uint32_t flags);
uint32_t etw_conf_clr_groups(enum etw_clr clr);

#endif
