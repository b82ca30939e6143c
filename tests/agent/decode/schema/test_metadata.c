#include "agent/decode/schema/describe_metadata.h"

#include <string.h>

#include "agent/decode/describe.h"
#include "agent/source/etw_guid.h"
#include "common/base/mem.h"
#include "tests/agent/decode/schema/values.h"
#include "tests/support/t.h"

#define BLOB_MAX 65536

static const uint8_t control[16] = ETW_CONTROL_METADATA;
static const uint8_t provider[16] = {1, 2, 3};
static const uint8_t task_guid[16] = {7, 7, 7};

struct property {
    uint32_t flags;
    const char *name;
    uint16_t in, out; /* of a struct: first member, members */
    const char *map;
    uint16_t count, length;
};

/* What is put at the end of a blob, and where its offset is to stand. */
static void put_name(struct buf *b, size_t at, const char *name)
{
    uint32_t offset = (uint32_t)b->n;

    if (!name) {
        return;
    }
    for (const char *p = name; *p; p++) {
        buf_put_u16le(b, (uint8_t)*p);
    }
    buf_put_u16le(b, 0);
    assert_ok(b->bad);
    for (size_t i = 0; i < 4; i++) {
        b->p[at + i] = (uint8_t)(offset >> 8 * i);
    }
}

struct blob_conf {
    uint16_t id;
    uint8_t version, opcode;
    uint32_t source;
    bool task_guid;
    const char *task, *opcode_name, *event_name;
    const struct property *properties;
    size_t n, n_top;
};

static void blob_make(struct buf *b, const struct blob_conf *c)
{
    buf_reset(b);
    buf_put(b, provider, 16);
    buf_put(b, c->task_guid ? task_guid : (const uint8_t[16]){0}, 16);
    buf_put_u16le(b, c->id);
    buf_put(b, (const uint8_t[]){c->version, 0, 4, c->opcode}, 4);
    (void)memset(buf_grow(b, 10), 0, 10);
    buf_put_u32le(b, c->source);
    (void)memset(buf_grow(b, 48), 0, 48);
    buf_put_u32le(b, (uint32_t)c->n);
    buf_put_u32le(b, (uint32_t)c->n_top);
    buf_put_u32le(b, 0);
    assert_int_equal(b->n, 112);
    for (size_t i = 0; i < c->n; i++) {
        const struct property *p = &c->properties[i];

        buf_put_u32le(b, p->flags);
        buf_put_u32le(b, 0);
        buf_put_u16le(b, p->in);
        buf_put_u16le(b, p->out);
        buf_put_u32le(b, 0);
        buf_put_u16le(b, p->count);
        buf_put_u16le(b, p->length);
        buf_put_u32le(b, 0);
    }
    put_name(b, 52, "Vendor-Provider");
    put_name(b, 68, c->task);
    put_name(b, 72, c->opcode_name);
    put_name(b, 92, c->event_name);
    for (size_t i = 0; i < c->n; i++) {
        put_name(b, 112 + 24 * i + 4, c->properties[i].name);
        put_name(b, 112 + 24 * i + 12, c->properties[i].map);
    }
}

static void map_make(struct buf *b, const char *name, uint32_t flags, size_t n,
                     const uint32_t *values, const char *const *texts)
{
    struct buf map;

    buf_init(&map, BLOB_MAX);
    buf_put_u32le(&map, 0);
    buf_put_u32le(&map, flags);
    buf_put_u32le(&map, (uint32_t)n);
    buf_put_u32le(&map, 0);
    for (size_t i = 0; i < n; i++) {
        buf_put_u32le(&map, 0);
        buf_put_u32le(&map, values[i]);
    }
    put_name(&map, 0, name);
    for (size_t i = 0; i < n; i++) {
        put_name(&map, 16 + 8 * i, texts[i]);
    }
    buf_reset(b);
    buf_put(b, provider, 16);
    buf_put(b, map.p, map.n);
    buf_fini(&map);
}

static struct describe *describe;
static struct values values;
static struct buf blob;

static int set_up(void **state)
{
    values_init(&values);
    buf_init(&blob, BLOB_MAX);
    return describe_create(&describe, &(struct describe_conf){0}, NULL) != ERR_OK;
}

