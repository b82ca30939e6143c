#include "common/lab/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/lab/compare.h"
#include "common/lab/compare_print.h"
#include "common/lab/ended.h"
#include "common/lab/host_class.h"
#include "common/lab/report_svg.h"
#include "common/text/humanize.h"

/* The page has a style of its own, whose hash stands in its policy: everything else - scripts,
 * pictures, fonts, addresses - is refused by the browser. Each plot has a table below it with the
 * same figures. Tables that people sort come in the usual orders, one below the other, folded. */

#define STYLE                                                                                  \
    "body{font:15px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;" \
    "color:#1b1f24;background:#fff}h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em}"      \
    "table{border-collapse:collapse;margin:.7em 0;font-variant-numeric:tabular-nums}"          \
    "caption{text-align:left;font-weight:600;padding:.3em 0}"                                  \
    "th,td{padding:.2em .7em;border-bottom:1px solid #d0d7de;text-align:left;"                 \
    "vertical-align:top;overflow-wrap:anywhere}td.n,th.n{text-align:right}td.n,td.t,th{white-" \
    "space:nowrap}"                                                                            \
    "svg{display:block;max-width:100%;height:auto}svg text{font-size:12px;fill:#1b1f24}"       \
    "text.name{text-anchor:end}text.tick{text-anchor:middle;fill:#57606a}"                     \
    ".grid{stroke:#d8dee4}.zero{stroke:#1b1f24}"                                               \
    ".more{stroke:#b3261e;stroke-width:3}.less{stroke:#12683c;stroke-width:3}"                 \
    ".none{stroke:#57606a;stroke-width:3}circle{fill:#1b1f24}"                                 \
    ".loss{fill:#c9a227;fill-opacity:.35}.life{fill:#3b6ea8}.failed{fill:#c9731f}"             \
    ".crash{fill:#b3261e}polyline{fill:none;stroke-width:1.6}"                                 \
    ".g0{stroke:#1f5fa8}.g1{stroke:#b3261e}.g2{stroke:#12683c}.g3{stroke:#8a4fbf}"             \
    ".g4{stroke:#b26a00}.g5{stroke:#00727a}.g6{stroke:#a3295f}.g7{stroke:#5a6b00}"             \
    ".g8{stroke:#4a4fd0}.g9{stroke:#7a4a21}.g10{stroke:#3f7f5f}.g11{stroke:#c2410c}"           \
    ".g12{stroke:#8c959f}.verdict{font-size:1.15em;border-left:4px solid #1b1f24;"             \
    "padding:.3em .8em}.note{color:#57606a}"                                                   \
    "@media print{body{margin:0;color:#000}tr,svg{break-inside:avoid}}"

/* Base 64 of the style's SHA-256; e2e_report compares. */
#define STYLE_HASH "UefKQBI7uNS66Vk6srFMeiJHixk4OjeTTyVE3cdw7SY="

#define LIVES_DRAWN   2000u
#define LIVES_FEWER   500u
#define LIVES_LISTED  200u
#define GROUPS_LISTED 40u

struct page {
    struct buf *out;
    const struct report *r;
    size_t lives; /* drawn */
};

/* -- elements -- */

static void put(struct page *p, const char *text)
{
    buf_put_str(p->out, text);
}

static void put_text(struct page *p, struct str text)
{
    report_svg_text(p->out, text);
}

static void put_ns(struct page *p, int64_t ns)
{
    humanize_ns(p->out, ns);
}

static void put_time(struct page *p, int64_t ns)
{
    char text[CLK_TEXT];

    put(p, clk_format_utc(text, CLK_TEXT, ns, 0));
}

static void table_open(struct page *p, const char *caption, const char *const *titles)
{
    put(p, "<table><caption>");
    put_text(p, str_make(caption));
    put(p, "</caption><thead><tr>");
    for (size_t i = 0; titles[i]; i++) {
        bool number = titles[i][0] == '#'; /* of columns of numbers */

        buf_printf(p->out, "<th scope=\"col\"%s>", number ? " class=\"n\"" : "");
        put_text(p, str_make(titles[i] + number));
        put(p, "</th>");
    }
    put(p, "</tr></thead><tbody>\n");
}

