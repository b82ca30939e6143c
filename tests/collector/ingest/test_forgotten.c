#include "collector/ingest/forgotten.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

static struct uuid id_of(unsigned i)
{
    return (struct uuid){{(uint8_t)(i * 37), (uint8_t)i}};
}

static struct forgotten *open_it(const struct fio *fio)
{
    struct errmsg why = {""};
    struct forgotten *f;

    assert_ok(forgotten_open(&f, fio, dir, &why));
    return f;
}

static void the_forgotten_are_known_after_a_restart_until_they_call(void **state)
{
    struct forgotten *f = open_it(fio_os());

    for (unsigned i = 0; i < 100; i++) {
        const struct uuid id = id_of(i);

        assert_false(forgotten_has(f, &id));
        assert_false(forgotten_heard(f, &id));
        assert_ok(forgotten_add(f, &id));
        assert_ok(forgotten_add(f, &id)); /* again: fine */
        assert_true(forgotten_has(f, &id));
    }
    for (unsigned round = 0; round < 2; round++) {
        forgotten_close(f);
        f = open_it(fio_os());
        for (unsigned i = 0; i < 100; i++) {
            const struct uuid id = id_of(i);

            assert_int_equal(forgotten_has(f, &id), round == 0 || i % 3);
            if (round == 0 && i % 3 == 0) {
                assert_true(forgotten_heard(f, &id));
                assert_false(forgotten_has(f, &id));
                assert_false(forgotten_heard(f, &id));
            }
        }
    }
    forgotten_close(f);
}

static void every_wrong_byte_hides_nobody_and_sets_the_file_aside(void **state)
{
    struct forgotten *f = open_it(fio_os());
    const struct uuid id = id_of(3);
    char path[300], bad[300];
    uint8_t bytes[64];
    uint64_t seen;
    size_t n, hosts;
    FILE *file;

    assert_ok(forgotten_add(f, &id));
    forgotten_close(f);
    (void)snprintf(path, sizeof path, "%s/forgotten", dir);
    (void)snprintf(bad, sizeof bad, "%s/forgotten.bad", dir);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    assert_int_equal(n, 8 + 4 + 4 + 16 + 8);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 1;
        assert_ok(fio_write_whole(fio_os(), path, bytes, n));
        bytes[i] ^= 1;
        assert_err(forgotten_check(fio_os(), dir, &seen, &hosts), ERR_CORRUPT);
        assert_int_equal(seen, n);
        f = open_it(fio_os());
        assert_false(forgotten_has(f, &id));
        forgotten_close(f);
        assert_ok(fio_os()->remove(fio_os()->ctx, bad));
    }
    for (size_t i = 0; i < n; i++) { /* cut short */
        assert_ok(fio_write_whole(fio_os(), path, bytes, i));
        f = open_it(fio_os());
        assert_false(forgotten_has(f, &id));
        forgotten_close(f);
        assert_ok(fio_os()->remove(fio_os()->ctx, bad));
    }
    assert_ok(forgotten_check(fio_os(), dir, &seen, &hosts));
    assert_int_equal(hosts, 0); /* there is none */
    assert_ok(fio_write_whole(fio_os(), path, bytes, n));
    assert_ok(forgotten_check(fio_os(), dir, &seen, &hosts));
    assert_int_equal(hosts, 1);
    f = open_it(fio_os());
    assert_true(forgotten_has(f, &id));
    forgotten_close(f);
}

