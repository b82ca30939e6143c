/* Answers from ClickHouse equal those of the local store, byte for byte but for where they were
 * read and for cursors. Each seed makes another fleet of chance (plain.h: late and lost batches,
 * holes, absent metrics, pids used again, a host that starts anew), puts it into a store and, as
 * rows, into a database of its own; every kind of question is asked of the store, of ClickHouse
 * alone and of both joined, the store having lost the samples of its oldest windows.
 *
 *   samples   of three seeds in four; else windows are multiples of 10 s: what cells can tell
 *   twice     of each third seed some batches are sent again by another collector
 *   tiers     of three seeds in five minutes and hours are made, and read where no border cuts them
 *
 * Needs a server: --url, or PROCFLEET_CLICKHOUSE_URL. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_fold.h"
#include "collector/clickhouse/ch_join.h"
#include "collector/clickhouse/ch_migrate.h"
#include "collector/clickhouse/ch_rows.h"
#include "collector/clickhouse/ch_view.h"
#include "collector/query/query.h"
#include "collector/store/read/store_view.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/conf/opt.h"
#include "common/wire/wire_lifetimes.h"
#include "common/wire/wire_overview.h"
#include "tests/collector/query/plain.h"
#include "tests/support/ch_fill.h"

#define TICKS     240 /* 20 minutes of 5 s */
#define QUESTIONS 6   /* of each seed and view, of each kind that takes a window */
#define SKIPPED   77
#define STREAMS   64 /* of a fleet */

struct fleet {
    uint64_t seed;
    struct ch_http *http;
    char database[32];
    struct ch_rows *rows, *again;
    bool samples, tiers;
    struct plain *p;
    struct lab *l;
    size_t n_stored;
    struct {
        struct uuid host;
        uint64_t stream, seq; /* the lowest */
    } first[STREAMS];
    size_t n_first;
};

static unsigned long answers, differences;
static unsigned long tiers_read, tiers_due; /* pieces of time read from them; seeds with them */

/* -- filling -- */

static void note_first(struct fleet *f, const struct batch_head *head)
{
    size_t i = 0;

    while (i < f->n_first && (f->first[i].stream != head->stream ||
                              memcmp(&f->first[i].host, &head->host, sizeof head->host) != 0)) {
        i++;
    }
    assert(i < STREAMS);
    if (i == f->n_first) {
        f->n_first++;
        f->first[i].host = head->host;
        f->first[i].stream = head->stream;
        f->first[i].seq = head->seq;
    }
    f->first[i].seq = head->seq < f->first[i].seq ? head->seq : f->first[i].seq;
}

static void on_stored(void *ctx, const struct store_stored *s)
{
    static const struct host_offset unknown;
    struct fleet *f = ctx;
    const struct ch_rows_batch b = {.rest = s->batch,
                                    .rows = s->batch,
                                    .clock = &unknown,
                                    .received_ns = s->received_ns,
                                    .host_name = s->host_name,
                                    .samples = f->samples};

    ch_fill_check(ch_rows_add(f->rows, &b), "ch_rows_add", NULL);
    if (f->seed % 3 == 0 && f->n_stored % 20 == 0) {
        ch_fill_check(ch_rows_add(f->again, &b), "ch_rows_add", NULL);
    }
    note_first(f, &s->batch->head);
    f->n_stored++;
}

/* Minutes and hours of all that is there; twice: what is as it should be is not made again. */
static void tiers_make(struct fleet *f)
{
    int64_t first_ns, last_ns;
    size_t hosts, made = 0, again = 0;
    struct errmsg why = {""};

    plain_span(f->p, &first_ns, &last_ns);
    for (unsigned round = 0; round < 2; round++) {
        for (int64_t at = first_ns - first_ns % CH_FOLD_HOUR_NS; at <= last_ns;
             at += CH_FOLD_HOUR_NS) {
            const struct ch_fold_ask ask = {
                .database = f->database, .hour_ns = at, .now_ns = LAB_NS(100000 + round)};

            ch_fill_check(ch_fold_hour(f->http, &ask, &hosts, &why), "ch_fold_hour", &why);
            *(round ? &again : &made) += hosts;
        }
    }
    if (!made || again) {
        fprintf(stderr, "test_ch_equal: %zu hours of hosts were made, %zu again\n", made, again);
        exit(1);
    }
}

