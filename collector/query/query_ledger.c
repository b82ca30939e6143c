#include "collector/query/query_ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "collector/store/batch_time.h"
#include "collector/store/store.h"
#include "common/base/clk.h"

#define NEAR_NS (60 * CLK_S) /* losses so close to each other are one span */

void query_ledger_init(struct query_ledger *l, int64_t since_ns, int64_t until_ns)
{
    memset(l, 0, sizeof *l);
    l->since_ns = since_ns;
    l->until_ns = until_ns;
}

/* -- spans of loss -- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct wire_loss_span *span_near(struct query_ledger *l, int64_t first_ns, int64_t last_ns)
{
    struct wire_loss_span *nearest = NULL;

    for (size_t i = 0; i < l->n_spans; i++) {
        struct wire_loss_span *s = &l->spans[i];

        if (first_ns <= clk_add(s->last_ns, NEAR_NS) && clk_add(last_ns, NEAR_NS) >= s->first_ns) {
            return s;
        }
        nearest = s;
    }
    return l->n_spans == WIRE_SPANS_MAX ? nearest : NULL;
}

static void span_add(struct query_ledger *l, int64_t first_ns, int64_t last_ns, uint64_t ticks,
                     uint64_t events)
{
    struct wire_loss_span *s;

    first_ns = most(first_ns, l->since_ns);
    last_ns = most(least(last_ns, l->until_ns), first_ns);
    s = span_near(l, first_ns, last_ns);
    if (!s) {
        s = &l->spans[l->n_spans++];
        *s = (struct wire_loss_span){.first_ns = first_ns, .last_ns = last_ns};
    }
    s->first_ns = least(s->first_ns, first_ns);
    s->last_ns = most(s->last_ns, last_ns);
    s->ticks = ledger_add(s->ticks, ticks);
    s->events = ledger_add(s->events, events);
}

/* -- rows -- */

static bool text_is_same(const char *a, struct str b, size_t max)
{
    return strlen(a) == (b.n < max ? b.n : max) && memcmp(a, b.p, strlen(a)) == 0;
}

/* The sum the row belongs to, looked for from *at on: rows come in the same order again and again.
 * NULL: there is no room for a further one. */
static struct qledger_count *count_of(struct query_ledger *l, const struct ledger_row *row,
                                      size_t *at)
{
    struct qledger_count *c;

    for (size_t k = 0; k < l->n_counts; k++) {
        size_t i = (*at + k) % l->n_counts;

        c = &l->counts[i];
        if (text_is_same(c->reason, row->reason, sizeof c->reason - 1) &&
            text_is_same(c->stage, row->stage, sizeof c->stage - 1)) {
            *at = i + 1;
            return c;
        }
    }
    if (l->n_counts == QLEDGER_COUNTS) {
        return NULL;
    }
    c = &l->counts[l->n_counts++];
    *c = (struct qledger_count){.kind = ledger_kind(row), .first_ns = INT64_MAX};
    (void)snprintf(c->stage, sizeof c->stage, "%.*s", (int)row->stage.n, row->stage.p);
    (void)snprintf(c->reason, sizeof c->reason, "%.*s", (int)row->reason.n, row->reason.p);
    *at = l->n_counts;
    return c;
}

static const struct ledger_kind *count_row(struct query_ledger *l, const struct ledger_row *row,
                                           size_t *at, int64_t first_ns, int64_t last_ns)
{
    struct qledger_count *c = count_of(l, row, at);

    if (!c) {
        return ledger_kind(row);
    }
    c->n = ledger_add(c->kind->role == LEDGER_HELD ? 0 : c->n, row->count);
    c->first_ns = least(c->first_ns, first_ns);
    c->last_ns = most(c->last_ns, last_ns);
    return c->kind;
}

static bool is_ticks_lost(const struct ledger_kind *k)
{
    return k->unit == LEDGER_TICKS && (k->role == LEDGER_DROPPED || k->role == LEDGER_LOST);
}

