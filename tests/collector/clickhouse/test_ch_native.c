#include "collector/clickhouse/ch_native.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

/* What ClickHouse 18.16 sent for
 *   SELECT toUInt8(number) AS a, toString(number*number) AS s,
 *     toUUID('00112233-4455-6677-8899-aabbccddeeff') AS u, toInt32(-5) AS i,
 *     range(toUInt64(number)) AS r, ['x', toString(number)] AS t,
 *     toFixedString('0123456789abcdef', 16) AS f, 1.5 AS d FROM numbers(3) FORMAT Native */
static const uint8_t recorded[] = {
    0x08, 0x03, 0x01, 0x61, 0x05, 0x55, 0x49, 0x6e, 0x74, 0x38, 0x00, 0x01, 0x02, 0x01, 0x73, 0x06,
    0x53, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x01, 0x30, 0x01, 0x31, 0x01, 0x34, 0x01, 0x75, 0x04, 0x55,
    0x55, 0x49, 0x44, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb,
    0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb,
    0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb,
    0xaa, 0x99, 0x88, 0x01, 0x69, 0x05, 0x49, 0x6e, 0x74, 0x33, 0x32, 0xfb, 0xff, 0xff, 0xff, 0xfb,
    0xff, 0xff, 0xff, 0xfb, 0xff, 0xff, 0xff, 0x01, 0x72, 0x0d, 0x41, 0x72, 0x72, 0x61, 0x79, 0x28,
    0x55, 0x49, 0x6e, 0x74, 0x36, 0x34, 0x29, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x74, 0x0d, 0x41, 0x72, 0x72, 0x61, 0x79, 0x28,
    0x53, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x29, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
    0x78, 0x01, 0x30, 0x01, 0x78, 0x01, 0x31, 0x01, 0x78, 0x01, 0x32, 0x01, 0x66, 0x0f, 0x46, 0x69,
    0x78, 0x65, 0x64, 0x53, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x28, 0x31, 0x36, 0x29, 0x30, 0x31, 0x32,
    0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x30, 0x31, 0x32,
    0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x30, 0x31, 0x32,
    0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x01, 0x64, 0x07,
    0x46, 0x6c, 0x6f, 0x61, 0x74, 0x36, 0x34, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f,
};

static const struct uuid id = {{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
                                0xbb, 0xcc, 0xdd, 0xee, 0xff}};

static void a_recorded_answer_is_read(void **state)
{
    struct ch_in in;
    struct uuid u;
    size_t first, n;

    ch_native_in_init(&in, recorded, sizeof recorded, 1u << 20);
    assert_ok(ch_native_next(&in));
    assert_int_equal(in.n_columns, 8);
    assert_int_equal(in.n_rows, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct ch_in_column *r = ch_native_column(&in, "r"), *t = ch_native_column(&in, "t");
        char text[8];

        assert_int_equal(ch_native_get(ch_native_column(&in, "a"), i), i);
        (void)snprintf(text, sizeof text, "%zu", i * i);
        assert_true(str_eq(ch_native_get_str(ch_native_column(&in, "s"), i), str_make(text)));
        u = ch_native_get_uuid(ch_native_column(&in, "u"), i);
        assert_memory_equal(&u, &id, sizeof u);
        assert_int_equal((int64_t)ch_native_get(ch_native_column(&in, "i"), i), -5);
        n = ch_native_get_array(r, i, &first);
        assert_int_equal(n, i);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(ch_native_get(r, first + k), k);
        }
        assert_int_equal(ch_native_get_array(t, i, &first), 2);
        (void)snprintf(text, sizeof text, "%zu", i);
        assert_true(str_eq(ch_native_get_str(t, first), str_make("x")));
        assert_true(str_eq(ch_native_get_str(t, first + 1), str_make(text)));
        assert_true(
            str_eq(ch_native_get_str(ch_native_column(&in, "f"), i), str_make("0123456789abcdef")));
        assert_true(ch_native_get(ch_native_column(&in, "d"), i) == UINT64_C(0x3ff8000000000000));
    }
    assert_null(ch_native_column(&in, "x"));
    assert_int_equal(ch_native_get(NULL, 0), 0);
    assert_int_equal(ch_native_get_str(NULL, 0).n, 0);
    assert_err(ch_native_next(&in), ERR_END);
    ch_native_in_fini(&in);
}