static void fleet_make(struct fleet *f, uint64_t seed, const char *url)
{
    double now_s;

    *f = (struct fleet){.seed = seed, .samples = seed % 4 != 3, .tiers = seed % 5 < 3};
    (void)snprintf(f->database, sizeof f->database, "equal_%u", (unsigned)seed);
    f->http = ch_fill_open(url, f->database);
    ch_fill_make(f->http, f->database);
    ch_fill_check(ch_rows_create(&f->rows, "a"), "ch_rows_create", NULL);
    ch_fill_check(ch_rows_create(&f->again, "b"), "ch_rows_create", NULL);
    f->l = lab_open(on_stored, f);
    f->p = plain_make(seed, TICKS, seed % 2 == 0);
    while (plain_put(f->p, f->l, &now_s)) {
        if (plain_random(f->p, 40) == 0) {
            ch_fill_check(store_seal_now(lab_store(f->l), LAB_NS(now_s - 400)), "seal", NULL);
        }
    }
    ch_fill_rows(f->http, f->rows, false);
    if (ch_rows_batches(f->again)) {
        ch_fill_rows(f->http, f->again, true);
    }
    if (f->tiers) {
        tiers_make(f);
        tiers_due++;
    }
}

static void fleet_end(struct fleet *f)
{
    ch_fill_drop(f->http, f->database);
    ch_http_close(f->http);
    ch_rows_destroy(f->rows);
    ch_rows_destroy(f->again);
    plain_free(f->p);
    lab_close(f->l);
}

/* -- asking -- */

static enum err far_ask(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                        struct errmsg *why)
{
    struct fleet *f = ctx;
    enum err e = ch_http_ask(f->http, sql, timeout_ns, reply, why);

    if (e) {
        fprintf(stderr, "%s\n%s\n", why->text, sql);
    }
    return e;
}

static int text_order(struct str a, struct str b)
{
    int d = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

    return d ? d : (a.n > b.n) - (a.n < b.n);
}

/* Names of lifetimes stand in the order in which they were met. */
static void names_sort(struct wire_lifetimes *l, struct arena *memory)
{
    struct str *names = arena_dup(memory, l->names, l->n_names * sizeof *names);
    uint32_t *columns[] = {(uint32_t *)l->name, (uint32_t *)l->user}, *place;

    place = arena_array(memory, l->n_names + 1, sizeof *place);
    assert(names && place);
    for (size_t i = 0; i < l->n_names; i++) {
        for (size_t k = 0; k < l->n_names; k++) {
            place[i] += text_order(l->names[k], l->names[i]) < 0;
        }
    }
    for (size_t i = 0; i < l->n_names; i++) {
        names[place[i]] = l->names[i];
    }
    for (size_t c = 0; c < 2; c++) {
        for (size_t i = 0; i < l->n; i++) {
            columns[c][i] = place[columns[c][i]];
        }
    }
    for (size_t i = 0; i < l->n_images; i++) {
        ((struct wire_lifetimes_image *)l->images)[i].name = place[l->images[i].name];
    }
    l->names = names;
}

static bool is_note(struct str note, const char *begin)
{
    return note.n >= strlen(begin) && memcmp(note.p, begin, strlen(begin)) == 0;
}

/* Of a stream whose first batches were lost ClickHouse does not know that they were ever made: they
 * may have been deleted there. */
static bool begins_late(const struct fleet *f, const struct uuid *host) /* NULL: any */
{
    bool late = false;

    for (size_t i = 0; i < f->n_first; i++) {
        late = late || (f->first[i].seq > 1 &&
                        (!host || memcmp(&f->first[i].host, host, sizeof *host) == 0));
    }
    return late;
}

