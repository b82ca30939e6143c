#include "agent/decode/schema/describe_manifest.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/describe.h"
#include "common/base/mem.h"
#include "tests/agent/decode/schema/values.h"
#include "tests/support/t.h"

#define XML_MAX ((size_t)8 << 20)

static const uint8_t provider[16] = {9, 8, 7};

/* What goes into <provider> and into the string table. */
#define DOCUMENT(inside, strings)                                                                 \
    "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">"         \
    "<instrumentation><events><provider name=\"Vendor-Source\" guid=\"{0}\" symbol=\"V\">" inside \
    "</provider></events></instrumentation><localization><resources culture=\"en\">"              \
    "<stringTable>" strings "</stringTable></resources></localization>"                           \
    "</instrumentationManifest>"

static struct describe *describe;
static struct values values;

static int set_up(void **state)
{
    values_init(&values);
    return describe_create(&describe, &(struct describe_conf){0}, NULL) != ERR_OK;
}

static int tear_down(void **state)
{
    describe_destroy(describe);
    values_fini(&values);
    return 0;
}

struct chunk {
    uint16_t total, number;
    uint32_t pid, tid;
};

static struct describe_stats learn(struct describe *d, struct chunk k, const char *text, size_t n)
{
    struct raw_event raw = {.form = RAW_MANIFEST, .id = 0xfffe, .pid = k.pid, .tid = k.tid};
    struct describe_stats stats;
    struct buf payload;

    buf_init(&payload, XML_MAX);
    buf_put(&payload, "\x01\x01\x00\x5b", 4);
    buf_put_u16le(&payload, k.total);
    buf_put_u16le(&payload, k.number);
    buf_put(&payload, text, n);
    assert_ok(payload.bad);
    memcpy(raw.guid, provider, sizeof provider);
    raw.payload = payload.p;
    raw.payload_n = payload.n;
    describe_learn(d, &raw);
    buf_fini(&payload);
    describe_stats(d, &stats);
    return stats;
}

static const struct chunk whole = {1, 0, 1, 1};

static const char *event(uint16_t id, const uint8_t *payload, size_t n, struct described *d)
{
    struct raw_event raw = {
        .form = RAW_MANIFEST, .id = id, .pointer_size = 4, .payload = payload, .payload_n = n};
    const struct value_sink sink = values_sink(&values);

    memcpy(raw.guid, provider, sizeof provider);
    assert_ok(describe_values(describe, &raw, &sink, d));
    return buf_cstr(&values.text);
}

static const char document[] = DOCUMENT(
    "<tasks><task name=\"Request\" value=\"1\"><opcodes>"
    "<opcode name=\"Slow\" value=\"11\"/></opcodes></task></tasks>"
    "<maps><valueMap name=\"Level\"><map value=\"1\" message=\"$(string.level_low)\"/>"
    "<map value=\"0x2\" message=\"plain\"/></valueMap>"
    "<bitMap name=\"Flags\"><map value=\"1\" message=\"$(string.flag_a)\"/>"
    "<map value=\"2\" message=\"$(string.flag_b)\"/></bitMap></maps>"
    "<events>"
    "<event value=\"1\" version=\"0\" symbol=\"RequestStart\" task=\"Request\" "
    "opcode=\"win:Start\" template=\"t1\"/>"
    "<event value=\"2\" version=\"0\" symbol=\"RequestSlow\" task=\"Request\" opcode=\"Slow\"/>"
    "<event value=\"3\" symbol=\"Alone\" template=\"t3\"/>"
    "<event value=\"4\" symbol=\"Request\" task=\"Request\" template=\"t4\"/>"
    "<event value=\"5\" symbol=\"Types\" template=\"t5\"/>"
    "</events>"
    "<templates>"
    "<template tid=\"t1\"><data name=\"url\" inType=\"win:UnicodeString\"/>"
    "<data name=\"level\" inType=\"win:UInt32\" map=\"Level\"/>"
    "<data name=\"flags\" inType=\"win:UInt32\" map=\"Flags\"/></template>"
    "<template tid=\"t3\"><data name=\"n\" inType=\"win:UInt16\"/>"
    "<data name=\"v\" inType=\"win:Int32\" count=\"n\"/>"
    "<data name=\"size\" inType=\"win:UInt32\"/>"
    "<data name=\"b\" inType=\"win:Binary\" length=\"size\"/>"
    "<data name=\"t\" inType=\"win:AnsiString\" length=\"2\"/></template>"
    "<template tid=\"t4\"><data name=\"n\" inType=\"win:UInt8\"/>"
    "<struct name=\"s\" count=\"n\"><data name=\"a\" inType=\"win:UInt8\"/>"
    "<data name=\"b\" inType=\"win:UInt8\" count=\"2\"/></struct>"
    "<data name=\"c\" inType=\"win:UInt8\"/></template>"
    "<template tid=\"t5\"><data name=\"bool\" inType=\"win:Boolean\"/>"
    "<data name=\"p\" inType=\"win:Pointer\"/>"
    "<data name=\"port\" inType=\"win:UInt16\" outType=\"win:Port\"/>"
    "<data name=\"ip\" inType=\"win:UInt32\" outType=\"win:IPv4\"/>"
    "<data name=\"hex\" inType=\"win:Int32\" outType=\"win:HexInt32\"/>"
    "<data name=\"st\" inType=\"win:UInt32\" outType=\"win:NTSTATUS\"/>"
    "<data name=\"d\" inType=\"win:Double\"/></template>"
    "</templates>",
    "<string id=\"level_low\" value=\"Low &amp; slow\"/>"
    "<string id=\"flag_a\" value=\"A\"/><string id=\"flag_b\" value=\"B\"/>");

