/* Coverage: what was delivered and lost in each host's window. For every answer it is the ground of
 * remarks and of the last sentence; the question Coverage returns it host by host, with the times,
 * and, when asked for, what every stage on the way counted.
 *
 * The ledgers of a span's batches are summed and holes in the sequence numbers of each stream are
 * looked for (query_ledger.h). Known loss inside the window, or a host or window without data,
 * makes the answer partial. Polled sources, recordings (also ended ones without data in the
 * window), hosts that fell silent and ticks that a busy agent left out are only remarked on. */
#include "collector/query/query_cover.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "collector/query/query_ledger.h"
#include "collector/query/query_scan.h"
#include "collector/store/batch_time.h"
#include "common/base/clk.h"

#define EDGE_NS   (30 * CLK_S) /* a window may begin or end this far from the data */
#define SILENT_NS (90 * CLK_S) /* three heartbeats */

/* -- one host -- */

/* What the host's own clock shows now, as far as that is known. */
static int64_t host_now(const struct query *q, const struct store_host *h)
{
    return clk_sub(q->env->now_ns, h->clock.known ? h->clock.offset_ns : 0);
}

/* Is there data at all, and does it reach from one end of the window to the other? Returns how much
 * of the window has none. */
static int64_t judge_span(struct query *q, const struct query_span *s, const struct query_ledger *l)
{
    const struct store_host *h = s->about;
    bool ended = (h->flags & (BATCH_REPLAY | BATCH_LAST)) != 0;
    int64_t now_ns = host_now(q, h), until = s->until_ns < now_ns ? s->until_ns : now_ns;
    int64_t missing_ns = 0;
    char a[CLK_TEXT], b[CLK_TEXT];

    if (!l->batches && q->covers[s - q->spans].unread) {
        return INT64_MAX; /* there is some: QNOTE_UNREAD */
    }
    if (!l->batches && s->over && q->expected > 0) {
        return 0; /* others answer the question */
    }
    if (!l->batches) {
        query_remark(q, QNOTE_MISSING, s, "it has %s to %s", query_utc(a, h->first_ns),
                     query_utc(b, h->last_ns));
        return INT64_MAX;
    }
    if ((q->ask->since_ns || q->env->run) && clk_sub(h->first_ns, EDGE_NS) > s->since_ns &&
        !(h->flags & BATCH_REPLAY)) {
        query_remark(q, QNOTE_BEGINS_LATE, s, "from %s on", query_utc(a, h->first_ns));
        missing_ns = clk_sub(h->first_ns, s->since_ns);
    }
    if (!s->anchored && !ended && clk_add(h->last_ns, EDGE_NS) < until) {
        query_remark(q, QNOTE_ENDS_EARLY, s, "to %s", query_utc(a, h->last_ns));
        missing_ns = clk_add(missing_ns, clk_sub(until, h->last_ns));
    }
    return missing_ns;
}

static void remark_lost(struct query *q, const struct query_span *s, const struct query_ledger *l)
{
    const struct qledger_count *what = query_ledger_loss(l), *why = NULL;

    if (what && strcmp(what->stage, "source") == 0) {
        why = query_ledger_cause(l);
    }
    query_remark(q, QNOTE_LOST, s, "%" PRIu64 "%s%s%s%s%s%s", l->lost, what ? ", most " : "",
                 what ? what->stage : "", what ? " " : "", what ? what->reason : "",
                 why ? ", by etw " : "", why ? why->reason : "");
}

static void judge_host(struct query *q, const struct query_span *s, const struct query_ledger *l)
{
    const struct store_host *h = s->about;
    char a[CLK_TEXT];

    if (l->lost) {
        remark_lost(q, s, l);
    }
    if (l->missing_batches) {
        query_remark(q, QNOTE_GAPS, s, "%" PRIu64, l->missing_batches);
    }
    if (!query_ledger_believed(l) && !(q->kind == QUERY_OVERVIEW && !query_is_believed(h))) {
        query_remark(q, QNOTE_UNBELIEVED, s, "%s", "");
    }
    if (l->flags & BATCH_POLLED) {
        query_remark(q, QNOTE_POLLED, s, "%s", "");
    }
    if (h->flags & BATCH_REPLAY) {
        query_remark_replay(q, s);
    } else if (s->anchored && clk_sub(host_now(q, h), h->last_ns) > SILENT_NS) {
        query_remark(q, QNOTE_SILENT, s, "%s", query_utc(a, h->last_ns));
    }
}

