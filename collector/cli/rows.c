/* "The newest N" of a window whose rows come oldest first: pages are read to the end, and
 * of their rows only the last N are kept, copied, in a ring. */
#include "collector/cli/rows.h"

#include <string.h>

#include "collector/cli/ancestry.h"
#include "collector/cli/cli_client.h"
#include "common/base/mem.h"

#define NEWEST_MAX 100000u /* rows kept */

/* -- any table -- */

struct table_scan {
    const struct rows_table *of;
    const struct wire_query *asked;
    struct table *table;
    struct table_answer answer; /* over all pages */
    size_t pages, rows, hosts;
    enum err e;
};

/* What the page says of the whole answer. */
static void answer_take(struct table_answer *to, const struct wire_answer *a, bool first)
{
    to->since_ns = first || a->since_ns < to->since_ns ? a->since_ns : to->since_ns;
    to->until_ns = first || a->until_ns > to->until_ns ? a->until_ns : to->until_ns;
    to->partial = to->partial || a->partial;
    if (a->sum.known) {
        to->has_coverage = true;
        to->at_most = a->sum.at_most;
        to->ppm = a->sum.ppm;
        to->lost_ticks = a->sum.lost_ticks;
        to->lost_events = a->sum.lost_events;
    }
    for (size_t i = 0; i < a->n_used; i++) {
        to->used[i] += a->used[i];
        to->n_used = i + 1 > to->n_used ? i + 1 : to->n_used;
    }
}

void rows_note_unknown(struct table *t, const struct wire_query *asked, const struct wire_answer *a)
{
    struct buf text;
    bool any = false;

    buf_init(&text, 4096);
    for (size_t i = 0; i < asked->n_metrics && a->n_metrics; i++) {
        if (!memchr(a->metrics, asked->metrics[i], a->n_metrics)) {
            buf_printf(&text, "%s%s", any ? ", " : "this collector is older and does not know ",
                       metric_by_id(asked->metrics[i])->name);
            any = true;
        }
    }
    if (any && !text.bad) {
        table_note(t, (struct str){(const char *)text.p, text.n});
    }
    buf_fini(&text);
}

static void table_page(void *ctx, const struct wire_answer *a)
{
    struct table_scan *s = ctx;

    if (s->pages == 0) {
        rows_note_unknown(s->table, s->asked, a);
    }
    answer_take(&s->answer, a, s->pages++ == 0);
    s->rows += a->n_rows + a->n_events;
    s->hosts += a->n_hosts;
    if (!s->e) {
        s->e = s->of->page(s->of->ctx, s->table, a);
    }
}

static void table_take_note(void *ctx, struct str text)
{
    table_note(((struct table_scan *)ctx)->table, text);
}

/* What is below the rows. `limit`: rows that were asked for. */
static void table_close(struct cli *c, struct table_scan *s, uint32_t limit, bool failed)
{
    const struct rows_table *t = s->of;
    char text[96];

    if (s->rows + s->hosts == 0 && !failed && t->none) {
        table_note(s->table, str_make(t->none));
    }
    s->answer.cut = t->counted && s->rows >= limit;
    s->answer.total = t->counted ? (s->rows ? s->rows : s->hosts) : 0;
    if (s->answer.cut && opt_value(c->args, "sort")) {
        (void)snprintf(text, sizeof text, "--sort has only these %u; --limit asks for more",
                       (unsigned)limit);
        table_note(s->table, str_make(text));
    }
    if (!t->timeless) {
        cli_table_range(c, s->table, s->answer.since_ns, s->answer.until_ns, t->moment);
    }
    if (s->pages) {
        table_answer(s->table, &s->answer);
    }
    table_end(s->table);
}

int rows_table(struct cli *c, const char *method, struct wire_query *q, const struct rows_table *t)
{
    struct table_scan s = {.of = t, .asked = q};
    uint32_t limit = q->limit;
    struct cli_client *l;
    int code = CLI_FAILED;

    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    s.e = t->fields ? fields_sheet(t->fields, c, &s.table, false)
                    : cli_table(c, &s.table, false, t->columns, t->n, t->yields);
    if (!s.e) {
        code = cli_client_ask(l, method, q, table_page, table_take_note, &s);
    }
    if (!s.e && t->end) {
        s.e = t->end(t->ctx, s.table);
    }
    if (s.table) {
        table_close(c, &s, limit, s.e || code != CLI_OK);
    }
    if (!s.e && t->after) {
        s.e = t->after(t->ctx);
    }
    cli_client_close(l);
    return s.e ? cli_table_failed(c, s.e) : code;
}

/* -- one call, one row -- */

