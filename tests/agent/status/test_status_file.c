#include "agent/status/status_file.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct status full(void)
{
    struct status s = {.running = true,
                       .pid = UINT32_MAX,
                       .version = "0.1.0",
                       .host = "lab-7",
                       .started_ns = 1,
                       .written_ns = INT64_MAX,
                       .source = "live",
                       .detail = "session procfleet",
                       .polled = true,
                       .source_since_ns = 2,
                       .level = 4,
                       .level_since_ns = 3,
                       .cost = {.span_ns = 20,
                                .cpu_ppm = 21,
                                .cpus = 22,
                                .cpu_permille = 23,
                                .memory = 24,
                                .limit = 25},
                       .uplink = "unreachable",
                       .why = "nobody \"answers\"\n",
                       .uplink_since_ns = 4,
                       .processes = 5,
                       .reported = 18,
                       .filtered = 19,
                       .acknowledged = 6,
                       .quarantined = 7,
                       .bytes_sent = 8,
                       .queue_held = 9,
                       .queue_bytes = 10,
                       .queue_dropped = 11,
                       .aside_held = 12,
                       .aside_bytes = 13,
                       .certificate_end_ns = 14,
                       .renew_ns = 15,
                       .renewed = 16,
                       .renew_failed = 17,
                       .renew_why = "the collector refuses",
                       .n_notes = 2,
                       .notes = {{1, true, "from L1 to L0"}, {2, false, "polled"}},
                       .n_losses = 1,
                       .losses = {{"source", "lost_events", true, 13, 12}}};

    return s;
}

static void what_is_written_is_what_is_read(void **state)
{
    struct status in = full(), out;
    char dir[256];

    (void)support_temp_dir(dir, sizeof dir);
    assert_err(status_file_read(&out, dir), ERR_NOTFOUND);
    for (int i = 0; i < 2; i++) { /* it replaces what is there */
        memset(&out, 0, sizeof out);
        in.pid -= (uint32_t)i;
        assert_ok(status_file_write(dir, &in));
        assert_ok(status_file_read(&out, dir));
        assert_memory_equal(&in, &out, sizeof in);
    }
    support_remove_dir(dir);
}

static void the_fullest_status_fits_the_file(void **state)
{
    struct status *s = mem_zalloc(sizeof *s), *out = mem_zalloc(sizeof *out);
    struct buf b;

    assert_non_null(s);
    assert_non_null(out);
    *s = full();
    memset(s->why, 1, sizeof s->why - 1); /* six bytes each in JSON */
    memset(s->detail, 1, sizeof s->detail - 1);
    memset(s->renew_why, 1, sizeof s->renew_why - 1);
    s->n_notes = STATUS_NOTES;
    for (size_t i = 0; i < STATUS_NOTES; i++) {
        memset(s->notes[i].text, 1, sizeof s->notes[i].text - 1);
    }
    s->n_losses = STATUS_LOSSES;
    for (size_t i = 0; i < STATUS_LOSSES; i++) {
        memset(s->losses[i].stage, 's', sizeof s->losses[i].stage - 1);
        memset(s->losses[i].reason, 'r', sizeof s->losses[i].reason - 1);
        s->losses[i].total = s->losses[i].hour = UINT64_MAX; /* cut at what JSON's readers take */
    }
    buf_init(&b, STATUS_FILE_MAX);
    assert_ok(status_file_format(&b, s));
    assert_ok(status_file_parse(out, b.p, b.n));
    assert_int_equal(out->n_losses, STATUS_LOSSES);
    assert_int_equal(out->losses[0].total, INT64_MAX);
    assert_string_equal(out->notes[7].text, s->notes[7].text);
    buf_fini(&b);
    mem_free(out);
    mem_free(s);
}

/* As all JSON of ours: programs round what is beyond 2^53. */
static void no_number_exceeds_what_a_double_holds(void **state)
{
    struct status s = full(), out;
    struct buf b;

    s.bytes_sent = (UINT64_C(1) << 53) + 1;
    s.queue_bytes = UINT64_C(1) << 53;
    buf_init(&b, STATUS_FILE_MAX);
    assert_ok(status_file_format(&b, &s));
    assert_non_null(strstr(buf_cstr(&b), "\"written\": \"9223372036854775807\""));
    assert_non_null(strstr(buf_cstr(&b), "\"started\": \"1\"")); /* one type, whatever its size */
    assert_non_null(strstr(buf_cstr(&b), "\"bytes_sent\": \"9007199254740993\""));
    assert_non_null(strstr(buf_cstr(&b), "\"bytes\": 9007199254740992"));
    assert_ok(status_file_parse(&out, b.p, b.n));
    assert_true(out.bytes_sent == s.bytes_sent && out.queue_bytes == s.queue_bytes);
    assert_true(out.started_ns == 1 && out.written_ns == INT64_MAX);
    buf_fini(&b);
}

/* An agent of an older version may still run while its files are read by the newer program. */
static void numbers_may_be_digits_or_not(void **state)
{
    static const char text[] = "{\"started\": 7, \"written\": \"8\", \"processes\": \"9\"}";
    struct status out;

    assert_ok(status_file_parse(&out, text, strlen(text)));
    assert_true(out.started_ns == 7 && out.written_ns == 8 && out.processes == 9);
}

