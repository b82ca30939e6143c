#include "collector/store/compact/compact.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/segment/seg_write.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define H     (3600 * CLK_S)
#define W     (300 * CLK_S)
#define HOUR0 (INT64_C(1767225600) * CLK_S)
#define LATE  (HOUR0 + 100 * H)
#define MIB   (UINT64_C(1) << 20)
#define HOSTS 3u

struct rig {
    char dir[256];
    struct fio_fault *fault; /* NULL: files that do not wait */
    const struct fio *fio;
    struct manifest *m;
    struct compact *c;
    bool stop;
};

static bool stopping(void *ctx)
{
    return ((struct rig *)ctx)->stop;
}

static void rig_open(struct rig *g)
{
    struct manifest_conf conf = {g->dir, g->fio};
    struct compact_conf compact = {.fio = g->fio, .dir = g->dir, .stopping = stopping, .ctx = g};

    assert_ok(manifest_open(&g->m, &conf, NULL));
    compact.manifest = g->m;
    assert_ok(compact_create(&g->c, &compact));
}

static void rig_close(struct rig *g)
{
    compact_destroy(g->c);
    manifest_close(g->m);
    g->c = NULL;
    g->m = NULL;
}

static void rig_init(struct rig *g, struct fio_fault *fault)
{
    *g = (struct rig){.fault = fault, .fio = fault ? fio_fault_fio(fault) : fio_unsynced()};
    support_temp_dir(g->dir, sizeof g->dir);
    rig_open(g);
}

static void rig_fini(struct rig *g)
{
    rig_close(g);
    support_remove_dir(g->dir);
}

/* -- choosing: no files are needed -- */

struct seg_row {
    unsigned kind;
    int64_t window_ns;
    uint64_t bytes;
    bool in_hour;
    uint8_t n_windows; /* 0 = 1 */
};

static void add_info(struct rig *g, const struct seg_row *row)
{
    struct seg_info s = {.number = manifest_number(g->m),
                         .kind = (uint8_t)row->kind,
                         .n_windows = row->n_windows ? row->n_windows : 1,
                         .in_hour = row->in_hour,
                         .window_ns = row->window_ns,
                         .span_ns = W,
                         .bytes = row->bytes};

    assert_ok(manifest_change(g->m, &s, 1, NULL, 0, NULL));
    manifest_publish(g->m);
}

static bool next_of(struct compact_job *job, const struct seg_row *rows, size_t n, int64_t now_ns,
                    const struct compact_skips *skips)
{
    struct manifest_list *l;
    struct rig g;
    bool found;

    rig_init(&g, NULL);
    for (size_t i = 0; i < n; i++) {
        add_info(&g, &rows[i]);
    }
    l = manifest_view(g.m);
    found = compact_next(job, l, now_ns, 60 * CLK_S, skips);
    manifest_list_release(l);
    rig_fini(&g);
    return found;
}

