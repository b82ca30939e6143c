/* Recordings decoded by us against Microsoft's TraceEvent, line by line of its listings: every
 * EVENT line must have its record at the same time, on the same CPU, with the same payload length
 * and the same process, and every field of the line must say what our field of that name says,
 * wherever a layout of ours or a schema of the trace supplies it. COUNT lines must count the same
 * records.
 *
 * Several records may stand at one time; a line takes the one that fits best and that no other line
 * has taken. Which kinds of record (provider, id) an event name stands for is learned from the
 * lines on the way, and must stay a mapping in both directions. */
#include "tests/support/t.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/account/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/decode/describe.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "tests/support/baseline_fields.h"
#include "tests/support/corpus.h"

#define PATH_BYTES     1024
#define TOLERANCE_NS   1000
#define CANDIDATES_MAX 8
#define KINDS_MAX      4096
#define PROVIDERS_MAX  64

static const char *const absence_text[BASELINE_ABSENCES] = {
    [BASELINE_NO_SCHEMA] = "the trace has no schema of the event",
    [BASELINE_NO_FIELD] = "no field of that name in layout or schema",
    [BASELINE_OWN_NAME] = "TraceEvent's own name for a number",
    [BASELINE_MADE] = "made by TraceEvent from elsewhere",
    [BASELINE_EMPTY] = "empty there, absent here",
};

/* A kind of record, and the event name it goes by. */
struct kind {
    uint8_t guid[16];
    uint8_t form;
    uint16_t number;
    uint64_t records;
    const char *event; /* NULL: not met in a line yet */
};

/* A record a line may mean. */
struct candidate {
    size_t record; /* its number */
    struct kind *kind;
    struct baseline_outcome outcome;
};

struct match {
    struct candidate candidates[CANDIDATES_MAX];
    size_t n;
};

struct rig {
    struct decode *decode;
    struct describe *describe;
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *aggregate;

    struct baseline baseline;
    struct match *matches; /* one per line */
    size_t first_open;     /* lines before it are closed */
    size_t records;
    int64_t first_ns;
    struct kind kinds[KINDS_MAX];
    size_t n_kinds;
    size_t *taken; /* numbers of records lines have taken */
    size_t n_taken;

    struct baseline_names names; /* from the first pass: they come at the end */
    bool first_pass;

    struct {
        char name[64];
        unsigned fields;
    } silent[PROVIDERS_MAX]; /* providers without schema */
    size_t n_silent;

    unsigned lines, counts, same, explained, absent[BASELINE_ABSENCES], wrong;
};

static struct values got;

/* COUNT lines that are known to count fewer records. */
static const struct {
    const char *recording, *event;
} fewer[] = {
    {"net.4.5.x86-win7", "Microsoft-Windows-DotNETRuntime/Method/LoadVerbose"},
};

/* -- all lines -- */

static struct kind *kind_of(struct rig *r, const struct raw_event *raw)
{
    uint16_t number = raw->form == RAW_CLASSIC ? raw->opcode : raw->id;

    for (size_t i = 0; i < r->n_kinds; i++) {
        struct kind *k = &r->kinds[i];

        if (k->number == number && k->form == raw->form && memcmp(k->guid, raw->guid, 16) == 0) {
            return k;
        }
    }
    assert_true(r->n_kinds < KINDS_MAX);
    r->kinds[r->n_kinds] = (struct kind){.form = raw->form, .number = number};
    memcpy(r->kinds[r->n_kinds].guid, raw->guid, 16);
    return &r->kinds[r->n_kinds++];
}

static bool is_taken(const struct rig *r, size_t record)
{
    for (size_t i = r->n_taken; i-- > 0;) {
        if (r->taken[i] == record) {
            return true;
        }
    }
    return false;
}

/* Whether another kind goes by the line's name already, or this one by another name. */
static bool estranged(const struct rig *r, const struct kind *k, const char *event)
{
    if (k->event) {
        return strcmp(k->event, event) != 0;
    }
    for (size_t i = 0; i < r->n_kinds; i++) {
        if (r->kinds[i].event && strcmp(r->kinds[i].event, event) == 0) {
            return true;
        }
    }
    return false;
}

static int better(const struct rig *r, const struct candidate *a, const struct candidate *b,
                  const char *event)
{
    int strange = (int)estranged(r, b->kind, event) - (int)estranged(r, a->kind, event);

    if (strange) {
        return strange;
    }
    if (a->outcome.n_wrong != b->outcome.n_wrong) {
        return (int)b->outcome.n_wrong - (int)a->outcome.n_wrong;
    }
    return (int)a->outcome.same - (int)b->outcome.same;
}

