#include "collector/clickhouse/ch_native.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

/* A column grows only as far as something was put into it: most of a cell's 250 columns stay empty,
 * and as zeros a block would take ten times the memory. `rows` of a column is how far it is filled;
 * the rest is made up when something comes, and when it is encoded. */

struct block_column {
    struct buf data; /* fixed width: elements; else varuint length and bytes each; of arrays, too */
    struct buf ends; /* arrays: u64le each */
    uint64_t n_elements; /* of arrays */
    uint64_t bits; /* of 64 bits: those that any value has; of Int64, that differ from its sign */
    size_t rows;
    bool used; /* something other than 0 or "" */
};

struct ch_block {
    enum ch_table table;
    size_t n_columns, rows;
    const struct ch_column *columns;
    struct block_column column[];
};

static unsigned width_of(unsigned type)
{
    static const uint8_t widths[] = {
        [CH_UINT8] = 1, [CH_UINT16] = 2, [CH_UINT32] = 4,   [CH_UINT64] = 8,   [CH_INT64] = 8,
        [CH_TIME] = 8,  [CH_UUID] = 16,  [CH_FIXED16] = 16, [CH_UINT64S] = 8,  [CH_INT8] = 1,
        [CH_INT16] = 2, [CH_INT32] = 4,  [CH_FLOAT64] = 8,  [CH_DATE_TIME] = 4};

    return type < sizeof widths ? widths[type] : 0;
}

enum err ch_native_block_create(struct ch_block **out, enum ch_table t)
{
    const struct ch_column *columns;
    size_t n = ch_schema_columns(t, &columns);
    struct ch_block *b = mem_zalloc(sizeof *b + n * sizeof b->column[0]);

    if (!b) {
        return ERR_NOMEM;
    }
    b->table = t;
    b->n_columns = n;
    b->columns = columns;
    for (size_t i = 0; i < n; i++) {
        buf_init(&b->column[i].data, CH_BLOCK_BYTES_MAX);
        buf_init(&b->column[i].ends, CH_BLOCK_BYTES_MAX);
    }
    *out = b;
    return ERR_OK;
}

void ch_native_block_destroy(struct ch_block *b)
{
    for (size_t i = 0; b && i < b->n_columns; i++) {
        buf_fini(&b->column[i].data);
        buf_fini(&b->column[i].ends);
    }
    mem_free(b);
}

void ch_native_block_reset(struct ch_block *b)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        struct block_column *c = &b->column[i];

        buf_reset(&c->data);
        buf_reset(&c->ends);
        c->n_elements = c->bits = c->rows = 0;
        c->used = false;
    }
    b->rows = 0;
}

void ch_native_row(struct ch_block *b)
{
    b->rows++;
}

void ch_native_rows_begin(struct ch_block *b, size_t n)
{
    b->rows += n;
}

enum ch_table ch_native_table(const struct ch_block *b)
{
    return b->table;
}

size_t ch_native_rows(const struct ch_block *b)
{
    return b->rows;
}

size_t ch_native_bytes(const struct ch_block *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n_columns; i++) {
        n += b->column[i].data.n + b->column[i].ends.n;
    }
    return n;
}

/* Rows without a value before row `rows`. */
static void column_fill(struct ch_block *b, size_t i, size_t rows)
{
    struct block_column *c = &b->column[i];
    unsigned type = b->columns[i].type;
    size_t lack = rows - c->rows;

    if (!lack) {
        return;
    }
    if (type == CH_STRINGS || type == CH_UINT64S) {
        while (lack--) {
            buf_put_u64le(&c->ends, c->n_elements);
        }
    } else {
        size_t n = lack * (width_of(type) ? width_of(type) : 1); /* an empty string is a byte 0 */
        uint8_t *p = buf_grow(&c->data, n);

        if (p) {
            memset(p, 0, n);
        }
    }
    c->rows = rows;
}

/* What column.bits is the or of: no bit from the n-th up is set in it when v fits in n bits; 0 of 0
 * alone. */
static inline uint64_t bits_of(unsigned type, uint64_t v)
{
    return type == CH_INT64 ? v ^ v << 1 : v;
}

/* The column, ready for the value of the current row. */
static struct block_column *column_take(struct ch_block *b, size_t i)
{
    struct block_column *c = &b->column[i];

