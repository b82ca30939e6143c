#include "common/lab/compare_print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/plural.h"
#include "common/lab/compare.h"
#include "common/text/humanize.h"
#include "common/text/jsonw.h"

#define TEXT_MAX 4096u
#define WIDE     0.05

/* -- numbers for people -- */

void compare_print_value(struct buf *out, const struct compare_row *row, double value)
{
    enum metric_unit unit = quantity_unit(row->quantity);

    if (!isfinite(value)) {
        buf_put_str(out, "-");
    } else if (unit == UNIT_NS) {
        humanize_ns(out, (int64_t)fmin(fabs(value), 9e18));
    } else if (unit == UNIT_BYTES) {
        humanize_bytes(out, (int64_t)fmin(fabs(value), 9e18));
    } else {
        buf_printf(out, fabs(value) < 1e15 && floor(value) == value ? "%.0f" : "%.4g", value);
    }
}

/* A share with about as many digits as it has meaning: "+8.1", "+21". */
static void put_percent(struct buf *out, double share)
{
    double v = share * 100;

    if (!isfinite(v)) {
        buf_put_str(out, v > 0 ? "+∞" : "-∞");
    } else {
        buf_printf(out, fabs(v) < 99.95 ? "%+.1f" : "%+.0f", v);
    }
}

static void put_difference(struct buf *out, const struct compare_row *row, double v)
{
    if (isfinite(v)) {
        buf_put_str(out, v < 0 ? "-" : "+");
        compare_print_value(out, row, fabs(v));
    } else {
        buf_put_str(out, v > 0 ? "+∞" : "-∞");
    }
}

void compare_print_change(struct buf *out, const struct compare_row *row, double change)
{
    if (isnan(change)) {
        buf_put_str(out, "-");
    } else if (row->relative && row->zeros && (row->a > 0) != (row->b > 0)) {
        buf_put_str(out, row->b > 0 ? "new" : "gone");
    } else if (row->relative) {
        put_percent(out, change);
        buf_put_str(out, " %");
    } else {
        put_difference(out, row, change);
    }
}

void compare_print_interval(struct buf *out, const struct compare_row *row)
{
    if (row->code == COMPARE_NOT_MEASURED || row->code == COMPARE_NO_RUNS ||
        (isinf(row->low) && isinf(row->high))) {
        buf_put_str(out, "-");
    } else if (row->relative) {
        put_percent(out, row->low);
        buf_put_str(out, " … ");
        put_percent(out, row->high);
        buf_put_str(out, " %");
    } else {
        put_difference(out, row, row->low);
        buf_put_str(out, " … ");
        put_difference(out, row, row->high);
    }
}

static void put_share(struct buf *out, double share)
{
    buf_printf(out, "%.3g %%", share * 100);
}

static void put_limit(struct buf *out, const struct compare_row *row, double v)
{
    if (row->relative) {
        put_share(out, v);
    } else {
        compare_print_value(out, row, v);
    }
}

void compare_print_says(struct buf *out, const struct compare_print *x,
                        const struct compare_row *row)
{
    if (row->says == COMPARE_SAYS_NOTHING) {
        buf_printf(out, "refused%s%s", row->code ? ": " : "",
                   row->code ? compare_code_name(row->code) : "");
        return;
    }
    buf_put_str(out, compare_says_name(row->says));
    if (row->says == COMPARE_NOT_SHOWN && row->runs_wanted) {
        buf_printf(out, " too wide: about %" PRIu32 " more %s a side for ", row->runs_wanted,
                   plural(row->runs_wanted, "run", "runs"));
        put_share(out, x->same > 0 ? x->same : WIDE);
    }
}

static void put_p(struct buf *out, double p)
{
    buf_printf(out, p < 0.0001 ? "%.1e" : p < 0.001 ? "%.4f" : "%.3f", p);
}

static void put_name(struct buf *out, const struct compare_row *row)
{
    char text[QUANTITY_TEXT];

    buf_put_str(out, quantity_name(text, row->quantity));
    if (row->of_group) {
        buf_put_str(out, " of ");
        humanize_text(out, row->group);
    }
}

