/* Trace files of every shape there is, also those no recording at hand has, made by the writer and
 * read back. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/trace/etl_file.h"
#include "agent/source/trace/etl_index.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/etl_session.h"
#include "tests/support/support.h"

static char dir[256], path[300];

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

#define LOST_MAX 32
#define RAW_MAX  64

/* What a reading gave. */
struct got {
    size_t n_raw;
    struct raw_event raw[RAW_MAX]; /* the first ones; pointers are no longer valid */
    uint8_t first[RAW_MAX];        /* byte of the payload */
    size_t n_lost;
    struct event lost[LOST_MAX];
    uint64_t lost_at[LOST_MAX]; /* records before it */
    uint64_t records, early, bytes;
    int64_t last_ns;
    uint64_t by_cpu[2048];
    struct source_stats stats;
    struct source_about about;
};

static void on_raw(void *ctx, const struct raw_event *ev)
{
    struct got *g = ctx;

    if (ev->early) {
        g->early++;
        return;
    }
    assert_int_equal(ev->wall_ns, g->last_ns);
    if (g->n_raw < RAW_MAX) {
        g->first[g->n_raw] = ev->payload_n ? ev->payload[0] : 0;
        g->raw[g->n_raw++] = *ev;
    }
    g->records++;
    g->bytes += ev->payload_n;
    assert_true(ev->cpu < COUNT_OF(g->by_cpu));
    g->by_cpu[ev->cpu]++;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct got *g = ctx;

    (void)mono_ns;
    assert_true(wall_ns > g->last_ns);
    g->last_ns = wall_ns;
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct got *g = ctx;

    if (ev->kind == EV_GROUPS) {
        return; /* before all else */
    }
    assert_int_equal(ev->kind, EV_LOST);
    assert_int_equal(ev->wall_ns, g->last_ns);
    assert_false(ev->early);
    assert_true(g->n_lost < LOST_MAX);
    g->lost_at[g->n_lost] = g->records;
    g->lost[g->n_lost++] = *ev;
}

static void read_path(struct got *g)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.ctx = g, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct source *src;

    memset(g, 0, sizeof *g);
    g->last_ns = INT64_MIN;
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->stats(src, &g->stats);
    g->about = src->about;
    src->ops->close(src);
}

/* Records of all CPUs at random; by_cpu gets how many each has. */
static void put_random(struct etl_session *s, uint64_t seed, size_t n, uint64_t *by_cpu)
{
    int64_t now = s->conf.file.zero_ticks;

    for (size_t i = 0; i < n; i++) {
        uint16_t cpu = (uint16_t)(next_random(&seed) % s->conf.file.cpus);

        now += (int64_t)(next_random(&seed) % 1000);
        by_cpu[cpu]++;
        switch (next_random(&seed) % 8) {
        case 0:
            etl_session_process(s, cpu, ETL_START, now, (uint32_t)i * 4, 4, "a.exe");
            break;
        case 1:
            etl_session_thread(s, cpu, ETL_RUNDOWN, now, 4, (uint32_t)i * 4);
            break;
        case 2:
            etl_session_ready(s, cpu, now, 8);
            break;
        case 3:
            etl_session_sample(s, cpu, now, 8, false);
            break;
        case 4:
            etl_session_interval(s, cpu, now, 10000);
            break;
        default:
            etl_session_switch(s, cpu, now, 8, 12);
        }
    }
    etl_session_end(s, now);
}

static void random_sessions_of_every_kind_read_back_whole(void **state)
{
    for (uint64_t seed = 1; seed <= 48; seed++) {
        struct etl_session_conf conf = etl_session_defaults();
        uint64_t by_cpu[1024] = {0};
        struct etl_session s;
        struct got g;

        conf.file.cpus = seed % 5 == 0 ? 300 : 1 + (uint32_t)seed % 9;
        conf.file.pointer_size = seed % 3 ? 8 : 4;
        conf.file.clock = 1 + (uint32_t)seed % 3;
        conf.file.buffer_size = 1024u << seed % 7;
        conf.file.narrow_cpu = seed % 4 == 0 && conf.file.cpus < 256;
        conf.compress = seed % 2;
        conf.crash = seed % 7 == 0;
        etl_session_begin(&s, &conf, path);
        put_random(&s, seed, 5000, by_cpu);
        read_path(&g);
        assert_int_equal(g.records, 5001);
        assert_int_equal(g.records, s.records);
        by_cpu[0]++; /* the log-file header */
        assert_memory_equal(g.by_cpu, by_cpu, sizeof by_cpu);
        assert_int_equal(g.stats.damaged, 0);
        assert_int_equal(g.stats.lost_events + g.stats.lost_buffers + g.n_lost, 0);
        assert_int_equal(g.last_ns, g.about.last_wall_ns);
    }
}

