#include "common/lab/run_file.h"

#include <string.h>

#include <zstd.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/t.h"

#define S       INT64_C(1000000000)
#define T0      (INT64_C(1795000000) * S)
#define FIXTURE "tests/common/fixtures/run-v1.pfr"

#define TEXT(s)          \
    {                    \
        s, sizeof(s) - 1 \
    }

/* -- a run of two hosts with everything in it -- */

static const struct run_pair labels[] = {{TEXT("build"), TEXT("4711")}};
static const struct run_pair facts[] = {{TEXT("os_name"), TEXT("Windows 11")},
                                        {TEXT("memory_bytes"), TEXT("34359738368")}};
static const struct run_span spans[] = {{T0 + S, T0 + 2 * S, 1, 17, true}};
static const struct run_stage stages[] = {{TEXT("source"), TEXT("in"), 0, 0, 123456}};
static const struct run_host hosts[] = {
    {.id = {{1}},
     .name = TEXT("lab-1"),
     .agent = TEXT("0.3.0"),
     .source = TEXT("etw"),
     .cpu_origin = CPU_ORIGIN_CSWITCH,
     .step_ns = S,
     .begin_ns = T0,
     .end_ns = T0 + 600 * S,
     .clock_error_ns = 12000000,
     .ppm = 999800,
     .at_most = true,
     .overlapped = true,
     .ticks = 600,
     .lost_ticks = 1,
     .events = 100000,
     .lost_events = 17,
     .n_labels = 1,
     .n_facts = 2,
     .n_spans = 1,
     .n_stages = 1,
     .labels = labels,
     .facts = facts,
     .spans = spans,
     .stages = stages},
    {.id = {{2}}, .name = TEXT("lab-2"), .polled = true, .absent = true},
};
static const uint8_t metrics[] = {M_CPU_TIME, M_PRIVATE_BYTES, M_READ_BYTES, M_CLR_GC_PAUSE};
static const int64_t cell[] = {3900 * S, 812, 400, 300, INT64_MAX, 0};
static const int64_t whole[] = {0, 1000, 500, 300, 0, 0};
static const struct run_row rows[] = {
    {.host = 0,
     .of = RUN_ROW_CELL,
     .in_tree = true,
     .image = TEXT("cc1"),
     .user = TEXT("S-1-5-18"),
     .instances = 1080,
     .starts = 1080,
     .ends = 1079,
     .failed = 3,
     .crashed = 1,
     .have = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_PRIVATE_BYTES) | METRIC_BIT(M_READ_BYTES),
     .values = cell},
    {.host = 1, .of = RUN_ROW_HOST, .have = METRIC_BIT(M_PRIVATE_BYTES), .values = whole},
};
static const struct str groups[] = {TEXT("cc1"), TEXT("")};
static const uint8_t series_metrics[] = {M_CPU_TIME};
static const uint32_t present[] = {1000000, 990000, 0};
static const int64_t series_values[] = {5, 6, -1, 0, INT64_MAX, -1};
static const struct run_life lives[] = {
    {.host = 1,
     .pid = 812,
     .parent_pid = 811,
     .exit_code = 11,
     .flags = RUN_LIFE_IN_TREE | RUN_LIFE_ENDED | RUN_LIFE_SIGNALLED | RUN_LIFE_EXIT_KNOWN,
     .start = UINT64_MAX,
     .begin_ns = T0,
     .end_ns = T0 + 3 * S,
     .cpu_ns = -1,
     .name = TEXT("cc1"),
     .user = TEXT("pg"),
     .parent_name = TEXT("gcc"),
     .command = TEXT("cc1 -quiet a.c")},
};
static const struct run_notice notices[] = {
    {T0, TEXT("antivirus-cpu"), TEXT("lab-1 MsMpEng.exe"), TEXT("firing"), TEXT("takes 31 %")},
};

static struct run_column columns[COUNT_OF(metrics)];

