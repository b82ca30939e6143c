/* One process: who it is, where it comes from, how its metrics went. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/fields.h"
#include "collector/cli/plot/plot.h"
#include "collector/cli/watch/watch.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/text/humanize.h"

#define LINE_BYTES  4096u
#define PLOT_BYTES  (64u << 10)
#define PARENTS_MAX 16u
#define PARENT      24u /* columns of a parent's name */
#define TITLE       18u /* columns of a metric's name beside its bars */
#define FIGURES     30u /* and of what stands behind them */

static bool is_it(const struct watch *w, const struct wire_row *row)
{
    return row->info.id.pid == w->ask.who.pid && row->info.id.start == w->ask.who.start;
}

/* The process in the tree of its host; SIZE_MAX when it is not there. */
static size_t in_tree(const struct watch *w)
{
    const struct wire_answer *a = w->details ? w->details->tree : NULL;

    for (size_t i = 0; a && i < a->n_rows; i++) {
        if (is_it(w, &a->rows[i])) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* What is known of it: the tree's row, else that of its newest sample. */
static const struct proc_info *info_of(const struct watch *w)
{
    const struct wire_answer *a = w->details ? w->details->rows : NULL;
    size_t at = in_tree(w);

    if (at != SIZE_MAX) {
        return &w->details->tree->rows[at].info;
    }
    return a && a->n_rows ? &a->rows[a->n_rows - 1].info : NULL;
}

static void put_line(struct screen *s, unsigned row, unsigned style, struct buf *b)
{
    if (row + 1 < screen_rows(s)) {
        screen_put(s, row, 0, screen_columns(s), style, (struct str){(const char *)b->p, b->n});
    }
    buf_reset(b);
}

/* From the first ancestor to the process itself: rows above it whose depth is one less each. */
static void put_parents(const struct watch *w, struct buf *b)
{
    const struct wire_answer *a = w->details->tree;
    size_t chain[PARENTS_MAX], n = 0, at = in_tree(w);

    if (at == SIZE_MAX) {
        return;
    }
    chain[n++] = at;
    for (uint32_t depth = a->rows[at].depth; at > 0 && depth > 0 && n < PARENTS_MAX;) {
        at--;
        if (a->rows[at].depth < depth) {
            depth = a->rows[at].depth;
            chain[n++] = at;
        }
    }
    buf_put_str(b, "parents  ");
    while (n-- > 0) {
        const struct proc_info *p = &a->rows[chain[n]].info;

        humanize_text(b, (struct str){p->name.p, humanize_prefix(p->name.p, p->name.n, PARENT)});
        buf_printf(b, " %u%s", p->id.pid, n ? " > " : "");
    }
}

static void put_text(struct buf *b, const char *title, struct str text)
{
    buf_put_str(b, title);
    humanize_text(b, (struct str){text.p, text.n < LINE_BYTES / 8 ? text.n : LINE_BYTES / 8});
}

static void put_facts(struct buf *b, const struct proc_info *p)
{
    char when[CLK_TEXT];

    buf_printf(b, "pid %u", p->id.pid);
    if (p->have & INFO_PARENT) {
        buf_printf(b, "  parent %u", p->parent_pid);
    }
    if (p->user.n) {
        put_text(b, "  user ", p->user);
    }
    if (p->have & INFO_CREATE_TIME) {
        buf_printf(b, "  started %s", clk_format_utc(when, sizeof when, p->create_ns, 0));
    }
    if (p->have & INFO_EXIT_TIME) {
        buf_printf(b, "  ended %s", clk_format_utc(when, sizeof when, p->exit_ns, 0));
    }
    if (p->have & INFO_EXIT_CODE) {
        buf_printf(b, "  exit code %u", p->exit_code);
    }
}

/* Gives the row below. */
static unsigned draw_facts(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    const struct proc_info *p = info_of(w);

    put_text(b, "", str_make(w->ask.who.name));
    put_text(b, " on ", str_make(w->ask.who.host_name));
    put_line(s, row++, STYLE_BOLD, b);
    if (!p) {
        buf_put_str(b,
                    w->details ? "no samples of it in this time; ] looks further back" : "asking");
        put_line(s, row++, STYLE_DIM, b);
        return row;
    }
    put_facts(b, p);
    put_line(s, row++, STYLE_PLAIN, b);
    put_parents(w, b);
    if (b->n) {
        put_line(s, row++, STYLE_PLAIN, b);
    }
    if (p->image.n) {
        put_text(b, "image    ", p->image);
        put_line(s, row++, STYLE_PLAIN, b);
    }
    put_text(b, "command  ", p->command_line.n ? p->command_line : str_make("-"));
    put_line(s, row++, STYLE_PLAIN, b);
    return row;
}

/* -- how it went -- */

/* The metric's values of this process. Gives how many points there are. */
static size_t points_of(const struct watch *w, size_t metric, struct plot_point *out)
{
    const struct wire_answer *a = w->details->rows;
    size_t n = 0;

    for (size_t i = 0; i < a->n_rows; i++) {
        const struct wire_row *row = &a->rows[i];

        if (is_it(w, row)) {
            bool have = row->have >> metric & 1;

            out[n++] = (struct plot_point){row->when_ns, have ? row->values[metric] : 0, have};
        }
    }
    return n;
}

static void draw_lines(struct screen *s, unsigned row, const struct buf *b)
{
    const char *p = (const char *)b->p, *end = p + b->n;

    while (p < end && row + 1 < screen_rows(s)) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);

        screen_put(s, row++, 0, screen_columns(s), STYLE_PLAIN, (struct str){p, n});
        p += n + 1;
    }
}