static void every_header_type_comes_with_its_fields(void **state)
{
    static const uint8_t guid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static const struct etl_rec_item items[2] = {{1, "activity is sixteen", 16}, {11, "schema", 6}};
    static const struct {
        enum etl_record_type type;
        uint8_t pointer;
        bool ids, has_guid;
    } rows[] = {
        {ETL_SYSTEM32, 4, true, false},    {ETL_SYSTEM64, 8, true, false},
        {ETL_COMPACT32, 4, true, false},   {ETL_COMPACT64, 8, true, false},
        {ETL_PERFINFO32, 4, false, false}, {ETL_PERFINFO64, 8, false, false},
        {ETL_FULL32, 4, true, true},       {ETL_FULL64, 8, true, true},
        {ETL_INSTANCE32, 4, true, true},   {ETL_INSTANCE64, 8, true, true},
        {ETL_EVENT32, 4, true, true},      {ETL_EVENT64, 8, true, true},
        {ETL_ERROR, 8, true, false},       {ETL_MESSAGE, 4, true, true},
    };
    struct etl_session_conf conf = etl_session_defaults();
    struct etl_session s;
    struct got g;

    etl_session_begin(&s, &conf, path);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etl_rec r = etl_rec_system(15, 46, 2, 2000 + (int64_t)i, "payload", 7);

        r.type = rows[i].type;
        r.guid = guid;
        r.id = 77;
        r.level = 5;
        r.keyword = UINT64_C(0x123456789a);
        r.counters = 3;
        r.pebs = true;
        r.items = items;
        r.n_items = COUNT_OF(items);
        r.options = ETL_REC_SEQUENCE | ETL_REC_GUID | ETL_REC_TIME | ETL_REC_IDS | ETL_REC_32BIT;
        etl_session_put(&s, 1, &r);
    }
    etl_session_end(&s, 3000);
    read_path(&g);
    assert_int_equal(g.records, 1 + COUNT_OF(rows));
    assert_int_equal(g.stats.damaged, 0);
    assert_int_equal(g.stats.lost_events, 1); /* the ERROR record */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct raw_event *ev = &g.raw[1 + i];
        bool event = rows[i].type == ETL_EVENT32 || rows[i].type == ETL_EVENT64;

        assert_int_equal(ev->header, rows[i].type);
        assert_int_equal(ev->pointer_size, rows[i].pointer);
        assert_int_equal(ev->ticks, 2000 + (int64_t)i);
        assert_int_equal(ev->wall_ns - g.raw[0].wall_ns, (1000 + (int64_t)i) * 100);
        assert_int_equal(ev->frequency, conf.file.frequency);
        assert_int_equal(ev->cpu, 1);
        assert_int_equal(ev->tid, rows[i].ids ? 8 : EVENT_NO_ID);
        assert_int_equal(ev->pid, rows[i].ids ? 4 : EVENT_NO_ID);
        assert_int_equal(ev->payload_n, 7);
        assert_int_equal(g.first[1 + i], 'p');
        assert_int_equal(memcmp(ev->guid, guid, 16) == 0, rows[i].has_guid);
        assert_int_equal(ev->ext_n, event ? 24 + 16 : 0);
        assert_int_equal(ev->form, event                         ? RAW_MANIFEST
                                   : rows[i].type == ETL_MESSAGE ? RAW_MESSAGE
                                                                 : RAW_CLASSIC);
        if (ev->form != RAW_CLASSIC) {
            assert_int_equal(ev->id, 77);
        }
    }
}

/* Records of one CPU at the times of its buffers, in one file with others. */
static void put_switch(struct etl_session *s, uint16_t cpu, int64_t after)
{
    etl_session_switch(s, cpu, s->conf.file.zero_ticks + after, 8, 12);
}