static void count_silent(struct rig *r, const char *event, unsigned fields)
{
    size_t n = strcspn(event, "/"), i = 0;

    while (i < r->n_silent && (strncmp(r->silent[i].name, event, n) != 0 || r->silent[i].name[n])) {
        i++;
    }
    if (i == r->n_silent) {
        assert_true(i < PROVIDERS_MAX && n < sizeof r->silent[0].name);
        memcpy(r->silent[r->n_silent++].name, event, n);
    }
    r->silent[i].fields += fields;
}

static const struct candidate *best_of(const struct rig *r, size_t line)
{
    const struct match *m = &r->matches[line];
    const struct candidate *best = NULL;

    for (size_t k = 0; k < m->n; k++) {
        if (!is_taken(r, m->candidates[k].record) &&
            (!best || better(r, &m->candidates[k], best, r->baseline.lines[line].event) > 0)) {
            best = &m->candidates[k];
        }
    }
    return best;
}

static void close_line(struct rig *r, size_t line)
{
    const struct baseline_line *l = &r->baseline.lines[line];
    const struct candidate *best = best_of(r, line);
    const struct baseline_outcome *o = best ? &best->outcome : NULL;

    r->lines++;
    if (!best || estranged(r, best->kind, l->event)) {
        print_message("%.3f ms %s: %s\n", (double)l->ns / 1e6, l->event,
                      best ? "its record goes by another name" : "no record");
        r->wrong++;
        return;
    }
    best->kind->event = l->event;
    r->taken[r->n_taken++] = best->record;
    r->same += o->same;
    r->explained += o->explained;
    r->wrong += o->n_wrong;
    for (size_t k = 0; k < BASELINE_ABSENCES; k++) {
        r->absent[k] += o->absent[k];
    }
    if (o->absent[BASELINE_NO_SCHEMA]) {
        count_silent(r, l->event, o->absent[BASELINE_NO_SCHEMA]);
    }
    for (size_t k = 0; k < o->n_wrong && k < BASELINE_WRONG_MAX; k++) {
        print_message("%.3f ms %s: %s\n", (double)l->ns / 1e6, l->event, o->wrong[k]);
    }
}

static void close_until(struct rig *r, int64_t ns)
{
    while (r->first_open < r->baseline.n) {
        const struct baseline_line *l = &r->baseline.lines[r->first_open];

        if (!l->count && l->ns >= ns) {
            break;
        }
        if (!l->count) {
            close_line(r, r->first_open);
        }
        r->first_open++;
    }
}

static void describe(struct rig *r, struct baseline_record *rec)
{
    struct value_sink sink = values_sink(&got);

    values_reset(&got);
    rec->described_err = describe_values(r->describe, rec->raw, &sink, &rec->described);
    rec->values = &got;
    if (rec->described_err == ERR_NOTFOUND) {
        rec->described = (struct described){0};
    }
}

/* TraceEvent leaves these out. */
static bool idle_sample(const struct event *fact)
{
    return fact && fact->kind == EV_CPU_SAMPLE && fact->u.sample.tid == 0 &&
           !fact->u.sample.interrupt;
}

/* Offers the record to every line of its time. */
static void offer(struct rig *r, struct baseline_record *rec)
{
    int64_t ns = rec->raw->wall_ns - r->first_ns;
    struct kind *kind = kind_of(r, rec->raw);

    kind->records += !idle_sample(rec->fact);
    close_until(r, ns - TOLERANCE_NS);
    for (size_t i = r->first_open; i < r->baseline.n; i++) {
        const struct baseline_line *l = &r->baseline.lines[i];
        struct match *m = &r->matches[i];

        if (l->count || l->ns > ns + TOLERANCE_NS) {
            break;
        }
        if (l->cpu != rec->raw->cpu || l->payload_n != rec->raw->payload_n ||
            m->n == CANDIDATES_MAX) {
            continue;
        }
        if (!rec->values) {
            describe(r, rec);
        }
        m->candidates[m->n] = (struct candidate){.record = r->records, .kind = kind};
        baseline_fields_compare(&m->candidates[m->n++].outcome, l, rec);
    }
}

/* -- two passes over the file -- */

static void collect_names(struct rig *r, const struct raw_event *raw)
{
    struct baseline_record rec = {.raw = raw};

    describe(r, &rec);
    if (rec.described.by == DESCRIBE_LAYOUT) {
        baseline_names_learn(&r->names, &got);
    }
}

static struct str name_of(void *ctx, uint32_t pid)
{
    const struct rig *r = ctx;
    const struct instance *p = instances_owner(r->table, pid);

    return p ? p->info.name : (struct str){"", 0};
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct rig *r = ctx;
    struct baseline_record rec = {
        .raw = raw, .names = &r->names, .owner_pid = EVENT_NO_ID, .name_of = name_of, .ctx = r};
    struct event ev;