static void draw_bars(struct screen *s, unsigned row, struct plot *p, struct buf *b)
{
    int64_t least, most, last;
    unsigned columns = screen_columns(s), width;
    struct table_cell cell;

    width = columns > TITLE + FIGURES + 10 ? columns - TITLE - FIGURES
            : columns > TITLE + 4          ? columns - TITLE
                                           : 0;
    screen_put(s, row, 0, TITLE - 1, STYLE_PLAIN, str_make(p->title));
    if (!plot_range(p, &least, &most, &last) || !width) {
        return;
    }
    p->columns = width;
    if (plot_bars(b, p) == ERR_OK) {
        screen_put(s, row, TITLE, width, STYLE_CYAN, (struct str){(const char *)b->p, b->n});
    }
    buf_reset(b);
    cell = table_number(true, last);
    table_put_cell(b, p->unit, &cell);
    buf_put_str(b, "  max ");
    cell = table_number(true, most);
    table_put_cell(b, p->unit, &cell);
    screen_put(s, row, TITLE + width + 1, FIGURES, STYLE_PLAIN,
               (struct str){(const char *)b->p, b->n});
}

static void draw_metric(const struct watch *w, struct screen *s, unsigned row, size_t metric,
                        struct plot_point *points, unsigned rows)
{
    const struct wire_answer *a = w->details->rows;
    struct fields f = {.n = 0};
    struct buf b;
    struct plot p = {.points = points, .ascii = screen_is_ascii(s)};

    fields_add_metric(&f, a->metrics[metric], true);
    if (f.n == 0) {
        return; /* one that this program does not know */
    }
    p.title = f.columns[0].title;
    p.unit = f.columns[0].unit;
    p.n = points_of(w, metric, points);
    p.columns = screen_columns(s);
    p.rows = rows > 3 ? rows - 3 : 1;
    buf_init(&b, PLOT_BYTES);
    if (rows >= 6) {
        if (plot_graph(&b, &p) == ERR_OK) {
            draw_lines(s, row, &b);
        }
    } else {
        draw_bars(s, row, &p, &b);
    }
    buf_fini(&b);
}

void watch_draw_details(const struct watch *w, struct screen *s, unsigned top)
{
    const struct wire_answer *a = w->details ? w->details->rows : NULL;
    struct plot_point *points;
    unsigned row, room, each;
    struct buf b;

    buf_init(&b, LINE_BYTES);
    row = draw_facts(w, s, top, &b) + 1;
    buf_fini(&b);
    if (!a || a->n_rows == 0 || a->n_metrics == 0 || row + 1 >= screen_rows(s)) {
        return;
    }
    points = mem_array(a->n_rows, sizeof *points);
    if (!points) {
        return;
    }
    room = screen_rows(s) - 1 - row;
    each = room / a->n_metrics;
    each = each < 6 ? 1 : each < 10 ? each : 10; /* bars, or graphs where all have room */
    for (size_t i = 0; i < a->n_metrics && row + 1 < screen_rows(s); i++, row += each) {
        draw_metric(w, s, row, i, points, each);
    }
    mem_free(points);
}