    if (c->rows + 1 < b->rows) {
        column_fill(b, i, b->rows - 1);
    }
    c->rows = b->rows;
    c->used = true;
    return c;
}

static void put_numbers(uint8_t *p, const int64_t *v, size_t n, unsigned width)
{
    if (width == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        memcpy(p, v, 8 * n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < width; k++) {
            *p++ = (uint8_t)((uint64_t)v[i] >> 8 * k);
        }
    }
}

void ch_native_u64(struct ch_block *b, size_t i, uint64_t v)
{
    unsigned n = width_of(b->columns[i].type);
    struct block_column *c;
    uint8_t *p;

    if (!v) {
        return;
    }
    c = column_take(b, i);
    c->bits |= bits_of(b->columns[i].type, v);
    p = buf_grow(&c->data, n);
    if (p) {
        put_numbers(p, &(int64_t){(int64_t)v}, 1, n);
    }
}

void ch_native_rows_put(struct ch_block *b, size_t i, size_t row, const int64_t *v, size_t n)
{
    struct block_column *c = &b->column[i];
    unsigned type = b->columns[i].type, width = width_of(type);
    uint64_t bits = 0; /* 0: no value is anything but 0 */
    uint8_t *p;

    assert(width && width <= 8 && c->rows <= row && row + n <= b->rows);
    if (type == CH_INT64) {
        for (size_t k = 0; k < n; k++) {
            bits |= bits_of(CH_INT64, (uint64_t)v[k]);
        }
    } else {
        for (size_t k = 0; k < n; k++) {
            bits |= (uint64_t)v[k];
        }
    }
    if (!bits) {
        return;
    }
    column_fill(b, i, row);
    p = buf_grow(&c->data, n * width);
    if (p) {
        put_numbers(p, v, n, width);
    }
    c->bits |= bits;
    c->rows = row + n;
    c->used = true;
}

void ch_native_fill(struct ch_block *b, size_t i, uint64_t (*value)(void *ctx, size_t row),
                    void *ctx)
{
    size_t rows = b->rows;

    buf_reset(&b->column[i].data);
    b->column[i].bits = b->column[i].rows = 0;
    b->column[i].used = false;
    for (b->rows = 1; b->rows <= rows; b->rows++) {
        ch_native_u64(b, i, value(ctx, b->rows - 1));
    }
    b->rows = rows;
}

static void put_uuid(uint8_t *p, unsigned type, const struct uuid *v)
{
    for (size_t k = 0; k < sizeof v->b; k++) {
        p[k] = type == CH_UUID ? v->b[k < 8 ? 7 - k : 23 - k] : v->b[k];
    }
}

void ch_native_uuid(struct ch_block *b, size_t i, const struct uuid *v)
{
    struct block_column *c = column_take(b, i);
    uint8_t *p = buf_grow(&c->data, sizeof v->b);

    if (p) {
        put_uuid(p, b->columns[i].type, v);
    }
}

void ch_native_rows_uuid(struct ch_block *b, size_t i, size_t row, const struct uuid *v, size_t n)
{
    struct block_column *c = &b->column[i];
    uint8_t *p;

    assert(width_of(b->columns[i].type) == sizeof v->b && c->rows <= row && row + n <= b->rows);
    if (!n) {
        return;
    }
    column_fill(b, i, row);
    p = buf_grow(&c->data, n * sizeof v->b);
    for (size_t k = 0; p && k < n; k++) {
        if (!k) {
            put_uuid(p, b->columns[i].type, v);
        } else {
            memcpy(p + k * sizeof v->b, p, sizeof v->b);
        }
    }
    c->rows = row + n;
    c->used = true;
}

static void put_string(struct buf *out, struct str s)
{
    buf_put_varint(out, s.n);
    buf_put(out, s.p, s.n);
}

void ch_native_str(struct ch_block *b, size_t i, struct str v)
{
    if (v.n) {
        put_string(&column_take(b, i)->data, v);
    }
}

void ch_native_strings(struct ch_block *b, size_t i, const struct str *v, size_t n)
{
    struct block_column *c;

    if (!n) {
        return;
    }
    c = column_take(b, i);
    for (size_t k = 0; k < n; k++) {
        put_string(&c->data, v[k]);
    }
    c->n_elements += n;
    buf_put_u64le(&c->ends, c->n_elements);
}

