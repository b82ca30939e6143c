/* Records of other providers in all recordings: by which means they are described, and whether
 * their payload was understood to the last byte. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/describe.h"
#include "agent/source/trace/etl_file.h"
#include "tests/support/corpus.h"

#define PATH_BYTES 1024

struct tally {
    uint64_t whole, left, corrupt; /* all bytes understood; some not; damaged */
};

struct seen {
    struct describe *describe;
    struct tally by[DESCRIBE_WPP + 1];
    int depth;
};

/* Records of manifest providers that nothing describes, neither the file nor a layout of ours, and
 * of each means; whole ones, and those with bytes left where the two differ. PerfView logs a value
 * of 8 bytes that its own manifest says has 4: 2 records in each of its sessions. */
static const struct expected {
    const char *name;
    uint64_t schemas, unknown, tracelogging, manifest, manifest_left, metadata, messages;
} expected[] = {
    {"AMSITrace", 0, 0, 19, 0, 0, 0, 0},
    {"CldFlt0", 0, 0, 0, 0, 0, 0, 13},
    {"SIH.20230422.034724.362.1", 0, 0, 10, 0, 0, 0, 0},
    {"SelfDescribingSingleEvent", 0, 0, 1, 0, 0, 0, 0},
    {"attackhost", 1, 0, 0, 0, 0, 1, 0},
    {"diaghub", 31, 0, 0, 0, 0, 0, 0},
    {"diaghub.kernel.1", 0, 1, 0, 0, 0, 0, 0},
    {"diaghub.user_injected.1", 0, 3, 0, 0, 0, 0, 0},
    {"diaghub.user_paged.1", 20, 5530, 256, 20, 0, 0, 0},
    {"gc-dynamic-events", 60, 1223, 0, 41, 2, 22917, 0},
    {"gcevents", 0, 37, 0, 0, 0, 0, 0},
    {"hw3d", 0, 0, 1, 0, 0, 0, 0},
    {"lxcore_kernel", 0, 0, 2, 0, 0, 0, 0},
    {"monogame", 26, 0, 0, 64, 0, 0, 0},
    {"net.4.5.2.x64", 273, 1627, 0, 120, 2, 66394, 0},
    {"net.4.5.x86-win7", 53, 7236, 0, 46, 2, 95, 0},
    {"onedrive-17.005.0107.0006", 0, 0, 0, 0, 0, 0, 26},
    {"perfview-win81-x86", 31, 0, 0, 350, 0, 0, 0},
    {"pktmon-demikernel", 12, 0, 0, 0, 0, 403, 0},
    {"powershell", 0, 112, 0, 0, 0, 0, 0},
    {"primitive-types", 0, 0, 5, 0, 0, 0, 0},
    {"pyetw-out", 0, 4, 0, 0, 0, 0, 0},
    {"pyetw-user", 0, 5, 0, 0, 0, 0, 0},
    {"smallEtlFile", 0, 1, 0, 0, 0, 0, 0},
    {"tx-BondEtwSample", 5, 0, 0, 12, 0, 0, 0},
    {"tx-HTTP_Server", 0, 2041, 0, 0, 0, 0, 0},
    {"tx-KernelNetwork", 0, 0, 0, 0, 0, 0, 0},
    {"tx-winrm", 0, 70, 0, 0, 0, 0, 0},
    {"waasmedic.20251005_113019_195", 0, 0, 17, 0, 0, 0, 0},
};

static const struct expected *expected_of(const char *name)
{
    static const struct expected none = {0};

    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        if (strcmp(expected[i].name, name) == 0) {
            return &expected[i];
        }
    }
    return &none;
}

static void on_value(void *ctx, const struct value *v)
{
    (void)ctx;
    assert_true(v->kind <= VALUE_BYTES);
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct seen *s = ctx;

    (void)name;
    (void)group;
    s->depth++;
}

