#include "common/wire/wire_answer.h"

#include "common/base/mem.h"
#include "common/wire/wire_coverage.h"
#include "common/wire/wire_info.h"
#include "common/wire/wire_overview.h"

/* Answers and updates (wire_query.h). An answer's rows refer to a table of instances, so that a
 * history of one process carries its command line once. Values travel packed, only those present.
 * What is decoded keeps the unpacked message beside it, because text points into it: both live in
 * one arena behind the struct. */

#define PACK_BYTES   (64u << 20) /* memory to build a message in */
#define RESULT_BYTES (16u << 20) /* the largest answer that the limits allow, decoded */
#define UPDATE_BYTES \
    (8u << 20) /* to unpack one: many small events take far more than they have \
                */
#define NOTES_MAX 64u

struct owned_answer {
    struct wire_answer a;
    struct wire_arena arena;
};

struct owned_update {
    struct wire_update u;
    struct wire_arena arena;
};

/* -- encode -- */

static enum err put_host(Procfleet__V1__Host *m, const struct wire_host *h, struct wire_arena *a)
{
    enum err e;

    procfleet__v1__host__init(m);
    wire_uuid_put(&m->has_id, &m->id, &h->id);
    wire_uuid_put(&m->has_boot, &m->boot, &h->boot);
    WIRE_PUT(m, connected, h->connected);
    WIRE_PUT(m, polled, h->polled);
    WIRE_PUT(m, replay, h->replay);
    WIRE_PUT(m, ended, h->ended);
    WIRE_PUT(m, cpus, h->cpus);
    WIRE_PUT(m, processes, h->processes);
    WIRE_PUT(m, first_ns, h->first_ns);
    WIRE_PUT(m, last_ns, h->last_ns);
    WIRE_PUT(m, offset_ns, h->offset_ns);
    WIRE_PUT(m, batches, h->batches);
    WIRE_PUT(m, duplicates, h->duplicates);
    WIRE_PUT(m, gaps, h->gaps);
    WIRE_PUT(m, lost_events, h->lost_events);
    WIRE_PUT(m, clones, h->clones);
    WIRE_PUT(m, forgotten, h->forgotten);
    WIRE_PUT(m, revoked, h->revoked);
    if (h->has_offset) {
        WIRE_PUT(m, offset_error_ns, (uint64_t)h->offset_error_ns);
    }
    if (h->not_after_ns) {
        WIRE_PUT(m, not_after_ns, h->not_after_ns);
    }
    if (h->heard_ns) {
        WIRE_PUT(m, heard_ns, h->heard_ns);
    }
    e = WIRE_PUT_TEXT(m, name, h->name, MODEL_HOST_NAME_MAX, a);
    if (!e) {
        e = WIRE_PUT_TEXT(m, source, h->source, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, version, h->version, MODEL_TEXT_MAX, a);
    }
    return e;
}

static enum err put_hosts(Procfleet__V1__Answer *m, const struct wire_answer *in,
                          struct wire_arena *a)
{
    Procfleet__V1__Host *items = wire_list(&m->hosts, in->n_hosts, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_hosts; i++) {
        e = put_host(&items[i], &in->hosts[i], a);
    }
    m->n_hosts = in->n_hosts;
    return e;
}

bool wire_answer_same_info(const struct proc_info *x, const struct proc_info *y)
{
    return proc_id_eq(x->id, y->id) && x->have == y->have && x->origin == y->origin &&
           x->cpu_origin == y->cpu_origin && x->parent_pid == y->parent_pid &&
           x->parent_start == y->parent_start && x->session_id == y->session_id &&
           x->exit_code == y->exit_code && x->create_ns == y->create_ns &&
           x->exit_ns == y->exit_ns && str_eq(x->name, y->name) && str_eq(x->image, y->image) &&
           str_eq(x->command_line, y->command_line) && str_eq(x->user, y->user);
}

static enum err put_row(Procfleet__V1__Row *m, const struct wire_row *r, size_t n_metrics,
                        struct wire_arena *a)
{
    uint64_t known = n_metrics < 64 ? (UINT64_C(1) << n_metrics) - 1 : UINT64_MAX;

    procfleet__v1__row__init(m);
    WIRE_PUT(m, host, r->host);
    WIRE_PUT(m, have, r->have & known);
    WIRE_PUT(m, instances, r->instances);
    WIRE_PUT(m, hosts, r->hosts);
    WIRE_PUT(m, depth, r->depth);
    m->values = wire_arena_alloc(a, n_metrics * sizeof *m->values);
    if (!m->values) {
        return a->bad;
    }
    for (size_t i = 0; i < n_metrics; i++) {
        if (r->have >> i & 1) {
            m->values[m->n_values++] = r->values[i];
        }
    }
    return ERR_OK;
}

