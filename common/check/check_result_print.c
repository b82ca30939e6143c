#include "common/check/check_result_print.h"

#include <stdio.h>

#include "common/base/plural.h"
#include "common/text/humanize.h"

static const struct table_column columns[] = {
    {"check", "CHECK", TABLE_TEXT},
    {"state", "STATE", TABLE_TEXT},
    {"detail", "DETAIL", TABLE_TEXT},
    {"fix", "FIX", TABLE_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)
#define LABEL   "%-8s %-17s " /* as long as the longest name: agent.certificate */

enum err check_result_print_begin(struct check_result_print *p, enum table_format format)
{
    *p = (struct check_result_print){.sheet = NULL};
    return format == TABLE_AS_TABLE
               ? ERR_OK
               : table_begin(&p->sheet, stdout, format, false, columns, COLUMNS);
}

static void put_text(const char *label, const char *text)
{
    struct buf line;

    buf_init(&line, 8u << 10);
    humanize_text(&line, str_make(text));
    printf("%s%s\n", label, buf_cstr(&line));
    buf_fini(&line);
}

void check_result_print_found(void *ctx, const struct check_result *f)
{
    struct check_result_print *p = ctx;
    char label[64];

    if (p->sheet) {
        struct table_cell cells[COLUMNS] = {
            table_string(str_make(f->check)),
            table_string(str_make(check_result_state_text(f->state))),
            table_string(str_make(f->detail)), table_string(str_make(f->fix))};

        p->e = p->e ? p->e : table_row(p->sheet, cells);
        return;
    }
    (void)snprintf(label, sizeof label, LABEL, check_result_state_text(f->state), f->check);
    put_text(label, f->detail);
    if (f->fix[0]) {
        (void)snprintf(label, sizeof label, LABEL "fix: ", "", "");
        put_text(label, f->fix);
    }
    (void)fflush(stdout); /* the next check may take seconds */
}

enum err check_result_print_end(struct check_result_print *p, const struct findings *all)
{
    if (p->sheet) {
        table_end(p->sheet);
    } else {
        printf("\n%u ok, %u %s, %u failed, %u skipped\n", all->count[CHECK_RESULT_OK],
               all->count[CHECK_RESULT_WARNING],
               plural(all->count[CHECK_RESULT_WARNING], "warning", "warnings"),
               all->count[CHECK_RESULT_FAILED], all->count[CHECK_RESULT_SKIPPED]);
    }
    p->sheet = NULL;
    return p->e || !(ferror(stdout) || fflush(stdout)) ? p->e : ERR_IO;
}
