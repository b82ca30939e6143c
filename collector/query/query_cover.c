/* Coverage: what an answer does not know, and the sentences that say it.
 *
 * The ledgers of a span's batches are summed and holes in the sequence numbers of each stream are
 * looked for (query_ledger.h). Known loss inside the window, a host or window
 * without data make the answer partial; polled sources, recordings (also ended ones without data in
 * the window), hosts that fell silent and ticks left out by a busy agent are only remarked on.
 * Remarks of many hosts become one sentence that names the first few.
 *
 * The last sentence is the figure: delivered / (delivered + known to be lost), of events and of
 * ticks, whichever is less, of each host; the mean over hosts. A span without data counts as
 * nothing delivered, and so does one that the collector's disk does not give any more. It is told
 * once, with the first page, for the whole window. */
#include "collector/query/query_plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "collector/query/query_cells.h"
#include "collector/query/query_ledger.h"
#include "collector/query/query_unread.h"
#include "common/base/clk.h"
#include "common/base/plural.h"

#define EDGE_NS    (30 * CLK_S) /* a window may begin or end this far from the data */
#define SILENT_NS  (90 * CLK_S) /* three heartbeats */
#define WHO_HOSTS  5            /* hosts named in one remark, */
#define LOST_HOSTS 3            /* and in the last sentence */
#define PPM        1000000u

PRINTF_LIKE(4, 5)
static void remark(struct query *q, enum query_note kind, const struct query_span *s,
                   const char *fmt, ...)
{
    struct query_remark *r = &q->remarks[kind];
    char detail[192];
    int n;
    va_list ap;

    if (q->quiet) {
        return;
    }
    r->hosts++;
    if (r->hosts > WHO_HOSTS) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    n = snprintf(r->who + r->n, sizeof r->who - r->n, "%s%.63s%s%s%s", r->n ? ", " : "",
                 s->about->name, detail[0] ? " (" : "", detail, detail[0] ? ")" : "");
    if (n < 0 || (size_t)n >= sizeof r->who - r->n) {
        r->who[r->n] = 0; /* no room for the whole: leave it out */
        return;
    }
    r->n += (size_t)n;
}

bool query_broke_off(const struct query_span *s)
{
    return s->over && !(s->about->flags & BATCH_LAST);
}

bool query_is_believed(const struct store_host *h)
{
    return ledger_is_believed(h->lost_events) && ledger_is_believed(h->gaps);
}

void query_remark(struct query *q, enum query_note kind, const struct query_span *s,
                  const char *detail)
{
    remark(q, kind, s, "%s", detail);
}

static const char *utc(char *text, int64_t ns)
{
    return clk_format_utc(text, CLK_TEXT, ns, 0);
}

void query_remark_replay(struct query *q, const struct query_span *s)
{
    const struct store_host *h = s->about;
    char a[CLK_TEXT];

    remark(q, QNOTE_REPLAY, s, "%s %s",
           h->flags & BATCH_LAST ? "ended"
           : query_broke_off(s)  ? "broke off at"
                                 : "so far up to",
           utc(a, h->last_ns));
}

/* -- one host -- */

/* What the host's own clock shows now, as far as that is known. */
static int64_t host_now(const struct query *q, const struct store_host *h)
{
    return clk_sub(q->env->now_ns, h->clock.known ? h->clock.offset_ns : 0);
}

