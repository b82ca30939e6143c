#include "common/wire/wire_series.h"

#include "common/wire/wire.h"
#include "proto/query.pb-c.h"

/* Series of answers: see wire_series.h. A column travels as the bits of the buckets that have a
 * value and only those values. Decoded it has room for every bucket, so what that may take is
 * checked before anything is allocated. */

/* What stands beside the columns counts as a metric more. */
static bool series_is_bounded(size_t groups, size_t rows, size_t metrics, size_t buckets)
{
    return groups <= rows + 1 && buckets <= WIRE_BUCKETS_MAX &&
           groups * metrics * buckets <= WIRE_SERIES_VALUES_MAX;
}

/* -- encode -- */

static enum err series_column_put(Procfleet__V1__SeriesColumn *m,
                                  const struct wire_series_column *c, uint32_t n_buckets,
                                  struct wire_arena *a)
{
    size_t n = 0;

    procfleet__v1__series_column__init(m);
    for (uint32_t b = 0; b < n_buckets; b++) {
        n += wire_series_has(c, b);
    }
    if (!n) {
        return ERR_OK;
    }
    m->has_have = 1;
    m->have.data = c->have;
    m->have.len = (n_buckets + 7) / 8;
    m->avg = wire_arena_array(a, n, sizeof *m->avg);
    if (c->min) {
        m->min = wire_arena_array(a, n, sizeof *m->min);
        m->max = wire_arena_array(a, n, sizeof *m->max);
    }
    if (!m->avg || (c->min && (!m->min || !m->max))) {
        return a->bad;
    }
    for (uint32_t b = 0; b < n_buckets; b++) {
        if (!wire_series_has(c, b)) {
            continue;
        }
        m->avg[m->n_avg++] = c->avg[b];
        if (c->min) {
            m->min[m->n_min++] = c->min[b];
            m->max[m->n_max++] = c->max[b];
        }
    }
    return ERR_OK;
}

/* One more of each, so that 0 is none. */
static enum err series_extra_put(uint32_t **out, size_t *n_out, const uint32_t *from, size_t group,
                                 uint32_t n, struct wire_arena *a)
{
    if (!from) {
        return ERR_OK;
    }
    *out = wire_arena_array(a, n, sizeof **out);
    if (!*out) {
        return a->bad;
    }
    for (uint32_t b = 0; b < n; b++) {
        (*out)[b] = from[group * n + b] + 1; /* WIRE_SERIES_NONE becomes 0 */
    }
    *n_out = n;
    return ERR_OK;
}

static enum err series_groups_put(Procfleet__V1__Series *m, const struct wire_series *s,
                                  uint8_t n_metrics, struct wire_arena *a)
{
    Procfleet__V1__SeriesGroup *groups = wire_list(&m->groups, s->n_groups, sizeof *groups, a);
    enum err e = groups ? ERR_OK : a->bad;

    for (size_t g = 0; !e && g < s->n_groups; g++) {
        Procfleet__V1__SeriesColumn *columns;

        procfleet__v1__series_group__init(&groups[g]);
        columns = wire_list(&groups[g].columns, n_metrics, sizeof *columns, a);
        e = columns ? ERR_OK : a->bad;
        for (unsigned i = 0; !e && i < n_metrics; i++) {
            e = series_column_put(&columns[i], &s->columns[g * n_metrics + i], s->n_buckets, a);
        }
        groups[g].n_columns = n_metrics;
        e = e ? e
              : series_extra_put(&groups[g].present, &groups[g].n_present, s->group_present, g,
                                 s->n_buckets, a);
        e = e ? e
              : series_extra_put(&groups[g].processes, &groups[g].n_processes, s->group_processes,
                                 g, s->n_buckets, a);
    }
    m->n_groups = s->n_groups;
    return e;
}

enum err wire_series_put(struct Procfleet__V1__Answer *out, const struct wire_answer *in,
                         struct wire_arena *a)
{
    const struct wire_series *s = in->series;
    Procfleet__V1__Series *m;

    if (!s) {
        return ERR_OK;
    }
    if (!series_is_bounded(s->n_groups, in->n_rows, in->n_metrics, s->n_buckets)) {
        return ERR_INVALID;
    }
    m = wire_arena_array(a, 1, sizeof *m);
    if (!m) {
        return a->bad;
    }
    procfleet__v1__series__init(m);
    WIRE_PUT(m, t0_ns, s->t0_ns);
    WIRE_PUT(m, step_ns, (uint64_t)s->step_ns);
    WIRE_PUT(m, hosts_asked, s->hosts_asked);
    m->present = (uint32_t *)(uintptr_t)s->present;
    m->hosts_in = (uint32_t *)(uintptr_t)s->hosts_in;
    m->n_present = m->n_hosts_in = s->n_buckets;
    m->reaches = (uint32_t *)(uintptr_t)s->reaches;
    m->n_reaches = s->reaches ? s->n_buckets : 0;
    out->series = m;
    return series_groups_put(m, s, in->n_metrics, a);
}

/* -- decode -- */

static enum err series_column_get(struct wire_series_column *c,
                                  const Procfleet__V1__SeriesColumn *m, uint32_t n_buckets,
                                  struct wire_arena *a)
{
    size_t bytes = (n_buckets + 7) / 8, n = 0;
    bool envelope = m->n_min > 0;