static void table_close(struct page *p)
{
    put(p, "</tbody></table>\n");
}

static void row_open(struct page *p, struct str head)
{
    put(p, "<tr><th scope=\"row\">");
    put_text(p, head.n ? head : str_make("(unknown)"));
    put(p, "</th>");
}

static void row_close(struct page *p)
{
    put(p, "</tr>\n");
}

static void cell_text(struct page *p, struct str text)
{
    put(p, "<td>");
    put_text(p, text);
    put(p, "</td>");
}

static void cell_open(struct page *p)
{
    put(p, "<td class=\"n\">");
}

static void cell_close(struct page *p)
{
    put(p, "</td>");
}

static void cell_count(struct page *p, uint64_t n)
{
    cell_open(p);
    buf_printf(p->out, "%" PRIu64, n);
    cell_close(p);
}

/* -- what was compared -- */

static void put_verdict(struct page *p)
{
    const struct compare *c = p->r->compare;
    size_t told = 0;

    put(p, "<p class=\"verdict\">");
    if (!c) {
        buf_printf(p->out, "%zu %s, ", p->r->n_runs, plural(p->r->n_runs, "run", "runs"));
        put(p, "not compared with others.</p>\n");
        return;
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct compare_row *row = &c->rows[i];
        char name[QUANTITY_TEXT];

        if (row->of_group || (row->says != COMPARE_MORE && row->says != COMPARE_LESS)) {
            continue;
        }
        put(p, told++ ? "; " : "");
        put(p, quantity_name(name, row->quantity));
        put(p, " ");
        compare_print_change(p->out, row, row->effect);
        put(p, " (");
        compare_print_interval(p->out, row);
        put(p, ")");
    }
    put(p, told           ? "."
           : c->made == 0 ? "No verdict: see the notes below."
                          : "No difference is shown.");
    put(p, "</p>\n");
}

static void put_class(struct page *p, const struct run_host *h)
{
    char text[HOST_CLASS_TEXT];

    (void)host_class_text(text, h->facts, h->n_facts,
                          p->r->class_keys ? p->r->class_keys : host_class_default);
    cell_text(p, str_make(text[0] ? text : "unknown"));
}

static void put_runs(struct page *p, const char *caption, const struct run_file *const *runs,
                     size_t n)
{
    static const char *const titles[] = {"Run",       "Began (UTC)", "#Took", "#Hosts", "Labels",
                                         "#Revision", "#Coverage %", "Id",    NULL};

    table_open(p, caption, titles);
    for (size_t i = 0; i < n; i++) {
        const struct run_file *f = runs[i];
        uint32_t ppm = 1000000;
        char id[UUID_TEXT];

        for (size_t k = 0; k < f->n_hosts; k++) {
            ppm = f->hosts[k].ppm < ppm ? f->hosts[k].ppm : ppm;
        }
        row_open(p, f->head.name);
        put(p, "<td class=\"t\">");
        put_time(p, f->head.begin_ns);
        put(p, "</td>");
        cell_open(p);
        put_ns(p, f->head.end_ns - f->head.begin_ns);
        cell_close(p);
        cell_count(p, f->n_hosts);
        put(p, "<td>");
        for (size_t k = 0; k < f->head.n_labels; k++) {
            put(p, k ? " " : "");
            put_text(p, f->head.labels[k].key);
            put(p, "=");
            put_text(p, f->head.labels[k].value);
        }
        put(p, "</td>");
        cell_count(p, f->head.revision);
        cell_open(p);
        buf_printf(p->out, "%.2f", ppm / 1e4);
        cell_close(p);
        cell_text(p, (struct str){uuid_format(id, &f->head.id), 8});
        row_close(p);
    }
    table_close(p);
}

static int by_change(const void *x, const void *y)
{
    const struct compare_row *a = *(const struct compare_row *const *)x,
                             *b = *(const struct compare_row *const *)y;
    double da = isfinite(a->effect) ? fabs(a->effect) : 0,
           db = isfinite(b->effect) ? fabs(b->effect) : 0;

    return (db > da) - (db < da);
}

