#include "common/wire/wire_answer.h"

#include "common/base/mem.h"
#include "common/wire/wire.h"
#include "common/wire/wire_boots.h"
#include "common/wire/wire_facts.h"
#include "common/wire/wire_info.h"
#include "common/wire/wire_lifetimes.h"
#include "common/wire/wire_outliers.h"
#include "common/wire/wire_overview.h"
#include "common/wire/wire_providers.h"
#include "common/wire/wire_rows.h"
#include "common/wire/wire_series.h"
#include "proto/query.pb-c.h"

/* Answers (wire_query.h). Rows refer to a table of instances: a history of one process carries its
 * command line once. Values travel packed, only those present. What is decoded keeps the unpacked
 * message beside it, because text points into it: both live in one arena behind the struct. */

#define RESULT_BYTES (16u << 20) /* the largest answer that the limits allow, decoded */
#define NOTES_MAX    64u

struct owned_answer {
    struct wire_answer a;
    struct wire_arena arena;
};

/* -- coverage -- */

static enum err coverage_put_spans(Procfleet__V1__Coverage *m, const struct wire_coverage *c,
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

static enum err coverage_put_stage(Procfleet__V1__StageCount *m, const struct wire_stage *s,
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

static enum err coverage_put_stages(Procfleet__V1__Coverage *m, const struct wire_coverage *c,
                                    struct wire_arena *a)
{
    Procfleet__V1__StageCount *items = wire_list(&m->stages, c->n_stages, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < c->n_stages; i++) {
        e = coverage_put_stage(&items[i], &c->stages[i], a);
    }
    m->n_stages = c->n_stages;
    return e;
}

static enum err coverage_put_one(Procfleet__V1__Coverage *m, const struct wire_coverage *c,
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
    e = coverage_put_spans(m, c, a);
    return e ? e : coverage_put_stages(m, c, a);
}

static enum err coverage_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                             struct wire_arena *a)
{
    Procfleet__V1__Coverage *items = wire_list(&m->coverage, in->n_coverage, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_coverage; i++) {
        e = in->coverage[i].host < in->n_hosts ? coverage_put_one(&items[i], &in->coverage[i], a)
                                               : ERR_INVALID;
    }
    m->n_coverage = in->n_coverage;
    return e;
}

/* -- decode -- */

static void get_sum(struct wire_coverage_sum *out, const Procfleet__V1__CoverageSum *m)
{
    if (m) {
        *out = (struct wire_coverage_sum){true, m->at_most != 0, m->ppm, m->lost_ticks,
                                          m->lost_events};
    }
}

static enum err coverage_get_spans(struct wire_coverage *c, const Procfleet__V1__Coverage *m,
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

static enum err coverage_get_stages(struct wire_coverage *c, const Procfleet__V1__Coverage *m,
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

static enum err coverage_get_one(struct wire_coverage *c, const Procfleet__V1__Coverage *m,
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
    e = coverage_get_spans(c, m, a);
    return e ? e : coverage_get_stages(c, m, a);
}

static enum err coverage_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                             struct wire_arena *a)
{
    struct wire_coverage *items = wire_arena_array(a, m->n_coverage, sizeof *items);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_coverage; i++) {
        e = m->coverage[i]->host < m->n_hosts ? coverage_get_one(&items[i], m->coverage[i], a)
                                              : ERR_CORRUPT;
    }
    out->coverage = items;
    out->n_coverage = m->n_coverage;
    return e;
}

/* -- the overview -- */

/* -- encode -- */

static enum err overview_put_tier(Procfleet__V1__TierRoom *m, const struct wire_tier_room *t,
                                  struct wire_arena *a)
{
    procfleet__v1__tier_room__init(m);
    WIRE_PUT(m, files, t->files);
    WIRE_PUT(m, bytes, t->bytes);
    WIRE_PUT(m, values, t->values);
    WIRE_PUT(m, share_bytes, t->share_bytes);
    WIRE_PUT(m, age_ns, t->age_ns > 0 ? (uint64_t)t->age_ns : 0);
    WIRE_PUT(m, oldest_ns, t->oldest_ns);
    WIRE_PUT(m, dropped_age, t->dropped_age);
    WIRE_PUT(m, dropped_bytes, t->dropped_bytes);
    return wire_text_put(&m->has_name, &m->name, t->name, MODEL_TEXT_MAX, a);
}

static void overview_put_fleet(Procfleet__V1__Overview *m, const struct wire_overview *o)
{
    WIRE_PUT(m, now_ns, o->now_ns);
    WIRE_PUT(m, hosts, o->hosts);
    WIRE_PUT(m, connected, o->connected);
    WIRE_PUT(m, silent, o->silent);
    WIRE_PUT(m, ended, o->ended);
    WIRE_PUT(m, revoked, o->revoked);
    WIRE_PUT(m, clones, o->clones);
    WIRE_PUT(m, processes, o->processes);
    WIRE_PUT(m, cpus, o->cpus);
    WIRE_PUT(m, batches, o->batches);
    WIRE_PUT(m, gaps, o->gaps);
    WIRE_PUT(m, lost_events, o->lost_events);
    WIRE_PUT(m, first_ns, o->first_ns);
    WIRE_PUT(m, last_ns, o->last_ns);
}

static void overview_put_room(Procfleet__V1__Overview *m, const struct wire_overview *o)
{
    WIRE_PUT(m, head_bytes, o->head_bytes);
    WIRE_PUT(m, log_bytes, o->log_bytes);
    WIRE_PUT(m, catalogue_bytes, o->catalogue_bytes);
    WIRE_PUT(m, total_bytes, o->total_bytes);
    WIRE_PUT(m, ceiling_bytes, o->ceiling_bytes);
    WIRE_PUT(m, disk_free, o->disk_free);
    WIRE_PUT(m, disk_total, o->disk_total);
    WIRE_PUT(m, refusing, o->refusing);
    WIRE_PUT(m, next_tier, o->next_tier);
    WIRE_PUT(m, next_window_ns, o->next_window_ns);
    WIRE_PUT(m, next_in_ns, o->next_in_ns > 0 ? (uint64_t)o->next_in_ns : 0);
    WIRE_PUT(m, sealed_windows, o->sealed_windows);
    WIRE_PUT(m, patches, o->patches);
    WIRE_PUT(m, seal_failures, o->seal_failures);
    WIRE_PUT(m, sealed_ns, o->sealed_ns);
}

static enum err overview_put(struct Procfleet__V1__Answer *out, const struct wire_answer *in,
                             struct wire_arena *a)
{
    const struct wire_overview *o = in->overview;
    Procfleet__V1__Overview *m;
    Procfleet__V1__TierRoom *tiers;
    enum err e = ERR_OK;

    if (!o) {
        return ERR_OK;
    }
    if (o->n_tiers > WIRE_TIERS_MAX || o->next_tier > o->n_tiers) {
        return ERR_INVALID;
    }
    m = wire_arena_array(a, 1, sizeof *m);
    if (!m) {
        return a->bad;
    }
    procfleet__v1__overview__init(m);
    overview_put_fleet(m, o);
    overview_put_room(m, o);
    tiers = wire_list(&m->tiers, o->n_tiers, sizeof *tiers, a);
    if (!tiers) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < o->n_tiers; i++) {
        e = overview_put_tier(&tiers[i], &o->tiers[i], a);
    }
    m->n_tiers = o->n_tiers;
    out->overview = m;
    return e;
}

