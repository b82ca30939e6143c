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
#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

/* Answers (wire_query.h). Rows refer to a table of instances: a history of one process carries its
 * command line once. Values travel packed, only those present. What is decoded keeps the unpacked
 * message beside it, because text points into it: both live in one arena behind the struct. */

#define RESULT_BYTES (16u << 20) /* the largest answer that the limits allow, decoded */
#define NOTES_MAX    64u
#define CLASS_TEXT   256u

struct owned_answer {
    struct wire_answer a;
    struct wire_arena arena;
};

/* -- tables -- */

#define OF struct wire_loss_span, Procfleet__V1__LossSpan
static const struct wire_field loss_span_fields[] = {
    WIRE_NUM(first_ns), WIRE_NUM(last_ns), WIRE_NUM(ticks), WIRE_NUM(events), WIRE_END,
};
#undef OF
static const struct wire_table loss_span_table =
    WIRE_TABLE(wire_loss_span, loss_span, loss_span_fields);

#define OF struct wire_stage, Procfleet__V1__StageCount
static const struct wire_field stage_fields[] = {
    WIRE_TEXT(stage, MODEL_TEXT_MAX),
    WIRE_TEXT(reason, MODEL_TEXT_MAX),
    WIRE_NUM(count),
    WIRE_NUM(role),
    WIRE_NUM(unit),
    WIRE_NUM(loss),
    WIRE_NUM(first_ns),
    WIRE_NUM(last_ns),
    WIRE_END,
};
#undef OF
static const struct wire_table stage_table = WIRE_TABLE(wire_stage, stage_count, stage_fields);

#define OF struct wire_coverage, Procfleet__V1__Coverage
static const struct wire_field coverage_fields[] = {
    WIRE_NUM(host), /* checked against the answer's hosts */
    WIRE_NUM(since_ns),
    WIRE_NUM(until_ns),
    WIRE_NUM(ppm),
    WIRE_NUM_IF(ticks_ppm, has_ticks),
    WIRE_NUM_IF(events_ppm, has_events),
    WIRE_NUM(at_most),
    WIRE_NUM(missing),
    WIRE_NUM(ticks),
    WIRE_NUM(lost_ticks),
    WIRE_NUM(events),
    WIRE_NUM(lost_events),
    WIRE_NUM(lost_rows),
    WIRE_NUM(missing_batches),
    WIRE_LIST(spans, n_spans, WIRE_SPANS_MAX, &loss_span_table),
    WIRE_LIST(stages, n_stages, WIRE_STAGES_MAX, &stage_table),
    WIRE_END,
};
#undef OF
static const struct wire_table coverage_table =
    WIRE_TABLE(wire_coverage, coverage, coverage_fields);

#define OF struct wire_coverage_sum, Procfleet__V1__CoverageSum
static const struct wire_field coverage_sum_fields[] = {
    WIRE_NUM(ppm), WIRE_NUM(at_most), WIRE_NUM(lost_ticks), WIRE_NUM(lost_events), WIRE_END,
};
#undef OF
static const struct wire_table coverage_sum_table =
    WIRE_TABLE(wire_coverage_sum, coverage_sum, coverage_sum_fields);

#define OF struct wire_tier_room, Procfleet__V1__TierRoom
static const struct wire_field tier_fields[] = {
    WIRE_TEXT(name, MODEL_TEXT_MAX), WIRE_NUM(files),  WIRE_NUM(bytes),     WIRE_NUM(values),
    WIRE_NUM(share_bytes),           WIRE_NUM(age_ns), WIRE_NUM(oldest_ns), WIRE_NUM(dropped_age),
    WIRE_NUM(dropped_bytes),         WIRE_END,
};
#undef OF
static const struct wire_table tier_table = WIRE_TABLE(wire_tier_room, tier_room, tier_fields);

static bool overview_is_sound(const void *ours)
{
    const struct wire_overview *o = ours;

    return o->next_tier <= o->n_tiers;
}

