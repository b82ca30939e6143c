/* Real recordings with expected figures, kept outside the repository: `../shared/corpus` beside the
 * checkout, or the directory named by PROCFLEET_CORPUS. */
#ifndef PROCFLEET_TESTS_SUPPORT_CORPUS_H
#define PROCFLEET_TESTS_SUPPORT_CORPUS_H

#include <jansson.h>
#include <stddef.h>

#define CORPUS_SKIP 77 /* ctest counts a program that ends so as skipped */

/* The directory, or NULL when there is none; then the reason has been printed. */
const char *corpus_dir(void);

/* "DIR/name" in text. */
const char *corpus_path(char *text, size_t size, const char *name);

/* The recording's file, with or without .xz; ends the program when it is missing. */
const char *corpus_recording(char *text, size_t size, const char *name);

/* A file of the corpus as JSON; ends the program when it cannot be read. json_decref. */
json_t *corpus_json(const char *name);

/* Calls `each` with every recording: its name as in expected/NAME.json ("sawbuck/…" included) and
 * the "figures" expected of it. Gives the number of recordings. */
size_t corpus_each(void (*each)(const char *name, const json_t *figures));

#endif