static int by_group(const void *x, const void *y)
{
    const struct compare_row *a = *(const struct compare_row *const *)x,
                             *b = *(const struct compare_row *const *)y;
    size_t n = a->group.n < b->group.n ? a->group.n : b->group.n;
    int d = n ? memcmp(a->group.p, b->group.p, n) : 0;

    return d ? d : (a->group.n > b->group.n) - (a->group.n < b->group.n);
}

static void put_changes_in(struct page *p, const char *caption,
                           const struct compare_row *const *rows, size_t n)
{
    static const char *const titles[] = {"Quantity, group", "#A", "#B",   "#Change",
                                         "#95 % interval",  "#q", "Says", NULL};
    const struct compare_print x = {.c = p->r->compare};

    table_open(p, caption, titles);
    for (size_t i = 0; i < n; i++) {
        const struct compare_row *row = rows[i];
        char name[QUANTITY_TEXT];

        put(p, "<tr><th scope=\"row\">");
        put(p, quantity_name(name, row->quantity));
        if (row->of_group) {
            put(p, " of ");
            put_text(p, row->group);
        }
        put(p, "</th>");
        cell_open(p);
        compare_print_value(p->out, row, row->a);
        cell_close(p);
        cell_open(p);
        compare_print_value(p->out, row, row->b);
        cell_close(p);
        cell_open(p);
        compare_print_change(p->out, row, row->effect);
        cell_close(p);
        cell_open(p);
        compare_print_interval(p->out, row);
        cell_close(p);
        cell_open(p);
        if (row->says == COMPARE_SAYS_NOTHING || row->says == COMPARE_NOT_TESTED) {
            put(p, "-");
        } else {
            buf_printf(p->out, "%.2g", row->q);
        }
        cell_close(p);
        put(p, "<td>");
        compare_print_says(p->out, &x, row);
        put(p, "</td>");
        row_close(p);
    }
    table_close(p);
}

static enum err put_changes(struct page *p)
{
    const struct compare *c = p->r->compare;
    const struct compare_row **rows = mem_array(c->n_rows ? c->n_rows : 1, sizeof(void *));

    if (!rows) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        rows[i] = &c->rows[i];
    }
    put(p, "<h2 id=\"changes\">Changes</h2>\n");
    report_svg_changes(p->out, c->rows, c->n_rows);
    put_changes_in(p, "Changes of B against A", rows, c->n_rows);
    if (c->n_rows > 2) {
        qsort(rows, c->n_rows, sizeof *rows, by_change);
        put(p, "<details><summary>By size of the change</summary>\n");
        put_changes_in(p, "Changes, the largest first", rows, c->n_rows);
        put(p, "</details>\n<details><summary>By group</summary>\n");
        qsort(rows, c->n_rows, sizeof *rows, by_group);
        put_changes_in(p, "Changes, by group", rows, c->n_rows);
        put(p, "</details>\n");
    }
    mem_free(rows);
    return ERR_OK;
}

static void put_values(struct page *p)
{
    static const char *const titles[] = {"Side", "#Value", NULL};
    const struct compare *c = p->r->compare;

    put(p, "<h2 id=\"runs\">Values of each run</h2>\n");
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct compare_row *row = &c->rows[i];
        char name[QUANTITY_TEXT];

        if (row->of_group || row->n_runs_a + row->n_runs_b == 0) {
            continue;
        }
        buf_printf(p->out, "<h3>%s</h3>\n", quantity_name(name, row->quantity));
        report_svg_runs(p->out, row);
        put(p, "<details><summary>As a table</summary>\n");
        table_open(p, name, titles);
        for (size_t k = 0; k < row->n_runs_a + row->n_runs_b; k++) {
            bool b = k >= row->n_runs_a;

            row_open(p, str_make(b ? "B" : "A"));
            cell_open(p);
            compare_print_value(p->out, row, b ? row->runs_b[k - row->n_runs_a] : row->runs_a[k]);
            cell_close(p);
            row_close(p);
        }
        table_close(p);
        put(p, "</details>\n");
    }
}

