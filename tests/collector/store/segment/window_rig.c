#include "tests/collector/store/segment/window_rig.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/draw.h"
#include "tests/support/t.h"

void window_rig_init(struct window_rig *r, uint64_t seed)
{
    struct fleetgen_conf conf = {
        .seed = seed, .processes = 16, .metrics = 5, .starts_per_hour = 600};

    *r = (struct window_rig){.g = fleetgen_create(&conf)};
}

void window_rig_fini(struct window_rig *r)
{
    for (size_t i = 0; i < r->n; i++) {
        wire_batch_free(r->batches[i]);
    }
    fleetgen_destroy(r->g);
}

struct batch *window_rig_add(struct window_rig *r, size_t ticks)
{
    struct wire_encoder *enc;
    struct batch *b;
    struct buf out;

    assert_true(r->n < WINDOW_RIG_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    buf_init(&out, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encode(enc, &out, fleetgen_batch(r->g, ticks)));
    assert_ok(wire_batch_decode(&b, out.p, out.n));
    buf_fini(&out);
    wire_batch_encoder_destroy(enc);
    r->batches[r->n] = b;
    r->in[r->n++] = (struct window_batch){.batch = b, .received_ns = b->wall_ns[ticks - 1] + 1};
    return b;
}

void window_rig_shuffle(struct window_rig *r, uint64_t seed)
{
    for (size_t i = r->n; i > 1; i--) {
        size_t k = draw(&seed, (uint32_t)i);
        struct window_batch other = r->in[k];

        r->in[k] = r->in[i - 1];
        r->in[i - 1] = other;
    }
}

static void add(struct samples *s, const struct sample *one)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 1024;
        s->p = realloc(s->p, s->cap * sizeof *s->p);
        assert_non_null(s->p);
    }
    s->p[s->n++] = *one;
}

void samples_add(struct samples *s, const struct batch *rows)
{
    for (size_t i = 0; i < rows->n_runs; i++) {
        const struct batch_run *r = &rows->runs[i];

        for (uint32_t t = 0; t < r->n_ticks; t++) {
            struct sample one = {.boot = rows->head.boot,
                                 .id = r->id,
                                 .wall_ns = rows->wall_ns[r->first_tick + t],
                                 .mono_ns = rows->mono_ns[r->first_tick + t],
                                 .metric = METRIC_COLS,
                                 .fresh = r->fresh && t == 0};

            add(s, &one);
        }
    }
    for (size_t k = 0; k < rows->n_columns; k++) {
        const struct batch_column *c = &rows->columns[k];
        const int64_t *v = c->values;

        for (size_t i = 0; i < rows->n_runs; i++) {
            const struct batch_run *r = &rows->runs[i];

            for (uint32_t t = 0; r->mask >> c->metric & 1 && t < r->n_ticks; t++) {
                struct sample one = {.boot = rows->head.boot,
                                     .id = r->id,
                                     .wall_ns = rows->wall_ns[r->first_tick + t],
                                     .mono_ns = rows->mono_ns[r->first_tick + t],
                                     .value = *v++,
                                     .metric = c->metric};

                add(s, &one);
            }
        }
        assert_int_equal(v - c->values, c->n_values);
    }
}

void samples_of_batches(struct samples *s, const struct window_batch *in, size_t n)
{
    *s = (struct samples){0};
    for (size_t i = 0; i < n; i++) {
        samples_add(s, in[i].batch);
    }
}

void samples_of_parts(struct samples *s, const struct window_part *parts, size_t n)
{
    *s = (struct samples){0};
    for (size_t i = 0; i < n; i++) {
        rows_sound(&parts[i].rows);
        samples_add(s, &parts[i].rows);
    }
}

void samples_keep(struct samples *s, metric_mask metrics, bool has_pid, uint32_t pid)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct sample *one = &s->p[i];
        bool wanted = one->metric == METRIC_COLS || metrics >> one->metric & 1;

        if (wanted && (!has_pid || one->id.pid == pid)) {
            s->p[n++] = *one;
        }
    }
    s->n = n;
}

#define BY(field)                                \
    do {                                         \
        if (a->field != b->field) {              \
            return a->field < b->field ? -1 : 1; \
        }                                        \
    } while (0)

static int by_all(const void *x, const void *y)
{
    const struct sample *a = x, *b = y;
    int boot = memcmp(a->boot.b, b->boot.b, sizeof a->boot.b);

    if (boot) {
        return boot;
    }
    BY(id.pid);
    BY(id.start);
    BY(wall_ns);
    BY(mono_ns);
    BY(metric);
    BY(value);
    BY(fresh);
    return 0;
}

void samples_same(struct samples *a, struct samples *b)
{
    assert_int_equal(a->n, b->n);
    if (a->n) {
        qsort(a->p, a->n, sizeof *a->p, by_all);
        qsort(b->p, b->n, sizeof *b->p, by_all);
    }
    for (size_t i = 0; i < a->n; i++) {
        assert_int_equal(by_all(&a->p[i], &b->p[i]), 0);
    }
    free(a->p);
    free(b->p);
}

void rows_sound(const struct batch *rows)
{
    metric_mask masks = 0, columns = 0;

    for (size_t i = 1; i < rows->n_ticks; i++) {
        assert_true(rows->wall_ns[i] > rows->wall_ns[i - 1]);
        assert_true(rows->mono_ns[i] > rows->mono_ns[i - 1]);
    }
    for (size_t i = 0; i < rows->n_runs; i++) {
        const struct batch_run *r = &rows->runs[i], *last = i ? r - 1 : NULL;

        assert_true(r->n_ticks > 0 && r->first_tick < rows->n_ticks);
        assert_true(r->n_ticks <= rows->n_ticks - r->first_tick);
        if (last && proc_id_eq(last->id, r->id)) {
            assert_true(r->first_tick >= last->first_tick + last->n_ticks);
        } else if (last) {
            assert_true(last->id.pid < r->id.pid ||
                        (last->id.pid == r->id.pid && last->id.start < r->id.start));
        }
        masks |= r->mask;
    }
    for (size_t i = 0; i < rows->n_columns; i++) {
        assert_true(i == 0 || rows->columns[i].metric > rows->columns[i - 1].metric);
        columns |= METRIC_BIT(rows->columns[i].metric);
    }
    assert_true((masks & ~columns) == 0);
}
