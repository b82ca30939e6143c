/* Records of all real recordings, described: by which means, and whether the whole payload was
 * understood. Nothing else names these figures, so they are what was once found and looked at. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/describe.h"
#include "agent/source/etl_file.h"
#include "tests/support/corpus.h"

#define PATH_BYTES 1024
#define BY_COUNT   (DESCRIBE_WPP + 1)

struct tally {
    uint64_t whole, left, corrupt; /* all bytes understood; some not; damaged */
};

struct seen {
    struct describe *describe;
    struct tally by[BY_COUNT];
    int depth;
};

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
    struct described d;
    enum err e;

    describe_learn(s->describe, raw);
    if (raw->early) {
        return;
    }
    e = describe_values(s->describe, raw, &sink, &d);
    assert_int_equal(s->depth, 0);
    assert_true(e == ERR_OK || e == ERR_CORRUPT || e == ERR_NOTFOUND);
    assert_int_equal(e == ERR_NOTFOUND, d.by == DESCRIBE_NOTHING);
    s->by[d.by].whole += e == ERR_OK && d.left == 0;
    s->by[d.by].left += e == ERR_NOTFOUND || (e == ERR_OK && d.left > 0);
    s->by[d.by].corrupt += e == ERR_CORRUPT;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static struct tally total[BY_COUNT];

static void describe_recording(const char *name, const json_t *figures)
{
    char path[PATH_BYTES];
    struct seen s = {0};
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .schemas = true};
    struct source_sink sink = {.ctx = &s, .raw = on_raw, .advance = on_advance};
    struct describe_stats stats;
    struct source *source;

    (void)figures;
    assert_ok(describe_create(&s.describe, &(struct describe_conf){0}, NULL));
    assert_ok(etl_file_open(&source, &conf, sink, NULL));
    assert_err(source->ops->run(source), ERR_END);
    source->ops->close(source);
    describe_stats(s.describe, &stats);
    printf("%-36s schemas %3u refused %u damaged %u", name, (unsigned)stats.schemas,
           (unsigned)stats.refused, (unsigned)stats.damaged);
    for (size_t i = 0; i < BY_COUNT; i++) {
        printf("  %u/%u/%u", (unsigned)s.by[i].whole, (unsigned)s.by[i].left,
               (unsigned)s.by[i].corrupt);
        total[i].whole += s.by[i].whole;
        total[i].left += s.by[i].left;
        total[i].corrupt += s.by[i].corrupt;
    }
    printf("\n");
    describe_destroy(s.describe);
}

static void tracelogging_events_are_understood_to_the_last_byte(void **state)
{
    (void)state;
    (void)corpus_each(describe_recording);
    assert_int_equal(total[DESCRIBE_TRACELOGGING].whole, 311);
    assert_int_equal(total[DESCRIBE_TRACELOGGING].left, 0);
    assert_int_equal(total[DESCRIBE_TRACELOGGING].corrupt, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tracelogging_events_are_understood_to_the_last_byte),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
