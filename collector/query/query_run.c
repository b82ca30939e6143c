/* A question from its kind to the finished answer: the remarks become sentences, each of which
 * names the first few of its hosts, and the last sentence is the coverage.
 *
 * The coverage is delivered / (delivered + known to be lost), of events and of ticks, whichever is
 * less, of each host; the mean over hosts. A span without data counts as nothing delivered, and so
 * does one that the collector's disk does not return any more. It is said once, with the first
 * page, for the whole window. */
#include "collector/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "collector/query/query_cover.h"
#include "collector/query/query_impl.h"
#include "collector/query/query_ledger.h"
#include "collector/query/query_scan.h"
#include "collector/query/query_where.h"
#include "common/base/clk.h"
#include "common/base/plural.h"

#define NOTES_MAX  (QNOTE_COUNT + 10u)
#define LOST_HOSTS 3 /* hosts named in the last sentence */

/* Whoever draws events draws what is missing between them: each host's coverage goes with them, as
 * far as there is room. */
static enum err cover_rest(struct query *q)
{
    struct wire_coverage *told = NULL;
    struct query_ledger ledger;
    enum err e = ERR_OK;

    if (q->kind == QUERY_EVENTS) {
        told = arena_array(&q->out->memory, q->n_spans, sizeof *told);
        q->out->data.coverage = told;
        e = told ? ERR_OK : ERR_FULL;
    }
    query_expect(q, NULL, q->n_spans); /* the question may have looked at fewer */
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        if (q->covers[i].done) {
            continue;
        }
        e = query_cover_scan(q, &q->spans[i], &ledger);
        if (!e && told && query_fits(q, NULL, (ledger.n_spans + 3) * 64)) {
            e = query_cover_host(q, &q->spans[i], &told[q->out->data.n_coverage++], &ledger);
        }
    }
    return e;
}

/* -- the last sentence -- */

PRINTF_LIKE(3, 4)
static void text_add(char *text, size_t size, const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
}

/* "14:02", with the day where it is not that of `day_ns`. */
static void text_add_time(char *text, size_t size, int64_t ns, int64_t day_ns)
{
    char when[CLK_TEXT], day[CLK_TEXT];
    bool same = strncmp(query_utc(when, ns), query_utc(day, day_ns), 10) == 0;

    text_add(text, size, same ? "%s%.5s" : "%.10s %.5s", same ? "" : when, when + 11);
}

static void text_add_counts(char *text, size_t size, const struct query_cover *c)
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
            text_add(text, size, "%s%" PRIu64 " %s", between, all[i].n,
                     all[i].n == 1 ? all[i].one : all[i].many);
            between = " and ";
        }
    }
}

static bool cover_has_loss(const struct query_cover *c)
{
    return c->missing || c->at_most || c->events || c->ticks || c->rows || c->batches || c->unread;
}

/* " 14:02–14:03" */
static void text_add_span(char *text, size_t size, int64_t first_ns, int64_t last_ns,
                          int64_t day_ns)
{
    text_add(text, size, " ");
    text_add_time(text, size, first_ns, day_ns);
    if (last_ns / (60 * CLK_S) != first_ns / (60 * CLK_S)) {
        text_add(text, size, "\xe2\x80\x93");
        text_add_time(text, size, last_ns, day_ns);
    }
}

static void text_add_unread(char *text, size_t size, const struct query_cover *c,
                            const struct query_span *s)
{
    int64_t first_ns, last_ns;

    text_add(text, size, ", not readable of %s", s->about->name);
    if (query_scan_unread_span(c->unread, &first_ns, &last_ns)) {
        text_add_span(text, size, first_ns, last_ns, s->until_ns);
    }
}

