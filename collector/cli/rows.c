/* "The newest N" of a window that the collector gives oldest first: pages are read to the end, and
 * of their rows only the last N are kept, copied, in a ring. */
#include "collector/cli/rows.h"

#include <string.h>

#include "collector/cli/cli_client.h"
#include "common/base/mem.h"

#define NEWEST_MAX 100000u /* rows kept */

struct kept {
    struct table_cell *cells;
    char *text; /* what the cells point into */
};

struct rows {
    const struct fields *f;
    struct table *sheet;
    size_t keep; /* ring size, 0 = print at once */
    size_t n;    /* rows seen */
    const struct rows_also *also;
    struct kept *ring;
    enum err e;
};

/* Copies the cells and their texts into one block each. */
static enum err keep_row(struct rows *r, const struct table_cell *cells)
{
    struct kept *k = &r->ring[r->n % r->keep];
    size_t n = r->f->n, bytes = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        bytes += cells[i].text.n;
    }
    mem_free(k->cells);
    mem_free(k->text);
    k->cells = mem_dup(cells, n * sizeof *cells);
    k->text = mem_alloc(bytes);
    if (!k->cells || !k->text) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (cells[i].text.n) {
            memcpy(k->text + at, cells[i].text.p, cells[i].text.n);
            k->cells[i].text.p = k->text + at;
            at += cells[i].text.n;
        }
    }
    return ERR_OK;
}

static void put(struct rows *r, const struct table_cell *cells)
{
    if (!r->e && !(r->also && r->also->instead)) {
        r->e = r->keep ? keep_row(r, cells) : table_row(r->sheet, cells);
    }
    r->n++;
}

static void page(void *ctx, const struct wire_answer *a)
{
    struct rows *r = ctx;
    struct table_cell cells[TABLE_COLUMNS];

    for (size_t i = 0; i < a->n_rows; i++) {
        fields_row(r->f, cells, a, &a->rows[i]);
        put(r, cells);
        if (r->also) {
            r->also->row(r->also->ctx, a, &a->rows[i]);
        }
    }
    for (size_t i = 0; i < a->n_events; i++) {
        fields_event(r->f, cells, a, &a->events[i]);
        put(r, cells);
    }
}

static void note(void *ctx, struct str text)
{
    table_note(((struct rows *)ctx)->sheet, text);
}

static void print_kept(struct rows *r)
{
    size_t first = r->n > r->keep ? r->n - r->keep : 0;

    if (r->also && r->also->instead) {
        return;
    }
    for (size_t i = first; i < r->n && !r->e; i++) {
        r->e = table_row(r->sheet, r->ring[i % r->keep].cells);
    }
    if (first > 0 && !r->e) {
        struct buf text;

        buf_init(&text, 256);
        buf_printf(&text, "the newest %zu of %zu are shown; --limit shows more", r->keep, r->n);
        table_note(r->sheet, str_make(buf_cstr(&text)));
        buf_fini(&text);
    }
}

static void free_kept(struct rows *r)
{
    for (size_t i = 0; r->ring && i < r->keep; i++) {
        mem_free(r->ring[i].cells);
        mem_free(r->ring[i].text);
    }
    mem_free(r->ring);
}

int rows_ask(struct cli *c, const char *method, struct wire_query *q, const struct fields *f,
             bool newest, const char *none)
{
    return rows_ask_also(c, method, q, f, newest, none, NULL);
}

int rows_ask_also(struct cli *c, const char *method, struct wire_query *q, const struct fields *f,
                  bool newest, const char *none, const struct rows_also *also)
{
    struct rows r = {.f = f, .also = also};
    struct cli_client *l;
    int code = CLI_FAILED;

    if (newest) {
        if (q->limit > NEWEST_MAX) {
            return cli_fail(c, CLI_USAGE, "--limit: at most %u", NEWEST_MAX);
        }
        r.keep = q->limit;
        q->limit = UINT32_MAX; /* the newest are at the end */
        r.ring = mem_array(r.keep, sizeof *r.ring);
        if (!r.ring) {
            return cli_fail(c, CLI_FAILED, "out of memory");
        }
    }
    if (cli_client_open(&l, c, &code) != ERR_OK) {
        free_kept(&r);
        return code;
    }
    r.e = fields_sheet(f, c, &r.sheet, false);
    if (!r.e) {
        code = cli_client_ask(l, method, q, page, note, &r);
        if (r.keep) {
            print_kept(&r);
        }
        if (r.n == 0 && code == CLI_OK) {
            table_note(r.sheet, str_make(none));
        }
    }
    table_end(r.sheet);
    if (!r.e && also) {
        r.e = also->end(also->ctx);
    }
    free_kept(&r);
    cli_client_close(l);
    return r.e ? cli_fail(c, CLI_FAILED, "%s", err_text(r.e)) : code;
}

void rows_add_details(struct fields *f)
{
    static const enum field details[] = {
        FIELD_START,        FIELD_PARENT_PID,      FIELD_SESSION_ID,      FIELD_USER,
        FIELD_CREATE_TIME,  FIELD_EXIT_TIME,       FIELD_EXIT_CODE,       FIELD_EXIT_INFERRED,
        FIELD_FINAL_TOTALS, FIELD_ORIGIN,          FIELD_CPU_TIME_ORIGIN, FIELD_IMAGE,
        FIELD_COMMAND_LINE, FIELD_COMMAND_LINE_CUT};

    for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
        bool there = false;

        for (size_t k = 0; k < f->n; k++) {
            there = there || f->what[k] == (int)details[i];
        }
        if (!there) {
            fields_add(f, details[i], false);
        }
    }
}
