#include "common/wire/wire_query.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/model/event_values.h"
#include "common/wire/wire_boots.h"
#include "common/wire/wire_outliers.h"
#include "common/wire/wire_overview.h"
#include "common/wire/wire_providers.h"
#include "common/wire/wire_series.h"
#include "tests/support/t.h"

#define OUT_MAX (4u << 20)

static void assert_str(struct str a, struct str b)
{
    assert_int_equal(a.n, b.n);
    if (a.n) {
        assert_memory_equal(a.p, b.p, a.n);
    }
}

/* -- questions -- */

static struct wire_query question(void)
{
    return (struct wire_query){
        .host = str_make("web-*"),
        .since_ns = -1,
        .until_ns = INT64_MAX,
        .last_ns = 300000000000,
        .n_metrics = 3,
        .metrics = {M_CPU_TIME, M_CPU_PERCENT, M_DISK_WRITE_BYTES},
        .limit = 10,
        .idle = true,
        .exited = true,
        .has_pid = true,
        .start = UINT64_MAX,
        .name = str_make("größe*"),
        .kinds = 6,
        .step_ns = 1,
        .stages = true,
        .by = WIRE_BY_AVG,
        .group_by = WIRE_GROUP_TREE,
        .folded = true,
        .at_ns = INT64_MIN,
        .n_hosts = 2,
        .hosts = {{"lab-1", 5}, {"db-*", 4}},
        .n_labels = 2,
        .labels = {{{"rack", 4}, {"3*", 2}, false}, {{"a", 1}, {"", 0}, false}},
        .events.where = str_make("exit != 0"),
        .ids = {"0123456789abcde\0fedcba9876543210", 32},
        .ancestors = true,
        .cursor = {"a\0b", 3}};
}

static void assert_query(const struct wire_query *a, const struct wire_query *b)
{
    assert_str(a->host, b->host);
    assert_str(a->name, b->name);
    assert_str(a->cursor, b->cursor);
    assert_str(a->ids, b->ids);
    assert_true(a->since_ns == b->since_ns && a->until_ns == b->until_ns);
    assert_true(a->last_ns == b->last_ns && a->step_ns == b->step_ns);
    assert_int_equal(a->n_metrics, b->n_metrics);
    assert_memory_equal(a->metrics, b->metrics, sizeof a->metrics);
    assert_int_equal(a->limit, b->limit);
    assert_true(a->idle == b->idle && a->exited == b->exited && a->has_pid == b->has_pid);
    assert_true(a->pid == b->pid && a->start == b->start && a->kinds == b->kinds);
    assert_true(a->stages == b->stages && a->by == b->by && a->group_by == b->group_by);
    assert_true(a->folded == b->folded && a->at_ns == b->at_ns);
    assert_str(a->events.where, b->events.where);
    assert_true(a->n_hosts == b->n_hosts && a->n_labels == b->n_labels);
    assert_int_equal(a->ancestors, b->ancestors);
    for (size_t i = 0; i < a->n_hosts; i++) {
        assert_str(a->hosts[i], b->hosts[i]);
    }
    for (size_t i = 0; i < a->n_labels; i++) {
        assert_str(a->labels[i].key, b->labels[i].key);
        assert_str(a->labels[i].value, b->labels[i].value);
    }
}

static void questions_come_back_as_they_were(void **state)
{
    const struct wire_query in[] = {question(), {.limit = 0}};

    for (size_t i = 0; i < COUNT_OF(in); i++) {
        struct wire_query *out;
        struct buf b;

        buf_init(&b, OUT_MAX);
        assert_ok(wire_query_encode(&b, &in[i]));
        assert_ok(wire_query_decode(&out, b.p, b.n));
        assert_query(&in[i], out);
        wire_query_free(out);
        buf_fini(&b);
    }
}

