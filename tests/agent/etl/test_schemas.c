#include "agent/etl/schema/etl_schemas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/describe.h"
#include "agent/decode/schema/known_schemas.h"
#include "agent/decode/schema/wevt.h"
#include "agent/etl/schema/etl_known.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/decode/schema/values.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define TABLE_EVENTS_MIN 1300

static const uint8_t one[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
                                0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};
static const uint8_t two[16] = {0x99, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
                                0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};

/* Both have an event 1 whose task, template and map have one name. */
static const char manifest[] =
    "<instrumentationManifest><instrumentation><events>"
    "<provider name=\"One\" guid=\"{11111111-2222-3333-4444-555555555555}\">"
    "<tasks><task name=\"T\" value=\"1\"/></tasks>"
    "<maps><valueMap name=\"m\"><map value=\"1\" message=\"$(string.a)\"/></valueMap></maps>"
    "<templates><template tid=\"t\"><data name=\"x\" inType=\"win:UInt8\" map=\"m\"/>"
    "<data name=\"lost\" inType=\"win:Binary\"/><data name=\"y\" inType=\"win:UInt8\"/>"
    "</template></templates>"
    "<events><event value=\"1\" version=\"0\" task=\"T\" template=\"t\"/></events></provider>"
    "<provider name=\"Two\" guid=\"{11111199-2222-3333-4444-555555555555}\">"
    "<maps><valueMap name=\"m\"><map value=\"1\" message=\"$(string.b)\"/></valueMap></maps>"
    "<templates><template tid=\"t\"><data name=\"z\" inType=\"win:UInt8\" map=\"m\"/>"
    "<data name=\"s\" inType=\"win:UnicodeString\"/></template></templates>"
    "<events><event value=\"1\" version=\"0\" template=\"t\" symbol=\"S\"/></events></provider>"
    "</events></instrumentation><localization><resources culture=\"en-US\"><stringTable>"
    "<string id=\"a\" value=\"apple\"/><string id=\"b\" value=\"pear\"/>"
    "</stringTable></resources></localization></instrumentationManifest>";

static char dir[256];

/* The values of event 1 as a line; `by` and `left` as described. */
static void read_event(struct describe *d, const uint8_t guid[16], const void *p, size_t n,
                       const char *expected, enum describe_by by, size_t left)
{
    struct raw_event raw = {
        .form = RAW_MANIFEST, .id = 1, .pointer_size = 8, .payload = p, .payload_n = n};
    struct values v;
    struct described out;
    struct value_sink sink;

    values_init(&v);
    sink = values_sink(&v);
    memcpy(raw.guid, guid, 16);
    assert_ok(describe_values(d, &raw, &sink, &out));
    assert_string_equal(buf_cstr(&v.text), expected);
    assert_int_equal(out.by, by);
    assert_int_equal(out.left, left);
    values_fini(&v);
}

static void a_file_gives_each_of_its_providers_its_own_events(void **state)
{
    char *path = os_path_join(dir, "two.man");
    struct etl_schemas from = {0};
    struct describe_conf conf = {.more = etl_schemas_more, .more_ctx = &from};
    struct manifest_files_counts counts;
    struct errmsg why;
    struct describe *d;

    support_write_file(path, manifest, sizeof manifest - 1);
    assert_ok(manifest_files_create(&from.manifests));
    assert_ok(manifest_files_add(from.manifests, "--manifests", path, &why));
    assert_ok(describe_create(&d, &conf, &why));
    (void)state;
    read_event(d, one, "\x01\x02\x03", 3, "x='apple'", DESCRIBE_FILE, 2); /* the length is lost */
    read_event(d, two, "\x01h\0i\0\0\0", 7, "z='pear' s='hi'", DESCRIBE_FILE, 0);
    read_event(d, two, "\x02h\0i\0", 5, "z=2 s='hi'", DESCRIBE_FILE, 0); /* no terminator */
    manifest_files_stats(from.manifests, &counts);
    assert_int_equal(counts.providers, 2);
    assert_int_equal(counts.damaged, 0);
    describe_destroy(d);
    support_write_file(path, "", 0); /* read once, for both */
    assert_ok(describe_create(&d, &conf, &why));
    read_event(d, two, "\x01h\0i\0\0\0", 7, "z='pear' s='hi'", DESCRIBE_FILE, 0);
    read_event(d, one, "\x01\x02\x03", 3, "x='apple'", DESCRIBE_FILE, 2);
    describe_destroy(d);
    manifest_files_destroy(from.manifests);
    mem_free(path);
}