#define OF struct wire_overview, Procfleet__V1__Overview
static const struct wire_field overview_fields[] = {
    WIRE_NUM(now_ns),          WIRE_NUM(hosts),
    WIRE_NUM(connected),       WIRE_NUM(silent),
    WIRE_NUM(ended),           WIRE_NUM(clones),
    WIRE_NUM(processes),       WIRE_NUM(cpus),
    WIRE_NUM(batches),         WIRE_NUM(gaps),
    WIRE_NUM(lost_events),     WIRE_NUM(first_ns),
    WIRE_NUM(last_ns),         WIRE_LIST(tiers, n_tiers, WIRE_TIERS_MAX, &tier_table),
    WIRE_NUM(head_bytes),      WIRE_NUM(log_bytes),
    WIRE_NUM(catalogue_bytes), WIRE_NUM(total_bytes),
    WIRE_NUM(ceiling_bytes),   WIRE_NUM(disk_free),
    WIRE_NUM(disk_total),      WIRE_NUM(refusing),
    WIRE_NUM(next_tier), /* one of tiers */
    WIRE_NUM(next_window_ns),  WIRE_NUM(next_in_ns),
    WIRE_NUM(sealed_windows),  WIRE_NUM(patches),
    WIRE_NUM(seal_failures),   WIRE_NUM(sealed_ns),
    WIRE_NUM(revoked),         WIRE_END,
};
#undef OF
static const struct wire_table overview_table =
    WIRE_TABLE(wire_overview, overview, overview_fields, .sound = overview_is_sound);

/* Estimates that no reader could use are sent as they are, and taken as not known. */
static enum err host_put(void *message, const void *ours, struct wire_arena *a)
{
    Procfleet__V1__Host *m = message;
    const struct wire_host *h = ours;

    if (h->has_offset) {
        WIRE_PUT(m, offset_error_ns, (uint64_t)h->offset_error_ns);
    }
    m->has_cpu_permille = h->has_cpu;
    m->cpu_permille = (uint64_t)h->cpu_permille;
    m->has_working_set_size = h->has_memory;
    m->working_set_size = (uint64_t)h->memory;
    return h->facts ? wire_facts_put(&m->inventory, &m->n_labels, &m->labels, h->facts, a) : ERR_OK;
}

static enum err host_get(void *ours, const void *message, struct wire_arena *a)
{
    const Procfleet__V1__Host *m = message;
    struct wire_host *h = ours;
    struct facts *f;

    h->has_offset = m->has_offset_error_ns && m->offset_error_ns <= INT64_MAX;
    h->offset_error_ns = h->has_offset ? (int64_t)m->offset_error_ns : 0;
    h->has_cpu = m->has_cpu_permille && m->cpu_permille <= INT64_MAX;
    h->cpu_permille = h->has_cpu ? (int64_t)m->cpu_permille : 0;
    h->has_memory = m->has_working_set_size && m->working_set_size <= INT64_MAX;
    h->memory = h->has_memory ? (int64_t)m->working_set_size : 0;
    if (!m->inventory && !m->n_labels) {
        return ERR_OK;
    }
    f = wire_arena_alloc(a, sizeof *f);
    h->facts = f;
    return f ? wire_facts_get(f, m->inventory, m->n_labels, m->labels) : a->bad;
}

#define OF struct wire_host, Procfleet__V1__Host
static const struct wire_field host_fields[] = {
    WIRE_UUID(id),
    WIRE_TEXT(name, MODEL_HOST_NAME_MAX),
    WIRE_TEXT(source, MODEL_TEXT_MAX),
    WIRE_TEXT(version, MODEL_TEXT_MAX),
    WIRE_UUID(boot),
    WIRE_NUM(connected),
    WIRE_NUM(polled),
    WIRE_NUM(replay),
    WIRE_NUM(ended),
    WIRE_NUM(cpus),
    WIRE_NUM(processes),
    WIRE_NUM(first_ns),
    WIRE_NUM(last_ns),
    WIRE_NUM(offset_ns),
    WIRE_NUM(batches),
    WIRE_NUM(duplicates),
    WIRE_NUM(gaps),
    WIRE_NUM(lost_events),
    WIRE_BY_HAND(offset_error_ns),
    WIRE_NUM(not_after_ns),
    WIRE_NUM(clones),
    WIRE_NUM(heard_ns),
    WIRE_BY_HAND(inventory), /* wire_facts.c */
    WIRE_BY_HAND(labels),    /* likewise */
    WIRE_TEXT_AS(class, class_, MODEL_TEXT_MAX),
    WIRE_NUM(forgotten),
    WIRE_NUM(revoked),
    WIRE_BY_HAND(cpu_permille),
    WIRE_BY_HAND(working_set_size),
    WIRE_END,
};
#undef OF
static const struct wire_table host_table =
    WIRE_TABLE(wire_host, host, host_fields, .put = host_put, .get = host_get);

#define OF struct wire_trend, Procfleet__V1__Trend
static const struct wire_field trend_fields[] = {
    WIRE_NUM(per_hour),
    WIRE_NUM(steady_permille),
    WIRE_END,
};
#undef OF
const struct wire_table wire_answer_trend_table = WIRE_TABLE(wire_trend, trend, trend_fields);