static struct run_file sample(void)
{
    struct run_file f = {
        .head = {.id = {{9}},
                 .parent = {{8}},
                 .name = TEXT("nightly-412"),
                 .owner = TEXT("ci"),
                 .made_by = TEXT("procfleet-collector 0.3.0"),
                 .source = TEXT("a.etl"),
                 .state = RUN_READY,
                 .origin = RUN_OF_RECORDING,
                 .revision = 2,
                 .begin_ns = T0,
                 .end_ns = T0 + 600 * S,
                 .has_exit = true,
                 .exit_code = 2,
                 .has_root = true,
                 .boot = {{7}},
                 .root_pid = 4711,
                 .peak_step_ns = S,
                 .by_class = true,
                 .n_labels = 1,
                 .labels = labels},
        .hosts = hosts,
        .n_hosts = 2,
        .columns = columns,
        .n_columns = COUNT_OF(metrics),
        .n_slots = run_file_layout(columns, metrics, COUNT_OF(metrics)),
        .rows = rows,
        .n_rows = 2,
        .series = {.t0_ns = T0,
                   .step_ns = 200 * S,
                   .n_buckets = 3,
                   .present = present,
                   .n_groups = 2,
                   .n_metrics = 1,
                   .groups = groups,
                   .metrics = series_metrics,
                   .values = series_values},
        .lives = lives,
        .n_lives = 1,
        .lives_left_out = 5,
        .crashes = lives,
        .n_crashes = 1,
        .notices = notices,
        .n_notices = 1,
    };

    return f;
}

static void encode(struct buf *b, const struct run_file *f)
{
    buf_init(b, RUN_FILE_MAX);
    assert_ok(run_file_encode(b, f));
}

static void assert_str(struct str a, const char *b)
{
    assert_int_equal(a.n, strlen(b));
    assert_memory_equal(a.p, b, a.n);
}

static void assert_is_sample(const struct run_file *f)
{
    const struct run_host *h = &f->hosts[0];
    const struct run_life *l = &f->lives[0];

    assert_str(f->head.name, "nightly-412");
    assert_str(f->head.source, "a.etl");
    assert_int_equal(f->head.id.b[0], 9);
    assert_int_equal(f->head.parent.b[0], 8);
    assert_int_equal(f->head.boot.b[0], 7);
    assert_int_equal(f->head.state, RUN_READY);
    assert_int_equal(f->head.origin, RUN_OF_RECORDING);
    assert_int_equal(f->head.revision, 2);
    assert_int_equal(f->head.end_ns - f->head.begin_ns, 600 * S);
    assert_true(f->head.has_exit && f->head.has_root && f->head.by_class);
    assert_int_equal(f->head.exit_code, 2);
    assert_int_equal(f->head.root_pid, 4711);
    assert_str(f->head.labels[0].value, "4711");
    assert_int_equal(f->n_hosts, 2);
    assert_str(h->name, "lab-1");
    assert_str(h->facts[1].value, "34359738368");
    assert_int_equal(h->cpu_origin, CPU_ORIGIN_CSWITCH);
    assert_int_equal(h->ppm, 999800);
    assert_int_equal(h->spans[0].events, 17);
    assert_true(h->spans[0].at_most && h->at_most && h->overlapped && !h->absent);
    assert_int_equal(h->stages[0].count, 123456);
    assert_true(f->hosts[1].absent && f->hosts[1].polled);
    assert_int_equal(f->n_columns, 4);
    assert_int_equal(f->n_slots, 6);
    assert_int_equal(f->n_rows, 2);
    assert_memory_equal(f->rows[0].values, cell, 5 * sizeof *cell); /* clr.gc_pause is absent */
    assert_int_equal(f->rows[1].values[1], 1000);
    assert_int_equal(f->rows[0].crashed, 1);
    assert_int_equal(f->series.n_groups, 2);
    assert_memory_equal(f->series.values, series_values, sizeof series_values);
    assert_memory_equal(f->series.present, present, sizeof present);
    assert_int_equal(f->lives_left_out, 5);
    assert_true(l->start == UINT64_MAX);
    assert_int_equal(l->cpu_ns, -1);
    assert_str(l->command, "cc1 -quiet a.c");
    assert_str(f->crashes[0].parent_name, "gcc");
    assert_str(f->notices[0].text, "takes 31 %");
}