/* A loss inside a batch. */
static void loss_add(struct query_ledger *l, const struct ledger_row *row,
                     const struct ledger_kind *kind, int64_t first_ns, int64_t last_ns)
{
    uint64_t ticks = is_ticks_lost(kind) ? row->count : 0;
    uint64_t events = kind->loss && kind->unit == LEDGER_EVENTS ? row->count : 0;

    l->lost = kind->loss ? ledger_add(l->lost, row->count) : l->lost;
    l->at_most = l->at_most || (kind->at_most && row->count > 0);
    l->lost_ticks = ledger_add(l->lost_ticks, ticks);
    l->lost_events = ledger_add(l->lost_events, events);
    if (kind->loss && (kind->unit == LEDGER_ROWS || kind->unit == LEDGER_RECORDS)) {
        l->lost_rows = ledger_add(l->lost_rows, row->count);
    }
    if (row->count > 0 && (ticks || kind->loss)) {
        span_add(l, first_ns, last_ns, ticks, events);
    }
}

/* The agent ended without a word: what it says was lost lies between its last batch and this one.
 * It counts by the rate it was to have; how fast ticks really came is known here. Only the part
 * inside the window counts. */
static void loss_before_kill(struct query_ledger *l, const struct qledger_kill *k)
{
    int64_t period_ns = l->period_ns ? l->period_ns : CLK_S;
    double whole_ns = (double)k->ticks * (double)period_ns;
    int64_t from_ns = k->newest_ns && k->newest_ns < k->first_ns ? k->newest_ns : 0, to_ns;
    uint64_t ticks = k->ticks, seen;

    if (!from_ns) {
        from_ns = whole_ns < (double)k->first_ns ? k->first_ns - (int64_t)whole_ns : 0;
    }
    from_ns = most(from_ns, l->since_ns);
    to_ns = least(k->first_ns, l->until_ns);
    seen = (uint64_t)(most(to_ns - from_ns - (to_ns < k->first_ns), 0) / period_ns);
    ticks = seen < ticks ? seen : ticks;
    l->lost = ledger_add(l->lost, ticks > 0 ? ticks : 1); /* a moment at least */
    l->lost_ticks = ledger_add(l->lost_ticks, ticks);
    l->at_most = true;
    span_add(l, from_ns, k->first_ns, ticks, 0);
}

/* Those killed before two of their ticks came in one batch: the next such batch shows the period.
 */
static void kills_settle(struct query_ledger *l)
{
    for (size_t i = 0; i < l->n_kills; i++) {
        loss_before_kill(l, &l->kills[i]);
    }
    l->n_kills = 0;
}

static void kill_add(struct query_ledger *l, const struct ledger_row *row, int64_t first_ns)
{
    struct qledger_kill k = {l->newest_ns, first_ns, row->count};

    if (l->period_ns || l->n_kills == QLEDGER_KILLS) {
        loss_before_kill(l, &k);
    } else {
        l->kills[l->n_kills++] = k;
    }
}

/* Events that the source handed on, but that the spool took out of this batch for want of room:
 * told by the row it added last. The same row elsewhere tells of batches that are gone whole, with
 * what their sources told. */
static uint64_t events_taken(const struct batch *b)
{
    const struct ledger_row *row;

    if (b->n_ledger == 0 || b->n_events > 0 || b->n_runs > 0) {
        return 0;
    }
    row = &b->ledger[b->n_ledger - 1];
    return str_eq(row->stage, str_make("spool")) && str_eq(row->reason, str_make("events_dropped"))
               ? row->count
               : 0;
}

static bool rows_read(struct query_ledger *l, const struct batch *b, int64_t first_ns,
                      int64_t last_ns)
{
    bool reduced = false;
    size_t at = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        const struct ledger_row *row = &b->ledger[i];
        const struct ledger_kind *kind = count_row(l, row, &at, first_ns, last_ns);

        if (str_eq(row->stage, str_make("agent")) && kind->unit == LEDGER_TICKS) {
            kill_add(l, row, first_ns);
            continue;
        }
        if (str_eq(row->stage, str_make("source")) && kind->role == LEDGER_OUT) {
            l->events = ledger_add(l->events, row->count);
        }
        reduced = reduced || (str_eq(row->stage, str_make("spool")) && is_ticks_lost(kind));
        loss_add(l, row, kind, first_ns, last_ns);
    }
    l->events_taken = ledger_add(l->events_taken, events_taken(b));
    return reduced;
}