    if (r->first_pass) {
        if (!raw->early && raw->form == RAW_CLASSIC) {
            collect_names(r, raw);
        }
        return;
    }
    describe_learn(r->describe, raw);
    if (decode_event(r->decode, raw, &ev) == ERR_OK) {
        const struct instance *owner = aggregate_event(r->aggregate, &ev);

        rec.owner_pid = owner ? owner->info.id.pid : EVENT_NO_ID;
        rec.fact = &ev;
    }
    if (raw->early) {
        return;
    }
    if (r->records == 0) {
        r->first_ns = raw->wall_ns;
    }
    offer(r, &rec);
    r->records++;
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct rig *r = ctx;

    if (!r->first_pass) {
        (void)aggregate_event(r->aggregate, ev);
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void on_told(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void run(struct rig *r, const char *name)
{
    char path[PATH_BYTES];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .schemas = true};
    struct source_sink sink = {.ctx = r, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct source *src;

    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->close(src);
}

static struct rig *rig_create(const char *name)
{
    struct rig *r = calloc(1, sizeof *r);
    const struct describe_conf describe_conf = {0};
    const struct instances_conf table = {
        .instances_max = 4096, .threads_max = 1 << 16, .text_max = 16 << 20, .grace_ns = INT64_MAX};
    struct lifecycle_conf life = {.told = on_told};
    char relative[128], path[PATH_BYTES];

    assert_non_null(r);
    (void)snprintf(relative, sizeof relative, "public/%s.baseline.txt", name);
    baseline_open(&r->baseline, corpus_path(path, sizeof path, relative));
    r->matches = calloc(r->baseline.n, sizeof *r->matches);
    r->taken = calloc(r->baseline.n, sizeof *r->taken);
    assert_true(r->matches && r->taken);
    assert_ok(decode_create(&r->decode));
    assert_ok(describe_create(&r->describe, &describe_conf, NULL));
    assert_ok(instances_create(&r->table, &table));
    life.table = r->table;
    assert_ok(lifecycle_create(&r->life, &life));
    assert_ok(aggregate_create(&r->aggregate, r->table, r->life));
    return r;
}

static void rig_destroy(struct rig *r)
{
    aggregate_destroy(r->aggregate);
    lifecycle_destroy(r->life);
    instances_destroy(r->table);
    describe_destroy(r->describe);
    decode_destroy(r->decode);
    baseline_close(&r->baseline);
    baseline_names_fini(&r->names);
    free(r->matches);
    free(r->taken);
    free(r);
}

/* -- counts -- */

static bool counts_fewer(const char *recording, const char *event)
{
    for (size_t i = 0; i < COUNT_OF(fewer); i++) {
        if (strcmp(fewer[i].recording, recording) == 0 && strcmp(fewer[i].event, event) == 0) {
            return true;
        }
    }
    return false;
}

static void check_counts(struct rig *r, const char *recording)
{
    for (size_t i = 0; i < r->baseline.n; i++) {
        const struct baseline_line *l = &r->baseline.lines[i];
        uint64_t records = 0;

        for (size_t k = 0; l->count && k < r->n_kinds; k++) {
            if (r->kinds[k].event && strcmp(r->kinds[k].event, l->event) == 0) {
                records += r->kinds[k].records;
            }
        }
        r->counts += l->count;
        if (l->count &&
            (counts_fewer(recording, l->event) ? records <= l->number : records != l->number)) {
            print_message("COUNT %s: %" PRIu64 " there, %" PRIu64 " here\n", l->event, l->number,
                          records);
            r->wrong++;
        }
    }
}

static void print_result(const struct rig *r, const char *name)
{
    print_message("%s: %u EVENT and %u COUNT lines; %u fields equal, %u differences explained, "
                  "%u not\n",
                  name, r->lines, r->counts, r->same, r->explained, r->wrong);
    for (size_t k = 0; k < BASELINE_ABSENCES; k++) {
        print_message("  %5u not compared: %s\n", r->absent[k], absence_text[k]);
    }
    for (size_t i = 0; i < r->n_silent; i++) {
        print_message("  %11u of %s\n", r->silent[i].fields, r->silent[i].name);
    }
}

static void every_line_agrees(void **state)
{
    static const struct {
        const char *name;
        unsigned lines, counts, fields;
    } rows[] = {
        {"net.4.5.2.x64", 480, 152, 2671},
        {"net.4.5.x86-win7", 495, 129, 1890},
        {"gcevents", 52, 21, 21},
        {"primitive-types", 6, 2, 76},
    };
    unsigned failures = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rig *r = rig_create(rows[i].name);

        r->first_pass = true;
        run(r, rows[i].name);
        r->first_pass = false;
        run(r, rows[i].name);
        close_until(r, INT64_MAX);
        check_counts(r, rows[i].name);
        print_result(r, rows[i].name);
        assert_int_equal(r->lines, rows[i].lines);
        assert_int_equal(r->counts, rows[i].counts);
        assert_true(r->same >= rows[i].fields);
        failures += r->wrong;
        rig_destroy(r);
    }
    assert_true(baseline_fields_explained());
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_agrees),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
