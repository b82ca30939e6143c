/* Reading takes the same memory however long the recording is. */
#include "tests/support/t.h"

#include <stdio.h>

#include "agent/source/trace/etl_file.h"
#include "common/os/os.h"
#include "tests/support/etl_load.h"
#include "tests/support/support.h"

/* Sanitizers keep freed memory and a shadow of all of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT_MAX (96 << 20)
#else
#define RESIDENT_MAX (28 << 20)
#endif

#define FILE_BYTES (UINT64_C(128) << 20)

static char dir[256], path[300];

static void on_raw(void *ctx, const struct raw_event *ev)
{
    uint64_t *n = ctx;

    *n += !ev->early;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void reads_within(bool compress)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    uint64_t made = etl_load_make(path, FILE_BYTES, compress), n = 0;
    struct source_sink sink = {.ctx = &n, .raw = on_raw, .advance = on_advance};
    int64_t before = os_resident_bytes();
    struct source *src;

    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->close(src);
    assert_int_equal(n, made);
    assert_true(os_resident_peak() >= before);
    assert_true(os_resident_peak() - before < RESIDENT_MAX);
}

static void a_large_file_is_read_in_little_memory(void **state)
{
    reads_within(false);
}

static void a_large_compressed_file_is_read_in_little_memory(void **state)
{
    reads_within(true);
}

static int make_dir(void **state)
{
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/large.etl", dir);
    return 0;
}

static int remove_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_file_is_read_in_little_memory),
        cmocka_unit_test(a_large_compressed_file_is_read_in_little_memory),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