static void assert_lost(const struct got *g, size_t i, uint16_t cpu, uint64_t records,
                        uint64_t events, uint64_t buffers)
{
    assert_true(i < g->n_lost);
    assert_int_equal(g->lost[i].cpu, cpu);
    assert_false(g->lost[i].u.lost.all_cpus);
    assert_int_equal(g->lost_at[i], records);
    assert_int_equal(g->lost[i].u.lost.events, events);
    assert_int_equal(g->lost[i].u.lost.buffers, buffers);
}

static void lost_buffers_and_events_are_told_before_the_next_record_of_their_cpu(void **state)
{
    struct etl_session_conf conf = etl_session_defaults();
    struct etl_session s;
    struct got g;

    etl_session_begin(&s, &conf, path);
    put_switch(&s, 0, 10);
    put_switch(&s, 1, 15);
    etl_session_flush(&s, 0);
    put_switch(&s, 0, 20);
    assert_int_equal(etl_session_open_since(&s, 0), conf.file.zero_ticks + 20);
    assert_int_equal(etl_session_lose_buffer(&s, 0), 1);
    put_switch(&s, 1, 25);
    put_switch(&s, 0, 30);
    etl_session_lose_events(&s, 1, 3);
    put_switch(&s, 1, 40);
    etl_session_end(&s, conf.file.zero_ticks + 50);
    read_path(&g);
    assert_int_equal(g.records, 6);
    assert_int_equal(g.records, s.records);
    assert_int_equal(g.n_lost, 2);
    assert_lost(&g, 0, 0, 4, 0, 1); /* behind the header, 10, 15 and 25 */
    assert_lost(&g, 1, 1, 5, 1, 0);
    assert_int_equal(g.stats.lost_events, 3);
    assert_int_equal(g.stats.lost_buffers, 1);
    assert_int_equal(g.stats.damaged, 0);
}

static void change(size_t at, const void *p, size_t n)
{
    uint8_t *file;
    size_t size;

    assert_ok(os_read_file(&file, &size, path, 64u << 20));
    assert_true(at + n <= size);
    memcpy(file + at, p, n);
    assert_ok(os_write_file(path, file, size, false));
    mem_free(file);
}

/* Header, then buffers of CPU 0, 1, 0, 1 with two records of 0x28 bytes each, 4 KiB a buffer. */
static void save_four_buffers(void)
{
    struct etl_session_conf conf = etl_session_defaults();
    struct etl_session s;

    conf.file.buffer_size = 4096;
    etl_session_begin(&s, &conf, path);
    for (uint16_t i = 0; i < 4; i++) {
        put_switch(&s, i % 2, 100 * i + 10);
        put_switch(&s, i % 2, 100 * i + 20);
        etl_session_flush(&s, i % 2);
    }
    etl_session_end(&s, conf.file.zero_ticks + 500);
}

static void damage_is_told_as_loss_from_the_last_good_record_on(void **state)
{
    struct got g;

    save_four_buffers();
    change(4096 + 0x48 + 0x28 + 4, "\x01", 1); /* the size of the second record */
    read_path(&g);
    assert_int_equal(g.records, 8);
    assert_int_equal(g.stats.damaged, 1);
    assert_int_equal(g.stats.skipped_bytes, 0x28);
    assert_int_equal(g.n_lost, 1);
    assert_lost(&g, 0, 0, 4, 0, 0); /* before the third buffer's first record */

    save_four_buffers();
    change(4 * 4096 + 0x48 + 0x28 + 4, "\x01", 1); /* the same of the last one of CPU 1 */
    read_path(&g);
    assert_int_equal(g.records, 8);
    assert_int_equal(g.n_lost, 1);
    assert_lost(&g, 0, 1, 8, 0, 0);
}

static void a_buffer_that_cannot_be_found_is_loss_of_every_cpu(void **state)
{
    struct got g;

    save_four_buffers();
    change(2 * 4096, "\xee\xee\xee\xee", 4);
    read_path(&g);
    assert_int_equal(g.records, 7);
    assert_int_equal(g.stats.damaged, 2); /* and fewer buffers than the header says */
    assert_int_equal(g.stats.skipped_bytes, 4096);
    assert_int_equal(g.n_lost, 2);
    assert_lost(&g, 0, 0, 3, 0, 0);
    assert_lost(&g, 1, 1, 5, 0, 0);
}