static void a_file_cut_anywhere_gives_nothing_or_less(void **state)
{
    char *path = os_path_join(dir, "cut.man");

    (void)state;
    for (size_t n = 0; n + 1 < sizeof manifest; n += 3) {
        struct manifest_files *ms;
        struct schema *s;
        struct errmsg why;

        support_write_file(path, manifest, n);
        assert_ok(manifest_files_create(&ms));
        assert_err(manifest_files_add(ms, "--manifests", path, &why), ERR_CORRUPT);
        assert_ok(schema_create(&s, 1u << 20));
        assert_true(manifest_files_put(ms, s, one, str_make("")) != ERR_OK);
        schema_destroy(s);
        manifest_files_destroy(ms);
    }
    mem_free(path);
}

/* Each line of the tables that says an event leads to one. */
static void every_event_of_the_tables_can_be_put(void **state)
{
    const char *p = known_schemas_text();
    struct schema *s = NULL;
    struct raw_event raw = {.form = RAW_MANIFEST};
    size_t events = 0;

    (void)state;
    while (p && *p) {
        unsigned id, version;
        char guid[64];

        if (sscanf(p, "P\t%63s", guid) == 1) {
            schema_destroy(s);
            assert_true(etw_manifest_guid(raw.guid, guid));
            assert_ok(schema_create(&s, 8u << 20));
            assert_ok(known_schemas_put(s, raw.guid));
            assert_true(schema_find_provider(s, raw.guid).n > 0);
        } else if (sscanf(p, "E\t%u\t%u", &id, &version) == 2) {
            const struct schema_event *ev;

            raw.id = (uint16_t)id;
            raw.version = (uint8_t)version;
            ev = schema_find_event(s, &raw);
            assert_non_null(ev);
            assert_int_equal(ev->origin, SCHEMA_FROM_TABLE);
            events++;
        }
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    schema_destroy(s);
    assert_true(events >= TABLE_EVENTS_MIN);
}

static void providers_have_names(void **state)
{
    static const uint8_t process[16] = {0xd6, 0x2c, 0xfb, 0x22, 0x7b, 0x0e, 0x2b, 0x42,
                                        0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16};
    struct str name = etl_known_name(process);

    (void)state;
    assert_true(str_eq(name, str_make("Microsoft-Windows-Kernel-Process")));
    assert_int_equal(etl_known_name(one).n, 0);
    assert_err(known_schemas_put(NULL, one), ERR_NOTFOUND);
}

static void count_begin(void *ctx, const char *name, const char *const *attributes)
{
    (void)name;
    (void)attributes;
    ++*(size_t *)ctx;
}

static void count_end(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
}

static enum err count_on(void *ctx)
{
    (void)ctx;
    return ERR_OK;
}

/* A provider whose 64 parts are one table, each of whose 40 templates has the same 100 items. */
static void a_resource_gives_no_more_elements_than_its_bytes_can_hold(void **state)
{
    enum { PARTS = 64, TEMPLATES = 40, ITEMS = 100, BYTES = 4 };
    const uint32_t wevt = 16 + 20, items = wevt + 20 + 8 * PARTS, table = items + 20 * ITEMS;
    size_t given = 0;
    const struct wevt_sink sink = {&given, count_begin, count_end, count_on};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 14);
    buf_put_str(&b, "CRIM");
    for (unsigned i = 0; i < 3; i++) {
        buf_put_u32le(&b, i == 2); /* one provider */
    }
    buf_put(&b, one, sizeof one);
    buf_put_u32le(&b, wevt);
    buf_put_str(&b, "WEVT");
    for (unsigned i = 0; i < 4; i++) {
        buf_put_u32le(&b, i == 2 ? PARTS : 0);
    }
    for (unsigned i = 0; i < PARTS; i++) {
        buf_put_u32le(&b, table);
        buf_put_u32le(&b, 0);
    }
    for (unsigned i = 0; i < ITEMS; i++) {
        buf_put_u32le(&b, 0);
        buf_put_u32le(&b, BYTES);
        for (unsigned k = 0; k < 3; k++) {
            buf_put_u32le(&b, 0);
        }
    }
    buf_put_str(&b, "TTBL");
    buf_put_u32le(&b, 0);
    buf_put_u32le(&b, TEMPLATES);
    for (unsigned i = 0; i < TEMPLATES; i++) {
        buf_put_str(&b, "TEMP");
        buf_put_u32le(&b, 40);
        buf_put_u32le(&b, ITEMS);
        buf_put_u32le(&b, 0);
        buf_put_u32le(&b, items);
        buf_put_u32le(&b, 0);
        buf_put(&b, one, sizeof one);
    }
    assert_false(b.bad);
    assert_err(wevt_elements(b.p, b.n, NULL, 0, &sink), ERR_CORRUPT);
    assert_true(given > ITEMS && given <= b.n / 8 + 2);
    buf_fini(&b);
}

/* -- a program cut anywhere -- */