/* What the two views need not have in common. */
static void neutral(const struct fleet *f, struct query_answer *a)
{
    struct wire_answer *d = &a->data;
    struct str *notes = (struct str *)d->notes;
    size_t n = 0;

    d->n_used = 0;
    if (d->lifetimes) {
        names_sort((struct wire_lifetimes *)d->lifetimes, &a->memory);
    }
    for (size_t i = 0; i < d->n_notes; i++) {
        if (!is_note(notes[i], "read from windows") && !is_note(notes[i], "samples are gone")) {
            notes[n++] = notes[i];
        }
    }
    d->n_notes = n;
    if (d->overview && begins_late(f, NULL)) {
        ((struct wire_overview *)d->overview)->gaps = 0;
    }
    for (size_t i = 0; i < a->data.n_hosts; i++) { /* arrivals are the collector's own to count */
        struct wire_host *h = (struct wire_host *)&a->data.hosts[i];

        h->duplicates = 0;
        h->gaps = begins_late(f, &h->id) ? 0 : h->gaps;
    }
}

/* *read: what was read from minutes and hours is added; NULL: nobody asks. */
static enum err answer(const struct fleet *f, struct buf *out, const struct store_view *v,
                       enum query_kind kind, const struct wire_query *q, unsigned long *read)
{
    struct query_env env = {.view = v, .now_ns = LAB_NS(1000)};
    struct errmsg why = {""};
    struct query_answer a;
    enum err e = query_run(&a, kind, &env, q, &why);

    if (e) {
        buf_printf(out, "%s: %s", err_name(e), why.text);
        return ERR_OK;
    }
    if (read) {
        *read += a.data.used[STORE_1MIN] + a.data.used[STORE_1H];
    }
    neutral(f, &a);
    e = wire_answer_encode(out, &a.data);
    query_answer_fini(&a);
    return e;
}

static const char *const kind_names[] = {
#define NAME(kind, name) #name,
    QUERY_LIST(NAME)
#undef NAME
};

static void compare(struct fleet *f, const struct store_view *near, const struct store_view *other,
                    const char *which, enum query_kind kind, const struct wire_query *q)
{
    struct buf want, got;

    buf_init(&want, QUERY_REPLY_MAX);
    buf_init(&got, QUERY_REPLY_MAX);
    ch_fill_check(answer(f, &want, near, kind, q, NULL), "answer", NULL);
    ch_fill_check(answer(f, &got, other, kind, q, strcmp(which, "far") ? NULL : &tiers_read),
                  "answer", NULL);
    answers++;
    if (want.n != got.n || memcmp(want.p, got.p, want.n) != 0) {
        differences++;
        printf(
            "seed %u, %s, %s: [%.3f, %.3f) metric %u of %u by %u group %u pid %u step %d at %.3f: "
            "%zu bytes instead of %zu\n",
            (unsigned)f->seed, which, kind_names[kind], (double)(q->since_ns - LAB_EPOCH_NS) / 1e9,
            (double)(q->until_ns - LAB_EPOCH_NS) / 1e9, q->metrics[0], q->n_metrics, q->by,
            q->group_by, q->has_pid ? (unsigned)q->pid : 0, (int)(q->step_ns / CLK_S),
            (double)(q->at_ns - LAB_EPOCH_NS) / 1e9, got.n, want.n);
    }
    buf_fini(&want);
    buf_fini(&got);
}

static struct wire_query window(struct fleet *f)
{
    int64_t first, last, align = f->samples ? 1 : 10 * CLK_S;
    struct wire_query q = {.limit = 1 + (uint32_t)plain_random(f->p, WIRE_ROWS_MAX)};
    uint64_t span;

    plain_span(f->p, &first, &last);
    span = (uint64_t)(last - first + 20 * CLK_S);
    q.since_ns = first - 10 * CLK_S + (int64_t)plain_random(f->p, span);
    q.until_ns = q.since_ns + 1 + (int64_t)plain_random(f->p, span);
    if (f->tiers && plain_random(f->p, 3)) {
        align = (plain_random(f->p, 2) ? 60 : 3600) * CLK_S;
    }
    q.since_ns -= q.since_ns % align;
    q.until_ns += align - q.until_ns % align;
    return q;
}

