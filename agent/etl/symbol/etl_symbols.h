/* Names of functions of images, from program databases in directories: `DIR/name.pdb`, or as a
 * symbol store has them, `DIR/name.pdb/GUIDAGE/name.pdb`. A database counts only if it is the
 * image's, by GUID and age. Nothing is ever downloaded. One file is open at a time.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_SYMBOL_ETL_SYMBOLS_H
#define PROCFLEET_AGENT_ETL_SYMBOL_ETL_SYMBOLS_H

#include "agent/etl/symbol/etl_images.h"
#include "agent/etl/symbol/etl_pdb.h"

struct etl_symbols_file;

/* The database of the module in one of the directories. Errors: ERR_NOTFOUND (in none),
 * ERR_VERSION (there, but another one's), and those of etl_pdb_open */
NODISCARD enum err etl_symbols_open(struct etl_symbols_file **out, const char *const *dirs,
                                    size_t n_dirs, const struct etl_images_module *module);
void etl_symbols_close(struct etl_symbols_file *f); /* NULL is allowed */

struct etl_pdb *etl_symbols_pdb(struct etl_symbols_file *f);

#endif
