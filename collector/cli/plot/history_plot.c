#include "collector/cli/plot/history_plot.h"

#include <string.h>

#include "collector/cli/fields.h"
#include "collector/cli/plot/plot.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/text/humanize.h"
#include "common/text/style.h"

#define PLOT_TEXT  (256u << 10) /* bytes of one plot */
#define GRAPH      6u           /* rows of one */
#define TITLE_PART 40u          /* columns of a name in a title */

struct process {
    struct uuid host;
    uint32_t pid;
    uint64_t start;
    char title[1024]; /* harmless */
    size_t n, cap;
    int64_t *numbers; /* n × (when, have, a value for each metric) */
};

struct history_plot {
    enum history_plot_how how;
    int64_t step_ns;
    uint8_t n_metrics;
    uint8_t metrics[WIRE_METRICS_MAX];
    size_t n_rows, n_more_rows; /* kept; left out */
    size_t n_processes;
    struct process processes[HISTORY_PLOT_PROCESSES];
    bool more_processes;
    enum err e;
};

enum err history_plot_create(struct history_plot **out, enum history_plot_how how, int64_t step_ns)
{
    struct history_plot *h = mem_zalloc(sizeof *h);

    if (!h) {
        return ERR_NOMEM;
    }
    h->how = how;
    h->step_ns = step_ns;
    *out = h;
    return ERR_OK;
}

void history_plot_destroy(struct history_plot *h)
{
    if (h) {
        for (size_t i = 0; i < h->n_processes; i++) {
            mem_free(h->processes[i].numbers);
        }
        mem_free(h);
    }
}

/* -- gathering -- */

static void process_title(struct process *p, const struct wire_answer *a,
                          const struct wire_row *row)
{
    struct str name = row->info.name, host = a->hosts[row->host].name;
    struct buf b;

    buf_init(&b, sizeof p->title - 1); /* "" if accents without end fill it */
    humanize_text(&b, (struct str){name.p, humanize_prefix(name.p, name.n, TITLE_PART)});
    buf_printf(&b, " %u on ", row->info.id.pid);
    humanize_text(&b, (struct str){host.p, humanize_prefix(host.p, host.n, TITLE_PART)});
    memcpy(p->title, buf_cstr(&b), strlen(buf_cstr(&b)) + 1);
    buf_fini(&b);
}

/* The row's process, begun when it is new; NULL when there is no room for another. */
static struct process *process_find(struct history_plot *h, const struct wire_answer *a,
                                    const struct wire_row *row)
{
    const struct uuid *host = &a->hosts[row->host].id;
    struct process *p;

    for (size_t i = 0; i < h->n_processes; i++) {
        p = &h->processes[i];
        if (p->pid == row->info.id.pid && p->start == row->info.id.start &&
            memcmp(&p->host, host, sizeof *host) == 0) {
            return p;
        }
    }
    if (h->n_processes == HISTORY_PLOT_PROCESSES) {
        h->more_processes = true;
        return NULL;
    }
    p = &h->processes[h->n_processes++];
    *p = (struct process){.host = *host, .pid = row->info.id.pid, .start = row->info.id.start};
    process_title(p, a, row);
    return p;
}

static size_t row_width(const struct history_plot *h)
{
    return 2u + h->n_metrics;
}

static enum err process_grow(const struct history_plot *h, struct process *p)
{
    size_t cap = p->cap ? 2 * p->cap : 256;
    int64_t *more = mem_array(cap, row_width(h) * sizeof *more);

    if (!more) {
        return ERR_NOMEM;
    }
    if (p->n) {
        memcpy(more, p->numbers, p->n * row_width(h) * sizeof *more);
    }
    mem_free(p->numbers);
    p->numbers = more;
    p->cap = cap;
    return ERR_OK;
}

void history_plot_row(void *ctx, const struct wire_answer *a, const struct wire_row *row)
{
    struct history_plot *h = ctx;
    struct process *p;
    int64_t *to;

    if (h->n_rows == 0) {
        h->n_metrics = a->n_metrics;
        memcpy(h->metrics, a->metrics, a->n_metrics);
    }
    if (h->e || h->how == HISTORY_PLOT_NONE || row->host >= a->n_hosts ||
        a->n_metrics != h->n_metrics) {
        return;
    }
    p = process_find(h, a, row);
    if (!p || h->n_rows == HISTORY_PLOT_ROWS) {
        h->n_more_rows += p != NULL;
        return;
    }
    if (p->n == p->cap) {
        h->e = process_grow(h, p);
        if (h->e) {
            return;
        }
    }
    to = p->numbers + p->n++ * row_width(h);
    to[0] = row->when_ns;
    to[1] = (int64_t)row->have;
    for (size_t i = 0; i < h->n_metrics; i++) {
        to[2 + i] = row->have >> i & 1 ? row->values[i] : 0;
    }
    h->n_rows++;
}

