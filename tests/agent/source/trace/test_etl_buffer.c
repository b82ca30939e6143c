#include "tests/support/t.h"

#include <string.h>

#include "agent/source/trace/etl_buffer.h"
#include "tests/support/etl_writer.h"

static void header(uint8_t p[ETL_BUFFER_HEADER], uint32_t size, uint32_t filled, uint16_t cpu,
                   uint16_t flags)
{
    memset(p, 0, ETL_BUFFER_HEADER);
    memcpy(p, &size, 4);
    memcpy(p + 0x28, &cpu, 2);
    memcpy(p + 0x30, &filled, 4);
    memcpy(p + 0x34, &flags, 2);
}

static void the_cpu_is_wide_only_where_the_flag_says_so(void **state)
{
    uint8_t p[ETL_BUFFER_HEADER];
    struct etl_buffer b;

    header(p, 65536, 0x100, 0x0803, 0);
    assert_ok(etl_buffer_read(&b, p, sizeof p));
    assert_int_equal(b.cpu, 3);
    header(p, 65536, 0x100, 0x0803, ETL_BUFFER_WIDE_CPU);
    assert_ok(etl_buffer_read(&b, p, sizeof p));
    assert_int_equal(b.cpu, 0x803);
}

static void every_short_header_is_rejected(void **state)
{
    uint8_t p[ETL_BUFFER_HEADER];
    struct etl_buffer b;

    header(p, 65536, 0x100, 0, 0);
    for (size_t n = 0; n < sizeof p; n++) {
        assert_err(etl_buffer_read(&b, p, n), ERR_CORRUPT);
    }
}

static void impossible_sizes_are_rejected(void **state)
{
    static const uint32_t rows[][2] = {
        {0, 0x48},
        {0x47, 0x48},
        {ETL_BUFFER_MAX + 1, 0x48},
        {65536, ETL_BUFFER_MAX + 1},
    };
    uint8_t p[ETL_BUFFER_HEADER];
    struct etl_buffer b;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        header(p, rows[i][0], rows[i][1], 0, 0);
        assert_err(etl_buffer_read(&b, p, sizeof p), ERR_CORRUPT);
    }
}

static void the_log_file_header_is_read(void **state)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_log_header h;
    struct etl_writer w;

    for (unsigned size = 4; size <= 8; size += 4) {
        conf.pointer_size = (uint8_t)size;
        conf.events_lost = 3;
        conf.buffers_lost = 1;
        etl_writer_init(&w, &conf);
        etl_writer_close(&w);
        assert_ok(etl_buffer_log_header(&h, w.file.p, w.file.n));
        assert_int_equal(h.pointer_size, size);
        assert_int_equal(h.major, 10);
        assert_int_equal(h.build, 19045);
        assert_int_equal(h.cpus, 2);
        assert_int_equal(h.frequency, 10000000);
        assert_int_equal(h.whole_ns, 100);
        assert_int_equal(h.zero_ticks, 1000);
        assert_int_equal(h.start_ns, clk_from_filetime(conf.start));
        assert_int_equal(h.boot_ns, clk_from_filetime(conf.boot));
        assert_int_equal(h.span_ns, 60 * CLK_S);
        assert_int_equal(h.events_lost, 3);
        assert_int_equal(h.buffers_lost, 1);
        etl_writer_fini(&w);
    }
}

static void every_cut_log_file_header_is_rejected(void **state)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_log_header h;
    struct etl_writer w;

    etl_writer_init(&w, &conf);
    for (size_t n = 0; n < ETL_BUFFER_HEADER + 0x20 + 0x118; n++) {
        assert_err(etl_buffer_log_header(&h, w.file.p, n), ERR_CORRUPT);
    }
    etl_writer_fini(&w);
}

static void the_three_clocks_count_the_same_nanoseconds(void **state)
{
    static const struct {
        uint32_t clock;
        uint64_t frequency;
        uint32_t mhz;
        int64_t ticks_per_s;
    } rows[] = {
        {1, 10000000, 0, 10000000}, {1, 3117777, 0, 3117777}, {1, 14318180, 0, 14318180},
        {2, 3117777, 0, 10000000},  {3, 0, 3592, 3592000000}, {3, 0, 2000, 2000000000},
        {1, 0, 0, 10000000}, /* broken: taken for 100 ns */
    };
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_log_header h;
    struct etl_writer w;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        conf.clock = rows[i].clock;
        conf.frequency = rows[i].frequency;
        conf.cpu_mhz = rows[i].mhz;
        etl_writer_init(&w, &conf);
        etl_writer_close(&w);
        assert_ok(etl_buffer_log_header(&h, w.file.p, w.file.n));
        assert_int_equal(etl_buffer_ns(&h, 1000 + 86400 * rows[i].ticks_per_s), 86400 * CLK_S);
        assert_int_equal(etl_buffer_ns(&h, 1000 - rows[i].ticks_per_s), -CLK_S);
        assert_int_equal(etl_buffer_ns(&h, 1000), 0);
        assert_int_equal(etl_buffer_ns(&h, INT64_MIN), INT64_MIN);
        assert_true(etl_buffer_ns(&h, INT64_MAX) > 1000000 * CLK_S);
        etl_writer_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_is_wide_only_where_the_flag_says_so),
        cmocka_unit_test(every_short_header_is_rejected),
        cmocka_unit_test(impossible_sizes_are_rejected),
        cmocka_unit_test(the_log_file_header_is_read),
        cmocka_unit_test(every_cut_log_file_header_is_rejected),
        cmocka_unit_test(the_three_clocks_count_the_same_nanoseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
