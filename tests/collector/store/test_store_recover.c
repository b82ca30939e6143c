/* A store that was closed or killed is the same after opening, whether the log was read or its
 * indexes were: hosts, instances, batches to the byte, accounts. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/store/check/check.h"
#include "collector/store/read/store_read.h"
#include "collector/store/wal/wal_index.h"
#include "collector/store/wal/wal_source.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define SECOND  1000000000LL
#define HOSTS   3
#define BATCHES 60 /* of each host, ten minutes: three files of the log */
#define KILLED  80 /* the last of them is larger */

static struct rig rig;

static struct fleetgen *hosts[HOSTS];

static void put_more(int n)
{
    for (int i = 0; i < n * HOSTS; i++) {
        struct rig_batch b;

        rig_batch(&b, hosts[i % HOSTS], 10);
        if (i % 2) {
            b.clock = (struct host_offset){true, i % 4 == 1, i, i % 4 == 1 ? 5 : 0};
        }
        assert_ok(rig_put(&rig, &b));
        rig_batch_fini(&b);
    }
}

static void fill(void)
{
    for (uint64_t h = 0; h < HOSTS; h++) {
        fleetgen_destroy(hosts[h]);
        hosts[h] = rig_host(h + 1);
    }
    rig_open(&rig);
    put_more(BATCHES);
}

/* -- everything that the store says, as text -- */

static enum err tell_raw(void *ctx, const struct store_raw *r)
{
    struct buf *b = ctx;

    buf_printf(b, "raw %llu %llu %lld %d %zu:", (unsigned long long)r->stream,
               (unsigned long long)r->seq, (long long)r->received_ns, r->has_events, r->n);
    buf_put(b, r->bytes, r->n);
    return b->bad;
}

static enum err tell_instance(void *ctx, const struct uuid *boot, const struct proc_info *i)
{
    struct buf *b = ctx;

    buf_put(b, boot->b, sizeof boot->b);
    buf_printf(b, "inst %u %llu %u %u %u %u %llu %u %u %lld %lld %.*s %.*s %.*s %.*s\n",
               (unsigned)i->id.pid, (unsigned long long)i->id.start, (unsigned)i->have, i->origin,
               i->cpu_origin, (unsigned)i->parent_pid, (unsigned long long)i->parent_start,
               (unsigned)i->session_id, (unsigned)i->exit_code, (long long)i->create_ns,
               (long long)i->exit_ns, (int)i->name.n, i->name.p, (int)i->image.n, i->image.p,
               (int)i->command_line.n, i->command_line.p, (int)i->user.n, i->user.p);
    return b->bad;
}

static enum err tell_account(void *ctx, const struct loss_sum *a)
{
    struct buf *b = ctx;

    buf_printf(b, "account %llu %llu %llu %u %lld %lld %zu %zu\n", (unsigned long long)a->batches,
               (unsigned long long)a->ticks, (unsigned long long)a->events, (unsigned)a->flags,
               (long long)a->first_ns, (long long)a->last_ns, a->n_counts, a->n_streams);
    return b->bad;
}

static enum err tell_block(void *ctx, const struct store_block *x)
{
    struct buf *b = ctx;

    buf_printf(b, "block %llu %zu %zu %zu %zu\n", (unsigned long long)x->batch->head.seq,
               x->batch->n_ticks, x->batch->n_runs, x->batch->n_events, x->batch->n_ledger);
    return b->bad;
}

static void tell_host(struct buf *b, const struct store_view *v, size_t i)
{
    const struct store_host *h = store_view_host(v, i);
    const struct store_instances all = {.since_ns = 0, .until_ns = INT64_MAX};
    const struct store_range range = {
        .since_ns = 0, .until_ns = INT64_MAX, .made_since_ns = INT64_MIN, .metrics = METRIC_ALL};
    struct store_raw_ask ask = {.since_ns = INT64_MIN, .until_ns = INT64_MAX};

    buf_put(b, h->boot.b, sizeof h->boot.b);
    buf_printf(b, "%s %s %u %u %lld %lld %d %u %d %d %lld %lld %lld %llu %llu %llu %llu\n", h->name,
               h->source, (unsigned)h->flags, (unsigned)h->cpus, (long long)h->first_ns,
               (long long)h->last_ns, h->has_alive, (unsigned)h->alive, h->clock.known,
               h->clock.bounded, (long long)h->clock.offset_ns, (long long)h->clock.error_ns,
               (long long)h->received_ns, (unsigned long long)h->batches,
               (unsigned long long)h->gaps, (unsigned long long)h->lost_events,
               (unsigned long long)h->held);
    assert_ok(store_info_each(v, i, &all, tell_instance, b));
    assert_ok(store_view_raw(v, i, &ask, tell_raw, b));
    assert_ok(store_accounts_scan(v, i, &range, tell_account, tell_block, b));
    assert_ok(store_blocks_scan(v, i, &range, tell_block, b));
}