static void jobs_are_what_is_worth_doing(void **state)
{
    static const struct {
        const char *what;
        struct seg_row rows[4];
        size_t n, joined; /* joined: segments of the job; 0 = none */
        bool hour;
    } cases[] = {
        {"nothing", {{0}}, 0, 0, false},
        {"one file", {{SEG_REST, HOUR0, MIB, false, 0}}, 1, 0, false},
        {"two of an hour",
         {{SEG_REST, HOUR0, MIB, false, 0}, {SEG_REST, HOUR0 + W, MIB, false, 0}},
         2,
         2,
         false},
        {"two of two hours",
         {{SEG_REST, HOUR0, MIB, false, 0}, {SEG_REST, HOUR0 + H, MIB, false, 0}},
         2,
         0,
         false},
        {"two kinds",
         {{SEG_REST, HOUR0, MIB, false, 0}, {SEG_RAW, HOUR0, MIB, false, 0}},
         2,
         0,
         false},
        {"a large one",
         {{SEG_REST, HOUR0, MIB, false, 0}, {SEG_REST, HOUR0, 33 * MIB, false, 0}},
         2,
         0,
         false},
        {"raw is large earlier",
         {{SEG_RAW, HOUR0, 5 * MIB, false, 0}, {SEG_RAW, HOUR0, 5 * MIB, false, 0}},
         2,
         0,
         false},
        {"small raw",
         {{SEG_RAW, HOUR0, 3 * MIB, false, 0}, {SEG_RAW, HOUR0, MIB, false, 0}},
         2,
         2,
         false},
        {"too little to copy so much",
         {{SEG_REST, HOUR0, MIB, false, 0}, {SEG_REST, HOUR0, 5 * MIB, false, 0}},
         2,
         0,
         false},
        {"enough of little ones",
         {{SEG_REST, HOUR0, MIB, false, 0},
          {SEG_REST, HOUR0, 5 * MIB, false, 0},
          {SEG_REST, HOUR0, MIB, false, 0}},
         3,
         3,
         false},
        {"too many windows",
         {{SEG_REST, HOUR0, MIB, false, 60}, {SEG_REST, HOUR0, MIB, false, 5}},
         2,
         0,
         false},
        {"the others still",
         {{SEG_REST, HOUR0, 3 * MIB, false, 60},
          {SEG_REST, HOUR0, MIB, false, 5},
          {SEG_REST, HOUR0, MIB, false, 4}},
         3,
         2,
         false},
        {"minutes of any size", {{SEG_1MIN, HOUR0, 100 * MIB, false, 0}}, 1, 1, true},
        {"late minutes only",
         {{SEG_1MIN, HOUR0, MIB, true, 0}, {SEG_1MIN, HOUR0, MIB, false, 0}},
         2,
         1,
         true},
        {"minutes are joined when the hour has them",
         {{SEG_1MIN, HOUR0, MIB, true, 0}, {SEG_1MIN, HOUR0, MIB, true, 0}},
         2,
         2,
         false},
        {"a single one that is in its hour", {{SEG_1MIN, HOUR0, MIB, true, 0}}, 1, 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct compact_skips skips = {.n = 0};
        struct compact_job job = {.n = 0};
        uint64_t bytes = 0;
        bool found = next_of(&job, cases[i].rows, cases[i].n, LATE, &skips);

        if (found != (cases[i].joined > 0) || job.n != cases[i].joined ||
            job.hour != cases[i].hour) {
            fail_msg("%s: %zu segments, hour %d", cases[i].what, job.n, job.hour);
        }
        for (size_t k = 0; k < job.n && job.n == cases[i].n; k++) {
            bytes += cases[i].rows[k].bytes;
        }
        assert_true(job.n != cases[i].n || job.hour || job.bytes == bytes);
    }
}

static void an_hour_that_is_not_over_is_left_alone(void **state)
{
    static const struct seg_row rows[] = {{SEG_1MIN, HOUR0, MIB, false, 0},
                                          {SEG_REST, HOUR0, MIB, false, 0},
                                          {SEG_REST, HOUR0 + W, MIB, false, 0}};
    struct compact_skips skips = {.n = 0};
    struct compact_job job;

    assert_false(next_of(&job, rows, 3, HOUR0 + H + 60 * CLK_S - 1, &skips));
    assert_true(next_of(&job, rows, 3, HOUR0 + H + 60 * CLK_S, &skips));
}

static void what_is_skipped_is_left_alone(void **state)
{
    static const struct seg_row rows[] = {{SEG_REST, HOUR0, MIB, false, 0},
                                          {SEG_REST, HOUR0 + W, MIB, false, 0},
                                          {SEG_REST, HOUR0 + 2 * W, MIB, false, 0}};
    struct compact_skips skips = {.n = 1};
    struct compact_job job;
    struct rig g;

    rig_init(&g, NULL);
    skips.numbers[0] = manifest_number(g.m); /* the first of a fresh store */
    rig_fini(&g);
    assert_true(next_of(&job, rows, 3, LATE, &skips));
    assert_int_equal(job.n, 2);
    assert_true(job.at[0] + job.at[1] == 3);
}

/* -- joining -- */

static const struct uuid ids[HOSTS] = {{{7}}, {{3}}, {{5}}};

static const char *name_of(unsigned host)
{
    static const char *const names[HOSTS] = {"alpha", "beta", "gamma"};

    return names[host];
}

/* A value says whose it is, and differs in length from others. */
static size_t value_of(char *p, size_t size, int64_t window_ns, unsigned host, unsigned part,
                       unsigned metric, unsigned copy)
{
    size_t n = (size_t)snprintf(p, size, "%lld %u %u %u %u ", (long long)window_ns, host, part,
                                metric, copy);
    size_t more = (size_t)(window_ns / W + host * 7 + metric * 13) % 200;

    assert_true(n + more < size);
    memset(p + n, 'x', more);
    return n + more;
}

static const struct {
    uint8_t part, metric;
} parts[] = {{SEG_PART_ROWS, 0}, {SEG_PART_COLUMN, 0}, {SEG_PART_COLUMN, 9},
             {SEG_PART_SUMS, 0}, {SEG_PART_SUM, 0},    {SEG_PART_SUM, 9}};

/* One segment of one window; host `absent` is not in it. */
static void write_segment(struct rig *g, unsigned kind, int64_t window_ns, unsigned absent,
                          uint64_t seq, unsigned copy)
{
    struct seg_info info = {.number = manifest_number(g->m),
                            .kind = (uint8_t)kind,
                            .n_windows = 1,
                            .patch = copy > 0,
                            .in_hour = kind == SEG_1MIN,
                            .window_ns = window_ns,
                            .span_ns = W};
    struct seq_range range = {seq, seq + 4};
    struct seg_writer *w;
    char text[512];

    assert_ok(seg_writer_create(&w, g->fio, g->dir, &info, &window_ns, NULL));
    for (unsigned h = 0; h < HOSTS; h++) {
        uint32_t index;

        if (h == absent) {
            continue;
        }
        assert_ok(seg_writer_host(w, &index, &ids[h], name_of(h), 0, window_ns + h,
                                  window_ns + W - 1 - h));
        assert_ok(seg_writer_ranges(w, &ids[h], 100 + h, &range, 1));
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            struct seg_key key = {parts[i].part, parts[i].metric, 0, index};

            assert_ok(seg_writer_add(
                w, key, text,
                value_of(text, sizeof text, window_ns, h, parts[i].part, parts[i].metric, copy)));
        }
    }
    assert_ok(seg_writer_finish(w, 10, &info, NULL));
    assert_ok(manifest_change(g->m, &info, 1, NULL, 0, NULL));
    manifest_publish(g->m);
}

