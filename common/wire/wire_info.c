#include "common/wire/wire_info.h"

#include "common/model/event_values.h"

/* Flags that travel as they are; the other INFO_* bits are the presence of fields. */
static const struct {
    uint32_t have, flag;
} flags[] = {
    {INFO_COMMAND_LINE_CUT, PROCFLEET__V1__PROC_FLAG__PROC_COMMAND_LINE_CUT},
    {INFO_EXITED, PROCFLEET__V1__PROC_FLAG__PROC_EXITED},
    {INFO_EXIT_INFERRED, PROCFLEET__V1__PROC_FLAG__PROC_EXIT_INFERRED},
    {INFO_FINAL_TOTALS, PROCFLEET__V1__PROC_FLAG__PROC_FINAL_TOTALS},
    {INFO_SIGNALLED, PROCFLEET__V1__PROC_FLAG__PROC_SIGNALLED},
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

/* -- types of events -- */

/* The place of a type in the list, and one; *at 0: there is no room. */
static enum err type_place(uint32_t *at, struct wire_info_types *t, const struct event_type *type,
                           struct wire_arena *a)
{
    size_t i = t->n;

    if (!t->list) {
        t->list = wire_arena_array(a, t->max, sizeof *t->list);
        if (!t->list) {
            return a->bad;
        }
    }
    while (i > 0 && t->list[i - 1] != type) {
        i--;
    }
    if (i == 0) {
        if (t->n == t->max) {
            return ERR_FULL;
        }
        t->list[t->n++] = type;
        i = t->n;
    }
    *at = (uint32_t)i;
    return ERR_OK;
}

static enum err put_values(Procfleet__V1__LifeEvent *m, const struct life_event *in,
                           struct wire_info_types *types, struct wire_arena *a)
{
    uint32_t at = 0;
    enum err e;

    if (!life_has_values(in->kind) || !in->type ||
        !event_values_ok(in->type->n_fields, in->values)) {
        return ERR_OK; /* a receiver would refuse what are no values */
    }
    e = type_place(&at, types, in->type, a);
    m->has_type = m->has_values = 1;
    m->type = at;
    m->values.data = (uint8_t *)(uintptr_t)in->values.p;
    m->values.len = in->values.n;
    PUT(m, flags, in->value_flags != 0, in->value_flags);
    return e;
}

static enum err put_type(Procfleet__V1__EventType *m, const struct event_type *in,
                         struct wire_arena *a)
{
    protobuf_c_boolean has;
    enum err e = wire_text_put(&m->has_provider, &m->provider, in->provider, MODEL_TEXT_MAX, a);

    PUT(m, id, in->id != 0, in->id);
    PUT(m, version, in->version != 0, in->version);
    PUT(m, opcode, in->opcode != 0, in->opcode);
    PUT(m, level, in->level != 0, in->level);
    PUT(m, keyword, in->keyword != 0, in->keyword);
    m->has_guid = 1;
    m->guid.data = (uint8_t *)(uintptr_t)in->guid;
    m->guid.len = sizeof in->guid;
    if (!e) {
        e = wire_text_put(&m->has_task, &m->task, in->task, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = wire_text_put(&m->has_name, &m->name, in->name, MODEL_TEXT_MAX, a);
    }
    m->fields = wire_arena_array(a, in->n_fields, sizeof *m->fields);
    if (!m->fields) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < in->n_fields; i++) {
        e = wire_text_put(&has, &m->fields[i], in->fields[i], EVENT_VALUES_NAME, a);
    }
    m->n_fields = in->n_fields;
    return e;
}

enum err wire_info_types_put(Procfleet__V1__EventType ***out, size_t *n,
                             const struct wire_info_types *types, struct wire_arena *a)
{
    Procfleet__V1__EventType *items;
    enum err e = ERR_OK;

    *n = types->n;
    if (types->n == 0) {
        *out = NULL;
        return ERR_OK;
    }
    items = wire_list(out, types->n, sizeof *items, a);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < types->n; i++) {
        procfleet__v1__event_type__init(&items[i]);
        e = put_type(&items[i], types->list[i], a);
    }
    return e;
}