static void on_end(void *ctx)
{
    struct seen *s = ctx;

    s->depth--;
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct seen *s = ctx;
    const struct value_sink sink = {s, on_value, on_begin, on_end};
    struct described d, named;
    struct tally *t;
    enum err e;

    describe_learn(s->describe, raw);
    if (raw->early) {
        return;
    }
    e = describe_values(s->describe, raw, &sink, &d);
    describe_name(s->describe, raw, &named);
    assert_int_equal(named.by, d.by);
    assert_int_equal(s->depth, 0);
    assert_true(e == ERR_OK || e == ERR_CORRUPT || e == ERR_NOTFOUND);
    assert_int_equal(e == ERR_NOTFOUND, d.by == DESCRIBE_NOTHING);
    t = &s->by[d.by];
    t->whole += e == ERR_OK && d.left == 0;
    t->left += (e == ERR_NOTFOUND && raw->form == RAW_MANIFEST) || (e == ERR_OK && d.left > 0);
    t->corrupt += e == ERR_CORRUPT;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static struct tally total[DESCRIBE_WPP + 1];

static void check(const struct seen *s, const struct expected *x)
{
    struct describe_stats stats;

    describe_stats(s->describe, &stats);
    assert_int_equal(stats.schemas, x->schemas);
    assert_int_equal(stats.refused + stats.damaged + stats.unfinished, 0);
    assert_int_equal(s->by[DESCRIBE_NOTHING].left, x->unknown);
    assert_int_equal(s->by[DESCRIBE_TRACELOGGING].whole, x->tracelogging);
    assert_int_equal(s->by[DESCRIBE_MANIFEST].whole, x->manifest);
    assert_int_equal(s->by[DESCRIBE_MANIFEST].left, x->manifest_left);
    assert_int_equal(s->by[DESCRIBE_METADATA].whole, x->metadata);
    assert_int_equal(s->by[DESCRIBE_WPP].whole + s->by[DESCRIBE_WPP].left, x->messages);
    assert_int_equal(s->by[DESCRIBE_TRACELOGGING].left + s->by[DESCRIBE_METADATA].left, 0);
    assert_int_equal(s->by[DESCRIBE_TRACELOGGING].corrupt + s->by[DESCRIBE_METADATA].corrupt +
                         s->by[DESCRIBE_MANIFEST].corrupt + s->by[DESCRIBE_WPP].corrupt,
                     0);
}

/* Reads the files as one stream. */
static void describe_files(struct seen *s, const char *const *paths, size_t n)
{
    struct etl_file_conf conf = {.paths = paths, .n_paths = n, .schemas = true};
    struct source_sink sink = {.ctx = s, .raw = on_raw, .advance = on_advance};
    struct source *source;

    assert_ok(describe_create(&s->describe, &(struct describe_conf){0}, NULL));
    assert_ok(etl_file_open(&source, &conf, sink, NULL));
    assert_err(source->ops->run(source), ERR_END);
    source->ops->close(source);
}

static void describe_recording(const char *name, const json_t *figures)
{
    char path[PATH_BYTES];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct seen s = {0};

    (void)figures;
    describe_files(&s, paths, 1);
    check(&s, expected_of(name));
    for (size_t i = 0; i <= DESCRIBE_WPP; i++) {
        total[i].whole += s.by[i].whole;
    }
    describe_destroy(s.describe);
}

static void records_of_other_providers_are_understood_to_the_last_byte(void **state)
{
    (void)corpus_each(describe_recording);
    assert_true(total[DESCRIBE_TRACELOGGING].whole >= 311); /* more with every new recording */
    assert_true(total[DESCRIBE_MANIFEST].whole >= 653);
    assert_true(total[DESCRIBE_METADATA].whole >= 89405);
}

/* The tool that recorded these put the schemas of the one file's events into the other. */
static void schemas_of_one_file_serve_another_read_with_it(void **state)
{
    char merged[PATH_BYTES], events[PATH_BYTES];
    const char *paths[2] = {corpus_recording(merged, sizeof merged, "diaghub"),
                            corpus_recording(events, sizeof events, "diaghub.user_paged.1")};
    struct seen s = {0};

    describe_files(&s, paths, 2);
    assert_int_equal(s.by[DESCRIBE_NOTHING].left, 1);
    assert_int_equal(s.by[DESCRIBE_METADATA].whole, 21757);
    assert_int_equal(s.by[DESCRIBE_METADATA].left, 0);
    assert_int_equal(s.by[DESCRIBE_METADATA].corrupt, 0);
    describe_destroy(s.describe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_other_providers_are_understood_to_the_last_byte),
        cmocka_unit_test(schemas_of_one_file_serve_another_read_with_it),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