/* Twelve windows, from each of which one host is missing, and a patch of the fourth. */
static void write_hour(struct rig *g, unsigned kind)
{
    for (unsigned i = 0; i < 12; i++) {
        write_segment(g, kind, HOUR0 + i * W, i % HOSTS, 1 + i * 5, 0);
    }
    write_segment(g, kind, HOUR0 + 3 * W, 1, 61, 1);
}

/* Whether the value is somewhere in the list, with these bytes. */
static bool value_is_there(const struct manifest_list *l, int64_t window_ns, unsigned host,
                           unsigned i, unsigned copy)
{
    char text[512];
    size_t want =
        value_of(text, sizeof text, window_ns, host, parts[i].part, parts[i].metric, copy);
    struct arena memory;
    unsigned found = 0;

    arena_init(&memory, SEG_VALUE_MAX);
    for (size_t k = 0; k < manifest_segments(l); k++) {
        const struct seg *s;
        size_t h;

        assert_ok(manifest_seg(l, k, &s));
        h = seg_find_host(s, &ids[host]);
        for (unsigned win = 0; h < seg_hosts(s) && win < seg_info_of(s)->n_windows; win++) {
            struct seg_key key = {parts[i].part, parts[i].metric, (uint8_t)win, (uint32_t)h};
            const uint8_t *p;
            size_t n;

            if (seg_window(s, win) == window_ns && seg_read(s, &memory, key, &p, &n) == ERR_OK &&
                n == want && memcmp(p, text, n) == 0) {
                assert_string_equal(seg_host(s, h)->name, name_of(host));
                assert_true(seg_host(s, h)->at[win].t0_ns == window_ns + host);
                assert_true(seg_host(s, h)->at[win].t1_ns == window_ns + W - 1 - host);
                found++;
            }
        }
    }
    arena_fini(&memory);
    assert_true(found <= 1); /* nothing is there twice */
    return found == 1;
}

