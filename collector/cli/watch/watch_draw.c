/* The picture: lines around the table, the table, the pages that are no table. */
#include "collector/cli/watch/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/cli/fields.h"
#include "collector/cli/plot/plot.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/text/humanize.h"
#include "common/wire/wire_overview.h"

#define LINE_BYTES 4096u       /* of a line before it is put */
#define LATE_NS    (3 * CLK_S) /* so late an answer is worth a word */

#define COLUMNS_MAX 16u
#define CELL_MAX    1024u /* bytes of a cell as text */
#define NAMES       1u    /* rank of the column that says what a row is */
#define NAME_WIDTH  20u   /* what it gets where there are ROOMY columns */
#define ROOMY       60u

#define PLOT_BYTES  (64u << 10)
#define PARENTS_MAX 16u
#define PARENT      24u /* columns of a parent's name */
#define TITLE       18u /* columns of a metric's name beside its bars */
#define FIGURES     30u /* and of what stands behind them */

/* Lines above the table's rows without its header. */
static unsigned head_rows(const struct watch *w)
{
    return w->rows >= 12 ? 3 : w->rows >= 8 ? 2 : 1;
}

unsigned watch_draw_table_rows(const struct watch *w)
{
    unsigned other = head_rows(w) + 2; /* its header, the last line */

    return w->rows > other ? w->rows - other : 0;
}

static unsigned line_put(struct screen *s, unsigned row, unsigned column, unsigned style,
                         struct buf *line)
{
    unsigned columns = screen_columns(s), taken = 0;

    if (column < columns) {
        taken = screen_put(s, row, column, columns - column, style,
                           (struct str){(const char *)line->p, line->n});
    }
    buf_reset(line);
    return column + taken;
}

/* "500ms", "2s", "1min", "24h": the steps of the two keys, without fractions. */
static void put_span(struct buf *b, int64_t ns)
{
    static const struct {
        int64_t ns;
        const char *unit;
    } table[] = {{3600 * CLK_S, "h"}, {60 * CLK_S, "min"}, {CLK_S, "s"}, {CLK_MS, "ms"}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (ns >= table[i].ns && ns % table[i].ns == 0) {
            buf_printf(b, "%" PRId64 "%s", ns / table[i].ns, table[i].unit);
            return;
        }
    }
    humanize_ns(b, ns);
}

/* -- the head -- */

static void put_state(const struct watch *w, struct screen *s, unsigned row, unsigned column,
                      struct buf *b)
{
    if (w->problem[0]) {
        buf_put_str(b, w->problem);
        line_put(s, row, column, STYLE_BOLD | STYLE_RED, b);
    } else if (w->paused) {
        buf_put_str(b, "paused");
        line_put(s, row, column, STYLE_BOLD | STYLE_YELLOW, b);
    } else {
        buf_put_str(b, w->answered_ns ? "connected" : "asking");
        line_put(s, row, column, STYLE_GREEN, b);
    }
}

/* Who answers, when it did, and whether it still does. */
static void draw_first(const struct watch *w, struct screen *s, int64_t now_ns, struct buf *b)
{
    int64_t age_ns = clk_sub(now_ns, w->answered_ns);
    char when[CLK_TEXT];
    unsigned at;

    buf_put_str(b, screen_columns(s) >= 60 ? "procfleet " : "");
    at = line_put(s, 0, 0, STYLE_BOLD, b);
    if (screen_columns(s) >= 60) {
        buf_printf(b, "%s  ", w->collector);
    }
    if (w->answered_ns) {
        (void)clk_format_utc(when, sizeof when, w->answered_ns, 0);
        buf_printf(b, "%.8sZ ", strlen(when) > 19 ? when + 11 : "");
    }
    if (w->answered_ns && (w->problem[0] || (age_ns > w->every_ns + LATE_NS && !w->paused))) {
        buf_put_str(b, "(");
        put_span(b, age_ns / CLK_S * CLK_S);
        buf_put_str(b, " ago) ");
    }
    at = line_put(s, 0, at, STYLE_PLAIN, b);
    put_state(w, s, 0, at, b);
}

/* Whether its data is of now: rows of others are of the last time they were heard. */
static bool is_live(const struct watch *w, const struct wire_host *h, int64_t now_ns)
{
    return !h->ended &&
           (h->connected || clk_add(h->last_ns, h->offset_ns) >= clk_sub(now_ns, w->ask.window_ns));
}