/* The window, as far as it is not in the future. */
static int64_t span_length(const struct query *q, const struct query_span *s)
{
    int64_t now_ns = host_now(q, s->about);

    return clk_sub(s->until_ns < now_ns ? s->until_ns : now_ns, s->since_ns);
}

/* What of the window was delivered, in parts per million. */
static uint32_t cover_ppm(const struct query *q, const struct query_span *s,
                          const struct query_ledger *l, int64_t missing_ns)
{
    uint32_t ticks = QUERY_PPM, events = QUERY_PPM, least;
    int64_t whole_ns = span_length(q, s);

    if (missing_ns == INT64_MAX) {
        return 0;
    }
    (void)query_ledger_ticks(l, &ticks);
    (void)query_ledger_events(l, &events);
    least = ticks < events ? ticks : events;
    if (missing_ns > 0 && whole_ns > 0) {
        double there = 1 - (double)missing_ns / (double)whole_ns;

        least = there > 0 ? (uint32_t)(there * (double)least) : 0;
    }
    return least;
}

/* batches: when there were some that could not be read now. */
static void cover_settle(struct query *q, const struct query_span *s, struct query_ledger *l,
                         const struct store_holes *batches)
{
    struct query_cover *c = &q->covers[s - q->spans];
    struct query_unread *unread = c->unread;
    int64_t missing_ns;

    assert(!c->done); /* remarks are made once */
    query_ledger_end(l, s->about->gaps, batches);
    q->quiet = q->cursor.set;
    missing_ns = judge_span(q, s, l);
    judge_host(q, s, l);
    q->quiet = false;
    *c = (struct query_cover){.done = true,
                              .missing = missing_ns == INT64_MAX,
                              .over = !l->batches && missing_ns == 0,
                              .at_most = l->at_most,
                              .ppm = cover_ppm(q, s, l, missing_ns),
                              .there_ns = clk_sub(span_length(q, s), missing_ns),
                              .unread = unread,
                              .ticks = l->lost_ticks,
                              .events = l->lost_events,
                              .rows = l->lost_rows,
                              .batches = l->missing_batches};
    for (size_t i = 0; i < l->n_spans; i++) {
        const struct wire_loss_span *x = &l->spans[i];

        c->first_ns = i == 0 || x->first_ns < c->first_ns ? x->first_ns : c->first_ns;
        c->last_ns = i == 0 || x->last_ns > c->last_ns ? x->last_ns : c->last_ns;
    }
    if (unread) {
        query_ledger_unread(l, &unread->holes);
    }
}

/* -- scanning -- */

struct cover_scan {
    struct query_ledger *l;
    struct query_quiet *quiet; /* NULL: not wanted */
};

static enum err cover_block(void *ctx, const struct store_block *b)
{
    const struct cover_scan *x = ctx;

    query_ledger_batch(x->l, b->batch);
    if (x->quiet) {
        query_quiet_batch(x->quiet, b->batch);
    }
    return ERR_OK;
}

static enum err cover_account(void *ctx, const struct loss_sum *a)
{
    const struct cover_scan *x = ctx;

    query_ledger_account(x->l, a);
    if (x->quiet) {
        query_quiet_account(x->quiet, a);
    }
    return ERR_OK;
}

/* -- the other side of a gap that the window cuts -- */

/* How far it is looked for: nearly always it is near, and far away it is cheap by its accounts. */
static const int64_t reaches_ns[] = {0, 600 * CLK_S, 9600 * CLK_S, 48 * 3600 * CLK_S};

#define REACHES (sizeof reaches_ns / sizeof *reaches_ns)

struct edge {
    struct query_ledger *l;
    bool found;
    struct qledger_range last; /* of what comes before `of` */
    const struct qledger_range *of;
};

static enum err edge_behind_block(void *ctx, const struct store_block *b)
{
    struct edge *x = ctx;
    int64_t first_ns, last_ns;

