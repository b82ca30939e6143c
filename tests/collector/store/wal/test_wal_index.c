#include "collector/store/wal/wal_index.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/wal/wal.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/wal/wal_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define WINDOW  WAL_RIG_WINDOW
#define CONTENT "encoded batch"
#define NOTE    "a note"

/* What a replay saw. */
struct seen {
    size_t batches, ranges, by_index;
    uint64_t seqs[64];
    bool notes; /* given for what is read */
    bool hold;
    struct wal_source *kept[64];
};

static enum err take(void *ctx, struct wal *w, uint64_t file, const struct wal_record *r)
{
    struct seen *s = ctx;

    if (r->kind == WAL_RANGES) {
        s->ranges++;
        return ERR_OK;
    }
    assert_true(s->batches < COUNT_OF(s->seqs));
    assert_int_equal(r->n, strlen(CONTENT));
    if (r->bytes) {
        assert_memory_equal(r->bytes, CONTENT, r->n);
        if (s->notes) {
            wal_note(w, NOTE, strlen(NOTE));
        }
    } else {
        struct wal_record whole;
        struct buf room;

        buf_init(&room, WAL_RECORD_MAX);
        assert_int_equal(r->note_n, strlen(NOTE));
        assert_memory_equal(r->note, NOTE, r->note_n);
        if (wal_source_read(r->from, r->at, r->size, &room, &whole) == ERR_OK) {
            assert_int_equal(whole.seq, r->seq);
            assert_memory_equal(whole.bytes, CONTENT, whole.n);
        }
        buf_fini(&room);
        s->by_index++;
        s->kept[s->batches] = s->hold ? wal_source_ref(r->from) : NULL;
    }
    s->seqs[s->batches++] = r->seq;
    if (s->hold) {
        wal_hold(w, file);
    }
    return ERR_OK;
}

static struct wal *open_with(struct seen *seen, const struct fio *fio)
{
    struct wal_conf conf = wal_rig_conf();

    conf.fio = fio;
    conf.replay = take;
    conf.ctx = seen;
    return wal_rig_open(&conf);
}

static uint64_t put(struct wal *w, uint64_t seq, int64_t now_ns, const char *note)
{
    struct wal_record r = wal_rig_batch(seq, CONTENT);

    r.clock = (struct host_offset){.known = seq % 2, .offset_ns = 5};
    r.note = note;
    r.note_n = note ? strlen(note) : 0;
    return wal_rig_commit(w, &r, now_ns);
}

/* Two files of three batches; gives the number of the first. */
static uint64_t fill(const char *note)
{
    struct seen seen = {0};
    struct wal *w = open_with(&seen, fio_unsynced());
    uint64_t first = put(w, 1, 10, note);

    for (uint64_t i = 2; i <= 6; i++) {
        put(w, i, i <= 3 ? 10 : WINDOW, note);
    }
    wal_close(w);
    return first;
}

/* Opens; all six batches come, in order, so many of them by an index. */
static void check_opening(size_t by_index, bool notes)
{
    struct seen seen = {.notes = notes};
    struct wal *w = open_with(&seen, fio_unsynced());
    struct wal_stats stats;

    wal_stats(w, &stats);
    assert_int_equal(stats.bad_records, 0);
    assert_int_equal(stats.torn_bytes, 0);
    wal_close(w);
    assert_int_equal(seen.batches, 6);
    assert_int_equal(seen.ranges, 2);
    assert_int_equal(seen.by_index, by_index);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(seen.seqs[i], i + 1);
    }
}

static void finished_files_are_recovered_by_their_indexes(void **state)
{
    fill(NOTE);
    check_opening(6, false);
    check_opening(6, false);
}

static void a_file_with_a_batch_without_note_has_no_index(void **state)
{
    uint64_t first;

    first = fill(NULL);
    assert_false(os_exists(wal_rig_path(first, ".idx")));
    check_opening(0, false);
    check_opening(0, false);
}

static void a_file_that_was_read_gets_its_index(void **state)
{
    fill(NULL);
    check_opening(0, true);
    check_opening(6, false);
}

/* Whatever is wrong with an index, the file is read in its place and all of it comes. */
static void a_damaged_index_costs_nothing_but_time(void **state)
{
    uint64_t first = fill(NOTE);
    char path[400];
    uint8_t *p;
    size_t n;

    snprintf(path, sizeof path, "%s", wal_rig_path(first, ".idx"));
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (size_t at = 0; at < n; at++) {
        p[at] ^= 0x40;
        support_write_file(path, p, n);
        p[at] ^= 0x40;
        check_opening(3, false);
    }
    for (size_t cut = 0; cut < n; cut++) {
        support_write_file(path, p, cut);
        check_opening(3, false);
    }
    mem_free(p);
    assert_ok(os_read_file(&p, &n, wal_rig_path(first + 1, ".idx"), 1 << 20));
    support_write_file(path, p, n); /* another file's */
    check_opening(3, true);
    check_opening(6, false);
    mem_free(p);
}

