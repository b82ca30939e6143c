/* Facts and layouts agree, and layouts leave nothing over, on every payload vector and on every
 * record of every recording whose class is known. Of the synthetic recordings (sawbuck/), which
 * have 64-bit payloads in 32-bit records, only agreement is asked. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/decode/decode_class.h"
#include "agent/source/trace/etl_file.h"
#include "tests/agent/decode/facts.h"
#include "tests/support/corpus.h"

#define PATH_BYTES 1024
#define KINDS_MAX  512

/* A kind of record whose layout leaves bytes over, finds too few, or does not exist. */
struct odd {
    const struct decode_class *class;
    uint16_t number;
    uint8_t version, pointer_size;
    size_t left, payload_n;
    enum { ODD_LEFT, ODD_SHORT, ODD_UNKNOWN } what;
    unsigned n;
};

static struct odd odds[KINDS_MAX];
static size_t n_odds;
static struct values values;
static struct decode_text text_room;
static struct decode *d;
static size_t compared, differ, records;

static void count_odd(struct odd o)
{
    for (size_t i = 0; i < n_odds; i++) {
        struct odd *have = &odds[i];

        if (have->class == o.class && have->number == o.number && have->version == o.version &&
            have->pointer_size == o.pointer_size && have->left == o.left && have->what == o.what) {
            have->n++;
            return;
        }
    }
    assert_true(n_odds < KINDS_MAX);
    odds[n_odds++] = o;
}

static void check(const struct raw_event *raw)
{
    const struct decode_class *class = decode_class_find(raw);
    const struct value_sink sink = values_sink(&values);
    struct odd o = {class, decode_number(raw), raw->version, raw->pointer_size,
                    0,     raw->payload_n,     ODD_UNKNOWN,  1};
    const struct layout *l;
    struct event ev;
    enum err e, fact;

    if (!class) {
        return;
    }
    records++;
    fact = decode_event(d, raw, &ev);
    l = layout_find(class->layouts, class->n_layouts, decode_number(raw), raw->version);
    if (!l) {
        if (class->form == RAW_CLASSIC) { /* of providers only what is charged has one */
            count_odd(o);
        }
        return;
    }
    values_reset(&values);
    e = layout_read(l, raw, &sink, &text_room, &o.left);
    assert_int_equal(values.depth, 0);
    assert_int_equal(values.lost, 0);
    assert_true(fact == ERR_NOTFOUND || fact == e);
    o.what = e ? ODD_SHORT : ODD_LEFT;
    if (e || o.left) {
        count_odd(o);
    }
    if (fact == ERR_OK) {
        compared += facts_agree(&ev, &values, &differ);
    }
}

static void print_odds(void)
{
    static const char *const what[] = {"left over", "too short", "without layout"};

    for (size_t i = 0; i < n_odds; i++) {
        const struct odd *o = &odds[i];

        printf("  %s %u version %u, pointers %u: %s %zu of %zu bytes, %u records\n", o->class->name,
               o->number, o->version, o->pointer_size, what[o->what], o->left, o->payload_n, o->n);
    }
}

static void begin(void)
{
    n_odds = compared = differ = records = 0;
    assert_ok(decode_create(&d));
}

static void end(void)
{
    decode_destroy(d);
    assert_int_equal(differ, 0);
}

static void vectors_leave_nothing_over_and_agree(void **state)
{
    static uint8_t payload[VECTORS_PAYLOAD_MAX];
    char path[PATH_BYTES], why[PATH_BYTES];
    json_t *vectors, *v;
    size_t i;

    corpus_path(path, sizeof path, "public/kernel-payload-vectors.json");
    vectors = vectors_load(path, why, sizeof why);
    assert_non_null(vectors);
    begin();
    json_array_foreach(vectors, i, v)
    {
        struct raw_event raw;

        assert_true(vectors_record(&raw, payload, v, why, sizeof why));
        check(&raw);
    }
    print_odds();
    assert_int_equal(n_odds, 0);
    assert_int_equal(records, json_array_size(vectors));
    printf("%zu facts compared\n", compared);
    assert_true(compared >= 180);
    json_decref(vectors);
    end();
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    (void)ctx;
    if (!raw->early) {
        check(raw);
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void read_recording(const char *name, const json_t *figures)
{
    char path[PATH_BYTES];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.raw = on_raw, .advance = on_advance};
    struct source *src;
    size_t known = n_odds;

    (void)figures;
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->close(src);
    if (strncmp(name, "sawbuck/", 8) != 0 && n_odds > known) {
        print_odds();
        fail_msg("%s: see above", name);
    }
}

static void recordings_leave_nothing_over_and_agree(void **state)
{
    begin();
    (void)corpus_each(read_recording);
    printf("%zu records, %zu facts compared\n", records, compared);
    assert_true(records > 250000 && compared > 400000);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_leave_nothing_over_and_agree),
        cmocka_unit_test(recordings_leave_nothing_over_and_agree),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