/* -- numbers -- */

/* Neither shares a number with the other nor touches it. */
static bool ranges_are_apart(const struct qledger_range *a, const struct qledger_range *b)
{
    return a->stream != b->stream || (a->first > b->last && a->first - b->last > 1) ||
           (b->first > a->last && b->first - a->last > 1);
}

static void ranges_add(struct query_ledger *l, struct qledger_range seen)
{
    size_t i = 0;

    while (i < l->n_ranges) {
        struct qledger_range *r = &l->ranges[i];

        if (ranges_are_apart(r, &seen)) {
            i++;
            continue;
        }
        if (r->first < seen.first) {
            seen.first = r->first;
            seen.first_ns = r->first_ns;
        }
        if (r->last > seen.last) {
            seen.last = r->last;
            seen.last_ns = r->last_ns;
        }
        *r = l->ranges[--l->n_ranges];
        i = 0; /* it may touch another one now */
    }
    if (l->n_ranges < QLEDGER_RANGES) {
        l->ranges[l->n_ranges++] = seen;
    }
}

static const struct qledger_range *range_of(const struct query_ledger *l, uint64_t stream)
{
    for (size_t i = 0; i < l->n_ranges; i++) {
        if (l->ranges[i].stream == stream) {
            return &l->ranges[i];
        }
    }
    return NULL;
}

/* The first batch of a run that follows a kill: its stream is mostly one that was found on disk,
 * and goes on. */
static bool kill_is_followed(const struct batch *b)
{
    for (size_t i = 0; i < b->n_ledger; i++) {
        const struct ledger_row *row = &b->ledger[i];

        if (row->count > 0 && str_eq(row->stage, str_make("agent")) &&
            ledger_kind(row)->unit == LEDGER_TICKS) {
            return true;
        }
    }
    return false;
}

/* See qledger_range.before_ns; of a stream that is known it is as it was. */
static int64_t range_before_batch(const struct query_ledger *l, const struct batch *b)
{
    const struct qledger_range *known = range_of(l, b->head.stream);

    if (known) {
        return known->before_ns;
    }
    return l->newest_ns < l->since_ns || kill_is_followed(b) ? 0 : l->newest_ns;
}

/* newest_ns: of what came before the account. */
static int64_t range_before_stream(const struct query_ledger *l, const struct loss_sum *a,
                                   const struct rest_stream *s, int64_t newest_ns)
{
    const struct qledger_range *known = range_of(l, s->stream);

    if (known) {
        return known->before_ns;
    }
    for (size_t i = 0; i < a->n_streams; i++) {
        const struct rest_stream *other = &a->streams[i];

        if (other->stream != s->stream && other->last_ns < s->first_ns) {
            newest_ns = most(newest_ns, other->last_ns);
        }
    }
    return newest_ns < l->since_ns ? 0 : newest_ns;
}