static void tell_all(struct buf *b)
{
    struct store_view *v;

    buf_init(b, 64u << 20);
    assert_ok(store_view_open(&v, rig.store));
    assert_int_equal(store_view_hosts(v), HOSTS);
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        tell_host(b, v, i);
    }
    store_view_close(v);
    assert_ok(b->bad);
}

static void check_same(const struct buf *want)
{
    struct buf b;

    tell_all(&b);
    assert_int_equal(b.n, want->n);
    assert_memory_equal(b.p, want->p, b.n);
    buf_fini(&b);
}

/* -- files of the log -- */

struct naming {
    const char *ending;
    size_t n;
    uint64_t bytes;
    void (*each)(const char *path);
};

static enum err name_one(void *ctx, const char *name)
{
    struct naming *x = ctx;
    size_t n = strlen(name), k = strlen(x->ending);
    char path[600];

    if (n > k && strcmp(name + n - k, x->ending) == 0) {
        snprintf(path, sizeof path, "%s/wal/%s", rig.dir, name);
        x->n++;
        if (x->each) {
            x->each(path);
        }
    }
    return ERR_OK;
}

static size_t each_file(const char *ending, void (*each)(const char *path))
{
    struct naming x = {.ending = ending, .each = each};
    char dir[300];

    snprintf(dir, sizeof dir, "%s/wal", rig.dir);
    assert_ok(os_list_dir(dir, name_one, &x));
    return x.n;
}

static void remove_file(const char *path)
{
    assert_ok(os_remove(path));
}

static uint64_t read_bytes(void)
{
    struct store_stats stats;

    store_stats(rig.store, &stats);
    assert_int_equal(stats.bad_records, 0);
    assert_int_equal(stats.recovered_batches, HOSTS * BATCHES);
    return stats.recovered_bytes;
}

static void the_store_is_the_same_by_index_and_by_reading(void **state)
{
    uint64_t by_index, by_reading;
    struct buf want;

    fill();
    tell_all(&want);
    rig_close(&rig);
    assert_int_equal(each_file(".idx", NULL), each_file(".log", NULL));
    rig_open(&rig);
    check_same(&want);
    by_index = read_bytes();
    rig_close(&rig);
    each_file(".idx", remove_file);
    rig_open(&rig);
    check_same(&want);
    by_reading = read_bytes();
    assert_true(by_index < by_reading);
    assert_int_equal(each_file(".idx", NULL), each_file(".log", NULL)); /* made again */
    rig_close(&rig);
    rig_open(&rig);
    check_same(&want);
    assert_int_equal(read_bytes(), by_index);
    buf_fini(&want);
}

static void what_was_recovered_by_index_is_sealed_as_if_it_had_stayed(void **state)
{
    struct buf want, got;

    for (int life = 0; life < 2; life++) {
        fill();
        if (life) {
            rig_close(&rig);
            rig_open(&rig);
        }
        rig_set_now(RIG_T0 + 3000 * SECOND);
        assert_ok(store_seal_now(rig.store, rig_now()));
        assert_int_equal(rig_count_all(&rig), HOSTS * BATCHES);
        tell_all(life ? &got : &want);
        rig_fini(&rig);
        rig_init(&rig);
    }
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, got.n);
    buf_fini(&got);
    buf_fini(&want);
}

/* An index whose notes say nothing, or something else, with all checksums right. */
struct other_notes {
    struct wal_index x;
    const char *note;
};

static enum err index_one(void *ctx, const struct wal_record *r)
{
    struct other_notes *x = ctx;
    struct wal_record noted = *r;

    noted.note = x->note;
    noted.note_n = strlen(x->note);
    wal_index_add(&x->x, &noted);
    return ERR_OK;
}

static const char *note_instead;

