#include "common/lab/quantity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/expr/expr_quantity.h"

static const struct {
    const char *name;
    enum quantity_of of;
} words[] = {
    {"duration", QUANTITY_DURATION}, {"processes", QUANTITY_PROCESSES},
    {"starts", QUANTITY_STARTS},     {"ends", QUANTITY_ENDS},
    {"failed", QUANTITY_FAILED},     {"crashes", QUANTITY_CRASHES},
};

static const struct {
    const char *name;
    enum quantity_of of;
} functions[] = {{"peak", QUANTITY_PEAK}, {"avg", QUANTITY_AVG}, {"max", QUANTITY_MAX}};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static enum err metric_wrong(const char *name, const struct metric *m, struct errmsg *why)
{
    const char *close = metric_closest(name);

    if (m && m->kind == METRIC_GAUGE) {
        return errmsg_set(why, ERR_USAGE,
                          "%s goes up and down: say peak(%s), avg(%s) or max(%s), the peak of one "
                          "process",
                          name, name, name, name);
    }
    if (m) {
        return errmsg_set(why, ERR_USAGE, "%s is no sum over processes", name);
    }
    return close ? errmsg_set(why, ERR_USAGE, "'%s' is no quantity; is '%s' meant?", name, close)
                 : errmsg_set(why, ERR_USAGE,
                              "'%s' is no quantity: duration, processes, starts, ends, failed, "
                              "crashes, a counter such as cpu_time, or peak(GAUGE)",
                              name);
}

/* "peak(private_bytes)"; false: it has no brackets. */
static bool function_split(enum quantity_of *of, char *name, size_t n)
{
    for (size_t i = 0; i < COUNT(functions); i++) {
        size_t len = strlen(functions[i].name);

        if (n > len + 2 && memcmp(name, functions[i].name, len) == 0 && name[len] == '(' &&
            name[n - 1] == ')') {
            *of = functions[i].of;
            name[n - 1] = '\0';
            memmove(name, name + len + 1, n - len - 1);
            return true;
        }
    }
    return false;
}

enum err quantity_parse(struct quantity *out, struct str text, struct errmsg *why)
{
    enum quantity_of of = QUANTITY_TOTAL;
    char name[QUANTITY_TEXT];
    const struct metric *m;

    if (text.n == 0 || text.n >= sizeof name) {
        return errmsg_set(why, ERR_USAGE, "a quantity has 1 to %u characters", QUANTITY_TEXT - 1);
    }
    memcpy(name, text.p, text.n);
    name[text.n] = '\0';
    for (size_t i = 0; i < COUNT(words); i++) {
        if (strcmp(name, words[i].name) == 0) {
            *out = (struct quantity){(uint8_t)words[i].of, 0};
            return ERR_OK;
        }
    }
    (void)function_split(&of, name, text.n);
    m = metric_by_name(name);
    if (!m || !m->column || m->kind != (of == QUANTITY_TOTAL ? METRIC_COUNTER : METRIC_GAUGE) ||
        m->unit == UNIT_MASK || (m->unit == UNIT_NONE && of != QUANTITY_MAX)) {
        return metric_wrong(name, m, why);
    }
    *out = (struct quantity){(uint8_t)of, m->id};
    return ERR_OK;
}

const char *quantity_name(char text[QUANTITY_TEXT], struct quantity q)
{
    const struct metric *m = q.of >= QUANTITY_TOTAL ? metric_by_id(q.metric) : NULL;
    const char *name = m ? m->name : "?";

    for (size_t i = 0; i < COUNT(words); i++) {
        name = words[i].of == (enum quantity_of)q.of ? words[i].name : name;
    }
    (void)snprintf(text, QUANTITY_TEXT, "%s", name);
    for (size_t i = 0; i < COUNT(functions); i++) {
        if (functions[i].of == (enum quantity_of)q.of) {
            (void)snprintf(text, QUANTITY_TEXT, "%s(%s)", functions[i].name, name);
        }
    }
    return text;
}

enum metric_unit quantity_unit(struct quantity q)
{
    const struct metric *m = q.of >= QUANTITY_TOTAL ? metric_by_id(q.metric) : NULL;

    return q.of == QUANTITY_DURATION ? UNIT_NS : m ? (enum metric_unit)m->unit : UNIT_COUNT;
}

/* -- limits -- */

struct words {
    struct str left;
    struct str all;
};

static void skip_spaces(struct words *w)
{
    while (w->left.n && (*w->left.p == ' ' || *w->left.p == '\t')) {
        w->left.p++;
        w->left.n--;
    }
}

static struct str take(struct words *w, size_t n)
{
    struct str r = {w->left.p, n};

    w->left.p += n;
    w->left.n -= n;
    skip_spaces(w);
    return r;
}

