#include "collector/store/segment/pack.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

#define BIG 100000u

static struct packer *packer_new(void)
{
    struct packer *p;

    assert_ok(packer_create(&p));
    return p;
}

/* n bytes of which one in `step` is not zero. */
static uint8_t *sparse(size_t n, unsigned step)
{
    uint8_t *p = mem_zalloc(n);

    assert_non_null(p);
    for (size_t i = 0; i < n; i += step) {
        p[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    return p;
}

static void packs_open_to_the_same_bytes(void **state)
{
    static const struct {
        size_t n;
        unsigned step;
    } rows[] = {{0, 1}, {1, 1}, {7, 1}, {200, 1}, {200, 40}, {BIG, 1}, {BIG, 9}, {BIG, BIG}};
    struct packer *p = packer_new();

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t *bytes = sparse(rows[i].n, rows[i].step);
        struct arena memory;
        const uint8_t *back;
        struct buf out;
        size_t n;

        arena_init(&memory, 1u << 20);
        buf_init(&out, 1u << 20);
        buf_put_u8(&out, 77);
        pack_put(p, &out, bytes, rows[i].n);
        assert_ok(out.bad);
        assert_int_equal(out.p[0], 77);
        assert_true(out.n <= rows[i].n + 11);
        assert_ok(pack_open(p, &memory, &back, &n, out.p + 1, out.n - 1, rows[i].n));
        assert_int_equal(n, rows[i].n);
        assert_memory_equal(back, bytes, n);
        if (n) {
            assert_err(pack_open(p, &memory, &back, &n, out.p + 1, out.n - 1, n - 1), ERR_FULL);
        }
        buf_fini(&out);
        arena_fini(&memory);
        mem_free(bytes);
    }
    packer_destroy(p);
}

static void what_repeats_becomes_smaller(void **state)
{
    struct packer *p = packer_new();
    uint8_t *bytes = sparse(BIG, 500);
    struct buf out;

    buf_init(&out, 1u << 20);
    pack_put(p, &out, bytes, BIG);
    assert_ok(out.bad);
    assert_true(out.n < BIG / 20);
    buf_fini(&out);
    mem_free(bytes);
    packer_destroy(p);
}

static void every_shorter_pack_is_refused(void **state)
{
    struct packer *p = packer_new();

    for (unsigned step = 1; step < 300; step += 99) {
        uint8_t *bytes = sparse(2000, step);
        struct buf out;

        buf_init(&out, 1u << 20);
        pack_put(p, &out, bytes, 2000);
        assert_ok(out.bad);
        for (size_t n = 0; n < out.n; n++) {
            uint8_t *part = mem_dup(out.p, n ? n : 1); /* of this size, so that one more is seen */
            struct arena memory;
            const uint8_t *back;
            size_t back_n;

            arena_init(&memory, 1u << 20);
            assert_non_null(part);
            assert_err(pack_open(p, &memory, &back, &back_n, part, n, 2000), ERR_CORRUPT);
            arena_fini(&memory);
            mem_free(part);
        }
        buf_fini(&out);
        mem_free(bytes);
    }
    packer_destroy(p);
}

static void a_length_beyond_what_is_allowed_allocates_nothing(void **state)
{
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0};
    struct packer *p = packer_new();
    const uint8_t *back;
    struct arena memory;
    size_t n;

    arena_init(&memory, 1000);
    assert_err(pack_open(p, &memory, &back, &n, huge, sizeof huge, 1u << 20), ERR_FULL);
    assert_int_equal(memory.used, 0);
    assert_err(pack_open(p, &memory, &back, &n, "\x81\x40zzz", 5, 1u << 20), ERR_FULL);
    arena_fini(&memory);
    packer_destroy(p);
}

static void a_buffer_that_is_full_says_so(void **state)
{
    struct packer *p = packer_new();
    uint8_t *bytes = sparse(2000, 1);
    struct buf out;

    buf_init(&out, 500);
    pack_put(p, &out, bytes, 2000);
    assert_err(out.bad, ERR_FULL);
    buf_fini(&out);
    mem_free(bytes);
    packer_destroy(p);
}

static enum err round_trip(const uint8_t *bytes)
{
    struct packer *p;
    struct arena memory;
    struct buf out;
    const uint8_t *back;
    size_t n;
    enum err e = packer_create(&p);

    if (e) {
        return e;
    }
    arena_init(&memory, 1u << 20);
    buf_init(&out, 1u << 20);
    pack_put(p, &out, bytes, 5000);
    e = out.bad;
    if (!e) {
        e = pack_open(p, &memory, &back, &n, out.p, out.n, 5000);
    }
    buf_fini(&out);
    arena_fini(&memory);
    packer_destroy(p);
    return e;
}

static void running_out_of_memory_is_survived(void **state)
{
    uint8_t *bytes = sparse(5000, 9);
    long live = mem_live(), n = 0;
    enum err e;

    do {
        mem_fail_after(n++);
        e = round_trip(bytes);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(mem_live(), live);
    } while (e);
    assert_true(n > 4);
    mem_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_open_to_the_same_bytes),
        cmocka_unit_test(what_repeats_becomes_smaller),
        cmocka_unit_test(every_shorter_pack_is_refused),
        cmocka_unit_test(a_length_beyond_what_is_allowed_allocates_nothing),
        cmocka_unit_test(a_buffer_that_is_full_says_so),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
