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
    struct raw_event raw = {
        .form = RAW_MANIFEST, .pointer_size = 8, .level = 4, .pid = 1, .tid = 2};

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
        {"stage", true, 0, {"forw\0x", 6}},
        {"reason", true, 0, {"", 0}},
        {"count", false, UINT64_C(0x1122334455667788), {NULL, 0}},
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
    assert_string_equal(buf_cstr(&b), "stage=\"forw\" reason=\"\" count=1234605616436508552");
    buf_fini(&b);
    forward_destroy(f);
    free(t);
}

static void long_texts_are_cut_between_characters(void **state)
{
    char text[OWN_EVENT_TEXT + 8];
    struct own_field field = {"text", true, 0, {text, sizeof text}};
    struct own_event e;

    memset(text, 'x', sizeof text);
    own_event_make(&e, "Mark", &field, 1);
    assert_int_equal(e.payload_n, OWN_EVENT_TEXT + 1);
    memcpy(text + OWN_EVENT_TEXT - 1, "\xe2\x82\xac", 3); /* the last that there is room for */
    own_event_make(&e, "Mark", &field, 1);
    assert_int_equal(e.payload_n, OWN_EVENT_TEXT);
    assert_int_equal(e.payload[OWN_EVENT_TEXT - 1], 0);
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
    own_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_is_read),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(without_a_provider_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
