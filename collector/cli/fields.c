#include "collector/cli/fields.h"

#include <string.h>

void fields_add(struct fields *f, enum field what, bool in_table)
{
    if (f->n < TABLE_COLUMNS) {
        f->what[f->n] = (int)what;
        f->columns[f->n] = *field_column(what);
        if (!in_table) {
            f->columns[f->n].title = NULL;
        }
        f->n++;
    }
}

void fields_add_provider(struct fields *f)
{
    for (enum field what = FIELD_PROVIDER; what <= FIELD_REDACTED; what++) {
        fields_add(f, what, false);
    }
}

bool fields_has_metric(const struct fields *f, unsigned id)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->what[i] == (int)(FIELD_METRIC + id)) {
            return true;
        }
    }
    return false;
}

void fields_add_metric(struct fields *f, unsigned id, bool in_table)
{
    const struct metric *m = metric_by_id(id);

    if (m && f->n < TABLE_COLUMNS && !fields_has_metric(f, id)) {
        f->what[f->n] = (int)(FIELD_METRIC + id);
        f->columns[f->n].key = m->name;
        f->columns[f->n].title = in_table ? m->name : NULL;
        f->columns[f->n].unit = table_unit_of(m);
        f->n++;
    }
}

/* What is told by other columns, or seldom asked for, goes first. Threads: one. */
enum err fields_sheet(const struct fields *f, const struct cli *c, struct table **out, bool live)
{
    static const char *const order[] = {
        "CPU_FROM",   "PPID",         "TID",  "STARTED", "EXIT",      "write_bytes",
        "read_bytes", "thread_count", "USER", "HOSTS",   "PROCESSES", "working_set_size",
        "cpu_percent"};
    static const char *yields[sizeof order / sizeof *order + 1];
    size_t n = 0;

    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!f->keep || strcmp(order[i], f->keep) != 0) {
            yields[n++] = order[i];
        }
    }
    yields[n] = NULL;
    return cli_table(c, out, live, f->columns, f->n, yields);
}

void fields_row(const struct fields *f, struct table_cell *cells, const struct wire_answer *a,
                const struct wire_row *row)
{
    for (size_t i = 0; i < f->n; i++) {
        cells[i] = field_of_row(f->what[i], a, row);
    }
}

void fields_event(const struct fields *f, struct table_cell *cells, const struct wire_answer *a,
                  const struct wire_event *event)
{
    static struct field_room room; /* as long as the program */

    if (!room.values.max) {
        field_room_init(&room);
    }
    for (size_t i = 0; i < f->n; i++) {
        cells[i] = field_of_event(f->what[i], a, event, &room);
    }
}

enum err fields_kinds_given(uint32_t *bits, const struct cli *c, struct errmsg *why)
{
    const char *lists[OPT_MANY_MAX];
    size_t n = opt_values(c->args, "kind", lists, OPT_MANY_MAX);

    *bits = 0;
    for (size_t i = 0; i < n; i++) {
        struct errmsg wrong = {""};
        uint32_t more;
        enum err e = field_kinds(&more, lists[i], &wrong);

        if (e) {
            return errmsg_set(why, e, "--kind: %s", wrong.text);
        }
        *bits |= more;
    }
    return ERR_OK;
}

/* -- words of options -- */

/* Those that field_metric takes. */
static const char *metric_word(size_t i)
{
    return i == 0 ? metric_by_id(M_CPU_PERCENT)->name : metric_column_name(i - 1);
}

const struct opt_set fields_sets[] = {
    {"METRIC", metric_word}, {"KIND", field_kind_word}, {NULL, NULL}};