/* Rows, and the table of the instances they are about: a row about the same instance as the one
 * before it shares its entry. */
static enum err put_rows(Procfleet__V1__Answer *m, const struct wire_answer *in,
                         struct wire_arena *a)
{
    Procfleet__V1__Row *rows = wire_list(&m->rows, in->n_rows, sizeof *rows, a);
    Procfleet__V1__ProcInfo *infos = wire_list(&m->infos, in->n_rows, sizeof *infos, a);
    enum err e = rows && infos ? ERR_OK : a->bad;
    int64_t before = 0;

    for (size_t i = 0; !e && i < in->n_rows; i++) {
        const struct wire_row *r = &in->rows[i];

        if (r->host >= in->n_hosts) {
            return ERR_INVALID;
        }
        e = put_row(&rows[i], r, in->n_metrics, a);
        if (!e && (i == 0 || !wire_answer_same_info(&r->info, &r[-1].info))) {
            e = wire_info_put(&infos[m->n_infos++], &r->info, a);
        }
        WIRE_PUT(&rows[i], info, (uint32_t)m->n_infos - 1);
        WIRE_PUT(&rows[i], when_ns, (int64_t)((uint64_t)r->when_ns - (uint64_t)before));
        before = r->when_ns;
    }
    m->n_rows = in->n_rows;
    return e;
}

static enum err put_events(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    Procfleet__V1__HostEvent *items = wire_list(&m->events, in->n_events, sizeof *items, a);
    Procfleet__V1__LifeEvent *events = wire_arena_array(a, in->n_events, sizeof *events);
    enum err e = items && events ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_events; i++) {
        if (in->events[i].host >= in->n_hosts) {
            return ERR_INVALID;
        }
        procfleet__v1__host_event__init(&items[i]);
        WIRE_PUT(&items[i], host, in->events[i].host);
        items[i].event = &events[i];
        e = wire_event_put(&events[i], &in->events[i].event, a);
    }
    m->n_events = in->n_events;
    return e;
}

static enum err put_notes(Procfleet__V1__Answer *m, const struct wire_answer *in,
                          struct wire_arena *a)
{
    enum err e = ERR_OK;

    m->notes = wire_arena_array(a, in->n_notes, sizeof *m->notes);
    if (!m->notes) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < in->n_notes; i++) {
        protobuf_c_boolean has;

        e = wire_text_put(&has, &m->notes[i], in->notes[i], MODEL_TEXT_MAX, a);
    }
    m->n_notes = in->n_notes;
    return e;
}

static enum err put_metrics(Procfleet__V1__Answer *m, const struct wire_answer *in,
                            struct wire_arena *a)
{
    m->metrics = wire_arena_array(a, in->n_metrics, sizeof *m->metrics);
    if (!m->metrics) {
        return a->bad;
    }
    for (size_t i = 0; i < in->n_metrics; i++) {
        m->metrics[i] = in->metrics[i];
    }
    m->n_metrics = in->n_metrics;
    return ERR_OK;
}

static enum err build_answer(Procfleet__V1__Answer *m, const struct wire_answer *in,
                             struct wire_arena *a)
{
    enum err e;

    if (in->n_hosts > WIRE_ROWS_MAX || in->n_rows > WIRE_ROWS_MAX || in->n_events > WIRE_ROWS_MAX ||
        in->n_notes > NOTES_MAX || in->n_metrics > WIRE_METRICS_MAX ||
        in->n_coverage > WIRE_ROWS_MAX || in->n_used > WIRE_USED_MAX) {
        return ERR_INVALID;
    }
    procfleet__v1__answer__init(m);
    WIRE_PUT(m, since_ns, in->since_ns);
    WIRE_PUT(m, until_ns, in->until_ns);
    WIRE_PUT(m, partial, in->partial);
    WIRE_PUT(m, damaged, in->damaged);
    m->n_used = in->n_used;
    m->used = (uint32_t *)(uintptr_t)in->used;
    e = put_hosts(m, in, a);
    if (!e) {
        e = put_metrics(m, in, a);
    }
    if (!e) {
        e = put_rows(m, in, a);
    }
    if (!e) {
        e = put_events(m, in, a);
    }
    if (!e) {
        e = put_notes(m, in, a);
    }
    if (!e) {
        e = wire_coverage_put(m, in, a);
    }
    if (!e) {
        e = wire_overview_put(m, in, a);
    }
    return e;
}

