/* One flipped bit in each kind of file of an agent's spool at rest: segments, the mark, a batch of
 * the quarantine. What is lost is counted, what comes is what was rig_put, once each, and the rest
 * comes. PROCFLEET_FLIPS says how many bits of each file are tried, evenly spread (16). */
#include "agent/spool/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/spool/spool_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

#define RUNS  3u /* of the agent; a segment each */
#define EACH  6u /* batches */
#define FILES 16u
#define FLIPS 16u

static char dir[256], quarantine[300];

/* The spool at rest. */
static struct {
    char path[FILES][600];
    uint8_t *p[FILES];
    size_t n[FILES], n_files;
} rest;

static struct spool *open_spool(void)
{
    struct spool_conf conf = {
        .disk = {dir, fio_unsynced(), SPOOL_BYTES_MIN, 365 * 24 * 3600 * CLK_S},
        .memory_bytes = 1 << 20};
    struct errmsg why = {""};
    struct spool *s;

    if (spool_open(&s, &conf, &why)) {
        fail_msg("%s", why.text);
    }
    return s;
}

/* -- the spool at rest -- */

static enum err remember(void *ctx, const char *name)
{
    const char *in = ctx;
    size_t i = rest.n_files;
    char *path = os_path_join(in, name);

    if (strcmp(name, "lock") != 0 && strcmp(name, DEAD_LETTER_DIR) != 0) {
        assert_true(i < FILES);
        (void)snprintf(rest.path[i], sizeof rest.path[i], "%s", path);
        assert_ok(os_read_file(&rest.p[i], &rest.n[i], path, 1 << 20));
        rest.n_files++;
    }
    mem_free(path);
    return ERR_OK;
}

/* Of one stream, numbers from 1 on; the first is set aside and to be sent again. */
static int setup(void **state)
{
    struct outbox_item item;
    uint64_t number;
    size_t n;

    support_temp_dir(dir, sizeof dir);
    (void)snprintf(quarantine, sizeof quarantine, "%s/" DEAD_LETTER_DIR, dir);
    for (unsigned run = 0; run < RUNS; run++) {
        struct spool *s = open_spool();
        struct outbox o = spool_outbox(s);

        for (unsigned i = 0; i < EACH; i++) {
            rig_put(s);
        }
        if (run == 0) {
            assert_ok(rig_try_take(s, &item));
            assert_int_equal(item.seq, 1);
            o.reject(o.ctx, &item, OUTBOX_REFUSED, "of no use");
        }
        assert_true(spool_stop(s));
        spool_close(s);
    }
    assert_ok(dead_letter_file_list(dir, &number, 1, &n));
    assert_int_equal(n, 1);
    assert_ok(dead_letter_file_retry(dir, number));
    assert_ok(os_list_dir(dir, remember, dir));
    assert_ok(os_list_dir(quarantine, remember, quarantine));
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < rest.n_files; i++) {
        mem_free(rest.p[i]);
    }
    support_remove_dir(dir);
    return 0;
}

static void put_back(void)
{
    support_empty_dir(quarantine);
    support_remove_dir(quarantine);
    support_empty_dir(dir);
    assert_ok(os_mkdirs(quarantine, true));
    for (size_t i = 0; i < rest.n_files; i++) {
        support_write_file(rest.path[i], rest.p[i], rest.n[i]);
    }
}

/* -- flips -- */

/* Takes all there is; bits of the numbers that came, as they were rig_put. */
static uint64_t drain(struct spool *s)
{
    struct outbox o = spool_outbox(s);
    struct outbox_item item;
    uint64_t came = 0;
    struct buf want;
    enum err e;

    buf_init(&want, SPOOL_BATCH_MAX);
    spool_end(s);
    while ((e = rig_try_take(s, &item)) == ERR_OK) {
        assert_in_range(item.seq, 1, RUNS * EACH);
        assert_true(item.seq == 1 || !(came >> item.seq & 1)); /* 1 lies in its segment too */
        rig_batch(&want, item.stream, item.seq);
        assert_int_equal(item.n, want.n);
        assert_memory_equal(item.p, want.p, want.n);
        came |= UINT64_C(1) << item.seq;
        o.ack(o.ctx, &item);
    }
    assert_err(e, ERR_END);
    buf_fini(&want);
    return came;
}

