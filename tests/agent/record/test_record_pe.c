#include "agent/record/record_pe.h"

#include <string.h>

#include "tests/support/t.h"

enum { PE = 0x80, SECTIONS = 2, DEBUG_AT = 0x300, NAME_AT = 0x380, SIZE = 0x400 };

struct file {
    uint8_t bytes[SIZE];
    size_t n;
};

static bool file_read(void *ctx, uint64_t offset, void *p, size_t n)
{
    const struct file *f = ctx;

    if (offset > f->n || n > f->n - offset) {
        return false;
    }
    memcpy(p, f->bytes + offset, n);
    return true;
}

static void put16(struct file *f, size_t at, unsigned v)
{
    f->bytes[at] = (uint8_t)v;
    f->bytes[at + 1] = (uint8_t)(v >> 8);
}

static void put32(struct file *f, size_t at, uint32_t v)
{
    put16(f, at, v & 0xffff);
    put16(f, at + 2, v >> 16);
}

/* Two sections, of which the second holds two entries of the debug directory and the symbols. */
static void file_make(struct file *f, bool wide)
{
    const size_t optional = PE + 24, n = wide ? 240 : 224, directory = optional + n - 128 + 48,
                 section = optional + n + 40, name = NAME_AT;

    *f = (struct file){.n = SIZE};
    memcpy(f->bytes, "MZ", 2);
    put32(f, 0x3c, PE);
    memcpy(f->bytes + PE, "PE", 2);
    put16(f, PE + 6, SECTIONS);
    put32(f, PE + 8, 0x5eadbeef);
    put16(f, PE + 20, (unsigned)n);
    put16(f, optional, wide ? 0x20b : 0x10b);
    put32(f, optional + 56, 0x12000);
    put32(f, optional + n - 132, 16);
    put32(f, directory, 0x5010);
    put32(f, directory + 4, 56);
    put32(f, section + 8, 0x1000);
    put32(f, section + 12, 0x5000);
    put32(f, section + 16, 0x200);
    put32(f, section + 20, DEBUG_AT - 0x10);
    put32(f, DEBUG_AT + 12, 4); /* of another kind */
    put32(f, DEBUG_AT + 28 + 12, 2);
    put32(f, DEBUG_AT + 28 + 16, 24 + 6);
    put32(f, DEBUG_AT + 28 + 24, NAME_AT);
    memcpy(f->bytes + name, "RSDS", 4);
    for (unsigned i = 0; i < 16; i++) {
        f->bytes[name + 4 + i] = (uint8_t)(i + 1);
    }
    put32(f, name + 20, 7);
    memcpy(f->bytes + name + 24, "a.pdb", 6);
}

static void a_program_says_what_it_is(void **state)
{
    for (unsigned wide = 0; wide < 2; wide++) {
        struct record_pe_input in = {.read = file_read};
        struct record_pe pe;
        struct file f;

        file_make(&f, wide);
        in.ctx = &f;
        assert_ok(record_pe_read(&pe, &in));
        assert_int_equal(pe.size, 0x12000);
        assert_int_equal(pe.stamp, 0x5eadbeef);
        assert_true(pe.has_symbols);
        assert_int_equal(pe.rsds[0], 1);
        assert_int_equal(pe.rsds[15], 16);
        assert_int_equal(pe.age, 7);
        assert_string_equal(pe.pdb, "a.pdb");
        put32(&f, PE + 24 + (wide ? 240 : 224) - 132, 6); /* it has no debug directory */
        assert_ok(record_pe_read(&pe, &in));
        assert_false(pe.has_symbols);
        assert_string_equal(pe.pdb, "");
    }
}

static void a_file_cut_anywhere_says_less_or_nothing(void **state)
{
    struct record_pe_input in = {.read = file_read};
    struct record_pe pe;
    struct file f;

    file_make(&f, true);
    in.ctx = &f;
    for (f.n = 0; f.n < SIZE; f.n++) {
        enum err e = record_pe_read(&pe, &in);

        assert_true(e == ERR_OK || e == ERR_CORRUPT);
        assert_true(e || pe.size == 0x12000);
        assert_int_equal(!e && pe.has_symbols, f.n >= NAME_AT + 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_says_what_it_is),
        cmocka_unit_test(a_file_cut_anywhere_says_less_or_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
