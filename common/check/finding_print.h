/* Findings on standard output: lines for people as they are found, or JSON or CSV at the end.
 * Threads: one. */
#ifndef PROCFLEET_COMMON_CHECK_FINDING_PRINT_H
#define PROCFLEET_COMMON_CHECK_FINDING_PRINT_H

#include "common/check/finding.h"
#include "common/text/sheet.h"

struct finding_print {
    struct sheet *sheet; /* NULL: lines for people */
    enum err e;
};

/* SHEET_AS_TABLE: lines. Errors: ERR_NOMEM */
NODISCARD enum err finding_print_begin(struct finding_print *p, enum sheet_format format);
void finding_print_found(void *ctx, const struct finding *f); /* struct findings' found */
/* Ends what was begun, for lines with the counts. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err finding_print_end(struct finding_print *p, const struct findings *all);

#endif