static void a_wrong_size_in_a_header_costs_no_other_buffer(void **state)
{
    static const char sizes[][4] = {
        {0, 0x20, 0, 0}, {0, 0x30, 0, 0}, {(char)0x80, 0x10, 0, 0}, {0, 0x10, 1, 0}, {0, 8, 0, 0}};

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct got g;

        save_four_buffers();
        change(2 * 4096, sizes[i], 4);
        read_path(&g);
        assert_int_equal(g.records, 9);
        assert_int_equal(g.stats.damaged, 1);
        assert_int_equal(g.stats.skipped_bytes, 0);
    }
}

static void a_cut_between_two_buffers_shows(void **state)
{
    uint8_t *file;
    struct got g;
    size_t n;

    save_four_buffers();
    assert_ok(os_read_file(&file, &n, path, 1 << 20));
    assert_int_equal(n, 5 * 4096);
    assert_ok(os_write_file(path, file, 4 * 4096, false));
    mem_free(file);
    read_path(&g);
    assert_int_equal(g.records, 7);
    assert_int_equal(g.stats.damaged, 1);
    assert_int_equal(g.stats.skipped_bytes, 0);
}

static void zeroed_sectors_are_counted_to_the_byte(void **state)
{
    static const uint8_t zeros[0x28];
    struct got g;

    save_four_buffers();
    change(4096 + 0x48 + 0x28, zeros, sizeof zeros);
    read_path(&g);
    assert_int_equal(g.records, 8);
    assert_int_equal(g.stats.damaged, 1);
    assert_int_equal(g.stats.skipped_bytes, 0x28);
}

static void every_clock_gives_the_same_times(void **state)
{
    static const struct {
        uint32_t clock, cpu_mhz;
        uint64_t frequency;
        int64_t ticks; /* of one second and 1 µs */
    } rows[] = {
        {1, 2000, 10000000, 10000010},   {1, 2000, 3117777, 3117780}, {2, 2000, 3117777, 10000010},
        {3, 2592, 10000000, 2592002592}, {3, 0, 0, 10000010},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etl_session_conf conf = etl_session_defaults();
        struct etl_session s;
        struct got g;
        int64_t off;

        conf.file.clock = rows[i].clock;
        conf.file.cpu_mhz = rows[i].cpu_mhz;
        conf.file.frequency = rows[i].frequency;
        conf.crash = true; /* the writer cannot know the end by a clock of 0 Hz */
        conf.file.zero_ticks = INT64_C(133325146816039544);
        etl_session_begin(&s, &conf, path);
        put_switch(&s, 0, rows[i].ticks);
        etl_session_end(&s, conf.file.zero_ticks);
        read_path(&g);
        assert_int_equal(g.records, 2);
        off = g.raw[1].wall_ns - g.raw[0].wall_ns - (CLK_S + 1000);
        assert_true(off > -100 && off < 100);
        assert_int_equal(g.raw[0].wall_ns, clk_from_filetime(conf.file.start));
    }
}

static void buffers_of_a_mebibyte_unpack(void **state)
{
    struct etl_session_conf conf = etl_session_defaults();
    uint64_t by_cpu[1024] = {0};
    struct etl_session s;
    struct got g;

    conf.file.buffer_size = 1 << 20;
    conf.compress = true;
    etl_session_begin(&s, &conf, path);
    put_random(&s, 7, 120000, by_cpu);
    read_path(&g);
    assert_true(s.w.n_buffers > 4);
    assert_int_equal(g.records, 120001);
    assert_int_equal(g.stats.damaged, 0);
}

static void a_circular_file_that_wrapped_gives_its_last_buffers_in_order(void **state)
{
    for (uint32_t buffers = 1; buffers < 40; buffers++) {
        struct etl_session_conf conf = etl_session_defaults();
        uint64_t by_cpu[1024] = {0};
        struct etl_session s;
        struct got g;

        conf.file.buffer_size = 2048;
        conf.file.mode = 2;
        conf.file.cpus = 3;
        conf.circular_buffers = buffers;
        conf.crash = buffers % 2;
        etl_session_begin(&s, &conf, path);
        put_random(&s, buffers, 3000, by_cpu);
        read_path(&g);
        assert_true(s.w.n_buffers > buffers + 1);
        assert_in_range(g.records, 12 * buffers, 90 * buffers); /* order: see on_advance */
        assert_int_equal(g.stats.damaged, 0);
        assert_int_equal(g.n_lost, 0);
    }
}

