/* What came out of the agent's stages: CPU time per instance as a query would add it up, and the
 * lifecycle events. */
#ifndef PROCFLEET_TESTS_AGENT_SEEN_H
#define PROCFLEET_TESTS_AGENT_SEEN_H

#include <stdio.h>

#include "common/model/model.h"
#include "tests/support/t.h"

struct seen_process {
    struct proc_id id;
    int64_t cpu_ns, last_ns;
    uint8_t origin;
    bool any;
};

struct seen {
    struct seen_process totals[512];
    size_t n_totals;
    struct life_event events[512];
    char names[512][64];
    size_t n_events, n_starts, n_stops, n_images;
    size_t n_ticks, n_sources;
    char source_text[128]; /* of the last one */
};

static inline struct seen_process *seen_total(struct seen *s, struct proc_id id)
{
    for (size_t i = 0; i < s->n_totals; i++) {
        if (proc_id_eq(s->totals[i].id, id)) {
            return &s->totals[i];
        }
    }
    assert_true(s->n_totals < COUNT_OF(s->totals));
    s->totals[s->n_totals].id = id;
    return &s->totals[s->n_totals++];
}

static inline void seen_tick(void *ctx, const struct sample_tick *tick)
{
    struct seen *s = ctx;

    s->n_ticks++;
    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];
        struct seen_process *t = seen_total(s, row->info->id);
        int64_t v = row->values[M_CPU_TIME];

        if (!(row->mask & METRIC_BIT(M_CPU_TIME))) {
            continue;
        }
        if (t->any || row->fresh) {
            t->cpu_ns += v - (row->fresh ? 0 : t->last_ns);
        }
        t->any = true;
        t->last_ns = v;
        t->origin = row->info->cpu_origin;
    }
}

static inline void seen_life(void *ctx, const struct life_event *ev)
{
    struct seen *s = ctx;

    s->n_starts += ev->kind == LIFE_PROCESS_START;
    s->n_stops += ev->kind == LIFE_PROCESS_STOP;
    s->n_images += ev->kind == LIFE_IMAGE_LOAD;
    if (ev->kind == LIFE_SOURCE) {
        s->n_sources++;
        (void)snprintf(s->source_text, sizeof s->source_text, "%.*s", (int)ev->text.n, ev->text.p);
    }
    if (ev->kind == LIFE_PROCESS_START || ev->kind == LIFE_PROCESS_STOP) {
        assert_true(s->n_events < COUNT_OF(s->events));
        (void)snprintf(s->names[s->n_events], sizeof s->names[0], "%.*s", (int)ev->info.name.n,
                       ev->info.name.p);
        s->events[s->n_events++] = *ev;
    }
}

#endif
