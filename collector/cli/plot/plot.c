/* Time is cut into bins, two a column for braille. A bin holds the least and the largest value that
 * falls into it, and what lies on the line between neighbours; a bin between two points that are
 * too far apart stays empty. */
#include "collector/cli/plot/plot.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/text/humanize.h"

#define BINS_MAX (2 * PLOT_COLUMNS)
#define JOIN     2.5 /* times the usual distance: so far apart points may be to be joined */
#define LABEL    32  /* bytes of a label */

struct bin {
    bool have;
    bool joined; /* with the bin before */
    double least, most;
};

struct bins {
    size_t n;
    int64_t first_ns, last_ns;
    struct bin bin[BINS_MAX];
};

bool plot_range(const struct plot *p, int64_t *least, int64_t *most, int64_t *last)
{
    bool any = false;

    for (size_t i = 0; i < p->n; i++) {
        if (p->points[i].have) {
            int64_t v = p->points[i].value;

            *least = !any || v < *least ? v : *least;
            *most = !any || v > *most ? v : *most;
            *last = v;
            any = true;
        }
    }
    return any;
}

/* -- points into bins -- */

static int distance_by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The distance of most neighbours: the median. */
static enum err points_usual_distance(const struct plot *p, int64_t *out)
{
    int64_t *all = mem_array(p->n, sizeof *all);
    size_t n = 0;

    *out = 0;
    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t i = 1; i < p->n; i++) {
        all[n++] = clk_sub(p->points[i].when_ns, p->points[i - 1].when_ns);
    }
    if (n > 0) {
        qsort(all, n, sizeof *all, distance_by_size);
        *out = all[n / 2];
    }
    mem_free(all);
    return ERR_OK;
}

static size_t bins_at(const struct bins *b, int64_t when_ns)
{
    double span = (double)clk_sub(b->last_ns, b->first_ns);
    double at = span > 0 ? (double)clk_sub(when_ns, b->first_ns) / span : 0;
    double i = at * (double)(b->n - 1) + 0.5;

    return i < 0 ? 0 : i >= (double)b->n ? b->n - 1 : (size_t)i;
}

static void bin_include(struct bin *b, double v)
{
    b->least = !b->have || v < b->least ? v : b->least;
    b->most = !b->have || v > b->most ? v : b->most;
    b->have = true;
}

/* The line from one point to the next. */
static void bins_join(struct bins *b, const struct plot_point *from, const struct plot_point *to)
{
    size_t first = bins_at(b, from->when_ns), last = bins_at(b, to->when_ns);
    double v = (double)from->value, step = (double)to->value - v;

    for (size_t i = first + 1; i <= last; i++) {
        bin_include(&b->bin[i], v + step * (double)(i - first) / (double)(last - first));
        b->bin[i].joined = true;
    }
}

static enum err bins_fill(struct bins *b, const struct plot *p, size_t n)
{
    const struct plot_point *before = NULL;
    int64_t usual;
    enum err e = points_usual_distance(p, &usual);

    memset(b, 0, sizeof *b);
    b->n = n < BINS_MAX ? n : BINS_MAX;
    b->first_ns = p->first_ns || p->last_ns ? p->first_ns : p->points[0].when_ns;
    b->last_ns = p->first_ns || p->last_ns ? p->last_ns : p->points[p->n - 1].when_ns;
    for (size_t i = 0; i < p->n && !e; i++) {
        const struct plot_point *point = &p->points[i];

        if (!point->have || point->when_ns < b->first_ns || point->when_ns > b->last_ns) {
            before = NULL;
            continue;
        }
        bin_include(&b->bin[bins_at(b, point->when_ns)], (double)point->value);
        if (before && (double)clk_sub(point->when_ns, before->when_ns) <= (double)usual * JOIN) {
            bins_join(b, before, point);
        }
        before = point;
    }
    return e;
}

/* -- scale -- */

struct scale {
    double low, high;
};

/* From zero, unless that would make a flat line of what moves far above it. Large values that
 * differ may be one number here: no height is ever none. */
static struct scale scale_of(int64_t least, int64_t most)
{
    struct scale s = {(double)least, (double)most};

    if (s.low >= 0 && (s.low <= s.high / 2 || s.low == s.high)) {
        s.low = 0;
    }
    if (s.high <= s.low) {
        s.high = s.low < 0 ? 0 : 1;
    }
    return s;
}