static void index_again(const char *path)
{
    const struct fio *fio = fio_os();
    struct other_notes x = {.note = note_instead};
    struct wal_replay job = {.fio = fio, .each = index_one, .ctx = &x};
    struct wal_replayed done;
    struct wal_header header;
    struct fio_file *f;
    unsigned long long number;
    char index[700];

    assert_ok(fio->open(fio->ctx, &f, path));
    assert_ok(fio->size(fio->ctx, f, &job.size));
    assert_int_equal(sscanf(strrchr(path, '-'), "-%llx", &number), 1);
    assert_ok(wal_source_header(&header, fio, f, number));
    job.f = f;
    job.header = &header;
    wal_index_init(&x.x);
    wal_index_begin(&x.x, header.seed, header.version);
    assert_ok(wal_source_replay(&done, &job));
    snprintf(index, sizeof index, "%.*s.idx", (int)(strlen(path) - 4), path);
    assert_ok(wal_index_write(&x.x, fio, index, number, job.size));
    wal_index_fini(&x.x);
    fio->close(fio->ctx, f);
}

static void a_note_of_no_use_makes_recovery_read_the_batch(void **state)
{
    static const char *const notes[] = {"", "nonsense", "\x01\x01", "\x02\x01\x01"};
    struct buf want;

    fill();
    tell_all(&want);
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        rig_close(&rig);
        note_instead = notes[i];
        assert_true(each_file(".log", index_again) > 1);
        rig_open(&rig);
        (void)read_bytes();
        check_same(&want);
    }
    buf_fini(&want);
}

/* -- damage in what was left in the log -- */

static void spoil(const char *path)
{
    const struct fio *fio = fio_os();
    struct fio_file *f;
    uint64_t bytes;
    uint8_t byte;
    size_t got;

    assert_ok(fio->open(fio->ctx, &f, path));
    assert_ok(fio->size(fio->ctx, f, &bytes));
    assert_ok(fio->read(fio->ctx, f, bytes - 20, &byte, 1, &got));
    byte ^= 1;
    assert_ok(fio->write(fio->ctx, f, bytes - 20, &byte, 1));
    fio->close(fio->ctx, f);
}

static enum err count_block(void *ctx, const struct store_block *b)
{
    size_t *n = ctx;

    (void)b;
    (*n)++;
    return ERR_OK;
}

static size_t count_blocks(struct store_used *used)
{
    const struct store_range range = {.since_ns = 0,
                                      .until_ns = INT64_MAX,
                                      .made_since_ns = INT64_MIN,
                                      .metrics = METRIC_ALL,
                                      .used = used};
    struct store_view *v;
    size_t n = 0;

    *used = (struct store_used){.damaged = 0};
    assert_ok(store_view_open(&v, rig.store));
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        assert_ok(store_blocks_scan(v, i, &range, count_block, &n));
    }
    store_view_close(v);
    return n;
}

static uint64_t all_gaps(void);

/* Each file loses its last batch; answers say so, and the others are sealed. */
static void a_batch_damaged_in_the_log_is_missing_and_told(void **state)
{
    struct store_used used;
    struct store_room room;
    size_t files;

    fill();
    rig_close(&rig);
    files = each_file(".log", spoil);
    rig_open(&rig);
    assert_int_equal(count_blocks(&used), HOSTS * BATCHES - files);
    assert_int_equal(used.damaged, files);
    rig_set_now(RIG_T0 + 3000 * SECOND);
    assert_ok(store_seal_now(rig.store, rig_now()));
    assert_int_equal(rig_count_all(&rig), HOSTS * BATCHES - files);
    store_room(rig.store, &room);
    assert_int_equal(room.unreadable_batches, files);
    put_more(1);
    for (int life = 0; life < 2; life++) { /* sealed or not, they stay lost */
        assert_int_equal(all_gaps(), files);
        rig_close(&rig);
        rig_open(&rig);
    }
}

/* -- and in files that are read -- */

static char newest[600];

static void note_newest(const char *path)
{
    if (strcmp(path, newest) > 0) {
        snprintf(newest, sizeof newest, "%s", path);
    }
}

static void flip(const char *path, unsigned percent)
{
    const struct fio *fio = fio_os();
    struct fio_file *f;
    uint64_t bytes;
    uint8_t byte;
    size_t got;

    assert_ok(fio->open(fio->ctx, &f, path));
    assert_ok(fio->size(fio->ctx, f, &bytes));
    assert_ok(fio->read(fio->ctx, f, bytes * percent / 100, &byte, 1, &got));
    byte ^= 1;
    assert_ok(fio->write(fio->ctx, f, bytes * percent / 100, &byte, 1));
    fio->close(fio->ctx, f);
}