/* Is there data at all, and does it reach from one end of the window to the other? Gives how much
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
        remark(q, QNOTE_MISSING, s, "it has %s to %s", utc(a, h->first_ns), utc(b, h->last_ns));
        return INT64_MAX;
    }
    if (q->ask->since_ns && clk_sub(h->first_ns, EDGE_NS) > s->since_ns &&
        !(h->flags & BATCH_REPLAY)) {
        remark(q, QNOTE_BEGINS_LATE, s, "from %s on", utc(a, h->first_ns));
        missing_ns = clk_sub(h->first_ns, s->since_ns);
    }
    if (!s->anchored && !ended && clk_add(h->last_ns, EDGE_NS) < until) {
        remark(q, QNOTE_ENDS_EARLY, s, "to %s", utc(a, h->last_ns));
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
    remark(q, QNOTE_LOST, s, "%" PRIu64 "%s%s%s%s%s%s", l->lost, what ? ", most " : "",
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
        remark(q, QNOTE_GAPS, s, "%" PRIu64, l->missing_batches);
    }
    if (!query_ledger_believed(l) && !(q->kind == QUERY_OVERVIEW && !query_is_believed(h))) {
        query_remark(q, QNOTE_UNBELIEVED, s, "");
    }
    if (l->flags & BATCH_POLLED) {
        remark(q, QNOTE_POLLED, s, "%s", "");
    }
    if (h->flags & BATCH_REPLAY) {
        query_remark_replay(q, s);
    } else if (s->anchored && clk_sub(host_now(q, h), h->last_ns) > SILENT_NS) {
        remark(q, QNOTE_SILENT, s, "%s", utc(a, h->last_ns));
    }
}

/* The window, as far as it is not in the future. */
static int64_t length_of(const struct query *q, const struct query_span *s)
{
    int64_t now_ns = host_now(q, s->about);

    return clk_sub(s->until_ns < now_ns ? s->until_ns : now_ns, s->since_ns);
}

/* What of the window was delivered, in parts per million. */
static uint32_t delivered(const struct query *q, const struct query_span *s,
                          const struct query_ledger *l, int64_t missing_ns)
{
    uint32_t ticks = PPM, events = PPM, least;
    int64_t whole_ns = length_of(q, s);

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
static void settle(struct query *q, const struct query_span *s, struct query_ledger *l,
                   const struct store_holes *batches)
{
    struct query_cover *c = &q->covers[s - q->spans];
    struct query_unread *unread = c->unread;
    int64_t missing_ns;

    query_ledger_end(l, s->about->gaps, batches);
    q->quiet = q->cursor.set;
    missing_ns = judge_span(q, s, l);
    judge_host(q, s, l);
    q->quiet = false;
    *c = (struct query_cover){.done = true,
                              .missing = missing_ns == INT64_MAX,
                              .over = !l->batches && missing_ns == 0,
                              .at_most = l->at_most,
                              .ppm = delivered(q, s, l, missing_ns),
                              .there_ns = clk_sub(length_of(q, s), missing_ns),
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

static enum err scan_block(void *ctx, const struct store_block *b)
{
    query_ledger_batch(ctx, b->batch);
    return ERR_OK;
}

static enum err scan_account(void *ctx, const struct loss_sum *a)
{
    query_ledger_account(ctx, a);
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

static enum err behind_block(void *ctx, const struct store_block *b)
{
    struct edge *x = ctx;
    int64_t first_ns, last_ns;

    if (!b->batch->n_ticks && !b->batch->n_events) {
        return ERR_OK;
    }
    store_span(b->batch, 0, &first_ns, &last_ns);
    if (first_ns < x->l->until_ns) { /* it was seen */
        return ERR_OK;
    }
    query_ledger_behind(x->l, b->batch, first_ns, last_ns);
    x->found = true;
    return ERR_END;
}

static enum err behind_account(void *ctx, const struct loss_sum *a)
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

static void before_take(struct edge *x, const struct qledger_range *r)
{
    if (r->stream == x->of->stream && r->last < x->of->first &&
        (!x->found || r->last > x->last.last)) {
        x->last = *r;
        x->found = true;
    }
}

static enum err before_block(void *ctx, const struct store_block *b)
{
    struct qledger_range r = {
        .stream = b->batch->head.stream, .first = b->batch->head.seq, .last = b->batch->head.seq};

    if (b->batch->n_ticks || b->batch->n_events) {
        store_span(b->batch, 0, &r.first_ns, &r.last_ns);
        before_take(ctx, &r);
    }
    return ERR_OK;
}

static enum err before_account(void *ctx, const struct loss_sum *a)
{
    for (size_t i = 0; i < a->n_streams; i++) {
        const struct rest_stream *s = &a->streams[i];

        before_take(
            ctx, &(struct qledger_range){s->stream, s->first, s->last, s->first_ns, s->last_ns, 0});
    }
    return ERR_OK;
}

static enum err look_behind(struct query *q, const struct query_span *s, struct query_ledger *l)
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
        e = query_accounts(q, s, &range, behind_account, behind_block, &x);
    }
    return e == ERR_END ? ERR_OK : e;
}

static enum err look_before(struct query *q, const struct query_span *s, struct query_ledger *l,
                            const struct qledger_range *of)
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
        e = query_accounts(q, s, &range, before_account, before_block, &x);
    }
    if (!e && x.found) {
        query_ledger_numbers(l, x.last);
    }
    return e;
}

