#include "collector/ca/book.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

struct rig {
    char dir[256], path[300];
    const struct fio *fio;
    struct book *book;
    struct errmsg why;
    char seen[4096]; /* lines, each with '\n' */
    unsigned begun;
};

static enum err on_begin(void *ctx)
{
    struct rig *r = ctx;

    r->begun++;
    r->seen[0] = '\0';
    return ERR_OK;
}

static enum err on_line(void *ctx, const char *text, size_t n)
{
    struct rig *r = ctx;
    size_t have = strlen(r->seen);

    assert_int_equal(strlen(text), n);
    snprintf(r->seen + have, sizeof r->seen - have, "%s\n", text);
    return ERR_OK;
}

static enum err read_it(struct rig *r)
{
    const struct book_reader to = {on_begin, on_line, r};

    return book_read(r->book, &to, &r->why);
}

static enum err reopen(struct rig *r)
{
    book_close(r->book);
    r->book = NULL;
    r->seen[0] = '\0';
    return book_open(&r->book, r->dir, r->fio, &r->why);
}

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    r->fio = fio_os();
    support_temp_dir(r->dir, sizeof r->dir);
    snprintf(r->path, sizeof r->path, "%s/book", r->dir);
    assert_ok(reopen(r));
}

static void rig_close(struct rig *r)
{
    book_close(r->book);
    support_remove_dir(r->dir);
}

static enum err append(struct rig *r, const char *text)
{
    enum err e = book_lock(r->book, &r->why);

    if (!e) {
        e = read_it(r);
    }
    if (!e) {
        e = book_append(r->book, text, strlen(text), &r->why);
    }
    book_unlock(r->book);
    return e;
}

static void put_file(struct rig *r, const void *p, size_t n)
{
    assert_ok(os_write_file(r->path, p, n, true));
}

static void lines_come_back_in_their_order(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    assert_ok(append(&r, "one"));
    assert_ok(append(&r, "two words"));
    assert_ok(read_it(&r));
    assert_string_equal(r.seen, "one\ntwo words\n");
    assert_int_equal(book_lines(r.book), 2);
    assert_int_equal(r.begun, 1);
    assert_ok(reopen(&r));
    assert_ok(read_it(&r));
    assert_string_equal(r.seen, "one\ntwo words\n");
    assert_ok(os_check_private(r.path));
    rig_close(&r);
}

static void what_another_book_on_the_file_appends_is_seen(void **state)
{
    struct rig a, b;

    (void)state;
    rig_open(&a);
    b = a;
    b.book = NULL;
    assert_ok(reopen(&b));
    assert_ok(append(&a, "a1"));
    assert_ok(append(&b, "b1"));
    assert_ok(append(&a, "a2"));
    assert_ok(read_it(&a));
    assert_ok(read_it(&b));
    assert_string_equal(a.seen, "a1\nb1\na2\n");
    assert_string_equal(b.seen, "a1\nb1\na2\n");
    assert_ok(book_lock(a.book, &a.why));
    book_unlock(a.book);
    book_close(b.book);
    rig_close(&a);
}

static void what_is_no_line_is_refused(void **state)
{
    static char longest[BOOK_LINE_MAX + 2];
    static const char *const bad[] = {"", "a\nb", "tab\t", "\xc3\xa4", longest};
    struct rig r;

    (void)state;
    memset(longest, 'x', BOOK_LINE_MAX + 1);
    rig_open(&r);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(append(&r, bad[i]), ERR_INVALID);
    }
    longest[BOOK_LINE_MAX] = '\0';
    assert_ok(append(&r, longest));
    assert_ok(read_it(&r));
    assert_int_equal(book_lines(r.book), 1);
    rig_close(&r);
}