int rows_call(struct cli *c, const struct rows_call *x)
{
    struct table_cell cells[2] = {{TABLE_ABSENT}, {TABLE_ABSENT}};
    char **operands, text[ROWS_CALL_TEXT] = "";
    const char *operand = opt_operands(c->args, &operands) == 1 ? operands[0] : "";
    struct table *s = NULL;
    struct buf request, reply;
    enum err e;
    int code;

    if (x->name_of && (!operand[0] || strlen(operand) > MODEL_HOST_NAME_MAX)) {
        return cli_fail(c, CLI_USAGE, "'%.20s' is no name of a %s: it has 1 to %u bytes", operand,
                        x->name_of, MODEL_HOST_NAME_MAX);
    }
    buf_init(&request, 512);
    buf_init(&reply, 1u << 20);
    err_ignore(x->encode(&request, operand)); /* latches */
    code = cli_client_once(c, x->method, &request, &reply);
    if (code == CLI_OK && x->decode(&cells[1], text, &reply) != ERR_OK) {
        code = cli_fail(c, CLI_FAILED, "the collector's answer cannot be read");
    }
    if (code == CLI_OK) {
        cells[0] = table_string(str_make(operand));
        e = cli_table(c, &s, false, x->columns, 2, NULL);
        e = e ? e : table_row(s, cells);
        table_end(s);
        code = e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
    }
    buf_fini(&request);
    buf_fini(&reply);
    return code;
}

/* -- rows under fields -- */

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
static enum err rows_keep(struct rows *r, const struct table_cell *cells)
{
    struct kept *k = &r->ring[r->n % r->keep];
    size_t n = r->f->n, bytes = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        bytes += cells[i].text.n + 1;
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
            k->text[at++] = 0; /* TABLE_JSON is asked for it */
        }
    }
    return ERR_OK;
}

static void rows_put(struct rows *r, const struct table_cell *cells)
{
    if (!r->e && !(r->also && r->also->instead)) {
        r->e = r->keep ? rows_keep(r, cells) : table_row(r->sheet, cells);
    }
    r->n++;
}

static enum err rows_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct rows *r = ctx;
    struct table_cell cells[TABLE_COLUMNS];

    r->sheet = t;
    for (size_t i = 0; i < a->n_rows; i++) {
        fields_row(r->f, cells, a, &a->rows[i]);
        rows_put(r, cells);
        if (r->also) {
            r->also->row(r->also->ctx, a, &a->rows[i]);
        }
    }
    for (size_t i = 0; i < a->n_events; i++) {
        struct buf chain;

        buf_init(&chain, ANCESTRY_TEXT);
        fields_event(r->f, cells, a, &a->events[i]);
        for (size_t k = 0; k < r->f->n; k++) {
            if (r->f->what[k] == FIELD_ANCESTORS) {
                ancestry_put(&chain, &a->events[i], WIRE_ANCESTORS);
                cells[k] = table_string((struct str){(const char *)chain.p, chain.n});
            }
        }
        rows_put(r, cells);
        buf_fini(&chain);
    }
    return r->e;
}

static enum err rows_print_kept(void *ctx, struct table *t)
{
    struct rows *r = ctx;
    size_t first = r->n > r->keep ? r->n - r->keep : 0;

    if (!r->keep || (r->also && r->also->instead)) {
        return ERR_OK;
    }
    for (size_t i = first; i < r->n && !r->e; i++) {
        r->e = table_row(t, r->ring[i % r->keep].cells);
    }
    if (first > 0 && !r->e) {
        struct buf text;

        buf_init(&text, 256);
        buf_printf(&text, "the newest %zu of %zu are shown; --limit shows more", r->keep, r->n);
        table_note(t, str_make(buf_cstr(&text)));
        buf_fini(&text);
    }
    return r->e;
}

static enum err rows_after(void *ctx)
{
    const struct rows *r = ctx;

    return r->also->end(r->also->ctx);
}

static void rows_free_kept(struct rows *r)
{
    for (size_t i = 0; r->ring && i < r->keep; i++) {
        mem_free(r->ring[i].cells);
        mem_free(r->ring[i].text);
    }
    mem_free(r->ring);
}

int rows_ask(struct cli *c, const char *method, struct wire_query *q, const struct fields *f,
             bool newest, const char *none, const struct rows_also *also)
{
    struct rows r = {.f = f, .also = also};
    const struct rows_table t = {.fields = f,
                                 .page = rows_page,
                                 .end = rows_print_kept,
                                 .after = also ? rows_after : NULL,
                                 .ctx = &r,
                                 .none = none,
                                 .counted = true};
    int code;

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
    code = rows_table(c, method, q, &t);
    rows_free_kept(&r);
    return code;
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