/* -- lines -- */

static void put_side(struct buf *out, const char *letter, const char *name,
                     const struct compare_side *s, const struct compare *c)
{
    buf_printf(out, "%s  ", letter);
    humanize_text(out, str_make(name));
    buf_printf(out, "  %zu ", s->n_judged);
    buf_put_str(out, plural(s->n_judged, "run", "runs"));
    if (s->n_given > s->n_judged) {
        buf_printf(out, " of %zu", s->n_given);
    }
    buf_printf(out, ", %zu %s%s", s->n_hosts, plural(s->n_hosts, "host", "hosts"),
               s->n_judged > 1 ? " each" : "");
    if (c->pool) {
        buf_put_str(out, " of a pool");
    }
    buf_put_str(out, ", class ");
    humanize_text(out, s->class.n ? s->class : str_make("unknown"));
    buf_printf(out, ", coverage %.2f %%", s->ppm / 1e4);
    if (s->lost_events) {
        buf_printf(out, ", %" PRIu64 " %s lost", s->lost_events,
                   plural(s->lost_events, "event", "events"));
    }
    buf_put_str(out, "\n");
}

static void put_verdict(struct buf *out, const struct compare_print *x,
                        const struct compare_row *row)
{
    const struct compare *c = x->c;

    buf_printf(out, "%-11s ", compare_says_name(row->says));
    put_name(out, row);
    if (row->code != COMPARE_NOT_MEASURED && row->code != COMPARE_NO_RUNS) {
        buf_put_str(out, " ");
        compare_print_change(out, row, row->effect);
        buf_put_str(out, " (");
        compare_print_interval(out, row);
        buf_put_str(out, ")");
    }
    buf_put_str(out, row->below ? ", limit -" : ", limit ");
    put_limit(out, row, row->limit);
    if (isfinite(row->floor)) {
        buf_put_str(out, ", floor ");
        put_limit(out, row, row->floor);
    }
    if (row->says == COMPARE_SAYS_NOTHING) {
        buf_printf(out, ": %s", row->code ? compare_code_name(row->code) : "no verdict");
    } else {
        buf_put_str(out, c->made > 1 ? ", q " : ", p ");
        put_p(out, row->q);
        buf_printf(out, ", %zu+%zu runs", c->a.n_judged, c->b.n_judged);
    }
    if (row->says == COMPARE_UNDECIDED && row->runs_wanted) {
        buf_printf(out, ": about %" PRIu32 " more %s a side", row->runs_wanted,
                   plural(row->runs_wanted, "run", "runs"));
    } else if (row->says == COMPARE_UNDECIDED && isfinite(row->floor) && row->floor > row->limit) {
        buf_put_str(out, ": such a change is within the usual drift");
    }
    buf_put_str(out, "\n");
}

void compare_print_head(struct buf *out, const struct compare_print *x)
{
    const struct compare *c = x->c;

    for (size_t i = 0; x->gate && i < c->n_rows; i++) {
        put_verdict(out, x, &c->rows[i]);
    }
    put_side(out, "A", x->a, &c->a, c);
    put_side(out, "B", x->b, &c->b, c);
    buf_printf(out, "%zu+%zu runs%s", c->a.n_judged, c->b.n_judged,
               c->interleaved ? ", interleaved" : "");
    if (!x->gate) {
        buf_printf(out, ", can carry %zu %s, %zu made", c->can_carry,
                   plural(c->can_carry, "test", "tests"), c->made);
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        if (!c->rows[i].of_group && isfinite(c->rows[i].floor)) {
            buf_put_str(out, "; noise floor of ");
            put_name(out, &c->rows[i]);
            buf_put_str(out, " ");
            put_limit(out, &c->rows[i], c->rows[i].floor);
        }
    }
    if (c->floor_runs >= COMPARE_FLOOR_RUNS) {
        buf_printf(out, " (of %zu earlier runs of A)", c->floor_runs);
    }
    buf_put_str(out, "\n");
}

