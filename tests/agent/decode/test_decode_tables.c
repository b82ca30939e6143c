/* The last link to decode_layouts.py, which compares the tables with every Windows: whatever a
 * table describes is written as it says, in each version and both sizes of pointers; what decode.c
 * makes of it agrees with the table field by field, and no shorter payload gives a fact. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/decode/decode_class.h"
#include "common/base/buf.h"
#include "tests/agent/decode/facts.h"

#define NEWEST       6u /* of any version that a table names, and one more */
#define SOME_TICKS   INT64_C(0x0102030405070000)
#define SOME_UTC_NS  INT64_C(1700000000000000000)
#define SOME_TIME    UINT64_C(133000000000000000) /* of FILETIME; what is added stays one */
#define PAYLOAD_MAX  4096u
#define ARRAY_TO_END 3u

static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};

static struct values values;
static struct decode_text text_room;

/* A payload under way; no two values of it are equal. */
struct filler {
    struct buf bytes;
    unsigned pointer_size, n;
    bool no_time;
};

static void put(struct filler *f, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(value >> 8 * i);

        buf_put(&f->bytes, &byte, 1);
    }
}

static void put_zeroes(struct filler *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put(f, 0, 1);
    }
}

/* Its lowest byte tells which it is, the others that all of them were read. */
static uint64_t next_number(struct filler *f)
{
    f->n++;
    return UINT64_C(0x1213141516170000) + f->n * 0x101;
}

static void put_wide(struct filler *f, size_t units)
{
    char name[16];
    size_t n = (size_t)snprintf(name, sizeof name, "w%u", ++f->n);

    n = units && n > units ? units : n;
    for (size_t i = 0; i < n; i++) {
        put(f, (uint8_t)name[i], 2);
    }
    put_zeroes(f, units ? 2 * (units - n) : 2);
}

static void put_narrow(struct filler *f)
{
    char name[16];
    int n = snprintf(name, sizeof name, "a%u", ++f->n);

    buf_put(&f->bytes, name, (size_t)n + 1);
}

static size_t number_size(const struct filler *f, unsigned type)
{
    switch (type) {
    case LAYOUT_U8:
    case LAYOUT_I8:
        return 1;
    case LAYOUT_U16:
    case LAYOUT_I16:
    case LAYOUT_PORT:
        return 2;
    case LAYOUT_U32:
    case LAYOUT_I32:
    case LAYOUT_HEX32:
    case LAYOUT_U32_OPT:
        return 4;
    case LAYOUT_U64:
    case LAYOUT_I64:
    case LAYOUT_HEX64:
    case LAYOUT_F64:
        return 8;
    case LAYOUT_PTR:
    case LAYOUT_SIZE:
    case LAYOUT_PTR_REST:
        return f->pointer_size;
    default:
        return 0;
    }
}

static void put_other(struct filler *f, const struct layout_field *field)
{
    size_t align = field->type == LAYOUT_ALIGN ? f->pointer_size : 8;

    switch (field->type) {
    case LAYOUT_BOOL8:
    case LAYOUT_BOOL32:
        put(f, 1, field->type == LAYOUT_BOOL8 ? 1 : 4);
        break;
    case LAYOUT_W:
    case LAYOUT_W_OPT:
    case LAYOUT_W_FIXED:
    case LAYOUT_W_REST:
        put_wide(f, field->type == LAYOUT_W_FIXED ? field->n : 0);
        break;
    case LAYOUT_A:
    case LAYOUT_A_REST:
        put_narrow(f);
        break;
    case LAYOUT_USER: /* TOKEN_USER: two pointers, then the SID */
        put(f, 0x1234, f->pointer_size);
        put(f, 0, f->pointer_size);
        buf_put(&f->bytes, system_sid, sizeof system_sid);
        break;
    case LAYOUT_SID:
        buf_put(&f->bytes, system_sid, sizeof system_sid);
        break;
    case LAYOUT_FILETIME:
        put(f, f->no_time ? 0 : SOME_TIME + ++f->n, 8);
        break;
    case LAYOUT_TICKS:
        put(f, (uint64_t)SOME_TICKS + ++f->n, 8);
        break;
    case LAYOUT_GUID:
    case LAYOUT_SYSTEMTIME:
    case LAYOUT_IP6:
        put(f, next_number(f), 8);
        put(f, next_number(f), 8);
        break;
    case LAYOUT_IP4:
        put(f, next_number(f), 4);
        break;
    case LAYOUT_BYTES:
    case LAYOUT_SKIP:
        put_zeroes(f, field->n);
        break;
    case LAYOUT_REST:
        put(f, next_number(f), 8);
        break;
    case LAYOUT_ALIGN8:
    case LAYOUT_ALIGN:
        put_zeroes(f, (align - f->bytes.n % align) % align);
        break;
    default: /* structs have no bytes */
        assert_true(field->type == LAYOUT_BEGIN || field->type == LAYOUT_END);
    }
}

