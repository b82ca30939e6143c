#include "tests/support/vectors.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"

#define FILE_MAX     (64 << 20)
#define PLAIN_DIGITS 15 /* integers of so many digits fit everywhere */

/* The whole file with room behind it to quote every long integer; NULL: see `why`. */
static char *read_file(const char *path, size_t *n, char *why, size_t size)
{
    FILE *f = fopen(path, "rb");
    long end = -1;
    char *text = NULL;

    if (!f) {
        (void)snprintf(why, size, "%s: cannot be opened", path);
        return NULL;
    }
    if (fseek(f, 0, SEEK_END) == 0) {
        end = ftell(f);
    }
    if (end >= 0 && end <= FILE_MAX && fseek(f, 0, SEEK_SET) == 0) {
        text = malloc((size_t)end + 1);
    }
    *n = text ? fread(text, 1, (size_t)end, f) : 0;
    if (!text || *n != (size_t)end) {
        (void)snprintf(why, size, "%s: cannot be read", path);
        free(text);
        text = NULL;
    }
    (void)fclose(f);
    return text;
}

static size_t number_length(const char *p, const char *end)
{
    const char *at = p;

    while (at < end && (isalnum((unsigned char)*at) || *at == '-' || *at == '+' || *at == '.')) {
        at++;
    }
    return (size_t)(at - p);
}

static bool is_integer(const char *p, size_t n)
{
    size_t digits = 0;

    for (size_t i = 0; i < n; i++) {
        digits += isdigit((unsigned char)p[i]) != 0;
    }
    return digits == n || (n && *p == '-' && digits == n - 1);
}

/* A copy in which long integers stand in quotes. */
static char *quote_integers(const char *text, size_t n, size_t *out_n)
{
    char *out = malloc(n + n / 4 + 16);
    const char *p = text, *end = text + n;
    bool in_string = false;
    size_t at = 0;

    while (out && p < end) {
        size_t length = in_string ? 0 : number_length(p, end);

        if (length > PLAIN_DIGITS && is_integer(p, length)) {
            out[at++] = '"';
            memcpy(out + at, p, length);
            at += length;
            out[at++] = '"';
            p += length;
        } else if (length) {
            memcpy(out + at, p, length);
            at += length;
            p += length;
        } else if (in_string && *p == '\\' && end - p > 1) {
            out[at++] = *p++;
            out[at++] = *p++;
        } else {
            in_string ^= *p == '"';
            out[at++] = *p++;
        }
    }
    *out_n = at;
    return out;
}

json_t *vectors_load(const char *path, char *why, size_t size)
{
    size_t n, quoted_n = 0;
    char *text = read_file(path, &n, why, size);
    char *quoted = text ? quote_integers(text, n, &quoted_n) : NULL;
    json_error_t error;
    json_t *file, *vectors;

    free(text);
    if (!quoted) {
        return NULL;
    }
    file = json_loadb(quoted, quoted_n, 0, &error);
    free(quoted);
    if (!file) {
        (void)snprintf(why, size, "%s: line %d: %s", path, error.line, error.text);
        return NULL;
    }
    vectors = json_is_array(file) ? file : json_object_get(file, "vectors");
    if (!json_array_size(vectors)) {
        (void)snprintf(why, size, "%s: has no vectors", path);
        json_decref(file);
        return NULL;
    }
    json_incref(vectors);
    json_decref(file);
    return vectors;
}

static bool unhex(uint8_t *out, size_t size, const char *hex, size_t *n)
{
    static const char digits[] = "0123456789abcdef";

    for (*n = 0; hex[0]; hex += 2, (*n)++) {
        const char *high = strchr(digits, tolower((unsigned char)hex[0]));
        const char *low = hex[1] ? strchr(digits, tolower((unsigned char)hex[1])) : NULL;

        if (!high || !low || *n == size) {
            return false;
        }
        out[*n] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    return true;
}

static bool guid_of(uint8_t out[16], const char *text)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

    text += *text == '{';
    for (size_t i = 0; i < 16; i++) {
        char pair[3] = {0};
        size_t n;

        text += *text == '-';
        if (!text[0] || !text[1]) {
            return false;
        }
        memcpy(pair, text, 2);
        if (!unhex(&out[order[i]], 1, pair, &n)) {
            return false;
        }
        text += 2;
    }
    return *text == 0 || *text == '}';
}

bool vectors_integer(uint64_t *out, const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;

    if (json_is_integer(value)) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    if (json_is_boolean(value)) {
        *out = json_is_true(value);
        return true;
    }
    if (!text || !*text) {
        return false;
    }
    *out = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    return *end == 0;
}

/* A member that counts up to `max`. */
static bool small(unsigned *out, const json_t *vector, const char *name, unsigned max)
{
    uint64_t v;

    if (!vectors_integer(&v, json_object_get(vector, name)) || v > max) {
        return false;
    }
    *out = (unsigned)v;
    return true;
}