    if (!b->batch->n_ticks && !b->batch->n_events) {
        return ERR_OK;
    }
    batch_time_span(b->batch, 0, &first_ns, &last_ns);
    if (first_ns < x->l->until_ns) { /* it was seen */
        return ERR_OK;
    }
    query_ledger_behind(x->l, b->batch, first_ns, last_ns);
    x->found = true;
    return ERR_END;
}

static enum err edge_behind_account(void *ctx, const struct loss_sum *a)
{
    const struct rest_stream *first = NULL;
    struct edge *x = ctx;

    for (size_t i = 0; i < a->n_streams; i++) {
        const struct rest_stream *s = &a->streams[i];

        first = first && first->first_ns <= s->first_ns ? first : s;
    }
    if (!first) {
        return ERR_OK;
    }
    query_ledger_numbers(x->l, (struct qledger_range){first->stream, first->first, first->last,
                                                      first->first_ns, first->last_ns, 0});
    x->found = true;
    return ERR_END;
}

static void edge_before_take(struct edge *x, const struct qledger_range *r)
{
    if (r->stream == x->of->stream && r->last < x->of->first &&
        (!x->found || r->last > x->last.last)) {
        x->last = *r;
        x->found = true;
    }
}

static enum err edge_before_block(void *ctx, const struct store_block *b)
{
    struct qledger_range r = {
        .stream = b->batch->head.stream, .first = b->batch->head.seq, .last = b->batch->head.seq};

    if (b->batch->n_ticks || b->batch->n_events) {
        batch_time_span(b->batch, 0, &r.first_ns, &r.last_ns);
        edge_before_take(ctx, &r);
    }
    return ERR_OK;
}

static enum err edge_before_account(void *ctx, const struct loss_sum *a)
{
    for (size_t i = 0; i < a->n_streams; i++) {
        const struct rest_stream *s = &a->streams[i];

        edge_before_take(
            ctx, &(struct qledger_range){s->stream, s->first, s->last, s->first_ns, s->last_ns, 0});
    }
    return ERR_OK;
}

static enum err edges_look_behind(struct query *q, const struct query_span *s,
                                  struct query_ledger *l)
{
    struct edge x = {.l = l};
    enum err e = ERR_OK;

    for (size_t i = 1; !e && !x.found && i < REACHES; i++) {
        const struct store_range range = {.since_ns = clk_add(s->until_ns, reaches_ns[i - 1]),
                                          .until_ns = clk_add(s->until_ns, reaches_ns[i]),
                                          .made_since_ns = INT64_MIN};

        if (range.since_ns > s->about->last_ns) {
            break;
        }
        e = query_scan_accounts(q, s, &range, edge_behind_account, edge_behind_block, &x);
    }
    return e == ERR_END ? ERR_OK : e;
}

static enum err edges_look_before(struct query *q, const struct query_span *s,
                                  struct query_ledger *l, const struct qledger_range *of)
{
    struct edge x = {.l = l, .of = of};
    enum err e = ERR_OK;

    for (size_t i = 1; !e && !x.found && i < REACHES; i++) {
        const struct store_range range = {.since_ns = clk_sub(s->since_ns, reaches_ns[i]),
                                          .until_ns = clk_sub(s->since_ns, reaches_ns[i - 1]),
                                          .made_since_ns = INT64_MIN};

        if (range.until_ns <= s->about->first_ns) {
            break;
        }
        e = query_scan_accounts(q, s, &range, edge_before_account, edge_before_block, &x);
    }
    if (!e && x.found) {
        query_ledger_numbers(l, x.last);
    }
    return e;
}

static enum err edges_look(struct query *q, const struct query_span *s, struct query_ledger *l)
{
    const struct qledger_range *late = query_ledger_begins_late(l);
    enum err e = ERR_OK;

    if (s->about->last_ns >= s->until_ns && query_ledger_ends_early(l)) {
        e = edges_look_behind(q, s, l);
        late = query_ledger_begins_late(l);
    }
    if (!e && late && s->about->gaps && s->about->first_ns < s->since_ns) {
        e = edges_look_before(q, s, l, late);
    }
    return e;
}

enum err query_cover_scan(struct query *q, const struct query_span *s, struct query_ledger *out)
{
    return query_cover_scan_quiet(q, s, out, NULL);
}