static void a_book_cut_anywhere_holds_its_whole_lines_and_goes_on(void **state)
{
    struct rig r;
    uint8_t *whole;
    size_t n;

    (void)state;
    rig_open(&r);
    assert_ok(append(&r, "first"));
    assert_ok(append(&r, "second"));
    assert_ok(os_read_file(&whole, &n, r.path, 4096));
    for (size_t cut = 0; cut <= n; cut++) {
        enum err e;

        put_file(&r, whole, cut);
        assert_ok(reopen(&r));
        e = append(&r, "third");
        if (cut < 51) { /* its first line is cut */
            assert_err(e, ERR_CORRUPT);
            continue;
        }
        assert_ok(e);
        assert_ok(reopen(&r));
        assert_ok(read_it(&r));
        assert_string_equal(r.seen, cut == n                 ? "first\nsecond\nthird\n"
                                    : cut >= 51 + 17 + 5 + 1 ? "first\nthird\n"
                                                             : "third\n");
    }
    mem_free(whole);
    rig_close(&r);
}

/* Whatever bit tips over: the book says what it said, lacks its last line, or is refused. */
static void a_flipped_bit_never_changes_what_the_book_says(void **state)
{
    struct rig r;
    uint8_t *whole;
    size_t n, refused = 0, lost = 0;

    (void)state;
    rig_open(&r);
    assert_ok(append(&r, "first"));
    assert_ok(append(&r, "second"));
    assert_ok(os_read_file(&whole, &n, r.path, 4096));
    for (size_t bit = 0; bit < 8 * n; bit++) {
        enum err e;

        whole[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put_file(&r, whole, n);
        whole[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_ok(reopen(&r));
        e = read_it(&r);
        if (e) {
            assert_true(e == ERR_CORRUPT || e == ERR_VERSION);
            assert_non_null(strstr(r.why.text, "book"));
            refused++;
            continue;
        }
        assert_string_equal(r.seen, "first\n");
        lost++;
        assert_true(bit / 8 >= n - (17 + 6 + 1)); /* in the last line */
    }
    assert_int_equal(refused + lost, 8 * n);
    assert_true(lost < 8 * (17 + 6 + 1) / 2);
    mem_free(whole);
    rig_close(&r);
}

static void a_later_version_is_left_alone(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    put_file(&r, "", 0);
    assert_ok(reopen(&r));
    assert_err(read_it(&r), ERR_CORRUPT);
    rig_close(&r);
}

static bool keep_even(void *ctx, const char *text, size_t n)
{
    (void)ctx;
    return (text[n - 1] - '0') % 2 == 0;
}

static void a_tidied_book_is_read_anew_by_everybody(void **state)
{
    struct rig a, b;

    (void)state;
    rig_open(&a);
    b = a;
    b.book = NULL;
    assert_ok(reopen(&b));
    for (char c = '0'; c <= '9'; c++) {
        assert_ok(append(&a, (char[]){'l', c, '\0'}));
    }
    assert_ok(read_it(&b));
    assert_ok(book_lock(a.book, &a.why));
    assert_ok(book_tidy(a.book, keep_even, NULL, &a.why));
    book_unlock(a.book);
    assert_ok(append(&b, "end"));
    assert_ok(read_it(&a));
    assert_ok(read_it(&b));
    assert_string_equal(a.seen, "l0\nl2\nl4\nl6\nl8\nend\n");
    assert_string_equal(b.seen, a.seen);
    assert_int_equal(b.begun, 2);
    assert_int_equal(book_lines(b.book), 6);
    book_close(b.book);
    rig_close(&a);
}

/* Lines said to be durable are there after the power fails, whatever became of the one under way.
 */
static void durable_lines_survive_power_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fio_fault *fault;
        struct rig r;
        unsigned durable = 0, found = 0;
        char text[200];

        rig_open(&r);
        assert_ok(fio_fault_create(&fault));
        r.fio = fio_fault_fio(fault);
        assert_ok(reopen(&r));
        fio_fault_fail(fault, FIO_SYNC, (long)(seed % 5), ERR_IO, true);
        for (unsigned i = 0; i < 8; i++) {
            snprintf(text, sizeof text, "line %u %0*u", i, (int)(seed * 7 % 150) + 1, 0u);
            if (append(&r, text) != ERR_OK) {
                break;
            }
            durable++;
        }
        assert_int_equal(durable, seed % 5);
        fio_fault_power_cut(fault, (enum fio_fault_keep)(seed % 3), seed);
        book_close(r.book);
        r.book = NULL;
        fio_fault_destroy(fault);
        r.fio = fio_os();
        assert_ok(reopen(&r));
        assert_ok(append(&r, "again"));
        assert_ok(read_it(&r));
        for (const char *p = strstr(r.seen, "line "); p; p = strstr(p + 1, "line ")) {
            assert_int_equal(p[5] - '0', found);
            found++;
        }
        assert_true(found >= durable && found <= durable + 1);
        assert_non_null(strstr(r.seen, "again\n"));
        rig_close(&r);
    }
}