/* CPU of the hosts that live, as the share of all their processors. */
static void put_cpu(const struct watch *w, struct buf *b, int64_t now_ns)
{
    const struct wire_answer *a = w->fleet->hosts;
    int64_t permille = 0;
    uint64_t cpus = 0;

    for (size_t i = 0; a && i < a->n_rows; i++) {
        const struct wire_host *h = &a->hosts[a->rows[i].host];

        if (a->n_metrics && (a->rows[i].have & 1) && is_live(w, h, now_ns)) {
            permille = clk_add(permille, a->rows[i].values[0]);
            cpus += h->cpus;
        }
    }
    if (cpus) {
        buf_put_str(b, "  cpu ");
        humanize_permille(b, permille / (int64_t)cpus);
        buf_printf(b, " of %" PRIu64, cpus);
    }
}

/* The sentence of the answer about what is missing: its last note. */
static struct str coverage_of(const struct watch *w)
{
    const struct wire_answer *a = w->table ? w->table->rows : NULL;
    struct str note = a && a->n_notes ? a->notes[a->n_notes - 1] : str_make(NULL);

    return note.n >= 8 && memcmp(note.p, "coverage", 8) == 0 ? note : str_make(NULL);
}

static void draw_fleet(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    const struct wire_answer *a = w->fleet ? w->fleet->overview : NULL;
    const struct wire_overview *o = a ? a->overview : NULL;
    struct str coverage = coverage_of(w);
    unsigned at = 0;

    if (o) {
        buf_printf(b, "hosts %u connected", o->connected);
        at = line_put(s, row, at, STYLE_PLAIN, b);
        buf_printf(b, " %u silent", o->silent);
        at = line_put(s, row, at, o->silent ? STYLE_BOLD | STYLE_YELLOW : STYLE_PLAIN, b);
        if (o->clones) {
            buf_printf(b, " %u %s", o->clones, plural(o->clones, "clone", "clones"));
            at = line_put(s, row, at, STYLE_BOLD | STYLE_RED, b);
        }
        buf_printf(b, "  processes %" PRIu64, o->processes);
        put_cpu(w, b, o->now_ns);
        buf_put_str(b, "  ");
        at = line_put(s, row, at, STYLE_PLAIN, b);
    }
    if (coverage.n) {
        buf_put(b, coverage.p, coverage.n < LINE_BYTES / 2 ? coverage.n : LINE_BYTES / 2);
        line_put(s, row, at, w->table->rows->partial ? STYLE_YELLOW : STYLE_PLAIN, b);
    }
}

static const char *group_name(uint8_t group)
{
    static const char *const names[] = {"process", "image", "user", "host", "tree"};

    return group < sizeof names / sizeof *names ? names[group] : "?";
}

/* What is asked for. */
static void draw_question(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    static const char *const ways[] = {"", "sum of ", "rate of ", "max of ", "avg of "};
    const struct watch_question *q = &w->ask;

    buf_printf(b, "by %s%s  group %s  last ", q->by <= WIRE_BY_AVG ? ways[q->by] : "",
               metric_by_id(q->metrics[0])->name, group_name(q->group_by));
    put_span(b, q->window_ns);
    buf_put_str(b, "  every ");
    put_span(b, w->every_ns);
    if (q->host[0]) {
        buf_printf(b, "  host %s", q->host);
    }
    if (q->name[0]) {
        buf_printf(b, "  name %s", q->name);
    }
    if (q->has_pid) {
        buf_printf(b, "  pid %u", q->pid);
    }
    buf_put_str(b, q->idle ? "  idle" : "");
    buf_put_str(b, q->exited ? "  exited" : "");
    line_put(s, row, 0, STYLE_PLAIN, b);
}

/* -- the last line -- */