void ch_native_u64s(struct ch_block *b, size_t i, const uint64_t *v, size_t n)
{
    struct block_column *c;

    if (!n) {
        return;
    }
    c = column_take(b, i);
    for (size_t k = 0; k < n; k++) {
        buf_put_u64le(&c->data, v[k]);
    }
    c->n_elements += n;
    buf_put_u64le(&c->ends, c->n_elements);
}

/* The narrowest type that holds all of a column's numbers, where the server takes such. */
static unsigned type_narrowed(enum ch_dialect d, unsigned type, uint64_t bits)
{
    static const uint8_t with_sign[] = {CH_INT8, CH_INT16, CH_INT32},
                         without[] = {CH_UINT8, CH_UINT16, CH_UINT32};
    for (unsigned i = 0; i < sizeof without && d == CH_NARROW; i++) {
        if ((type == CH_INT64 || type == CH_UINT64) && !(bits >> (8u << i))) {
            return type == CH_INT64 ? with_sign[i] : without[i];
        }
    }
    return type;
}

static const char *type_name(enum ch_dialect d, unsigned type)
{
    return type == CH_INT8    ? "Int8"
           : type == CH_INT16 ? "Int16"
           : type == CH_INT32 ? "Int32"
                              : ch_schema_type(d, type, true);
}

/* The lowest width bytes of n numbers of 64 bits. */
static void put_narrow(uint8_t *to, const uint8_t *from, size_t n, unsigned width)
{
    for (size_t i = 0; i < n && width == 4; i++) {
        memcpy(to + 4 * i, from + 8 * i, 4);
    }
    for (size_t i = 0; i < n && width == 2; i++) {
        memcpy(to + 2 * i, from + 8 * i, 2);
    }
    for (size_t i = 0; i < n && width == 1; i++) {
        to[i] = from[8 * i];
    }
}

static void column_put(struct buf *out, const struct block_column *c, unsigned type,
                       unsigned narrowed)
{
    unsigned width = width_of(narrowed);
    uint8_t *p;

    buf_put(out, c->ends.p, c->ends.n);
    if (narrowed == type) {
        buf_put(out, c->data.p, c->data.n);
        return;
    }
    p = buf_grow(out, c->data.n / 8 * width);
    if (p) {
        put_narrow(p, c->data.p, c->data.n / 8, width);
    }
}

enum err ch_native_encode(struct ch_block *b, enum ch_dialect d, struct buf *sql, struct buf *out)
{
    const char *comma = "";
    size_t n = 0;

    buf_printf(sql, "INSERT INTO `%s` (", ch_schema_table(b->table));
    for (size_t i = 0; i < b->n_columns; i++) {
        struct block_column *c = &b->column[i];

        if (c->used) {
            column_fill(b, i, b->rows);
            buf_printf(sql, "%s%s", comma, b->columns[i].name);
            comma = ",";
            n++;
        }
        if (c->data.bad || c->ends.bad) {
            return c->data.bad ? c->data.bad : c->ends.bad;
        }
    }
    buf_put_str(sql, ") FORMAT Native");
    buf_put_varint(out, n);
    buf_put_varint(out, b->rows);
    for (size_t i = 0; i < b->n_columns; i++) {
        const struct block_column *c = &b->column[i];

        if (c->used) {
            unsigned type = b->columns[i].type, narrowed = type_narrowed(d, type, c->bits);

            put_string(out, str_make(b->columns[i].name));
            put_string(out, str_make(type_name(d, narrowed)));
            column_put(out, c, type, narrowed);
        }
    }
    return sql->bad ? sql->bad : out->bad;
}

/* -- in -- */

void ch_native_in_init(struct ch_in *in, const void *p, size_t n, size_t memory_max)
{
    memset(in, 0, sizeof *in);
    in->c = cur_make(p, n);
    arena_init(&in->memory, memory_max);
}

void ch_native_in_fini(struct ch_in *in)
{
    arena_fini(&in->memory);
}

static struct str get_string(struct cur *c)
{
    uint64_t n = cur_varint(c);
    struct str s = {"", 0};

    if (n > cur_left(c)) {
        c->bad = true;
    }
    if (!c->bad) {
        s.n = (size_t)n;
        s.p = (const char *)cur_bytes(c, s.n);
    }
    return s;
}

