/* The table: columns that fit the width, the most important first. Figures have a width of their
 * own; texts get what they need as far as there is room, the command line what is left. */
#include "collector/cli/watch/watch.h"

#include "collector/cli/fields.h"
#include "common/base/clk.h"
#include "common/text/humanize.h"

#define COLUMNS_MAX 16u
#define CELL_MAX    1024u /* bytes of a cell as text */
#define NAMES       1u    /* rank of the column that says what a row is */
#define NAME_WIDTH  20u   /* what it gets where there are ROOMY columns */
#define ROOMY       60u

struct column {
    int what; /* enum field, or FIELD_METRIC + id */
    const char *title;
    uint8_t width;      /* least */
    uint8_t most;       /* of texts: worth while; 0 = a figure */
    uint8_t rank;       /* 0 is dropped last */
    bool rate;          /* growth is shown for a second */
    unsigned at, takes; /* as laid out; takes 0 = dropped */
};

struct table {
    const struct watch *w;
    const struct watch_question *q; /* that the rows answer: a newer one may be under way */
    const struct wire_answer *a;
    size_t n;
    struct column column[COLUMNS_MAX];
};

/* -- which columns there are, from left to right -- */

static void add(struct table *t, struct column c)
{
    if (t->n < COLUMNS_MAX) {
        t->column[t->n++] = c;
    }
}

static void add_heads(struct table *t)
{
    uint8_t by = t->q->group_by;

    if (by == WIRE_GROUP_NONE || by == WIRE_GROUP_TREE) {
        add(t, (struct column){FIELD_PID, "PID", 7, 0, 3, false, 0, 0});
        add(t, (struct column){FIELD_HOST, "HOST", 6, 20, 5, false, 0, 0});
        add(t, (struct column){FIELD_NAME, "NAME", 8, 28, 1, false, 0, 0});
    } else if (by == WIRE_GROUP_IMAGE) {
        add(t, (struct column){FIELD_NAME, "NAME", 8, 40, 1, false, 0, 0});
    } else if (by == WIRE_GROUP_USER) {
        add(t, (struct column){FIELD_USER, "USER", 8, 40, 1, false, 0, 0});
    } else {
        add(t, (struct column){FIELD_HOST, "HOST", 8, 40, 1, false, 0, 0});
    }
    if (by != WIRE_GROUP_NONE) {
        add(t, (struct column){FIELD_INSTANCES, "PROCS", 6, 0, 5, false, 0, 0});
    }
    if (by == WIRE_GROUP_IMAGE || by == WIRE_GROUP_USER) {
        add(t, (struct column){FIELD_HOSTS, "HOSTS", 5, 0, 6, false, 0, 0});
    }
}

static void add_metric(struct table *t, uint8_t id)
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
    add(t, c);
}

static void choose(struct table *t, const struct watch *w)
{
    uint8_t metrics[WATCH_METRICS_MAX];
    size_t n = watch_metrics(w, metrics);

    t->w = w;
    t->q = w->table ? &w->table->question : &w->ask;
    t->a = w->table ? w->table->rows : NULL;
    t->n = 0;
    add_heads(t);
    for (size_t i = 0; i < n; i++) {
        add_metric(t, metrics[i]);
    }
    if (t->q->group_by == WIRE_GROUP_NONE || t->q->group_by == WIRE_GROUP_TREE) {
        add(t, (struct column){FIELD_USER, "USER", 6, 16, 10, false, 0, 0});
        add(t, (struct column){FIELD_COMMAND_LINE, "COMMAND", 10, 255, 11, false, 0, 0});
    }
}

/* -- how wide they are -- */

static void put_cell(struct buf *b, const struct table *t, const struct column *c,
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
static unsigned needed(const struct table *t, const struct column *c, struct buf *b)
{
    unsigned width = c->width;

    for (size_t i = 0; t->a && i < watch_table_rows(t->w) && t->w->first + i < t->a->n_rows; i++) {
        size_t n;

        put_cell(b, t, c, &t->a->rows[t->w->first + i]);
        n = humanize_width((const char *)b->p, b->n);
        width = n > width ? (unsigned)n : width;
    }
    return width < c->most ? width : c->most;
}

/* The most important columns at their least width, as many as there is room for. */
static unsigned keep(struct table *t, unsigned width)
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

static void lay_out(struct table *t, unsigned width, struct buf *b)
{
    unsigned left, at = 0;
    struct column *name = NULL;

    for (size_t i = 0; i < t->n && width >= ROOMY; i++) {
        struct column *c = &t->column[i];

        if (c->rank == NAMES) { /* readable names before the last columns */
            unsigned want = needed(t, c, b);

            c->width = (uint8_t)(want < NAME_WIDTH ? want : NAME_WIDTH);
        }
    }
    left = width - keep(t, width);
    for (unsigned rank = 0; rank < COLUMNS_MAX; rank++) {
        for (size_t i = 0; i < t->n; i++) {
            struct column *c = &t->column[i];

            if (c->rank == rank && c->takes && c->most && left) {
                unsigned want = needed(t, c, b), more = want > c->takes ? want - c->takes : 0;

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

static void draw_header(const struct table *t, struct screen *s, unsigned row)
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
static unsigned style_of(const struct table *t, const struct wire_row *row)
{
    bool away = row->host < t->a->n_hosts && !t->a->hosts[row->host].connected;

    return away || (row->info.have & INFO_EXIT_TIME) ? STYLE_DIM : STYLE_PLAIN;
}

static void draw_row(const struct table *t, struct screen *s, unsigned at, size_t index,
                     struct buf *b)
{
    const struct wire_row *row = &t->a->rows[index];
    unsigned style = style_of(t, row);

    for (size_t i = 0; i < t->n; i++) {
        const struct column *c = &t->column[i];
        struct str text;

        if (!c->takes) {
            continue;
        }
        put_cell(b, t, c, row);
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

void watch_draw_table(const struct watch *w, struct screen *s, unsigned top)
{
    struct table t;
    struct buf b;

    buf_init(&b, CELL_MAX);
    choose(&t, w);
    lay_out(&t, screen_columns(s), &b);
    draw_header(&t, s, top);
    for (unsigned i = 0; t.a && i < watch_table_rows(w) && w->first + i < t.a->n_rows; i++) {
        draw_row(&t, s, top + 1 + i, w->first + i, &b);
    }
    if (t.a && t.a->n_rows == 0) {
        screen_put(s, top + 1, 0, screen_columns(s), STYLE_DIM,
                   str_make("no process fits; h and / change the filters, ] looks further back"));
    }
    buf_fini(&b);
}
