/* The lines around the table, and the pages that are no table. */
#include "collector/cli/watch/watch.h"

#include <inttypes.h>
#include <string.h>

#include "collector/cli/fields.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/text/humanize.h"
#include "common/wire/wire_overview.h"

#define LINE_BYTES 4096u       /* of a line before it is put */
#define LATE_NS    (3 * CLK_S) /* so late an answer is worth a word */

unsigned watch_head_rows(const struct watch *w)
{
    return w->rows >= 12 ? 3 : w->rows >= 8 ? 2 : 1;
}

unsigned watch_table_rows(const struct watch *w)
{
    unsigned other = watch_head_rows(w) + 2; /* its header, the last line */

    return w->rows > other ? w->rows - other : 0;
}

static unsigned put(struct screen *s, unsigned row, unsigned column, unsigned style,
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

void watch_put_span(struct buf *b, int64_t ns)
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
        put(s, row, column, STYLE_BOLD | STYLE_RED, b);
    } else if (w->paused) {
        buf_put_str(b, "paused");
        put(s, row, column, STYLE_BOLD | STYLE_YELLOW, b);
    } else {
        buf_put_str(b, w->answered_ns ? "connected" : "asking");
        put(s, row, column, STYLE_GREEN, b);
    }
}

/* Who answers, when it did, and whether it still does. */
static void draw_first(const struct watch *w, struct screen *s, int64_t now_ns, struct buf *b)
{
    int64_t age_ns = clk_sub(now_ns, w->answered_ns);
    char when[CLK_TEXT];
    unsigned at;

    buf_put_str(b, screen_columns(s) >= 60 ? "procfleet " : "");
    at = put(s, 0, 0, STYLE_BOLD, b);
    if (screen_columns(s) >= 60) {
        buf_printf(b, "%s  ", w->collector);
    }
    if (w->answered_ns) {
        (void)clk_format_utc(when, sizeof when, w->answered_ns, 0);
        buf_printf(b, "%.8sZ ", strlen(when) > 19 ? when + 11 : "");
    }
    if (w->answered_ns && (w->problem[0] || (age_ns > w->every_ns + LATE_NS && !w->paused))) {
        buf_put_str(b, "(");
        watch_put_span(b, age_ns / CLK_S * CLK_S);
        buf_put_str(b, " ago) ");
    }
    at = put(s, 0, at, STYLE_PLAIN, b);
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
        at = put(s, row, at, STYLE_PLAIN, b);
        buf_printf(b, " %u silent", o->silent);
        at = put(s, row, at, o->silent ? STYLE_BOLD | STYLE_YELLOW : STYLE_PLAIN, b);
        if (o->clones) {
            buf_printf(b, " %u %s", o->clones, plural(o->clones, "clone", "clones"));
            at = put(s, row, at, STYLE_BOLD | STYLE_RED, b);
        }
        buf_printf(b, "  processes %" PRIu64, o->processes);
        put_cpu(w, b, o->now_ns);
        buf_put_str(b, "  ");
        at = put(s, row, at, STYLE_PLAIN, b);
    }
    if (coverage.n) {
        buf_put(b, coverage.p, coverage.n < LINE_BYTES / 2 ? coverage.n : LINE_BYTES / 2);
        put(s, row, at, w->table->rows->partial ? STYLE_YELLOW : STYLE_PLAIN, b);
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
    watch_put_span(b, q->window_ns);
    buf_put_str(b, "  every ");
    watch_put_span(b, w->every_ns);
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
    put(s, row, 0, STYLE_PLAIN, b);
}

/* -- the last line -- */

static void draw_prompt(const struct watch *w, struct screen *s, unsigned row, struct buf *b)
{
    unsigned columns = screen_columns(s), at;
    size_t width;

    buf_put_str(b, w->prompt == WATCH_ASK_HOST ? "host (glob, empty = all): "
                                               : "name (glob or part, empty = all): ");
    at = put(s, row, 0, STYLE_BOLD, b);
    at = at + 8 < columns ? at : 0;
    width = humanize_width(w->typed, w->typed_n);
    if (at + width + 1 < columns) {
        buf_put(b, w->typed, w->typed_n);
        at = put(s, row, at, STYLE_PLAIN, b);
    } else { /* only its end fits */
        size_t skip = width - (columns - at - 1);
        size_t from = humanize_prefix(w->typed, w->typed_n, skip);

        buf_put(b, w->typed + from, w->typed_n - from);
        at = put(s, row, at, STYLE_PLAIN, b);
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
    put(s, row, 0, STYLE_DIM, b);
}

/* -- pages -- */

void watch_draw_help(const struct watch *w, struct screen *s, unsigned top)
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
    put(s, row, 0, STYLE_DIM, b);
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

void watch_draw_events(const struct watch *w, struct screen *s, unsigned top)
{
    const struct wire_answer *a = w->events ? w->events->rows : NULL;
    unsigned bottom = screen_rows(s) - 1, room;
    size_t n = a ? a->n_events : 0, end, first;
    struct buf b;

    buf_init(&b, LINE_BYTES);
    buf_printf(&b, "Events of %s in the last ", w->ask.who.host_name);
    watch_put_span(&b, w->ask.past_ns);
    if (n) {
        buf_printf(&b, "  (%zu)", n);
    } else {
        buf_put_str(&b, a ? "  none" : "");
    }
    put(s, top, 0, STYLE_BOLD, &b);
    room = bottom > top + 1 ? bottom - top - 1 : 0;
    end = n > w->back ? n - w->back : 0;
    first = end > room ? end - room : 0;
    for (size_t i = first; i < end; i++) {
        draw_event(w, s, top + 1 + (unsigned)(i - first), i, &b);
    }
    buf_fini(&b);
}

/* -- the picture -- */

void watch_draw(const struct watch *w, struct screen *s, int64_t now_ns)
{
    unsigned rows = screen_rows(s), head = watch_head_rows(w);
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
        watch_draw_help(w, s, head);
    } else if (w->ask.page == WATCH_DETAILS) {
        watch_draw_details(w, s, head);
    } else if (w->ask.page == WATCH_EVENTS) {
        watch_draw_events(w, s, head);
    } else {
        watch_draw_table(w, s, head);
    }
    buf_reset(&b);
    draw_last(w, s, rows - 1, &b);
    buf_fini(&b);
}