static bool starts(struct str *s, const char *with)
{
    size_t n = strlen(with);

    if (s->n < n || memcmp(s->p, with, n) != 0) {
        return false;
    }
    s->p += n;
    s->n -= n;
    return true;
}

/* Sets what follows from the name of a type. */
static enum err type_read(struct ch_in_column *c, struct str type)
{
    static const struct {
        const char *name;
        uint8_t type;
    } names[] = {
        {"UInt8", CH_UINT8},     {"UInt16", CH_UINT16},
        {"UInt32", CH_UINT32},   {"UInt64", CH_UINT64},
        {"Int8", CH_INT8},       {"Int16", CH_INT16},
        {"Int32", CH_INT32},     {"Int64", CH_INT64},
        {"Float64", CH_FLOAT64}, {"UUID", CH_UUID},
        {"String", CH_STRING},   {"DateTime", CH_DATE_TIME},
        {"Bool", CH_UINT8},      {"FixedString(16)", CH_FIXED16},
    };

    if (type.n && type.p[type.n - 1] == ')' && starts(&type, "Array(")) {
        c->array = true;
        type.n--;
    }
    if (starts(&type, "DateTime64(")) {
        c->type = CH_TIME;
    } else if (starts(&type, "DateTime(")) {
        c->type = CH_DATE_TIME;
    } else {
        size_t i = 0;

        while (i < sizeof names / sizeof *names && !str_eq(type, str_make(names[i].name))) {
            i++;
        }
        if (i == sizeof names / sizeof *names) {
            return ERR_UNSUPPORTED;
        }
        c->type = names[i].type;
    }
    c->width = (uint8_t)width_of(c->type);
    return ERR_OK;
}

/* Where each of n strings lies. */
static enum err strings_read(struct ch_in *in, struct ch_in_column *c, size_t n)
{
    uint32_t *at;

    if (n > cur_left(&in->c) || cur_left(&in->c) > UINT32_MAX) { /* a byte each at least */
        return n > cur_left(&in->c) ? ERR_CORRUPT : ERR_FULL;
    }
    at = arena_array_unset(&in->memory, n, sizeof *at);
    if (!at) {
        return arena_refused(&in->memory, n * sizeof *at);
    }
    c->p = in->c.p;
    c->at = at;
    c->n = n;
    for (size_t i = 0; i < n; i++) {
        at[i] = (uint32_t)(in->c.p - c->p);
        (void)get_string(&in->c);
    }
    c->n_bytes = (size_t)(in->c.p - c->p);
    return in->c.bad ? ERR_CORRUPT : ERR_OK;
}

static enum err elements_read(struct ch_in *in, struct ch_in_column *c, uint64_t n)
{
    if (!c->width) {
        return n > SIZE_MAX / sizeof *c->at - 1 ? ERR_CORRUPT : strings_read(in, c, (size_t)n);
    }
    if (n > cur_left(&in->c) / c->width) {
        return ERR_CORRUPT;
    }
    c->p = cur_bytes(&in->c, (size_t)n * c->width);
    c->n = (size_t)n;
    return ERR_OK;
}

/* LowCardinality(String): the places of its keys become those of its elements. The first word of a
 * column without rows is not there. */
static enum err dictionary_read(struct ch_in *in, struct ch_in_column *c, uint64_t n)
{
    uint64_t version, flags, keys;
    const uint32_t *key_at;
    const uint8_t *index;
    uint32_t *at;
    unsigned width;
    enum err e;

    if (!n) {
        return ERR_OK;
    }
    version = cur_u64le(&in->c);
    flags = cur_u64le(&in->c);
    keys = cur_u64le(&in->c);
    if (in->c.bad || version != 1 || (flags & 0xff) > 3 || !(flags & 0x200) || flags & 0x100) {
        return in->c.bad ? ERR_CORRUPT : ERR_UNSUPPORTED;
    }
    e = keys > cur_left(&in->c) ? ERR_CORRUPT : strings_read(in, c, (size_t)keys);
    if (e) {
        return e;
    }
    width = 1u << (flags & 0xff);
    if (cur_u64le(&in->c) != n || in->c.bad || n > cur_left(&in->c) / width) {
        return ERR_CORRUPT;
    }
    index = cur_bytes(&in->c, (size_t)n * width);
    key_at = c->at;
    at = arena_array_unset(&in->memory, (size_t)n, sizeof *at);
    if (!at) {
        return arena_refused(&in->memory, (size_t)n * sizeof *at);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t k = 0;

        for (unsigned b = 0; b < width; b++) {
            k |= (uint64_t)index[i * width + b] << 8 * b;
        }
        if (k >= keys) {
            return ERR_CORRUPT;
        }
        at[i] = key_at[k];
    }
    c->at = at;
    c->n = (size_t)n;
    return ERR_OK;
}

