/* Coverage as an answer of its own: for each host what was delivered and lost in its window, when,
 * and, when asked for, what every stage on the way counted. */
#include "collector/query/query_ledger.h"
#include "collector/query/query_unread.h"
#include "common/base/mem.h"

#define STAGE_BYTES 64 /* of a row on the wire, from above */
#define OWN_ROWS    11 /* of the collector itself */

static struct str text_of(struct query *q, const char *s)
{
    size_t n = strlen(s);

    return (struct str){arena_dup(&q->out->memory, s, n + 1), n};
}

static enum err add_stage(struct query *q, struct wire_stage *to, const struct qledger_count *from)
{
    *to = (struct wire_stage){.stage = text_of(q, from->stage),
                              .reason = text_of(q, from->reason),
                              .role = from->kind->role,
                              .unit = from->kind->unit,
                              .loss = from->kind->loss,
                              .count = from->n,
                              .first_ns = from->first_ns,
                              .last_ns = from->last_ns};
    return to->stage.p && to->reason.p ? ERR_OK : ERR_FULL;
}

/* What the collector itself counted of the host since its start. Gives how many rows. */
static size_t own_rows(const struct query *q, const struct query_span *s, struct wire_stage *rows)
{
    const struct query_host_state x = query_host_state_of(q, s->about);
    const struct store_host *h = s->about;
    const struct {
        const char *stage, *reason;
        uint64_t count;
    } all[OWN_ROWS] = {
        {"session", "in",
         x.stored + x.duplicates + x.corrupt + x.spoofed + x.too_old + x.conflicts},
        {"session", "out", x.stored},
        {"session", "duplicate", x.duplicates},
        {"session", "corrupt", x.corrupt},
        {"session", "spoofed", x.spoofed},
        {"session", "too_old", x.too_old},
        {"session", "conflict", x.conflicts},
        {"store", "in", h->batches},
        {"store", "held", h->held},
        {"store", "too_old", h->too_old},
        {"store", "no_room", h->no_room},
    };
    size_t n = 0;

    for (size_t i = 0; i < OWN_ROWS; i++) {
        const struct ledger_row row = {str_make(all[i].stage), str_make(all[i].reason),
                                       all[i].count};
        const struct ledger_kind *kind = ledger_kind(&row);

        if (row.count > 0) {
            rows[n++] = (struct wire_stage){.stage = row.stage,
                                            .reason = row.reason,
                                            .role = kind->role,
                                            .unit = kind->unit,
                                            .count = row.count};
        }
    }
    return n;
}

/* Ticks that were left out: no loss of what happened, but the figure falls by them. */
static const struct qledger_count *left_out(const struct query_ledger *l)
{
    for (size_t i = 0; i < l->n_counts; i++) {
        const struct qledger_count *c = &l->counts[i];

        if (c->kind->role == LEDGER_LOST && c->kind->unit == LEDGER_TICKS && c->n > 0) {
            return c;
        }
    }
    return NULL;
}

/* All rows, or only the one most was lost by. Ticks that were left out are named where nothing else
 * was lost: whoever shows one row only takes the largest count. */