/* What 26.7 sent for SELECT number AS n, toLowCardinality(…) AS w: words of two keys and "". */
#define DICTIONARY(last)                                                \
    "\x02\x03\x01n\x05UInt8\x00\x01\x02\x01w\x16LowCardinality(String)" \
    "\1\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\1\x61\2bc\3\0\0\0\0\0\0\0\1\2" last

static void words_of_few_values_are_read(void **state)
{
    static const char good[] = DICTIONARY("\0"), bad[] = DICTIONARY("\3");
    static const char *const words[] = {"a", "bc", ""};
    struct ch_in in;

    ch_native_in_init(&in, good, sizeof good - 1, 1u << 20);
    assert_ok(ch_native_next(&in));
    for (size_t i = 0; i < 3; i++) {
        assert_true(str_eq(ch_native_get_str(ch_native_column(&in, "w"), i), str_make(words[i])));
    }
    assert_err(ch_native_next(&in), ERR_END);
    ch_native_in_fini(&in);
    ch_native_in_init(&in, bad, sizeof bad - 1, 1u << 20);
    assert_err(ch_native_next(&in), ERR_CORRUPT); /* a key that is not there */
    ch_native_in_fini(&in);
    for (size_t n = 1; n < sizeof good - 1; n++) {
        uint8_t *copy = mem_dup(good, n);

        ch_native_in_init(&in, copy, n, 1u << 20);
        assert_err(ch_native_next(&in), ERR_CORRUPT);
        ch_native_in_fini(&in);
        mem_free(copy);
    }
}

/* Who asked for a number gets an array, whose elements are fewer than the rows. */
static void an_array_is_read_within_its_elements_as_anything(void **state)
{
    static const char numbers[] = "\2\2\1a\014Array(UInt8)\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\7"
                                  "\1b\5UInt8\x55\x55",
                      texts[] = "\2\2\1a\015Array(String)\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                "\1b\5UInt8\x55\x55",
                      ids[] = "\2\2\1a\013Array(UUID)\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                              "\1b\6String\0\16abcdefghijklmn";
    static const struct uuid none;
    struct ch_in in;
    struct uuid u;

    ch_native_in_init(&in, numbers, sizeof numbers - 1, 1u << 20);
    assert_ok(ch_native_next(&in));
    assert_int_equal(ch_native_get(&in.columns[0], 0), 7);
    assert_int_equal(ch_native_get(&in.columns[0], 1), 0);
    assert_int_equal(ch_native_get(&in.columns[1], 1), 0x55);
    ch_native_in_fini(&in);
    ch_native_in_init(&in, texts, sizeof texts - 1, 1u << 20);
    assert_ok(ch_native_next(&in));
    assert_int_equal(ch_native_get_str(&in.columns[0], 0).n, 0);
    assert_int_equal(ch_native_get_str(&in.columns[0], 1).n, 0);
    ch_native_in_fini(&in);
    ch_native_in_init(&in, ids, sizeof ids - 1, 1u << 20);
    assert_ok(ch_native_next(&in));
    u = ch_native_get_uuid(&in.columns[0], 0);
    assert_memory_equal(&u, &none, sizeof u);
    assert_int_equal(ch_native_get_str(&in.columns[0], 0).n, 0);
    ch_native_in_fini(&in);
}

static void every_shorter_answer_is_corrupt(void **state)
{
    struct ch_in in;

    for (size_t n = 1; n < sizeof recorded; n++) {
        uint8_t *copy = mem_dup(recorded, n); /* so that reading beyond is seen */

        ch_native_in_init(&in, copy, n, 1u << 20);
        assert_err(ch_native_next(&in), ERR_CORRUPT);
        assert_int_equal(in.n_columns, 0);
        ch_native_in_fini(&in);
        mem_free(copy);
    }
}