bool vectors_record(struct raw_event *raw, uint8_t *payload, const json_t *vector, char *why,
                    size_t size)
{
    const char *provider = json_string_value(json_object_get(vector, "provider"));
    const char *hex = json_string_value(json_object_get(vector, "payload_hex"));
    unsigned opcode, version, pointer, length;
    const char *bad = NULL;

    *raw = (struct raw_event){.form = RAW_CLASSIC,
                              .pid = EVENT_NO_ID,
                              .tid = EVENT_NO_ID,
                              .frequency = CLK_S,
                              .payload = payload};
    if (!provider || !guid_of(raw->guid, provider)) {
        bad = "provider";
    } else if (!small(&opcode, vector, "opcode", UINT8_MAX)) {
        bad = "opcode";
    } else if (!small(&version, vector, "version", UINT8_MAX)) {
        bad = "version";
    } else if (!small(&pointer, vector, "pointer_size", 8) || (pointer != 4 && pointer != 8)) {
        bad = "pointer_size";
    } else if (!hex || !unhex(payload, VECTORS_PAYLOAD_MAX, hex, &raw->payload_n)) {
        bad = "payload_hex";
    } else if (small(&length, vector, "length", UINT32_MAX) && length != raw->payload_n) {
        bad = "length";
    }
    if (bad) {
        (void)snprintf(why, size, "%s is missing or wrong", bad);
        return false;
    }
    raw->opcode = (uint8_t)opcode;
    raw->id = (uint16_t)opcode;
    raw->version = (uint8_t)version;
    raw->pointer_size = (uint8_t)pointer;
    return true;
}

void values_reset(struct values *v)
{
    v->n = v->lost = v->text_n = 0;
    v->depth = 0;
}

/* A copy that lives until the reset. */
static const char *keep(struct values *v, const void *p, size_t n)
{
    char *copy = v->text + v->text_n;

    if (n > sizeof v->text - v->text_n) {
        v->lost++;
        return NULL;
    }
    if (n) {
        memcpy(copy, p, n);
    }
    v->text_n += n;
    return copy;
}

static struct values_row *append(struct values *v, struct str name)
{
    struct values_row *row;

    if (v->n == VALUES_MAX) {
        v->lost++;
        return NULL;
    }
    row = &v->rows[v->n++];
    *row = (struct values_row){.depth = v->depth};
    row->value.name.p = keep(v, name.p, name.n);
    row->value.name.n = row->value.name.p ? name.n : 0;
    return row;
}

static void on_value(void *ctx, const struct value *value)
{
    struct values *v = ctx;
    struct values_row *row = append(v, value->name);
    struct str name;

    if (!row) {
        return;
    }
    name = row->value.name;
    row->value = *value;
    row->value.name = name;
    if (value->kind == VALUE_TEXT || value->kind == VALUE_SID) {
        row->value.v.text.p = keep(v, value->v.text.p, value->v.text.n);
    } else if (value->kind >= VALUE_GUID) {
        row->value.v.bytes.p = (const uint8_t *)keep(v, value->v.bytes.p, value->v.bytes.n);
    }
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct values *v = ctx;
    struct values_row *row = append(v, name);

    if (row) {
        row->group = true;
        row->array = group == VALUE_ARRAY;
    }
    v->depth++;
}

static void on_end(void *ctx)
{
    struct values *v = ctx;

    v->depth--;
}

struct value_sink values_sink(struct values *v)
{
    return (struct value_sink){v, on_value, on_begin, on_end};
}

const struct values_row *values_find(const struct values *v, struct str name, size_t skip)
{
    for (size_t i = 0; i < v->n; i++) {
        if (str_eq(v->rows[i].value.name, name) && skip-- == 0) {
            return &v->rows[i];
        }
    }
    return NULL;
}

const struct values_row *values_members(const struct values *v, const struct values_row *group,
                                        size_t *n)
{
    const struct values_row *first = group + 1, *end = v->rows + v->n, *at = first;

    while (at < end && at->depth > group->depth) {
        at++;
    }
    *n = (size_t)(at - first);
    return first;
}

static void print_bytes(char *text, size_t size, const uint8_t *p, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n && at + 3 < size; i++) {
        at += (size_t)snprintf(text + at, size - at, "%02x", p[i]);
    }
}

const char *values_print(char *text, size_t size, const struct values_row *row)
{
    const struct value *v = &row->value;

    *text = 0;
    if (row->group) {
        (void)snprintf(text, size, "%s", row->array ? "array" : "struct");
        return text;
    }
    switch (v->kind) {
    case VALUE_INT:
        (void)snprintf(text, size, "i%u %" PRId64, v->bits, v->v.i);
        break;
    case VALUE_UINT:
    case VALUE_BOOL:
        (void)snprintf(text, size, "u%u %" PRIu64, v->bits, v->v.u);
        break;
    case VALUE_HEX:
        (void)snprintf(text, size, "u%u %" PRIu64 " (0x%" PRIx64 ")", v->bits, v->v.u, v->v.u);
        break;
    case VALUE_FLOAT:
        (void)snprintf(text, size, "f%u %.17g", v->bits, v->v.f);
        break;
    case VALUE_TEXT:
    case VALUE_SID:
        (void)snprintf(text, size, "\"%.*s\"", (int)v->v.text.n, v->v.text.p);
        break;
    case VALUE_TIME:
        (void)clk_format_utc(text, size, v->v.i, 9);
        break;
    default:
        print_bytes(text, size, v->v.bytes.p, v->v.bytes.n);
        break;
    }
    return text;
}