static void fill(struct filler *f, const struct layout *l, uint8_t version)
{
    for (const struct layout_field *field = l->fields; field->name; field++) {
        size_t size = number_size(f, field->type), n = 1;

        if (version < field->first || (field->last && version > field->last)) {
            continue;
        }
        if (field->type == LAYOUT_PTR_REST || field->n == LAYOUT_TO_END) {
            n = ARRAY_TO_END;
        } else if (field->n && field->type <= LAYOUT_SIZE) {
            n = field->n;
        }
        for (; n; n--) {
            if (size) {
                put(f, next_number(f), size);
            } else {
                put_other(f, field);
            }
        }
    }
    assert_ok(f->bytes.bad);
}

static struct raw_event record_of(const struct decode_class *c, uint16_t number, uint8_t version,
                                  const struct filler *f)
{
    struct raw_event raw = {.form = c->form,
                            .version = version,
                            .opcode = (uint8_t)number,
                            .id = number,
                            .pointer_size = (uint8_t)f->pointer_size,
                            .pid = 4000,
                            .tid = 4004,
                            .wall_ns = SOME_UTC_NS,
                            .mono_ns = 1,
                            .ticks = SOME_TICKS,
                            .frequency = 10000000,
                            .payload = f->bytes.p,
                            .payload_n = f->bytes.n};

    memcpy(raw.guid, c->guid, sizeof raw.guid);
    return raw;
}

/* How much of all was tried. */
static struct {
    size_t tables, records, facts, compared;
} tried;

/* The fact of a whole payload, and none that says something else of a shorter one. */
static void decoded_as_described(struct decode *d, const struct decode_class *c,
                                 const struct layout *l, struct raw_event *raw)
{
    const struct value_sink sink = values_sink(&values);
    size_t left, differ = 0, whole = raw->payload_n;
    struct event ev;
    enum err e;

    values_reset(&values);
    e = layout_read(l, raw, &sink, &text_room, &left);
    if (e || left || values.lost) {
        fail_msg("%s %u version %u: %s, %u bytes left", c->name, l->opcode, raw->version,
                 err_name(e), (unsigned)left);
    }
    e = decode_event(d, raw, &ev);
    tried.records++;
    if (e == ERR_OK) {
        tried.facts++;
        tried.compared += facts_agree(&ev, &values, &differ);
    }
    if ((e && e != ERR_NOTFOUND) || differ) {
        fail_msg("%s %u version %u, pointers of %u: %s", c->name, l->opcode, raw->version,
                 raw->pointer_size, e ? err_name(e) : "see above");
    }
    for (raw->payload_n = 0; raw->payload_n < whole; raw->payload_n++) {
        values_reset(&values);
        if (layout_read(l, raw, &sink, &text_room, &left) && decode_event(d, raw, &ev) == ERR_OK) {
            fail_msg("%s %u version %u, pointers of %u: a fact of %u bytes, the table needs more",
                     c->name, l->opcode, raw->version, raw->pointer_size, (unsigned)raw->payload_n);
        }
    }
}

static void try_table(struct decode *d, const struct decode_class *c, const struct layout *l)
{
    unsigned last = l->last ? l->last : l->first > NEWEST ? l->first : NEWEST;

    tried.tables++;
    for (unsigned version = l->first; version <= last; version++) {
        if (layout_find(c->layouts, c->n_layouts, l->opcode, (uint8_t)version) != l) {
            continue; /* a newer table is for these */
        }
        for (unsigned pointer_size = 4; pointer_size <= 8; pointer_size += 4) {
            /* A classic end has its record's own time, whatever version 5 says of it. */
            struct filler f = {.pointer_size = pointer_size,
                               .no_time = c == &decode_process_class && l->opcode == 2};
            struct raw_event raw;

            buf_init(&f.bytes, PAYLOAD_MAX);
            fill(&f, l, (uint8_t)version);
            raw = record_of(c, l->opcode, (uint8_t)version, &f);
            decoded_as_described(d, c, l, &raw);
            buf_fini(&f.bytes);
        }
    }
}

static void every_table_is_decoded_as_it_says(void **state)
{
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < decode_classes_n; i++) {
        for (size_t k = 0; k < decode_classes[i]->n_layouts; k++) {
            try_table(d, decode_classes[i], &decode_classes[i]->layouts[k]);
        }
    }
    decode_destroy(d);
    printf("%zu tables, %zu payloads, %zu facts, %zu values compared\n", tried.tables,
           tried.records, tried.facts, tried.compared);
    assert_true(tried.facts > 500 && tried.compared > 1000);
}

/* Nothing is made into a fact by another idea of its fields than a table's. */
static void every_fact_has_a_table(void **state)
{
    for (size_t i = 0; i < decode_classes_n; i++) {
        const struct decode_class *c = decode_classes[i];

        for (size_t k = 0; k < c->n_ops; k++) {
            const struct decode_op *op = &c->ops[k];

            if (!layout_find(c->layouts, c->n_layouts, op->opcode, op->first_version)) {
                fail_msg("%s %u version %u: no table", c->name, op->opcode, op->first_version);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_is_decoded_as_it_says),
        cmocka_unit_test(every_fact_has_a_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