/* -- decode -- */

static enum err overview_get_tier(struct wire_tier_room *t, const Procfleet__V1__TierRoom *m)
{
    if (!wire_text_get(&t->name, m->has_name, &m->name, MODEL_TEXT_MAX) || m->age_ns > INT64_MAX) {
        return ERR_CORRUPT;
    }
    t->files = m->files;
    t->bytes = m->bytes;
    t->values = m->values;
    t->share_bytes = m->share_bytes;
    t->age_ns = (int64_t)m->age_ns;
    t->oldest_ns = m->oldest_ns;
    t->dropped_age = m->dropped_age;
    t->dropped_bytes = m->dropped_bytes;
    return ERR_OK;
}

static struct wire_overview overview_get_plain(const Procfleet__V1__Overview *m)
{
    return (struct wire_overview){.now_ns = m->now_ns,
                                  .hosts = m->hosts,
                                  .connected = m->connected,
                                  .silent = m->silent,
                                  .ended = m->ended,
                                  .revoked = m->revoked,
                                  .clones = m->clones,
                                  .processes = m->processes,
                                  .cpus = m->cpus,
                                  .batches = m->batches,
                                  .gaps = m->gaps,
                                  .lost_events = m->lost_events,
                                  .first_ns = m->first_ns,
                                  .last_ns = m->last_ns,
                                  .head_bytes = m->head_bytes,
                                  .log_bytes = m->log_bytes,
                                  .catalogue_bytes = m->catalogue_bytes,
                                  .total_bytes = m->total_bytes,
                                  .ceiling_bytes = m->ceiling_bytes,
                                  .disk_free = m->disk_free,
                                  .disk_total = m->disk_total,
                                  .refusing = m->refusing != 0,
                                  .next_tier = m->next_tier,
                                  .next_window_ns = m->next_window_ns,
                                  .next_in_ns = (int64_t)m->next_in_ns,
                                  .sealed_windows = m->sealed_windows,
                                  .patches = m->patches,
                                  .seal_failures = m->seal_failures,
                                  .sealed_ns = m->sealed_ns};
}