static void draw_prompt(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    unsigned columns = screen_columns(s), at;
    size_t width;

    buf_put_str(b, w->prompt == WATCH_ASK_HOST ? "host (glob, empty = all): "
                                               : "name (glob or part, empty = all): ");
    at = line_put(s, row, 0, STYLE_BOLD, b);
    at = at + 8 < columns ? at : 0;
    width = humanize_width(w->typed, w->typed_n);
    if (at + width + 1 < columns) {
        buf_put(b, w->typed, w->typed_n);
        at = line_put(s, row, at, STYLE_PLAIN, b);
    } else { /* only its end fits */
        size_t skip = width - (columns - at - 1);
        size_t from = humanize_prefix(w->typed, w->typed_n, skip);

        buf_put(b, w->typed + from, w->typed_n - from);
        at = line_put(s, row, at, STYLE_PLAIN, b);
    }
    screen_put(s, row, at < columns ? at : columns - 1, 1, STYLE_REVERSE, str_make(" "));
}

static void draw_last(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    const struct wire_answer *a = w->table ? w->table->rows : NULL;

    if (w->prompt != WATCH_NO_PROMPT) {
        draw_prompt(w, s, row, b);
        return;
    }
    if (w->help) {
        buf_put_str(b, "any key goes back");
    } else if (w->ask.page == WATCH_TABLE) {
        if (a && a->n_rows) {
            buf_printf(b, "%zu/%zu%s  ", w->selected + 1, a->n_rows,
                       a->n_rows >= w->ask.limit ? "+" : "");
        }
        buf_put_str(b, "? help  q quit  Enter details  e events  g group  / name  h host");
    } else {
        buf_put_str(b, "Esc back  ? help  q quit  [ ] window  space pause");
    }
    line_put(s, row, 0, STYLE_DIM, b);
}

/* -- pages -- */

static void draw_help(const struct watch *w, struct screen *s, unsigned top)
{
    static const char *const lines[] = {
        "c m r w t    order by cpu, memory, read, written, threads",
        "< >          order by the column before, behind",
        "g            group: process, image, user, host, tree",
        "h /          filter by host, by name (a glob, or part of a name)",
        "i            show the idle process or hide it",
        "arrows, page up, page down, home, end   move",
        "Enter        a process: history, command line, parents; a group: its processes",
        "e            events of its host",
        "[ ]          look at a shorter, longer time",
        "+ -          refresh more slowly, more often",
        "space        pause",
        "Esc          back to the table",
        "q            quit; ^Z stops as usual, ^L draws anew",
        "",
        "Figures are of the last moments of each host's data, as the head says. Dim rows",
        "are of processes that ended or hosts that are silent.",
    };

    (void)w;
    for (unsigned i = 0; i < sizeof lines / sizeof *lines && top + i + 1 < screen_rows(s); i++) {
        screen_put(s, top + i, 0, screen_columns(s), STYLE_PLAIN, str_make(lines[i]));
    }
}

static void draw_event(const struct watch *w, struct screen *s, unsigned row, size_t index,
                       struct buf *b)
{
    const struct wire_answer *a = w->events->rows;
    const struct wire_event *ev = &a->events[index];
    struct fields f = {.n = 0};
    struct table_cell cells[5];
    char when[CLK_TEXT];

    fields_add(&f, FIELD_KIND, true);
    fields_add(&f, FIELD_PID, true);
    fields_add(&f, FIELD_NAME, true);
    fields_add(&f, FIELD_EXIT_CODE, true);
    fields_add(&f, FIELD_DETAIL, true);
    fields_event(&f, cells, a, ev);
    (void)clk_format_utc(when, sizeof when, ev->event.wall_ns, 3);
    buf_printf(b, "%.12s ", strlen(when) > 23 ? when + 11 : "");
    line_put(s, row, 0, STYLE_DIM, b);
    for (size_t i = 0, at = 13; i < f.n; i++) {
        static const unsigned width[] = {14, 8, 20, 11, 999};

        cells[i].text.n = cells[i].text.n < 500 ? cells[i].text.n : 500;
        buf_reset(b);
        if (cells[i].state != TABLE_ABSENT) {
            table_put_cell(b, f.columns[i].unit, &cells[i]);
        }
        screen_put(s, row, (unsigned)at, width[i] - 1, STYLE_PLAIN,
                   (struct str){(const char *)b->p, b->n});
        at += width[i];
    }
    buf_reset(b);
}

