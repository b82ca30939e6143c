/* Providers of events as settings name them:
 *
 *   NAME-OR-GUID[:LEVEL[:ANY[:ALL]]][#ID[+ID...]] [pid=N[+N...]] [exe=NAME[+NAME...]]
 *                                                 [where=FIELD=VALUE]
 *
 * LEVEL 0 to 5, default 4. ANY and ALL are keywords, decimal or 0x…; default 0, which is all of
 * them (Microsoft-Windows-Kernel-Process: 0x10, starts and ends). IDs: these events only; then only
 * those of these processes, of these programs, and with this field of this value: the system is
 * asked to leave out the others, and what it tells nevertheless is left out here. Names are
 * compared without case; the list of known ones is short, a GUID always does. There is no filter
 * stack=: nothing that leaves the host has room for a stack.
 * Threads: any; no state. */
#ifndef PROCFLEET_AGENT_SOURCE_ETW_PROVIDER_H
#define PROCFLEET_AGENT_SOURCE_ETW_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define ETW_PROVIDER_KERNEL_PROCESS_NAME "Microsoft-Windows-Kernel-Process"

#define ETW_KEYWORD_PROCESS UINT64_C(0x10) /* of Kernel-Process: they start and end */

#define SOURCE_PROVIDER_IDS   64
#define SOURCE_PROVIDER_EXE   256 /* bytes */
#define SOURCE_PROVIDER_PIDS  8
#define SOURCE_PROVIDER_FIELD 64 /* bytes, of the name and of the value */

/* A provider of events beyond those a source reads by itself. */
struct source_provider {
    uint8_t guid[16];
    uint8_t level;
    uint64_t any, all; /* keywords */
    bool rundown;      /* asked to tell what is already there */
    uint16_t ids[SOURCE_PROVIDER_IDS];
    size_t n_ids;                  /* of events: only these; 0 = all */
    char exe[SOURCE_PROVIDER_EXE]; /* only in programs of these names, "a.exe;b.exe"; "" = all */
    uint32_t pids[SOURCE_PROVIDER_PIDS];
    size_t n_pids;                     /* 0 = all */
    char field[SOURCE_PROVIDER_FIELD]; /* only where it is `value`; "" = whatever they hold */
    char value[SOURCE_PROVIDER_FIELD];
};

/* Errors: ERR_INVALID (`why` says which part), ERR_NOTFOUND (no such name), ERR_UNSUPPORTED
 * (stack=) */
NODISCARD enum err etw_provider_parse(struct source_provider *out, const char *text,
                                      struct errmsg *why);

/* "22fb2cd6-0e7b-…", in braces or not, as records have it. Errors: ERR_INVALID */
NODISCARD enum err etw_provider_guid(uint8_t out[16], const char *text, size_t n);

/* Whether it asks for less than all that its level and keywords give. */
bool etw_provider_filters(const struct source_provider *p);

/* Whether events of this id, of that process, are meant; `name`, of n bytes, is the program's
 * without its folder. n = 0: unknown, and as meant. The field is not looked at. */
bool etw_provider_means(const struct source_provider *p, uint16_t id, uint32_t pid,
                        const char *name, size_t n);

/* The name of a known one, else NULL. */
const char *etw_provider_name(const uint8_t guid[16]);

#endif
