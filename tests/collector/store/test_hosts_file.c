#include "collector/store/hosts.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

static void sample(struct head_record list[2])
{
    memset(list, 0, 2 * sizeof *list);
    list[0] = (struct head_record){.id = {{1}},
                                   .boot = {{9}},
                                   .name = "web-1",
                                   .source = "proc",
                                   .flags = 3,
                                   .cpus = 8,
                                   .first_ns = 5,
                                   .last_ns = 7,
                                   .made_ns = 6,
                                   .received_ns = 8,
                                   .clock = {true, true, -4, 2},
                                   .batches = 100,
                                   .lost_events = 1,
                                   .held = 90,
                                   .too_old = 7,
                                   .no_room = 3};
    list[1] = (struct head_record){.id = {{2}}, .name = "", .clock = {.known = true}};
    memset(list[1].name, 'x', sizeof list[1].name - 1);
}

static void must_equal(const struct head_record *a, const struct head_record *b, size_t n)
{
    struct buf x, y;

    buf_init(&x, 1u << 16);
    buf_init(&y, 1u << 16);
    hosts_encode(&x, 0, a, n);
    hosts_encode(&y, 0, b, n);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    buf_fini(&x);
    buf_fini(&y);
}

static bool always(void *ctx, uint64_t number)
{
    *(uint64_t *)ctx = number;
    return true;
}

static bool never(void *ctx, uint64_t number)
{
    (void)ctx;
    (void)number;
    return false;
}

static void what_is_written_is_read_once_the_manifest_has_its_segment(void **state)
{
    struct head_record list[2], *read;
    uint64_t number = 0;
    size_t n;

    sample(list);
    assert_ok(hosts_read(fio_unsynced(), dir, never, NULL, &read, &n));
    assert_int_equal(n, 0);
    assert_ok(hosts_write(fio_unsynced(), dir, 7, list, 1));
    assert_ok(hosts_adopt(fio_unsynced(), dir));
    assert_ok(hosts_write(fio_unsynced(), dir, 8, list, 2));
    assert_ok(hosts_read(fio_unsynced(), dir, never, NULL, &read, &n)); /* died before the change */
    assert_int_equal(n, 1);
    mem_free(read);
    assert_ok(hosts_read(fio_unsynced(), dir, always, &number, &read, &n)); /* after it */
    assert_int_equal(n, 2);
    assert_int_equal(number, 8);
    must_equal(read, list, 2);
    mem_free(read);
    assert_ok(hosts_read(fio_unsynced(), dir, never, NULL, &read, &n)); /* it was adopted */
    assert_int_equal(n, 2);
    mem_free(read);
}

static void every_shorter_file_and_every_flipped_bit_is_noticed(void **state)
{
    struct head_record list[2], *read;
    uint64_t number;
    size_t n;
    struct buf b;

    sample(list);
    buf_init(&b, 1u << 16);
    hosts_encode(&b, 3, list, 2);
    assert_int_equal(b.bad, ERR_OK);
    for (size_t i = 0; i < b.n; i++) {
        assert_err(hosts_decode(b.p, i, &number, &read, &n), ERR_CORRUPT);
    }
    for (size_t bit = 0; bit < b.n * 8; bit++) {
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_err(hosts_decode(b.p, b.n, &number, &read, &n), ERR_CORRUPT);
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_ok(hosts_decode(b.p, b.n, &number, &read, &n));
    mem_free(read);
    buf_fini(&b);
}

static void a_damaged_file_is_said_to_be_so(void **state)
{
    struct head_record list[2], *read;
    char path[300];
    size_t n;

    sample(list);
    assert_ok(hosts_write(fio_unsynced(), dir, 7, list, 2));
    assert_ok(hosts_adopt(fio_unsynced(), dir));
    (void)snprintf(path, sizeof path, "%s/hosts", dir);
    assert_ok(os_write_file(path, "nonsense", 8, true));
    assert_err(hosts_read(fio_unsynced(), dir, never, NULL, &read, &n), ERR_CORRUPT);
    (void)snprintf(path, sizeof path, "%s/hosts.new", dir); /* torn by a crash: of no account */
    assert_ok(os_write_file(path, "nonsense", 8, true));
    (void)snprintf(path, sizeof path, "%s/hosts", dir);
    assert_ok(os_remove(path));
    assert_ok(hosts_read(fio_unsynced(), dir, never, NULL, &read, &n));
    assert_int_equal(n, 0);
}

/* A file of the first format, byte by byte as it was written then. */
static void a_file_of_format_1_is_read(void **state)
{
    struct head_record list[2], *read;
    uint64_t number;
    uint8_t *p;
    size_t bytes, n;

    sample(list);
    assert_ok(os_read_file(&p, &bytes, "tests/collector/fixtures/hosts-format1.bin", 1u << 16));
    assert_ok(hosts_decode(p, bytes, &number, &read, &n));
    assert_int_equal(number, 0x1122334455667788);
    assert_int_equal(n, 2);
    must_equal(read, list, 2);
    mem_free(read);
    mem_free(p);
}

#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_written_is_read_once_the_manifest_has_its_segment),
        T(every_shorter_file_and_every_flipped_bit_is_noticed),
        T(a_damaged_file_is_said_to_be_so),
        T(a_file_of_format_1_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