static enum err overview_get(struct wire_answer *out, const struct Procfleet__V1__Answer *in,
                             struct wire_arena *a)
{
    const Procfleet__V1__Overview *m = in->overview;
    struct wire_overview *o;
    struct wire_tier_room *tiers;
    enum err e = ERR_OK;

    if (!m) {
        return ERR_OK;
    }
    if (m->n_tiers > WIRE_TIERS_MAX) {
        return ERR_FULL;
    }
    if (m->next_tier > m->n_tiers || m->next_in_ns > INT64_MAX) {
        return ERR_CORRUPT;
    }
    o = wire_arena_array(a, 1, sizeof *o);
    tiers = wire_arena_array(a, m->n_tiers, sizeof *tiers);
    if (!o || !tiers) {
        return a->bad;
    }
    *o = overview_get_plain(m);
    for (size_t i = 0; !e && i < m->n_tiers; i++) {
        e = overview_get_tier(&tiers[i], m->tiers[i]);
    }
    o->tiers = tiers;
    o->n_tiers = m->n_tiers;
    out->overview = o;
    return e;
}

/* -- hosts, rows, events, notes -- */

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
    m->has_cpu_permille = h->has_cpu;
    m->cpu_permille = (uint64_t)h->cpu_permille;
    m->has_working_set_size = h->has_memory;
    m->working_set_size = (uint64_t)h->memory;
    e = WIRE_PUT_TEXT(m, name, h->name, MODEL_HOST_NAME_MAX, a);
    if (!e) {
        e = WIRE_PUT_TEXT(m, source, h->source, MODEL_TEXT_MAX, a);
    }
    if (!e) {
        e = WIRE_PUT_TEXT(m, version, h->version, MODEL_TEXT_MAX, a);
    }
    if (!e && h->facts) {
        e = wire_facts_put(&m->inventory, &m->n_labels, &m->labels, h->facts, a);
    }
    return e ? e : WIRE_PUT_TEXT(m, class_, h->class, MODEL_TEXT_MAX, a);
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

static enum err put_trends(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    size_t n = in->trends ? in->n_rows : 0;
    Procfleet__V1__Trend *items = wire_list(&m->trends, n, sizeof *items, a);

    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < n; i++) {
        procfleet__v1__trend__init(&items[i]);
        WIRE_PUT(&items[i], per_hour, in->trends[i].per_hour);
        WIRE_PUT(&items[i], steady_permille, in->trends[i].steady_permille);
    }
    m->n_trends = n;
    return ERR_OK;
}

static enum err put_ancestors(Procfleet__V1__HostEvent *m, const struct wire_event *in,
                              struct wire_arena *a)
{
    Procfleet__V1__ProcInfo *items = wire_list(&m->ancestors, in->n_ancestors, sizeof *items, a);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_ancestors; i++) {
        e = wire_info_put(&items[i], &in->ancestors[i], a);
    }
    m->n_ancestors = in->n_ancestors;
    return e;
}

static enum err put_events(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    Procfleet__V1__HostEvent *items = wire_list(&m->events, in->n_events, sizeof *items, a);
    Procfleet__V1__LifeEvent *events = wire_arena_array(a, in->n_events, sizeof *events);
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    enum err e = items && events ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_events; i++) {
        if (in->events[i].host >= in->n_hosts || in->events[i].n_ancestors > WIRE_ANCESTORS) {
            return ERR_INVALID;
        }
        procfleet__v1__host_event__init(&items[i]);
        WIRE_PUT(&items[i], host, in->events[i].host);
        items[i].event = &events[i];
        e = wire_info_event_put(&events[i], &in->events[i].event, &types, a);
        e = e ? e : put_ancestors(&items[i], &in->events[i], a);
    }
    m->n_events = in->n_events;
    return e ? e : wire_info_types_put(&m->event_types, &m->n_event_types, &types, a);
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
    m->n_metrics = in->n_metrics < 64 ? in->n_metrics : 64;
    m->metrics_high = m->metrics + m->n_metrics;
    m->n_metrics_high = in->n_metrics - m->n_metrics;
    return ERR_OK;
}