static enum err add_stages(struct query *q, const struct query_span *s, struct wire_coverage *c,
                           const struct query_ledger *l)
{
    const struct qledger_count *loss = query_ledger_loss(l);
    const struct query_unread *unread = q->covers[s - q->spans].unread;
    const struct qledger_count *worst =
        loss || l->missing_batches > 0 || unread ? loss : left_out(l);
    size_t n = q->ask->stages ? l->n_counts : worst != NULL;
    struct wire_stage *all = arena_array(&q->out->memory, n + 2 + OWN_ROWS, sizeof *all);
    enum err e = all ? ERR_OK : ERR_FULL;

    for (size_t i = 0; !e && i < n; i++) {
        e = add_stage(q, &all[c->n_stages++], q->ask->stages ? &l->counts[i] : worst);
    }
    if (!e && l->missing_batches > 0) {
        all[c->n_stages++] = (struct wire_stage){.stage = str_make("stream"),
                                                 .reason = str_make("missing"),
                                                 .role = LEDGER_LOST,
                                                 .unit = LEDGER_BATCHES,
                                                 .loss = true,
                                                 .count = l->missing_batches};
    }
    if (!e && unread) {
        all[c->n_stages++] = (struct wire_stage){.stage = str_make("store"),
                                                 .reason = str_make("unreadable"),
                                                 .role = LEDGER_LOST,
                                                 .unit = LEDGER_TIMES,
                                                 .loss = true,
                                                 .count = unread->values};
    }
    if (!e && q->ask->stages) {
        c->n_stages += own_rows(q, s, all + c->n_stages);
    }
    c->stages = all;
    return e;
}

static enum err add_host(struct query *q, struct query_span *s, struct wire_coverage *c,
                         const struct query_ledger *l)
{
    const struct query_cover *known = &q->covers[s - q->spans];
    struct wire_loss_span *spans = arena_array(&q->out->memory, l->n_spans, sizeof *spans);

    if (!spans) {
        return ERR_FULL;
    }
    memcpy(spans, l->spans, l->n_spans * sizeof *spans);
    *c = (struct wire_coverage){.since_ns = s->since_ns,
                                .until_ns = s->until_ns,
                                .ppm = query_unread_ppm(q, s),
                                .at_most = l->at_most || known->unread,
                                .missing = known->missing,
                                .ticks = l->ticks,
                                .lost_ticks = l->lost_ticks,
                                .events = l->events,
                                .lost_events = l->lost_events,
                                .lost_rows = l->lost_rows,
                                .missing_batches = l->missing_batches,
                                .n_spans = l->n_spans,
                                .spans = spans};
    c->has_ticks = query_ledger_ticks(l, &c->ticks_ppm);
    c->has_events = query_ledger_events(l, &c->events_ppm);
    return query_host_index(q, s, &c->host);
}

static size_t bytes_of(const struct query *q, const struct query_ledger *l)
{
    return (l->n_spans + 3 + (q->ask->stages ? OWN_ROWS + l->n_counts : 0)) * STAGE_BYTES;
}

static enum err add(struct query *q, size_t i, struct wire_coverage *all, struct query_ledger *l)
{
    struct query_span *s = &q->spans[i];
    struct query_cursor key = {0};
    enum err e = query_cover_scan(q, s, l);

    if (e) {
        return e;
    }
    if (q->out->data.n_coverage == q->limit || !query_fits(q, NULL, bytes_of(q, l))) {
        if (q->out->data.n_coverage == 0) {
            return ERR_FULL; /* no later page has more room for it */
        }
        query_key_host(&key, &q->spans[i - 1]);
        query_more(q, &key);
        return ERR_END;
    }
    e = add_host(q, s, &all[q->out->data.n_coverage], l);
    if (!e) {
        e = add_stages(q, s, &all[q->out->data.n_coverage], l);
    }
    q->out->data.n_coverage++;
    return e;
}

enum err query_coverage(struct query *q)
{
    enum err e = query_plan(q, NULL, 0, WIRE_ROWS_MAX);
    struct query_ledger *l = NULL;
    struct wire_coverage *all;

    if (e) {
        return e;
    }
    all = arena_array(&q->out->memory, q->n_spans, sizeof *all);
    l = arena_array(&q->out->memory, 1, sizeof *l);
    if (!all || !l) {
        return ERR_NOMEM;
    }
    for (size_t i = query_first_span(q); !e && i < q->n_spans; i++) {
        if (!query_is_cursor_host(q, &q->spans[i])) {
            e = add(q, i, all, l);
        }
    }
    q->out->data.coverage = all;
    return e == ERR_END ? ERR_OK : e;
}