static int tear_down(void **state)
{
    describe_destroy(describe);
    buf_fini(&blob);
    values_fini(&values);
    return 0;
}

static struct describe_stats learn(struct describe *d, uint8_t opcode, const void *p, size_t n)
{
    uint8_t *exact = mem_dup(p, n);
    struct raw_event raw = {
        .form = RAW_CLASSIC, .opcode = opcode, .payload = exact, .payload_n = n};
    struct describe_stats stats;

    memcpy(raw.guid, control, sizeof control);
    describe_learn(d, &raw);
    mem_free(exact);
    describe_stats(d, &stats);
    return stats;
}

/* Values of an event of the provider; the text stays until the next call. */
static const char *event(uint16_t id, uint8_t version, const uint8_t *payload, size_t n,
                         struct described *d)
{
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .id = id,
                            .version = version,
                            .pointer_size = 8,
                            .payload = payload,
                            .payload_n = n};
    const struct value_sink sink = values_sink(&values);

    memcpy(raw.guid, provider, sizeof provider);
    assert_ok(describe_values(describe, &raw, &sink, d));
    return buf_cstr(&values.text);
}

static const struct row {
    const char *title;
    struct property properties[6];
    size_t n, n_top;
    const uint8_t *payload;
    size_t n_payload;
    const char *expected;
} rows[] = {
    {"no fields", {{0}}, 0, 0, BYTES(""), ""},
    {"numbers and texts",
     {{0, "a", 8, 8, NULL, 1, 4}, {0, "t", 1, 1, NULL, 1, 0}, {0, "h", 20, 18, NULL, 1, 4}},
     3,
     3,
     BYTES("\x05\0\0\0h\0i\0\0\0\xff\0\0\0"),
     "a=5 t='hi' h=0xff"},
    {"binary of a length another field tells",
     {{0, "n", 8, 8, NULL, 1, 4}, {2, "b", 14, 15, NULL, 1, 0}},
     2,
     2,
     BYTES("\x02\0\0\0\x01\x02"),
     "n=2 b=#0102"},
    {"text of a length another field tells",
     {{0, "n", 6, 6, NULL, 1, 2}, {2, "t", 1, 1, NULL, 1, 0}},
     2,
     2,
     BYTES("\x02\0h\0i\0"),
     "n=2 t='hi'"},
    {"elements another field counts",
     {{0, "n", 6, 6, NULL, 1, 2}, {4, "v", 8, 8, NULL, 0, 4}},
     2,
     2,
     BYTES("\x02\0\x01\0\0\0\x02\0\0\0"),
     "n=2 v=[1 2]"},
    {"constant counts and lengths",
     {{0x20, "v", 4, 4, NULL, 3, 1}, {0x10, "t", 1, 1, NULL, 1, 3}, {0, "u", 2, 1, NULL, 1, 2}},
     3,
     3,
     BYTES("\x01\x02\x03h\0i\0\0\0xy"),
     "v=[1 2 3] t='hi' u='xy'"},
    {"addresses",
     {{0, "ip", 8, 23, NULL, 1, 4}, {0, "port", 6, 22, NULL, 1, 2}, {0, "six", 14, 24, NULL, 1, 0}},
     3,
     3,
     BYTES("\x0a\0\0\x01\x01\xbb"
           "0123456789abcdef"),
     "ip=ip:0a000001 port=443 six=ip:30313233343536373839616263646566"},
    {"a struct",
     {{1, "s", 2, 2, NULL, 1, 0},
      {0, "c", 4, 4, NULL, 1, 1},
      {0, "a", 4, 4, NULL, 1, 1},
      {0, "b", 4, 4, NULL, 1, 1}},
     4,
     2,
     BYTES("\x01\x02\x03"),
     "s={a=1 b=2] c=3"},
    {"structs another field counts",
     {{0, "n", 4, 4, NULL, 1, 1}, {1 | 4, "s", 2, 1, NULL, 0, 0}, {0, "a", 2, 1, NULL, 1, 0}},
     3,
     2,
     BYTES("\x02x\0yz\0"),
     "n=2 s=[{a='x'] {a='yz']]"},
    {"statuses and truth",
     {{0, "s", 8, 31, NULL, 1, 4}, {0, "t", 13, 13, NULL, 1, 4}, {0, "o", 13, 13, NULL, 1, 1}},
     3,
     3,
     BYTES("\x22\0\0\xc0\x01\0\0\0\x01"),
     "s=0xc0000022 t=true o=true"},
    {"types of MOF",
     {{0, "c", 300, 0, NULL, 1, 0},
      {0, "r", 303, 0, NULL, 1, 0},
      {0, "p", 308, 0, NULL, 1, 8},
      {0, "w", 306, 0, NULL, 1, 2},
      {0, "u", 310, 0, NULL, 1, 0},
      {0, "t", 304, 0, NULL, 1, 0}},
     6,
     6,
     BYTES("\x02\0x\0\0\x01z\x09\0\0\0\0\0\0\0q\0\0\0\0\0y\0"),
     "c='x' r='z' p=9 w='q' u= t='y'"},
    {"frames the runtime counts although its manifest says two",
     {{0, "FrameCount", 8, 8, NULL, 1, 4}, {0, "Stack", 16, 0, NULL, 2, 8}},
     2,
     2,
     BYTES("\x03\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"),
     "FrameCount=3 Stack=[0x1 0x2 0x3]"},
};

