/* What our own provider writes is what decoders of such events read: every name, type and value. */
#include "tests/support/t.h"

#include <stdlib.h>
#include <string.h>

#include "agent/decode/schema/describe_tracelogging.h"
#include "agent/forward/forward.h"
#include "agent/own/own.h"
#include "agent/own/own_event.h"
#include "common/base/mem.h"
#include "common/text/value_text.h"

static size_t put_item(uint8_t *p, unsigned type, const uint8_t *data, size_t n)
{
    size_t size = (8 + n + 7) / 8 * 8;
    const uint16_t head[4] = {(uint16_t)size, (uint16_t)type, 0, (uint16_t)n};

    memset(p, 0, size);
    memcpy(p, head, sizeof head);
    memcpy(p + 8, data, n);
    return size;
}

/* As the system makes a record of an event, in extended items 11 and 12. */
static struct raw_event record_of(const struct own_event *e, uint8_t ext[1024])
{
    static const uint8_t guid[16] = OWN_GUID;
    uint8_t traits[64];
    size_t n = own_event_traits(traits, sizeof traits, OWN_PROVIDER);
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .pointer_size = 8,
                            .level = 4,
                            .opcode = e->opcode,
                            .pid = 1,
                            .tid = 2};

    memcpy(raw.guid, guid, sizeof raw.guid);
    raw.ext = ext;
    raw.ext_n = put_item(ext, 11, e->schema, e->schema_n);
    raw.ext_n += put_item(ext + raw.ext_n, 12, traits, n);
    raw.payload = e->payload;
    raw.payload_n = e->payload_n;
    return raw;
}

static void what_is_written_is_what_is_read(void **state)
{
    static const char *const all[] = {"procfleet"};
    const struct forward_conf conf = {.providers = all, .n_providers = 1};
    const struct own_field fields[] = {
        {"stage", OWN_TEXT, 0, {"forw\0x", 6}},
        {"reason", OWN_TEXT, 0, {"", 0}},
        {"count", OWN_NUMBER, UINT64_C(0x1122334455667788), {NULL, 0}},
        {"id", OWN_ID, 0, {"\x04\x03\x02\x01\x06\x05\x08\x07\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10", 16}},
    };
    struct own_event e;
    uint8_t ext[1024];
    struct raw_event raw;
    struct tracelogging *t = malloc(sizeof *t);
    struct value_people people;
    struct value_sink sink;
    struct life_event ev;
    struct forward *f;
    struct errmsg why;
    struct buf b;

    assert_non_null(t);
    own_event_make(&e, "Loss", fields, COUNT_OF(fields));
    raw = record_of(&e, ext);
    assert_ok(describe_tracelogging_read(t, &raw));
    assert_true(str_eq(t->event.provider, str_make("procfleet")));
    assert_true(str_eq(t->event.name, str_make("Loss")));
    assert_ok(forward_create(&f, &conf, &why));
    assert_true(forward_takes(f, &raw));
    assert_ok(forward_event(f, &raw, NULL, &ev));
    buf_init(&b, 4096);
    sink = value_text_people(&people, &b);
    assert_ok(event_values_read(ev.type->fields, ev.type->n_fields, ev.values, &sink));
    assert_string_equal(buf_cstr(&b), "stage=\"forw\" reason=\"\" count=1234605616436508552 "
                                      "id=01020304-0506-0708-090a-0b0c0d0e0f10");
    buf_fini(&b);
    forward_destroy(f);
    free(t);
}

static void long_texts_are_cut_between_characters(void **state)
{
    char text[OWN_EVENT_TEXT + 8];
    struct own_field field = {"text", OWN_TEXT, 0, {text, sizeof text}};
    struct own_event e;

    memset(text, 'x', sizeof text);
    own_event_make(&e, "Mark", &field, 1);
    assert_int_equal(e.payload_n, OWN_EVENT_TEXT + 1);
    memcpy(text + OWN_EVENT_TEXT - 1, "\xe2\x82\xac", 3); /* the last that there is room for */
    own_event_make(&e, "Mark", &field, 1);
    assert_int_equal(e.payload_n, OWN_EVENT_TEXT);
    assert_int_equal(e.payload[OWN_EVENT_TEXT - 1], 0);
}

/* TRACE_EVENT_INFO of event 5 of a provider whose GUID is all 0x44: one number of 32 bits. */
static size_t schema_make(uint8_t p[256])
{
    static const uint8_t provider[] = "M\0y\0\0", field[] = "n\0\0";

    memset(p, 0, 256);
    memset(p, 0x44, 16);
    p[32] = 5;
    p[52] = 136;
    p[100] = p[104] = 1;
    p[112 + 4] = 144;
    p[112 + 8] = 8; /* u32 */
    p[112 + 16] = 1;
    memcpy(p + 136, provider, sizeof provider);
    memcpy(p + 144, field, sizeof field);
    return 148;
}

/* What a recording was told of an event makes it readable; the event that tells is none itself. */
static void a_schema_that_was_written_is_learnt(void **state)
{
    static const char *const all[] = {"My"};
    const struct forward_conf conf = {.providers = all, .n_providers = 1};
    struct raw_event raw, plain = {.form = RAW_MANIFEST,
                                   .id = 5,
                                   .pointer_size = 8,
                                   .payload = (const uint8_t *)"\x07\0\0\0",
                                   .payload_n = 4};
    struct own_event *e = malloc(sizeof *e);
    uint8_t ext[1024], info[256];
    struct own_field field = {"Info", OWN_BYTES, 0, {(const char *)info, schema_make(info)}};
    struct life_event ev;
    struct forward *f;
    struct errmsg why;

    assert_non_null(e);
    memset(plain.guid, 0x44, sizeof plain.guid);
    own_event_make(e, "Schema", &field, 1);
    e->opcode = ETW_OWN_SCHEMA;
    raw = record_of(e, ext);
    assert_ok(forward_create(&f, &conf, &why));
    assert_false(forward_takes(f, &plain));
    assert_false(forward_takes(f, &raw));
    assert_true(forward_takes(f, &plain));
    assert_ok(forward_event(f, &plain, NULL, &ev));
    assert_true(str_eq(ev.type->provider, str_make("My")));
    assert_true(str_eq(ev.type->fields[0], str_make("n")));
    forward_destroy(f);
    for (size_t n = 0; n < e->payload_n; n++) { /* cut: nothing is learnt, nothing is wrong */
        raw.payload_n = n;
        assert_ok(forward_create(&f, &conf, &why));
        assert_false(forward_takes(f, &raw));
        assert_false(forward_takes(f, &plain));
        forward_destroy(f);
    }
    free(e);
}

/* Nobody needs to know whether there is a provider. */
static void without_a_provider_nothing_happens(void **state)
{
    static const struct ledger_row row = {{"batch", 5}, {"nomem", 5}, 7};

    assert_false(own_listens(NULL));
    own_mark(NULL, str_make("x"), str_make(""));
    own_level(NULL, 1, 2, "x");
    own_source(NULL, "live", str_make("x"));
    own_losses(NULL, &row, 1);
    own_image(NULL, &(struct own_image){.pid = 1});
    own_schema(NULL, ETW_OWN_SCHEMA, "x", 1);
    own_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_is_read),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(a_schema_that_was_written_is_learnt),
        cmocka_unit_test(without_a_provider_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