#define PROGRAM "tests/fuzz/seeds/fuzz_wevt/structs.dll" /* two kinds of maps, and a struct */

struct bytes {
    const uint8_t *p;
    size_t n;
};

static bool bytes_read(void *ctx, uint64_t offset, void *p, size_t n)
{
    const struct bytes *b = ctx;

    if (offset > b->n || n > b->n - offset) {
        return false;
    }
    memcpy(p, b->p + offset, n);
    return true;
}

/* What elements were given. */
struct given {
    size_t elements, open, structs, values, texts;
};

static void given_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct given *g = ctx;

    g->elements++;
    g->open++;
    g->structs += strcmp(name, "struct") == 0;
    g->values += strcmp(name, "map") == 0;
    for (; attributes[0]; attributes += 2) {
        g->texts += strcmp(attributes[0], "message") == 0 && attributes[1][0];
    }
}

static void given_end(void *ctx, const char *name)
{
    struct given *g = ctx;

    (void)name;
    assert_true(g->open > 0);
    g->open--;
}

/* Both from blocks that end where they do, so that a byte too much is seen. */
static struct given elements_of(struct bytes resource, struct bytes messages, enum err *e)
{
    struct given g = {0};
    const struct wevt_sink sink = {&g, given_begin, given_end, count_on};
    uint8_t *p = malloc(resource.n + 1), *m = malloc(messages.n + 1);

    assert_true(p && m);
    memcpy(p + 1, resource.p, resource.n);
    memcpy(m + 1, messages.p, messages.n);
    *e = wevt_elements(p + 1, resource.n, m + 1, messages.n, &sink);
    assert_int_equal(g.open, 0);
    free(p);
    free(m);
    return g;
}

static struct bytes resource_of(struct bytes program, enum wevt_kind kind, enum err *e)
{
    const struct wevt_input input = {bytes_read, &program};
    uint8_t *p = NULL;
    size_t n = 0;

    *e = wevt_resource(&input, kind, &p, &n);
    return (struct bytes){p, *e ? 0 : n};
}

static void assert_less(const struct given *less, const struct given *whole)
{
    assert_true(less->elements <= whole->elements && less->structs <= whole->structs);
    assert_true(less->values <= whole->values && less->texts <= whole->texts);
}

static void a_program_cut_anywhere_gives_nothing_or_less(void **state)
{
    static uint8_t file[4096];
    FILE *f = fopen(PROGRAM, "rb");
    struct bytes program, resource, messages, cut;
    struct given whole, less;
    bool corrupt = false;
    enum err e;

    (void)state;
    assert_non_null(f);
    program = (struct bytes){file, fread(file, 1, sizeof file, f)};
    (void)fclose(f);
    assert_in_range(program.n, 1000, sizeof file - 1);
    for (size_t n = 0; n < program.n; n++) {
        cut = resource_of((struct bytes){file, n}, WEVT_MESSAGES, &e);
        mem_free((void *)(uintptr_t)cut.p);
        cut = resource_of((struct bytes){file, n}, WEVT_TEMPLATE, &e);
        mem_free((void *)(uintptr_t)cut.p);
        corrupt |= e == ERR_CORRUPT;
    }
    assert_true(corrupt);
    resource = resource_of(program, WEVT_TEMPLATE, &e);
    assert_ok(e);
    messages = resource_of(program, WEVT_MESSAGES, &e);
    assert_ok(e);
    whole = elements_of(resource, messages, &e);
    assert_ok(e);
    assert_int_equal(whole.structs, 1);
    assert_int_equal(whole.values, 3);
    assert_int_equal(whole.texts, 3);
    for (size_t n = 0; n < resource.n; n++) {
        less = elements_of((struct bytes){resource.p, n}, messages, &e);
        assert_less(&less, &whole);
        assert_true(e == ERR_CORRUPT || less.elements == whole.elements);
    }
    for (size_t n = 0; n < messages.n; n++) {
        less = elements_of(resource, (struct bytes){messages.p, n}, &e);
        assert_ok(e); /* a value without its text is not there */
        assert_int_equal(less.elements - less.values, whole.elements - whole.values);
        assert_less(&less, &whole);
    }
    mem_free((void *)(uintptr_t)resource.p);
    mem_free((void *)(uintptr_t)messages.p);
}

#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_file_gives_each_of_its_providers_its_own_events),
        T(a_file_cut_anywhere_gives_nothing_or_less),
        cmocka_unit_test(every_event_of_the_tables_can_be_put),
        cmocka_unit_test(providers_have_names),
        cmocka_unit_test(a_resource_gives_no_more_elements_than_its_bytes_can_hold),
        cmocka_unit_test(a_program_cut_anywhere_gives_nothing_or_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