static void draw_events(const struct watch *w, struct screen *s, unsigned top)
{
    const struct wire_answer *a = w->events ? w->events->rows : NULL;
    unsigned bottom = screen_rows(s) - 1, room;
    size_t n = a ? a->n_events : 0, end, first;
    struct buf b;

    buf_init(&b, LINE_BYTES);
    buf_printf(&b, "Events of %s in the last ", w->ask.who.host_name);
    put_span(&b, w->ask.past_ns);
    if (n) {
        buf_printf(&b, "  (%zu)", n);
    } else {
        buf_put_str(&b, a ? "  none" : "");
    }
    line_put(s, top, 0, STYLE_BOLD, &b);
    room = bottom > top + 1 ? bottom - top - 1 : 0;
    end = n > w->back ? n - w->back : 0;
    first = end > room ? end - room : 0;
    for (size_t i = first; i < end; i++) {
        draw_event(w, s, top + 1 + (unsigned)(i - first), i, &b);
    }
    buf_fini(&b);
}

/* -- the table: columns that fit the width, the most important first. Figures have a width of their
 * own; texts get what they need as far as there is room, the command line what is left. */

struct column {
    int what; /* enum field, or FIELD_METRIC + id */
    const char *title;
    uint8_t width;      /* least */
    uint8_t most;       /* of texts: worth while; 0 = a figure */
    uint8_t rank;       /* 0 is dropped last */
    bool rate;          /* growth is shown for a second */
    unsigned at, takes; /* as laid out; takes 0 = dropped */
};

struct grid {
    const struct watch *w;
    const struct watch_question *q; /* that the rows answer: a newer one may be under way */
    const struct wire_answer *a;
    size_t n;
    struct column column[COLUMNS_MAX];
};

/* -- which columns there are, from left to right -- */

static void column_add(struct grid *t, struct column c)
{
    if (t->n < COLUMNS_MAX) {
        t->column[t->n++] = c;
    }
}

static void columns_heads(struct grid *t)
{
    uint8_t by = t->q->group_by;

    if (by == WIRE_GROUP_NONE || by == WIRE_GROUP_TREE) {
        column_add(t, (struct column){FIELD_PID, "PID", 7, 0, 3, false, 0, 0});
        column_add(t, (struct column){FIELD_HOST, "HOST", 6, 20, 5, false, 0, 0});
        column_add(t, (struct column){FIELD_NAME, "NAME", 8, 28, 1, false, 0, 0});
    } else if (by == WIRE_GROUP_IMAGE) {
        column_add(t, (struct column){FIELD_NAME, "NAME", 8, 40, 1, false, 0, 0});
    } else if (by == WIRE_GROUP_USER) {
        column_add(t, (struct column){FIELD_USER, "USER", 8, 40, 1, false, 0, 0});
    } else if (by == WIRE_GROUP_IMAGE_USER) {
        column_add(t, (struct column){FIELD_NAME, "NAME", 8, 28, 1, false, 0, 0});
        column_add(t, (struct column){FIELD_USER, "USER", 8, 20, 3, false, 0, 0});
    } else {
        column_add(t, (struct column){FIELD_HOST, "HOST", 8, 40, 1, false, 0, 0});
    }
    if (by != WIRE_GROUP_NONE) {
        column_add(t, (struct column){FIELD_INSTANCES, "PROCS", 6, 0, 5, false, 0, 0});
    }
    if (by == WIRE_GROUP_IMAGE || by == WIRE_GROUP_USER || by == WIRE_GROUP_IMAGE_USER) {
        column_add(t, (struct column){FIELD_HOSTS, "HOSTS", 5, 0, 6, false, 0, 0});
    }
}

static void column_metric(struct grid *t, uint8_t id)
{
    static const struct column known[] = {
        {FIELD_METRIC + M_CPU_PERCENT, "CPU%", 7, 0, 2, false, 0, 0},
        {FIELD_METRIC + M_WORKING_SET_SIZE, "MEMORY", 9, 0, 4, false, 0, 0},
        {FIELD_METRIC + M_READ_BYTES, "READ/s", 9, 0, 6, true, 0, 0},
        {FIELD_METRIC + M_WRITE_BYTES, "WRITTEN/s", 9, 0, 7, true, 0, 0},
        {FIELD_METRIC + M_THREAD_COUNT, "THREADS", 7, 0, 8, false, 0, 0},
        {FIELD_METRIC + M_CPU_TIME, "CPU TIME", 8, 0, 9, false, 0, 0},
    };
    struct column c = {FIELD_METRIC + id, metric_by_id(id)->name, 10, 0, 0, false, 0, 0};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        c = known[i].what == FIELD_METRIC + id ? known[i] : c;
    }
    if (id == t->q->metrics[0]) {
        c.rank = 0;
        c.rate = c.rate && t->q->by == WIRE_BY_USUAL;
    }
    column_add(t, c);
}