static enum err limit_wrong(const struct words *w, struct errmsg *why, const char *what)
{
    return errmsg_set(why, ERR_USAGE, "'%.*s', column %zu: %s",
                      (int)(w->all.n < 100 ? w->all.n : 100), w->all.p, w->all.n - w->left.n + 1,
                      what);
}

/* A word ends at a space, or where a comparison or a text begins. */
static size_t word_length(struct str s)
{
    size_t n = 0;

    while (n < s.n && !strchr(" \t<>\"", s.p[n])) {
        n++;
    }
    return n;
}

static enum err take_group(struct quantity_limit *out, struct words *w, struct errmsg *why)
{
    const char *end;

    if (w->left.n == 0 || *w->left.p != '"') {
        out->group = take(w, word_length(w->left));
        return out->group.n ? ERR_OK : limit_wrong(w, why, "of what?");
    }
    end = memchr(w->left.p + 1, '"', w->left.n - 1);
    if (!end || end == w->left.p + 1) {
        return limit_wrong(w, why, "a name between quotes is expected");
    }
    out->group = (struct str){w->left.p + 1, (size_t)(end - w->left.p - 1)};
    (void)take(w, out->group.n + 2);
    return ERR_OK;
}

static bool dim_fits(struct expr_dim dim, enum metric_unit unit)
{
    return !dim.share && dim.time == (unit == UNIT_NS) && dim.bytes == (unit == UNIT_BYTES);
}

static enum err take_number(struct quantity_limit *out, struct words *w, struct errmsg *why)
{
    bool negative = w->left.n > 0 && *w->left.p == '-';
    struct words at = *w;
    struct expr_dim dim;
    long double v = 0;
    size_t n;

    if (negative) {
        (void)take(w, 1);
    }
    n = expr_quantity(&v, &dim, w->left.p, w->left.n);
    if (n == 0 || !isfinite(v)) {
        return limit_wrong(w, why, "a limit is expected, such as 5%, 30s or 10MiB");
    }
    (void)take(w, n);
    out->value = (double)v;
    out->relative = dim.share;
    if (negative != out->below && out->value > 0) {
        return limit_wrong(&at, why,
                           out->below ? "a fall is looked for with < and a number below 0: < -5%"
                                      : "a rise is looked for with > and a number above 0: > 5%");
    }
    if (out->relative) {
        return out->below && out->value >= 1
                   ? limit_wrong(&at, why, "nothing falls by 100 % or more")
                   : ERR_OK;
    }
    return dim_fits(dim, quantity_unit(out->quantity))
               ? ERR_OK
               : limit_wrong(&at, why,
                             "a limit is a share, such as 5%, or has the quantity's unit: 30s, "
                             "10MiB");
}

enum err quantity_limit_parse(struct quantity_limit *out, struct str text, struct errmsg *why)
{
    struct words w = {text, text};
    enum err e;

    *out = (struct quantity_limit){0};
    skip_spaces(&w);
    e = quantity_parse(&out->quantity, take(&w, word_length(w.left)), why);
    if (e) {
        return e;
    }
    if (str_eq((struct str){w.left.p, word_length(w.left)}, str_make("of"))) {
        out->of_group = true;
        (void)take(&w, 2);
        e = take_group(out, &w, why);
    }
    if (!e && (w.left.n == 0 || (*w.left.p != '>' && *w.left.p != '<'))) {
        e = limit_wrong(&w, why, "> or < is expected, as in: cpu_time > 5%");
    }
    if (!e) {
        out->below = *take(&w, 1).p == '<';
        e = take_number(out, &w, why);
    }
    if (!e && w.left.n) {
        e = limit_wrong(&w, why, "nothing is expected here");
    }
    if (!e && out->of_group && out->quantity.of == QUANTITY_DURATION) {
        e = limit_wrong(&w, why, "a duration is the run's, not a group's");
    }
    return e;
}

/* -- values -- */

bool quantity_of_row(double *value, const struct run_file *f, const struct run_row *row,
                     struct quantity q)
{
    const uint64_t counts[] = {[QUANTITY_PROCESSES] = row->instances,
                               [QUANTITY_STARTS] = row->starts,
                               [QUANTITY_ENDS] = row->ends,
                               [QUANTITY_FAILED] = row->failed,
                               [QUANTITY_CRASHES] = row->crashed};
    const struct run_column *c;
    unsigned gauge = q.of == QUANTITY_PEAK  ? RUN_PEAK_SUM
                     : q.of == QUANTITY_AVG ? RUN_MEAN_SUM
                                            : RUN_PEAK_ONE;

    if (q.of < QUANTITY_TOTAL) {
        *value = (double)counts[q.of];
        return true;
    }
    c = run_file_column(f, q.metric);
    if (!c || !(row->have & METRIC_BIT(q.metric)) || c->gauge == (q.of == QUANTITY_TOTAL)) {
        return false;
    }
    *value = (double)row->values[c->slot + (c->gauge ? gauge : 0)];
    return true;
}
