#include "collector/clickhouse/ch_sent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/dedup.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/t.h"

static const struct uuid hosts[] = {{{1}}, {{2}}};
static char dir[64];

static struct ch_sent_conf conf_of(const char *collector)
{
    return (struct ch_sent_conf){fio_os(), dir, collector, 100, INT64_MAX / 2};
}

static enum err save(const struct ch_sent *s, const struct ch_sent_from *from)
{
    struct buf bytes;
    enum err e;

    buf_init(&bytes, CH_SENT_BYTES_MAX);
    assert_ok(ch_sent_bytes(s, from, &bytes));
    e = ch_sent_write(s, &bytes);
    buf_fini(&bytes);
    return e;
}

static int dir_make(void **state)
{
    (void)snprintf(dir, sizeof dir, "/tmp/test_ch_sent.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int dir_drop(void **state)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void what_is_saved_is_read(void **state)
{
    const struct ch_sent_conf conf = conf_of("a"), other = conf_of("b");
    struct ch_sent_from from, again;
    struct errmsg why;
    struct ch_sent *s;

    assert_ok(ch_sent_open(&s, &conf, &from, &why));
    assert_true(from.made_ns == INT64_MIN && from.written_ns == 0);
    assert_ok(ch_sent_add(s, &hosts[0], 7, 1, 100, 1));
    assert_ok(ch_sent_add(s, &hosts[0], 7, 103, 103, 1));
    assert_ok(ch_sent_add(s, &hosts[1], 8, 5, 5, 1));
    from = (struct ch_sent_from){50, 60, 70};
    assert_ok(save(s, &from));
    ch_sent_close(s);
    assert_ok(ch_sent_open(&s, &conf, &again, &why));
    assert_memory_equal(&from, &again, sizeof from);
    assert_true(ch_sent_has(s, &hosts[0], 7, 1) && ch_sent_has(s, &hosts[0], 7, 100));
    assert_true(ch_sent_has(s, &hosts[0], 7, 103) && !ch_sent_has(s, &hosts[0], 7, 101));
    assert_true(ch_sent_has(s, &hosts[1], 8, 5) && !ch_sent_has(s, &hosts[1], 7, 5));
    ch_sent_close(s);
    assert_ok(ch_sent_open(&s, &other, &again, &why)); /* another collector knows nothing */
    assert_true(again.made_ns == INT64_MIN && !ch_sent_has(s, &hosts[0], 7, 1));
    ch_sent_close(s);
}

static void damage_costs_only_work(void **state)
{
    const struct ch_sent_conf conf = conf_of("a");
    struct ch_sent_from from = {50, 60, 70}, read;
    char path[80];
    struct errmsg why;
    struct ch_sent *s;
    uint8_t *p;
    size_t n;

    assert_ok(ch_sent_open(&s, &conf, &read, &why));
    assert_ok(ch_sent_add(s, &hosts[0], 7, 1, 100, 1));
    assert_ok(save(s, &from));
    ch_sent_close(s);
    (void)snprintf(path, sizeof path, "%s/state", dir);
    assert_ok(os_read_file(&p, &n, path, 1u << 20));
    for (size_t i = 0; i <= n; i++) { /* every byte changed, every shorter file */
        uint8_t *copy = mem_dup(p, n);
        struct dedup *d;

        assert_ok(dedup_create(&d, 100, INT64_MAX / 2));
        assert_true(ch_sent_decode(d, "a", &read, p, i) == (i == n ? ERR_OK : ERR_CORRUPT));
        if (i < n) {
            copy[i] ^= 0x40;
            assert_true(ch_sent_decode(d, "a", &read, copy, n) != ERR_OK);
            assert_ok(os_write_file(path, copy, n, true));
        }
        dedup_destroy(d);
        mem_free(copy);
    }
    assert_ok(ch_sent_open(&s, &conf, &read, &why));
    assert_true(read.made_ns == INT64_MIN && !ch_sent_has(s, &hosts[0], 7, 1));
    ch_sent_close(s);
    mem_free(p);
}

static void a_failing_disk_leaves_the_old_state(void **state)
{
    struct ch_sent_conf conf = conf_of("a");
    struct ch_sent_from from = {50, 60, 70}, read;
    struct errmsg why;
    struct ch_sent *s;

    for (long n = 0, done = 0; !done; n++) {
        struct fio_fault *f;
        enum err e;

        assert_ok(fio_fault_create(&f));
        conf.fio = fio_fault_fio(f);
        assert_ok(ch_sent_open(&s, &conf, &read, &why));
        assert_ok(ch_sent_add(s, &hosts[0], 7, 1, 100, 1));
        fio_fault_fail(f, FIO_ALL, n, ERR_NOSPACE, true);
        e = save(s, &from);
        done = !e;
        ch_sent_close(s);
        fio_fault_destroy(f);
        conf.fio = fio_os();
        assert_ok(ch_sent_open(&s, &conf, &read, &why));
        assert_true(read.made_ns == (ch_sent_has(s, &hosts[0], 7, 1) ? 50 : INT64_MIN));
        assert_true(!done || read.made_ns == 50);
        ch_sent_close(s);
    }
}

static void a_hole_is_never_taken_for_sent(void **state)
{
    const struct ch_sent_conf conf = conf_of("a");
    struct ch_sent_from from = {50, 60, 70}, read;
    struct errmsg why;
    struct ch_sent *s;

    for (int round = 0; round < 3; round++) { /* fresh, read again, after a damaged state */
        char path[80];

        assert_ok(ch_sent_open(&s, &conf, &read, &why));
        for (uint64_t seq = 1; seq <= 2 * 70 * (1 + (uint64_t)round); seq += 2) {
            assert_ok(ch_sent_add(s, &hosts[0], 7, seq, seq, 1));
            assert_true(ch_sent_has(s, &hosts[0], 7, seq));
            for (uint64_t hole = 2; hole < seq; hole += 2) {
                assert_false(ch_sent_has(s, &hosts[0], 7, hole));
            }
        }
        assert_ok(save(s, &from));
        ch_sent_close(s);
        (void)snprintf(path, sizeof path, "%s/state", dir);
        if (round == 1) {
            assert_ok(os_write_file(path, "PFclick!", 8, true));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_saved_is_read, dir_make, dir_drop),
        cmocka_unit_test_setup_teardown(damage_costs_only_work, dir_make, dir_drop),
        cmocka_unit_test_setup_teardown(a_failing_disk_leaves_the_old_state, dir_make, dir_drop),
        cmocka_unit_test_setup_teardown(a_hole_is_never_taken_for_sent, dir_make, dir_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