static void put_only(struct buf *out, const struct compare *c, bool in_b)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_only; i++) {
        const struct compare_only *o = &c->only[i];

        if (o->in_b == in_b && n++ < 12) {
            buf_printf(out, "%s", n > 1 ? ", " : in_b ? "only in B: " : "only in A: ");
            humanize_text(out, o->group);
            buf_printf(out, " (%zu of %zu %s)", o->runs, in_b ? c->b.n_judged : c->a.n_judged,
                       plural(in_b ? c->b.n_judged : c->a.n_judged, "run", "runs"));
        }
    }
    if (n > 12) {
        buf_printf(out, " and %zu more", n - 12);
    }
    buf_put_str(out, n ? "\n" : "");
}

void compare_print_notes(struct buf *out, const struct compare_print *x)
{
    const struct compare *c = x->c;
    bool zeros = false;

    for (size_t i = 0; i < c->n_rows; i++) {
        zeros = zeros || (c->rows[i].zeros && c->rows[i].a + c->rows[i].b > 0);
    }
    put_only(out, c, true);
    put_only(out, c, false);
    for (size_t i = 0; i < c->n_facts; i++) {
        const struct compare_fact *f = &c->facts[i];

        buf_put_str(out, i ? "             " : "environment: ");
        humanize_text(out, f->key);
        buf_put_str(out, " ");
        humanize_text(out, f->a.n ? f->a : str_make("-"));
        buf_put_str(out, " → ");
        humanize_text(out, f->b.n ? f->b : str_make("-"));
        buf_printf(out, " on %zu %s\n", f->hosts, plural(f->hosts, "host", "hosts"));
    }
    if (zeros) {
        buf_put_str(out, "where zeros occur, 0.1 % of the median was added to all values\n");
    }
    for (size_t i = 0; i < c->n_notes; i++) {
        buf_put_str(out, c->notes[i].refuses ? "no verdict: " : "");
        humanize_text(out, c->notes[i].text);
        buf_put_str(out, "\n");
    }
}

/* -- rows -- */

const struct table_column compare_print_columns[COMPARE_PRINT_COLUMNS] = {
    {NULL, "METRIC, GROUP", TABLE_TEXT},
    {NULL, "A", TABLE_REAL},
    {NULL, "B", TABLE_REAL},
    {NULL, "CHANGE", TABLE_REAL},
    {NULL, "95 % INTERVAL", TABLE_REAL},
    {NULL, "q", TABLE_REAL},
    {NULL, "SAYS", TABLE_TEXT},
    {"quantity", NULL, TABLE_WORD},
    {"group", NULL, TABLE_TEXT},
    {"a", NULL, TABLE_REAL},
    {"b", NULL, TABLE_REAL},
    {"effect", NULL, TABLE_REAL},
    {"low", NULL, TABLE_REAL},
    {"high", NULL, TABLE_REAL},
    {"relative", NULL, TABLE_ID},
    {"p", NULL, TABLE_REAL},
    {"q", NULL, TABLE_REAL},
    {"limit", NULL, TABLE_REAL},
    {"floor", NULL, TABLE_REAL},
    {"says", NULL, TABLE_WORD},
    {"code", NULL, TABLE_WORD},
    {"runs_wanted", NULL, TABLE_COUNT},
    {"n_a", NULL, TABLE_COUNT},
    {"n_b", NULL, TABLE_COUNT},
};

/* Texts of one row, behind each other with their NULs. */
struct texts {
    struct buf b;
    size_t at[COMPARE_PRINT_COLUMNS];
};

static void text_begin(struct texts *t, size_t i)
{
    t->at[i] = t->b.n;
}

static void text_end(struct texts *t)
{
    buf_put_u8(&t->b, 0);
}

static void text_real(struct texts *t, size_t i, double v)
{
    text_begin(t, i);
    if (isfinite(v)) {
        buf_printf(&t->b, "%.15g", v);
    }
    text_end(t);
}