static void events_are_read_by_their_metadata(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct blob_conf c = {.id = (uint16_t)(100 + i),
                              .properties = rows[i].properties,
                              .n = rows[i].n,
                              .n_top = rows[i].n_top};
        struct described d;

        blob_make(&blob, &c);
        assert_int_equal(learn(describe, 32, blob.p, blob.n).schemas, i + 1);
        assert_string_equal(event(c.id, 0, rows[i].payload, rows[i].n_payload, &d),
                            rows[i].expected);
        assert_int_equal(d.left, 0);
        assert_int_equal(d.by, DESCRIBE_METADATA);
    }
}

static void every_shorter_payload_is_damaged(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool rest = rows[i].n == 6; /* the last field takes what there is */

        for (size_t n = 0; n + (rest ? 2 : 0) < rows[i].n_payload; n++) {
            uint8_t *exact = mem_dup(rows[i].payload, n);
            struct raw_event raw = {.form = RAW_MANIFEST,
                                    .id = (uint16_t)(100 + i),
                                    .pointer_size = 8,
                                    .payload = exact,
                                    .payload_n = n};
            const struct value_sink sink = values_sink(&values);
            struct described d;

            memcpy(raw.guid, provider, sizeof provider);
            assert_err(describe_values(describe, &raw, &sink, &d), ERR_CORRUPT);
            assert_int_equal(values.depth, 0);
            mem_free(exact);
        }
    }
}

static void maps_name_numbers_and_bits(void **state)
{
    static const struct property fields[] = {{0, "level", 4, 4, "LevelMap", 1, 1},
                                             {0, "flags", 8, 18, "FlagMap", 1, 4}};
    static const struct {
        const uint8_t *payload;
        size_t n;
        const char *expected;
    } cases[] = {
        {BYTES("\x02\x05\0\0\0"), "level='High' flags='A|C'"},
        {BYTES("\x09\0\0\0\0"), "level=9 flags=0x0"},
        {BYTES("\x01\x0c\0\0\0"), "level='Low' flags=0xc"}, /* a bit without name: the number */
    };
    struct blob_conf c = {.id = 7, .properties = fields, .n = 2, .n_top = 2};
    struct described d;

    blob_make(&blob, &c);
    (void)learn(describe, 32, blob.p, blob.n);
    assert_string_equal(event(7, 0, BYTES("\x02\x05\0\0\0"), &d), "level=2 flags=0x5");
    map_make(&blob, "LevelMap", 1, 2, (const uint32_t[]){1, 2},
             (const char *const[]){"Low ", "High "});
    (void)learn(describe, 33, blob.p, blob.n);
    map_make(&blob, "FlagMap", 2, 3, (const uint32_t[]){1, 2, 4},
             (const char *const[]){"A ", "B ", "C "});
    assert_int_equal(learn(describe, 33, blob.p, blob.n).damaged, 0);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_string_equal(event(7, 0, cases[i].payload, cases[i].n, &d), cases[i].expected);
    }
}

