#include "common/wire/wire_coverage.h"

/* -- encode -- */

static enum err put_spans(Procfleet__V1__Coverage *m, const struct wire_coverage *c,
                          struct wire_arena *a)
{
    Procfleet__V1__LossSpan *items = wire_list(&m->spans, c->n_spans, sizeof *items, a);

    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < c->n_spans; i++) {
        procfleet__v1__loss_span__init(&items[i]);
        WIRE_PUT(&items[i], first_ns, c->spans[i].first_ns);
        WIRE_PUT(&items[i], last_ns, c->spans[i].last_ns);
        WIRE_PUT(&items[i], ticks, c->spans[i].ticks);
        WIRE_PUT(&items[i], events, c->spans[i].events);
    }
    m->n_spans = c->n_spans;
    return ERR_OK;
}

static enum err put_stage(Procfleet__V1__StageCount *m, const struct wire_stage *s,
                          struct wire_arena *a)
{
    enum err e;

    procfleet__v1__stage_count__init(m);
    WIRE_PUT(m, count, s->count);
    WIRE_PUT(m, role, s->role);
    WIRE_PUT(m, unit, s->unit);
    WIRE_PUT(m, loss, s->loss);
    WIRE_PUT(m, first_ns, s->first_ns);
    WIRE_PUT(m, last_ns, s->last_ns);
    e = wire_text_put(&m->has_stage, &m->stage, s->stage, MODEL_TEXT_MAX, a);
    return e ? e : wire_text_put(&m->has_reason, &m->reason, s->reason, MODEL_TEXT_MAX, a);
}

static enum err put_stages(Procfleet__V1__Coverage *m, const struct wire_coverage *c,
                           struct wire_arena *a)
{
    Procfleet__V1__StageCount *items = wire_list(&m->stages, c->n_stages, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < c->n_stages; i++) {
        e = put_stage(&items[i], &c->stages[i], a);
    }
    m->n_stages = c->n_stages;
    return e;
}

static enum err put_one(Procfleet__V1__Coverage *m, const struct wire_coverage *c,
                        struct wire_arena *a)
{
    enum err e;

    procfleet__v1__coverage__init(m);
    if (c->n_spans > WIRE_SPANS_MAX || c->n_stages > WIRE_STAGES_MAX) {
        return ERR_INVALID;
    }
    WIRE_PUT(m, host, c->host);
    WIRE_PUT(m, since_ns, c->since_ns);
    WIRE_PUT(m, until_ns, c->until_ns);
    WIRE_PUT(m, ppm, c->ppm);
    m->has_ticks_ppm = c->has_ticks;
    m->ticks_ppm = c->ticks_ppm;
    m->has_events_ppm = c->has_events;
    m->events_ppm = c->events_ppm;
    WIRE_PUT(m, at_most, c->at_most);
    WIRE_PUT(m, missing, c->missing);
    WIRE_PUT(m, ticks, c->ticks);
    WIRE_PUT(m, lost_ticks, c->lost_ticks);
    WIRE_PUT(m, events, c->events);
    WIRE_PUT(m, lost_events, c->lost_events);
    WIRE_PUT(m, lost_rows, c->lost_rows);
    WIRE_PUT(m, missing_batches, c->missing_batches);
    e = put_spans(m, c, a);
    return e ? e : put_stages(m, c, a);
}

enum err wire_coverage_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    Procfleet__V1__Coverage *items = wire_list(&m->coverage, in->n_coverage, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_coverage; i++) {
        e = in->coverage[i].host < in->n_hosts ? put_one(&items[i], &in->coverage[i], a)
                                               : ERR_INVALID;
    }
    m->n_coverage = in->n_coverage;
    return e;
}

/* -- decode -- */

static enum err get_spans(struct wire_coverage *c, const Procfleet__V1__Coverage *m,
                          struct wire_arena *a)
{
    struct wire_loss_span *items = wire_arena_array(a, m->n_spans, sizeof *items);

    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_spans; i++) {
        const Procfleet__V1__LossSpan *s = m->spans[i];

        items[i] = (struct wire_loss_span){s->first_ns, s->last_ns, s->ticks, s->events};
    }
    c->spans = items;
    c->n_spans = m->n_spans;
    return ERR_OK;
}

static enum err get_stages(struct wire_coverage *c, const Procfleet__V1__Coverage *m,
                           struct wire_arena *a)
{
    struct wire_stage *items = wire_arena_array(a, m->n_stages, sizeof *items);

    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_stages; i++) {
        const Procfleet__V1__StageCount *s = m->stages[i];
        struct wire_stage *to = &items[i];

        if (!wire_text_get(&to->stage, s->has_stage, &s->stage, MODEL_TEXT_MAX) ||
            !wire_text_get(&to->reason, s->has_reason, &s->reason, MODEL_TEXT_MAX) ||
            s->role > UINT8_MAX || s->unit > UINT8_MAX) {
            return ERR_CORRUPT;
        }
        to->role = (uint8_t)s->role;
        to->unit = (uint8_t)s->unit;
        to->loss = s->loss != 0;
        to->count = s->count;
        to->first_ns = s->first_ns;
        to->last_ns = s->last_ns;
    }
    c->stages = items;
    c->n_stages = m->n_stages;
    return ERR_OK;
}

static enum err get_one(struct wire_coverage *c, const Procfleet__V1__Coverage *m,
                        struct wire_arena *a)
{
    enum err e;

    if (m->n_spans > WIRE_SPANS_MAX || m->n_stages > WIRE_STAGES_MAX) {
        return ERR_FULL;
    }
    *c = (struct wire_coverage){.host = m->host,
                                .since_ns = m->since_ns,
                                .until_ns = m->until_ns,
                                .ppm = m->ppm,
                                .has_ticks = m->has_ticks_ppm != 0,
                                .has_events = m->has_events_ppm != 0,
                                .ticks_ppm = m->ticks_ppm,
                                .events_ppm = m->events_ppm,
                                .at_most = m->at_most != 0,
                                .missing = m->missing != 0,
                                .ticks = m->ticks,
                                .lost_ticks = m->lost_ticks,
                                .events = m->events,
                                .lost_events = m->lost_events,
                                .lost_rows = m->lost_rows,
                                .missing_batches = m->missing_batches};
    e = get_spans(c, m, a);
    return e ? e : get_stages(c, m, a);
}

enum err wire_coverage_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                           struct wire_arena *a)
{
    struct wire_coverage *items = wire_arena_array(a, m->n_coverage, sizeof *items);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_coverage; i++) {
        e = m->coverage[i]->host < m->n_hosts ? get_one(&items[i], m->coverage[i], a) : ERR_CORRUPT;
    }
    out->coverage = items;
    out->n_coverage = m->n_coverage;
    return e;
}