static void a_full_disk_leaves_the_book_as_it_was(void **state)
{
    struct fio_fault *fault;
    struct rig r;

    (void)state;
    rig_open(&r);
    assert_ok(append(&r, "before"));
    assert_ok(fio_fault_create(&fault));
    r.fio = fio_fault_fio(fault);
    for (uint64_t left = 0; left < 17 + 5 + 1; left++) {
        assert_ok(reopen(&r));
        fio_fault_disk_full(fault, left);
        assert_err(append(&r, "after"), ERR_NOSPACE);
        fio_fault_disk_full(fault, 1u << 20);
        assert_ok(read_it(&r));
        assert_string_equal(r.seen, "before\n");
    }
    assert_ok(append(&r, "after"));
    assert_ok(read_it(&r));
    assert_string_equal(r.seen, "before\nafter\n");
    book_close(r.book);
    r.book = NULL;
    fio_fault_destroy(fault);
    support_remove_dir(r.dir);
}

static void a_book_that_others_can_read_is_refused(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    book_close(r.book);
    r.book = NULL;
    assert_ok(os_write_file(r.path, "x", 1, false));
    assert_err(reopen(&r), ERR_ACCESS);
    assert_non_null(strstr(r.why.text, "chmod"));
    rig_close(&r);
}

static void a_read_only_disk_is_said_with_its_remedy(void **state)
{
    struct fio_fault *fault;
    struct rig r;

    (void)state;
    rig_open(&r);
    assert_ok(append(&r, "line"));
    assert_ok(fio_fault_create(&fault));
    r.fio = fio_fault_fio(fault);
    assert_ok(reopen(&r));
    fio_fault_fail(fault, FIO_OPEN, 0, ERR_READONLY, true);
    assert_err(read_it(&r), ERR_READONLY);
    assert_non_null(strstr(r.why.text, "mount it writable"));
    assert_null(strstr(r.why.text, "run this as"));
    rig_close(&r);
    fio_fault_destroy(fault);
}

static void no_directory_is_said_with_its_remedy(void **state)
{
    struct book *b;
    struct errmsg why;

    (void)state;
    assert_err(book_open(&b, "/nonexistent/pki", fio_os(), &why), ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "pki init"));
}

static void opening_survives_every_failed_allocation(void **state)
{
    struct rig r;
    enum err e = ERR_NOMEM;
    long live;

    (void)state;
    rig_open(&r);
    assert_ok(append(&r, "line"));
    book_close(r.book);
    r.book = NULL;
    live = mem_live();
    for (long n = 0; e; n++) {
        assert_true(n < 50);
        mem_fail_after(n);
        e = reopen(&r);
        if (!e) {
            e = append(&r, "more");
        }
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        book_close(r.book);
        r.book = NULL;
        assert_int_equal(mem_live(), live);
    }
    assert_ok(reopen(&r));
    assert_ok(read_it(&r));
    assert_string_equal(r.seen, "line\nmore\n");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_back_in_their_order),
        cmocka_unit_test(what_another_book_on_the_file_appends_is_seen),
        cmocka_unit_test(what_is_no_line_is_refused),
        cmocka_unit_test(a_book_cut_anywhere_holds_its_whole_lines_and_goes_on),
        cmocka_unit_test(a_flipped_bit_never_changes_what_the_book_says),
        cmocka_unit_test(a_later_version_is_left_alone),
        cmocka_unit_test(a_tidied_book_is_read_anew_by_everybody),
        cmocka_unit_test(durable_lines_survive_power_cuts),
        cmocka_unit_test(a_full_disk_leaves_the_book_as_it_was),
        cmocka_unit_test(a_book_that_others_can_read_is_refused),
        cmocka_unit_test(a_read_only_disk_is_said_with_its_remedy),
        cmocka_unit_test(no_directory_is_said_with_its_remedy),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