static void what_is_no_block_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        enum err e;
    } cases[] = {
#define BYTES(s) s, sizeof s - 1
        {BYTES("Code: 60. DB::Exception: Table default.cell doesn't exist."), ERR_CORRUPT},
        {BYTES("<html><body>502 Bad Gateway</body></html>"), ERR_CORRUPT},
        {BYTES("\x00\x05"), ERR_CORRUPT}, /* rows without columns */
        {BYTES("\x01\xff\xff\xff\xff\x0f\x01"
               "a\x05UInt8"),
         ERR_CORRUPT},                        /* more rows than bytes */
        {BYTES("\xff\x7f\x01"), ERR_CORRUPT}, /* columns beyond the limit */
        {BYTES("\x01\x01\x01"
               "a\x08Map(x,y)z"),
         ERR_UNSUPPORTED},
        {BYTES("\x01\x01\x01"
               "a\x0d"
               "Array(String)\x02\0\0\0\0\0\0\0\x01"
               "b"),
         ERR_CORRUPT},
        {BYTES("\x01\x01\x01"
               "a\x0d"
               "Array(UInt64)\xff\xff\xff\xff\xff\xff\xff\xff"),
         ERR_CORRUPT},
        {BYTES("\x01\x02\x01"
               "a\x0c"
               "Array(UInt8)\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0zz"),
         ERR_CORRUPT},
        {BYTES("\x01\x01\x01"
               "a\x06String\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
         ERR_CORRUPT},
        {BYTES("\x01\x00\x01"
               "a\x05UInt8"),
         ERR_END}, /* a head without rows */
        {BYTES(""), ERR_END},
#undef BYTES
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct ch_in in;

        ch_native_in_init(&in, cases[i].bytes, cases[i].n, 1u << 20);
        assert_err(ch_native_next(&in), cases[i].e);
        ch_native_in_fini(&in);
    }
}

static void an_index_of_strings_has_a_limit(void **state)
{
    struct ch_in in;
    struct buf b;

    buf_init(&b, 1u << 20);
    buf_put_str(&b, "\x01");
    buf_put_varint(&b, 100000);
    buf_put_str(&b, "\x01"
                    "a\x06String");
    for (int i = 0; i < 100000; i++) {
        buf_put_u8(&b, 0);
    }
    ch_native_in_init(&in, b.p, b.n, 100000);
    assert_err(ch_native_next(&in), ERR_FULL);
    ch_native_in_fini(&in);
    ch_native_in_init(&in, b.p, b.n, 1u << 20);
    assert_ok(ch_native_next(&in));
    ch_native_in_fini(&in);
    buf_fini(&b);
}

/* Row i has something in a column only where i fits. */
static void batch_rows(struct ch_block *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct str words[] = {{"source", 6}, {"decode", 6}, {"", 0}};
        uint64_t numbers[] = {i, UINT64_MAX - i, 0};

        ch_native_row(b);
        ch_native_uuid(b, CH_BATCH_host_id, &id);
        ch_native_u64(b, CH_BATCH_seq, i + 1);
        ch_native_u64(b, CH_BATCH_kind, CH_STORED);
        ch_native_u64(b, CH_BATCH_clock_offset, i % 3 ? (uint64_t) - (int64_t)i : 0);
        if (i % 4 == 1) {
            ch_native_str(b, CH_BATCH_source, str_make("proc"));
            ch_native_strings(b, CH_BATCH_stage, words, i % 3 + 1);
            ch_native_u64s(b, CH_BATCH_count, numbers, i % 3 + 1);
            ch_native_uuid(b, CH_BATCH_boot, &id);
        }
    }
}

