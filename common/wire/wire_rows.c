#include "common/wire/wire_rows.h"

#include "common/wire/wire_info.h"

bool wire_rows_same_info(const struct proc_info *x, const struct proc_info *y)
{
    return proc_id_eq(x->id, y->id) && x->have == y->have && x->origin == y->origin &&
           x->cpu_origin == y->cpu_origin && x->parent_pid == y->parent_pid &&
           x->parent_start == y->parent_start && x->session_id == y->session_id &&
           x->exit_code == y->exit_code && x->create_ns == y->create_ns &&
           x->exit_ns == y->exit_ns && str_eq(x->name, y->name) && str_eq(x->image, y->image) &&
           str_eq(x->command_line, y->command_line) && str_eq(x->user, y->user);
}

uint64_t wire_rows_known(size_t n_metrics, bool high)
{
    size_t n = !high ? n_metrics : n_metrics > 64 ? n_metrics - 64 : 0;

    return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

static enum err put_row_high(Procfleet__V1__Row *m, const struct wire_row *r, size_t n_metrics,
                             struct wire_arena *a)
{
    uint64_t have = r->have_high & wire_rows_known(n_metrics, true);

    if (!have) {
        return ERR_OK;
    }
    m->high = wire_arena_alloc(a, sizeof *m->high);
    if (!m->high) {
        return a->bad;
    }
    procfleet__v1__row_high__init(m->high);
    WIRE_PUT(m->high, have, have);
    m->high->values = m->values + m->n_values;
    for (size_t i = 64; i < n_metrics; i++) {
        if (wire_row_has(r, i)) {
            m->high->values[m->high->n_values++] = r->values[i];
        }
    }
    return ERR_OK;
}

static enum err put_row(Procfleet__V1__Row *m, const struct wire_row *r, size_t n_metrics,
                        struct wire_arena *a)
{
    procfleet__v1__row__init(m);
    WIRE_PUT(m, host, r->host);
    WIRE_PUT(m, have, r->have & wire_rows_known(n_metrics, false));
    WIRE_PUT(m, instances, r->instances);
    WIRE_PUT(m, hosts, r->hosts);
    WIRE_PUT(m, depth, r->depth);
    m->values = wire_arena_alloc(a, n_metrics * sizeof *m->values);
    if (!m->values) {
        return a->bad;
    }
    for (size_t i = 0; i < n_metrics && i < 64; i++) {
        if (wire_row_has(r, i)) {
            m->values[m->n_values++] = r->values[i];
        }
    }
    return put_row_high(m, r, n_metrics, a);
}

/* Rows, and the table of the instances they are about: a row about the same instance as the one
 * before it shares its entry. */
enum err wire_rows_put(Procfleet__V1__Answer *m, const struct wire_answer *in, struct wire_arena *a)
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
        if (!e && (i == 0 || !wire_rows_same_info(&r->info, &r[-1].info))) {
            e = wire_info_put(&infos[m->n_infos++], &r->info, a);
        }
        WIRE_PUT(&rows[i], info, (uint32_t)m->n_infos - 1);
        WIRE_PUT(&rows[i], when_ns, (int64_t)((uint64_t)r->when_ns - (uint64_t)before));
        before = r->when_ns;
    }
    m->n_rows = in->n_rows;
    return e;
}

/* -- back -- */

/* n values of which those with a bit in `have` are in `from`. */
static enum err get_values(int64_t *values, size_t n, uint64_t have, const int64_t *from,
                           size_t n_from)
{
    size_t at = 0;

    for (size_t i = 0; i < 64; i++) {
        if (!(have >> i & 1)) {
            continue;
        }
        if (i >= n || at == n_from) {
            return ERR_CORRUPT;
        }
        values[i] = from[at++];
    }
    return at == n_from ? ERR_OK : ERR_CORRUPT;
}

static enum err get_row(struct wire_row *r, const Procfleet__V1__Row *m, size_t n_metrics,
                        struct wire_arena *a)
{
    int64_t *values = wire_arena_array(a, n_metrics, sizeof *values);
    size_t low = n_metrics < 64 ? n_metrics : 64;
    enum err e;

    if (!values) {
        return a->bad;
    }
    r->have = m->have;
    r->have_high = m->high ? m->high->have : 0;
    r->values = values;
    e = get_values(values, low, m->have, m->values, m->n_values);
    return e || !m->high ? e
                         : get_values(values + low, n_metrics - low, m->high->have, m->high->values,
                                      m->high->n_values);
}

enum err wire_rows_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
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