static int range_by_number(const void *a, const void *b)
{
    const struct qledger_range *x = a, *y = b;

    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

/* How much of the time between two batches holds batches that came and cannot be read. */
static int64_t unread_between(const struct store_holes *unread, const struct qledger_range *before,
                              const struct qledger_range *after)
{
    return store_used_within(unread, clk_add(before->last_ns, 1), after->first_ns);
}

/* Whether those that cannot be read are all that lies between them: a tick before, one after. */
static bool gap_is_filled(const struct query_ledger *l, const struct qledger_range *before,
                          const struct qledger_range *after, int64_t unread_ns)
{
    int64_t period_ns = l->period_ns > 0 ? l->period_ns : CLK_S;
    int64_t rest_ns = clk_sub(clk_sub(after->first_ns, before->last_ns), unread_ns);

    return unread_ns > 0 && rest_ns / 5 <= period_ns / 2;
}

/* How many ticks there were in that time: (from, to) between two that came; where the window cuts
 * it, its first moment belongs to it. */
static uint64_t ticks_in(const struct query_ledger *l, int64_t gap_ns, bool late, bool early)
{
    uint64_t ticks;

    if (late) { /* from the window's begin on */
        return (uint64_t)((early ? gap_ns : clk_add(gap_ns, l->period_ns / 2)) / l->period_ns);
    }
    if (early) { /* to its end */
        return (uint64_t)((gap_ns - 1) / l->period_ns);
    }
    ticks = (uint64_t)(clk_add(gap_ns, l->period_ns / 2) / l->period_ns);
    return ticks - (ticks > 0); /* the last of them came */
}

/* Between two batches that came: `missing` that did not, at most so many. Of a gap that reaches
 * beyond the window that much is inside as of its time. */
static void loss_of_batches(struct query_ledger *l, const struct qledger_range *before,
                            const struct qledger_range *after, uint64_t missing, int64_t unread_ns)
{
    bool late = before->last_ns<l->since_ns, early = after->first_ns> l->until_ns;
    int64_t from_ns = most(before->last_ns, l->since_ns);
    int64_t to_ns = early ? l->until_ns : after->first_ns;
    int64_t gap_ns = clk_sub(clk_sub(to_ns, from_ns), unread_ns);
    uint64_t ticks;

    if (late || early) {
        double whole_ns = (double)clk_sub(after->first_ns, before->last_ns);

        if (to_ns <= from_ns) {
            return;
        }
        missing = 1 + (uint64_t)((double)(missing - 1) * (double)(to_ns - from_ns) / whole_ns);
    }
    ticks = l->period_ns > 0 && gap_ns > 0 ? ticks_in(l, gap_ns, late, early) : missing;
    l->missing_batches = ledger_add(l->missing_batches, missing);
    l->lost_ticks = ledger_add(l->lost_ticks, ticks);
    l->at_most = true;
    span_add(l, before->last_ns, most(after->first_ns, before->last_ns), ticks, 0);
}

/* Between numbers that came. Returns how many of `gaps` are left. Numbers that something unreadable
 * lies between come last: those are hardly missing, and not at all where there is no time left for
 * them. */
static uint64_t loss_between_ranges(struct query_ledger *l, uint64_t gaps,
                                    const struct store_holes *unread)
{
    for (unsigned doubtful = 0; doubtful < 2; doubtful++) {
        for (size_t i = 1; i < l->n_ranges && gaps > 0; i++) {
            const struct qledger_range *a = &l->ranges[i - 1], *b = &l->ranges[i];
            uint64_t missing = b->first - a->last - 1;
            int64_t unread_ns = unread_between(unread, a, b);

            if (a->stream == b->stream && (unread_ns > 0) == doubtful &&
                !gap_is_filled(l, a, b, unread_ns)) {
                missing = missing < gaps ? missing : gaps;
                gaps -= missing;
                loss_of_batches(l, a, b, missing, unread_ns);
            }
        }
    }
    return gaps;
}

/* Before the first number that came, of streams that began inside the window: an agent whose disk
 * fails begins one, sends it from memory in no strict order, and may be killed before its first
 * batch is taken. All numbers below are missing then, or the stream is older than it looks. */
static void loss_before_first(struct query_ledger *l, uint64_t gaps,
                              const struct store_holes *unread)
{
    for (size_t i = 0; i < l->n_ranges; i++) {
        const struct qledger_range *r = &l->ranges[i];
        const struct qledger_range before = {.stream = r->stream, .last_ns = r->before_ns};
        uint64_t missing = r->first - 1;

        if ((i > 0 && l->ranges[i - 1].stream == r->stream) || !r->before_ns || missing == 0 ||
            missing > gaps) {
            continue;
        }
        gaps -= missing;
        loss_of_batches(l, &before, r, missing, unread_between(unread, &before, r));
    }
}

static int count_by_place(const void *a, const void *b)
{
    const struct qledger_count *x = a, *y = b;
    size_t at_x = ledger_place(x->kind), at_y = ledger_place(y->kind);
    int d = at_x < at_y ? -1 : at_x > at_y;

    d = d ? d : strcmp(x->stage, y->stage);
    return d ? d : strcmp(x->reason, y->reason);
}

void query_ledger_end(struct query_ledger *l, uint64_t gaps, const struct store_holes *unread)
{
    kills_settle(l);
    l->events = ledger_sub(l->events, l->events_taken);
    l->events_taken = 0;
    qsort(l->counts, l->n_counts, sizeof *l->counts, count_by_place);
    qsort(l->ranges, l->n_ranges, sizeof *l->ranges, range_by_number);
    loss_before_first(l, loss_between_ranges(l, gaps, unread), unread);
}

void query_ledger_unread(struct query_ledger *l, const struct store_holes *unread)
{
    for (size_t i = 0; i < unread->n; i++) {
        span_add(l, unread->at[i].first_ns, unread->at[i].last_ns, 0, 0);
    }
}

/* -- batches -- */

static uint64_t ticks_inside(const struct query_ledger *l, const struct batch *b)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->n_ticks; i++) {
        n += b->wall_ns[i] >= l->since_ns && b->wall_ns[i] < l->until_ns;
    }
    return n;
}

