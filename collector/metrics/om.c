#include "collector/metrics/om.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/text/humanize.h"

static bool ends_with(struct str s, const char *end)
{
    size_t n = strlen(end);

    return s.n > n && memcmp(s.p + s.n - n, end, n) == 0;
}

/* The name of the family that samples of this name belong to. */
static struct str family_of(const char *name, enum metrics_kind kind)
{
    const char *const suffix = kind == METRICS_COUNTER ? "_total" : "_info";
    struct str s = str_make(name);

    if (ends_with(s, suffix)) {
        s.n -= strlen(suffix);
    }
    return s;
}

static void put_escaped(struct buf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n') {
            buf_put_str(out, "\\n");
        } else if (p[i] == '\0') {
            buf_put_u8(out, '?');
        } else {
            if (p[i] == '\\' || p[i] == '"') {
                buf_put_u8(out, '\\');
            }
            buf_put_u8(out, (uint8_t)p[i]);
        }
    }
}

static void put_line(struct buf *out, const char *what, struct str family)
{
    buf_printf(out, "# %s %.*s ", what, (int)family.n, family.p);
}

void om_family(struct buf *out, const char *name, enum metrics_kind kind, const char *help)
{
    static const char *const units[] = {"seconds", "bytes"};
    struct str family = family_of(name, kind);
    bool info = kind == METRICS_GAUGE && ends_with(str_make(name), "_info");

    put_line(out, "TYPE", family);
    buf_put_str(out, kind == METRICS_COUNTER ? "counter\n" : info ? "info\n" : "gauge\n");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ends_with(family, units[i])) {
            put_line(out, "UNIT", family);
            buf_printf(out, "%s\n", units[i]);
        }
    }
    put_line(out, "HELP", family);
    put_escaped(out, help, strlen(help));
    buf_put_u8(out, '\n');
}

void om_sample(struct buf *out, const char *name, const char *labels, double value)
{
    bool whole = value > -1e15 && value < 1e15 && value == (double)(int64_t)value;

    buf_put_str(out, name);
    if (labels[0]) {
        buf_printf(out, "{%s}", labels);
    }
    buf_printf(out, whole ? " %.0f\n" : " %.15g\n", value);
}

void om_label(struct buf *labels, const char *name, struct str value)
{
    buf_printf(labels, "%s%s=\"", labels->n ? "," : "", name);
    for (size_t i = 0; i < value.n;) {
        size_t n = utf8_whole(value.p + i, value.n - i);

        put_escaped(labels, value.p + i, n);
        i += n;
        if (i < value.n) {
            buf_put_u8(labels, '?');
            i++;
        }
    }
    buf_put_u8(labels, '"');
}

void om_metrics(struct buf *out, const struct metrics *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct metrics_value *x = &f->all[i];

        if (i == 0 || strcmp(x->name, f->all[i - 1].name) != 0) {
            om_family(out, x->name, x->kind, x->help);
        }
        om_sample(out, x->name, x->labels, x->value);
    }
}

void om_end(struct buf *out)
{
    buf_put_str(out, "# EOF\n");
}