/* A file of another length than its index says was written to, or cut. */
static void an_index_of_another_length_is_not_believed(void **state)
{
    struct seen seen = {0};
    uint64_t first = fill(NOTE);
    uint8_t *p;
    size_t n;
    struct wal *w;

    assert_ok(os_read_file(&p, &n, wal_rig_path(first + 1, ".log"), 1 << 20));
    support_write_file(wal_rig_path(first + 1, ".log"), p, n - 1);
    mem_free(p);
    w = open_with(&seen, fio_unsynced());
    assert_int_equal(seen.batches, 5);
    assert_int_equal(seen.by_index, 3);
    wal_close(w);
}

/* Also where the cut leaves whole records only, and at every opening. */
static void a_file_that_was_cut_is_told_by_its_index(void **state)
{
    uint64_t first = fill(NOTE);
    size_t n, record = WAL_RECORD_FIXED + 4 + strlen(CONTENT) + 8;
    uint8_t *p;

    assert_ok(os_read_file(&p, &n, wal_rig_path(first, ".log"), 1 << 20));
    support_write_file(wal_rig_path(first, ".log"), p, n - record - WAL_OFFSET_BYTES);
    mem_free(p);
    for (int life = 0; life < 2; life++) {
        struct seen seen = {.notes = true};
        struct wal *w = open_with(&seen, fio_unsynced());
        struct wal_stats stats;

        assert_int_equal(seen.batches, 5);
        wal_stats(w, &stats);
        assert_int_equal(stats.bad_records, 1);
        wal_close(w);
    }
}

static void an_index_goes_with_its_file_and_without_it(void **state)
{
    struct seen seen = {0};
    uint64_t first = fill(NOTE);
    struct wal *w;

    support_write_file(wal_rig_path(first + 77, ".idx"), "x", 1);
    w = open_with(&seen, fio_unsynced());
    assert_false(os_exists(wal_rig_path(first + 77, ".idx")));
    assert_true(os_exists(wal_rig_path(first, ".idx")));
    put(w, 7, 2 * WINDOW, NOTE);
    wal_trim(w);
    assert_false(os_exists(wal_rig_path(first, ".log")));
    assert_false(os_exists(wal_rig_path(first, ".idx")));
    wal_close(w);
}

static void what_is_left_in_the_log_can_be_read_after_the_file_went(void **state)
{
    struct seen seen = {.hold = true};
    uint64_t first = fill(NOTE);
    struct wal *w = open_with(&seen, fio_unsynced());
    struct wal_record r;
    struct buf room;

    put(w, 7, 2 * WINDOW, NOTE);
    for (int i = 0; i < 3; i++) {
        wal_release(w, first);
    }
    wal_trim(w);
    assert_false(os_exists(wal_rig_path(first, ".log")));
    wal_close(w);
    buf_init(&room, WAL_RECORD_MAX);
    assert_err(wal_source_read(seen.kept[0], 0, 20, &room, &r), ERR_CORRUPT);
    assert_err(wal_source_read(seen.kept[0], 1 << 30, 200, &room, &r), ERR_CORRUPT);
    assert_err(wal_source_read(seen.kept[0], 0, SIZE_MAX, &room, &r), ERR_CORRUPT);
    buf_fini(&room);
    for (int i = 0; i < 6; i++) {
        wal_source_unref(seen.kept[i]);
    }
}

/* The layer below, but for one creation or write that fails. */
static long fails_after;

static enum err create_or_fail(void *ctx, struct fio_file **out, const char *path)
{
    return fails_after-- == 0 ? ERR_IO : fio_unsynced()->create(ctx, out, path);
}

static enum err write_or_fail(void *ctx, struct fio_file *f, uint64_t offset, const void *p,
                              size_t n)
{
    return fails_after-- == 0 ? ERR_NOSPACE : fio_unsynced()->write(ctx, f, offset, p, n);
}

static void an_index_that_cannot_be_written_is_left_out(void **state)
{
    for (long k = 0; k < 3; k++) {
        struct fio fio = *fio_unsynced();
        struct seen seen = {0};
        struct wal_stats stats;
        struct wal *w;

        fio.create = create_or_fail;
        fio.write = write_or_fail;
        fails_after = -1;
        w = open_with(&seen, &fio);
        put(w, 1, 10, NOTE);
        fails_after = k;
        put(w, 2, WINDOW, NOTE); /* creates the index and writes it in two parts, then the file */
        fails_after = -1;
        wal_stats(w, &stats);
        assert_int_equal(stats.unindexed, 1);
        wal_close(w);
        seen = (struct seen){0};
        w = open_with(&seen, fio_unsynced());
        assert_int_equal(seen.batches, 2);
        assert_int_equal(seen.by_index, 1);
        wal_close(w);
        support_empty_dir(wal_rig_dir);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, wal_rig_setup, wal_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(finished_files_are_recovered_by_their_indexes),
        T(a_file_with_a_batch_without_note_has_no_index),
        T(a_file_that_was_read_gets_its_index),
        T(a_damaged_index_costs_nothing_but_time),
        T(an_index_of_another_length_is_not_believed),
        T(a_file_that_was_cut_is_told_by_its_index),
        T(an_index_goes_with_its_file_and_without_it),
        T(what_is_left_in_the_log_can_be_read_after_the_file_went),
        T(an_index_that_cannot_be_written_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
