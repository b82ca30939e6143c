#include "common/lab/report_svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/lab/compare_print.h"
#include "common/lab/ended.h"
#include "common/text/humanize.h"

#define WIDTH     900
#define LEFT      220
#define RIGHT     20
#define LINE      20
#define PLOT      220 /* height of series */
#define LANES_MAX 200u
#define LANE      7

void report_svg_text(struct buf *out, struct str text)
{
    for (size_t at = 0; at < text.n;) {
        size_t plain = utf8_harmless(text.p + at, text.n - at);
        char escape[UTF8_ESCAPE];

        for (size_t i = 0; i < plain; i++) {
            char c = text.p[at + i];

            switch (c) {
            case '&':
                buf_put_str(out, "&amp;");
                break;
            case '<':
                buf_put_str(out, "&lt;");
                break;
            case '>':
                buf_put_str(out, "&gt;");
                break;
            case '"':
                buf_put_str(out, "&quot;");
                break;
            case '\'':
                buf_put_str(out, "&#39;");
                break;
            default:
                buf_put_u8(out, (uint8_t)c);
            }
        }
        at += plain;
        if (at < text.n) {
            at += utf8_escape(escape, text.p + at, text.n - at);
            buf_put_str(out, escape);
        }
    }
}

static void svg_begin(struct buf *out, int height, const char *title)
{
    buf_printf(out,
               "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
               "aria-label=\"%s; the table below has its figures\">\n",
               WIDTH, height, WIDTH, height, title);
}

static void svg_label(struct buf *out, double x, double y, const char *class, struct str text)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    report_svg_text(out, text);
    buf_put_str(out, "</text>\n");
}

static void svg_line(struct buf *out, const char *class, double x1, double y1, double x2, double y2)
{
    buf_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
               x1, y1, x2, y2);
}

/* 1, 2 or 5 times a power of ten: about `n` of them make `range`. */
static double round_step(double range, int n)
{
    double raw = range / n, power = pow(10, floor(log10(raw)));

    return raw / power < 1.5   ? power
           : raw / power < 3.5 ? 2 * power
           : raw / power < 7.5 ? 5 * power
                               : 10 * power;
}

/* -- changes -- */

static bool row_is_drawn(const struct compare_row *row)
{
    return row->relative && isfinite(row->low) && isfinite(row->high);
}

static void row_name(struct buf *out, const struct compare_row *row)
{
    char text[QUANTITY_TEXT];

    buf_put_str(out, quantity_name(text, row->quantity));
    if (row->of_group) {
        buf_put_str(out, " of ");
        humanize_text(out, row->group);
    }
}

void report_svg_changes(struct buf *out, const struct compare_row *rows, size_t n)
{
    double most = 0.01, step, scale;
    int lines = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        if (row_is_drawn(&rows[i])) {
            most = fmax(most, fmin(fmax(fabs(rows[i].low), fabs(rows[i].high)), 10));
            lines++;
        }
    }
    if (lines == 0) {
        return;
    }
    scale = (WIDTH - LEFT - RIGHT) / (2 * most);
    step = round_step(2 * most, 8);
    svg_begin(out, (lines + 2) * LINE, "changes with their intervals");
    for (double v = -floor(most / step) * step; v <= most; v += step) {
        double x = LEFT + (v + most) * scale;
        char text[32];

        svg_line(out, fabs(v) < step / 2 ? "zero" : "grid", x, 0, x, lines * LINE + 4);
        (void)snprintf(text, sizeof text, "%+.4g %%", fabs(v) < step / 2 ? 0 : v * 100);
        svg_label(out, x, lines * LINE + LINE, "tick", str_make(text));
    }
    for (size_t i = 0; i < n; i++) {
        const struct compare_row *row = &rows[i];
        double y = at * LINE + LINE / 2;
        struct buf name;

        if (!row_is_drawn(row)) {
            continue;
        }
        buf_init(&name, 4096);
        row_name(&name, row);
        svg_label(out, LEFT - 10, y + 4, "name",
                  (struct str){(const char *)name.p,
                               name.n < 36 ? name.n : utf8_cut((char *)name.p, name.n, 36)});
        buf_fini(&name);
        svg_line(out,
                 row->low > 0    ? "more"
                 : row->high < 0 ? "less"
                                 : "none",
                 LEFT + (fmax(row->low, -most) + most) * scale, y,
                 LEFT + (fmin(row->high, most) + most) * scale, y);
        buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
                   LEFT + (fmin(fmax(row->effect, -most), most) + most) * scale, y);
        at++;
    }
    buf_put_str(out, "</svg>\n");
}