static enum err put_sum(Procfleet__V1__Answer *m, const struct wire_coverage_sum *in,
                        struct wire_arena *a)
{
    if (!in->known) {
        return ERR_OK;
    }
    m->coverage_sum = wire_arena_alloc(a, sizeof *m->coverage_sum);
    if (!m->coverage_sum) {
        return a->bad;
    }
    procfleet__v1__coverage_sum__init(m->coverage_sum);
    WIRE_PUT(m->coverage_sum, ppm, in->ppm);
    WIRE_PUT(m->coverage_sum, at_most, in->at_most);
    WIRE_PUT(m->coverage_sum, lost_ticks, in->lost_ticks);
    WIRE_PUT(m->coverage_sum, lost_events, in->lost_events);
    return ERR_OK;
}

enum err wire_answer_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                         struct wire_arena *a)
{
    enum err e;

    if (in->n_hosts > WIRE_ROWS_MAX || in->n_rows > WIRE_ROWS_MAX || in->n_events > WIRE_ROWS_MAX ||
        in->n_notes > NOTES_MAX || in->n_metrics > WIRE_COLUMNS_MAX ||
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
        e = wire_rows_put(m, in, a);
    }
    if (!e) {
        e = put_events(m, in, a);
    }
    if (!e) {
        e = put_notes(m, in, a);
    }
    if (!e) {
        e = put_trends(m, in, a);
    }
    if (!e) {
        e = coverage_put(m, in, a);
    }
    if (!e) {
        e = put_sum(m, &in->sum, a);
    }
    if (!e) {
        e = overview_put(m, in, a);
    }
    if (!e) {
        e = wire_series_put(m, in, a);
    }
    if (!e) {
        e = wire_lifetimes_put(m, in, a);
    }
    if (!e) {
        e = wire_outliers_put(m, in, a);
    }
    if (!e) {
        e = wire_providers_put(m, in, a);
    }
    if (!e) {
        e = wire_boots_put(m, in, a);
    }
    return e;
}

enum err wire_answer_encode(struct buf *out, const struct wire_answer *in)
{
    struct wire_arena a;
    Procfleet__V1__Answer m;
    enum err e;

    wire_arena_init(&a, WIRE_ANSWER_PACK_BYTES);
    e = wire_answer_put(&m, in, &a);
    WIRE_PUT(&m, knows, WIRE_ASK_KNOWS);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

/* -- decode -- */

static enum err get_facts(struct wire_host *h, const Procfleet__V1__Host *m, struct wire_arena *a)
{
    struct facts *f;

    if (!m->inventory && !m->n_labels) {
        return ERR_OK;
    }
    f = wire_arena_alloc(a, sizeof *f);
    h->facts = f;
    return f ? wire_facts_get(f, m->inventory, m->n_labels, m->labels) : a->bad;
}

static enum err get_host(struct wire_host *h, const Procfleet__V1__Host *m, struct wire_arena *a)
{
    if (!wire_uuid_get(&h->id, m->has_id, &m->id) ||
        !wire_uuid_get(&h->boot, m->has_boot, &m->boot) ||
        !wire_text_get(&h->name, m->has_name, &m->name, MODEL_HOST_NAME_MAX) ||
        !wire_text_get(&h->source, m->has_source, &m->source, MODEL_TEXT_MAX) ||
        !wire_text_get(&h->version, m->has_version, &m->version, MODEL_TEXT_MAX) ||
        !wire_text_get(&h->class, m->has_class_, &m->class_, MODEL_TEXT_MAX)) {
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
    h->has_cpu = m->has_cpu_permille && m->cpu_permille <= INT64_MAX;
    h->cpu_permille = h->has_cpu ? (int64_t)m->cpu_permille : 0;
    h->has_memory = m->has_working_set_size && m->working_set_size <= INT64_MAX;
    h->memory = h->has_memory ? (int64_t)m->working_set_size : 0;
    return get_facts(h, m, a);
}

static enum err get_hosts(struct wire_answer *out, const Procfleet__V1__Answer *m,
                          struct wire_arena *a)
{
    struct wire_host *items = wire_arena_array(a, m->n_hosts, sizeof *items);
    enum err e = items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < m->n_hosts; i++) {
        e = get_host(&items[i], m->hosts[i], a);
    }
    out->hosts = items;
    out->n_hosts = m->n_hosts;
    return e;
}

/* The high ones stand behind 64 others: a writer that has more begins with those. */
static enum err get_metrics(struct wire_answer *out, const Procfleet__V1__Answer *m)
{
    uint8_t n = 0;
    enum err e =
        wire_get_bytes(out->metrics, &out->n_metrics, WIRE_METRICS_MAX, m->metrics, m->n_metrics);

