#include "tests/support/t.h"

#include <string.h>

#include "agent/decode/describe.h"
#include "agent/decode/layout_more.h"
#include "agent/source/etw_guid.h"
#include "common/base/mem.h"

#define LENGTHS 400       /* bytes; each of these is tried */
#define LONGEST (1 << 14) /* more than any table asks for */

struct seen {
    unsigned values, depth;
    uint64_t last;
    char names[256];
    size_t n; /* bytes of names */
};

static void on_value(void *ctx, const struct value *v)
{
    struct seen *s = ctx;

    if (s->values++ < 8 && s->n + v->name.n + 2 < sizeof s->names) {
        memcpy(s->names + s->n, v->name.p, v->name.n);
        s->n += v->name.n;
        s->names[s->n++] = ' ';
    }
    s->last = v->kind == VALUE_UINT || v->kind == VALUE_HEX ? v->v.u : s->last;
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

    assert_true(s->depth > 0);
    s->depth--;
}

static enum err read_zeros(const struct layout *l, uint8_t version, unsigned pointer, size_t n)
{
    uint8_t *part = mem_zalloc(n + 1), *payload = mem_dup(part, n);
    struct raw_event raw = {
        .version = version, .pointer_size = (uint8_t)pointer, .payload = payload, .payload_n = n};
    struct seen s = {0};
    const struct value_sink sink = {&s, on_value, on_begin, on_end};
    static struct decode_text text;
    size_t left;
    enum err e = layout_read(l, &raw, &sink, &text, &left);

    assert_int_equal(s.depth, 0);
    assert_true(left <= n);
    mem_free(payload);
    mem_free(part);
    return e;
}

/* Short payloads are refused, and from some length on all are taken. */
static void every_table_takes_what_is_long_enough_and_nothing_shorter(void **state)
{
    const struct decode_class *class;
    unsigned n_tables = 0;

    (void)state;
    for (size_t i = 0; (class = layout_more_class(i)) != NULL; i++) {
        for (size_t k = 0; k < class->n_layouts; k++, n_tables++) {
            const struct layout *l = &class->layouts[k];

            for (unsigned pointer = 4; pointer <= 8; pointer += 4) {
                bool taken = false;

                for (size_t n = 0; n <= LENGTHS; n++) {
                    enum err e = read_zeros(l, l->first, pointer, n);

                    assert_true(e == ERR_OK || (e == ERR_CORRUPT && !taken));
                    taken = e == ERR_OK;
                }
                assert_ok(read_zeros(l, l->first, pointer, LONGEST));
            }
        }
    }
    assert_true(n_tables > 250);
}

/* A table behind one of decode_class.h, or behind an earlier one, would never be read. */
static void every_table_is_reached(void **state)
{
    const struct decode_class *class;

    (void)state;
    for (size_t i = 0; (class = layout_more_class(i)) != NULL; i++) {
        struct raw_event raw = {.form = class->form};
        const struct decode_class *counts, *found = NULL;

        memcpy(raw.guid, class->guid, sizeof raw.guid);
        counts = decode_class_find(&raw);
        for (size_t k = 0; k < class->n_layouts; k++) {
            bool reached = false;

            raw.opcode = (uint8_t) class->layouts[k].opcode;
            raw.id = class->layouts[k].opcode;
            for (unsigned v = 0; v < 256 && !reached; v++) {
                raw.version = (uint8_t)v;
                reached = layout_more_find(&raw, &found) == &class->layouts[k] &&
                          (!counts || !layout_find(counts->layouts, counts->n_layouts,
                                                   decode_number(&raw), raw.version));
            }
            assert_ptr_equal(found, class);
            if (!reached) {
                fail_msg("%s %u %s is never read", class->name, class->layouts[k].opcode,
                         class->layouts[k].name);
            }
        }
    }
}

static void a_handle_that_is_made_has_named_values(void **state)
{
    static const uint8_t payload[] = {1, 0, 0, 0, 0,   0xff, 0xff, 0xff, 0x44, 0,
                                      0, 0, 7, 0, 'A', 0,    'b',  0,    0,    0};
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .guid = ETW_CLASS_OBJECT,
                            .opcode = 32,
                            .version = 2,
                            .pointer_size = 8,
                            .payload = payload,
                            .payload_n = sizeof payload};
    struct seen s = {0};
    const struct value_sink sink = {&s, on_value, on_begin, on_end};
    struct describe_conf conf = {0};
    struct described is;
    struct describe *d;

    assert_ok(describe_create(&d, &conf, NULL));
    assert_ok(describe_values(d, &raw, &sink, &is));
    assert_int_equal(is.by, DESCRIBE_LAYOUT);
    assert_memory_equal(is.provider.p, "Object", is.provider.n);
    assert_memory_equal(is.name.p, "CreateHandle", is.name.n);
    assert_int_equal(is.left, 0);
    assert_string_equal(s.names, "Object Handle ObjectType ObjectName ");
    assert_int_equal(s.last, 7);
    raw.opcode = 99;
    assert_err(describe_values(d, &raw, &sink, &is), ERR_NOTFOUND);
    assert_memory_equal(is.provider.p, "Object", is.provider.n);
    describe_destroy(d);
}

/* PageFault 123: u32, what aligns a pointer, address, count. */
static void a_pointer_behind_a_number_is_aligned_as_it_is_wide(void **state)
{
    static const uint8_t wide[] = {1, 0, 0, 0, 0xee, 0xee, 0xee, 0xee, 2, 0, 0, 0,
                                   0, 0, 0, 0, 3,    0,    0,    0,    0, 0, 0, 0};
    static const uint8_t narrow[] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0};
    struct raw_event raw = {.form = RAW_CLASSIC, .guid = ETW_CLASS_PAGE_FAULT, .opcode = 123};
    const struct decode_class *class;
    struct decode_text text = {0};
    const struct layout *l = layout_more_find(&raw, &class);

    (void)state;
    assert_non_null(l);
    for (unsigned pointer = 4; pointer <= 8; pointer += 4) {
        struct seen s = {0};
        const struct value_sink sink = {&s, on_value, on_begin, on_end};
        size_t left;

        raw.pointer_size = (uint8_t)pointer;
        raw.payload = pointer == 8 ? wide : narrow;
        raw.payload_n = pointer == 8 ? sizeof wide : sizeof narrow;
        assert_ok(layout_read(l, &raw, &sink, &text, &left));
        assert_string_equal(s.names, "UsageType VirtualAddress PageCount ");
        assert_int_equal(s.last, 3);
        assert_int_equal(left, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_takes_what_is_long_enough_and_nothing_shorter),
        cmocka_unit_test(every_table_is_reached),
        cmocka_unit_test(a_handle_that_is_made_has_named_values),
        cmocka_unit_test(a_pointer_behind_a_number_is_aligned_as_it_is_wide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
