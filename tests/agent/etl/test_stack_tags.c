/* Stack tags: what a frame's tag is; a document that ends anywhere. */
#include "agent/etl/etl_stack_tags.h"

#include "tests/support/t.h"

static const char document[] =
    "<?xml version='1.0' encoding='utf-8'?><Tags><Tag Name='GC' Priority='2'>"
    "<Tag Name='Mark'><Entrypoint Module='clr.dll' Method='*mark*'/></Tag></Tag>"
    "<Tag Name='App'><Entrypoint Module='app.exe' Method='*'/></Tag></Tags>";

struct bytes {
    const char *p;
    size_t n;
};

static size_t bytes_read(void *ctx, void *p, size_t n)
{
    struct bytes *b = ctx;

    n = n < b->n ? n : b->n;
    memcpy(p, b->p, n);
    b->p += n;
    b->n -= n;
    return n;
}

static void the_first_entry_that_fits_a_frame_names_its_tag(void **state)
{
    static const struct {
        const char *frame, *tag;
        int32_t priority;
    } table[] = {
        {"clr!gc_mark_phase", "GC\\Mark", 2},
        {"app!Main", "App", 0},
        {"app.exe+0x12", "App", 0},
        {"other!mark", "(no tag)", INT32_MIN},
    };
    struct bytes b = {document, sizeof document - 1};
    struct etl_stack_tags *t;

    (void)state;
    assert_ok(etl_stack_tags_stream(&t, bytes_read, &b));
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint32_t tag = etl_stack_tags_of(t, str_make(table[i].frame));
        struct str name = etl_stack_tags_name(t, tag);

        assert_int_equal(name.n, strlen(table[i].tag));
        assert_memory_equal(name.p, table[i].tag, name.n);
        assert_int_equal(etl_stack_tags_priority(t, tag), table[i].priority);
    }
    etl_stack_tags_free(t);
}

static void every_shorter_document_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n + 1 < sizeof document; n++) {
        struct bytes b = {document, n};
        struct etl_stack_tags *t = NULL;

        assert_err(etl_stack_tags_stream(&t, bytes_read, &b), ERR_CORRUPT);
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_entry_that_fits_a_frame_names_its_tag),
        cmocka_unit_test(every_shorter_document_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