/* By the monotonic clock. */
static void period_note(struct query_ledger *l, const struct batch *b)
{
    int64_t n = (int64_t)b->n_ticks - 1;
    int64_t period_ns = n > 0 ? clk_sub(b->mono_ns[n], b->mono_ns[0]) / n : 0;

    l->period_ns = period_ns > 0 ? period_ns : l->period_ns;
}

void query_ledger_batch(struct query_ledger *l, const struct batch *b)
{
    bool bare = !b->n_ticks && !b->n_events; /* the last words of an agent: as of its last data */
    int64_t first_ns = l->newest_ns, last_ns = l->newest_ns;
    bool reduced;

    if (!bare) {
        batch_time_span(b, 0, &first_ns, &last_ns);
    }
    if (!bare || l->newest_ns) {
        if (last_ns < l->since_ns || first_ns >= l->until_ns) {
            l->newest_ns = last_ns < l->since_ns ? most(l->newest_ns, last_ns) : l->newest_ns;
            return;
        }
    }
    period_note(l, b);
    if (l->period_ns) {
        kills_settle(l);
    }
    l->batches += !bare;
    l->flags |= b->head.flags;
    ranges_add(l, (struct qledger_range){b->head.stream, b->head.seq, b->head.seq, first_ns,
                                         last_ns, range_before_batch(l, b)});
    reduced = rows_read(l, b, first_ns, last_ns);
    l->ticks += reduced ? 0 : ticks_inside(l, b);
    l->newest_ns = most(l->newest_ns, last_ns);
}

void query_ledger_account(struct query_ledger *l, const struct loss_sum *a)
{
    int64_t newest_ns = l->newest_ns;
    size_t at = 0;

    l->batches += a->batches;
    l->flags |= a->flags;
    l->ticks += a->ticks;
    l->events = ledger_add(l->events, a->events);
    l->period_ns = a->period_ns > 0 ? a->period_ns : l->period_ns;
    l->newest_ns = most(l->newest_ns, a->last_ns);
    for (size_t i = 0; i < a->n_counts; i++) {
        const struct rest_count *c = &a->counts[i];
        const struct ledger_row row = {c->stage, c->reason, c->count};

        (void)count_row(l, &row, &at, c->first_ns, c->last_ns);
    }
    for (size_t i = 0; i < a->n_streams; i++) {
        const struct rest_stream *r = &a->streams[i];

        ranges_add(l, (struct qledger_range){r->stream, r->first, r->last, r->first_ns, r->last_ns,
                                             range_before_stream(l, a, r, newest_ns)});
    }
}