/* -- runs -- */

static void runs_range(const double *v, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        *low = fmin(*low, v[i]);
        *high = fmax(*high, v[i]);
    }
}

static void runs_dots(struct buf *out, const struct compare_row *row, const double *v, size_t n,
                      double y, double low, double scale)
{
    for (size_t i = 0; i < n; i++) {
        struct buf text;

        buf_init(&text, 256);
        compare_print_value(&text, row, v[i]);
        buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>",
                   LEFT + (v[i] - low) * scale, y + (double)(i % 3) * 3 - 3);
        report_svg_text(out, str_make(buf_cstr(&text)));
        buf_put_str(out, "</title></circle>\n");
        buf_fini(&text);
    }
}

void report_svg_runs(struct buf *out, const struct compare_row *row)
{
    double low = INFINITY, high = -INFINITY, scale, step;

    runs_range(row->runs_a, row->n_runs_a, &low, &high);
    runs_range(row->runs_b, row->n_runs_b, &low, &high);
    if (!(high > low)) {
        return;
    }
    scale = (WIDTH - LEFT - RIGHT) / (high - low);
    step = round_step(high - low, 5);
    svg_begin(out, 4 * LINE, "the value of each run");
    for (double v = ceil(low / step) * step; v <= high; v += step) {
        struct buf text;

        buf_init(&text, 256);
        compare_print_value(&text, row, v);
        svg_line(out, "grid", LEFT + (v - low) * scale, 0, LEFT + (v - low) * scale, 3 * LINE - 6);
        svg_label(out, LEFT + (v - low) * scale, 3 * LINE + 8, "tick", str_make(buf_cstr(&text)));
        buf_fini(&text);
    }
    svg_label(out, LEFT - 20, LINE / 2 + 6, "name", str_make("A"));
    svg_label(out, LEFT - 20, LINE * 3 / 2 + 8, "name", str_make("B"));
    runs_dots(out, row, row->runs_a, row->n_runs_a, LINE / 2 + 2, low, scale);
    runs_dots(out, row, row->runs_b, row->n_runs_b, LINE * 3 / 2 + 4, low, scale);
    buf_put_str(out, "</svg>\n");
}

/* -- series -- */

static void series_losses(struct buf *out, const struct run_series *s, double width)
{
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        if (s->present[i] < 1000000) {
            buf_printf(out,
                       "<rect class=\"loss\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\">"
                       "<title>%.2f %% arrived</title></rect>\n",
                       LEFT + i * width, width, PLOT, s->present[i] / 1e4);
        }
    }
}