static void buffers_of_every_type_are_read_side_by_side(void **state)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_writer w;
    struct got g;

    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    for (uint16_t type = 0; type < 9; type++) { /* 8 is not known to anybody */
        if (type != 4) {
            etl_writer_buffer_as(&w, 1, 0, type);
            for (int64_t k = 0; k < 5; k++) {
                uint8_t tag = (uint8_t)(10 * k + type);

                etl_writer_perfinfo(&w, 15, 46, 2, 1100 + 10 * k + type, &tag, 1);
            }
            etl_writer_close(&w);
        }
    }
    etl_writer_save(&w, path);
    etl_writer_fini(&w);
    read_path(&g);
    assert_int_equal(g.records, 1 + 8 * 5);
    for (size_t i = 2; i < g.n_raw; i++) {
        assert_true(g.first[i] > g.first[i - 1]); /* strictly in order of their stamps */
        assert_int_equal(g.raw[i].wall_ns - g.raw[0].wall_ns, (100 + g.first[i]) * 100);
    }
    assert_int_equal(g.stats.damaged, 0);
}

static void streams_beyond_the_limit_are_passed_over_and_counted(void **state)
{
    enum { TYPES = 8, CPUS = 1100, BEYOND = TYPES * CPUS - ETL_INDEX_STREAMS_MAX };
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_writer w;
    struct got g;

    conf.buffer_size = 1024;
    etl_writer_init(&w, &conf); /* type 4, CPU 0 */
    etl_writer_close(&w);
    for (uint16_t type = 0; type < TYPES; type++) {
        for (uint16_t cpu = 0; cpu < CPUS; cpu++) {
            etl_writer_buffer_as(&w, cpu, 0, type);
            etl_writer_perfinfo(&w, 15, 46, 2, 1100 + type, &cpu, 2);
            etl_writer_close(&w);
        }
    }
    etl_writer_save(&w, path);
    etl_writer_fini(&w);
    read_path(&g);
    assert_int_equal(g.records, 1 + ETL_INDEX_STREAMS_MAX);
    assert_int_equal(g.stats.damaged, BEYOND);
    assert_int_equal(g.stats.skipped_bytes, BEYOND * 1024);
}

static void a_small_file_that_unpacks_to_very_much_is_refused(void **state)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct source_sink sink = {.raw = on_raw, .advance = on_advance};
    const char *paths[1] = {path};
    struct etl_file_conf file = {.paths = paths, .n_paths = 1};
    struct errmsg why = {""};
    struct etl_writer w;
    struct source *src;
    struct buf bomb;

    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    etl_writer_buffer(&w, 0, 0);
    etl_writer_close_compressed(&w);
    buf_init(&bomb, 4096);
    buf_put(&bomb, w.file.p + w.buffer_at, w.file.n - w.buffer_at);
    bomb.p[0x33] = 1; /* 16 MiB once unpacked */
    bomb.p[0x32] = bomb.p[0x31] = bomb.p[0x30] = 0;
    for (int i = 0; i < 40; i++) {
        buf_put(&w.file, bomb.p, bomb.n);
    }
    etl_writer_save(&w, path);
    buf_fini(&bomb);
    etl_writer_fini(&w);
    assert_err(etl_file_open(&src, &file, sink, &why), ERR_FULL);
    assert_non_null(strstr(why.text, path));
}

static int make_dir(void **state)
{
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/shape.etl", dir);
    return 0;
}

static int remove_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sessions_of_every_kind_read_back_whole),
        cmocka_unit_test(every_header_type_comes_with_its_fields),
        cmocka_unit_test(lost_buffers_and_events_are_told_before_the_next_record_of_their_cpu),
        cmocka_unit_test(damage_is_told_as_loss_from_the_last_good_record_on),
        cmocka_unit_test(a_buffer_that_cannot_be_found_is_loss_of_every_cpu),
        cmocka_unit_test(a_wrong_size_in_a_header_costs_no_other_buffer),
        cmocka_unit_test(a_cut_between_two_buffers_shows),
        cmocka_unit_test(zeroed_sectors_are_counted_to_the_byte),
        cmocka_unit_test(every_clock_gives_the_same_times),
        cmocka_unit_test(buffers_of_a_mebibyte_unpack),
        cmocka_unit_test(a_circular_file_that_wrapped_gives_its_last_buffers_in_order),
        cmocka_unit_test(buffers_of_every_type_are_read_side_by_side),
        cmocka_unit_test(streams_beyond_the_limit_are_passed_over_and_counted),
        cmocka_unit_test(a_small_file_that_unpacks_to_very_much_is_refused),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