static void events_are_read_by_their_manifest(void **state)
{
    static const struct {
        uint16_t id;
        const char *task, *name;
        const uint8_t *payload;
        size_t n;
        const char *expected;
    } rows[] = {
        {1, "Request", "Start", BYTES("/\0\0\0\x01\0\0\0\x03\0\0\0"),
         "url='/' level='Low & slow' flags='A|B'"},
        {1, "Request", "Start", BYTES("/\0\0\0\x02\0\0\0\x08\0\0\0"),
         "url='/' level='plain' flags=8"},
        {2, "Request", "Slow", BYTES(""), ""},
        {3, "", "Alone", BYTES("\x02\0\x01\0\0\0\xff\xff\xff\xff\x03\0\0\0\x0a\x0b\x0chi"),
         "n=2 v=[1 -1] size=3 b=#0a0b0c t='hi'"},
        {4, "Request", "", BYTES("\x02\x01\x02\x03\x04\x05\x06\x07"),
         "n=2 s=[{a=1 b=[2 3]] {a=4 b=[5 6]]] c=7"},
        {5, "", "Types",
         BYTES(
             "\x01\0\0\0\x10\0\0\0\x01\xbb\x0a\0\0\x01\xff\0\0\0\x22\0\0\xc0\0\0\0\0\0\0\xe0\x3f"),
         "bool=true p=0x10 port=443 ip=ip:0a000001 hex=0xff st=0xc0000022 d=0.5"},
    };

    assert_int_equal(learn(describe, whole, document, sizeof document - 1).schemas, 5);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct described d;

        assert_string_equal(event(rows[i].id, rows[i].payload, rows[i].n, &d), rows[i].expected);
        assert_int_equal(d.by, DESCRIBE_MANIFEST);
        assert_int_equal(d.left, 0);
        assert_true(str_eq(d.provider, str_make("Vendor-Source")));
        assert_true(str_eq(d.task, str_make(rows[i].task)));
        assert_true(str_eq(d.name, str_make(rows[i].name)));
    }
}

static void a_manifest_told_again_is_known(void **state)
{
    struct describe_stats stats;

    stats = learn(describe, (struct chunk){1, 0, 77, 78}, document, sizeof document - 1);
    assert_int_equal(stats.schemas, 5);
    assert_int_equal(stats.damaged, 0);
}

/* Sends `document` in three chunks, in the order given (9 ends it). */
static struct describe_stats chunks(struct describe *d, const uint8_t *order, uint32_t pid)
{
    const size_t n = sizeof document - 1, third = n / 3;
    struct describe_stats stats = {0};

    for (; *order != 9; order++) {
        size_t at = *order * third;

        stats = learn(d, (struct chunk){3, *order, pid, 5}, document + at,
                      *order == 2 ? n - at : third);
    }
    return stats;
}

