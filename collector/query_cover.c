/* Coverage: what an answer does not know, and the sentences that say it.
 *
 * While a span is scanned, the ledgers of its batches are summed and holes in the sequence numbers
 * of each stream are looked for. Known loss inside the window, a host or window without data make
 * the answer partial; polled sources, recordings and hosts that fell silent are only remarked on.
 * Remarks of many hosts become one sentence that names the first few. */
#include "collector/query_plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/clk.h"
#include "common/ledger.h"
#include "common/os.h"

#define STREAMS_MAX 32           /* of one host in one window, looked at for holes */
#define EDGE_NS     (30 * CLK_S) /* a window may begin or end this far from the data */
#define SILENT_NS   (90 * CLK_S) /* three heartbeats */
#define WHO_HOSTS   5            /* hosts named in one remark */

/* Sequence numbers of one stream seen inside the window. */
struct stream_seen {
    uint64_t stream;
    uint64_t min, max, count;
};

struct scan {
    const struct query *q;
    const struct query_span *s;
    enum err (*each)(void *ctx, const struct batch *b);
    void *ctx;
    uint64_t lost;
    uint32_t flags; /* BATCH_* of the batches inside the window, any */
    uint64_t batches;
    size_t n_streams;
    struct stream_seen streams[STREAMS_MAX];
};

PRINTF_LIKE(4, 5)
static void remark(struct query *q, enum query_note kind, const struct query_span *s,
                   const char *fmt, ...)
{
    struct query_remark *r = &q->remarks[kind];
    char detail[128];
    int n;
    va_list ap;

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

static void stream_note(struct scan *sc, uint64_t stream, uint64_t seq)
{
    size_t i = 0;
    struct stream_seen *t;

    while (i < sc->n_streams && sc->streams[i].stream != stream) {
        i++;
    }
    if (i == STREAMS_MAX) {
        return;
    }
    t = &sc->streams[i];
    if (i == sc->n_streams) {
        sc->n_streams++;
        *t = (struct stream_seen){.stream = stream, .min = seq, .max = seq};
    }
    t->count++;
    t->min = seq < t->min ? seq : t->min;
    t->max = seq > t->max ? seq : t->max;
}

static bool in_window(const struct query_span *s, const struct batch *b)
{
    int64_t first, last;

    if (!b->n_ticks && !b->n_events) {
        return false;
    }
    store_span(b, 0, &first, &last);
    return last >= s->since_ns && first < s->until_ns;
}

static enum err scan_batch(void *ctx, const struct batch *b)
{
    struct scan *sc = ctx;

    if (sc->q->env->deadline_ns && os_mono_ns() > sc->q->env->deadline_ns) {
        return ERR_TIMEOUT;
    }
    if (in_window(sc->s, b)) {
        sc->batches++;
        sc->flags |= b->head.flags;
        stream_note(sc, b->head.stream, b->head.seq);
        for (size_t i = 0; i < b->n_ledger; i++) {
            sc->lost += ledger_is_loss(b->ledger[i].reason) ? b->ledger[i].count : 0;
        }
    }
    return sc->each(sc->ctx, b);
}

static uint64_t holes(const struct scan *sc)
{
    uint64_t n = 0;

    for (size_t i = 0; i < sc->n_streams; i++) {
        const struct stream_seen *t = &sc->streams[i];

        n += t->max - t->min + 1 - t->count;
    }
    return n < sc->s->about->gaps ? n : sc->s->about->gaps;
}

static const char *utc(char *text, int64_t ns)
{
    return clk_format_utc(text, CLK_TEXT, ns, 0);
}

/* Is there data at all, and does it reach from one end of the window to the other? */
static void judge_span(struct query *q, const struct query_span *s, const struct scan *sc)
{
    const struct store_host *h = s->about;
    bool ended = (h->flags & (BATCH_REPLAY | BATCH_LAST)) != 0;
    int64_t until = s->until_ns < q->env->now_ns ? s->until_ns : q->env->now_ns;
    char a[CLK_TEXT], b[CLK_TEXT];

    if (!sc->batches) {
        remark(q, QNOTE_MISSING, s, "it has %s to %s", utc(a, h->first_ns), utc(b, h->last_ns));
        return;
    }
    if (q->ask->since_ns && h->first_ns - EDGE_NS > s->since_ns && !(h->flags & BATCH_REPLAY)) {
        remark(q, QNOTE_BEGINS_LATE, s, "from %s on", utc(a, h->first_ns));
    }
    if (!s->anchored && !ended && h->last_ns + EDGE_NS < until) {
        remark(q, QNOTE_ENDS_EARLY, s, "to %s", utc(a, h->last_ns));
    }
}

static void judge_host(struct query *q, const struct query_span *s, const struct scan *sc)
{
    const struct store_host *h = s->about;
    uint64_t gaps = holes(sc);
    char a[CLK_TEXT];

    if (sc->lost) {
        remark(q, QNOTE_LOST, s, "%" PRIu64, sc->lost);
    }
    if (gaps) {
        remark(q, QNOTE_GAPS, s, "%" PRIu64, gaps);
    }
    if (sc->flags & BATCH_POLLED) {
        remark(q, QNOTE_POLLED, s, "%s", "");
    }
    if (h->flags & BATCH_REPLAY) {
        remark(q, QNOTE_REPLAY, s, "%s %s", h->flags & BATCH_LAST ? "ended" : "so far up to",
               utc(a, h->last_ns));
    } else if (s->anchored && q->env->now_ns - h->last_ns > SILENT_NS) {
        remark(q, QNOTE_SILENT, s, "%s", utc(a, h->last_ns));
    }
}

enum err query_scan(struct query *q, const struct query_span *s, int64_t since_ns,
                    enum err (*each)(void *ctx, const struct batch *b), void *ctx)
{
    struct scan sc = {.q = q, .s = s, .each = each, .ctx = ctx};
    enum err e = store_scan(q->env->view, s->host, since_ns, s->until_ns, scan_batch, &sc);

    if (e && e != ERR_END) {
        return e;
    }
    if (!q->cursor.set) { /* a later page sees only the rest of the window */
        judge_span(q, s, &sc);
    }
    judge_host(q, s, &sc);
    return ERR_OK;
}

/* -- the finished answer -- */

static const char *const sentences[QNOTE_COUNT] = {
    [QNOTE_LOST] = "events known to be lost in the window",
    [QNOTE_GAPS] = "batches missing in the window",
    [QNOTE_MISSING] = "no data in the window",
    [QNOTE_BEGINS_LATE] = "data only for the later part of the window",
    [QNOTE_ENDS_EARLY] = "data only for the earlier part of the window",
    [QNOTE_POLLED] = "polled, lives shorter than a sample may be missing",
    [QNOTE_REPLAY] = "a recording",
    [QNOTE_SILENT] = "nothing new since",
};

static struct str note_make(struct query *q, const char *fmt, ...) PRINTF_LIKE(2, 3);

static struct str note_make(struct query *q, const char *fmt, ...)
{
    char text[512];
    struct str s = {NULL, 0};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    s.n = strlen(text);
    s.p = arena_dup(&q->out->memory, text, s.n);
    return s;
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
    struct str *notes = arena_array(&q->out->memory, QNOTE_COUNT + 1, sizeof *notes);

    if (!notes) {
        return ERR_NOMEM;
    }
    if (!q->n_spans && q->ask->host.n) {
        notes[a->n_notes++] =
            note_make(q, "no host matches \"%.*s\"", cut_at(q->ask->host, 64), q->ask->host.p);
        a->partial = true;
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