static void what_is_written_is_read_back(void **state)
{
    struct ch_block *b;
    struct buf sql, out;
    struct ch_in in;
    size_t first;

    assert_ok(ch_native_block_create(&b, CH_BATCH));
    for (size_t round = 0; round < 2; round++) { /* the second one after a reset */
        ch_native_block_reset(b);
        batch_rows(b, 50);
        buf_init(&sql, 1u << 16);
        buf_init(&out, 1u << 20);
        assert_ok(ch_native_encode(b, CH_FULL, &sql, &out));
        assert_string_equal(buf_cstr(&sql),
                            "INSERT INTO `batch` (host_id,seq,kind,boot,source,clock_offset,"
                            "stage,count) FORMAT Native");
        ch_native_in_init(&in, out.p, out.n, 1u << 20);
        assert_ok(ch_native_next(&in));
        assert_int_equal(in.n_columns, 8);
        assert_int_equal(in.n_rows, 50);
        for (size_t i = 0; i < 50; i++) {
            struct uuid boot = ch_native_get_uuid(ch_native_column(&in, "boot"), i);
            struct uuid host = ch_native_get_uuid(ch_native_column(&in, "host_id"), i);
            const struct ch_in_column *count = ch_native_column(&in, "count");
            size_t n = ch_native_get_array(count, i, &first);

            assert_memory_equal(&host, &id, sizeof id);
            assert_int_equal(ch_native_get(ch_native_column(&in, "seq"), i), i + 1);
            assert_int_equal(ch_native_get(ch_native_column(&in, "kind"), i), CH_STORED);
            assert_int_equal((int64_t)ch_native_get(ch_native_column(&in, "clock_offset"), i),
                             i % 3 ? -(int64_t)i : 0);
            assert_int_equal(ch_native_get_str(ch_native_column(&in, "source"), i).n,
                             i % 4 == 1 ? 4 : 0);
            assert_int_equal(boot.b[15], i % 4 == 1 ? 0xff : 0);
            assert_int_equal(n, i % 4 == 1 ? i % 3 + 1 : 0);
            assert_true(n < 2 || ch_native_get(count, first + 1) == UINT64_MAX - i);
            assert_true(!n || str_eq(ch_native_get_str(ch_native_column(&in, "stage"), first),
                                     str_make("source")));
        }
        assert_err(ch_native_next(&in), ERR_END);
        ch_native_in_fini(&in);
        buf_fini(&out);
        buf_fini(&sql);
    }
    ch_native_block_destroy(b);
}

/* Values at the ends of what a width holds, and one beyond: as narrow as that, and no narrower. */
static void numbers_travel_as_narrow_as_they_are(void **state)
{
    static const struct {
        int64_t lo, hi;
        const char *with_sign, *without;
    } table[] = {
        {0, 1, "Int8", "UInt8"},
        {INT8_MIN, INT8_MAX, "Int8", "UInt64"},
        {0, INT8_MAX + 1, "Int16", "UInt8"},
        {0, UINT8_MAX, "Int16", "UInt8"},
        {INT8_MIN - 1, 0, "Int16", "UInt64"},
        {INT16_MIN, INT16_MAX, "Int16", "UInt64"},
        {1, UINT8_MAX + 1, "Int16", "UInt16"},
        {1, UINT16_MAX + 1, "Int32", "UInt32"},
        {INT16_MIN - 1, INT16_MAX, "Int32", "UInt64"},
        {INT32_MIN, INT32_MAX, "Int32", "UInt64"},
        {0, UINT32_MAX, "Int64", "UInt32"},
        {INT32_MIN - INT64_C(1), 3, "Int64", "UInt64"},
        {INT64_MIN, INT64_MAX, "Int64", "UInt64"},
    };
    size_t metric = ch_schema_metric(CH_SAMPLE, M_CPU_TIME);

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const int64_t v[] = {table[i].lo, 0, table[i].hi};
        struct ch_block *b;
        struct buf sql, out;
        struct ch_in in;

        buf_init(&sql, 1u << 16);
        buf_init(&out, 1u << 16);
        assert_ok(ch_native_block_create(&b, CH_SAMPLE));
        ch_native_rows_begin(b, 4);
        ch_native_rows_put(b, metric, 1, v, 3);
        ch_native_rows_put(b, CH_SAMPLE_stream, 0, v, 3);
        assert_ok(ch_native_encode(b, CH_NARROW, &sql, &out));
        ch_native_in_init(&in, out.p, out.n, 1u << 16);
        assert_ok(ch_native_next(&in));
        assert_int_equal(in.n_columns, 2);
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal((int64_t)ch_native_get(ch_native_column(&in, "m9"), k),
                             k ? v[k - 1] : 0);
            assert_int_equal((int64_t)ch_native_get(ch_native_column(&in, "stream"), k),
                             k < 3 ? v[k] : 0);
        }
        buf_put_u8(&out, 0); /* the names of the types stand behind those of the columns */
        assert_non_null(memmem(out.p, out.n, table[i].with_sign, strlen(table[i].with_sign)));
        assert_non_null(memmem(out.p, out.n, table[i].without, strlen(table[i].without)));
        ch_native_in_fini(&in);
        ch_native_block_destroy(b);
        buf_fini(&sql);
        buf_fini(&out);
    }
}