bool report_svg_series(struct buf *out, const struct run_series *s, unsigned metric)
{
    const struct compare_row unit = {.quantity = {QUANTITY_TOTAL, (uint8_t)metric}};
    size_t m = 0, per = (size_t)s->n_metrics * s->n_buckets;
    double most = 0, width, step;

    while (m < s->n_metrics && s->metrics[m] != metric) {
        m++;
    }
    if (m == s->n_metrics || s->n_buckets == 0 || s->n_groups == 0) {
        return false;
    }
    for (size_t g = 0; g < s->n_groups; g++) {
        for (uint32_t i = 0; i < s->n_buckets; i++) {
            most = fmax(most, (double)s->values[g * per + m * s->n_buckets + i]);
        }
    }
    if (!(most > 0)) {
        return false;
    }
    width = (double)(WIDTH - LEFT - RIGHT) / s->n_buckets;
    step = round_step(most, 4);
    svg_begin(out, PLOT + LINE, metric_by_id(metric)->name);
    series_losses(out, s, width);
    for (double v = 0; v <= most; v += step) {
        struct buf text;

        buf_init(&text, 256);
        compare_print_value(&text, &unit, v);
        svg_line(out, "grid", LEFT, PLOT - v / most * (PLOT - 8), WIDTH - RIGHT,
                 PLOT - v / most * (PLOT - 8));
        svg_label(out, LEFT - 6, PLOT - v / most * (PLOT - 8) + 4, "name",
                  str_make(buf_cstr(&text)));
        buf_fini(&text);
    }
    for (size_t g = 0; g < s->n_groups; g++) {
        bool open = false;

        for (uint32_t i = 0; i < s->n_buckets; i++) {
            int64_t v = s->values[g * per + m * s->n_buckets + i];

            if (v < 0) {
                buf_put_str(out, open ? "\"/>\n" : "");
                open = false;
                continue;
            }
            if (!open) {
                buf_printf(out, "<polyline class=\"g%zu\" points=\"", g % 13);
                open = true;
            }
            buf_printf(out, "%.1f,%.1f ", LEFT + (i + 0.5) * width,
                       PLOT - (double)v / most * (PLOT - 8));
        }
        buf_put_str(out, open ? "\"/>\n" : "");
    }
    buf_put_str(out, "</svg>\n");
    return true;
}

/* -- lives -- */

static const char *life_class(const struct run_life *l)
{
    const struct proc_info info = ended_life(l);
    bool failed = (l->flags & RUN_LIFE_EXIT_KNOWN) && l->exit_code;
    enum ended how;

    return ended_how(&info, &how) && how == ENDED_CRASH ? "crash" : failed ? "failed" : "life";
}

static void life_bar(struct buf *out, const struct run_life *l, double x, double width, size_t lane)
{
    struct buf text;

    buf_init(&text, 256);
    humanize_ns(&text, l->end_ns - l->begin_ns);
    buf_printf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%zu\" width=\"%.1f\" height=\"%d\"><title>",
               life_class(l), x, lane * LANE, width, LANE - 2);
    report_svg_text(out, l->name);
    buf_printf(out, " %" PRIu32 ", ", l->pid);
    report_svg_text(out, str_make(buf_cstr(&text)));
    buf_put_str(out, "</title></rect>\n");
    buf_fini(&text);
}

size_t report_svg_lives(struct buf *out, const struct run_file *f, size_t most)
{
    int64_t t0 = f->head.begin_ns, took = f->head.end_ns - t0;
    double ends[LANES_MAX] = {0}, scale;
    size_t n = f->n_lives < most ? f->n_lives : most, lanes = 0, drawn = 0;
    struct buf bars;

    if (n == 0 || took <= 0) {
        return 0;
    }
    scale = (double)(WIDTH - LEFT - RIGHT) / (double)took;
    buf_init(&bars, out->max);
    for (size_t i = 0; i < n; i++) {
        const struct run_life *l = &f->lives[i];
        double from = fmax((double)(l->begin_ns - t0), 0) * scale;
        double to = fmin(fmax((double)(l->end_ns - t0), 0), (double)took) * scale;
        double width = fmax(to - from, 0.7);
        size_t lane = 0;

        while (lane < lanes && ends[lane] > from) {
            lane++;
        }
        if (lane == LANES_MAX) {
            continue;
        }
        lanes = lane == lanes ? lanes + 1 : lanes;
        ends[lane] = from + width + 0.5;
        life_bar(&bars, l, LEFT + from, width, lane);
        drawn++;
    }
    svg_begin(out, (int)lanes * LANE + 4, "when which process lived");
    buf_put(out, bars.p, bars.n);
    out->bad = out->bad ? out->bad : bars.bad;
    buf_put_str(out, "</svg>\n");
    buf_fini(&bars);
    return drawn;
}