static unsigned count(uint64_t bits)
{
    unsigned n = 0;

    for (; bits; bits &= bits - 1) {
        n++;
    }
    return n;
}

/* How many batches a flip may cost: one in a record, none in a header, which is there twice. */
static unsigned may_cost(const char *path, size_t byte)
{
    return strstr(path, ".seg") && byte >= SPOOL_HEADER_BYTES ? 1 : 0;
}

static void flip(size_t file, size_t bit)
{
    unsigned missing, most = may_cost(rest.path[file], bit / 8);
    uint64_t all = (UINT64_C(2) << RUNS * EACH) - 2, came;
    struct spool_stats end;
    struct spool *s;
    bool aside;

    put_back();
    rest.p[file][bit / 8] ^= (uint8_t)(1u << bit % 8);
    support_write_file(rest.path[file], rest.p[file], rest.n[file]);
    rest.p[file][bit / 8] ^= (uint8_t)(1u << bit % 8);
    s = open_spool();
    came = drain(s);
    (void)spool_stop(s);
    end = rig_stats(s);
    spool_close(s);
    missing = count(all & ~came);
    aside = strstr(rest.path[file], "batch-") != NULL;
    if (missing > most) {
        fail_msg("%s, bit %zu: %u batches are missing, not %u", rest.path[file], bit, missing,
                 most);
    }
    if (aside) { /* it was counted when it was set aside, stays, and the list says what it is */
        struct dead_letter_batch b;
        uint64_t number = 0;
        uint8_t *bytes;
        size_t n = 0;

        assert_ok(dead_letter_file_list(dir, &number, 1, &n));
        assert_true(n == 0 || dead_letter_file_read(&b, &bytes, dir, number) != ERR_OK);
    } else if (strstr(rest.path[file], ".seg") && bit / 8 < SPOOL_HEADER_BYTES) {
        assert_int_equal(end.disk.damaged_headers, 1);
    } else if (missing > 0 && end.disk.unreadable + end.disk.forgotten == 0) {
        fail_msg("%s, bit %zu: %u batches are missing, and nothing tells", rest.path[file], bit,
                 missing);
    }
}

static void every_flipped_bit_costs_what_it_is_in_and_is_counted(void **state)
{
    const char *text = getenv("PROCFLEET_FLIPS");
    size_t flips = text ? strtoul(text, NULL, 10) : FLIPS, segments = 0, others = 0;

    for (size_t i = 0; i < rest.n_files; i++) {
        segments += strstr(rest.path[i], ".seg") != NULL;
        others += strstr(rest.path[i], "batch-") || strstr(rest.path[i], "mark");
        for (size_t k = 0; k < flips; k++) {
            flip(i, rest.n[i] * 8 * k / flips + k % 8);
        }
    }
    assert_true(segments >= RUNS);
    assert_int_equal(others, 2);
}

/* Behind it nothing in the file says that something is missing. */
static void the_header_of_each_files_last_record_is_missed(void **state)
{
    for (size_t i = 0; i < rest.n_files; i++) {
        size_t last = 0;

        for (size_t at = SPOOL_HEADER_BYTES; at + 4 <= rest.n[i]; at++) {
            last = memcmp(rest.p[i] + at, "PFSR", 4) == 0 ? at : last;
        }
        for (size_t bit = 0; last > 0 && bit < SPOOL_RECORD_BYTES * 8; bit += 7) {
            flip(i, last * 8 + bit);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_costs_what_it_is_in_and_is_counted),
        cmocka_unit_test(the_header_of_each_files_last_record_is_missed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