static void a_block_survives_every_failing_allocation(void **state)
{
    for (long n = 0, done = 0; !done; n++) {
        struct ch_block *b = NULL;
        struct buf sql, out;
        enum err e;

        buf_init(&sql, 1u << 16);
        buf_init(&out, 1u << 20);
        mem_fail_after(n);
        e = ch_native_block_create(&b, CH_BATCH);
        if (!e) {
            batch_rows(b, 5);
            e = ch_native_encode(b, CH_PLAIN, &sql, &out);
        }
        mem_fail_after(-1);
        done = !e;
        assert_true(!e || e == ERR_NOMEM);
        ch_native_block_destroy(b);
        buf_fini(&out);
        buf_fini(&sql);
    }
}

static void every_metric_has_its_columns(void **state)
{
    const struct ch_column *cell, *sample;
    size_t n_cell = ch_schema_columns(CH_CELL, &cell),
           n_sample = ch_schema_columns(CH_SAMPLE, &sample);
    size_t next = CH_CELL_METRICS, next_sample = CH_SAMPLE_METRICS;

    for (unsigned id_ = 0; id_ < METRIC_COLS + 2; id_++) {
        const struct metric *m = metric_by_id(id_);
        char name[16];

        if (!m || !m->column) {
            assert_int_equal(ch_schema_metric(CH_CELL, id_), 0);
            assert_int_equal(ch_schema_metric(CH_SAMPLE, id_), 0);
            continue;
        }
        (void)snprintf(name, sizeof name, "m%u", id_);
        assert_int_equal(ch_schema_metric(CH_CELL, id_), next);
        assert_int_equal(ch_schema_metric(CH_SAMPLE, id_), next_sample);
        assert_string_equal(cell[next].name, name);
        assert_string_equal(sample[next_sample].name, name);
        assert_int_equal(strncmp(cell[next + CH_MOST].name, name, strlen(name)), 0);
        next += m->kind == METRIC_GAUGE ? 4 : 3;
        next_sample++;
    }
    assert_int_equal(next, n_cell);
    assert_int_equal(next_sample, n_sample);
    assert_int_equal(ch_schema_metric(CH_BATCH, M_CPU_TIME), 0);
    assert_true(n_cell <= CH_IN_COLUMNS);
}

static void any_text_is_safe_in_quotes(void **state)
{
    static const char text[] = "a'b\\c`d\ne\0f\xc3\xa4";
    struct buf b;

    buf_init(&b, 4096);
    ch_schema_quote(&b, (struct str){text, sizeof text - 1});
    assert_string_equal(buf_cstr(&b), "'a\\x27b\\x5Cc\\x60d\\x0Ae\\x00f\xc3\xa4'");
    buf_fini(&b);
}

static void versions_choose_the_dialect(void **state)
{
    assert_int_equal(ch_schema_dialect("18.16.1"), CH_PLAIN);
    assert_int_equal(ch_schema_dialect("22.3.20.29"), CH_PLAIN);
    assert_int_equal(ch_schema_dialect("22.8.1.1"), CH_FULL);
    assert_int_equal(ch_schema_dialect("23.2.9.1"), CH_FULL);
    assert_int_equal(ch_schema_dialect("23.3.1.1"), CH_NARROW);
    assert_int_equal(ch_schema_dialect("26.7.3.1"), CH_NARROW);
    assert_int_equal(ch_schema_dialect("<html>"), CH_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_answer_is_read),
        cmocka_unit_test(words_of_few_values_are_read),
        cmocka_unit_test(an_array_is_read_within_its_elements_as_anything),
        cmocka_unit_test(every_shorter_answer_is_corrupt),
        cmocka_unit_test(what_is_no_block_is_refused),
        cmocka_unit_test(an_index_of_strings_has_a_limit),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(numbers_travel_as_narrow_as_they_are),
        cmocka_unit_test(a_block_survives_every_failing_allocation),
        cmocka_unit_test(every_metric_has_its_columns),
        cmocka_unit_test(any_text_is_safe_in_quotes),
        cmocka_unit_test(versions_choose_the_dialect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