#define OF struct wire_outlier_class, Procfleet__V1__OutlierClass
static const struct wire_field class_fields[] = {
    WIRE_TEXT(name, CLASS_TEXT),
    WIRE_TEXT(image, MODEL_TEXT_MAX),
    WIRE_NUM(hosts),
    WIRE_NUM(not_judged),
    WIRE_NUM(median),
    WIRE_NUM(spread_ppm),
    WIRE_END,
};
#undef OF
const struct wire_table wire_answer_outlier_class_table =
    WIRE_TABLE(wire_outlier_class, outlier_class, class_fields);

#define OF struct wire_outlier, Procfleet__V1__Outlier
static const struct wire_field outlier_fields[] = {
    WIRE_NUM_AS(class, class_), /* one of the classes */
    WIRE_NUM(times_milli),
    WIRE_NUM(z_milli),
    WIRE_NUM(parts), /* at most WIRE_OUTLIER_PARTS */
    WIRE_TEXT(most, MODEL_TEXT_MAX),
    WIRE_NUM(most_value),
    WIRE_TEXT(differs, MODEL_TEXT_MAX),
    WIRE_END,
};
#undef OF
const struct wire_table wire_answer_outlier_table =
    WIRE_TABLE(wire_outlier, outlier, outlier_fields);

static bool outliers_are_sound(const struct wire_outliers *o, size_t n)
{
    bool sound = true;

    for (size_t i = 0; i < n; i++) {
        sound = sound && o->rows[i].class < o->n_classes && o->rows[i].parts <= WIRE_OUTLIER_PARTS;
    }
    return sound;
}

#define OF struct wire_provider_sum, Procfleet__V1__ProviderSum
static const struct wire_field provider_fields[] = {
    WIRE_NUM(host), /* checked against the answer's hosts */
    WIRE_NUM(hosts), WIRE_NUM(events),   WIRE_NUM(value_bytes), WIRE_NUM(redacted),
    WIRE_NUM(cut),   WIRE_NUM(first_ns), WIRE_NUM(last_ns),     WIRE_END,
};
#undef OF
const struct wire_table wire_answer_provider_table =
    WIRE_TABLE(wire_provider_sum, provider_sum, provider_fields);

static bool providers_are_of_hosts(const struct wire_provider_sum *list, size_t n, size_t n_hosts)
{
    bool sound = true;

    for (size_t i = 0; i < n; i++) {
        sound = sound && list[i].host < n_hosts;
    }
    return sound;
}

#define OF struct wire_boot, Procfleet__V1__Boot
static const struct wire_field boot_fields[] = {
    WIRE_NUM(host), /* checked against the answer's hosts */
    WIRE_UUID(boot),   WIRE_NUM(booted_ns), WIRE_NUM(first_ns),
    WIRE_NUM(last_ns), WIRE_NUM(end),       WIRE_END,
};
#undef OF
const struct wire_table wire_answer_boot_table = WIRE_TABLE(wire_boot, boot, boot_fields);

static bool boots_are_sound(const struct wire_boots *b, size_t n_hosts)
{
    bool sound = true;

    for (size_t i = 0; i < b->n; i++) {
        sound = sound && b->list[i].host < n_hosts && b->list[i].end < WIRE_BOOT_ENDS;
    }
    return sound;
}

#define OF struct wire_answer, Procfleet__V1__Answer
static const struct wire_field answer_fields[] = {
    WIRE_LIST(hosts, n_hosts, WIRE_ROWS_MAX, &host_table),
    WIRE_BY_HAND(metrics),
    WIRE_BY_HAND(infos), /* wire_rows.c */
    WIRE_BY_HAND(rows),  /* likewise */
    WIRE_BY_HAND(events),
    WIRE_NUM(since_ns),
    WIRE_NUM(until_ns),
    WIRE_NUM(partial),
    WIRE_TEXTS(notes, n_notes, NOTES_MAX, MODEL_TEXT_MAX),
    WIRE_LIST(coverage, n_coverage, WIRE_ROWS_MAX, &coverage_table),
    WIRE_BY_HAND(used),
    WIRE_NUM(damaged),
    WIRE_SUB(overview, &overview_table),
    WIRE_BY_HAND(event_types), /* wire_info.c */
    WIRE_BY_HAND(series),      /* wire_series.c */
    WIRE_BY_HAND(lifetimes),   /* wire_lifetimes.c */
    WIRE_PART_IF(sum, sum.known, coverage_sum, &coverage_sum_table),
    WIRE_BY_HAND(outliers),
    WIRE_BY_HAND(outlier_classes),
    WIRE_BY_HAND(trends),
    WIRE_BY_HAND(metrics_high),
    WIRE_BY_HAND(providers),
    WIRE_BY_HAND(providers_left_out),
    WIRE_BY_HAND(boots),
    WIRE_BY_HAND(knows), /* of whole answers, not of updates */
    WIRE_END,
};
#undef OF
const struct wire_table wire_answer_table = WIRE_TABLE(wire_answer, answer, answer_fields);