static void put_around(struct page *p)
{
    const struct compare_print x = {.c = p->r->compare, .a = p->r->against, .b = p->r->names};
    struct buf text;

    put(p, "<h2 id=\"notes\">What else differs, and what was left out</h2>\n");
    buf_init(&text, 1u << 18);
    compare_print_notes(&text, &x);
    put(p, "<ul>\n");
    for (const char *at = buf_cstr(&text), *end; *at; at = *end ? end + 1 : end) {
        end = strchr(at, '\n');
        end = end ? end : at + strlen(at);
        put(p, "<li>");
        put_text(p, (struct str){at, (size_t)(end - at)});
        put(p, "</li>\n");
    }
    put(p, text.n ? "</ul>\n" : "<li>nothing</li></ul>\n");
    p->out->bad = p->out->bad ? p->out->bad : text.bad;
    buf_fini(&text);
}

/* -- one run -- */

struct group {
    struct str name;
    double cpu, peak, read, written;
    uint64_t processes, failed, crashed;
};

static int group_by_cpu(const void *x, const void *y)
{
    const struct group *a = x, *b = y;

    return (b->cpu > a->cpu) - (b->cpu < a->cpu);
}

static int group_by_peak(const void *x, const void *y)
{
    const struct group *a = x, *b = y;

    return (b->peak > a->peak) - (b->peak < a->peak);
}