static void text_add_host(char *text, size_t size, const struct query_cover *c,
                          const struct query_span *s)
{
    bool counted = c->events || c->ticks || c->rows || c->batches;

    if (c->unread) {
        text_add_unread(text, size, c, s);
    } else if (c->missing) {
        text_add(text, size, ", nothing from %s", s->about->name);
    }
    if (c->missing || !(counted || c->at_most)) {
        return;
    }
    if (counted) {
        text_add_counts(text, size, c);
    } else {
        text_add(text, size, ", an unknown number of events");
    }
    text_add(text, size, " lost on %s", s->about->name);
    if (c->last_ns) {
        text_add_span(text, size, c->first_ns, c->last_ns, s->until_ns);
    }
}

/* The mean over hosts; of recordings that ended nothing is expected where they have no data. */
static struct wire_coverage_sum coverage_sum(const struct query *q)
{
    struct wire_coverage_sum all = {.known = true, .ppm = q->n_spans ? QUERY_PPM : 0};
    uint64_t sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < q->n_spans; i++) {
        const struct query_cover *c = &q->covers[i];

        if (c->over) {
            continue;
        }
        n++;
        sum += query_scan_unread_ppm(q, &q->spans[i]);
        all.at_most = all.at_most || c->at_most || c->unread;
        all.lost_ticks += c->ticks;
        all.lost_events += c->events;
    }
    if (n) {
        all.ppm = (uint32_t)(sum / n);
    }
    return all;
}

static void text_add_share(char *text, size_t size, const struct wire_coverage_sum *c)
{
    text_add(text, size, "coverage %s", c->at_most ? "\xe2\x89\xa4 " : "");
    if (c->ppm == QUERY_PPM) {
        text_add(text, size, "100 %%");
    } else {
        text_add(text, size, "%u.%02u %%", c->ppm / 10000, c->ppm / 100 % 100);
    }
}

/* Bytes of the text up to `max` that do not end inside a character. */
static int text_cut(struct str s, size_t max)
{
    size_t n = s.n < max ? s.n : max;

    while (n < s.n && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80) {
        n--;
    }
    return (int)n;
}

static void text_coverage(char *text, size_t size, const struct query *q)
{
    size_t hosts = 0;

    text[0] = '\0';
    if (!q->n_spans) {
        struct str of = q->n_absent ? q->absent[0] : str_make("any host");

        text_add(text, size, "coverage 0.00 %%, nothing from %.*s", text_cut(of, 64), of.p);
        return;
    }
    text_add_share(text, size, &q->out->data.sum);
    for (size_t i = 0; i < q->n_spans; i++) {
        if (cover_has_loss(&q->covers[i]) && hosts++ < LOST_HOSTS) {
            text_add_host(text, size, &q->covers[i], &q->spans[i]);
        }
    }
    if (hosts > LOST_HOSTS) {
        text_add(text, size, ", and %zu more %s with losses", hosts - LOST_HOSTS,
                 plural(hosts - LOST_HOSTS, "host", "hosts"));
    }
}

/* -- what could not be read -- */

static void unread_remark(struct query *q)
{
    for (size_t i = 0; i < q->n_spans; i++) {
        const struct query_unread *u = q->covers[i].unread;
        char detail[160], first[CLK_TEXT], last[CLK_TEXT];
        int64_t first_ns, last_ns;

        if (!u) {
            continue;
        }
        if (query_scan_unread_span(u, &first_ns, &last_ns)) {
            (void)snprintf(detail, sizeof detail, "%" PRIu32 " %s, %s to %s", u->values,
                           plural(u->values, "value", "values"),
                           clk_format_utc(first, sizeof first, first_ns, 0),
                           clk_format_utc(last, sizeof last, last_ns, 0));
        } else { /* what counters grow from */
            (void)snprintf(detail, sizeof detail, "%" PRIu32 " from before the window", u->values);
        }
        query_remark(q, q->used.far ? QNOTE_FAR : QNOTE_UNREAD, &q->spans[i], "%s", detail);
    }
}

/* Whether a question about values got none of them, though there are some. */
static bool unread_is_all(const struct query *q)
{
    bool asks = q->kind != QUERY_HOSTS && q->kind != QUERY_OVERVIEW && q->kind != QUERY_COVERAGE;
    uint32_t read = 0;

    if (!asks || !q->used.damaged || q->cursor.set) {
        return false;
    }
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        read |= q->used.windows[i];
    }
    for (size_t i = 0; i < q->n_spans && !read; i++) {
        read |= !q->covers[i].missing || !q->covers[i].unread;
    }
    return !read;
}

