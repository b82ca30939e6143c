/* Runs a file of payload vectors through the layouts and names every expected field whose name,
 * type or value is not what came out:
 *
 *   test_decode_vectors [FILE.json]
 *
 * Without an argument it takes the corpus' kernel-payload-vectors.json. Ends with 0 when all fields
 * match, 1 when some do not, 2 when the file cannot be used, 77 without a corpus.
 *
 * A field is [name, type, value]; members the program does not know are ignored. Types are u8 …
 * u64, i8 … i64 (of pointers and times too: then the number as stored), f32, f64, bool, str, wstr,
 * sid, guid, bytes (hex digits) and "complex", whose value is an expression that made it: SIDs,
 * arrays and structs are then held against the payload's own bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode_class.h"
#include "common/base/clk.h"
#include "tests/support/corpus.h"
#include "tests/support/vectors.h"

#define PATH_BYTES 1024
#define TEXT_BYTES 600
#define SID_BYTES  68

/* One vector being compared. */
struct check {
    const char *name;
    struct raw_event raw;
    const struct layout *layout;
    unsigned mismatches, fields;
};

static uint8_t payload[VECTORS_PAYLOAD_MAX];
static struct values got;
static struct decode_text text_room;

static void mismatch(struct check *k, const char *field, const char *expected, const char *have)
{
    printf("%s: %s: expected %s, got %s\n", k->name, field, expected, have);
    k->mismatches++;
}

/* The type a field of this name has in the layout, or -1. */
static int layout_type(const struct check *k, const char *name)
{
    for (const struct layout_field *f = k->layout->fields; f->name; f++) {
        if (strcmp(f->name, name) == 0 && k->raw.version >= f->first &&
            (!f->last || k->raw.version <= f->last)) {
            return f->type;
        }
    }
    return -1;
}

/* A number as it stands in the payload, its width, and whether it has a sign; a time's sign is
 * anybody's guess. */
struct number {
    uint64_t bits;
    unsigned width;
    bool is_signed, any_sign;
};

static bool number_of(struct number *out, const struct check *k, const char *name,
                      const struct value *v)
{
    int type = layout_type(k, name);

    *out = (struct number){v->v.u, v->bits, v->kind == VALUE_INT, false};
    switch (v->kind) {
    case VALUE_INT:
    case VALUE_UINT:
    case VALUE_HEX:
    case VALUE_BOOL:
        if (type == LAYOUT_PORT) { /* as stored */
            out->bits = (v->v.u & 0xff) << 8 | v->v.u >> 8;
        }
        out->any_sign = type == LAYOUT_FILETIME || type == LAYOUT_TICKS;
        return true;
    case VALUE_TIME:
        out->bits = type == LAYOUT_FILETIME ? clk_to_filetime(v->v.i) : (uint64_t)v->v.i;
        out->any_sign = true;
        return true;
    case VALUE_ADDRESS:
        if (v->v.bytes.n == 4) {
            const uint8_t *p = v->v.bytes.p;

            *out = (struct number){(uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 |
                                       (uint32_t)p[1] << 8 | p[0],
                                   32, false, false};
            return true;
        }
        return false;
    default:
        return false;
    }
}

static uint64_t cut_to(uint64_t bits, unsigned width)
{
    return width < 64 ? bits & ((UINT64_C(1) << width) - 1) : bits;
}

/* "u32", "i8": width and sign of a type's name. */
static bool integer_type(const char *type, unsigned *width, bool *is_signed)
{
    char *end;

    if (*type != 'u' && *type != 'i') {
        return false;
    }
    *is_signed = *type == 'i';
    *width = (unsigned)strtoul(type + 1, &end, 10);
    return *end == 0 && (*width == 8 || *width == 16 || *width == 32 || *width == 64);
}

static bool same_integer(const struct check *k, const char *name, const char *type,
                         const json_t *value, const struct values_row *row)
{
    unsigned width = 0;
    bool is_signed = false;
    struct number n;
    uint64_t expected;

    return integer_type(type, &width, &is_signed) && !row->group &&
           number_of(&n, k, name, &row->value) && vectors_integer(&expected, value) &&
           n.width == width && (n.any_sign || n.is_signed == is_signed) &&
           cut_to(n.bits, width) == cut_to(expected, width) &&
           (cut_to(expected, width) == expected || is_signed);
}

static bool same_text(const struct values_row *row, const json_t *value, enum value_kind kind)
{
    struct str s = str_make(json_string_value(value));

    s.n = json_string_length(value);
    return !row->group && row->value.kind == kind && json_is_string(value) &&
           str_eq(row->value.v.text, s);
}

static bool same_hex(const struct values_row *row, const json_t *value)
{
    static char hex[2 * VECTORS_PAYLOAD_MAX + 1];
    const char *expected = json_string_value(value);
    const struct value *v = &row->value;

    if (row->group || v->kind < VALUE_GUID || v->kind == VALUE_SID || !expected) {
        return false;
    }
    hex[0] = 0;
    for (size_t i = 0; i < v->v.bytes.n; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", v->v.bytes.p[i]);
    }
    return strcmp(hex, expected) == 0;
}

static bool same_guid(const struct values_row *row, const json_t *value)
{
    const uint8_t *g = row->value.v.bytes.p;
    char text[40];

    if (row->group || row->value.kind != VALUE_GUID || !json_is_string(value)) {
        return false;
    }
    (void)snprintf(text, sizeof text,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3],
                   g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13],
                   g[14], g[15]);
    return strcmp(text, json_string_value(value)) == 0;
}