    if (e || !m->n_metrics_high) {
        return e;
    }
    if (out->n_metrics < WIRE_METRICS_MAX) {
        return ERR_CORRUPT;
    }
    e = wire_get_bytes(out->metrics + out->n_metrics, &n, WIRE_COLUMNS_MAX - WIRE_METRICS_MAX,
                       m->metrics_high, m->n_metrics_high);
    out->n_metrics = (uint8_t)(out->n_metrics + n);
    return e;
}

static enum err get_trends(struct wire_answer *out, const Procfleet__V1__Answer *m,
                           struct wire_arena *a)
{
    struct wire_trend *items;

    if (m->n_trends == 0) {
        return ERR_OK;
    }
    if (m->n_trends != m->n_rows) {
        return ERR_CORRUPT;
    }
    items = wire_arena_array(a, m->n_trends, sizeof *items);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_trends; i++) {
        items[i] = (struct wire_trend){m->trends[i]->per_hour, m->trends[i]->steady_permille};
    }
    out->trends = items;
    return ERR_OK;
}

static enum err get_ancestors(struct wire_event *out, const Procfleet__V1__HostEvent *m,
                              struct wire_arena *a)
{
    struct proc_info *items;
    enum err e = ERR_OK;

    if (m->n_ancestors > WIRE_ANCESTORS) {
        return ERR_FULL;
    }
    items = wire_arena_array(a, m->n_ancestors, sizeof *items);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < m->n_ancestors; i++) {
        e = wire_info_get(&items[i], m->ancestors[i]);
    }
    out->ancestors = items;
    out->n_ancestors = m->n_ancestors;
    return e;
}

static enum err get_events(struct wire_answer *out, const Procfleet__V1__Answer *m,
                           struct wire_arena *a)
{
    struct wire_event *items = wire_arena_array(a, m->n_events, sizeof *items);
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    enum err e = items ? ERR_OK : a->bad;

    if (!e) {
        e = wire_info_types_get(&types, m->event_types, m->n_event_types, a);
    }
    for (size_t i = 0; !e && i < m->n_events; i++) {
        if (m->events[i]->host >= m->n_hosts) {
            return ERR_CORRUPT;
        }
        items[i].host = m->events[i]->host;
        e = wire_info_event_get(&items[i].event, m->events[i]->event, &types);
        e = e ? e : get_ancestors(&items[i], m->events[i], a);
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
enum err wire_answer_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                         struct wire_arena *a)
{
    enum err e;

    if (m->n_hosts > WIRE_ROWS_MAX || m->n_rows > WIRE_ROWS_MAX || m->n_infos > WIRE_ROWS_MAX ||
        m->n_events > WIRE_ROWS_MAX || m->n_notes > NOTES_MAX || m->n_coverage > WIRE_ROWS_MAX ||
        m->n_used > WIRE_USED_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, RESULT_BYTES + m->n_hosts * (sizeof(struct facts) + 64) +
                            wire_info_types_bytes(m->event_types, m->n_event_types));
    out->since_ns = m->since_ns;
    out->until_ns = m->until_ns;
    out->partial = m->partial != 0;
    out->damaged = m->damaged;
    out->knows = m->knows;
    get_sum(&out->sum, m->coverage_sum);
    out->n_used = (uint8_t)m->n_used;
    for (size_t i = 0; i < m->n_used; i++) {
        out->used[i] = m->used[i];
    }
    e = get_metrics(out, m);
    if (!e) {
        e = get_hosts(out, m, a);
    }
    if (!e) {
        e = wire_rows_get(out, m, a);
    }
    if (!e) {
        e = get_events(out, m, a);
    }
    if (!e) {
        e = get_notes(out, m, a);
    }
    if (!e) {
        e = get_trends(out, m, a);
    }
    if (!e) {
        e = coverage_get(out, m, a);
    }
    if (!e) {
        e = overview_get(out, m, a);
    }
    if (!e) {
        e = wire_series_get(out, m, a);
    }
    if (!e) {
        e = wire_lifetimes_get(out, m, a);
    }
    if (!e) {
        e = wire_outliers_get(out, m, a);
    }
    if (!e) {
        e = wire_providers_get(out, m, a);
    }
    if (!e) {
        e = wire_boots_get(out, m, a);
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
        e = wire_answer_get(&o->a, m, &o->arena);
    }
    if (!e && o->a.n_metrics > WIRE_METRICS_MAX) {
        e = ERR_CORRUPT; /* only updates have more */
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