static unsigned scale_level(const struct scale *s, double v, unsigned levels)
{
    double l = (v - s->low) / (s->high - s->low) * (levels - 1) + 0.5;

    return l <= 0 ? 0 : l >= levels ? levels - 1 : (unsigned)l;
}

/* -- words -- */

static void put_value(struct buf *out, enum table_unit unit, int64_t v)
{
    struct table_cell c = table_number(true, v);

    table_put_cell(out, unit, &c);
}

static void put_title(struct buf *out, const struct plot *p)
{
    int64_t least, most, last;

    buf_put_str(out, p->title);
    if (!plot_range(p, &least, &most, &last)) {
        buf_put_str(out, "  no values\n");
        return;
    }
    buf_put_str(out, "  min ");
    put_value(out, p->unit, least);
    buf_put_str(out, "  max ");
    put_value(out, p->unit, most);
    buf_put_str(out, "  last ");
    put_value(out, p->unit, last);
    buf_put_u8(out, '\n');
}

/* A moment, as short as the span of the axis allows. */
static void put_moment(struct buf *out, int64_t when_ns, int64_t span_ns)
{
    char text[CLK_TEXT];
    bool days = span_ns >= 86400 * CLK_S;

    (void)clk_format_utc(text, sizeof text, when_ns, 0);
    if (strlen(text) >= 19) {
        if (days) {
            text[10] = ' ';
        }
        buf_printf(out, "%.*s", days ? 11 : 8, text + (days ? 5 : 11));
    }
}

/* -- the graph -- */

struct frame {
    const struct plot *p;
    struct scale scale;
    unsigned label, width; /* columns of the labels and of the graph */
    char top[LABEL], bottom[LABEL];
    uint8_t dots[PLOT_ROWS][PLOT_COLUMNS]; /* braille: bits of a character; ASCII: 1 = a star */
};

static void label_of(char out[LABEL], enum table_unit unit, double v)
{
    struct buf b;

    buf_init(&b, LABEL - 1);
    put_value(&b, unit, v >= 9.2e18 ? INT64_MAX : v <= -9.2e18 ? INT64_MIN : (int64_t)v);
    memcpy(out, buf_cstr(&b), strlen(buf_cstr(&b)) + 1);
    buf_fini(&b);
}

static void frame_dot(struct frame *f, size_t bin, unsigned at)
{
    static const uint8_t bits[4][2] = {{0x40, 0x80}, {0x04, 0x20}, {0x02, 0x10}, {0x01, 0x08}};
    unsigned row = f->p->rows - 1 - (f->p->ascii ? at : at / 4);

    if (f->p->ascii) {
        f->dots[row][bin] = 1;
    } else {
        f->dots[row][bin / 2] |= bits[at % 4][bin % 2];
    }
}

/* Each bin is a stroke from its least to its largest value, long enough to touch the one before if
 * they are joined. */
static void frame_draw(struct frame *f, const struct bins *b)
{
    unsigned levels = f->p->rows * (f->p->ascii ? 1 : 4), low_before = 0, high_before = 0;

    for (size_t i = 0; i < b->n; i++) {
        const struct bin *bin = &b->bin[i];
        unsigned low, high, from, to;

        if (!bin->have) {
            continue;
        }
        low = from = scale_level(&f->scale, bin->least, levels);
        high = to = scale_level(&f->scale, bin->most, levels);
        if (bin->joined && i > 0 && b->bin[i - 1].have) {
            from = low > high_before + 1 ? high_before + 1 : low;
            to = high + 1 < low_before ? low_before - 1 : high;
        }
        for (unsigned at = from; at <= to; at++) {
            frame_dot(f, i, at);
        }
        low_before = low;
        high_before = high;
    }
}

static void put_braille(struct buf *out, uint8_t bits)
{
    buf_put_u8(out, 0xE2);
    buf_put_u8(out, (uint8_t)(0xA0 | bits >> 6));
    buf_put_u8(out, (uint8_t)(0x80 | (bits & 0x3F)));
}

static void frame_put_dots(struct buf *out, const struct frame *f, unsigned row)
{
    unsigned end = f->width;

    while (end > 0 && !f->dots[row][end - 1]) {
        end--;
    }
    for (unsigned i = 0; i < end; i++) {
        uint8_t bits = f->dots[row][i];

        if (f->p->ascii || !bits) {
            buf_put_u8(out, bits ? '*' : ' ');
        } else {
            put_braille(out, bits);
        }
    }
}

