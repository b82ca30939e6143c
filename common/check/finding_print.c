#include "common/check/finding_print.h"

#include <stdio.h>

#include "common/base/plural.h"
#include "common/text/human.h"

static const struct sheet_column columns[] = {
    {"check", "CHECK", SHEET_TEXT},
    {"state", "STATE", SHEET_TEXT},
    {"detail", "DETAIL", SHEET_TEXT},
    {"fix", "FIX", SHEET_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)
#define LABEL   "%-8s %-17s " /* as long as the longest name: agent.certificate */

enum err finding_print_begin(struct finding_print *p, enum sheet_format format)
{
    *p = (struct finding_print){.sheet = NULL};
    return format == SHEET_AS_TABLE
               ? ERR_OK
               : sheet_begin(&p->sheet, stdout, format, false, columns, COLUMNS);
}

static void put_text(const char *label, const char *text)
{
    struct buf line;

    buf_init(&line, 8u << 10);
    human_text(&line, str_make(text));
    printf("%s%s\n", label, buf_cstr(&line));
    buf_fini(&line);
}

void finding_print_found(void *ctx, const struct finding *f)
{
    struct finding_print *p = ctx;
    char label[64];

    if (p->sheet) {
        struct sheet_cell cells[COLUMNS] = {
            sheet_string(str_make(f->check)), sheet_string(str_make(finding_state_text(f->state))),
            sheet_string(str_make(f->detail)), sheet_string(str_make(f->fix))};

        p->e = p->e ? p->e : sheet_row(p->sheet, cells);
        return;
    }
    (void)snprintf(label, sizeof label, LABEL, finding_state_text(f->state), f->check);
    put_text(label, f->detail);
    if (f->fix[0]) {
        (void)snprintf(label, sizeof label, LABEL "fix: ", "", "");
        put_text(label, f->fix);
    }
    (void)fflush(stdout); /* the next check may take seconds */
}

enum err finding_print_end(struct finding_print *p, const struct findings *all)
{
    if (p->sheet) {
        sheet_end(p->sheet);
    } else {
        printf("\n%u ok, %u %s, %u failed, %u skipped\n", all->count[FINDING_OK],
               all->count[FINDING_WARNING],
               plural(all->count[FINDING_WARNING], "warning", "warnings"),
               all->count[FINDING_FAILED], all->count[FINDING_SKIPPED]);
    }
    p->sheet = NULL;
    return p->e || !(ferror(stdout) || fflush(stdout)) ? p->e : ERR_IO;
}