static enum err column_read(struct ch_in *in, struct ch_in_column *c)
{
    uint64_t n = in->n_rows, before = 0;
    struct str type;
    enum err e;

    *c = (struct ch_in_column){.name = get_string(&in->c)};
    type = get_string(&in->c);
    if (!in->c.bad && str_eq(type, str_make("LowCardinality(String)"))) {
        c->type = CH_STRING;
        return dictionary_read(in, c, n);
    }
    e = in->c.bad ? ERR_CORRUPT : type_read(c, type);
    if (in->c.bad || e) {
        return in->c.bad ? ERR_CORRUPT : e;
    }
    if (!c->array) {
        return elements_read(in, c, n);
    }
    if (n > cur_left(&in->c) / 8) {
        return ERR_CORRUPT;
    }
    c->ends = cur_bytes(&in->c, (size_t)n * 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t end = cur_at64le(c->ends + 8 * i);

        if (end < before) {
            return ERR_CORRUPT;
        }
        before = end;
    }
    return elements_read(in, c, before);
}

enum err ch_native_next(struct ch_in *in)
{
    uint64_t columns, rows;
    enum err e = ERR_OK;

    do {
        arena_reset(&in->memory);
        in->n_columns = in->n_rows = 0;
        if (!cur_left(&in->c)) {
            return ERR_END;
        }
        columns = cur_varint(&in->c);
        rows = cur_varint(&in->c);
        if (in->c.bad || columns > CH_IN_COLUMNS || (rows && !columns) || rows > cur_left(&in->c)) {
            return ERR_CORRUPT;
        }
        in->n_rows = (size_t)rows;
        for (size_t i = 0; i < columns && !e; i++) {
            e = column_read(in, &in->columns[i]);
        }
        in->n_columns = e ? 0 : (size_t)columns;
        in->n_rows = e ? 0 : in->n_rows;
    } while (!e && !rows);
    return e;
}

const struct ch_in_column *ch_native_column(const struct ch_in *in, const char *name)
{
    for (size_t i = 0; i < in->n_columns; i++) {
        if (str_eq(in->columns[i].name, str_make(name))) {
            return &in->columns[i];
        }
    }
    return NULL;
}

uint64_t ch_native_get(const struct ch_in_column *c, size_t i)
{
    const uint8_t *p;
    uint64_t v = 0;

    if (!c || i >= c->n || !c->width || c->width > 8) {
        return 0;
    }
    p = c->p + i * c->width;
    for (unsigned k = 0; k < c->width; k++) {
        v |= (uint64_t)p[k] << 8 * k;
    }
    if (c->type >= CH_INT8 && c->type <= CH_INT32 && v >> (8 * c->width - 1)) {
        v |= ~UINT64_C(0) << 8 * c->width;
    }
    return v;
}

struct str ch_native_get_str(const struct ch_in_column *c, size_t i)
{
    struct cur at;

    if (!c || i >= c->n || (c->width && c->width != 16)) {
        return (struct str){"", 0};
    }
    if (c->width) {
        return (struct str){(const char *)c->p + i * 16, 16};
    }
    at = cur_make(c->p + c->at[i], c->n_bytes - c->at[i]);
    return get_string(&at);
}

struct uuid ch_native_get_uuid(const struct ch_in_column *c, size_t i)
{
    struct uuid u = {{0}};

    for (size_t k = 0; c && i < c->n && c->width == 16 && k < 16; k++) {
        u.b[k] = c->p[i * 16 + (c->type != CH_UUID ? k : k < 8 ? 7 - k : 23 - k)];
    }
    return u;
}

size_t ch_native_get_array(const struct ch_in_column *c, size_t row, size_t *first)
{
    uint64_t begin;

    *first = 0;
    if (!c || !c->array) {
        return 0;
    }
    begin = row ? cur_at64le(c->ends + 8 * (row - 1)) : 0;
    *first = (size_t)begin;
    return (size_t)(cur_at64le(c->ends + 8 * row) - begin);
}