static void frame_put_rows(struct buf *out, const struct frame *f)
{
    bool ascii = f->p->ascii;

    for (unsigned row = 0; row < f->p->rows; row++) {
        const char *label = row == 0 ? f->top : row + 1 == f->p->rows ? f->bottom : "";

        buf_printf(out, "%*s ", (int)f->label, label);
        buf_put_str(out, *label ? ascii ? "+" : "\u2524" : ascii ? "|" : "\u2502");
        frame_put_dots(out, f, row);
        buf_put_u8(out, '\n');
    }
}

static void frame_put_axis(struct buf *out, const struct frame *f, const struct bins *b)
{
    int64_t span_ns = clk_sub(b->last_ns, b->first_ns);
    unsigned takes = span_ns >= 86400 * CLK_S ? 11 : 8;
    bool both = f->width >= 2 * takes + 2;

    buf_printf(out, "%*s ", (int)f->label, "");
    buf_put_str(out, f->p->ascii ? "+" : "\u2514");
    for (unsigned i = 0; i < f->width; i++) {
        buf_put_str(out, f->p->ascii ? "-" : "\u2500");
    }
    buf_printf(out, "\n%*s", (int)f->label + 2, "");
    put_moment(out, b->first_ns, span_ns);
    if (both) {
        buf_printf(out, "%*s", (int)(f->width - 2 * takes), "");
        put_moment(out, b->last_ns, span_ns);
    }
    buf_put_u8(out, '\n');
}

static void frame_make(struct frame *f, const struct plot *p, int64_t least, int64_t most)
{
    unsigned columns = p->columns < 20 ? 20 : p->columns > PLOT_COLUMNS ? PLOT_COLUMNS : p->columns;

    f->p = p;
    f->scale = scale_of(least, most);
    label_of(f->top, p->unit, f->scale.high);
    label_of(f->bottom, p->unit, f->scale.low);
    f->label = (unsigned)(strlen(f->top) > strlen(f->bottom) ? strlen(f->top) : strlen(f->bottom));
    f->width = columns > f->label + 6 ? columns - f->label - 2 : 4;
}

enum err plot_graph(struct buf *out, const struct plot *p)
{
    int64_t least, most, last;
    struct frame *f;
    struct bins *b;
    enum err e = ERR_NOMEM;

    put_title(out, p);
    if (!plot_range(p, &least, &most, &last)) {
        return ERR_OK;
    }
    f = mem_zalloc(sizeof *f);
    b = mem_zalloc(sizeof *b);
    if (f && b) {
        frame_make(f, p, least, most);
        e = bins_fill(b, p, f->width * (p->ascii ? 1 : 2));
    }
    if (!e) {
        frame_draw(f, b);
        frame_put_rows(out, f);
        frame_put_axis(out, f, b);
    }
    mem_free(f);
    mem_free(b);
    return e;
}

/* -- bars -- */

enum err plot_bars(struct buf *out, const struct plot *p)
{
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char ascii[] = "_.:-=+*#";
    int64_t least, most, last;
    struct scale scale;
    struct bins *b;
    enum err e;

    if (!plot_range(p, &least, &most, &last)) {
        return ERR_OK;
    }
    b = mem_zalloc(sizeof *b);
    if (!b) {
        return ERR_NOMEM;
    }
    e = bins_fill(b, p, p->columns ? p->columns : 1);
    scale = scale_of(least, most);
    for (size_t i = 0; i < b->n && !e; i++) {
        unsigned at = scale_level(&scale, b->bin[i].most, 8);

        if (!b->bin[i].have) {
            buf_put_u8(out, ' ');
        } else if (p->ascii) {
            buf_put_u8(out, (uint8_t)ascii[at]);
        } else {
            buf_put_str(out, bars[at]);
        }
    }
    mem_free(b);
    return e;
}

enum err plot_spark(struct buf *out, const struct plot *p)
{
    int64_t least, most, last;
    enum err e = ERR_OK;

    put_title(out, p);
    if (plot_range(p, &least, &most, &last)) {
        e = plot_bars(out, p);
        buf_put_u8(out, '\n');
    }
    return e;
}