static void row_texts(struct texts *t, const struct compare_print *x, const struct compare_row *row)
{
    const double reals[] = {row->a, row->b, row->effect, row->low,   row->high,
                            0,      row->p, row->q,      row->limit, row->floor};
    char name[QUANTITY_TEXT];

    text_begin(t, 0);
    if (row->of_group && !x->gate) {
        buf_put_str(&t->b, "  ");
        humanize_text(&t->b, row->group.n ? row->group : str_make("(unknown)"));
    } else {
        put_name(&t->b, row);
    }
    text_end(t);
    text_begin(t, 1);
    compare_print_value(&t->b, row, row->a);
    text_end(t);
    text_begin(t, 2);
    compare_print_value(&t->b, row, row->b);
    text_end(t);
    text_begin(t, 3);
    compare_print_change(&t->b, row, row->effect);
    text_end(t);
    text_begin(t, 4);
    compare_print_interval(&t->b, row);
    text_end(t);
    text_begin(t, 5);
    if (row->says != COMPARE_SAYS_NOTHING && row->says != COMPARE_NOT_TESTED) {
        put_p(&t->b, row->q);
    } else {
        buf_put_str(&t->b, "-");
    }
    text_end(t);
    text_begin(t, 6);
    compare_print_says(&t->b, x, row);
    text_end(t);
    text_begin(t, 7);
    buf_put_str(&t->b, quantity_name(name, row->quantity));
    text_end(t);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        text_real(t, 9 + i, reals[i]);
    }
}

enum err compare_print_rows(struct table *t, const struct compare_print *x)
{
    enum err e = ERR_OK;
    struct texts texts;

    buf_init(&texts.b, 1u << 20);
    for (size_t i = 0; i < x->c->n_rows && !e; i++) {
        const struct compare_row *row = &x->c->rows[i];
        struct table_cell cells[COMPARE_PRINT_COLUMNS];

        buf_reset(&texts.b);
        row_texts(&texts, x, row);
        if (texts.b.bad) {
            e = texts.b.bad;
            break;
        }
        for (size_t k = 0; k < COMPARE_PRINT_COLUMNS; k++) {
            bool has = k <= 7 || (k >= 9 && k <= 18);

            cells[k] = table_string(str_make(has ? (const char *)texts.b.p + texts.at[k] : ""));
        }
        cells[8] = row->of_group ? table_string(row->group) : cells[8];
        cells[14] = table_number(true, row->relative);
        cells[19] = table_string(str_make(compare_says_name(row->says)));
        cells[20] = table_string(str_make(row->code ? compare_code_name(row->code) : ""));
        cells[21] = table_number(row->runs_wanted != 0, row->runs_wanted);
        cells[22] = table_count(row->n_a);
        cells[23] = table_count(row->n_b);
        e = table_row(t, cells);
    }
    buf_fini(&texts.b);
    return e;
}

/* -- JSON -- */