    if ((m->has_have && m->have.len != bytes) || (envelope && m->n_min != m->n_avg) ||
        m->n_max != m->n_min) {
        return ERR_CORRUPT;
    }
    c->have = wire_arena_array(a, bytes, 1);
    c->avg = wire_arena_array(a, n_buckets, sizeof *c->avg);
    if (envelope) {
        c->min = wire_arena_array(a, n_buckets, sizeof *c->min);
        c->max = wire_arena_array(a, n_buckets, sizeof *c->max);
    }
    if (!c->have || !c->avg || (envelope && (!c->min || !c->max))) {
        return a->bad;
    }
    for (uint32_t b = 0; m->has_have && b < n_buckets; b++) {
        if (!(m->have.data[b / 8] >> b % 8 & 1)) {
            continue;
        }
        if (n == m->n_avg) {
            return ERR_CORRUPT;
        }
        c->have[b / 8] |= (uint8_t)(1u << b % 8);
        c->avg[b] = m->avg[n];
        if (envelope) {
            c->min[b] = m->min[n];
            c->max[b] = m->max[n];
        }
        n++;
    }
    return n == m->n_avg ? ERR_OK : ERR_CORRUPT;
}

/* None reaches over the first bucket. */
static bool series_reaches_are_sound(const Procfleet__V1__Series *m)
{
    bool sound = !m->n_reaches || m->n_reaches == m->n_present;

    for (size_t b = 0; sound && b < m->n_reaches; b++) {
        sound = m->reaches[b] <= b;
    }
    return sound;
}

/* Of all groups or of none. */
static bool series_extras_are_equal(const Procfleet__V1__Series *m)
{
    for (size_t g = 0; g < m->n_groups; g++) {
        const Procfleet__V1__SeriesGroup *x = m->groups[g], *first = m->groups[0];

        if ((x->n_present && x->n_present != m->n_present) || x->n_present != first->n_present ||
            x->n_processes != x->n_present) {
            return false;
        }
    }
    return true;
}

static enum err series_extras_get(struct wire_series *s, const Procfleet__V1__Series *m,
                                  struct wire_arena *a)
{
    size_t n = m->n_groups ? m->groups[0]->n_present : 0;
    uint32_t *present, *processes;

    if (!n) {
        return ERR_OK;
    }
    present = wire_arena_array(a, m->n_groups * n, sizeof *present);
    processes = wire_arena_array(a, m->n_groups * n, sizeof *processes);
    if (!present || !processes) {
        return a->bad;
    }
    for (size_t g = 0; g < m->n_groups; g++) {
        for (size_t b = 0; b < n; b++) {
            present[g * n + b] = m->groups[g]->present[b] - 1; /* 0: WIRE_SERIES_NONE */
            processes[g * n + b] = m->groups[g]->processes[b] - 1;
        }
    }
    s->group_present = present;
    s->group_processes = processes;
    return ERR_OK;
}

enum err wire_series_get(struct wire_answer *out, const struct Procfleet__V1__Answer *in,
                         struct wire_arena *a)
{
    const Procfleet__V1__Series *m = in->series;
    struct wire_series_column *columns;
    struct wire_series *s;
    uint32_t *shares;
    enum err e = ERR_OK;

    if (!m) {
        return ERR_OK;
    }
    if (!series_is_bounded(m->n_groups, out->n_rows, out->n_metrics, m->n_present)) {
        return ERR_FULL;
    }
    if (m->n_hosts_in != m->n_present || !series_reaches_are_sound(m) ||
        !series_extras_are_equal(m) ||
        m->step_ns > (uint64_t)INT64_MAX / (m->n_present ? m->n_present : 1)) {
        return ERR_CORRUPT;
    }
    for (size_t g = 0; g < m->n_groups; g++) {
        if (m->groups[g]->n_columns != out->n_metrics) {
            return ERR_CORRUPT;
        }
    }
    wire_arena_allow(a, (size_t)WIRE_SERIES_VALUES_MAX * 3 * sizeof(int64_t) + (4u << 20));
    s = wire_arena_array(a, 1, sizeof *s);
    columns = wire_arena_array(a, m->n_groups * out->n_metrics, sizeof *columns);
    shares = wire_arena_array(a, m->n_present * 3, sizeof *shares);
    if (!s || !columns || !shares) {
        return a->bad;
    }
    s->t0_ns = m->t0_ns;
    s->step_ns = (int64_t)m->step_ns;
    s->hosts_asked = m->hosts_asked;
    s->n_buckets = (uint32_t)m->n_present;
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        shares[b] = m->present[b];
        shares[s->n_buckets + b] = m->hosts_in[b];
        shares[2 * (size_t)s->n_buckets + b] = m->n_reaches ? m->reaches[b] : 0;
    }
    s->present = shares;
    s->hosts_in = shares + s->n_buckets;
    s->reaches = m->n_reaches ? shares + 2 * (size_t)s->n_buckets : NULL;
    s->n_groups = m->n_groups;
    s->columns = columns;
    for (size_t g = 0; !e && g < m->n_groups; g++) {
        for (unsigned i = 0; !e && i < out->n_metrics; i++) {
            e = series_column_get(&columns[g * out->n_metrics + i], m->groups[g]->columns[i],
                                  s->n_buckets, a);
        }
    }
    e = e ? e : series_extras_get(s, m, a);
    out->series = s;
    return e;
}