static void chunks_make_a_manifest_in_their_order_only(void **state)
{
    static const struct {
        uint8_t order[8];
        uint64_t schemas, damaged, unfinished;
    } rows[] = {
        {{0, 1, 2, 9}, 5, 0, 0},
        {{0, 1, 9}, 0, 0, 1},
        {{1, 2, 9}, 0, 2, 0},
        {{0, 2, 9}, 0, 1, 0},
        {{0, 2, 1, 9}, 0, 2, 0},
        {{0, 1, 1, 2, 9}, 0, 2, 0},
        {{0, 0, 1, 2, 9}, 5, 1, 0}, /* begun twice: the second is whole */
        {{0, 1, 2, 0, 1, 2, 9}, 5, 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct describe_stats stats;
        struct describe *d;

        assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
        stats = chunks(d, rows[i].order, 1);
        assert_int_equal(stats.schemas, rows[i].schemas);
        assert_int_equal(stats.damaged, rows[i].damaged);
        assert_int_equal(stats.unfinished, rows[i].unfinished);
        describe_destroy(d);
    }
}

static void threads_tell_their_manifests_side_by_side(void **state)
{
    const size_t half = sizeof document / 2;
    struct describe_stats stats;
    struct describe *d;

    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    (void)learn(d, (struct chunk){2, 0, 1, 1}, document, half);
    (void)learn(d, (struct chunk){2, 0, 1, 2}, document, half);
    stats = learn(d, (struct chunk){2, 1, 1, 1}, document + half, sizeof document - 1 - half);
    assert_int_equal(stats.schemas, 5);
    stats = learn(d, (struct chunk){2, 1, 1, 2}, document + half, sizeof document - 1 - half);
    assert_int_equal(stats.unfinished, 0);
    assert_int_equal(stats.damaged, 0);
    describe_destroy(d);
}

static void half_told_manifests_are_bounded(void **state)
{
    struct describe_stats stats = {0};
    struct describe *d;

    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    for (uint32_t tid = 0; tid < 100; tid++) {
        stats = learn(d, (struct chunk){2, 0, 1, tid}, document, 100);
    }
    assert_int_equal(stats.unfinished, MANIFEST_OPEN_MAX);
    assert_int_equal(stats.damaged, 100 - MANIFEST_OPEN_MAX);
    describe_destroy(d);
}

static void every_shorter_document_is_damaged(void **state)
{
    struct describe *d;

    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    for (size_t n = 0; n < sizeof document - 1; n++) {
        assert_int_equal(learn(d, whole, document, n).damaged, n + 1);
    }
    describe_destroy(d);
}

static void hostile_documents_are_damaged(void **state)
{
    static const char *const documents[] = {
        "",
        "no xml",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        "<a>&undefined;</a>",
        "<a><b></a></b>",
        DOCUMENT("<templates><template tid=\"t\"><data name=\"a\" inType=\"win:What\"/></template>"
                 "</templates>",
                 ""),
        DOCUMENT("<templates><template tid=\"t\"><data name=\"a\" inType=\"win:UInt8\" "
                 "count=\"nobody\"/></template></templates>",
                 ""),
        DOCUMENT("<templates><template tid=\"t\"><data name=\"a\" inType=\"win:UInt8\" "
                 "count=\"70000\"/></template></templates>",
                 ""),
        DOCUMENT("<events><event value=\"1\" template=\"nobody\"/></events>", ""),
        /* within its own template: not there yet */
        DOCUMENT("<events><event value=\"1\" template=\"t\"/></events><templates>"
                 "<template tid=\"t\"><struct name=\"a\" count=\"b\"><data name=\"b\" "
                 "inType=\"win:UInt8\"/></struct></template></templates>",
                 ""),
    };
    struct describe *d;

    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    for (size_t i = 0; i < COUNT_OF(documents); i++) {
        struct describe_stats stats = learn(d, whole, documents[i], strlen(documents[i]));

        assert_int_equal(stats.damaged, i + 1);
        assert_int_equal(stats.schemas, 0);
    }
    describe_destroy(d);
}

/* `left`, a number, `right`, n times. */
static struct describe_stats learn_repeated(const char *before, const char *left, const char *right,
                                            size_t n, const char *after)
{
    struct describe_stats stats;
    struct describe *d;
    struct buf xml;

    buf_init(&xml, XML_MAX);
    buf_put_str(&xml, before);
    for (size_t i = 0; i < n; i++) {
        buf_printf(&xml, "%s%u%s", left, (unsigned)i, right);
    }
    buf_put_str(&xml, after);
    assert_ok(xml.bad);
    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    stats = learn(d, whole, (const char *)xml.p, xml.n);
    describe_destroy(d);
    buf_fini(&xml);
    return stats;
}

static void size_depth_and_number_are_bounded(void **state)
{
    static const struct {
        const char *before, *left, *right;
        size_t n;
        const char *after;
        uint64_t schemas, refused, damaged;
    } rows[] = {
        {"", "<a", ">", 100, "", 0, 0, 1},
        {"<a>", "<event value=\"", "\"/>", 10000, "</a>", 10000, 0, 0},
        {"<a>", "<event value=\"", "\"/>", 20000, "</a>", SCHEMA_ITEMS_MAX - 1, 1, 0},
        {"<a>", "<task name=\"", "\"/>", ETW_MANIFEST_ITEMS_MAX + 1, "</a>", 0, 0, 1},
        {"<a><template tid=\"t\">", "<data name=\"f", "\" inType=\"win:UInt8\"/>",
         SCHEMA_FIELDS_MAX, "</template><event value=\"1\" template=\"t\"/></a>", 1, 0, 0},
        {"<a><template tid=\"t\">", "<data name=\"f", "\" inType=\"win:UInt8\"/>",
         SCHEMA_FIELDS_MAX + 1, "</template></a>", 0, 0, 1},
        {"<a><valueMap name=\"m\">", "<map value=\"", "\" message=\"x\"/>", SCHEMA_MAP_MAX,
         "</valueMap><event value=\"1\"/></a>", 1, 0, 0},
        {"<a><valueMap name=\"m\">", "<map value=\"", "\" message=\"x\"/>", SCHEMA_MAP_MAX + 1,
         "</valueMap></a>", 0, 0, 1},
        {"<a>", "                                        ", "", ETW_MANIFEST_XML_MAX / 40, "</a>",
         0, 0, 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct describe_stats s =
            learn_repeated(rows[i].before, rows[i].left, rows[i].right, rows[i].n, rows[i].after);

        assert_int_equal(s.schemas, rows[i].schemas);
        assert_int_equal(s.refused, rows[i].refused);
        assert_int_equal(s.damaged, rows[i].damaged);
    }
}

static void running_out_of_memory_anywhere_is_survived(void **state)
{
    bool done = false;
    long held = mem_live();

    for (long n = 0; !done; n++) {
        struct describe_stats stats = {0};
        struct describe *d;
        enum err e;

        mem_fail_after(n);
        e = describe_create(&d, &(struct describe_conf){0}, NULL);
        if (e) {
            assert_err(e, ERR_NOMEM);
        } else {
            struct raw_event raw = {.form = RAW_MANIFEST, .id = 0xfffe};
            static uint8_t payload[8 + sizeof document] = {1, 1, 0, 0x5b, 1, 0, 0, 0};

            memcpy(payload + 8, document, sizeof document - 1);
            raw.payload = payload;
            raw.payload_n = 8 + sizeof document - 1;
            describe_learn(d, &raw);
            mem_fail_after(-1);
            describe_stats(d, &stats);
            done = stats.schemas == 5;
            assert_int_equal(stats.refused + done, 1);
            describe_destroy(d);
        }
        mem_fail_after(-1);
        assert_int_equal(mem_live(), held);
    }
}

static void the_record_of_a_manifest_is_read_itself(void **state)
{
    struct raw_event raw = {.form = RAW_MANIFEST, .id = 0xfffe};
    const struct value_sink sink = values_sink(&values);
    struct described d;

    memcpy(raw.guid, provider, sizeof provider);
    raw.payload = (const uint8_t *)"\x01\x01\x00\x5b\x02\x00\x01\x00<a/>";
    raw.payload_n = 12;
    assert_ok(describe_values(describe, &raw, &sink, &d));
    assert_string_equal(buf_cstr(&values.text), "Format=1 MajorVersion=1 MinorVersion=0 Magic=91 "
                                                "TotalChunks=2 ChunkNumber=1 Manifest='<a/>'");
    assert_true(str_eq(d.name, str_make("ManifestData")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_by_their_manifest),
        cmocka_unit_test(a_manifest_told_again_is_known),
        cmocka_unit_test(chunks_make_a_manifest_in_their_order_only),
        cmocka_unit_test(threads_tell_their_manifests_side_by_side),
        cmocka_unit_test(half_told_manifests_are_bounded),
        cmocka_unit_test(every_shorter_document_is_damaged),
        cmocka_unit_test(hostile_documents_are_damaged),
        cmocka_unit_test(size_depth_and_number_are_bounded),
        cmocka_unit_test(running_out_of_memory_anywhere_is_survived),
        cmocka_unit_test(the_record_of_a_manifest_is_read_itself),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