/* -- printing -- */

static bool plot_is_wanted(const struct history_plot *h)
{
    return h->how == HISTORY_PLOT_BRAILLE || h->how == HISTORY_PLOT_SPARK ||
           (h->how == HISTORY_PLOT_MAYBE && h->n_processes == 1 &&
            h->processes[0].n >= HISTORY_PLOT_LEAST);
}

static void put_points(const struct history_plot *h, const struct process *p, size_t metric,
                       struct plot_point *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const int64_t *row = p->numbers + i * row_width(h);

        out[i] = (struct plot_point){row[0], row[2 + metric], (uint64_t)row[1] >> metric & 1};
    }
}

/* Counters are what they grew from one row to the next. */
static void put_metric_title(const struct history_plot *h, const struct metric *m, struct buf *b)
{
    buf_put_str(b, m->name);
    if (m->kind == METRIC_COUNTER && h->step_ns) {
        buf_put_str(b, " in ");
        humanize_ns(b, h->step_ns);
    } else if (m->kind == METRIC_COUNTER) {
        buf_put_str(b, " per sample");
    }
}

static enum err print_metric(const struct history_plot *h, const struct process *p, size_t metric,
                             struct plot *plot, FILE *to)
{
    const struct metric *m = metric_by_id(h->metrics[metric]);
    struct plot_point *points;
    struct fields f = {.n = 0};
    struct buf b, title;
    enum err e = ERR_OK;

    fields_add_metric(&f, h->metrics[metric], true);
    if (!m || f.n == 0) {
        return ERR_OK; /* one that this program does not know */
    }
    points = mem_array(p->n, sizeof *points);
    if (!points) {
        return ERR_NOMEM;
    }
    put_points(h, p, metric, points);
    buf_init(&b, PLOT_TEXT);
    buf_init(&title, 128);
    put_metric_title(h, m, &title);
    plot->title = buf_cstr(&title);
    plot->unit = f.columns[0].unit;
    plot->points = points;
    plot->n = p->n;
    e = h->how == HISTORY_PLOT_SPARK ? plot_spark(&b, plot) : plot_graph(&b, plot);
    fwrite(b.p, 1, b.n, to);
    buf_fini(&title);
    buf_fini(&b);
    mem_free(points);
    return e;
}

static void print_title(const struct process *p, FILE *to)
{
    bool bold = to == stdout && style_wanted();
    struct buf b;

    buf_init(&b, sizeof p->title + 64);
    if (bold) {
        style_put(&b, STYLE_BOLD, true);
    }
    buf_put_str(&b, p->title);
    if (bold) {
        style_put(&b, STYLE_PLAIN, true);
    }
    fprintf(to, "%s\n", buf_cstr(&b));
    buf_fini(&b);
}

enum err history_plot_print(const struct history_plot *h, FILE *to, unsigned columns, bool ascii)
{
    struct plot plot = {.columns = columns, .rows = GRAPH, .ascii = ascii};
    enum err e = h->e;

    if (!plot_is_wanted(h)) {
        return ERR_OK;
    }
    for (size_t i = 0; i < h->n_processes && !e; i++) {
        fputs(i > 0 || h->how == HISTORY_PLOT_MAYBE ? "\n" : "", to);
        print_title(&h->processes[i], to);
        for (size_t k = 0; k < h->n_metrics && !e; k++) {
            e = print_metric(h, &h->processes[i], k, &plot, to);
        }
    }
    if (h->more_processes) {
        fprintf(to, "more than %u processes: --host, --pid and --name choose\n",
                HISTORY_PLOT_PROCESSES);
    }
    if (h->n_more_rows) {
        fprintf(to, "%zu newer %s not in the plots: --step or --since make rows fewer\n",
                h->n_more_rows, plural(h->n_more_rows, "row is", "rows are"));
    }
    return e;
}
