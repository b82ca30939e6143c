#include "common/wire/wire_info.h"

/* Flags that travel as they are; the other INFO_* bits are the presence of fields. */
static const struct {
    uint32_t have, flag;
} flags[] = {
    {INFO_COMMAND_LINE_CUT, PROCFLEET__V1__PROC_FLAG__PROC_COMMAND_LINE_CUT},
    {INFO_EXITED, PROCFLEET__V1__PROC_FLAG__PROC_EXITED},
    {INFO_EXIT_INFERRED, PROCFLEET__V1__PROC_FLAG__PROC_EXIT_INFERRED},
    {INFO_FINAL_TOTALS, PROCFLEET__V1__PROC_FLAG__PROC_FINAL_TOTALS},
};

#define N_FLAGS (sizeof flags / sizeof flags[0])

/* Sets an optional number when it is known. */
#define PUT(m, field, known, value)         \
    do {                                    \
        (m)->has_##field = (known) ? 1 : 0; \
        (m)->field = (known) ? (value) : 0; \
    } while (0)

static enum err put_texts(Procfleet__V1__ProcInfo *m, const struct proc_info *in,
                          struct wire_arena *a)
{
    enum err e = wire_text_put(&m->has_name, &m->name, in->name, MODEL_TEXT_MAX, a);

    if (!e) {
        e = wire_text_put(&m->has_image, &m->image, in->image, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = wire_text_put(&m->has_user, &m->user, in->user, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = wire_text_put(&m->has_command_line, &m->command_line, in->command_line,
                          MODEL_COMMAND_LINE_MAX, a);
    }
    if (in->have & INFO_COMMAND_LINE_KNOWN) {
        m->has_command_line = 1;
    }
    return e;
}

uint32_t wire_info_flags(const struct proc_info *in)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < N_FLAGS; i++) {
        bits |= in->have & flags[i].have ? flags[i].flag : 0;
    }
    if (in->command_line.n > MODEL_COMMAND_LINE_MAX) {
        bits |= PROCFLEET__V1__PROC_FLAG__PROC_COMMAND_LINE_CUT;
    }
    return bits;
}

enum err wire_info_put(Procfleet__V1__ProcInfo *m, const struct proc_info *in, struct wire_arena *a)
{
    uint32_t bits = wire_info_flags(in);

    procfleet__v1__proc_info__init(m);
    PUT(m, pid, true, in->id.pid);
    PUT(m, start, in->id.start != 0, in->id.start);
    PUT(m, origin, in->origin != 0, in->origin);
    PUT(m, cpu_origin, in->cpu_origin != 0, in->cpu_origin);
    PUT(m, flags, bits != 0, bits);
    PUT(m, parent_pid, (in->have & INFO_PARENT) != 0, in->parent_pid);
    PUT(m, parent_start, in->parent_start != 0, in->parent_start);
    PUT(m, session_id, (in->have & INFO_SESSION) != 0, in->session_id);
    PUT(m, exit_code, (in->have & INFO_EXIT_CODE) != 0, in->exit_code);
    PUT(m, create_ns, (in->have & INFO_CREATE_TIME) != 0, in->create_ns);
    PUT(m, exit_ns, (in->have & INFO_EXIT_TIME) != 0, in->exit_ns);
    return put_texts(m, in, a);
}

enum err wire_info_event_put(Procfleet__V1__LifeEvent *m, const struct life_event *in,
                             struct wire_arena *a)
{
    enum err e;

    procfleet__v1__life_event__init(m);
    PUT(m, kind, true, in->kind);
    PUT(m, wall_ns, true, in->wall_ns);
    PUT(m, mono_ns, in->mono_ns != 0, in->mono_ns);
    PUT(m, tid, in->tid != 0, in->tid);
    e = wire_text_put(&m->has_text, &m->text, in->text, MODEL_TEXT_MAX, a);
    if (e || life_is_of_host(in->kind)) {
        return e;
    }
    m->info = wire_arena_alloc(a, sizeof *m->info);
    return m->info ? wire_info_put(m->info, &in->info, a) : a->bad;
}

static uint32_t have_of(const Procfleet__V1__ProcInfo *m)
{
    uint32_t have = 0;

    for (size_t i = 0; i < N_FLAGS; i++) {
        have |= m->flags & flags[i].flag ? flags[i].have : 0;
    }
    have |= m->has_parent_pid ? INFO_PARENT : 0;
    have |= m->has_session_id ? INFO_SESSION : 0;
    have |= m->has_exit_code ? INFO_EXIT_CODE : 0;
    have |= m->has_create_ns ? INFO_CREATE_TIME : 0;
    have |= m->has_exit_ns ? INFO_EXIT_TIME : 0;
    have |= m->has_command_line ? INFO_COMMAND_LINE_KNOWN : 0;
    return have;
}

enum err wire_info_get(struct proc_info *out, const Procfleet__V1__ProcInfo *m)
{
    struct proc_info v = {0};

    if (!m) {
        *out = v;
        return ERR_OK;
    }
    v.id.pid = m->pid;
    v.id.start = m->start;
    v.have = have_of(m);
    v.origin = m->origin <= ORIGIN_INFERRED ? (uint8_t)m->origin : ORIGIN_UNKNOWN;
    v.cpu_origin = m->cpu_origin <= CPU_ORIGIN_SAMPLES ? (uint8_t)m->cpu_origin : CPU_ORIGIN_NONE;
    v.parent_pid = m->parent_pid;
    v.parent_start = m->parent_start;
    v.session_id = m->session_id;
    v.exit_code = m->exit_code;
    v.create_ns = m->create_ns;
    v.exit_ns = m->exit_ns;
    if (!wire_text_get(&v.name, m->has_name, &m->name, MODEL_TEXT_MAX) ||
        !wire_text_get(&v.image, m->has_image, &m->image, MODEL_TEXT_MAX) ||
        !wire_text_get(&v.user, m->has_user, &m->user, MODEL_TEXT_MAX) ||
        !wire_text_get(&v.command_line, m->has_command_line, &m->command_line,
                       MODEL_COMMAND_LINE_MAX)) {
        return ERR_CORRUPT;
    }
    *out = v;
    return ERR_OK;
}

enum err wire_info_event_get(struct life_event *out, const Procfleet__V1__LifeEvent *m)
{
    struct life_event v = {0};

    if (!m || m->kind == 0 || m->kind > UINT8_MAX) {
        return ERR_CORRUPT;
    }
    if (wire_info_get(&v.info, life_is_of_host(m->kind) ? NULL : m->info)) {
        return ERR_CORRUPT; /* of the agent itself: whatever process it names is none */
    }
    v.kind = (uint8_t)m->kind;
    v.wall_ns = m->wall_ns;
    v.mono_ns = m->mono_ns;
    v.tid = m->tid;
    if (!wire_text_get(&v.text, m->has_text, &m->text, MODEL_TEXT_MAX)) {
        return ERR_CORRUPT;
    }
    *out = v;
    return ERR_OK;
}