static enum err look_around(struct query *q, const struct query_span *s, struct query_ledger *l)
{
    const struct qledger_range *late = query_ledger_begins_late(l);
    enum err e = ERR_OK;

    if (s->about->last_ns >= s->until_ns && query_ledger_ends_early(l)) {
        e = look_behind(q, s, l);
        late = query_ledger_begins_late(l);
    }
    if (!e && late && s->about->gaps && s->about->first_ns < s->since_ns) {
        e = look_before(q, s, l, late);
    }
    return e;
}

enum err query_cover_scan(struct query *q, const struct query_span *s, struct query_ledger *out)
{
    struct store_used used = {.damaged = 0};
    const struct store_range range = {.since_ns = s->since_ns,
                                      .until_ns = s->until_ns,
                                      .made_since_ns = INT64_MIN,
                                      .used = &used};
    enum err e;

    query_ledger_init(out, s->since_ns, s->until_ns);
    e = query_accounts(q, s, &range, scan_account, scan_block, out);
    memset(used.windows, 0, sizeof used.windows); /* told of are those the values were read from */
    query_used_add(q, s, &used);
    e = e ? e : look_around(q, s, out);
    if (!e) {
        settle(q, s, out, &used.holes);
    }
    return e;
}

static enum err cover_rest(struct query *q)
{
    struct query_ledger ledger;
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < q->n_spans; i++) {
        if (!q->covers[i].done) {
            e = query_cover_scan(q, &q->spans[i], &ledger);
        }
    }
    return e;
}

/* -- the last sentence -- */

PRINTF_LIKE(3, 4)
static void add(char *text, size_t size, const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
}

/* "14:02", with the day where it is not that of `day_ns`. */
static void add_time(char *text, size_t size, int64_t ns, int64_t day_ns)
{
    char when[CLK_TEXT], day[CLK_TEXT];
    bool same = strncmp(utc(when, ns), utc(day, day_ns), 10) == 0;

    add(text, size, same ? "%s%.5s" : "%.10s %.5s", same ? "" : when, when + 11);
}

static void add_counts(char *text, size_t size, const struct query_cover *c)
{
    const struct {
        uint64_t n;
        const char *one, *many;
    } all[] = {
        {c->events, "event", "events"},
        {c->ticks, "tick", "ticks"},
        {c->rows, "row", "rows"},
        {c->ticks ? 0 : c->batches, "batch", "batches"},
    };
    const char *between = ", ";

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].n > 0) {
            add(text, size, "%s%" PRIu64 " %s", between, all[i].n,
                all[i].n == 1 ? all[i].one : all[i].many);
            between = " and ";
        }
    }
}

static bool has_loss(const struct query_cover *c)
{
    return c->missing || c->at_most || c->events || c->ticks || c->rows || c->batches || c->unread;
}

/* " 14:02–14:03" */
static void add_span(char *text, size_t size, int64_t first_ns, int64_t last_ns, int64_t day_ns)
{
    add(text, size, " ");
    add_time(text, size, first_ns, day_ns);
    if (last_ns / (60 * CLK_S) != first_ns / (60 * CLK_S)) {
        add(text, size, "\xe2\x80\x93");
        add_time(text, size, last_ns, day_ns);
    }
}

static void add_unread(char *text, size_t size, const struct query_cover *c,
                       const struct query_span *s)
{
    int64_t first_ns, last_ns;

    add(text, size, ", not readable of %s", s->about->name);
    if (query_unread_span(c->unread, &first_ns, &last_ns)) {
        add_span(text, size, first_ns, last_ns, s->until_ns);
    }
}

static void add_host(char *text, size_t size, const struct query_cover *c,
                     const struct query_span *s)
{
    bool counted = c->events || c->ticks || c->rows || c->batches;

    if (c->unread) {
        add_unread(text, size, c, s);
    } else if (c->missing) {
        add(text, size, ", nothing from %s", s->about->name);
    }
    if (c->missing || !(counted || c->at_most)) {
        return;
    }
    if (counted) {
        add_counts(text, size, c);
    } else {
        add(text, size, ", an unknown number of events");
    }
    add(text, size, " lost on %s", s->about->name);
    if (c->last_ns) {
        add_span(text, size, c->first_ns, c->last_ns, s->until_ns);
    }
}

