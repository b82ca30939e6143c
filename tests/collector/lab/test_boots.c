/* The book of boots: what of a host's batches is kept, over restarts of the collector. */
#include "collector/lab/boots.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];
static const struct uuid host = {{1}};

struct book {
    struct lab_db *db;
    struct boots_book *b;
};

static void book_open(struct book *k)
{
    struct errmsg why = {""};

    assert_ok(lab_db_open(&k->db, dir, sqlite_fault_fio(), &why));
    assert_ok(boots_create(&k->b, k->db));
}

static void book_close(struct book *k)
{
    boots_destroy(k->b);
    lab_db_close(k->db);
}

static void stored(struct book *k, uint8_t boot, int64_t booted, int64_t first, int64_t last,
                   bool good_bye)
{
    boots_stored(k->b, &(struct boots_note){host, {{boot}}, booted, first, last, good_bye});
}

static enum err text_add(void *to, const struct query_boot *b)
{
    char *text = to;
    size_t n = strlen(text);

    (void)snprintf(text + n, 500 - n, "%s%u:%d:%d-%d%s", n ? " " : "", (unsigned)b->boot.b[0],
                   (int)b->booted_ns, (int)b->first_ns, (int)b->last_ns, b->good_bye ? "." : "");
    return ERR_OK;
}

static void check(struct book *k, int64_t since_ns, int64_t until_ns, const char *want)
{
    char text[500] = "";

    assert_ok(boots_each(k->b, &host, since_ns, until_ns, text_add, text));
    assert_string_equal(text, want);
}

static void a_boot_is_what_all_its_batches_say(void **state)
{
    struct book k;

    (void)state;
    book_open(&k);
    stored(&k, 1, 0, 100, 110, false);
    stored(&k, 1, 90, 110, 120, false);
    stored(&k, 2, 190, 200, 210, false);
    stored(&k, 1, 0, 120, 130, true); /* out of the spool, after the next boot's */
    assert_ok(boots_flush(k.b, false));
    check(&k, 0, INT64_MAX, "1:90:100-130. 2:190:200-210");
    check(&k, 131, INT64_MAX, "2:190:200-210");
    check(&k, 0, 200, "1:90:100-130.");
    stored(&k, 1, 0, 130, 140, false); /* the agent came again */
    assert_ok(boots_flush(k.b, false));
    check(&k, 0, INT64_MAX, "1:90:100-140 2:190:200-210");
    book_close(&k);
}

static void how_far_a_boot_goes_is_written_now_and_then(void **state)
{
    struct book k;

    (void)state;
    book_open(&k);
    stored(&k, 1, 90, 100, 110, false);
    assert_ok(boots_flush(k.b, false));
    stored(&k, 1, 90, 110, 120, false);
    assert_ok(boots_flush(k.b, false)); /* no new boot, no good-bye: later */
    check(&k, 0, INT64_MAX, "1:90:100-110");
    assert_ok(boots_flush(k.b, true));
    check(&k, 0, INT64_MAX, "1:90:100-120");
    stored(&k, 1, 90, 120, 125, false);
    book_close(&k); /* killed */
    book_open(&k);
    check(&k, 0, INT64_MAX, "1:90:100-120");
    stored(&k, 1, 0, 130, 135, true);
    assert_ok(boots_flush(k.b, true));
    check(&k, 0, INT64_MAX, "1:90:100-135.");
    book_close(&k);
}

static enum err count_one(void *to, const struct query_boot *b)
{
    size_t *n = to;

    assert_true(b->first_ns >= 10 * 45);
    ++*n;
    return ERR_OK;
}

static void the_newest_of_a_host_are_kept(void **state)
{
    struct book k;
    size_t n = 0;

    (void)state;
    book_open(&k);
    for (int64_t i = 1; i <= 300; i++) {
        struct boots_note note = {host, {{(uint8_t)i, (uint8_t)(i >> 8)}}, 0, 10 * i, 10 * i, true};

        boots_stored(k.b, &note);
    }
    assert_ok(boots_flush(k.b, true));
    assert_ok(boots_each(k.b, &host, 0, INT64_MAX, count_one, &n));
    assert_int_equal(n, BOOTS_OF_HOST);
    book_close(&k);
}

#define IN_DIR(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(a_boot_is_what_all_its_batches_say),
        IN_DIR(how_far_a_boot_goes_is_written_now_and_then),
        IN_DIR(the_newest_of_a_host_are_kept),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
