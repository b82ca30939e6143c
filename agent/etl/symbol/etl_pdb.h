/* Reads the names of functions from a program database (PDB, in a multi-stream
 * file MSF 7.0): procedures of its modules and public symbols; no types, lines
 * or inlined functions. Bounds:  ETL_PDB_DIRECTORY bytes of directory; nothing
 * else is kept but what was asked for. Threads: one owner. All input is
 * hostile: what does not fit is ERR_CORRUPT or left out. */
#ifndef PROCFLEET_AGENT_ETL_SYMBOL_ETL_PDB_H
#define PROCFLEET_AGENT_ETL_SYMBOL_ETL_PDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define ETL_PDB_DIRECTORY (16u << 20)
#define ETL_PDB_NAME      512 /* bytes of a name, with its end; longer ones are cut */

struct etl_pdb_input {
    /* n bytes from offset; false: they are not there. */
    bool (*read)(void *ctx, uint64_t offset, void *p, size_t n);
    void *ctx;
};

struct etl_pdb_hit {
    enum { ETL_PDB_NONE, ETL_PDB_PUBLIC, ETL_PDB_PROCEDURE } kind;
    uint32_t start; /* where the function begins; a public one has no end */
    uint32_t size;
    uint32_t stream, name_at; /* private */
};

struct etl_pdb;

/* input  borrowed until etl_pdb_close. Errors: ERR_CORRUPT, ERR_UNSUPPORTED (an
 * older format, or a portable PDB), ERR_FULL (the directory), ERR_NOMEM */
NODISCARD enum err etl_pdb_open(struct etl_pdb **out, const struct etl_pdb_input *input);
void etl_pdb_close(struct etl_pdb *p); /* NULL is allowed */

/* The identity by which an image names it: the GUID as stored, and the age of
 * its symbols, which is not that of the file. */
bool etl_pdb_is(const struct etl_pdb *p, const uint8_t guid[16], uint32_t age);

/* The functions at addresses from the image's begin, which are in ascending
 * order. hits  n of them. Errors: ERR_NOMEM; damaged streams end where the
 * damage is */
NODISCARD enum err etl_pdb_find(struct etl_pdb *p, const uint32_t *rvas, size_t n,
                                struct etl_pdb_hit *hits);

/* The name: scope and function, without arguments. "" when it cannot be read.
 */
void etl_pdb_name(struct etl_pdb *p, const struct etl_pdb_hit *hit, char name[ETL_PDB_NAME]);

#endif
