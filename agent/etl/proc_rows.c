#include "agent/etl/proc_rows.h"

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

struct proc_rows {
    struct sheet *sheet;
    char by_title[32];
    size_t n_figures;
    struct sheet_column columns[FIGURES + PROCS_KEYS_MAX + TAIL_COUNT];
};

static const struct sheet_column heads[FIGURES] = {
    [FILE_NAME] = {"file", NULL, SHEET_TEXT},         [PID] = {"pid", "PID", SHEET_ID},
    [PARENT] = {"parent_pid", "PARENT", SHEET_ID},    [NAME] = {"name", "NAME", SHEET_TEXT},
    [SESSION] = {"session_id", "SESSION", SHEET_ID},  [USER] = {"user", NULL, SHEET_TEXT},
    [CREATED] = {"create_time", "START", SHEET_TIME}, [EXITED] = {"exit_time", "END", SHEET_TIME},
    [EXIT_CODE] = {"exit_code", "EXIT", SHEET_EXIT},  [ORIGIN] = {"origin", NULL, SHEET_TEXT},
};

/* What a table of the list shows; one of the top shows these too, and the figure asked for. */
static const char *title_of(const char *key, enum proc_rows_view view)
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
            return view == PROC_ROWS_TOP || all[i].list ? all[i].title : NULL;
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

static void set_columns(struct proc_rows *r, enum proc_rows_view view, size_t by, bool file)
{
    const struct procs_key *keys = procs_keys(&r->n_figures);
    struct sheet_column *tail = r->columns + FIGURES + r->n_figures;

    memcpy(r->columns, heads, sizeof heads);
    r->columns[FILE_NAME].title = file ? "FILE" : NULL;
    if (view == PROC_ROWS_TOP) {
        r->columns[PARENT].title = r->columns[SESSION].title = NULL;
        r->columns[CREATED].title = r->columns[EXITED].title = r->columns[EXIT_CODE].title = NULL;
    }
    for (size_t i = 0; i < r->n_figures; i++) {
        const char *title = title_of(keys[i].name, view);

        if (!title && view == PROC_ROWS_TOP && i == by) {
            title = upper_case(r->by_title, sizeof r->by_title, keys[i].name);
        }
        r->columns[FIGURES + i] = (struct sheet_column){keys[i].name, title, keys[i].unit};
    }
    tail[TAIL_CPU_FROM] = (struct sheet_column){"cpu_time_origin", "CPU_FROM", SHEET_TEXT};
    tail[TAIL_COMMAND] = (struct sheet_column){"command_line", "COMMAND", SHEET_TEXT};
}

/* What is told by other columns, or seldom asked for, goes first. */
static const char *const yields[] = {"CPU_FROM",    "SESSION",  "END",   "PARENT", "EXIT",
                                     "HARD_FAULTS", "SWITCHES", "START", "FILE",   NULL};

enum err proc_rows_begin(struct proc_rows **out, const struct job *job, enum sheet_format format,
                         enum proc_rows_view view, size_t by, bool file)
{
    struct proc_rows *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    set_columns(r, view, by, file);
    e = job_sheet(job, &r->sheet, format, r->columns, FIGURES + r->n_figures + TAIL_COUNT, yields);
    if (e) {
        mem_free(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

enum err proc_rows_put(struct proc_rows *r, const char *file, uint64_t recorded,
                       const struct ptable_proc *p)
{
    static const char *const origins[] = {"", "start", "rundown", "snapshot", "inferred"};
    struct sheet_cell cells[FIGURES + PROCS_KEYS_MAX + TAIL_COUNT];
    struct sheet_cell *tail = cells + FIGURES + r->n_figures;
    const struct proc_info *i = &p->info;

    cells[FILE_NAME] = sheet_string(str_make(file));
    cells[PID] = sheet_number(true, i->id.pid);
    cells[PARENT] = sheet_number((i->have & INFO_PARENT) != 0, i->parent_pid);
    cells[NAME] = sheet_string(i->name);
    cells[SESSION] = sheet_number((i->have & INFO_SESSION) != 0, i->session_id);
    cells[USER] = sheet_string(i->user);
    cells[CREATED] = sheet_number((i->have & INFO_CREATE_TIME) != 0, i->create_ns);
    cells[EXITED] = sheet_number((i->have & INFO_EXIT_TIME) != 0, i->exit_ns);
    cells[EXIT_CODE] = sheet_number((i->have & INFO_EXIT_CODE) != 0, i->exit_code);
    cells[ORIGIN] = sheet_string(
        str_make(i->origin < sizeof origins / sizeof origins[0] ? origins[i->origin] : ""));
    for (size_t k = 0; k < r->n_figures; k++) {
        int64_t v;
        bool known = procs_value(p, k, &v) && recorded >> k & 1;

        cells[FIGURES + k] = sheet_number(known, v);
    }
    tail[TAIL_CPU_FROM] = sheet_string(str_make(procs_cpu_origin(p)));
    tail[TAIL_COMMAND] = sheet_string(i->command_line);
    return sheet_row(r->sheet, cells);
}

void proc_rows_note(struct proc_rows *r, const char *text)
{
    sheet_note(r->sheet, str_make(text));
}

void proc_rows_end(struct proc_rows *r)
{
    if (r) {
        sheet_end(r->sheet);
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

void proc_rows_sort(struct ptable_proc **all, size_t n, size_t by)
{
    struct valued *v = mem_array(n + 1, sizeof *v);

    if (!v) {
        return; /* in order of pid, as they were */
    }
    for (size_t i = 0; i < n; i++) {
        v[i].p = all[i];
        v[i].known = procs_value(all[i], by, &v[i].v);
    }
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < n; i++) {
        all[i] = v[i].p;
    }
    mem_free(v);
}
