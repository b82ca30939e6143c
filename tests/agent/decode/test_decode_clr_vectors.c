/* Payloads that .NET Core 2.0 to .NET 6 wrote, with their fields: those of the layouts relied on
 * read as expected, whole and at no shorter length; of all others nothing is decoded and nothing is
 * called damaged. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/decode/decode_class.h"
#include "common/base/mem.h"
#include "tests/support/corpus.h"
#include "tests/support/vectors.h"

#define PAYLOAD_MAX 16384

static struct values values;
static struct decode_text text_room;
static uint8_t payload[PAYLOAD_MAX];
static size_t charged, shapes, fields_compared;

static bool field_is(const json_t *expected, const struct values_row *row)
{
    const struct value *v = &row->value;
    uint64_t u = 0;

    if (json_is_string(expected) && v->kind == VALUE_TEXT) {
        const char *text = json_string_value(expected);

        return v->v.text.n == strlen(text) && memcmp(v->v.text.p, text, v->v.text.n) == 0;
    }
    if (v->kind == VALUE_FLOAT) {
        return json_is_number(expected) && json_number_value(expected) == v->v.f;
    }
    return v->kind == VALUE_GUID || (vectors_integer(&u, expected) && u == v->v.u);
}

static void fields_are(const char *name, const struct layout *l, const struct raw_event *raw,
                       const json_t *vector)
{
    json_t *fields = json_object_get(vector, "fields"), *expected;
    const struct value_sink sink = values_sink(&values);
    const char *key;
    size_t left;

    values_reset(&values);
    assert_ok(layout_read(l, raw, &sink, &text_room, &left));
    assert_int_equal(left, json_integer_value(json_object_get(vector, "bytes_after_known_fields")));
    json_object_foreach(fields, key, expected)
    {
        const struct values_row *row = values_find(&values, str_make(key), 0);

        fields_compared++;
        if (!row || !field_is(expected, row)) {
            fail_msg("%s: %s", name, key);
        }
    }
}

static void no_shorter_one_is_read(struct decode *d, struct raw_event raw)
{
    size_t whole = raw.payload_n;
    const uint8_t *from = raw.payload;
    struct event ev;

    for (size_t n = 0; n < whole; n++) {
        uint8_t *part = mem_dup(from, n);

        raw.payload = part;
        raw.payload_n = n;
        assert_err(decode_event(d, &raw, &ev), ERR_CORRUPT);
        mem_free(part);
    }
}

static uint8_t hex_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static struct raw_event record_of(const json_t *v)
{
    const char *hex = json_string_value(json_object_get(v, "payload_hex"));
    const char *provider = json_string_value(json_object_get(v, "provider"));
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .id = (uint16_t)json_integer_value(json_object_get(v, "id")),
                            .version = (uint8_t)json_integer_value(json_object_get(v, "version")),
                            .pointer_size =
                                (uint8_t)json_integer_value(json_object_get(v, "pointer_size")),
                            .payload = payload,
                            .payload_n = strlen(hex) / 2};

    assert_true(raw.payload_n <= sizeof payload);
    for (size_t i = 0; i < raw.payload_n; i++) {
        payload[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    }
    if (strcmp(provider, "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4") == 0) {
        memcpy(raw.guid, decode_clr_class.guid, sizeof raw.guid);
    } else {
        memset(raw.guid, provider[0], sizeof raw.guid); /* another provider's */
    }
    return raw;
}

static void check_vector(struct decode *d, const json_t *v)
{
    struct raw_event raw = record_of(v);
    const struct decode_class *class = decode_class_find(&raw);
    const struct layout *l =
        class ? layout_find(class->layouts, class->n_layouts, raw.id, raw.version) : NULL;
    char name[64];
    struct event ev;
    enum err e = decode_event(d, &raw, &ev);

    (void)snprintf(name, sizeof name, "id %u version %u", raw.id, raw.version);
    if (l) {
        shapes++;
        fields_are(name, l, &raw, v);
    }
    if (e == ERR_OK) {
        charged++;
        assert_int_equal(ev.kind, EV_CLR);
        assert_int_equal(ev.u.clr.id, raw.id);
        no_shorter_one_is_read(d, raw);
    } else {
        assert_err(e, ERR_NOTFOUND);
    }
}

static void payloads_of_five_versions_of_dotnet_read_as_expected(void **state)
{
    char path[1024], why[1024];
    json_t *vectors, *v;
    struct decode *d;
    size_t i;

    vectors =
        vectors_load(corpus_path(path, sizeof path, "clr-payload-vectors.json"), why, sizeof why);
    if (!vectors) {
        fail_msg("%s", why);
    }
    assert_ok(decode_create(&d));
    json_array_foreach(vectors, i, v)
    {
        check_vector(d, v);
    }
    printf("%zu vectors, %zu with a layout, %zu charged, %zu fields equal\n",
           json_array_size(vectors), shapes, charged, fields_compared);
    assert_int_equal(json_array_size(vectors), 226);
    assert_true(shapes >= 60 && charged >= 50 && fields_compared > 300);
    decode_destroy(d);
    json_decref(vectors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_of_five_versions_of_dotnet_read_as_expected),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