static void questions_over_the_limits_are_refused(void **state)
{
    static char cursor[WIRE_CURSOR_MAX + 1];
    static uint8_t many[2 + WIRE_METRICS_MAX + 1] = {0x2a, WIRE_METRICS_MAX + 1};
    static uint8_t long_cursor[3 + WIRE_CURSOR_MAX + 1] = {0x72, 0x81, 0x02};
    static uint8_t many_ids[4 + 16 * (WIRE_IDS_MAX + 1)] = {0x8a, 2, 0x90, 0x10};
    static const uint8_t half_an_id[] = {0x8a, 2, 8, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t metric_256[] = {0x2a, 2, 0x80, 2};
    static const uint8_t last_too_long[] = {0x20, 0xff, 0xff, 0xff, 0xff, 0xff,
                                            0xff, 0xff, 0xff, 0xff, 1};
    struct wire_query in = question(), *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    in.cursor = (struct str){cursor, sizeof cursor};
    assert_err(wire_query_encode(&b, &in), ERR_INVALID);
    in = question();
    in.last_ns = -1;
    assert_err(wire_query_encode(&b, &in), ERR_INVALID);
    in = question();
    in.ids.n--;
    assert_err(wire_query_encode(&b, &in), ERR_INVALID);
    buf_fini(&b);
    assert_err(wire_query_decode(&out, many, sizeof many), ERR_FULL);
    assert_err(wire_query_decode(&out, long_cursor, sizeof long_cursor), ERR_FULL);
    assert_err(wire_query_decode(&out, many_ids, sizeof many_ids), ERR_FULL);
    assert_err(wire_query_decode(&out, half_an_id, sizeof half_an_id), ERR_CORRUPT);
    assert_err(wire_query_decode(&out, metric_256, sizeof metric_256), ERR_CORRUPT);
    assert_err(wire_query_decode(&out, last_too_long, sizeof last_too_long), ERR_CORRUPT);
    assert_err(wire_query_decode(&out, "\x0a\x01\x00", 3), ERR_CORRUPT); /* NUL in the host */
}

/* -- answers -- */

static const struct proc_info info = {.id = {7, 8},
                                      .have = INFO_PARENT | INFO_COMMAND_LINE_KNOWN,
                                      .origin = ORIGIN_RUNDOWN,
                                      .cpu_origin = CPU_ORIGIN_SAMPLES,
                                      .parent_pid = 1,
                                      .name = {"sh", 2},
                                      .image = {"/bin/sh", 7},
                                      .command_line = {"sh -c x", 7}};

static const int64_t row_values[][3] = {{1, 0, -3}, {INT64_MIN, INT64_MAX, 0}, {0, 0, 0}};

/* Ten buckets, two groups of three metrics: full, empty and one value, the last with its ends. */
static const struct wire_series_column series_columns[] = {
    {(uint8_t[]){0xff, 0x03}, (int64_t[]){0, 1, -1, INT64_MAX, INT64_MIN, 5, 6, 7, 8, 9}, NULL,
     NULL},
    {(uint8_t[]){0, 0}, (int64_t[10]){0}, NULL, NULL},
    {(uint8_t[]){0, 0x02}, (int64_t[10]){[9] = 5}, (int64_t[10]){[9] = -5}, (int64_t[10]){[9] = 7}},
    {(uint8_t[]){0, 0}, (int64_t[10]){0}, NULL, NULL},
    {(uint8_t[]){0x80, 0}, (int64_t[10]){[7] = 1}, NULL, NULL},
    {(uint8_t[]){0, 0}, (int64_t[10]){0}, NULL, NULL},
};
static const struct wire_series series = {
    .t0_ns = -5,
    .step_ns = INT64_MAX / 10,
    .n_buckets = 10,
    .hosts_asked = 3,
    .present = (const uint32_t[]){1000000, 999999, 0, 1, 2, 3, 4, 5, 6, UINT32_MAX},
    .hosts_in = (const uint32_t[10]){[3] = 2},
    .n_groups = 2,
    .columns = series_columns,
};

static const struct wire_overview overview = {
    .now_ns = 1,
    .hosts = 2,
    .connected = 3,
    .silent = 4,
    .ended = 5,
    .revoked = 24,
    .clones = 6,
    .processes = UINT64_MAX,
    .cpus = 7,
    .batches = 8,
    .gaps = 9,
    .lost_events = 10,
    .first_ns = INT64_MIN,
    .last_ns = INT64_MAX,
    .n_tiers = 2,
    .tiers = (const struct wire_tier_room[]){{{"raw", 3}, 1, 2, 3, 4, INT64_MAX, -6, 7, 8},
                                             {{"", 0}, 0, 0, 0, 0, 0, 0, 0, 0}},
    .head_bytes = 11,
    .log_bytes = 12,
    .catalogue_bytes = 13,
    .total_bytes = 14,
    .ceiling_bytes = 15,
    .disk_free = 16,
    .disk_total = 17,
    .refusing = true,
    .next_tier = 2,
    .next_window_ns = -18,
    .next_in_ns = 19,
    .sealed_windows = 20,
    .patches = 21,
    .seal_failures = 22,
    .sealed_ns = 23,
};

static struct wire_answer answer(void)
{
    static struct wire_host hosts[2];
    static struct wire_row rows[3];
    static const struct wire_trend trends[3] = {{-7, 1000}, {INT64_MAX, 0}, {0, 1}};
    static struct wire_event events[2];
    static struct str notes[2];
    static struct wire_coverage coverage[2];
    static const struct wire_loss_span spans[] = {{-1, 2, 3, UINT64_MAX}, {0, 0, 0, 0}};
    static struct wire_stage stages[2];

    hosts[0] = (struct wire_host){.name = str_make("web-1"),
                                  .source = str_make("proc"),
                                  .version = str_make("0.1"),
                                  .connected = true,
                                  .cpus = 4,
                                  .processes = 150,
                                  .first_ns = 1,
                                  .last_ns = INT64_MAX,
                                  .offset_ns = -5,
                                  .batches = UINT64_MAX,
                                  .gaps = 2};
    memset(&hosts[0].id, 9, sizeof hosts[0].id);
    hosts[1] = (struct wire_host){
        .polled = true, .replay = true, .ended = true, .duplicates = 1, .lost_events = 3};
    rows[0] = (struct wire_row){0, info, 1000, 5, 0, row_values[0], 0, 0, 0};
    rows[1] = (struct wire_row){0, info, 900, 3, 0, row_values[1], 7, UINT32_MAX, 1};
    rows[2] = (struct wire_row){1, info, INT64_MIN, 0, 0, row_values[2], UINT32_MAX, 1, 4095};
    rows[2].info.id.pid = 9;
    events[0] = (struct wire_event){
        .host = 1, .event = {.kind = LIFE_PROCESS_STOP, .wall_ns = 3, .mono_ns = 4, .info = info}};
    events[1] = (struct wire_event){.event = {.kind = LIFE_THREAD_START, .tid = 5}};
    notes[0] = str_make("");
    notes[1] = str_make("host web-2 ended");
    stages[0] = (struct wire_stage){
        str_make("source"), str_make("lost_events"), 4, 0, true, UINT64_MAX, -5, 5};
    stages[1] = (struct wire_stage){str_make(""), str_make("in"), 0, 255, false, 0, 0, 0};
    coverage[0] = (struct wire_coverage){1,  -9, 9, 999999, true, false, 0, 0,     true, false,
                                         10, 1,  2, 3,      4,    5,     2, spans, 2,    stages};
    coverage[1] = (struct wire_coverage){.missing = true, .has_events = true, .events_ppm = 7};
    return (struct wire_answer){.n_hosts = 2,
                                .hosts = hosts,
                                .n_metrics = 3,
                                .metrics = {M_CPU_TIME, M_PRIORITY, M_WORKING_SET_SIZE},
                                .n_rows = 3,
                                .rows = rows,
                                .trends = trends,
                                .n_events = 2,
                                .events = events,
                                .since_ns = -1,
                                .until_ns = 1,
                                .partial = true,
                                .n_notes = 2,
                                .notes = notes,
                                .n_coverage = 2,
                                .coverage = coverage,
                                .sum = {true, true, 999999, UINT64_MAX, 1},
                                .n_used = 6,
                                .used = {0, 1, UINT32_MAX, 0, 0, 5},
                                .damaged = 9,
                                .overview = &overview,
                                .series = &series};
}

static void assert_info(const struct proc_info *a, const struct proc_info *b)
{
    assert_true(proc_id_eq(a->id, b->id));
    assert_int_equal(a->have, b->have);
    assert_int_equal(a->origin, b->origin);
    assert_int_equal(a->cpu_origin, b->cpu_origin);
    assert_str(a->name, b->name);
    assert_str(a->image, b->image);
    assert_str(a->command_line, b->command_line);
}

static void assert_host(const struct wire_host *a, const struct wire_host *b)
{
    assert_memory_equal(&a->id, &b->id, sizeof a->id);
    assert_memory_equal(&a->boot, &b->boot, sizeof a->boot);
    assert_str(a->name, b->name);
    assert_str(a->source, b->source);
    assert_str(a->version, b->version);
    assert_true(a->connected == b->connected && a->polled == b->polled);
    assert_true(a->replay == b->replay && a->ended == b->ended);
    assert_true(a->cpus == b->cpus && a->processes == b->processes);
    assert_true(a->first_ns == b->first_ns && a->last_ns == b->last_ns);
    assert_true(a->offset_ns == b->offset_ns && a->batches == b->batches);
    assert_true(a->duplicates == b->duplicates && a->gaps == b->gaps);
    assert_true(a->lost_events == b->lost_events);
}

static void assert_rows(const struct wire_answer *a, const struct wire_answer *b)
{
    assert_int_equal(a->n_metrics, b->n_metrics);
    assert_memory_equal(a->metrics, b->metrics, a->n_metrics);
    assert_int_equal(a->n_rows, b->n_rows);
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct wire_row *x = &a->rows[i], *y = &b->rows[i];

        assert_int_equal(x->host, y->host);
        assert_info(&x->info, &y->info);
        assert_true(x->when_ns == y->when_ns && x->have == y->have);
        assert_true(x->instances == y->instances && x->hosts == y->hosts && x->depth == y->depth);
        for (size_t k = 0; k < a->n_metrics; k++) {
            assert_true(y->values[k] == (x->have >> k & 1 ? x->values[k] : 0));
        }
    }
}