/* Of a host without a sample in the window Lifetimes tells what is known, or nothing, as its
 * batches before the window were read or not: each host has some here. */
static void window_widen(const struct store_view *near, struct wire_query *q)
{
    for (size_t i = 0; i < store_view_hosts(near); i++) {
        const struct store_host *h = store_view_host(near, i);

        q->since_ns = h->last_ns - 10 * CLK_S < q->since_ns ? h->last_ns - 10 * CLK_S : q->since_ns;
        q->until_ns = h->first_ns >= q->until_ns ? h->first_ns + 10 * CLK_S : q->until_ns;
    }
    q->since_ns -= q->since_ns % (10 * CLK_S);
    q->until_ns += 10 * CLK_S - q->until_ns % (10 * CLK_S);
}

/* A question of chance. */
static struct wire_query question(struct fleet *f, const struct store_view *near,
                                  enum query_kind kind)
{
    static const int64_t steps[] = {0, 1, 7, 10, 20, 60, 300};
    struct wire_query q = window(f);
    bool counter;

    if (kind == QUERY_TOP || kind == QUERY_HISTORY || kind == QUERY_SERIES ||
        kind == QUERY_PROCESSES || kind == QUERY_TREE) {
        q.n_metrics = (uint8_t)(1 + plain_random(f->p, 2));
        q.metrics[0] = plain_metrics[plain_random(f->p, PLAIN_METRICS)];
        q.metrics[1] = q.n_metrics > 1 ? M_CPU_PERCENT : 0;
    }
    if (kind == QUERY_TOP) {
        counter = metric_by_id(q.metrics[0])->kind == METRIC_COUNTER;
        do {
            q.by = (uint8_t)plain_random(f->p, WIRE_BY_AVG + 1);
        } while (!counter && q.by == WIRE_BY_RATE);
        if (counter && q.by == WIRE_BY_MAX && f->seed % 2 == 0) {
            q.by = WIRE_BY_SUM; /* what lies between the samples of a hole depends on the order */
        }
        q.group_by = (uint8_t)plain_random(f->p, WIRE_GROUP_HOST + 1);
    }
    if (kind == QUERY_HISTORY) {
        do {
            q.step_ns = steps[plain_random(f->p, sizeof steps / sizeof *steps)] * CLK_S;
        } while (!f->samples && (q.step_ns == 0 || q.step_ns % (10 * CLK_S) != 0));
        q.has_pid = true;
        q.pid = plain_pid(f->p);
    }
    if (kind == QUERY_SERIES) {
        q.step_ns = 10 * CLK_S * (1 + (int64_t)plain_random(f->p, 12));
        q.envelope = plain_random(f->p, 2);
    }
    if (kind == QUERY_TREE && f->samples && plain_random(f->p, 2)) {
        q.at_ns = q.since_ns + (q.until_ns - q.since_ns) / 2;
    }
    if (kind == QUERY_LIFETIMES) {
        window_widen(near, &q);
    }
    q.exited = kind == QUERY_PROCESSES && plain_random(f->p, 2);
    q.stages = kind == QUERY_COVERAGE && plain_random(f->p, 2);
    return q;
}

static void ask_all(struct fleet *f, const struct store_view *near, const struct store_view *other,
                    const char *which)
{
    for (unsigned i = 0; i < QUESTIONS; i++) {
        for (unsigned kind = 0; kind < QUERY_KINDS; kind++) {
            struct wire_query q = question(f, near, (enum query_kind)kind);

            if (kind == QUERY_PULSE || ((kind == QUERY_HOSTS || kind == QUERY_OVERVIEW) && i)) {
                continue; /* the pulse is each collector's memory; hosts have no window */
            }
            compare(f, near, other, which, (enum query_kind)kind, &q);
        }
    }
}

static struct store_view *far_open(struct fleet *f)
{
    struct store_view *far = NULL;
    struct errmsg why = {""};