enum err wire_answer_encode(struct buf *out, const struct wire_answer *in)
{
    struct wire_arena a;
    Procfleet__V1__Answer m;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = build_answer(&m, in, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

/* -- decode -- */

static enum err get_host(struct wire_host *h, const Procfleet__V1__Host *m)
{
    if (!wire_uuid_get(&h->id, m->has_id, &m->id) ||
        !wire_uuid_get(&h->boot, m->has_boot, &m->boot) ||
        !wire_text_get(&h->name, m->has_name, &m->name, MODEL_HOST_NAME_MAX) ||
        !wire_text_get(&h->source, m->has_source, &m->source, MODEL_TEXT_MAX) ||
        !wire_text_get(&h->version, m->has_version, &m->version, MODEL_TEXT_MAX)) {
        return ERR_CORRUPT;
    }
    h->connected = m->connected != 0;
    h->polled = m->polled != 0;
    h->replay = m->replay != 0;
    h->ended = m->ended != 0;
    h->cpus = m->cpus;
    h->processes = m->processes;
    h->first_ns = m->first_ns;
    h->last_ns = m->last_ns;
    h->offset_ns = m->offset_ns;
    h->batches = m->batches;
    h->duplicates = m->duplicates;
    h->gaps = m->gaps;
    h->lost_events = m->lost_events;
    h->has_offset = m->has_offset_error_ns && m->offset_error_ns <= INT64_MAX;
    h->offset_error_ns = h->has_offset ? (int64_t)m->offset_error_ns : 0;
    h->not_after_ns = m->not_after_ns;
    h->heard_ns = m->heard_ns;
    h->clones = m->clones;
    h->forgotten = m->forgotten != 0;
    h->revoked = m->revoked != 0;
    return ERR_OK;
}

static enum err get_hosts(struct wire_answer *out, const Procfleet__V1__Answer *m,
                          struct wire_arena *a)
{
    struct wire_host *items = wire_arena_array(a, m->n_hosts, sizeof *items);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_hosts; i++) {
        e = get_host(&items[i], m->hosts[i]);
    }
    out->hosts = items;
    out->n_hosts = m->n_hosts;
    return e;
}

static enum err get_row(struct wire_row *r, const Procfleet__V1__Row *m, size_t n_metrics,
                        struct wire_arena *a)
{
    int64_t *values = wire_arena_array(a, n_metrics, sizeof *values);
    size_t at = 0;

    if (!values) {
        return a->bad;
    }
    for (size_t i = 0; i < 64; i++) {
        if (!(m->have >> i & 1)) {
            continue;
        }
        if (i >= n_metrics || at == m->n_values) {
            return ERR_CORRUPT;
        }
        values[i] = m->values[at++];
    }
    r->have = m->have;
    r->values = values;
    return at == m->n_values ? ERR_OK : ERR_CORRUPT;
}

static enum err get_rows(struct wire_answer *out, const Procfleet__V1__Answer *m,
                         struct wire_arena *a)
{
    struct wire_row *items = wire_arena_array(a, m->n_rows, sizeof *items);
    enum err e = items ? ERR_OK : a->bad;
    uint64_t when = 0;

    for (size_t i = 0; !e && i < m->n_rows; i++) {
        const Procfleet__V1__Row *r = m->rows[i];

        if (r->host >= m->n_hosts || r->info >= m->n_infos) {
            return ERR_CORRUPT;
        }
        when += (uint64_t)r->when_ns;
        items[i].host = r->host;
        items[i].when_ns = (int64_t)when;
        items[i].instances = r->instances;
        items[i].hosts = r->hosts;
        items[i].depth = r->depth;
        e = wire_info_get(&items[i].info, m->infos[r->info]);
        if (!e) {
            e = get_row(&items[i], r, out->n_metrics, a);
        }
    }
    out->rows = items;
    out->n_rows = m->n_rows;
    return e;
}

static enum err get_events(struct wire_answer *out, const Procfleet__V1__Answer *m,
                           struct wire_arena *a)
{
    struct wire_event *items = wire_arena_array(a, m->n_events, sizeof *items);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_events; i++) {
        if (m->events[i]->host >= m->n_hosts) {
            return ERR_CORRUPT;
        }
        items[i].host = m->events[i]->host;
        e = wire_event_get(&items[i].event, m->events[i]->event);
    }
    out->events = items;
    out->n_events = m->n_events;
    return e;
}