static void text_that_is_no_utf_8_is_told_with_escapes(void **state)
{
    struct status s = full(), out = {0};
    struct buf b;

    (void)snprintf(s.why, sizeof s.why, "C:\\\xFF");
    buf_init(&b, STATUS_FILE_MAX);
    assert_ok(status_file_format(&b, &s));
    assert_ok(status_file_parse(&out, b.p, b.n));
    assert_string_equal(out.why, "C:\\\\xff");
    buf_fini(&b);
}

static void every_shorter_file_is_refused(void **state)
{
    struct status s = full(), out = {.pid = 77};
    struct buf b;
    size_t end;

    buf_init(&b, STATUS_FILE_MAX);
    assert_ok(status_file_format(&b, &s));
    end = b.n;
    while (end > 0 && b.p[end - 1] != '}') {
        end--;
    }
    for (size_t n = 0; n < end; n++) {
        uint8_t *part = mem_dup(b.p, n);

        assert_err(status_file_parse(&out, part, n), ERR_CORRUPT);
        mem_free(part);
    }
    assert_int_equal(out.pid, 77); /* untouched by all of them */
    buf_fini(&b);
}

static void what_is_not_as_expected_is_corrupt_or_skipped(void **state)
{
    static const struct {
        const char *text;
        enum err e;
    } table[] = {
        {"{}", ERR_OK},
        {"{\"newer\":[{}],\"pid\":1}", ERR_OK},
        {"[]", ERR_CORRUPT},
        {"null", ERR_CORRUPT},
        {"{\"format\":2}", ERR_CORRUPT},
        {"{\"pid\":-1}", ERR_CORRUPT},
        {"{\"pid\":4294967296}", ERR_CORRUPT},
        {"{\"pid\":1.5}", ERR_CORRUPT},
        {"{\"pid\":\"1\"}", ERR_OK},
        {"{\"pid\":\"\"}", ERR_CORRUPT},
        {"{\"pid\":\"1x\"}", ERR_CORRUPT},
        {"{\"pid\":\" 1\"}", ERR_CORRUPT},
        {"{\"pid\":\"-1\"}", ERR_CORRUPT},
        {"{\"pid\":\"0x1\"}", ERR_CORRUPT},
        {"{\"pid\":\"4294967296\"}", ERR_CORRUPT},
        {"{\"started\":\"9223372036854775808\"}", ERR_CORRUPT},
        {"{\"started\":-5}", ERR_CORRUPT},
        {"{\"running\":1}", ERR_CORRUPT},
        {"{\"source\":[]}", ERR_CORRUPT},
        {"{\"source\":{\"name\":7}}", ERR_CORRUPT},
        {"{\"level\":{\"now\":5}}", ERR_CORRUPT},
        {"{\"notes\":{}}", ERR_CORRUPT},
        {"{\"notes\":[7]}", ERR_CORRUPT},
        {"{\"losses\":[{\"total\":-1}]}", ERR_CORRUPT},
        {"{\"losses\":[null]}", ERR_CORRUPT},
        {"{\"why\":\"\\u0000\"}", ERR_CORRUPT},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct status out;
        enum err e = status_file_parse(&out, table[i].text, strlen(table[i].text));

        if (e != table[i].e) {
            fail_msg("%s gives %s", table[i].text, err_name(e));
        }
    }
}

static void long_texts_and_lists_are_cut(void **state)
{
    struct status out;
    struct buf b;

    buf_init(&b, STATUS_FILE_MAX);
    buf_put_str(&b, "{\"version\":\"");
    for (int i = 0; i < 200; i++) {
        buf_put_str(&b, "\xC3\xA4");
    }
    buf_put_str(&b, "\",\"notes\":[{}");
    for (int i = 0; i < 1000; i++) {
        buf_put_str(&b, ",{}");
    }
    buf_put_str(&b, "]}");
    assert_ok(status_file_parse(&out, b.p, b.n));
    assert_int_equal(strlen(out.version), 30); /* whole characters */
    assert_int_equal(out.n_notes, STATUS_NOTES);
    buf_fini(&b);
}

static void nesting_without_end_is_refused(void **state)
{
    size_t n = STATUS_FILE_MAX;
    char *text = mem_alloc(n);
    struct status out;

    assert_non_null(text);
    memset(text, '[', n);
    assert_err(status_file_parse(&out, text, n), ERR_CORRUPT);
    for (size_t i = 0; i + 5 <= n; i += 5) {
        memcpy(text + i, "{\"a\":", 5);
    }
    assert_err(status_file_parse(&out, text, n), ERR_CORRUPT);
    mem_free(text);
}

static void a_directory_that_is_gone_is_told(void **state)
{
    struct status s = full();
    char dir[256];

    (void)support_temp_dir(dir, sizeof dir);
    support_remove_dir(dir);
    assert_true(status_file_write(dir, &s) != ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_is_read),
        cmocka_unit_test(the_fullest_status_fits_the_file),
        cmocka_unit_test(no_number_exceeds_what_a_double_holds),
        cmocka_unit_test(numbers_may_be_digits_or_not),
        cmocka_unit_test(text_that_is_no_utf_8_is_told_with_escapes),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(what_is_not_as_expected_is_corrupt_or_skipped),
        cmocka_unit_test(long_texts_and_lists_are_cut),
        cmocka_unit_test(nesting_without_end_is_refused),
        cmocka_unit_test(a_directory_that_is_gone_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