static bool coverage_is_of_hosts(const struct wire_answer *x)
{
    bool sound = true;

    for (size_t i = 0; i < x->n_coverage; i++) {
        sound = sound && x->coverage[i].host < x->n_hosts;
    }
    return sound;
}

/* -- encode -- */

static enum err put_trends(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    if (!in->trends) {
        return ERR_OK;
    }
    m->n_trends = in->n_rows;
    return wire_table_put_list(&m->trends, in->trends, in->n_rows, &wire_answer_trend_table, a);
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

static enum err put_outliers(Procfleet__V1__Answer *m, const struct wire_answer *in,
                             struct wire_arena *a)
{
    const struct wire_outliers *o = in->outliers;
    enum err e;

    if (!o) {
        return ERR_OK;
    }
    if (o->n_classes > WIRE_OUTLIER_CLASSES || !outliers_are_sound(o, in->n_rows)) {
        return ERR_INVALID;
    }
    m->n_outlier_classes = o->n_classes;
    m->n_outliers = in->n_rows;
    e = wire_table_put_list(&m->outlier_classes, o->classes, o->n_classes,
                            &wire_answer_outlier_class_table, a);
    return e ? e
             : wire_table_put_list(&m->outliers, o->rows, in->n_rows, &wire_answer_outlier_table,
                                   a);
}

/* Sum i is of the answer's event type i: an answer that has sums has no events. */
static enum err put_providers(Procfleet__V1__Answer *m, const struct wire_answer *in,
                              struct wire_arena *a)
{
    const struct wire_providers *p = in->providers;
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    enum err e;

    if (!p) {
        return ERR_OK;
    }
    if (p->n > WIRE_ROWS_MAX || in->n_events ||
        !providers_are_of_hosts(p->list, p->n, in->n_hosts)) {
        return ERR_INVALID;
    }
    types.list = wire_arena_array(a, p->n, sizeof *types.list);
    if (!types.list) {
        return a->bad;
    }
    for (size_t i = 0; i < p->n; i++) {
        types.list[types.n++] = p->list[i].type;
    }
    m->n_providers = p->n;
    WIRE_PUT(m, providers_left_out, p->left_out);
    e = wire_table_put_list(&m->providers, p->list, p->n, &wire_answer_provider_table, a);
    return e ? e : wire_info_types_put(&m->event_types, &m->n_event_types, &types, a);
}

static enum err put_boots(Procfleet__V1__Answer *m, const struct wire_answer *in,
                          struct wire_arena *a)
{
    if (!in->boots) {
        return ERR_OK;
    }
    if (in->boots->n > WIRE_BOOTS_MAX || !boots_are_sound(in->boots, in->n_hosts)) {
        return ERR_INVALID;
    }
    m->n_boots = in->boots->n;
    return wire_table_put_list(&m->boots, in->boots->list, m->n_boots, &wire_answer_boot_table, a);
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

enum err wire_answer_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                         struct wire_arena *a)
{
    enum err e;

    if (in->n_rows > WIRE_ROWS_MAX || in->n_events > WIRE_ROWS_MAX ||
        in->n_metrics > WIRE_COLUMNS_MAX || in->n_coverage > WIRE_ROWS_MAX ||
        in->n_used > WIRE_USED_MAX || !coverage_is_of_hosts(in)) {
        return ERR_INVALID;
    }
    e = wire_table_put(m, in, &wire_answer_table, a);
    m->n_used = in->n_used;
    m->used = (uint32_t *)(uintptr_t)in->used;
    e = e ? e : put_metrics(m, in, a);
    e = e || !in->n_rows ? e : wire_rows_put(m, in, a);
    e = e || !in->n_events ? e : put_events(m, in, a);
    e = e ? e : put_trends(m, in, a);
    e = e ? e : wire_series_put(m, in, a);
    e = e ? e : wire_lifetimes_put(m, in, a);
    e = e ? e : put_outliers(m, in, a);
    e = e ? e : put_providers(m, in, a);
    return e ? e : put_boots(m, in, a);
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
    if (m->n_trends == 0) {
        return ERR_OK;
    }
    return m->n_trends != m->n_rows ? ERR_CORRUPT
                                    : wire_table_get_list(&out->trends, m->trends, m->n_trends,
                                                          &wire_answer_trend_table, a);
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

static enum err get_outliers(struct wire_answer *out, const Procfleet__V1__Answer *m,
                             struct wire_arena *a)
{
    size_t n = m->n_outlier_classes;
    struct wire_outliers *o;
    enum err e;

    if (n == 0 && m->n_outliers == 0) {
        return ERR_OK;
    }
    if (m->n_outliers != m->n_rows || n > WIRE_OUTLIER_CLASSES) {
        return n > WIRE_OUTLIER_CLASSES ? ERR_FULL : ERR_CORRUPT;
    }
    wire_arena_allow(a,
                     sizeof *o + (n + 1) * sizeof *o->classes + (m->n_rows + 1) * sizeof *o->rows);
    o = wire_arena_alloc(a, sizeof *o);
    if (!o) {
        return a->bad;
    }
    o->n_classes = n;
    out->outliers = o;
    e = wire_table_get_list(&o->classes, m->outlier_classes, n, &wire_answer_outlier_class_table,
                            a);
    e = e ? e
          : wire_table_get_list(&o->rows, m->outliers, m->n_rows, &wire_answer_outlier_table, a);
    return e || outliers_are_sound(o, m->n_rows) ? e : ERR_CORRUPT;
}

static enum err get_providers(struct wire_answer *out, const Procfleet__V1__Answer *m,
                              struct wire_arena *a)
{
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    struct wire_provider_sum *list = NULL;
    struct wire_providers *p;
    enum err e;

    if (m->n_providers == 0) {
        return ERR_OK;
    }
    if (m->n_providers > WIRE_ROWS_MAX || m->n_providers != m->n_event_types) {
        return ERR_CORRUPT;
    }
    wire_arena_allow(a, wire_info_types_bytes(m->event_types, m->n_event_types) + sizeof *p + 64 +
                            m->n_providers * sizeof *list);
    p = wire_arena_alloc(a, sizeof *p);
    if (!p) {
        return a->bad;
    }
    e = wire_table_get_list(&list, m->providers, m->n_providers, &wire_answer_provider_table, a);
    e = e ? e : wire_info_types_get(&types, m->event_types, m->n_event_types, a);
    for (size_t i = 0; !e && i < m->n_providers; i++) {
        list[i].type = types.list[i];
    }
    *p = (struct wire_providers){m->n_providers, list, m->providers_left_out};
    out->providers = p;
    return e || providers_are_of_hosts(list, p->n, m->n_hosts) ? e : ERR_CORRUPT;
}

static enum err get_boots(struct wire_answer *out, const Procfleet__V1__Answer *m,
                          struct wire_arena *a)
{
    struct wire_boots *boots;
    enum err e;

    if (m->n_boots == 0) {
        return ERR_OK;
    }
    if (m->n_boots > WIRE_BOOTS_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, sizeof *boots + (m->n_boots + 1) * sizeof *boots->list);
    boots = wire_arena_alloc(a, sizeof *boots);
    if (!boots) {
        return a->bad;
    }
    boots->n = m->n_boots;
    out->boots = boots;
    e = wire_table_get_list(&boots->list, m->boots, m->n_boots, &wire_answer_boot_table, a);
    return e || boots_are_sound(boots, out->n_hosts) ? e : ERR_CORRUPT;
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
    out->knows = m->knows;
    out->n_used = (uint8_t)m->n_used;
    for (size_t i = 0; i < m->n_used; i++) {
        out->used[i] = m->used[i];
    }
    e = get_metrics(out, m);
    e = e ? e : wire_table_get(out, m, &wire_answer_table, a);
    e = e || coverage_is_of_hosts(out) ? e : ERR_CORRUPT;
    e = e ? e : wire_rows_get(out, m, a);
    e = e ? e : get_events(out, m, a);
    e = e ? e : get_trends(out, m, a);
    e = e ? e : wire_series_get(out, m, a);
    e = e ? e : wire_lifetimes_get(out, m, a);
    e = e ? e : get_outliers(out, m, a);
    e = e ? e : get_providers(out, m, a);
    return e ? e : get_boots(out, m, a);
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