/* Everything that write_hour wrote is there once. */
static void hour_is_whole(struct rig *g)
{
    struct manifest_list *l = manifest_view(g->m);

    for (unsigned win = 0; win < 12; win++) {
        for (unsigned h = 0; h < HOSTS; h++) {
            for (unsigned i = 0; i < COUNT_OF(parts); i++) {
                assert_int_equal(value_is_there(l, HOUR0 + win * W, h, i, 0), win % HOSTS != h);
                assert_int_equal(value_is_there(l, HOUR0 + win * W, h, i, 1), win == 3 && h != 1);
            }
        }
    }
    manifest_list_release(l);
}

static size_t segments(struct rig *g)
{
    struct manifest_list *l = manifest_view(g->m);
    size_t n = manifest_segments(l);

    manifest_list_release(l);
    return n;
}

static bool step(struct rig *g)
{
    bool worked;

    assert_ok(compact_step(g->c, LATE, UINT64_MAX, &worked, NULL));
    return worked;
}

static enum err ranges_of_host_1(void *ctx, const struct dedup_stream *st)
{
    if (st->stream == 101) {
        *(struct dedup_stream *)ctx = *st;
        assert_memory_equal(st->host.b, ids[1].b, sizeof ids[1].b);
    }
    return ERR_OK;
}

static void segments_of_an_hour_become_one_with_every_value(void **state)
{
    static const unsigned kinds[] = {SEG_RAW, SEG_10S, SEG_1MIN, SEG_1H, SEG_REST};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct dedup_stream st = {.n_ranges = 0};
        struct manifest_list *l;
        const struct seg_info *info;
        const struct seg *s;
        struct rig g;

        rig_init(&g, NULL);
        write_hour(&g, kinds[i]);
        hour_is_whole(&g);
        assert_true(step(&g));
        assert_false(step(&g));
        assert_int_equal(segments(&g), 1);
        hour_is_whole(&g);
        rig_close(&g); /* and after a restart */
        rig_open(&g);
        hour_is_whole(&g);
        l = manifest_view(g.m);
        info = manifest_segment(l, 0);
        assert_int_equal(info->n_windows, 13);
        assert_true(info->window_ns == HOUR0 && info->span_ns == H && info->values == 130);
        assert_true(info->patch && info->in_hour == (kinds[i] == SEG_1MIN));
        assert_ok(manifest_seg(l, 0, &s));
        for (unsigned w = 1; w < 13; w++) {
            assert_true(seg_window(s, w) >= seg_window(s, w - 1));
        }
        /* 1–5 were in the first window, in which host 1 is; it misses windows 1, 4, 7, 10. */
        assert_ok(seg_each_ranges(s, ranges_of_host_1, &st));
        assert_int_equal(st.n_ranges, 5);
        manifest_list_release(l);
        rig_fini(&g);
    }
}

static void a_patch_is_joined_when_it_is_worth_it(void **state)
{
    struct rig g;

    rig_init(&g, NULL);
    write_hour(&g, SEG_REST);
    assert_true(step(&g));
    write_segment(&g, SEG_REST, HOUR0 + 5 * W, 0, 900, 1);
    assert_false(step(&g)); /* one small one beside a large one */
    assert_int_equal(segments(&g), 2);
    for (unsigned i = 0; i < 3; i++) {
        write_segment(&g, SEG_REST, HOUR0 + (6 + i) * W, 0, 910 + i * 10, 1);
    }
    while (step(&g)) {
    }
    assert_true(segments(&g) <= 2);
    rig_fini(&g);
}

struct told {
    size_t calls, n;
    struct seg_info add;
};

static void on_join(void *ctx, const uint64_t *old, size_t n, const struct seg_info *add)
{
    struct told *t = ctx;

    for (size_t i = 0; i < n; i++) {
        assert_true(old[i] < add->number);
    }
    *t = (struct told){t->calls + 1, n, *add};
}

static void a_join_is_told(void **state)
{
    struct told told = {.calls = 0};
    struct rig g;

    rig_init(&g, NULL);
    compact_on_join(g.c, on_join, &told);
    write_hour(&g, SEG_REST);
    assert_true(step(&g));
    assert_true(told.calls == 1 && told.n == 13 && told.add.kind == SEG_REST);
    assert_true(told.add.bytes > 0);
    rig_fini(&g);
}

