#include "common/check/check_result.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/os/os_owner.h"
#include "common/text/humanize.h"

#define CLOCK_OLDEST_S 1767225600LL /* 2026-01-01: nothing of this version ran before */

const char *check_result_state_text(enum check_result_state s)
{
    static const char *const texts[] = {"ok", "warning", "failed", "skipped"};

    return texts[s];
}

void check_result_report(struct findings *to, const char *check, enum check_result_state state,
                         const char *fix, const char *fmt, ...)
{
    char detail[700];
    struct check_result f = {.check = check, .state = state, .detail = detail, .fix = fix};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    to->count[state]++;
    to->found(to->ctx, &f);
}

void check_result_clock(struct findings *to, int64_t now_ns)
{
    bool old = now_ns < CLOCK_OLDEST_S * CLK_S;
    char now[CLK_TEXT];

    (void)clk_format_utc(now, sizeof now, now_ns, 0);
    check_result_report(to, "clock.time", old ? CHECK_RESULT_FAILED : CHECK_RESULT_OK,
                        old ? "set the clock: certificates and the times of all data depend on it"
                            : "",
                        "the clock says %s", now);
}

void check_result_owner(struct findings *to, const char *check, const char *dir)
{
    struct os_owner_foreign f;
    char fix[700];

    if (!os_owner_find_foreign(&f, dir)) {
        check_result_report(to, check, CHECK_RESULT_OK, "",
                            "the owner of %s can read what is in it", dir);
        return;
    }
    (void)snprintf(fix, sizeof fix, "as root: chown -R %s: %s", f.user, dir);
    check_result_report(
        to, check, CHECK_RESULT_FAILED, fix,
        "%s belongs to %s and user %s cannot read it, as after a start as %s by mistake", f.path,
        f.of, f.user, f.of);
}

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