static void columns_choose(struct grid *t, const struct watch *w)
{
    uint8_t metrics[WATCH_METRICS_MAX];
    size_t n = watch_metrics(w, metrics);

    t->w = w;
    t->q = w->table ? &w->table->question : &w->ask;
    t->a = w->table ? w->table->rows : NULL;
    t->n = 0;
    columns_heads(t);
    for (size_t i = 0; i < n; i++) {
        column_metric(t, metrics[i]);
    }
    if (t->q->group_by == WIRE_GROUP_NONE || t->q->group_by == WIRE_GROUP_TREE) {
        column_add(t, (struct column){FIELD_USER, "USER", 6, 16, 10, false, 0, 0});
        column_add(t, (struct column){FIELD_COMMAND_LINE, "COMMAND", 10, 255, 11, false, 0, 0});
    }
}

/* -- how wide they are -- */

static void column_put_cell(struct buf *b, const struct grid *t, const struct column *c,
                            const struct wire_row *row)
{
    struct fields f = {.n = 0};
    struct table_cell cell;

    if (c->what >= FIELD_METRIC) {
        fields_add_metric(&f, (unsigned)(c->what - FIELD_METRIC), true);
    } else {
        fields_add(&f, (enum field)c->what, true);
    }
    fields_row(&f, &cell, t->a, row);
    if (c->rate && t->q->window_ns > 0) {
        cell.number = (int64_t)((double)cell.number * (double)CLK_S / (double)t->q->window_ns);
    }
    if (cell.text.n > CELL_MAX / 4 - 1) {
        cell.text.n = CELL_MAX / 4 - 1; /* more than any column shows, and room for escapes */
    }
    buf_reset(b);
    table_put_cell(b, f.columns[0].unit, &cell);
}

/* What the rows in sight need of a column. */
static unsigned column_needed(const struct grid *t, const struct column *c, struct buf *b)
{
    unsigned width = c->width;

    for (size_t i = 0; t->a && i < watch_draw_table_rows(t->w) && t->w->first + i < t->a->n_rows;
         i++) {
        size_t n;

        column_put_cell(b, t, c, &t->a->rows[t->w->first + i]);
        n = humanize_width((const char *)b->p, b->n);
        width = n > width ? (unsigned)n : width;
    }
    return width < c->most ? width : c->most;
}

/* The most important columns at their least width, as many as there is room for. */
static unsigned columns_keep(struct grid *t, unsigned width)
{
    unsigned used = 0;

    for (unsigned rank = 0; rank < COLUMNS_MAX; rank++) {
        for (size_t i = 0; i < t->n; i++) {
            struct column *c = &t->column[i];
            unsigned more = c->width + (used ? 1u : 0u);

            if (c->rank == rank && used + more <= width) {
                c->takes = c->width;
                used += more;
            }
        }
    }
    return used;
}

static void columns_lay_out(struct grid *t, unsigned width, struct buf *b)
{
    unsigned left, at = 0;
    struct column *name = NULL;

    for (size_t i = 0; i < t->n && width >= ROOMY; i++) {
        struct column *c = &t->column[i];

        if (c->rank == NAMES) { /* readable names before the last columns */
            unsigned want = column_needed(t, c, b);

            c->width = (uint8_t)(want < NAME_WIDTH ? want : NAME_WIDTH);
        }
    }
    left = width - columns_keep(t, width);
    for (unsigned rank = 0; rank < COLUMNS_MAX; rank++) {
        for (size_t i = 0; i < t->n; i++) {
            struct column *c = &t->column[i];

            if (c->rank == rank && c->takes && c->most && left) {
                unsigned want = column_needed(t, c, b),
                         more = want > c->takes ? want - c->takes : 0;

                more = more < left ? more : left;
                c->takes += more;
                left -= more;
            }
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        struct column *c = &t->column[i];

        name = c->rank == NAMES ? c : name;
        c->at = at;
        at += c->takes ? c->takes + 1 : 0;
    }
    if (name && at == 0) { /* none has room */
        name->takes = width;
    }
}

/* -- drawing -- */

static void table_header(const struct grid *t, struct screen *s, unsigned row)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct column *c = &t->column[i];
        bool order = c->what == FIELD_METRIC + t->q->metrics[0];
        unsigned style = STYLE_BOLD | STYLE_CYAN | (order ? STYLE_REVERSE : 0u);

        if (c->takes && c->most) {
            screen_put(s, row, c->at, c->takes, style, str_make(c->title));
        } else if (c->takes) {
            screen_put_right(s, row, c->at, c->takes, style, str_make(c->title));
        }
    }
}

