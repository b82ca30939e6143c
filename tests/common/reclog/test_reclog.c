/* A log of a format of its own: a record is magic, u8 length, content, checksum of all before.
 * Headers, commits and real records are tested with each of the logs. */
#include "common/reclog/reclog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define SEED   99u
#define HEADER (2 * RECLOG_HEADER(2))

static const struct reclog_format format = {.magic = {'T', 'E', 'S', 'T', 0, 1, 2, 3},
                                            .record_magic = "REC1",
                                            .version = 3,
                                            .twice = 2,
                                            .extra_max = 7,
                                            .words = 2,
                                            .above_0 = 1,
                                            .look = 4 + 1 + 255 + 8};
static const uint64_t words[] = {5, SEED};

static void put_record(struct buf *b, const char *text)
{
    size_t start = b->n;

    buf_put(b, format.record_magic, RECLOG_MAGIC);
    buf_put_u8(b, (uint8_t)strlen(text));
    buf_put_str(b, text);
    reclog_seal(b, start, SEED);
}

static enum err parse(void *ctx, const uint8_t *p, size_t n, uint64_t left, size_t *used)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, RECLOG_MAGIC), *text;
    uint8_t text_n = cur_u8(&c);

    assert_true(n <= left);
    text = cur_bytes(&c, text_n);
    if (!reclog_is_sealed(&c, p, SEED) || memcmp(magic, format.record_magic, RECLOG_MAGIC) != 0) {
        return ERR_CORRUPT;
    }
    memcpy(ctx, text, text_n);
    ((char *)ctx)[text_n] = 0;
    *used = (size_t)(c.p - p);
    return ERR_OK;
}

static void a_window_moves_over_a_file_of_any_size(void **state)
{
    const struct fio *fio = fio_os();
    char text[256], path[300];
    struct reclog_reader r = {.format = &format, .fio = fio, .parse = parse, .ctx = text};
    uint64_t at = HEADER;
    size_t used;
    unsigned n = 0;
    struct buf b;

    (void)snprintf(path, sizeof path, "%s/log", (const char *)*state);
    buf_init(&b, 1u << 20);
    reclog_header_put(&b, &format, 0, words);
    for (unsigned i = 0; i < 1000; i++) {
        char record[64];

        (void)snprintf(record, sizeof record, "%0*u", (int)(1 + i % 50), i);
        put_record(&b, record);
        if (i % 7 == 3) {
            buf_put(&b, "REC1 noise RE", 13);
        }
    }
    assert_ok(os_write_file(path, b.p, b.n, false));
    assert_ok(fio->open(fio->ctx, &r.f, path));
    r.size = b.n;
    assert_ok(reclog_reader_open(&r, format.look));
    while (reclog_next(&r, &at, &used) == ERR_OK) {
        assert_int_equal(strtol(text, NULL, 10), n);
        at += used;
        n++;
    }
    assert_int_equal(n, 1000);
    reclog_reader_close(&r);
    r.size += 100; /* it has shrunk meanwhile */
    at = b.n - 1;
    assert_ok(reclog_reader_open(&r, format.look));
    assert_err(reclog_next(&r, &at, &used), ERR_IO);
    reclog_reader_close(&r);
    mem_fail_after(0);
    assert_err(reclog_reader_open(&r, format.look), ERR_NOMEM);
    mem_fail_after(-1);
    fio->close(fio->ctx, r.f);
    buf_fini(&b);
}

int main(void)
{
    static char dir[256];
#define D(name) \
    cmocka_unit_test_prestate_setup_teardown(name, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        D(a_window_moves_over_a_file_of_any_size),
    };
#undef D

    return cmocka_run_group_tests(tests, NULL, NULL);
}