    ch_fill_check(ch_view_open(&far,
                               &(struct ch_view_conf){.ask = far_ask,
                                                      .ctx = f,
                                                      .dialect = ch_http_dialect(f->http),
                                                      .database = f->database,
                                                      .tiers_least_ns = f->tiers},
                               &why),
                  "ch_view_open", &why);
    return far;
}

/* The samples of the oldest windows go, up to one of chance. */
static void drop_oldest(struct fleet *f)
{
    struct manifest *m = lab_store(f->l)->manifest;
    struct manifest_list *l = manifest_view(m);
    size_t n = manifest_segments(l), n_drop = 0;
    uint64_t *numbers = mem_array(n + 1, sizeof *numbers);
    int64_t first_ns, last_ns, until_ns;
    struct errmsg why = {""};

    assert(numbers);
    plain_span(f->p, &first_ns, &last_ns);
    until_ns = first_ns + (int64_t)plain_random(f->p, (uint64_t)(last_ns - first_ns));
    for (size_t i = 0; i < n; i++) {
        const struct seg_info *info = manifest_segment(l, i);

        if (info->kind == SEG_RAW &&
            info->window_ns + (int64_t)info->n_windows * WINDOW_NS <= until_ns) {
            numbers[n_drop++] = info->number;
        }
    }
    ch_fill_check(manifest_change(m, NULL, 0, numbers, n_drop, &why), "manifest_change", &why);
    manifest_publish(m);
    manifest_list_release(l);
    mem_free(numbers);
}

static void seed_run(uint64_t seed, const char *url)
{
    struct store_view *far, *local, *joined;
    const struct store_view *near;
    struct fleet f;

    fleet_make(&f, seed, url);
    near = lab_view(f.l);
    far = far_open(&f);
    ask_all(&f, near, far, "far");
    store_view_close(far);
    ch_fill_check(store_seal_now(lab_store(f.l), INT64_MAX), "seal", NULL);
    near = lab_view(f.l);
    drop_oldest(&f);
    ch_fill_check(store_view_open(&local, lab_store(f.l)), "store_view_open", NULL);
    ch_fill_check(ch_join_open(&joined, local, far_open(&f)), "ch_join_open", NULL);
    ask_all(&f, near, joined, "joined");
    store_view_close(joined);
    fleet_end(&f);
}

static const struct opt options[] = {
    {"seeds", 0, "N", "so many fleets (10)", false},
    {"first", 0, "N", "the first seed (1)", false},
    {"url", 0, "URL", "of ClickHouse; else PROCFLEET_CLICKHOUSE_URL", false},
};

static const struct opt_command command = {
    .program = "test_ch_equal",
    .brief = "answers from ClickHouse beside those of the local store",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .examples = "  test_ch_equal --seeds 200 --url http://127.0.0.1:8123\n",
};

int main(int argc, char **argv)
{
    struct errmsg why = {""};
    struct opt_args *args;
    const char *url = getenv("PROCFLEET_CLICKHOUSE_URL"), *text;
    unsigned long seeds = 10, first = 1;

    if (opt_parse(&args, &command, argc - 1, argv + 1, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 2;
    }
    text = opt_value(args, "seeds");
    seeds = text ? strtoul(text, NULL, 10) : seeds;
    text = opt_value(args, "first");
    first = text ? strtoul(text, NULL, 10) : first;
    url = opt_value(args, "url") ? opt_value(args, "url") : url;
    if (!url || !url[0]) {
        printf("skipped: no ClickHouse: neither --url nor PROCFLEET_CLICKHOUSE_URL\n");
        return SKIPPED;
    }
    for (unsigned long seed = first; seed < first + seeds; seed++) {
        seed_run(seed, url);
    }
    printf("%lu differences in %lu answers\n", differences, answers);
    if (tiers_due) {
        printf("%lu pieces of time were minutes and hours\n", tiers_read);
    }
    opt_free(args);
    return differences || !answers || (tiers_due && !tiers_read);
}