static bool in_payload(const struct check *k, const uint8_t *p, size_t n)
{
    for (size_t at = 0; at + n <= k->raw.payload_n; at++) {
        if (memcmp(k->raw.payload + at, p, n) == 0) {
            return true;
        }
    }
    return false;
}

static size_t put(uint8_t *out, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(v >> 8 * i);
    }
    return bytes;
}

/* The bytes of "S-1-5-…"; 0 when it is none. */
static size_t sid_bytes(uint8_t *out, const char *text)
{
    unsigned long long authority;
    size_t n = 8;
    char *at;

    if (strncmp(text, "S-1-", 4) != 0) {
        return 0;
    }
    authority = strtoull(text + 4, &at, 0);
    for (unsigned i = 0; i < 6; i++) {
        out[2 + i] = (uint8_t)(authority >> 8 * (5 - i));
    }
    while (*at == '-' && n + 4 <= SID_BYTES) {
        n += put(out + n, strtoull(at + 1, &at, 10), 4);
    }
    out[0] = 1;
    out[1] = (uint8_t)((n - 8) / 4);
    return *at ? 0 : n;
}

/* "MakeSID64(pointer, attributes, …": TOKEN_USER, a pointer and u32 attributes, filled up to two
 * pointers, stands before the SID. */
static bool same_user(const struct check *k, const char *expression, const struct values_row *row)
{
    unsigned pointer = k->raw.pointer_size;
    uint8_t token[12], sid[SID_BYTES];
    char text[TEXT_BYTES], *at;
    size_t n, sid_n;

    if (row->group || row->value.kind != VALUE_SID) {
        return false;
    }
    n = put(token, strtoull(strchr(expression, '(') + 1, &at, 10), pointer);
    at = strchr(at, ',');
    n += put(token + n, at ? strtoull(at + 1, NULL, 10) : 0, 4);
    (void)snprintf(text, sizeof text, "%.*s", (int)row->value.v.text.n, row->value.v.text.p);
    sid_n = sid_bytes(sid, text);
    for (size_t i = 0; sid_n && i + 2u * pointer + sid_n <= k->raw.payload_n; i++) {
        if (memcmp(k->raw.payload + i, token, n) == 0 &&
            memcmp(k->raw.payload + i + 2u * pointer, sid, sid_n) == 0) {
            return true;
        }
    }
    return false;
}

/* "MakeSystemTime(0, 11, 0, 1, …": year, month, day of week, day, hour, minute, second, ms. */
static bool same_system_time(const char *expression, const struct values_row *row)
{
    const char *at = strchr(expression, '(') + 1;
    size_t n;
    const struct values_row *parts = values_members(&got, row, &n);

    if (!row->group || row->array || n != 8) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char *end;

        if (strtoull(at, &end, 10) != parts[i].value.v.u) {
            return false;
        }
        at = end + (*end == ',');
    }
    return true;
}

/* An array's elements stand in the payload one after the other. */
static bool same_array(const struct check *k, const struct values_row *row)
{
    static uint8_t bytes[8 * VALUES_MAX];
    size_t n, used = 0;
    const struct values_row *elements = values_members(&got, row, &n);

    for (size_t i = 0; i < n; i++) {
        if (elements[i].group || elements[i].value.kind > VALUE_HEX) {
            return false;
        }
        used += put(bytes + used, elements[i].value.v.u, elements[i].value.bits / 8u);
    }
    return row->group && row->array && in_payload(k, bytes, used);
}

/* The value is the expression of a program: what it names is looked for. */
static bool same_complex(const struct check *k, const json_t *value, const struct values_row *row)
{
    const char *expression = json_is_string(value) ? json_string_value(value) : "";

    if (strncmp(expression, "MakeSID", 7) == 0 && strchr(expression, '(')) {
        return same_user(k, expression, row);
    }
    if (strncmp(expression, "MakeSystemTime(", 15) == 0) {
        return same_system_time(expression, row);
    }
    if (row->group) { /* a struct's members are expected by their own names */
        return row->array ? same_array(k, row) : true;
    }
    return row->value.kind >= VALUE_TEXT;
}