static void no_room_puts_the_job_off(void **state)
{
    struct compact_stats st;
    uint64_t wants;
    struct rig g;
    bool worked;

    rig_init(&g, NULL);
    write_hour(&g, SEG_RAW);
    wants = compact_wants(g.c, LATE);
    assert_true(wants > 13 * 100);
    assert_ok(compact_step(g.c, LATE, wants - 1, &worked, NULL));
    assert_false(worked);
    assert_int_equal(segments(&g), 13);
    compact_stats(g.c, &st);
    assert_true(st.postponed == 1 && st.joins == 0);
    assert_ok(compact_step(g.c, LATE, wants, &worked, NULL));
    compact_stats(g.c, &st);
    assert_true(worked && st.joins == 1 && st.written <= wants);
    assert_true(compact_wants(g.c, LATE) == 0);
    rig_fini(&g);
}

static size_t files_in(const char *dir);

static void stopping_ends_a_job_without_a_trace(void **state)
{
    struct rig g;
    size_t files;
    bool worked;

    rig_init(&g, NULL);
    write_hour(&g, SEG_RAW);
    files = files_in(g.dir);
    g.stop = true;
    assert_err(compact_step(g.c, LATE, UINT64_MAX, &worked, NULL), ERR_CLOSED);
    assert_int_equal(files_in(g.dir), files);
    hour_is_whole(&g);
    rig_fini(&g);
}

static enum err count_file(void *ctx, const char *name)
{
    (void)name;
    ++*(size_t *)ctx;
    return ERR_OK;
}

static size_t files_in(const char *dir)
{
    size_t n = 0;

    assert_ok(os_list_dir(dir, count_file, &n));
    return n;
}

/* Turns over a byte in the middle of the first value of the i-th segment. */
static void damage(struct rig *g, size_t i)
{
    struct manifest_list *l = manifest_view(g->m);
    char name[SEG_NAME_MAX], text[512], *path;
    uint8_t *p, *hit;
    size_t n;

    seg_name(name, manifest_segment(l, i));
    path = os_path_join(g->dir, name);
    assert_non_null(path);
    n = value_of(text, sizeof text, manifest_segment(l, i)->window_ns, 2, SEG_PART_COLUMN, 9, 0);
    manifest_list_release(l);
    rig_close(g);
    {
        size_t size;

        assert_ok(os_read_file(&p, &size, path, MIB));
        hit = memmem(p, size, text, n);
        assert_non_null(hit);
        hit[n / 2] ^= 1;
        assert_ok(os_write_file(path, p, size, false));
    }
    mem_free(p);
    mem_free(path);
    rig_open(g);
}

static void a_damaged_segment_is_left_alone_and_the_others_are_joined(void **state)
{
    struct compact_stats st;
    struct rig g;

    rig_init(&g, NULL);
    write_hour(&g, SEG_REST);
    damage(&g, 3);
    while (step(&g)) {
    }
    compact_stats(g.c, &st);
    assert_true(st.skipped == 1 && st.joins == 1);
    assert_int_equal(segments(&g), 2);
    rig_fini(&g);
}

/* Every operation of the file layer fails in turn; then nothing has changed, nothing is left over,
 * and the next try does it. */
static void a_failure_changes_nothing_and_is_tried_again(void **state)
{
    static const unsigned ops[] = {FIO_CREATE, FIO_READ,   FIO_WRITE,
                                   FIO_SYNC,   FIO_RENAME, FIO_SYNC_DIR};

    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        bool failed = true;

        for (long after = 0; failed && after < 400; after += ops[i] == FIO_READ ? 37 : 1) {
            struct fio_fault *fault;
            struct rig g;
            bool worked;
            enum err e;

            assert_ok(fio_fault_create(&fault));
            rig_init(&g, fault);
            write_hour(&g, SEG_RAW);
            fio_fault_fail(fault, ops[i], after, ERR_IO, false);
            e = compact_step(g.c, LATE, UINT64_MAX, &worked, NULL);
            failed = e != ERR_OK;
            fio_fault_fail(fault, ops[i], -1, ERR_IO, false);
            if (failed) {
                assert_err(e, ERR_IO);
                assert_int_equal(segments(&g), 13);
                hour_is_whole(&g);
                rig_close(&g);
                rig_open(&g);
                assert_true(step(&g));
            }
            assert_int_equal(segments(&g), 1);
            hour_is_whole(&g);
            rig_fini(&g);
            fio_fault_destroy(fault);
        }
        assert_false(failed);
    }
}