static const struct wire_outlier_class classes[2] = {
    {{"a/b", 3}, {"cc1", 3}, UINT32_MAX, 7, INT64_MIN, 1}, {{"", 0}, {"", 0}, 0, 0, 0, 0}};
static const struct wire_outlier outlier[3] = {
    {1, 1, INT32_MIN, 6, {"x", 1}, -5, {"y=1", 3}}, {.class = 0}, {.z_milli = 5}};
static const struct wire_outliers outliers = {2, classes, outlier};

static void assert_outliers(const struct wire_answer *a, const struct wire_answer *b)
{
    assert_int_equal(a->outliers != NULL, b->outliers != NULL);
    if (!a->outliers) {
        return;
    }
    assert_int_equal(a->outliers->n_classes, b->outliers->n_classes);
    for (size_t i = 0; i < a->outliers->n_classes; i++) {
        const struct wire_outlier_class *x = &a->outliers->classes[i],
                                        *y = &b->outliers->classes[i];

        assert_str(x->name, y->name);
        assert_str(x->image, y->image);
        assert_true(x->hosts == y->hosts && x->not_judged == y->not_judged);
        assert_true(x->median == y->median && x->spread_ppm == y->spread_ppm);
    }
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct wire_outlier *x = &a->outliers->rows[i], *y = &b->outliers->rows[i];

        assert_str(x->most, y->most);
        assert_str(x->differs, y->differs);
        assert_true(x->class == y->class && x->times_milli == y->times_milli);
        assert_true(x->z_milli == y->z_milli && x->parts == y->parts);
        assert_true(x->most_value == y->most_value);
    }
}

static const struct wire_boot boot_list[2] = {{0, {{1}}, 0, -5, INT64_MAX, WIRE_BOOT_CUT},
                                              {1, {{2}}, 7, 8, 9, WIRE_BOOT_GOES_ON}};
static const struct wire_boots boots = {2, boot_list};

