#include "agent/etl/etl_process_rows.h"

#include <stdlib.h>

#include "common/base/mem.h"

enum {
    FILE_NAME,
    PID,
    PARENT,
    NAME,
    SESSION,
    USER,
    CREATED,
    EXITED,
    EXIT_CODE,
    ORIGIN,
    FIGURES, /* those of procs.h follow; then: */
    TAIL_CPU_FROM = 0,
    TAIL_COMMAND,
    TAIL_COUNT,
};

struct etl_process_rows {
    struct table *sheet;
    char by_title[32];
    size_t n_figures;
    struct table_column columns[FIGURES + ETL_COLUMNS_KEYS_MAX + TAIL_COUNT];
};

static const struct table_column heads[FIGURES] = {
    [FILE_NAME] = {"file", NULL, TABLE_TEXT},         [PID] = {"pid", "PID", TABLE_ID},
    [PARENT] = {"parent_pid", "PARENT", TABLE_ID},    [NAME] = {"name", "NAME", TABLE_TEXT},
    [SESSION] = {"session_id", "SESSION", TABLE_ID},  [USER] = {"user", NULL, TABLE_TEXT},
    [CREATED] = {"create_time", "START", TABLE_TIME}, [EXITED] = {"exit_time", "END", TABLE_TIME},
    [EXIT_CODE] = {"exit_code", "EXIT", TABLE_EXIT},  [ORIGIN] = {"origin", NULL, TABLE_TEXT},
};

/* What a table of the list shows; one of the top shows these too, and the figure asked for. */
static const char *title_of(const char *key, enum etl_process_rows_view view)
{
    static const struct {
        const char *key, *title;
        bool list;
    } all[] = {
        {"cpu_time", "CPU", true},
        {"switches_in", "SWITCHES", false},
        {"hard_faults", "HARD_FAULTS", false},
        {"disk", "DISK", false},
        {"net", "NET", false},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].key, key) == 0) {
            return view == ETL_PROCESS_ROWS_TOP || all[i].list ? all[i].title : NULL;
        }
    }
    return NULL;
}

static const char *upper_case(char *out, size_t n, const char *key)
{
    size_t i = 0;

    for (; key[i] && i + 1 < n; i++) {
        out[i] = (char)(key[i] >= 'a' && key[i] <= 'z' ? key[i] - 'a' + 'A' : key[i]);
    }
    out[i] = '\0';
    return out;
}

static void set_columns(struct etl_process_rows *r, enum etl_process_rows_view view, size_t by,
                        bool file)
{
    const struct etl_columns_key *keys = etl_columns_keys(&r->n_figures);
    struct table_column *tail = r->columns + FIGURES + r->n_figures;

    memcpy(r->columns, heads, sizeof heads);
    r->columns[FILE_NAME].title = file ? "FILE" : NULL;
    if (view == ETL_PROCESS_ROWS_TOP) {
        r->columns[PARENT].title = r->columns[SESSION].title = NULL;
        r->columns[CREATED].title = r->columns[EXITED].title = r->columns[EXIT_CODE].title = NULL;
    }
    for (size_t i = 0; i < r->n_figures; i++) {
        const char *title = title_of(keys[i].name, view);

        if (!title && view == ETL_PROCESS_ROWS_TOP && i == by) {
            title = upper_case(r->by_title, sizeof r->by_title, keys[i].name);
        }
        r->columns[FIGURES + i] = (struct table_column){keys[i].name, title, keys[i].unit};
    }
    tail[TAIL_CPU_FROM] = (struct table_column){"cpu_time_origin", "CPU_FROM", TABLE_TEXT};
    tail[TAIL_COMMAND] = (struct table_column){"command_line", "COMMAND", TABLE_TEXT};
}

/* What is told by other columns, or seldom asked for, goes first. */
static const char *const yields[] = {"CPU_FROM",    "SESSION",  "END",   "PARENT", "EXIT",
                                     "HARD_FAULTS", "SWITCHES", "START", "FILE",   NULL};

enum err etl_process_rows_begin(struct etl_process_rows **out, const struct etl_job *job,
                                enum table_format format, enum etl_process_rows_view view,
                                size_t by, bool file)
{
    struct etl_process_rows *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    set_columns(r, view, by, file);
    e = etl_job_table(job, &r->sheet, format, r->columns, FIGURES + r->n_figures + TAIL_COUNT,
                      yields);
    if (e) {
        mem_free(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

enum err etl_process_rows_put(struct etl_process_rows *r, const char *file, uint64_t recorded,
                              const struct ptable_proc *p)
{
    static const char *const origins[] = {"", "start", "rundown", "snapshot", "inferred"};
    struct table_cell cells[FIGURES + ETL_COLUMNS_KEYS_MAX + TAIL_COUNT];
    struct table_cell *tail = cells + FIGURES + r->n_figures;
    const struct proc_info *i = &p->info;

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(true, i->id.pid);
    cells[PARENT] = table_number((i->have & INFO_PARENT) != 0, i->parent_pid);
    cells[NAME] = table_string(i->name);
    cells[SESSION] = table_number((i->have & INFO_SESSION) != 0, i->session_id);
    cells[USER] = table_string(i->user);
    cells[CREATED] = table_number((i->have & INFO_CREATE_TIME) != 0, i->create_ns);
    cells[EXITED] = table_number((i->have & INFO_EXIT_TIME) != 0, i->exit_ns);
    cells[EXIT_CODE] = table_number((i->have & INFO_EXIT_CODE) != 0, i->exit_code);
    cells[ORIGIN] = table_string(
        str_make(i->origin < sizeof origins / sizeof origins[0] ? origins[i->origin] : ""));
    for (size_t k = 0; k < r->n_figures; k++) {
        int64_t v;
        bool known = etl_columns_value(p, k, &v) && recorded >> k & 1;

        cells[FIGURES + k] = table_number(known, v);
    }
    tail[TAIL_CPU_FROM] = table_string(str_make(etl_columns_cpu_origin(p)));
    tail[TAIL_COMMAND] = table_string(i->command_line);
    return table_row(r->sheet, cells);
}

void etl_process_rows_note(struct etl_process_rows *r, const char *text)
{
    table_note(r->sheet, str_make(text));
}

void etl_process_rows_end(struct etl_process_rows *r)
{
    if (r) {
        table_end(r->sheet);
        mem_free(r);
    }
}

/* -- order: qsort takes no context, so the value stands before the pointer -- */

struct valued {
    int64_t v;
    bool known;
    struct ptable_proc *p;
};

static int by_value(const void *pa, const void *pb)
{
    const struct valued *a = pa, *b = pb;

    if (a->known != b->known) {
        return a->known ? -1 : 1;
    }
    if (a->v != b->v) {
        return a->v < b->v ? 1 : -1;
    }
    return (a->p->info.id.pid > b->p->info.id.pid) - (a->p->info.id.pid < b->p->info.id.pid);
}

void etl_process_rows_sort(struct ptable_proc **all, size_t n, size_t by)
{
    struct valued *v = mem_array(n + 1, sizeof *v);

    if (!v) {
        return; /* in order of pid, as they were */
    }
    for (size_t i = 0; i < n; i++) {
        v[i].p = all[i];
        v[i].known = etl_columns_value(all[i], by, &v[i].v);
    }
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < n; i++) {
        all[i] = v[i].p;
    }
    mem_free(v);
}