/* The power fails at the k-th operation of a join: what is not synced is lost. */
static bool cut_at(long k, enum fio_fault_keep keep)
{
    struct fio_fault *fault;
    struct rig g;
    bool worked, done;

    assert_ok(fio_fault_create(&fault));
    rig_init(&g, fault);
    write_hour(&g, SEG_REST);
    fio_fault_fail(fault, FIO_ALL, k, ERR_IO, true);
    done = compact_step(g.c, LATE, UINT64_MAX, &worked, NULL) == ERR_OK && worked;
    fio_fault_power_cut(fault, keep, (uint64_t)k);
    rig_close(&g);
    fio_fault_destroy(fault);
    g.fio = fio_unsynced();
    rig_open(&g);
    hour_is_whole(&g);
    while (step(&g)) {
    }
    assert_int_equal(segments(&g), 1);
    hour_is_whole(&g);
    rig_fini(&g);
    return done;
}

static void a_power_cut_leaves_the_old_or_the_new_ones(void **state)
{
    static const enum fio_fault_keep keeps[] = {FIO_KEEP_NOTHING, FIO_KEEP_PREFIX,
                                                FIO_KEEP_SECTORS};

    for (size_t i = 0; i < COUNT_OF(keeps); i++) {
        bool done = false;

        for (long k = 0; !done && k < 4000; k += k < 150 ? 29 : 1) { /* first it only reads */
            done = cut_at(k, keeps[i]);
        }
        assert_true(done);
    }
}

static void a_full_disk_changes_nothing(void **state)
{
    struct fio_fault *fault;
    struct rig g;
    bool worked;

    assert_ok(fio_fault_create(&fault));
    rig_init(&g, fault);
    write_hour(&g, SEG_RAW);
    for (uint64_t room = 0; room < 8192; room += 1024) {
        fio_fault_disk_full(fault, room);
        assert_err(compact_step(g.c, LATE, UINT64_MAX, &worked, NULL), ERR_NOSPACE);
        assert_int_equal(segments(&g), 13);
    }
    fio_fault_disk_full(fault, UINT64_MAX);
    hour_is_whole(&g);
    assert_true(step(&g));
    hour_is_whole(&g);
    rig_fini(&g);
    fio_fault_destroy(fault);
}

static void memory_that_runs_out_changes_nothing(void **state)
{
    enum err e = ERR_NOMEM;
    struct rig g;

    rig_init(&g, NULL);
    write_hour(&g, SEG_RAW);
    for (long n = 0; e; n++) {
        bool worked;

        mem_fail_after(n);
        e = compact_step(g.c, LATE, UINT64_MAX, &worked, NULL);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(segments(&g), e ? 13 : 1);
    }
    hour_is_whole(&g);
    rig_fini(&g);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_what_is_worth_doing),
        cmocka_unit_test(an_hour_that_is_not_over_is_left_alone),
        cmocka_unit_test(what_is_skipped_is_left_alone),
        cmocka_unit_test(segments_of_an_hour_become_one_with_every_value),
        cmocka_unit_test(a_patch_is_joined_when_it_is_worth_it),
        cmocka_unit_test(a_join_is_told),
        cmocka_unit_test(no_room_puts_the_job_off),
        cmocka_unit_test(stopping_ends_a_job_without_a_trace),
        cmocka_unit_test(a_damaged_segment_is_left_alone_and_the_others_are_joined),
        cmocka_unit_test(a_failure_changes_nothing_and_is_tried_again),
        cmocka_unit_test(a_power_cut_leaves_the_old_or_the_new_ones),
        cmocka_unit_test(a_full_disk_changes_nothing),
        cmocka_unit_test(memory_that_runs_out_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
