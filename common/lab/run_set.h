/* A set of run files that are chosen by name: "nightly-412", 'nightly-*', NAME@3 (the third newest
 * of the name), NAME@ID (the beginning of its id). Of a run that was extracted again the latest
 * revision counts.
 * Bounds: RUN_SET_MAX runs. Threads: one. */
#ifndef PROCFLEET_COMMON_LAB_RUN_SET_H
#define PROCFLEET_COMMON_LAB_RUN_SET_H

#include "common/lab/run_file.h"

#define RUN_SET_MAX 10000u

struct run_set;

NODISCARD enum err run_set_create(struct run_set **out);
void run_set_destroy(struct run_set *s); /* with all its files; NULL is allowed */

/* Adds the files *.pfr of a directory, of which for now only the heads are kept. Errors: ERR_FULL,
 * ERR_NOMEM, and those of os_list_dir and run_file_read (why names the file) */
NODISCARD enum err run_set_add_dir(struct run_set *s, const char *dir, struct errmsg *why);

/* Adds a file that was read; moved, also on failure. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err run_set_add(struct run_set *s, struct run_file *f);

/* All of them by time, heads and hosts only as far as run_set_add_dir goes. */
size_t run_set_list(const struct run_set *s, const struct run_file *const **out);

/* The runs that the patterns name, by time, with these sections. `any_nth` ignores what stands
 * behind "@": all runs of the names. *out has room for run_set_list's number; borrowed from the set
 * until a find that asks for more sections. Errors: ERR_NOMEM, those of run_file_read */
NODISCARD enum err run_set_find(struct run_set *s, const char *const *patterns, size_t n,
                                bool any_nth, unsigned sections, const struct run_file **out,
                                size_t *n_out, struct errmsg *why);

#endif