static void a_disk_that_fails_hides_nobody(void **state)
{
    const struct uuid a = id_of(1), b = id_of(2);
    unsigned refused = 0;

    for (long after = 0; after < 12; after++) {
        struct fio_fault *fault;
        struct forgotten *f;

        support_empty_dir(dir);
        assert_ok(fio_fault_create(&fault));
        f = open_it(fio_fault_fio(fault));
        assert_ok(forgotten_add(f, &a));
        fio_fault_fail(fault, FIO_ALL, after, ERR_NOSPACE, false);
        if (forgotten_add(f, &b) != ERR_OK) {
            refused++;
            assert_false(forgotten_has(f, &b));
            assert_true(forgotten_has(f, &a));
            assert_ok(forgotten_add(f, &b)); /* the disk is well again */
        }
        assert_true(forgotten_has(f, &b));
        fio_fault_fail(fault, FIO_ALL, 0, ERR_IO, true);
        assert_true(forgotten_heard(f, &b)); /* it is here, whatever the disk says */
        assert_false(forgotten_has(f, &b));
        assert_err(forgotten_add(f, &b), ERR_IO);
        assert_true(forgotten_has(f, &a));
        forgotten_close(f);
        fio_fault_destroy(fault);
    }
    assert_true(refused > 2);
}

static void power_that_fails_loses_no_one_who_was_said_to_be_hidden(void **state)
{
    const struct uuid a = id_of(1), b = id_of(2);

    for (uint64_t seed = 0; seed < 8; seed++) {
        struct fio_fault *fault;
        struct forgotten *f;

        support_empty_dir(dir);
        assert_ok(fio_fault_create(&fault));
        f = open_it(fio_fault_fio(fault));
        assert_ok(forgotten_add(f, &a));
        fio_fault_fail(fault, FIO_SYNC | FIO_SYNC_DIR, (long)(seed % 3), ERR_IO, true);
        err_ignore(forgotten_add(f, &b));
        fio_fault_power_cut(fault, seed % 2 ? FIO_KEEP_SECTORS : FIO_KEEP_PREFIX, seed);
        forgotten_close(f);
        fio_fault_destroy(fault);
        f = open_it(fio_os());
        assert_true(forgotten_has(f, &a));
        forgotten_close(f);
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    const struct uuid a = id_of(1);

    for (long n = 0;; n++) {
        struct errmsg why = {""};
        struct forgotten *f = NULL;
        enum err e;

        support_empty_dir(dir);
        mem_fail_after(n);
        e = forgotten_open(&f, fio_os(), dir, &why);
        e = e ? e : forgotten_add(f, &a);
        mem_fail_after(-1);
        forgotten_close(f);
        if (!e) {
            return;
        }
        assert_err(e, ERR_NOMEM);
    }
}

struct asker {
    struct forgotten *f;
    atomic_bool done;
    unsigned wrong;
};

/* Host 1 is always forgotten, host 50 never, whoever else comes and goes. */
static void ask_for_ever(void *arg)
{
    const struct uuid always = id_of(1), never = id_of(50);
    struct asker *a = arg;

    while (!atomic_load(&a->done)) {
        a->wrong += !forgotten_has(a->f, &always) || forgotten_has(a->f, &never);
    }
}

static void who_asks_meanwhile_sees_the_others_as_they_are(void **state)
{
    const struct uuid always = id_of(1);
    struct asker a = {.f = open_it(fio_unsynced())};
    struct os_thread *thread;

    assert_ok(forgotten_add(a.f, &always));
    assert_ok(os_thread_start(&thread, "ask", ask_for_ever, &a));
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 2; i < 20; i++) {
            const struct uuid id = id_of(i);

            assert_ok(forgotten_add(a.f, &id));
            assert_true(round % 2 || forgotten_heard(a.f, &id));
        }
    }
    atomic_store(&a.done, true);
    os_thread_join(thread);
    assert_int_equal(a.wrong, 0);
    forgotten_close(a.f);
}

#define TEST(name) \
    cmocka_unit_test_prestate_setup_teardown(name, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_forgotten_are_known_after_a_restart_until_they_call),
        TEST(every_wrong_byte_hides_nobody_and_sets_the_file_aside),
        TEST(a_disk_that_fails_hides_nobody),
        TEST(power_that_fails_loses_no_one_who_was_said_to_be_hidden),
        TEST(every_failing_allocation_is_survived),
        TEST(who_asks_meanwhile_sees_the_others_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