static enum err get_notes(struct wire_answer *out, const Procfleet__V1__Answer *m,
                          struct wire_arena *a)
{
    struct str *items = wire_arena_array(a, m->n_notes, sizeof *items);

    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_notes; i++) {
        if (!wire_text_get(&items[i], 1, &m->notes[i], MODEL_TEXT_MAX)) {
            return ERR_CORRUPT;
        }
    }
    out->notes = items;
    out->n_notes = m->n_notes;
    return ERR_OK;
}

/* Memory of the result is bounded by the counts, so it is allowed on top of the budget. */
static enum err read_answer(struct wire_answer *out, const Procfleet__V1__Answer *m,
                            struct wire_arena *a)
{
    enum err e;

    if (m->n_hosts > WIRE_ROWS_MAX || m->n_rows > WIRE_ROWS_MAX || m->n_infos > WIRE_ROWS_MAX ||
        m->n_events > WIRE_ROWS_MAX || m->n_notes > NOTES_MAX || m->n_coverage > WIRE_ROWS_MAX ||
        m->n_used > WIRE_USED_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, RESULT_BYTES);
    out->since_ns = m->since_ns;
    out->until_ns = m->until_ns;
    out->partial = m->partial != 0;
    out->damaged = m->damaged;
    out->n_used = (uint8_t)m->n_used;
    for (size_t i = 0; i < m->n_used; i++) {
        out->used[i] = m->used[i];
    }
    e = wire_get_bytes(out->metrics, &out->n_metrics, WIRE_METRICS_MAX, m->metrics, m->n_metrics);
    if (!e) {
        e = get_hosts(out, m, a);
    }
    if (!e) {
        e = get_rows(out, m, a);
    }
    if (!e) {
        e = get_events(out, m, a);
    }
    if (!e) {
        e = get_notes(out, m, a);
    }
    if (!e) {
        e = wire_coverage_get(out, m, a);
    }
    if (!e) {
        e = wire_overview_get(out, m, a);
    }
    return e;
}

enum err wire_answer_decode(struct wire_answer **out, const void *p, size_t n)
{
    struct owned_answer *o = mem_zalloc(sizeof *o);
    Procfleet__V1__Answer *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack(&m, &o->arena, &procfleet__v1__answer__descriptor, p, n);
    if (!e) {
        e = read_answer(&o->a, m, &o->arena);
    }
    if (e) {
        wire_answer_free(&o->a);
        return e;
    }
    *out = &o->a;
    return ERR_OK;
}

void wire_answer_free(struct wire_answer *a)
{
    struct owned_answer *o = (struct owned_answer *)a;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

/* -- updates -- */

enum err wire_update_put(Procfleet__V1__Update *m, const struct wire_update *u,
                         struct wire_arena *a)
{
    enum err e;

    procfleet__v1__update__init(m);
    m->data = wire_arena_array(a, 1, sizeof *m->data);
    if (!m->data) {
        return a->bad;
    }
    wire_uuid_put(&m->has_host, &m->host, &u->host);
    e = build_answer(m->data, &u->data, a);
    return e ? e : WIRE_PUT_TEXT(m, name, u->name, MODEL_HOST_NAME_MAX, a);
}

enum err wire_update_pack(struct buf *out, const struct wire_update *u)
{
    Procfleet__V1__Update m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = wire_update_put(&m, u, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_update_get(struct wire_update *u, const Procfleet__V1__Update *m,
                         struct wire_arena *a)
{
    if (!wire_uuid_get(&u->host, m->has_host, &m->host) ||
        !wire_text_get(&u->name, m->has_name, &m->name, MODEL_HOST_NAME_MAX)) {
        return ERR_CORRUPT;
    }
    return m->data ? read_answer(&u->data, m->data, a) : ERR_OK;
}

enum err wire_update_decode(struct wire_update **out, const void *p, size_t n)
{
    struct owned_update *o = mem_zalloc(sizeof *o);
    Procfleet__V1__Update *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack_within(&m, &o->arena, &procfleet__v1__update__descriptor, p, n, UPDATE_BYTES);
    if (!e) {
        e = wire_update_get(&o->u, m, &o->arena);
    }
    if (e) {
        wire_update_free(&o->u);
        return e;
    }
    *out = &o->u;
    return ERR_OK;
}

void wire_update_free(struct wire_update *u)
{
    struct owned_update *o = (struct owned_update *)u;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}