static bool same(const struct check *k, const char *name, const char *type, const json_t *value,
                 const struct values_row *row)
{
    int stored = layout_type(k, name);
    bool narrow = stored == LAYOUT_A || stored == LAYOUT_A_REST;

    if (strcmp(type, "str") == 0) {
        return narrow && same_text(row, value, VALUE_TEXT);
    }
    if (strcmp(type, "wstr") == 0) {
        return !narrow && same_text(row, value, VALUE_TEXT);
    }
    if (strcmp(type, "sid") == 0) {
        return same_text(row, value, VALUE_SID);
    }
    if (strcmp(type, "guid") == 0) {
        return same_guid(row, value);
    }
    if (strcmp(type, "bytes") == 0) {
        return same_hex(row, value);
    }
    if (strcmp(type, "f32") == 0 || strcmp(type, "f64") == 0) {
        return !row->group && row->value.kind == VALUE_FLOAT && json_is_number(value) &&
               row->value.v.f == json_number_value(value);
    }
    if (strcmp(type, "bool") == 0) {
        uint64_t expected;

        return !row->group && row->value.kind == VALUE_BOOL && vectors_integer(&expected, value) &&
               row->value.v.u == (expected != 0);
    }
    if (strcmp(type, "complex") == 0) {
        return same_complex(k, value, row);
    }
    return same_integer(k, name, type, value, row);
}

/* A name may stand twice: the second expected one is the second given one. */
static size_t earlier(const json_t *fields, size_t at, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < at; i++) {
        const char *other = json_string_value(json_array_get(json_array_get(fields, i), 0));

        n += other && strcmp(other, name) == 0;
    }
    return n;
}

static void check_field(struct check *k, const json_t *fields, size_t at)
{
    const json_t *field = json_array_get(fields, at), *value = json_array_get(field, 2);
    const char *name = json_string_value(json_array_get(field, 0));
    const char *type = json_string_value(json_array_get(field, 1));
    char expected[TEXT_BYTES], have[TEXT_BYTES];
    const struct values_row *row;
    char *dump;

    k->fields++;
    if (!name || !type || !value) {
        mismatch(k, "expected_fields", "rows of name, type and value", "something else");
        return;
    }
    dump = json_dumps(value, JSON_ENCODE_ANY);
    (void)snprintf(expected, sizeof expected, "%s %s", type, dump ? dump : "?");
    free(dump);
    row = values_find(&got, str_make(name), earlier(fields, at, name));
    if (!row) {
        mismatch(k, name, expected, "no such field");
    } else if (!same(k, name, type, value, row)) {
        mismatch(k, name, expected, values_print(have, sizeof have, row));
    }
}

/* The payload's values; vectors of manifest providers give their event id as opcode. */
static bool read_values(struct check *k)
{
    struct value_sink sink = values_sink(&got);
    const struct decode_class *class = decode_class_find(&k->raw);
    char kind[TEXT_BYTES];
    size_t left;
    enum err e;

    if (!class) {
        k->raw.form = RAW_MANIFEST;
        class = decode_class_find(&k->raw);
    }
    k->layout = class ? layout_find(class->layouts, class->n_layouts, decode_number(&k->raw),
                                    k->raw.version)
                      : NULL;
    if (!k->layout) {
        (void)snprintf(kind, sizeof kind, "no layout for opcode %u version %u of %s", k->raw.opcode,
                       k->raw.version, class ? class->name : "an unknown provider");
        mismatch(k, "(record)", "a layout", kind);
        return false;
    }
    values_reset(&got);
    e = layout_read(k->layout, &k->raw, &sink, &text_room, &left);
    if (e) {
        mismatch(k, "(payload)", "all fields of the layout", err_text(e));
    }
    if (got.lost) {
        mismatch(k, "(payload)", "fewer values", "more than this program holds");
    }
    return true;
}

static void check_vector(const json_t *vector, size_t i, unsigned *mismatches, unsigned *fields)
{
    const json_t *expected = json_object_get(vector, "expected_fields");
    const char *name = json_string_value(json_object_get(vector, "name"));
    struct check k = {.name = name};
    char number[32], why[TEXT_BYTES];

    if (!name) {
        (void)snprintf(number, sizeof number, "vector %zu", i);
        k.name = number;
    }
    if (!vectors_record(&k.raw, payload, vector, why, sizeof why)) {
        mismatch(&k, "(vector)", "a usable record", why);
    } else if (!json_is_array(expected)) {
        mismatch(&k, "(vector)", "expected_fields", "none");
    } else if (read_values(&k)) {
        for (size_t at = 0; at < json_array_size(expected); at++) {
            check_field(&k, expected, at);
        }
    }
    *mismatches += k.mismatches;
    *fields += k.fields;
}

int main(int argc, char **argv)
{
    char path[PATH_BYTES], why[2 * PATH_BYTES];
    unsigned mismatches = 0, fields = 0;
    json_t *vectors, *v;
    size_t i, n;

    if (argc > 2) {
        (void)fprintf(stderr, "usage: test_decode_vectors [FILE.json]\n");
        return 2;
    }
    vectors = vectors_load(
        argc == 2 ? argv[1] : corpus_path(path, sizeof path, "public/kernel-payload-vectors.json"),
        why, sizeof why);
    if (!vectors) {
        (void)fprintf(stderr, "test_decode_vectors: %s\n", why);
        return 2;
    }
    json_array_foreach(vectors, i, v)
    {
        check_vector(v, i, &mismatches, &fields);
    }
    n = json_array_size(vectors);
    printf("%zu vectors, %u fields, %u mismatches\n", n, fields, mismatches);
    json_decref(vectors);
    return mismatches ? 1 : 0;
}