static void flip_older(const char *path)
{
    if (strcmp(path, newest) != 0) {
        flip(path, 50);
    }
}

/* A kill leaves the newest file without its index. */
static void fill_and_kill(void)
{
    fill();
    put_more(KILLED - BATCHES);
    rig_close(&rig);
    each_file(".idx", remove_file);
    newest[0] = '\0';
    each_file(".log", note_newest);
}

static bool check_finds(void)
{
    const struct check_conf conf = {.data_dir = rig.dir, .fio = fio_os()};
    struct check_result r;

    assert_ok(check_store(&r, &conf, NULL));
    return r.damaged;
}

/* Batches that coverage takes for lost. */
static uint64_t all_gaps(void)
{
    struct store_view *v;
    uint64_t n = 0;

    assert_ok(store_view_open(&v, rig.store));
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        n += store_view_host(v, i)->gaps;
    }
    store_view_close(v);
    return n;
}

static void a_flipped_bit_in_the_newest_file_costs_one_batch_and_is_told(void **state)
{
    struct store_stats stats;

    fill_and_kill();
    flip(newest, 25);
    assert_true(check_finds());
    for (int life = 0; life < 2; life++) {
        rig_open(&rig);
        assert_int_equal(rig_count_all(&rig), HOSTS * KILLED - 1);
        assert_int_equal(all_gaps(), 1);
        store_stats(rig.store, &stats);
        assert_int_equal(stats.bad_records, 1);
        assert_int_equal(stats.torn_bytes, 0);
        rig_close(&rig);
    }
    assert_true(check_finds());
}

static void a_flipped_bit_in_the_newest_files_header_costs_nothing_and_is_told(void **state)
{
    struct store_stats stats;

    fill_and_kill();
    flip(newest, 0);
    assert_true(check_finds());
    rig_open(&rig);
    assert_int_equal(rig_count_all(&rig), HOSTS * KILLED);
    assert_int_equal(all_gaps(), 0);
    store_stats(rig.store, &stats);
    assert_int_equal(stats.bad_records, 1);
}

/* The checkpoint of the file behind it knows of the batch, but it is nowhere: that stays so, also
 * when the damaged file has gone. */
static void a_batch_lost_in_an_older_file_stays_lost(void **state)
{
    size_t older;

    fill_and_kill();
    older = each_file(".log", flip_older) - 1;
    assert_true(older >= 1);
    for (int life = 0; life < 4; life++) {
        rig_open(&rig);
        assert_int_equal(rig_count_all(&rig), HOSTS * KILLED - older);
        assert_int_equal(all_gaps(), older);
        if (life == 1) {
            rig_set_now(RIG_T0 + 3000 * SECOND);
            assert_ok(store_seal_now(rig.store, rig_now()));
            assert_int_equal(all_gaps(), older);
            assert_int_equal(each_file(".log", NULL), 1);
        }
        rig_close(&rig);
    }
    rig_set_now(RIG_T0);
}

static void flip_at(const char *path, uint64_t at)
{
    const struct fio *fio = fio_os();
    struct fio_file *f;
    uint8_t byte;
    size_t got;

    assert_ok(fio->open(fio->ctx, &f, path));
    assert_ok(fio->read(fio->ctx, f, at, &byte, 1, &got));
    byte ^= 1;
    assert_ok(fio->write(fio->ctx, f, at, &byte, 1));
    fio->close(fio->ctx, f);
}

static char paths[8][600];
static size_t n_paths;

static void note_path(const char *path)
{
    snprintf(paths[n_paths++], sizeof paths[0], "%s", path);
}

/* Wherever it is, with indexes or without: one batch at most is lost, and what is lost is missing
 * by its number once its host has sent another one, and found by store check. */