/* What is not of now stands back: ended processes, and those of hosts that are silent. */
static unsigned row_style(const struct grid *t, const struct wire_row *row)
{
    bool away = row->host < t->a->n_hosts && !t->a->hosts[row->host].connected;

    return away || (row->info.have & INFO_EXIT_TIME) ? STYLE_DIM : STYLE_PLAIN;
}

static void table_draw_row(const struct grid *t, struct screen *s, unsigned at, size_t index,
                           struct buf *b)
{
    const struct wire_row *row = &t->a->rows[index];
    unsigned style = row_style(t, row);

    for (size_t i = 0; i < t->n; i++) {
        const struct column *c = &t->column[i];
        struct str text;

        if (!c->takes) {
            continue;
        }
        column_put_cell(b, t, c, row);
        text = (struct str){(const char *)b->p, b->n};
        if (c->most) {
            screen_put(s, at, c->at, c->takes, style, text);
        } else {
            screen_put_right(s, at, c->at, c->takes, style, text);
        }
    }
    if (index == t->w->selected) {
        screen_paint(s, at, 0, screen_columns(s), STYLE_REVERSE);
    }
}

static void draw_table(const struct watch *w, struct screen *s, unsigned top)
{
    struct grid t;
    struct buf b;

    buf_init(&b, CELL_MAX);
    columns_choose(&t, w);
    columns_lay_out(&t, screen_columns(s), &b);
    table_header(&t, s, top);
    for (unsigned i = 0; t.a && i < watch_draw_table_rows(w) && w->first + i < t.a->n_rows; i++) {
        table_draw_row(&t, s, top + 1 + i, w->first + i, &b);
    }
    if (t.a && t.a->n_rows == 0) {
        screen_put(s, top + 1, 0, screen_columns(s), STYLE_DIM,
                   str_make("no process fits; h and / change the filters, ] looks further back"));
    }
    buf_fini(&b);
}

/* -- details of one process: what it is, where it comes from, how its metrics went -- */

static bool details_is_it(const struct watch *w, const struct wire_row *row)
{
    return row->info.id.pid == w->ask.who.pid && row->info.id.start == w->ask.who.start;
}