static void assert_boots(const struct wire_answer *a, const struct wire_answer *b)
{
    assert_int_equal(a->boots != NULL, b->boots != NULL);
    for (size_t i = 0; a->boots && i < a->boots->n; i++) {
        const struct wire_boot *x = &a->boots->list[i], *y = &b->boots->list[i];

        assert_true(x->host == y->host && x->end == y->end && x->booted_ns == y->booted_ns);
        assert_true(x->first_ns == y->first_ns && x->last_ns == y->last_ns);
        assert_memory_equal(x->boot.b, y->boot.b, sizeof x->boot.b);
    }
}

static void assert_coverage(const struct wire_coverage *a, const struct wire_coverage *b)
{
    assert_true(a->host == b->host && a->since_ns == b->since_ns && a->until_ns == b->until_ns);
    assert_true(a->ppm == b->ppm && a->has_ticks == b->has_ticks && a->has_events == b->has_events);
    assert_true(a->ticks_ppm == b->ticks_ppm && a->events_ppm == b->events_ppm);
    assert_true(a->at_most == b->at_most && a->missing == b->missing);
    assert_true(a->ticks == b->ticks && a->lost_ticks == b->lost_ticks);
    assert_true(a->events == b->events && a->lost_events == b->lost_events);
    assert_true(a->lost_rows == b->lost_rows && a->missing_batches == b->missing_batches);
    assert_int_equal(a->n_spans, b->n_spans);
    for (size_t i = 0; i < a->n_spans; i++) {
        assert_memory_equal(&a->spans[i], &b->spans[i], sizeof a->spans[i]);
    }
    assert_int_equal(a->n_stages, b->n_stages);
    for (size_t i = 0; i < a->n_stages; i++) {
        const struct wire_stage *x = &a->stages[i], *y = &b->stages[i];

        assert_str(x->stage, y->stage);
        assert_str(x->reason, y->reason);
        assert_true(x->role == y->role && x->unit == y->unit && x->loss == y->loss);
        assert_true(x->count == y->count && x->first_ns == y->first_ns && x->last_ns == y->last_ns);
    }
}

static void assert_tier_room(const struct wire_tier_room *a, const struct wire_tier_room *b)
{
    assert_str(a->name, b->name);
    assert_true(a->files == b->files && a->bytes == b->bytes && a->values == b->values);
    assert_true(a->share_bytes == b->share_bytes && a->age_ns == b->age_ns);
    assert_true(a->oldest_ns == b->oldest_ns && a->dropped_age == b->dropped_age);
    assert_true(a->dropped_bytes == b->dropped_bytes);
}

static void assert_overview(const struct wire_overview *a, const struct wire_overview *b)
{
    assert_true(a->now_ns == b->now_ns && a->hosts == b->hosts && a->connected == b->connected);
    assert_true(a->silent == b->silent && a->ended == b->ended && a->clones == b->clones);
    assert_true(a->processes == b->processes && a->cpus == b->cpus && a->batches == b->batches);
    assert_true(a->gaps == b->gaps && a->lost_events == b->lost_events);
    assert_true(a->first_ns == b->first_ns && a->last_ns == b->last_ns);
    assert_int_equal(a->n_tiers, b->n_tiers);
    for (size_t i = 0; i < a->n_tiers; i++) {
        assert_tier_room(&a->tiers[i], &b->tiers[i]);
    }
    assert_true(a->head_bytes == b->head_bytes && a->log_bytes == b->log_bytes);
    assert_true(a->catalogue_bytes == b->catalogue_bytes && a->total_bytes == b->total_bytes);
    assert_true(a->ceiling_bytes == b->ceiling_bytes && a->disk_free == b->disk_free);
    assert_true(a->disk_total == b->disk_total && a->refusing == b->refusing);
    assert_true(a->next_tier == b->next_tier && a->next_window_ns == b->next_window_ns);
    assert_true(a->next_in_ns == b->next_in_ns && a->sealed_windows == b->sealed_windows);
    assert_true(a->patches == b->patches && a->seal_failures == b->seal_failures);
    assert_true(a->sealed_ns == b->sealed_ns && a->revoked == b->revoked);
}

static void assert_series(const struct wire_series *a, const struct wire_series *b,
                          size_t n_metrics)
{
    assert_true(a->t0_ns == b->t0_ns && a->step_ns == b->step_ns);
    assert_int_equal(a->n_buckets, b->n_buckets);
    assert_int_equal(a->hosts_asked, b->hosts_asked);
    assert_memory_equal(a->present, b->present, a->n_buckets * sizeof *a->present);
    assert_memory_equal(a->hosts_in, b->hosts_in, a->n_buckets * sizeof *a->hosts_in);
    assert_int_equal(a->n_groups, b->n_groups);
    for (size_t i = 0; i < a->n_groups * n_metrics; i++) {
        const struct wire_series_column *x = &a->columns[i], *y = &b->columns[i];

        for (uint32_t k = 0; k < a->n_buckets; k++) {
            assert_int_equal(wire_series_has(x, k), wire_series_has(y, k));
            assert_true(!wire_series_has(x, k) || x->avg[k] == y->avg[k]);
            assert_true(!wire_series_has(x, k) || !x->min ||
                        (x->min[k] == y->min[k] && x->max[k] == y->max[k]));
        }
        assert_int_equal(x->min != NULL, y->min != NULL);
    }
}