static void what_is_written_is_read(void **state)
{
    struct run_file in = sample(), *f;
    struct buf b, again;

    encode(&b, &in);
    assert_ok(run_file_decode(&f, b.p, b.n, RUN_FILE_ALL, NULL));
    assert_is_sample(f);
    encode(&again, f);
    assert_int_equal(b.n, again.n);
    assert_memory_equal(b.p, again.p, b.n);
    buf_fini(&again);
    buf_fini(&b);
    run_file_free(f);
}

/* Made by the first release that had them; never written again. */
static void a_file_of_version_1_is_read(void **state)
{
    struct errmsg why;
    struct run_file *f;

    assert_ok(run_file_read(&f, FIXTURE, RUN_FILE_ALL, &why));
    assert_is_sample(f);
    run_file_free(f);
    assert_err(run_file_read(&f, FIXTURE ".not", RUN_FILE_ALL, &why), ERR_NOTFOUND);
}

static void only_what_is_asked_for_is_unpacked(void **state)
{
    struct run_file in = sample(), *f;
    struct buf b;

    encode(&b, &in);
    assert_ok(run_file_decode(&f, b.p, b.n, RUN_FILE_TABLE, NULL));
    assert_int_equal(f->n_rows, 2);
    assert_int_equal(f->n_lives + f->n_crashes + f->n_notices + f->series.n_groups, 0);
    run_file_free(f);
    assert_ok(run_file_decode(&f, b.p, b.n, 0, NULL));
    assert_int_equal(f->n_hosts, 2);
    assert_int_equal(f->n_rows, 0);
    run_file_free(f);
    buf_fini(&b);
}

static void columns_are_found_by_metric(void **state)
{
    struct run_file in = sample();

    assert_int_equal(in.n_slots, 6);
    assert_int_equal(run_file_column(&in, M_PRIVATE_BYTES)->slot, 1);
    assert_true(run_file_column(&in, M_PRIVATE_BYTES)->gauge);
    assert_int_equal(run_file_column(&in, M_READ_BYTES)->slot, 4);
    assert_null(run_file_column(&in, M_WRITE_BYTES));
}

/* -- damage -- */

static void every_cut_is_refused(void **state)
{
    struct run_file in = sample(), *f = NULL;
    struct buf b;

    encode(&b, &in);
    for (size_t n = 0; n < b.n; n++) {
        uint8_t *exact = mem_dup(b.p, n); /* a sanitizer sees a read beyond */

        assert_err(run_file_decode(&f, exact, n, RUN_FILE_ALL, NULL), ERR_CORRUPT);
        mem_free(exact);
    }
    buf_put_u8(&b, 0);
    assert_err(run_file_decode(&f, b.p, b.n, RUN_FILE_ALL, NULL), ERR_CORRUPT);
    buf_fini(&b);
}