/* The process in the tree of its host; SIZE_MAX when it is not there. */
static size_t details_in_tree(const struct watch *w)
{
    const struct wire_answer *a = w->details ? w->details->tree : NULL;

    for (size_t i = 0; a && i < a->n_rows; i++) {
        if (details_is_it(w, &a->rows[i])) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* What is known of it: the tree's row, else that of its newest sample. */
static const struct proc_info *details_info(const struct watch *w)
{
    const struct wire_answer *a = w->details ? w->details->rows : NULL;
    size_t at = details_in_tree(w);

    if (at != SIZE_MAX) {
        return &w->details->tree->rows[at].info;
    }
    return a && a->n_rows ? &a->rows[a->n_rows - 1].info : NULL;
}

static void details_put_line(struct screen *s, unsigned row, unsigned style, struct buf *b)
{
    if (row + 1 < screen_rows(s)) {
        screen_put(s, row, 0, screen_columns(s), style, (struct str){(const char *)b->p, b->n});
    }
    buf_reset(b);
}

/* From the first ancestor to the process itself: rows above it whose depth is one less each. */
static void details_put_parents(const struct watch *w, struct buf *b)
{
    const struct wire_answer *a = w->details->tree;
    size_t chain[PARENTS_MAX], n = 0, at = details_in_tree(w);

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

static void details_put_text(struct buf *b, const char *title, struct str text)
{
    buf_put_str(b, title);
    humanize_text(b, (struct str){text.p, text.n < LINE_BYTES / 8 ? text.n : LINE_BYTES / 8});
}

static void details_put_facts(struct buf *b, const struct proc_info *p)
{
    char when[CLK_TEXT];

    buf_printf(b, "pid %u", p->id.pid);
    if (p->have & INFO_PARENT) {
        buf_printf(b, "  parent %u", p->parent_pid);
    }
    if (p->user.n) {
        details_put_text(b, "  user ", p->user);
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

/* Returns the row below. */
static unsigned details_facts(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    const struct proc_info *p = details_info(w);

    details_put_text(b, "", str_make(w->ask.who.name));
    details_put_text(b, " on ", str_make(w->ask.who.host_name));
    details_put_line(s, row++, STYLE_BOLD, b);
    if (!p) {
        buf_put_str(b,
                    w->details ? "no samples of it in this time; ] looks further back" : "asking");
        details_put_line(s, row++, STYLE_DIM, b);
        return row;
    }
    details_put_facts(b, p);
    details_put_line(s, row++, STYLE_PLAIN, b);
    details_put_parents(w, b);
    if (b->n) {
        details_put_line(s, row++, STYLE_PLAIN, b);
    }
    if (p->image.n) {
        details_put_text(b, "image    ", p->image);
        details_put_line(s, row++, STYLE_PLAIN, b);
    }
    details_put_text(b, "command  ", p->command_line.n ? p->command_line : str_make("-"));
    details_put_line(s, row++, STYLE_PLAIN, b);
    return row;
}

/* -- how it went -- */

/* The metric's values of this process. Returns how many points there are. */
static size_t details_points(const struct watch *w, size_t metric, struct plot_point *out)
{
    const struct wire_answer *a = w->details->rows;
    size_t n = 0;

    for (size_t i = 0; i < a->n_rows; i++) {
        const struct wire_row *row = &a->rows[i];

        if (details_is_it(w, row)) {
            bool have = row->have >> metric & 1;

            out[n++] = (struct plot_point){row->when_ns, have ? row->values[metric] : 0, have};
        }
    }
    return n;
}

static void details_lines(struct screen *s, unsigned row, const struct buf *b)
{
    const char *p = (const char *)b->p, *end = p + b->n;

    while (p < end && row + 1 < screen_rows(s)) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);

        screen_put(s, row++, 0, screen_columns(s), STYLE_PLAIN, (struct str){p, n});
        p += n + 1;
    }
}

static void details_bars(struct screen *s, unsigned row, struct plot *p, struct buf *b)
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

static void details_metric(const struct watch *w, struct screen *s, unsigned row, size_t metric,
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
    p.n = details_points(w, metric, points);
    p.columns = screen_columns(s);
    p.rows = rows > 3 ? rows - 3 : 1;
    buf_init(&b, PLOT_BYTES);
    if (rows >= 6) {
        if (plot_graph(&b, &p) == ERR_OK) {
            details_lines(s, row, &b);
        }
    } else {
        details_bars(s, row, &p, &b);
    }
    buf_fini(&b);
}

static void draw_details(const struct watch *w, struct screen *s, unsigned top)
{
    const struct wire_answer *a = w->details ? w->details->rows : NULL;
    struct plot_point *points;
    unsigned row, room, each;
    struct buf b;

    buf_init(&b, LINE_BYTES);
    row = details_facts(w, s, top, &b) + 1;
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
        details_metric(w, s, row, i, points, each);
    }
    mem_free(points);
}

/* -- the picture -- */

void watch_draw(const struct watch *w, struct screen *s, int64_t now_ns)
{
    unsigned rows = screen_rows(s), head = head_rows(w);
    struct buf b;

    buf_init(&b, LINE_BYTES);
    draw_first(w, s, now_ns, &b);
    if (head > 1) {
        draw_fleet(w, s, 1, &b);
    }
    if (head > 2) {
        draw_question(w, s, 2, &b);
    }
    if (w->help) {
        draw_help(w, s, head);
    } else if (w->ask.page == WATCH_DETAILS) {
        draw_details(w, s, head);
    } else if (w->ask.page == WATCH_EVENTS) {
        draw_events(w, s, head);
    } else {
        draw_table(w, s, head);
    }
    buf_reset(&b);
    draw_last(w, s, rows - 1, &b);
    buf_fini(&b);
}
