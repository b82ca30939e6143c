/* Findings on standard output: lines for people as they are found, or JSON or CSV at the end.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_CHECK_CHECK_RESULT_PRINT_H
#define PROCFLEET_COMMON_CHECK_CHECK_RESULT_PRINT_H

#include "common/check/check_result.h"
#include "common/text/table.h"

struct check_result_print {
    struct table *sheet; /* NULL: lines for people */
    enum err e;
};

/* TABLE_AS_TABLE: lines. Errors: ERR_NOMEM */
NODISCARD enum err check_result_print_begin(struct check_result_print *p, enum table_format format);
void check_result_print_found(void *ctx, const struct check_result *f); /* struct findings' found */
/* Ends what was begun, for lines with the counts. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err check_result_print_end(struct check_result_print *p, const struct findings *all);

#endif
