/* At 0x3c of the file u32 offset of the header:
 *
 *   "PE\0\0"  u16 machine, u16 sections, u32 stamp, 8 bytes, u16 bytes of what follows, u16
 *   optional  u16 0x10b or 0x20b (64 bits), at 56 u32 size; at 92 (108) u32 number of
 *             directories, each u32 address, u32 bytes; number 6 is the debug directory
 *   sections  40 bytes each: at 8 u32 size, u32 address, u32 bytes in the file, u32 offset there
 *   debug     28 bytes each: at 12 u32 kind (2: symbols), u32 bytes, u32 address, u32 offset
 *   symbols   "RSDS", GUID, u32 age, name NUL */
#include "agent/record/record_pe.h"

#include <string.h>

#include "common/base/cur.h"

#define PE_AT     0x3c
#define HEAD      24
#define OPTIONAL  248 /* of 64 bits, up to the debug directory's end: 112 + 7 * 8 and more */
#define DIRECTORY 6
#define SECTION   40
#define DEBUG     28
#define CODEVIEW  2
#define RSDS_HEAD 24
#define MAGIC_32  0x10b
#define MAGIC_64  0x20b

struct pe {
    const struct record_pe_input *in;
    uint64_t sections_at;
    unsigned n_sections;
};

static uint32_t pe_u32(const uint8_t *p)
{
    struct cur c = cur_make(p, 4);

    return cur_u32le(&c);
}

/* Where the address stands in the file; false: nowhere. */
static bool pe_place(const struct pe *pe, uint32_t address, uint64_t *out)
{
    uint8_t s[SECTION];

    for (unsigned i = 0; i < pe->n_sections; i++) {
        uint32_t at, bytes;

        if (!pe->in->read(pe->in->ctx, pe->sections_at + (uint64_t)i * SECTION, s, sizeof s)) {
            return false;
        }
        at = pe_u32(s + 12);
        bytes = pe_u32(s + 16);
        if (address >= at && address - at < bytes) {
            *out = (uint64_t)pe_u32(s + 20) + (address - at);
            return true;
        }
    }
    return false;
}

/* The name may be shorter than what there is room for, and the file end behind it. */
static void pe_name(const struct pe *pe, uint64_t at, size_t n, char out[RECORD_PE_PDB])
{
    n = n < RECORD_PE_PDB - 1 ? n : RECORD_PE_PDB - 1;
    if (!pe->in->read(pe->in->ctx, at, out, n)) {
        n = 0;
    }
    out[n] = '\0';
}

static bool pe_symbols(const struct pe *pe, const uint8_t *entry, struct record_pe *out)
{
    uint32_t bytes = pe_u32(entry + 16), at = pe_u32(entry + 24);
    uint8_t head[RSDS_HEAD];

    if (pe_u32(entry + 12) != CODEVIEW || bytes < sizeof head ||
        !pe->in->read(pe->in->ctx, at, head, sizeof head) || memcmp(head, "RSDS", 4) != 0) {
        return false;
    }
    memcpy(out->rsds, head + 4, sizeof out->rsds);
    out->age = pe_u32(head + 20);
    pe_name(pe, (uint64_t)at + sizeof head, bytes - sizeof head, out->pdb);
    return true;
}

static void pe_debug(const struct pe *pe, uint32_t address, uint32_t bytes, struct record_pe *out)
{
    uint8_t entry[DEBUG];
    uint64_t at;

    if (!pe_place(pe, address, &at)) {
        return;
    }
    for (uint32_t i = 0; i < bytes / DEBUG && i < RECORD_PE_DEBUG && !out->has_symbols; i++) {
        if (!pe->in->read(pe->in->ctx, at + (uint64_t)i * DEBUG, entry, sizeof entry)) {
            return;
        }
        out->has_symbols = pe_symbols(pe, entry, out);
    }
}

enum err record_pe_read(struct record_pe *out, const struct record_pe_input *in)
{
    uint8_t head[HEAD], optional[OPTIONAL] = {0}, four[4];
    struct pe pe = {.in = in};
    struct record_pe r = {.size = 0};
    size_t n, directories;
    uint64_t at;

    if (!in->read(in->ctx, 0, four, 2) || memcmp(four, "MZ", 2) != 0 ||
        !in->read(in->ctx, PE_AT, four, sizeof four)) {
        return ERR_CORRUPT;
    }
    at = pe_u32(four);
    if (!in->read(in->ctx, at, head, sizeof head) || memcmp(head, "PE\0\0", 4) != 0) {
        return ERR_CORRUPT;
    }
    n = cur_at16le(head + 20);
    if (n < 64 || !in->read(in->ctx, at + HEAD, optional, n < OPTIONAL ? n : OPTIONAL) ||
        (cur_at16le(optional) != MAGIC_32 && cur_at16le(optional) != MAGIC_64)) {
        return ERR_CORRUPT;
    }
    r.stamp = pe_u32(head + 8);
    r.size = pe_u32(optional + 56);
    pe.n_sections = cur_at16le(head + 6);
    pe.n_sections = pe.n_sections < RECORD_PE_SECTIONS ? pe.n_sections : RECORD_PE_SECTIONS;
    pe.sections_at = at + HEAD + n;
    directories = cur_at16le(optional) == MAGIC_64 ? 108 : 92;
    if (pe_u32(optional + directories) > DIRECTORY && n >= directories + 4 + 8 * (DIRECTORY + 1)) {
        const uint8_t *d = optional + directories + 4 + (size_t)8 * DIRECTORY;

        pe_debug(&pe, pe_u32(d), pe_u32(d + 4), &r);
    }
    *out = r;
    return ERR_OK;
}
