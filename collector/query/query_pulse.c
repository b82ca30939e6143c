/* Pulse: of every host the last two hours in slots of 30 s, from memory (pulse.h): what is needed
 * to show thousands of hosts at once. One row and one group of series for each host; a page has as
 * many hosts as fit, the rest comes with the cursor.
 *
 * Slots lie by the hosts' own stamps and end with now by the collector's clock. One of which
 * nothing is known has no values and no share: it may be older than the collector's start and not
 * read back yet. */
#include <string.h>

#include "collector/query/pulse.h"
#include "collector/query/query_impl.h"
#include "common/wire/wire_series.h"

struct pulsed {
    struct query *q;
    struct wire_series *out;
    struct wire_series_column *columns;
    uint32_t *present, *hosts_in, *shares, *processes; /* out's, being filled */
    uint64_t *sum;                                     /* of shares, for each slot */
    struct pulse_slot *slots;                          /* of the host that is read */
    struct wire_row *rows;
    size_t most; /* hosts of a page */
};

static const uint8_t pulse_metrics[] = {M_CPU_PERCENT, M_WORKING_SET_SIZE};

static enum err pulse_plan(struct pulsed *x)
{
    struct query *q = x->q;
    enum err e = query_plan(q, pulse_metrics, sizeof pulse_metrics, WIRE_ROWS_MAX);
    const struct wire_answer *a = &q->out->data;

    for (unsigned i = 0; !e && i < a->n_metrics; i++) {
        if (a->metrics[i] != M_CPU_PERCENT && a->metrics[i] != M_WORKING_SET_SIZE) {
            e = errmsg_set(q->why, ERR_INVALID,
                           "the pulse has cpu_percent and working_set_size: ask for Series of "
                           "other metrics");
        }
    }
    if (!e && q->ask->buckets > PULSE_SLOTS) {
        e = errmsg_set(q->why, ERR_INVALID, "the pulse has the last %u slots of 30 s", PULSE_SLOTS);
    }
    return e;
}

static enum err pulse_room(struct pulsed *x)
{
    struct arena *a = &x->q->out->memory;
    uint32_t n = x->q->ask->buckets ? x->q->ask->buckets : PULSE_SLOTS;
    uint8_t n_metrics = x->q->out->data.n_metrics;
    int64_t now_ns = x->q->env->now_ns;

    x->most =
        WIRE_SERIES_VALUES_MAX / (n * (n_metrics + 1u)); /* a share and a number count as one */
    x->most = x->most < x->q->limit ? x->most : x->q->limit;
    x->most = x->most < x->q->n_spans ? x->most : x->q->n_spans;
    x->out = arena_alloc(a, sizeof *x->out);
    x->columns = arena_array(a, x->most * n_metrics, sizeof *x->columns);
    x->present = arena_array(a, n, sizeof *x->present);
    x->hosts_in = arena_array(a, n, sizeof *x->hosts_in);
    x->shares = arena_array(a, x->most * n, sizeof *x->shares);
    x->processes = arena_array(a, x->most * n, sizeof *x->processes);
    x->sum = arena_array(a, n, sizeof *x->sum);
    x->slots = arena_array(a, n, sizeof *x->slots);
    x->rows = arena_array(a, x->most, sizeof *x->rows);
    if (!x->out || !x->columns || !x->present || !x->hosts_in || !x->shares || !x->processes ||
        !x->sum || !x->slots || !x->rows) {
        return ERR_FULL;
    }
    *x->out = (struct wire_series){.t0_ns = now_ns - now_ns % PULSE_STEP_NS -
                                            (int64_t)(n - 1) * PULSE_STEP_NS,
                                   .step_ns = PULSE_STEP_NS,
                                   .n_buckets = n,
                                   .present = x->present,
                                   .hosts_in = x->hosts_in,
                                   .columns = x->columns,
                                   .group_present = x->shares,
                                   .group_processes = x->processes};
    return ERR_OK;
}

static enum err pulse_columns(struct pulsed *x, struct wire_series_column *c)
{
    const struct wire_answer *a = &x->q->out->data;
    uint32_t n = x->out->n_buckets;

    for (unsigned i = 0; i < a->n_metrics; i++) {
        bool cpu = a->metrics[i] == M_CPU_PERCENT;

        c[i].have = arena_array(&x->q->out->memory, (n + 7) / 8, 1);
        c[i].avg = arena_array(&x->q->out->memory, n, sizeof *c[i].avg);
        if (!c[i].have || !c[i].avg) {
            return ERR_FULL;
        }
        for (uint32_t b = 0; b < n; b++) {
            const struct pulse_slot *s = &x->slots[b];

            if (s->there && (cpu ? s->has_cpu : s->has_memory)) {
                c[i].have[b / 8] |= (uint8_t)(1u << b % 8);
                c[i].avg[b] = cpu ? s->cpu_permille : s->memory;
            }
        }
    }
    return ERR_OK;
}

static enum err pulse_host(struct pulsed *x, struct query_span *s)
{
    struct wire_answer *a = &x->q->out->data;
    struct wire_row *row = &x->rows[a->n_rows];
    uint32_t n = x->out->n_buckets;
    size_t at = a->n_rows * n;
    enum err e = query_host_index(x->q, s, &row->host);

    memset(x->slots, 0, n * sizeof *x->slots);
    if (x->q->env->pulse) {
        (void)pulse_read(x->q->env->pulse, &s->about->id, x->out->t0_ns, n, x->slots);
    }
    for (uint32_t b = 0; b < n; b++) {
        const struct pulse_slot *slot = &x->slots[b];

        x->shares[at + b] = slot->there ? slot->delivered : WIRE_SERIES_NONE;
        x->processes[at + b] = slot->there ? slot->processes : WIRE_SERIES_NONE;
        x->sum[b] += slot->there ? slot->delivered : 0;
        x->hosts_in[b] += slot->there;
    }
    e = e ? e : pulse_columns(x, &x->columns[a->n_rows * a->n_metrics]);
    a->n_rows++;
    return e;
}

enum err query_pulse(struct query *q)
{
    struct pulsed x = {.q = q};
    struct query_cursor key = {0};
    enum err e = pulse_plan(&x);
    size_t i;

    e = e ? e : pulse_room(&x);
    if (e) {
        return e;
    }
    i = query_first_span(q);
    i += i < q->n_spans && query_is_cursor_host(q, &q->spans[i]);
    for (; !e && i < q->n_spans && q->out->data.n_rows < x.most; i++) {
        e = pulse_host(&x, &q->spans[i]);
    }
    if (!e && i > 0 && i < q->n_spans) {
        query_key_host(&key, &q->spans[i - 1]);
        query_more(q, &key);
    }
    for (uint32_t b = 0; b < x.out->n_buckets; b++) {
        x.present[b] = q->out->data.n_rows ? (uint32_t)(x.sum[b] / q->out->data.n_rows) : 0;
    }
    x.out->n_groups = q->out->data.n_rows;
    x.out->hosts_asked = (uint32_t)q->n_spans;
    q->out->data.rows = x.rows;
    q->out->data.series = x.out;
    return e;
}