static void assert_answer(const struct wire_answer *a, const struct wire_answer *b)
{
    assert_int_equal(a->n_hosts, b->n_hosts);
    for (size_t i = 0; i < a->n_hosts; i++) {
        assert_host(&a->hosts[i], &b->hosts[i]);
    }
    assert_rows(a, b);
    for (size_t i = 0; a->trends && b->trends && i < a->n_rows; i++) {
        assert_true(a->trends[i].per_hour == b->trends[i].per_hour);
        assert_int_equal(a->trends[i].steady_permille, b->trends[i].steady_permille);
    }
    assert_int_equal(a->n_events, b->n_events);
    for (size_t i = 0; i < a->n_events; i++) {
        assert_int_equal(a->events[i].host, b->events[i].host);
        assert_int_equal(a->events[i].event.kind, b->events[i].event.kind);
        assert_true(a->events[i].event.wall_ns == b->events[i].event.wall_ns);
        assert_int_equal(a->events[i].event.tid, b->events[i].event.tid);
        assert_info(&a->events[i].event.info, &b->events[i].event.info);
    }
    assert_true(a->since_ns == b->since_ns && a->until_ns == b->until_ns);
    assert_int_equal(a->partial, b->partial);
    assert_int_equal(a->n_notes, b->n_notes);
    for (size_t i = 0; i < a->n_notes; i++) {
        assert_str(a->notes[i], b->notes[i]);
    }
    assert_int_equal(a->n_coverage, b->n_coverage);
    for (size_t i = 0; i < a->n_coverage; i++) {
        assert_coverage(&a->coverage[i], &b->coverage[i]);
    }
    assert_true(a->sum.known == b->sum.known && a->sum.at_most == b->sum.at_most);
    assert_true(a->sum.ppm == b->sum.ppm && a->sum.lost_ticks == b->sum.lost_ticks);
    assert_true(a->sum.lost_events == b->sum.lost_events);
    assert_outliers(a, b);
    assert_boots(a, b);
    assert_int_equal(a->n_used, b->n_used);
    assert_memory_equal(a->used, b->used, sizeof a->used);
    assert_int_equal(a->damaged, b->damaged);
    assert_int_equal(a->overview != NULL, b->overview != NULL);
    if (a->overview) {
        assert_overview(a->overview, b->overview);
    }
    assert_int_equal(a->series != NULL, b->series != NULL);
    if (a->series) {
        assert_series(a->series, b->series, a->n_metrics);
    }
}

static void answers_come_back_as_they_were(void **state)
{
    struct wire_answer in[] = {answer(), {.n_hosts = 0}};

    in[0].outliers = &outliers;
    in[0].boots = &boots;
    for (size_t i = 0; i < COUNT_OF(in); i++) {
        struct wire_answer *out;
        struct buf b;

        buf_init(&b, OUT_MAX);
        assert_ok(wire_answer_encode(&b, &in[i]));
        assert_ok(wire_answer_decode(&out, b.p, b.n));
        assert_answer(&in[i], out);
        assert_int_equal(out->trends != NULL, in[i].trends != NULL);
        wire_answer_free(out);
        buf_fini(&b);
    }
}

static void rows_of_one_instance_carry_its_text_once(void **state)
{
    static struct wire_row rows[WIRE_ROWS_MAX];
    static const int64_t value = 5;
    struct wire_answer in = {.n_hosts = 1, .n_metrics = 1, .n_rows = WIRE_ROWS_MAX, .rows = rows};
    static const struct wire_host host;
    struct wire_answer *out;
    struct buf b;

    for (size_t i = 0; i < WIRE_ROWS_MAX; i++) {
        rows[i] = (struct wire_row){
            .info = info, .when_ns = (int64_t)i * 1000000000, .have = 1, .values = &value};
    }
    in.hosts = &host;
    in.metrics[0] = M_CPU_TIME;
    buf_init(&b, OUT_MAX);
    assert_ok(wire_answer_encode(&b, &in));
    assert_true(b.n < 16 * WIRE_ROWS_MAX);
    assert_ok(wire_answer_decode(&out, b.p, b.n)); /* the largest answer fits the budget */
    assert_answer(&in, out);
    wire_answer_free(out);
    buf_fini(&b);
}

static void wrong_answers_are_not_encoded(void **state)
{
    struct wire_answer in = answer();
    struct wire_row row = in.rows[0];
    struct wire_event event = in.events[0];
    struct wire_overview room = overview;
    struct wire_series s = series;
    struct buf b;

    buf_init(&b, OUT_MAX);
    row.host = event.host = 2;
    in.rows = &row;
    in.n_rows = 1;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    in = answer();
    in.events = &event;
    in.n_events = 1;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    in = answer();
    in.n_rows = WIRE_ROWS_MAX + 1;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    in = answer();
    in.n_used = WIRE_USED_MAX + 1;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    in = answer();
    room.next_tier = 3; /* of 2 */
    in.overview = &room;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    in = answer();
    in.series = &s;
    s.n_groups = in.n_rows + 2;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    s.n_groups = 1;
    s.n_buckets = WIRE_BUCKETS_MAX + 1;
    assert_err(wire_answer_encode(&b, &in), ERR_INVALID);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
}