static enum err get_type(struct event_type *out, const Procfleet__V1__EventType *m,
                         struct wire_arena *a)
{
    struct str *fields;

    if (m->n_fields > EVENT_VALUES_FIELDS || !m->has_guid || m->guid.len != sizeof out->guid ||
        m->id > UINT16_MAX || m->version > UINT8_MAX || m->opcode > UINT8_MAX ||
        m->level > UINT8_MAX ||
        !wire_text_get(&out->provider, m->has_provider, &m->provider, MODEL_TEXT_MAX) ||
        !wire_text_get(&out->task, m->has_task, &m->task, MODEL_TEXT_MAX) ||
        !wire_text_get(&out->name, m->has_name, &m->name, MODEL_TEXT_MAX)) {
        return ERR_CORRUPT;
    }
    fields = wire_arena_array(a, m->n_fields, sizeof *fields);
    if (!fields) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_fields; i++) {
        if (!wire_text_get(&fields[i], 1, &m->fields[i], EVENT_VALUES_NAME)) {
            return ERR_CORRUPT;
        }
    }
    memcpy(out->guid, m->guid.data, sizeof out->guid);
    out->id = (uint16_t)m->id;
    out->version = (uint8_t)m->version;
    out->opcode = (uint8_t)m->opcode;
    out->level = (uint8_t)m->level;
    out->keyword = m->keyword;
    out->fields = fields;
    out->n_fields = m->n_fields;
    return ERR_OK;
}

size_t wire_info_types_bytes(Procfleet__V1__EventType *const *in, size_t n)
{
    size_t bytes = n * (sizeof(struct event_type) + sizeof(struct event_type *) + 64);

    for (size_t i = 0; i < n; i++) {
        bytes += in[i]->n_fields * sizeof(struct str);
    }
    return bytes;
}

enum err wire_info_types_get(struct wire_info_types *types, Procfleet__V1__EventType *const *in,
                             size_t n, struct wire_arena *a)
{
    struct event_type *items;
    enum err e = ERR_OK;

    if (n > types->max) {
        return ERR_FULL;
    }
    if (n == 0) {
        return ERR_OK;
    }
    items = wire_arena_array(a, n, sizeof *items);
    types->list = wire_arena_array(a, n, sizeof *types->list);
    if (!items || !types->list) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < n; i++) {
        types->list[i] = &items[i];
        e = get_type(&items[i], in[i], a);
    }
    types->n = n;
    return e;
}

static enum err get_values(struct life_event *out, const Procfleet__V1__LifeEvent *m,
                           const struct wire_info_types *types)
{
    if (!life_has_values(out->kind) || !m->has_type) {
        return ERR_OK;
    }
    if (m->type == 0 || m->type > types->n) {
        return ERR_CORRUPT;
    }
    out->type = types->list[m->type - 1];
    out->values = (struct str){m->values.len ? (const char *)m->values.data : "", m->values.len};
    out->value_flags = (uint8_t)(m->flags & (LIFE_VALUES_CUT | LIFE_VALUES_REDACTED));
    return event_values_ok(out->type->n_fields, out->values) ? ERR_OK : ERR_CORRUPT;
}

/* -- events -- */

enum err wire_info_event_put(Procfleet__V1__LifeEvent *m, const struct life_event *in,
                             struct wire_info_types *types, struct wire_arena *a)
{
    enum err e;

    procfleet__v1__life_event__init(m);
    PUT(m, kind, true, in->kind);
    PUT(m, wall_ns, true, in->wall_ns);
    PUT(m, mono_ns, in->mono_ns != 0, in->mono_ns);
    PUT(m, tid, in->tid != 0, in->tid);
    e = wire_text_put(&m->has_text, &m->text, in->text, MODEL_TEXT_MAX, a);
    if (!e) {
        e = put_values(m, in, types, a);
    }
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

enum err wire_info_event_get(struct life_event *out, const Procfleet__V1__LifeEvent *m,
                             const struct wire_info_types *types)
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
    if (!wire_text_get(&v.text, m->has_text, &m->text, MODEL_TEXT_MAX) ||
        get_values(&v, m, types)) {
        return ERR_CORRUPT;
    }
    *out = v;
    return ERR_OK;
}
