/* What identifies a program's file, from its PE header: size and stamp, and the symbols it names
 * (RSDS). Bounds: RECORD_PE_SECTIONS, RECORD_PE_DEBUG entries; the name of the symbols is cut.
 * Threads: any; no state. All input is hostile. */
#ifndef PROCFLEET_AGENT_RECORD_RECORD_PE_H
#define PROCFLEET_AGENT_RECORD_RECORD_PE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define RECORD_PE_SECTIONS 96
#define RECORD_PE_DEBUG    16
#define RECORD_PE_PDB      260

struct record_pe {
    uint32_t size, stamp;
    bool has_symbols;
    uint8_t rsds[16]; /* bytes as stored */
    uint32_t age;
    char pdb[RECORD_PE_PDB]; /* "" where there is none */
};

struct record_pe_input {
    /* n bytes from offset; false: they are not there. */
    bool (*read)(void *ctx, uint64_t offset, void *p, size_t n);
    void *ctx;
};

/* Errors: ERR_CORRUPT (no PE file, or damaged before its sections end) */
NODISCARD enum err record_pe_read(struct record_pe *out, const struct record_pe_input *in);

#endif