static void indices_and_counts_from_outside_are_checked(void **state)
{
    static const struct {
        uint8_t bytes[24];
        size_t n;
        enum err want;
    } cases[] = {
        {{0x0a, 0, 0x1a, 0, 0x22, 0}, 6, ERR_OK},                  /* host, info, row */
        {{0x1a, 0, 0x22, 0}, 4, ERR_CORRUPT},                      /* row without a host */
        {{0x0a, 0, 0x22, 0}, 4, ERR_CORRUPT},                      /* without an info */
        {{0x0a, 0, 0x1a, 0, 0x22, 2, 0x08, 1}, 8, ERR_CORRUPT},    /* host 1 of 1 */
        {{0x0a, 0, 0x1a, 0, 0x22, 2, 0x10, 1}, 8, ERR_CORRUPT},    /* info 1 of 1 */
        {{0x0a, 0, 0x1a, 0, 0x22, 2, 0x20, 1}, 8, ERR_CORRUPT},    /* bit without metric */
        {{0x0a, 0, 0x1a, 0, 0x22, 3, 0x2a, 1, 2}, 9, ERR_CORRUPT}, /* value without bit */
        {{0x0a, 0, 0x12, 1, 9, 0x1a, 0, 0x22, 2, 0x20, 1}, 11, ERR_CORRUPT}, /* bit, no value */
        {{0x0a, 0, 0x12, 1, 9, 0x1a, 0, 0x22, 5, 0x20, 1, 0x2a, 1, 2}, 14, ERR_OK},
        {{0x0a, 0, 0x2a, 0}, 4, ERR_CORRUPT},              /* event without a kind */
        {{0x0a, 0, 0x2a, 4, 0x12, 2, 0x08, 1}, 8, ERR_OK}, /* with one */
        {{0x2a, 4, 0x12, 2, 0x08, 1}, 6, ERR_CORRUPT},     /* without a host */
        {{0x4a, 1, 0xff}, 3, ERR_CORRUPT},                 /* a note that is no UTF-8 */
        {{0x0a, 2, 0x0a, 0}, 4, ERR_CORRUPT},              /* a host id of 0 bytes */
        {{0x52, 0}, 2, ERR_CORRUPT},                       /* coverage without a host */
        {{0x0a, 0, 0x52, 0}, 4, ERR_OK},
        {{0x0a, 0, 0x52, 6, 0x82, 1, 3, 0x20, 0x80, 2}, 10, ERR_CORRUPT}, /* role 256 */
        {{0x0a, 0, 0x52, 6, 0x82, 1, 3, 0x0a, 1, 0xff}, 10, ERR_CORRUPT}, /* stage no UTF-8 */
        {{0x6a, 0}, 2, ERR_OK},                                           /* an overview */
        {{0x6a, 3, 0xb8, 1, 1}, 5, ERR_CORRUPT},                          /* next_tier 1 of none */
        {{0x6a, 5, 0x72, 3, 0x0a, 1, 0xff}, 7, ERR_CORRUPT},
        {{0x7a, 0}, 2, ERR_OK},                           /* series of no buckets */
        {{0x7a, 3, 0x22, 1, 5}, 5, ERR_CORRUPT},          /* present without hosts_in */
        {{0x7a, 6, 0x22, 1, 5, 0x2a, 1, 1}, 8, ERR_OK},   /* a bucket */
        {{0x7a, 4, 0x32, 0, 0x32, 0}, 6, ERR_FULL},       /* more groups than rows + 1 */
        {{0x7a, 4, 0x32, 2, 0x0a, 0}, 6, ERR_CORRUPT},    /* a column, but no metric */
        {{0x12, 1, 9, 0x7a, 2, 0x32, 0}, 7, ERR_CORRUPT}, /* a metric, but no column */
        {{0x12, 1, 9, 0x7a, 4, 0x32, 2, 0x0a, 0}, 9, ERR_OK},
        /* two buckets of 2^62 ns do not fit */
        {{0x7a, 18,   0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
          0x80, 0x40, 0x22, 2,    5,    5,    0x2a, 2,    1,    1},
         20,
         ERR_CORRUPT},
        /* one bucket: `have` of two bytes; a bit without a value; a value without a bit; no max */
        {{0x12, 1, 9, 0x7a, 14, 0x22, 1, 5, 0x2a, 1, 1, 0x32, 6, 0x0a, 4, 0x0a, 2, 1, 0},
         19,
         ERR_CORRUPT},
        {{0x12, 1, 9, 0x7a, 13, 0x22, 1, 5, 0x2a, 1, 1, 0x32, 5, 0x0a, 3, 0x0a, 1, 1},
         18,
         ERR_CORRUPT},
        {{0x12, 1, 9, 0x7a, 13, 0x22, 1, 5, 0x2a, 1, 1, 0x32, 5, 0x0a, 3, 0x12, 1, 1},
         18,
         ERR_CORRUPT},
        {{0x12, 1, 9, 0x7a, 16, 0x22, 1, 5, 0x2a, 1, 1, 0x32, 8, 0x0a, 6, 0x0a, 1, 1, 0x12, 1, 1},
         21,
         ERR_OK},
        {{0x12, 1,    9, 0x7a, 19, 0x22, 1,    5, 0x2a, 1,    1, 0x32,
          11,   0x0a, 9, 0x0a, 1,  1,    0x12, 1, 1,    0x1a, 1, 1},
         24,
         ERR_CORRUPT},
        {{0x5a, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 19, ERR_FULL}, /* used */
    };
    struct wire_answer *out;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        enum err e = wire_answer_decode(&out, cases[i].bytes, cases[i].n);

        assert_err(e, cases[i].want);
        if (!e) {
            wire_answer_free(out);
        }
    }
}

