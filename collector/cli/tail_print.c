#include "collector/cli/tail.h"
#include "common/base/glob.h"
#include "common/os/os.h"

bool tail_over(const struct tail *t)
{
    return atomic_load(t->stop) || (t->end_ns && os_mono_ns() >= t->end_ns);
}

static bool wanted_process(const struct tail *t, const struct proc_info *p)
{
    return (!t->q.has_pid || p->id.pid == t->q.pid) &&
           (t->q.name.n == 0 || glob_match(t->q.name, p->name));
}

static bool wanted_host(const struct tail *t, const struct wire_update *u)
{
    return t->q.host.n == 0 || glob_match(t->q.host, u->name);
}

static bool wanted_event(const struct tail *t, const struct life_event *ev)
{
    uint32_t kinds = t->q.kinds ? t->q.kinds : LIFE_KINDS_DEFAULT;
    bool of_host = life_is_of_host(ev->kind);

    return ev->kind < 32 && (kinds >> ev->kind & 1) &&
           (of_host ? !t->q.has_pid && t->q.name.n == 0 : wanted_process(t, &ev->info));
}

static enum err put(struct tail *t, const struct table_cell *cells)
{
    enum err e = table_row(t->sheet, cells);

    t->left--;
    t->lines++;
    return !e && (t->left == 0 || ferror(stdout)) ? ERR_END : e;
}

enum err tail_print(struct tail *t, const struct wire_update *u, int64_t since_ns)
{
    struct table_cell cells[TABLE_COLUMNS];
    const struct wire_answer *a = &u->data;
    enum err e = ERR_OK;

    if (!wanted_host(t, u)) {
        return ERR_OK;
    }
    for (size_t i = 0; i < a->n_events && !e && !t->samples; i++) {
        if (a->events[i].event.wall_ns >= since_ns && wanted_event(t, &a->events[i].event)) {
            fields_event(&t->fields, cells, a, &a->events[i]);
            e = put(t, cells);
        }
    }
    for (size_t i = 0; i < a->n_rows && !e && t->samples; i++) {
        if (a->rows[i].when_ns >= since_ns && wanted_process(t, &a->rows[i].info)) {
            fields_row(&t->fields, cells, a, &a->rows[i]);
            e = put(t, cells);
        }
    }
    return e;
}

void tail_fields(struct tail *t)
{
    static const uint8_t shown[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT};
    struct fields *f = &t->fields;

    fields_add(f, FIELD_TIME, true);
    fields_add(f, FIELD_HOST, true);
    if (!t->samples) {
        fields_add(f, FIELD_KIND, true);
    }
    fields_add(f, FIELD_PID, true);
    if (t->samples) {
        for (size_t i = 0; i < sizeof shown; i++) {
            fields_add_metric(f, shown[i], true);
        }
        for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
            if (m->column) {
                fields_add_metric(f, m->id, false);
            }
        }
        fields_add(f, FIELD_NAME, true);
        fields_add(f, FIELD_START, false);
        fields_add(f, FIELD_CPU_TIME_ORIGIN, false);
        return;
    }
    fields_add(f, FIELD_TID, false);
    fields_add(f, FIELD_PARENT_PID, true);
    fields_add(f, FIELD_EXIT_CODE, true);
    fields_add(f, FIELD_NAME, true);
    fields_add(f, FIELD_DETAIL, true);
    fields_add(f, FIELD_START, false);
    fields_add(f, FIELD_USER, false);
    fields_add(f, FIELD_CREATE_TIME, false);
    fields_add(f, FIELD_EXIT_TIME, false);
    fields_add(f, FIELD_COMMAND_LINE, false);
    fields_add(f, FIELD_PATH, false);
    fields_add(f, FIELD_TEXT, false);
}