static void json_side(struct jsonw *j, const char *key, const char *name,
                      const struct compare_side *s)
{
    jsonw_object(j, key);
    jsonw_bytes(j, "names", str_make(name));
    jsonw_uint(j, "runs_given", s->n_given);
    jsonw_uint(j, "hosts", s->n_hosts);
    jsonw_bytes(j, "class", s->class);
    jsonw_real(j, "coverage_percent", s->ppm / 1e4);
    jsonw_uint(j, "lost_events", s->lost_events);
    jsonw_array(j, "runs");
    for (size_t i = 0; i < s->n_judged; i++) {
        const struct run_head *h = &s->judged[i]->head;
        char id[UUID_TEXT];

        jsonw_object(j, NULL);
        jsonw_bytes(j, "name", h->name);
        jsonw_text(j, "id", str_make(uuid_format(id, &h->id)));
        jsonw_uint(j, "revision", h->revision);
        jsonw_wide(j, "begin", (uint64_t)h->begin_ns);
        jsonw_wide(j, "end", (uint64_t)h->end_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void json_reals(struct jsonw *j, const char *key, const double *v, size_t n)
{
    jsonw_array(j, key);
    for (size_t i = 0; i < n; i++) {
        jsonw_real(j, NULL, v[i]);
    }
    jsonw_end(j);
}

static const char *unit_name(enum metric_unit unit)
{
    return unit == UNIT_NS ? "ns" : unit == UNIT_BYTES ? "bytes" : "count";
}

static void json_row(struct jsonw *j, const struct compare_row *row)
{
    const double interval_a[] = {row->a_low, row->a_high}, interval_b[] = {row->b_low, row->b_high};
    char name[QUANTITY_TEXT];

    jsonw_object(j, NULL);
    jsonw_text(j, "quantity", str_make(quantity_name(name, row->quantity)));
    if (row->of_group) {
        jsonw_bytes(j, "group", row->group);
    }
    jsonw_text(j, "unit", str_make(unit_name(quantity_unit(row->quantity))));
    jsonw_text(j, "says", str_make(compare_says_name(row->says)));
    if (row->code) {
        jsonw_text(j, "code", str_make(compare_code_name(row->code)));
    }
    jsonw_real(j, "a", row->a);
    jsonw_real(j, "b", row->b);
    json_reals(j, "a_interval", interval_a, 2);
    json_reals(j, "b_interval", interval_b, 2);
    jsonw_bool(j, "relative", row->relative);
    jsonw_real(j, "effect", row->effect);
    jsonw_real(j, "low", row->low);
    jsonw_real(j, "high", row->high);
    jsonw_real(j, "p", row->p);
    jsonw_real(j, "q", row->q);
    jsonw_bool(j, "exact", row->exact);
    jsonw_bool(j, "zeros", row->zeros);
    if (!isnan(row->limit)) {
        jsonw_real(j, "limit", row->below ? -row->limit : row->limit);
    }
    jsonw_real(j, "floor", row->floor);
    jsonw_uint(j, "runs_wanted", row->runs_wanted);
    json_reals(j, "runs_a", row->runs_a, row->n_runs_a);
    json_reals(j, "runs_b", row->runs_b, row->n_runs_b);
    jsonw_end(j);
}

static void json_around(struct jsonw *j, const struct compare *c)
{
    jsonw_array(j, "notes");
    for (size_t i = 0; i < c->n_notes; i++) {
        jsonw_object(j, NULL);
        jsonw_text(j, "code", str_make(compare_code_name(c->notes[i].code)));
        jsonw_bool(j, "refuses", c->notes[i].refuses);
        jsonw_bytes(j, "text", c->notes[i].text);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_array(j, "only");
    for (size_t i = 0; i < c->n_only; i++) {
        jsonw_object(j, NULL);
        jsonw_bytes(j, "group", c->only[i].group);
        jsonw_text(j, "side", str_make(c->only[i].in_b ? "b" : "a"));
        jsonw_uint(j, "runs", c->only[i].runs);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_array(j, "environment");
    for (size_t i = 0; i < c->n_facts; i++) {
        jsonw_object(j, NULL);
        jsonw_bytes(j, "fact", c->facts[i].key);
        jsonw_bytes(j, "a", c->facts[i].a);
        jsonw_bytes(j, "b", c->facts[i].b);
        jsonw_uint(j, "hosts", c->facts[i].hosts);
        jsonw_end(j);
    }
    jsonw_end(j);
}

void compare_print_json(FILE *to, const struct compare_print *x)
{
    const struct compare *c = x->c;
    struct jsonw j;

    jsonw_init(&j, to, 2);
    jsonw_object(&j, NULL);
    json_side(&j, "a", x->a, &c->a);
    json_side(&j, "b", x->b, &c->b);
    jsonw_uint(&j, "hosts", c->n_hosts);
    jsonw_bool(&j, "pool", c->pool);
    jsonw_bool(&j, "interleaved", c->interleaved);
    jsonw_bool(&j, "refused", c->refused);
    jsonw_uint(&j, "can_carry", c->can_carry);
    jsonw_uint(&j, "made", c->made);
    jsonw_uint(&j, "floor_runs", c->floor_runs);
    jsonw_array(&j, "rows");
    for (size_t i = 0; i < c->n_rows; i++) {
        json_row(&j, &c->rows[i]);
    }
    jsonw_end(&j);
    json_around(&j, c);
    jsonw_end(&j);
    fputs("\n", to);
}
