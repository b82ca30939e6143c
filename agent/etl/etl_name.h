/* What the name of a recording says, by a pattern: "{case}_{ms}ms{host}.{time}". A word in braces
 * stands for some text, all else for itself; of several ways to fit the one with the shortest texts
 * on the left is taken. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_ETL_ETL_NAME_H
#define PROCFLEET_AGENT_ETL_ETL_NAME_H

#include "common/base/err.h"
#include "common/lab/run_file.h"

#define ETL_NAME_FIELDS 16u
#define ETL_NAME_MAX    255u

/* Texts point into what follows them. */
struct etl_name {
    struct str run;  /* {case}, made a name of a run: other letters become '-' */
    struct str host; /* {host}; empty: it has none */
    size_t n_labels;
    struct run_pair labels[ETL_NAME_FIELDS];
    char run_text[RUN_FILE_NAME_MAX + 1];
    char text[ETL_NAME_MAX + 1];
    char keys[ETL_NAME_MAX + 1];
};

/* Errors: ERR_USAGE (why says what is wrong with the pattern) */
NODISCARD enum err etl_name_check(const char *pattern, struct errmsg *why);

/* file: without directories. pattern NULL: the run has the file's name. False: it does not fit. */
bool etl_name_match(struct etl_name *out, const char *pattern, const char *file);

const char *etl_name_base(const char *path);  /* behind the last separator */
struct str etl_name_stem(const char *file);   /* without .etl, .etl.xz */
bool etl_name_is_recording(const char *file); /* it ends like that */

#endif
