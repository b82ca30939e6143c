/* Overview: the fleet asked for in one glance, and what the collector keeps of it. Who may not see
 * every host is not told what is kept of all. */
#include "collector/query/query_impl.h"

#include "common/model/ledger.h"
#include "common/wire/wire_overview.h"

#define ROOM(i) q->env->room->kind[i]

static enum err overview_host(struct query *q, const struct query_span *s, struct wire_overview *o)
{
    const struct store_host *h = s->about;
    struct query_host_state state = query_host_state_of(q, h);
    uint32_t alive;
    enum err e;

    o->hosts++;
    if (state.connected) {
        o->connected++;
    } else if (state.revoked) {
        o->revoked++;
    } else if (query_has_ended(h, &state)) {
        o->ended++;
    } else {
        o->silent++;
    }
    o->clones += state.clones;
    o->batches += h->batches;
    if (query_is_believed(h)) {
        o->gaps = ledger_add(o->gaps, h->gaps);
        o->lost_events = ledger_add(o->lost_events, h->lost_events);
    } else {
        query_remark(q, QNOTE_UNBELIEVED, s, "%s", "");
    }
    o->first_ns = o->hosts == 1 || h->first_ns < o->first_ns ? h->first_ns : o->first_ns;
    o->last_ns = o->hosts == 1 || h->last_ns > o->last_ns ? h->last_ns : o->last_ns;
    if (query_has_ended(h, &state) || (state.revoked && !state.connected)) {
        return ERR_OK;
    }
    o->cpus += h->cpus;
    e = query_hosts_alive(q, s, &alive);
    o->processes += e ? 0 : alive;
    return e;
}

static enum err overview_tiers(struct query *q, struct wire_overview *o)
{
    static const struct {
        uint8_t kind;
        const char *name;
    } all[] = {{SEG_RAW, "raw"}, {SEG_10S, "10s"},     {SEG_1MIN, "1min"},
               {SEG_1H, "1h"},   {SEG_REST, "events"}, {SEG_PROVIDER, "provider"}};
    const size_t n = sizeof all / sizeof *all;
    struct wire_tier_room *tiers = arena_array(&q->out->memory, n, sizeof *tiers);

    if (!tiers) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const uint8_t k = all[i].kind;

        tiers[i] = (struct wire_tier_room){.name = str_make(all[i].name),
                                           .files = ROOM(k).files,
                                           .bytes = ROOM(k).bytes,
                                           .values = ROOM(k).values,
                                           .share_bytes = ROOM(k).share_bytes,
                                           .age_ns = ROOM(k).age_ns,
                                           .oldest_ns = ROOM(k).oldest_ns,
                                           .dropped_age = ROOM(k).dropped_age,
                                           .dropped_bytes = ROOM(k).dropped_bytes};
        if (q->env->room->next_kind == k) {
            o->next_tier = (uint32_t)i + 1;
        }
    }
    o->tiers = tiers;
    o->n_tiers = n;
    return ERR_OK;
}

static enum err overview_room(struct query *q, struct wire_overview *o)
{
    const struct store_room *r = q->env->room;

    o->log_bytes = r->log_bytes;
    o->catalogue_bytes = r->catalogue_bytes;
    o->total_bytes = r->total_bytes;
    o->ceiling_bytes = r->ceiling_bytes;
    o->disk_free = r->disk_free;
    o->disk_total = r->disk_total;
    o->refusing = r->refusing;
    o->next_window_ns = r->next_window_ns;
    o->next_in_ns = r->next_in_ns;
    o->sealed_windows = r->sealed_windows;
    o->patches = r->patches;
    o->seal_failures = r->seal_failures;
    o->sealed_ns = r->sealed_ns;
    return overview_tiers(q, o);
}

enum err query_overview(struct query *q)
{
    struct wire_overview *o = arena_alloc(&q->out->memory, sizeof *o);
    bool sees_all = !q->env->scope || !q->env->scope[0];
    enum err e = query_plan(q, NULL, 0, WIRE_ROWS_MAX);

    if (e || !o) {
        return e ? e : ERR_NOMEM;
    }
    o->now_ns = q->env->now_ns;
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        e = overview_host(q, &q->spans[i], o);
    }
    if (!e && sees_all && q->env->stats) {
        o->head_bytes = q->env->stats->head_bytes;
        o->log_bytes = q->env->stats->log_bytes;
    }
    if (!e && sees_all && q->env->room) {
        e = overview_room(q, o);
    }
    q->out->data.overview = o;
    return e;
}