static int group_by_name(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int d = n ? memcmp(a->name.p, b->name.p, n) : 0;

    return d ? d : (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

static double value_of(const struct run_file *f, const struct run_row *row, enum quantity_of of,
                       unsigned metric)
{
    double v = 0;

    return quantity_of_row(&v, f, row, (struct quantity){(uint8_t)of, (uint8_t)metric}) ? v : 0;
}

/* Sums of the images. Peaks are sums of the peaks of each host: no more than that is known. */
static size_t groups_sum(struct group *groups, const struct run_file *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_rows; i++) {
        const struct run_row *row = &f->rows[i];
        size_t k = 0;

        if (row->of != RUN_ROW_CELL || (f->head.has_root && f->head.root_pid && !row->in_tree)) {
            continue;
        }
        while (k < n && !str_eq(groups[k].name, row->image)) {
            k++;
        }
        if (k == n) {
            groups[n++] = (struct group){.name = row->image};
        }
        groups[k].cpu += value_of(f, row, QUANTITY_TOTAL, M_CPU_TIME);
        groups[k].peak += value_of(f, row, QUANTITY_PEAK, M_PRIVATE_BYTES);
        groups[k].read += value_of(f, row, QUANTITY_TOTAL, M_READ_BYTES);
        groups[k].written += value_of(f, row, QUANTITY_TOTAL, M_WRITE_BYTES);
        groups[k].processes += row->instances;
        groups[k].failed += row->failed;
        groups[k].crashed += row->crashed;
    }
    return n;
}

static void cell_bytes(struct page *p, double v)
{
    cell_open(p);
    humanize_bytes(p->out, (int64_t)fmin(v, 9e18));
    cell_close(p);
}

static void put_groups_in(struct page *p, const char *caption, const struct group *groups, size_t n)
{
    static const char *const titles[] = {"Image",        "#Processes", "#CPU time",
                                         "#Peak memory", "#Read",      "#Written",
                                         "#Failed",      "#Crashed",   NULL};

    table_open(p, caption, titles);
    for (size_t i = 0; i < n && i < GROUPS_LISTED; i++) {
        row_open(p, groups[i].name);
        cell_count(p, groups[i].processes);
        cell_open(p);
        put_ns(p, (int64_t)fmin(groups[i].cpu, 9e18));
        cell_close(p);
        cell_bytes(p, groups[i].peak);
        cell_bytes(p, groups[i].read);
        cell_bytes(p, groups[i].written);
        cell_count(p, groups[i].failed);
        cell_count(p, groups[i].crashed);
        row_close(p);
    }
    table_close(p);
    if (n > GROUPS_LISTED) {
        buf_printf(p->out, "<p class=\"note\">%zu more images are left out.</p>\n",
                   n - GROUPS_LISTED);
    }
}

static enum err put_groups(struct page *p, const struct run_file *f)
{
    struct group *groups = mem_array(f->n_rows ? f->n_rows : 1, sizeof *groups);
    size_t n;

    if (!groups) {
        return ERR_NOMEM;
    }
    n = groups_sum(groups, f);
    qsort(groups, n, sizeof *groups, group_by_cpu);
    put_groups_in(p, "What took part, most CPU time first", groups, n);
    qsort(groups, n, sizeof *groups, group_by_peak);
    put(p, "<details><summary>By memory</summary>\n");
    put_groups_in(p, "What took part, most memory first", groups, n);
    qsort(groups, n, sizeof *groups, group_by_name);
    put(p, "</details>\n<details><summary>By name</summary>\n");
    put_groups_in(p, "What took part, by name", groups, n);
    put(p, "</details>\n");
    mem_free(groups);
    return ERR_OK;
}

static void put_hosts(struct page *p, const struct run_file *f)
{
    static const char *const titles[] = {"Host",         "Class",       "Agent",
                                         "Source",       "#Coverage %", "#Lost events",
                                         "#Clock error", "Labels",      NULL};

    table_open(p, "Hosts", titles);
    for (size_t i = 0; i < f->n_hosts; i++) {
        const struct run_host *h = &f->hosts[i];

        row_open(p, h->name);
        put_class(p, h);
        cell_text(p, h->agent);
        cell_text(p, h->absent ? str_make("nothing came") : h->source);
        cell_open(p);
        buf_printf(p->out, "%.2f", h->ppm / 1e4);
        cell_close(p);
        cell_count(p, h->lost_events);
        cell_open(p);
        put_ns(p, h->clock_error_ns);
        cell_close(p);
        put(p, "<td>");
        for (size_t k = 0; k < h->n_labels; k++) {
            put(p, k ? " " : "");
            put_text(p, h->labels[k].key);
            put(p, "=");
            put_text(p, h->labels[k].value);
        }
        put(p, "</td>");
        row_close(p);
    }
    table_close(p);
}

static void put_losses(struct page *p, const struct run_file *f)
{
    static const char *const titles[] = {"Host", "From (UTC)", "#For", "#Ticks", "#Events", NULL};
    size_t spans = 0;

    for (size_t i = 0; i < f->n_hosts; i++) {
        spans += f->hosts[i].n_spans;
    }
    if (spans == 0) {
        put(p, "<p>Nothing is known to be lost.</p>\n");
        return;
    }
    table_open(p, "Losses by host and time", titles);
    for (size_t i = 0; i < f->n_hosts; i++) {
        for (size_t k = 0; k < f->hosts[i].n_spans; k++) {
            const struct run_span *s = &f->hosts[i].spans[k];

            row_open(p, f->hosts[i].name);
            put(p, "<td class=\"t\">");
            put_time(p, s->first_ns);
            put(p, "</td>");
            cell_open(p);
            put_ns(p, s->last_ns - s->first_ns);
            cell_close(p);
            cell_count(p, s->ticks);
            cell_open(p);
            buf_printf(p->out, s->at_most ? "unknown" : "%" PRIu64, s->events);
            cell_close(p);
            row_close(p);
        }
    }
    table_close(p);
}

static void put_ended(struct page *p, const struct run_life *l)
{
    const struct proc_info info = ended_life(l);
    char text[ENDED_TEXT];

    if (!(l->flags & RUN_LIFE_ENDED)) {
        put(p, "lives on");
    } else if (!(l->flags & RUN_LIFE_EXIT_KNOWN)) {
        put(p, "unknown");
    } else {
        put(p, ended_text(text, &info));
    }
}

static void put_lives_table(struct page *p, const char *caption, const struct run_file *f,
                            const struct run_life *lives, size_t n)
{
    static const char *const titles[] = {"Process",   "#PID",  "Host",   "Began (UTC)", "#Lived",
                                         "#CPU time", "Ended", "Parent", "Command",     NULL};

    table_open(p, caption, titles);
    for (size_t i = 0; i < n; i++) {
        const struct run_life *l = &lives[i];

        row_open(p, l->name);
        cell_count(p, l->pid);
        cell_text(p, f->hosts[l->host].name);
        put(p, "<td class=\"t\">");
        put_time(p, l->begin_ns);
        put(p, "</td>");
        cell_open(p);
        put_ns(p, l->end_ns - l->begin_ns);
        cell_close(p);
        cell_open(p);
        if (l->cpu_ns >= 0) {
            put_ns(p, l->cpu_ns);
        } else {
            put(p, "-");
        }
        cell_close(p);
        put(p, "<td>");
        put_ended(p, l);
        put(p, "</td>");
        cell_text(p, l->parent_name);
        cell_text(p, l->command);
        row_close(p);
    }
    table_close(p);
}

/* What stands below a plot: of each line the sum and the largest step, of a gauge mean and most. */
static void put_series_table(struct page *p, const struct run_series *s, size_t m)
{
    static const char *const titles[] = {"Image", "#Sum (of a gauge: mean)", "#Most in a step",
                                         NULL};
    const struct metric *metric = metric_by_id(s->metrics[m]);
    const struct compare_row unit = {.quantity = {QUANTITY_TOTAL, s->metrics[m]}};

    table_open(p, metric->name, titles);
    for (size_t g = 0; g < s->n_groups; g++) {
        const int64_t *v = s->values + (g * s->n_metrics + m) * s->n_buckets;
        double sum = 0, most = 0, n = 0;

        for (uint32_t i = 0; i < s->n_buckets; i++) {
            if (v[i] >= 0) {
                sum += (double)v[i];
                most = fmax(most, (double)v[i]);
                n++;
            }
        }
        row_open(p, s->groups[g].n ? s->groups[g] : str_make("all others"));
        cell_open(p);
        compare_print_value(p->out, &unit, metric->kind == METRIC_GAUGE && n > 0 ? sum / n : sum);
        cell_close(p);
        cell_open(p);
        compare_print_value(p->out, &unit, most);
        cell_close(p);
        row_close(p);
    }
    table_close(p);
}

static void put_series(struct page *p, const struct run_file *f)
{
    static const char *const titles[] = {"Line", "Image", NULL};
    const struct run_series *s = &f->series;

    for (size_t m = 0; m < s->n_metrics; m++) {
        const struct metric *metric = metric_by_id(s->metrics[m]);

        if (!metric) {
            continue;
        }
        buf_printf(p->out, "<h3>%s over time</h3>\n", metric->name);
        if (!report_svg_series(p->out, s, metric->id)) {
            put(p, "<p>Nothing was measured.</p>\n");
        }
        put_series_table(p, s, m);
    }
    if (s->n_groups == 0) {
        return;
    }
    table_open(p, "Lines of these plots", titles);
    for (size_t g = 0; g < s->n_groups; g++) {
        put(p, "<tr><th scope=\"row\">");
        buf_printf(p->out,
                   "<svg width=\"40\" height=\"12\" viewBox=\"0 0 40 12\" role=\"img\" "
                   "aria-label=\"line %zu\"><polyline class=\"g%zu\" points=\"0,6 40,6\"/></svg>",
                   g + 1, g % 13);
        put(p, "</th>");
        cell_text(p, s->groups[g].n ? s->groups[g] : str_make("all others"));
        row_close(p);
    }
    table_close(p);
}

static void put_lives(struct page *p, const struct run_file *f)
{
    size_t listed = f->n_lives < LIVES_LISTED ? f->n_lives : LIVES_LISTED;
    uint64_t left;

    if (f->n_lives == 0) {
        return;
    }
    put(p, "<h3>Who lived when</h3>\n");
    left = f->lives_left_out + f->n_lives - report_svg_lives(p->out, f, p->lives);
    if (left) {
        buf_printf(p->out, "<p class=\"note\">%" PRIu64 " shorter lives are left out.</p>\n", left);
    }
    put(p, "<details><summary>As a table, the longest</summary>\n");
    put_lives_table(p, "Processes", f, f->lives, listed);
    put(p, "</details>\n");
}

static void put_notices(struct page *p, const struct run_file *f)
{
    static const char *const titles[] = {"Rule", "When (UTC)", "Subject", "State", "Text", NULL};

    if (f->n_notices == 0) {
        return;
    }
    table_open(p, "Notices", titles);
    for (size_t i = 0; i < f->n_notices; i++) {
        row_open(p, f->notices[i].rule);
        put(p, "<td class=\"t\">");
        put_time(p, f->notices[i].when_ns);
        put(p, "</td>");
        cell_text(p, f->notices[i].subject);
        cell_text(p, f->notices[i].state);
        cell_text(p, f->notices[i].text);
        row_close(p);
    }
    table_close(p);
}

static enum err put_run(struct page *p, const struct run_file *f)
{
    enum err e;

    put(p, "<h2>Run ");
    put_text(p, f->head.name);
    put(p, "</h2>\n");
    put_hosts(p, f);
    put_losses(p, f);
    e = put_groups(p, f);
    put_series(p, f);
    put_lives(p, f);
    if (f->n_crashes) {
        put_lives_table(p, "Crashes", f, f->crashes, f->n_crashes);
    } else {
        put(p, "<p>No crashes.</p>\n");
    }
    put_notices(p, f);
    return e;
}

/* -- the page -- */

static void put_how(struct page *p)
{
    const struct compare *c = p->r->compare;

    put(p, "<h2 id=\"how\">How it was made</h2>\n<p>By ");
    put_text(p, str_make(p->r->made_by));
    put(p, " with:</p>\n<pre>");
    put_text(p, str_make(p->r->command));
    put(p, "</pre>\n");
    if (c) {
        buf_printf(p->out,
                   "<p>%zu+%zu runs, %s, %s; %zu tests made of %zu that so many runs can carry; "
                   "%zu earlier runs for the noise floor. Mann and Whitney's exact test on "
                   "logarithms, two-sided; the change is the median of all differences (Hodges "
                   "and Lehmann) with an interval of 95 %% from the same test; q is p corrected "
                   "by Benjamini and Hochberg.</p>\n",
                   c->a.n_judged, c->b.n_judged,
                   c->pool ? "a stratum for each host" : "one stratum",
                   c->interleaved ? "interleaved" : "not interleaved", c->made, c->can_carry,
                   c->floor_runs);
    }
}

static enum err put_page(struct page *p)
{
    const struct compare *c = p->r->compare;
    enum err e = ERR_OK;

    put(p, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
           "'sha256-" STYLE_HASH "'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
           "<title>");
    put_text(p, str_make(p->r->names));
    put(p, c ? " against " : "");
    put_text(p, str_make(c ? p->r->against : ""));
    put(p, "</title>\n<style>" STYLE "</style></head>\n<body><main>\n<h1>");
    put_text(p, str_make(p->r->names));
    put(p, c ? " against " : "");
    put_text(p, str_make(c ? p->r->against : ""));
    put(p, "</h1>\n");
    put_verdict(p);
    if (c) {
        put_runs(p, "A", c->a.judged, c->a.n_judged);
        put_runs(p, "B", c->b.judged, c->b.n_judged);
        e = put_changes(p);
        put_values(p);
        put_around(p);
    } else {
        put_runs(p, "Runs", p->r->runs, p->r->n_runs);
    }
    if (!e && p->r->n_runs) { /* the newest in full */
        e = put_run(p, p->r->runs[p->r->n_runs - 1]);
    }
    put_how(p);
    put(p, "</main></body></html>\n");
    return e ? e : p->out->bad;
}

enum err report_write(struct buf *out, const struct report *r)
{
    static const size_t lives[] = {LIVES_DRAWN, LIVES_FEWER, 0};
    size_t before = out->n;
    enum err e = ERR_FULL;

    for (size_t i = 0; i < sizeof lives / sizeof *lives && e == ERR_FULL; i++) {
        struct page p = {out, r, lives[i]};

        out->n = before;
        out->bad = ERR_OK;
        e = put_page(&p);
        if (!e && out->n - before > REPORT_MAX) {
            e = ERR_FULL;
        }
    }
    return e;
}