static void add_share(char *text, size_t size, const struct query *q)
{
    uint64_t sum = 0;
    size_t n = 0;
    bool at_most = false;

    for (size_t i = 0; i < q->n_spans; i++) {
        if (q->covers[i].over) {
            continue;
        }
        n++;
        sum += query_unread_ppm(q, &q->spans[i]);
        at_most = at_most || q->covers[i].at_most || q->covers[i].unread;
    }
    add(text, size, "coverage %s", at_most ? "\xe2\x89\xa4 " : "");
    if (sum == (uint64_t)PPM * n) {
        add(text, size, "100 %%");
    } else {
        unsigned hundredths = (unsigned)(sum / n / 100);

        add(text, size, "%u.%02u %%", hundredths / 100, hundredths % 100);
    }
}

/* Bytes of the text up to `max` that do not end inside a character. */
static int cut_at(struct str s, size_t max)
{
    size_t n = s.n < max ? s.n : max;

    while (n < s.n && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80) {
        n--;
    }
    return (int)n;
}

static void tell_coverage(char *text, size_t size, const struct query *q)
{
    size_t hosts = 0;

    text[0] = '\0';
    if (!q->n_spans) {
        add(text, size, "coverage 0.00 %%, nothing from %.*s", cut_at(q->ask->host, 64),
            q->ask->host.p);
        return;
    }
    add_share(text, size, q);
    for (size_t i = 0; i < q->n_spans; i++) {
        if (has_loss(&q->covers[i]) && hosts++ < LOST_HOSTS) {
            add_host(text, size, &q->covers[i], &q->spans[i]);
        }
    }
    if (hosts > LOST_HOSTS) {
        add(text, size, ", and %zu more %s with losses", hosts - LOST_HOSTS,
            plural(hosts - LOST_HOSTS, "host", "hosts"));
    }
}

/* -- the finished answer -- */

static const char *const sentences[QNOTE_COUNT] = {
    [QNOTE_UNREAD] = "left out, the collector's disk does not give it ('procfleet-collector store "
                     "check' names the place)",
    [QNOTE_LOST] = "known to be lost in the window",
    [QNOTE_GAPS] = "batches missing in the window",
    [QNOTE_MISSING] = "no data in the window",
    [QNOTE_BEGINS_LATE] = "data only for the later part of the window",
    [QNOTE_ENDS_EARLY] = "data only for the earlier part of the window",
    [QNOTE_UNBELIEVED] =
        "the ledger tells of more than can be, and is not believed and left out of sums",
    [QNOTE_POLLED] = "polled, lives shorter than a sample may be missing",
    [QNOTE_REPLAY] = "a recording",
    [QNOTE_SILENT] = "nothing new since",
    [QNOTE_CLONES] = "two machines use this identity, enrol the copy anew",
    [QNOTE_CLOCK] = "put in order by the collector's clock, not by the stamps shown",
    [QNOTE_CERTIFICATE] = "the certificate ends soon and has not been renewed",
};

static struct str note_make(struct query *q, const char *fmt, ...) PRINTF_LIKE(2, 3);

static struct str note_make(struct query *q, const char *fmt, ...)
{
    char text[768];
    struct str s = {NULL, 0};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    s.n = strlen(text);
    s.p = arena_dup(&q->out->memory, text, s.n);
    return s;
}

/* -- what it was read from -- */

/* "3 windows in memory, 24 of samples, 2 of 10 s" */
static void tell_used(char *text, size_t size, const struct store_used *used)
{
    static const char *const from[STORE_TIERS] = {
        [STORE_HEAD] = "in memory", [STORE_RAW] = "of samples", [STORE_SUMMARY] = "summed up",
        [STORE_10S] = "of 10 s",    [STORE_1MIN] = "of 1 min",  [STORE_1H] = "of 1 h",
    };
    const char *between = "read from windows of hosts: ";

    text[0] = '\0';
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        if (used->windows[i]) {
            add(text, size, "%s%" PRIu32 " %s", between, used->windows[i], from[i]);
            between = ", ";
        }
    }
}