static void amplified_answers_meet_limits_and_budget(void **state)
{
    static const uint8_t tags[] = {0x0a, 0x1a, 0x22, 0x2a, 0x4a, 0x52};
    static uint8_t many[2 << 20];
    long live = mem_live();
    struct wire_answer *out;

    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        for (size_t k = 0; k < sizeof many; k += 2) {
            many[k] = tags[i];
            many[k + 1] = 0;
        }
        assert_err(wire_answer_decode(&out, many, 2 * (WIRE_ROWS_MAX + 1)), ERR_FULL);
        assert_err(wire_answer_decode(&out, many, sizeof many), ERR_FULL);
    }
    assert_int_equal(mem_live(), live);
}

/* -- updates and server info -- */

static void many_of_the_smallest_events_come_back(void **state)
{
    static struct wire_event events[WIRE_ROWS_MAX];
    struct wire_host host = {.name = str_make("x")};
    struct wire_update *out,
        in = {.name = str_make("x"),
              .data = {.n_hosts = 1, .hosts = &host, .n_events = WIRE_ROWS_MAX, .events = events}};
    struct buf b;

    for (size_t i = 0; i < WIRE_ROWS_MAX; i++) {
        events[i].event.kind = LIFE_PROCESS_STOP;
    }
    buf_init(&b, 1u << 20);
    assert_ok(wire_update_encode(&b, &in));
    assert_ok(wire_update_decode(&out, b.p, b.n));
    assert_int_equal(out->data.n_events, WIRE_ROWS_MAX);
    wire_update_free(out);
    buf_fini(&b);
}

static void updates_come_back_as_they_were(void **state)
{
    struct wire_update in = {.host = {{1, 2, 3}}, .name = str_make("web-1"), .data = answer()};
    struct wire_update *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_update_encode(&b, &in));
    assert_ok(wire_update_decode(&out, b.p, b.n));
    assert_memory_equal(&out->host, &in.host, sizeof in.host);
    assert_str(out->name, in.name);
    in.data.series = NULL; /* answers have them, updates do not */
    assert_answer(&in.data, &out->data);
    wire_update_free(out);
    buf_fini(&b);
}

static struct wire_server_info server_info(void)
{
    struct wire_server_info m = {.version = "0.1",
                                 .now_ns = 1,
                                 .epoch = UINT64_MAX,
                                 .max_request = 65536,
                                 .max_reply = 4 << 20,
                                 .hosts = 3,
                                 .frame_version_min = 1,
                                 .frame_version_max = 1,
                                 .id = {{5}},
                                 .n_methods = 64};

    for (uint32_t i = 0; i < 64; i++) {
        m.methods[i].id = i << 24;
        memset(m.methods[i].name, 'a' + (int)i % 26, 63);
    }
    return m;
}

static void server_info_comes_back_as_it_was(void **state)
{
    struct wire_server_info in = server_info(), out;
    static uint8_t many[4 * 65];
    struct buf b;

    memset(&out, 0, sizeof out);
    buf_init(&b, OUT_MAX);
    assert_ok(wire_query_server_info_encode(&b, &in));
    assert_ok(wire_query_server_info_decode(&out, b.p, b.n));
    assert_memory_equal(&in, &out, sizeof in);
    in.n_methods = 65;
    assert_err(wire_query_server_info_encode(&b, &in), ERR_INVALID);
    buf_fini(&b);
    for (size_t i = 0; i < sizeof many; i += 4) { /* with an empty name */
        many[i] = 0x52;
        many[i + 1] = 2;
        many[i + 2] = 0x0a;
    }
    assert_ok(wire_query_server_info_decode(&out, many, sizeof many - 4));
    assert_err(wire_query_server_info_decode(&out, many, sizeof many), ERR_FULL);
}

/* -- all of them -- */

/* Decodes as each of the four, and releases. */
static void try_all(enum err e[4], const void *p, size_t n)
{
    struct wire_server_info info_out;
    struct wire_query *q = NULL;
    struct wire_answer *a = NULL;
    struct wire_update *u = NULL;

    e[0] = wire_query_decode(&q, p, n);
    e[1] = wire_answer_decode(&a, p, n);
    e[2] = wire_update_decode(&u, p, n);
    e[3] = wire_query_server_info_decode(&info_out, p, n);
    wire_query_free(q);
    wire_answer_free(a);
    wire_update_free(u);
}

static enum err encode_nth(struct buf *b, unsigned which)
{
    struct wire_query q = question();
    struct wire_update u = {.name = str_make("x"), .data = answer()};
    struct wire_server_info s = server_info();

    switch (which) {
    case 0:
        return wire_query_encode(b, &q);
    case 1:
        return wire_answer_encode(b, &u.data);
    case 2:
        return wire_update_encode(b, &u);
    default:
        return wire_query_server_info_encode(b, &s);
    }
}

/* Protobuf cannot tell a message cut between two fields from one without the later fields. */
static void every_shorter_message_is_refused_or_lacks_fields(void **state)
{
    for (unsigned which = 0; which < 4; which++) {
        size_t refused = 0;
        struct buf b;

        buf_init(&b, OUT_MAX);
        assert_ok(encode_nth(&b, which));
        for (size_t n = 0; n < b.n; n++) {
            enum err e[4];

            try_all(e, b.p, n);
            assert_true(e[which] == ERR_OK || e[which] == ERR_CORRUPT);
            refused += e[which] != ERR_OK;
        }
        assert_true(refused > b.n / 2);
        buf_fini(&b);
    }
}