static enum err unread_check(const struct query *q)
{
    if (!unread_is_all(q)) {
        return ERR_OK;
    }
    if (q->used.far) {
        return errmsg_set(q->why, ERR_IO,
                          "nothing of what was asked for is here any more, and ClickHouse did not "
                          "answer: 'procfleet-collector clickhouse check' tells why");
    }
    return errmsg_set(q->why, ERR_IO,
                      "nothing of what was asked for can be read from the collector's disk: its "
                      "log and the system's tell of errors of the disk, 'procfleet-collector "
                      "store check' there names what is damaged");
}

/* -- the finished answer -- */

static const char *const sentences[QNOTE_COUNT] = {
    [QNOTE_UNREAD] = ("left out, the collector's disk does not give it ('procfleet-collector store "
                      "check' names the place)"),
    [QNOTE_FAR] = "left out, ClickHouse did not answer",
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
    [QNOTE_ROOTLESS] = "the run's process was not seen there, so the whole host is counted",
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
static void text_used(char *text, size_t size, const struct store_used *used)
{
    static const char *const from[STORE_TIERS] = {
        [STORE_HEAD] = "in memory", [STORE_RAW] = "of samples", [STORE_SUMMARY] = "summed up",
        [STORE_10S] = "of 10 s",    [STORE_1MIN] = "of 1 min",  [STORE_1H] = "of 1 h",
    };
    const char *between = "read from windows of hosts: ";

    text[0] = '\0';
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        if (used->windows[i]) {
            text_add(text, size, "%s%" PRIu32 " %s", between, used->windows[i], from[i]);
            between = ", ";
        }
    }
}

static bool used_is_sealed(const struct store_used *used)
{
    for (unsigned i = STORE_HEAD + 1; i < STORE_TIERS; i++) {
        if (used->windows[i]) {
            return true;
        }
    }
    return false;
}