/* -- around the window -- */

static int64_t period_slack(const struct query_ledger *l)
{
    return clk_add(l->period_ns, l->period_ns > 0 ? l->period_ns : 2 * CLK_S);
}

bool query_ledger_ends_early(const struct query_ledger *l)
{
    return l->batches && clk_add(l->newest_ns, period_slack(l)) < l->until_ns;
}

const struct qledger_range *query_ledger_begins_late(const struct query_ledger *l)
{
    const struct qledger_range *first = NULL;

    for (size_t i = 0; i < l->n_ranges; i++) {
        first = first && first->first_ns <= l->ranges[i].first_ns ? first : &l->ranges[i];
    }
    return first && first->first > 1 && clk_sub(first->first_ns, period_slack(l)) > l->since_ns
               ? first
               : NULL;
}

void query_ledger_numbers(struct query_ledger *l, struct qledger_range seen)
{
    const struct qledger_range *known = range_of(l, seen.stream);

    if (seen.first_ns >= l->until_ns) {
        seen.before_ns = known ? known->before_ns : l->newest_ns;
    }
    ranges_add(l, seen);
}

void query_ledger_behind(struct query_ledger *l, const struct batch *b, int64_t first_ns,
                         int64_t last_ns)
{
    if (!l->period_ns) {
        period_note(l, b);
    }
    for (size_t i = 0; i < b->n_ledger; i++) {
        const struct ledger_row *row = &b->ledger[i];

        if (str_eq(row->stage, str_make("agent")) && ledger_kind(row)->unit == LEDGER_TICKS &&
            row->count > 0) {
            kill_add(l, row, first_ns);
        }
    }
    ranges_add(l, (struct qledger_range){b->head.stream, b->head.seq, b->head.seq, first_ns,
                                         last_ns, range_before_batch(l, b)});
}

/* -- figures -- */

static bool share_ppm(uint64_t got, uint64_t lost, uint32_t *ppm)
{
    if (got + lost == 0) {
        return false;
    }
    *ppm = (uint32_t)((double)got / ((double)got + (double)lost) * 1e6);
    if (lost > 0 && *ppm == 1000000) {
        *ppm = 999999;
    }
    return true;
}

bool query_ledger_believed(const struct query_ledger *l)
{
    bool believed = ledger_is_believed(l->missing_batches);

    for (size_t i = 0; i < l->n_counts; i++) {
        believed = believed && ledger_is_believed(l->counts[i].n);
    }
    return believed;
}

bool query_ledger_ticks(const struct query_ledger *l, uint32_t *ppm)
{
    return share_ppm(l->ticks, l->lost_ticks, ppm);
}

bool query_ledger_events(const struct query_ledger *l, uint32_t *ppm)
{
    return share_ppm(l->events, l->lost_events, ppm);
}

/* What the kernel, a ring or a stopped session has cost: stage etw counts much else besides. */
static bool count_is_cause(const struct qledger_count *c)
{
    static const char *const begins[] = {"full_", "kernel_", "session_lost", "ring_refused"};

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (strcmp(c->stage, "etw") == 0 && strncmp(c->reason, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

const struct qledger_count *query_ledger_loss(const struct query_ledger *l)
{
    const struct qledger_count *found = NULL;

    for (size_t i = 0; i < l->n_counts; i++) {
        const struct qledger_count *c = &l->counts[i];

        if (c->kind->loss && c->n > 0 && (!found || c->n > found->n)) {
            found = c;
        }
    }
    return found;
}

const struct qledger_count *query_ledger_cause(const struct query_ledger *l)
{
    const struct qledger_count *found = NULL;

    for (size_t i = 0; i < l->n_counts; i++) {
        const struct qledger_count *c = &l->counts[i];

        if (count_is_cause(c) && c->n > 0 && (!found || c->n > found->n)) {
            found = c;
        }
    }
    return found;
}
