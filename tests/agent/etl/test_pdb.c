/* The file of seeds is a whole database of two modules' procedures and public symbols. */
#include "agent/etl/symbol/etl_pdb.h"

#include <string.h>

#include "tests/support/t.h"

struct bytes {
    uint8_t p[8192];
    size_t n;
};

static struct bytes small;

static bool bytes_read(void *ctx, uint64_t offset, void *to, size_t n)
{
    const struct bytes *b = ctx;

    if (offset > b->n || n > b->n - offset) {
        return false;
    }
    memcpy(to, b->p + offset, n);
    return true;
}

static const struct etl_pdb_input input = {bytes_read, &small};

static int read_small(void **state)
{
    FILE *f = fopen("tests/fuzz/seeds/fuzz_pdb/small", "rb");

    (void)state;
    if (f) {
        small.n = fread(small.p, 1, sizeof small.p, f);
        fclose(f);
    }
    return small.n == 0;
}

static void names_are_those_of_procedures_and_below_them_of_public_symbols(void **state)
{
    static const struct {
        uint32_t rva, start;
        const char *name;
    } want[] = {{0x1000, 0, ""},
                {0x1010, 0x1010, "ns::first"},
                {0x102f, 0x1010, "ns::first"},
                {0x1030, 0, ""},
                {0x1040, 0x1040, "alike"}, /* of two at one place the first by name */
                {0x1060, 0x1060, "Outer::Inner::Third"},
                {0x107f, 0x1060, "Outer::Inner::Third"},
                {0x1080, 0x1080, "ns::Made::Made"},
                {0x10a8, 0x10a0, "ns::Made::~Made"},
                {0x10d0, 0x10c0, "_plain"}, /* data is no function */
                {0x10ff, 0x10c0, "_plain"},
                {0x1100, 0, ""}}; /* behind the section */
    struct etl_pdb_hit hits[COUNT_OF(want)];
    uint32_t rvas[COUNT_OF(want)];
    char name[ETL_PDB_NAME];
    struct etl_pdb *pdb;

    (void)state;
    assert_ok(etl_pdb_open(&pdb, &input));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        rvas[i] = want[i].rva;
    }
    assert_ok(etl_pdb_find(pdb, rvas, COUNT_OF(want), hits));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        etl_pdb_name(pdb, &hits[i], name);
        assert_string_equal(name, want[i].name);
        assert_int_equal(hits[i].start, want[i].start);
    }
    etl_pdb_close(pdb);
}

static void it_is_known_by_its_guid_and_the_age_of_its_symbols(void **state)
{
    uint8_t guid[16];
    struct etl_pdb *pdb;

    (void)state;
    for (uint8_t i = 0; i < 16; i++) {
        guid[i] = i;
    }
    assert_ok(etl_pdb_open(&pdb, &input));
    assert_true(etl_pdb_is(pdb, guid, 1));
    assert_false(etl_pdb_is(pdb, guid, 2)); /* of the file */
    guid[15]++;
    assert_false(etl_pdb_is(pdb, guid, 1));
    etl_pdb_close(pdb);
}

static void every_shorter_file_is_refused_or_has_fewer_names(void **state)
{
    const size_t whole = small.n;
    static const uint32_t rva = 0x10ff;
    struct etl_pdb_hit hit;
    struct etl_pdb *pdb;
    enum err e;

    (void)state;
    for (small.n = 0; small.n < whole; small.n++) {
        e = etl_pdb_open(&pdb, &input);
        if (e == ERR_OK) {
            assert_ok(etl_pdb_find(pdb, &rva, 1, &hit));
            etl_pdb_close(pdb);
        } else {
            assert_int_equal(e, ERR_CORRUPT);
        }
    }
    small.n = whole;
    small.p[0]++;
    assert_err(etl_pdb_open(&pdb, &input), ERR_UNSUPPORTED);
    small.p[0]--;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_procedures_and_below_them_of_public_symbols),
        cmocka_unit_test(it_is_known_by_its_guid_and_the_age_of_its_symbols),
        cmocka_unit_test(every_shorter_file_is_refused_or_has_fewer_names),
    };

    return cmocka_run_group_tests(tests, read_small, NULL);
}
