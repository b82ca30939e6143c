#include "common/os/fio.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

static const char *path_of(const char *name)
{
    static char path[2][400];
    static unsigned turn;
    char *p = path[turn++ % 2];

    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

/* What a file holds for whoever opens it now; "-" when there is none. */
static const char *content(const char *name)
{
    static char text[64];
    const struct fio *fio = fio_os();
    struct fio_file *f;
    size_t n;

    if (fio->open(fio->ctx, &f, path_of(name)) != ERR_OK) {
        return "-";
    }
    assert_ok(fio->read(fio->ctx, f, 0, text, sizeof text - 1, &n));
    fio->close(fio->ctx, f);
    text[n] = '\0';
    return text;
}

static struct fio_file *create(const struct fio *fio, const char *name, const char *text)
{
    struct fio_file *f;

    assert_ok(fio->create(fio->ctx, &f, path_of(name)));
    assert_ok(fio->write(fio->ctx, f, 0, text, strlen(text)));
    return f;
}

static void files_are_read_where_they_were_written(void **state)
{
    const struct fio *fio = fio_os();
    struct fio_file *f = create(fio, "a", "hello world");
    uint64_t size;
    char p[16];
    size_t got;

    assert_ok(fio->write(NULL, f, 6, "there", 5));
    assert_ok(fio->read(NULL, f, 4, p, sizeof p, &got));
    assert_int_equal(got, 7);
    assert_memory_equal(p, "o there", 7);
    assert_ok(fio->read(NULL, f, 100, p, sizeof p, &got));
    assert_int_equal(got, 0);
    assert_ok(fio->truncate(NULL, f, 5));
    assert_ok(fio->sync(NULL, f));
    assert_ok(fio->size(NULL, f, &size));
    assert_int_equal(size, 5);
    fio->close(NULL, f);
    assert_string_equal(content("a"), "hello");
    assert_ok(os_check_private(path_of("a")));
    assert_ok(fio->open(NULL, &f, path_of("a")));
    assert_ok(fio->write(NULL, f, 5, "!", 1));
    fio->close(NULL, f);
    assert_string_equal(content("a"), "hello!");
}

static void names_are_made_moved_and_removed(void **state)
{
    const struct fio *fio = fio_os();
    struct fio_file *f;

    assert_err(fio->open(NULL, &f, path_of("a")), ERR_NOTFOUND);
    fio->close(NULL, create(fio, "a", "x"));
    assert_err(fio->create(NULL, &f, path_of("a")), ERR_EXISTS);
    assert_ok(fio->rename(NULL, path_of("a"), path_of("b")));
    assert_string_equal(content("a"), "-");
    assert_string_equal(content("b"), "x");
    assert_ok(fio->sync_dir(NULL, dir));
    assert_ok(fio->remove(NULL, path_of("b")));
    assert_err(fio->remove(NULL, path_of("b")), ERR_NOTFOUND);
    assert_err(fio->sync_dir(NULL, path_of("nowhere")), ERR_NOTFOUND);
    fio->close(NULL, NULL);
}

/* -- the layer that fails -- */

static void power_takes_what_was_not_synced(void **state)
{
    struct fio_fault *layer;
    const struct fio *fio;
    struct fio_file *f, *lost;

    assert_ok(fio_fault_create(&layer));
    fio = fio_fault_fio(layer);
    f = create(fio, "a", "safe");
    assert_ok(fio->sync(fio->ctx, f));
    assert_string_equal(content("a"), "-"); /* the name is not durable */
    assert_ok(fio->sync_dir(fio->ctx, dir));
    assert_string_equal(content("a"), "safe");
    assert_ok(fio->write(fio->ctx, f, 4, " gone", 5));
    assert_string_equal(content("a"), "safe");
    lost = create(fio, "b", "x");
    assert_ok(fio->sync(fio->ctx, lost));
    fio_fault_power_cut(layer, FIO_KEEP_NOTHING, 1);
    assert_err(fio->sync(fio->ctx, f), ERR_IO);
    assert_err(fio->sync_dir(fio->ctx, dir), ERR_IO);
    fio->close(fio->ctx, f);
    fio->close(fio->ctx, lost);
    fio_fault_destroy(layer);
    assert_string_equal(content("a"), "safe");
    assert_string_equal(content("b"), "-");
}

static void the_writer_sees_what_is_not_durable_yet(void **state)
{
    struct fio_fault *layer;
    const struct fio *fio;
    struct fio_file *f;
    uint64_t size;
    char p[16];
    size_t got;

    assert_ok(fio_fault_create(&layer));
    fio = fio_fault_fio(layer);
    f = create(fio, "a", "hello world");
    assert_ok(fio->write(fio->ctx, f, 6, "there", 5));
    assert_ok(fio->read(fio->ctx, f, 4, p, sizeof p, &got));
    assert_int_equal(got, 7);
    assert_memory_equal(p, "o there", 7);
    assert_ok(fio->truncate(fio->ctx, f, 5));
    assert_ok(fio->size(fio->ctx, f, &size));
    assert_int_equal(size, 5);
    assert_ok(fio->sync(fio->ctx, f));
    assert_ok(fio->sync_dir(fio->ctx, dir));
    assert_string_equal(content("a"), "hello");
    fio->close(fio->ctx, f); /* Windows keeps the name of an open file */
    assert_ok(fio->remove(fio->ctx, path_of("a")));
    assert_string_equal(content("a"), "hello"); /* may come back */
    assert_ok(fio->sync_dir(fio->ctx, dir));
    assert_string_equal(content("a"), "-");
    fio_fault_destroy(layer);
}

static void chosen_operations_fail_and_a_full_disk_takes_a_part(void **state)
{
    struct fio_fault *layer;
    const struct fio *fio;
    struct fio_file *f;

    assert_ok(fio_fault_create(&layer));
    fio = fio_fault_fio(layer);
    f = create(fio, "a", "");
    fio_fault_fail(layer, FIO_SYNC, 1, ERR_IO, false);
    assert_ok(fio->sync(fio->ctx, f));
    assert_err(fio->sync(fio->ctx, f), ERR_IO);
    assert_ok(fio->sync(fio->ctx, f));
    assert_int_equal(fio_fault_count(layer, FIO_SYNC), 3);
    fio_fault_disk_full(layer, 4);
    assert_err(fio->write(fio->ctx, f, 0, "123456", 6), ERR_NOSPACE);
    assert_ok(fio->sync(fio->ctx, f));
    assert_ok(fio->sync_dir(fio->ctx, dir));
    assert_string_equal(content("a"), "1234");
    fio->close(fio->ctx, f);
    fio_fault_destroy(layer);
}

#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(files_are_read_where_they_were_written),
        T(names_are_made_moved_and_removed),
        T(power_takes_what_was_not_synced),
        T(the_writer_sees_what_is_not_durable_yet),
        T(chosen_operations_fail_and_a_full_disk_takes_a_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