static void every_failed_allocation_is_survived(void **state)
{
    for (unsigned which = 0; which < 4; which++) {
        long live = mem_live();
        enum err e[4] = {ERR_NOMEM, ERR_NOMEM, ERR_NOMEM, ERR_NOMEM};

        for (long k = 0; e[which]; k++) {
            struct buf b;

            buf_init(&b, OUT_MAX);
            mem_fail_after(k);
            e[which] = encode_nth(&b, which);
            if (!e[which]) {
                try_all(e, b.p, b.n);
            }
            mem_fail_after(-1);
            assert_true(e[which] == ERR_OK || e[which] == ERR_NOMEM);
            buf_fini(&b);
            assert_int_equal(mem_live(), live);
            assert_true(k < 100);
        }
    }
}

static void sums_of_providers_come_back(void **state)
{
    static const struct str fields[] = {{"Status", 6}};
    static const struct event_type type = {.guid = {1, 2},
                                           .id = 7,
                                           .version = 1,
                                           .level = 4,
                                           .keyword = UINT64_MAX,
                                           .provider = {"MyTool", 6},
                                           .task = {"Work", 4},
                                           .name = {"Done", 4},
                                           .n_fields = 1,
                                           .fields = fields};
    static const struct wire_host host = {.name = {"web-1", 5}};
    struct wire_provider_sum list[2] = {{0, 3, &type, 1, 2, 3, 4, INT64_MIN, INT64_MAX},
                                        {.type = &type, .events = UINT64_MAX}};
    const struct wire_providers in = {2, list, 9};
    struct wire_answer a = {.n_hosts = 1, .hosts = &host, .providers = &in}, *out;
    struct buf b;

    buf_init(&b, 1u << 16);
    assert_ok(wire_answer_encode(&b, &a));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    assert_int_equal(out->providers->n, 2);
    assert_int_equal(out->providers->left_out, 9);
    for (size_t i = 0; i < 2; i++) {
        const struct wire_provider_sum *x = &list[i], *y = &out->providers->list[i];

        assert_true(event_values_same_type(x->type, y->type));
        assert_true(x->host == y->host && x->hosts == y->hosts && x->events == y->events);
        assert_true(x->value_bytes == y->value_bytes && x->redacted == y->redacted);
        assert_true(x->cut == y->cut && x->first_ns == y->first_ns && x->last_ns == y->last_ns);
    }
    wire_answer_free(out);
    buf_reset(&b);
    list[1].host = 1; /* which is none */
    assert_err(wire_answer_encode(&b, &a), ERR_INVALID);
    a.n_hosts = 0;
    a.providers = NULL;
    buf_reset(&b);
    assert_ok(wire_answer_encode(&b, &a));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    assert_null(out->providers);
    wire_answer_free(out);
    buf_fini(&b);
}

/* What a collector does not read it does not heed: its answer says how far it reads. */
static void an_answer_says_what_of_a_question_was_read(void **state)
{
    static const struct wire_query all = {.limit = 1};
    const struct {
        struct wire_query q;
        uint32_t field; /* 0: every collector heeds it */
    } rows[] = {
        {all, 0},
        {{.host = str_make("a"), .name = str_make("b*"), .has_pid = true}, 0},
        {{.kinds = 1u << LIFE_PROCESS_START}, 0},
        {{.n_hosts = 1}, 20},
        {{.n_labels = 1}, 21},
        {{.events.where = str_make("pid > 3")}, 22},
        {{.run = str_make("r")}, 23},
        {{.events.provider = str_make("P")}, 26},
        {{.kinds = 1u << LIFE_PROVIDER}, 26},
        {{.events.event = str_make("3")}, 27},
        {{.ids = {"0123456789abcdef", 16}}, 33},
    };
    struct wire_answer in = {.n_hosts = 0}, *out;
    struct buf b;

    buf_init(&b, 1u << 16);
    assert_ok(wire_answer_encode(&b, &in));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    assert_int_equal(out->knows, WIRE_ASK_KNOWS);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(wire_query_unknown(&rows[i].q, out->knows));
        assert_int_equal(wire_query_unknown(&rows[i].q, 0) != NULL, rows[i].field > 0);
        assert_true(!rows[i].field || wire_query_unknown(&rows[i].q, rows[i].field - 1));
        assert_null(wire_query_unknown(&rows[i].q, rows[i].field));
    }
    wire_answer_free(out);
    assert_ok(wire_answer_decode(&out, "", 0)); /* an older one's that is empty */
    assert_int_equal(out->knows, 0);
    wire_answer_free(out);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_providers_come_back),
        cmocka_unit_test(questions_come_back_as_they_were),
        cmocka_unit_test(questions_over_the_limits_are_refused),
        cmocka_unit_test(answers_come_back_as_they_were),
        cmocka_unit_test(rows_of_one_instance_carry_its_text_once),
        cmocka_unit_test(wrong_answers_are_not_encoded),
        cmocka_unit_test(indices_and_counts_from_outside_are_checked),
        cmocka_unit_test(amplified_answers_meet_limits_and_budget),
        cmocka_unit_test(many_of_the_smallest_events_come_back),
        cmocka_unit_test(updates_come_back_as_they_were),
        cmocka_unit_test(server_info_comes_back_as_it_was),
        cmocka_unit_test(every_shorter_message_is_refused_or_lacks_fields),
        cmocka_unit_test(an_answer_says_what_of_a_question_was_read),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
