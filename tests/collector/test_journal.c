#include "collector/feed/journal.h"

#include <stdio.h>
#include <string.h>

#include "collector/feed/journal_record.h"
#include "common/clk.h"
#include "common/fio_name.h"
#include "common/hash.h"
#include "common/mem.h"
#include "common/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define T0 INT64_C(1767225600000000000) /* 2026-01-01 */

static char dir[256];

static struct journal_conf conf_of(const struct fio *fio)
{
    return (struct journal_conf){
        .dir = dir, .fio = fio, .max_bytes = JOURNAL_LEAST, .hosts_max = 100};
}

static struct journal *open_with(const struct journal_conf *conf)
{
    struct errmsg why = {""};
    struct journal *j = NULL;

    if (journal_open(&j, conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return j;
}

static struct journal *open_journal(void)
{
    struct journal_conf conf = conf_of(fio_unsynced());

    return open_with(&conf);
}

static struct journal_record event_of(unsigned host, uint64_t batch, size_t n)
{
    struct journal_record r = {.topic = FEED_EVENT,
                               .host = {{(uint8_t)host}},
                               .stream = 7,
                               .batch = batch,
                               .last_batch = batch,
                               .stored_ns = T0 + (int64_t)batch,
                               .first_ns = 1,
                               .last_ns = 2,
                               .n = n};

    snprintf(r.name, sizeof r.name, "host-%u", host);
    return r;
}

/* A payload that says which batch it is, and that zstd makes smaller. */
static const char *payload_of(uint64_t batch, size_t n)
{
    static char text[JOURNAL_PAYLOAD_MAX];

    memset(text, 'x', n);
    snprintf(text, n, "batch %llu", (unsigned long long)batch);
    return text;
}

static struct journal_record add(struct journal *j, unsigned host, uint64_t batch)
{
    struct journal_record r = event_of(host, batch, 300);

    assert_ok(journal_append(j, &r, payload_of(batch, 300)));
    return r;
}

static void add_synced(struct journal *j, unsigned host, uint64_t batch)
{
    (void)add(j, host, batch);
    assert_ok(journal_sync(j));
}

/* Payloads that do not shrink, so that files fill. */
static enum err add_noise(struct journal *j, unsigned host, uint64_t batch, size_t n)
{
    static uint8_t noise[JOURNAL_PAYLOAD_MAX];
    struct journal_record r = event_of(host, batch, n);
    enum err e;

    assert_ok(os_random(noise, n));
    e = journal_append(j, &r, noise);
    return e ? e : journal_sync(j);
}

static size_t count_all(struct journal *j)
{
    struct journal_record r;
    uint64_t from = 0;
    size_t n = 0;

    while (journal_next(j, &from, NULL, NULL, &r, NULL) == ERR_OK) {
        n++;
    }
    return n;
}

/* How often the batch's record is there. */
static size_t count_batch(struct journal *j, uint64_t batch)
{
    struct journal_record r;
    uint64_t from = 0;
    size_t n = 0;

    while (journal_next(j, &from, NULL, NULL, &r, NULL) == ERR_OK) {
        n += r.batch <= batch && batch <= r.last_batch;
    }
    return n;
}

static uint64_t last_of(struct journal *j, const char *name)
{
    struct journal_record r;
    uint64_t last;

    err_ignore(journal_find(j, FEED_EVENT, name, 1, &r, NULL, &last));
    return last;
}

/* The newest file's path. */
static enum err newest_name(void *ctx, const char *name)
{
    uint64_t *newest = ctx, number;

    if (fio_name_parse(&number, name, "feed-", ".log") && number > *newest) {
        *newest = number;
    }
    return ERR_OK;
}

static const char *newest_path(void)
{
    static char path[400];
    uint64_t newest = 0;

    assert_ok(os_list_dir(dir, newest_name, &newest));
    snprintf(path, sizeof path, "%s/feed-%016llx.log", dir, (unsigned long long)newest);
    return path;
}

static void write_file(const char *path, const void *p, size_t n)
{
    struct fio_file *f;

    err_ignore(os_remove(path));
    assert_ok(fio_os()->create(NULL, &f, path));
    assert_ok(fio_os()->write(NULL, f, 0, p, n));
    fio_os()->close(NULL, f);
}

static enum err remove_one(void *ctx, const char *name)
{
    char path[600];

    (void)ctx;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return os_remove(path);
}

static int setup(void **state)
{
    (void)state;
    support_temp_dir(dir, sizeof dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    support_remove_dir(dir);
    return 0;
}

/* -- reading back -- */

static void a_record_is_read_as_it_was_appended(void **state)
{
    struct journal *j = open_journal();
    struct journal_record in = event_of(3, 9, 300), out;
    uint64_t from = 0;
    struct buf b;

    (void)state;
    in.last_batch = 11;
    in.topic = FEED_SAMPLE;
    assert_ok(journal_append(j, &in, payload_of(9, 300)));
    assert_ok(journal_sync(j));
    buf_init(&b, 1 << 20);
    assert_ok(journal_next(j, &from, NULL, NULL, &out, &b));
    assert_int_equal(out.position, in.position);
    assert_int_equal(out.seq, 1);
    assert_int_equal(out.topic, FEED_SAMPLE);
    assert_memory_equal(out.host.b, in.host.b, 16);
    assert_string_equal(out.name, "host-3");
    assert_int_equal(out.stream, 7);
    assert_int_equal(out.batch, 9);
    assert_int_equal(out.last_batch, 11);
    assert_int_equal(out.stored_ns, T0 + 9);
    assert_int_equal(out.first_ns, 1);
    assert_int_equal(out.last_ns, 2);
    assert_int_equal(out.n, 300);
    assert_int_equal(b.n, 300);
    assert_memory_equal(b.p, payload_of(9, 300), 300);
    assert_int_equal(from, in.position + 1);
    assert_err(journal_next(j, &from, NULL, NULL, &out, &b), ERR_END);
    buf_fini(&b);
    journal_close(j);
}

static void nobody_sees_a_record_before_it_is_synced(void **state)
{
    struct journal *j = open_journal();
    uint64_t first, next;

    (void)state;
    (void)add(j, 1, 1);
    journal_range(j, &first, &next);
    assert_int_equal(first, next);
    assert_int_equal(count_all(j), 0);
    assert_int_equal(last_of(j, "host-1"), 0);
    assert_ok(journal_sync(j));
    journal_range(j, &first, &next);
    assert_int_equal(next, first + 1);
    assert_int_equal(count_all(j), 1);
    assert_int_equal(last_of(j, "host-1"), 1);
    journal_close(j);
}

static bool of_host_2(void *ctx, const struct journal_record *r)
{
    (*(size_t *)ctx)++;
    return strcmp(r->name, "host-2") == 0;
}

static void next_gives_what_the_reader_wants_and_goes_behind_it(void **state)
{
    struct journal *j = open_journal();
    struct journal_record r;
    uint64_t from = 0;
    size_t asked = 0, got = 0;

    (void)state;
    for (uint64_t b = 1; b <= 100; b++) {
        (void)add(j, b % 10 == 0 ? 2 : 1, b);
    }
    assert_ok(journal_sync(j));
    while (journal_next(j, &from, of_host_2, &asked, &r, NULL) == ERR_OK) {
        got++;
        assert_int_equal(r.batch, got * 10);
        assert_int_equal(r.seq, got);
    }
    assert_int_equal(got, 10);
    assert_int_equal(asked, 100);
    assert_int_equal(from, 101);
    journal_close(j);
}

static void find_gives_the_smallest_number_that_is_enough(void **state)
{
    struct journal *j = open_journal();
    struct journal_record r;
    uint64_t last;

    (void)state;
    (void)add(j, 1, 1);
    assert_int_equal(journal_skip(j, FEED_EVENT, "host-1"), 2);
    (void)add(j, 2, 1);
    (void)add(j, 1, 2);
    assert_ok(journal_sync(j));
    assert_ok(journal_find(j, FEED_EVENT, "host-1", 2, &r, NULL, &last));
    assert_int_equal(r.seq, 3);
    assert_int_equal(last, 3);
    assert_err(journal_find(j, FEED_EVENT, "host-1", 4, &r, NULL, &last), ERR_END);
    assert_int_equal(last, 3);
    assert_err(journal_find(j, FEED_SAMPLE, "host-1", 1, &r, NULL, &last), ERR_END);
    assert_err(journal_find(j, FEED_EVENT, "host-9", 1, &r, NULL, &last), ERR_END);
    assert_int_equal(last, 0);
    journal_close(j);
}

static void has_knows_ranges_and_wants_the_last_part(void **state)
{
    struct journal *j = open_journal();
    struct journal_record r = event_of(1, 5, 300);

    (void)state;
    r.last_batch = 7;
    assert_ok(journal_append(j, &r, payload_of(5, 300)));
    r = event_of(1, 8, 300);
    r.more = true;
    assert_ok(journal_append(j, &r, payload_of(8, 300)));
    assert_ok(journal_sync(j));
    assert_false(journal_has(j, FEED_EVENT, "host-1", 7, 4));
    assert_true(journal_has(j, FEED_EVENT, "host-1", 7, 5));
    assert_true(journal_has(j, FEED_EVENT, "host-1", 7, 7));
    assert_false(journal_has(j, FEED_EVENT, "host-1", 7, 8));
    assert_false(journal_has(j, FEED_EVENT, "host-1", 6, 5));
    assert_false(journal_has(j, FEED_SAMPLE, "host-1", 7, 5));
    assert_false(journal_has(j, FEED_EVENT, "host-2", 7, 5));
    journal_close(j);
}

static void what_is_over_a_bound_is_refused_and_uses_its_number(void **state)
{
    struct journal_conf conf = conf_of(fio_unsynced());
    struct journal *j;
    struct journal_record r = event_of(1, 1, JOURNAL_PAYLOAD_MAX + 1);

    (void)state;
    conf.hosts_max = 2;
    j = open_with(&conf);
    assert_err(journal_append(j, &r, ""), ERR_INVALID);
    assert_int_equal(add(j, 1, 1).seq, 2);
    (void)add(j, 2, 1);
    r = event_of(3, 1, 10);
    assert_err(journal_append(j, &r, "0123456789"), ERR_FULL);
    assert_int_equal(journal_skip(j, FEED_EVENT, "host-3"), 0);
    assert_ok(journal_sync(j));
    assert_int_equal(count_all(j), 2);
    journal_close(j);
}

/* -- reopening -- */

static void numbers_go_on_after_reopening(void **state)
{
    struct journal *j = open_journal();
    uint64_t epoch = journal_epoch(j);
    struct journal_record r;

    (void)state;
    assert_true(epoch != 0);
    for (uint64_t b = 1; b <= 5; b++) {
        add_synced(j, 1, b);
        journal_close(j);
        j = open_journal();
    }
    assert_int_equal(journal_epoch(j), epoch);
    assert_int_equal(count_all(j), 5);
    assert_true(journal_has(j, FEED_EVENT, "host-1", 7, 5));
    r = add(j, 1, 6);
    assert_int_equal(r.seq, 6);
    assert_int_equal(r.position, 6);
    journal_close(j);
}

static void numbers_of_a_quiet_topic_outlive_its_records(void **state)
{
    struct journal *j = open_journal();

    (void)state;
    add_synced(j, 1, 1);
    add_synced(j, 1, 2);
    for (uint64_t b = 1; b <= 60; b++) { /* 6 MB */
        assert_ok(add_noise(j, 2, b, 100000));
        journal_trim(j, T0, NULL, NULL);
    }
    assert_int_equal(count_batch(j, 1), 0);
    journal_close(j);
    j = open_journal();
    assert_int_equal(last_of(j, "host-1"), 2);
    assert_int_equal(add(j, 1, 3).seq, 3);
    journal_close(j);
}

static void a_forgotten_topic_does_not_begin_anew(void **state)
{
    struct journal_conf conf = conf_of(fio_unsynced());
    struct journal *j;

    (void)state;
    conf.hosts_max = 2;
    j = open_with(&conf);
    add_synced(j, 1, 1);
    add_synced(j, 1, 2);
    for (uint64_t b = 1; b <= 60; b++) {
        assert_ok(add_noise(j, 2, b, 100000));
        journal_trim(j, T0, NULL, NULL);
    }
    add_synced(j, 3, 1); /* host-1 has no records: it makes room */
    assert_int_equal(last_of(j, "host-1"), 0);
    assert_int_equal(last_of(j, "host-3"), 3);
    for (uint64_t b = 61; b <= 120; b++) {
        assert_ok(add_noise(j, 2, b, 100000));
        journal_trim(j, T0, NULL, NULL);
    }
    journal_close(j);
    j = open_with(&conf);
    assert_int_equal(add(j, 1, 3).seq, 4); /* host-3 had three and made room */
    journal_close(j);
}

/* -- trimming -- */

struct told {
    struct journal *j;
    uint64_t n, next;
};

static void note_lost(void *ctx, const struct journal_record *r)
{
    struct told *t = ctx;
    struct journal_record again;
    uint64_t from = r->position;

    assert_true(r->position >= t->next);
    t->next = r->position + 1;
    t->n++;
    assert_ok(journal_next(t->j, &from, NULL, NULL, &again, NULL)); /* no lock is held */
    assert_int_equal(again.position, r->position);
}

static void the_bound_on_bytes_holds_and_lost_sees_what_goes(void **state)
{
    struct journal *j = open_journal();
    struct told told = {.j = j};
    struct journal_stats s;
    uint64_t first, next;

    (void)state;
    for (uint64_t b = 1; b <= 100; b++) {
        struct journal_record r = event_of(1, b, 100000);
        static uint8_t noise[100000];

        assert_ok(os_random(noise, sizeof noise));
        assert_ok(journal_append(j, &r, noise));
        journal_trim(j, T0, note_lost, &told);
        assert_ok(journal_sync(j));
        journal_stats(j, &s);
        assert_true(s.bytes <= JOURNAL_LEAST);
    }
    journal_range(j, &first, &next);
    assert_int_equal(next, 101);
    assert_int_equal(first, told.n + 1);
    assert_int_equal(s.trimmed, told.n);
    assert_int_equal(s.records, 100 - told.n);
    assert_int_equal(count_all(j), s.records);
    assert_true(s.records >= 30);
    assert_true(journal_has(j, FEED_EVENT, "host-1", 7, 100));
    assert_false(journal_has(j, FEED_EVENT, "host-1", 7, 1));
    journal_close(j);
    j = open_journal();
    assert_int_equal(count_all(j), s.records);
    journal_close(j);
}

static void what_is_too_old_goes(void **state)
{
    struct journal_conf conf = conf_of(fio_unsynced());
    struct journal *j;

    (void)state;
    conf.max_age_ns = 160;
    j = open_with(&conf);
    for (uint64_t b = 1; b <= 400; b++) {
        add_synced(j, 1, b); /* one a nanosecond */
        journal_trim(j, T0 + (int64_t)b, NULL, NULL);
    }
    assert_in_range(count_all(j), 160, 160 + 2 * 11);
    journal_close(j);
}

static void a_file_that_cannot_be_removed_is_tried_again(void **state)
{
    struct fio_fault *fault;
    struct journal_conf conf = conf_of(NULL);
    struct journal *j;
    struct journal_stats s;

    (void)state;
    assert_ok(fio_fault_create(&fault));
    conf.fio = fio_fault_fio(fault);
    j = open_with(&conf);
    for (uint64_t b = 1; b <= 50; b++) {
        assert_ok(add_noise(j, 1, b, 100000));
    }
    fio_fault_fail(fault, FIO_REMOVE, 0, ERR_IO, false);
    journal_trim(j, T0, NULL, NULL);
    assert_int_equal(count_all(j), 50);
    journal_trim(j, T0, NULL, NULL);
    journal_stats(j, &s);
    assert_true(s.bytes <= JOURNAL_LEAST);
    assert_int_equal(s.failed_writes, 1);
    journal_close(j);
    fio_fault_destroy(fault);
}

/* -- damage -- */

static void a_torn_tail_of_any_length_is_cut_off(void **state)
{
    struct journal *j = open_journal();
    struct journal_stats s;
    uint64_t epoch = journal_epoch(j);
    const char *path;
    uint8_t *p;
    size_t n, kept;

    (void)state;
    add_synced(j, 1, 1);
    journal_stats(j, &s);
    kept = (size_t)s.bytes;
    add_synced(j, 1, 2);
    journal_close(j);
    path = newest_path();
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (size_t cut = kept; cut < n; cut++) {
        write_file(path, p, cut);
        j = open_journal();
        assert_int_equal(journal_epoch(j), epoch);
        assert_int_equal(count_all(j), 1);
        assert_false(journal_has(j, FEED_EVENT, "host-1", 7, 2));
        journal_stats(j, &s);
        assert_int_equal(s.torn_bytes, cut - kept);
        assert_int_equal(add(j, 1, 2).seq, 2);
        journal_close(j);
        j = open_journal();
        assert_int_equal(count_all(j), 2);
        journal_close(j);
    }
    mem_free(p);
}

static void a_file_torn_while_it_began_is_as_if_it_never_was(void **state)
{
    struct journal *j = open_journal();
    uint64_t epoch = journal_epoch(j);
    uint8_t *p;
    size_t n;

    (void)state;
    add_synced(j, 1, 1);
    journal_close(j);
    assert_ok(os_read_file(&p, &n, newest_path(), 1 << 20));
    for (size_t cut = 0; cut < JOURNAL_HEADER_BYTES + JOURNAL_RECORD_FIXED; cut += 5) {
        char path[400];

        snprintf(path, sizeof path, "%s/feed-00000000000000ff.log", dir);
        write_file(path, p, cut);
        j = open_journal();
        assert_int_equal(journal_epoch(j), epoch);
        assert_int_equal(count_all(j), 1);
        assert_false(os_exists(path));
        journal_close(j);
    }
    mem_free(p);
}

static void an_unfinished_batch_at_the_end_is_cut_off(void **state)
{
    struct journal *j = open_journal();
    struct journal_record r = event_of(1, 2, 300);

    (void)state;
    add_synced(j, 1, 1);
    r.more = true;
    assert_ok(journal_append(j, &r, payload_of(2, 300)));
    assert_ok(journal_append(j, &r, payload_of(2, 300)));
    journal_close(j);
    j = open_journal();
    assert_int_equal(count_all(j), 1);
    r = event_of(1, 2, 300);
    r.more = true;
    assert_ok(journal_append(j, &r, payload_of(2, 300)));
    assert_int_equal(r.seq, 2);
    r = event_of(1, 2, 300);
    assert_ok(journal_append(j, &r, payload_of(2, 300)));
    journal_close(j);
    j = open_journal();
    assert_int_equal(count_all(j), 3);
    assert_int_equal(count_batch(j, 2), 2);
    journal_close(j);
}

/* Whatever bit is wrong: no record is changed, none is twice, no number is given again. */
static void every_bit_flip_is_noticed_and_gives_no_number_twice(void **state)
{
    struct journal *j = open_journal();
    uint64_t epoch = journal_epoch(j);
    char path[400];
    uint8_t *p;
    size_t n, last;
    struct journal_stats s;

    (void)state;
    for (uint64_t b = 1; b <= 3; b++) {
        journal_stats(j, &s);
        add_synced(j, 1, b);
    }
    last = (size_t)s.bytes; /* the newest record cannot be told from a torn one */
    journal_close(j);
    snprintf(path, sizeof path, "%s", newest_path());
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (size_t at = 0; at < n; at++) {
        struct journal_record r;
        uint64_t from = 0;
        size_t got = 0;
        struct buf b;

        assert_ok(os_list_dir(dir, remove_one, NULL));
        p[at] ^= (uint8_t)(1 << at % 8);
        write_file(path, p, n);
        p[at] ^= (uint8_t)(1 << at % 8);
        j = open_journal();
        buf_init(&b, 1 << 20);
        while (journal_next(j, &from, NULL, NULL, &r, &b) == ERR_OK) {
            got++;
            assert_int_equal(r.batch, got);
            assert_memory_equal(b.p, payload_of(got, 300), 300);
            buf_reset(&b);
        }
        assert_true(got < 3);
        r = add(j, 1, 4);
        if (at < last) {
            assert_true(journal_epoch(j) != epoch || r.seq == 4);
            assert_true(r.position > 3);
        }
        journal_close(j);
        j = open_journal();
        assert_int_equal(count_all(j), got + 1);
        assert_int_equal(count_batch(j, 4), 1);
        journal_close(j);
        buf_fini(&b);
    }
    mem_free(p);
}

static void a_newer_version_is_refused_and_named(void **state)
{
    struct journal_conf conf = conf_of(fio_unsynced());
    struct journal_header h = {1, 2, 3, 4};
    struct journal *j;
    struct errmsg why = {""};
    char path[400];
    uint64_t sum;
    struct buf b;

    (void)state;
    buf_init(&b, 4096);
    journal_header_put(&b, &h);
    b.p[8] = 2;
    sum = hash_bytes(b.p, b.n - 8, 0);
    b.n -= 8;
    buf_put_u64le(&b, sum);
    snprintf(path, sizeof path, "%s/feed-0000000000000001.log", dir);
    write_file(path, b.p, b.n);
    assert_err(journal_open(&j, &conf, &why), ERR_VERSION);
    assert_non_null(strstr(why.text, path));
    buf_fini(&b);
}

static void a_payload_that_rots_is_told(void **state)
{
    struct journal *j = open_journal();
    struct journal_record r;
    uint64_t from = 0, last;
    struct buf b;
    uint8_t *p;
    size_t n;

    (void)state;
    add_synced(j, 1, 1);
    add_synced(j, 1, 2);
    assert_ok(os_read_file(&p, &n, newest_path(), 1 << 20));
    p[n - 20] ^= 4;
    write_file(newest_path(), p, n);
    mem_free(p);
    buf_init(&b, 1 << 20);
    assert_ok(journal_next(j, &from, NULL, NULL, &r, &b));
    assert_err(journal_next(j, &from, NULL, NULL, &r, &b), ERR_CORRUPT);
    assert_err(journal_next(j, &from, NULL, NULL, &r, &b), ERR_END);
    assert_err(journal_find(j, FEED_EVENT, "host-1", 2, &r, &b, &last), ERR_CORRUPT);
    buf_fini(&b);
    journal_close(j);
}

/* -- failures -- */

/* The n-th operation fails: what was said to be synced is there, once; the rest at most once. */
static void after_any_failing_operation_the_next_sync_works(void **state)
{
    (void)state;
    for (long n = 0; n < 40; n++) {
        struct fio_fault *fault;
        struct journal_conf conf = conf_of(NULL);
        struct journal *j;
        bool synced[21] = {false};

        assert_ok(fio_fault_create(&fault));
        conf.fio = fio_fault_fio(fault);
        j = open_with(&conf);
        fio_fault_fail(fault, FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_SYNC_DIR, n, ERR_IO, false);
        for (uint64_t b = 1; b <= 20; b++) {
            synced[b] = add_noise(j, 1, b, 60000) == ERR_OK;
        }
        journal_close(j);
        j = open_with(&conf);
        for (uint64_t b = 1; b <= 20; b++) {
            size_t count = count_batch(j, b);

            assert_true(count == 1 || (count == 0 && !synced[b]));
        }
        journal_close(j);
        fio_fault_destroy(fault);
        assert_ok(os_list_dir(dir, remove_one, NULL));
    }
}

static void what_was_synced_survives_loss_of_power(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct fio_fault *fault;
        struct journal_conf conf = conf_of(NULL);
        struct journal *j;
        uint64_t synced = round;

        assert_ok(fio_fault_create(&fault));
        conf.fio = fio_fault_fio(fault);
        j = open_with(&conf);
        for (uint64_t b = 1; b <= synced; b++) {
            assert_ok(add_noise(j, 1, b, 30000));
        }
        (void)add(j, 1, synced + 1);
        fio_fault_fail(fault, FIO_SYNC, 0, ERR_IO, true);
        assert_err(journal_sync(j), ERR_IO);
        fio_fault_power_cut(fault, (enum fio_fault_keep)(round % 3), round);
        journal_close(j);
        fio_fault_destroy(fault);
        j = open_journal();
        for (uint64_t b = 1; b <= synced; b++) {
            assert_int_equal(count_batch(j, b), 1);
        }
        assert_true(count_batch(j, synced + 1) <= 1);
        journal_close(j);
        assert_ok(os_list_dir(dir, remove_one, NULL));
    }
}

static void a_full_disk_is_told_and_room_mends_it(void **state)
{
    struct fio_fault *fault;
    struct journal_conf conf = conf_of(NULL);
    struct journal *j;

    (void)state;
    assert_ok(fio_fault_create(&fault));
    conf.fio = fio_fault_fio(fault);
    j = open_with(&conf);
    assert_ok(add_noise(j, 1, 1, 1000));
    fio_fault_disk_full(fault, 500);
    assert_err(add_noise(j, 1, 2, 1000), ERR_NOSPACE);
    fio_fault_disk_full(fault, UINT64_MAX);
    assert_ok(add_noise(j, 1, 3, 1000));
    assert_int_equal(count_all(j), 2);
    assert_int_equal(last_of(j, "host-1"), 3);
    journal_close(j);
    fio_fault_destroy(fault);
}

static void opening_and_writing_survive_every_failing_allocation(void **state)
{
    struct journal_conf conf = conf_of(fio_unsynced());
    bool done = false;

    (void)state;
    for (long n = 0; !done; n++) {
        struct journal *j = NULL;
        long live = mem_live();
        struct journal_record r = event_of(1, 1, 300);
        enum err e;

        mem_fail_after(n);
        e = journal_open(&j, &conf, NULL);
        if (!e) {
            e = journal_append(j, &r, payload_of(1, 300));
        }
        if (!e) {
            e = journal_sync(j);
        }
        mem_fail_after(-1);
        done = e == ERR_OK;
        assert_true(done || e == ERR_NOMEM);
        journal_close(j);
        assert_int_equal(mem_live(), live);
        assert_true(n < 200);
        if (!done) {
            assert_ok(os_list_dir(dir, remove_one, NULL));
        }
    }
}

/* -- threads -- */

#define MANY 2000

struct reader {
    struct journal *j;
    struct os_thread *thread;
    size_t got;
};

static void read_all(void *arg)
{
    struct reader *me = arg;
    uint64_t from = 0, at = 0, last;
    struct buf b;

    buf_init(&b, 1 << 20);
    while (at < MANY) {
        struct journal_record r;
        enum err e = journal_next(me->j, &from, NULL, NULL, &r, &b);

        if (e == ERR_OK) {
            assert_true(r.batch > at);
            at = r.batch;
            assert_memory_equal(b.p + 8, &at, sizeof at);
            me->got++;
            buf_reset(&b);
            e = journal_find(me->j, FEED_EVENT, r.name, r.seq, &r, NULL, &last);
            assert_true((e == ERR_OK || e == ERR_END) && last >= r.seq);
        } else {
            assert_err(e, ERR_END);
            os_sleep_ns(CLK_MS);
        }
    }
    buf_fini(&b);
}

static void readers_follow_while_records_come_and_go(void **state)
{
    struct journal *j = open_journal();
    struct reader readers[2] = {{.j = j}, {.j = j}};
    static uint8_t noise[4000];

    (void)state;
    assert_ok(os_random(noise, sizeof noise));
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(os_thread_start(&readers[i].thread, "reader", read_all, &readers[i]));
    }
    for (uint64_t b = 1; b <= MANY; b++) {
        struct journal_record r = event_of((unsigned)(b % 5), b, sizeof noise);

        memcpy(noise + 8, &b, sizeof b);
        assert_ok(journal_append(j, &r, noise));
        if (b % 10 == 0) {
            journal_trim(j, T0, NULL, NULL);
            assert_ok(journal_sync(j));
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        os_thread_join(readers[i].thread);
        assert_in_range(readers[i].got, 1, MANY);
    }
    journal_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_is_read_as_it_was_appended, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_sees_a_record_before_it_is_synced, setup, teardown),
        cmocka_unit_test_setup_teardown(next_gives_what_the_reader_wants_and_goes_behind_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_gives_the_smallest_number_that_is_enough, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(has_knows_ranges_and_wants_the_last_part, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_over_a_bound_is_refused_and_uses_its_number, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(numbers_go_on_after_reopening, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_of_a_quiet_topic_outlive_its_records, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_forgotten_topic_does_not_begin_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(the_bound_on_bytes_holds_and_lost_sees_what_goes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_too_old_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_removed_is_tried_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_torn_tail_of_any_length_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_torn_while_it_began_is_as_if_it_never_was, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_unfinished_batch_at_the_end_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(every_bit_flip_is_noticed_and_gives_no_number_twice, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_newer_version_is_refused_and_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_payload_that_rots_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(after_any_failing_operation_the_next_sync_works, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_synced_survives_loss_of_power, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_and_room_mends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(opening_and_writing_survive_every_failing_allocation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(readers_follow_while_records_come_and_go, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