static void names_for_a_large_array_and_a_large_map_are_bounded(void **state)
{
    static const struct property field[] = {{0x20, "v", 4, 4, "Large", 60000, 1}};
    static uint32_t numbers[SCHEMA_MAP_MAX];
    static const char *texts[SCHEMA_MAP_MAX];
    static uint8_t payload[60000];
    struct blob_conf c = {.id = 8, .properties = field, .n = 1, .n_top = 1};
    struct described d;

    for (uint32_t i = 0; i < SCHEMA_MAP_MAX; i++) {
        numbers[i] = SCHEMA_MAP_MAX - 1 - i;
        texts[i] = "x";
    }
    map_make(&blob, "Large", 1, SCHEMA_MAP_MAX, numbers, texts);
    assert_int_equal(learn(describe, 33, blob.p, blob.n).damaged, 0);
    blob_make(&blob, &c);
    (void)learn(describe, 32, blob.p, blob.n);
    assert_non_null(strstr(event(8, 0, payload, sizeof payload, &d), "'x' 0 0"));
    assert_int_equal(values.n, 60000);
}

static void names_come_without_what_message_compilers_add(void **state)
{
    static const struct {
        struct blob_conf conf;
        const char *task, *name;
    } cases[] = {
        {{.id = 20, .opcode = 1, .task = "Load ", .opcode_name = "win:Start "}, "Load", "Start"},
        {{.id = 21, .opcode = 0, .task = "Load", .opcode_name = "win:Info"}, "Load", ""},
        {{.id = 22, .opcode = 0, .task = "Load", .event_name = "Mine"}, "Load", "Mine"},
        {{.id = 23, .opcode = 9}, "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct described d;

        blob_make(&blob, &cases[i].conf);
        (void)learn(describe, 32, blob.p, blob.n);
        (void)event(cases[i].conf.id, 0, BYTES(""), &d);
        assert_true(str_eq(d.provider, str_make("Vendor-Provider")));
        assert_true(str_eq(d.task, str_make(cases[i].task)));
        assert_true(str_eq(d.name, str_make(cases[i].name)));
    }
}

static void classic_events_go_by_class_and_opcode(void **state)
{
    static const struct property field[] = {{0, "v", 4, 4, NULL, 1, 1}};
    static const struct {
        uint32_t source;
        bool has_guid, manifest, classic;
    } cases[] = {{0, false, true, false}, {0, true, true, true}, {1, true, false, true}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct blob_conf c = {.id = (uint16_t)(50 + i),
                              .opcode = (uint8_t)(60 + i),
                              .version = 2,
                              .source = cases[i].source,
                              .task_guid = cases[i].has_guid,
                              .properties = field,
                              .n = 1,
                              .n_top = 1};
        struct raw_event by_id = {.form = RAW_MANIFEST, .id = c.id, .version = 2};
        struct raw_event by_opcode = {.form = RAW_CLASSIC, .opcode = c.opcode, .version = 2};
        struct described d;

        memcpy(by_id.guid, provider, sizeof provider);
        memcpy(by_opcode.guid, task_guid, sizeof task_guid);
        blob_make(&blob, &c);
        (void)learn(describe, 32, blob.p, blob.n);
        describe_name(describe, &by_id, &d);
        assert_int_equal(d.by, cases[i].manifest ? DESCRIBE_METADATA : DESCRIBE_NOTHING);
        describe_name(describe, &by_opcode, &d);
        assert_int_equal(d.by, cases[i].classic ? DESCRIBE_METADATA : DESCRIBE_NOTHING);
    }
}

static void another_version_is_another_event(void **state)
{
    struct blob_conf c = {.id = 90, .version = 3};
    struct raw_event raw = {.form = RAW_MANIFEST, .id = 90, .version = 2};
    struct described d;

    memcpy(raw.guid, provider, sizeof provider);
    blob_make(&blob, &c);
    (void)learn(describe, 32, blob.p, blob.n);
    describe_name(describe, &raw, &d);
    assert_int_equal(d.by, DESCRIBE_NOTHING);
    assert_true(str_eq(d.provider, str_make("Vendor-Provider"))); /* that much is known */
}

/* Each with a describe of its own; a blob that is cut anywhere is damaged or smaller. */
static void every_shorter_blob_is_survived_and_counted(void **state)
{
    struct blob_conf c = {.id = 1, .properties = rows[8].properties, .n = 3, .n_top = 2};
    uint64_t damaged = 0;
    struct describe *d;

    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    blob_make(&blob, &c);
    for (size_t n = 0; n < blob.n; n++) {
        struct describe_stats stats = learn(d, 32, blob.p, n);

        assert_int_equal(stats.damaged, ++damaged);
    }
    map_make(&blob, "M", 1, 1, (const uint32_t[]){1}, (const char *const[]){"Low"});
    for (size_t n = 0; n < blob.n; n++) {
        assert_int_equal(learn(d, 33, blob.p, n).damaged, ++damaged);
    }
    assert_int_equal(learn(d, 33, blob.p, blob.n).damaged, damaged);
    describe_destroy(d);
}

static void structs_that_hold_themselves_are_damage(void **state)
{
    static const struct property loops[][2] = {
        {{1, "s", 0, 1, NULL, 1, 0}, {0, "v", 4, 4, NULL, 1, 1}},
        {{1, "s", 1, 1, NULL, 1, 0}, {1, "t", 0, 1, NULL, 1, 0}},
        {{1, "s", 1, 2, NULL, 1, 0}, {0, "v", 4, 4, NULL, 1, 1}},
        {{4, "v", 4, 4, NULL, 2, 1}, {0, "v", 4, 4, NULL, 1, 1}},
        {{2, "v", 14, 0, NULL, 1, 9}, {0, "v", 4, 4, NULL, 1, 1}},
        {{0, "v", 24, 0, NULL, 1, 9}, {0, "v", 4, 4, NULL, 1, 1}},
        {{0, "v", 40, 0, NULL, 1, 9}, {0, "v", 4, 4, NULL, 1, 1}},
        {{0, "v", 999, 0, NULL, 1, 9}, {0, "v", 4, 4, NULL, 1, 1}},
    };
    struct describe_stats before;

    describe_stats(describe, &before);
    for (size_t i = 0; i < COUNT_OF(loops); i++) {
        struct blob_conf c = {.id = 99, .properties = loops[i], .n = 2, .n_top = 1};

        blob_make(&blob, &c);
        assert_int_equal(learn(describe, 32, blob.p, blob.n).damaged, before.damaged + i + 1);
    }
}

static void schemas_over_the_limit_are_refused_and_counted(void **state)
{
    struct describe_stats stats = {0};
    struct describe *d;

    assert_ok(describe_create(&d, &(struct describe_conf){.schema_max = 70000}, NULL));
    for (uint16_t id = 0; id < 2000; id++) {
        struct blob_conf c = {.id = id, .properties = rows[1].properties, .n = 3, .n_top = 3};

        blob_make(&blob, &c);
        stats = learn(d, 32, blob.p, blob.n);
    }
    assert_in_range(stats.schemas, 50, 400);
    assert_int_equal(stats.schemas + stats.refused, 2000);
    assert_int_equal(stats.damaged, 0);
    describe_destroy(d);
}

static void a_record_that_carries_a_schema_is_read_itself(void **state)
{
    struct raw_event raw = {.form = RAW_CLASSIC, .opcode = 33};
    const struct value_sink sink = values_sink(&values);
    struct described d;

    memcpy(raw.guid, control, sizeof control);
    raw.payload = (const uint8_t *)"0123456789abcdef!";
    raw.payload_n = 17;
    assert_ok(describe_values(describe, &raw, &sink, &d));
    assert_string_equal(buf_cstr(&values.text),
                        "Provider=guid:30313233343536373839616263646566 EventMapInfo=#21");
    assert_true(str_eq(d.name, str_make("MapInfo")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_by_their_metadata),
        cmocka_unit_test(every_shorter_payload_is_damaged),
        cmocka_unit_test(maps_name_numbers_and_bits),
        cmocka_unit_test(names_for_a_large_array_and_a_large_map_are_bounded),
        cmocka_unit_test(names_come_without_what_message_compilers_add),
        cmocka_unit_test(classic_events_go_by_class_and_opcode),
        cmocka_unit_test(another_version_is_another_event),
        cmocka_unit_test(every_shorter_blob_is_survived_and_counted),
        cmocka_unit_test(structs_that_hold_themselves_are_damage),
        cmocka_unit_test(schemas_over_the_limit_are_refused_and_counted),
        cmocka_unit_test(a_record_that_carries_a_schema_is_read_itself),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
