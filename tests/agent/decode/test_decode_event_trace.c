#include "tests/agent/decode/payload.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/mem.h"

#define MASKS \
    "GroupMask1 GroupMask2 GroupMask3 GroupMask4 GroupMask5 GroupMask6 GroupMask7 GroupMask8"

static const struct payload_row rows[] = {
    {5, 1, "44444444", MASKS, "Extension", EV_KIND_COUNT},
    {5, 2, "444444444", MASKS " KernelEventVersion", "Extension", EV_KIND_COUNT},
    {32, 2, "444444444", MASKS " KernelEventVersion", "EndExtension", EV_KIND_COUNT},
    {64, 2, "G4a", "GuidSig Age PdbName", "DbgIdRSDS", EV_KIND_COUNT},
    {80, 2, "2248GG", "EventVersion Reserved PartitionType QpcOffsetFromRoot PartitionId ParentId",
     "PartitionInfoExtension", EV_KIND_COUNT},
    {66, 2, "a", "BuildString", "BuildInfo", EV_KIND_COUNT},
};

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_event_trace_class, rows, COUNT_OF(rows), NULL);
}

struct seen {
    unsigned values, depth, deepest;
    struct str last;
    char text[32];
};

static void on_value(void *ctx, const struct value *v)
{
    struct seen *s = ctx;

    s->values++;
    if (v->kind == VALUE_TEXT) {
        assert_true(v->v.text.n < sizeof s->text);
        memcpy(s->text, v->v.text.p, v->v.text.n);
        s->text[v->v.text.n] = 0;
    }
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct seen *s = ctx;

    assert_int_equal(group, VALUE_STRUCT);
    assert_true(name.n > 0);
    s->depth++;
    s->deepest = s->depth > s->deepest ? s->depth : s->deepest;
}

static void on_end(void *ctx)
{
    struct seen *s = ctx;

    assert_true(s->depth > 0);
    s->depth--;
}

/* 0x110 bytes with 32-bit pointers, 0x118 with 64, then two names that may be missing. Wherever it
 * is cut, every struct that was opened is closed. */
static void a_header_may_lack_its_names_only(void **state)
{
    for (unsigned pointer = 4; pointer <= 8; pointer += 4) {
        static const char names[] = "l\0o\0g\0\0\0f\0\0";
        size_t fixed = pointer == 8 ? 0x118 : 0x110, whole = fixed + sizeof names;
        const struct layout *l =
            layout_find(decode_event_trace_class.layouts, decode_event_trace_class.n_layouts, 0, 2);

        for (size_t n = 0; n <= whole; n++) {
            uint8_t *part = mem_zalloc(n + 1);
            struct raw_event raw = {.version = 2, .pointer_size = (uint8_t)pointer};
            struct seen s = {0};
            const struct value_sink sink = {&s, on_value, on_begin, on_end};
            struct decode_text text;
            size_t left;

            for (size_t i = fixed; i < n; i++) {
                part[i] = (uint8_t)names[i - fixed];
            }
            raw.payload = mem_dup(part, n);
            raw.payload_n = n;
            assert_err(layout_read(l, &raw, &sink, &text, &left), n < fixed ? ERR_CORRUPT : ERR_OK);
            assert_int_equal(s.depth, 0);
            if (n >= fixed) {
                assert_int_equal(s.deepest, 2);
                assert_string_equal(s.text, n >= whole ? "f" : n >= fixed + 8 ? "log" : "");
            }
            mem_free((void *)raw.payload);
            mem_free(part);
        }
    }
}

static void lost_events_are_facts_whatever_they_carry(void **state)
{
    static const struct {
        uint8_t opcode;
        uint64_t events, buffers;
    } lost[] = {{32, 1, 0}, {33, 0, 1}, {34, 0, 0}};
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(lost); i++) {
        struct raw_event raw = {.form = RAW_CLASSIC,
                                .guid = ETW_CLASS_LOST_EVENT,
                                .opcode = lost[i].opcode,
                                .version = (uint8_t)i,
                                .pointer_size = 8};
        struct event ev;

        assert_ok(decode_event(d, &raw, &ev));
        assert_int_equal(ev.kind, EV_LOST);
        assert_true(ev.u.lost.all_cpus);
        assert_int_equal(ev.u.lost.events, lost[i].events);
        assert_int_equal(ev.u.lost.buffers, lost[i].buffers);
    }
    decode_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(a_header_may_lack_its_names_only),
        cmocka_unit_test(lost_events_are_facts_whatever_they_carry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