static void every_flipped_bit_is_refused(void **state)
{
    struct run_file in = sample(), *f = NULL;
    struct buf b;

    encode(&b, &in);
    for (size_t i = 0; i < b.n * 8; i++) {
        enum err e;

        b.p[i / 8] ^= (uint8_t)(1u << i % 8);
        e = run_file_decode(&f, b.p, b.n, i & 64 ? RUN_FILE_ALL : 0, NULL);
        assert_true(e == ERR_CORRUPT || (e == ERR_VERSION && i / 8 >= 8 && i / 8 < 12));
        b.p[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    buf_fini(&b);
}

static void put_section(struct buf *b, uint32_t which, uint32_t n, const void *p, uint32_t plain)
{
    size_t at = b->n;

    buf_put_u32le(b, which);
    buf_put_u32le(b, n);
    buf_put_u32le(b, plain);
    n = which ? n : 0;
    buf_put_u64le(b, hash_bytes(p, n, hash_bytes(b->p + at, 12, 0)));
    buf_put(b, p, n);
}

/* The file again with one byte more in the last record of each section that has one there, another
 * section among them, or a section twice. */
static void make_again(struct buf *out, const struct buf *in, bool more, uint32_t twice)
{
    struct cur c = cur_make(in->p, in->n);
    uint32_t which, sections = 0;
    uint8_t plain[4096], packed[4096];

    buf_init(out, RUN_FILE_MAX);
    buf_put(out, cur_bytes(&c, 12), 12);
    do {
        uint32_t n, size;
        const uint8_t *p;

        which = cur_u32le(&c);
        n = cur_u32le(&c);
        size = cur_u32le(&c);
        cur_skip(&c, 8);
        p = cur_bytes(&c, which ? n : 0);
        if (which == 0) {
            put_section(out, 0, sections, "", 0);
            break;
        }
        put_section(out, which, n, p, size);
        sections++;
        if (which == twice) {
            put_section(out, which, n, p, size);
            sections++;
        }
        if (which == 1 && more) { /* as a later version would: a head with more in it, a section */
            out->n -= n + 20;
            assert_int_equal(ZSTD_decompress(plain, sizeof plain - 3, p, n), size);
            memcpy(plain + size, "new", 3);
            size += 3;
            plain[0] = (uint8_t)(plain[0] + 3); /* the record's length; no carry in the sample */
            assert_true(plain[0] >= 3);
            n = (uint32_t)ZSTD_compress(packed, sizeof packed, plain, size, 3);
            put_section(out, 1, n, packed, size);
            put_section(out, 99, 3, "new", 1000000000);
            sections++;
        }
    } while (!c.bad);
    assert_false(c.bad);
}

static void what_a_later_version_adds_is_skipped(void **state)
{
    struct run_file in = sample(), *f;
    struct buf b, later;

    encode(&b, &in);
    make_again(&later, &b, true, 0);
    assert_true(later.n > b.n);
    assert_ok(run_file_decode(&f, later.p, later.n, RUN_FILE_ALL, NULL));
    assert_is_sample(f);
    run_file_free(f);
    buf_fini(&later);
    buf_fini(&b);
}

static void a_section_stands_once(void **state)
{
    struct run_file in = sample(), *f = NULL;
    struct buf b, twice;

    encode(&b, &in);
    make_again(&twice, &b, false, 0);
    assert_ok(run_file_decode(&f, twice.p, twice.n, RUN_FILE_ALL, NULL));
    run_file_free(f);
    buf_fini(&twice);
    for (uint32_t which = 1; which <= 7; which++) {
        make_again(&twice, &b, false, which);
        assert_err(run_file_decode(&f, twice.p, twice.n, RUN_FILE_ALL, NULL), ERR_CORRUPT);
        buf_fini(&twice);
    }
    buf_fini(&b);
}

static void a_later_version_and_other_files_are_refused_by_name(void **state)
{
    struct run_file in = sample(), *f = NULL;
    struct errmsg why;
    struct buf b;

    encode(&b, &in);
    b.p[8] = 2;
    assert_err(run_file_decode(&f, b.p, b.n, RUN_FILE_ALL, &why), ERR_VERSION);
    assert_string_equal(why.text, "run files of version 2 are not known here");
    assert_err(run_file_decode(&f, "MZ", 2, RUN_FILE_ALL, &why), ERR_CORRUPT);
    assert_string_equal(why.text, "it is no run file");
    buf_fini(&b);
}

/* -- limits and meaning, when written as when read -- */

static void refused(const struct run_file *f)
{
    struct buf b;

    buf_init(&b, RUN_FILE_MAX);
    buf_put_u8(&b, 1);
    assert_err(run_file_encode(&b, f), ERR_INVALID);
    assert_int_equal(b.n, 1);
    buf_fini(&b);
}

static void what_makes_no_sense_is_not_written(void **state)
{
    static const int64_t negative[] = {-1, 0, 0, 0, 0, 0};
    struct run_file f = sample();
    struct run_row row = rows[0];
    struct run_life life = lives[0];
    struct run_host host = hosts[0];
    struct run_span span = {T0 + 1, T0, 0, 0, false};

    f.head.end_ns = f.head.begin_ns - 1;
    refused(&f);
    f = sample();
    f.head.name = str_make("a/b");
    refused(&f);
    f.head.name = str_make("");
    refused(&f);
    f.head.name = str_make("12345678901234567890123456789012345678901234567890123456789012345");
    refused(&f);
    f = sample();
    f.rows = &row;
    f.n_rows = 1;
    row.host = 2;
    refused(&f);
    row = rows[0];
    row.values = negative;
    refused(&f);
    f = sample();
    f.lives = &life;
    life.host = 2;
    refused(&f);
    life = lives[0];
    life.end_ns = life.begin_ns - 1;
    refused(&f);
    f = sample();
    f.hosts = &host;
    f.n_hosts = 1;
    f.n_rows = f.n_lives = f.n_crashes = 0;
    host.ppm = 1000001;
    refused(&f);
    host = hosts[0];
    host.spans = &span;
    refused(&f);
    host = hosts[0];
    host.n_labels = RUN_FILE_LABELS_MAX + 1;
    refused(&f);
    f = sample();
    f.n_lives = RUN_FILE_LIVES_MAX + 1;
    refused(&f);
    f = sample();
    f.series.n_buckets = RUN_FILE_BUCKETS_MAX + 1;
    refused(&f);
}

static void a_few_bytes_do_not_become_gigabytes(void **state)
{
    static uint8_t zeros[1 << 20];
    struct run_file in = sample(), *f = NULL;
    struct buf b, c;
    uint8_t packed[4096];
    size_t n = ZSTD_compress(packed, sizeof packed, zeros, sizeof zeros, 19);

    in.n_rows = in.n_columns = in.n_lives = in.n_crashes = in.n_notices = in.series.n_groups = 0;
    encode(&b, &in);
    buf_init(&c, RUN_FILE_MAX);
    buf_put(&c, b.p, b.n - 20);
    put_section(&c, 5, (uint32_t)n, packed, UINT32_MAX); /* says that it is 4 GiB */
    put_section(&c, 0, 3, "", 0);
    assert_err(run_file_decode(&f, c.p, c.n, RUN_FILE_ALL, NULL), ERR_FULL);
    c.n -= n + 40;
    put_section(&c, 5, (uint32_t)n, packed, sizeof zeros - 1); /* says less than there is */
    put_section(&c, 0, 3, "", 0);
    assert_err(run_file_decode(&f, c.p, c.n, RUN_FILE_ALL, NULL), ERR_CORRUPT);
    buf_fini(&c);
    buf_fini(&b);
}

static void running_out_of_memory_is_survived(void **state)
{
    struct run_file in = sample(), *f = NULL;
    struct buf b, c;
    long before = mem_live();

    encode(&b, &in);
    for (long n = 0;; n++) {
        enum err e;

        mem_fail_after(n);
        e = run_file_decode(&f, b.p, b.n, RUN_FILE_ALL, NULL);
        mem_fail_after(-1);
        if (!e) {
            assert_true(n >= 3);
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
    run_file_free(f);
    for (long n = 0;; n++) {
        enum err e;

        buf_init(&c, RUN_FILE_MAX);
        mem_fail_after(n);
        e = run_file_encode(&c, &in);
        mem_fail_after(-1);
        buf_fini(&c);
        if (!e) {
            assert_true(n >= 3);
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
    buf_fini(&b);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_file_of_version_1_is_read),
        cmocka_unit_test(only_what_is_asked_for_is_unpacked),
        cmocka_unit_test(columns_are_found_by_metric),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(what_a_later_version_adds_is_skipped),
        cmocka_unit_test(a_section_stands_once),
        cmocka_unit_test(a_later_version_and_other_files_are_refused_by_name),
        cmocka_unit_test(what_makes_no_sense_is_not_written),
        cmocka_unit_test(a_few_bytes_do_not_become_gigabytes),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