static bool used_sealed(const struct store_used *used)
{
    for (unsigned i = STORE_HEAD + 1; i < STORE_TIERS; i++) {
        if (used->windows[i]) {
            return true;
        }
    }
    return false;
}

/* The sentences about it, at most four. */
static void used_finish(struct query *q, struct str *notes)
{
    struct wire_answer *a = &q->out->data;
    const struct store_used *used = &q->used;
    char text[320], when[CLK_TEXT];

    a->n_used = STORE_TIERS;
    memcpy(a->used, used->windows, sizeof used->windows);
    a->damaged = used->damaged;
    a->partial |= used->damaged > 0 || used->folded > 0;
    if (store_view_unlisted(q->env->view)) {
        a->partial = true;
        notes[a->n_notes++] =
            note_make(q, "the collector's catalogue of processes could not be read in part, and is "
                         "made anew: names, users and processes that ended may be missing");
    }
    if (used->coarse_bucket_ns) {
        notes[a->n_notes++] = note_make(q, "samples are gone for data from %s on: sums of up to %s",
                                        utc(when, used->coarse_from_ns),
                                        used->coarse_bucket_ns >= 3600 * CLK_S ? "an hour"
                                        : used->coarse_bucket_ns >= 60 * CLK_S ? "a minute"
                                                                               : "10 s");
    }
    if (used->folded) {
        notes[a->n_notes++] =
            note_make(q,
                      "short lives of %" PRIu32
                      " windows are left as sums by image only: --folded shows them",
                      used->folded);
    }
    if (used_sealed(used) && !q->cursor.set && q->kind != QUERY_HOSTS) {
        tell_used(text, sizeof text, used);
        notes[a->n_notes++] = note_make(q, "%s", text);
    }
}

static void window_finish(struct query *q)
{
    struct wire_answer *a = &q->out->data;

    for (size_t i = 0; i < q->n_spans; i++) {
        const struct query_span *s = &q->spans[i];

        a->since_ns = i == 0 || s->since_ns < a->since_ns ? s->since_ns : a->since_ns;
        a->until_ns = i == 0 || s->until_ns > a->until_ns ? s->until_ns : a->until_ns;
    }
}

enum err query_finish(struct query *q)
{
    struct wire_answer *a = &q->out->data;
    struct str *notes = arena_array(&q->out->memory, QNOTE_COUNT + 7, sizeof *notes);
    bool covered = !q->cursor.set && q->kind != QUERY_HOSTS && (q->n_spans > 0 || q->ask->host.n);
    enum err e = notes ? ERR_OK : ERR_NOMEM;
    char text[640];

    if (!e && covered) {
        e = cover_rest(q);
    }
    if (e) {
        return e;
    }
    e = query_unread_check(q);
    if (e) {
        return e;
    }
    query_unread_remark(q);
    if (!q->n_spans && q->ask->host.n) {
        notes[a->n_notes++] =
            note_make(q, "no host matches \"%.*s\"", cut_at(q->ask->host, 64), q->ask->host.p);
        a->partial = true;
    }
    if (q->env->store_failed) {
        notes[a->n_notes++] = note_make(q, "nothing new is stored: the collector's log has failed; "
                                           "mend the disk, then restart the collector");
    }
    if (q->env->stats && q->env->stats->no_space) {
        notes[a->n_notes++] = note_make(q, "nothing new is stored: the collector's disk is full; "
                                           "make room there, the agents wait");
    }
    for (unsigned i = 0; i < QNOTE_COUNT; i++) {
        const struct query_remark *r = &q->remarks[i];

        if (!r->hosts) {
            continue;
        }
        a->partial |= i <= QNOTE_PARTIAL_LAST;
        notes[a->n_notes++] =
            r->hosts > WHO_HOSTS
                ? note_make(q, "%s: %s and %u more", sentences[i], r->who, r->hosts - WHO_HOSTS)
                : note_make(q, "%s: %s", sentences[i], r->who);
    }
    used_finish(q, notes);
    if (covered) {
        tell_coverage(text, sizeof text, q);
        notes[a->n_notes++] = note_make(q, "%s", text);
    }
    for (size_t i = 0; i < a->n_notes; i++) {
        if (!notes[i].p) {
            return ERR_NOMEM;
        }
    }
    a->notes = notes;
    a->hosts = q->hosts;
    a->n_hosts = q->n_hosts;
    window_finish(q);
    return ERR_OK;
}