static void a_flipped_bit_anywhere_in_the_log_is_no_silent_loss(void **state)
{
    enum { TRIES = 6 };

    for (unsigned i = 0; i < 2 * TRIES; i++) {
        uint64_t bytes, missing, have;
        struct fio_file *f;
        bool found;

        fill();
        put_more(KILLED - BATCHES);
        rig_close(&rig);
        if (i % 2) {
            each_file(".idx", remove_file);
        }
        n_paths = 0;
        each_file(".log", note_path);
        assert_ok(fio_os()->open(NULL, &f, paths[i % n_paths]));
        assert_ok(fio_os()->size(NULL, f, &bytes));
        fio_os()->close(NULL, f);
        /* the beginning closely, then all of it */
        flip_at(paths[i % n_paths], i < TRIES ? i * 61 : bytes * (i - TRIES) / TRIES + i);
        found = check_finds();
        rig_open(&rig);
        put_more(1);
        rig_set_now(RIG_T0 + 3000 * SECOND);
        assert_ok(store_seal_now(rig.store, INT64_MAX));
        missing = all_gaps();
        have = rig_count_all(&rig);
        assert_int_equal(have + missing, HOSTS * (KILLED + 1));
        assert_true(missing <= 1);
        assert_true(found || !missing);
        rig_fini(&rig);
        rig_init(&rig);
        rig_set_now(RIG_T0);
    }
}

/* What the disk does not give now it may give later: nothing is left out for that. */
static atomic_bool unreadable;

static enum err read_or_fail(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                             size_t *got)
{
    return atomic_load(&unreadable) ? ERR_IO : fio_unsynced()->read(ctx, f, offset, p, n, got);
}

/* Opens a filled store none of whose files can be read from then on. *fio: of this test */
static void open_unreadable(struct fio *fio)
{
    *fio = *fio_unsynced();
    fio->read = read_or_fail;
    rig.conf.fio = fio;
    fill();
    rig_close(&rig);
    rig_open(&rig);
    atomic_store(&unreadable, true);
}

static void what_cannot_be_read_for_a_while_is_sealed_later(void **state)
{
    struct store_room room;
    struct fio fio;

    open_unreadable(&fio);
    rig_set_now(RIG_T0 + 3000 * SECOND);
    assert_err(store_seal_now(rig.store, rig_now()), ERR_IO);
    atomic_store(&unreadable, false);
    assert_ok(store_seal_now(rig.store, rig_now()));
    store_room(rig.store, &room);
    assert_int_equal(room.unreadable_batches, 0);
    assert_int_equal(rig_count_all(&rig), HOSTS * BATCHES);
    rig_close(&rig); /* before its layer goes */
}

/* What it never gives must not hold up all that follows, nor the feed's start. */
static void what_can_never_be_read_is_left_out_in_the_end(void **state)
{
    struct store_raw_ask ask = {.since_ns = INT64_MIN, .until_ns = INT64_MAX};
    struct store_room room;
    struct store_view *v;
    struct buf raw;
    struct fio fio;
    enum err e = ERR_IO;
    int tries;

    open_unreadable(&fio);
    buf_init(&raw, 1u << 20);
    assert_ok(store_view_open(&v, rig.store));
    assert_ok(store_view_raw(v, 0, &ask, tell_raw, &raw));
    assert_int_equal(raw.n, 0);
    store_view_close(v);
    buf_fini(&raw);
    rig_set_now(RIG_T0 + 3000 * SECOND);
    for (tries = 0; tries < 1000 && e == ERR_IO; tries++) {
        e = store_seal_now(rig.store, rig_now());
    }
    atomic_store(&unreadable, false);
    assert_ok(e);
    assert_true(tries > 100);
    store_room(rig.store, &room);
    assert_int_equal(room.unreadable_batches, HOSTS * BATCHES);
    assert_int_equal(rig_count_all(&rig), 0);
    rig_close(&rig); /* before its layer goes */
}

static int teardown(void **state)
{
    for (uint64_t h = 0; h < HOSTS; h++) {
        fleetgen_destroy(hosts[h]);
        hosts[h] = NULL;
    }
    return rig_teardown(state);
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, rig_setup, teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_store_is_the_same_by_index_and_by_reading),
        T(what_was_recovered_by_index_is_sealed_as_if_it_had_stayed),
        T(a_note_of_no_use_makes_recovery_read_the_batch),
        T(a_batch_damaged_in_the_log_is_missing_and_told),
        T(a_flipped_bit_in_the_newest_file_costs_one_batch_and_is_told),
        T(a_flipped_bit_in_the_newest_files_header_costs_nothing_and_is_told),
        T(a_batch_lost_in_an_older_file_stays_lost),
        T(a_flipped_bit_anywhere_in_the_log_is_no_silent_loss),
        T(what_cannot_be_read_for_a_while_is_sealed_later),
        T(what_can_never_be_read_is_left_out_in_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
