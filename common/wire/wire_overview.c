#include "common/wire/wire_overview.h"

#include "common/wire/wire_mem.h"
#include "proto/query.pb-c.h"

/* -- encode -- */

static enum err put_tier(Procfleet__V1__TierRoom *m, const struct wire_tier_room *t,
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

static void put_fleet(Procfleet__V1__Overview *m, const struct wire_overview *o)
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

static void put_room(Procfleet__V1__Overview *m, const struct wire_overview *o)
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

enum err wire_overview_put(struct Procfleet__V1__Answer *out, const struct wire_answer *in,
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
    put_fleet(m, o);
    put_room(m, o);
    tiers = wire_list(&m->tiers, o->n_tiers, sizeof *tiers, a);
    if (!tiers) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < o->n_tiers; i++) {
        e = put_tier(&tiers[i], &o->tiers[i], a);
    }
    m->n_tiers = o->n_tiers;
    out->overview = m;
    return e;
}

/* -- decode -- */

static enum err get_tier(struct wire_tier_room *t, const Procfleet__V1__TierRoom *m)
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

static struct wire_overview get_plain(const Procfleet__V1__Overview *m)
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

enum err wire_overview_get(struct wire_answer *out, const struct Procfleet__V1__Answer *in,
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
    *o = get_plain(m);
    for (size_t i = 0; !e && i < m->n_tiers; i++) {
        e = get_tier(&tiers[i], m->tiers[i]);
    }
    o->tiers = tiers;
    o->n_tiers = m->n_tiers;
    out->overview = o;
    return e;
}