/* The sentences about it, at most four. */
static void answer_used(struct query *q, struct str *notes)
{
    struct wire_answer *a = &q->out->data;
    const struct store_used *used = &q->used;
    char text[320], when[CLK_TEXT];

    a->n_used = STORE_TIERS;
    memcpy(a->used, used->windows, sizeof used->windows);
    a->damaged = used->damaged;
    a->partial |= used->damaged > 0 || used->folded > 0;
    if (store_info_unlisted(q->env->view)) {
        a->partial = true;
        notes[a->n_notes++] =
            note_make(q, "the collector's catalogue of processes could not be read in part, and is "
                         "made anew: names, users and processes that ended may be missing");
    }
    if (used->coarse_bucket_ns) {
        notes[a->n_notes++] = note_make(q, "samples are gone for data from %s on: sums of up to %s",
                                        query_utc(when, used->coarse_from_ns),
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
    if (used_is_sealed(used) && !q->cursor.set && q->kind != QUERY_HOSTS) {
        text_used(text, sizeof text, used);
        notes[a->n_notes++] = note_make(q, "%s", text);
    }
}

static void answer_window(struct query *q)
{
    struct wire_answer *a = &q->out->data;

    for (size_t i = 0; i < q->n_spans; i++) {
        const struct query_span *s = &q->spans[i];

        a->since_ns = i == 0 || s->since_ns < a->since_ns ? s->since_ns : a->since_ns;
        a->until_ns = i == 0 || s->until_ns > a->until_ns ? s->until_ns : a->until_ns;
    }
}

static bool selects_hosts(const struct query *q)
{
    return q->ask->host.n || q->ask->n_hosts || q->ask->n_labels;
}

/* Names that no host has, and that nothing is left of the hosts that there are. */
static void answer_absent(struct query *q, struct str *notes)
{
    struct wire_answer *a = &q->out->data;
    char text[640] = "no host matches ";

    for (size_t i = 0; i < q->n_absent && i < QUERY_REMARK_HOSTS; i++) {
        text_add(text, sizeof text, "%s\"%.*s\"", i ? ", " : "", text_cut(q->absent[i], 64),
                 q->absent[i].p);
    }
    if (q->n_absent > QUERY_REMARK_HOSTS) {
        text_add(text, sizeof text, " and %zu more", q->n_absent - QUERY_REMARK_HOSTS);
    }
    if (q->n_absent && !q->cursor.set) {
        notes[a->n_notes++] = note_make(q, "%s", text);
    } else if (!q->n_spans && (q->ask->n_labels || q->where)) {
        notes[a->n_notes++] = note_make(q, "no host has these labels or can fulfil --where");
    }
    a->partial = a->partial || q->n_absent;
}

static enum err answer_finish(struct query *q)
{
    struct wire_answer *a = &q->out->data;
    struct str *notes = arena_array(&q->out->memory, NOTES_MAX, sizeof *notes);
    bool covered = !q->cursor.set && q->kind != QUERY_HOSTS && q->kind != QUERY_PULSE &&
                   q->kind != QUERY_BOOTS && (q->n_spans > 0 || selects_hosts(q));
    enum err e = notes ? ERR_OK : ERR_NOMEM;
    char text[640];

    if (!e && covered) {
        e = cover_rest(q);
    }
    if (e) {
        return e;
    }
    e = unread_check(q);
    if (e) {
        return e;
    }
    unread_remark(q);
    answer_absent(q, notes);
    query_where_note(q, text, sizeof text);
    if (text[0]) {
        notes[a->n_notes++] = note_make(q, "%s", text);
    }
    if (q->boots_cut) {
        notes[a->n_notes++] = note_make(q, "there are more boots: ask for fewer hosts");
    }
    if (q->env->store_failed) {
        notes[a->n_notes++] = note_make(q, "nothing new is stored: the collector's log has failed; "
                                           "repair the disk, then restart the collector");
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
        notes[a->n_notes++] = r->hosts > QUERY_REMARK_HOSTS
                                  ? note_make(q, "%s: %s and %u more", sentences[i], r->who,
                                              r->hosts - QUERY_REMARK_HOSTS)
                                  : note_make(q, "%s: %s", sentences[i], r->who);
    }
    answer_used(q, notes);
    if (covered) {
        a->sum = coverage_sum(q);
        text_coverage(text, sizeof text, q);
        notes[a->n_notes++] = note_make(q, "%s", text);
    }
    assert(a->n_notes <= NOTES_MAX);
    for (size_t i = 0; i < a->n_notes; i++) {
        if (!notes[i].p) {
            return ERR_NOMEM;
        }
    }
    a->notes = notes;
    a->hosts = q->hosts;
    a->n_hosts = q->n_hosts;
    answer_window(q);
    return ERR_OK;
}

#define QUERY_RUN(kind, name) [QUERY_##kind] = query_##name,
static enum err (*const runs[QUERY_KINDS])(struct query *) = {QUERY_LIST(QUERY_RUN)};

enum err query_run(struct query_answer *out, enum query_kind kind, const struct query_env *env,
                   const struct wire_query *ask, struct errmsg *why)
{
    struct query q = {.kind = kind, .env = env, .ask = ask, .out = out, .why = why};
    enum err e;

    *out = (struct query_answer){0};
    arena_init(&out->memory, QUERY_MEMORY_MAX);
    assert(kind < QUERY_KINDS);
    e = runs[kind](&q);
    if (!e) {
        e = answer_finish(&q);
    }
    if (e == ERR_TIMEOUT) {
        return errmsg_set(why, e,
                          "the deadline passed while the answer was being computed: ask for a "
                          "shorter span or allow more time");
    }
    if (e == ERR_FULL) {
        return errmsg_set(why, e,
                          "the answer needs more working memory than a question may have: ask for "
                          "fewer processes or a shorter span");
    }
    return e;
}