enum err query_cover_scan_quiet(struct query *q, const struct query_span *s,
                                struct query_ledger *out, struct query_quiet *quiet)
{
    struct cover_scan x = {out, quiet};
    struct store_used used = {.damaged = 0};
    const struct store_range range = {.since_ns = s->since_ns,
                                      .until_ns = s->until_ns,
                                      .made_since_ns = INT64_MIN,
                                      .used = &used};
    enum err e;

    query_ledger_init(out, s->since_ns, s->until_ns);
    e = query_scan_accounts(q, s, &range, cover_account, cover_block, &x);
    memset(used.windows, 0, sizeof used.windows); /* told of are those the values were read from */
    query_scan_used(q, s, &used);
    e = e ? e : edges_look(q, s, out);
    if (!e) {
        cover_settle(q, s, out, &used.holes);
    }
    return !e && quiet ? query_quiet_end(quiet, q, s) : e;
}

enum err query_cover_host(struct query *q, struct query_span *s, struct wire_coverage *c,
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
                                .ppm = query_scan_unread_ppm(q, s),
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

/* -- the question -- */

#define STAGE_BYTES 64 /* of a row on the wire, from above */
#define OWN_ROWS    11 /* of the collector itself */

static struct str stage_text(struct query *q, const char *s)
{
    size_t n = strlen(s);

    return (struct str){arena_dup(&q->out->memory, s, n + 1), n};
}

static enum err stage_add(struct query *q, struct wire_stage *to, const struct qledger_count *from)
{
    *to = (struct wire_stage){.stage = stage_text(q, from->stage),
                              .reason = stage_text(q, from->reason),
                              .role = from->kind->role,
                              .unit = from->kind->unit,
                              .loss = from->kind->loss,
                              .count = from->n,
                              .first_ns = from->first_ns,
                              .last_ns = from->last_ns};
    return to->stage.p && to->reason.p ? ERR_OK : ERR_FULL;
}

/* What the collector itself counted of the host since its start. Returns how many rows. */
static size_t stage_own_rows(const struct query *q, const struct query_span *s,
                             struct wire_stage *rows)
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
static const struct qledger_count *stage_left_out(const struct query_ledger *l)
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
 * was lost: a client that shows one row takes the largest count. */
static enum err stages_add(struct query *q, const struct query_span *s, struct wire_coverage *c,
                           const struct query_ledger *l)
{
    const struct qledger_count *loss = query_ledger_loss(l);
    const struct query_unread *unread = q->covers[s - q->spans].unread;
    const struct qledger_count *worst =
        loss || l->missing_batches > 0 || unread ? loss : stage_left_out(l);
    size_t n = q->ask->stages ? l->n_counts : worst != NULL;
    struct wire_stage *all = arena_array(&q->out->memory, n + 2 + OWN_ROWS, sizeof *all);
    enum err e = all ? ERR_OK : ERR_FULL;

    for (size_t i = 0; !e && i < n; i++) {
        e = stage_add(q, &all[c->n_stages++], q->ask->stages ? &l->counts[i] : worst);
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
        c->n_stages += stage_own_rows(q, s, all + c->n_stages);
    }
    c->stages = all;
    return e;
}

static size_t coverage_bytes(const struct query *q, const struct query_ledger *l)
{
    return (l->n_spans + 3 + (q->ask->stages ? OWN_ROWS + l->n_counts : 0)) * STAGE_BYTES;
}

static enum err coverage_add(struct query *q, size_t i, struct wire_coverage *all,
                             struct query_ledger *l)
{
    struct query_span *s = &q->spans[i];
    struct query_cursor key = {0};
    enum err e = query_cover_scan(q, s, l);

    if (e) {
        return e;
    }
    if (q->out->data.n_coverage == q->limit || !query_fits(q, NULL, coverage_bytes(q, l))) {
        if (q->out->data.n_coverage == 0) {
            return ERR_FULL; /* no later page has more room for it */
        }
        query_key_host(&key, &q->spans[i - 1]);
        query_more(q, &key);
        return ERR_END;
    }
    e = query_cover_host(q, s, &all[q->out->data.n_coverage], l);
    if (!e) {
        e = stages_add(q, s, &all[q->out->data.n_coverage], l);
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
            e = coverage_add(q, i, all, l);
        }
    }
    q->out->data.coverage = all;
    return e == ERR_END ? ERR_OK : e;
}
